"""Rules that see tokens, each by itself."""

import pytest

from detok_py.decode.item_stages import Suffixes, byte_of, strip, token_stages
from detok_py.decode.rules import read_rules
from detok_py.decode.stage import LITERAL, PIECE, RAW, Item


def piece(text):
    return Item(PIECE, text, b"")


def literal(text):
    return Item(LITERAL, text, b"")


def run(decoder, *items, byte_fallback="utf8"):
    """Return what the rules make of items, item by item, and at the end."""
    maps, stages = token_stages(read_rules(decoder).tokens, byte_fallback, "replace")

    def send(at, items):
        for stage in stages[at:]:
            items = [out for item in items for out in stage.feed(item)]
        return items

    out = []
    for item in items:
        for function in maps:
            item = function(item)
        out.append(send(0, [item]))
    end = []
    for at, stage in enumerate(stages):
        end += send(at + 1, stage.flush())
        assert (stage.held_text, stage.held_bytes) == ("", b"")
    return [*out, end]


def texts(decoder, *pieces, **settings):
    return [
        [item.text for item in made]
        for made in run(decoder, *[piece(each) for each in pieces], **settings)
    ]


@pytest.mark.parametrize(
    ("text", "byte"),
    [("<0xE4>", 0xE4), ("<0xe4>", 0xE4), ("<0x+4>", 4), ("<0xZZ>", -1), ("<0x4>", -1), ("ä", -1)],
)
def test_a_byte_token_is_six_characters_with_two_digits(text, byte):
    assert byte_of(text) == byte


@pytest.mark.parametrize(
    ("text", "start", "stop", "left"),
    [("  a  ", 1, 1, " a "), ("  ", 1, 1, ""), ("  ", 5, 5, ""), ("", 1, 1, ""), ("a", 0, 0, "a")],
)
def test_a_strip_takes_at_most_its_counts(text, start, stop, left):
    assert strip(text, " ", start, stop) == left


def test_the_first_piece_of_a_metaspace_loses_its_mark():
    assert texts({"type": "Metaspace"}, "▁a", "▁b") == [["a"], [" b"], []]
    never = {"type": "Metaspace", "prepend_scheme": "never"}
    assert texts(never, "▁a", "▁b") == [[" a"], [" b"], []]


def test_word_pieces_join_and_clean_up():
    assert texts({"type": "WordPiece"}, "don", "##'t", "n't", ".") == [
        *(["don"], ["'t"], ["n't"], ["."], []),
    ]


def test_a_literal_passes_all_rules_as_it_is():
    for decoder in ({"type": "Metaspace"}, {"type": "WordPiece"}, {"type": "CTC"}, None):
        assert run(decoder, literal("▁##|"))[0] == [literal("▁##|")]


def test_a_suffix_is_a_space_that_comes_with_the_next_token():
    stage = Suffixes("</w>")
    assert stage.feed(piece("a</w>")) == [piece("a")]
    assert stage.feed(piece("b")) == [piece(" "), piece("b")]
    assert stage.flush() == []
    stage.feed(piece("a</w>b"))
    assert (stage.held_text, stage.held_bytes) == ("b", b"")
    assert stage.flush() == [piece("b")]


def test_ctc_drops_repeats_and_pads():
    assert texts({"type": "CTC"}, "a", "a", "<pad>", "a", "|") == [["a"], [], [], ["a"], [" "], []]


def test_byte_tokens_in_front_of_the_join_are_raw_bytes():
    assert run({"type": "ByteFallback"}, piece("<0xE4>"), literal("<0xE4>"))[:2] == [
        [Item(RAW, "", b"\xe4")],
        [literal("<0xE4>")],
    ]


def test_pieces_and_literals_of_a_byte_level_rule_are_raw_bytes():
    decoder = {"type": "Sequence", "decoders": [{"type": "CTC"}, {"type": "ByteLevel"}]}
    assert run(decoder, piece("Ġa"), literal("Ġ"))[:2] == [
        [Item(RAW, "", b" a")],
        [Item(RAW, "", "Ġ".encode())],
    ]


def test_a_run_in_front_of_other_rules_is_held_until_it_ends():
    decoder = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace"}]}
    good, bad = ("<0xC3>", "<0xA9>"), ("<0xC3>", "<0xC3>")
    assert texts(decoder, *good, "▁a") == [[], [], ["é", " a"], []]
    assert texts(decoder, *bad, byte_fallback="hf") == [[], [], ["\ufffd", "\ufffd"]]
    assert texts(decoder, *bad) == [[], [], ["\ufffd\ufffd"]]
