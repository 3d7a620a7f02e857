"""StopStrings, case by case. The law for all short texts is in tests/laws/test_law_segments.py."""

import copy

import pytest

from detok_py.decode.channels import Channels
from detok_py.decode.stop_strings import StopStrings
from detok_py.errors import StreamEndedError


def test_the_first_stop_in_the_text_wins_not_the_first_in_the_list() -> None:
    st = StopStrings(["AA", "BB"])
    assert (st.feed("x BB AA"), st.stopped) == ("x ", "BB")


def test_held_shows_the_text_that_waits() -> None:
    st = StopStrings(["STOP"])
    st.feed("a ST")
    assert st.held_text == "ST"
    st.feed("OP")
    assert st.held_text == ""


def test_a_string_is_one_stop_and_none_is_no_stop() -> None:
    assert StopStrings("END").stops == ("END",)
    assert StopStrings(None).feed("anything") == "anything"


def test_a_stop_must_be_a_str() -> None:
    with pytest.raises(TypeError, match="A stop string must be a str, not 5"):
        StopStrings([5])


def test_feeding_after_the_end_is_refused_until_reset() -> None:
    st = StopStrings(["STOP"])
    st.feed("ST")
    assert (st.flush(), st.flush()) == ("ST", "")
    with pytest.raises(StreamEndedError):
        st.feed("OP")
    st.reset()
    assert st.feed("OP") == "OP"


@pytest.mark.parametrize("chunk", [b"abx", bytearray(b""), None, 3])
def test_bytes_are_refused(chunk):
    for stream in (StopStrings("x"), Channels()):
        with pytest.raises(TypeError, match=r"takes str.*StreamingDetokenizer"):
            stream.feed(chunk)


def test_a_number_of_characters_is_checked():
    with pytest.raises(TypeError, match=r"min_chars must be an int, not '3'"):
        StopStrings("x", min_chars="3")
    with pytest.raises(ValueError, match=r"min_chars must not be negative, not -1"):
        StopStrings("x", min_chars=-1)


@pytest.mark.parametrize("copied", [StopStrings.copy, copy.copy, copy.deepcopy])
def test_a_copy_is_independent(copied):
    st = StopStrings("STOP")
    st.feed("ST")
    fork = copied(st)
    assert (st.feed("OP"), st.stopped) == ("", "STOP")
    assert (fork.feed("IR"), fork.stopped) == ("STIR", None)
