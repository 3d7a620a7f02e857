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
    """What JavaScript does (web/src/step-table.js): it asks for a step only where Python has not
    said beforehand what it is, and keeps it.
    """

    def __init__(self, options: dict[str, Any], ids: bool) -> None:
        if ids:
            options = {"vocabulary": VOCABULARY.sha256, **options}
        self.told = json.dumps(options)
        self.start, *tokens = json.loads(streams.begin_steps(self.told))
        self.steps: dict[Any, Any] = {}
        self.place, self.asked = tokens or (None, [])
        self.file, self.texts = b"", []
        if tokens:
            self.file = answer.kept_vocabularies[options["vocabulary"]].pack()
        if tokens and self.place is None:
            self.texts = json.loads(streams.tokens_of(self.told, 0, 1 << 20))

    def token(self, i: int) -> Any:
        """Return what a token is: bytes, a text, or None if it is asked for."""
        if i < 0 or any(first <= i <= last for first, last in self.asked):
            return None
        if self.place is None:
            found = self.texts[i] if i < len(self.texts) else None
            return bytes([found]) if isinstance(found, int) else found
        lengths, blob, long = self.place
        if i >= blob - lengths:
            return None
        sizes = [long.get(str(n), self.file[lengths + n]) for n in range(i + 1)]
        at = blob + sum(sizes[:-1])
        return self.file[at : at + sizes[-1]]

    def passed(self, state: Any, symbol: Any) -> Any:
        """Return the step that is known beforehand: [deltas, reason, state]; else None."""
        _, tokens, held, passes, waiting, _ = state
        if passes is None or symbol is None:
            return None
        rest = ""
        if isinstance(symbol, int):
            token = self.token(symbol) if tokens else None
            if token is None:
                return None
            stream = d.StreamingDetokenizer("strict" if '"fatal": true' in self.told else "replace")
            stream.load((held, 0, False))
            try:
                text = stream.feed(token.encode() if isinstance(token, str) else token)
            except UnicodeError:
                return None
            rest = stream.held.hex()
            if rest and waiting:
                return None
        else:
            text = symbol
        out: list[list[Any]] = []
        now = [*state[:2], "", *state[3:]] if tokens else state
        for c in text:
            if now[3] is None:
                return None
            if c not in now[3][0]:
                out.append([now[5], now[3][1] + c])
                now = now[3][2] or now
                continue
            said, reason, after = self.asked_for(now, c)
            out += said
            if reason:
                return [joined(out), reason, None]
            now = after or now
        if rest and now[4]:
            return None
        return [joined(out), None, [*now[:2], rest, *now[3:]]]

    def asked_for(self, state: Any, symbol: Any) -> Any:
        """Return the step that Python gives, asked for once."""
        key = state[0], state[2] if state[1] else "", symbol
        if key not in self.steps:
            symbols = json.dumps([symbol])
            [self.steps[key]] = json.loads(streams.fan(self.told, *key[:2], symbols))
        return self.steps[key]

    def deltas(self, symbols: list[Any]) -> list[Any]:
        """Return the deltas of each symbol, and the reason of the end."""
        state, out = self.start, []
        for symbol in symbols:
            step = self.passed(state, symbol)
            said, reason, after = step or self.asked_for(state, symbol)
            out.append(said)
            if reason:
                return [*out, reason]
            state = after or state
        return out


def joined(deltas: list[Any]) -> list[Any]:
    """Return neighbours of one channel as one delta."""
    out: list[Any] = []
    for delta in deltas:
        if out and len(delta) == 2 == len(out[-1]) and out[-1][0] == delta[0]:
            out[-1] = [delta[0], out[-1][1] + delta[1]]
        else:
            out.append(delta)
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


@given(st.lists(st.integers(0, 4), max_size=8))
def test_a_byte_that_a_stage_makes_of_a_piece_waits_for_the_rest_of_its_character(ids):
    stages = [{"type": kind} for kind in ("Metaspace", "ByteFallback", "Fuse")]
    pieces = ["▁a", "b", "<0xE4>", "<0xBD>", "<0xA0>"]
    vocabulary = d.Vocabulary.from_pieces(pieces, {"type": "Sequence", "decoders": stages})
    answer.kept_vocabularies[vocabulary.sha256] = vocabulary
    table = Table({"vocabulary": vocabulary.sha256}, ids=True)
    expected = decoded({}, d.Detokenizer(vocabulary), [*ids, None])
    assert table.deltas([*ids, None]) == expected


@pytest.mark.parametrize("options", OPTIONS)
@given(st.lists(st.text("STOPa<thinkHello/> é👩", max_size=8), max_size=8))
def test_text_through_the_table_gives_with_each_feed_what_the_stream_gives(options, texts):
    symbols = [*filter(None, texts), None]
    expected = decoded(options, steps.Text(), symbols)
    assert Table(options, ids=False).deltas(symbols) == expected


OVERLAPS: list[dict[str, Any]] = [
    {"trimArtifacts": ["a", "abc"]},
    {"stop": ["abcb"], "includeStop": True},
    {"stop": ["bcx"], "trimArtifacts": ["ab", "abca"], "reasoning": ["ac", "ca"]},
]


@pytest.mark.parametrize("options", OVERLAPS)
@given(st.text("abcx", max_size=10))
def test_text_through_the_table_is_the_stream_where_words_begin_alike(options, text):
    expected = decoded(options, steps.Text(), [*text, None])
    assert Table(options, ids=False).deltas([*text, None]) == expected


def test_many_symbols_are_one_question():
    table = Table({"stop": ["STOP"]}, ids=True)
    symbols = [*b"a ST", *b"OP", 256]
    said = json.loads(streams.walk(table.told, table.start[0], "", json.dumps(symbols)))
    assert [step[0] for step in said] == [[["content", "a"]], [["content", " "]], [], [], [], []]
    assert said[-1][1] == "stop"  # what comes after it has no step


def test_the_fan_of_a_state_is_its_steps_one_by_one():
    table = Table({"reasoning": True}, ids=True)
    ids = list(range(len(VOCABULARY)))
    fan = json.loads(streams.fan(table.told, table.start[0], "", json.dumps(ids)))
    for token_id, step in enumerate(fan):
        symbols = json.dumps([token_id])
        assert [step] == json.loads(streams.walk(table.told, table.start[0], "", symbols))


def test_an_id_that_is_refused_says_why_and_changes_nothing():
    table = Table({}, ids=True)
    said = json.loads(streams.walk(table.told, table.start[0], "", "[104, 9999, 105]"))
    assert said[0] == [[["content", "h"]], None, None]
    assert "9999" in said[1]
    assert said[2] == [[["content", "i"]], None, None]


def test_half_a_character_that_ends_a_fatal_stream_is_refused():
    table = Table({"fatal": True}, ids=True)
    half, end = json.loads(streams.walk(table.told, table.start[0], "", "[228, null]"))
    assert half[2][2] == "e4"
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
