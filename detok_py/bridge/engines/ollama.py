"""Ollama: text only, as lines of JSON.

In: `/api/generate`, `/api/chat`. Out: Raw chunks of text. Ollama's runner makes text of the bytes,
so bytes that it could not decode are lost.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ...captures.event_shapes import read_event
from . import Chunk, End, EngineError, NoEngine, Raw, Request, reason_of, with_values
from .http import HttpEngine, prompt_tokens
from .openai import SAMPLING
from .text import Surrogates, Tags, Tally


class Ollama(HttpEngine):
    """An engine with Ollama's own routes. An exact text comes as JSON, in quotes."""

    says_exactly = True
    version_at: tuple[str, str] = ("/api/version", "version")

    name = "Ollama"
    hint = "start it: ollama serve"

    async def open(self) -> None:
        """Choose the first model, if none was named. Keeps it while it is there."""
        try:
            tags = await self.client.get("/api/tags")
        except EngineError as error:
            if not self._named or isinstance(error, NoEngine):
                raise
            return  # what is before it may let through only what a chat needs
        try:
            names = [str(one["name"]) for one in tags["models"]]
        except (KeyError, TypeError):
            names = []
        if self._named or self._model in names:
            return
        if not names:
            raise EngineError(
                "Ollama has no model yet; pull one, for example: ollama pull qwen3:0.6b",
                retry=False,
            )
        self._model = names[0]

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream text."""
        body: dict[str, Any] = {
            "model": self._model,
            "stream": True,
            "options": request.sampling.named(max_tokens="num_predict", **SAMPLING),
        }
        if request.messages is not None:
            path, body["messages"] = "/api/chat", with_values(request.messages)
            body.update(request.tools if request.apart else {})
        else:
            path, body["prompt"] = "/api/generate", request.prompt
        if request.exactly is not None:
            # A grammar holds from the first token on, so there is no room for reasoning.
            body.update(format={"type": "string", "enum": [request.exactly]}, think=False)
        pairs = Surrogates()
        tags = Tags(request.apart)
        tally = Tally(tags=bool(tags.wanted))
        most = request.sampling.max_tokens
        async with aclosing(self.client.events(path, body, max_tokens=most)) as events:
            async for event in events:
                said = read_event(event)
                if said is None or not isinstance(event, dict):
                    continue
                done = event.get("done")
                message = event.get("message")
                thinking = {"content": said.text, "thinking": event.get("thinking")}
                tally.add(message if isinstance(message, dict) else thinking)
                tally.counted(said.total)
                data = pairs.feed(tags.feed(said))
                data += pairs.feed(tags.flush()) + pairs.flush() if done else b""
                if data:
                    yield Raw(data)
                if done:
                    counts = prompt_tokens(event), said.total
                    yield End(reason_of(said.finish), tally.note(), *counts)
                    return
