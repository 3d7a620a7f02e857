"""Unwrap lines of a stream from other programs' formats: journald, Docker, DevTools.

In: the lines of a file. Out: the lines inside them, and when each was written.
"""

import json
from typing import Any

from .times import seconds_in

MOST_TRIED = 5


def unwrapped(lines: list[bytes]) -> "tuple[list[bytes], list[Any]] | None":
    """Return (lines, stamps) of a log of JSON objects that have lines in them, as `journalctl -o
    json` and Docker's json-file driver write it; None for other files. Line numbers stay the same.

    >>> unwrapped([b'{"__REALTIME_TIMESTAMP":"1500000","MESSAGE":"data: {}"}'])
    ([b'data: {}'], [1.5])
    """
    first = next((line for line in lines[:MOST_TRIED] if line.strip()), b"")
    if b'"MESSAGE"' not in first and not (b'"log"' in first and b'"stream"' in first):
        return None
    out: list[bytes] = []
    stamps: list[Any] = []
    open_ = False  # Docker cuts lines of more than 16 kB
    for line in lines:
        found = _line_in(line)
        text, stamp = found if found else (b"", None)
        if open_:
            text = out.pop() + text
            stamps.pop()
            out.append(b"")
            stamps.append(None)
        open_ = found is not None and b'"stream"' in line and not text.endswith(b"\n")
        out.append(text.rstrip(b"\r\n"))
        stamps.append(stamp)
    return (out, stamps) if any(out) else None


def _line_in(line: bytes) -> "tuple[bytes, float | None] | None":
    try:
        value = json.loads(line.decode())
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    said = value.get("MESSAGE", value.get("log"))
    if isinstance(said, list):  # journald writes bytes that are not UTF-8 as numbers
        said = bytes([n & 255 for n in said if type(n) is int])
    elif isinstance(said, str):
        said = said.encode()
    else:
        return None
    micros, time = value.get("__REALTIME_TIMESTAMP"), value.get("time")
    if isinstance(micros, str) and micros.isdigit():
        return said, int(micros) / 1e6
    return said, seconds_in(time) if isinstance(time, str) else None


def row_of_devtools(line: bytes) -> "tuple[bytes, bytes] | None":
    """Return (the event, the rest) of a row that was copied from the list of a browser's events or
    messages: columns with tabs between them; None if the line is no such row.

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
