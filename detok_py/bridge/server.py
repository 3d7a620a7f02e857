"""The web server of `detok serve`: routes, configuration, startup and shutdown.

In: a Bridge. Out: HTTP and WebSocket on one port. All routes are behind the gate.
"""

import asyncio
import contextlib
import errno
import hashlib
import ipaddress
import json
import logging
import re
import secrets
import socket
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from ..decode.vocabulary import Vocabulary
from ..errors import DetokError
from .assets import Assets, File, accepts_gzip, compress
from .engines.recite import texts
from .gate import Gate, Receive, Scope, Send
from .metrics import CONTENT_TYPE
from .openai_exit import openai_routes
from .protocols import StrictHTTP, StrictWebSocket
from .stream import Bridge

FOREVER = "public, max-age=31536000, immutable"
PING_SECONDS = 20.0
READY_SECONDS = 1.0  # how long /readyz looks for an engine that was down
PIECE = 16 << 10
NAME = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")


class ServeError(DetokError):
    """The server can't start with the given options."""


def application(bridge: Bridge, assets: Assets) -> Starlette:
    """Return the app with all routes, without the gate."""
    packed = PackedVocabularies(bridge)

    async def vocabulary(request: Request) -> Response:
        gzipped = accepts_gzip(request.headers.get("accept-encoding", ""))
        found = await packed.find(request.path_params["sha256"], gzipped)
        return _not_found() if found is None else _file_response(request, found, FOREVER)

    async def file(request: Request) -> Response:
        # The path before percent-decoding, so that %2e%2e is not "..".
        path = request.scope.get("raw_path", b"").decode("latin-1")
        accepted = request.headers.get("accept-encoding", "")
        found = assets.find(path, accepted)
        if found is None:
            return _not_found()
        versioned = request.query_params.get("v") == found.etag
        return _file_response(request, found, FOREVER if versioned else "no-cache")

    return Starlette(
        routes=[
            *_status_routes(bridge),
            *openai_routes(bridge),
            Route("/texts.json", _prompts),
            Route("/vocabulary/{sha256:str}.detok", vocabulary),
            WebSocketRoute("/stream", bridge),
            Route("/stream", _no_upgrade),
            Route("/{path:path}", file),
        ]
    )


def _status_routes(bridge: Bridge) -> list[BaseRoute]:
    async def healthz(_: Request) -> Response:
        return _json_response(
            {"status": "ok" if bridge.down is None else "engine down", "engine": bridge.down}
        )

    async def readyz(_: Request) -> Response:
        if bridge.unready and not bridge.draining:
            # No client may come before this says that an engine is there again.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(bridge.open(), READY_SECONDS)
        unready = bridge.unready
        return _json_response(
            {"ready": unready is None, "problem": unready or bridge.store.state.away},
            503 if unready else 200,
        )

    async def info(_: Request) -> Response:
        await bridge.open()
        return _json_response(
            {**bridge.info(), "max_clients": bridge.max_clients, "clients": bridge.clients}
        )

    async def metrics(_: Request) -> Response:
        return Response(
            bridge.metrics.expose(),
            headers={"content-type": CONTENT_TYPE, "cache-control": "no-store"},
        )

    return [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/info", info),
        Route("/metrics", metrics),
    ]


