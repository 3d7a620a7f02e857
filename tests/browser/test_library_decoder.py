"""createDecoder in a page: a loop of one's own, whose steps come out of a table.

What must come out is the core's business, and is taken from it, push by push.
"""

import hashlib
import itertools
import json
import random

import pytest
from bridge_rig import VOCABULARY
from library_rig import URL
from pushes import PUSHED, pushed
from small_tokenizers import FAMILIES, unigram_model

import detok_py as d
from detok_py import load_tokenizer

pytestmark = pytest.mark.one_browser


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_each_push_gives_what_the_core_gives(library, runtime):
    words = [*"naïve ".encode(), 256, 257, 0x9F, 0x98, 0x80, 258, 0xFF, 33]
    rng = random.Random(14)
    runs = [rng.choices(words, k=24) for _ in range(40)]
    seen = library.evaluate(PUSHED, [{"runtime": runtime}, runs, URL])
    expected = [list(pushed(d.Detokenizer(VOCABULARY), run)) for run in runs]
    assert seen == expected


FILES = {family: json.dumps(make()).encode() for family, make in FAMILIES.items()}
FILES["model"] = unigram_model(True)  # with tokens for bytes


@pytest.mark.parametrize("family", FILES)
def test_a_stream_begins_as_its_tokenizer_says_whatever_streams_came_before(
    library, served, family
):
    vocabulary = load_tokenizer(FILES[family]).vocabulary
    served.given["small.detok"] = (200, {}, vocabulary.pack())
    rng = random.Random(family)
    usual = [i for i in range(len(vocabulary)) if i not in vocabulary.eos_ids]
    # Each id within a stream first, then each at the beginning of one.
    runs = [rng.sample(usual, len(usual)), *[[i, i] for i in usual]]
    seen = library.evaluate(PUSHED, [{"format": None}, runs, "/given/small.detok"])
    assert seen == [list(pushed(d.Detokenizer(vocabulary), run)) for run in runs]


@pytest.mark.full
@pytest.mark.parametrize("name", ["gpt2", "qwen3", "llama2", "bert_uncased", "t5_small"])
def test_random_ids_of_real_vocabularies_give_with_each_push_what_the_core_gives(
    library, served, data, name
):
    vocabulary = served.give_tokenizer(data, name)
    rng = random.Random(name)
    usual = [i for i in range(len(vocabulary)) if i not in vocabulary.eos_ids]
    runs = [rng.choices(usual if n % 2 else usual[:400], k=200) for n in range(20)]
    options = {"runtime": "micropython", "unknown": "skip", "format": None}
    seen = library.evaluate(PUSHED, [options, runs, f"/given/{name}.detok"])
    for run, got in zip(runs, seen, strict=True):
        detokenizer = d.Detokenizer(vocabulary, unknown="skip")
        assert got == list(pushed(detokenizer, run)), run


MANY = 10_000_000
# The ids of a linear congruential generator, each pushed by itself: a digest of what each push
# gave, and how many steps were asked of Python.
MANY_PUSHED = """async ([options, url, ids, count]) => {
  options.vocabulary = await lib.loadVocabulary(url, { ...options, cache: false });
  const decoder = await lib.createDecoder(options);
  let late = 0;
  const texts = async function* () {
    for (let n = 0, x = 1; n < count; n++) {
      x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
      const text = decoder.push(ids[(x >>> 8) % ids.length]);
      if (decoder.waiting) late++;
      yield decoder.waiting ? text + (await decoder.ready()) : text;
    }
  };
  return [await digestOf(texts()), late];
}"""


def digest_of(lines):
    """One SHA-256 of very many lines, as the page makes it."""
    digest, lines = "", iter(lines)
    while part := list(itertools.islice(lines, 65_536)):
        digest = hashlib.sha256((digest + "\n".join(part)).encode()).hexdigest()
    return digest


@pytest.mark.soak
@pytest.mark.engine
@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_ten_million_random_ids_give_with_each_push_what_the_core_gives(
    library, served, data, runtime
):
    vocabulary = served.give_tokenizer(data, "gpt2")
    usual = [i for i in range(len(vocabulary)) if i not in vocabulary.eos_ids]
    given = [{"runtime": runtime}, "/given/gpt2.detok", usual, MANY]
    seen, late = library.evaluate(MANY_PUSHED, given)
    print(f"{late} of {MANY} steps were asked of Python")

    def texts():
        detokenizer, x = d.Detokenizer(vocabulary), 1
        for _ in range(MANY):
            x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
            yield detokenizer.push(usual[(x >> 8) % len(usual)])

    assert seen == digest_of(texts())


