"""Byte-pair encoding: repeatedly merge the adjacent pair of lowest rank, leftmost first.

In: a piece from the pre-tokenizer. Out: its ids. The rank of a pair comes from a list of merges
(`BytePairEncoder`: tokenizer.json, GGUF "gpt2"), from the rank of the joined bytes (`RankEncoder`:
tiktoken, tekken), or from the score of the joined text (`sentencepiece.ScoreMerger`). All three use
the same `merge`.

A short piece is scanned for its lowest rank. A long one keeps its pairs in a heap, which takes
O(n log n): a megabyte without a space takes seconds. Up to 65,536 words are cached; a long
piece is cached in parts, cut at its seams.
"""

import codecs
import re
from heapq import heapify, heappop, heappush
from itertools import chain, pairwise, repeat
from operator import add
from typing import Any, Callable, Iterable, Mapping, Sequence

from ..decode.byte_level import ALPHABET
from ..errors import TokenizerFormatError, VocabularyError
from .seams import CharacterSeams, SpaceSeams

NEVER = 1 << 60  # the rank of a pair that does not merge
MAX_SCANNED = 96  # symbols; a heap is faster than scanning for more
MAX_REMEMBERED_CHARACTERS = 256
MAX_WORDS = 65536
MIN_CUT = 24  # bytes; most words of languages with spaces are shorter
_BYTES = [bytes((byte,)) for byte in range(256)]
_NOT_ASCII = re.compile(f"[{ALPHABET[128:]}]").search
_TO_BYTES = codecs.charmap_build(ALPHABET)

Rank = Callable[[tuple[Any, Any], int], int]


def merge(parts: list[Any], rank: Rank, skip: int = 0) -> list[Any]:
    """Return the symbols after all merges; `parts` is modified.

    `rank((left, right), NEVER)` returns the rank of a pair, or `NEVER`. A merged symbol is
    `left + right[skip:]`.

    >>> merge(list("banana"), {("a", "n"): 0, ("an", "a"): 1}.get)
    ['b', 'an', 'ana']
    """
    if len(parts) > MAX_SCANNED:
        return _merge_long(parts, rank, skip)
    ranks = list(map(rank, pairwise(parts), repeat(NEVER)))
    while ranks:
        lowest = min(ranks)
        if lowest == NEVER:
            break
        at = ranks.index(lowest)
        joined = parts[at] + (parts[at + 1][skip:] if skip else parts[at + 1])
        parts[at] = joined
        del parts[at + 1], ranks[at]
        if at < len(ranks):
            ranks[at] = rank((joined, parts[at + 1]), NEVER)
        if at:
            ranks[at - 1] = rank((parts[at - 1], joined), NEVER)
    return parts


def _merge_long(parts: list[Any], rank: Rank, skip: int) -> list[Any]:
    # A heap entry is the integer rank * count + position, which sorts like (rank, position). An
    # entry is stale if the rank at its position has changed since.
    count = len(parts)
    ranks = list(map(rank, pairwise(parts), repeat(NEVER)))
    ranks.append(NEVER)
    following = list(range(1, count + 1))
    before = list(range(-1, count - 1))
    heap = [one * count + at for at, one in enumerate(ranks) if one != NEVER]
    heapify(heap)
    while heap:
        lowest, at = divmod(heappop(heap), count)
        if ranks[at] != lowest:
            continue
        right = following[at]
        joined = parts[at] + (parts[right][skip:] if skip else parts[right])
        parts[at] = joined
        parts[right] = None
        ranks[right] = NEVER
        after = following[at] = following[right]
        if after < count:
            before[after] = at
            ranks[at] = new = rank((joined, parts[after]), NEVER)
            if new != NEVER:
                heappush(heap, new * count + at)
        else:
            ranks[at] = NEVER
        left = before[at]
        if left >= 0:
            ranks[left] = new = rank((parts[left], joined), NEVER)
            if new != NEVER:
                heappush(heap, new * count + left)
    return [part for part in parts if part is not None]


