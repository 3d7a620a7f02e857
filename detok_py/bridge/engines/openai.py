"""Any server with OpenAI's routes: text only.

In: `/v1/completions` and `/v1/chat/completions`. Out: Raw chunks of the text that the server
decoded, with any U+FFFD that it made. These routes have no ids. The note of the end tells what the
server sent apart from the text, and text that it must have lost.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from ...captures.event_shapes import find, read_event
from ...protocol import wire
from . import (
    DEFAULT_MAX_TOKENS,
    Chunk,
    ContextFull,
    End,
    EngineError,
    NoEngine,
    Raw,
    Request,
    reason_of,
)
from .http import EngineClient, HttpEngine, prompt_tokens
from .text import Surrogates, Tags, Tally

# Parameters that have the same name in OpenAI's routes, vLLM, llama-server, TGI and Ollama.
SAMPLING = {"temperature": "temperature", "seed": "seed", "top_p": "top_p", "top_k": "top_k"}
# Where these servers say how many of the tokens are reasoning.
REASONING_TOKENS = "usage.completion_tokens_details.reasoning_tokens|usage.reasoning_tokens"
# The tokens that a chat template may add to the messages.
TEMPLATE = 512


def completion_body(model: str | None, request: Request) -> dict[str, Any]:
    """Return the body of an OpenAI request, with only the parameters that were given."""
    body: dict[str, Any] = {
        "model": model,
        "stream": True,
        **request.sampling.named(max_tokens="max_tokens", **SAMPLING),
    }
    if request.messages is not None:
        body["messages"] = request.messages
        body.update(request.tools if request.apart else {})
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


async def with_room(
    request: Request, context: Any, count: Callable[[], Awaitable[int]] | None = None
) -> Request:
    """Return the request with the default of max_tokens lowered to what the engine's context of
    `context` tokens has left: engines refuse more. If the context is unknown, the default stays; so
    does a number that the client gave.

    `count` asks the engine for the tokens of the prompt. It is called only if they may be too many.
    """
    if "max_tokens" in request.params:
        return request
    sampling = request.sampling
    if type(context) is not int or context < 1:
        most = min(sampling.max_tokens, DEFAULT_MAX_TOKENS)
        return request._replace(sampling=sampling._replace(max_tokens=most))
    # A token has at least one byte.
    used = len(json.dumps(request.prompt if request.messages is None else request.messages))
    used += len(json.dumps(request.tools["tools"])) if request.tools else 0
    used += 0 if request.messages is None else TEMPLATE
    if used + len(request.answered) + sampling.max_tokens > context:
        used = min(used, context // 2)
        if count is not None:
            with suppress(EngineError):
                used = await count()
    left = max(1, context - used - len(request.answered))
    return request._replace(sampling=sampling._replace(max_tokens=min(sampling.max_tokens, left)))


async def stream_text(
    client: EngineClient, request: Request, model: str | None
) -> AsyncGenerator[Chunk, None]:
    """Stream an OpenAI route as text.

    Engines with a better route use this one for messages, because only it applies the chat
    template.
    """
    pairs = Surrogates()
    tags = Tags(request.apart)
    tally = Tally(tags=bool(tags.wanted))
    finish = None
    counts: tuple[int | None, int | None] = None, None
    async with aclosing(
        _events_with_usage(client, route_of(request), completion_body(model, request))
    ) as events:
        async for event in events:
            said = read_event(event)
            if said is None:
                continue
            _count(event, said, tally)
            if said.total is not None:
                counts = prompt_tokens(event), said.total
            data = pairs.feed(tags.feed(said))
            if data:
                yield Raw(data)
            client.check_finish(said)
            finish = said.finish or finish
    if finish is None:
        raise client.ended_early()
    rest = pairs.feed(tags.flush()) + pairs.flush()
    if rest:
        yield Raw(rest)
    yield End(reason_of(finish), tally.note(), *counts)


async def _events_with_usage(
    client: EngineClient, path: str, body: dict[str, Any]
) -> AsyncGenerator[Any, None]:
    """Yield the events of a stream, with `usage` unless the server does not support that."""
    came = False
    most: int = body["max_tokens"]
    if client.asks_usage:
        asked = {**body, "stream_options": {"include_usage": True}}
        try:
            async with aclosing(client.events(path, asked, max_tokens=most)) as events:
                async for event in events:
                    came = True
                    yield event
            return
        except EngineError as error:
            if came or error.code != wire.BAD_MESSAGE or isinstance(error, ContextFull):
                raise
    async with aclosing(client.events(path, body, max_tokens=most)) as events:
        async for event in events:
            client.asks_usage = False
            yield event


def _count(event: Any, said: Any, tally: Tally) -> None:
    """Count the contents of an event: text, text of other channels, the number of tokens."""
    if said.total is not None:
        [thought, *_] = find(event, REASONING_TOKENS) or [0]
        tally.counted(said.total, thought)
    choices = event["choices"] if isinstance(event, dict) and event.get("choices") else None
    choice = choices[0] if isinstance(choices, list) else None
    if not isinstance(choice, dict):
        return
    delta = choice.get("delta")
    message = delta if isinstance(delta, dict) else {"content": choice.get("text")}
    # An event with an empty text counts, one without text does not.
    text = None if message.get("content") is None else said.text
    tally.add({**message, "content": text, "reasoning": said.reasoning})


class OpenAIServer(HttpEngine):
    """An engine with OpenAI's routes."""

    name = "OpenAI-compatible server"
    hint = "start it, or give another URL with --engine"

    async def open(self) -> None:
        """Find the model's name, unless it was given, and its context. Keeps the model if it is
        still listed.
        """
        try:
            entry = await model_entry(self.client, self._model)
        except EngineError as error:
            if not self._named or isinstance(error, NoEngine):
                raise
            return  # a gateway may know more models than it lists, or list none
        if not self._named:
            self._model = entry["id"]
        self._context = entry.get("max_model_len") if entry["id"] == self._model else None

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream text."""
        request = await with_room(request, self._context)
        async with aclosing(stream_text(self.client, request, self._model)) as chunks:
            async for chunk in chunks:
                yield chunk
