"""`readAnswer` of the library reads what the common chat APIs send, stream or not, and refuses the rest
in a sentence. It needs no browser: bytes without stops are decoded without Python.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.native

SCRIPT = Path(__file__).with_name("read_answer.mjs")
TEXT = "naïve 👩‍🚀"
CALL = '{"name": "look", "arguments": {"at": "x"}}'


def sse(*events, named=False):
    lines = []
    for event in events:
        if named:
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(lines)


def chunk(delta, finish=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


CHAT = sse(chunk({"role": "assistant", "content": ""}), chunk({"content": TEXT[:7]}), chunk({"content": TEXT[7:]}), chunk({}, "stop"), "[DONE]")  # fmt: skip
WHOLE = {"object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT, "reasoning_content": "so"}, "finish_reason": "stop"}]}  # fmt: skip
CALLED = {"choices": [{"message": {"content": None, "tool_calls": [{"function": {"name": "look", "arguments": '{"at": "x"}'}}]}, "finish_reason": "tool_calls"}]}  # fmt: skip
OLLAMA = "".join(json.dumps(line) + "\n" for line in ({"model": "m", "message": {"role": "assistant", "content": "", "thinking": "so"}, "done": False}, {"message": {"content": TEXT}, "done": False}, {"message": {"content": ""}, "done": True, "done_reason": "stop"}))  # fmt: skip
GENERATED = "".join(json.dumps(line) + "\n" for line in ({"response": TEXT, "done": False}, {"response": "", "done": True, "done_reason": "length"}))  # fmt: skip
MISTRAL = sse(chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}]}), chunk({"content": [{"type": "text", "text": TEXT}]}), chunk({"content": ""}, "stop"), "[DONE]")  # fmt: skip
ANTHROPIC = sse(
    {"type": "message_start", "message": {"role": "assistant", "content": []}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "so"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "x"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": TEXT}},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "name": "look", "input": {}}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"at": '}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '"x"}'}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    {"type": "message_stop"},
    named=True,
)  # fmt: skip
MESSAGE = {"type": "message", "content": [{"type": "thinking", "thinking": "so"}, {"type": "text", "text": TEXT}], "stop_reason": "end_turn"}  # fmt: skip
RESPONSES = sse(
    {"type": "response.created", "response": {"status": "in_progress"}},
    {"type": "response.reasoning_summary_text.delta", "delta": "so"},
    {"type": "response.output_text.delta", "delta": TEXT},
    {"type": "response.output_text.done", "text": TEXT},
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "function_call", "name": "look"}},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"at": "x"}'},
    {"type": "response.completed", "response": {"status": "completed", "output": []}},
    named=True,
)  # fmt: skip
RESPONSE = {"object": "response", "status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": TEXT}]}]}  # fmt: skip

# name: content type, body; content, reasoning, calls, why it ended.
READ = {
    "chat": ("text/event-stream", CHAT, TEXT, "", "", "stop"),
    "no content type, events": (None, CHAT, TEXT, "", "", "stop"),
    "no content type, JSON": (None, json.dumps(WHOLE), TEXT, "so", "", "stop"),
    "no content type, bytes": (None, TEXT, TEXT, "", "", None),
    "plain text": ("text/plain", '{"a": 1}', '{"a": 1}', "", "", None),
    "JSON instead of a stream": ("application/json", json.dumps(WHOLE), TEXT, "so", "", "stop"),
    "JSON on many lines": ("application/json", json.dumps(WHOLE, indent=2), TEXT, "so", "", "stop"),
    "JSON with a call": ("application/json", json.dumps(CALLED), "", "", CALL, "tool_calls"),
    "Ollama's chat": ("application/x-ndjson", OLLAMA, TEXT, "so", "", "stop"),
    "Ollama's generate": ("application/x-ndjson", GENERATED, TEXT, "", "", "length"),
    "Mistral's lists": ("text/event-stream", MISTRAL, TEXT, "so", "", "stop"),
    "Anthropic": ("text/event-stream", ANTHROPIC, TEXT, "so", CALL, "tool_use"),
    "Anthropic's JSON": ("application/json", json.dumps(MESSAGE), TEXT, "so", "", "end_turn"),
    "responses": ("text/event-stream", RESPONSES, TEXT, "so", CALL, "completed"),
    "responses' JSON": ("application/json", json.dumps(RESPONSE), TEXT, "", "", "completed"),
}
# name: content type, body; what the sentence says.
REFUSED = {
    "events of another kind": ("text/event-stream", sse({"type": "status", "step": 5}), "(status)"),
    "JSON of another kind": ("application/json", '{"answer": "yes"}', "(answer)"),
    "no JSON": ("application/json", "<html>", "no JSON"),
    "Ollama's error": ("application/x-ndjson", '{"error": "model not found"}\n', "model not found"),
    "Anthropic's error": ("text/event-stream", sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), "Overloaded"),
    "a response that failed": ("text/event-stream", sse({"type": "response.failed", "response": {"error": {"message": "no room"}}}), "no room"),
    "a stream that was cut": ("text/event-stream", CHAT.partition("data: [DONE]")[0].rpartition("data:")[0], "ended before"),
}  # fmt: skip


@pytest.fixture(scope="module")
def read():
    """What readAnswer makes of each case, in one run of Node."""
    cases = {**READ, **REFUSED}
    asked = [(name, cut) for name in cases for cut in (1, 7, 1 << 20)]
    lines = [json.dumps([*cases[name][:2], cut]) for name, cut in asked]
    done = subprocess.run(
        [shutil.which("node") or "node", str(SCRIPT)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=60,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(asked, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("cut", [1, 7, 1 << 20])
@pytest.mark.parametrize("name", READ)
def test_an_answer_of_a_common_api_is_read(read, name, cut):
    _, _, content, reasoning, calls, reason = READ[name]
    assert read[name, cut] == {
        "content": content,
        "reasoning": reasoning,
        "tool_call": calls,
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
