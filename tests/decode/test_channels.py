"""Channels: reasoning, tool calls and artifacts, case by case. The law for all short texts is in
tests/laws/test_law_segments.py.
"""

import pytest

from detok_py.decode.channels import ARTIFACTS, Channels


def channels(c: Channels, *chunks: str) -> list[list[tuple[str, str]]]:
    """Return the deltas of each chunk, and of `flush`."""
    return [[tuple(delta) for delta in c.feed(chunk)] for chunk in chunks] + [
        [tuple(delta) for delta in c.flush()]
    ]


def test_an_open_tag_cut_after_text() -> None:
    expected = [[("content", "Hi ")], [("reasoning", "abc")], [("content", "ans")], []]
    assert channels(Channels(), "Hi <th", "ink>abc</think>", "ans") == expected


def test_reasoning_that_never_ends() -> None:
    assert channels(Channels(), "<think>abc", "def") == [
        [("reasoning", "abc")],
        [("reasoning", "def")],
        [],
    ]


def test_tags_after_the_reasoning_are_text() -> None:
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


def test_text_directly_after_a_close_tag_is_kept() -> None:
    assert channels(Channels(), "<think>abc</think>Fi", "rst") == [
        [("reasoning", "abc"), ("content", "Fi")],
        [("content", "rst")],
        [],
    ]


def test_stop_strings_do_not_delay_reasoning() -> None:
    out = channels(Channels(["<|END|>"]), "<think>", "abc", "</think>", "Hello")
    assert out == [[], [("reasoning", "abc")], [], [("content", "Hello")], []]


def test_stops_act_on_reasoning_only_if_asked() -> None:
    text = "<think>a. Question: b</think>c"
    assert channels(Channels("Question:"), text)[0] == [
        ("reasoning", "a. Question: b"),
        ("content", "c"),
    ]
    assert channels(Channels("Question:", stop_scope="everywhere"), text)[0] == [
        ("reasoning", "a. ")
    ]


def test_open_call_is_the_text_of_an_unfinished_call() -> None:
    c = Channels()
    assert channels(c, '<tool_call>{"a":1', "}</tool") == [
        [("tool_call", '{"a":1')],
        [("tool_call", "}")],
        [("tool_call", "</tool")],
    ]
    assert (c.calls, c.open_call) == ([], '{"a":1}</tool')


def test_two_calls_are_two_deltas_and_two_calls() -> None:
    c = Channels()
    assert c.feed("<tool_call>A</tool_call><tool_call>B</tool_call><tool_call></tool_call>") == [
        ("tool_call", "A"),
        ("tool_call", "B"),
    ]
    assert (c.calls, c.open_call) == (["A", "B", ""], None)


def test_a_repeated_open_tag_is_dropped_once_and_only_at_the_beginning() -> None:
    assert channels(Channels(start="reasoning"), "<think><think>a</think>b")[0] == [
        ("reasoning", "<think>a"),
        ("content", "b"),
    ]
    assert channels(Channels(start="reasoning"), "a<think>b</think>c")[0] == [
        ("reasoning", "a<think>b"),
        ("content", "c"),
    ]
    assert channels(Channels(start="reasoning"), "<thin", "g")[:2] == [
        [],
        [("reasoning", "<thing")],
    ]


@pytest.mark.parametrize("marker", ARTIFACTS)
def test_an_artifact_is_dropped_at_both_ends_and_is_text_in_between(marker: str) -> None:
    text = f"{marker}a{marker}b{marker}"
    for chunks in ([text], list(text)):
        c = Channels()
        out = [delta.text for chunk in chunks for delta in c.feed(chunk)] + [
            delta.text for delta in c.flush()
        ]
        assert "".join(out) == f"a{marker}b"


def test_four_artifacts_are_dropped_at_each_end_and_further_ones_are_text() -> None:
    deltas = channels(Channels(trim_artifacts=["~"]), "~~~~~a~~~~~")
    assert "".join(text for each in deltas for _, text in each) == "~a~"


def test_artifacts_before_a_stop_are_dropped() -> None:
    assert channels(Channels("\nUser:"), "Yes.<|im_end|>\nUser: so") == [[("content", "Yes.")], []]


def test_an_artifact_before_a_tool_call_is_text() -> None:
    assert channels(Channels(), "a</s>", "<tool_call>{}</tool_call>") == [
        [("content", "a")],
        [("content", "</s>"), ("tool_call", "{}")],
        [],
    ]


