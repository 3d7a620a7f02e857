"""The judge of the formats is right: on written cases, on what grammars write, and at every cut."""

import functools
import json
from pathlib import Path
from typing import Any, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import writers
from formats.whole_text import NAMES, Answer, Piece, Token, pieces_of, whole_text
from formats.writers import Spoken, expected_id, schemas_for, write

# It judges the machine in CPython; what it says does not depend on where it runs. What takes long
# here imports nothing of detok: no change of the package can fail it.
pytestmark = pytest.mark.native


def case_of(suite: Any) -> Any:
    """Return a case of the conformance suite in the form of those in cases.json."""
    options, runs = suite["options"], suite["out"]
    calls = [
        [run.get("id"), run["call"], run["arguments"], run.get("complete", True)]
        for run in runs
        if "call" in run
    ]
    return {
        "name": suite["id"],
        "format": options["format"],
        "pieces": suite["answer"],
        "start": options.get("start", "content"),
        "schemas": options.get("tool_schemas"),
        "expect": {
            "content": "".join([run.get("content", "") for run in runs]),
            "reasoning": "".join([run.get("reasoning", "") for run in runs]),
            "calls": calls,
            "finish": "tool_calls" if calls and calls[-1][3] else "stop",
        },
    }


@functools.cache
def all_cases() -> list[Any]:
    """Return the cases of the conformance suite, and further ones."""
    here = Path(__file__).parent
    suite = json.loads((here.parents[1] / "conformance" / "formats.json").read_text("utf-8"))
    more: list[Any] = json.loads((here / "cases.json").read_text("utf-8"))
    return [case_of(case) for case in suite["cases"]] + more


def cases(name: str) -> list[Any]:
    return [case for case in all_cases() if case["format"] == name]


def answer_to(case: Any, pieces: list[Piece] | None = None, cut: bool = False) -> Answer:
    return whole_text(
        case["format"],
        case["pieces"] if pieces is None else pieces,
        case.get("start", "content"),
        case.get("schemas"),
        cut or case.get("cut", False),
    )


def units(pieces: list[Piece]) -> list[Piece]:
    """Return pieces of one character or one token."""
    out: list[Piece] = []
    for piece in pieces:
        out += [piece] if isinstance(piece, Token) else list(piece)
    return out


@pytest.mark.parametrize("name", NAMES)
def test_reads_what_the_cases_expect(name: str) -> None:
    assert len({case["name"] for case in cases(name)}) == len(cases(name)) >= 10
    for case in cases(name):
        answer = answer_to(case)
        assert {
            "content": answer.content,
            "reasoning": answer.reasoning,
            "calls": [list(call) for call in answer.calls],
            "finish": answer.finish,
        } == case["expect"], case["name"]


def assert_begins(earlier: Answer, later: Answer, after: Any) -> None:
    """Nothing that `earlier` says is taken back in `later`."""
    assert later.content.startswith(earlier.content), after
    assert later.reasoning.startswith(earlier.reasoning), after
    assert len(later.calls) >= len(earlier.calls), after
    for before, then in zip(earlier.calls, later.calls):
        assert then.name == before.name, after
        assert then.arguments.startswith(before.arguments), after
        assert before.id in (None, then.id), after
        if before.complete:
            assert then == before, after


def assert_grows(
    name: str, pieces: list[Piece], start: str, schemas: Any, cuts: Iterable[int]
) -> None:
    """Each cut says the beginning of what the next one says, and of the answer if it ends there."""
    earlier = whole_text(name, [], start, schemas, cut=True)
    for n in cuts:
        later = whole_text(name, pieces[:n], start, schemas, cut=True)
        assert_begins(earlier, later, pieces[:n])
        assert_begins(later, whole_text(name, pieces[:n], start, schemas), pieces[:n])
        earlier = later


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_a_cut_answer_says_the_beginning_of_the_whole(name: str) -> None:
    for case in cases(name):
        pieces = units(pieces_of(case["pieces"]))
        start, schemas = case.get("start", "content"), case.get("schemas")
        assert_grows(name, pieces, start, schemas, range(1, len(pieces) + 1))
        assert_begins(answer_to(case, pieces, cut=True), answer_to(case), case["name"])


# -- What grammars write ---------------------------------------------------------------------------

LETTERS = st.sampled_from([*"ab é😀\u200d{}[]<>/|\"'\\,:;=()1.-\n", "</think", "tool", "&amp;"])
TEXT = st.lists(LETTERS, max_size=8).map("".join)
# A value's text: all characters may occur, and no tag of any format.
VALUES: Any = st.recursive(
    st.one_of(TEXT, st.integers(-99, 99), st.sampled_from([True, False, None, 1.5, "12", "null"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["k", "long_key"]), inner)
    ),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.sampled_from(["city", "n", "x_1"]), VALUES, max_size=3)
SHOWN = TEXT.map(lambda text: text.strip("\n {[<")).filter(lambda text: "think>" not in text)


def spoken(names: list[str], arguments: list[Any], name: str) -> list[Spoken]:
    ids = {"kimi_k2": "functions.{}:{}", "command_a": "{1}", "mistral_v3_array": "abcdefgh{1}"}
    ids["mistral_small3.2_callid"] = "abcdefgh{1}"
    return [
        Spoken(tool, given_to, ids[name].format(tool, n) if name in ids else None)
        for n, (tool, given_to) in enumerate(zip(names, arguments))
    ]


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_reads_back_what_the_grammar_writes(name: str, data: Any) -> None:
    count = data.draw(st.integers(0, 3))
    tools = ["get_weather", "f", "add-item"] if name not in PYTHON else ["get_weather", "f", "g_2"]
    calls = spoken(tools[:count], [data.draw(OBJECTS) for _ in range(count)], name)
    content = "" if calls and name in writers.NO_TEXT_BEFORE else data.draw(SHOWN)
    reasoning = data.draw(st.none() | SHOWN) if name in writers.WITH_REASONING else None
    start = "content"
    if reasoning is not None:
        start = data.draw(st.sampled_from(["content", "reasoning"]))
    if name == "harmony":
        start = "header"
    if name == "kimi_k3":
        start = "content" if reasoning is None else "reasoning"
    text = write(name, content, reasoning, calls, start=start)
    schemas = schemas_for(calls)
    answer = whole_text(name, text, start, schemas)
    assert answer.content == content
    assert answer.reasoning == (reasoning or "")
    assert [(call.id, call.name, call.complete) for call in answer.calls] == [
        (expected_id(name, call), call.name, True) for call in calls
    ]
    assert [call.arguments for call in answer.calls] == [
        json.dumps(call.arguments, ensure_ascii=False) for call in calls
    ]
    assert answer.finish == ("tool_calls" if calls else "stop")
    pieces = units(pieces_of(text))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(pieces)), max_size=8)))
    assert_grows(name, pieces, start, schemas, cuts)


PYTHON = ("lfm2", "olmo3", "llama4_pythonic")
