"""A stream in a format, through a table of steps and as an answer of a bridge, is the stream that
Python decodes: calls with their numbers, names and ids, and whether they are complete.
"""

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any

import pytest
from formats.test_chat_formats import chat_of, vocabulary_of
from formats.test_whole_text import cases, units
from formats.whole_text import NAMES, Token, pieces_of
from page.test_steps import Table
from page_rig import Line

import detok_py as d
from detok_py.decode.artifacts import ARTIFACTS
from detok_py.formats.form import Form
from detok_py.page import answer, deltas, streams

pytestmark = pytest.mark.native  # beside a judge that is written for CPython


@pytest.fixture(autouse=True)
def kept():
    yield
    answer.kept_vocabularies.clear()


class Calls:
    """The calls of an answer, put together as web/src/tool-calls.js does."""

    def __init__(self, deltas: Iterable[Any]) -> None:
        self.texts = {"content": "", "reasoning": ""}
        self.calls: list[list[Any]] = []
        for channel, text, *call in deltas:
            if not call:
                self.texts[channel] += text
                continue
            assert channel == "tool_call"
            [said] = call
            if "name" in said:
                assert said["call"] == len(self.calls)
                self.calls.append([None, said["name"], "", False])
            its = self.calls[said["call"]]
            its[0] = said.get("id", its[0])
            its[2] += text
            assert not its[3]  # nothing comes behind the end of a call
            its[3] = said.get("complete", False)


def expected(chat: Any) -> list[list[Any]]:
    return [[call.id, call.name, call.arguments, call.complete] for call in chat.calls]


def options_of(case: Any) -> dict[str, Any]:
    return {
        "format": case["format"],
        "toolSchemas": case.get("schemas"),
        "startWithReasoning": case.get("start") == "reasoning",
        "trimArtifacts": False,
    }


def plain(deltas: Any) -> list[tuple[str, str]]:
    return [(channel, text) for channel, text, *_ in deltas if text]


# `make test-all` has every third case of each format; `make soak` has the others.
a_third = pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2))]
)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
@a_third
def test_ids_through_the_table_are_the_stream_with_its_calls(part, name):
    for case in cases(name)[part::3]:
        if case.get("start") == "header":
            continue  # a page begins behind no header
        vocabulary, ids = vocabulary_of(name, units(pieces_of(case["pieces"])))
        answer.kept_vocabularies[vocabulary.sha256] = vocabulary
        table = Table(options_of(case) | {"vocabulary": vocabulary.sha256}, ids=False)
        chat, seen = chat_of(case, vocabulary), []
        for i in ids:
            seen.append(plain(chat.push(i)))
            if chat.finish_reason:
                break
        else:
            seen.append(plain(chat.flush()))
        steps = table.deltas([*ids, None])
        assert steps[-1] == (chat.finish_reason or "end"), case["name"]
        assert [plain(step) for step in steps[:-1]] == seen, case["name"]
        assert Calls(chain(*steps[:-1])).calls == expected(chat), case["name"]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
@a_third
def test_text_through_the_table_is_the_stream_with_its_calls(part, name):
    for case in cases(name)[part::3]:
        if case.get("start") == "header":
            continue
        text = "".join([str(piece) for piece in units(pieces_of(case["pieces"]))])
        table = Table(options_of(case), ids=False)
        chat = deltas.open_chat(options_of(case), d.StreamingDetokenizer())
        shown, said = Calls(chain(*table.deltas([*text, None])[:-1])), []
        for character in text:
            said += chat.feed(character.encode())
        said += chat.flush()
        for channel in ("content", "reasoning"):
            whole = "".join([delta.text for delta in said if delta.channel == channel])
            assert shown.texts[channel] == whole, case["name"]
        assert shown.calls == expected(chat), case["name"]


