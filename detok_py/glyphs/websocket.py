"""Cut the messages of a WebSocket (RFC 6455), with the frames of `websockets`.

In: a server's frames. Out: the same messages in more fragments, or each message as several.

`wsproto` could not do this: it sends a fragment of text as whole characters only, and a cut
inside a character is what shows a careless reader.
"""

import asyncio
from collections.abc import Iterator

from websockets.exceptions import ProtocolError
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader as FrameBuffer

from .recut import ProxyError, Recut
from .traffic import Answer, SentText, Traffic

MAX_FRAGMENTS = (
    1000  # in one message: receivers refuse messages with more fragments than they expect
)


async def relay(
    traffic: Traffic,
    answer: Answer,
    begun: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Pass a server's messages on until it closes the connection.

    `begun` is what was read of them already.
    """
    recut = Recut(traffic.split)
    buffer = FrameBuffer()
    buffer.feed_data(begun)
    kind, message = Opcode.TEXT, b""
    while frame := await _next_frame(buffer, reader):
        if frame.opcode in (Opcode.CLOSE, Opcode.PING, Opcode.PONG):
            writer.write(frame.serialize(mask=False))
            await writer.drain()
            continue
        if frame.opcode is not Opcode.CONT:
            kind, message = frame.opcode, b""
        data = bytes(frame.data)
        message += data
        answer.bytes += len(data)
        # JSON is not cut into messages: half of it is not JSON.
        split_messages = traffic.websocket == "messages" and (
            kind is Opcode.BINARY or data[:1] not in b"{["
        )
        pieces = _messages(kind, data, recut) if split_messages else _fragments(frame, data, recut)
        for piece, pause in pieces:
            answer.pieces += 1
            writer.write(piece.serialize(mask=False))
            await writer.drain()
            # A page gets whole messages only, so a pause between fragments would change nothing.
            if split_messages and pause and traffic.delay:
                await asyncio.sleep(traffic.delay)
        if frame.fin:
            _read_message(answer.sent, kind, message, split_messages)
    answer.finished = True


async def _next_frame(buffer: FrameBuffer, reader: asyncio.StreamReader) -> Frame | None:
    """Return the next frame, or None at the end of the connection."""
    steps = Frame.parse(buffer.read_exact, mask=False)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            frame: Frame = end.value
            return frame
        except ProtocolError as error:
            raise ProxyError(
                f"The server sent a WebSocket frame that is not valid: {error}."
            ) from None
        data = await reader.read(65536)
        if not data:
            return None
        buffer.feed_data(data)


def _messages(kind: Opcode, data: bytes, recut: Recut) -> Iterator[tuple[Frame, bool]]:
    """Yield a message for each piece, and whether to pause after it."""
    if kind is Opcode.TEXT:  # RFC 6455, 5.6: a whole text message is valid UTF-8
        for character in data.decode("utf-8", "replace"):
            yield Frame(kind, character.encode()), True
    else:
        for piece, pause in list(recut.feed(data)) or [(b"", False)]:
            yield Frame(kind, piece), pause


def _fragments(frame: Frame, data: bytes, recut: Recut) -> Iterator[tuple[Frame, bool]]:
    """Yield a fragment for each piece; a cut may split a character (RFC 6455, 5.4)."""
    pieces = [piece for piece, _ in recut.feed(data)] or [b""]
    if len(pieces) > MAX_FRAGMENTS:
        pieces[MAX_FRAGMENTS - 1 :] = [b"".join(pieces[MAX_FRAGMENTS - 1 :])]
    for i, piece in enumerate(pieces):
        last = i == len(pieces) - 1
        yield Frame(frame.opcode if i == 0 else Opcode.CONT, piece, fin=frame.fin and last), False


def _read_message(sent: SentText, kind: Opcode, message: bytes, split_messages: bool) -> None:
    if kind is Opcode.TEXT:
        sent.message(message.decode("utf-8", "replace"))
    elif message[:1] == b"\x00":
        sent.feed(message[1:])  # detok.v1: raw bytes
    elif split_messages:
        sent.feed(message)
    else:
        sent.message(None)
