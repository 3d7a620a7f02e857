"""The chaos proxy: between a chat UI and its engine, it cuts the stream where nobody expects it, and changes nothing else.

In: HTTP/1.1 (keep-alive, chunked, gzip, WebSocket) from a browser, as its forward proxy or as the engine's address. Out: the
same bytes in other pieces, and what they say: `sent_text`. Held: one connection's unread bytes, never an answer's.

Only streams are cut: server-sent events, JSON lines, and whatever a script fetches in chunks. HTML, scripts and pictures pass
untouched, and so does TLS in a CONNECT tunnel, which nobody in between can read. RFC 9112 (HTTP/1.1), RFC 6455 (WebSocket).
"""

import asyncio
import codecs
import json
import random
import re
import threading
import zlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any
from urllib.parse import urlsplit

from detok_py.errors import DetokError

MAX_HEAD = 64 * 1024
MAX_FRAGMENTS = 1000  # in one WebSocket message: receivers refuse a message in very many
STREAMS = re.compile(r"text/event-stream|ndjson|jsonl|json-seq|stream\+json|vnd\.amazon\.eventstream", re.I)
PERHAPS = re.compile(r"^(text/plain|application/octet-stream|application/json|application/x-detok|)\s*(;|$)", re.I)
# Plain-text events that keep a connection open and are nobody's text: Gradio's heartbeat is `data: ALIVE`.
KEEP_ALIVE = re.compile("alive|ping|pong|keep-?alive|heart-?beat", re.I)
HOP_BY_HOP = {"connection", "proxy-connection", "keep-alive", "te", "trailer", "proxy-authenticate", "proxy-authorization"}
Headers = list[tuple[str, str]]


class ProxyError(DetokError, RuntimeError):
    """The proxy cannot do what was asked: a split that it does not know, an upstream that is no address."""


# --- where to cut -----------------------------------------------------------------------------------------------------
class Recut:
    """Cuts bytes into other pieces: `every-byte`, `token`, `random:SEED` or `none`.

    `feed(data)` returns `(piece, pause)` pairs: together exactly `data`, and `pause` is true where a cut tells a careful reader
    from a careless one, namely inside a character, inside a JSON escape, and between the ends of two lines.

    >>> [piece for piece, _ in Recut("every-byte").feed("né".encode())]
    [b'n', b'\\xc3', b'\\xa9']
    >>> b"".join([piece for piece, _ in Recut("random:7").feed(b"any bytes")])
    b'any bytes'
    """

    def __init__(self, split: str = "every-byte") -> None:
        self.split, _, seed = split.partition(":")
        if self.split not in ("every-byte", "token", "random", "none") or (seed and self.split != "random"):
            raise ProxyError(f"There is no split {split!r}; use every-byte, token, random:SEED or none.")
        try:
            self.random = random.Random(int(seed or 0))
        except ValueError:
            raise ProxyError(f"The seed of {split!r} is no whole number; write random:7, for example.") from None
        self._before = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        if not data:
            return
        for piece in self._pieces(data):
            self._before = (self._before + piece)[-8:]
            yield piece, self._matters(self._before)

    def _pieces(self, data: bytes) -> list[bytes]:
        if self.split == "none":
            return [data]
        if self.split == "every-byte":
            return [data[i : i + 1] for i in range(len(data))]
        if self.split == "token":
            # What a byte-level vocabulary would do: words, single signs, and a character of three or four bytes in two parts.
            return re.findall(rb" ?[A-Za-z0-9_]+|[\xc0-\xff][\x80-\xbf]?|[\x80-\xbf]+|\n+|[\x00-\x7f]", data)
        pieces, i = [], 0
        while i < len(data):
            size = self.random.choice((1, 1, 2, 3, 5, 8, 13, 40))
            pieces.append(data[i : i + size])
            i += size
        return pieces

    @staticmethod
    def _matters(before: bytes) -> bool:
        if before[-1] >= 0x80:
            for back in range(1, 4):
                lead = before[-back] if len(before) >= back else 0
                if lead >= 0xC0:
                    return back < (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4)
            return False
        return before.endswith((b"\n", b"\r")) or bool(re.search(rb"\\(u[0-9a-fA-F]{0,3})?$|\\u[dD][89abAB][0-9a-fA-F]{2}$", before))


