"""The page in Chromium: what it costs to be ready, what is on the wire, how long text waits for its
paint, and what rate it keeps up with.

    .venv/bin/python -m benchmarks.page [--runs 3]

Prints one JSON object a line: {"bench", "case", "ours", "peer", "peer_name", "unit", "ratio"}; the
peer is the bar that was set, where there is one. CPU seconds are those of the thread itself as the
system counts them, so that other work on the machine adds little; milliseconds and frames are wall
time and do depend on it. Needs Linux (/proc), Chromium, and what `make demo` sets up.
"""

import argparse
import json
import os
import re
import runpy
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
CLOCK = os.sysconf("SC_CLK_TCK")
RATES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
# A frame is dropped when the next one comes later than one and a half frames of 60 a second.
LATE_MS = 25


def report(case: str, ours: float, unit: str, bar: float | None = None) -> None:
    ratio = None if bar is None else round(ours / bar, 3)
    peer = {"peer": bar, "peer_name": None if bar is None else "bar"}
    line = {
        "bench": "page",
        "case": case,
        "ours": round(ours, 3),
        **peer,
        "unit": unit,
        "ratio": ratio,
    }
    print(json.dumps(line, ensure_ascii=False), flush=True)


def chromium() -> str:
    sys.path.insert(0, str(ROOT / "tools"))
    import browsers

    try:
        return browsers.usable("chromium")
    except browsers.BrowserNotFound as error:
        raise SystemExit(f"Chromium: {error}; tools/browsers.py --install may help.") from None


def start_bridge() -> tuple[subprocess.Popen[str], int]:
    """Return a bridge of our own, and its port."""
    command = [sys.executable, "-m", "detok_py", "serve", "--port", "0", "--engine", "recite"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if found:
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return process, int(found[1])
    raise SystemExit("detok serve did not start; try it by itself: python -m detok_py serve")


class Wire:
    """A proxy that counts the bytes from the bridge to the browser, headers included."""

    def __init__(self, port: int) -> None:
        self.received = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._upstream, args=(client, server), daemon=True).start()
            threading.Thread(target=self._downstream, args=(server, client), daemon=True).start()

    def _upstream(self, client: socket.socket, server: socket.socket) -> None:
        # The bridge answers to its own address only.
        ours, theirs = f"127.0.0.1:{self.port}".encode(), f"127.0.0.1:{self._target}".encode()
        try:
            while data := client.recv(1 << 16):
                server.sendall(data.replace(ours, theirs) if b" HTTP/1.1\r\n" in data else data)
        except OSError:
            pass
        server.close()

    def _downstream(self, server: socket.socket, client: socket.socket) -> None:
        try:
            while data := server.recv(1 << 16):
                self.received += len(data)
                client.sendall(data)
        except OSError:
            pass
        client.close()


def worker_seconds(pid: int) -> float:
    """Return the CPU seconds of a renderer's dedicated workers."""
    return sum(seconds for name, _, seconds in threads(pid) if name.startswith("DedicatedWorker"))


def main_seconds(pid: int) -> float:
    """Return the CPU seconds of a renderer's main thread."""
    return sum(seconds for _, tid, seconds in threads(pid) if tid == pid)


def threads(pid: int) -> list[tuple[str, int, float]]:
    """Return (name, id, CPU seconds) of each thread of a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            found.append(
                (
                    (task / "comm").read_text().strip(),
                    int(task.name),
                    (int(fields[11]) + int(fields[12])) / CLOCK,
                )
            )
        except OSError:
            continue  # it has ended
    return found


def renderers(browser: Any) -> dict[int, float]:
    """Return the pids of the renderer processes with the CPU seconds of each."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return {
        process["id"]: process["cpuTime"] for process in processes if process["type"] == "renderer"
    }


def wait_for(page: Page, state: str) -> None:
    page.wait_for_selector(f"html[data-state={state}]", state="attached", timeout=120_000)


def boot(browser: Any, url: str) -> tuple[Any, Page, int]:
    """Return a context with a page that is ready, and the renderer that has it."""
    before = set(renderers(browser))
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url)
    wait_for(page, "ready")
    new = {pid: seconds for pid, seconds in renderers(browser).items() if pid not in before}
    return context, page, max(new, key=worker_seconds)


