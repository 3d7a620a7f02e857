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
