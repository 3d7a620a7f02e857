"""Unigram: the best of all cuts, and random scores with ties against the peer; and what a
SentencePiece file adds to it.
"""

import itertools
import random
from array import array

import pytest
from small_tokenizers import character_map

from detok_py.errors import TokenizerFormatError, VocabularyError
from detok_py.tokenizers.spm_encode import encoder
from detok_py.tokenizers.spm_file import NORMAL, UNIGRAM, UNKNOWN, USER_DEFINED, Model
from detok_py.tokenizers.unigram import UnigramEncoder


def test_the_highest_sum_of_scores_wins():
    rnd = random.Random(1)
    for _ in range(50):
        tokens = {"".join(rnd.choices("ab", k=rnd.randrange(1, 5))) for _ in range(8)} | {"a", "b"}
        vocab = [("<unk>", 0.0), *[(token, -rnd.random() * 5) for token in sorted(tokens)]]
        scores = dict(vocab)
        ours = UnigramEncoder(vocab, 0)
        text = "".join(rnd.choices("ab", k=9))
        best = max(sum(scores.get(part, -1e9) for part in parts) for parts in cuts(text))
        assert sum(vocab[one][1] for one in ours.encode(text)) == pytest.approx(best)


def cuts(text: str):
    for choice in itertools.product([False, True], repeat=len(text) - 1):
        edges = [0, *[at + 1 for at, cut in enumerate(choice) if cut], len(text)]
        yield [text[begin:end] for begin, end in itertools.pairwise(edges)]


@pytest.mark.native
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_random_scores_encode_as_the_peer_does(byte_fallback):
    tokenizers = pytest.importorskip("tokenizers")
    rnd = random.Random(7)
    for _ in range(60):
        tokens = {"".join(rnd.choices("abé▁中", k=rnd.randrange(1, 5))) for _ in range(20)}
        # Few different scores give many ties.
        vocab = [
            ("<unk>", 0.0),
            *[(token, float(-rnd.randrange(1, 5))) for token in sorted(tokens)],
            ("<0xC3>", -1.0),
            ("<0xA9>", -2.0),
            ("<0x78>", 0.0),
        ]
        theirs = tokenizers.Tokenizer(tokenizers.models.Unigram(vocab, 0, byte_fallback))
        ours = UnigramEncoder(vocab, 0, byte_fallback)
        for _ in range(40):
            text = "".join(
                rnd.choices(
                    ["a", "b", "é", "▁", "中", "x", "y", "<unk>"], k=rnd.choice([1, 3, 8, 40])
                )
            )
            assert ours.encode(text) == theirs.encode(text).ids, (text, vocab)


def test_a_run_without_tokens_is_one_unknown_token_or_its_bytes():
    vocab = [("<unk>", 0.0), ("a", -1.0), ("<0x78>", -1.0), ("<0x79>", -1.0)]
    assert UnigramEncoder(vocab, 0).encode("axyxa") == [1, 0, 1]
    assert UnigramEncoder(vocab, 0, byte_fallback=True).encode("axya") == [1, 2, 3, 1]
    assert UnigramEncoder(vocab, 0, byte_fallback=True).encode("axza") == [1, 0, 1]


def test_a_run_without_tokens_is_an_error_if_there_is_no_unknown_token():
    with pytest.raises(VocabularyError, match="'x'"):
        UnigramEncoder([("a", -1.0)], None).encode("x")


def test_a_long_text_takes_linear_time():
    assert (
        len(UnigramEncoder([("<unk>", 0.0), ("a", -1.0), ("aa", -1.5)], 0).encode("a" * 300_000))
        == 150_000
    )


@pytest.mark.parametrize(
    ("vocab", "unk_id"),
    [([("a", 0.0)], 1), ([("a",)], None), ([("a", "b")], None), ([1], None), ([("a", 0.0)], -1)],
)
def test_an_invalid_vocabulary_is_refused(vocab, unk_id):
    with pytest.raises(TokenizerFormatError):
        UnigramEncoder(vocab, unk_id)


def of_sentencepiece(pieces, **more):
    """Return the encoder of a model file with some pieces and their scores; one that has none was
    defined by a user.
    """
    settings = dict.fromkeys(Model._fields, False) | {
        "pieces": ["<unk>", *pieces],
        "scores": array("f", [0.0, *[score or 0.0 for score in pieces.values()]]),
        "types": [UNKNOWN, *[USER_DEFINED if one is None else NORMAL for one in pieces.values()]],
        "model_type": UNIGRAM,
        "precompiled_charsmap": b"",
    }
    encode = encoder(Model(**settings | more), [], ([], []))
    return lambda text: encode(text, False, False)


def test_a_piece_of_a_user_has_a_tenth_for_each_byte_but_one():
    assert of_sentencepiece({"abc": None, "ab": 0.25, "c": 0.0})("abc") == [2, 3]
    assert of_sentencepiece({"abc": None, "ab": 0.15, "c": 0.0})("abc") == [1]


def test_a_letter_that_a_user_defined_is_never_unknown():
    assert of_sentencepiece({"x": None, "a": 20.0})("x") == [1]  # unknown would score 10


def test_the_map_of_characters_is_used_where_spaces_stay():
    encode = of_sentencepiece({"a": 0.0, " ": 0.0}, precompiled_charsmap=character_map({"A": "a"}))
    assert encode("A  a") == [1, 2, 2, 1]
