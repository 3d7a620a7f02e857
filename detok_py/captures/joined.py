"""An event whose JSON goes on in the next lines: a console or a log has broken it.

In: lines without escape sequences. Out: the event in one line, and where it ends.
"""

import json

from .logged import begin_of_event, is_of_log
from .parse import mark_halves

MAX_WRAPPED = 400  # the most lines into which one event was broken
MOST_LOOKED = 32  # times the size of the lines that are looked at in vain
LEAST_LOOKED = 1 << 16
MOST_OF_WORD = 8  # letters at the end that may be a part of a word, a number or an escape


class Ahead:
    """Looks for the rest of events in lines. For lines that open many which are never whole, it
    gives up: the time grows as the size does.
    """

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self._left: int = MOST_LOOKED * sum([len(line) for line in lines]) + LEAST_LOOKED

    def joined(self, event: bytes, number: int) -> tuple[bytes, int, list[int]]:
        """Return an event that goes on in line `number` (from 0) with its rest, the number of the
        line after it, and the numbers (from 1) of a log's lines between; b"" if it is never whole.
        """
        lines, used, joined = self._lines, number, event
        between: list[int] = []  # lines of a log between the pieces that were received
        looked = added = 0
        while used < len(lines) and used - number < MAX_WRAPPED and looked < self._left:
            if not lines[used].strip() or _begins_whole(lines[used]):
                break
            used += 1
            looked += len(lines[used - 1])
            if is_of_log(lines[used - 1]):
                between.append(used)
                continue
            joined = without_meter(joined) + lines[used - 1]
            added += 1
            if joined[-1:] == b"}":
                looked += len(joined)
                if is_whole(joined, b"?"):
                    return joined, used, between
            if added & (added - 1) == 0:  # 1, 2, 4, …
                looked += len(joined)
                if not _may_go_on(joined):
                    break
        self._left -= looked
        return b"", number, []


def without_meter(line: bytes) -> bytes:
    """Return a line without what `curl -v` writes after a piece: { [512 bytes data].

    >>> without_meter(b'data: {"a":"b{ [512 bytes data]')
    b'data: {"a":"b'
    """
    at = line.rfind(b"{ [")
    return line[:at] if at > 0 and line.rstrip().endswith(b" bytes data]") else line


def _begins_whole(line: bytes) -> bool:
    """Return whether an event begins in a line that is no piece of another one's JSON."""
    at = begin_of_event(line)
    return at >= 0 and (line[at : at + 1] != b"{" or is_whole(line[at:], b"?"))


def opens(event: bytes) -> bool:
    """Return whether an object begins in a line of an event."""
    value = event[5:].strip() if event.startswith(b"data:") else event
    return value[:1] == b"{"


def is_whole(event: bytes, after: bytes) -> bool:
    """Return whether a line is all of an event. `after` is the next line."""
    value = event[5:].strip() if event.startswith(b"data:") else event.strip()
    if value == b"[DONE]":
        return True
    if value[:1] != b"{" or value[-1:] != b"}":
        return False
    follows = not after.strip() or after.startswith((b"data: {", b"data:{", b"data: [", b"{"))
    n = value.count
    if follows and n(b"{") == n(b"}") and n(b"[") == n(b"]"):
        return True
    try:
        json.loads(mark_halves(_text_of(value)))
    except (ValueError, RecursionError):
        return False
    return True


def _may_go_on(event: bytes) -> bool:
    """Return whether more lines may make JSON whole; also if this Python does not tell.

    >>> _may_go_on(b'{"a": [tru'), _may_go_on(b'{"a": "b: {'), _may_go_on(b"{'a': 1, 'b': 2")
    (True, True, False)
    """
    value = event[5:].strip() if event.startswith(b"data:") else event
    text = _text_of(value)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        at = getattr(error, "pos", len(text))
        return len(text) - at <= MOST_OF_WORD or "nterminated" in str(error)
    return True


def _text_of(value: bytes) -> str:
    """Return bytes as text, with a "?" for each beyond ASCII if they are not UTF-8."""
    try:
        return value.decode()
    except UnicodeError:
        return "".join([chr(byte) if byte < 128 else "?" for byte in value])
