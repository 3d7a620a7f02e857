"""The client library's start in Chromium, by both runtimes, and what a token costs in its worker.

    .venv/bin/python -m benchmarks.library [--runs 5]

A cold visit is a new profile, a second visit the same profile in a browser that has been started
again. The library's own script is there when the clock starts, as it is in a page that has loaded;
what it loads then, and all until the first character, counts. Milliseconds are wall time, so that
other work on the machine shows in them; CPU is that of the worker's thread as the system counts it.
Tokens go through the functions that the library's worker calls, JSON and the border between the
languages included. Prints one JSON object a line, with the bar that was set as the peer. Needs
Linux (/proc), Chromium, and what `make demo` sets up.
"""

import argparse
import contextlib
import json
import runpy
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, Playwright, sync_playwright

from benchmarks.package import until_kept
from benchmarks.page import ROOT, Wire, chromium, start_bridge, threads, worker_seconds

BARS: dict[str, dict[str, float]] = {
    "micropython": {"wire": 300, "first": 150, "token": 25},
    "pyodide": {"wire": 4700, "cpu": 1.0, "again": 700},
}
TOKENS = 12_800

FIRST_CHARACTER = """async (runtime) => {
  const { DetokStream, warmUp } = await import("/src/index.js");
  const began = performance.now();
  const ready = warmUp({ runtime }).then(() => performance.now() - began);
  const reader = new Response("é").body.pipeThrough(new DetokStream({ runtime })).getReader();
  const { value } = await reader.read();
  if (value !== "é") throw new Error(`the first character is ${value}`);
  const first = performance.now() - began;
  return [await ready, first];
}"""

# A worker that boots as the library's does and makes the calls that it makes; each case is run by
# its number.
START = """async (runtime) => {
  const source = `
    const PIECES = [" the", " answer", " is", " caf", "é", ".", "\\\\n", " 你", "好", " and", " so", " on", ",", " it", " goes", " 👩"];
    const chunks = PIECES.map((piece) => new TextEncoder().encode(piece));
    const ids = Array.from({ length: 64 }, (_, n) => n % 16);
    const joined = new TextEncoder().encode(ids.map((n) => PIECES[n]).join(""));
    let embed, python, push;
    const cases = {
      "bytes, a token a call": (n) => { for (; n > 0; n--) JSON.parse(embed.feed_bytes(1, python.fill(chunks[n % 16]))); },
      "bytes, 64 tokens a call": (n) => { for (; n > 0; n -= 64) JSON.parse(embed.feed_bytes(1, python.fill(joined))); },
      "ids, one a call": (n) => { for (; n > 0; n--) JSON.parse(embed.feed_ids(2, "[" + (n % 16) + "]")); },
      "ids, 64 a call": (n) => { for (; n > 0; n -= 64) JSON.parse(embed.feed_ids(2, JSON.stringify(ids))); },
      "ids, pushed one by one inside Python": (n) => push(n),
    };
    self.onmessage = async ({ data: { origin, runtime, name, tokens } }) => {
      if (name) {
        const began = performance.now();
        cases[name](tokens);
        return self.postMessage(performance.now() - began);
      }
      python = await (await import(origin + "/src/boot-" + runtime + ".js")).bootPython(origin + "/runtime/", () => {});
      embed = python.streams;
      python.interpreter.runPython([
        "import detok_py, detok_py.page.answer as browser",
        "browser._vocabularies['test'] = detok_py.Vocabulary.from_bytes([piece.encode() for piece in " + JSON.stringify(PIECES) + "])",
        "stream = detok_py.ChatStream(detok_py.Detokenizer(browser._vocabularies['test']), stop=['STOP'])",
        "def push_many(count):",
        "    push = stream.push",
        "    for n in range(count):",
        "        push(n % 16)",
      ].join("\\\\n"));
      push = python.interpreter.globals.get("push_many");
      const options = { stop: ["STOP"], reasoning: ["<think>", "</think>"] };
      embed.open_text(1, JSON.stringify(options));
      embed.open_text(2, JSON.stringify({ ...options, vocabulary: "test" }));
      self.postMessage(Object.keys(cases));
    };`;
  const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })), { type: "module" });
  window.ask = (question) => new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = (event) => reject(new Error(event.message));
    worker.postMessage({ origin: location.origin, runtime, ...question });
  });
  return ask({});
}"""


def report(case: str, ours: float, unit: str, bar: float | None = None) -> None:
    ratio = None if bar is None else round(ours / bar, 3)
    line = {
        "bench": "library",
        "case": case,
        "ours": round(ours, 3),
        "peer": bar,
        "peer_name": None if bar is None else "bar",
    }
    print(json.dumps({**line, "unit": unit, "ratio": ratio}, ensure_ascii=False), flush=True)


