"""The conformance suite over HTTP: does your server stream what its tokens say?

Write the model, start your server with it, then run this file, with the server's address:
    python make_model.py model
    ENGINE=http://127.0.0.1:8000 pytest test_over_http.py
It needs pytest and Python, and a server with OpenAI's /v1/completions. What is shown too early or
is wrong fails; what comes late passes. Copy the file and change it as you like.
"""

import functools
import json
import os
import urllib.request
from pathlib import Path

import pytest

ENGINE = os.environ.get("ENGINE", "http://127.0.0.1:8000").rstrip("/")
MODEL = Path(os.environ.get("MODEL", Path(__file__).with_name("model")))


@functools.cache
def name():
    with urllib.request.urlopen(f"{ENGINE}/v1/models", timeout=60) as answer:
        return json.load(answer)["data"][0]["id"]


@pytest.mark.parametrize(
    "case", json.loads((MODEL / "cases.json").read_text("utf-8")), ids=lambda case: case["id"]
)
def test_the_stream_is_what_its_tokens_say(case):
    body = json.dumps({"model": name(), "temperature": 0, "stream": True, **case["body"]})
    head, shown = {"Content-Type": "application/json"}, ""
    request = urllib.request.Request(f"{ENGINE}/v1/completions", body.encode(), head)
    with urllib.request.urlopen(request, timeout=60) as answer:
        events = [json.loads(line[6:]) for line in answer if line.startswith(b"data: {")]
    for event in events:
        shown += "".join(choice.get("text") or "" for choice in event["choices"])
        assert case["text"].startswith(shown), f"{case['why']} Shown: {shown!r}"
    assert shown == case["text"], case["why"]
