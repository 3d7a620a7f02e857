"""The events in a body, in the output of `curl -N`, or in a terminal's log.

In: bytes. Out: events with the numbers of their lines, and the lines that could not be read.
protocol/sse.py reads event streams; this module finds their lines among others:

- a terminal's colours and cursor movements, and a log's prefixes, are removed;
- lines of `curl -i`, `-v` and `--raw`, prompts and progress are left out;
- an event that a terminal has broken into several lines is joined again;
- events need no empty line between them if each is one line of JSON.
"""

from typing import Any, NamedTuple

from ..errors import CaptureError
from ..protocol.sse import EventReader, LineReader
from .alike import Shapes, Texts
from .dumps import is_hex
from .fold import Folded
from .joined import Ahead, is_whole, opens, without_meter
from .kinds import kind_of
from .logged import MORE, begin_of_event, event_in, is_request, uncut
from .lost import NULS, width_of_cut, without_nuls
from .named import FAILED, name_of, names_that_matter, value_named
from .order import by_ids, plural
from .parse import chars_of, is_utf8, parse_json
from .printed import begins_printed, by_go
from .reprs import lines_of_literal
from .times import seconds_in
from .wrapped import row_of_devtools, without_escapes

# value: the event's value, a `Same` or, of many, `Texts` (alike.py) · raw: whether its lines had
# bytes that are not UTF-8, or CESU if that is what they are · stamp: when it was written, in
# seconds since some moment, None if its line does not say · plain: whether its JSON has characters
# beyond ASCII that are not escapes · escaped: whether all U+FFFD in it are escapes
LoggedEvent = NamedTuple(
    "LoggedEvent",
    [
        ("value", Any),
        ("line", int),
        ("raw", "bool | str"),
        ("stamp", "float | None"),
        ("plain", bool),
        ("escaped", bool),
    ],
)
Problem = NamedTuple("Problem", [("line", int), ("reason", str)])
# An event whose lines were joined: its first line, JOINED or WRAPPED, and how many more it has.
Joined = NamedTuple("Joined", [("line", int), ("reason", str), ("more", int)])

NOT_TEXT = (False, None, False, False)  # of an event: raw, stamp, plain, escaped
MAX_PROBLEMS = 50
CESU = "CESU-8"
DAMAGED = "this event's"
INSIDE = "breaks off inside a character"
BREAKS_OFF = "breaks off or is damaged"
NO_EVENT = "no event: "
PAGE = NO_EVENT + "an HTML page"
CURL = NO_EVENT + "curl: ("
JOINED = "joined with more lines"
WRAPPED = "joined, as a console broke it"
MARK = b"\xef\xbb\xbf"
MIXED = "Another answer"
ENCODED = (
    "Its events are JSON in strings of JSON: the server, or something after it, encoded them "
    "twice, and clients fail at them. Here they are decoded twice."
)
MOST_MIXED = 8  # answers
TOOL_ID = b'"id":"chatcmpl-tool-'  # of a call in vLLM
BY_IDS = "as its id says, the event is misplaced: "
AGAIN = BY_IDS + "twice"
APART = (MIXED, BY_IDS)  # then each event is read by itself
DONE = "[DONE], which ends OpenAI's streams: the last one's line"
MARKED = "A byte order mark that does not begin the file stands in line"
FIELDS = (b"event:", b"id:", b"retry:", b":")
LIMITED = ("]: Suppressed ", "lost due to rate-limiting", "imuxsock lost ")
PAGER = "A pager such as less -S wrote “>” in place of the end of "
MAY_GO_ON = "a pager cut this event, whose text may go on: "


