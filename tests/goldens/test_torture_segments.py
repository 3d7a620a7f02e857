"""The cases of the torture list for stops, thinking and tools: the output of each push and of the
flush, and the stop.

The cases are in torture.json of the test data; without it the tests are skipped with a reason.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from large_data import data_folder

from detok_py.decode.chat import ChatStream
from detok_py.decode.detokenizer import Detokenizer
from detok_py.decode.stop_strings import StopStrings
from detok_py.decode.utf8 import StreamingDetokenizer
from detok_py.decode.vocabulary import Vocabulary


def listed() -> dict[str, Any]:
    folder = data_folder()
    path = folder / "torture.json" if folder else Path("torture.json")
    return (
        json.loads(path.read_text(encoding="utf-8"))
        if path.exists()
        else {"cases": [], "tokenizers": {}}
    )


LIST = listed()
CASES = [case for case in LIST["cases"] if case["group"] in ("stop", "think", "tool")]

pytestmark = pytest.mark.skipif(
    not CASES, reason="the torture list is not here (set DETOK_DATA to the folder of torture.json)"
)


def options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of ChatStream for a case, whose tags are for thinking or for tools."""
    tags = (given["open"], given["close"]) if "open" in given else None
    is_tool = tags is not None and "tool" in tags[0]
    return {
        "stop": given.get("stop", ()),
        "include_stop": given.get("include_stop", False),
        "stop_scope": given.get("stop_scope", "content"),
        "reasoning": None if is_tool else tags,
        "tools": tags if is_tool else None,
        "start": given.get("start_in", "content"),
    }


def chunks_of(given: dict[str, Any]) -> list[bytes]:
    if given["kind"] == "text":
        return [chunk.encode() for chunk in given["chunks"]]
    return [bytes.fromhex("".join(chunk)) for chunk in given["chunks"]]


def text_of(deltas: Any, *channels: str) -> str:
    return "".join(text for channel, text in deltas if channel in channels)


def vocabulary_of(name: str) -> Vocabulary:
    """Return a small vocabulary of the list, with special and added tokens after ordinary ones."""
    table = LIST["tokenizers"][name]
    pieces = table["vocab"] + table["special"] + table["added"]
    first = len(table["vocab"])
    return Vocabulary.from_pieces(
        pieces, table["decoder"], special_ids=range(first, first + len(table["special"]))
    )


def id_of(name: str, piece: str) -> int:
    table = LIST["tokenizers"][name]
    return (table["vocab"] + table["special"] + table["added"]).index(piece)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["group"] == "stop"],
    ids=lambda case: case["id"] + " " + case["title"],
)
def test_stop_strings_and_stop_ids(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expect"]
    if "raises" in expected:
        with pytest.raises(ValueError, match="stop string must not be empty"):
            StopStrings(given["stop"])
        with pytest.raises(ValueError, match="stop string must not be empty"):
            ChatStream(StreamingDetokenizer(), stop=given["stop"])
        return
    if given["kind"] == "tokens":
        name = given["tokenizer"]
        sequences = [
            [id_of(name, piece) for piece in sequence] for sequence in given["stop_id_sequences"]
        ]
        c = ChatStream(Detokenizer(vocabulary_of(name)), stop_ids=sequences)
        assert [
            text_of(c.push(id_of(name, piece)), "content") for piece in given["pieces"]
        ] == expected["pushes"]
        assert text_of(c.flush(), "content") == expected["flush"]
        assert (c.finish_reason, c.stopped) == ("stop", tuple(sequences[0]))
        return
    # A case lists pushes up to the stop; later pushes have no output.
    pushes = expected["pushes"] + [""] * (len(given["chunks"]) - len(expected["pushes"]))
    if given["kind"] == "text":
        stops = StopStrings(
            given["stop"],
            include=given.get("include_stop", False),
            min_chars=given.get("min_chars", 0),
        )
        assert [stops.feed(chunk) for chunk in given["chunks"]] == pushes
        assert stops.flush() == expected["flush"]
        assert stops.stopped == expected["stopped_on"]
    if "min_chars" not in given:
        c = ChatStream(StreamingDetokenizer(), **options(given))
        assert [text_of(c.feed(chunk), "content") for chunk in chunks_of(given)] == pushes
        assert text_of(c.flush(), "content") == expected["flush"]
        assert c.stopped == expected["stopped_on"]
        assert c.finish_reason == ("stop" if expected["stopped_on"] else None)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["group"] == "think"],
    ids=lambda case: case["id"] + " " + case["title"],
)
def test_thinking(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expect"]
    c = ChatStream(StreamingDetokenizer(), **options(given))
    out = [c.feed(chunk) for chunk in chunks_of(given)]
    assert [text_of(deltas, "reasoning") for deltas in out] == expected["reasoning"]
    assert [text_of(deltas, "content") for deltas in out] == expected["content"]
    rest = c.flush()
    assert text_of(rest, "reasoning") == expected["flush_reasoning"]
    assert text_of(rest, "content") == expected["flush_content"]
    assert c.stopped == expected.get("stopped_on")


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case["group"] == "tool"],
    ids=lambda case: case["id"] + " " + case["title"],
)
def test_tool_calls(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expect"]
    if given["kind"] == "tokens":
        # A tag that is a special token opens a call by its id and adds no text.
        name = given["tokenizer"]
        [tag] = given["watch_ids"]
        c = ChatStream(Detokenizer(vocabulary_of(name)), reasoning=None, tools=(tag, "</never>"))
        out = [c.push(id_of(name, piece)) for piece in given["pieces"]]
        assert [text_of(deltas, "content", "tool_call") for deltas in out] == expected["pushes"]
        channels = [channel for deltas in out for channel, _ in deltas]
        assert [(1, tag)] == [tuple(event) for event in expected["events"]]
        assert channels == ["content", "tool_call"]
        return
    c = ChatStream(StreamingDetokenizer(), **options(given))
    out = [c.feed(chunk) for chunk in chunks_of(given)]
    assert [text_of(deltas, "content") for deltas in out] == expected["content"]
    assert [text_of(deltas, "tool_call") for deltas in out] == expected["tool"]
    rest = c.flush()
    assert text_of(rest, "content") == expected.get("flush_content", "")
    assert text_of(rest, "tool_call") == expected.get("flush_tool", "")
    assert (c.open_call is not None) == expected.get("incomplete", False)
    if "calls" in expected:
        assert c.calls == expected["calls"]
