"""What was acknowledged is compressed, and read again as if it were not."""

import random
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py.protocol import segments, wire
from detok_py.protocol.log import Log
from detok_py.protocol.segments import Segments

pytestmark = pytest.mark.native  # MicroPython has no zlib

IDS = st.lists(st.integers(0, 200_000), min_size=1, max_size=40)
PIECES = {
    "ids": IDS.map(lambda ids: (wire.IDS, len(ids), wire.pack_ids(ids))),
    "bytes": st.binary(min_size=1, max_size=300).map(lambda data: (wire.BYTES, len(data), data)),
    "both": st.one_of(
        IDS.map(
            lambda ids: (
                wire.TOKENS,
                len(ids),
                wire.pack_tokens([(i, b"ab" * (i % 9)) for i in ids]),
            )
        ),
        st.integers(1, 30).map(lambda n: (wire.GAP, n, wire.pack_gap(n, b"x" * n))),
    ),
}


@pytest.mark.parametrize("kind", PIECES)
@given(data=st.data())
def test_what_is_packed_is_read_as_if_it_were_not(kind, data):
    plain, packed = Segments(), Segments(zlib)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "_MOST_OF_BLOCK", data.draw(st.integers(1, 4)))
        patch.setattr(segments, "_MAX_BLOCK", data.draw(st.sampled_from([100, 5000])))
        for piece in data.draw(st.lists(PIECES[kind], min_size=1, max_size=25)):
            for one in (plain, packed):
                one.append(*piece)
            if data.draw(st.booleans()):
                packed.pack(data.draw(st.integers(0, packed.end)))
            if data.draw(st.integers(0, 9)) == 0:
                packed.drop_first(data.draw(st.integers(0, packed.end)))
            at = data.draw(st.integers(packed.base, packed.end))
            limit = data.draw(st.integers(at, packed.end + 5))
            assert packed.read(at, limit) == plain.read(at, limit)
            assert packed.inside_gap(at) == plain.inside_gap(at)
        at = packed.base
        while at < packed.end:
            step = plain.read(at, packed.end)
            assert packed.read(at, packed.end) == step
            at = step[1]


@pytest.mark.parametrize("kind", PIECES)
@given(data=st.data())
def test_every_read_gives_what_was_appended_at_its_positions(kind, data):
    found, positions = Segments(), []
    for op, count, payload in data.draw(st.lists(PIECES[kind], min_size=1, max_size=12)):
        found.append(op, count, payload)
        _, entries = wire.read_data(wire.data_frame(op, payload))
        positions += [(op, one) for one in ([entries] * count if op == wire.GAP else entries)]
        at = data.draw(st.integers(0, found.end))
        while at < found.end and data.draw(st.integers(0, 3)):
            step = found.read(at, data.draw(st.integers(at + 1, found.end + 5)))
            assert step is not None
            op, entries = wire.read_data(step[0])
            read = [entries] * (step[1] - at) if op == wire.GAP else entries
            if op != wire.GAP or at == 0 or positions[at - 1] != positions[at]:
                assert [(op, one) for one in read] == positions[at : step[1]]
            at = step[1]


def test_a_long_piece_that_is_read_bit_by_bit_is_walked_through_once(monkeypatch):
    found, at, steps = Segments(), 0, []
    found.append(wire.IDS, 20_000, wire.pack_ids([1000] * 20_000))
    unpack = wire.unpack_number
    monkeypatch.setattr(wire, "unpack_number", lambda *of: steps.append(1) or unpack(*of))
    while at < 20_000:
        _, at = found.read(at, at + 256)
    assert len(steps) <= 20_000


def test_twenty_thousand_tokens_take_less_than_100_kb():
    rng = random.Random(1)
    log = Log(codec=zlib)
    log.start("ids")
    for n in range(20_000):
        log.add_ids([rng.randrange(150_000)])
        if n % 256 == 0:
            log.acknowledge(n)
    held = [*log._pieces._segments]
    taken = sum([sys.getsizeof(one) + sum(map(sys.getsizeof, one)) for one in held])
    assert taken < 70_000
    assert log.size < 70_000


@pytest.mark.parametrize("in_block", [False, True], ids=["plain", "out of a block"])
def test_short_pieces_of_bytes_are_read_one_at_a_time(monkeypatch, in_block):
    monkeypatch.setattr(segments, "_MOST_OF_BLOCK", 1)
    pieces = [b"abc", b"de", b"f", bytes(range(256)) * 2] * 4
    found, at = Segments(zlib), 0
    for piece in pieces:
        found.append(wire.BYTES, len(piece), piece)
    if in_block:
        found.pack(found.end)
    assert (segments._BLOCK in [op for _, _, op, _, _ in found._segments]) == in_block
    for piece in pieces:
        frame, at = found.read(at, found.end)
        assert frame == wire.data_frame(wire.BYTES, piece)