def stream(
    page: Page, text: str, pace: float, cut: str = "token", frames: bool = True
) -> dict[str, Any]:
    """Stream a text on the page; return its counters, and with `frames` those of the main thread
    meanwhile, which makes the browser draw every one of them.
    """
    result: dict[str, Any] = page.evaluate(
        """async ([text, pace, cut, counted]) => {
          document.querySelector("[name=source][value=text]").click();
          document.getElementById("own-text").value = text;
          document.getElementById("cut").value = cut;
          const list = document.getElementById("pace");
          if (![...list.options].some(({ value }) => value === pace)) list.append(new Option(pace, pace));
          list.value = pace;
          const frames = [];
          let last = performance.now();
          let going = counted;
          const frame = () => {
            const now = performance.now();
            frames.push(now - last);
            last = now;
            if (going) requestAnimationFrame(frame);
          };
          if (counted) requestAnimationFrame(frame);
          const begun = performance.now();
          document.getElementById("start").click();
          await new Promise((resolve) => {
            const watch = new MutationObserver(() => {
              if (document.documentElement.dataset.state !== "streaming") {
                watch.disconnect();
                resolve();
              }
            });
            watch.observe(document.documentElement, { attributes: true });
          });
          going = false;
          const count = (name) => document.querySelector(`#gauges [data-count=${name}]`).textContent;
          const { state } = document.documentElement.dataset;
          const tokens = Number(count("tokens"));
          const rate = (1000 * tokens) / (performance.now() - begun);
          return { state, frames, tokens, rate, painted: count("painted"), decoding: Number(count("decoding")) };
        }""",
        [text, str(pace), cut, frames],
    )
    if result["state"] != "finished":
        raise SystemExit(f"the stream ended in {result['state']}: {page.inner_text('#alert')}")
    return result


def dropped(frames: list[float]) -> float:
    """Return the share of frames that came late."""
    return sum(frame > LATE_MS for frame in frames) / max(1, len(frames))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="boots to take the median of (3)")
    runs = parser.parse_args().runs
    settings = runpy.run_path(str(ROOT / "playwright.config.py"))
    texts = json.loads((ROOT / "detok_py" / "bridge" / "recite" / "texts.json").read_text("utf-8"))
    text = " ".join(one["text"] for one in texts)
    bridge, port = start_bridge()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium(), **settings["browsers"]["chromium"]
            )
            cpu, wall, wire_bytes = [], [], 0
            for _ in range(runs):
                wire = Wire(port)
                began = time.monotonic()
                context, page, pid = boot(browser, f"http://127.0.0.1:{wire.port}/")
                wall.append(time.monotonic() - began)
                cpu.append(worker_seconds(pid))
                wire_bytes = wire.received
                context.close()
            report("worker CPU from page load to ready", statistics.median(cpu), "s", 1.5)
            report("wall time from page load to ready", statistics.median(wall), "s")
            report("on the wire to ready, headers included", wire_bytes / 1000, "kB", 8200)

            context, page, pid = boot(browser, f"http://127.0.0.1:{port}/")
            result = stream(page, text[:1500], 100)
            p50, p99 = result["painted"].split(" · ")
            report("frame arrival to paint at 100 tokens/s, p50", float(p50), "ms")
            report("frame arrival to paint at 100 tokens/s, p99", float(p99), "ms")
            report("decoding, by its own clock, at 100 tokens/s", result["decoding"], "µs a token")

            idle: list[float] = page.evaluate(
                """() => new Promise((resolve) => {
                  const frames = [];
                  let last = performance.now();
                  requestAnimationFrame(function frame() {
                    const now = performance.now();
                    frames.push(now - last);
                    last = now;
                    frames.length < 180 ? requestAnimationFrame(frame) : resolve(frames);
                  });
                })"""
            )
            report("frames dropped by an idle page on this machine", 100 * dropped(idle), "%")
            sustained = 0.0
            for rate in RATES:
                amount = (text * 20)[: max(1500, 8 * rate)]
                main_before, worker_before = main_seconds(pid), worker_seconds(pid)
                result = stream(page, amount, rate)
                late = dropped(result["frames"])
                report(
                    f"frames dropped at {rate} tokens/s asked, {result['rate']:.0f} reached",
                    100 * late,
                    "%",
                )
                tokens = result["tokens"]
                report(
                    f"main thread CPU a token at {rate} tokens/s",
                    1e6 * (main_seconds(pid) - main_before) / tokens,
                    "µs",
                )
                report(
                    f"worker CPU a token at {rate} tokens/s",
                    1e6 * (worker_seconds(pid) - worker_before) / tokens,
                    "µs",
                )
                if late <= dropped(idle) + 0.02:
                    sustained = max(sustained, result["rate"])
            report("tokens/s before the main thread drops frames", sustained, "tokens/s")
            context.close()
            browser.close()
    finally:
        bridge.terminate()
        bridge.wait(10)


if __name__ == "__main__":
    main()
