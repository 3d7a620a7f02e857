"""The web server of `detok serve`: routes, the gate in front of them, and its life from bind to Ctrl-C.

In: a Bridge. Out: HTTP and WebSocket on one port. Every route is in `routes()`, and every one is behind the gate.
"""

import asyncio
import contextlib
import hashlib
import ipaddress
import json
import logging
import socket
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from detok_py.errors import DetokError

from .assets import Assets, File, squeeze
from .engines.recite import texts
from .gate import Gate
from .metrics import CONTENT_TYPE
from .protocols import StrictHTTP, StrictWebSocket
from .stream import Bridge

FOREVER = "public, max-age=31536000, immutable"
PING_SECONDS = 20.0


class ServeError(DetokError):
    """A server that can't start as it was asked to."""


def application(bridge: Bridge, assets: Assets) -> Starlette:
    """Return the routes as one app, without the gate."""

    async def healthz(_: Request) -> Response:
        return _json({"status": "ok" if bridge.down is None else "engine down", "engine": bridge.down})

    async def info(_: Request) -> Response:
        await bridge.open()
        return _json({**bridge.hello(), "max_clients": bridge.max_clients, "clients": bridge.clients})

    async def prompts(request: Request) -> Response:
        body = json.dumps(texts(), ensure_ascii=False).encode()
        return _answer(request, squeeze(body, "application/json", request.headers.get("accept-encoding", ""), _sum(body)), "no-cache")

    async def vocabulary(request: Request) -> Response:
        await bridge.open()
        table = bridge.vocabulary
        if table is None or request.path_params["sha256"] != table.sha256:
            return _not_found()
        accepted = request.headers.get("accept-encoding", "")
        file = await asyncio.to_thread(lambda: squeeze(table.pack(), "application/octet-stream", accepted, table.sha256))
        return _answer(request, file, FOREVER)

    async def metrics(_: Request) -> Response:
        return Response(bridge.metrics.expose(), headers={"content-type": CONTENT_TYPE, "cache-control": "no-store"})

    async def stream(_: Request) -> Response:
        return Response(
            "This is a WebSocket: connect with the subprotocol detok.v1.\n", 426, {"upgrade": "websocket", "connection": "close"}
        )

    async def file(request: Request) -> Response:
        # The raw path: what a client wrote, before anything was unescaped, so that %2e%2e is no name.
        path = request.scope.get("raw_path", b"").decode("latin-1")
        accepted = request.headers.get("accept-encoding", "")
        found = assets.find(path, accepted)
        if found is None:
            return _not_found()
        versioned = request.query_params.get("v") == found.etag
        return _answer(request, found, FOREVER if versioned else "no-cache")

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/info", info),
            Route("/texts.json", prompts),
            Route("/vocabulary/{sha256:str}.detok", vocabulary),
            Route("/metrics", metrics),
            WebSocketRoute("/stream", bridge),
            Route("/stream", stream),
            Route("/{path:path}", file),
        ]
    )


def routes(app: Starlette) -> list[BaseRoute]:
    """Return every route, for tests that must not forget one."""
    return list(app.routes)


def names_of(host: str, port: int, extra: Iterable[str] = ()) -> list[str]:
    """Return the Host headers that are ours.

    >>> names_of("127.0.0.1", 8765)
    ['127.0.0.1:8765', 'localhost:8765', '[::1]:8765']
    """
    hosts = ["127.0.0.1", "localhost", "[::1]"]
    if not is_loopback(host):
        hosts += [host] if host not in ("0.0.0.0", "::") else [socket.gethostname(), *own_addresses()]
    hosts += [name for name in extra if name not in hosts]
    return [f"{name}:{port}" for name in hosts] + ([*hosts] if port == 80 else [])


def own_addresses() -> list[str]:
    """Return the addresses of this machine, as far as its own name gives them."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(entry[4][0]) for entry in found})


def is_loopback(host: str) -> bool:
    """Whether an address to bind is this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises ServeError with the way out."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sets TCP_NODELAY only on sockets that say they are TCP's; accepted sockets inherit it.
    # Without it, the # token after each ack waits 40 ms for the peer's delayed acknowledgement.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(256)
    except OSError as error:
        sock.close()
        raise ServeError(f"cannot listen on {host} port {port}: {error.strerror or error}; choose another with --port.") from None
    sock.setblocking(False)
    return sock


class _Uvicorn(uvicorn.Server):
    """uvicorn, which leaves signals to its caller: it would raise them again before engines are stopped."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def configure(app: Any) -> uvicorn.Config:
    """Return how the bridge runs an ASGI application: its protocols and its limits (tools/echo_server.py has them tested from outside)."""
    return uvicorn.Config(
        app,
        http=StrictHTTP,
        ws=StrictWebSocket,
        ws_max_size=1 << 20,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        # On loopback, compression costs more than it saves, and every ratio is a hint about what is in a frame.
        ws_per_message_deflate=False,
        lifespan="off",
        loop="asyncio",
        # uvicorn's own lines have paths with queries in them, and a query can be a text.
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=3,
    )


class Server:
    """One bridge on one socket. `serve()` runs until `stop()` or a signal."""

    def __init__(self, bridge: Bridge, gate: Gate, sock: socket.socket) -> None:
        self.bridge = bridge
        self.sock = sock
        self._uvicorn = _Uvicorn(configure(gate))

    @property
    def started(self) -> bool:
        """Whether it takes connections."""
        return self._uvicorn.started

    def stop(self) -> None:
        """Ask it to end: sockets are closed with 1012, engines stopped."""
        self._uvicorn.should_exit = True

    async def serve(self) -> None:
        """Serve until asked to end."""
        opening = asyncio.create_task(self.bridge.open())
        try:
            await self._uvicorn.serve(sockets=[self.sock])
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await self.bridge.close()


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, event, and the fields that `report` was given. Arguments and messages of exceptions stay out."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "event": str(record.msg)[:200].strip(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
        line.update({name: value for name, value in getattr(record, "fields", {}).items() if value is not None})
        return json.dumps(line)


def set_up_logging(level: str) -> None:
    """Send the bridge's lines, and uvicorn's warnings, to stderr as JSON. Other libraries' loggers stay as they are: they log content."""
    sink = logging.StreamHandler(sys.stderr)
    sink.setFormatter(JsonLines())
    for name, least in (("detok", level.upper()), ("uvicorn", "WARNING"), ("uvicorn.error", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers = [sink] if name != "uvicorn.error" else []
        logger.setLevel(least)
        logger.propagate = name == "uvicorn.error"
    logging.getLogger("uvicorn.access").disabled = True


def _answer(request: Request, file: File, caching: str) -> Response:
    headers = {"etag": f'"{file.etag}"', "cache-control": caching, "vary": "Accept-Encoding", "content-type": file.content_type}
    if f'"{file.etag}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if file.encoding:
        headers["content-encoding"] = file.encoding
    return Response(file.body, headers=headers)


def _json(value: Any) -> Response:
    return Response(json.dumps(value, ensure_ascii=False), headers={"content-type": "application/json", "cache-control": "no-store"})


def _not_found() -> Response:
    return Response("There is nothing here.\n", 404, {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store"})


def _sum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
