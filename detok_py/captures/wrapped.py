"""Unwrap lines of a stream from other programs' formats: journald, Docker, DevTools, cassettes,
terminals.

In: the lines of a file. Out: the lines inside them, and when each was written; or, of a cassette,
the bodies of the responses. Of YAML, only the scalars are read.
"""

from typing import Any

from .parse import MARK, base64_bytes, bytes_of_line, chars_of, value_of_line
from .times import seconds_in, time_of_line

MOST_TRIED = 5
KEYS = ("MESSAGE", "log", "line", "message", "msg")  # also of Loki and CloudWatch
TIMES = ("time", "ts", "timestamp", "t")
# Of YAML between double quotes; other letters are codes.
ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", " ": " ", '"': '"', "/": "/", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}  # fmt: skip
STARTS = (b"data: ", b"data:{", b"event: ", b'{\\"')
EVENT_KEYS = ("data", "payload", "chunk", "body", "event")  # of a program that logs events
EVENT_STARTS = ("data:", "event:", '{"', "[DONE]")


def unwrapped(lines: list[bytes]) -> "tuple[list[bytes], list[Any]] | None":
    """Return (lines, stamps) of a log that has lines of a stream within its own: the objects of
    `journalctl -o json`, of Docker's json-file driver and of others that have an event as a string,
    and lines of the container runtime interface. None for other files. Line numbers stay the same.

    >>> unwrapped([b'{"__REALTIME_TIMESTAMP":"1500000","MESSAGE":"data: {}"}'])
    ([b'data: {}'], [1.5])
    >>> unwrapped([b"2026-11-24T10:00:00Z stdout P data:", b"2026-11-24T10:00:00Z stdout F  {}"])[0]
    [b'', b'data: {}']
    """
    first = next((line for line in lines[:MOST_TRIED] if line.strip()), b"")
    if not (b'"MESSAGE"' in first or (b'"log"' in first and b'"stream"' in first)):
        quoted = any(b'"' + start in first.replace(b'": "', b'":"') for start in STARTS)
        if not (quoted or (first[:1] != b"{" and _line_in(first))):
            return None
    out: list[bytes] = []
    stamps: list[Any] = []
    open_: dict[bool, int] = {}  # Docker cuts lines of more than 16 kB, of each stream for itself
    for number, line in enumerate(lines):
        text, stamp, more = _line_in(line) or (b"", None, False)
        if more or open_:
            words = [] if line[:1] == b"{" else line.split(b" ", 2)
            is_error = words[1:2] == [b"stderr"] or (not words and b'"stream":"stderr"' in line)
            if is_error in open_:
                begin = open_.pop(is_error)
                text, out[begin], stamps[begin] = out[begin] + text, b"", None
            if more:
                open_[is_error] = number
        out.append(text.rstrip(b"\r\n"))
        stamps.append(stamp)
    return (out, stamps) if any(out) else None


def without_escapes(line: bytes) -> bytes:
    """Return a line without the escape sequences of a terminal (ECMA-48: CSI, and OSC up to BEL).

    >>> without_escapes(b"\\x1b[1;32mdata\\x1b[0m: \\x1b]0;title\\x07{}")
    b'data: {}'
    >>> without_escapes("\\x1bé".encode()).decode()
    'é'
    """
    if b"\x1b" not in line:
        return line
    parts = line.split(b"\x1b")
    out = [parts[0]]
    for part in parts[1:]:
        end = 0 if part[:1] > b"\x7f" else 1
        if part[:1] == b"[":
            while end < len(part) and not 0x40 <= part[end] <= 0x7E:
                end += 1
            end += 1
        elif part[:1] == b"]":
            bell = part.find(b"\x07")
            end = bell + 1 if bell >= 0 else 1
        out.append(part[end:])
    return b"".join(out)


