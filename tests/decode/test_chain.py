"""Rules as one chain: what is held, what is late and why, and pieces that no rule changes. The law
for all rules is in tests/laws/test_law_decoders.py.
"""

import json

import pytest

from detok_py import VocabularyError
from detok_py.decode.chain import Chain
from detok_py.decode.item_stages import byte_of, strip
from detok_py.decode.rules import BYTES, read_rules
from detok_py.decode.stage import tuples

SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FUSE, FALLBACK = {"type": "Fuse"}, {"type": "ByteFallback"}
LEVEL, METASPACE, CTC = {"type": "ByteLevel"}, {"type": "Metaspace"}, {"type": "CTC"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
SUFFIX = {"type": "BPEDecoder", "suffix": "</w>"}


def chain_of(*rules, **settings):
    return Chain(read_rules({"type": "Sequence", "decoders": list(rules)}), **settings)


def pushed(chain, *pieces):
    """Push pieces, with the state converted to JSON and back each time; return the output and the
    held text.
    """
    out = []
    for piece in pieces:
        out.append(chain.push(chain.entry(piece.encode())))
        chain.state = tuples(json.loads(json.dumps(chain.state)))
    return out, chain.held_text.encode() + chain.held_bytes


@pytest.mark.parametrize(
    ("rules", "pieces", "out", "held"),
    [
        ([BYTES], ["a", "é"], ["a", "é"], b""),
        ([SPACE, FALLBACK, FUSE, STRIP], ["▁a", "<0xE4>", "<0xBD>"], ["a", "", ""], b"\xe4\xbd"),
        ([SUFFIX], ["a</w>", "b</w>"], ["a", " b"], b""),
        ([SUFFIX], ["a</w>b"], ["a"], b"b"),
        ([FALLBACK, METASPACE], ["<0xE4>"], [""], b"\xe4"),
        ([FUSE, STRIP | {"stop": 2}], ["a  "], ["a"], b"  "),
        ([FUSE, SPACE | {"pattern": {"String": "ab"}}, LEVEL], ["c", "a"], ["", ""], b"ca"),
    ],
)
def test_what_is_not_shown_is_held(rules, pieces, out, held):
    assert pushed(chain_of(*rules), *pieces) == (out, held)


def test_what_both_futures_of_a_byte_run_begin_with_is_shown():
    chain = chain_of(FALLBACK, byte_fallback="hf")
    assert pushed(chain, "<0xEF>", "<0xBF>", "<0xBD>") == (["", "", "\ufffd"], b"\xef\xbf\xbd")


def test_flush_sends_what_each_part_held_through_the_later_ones():
    chain = chain_of(
        SUFFIX, FUSE, {"type": "Replace", "pattern": {"String": "b</"}, "content": "!"}
    )
    assert pushed(chain, "a", "b</w>/") == (["a", ""], b"b/")
    assert chain.flush() == "b/"
    assert chain.held_bytes == b""


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([FALLBACK, METASPACE], "ByteFallback comes before Metaspace"),
        ([FUSE, LEVEL], "needs the whole text"),
        ([FUSE, SPACE | {"pattern": {"String": ""}}], "needs the whole text"),
    ],
)
def test_rules_that_are_late_say_why(rules, why):
    chain = chain_of(*rules)
    assert not chain.exact
    assert why in chain.late_because
    assert not chain.is_small


def test_a_long_pattern_is_not_late():
    chain = chain_of(FUSE, {"type": "Replace", "pattern": {"String": "ab" * 32}, "content": "x"})
    assert pushed(chain, "a" + "ab" * 3, "c") == (["a", "abababc"], b"")
    assert chain.exact


def test_a_piece_that_is_not_utf8_is_a_damaged_vocabulary():
    with pytest.raises(VocabularyError, match="not UTF-8"):
        chain_of(FUSE).entry(b"\xff")


@pytest.mark.parametrize("rules", [[METASPACE], [{"type": "WordPiece"}], [CTC], [CTC, LEVEL]])
def test_a_literal_passes_all_rules_as_it_is(rules):
    chain = chain_of(*rules)
    # ByteLevel would leave a piece as it is that has any character of another alphabet.
    texts = ["▁##|", "Ġ"]
    assert [chain.push(chain.entry(text.encode(), literal=True)) for text in texts] == texts


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
def test_a_strip_of_a_piece_takes_at_most_its_counts(text, start, stop, left):
    assert strip(text, " ", start, stop) == left
