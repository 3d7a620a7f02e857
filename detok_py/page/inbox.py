"""Bytes from JavaScript to Python: a buffer that JavaScript writes into, and the frames of a batch.

In: what JavaScript has written. Out: bytes, or the WebSocket frames in them. Held: the buffer.

In Pyodide, JavaScript writes into the memory of `inbox()`. In MicroPython, whose memory JavaScript
cannot view, it writes a file; `read_from_file` sets the path. A few bytes are passed as a hex
string instead, as an argument of the call.
"""

from typing import Any

TEXT_FRAME = 0

_buffer = bytearray(1 << 16)
_file: Any = None


def inbox(size: int = 0) -> bytearray:
    """Return the buffer that JavaScript writes into, of at least `size` bytes.

    A larger buffer replaces it when needed. It never shrinks.
    """
    global _buffer
    if size > len(_buffer):
        _buffer = bytearray(max(size, 2 * len(_buffer)))
    return _buffer


def read_from_file(path: str) -> None:
    """Read from the file at `path` from now on, instead of the buffer."""
    global _file
    # Kept open: opening it for each batch takes longer than reading it.
    _file = open(path, "rb")  # noqa: SIM115


def given_bytes(given: "int | str") -> bytes:
    """Return the bytes that JavaScript has given: `given` is their count in the inbox, or has them
    in hex.

    >>> given_bytes("c3a9")
    b'\\xc3\\xa9'
    """
    if isinstance(given, str):
        return bytes.fromhex(given)
    part = memoryview(inbox(given))[:given]
    if _file is not None:
        _file.seek(0)
        _file.readinto(part)
    return bytes(part)


def unpack_batch(batch: bytes) -> list[str | bytes]:
    """Return the frames of a batch, which holds for each frame: one byte (0 text, 1 binary), the
    length as 4 bytes, lowest first, and the frame itself.

    >>> unpack_batch(b"\\x00\\x02\\x00\\x00\\x00{}" + b"\\x01\\x01\\x00\\x00\\x00\\x07")
    ['{}', b'\\x07']
    """
    frames: list[str | bytes] = []
    at = 0
    while at < len(batch):
        size = int.from_bytes(batch[at + 1 : at + 5], "little")
        frame = batch[at + 5 : at + 5 + size]
        frames.append(frame.decode() if batch[at] == TEXT_FRAME else frame)
        at += 5 + size
    return frames