# A digest of the text of each byte of all sequences of this length.
DIGEST = """async ([alphabet, length]) => {
  const { Decoder } = await import("/src/create-decoder.js");
  const lines = function* () {
    for (let n = 0; n < alphabet.length ** length; n++) {
      const decoder = new Decoder();
      let line = "";
      for (let k = 0, left = n; k < length; k++, left = Math.floor(left / alphabet.length))
        line += decoder.feed(new Uint8Array([alphabet[left % alphabet.length]])) + "|";
      yield line + decoder.flush();
    }
  };
  return digestOf(lines());
}"""


def byte_by_byte(sequence):
    stream = d.StreamingDetokenizer()
    return "".join([stream.feed(bytes([byte])) + "|" for byte in sequence]) + stream.flush()


# Bytes on both sides of each border of the Unicode Standard's table 3-7, and some within.
EDGES = [0x00, 0x61, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1]
EDGES += [0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFE, 0xFF]


@pytest.mark.engine
@pytest.mark.parametrize(
    ("alphabet", "length"),
    [
        (list(range(256)), 1),
        (list(range(0, 256, 5)), 2),
        pytest.param(list(range(256)), 2, marks=pytest.mark.full),
        pytest.param(EDGES, 4, marks=pytest.mark.full),
    ],
)
def test_the_browsers_decoder_gives_with_each_byte_what_the_core_gives(library, alphabet, length):
    """Bytes take the browser's TextDecoder: this is why they may."""
    # The page's first byte is that which changes most often.
    sequences = (sequence[::-1] for sequence in itertools.product(alphabet, repeat=length))
    expected = digest_of(map(byte_by_byte, sequences))
    assert library.evaluate(DIGEST, [alphabet, length]) == expected


# ---------------------------------------------------------------- the table


def test_bytes_alone_start_no_worker(open_library):
    page = open_library()
    seen = page.evaluate(
        """async () => {
          const decoder = await lib.createDecoder();
          const text = decoder.feed(fromHex("c3")) + decoder.feed(fromHex("a9e2")) + decoder.flush();
          const parts = await partsOf(sourceOf(bytesOf("né")).pipeThrough(new lib.DetokStream({ granularity: "grapheme" })));
          return [text, parts.join(""), workers.length];
        }"""
    )
    assert seen == ["é\ufffd", "né", 0]


def test_what_was_met_once_does_not_wake_the_worker_again(open_library):
    page = open_library()
    seen = page.evaluate(
        """async (url) => {
          const options = { runtime: "micropython", vocabulary: await lib.loadVocabulary(url), stop: ["STOP"] };
          const ids = [...new TextEncoder().encode("naïve 你好 STO "), 256, 258];
          const run = async () => {
            const decoder = await lib.createDecoder(options);
            let late = 0, text = "";
            for (const id of ids) { text += decoder.push(id); late += decoder.waiting > 0; text += await decoder.ready(); }
            return [text + decoder.flush() + (await decoder.ready()), late];
          };
          const [first, late] = await run();
          let questions = 0; // beside those for the common ids, which nobody waits for
          const worker = workers.at(-1), post = worker.postMessage;
          worker.postMessage = (message) => {
            if (message.args?.[0] !== "fan") questions++;
            post.call(worker, message);
          };
          const parts = await partsOf(sourceOf(ids).pipeThrough(new lib.DetokStream(options)));
          return [first === parts.join(""), first === (await run())[0], late > 0, questions];
        }""",
        URL,
    )
    assert seen == [True, True, True, 0]