# --- what it says -----------------------------------------------------------------------------------------------------
class SentText:
    """Reads the text out of a stream, as the engine meant it: server-sent events, JSON lines, or plain text.

    Knows the events of OpenAI, llama.cpp, Ollama, Anthropic, text-generation-inference and the AI SDK. `text` is None when the
    stream had events and none of them was of a known kind: then nothing is claimed about it.

    >>> sent = SentText("text/event-stream")
    >>> sent.feed(b'data: {"choices": [{"delta": {"content": "h\\xc3'); sent.feed(b'\\xa9"}}]}\\n\\n'); sent.flush(); sent.text
    'hé'
    """

    def __init__(self, content_type: str) -> None:
        charset = re.search(r"charset=\"?([\w-]+)", content_type)
        self.kind = (
            "sse" if "event-stream" in content_type else "lines" if re.search("ndjson|jsonl|json-seq|stream.json", content_type) else "text"
        )
        try:
            self._decoder = codecs.getincrementaldecoder(charset.group(1) if charset and self.kind == "text" else "utf-8")("replace")
        except LookupError:
            self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []
        self._line = ""
        self._events = self._known = 0

    def feed(self, data: bytes) -> None:
        self._take(self._decoder.decode(data))

    def flush(self) -> None:
        self._take(self._decoder.decode(b"", True))
        if self._line:
            self._take("\n")

    @property
    def text(self) -> str | None:
        return None if self._events and not self._known else "".join(self._parts)

    def message(self, message: str | None) -> None:
        """Take one whole message of a WebSocket; None for a binary one that nobody here can read."""
        if message is None:
            self._events += 1
        elif message[:1] in ("{", "["):
            self._event(message)
        elif not KEEP_ALIVE.fullmatch(message.strip()):
            self._said(message)

    def _take(self, text: str) -> None:
        if self.kind == "text":
            return self._said(text)
        self._line += text
        *lines, self._line = re.split("\r\n|\n|\r(?!$)", self._line)
        for line in lines:
            if self.kind == "sse":
                if line.startswith("data:"):
                    self._event(line[5:].removeprefix(" "))
            elif line.strip("\x1e "):
                self._event(line.strip("\x1e "))

    def _said(self, text: str) -> None:
        if text:
            self._events, self._known = self._events + 1, self._known + 1
            self._parts.append(text)

    def _event(self, data: str) -> None:
        if data.strip() == "[DONE]" or KEEP_ALIVE.fullmatch(data.strip()):
            return
        old = re.match(r'0:(".*")$', data)  # the AI SDK's first stream format
        try:
            value = json.loads(old.group(1) if old else data)
        except ValueError:
            # Events of plain text; what is only half JSON is an event that nobody knows.
            if not data.startswith(("{", "[", "b'")):
                return self._said(data)
            self._events += 1
            return
        said = text_of(value)
        self._events += 1
        if said is not None:
            self._known += 1
            # Halves of a pair in two events are one character, as a reader of UTF-16 has it.
            self._parts.append(said)
            if len(self._parts) > 1 and re.match("[\udc00-\udfff]", said) and re.search("[\ud800-\udbff]$", self._parts[-2]):
                joined = (self._parts[-2] + said).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
                self._parts[-2:] = [joined]


def text_of(value: Any) -> str | None:
    """Return the text of one event, or None when it is of no kind that is known.

    >>> text_of({"message": {"role": "assistant", "content": "hi"}}), text_of({"usage": {}})
    ('hi', None)
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    choices = value.get("choices")
    if isinstance(choices, list):
        parts = []
        for choice in choices[:1]:
            delta = choice.get("delta") or choice.get("message") or choice
            parts.append(str(delta.get("content") or delta.get("text") or ""))
        return "".join(parts)
    kind = str(value.get("type", ""))
    delta = value.get("delta")
    if isinstance(delta, str):
        return delta if "text" in kind else None
    if isinstance(delta, dict) and isinstance(delta.get("text"), str):
        return str(delta["text"])
    for path in (("message", "content"), ("token", "text"), ("content",), ("response",), ("text",)):
        here: Any = value
        for name in path:
            here = here.get(name) if isinstance(here, dict) else None
        if isinstance(here, str):
            return here
    return None


# --- HTTP -------------------------------------------------------------------------------------------------------------
class Head:
    """The first line and the headers of a message."""

    def __init__(self, first: str, headers: Headers) -> None:
        self.first = first
        self.headers = headers

    def get(self, name: str) -> str:
        return ", ".join([v for n, v in self.headers if n.lower() == name])

    def without(self, *names: str) -> Headers:
        return [(n, v) for n, v in self.headers if n.lower() not in names]

    def encode(self) -> bytes:
        return "".join([self.first, "\r\n", *[f"{n}: {v}\r\n" for n, v in self.headers], "\r\n"]).encode("latin-1")


async def read_head(reader: asyncio.StreamReader, begun: bytes = b"") -> Head | None:
    """Return the next message's head, of which `begun` has been read already; None at the end of the connection."""
    try:
        raw = begun + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial.strip():
            raise ProxyError("The connection ended inside the head of a message.") from None
        return None
    except asyncio.LimitOverrunError:
        raise ProxyError(f"The head of a message is longer than {MAX_HEAD} bytes.") from None
    first, *lines = raw.decode("latin-1").strip("\r\n").split("\r\n")
    return Head(first, [(name.strip(), value.strip()) for name, _, value in [line.partition(":") for line in lines]])


