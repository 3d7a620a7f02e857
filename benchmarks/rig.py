"""What the benchmarks in browsers share: a served page, a browser, the wire between, and CPU times.

CPU seconds are those of a thread as Linux counts them (/proc).
"""

import contextlib
import os
import re
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .rows import ROOT

CLOCK = os.sysconf("SC_CLK_TCK")


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
    command = [sys.executable, "-m", "detok_py", "serve", "--port", "0", "--engine", "recite"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if found:
            threading.Thread(target=process.stdout.read, daemon=True).start()
            break
    else:
        raise SystemExit("detok serve did not start; try it by itself: python -m detok_py serve")
    try:
        yield int(found[1])
    finally:
        process.terminate()
        process.wait(10)


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
