"""Read JSON of other programs, which may have halves of surrogate pairs.

In: JSON texts, and strings with marked halves. Out: values, and UTF-8. Held: nothing.

`"\\ud83d"` at the end of one event and `"\\ude00"` at the start of the next are one character, but
neither is a string that Python can encode, and MicroPython refuses both. So `parse_json` replaces
each half by a private character of plane 16, and `Halves` joins them.
"""

import json
import sys
from binascii import a2b_base64
from typing import Any

from ..errors import CaptureError, RemoteProtocolError
from ..protocol import wire
from .well_formed import is_json

IS_LENIENT = sys.implementation.name == "micropython"  # its parser
MARK = 0x10F800  # stands for U+D800; the other 2047 surrogates follow


def parse_json(text: str, number: int, *, halves: bool = False) -> Any:
    """Return the value of a JSON text, with marked halves if they are allowed.

    Raises CaptureError, naming line `number`.
    """
    if wire.depth(text) > wire.MAX_DEPTH:
        raise CaptureError(f"line {number} is nested deeper than {wire.MAX_DEPTH}.")
    if IS_LENIENT and not is_json(text):
        raise CaptureError(f"line {number} is not JSON.")
    try:
        value = json.loads(mark_halves(text) if halves else text)
        wire.check_plain(value)
    except (ValueError, RemoteProtocolError, RecursionError):
        raise CaptureError(f"line {number} is not JSON.") from None
    return value


def value_of_json(data: "str | bytes") -> Any:
    """Return the value of JSON, None if it is none.

    >>> value_of_json('{"a": 1}'), value_of_json(b"{a")
    ({'a': 1}, None)
    """
    try:
        text = data.decode() if isinstance(data, bytes) else data
        return parse_json(text, 1, halves=True)
    except (CaptureError, UnicodeError):
        return None


def value_of_line(line: bytes) -> Any:
    """Return the value of a line of JSON, with halves of pairs as they are; None if it is none."""
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return None


def bytes_of_line(said: Any) -> "bytes | None":
    """Return what a line of a log says, as bytes: a string, or a list of their numbers; None for
    other values, and for half a surrogate pair.

    >>> bytes_of_line("né"), bytes_of_line([110, 195, 169]), bytes_of_line({})
    (b'n\\xc3\\xa9', b'n\\xc3\\xa9', None)
    """
    if isinstance(said, list):
        return bytes([n & 255 for n in said if type(n) is int])
    try:
        return said.encode() if isinstance(said, str) else None
    except ValueError:
        return None


def object_at(value: Any, *names: str) -> dict[str, Any]:
    """Return the object that names lead to, from one object to the next; {} if there is none.

    >>> object_at({"a": {"b": {"c": 1}}}, "a", "b"), object_at({"a": 1}, "a"), object_at([1])
    ({'c': 1}, {}, {})
    """
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def chars_of(data: bytes) -> str:
    """Return the character of each byte: Latin-1, which MicroPython does not decode."""
    return "".join([chr(byte) for byte in data])


def base64_bytes(text: str) -> bytes:
    """Return the bytes of a text in base64 (RFC 4648). Raises CaptureError.

    >>> base64_bytes("4oKs")
    b'\\xe2\\x82\\xac'
    """
    try:
        return a2b_base64(text.encode())
    except ValueError:
        raise CaptureError("it is not whole base64.") from None


def mark_halves(text: str) -> str:
    """Return a JSON text whose escaped halves of surrogate pairs are escapes of private characters.

    >>> mark_halves('["\\\\ud83d", "\\\\ud83d\\\\ude00"]')
    '["\\\\udbfe\\\\udc3d", "\\\\ud83d\\\\ude00"]'
    """
    if "\\ud" not in text and "\\uD" not in text:
        return text
    out = []
    begin = 0
    at = text.find("\\")
    while at >= 0:
        size = 2
        code = _escape(text, at)
        if 0xD800 <= code < 0xE000:
            after = _escape(text, at + 6)
            size = 6
            if code < 0xDC00 and 0xDC00 <= after < 0xE000:
                size = 12
            else:
                low = MARK + code - 0xD800 - 0x10000
                out.append(text[begin:at])
                out.append("\\u" + hex(0xD800 + (low >> 10))[2:])
                out.append("\\u" + hex(0xDC00 + (low & 0x3FF))[2:])
                begin = at + 6
        at = text.find("\\", at + size)
    out.append(text[begin:])
    return "".join(out)


def _escape(text: str, at: int) -> int:
    """Return the code of the escape at a position, or -1 if there is none."""
    if text[at : at + 2] != "\\u":
        return -1
    try:
        return int(text[at + 2 : at + 6], 16)
    except ValueError:
        return -1


class Halves:
    """Turns strings with marked halves into UTF-8. Held: a first half at the end of a string.

    >>> halves = Halves()
    >>> halves.feed("a" + chr(MARK + 0x3D)), halves.feed(chr(MARK + 0x600) + "b")
    ((b'a', False), (b'\\xf0\\x9f\\x98\\x80b', False))
    >>> halves.feed(chr(MARK + 0x600)), halves.flush()
    ((b'\\xef\\xbf\\xbd', True), (b'', False))
    """

    def __init__(self) -> None:
        self.held: int = 0

    def goes_on(self, text: str) -> bool:
        """Return whether a string begins with the other half of what is held."""
        return self.held > 0 and ord(text[:1] or " ") >= MARK + 0x400

    def feed(self, text: str) -> tuple[bytes, bool]:
        """Return the bytes of a string, and whether it had half a surrogate pair without its other
        half.
        """
        if not self.held and (not text or ord(max(text)) < MARK):
            return text.encode(), False
        out = []
        alone = False
        for letter in text:
            code = ord(letter) - MARK + 0xD800
            if self.held and code >= 0xDC00:
                out.append(chr(0x10000 + ((self.held - 0xD800) << 10) + code - 0xDC00))
                self.held = 0
                continue
            if self.held or code >= 0xDC00:
                out.append("\ufffd")
                alone = True
            self.held = code if 0xD800 <= code < 0xDC00 else 0
            if code < 0xD800:
                out.append(letter)
        return "".join(out).encode(), alone

    def flush(self) -> tuple[bytes, bool]:
        """Return what is held as U+FFFD."""
        held, self.held = self.held, 0
        return ("\ufffd".encode(), True) if held else (b"", False)


# The second bytes that make a character of these first bytes, from one to below another (RFC 3629).
SECOND = (
    (b"\xe0", b"\xa0", b"\xc0"),
    (b"\xed", b"\x80", b"\xa0"),
    (b"\xf0", b"\x90", b"\xc0"),
    (b"\xf4", b"\x80", b"\x90"),
)
NEVER = (b"\xc0", b"\xc1") + tuple([bytes([byte]) for byte in range(0xF5, 0x100)])


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are UTF-8.

    >>> is_utf8("né".encode()), is_utf8(b"\\xc0\\xbb"), is_utf8(b"\\xed\\xa0\\x80")
    (True, False, False)
    """
    try:
        text = data.decode()
    except UnicodeError:
        return False
    # MicroPython takes other sequences for characters, too: overlong ones, surrogates, and beyond.
    return len(text) == len(data) or not (
        any(byte in data for byte in NEVER)
        or any(
            not first <= part[:1] < end
            for byte, first, end in SECOND
            if byte in data
            for part in data.split(byte)[1:]
        )
    )
