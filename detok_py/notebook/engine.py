"""Ask a bridge (`detok serve`) over its WebSocket, from a notebook: `ask`.

In: the address of a bridge, and a prompt. Out: the tokens of the answer, as they come. In CPython
it takes the package websockets (the extra `notebook`), in Pyodide the browser's WebSocket. A lost
connection is resumed (protocol/client.py).
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from http.client import HTTPException
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

from ..decode.vocabulary import Vocabulary
from ..errors import DetokError, ProtocolError, VocabularyError
from ..protocol import events
from ..protocol.client import WAITING, ClientSession


class Lost(NamedTuple):
    """Why a socket was closed."""

    code: int = 1006
    reason: str = ""


class Socket(Protocol):
    """A WebSocket, as this module uses one. `receive` returns a frame, or Lost."""

    def send(self, frame: str | bytes) -> Awaitable[object]: ...
    def receive(self) -> Awaitable[str | bytes | Lost]: ...
    def close(self) -> Awaitable[object]: ...


Open = Callable[[str, list[str]], Awaitable[Socket]]


class Answer:
    """The answer of an engine: an async iterable of lists, of token ids or of bytes.

    `source` is the vocabulary of the ids, None for bytes; `await answer.begin()` fetches it and
    starts the engine. After tokens whose ids are not known, all lists are of bytes.
    """

    def __init__(self, url: str, prompt: str, params: dict[str, Any], token: str = "") -> None:
        parts = urlsplit(url)
        self.http: str = urlunsplit((parts.scheme.replace("ws", "http"), parts.netloc, "", "", ""))
        scheme = parts.scheme.replace("http", "ws")
        self.url: str = urlunsplit((scheme, parts.netloc, "/stream", "", ""))
        self.token: str = token
        self.session: ClientSession = ClientSession()
        self.session.generate(prompt=prompt, want="both", params=params)
        self.source: Vocabulary | None = None
        self.reason: str = ""
        self._socket: Socket | None = None
        self._ready: list[list[Any]] = []
        self._was_open = self._over = False
        self._by_bytes = False  # tokens without ids have come

    async def begin(self) -> "Answer":
        """Connect, and wait for the vocabulary and the first tokens."""
        try:
            while not self._ready and not self._over:
                await self._next()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aiter__(self) -> AsyncIterator[list[Any]]:
        try:
            while True:
                while self._ready:
                    yield self._ready.pop(0)
                if self._over:
                    return
                await self._next()
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the connection; an answer that has not ended is cancelled by the bridge."""
        socket, self._socket, self._over = self._socket, None, True
        if socket is not None:
            await socket.close()

    async def _next(self) -> None:
        """Take one frame, or open the connection."""
        if self._socket is None:
            try:
                token = [f"detok.token.{self.token}"] if self.token else []
                self._socket = await opener()(self.url, ["detok.v1", *token])
            except OSError as error:
                if not self._was_open:
                    raise self._gone() from error
                await self._lost(Lost())
                return
            self._was_open = True
            self.session.opened()
        await self._send()
        frame = await self._socket.receive()
        if isinstance(frame, Lost):
            self._socket = None
            await self._lost(frame)
            return
        for event in self.session.receive(frame):
            await self._take(event)
        self.session.acknowledge()
        await self._send()

    async def _send(self) -> None:
        for frame in self.session.frames():
            if self._socket is not None:
                await self._socket.send(frame)

    async def _lost(self, why: Lost) -> None:
        seconds = self.session.lost(why.code)
        if seconds is None:
            raise ProtocolError(why.reason, why.code) if why.reason else self._gone()
        await asyncio.sleep(seconds)

    def _gone(self) -> DetokError:
        return DetokError(f"{self.http} is not answering; is `detok serve` running there?")

    async def _take(self, event: Any) -> None:
        if isinstance(event, events.Hello):
            begins = self.source is None and self.session.state == WAITING
            if begins and event.vocabulary is not None:
                await self._fetch(event.vocabulary)
        elif isinstance(event, events.Started):
            self.source = None if event.data == "bytes" else self.source
        elif isinstance(event, events.Tokens):
            if self.source is not None and not self._by_bytes:
                self._ready.append(event.ids)
            elif event.pieces is None:
                raise DetokError(
                    f"{self.http} sends ids, and no vocabulary to decode them with; start it with --tokenizer."
                )
            else:
                special = self.source.special_ids if self.source is not None else ()
                pairs = zip(event.ids, event.pieces)
                self._ready.append([b"" if i in special else piece for i, piece in pairs])
        elif isinstance(event, (events.Bytes, events.Gap)):
            self._by_bytes = True
            self._ready.append([event.data])
        elif isinstance(event, events.Finished):
            self.reason, self._over = event.reason, True
        elif isinstance(event, events.Failed):
            raise ProtocolError(event.message, event.code)

    async def _fetch(self, wanted: dict[str, Any]) -> None:
        """Fetch the vocabulary of a hello; from here on the bridge must have it."""
        try:
            data = await fetched(self.http + wanted["url"], self.token)
        except (OSError, HTTPException) as error:
            raise DetokError(
                f"The vocabulary could not be fetched from {self.http} ({error})."
            ) from error
        source = Vocabulary.unpack(data)
        if source.sha256 != wanted["sha256"]:
            raise VocabularyError(
                f"The bridge announced the vocabulary {wanted['sha256'][:12]}… and served {source.sha256[:12]}…; restart it."
            )
        self.source, self.session.vocabulary_sha256 = source, source.sha256


