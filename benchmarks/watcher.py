"""What the watcher costs a page: 20,000 appends with it and without, and its size.

`.venv/bin/python -m benchmarks.watcher [--runs 5] [--pace NAME]` prints one JSON object a line:
{"bench", "case", "ours", "peer", "peer_name", "unit", "ratio", "wall"}. Milliseconds that the
page's main thread computed, from the first append until the last is laid out and painted (the
debugger's ThreadTime: what else the machine does is not in it), and `wall`, the ratio of the times
that passed; medians of interleaved runs, one new page each. The size is of the file as it ships.

Where tasks follow each other without a pause, frames take what time they can get, and a longer task
means the layout of more frames: those cases show the highest cost, the others what a page notices.
"""

import argparse
import gzip
import statistics
from typing import Any

from playwright.sync_api import sync_playwright

from detok_py.glyphs.calls import script
from detok_py.glyphs.watch import GlyphWatch

from .rig import settings
from .rows import report

APPENDS = {
    "text nodes": "log.append('token ')",
    "elements": "log.appendChild(document.createElement('span')).textContent = 'token '",
    "to one text node": "log.firstChild.appendData('tök ')",
}
# How many appends follow each other, and what is waited for then.
PACES = {
    "in one task": (20_000, "0"),
    "a microtask each": (1, "0"),
    "100 a frame": (100, "new Promise(requestAnimationFrame)"),
    "20 a task without a pause": (20, "next()"),
}
CASES = {
    f"{what}, {pace}": (append, *how)
    for pace, how in PACES.items()
    for what, append in APPENDS.items()
}
# Part of the cost is the browser's: it keeps records for anyone who observes, most of all for one
# long text node.
IDLE = "new MutationObserver(() => {}).observe(document, { subtree: true, childList: true, characterData: true, attributes: true })"
RUN = """async ([append, together, pause]) => {
    document.body.innerHTML = '<div id=log> </div>';
    const log = document.querySelector('#log'), channel = new MessageChannel();
    const next = () => new Promise((r) => { channel.port1.onmessage = r; channel.port2.postMessage(0); });
    const act = new Function('log', 'next', `return async () => {
      for (let i = 0; i < 20000; i += ${together}) { for (let j = 0; j < ${together}; j++) ${append}; await ${pause}; }
    }`)(log, next);
    const began = performance.now();
    await act();
    await new Promise(requestAnimationFrame);
    await next();
    return performance.now() - began;
}"""


def thread_time(debugger: Any) -> float:
    """Milliseconds of computing that the page's main thread has had."""
    metrics = {
        one["name"]: one["value"] for one in debugger.send("Performance.getMetrics")["metrics"]
    }
    return metrics["ThreadTime"] * 1000


def sample(browser: Any, kind: str, step: tuple[Any, ...]) -> tuple[float, float]:
    """Return the milliseconds that a new page computed, and those that passed."""
    context = browser.new_context()
    if kind == "watched":
        GlyphWatch(context)
    elif kind != "unwatched":
        context.add_init_script(IDLE)
    page = context.new_page()
    page.goto("data:text/html,<!doctype html><body>")
    debugger = context.new_cdp_session(page)
    debugger.send("Performance.enable")
    before = thread_time(debugger)
    wall = page.evaluate(RUN, list(step))
    computed = thread_time(debugger) - before
    context.close()
    return computed, wall


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="runs to take the median of (5)")
    parser.add_argument("--pace", choices=PACES, help="only the cases of this pace")
    given = parser.parse_args()
    size = len(gzip.compress(script("watcher.js").encode(), 9))
    report("watcher", "gzip", size, "bytes", 6000, "budget")
    kinds = ("watched", "unwatched", "an observer that does nothing")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**settings())
        for case, step in CASES.items():
            if given.pace and not case.endswith(given.pace):
                continue
            turns = [[sample(browser, kind, step) for kind in kinds] for _ in range(given.runs)]
            (ours, our_wall), *others = [
                [statistics.median(column) for column in zip(*samples, strict=True)]
                for samples in zip(*turns, strict=True)
            ]
            for name, (peer, wall) in zip(kinds[1:], others, strict=True):
                ratio = round(our_wall / wall, 2)
                report("watcher", f"20,000 {case}", ours, "ms", peer, name, wall=ratio)
        browser.close()


if __name__ == "__main__":
    main()
