"""The map of characters in SentencePiece models, `precompiled_charsmap`.

In: a text. Out: what the map has for its beginning. The map is a trie followed by the replacement
texts. The trie is a darts-clone array of 32-bit units: the child for byte b is the unit at
offset ^ b, if its label is b.
"""

import struct

from ..errors import TokenizerFormatError

MAX_CHARSMAP = 1 << 24


class CharacterMap:
    """Finds prefixes of a text in the map. Raises TokenizerFormatError if the map is truncated or,
    when it is used, if an offset in it is out of range.
    """

    def __init__(self, charsmap: bytes) -> None:
        if len(charsmap) > MAX_CHARSMAP:
            raise TokenizerFormatError(
                f"the precompiled_charsmap has {len(charsmap)} bytes; supported: at most {MAX_CHARSMAP}"
            )
        size = struct.unpack_from("<I", charsmap)[0] if len(charsmap) >= 4 else 0
        if size == 0 or size % 4 or 4 + size > len(charsmap):
            raise TokenizerFormatError(
                f"the precompiled_charsmap declares a trie of {size} bytes but has {len(charsmap)} bytes; is the file complete?"
            )
        self._units = struct.unpack_from(f"<{size // 4}I", charsmap, 4)
        self._texts = charsmap[4 + size :]

    def shortest(self, text: str) -> str | None:
        """Return the replacement of the shortest prefix that is in the map, None if none is."""
        found, _ = self._find(text.encode("utf-8", "surrogatepass"), True)
        return found and found[0]

    def longest(self, data: bytes) -> tuple[tuple[str, int] | None, bool]:
        """Return the replacement and the length of the longest prefix that is in the map, None if
        none is; and whether a longer text that begins with all of `data` could be in it.
        """
        return self._find(data, False)

    def _find(self, data: bytes, first: bool) -> tuple[tuple[str, int] | None, bool]:
        units = self._units
        found = None
        try:
            at = _offset(units[0])
            for size, byte in enumerate(data, 1):
                at ^= byte
                unit = units[at]
                if byte == 0 or unit & 0x800000FF != byte:
                    return found, False
                at ^= _offset(unit)
                if unit >> 8 & 1:
                    found = self._text(units[at] & 0x7FFFFFFF), size
                    if first:
                        break
        except (IndexError, ValueError):
            raise TokenizerFormatError(
                "the precompiled_charsmap is damaged: an offset is out of range"
            ) from None
        return found, True

    def _text(self, begin: int) -> str:
        return self._texts[begin : self._texts.index(0, begin)].decode("utf-8")


def _offset(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)
