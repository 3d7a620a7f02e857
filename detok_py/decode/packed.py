"""The packed file of a vocabulary (.detok).

In: the `Contents` of a vocabulary. Out: the file, and back. A file is sliced as it is used, but
its numbers are checked at once; a damaged one raises VocabularyError. All integers are
little-endian:

    5 bytes   b"detok"
    1 byte    version, 2
    4 bytes   length of the header
    …         header: JSON, UTF-8, keys sorted: size, special, eos, holes, literal, added (id
              ranges [first, last]), rules, long, format
    4·⌈n/64⌉  for every 64th id, where its bytes begin in the blob
    n         the length of each id's bytes, 255 for "255 or more: see `long` in the header"
    …         the blob: the bytes of all ids, one after another
    4 bytes   CRC-32 (RFC 1952, section 8) of all that stands before it

Version 1 has no checksum, and is read as well.
"""

import json
from binascii import crc32
from typing import Any, Callable, Iterable, NamedTuple

from ..errors import VocabularyError

MAGIC = b"detok\x02"
WITHOUT_CHECKSUM = b"detok\x01"
BLOCK = 64
LONG = 255
# The even bytes of a block: its sum is that of 16-bit numbers then, which fit side by side.
LANES = int.from_bytes(b"\xff\x00" * (BLOCK // 2), "little")
MAX_TOKENS = 1 << 22
MAX_DEPTH = 64  # brackets open in a header

# `source` returns the stored bytes of an id in 0..size-1, and None for a hole; `rules` are not
# checked.
Contents = NamedTuple(
    "Contents",
    [
        ("size", int), ("source", "Callable[[int], bytes | None]"), ("rules", Any),
        ("special_ids", Iterable[int]), ("eos_ids", Iterable[int]), ("literal_ids", Iterable[int]),
        ("clean_up", bool), ("silent", bool), ("added_ids", "Iterable[int] | None"),
        ("chat_format", "str | None"),
    ],
)  # fmt: skip


def pack(contents: Contents) -> bytes:
    """Return the packed file; the same contents give the same bytes."""
    size = contents.size
    lengths, starts, parts = bytearray(size), [], []
    holes, long, at = [], {}, 0
    for i in range(size):
        if i % BLOCK == 0:
            starts.append(at.to_bytes(4, "little"))
        token = contents.source(i)
        if token is None:
            holes.append(i)
            continue
        lengths[i] = min(len(token), LONG)
        if len(token) >= LONG:
            long[str(i)] = len(token)
        at += len(token)
        parts.append(token)
    header: dict[str, Any] = {"size": size, "rules": contents.rules}
    optional = {
        "special": _ranges(contents.special_ids),
        "eos": _ranges([i for i in contents.eos_ids if i < size]),
        "holes": _ranges(holes),
        "literal": _ranges(contents.literal_ids),
        "long": long,
        "clean_up": contents.clean_up,
        "silent": contents.silent,
        "format": contents.chat_format,
    }
    for key, value in optional.items():
        if value:
            header[key] = value
    if contents.added_ids is not None:
        header["added"] = _ranges([i for i in contents.added_ids if i < size])
    # Keys sorted by hand: MicroPython's json has no sort_keys.
    fields = [
        json.dumps(key) + ":" + json.dumps(header[key], separators=(",", ":"))
        for key in sorted(header)
    ]
    head = ("{" + ",".join(fields) + "}").encode()
    head_size = len(head).to_bytes(4, "little")
    body = b"".join([MAGIC, head_size, head] + starts + [bytes(lengths)] + parts)
    return body + crc32(body).to_bytes(4, "little")


def unpack(data: bytes) -> Contents:
    """Return the contents of a packed file, which `source` slices."""
    end = _checked_end(data)
    head_end = 10 + int.from_bytes(data[6:10], "little")
    try:
        header = json.loads(_shallow(data[10:head_end]))
        size = header["size"]
        if head_end > end or not isinstance(size, int) or not 0 <= size <= MAX_TOKENS:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged("its header can't be read") from None
    ids = {
        key: _within(header.get(key, []), size, key)
        for key in ("special", "eos", "literal", "holes", "added")
    }
    chat_format = header.get("format")
    if chat_format is not None and not isinstance(chat_format, str):
        raise _damaged("the name of its chat format is no string")
    return Contents(
        size,
        _source(data, head_end, end, size, ids["holes"], header.get("long", {})),
        header.get("rules"),
        ids["special"],
        ids["eos"],
        ids["literal"],
        bool(header.get("clean_up")),
        bool(header.get("silent")),
        ids["added"] if "added" in header else None,
        chat_format,
    )


def places(data: bytes) -> "tuple[list[Any], list[list[int]]]":
    """Return where a packed file has the bytes of its tokens, and its holes as ranges
    [first, last].

    That is where the lengths begin, where the blob begins, and the length of each long token, by
    its id in decimal.
    """
    lengths_at = head_end = 10 + int.from_bytes(data[6:10], "little")
    header = json.loads(data[10:head_end])
    lengths_at += 4 * ((header["size"] + BLOCK - 1) // BLOCK)
    return [lengths_at, lengths_at + header["size"], header.get("long", {})], header.get(
        "holes", []
    )


def _damaged(why: str) -> VocabularyError:
    return VocabularyError(f"damaged vocabulary file: {why}; fetch or pack it again")


def _shown(data: bytes) -> str:
    """Return bytes as an error shows them.

    >>> _shown(b"detok\\x02")
    '"detok" 02'
    """
    text = "".join([chr(byte) if 0x20 <= byte < 0x7F else "" for byte in data])
    others = [f"{byte:02x}" for byte in data if not 0x20 <= byte < 0x7F]
    return " ".join(['"' + text + '"'] + others)


def _checked_end(data: bytes) -> int:
    """Return where the blob ends, once the checksum is found right."""
    if data[:6] not in (MAGIC, WITHOUT_CHECKSUM) or len(data) < 10:
        raise VocabularyError(
            f"not a packed vocabulary: it begins with {_shown(data[:6])}, not {_shown(MAGIC)}; make one with `detok pack`"
        )
    if data[:6] == WITHOUT_CHECKSUM:
        return len(data)
    end = len(data) - 4
    if crc32(memoryview(data)[:end]) != int.from_bytes(data[end:], "little"):
        raise _damaged(
            f"its {len(data)} bytes don't have the checksum that stands at their end",
        )
    return end


def _source(
    data: bytes, starts_at: int, end: int, size: int, holes: frozenset[int], long: Any
) -> Callable[[int], bytes | None]:
    """Return the function that slices the bytes of an id out of the file."""
    lengths_at = starts_at + 4 * ((size + BLOCK - 1) // BLOCK)
    blob_at = lengths_at + size
    lengths = data[lengths_at:blob_at]
    if len(lengths) != size:
        raise _damaged(f"it has {end} bytes and its header asks for more than {blob_at}")
    _check_long(lengths, long)

    def length(i: int) -> int:
        n = lengths[i]
        return int(long[str(i)]) if n == LONG else n

    def total_length(first: int, last: int) -> int:
        part = lengths[first:last]
        if long and LONG in part:
            return sum([length(first + n) for n in range(len(part))])
        return _sum_of_block(part)

    # The lengths come from the same file as the block starts do; one wrong start would give wrong
    # text in silence.
    at, starts, lanes = 0, [], LANES
    for first in range(0, size, BLOCK):
        starts.append((at & 0xFFFFFFFF).to_bytes(4, "little"))
        if long:
            at += total_length(first, first + BLOCK)
        else:  # as `_sum_of_block`, without calls
            number = int.from_bytes(lengths[first : first + BLOCK], "little")
            at += ((number & lanes) + (number >> 8 & lanes)) % 0xFFFF
    if end != blob_at + at:
        raise _damaged(f"it has {end} bytes and its header asks for {blob_at + at}")
    if data[starts_at:lengths_at] != b"".join(starts):
        raise _damaged("its offsets don't add up")

    def source(i: int) -> bytes | None:
        if i in holes:
            return None
        block = i // BLOCK
        # The block's start, and the tokens of the block before this one.
        begin = starts_at + 4 * block
        begin = blob_at + int.from_bytes(data[begin : begin + 4], "little")
        if long:
            begin += total_length(block * BLOCK, i)
            return data[begin : begin + length(i)]
        begin += sum(lengths[block * BLOCK : i])
        return data[begin : begin + lengths[i]]

    return source


def _sum_of_block(lengths: bytes) -> int:
    """Return the sum of at most `BLOCK` lengths, in MicroPython five times as fast as `sum`.

    >>> _sum_of_block(bytes([255] * BLOCK)) == 255 * BLOCK
    True
    """
    number = int.from_bytes(lengths, "little")
    return ((number & LANES) + (number >> 8 & LANES)) % 0xFFFF


def _check_long(lengths: bytes, long: Any) -> None:
    """Raise VocabularyError if the lengths of long tokens are not those of the tokens that have
    `LONG` in their place.
    """
    if not isinstance(long, dict) or lengths.count(bytes([LONG])) != len(long):
        raise _damaged("its long tokens don't add up")
    for key, n in long.items():
        try:
            i = int(key)
        except ValueError:
            i = -1
        # `int` also reads "00", " 1" and the digits of other scripts.
        is_long = str(i) == key and 0 <= i < len(lengths) and lengths[i] == LONG
        if not (is_long and n.__class__ is int and n >= LONG):
            raise _damaged("its long tokens don't add up")


def _ranges(ids: Iterable[int]) -> list[list[int]]:
    out: list[list[int]] = []
    for i in sorted(ids):
        if out and out[-1][1] == i - 1:
            out[-1][1] = i
        else:
            out.append([i, i])
    return out


def _within(ranges: Any, size: int, what: str) -> frozenset[int]:
    """Return the ids of a header's list of ranges."""
    if not isinstance(ranges, list):
        raise _damaged(what + " is not a list of ranges")
    ids: list[int] = []
    last = -1
    for pair in ranges:
        if not (
            isinstance(pair, list)
            and [each.__class__ for each in pair] == [int, int]
            and last < pair[0] <= pair[1] < size
        ):
            raise _damaged(f"{what} is not ascending ranges of ids in 0..{size - 1}")
        ids.extend(range(pair[0], pair[1] + 1))
        last = pair[1]
    return frozenset(ids)


def _shallow(head: bytes) -> str:
    """Return the text of a header that is not nested too deep to be parsed: in WebAssembly 3,000
    levels end the interpreter for good.
    """
    depth = 0
    bare = head.replace(b"\\\\", b"").replace(b'\\"', b"")
    for byte in b"".join(bare.split(b'"')[::2]):  # without the strings
        if byte == 0x5B or byte == 0x7B:
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError
        elif byte == 0x5D or byte == 0x7D:
            depth -= 1
    return head.decode()
