"""Who may come in: the one gate that every request and every socket passes, 404s and OPTIONS included.

In: an ASGI scope. Out: the scope passed on, with strict headers on every answer; or a refusal, one sentence, that repeats nothing of the
request.

A server on localhost is reachable by every web page that the user opens. So: Host must be one of our names with our port (DNS rebinding:
421); an Origin must be exactly ours or one named on the command line (403); a socket must have one (any page can open a WebSocket to
localhost, and the browser always says from where); beyond loopback every request needs the token (401). Comparison is of whole strings,
never of a prefix.
"""

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from .metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# The strictest policy with which Pyodide and micropip work. Without 'wasm-unsafe-eval' WebAssembly is refused.
CSP = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self'; img-src data:; "
    # Text reaches the page as text nodes only; with this, nothing else could take it.
    "require-trusted-types-for 'script'"
)
HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
TOKEN_PREFIX = "detok.token."


def new_token() -> str:
    """Return the token of a bridge beyond loopback: 32 random bytes, in letters that a subprotocol may have."""
    return secrets.token_urlsafe(32)


class Gate:
    """An ASGI app in front of another.

    `names` are the Host headers that are ours, port included. `allowed` are other origins, each with its scheme and port. `token` is asked
    for where it is given. `require_origin=False` lets in sockets that say no Origin, as programs other than browsers do.
    """

    def __init__(
        self,
        app: App,
        names: Iterable[str],
        *,
        allowed: Iterable[str] = (),
        token: str | None = None,
        require_origin: bool = True,
        metrics: Metrics | None = None,
    ) -> None:
        self.app = app
        self.names = frozenset(names)
        self.allowed = frozenset(allowed)
        self._token = token
        self._require_origin = require_origin
        self._metrics = metrics
        self._own = frozenset(scheme + name for name in self.names for scheme in ("http://", "https://"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(bytes(name).lower(), []).append(bytes(value))
        status, sentence = self._judge(scope, headers)
        origin = headers.get(b"origin", [b""])[0]
        extra = self._cross_origin(origin) if status == 200 else []
        if status != 200:
            if self._metrics is not None:
                self._metrics.refused.labels(str(status)).inc()
            if status == 401:
                extra = [(b"www-authenticate", b'Basic realm="detok: any name, and the token as password"')]
            return await refuse(scope, send, status, sentence, extra)

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                message["headers"] = [*message.get("headers", []), *HEADERS, *extra]
            await send(message)

        await self.app(scope, receive, send_with_headers)

    def _judge(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> tuple[int, str]:
        host, origin = headers.get(b"host", []), headers.get(b"origin", [])
        if len(host) != 1 or len(origin) > 1:
            return 400, "a request has one Host and at most one Origin"
        if headers.get(b"transfer-encoding") and headers.get(b"content-length"):
            return 400, "a request has Content-Length or Transfer-Encoding, not both"
        if host[0].decode("latin-1") not in self.names:
            return 421, "this is not the host that was asked for; open the address that detok serve printed"
        if origin:
            said = origin[0].decode("latin-1")
            if said not in self._own and said not in self.allowed:
                return 403, "this origin is not allowed; name it with --allow-origin if it is yours"
            # https on our port would be a page that is not ours: we serve http, or a proxy of the user's does.
        elif scope["type"] == "websocket" and self._require_origin:
            return 403, "a socket says its Origin; programs that have none need a bridge with --allow-no-origin"
        if self._token is not None and not self._knows_token(scope, headers):
            return 401, "this bridge is open beyond this machine, so it asks for the token that detok serve printed"
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            if scope["method"] == "OPTIONS" and origin and origin[0].decode("latin-1") in self.allowed:
                return 200, ""
            return 405, "only GET and HEAD"
        return 200, ""

    def _knows_token(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> bool:
        expected = (self._token or "").encode()
        offered = [p[len(TOKEN_PREFIX) :].encode() for p in scope.get("subprotocols", []) if p.startswith(TOKEN_PREFIX)]
        for value in headers.get(b"authorization", []):
            scheme, _, rest = value.partition(b" ")
            if scheme.lower() == b"bearer":
                offered.append(rest.strip())
            elif scheme.lower() == b"basic":
                try:
                    offered.append(base64.b64decode(rest.strip(), validate=True).partition(b":")[2])
                except (binascii.Error, ValueError):
                    continue
        # All of them, each in constant time: how long it takes says nothing about where they differ.
        return sum([hmac.compare_digest(token, expected) for token in offered]) > 0

    def _cross_origin(self, origin: bytes) -> list[tuple[bytes, bytes]]:
        """Never `*`, never what a stranger sent: the origin goes back only where it is one of those named on the command line."""
        if origin.decode("latin-1") not in self.allowed:
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-headers", b"authorization"),
            (b"vary", b"Origin"),
        ]


async def refuse(scope: Scope, send: Send, status: int, sentence: str, extra: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Answer with a status and one sentence, as HTTP, before any socket is accepted."""
    body = (sentence[0].upper() + sentence[1:] + ".\n").encode()
    if status == 405:
        extra = [*extra, (b"allow", b"GET, HEAD")]
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        *HEADERS,
        *extra,
    ]
    kind = "websocket.http" if scope["type"] == "websocket" else "http"
    await send({"type": kind + ".response.start", "status": status, "headers": headers})
    await send({"type": kind + ".response.body", "body": b"" if scope.get("method") == "HEAD" else body, "more_body": False})


def check_origin(origin: str) -> str:
    """Return an origin for `--allow-origin`, checked: scheme, host and, where it is not the scheme's own, port. Raises ValueError.

    >>> check_origin("http://localhost:3000")
    'http://localhost:3000'
    >>> check_origin("*")
    Traceback (most recent call last):
        ...
    ValueError: '*' is not an origin; give it like http://localhost:3000
    """
    if not re.fullmatch(r"https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?", origin):
        raise ValueError(f"{origin[:80]!r} is not an origin; give it like http://localhost:3000")
    return origin
