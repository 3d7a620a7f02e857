"""What servers say is read by one table: every vector in tests/vectors/servers.json, whole and
event by event, and an event of another shape is never misread.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import text_of
from server_vectors import VECTORS, body_of

from detok_py.captures.event_shapes import Call, Calls, find, read_event
from detok_py.captures.read import read
from detok_py.errors import CaptureError

NAMES = [vector["name"] for vector in VECTORS]


def values_of(vector):
    """Return the values of a vector's events."""
    if vector["kind"] == "parts":
        return [{"type": part[:2], "value": json.loads(part[2:])} for part in vector["body"]]
    values = vector["body"] if isinstance(vector["body"], list) else [vector["body"]]
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_what_a_server_says_is_read_event_by_event(vector):
    got = {"content": "", "reasoning": "", "tool_call": "", "finish": None, "error": ""}
    calls, ids, pieces, total, sent = Calls(), [], [], None, ""
    for event in values_of(vector):
        said = read_event(event, total or 0, sent)
        if said is None:
            continue
        got["content"] += said.text
        got["reasoning"] += said.reasoning
        got["tool_call"] += "".join([calls.feed(call) for call in said.calls])
        got["finish"] = said.finish or got["finish"]
        got["error"] += said.error or ""
        ids += said.ids or []
        pieces += [data.hex() for _, data in said.tokens if data is not None]
        total = total if said.total is None else said.total
        sent = said.so_far or sent
    got["tool_call"] += calls.flush()
    assert vector.get("error", "") in got.pop("error")
    assert got == {name: vector.get(name, "") or (None if name == "finish" else "") for name in got}
    for name, value in (("ids", ids), ("bytes", pieces), ("total", total)):
        if name in vector:
            assert value == vector[name]


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_what_a_server_says_is_read_from_a_file(vector):
    texts = {name: vector[name] for name in ("content", "reasoning", "tool_call") if name in vector}
    try:
        found = read(body_of(vector))
    except CaptureError:
        assert texts == {}, "there is text in it"
        return
    got = {channel: text_of(found, channel) for channel in {one.channel for one in found.chunks}}
    assert {channel: text for channel, text in got.items() if text} == texts
    assert [chunk.broken for chunk in found.chunks if chunk.broken] == []
    assert (found.end or {}).get("reason") == vector.get("finish")
    assert vector.get("error", "") in (found.end or {}).get("message", "")
    server = found.header["source"]["server"]
    assert server == vector.get("server", server)


@pytest.mark.parametrize(
    "event",
    [
        None,
        [1],
        3,
        {},
        {"usage": {"total": 3}},
        {"type": "audio.delta", "delta": "AAAA"},
        {"text": 7},
        {"error": None},
        {"error": ""},
        {"results": [{"text": "a page that was found"}]},
        {"type": "speech.text.done", "text": "all of it again"},
    ],
)
def test_an_event_of_another_shape_says_nothing(event):
    said = read_event(event)
    assert said is None or not (said.text or said.reasoning or said.calls or said.error)


def test_ids_that_sglang_repeats_without_their_count_are_left_out():
    first = read_event({"output_ids": [10, 11], "meta_info": {}})
    second = read_event({"output_ids": [10, 11, 12], "meta_info": {}}, first.total)
    assert (first.ids, second.ids, second.total) == ([10, 11], [12], 3)


@pytest.mark.parametrize("damage", [{"bytes": [256]}, {"bytes": 7}, {"bytes": ["a"]}, {}, 7])
def test_damaged_bytes_are_no_bytes(damage):
    assert read_event({"content": "", "completion_probabilities": [damage]}).data is None


@pytest.mark.parametrize("number", ["9" * 4000, "-1", "1.5", "1e400", "true", "null", '"7"', "{}"])
def test_a_number_that_cannot_be_is_no_number(number):
    for shape in (
        '{"content":"a","stop":false,"tokens_predicted":%s,"tokens":%s,"completion_probabilities":'
        '[{"id":%s,"bytes":[%s]}]}',
        '{"choices":[{"delta":{"content":"a","tool_calls":[{"index":%s,"function":{"name":"f"}}]},'
        '"token_ids":%s}],"usage":{"completion_tokens":%s},"other":%s}',
        '{"text":"a","output_ids":%s,"meta_info":{"completion_tokens":%s},"one":%s,"other":%s}',
    ):
        said = read_event(json.loads(shape % tuple([number] * 4)), 0, "")
        assert (said.text, said.ids, said.data, said.total) == ("a", None, None, None)


