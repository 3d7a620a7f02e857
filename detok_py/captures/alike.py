"""Read similar events quickly: most lines of a stream differ in one string only.

In: lines, in order. Out: for a line that equals an earlier one but for one string, their common
shape and the string; such a line is not parsed. Held: the last shape, and the line before.
"""

import json
from typing import Any

from .parse import parse_json

FAILURES = 64  # after so many comparisons without a match, no more lines are compared
MARKER = "detok\u2060marker"


class Shape:
    """What lines have in common: everything but the text of one string. `value` has a marker there.
    `plain` is whether something else in the lines is beyond ASCII.

    `channel` is for servers.py: where the text belongs, "" if the events say more than this text,
    None if that is not known yet.
    """

    def __init__(self, before: bytes, after: bytes, value: Any) -> None:
        self.before = before
        self.after = after
        self.value = value
        self.channel: str | None = None
        self.plain: bool = not (_is_ascii(before) and _is_ascii(after))

    def text_of(self, line: bytes) -> Any:
        """Return the string of a line; None if the line has another shape, or if its string has a
        quote, a `\\u` escape or a control character.
        """
        if not (line.startswith(self.before) and line.endswith(self.after)):
            return None
        text = line[len(self.before) : len(line) - len(self.after)]
        if b'"' in text or b"\\u" in text or (text and min(text) < 32):
            return None
        if len(line) < len(self.before) + len(self.after):
            return None
        try:
            said = text.decode()
            return json.loads(f'"{said}"') if "\\" in said else said
        except ValueError:  # not UTF-8, or the string ends elsewhere
            return None


class Same:
    """An event of a shape, with its own text."""

    def __init__(self, shape: Shape, text: str) -> None:
        self.shape = shape
        self.text = text

    def whole(self) -> Any:
        """Return the event's value."""
        text = json.dumps(self.text, ensure_ascii=False)[1:-1].encode()
        return parse_json(_json_in(self.shape.before + text + self.shape.after), 0)


class Shapes:
    """Finds what lines have in common.

    >>> shapes = Shapes()
    >>> lines = [b'data: {"a":"%s","b":1}' % word for word in (b"Hi", b"Ho", b"x", b'\\\\"')]
    >>> [found and found.text for found in map(shapes.same, lines)]
    [None, None, 'x', None]
    """

    def __init__(self) -> None:
        self._before = b""
        self._shape: Shape | None = None
        self._failed = 0

    def same(self, line: bytes) -> "Same | None":
        """Return a line as an event of the last shape, or None if it has another shape."""
        shape = self._shape
        text = shape.text_of(line) if shape is not None else None
        if shape is not None and text is not None:
            return Same(shape, text)
        if (
            self._failed < FAILURES
            and line[-1:] == b"}"
            and (line[:1] == b"{" or line[:5] == b"data:")
        ):
            before, self._before = self._before, line
            found = shape_of(before, line)
            self._failed = 0 if found else self._failed + 1
            self._shape = found or shape
        return None


def shape_of(one: bytes, other: bytes) -> "Shape | None":
    """Return the common shape of two lines, or None if they differ in more than one string."""
    size = min(len(one), len(other))
    begin = _common(size, lambda n: one[:n] == other[:n])
    end = _common(size - begin, lambda n: n == 0 or one[-n:] == other[-n:])
    begin = other.rfind(b'"', 0, begin) + 1
    stop = other.find(b'"', max(begin, len(other) - end))
    before, after = other[:begin], other[stop:]
    if not begin or stop < 0 or one == other or before[:-1].rstrip()[-1:] != b":":
        return None
    if after[1:].lstrip()[:1] == b":":
        return None
    try:
        value = parse_json(_json_in(before + MARKER.encode() + after), 0)
    except Exception:  # not JSON, or not UTF-8; CPython and MicroPython raise different errors
        return None
    shape = Shape(before, after, value)
    return shape if shape.text_of(one) is not None and shape.text_of(other) is not None else None


def _json_in(line: bytes) -> str:
    return line[5:].decode() if line[:5] == b"data:" else line.decode()


def _common(most: int, holds: Any) -> int:
    """Return the largest number up to `most` for which `holds` is true; it is true for all smaller
    ones.
    """
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _is_ascii(data: bytes) -> bool:
    return not data or max(data) < 128
