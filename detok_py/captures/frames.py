"""Read the messages of Amazon's event streams, in which Bedrock answers, and packets of TCP.

In: bytes. Out: events, or the bytes that a server sent. A message is two lengths, a checksum,
headers, a payload of JSON and a checksum (`application/vnd.amazon.eventstream`). Checksums are not
verified.
"""

from codecs import utf_8_decode
from typing import Any

from ..errors import CaptureError
from .log import LoggedEvent, Problem
from .parse import base64_bytes, is_utf8, object_at, parse_json

LEAST = 16  # bytes of a message without headers and payload
STRING = 7
MOST = (1 << 30) - 1


def read_frames(data: bytes) -> "tuple[list[Any], list[Any]] | None":
    """Return (events, problems) of an event stream; None for other data. The payload of an event
    is under the event's name, as Amazon's clients give it; that of a `chunk` is the model's event.

    >>> head = b"\\x0b:event-type\\x07\\x00\\x0bmessageStop"
    >>> head += b"\\x0d:message-type\\x07\\x00\\x05event"
    >>> size = bytes([0, 0, 0, 16 + len(head) + 2, 0, 0, 0, len(head)]) + bytes(4)
    >>> read_frames(size + head + b"{}" + bytes(4))[0][0].value
    {'messageStop': {}}
    """
    events: list[Any] = []
    problems: list[Any] = []
    at = number = 0
    while at < len(data):
        number += 1
        size, inner = _uint(data, at, 4), _uint(data, at + 4, 4)
        if events and at + size > len(data):
            problems.append(Problem(number, "this message is cut off"))
            break
        headers = _headers(data[at + 12 : at + 12 + inner])
        if at + size > len(data) or size < LEAST + inner or ":message-type" not in (headers or {}):
            if not events and not problems:
                return None
            problems.append(Problem(number, "no message of an event stream"))
            break
        payload = data[at + 12 + inner : at + size - 4]
        at += size
        try:
            value = _value(headers or {}, payload, number)
        except (CaptureError, ValueError):
            problems.append(Problem(number, "this message's payload is not JSON"))
            continue
        raw = not is_utf8(payload)
        plain = raw or max(payload or b" ") > 127
        events.append(LoggedEvent(value, number, raw, None, plain, False))
    return events, problems


def model_event(value: Any) -> Any:
    """Return the model's event in a chunk of InvokeModelWithResponseStream; others as they are.

    >>> model_event({"chunk": {"bytes": b'{"outputText": "a"}'}}), model_event({"a": 1})
    ({'outputText': 'a'}, {'a': 1})
    """
    data = object_at(value, "chunk").get("bytes")
    if isinstance(data, str):
        data = base64_bytes(data)
    return parse_json(_text(data), 0, halves=True) if isinstance(data, bytes) else value


def packets(blocks: list[bytes]) -> "tuple[bytes, bool] | None":
    """Return (the bytes that the server sent, whether a packet is missing) of packets of IP and
    TCP, as `tcpdump -X` shows them; None for other data.
    """
    flows: dict[bytes, list[tuple[int, bytes]]] = {}
    for block in blocks:
        version = block[0] >> 4 if block else 0
        size, ends = (4 * (block[0] & 15), block[12:20]) if version == 4 else (40, block[8:40])
        kind = block[9:10] if version == 4 else block[6:7]
        if version not in (4, 6) or kind != b"\x06" or len(block) < size + 20:
            return None
        length = _uint(block, 2, 2) if version == 4 else 40 + _uint(block, 4, 2)
        # A sender that computes the length in its network card leaves it 0.
        body = block[size + 4 * (block[size + 12] >> 4) : length or len(block)]
        if body:
            flow = flows.setdefault(ends + block[size : size + 4], [])
            flow.append((_uint(block, size + 4, 4), body))
    best: tuple[int, bytes, bool] = (-1, b"", False)
    for flow in flows.values():
        out, after, missing = b"", -1, False
        for begin, body in sorted(set(flow)):
            if after >= 0 and begin < after:
                body = body[after - begin :]  # sent again
            missing = missing or (after >= 0 and begin > after)
            after = max(after, begin + len(body))
            out += body
        likely = 2 * out.startswith(b"HTTP/1") + (b"data:" in out)
        best = max(best, (likely, out, missing))
    return (best[1], best[2]) if best[1] else None


def _value(headers: dict[str, str], payload: bytes, number: int) -> Any:
    value = parse_json(_text(payload or b"{}"), number, halves=True)
    kind = headers.get(":event-type", "")
    if headers[":message-type"] != "event":
        name = headers.get(":exception-type") or headers.get(":error-code", "error")
        said = object_at(value).get("message") or headers.get(":error-message")
        return {"error": {"message": f"{name}: {said}" if said else name}}
    return model_event({kind: value})


def _headers(data: bytes) -> "dict[str, str] | None":
    """Return the headers of a message, all of which are strings here; None for other data."""
    out = {}
    at = 0
    while at < len(data):
        name = data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]
        if data[at : at + 1] != bytes([STRING]) or len(data) < at + 3:
            return None
        size = _uint(data, at + 1, 2)
        out[_text(name)] = _text(data[at + 3 : at + 3 + size])
        at += 3 + size
    return out if at == len(data) else None


def _uint(data: bytes, at: int, size: int) -> int:
    """Return an unsigned number; MOST for a larger one, which MicroPython takes for no index."""
    return min(int.from_bytes(data[at : at + size], "big"), MOST)


def _text(data: bytes) -> str:
    return utf_8_decode(data, "replace", True)[0]
