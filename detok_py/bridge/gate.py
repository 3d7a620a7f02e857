"""Access control: every request and WebSocket handshake passes through this gate.

In: an ASGI scope. Out: the response of the app with security headers, or a refusal with one
sentence that repeats nothing of the request.

Every web page that the user opens can reach a server on localhost. Therefore:

- Host must be one of the bridge's names with its port, against DNS rebinding (421).
- Origin must be the bridge's own or one from the command line (403).
- A WebSocket must have an Origin, because any page can open one and browsers always send it (403).
- Beyond loopback, every request needs the token (401).
- Only the OpenAI-compatible routes take POST (405). Browsers send an Origin with every POST.

A page cannot see why a WebSocket handshake was refused. So a page that asks for detok.v1 gets a
WebSocket that is closed at once, with the close code 4403 or 4401 and the sentence. The bridge logs
each refused origin once, with the option that allows it.

Strings are compared as a whole, never by prefix.
"""

import base64
import binascii
import hmac
import json
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from ..protocol.wire import SUBPROTOCOL
from .metrics import Metrics
from .openai_request import error_body

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# The strictest policy that Pyodide and micropip work with. WebAssembly needs 'wasm-unsafe-eval'.
CSP = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self'; img-src data:; "
    # The page inserts text as text nodes only; this blocks every other sink.
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
EXIT = "/v1"
EXIT_CODES = {401: "invalid_api_key", 403: "origin_refused", 405: "method_not_allowed"}
HEADER_NAME: re.Pattern[bytes] = re.compile(rb"[a-zA-Z0-9-]{1,64}")
# How many refused origins are logged: a page could make up any number.
MOST_ORIGINS = 32
log: logging.Logger = logging.getLogger("detok.bridge")


def new_token() -> str:
    """Return a token of 32 random bytes, in characters that a subprotocol name may contain."""
    return secrets.token_urlsafe(32)


