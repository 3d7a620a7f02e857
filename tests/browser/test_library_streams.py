"""DetokStream in a page: bytes or ids in, text out, in both runtimes, in pages of modules and in
pages of classic scripts.

Each test says what it fed and what came out of which write; what must come out is the core's
business, and is taken from it.
"""

import pytest
from bridge_rig import VOCABULARY
from library_rig import URL, scripted

import detok_py as d

TEXT = "naïve 你好 👩‍🚀 é\ufeff\ufffd שלום 🇩🇪\n"

FEED = """async ([chunks, vocabulary, options]) => {
  if (vocabulary) options.vocabulary = await lib.loadVocabulary(vocabulary);
  const symbols = (chunk) => (typeof chunk === "string" ? fromHex(chunk) : chunk);
  return fed(new lib.DetokStream({ runtime: "micropython", ...options }), chunks.map(symbols));
}"""


def feed(page, chunks, vocabulary=None, **options):
    """Feed a stream with chunks: ids, or bytes in hex. What came out after each chunk and after the
    end, and how it ended.
    """
    return page.evaluate(FEED, [chunks, vocabulary, options])


def joined(steps):
    return [part if isinstance(part, str) else "".join(part) for part in steps]


def channels(steps):
    out = {}
    for delta in [delta for step in steps for delta in step]:
        out[delta["channel"]] = out.get(delta["channel"], "") + delta["text"]
    return out


def hexes(text, size=1):
    data = text.encode()
    return [data[at : at + size].hex() for at in range(0, len(data), size)]


def ideal(detokenizer, chunks):
    return [detokenizer.feed(chunk) for chunk in chunks] + [detokenizer.flush()]


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_single_bytes_give_each_character_with_its_last_byte(either_page, runtime):
    steps, reason = feed(either_page, hexes(TEXT), runtime=runtime)
    single = [bytes([byte]) for byte in TEXT.encode()]
    assert joined(steps) == ideal(d.StreamingDetokenizer(), single)
    assert reason == "end"
    assert either_page.evaluate("runtime => openStreams({ runtime })", runtime) == 0
    assert either_page.complaints == []


@pytest.mark.parametrize(
    ("chunk", "with_vocabulary"),
    [(None, False), ("text", False), ([1], False), ("text", True), ([0.5], True), ({}, True)],
)
def test_a_chunk_of_another_kind_is_a_type_error_that_says_which_is_right(
    library, chunk, with_vocabulary
):
    seen = library.evaluate(
        """async ([chunk, vocabulary]) => {
          const options = { runtime: "micropython", vocabulary: vocabulary && await lib.loadVocabulary(vocabulary) };
          const stream = new lib.DetokStream(options);
          const reading = outcome(stream.readable.getReader().read());
          const writing = outcome(stream.writable.getWriter().write(chunk));
          return [await reading, await writing, (await stream.finished).reason, await openStreams()];
        }""",
        [chunk, URL if with_vocabulary else None],
    )
    assert seen[0] == seen[1]
    said = "With a vocabulary, chunks are token ids" if with_vocabulary else "Without a vocabulary"
    assert seen[0].startswith(f"TypeError: {said}")
    assert seen[2:] == ["error", 0]


# ---------------------------------------------------------------- ids


def test_ids_are_decoded_with_their_vocabulary_in_any_chunks(either_page):
    ids = list("naïve ".encode()) + [256, 0xA9, 257, 0x9F, 0x98, 0x80, 258]
    chunks = [ids[0], ids[1:4], ids[4:], [], ids]
    steps, reason = feed(either_page, chunks, URL)
    listed = [[chunk] if isinstance(chunk, int) else chunk for chunk in chunks]
    assert joined(steps) == ideal(d.Detokenizer(VOCABULARY), listed)
    assert reason == "end"


def test_ids_come_in_typed_arrays_too(library):
    parts = library.evaluate(
        """async (url) => {
          const vocabulary = await lib.loadVocabulary(url, { runtime: "micropython" });
          const chunks = [new Uint32Array([104, 105]), new Uint16Array([258]), new BigInt64Array([33n])];
          return partsOf(sourceOf(chunks).pipeThrough(new lib.DetokStream({ runtime: "micropython", vocabulary })));
        }""",
        URL,
    )
    assert "".join(parts) == "hithe !"


@pytest.mark.parametrize("prompt", [[], [104], [257], [0xF0, 0x9F]])
def test_the_prompts_ids_decide_what_the_first_ids_mean(library, prompt):
    ids = [0x9F, 0x98, 0x80, 33]
    steps, _ = feed(library, ids, URL, promptIds=prompt)
    assert joined(steps) == ideal(d.Detokenizer(VOCABULARY, prompt), [[i] for i in ids])


def test_an_end_token_ends_the_text_and_gives_what_was_held(library):
    """The held beginning of a stop string is text once nothing more can come; so is half a
    character, as U+FFFD.
    """
    steps, reason = feed(library, [[83, 84], [257, 259, 33]], URL, stop=["STOP"])
    assert (joined(steps)[:2], reason) == (["", "ST \ufffd"], "eos")


def test_special_tokens_are_shown_when_asked_for(library, served):
    """An end token ends the text, shown or not; a special one that is no end is in the vocabulary
    of the next test.
    """
    table = d.Vocabulary.from_bytes([b"a", b"<s>", b"b"], special_ids=[1])
    served.given["special.detok"] = (200, {}, table.pack())
    for skip, text in ((True, "ab"), (False, "a<s>b")):
        steps, _ = feed(library, [[0, 1, 2]], "/given/special.detok", skipSpecialTokens=skip)
        assert "".join(joined(steps)) == text


