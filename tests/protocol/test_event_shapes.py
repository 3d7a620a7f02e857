"""Each engine's events are read by one table, and an event of another shape is never misread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py.protocol.event_shapes import Said, read_event


def said(text="", ids=None, data=None, finish=None, total=None):
    return Said(text, ids, data, finish, total)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {
                "content": "a",
                "tokens_predicted": 3,
                "completion_probabilities": [{"id": 7, "bytes": [240]}],
            },
            said("a", [7], b"\xf0", total=3),
        ),
        ({"content": "", "stop": True, "stop_type": "eos"}, said(finish="eos")),
        ({"choices": [{"text": "a", "token_ids": [5, 6]}]}, said("a", [5, 6])),
        (
            {"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}]},
            said("a", finish="length"),
        ),
        ({"choices": [{"message": {"content": "a"}}]}, said("a")),
        ({"choices": [], "usage": {}}, said()),
        ({"token": {"id": 7, "text": "a"}}, said("a", [7])),
        (
            {"token": {"id": 7}, "details": {"finish_reason": "eos_token"}},
            said("", [7], finish="eos_token"),
        ),
        ({"message": {"content": "a"}, "done": False}, said("a")),
        ({"response": "", "done": True, "done_reason": "stop"}, said(finish="stop")),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}, said("a")),
        ({"type": "response.output_text.delta", "delta": "a"}, said("a")),
        ({"type": "text-delta", "id": "1", "delta": "a"}, said("a")),
        ({"text": "a"}, said("a")),
    ],
    ids=lambda value: None if isinstance(value, Said) else ",".join(value),
)
def test_an_event_of_an_engine_is_read(event, expected):
    assert read_event(event) == expected


@pytest.mark.parametrize(
    "event",
    [
        None,
        [1],
        3,
        {},
        {"usage": {"total": 3}},
        {"type": "tool-input-delta", "delta": "{"},
        {"type": "message_start", "message": {"content": []}},
        {"text": 7},
    ],
)
def test_an_event_of_another_shape_says_nothing(event):
    assert read_event(event) is None


@pytest.mark.parametrize("totals", [(2, 3), (None, None)])
def test_ids_that_sglang_repeats_are_left_out(totals):
    first = read_event({"output_ids": [10, 11], "meta_info": {"completion_tokens": totals[0]}})
    second = read_event(
        {"output_ids": [10, 11, 12], "meta_info": {"completion_tokens": totals[1]}}, first.total
    )
    assert (first.ids, second.ids, second.total) == ([10, 11], [12], 3)


def test_ids_that_sglang_does_not_repeat_are_all_new():
    event = {
        "output_ids": [12],
        "meta_info": {"completion_tokens": 3, "finish_reason": {"type": "stop"}},
    }
    assert read_event(event, 2) == said("", [12], finish="stop", total=3)


@pytest.mark.parametrize("damage", [{"bytes": [256]}, {"bytes": 7}, {"bytes": ["a"]}, {}, 7])
def test_damaged_bytes_are_no_bytes(damage):
    assert read_event({"completion_probabilities": [damage]}).data is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 300) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "text",
                    "token",
                    "id",
                    "message",
                    "completion_probabilities",
                    "bytes",
                    "output_ids",
                    "meta_info",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
)


@pytest.mark.slow
@given(JSON)
def test_no_event_raises(event):
    found = read_event(event)
    if found is not None:
        assert isinstance(found.text, str)
        assert found.ids is None or all(isinstance(i, int) for i in found.ids)
        assert found.data is None or isinstance(found.data, bytes)
