"""Starts real chat UIs with the reciting engine and drives them, with a chaos proxy on both sides.

    engine ── proxy ── the UI's own server ── proxy ── browser

Both proxies cut in the same way. `make real-uis` installs the UIs in .build/real-uis/.
"""

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit
from urllib.request import Request, urlopen

import pytest
from local_server import free_port
from served_bridge import Bridge

from detok_py.bridge.engines.recite import FOLDER, texts
from detok_py.glyphs import ChaosProxy
from detok_py.glyphs.drive import put

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INSTALLED = ROOT / ".build" / "real-uis"
PYTHON = INSTALLED / "venv" / "bin" / "python"
NUMBERS = itertools.count()  # of the servers' folders: a UI may run twice
MOST_SECONDS = 120.0
MOST_SECONDS_BEHIND = 30.0
# Open WebUI takes two minutes to start where the machine is busy.
MOST_SECONDS_TO_START = 400.0
TEXTS = {text["id"]: text for text in texts()}


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


class Program:
    """A child process that prints its address as a JSON line, and ends when its stdin is closed."""

    def __init__(self, *command: str | Path) -> None:
        self.process = subprocess.Popen(
            [str(word) for word in command],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(10)
            pytest.fail(f"{command[:2]} did not start")
        self.said = json.loads(line)
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


class Node:
    """Serves the UIs from npm, beside the packed library and a `detok serve` for it."""

    def __init__(self, engine: str) -> None:
        site = make_site()
        self.bridge = Bridge("--engine", engine)
        try:
            self.program = Program("node", site / "server.mjs", engine, self.bridge.url)
        except BaseException:
            self.bridge.stop()
            raise
        self.said = self.program.said

    def stop(self) -> None:
        self.program.stop()
        self.bridge.stop()


def make_site() -> Path:
    """Return a folder with the pages and the npm package of detok-web."""
    # Node searches for packages in the folders above the importing file, where this repository has
    # other ones.
    site = INSTALLED / "site"
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(HERE / "pages", site / "pages")
    shutil.copy(HERE / "server.mjs", site)
    packed = subprocess.run(
        ["node", "tools/package_web.mjs", str(site)], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(json.loads(packed.stdout.splitlines()[-1])["file"]) as package:
        package.extractall(site, filter="data")
    (site / "package").rename(site / "detok-web")
    return site


def start_gradio(engine: str) -> Program:
    return Program(PYTHON, HERE / "gradio_chat.py", engine)


class Server:
    """Runs a UI's server on a given port, because it reports neither its own nor when it is ready.

    `{port}` in the command is the port; `environment` is added to ours. It runs in a folder of its
    own, where it may write.
    """

    def __init__(self, name: str, *command: str | Path, **environment: str) -> None:
        port = free_port()
        self.said = {"url": f"http://127.0.0.1:{port}"}
        folder = INSTALLED / "run" / f"{name}-{next(NUMBERS)}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # NiceGUI behaves differently where it finds itself in a test.
        ours = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [str(word).format(port=port) for word in command],
                cwd=folder,
                env={**ours, "PYTHONPATH": str(ROOT), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + MOST_SECONDS_TO_START
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.1)
        self.stop()
        pytest.fail(f"{name} did not start:\n{(folder / 'log').read_text('utf-8')[-2000:]}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


def start_llama_ui(engine: str) -> Program:
    """Start a llama.cpp that serves its own UI: it is the engine itself."""
    return Program(sys.executable, HERE / "llama_ui.py", FOLDER / "recite.gguf")


def start_streamlit(engine: str) -> Server:
    options = ["--server.port={port}", "--server.address=127.0.0.1", "--server.headless=true"]
    options += ["--server.fileWatcherType=none", "--browser.gatherUsageStats=false"]
    command = [PYTHON, "-m", "streamlit", "run", HERE / "streamlit_chat.py", *options]
    return Server("streamlit", *command, ENGINE=engine)


def start_nicegui(engine: str) -> Server:
    return Server("nicegui", PYTHON, HERE / "nicegui_chat.py", "{port}", engine)


def start_marimo(engine: str, mode: str = "client") -> Server:
    options = ["--headless", "--no-token", "--host", "127.0.0.1", "--port", "{port}"]
    command = [PYTHON, "-m", "marimo", "--yes", "run", HERE / "marimo_chat.py", *options]
    return Server(f"marimo-{mode}", *command, ENGINE=engine, MODE=mode)


def start_chainlit(engine: str, mode: str = "client") -> Server:
    options = ["--headless", "--host", "127.0.0.1", "--port", "{port}"]
    command = [PYTHON, "-m", "chainlit", "run", HERE / "chainlit_chat.py", *options]
    return Server(f"chainlit-{mode}", *command, ENGINE=engine, MODE=mode)


OPEN_WEBUI = ROOT / ".build" / "open-webui" / "venv" / "bin" / "open-webui"


def start_open_webui(engine: str) -> Server:
    """Start Open WebUI without accounts, and install the function that uses detok_py.

    Nothing is downloaded, and nothing is asked of the engine but the answer.
    """
    if not OPEN_WEBUI.exists():
        pytest.skip("Open WebUI is not installed: it needs torch for the CPU")
    off = (
        "ENABLE_OLLAMA_API",
        "ENABLE_TITLE_GENERATION",
        "ENABLE_TAGS_GENERATION",
        "ENABLE_FOLLOW_UP_GENERATION",
        "ENABLE_VERSION_UPDATE_CHECK",
        "ANONYMIZED_TELEMETRY",
        "WEBUI_AUTH",
    )
    server = Server(
        "open-webui",
        *(OPEN_WEBUI, "serve", "--host", "127.0.0.1", "--port", "{port}"),
        **dict.fromkeys(off, "False"),
        DATA_DIR=".",
        WEBUI_SECRET_KEY="none",
        OPENAI_API_BASE_URL=f"{engine}/v1",
        OPENAI_API_KEY="none",
        RAG_EMBEDDING_ENGINE="openai",
        OFFLINE_MODE="True",
        DO_NOT_TRACK="true",
        ENGINE=engine,
    )

    def post(path: str, token: str = "", **body: Any) -> Any:
        headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
        request = Request(server.said["url"] + "/api/v1" + path, json.dumps(body).encode(), headers)
        with urlopen(request, timeout=60) as response:
            return json.load(response)

    try:
        token = post("/auths/signin", email="", password="")["token"]
        text = (HERE / "open_webui_pipe.py").read_text("utf-8")
        function = {"id": "detok", "name": "detok", "content": text, "meta": {"description": ""}}
        post("/functions/create", token, **function)
        post("/functions/id/detok/toggle", token)
        # No window with the news of this version.
        with urlopen(server.said["url"] + "/api/version", timeout=60) as response:
            version = json.load(response)["version"]
        post("/users/user/settings/update", token, ui={"version": version})
    except BaseException:
        server.stop()
        raise
    return server


def start_engine() -> Program:
    """Start llama.cpp with the reciting model; the program prints its port."""
    command = (sys.executable, "-m", "detok_py.bridge.engines.recite_server")
    return Program(*command, "--model", FOLDER / "recite.gguf")


START: dict[str, Callable[[str], Any]] = {
    "node": Node,
    "gradio": start_gradio,
    "llama-ui": start_llama_ui,
    "streamlit": start_streamlit,
    "nicegui": start_nicegui,
    "marimo": start_marimo,
    "marimo-detok": partial(start_marimo, mode="detok"),
    "open-webui": start_open_webui,
    "chainlit": start_chainlit,
    "chainlit-detok": partial(start_chainlit, mode="detok"),
}


class UI(NamedTuple):
    """A chat UI in one configuration: its package, its server, and the path on that server.

    `behind` is the fixture of the proxy that its server reads: `before_engine` or `before_exit`.
    """

    name: str
    package: str
    server: str
    path: str
    behind: str = "before_engine"

    @property
    def version(self) -> str:
        if self.server == "llama-ui":
            return version(self.package)
        if self.server == "node":
            manifest = INSTALLED / "node_modules" / self.package / "package.json"
            return str(json.loads(manifest.read_text("utf-8"))["version"])
        python = OPEN_WEBUI.with_name("python") if self.server == "open-webui" else PYTHON
        script = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
        command = [python, "-c", script, self.package]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Conversation:
    """A watched chat page, with its streams cut on both sides."""

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
        assert self.watch.settle(timeout_ms=60_000), (
            "the page did not settle before the first prompt"
        )

    def ask(self, name: str) -> str:
        """Ask for a text through the UI, wait for the whole answer, and return the true text."""
        inner, outer = len(self.before_engine.answers), len(self.chaos.answers)
        field = self.page.get_by_role("textbox").last
        field.click()
        self.watch._run(put(field, TEXTS[name]["prompt"]))
        field.press("Enter")
        until = time.monotonic() + MOST_SECONDS
        while time.monotonic() < until:
            # If the engine's response is not a stream, the UI's server makes one of it.
            ours = self.before_engine.answers[inner:] or self.chaos.answers[outer:]
            if ours and all(answer.finished for answer in ours):
                break
            self.page.wait_for_timeout(50)
        else:
            pytest.fail(f"no complete answer to {TEXTS[name]['prompt']!r} left the engine")
        text = str(TEXTS[name]["text"])
        # On a busy machine the UI's own server may be seconds behind the engine, and the page
        # quiet.
        end, until = letters(text)[-10:], time.monotonic() + MOST_SECONDS_BEHIND
        while True:
            assert self.watch.settle(quiet_ms=1000, timeout_ms=MOST_SECONDS * 1000), (
                "the page did not settle after the answer"
            )
            if end in letters(self.watch.text()) or time.monotonic() > until:
                return text