@pytest.mark.parametrize("bad", [260, -1, 4294967296, 9007199254740991])
def test_an_unknown_id_is_an_error_before_it_is_a_wrong_text(library, bad):
    steps, reason = feed(library, [[104, 105], [33, bad]], URL)
    assert (steps[0], steps[1], reason) == (["hi"], "DetokError", "error")
    steps, reason = feed(library, [[104, 105], [33, bad]], URL, unknown="skip")
    assert ("".join(joined(steps)), reason) == ("hi!", "end")


# ---------------------------------------------------------------- options


def test_graphemes_are_never_joined_by_what_comes_later(either_page):
    text = "e\u0301x👩‍🚀🇩🇪🇫🇷\r\n한가"
    steps, _ = feed(either_page, hexes(text), granularity="grapheme")
    parts = [part for step in steps for part in step]
    assert "".join(parts) == text
    assert parts == ["e\u0301", "x", "👩‍🚀", "🇩🇪", "🇫🇷", "\r\n", "한", "가"]


def test_fatal_rejects_what_is_not_utf8_and_nothing_else(library):
    steps, reason = feed(library, ["61f0", "9f9880"], fatal=True)
    assert (joined(steps), reason) == (["a", "😀", ""], "end")
    steps, reason = feed(library, ["61", "62ff", "63"], fatal=True)
    assert (steps[0], steps[1], reason) == (["a"], "DetokError", "error")
    steps, reason = feed(library, ["61f0"], fatal=True)
    assert (steps, reason) == ([["a"], "DetokError"], "error")
    assert library.evaluate("() => openStreams()") == 0


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_ends_the_text_and_cancels_the_source(either_page, include):
    seen = either_page.evaluate(
        """async (includeStop) => {
          const source = sourceOf([...bytesOf("one ST OP STOP two", 3), ...bytesOf(" three".repeat(1000))]);
          const stream = new lib.DetokStream({ runtime: "micropython", stop: ["", "STOP"], includeStop });
          const text = (await partsOf(source.pipeThrough(stream))).join("");
          return [text, (await stream.finished).reason, await outcome(source.cancelled), await openStreams()];
        }""",
        include,
    )
    assert seen == ["one ST OP STOP" if include else "one ST OP ", "stop", "done", 0]


def test_reasoning_and_tools_are_channels_and_the_text_is_the_content(library):
    text = "<think>hm</think>So <tool_call>{}</tool_call>ok"
    both = {"reasoning": True, "tools": True}
    steps, _ = feed(library, hexes(text), **both, output="deltas")
    assert channels(steps) == {"reasoning": "hm", "tool_call": "{}", "content": "So ok"}
    steps, _ = feed(library, hexes(text), **both)
    assert "".join(joined(steps)) == "So ok"
    steps, _ = feed(library, hexes(text))
    assert "".join(joined(steps)) == text
    opened = {"reasoning": ["[", "]"], "startWithReasoning": True}
    steps, _ = feed(library, hexes("a]b"), **opened, output="deltas")
    assert channels(steps) == {"reasoning": "a", "content": "b"}


def test_markers_of_templates_are_dropped_when_asked(library):
    for trim, text in ((True, "hi"), (False, "hi<|im_end|>")):
        steps, _ = feed(library, hexes("hi<|im_end|>", 4), trimArtifacts=trim)
        assert "".join(joined(steps)) == text


# ---------------------------------------------------------------- whoever gives up, and when

GIVE_UP = """async ([how, text]) => {
  const out = [];
  for (let at = 0; at <= text.length + 1; at++) {
    const stop = new AbortController();
    const source = sourceOf(bytesOf(text));
    let isCancelled = false;
    source.cancelled.then(() => (isCancelled = true));
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
    out.push([got, failed, reason, ends, how === "writer" || isCancelled]);
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
        """async ([text, request]) => {
          delete ReadableStream.prototype[Symbol.asyncIterator];
          delete ReadableStream.prototype.values;
          let all = "";
          for await (const part of sourceOf(bytesOf(text)).pipeThrough(new lib.DetokStream({ runtime: "micropython" }))) all += part;
          const source = sourceOf(bytesOf(text));
          for await (const part of source.pipeThrough(new lib.DetokStream({ runtime: "micropython" }))) break;
          let answered = "";
          for await (const part of lib.connect("/stream", { runtime: "micropython", prompt: "", ...request }).text) answered += part;
          return [all, await outcome(source.cancelled), answered, await openStreams()];
        }""",
        [TEXT, scripted(TEXT)],
    )
    assert seen == [TEXT, "done", TEXT, 0]


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
        ({"stops": 1}, "There is no option stops; did you mean stop?"),
        ({"skip_special_tokens": 1}, "did you mean skipSpecialTokens?"),
        ({"xyz": 1}, "There is no option xyz. The options are stop, "),
    ],
)
def test_an_option_that_cannot_be_is_named_everywhere(library, options, named):
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


def test_a_decoder_that_is_not_wanted_any_more_rejects_with_the_signals_reason(library):
    seen = library.evaluate(
        """async (url) => {
          const vocabulary = await lib.loadVocabulary(url);
          const { signal } = (() => { const c = new AbortController(); c.abort(new RangeError("enough")); return c; })();
          return [await outcome(lib.createDecoder({ runtime: "micropython", vocabulary, signal })),
            await outcome((async () => (await lib.createDecoder({ vocabulary })).feed(new Uint8Array([104])))())];
        }""",
        URL,
    )
    assert seen[0] == "RangeError: enough"
    assert "whole numbers, not Uint8Array" in seen[1]  # bytes are no ids
