"""uvicorn's HTTP and WebSocket protocols, with stricter limits.

In: bytes of a connection. Out: ASGI. Held: at most 16 KiB of a request head, for at most five
seconds, and one message of at most 1 MiB.

uvicorn itself does not limit the time for a request head, the connections of an address, fragments
or pings, and refuses everything with status 400.
"""

import asyncio
import contextlib
import ipaddress
import re
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto import events
from wsproto.connection import ConnectionState

MAX_HEAD = 16 << 10
MAX_HEADERS = 64
MAX_HEADER_LINE = 8 << 10
HEAD_SECONDS = 5.0
MAX_CONNECTIONS = 1024
# Connections of one address without a complete request head. Beyond this number the oldest is
# closed, unless all came within the last second: many clients may reconnect at once.
MAX_HEADS = 64
HEAD_GRACE_SECONDS = 1.0
MAX_FRAGMENTS = 256
MAX_PINGS = 32
# A peer that reads nothing for so long is gone. Its socket is aborted, because `close` would wait
# for buffered data.
STALL_SECONDS = 30.0
CLOSE_SECONDS = 10.0
CONTENT_LENGTH = re.compile(rb"\ncontent-length[ \t]*:", re.IGNORECASE)
ASCII_HEADERS = (b"host", b"origin", b"connection", b"upgrade", b"expect")
# An ASGI extension: an app may send WebSocket messages without a turn of the event loop. Its two
# functions say whether that is possible now, and do it.
FRAMES = "detok.frames"
# The same for a response body, after a head without a length.
CHUNKS = "detok.chunks"
PHRASES = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}


class StrictConnection(h11.Connection):
    """An h11 connection that also refuses large heads, ambiguous body lengths, and text beyond
    ASCII where HTTP has none.

    `status` is the status code for the refusal.
    """

    status: int = 400

    def next_event(self) -> Any:
        if self.their_state is h11.IDLE:
            # h11 joins equal lengths into one.
            head = self.trailing_data[0][: MAX_HEAD + 1].partition(b"\r\n\r\n")[0]
            if len(CONTENT_LENGTH.findall(head)) > 1:
                raise h11.RemoteProtocolError("two lengths")
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            self.status = 431 if error.error_status_hint == 431 else 400
            raise
        if isinstance(event, h11.Request):
            names = [name for name, _ in event.headers]
            if len(names) > MAX_HEADERS or any(
                len(name) + len(value) + 4 > MAX_HEADER_LINE for name, value in event.headers
            ):
                self.status = 431
                raise h11.RemoteProtocolError("too many headers")
            # Later code, before the gate, decodes these as ASCII.
            if any(
                (name in ASCII_HEADERS or name.startswith(b"sec-websocket-"))
                and not value.isascii()
                for name, value in event.headers
            ):
                raise h11.RemoteProtocolError("not ASCII")
            if b"content-length" in names and b"transfer-encoding" in names:
                raise h11.RemoteProtocolError("two lengths")
        return event


def framed(message: str | bytes) -> bytes:
    """Return the WebSocket frame of a message: unmasked and whole, RFC 6455 section 5.2. wsproto
    would take four times as long for every token.

    >>> framed("hi"), framed(bytes(200))[:4]
    (b'\\x81\\x02hi', b'\\x82~\\x00\\xc8')
    """
    payload, first = (message.encode(), 0x81) if isinstance(message, str) else (message, 0x82)
    size = len(payload)
    if size < 126:
        return bytes((first, size)) + payload
    if size < 1 << 16:
        return bytes((first, 126)) + size.to_bytes(2, "big") + payload
    return bytes((first, 127)) + size.to_bytes(8, "big") + payload


class Impatient:
    """A protocol that aborts its connection if the peer reads nothing for a while."""

    loop: asyncio.AbstractEventLoop
    transport: Any
    _stall: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self._stall = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()  # type: ignore[misc]
        self._cancel_stall()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_stall()
        super().connection_lost(exc)  # type: ignore[misc]

    def _cancel_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None


