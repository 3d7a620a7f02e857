"""`.detok.jsonl`: a recorded stream, to be replayed, shared, or attached to a bug report.

In: records (seconds since the one before, what came). Out: lines of JSON, and back. The shape is asciicast v3's: a header line, then one
array a line:

    {"detok": 1, "vocabulary": {"sha256": …, "size": …}, "engine": {…}, "protocol": "detok.v1", …}
    [0.012, "b", "8J+Y"]                 raw bytes, base64, cut as they came
    [0.010, "i", [3, 300]]               token ids
    [0.010, "t", [[3, "8J8="], …]]       token ids with their bytes
    [0.010, "g", [2, "44GC"]]            2 tokens whose ids are not known, and their bytes
    [0.010, "x", "text"]                 text that somebody else had decoded already
    [0.250, "j", {"type": "finished"}]   an event

Prompts and messages are left out unless asked for: a capture is made to be given away. Captures can be read from two things that people
already have: a HAR file with WebSocket frames, as browsers' developer tools save it, and the body of a server-sent event stream.

>>> text = write_capture({"engine": {"name": "demo"}}, [(0.0, "b", b"\\xf0\\x9f"), (0.5, "b", b"\\x98\\x80")])
>>> print(text, end="")
{"detok":1,"engine":{"name":"demo"}}
[0,"b","8J8="]
[0.5,"b","mIA="]
>>> read_capture(text).records[1]
Record(seconds=0.5, kind='b', value=b'\\x98\\x80')
"""

import base64
import binascii
import json
from collections import namedtuple
from typing import Any, Iterable

from . import wire
from .errors import DetokError, RemoteProtocolError

Capture = namedtuple("Capture", ["header", "records"])
Record = namedtuple("Record", ["seconds", "kind", "value"])

BYTES, IDS, TOKENS, GAP, TEXT, EVENT = "b", "i", "t", "g", "x", "j"
MAX_SIZE = 64 << 20
MAX_SECONDS = 24 * 3600.0
PRIVATE = ("prompt", "messages", "text")


class CaptureError(DetokError, ValueError):
    """A file that is no capture, or a damaged one: which line, and what is wrong with it."""


def write_capture(header: dict[str, Any], records: Iterable[tuple[float, str, Any]], *, keep_prompt: bool = False) -> str:
    """Return the capture as text. `header` gets `detok` and loses prompts, and so do `generate` events, unless `keep_prompt`."""
    head: dict[str, Any] = {"detok": 1}
    for name in header:
        if keep_prompt or name not in PRIVATE:
            head[name] = header[name]
    lines = [_json(head)]
    for seconds, kind, value in records:
        if kind in (BYTES,):
            value = _base64(value)
        elif kind == TOKENS:
            value = [[i, _base64(data)] for i, data in value]
        elif kind == GAP:
            value = [value[0], _base64(value[1])]
        elif kind == EVENT and not keep_prompt:
            value = _without_prompt(value)
        lines.append(_json([_rounded(seconds), kind, value]))
    return "\n".join(lines) + "\n"


def read_capture(text: str) -> Capture:
    """Return (header, records) of a capture. Raises CaptureError, naming the line."""
    if len(text) > MAX_SIZE:
        raise CaptureError(f"a capture of {len(text) >> 20} MiB; at most {MAX_SIZE >> 20} MiB are read.")
    lines = text.lstrip("\ufeff").split("\n")
    header = _parse(lines[0], 1)
    if not isinstance(header, dict) or "detok" not in header:
        raise CaptureError('not a detok capture: its first line is an object with "detok", like {"detok":1}.')
    if header["detok"] != 1:
        raise CaptureError(f"a capture of version {header['detok']!r}; this detok reads version 1: use a newer one.")
    records = []
    for number in range(1, len(lines)):
        line = lines[number].strip()
        # asciicast has comment lines, so these may come up too.
        if line and not line.startswith("#"):
            records.append(_record(_parse(line, number + 1), number + 1))
    return Capture(header, records)


def record_of(seconds: float, frame: str | bytes) -> Record:
    """Return a detok.v1 frame as a record. Raises RemoteProtocolError for a frame that is not detok.v1.

    >>> record_of(0.01, b"\\x01\\x03")
    Record(seconds=0.01, kind='i', value=[3])
    """
    if isinstance(frame, str):
        return Record(seconds, EVENT, wire.read_message(frame))
    op, value = wire.read_data(frame)
    return Record(seconds, (BYTES, IDS, TOKENS, GAP)[op], value)


def read_har(text: str) -> Capture:
    """Return the detok.v1 stream in a HAR file. Raises CaptureError.

    Browsers save the frames of a WebSocket as `_webSocketMessages` (an extension of HAR 1.2): text as it is, binary in base64. Where
    there are several sockets, the first that speaks detok.v1 is read.
    """
    if len(text) > MAX_SIZE:
        raise CaptureError(f"a HAR file of {len(text) >> 20} MiB; at most {MAX_SIZE >> 20} MiB are read.")
    har = _parse(text, 1)
    try:
        sockets = [entry["_webSocketMessages"] for entry in har["log"]["entries"] if entry.get("_webSocketMessages")]
    except (KeyError, TypeError, AttributeError):
        raise CaptureError("not a HAR file: it has no log.entries.") from None
    for messages in sockets:
        records = _frames_of(messages)
        if records:
            hello = records[0].value if records[0].kind == EVENT else {}
            header = {"detok": 1, "protocol": wire.SUBPROTOCOL, "source": "har"}
            for name in ("engine", "vocabulary"):
                if isinstance(hello, dict) and name in hello:
                    header[name] = hello[name]
            return Capture(header, records)
    raise CaptureError("this HAR file has no detok.v1 socket; open the developer tools before the stream starts, and save it again.")


