"""The HTTP client for engines, and the common part of engines with an HTTP API.

In: requests. Out: JSON, or the events of a stream as they come. Held: at most one event, of at most
4 MiB.

It connects to one resolved address, follows no redirects, uses no proxies, bounds what it reads,
and turns every failure into an EngineError with one sentence.
"""

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any, NamedTuple, TypeGuard

import httpx

from ...captures.event_shapes import find
from ...decode.vocabulary import Vocabulary
from ...protocol import wire
from ...protocol.sse import EventReader
from ...protocol.wire import MAX_ID
from . import (
    NO_ROOM_FOR_ANSWER,
    NO_ROOM_FOR_PROMPT,
    TEXT,
    ContextFull,
    EngineError,
    Info,
    NoEngine,
    Request,
)
from .address import Address

MAX_EVENT = 4 << 20  # bytes, in a line or in many, without an event
# What is read at once: an engine that sends a lot does not hold up the clients of the others.
PIECE = 4 << 10
# A token can be in several events, and some events have none; more are not an answer.
EVENTS_A_TOKEN = 64
MORE_EVENTS = 4096
MAX_ANSWER = 256 << 20
# An engine is silent while it reads a long prompt. After so many seconds the connection is closed.
SILENCE_SECONDS = 300.0
# How long an engine that sends comments as signs of life may send no event.
EVENT_SECONDS = 1800.0
# Requests for an engine's own state are answered at once.
ANSWER_SECONDS = 20.0
# A whole answer may take so many times as long as the engine may be silent.
SLOWEST = 6
# In the events of OpenAI's routes, llama-server, SGLang and Ollama.
PROMPT_TOKENS = "usage.prompt_tokens|tokens_evaluated|meta_info.prompt_tokens|prompt_eval_count"
GAVE_UP = ("abort", "error")  # finish reasons of vLLM, SGLang and gateways
DONE_SECONDS = 1.0  # within which an engine closes its stream after [DONE]
_LONG_NUMBER = re.compile(r"\d{16}")
_NO_HEADERS: dict[str, str] = {}


def is_ids(given: Any) -> TypeGuard[list[int]]:
    """Return whether this is a list of token ids.

    >>> is_ids([1, 2]), is_ids([-1]), is_ids(None)
    (True, False, False)
    """
    return isinstance(given, list) and all(type(i) is int and 0 <= i <= MAX_ID for i in given)


def prompt_tokens(event: Any) -> int | None:
    """Return the number of prompt tokens that an event reports.

    >>> prompt_tokens({"usage": {"prompt_tokens": 3}}), prompt_tokens({"tokens_evaluated": -1})
    (3, None)
    """
    found = find(event, PROMPT_TOKENS)
    return found[0] if found and is_ids(found[:1]) else None


class Refusal(NamedTuple):
    """The meaning of a response with one of some statuses, of one route if `path` is set."""

    statuses: tuple[int, ...]
    sentence: str
    code: int = wire.ENGINE_DOWN
    retry: bool = True
    model: bool = False  # only if the body is about the model
    path: str = ""


# The first that fits is used.
REFUSALS = (
    Refusal(
        (301, 302, 303, 307, 308),
        "The {name} at {at} redirects elsewhere, and redirects are not followed; give its real address.",
        retry=False,
    ),
    Refusal(
        (401, 403),
        "The {name} at {at} wants a key; {how}put it into the environment as {key}.",
        retry=False,
    ),
    Refusal(
        (503,),
        "The {name} at {at} is not ready (503): it is loading its model, or is busy; try again in a moment.",
    ),
    Refusal((429,), "The {name} at {at} is busy (429); try again in a moment.", wire.BUSY),
    Refusal(
        (404,),
        "The {name} at {at} has no model of the name that was given; pass --model with one that it lists, or none.",
        wire.NO_SUCH_ENGINE,
        retry=False,
        model=True,
    ),
    Refusal(
        (404, 405),
        "The server at {at} is not a {name}: it has no such route ({status}); see `detok engines`.",
        wire.NO_SUCH_ENGINE,
        retry=False,
    ),
    Refusal(
        (400, 413, 422),
        "The {name} at {at} refused the request ({status}); check the prompt and the parameters.",
        wire.BAD_MESSAGE,
        retry=False,
    ),
    Refusal(
        (500,),
        "The {name} at {at} cannot put these messages into its chat template (500); check their roles and contents.",
        wire.BAD_MESSAGE,
        retry=False,
        path="/apply-template",
    ),
)
FAILURE = Refusal((), "The {name} at {at} failed ({status}); see its log.")


