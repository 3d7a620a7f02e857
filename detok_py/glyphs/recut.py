"""Where to cut a stream.

In: bytes. Out: the same bytes in other pieces. Held: the last eight bytes, to know what a cut
splits.
"""

import random
import re
from collections.abc import Iterator

from ..errors import DetokError


class ProxyError(DetokError, RuntimeError):
    """The proxy cannot do what was asked, or cannot read what one side sent."""


class Recut:
    """Cuts bytes into other pieces: `every-byte`, `token`, `random:SEED` or `none`.

    `feed(data)` yields `(piece, pause)` pairs. Joined, the pieces are `data`. `pause` is true where
    a cut can break a careless reader: inside a character, inside a JSON escape, and after a line
    end.

    >>> [piece for piece, _ in Recut("every-byte").feed("né".encode())]
    [b'n', b'\\xc3', b'\\xa9']
    >>> b"".join([piece for piece, _ in Recut("random:7").feed(b"any bytes")])
    b'any bytes'
    """

    def __init__(self, split: str = "every-byte") -> None:
        self.split: str
        self.split, _, seed = split.partition(":")
        if self.split not in ("every-byte", "token", "random", "none") or (
            seed and self.split != "random"
        ):
            raise ProxyError(
                f"There is no split {split!r}; use every-byte, token, random:SEED or none."
            )
        try:
            self.random: random.Random = random.Random(int(seed or 0))
        except ValueError:
            raise ProxyError(
                f"The seed of {split!r} is not a whole number; write random:7, for example."
            ) from None
        self._before = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        if not data:
            return
        for piece in self._pieces(data):
            self._before = (self._before + piece)[-8:]
            yield piece, _matters(self._before)

    def _pieces(self, data: bytes) -> list[bytes]:
        if self.split == "none":
            return [data]
        if self.split == "every-byte":
            return [data[i : i + 1] for i in range(len(data))]
        if self.split == "token":
            # Like tokens of a byte-level vocabulary: words, single signs, and halves of characters
            # of three or four bytes.
            return re.findall(
                rb" ?[A-Za-z0-9_]+|[\xc0-\xff][\x80-\xbf]?|[\x80-\xbf]+|\n+|[\x00-\x7f]", data
            )
        pieces, i = [], 0
        while i < len(data):
            size = self.random.choice((1, 1, 2, 3, 5, 8, 13, 40))
            pieces.append(data[i : i + size])
            i += size
        return pieces


def _matters(before: bytes) -> bool:
    """Return whether a cut after these bytes can break a careless reader."""
    if before[-1] >= 0x80:
        for back in range(1, 4):
            lead = before[-back] if len(before) >= back else 0
            if lead >= 0xC0:
                return back < (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4)
        return False
    return before.endswith((b"\n", b"\r")) or bool(
        re.search(rb"\\(u[0-9a-fA-F]{0,3})?$|\\u[dD][89abAB][0-9a-fA-F]{2}$", before)
    )