def test_what_is_held_can_be_asked_for(library):
    seen = library.evaluate(
        """async (url) => {
          const vocabulary = await lib.loadVocabulary(url);
          const ids = await lib.createDecoder({ runtime: "micropython", vocabulary, stop: ["STOP"] });
          ids.feed([83, 84]);
          await ids.ready();
          const half = ids.held;
          ids.feed([0xe4, 0xbd]);
          const certain = await ids.ready();
          const bytes = await lib.createDecoder();
          bytes.feed(fromHex("61f09f98"));
          const before = bytes.held;
          bytes.feed(fromHex("80"));
          return [half, certain, ids.held, before, bytes.held];
        }""",
        URL,
    )
    none = {"bytes": 0, "text": ""}
    held = [{"bytes": 0, "text": "ST"}, "ST", {"bytes": 2, "text": ""}, {"bytes": 3, "text": ""}]
    assert seen == [*held, none]


def test_text_that_waits_is_shown_with_half_a_character_that_refutes_it(library):
    seen = library.evaluate(
        """async () => {
          const out = [];
          const given = { runtime: "micropython", stop: ["\\nUser:", "é!"] };
          const decoder = await lib.createDecoder(given);
          for (const chunk of ["48690a", "f09f", "9982", "c3", "a9", "21"]) {
            out.push(decoder.feed(fromHex(chunk)) + (await decoder.ready()));
          }
          return [out, decoder.finishReason];
        }"""
    )
    assert seen == [["Hi", "\n", "🙂", "", "", ""], "stop"]


def test_an_id_that_is_refused_is_an_error_and_the_stream_goes_on(library):
    seen = library.evaluate(
        """async (url) => {
          const vocabulary = await lib.loadVocabulary(url);
          const decoder = await lib.createDecoder({ runtime: "micropython", vocabulary });
          const first = decoder.push(104);
          const late = await outcome(decoder.ready());
          const unknown = await outcome((async () => decoder.push(99999) + (await decoder.ready()))());
          const known = decoder.push(105) + (await decoder.ready()); // the page knows both steps now
          const before = decoder.feed([105, 99999, 106]);
          const again = await outcome(decoder.ready());
          const after = decoder.flush() + (await decoder.ready());
          return [first + late, known, before, unknown.split(":")[0], again.split(":")[0], after];
        }""",
        URL,
    )
    assert seen == ["h", "i", "i", "DetokError", "DetokError", "j"]


def test_text_that_comes_late_is_told_without_another_call(library):
    seen = library.evaluate(
        """async (url) => {
          const told = [];
          const vocabulary = await lib.loadVocabulary(url);
          let come;
          const coming = new Promise((resolve) => (come = resolve));
          const onText = (text) => come(told.push(text));
          const decoder = await lib.createDecoder({ runtime: "micropython", vocabulary, stop: ["STOP!"], onText });
          const pushed = [97, 83, 84, 259].map((id) => decoder.push(id)); // an end of text is asked for
          await coming;
          return [pushed.concat(told).join(""), told.join("").endsWith("ST"), await decoder.ready(), decoder.finishReason];
        }""",
        URL,
    )
    assert seen == ["aST", True, "", "eos"]


# How many ids gave less text than was certain, in a new page, if each comes when Python has
# answered what the page has asked ahead.
PACED = """async ([options, url, ids, certain]) => {
  options.vocabulary = await lib.loadVocabulary(url, { ...options, cache: false });
  const { decoderWorker } = await import("/src/decoder.js");
  const worker = decoderWorker(options);
  const { ask } = worker;
  let open = 0;
  worker.ask = (...args) => {
    open++;
    return ask.apply(worker, args).finally(() => open--);
  };
  const decoder = await lib.createDecoder(options);
  let given = 0, late = 0;
  for (const [n, id] of ids.entries()) {
    do await sleep(0); while (open);
    given += decoder.push(id).length;
    late += given < certain[n];
  }
  return late;
}"""


