"""DetokStream in a page: bytes or ids in, text out, in both runtimes, in pages of modules and in
pages of classic scripts.

Each test says what it fed and what came out of which write; what must come out is the core's
business, and is taken from it.
"""

import gzip
import json
import lzma

import pytest
from bridge_rig import VOCABULARY

import detok_py as d

TEXT = "naïve 你好 👩‍🚀 é\ufeff\ufffd שלום 🇩🇪\n"

# What came out after each write, then after the end, then how it ended. With a reader that always
# waits.
FEED = """async ([options, chunks, vocabulary]) => {
  if (vocabulary) options.vocabulary = await lib.loadVocabulary(vocabulary);
  const stream = new lib.DetokStream({ runtime: "micropython", ...options });
  let parts = [];
  const reader = stream.readable.getReader();
  const reading = (async () => { for (let p = await reader.read(); !p.done; p = await reader.read()) parts.push(p.value); })();
  const writer = stream.writable.getWriter();
  const steps = [];
  const step = async (writing) => {
    const failed = await writing.then(() => stream.ready()).then(() => null, (error) => error.name);
    await sleep(0);
    steps.push(failed ?? parts);
    parts = [];
  };
  for (const chunk of chunks) await step(writer.write(typeof chunk === "string" ? fromHex(chunk) : chunk));
  await step(writer.close());
  await reading.catch(() => {});
  return [steps, (await stream.finished).reason];
}"""


def joined(steps):
    return [part if isinstance(part, str) else "".join(part) for part in steps]


def channels(steps):
    out = {}
    for delta in [delta for step in steps for delta in step]:
        out[delta["channel"]] = out.get(delta["channel"], "") + delta["text"]
    return out


@pytest.fixture(scope="module")
def vocabulary(served):
    """The small vocabulary of the bridge, as a URL."""
    return f"/vocabulary/{VOCABULARY.sha256}.detok"


def hexes(text, size=1):
    data = text.encode()
    return [data[at : at + size].hex() for at in range(0, len(data), size)]


def ideal(detokenizer, chunks):
    return [detokenizer.feed(chunk) for chunk in chunks] + [detokenizer.flush()]


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_single_bytes_give_each_character_with_its_last_byte(either_page, runtime):
    steps, reason = either_page.evaluate(FEED, [{"runtime": runtime}, hexes(TEXT), None])
    assert joined(steps) == ideal(
        d.StreamingDetokenizer(), [bytes([byte]) for byte in TEXT.encode()]
    )
    assert reason == "end"
    assert either_page.evaluate("runtime => openStreams({ runtime })", runtime) == 0
    assert either_page.complaints == []


def test_it_stands_where_a_text_decoder_stream_stands(either_page):
    parts = either_page.evaluate(
        "text => partsOf(new Response(text).body.pipeThrough(new lib.DetokStream({ runtime: 'micropython' })))",
        TEXT,
    )
    assert "".join(parts) == TEXT


def test_bytes_come_in_whatever_holds_bytes(library):
    seen = library.evaluate(
        """async () => {
          const bytes = new TextEncoder().encode("..é");
          const chunks = [bytes.buffer.slice(0, 2), new DataView(bytes.buffer, 2, 1), new Uint8Array()];
          chunks.push(new Uint8ClampedArray(bytes.buffer, 3));
          return partsOf(sourceOf(chunks).pipeThrough(new lib.DetokStream({ runtime: "micropython" })));
        }"""
    )
    assert seen == ["..", "é"]


@pytest.mark.parametrize(
    ("chunk", "with_vocabulary"),
    [(None, False), ("text", False), ([1], False), ("text", True), ([0.5], True), ({}, True)],
)
def test_a_chunk_of_another_kind_is_a_type_error_that_says_which_is_right(
    library, vocabulary, chunk, with_vocabulary
):
    seen = library.evaluate(
        """async ([chunk, vocabulary]) => {
          const options = { runtime: "micropython", vocabulary: vocabulary && await lib.loadVocabulary(vocabulary) };
          const stream = new lib.DetokStream(options);
          const reading = outcome(stream.readable.getReader().read());
          const writing = outcome(stream.writable.getWriter().write(chunk));
          return [await reading, await writing, (await stream.finished).reason, await openStreams()];
        }""",
        [chunk, vocabulary if with_vocabulary else None],
    )
    assert seen[0] == seen[1]
    said = "With a vocabulary, chunks are token ids" if with_vocabulary else "Without a vocabulary"
    assert seen[0].startswith(f"TypeError: {said}")
    assert seen[2:] == ["error", 0]


