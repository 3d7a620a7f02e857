"""Rules as one chain: the shown text, the held text, and why some text is late."""

import json

import pytest

from detok_py import VocabularyError
from detok_py.decode.chain import Apart, Chain
from detok_py.decode.rules import BYTES, read_rules
from detok_py.decode.stage import tuples

SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FUSE, FALLBACK = {"type": "Fuse"}, {"type": "ByteFallback"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
LLAMA = {"type": "Sequence", "decoders": [SPACE, FALLBACK, FUSE, STRIP]}
SUFFIX = {"type": "BPEDecoder", "suffix": "</w>"}


def chain_of(decoder, **settings):
    return Chain(read_rules(decoder), **settings)


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
        (BYTES, ["a", "é"], ["a", "é"], b""),
        (LLAMA, ["▁a", "<0xE4>", "<0xBD>"], ["a", "", ""], b"\xe4\xbd"),
        (SUFFIX, ["a</w>", "b</w>"], ["a", " b"], b""),
        ({"type": "Sequence", "decoders": [FALLBACK, {"type": "Metaspace"}]}, ["<0xE4>"], [""], b"\xe4"),
        ({"type": "Sequence", "decoders": [FUSE, STRIP | {"stop": 2}]}, ["a  "], ["a"], b"  "),
    ],
)  # fmt: skip
def test_what_is_not_shown_is_held(rules, pieces, out, held):
    assert pushed(chain_of(rules), *pieces) == (out, held)


def test_flush_sends_what_each_part_held_through_the_later_ones():
    rules = [SUFFIX, FUSE, {"type": "Replace", "pattern": {"String": "b</"}, "content": "!"}]
    chain = chain_of({"type": "Sequence", "decoders": rules})
    assert pushed(chain, "a", "b</w>/") == (["a", ""], b"b/")
    assert chain.flush() == "b/"
    assert chain.held_bytes == b""


def test_a_flushed_chain_begins_anew_with_its_first_state():
    chain = chain_of(LLAMA)
    start = chain.state
    assert pushed(chain, "▁a", "▁b")[0] == ["a", " b"]
    chain.state = start
    assert pushed(chain, "▁a")[0] == ["a"]


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([FALLBACK, {"type": "Metaspace"}], "ByteFallback comes before Metaspace"),
        ([FUSE, {"type": "ByteLevel"}], "needs the whole text"),
    ],
)
def test_rules_that_are_late_say_why(rules, why):
    chain = chain_of({"type": "Sequence", "decoders": rules})
    assert not chain.exact
    assert why in chain.late_because
    assert not chain.is_small


def test_a_piece_that_is_not_utf8_is_a_damaged_vocabulary():
    with pytest.raises(VocabularyError, match="not UTF-8"):
        chain_of(LLAMA).entry(b"\xff")


def test_a_kind_of_byte_fallback_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="llama"):
        chain_of(LLAMA, byte_fallback="llama")


def test_tokens_that_stand_apart_end_the_run_before_them():
    apart = Apart(chain_of(LLAMA))
    items = [apart.entry("▁a".encode()), apart.entry(b"<0xE4>"), apart.entry(b"<s>", True)]
    assert [apart.push(item) for item in [*items, items[0]]] == ["a", "", "\ufffd <s>", " a"]
    assert (apart.flush(), apart.held_bytes, apart.exact) == ("", b"", True)
