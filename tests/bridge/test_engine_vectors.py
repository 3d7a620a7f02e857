"""The bridge's engines read the events of servers as tests/vectors/servers.json says."""

import pytest
from engine_replay import Answer, Replay
from server_vectors import VECTORS, body_of

from detok_py.bridge.engines import End, Raw, Request, Sampling
from detok_py.bridge.engines.address import check_address
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
    async with Replay({("POST", path): Answer(body_of(vector), kind=kind)}) as server:
        adapter = engine(check_address(server.url), model="m")
        request = Request(
            None, [{"role": "user", "content": "hi"}], Sampling(max_tokens=20), "bytes", {}
        )
        chunks = [chunk async for chunk in adapter.generate(request)]
        await adapter.close()
    assert b"".join([one.data for one in chunks if isinstance(one, Raw)]).decode() == vector["content"]  # fmt: skip
    assert isinstance(chunks[-1], End)
    note = chunks[-1].note or ""
    assert "lost text" not in note
    assert ("2 characters of reasoning" in note) == ("reasoning" in vector)
    assert ("tool calls" in note) == ("tool_call" in vector)
