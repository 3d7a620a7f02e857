"""Stop strings, channels and markers: what a person would want of each, case by case."""

import pytest

from detok_py.errors import StreamEndedError
from detok_py.segments import ARTIFACTS, Channels, StopStrings


def stopped(stops: list[str], chunks: list[str], include: bool = False) -> tuple[list[str], str, str | None]:
    st = StopStrings(stops, include)
    return [st.feed(chunk) for chunk in chunks], st.flush(), st.stopped


def channels(c: Channels, *chunks: str) -> list[list[tuple[str, str]]]:
    return [[tuple(delta) for delta in c.feed(chunk)] for chunk in chunks] + [[tuple(delta) for delta in c.flush()]]


def test_text_without_a_beginning_of_a_stop_never_waits() -> None:
    assert stopped(["STOP"], list("hello world")) == (list("hello world"), "", None)


def test_a_stop_that_overlaps_itself() -> None:
    assert stopped(["aab"], list("aaab")) == (["", "", "a", ""], "", "aab")


def test_a_stop_of_several_bytes_a_character() -> None:
    assert stopped(["世界"], ["x", "世", "界", "y"]) == (["x", "", "", ""], "", "世界")


def test_the_first_in_the_text_wins_not_the_first_in_the_list() -> None:
    assert stopped(["AA", "BB"], ["x BB AA"]) == (["x "], "", "BB")


def test_long_text_is_held_only_by_its_end() -> None:
    assert stopped(["STOP"], ["hello world", "S", "!"]) == (["hello world", "", "S!"], "", None)


def test_what_waits_can_be_seen() -> None:
    st = StopStrings(["STOP"])
    st.feed("a ST")
    assert st.held == "ST"
    st.feed("OP")
    assert st.held == ""


def test_a_held_tail_is_at_most_the_longest_stop_less_a_character() -> None:
    stops = ["aaaaaaab", "aaaa\nb"]
    st = StopStrings(stops)
    for character in "aaaaaaaaaaaa\naaaaaaaa":
        st.feed(character)
        assert len(st.held) <= 7


def test_a_single_string_is_one_stop_and_none_is_no_stop() -> None:
    assert StopStrings("END").stops == ("END",)
    assert StopStrings(None).feed("anything") == "anything"


def test_stops_are_text() -> None:
    with pytest.raises(TypeError, match="a stop string is text, not 5"):
        StopStrings([5])


def test_feeding_after_the_end_is_refused_until_reset() -> None:
    st = StopStrings(["STOP"])
    st.feed("ST")
    assert (st.flush(), st.flush()) == ("ST", "")
    with pytest.raises(StreamEndedError):
        st.feed("OP")
    st.reset()
    assert st.feed("OP") == "OP"


def test_a_copy_goes_its_own_way() -> None:
    st = StopStrings(["STOP"])
    st.feed("ST")
    other = st.copy()
    assert (st.feed("OP"), st.stopped) == ("", "STOP")
    assert (other.feed("IR"), other.stopped) == ("STIR", None)


def test_an_open_tag_cut_after_text() -> None:
    expected = [[("content", "Hi ")], [("reasoning", "abc")], [("content", "ans")], []]
    assert channels(Channels(), "Hi <th", "ink>abc</think>", "ans") == expected


def test_reasoning_that_never_ends() -> None:
    assert channels(Channels(), "<think>abc", "def") == [[("reasoning", "abc")], [("reasoning", "def")], []]


def test_a_second_block_is_text() -> None:
    out = channels(Channels(), "<think>a</think>", "b", "<think>", "c", "</think>", "d")
    assert out == [
        [("reasoning", "a")],
        [("content", "b")],
        [("content", "<think>")],
        [("content", "c")],
        [("content", "</think>")],
        [("content", "d")],
        [],
    ]


def test_the_first_word_behind_a_close_tag_is_kept() -> None:
    assert channels(Channels(), "<think>abc</think>Fi", "rst") == [[("reasoning", "abc"), ("content", "Fi")], [("content", "rst")], []]


def test_a_stop_being_watched_for_does_not_delay_reasoning() -> None:
    out = channels(Channels(["<|END|>"]), "<think>", "abc", "</think>", "Hello")
    assert out == [[], [("reasoning", "abc")], [], [("content", "Hello")], []]


def test_stops_act_on_reasoning_only_if_asked() -> None:
    text = "<think>a. Question: b</think>c"
    assert channels(Channels("Question:"), text)[0] == [("reasoning", "a. Question: b"), ("content", "c")]
    assert channels(Channels("Question:", stop_scope="everywhere"), text)[0] == [("reasoning", "a. ")]


def test_an_unfinished_call_can_be_seen() -> None:
    c = Channels()
    assert channels(c, '<tool_call>{"a":1', "}</tool") == [[("tool_call", '{"a":1')], [("tool_call", "}")], [("tool_call", "</tool")]]
    assert (c.calls, c.open_call) == ([], '{"a":1}</tool')


def test_two_calls_are_two_deltas_and_two_calls() -> None:
    c = Channels()
    assert c.feed("<tool_call>A</tool_call><tool_call>B</tool_call><tool_call></tool_call>") == [("tool_call", "A"), ("tool_call", "B")]
    assert (c.calls, c.open_call) == (["A", "B", ""], None)


def test_a_repeated_open_tag_is_dropped_once_and_only_at_the_beginning() -> None:
    assert channels(Channels(start="reasoning"), "<think><think>a</think>b")[0] == [("reasoning", "<think>a"), ("content", "b")]
    assert channels(Channels(start="reasoning"), "a<think>b</think>c")[0] == [("reasoning", "a<think>b"), ("content", "c")]
    assert channels(Channels(start="reasoning"), "<thin", "g")[:2] == [[], [("reasoning", "<thing")]]


@pytest.mark.parametrize("marker", ARTIFACTS)
def test_a_marker_is_trimmed_at_both_ends_and_text_in_between(marker: str) -> None:
    text = f"{marker}a{marker}b{marker}"
    for chunks in ([text], list(text)):
        c = Channels()
        out = [delta.text for chunk in chunks for delta in c.feed(chunk)] + [delta.text for delta in c.flush()]
        assert "".join(out) == f"a{marker}b"


def test_markers_before_a_stop_are_trimmed() -> None:
    assert channels(Channels("\nUser:"), "Yes.<|im_end|>\nUser: so") == [[("content", "Yes.")], []]


def test_a_marker_before_a_tool_call_is_text() -> None:
    assert channels(Channels(), "a</s>", "<tool_call>{}</tool_call>") == [
        [("content", "a")],
        [("content", "</s>"), ("tool_call", "{}")],
        [],
    ]


def test_markers_can_be_ones_own_or_none() -> None:
    assert channels(Channels(trim_artifacts=["~~"]), "a</s>~~") == [[("content", "a</s>")], []]
    assert channels(Channels(trim_artifacts=False), "a</s>") == [[("content", "a</s>")], []]


def test_a_genuine_replacement_character_at_the_end_is_text() -> None:
    assert channels(Channels(), "a\ufffd") == [[("content", "a\ufffd")], []]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop_scope": "all"}, "stop_scope is"),
        ({"start": "answer"}, "start is"),
        ({"start": "reasoning", "reasoning": None}, "needs the tags of reasoning"),
        ({"reasoning": "<think>"}, "a pair of tags"),
        ({"tools": ("", "x")}, "none of them empty"),
        ({"reasoning": ("<a>", "</a>"), "tools": ("<a>", "</b>")}, "same open tag"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Channels(**options)  # type: ignore[arg-type]
