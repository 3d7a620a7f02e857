"""detok.v1: messages to WebSocket frames and back, sans-I/O.

In: messages and data. Out: frames, `str` for a text frame and `bytes` for a binary one. Held: nothing.

A text frame is one JSON object with a `type`: an event that a person can read in a browser's developer tools. RFC 6455
wants text frames to be valid UTF-8, so half a character can only travel in a binary frame: one op byte, then the payload.

    op     payload                              one entry is
    0x00   raw bytes                            a byte
    0x01   id, id, …                            a token
    0x02   (id, length, bytes) …                a token with its bytes
    0x03   count, length, bytes                 `count` tokens whose ids are not known, and the bytes that they made

Numbers are unsigned LEB128 in their shortest form, at most 2³² - 1. A frame may hold any number of entries (0x03: one),
and where frames are cut means nothing: joined payloads are what was sent, and SHA-256 in `finished` is taken over them.

>>> data_frame(BYTES, b"\\xf0\\x9f"), data_frame(IDS, pack_ids([3, 300]))
(b'\\x00\\xf0\\x9f', b'\\x01\\x03\\xac\\x02')
>>> read_data(b"\\x02\\x03\\x02\\xf0\\x9f")
(2, [(3, b'\\xf0\\x9f')])
>>> read_message(message("ack", n=64))["n"]
64
"""

import json
from typing import Any, Iterable

from .errors import RemoteProtocolError

SUBPROTOCOL = "detok.v1"

BYTES = 0
IDS = 1
TOKENS = 2
GAP = 3

HALF_A_PAIR = "a message with half a surrogate pair in a string"
NOT_JSON = "a text frame that is not JSON; detok.v1 sends one JSON object a frame"
MAX_DEPTH = 64
MAX_MESSAGE = 1 << 20
MAX_ID = (1 << 32) - 1

# Close codes. 4000 + the HTTP status that means the same.
BAD_MESSAGE = 4400
UNAUTHORISED = 4401
FORBIDDEN_ORIGIN = 4403
NO_SUCH_ENGINE = 4404
WRONG_SUBPROTOCOL = 4406
VOCABULARY_MISMATCH = 4409
RESUME_EXPIRED = 4410
BUSY = 4429
CANCELLED = 4499
ENGINE_DOWN = 4503

# What a client may try again, and nothing else: going away, abnormal, restarting, busy, engine down.
RETRY_CODES = (1001, 1006, 1012, BUSY, ENGINE_DOWN)


def message(kind: str, **fields: Any) -> str:
    """Return the text frame of an event; fields that are None are left out.

    >>> message("finished", reason="eos", tokens=3, sha256=None)
    '{"type":"finished","reason":"eos","tokens":3}'
    """
    out: dict[str, Any] = {"type": kind}
    # MicroPython keeps no order of keyword arguments, and JSON needs none.
    for name in fields:
        if fields[name] is not None:
            out[name] = fields[name]
    return json.dumps(out, separators=(",", ":"))


def read_message(frame: str) -> dict[str, Any]:
    """Return the event in a text frame: a dict with a `type`.

    Raises RemoteProtocolError (4400) for anything that is not one plain JSON object: too long, nested deeper than 64, NaN, a
    lone surrogate. The depth is counted before parsing, because a deep enough document kills a WebAssembly interpreter.
    """
    if len(frame) > MAX_MESSAGE:
        raise RemoteProtocolError(f"a message of {len(frame)} characters; at most {MAX_MESSAGE} are taken")
    if depth(frame) > MAX_DEPTH:
        raise RemoteProtocolError(f"a message nested deeper than {MAX_DEPTH}")
    try:
        out = json.loads(frame)
    except ValueError as error:
        # `from None`: the parser's error carries the whole document, and a prompt must not reach a log. MicroPython's refuses half a pair.
        raise RemoteProtocolError(HALF_A_PAIR if "surrogate" in str(error) else NOT_JSON) from None
    if not isinstance(out, dict) or not isinstance(out.get("type"), str):
        raise RemoteProtocolError('a text frame without a "type"; detok.v1 sends objects like {"type":"ping"}')
    check_plain(out)
    return out


def data_frame(op: int, payload: bytes) -> bytes:
    """Return the binary frame of a payload."""
    return bytes([op]) + payload


def read_data(frame: bytes) -> tuple[int, Any]:
    """Return (op, entries) of a binary frame: bytes, ids, (id, bytes) pairs, or (count, bytes).

    Raises RemoteProtocolError (4400) for an unknown op or a payload that ends inside a number or a token.
    """
    if not frame:
        raise RemoteProtocolError("an empty binary frame; the first byte says what it carries")
    op = frame[0]
    if op == BYTES:
        return op, frame[1:]
    if op == IDS:
        return op, unpack_ids(frame[1:])
    if op == TOKENS:
        return op, unpack_tokens(frame[1:])
    if op == GAP:
        return op, unpack_gap(frame[1:])
    raise RemoteProtocolError(f"a binary frame with op byte {op}; detok.v1 knows 0 to 3")


