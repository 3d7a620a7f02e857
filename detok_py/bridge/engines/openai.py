"""Any server with OpenAI's routes: text only.

In: `/v1/completions` and `/v1/chat/completions`. Out: Raw chunks of the text that the server
decoded, with any U+FFFD that it made. These routes have no ids.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ...decode.vocabulary import Vocabulary
from ...protocol.event_shapes import read_event
from . import TEXT, Chunk, End, EngineError, Info, Raw, Request, reason_of
from .address import Address
from .http import EngineClient
from .text import Surrogates

# The parameters that OpenAI's routes, vLLM, llama-server and TGI name as we do.
SAMPLING = {"temperature": "temperature", "seed": "seed", "top_p": "top_p", "top_k": "top_k"}


def completion_body(model: str | None, request: Request) -> dict[str, Any]:
    """Return the body of an OpenAI request, with only the parameters that were given."""
    body: dict[str, Any] = {
        "model": model,
        "stream": True,
        **request.sampling.named(max_tokens="max_tokens", **SAMPLING),
    }
    if request.messages is not None:
        body["messages"] = request.messages
    else:
        body["prompt"] = request.prompt
    return body


def route_of(request: Request) -> str:
    """Return the route: for messages, the one where the server applies its chat template."""
    return "/v1/chat/completions" if request.messages is not None else "/v1/completions"


async def model_entry(client: EngineClient, name: str | None) -> dict[str, Any]:
    """Return the entry of `/v1/models` with the id `name`, or else the first one. Raises
    EngineError if the server lists none.
    """
    models = await client.get("/v1/models")
    try:
        entries = models["data"]
        [entry, *_] = [one for one in entries if str(one["id"]) == name] or entries
        entry["id"] = str(entry["id"])
    except (KeyError, ValueError, TypeError):
        raise EngineError(
            f"The {client.name} at {client.address.shown} lists no model; load one there.",
            retry=False,
        ) from None
    return dict(entry)


async def stream_text(
    client: EngineClient, request: Request, model: str | None
) -> AsyncGenerator[Chunk, None]:
    """Stream an OpenAI route as text.

    Engines with a better route use this one for messages, because only it applies the chat
    template.
    """
    pairs = Surrogates()
    finish = None
    async with aclosing(
        client.events(route_of(request), completion_body(model, request))
    ) as events:
        async for event in events:
            said = read_event(event)
            if said is None:
                continue
            data = pairs.feed(said.text)
            if data:
                yield Raw(data)
            finish = said.finish or finish
    if finish is None:
        raise client.ended_early()
    rest = pairs.flush()
    if rest:
        yield Raw(rest)
    yield End(reason_of(finish))


class OpenAIServer:
    """An engine with OpenAI's routes."""

    def __init__(self, address: Address, *, model: str | None = None) -> None:
        self.client = EngineClient(
            address,
            name="OpenAI-compatible server",
            hint="start it, or give another URL with --engine",
        )
        self._named = model is not None
        self._model = model

    async def open(self) -> None:
        """Find the model's name, unless it was given. A model that is still there is kept."""
        if not self._named:
            self._model = (await model_entry(self.client, self._model))["id"]

    def info(self) -> Info:
        """Text only."""
        return Info("OpenAI-compatible server", TEXT, None, self._model)

    def gives(self, request: Request) -> str:
        """Text."""
        return TEXT

    async def vocabulary(self) -> Vocabulary | None:
        """None: these routes do not show ids."""
        return None

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """None: the vocabulary cannot be compared."""
        return None

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream text."""
        return stream_text(self.client, request, self._model)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()
