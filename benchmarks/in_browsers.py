"""Ids to text in one page of Chromium and Firefox: detok-web, what browsers have, and other
libraries.

    .venv/bin/python -m benchmarks.in_browsers [--data FOLDER]

The same tokens through each by turns; the library has met each step once. Prints one JSON object a
line: {"bench", "case", "system", "value", "unit"}: wall microseconds a token, the median of several
turns. Needs Chromium, what `make peers` installs, and what `make demo` sets up; Firefox if it is
there.
"""

import base64
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Playwright, sync_playwright

from detok_py import Detokenizer, Vocabulary, load_tokenizer

from .rig import THROUGH, served, settings
from .rows import ROOT, TEN, documents, options, recited, report_system

PEERS = ROOT / ".build" / "peers"
COUNT = 2000
TURNS = 7
# What each page loads of the other libraries, in one file.
ENTRY = """
export { Tokenizer } from "@huggingface/tokenizers";
export { PreTrainedTokenizer, TextStreamer } from "@huggingface/transformers";
export { GptEncoding } from "gpt-tokenizer/esm/GptEncoding";
"""
RUN = (
    "async ([document_, packed, ids, pieces, turns]) => {"
    + THROUGH
    + """
  const { createDecoder, DetokStream, loadVocabulary } = await import("/src/index.js");
  const { GptEncoding, PreTrainedTokenizer, TextStreamer, Tokenizer } = await import("/src/peers.js");
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const vocabulary = await loadVocabulary(new Blob([bytes(packed)]), { cache: false });
  const chunks = ids.map((id) => bytes(pieces[id]));
  const options = { vocabulary };
  const config = { tokenizer_class: "PreTrainedTokenizerFast", clean_up_tokenization_spaces: false };
  const tokenizer = new PreTrainedTokenizer(JSON.parse(document_), config);
  const small = new Tokenizer(JSON.parse(document_), config);
  const ranks = Object.keys(pieces).map((id) => [...bytes(pieces[id])]);
  const gpt = new GptEncoding({ bytePairRankDecoder: ranks, specialTokensEncoder: new Map(), tokenSplitRegex: /\\S+|\\s+/gu });
  const warm = await createDecoder(options);
  for (const id of ids) warm.push(id);
  warm.flush(); await warm.ready();
  const systems = {
    "detok-web createDecoder().push": async () => {
      const decoder = await createDecoder(options);
      return () => { let text = ""; for (const id of ids) text += decoder.push(id); return text + decoder.flush(); };
    },
    "detok-web DetokStream of ids": () => () => through(ids, new DetokStream(options)),
    "detok-web DetokStream of bytes": () => () => through(chunks, new DetokStream()),
    "TextDecoder, stream: true": () => () => {
      const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
      let text = "";
      for (const chunk of chunks) text += utf8.decode(chunk, { stream: true });
      return text + utf8.decode();
    },
    "TextDecoderStream": () => () => through(chunks, new TextDecoderStream()),
    "gpt-tokenizer decodeGenerator": () => () => { let text = ""; for (const part of gpt.decodeGenerator(ids)) text += part; return text; },
    "@huggingface/tokenizers decode of the line so far": () => () => {
      let text = "", line = [], last = "";
      for (const id of ids) {
        line.push(id);
        last = small.decode(line, { skip_special_tokens: true });
        if (last.endsWith("\\n")) { text += last; line = []; last = ""; }
      }
      return text + last;
    },
    "transformers.js TextStreamer": () => () => {
      let text = "";
      const streamer = new TextStreamer(tokenizer, { skip_prompt: true, callback_function: (part) => (text += part), skip_special_tokens: true });
      streamer.put([[]]);
      for (const id of ids) streamer.put([[BigInt(id)]]);
      streamer.end();
      return text;
    },
  };
  const took = {}, times = {}, texts = new Set();
  for (let turn = 0; turn <= turns; turn++)
    for (const [name, make] of Object.entries(systems)) {
      const runs = [];
      for (let n = 0; n < (times[name] ?? 1); n++) runs.push(await make());
      const began = performance.now();
      for (const run of runs) texts.add(await run());
      const each = (performance.now() - began) / runs.length;
      if (turn) (took[name] ??= []).push((1000 * each) / ids.length);
      // The first turn is for compilers, and says how often a run is repeated: clocks tick by the millisecond.
      else times[name] = Math.min(200, Math.ceil(40 / Math.max(each, 0.1)));
    }
  return [took, texts.size];
}"""
)