async def read_body(reader: asyncio.StreamReader, head: Head, until_close: bool) -> AsyncIterator[bytes]:
    """Yield a body's bytes as they come, out of whatever framing it has."""
    if "chunked" in head.get("transfer-encoding").lower():
        while True:
            size = int((await reader.readline()).split(b";")[0].strip() or b"0", 16)
            left = size
            while left:
                data = await reader.read(min(left, 65536))
                if not data:
                    raise ProxyError("The upstream's chunked body ended in the middle.")
                left -= len(data)
                yield data
            if size == 0:
                while (await reader.readline()).strip():
                    pass  # trailers
                return
            await reader.readline()
    elif head.get("content-length"):
        left = int(head.get("content-length"))
        while left:
            data = await reader.read(min(left, 65536))
            if not data:
                raise ProxyError("The upstream's body is shorter than it said.")
            left -= len(data)
            yield data
    elif until_close:
        while data := await reader.read(65536):
            yield data


class Answer:
    """One stream that was cut: its address, how many bytes in how many pieces, and what it says."""

    def __init__(self, url: str, content_type: str) -> None:
        self.url = url
        self.content_type = content_type
        self.bytes = self.pieces = 0
        self.sent = SentText(content_type)
        self.finished = False


class ChaosProxy:
    """A proxy that cuts streams; a context manager around a thread of its own, so that sync and async tests can use it.

    `url(address)` returns where to find a server with the proxy before it. `server` is what a browser takes as its HTTP
    proxy, so that every page is cut without any setting in it. `sent_text` is everything the streams said, None when nothing
    could be read. `delay` is seconds, waited after each cut that matters (Recut).

    >>> with ChaosProxy(split="random:7") as chaos:                 # doctest: +SKIP
    ...     page.goto(chaos.url("http://127.0.0.1:3000"))
    """

    def __init__(
        self, upstream: str | None = None, *, split: str = "every-byte", delay: float = 0.003, listen: str = "127.0.0.1", port: int = 0,
        only: str | None = None, websocket: str = "fragments",
    ) -> None:  # fmt: skip
        Recut(split)
        if websocket not in ("fragments", "messages"):
            raise ProxyError(f"A WebSocket is cut into fragments or into messages, not into {websocket!r}.")
        self.split = split
        self.delay = delay
        try:
            self.only = re.compile(only) if only else None
        except re.error as error:
            raise ProxyError(f"{only!r} is no regular expression: {error}; write --only '/v1/', for example.") from None
        self.websocket = websocket
        self.answers: list[Answer] = []
        self.problems: list[str] = []
        self.blind: set[str] = set()
        self._listen, self._port, self._upstream = listen, port, upstream and origin_of(upstream)
        self._servers: dict[str | None, asyncio.Server] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: set[asyncio.Task[None]] = set()

    # --- life -----------------------------------------------------------------------------------------------------
    def __enter__(self) -> "ChaosProxy":
        ready = threading.Event()
        self._loop = asyncio.new_event_loop()

        def run() -> None:
            assert self._loop is not None
            self._loop.call_soon(ready.set)
            self._loop.run_forever()

        self._thread = threading.Thread(target=run, name="chaos proxy", daemon=True)
        self._thread.start()
        ready.wait()
        try:
            self._await(self._open(self._upstream, self._port))
        except OSError as error:
            self.__exit__()
            raise ProxyError(f"The proxy cannot listen on {self._listen}:{self._port}: {error.strerror}. Choose another port.") from None
        return self

    def __exit__(self, *exc: object) -> None:
        if self._loop is None or self._thread is None:
            return
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._loop = None

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _open(self, upstream: str | None, port: int) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await Connection(self, upstream, reader, writer).run()
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                pass  # one side has gone
            except (ProxyError, ValueError) as error:
                self.problems.append(str(error))
            except OSError:
                pass  # a tunnel to a host that cannot be reached: the browser sees its end
            except asyncio.CancelledError:
                writer.transport.abort()  # the proxy is being closed: what is unsent stays unsent
            finally:
                self._connections.discard(task)
                writer.close()

        self._servers[upstream] = await asyncio.start_server(serve, self._listen, port, limit=MAX_HEAD)

    async def _close(self) -> None:
        # A connection may have been accepted and not begun (a server that is closed then forgets its socket), and a transport
        # closes in the loop's next rounds: a loop that is stopped at once would leave sockets open.
        await asyncio.sleep(0.01)
        for server in self._servers.values():
            server.close()
        for _ in range(5):
            tasks = list(self._connections)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.002)

    # --- what is asked of it --------------------------------------------------------------------------------------
    def _address(self, upstream: str | None) -> str:
        host, port = self._servers[upstream].sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    @property
    def server(self) -> str:
        """The proxy's own address: what a browser takes as its HTTP proxy, or a UI as its engine."""
        return self._address(self._upstream)

    def url(self, address: str) -> str:
        """Return `address` with the proxy before its server."""
        upstream = origin_of(address)
        if upstream not in self._servers:
            self._await(self._open(upstream, 0))
        return self._address(upstream) + address[len(upstream) :]

    @property
    def sent_text(self) -> str | None:
        """What all streams have said so far, in their order; None when no stream was seen or none could be understood."""
        texts = [a.sent.text for a in self.answers]
        known = [t for t in texts if t]
        return "\n".join(known) if known else None


