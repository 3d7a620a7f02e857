"""StopStrings, case by case. The law for all short texts is in tests/laws/test_law_segments.py."""

import copy

import pytest

from detok_py.decode.channels import Channels
from detok_py.decode.stop_strings import StopStrings
from detok_py.errors import StreamEndedError


def stopped(
    stops: list[str], chunks: list[str], include: bool = False
) -> tuple[list[str], str, str | None]:
    """Return the output of each chunk, of `flush`, and the stop that was found."""
    st = StopStrings(stops, include)
    return [st.feed(chunk) for chunk in chunks], st.flush(), st.stopped


def test_text_that_begins_no_stop_is_shown_at_once() -> None:
    assert stopped(["STOP"], list("hello world")) == (list("hello world"), "", None)


def test_a_stop_that_overlaps_itself() -> None:
    assert stopped(["aab"], list("aaab")) == (["", "", "a", ""], "", "aab")


def test_a_stop_of_characters_of_several_bytes() -> None:
    assert stopped(["世界"], ["x", "世", "界", "y"]) == (["x", "", "", ""], "", "世界")


def test_the_first_stop_in_the_text_wins_not_the_first_in_the_list() -> None:
    assert stopped(["AA", "BB"], ["x BB AA"]) == (["x "], "", "BB")


def test_only_the_end_of_a_long_text_is_held() -> None:
    assert stopped(["STOP"], ["hello world", "S", "!"]) == (["hello world", "", "S!"], "", None)


def test_held_shows_the_text_that_waits() -> None:
    st = StopStrings(["STOP"])
    st.feed("a ST")
    assert st.held_text == "ST"
    st.feed("OP")
    assert st.held_text == ""


def test_at_most_the_longest_stop_less_a_character_is_held() -> None:
    stops = ["aaaaaaab", "aaaa\nb"]
    st = StopStrings(stops)
    for character in "aaaaaaaaaaaa\naaaaaaaa":
        st.feed(character)
        assert len(st.held_text) <= 7


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


def test_a_copy_is_independent() -> None:
    st = StopStrings(["STOP"])
    st.feed("ST")
    other = st.copy()
    assert (st.feed("OP"), st.stopped) == ("", "STOP")
    assert (other.feed("IR"), other.stopped) == ("STIR", None)


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


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_goes_on_by_itself(copied):
    st = StopStrings("STOP")
    st.feed("ST")
    fork = copied(st)
    assert (st.feed("OP"), fork.feed("!"), fork.stopped) == ("", "ST!", None)
