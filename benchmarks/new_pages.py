"""What the first stream of a page that has just been opened costs, by both runtimes, in Chromium
and Firefox.

    .venv/bin/python -m benchmarks.new_pages [--runs 3] [--browser chromium] [--data FOLDER]

A new profile each time (cold), and a second page of it (warm). Natural text in ten languages, by
the vocabulary of Qwen 3: 151,669 tokens. A token is late if `push` gives less than is certain with
it. Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"};
the peer is the bar that was set, or TextDecoderStream by turns. Memory is what V8 counts after a
collection of garbage, in Chromium. Needs the test data, and what `make demo` sets up.
"""

import base64
import itertools
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from detok_py import Detokenizer, load_tokenizer

from .rig import THROUGH, served, settings
from .rows import options, recited, report, unpacked

report = partial(report, "new_pages")
RUNTIMES = ("micropython", "pyodide")
COUNT = 1000
PACED = 300  # tokens of the paced streams
READY = """async ([runtime, packed]) => {
  const { createDecoder, loadVocabulary } = await import("/src/index.js");
  const file = new Blob([Uint8Array.from(atob(packed), (c) => c.charCodeAt(0))]);
  const began = performance.now();
  const vocabulary = await loadVocabulary(file, { runtime, cache: false });
  window.bench = { createDecoder, options: { runtime, vocabulary, stop: ["</s>"] } };
  window.decoder = await createDecoder(window.bench.options);
  return performance.now() - began;
}"""
LATE = """async ([ids, certain, pace]) => {
  const began = performance.now();
  let given = 0, late = 0;
  for (const [n, id] of ids.entries()) {
    await new Promise((go) => setTimeout(go, Math.max(0, began + pace * n - performance.now())));
    given += decoder.push(id).length;
    late += given < certain[n];
  }
  return late;
}"""
LOOP = """(ids) => {
  const { decoder } = window; // as a program holds it: the first look-up in `window` takes long
  const began = performance.now();
  let text = "";
  for (const id of ids) text += decoder.push(id);
  return (1000 * (performance.now() - began)) / ids.length;
}"""
CHUNKS = (
    "async ([ids, pieces]) => {"
    + THROUGH
    + """
  const { DetokStream } = await import("/src/index.js");
  const bytes = pieces.map((hex) => hex.match(/../g).map((pair) => parseInt(pair, 16)));
  const chunks = (all, make) => Array.from({ length: Math.ceil(all.length / 64) }, (_, n) => make(all.slice(64 * n, 64 * n + 64)));
  const ours = [], theirs = [], texts = new Set();
  for (let turn = 0; turn < 12; turn++)
    for (const [took, parts, make] of [
      [ours, chunks(ids, (some) => some), () => new DetokStream(window.bench.options)],
      [theirs, chunks(bytes, (some) => Uint8Array.from(some.flat())), () => new TextDecoderStream()],
    ]) {
      const began = performance.now();
      for (let n = 0; n < 10; n++) texts.add(await through(parts, make()));
      if (turn > 1) took.push((100 * (performance.now() - began)) / ids.length);
    }
  const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
  return [middle(ours), middle(theirs), texts.size];
}"""
)
FILL = """async (size) => {
  for (let id = 0; id < size; id++) {
    decoder.push(id);
    if (decoder.waiting) await decoder.ready();
  }
}"""


def tokens(data: Path) -> tuple[str, int, list[int], list[int], list[str]]:
    """Return a packed vocabulary in base64, its size, ids of natural text, how many UTF-16 units
    are certain with each, and their bytes in hex.
    """
    with tempfile.TemporaryDirectory() as temporary:
        tokenizer = load_tokenizer(unpacked(data, Path(temporary), "qwen3/tokenizer.json"))
    vocabulary = tokenizer.vocabulary
    ids = tokenizer.encode(" ".join(recited().values()))[:COUNT]
    stream = Detokenizer(vocabulary)
    sizes = [len(stream.push(one).encode("utf-16-le")) // 2 for one in ids]
    pieces = [vocabulary.token_bytes(one).hex() for one in ids]
    packed = base64.b64encode(vocabulary.pack()).decode()
    return packed, len(vocabulary), ids, list(itertools.accumulate(sizes)), pieces


def heap(page: Page) -> float:
    """Return the megabytes that the page's thread uses, without garbage."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.enable")
    session.send("HeapProfiler.collectGarbage")
    found = session.send("Runtime.getHeapUsage")
    session.detach()
    return (found["usedSize"] + found.get("backingStorageSize", 0)) / 1e6


def visit(page: Page, runtime: str, given: Any, pace: int) -> dict[str, float]:
    """Return the figures of a new page. Tokens come `pace` milliseconds apart; 0: at once."""
    packed, size, ids, certain, pieces = given
    seen = {"ready": page.evaluate(READY, [runtime, packed])}
    if pace:
        seen["late"] = page.evaluate(LATE, [ids[:PACED], certain, pace])
        return seen
    seen["loop"] = page.evaluate(LOOP, ids)
    seen["64"], seen["64 peer"], texts = page.evaluate(CHUNKS, [ids, pieces])
    if texts != 1:
        raise SystemExit("the decoders don't agree about the text")
    if page.context.browser is None or page.context.browser.browser_type.name == "chromium":
        before = heap(page)
        page.evaluate(FILL, size)
        seen["memory"] = heap(page) - before
    return seen


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=3, help="pages to take the median of (3)")
    parser.add_argument("--browser", choices=("chromium", "firefox"), help="only this one")
    given = parser.parse_args()
    vocabulary = tokens(given.data)
    with served() as port, sync_playwright() as playwright:
        for name in [given.browser] if given.browser else ["chromium", "firefox"]:
            for runtime in RUNTIMES:
                measure(playwright, name, port, runtime, given.runs, vocabulary)


def measure(playwright: Any, name: str, port: int, runtime: str, runs: int, given: Any) -> None:
    """Report the figures of a browser with a runtime."""
    seen: dict[str, list[float]] = {}
    url = f"http://127.0.0.1:{port}/src/index.js"
    for _ in range(runs):
        browser = getattr(playwright, name).launch(**settings(name))
        context = browser.new_context()
        for n, pace in enumerate((20, 5, 0)):
            page = context.new_page()
            page.goto(url)
            for what, value in visit(page, runtime, given, pace).items():
                what = {"late": f"late {pace}", "ready": "ready, warm" if n else "ready, cold"}.get(
                    what, what
                )
                seen.setdefault(what, []).append(value)
            page.close()
        browser.close()
    middle = {what: statistics.median(values) for what, values in seen.items()}
    case = f"{name}, {runtime}: "
    for pace in (20, 5):
        late = max(seen[f"late {pace}"])
        report(f"{case}tokens late of the first 300, {pace} ms apart", late, "tokens", 0)
    report(f"{case}`push`, the first 1,000 tokens", middle["loop"], "µs a token", 2)
    peer = ("TextDecoderStream",)
    report(
        f"{case}DetokStream, 64 ids a chunk", middle["64"], "µs a token", middle["64 peer"], *peer
    )
    if "memory" in middle:
        report(f"{case}a table with all 151,669 tokens", middle["memory"], "MB", 12)
    for visit_ in ("cold", "warm"):
        what = f"{case}vocabulary and decoder ready, {visit_}"
        report(what, middle[f"ready, {visit_}"], "ms")


if __name__ == "__main__":
    main()
