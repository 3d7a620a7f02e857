"""The pieces of a body that a program wrote into its log: as lines of JSON, as pino and bunyan do,
or behind a label, as consoles and loggers do.

In: the lines of a file. Out: the pieces, which may end inside an event, and when each line was
written. Held: nothing.
"""

from typing import Any

from .joined import is_whole
from .logged import label_of
from .parse import bytes_of_line, chars_of, object_at, value_of_line
from .servers import LOST
from .times import seconds_in, time_of_line
from .wrapped import without_escapes

KEYS = ("chunk", "data", "msg")
WORDS = ("msg", "message", "event")  # what the line is about
REQUESTS = ("reqId", "req_id", "requestId", "request_id")
TIMES = ("time", "timestamp", "ts", "t")
STARTS = (b"data:", b"event:", b"id:", b": ", b"\n", b"\r\n")
OPENS = b'{"'  # what a line of JSON begins with
ENDS = (b" ", b"\t", b":", b">", b"]", b"|", b"=")  # of labels
LEVELS = (
    "TRACE", "TRC", "VERBOSE", "FINEST", "FINER", "FINE", "SILLY", "DEBUG", "DBG", "INFO", "INF",
    "NOTICE", "WARN", "WRN", "WARNING", "ERROR", "ERR", "SEVERE", "CRITICAL", "CRIT", "FATAL",
    "FTL", "ALERT", "EMERG", "PANIC", "PNC",
)  # fmt: skip
UNITS = ("ns", "us", "\xc2\xb5s", "ms", "s", "m", "h", "B", "kB", "KB", "KiB", "MB", "MiB")
HALVES = ("AM", "PM")  # of a day
CONTINUES = bytes(range(128, 192))  # bytes of a character behind its first
MOST_LOOKED = 1 << 25  # bytes of events in pieces that may be whole, and are not
SIGNS = (b'"data:', b'"event:', b'"Buffer"')


def pieces_of_log(
    lines: list[bytes],
) -> "tuple[list[tuple[bytes, int]], list[float | None] | None] | None":
    """Return (pieces, each with the number of its line; times by number) of a log; None for other
    files. Of several requests, or several kinds of lines with pieces, the first is read.

    >>> import json
    >>> said = ["data: {", "}\\n\\n"]
    >>> pieces_of_log([json.dumps({"level": 20, "chunk": one}).encode() for one in said])
    ([(b'data: {', 1), (b'}\\n\\n', 2)], None)
    """
    first = next((line for line in lines if line.strip()), b"")
    if first[:1] != b"{" or not any(any(sign in line for sign in SIGNS) for line in lines):
        return None
    values = [_value_in(line) for line in lines]
    for key in KEYS:
        found = _pieces_at(key, values)
        if found:
            stamps = [time_of_line(value, TIMES) for value in values]
            return found, stamps if any(stamps) else None
    return None


def pieces_of_console(
    lines: list[bytes],
) -> "tuple[list[tuple[bytes, int]], list[float | None] | None] | None":
    """Return what `pieces_of_log` does of a log with a label before each piece, if an event goes on
    in the next piece, or if pieces are quoted as JSON; None for other files.

    >>> said = [b'12:00:01 chunk data: {"a":', b"12:00:02 chunk 1}", b"", b""]
    >>> pieces_of_console(said)[0]
    [(b'data: {"a":', 1), (b'1}', 2), (b'\\n', 3), (b'\\n', 4)]
    """
    mark = b"data:" if any(b"data:" in line for line in lines) else OPENS
    label, is_quoted = _label_in(lines, mark)
    if mark == OPENS and "\t" in label:
        return None  # a row of a table, with columns behind the event
    ends = (line.rstrip()[-1:] for line in lines if mark in line)
    if not label or not (is_quoted or any(end not in (b"}", b"]") for end in ends)):
        return None  # at once: long logs have a whole event in each line
    sizes = [_size_of(label, line) for line in lines]
    if is_quoted:
        _add_other_labels(sizes, lines, b'"' + mark)
    found: list[tuple[bytes, int]] = []
    stamps: list[float | None] = []
    stamp: float | None = None
    tail = _Tail()
    goes_on = is_joined = False  # an event so far; the last one
    for number, line in enumerate(lines, 1):
        size = sizes[number - 1]
        begins = size > 0
        piece = line[size:] if begins else b"\n" + line
        stamp = seconds_in(chars_of(line[:size])) if begins else stamp
        stamps.append(stamp)
        if is_quoted:
            piece = _unquoted(piece) if begins else b""
        is_event = begins and piece.startswith((OPENS,) if mark == OPENS else STARTS)
        if is_event and tail.pieces:
            piece = b"\n\n" + piece  # the log has left out the ends of pieces
        if begins and not is_quoted:
            if is_event and is_joined and tail.is_open():
                return None  # lines were cut, and these are the log's own words
            if not is_event and not tail.is_open():
                continue  # the log's own words
            is_joined = not is_event
            goes_on = goes_on or is_joined
        if piece:
            found.append((piece, number))
            tail.add(piece)
            if tail.looked > MOST_LOOKED:
                return None
    if len(found) < 2 or (is_joined and tail.is_open()) or not (goes_on or is_quoted):
        return None
    return found, stamps if None not in stamps else None


