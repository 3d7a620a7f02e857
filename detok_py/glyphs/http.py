"""One connection through the proxy: HTTP/1.1 on both sides, framed by h11 (RFC 9112).

In: the requests of a browser, or of a UI's server. Out: the same requests to their server, and the
answers, cut if they are streams. Held: one request's body; of an answer only the last piece, and
what a reader wrote in its request.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import h11

from .messages import Messages
from .recut import ProxyError
from .traffic import STREAM_HEADER, Answer, Traffic, origin_of

MAX_HEAD = 64 * 1024
READ_SIZE = 64 * 1024
HOP_BY_HOP = {
    b"connection",
    b"expect",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
CODINGS = {"gzip": 31, "x-gzip": 31, "deflate": 15}  # and their values of zlib's `wbits`
Headers = list[tuple[bytes, bytes]]
Message = h11.Request | h11.Response | h11.InformationalResponse


def header(message: Message, name: bytes) -> str:
    """Return the value of a header, "" if it is missing."""
    return b", ".join([value for key, value in message.headers if key == name]).decode("latin-1")


def _named(message: Message) -> dict[str, str]:
    return {name.decode("latin-1"): header(message, name) for name, _ in message.headers}


class Side:
    """One side of an exchange: a socket, and the HTTP state of its connection."""

    def __init__(
        self,
        role: type[h11.CLIENT] | type[h11.SERVER],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        begun: bytes = b"",
    ) -> None:
        self.http: h11.Connection = h11.Connection(role, max_incomplete_event_size=MAX_HEAD)
        self.reader = reader
        self.writer = writer
        self.heard: bool = False  # whether any part of the current exchange has come
        if begun:
            self.http.receive_data(begun)

    async def receive(self) -> Any:
        """Return the next h11 event."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            data = await self.reader.read(READ_SIZE)
            self.heard = self.heard or bool(data)
            self.http.receive_data(data)
        return event

    async def receive_body(self) -> AsyncIterator[bytes]:
        while isinstance(event := await self.receive(), h11.Data):
            yield bytes(event.data)

    async def send(self, *events: h11.Event) -> None:
        self.writer.write(b"".join([self.http.send(event) or b"" for event in events]))
        await self.writer.drain()

    @property
    def unread(self) -> bytes:
        """The bytes received after the last event."""
        return self.http.trailing_data[0]

    def ready_for_next(self) -> bool:
        """Begin the next exchange if the connection allows one; return whether it does."""
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
            self.heard = False
            return True
        return False


