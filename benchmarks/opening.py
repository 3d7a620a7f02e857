"""Recorded streams opened in the page: how long that takes, the longest task, and the memory.

    .venv/bin/python -m benchmarks.opening [--runs 3] [--browser chromium]

Files of 6 and 30 MB as an OpenAI-compatible server streams natural text, 28,000 and 141,000 events.
Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}; the
peer is the bar that was set. Milliseconds are wall time. Memory is that of the page's process (the
proportional set size that Linux counts), 10 seconds after the last change. Chromium's spare
processes are not in it. A driven browser keeps a copy of each response in that process, 45 MB on a
first visit with Pyodide, which a reader's browser does not. Needs what `make demo` sets up; memory
needs Linux, and Chromium.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from .rig import renderers, served, settings, threads
from .rows import recited, report

report = partial(report, "opening")
RUNTIMES = ("pyodide", "micropython")
REST_MS = 10_000
FIGURES = {
    "until it is shown": "s",
    "the longest task": "ms",
    "memory of the page before": "MB",
    "memory of the page with it": "MB",
}
# The bars, by megabytes.
SIZES: dict[int, dict[str, float]] = {
    6: {"the longest task": 100, "memory of the page before": 200},
    30: {"until it is shown": 4, "the longest task": 100, "memory of the page with it": 350},
}
# The longest task, as a timer in the page sees it: not all browsers tell of long tasks.
WATCH = """() => {
  window.longest = 0;
  let last = performance.now();
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    const now = performance.now();
    window.longest = Math.max(window.longest, now - last);
    last = now;
    setTimeout(() => { last = performance.now(); channel.port2.postMessage(0); }, 4);
  };
  channel.port2.postMessage(0);
}"""


def events(size: int) -> Iterator[str]:
    """Yield events of natural text until they have `size` bytes."""
    words, made, n = " ".join(recited().values()).replace("\ufffd", "").split(" "), 0, 0
    while made < size:
        chunk = {
            "id": "chatcmpl-Qk3v9sXbWm1fJ2aLr7TzYc0P",
            "object": "chat.completion.chunk",
            "created": 1763900000 + n // 50,
            "model": "Qwen/Qwen3-30B-A3B-Instruct",
            "choices": [{"index": 0, "delta": {"content": words[n % len(words)] + " "}}],
        }
        event = f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
        yield event
        made += len(event.encode())
        n += 1


def opened(page: Page, file: Path) -> tuple[float, float]:
    """Open a file in the page; return the seconds until it is shown, and the longest task in
    milliseconds.
    """
    page.evaluate(WATCH)
    page.evaluate("() => { window.longest = 0; window.began = performance.now(); }")
    page.set_input_files("#import-file", file)
    page.wait_for_function(
        "name => document.querySelector('#status').textContent.startsWith(`${name}:`)",
        arg=file.name,
        timeout=120_000,
    )
    took = page.evaluate("() => performance.now() - window.began") / 1000
    page.wait_for_timeout(1000)
    return took, page.evaluate("() => window.longest")


def memory(browser: Any, before: set[int]) -> float:
    """Return the megabytes of the new renderer that has a worker."""
    total = 0
    for pid in set(renderers(browser)) - before:
        if not any(name.startswith("DedicatedWorker") for name, _, _ in threads(pid)):
            continue
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1000


def visit(browser: Any, url: str, file: Path) -> list[float]:
    """Return the figures of a page that opens a file."""
    chromium = browser.browser_type.name == "chromium"
    before = set(renderers(browser)) if chromium else set()
    page = browser.new_page(reduced_motion="reduce")  # plays no stream by itself
    page.goto(url)
    page.wait_for_selector("html[data-state=ready]", timeout=60_000)
    page.wait_for_timeout(REST_MS)
    rest = memory(browser, before) if chromium else 0.0
    took, longest = opened(page, file)
    page.click("#to-end")
    page.wait_for_timeout(REST_MS)
    after = memory(browser, before) if chromium else 0.0
    page.close()
    return [took, longest, rest, after]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="pages to take the median of (3)")
    parser.add_argument("--browser", default="chromium", choices=("chromium", "firefox"))
    parser.add_argument("--runtime", choices=RUNTIMES, help="only this one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served() as port, sync_playwright() as playwright:
        browser = getattr(playwright, given.browser).launch(**settings(given.browser))
        for runtime in [given.runtime] if given.runtime else RUNTIMES:
            for size, bars in SIZES.items():
                file = Path(folder) / f"{size}.sse"
                file.write_text("".join(events(size * 1_000_000)), "utf-8")
                url = f"http://127.0.0.1:{port}/?runtime={runtime}"
                visits = [visit(browser, url, file) for _ in range(given.runs)]
                for n, (what, unit) in enumerate(FIGURES.items()):
                    value = statistics.median(each[n] for each in visits)
                    if value:
                        case = f"{runtime}, a file of {size} MB: {what}"
                        report(case, value, unit, bars.get(what))
        browser.close()


if __name__ == "__main__":
    main()