class _Tail:
    """The pieces since the last end of a line. An event of many pieces is put together only if it
    may be whole: else the time would grow as the square of its size.
    """

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.looked = 0  # bytes that were looked at in vain
        self._open: bool | None = None  # whether an event is open, once that is known

    def add(self, piece: bytes) -> None:
        at = piece.rfind(b"\n") + 1
        if at:
            self.pieces = []
        if piece[at:]:
            self.pieces.append(piece[at:])
        self._open = None

    def is_open(self) -> bool:
        """Return whether an event has begun, and goes on in the next piece."""
        if self._open is None:
            self._open = self._goes_on()
        return self._open

    def _goes_on(self) -> bool:
        head = b"".join([piece[:5] for piece in self.pieces[:5]])
        if not head.startswith((b"data:", OPENS)):
            return False
        if self.pieces[-1].rstrip()[-1:] not in (b"}", b"]"):
            return True
        line = b"".join(self.pieces)
        if is_whole(line, b"?"):
            return False
        self.looked += len(line)
        return True


def _add_other_labels(sizes: list[int], lines: list[bytes], begin: bytes) -> None:
    """Add the sizes of labels that differ from the known one in their level, their numbers and
    their units only, before pieces that begin with `begin`. A log may write each piece at two
    levels: the second ones are no pieces.

    >>> sizes = [6, 0, 6, 0, 0]
    >>> log = [b'DEBUG "{1"', b'INFO "{1"', b'DEBUG "{2"', b'INFO "{2"', b'ERROR "{3"']
    >>> _add_other_labels(sizes, log, b'"{')
    >>> sizes
    [6, 0, 6, 0, 6]
    """
    first: list[str] | None = None  # the words of the known label
    found: dict[str, list[int]] = {}  # the lines of each level
    for n, line in enumerate(lines):
        size = sizes[n] or max(line.find(begin), 0)
        if not size or not line[size:].startswith(begin):
            continue
        words = first if first is not None and sizes[n] else _words_of(line[:size])
        first = words if first is None else first
        if _without_levels(words) == _without_levels(first):
            sizes[n] = size
            found.setdefault(" ".join(words), []).append(n)
    known = found[" ".join(first or [])]
    pieces = [_quoted_in(lines[n][sizes[n] :]) for n in known]
    # The log may begin or end between a piece and its copy.
    texts = [b"".join(some) for some in (pieces, pieces[1:], pieces[:-1])]
    for its in found.values():
        if its == known or its[0] > known[-1]:
            continue
        text = b"".join([_quoted_in(lines[n][sizes[n] :]) for n in its])
        if text == texts[0] or (len(known) > 2 and text in texts):
            for n in its:
                sizes[n] = 0


def _size_of(label: str, line: bytes) -> int:
    """Return how long a label is that a line begins with, with any digits; 0 if it does not.

    >>> _size_of("[chunk ] ", b"[chunk 10] data: {}")
    11
    """
    at = 0
    for letter in label:
        while 48 <= (line[at] if at < len(line) else 0) <= 57:
            at += 1
        if line[at : at + 1] != bytes([ord(letter)]):
            return 0
        at += 1
    return at


def _label_in(lines: list[bytes], mark: bytes) -> tuple[str, bool]:
    """Return the label before the first piece, which begins with `mark`, without its digits, "" if
    there is none; and whether the pieces are quoted.
    """
    first = next((line for line in lines if mark in line), b"")
    at = first.find(mark)
    is_quoted = at > 0 and first[at - 1 : at] == b'"' and _quoted_in(first[at - 1 :]) != b""
    size = at - is_quoted
    is_label = at > 0 and b"{" not in first[:at] and first[:size].strip() != b""
    is_label = is_label and first[size - 1 : size] in ENDS
    return (label_of(chars_of(first[:size])), is_quoted) if is_label else ("", False)


