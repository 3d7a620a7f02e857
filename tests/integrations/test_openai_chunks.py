"""The chunks of a chat completion as deltas, and text as the first stage of a ChatStream."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import arriving

from detok_py.integrations import openai

pytestmark = pytest.mark.native


@given(st.text(st.sampled_from("aST<>\ud83d\ude00\udc00é😀"), max_size=12), st.data())
def test_text_in_any_chunks_is_the_text_with_its_pairs_joined(text, data):
    # As JSON has it: halves of pairs are characters of their own.
    whole = text.encode("utf-16-le", "surrogatepass")
    units = [whole[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(whole), 2)]
    expected = whole.decode("utf-16-le", "replace")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(units)), max_size=4)))
    chunks = ["".join(units[a:b]) for a, b in zip([0, *cuts], [*cuts, len(units)])]
    stage, out = openai.TextStage(), ""
    for chunk in chunks:
        stage, other = stage.copy(), stage
        out += stage.feed(chunk)
        assert other.held_text == "" or other.held_text in "\ud83d\ude00\udc00"
        assert expected.startswith(out)
        out.encode()
    assert out + stage.flush() == expected
    stage.reset()
    assert stage.feed("x") == "x"


def chunk(content=None, finish=None, index=0, **fields):
    delta = {"content": content, **fields}
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


CHUNKS = [
    chunk(role="assistant"),
    chunk(reasoning_content="hm \ud83e"),
    chunk(reasoning_content="\udd14"),
    chunk("<th"),
    chunk("ink>more</think>"),
    chunk("not this one", index=1),
    chunk("yes \ud83d"),
    chunk("\ude00 ST"),
    chunk("OP and more"),
    chunk(finish="stop"),
    {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9}},
]
DELTAS = [
    ("reasoning", "hm "),
    ("reasoning", "🤔"),
    ("reasoning", "more"),
    ("content", "yes "),
    ("content", "😀 "),
]


def as_object(value):
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_object(one) for key, one in value.items()})
    return [as_object(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("make", [lambda value: value, as_object], ids=["dicts", "objects"])
def test_the_chunks_of_a_completion_are_deltas_of_a_chat(make):
    chunks = [make(value) for value in CHUNKS]
    answer = openai.ChatDeltas(chunks, stop=["STOP"])
    assert [tuple(delta) for delta in answer] == DELTAS
    assert (answer.finish_reason, answer.chat.stopped) == ("stop", "STOP")

    async def main():
        answer = openai.ChatDeltas(arriving(chunks), stop=["STOP"])
        return [tuple(delta) async for delta in answer]

    assert asyncio.run(main()) == DELTAS


def test_calls_in_a_format_are_read():
    chunks = [chunk('<tool_call>{"name": "f", "argum'), chunk('ents": {"a": 1}}</tool_call>')]
    answer = openai.ChatDeltas(chunks, format="qwen3_hermes")
    deltas = [(delta.text, delta.call, delta.name) for delta in answer]
    assert deltas == [("", 0, "f"), ('{"a": 1}', 0, None)]
    assert [call.arguments for call in answer.chat.calls] == ['{"a": 1}']


def test_the_reason_is_the_servers_where_the_chat_has_none():
    answer = openai.ChatDeltas([chunk("a"), chunk(finish="length")])
    assert [tuple(delta) for delta in answer] == [("content", "a")]
    assert answer.finish_reason == "length"
    with pytest.raises(TypeError, match="takes str, not bytes"):
        openai.TextStage().feed(b"x")


def test_chunks_of_openai_python_are_read():
    real = pytest.importorskip("openai.types.chat", reason="openai is not installed")
    fields = {"id": "x", "created": 1, "model": "m", "object": "chat.completion.chunk"}
    chunks = [real.ChatCompletionChunk.model_validate({**fields, **one}) for one in CHUNKS]
    assert [tuple(d) for d in openai.ChatDeltas(chunks, stop=["STOP"])] == DELTAS


FAILURE = {"message": "EngineCore encountered an issue", "type": "InternalServerError", "code": 500}


@pytest.mark.parametrize("make", [lambda value: value, as_object], ids=["dicts", "objects"])
@pytest.mark.parametrize(
    "last",
    [
        {"error": FAILURE},
        {"error": FAILURE, **chunk(finish="error")},
        {"object": "error", **FAILURE, "choices": None},
    ],
)
def test_an_error_of_the_server_is_raised_behind_the_text_before_it(last, make):
    chunks = [make(chunk("<think>hm</think>yes ST")), make(last), make(chunk("never"))]

    def read(into):
        for delta in openai.ChatDeltas(chunks, stop=["STOP"]):
            into.append(tuple(delta))

    async def read_asynchronously(into):
        async for delta in openai.ChatDeltas(arriving(chunks), stop=["STOP"]):
            into.append(tuple(delta))

    for reading in (read, lambda into: asyncio.run(read_asynchronously(into))):
        got = []
        with pytest.raises(openai.ServerError, match="EngineCore encountered an issue") as raised:
            reading(got)
        assert got == [("reasoning", "hm"), ("content", "yes "), ("content", "ST")]
        assert make is as_object or raised.value.error["code"] == 500


def test_an_error_that_is_only_a_word_is_raised():
    with pytest.raises(openai.ServerError, match="overloaded"):
        list(openai.ChatDeltas([{"error": "overloaded"}]))


@pytest.mark.parametrize("wrong", ["data: {}", b"{}", 5, None, ["a"], ("id", "x")])
def test_what_is_no_chunk_is_refused(wrong):
    with pytest.raises(TypeError, match="reads chunks of a chat completion, not "):
        list(openai.ChatDeltas([wrong]))
    with pytest.raises(TypeError, match="reads chunks"):
        list(openai.ChatDeltas("some text"))


def test_the_stops_of_an_answer_are_those_that_it_was_made_with():
    stops = ["STOP"]
    given_as = (stops, iter(stops), set(stops))
    answers = [openai.ChatDeltas([chunk("a STOP b")], stop=each) for each in given_as]
    stops.clear()
    for answer in answers:
        assert [tuple(delta) for delta in answer] == [("content", "a ")]
        assert answer.chat.stopped == "STOP"