def origin_of(address: str) -> str:
    """Return an address's origin, as it is written.

    >>> origin_of("http://127.0.0.1:3000/chat?a=1")
    'http://127.0.0.1:3000'
    """
    url = urlsplit(address)
    try:
        _ = url.port
    except ValueError:
        raise ProxyError(f"{address!r} has no port that can be used; write http://127.0.0.1:8080, for example.") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ProxyError(f"{address!r} is no http address; write http://127.0.0.1:8080, for example.")
    return f"{url.scheme}://{url.netloc}"


class Connection:
    """One client's connection: requests one after another, each to its server, each answer back, cut if it is a stream."""

    def __init__(self, proxy: ChaosProxy, upstream: str | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.upstream = upstream
        self.reader = reader
        self.writer = writer
        self.tunnel: str | None = None
        self.begun = b""
        self.server: tuple[str, asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self) -> None:
        try:
            while head := await read_head(self.reader, self.begun):
                self.begun = b""
                method, _, rest = head.first.partition(" ")
                if method == "CONNECT":
                    if not await self._open_tunnel(rest.split(" ")[0]):
                        return
                elif not await self._exchange(method, rest.rsplit(" ", 1)[0], head):
                    return
        finally:
            self._drop()

    def _drop(self) -> None:
        if self.server:
            self.server[2].close()
            self.server = None

    async def _open_tunnel(self, authority: str) -> bool:
        """A browser's way to a WebSocket through its proxy. Plain HTTP in it is served as any other; TLS passes unread."""
        self.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self.writer.drain()
        self.begun = await self.reader.readexactly(1)
        if self.begun.isalpha():
            self.tunnel = f"http://{authority}"
            return True
        self.proxy.blind.add(authority)
        host, _, port = authority.rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        writer.write(self.begun)
        await asyncio.gather(self._pump(self.reader, writer), self._pump(reader, self.writer))
        return False

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def _connect(self, origin: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bool]:
        if self.server and self.server[0] == origin and not self.server[1].at_eof():
            return self.server[1], self.server[2], True
        self._drop()
        url = urlsplit(origin)
        port = url.port or (443 if url.scheme == "https" else 80)
        reader, writer = await asyncio.open_connection(url.hostname, port, ssl=url.scheme == "https" or None, limit=MAX_HEAD)
        self.server = (origin, reader, writer)
        return reader, writer, False

    async def _refuse(self, status: str, sentence: str) -> bool:
        self.proxy.problems.append(sentence)
        body = (sentence + "\n").encode()
        head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.writer.write(head.encode() + body)
        await self.writer.drain()
        return False

    async def _exchange(self, method: str, target: str, head: Head) -> bool:
        """Pass one request on and its answer back; return whether the connection may carry another."""
        if target.startswith(("http://", "https://")):
            origin = origin_of(target)
            path = target[len(origin) :] or "/"
        else:
            origin, path = self.tunnel or self.upstream or "", target
        if not origin:
            return await self._refuse(
                "400 Bad Request",
                "This is a proxy without an upstream: start it with --upstream URL, or set it as the browser's HTTP proxy.",
            )
        upgrade = head.get("upgrade").lower() == "websocket"
        request = Head(f"{method} {path} HTTP/1.1", self._asked(head, origin, upgrade))
        body = b"".join([data async for data in read_body(self.reader, head, until_close=False)])
        if "chunked" in head.get("transfer-encoding").lower():
            request.headers = [*request.without("transfer-encoding"), ("Content-Length", str(len(body)))]
        again = False
        while True:
            try:
                reader, writer, again = await self._connect(origin)
                writer.write(request.encode() + body)
                await writer.drain()
                answer = await read_head(reader)
                while answer and re.match(r"HTTP/1\.\d 1(?!01)\d\d", answer.first):
                    answer = await read_head(reader)
            except OSError as error:
                self._drop()
                if again:  # a kept connection that has died: a new one may live
                    again = False
                    continue
                return await self._refuse("502 Bad Gateway", f"{origin} cannot be reached: {error.strerror or error}. Is it running?")
            if answer:
                break
            self._drop()  # a kept connection that the server had closed
            if not again:
                return await self._refuse("502 Bad Gateway", f"{origin} closed the connection without an answer.")
        status = int(answer.first.split(" ")[1])
        if status == 101:
            await self._websocket(origin + path, answer, reader, writer)
            return False
        return await self._answer(method, origin + path, head, answer, reader, status)

    def _asked(self, head: Head, origin: str, upgrade: bool) -> Headers:
        out: Headers = []
        own = head.get("host")
        netloc = urlsplit(origin).netloc
        for name, value in head.headers:
            low = name.lower()
            if low in HOP_BY_HOP and not (upgrade and low == "connection"):
                continue
            if low == "sec-websocket-extensions":
                continue  # compressed messages could neither be cut nor read
            if low == "accept-encoding":
                value = "gzip" if "gzip" in value else "identity"
            if low == "host":
                value = netloc
            if low in ("origin", "referer") and own != netloc:
                value = value.replace(f"//{own}", f"//{netloc}", 1)
            out.append((name, value))
        return out

    def _is_stream(self, head: Head, answer: Head, url: str) -> bool:
        if self.proxy.only:
            return bool(self.proxy.only.search(url))
        kind = answer.get("content-type")
        if STREAMS.search(kind):
            return True
        fetched = head.get("sec-fetch-dest") in ("empty", "")
        return fetched and not answer.get("content-length") and bool(PERHAPS.search(kind))

    async def _answer(self, method: str, url: str, head: Head, answer: Head, reader: asyncio.StreamReader, status: int) -> bool:
        bodiless = method == "HEAD" or status in (204, 304)
        chunked = "chunked" in answer.get("transfer-encoding").lower()
        until_close = not chunked and not answer.get("content-length")
        again = "close" not in head.get("connection").lower() and not head.first.endswith("1.0")
        out = Head(answer.first, answer.without(*HOP_BY_HOP))
        own = head.get("host")
        out.headers = [(n, v.replace(f"//{urlsplit(url).netloc}", f"//{own}", 1) if n.lower() == "location" else v) for n, v in out.headers]
        stream = not bodiless and status == 200 and self._is_stream(head, answer, url)
        packed = stream and answer.get("content-encoding").lower() in ("gzip", "x-gzip", "deflate")
        if not bodiless and (until_close or packed):
            out.headers = [*out.without("content-length", "transfer-encoding"), ("Transfer-Encoding", "chunked")]
            chunked = True
        if not again:
            out.headers.append(("Connection", "close"))
        self.writer.write(out.encode())
        await self.writer.drain()
        if not bodiless:
            pieces = read_body(reader, answer, until_close)
            if stream:
                await self._cut(url, answer, pieces, chunked, packed)
            else:
                async for data in pieces:
                    await self._write(data, chunked)
            if chunked:
                self.writer.write(b"0\r\n\r\n")
            await self.writer.drain()
        if until_close or "close" in answer.get("connection").lower():
            self._drop()
        return again

    async def _write(self, data: bytes, chunked: bool) -> None:
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
        await self.writer.drain()

    async def _cut(self, url: str, answer: Head, body: AsyncIterator[bytes], chunked: bool, packed: bool) -> None:
        record = Answer(url, answer.get("content-type"))
        self.proxy.answers.append(record)
        recut = Recut(self.proxy.split)
        unpack = zlib.decompressobj(47) if packed else None
        pack = zlib.compressobj(wbits=31) if packed else None
        async for data in body:
            plain = unpack.decompress(data) if unpack else data
            record.sent.feed(plain)
            record.bytes += len(plain)
            for piece, matters in recut.feed(plain):
                record.pieces += 1
                if pack:
                    # A piece must come out by itself though it is compressed: RFC 1950's sync flush.
                    await self._write(pack.compress(piece) + pack.flush(zlib.Z_SYNC_FLUSH), chunked)
                else:
                    await self._write(piece, chunked)
                if matters and self.proxy.delay:
                    await asyncio.sleep(self.proxy.delay)
        if pack:
            await self._write(pack.flush(), chunked)
        record.sent.flush()
        record.finished = True

    # --- WebSocket ------------------------------------------------------------------------------------------------
    async def _websocket(self, url: str, answer: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer.write(answer.encode())
        await self.writer.drain()
        # The server's messages are cut; what the browser sends passes as it is.
        back = asyncio.ensure_future(self._pump(self.reader, writer))
        try:
            await self._messages(url, reader)
        finally:
            back.cancel()
            self.writer.close()

    async def _messages(self, url: str, reader: asyncio.StreamReader) -> None:
        record = Answer(url, "websocket")
        self.proxy.answers.append(record)
        recut = Recut(self.proxy.split)
        kind, message = 0, b""
        while True:
            try:
                first, second = await reader.readexactly(2)
                size = second & 0x7F
                if size > 125:
                    size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
                data = await reader.readexactly(size)
            except asyncio.IncompleteReadError:
                record.finished = True
                return
            code = first & 0x0F
            if code >= 8:
                self._frame(first, data)
                await self.writer.drain()
                continue
            if code:
                kind, message = code, b""
            record.bytes += len(data)
            last = bool(first & 0x80)
            as_messages = self.proxy.websocket == "messages" and (kind == 2 or data[:1] not in b"{[")
            await self._fragments(code, kind, data, last, recut, record, as_messages)
            message += data
            if last:
                if kind == 1:
                    record.sent.message(message.decode("utf-8", "replace"))
                elif message[:1] == b"\x00":
                    record.sent.feed(message[1:])  # detok.v1: raw bytes
                elif as_messages:
                    record.sent.feed(message)
                else:
                    record.sent.message(None)

    async def _fragments(self, code: int, kind: int, data: bytes, last: bool, recut: Recut, record: Answer, as_messages: bool) -> None:
        if as_messages and kind == 1:
            pieces = [(c.encode(), True) for c in data.decode("utf-8", "replace")]  # a text message must be whole characters
        else:
            pieces = list(recut.feed(data)) or [(b"", False)]
            if len(pieces) > MAX_FRAGMENTS and not as_messages:
                pieces[MAX_FRAGMENTS - 1 :] = [(b"".join([piece for piece, _ in pieces[MAX_FRAGMENTS - 1 :]]), False)]
        for i, (piece, matters) in enumerate(pieces):
            record.pieces += 1
            if as_messages:
                self._frame(0x80 | kind, piece)
            else:
                # RFC 6455, 5.4: the first fragment has the opcode, the last has FIN; a cut may fall inside a character.
                final = 0x80 if last and i == len(pieces) - 1 else 0
                self._frame(final | (code if i == 0 else 0), piece)
            await self.writer.drain()
            # A page is given whole messages only: between fragments there is nothing for it to see.
            if as_messages and matters and self.proxy.delay:
                await asyncio.sleep(self.proxy.delay)

    def _frame(self, first: int, data: bytes) -> None:
        size = len(data)
        head = (
            bytes([first, size])
            if size < 126
            else bytes([first, 126]) + size.to_bytes(2, "big")
            if size < 65536
            else bytes([first, 127]) + size.to_bytes(8, "big")
        )
        self.writer.write(head + data)