def bundle() -> str:
    """Return the other libraries as one module."""
    entry = PEERS / "entry.mjs"
    entry.write_text(ENTRY)
    # onnxruntime runs models, and none is run here.
    words = ["--bundle", "--format=esm", "--minify", "--platform=browser", "--log-level=error"]
    words += ["--external:onnxruntime-*", "--alias:onnxruntime-web=./nothing.mjs"]
    words += [
        "--alias:onnxruntime-common=./nothing.mjs",
        "--alias:onnxruntime-web/webgpu=./nothing.mjs",
    ]
    (PEERS / "nothing.mjs").write_text(
        "export const Tensor = class {}; export const InferenceSession = {}; export const env = { wasm: {}, webgpu: {} }; export default {};"
    )
    program = PEERS / "node_modules" / ".bin" / "esbuild"
    done = subprocess.run([program, entry, *words], cwd=PEERS, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"esbuild: {done.stderr[-2000:]}")
    return done.stdout


def ends_inside(vocabulary: Vocabulary, ids: list[int]) -> bool:
    """Return whether the ids end inside a character."""
    stream = Detokenizer(vocabulary)
    stream.feed(ids)
    return bool(stream.held_bytes)


def tokens(data: Path) -> tuple[str, str, list[int], dict[str, str]]:
    """Return a byte-level tokenizer.json, its packed vocabulary, the ids, and the bytes
    of all ids.
    """
    _, document = next(documents(data, ["gpt2"]))
    tokenizer = load_tokenizer(document.encode())
    texts = recited()
    ids = tokenizer.encode("\n".join([texts[name][:400] for name in TEN]))
    ids = (ids * (COUNT // len(ids) + 1))[:COUNT]
    vocabulary = tokenizer.vocabulary
    # What a decoder makes of half a character at the end is not compared here.
    while ends_inside(vocabulary, ids):
        ids.pop()
    pieces = {
        str(i): base64.b64encode(vocabulary.token_bytes(i)).decode() for i in range(len(vocabulary))
    }
    return document, base64.b64encode(vocabulary.pack()).decode(), ids, pieces


def measure(playwright: Playwright, name: str, port: int, given: list[Any]) -> None:
    browser = getattr(playwright, name).launch(**settings(name))
    try:
        page = browser.new_page()
        script = bundle()
        page.route(
            "**/src/peers.js", lambda r: r.fulfill(body=script, content_type="text/javascript")
        )
        page.goto(f"http://127.0.0.1:{port}/src/index.js")
        page.set_default_timeout(300_000)
        took, texts = page.evaluate(RUN, given)
        version = browser.version
    finally:
        browser.close()
    if texts != 1:
        raise SystemExit(f"{name}: the decoders give {texts} different texts")
    case = f"ids to text, {name.title()} {version}"
    for system, values in took.items():
        report_system("browser", case, system, statistics.median(values), "µs a token")


def main() -> None:
    document, packed, ids, pieces = tokens(options(__doc__).parse_args().data)
    with served() as port, sync_playwright() as playwright:
        for name in ("chromium", "firefox"):
            try:
                measure(playwright, name, port, [document, packed, ids, pieces, TURNS])
            except SystemExit as error:
                if name == "chromium":
                    raise
                print(f"Firefox is left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