class Words(dict[Any, Any]):
    """A cache from words to their ids, or to what else a function makes of a word; a missing word
    is made on lookup.

    The cache is emptied when it is full, which bounds it without tracking use.

    >>> words = Words(lambda word: tuple(map(ord, word)))
    >>> words["ab"], len(words)
    ((97, 98), 1)
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __missing__(self, word: Any) -> Any:
        made = self._make(word)
        if len(word) <= MAX_REMEMBERED_CHARACTERS:
            if len(self) >= MAX_WORDS:
                self.clear()
            self[word] = made
        return made


class WordEncoder:
    """Encodes words, or pieces, each by itself, and remembers their ids."""

    def __init__(self, encode: Callable[[str], tuple[int, ...]]) -> None:
        self._words = Words(encode)

    def encode(self, word: str) -> list[int]:
        """Return the ids of one word; `[]` for an empty one."""
        return list(self._words[word])

    def encode_all(self, words: Iterable[str]) -> list[int]:
        """Return the ids of all words, joined; faster than `encode` for each."""
        return list(chain.from_iterable(map(self._words.__getitem__, words)))


class BytePairEncoder(WordEncoder):
    """Encode a piece by a list of merges: the `BPE` model of a tokenizer.json.

    `vocab` maps tokens to ids. `merges` lists the pairs in the order of their ranks. A character
    that is not in the vocabulary becomes its `<0x..>` tokens (with `byte_fallback`, if all exist),
    else `unk_token` (with `fuse_unk`, one for a run), else nothing, as in Hugging Face
    `tokenizers`. With `ignore_merges`, a piece that is a token is encoded as that token.

    Raises TokenizerFormatError if a merge needs a token that is not in the vocabulary.

    >>> bpe = BytePairEncoder({"a": 0, "b": 1, "ab": 2}, [("a", "b")])
    >>> bpe.encode("abba")
    [2, 1, 0]
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        *,
        unk_token: str | None = None,
        byte_fallback: bool = False,
        ignore_merges: bool = False,
        continuing_subword_prefix: str | None = None,
        end_of_word_suffix: str | None = None,
        fuse_unk: bool = False,
    ) -> None:
        self._vocab = vocab
        self._unk_token = unk_token
        self._byte_fallback = byte_fallback
        self._ignore_merges = ignore_merges
        self._prefix = continuing_subword_prefix or ""
        self._suffix = end_of_word_suffix or ""
        self._fuse_unk = fuse_unk
        self._ranks: dict[tuple[str, str], int] = dict(zip(merges, range(len(merges))))
        self._check_merges(merges)
        self._single = frozenset([token for token in vocab if len(token) == 1])
        self._seams: SpaceSeams | None = None
        self._seams_known = bool(self._prefix or self._suffix)
        self._characters: CharacterSeams | None = None
        self._parts = Words(
            lambda part: self._merge(list(map(ALPHABET.__getitem__, part.encode("utf-8"))))
        )
        super().__init__(self._encode_piece)
        self._segments = Words(self._encode_segment) if ignore_merges else self._words

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        if self._ignore_merges and piece in self._vocab:
            return (self._vocab[piece],)
        if not self._seams_known:
            self._find_seams()
        # If an unknown character is dropped, its neighbours become adjacent and may merge; then the
        # text can't be cut.
        if (
            self._seams is not None
            and piece.find(self._seams.space, 1) > 0
            and (self._unk_token is not None or self._single.issuperset(piece))
        ):
            segments = self._seams.split(piece)
            if len(segments) > 1:
                return tuple(chain.from_iterable(map(self._segments.__getitem__, segments)))
        return self._encode_segment(piece)

    def _encode_segment(self, piece: str) -> tuple[int, ...]:
        if self._prefix or self._suffix or not self._single.issuperset(piece):
            parts = self._symbols(piece)
        else:
            if self._characters is not None and len(piece) > MIN_CUT:
                cut = self._cut(piece, self._characters)
                if len(cut) > 1:
                    return tuple(chain.from_iterable(map(self._parts.__getitem__, cut)))
            parts = list(piece)
        return self._merge(parts)

    def _merge(self, parts: list[str]) -> tuple[int, ...]:
        return tuple(map(self._vocab.__getitem__, merge(parts, self._ranks.get, len(self._prefix))))

    def _cut(self, piece: str, seams: CharacterSeams) -> Sequence[str]:
        # The parts of a piece, as text; none where it is not text in the byte alphabet.
        try:
            text = codecs.charmap_encode(piece, "strict", _TO_BYTES)[0].decode("utf-8")
        except UnicodeError:
            return ()
        return seams.split(text) if len(text) < len(piece) else ()

    def _symbols(self, piece: str) -> list[str]:
        # As in `tokenizers` (models/bpe/model.rs, merge_word): an unknown token is held back for
        # fusing until the next known symbol, so byte tokens in between come before it.
        vocab = self._vocab
        parts: list[str] = []
        waiting = False
        for at, character in enumerate(piece):
            symbol = character if at == 0 else self._prefix + character
            if at == len(piece) - 1:
                symbol += self._suffix
            if symbol in vocab:
                if waiting:
                    parts.append(self._unk_token or "")
                    waiting = False
                parts.append(symbol)
                continue
            if self._byte_fallback:
                tokens = [f"<0x{byte:02X}>" for byte in symbol.encode("utf-8", "surrogatepass")]
                if all(map(vocab.__contains__, tokens)):
                    parts += tokens
                    continue
            if self._unk_token is not None:
                if waiting and not self._fuse_unk:
                    parts.append(self._unk_token)
                if self._unk_token not in vocab:
                    raise VocabularyError(
                        f"{character!r} needs the unknown token {self._unk_token!r}, which is not in the vocabulary"
                    )
                waiting = True
        if waiting:
            parts.append(self._unk_token or "")
        return parts

    def _find_seams(self) -> None:
        self._seams_known = True
        for space in ("▁", "Ġ"):
            if space not in self._vocab:
                continue
            left = {a for a, b in self._ranks if b[0] == space}
            # The unknown token and byte tokens are not the text that they stand for, so their last
            # character can't tell where the text may be cut.
            if not any(a == self._unk_token or (len(a) == 6 and a.startswith("<0x")) for a in left):
                self._seams = SpaceSeams(space, {a[-1] for a in left})
            break
        if "▁" not in self._vocab and self._single.issuperset(ALPHABET):
            # Measured: reading all tokens takes as long as merging a sixth as many characters.
            self._characters = CharacterSeams(self._tokens, len(self._vocab) // 6)

    def _tokens(self) -> bytes:
        # A character outside the alphabet is in no piece.
        tokens = "ÿ".join(filter(_NOT_ASCII, self._vocab))
        return codecs.charmap_encode(tokens, "ignore", _TO_BYTES)[0]

    def _check_merges(self, pairs: Sequence[tuple[str, str]]) -> None:
        known = self._vocab.__contains__
        skip = len(self._prefix)
        joined = [a + b[skip:] for a, b in pairs] if skip else [a + b for a, b in pairs]
        if not all(a and b for a, b in pairs):
            raise TokenizerFormatError("a merge has an empty part; expected two tokens")
        if all(map(known, joined)) and all(known(a) and known(b) for a, b in pairs):
            return
        for (a, b), both in zip(pairs, joined):
            for token in (a, b, both):
                if not known(token):
                    raise TokenizerFormatError(
                        f"the merge {a!r} + {b!r} needs the token {token!r}, which is not in the vocabulary"
                    )


class RankEncoder(WordEncoder):
    """Encode a piece by ranks, as tiktoken and tekken do: a pair has the rank of its joined bytes.

    `ranks` maps each token to its rank, which is also its id, and contains all 256 single bytes. A
    piece that is a token is encoded as that token. Raises TokenizerFormatError if a byte is
    missing.

    >>> ranks = {bytes([i]): i for i in range(256)} | {b"ab": 256, b"abc": 257}
    >>> RankEncoder(ranks).encode("xabc"), RankEncoder(ranks).encode_bytes(b"ab\\xff")
    ([120, 257], [256, 255])
    """

    def __init__(self, ranks: Mapping[bytes, int]) -> None:
        missing = [byte for byte in range(256) if bytes((byte,)) not in ranks]
        if missing:
            raise TokenizerFormatError(
                f"{len(missing)} of the 256 bytes have no rank, first 0x{missing[0]:02X}; expected a rank for each byte"
            )
        self._ranks = ranks
        super().__init__(self._encode)
        self._parts = Words(lambda part: self._merge(part.encode("utf-8")))
        # Tokens that are bytes are read four times as fast as those in the byte alphabet.
        self._characters = CharacterSeams(self._tokens, len(ranks) // 24)

    def encode_bytes(self, piece: bytes) -> list[int]:
        """Return the ids of a piece of bytes, which may be invalid UTF-8."""
        known = self._ranks.get(piece)
        return list(self._merge(piece)) if known is None else [known]

    def _encode(self, piece: str) -> tuple[int, ...]:
        data = piece.encode("utf-8")
        known = self._ranks.get(data)
        if known is not None:
            return (known,)
        if len(data) > MIN_CUT and len(data) > len(piece):
            cut = self._characters.split(piece)
            if len(cut) > 1:
                return tuple(chain.from_iterable(map(self._parts.__getitem__, cut)))
        return self._merge(data)

    def _merge(self, data: bytes) -> tuple[int, ...]:
        # The first meeting of a word is most of what a new text costs: this is `merge` for this
        # rule, without a call of Python for each rank, and all in one function.
        get = self._ranks.get
        parts = list(map(_BYTES.__getitem__, data))
        if len(parts) > MAX_SCANNED:
            parts = _merge_long(parts, lambda pair, default: get(pair[0] + pair[1], default), 0)
            return tuple(map(self._ranks.__getitem__, parts))
        ranks = list(map(get, map(add, parts, parts[1:]), repeat(NEVER)))
        count = len(ranks)
        ranks.append(NEVER)  # of no pair
        while count:
            lowest = min(ranks)
            if lowest == NEVER:
                break
            at = ranks.index(lowest)
            parts[at] = joined = parts[at] + parts.pop(at + 1)
            del ranks[at]
            count -= 1
            if at < count:
                ranks[at] = get(joined + parts[at + 1], NEVER)
            if at:
                ranks[at - 1] = get(parts[at - 1] + joined, NEVER)
        return tuple(map(self._ranks.__getitem__, parts))

    def _tokens(self) -> bytes:
        return b"\xff".join([token for token in self._ranks if not token.isascii()])