class PackedVocabularies:
    """The vocabularies in use, each packed once for each encoding."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.files: dict[tuple[str, bool], File] = {}
        self.packing: asyncio.Lock = asyncio.Lock()

    def _tables(self) -> dict[str, Vocabulary]:
        found = [one.vocabulary for one in self.bridge.engines]
        return {table.sha256: table for table in found if table is not None}

    async def find(self, sha256: str, gzipped: bool) -> File | None:
        """Return the file of a vocabulary that an engine has, or None."""
        if sha256 not in self._tables():
            await self.bridge.open()
        tables = self._tables()
        table = tables.get(sha256)
        if table is None:
            return None
        name = (sha256, gzipped)
        async with self.packing:
            if name not in self.files:
                self.files = {one: file for one, file in self.files.items() if one[0] in tables}
                self.files[name] = await asyncio.to_thread(
                    lambda: compress(
                        table.pack(), "application/octet-stream", "gzip" * gzipped, sha256
                    )
                )
            return self.files[name]


async def _prompts(request: Request) -> Response:
    body = json.dumps(texts(), ensure_ascii=False).encode()
    accepted = request.headers.get("accept-encoding", "")
    return _file_response(
        request, compress(body, "application/json", accepted, _sha256(body)), "no-cache"
    )


async def _no_upgrade(_: Request) -> Response:
    return Response(
        "This is a WebSocket endpoint; connect with the subprotocol detok.v1.\n",
        426,
        {"upgrade": "websocket", "connection": "close"},
    )


def names_of(host: str, port: int, extra: Iterable[str] = ()) -> list[str]:
    """Return the Host headers that the bridge accepts. `extra` are other names, with a port if it
    differs. Browsers omit the ports 80 and 443. Raises ServeError for an invalid name.

    >>> names_of("127.0.0.1", 8765)
    ['127.0.0.1:8765', 'localhost:8765', '[::1]:8765']
    >>> names_of("127.0.0.1", 8765, ["detok.example:443"])[3:]
    ['detok.example:443', 'detok.example']
    """
    hosts = ["127.0.0.1", "localhost", "[::1]"]
    if host in ("0.0.0.0", "::"):
        hosts += [socket.gethostname(), *own_addresses()]
    elif bracketed(host) not in hosts:
        hosts.append(bracketed(host))
    out = []
    for name in [*hosts, *extra]:
        given = NAME.fullmatch(name.lower())
        if given is None and name in extra:
            raise ServeError(
                f"--public-name {name[:80]!r} is not a host name; expected a form like detok.example or detok.example:443."
            )
        bare, theirs = (given[1], int(given[2] or port)) if given else (name, port)
        found = [f"{bare}:{theirs}"] + ([bare] if theirs in (80, 443) else [])
        out += [one for one in found if one not in out]
    return out


def bracketed(host: str) -> str:
    """Return a host in the form for URLs.

    >>> bracketed("::1"), bracketed("127.0.0.2")
    ('[::1]', '127.0.0.2')
    """
    return f"[{host}]" if ":" in host else host


def own_addresses() -> list[str]:
    """Return the IPv4 addresses that this machine's host name resolves to."""
    try:
        found = socket.getaddrinfo(
            socket.gethostname(), None, family=socket.AF_INET, type=socket.SOCK_STREAM
        )
    except OSError:
        return []
    return sorted({str(entry[4][0]) for entry in found})


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address.

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
    """Return a listening socket. Raises ServeError if the address is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the socket's protocol is IPPROTO_TCP; accepted sockets
    # inherit the protocol. Without it, the token after each ack waits 40 ms for the peer's delayed
    # TCP ack.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(256)
    except (OSError, UnicodeError) as error:
        sock.close()
        why = getattr(error, "strerror", None) or error
        said = f"cannot listen on {host} port {port}: {why}; choose another port with --port."
        if getattr(error, "errno", None) not in (errno.EADDRINUSE, errno.EACCES):
            said = f"cannot listen on {host} port {port}: {why}; choose an address of this machine with --host, such as 127.0.0.1."
        raise ServeError(said) from None
    sock.setblocking(False)
    return sock


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process before engines stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def configure(app: Any) -> uvicorn.Config:
    """Return the uvicorn configuration of the bridge; tools/echo_server.py uses it too."""
    return uvicorn.Config(
        app,
        http=StrictHTTP,
        ws=StrictWebSocket,
        ws_max_size=1 << 20,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PING_SECONDS,
        # On loopback, compression costs more than it saves, and compressed sizes leak information
        # about the content.
        ws_per_message_deflate=False,
        lifespan="off",
        loop="asyncio",
        # uvicorn logs query strings, which can contain text.
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=3,
    )


class Server:
    """One bridge on one listening socket. `serve()` runs until `stop()` is called."""

    def __init__(self, bridge: Bridge, gate: Gate, sock: socket.socket) -> None:
        self.bridge = bridge
        self.sock = sock
        self._uvicorn = _Uvicorn(configure(gate))

    @property
    def started(self) -> bool:
        """Whether the server accepts connections."""
        return self._uvicorn.started

    def stop(self) -> None:
        """Ask the server to stop: it closes WebSockets with 1012, then the engines."""
        self.bridge.end_replies()
        self._uvicorn.should_exit = True

    async def drain(self, seconds: float) -> None:
        """Send the clients to other replicas, finish the runs written here, and stop."""
        try:
            await self.bridge.drain(seconds)
        finally:
            self.stop()

    async def serve(self) -> None:
        """Serve until `stop()` is called."""
        opening = asyncio.create_task(self.bridge.open())
        try:
            await self._uvicorn.serve(sockets=[self.sock])
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await self.bridge.close()


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, replica, level, event, and the fields given to
    `report`. `replica` is a random word for this process.

    Leaves out the arguments of messages and the messages of exceptions.
    """

    def __init__(self) -> None:
        super().__init__()
        self._replica = secrets.token_hex(4)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "replica": self._replica,
            "level": record.levelname.lower(),
            "event": str(record.msg)[:200].strip(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
        fields = getattr(record, "fields", {})
        line.update({name: value for name, value in fields.items() if value is not None})
        return json.dumps(line)


def set_up_logging(level: str) -> None:
    """Log the bridge's events and uvicorn's warnings to stderr as JSON lines.

    Other libraries' loggers are not enabled, because they log content.
    """
    sink = logging.StreamHandler(sys.stderr)
    sink.setFormatter(JsonLines())
    # If a record cannot be written, logging would print it with its exception, which may quote a
    # request.
    sink.handleError = lambda record: None  # type: ignore[method-assign]
    for name, least in (
        ("detok", level.upper()),
        ("uvicorn", "WARNING"),
        ("uvicorn.error", "WARNING"),
    ):
        logger = logging.getLogger(name)
        logger.handlers = [sink] if name != "uvicorn.error" else []
        logger.setLevel(least)
        logger.propagate = name == "uvicorn.error"
    logging.getLogger("uvicorn.access").disabled = True


def _file_response(request: Request, file: File, caching: str) -> Response:
    headers = {
        "etag": f'"{file.etag}"',
        "cache-control": caching,
        "vary": "Accept-Encoding",
        "content-type": file.content_type,
    }
    if f'"{file.etag}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if file.encoding:
        headers["content-encoding"] = file.encoding
    return Pieces(file.body, headers=headers)


class Pieces(Response):
    """A response that is sent piece by piece as the peer reads, so a slow peer costs the memory of
    one piece, not of the file.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        left = memoryview(self.body)
        more = True
        while more:
            piece, left = left[:PIECE], left[PIECE:]
            more = bool(left)
            await send({"type": "http.response.body", "body": piece, "more_body": more})


def _json_response(value: Any, status: int = 200) -> Response:
    return Response(
        json.dumps(value, ensure_ascii=False),
        status,
        headers={"content-type": "application/json", "cache-control": "no-store"},
    )


def _not_found() -> Response:
    return Response(
        "Not found.\n",
        404,
        {"content-type": "text/plain; charset=utf-8", "cache-control": "no-store"},
    )


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