def _line_in(line: bytes) -> "tuple[bytes, float | None, bool] | None":
    """Return the line in a line of a log, when it was written, and whether it goes on."""
    if line[:1] != b"{":
        words = line.split(b" ", 3)
        if len(words) < 4 or words[1] not in (b"stdout", b"stderr") or words[2] not in (b"P", b"F"):
            return None
        return words[3], seconds_in(chars_of(words[0])), words[2] == b"P"
    value = value_of_line(line)
    if not isinstance(value, dict):
        return None
    said: Any = None
    for key in EVENT_KEYS + KEYS:
        if isinstance(value.get(key), str) and value[key].startswith(EVENT_STARTS):
            said = value[key]
    if said is None:
        said = next((value[key] for key in KEYS if key in value), None)
    said = bytes_of_line(said)  # journald writes bytes that are not UTF-8 as numbers
    if said is None:
        return None
    more = "stream" in value and not said.endswith(b"\n")
    micros = value.get("__REALTIME_TIMESTAMP")
    if isinstance(micros, str) and micros.isdigit():
        return said, int(micros) / 1e6, more
    return said, time_of_line(value, TIMES), more


def row_of_devtools(line: bytes) -> "tuple[bytes, bytes] | None":
    """Return (the event, the rest) of a row that was copied from the list of a browser's events or
    messages: columns with tabs between them; None for other lines.

    >>> row_of_devtools(b'3\\tmessage\\t{"a":1}\\t12:00:01.250')
    (b'{"a":1}', b'3 message  12:00:01.250')
    """
    if b"\t" not in line:
        return None
    columns = line.split(b"\t")
    for n, column in enumerate(columns):
        event = column.strip()
        if (event[:1] == b"{" and event[-1:] == b"}") or event == b"[DONE]":
            columns[n] = b""
            return event if event[:1] == b"{" else b":", b" ".join(columns)
    return None


def bodies_of_cassette(text: str) -> "list[tuple[str, list[tuple[bytes, int]]]]":
    r"""Return (URL, the pieces of the body and the numbers of their lines) of each response in a
    YAML cassette of vcrpy or VCR; [] for other files.

    >>> text = "interactions:\n- response:\n    body:\n      string: 'a\n\n        b'\n"
    >>> bodies_of_cassette(text)
    [('', [(b'a', 4), (b'\n', 5), (b'b', 6)])]
    """
    out = []
    lines = text.replace("\r\n", "\n").split("\n")
    url, answer, n = "", False, 0
    while n < len(lines):
        begin = n + 1
        key, tag, pieces, n = _scalar_in(lines, n)
        said = "".join([piece for piece, _ in pieces])
        if key in ("request", "response"):
            answer = key == "response"
        elif key == "uri":
            url = said
        elif answer and said and key in ("string", "body", "base64_string"):
            body = [(piece.encode(), line) for piece, line in pieces]
            if tag.endswith("binary") or key == "base64_string":
                try:
                    body = [(base64_bytes(said), begin)]
                except ValueError:
                    continue  # damaged
            out.append((url, body))
    return out


def _scalar_in(lines: list[str], n: int) -> "tuple[str, str, list[tuple[str, int]], int]":
    """Return (key, tag, pieces of the value and the numbers of their lines, the next line) of a
    line of YAML. A plain scalar ends with its line.
    """
    text = lines[n].lstrip(" ")
    while text[:2] == "- ":
        text = text[2:].lstrip(" ")
    key, tag, rest = "", "", text
    if text[:1] not in ("'", '"'):
        key, _, rest = text.partition(":")
        rest = rest.lstrip(" ")
    if rest[:8] == "{string:":
        key, rest = "string", rest[8:].lstrip(" ")
    if rest[:1] == "!":
        tag, _, rest = rest.partition(" ")
        rest = rest.lstrip(" ")
    if rest[:1] in ("'", '"'):
        pieces, end = _quoted(lines, n, rest)
    elif rest[:1] in ("|", ">"):
        pieces, end = _block(lines, n, rest, len(lines[n]) - len(text))
    else:
        pieces, end = [(rest.rstrip(), n + 1)], n + 1
    return key, tag, pieces, end


