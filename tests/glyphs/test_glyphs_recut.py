"""A stream cut anywhere has the same bytes, and pauses where a cut can break a careless reader."""

import random

import pytest
from test_glyphs_traffic import TEXT, sse

from detok_py.glyphs.recut import Recut

pytestmark = pytest.mark.native


@pytest.mark.parametrize("split", ["every-byte", "token", "random:1", "random:2", "none"])
def test_a_recut_changes_no_byte(split):
    data = random.Random(4).randbytes(2000) + sse(TEXT)
    recut = Recut(split)
    chunks = (data[:700], b"", data[700:])
    assert b"".join([piece for chunk in chunks for piece, _ in recut.feed(chunk)]) == data


def test_the_same_seed_cuts_the_same_way():
    cuts = [
        [piece for piece, _ in Recut(f"random:{seed}").feed(TEXT.encode() * 3)]
        for seed in (5, 5, 6)
    ]
    assert cuts[0] == cuts[1] != cuts[2]


def test_a_cut_pauses_inside_a_character_inside_an_escape_and_after_a_line_end():
    pieces = enumerate(Recut("every-byte").feed("a漢\n\\u6f22z".encode()), 1)
    assert [at for at, (_, matters) in pieces if matters] == [2, 3, 5, 6, 7, 8, 9, 10]
