"""`.detok.jsonl`: a recorded stream, to be replayed, shared, or attached to a bug report.

In: records (seconds since the record before, kind, value). Out: lines of JSON, and back. The format
follows asciicast v3: a header line, then one array a line:

    {"detok": 1, "vocabulary": {"sha256": …, "size": …}, "engine": {…}, "protocol": "detok.v1", …}
    [0.012, "b", "8J+Y"]                 raw bytes, base64, cut as they came
    [0.010, "i", [3, 300]]               token ids
    [0.010, "t", [[3, "8J8="], …]]       token ids with their bytes
    [0.010, "g", [2, "44GC"]]            2 tokens whose ids are not known, and their bytes
    [0.010, "x", "text"]                 text, decoded by the engine
    [0.010, "x", ["text", [3, 300]]]     the same, and the ids that came with it
    [0, "j", {"type": "channel", "channel": "reasoning"}]   what follows, as the server has said
    [0.250, "j", {"type": "finished"}]   another event

Prompts and messages are left out unless asked for, because captures are shared. `"timed": false`
in the header says that the times are not known; then all are 0.

>>> text = write_capture(
...     {"engine": {"name": "demo"}}, [(0.0, "b", b"\\xf0\\x9f"), (0.5, "b", b"\\x98\\x80")]
... )
>>> print(text, end="")
{"detok":1,"engine":{"name":"demo"}}
[0,"b","8J8="]
[0.5,"b","mIA="]
>>> read_capture(text).records[1]
Record(seconds=0.5, kind='b', value=b'\\x98\\x80')
"""

import json
from binascii import a2b_base64, b2a_base64
from typing import Any, Iterable, NamedTuple

from ..errors import CaptureError
from ..protocol import wire
from .parse import parse_json

Capture = NamedTuple("Capture", [("header", "dict[str, Any]"), ("records", "list[Any]")])
Record = NamedTuple("Record", [("seconds", float), ("kind", str), ("value", Any)])

BYTES, IDS, TOKENS, GAP, TEXT, EVENT = "b", "i", "t", "g", "x", "j"
MAX_SIZE = 64 << 20
MAX_SECONDS = 24 * 3600.0
PRIVATE = ("prompt", "messages", "text")


def write_capture(
    header: dict[str, Any], records: Iterable[tuple[float, str, Any]], *, keep_prompt: bool = False
) -> str:
    """Return the capture as text.

    `header` gets `detok` and loses prompts, and so do `generate` events, unless `keep_prompt`.
    """
    head: dict[str, Any] = {"detok": 1}
    head.update(header if keep_prompt else _without_prompt(header))
    lines = [_json(head)]
    for seconds, kind, value in records:
        if kind == BYTES:
            value = _base64(value)
        elif kind == TOKENS:
            value = [[i, _base64(data)] for i, data in value]
        elif kind == GAP:
            value = [value[0], _base64(value[1])]
        elif kind == EVENT and not keep_prompt and value.get("type") == "generate":
            value = _without_prompt(value)
        seconds = round(seconds, 6)
        seconds = int(seconds) if seconds == int(seconds) else seconds
        lines.append(_json([seconds, kind, value]))
    return "\n".join(lines) + "\n"


def read_capture(text: str) -> Capture:
    """Return (header, records) of a capture. Raises CaptureError, naming the line."""
    check_size(text)
    lines = (text[1:] if text[:1] == "\ufeff" else text).split("\n")
    header = parse_json(lines[0], 1)
    if not isinstance(header, dict) or "detok" not in header:
        raise CaptureError(
            'not a detok capture: the first line must be an object with "detok", like {"detok":1}.'
        )
    if header["detok"] != 1:
        raise CaptureError(
            f"the capture has version {header['detok']!r}, and this detok reads version 1. Use a newer detok."
        )
    records = []
    for number in range(1, len(lines)):
        line = lines[number].strip()
        # asciicast allows comment lines.
        if line and not line.startswith("#"):
            records.append(_record(parse_json(line, number + 1), number + 1))
    return Capture(header, records)


def record_of(seconds: float, frame: str | bytes) -> Record:
    """Return a detok.v1 frame as a record. Raises RemoteProtocolError if it is not detok.v1.

    >>> record_of(0.01, b"\\x01\\x03")
    Record(seconds=0.01, kind='i', value=[3])
    """
    if isinstance(frame, str):
        return Record(seconds, EVENT, wire.read_message(frame))
    op, value = wire.read_data(frame)
    return Record(seconds, (BYTES, IDS, TOKENS, GAP)[op], value)


def frames_of(messages: Any) -> list[Any]:
    """Return the frames that a socket received, as records; [] if they are not detok.v1."""
    records = []
    last = None
    try:
        for message in messages:
            if message.get("type") == "receive":
                frame = message["data"]
                if message.get("opcode") == 2:
                    frame = a2b_base64(frame.encode())
                at = float(message.get("time", 0))
                records.append(record_of(max(0.0, at - last) if last is not None else 0.0, frame))
                last = at
    except Exception:  # frames of any type: the file may be damaged
        return []
    # Other sockets send objects with a type, too.
    hello = records and records[0].kind == EVENT and records[0].value["type"] == "hello"
    return records if hello or any(record.kind != EVENT for record in records) else []


def _record(line: Any, number: int) -> Any:
    if not isinstance(line, list) or len(line) != 3:
        raise CaptureError(f"line {number} must be [seconds, kind, value].")
    seconds, kind, value = line
    if type(seconds) not in (int, float) or not 0 <= seconds <= MAX_SECONDS:
        raise CaptureError(
            f"line {number}: the seconds since the line before must be a number from 0 to {MAX_SECONDS:g}."
        )
    if kind not in (BYTES, IDS, TOKENS, GAP, TEXT, EVENT):
        raise CaptureError(
            f"line {number} has the kind {str(kind)[:20]!r}; the kinds are b, i, t, g, x and j."
        )
    try:
        if kind == BYTES:
            value = _bytes(value)
        elif kind == IDS:
            _check_ids(value)
        elif kind == TOKENS:
            _check_ids([i for i, _ in value])
            value = [(i, _bytes(data)) for i, data in value]
        elif kind == GAP:
            _check_ids(value[:1])
            value = (value[0], _bytes(value[1]))
        elif kind == TEXT:
            said, ids = (value, []) if isinstance(value, str) else value
            _check_ids(ids)
            if not isinstance(said, str):
                raise ValueError
        elif not isinstance(value, dict):
            raise ValueError
    except Exception:  # each Python's base64 raises another error
        raise CaptureError(f"line {number} has a wrong value for the kind {kind!r}.") from None
    return Record(float(seconds), kind, value)


def _check_ids(value: Any) -> None:
    if type(value) is not list or not all(type(i) is int and 0 <= i <= wire.MAX_ID for i in value):
        raise ValueError


def _bytes(value: Any) -> bytes:
    data = a2b_base64(value.encode())  # bytes, because MicroPython takes no str here
    if _base64(data) != value:
        raise ValueError
    return data


def _base64(data: bytes) -> str:
    return b2a_base64(data).decode().rstrip("\n")


def _without_prompt(fields: dict[str, Any]) -> dict[str, Any]:
    out = {name: fields[name] for name in fields if name not in PRIVATE}
    if isinstance(out.get("params"), dict):
        out["params"] = _without_prompt(out["params"])
    return out


def check_size(text: "str | bytes") -> None:
    """Raise CaptureError if a file is too large to be read."""
    if len(text) > MAX_SIZE:
        raise CaptureError(
            f"the file has {len(text) >> 20} MiB; at most {MAX_SIZE >> 20} MiB are read."
        )


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