class Connection:
    """A client's connection: one exchange after another, each with the server that the request
    names.
    """

    def __init__(
        self,
        traffic: Traffic,
        upstream: str | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.traffic = traffic
        self.upstream = upstream
        self.client: Side = Side(h11.SERVER, reader, writer)
        self.server: Side | None = None
        self.server_origin: str = ""

    async def run(self) -> None:
        try:
            again = True
            while again and isinstance(request := await self.client.receive(), h11.Request):
                exchange = self._open_tunnel if request.method == b"CONNECT" else self._exchange
                again = await exchange(request)
        except h11.ProtocolError as error:
            raise ProxyError(f"A connection broke the rules of HTTP/1.1: {error}.") from None
        finally:
            self._drop_server()

    def _drop_server(self) -> None:
        if self.server:
            self.server.writer.close()
            self.server = None

    async def _open_tunnel(self, request: h11.Request) -> bool:
        """Answer CONNECT, which browsers also send for a WebSocket without TLS.

        HTTP in the tunnel is served like any other; TLS passes unread. Returns whether requests
        follow.
        """
        authority = request.target.decode("latin-1")
        await self.client.receive()  # the end of the request
        await self.client.send(
            h11.Response(status_code=200, headers=[], reason=b"Connection established")
        )
        reader, writer = self.client.reader, self.client.writer
        begun = self.client.unread or await reader.readexactly(1)
        if begun[:1].isalpha():
            self.upstream = f"http://{authority}"
            self.client = Side(h11.SERVER, reader, writer, begun)
            return True
        self.traffic.blind.add(authority)
        host, _, port = authority.rpartition(":")
        server_reader, server_writer = await asyncio.open_connection(host.strip("[]"), int(port))
        server_writer.write(begun)
        await asyncio.gather(_pump(reader, server_writer), _pump(server_reader, writer))
        return False

    async def _refuse(self, status: int, reason: bytes, sentence: str) -> bool:
        self.traffic.problems.append(sentence)
        body = (sentence + "\n").encode()
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        await self.client.send(
            h11.Response(status_code=status, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        return False

    async def _exchange(self, request: h11.Request) -> bool:
        """Pass on one request and its answer; return whether the connection allows another
        exchange.
        """
        target = request.target.decode("latin-1")
        if target.startswith(("http://", "https://")):
            origin = origin_of(target)
            path = target[len(origin) :] or "/"
        else:
            origin, path = self.upstream or "", target
        if not origin:
            return await self._refuse(
                400,
                b"Bad Request",
                "This is a proxy without an upstream: start it with --upstream URL, or set it as the browser's HTTP proxy.",
            )
        if self.client.http.they_are_waiting_for_100_continue:
            await self.client.send(h11.InformationalResponse(status_code=100, headers=[]))
        body = b"".join([data async for data in self.client.receive_body()])
        headers = _request_headers(request, origin)
        if "chunked" in header(request, b"transfer-encoding"):
            headers.append((b"Content-Length", str(len(body)).encode()))
        asked = [
            h11.Request(method=request.method, target=path.encode("latin-1"), headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        while True:
            server, kept = None, False
            try:
                server, kept = await self._connect(origin)
                await server.send(*asked)
                answer = await server.receive()
                while isinstance(answer, h11.InformationalResponse) and answer.status_code != 101:
                    answer = await server.receive()
                break
            except (OSError, h11.RemoteProtocolError) as error:
                self._drop_server()
                if isinstance(error, OSError):
                    problem = (
                        f"{origin} cannot be reached: {error.strerror or error}. Is it running?"
                    )
                elif server and server.heard:
                    problem = f"{origin} does not answer in HTTP/1.1: {error}."
                    kept = False
                else:
                    problem = f"{origin} closed the connection without an answer."
                # The server may have closed a connection that was idle: try a new one.
                if not kept:
                    return await self._refuse(502, b"Bad Gateway", problem)
        if isinstance(answer, h11.InformationalResponse):
            await self._websocket(origin + path, answer, server)
            return False
        assert isinstance(answer, h11.Response)
        await self._answer(request, body, origin + path, answer, server)
        if not server.ready_for_next():
            self._drop_server()
        return self.client.ready_for_next()

    async def _connect(self, origin: str) -> tuple[Side, bool]:
        """Return a connection to a server, and whether it was used in an earlier exchange."""
        if self.server and self.server_origin == origin and not self.server.reader.at_eof():
            return self.server, True
        self._drop_server()
        url = urlsplit(origin)
        port = url.port or (443 if url.scheme == "https" else 80)
        streams = await asyncio.open_connection(
            url.hostname, port, ssl=url.scheme == "https" or None
        )
        self.server, self.server_origin = Side(h11.CLIENT, *streams), origin
        return self.server, False

    async def _answer(
        self, request: h11.Request, asked: bytes, url: str, answer: h11.Response, server: Side
    ) -> None:
        kind = header(answer, b"content-type")
        coding = header(answer, b"content-encoding").lower()
        wbits = CODINGS.get(coding, 0)
        record = None
        self.traffic.note_status(url, answer.status_code, _named(request))
        if (
            request.method != b"HEAD"
            and answer.status_code == 200
            and self.traffic.is_stream(url, _named(request), _named(answer))
        ):
            record = self.traffic.begin(url, kind, asked.decode("utf-8", "replace"))
        own, theirs = header(request, b"host").encode("latin-1"), urlsplit(url).netloc.encode()
        headers = []
        for name, value in answer.headers.raw_items():
            low = name.lower()
            # Compressing in pieces changes the length. Without a length, h11 sends chunks.
            if low in HOP_BY_HOP or (low == b"content-length" and record and wbits):
                continue
            # A server may have passed on the number of its engine's answer.
            if low == STREAM_HEADER.lower().encode() and record:
                continue
            if low == b"location":
                value = value.replace(b"//" + theirs, b"//" + own, 1)
            headers.append((name, value))
        for key, number in self.traffic.headers(record) if record else ():
            headers.append((key.encode(), number.encode()))
        await self.client.send(
            h11.Response(status_code=answer.status_code, headers=headers, reason=answer.reason)
        )
        body = server.receive_body()
        async for piece in self._cut(record, body, wbits) if record else body:
            await self.client.send(h11.Data(data=piece))
        await self.client.send(h11.EndOfMessage())
        if record:
            record.finished = True

    async def _cut(
        self, record: Answer, body: AsyncIterator[bytes], wbits: int
    ) -> AsyncIterator[bytes]:
        unpack = zlib.decompressobj(wbits) if wbits else None
        pack = zlib.compressobj(wbits=wbits) if wbits else None
        async for data in body:
            plain = unpack.decompress(data) if unpack else data
            for piece, pause in record.cut(plain):
                # Z_SYNC_FLUSH: the browser must be able to unpack each piece when it arrives.
                yield pack.compress(piece) + pack.flush(zlib.Z_SYNC_FLUSH) if pack else piece
                if pause and self.traffic.delay:
                    await asyncio.sleep(self.traffic.delay)
        if pack:
            yield pack.flush()
        record.sent.flush()

    async def _websocket(self, url: str, answer: h11.InformationalResponse, server: Side) -> None:
        """Cut the messages of the server; those of the browser pass unchanged."""
        await self.client.send(answer)
        record = self.traffic.begin(url, "websocket")
        messages, data = Messages(self.traffic, record), server.unread
        server.writer.write(self.client.unread)
        messages.hear(self.client.unread)
        back = asyncio.ensure_future(_pump(self.client.reader, server.writer, messages.hear))
        try:
            while True:
                for frame, pause in messages.receive(data):
                    self.client.writer.write(frame)
                    await self.client.writer.drain()
                    if pause and self.traffic.delay:
                        await asyncio.sleep(self.traffic.delay)
                if not (data := await server.reader.read(READ_SIZE)):
                    break
            record.finished = True
        finally:
            back.cancel()
            self.client.writer.close()


def _request_headers(request: h11.Request, origin: str) -> Headers:
    """Return the headers for the server, which sees its own host and origin."""
    own, theirs = header(request, b"host").encode("latin-1"), urlsplit(origin).netloc.encode()
    out: Headers = []
    if header(request, b"upgrade").lower() == "websocket":
        out += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    for name, value in request.headers.raw_items():
        low = name.lower()
        # Compressed WebSocket messages could not be cut.
        if low in HOP_BY_HOP or low == b"sec-websocket-extensions":
            continue
        if low == b"accept-encoding":
            value = b"gzip" if b"gzip" in value else b"identity"
        elif low == b"host":
            value = theirs
        elif low in (b"origin", b"referer"):
            value = value.replace(b"//" + own, b"//" + theirs, 1)
        out.append((name, value))
    return out


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    hear: Callable[[bytes], None] = lambda data: None,
) -> None:
    try:
        while data := await reader.read(READ_SIZE):
            writer.write(data)
            hear(data)
            await writer.drain()
    finally:
        writer.close()
