"""LiteLLM on the exit in OpenAI's language: llama.cpp, a bridge, and a proxy that cuts."""

import json
import os
import subprocess
import sys

import pytest
from ui_rig import HERE, ROOT, TEXTS

INSTALLED = ROOT / ".build" / "litellm"
ASKED = ("emoji", "th", "ja", "hi", "ar", "astral", "markdown", "replacement")


@pytest.fixture(scope="module")
def heard(before_exit):
    """Return what LiteLLM understood, at every cut: streamed and whole, by the name of the text."""
    before_exit.split = "every-byte"
    names = [*ASKED, "think", "tool"]
    command = [sys.executable, HERE / "litellm_client.py", before_exit.server]
    command += [TEXTS[name]["prompt"] for name in names]
    environment = {**os.environ, "PYTHONPATH": str(INSTALLED)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return dict(zip([*names, "error"], lines, strict=True))


def test_litellm_gets_the_engines_own_text_however_it_is_cut(heard):
    for name in ASKED:
        answer = {"text": TEXTS[name]["text"], "reasoning": "", "calls": [], "finish": "stop"}
        assert heard[name] == [answer, answer], name


def test_litellm_gets_reasoning_and_calls(heard):
    reasoning, _, text = TEXTS["think"]["text"].removeprefix("<think>").partition("</think>")
    call = json.loads(TEXTS["tool"]["text"].partition("<tool_call>")[2].partition("</")[0])
    for answer in heard["think"]:
        assert answer["text"].strip() == text.strip()
        assert answer["reasoning"].strip() == reasoning.strip()
    for answer in heard["tool"]:
        assert answer["calls"] == [[call["name"], call["arguments"]]]
        assert answer["text"].strip() == "I will look at the weather in 京都."
        assert answer["finish"] == "tool_calls"


def test_litellm_raises_its_own_error_for_a_model_that_is_not_there(heard):
    assert heard["error"] == ["NotFoundError", 404]