def test_a_choice_with_an_endless_index_is_left_out_in_a_short_sentence():
    body = '{"choices":[{"index":%s,"delta":{"content":"b"}}]}\n{"response":"a"}\n' % ("9" * 4000)
    found = read(body.encode())
    assert [chunk.data for chunk in found.chunks] == [b"a"]
    assert [problem.reason for problem in found.problems] == [
        "choice 999999999 is left out: only choice 0 is read"
    ]


def test_the_token_of_a_name_that_is_no_id_and_no_bytes_is_its_text():
    names = ["token_id:²", "token_id:" + "9" * 5000, "bytes:\\x1ff", "\ud800"]
    said = read_event({"choices": [{"text": "a", "logprobs": {"tokens": names}}]})
    assert [token[0] for token in said.tokens] == [None] * 4
    assert [token[1] for token in said.tokens][2:] == [None, None]


def test_calls_whose_pieces_interleave_stay_apart():
    calls = Calls()
    heads = [Call(0, "a", "f", "", False), Call(1, "b", "g", "", False)]
    rest = [Call(0, "", "", '{"x":', False), Call(1, "", "", '{"y":', False)]
    rest += [Call(0, "", "", "1}", False), Call(1, "", "", "2}", False)]
    text = "".join([calls.feed(call) for call in heads + rest]) + calls.flush()
    assert [json.loads(line) for line in text.split("\n")] == [
        {"name": "f", "arguments": {"x": 1}},
        {"name": "g", "arguments": {"y": 2}},
    ]
    assert not calls.broken


def test_a_call_with_whole_arguments_ends_where_the_next_begins():
    calls = Calls()
    assert calls.feed(Call(0, "a", "f", "{}", False)) == '{"name": "f", "arguments": {}'
    assert calls.feed(Call(1, "b", "g", "", False)) == '}\n{"name": "g", "arguments": '
    assert calls.feed(Call(0, "", "", "", False)) == ""  # some servers end each call with it
    assert calls.flush() == "{}}"


def test_many_calls_that_break_off_are_not_all_held():
    calls = Calls()
    begun = "".join([calls.feed(Call(n, "", "f", "{", False)) for n in range(1000)])
    assert 900 < begun.count("name") < 1000
    assert (begun + calls.flush()).count("name") == 1000


def test_a_call_with_the_index_of_another_ends_it():
    for index in (0, None):
        calls = Calls()
        text = "".join([calls.feed(Call(index, str(n), "f", "", False)) for n in range(3)])
        assert text == '{"name": "f", "arguments": {}}\n' * 2 + '{"name": "f", "arguments": '


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b", [1]),
        ("x|a.b", [1]),
        ("x,a.b", [1]),
        ("empty|a.b", [1]),
        ("empty", [""]),
        ("nothing", []),
        ("list[*].n", [1, 2, 3]),
        ("list[on].n", [1]),
        ("list[!on].n", [2, 3]),
        ("list[kind=x].n", [2]),
        ("a[b].b", [1]),
        ("a.b.c", []),
        ("x?word|a.b?word", ["word"]),
        ("?word", ["word"]),
    ],
)
def test_a_path_finds_values(path, found):
    items = [{"n": 1, "on": True}, {"n": 2, "on": False, "kind": "x"}, {"n": 3}, 4]
    event = {"a": {"b": 1}, "empty": "", "nothing": None, "list": items}
    assert find(event, path) == found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 300) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("choices", "delta", "content", "text", "token", "id", "message"),
                    *("completion_probabilities", "bytes", "output_ids", "meta_info"),
                    *("candidates", "parts", "functionCall", "error", "type", "tool_calls"),
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
    said = read_event(event)
    if said is not None:
        assert isinstance(said.text, str) and isinstance(said.reasoning, str)
        assert said.ids is None or all(isinstance(i, int) for i in said.ids)
        assert said.data is None or isinstance(said.data, bytes)
