"""GPT-2's byte alphabet: byte-level pieces spell each byte as one printable character.

The table is `bytes_to_unicode` of GPT-2's `encoder.py`. Hugging Face's ByteLevel uses the same.
"""


def _alphabet() -> dict[str, int]:
    """Return the map from character to byte.

    Printable Latin-1 characters stand for themselves. The other bytes are U+0100 and up, in order.
    """
    table = {}
    moved = 0x100
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or (byte >= 0xA1 and byte != 0xAD):
            table[chr(byte)] = byte
        else:
            table[chr(moved)] = byte
            moved += 1
    return table


BYTE_OF = _alphabet()


def byte_level(piece: str) -> bytes:
    """Return the bytes of a byte-level piece.

    A piece with a character outside the alphabet is its own UTF-8, as in Hugging Face.

    >>> byte_level("Ġworld"), byte_level("你")
    (b' world', b'\\xe4\\xbd\\xa0')
    """
    try:
        return bytes([BYTE_OF[c] for c in piece])
    except KeyError:
        return piece.encode()
