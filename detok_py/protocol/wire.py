"""detok.v1: messages to WebSocket frames and back, sans-I/O.

In: messages and data. Out: frames, `str` for a text frame and `bytes` for a binary one. Held:
nothing.

A text frame is one JSON object with a `type`. A binary frame is one op byte, then the payload. RFC
6455 requires text frames to be valid UTF-8, so only a binary frame can carry part of a character.

    op     payload                              one entry is
    0x00   raw bytes                            a byte
    0x01   id, id, …                            a token
    0x02   (id, length, bytes) …                a token with its bytes
    0x03   count, length, bytes                 `count` tokens of unknown ids, and their bytes

Numbers are unsigned LEB128 in their shortest form, at most 2³² - 1. A frame may have any number of
entries (0x03: one). Frame boundaries have no meaning: the stream is the joined payloads, and
`finished` has their SHA-256.

>>> data_frame(BYTES, b"\\xf0\\x9f"), data_frame(IDS, pack_ids([3, 300]))
(b'\\x00\\xf0\\x9f', b'\\x01\\x03\\xac\\x02')
>>> read_data(b"\\x02\\x03\\x02\\xf0\\x9f")
(2, [(3, b'\\xf0\\x9f')])
>>> read_message(message("ack", n=64))["n"]
64
"""

import json
from typing import Any, Iterable

from ..errors import RemoteProtocolError

SUBPROTOCOL = "detok.v1"

BYTES = 0
IDS = 1
TOKENS = 2
GAP = 3
OPS: dict[str, tuple[int, ...]] = {
    "bytes": (BYTES,),
    "ids": (IDS,),
    "both": (TOKENS, GAP),
}  # by what the stream carries

_LONE_SURROGATE = "A string in a message has a lone surrogate."
_NOT_JSON = "A text frame must be JSON."
MAX_DEPTH = 64
MAX_VALUES = 1 << 16
MAX_MESSAGE = 1 << 20
MAX_ID = (1 << 32) - 1

# Close codes: 4000 plus the HTTP status with the same meaning.
BAD_MESSAGE = 4400
NO_SUCH_ENGINE = 4404
WRONG_SUBPROTOCOL = 4406
VOCABULARY_MISMATCH = 4409
RESUME_EXPIRED = 4410
BUSY = 4429
CANCELLED = 4499
ENGINE_DOWN = 4503

try:
    _encode: Any = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
except AttributeError:  # MicroPython's `dumps` escapes no characters

    def _encode(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))


# The close codes after which a client reconnects: going away, abnormal, restarting, busy, engine
# down.
RETRY_CODES = (1001, 1006, 1012, BUSY, ENGINE_DOWN)


def message(kind: str, **fields: Any) -> str:
    """Return the text frame of a message; fields that are None are left out. Only a lone
    surrogate is escaped: a server limits the bytes of a frame.

    >>> message("finished", reason="eos", tokens=3, sha256=None)
    '{"type":"finished","reason":"eos","tokens":3}'
    >>> message("generate", prompt="日本")
    '{"type":"generate","prompt":"日本"}'
    """
    out: dict[str, Any] = {"type": kind}
    out.update({name: fields[name] for name in fields if fields[name] is not None})
    text = str(_encode(out))
    try:
        if b"\xed" not in text.encode("utf-8"):
            return text
    except UnicodeError:  # MicroPython encodes a surrogate, in bytes from ED on
        pass
    return "".join([c if not 0xD800 <= ord(c) < 0xE000 else f"\\u{ord(c):04x}" for c in text])


def read_message(frame: str) -> dict[str, Any]:
    """Return the message in a text frame: a dict with a `type`.

    Raises RemoteProtocolError (4400) if the frame is too long, is nested deeper than 64, has more
    than 65,536 values, is not a JSON object, or has NaN or a lone surrogate. Depth and values are
    counted before parsing: a deeply nested text can exhaust the stack of a WebAssembly interpreter,
    and each value costs much more time and memory than its characters.
    """
    if len(frame) > MAX_MESSAGE:
        raise RemoteProtocolError(
            f"A message must have at most {MAX_MESSAGE} characters, not {len(frame)}."
        )
    if values(frame) > MAX_VALUES:
        raise RemoteProtocolError(f"A message must have at most {MAX_VALUES} values.")
    if depth(frame) > MAX_DEPTH:
        raise RemoteProtocolError(f"A message must not be nested deeper than {MAX_DEPTH}.")
    try:
        out = json.loads(frame)
    except ValueError as error:
        # `from None`: the parser's error has the whole document, and a prompt must not reach a log.
        # MicroPython's parser refuses a lone surrogate.
        raise RemoteProtocolError(
            _LONE_SURROGATE if "surrogate" in str(error) else _NOT_JSON
        ) from None
    if not isinstance(out, dict) or not isinstance(out.get("type"), str):
        raise RemoteProtocolError('A message must be an object with a type, like {"type":"ping"}.')
    check_plain(out)
    return out