class Gate:
    """An ASGI app that controls access to another.

    `names` are the accepted Host headers, with port. `allowed` are the origins accepted in addition
    to the bridge's own, with scheme and port; their hosts are accepted too, because one may be this
    bridge under another name, for instance through a tunnel. If `token` is given, every request
    must have it. `require_origin=False` accepts WebSockets without an Origin, from programs other
    than browsers.
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
        own = frozenset(names)
        self.allowed: frozenset[str] = frozenset(allowed)
        self.names: frozenset[str] = own | {origin.partition("//")[2] for origin in self.allowed}
        self._token = token
        self._require_origin = require_origin
        self._metrics = metrics
        self._logged: set[str] = set()
        self._own = frozenset(scheme + name for name in own for scheme in ("http://", "https://"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(bytes(name).lower(), []).append(bytes(value))
        status, sentence = self._check(scope, headers)
        origin = headers.get(b"origin", [b""])[0]
        # A page of an allowed origin may read why it was refused, too.
        extra = self._cors_headers(scope, headers) if status in (200, 204, 401) else []
        if status == 204:
            headers_out = [*HEADERS, *extra]
            await send({"type": "http.response.start", "status": 204, "headers": headers_out})
            return await send({"type": "http.response.body", "body": b"", "more_body": False})
        if status != 200:
            if self._metrics is not None:
                self._metrics.refused.labels(str(status)).inc()
            if status == 401:
                extra = [
                    *extra,
                    (
                        b"www-authenticate",
                        b'Basic realm="detok: any name, and the token as password"',
                    ),
                ]
            if status == 403 and origin:
                self._log(origin.decode("latin-1"))
            if status in (401, 403) and origin and SUBPROTOCOL in scope.get("subprotocols", ()):
                return await close(receive, send, 4000 + status, sentence)
            return await refuse(scope, send, status, sentence, extra)

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                message["headers"] = [*message.get("headers", []), *HEADERS, *extra]
            await send(message)

        await self.app(scope, receive, send_with_headers)

    def _check(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> tuple[int, str]:
        host, origin = headers.get(b"host", []), headers.get(b"origin", [])
        if len(host) != 1 or len(origin) > 1:
            return 400, "a request must have one Host and at most one Origin"
        if headers.get(b"transfer-encoding") and headers.get(b"content-length"):
            return 400, "a request must not have both Content-Length and Transfer-Encoding"
        if host[0].decode("latin-1") not in self.names:
            return (
                421,
                "this bridge does not serve the requested host; open the address that detok serve printed",
            )
        if origin:
            value = origin[0].decode("latin-1")
            if value not in self._own and value not in self.allowed:
                return 403, "this origin is not allowed; if it is yours, add it with --allow-origin"
            # https with one of our names is the bridge behind the user's own TLS proxy.
        elif scope["type"] == "websocket" and self._require_origin:
            return (
                403,
                "the WebSocket has no Origin; start the bridge with --allow-no-origin for programs without one",
            )
        if (
            scope["type"] == "http"
            and scope["method"] == "OPTIONS"
            and origin
            and origin[0].decode("latin-1") in self.allowed
        ):
            return 204, ""  # a preflight, to which browsers never add the token
        if self._token is not None and not self._has_token(scope, headers):
            return (
                401,
                "the token is missing or wrong; use the token that detok serve printed",
            )
        methods = _methods(scope)
        if scope["type"] == "http" and scope["method"] not in methods:
            return 405, f"only {' and '.join(methods)} are allowed"
        return 200, ""

    def _log(self, origin: str) -> None:
        if origin in self._logged or len(self._logged) >= MOST_ORIGINS:
            return
        self._logged.add(origin)
        try:
            way = f"--allow-origin {forms_of_origin(origin)[0]}"
        except ValueError:
            way = "no option: a page on http or https has an origin that can be allowed"
        fields = {"origin": origin[:200], "allowed_by": way}
        log.warning("origin_refused", extra={"fields": fields})

    def _has_token(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> bool:
        expected = (self._token or "").encode()
        offered = [
            p[len(TOKEN_PREFIX) :].encode()
            for p in scope.get("subprotocols", [])
            if p.startswith(TOKEN_PREFIX)
        ]
        for value in headers.get(b"authorization", []):
            scheme, _, rest = value.partition(b" ")
            if scheme.lower() == b"bearer":
                offered.append(rest.strip())
            elif scheme.lower() == b"basic":
                try:
                    offered.append(base64.b64decode(rest.strip(), validate=True).partition(b":")[2])
                except (binascii.Error, ValueError):
                    continue
        # Compared in constant time, so the duration reveals nothing about the token.
        return sum([hmac.compare_digest(token, expected) for token in offered]) > 0

    def _cors_headers(
        self, scope: Scope, headers: dict[bytes, list[bytes]]
    ) -> list[tuple[bytes, bytes]]:
        """Return the CORS headers for an allowed origin; for others none, and never `*`."""
        origin = headers.get(b"origin", [b""])[0]
        if origin.decode("latin-1") not in self.allowed:
            return []
        # OpenAI's clients send headers of their own; the user has allowed their origin.
        asked = b",".join(headers.get(b"access-control-request-headers", []))
        names = b", ".join(HEADER_NAME.findall(asked)) or b"authorization"
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-headers", names),
            (b"access-control-allow-methods", ", ".join(_methods(scope)).encode()),
            (
                b"access-control-expose-headers",
                b"x-detok-fidelity, x-detok-ignored, x-should-retry",
            ),
            (b"vary", b"Origin"),
        ]


def _is_exit(scope: Scope) -> bool:
    """Return whether a request is for an OpenAI-compatible route."""
    path = str(scope.get("path", ""))
    return scope["type"] == "http" and (path == EXIT or path.startswith(EXIT + "/"))


def _methods(scope: Scope) -> tuple[str, ...]:
    return ("GET", "HEAD", "POST") if _is_exit(scope) else ("GET", "HEAD")


async def refuse(
    scope: Scope, send: Send, status: int, sentence: str, extra: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send an HTTP response with a status and one sentence, also in place of a handshake.
    OpenAI-compatible routes send it in OpenAI's shape.
    """
    sentence = sentence[0].upper() + sentence[1:] + "."
    body, kind = (sentence + "\n").encode(), b"text/plain; charset=utf-8"
    if _is_exit(scope):
        code = EXIT_CODES.get(status, "refused")
        body, kind = json.dumps(error_body(status, sentence, code)).encode(), b"application/json"
    if status == 405:
        extra = [*extra, (b"allow", ", ".join(_methods(scope)).encode())]
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        *HEADERS,
        *extra,
    ]
    message = "websocket.http" if scope["type"] == "websocket" else "http"
    await send({"type": message + ".response.start", "status": status, "headers": headers})
    await send(
        {
            "type": message + ".response.body",
            "body": b"" if scope.get("method") == "HEAD" else body,
            "more_body": False,
        }
    )


async def close(receive: Receive, send: Send, code: int, sentence: str) -> None:
    """Accept a WebSocket and close it, so that its page is told why."""
    await receive()  # websocket.connect
    await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL})
    await send({"type": "websocket.close", "code": code, "reason": sentence})


def forms_of_origin(origin: str) -> list[str]:
    """Return an origin as it was given, and in the form that browsers send, without the default
    port of its scheme. Raises ValueError unless it has the form scheme://host[:port].

    >>> forms_of_origin("http://localhost:3000"), forms_of_origin("https://app.example:443")
    (['http://localhost:3000'], ['https://app.example:443', 'https://app.example'])
    >>> forms_of_origin("*")
    Traceback (most recent call last):
        ...
    ValueError: '*' is not an origin; expected a form like http://localhost:3000
    """
    if not re.fullmatch(r"https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]{1,5})?", origin):
        raise ValueError(
            f"{origin[:80]!r} is not an origin; expected a form like http://localhost:3000"
        )
    short = origin.removesuffix(":443" if origin.startswith("https:") else ":80")
    return [origin] if short == origin else [origin, short]