def read_log(
    data: bytes,
    stamps: "list[float | None] | None" = None,
    together: bool = False,
    folded: "Folded | None" = None,
) -> tuple[list[Any], list[Any]]:
    """Return (events, problems). `stamps` are the times of the lines, if the lines have none
    themselves. With `together`, the value of an event can be `Texts`: of many. `folded` is what was
    taken out of the lines.

    >>> events, problems = read_log(
    ...     b'$ curl -N x\\n\\x1b[32m data: {"a":1}\\x1b[0m\\ndata: {"b":\\n'
    ... )
    >>> [(event.value, event.line) for event in events], [problem.line for problem in problems]
    ([({'a': 1}, 2)], [1, 3])
    """
    shapes = Shapes()
    events: list[Any] = []
    problems: list[Any] = []
    logged = False
    runs = folded.runs if folded is not None else []
    if folded is not None:
        folded.used = True
    lines = _lines_of(data, folded, problems)
    named = names_that_matter(lines) if b"event:" in data else set()
    together = together and not (named or any(one.reason.startswith(APART) for one in problems))
    begin = n = 0  # of the lines that are read one by one; of the next line
    run = out = 0  # the next run of lines that were taken out; how many lines there were
    while n < len(lines) or (run < len(runs) and runs[run][0] == n):
        is_run = run < len(runs) and runs[run][0] == n
        texts = runs[run][1] if is_run else None
        if together and not is_run and not stamps:
            texts = shapes.texts(lines, n)
        if texts is not None:
            if begin < n:
                logged |= _read_lines(lines[begin:n], begin + out, stamps, events, problems)
            events.append(_event_of_texts(texts, n + out + 1))
            size = len(texts.texts) * texts.step
            n, out, run = (n, out + size, run + 1) if is_run else (n + size, out, run)
            begin = n
            continue
        line = lines[n]
        n += 1
        same = shapes.same(line) if n - 2 not in named else None
        if same is None:
            # Between two similar events, a line without data has no meaning.
            if begin == n - 1 and (not line or line.startswith((b"event:", b"id:"))):
                begin += n - 1 not in named
            continue
        if begin < n - 1:
            logged |= _read_lines(lines[begin : n - 1], begin + out, stamps, events, problems)
        begin = n
        plain = same.shape.plain or len(same.text.encode()) > len(same.text)
        stamp = stamps[n - 1] if stamps else None
        escaped = "\ufffd" not in same.text
        events.append(LoggedEvent(same, n + out, False, stamp, plain, escaped))
    logged |= _read_lines(lines[begin:], begin + out, stamps, events, problems)
    problems.sort(key=lambda problem: problem.line)
    problems = without_lines_of_log(problems) if logged else problems
    return events, problems if folded is not None else _named_cuts(lines, problems)


def _lines_of(data: bytes, folded: "Folded | None", problems: list[Any]) -> list[bytes]:
    """Return the lines of one stream; add what is wrong with them."""
    splitter = LineReader()
    lines = _before_html(splitter.feed(data) + splitter.flush(), folded, problems)
    n = len(lines) if b"[DONE]" in data else 0
    # Before a brace it may be the text of an event.
    while n and b"[DONE]" not in lines[n - 1].split(b"}")[-1]:
        n -= 1
    if n:
        problems.append(Problem(_in_file(n, folded), DONE))
    if b"\0\0" in data:
        lines = _without_nuls(lines, folded, problems)
    if MARK in data:
        lines = _without_marks(lines, folded, problems)
    if b">\n" in data or b">\r" in data:
        lines = _without_cuts(lines, folded, problems)
    if folded is not None:
        problems += [Problem(line, AGAIN) for line in folded.again]
    else:
        problems += [Problem(line, BY_IDS + kind) for line, kind in by_ids(lines)]
        lines = _without_others(lines, problems)
    return lines


def _in_file(n: int, folded: "Folded | None") -> int:
    """Return the number in the file of the line `n` of those that are left."""
    return n + (folded.lines_before(n - 1) if folded is not None else 0)


def _without_nuls(lines: list[bytes], folded: "Folded | None", problems: list[Any]) -> list[bytes]:
    """Return lines without NUL bytes; add where they were."""
    out, found = without_nuls(lines)
    for n, count, before in found:
        line = _in_file(n, folded)
        problems.append(Problem(line, f"{count}{NULS}"))
        if before:
            problems.append(Problem(line, f"{DAMAGED} JSON {BREAKS_OFF}: " + shown(before[-60:])))
    return out


def _without_cuts(lines: list[bytes], folded: "Folded | None", problems: list[Any]) -> list[bytes]:
    """Return lines in which events that a pager has cut are closed; add that it did."""
    out, cut, column = uncut(lines)
    more = []
    for n, state in cut:
        line = _in_file(n, folded)
        if state == MORE:
            more.append(line)
        if state:
            why = MAY_GO_ON if state == MORE else f"{DAMAGED} JSON {BREAKS_OFF}: "
            problems.append(Problem(line, why + shown(lines[n - 1][-60:])))
    if cut:
        said = f"{PAGER}{plural(len(cut), 'event')}, at column {column}: what was there, such as the model, is missing."
        if more:
            said += f" It may have been text in {len(more)} of them, the first in line {more[0]}."
        problems.append(Problem(0, said))
    return out