@pytest.mark.parametrize(
    "runtime", ["micropython", pytest.param("pyodide", marks=pytest.mark.full)]
)
@pytest.mark.parametrize(
    "options",
    [
        {"stop": ["</s>", "\n\nUser"], "reasoning": True},
        pytest.param({}, marks=pytest.mark.full),
    ],
)
def test_no_token_is_late_in_a_new_page(open_library, runtime, options):
    """Natural text, and then every token once."""
    page = open_library()
    ids = [*"naïve 你好 👩‍🚀 <b>\n\nAnd </s".encode(), *range(259)]
    chat = d.ChatStream(
        d.Detokenizer(VOCABULARY),
        stop=options.get("stop", ()),
        reasoning=("<think>", "</think>") if options else None,
        tools=None,
        trim_artifacts=False,
    )
    certain = list(
        itertools.accumulate(
            sum(len(delta.text.encode("utf-16-le")) // 2 for delta in chat.push(i)) for i in ids
        )
    )
    assert page.evaluate(PACED, [{"runtime": runtime, **options}, URL, ids, certain]) == 0


# The texts before the first error, of all ways to cut the symbols into chunks: a decoder's and a
# stream's, each with a table that knows nothing and with one that knows every step.
BEFORE_AN_ERROR = """async ([options, symbols, url]) => {
  if (url) options.vocabulary = await lib.loadVocabulary(url, options);
  const make = (chunk) => (url ? chunk : new Uint8Array(chunk));
  const seen = new Set();
  const note = (how, text, error) => seen.add(`${how}: ${text} ${error?.name}`);
  for (let cuts = 0; cuts < 2 ** (symbols.length - 1); cuts++) {
    const chunks = [[]];
    symbols.forEach((one, n) => (n && cuts & (1 << (n - 1)) ? chunks.push([one]) : chunks.at(-1).push(one)));
    for (const way of ["decoder", "late", "stream", "deltas"]) {
      const given = { ...options, ...(options.plain ? {} : { stop: [`never ${way} ${cuts} ${Math.random()}`] }) };
      delete given.plain;
      for (const temperature of ["cold", "warm"]) {
        let text = "", error;
        try {
          if (way === "decoder" || way === "late") {
            const decoder = await lib.createDecoder(given);
            for (const chunk of chunks) {
              text += decoder.feed(make(chunk));
              if (way === "decoder") text += await decoder.ready();
            }
            text += decoder.flush();
            do text += await decoder.ready(); while (decoder.waiting);
          } else {
            const stream = new lib.DetokStream({ ...given, output: way === "deltas" ? "deltas" : "text" });
            const reader = sourceOf(chunks.map(make)).pipeThrough(stream).getReader();
            for (let p = await reader.read(); !p.done; p = await reader.read()) text += p.value.text ?? p.value;
          }
        } catch (thrown) { error = thrown; }
        note("text", text, error);
      }
    }
  }
  return [...seen];
}"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("options", "symbols", "url", "before"),
    [
        ({}, [84, 104, 258, 99999999, 105], URL, "Th" + VOCABULARY.token_bytes(258).decode()),
        ({"fatal": True}, [84, 195, 169, 255, 105], URL, "Té"),
        ({"fatal": True}, [84, 104, 0xFF, 105], None, "Th"),
        ({"fatal": True, "plain": True}, [84, 195, 169, 228, 84], None, "Té"),
    ],
)
def test_text_that_was_certain_before_an_error_is_given_first(
    library, options, symbols, url, before
):
    """A law: however the symbols are cut, and whatever the table knows."""
    given = [{"runtime": "micropython", **options}, symbols, url]
    assert library.evaluate(BEFORE_AN_ERROR, given) == [f"text: {before} DetokError"]


def test_a_table_that_is_full_begins_anew_in_the_middle_of_streams(open_library):
    page = open_library()
    rng = random.Random(3)
    runs = [rng.choices([*b"STOPabc ", 0xE4, 0xBD, 0xA0, 256, 258], k=40) for _ in range(12)]
    page.evaluate("async () => { (await import('/src/step-table.js')).StepTable.most = 7; }")
    seen = page.evaluate(PUSHED, [{"runtime": "micropython"}, runs, URL])
    assert seen == [list(pushed(d.Detokenizer(VOCABULARY), run)) for run in runs]


@pytest.mark.full
def test_twenty_megabytes_in_one_write_are_no_reason_to_wait(library):
    seen = library.evaluate(
        """async () => {
          const options = { runtime: "micropython", stop: ["STOP"] };
          const bytes = new Uint8Array(20_000_000).fill(97);
          for (let at = 1000; at < bytes.length; at += 50_000) bytes[at] = 0xff;
          const whole = sourceOf([bytes]).pipeThrough(new lib.DetokStream(options));
          let characters = 0;
          for await (const part of whole) characters += part.length;
          return characters;
        }"""
    )
    assert seen == 20_000_000