def _quoted(lines: list[str], n: int, text: str) -> "tuple[list[tuple[str, int]], int]":
    """Return (pieces, the next line) of a quoted scalar whose first line is `text`. A line break is
    a space, several are one less (YAML 1.1, 9.1); after a backslash it is nothing.
    """
    quote, text = text[0], text[1:]
    escape = "\\" if quote == '"' else quote
    out: list[tuple[str, int]] = []
    breaks, fold = 0, " "
    for number in range(n + 1, len(lines) + 1):
        text = text if number == n + 1 else lines[number - 1].lstrip(" \t")
        hidden = text.replace(escape + escape, "\0\0").replace(escape + quote, "\0\0")
        end = hidden.find(quote)
        bare = text.rstrip(" \t")
        if number > n + 1:
            if end < 0 and not bare:
                breaks += 1
                continue
            out += [("\n", number - breaks + more) for more in range(breaks)] or [(fold, number)]
            breaks, fold = 0, " "
        if end >= 0:
            text = text[:end]
        elif quote == '"' and (len(bare) - len(bare.rstrip("\\"))) % 2:
            fold = "" if bare == text else " "
            text = bare[:-1] if bare == text else text[: len(bare) + 1]
        else:
            text = bare
        for mark in "\u2028\u2029":  # line breaks that are text
            begin, *rest = text.split(mark)
            text = mark.join([begin] + [part.lstrip(" \t") for part in rest])
        out.append((_unescaped(text) if quote == '"' else text.replace("''", "'"), number))
        if end >= 0:
            return out, number
    return [], len(lines)


def _unescaped(text: str) -> str:
    r"""Return what a text between double quotes says.

    >>> _unescaped("\\xE9\\u00e9\\t\\\\n\\\"") == 'éé\t\\n"'
    True
    >>> _unescaped("\\Uffffffff") == "\ufffd"
    True
    """
    out = []
    for part in text.split("\\\\"):
        for letter, said in ESCAPES.items():
            part = part.replace("\\" + letter, said)
        said, *codes = part.split("\\")
        for code in codes:
            size = {"x": 3, "u": 5, "U": 9}.get(code[:1], 1)
            try:
                value = int(code[1:size], 16)
            except ValueError:  # no escape of YAML
                value, size = 0xFFFD, 0
            if 0xD800 <= value < 0xE000:
                value += MARK - 0xD800  # half of a pair, as JSON has it
            is_one = 0 <= value < 0x110000
            said += (chr(value) if is_one else "\ufffd") + code[size:]
        out.append(said)
    return "\\".join(out)


def _block(lines: list[str], n: int, head: str, column: int) -> "tuple[list[tuple[str, int]], int]":
    """Return (pieces, the next line) of a block scalar: `|` keeps its line breaks, `>` folds those
    between lines that begin with no space. `head` may name the indent, and what stays at the end.
    """
    marks = head.split(" ")[0]
    digits = [mark for mark in marks if mark in "123456789"]
    indent = column + int("".join(digits) or 0)
    end = n + 1
    while end < len(lines):
        size = len(lines[end]) - len(lines[end].lstrip(" "))
        if lines[end][size:]:
            indent = max(indent, size) if indent == column else indent
            if size < indent or indent == column:
                break
        end += 1
    out: list[tuple[str, int]] = []
    breaks: list[tuple[str, int]] = []
    before = ""
    for at in range(n + 1, end):
        row = lines[at][indent:]
        if not row:
            breaks += [("\n", at + 1)] if at + 1 < len(lines) else []
            continue
        if before and marks[0] == ">" and before[0] not in " \t" and row[0] not in " \t":
            breaks = breaks or [(" ", at + 1)]
        elif before:
            out.append(("\n", at))
        out += breaks + [(row, at + 1)]
        breaks, before = [], row
    if before and "-" not in marks and lines[-1:] != [before]:
        out.append(("\n", end))
    return out + (breaks if "+" in marks else []), end