def read_pieces(
    pieces: "list[tuple[bytes, int]]", stamps: "list[float | None] | None" = None
) -> tuple[list[Any], list[Any]]:
    """Do as `read_log`, with a body whose pieces stand in other lines of a file. The events and the
    problems have the lines of the file, and `stamps` are when these were written.

    >>> events, _ = read_pieces([(b'{"a":1}\\n{"a"', 3), (b":2}", 4), (b"\\n", 4), (b'{"a":3}', 5)])
    >>> [event.line for event in events]
    [3, 3, 5]
    """
    begins: list[int] = []
    ends: list[int] = []
    ended = 1
    for piece, line in pieces:
        count = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n")
        ends += [line] * count
        size = count + ended
        ended = int(piece[-1:] == b"\n")
        begins += [line] * (size - ended)
    ends += ends[-1:] + [line for _, line in pieces[-1:]]
    when = [stamps[line - 1] for line in ends] if stamps else None
    events, problems = read_log(b"".join([piece for piece, _ in pieces]), when)
    events = [LoggedEvent(one[0], begins[one.line - 1], *one[2:]) for one in events]
    for n, one in enumerate(problems):
        line = begins[one.line - 1] if one.line else 0
        more = [begins[one.line - 1 + one.more] - line] if isinstance(one, Joined) else []
        problems[n] = type(one)(line, one.reason, *more)
    return events, problems


def _named_cuts(lines: list[bytes], problems: list[Any]) -> list[Any]:
    """Return the problems, with the width at which a log cut lines. Joined lines are called wrapped
    if a console broke them all: two or more lines go on in the next, and none is wider than these.
    """
    cut = [one.line for one in problems if one.reason.startswith(f"{DAMAGED} JSON {BREAKS_OFF}")]
    said = width_of_cut(lines, cut)
    problems += [Problem(0, said)] if said else []
    joined = [one for one in problems if isinstance(one, Joined)]
    ends = [
        _width(lines[n]) for one in joined for n in range(one.line - 1, one.line - 1 + one.more)
    ]
    # A wide character goes to the next line if it has one column only.
    if len(ends) < 2 or min(ends) < max([_width(line) for line in lines]) - 1:
        return problems
    return [
        Joined(one.line, WRAPPED, one.more) if isinstance(one, Joined) else one for one in problems
    ]


def _width(line: bytes) -> int:
    """Return how many columns of a console a line takes, more or less: most letters that UTF-8
    writes with 3 or 4 bytes are wide.
    """
    shown = without_escapes(line)
    return len([c for c in shown if not 0x80 <= c < 0xC0]) + len([c for c in shown if c >= 0xE3])


def _before_html(lines: list[bytes], folded: "Folded | None", problems: list[Any]) -> list[bytes]:
    """Return the lines before a proxy's page in the middle of a stream."""
    for n, line in enumerate(lines):
        if line[:1] == b"<" and line[:9].lower().startswith((b"<html", b"<!doctype")):
            line_in_file = _in_file(n + 1, folded)
            problems.append(Problem(line_in_file, NO_EVENT + kind_of(b"\n".join(lines[n:]))))
            return lines[:n]
    return lines


def _without_marks(lines: list[bytes], folded: "Folded | None", problems: list[Any]) -> list[bytes]:
    """Return lines without the byte order marks at their beginnings. That of the file is gone; that
    of a body behind its head is no problem.
    """
    out = []
    begun = not _is_of_curl(lines[0])  # whether a mark here is one too many
    for n, line in enumerate(lines, 1):
        marked = line[:3] == MARK
        if marked and begun:
            problems.append(Problem(_in_file(n, folded), MARKED))
        while line[:3] == MARK:
            line = line[3:]
        out.append(line)
        begun = begun or marked or line.startswith((b"data:", b"{"))
    return out


