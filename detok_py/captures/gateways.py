"""The pieces of a body that a gateway wrote into its log: lines of JSON, as pino and bunyan write
them.

In: the lines of a file. Out: the pieces, which may end inside an event, and when each line was
written. Held: nothing.
"""

import json
from typing import Any

from .logged import label_of
from .servers import LOST
from .times import seconds_in

KEYS = ("chunk", "data", "msg")
WORDS = ("msg", "message", "event")  # what the line is about
REQUESTS = ("reqId", "req_id", "requestId", "request_id")
TIMES = ("time", "timestamp", "ts")
STARTS = ("data:", "event:", "id:", ": ", "\n", "\r\n")
SIGNS = (b'"data:', b'"event:', b'"Buffer"')


def pieces_of_log(
    lines: list[bytes],
) -> "tuple[list[tuple[bytes, int]], list[float | None] | None] | None":
    """Return (pieces, each with the number of its line; times by number) of a log; None for other
    files. Of several requests, or several kinds of lines with pieces, the first is read.

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
            stamps = [_time_in(value) for value in values]
            return found, stamps if any(stamps) else None
    return None


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
        begins = text.startswith(tuple([start.encode() for start in STARTS]))
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
    try:
        value = json.loads(line.decode())
    except ValueError:
        return {}
    is_log = isinstance(value, dict) and any(name in value for name in ("level",) + TIMES)
    return value if is_log else {}


def _text_in(said: Any) -> bytes:
    """Return a piece as bytes: JSON has a string, or the numbers of Node's Buffer."""
    if (
        isinstance(said, dict)
        and said.get("type") == "Buffer"
        and isinstance(said.get("data"), list)
    ):
        return bytes([n & 255 for n in said["data"] if type(n) is int])
    try:
        return said.encode() if isinstance(said, str) else b""
    except ValueError:
        return b""  # half a surrogate pair


def _time_in(value: Any) -> "float | None":
    time: Any = next((value[name] for name in TIMES if name in value), None)
    if isinstance(time, str):
        return seconds_in(time)
    return time / 1e3 if type(time) in (int, float) and time > 1e11 else None