async def _read_rest(chunks: AsyncIterator[bytes]) -> None:
    """Read to the end of a response whose events are over, so that its connection is used again.
    The answer is whole, however the response ends.
    """
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(DONE_SECONDS):
            async for _ in chunks:
                pass


class EngineClient:
    """A client of one engine. Error messages have its `name`, and the `hint` how to start it. The
    key of the environment is sent only to an address that the user named. `asks_usage` becomes
    false if the engine refuses to report usage. `listen` is called with the path and the body of a
    request, and each event of its answer.
    """

    def __init__(
        self,
        address: Address,
        *,
        name: str = "engine",
        hint: str = "start it and ask again",
        key: str | None = None,
    ) -> None:
        self.address = address
        self.name = name
        self.hint = hint
        self.max_answer = MAX_ANSWER
        self.asks_usage = True
        self.listen: Callable[[str, dict[str, Any], Any], None] = _ignore
        headers = {"host": address.host, "accept-encoding": "identity", "user-agent": "detok"}
        key = key or (os.environ.get(address.key) if address.named else None)
        if key:
            if not re.fullmatch("[!-~]+", key):
                sentence = f"{address.key} has a character that no key has, such as a line end."
                raise EngineError(sentence, retry=False)
            headers["authorization"] = "Bearer " + key
        self._extensions: dict[str, str] = {}
        if address.base.startswith("https"):
            url = httpx.URL(f"https://{address.host}")
            self._extensions["sni_hostname"] = url.raw_host.decode()
        self._http = httpx.AsyncClient(
            base_url=address.base,
            headers=headers,
            # A redirect would lead to an unchecked address, trust_env to proxies and .netrc.
            follow_redirects=False,
            trust_env=False,
            timeout=httpx.Timeout(5.0, read=SILENCE_SECONDS),
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=16, keepalive_expiry=3.0
            ),
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    def _stream(
        self, method: str, path: str, body: dict[str, Any] | None, **options: Any
    ) -> AbstractAsyncContextManager[httpx.Response]:
        # httpx's own JSON refuses a lone surrogate, which an engine may have given.
        if body is not None:
            options["content"] = json.dumps(body).encode()
            options["headers"] = {"content-type": "application/json"}
        return self._http.stream(method, path, extensions=self._extensions, **options)

    async def get(self, path: str) -> Any:
        """Return the JSON at `path`."""
        return await self._json("GET", path, None, ANSWER_SECONDS)

    async def post(
        self, path: str, body: dict[str, Any], *, seconds: float = ANSWER_SECONDS
    ) -> Any:
        """Return the JSON of the answer to `body`. It may be silent for `seconds`."""
        return await self._json("POST", path, body, seconds)

    async def events(
        self, path: str, body: dict[str, Any], *, max_tokens: int
    ) -> AsyncGenerator[Any, None]:
        """Yield the JSON of each event of a stream as it comes.

        Raises EngineError if the engine refuses, sends an error event, is lost, or sends no event
        for too long, or far more events than an answer of `max_tokens` tokens has.
        """
        reader = EventReader()
        left = EVENTS_A_TOKEN * max_tokens + MORE_EVENTS
        size = 0  # bytes since the last event, which came at `begun`
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(EVENT_SECONDS):
                    answer = await stack.enter_async_context(self._stream("POST", path, body))
                    if answer.status_code != 200:
                        text = await self._bounded(answer, 1 << 16)
                        raise self._refused(answer.status_code, text, headers=answer.headers)
                begun = time.monotonic()
                chunks = answer.aiter_raw()
                async for chunk in chunks:
                    before = left
                    for at in range(0, len(chunk), PIECE):
                        if at:
                            await asyncio.sleep(0)
                        size += min(len(chunk) - at, PIECE)
                        for event in reader.feed(chunk[at : at + PIECE]):
                            size, left = 0, left - 1
                            self.listen(path, body, said := self._event(event.data))
                            yield said
                    if left != before:
                        begun = time.monotonic()
                    if reader.done:
                        await _read_rest(chunks)
                        return
                    self._check_pace(size, left, begun)
                for event in reader.flush():
                    self.listen(path, body, said := self._event(event.data))
                    yield said
        except TimeoutError:
            raise self._without_event() from None
        except httpx.HTTPError as error:
            raise self._lost(error) from None

    def _check_pace(self, size: int, left: int, begun: float) -> None:
        """Raise EngineError if `size`, the bytes since the last event, or the time since then is
        too large, or if `left`, the events that an answer may still have, is below 0.
        """
        if size > MAX_EVENT:
            sentence = f"The engine sent more than {MAX_EVENT >> 20} MiB without an event; that is not a stream of tokens."
            raise EngineError(sentence, retry=False)
        if left < 0:
            sentence = (
                "The engine sent far more events than requested tokens; that is not an answer."
            )
            raise EngineError(sentence, retry=False)
        if time.monotonic() - begun > EVENT_SECONDS:
            raise self._without_event()

    def _without_event(self) -> EngineError:
        return EngineError(
            f"The {self.name} at {self.address.shown} sent no event for {EVENT_SECONDS / 60:g} minutes; check whether it hangs."
        )

    def odd(self, path: str) -> EngineError:
        """Return the error for an answer of an unexpected shape."""
        return EngineError(
            f"The {self.name} at {self.address.shown} answered {path} with JSON of an unexpected shape; check that it is the engine you meant, and its version.",
            retry=False,
        )

    async def tokenized(self, body: dict[str, Any]) -> list[int]:
        """Return the ids that /tokenize gives. Raises EngineError if it gives something else."""
        return self.ids_in("/tokenize", await self.post("/tokenize", body))

    def ids_in(self, path: str, answer: Any) -> list[int]:
        """Return the list of ids under `tokens` in an answer. Raises EngineError if it is something
        else.
        """
        ids = answer.get("tokens") if isinstance(answer, dict) else None
        if not is_ids(ids):
            raise self.odd(path)
        return ids

    def check_finish(self, said: Any) -> None:
        """Raise EngineError if an event says that the engine gave the answer up."""
        if said.error or said.finish in GAVE_UP:
            at = self.address.shown
            raise EngineError(f"The {self.name} at {at} aborted the request; see its log.")

    def ended_early(self) -> EngineError:
        """Return the error for a stream that ended without a finish reason."""
        return EngineError(
            f"The {self.name} at {self.address.shown} was lost in mid-answer; what came before is kept."
        )

    def _event(self, data: str) -> Any:
        event = self._parse(data)
        if isinstance(event, dict) and event.get("error"):
            error = event["error"]
            raise self._refused(error.get("code") if isinstance(error, dict) else None, data)
        return event

    async def _json(
        self, method: str, path: str, body: dict[str, Any] | None, seconds: float
    ) -> Any:
        timeout = httpx.Timeout(5.0, read=seconds)
        try:
            async with (
                asyncio.timeout(SLOWEST * seconds),
                self._stream(method, path, body, timeout=timeout) as answer,
            ):
                data = await self._bounded(answer, self.max_answer)
                if answer.status_code != 200:
                    raise self._refused(answer.status_code, data, path, answer.headers)
                return self._parse(data)
        except TimeoutError:
            raise EngineError(
                f"The {self.name} at {self.address.shown} took more than {SLOWEST * seconds:g} seconds for an answer; check whether it hangs."
            ) from None
        except httpx.HTTPError as error:
            raise self._lost(error) from None

    async def _bounded(self, answer: httpx.Response, limit: int) -> str:
        data = bytearray()
        async for chunk in answer.aiter_raw():
            data += chunk
            if len(data) > limit:
                raise EngineError(
                    f"The {self.name} at {self.address.shown} sent an answer over {limit >> 10} KiB.",
                    retry=False,
                )
        return data.decode("utf-8", "replace")

    def _parse(self, text: str) -> Any:
        try:
            if _LONG_NUMBER.search(text):
                return json.loads(text, parse_int=_whole_number)
            return json.loads(text)
        except (ValueError, RecursionError):
            raise EngineError(
                f"The {self.name} at {self.address.shown} sent something that is not JSON; is it the engine you meant?",
                retry=False,
            ) from None

    def _lost(self, error: httpx.HTTPError) -> EngineError:
        at = self.address.shown
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return NoEngine(f"No {self.name} answers at {at}; {self.hint}.")
        if isinstance(error, httpx.ReadTimeout):
            return EngineError(
                f"The {self.name} at {at} said nothing for {_silence_of(error):g} seconds; check whether it hangs."
            )
        return EngineError(
            f"The {self.name} at {at} was lost in mid-answer; what came before is kept. To go on, {self.hint}."
        )

    def _refused(
        self, status: Any, text: str, path: str = "", headers: Mapping[str, str] = _NO_HEADERS
    ) -> EngineError:
        """Return the error for an answer with another status than 200, or for an error event.

        `text` is only searched, never quoted: it may repeat the prompt.
        """
        if "max_model_len" in text or ("context length" in text and "max_tokens" in text):
            return ContextFull(NO_ROOM_FOR_ANSWER, code=wire.BAD_MESSAGE, retry=False)
        if re.search("exceed_context_size|context (length|size|window)", text):
            return ContextFull(NO_ROOM_FOR_PROMPT, code=wire.BAD_MESSAGE, retry=False)
        fitting = (
            one
            for one in REFUSALS
            if status in one.statuses
            and one.path in ("", path)
            and (not one.model or _is_about_the_model(text))
        )
        refusal = next(fitting, FAILURE)
        sentence = refusal.sentence.format(
            name=self.name,
            at=self.address.shown,
            status=status if isinstance(status, int) else "error",
            key=self.address.key,
            how="" if self.address.named else "name it with --engine, and ",
        )
        error = EngineError(sentence, code=refusal.code, retry=refusal.retry)
        wait = headers.get("retry-after", "")  # a date, which no known engine sends, is ignored
        error.retry_after = int(wait) if re.fullmatch("[0-9]{1,6}", wait) else None
        return error


