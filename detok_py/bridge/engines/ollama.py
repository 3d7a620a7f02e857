"""Ollama: text only, newline-delimited JSON. Its runner rebuilds bytes from text, so what it lost is lost before anyone can see it.

In: `/api/generate`, `/api/chat`. Out: Raw chunks of text.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from detok_py.vocabulary import Vocabulary

from . import TEXT, Chunk, End, EngineError, Info, Raw, Request
from .address import Address
from .http import EngineClient
from .text import Surrogates

OPTIONS = {"max_tokens": "num_predict", "temperature": "temperature", "seed": "seed", "top_p": "top_p", "top_k": "top_k"}


class Ollama:
    """An engine behind Ollama's own routes."""

    def __init__(self, address: Address, *, model: str | None = None) -> None:
        self.client = EngineClient(address, name="Ollama", hint="start it: ollama serve")
        self._model = model

    async def open(self) -> None:
        """Take the first model there is, where none was named."""
        if self._model is None:
            tags = await self.client.get("/api/tags")
            try:
                self._model = str(tags["models"][0]["name"])
            except (KeyError, IndexError, TypeError):
                raise EngineError("Ollama has no model yet; pull one, for example: ollama pull qwen3:0.6b", retry=False) from None

    def info(self) -> Info:
        """Text only."""
        return Info("Ollama", TEXT, None, self._model)

    def gives(self, request: Request) -> str:
        """Text."""
        return TEXT

    async def vocabulary(self) -> Vocabulary | None:
        """None: Ollama shows no ids."""
        return None

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """None: there is nothing to compare."""
        return None

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream text."""
        options = {theirs: getattr(request.sampling, ours) for ours, theirs in OPTIONS.items()}
        body: dict[str, Any] = {"model": self._model, "stream": True, "options": {k: v for k, v in options.items() if v is not None}}
        if request.messages is not None:
            path, body["messages"] = "/api/chat", request.messages
        else:
            path, body["prompt"] = "/api/generate", request.prompt
        pairs = Surrogates()
        async with aclosing(self.client.events(path, body)) as events:
            async for event in events:
                if not isinstance(event, dict):
                    continue
                message = event.get("message")
                text = message.get("content") if isinstance(message, dict) else event.get("response")
                data = pairs.feed(text) if isinstance(text, str) else b""
                if data:
                    yield Raw(data)
                if event.get("done"):
                    rest = pairs.flush()
                    if rest:
                        yield Raw(rest)
                    yield End({"stop": "eos", "length": "length"}.get(str(event.get("done_reason")), "stop"))
                    return

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()