def _without_others(lines: list[bytes], problems: list[Any]) -> list[bytes]:
    """Return the lines without those of other answers, if several are mixed: events of OpenAI's
    form name their answer.
    """
    names: list[bytes] = []
    for line in lines:
        at, end = line.find(b'"id":'), line.find(b'"choices"')
        if 0 <= end < at:  # llama-server's
            at, end = line.rfind(b'"id":"chatcmpl-'), len(line)
            at = -1 if line.startswith(TOOL_ID, at) else at
        parts = line[at + 5 : end].split(b'"') if 0 <= at < end else []
        names.append(parts[1] if len(parts) > 2 else b"")
    order = [name for name in names if name]
    turns = [name for n, name in enumerate(order) if not n or order[n - 1] != name]
    if len(turns) == len(set(turns)) or len(set(turns)) > MOST_MIXED:
        return lines
    others = [n for n, name in enumerate(names) if name not in (b"", order[0])]
    many, first = plural(len(others), "event"), others[0] + 1
    said = f"{MIXED} is mixed into it, in {many} from line {first} on: left out here."
    problems.append(Problem(0, said))
    left_out = set(others)
    return [b":" if n in left_out else line for n, line in enumerate(lines)]


def _event_of_texts(texts: Texts, line: int) -> Any:
    said = "".join(texts.texts)
    plain = texts.shape.plain or len(said.encode()) > len(said)
    return LoggedEvent(texts, line, False, None, plain, True)


def _read_lines(
    lines: list[bytes],
    before: int,
    stamps: "list[float | None] | None",
    events: list[Any],
    problems: list[Any],
) -> bool:
    """Add the events and the problems of lines, the first of which has the number `before` + 1.
    Return whether a log's words are before an event.
    """
    logged = False
    twice = 0
    broken = {n for n, line in enumerate(lines, 1) if not is_utf8(line)}
    found, wrong = _event_lines([without_escapes(line) for line in lines])
    problems += [type(one)(one.line + before, *one[1:]) for one in wrong]
    reader = EventReader()
    body = b"\n".join([line for line, _, _, _ in found]) + b"\n"
    named = b"event:" in body
    for event in reader.feed(body) + reader.flush():
        _, first, last, prefix = found[event.line - 1]
        name = name_of(lines, first - 1) if named else ""
        try:
            value = parse_json(event.data, first + before, halves=True)
            value = value_named(name, value) if named else value
            if value is None and event.data.strip() != "null":
                continue
            logged = logged or prefix != b""
            if prefix and is_request(value):
                continue
            if isinstance(value, str) and value[:1] == "{":
                value = parse_json(value, first + before)
                twice = twice or first + before
        except CaptureError:
            if name in FAILED and event.data[:1] not in "{[":
                events.append(LoggedEvent({"error": event.data.strip()}, first + before, *NOT_TEXT))
                continue
            inside = event.data[-1:] == "\ufffd" and last in broken
            problems.append(Problem(first + before, _why_not(event.data, inside)))
            continue
        last = max(last, first + event.data.count("\n"))
        raw: Any = any(n in broken for n in range(first, last + 1))
        if raw and _is_cesu(b"".join(lines[first - 1 : last])):
            raw = CESU
        stamp = stamps[last + before - 1] if stamps else seconds_in(chars_of(prefix))
        plain = max(event.data) > "\x7f"
        escaped = "\ufffd" not in event.data
        events.append(LoggedEvent(value, first + before, raw, stamp, plain, escaped))
    if twice:
        problems.append(Problem(twice, ENCODED))
    return logged


def has_left_out(problem: Any) -> bool:
    """Return whether a line of journald or rsyslog says that it left out lines."""
    return any(mark in problem.reason for mark in LIMITED)


def without_lines_of_log(problems: list[Any]) -> list[Any]:
    """Return the problems of a log, with one in place of those that are lines of its own."""
    own = [
        one.reason.startswith(NO_EVENT)
        and not one.reason.startswith((PAGE, CURL))
        and not any(mark in one.reason for mark in ('{"', '":', "data:"))
        for one in problems
    ]
    count = sum(own)
    if not count:
        return problems
    says = [n for n, one in enumerate(problems) if own[n] and has_left_out(one)]
    at = says[0] if says else own.index(True)
    many = f"{count} lines are not events, such as this one: "
    said = many if count > 1 else "this line is no event: "
    first = Problem(problems[at].line, said + problems[at].reason[len(NO_EVENT) :])
    out = [one for n, one in enumerate(problems) if not own[n]]
    return out[:at] + [first] + out[at:]


