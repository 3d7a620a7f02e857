"""The bridge's engines read the events of servers as tests/vectors/servers.json says."""

from functools import partial

import pytest
from engine_replay import Answer
from server_vectors import VECTORS, body_of
from test_engine_replay import CHAT, chunks_of, joined

from detok_py.bridge.engines.ollama import Ollama
from detok_py.bridge.engines.openai import OpenAIServer

OPENAI = (
    "OpenAI chat",
    "OpenAI completions",
    "Mistral, lists",
    "Lemonade",
    "vLLM chat",
    "llama-server chat",
)
MADE = [
    *[(OpenAIServer, "/v1/chat/completions", "text/event-stream", name) for name in OPENAI],
    (Ollama, "/api/chat", "application/x-ndjson", "Ollama chat"),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "path", "kind", "name"), MADE, ids=[one[3] for one in MADE])
async def test_an_engine_gives_the_text_of_its_server(engine, path, kind, name):
    vector = next(one for one in VECTORS if one["name"] == name)
    answers = {("POST", path): Answer(body_of(vector), kind=kind)}
    chunks = await chunks_of(partial(engine, model="m"), answers, CHAT)
    assert joined(chunks)[1].decode() == vector["content"]
    note = chunks[-1].note or ""
    assert "lost text" not in note
    assert ("2 characters of reasoning" in note) == ("reasoning" in vector)
    assert ("tool calls" in note) == ("tool_call" in vector)
