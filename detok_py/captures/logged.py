"""Where an event is in a line of a log: behind a time, a level and a label, and before other words.

In: lines. Out: where an event begins, the event alone, and whether a line is the log's own.
"""

from typing import Any

from ..protocol.sse import is_data_part
from .event_shapes import read_event
from .order import fields_of
from .parse import chars_of, value_of_json
from .times import seconds_in

SPACES = (b" ", b"\t", b"|")
LOST, MORE = "lost", "more"
TEXTS = 4
HAVE_TEXTS = ('"delta":{', '"message":{', '"parts":[')
SUMS = ("text", "thinking", "input_json")  # of raw deltas of Anthropic's
MOST_OPEN = 20  # objects and lists
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
    return seconds_in(chars_of(start)) is not None


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


def without_sums(events: list[Any]) -> list[Any]:
    """Return the events without those that anthropic-python's MessageStream makes from raw deltas
    and adds to them, if the deltas are there.

    >>> from .log import LoggedEvent
    >>> values = [{"type": "content_block_delta"}, {"type": "text", "text": "a", "snapshot": "a"}]
    >>> len(without_sums([LoggedEvent(one, 1, False, None, False, False) for one in values]))
    1
    """
    values = [fields_of(event) for event in events]
    if not any(value.get("type") == "content_block_delta" for value in values):
        return events
    pairs = list(zip(events, values))
    return [one for one, value in pairs if value.get("type") not in SUMS or "snapshot" not in value]


def label_of(prefix: str) -> str:
    """Return what a log writes before events of a kind.

    >>> label_of("06:52:39 - DEBUG: utils.py:237 - chunk: ")
    ':: - DEBUG: utils.py: - chunk: '
    """
    return "".join([letter for letter in prefix if letter not in "0123456789"])


def uncut(lines: list[bytes]) -> "tuple[list[bytes], list[tuple[int, str]], int]":
    """Return the lines of a log that was copied from a pager such as `less -S`, with the events
    that it cut as far as they are whole; the number of each of these, with LOST if its text breaks
    off, or MORE if text may follow; and the column in which the pager writes ">".

    >>> cut = [b'data: {"choices":[{"text":"' + text for text in (b'a"}],>', b'a"}],>', b'bcdef>')]
    >>> uncut(cut)[0][1:], uncut(cut)[1:]
    ([b'data: {"choices":[{"text":"a"}]}', b'data: {}'], ([(1, ''), (2, ''), (3, 'lost')], 33))
    """
    out = list(lines)
    cut: list[tuple[int, str]] = []
    if len([1 for line in lines if line[-1:] == b">" and b'{"' in line]) < 2:
        return out, cut, 0
    widths = [_width(line) for line in lines]
    column = max(widths)
    widest = [lines[n][-1:] for n, width in enumerate(widths) if width == column]
    count = widest.count(b">")
    if count < 2 or 2 * count <= len(widest):
        return out, cut, 0
    for n, line in enumerate(lines):
        line = line[:-1] if line[-1:] == b">" and b'{"' in line else b""
        at = line.find(b"{", max(0, begin_of_event(line + b"}")))
        try:
            text = line[at:].decode()
        except UnicodeError:
            continue
        levels = _levels(text) if at >= 0 else []
        if 0 < len(levels) < MOST_OPEN:
            after = b"".join(lines[n + 1 : n + 2])
            if not cut and value_of_json(lines[n][at:] + after) is not None:
                break  # a console broke the line at a bracket
            made, state = _before_cut(text, levels)
            if not state or b"data:" in line[:at] or '"choices"' in text:
                out[n] = line[:at] + made.encode()
                cut.append((n + 1, state))
    return out, cut, column


def _width(line: bytes) -> int:
    """Return how many columns a line takes; 0 if it has letters for which that is not certain."""
    most = max(line) if line else 0
    if most < 128:
        return len(line)
    return len([c for c in line if not 0x80 <= c < 0xC0]) if most < 0xE0 else 0


def _levels(text: str) -> list[list[Any]]:
    """Return what closes each object and list that is open at the end of a JSON text, the outermost
    first, where its last whole item ends, and where it begins.

    >>> _levels('{"a": [1, {"b": "c", "d'), _levels('{"a": "}"')
    ([['}', 1, 1], [']', 8, 7], ['}', 19, 11]], [['}', 9, 1]])
    """
    levels: list[list[Any]] = []
    before = ""
    parts = _masked(text).split('"')
    at = 0
    for n, part in enumerate(parts):
        if n % 2:
            at += len(part) + 2
            is_item = before == ":" or (before in ("[", ",") and levels[-1][0] == "]")
            if is_item and n + 1 < len(parts):
                levels[-1][1] = at
            continue
        for letter in part:
            at += 1
            if letter in "{[":
                levels.append(["}" if letter == "{" else "]", at, at])
            elif letter in "}]":
                levels.pop()
                if not levels:
                    return []
                levels[-1][1] = at
            elif letter == ",":
                levels[-1][1] = at - 1
            before = before if letter == " " else letter
    return levels


def _masked(text: str) -> str:
    return text.replace("\\\\", "  ").replace('\\"', "  ")


def _before_cut(text: str, levels: list[list[Any]]) -> tuple[str, str]:
    """Return the JSON of an event that breaks off, without what is not whole, and "", LOST or
    MORE.
    """
    closers = "".join([closer for closer, _, _ in reversed(levels)])
    made = [text[:end] + closers[len(levels) - n - 1 :] for n, (_, end, _) in enumerate(levels)]
    everything = _said(made[-1])
    masked = _masked(text)
    if masked.count('"') % 2:
        escape = masked.rfind("\\", max(0, len(text) - 5))
        # The string at the end may go on.
        longer = _said((text[:escape] if escape >= 0 else text) + 'x"' + closers)
        if longer and longer[:TEXTS] != everything[:TEXTS]:
            return made[0], LOST
    same = [one for one in made if _said(one) == everything]
    heads = [text[:begin].replace(" ", "") for _, _, begin in levels]
    more = any(head.endswith(HAVE_TEXTS) for head in heads)
    for one in same:
        # An empty text is whole, too.
        if any(_said(one.replace(':""', ':"x"'))[:TEXTS]):
            return one, MORE if more else ""
    return same[0], "" if '"choices":' in made[0] else MORE


def _said(text: str) -> list[Any]:
    """Return what an event says, its TEXTS first; [] if that is not known."""
    said = read_event(value_of_json(text), 0, "")
    if said is None:
        return []
    calls = [(call.name, call.text) for call in said.calls]
    return [said.text, said.reasoning, calls, said.all, said.finish, said.error]
