"""A stream that goes through a table of steps is the stream that Python decodes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import detok_py as d
from detok_py.page import answer, deltas, steps, streams

PIECES = [bytes([n]) for n in range(256)]
PIECES += [
    b" the",
    "你".encode(),
    "👩".encode()[:2],
    b"<think>",
    b"</think>",
    b"</s>",
    b"<th",
    b"ST",
]
THINK, UNTHINK, EOS = 259, 260, 261
VOCABULARY = d.Vocabulary.from_bytes(PIECES, special_ids=[THINK, UNTHINK, EOS], eos_ids=[EOS])
IDS = [*b"ST<thi/nk>a", 0xE4, 0xBD, 0xA0, 0xFF, *range(256, len(PIECES))]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"stop": ["STOP", "aa"]},
    {"reasoning": True, "tools": True, "trimArtifacts": True},
    {"stop": ["S"], "includeStop": True, "reasoning": ["<", ">"], "startWithReasoning": True},
    {"reasoning": "all"},
    {
        "reasoning": [["<", ">", "all"], ["<think>", "</think>"]],
        "tools": [["ST", None], ["a", "k"]],
    },
]


@pytest.fixture(autouse=True)
def kept():
    answer.kept_vocabularies[VOCABULARY.sha256] = VOCABULARY
    yield
    answer.kept_vocabularies.clear()


class Table:
    """What JavaScript keeps: the steps that it has asked for, by state and symbol."""

    def __init__(self, options: dict[str, Any], ids: bool) -> None:
        self.told = json.dumps({**options, "vocabulary": VOCABULARY.sha256} if ids else options)
        self.start = json.loads(streams.begin_steps(self.told))
        self.steps: dict[Any, Any] = {}

    def deltas(self, symbols: list[Any]) -> list[Any]:
        """Return the deltas of each symbol, and the reason of the end."""
        state, out = self.start, []
        for symbol in symbols:
            passes = isinstance(symbol, str) and state[1] is not None
            if passes and not any(f"{{{ord(c):x}}}" in state[1] for c in symbol):
                out.append([[state[4], symbol]] if symbol else [])
                continue
            key = state[0], symbol
            if key not in self.steps:
                [self.steps[key]] = json.loads(
                    streams.walk(self.told, state[0], json.dumps([symbol]))
                )
            said, reason, after = self.steps[key]
            out.append(said)
            if reason:
                return [*out, reason]
            state = after or state
        return out


def decoded(options: dict[str, Any], source: Any, symbols: list[Any]) -> list[Any]:
    """Return the same of the stream itself."""
    chat = deltas.open_chat(options, source)
    out = []
    for symbol in symbols:
        if symbol is None:
            return [*out, deltas.crossed(chat.flush()), chat.finish_reason or "end"]
        said = chat.push(symbol) if isinstance(symbol, int) else chat.feed(symbol)
        if chat.finish_reason:
            return [*out, deltas.crossed(said + chat.flush()), chat.finish_reason]
        out.append(deltas.crossed(said))
    return out


@pytest.mark.parametrize("options", OPTIONS)
@given(st.lists(st.lists(st.sampled_from(IDS), max_size=12), min_size=1, max_size=4))
def test_ids_through_the_table_give_with_each_push_what_the_stream_gives(options, several):
    table = Table(options, ids=True)
    for ids in several:
        symbols = [*ids, None]
        expected = decoded(options, d.Detokenizer(VOCABULARY), symbols)
        assert table.deltas(symbols) == expected


@pytest.mark.parametrize("options", OPTIONS)
@given(st.lists(st.text("STOPa<thinkHello/> é👩", max_size=8), max_size=8))
def test_text_through_the_table_gives_with_each_feed_what_the_stream_gives(options, texts):
    symbols = [*filter(None, texts), None]
    expected = decoded(options, steps.Text(), symbols)
    assert Table(options, ids=False).deltas(symbols) == expected


def test_many_symbols_are_one_question():
    table = Table({"stop": ["STOP"]}, ids=True)
    symbols = [*b"a ST", *b"OP", 256]
    said = json.loads(streams.walk(table.told, table.start[0], json.dumps(symbols)))
    assert [step[0] for step in said] == [[["content", "a"]], [["content", " "]], [], [], [], []]
    assert said[-1][1] == "stop"  # what comes after it has no step


def test_the_fan_of_a_state_is_its_steps_one_by_one():
    table = Table({"reasoning": True}, ids=True)
    fan = json.loads(streams.fan(table.told, table.start[0], 0, 10_000))
    assert len(fan) == len(VOCABULARY)
    for token_id, short in enumerate(fan):
        [step] = json.loads(streams.walk(table.told, table.start[0], json.dumps([token_id])))
        text = [["content", short]] if short else []
        assert step == ([text, None, None] if isinstance(short, str) else short)


def test_an_id_that_is_refused_says_why_and_changes_nothing():
    table = Table({}, ids=True)
    said = json.loads(streams.walk(table.told, table.start[0], "[104, 9999, 105]"))
    assert said[0] == [[["content", "h"]], None, None]
    assert "9999" in said[1]
    assert said[2] == [[["content", "i"]], None, None]


def test_half_a_character_that_ends_a_fatal_stream_is_refused():
    table = Table({"fatal": True}, ids=True)
    half, end = json.loads(streams.walk(table.told, table.start[0], "[228, null]"))
    assert half[2][2] == 1
    assert "UTF-8" in end or "utf-8" in end


@pytest.mark.native  # the wheel for browsers shortens private names
def test_the_future_of_a_stream_forgets_what_it_has_shown():
    def stream() -> d.ChatStream:
        return d.ChatStream(d.Detokenizer(VOCABULARY))

    one, other = stream(), stream()
    one.feed([*b"Hello <tool_call>x</tool_call>", 0xE4])
    other.feed([*b"Bye", 0xE4])
    assert one.calls == ["x"]
    assert one._future == other._future != stream()._future
    third = stream()
    third._future = json.loads(json.dumps(one._future))
    assert third.push(0xBD) + third.push(0xA0) == [("content", "你")]


def test_an_unknown_vocabulary_is_refused_by_name():
    with pytest.raises(d.VocabularyError, match="loadVocabulary"):
        streams.begin_steps(json.dumps({"vocabulary": "0" * 64}))