class StrictHTTP(Impatient, H11Protocol):
    """Closes connections whose request head is late; answers a refused request with its status.

    If there are too many connections, closes one without a request in progress: the oldest of the
    address that has the most.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn: StrictConnection = StrictConnection(h11.SERVER, MAX_HEAD)
        self._timeout: asyncio.TimerHandle | None = None
        self._address: str = ""
        self._given_app = self.app
        self.app: Any = self._app_with_chunks

    async def _app_with_chunks(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["http_version"] == "1.1":  # HTTP/1.0 clients take no chunks
            chunks = {"can": self.can_write, "write": self.write_chunk}
            scope["extensions"] = {CHUNKS: chunks}
        await self._given_app(scope, receive, send)

    def can_write(self) -> bool:
        """Return whether the peer keeps up and the response has not ended."""
        return not (
            self.flow.write_paused or self.cycle.disconnected or self.transport.is_closing()
        )

    def write_chunk(self, data: bytes) -> None:
        """Write a chunk of the body in this turn of the loop; only if `can_write`."""
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # The next piece of a file waits until this one is sent, so at most one is buffered.
        transport.set_write_buffer_limits(high=0)
        self._address = network_of(self.client[0] if self.client else "")
        self._timeout = self.loop.call_later(HEAD_SECONDS, self._abort_late)
        if len(self.connections) > MAX_HEADS:
            self._make_room()

    def _make_room(self) -> None:
        """If there are too many connections, close an idle one, or else this one."""
        idle = [one for one in self.connections if isinstance(one, StrictHTTP) and one.waits_until]
        counts = Counter([one._address for one in idle])
        begun = self.loop.time() - HEAD_GRACE_SECONDS
        if len(self.connections) > MAX_CONNECTIONS:
            [(crowd, _)] = counts.most_common(1)
        elif counts[self._address] > MAX_HEADS:
            crowd = self._address
            idle = [one for one in idle if one._timeout and one.waits_until < begun + HEAD_SECONDS]
        else:
            return
        crowded = [one for one in idle if one._address == crowd]
        if crowded:
            min(crowded, key=lambda one: one.waits_until)._abort_late()

    @property
    def waits_until(self) -> float:
        """When the wait for a request ends; 0 while there is one in progress."""
        timer = self._timeout or self.timeout_keep_alive_task
        return 0.0 if timer is None or self.transport.is_closing() else timer.when()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timeout is None and self.conn.their_state is h11.IDLE:
            self._timeout = self.loop.call_later(HEAD_SECONDS, self._abort_late)
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_timeout()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self.loop.call_later(HEAD_SECONDS, self._end_body, self.cycle)

    def _end_body(self, cycle: Any) -> None:
        """Close a connection whose request was answered while its body is still arriving."""
        if self.cycle is cycle and self.conn.their_state is h11.SEND_BODY:
            self._abort_late()

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _abort_late(self) -> None:
        self._cancel_timeout()
        if not self.transport.is_closing():
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        status = self.conn.status if isinstance(self.conn, StrictConnection) else 400
        body = b"detok does not accept this HTTP request.\n"
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        head = h11.Response(status_code=status, headers=headers, reason=PHRASES[status])
        # Fails if a response has already begun.
        with contextlib.suppress(h11.LocalProtocolError):
            parts = [self.conn.send(e) for e in (head, h11.Data(data=body), h11.EndOfMessage())]
            self.transport.write(b"".join([part or b"" for part in parts]))
        self.transport.close()


def network_of(address: str) -> str:
    """Return the network of an address: an IPv4 address itself, the /64 network of an IPv6 one.

    >>> network_of("192.0.2.1"), network_of("2001:db8:1:2:3::4"), network_of("")
    ('192.0.2.1', '2001:db8:1:2::', '')
    """
    if ":" not in address:
        return address
    packed = ipaddress.IPv6Address(address).packed
    mapped = ipaddress.IPv6Address(address).ipv4_mapped
    return str(mapped or ipaddress.IPv6Address(packed[:8] + bytes(8)))


class StrictWebSocket(Impatient, WSProtocol):
    """Limits the fragments of a message and the rate of pings.

    wsproto itself refuses unmasked frames, reserved bits and invalid UTF-8 (RFC 6455).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fragments = 0
        self._pings = float(MAX_PINGS)
        self._pinged_at = 0.0

    def connection_made(self, transport: Any) -> None:
        transport.set_write_buffer_limits()
        super().connection_made(transport)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()

    def write_frames(self, frames: list[str | bytes]) -> None:
        """Write messages with one call, in this turn of the loop; only if `can_write`."""
        self.transport.write(b"".join([framed(frame) for frame in frames]))

    def can_write(self) -> bool:
        """Return whether the peer keeps up and the socket is open."""
        return (
            self.writable.is_set()
            and self.handshake_complete
            and not (self.disconnected or self.close_sent or self.transport.is_closing())
        )

    async def run_asgi(self) -> None:
        self.scope["extensions"][FRAMES] = {"can": self.can_write, "write": self.write_frames}
        await super().run_asgi()
        if not self.disconnected:
            self.loop.call_later(CLOSE_SECONDS, self.transport.abort)

    def handle_message(self, event: events.TextMessage | events.BytesMessage) -> None:
        if event.message_finished:
            self._fragments = 0
        elif event.frame_finished:
            self._fragments += 1
            if self._fragments > MAX_FRAGMENTS:
                self._close_with(1008, "too many fragments")
                return
        super().handle_message(event)

    def handle_close(self, event: events.CloseConnection) -> None:
        if not self.close_sent and self.conn.state is ConnectionState.OPEN:
            # Not a close frame from the peer: wsproto found a violation of RFC 6455, and has set
            # the code.
            self._close_with(int(event.code), "violation of RFC 6455")
            return
        super().handle_close(event)

    def handle_ping(self, event: events.Ping) -> None:
        now = self.loop.time()
        self._pings = min(float(MAX_PINGS), self._pings + 4 * (now - self._pinged_at)) - 1
        self._pinged_at = now
        # Each ping is answered, so a peer that never reads could fill the memory with pongs.
        if self._pings < 0 or self.transport.get_write_buffer_size() > 64 << 10:
            self._close_with(1008, "too many pings")
            return
        super().handle_ping(event)

    def _close_with(self, code: int, reason: str) -> None:
        if self.close_sent:
            return
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        if not self.transport.is_closing():
            self.transport.write(self.conn.send(events.CloseConnection(code=code, reason=reason)))
            self.transport.close()
