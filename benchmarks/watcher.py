"""What the watcher costs a page: 20,000 appends with it and without, and its size.

`python benchmarks/watcher.py` prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}.
Milliseconds that the page's main thread computed, from the first append to the frame after the last (the debugger's ThreadTime:
what else the machine does is not in it), medians of RUNS interleaved runs, one new page each. The size is of the file as it ships.
"""

import gzip
import importlib.util
import json
import runpy
import statistics
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from detok_py.glyphs.watch import GlyphWatch, script

RUNS = 5
ROOT = Path(__file__).resolve().parents[1]
CASES = {
    "20,000 text nodes, 20 a task": "for (let j = 0; j < 20; j++) log.append('token ');",
    "20,000 elements, 20 a task": "for (let j = 0; j < 20; j++) log.appendChild(document.createElement('span')).textContent = 'token ';",
    "20,000 appends to one text node, 20 a task": "for (let j = 0; j < 20; j++) log.firstChild.appendData('tök ');",
}
# Part of the cost is the browser's: it keeps records for anyone who observes, most of all for one long text node.
IDLE = "new MutationObserver(() => {}).observe(document, { subtree: true, childList: true, characterData: true, attributes: true })"
RUN = """async (step) => {
    document.body.innerHTML = '<div id=log> </div>';
    const log = document.querySelector('#log'), act = new Function('log', step), channel = new MessageChannel();
    const next = () => new Promise((r) => { channel.port1.onmessage = r; channel.port2.postMessage(0); });
    for (let i = 0; i < 1000; i++) { act(log); await next(); }
    await new Promise(requestAnimationFrame);
}"""


def browser_options() -> dict:
    spec = importlib.util.spec_from_file_location("detok_tools_browsers", ROOT / "tools" / "browsers.py")
    finder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(finder)
    return {**runpy.run_path(str(ROOT / "playwright.config.py"))["browsers"]["chromium"], "executable_path": finder.find("chromium")}


def thread_time(debugger: Any) -> float:
    """Milliseconds of computing that the page's main thread has had."""
    metrics = {one["name"]: one["value"] for one in debugger.send("Performance.getMetrics")["metrics"]}
    return metrics["ThreadTime"] * 1000


def main() -> None:
    size = len(gzip.compress(script("watcher.js").encode(), 9))
    print(
        json.dumps(
            {"bench": "watcher", "case": "gzip", "ours": size, "peer": 6000, "peer_name": "budget", "unit": "bytes", "ratio": size / 6000}
        )
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**browser_options())
        for case, step in CASES.items():
            times: dict[str, list[float]] = {"watched": [], "unwatched": [], "an observer that does nothing": []}
            for _ in range(RUNS):
                for kind, samples in times.items():
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
                    page.evaluate(RUN, step)
                    samples.append(thread_time(debugger) - before)
                    context.close()
            ours = statistics.median(times.pop("watched"))
            for name, samples in times.items():
                peer = statistics.median(samples)
                line = {"bench": "watcher", "case": case, "ours": round(ours, 1), "peer": round(peer, 1), "peer_name": name}
                print(json.dumps({**line, "unit": "ms", "ratio": round(ours / peer, 2)}), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