class HttpEngine:
    """The base of engines with an HTTP API. By default an engine gives text, and has no route for
    its vocabulary. `open` finds the model, unless one was named. `name` and `hint` (how to start
    the engine) are for error messages.
    """

    name: str
    hint: str
    fidelity: str = TEXT  # for a prompt; messages go through a route that gives text
    version_at: tuple[str, str] = ("", "")  # the route and the key, if there is one

    def __init__(
        self, address: Address, *, model: str | None = None, key: str | None = None
    ) -> None:
        self.client: EngineClient = EngineClient(address, name=self.name, hint=self.hint, key=key)
        self._named = model is not None
        self._model = model
        self._identity: str | None = None
        self._context: Any = None  # the size of the engine's context, as it reports it

    def info(self) -> Info:
        """The fidelity for a prompt, and the model; no device, because no API reports it."""
        return Info(self.client.name, self.fidelity, None, self._model, self._identity)

    def gives(self, request: Request) -> str:
        """The fidelity for a prompt; text for messages."""
        return TEXT if request.messages is not None else self.fidelity

    async def version(self) -> str | None:
        """What the engine says about its version, or None."""
        path, key = self.version_at
        if not path:
            return None
        try:
            said = await getattr(self, "front", self.client).get(path)
        except EngineError:
            return None
        found = said.get(key) if isinstance(said, dict) else None
        return found if isinstance(found, str) and found else None

    async def vocabulary(self) -> Vocabulary | None:
        """None: there is no route for it. The model's folder may have it."""
        return None

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """None: the vocabulary cannot be compared."""
        return None

    async def close(self) -> None:
        """Close the connections. The server goes on running."""
        await self.client.close()


def _ignore(path: str, body: dict[str, Any], event: Any) -> None:
    """Do nothing with an event that nobody listens for."""


def _whole_number(digits: str) -> int | float:
    """Return a number as JavaScript reads it: a float beyond 15 digits, which no check for a count
    or an id accepts.

    >>> _whole_number("12"), _whole_number("9" * 4000)
    (12, inf)
    """
    return int(digits) if len(digits) < 16 else float(digits)


def _is_about_the_model(text: str) -> bool:
    """Return whether the body of a 404 is about a missing model. A server that lacks the route does
    not mention a model.

    >>> _is_about_the_model('{"error":{"message":"The model `m` does not exist.","param":"model"}}')
    True
    >>> (
    ...     _is_about_the_model('{"error":"model m not found"}'),
    ...     _is_about_the_model('{"detail":"Not Found"}'),
    ... )
    (True, False)
    """
    lower = text.lower()
    return "model" in lower and any(
        words in lower for words in ("not exist", "not found", "not_found", "notfound")
    )


def _silence_of(error: httpx.HTTPError) -> float:
    timeout: dict[str, float] = error.request.extensions.get("timeout", {})
    return timeout.get("read", SILENCE_SECONDS)
