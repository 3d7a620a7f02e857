"""Recovery of ids from bytes: what is given as known is always right, and the search is quick."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from work import lines_run

from detok_py.bridge.engines import Raw
from detok_py.bridge.recover import MAX_SEARCH, Known, Recovery, Unknown, _ends_inside_a_character
from detok_py.decode.vocabulary import Vocabulary

pytestmark = pytest.mark.native

TABLE = Vocabulary.from_bytes(
    [b"\xe6", b"\x97", b"\xa5", b"\xe6\x97", b"a", b"\xf0\x9f", b"\x8c", b"\xa6", b"\xa6"]
)


def recovered(data, tokens, last, vocabulary=TABLE):
    """Return what is recovered of one chunk."""
    return Recovery(vocabulary, Recovery.table(vocabulary)).feed(Raw(data, tokens, last))


def test_the_ids_of_a_run_with_one_reading_are_found():
    each = [Known(0, b"\xe6"), Known(1, b"\x97"), Known(2, b"\xa5")]
    assert recovered(b"\xe6\x97\xa5", 3, 2) == each
    assert recovered(b"\xe6\x97\xa5", 2, 2) == [Known(3, b"\xe6\x97"), Known(2, b"\xa5")]


def test_the_ids_of_a_run_with_two_readings_are_unknown():
    two = Vocabulary.from_bytes([b"\xe6", b"\xe6", b"\x97\xa5"])
    found = recovered(b"\xe6\x97\xa5", 2, 2, two)
    assert found == [Unknown(1, b"\xe6"), Known(2, b"\x97\xa5")]


def test_the_ids_of_a_run_without_a_reading_are_unknown():
    assert recovered(b"\xe6\xe6\xa5", 4, 2) == [Unknown(3, b"\xe6\xe6"), Known(2, b"\xa5")]


def test_a_last_id_that_does_not_fit_its_bytes_makes_all_ids_unknown():
    for data, last in ((b"a", 2), (b"a", 99), (b"a", None), (b"aa", 4)):
        assert recovered(data, 1, last) == [Unknown(1, data)], (data, last)


def test_a_token_never_ends_at_a_whole_character_inside_a_run():
    # "a" followed by two thirds of 日: after "a" alone the server would have sent an event.
    assert recovered(b"a\xe6\x97\xa5", 3, 2) == [Unknown(2, b"a\xe6\x97"), Known(2, b"\xa5")]


def test_special_tokens_are_never_guessed():
    special = Vocabulary.from_bytes([b"<s>", b"\xa5"], [0])
    assert recovered(b"<s>\xa5", 2, 1, special) == [Unknown(1, b"<s>"), Known(1, b"\xa5")]


def test_ids_are_unknown_where_a_special_token_can_stand_between_fewer_tokens():
    v = Vocabulary.from_bytes([b"\xe0", b"\xa5", b"\xe0\xa5", b"il", b"<s>"], [4])
    # 0, 1, 3 or 2, 4, 3: llama-server sends no bytes for a special token.
    assert recovered(b"\xe0\xa5il", 3, 3, v) == [Unknown(2, b"\xe0\xa5"), Known(3, b"il")]
    assert recovered(b"\xe0\xa5il", 2, 3, v) == [Known(2, b"\xe0\xa5"), Known(3, b"il")]


PIECES = [
    *(b"\xe6", b"\x97", b"\xa5", b"\xe6\x97", b"\x97\xa5\xe6", b"a", b"a\xe6"),
    *(b"\xf0\x9f", b"\x8c"),
]


def chunks_of(pieces, ids):
    """Return what llama-server sends for `ids`: an event where the text ends at whole
    characters.
    """
    text, sent, held = b"", 0, []
    for i in ids:
        text += pieces[i]
        held.append(i)
        if not _ends_inside_a_character(text):
            yield Raw(text[sent:], len(held), i), held
            sent, held = len(text), []


def readings(pieces, before, data, count, last):
    """Return every sequence of `count` ids, the last one `last`, that would be sent as `data`."""
    found = []
    for ids in itertools.product(range(len(pieces)), repeat=count - 1):
        text, inside = before, True
        for i in ids:
            text += pieces[i]
            inside = inside and _ends_inside_a_character(text)
        if inside and text + pieces[last] == before + data:
            found.append([*ids, last])
    return found


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=7),
    st.booleans(),
    st.lists(st.integers(0, 7), max_size=14),
)
def test_ids_that_are_given_as_known_are_those_of_the_engine(pieces, special, numbers):
    pieces = [*pieces, b""] if special else pieces
    names = [piece or b"<s>" for piece in pieces]
    v = Vocabulary.from_bytes(names, [len(pieces) - 1] if special else [])
    recovery = Recovery(v, Recovery.table(v))
    before = b""
    for chunk, ids in chunks_of(pieces, [n % len(pieces) for n in numbers]):
        at = 0
        parts = recovery.feed(chunk)
        assert b"".join([part.data for part in parts]) == chunk.data
        for part in parts:
            if isinstance(part, Known):
                assert part.id == ids[at]
            at += 1 if isinstance(part, Known) else part.tokens
        assert at == len(ids)
        if 1 < len(ids) < 5 and not (special and ids[-1] == len(pieces) - 1):
            only = len(readings(pieces, before, chunk.data, len(ids), ids[-1])) == 1
            silent = special and (len(pieces) - 1) in ids
            assert all(isinstance(part, Known) for part in parts) == (only and not silent)
        before += chunk.data


@pytest.mark.parametrize("count", [400, 2000, MAX_SEARCH + 1])
def test_a_long_run_inside_characters_takes_work_in_proportion(count):
    v = Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"\xe0\xe0"])
    recovery = Recovery(v, Recovery.table(v))
    parts = []
    chunk = Raw(b"\xe0" * count + b"a", count + 1, 97)
    work = lines_run(lambda: parts.extend(recovery.feed(chunk)))
    assert work < 100 * count
    if count <= MAX_SEARCH:
        assert parts == [Known(0xE0, b"\xe0")] * count + [Known(97, b"a")]
    else:
        assert parts == [Unknown(count, b"\xe0" * count), Known(97, b"a")]


@pytest.mark.parametrize("count", [4, 4 * 10**9, 10**15])
def test_a_count_above_the_bytes_is_a_gap(count):
    found = recovered(b"\xe6\x97\xa5", count, 2)
    assert found == [Unknown(count - 1, b"\xe6\x97"), Known(2, b"\xa5")]
