"""The lines of a stream in entries of Google Cloud Logging.

In: `LogEntry` objects, as `gcloud logging read --format=json` or an export writes them: newest or
oldest first. Out: the lines that a program wrote, oldest first. Held: nothing.
"""

import json
from typing import Any

from .parse import value_of_line
from .times import seconds_in

MESSAGES = ("message", "msg", "log", "event")  # where a program's line is in a jsonPayload
PAYLOADS = (b'"textPayload"', b'"jsonPayload"')


def lines_of_entries(
    entries: "list[tuple[Any, int]]",
) -> "tuple[list[tuple[bytes, int]], list[float | None]] | None":
    """Return (lines, each with the number of its entry's line; times by number) of entries, each
    with the number of its line; None for other values. Entries that begin with the newest one are
    put in order.

    >>> newest, oldest = [{"textPayload": n, "timestamp": f"2025-10-01T12:00:0{n}Z"} for n in "21"]
    >>> lines_of_entries([(newest, 1), (oldest, 2)])[0]
    [(b'1\\n', 2), (b'2\\n', 1)]
    """
    found = []
    for value, line in entries:
        said = _line_in(value)
        if said is not None:
            time = value.get("timestamp")
            found.append((_order_of(time), -line, said, time))
    if not found or 2 * len(found) < len(entries):
        return None
    if found[0][0] > found[-1][0]:
        found = sorted(found, key=lambda one: one[:2])
    stamps: list[float | None] = [None] * max([-line for _, line, _, _ in found])
    for _, line, _, time in found:
        stamps[-line - 1] = seconds_in(time) if isinstance(time, str) else None
    return [(said.rstrip("\r\n").encode() + b"\n", -line) for _, line, said, _ in found], stamps


def lines_of_log(lines: list[bytes]) -> Any:
    """Do as `lines_of_entries`, with lines that each have one entry."""
    first = next((line for line in lines if line.strip()), b"")
    if first[:1] != b"{" or not any(key in first for key in PAYLOADS):
        return None
    entries = [(value_of_line(line), number) for number, line in enumerate(lines, 1)]
    # An empty line, or one that breaks off, has no entry.
    return lines_of_entries([one for one in entries if one[0] is not None])


def _line_in(entry: Any) -> "str | None":
    """Return the line that a program wrote; Cloud Run keeps one of JSON as an object."""
    if not isinstance(entry, dict) or not ("insertId" in entry or "timestamp" in entry):
        return None
    said, payload = entry.get("textPayload"), entry.get("jsonPayload")
    if isinstance(payload, dict):
        said = next((payload[key] for key in MESSAGES if isinstance(payload.get(key), str)), None)
        if said is None:
            said = json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
    return said if isinstance(said, str) else None


def _order_of(time: Any) -> str:
    """Return a time so that it can be compared: its fraction has 0 to 9 digits (RFC 3339).

    >>> _order_of("2025-10-01T12:00:05Z") < _order_of("2025-10-01T12:00:05.000000001Z")
    True
    """
    if not isinstance(time, str):
        return ""
    digits = "".join([c for c in time[19:] if c in "0123456789"])
    return time[:19] + (digits + "000000000")[:9]