def close_reason(sentence: str) -> str:
    """Return a sentence as the reason of a close frame, which has room for 123 bytes: its first 100
    characters, with a question mark for each that is not ASCII.

    >>> close_reason("The engine's vocabulary is 3f2a…")
    "The engine's vocabulary is 3f2a?"
    """
    return "".join([c if " " <= c <= "~" else "?" for c in sentence[:100]])


def data_frame(op: int, payload: bytes) -> bytes:
    """Return the binary frame of a payload."""
    return bytes([op]) + payload


def read_data(frame: bytes) -> tuple[int, Any]:
    """Return (op, entries) of a binary frame: bytes, ids, (id, bytes) pairs, or (count, bytes).

    Raises RemoteProtocolError (4400) for an unknown op or a payload that ends inside a number or a
    token.
    """
    if not frame:
        raise RemoteProtocolError("A binary frame must have an op byte.")
    op = frame[0]
    if op >= len(_UNPACK):
        raise RemoteProtocolError(f"Unknown op byte {op}; detok.v1 has 0 to 3.")
    return op, _UNPACK[op](frame[1:])


def pack_number(n: int) -> bytes:
    """Return `n` as unsigned LEB128.

    >>> pack_number(300)
    b'\\xac\\x02'
    """
    if 0 <= n < 128:
        return bytes([n])
    if n < 0 or n > MAX_ID:
        raise ValueError(f"{n} does not fit: a number in detok.v1 is 0 to {MAX_ID}.")
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
            raise RemoteProtocolError("A binary frame ends inside a number.")
        byte = payload[at]
        at += 1
        n |= (byte & 127) << shift
        if byte < 128:
            # Only the shortest form is valid, so the same ids always have the same SHA-256.
            if (byte == 0 and shift) or n > MAX_ID:
                break
            return n, at
    raise RemoteProtocolError(f"A number must be at most {MAX_ID}, in its shortest form.")


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
    """Return the payload of a 0x03 frame: `count` tokens of unknown ids, whose bytes are `data`."""
    return pack_number(count) + pack_number(len(data)) + data


def unpack_gap(payload: bytes) -> tuple[int, bytes]:
    """Return (count, bytes) in the payload of a 0x03 frame."""
    count, at = unpack_number(payload, 0)
    data, at = _unpack_bytes(payload, at)
    if at != len(payload) or count < 1:
        raise RemoteProtocolError(
            "A 0x03 frame must have a count of at least 1, a length and that many bytes."
        )
    return count, data


_UNPACK: tuple[Any, ...] = (bytes, unpack_ids, unpack_tokens, unpack_gap)  # by op


def split_at(op: int, payload: bytes, n: int, at: int = 0) -> int:
    """Return the offset in the payload that is `n` positions (bytes for 0x00, tokens for the
    others) after offset `at`.

    >>> split_at(IDS, b"\\x03\\xac\\x02\\x04", 2)
    3
    """
    if op == BYTES:
        return min(at + n, len(payload))
    if op == GAP:
        if n == 0:
            return 0
        if n == unpack_number(payload, 0)[0]:
            return len(payload)
        raise RemoteProtocolError("A position must not be inside a 0x03 frame.")
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
        raise RemoteProtocolError("A binary frame ends inside a token.")
    return payload[at : at + size], at + size


def depth(text: str) -> int:
    """Return how deep a JSON text is nested, or an upper bound that is at most `MAX_DEPTH`. Takes
    linear time and does not recurse.

    >>> depth("[" * 99 + "]" * 99), depth('{"a": "[[[["}')
    (99, 5)
    """
    brackets = text.count("[") + text.count("{")
    if brackets <= MAX_DEPTH:
        return brackets
    level = deepest = 0
    # Between two closing brackets there are only opening ones.
    for piece in _without_strings(text).replace("}", "]").split("]"):
        level += piece.count("[") + piece.count("{")
        deepest = max(deepest, level)
        level -= 1
    return deepest


def values(text: str) -> int:
    """Return about how many values a JSON text has, or an upper bound that is at most `MAX_VALUES`.

    >>> values('[1, ",,,,", {}]'), values("[" + "0," * 99999 + "0]")
    (8, 100000)
    """
    many = _separators(text)
    return many if many <= MAX_VALUES else _separators(_without_strings(text))


def _separators(text: str) -> int:
    return text.count("[") + text.count("{") + text.count(",")


def _without_strings(text: str) -> str:
    pieces = text.replace("\\\\", "").replace('\\"', "").split('"')
    return "".join([pieces[i] for i in range(0, len(pieces), 2)])


def check_plain(value: Any) -> None:
    """Raise RemoteProtocolError for what the json module accepts and JSON does not have: NaN,
    Infinity, lone surrogates.
    """
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeError:
            raise RemoteProtocolError(_LONE_SURROGATE) from None
    elif isinstance(value, float):
        if value != value or value - value != 0:
            raise RemoteProtocolError(_NOT_JSON)
    elif isinstance(value, dict):
        for key in value:
            check_plain(key)
            check_plain(value[key])
    elif isinstance(value, list):
        for item in value:
            check_plain(item)
