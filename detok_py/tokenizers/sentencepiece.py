"""SentencePiece BPE as in GGUF "llama" vocabularies: a score for each piece, no list of merges.

In: text with spaces as `▁`. Out: ids. Two neighbours merge if the joined text is a piece, the
highest score first, then leftmost. A symbol that is no piece in the end falls back to its `<0x..>`
bytes. Source: llama.cpp (llama-vocab.cpp, llm_tokenizer_spm_session).
"""

from itertools import chain
from typing import Sequence

from ..errors import TokenizerFormatError, VocabularyError
from .byte_bpe import Rank, Words, merge
from .seams import SpaceSeams


class ScoreMerger:
    """Encode text by the scores of its pieces.

    `pieces[i]` is the text of id i, or None, and `scores[i]` its score. A character that is no
    piece becomes its `<0x..>` tokens, or `unk_id` if one of them is missing. Raises VocabularyError
    if `unk_id` is None then.

    >>> spm = ScoreMerger(["<unk>", "▁", "a", "b", "ab", "▁a"], [0, -9, -9, -9, -1, -2], unk_id=0)
    >>> spm.encode("▁abab"), spm.encode("▁ab?")
    ([1, 4, 4], [1, 4, 0])
    """

    def __init__(
        self,
        pieces: Sequence[str | None],
        scores: Sequence[float],
        *,
        unk_id: int | None = None,
    ) -> None:
        if len(pieces) != len(scores):
            raise TokenizerFormatError(
                f"the vocabulary has {len(pieces)} tokens and {len(scores)} scores; expected equal numbers"
            )
        # As in llama.cpp, tokens of every type merge; control tokens are split off earlier.
        self._ids: dict[str | None, int] = dict(zip(pieces, range(len(pieces))))
        self._ids.pop(None, None)
        self._unk_id = unk_id
        order = {score: rank for rank, score in enumerate(sorted(set(scores), reverse=True))}
        ranks = {piece: order[scores[at]] for piece, at in self._ids.items()}
        get = ranks.get
        self._rank: Rank = lambda pair, default: get(pair[0] + pair[1], default)
        inside = {
            piece[at - 1]
            for piece in ranks
            if piece and "▁" in piece
            for at in range(1, len(piece))
            if piece[at] == "▁"
        }
        self._seams = SpaceSeams("▁", inside)
        self._words = Words(self._encode_segment)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text with spaces as `▁`."""
        parts = self._seams.split(text) if text else []
        return list(chain.from_iterable(map(self._words.__getitem__, parts)))

    def _encode_segment(self, text: str) -> tuple[int, ...]:
        ids: list[int] = []
        for part in merge(list(text), self._rank):
            known = self._ids.get(part)
            if known is not None:
                ids.append(known)
            else:
                ids += self._bytes(part)
        return tuple(ids)

    def _bytes(self, character: str) -> list[int]:
        tokens = [
            self._ids.get(f"<0x{byte:02X}>") for byte in character.encode("utf-8", "surrogatepass")
        ]
        found = [one for one in tokens if one is not None]
        if len(found) == len(tokens):
            return found
        if self._unk_id is None:
            raise VocabularyError(
                f"the vocabulary has no token for {character!r}, no byte tokens for it and no unknown token"
            )
        return [self._unk_id]
