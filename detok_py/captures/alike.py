"""Read similar events quickly: most lines of a stream differ in one string only, or besides in
values that no reader looks at, such as `id` or `obfuscation`.

In: lines, in order. Out: for a line that equals an earlier one but for these, their common shape
and the string; such a line is not parsed. Held: the last shape, shapes by what is the same in all
lines, and the line before. Lines of one shape that follow each other are read together: a loop over
each of their texts takes longer than all else. MicroPython, whose `re` finds no groups in bytes at
this rate, reads lines so only if they differ in one string, and in the second of `created`. A page
takes such lines out of a large file before Python has it (fold.py).
"""

import json
import re
from typing import Any, Iterator

from ..errors import CaptureError
from .event_shapes import is_read, is_text
from .parse import is_utf8, parse_json

ESCAPES = (b"/", b"b", b"f", b"n", b"r", b"t")  # that need no code
FAILURES = 64  # after so many shapes that no other line has, no more are made
MARKER = "detok\u2060marker"
CREATED = b'"created":'
DIGITS = b"0123456789"
LEAST_TEXTS, MOST_TEXTS = 8, 1024  # in a `Texts`
MOST_APART = 4  # lines from an event to the next one
MOST_VALUES = 16  # that differ in the lines of a shape
MOST_LINE = 1 << 16  # bytes of a line that is searched for values
NUMBERS = (b"sequence_number", b"seq")
OF_TIMES = (b'"created_at"', b'"timestamp"', b'"ts"', b'"time"')  # keys
BEGINS = (b"{", b"data:")  # of an event
WITHOUT_DATA = (b"event:", b"id:")
FINDS = hasattr(re, "finditer")
QUOTE, BACKSLASH, SPACE = 34, 92, 32
TEXT = rb'([^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*)'
ANY_STRING = rb"[^\"\\\x00-\x1f\x7f-\xff]*"
ANY_NUMBER = rb"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,17})?"
COUNT = rb"(0|[1-9]\d{0,14})"


class Shape:
    """What lines have in common: everything but the text of one string, and values that no reader
    looks at. `value` has a marker for the text. `plain` is whether something else in the lines is
    beyond ASCII.

    `pattern` finds (text,), (text, number) or (number, text) in a line, if more than the text
    differs; `number` is the place of the sequence number, -1 if there is none. `parts` are what the
    lines have in common around these values, and `kinds` the patterns of the values.

    `channel` of its `kind` is for servers.py: where the text belongs, "" if the events say
    more than this text, None if that is not known yet.
    """

    def __init__(self, before: bytes, after: bytes, value: Any) -> None:
        self.before = before
        self.after = after
        self.value = value
        self.pattern: Any = None
        self.number = -1
        self.parts: list[bytes] = []
        self.kinds: list[bytes] = []
        self.channel: str | None = None
        self.kind: Shape = self  # the first of those that differ in the second of `created` only
        self.plain: bool = not (_is_ascii(before) and _is_ascii(after))

    def same(self, line: bytes) -> "Same | None":
        """Return a line as an event; None if it has another shape, or its string ends elsewhere or
        has an escape of a code.
        """
        if not (line.startswith(self.before) and line.endswith(self.after)):
            return None
        number = None
        if self.pattern is not None:
            found = self.pattern.match(line)
            if found is None:
                return None
            text = found.group(2 if self.number == 0 else 1)
            number = int(found.group(1 + self.number)) if self.number >= 0 else None
        elif len(line) < len(self.before) + len(self.after):
            return None
        else:
            text = line[len(self.before) : len(line) - len(self.after)]
        said = _string_of(text)
        return None if said is None else Same(self, said, line, number)

    def line_of(self, text: str, number: "int | None") -> bytes:
        """Return a line of this shape with a text and a sequence number; other values are 1."""
        filled = {TEXT: json.dumps(text)[1:-1].encode(), COUNT: str(number).encode()}
        line = self.parts[0]
        for n, kind in enumerate(self.kinds):
            line += filled.get(kind, b"1") + self.parts[n + 1]
        return line

    def renewed(self, line: bytes) -> "Shape | None":
        """Return the shape of a line whose only other difference is the second in `created`; None
        for other lines.
        """
        size = len(line)
        before, after = line[: len(self.before)], line[size - len(self.after) :]
        if size < len(self.before) + len(self.after) or self.pattern is not None:
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
    """An event of a shape, with its own text, and its sequence number, if the shape has one."""

    def __init__(self, shape: Shape, text: str, line: bytes, number: "int | None") -> None:
        self.shape = shape
        self.text = text
        self.line = line
        self.number = number

    def whole(self) -> Any:
        """Return the event's value."""
        return parse_json(_json_in(self.line), 0)