def pack_number(n: int) -> bytes:
    """Return `n` as unsigned LEB128.

    >>> pack_number(300)
    b'\\xac\\x02'
    """
    if 0 <= n < 128:
        return bytes([n])
    if n < 0 or n > MAX_ID:
        raise ValueError(f"{n} does not fit detok.v1, which carries 0 to {MAX_ID}")
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def unpack_number(payload: bytes, at: int) -> tuple[int, int]:
    """Return (number, where the next entry begins).

    >>> unpack_number(b"\\xac\\x02", 0)
    (300, 2)
    """
    n = 0
    for shift in (0, 7, 14, 21, 28):
        if at >= len(payload):
            raise RemoteProtocolError("a binary frame that ends inside a number")
        byte = payload[at]
        at += 1
        n |= (byte & 127) << shift
        if byte < 128:
            # One number has one form: otherwise the same ids could have two sums.
            if (byte == 0 and shift) or n > MAX_ID:
                break
            return n, at
    raise RemoteProtocolError("a binary frame with a number that is longer than it may be")


def pack_ids(ids: Iterable[int]) -> bytes:
    """Return the payload of a 0x01 frame."""
    return b"".join([pack_number(i) for i in ids])


def unpack_ids(payload: bytes) -> list[int]:
    """Return the ids in the payload of a 0x01 frame.

    >>> unpack_ids(b"\\x03\\xac\\x02")
    [3, 300]
    """
    out = []
    at = 0
    while at < len(payload):
        n, at = unpack_number(payload, at)
        out.append(n)
    return out


def pack_tokens(tokens: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the payload of a 0x02 frame."""
    out = []
    for i, piece in tokens:
        out.append(pack_number(i))
        out.append(pack_number(len(piece)))
        out.append(piece)
    return b"".join(out)


def unpack_tokens(payload: bytes) -> list[tuple[int, bytes]]:
    """Return the (id, bytes) pairs in the payload of a 0x02 frame."""
    out = []
    at = 0
    while at < len(payload):
        i, at = unpack_number(payload, at)
        piece, at = _unpack_bytes(payload, at)
        out.append((i, piece))
    return out


def pack_gap(count: int, data: bytes) -> bytes:
    """Return the payload of a 0x03 frame: `count` tokens of unknown ids that together made `data`."""
    return pack_number(count) + pack_number(len(data)) + data


def unpack_gap(payload: bytes) -> tuple[int, bytes]:
    """Return (count, bytes) in the payload of a 0x03 frame."""
    count, at = unpack_number(payload, 0)
    data, at = _unpack_bytes(payload, at)
    if at != len(payload) or count < 1:
        raise RemoteProtocolError("a 0x03 frame carries one count of at least 1, one length and that many bytes")
    return count, data


def split_at(op: int, payload: bytes, n: int) -> int:
    """Return the offset in the payload after its first `n` positions (bytes for 0x00, tokens for the others).

    >>> split_at(IDS, b"\\x03\\xac\\x02\\x04", 2)
    3
    """
    if op == BYTES:
        return min(n, len(payload))
    at = 0
    if op == GAP:
        if n == 0:
            return 0
        if n == unpack_number(payload, 0)[0]:
            return len(payload)
        raise RemoteProtocolError("a position inside a run of tokens whose ids are not known")
    while n > 0 and at < len(payload):
        _, at = unpack_number(payload, at)
        if op == TOKENS:
            size, at = unpack_number(payload, at)
            at += size
        n -= 1
    return at


def _unpack_bytes(payload: bytes, at: int) -> tuple[bytes, int]:
    size, at = unpack_number(payload, at)
    if at + size > len(payload):
        raise RemoteProtocolError("a binary frame that ends inside a token")
    return payload[at : at + size], at + size


def depth(text: str) -> int:
    """Return how deep a JSON text is nested, or a bound of it that is small. Linear, no recursion.

    >>> depth('[' * 99 + ']' * 99), depth('{"a": "[[[["}')
    (99, 5)
    """
    brackets = text.count("[") + text.count("{")
    if brackets <= MAX_DEPTH:
        return brackets
    level = deepest = 0
    inside = escaped = False
    for ch in text:
        if inside:
            if escaped:
                escaped = False
            elif ch == "\\":
                escaped = True
            elif ch == '"':
                inside = False
        elif ch == '"':
            inside = True
        elif ch == "[" or ch == "{":
            level += 1
            deepest = max(deepest, level)
        elif ch == "]" or ch == "}":
            level -= 1
    return deepest


def check_plain(value: Any) -> None:
    """Refuse what the json module lets through and JSON does not have: NaN, Infinity, lone surrogates. Raises RemoteProtocolError."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeError:
            raise RemoteProtocolError(HALF_A_PAIR) from None
    elif isinstance(value, float):
        if value != value or value - value != 0:
            raise RemoteProtocolError(NOT_JSON)  # NaN and Infinity
    elif isinstance(value, dict):
        for key in value:
            check_plain(key)
            check_plain(value[key])
    elif isinstance(value, list):
        for item in value:
            check_plain(item)
