"""`readAnswer` of the library finds out what form a body has, and refuses in a sentence what it
cannot read. It needs no browser: bytes without stops are decoded without Python. What it reads of
each API is in tests/js/servers.test.mjs.
"""

import json
from pathlib import Path

import event_shapes
import pytest
from programs import ran

pytestmark = pytest.mark.native

SCRIPT = Path(__file__).with_name("read_answer.mjs")
TEXT = "naïve 👩‍🚀"


def sse(*events):
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {text}\n\n" for text in texts)


def chunk(delta, finish=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


CHAT = sse(chunk({"role": "assistant", "content": ""}), chunk({"content": TEXT[:7]}), chunk({"content": TEXT[7:]}), chunk({}, "stop"), "[DONE]")  # fmt: skip
WHOLE = {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT, "reasoning_content": "so"}, "finish_reason": "stop"}]}  # fmt: skip
# name: content type, body; content, reasoning, why it ended.
READ = {
    "chat": ("text/event-stream", CHAT, TEXT, "", "stop"),
    "no content type, events": (None, CHAT, TEXT, "", "stop"),
    "no content type, JSON": (None, json.dumps(WHOLE), TEXT, "so", "stop"),
    "no content type, bytes": (None, TEXT, TEXT, "", None),
    "plain text": ("text/plain", '{"a": 1}', '{"a": 1}', "", None),
    "JSON instead of a stream": ("application/json", json.dumps(WHOLE), TEXT, "so", "stop"),
    "JSON on many lines": ("application/json", json.dumps(WHOLE, indent=2), TEXT, "so", "stop"),
}
# name: content type, body; what the sentence says.
REFUSED = {
    "events of another kind": ("text/event-stream", sse({"type": "status", "step": 5}), "(status)"),
    "JSON of another kind": ("application/json", '{"answer": "yes"}', "(answer)"),
    "not JSON": ("application/json", "<html>", "not JSON"),
    "a stream that was cut": ("text/event-stream", CHAT.partition("data: [DONE]")[0].rpartition("data:")[0], "ended before"),
}  # fmt: skip


@pytest.fixture(scope="module")
def read():
    """What readAnswer makes of each case, in one run of Node."""
    cases = {**READ, **REFUSED}
    asked = [(name, cut) for name in cases for cut in (1, 7, 1 << 20)]
    lines = [json.dumps([*cases[name][:2], cut]) for name, cut in asked]
    done = ran("node", SCRIPT, input="\n".join(lines), encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return dict(zip(asked, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("cut", [1, 7, 1 << 20])
@pytest.mark.parametrize("name", READ)
def test_an_answer_is_read_in_any_form(read, name, cut):
    _, _, content, reasoning, reason = READ[name]
    assert read[name, cut] == {
        "content": content,
        "reasoning": reasoning,
        "tool_call": "",
        "reason": reason,
        "error": None,
    }


@pytest.mark.parametrize("cut", [1, 7, 1 << 20])
@pytest.mark.parametrize("name", REFUSED)
def test_another_answer_is_refused_in_a_sentence(read, name, cut):
    said = read[name, cut]["error"]
    assert said is not None, read[name, cut]
    assert said[:2] == ["DetokError", "server"]
    assert REFUSED[name][2] in said[2]


def test_the_table_of_javascript_is_the_one_of_python():
    found = event_shapes.MODULE.read_text(encoding="utf-8")
    assert found == event_shapes.module(), "run python tools/event_shapes.py"
