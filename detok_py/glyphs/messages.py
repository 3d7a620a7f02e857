"""Cut the messages of a WebSocket (RFC 6455) into fragments or into several messages.

In: the bytes that a server sends. Out: the bytes of other frames with the same content. Held: the
unfinished frame and message.

`wsproto` cannot do this: it cuts text only between characters, and only a cut inside a character
tests a careless reader. This file uses only the standard library, so that it also runs in Node.
"""

from collections.abc import Iterator

from .recut import ProxyError
from .traffic import Answer, Traffic

CONTINUATION, TEXT, BINARY, CONTROL = 0, 1, 2, 8
# The most fragments of one message: receivers limit their number.
MAX_FRAGMENTS = 1000
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


class Messages:
    """Cuts the messages of one stream, and collects their text."""

    def __init__(self, traffic: Traffic, answer: Answer) -> None:
        self.answer = answer
        self.splits: bool = traffic.websocket == "messages"
        self._kind, self._message, self._held = TEXT, b"", b""

    def receive(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield the bytes of each frame to send, and whether to pause after it."""
        self._held += data
        while len(self._held) >= 2:
            opcode, size, start = self._held[0], self._held[1], 2
            if size >= 126:
                start += 8 if size & 1 else 2
                size = int.from_bytes(self._held[2:start], "big")
            if self._held[1] > 127 or opcode & 0x70:
                raise ProxyError(
                    "The server sent a WebSocket frame that is not valid: it has a mask or a reserved bit."
                )
            if len(self._held) < start + size:
                return
            payload, self._held = self._held[start : start + size], self._held[start + size :]
            for code, fin, piece, pause in self.feed(opcode & 15, opcode > 127, payload):
                yield frame_bytes(code, fin, piece), pause

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
