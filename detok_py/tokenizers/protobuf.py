"""Read the fields of a protobuf message from an untrusted file.

In: bytes. Out: field numbers and values, in the order of the file. The encoding is that of
https://protobuf.dev/programming-guides/encoding; groups, which nobody uses, are refused.
"""

from collections.abc import Iterator
from struct import unpack_from
from typing import Any

from ..errors import TokenizerFormatError

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5


def fields(data: bytes, what: str) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of each field: an int, the bytes of a string or message, or a float for
    a field of four bytes. Those of eight bytes are skipped.

    >>> list(fields(b"\\x0a\\x02Hi\\x18\\x03", "x.model"))
    [(1, b'Hi'), (3, 3)]
    """
    at, end = 0, len(data)
    try:
        while at < end:
            key, at = _varint(data, at)
            number, wire = key >> 3, key & 7
            value: Any = None
            if wire == VARINT:
                value, at = _varint(data, at)
            elif wire == LENGTH:
                size, at = _varint(data, at)
                value = data[at : at + size]
                at += size
            elif wire == FOUR_BYTES:
                at += 4
                if at <= end:
                    (value,) = unpack_from("<f", data, at - 4)
            elif wire == EIGHT_BYTES:
                at += 8
            else:
                raise TokenizerFormatError(
                    f"{what} has a field of wire type {wire}; expected a protobuf message"
                )
            if at > end:
                break
            if value is not None:
                yield number, value
    except IndexError:
        at = end + 1
    if at != end:
        raise TokenizerFormatError(
            f"{what} ends within a field of its protobuf message; is the file complete?"
        )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and where it ends. Raises IndexError at the end of the data."""
    number = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise IndexError
