"""`detok engines`, against servers with the responses of engines."""

import asyncio
import json
from pathlib import Path

import pytest
from engine_replay import Answer, Replay
from test_engine_replay import llama, ollama, sglang, vllm

from detok_py.bridge.engines.address import AddressError
from detok_py.bridge.engines_command import PORTS, line_of, probe
from detok_py.cli import main

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[2]


VLLM = {("GET", "/version"): Answer({"version": "0.33"}), **vllm()}
OLLAMA = {("GET", "/api/version"): Answer({"version": "0.9"}), **ollama()}


async def test_a_loading_engine_is_listed_as_loading():
    loading = Answer({"error": {"message": "Loading model"}}, status=503)
    async with Replay({**llama(), ("GET", "/v1/models"): loading}) as server:
        found = await probe([server.url])
    assert "not ready" in found[0].ready


async def test_another_server_is_not_listed():
    async with Replay({}) as server:
        assert await probe([server.url]) == []


async def test_a_remote_address_is_refused():
    with pytest.raises(AddressError):
        await probe(["http://192.0.2.1:8080"], named=True)


def test_without_an_engine_it_prints_how_to_start_one(capsys):
    assert main(["engines", "http://127.0.0.1:9"]) == 1
    assert "llama-server -m model.gguf" in capsys.readouterr().out
    assert main(["engines", "--json", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().out == ""


async def test_json_writes_one_object_per_line(capsys):
    async with Replay(llama()) as server:
        assert await asyncio.to_thread(main, ["engines", "--json", server.url, server.url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["llama", "llama"]


def rows_of(document):
    lines = (ROOT / "docs" / document).read_text("utf-8").splitlines()
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in cells if len(row) == 4 and row[1].isdigit()}


async def test_the_document_about_rocm_says_what_is_found():
    rows = rows_of("rocm.md")
    async with Replay(llama()) as child:
        health = {"status": "ok", "all_models_loaded": [], "model_loaded": "m"}
        health["backend_url"] = f"{child.url}/v1"
        answers = {
            "llama.cpp": llama(),
            "vLLM": VLLM,
            "SGLang": sglang(),
            "Lemonade": {("GET", "/v1/health"): Answer(health)},
            "Ollama": OLLAMA,
        }
        assert rows.keys() == answers.keys()
        for engine, (port, fidelity, line) in rows.items():
            async with Replay(answers[engine]) as server:
                (found,) = await probe([server.url])
            assert (found.fidelity, found.ready) == (fidelity, None), engine
            assert line_of(found).partition("  ")[2].startswith(line), engine
            assert any(word in PORTS[int(port)] for word in (engine, "llama-server")), engine
