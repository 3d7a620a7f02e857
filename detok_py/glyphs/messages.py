"""Cut the messages of a WebSocket (RFC 6455) into fragments or into several messages.

In: the bytes that each side sends. Out: for those of the server the bytes of other frames with the
same content; of those of the page, what a reader wrote. Held: an unfinished frame and message of
each side.

`wsproto` cannot do this: it cuts text only between characters, and only a cut inside a character
tests a careless reader. This file uses only the standard library, so that it also runs in Node.
"""

from collections.abc import Iterator
from contextlib import suppress

from .recut import ProxyError
from .traffic import Answer, Traffic

CONTINUATION, TEXT, BINARY, CONTROL = 0, 1, 2, 8
# The most fragments of one message: receivers limit their number.
MAX_FRAGMENTS = 1000
MAX_HEARD = 1 << 20  # bytes of a page's message; longer ones are files
Frame = tuple[int, bool, bytes, bool]  # opcode, whether the last one, data, whether to pause


def frame_bytes(opcode: int, fin: bool, data: bytes) -> bytes:
    """Return a frame without a mask, as servers send it (RFC 6455, 5.2).

    >>> frame_bytes(TEXT, True, b"hi")
    b'\\x81\\x02hi'
    """
    size = len(data)
    if size < 126:
        length = bytes([size])
    elif size < 65536:
        length = b"\x7e" + size.to_bytes(2, "big")
    else:
        length = b"\x7f" + size.to_bytes(8, "big")
    return bytes([opcode | 128 * fin]) + length + data


class Frames:
    """Reads the frames of one side, the "server" or the "page". Only a page's have a mask (RFC
    6455, 5.1).

    >>> list(Frames("server").feed(b"\\x81\\x02hi\\x81"))
    [(1, True, b'hi')]
    """

    def __init__(self, side: str) -> None:
        self._side = side
        self._masked = side == "page"
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bool, bytes]]:
        """Yield the opcode of each frame, whether its message ends with it, and its content."""
        self._held += data
        while len(self._held) >= 2:
            opcode, size, start = self._held[0], self._held[1] & 127, 2
            if size > 125:
                start += 8 if size == 127 else 2
                size = int.from_bytes(self._held[2:start], "big")
            if (self._held[1] > 127) != self._masked or opcode & 0x70:
                raise ProxyError(
                    f"The {self._side} sent a WebSocket frame that is not valid: its mask or a reserved bit is wrong."
                )
            start += 4 * self._masked
            if len(self._held) < start + size:
                return
            content = bytes(self._held[start : start + size])
            if self._masked:
                mask = (self._held[start - 4 : start] * (size // 4 + 1))[:size]
                number = int.from_bytes(content, "big") ^ int.from_bytes(mask, "big")
                content = number.to_bytes(size, "big")
            del self._held[: start + size]
            yield opcode & 15, opcode > 127, content


class Messages:
    """Cuts the messages of one stream, and collects their text, and that of the page's messages."""

    def __init__(self, traffic: Traffic, answer: Answer) -> None:
        self.answer = answer
        self.splits: bool = traffic.websocket == "messages"
        self._kind, self._message = TEXT, b""
        self._frames = Frames("server")
        self._page: Frames | None = Frames("page")
        self._asked = bytearray()

    def receive(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield the bytes of each frame to send, and whether to pause after it."""
        for frame in self._frames.feed(data):
            for code, fin, piece, pause in self.feed(*frame):
                yield frame_bytes(code, fin, piece), pause

    def hear(self, data: bytes) -> None:
        """Read what the page sends, which passes unchanged: what a reader wrote in its messages."""
        try:
            for opcode, fin, content in self._page.feed(data) if self._page else ():
                if opcode >= CONTROL:
                    continue
                if opcode:
                    self._asked.clear()
                self._asked += content[: MAX_HEARD - len(self._asked)]
                if fin and len(self._asked) < MAX_HEARD:
                    with suppress(UnicodeDecodeError):  # binary messages may be no text
                        self.answer.ask(self._asked.decode())
        except ProxyError:
            self._page = None  # what is wrong with it, its server says

    def feed(self, opcode: int, fin: bool, data: bytes) -> Iterator[Frame]:
        """Yield the frames to send for one that was received."""
        if opcode >= CONTROL:
            yield opcode, fin, data, False
            return
        if opcode != CONTINUATION:
            self._kind, self._message = opcode, b""
        self._message += data
        self.answer.bytes += len(data)
        if self.splits:  # a message that came in fragments is cut when it is whole
            if not fin:
                return
            opcode, data = self._kind, self._message
        # JSON is not cut into messages: half an object is not JSON.
        split = self.splits and (self._kind == BINARY or data[:1] not in b"{[")
        for frame in self._messages(data) if split else self._fragments(opcode, fin, data):
            self.answer.pieces += 1
            yield frame
        if fin:
            self._read(split)

    def _messages(self, data: bytes) -> Iterator[Frame]:
        if self._kind == TEXT:  # RFC 6455, 5.6: a whole text message is valid UTF-8
            for character in data.decode("utf-8", "replace"):
                yield TEXT, True, character.encode(), True
        else:
            for piece, pause in list(self.answer.recut.feed(data)) or [(b"", False)]:
                yield BINARY, True, piece, pause

    def _fragments(self, opcode: int, fin: bool, data: bytes) -> Iterator[Frame]:
        """Yield a fragment for each piece; a cut may split a character (RFC 6455, 5.4).

        A page gets whole messages only, so a pause between fragments would change nothing.
        """
        pieces = [piece for piece, _ in self.answer.recut.feed(data)] or [b""]
        if len(pieces) > MAX_FRAGMENTS:
            pieces[MAX_FRAGMENTS - 1 :] = [b"".join(pieces[MAX_FRAGMENTS - 1 :])]
        for i, piece in enumerate(pieces):
            last = i == len(pieces) - 1
            yield opcode if i == 0 else CONTINUATION, fin and last, piece, False

    def _read(self, split: bool) -> None:
        message, sent = self._message, self.answer.sent
        if self._kind == TEXT:
            sent.message(message.decode("utf-8", "replace"))
        elif message[:1] == b"\x00":
            sent.feed(message[1:])  # detok.v1: raw bytes
        elif split:
            sent.feed(message)
        else:
            sent.message(None)