def _words_of(head: bytes) -> list[str]:
    """Return the words and the arrows of a label, without numbers, ids and units, which differ from
    line to line.

    >>> _words_of(b"12:00:01 INFO chunk=4f0a dur=2ms size=3 kB <- ")
    ['INFO', 'chunk', 'dur', 'size', '<']
    """
    plain = without_escapes(head).replace("←".encode(), b"<").replace("→".encode(), b">")
    # Spinners and icons, which differ from line to line too: U+2000 to U+2FFF, and emoji.
    first, *others = plain.replace(b"\xf0", b"\xe2").split(b"\xe2")
    plain = first + b"".join([b" " + part.lstrip(CONTINUES) for part in others])
    text = chars_of(plain).replace("<", " < ").replace(">", " > ")
    kept = [c if c.isalpha() or c in "0123456789<>" or c > "\x7f" else " " for c in text]
    words = "".join(kept).split()
    return [word for word in words if label_of(word) == word and word not in UNITS]


def _without_levels(words: list[str]) -> list[str]:
    return [word for word in words if word.upper() not in LEVELS + HALVES]


def _unquoted(quoted: bytes) -> bytes:
    """Return the text of a string of JSON; b"" for others."""
    value = value_of_line(_quoted_in(quoted))
    return bytes_of_line(value) or b"" if isinstance(value, str) else b""


def _quoted_in(line: bytes) -> bytes:
    """Return the string of JSON that a line begins with, alone or before other fields of logfmt;
    b"" for others.

    >>> _quoted_in(b'"a \\\\"b\\\\"" c=d')
    b'"a \\\\"b\\\\""'
    """
    bare = line.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    end = bare.find(b'"', 1)
    rest = line[end + 1 :].strip()
    return line[: end + 1] if end > 0 and (not rest or b"=" in rest.split()[0]) else b""


def broken_borders(pieces: list[tuple[bytes, int]]) -> tuple[int, bool]:
    """Return in how many places a character is broken where a piece ends and the next one begins,
    and whether no � are beside each other elsewhere.

    >>> broken_borders([("a\ufffd".encode(), 1), ("\ufffd\ufffdb".encode(), 2)])
    (1, True)
    """
    ends = [text[-3:] == LOST for text, _ in pieces]
    both = sum([ends[n - 1] and pieces[n][0][:3] == LOST for n in range(1, len(pieces))])
    return both, not any(LOST + LOST in _without_ends(text) for text, _ in pieces)


def _without_ends(text: bytes) -> bytes:
    while text[:3] == LOST:
        text = text[3:]
    while text[-3:] == LOST:
        text = text[:-3]
    return text


def _pieces_at(key: str, values: list[Any]) -> list[tuple[bytes, int]]:
    """Return the pieces at a key, each with the number of its line; [] if there are none."""
    kind = None
    open_ = False
    found: list[tuple[bytes, int]] = []
    for number, value in enumerate(values, 1):
        text = _text_in(value.get(key))
        begins = text.startswith(STARTS)
        if kind is None and text.startswith((b"data:", b"event:")):
            kind = _kind_of(key, value)
        if not text or _kind_of(key, value) != kind or (key == "msg" and not (begins or open_)):
            continue
        open_ = text[-1:] != b"\n"
        found.append((text, number))
    if any(b"\n" in text for text, _ in found):
        return found
    # Lines without their ends. Those at `msg` are read as those of other logs are (wrapped.py).
    return [] if key == "msg" else [(text + b"\n\n", number) for text, number in found]


def _kind_of(key: str, value: Any) -> Any:
    """Return what lines with pieces of one body have in common."""
    words = [value[word] for word in WORDS if word != key and isinstance(value.get(word), str)]
    about = label_of(words[0]) if words else ""
    return [about, value.get("level")] + [value.get(name) for name in REQUESTS]


def _value_in(line: bytes) -> Any:
    """Return the object in a line of a log; {} if there is none."""
    value = object_at(value_of_line(line))
    return value if any(name in value for name in ("level",) + TIMES) else {}


def _text_in(said: Any) -> bytes:
    """Return a piece as bytes: JSON has a string, or the numbers of Node's Buffer."""
    given = object_at(said)
    of_buffer = given.get("type") == "Buffer" and isinstance(given.get("data"), list)
    if of_buffer or isinstance(said, str):
        return bytes_of_line(given["data"] if of_buffer else said) or b""
    return b""