class Profile:
    """A browser with a profile on disk, and the CPU seconds of its workers."""

    def __init__(
        self, playwright: Playwright, settings: dict[str, Any], folder: str, **options: Any
    ) -> None:
        self.folder = folder
        self.context = playwright.chromium.launch_persistent_context(
            folder, executable_path=chromium(), **settings, **options
        )

    def page(self, url: str) -> Page:
        page = self.context.new_page()
        page.goto(url + "/src/index.js")  # any document of the bridge will do
        page.evaluate("async () => { await import('/src/index.js'); }")
        return page

    def cpu(self) -> tuple[float, float]:
        """Return what the workers of its pages have taken so far, and what all threads of all its
        processes have.
        """
        found, parents = set[int](), dict[int, int]()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                parents[int(process.name)] = int(
                    (process / "stat").read_text().rpartition(")")[2].split()[1]
                )
                if f"--user-data-dir={self.folder}" in (process / "cmdline").read_text().split(
                    "\0"
                ):
                    found.add(int(process.name))
        for _ in range(4):
            found |= {pid for pid, parent in parents.items() if parent in found}
        workers = everything = 0.0
        for pid in found:
            with contextlib.suppress(OSError):
                workers += worker_seconds(pid)
                everything += sum(seconds for _, _, seconds in threads(pid))
        return workers, everything


@contextlib.contextmanager
def opened(*args: Any, **options: Any) -> Iterator[Profile]:
    profile = Profile(*args, **options)
    try:
        yield profile
    finally:
        profile.context.close()


def starts(
    playwright: Playwright, settings: dict[str, Any], port: int, runtime: str, runs: int
) -> None:
    """Report the cold and the second visits."""
    seen: dict[str, list[tuple[float, ...]]] = {"cold": [], "second visit": []}
    for _ in range(runs):
        wire = Wire(port)
        with tempfile.TemporaryDirectory() as folder:
            for visit in seen.values():
                with opened(playwright, settings, folder) as profile:
                    page = profile.page(f"http://127.0.0.1:{wire.port}")
                    before, rest = wire.received, profile.cpu()[1]
                    ready, first = page.evaluate(FIRST_CHARACTER, runtime)
                    worker, everything = profile.cpu()
                    visit.append(
                        (
                            (wire.received - before) / 1000,
                            ready,
                            first,
                            worker,
                            1000 * (everything - rest),
                        )
                    )
                    if runtime == "pyodide":
                        until_kept(page)
    bars = BARS[runtime]
    for name, visits in seen.items():
        on_the_wire, ready, first, cpu, everything = [
            statistics.median(column) for column in zip(*visits, strict=True)
        ]
        cold = name == "cold"
        bar = bars.get("first" if cold else "again")
        report(
            f"{runtime}, {name}: on the wire to the first character",
            on_the_wire,
            "kB",
            bars["wire"] if cold else None,
        )
        report(f"{runtime}, {name}: from the first use to ready", ready, "ms")
        report(f"{runtime}, {name}: from the first use to the first character", first, "ms", bar)
        report(
            f"{runtime}, {name}: the same, the best of {runs}",
            min(each[2] for each in visits),
            "ms",
            bar,
        )
        report(
            f"{runtime}, {name}: worker CPU to the first character",
            cpu,
            "s",
            bars.get("cpu") if cold else None,
        )
        report(f"{runtime}, {name}: CPU of all the browser's threads meanwhile", everything, "ms")


def tokens(
    playwright: Playwright, settings: dict[str, Any], port: int, runtime: str, runs: int
) -> None:
    """Report what a token costs."""
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(playwright, settings, folder, bypass_csp=True) as profile,
    ):
        page = profile.page(f"http://127.0.0.1:{port}")
        for name in page.evaluate(START, runtime):
            walls, cpus = [], []
            for n in range(runs + 1):
                before = profile.cpu()[0]
                wall = page.evaluate("question => ask(question)", {"name": name, "tokens": TOKENS})
                if n:  # the first fills the tables
                    walls.append(1000 * wall / TOKENS)
                    cpus.append(1e6 * (profile.cpu()[0] - before) / TOKENS)
            report(
                f"{runtime}, {name}: CPU",
                statistics.median(cpus),
                "µs a token",
                BARS[runtime].get("token"),
            )
            report(
                f"{runtime}, {name}: wall, the best of {runs}",
                min(walls),
                "µs a token",
                BARS[runtime].get("token"),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="visits to take the median of (5)")
    parser.add_argument("--runtime", choices=BARS, help="only this one")
    given = parser.parse_args()
    settings = runpy.run_path(str(ROOT / "playwright.config.py"))["browsers"]["chromium"]
    bridge, port = start_bridge()
    try:
        with sync_playwright() as playwright:
            for runtime in [given.runtime] if given.runtime else BARS:
                starts(playwright, settings, port, runtime, given.runs)
                tokens(playwright, settings, port, runtime, given.runs)
    finally:
        bridge.terminate()
        bridge.wait(10)


if __name__ == "__main__":
    main()