def _is_cesu(data: bytes) -> bool:
    """Return whether what is not UTF-8 is all CESU-8: halves of surrogate pairs, each as 3 bytes.

    >>> _is_cesu(b"\\xed\\xa0\\xbd\\xed\\xba\\x86"), _is_cesu(b"\\xed\\xa0"), _is_cesu(b"\\xc3")
    (True, False, False)
    """
    parts = data.split(b"\xed")
    for n in range(1, len(parts)):
        second = parts[n - 1][:1] if n > 1 else b""
        first_ = parts[n][:1]
        if b"\xa0" <= first_ < b"\xb0":
            following = parts[n + 1] if n + 1 < len(parts) else b""
            if len(parts[n]) != 2 or not b"\xb0" <= following[:1] < b"\xc0":
                return False
        elif first_ >= b"\xb0" and not b"\xa0" <= second < b"\xb0":
            return False
    rest = parts[0] + b"".join(
        [part[2:] if part[:1] >= b"\xa0" else b"\xed" + part for part in parts[1:]]
    )
    return len(parts) > 1 and is_utf8(rest)


def _event_lines(lines: list[bytes]) -> tuple[list[Any], list[Any]]:
    """Return the lines of the events, each with the numbers of its first and last line in the file
    and what is before it on its line, and the lines that are not events.
    """
    found: list[Any] = []
    problems: list[Any] = []
    ahead = Ahead(lines)
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        copied = row_of_devtools(line)
        if copied:
            found += [(copied[0], number, number, copied[1]), (b"", number, number, b"")]
            continue
        at = begin_of_event(line, lines[number] if number < len(lines) else b"")
        if at < 0:
            known = not line.strip() or line[:1] == b":" or line.startswith(FIELDS)
            known = known or line.split()[1:] == [b"|"]  # Docker Compose's empty line
            found.append((line if known else b":", number, number, b""))
            if not known and not _is_of_curl(line):
                begin = max(line.find(b'{"'), 0)
                why = by_go(line.decode()) if b":[{" in line and is_utf8(line) else ""
                problems.append(Problem(number, why or NO_EVENT + shown(line[begin:])))
            continue
        printed = lines_of_literal(line, at)
        if printed:
            found += [(one, number, number, line[:at]) for one in printed]
            continue
        event, first = event_in(line, at), number
        whole = is_whole(event, lines[number] if number < len(lines) else b"")
        if opens(event) and not whole:
            joined, used, between = ahead.joined(event, number)
            if joined:
                event, number, whole = joined, used, True
                problems += [Problem(n, NO_EVENT + shown(lines[n - 1])) for n in between]
                own = between or without_meter(line) != line  # a log's, or curl's
                if line[at:].startswith(b"data:") and not own:
                    problems.append(Joined(first, JOINED, used - first))
        in_log = line[:at].strip() not in (b"", b"data:") and opens(event)
        if found and (whole or in_log):
            # Logs have no empty lines between events.
            found.append((b"", first, first, b""))
        found.append((event, first, number, line[:at]))
        if whole:
            found.append((b"", first, first, b""))
    return found, problems


def _is_of_curl(line: bytes) -> bool:
    """Return whether a line is curl's own: a header, `-v`, a progress meter, a chunk's size."""
    if line[:2] in (b"< ", b"> ", b"* ", b"} ", b"{ ") or line.startswith(b"HTTP/"):
        return True
    if line.rstrip() in (b"<", b">", b"|"):
        return True
    name, colon, _ = line.partition(b":")
    if colon and name and all(c == 45 or 48 <= c <= 57 or 65 <= (c & 0xDF) <= 90 for c in name):
        return b"-" in name or name.lower() in (b"date", b"server", b"connection", b"via", b"vary")
    words = line.split()
    if words[:2] == [b"%", b"Total"] or words[:2] == [b"Dload", b"Upload"]:
        return True
    if len(words) >= 11 and words[0].isdigit() and words[2].isdigit():
        return True
    return len(words) == 1 and len(words[0]) <= 8 and is_hex(words[0])


def _why_not(text: str, inside: bool) -> str:
    text = text.strip()
    if text[:1] in ("{", "[") and not begins_printed(text):
        return f"{DAMAGED} JSON {INSIDE if inside else BREAKS_OFF}: " + shown(text[-60:].encode())
    return by_go(text) or "this event is not JSON: " + shown(text.encode())


def shown(line: bytes) -> str:
    """Return the beginning of a line, to quote: of one that is not UTF-8, the ASCII."""
    line = line.strip()
    text = line.decode() if is_utf8(line) else "".join([chr(c) if c < 127 else "·" for c in line])
    text = "".join([c if c >= " " else "·" for c in text])
    return text if len(text) <= 60 else text[:59] + "…"
