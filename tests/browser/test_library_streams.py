"""The client library in a page: streams through a worker, in both runtimes, and what becomes of them when it dies."""

import pytest

TEXT = "naïve 你好 👩‍🚀 é\ufeff\ufffd שלום 🇩🇪\n"


@pytest.fixture
def library(page, bridge):
    """A page of the bridge that has imported the library and done nothing else."""
    page.goto(bridge.url + "/src/index.js")  # any document of the bridge will do: its policy is the strict one
    page.evaluate("async () => { window.lib = await import('/src/index.js'); }")
    return page


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_a_stream_of_single_bytes_gives_the_text_and_never_half_a_character(library, runtime):
    parts = library.evaluate(
        """async ([text, runtime]) => {
          const bytes = new TextEncoder().encode(text);
          const source = new ReadableStream({ start(c) { for (const b of bytes) c.enqueue(new Uint8Array([b])); c.close(); } });
          const parts = [];
          const reader = source.pipeThrough(new lib.DetokStream({ runtime })).getReader();
          for (let p = await reader.read(); !p.done; p = await reader.read()) parts.push(p.value);
          return parts;
        }""",
        [TEXT, runtime],
    )
    assert "".join(parts) == TEXT
    assert all(len(part) == 1 for part in parts)


def test_a_stop_ends_the_text_and_cancels_the_source(library):
    seen = library.evaluate(
        """async () => {
          let cancelled = false;
          const source = new ReadableStream({
            pull(c) { c.enqueue(new TextEncoder().encode("one ST OP STO")); c.enqueue(new TextEncoder().encode("P two")); },
            cancel() { cancelled = true; },
          });
          const stream = new lib.DetokStream({ stop: ["STOP"] });
          const reader = source.pipeThrough(stream).getReader();
          let text = "";
          for (let p = await reader.read(); !p.done; p = await reader.read()) text += p.value;
          const { reason } = await stream.finished;
          await new Promise((resolve) => setTimeout(resolve, 50));
          return [text, reason, cancelled];
        }"""
    )
    assert seen == ["one ST OP ", "stop", True]


def test_a_dead_worker_fails_its_streams_and_the_next_stream_gets_a_new_one(library):
    seen = library.evaluate(
        """async () => {
          await lib.warmUp();
          const stream = new lib.DetokStream();
          const reading = stream.readable.getReader().read().then(() => "text", (error) => error.name);
          lib.shutDown();
          const failed = [await reading, (await stream.finished).reason];
          const source = new Response("é").body.pipeThrough(new lib.DetokStream()).getReader();
          return [...failed, (await source.read()).value];
        }"""
    )
    assert seen == ["DetokError", "error", "é"]


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_an_answer_of_the_bridge_comes_as_deltas_and_finishes_once(library, runtime):
    seen = library.evaluate(
        """async ([text, runtime]) => {
          const params = { engine: "scripted", text: "<think>hm</think>" + text, cut: "byte", pace: 0 };
          const answer = lib.connect("/stream", { prompt: "", params, runtime });
          const ends = [];
          answer.addEventListener("finish", ({ detail }) => ends.push(detail.reason));
          const got = { content: "", reasoning: "", tool_call: "" };
          for await (const { channel, text } of answer) got[channel] += text;
          await answer.finished;
          return [got.content, got.reasoning, ends.length, ends[0]];
        }""",
        [TEXT, runtime],
    )
    assert seen[:3] == [TEXT, "hm", 1]
    assert seen[3] in ("eos", "stop", "length")


def test_an_abort_rejects_the_iteration_and_finishes_as_cancelled(library):
    seen = library.evaluate(
        """async () => {
          const stop = new AbortController();
          const params = { engine: "scripted", text: "word ".repeat(500), cut: "byte", pace: 50 };
          const answer = lib.connect("/stream", { prompt: "", params, signal: stop.signal });
          let name;
          try { for await (const delta of answer) stop.abort(); } catch (error) { name = error.name; }
          return [name, (await answer.finished).reason];
        }"""
    )
    assert seen == ["AbortError", "cancelled"]
