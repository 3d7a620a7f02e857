"""The page with very long streams, in Chromium: whether it stays usable.

    .venv/bin/python -m benchmarks.long_streams

Opens a capture of 100,000 tokens, scrubs and steps in it, streams some 173,000 tokens at full
speed, and streams at 100 tokens a second. Prints one JSON object a line, as benchmarks/page.py
does; the bars are those that the page was built for. A "freeze" is the longest time between two
frames.
"""

import base64
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from .page import boot, report, stream
from .rig import main_seconds, processes, served, settings, threads
from .rows import recited

TOKENS = 100_000
WATCH = """() => {
  globalThis.longest = { task: 0, frame: 0 };
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) longest.task = Math.max(longest.task, duration);
  }).observe({ type: "longtask" });
  let last = performance.now();
  requestAnimationFrame(function frame() {
    const now = performance.now();
    longest.frame = Math.max(longest.frame, now - last);
    last = now;
    requestAnimationFrame(frame);
  });
}"""
# From the event to the end of the first frame that shows it.
TIMED = """async ([act, value]) => {
  const begin = performance.now();
  if (act === "scrub") {
    const scrub = document.getElementById("scrub");
    scrub.value = value;
    scrub.dispatchEvent(new Event("input", { bubbles: true }));
  } else document.getElementById(act).click();
  await new Promise((resolve) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = resolve;
    port2.postMessage(null);
  }));
  return performance.now() - begin;
}"""
FILL = """async (text) => {
  document.querySelector("[name=source][value=text]").click();
  document.getElementById("own-text").value = text;
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
}"""
RESET = "() => { longest.task = longest.frame = 0; }"


def long_capture(text: str) -> str:
    """Return a capture of TOKENS tokens, some of which end inside a character."""
    data = (text * (1 + 5 * TOKENS // len(text.encode()))).encode()
    lines = ['{"detok":1,"engine":{"name":"benchmark","fidelity":"ids"}}']
    at = 0
    for n in range(TOKENS):
        size = 2 + n % 4
        piece = base64.b64encode(data[at : at + size]).decode()
        lines.append(f'[0.01,"t",[[{n % 1000},"{piece}"]]]')
        at += size
    return "\n".join(lines) + "\n"


def measure_capture(page: Page, file: Path) -> None:
    page.evaluate(RESET)
    began = time.monotonic()
    page.locator("#import-file").set_input_files(file)
    page.wait_for_function(
        f"() => Number(document.getElementById('scrub').max) >= {TOKENS}", timeout=120_000
    )
    report("100,000 tokens: capture read", time.monotonic() - began, "s")
    page.evaluate(TIMED, ["to-end", 0])
    page.wait_for_timeout(500)
    report("100,000 tokens: longest task", page.evaluate("() => longest.task"), "ms", 100)
    scrubs = [
        page.evaluate(TIMED, ["scrub", at])
        for at in (50_000, 100, 99_000, 25_000, 75_000, 10, 100_000)
    ]
    report("100,000 tokens: slowest scrub", max(scrubs), "ms", 100)
    page.evaluate(TIMED, ["scrub", 90_000])
    steps = [page.evaluate(TIMED, [name, 0]) for name in ("step", "step-back") * 10]
    report("100,000 tokens: a step, median", statistics.median(steps), "ms", 16)


def busy(pid: int) -> dict[str, float]:
    """Return the CPU seconds of a process's threads, by what they do."""
    return {"main": main_seconds(pid), "all": sum(seconds for _, _, seconds in threads(pid))}


def cpu_of_browser(browser: Any) -> float:
    return sum(process["cpuTime"] for process in processes(browser))


def steady(page: Page, pid: int, browser: Any, text: str) -> None:
    """Report what a core does at 100 tokens a second."""
    before, whole, began = busy(pid), cpu_of_browser(browser), time.monotonic()
    stream(page, text[:2400], 100, frames=False)
    seconds = time.monotonic() - began
    spent = {name: after - before[name] for name, after in busy(pid).items()}
    spent["whole"] = cpu_of_browser(browser) - whole
    for what, name, bar in (
        ("main thread", "main", None),
        ("renderer", "all", 25),
        ("browser, all processes", "whole", None),
    ):
        report(f"100 tokens/s: {what}", 100 * spent[name] / seconds, "% of a core", bar)


def main() -> None:
    """Run all cases."""
    text = " ".join(recited().values())
    with (
        served() as port,
        sync_playwright() as playwright,
        tempfile.TemporaryDirectory() as folder,
    ):
        browser = playwright.chromium.launch(**settings())
        _, page, pid = boot(browser, f"http://127.0.0.1:{port}/")
        steady(page, pid, browser, text)
        page.evaluate(WATCH)
        file = Path(folder, "long.detok.jsonl")
        file.write_text(long_capture(text), "utf-8")
        measure_capture(page, file)

        # To lay out so long a text in its own field takes a browser 0.1 to 0.3 s, before the
        # stream.
        page.evaluate(FILL, (text * 40)[:262_000])
        page.evaluate(RESET)
        began = time.monotonic()
        result = stream(page, (text * 40)[:262_000], 0)
        report(f"{result['tokens']:.0f} tokens at full speed", time.monotonic() - began, "s")
        report("at full speed: longest task", page.evaluate("() => longest.task"), "ms", 100)
        report("at full speed: longest freeze", page.evaluate("() => longest.frame"), "ms")
        browser.close()


if __name__ == "__main__":
    main()