# ---------------------------------------------------------------- ids


def test_ids_are_decoded_with_their_vocabulary_in_any_chunks(either_page, vocabulary):
    ids = list("naïve ".encode()) + [256, 0xA9, 257, 0x9F, 0x98, 0x80, 258]
    chunks = [ids[0], ids[1:4], ids[4:], [], ids]
    steps, reason = either_page.evaluate(FEED, [{}, chunks, vocabulary])
    listed = [[chunk] if isinstance(chunk, int) else chunk for chunk in chunks]
    assert joined(steps) == ideal(d.Detokenizer(VOCABULARY), listed)
    assert reason == "end"


def test_ids_come_in_typed_arrays_too(library, vocabulary):
    parts = library.evaluate(
        """async (url) => {
          const vocabulary = await lib.loadVocabulary(url, { runtime: "micropython" });
          const chunks = [new Uint32Array([104, 105]), new Uint16Array([258]), new BigInt64Array([33n])];
          return partsOf(sourceOf(chunks).pipeThrough(new lib.DetokStream({ runtime: "micropython", vocabulary })));
        }""",
        vocabulary,
    )
    assert "".join(parts) == "hithe !"


@pytest.mark.parametrize("prompt", [[], [104], [257], [0xF0, 0x9F]])
def test_the_prompts_ids_decide_what_the_first_ids_mean(library, vocabulary, prompt):
    ids = [0x9F, 0x98, 0x80, 33]
    steps, _ = library.evaluate(FEED, [{"promptIds": prompt}, ids, vocabulary])
    assert joined(steps) == ideal(d.Detokenizer(VOCABULARY, prompt), [[i] for i in ids])


def test_an_end_token_ends_the_text_and_gives_what_was_held(library, vocabulary):
    """The held beginning of a stop string is text once nothing more can come; so is half a
    character, as U+FFFD.
    """
    steps, reason = library.evaluate(
        FEED, [{"stop": ["STOP"]}, [[83, 84], [257, 259, 33]], vocabulary]
    )
    assert (joined(steps)[:2], reason) == (["", "ST \ufffd"], "eos")


def test_special_tokens_are_shown_when_asked_for(library, vocabulary):
    """An end token ends the text, shown or not; a special one that is no end is in the vocabulary
    of the next test.
    """
    table = d.Vocabulary.from_bytes([b"a", b"<s>", b"b"], special_ids=[1])
    for skip, text in ((True, "ab"), (False, "a<s>b")):
        seen = library.evaluate(
            """async ([bytes, skipSpecialTokens]) => {
              const vocabulary = await lib.loadVocabulary(new Blob([fromHex(bytes)]), { runtime: "micropython" });
              const stream = new lib.DetokStream({ runtime: "micropython", vocabulary, skipSpecialTokens });
              return partsOf(sourceOf([[0, 1, 2]]).pipeThrough(stream));
            }""",
            [table.pack().hex(), skip],
        )
        assert "".join(seen) == text


@pytest.mark.parametrize("bad", [260, -1, 4294967296, 9007199254740991])
def test_an_unknown_id_is_an_error_before_it_is_a_wrong_text(library, vocabulary, bad):
    steps, reason = library.evaluate(FEED, [{}, [[104, 105], [33, bad]], vocabulary])
    assert (steps[0], steps[1], reason) == (["hi"], "DetokError", "error")
    steps, reason = library.evaluate(
        FEED, [{"unknown": "skip"}, [[104, 105], [33, bad]], vocabulary]
    )
    assert ("".join(joined(steps)), reason) == ("hi!", "end")


