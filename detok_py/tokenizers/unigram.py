"""Unigram: cut a piece into the tokens with the highest sum of scores (Viterbi).

In: a piece from the pre-tokenizer. Out: its ids. A character that no token covers scores ten less
than the worst token; a run of them is one unknown token, or its `<0x..>` tokens. The sums are
formed in the order of Hugging Face `tokenizers` (models/unigram/model.rs) and the first of equal
sums wins, so ties are broken the same way.
"""

from typing import Iterable, Sequence

from ..errors import TokenizerFormatError, VocabularyError
from .byte_bpe import WordEncoder

UNKNOWN_PENALTY = 10.0


class UnigramEncoder(WordEncoder):
    """Encode a piece by the scores of its tokens.

    `vocab[i]` is the `(token, score)` of id i. If `unk_id` is None, a character that no token
    covers raises VocabularyError.

    >>> vocab = [("<unk>", 0.0), ("a", -2.0), ("b", -2.0), ("ab", -3.0), ("abb", -9.0)]
    >>> UnigramEncoder(vocab, 0).encode("abb"), UnigramEncoder(vocab, 0).encode("a??b")
    ([3, 2], [1, 0, 2])
    """

    def __init__(
        self,
        vocab: Sequence[tuple[str, float]],
        unk_id: int | None,
        byte_fallback: bool = False,
    ) -> None:
        if unk_id is not None and not 0 <= unk_id < len(vocab):
            raise TokenizerFormatError(f"unk_id is {unk_id}; expected an id in 0..{len(vocab) - 1}")
        self._unk_id = unk_id
        self._byte_fallback = byte_fallback
        try:
            tokens, scores = zip(*vocab) if vocab else ((), ())
            self._ids: dict[str, int] = dict(zip(tokens, range(len(tokens))))
            self._scores: dict[str, float] = dict(zip(tokens, scores))
            self._unknown_score = min(scores, default=0.0) - UNKNOWN_PENALTY
            self._lengths = lengths_of(tokens)
            self._unknown_text = tokens[unk_id] if unk_id is not None else None
        except (TypeError, ValueError):
            raise TokenizerFormatError(
                "an entry of the Unigram vocabulary is not a pair; expected (token, score)"
            ) from None
        super().__init__(self._encode_piece)

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        score_of = self._scores.get
        lengths = self._lengths
        size = len(piece)
        best: list[float | None] = [None] * (size + 1)
        came_from = [0] * (size + 1)
        unknown = [False] * (size + 1)
        best[0] = 0.0
        for at in range(size):
            so_far = best[at]
            if so_far is None:
                continue
            single = False
            for length in lengths.get(piece[at : at + 2]) or lengths.get(piece[at], ()):
                end = at + length
                score = score_of(piece[at:end])
                if score is None or end > size:
                    continue
                single = single or length == 1
                total = score + so_far
                known = best[end]
                if known is None or total > known:
                    best[end] = total
                    came_from[end] = at
                    unknown[end] = False
            if not single:
                total = self._unknown_score + so_far
                known = best[at + 1]
                if known is None or total > known:
                    best[at + 1] = total
                    came_from[at + 1] = at
                    unknown[at + 1] = True
        return self._walk_back(piece, came_from, unknown)

    def _walk_back(self, piece: str, came_from: list[int], unknown: list[bool]) -> tuple[int, ...]:
        spans: list[tuple[int, int]] = []
        end = len(piece)
        while end > 0:
            start = came_from[end]
            if unknown[end] and self._unk_id is None:
                raise VocabularyError(
                    f"no token of the vocabulary covers {piece[start:end]!r}, and there is no unknown token"
                )
            if self._is_unknown(piece, start, end, unknown):
                while start > 0 and self._is_unknown(piece, came_from[start], start, unknown):
                    start = came_from[start]
            spans.append((start, end))
            end = start
        ids: list[int] = []
        for start, end in reversed(spans):
            token = piece[start:end]
            known = self._ids.get(token)
            if known is not None:
                ids.append(known)
            else:
                ids += self._bytes(token)
        return tuple(ids)

    def _is_unknown(self, piece: str, start: int, end: int, unknown: list[bool]) -> bool:
        # The unknown token's own text in the piece counts too: it has the same id.
        return unknown[end] or piece[start:end] == self._unknown_text

    def _bytes(self, text: str) -> list[int]:
        if self._byte_fallback:
            tokens = [
                self._ids.get(f"<0x{byte:02X}>") for byte in text.encode("utf-8", "surrogatepass")
            ]
            found = [one for one in tokens if one is not None]
            if len(found) == len(tokens):
                return found
        return [self._unk_id] if self._unk_id is not None else []


def lengths_of(tokens: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the lengths, ascending, of the tokens that begin with two characters, or with the last
    one of a piece. A trie of Python objects would take hundreds of MB.
    """
    short: dict[str, set[int]] = {}
    for token in set(tokens):
        if token:
            short.setdefault(token[:2], set()).add(len(token))
    return {
        start: tuple(sorted(found | short.get(start[0], set()))) for start, found in short.items()
    }
