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


def test_a_repeated_open_tag_is_dropped_once_and_only_if_it_is_whole() -> None:
    assert channels(Channels(start="reasoning"), "<think><think>a</think>b")[0] == [
        ("reasoning", "<think>a"),
        ("content", "b"),
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


def test_artifacts_can_be_chosen_or_turned_off() -> None:
    assert channels(Channels(trim_artifacts=["~~"]), "a</s>~~") == [[("content", "a</s>")], []]
    assert channels(Channels(trim_artifacts=False), "a</s>") == [[("content", "a</s>")], []]


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
        ({"reasoning": [("<a>", "</a>"), ("<a>", "</b>")]}, "same open tag"),
        ({"reasoning": ("<a>", None)}, "must be None or a pair"),
        ({"reasoning": ("<a>", "</a>", "some")}, "must be None or a pair"),
        ({"reasoning": 3}, "must be None or a pair"),
        ({"tools": ("<a>", "</a>", "all")}, "must be None or a pair"),
        ({"tools": "all"}, "must be None or a pair"),
        ({"tools": ("<a>", "")}, "must be None or a pair"),
        ({"tools": [("<a>", "</a>"), None]}, "must be None or a pair"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Channels(**options)  # type: ignore[arg-type]


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


def test_several_pairs_of_tags_are_told_apart() -> None:
    c = Channels(
        reasoning=[("<think>", "</think>"), ("<|begin|>", "<|end|>", "all")],
        tools=[("<tool_call>", "</tool_call>"), ("<|python_tag|>", None)],
    )
    text = "<think>a<|end|></think>b<|begin|>c</think><|end|><think><tool_call>{}<|python_tag|></tool_call><|python_tag|>x()"
    assert channels(c, text) == [
        [
            ("reasoning", "a<|end|>"),
            ("content", "b"),
            ("reasoning", "c</think>"),
            ("content", "<think>"),
            ("tool_call", "{}<|python_tag|>"),
            ("tool_call", "x()"),
        ],
        [],
    ]
    assert c.calls == ["{}<|python_tag|>", "x()"]


def test_where_a_call_begins_and_behind_the_end_no_text_just_passes() -> None:
    c = Channels(tools=("<c>", "</c>"))
    c.feed("x<c>")
    assert (c.at_rest, c.triggers) == (False, None)
    c.feed("a")
    assert (c.at_rest, c.triggers) == (True, "<")
    c.flush()
    assert (c.at_rest, c.triggers) == (False, None)