def going_on(words: set[str], text: str) -> set[str]:
    """Return the characters that begin one of the words, or go on with one behind a text."""
    return {word[n] for word in words for n in range(len(word)) if text.endswith(word[:n])}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("has_tokens", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_character_that_passes_by_itself_gives_what_its_step_gives(name, has_tokens):
    stop, asked = "\n</x>", 0
    words = {*Form(name, lambda spelling: False).words, *ARTIFACTS, stop}
    for n, case in enumerate(cases(name)[::8]):
        if case.get("start") == "header":
            continue
        symbols: list[Any] = units(pieces_of(case["pieces"]))
        pieces: list[str] = list(symbols)
        options = options_of(case) | {"trimArtifacts": True, "stop": [stop], "includeStop": n % 2}
        if has_tokens:
            vocabulary, symbols = vocabulary_of(name, pieces)
            answer.kept_vocabularies[vocabulary.sha256] = vocabulary
            options["vocabulary"] = vocabulary.sha256
        else:
            pieces = symbols = [*"".join(pieces)]
        table = Table(options, ids=False)
        state, told, shown = table.start, "", ""
        for piece, symbol in zip(pieces, symbols, strict=True):
            # Those that go on with a word, and blanks, are the likeliest to be wrong.
            likely = going_on(words, told) | going_on(words, shown) | {*" \t\r\n"}
            if state[3] is not None and not (state[1] and state[2]):
                blocked, lead, then = state[3]
                for character in likely.difference(blocked):
                    asked += 1
                    step = table.asked_for(state, character)
                    assert step == [[[state[5], lead + character]], None, then], (told, character)
            _, reason, after = table.passed(state, symbol) or table.asked_for(state, symbol)
            if reason:
                break
            state = after or state
            told, shown = told + piece, shown + ("" if isinstance(piece, Token) else piece)
    assert asked > 100 or name in ("harmony", "kimi_k3")  # in these all text is asked for


def test_text_before_a_token_that_is_dropped_goes_on_behind_it():
    pieces = ["a", "<", Token("｜DSML｜"), *"/s>"]
    vocabulary, ids = vocabulary_of("deepseek_v3.2", pieces)
    answer.kept_vocabularies[vocabulary.sha256] = vocabulary
    options = {"format": "deepseek_v3.2", "trimArtifacts": True, "vocabulary": vocabulary.sha256}
    steps = Table(options, ids=False).deltas([*ids, None])
    assert [plain(step) for step in steps[:-1]] == [[("content", "a")], *[[]] * 6]


MARKED = [bytes([n]) for n in range(256)] + [b"<tool_call>", b"</tool_call>"]
QWEN = d.Vocabulary.from_bytes(MARKED, special_ids=[256, 257])
QWEN.chat_format = "qwen3_hermes"
CALL = b'{"name": "f", "arguments": {"a": 1}}'
CALLED = [[None, "f", '{"a": 1}', True]]


def begun(**options: Any) -> Any:
    answer.kept_vocabularies[QWEN.sha256] = QWEN
    return Table(options | {"vocabulary": QWEN.sha256}, ids=False)


def test_the_format_is_that_of_the_vocabulary_unless_tags_are_given():
    ids = [256, *CALL, 257]
    for options in ({}, {"reasoning": True, "tools": True}, {"format": "auto"}):
        assert Calls(chain(*begun(**options).deltas(ids))).calls == CALLED
    own = begun(tools=["<tool_call>", "</tool_call>"]).deltas(ids)
    assert "".join([text for step in own for _, text in step]) == CALL.decode()
    only_text = begun(format=None, reasoning=True).deltas(ids)
    assert {channel for step in only_text for channel, _ in step} == {"content"}


def test_a_format_with_tags_of_ones_own_is_refused():
    with pytest.raises(ValueError, match="leave them out"):
        begun(format="harmony", tools=["<a>", "</a>"])
    with pytest.raises(ValueError, match="harmony"):
        begun(format="harmonie")


def test_the_prompt_says_in_what_the_answer_begins():
    tokens = [*MARKED, b"<think>", b"</think>"]
    vocabulary = d.Vocabulary.from_bytes(tokens, special_ids=[256, 257, 258, 259])
    vocabulary.chat_format = "qwen3_hermes"
    answer.kept_vocabularies[vocabulary.sha256] = vocabulary
    told = {"vocabulary": vocabulary.sha256, "promptIds": [258]}
    steps = Table(told, ids=False).deltas([*b"hm", 259, *b"yes", None])
    assert "".join([text for step in steps[:-1] for at, text in step if at == "reasoning"]) == "hm"


VALUES = {'{"a": ["é}"]}': 12, '"x" y': 2, "12": 2, "[1": None, "no value": None}


@pytest.mark.parametrize("text", VALUES)
def test_the_delta_that_completes_one_json_value_says_so(text):
    steps = Table({"format": "json", "stop": ["\n"]}, ids=False).deltas([*text, None])[:-1]
    [*where] = [at for at, step in enumerate(steps) for said in step if "complete" in said[-1]]
    assert where == ([] if VALUES[text] is None else [VALUES[text]])
    line = line_of(None, format="json").hear(text.encode(), "eos")
    told = [said for said in line.deltas if len(said) > 2]
    assert [said[2] for said in told] == [{"complete": True}] * len(where)
    assert line.text == text


@pytest.mark.full
def test_a_walk_through_states_that_hold_much_answers_a_part_of_the_question():
    table = Table({"format": "qwen3_coder"}, ids=False)
    text = "<tool_call><function=f><parameter=a>" + "word " * 2000
    asked = list(text)
    state, steps = table.start[0], 0
    while asked:
        said = streams.walk(table.told, state, "", json.dumps(asked))
        assert len(said) < 200_000
        taken = json.loads(said)
        state = next((step[2][0] for step in reversed(taken) if step[2]), state)
        asked = asked[len(taken) :]
        steps += 1
    assert steps > 1


def line_of(vocabulary: Any, **request: Any) -> Line:
    return Line({"details": False} | request, vocabulary)


def test_an_answer_of_a_bridge_has_calls_and_ends_with_them():
    line = line_of(QWEN).hear([*b"Hi", 256, *CALL, 257], "eos")
    assert line.deltas[0] == ["content", "Hi"]
    assert Calls(line.deltas).calls == CALLED
    assert line.last["reason"] == "tool_calls"
    started = next(event for event in line.events if event["type"] == "started")
    assert started["format"] == "qwen3_hermes"


def test_an_answer_without_a_call_ends_as_the_engine_says():
    line = line_of(QWEN).hear(b"Hi", "eos")
    assert (line.text, line.last["reason"]) == ("Hi", "eos")


@pytest.mark.parametrize("cut", range(1, len(CALL) + 1))
def test_an_answer_whose_ids_are_lost_goes_on_by_bytes_inside_a_call(cut):
    line = line_of(QWEN).hear([256, *CALL[:cut]])
    rest = CALL[cut:] + b"</tool_call>"
    line.log.add_gap(len(rest), rest)
    assert Calls(line.hear([], "eos").deltas).calls == CALLED


def answer_whose_ids_are_lost(case: Any, vocabulary: Any, ids: list[int], cut: int) -> Any:
    """Return the texts and calls of an answer whose ids from `cut` on are not known."""
    answer.kept_vocabularies.clear()
    line = line_of(vocabulary, **options_of(case)).hear(ids[:cut])
    if cut < len(ids):
        line.log.add_gap(len(ids) - cut, b"".join(map(vocabulary.token_bytes, ids[cut:])))
    shown = Calls(line.hear([], "eos").deltas)
    return shown.texts, shown.calls


# In these all bytes read otherwise than all ids: a token that ends the turn is text in the bytes.
OTHERWISE = ("hermes2_text", "hunyuan_a13b", "nemotron_nano_v2")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHERWISE])
def test_an_answer_whose_ids_are_lost_behind_a_marker_is_read_as_its_bytes_are(name):
    compared = 0
    for case in cases(name):
        if case.get("start") == "header":
            continue
        vocabulary, ids = vocabulary_of(name, units(pieces_of(case["pieces"])))
        expected = answer_whose_ids_are_lost(case, vocabulary, ids, 0)
        # Elsewhere a token that ends the turn is text in the bytes, or text looks like a token.
        if expected == answer_whose_ids_are_lost(case, vocabulary, ids, len(ids)):
            marks = [n for n, i in enumerate(ids) if i in vocabulary.special_ids]
            for cut in sorted({n + behind for n in marks for behind in (1, 2, 5)}):
                seen = answer_whose_ids_are_lost(case, vocabulary, ids, cut)
                assert seen == expected, (case["name"], cut)
                compared += 1
    assert compared > 0


def test_raw_bytes_are_read_in_the_format_that_the_bridge_names():
    line = Line({"details": False}, None, {"chat_format": "qwen3_hermes"})
    line.hear(b"<tool_call>" + CALL + b"</tool_call>", "eos")
    assert Calls(line.deltas).calls == CALLED
    hello = line.events[0]
    assert (hello["type"], hello["format"]) == ("hello", "qwen3_hermes")


@pytest.mark.parametrize(("start", "channel"), [("reasoning", "reasoning"), ("", "content")])
def test_an_answer_begins_in_what_the_bridge_says_that_its_prompt_has_opened(start, channel):
    line = Line({"details": False}, None, {"chat_format": "qwen3_hermes"})
    line.hear(b"Let me see.", "eos", start=start)
    assert line.deltas[0] == [channel, "Let me see."]


def test_a_format_of_a_newer_bridge_is_no_format():
    line = Line({"details": False}, None, {"chat_format": "of tomorrow"})
    line.hear(b"<tool_call>x</tool_call>", "eos")
    assert [event["format"] for event in line.events if event["type"] == "started"] == [None]
    assert line.deltas == [["tool_call", "x"]]  # the pairs of tags
