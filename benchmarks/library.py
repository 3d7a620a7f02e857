"""What a token costs a page, through the public API of the library, by both runtimes, in Chromium.

    .venv/bin/python -m benchmarks.library [--runs 5]

Microseconds are wall time, so that other work on the machine shows in them. Prints one JSON object
a line, with the bar that was set as the peer. Needs Chromium, the test data, and what `make demo`
sets up. What the library's start costs is measured by benchmarks.package.
"""

import base64
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Playwright, sync_playwright

from detok_py import load_tokenizer

from .package import opened
from .rig import THROUGH, served
from .rows import TEN, documents, options, recited, report

RUNTIMES = ("micropython", "pyodide")

# The same ids through the public API and through what browsers have, interleaved: microseconds a
# token, wall time. A new page meets each step for the first time; a warm one has met them all.
COSTS = (
    "async ([runtime, packed, ids, pieces, warm]) => {"
    + THROUGH
    + """
  const { createDecoder, DetokStream, loadVocabulary } = await import("/src/index.js");
  const file = new Blob([Uint8Array.from(atob(packed), (c) => c.charCodeAt(0))]);
  const vocabulary = await loadVocabulary(file, { runtime, cache: false });
  const chunks = pieces.map((hex) => new Uint8Array(hex.match(/../g).map((pair) => parseInt(pair, 16))));
  const options = { runtime, vocabulary, stop: ["</s>"] };
  const decoder = await createDecoder(options);
  const took = {}, texts = new Set();
  const time = async (name, run) => {
    const began = performance.now();
    const text = run();
    texts.add(text instanceof Promise ? await text : text);
    (took[name] ??= []).push((1000 * (performance.now() - began)) / ids.length);
  };
  // The loop alone, and with what comes late.
  let began = performance.now(), text = "";
  for (const id of ids) text += decoder.push(id);
  took["createDecoder().push, a new page: the loop"] = [(1000 * (performance.now() - began)) / ids.length];
  took["createDecoder().push, a new page: characters late"] = [text.length];
  text += decoder.flush() + (await decoder.ready());
  took["createDecoder().push, a new page: to the last character"] = [(1000 * (performance.now() - began)) / ids.length];
  took["createDecoder().push, a new page: characters late"][0] = text.length - took["createDecoder().push, a new page: characters late"][0];
  texts.add(text);
  for (let run = 0; run < warm; run++) {
    await time("TextDecoder, stream", () => {
      const utf8 = new TextDecoder();
      let text = "";
      for (const chunk of chunks) text += utf8.decode(chunk, { stream: true });
      return text + utf8.decode();
    });
    const again = await createDecoder(options);
    await time("createDecoder().push, warm", () => {
      let text = "";
      for (const id of ids) text += again.push(id);
      return text + again.flush();
    });
    await time("TextDecoderStream, a token a chunk", () => through(chunks, new TextDecoderStream()));
    await time("DetokStream of ids, a token a chunk, warm", () => through(ids, new DetokStream(options)));
    await time("DetokStream of bytes, a token a chunk", () => through(chunks, new DetokStream({ runtime })));
  }
  return [took, texts.size];
}"""
)


def natural(data: Path, count: int) -> tuple[bytes, list[int], list[str]]:
    """Return a packed vocabulary, `count` ids of natural text in ten languages, and their bytes."""
    _, document = next(documents(data, ["gpt2"]))
    tokenizer, texts = load_tokenizer(document.encode()), recited()
    ids = tokenizer.encode(" ".join([texts[name] for name in TEN]))
    ids = (ids * (count // len(ids) + 1))[:count]
    vocabulary = tokenizer.vocabulary
    return vocabulary.pack(), ids, [vocabulary.token_bytes(i).hex() for i in ids]


def tokens(playwright: Playwright, port: int, runtime: str, runs: int, data: Path) -> None:
    """Report what a token costs the page's thread, by the public API, beside the browser's own."""
    for count in (200, 1000, 5000):
        packed, ids, pieces = natural(data, count)
        encoded = base64.b64encode(packed).decode()
        seen: dict[str, list[float]] = {}
        for _ in range(3):
            with (
                tempfile.TemporaryDirectory() as folder,
                opened(playwright, folder) as profile,
            ):
                page = profile.page(f"http://127.0.0.1:{port}/src/index.js")
                took, texts = page.evaluate(COSTS, [runtime, encoded, ids, pieces, runs])
            if texts != 1:
                raise SystemExit("the decoders don't agree about the text")
            for case, values in took.items():
                seen.setdefault(case, []).extend(values)
        stream = statistics.median(seen["TextDecoderStream, a token a chunk"])
        for case, values in seen.items():
            unit = "characters" if case.endswith("late") else "µs a token"
            bar = {
                "createDecoder().push, warm": 0.5,
                "createDecoder().push, a new page: the loop": 2,
            }
            if case.startswith("DetokStream of ids"):
                bar[case] = 1.2 * stream
            name = f"{runtime}, {count} tokens: {case}"
            report("library", name, statistics.median(values), unit, bar.get(case))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=5, help="times a warm page is measured (5)")
    parser.add_argument("--runtime", choices=RUNTIMES, help="only this one")
    given = parser.parse_args()
    with served() as port, sync_playwright() as playwright:
        for runtime in [given.runtime] if given.runtime else RUNTIMES:
            tokens(playwright, port, runtime, given.runs, given.data)


if __name__ == "__main__":
    main()
