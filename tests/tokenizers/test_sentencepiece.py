"""SentencePiece BPE: merging by score, as in GGUF "llama" vocabularies."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py.errors import TokenizerFormatError, VocabularyError
from detok_py.tokenizers.sentencepiece import ScoreMerger

PIECES = ["<unk>", "<0x78>", "<0xC3>", "<0xA9>", "▁", "a", "b", "ab", "▁a", "aab", "b▁"]
SCORES = [0.0, 0.0, 0.0, 0.0, -9.0, -9.0, -9.0, -2.0, -3.0, -1.0, -5.0]


def merge_by_definition(text: str) -> list[int]:
    """Merge the leftmost pair of the highest score until there is none."""
    ids = dict(zip(PIECES, range(len(PIECES))))
    parts = list(text)
    while True:
        found = [
            (-SCORES[ids[a + b]], at)
            for at, (a, b) in enumerate(itertools.pairwise(parts))
            if a + b in ids
        ]
        if not found:
            break
        at = min(found)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [
        one
        for part in parts
        for one in (
            [ids[part]] if part in ids else [ids[f"<0x{byte:02X}>"] for byte in part.encode()]
        )
    ]


@given(st.text("ab▁xé", max_size=150))
def test_the_best_score_merges_first_and_the_leftmost_of_equals(text):
    assert ScoreMerger(PIECES, SCORES).encode(text) == merge_by_definition(text)


def test_the_last_of_two_equal_pieces_wins():
    assert ScoreMerger(["a", "a"], [0.0, 0.0]).encode("a") == [1]


def test_a_missing_id_has_no_piece():
    assert ScoreMerger([None, "a"], [0.0, 0.0]).encode("a") == [1]


def test_a_character_without_piece_and_bytes_is_unknown_or_an_error():
    assert ScoreMerger(["<unk>", "a"], [0.0, 0.0], unk_id=0).encode("a?a") == [1, 0, 1]
    with pytest.raises(VocabularyError, match="'\\?'"):
        ScoreMerger(["<unk>", "a"], [0.0, 0.0]).encode("a?")


def test_pieces_and_scores_must_be_equally_many():
    with pytest.raises(TokenizerFormatError, match="1 tokens and 2 scores"):
        ScoreMerger(["a"], [0.0, 1.0])


@pytest.mark.full
def test_a_long_text_without_a_space_takes_nearly_linear_time():
    assert len(ScoreMerger(["a", "aa", "aaaa"], [0.0, -1.0, -2.0]).encode("a" * 400_000)) == 100_000
