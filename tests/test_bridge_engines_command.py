"""`detok engines`, against servers that answer as engines do."""

import json

import pytest
from engine_replay import Answer, Replay
from test_engine_replay import llama, ollama, sglang, tgi, vllm

from detok_py.bridge.engines.address import AddressError
from detok_py.bridge.engines_command import PORTS, look
from detok_py.cli import main

pytestmark = pytest.mark.native


@pytest.mark.parametrize(
    ("answers", "kind", "fidelity"),
    [
        (llama(), "llama", "bytes"),
        ({("GET", "/version"): Answer({"version": "0.33"}), **vllm()}, "vllm", "ids"),
        (sglang(), "sglang", "ids"),
        (tgi(), "tgi", "ids"),
        ({("GET", "/api/version"): Answer({"version": "0.9"}), **ollama()}, "ollama", "text"),
    ],
)
async def test_an_engine_that_answers_is_listed_with_its_fidelity(answers, kind, fidelity):
    async with Replay(answers) as server:
        found = await look([server.url])
    assert [(one.kind, one.fidelity, one.ready) for one in found] == [(kind, fidelity, None)]
    assert "device not reported" in found[0].line


async def test_an_engine_that_is_still_loading_is_listed_as_such():
    answers = {**llama(), ("GET", "/v1/models"): Answer({"error": {"message": "Loading model"}}, status=503)}
    async with Replay(answers) as server:
        found = await look([server.url])
    assert "not ready" in found[0].ready


async def test_a_server_that_is_no_engine_is_not_listed():
    async with Replay({}) as server:
        assert await look([server.url]) == []


async def test_an_address_elsewhere_is_refused():
    with pytest.raises(AddressError):
        await look(["http://192.0.2.1:8080"], strict=True)


def test_nothing_found_says_how_to_get_one(capsys):
    assert main(["engines", "http://127.0.0.1:9"]) == 1
    assert "llama-server -m model.gguf" in capsys.readouterr().out
    assert main(["engines", "--json", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().out == ""


def test_the_usual_ports_are_looked_at_by_default():
    assert {8080, 8000, 30000, 11434} <= set(PORTS)


async def test_json_lines_can_be_read_by_programs(capsys):
    async with Replay(llama()) as server:
        [seen] = await look([server.url])
    assert json.loads(json.dumps(seen._asdict()))["kind"] == "llama"
