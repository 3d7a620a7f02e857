"""Unwrap a stream from other programs' formats: journald, Docker, DevTools, cassettes of tests.

In: the lines of a file. Out: the lines inside them, and when each was written.
"""

import json
from binascii import a2b_base64
from typing import Any

from .times import seconds_in

MOST_TRIED = 5
KEYS = ("MESSAGE", "log", "line", "message", "msg")  # also of Loki and CloudWatch
TIMES = ("time", "ts", "timestamp")
STARTS = (b"data: ", b"data:{", b"event: ")
# In YAML's double quotes.
OTHER_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029", "e": "\x1b"}  # fmt: skip


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
    open_ = False  # Docker cuts lines of more than 16 kB
    for line in lines:
        text, stamp, more = _line_in(line) or (b"", None, False)
        if open_:
            text = out.pop() + text
            stamps.pop()
            out.append(b"")
            stamps.append(None)
        open_ = more
        out.append(text.rstrip(b"\r\n"))
        stamps.append(stamp)
    return (out, stamps) if any(out) else None


def _line_in(line: bytes) -> "tuple[bytes, float | None, bool] | None":
    """Return the line in a line of a log, when it was written, and whether it goes on."""
    if line[:1] != b"{":
        words = line.split(b" ", 3)
        if len(words) < 4 or words[1] not in (b"stdout", b"stderr") or words[2] not in (b"P", b"F"):
            return None
        return words[3], seconds_in("".join([chr(c) for c in words[0]])), words[2] == b"P"
    try:
        value = json.loads(line.decode())
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    said = next((value[key] for key in KEYS if key in value), None)
    if isinstance(said, list):  # journald writes bytes that are not UTF-8 as numbers
        said = bytes([n & 255 for n in said if type(n) is int])
    elif isinstance(said, str):
        said = said.encode()
    else:
        return None
    more = "stream" in value and not said.endswith(b"\n")
    micros = value.get("__REALTIME_TIMESTAMP")
    if isinstance(micros, str) and micros.isdigit():
        return said, int(micros) / 1e6, more
    time = next((value[key] for key in TIMES if key in value), None)
    if type(time) is int and time > 1e11:
        return said, time / 1e3, more
    return said, seconds_in(time) if isinstance(time, str) else None, more


def unwrapped_cassette(data: bytes) -> "bytes | None":
    """Return the body of the first stream in a cassette of VCR.py, which is YAML; None for other
    data.

    >>> unwrapped_cassette(b"interactions:\\n  string: 'data: {\\"a\\":\\n    1}\\n\\n\\n    '")
    b'data: {"a": 1}\\n\\n'
    """
    if not data.lstrip(b"-\r\n ").startswith(b"interactions:"):
        return None
    best = None
    lines = data.decode().replace("\r\n", "\n").split("\n")
    for n, line in enumerate(lines):
        key, colon, first = line.strip().partition("string: ")
        if colon and key == "":
            indent = len(line) - len(line.lstrip())
            body = _scalar(first, lines[n + 1 :], indent)
            best = best or body
            if body[:1] in (b"{", b"[") or b"data:" in body:
                return body
    return best


def _scalar(first: str, lines: list[str], indent: int) -> bytes:
    """Return the bytes of a YAML scalar, whose first line has this rest and which other lines
    follow.
    """
    if first[:1] in ("|", "!"):
        depths = [len(line) - len(line.lstrip()) for line in lines]
        inside = [depth > indent or not line.strip() for line, depth in zip(lines, depths)]
        size = inside.index(False) if False in inside else len(lines)
        deep = min([depths[n] for n in range(size) if lines[n].strip()] or [0])
        block = "\n".join([line[deep:] for line in lines[:size]])
        return a2b_base64(block.encode()) if first[:8] == "!!binary" else block.encode()
    quote = first[:1]
    if quote not in ("'", '"'):
        return first.encode()
    out = ""
    line, n = first[1:], 0
    while _end_of(line, quote) < 0 and n < len(lines):
        backslashes = len(line) - len(line.rstrip("\\"))
        if quote == '"' and backslashes % 2:
            out += line[:-1]
        else:
            begin = n
            while n < len(lines) and not lines[n].strip():
                n += 1
            out += line.rstrip(" \t") + ("\n" * (n - begin) or " ")
        line = lines[n].lstrip(" \t") if n < len(lines) else ""
        n += 1
    out += line[: _end_of(line, quote)]
    return (out.replace("''", "'") if quote == "'" else _without_backslashes(out)).encode()


def _end_of(line: str, quote: str) -> int:
    """Return where the quote is that ends a scalar; -1 if it goes on."""
    at = line.find(quote)
    if quote == "'":
        while line[at : at + 2] == "''":
            at = line.find(quote, at + 2)
        return at
    while at > 0 and (at - len(line[:at].rstrip("\\"))) % 2:
        at = line.find(quote, at + 1)
    return at


def _without_backslashes(text: str) -> str:
    """Return the text of a scalar in double quotes."""
    begin, *parts = text.replace("\\\\", "\\\0").split("\\")
    out = [begin]
    for part in parts:
        size = {"x": 2, "u": 4, "U": 8}.get(part[:1], 0)
        if size:
            code = int(part[1 : 1 + size], 16)
            out.append(chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd")
        else:
            out.append("\\" if part[:1] == "\0" else OTHER_ESCAPES.get(part[:1], part[:1]))
        out.append(part[1 + size :])
    return "".join(out)


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
