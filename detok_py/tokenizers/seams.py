"""Where a piece can be cut before its symbols are merged: where no token reaches across.

The parts between such seams encode to the same ids as the whole piece. A piece may be a paragraph
(SentencePiece), or a sentence of a language without spaces, and never come again; its parts do, and
their ids are cached.
"""

import re
from operator import add
from typing import Callable, Iterable

MAX_PAIRS = 65536
_SEAM = "\ud800"  # in no piece: half of a surrogate pair has no UTF-8


class SpaceSeams:
    """Cuts text at spaces that no merge crosses.

    A SentencePiece vocabulary has no pre-tokenizer and sees a whole paragraph as one piece.
    `joined` are the characters that some merge joins to a following `space`. After any other
    character the text can be cut before the space.

    >>> SpaceSeams("▁", {"▁", ","}).split("▁a▁b,▁c")
    ['▁a', '▁b,▁c']
    """

    __slots__ = ("_cut", "space")

    def __init__(self, space: str, joined: Iterable[str]) -> None:
        self.space: str = space
        inside = "".join(map(re.escape, sorted(joined)))
        self._cut = re.compile(
            f"(?<![{inside}])(?={space})(?!^)" if inside else f"(?={space})(?!^)"
        )

    def split(self, text: str) -> list[str]:
        """Return the parts of the text; joined, they are the text."""
        return self._cut.split(text)


class CharacterSeams(dict[str, str]):
    r"""Cuts text between characters that no byte-level token has side by side.

    `read` returns the tokens that are not ASCII, with 0xFF between them, which UTF-8 never has. It
    is called when `after` characters have come: reading takes as long as merging about as many.
    Up to 65,536 pairs of characters are remembered: the first one and, where the text can be cut,
    the seam behind it.

    >>> tokens = [
    ...     "日本".encode(),
    ...     "本の".encode(),
    ...     b"\xac\xe8",
    ... ]  # the last joins parts of 本 and 語
    >>> CharacterSeams(lambda: b"\xff".join(tokens), 0).split("日本の本語日")
    ['日本の', '本語', '日']
    """

    __slots__ = ("_after", "_joined", "_read")

    def __init__(self, read: Callable[[], bytes], after: int) -> None:
        self._read: Callable[[], bytes] | None = read
        self._after = after

    def split(self, text: str) -> list[str]:
        """Return the parts of a text; joined, they are the text."""
        read = self._read
        if read is not None:
            self._after -= len(text)
            if self._after >= 0:
                return [text]
            # A byte of a part of a character becomes a surrogate.
            tokens = read().decode("utf-8", "surrogateescape")
            self._joined = set(map(add, tokens, tokens[1:]))
            self._read = None  # last, for other threads
        return "".join([*map(self.__getitem__, map(add, text, text[1:])), text[-1]]).split(_SEAM)

    def __missing__(self, pair: str) -> str:
        if len(self) >= MAX_PAIRS:
            self.clear()
        left, right = pair[0], pair[1]
        # Of ASCII, whose tokens are not in the set, nothing is cut. Of a part of a character only
        # the byte at the seam is compared: that finds all that is joined, and little else.
        end = chr(0xDC00 + left.encode("utf-8")[-1])
        beginning = chr(0xDC00 + right.encode("utf-8")[0])
        whole = (left < "\x80" > right) or not self._joined.isdisjoint(
            (pair, left + beginning, end + right, end + beginning)
        )
        self[pair] = cut = left if whole else left + _SEAM
        return cut
