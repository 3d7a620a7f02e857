"""Spans: which characters of the text each token took part in."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws.test_law_decoders import CTC
from test_detokenizer import APART, LLAMA, MAKERS, SIZES, of_bytes, words

from detok_py import Detokenizer, Vocabulary


def test_spans_through_a_clean_up_that_rewrites_text():
    t = words(spans=True)
    assert t.feed([0, 1, 2, 3]) + t.flush() == "don't"
    # The clean-up makes one apostrophe of " ' ", whose last space is the token t's.
    assert t.spans == [(0, 2), (2, 3), (3, 4), (3, 5)]


def test_spans_begin_behind_the_half_character_of_a_prompt():
    t = of_bytes([0, 4], spans=True)
    t.feed([5, 3])
    assert t.spans == [(0, 1), (1, 7)]


def test_spans_go_back_with_a_rollback():
    t = of_bytes(spans=True)
    t.push(4)
    mark = t.mark()
    t.push(0)
    t.rollback(mark)
    t.push(5)
    assert t.spans == [(0, 1), (0, 1)]


def test_spans_that_were_not_asked_for_say_how_to_ask():
    with pytest.raises(ValueError, match="spans=True"):
        of_bytes().spans  # noqa: B018


def test_spans_of_tokens_set_apart_count_the_space_to_the_token_that_brings_it():
    t = words(spans=True, **APART)
    assert t.feed([0, 6, 5, 6]) + t.flush() == "do [SEP]. [SEP]"
    assert t.spans == [(0, 2), (2, 8), (8, 9), (9, 15)]


@given(st.data(), st.integers(0, 5))
def test_spans_cover_the_text_in_order(data, kind):
    ids = data.draw(st.lists(st.integers(0, SIZES[kind] - 1), max_size=12))
    t = MAKERS[kind](spans=True)
    text = t.feed(ids) + t.flush()
    assert len(t.spans) == len(ids)
    assert {c for first, last in t.spans for c in range(first, last)} == set(range(len(text)))
    assert all(0 <= first <= last <= len(text) for first, last in t.spans)
    firsts = [first for first, last in t.spans if first < last]
    assert firsts == sorted(firsts)


def spans(rules, pieces, *pushed, **settings):
    """Return the text of the pieces and their spans."""
    vocabulary = Vocabulary.from_pieces(pieces, rules)
    t = Detokenizer(vocabulary, spans=True, **settings)
    text = t.feed([pieces.index(piece) for piece in pushed]) + t.flush()
    return text, t.spans


def test_the_space_of_a_suffix_belongs_to_the_token_that_has_it():
    rules = {"type": "BPEDecoder", "suffix": "</w>"}
    assert spans(rules, ["a</w>", "b"], "a</w>", "b", "a</w>") == ("a ba", [(0, 2), (2, 3), (3, 4)])


@pytest.mark.parametrize("byte_fallback", ["utf8", "hf"])
def test_bytes_of_a_run_share_the_character_that_they_make(byte_fallback):
    pieces = ["a", "<0xC3>", "<0xA9>"]
    text, found = spans(LLAMA, pieces, "a", "<0xC3>", "<0xA9>", "a", byte_fallback=byte_fallback)
    assert (text, found) == ("aéa", [(0, 1), (1, 2), (1, 2), (2, 3)])


@pytest.mark.parametrize(
    ("byte_fallback", "text", "found"),
    [
        ("utf8", "é\ufffda", [(0, 1), (0, 1), (1, 2), (2, 3)]),
        ("hf", "\ufffd\ufffd\ufffda", [(0, 1), (1, 2), (2, 3), (3, 4)]),
    ],
)
def test_bytes_of_a_run_with_a_bad_byte_share_a_character_only_if_read_as_utf8(
    byte_fallback, text, found
):
    pieces = ["<0xC3>", "<0xA9>", "<0xFF>", "a"]
    assert spans(LLAMA, pieces, *pieces, byte_fallback=byte_fallback) == (text, found)


def replacing(find, put):
    """Return the rules that join all tokens, then replace a text."""
    replace = {"type": "Replace", "pattern": {"String": find}, "content": put}
    return {"type": "Sequence", "decoders": [{"type": "Fuse"}, replace]}


def test_a_replacement_belongs_to_all_tokens_of_what_it_replaces():
    rules, pieces = replacing("<n>", "\n"), ["a", "<n", ">"]
    assert spans(rules, pieces, "a", "<n", ">", "a") == ("a\na", [(0, 1), (1, 2), (1, 2), (2, 3)])
    rules, pieces = replacing("x", "yz"), ["a", "x"]
    assert spans(rules, pieces, "a", "x", "a") == ("ayza", [(0, 1), (1, 3), (3, 4)])


def test_what_is_held_at_the_end_belongs_to_its_tokens():
    rules, pieces = replacing("<n>", "\n"), ["a", "<", "n"]
    assert spans(rules, pieces, "a", "<", "n") == ("a<n", [(0, 1), (1, 2), (2, 3)])


@pytest.mark.parametrize("make", MAKERS)
def test_spans_go_through_json_with_the_state(make):
    t = make(spans=True)
    t.feed([0, 3, 4])
    other = make(spans=True)
    other.load(json.loads(json.dumps(t.save())))
    assert other.save() == t.save()
    assert t.feed([5, 1, 2]) + t.flush() == other.feed([5, 1, 2]) + other.flush()
    assert other.spans == t.spans


def test_states_share_the_spans_that_they_have_in_common():
    # A ChatStream saves and loads several states a push while ids wait for a stop.
    t = of_bytes(spans=True)
    t.feed([0, 3] * 50)
    first = t.save()
    t.load(first)
    assert all(a is b for a, b in zip(first[4][-1], t.save()[4][-1], strict=True))


@pytest.mark.parametrize(
    ("rules", "pieces"),
    [
        ({"type": "BPEDecoder", "suffix": "</w>"}, ["a</w>", "b"]),
        ({"type": "WordPiece", "prefix": "##", "cleanup": False}, ["a", "##b"]),
        (CTC, ["a", "|", "<pad>"]),
    ],
)
def test_spans_through_rules_of_tokens_go_through_json_with_the_state(rules, pieces):
    vocabulary = Vocabulary.from_pieces(pieces, rules)
    for ids in itertools.product(range(len(pieces)), repeat=3):
        t = Detokenizer(vocabulary, spans=True)
        whole = t.feed(ids) + t.flush()
        for cut in range(4):
            first, then = (Detokenizer(vocabulary, spans=True) for _ in range(2))
            shown = first.feed(ids[:cut])
            then.load(json.loads(json.dumps(first.save())))
            assert (shown + then.feed(ids[cut:]) + then.flush(), then.spans) == (whole, t.spans)


def test_what_a_rule_adds_belongs_to_the_token_that_it_follows():
    pieces = ["a", "b", "x"]
    assert spans(replacing("ab", "abc"), pieces, *pieces) == ("abcx", [(0, 1), (1, 3), (3, 4)])
    assert spans(replacing("ab", "ac"), pieces, *pieces) == ("acx", [(0, 1), (1, 2), (2, 3)])
