"""Read similar events quickly: most lines of a stream differ in one string only.

In: lines, in order. Out: for a line that equals an earlier one but for one string, their common
shape and the string; such a line is not parsed. Held: the last shape, and the line before. Lines of
one shape that follow each other are read together: a loop over each of their texts takes longer
than all else.
"""

import json
from typing import Any, Iterator

from .parse import parse_json

FAILURES = 64  # after so many comparisons without a match, no more lines are compared
MARKER = "detok\u2060marker"
CREATED = b'"created":'
DIGITS = b"0123456789"
LEAST_TEXTS, MOST_TEXTS = 8, 1024  # in a `Texts`


class Shape:
    """What lines have in common: everything but the text of one string. `value` has a marker there.
    `plain` is whether something else in the lines is beyond ASCII.

    `channel` of its `kind` is for servers.py: where the text belongs, "" if the events say
    more than this text, None if that is not known yet.
    """

    def __init__(self, before: bytes, after: bytes, value: Any) -> None:
        self.before = before
        self.after = after
        self.value = value
        self.channel: str | None = None
        self.kind: Shape = self  # the first of those that differ in the second of `created` only
        self.plain: bool = not (_is_ascii(before) and _is_ascii(after))

    def text_of(self, line: bytes) -> Any:
        """Return the string of a line; None if the line has another shape, or its string ends
        elsewhere or has an escape of a code.
        """
        if not (line.startswith(self.before) and line.endswith(self.after)):
            return None
        text = line[len(self.before) : len(line) - len(self.after)]
        if b"\\u" in text or (text and min(text) < 32):
            return None
        if b'"' in text and b'"' in text.replace(b"\\\\", b"").replace(b'\\"', b""):
            return None
        if len(line) < len(self.before) + len(self.after):
            return None
        try:
            said = text.decode()
            return json.loads(f'"{said}"') if "\\" in said else said
        except ValueError:  # not UTF-8, or the string ends elsewhere
            return None

    def renewed(self, line: bytes) -> "Shape | None":
        """Return the shape of a line whose only other difference is the second in `created`; None
        for other lines.
        """
        size = len(line)
        before, after = line[: len(self.before)], line[size - len(self.after) :]
        if size < len(self.before) + len(self.after):
            return None
        if before == self.before and after == self.after:  # its text must be read by itself
            return None
        if _without_time(before) != _without_time(self.before):
            return None
        if _without_time(after) != _without_time(self.after):
            return None
        out = Shape(before, after, self.value)
        out.kind = self.kind
        return out


class Same:
    """An event of a shape, with its own text."""

    def __init__(self, shape: Shape, text: str) -> None:
        self.shape = shape
        self.text = text

    def whole(self) -> Any:
        """Return the event's value."""
        text = json.dumps(self.text, ensure_ascii=False)[1:-1].encode()
        return parse_json(_json_in(self.shape.before + text + self.shape.after), 0)


class Texts:
    """Events of a shape that follow each other, each with its own text, some lines apart."""

    def __init__(self, shape: Shape, texts: list[str], step: int) -> None:
        self.shape = shape
        self.texts = texts
        self.step = step

    def each(self) -> Iterator[Same]:
        """Yield each event by itself."""
        for text in self.texts:
            yield Same(self.shape, text)


class Shapes:
    """Finds what lines have in common.

    >>> shapes = Shapes()
    >>> words = (b"Hi", b"Ho", b'\\\\"', b"\\\\u00e9")
    >>> lines = [b'data: {"a":"%s","b":1}' % word for word in words]
    >>> [found and found.text for found in map(shapes.same, lines)]
    [None, None, '"', None]
    """

    def __init__(self) -> None:
        self._before = b""
        self._shape: Shape | None = None
        self._failed = 0
        self._most = LEAST_TEXTS

    def texts(self, lines: list[bytes], n: int) -> "Texts | None":
        """Return the events from line `n` on that have the last shape, if they can be read
        together; None if they are few. Between two of them is an empty line, or none.
        """
        shape = self._shape
        if shape is None:
            return None
        before, after = shape.before, shape.after
        size = len(before) + len(after)
        step = 2 if n + 1 < len(lines) and not lines[n + 1] else 1
        taken: list[bytes] = []
        while n < len(lines) and len(taken) < self._most:
            line = lines[n]
            if not (line.startswith(before) and line.endswith(after)) or len(line) < size:
                break
            if step == 2 and n + 1 < len(lines) and lines[n + 1]:
                break
            taken.append(line)
            n += step
        if len(taken) < LEAST_TEXTS:
            return None
        texts = _texts_of(shape, taken)
        if texts is None:
            self._most = max(LEAST_TEXTS, len(taken) // 2)
            return self.texts(lines, n - len(taken) * step) if len(taken) > LEAST_TEXTS else None
        self._most = min(MOST_TEXTS, 2 * self._most)
        return Texts(shape, texts, step)

    def same(self, line: bytes) -> "Same | None":
        """Return a line as an event of the last shape, or None if it has another shape."""
        shape = self._shape
        text = shape.text_of(line) if shape is not None else None
        if shape is not None and text is None:
            renewed = shape.renewed(line)
            text = renewed.text_of(line) if renewed is not None else None
            shape = self._shape = renewed if text is not None else shape
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


def _texts_of(shape: Shape, lines: list[bytes]) -> "list[str] | None":
    """Return the texts of lines that begin and end as a shape; None if one is empty, or must be
    read by itself: with a U+FFFD, half a character, or what is no JSON string.
    """
    joined = b"\n".join(lines)
    seam = shape.after + b"\n" + shape.before
    parts = joined[len(shape.before) : len(joined) - len(shape.after)].split(seam)
    inside = b"\n".join(parts)
    # Without escapes, what is left of a string has no quote, and no backslash at its end.
    bare = inside.replace(b"\\\\", b"").replace(b'\\"', b"") + b"\n"
    if len(parts) != len(lines) or b'"' in bare or b"\\\n" in bare:
        return None
    if b"\\u" in bare or b"\xef\xbf\xbd" in inside or b"\xf4\x8f" in inside:
        return None
    # MicroPython takes surrogates for characters.
    if b"\xed" in inside and any(part[:1] > b"\x9f" for part in inside.split(b"\xed")[1:]):
        return None
    if min(inside.replace(b"\n", b"") or b"\n") < 32:
        return None
    try:
        texts: list[str] = json.loads((b'["' + b'","'.join(parts) + b'"]').decode())
    except ValueError:
        return None
    return None if "" in texts or len(texts) != len(parts) else texts


def _without_time(part: bytes) -> bytes:
    """Return a part of an event without the number at `created`."""
    at = part.find(CREATED) + len(CREATED)
    if at < len(CREATED):
        return part
    at += part[at : at + 1] == b" "
    return part[:at] + part[at:].lstrip(DIGITS)


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