class Texts:
    """Events of a shape that follow each other, each with its own text, some lines apart. `numbers`
    are their sequence numbers, if the shape has one. Without `lines`, the lines are not known.
    """

    def __init__(
        self,
        shape: Shape,
        texts: list[str],
        step: int,
        lines: "list[bytes] | None" = None,
        numbers: "list[int] | None" = None,
    ) -> None:
        self.shape = shape
        self.texts = texts
        self.step = step
        self.lines: list[bytes] = lines or []
        self.numbers = numbers

    def each(self) -> Iterator[Same]:
        """Yield each event by itself."""
        for n, text in enumerate(self.texts):
            number = self.numbers[n] if self.numbers else None
            line = self.lines[n] if self.lines else self.shape.line_of(text, number)
            yield Same(self.shape, text, line, number)


def with_values(events: list[Any], change: Any) -> list[Any]:
    """Return events one by one, each with what `change` makes of its own value."""
    out = []
    for event in events:
        texts = event.value if isinstance(event.value, Texts) else None
        for n, value in enumerate(texts.each() if texts else [event.value]):
            value = change(value.whole() if isinstance(value, Same) else value)
            line = event.line + (n * texts.step if texts else 0)
            out.append(type(event)(value, line, *event[2:]))
    return out


class Shapes:
    """Finds what lines have in common.

    >>> shapes = Shapes()
    >>> words = (b"Hi", b"Ho", b'\\\\"', b"\\\\u00e9")
    >>> lines = [b'data: {"a":"%s","b":1}' % word for word in words]
    >>> [found and found.text for found in map(shapes.same, lines)]
    [None, None, '"', None]
    >>> lines = [b'{"id":%d,"content":"%s"}' % one for one in enumerate(words)]
    >>> [found and found.text for found in map(shapes.same, lines)]
    [None, 'Ho', '"', None]
    """

    def __init__(self) -> None:
        self._before = b""
        self._shape: Shape | None = None
        self._made: dict[tuple[bytes, ...], Shape | None] = {}
        self._failed = 0
        self._most = LEAST_TEXTS

    def texts(self, lines: list[bytes], n: int) -> "Texts | None":
        """Return the events from line `n` on that have the last shape, if they can be read
        together; None if they are few. Between two of them are equally many lines without data.
        """
        shape = self._shape
        if shape is None or not lines[n].startswith(shape.before):
            return None
        before, after = shape.before, shape.after
        size = len(before) + len(after)
        step = _step(lines, n)
        taken: list[bytes] = []
        for line in lines[n : n + step * self._most : step]:
            if not (line.startswith(before) and line.endswith(after)) or len(line) < size:
                break
            taken.append(line)
        for more in range(1, step):
            for at, line in enumerate(lines[n + more : n + step * len(taken) : step]):
                if line and not line.startswith(WITHOUT_DATA):
                    taken = taken[:at]
                    break
        if len(taken) < LEAST_TEXTS:
            return None
        found = _texts_of(shape, taken)
        if found is None:
            self._most = max(LEAST_TEXTS, len(taken) // 2)
            return self.texts(lines, n) if len(taken) > LEAST_TEXTS else None
        self._most = min(MOST_TEXTS, 2 * self._most)
        self._failed = 0
        return Texts(shape, found[0], step, taken, found[1])

    def same(self, line: bytes) -> "Same | None":
        """Return a line as an event of the last shape, or None if it has another shape."""
        shape = self._shape
        found = shape.same(line) if shape is not None else None
        if shape is not None and found is None:
            renewed = shape.renewed(line)
            found = renewed.same(line) if renewed is not None else None
            shape = self._shape = renewed if found is not None else shape
        if found is not None:
            self._failed = 0
            return found
        if self._failed < FAILURES and line[-1:] == b"}" and line.startswith(BEGINS):
            before, self._before = self._before, line
            made = self._shape_in(line) if FINDS else None
            made = made or shape_of(before, line)
            self._failed += 1
            self._shape = made or shape
        return None

    def _shape_in(self, line: bytes) -> "Shape | None":
        """Return the shape of a line with one text; None for other lines."""
        cut = cut_line(line)
        if cut is None:
            return None
        key = tuple(cut[0])
        if key not in self._made:
            self._made[key] = shape_of_parts(*cut)
        return self._made[key]


def _step(lines: list[bytes], n: int) -> int:
    """Return how many lines an event is from the next one."""
    for step in range(1, MOST_APART):
        if n + step < len(lines) and lines[n + step][:1] in (b"d", b"{"):
            return step
    return 1


def _pieces(line: bytes) -> Iterator[tuple[int, int, bool]]:
    """Yield (begin, end, whether it is a key) of each string, bracket and number in a line of JSON.

    >>> line = b'{"a\\\\"" : [-1.5, "b"]}'
    >>> [(line[begin:end], key) for begin, end, key in _pieces(line) if end > begin + 1]
    [(b'"a\\\\""', True), (b'-1.5', False), (b'"b"', False)]
    """
    at, size = 0, len(line)
    while at < size:
        byte, begin = line[at], at
        at += 1
        if byte in b"[]{}":
            yield begin, at, False
        elif byte == QUOTE:
            at = line.find(b'"', at) + 1
            while at and _escapes_before(line, at - 1) % 2:
                at = line.find(b'"', at) + 1
            if not at:
                return
            after = at
            while after < size and line[after] == SPACE:
                after += 1
            yield begin, at, line[after : after + 1] == b":"
        elif byte in b"-0123456789" and line[begin - 1] in b"[:, ":
            while at < size and line[at] in b"0123456789.":
                at += 1
            if at < size and line[at] in b"],} ":
                yield begin, at, False


def _escapes_before(line: bytes, at: int) -> int:
    """Return how many backslashes are before a position."""
    begin = at
    while begin > 0 and line[begin - 1] == BACKSLASH:
        begin -= 1
    return at - begin


def cut_line(line: bytes) -> "tuple[list[bytes], list[bytes], int] | None":
    """Return what is around the values of a line that no reader looks at and around its text, the
    patterns of these values, and the place of the text; None if no string is its only text.
    """
    if len(line) > MOST_LINE:
        return None
    keys: list[bytes] = []
    key = b""
    values: list[tuple[int, int, bytes]] = []
    texts: list[tuple[int, int]] = []
    for begin, end, is_key in _pieces(line):
        part = line[begin:end]
        if part in (b"{", b"["):
            keys.append(key)
        elif part in (b"}", b"]"):
            key = keys.pop() if keys else b""
        elif is_key:
            key = part[1:-1]
        elif part[:1] == b'"' and is_text(key):
            texts.append((begin + 1, end - 1))
        elif part[:1] == b'"' and not is_read(key, len(keys) == 1):
            values.append((begin + 1, end - 1, ANY_STRING))
        elif part[:1] != b'"' and key in NUMBERS and len(keys) == 1:
            values.append((begin, end, COUNT))
        elif part[:1] != b'"' and not is_read(key, len(keys) == 1):
            values.append((begin, end, ANY_NUMBER))
    texts = [one for one in texts if one[0] < one[1]] or texts
    if len(texts) != 1 or len(values) > MOST_VALUES:
        return None
    values.append((texts[0][0], texts[0][1], TEXT))
    values.sort()
    ends = [0] + [end for _, end, _ in values]
    begins = [begin for begin, _, _ in values] + [len(line)]
    parts = [line[end:begin] for end, begin in zip(ends, begins)]
    kinds = [kind for _, _, kind in values]
    return parts, kinds, kinds.index(TEXT)


def shape_of_parts(parts: list[bytes], kinds: list[bytes], text: int) -> "Shape | None":
    """Return the shape of lines with these parts in common, and values of these kinds between."""
    if kinds.count(COUNT) > 1 or b"\xef\xbf\xbd" in b"".join(parts):
        return None
    filled = [MARKER.encode() if kind == TEXT else b"1" for kind in kinds]
    line = parts[0] + b"".join([filled[n] + parts[n + 1] for n in range(len(filled))])
    try:
        value = parse_json(_json_in(line), 0)
    except Exception:  # not JSON, or not UTF-8
        return None
    shape = Shape(parts[0], parts[-1], value)
    shape.plain = not _is_ascii(b"".join(parts))
    shape.parts, shape.kinds = parts, kinds
    if len(kinds) > 1 and FINDS:
        source = re.escape(parts[0])
        for n, kind in enumerate(kinds):
            source += kind + re.escape(parts[n + 1])
        shape.pattern = re.compile(b"^" + source + b"$", re.MULTILINE)
        if COUNT in kinds:
            shape.number = 1 if kinds.index(COUNT) > text else 0
    return shape


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
    if after[1:].lstrip()[:1] == b":" or before[:-1].rstrip()[:-1].rstrip().endswith(OF_TIMES):
        return None
    try:
        value = parse_json(_json_in(before + MARKER.encode() + after), 0)
    except Exception:  # not JSON, or not UTF-8; CPython and MicroPython raise different errors
        return None
    shape = Shape(before, after, value)
    return shape if shape.same(one) is not None and shape.same(other) is not None else None


def _string_of(text: bytes) -> Any:
    """Return the string between two quotes; None if it ends elsewhere, or must be parsed with the
    rest of its line.
    """
    if b"\\u" in text or (text and min(text) < 32):
        return None
    if b'"' in text and b'"' in text.replace(b"\\\\", b"").replace(b'\\"', b""):
        return None
    if not is_utf8(text):
        return None
    try:
        said = text.decode()
        return parse_json(f'"{said}"', 0) if "\\" in said else said
    except CaptureError:  # the string ends elsewhere
        return None


def _texts_of(shape: Shape, lines: list[bytes]) -> "tuple[list[str], list[int] | None] | None":
    """Return the texts and the sequence numbers of lines that begin and end as a shape; None if a
    text is empty, or must be read by itself: with a U+FFFD, half a character, or what is no JSON
    string.
    """
    joined = b"\n".join(lines)
    numbers = None
    if shape.pattern is not None:
        parts = shape.pattern.findall(joined)
        if shape.number >= 0:
            numbers = [int(one[shape.number]) for one in parts]
            parts = [one[1 - shape.number] for one in parts]
    else:
        seam = shape.after + b"\n" + shape.before
        parts = joined[len(shape.before) : len(joined) - len(shape.after)].split(seam)
    inside = b"\n".join(parts)
    # Without escapes, what is left of a string has no quote, and no backslash at its end.
    bare = inside.replace(b"\\\\", b"").replace(b'\\"', b"") + b"\n"
    if len(parts) != len(lines) or b'"' in bare or b"\\\n" in bare:
        return None
    if any(part[:1] not in ESCAPES for part in bare.split(b"\\")[1:]):
        return None
    if b"\xef\xbf\xbd" in inside or b"\xf4\x8f" in inside:
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
    return None if "" in texts or len(texts) != len(parts) else (texts, numbers)


def created_in(line: bytes) -> "int | None":
    """Return the number at `created` in a line of JSON; None if it has none.

    >>> created_in(b'{"created": 1777913291}'), created_in(b'{"a":"\\\\"created\\\\":1"}')
    (1777913291, None)
    """
    rest = line.partition(CREATED)[2].lstrip()
    digits = rest[: len(rest) - len(rest.lstrip(DIGITS))]
    return int(digits) if digits else None


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