def golden(data, name, most=40):
    """Streams of a real vocabulary, with what each push must give."""
    with gzip.open(data / "golden" / name / "stream.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for _, line in zip(range(most), lines)]


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_real_vocabularies_give_each_piece_with_its_token(
    library, served, data, name, tmp_path_factory
):
    folder = data / "tokenizers" / name
    file = folder / "tokenizer.json.xz"
    if not file.exists():
        pytest.skip(f"{name}'s tokenizer.json is not in the test data")
    unpacked = tmp_path_factory.mktemp(name) / "tokenizer.json"
    unpacked.write_bytes(lzma.decompress(file.read_bytes()))
    packed = d.load_tokenizer(unpacked).vocabulary.pack()
    served.given[f"{name}.detok"] = (200, {}, packed)
    cases = golden(data, name)
    seen = library.evaluate(
        """async ([url, cases]) => {
          const vocabulary = await lib.loadVocabulary(url, { runtime: "micropython", cache: false });
          return Promise.all(cases.map(async ({ ids, skip }) => {
            const stream = new lib.DetokStream({ runtime: "micropython", vocabulary, skipSpecialTokens: skip, format: null });
            let parts = "";
            const reader = stream.readable.getReader();
            const reading = (async () => { for (let p = await reader.read(); !p.done; p = await reader.read()) parts += p.value; })();
            const writer = stream.writable.getWriter();
            const pieces = [];
            for (const id of ids) {
              if ((await Promise.race([stream.finished, writer.write(id)]))?.reason) break;
              await stream.ready();
              await sleep(0);
              pieces.push(parts);
              parts = "";
            }
            await writer.close().catch(() => {});
            await reading;
            return [pieces, parts, (await stream.finished).reason];
          }));
        }""",
        [
            f"/given/{name}.detok",
            [{"ids": case["ids"][:40], "skip": case["skip"]} for case in cases],
        ],
    )
    checked = 0
    for case, (pieces, rest, reason) in zip(cases, seen, strict=True):
        if reason == "end" and len(case["ids"]) <= 40:
            assert (pieces, rest) == (case["pieces"], case["flush"]), case["ids"]
            checked += 1
        else:
            # An end token ends the text here; what came before it is the same.
            whole = "".join(case["pieces"]) + case["flush"]
            assert whole.startswith("".join(pieces).rstrip("\ufffd")), case["ids"]
    assert checked > len(cases) // 4


def test_the_vectors_of_utf8_come_out_byte_for_byte(library, data):
    vectors = []
    for file in sorted((data / "utf8").glob("*.json*")):
        if file.name.startswith("exhaustive"):
            continue
        text = (
            gzip.decompress(file.read_bytes()).decode()
            if file.suffix == ".gz"
            else file.read_text("utf-8")
        )
        rows = (
            [json.loads(line) for line in text.splitlines() if line.strip()]
            if "jsonl" in file.name
            else json.loads(text)
        )
        rows = rows.get("vectors", rows.get("cases", [])) if isinstance(rows, dict) else rows
        vectors += [
            row
            for row in rows
            if isinstance(row, dict)
            and {"hex", "emit", "flush"} <= set(row)
            and len(row["hex"]) <= 24
        ]
    vectors = vectors[:: max(1, len(vectors) // 120)]
    assert len(vectors) > 100
    seen = library.evaluate(
        """vectors => Promise.all(vectors.map(async (hex) => {
          const stream = new lib.DetokStream({ runtime: "micropython" });
          let parts = "";
          const reader = stream.readable.getReader();
          const reading = (async () => { for (let p = await reader.read(); !p.done; p = await reader.read()) parts += p.value; })();
          const writer = stream.writable.getWriter();
          const emit = [];
          for (const byte of fromHex(hex)) {
            await writer.write(new Uint8Array([byte]));
            await sleep(0);
            emit.push(parts);
            parts = "";
          }
          await writer.close();
          await reading;
          return [emit, parts];
        }))""",
        [vector["hex"] for vector in vectors],
    )
    for vector, (emit, flush) in zip(vectors, seen, strict=True):
        assert (emit, flush) == (vector["emit"], vector["flush"]), vector["hex"]


# ---------------------------------------------------------------- options


def test_graphemes_are_never_joined_by_what_comes_later(either_page):
    text = "e\u0301x👩‍🚀🇩🇪🇫🇷\r\n한가"
    steps, _ = either_page.evaluate(FEED, [{"granularity": "grapheme"}, hexes(text), None])
    parts = [part for step in steps for part in step]
    assert "".join(parts) == text
    assert parts == ["e\u0301", "x", "👩‍🚀", "🇩🇪", "🇫🇷", "\r\n", "한", "가"]


def test_a_change_of_channel_ends_a_grapheme(library):
    steps, _ = library.evaluate(
        FEED,
        [
            {"granularity": "grapheme", "reasoning": True, "output": "deltas"},
            hexes("<think>e</think>\u0301x"),
            None,
        ],
    )
    assert channels(steps) == {"reasoning": "e", "content": "\u0301x"}


def test_fatal_rejects_what_is_not_utf8_and_nothing_else(library):
    steps, reason = library.evaluate(FEED, [{"fatal": True}, ["61f0", "9f9880"], None])
    assert (joined(steps), reason) == (["a", "😀", ""], "end")
    steps, reason = library.evaluate(FEED, [{"fatal": True}, ["61", "62ff", "63"], None])
    assert (steps[0], steps[1], reason) == (["a"], "DetokError", "error")
    steps, reason = library.evaluate(FEED, [{"fatal": True}, ["61f0"], None])
    assert (steps, reason) == ([["a"], "DetokError"], "error")
    assert library.evaluate("() => openStreams()") == 0


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_ends_the_text_and_cancels_the_source(either_page, include):
    seen = either_page.evaluate(
        """async (includeStop) => {
          const source = sourceOf([...bytesOf("one ST OP STOP two", 3), ...bytesOf(" three".repeat(1000))]);
          const stream = new lib.DetokStream({ runtime: "micropython", stop: ["", "STOP"], includeStop });
          const text = (await partsOf(source.pipeThrough(stream))).join("");
          await sleep(20);
          return [text, (await stream.finished).reason, source.cancelled, await openStreams()];
        }""",
        include,
    )
    assert seen == ["one ST OP STOP" if include else "one ST OP ", "stop", True, 0]


def test_a_stop_that_does_not_come_is_text_in_the_end(library):
    steps, reason = library.evaluate(FEED, [{"stop": ["STOP"]}, hexes("a STO"), None])
    assert (joined(steps)[-1], reason) == ("STO", "end")


def test_reasoning_and_tools_are_channels_and_the_text_is_the_content(library):
    text = "<think>hm</think>So <tool_call>{}</tool_call>ok"
    both = {"reasoning": True, "tools": True}
    steps, _ = library.evaluate(FEED, [{**both, "output": "deltas"}, hexes(text), None])
    assert channels(steps) == {"reasoning": "hm", "tool_call": "{}", "content": "So ok"}
    steps, _ = library.evaluate(FEED, [both, hexes(text), None])
    assert "".join(joined(steps)) == "So ok"
    steps, _ = library.evaluate(FEED, [{}, hexes(text), None])
    assert "".join(joined(steps)) == text
    steps, _ = library.evaluate(
        FEED,
        [
            {"reasoning": ["[", "]"], "startWithReasoning": True, "output": "deltas"},
            hexes("a]b"),
            None,
        ],
    )
    assert channels(steps) == {"reasoning": "a", "content": "b"}


def test_markers_of_templates_are_dropped_when_asked(library):
    for trim, text in ((True, "hi"), (False, "hi<|im_end|>")):
        steps, _ = library.evaluate(FEED, [{"trimArtifacts": trim}, hexes("hi<|im_end|>", 4), None])
        assert "".join(joined(steps)) == text


# ---------------------------------------------------------------- whoever gives up, and when

GIVE_UP = """async ([how, text]) => {
  const out = [];
  for (let at = 0; at <= text.length + 1; at++) {
    const stop = new AbortController();
    const source = sourceOf(bytesOf(text));
    const stream = new lib.DetokStream({ runtime: "micropython", signal: how === "signal" ? stop.signal : undefined });
    let ends = 0;
    stream.finished.then(() => ends++);
    let writer, piping;
    if (how === "writer") {
      writer = stream.writable.getWriter();
      piping = (async () => { for (const chunk of bytesOf(text)) await writer.write(chunk); await writer.close(); })().catch(() => {});
    } else piping = source.pipeTo(stream.writable).catch(() => {});
    const reader = stream.readable.getReader();
    let got = "", failed = null;
    try {
      for (let n = 0; ; n++) {
        if (n === at) {
          if (how === "reader") await reader.cancel("enough");
          else if (how === "writer") writer.abort(new DOMException("enough", "AbortError")).catch(() => {});
          else stop.abort();
        }
        const { done, value } = await reader.read();
        if (done) break;
        got += value;
      }
    } catch (error) { failed = error.name; }
    const { reason } = await stream.finished;
    await outcome(piping);
    await sleep(1);
    out.push([got, failed, reason, ends, how === "writer" ? true : source.cancelled === true]);
  }
  return [out, await openStreams()];
}"""


@pytest.mark.parametrize("how", ["signal", "reader", "writer"])
def test_giving_up_at_any_character_ends_once_and_lets_go(either_page, how):
    text = "a你é👩‍🚀z"
    ends, still_open = either_page.evaluate(GIVE_UP, [how, text])
    assert still_open == 0
    characters = len(text)
    for at, (got, failed, reason, count, cancelled) in enumerate(ends):
        assert count == 1
        assert text.startswith(got)
        if at > characters:
            # The end had been read.
            assert (got, failed, reason) == (text, None, "end")
        elif reason == "cancelled":
            assert got == text[:at]
            assert failed == (None if how == "reader" else "AbortError")
            assert cancelled or at == characters
        else:
            # The source had already ended when it was given up: its last character was the last
            # that was read.
            assert (at, reason) == (characters, "end")
    assert [end[2] for end in ends[:characters]] == ["cancelled"] * characters


def test_a_signal_that_was_aborted_before_ends_it_at_once(library):
    seen = library.evaluate(
        """async () => {
          const stream = new lib.DetokStream({ runtime: "micropython", signal: AbortSignal.abort() });
          return [await outcome(stream.readable.getReader().read()), (await stream.finished).reason, await openStreams()];
        }"""
    )
    assert seen[0].startswith("AbortError")
    assert seen[1:] == ["cancelled", 0]


def test_a_source_that_fails_fails_the_text_with_its_own_error(library):
    seen = library.evaluate(
        """async () => {
          const source = new ReadableStream({ pull(c) { c.error(new RangeError("the network is gone")); } });
          const stream = new lib.DetokStream({ runtime: "micropython" });
          return [await outcome(partsOf(source.pipeThrough(stream))), (await stream.finished).reason, await openStreams()];
        }"""
    )
    assert seen == ["RangeError: the network is gone", "error", 0]


def test_a_slow_reader_holds_back_the_source(library):
    """One chunk waits to be read, and the source is asked for no more."""
    seen = library.evaluate(
        """async () => {
          let asked = 0;
          const source = new ReadableStream({ pull(c) { asked++; c.enqueue(new Uint8Array([97])); } }, { highWaterMark: 0 });
          const stream = new lib.DetokStream({ runtime: "micropython" });
          const reader = source.pipeThrough(stream).getReader();
          const seen = [];
          for (let read = 0; read <= 10; read += 10) {
            while (asked <= read) await sleep(1);
            await sleep(200); // time for what must not come
            seen.push(asked);
            for (let n = 0; n < 10; n++) await reader.read();
          }
          await reader.cancel();
          return [seen, await openStreams()];
        }"""
    )
    assert seen == [[1, 11], 0]


def test_a_stream_that_is_written_while_python_boots_waits_and_loses_nothing(open_library):
    page = open_library("classic")
    text = page.evaluate(
        """async (text) => {
          const progress = [];
          const booting = lib.warmUp({ runtime: "micropython", onProgress: ({ step }) => progress.push(step) });
          const parts = await partsOf(sourceOf(bytesOf(text)).pipeThrough(new lib.DetokStream({ runtime: "micropython" })));
          const { python, detok, runtime } = await booting;
          return [parts.join(""), python.startsWith("micropython"), Boolean(detok), runtime, progress.length > 0, workers.length];
        }""",
        TEXT,
    )
    assert text == [TEXT, True, True, "micropython", True, 1]
    assert page.complaints == []


def test_for_await_works_where_streams_cannot_be_iterated(open_library):
    """Safari's streams have no async iterator: ours bring their own."""
    page = open_library()
    seen = page.evaluate(
        """async (text) => {
          delete ReadableStream.prototype[Symbol.asyncIterator];
          delete ReadableStream.prototype.values;
          let all = "";
          for await (const part of sourceOf(bytesOf(text)).pipeThrough(new lib.DetokStream({ runtime: "micropython" }))) all += part;
          const source = sourceOf(bytesOf(text));
          for await (const part of source.pipeThrough(new lib.DetokStream({ runtime: "micropython" }))) break;
          await sleep(20);
          const params = { engine: "scripted", text, cut: "byte", pace: 0 };
          let answered = "";
          for await (const part of lib.connect("/stream", { runtime: "micropython", prompt: "", params }).text) answered += part;
          return [all, source.cancelled, answered, await openStreams()];
        }""",
        TEXT,
    )
    assert seen == [TEXT, True, TEXT, 0]


def test_a_stop_may_be_one_string(library):
    given = hexes("so it is</s> and more", 3)
    steps, reason = library.evaluate(FEED, [{"stop": "</s>"}, given, None])
    assert ("".join(part for part in joined(steps) if part not in ("TypeError",)), reason) == (
        "so it is",
        "stop",
    )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"stpo": ["x"]}, "stpo"),
        ({"stop": 5}, "stop is 5"),
        ({"stop": ["x", 5]}, "stop is x,5"),
        ({"granularity": "word"}, 'granularity is "word"'),
        # Names of before the first release.
        ({"unit": "grapheme"}, "There is no option unit"),
        ({"start": "reasoning"}, "There is no option start"),
        ({"runtime": "cpython"}, 'runtime is "cpython"'),
        ({"reasoning": ["<a>"]}, "reasoning is <a>"),
        ({"reasoning": "first"}, 'reasoning is "first"'),
        ({"tools": [["<a>", 5]]}, "tools is <a>,5"),
        ({"trimArtifacts": "yes"}, 'trimArtifacts is "yes"'),
        ({"vocabulary": "/x.detok"}, "what loadVocabulary gives"),
        ({"timeout": 0}, "timeout is 0"),
        ({"signal": "stop"}, 'signal is "stop"'),
        ({"promptIds": 5}, "promptIds is 5"),
    ],
)
def test_an_option_that_cannot_be_is_named(library, options, named):
    seen = library.evaluate(
        """async (options) => {
          const request = { prompt: "x", ...options };
          const errors = [
            await lib.createDecoder(options).catch((error) => error),
            await lib.loadVocabulary("/x.detok", options).catch((error) => error),
            (await lib.connect("/stream", request).finished).error,
          ];
          try { new lib.DetokStream(options); } catch (error) { errors.push(error); }
          try { await lib.warmUp(options); } catch (error) { errors.push(error); }
          return errors.map(({ name, kind, message }) => [name, kind, message]);
        }""",
        options,
    )
    assert len(seen) == 5
    for name, kind, message in seen:
        assert (name, kind) == ("DetokError", "option")
        assert named in message


