"""Real chat UIs before the engine that recites, with the chaos proxy on both sides of each: what starts them and what drives them.

    engine ── proxy ── the UI's own server ── proxy ── browser

Both proxies cut in the same way. In: what `make real-uis` has installed in .build/real-uis/. Nothing is left running.
"""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

import pytest

from detok_py.bridge.engines.recite import FOLDER, texts
from detok_py.glyphs import ChaosProxy
from detok_py.glyphs.command import put

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INSTALLED = ROOT / ".build" / "real-uis"
PYTHON = INSTALLED / "venv" / "bin" / "python"
MOST_SECONDS = 120.0
TEXTS = {text["id"]: text for text in texts()}


class Program:
    """A child process that says in one JSON line where it is, and ends when its stdin does."""

    def __init__(self, *command: str | Path) -> None:
        self.process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.said = json.loads(self.process.stdout.readline())
        self.reader = threading.Thread(target=self.process.stdout.read, daemon=True)
        self.reader.start()

    def stop(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        self.reader.join(10)
        self.process.stdout.close()


def start_node(engine: str) -> Program:
    # Node looks for packages beside the file that imports them, and this folder's neighbours have other ones.
    site = INSTALLED / "site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(HERE / "pages", site / "pages")
    shutil.copy(HERE / "server.mjs", site)
    return Program("node", site / "server.mjs", engine)


def start_gradio(engine: str) -> Program:
    return Program(PYTHON, HERE / "gradio_chat.py", engine)


class Streamlit:
    """`streamlit run`, which neither takes port 0 nor says when it is ready."""

    def __init__(self, engine: str) -> None:
        port = free_port()
        options = {"port": port, "address": "127.0.0.1", "headless": "true", "fileWatcherType": "none"}
        words = [f"--server.{name}={value}" for name, value in options.items()]
        command = [PYTHON, "-m", "streamlit", "run", HERE / "streamlit_chat.py", *words, "--browser.gatherUsageStats=false", "--", engine]
        self.process = subprocess.Popen(command, cwd=INSTALLED, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.said = {"url": f"http://127.0.0.1:{port}"}
        until = time.monotonic() + MOST_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.1)
        self.stop()
        pytest.fail("Streamlit did not start.")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


def start_engine() -> Program:
    """Start llama.cpp with the model that recites; it says on which port."""
    return Program(sys.executable, "-m", "detok_py.bridge.engines.recite_server", "--model", FOLDER / "recite.gguf")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


START = {"node": start_node, "gradio": start_gradio, "streamlit": Streamlit}


class UI(NamedTuple):
    """One way to use a chat UI: the package that is tried, the server that serves it, and the path there."""

    name: str
    package: str
    server: str
    path: str

    @property
    def version(self) -> str:
        if self.server == "node":
            return str(json.loads((INSTALLED / "node_modules" / self.package / "package.json").read_text("utf-8"))["version"])
        command = [PYTHON, "-c", "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))", self.package]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Conversation:
    """A chat page, watched, with its streams cut on both sides."""

    def __init__(self, page: Any, watch: Any, chaos: ChaosProxy, before_engine: ChaosProxy) -> None:
        self.page, self.watch, self.chaos, self.before_engine = page, watch, chaos, before_engine
        self.foreign: set[str] = set()
        self.errors: list[str] = []
        page.on("request", lambda request: self._asked_for(urlsplit(request.url)))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        before_engine.split = chaos.split
        before_engine.answers.clear()

    def _asked_for(self, url: SplitResult) -> None:
        if url.scheme.startswith("http") and url.hostname != "127.0.0.1":
            self.foreign.add(url.netloc)

    def open(self, address: str) -> None:
        self.foreign.clear()
        self.page.goto(self.chaos.url(address), wait_until="domcontentloaded")
        self.page.get_by_role("textbox").last.wait_for(timeout=60_000)
        assert self.watch.settle(timeout_ms=60_000), "the page did not come to rest before it was asked anything"

    def ask(self, name: str) -> str:
        """Ask for a text as a person does, wait until all of it has come, and return what was true."""
        inner, outer = len(self.before_engine.answers), len(self.chaos.answers)
        field = self.page.get_by_role("textbox").last
        field.click()
        put(field, TEXTS[name]["prompt"])
        field.press("Enter")
        until = time.monotonic() + MOST_SECONDS
        while time.monotonic() < until:
            # An answer that the engine gives whole is no stream there, but becomes one behind it.
            ours = self.before_engine.answers[inner:] or self.chaos.answers[outer:]
            if ours and all(answer.finished for answer in ours):
                break
            self.page.wait_for_timeout(50)
        else:
            pytest.fail(f"no whole answer to {TEXTS[name]['prompt']!r} left the engine")
        assert self.watch.settle(quiet_ms=1000, timeout_ms=MOST_SECONDS * 1000), "the page did not come to rest after the answer"
        return str(TEXTS[name]["text"])
