"""Where an event is in a line of a log: behind a time, a level and a label, and before other words.

In: lines. Out: where an event begins, the event alone, and whether a line is the log's own.
"""

from typing import Any

from ..protocol.sse import is_data_part
from .event_shapes import read_event
from .times import seconds_in

SPACES = (b" ", b"\t", b"|")
NO_LOG = b"$#%<>*[\"'-"  # begin no line of a log, but a time in brackets may


def begin_of_event(line: bytes, after: bytes = b"") -> int:
    """Return where an event begins in a line, after the prefix of a log; -1 if there is none. In
    the line before `after`, an object may begin that goes on over several lines.

    >>> begin_of_event(b'12:00:01 [INFO] sent: {"a":1}, id: 7'), begin_of_event(b"[DONE]")
    (22, 0)
    >>> begin_of_event(b"[12:00:01][INFO] packet: {", b'  "a": 1'), begin_of_event(b"if (a) {")
    (25, -1)
    >>> begin_of_event(b'INFO a user sent {"text": "hi"} to us'), begin_of_event(b"go {", b'"a":')
    (-1, -1)
    """
    if line.startswith(b"data: data:"):
        return 6  # a proxy that makes events of lines
    if line[:3] == b"{ [" and line.endswith(b"data]"):
        return -1  # curl -v: `{ [5 bytes data]`
    if line.rstrip() == b"[DONE]":
        return 0
    if line[:1] == b"{" or is_data_part(line) or line.startswith((b"data:", b"error:")):
        return 0
    for mark in (b"data: {", b"data:{", b"data: [DONE]", b"error: {"):
        at = line.find(mark)
        if at >= 0 and b"{" not in line[:at]:
            return at
    if line[:1] and line[:1] in NO_LOG and not is_of_log(line):
        return -1
    at = len(line.rstrip()) - 1
    opens = line[at - 1 : at + 1] == b" {" and b'"' not in line and after.lstrip()[:1] == b'"'
    if opens and is_of_log(line):
        return at
    at = line.find(b'{"')
    # The text before the object must look like a log's prefix: no JSON, HTTP header or shell
    # command.
    before = line[:at].rstrip()
    if before[-2:] == b'":' or before[-1:] in (b",", b"["):
        return -1  # a piece of JSON
    if at <= 0 or line[at - 1 : at] not in SPACES or b"curl" in line[:at]:
        return -1
    behind = line[at + len(event_in(line, at)) :]
    # A log may write more fields behind it. Other words quote it, if it is not plainly an event.
    whole = behind and (behind[:1] == b"," or b'"choices"' in line)
    return at if whole or line.rstrip()[-1:] == b"}" else -1


def event_in(line: bytes, at: int) -> bytes:
    """Return the event that begins at a place in a line, without what a log writes behind it.

    >>> event_in(b'12:00:01 data: {"a":"}"}, id: 7', 9), event_in(b"x data: [DONE], id: ", 2)
    (b'data: {"a":"}"}', b'data: [DONE]')
    """
    event = line[at:]
    begin = 5 if event[:5] == b"data:" else 0
    value = event[begin:].lstrip()
    if value[:6] == b"[DONE]" and (at or not begin):
        return b"data: [DONE]"
    if not at or value[:1] != b"{" or value.rstrip()[-1:] == b"}":
        return event
    parts = value.replace(b"\\\\", b"  ").replace(b'\\"', b"  ").split(b'"')
    bare = b'"'.join([b" " * len(part) if n % 2 else part for n, part in enumerate(parts)])
    level = 0
    for n, letter in enumerate(bare, 1):
        level += {123: 1, 125: -1}.get(letter, 0)
        if letter == 125 and not level:
            rest = value[n:]
            return event if b"{" in rest else event[: len(event) - len(rest)]
    return event


def is_request(value: Any) -> bool:
    """Return whether an object in a log is a request, which asks for a stream.

    >>> is_request({"model": "m", "stream": True}), is_request({"choices": []})
    (True, False)
    """
    if not isinstance(value, dict) or "choices" in value:
        return False
    return type(value.get("stream")) is bool or ("messages" in value and "model" in value)


def is_of_log(line: bytes) -> bool:
    """Return whether a line begins with a time, as lines of logs do. In JSON, a quote follows."""
    start = line.lstrip(b"[(")[:40]
    if not start[:1].isdigit() or b'"' in start:
        return False
    return seconds_in("".join([chr(c) for c in start])) is not None


def without_echoes(events: list[Any], labels: list[str]) -> list[Any]:
    """Return the events of a log that has each event under two labels or more, as those of the
    first of these; all events of other logs. A label is what is before an event but its digits. An
    echo begins before the first label's last event: behind it, it is another answer. It may lack
    the first or the last piece.
    """
    texts: dict[str, list[str]] = {}
    begins: dict[str, int] = {}
    lasts: dict[str, int] = {}
    for n, (event, label) in enumerate(zip(events, labels)):
        said = read_event(event.value)
        parts = [said.text, said.reasoning] + [call.text for call in said.calls] if said else []
        if any(parts):
            texts.setdefault(label, []).append("".join(parts))
            begins.setdefault(label, n)
            lasts[label] = n
    firsts: dict[str, str] = {}
    echoes = []
    for label in sorted(texts, key=lambda label: begins[label]):  # MicroPython: no order in a dict
        pieces = texts[label]
        first = firsts.setdefault("".join(pieces), label)
        if first != label and begins[label] < lasts[first]:
            echoes.append(label)
        elif len(pieces) > 2:
            # The log may begin or end between an event and its echoes.
            for some in (pieces[1:], pieces[:-1]):
                firsts.setdefault("".join(some), label)
    return [event for event, label in zip(events, labels) if label not in echoes]


def label_of(prefix: str) -> str:
    """Return what a log writes before events of a kind.

    >>> label_of("06:52:39 - DEBUG: utils.py:237 - chunk: ")
    ':: - DEBUG: utils.py: - chunk: '
    """
    return "".join([letter for letter in prefix if letter not in "0123456789"])