async def ask(url: str, prompt: str, *, token: str = "", **params: Any) -> Answer:
    """Ask the engine of a bridge; return its Answer, which `d.widget(answer, answer.source)` plays.

    `params` are those of the engine, such as `max_tokens` and `temperature`. `token` is that of a
    bridge that needs one.
    """
    return await Answer(url, prompt, params, token).begin()


def opener() -> Open:
    """Return what opens a WebSocket in this Python."""
    return open_in_browser if sys.platform == "emscripten" else open_here


async def open_here(url: str, protocols: list[str]) -> Socket:
    """Open a WebSocket with the package websockets."""
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidHandshake
        from websockets.typing import Origin, Subprotocol
    except ImportError:
        raise DetokError(
            "a bridge is asked with websockets, which is not installed: pip install 'detok_py[notebook]'."
        ) from None
    parts = urlsplit(url)
    origin = Origin(f"{parts.scheme.replace('ws', 'http')}://{parts.netloc}")
    subprotocols = [Subprotocol(each) for each in protocols]
    try:
        socket = await connect(url, origin=origin, subprotocols=subprotocols)
    except InvalidHandshake as error:
        raise ConnectionError(str(error)) from error

    class Here:
        send, close = socket.send, socket.close

        async def receive(self) -> str | bytes | Lost:
            try:
                return await socket.recv()
            except ConnectionClosed as error:
                return Lost(error.rcvd.code, error.rcvd.reason) if error.rcvd else Lost()

    return Here()


async def open_in_browser(url: str, protocols: list[str]) -> Socket:
    """Open a WebSocket of the browser."""
    import js
    from pyodide.ffi import create_proxy, to_js

    socket = js.WebSocket.new(url, to_js(protocols))
    socket.binaryType = "arraybuffer"
    frames: asyncio.Queue[Any] = asyncio.Queue()
    opened: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_open(event: Any) -> None:
        opened.set_result(True)

    def on_message(event: Any) -> None:
        data = event.data
        frames.put_nowait(data if isinstance(data, str) else data.to_bytes())

    def on_close(event: Any) -> None:
        if not opened.done():
            opened.set_result(False)
        frames.put_nowait(Lost(event.code, event.reason))

    listeners = {"open": on_open, "message": on_message, "close": on_close}
    proxies = {name: create_proxy(each) for name, each in listeners.items()}
    for name, proxy in proxies.items():
        socket.addEventListener(name, proxy)

    def end() -> None:
        """Take no more frames, and free what the browser holds of Python."""
        while proxies:
            name, proxy = proxies.popitem()
            socket.removeEventListener(name, proxy)
            proxy.destroy()
        socket.close()

    class InBrowser:
        async def send(self, frame: str | bytes) -> None:
            socket.send(frame if isinstance(frame, str) else to_js(frame))

        async def receive(self) -> str | bytes | Lost:
            found: str | bytes | Lost = await frames.get()
            if isinstance(found, Lost):
                end()
            return found

        async def close(self) -> None:
            end()
            frames.put_nowait(Lost(1000))  # for a `receive` that waits

    try:
        if not await opened:
            raise ConnectionError(url)
    except BaseException:
        end()
        raise
    return InBrowser()


async def fetched(url: str, token: str) -> bytes:
    """Return what a bridge has at a URL."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if sys.platform == "emscripten":
        import js
        from pyodide.ffi import JsException, to_js

        options = to_js({"headers": headers}, dict_converter=js.Object.fromEntries)
        try:
            answer = await js.fetch(url, options)
            if answer.ok:
                return bytes((await answer.arrayBuffer()).to_bytes())
        except JsException as error:
            raise OSError(str(error)) from error
        raise OSError(f"HTTP status {answer.status}")

    def read() -> bytes:
        with urlopen(Request(url, headers=headers), timeout=30) as answer:
            return bytes(answer.read())

    return await asyncio.to_thread(read)