def read_sse(data: bytes) -> Capture:
    """Return the stream in the body of server-sent events from an OpenAI-compatible server, llama-server, vLLM, SGLang or TGI.

    Ids and bytes are taken where the events have them, text otherwise. There are no times in such a body, so every record is at 0.
    Raises CaptureError where no event has anything of a stream.
    """
    records = []
    before = 0
    for number, line in enumerate(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), 1):
        if not line.startswith(b"data:") or line[5:].strip() in (b"", b"[DONE]"):
            continue
        event = _parse(line[5:].strip().decode("utf-8", "replace"), number)
        if not isinstance(event, dict):
            continue
        record, before = _of_event(event, before)
        if record is not None:
            records.append(record)
    if not records:
        raise CaptureError("there is no token stream in this: no line begins with 'data:' and has text, ids or bytes.")
    return Capture({"detok": 1, "source": "sse"}, records)


def _of_event(event: dict[str, Any], before: int) -> tuple[Any, int]:
    """A record of one engine event, and how many ids a cumulative engine has shown so far."""
    entries = event.get("completion_probabilities")
    try:
        if entries:
            return Record(0.0, BYTES, b"".join([bytes(entry["bytes"]) for entry in entries])), before
        if isinstance(event.get("output_ids"), list):
            ids = event["output_ids"]
            # SGLang says everything again in each event, unless it was started not to.
            new = ids[before:] if len(ids) > before else []
            return (Record(0.0, IDS, new) if new else None), max(before, len(ids))
        if isinstance(event.get("token"), dict) and isinstance(event["token"].get("id"), int):
            return Record(0.0, IDS, [event["token"]["id"]]), before
        choices = event.get("choices")
        if choices:
            choice = choices[0]
            if choice.get("token_ids"):
                return Record(0.0, IDS, list(choice["token_ids"])), before
            delta = choice.get("delta")
            text = delta.get("content") if isinstance(delta, dict) else choice.get("text")
            return (Record(0.0, TEXT, text) if isinstance(text, str) and text else None), before
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None, before
    text = event.get("content")
    return (Record(0.0, TEXT, text) if isinstance(text, str) and text else None), before


def _frames_of(messages: Any) -> list[Any]:
    records = []
    last = None
    for message in messages if isinstance(messages, list) else []:
        if not isinstance(message, dict) or message.get("type") != "receive":
            continue
        at = message.get("time")
        at = float(at) if isinstance(at, (int, float)) else 0.0
        frame: Any = message.get("data")
        try:
            if message.get("opcode") == 2:
                frame = base64.b64decode(frame)
            if not isinstance(frame, (str, bytes)):
                return []
            records.append(record_of(0.0 if last is None else max(0.0, at - last), frame))
        except (RemoteProtocolError, binascii.Error, ValueError, TypeError):
            return []
        last = at
    return records


def _record(line: Any, number: int) -> Any:
    if not isinstance(line, list) or len(line) != 3:
        raise CaptureError(f"line {number} is not [seconds, kind, value].")
    seconds, kind, value = line
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= MAX_SECONDS:
        raise CaptureError(f"line {number}: the seconds since the line before are a number from 0 to a day.")
    try:
        if kind == BYTES:
            value = _bytes(value)
        elif kind == IDS:
            value = _ids(value)
        elif kind == TOKENS:
            value = [(_ids([i])[0], _bytes(data)) for i, data in value]
        elif kind == GAP:
            value = (_ids([value[0]])[0], _bytes(value[1]))
        elif kind == TEXT:
            if not isinstance(value, str):
                raise ValueError("not text")
        elif kind == EVENT:
            if not isinstance(value, dict):
                raise ValueError("not an event")
        else:
            raise CaptureError(f"line {number} is of kind {str(kind)[:20]!r}; there are b, i, t, g, x and j.")
    except (ValueError, TypeError, IndexError, KeyError):
        raise CaptureError(f"line {number}: what follows {kind!r} is not what that kind carries; see docs/protocol.md.") from None
    return Record(float(seconds), kind, value)


def _ids(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(isinstance(i, int) and not isinstance(i, bool) and 0 <= i <= wire.MAX_ID for i in value):
        raise ValueError("not ids")
    return value


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("not base64")
    return base64.b64decode(value, validate=True)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _without_prompt(event: Any) -> Any:
    if not isinstance(event, dict) or event.get("type") != "generate":
        return event
    out = {name: event[name] for name in event if name not in PRIVATE}
    if isinstance(out.get("params"), dict):
        out["params"] = {name: out["params"][name] for name in out["params"] if name not in PRIVATE}
    return out


def _rounded(seconds: float) -> Any:
    rounded = round(seconds, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _parse(text: str, number: int) -> Any:
    if wire.depth(text) > wire.MAX_DEPTH:
        raise CaptureError(f"line {number} is nested deeper than {wire.MAX_DEPTH}.")
    try:
        value = json.loads(text)
        wire.check_plain(value)
    except (ValueError, RemoteProtocolError):
        raise CaptureError(f"line {number} is not JSON; a capture has one JSON value a line.") from None
    return value
