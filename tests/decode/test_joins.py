"""Where tokens become text: bytes that follow each other, byte runs, and text between them."""

import json

import pytest

from detok_py.decode.joins import Join, WholeRuns
from detok_py.decode.stage import LITERAL, PIECE, RAW, Item, tuples
from detok_py.decode.text_stages import Row, StripText


def raw(data):
    return Item(RAW, "", data)


def join(kind, *items, errors="replace"):
    """Return the output item by item, with the state converted to JSON and back each time, and at
    the end.
    """

    def make():
        return kind(errors, lambda: Row([StripText(" ", 1, 0)]))

    at, out = make(), []
    for item in items:
        out.append(at.feed(item))
        state = tuples(json.loads(json.dumps(at.state)))
        at = make()
        at.state = state
    return [*out, at.flush()]


def test_bytes_that_follow_each_other_are_one_stream():
    assert join(Join, raw(b" \xc3"), raw(b"\xa9!")) == ["", "é!", ""]


@pytest.mark.parametrize("kind", [PIECE, LITERAL])
def test_text_ends_a_character_that_is_not_finished(kind):
    assert join(Join, raw(b"\xe4"), raw(b"\xbd"), Item(kind, "a", b"")) == ["", "", "\ufffda", ""]
    assert join(WholeRuns, raw(b"\xe4"), raw(b"\xbd"), Item(kind, "a", b"")) == [
        *("", "", "\ufffd\ufffda", ""),
    ]


def test_a_whole_run_is_held_until_it_is_known_to_be_good_or_bad():
    good = [raw(bytes([byte])) for byte in "é!".encode()]
    assert join(WholeRuns, *good) == ["", "", "", "é!"]
    assert join(WholeRuns, *good, raw(b"\xff"), raw(b"a")) == [
        *("", "", "", "\ufffd" * 4, "\ufffd", ""),
    ]


def test_what_both_futures_of_a_run_begin_with_is_shown():
    genuine = [raw(bytes([byte])) for byte in "\ufffd".encode()]
    assert join(WholeRuns, *genuine) == ["", "", "\ufffd", ""]


def test_the_text_stages_see_what_the_join_has_made():
    assert join(WholeRuns, raw(b" "), Item(PIECE, " a", b"")) == ["", " a", ""]


def test_error_policies_reach_both_kinds():
    for kind in (Join, WholeRuns):
        assert "".join(join(kind, raw(b"\xff"), errors="backslashreplace")) == "\\xff"
        assert "".join(join(kind, raw(b"\xff"), errors="ignore")) == ""
