"""GPT-2's byte alphabet: byte-level pieces spell each byte as one printable character.

The table is `bytes_to_unicode` of GPT-2's `encoder.py`. Hugging Face's ByteLevel uses the same.
"""


def _alphabet() -> str:
    """Return the character of each byte: printable Latin-1 characters stand for themselves, the
    other bytes are U+0100 and up, in order.
    """
    moved = iter(range(0x100, 0x200))
    return "".join(
        chr(byte if 0x21 <= byte <= 0x7E or (byte >= 0xA1 and byte != 0xAD) else next(moved))
        for byte in range(256)
    )


ALPHABET = _alphabet()
BYTE_OF = {character: byte for byte, character in enumerate(ALPHABET)}


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
