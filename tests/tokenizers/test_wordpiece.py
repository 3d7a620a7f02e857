"""WordPiece: longest match, `##` and phantom spaces, and random vocabularies against the peer."""

import random

import pytest

from detok_py.errors import TokenizerFormatError, VocabularyError
from detok_py.tokenizers import load_tokenizer
from detok_py.tokenizers.wordpiece import WordPieceEncoder

VOCAB = {"[UNK]": 0, "un": 1, "##aff": 2, "##able": 3, "##a": 4, "unaff": 5}


def test_the_longest_match_wins():
    assert WordPieceEncoder(VOCAB).encode("unaffable") == [5, 3]
    assert WordPieceEncoder(VOCAB).encode("una") == [1, 4]


def test_a_word_that_tokens_do_not_cover_is_one_unknown_token():
    assert WordPieceEncoder(VOCAB).encode("unaffx") == [0]


def test_a_word_that_is_too_long_is_unknown():
    encoder = WordPieceEncoder(VOCAB, max_chars=3)
    assert (encoder.encode("una"), encoder.encode("unaff")) == ([1, 4], [0])


def test_a_phantom_space_marks_only_the_start_of_a_word():
    encoder = WordPieceEncoder(
        {"[UNK]": 0, "▁play": 1, "ing": 2}, "[UNK]", "", None, phantom_space="▁"
    )
    assert (encoder.encode("playing"), encoder.encode("ing")) == ([1, 2], [0])


def test_an_empty_word_has_no_ids():
    assert WordPieceEncoder(VOCAB).encode("") == []


def test_a_missing_unknown_token_is_named_when_it_is_needed():
    with pytest.raises(VocabularyError, match="UNK"):
        WordPieceEncoder({"a": 0}).encode("b")


def test_a_prefix_and_a_phantom_space_exclude_each_other():
    with pytest.raises(TokenizerFormatError, match="phantom"):
        WordPieceEncoder(VOCAB, phantom_space="▁")


@pytest.mark.native
@pytest.mark.parametrize("prefix", ["##", "", "@"])
def test_random_words_encode_as_the_peer_does(prefix):
    tokenizers = pytest.importorskip("tokenizers")
    rnd = random.Random(prefix)
    for _ in range(40):
        tokens = ["[UNK]", *["".join(rnd.choices("abé", k=rnd.randrange(1, 5))) for _ in range(10)]]
        tokens += [prefix + token for token in tokens[1:] if rnd.random() < 0.7]
        vocab = {token: at for at, token in enumerate(dict.fromkeys(tokens))}
        model = tokenizers.models.WordPiece(
            vocab=vocab,
            unk_token="[UNK]",
            max_input_chars_per_word=12,
            continuing_subword_prefix=prefix,
        )
        theirs, ours = tokenizers.Tokenizer(model), WordPieceEncoder(vocab, "[UNK]", prefix, 12)
        for _ in range(40):
            word = "".join(rnd.choices("abé", k=rnd.randrange(1, 15)))
            assert ours.encode(word) == theirs.encode(word).ids


@pytest.mark.parametrize(
    "key", [{"max_input_chars_per_word": 9}, {"continuing_subword_prefix": "##"}]
)
def test_an_old_file_without_a_type_is_known_by_one_of_its_keys(key):
    model = {"vocab": {"[UNK]": 0, "play": 1, "##ing": 2}, "unk_token": "[UNK]", **key}
    assert load_tokenizer({"model": model}).encode("playing") == [1, 2]


def test_where_no_character_is_allowed_every_word_is_unknown():
    model = {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1}, "unk_token": "[UNK]"}
    assert load_tokenizer({"model": {**model, "max_input_chars_per_word": 0}}).encode("a") == [0]


@pytest.mark.parametrize("longest", [-1, 1.5, True, "9", None])
def test_a_longest_word_that_is_no_whole_number_is_refused(longest):
    model = {"type": "WordPiece", "vocab": {"[UNK]": 0}, "max_input_chars_per_word": longest}
    with pytest.raises(TokenizerFormatError, match="max_input_chars_per_word is"):
        load_tokenizer({"model": model}).encode("a")
