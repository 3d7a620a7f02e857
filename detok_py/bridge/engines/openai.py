"""Any server with OpenAI's routes: text only, because that is all they carry.

In: `/v1/completions` and `/v1/chat/completions`. Out: Raw chunks of text that the server decoded: a U+FFFD that it made stays one, and
no ids.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from detok_py.vocabulary import Vocabulary

from . import TEXT, Chunk, End, EngineError, Info, Raw, Request
from .address import Address
from .http import EngineClient
from .text import Surrogates

REASONS = {"stop": "eos", "length": "length", "eos_token": "eos", "stop_sequence": "stop", "tool_calls": "stop", "content_filter": "stop"}


def completion_body(model: str | None, request: Request) -> dict[str, Any]:
    """Return the body of an OpenAI request: what was asked, and nothing that was not."""
    sampling = request.sampling
    body: dict[str, Any] = {"model": model, "stream": True, "max_tokens": sampling.max_tokens}
    for name in ("temperature", "seed", "top_p", "top_k"):
        value = getattr(sampling, name)
        if value is not None:
            body[name] = value
    if request.messages is not None:
        body["messages"] = request.messages
    else:
        body["prompt"] = request.prompt
    return body


def route_of(request: Request) -> str:
    """Return the route for a prompt or for messages, which go through the server's own chat template."""
    return "/v1/chat/completions" if request.messages is not None else "/v1/completions"


def choice_of(event: Any) -> dict[str, Any] | None:
    """Return the first choice of an event, or None for usage, a keep-alive, or something else.

    >>> choice_of({"choices": [{"text": "a"}]}), choice_of({"choices": [], "usage": {}}), choice_of([])
    ({'text': 'a'}, None, None)
    """
    choices = event.get("choices") if isinstance(event, dict) else None
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


async def first_model(client: EngineClient) -> dict[str, Any]:
    """Return the first entry of `/v1/models`. Raises EngineError where the server lists none."""
    models = await client.get("/v1/models")
    try:
        entry = models["data"][0]
        entry["id"] = str(entry["id"])
    except (KeyError, IndexError, TypeError):
        raise EngineError(f"The {client.name} at {client.address.shown} lists no model; load one there.", retry=False) from None
    return dict(entry)


async def stream_text(client: EngineClient, request: Request, model: str | None) -> AsyncGenerator[Chunk, None]:
    """Stream an OpenAI route as text. Also the way of engines with a better route, for messages that only their chat route can template."""
    pairs = Surrogates()
    reason = None
    async with aclosing(client.events(route_of(request), completion_body(model, request))) as events:
        async for event in events:
            choice = choice_of(event)
            if choice is None:
                continue
            delta = choice.get("delta")
            text = delta.get("content") if isinstance(delta, dict) else choice.get("text")
            data = pairs.feed(text) if isinstance(text, str) else b""
            if data:
                yield Raw(data)
            reason = choice.get("finish_reason") or reason
    if reason is None:
        raise EngineError(f"The {client.name} at {client.address.shown} was lost in mid-answer; what came before is kept.")
    rest = pairs.flush()
    if rest:
        yield Raw(rest)
    yield End(REASONS.get(str(reason), "stop"))


class OpenAIServer:
    """An engine behind OpenAI's routes."""

    def __init__(self, address: Address, *, model: str | None = None) -> None:
        self.client = EngineClient(address, name="OpenAI-compatible server", hint="start it, or give another URL with --engine")
        self._model = model

    async def open(self) -> None:
        """Find the model's name, the first time."""
        if self._model is None:
            self._model = (await first_model(self.client))["id"]

    def info(self) -> Info:
        """Text only."""
        return Info("OpenAI-compatible server", TEXT, None, self._model)

    def gives(self, request: Request) -> str:
        """Text."""
        return TEXT

    async def vocabulary(self) -> Vocabulary | None:
        """None: these routes show no ids."""
        return None

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """None: there is nothing to compare."""
        return None

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream text."""
        return stream_text(self.client, request, self._model)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()
