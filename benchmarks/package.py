"""How soon detok-web, packed and installed as it is published, shows its first character in
Chromium.

    .venv/bin/python -m benchmarks.package [--runs 5]

The package is served as a site would: a static server, brotli, files kept for ever. Milliseconds
are wall time from before the library's script is imported to the first character of a DetokStream;
a cold visit is a new profile, a second visit the same profile in a browser that has been started
again, after the first one has kept what it keeps. Beside them what a worker of one line needs,
which nobody can be quicker than. One JSON object a line.
"""

import argparse
import json
import runpy
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.page import ROOT, chromium

sys.path.insert(0, str(ROOT / "tests"))
from packed import install, pack

BARS = {("micropython", "cold"): 150, ("pyodide", "second visit"): 700}
INDEX = "/node_modules/detok-web/dist/index.js"
FIRST = """async ([index, runtime]) => {
  const began = performance.now();
  const { DetokStream } = await import(index);
  const { value } = await new Response("é").body.pipeThrough(new DetokStream({ runtime })).getReader().read();
  if (value !== "é") throw new Error(`the first character is ${value}`);
  return performance.now() - began;
}"""
KEPT = "async () => (await (await caches.open('detok')).keys()).length > 0"
EMPTY = """async () => {
  const began = performance.now();
  const worker = new Worker("/empty.js", { type: "module" });
  await new Promise((said) => (worker.onmessage = said));
  return performance.now() - began;
}"""


def until_kept(page: Page) -> None:
    """Wait until this visit has kept what a later one begins with, and the browser has written it
    down: a visit lasts longer than that.
    """
    page.wait_for_function(KEPT)
    page.wait_for_timeout(1000)


def measure(url: str, runs: int) -> None:
    settings = runpy.run_path(str(ROOT / "playwright.config.py"))["browsers"]["chromium"]
    seen: dict[tuple[str, str], list[float]] = {}
    with sync_playwright() as playwright:
        for runtime in ("micropython", "pyodide"):
            for _ in range(runs + 1):  # the first run fills the server's memory and is not counted
                with tempfile.TemporaryDirectory() as folder:
                    for visit in ("cold", "second visit"):
                        context = playwright.chromium.launch_persistent_context(
                            folder, executable_path=chromium(), **settings
                        )
                        page = context.new_page()
                        page.goto(url + "/index.html")
                        page.wait_for_timeout(300)
                        seen.setdefault((runtime, visit), []).append(
                            page.evaluate(FIRST, [INDEX, runtime])
                        )
                        if runtime == "pyodide":
                            until_kept(page)
                        seen.setdefault(("a worker of one line", visit), []).append(
                            page.evaluate(EMPTY)
                        )
                        context.close()
    for (what, visit), times in seen.items():
        ours, bar = round(statistics.median(times[1:]), 1), BARS.get((what, visit))
        line = {
            "bench": "package",
            "case": f"{what}, {visit}: to the first character",
            "ours": ours,
            "peer": bar,
            "peer_name": bar and "bar",
        }
        print(
            json.dumps(
                {
                    **line,
                    "unit": "ms",
                    "ratio": bar and round(ours / bar, 3),
                    "best": round(min(times[1:]), 1),
                }
            ),
            flush=True,
        )


def main() -> int:
    options = argparse.ArgumentParser(
        description="How soon the published package shows its first character."
    )
    options.add_argument("--runs", type=int, default=5)
    with tempfile.TemporaryDirectory() as folder:
        app = Path(folder) / "app"
        install(pack(Path(folder)), app, pyodide=True)
        (app / "index.html").write_text('<!doctype html><link rel="icon" href="data:,">')
        (app / "empty.js").write_text("postMessage(1);")
        server = subprocess.Popen(
            ["node", str(ROOT / "benchmarks" / "static_server.mjs"), str(app)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        try:
            url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
            urllib.request.urlopen(url + INDEX, timeout=30).close()
            measure(url, options.parse_args().runs)
        finally:
            server.terminate()
            server.wait(10)
            server.stdout.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
