"""What the benchmarks in browsers share: a served page, a browser, the wire between, and CPU times.

CPU seconds are those of a thread as Linux counts them (/proc).
"""

import contextlib
import os
import runpy
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .rows import ROOT

CLOCK = os.sysconf("SC_CLK_TCK")
# JavaScript: the text of parts that go through a stream of the page, one at a time.
THROUGH = """
  const through = async (parts, stream) => {
    const left = [...parts];
    const source = new ReadableStream({ pull: (c) => left.length ? c.enqueue(left.shift()) : c.close() }, { highWaterMark: 0 });
    let text = "";
    const reader = source.pipeThrough(stream).getReader();
    for (let p = await reader.read(); !p.done; p = await reader.read()) text += p.value;
    return text;
  };
"""


def settings(name: str = "chromium") -> dict[str, Any]:
    """Return how the project launches a browser."""
    found: dict[str, Any] = runpy.run_path(str(ROOT / "playwright.config.py"))["browsers"][name]
    return {**found, "executable_path": program(name)}


def program(name: str) -> str:
    """Return the program of a browser. Exits if there is none that can be driven."""
    sys.path.insert(0, str(ROOT / "tools"))
    import browsers

    try:
        return browsers.usable(name)
    except browsers.BrowserNotFound as error:
        raise SystemExit(f"{name}: {error}; tools/browsers.py --install may help.") from None


@contextlib.contextmanager
def served() -> Iterator[int]:
    """Serve with the reciting model, and yield the port."""
    sys.path.insert(0, str(ROOT / "tests"))
    from served_bridge import Bridge

    bridge = Bridge("--engine", "recite")
    try:
        yield int(bridge.url.rpartition(":")[2])
    finally:
        bridge.stop()


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


def processes(browser: Any) -> list[dict[str, Any]]:
    """Return the processes of a browser, each with its "id", "type" and "cpuTime"."""
    session = browser.new_browser_cdp_session()
    found: list[dict[str, Any]] = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return found


def renderers(browser: Any) -> dict[int, float]:
    """Return the pids of the renderer processes with the CPU seconds of each."""
    return {one["id"]: one["cpuTime"] for one in processes(browser) if one["type"] == "renderer"}
