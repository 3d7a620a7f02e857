"""How soon detok-web, packed and installed as it is published, shows its first character in
Chromium, by both runtimes, and what that costs.

    .venv/bin/python -m benchmarks.package [--runs 5]

The package is served as a site would: a static server, brotli, files cached forever. The library's
own script is there when the clock starts, as it is in a page that has loaded; what it loads then,
and all until the first character, counts. The stream looks for a stop string, because one of bytes
alone needs no runtime. A cold visit is a new profile, a second visit the same profile in a browser
that has been started again, after the first one has kept what it keeps. A worker of one line is
measured too: no library can be quicker. Milliseconds are wall time; CPU is that of the threads as
the system counts it. One JSON object a line; the peer is the bar that was set. Needs Linux (/proc),
Chromium, Node, and what `make demo` sets up.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, Playwright, sync_playwright

from .rig import Wire, settings, threads, worker_seconds
from .rows import ROOT, report

sys.path.insert(0, str(ROOT / "tests"))
from packed import install, pack

# Of each visit: what is measured, its unit, and the bar that was set for it by runtime and visit.
FIGURES: dict[str, tuple[str, dict[tuple[str, str], float]]] = {
    "on the wire, the library's own script too": (
        "kB",
        {("micropython", "cold"): 300, ("pyodide", "cold"): 4700},
    ),
    "from the first use to the first character": (
        "ms",
        {
            ("micropython", "cold"): 120,
            ("micropython", "second visit"): 100,
            ("pyodide", "cold"): 650,
            ("pyodide", "second visit"): 250,
        },
    ),
    "worker CPU to the first character": ("ms", {("pyodide", "cold"): 1000}),
    "CPU of all the browser's threads meanwhile": ("ms", {}),
    "a worker of one line": ("ms", {}),
}
INDEX = "/node_modules/detok-web/dist/index.js"
FIRST = """async ([index, runtime]) => {
  const { DetokStream } = await import(index);
  const began = performance.now();
  const stream = new DetokStream({ runtime, stop: ["</s>"] });
  const { value } = await new Response("é").body.pipeThrough(stream).getReader().read();
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


class Profile:
    """A browser with a profile on disk, and the CPU seconds of its workers."""

    def __init__(self, playwright: Playwright, folder: str) -> None:
        self.folder = folder
        self.context = playwright.chromium.launch_persistent_context(folder, **settings())

    def page(self, index: str) -> Page:
        """Return a page that has imported the library from the address `index`."""
        page = self.context.new_page()
        page.goto(index)  # any document of that origin will do
        page.evaluate("async (index) => { await import(index); }", index)
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
def opened(playwright: Playwright, folder: str) -> Iterator[Profile]:
    profile = Profile(playwright, folder)
    try:
        yield profile
    finally:
        profile.context.close()


def visited(profile: Profile, port: int, runtime: str) -> list[float]:
    """Return the figures of a visit, without those of the wire."""
    page = profile.page(f"http://127.0.0.1:{port}{INDEX}")
    worker, rest = profile.cpu()
    first = page.evaluate(FIRST, [INDEX, runtime])
    worker_after, after = profile.cpu()
    if runtime == "pyodide":
        until_kept(page)
    empty = page.evaluate(EMPTY)
    return [first, 1000 * (worker_after - worker), 1000 * (after - rest), empty]


def measure(port: int, runs: int) -> None:
    seen: dict[tuple[str, str], list[list[float]]] = {}
    sizes: dict[tuple[str, str], float] = {}
    wire = Wire(port)
    with sync_playwright() as playwright:
        for runtime in ("micropython", "pyodide"):
            for run in range(runs + 1):
                with tempfile.TemporaryDirectory() as folder:
                    for visit in ("cold", "second visit"):
                        # The first run fills the server's memory, and is the one whose bytes are
                        # counted: the proxy that counts them takes time.
                        before = wire.received
                        with opened(playwright, folder) as profile:
                            figures = visited(profile, port if run else wire.port, runtime)
                        if run:
                            figures = [sizes[runtime, visit], *figures]
                            seen.setdefault((runtime, visit), []).append(figures)
                        else:
                            sizes[runtime, visit] = (wire.received - before) / 1000
    for (runtime, visit), visits in seen.items():
        for (what, (unit, bars)), values in zip(
            FIGURES.items(), zip(*visits, strict=True), strict=True
        ):
            case, bar = f"{runtime}, {visit}: {what}", bars.get((runtime, visit))
            report("package", case, statistics.median(values), unit, bar)


def main() -> int:
    options = argparse.ArgumentParser(
        description="How soon the published package shows its first character."
    )
    options.add_argument("--runs", type=int, default=5)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        app = Path(folder) / "app"
        install(pack(), app, pyodide=True)
        (app / "empty.js").write_text("postMessage(1);")
        server = subprocess.Popen(
            ["node", str(ROOT / "benchmarks" / "static_server.mjs"), str(app)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            urllib.request.urlopen(f"http://127.0.0.1:{port}{INDEX}", timeout=30).close()
            measure(port, given.runs)
        finally:
            server.terminate()
            server.wait(10)
            server.stdout.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
