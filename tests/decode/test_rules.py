"""Decoder rules of tokenizer.json: which are read, which are refused, and the error messages."""

import pytest

from detok_py import TokenizerFormatError, Vocabulary
from detok_py.decode.rules import BYTES, CLEAN_UP, byte_level_first, read_rules

FUSE, FALLBACK = {"type": "Fuse"}, {"type": "ByteFallback"}
SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
SUFFIX = {"type": "BPEDecoder", "suffix": "</w>"}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
WORD_PIECE = {"type": "WordPiece", "prefix": "##", "cleanup": True}
CTC = {"type": "CTC"}
LEVEL = {"type": "ByteLevel"}


def sequence(*rules):
    return {"type": "Sequence", "decoders": list(rules)}


def kinds(*rules):
    tokens, text = read_rules(sequence(*rules))
    return [rule.kind for rule in tokens], [rule.kind for rule in text]


def test_rules_before_the_join_see_tokens_and_those_behind_it_see_text():
    assert kinds(SPACE, FALLBACK, FUSE, STRIP) == (["Replace", "ByteFallback"], ["Strip"])
    assert kinds(SPACE, FUSE, STRIP) == (["Replace"], ["Strip"])
    assert kinds(LEVEL, STRIP) == (["ByteLevel"], ["Strip"])
    assert kinds(STRIP) == (["Strip"], [])
    assert kinds() == ([], [])


def test_a_byte_fallback_joins_only_in_front_of_a_fuse_or_at_the_end():
    assert kinds(FALLBACK, METASPACE, FUSE, STRIP) == (["ByteFallback", "Metaspace"], ["Strip"])
    assert kinds(METASPACE, FALLBACK) == (["Metaspace", "ByteFallback"], [])


def test_a_missing_decoder_joins_by_spaces():
    assert [rule.kind for rule in read_rules(None).tokens] == ["Spaces"]


def test_the_clean_up_of_spaces_comes_last():
    assert read_rules(sequence(FUSE, STRIP), clean_up=True).text[-1] == CLEAN_UP


def test_sequences_within_sequences_are_read_in_order():
    assert kinds(sequence(SPACE, sequence(FUSE)), STRIP) == (["Replace"], ["Strip"])


def test_missing_fields_have_the_defaults_of_hugging_face():
    rule = read_rules({"type": "Metaspace"}).tokens[0]
    assert (rule.find, rule.put) == ("▁", "")
    rule = read_rules({"type": "WordPiece"}).tokens[0]
    assert (rule.find, rule.clean_up) == ("##", True)
    rule = read_rules({"type": "CTC"}).tokens[0]
    assert (rule.find, rule.put, rule.clean_up) == ("<pad>", "|", True)
    assert read_rules({"type": "BPEDecoder"}).tokens[0].find == "</w>"


def test_a_leading_byte_level_rule_becomes_bytes():
    assert byte_level_first(LEVEL) == byte_level_first(sequence(LEVEL, FUSE)) == BYTES
    assert byte_level_first(sequence(LEVEL, STRIP)) == sequence(BYTES, STRIP)
    assert byte_level_first(sequence(STRIP, LEVEL)) is None
    assert byte_level_first(None) is None


# What the model families ship, transformers' converters included (GGUF, NeMo's CTC).
@pytest.mark.parametrize(
    "rules",
    [
        [LEVEL],
        [METASPACE],
        [WORD_PIECE],
        [SUFFIX],
        [CTC],
        [CTC, METASPACE],
        [FALLBACK, FUSE],
        [SPACE, FALLBACK, FUSE],
        [SPACE, FALLBACK, FUSE, STRIP],
        [FALLBACK, FUSE, SPACE],
        [FALLBACK, FUSE, SPACE, LEVEL, STRIP],
        [FALLBACK, METASPACE],
        [FALLBACK, METASPACE, FUSE, STRIP],
        [METASPACE, FALLBACK, FUSE],
        [FALLBACK, LEVEL],
        [SPACE, FUSE, STRIP],
        [SUFFIX, METASPACE],
    ],
)
def test_the_orders_that_tokenizers_ship_are_read(rules):
    read_rules(sequence(*rules))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([FUSE, WORD_PIECE], "decoder WordPiece behind Fuse, which joins the tokens"),
        ([LEVEL, CTC], "decoder CTC behind ByteLevel"),
        ([FALLBACK, FUSE, SUFFIX], "decoder BPEDecoder behind ByteFallback"),
        ([FUSE, FALLBACK], "supported there are Replace, Strip, Metaspace, ByteLevel, Fuse"),
        ([SUFFIX, WORD_PIECE], "decoder WordPiece behind BPEDecoder"),
        ([SUFFIX, STRIP], "supported there are Metaspace and Fuse"),
        ([FUSE, {"type": "Bytes"}], "decoder 'Bytes' is not supported"),
        ([{"type": "SentencePiece", "strip": "two"}], "strip.* none, one or all"),
        ([{"type": "Rot13"}], "decoder 'Rot13' is not supported; known are"),
    ],
)
def test_an_order_that_no_tokenizer_ships_is_refused_by_name(rules, words):
    with pytest.raises(TokenizerFormatError, match=words):
        Vocabulary.from_pieces(["a"], sequence(*rules))


@pytest.mark.parametrize(
    "decoder",
    [
        [],
        {"type": 1},
        {"type": "Sequence", "decoders": 3},
        {"type": "Strip", "content": "ab", "start": 1, "stop": 0},
        {"type": "Strip", "content": " ", "start": -1, "stop": 0},
        {"type": "Strip", "content": " ", "start": True, "stop": 0},
        {"type": "Replace", "pattern": "x", "content": ""},
        {"type": "Replace", "pattern": {"String": "x"}, "content": 5},
        {"type": "Replace", "pattern": {"Regex": "(a+b?)+$"}, "content": ""},
        {"type": "Metaspace", "replacement": "▁▁"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "sometimes"},
        {"type": "WordPiece", "prefix": None},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Bytes"}]},
    ],
)
def test_rules_of_a_wrong_shape_are_one_typed_error(decoder):
    with pytest.raises(TokenizerFormatError):
        Vocabulary.from_pieces(["a"], decoder)


def test_the_refusal_of_a_rule_quotes_no_more_than_60_characters_of_its_field():
    with pytest.raises(TokenizerFormatError) as caught:
        read_rules({"type": "WordPiece", "prefix": ["#"] * 99})
    assert str(caught.value).partition(", and is ")[2] == str(["#"] * 99)[:60]


def test_a_rule_nested_without_end_is_refused_without_recursion():
    decoder = {"type": "Fuse"}
    # Thousands end the interpreter in WebAssembly as they are thrown away; a file may nest 64.
    for _ in range(200):
        decoder = {"type": "Sequence", "decoders": [decoder]}
    with pytest.raises(TokenizerFormatError, match="16 deep"):
        Vocabulary.from_pieces(["a"], decoder)


def test_a_replacement_by_regular_expression_may_stand_before_the_join_and_behind_it():
    regex = {"type": "Replace", "pattern": {"Regex": r"\p{N}+"}, "content": "#"}
    tokens, text = read_rules(sequence(regex, FUSE, regex, STRIP))
    assert tokens[0].replace("a12b٣") == text[0].replace("a12b٣") == "a#b#"


def test_a_regular_expression_of_a_packed_vocabulary_has_a_limit():
    replace = {"type": "Replace", "pattern": {"Regex": "a?" * 1100}, "content": ""}
    with pytest.raises(TokenizerFormatError, match="at most 2048 characters"):
        read_rules(replace)