def test_a_stream_has_no_option_for_late_text_which_it_gives_itself(library):
    said = library.evaluate("() => outcome((async () => new lib.DetokStream({ onText() {} }))())")
    assert said == "DetokError: There is no option onText of a DetokStream."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("stops", "There is no option stops; did you mean stop?"),
        ("skip_special_tokens", "did you mean skipSpecialTokens?"),
        ("xyz", "There is no option xyz. The options are stop, "),
    ],
)
def test_an_option_that_is_misspelled_names_the_nearest(library, given, said):
    assert said in library.evaluate("(name) => outcome(lib.createDecoder({ [name]: 1 }))", given)


def test_a_decoder_that_is_not_wanted_any_more_rejects_with_the_signals_reason(library, vocabulary):
    seen = library.evaluate(
        """async (url) => {
          const vocabulary = await lib.loadVocabulary(url);
          const { signal } = (() => { const c = new AbortController(); c.abort(new RangeError("enough")); return c; })();
          return [await outcome(lib.createDecoder({ runtime: "micropython", vocabulary, signal })),
            await outcome((async () => (await lib.createDecoder({ vocabulary })).feed(new Uint8Array([104])))())];
        }""",
        vocabulary,
    )
    assert seen[0] == "RangeError: enough"
    assert "whole numbers, not Uint8Array" in seen[1]  # bytes are no ids


def test_options_that_are_left_open_are_as_if_not_given(library):
    open_ = {"stop": None, "granularity": None, "reasoning": None, "promptIds": None}
    steps, reason = library.evaluate(FEED, [open_, hexes("é"), None])
    assert ("".join(joined(steps)), reason) == ("é", "end")


def test_reasoning_may_have_been_opened_in_the_prompt(library):
    options = {"reasoning": True, "output": "deltas", "startWithReasoning": True}
    steps, _ = library.evaluate(FEED, [options, hexes("so</think>it is", 4), None])
    assert channels(steps) == {"reasoning": "so", "content": "it is"}
