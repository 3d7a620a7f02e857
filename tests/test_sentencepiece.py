"""Merging by score, as GGUF "llama" vocabularies ask for it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py.errors import TokenizerFormatError, VocabularyError
from detok_py.tokenizers.sentencepiece import ScoreMerger

PIECES = ["<unk>", "<0x78>", "<0xC3>", "<0xA9>", "▁", "a", "b", "ab", "▁a", "aab", "b▁"]
SCORES = [0.0, 0.0, 0.0, 0.0, -9.0, -9.0, -9.0, -2.0, -3.0, -1.0, -5.0]


def plainly(text: str) -> list[int]:
    """Merge as the definition says: always the leftmost of the best-scored neighbours."""
    ids = dict(zip(PIECES, range(len(PIECES))))
    parts = list(text)
    while True:
        found = [(-SCORES[ids[a + b]], at) for at, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in ids]
        if not found:
            break
        at = min(found)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [one for part in parts for one in ([ids[part]] if part in ids else [ids[f"<0x{byte:02X}>"] for byte in part.encode()])]


@given(st.text("ab▁xé", max_size=150))
def test_the_best_score_merges_first_and_the_leftmost_of_equals(text):
    assert ScoreMerger(PIECES, SCORES).encode(text) == plainly(text)


def test_of_two_pieces_alike_the_last_counts():
    assert ScoreMerger(["a", "a"], [0.0, 0.0]).encode("a") == [1]


def test_a_hole_is_no_piece():
    assert ScoreMerger([None, "a"], [0.0, 0.0]).encode("a") == [1]


def test_what_is_neither_piece_nor_bytes_is_the_unknown_token_or_an_error():
    assert ScoreMerger(["<unk>", "a"], [0.0, 0.0], unk_id=0).encode("a?a") == [1, 0, 1]
    with pytest.raises(VocabularyError, match="'\\?'"):
        ScoreMerger(["<unk>", "a"], [0.0, 0.0]).encode("a?")


def test_scores_and_pieces_are_as_many():
    with pytest.raises(TokenizerFormatError, match="1 tokens and 2 scores"):
        ScoreMerger(["a"], [0.0, 1.0])


def test_a_long_text_without_a_space_takes_little_more_than_linear_time():
    assert len(ScoreMerger(["a", "aa", "aaaa"], [0.0, -1.0, -2.0]).encode("a" * 400_000)) == 100_000
