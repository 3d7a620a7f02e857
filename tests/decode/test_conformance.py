"""The conformance suite, through its own adapter for detok_py: every output of every case.

The same in CPython and Pyodide; MicroPython plays what is recorded here.
"""

import importlib
import itertools
import json
from pathlib import Path

import pytest

from detok_py import DetokError

ROOT = Path(__file__).resolve().parents[2]
SUITE = json.loads((ROOT / "conformance" / "cases.json").read_text(encoding="utf-8"))
GROUPS = sorted({case["id"].partition("/")[0] for case in SUITE["cases"]})


@pytest.fixture(scope="module")
def adapter():
    return importlib.import_module("adapters.detok").adapter


def joined(pairs):
    """Return pairs of channel and text with each run of a channel as one pair."""
    return [
        [channel, "".join([text for _, text in run])]
        for channel, run in itertools.groupby(pairs, key=lambda pair: pair[0])
    ]


@pytest.mark.parametrize("group", GROUPS)
def test_every_case_is_right(adapter, group):
    tried = 0
    for case in SUITE["cases"]:
        if not case["id"].startswith(group + "/") or "superseded_by" in case:
            continue
        name = case.get("vocabulary")
        case = {**case, "tokenizer": SUITE["vocabularies"].get(name)}
        if case.get("may_refuse"):
            with pytest.raises(ValueError):
                adapter(case)
            continue
        if group == "text":
            pytest.importorskip("detok_py.integrations", reason="does not run in a page")
        stream = adapter(case)
        mark = None
        for step in case["steps"]:
            call = getattr(stream, step["do"])
            given = []
            if step["do"] == "push":
                given = [bytes.fromhex(step["in"]) if case["input"] == "bytes" else step["in"]]
            if step["do"] == "rollback":
                assert call(mark) == step["back"], case["id"]
                continue
            if "refused" in step or "may_refuse" in step:
                with pytest.raises((DetokError, UnicodeError, RuntimeError)):
                    call(*given)
                continue
            out = call(*given)
            if step["do"] == "mark":
                mark = out
            elif step["do"] != "reset":
                out = out if isinstance(out, str) else joined(out)
                assert out == step["out"], (case["id"], step)
        if case.get("reason"):
            assert stream.reason() == case["reason"], case["id"]
        if "spans" in case:
            assert [list(span) for span in stream.spans()] == case["spans"], case["id"]
        tried += 1
    assert tried >= 5


FORMATS = json.loads((ROOT / "conformance" / "formats.json").read_text(encoding="utf-8"))


def said(runs, begin, end):
    """Return what comes of runs between two counts of characters; a call's name counts as one."""
    units = []
    for number, run in enumerate(runs):
        if "call" in run:
            units += [(number, "name", run["call"])]
            units += [(number, "arguments", each) for each in run["arguments"]]
        else:
            ((channel, text),) = run.items()
            units += [(number, channel, each) for each in text]
    return units[begin:end]


def units_of(deltas, runs, begin):
    """Return deltas as `said` has them, in the order in which they came."""
    calls = [number for number, run in enumerate(runs) if "call" in run]
    units = []
    for delta in deltas:
        if "call" in delta:
            number = calls[delta["call"]]
            units += [(number, "name", delta["name"])] if "name" in delta else []
            units += [(number, "arguments", each) for each in delta["arguments"]]
            continue
        ((channel, text),) = delta.items()
        for each in text:
            known = said(runs, begin + len(units), begin + len(units) + 1)
            number = known[0][0] if known else None
            units.append((number, channel, each))
    return units


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(1, marks=pytest.mark.unrecorded),
        4,
        pytest.param(1000, marks=pytest.mark.unrecorded),
    ],
)
@pytest.mark.parametrize("name", sorted(FORMATS["formats"]))
def test_every_case_of_a_format_is_right_in_any_chunks(adapter, name, size):
    base, tokens = FORMATS["vocabularies"]["formats"], FORMATS["formats"][name]["tokens"]
    first = len(base["model"]["vocab"])
    added = [{"id": first + n, "content": t, "special": True} for n, t in enumerate(tokens)]
    cases = [case for case in FORMATS["cases"] if case["options"]["format"] == name]
    assert len(cases) >= 10
    for case in cases:
        tokenizer = {**base, "added_tokens": added}
        stream = adapter({**case, "input": "ids", "vocabulary": name, "tokenizer": tokenizer})
        ids, runs, shown = case["ids"], case["out"], 0
        for at in range(0, len(ids), size):
            deltas = stream.push(ids[at : at + size])
            certain = case["certain"][min(at + size, len(ids)) - 1]
            assert units_of(deltas, runs, shown) == said(runs, shown, certain), (case["id"], at)
            shown = certain
        assert units_of(stream.flush(), runs, shown) == said(runs, shown, None), case["id"]
        calls = [[run.get("id"), run.get("complete", True)] for run in runs if "call" in run]
        assert [[call["id"], call["complete"]] for call in stream.calls()] == calls, case["id"]
