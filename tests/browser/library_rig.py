"""The client library in pages of the tests' own, served by a real bridge that runs in a thread: its
policy, its sockets, its counters.
"""

import asyncio
import hashlib
import json
import lzma
import threading
from pathlib import Path
from typing import Any

import pytest
from bridge_rig import VOCABULARY
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from detok_py import Vocabulary, load_tokenizer
from detok_py.bridge.assets import TYPES, Assets, File
from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.engines import Engine
from detok_py.bridge.engines.scripted import ScriptedEngine
from detok_py.bridge.find import find_vocabulary
from detok_py.bridge.gate import Gate
from detok_py.bridge.server import Server, application, bind, names_of
from detok_py.bridge.store import MemoryStore
from detok_py.bridge.stream import Bridge
from detok_py.protocol import wire

PAGES = Path(__file__).parent / "pages"
URL = f"/vocabulary/{VOCABULARY.sha256}.detok"


def scripted(text: str, cut: str = "byte", pace: float = 0, **params: Any) -> dict[str, Any]:
    """Return the part of a request that lets the scripted engine say a text."""
    return {"params": {"engine": "scripted", "text": text, "cut": cut, "pace": pace, **params}}


def wait_for_library(page: Any) -> None:
    page.wait_for_function("() => window.lib")


class Pages(Assets):
    """The bridge's own files, and under /pages/ those of the tests."""

    def find(self, path: str, accept_encoding: str = "") -> File | None:
        folder, _, name = path.rpartition("/")
        if folder != "/pages":
            return super().find(path, accept_encoding)
        file = PAGES / name
        return File(file.read_bytes(), TYPES[file.suffix], None, name) if file.is_file() else None


class Peer:
    """The other end of a socket, frame by frame."""

    def __init__(self, receive: Any, send: Any) -> None:
        self._receive = receive
        self._send = send

    async def hello(self, **fields: Any) -> None:
        await self.say(
            "hello", protocol=wire.SUBPROTOCOL, **{"engine": {"name": "script"}, **fields}
        )

    async def begin(self, data: str, **fields: Any) -> dict[str, Any]:
        """Say hello with these fields, hear a question, begin its answer; return the question."""
        await self.hello(**fields)
        asked = await self.hear()
        await self.say("started", id=asked["id"], data=data, position=0)
        return asked

    async def finish(self, asked: dict[str, Any], content: bytes, **count: int) -> None:
        """End an answer that had this content in its frames, of so many `tokens` or `bytes`."""
        sha256 = hashlib.sha256(content).hexdigest()
        await self.say("finished", id=asked["id"], reason="eos", sha256=sha256, **count)

    async def say(self, kind: str, **fields: Any) -> None:
        await self.text(wire.message(kind, **fields))

    async def text(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})

    async def data(self, frame: bytes) -> None:
        await self._send({"type": "websocket.send", "bytes": frame})

    async def close(self, code: int) -> None:
        await self._send({"type": "websocket.close", "code": code, "reason": ""})

    async def hear(self) -> dict[str, Any]:
        """The next message; `{"type": "closed", "code": …}` in the end."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            return {"type": "closed", "code": message["code"]}
        return dict(json.loads(message["text"]))

    async def hear_until(self, kind: str) -> dict[str, Any]:
        while (message := await self.hear())["type"] not in (kind, "closed"):
            pass
        return message


class LibraryServer:
    """A bridge on a free port of 127.0.0.1, with more routes.

    `/given/<name>` answers what `given[name]` is, (status, headers, body), and counts in `asked`.
    `/script` is a socket that `script`, an async function of a Peer, plays. `/stream` is the
    bridge's, and `/cut/<n>/stream` too, but each socket of it is cut after n data frames.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self.given: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        self.script: Any = None
        self.played = 0
        self.gates: dict[str, threading.Event] = {}
        if engine is None:
            scripted = ScriptedEngine(lambda: VOCABULARY)
            attached = AttachedEngine("scripted", scripted, vocabulary=VOCABULARY)
            self.bridge = Bridge([attached], max_clients=100)
        else:
            # A small window: what a socket gets before it is cut is a few tokens, however far the
            # engine is.
            store = MemoryStore(window={"tokens": 3, "bytes": 12})
            attached = AttachedEngine("engine", engine, find_vocabulary=find_vocabulary)
            self.bridge = Bridge([attached], store=store, max_clients=100)
        sock = bind("127.0.0.1", 0)
        port = sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        app = application(self.bridge, Pages())
        app.router.routes[:0] = [
            Route("/given/{name:path}", self._answer),
            WebSocketRoute("/script", self._play),
            WebSocketRoute("/cut/{frames:int}/stream", self._cut),
        ]
        gate = Gate(app, names_of("127.0.0.1", port), metrics=self.bridge.metrics)
        self._server = Server(self.bridge, gate, sock)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()))
        self._thread.start()

    def give_tokenizer(self, data: Path, name: str) -> Vocabulary:
        """Serve the vocabulary of a real tokenizer as /given/<name>.detok; return it."""
        file = data / "tokenizers" / name / "tokenizer.json.xz"
        if not file.exists():
            pytest.skip(f"{name}'s tokenizer.json is not in the test data")
        vocabulary = load_tokenizer(lzma.decompress(file.read_bytes())).vocabulary
        self.given[f"{name}.detok"] = (200, {}, vocabulary.pack())
        return vocabulary

    def close(self) -> None:
        for gate in self.gates.values():
            gate.set()
        self._server.stop()
        self._thread.join(20)
        assert not self._thread.is_alive()

    def count(self, name: str, **labels: str) -> int:
        """Return one of the bridge's metrics, summed over the labels that are not given."""
        return int(
            sum(
                sample.value
                for metric in self.bridge.metrics.registry.collect()
                for sample in metric.samples
                if sample.name == name and labels.items() <= sample.labels.items()
            )
        )

    @property
    def cancelled(self) -> int:
        return self.count("detok_requests_total", finished_reason="cancelled")

    @property
    def running(self) -> int:
        return self.count("detok_requests_running")

    async def _answer(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.asked.append(name if request.method == "GET" else f"{request.method} {name}")
        gate = self.gates.get(name)
        if gate is not None:
            await asyncio.to_thread(gate.wait, 60)
        status, headers, body = self.given.get(name, (404, {}, b""))
        return Response(body, status, headers)

    async def _cut(self, socket: WebSocket) -> None:
        left = socket.path_params["frames"]

        async def send(message: Any) -> None:
            nonlocal left
            if left:
                await socket.send(message)
                left -= message.get("bytes") is not None
                if not left:
                    await socket.send({"type": "websocket.close", "code": 1012, "reason": ""})

        # Without the extension by which the bridge writes frames past `send`.
        await self.bridge({**socket.scope, "extensions": {}}, socket.receive, send)

    async def _play(self, socket: WebSocket) -> None:
        await socket.accept(wire.SUBPROTOCOL)
        self.played += 1
        await self.script(Peer(socket.receive, socket.send))