def test_artifacts_can_be_chosen_or_turned_off() -> None:
    assert channels(Channels(trim_artifacts=["~~"]), "a</s>~~") == [[("content", "a</s>")], []]
    assert channels(Channels(trim_artifacts=False), "a</s>") == [[("content", "a</s>")], []]


def test_a_genuine_replacement_character_at_the_end_is_text() -> None:
    assert channels(Channels(), "a\ufffd") == [[("content", "a\ufffd")], []]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop_scope": "all"}, "stop_scope must be"),
        ({"start": "answer"}, "start must be"),
        ({"start": "reasoning", "reasoning": None}, "so reasoning must have tags"),
        ({"reasoning": "<think>"}, "must be None or a pair"),
        ({"tools": ("", "x")}, "a pair of non-empty tags"),
        ({"trim_artifacts": [tuple(range(20))]}, r"not \(0, 1, [^.]*, 1\.$"),
        ({"reasoning": ("<a>", "</a>"), "tools": ("<a>", "</b>")}, "same open tag"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Channels(**options)  # type: ignore[arg-type]


def deltas_of(channels, text):
    return [tuple(delta) for delta in channels.feed(text) + channels.flush()]


def test_every_block_of_reasoning_can_be_reasoning():
    text = "<think>a</think>b<think>c</think>d"
    assert deltas_of(Channels(), text) == [("reasoning", "a"), ("content", "b<think>c</think>d")]
    assert deltas_of(Channels(reasoning="all"), text) == [
        ("reasoning", "a"),
        ("content", "b"),
        ("reasoning", "c"),
        ("content", "d"),
    ]
    assert deltas_of(Channels(reasoning=("[T]", "[/T]", "all")), "[T]a[/T][T]b[/T]c") == [
        ("reasoning", "ab"),
        ("content", "c"),
    ]


def test_a_call_without_a_close_tag_ends_where_the_next_call_opens_or_with_the_text():
    c = Channels(tools=("[TOOL_CALLS]", None))
    assert [tuple(delta) for delta in c.feed('ok[TOOL_CALLS]a{"x":1}[TOOL_CALLS]b{}')] == [
        ("content", "ok"),
        ("tool_call", 'a{"x":1}'),
        ("tool_call", "b{}"),
    ]
    assert (c.calls, c.open_call) == (['a{"x":1}'], "b{}")
    assert c.flush() == []
    assert (c.calls, c.open_call) == (['a{"x":1}', "b{}"], None)
    c.flush()
    assert len(c.calls) == 2


def test_several_pairs_of_tags_are_told_apart():
    c = Channels(
        reasoning=[("<think>", "</think>"), ("<|begin|>", "<|end|>", "all")],
        tools=[("<tool_call>", "</tool_call>"), ("<|python_tag|>", None)],
    )
    text = "<think>a<|end|></think>b<|begin|>c</think><|end|><think><tool_call>{}<|python_tag|></tool_call><|python_tag|>x()"
    assert deltas_of(c, text) == [
        ("reasoning", "a<|end|>"),
        ("content", "b"),
        ("reasoning", "c</think>"),
        ("content", "<think>"),
        ("tool_call", "{}<|python_tag|>"),
        ("tool_call", "x()"),
    ]
    assert c.calls == ["{}<|python_tag|>", "x()"]


@pytest.mark.parametrize(
    "options",
    [
        {"reasoning": [("<a>", "</a>"), ("<a>", "</b>")]},
        {"reasoning": ("<a>", None)},
        {"reasoning": ("<a>", "</a>", "some")},
        {"tools": ("<a>", "</a>", "all")},
        {"tools": "all"},
        {"tools": ("<a>", "")},
        {"tools": [("<a>", "</a>"), None]},
        {"reasoning": 3},
    ],
)
def test_pairs_that_are_none_are_refused(options):
    with pytest.raises(ValueError, match=r"must (be None or a pair|not have the same open tag)"):
        Channels(**options)


def test_without_words_all_text_passes() -> None:
    c = Channels(reasoning=None, tools=None, trim_artifacts=False)
    assert channels(c, "some text that is longer than a word") == [
        [("content", "some text that is longer than a word")],
        [],
    ]


def test_where_a_call_begins_and_behind_the_end_no_text_just_passes() -> None:
    c = Channels(tools=("<c>", "</c>"))
    c.feed("x<c>")
    assert (c.at_rest, c.triggers) == (False, None)
    c.feed("a")
    assert (c.at_rest, c.triggers) == (True, "<")
    c.flush()
    assert (c.at_rest, c.triggers) == (False, None)
