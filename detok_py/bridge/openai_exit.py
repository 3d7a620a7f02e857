"""An OpenAI-compatible API in front of the bridge's engines: `/v1/chat/completions`,
`/v1/completions` and `/v1/models`.

In: requests as OpenAI's clients send them (openai_request.py). Out: answers in OpenAI's shapes
(openai_reply.py). Behind each answer is a detok.v1 client in this process, which reads and decodes
a run as a page does. So these answers are produced, counted, kept and resumed as all others.

A client that disconnects cancels its run. With the header `X-Detok-Run`, a random id, the run
outlives the connection: the same request with the same id, and with the id of the last event in
`Last-Event-ID`, returns the rest.
"""

import asyncio
import logging
import time
from typing import Any

from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..protocol import wire
from ..protocol.events import new_run_id
from .attached import AttachedEngine, plain
from .engines import BYTES, IDS, NO_ROOM_FOR_ANSWER, NO_ROOM_FOR_PROMPT, TEXT, Sampling
from .engines import Request as EngineRequest
from .gate import Receive, Scope, Send
from .jobs import fault_of
from .openai_reply import ASKED_FORMAT, DONE, Chunks, ExitAnswer, Named, Whole, encode, name_of
from .openai_request import MAX_BODY, Asked, ExitError, read_json, read_request
from .protocols import CHUNKS
from .stream import HELLO_SECONDS, STOPPING, Bridge

log: logging.Logger = logging.getLogger("detok.bridge")

BODY_SECONDS = 30.0
# After so many seconds without an event, a stream gets a comment.
SILENT_SECONDS = 15.0
# The HTTP status and OpenAI's code for a close code of detok.v1.
STATUSES: dict[int, tuple[int, str]] = {
    1011: (500, "internal_error"),
    1012: (503, "stopping"),
    wire.BAD_MESSAGE: (400, "bad_request"),
    wire.NO_SUCH_ENGINE: (404, "model_not_found"),
    wire.VOCABULARY_MISMATCH: (409, "model_changed"),
    wire.RESUME_EXPIRED: (410, "run_expired"),
    wire.BUSY: (429, "too_many_clients"),
    wire.CANCELLED: (409, "run_taken"),
    wire.ENGINE_DOWN: (503, "engine_down"),
}
STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}
TOO_LARGE = f"The body must have at most {MAX_BODY} bytes."
NO_MODEL = "There is no such model here; GET /v1/models lists the models of this bridge."
NO_VOCABULARY = "This engine sends token ids, and the bridge has no vocabulary to read them with; start it with --tokenizer."
CANCELLED = "Another client has cancelled this answer."
CHANGED = "The engine has just loaded another model; ask again."
STARTING = "The engine is still starting; try again in a moment."
BUG = "The bridge failed because of a bug in detok; its log names the place."
TOO_FAR = "Last-Event-ID is beyond the end of this answer; ask without it for the whole of it."


def openai_routes(bridge: Bridge) -> list[BaseRoute]:
    """Return the OpenAI-compatible routes."""

    async def chat(request: Request) -> Response:
        return await _answer(bridge, request, is_chat=True)

    async def completions(request: Request) -> Response:
        return await _answer(bridge, request, is_chat=False)

    async def models(request: Request) -> Response:
        found = await _models(bridge)
        name = request.path_params.get("model")
        if name is None:
            return _json(200, {"object": "list", "data": found})
        for one in found:
            if one["id"] == name:
                return _json(200, one)
        return _refusal(ExitError(404, NO_MODEL, "model_not_found", param="model"))

    async def unknown(request: Request) -> Response:
        answered = [each for each in routes if isinstance(each, Route) and each.endpoint != unknown]
        methods = {route.path: route.methods for route in answered}.get(request.url.path)
        if methods:
            sentence = f"Only {' and '.join(sorted(methods))} can be used here."
            return _refusal(ExitError(405, sentence, "method_not_allowed"))
        sentence = "There is no such route here; the bridge has /v1/chat/completions, /v1/completions and /v1/models."
        return _refusal(ExitError(404, sentence, "unknown_route"))

    routes: list[BaseRoute] = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{model:path}", models),
        Route("/v1", unknown, methods=["GET", "POST"]),
        Route("/v1/{path:path}", unknown, methods=["GET", "POST"]),
    ]
    return routes


async def _models(bridge: Bridge) -> list[dict[str, Any]]:
    """Return OpenAI's list of models. The id is the model's name; if that is unknown, or another
    engine has it too, the engine's name.
    """
    await bridge.open()
    names = [plain(attached.engine.info().model) or "" for attached in bridge.engines]
    return [
        {
            "id": name if name and names.count(name) == 1 else attached.name,
            "object": "model",
            "created": 0,
            "owned_by": plain(attached.engine.info().name),
        }
        for name, attached in zip(names, bridge.engines, strict=True)
    ]


async def _answer(bridge: Bridge, request: Request, *, is_chat: bool) -> Response:
    """Return the response to a request: an answer or an error."""
    try:
        if bridge.draining:
            raise ExitError(503, STOPPING, "stopping", retry=True)
        if bridge.crowded:
            bridge.metrics.refused.labels("429").inc()
            raise ExitError(
                429, "This bridge has too many clients.", "too_many_clients", retry=True
            )
        with bridge.connected():
            asked = read_request(read_json(await _body(request)), request.headers, is_chat=is_chat)
            attached = await bridge.engine_for(asked.model, by_model=True)
            if attached is None:
                raise ExitError(404, NO_MODEL, "model_not_found", param="model")
            if not attached.opened:
                try:
                    await asyncio.wait_for(attached.open(), HELLO_SECONDS)
                except TimeoutError:  # how its text is to be read is not known
                    raise ExitError(503, STARTING, "engine_down", retry=True) from None
            return Reply(bridge, attached, asked)
    except ExitError as error:
        return _refusal(error)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody reads it


async def _body(request: Request) -> bytes:
    """Return the body of a request. Raises ExitError if it is not JSON, too large or too slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind.lower() != "application/json":
        raise ExitError(415, "The Content-Type must be application/json.", "unsupported_media_type")
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            if int(request.headers.get("content-length", "0")) > MAX_BODY:
                raise ExitError(413, TOO_LARGE, "body_too_large")
            async for piece in request.stream():
                data += piece
                if len(data) > MAX_BODY:
                    raise ExitError(413, TOO_LARGE, "body_too_large")
    except TimeoutError:
        sentence = f"The body did not come within {BODY_SECONDS:g} seconds."
        raise ExitError(408, sentence, "timeout", retry=True) from None
    return bytes(data)


class Reply(Response):
    """One answer to a connected client."""

    def __init__(self, bridge: Bridge, attached: AttachedEngine, asked: Asked) -> None:
        self.background: BackgroundTask | None = None
        self._bridge = bridge
        self._attached = attached
        self._asked = asked
        self._run = asked.run or new_run_id()
        self._fidelity = _fidelity(attached, asked)
        prefix = "chatcmpl-" if asked.is_chat else "cmpl-"
        model = asked.model or plain(attached.engine.info().model) or attached.name
        named = Named(name_of(self._run, prefix), int(time.time()), model)
        self._writer = _Writer(named, self._run, asked)
        marked = asked.is_chat and self._fidelity == TEXT
        self._answer = ExitAnswer(encode(self._request()), marked=marked)
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._over = asyncio.Event()
        self._notice = ""
        self._begun = False  # the response
        self._silent = True

    def _request(self) -> dict[str, Any]:
        """Return the request of the run, and set how its text is read."""
        asked = self._asked
        options, request = dict(asked.options), asked.request
        if asked.is_chat and (self._fidelity == TEXT or self._attached.chat_format is None):
            known = {"format": ASKED_FORMAT} if options["toolSchemas"] else {"tools": False}
            options.update(known)
        if asked.is_chat and self._fidelity == TEXT:
            request = {**request, "params": {**request["params"], "apart": "marks"}}
        if asked.after:
            return {**options, "resume": self._run}
        # From an engine that gives bytes, each id alone would cost a request.
        want = "ids" if self._fidelity == IDS else "both"
        return {**options, **request, "id": self._run, "want": want}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        problem = self._problem()
        if problem is not None:
            return await _refusal(problem)(scope, receive, send)
        self._forget()  # a failure that came when nobody was there
        self._send = send
        self._direct = scope.get("extensions", {}).get(CHUNKS, {})
        at_once = {"can": self._can_write, "write": self._write}
        with self._bridge.connected():
            serving = asyncio.create_task(
                self._bridge.serve(
                    self._attached,
                    self._inbox.get,
                    self._take,
                    at_once,
                    comes_back=bool(self._asked.run),
                )
            )
            ends = [
                asyncio.create_task(self._over.wait()),
                asyncio.create_task(_disconnected(receive)),
            ]
            try:
                await self._wait({serving, *ends})
            finally:
                code = 1000 if self._over.is_set() or not self._asked.run else 1006
                self._over.set()
                self._inbox.put_nowait({"type": "websocket.disconnect", "code": code})
                for task in ends:
                    task.cancel()
                await asyncio.gather(serving, *ends, return_exceptions=True)
                self._forget()
        await self._end(scope, receive, send)

    async def _wait(self, ends: set[asyncio.Task[Any]]) -> None:
        """Wait until the answer or the client ends. A silent stream gets comments, because proxies
        close silent connections.
        """
        first = asyncio.FIRST_COMPLETED
        while not (await asyncio.wait(ends, timeout=SILENT_SECONDS, return_when=first))[0]:
            silent, self._silent = self._silent, True
            if silent and self._writer.whole is None:
                await self._send_text(": the engine has said nothing new\n\n")

    def _forget(self) -> None:
        """Drop a run to which no client can come back, or that another attempt can begin again."""
        run = self._bridge.store.runs.by_id.get(self._run)
        if run is None or run.log.end is None:
            return
        begins_again = run.log.end.get("retry") and not run.log.position
        if begins_again or not self._asked.run:
            self._bridge.store.forget(run)

    def _problem(self) -> ExitError | None:
        """Return why the engine cannot answer this request, or None."""
        if self._fidelity == IDS and self._attached.vocabulary is None and self._attached.opened:
            return ExitError(503, NO_VOCABULARY, "no_vocabulary")
        return None

    # ---------------------------------------------------------------- from the bridge

    def _can_write(self) -> bool:
        """Return whether the client can be sent to at once."""
        if self._writer.whole is not None:
            return True
        return self._begun and bool(self._direct) and bool(self._direct["can"]())

    def _write(self, frames: list[str | bytes]) -> None:
        """Turn frames of the run into bytes for the client, in this turn of the loop."""
        self._receive(frames)
        text = self._writer.now()
        if text:
            self._silent = False
            self._direct["write"](text.encode())

    async def _take(self, message: Any) -> None:
        """Send a message of the bridge, as fast as the client reads."""
        if message["type"] == "websocket.close":
            code = message["code"]
            retry = code in wire.RETRY_CODES
            self._fail(code, self._notice or message["reason"], retry=retry)
        else:
            self._receive([message.get("text") or message.get("bytes")])
        # The end of the answer cancels this method, so `_end` sends what is left.
        text = "" if self._over.is_set() else self._writer.now()
        if text:
            self._silent = False
            await self._send_text(text)

    def _receive(self, frames: list[Any]) -> None:
        """Feed frames of the bridge to the session."""
        try:
            for frame in frames:
                if not self._over.is_set():
                    self._apply(self._answer.results(self._answer.session.receive(frame)))
        except Exception as error:
            # A bug in the bridge. Its place is logged, but not its message.
            log.error("exit_fault", extra={"fields": fault_of(error)})
            self._fail(1011, BUG)

    def _apply(self, results: dict[str, Any]) -> None:
        """Send the session's frames to the bridge, and add its events to the response."""
        for frame in results.get("send", ()):
            self._inbox.put_nowait({"type": "websocket.receive", "text": frame})
        for event in results["events"]:
            kind = event["type"]
            if kind in ("text", "finished", "failed"):
                self._writer.add(event["deltas"])
            if kind == "finished":
                self._finish(event["reason"], event["note"], event["position"])
            elif kind == "failed":
                # A run with a name is kept with its failure: another attempt reads the same.
                kept = bool(self._asked.run and event["position"])
                retry = event["retry"] and not kept
                self._fail(event["code"], event["message"], retry=retry, of_run=True)
            elif kind == "notice":
                self._notice = event["message"]
        if "fetch" in results:
            vocabulary = self._attached.vocabulary
            if vocabulary is None or vocabulary.sha256 != results["fetch"]["sha256"]:
                return self._fail(wire.VOCABULARY_MISMATCH, CHANGED, retry=True)
            self._answer.use(vocabulary)
            self._apply(self._answer.results([]))

    def _finish(self, reason: str, note: str | None, position: int) -> None:
        """End the answer."""
        if reason == "cancelled":
            return self._fail(wire.CANCELLED, CANCELLED)
        if not self._writer.finish(reason, note, self._usage(position)):
            return self._fail(wire.RESUME_EXPIRED, TOO_FAR)
        self._over.set()

    def _end_of_run(self) -> dict[str, Any]:
        """Return the last message of the run; empty before it has ended."""
        run = self._bridge.store.runs.by_id.get(self._run)
        return (run and run.log.end) or {}

    def _usage(self, position: int) -> dict[str, int] | None:
        """Return the numbers of tokens of an answer, as far as they are known. Behind a stop string
        the engine's own are left out: they count what came behind it, and may come later.
        """
        end = {} if self._answer.stopped else self._end_of_run()
        usage: dict[str, int] = dict(end.get("usage") or {})
        if self._answer.session.data != "bytes":
            usage["completion_tokens"] = position
        if len(usage) < 2:
            return usage or None
        return {**usage, "total_tokens": sum(usage.values())}

    def _fail(self, code: int, message: str, *, retry: bool = False, of_run: bool = False) -> None:
        """End the answer with an error: of the bridge, or `of_run` of the run, so of its engine."""
        if not self._over.is_set():
            status, name = STATUSES.get(code, (500, "internal_error"))
            if message in (NO_ROOM_FOR_ANSWER, NO_ROOM_FOR_PROMPT):
                name = "context_length_exceeded"  # on which clients shorten a chat
            elif of_run and code == wire.BUSY:
                name = "rate_limit_exceeded"
            error = ExitError(status, message, name, retry=retry)
            error.retry_after = (of_run and self._end_of_run().get("retry_after")) or 1
            self._writer.fail(error, begun=self._begun)
            self._over.set()

    # ---------------------------------------------------------------- to the client

    async def _begin(self) -> None:
        """Send the head of the response, once."""
        if self._begun:
            return
        self._begun = True
        whole = self._writer.whole is not None
        headers = {"content-type": "application/json"} if whole else dict(STREAM_HEADERS)
        headers |= {"cache-control": "no-store", "x-detok-fidelity": self._fidelity}
        if self._asked.ignored:
            headers["x-detok-ignored"] = ", ".join(self._asked.ignored)
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": pairs})

    async def _send_text(self, text: str) -> None:
        await self._begin()
        body = {"type": "http.response.body", "body": text.encode(), "more_body": True}
        await self._send(body)

    async def _end(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the rest of the response."""
        if self._writer.failure is not None:
            return await _refusal(self._writer.failure)(scope, receive, send)
        await self._begin()
        rest = self._writer.take().encode()
        await self._send({"type": "http.response.body", "body": rest, "more_body": False})


class _Writer:
    """Builds the response: events as they come, or one object at the end. `failure` is the error
    response, if the answer failed before it began.
    """

    def __init__(self, named: Named, secret: str, asked: Asked) -> None:
        is_chat = asked.is_chat
        self.failure: ExitError | None = None
        self.whole: Whole | None = None
        if not asked.streams:
            self.whole = Whole(named, secret, is_chat=is_chat)
        self._asked = asked
        self._chunks = Chunks(
            named, secret, is_chat=is_chat, after=asked.after, numbered=bool(asked.run)
        )
        self._out: list[str] = []

    def now(self) -> str:
        """Return the bytes that a stream has to send now, and forget them."""
        return self.take() if self.whole is None else ""

    def take(self) -> str:
        """Return all bytes that are left to send, and forget them."""
        out, self._out = self._out, []
        return out[0] if len(out) == 1 else "".join(out)

    def add(self, rows: Any) -> None:
        """Add deltas."""
        if not rows:
            return
        if self.whole is not None:
            self.whole.add(rows)
        else:
            self._out.append(self._chunks.text(rows))

    def finish(self, reason: str, note: str | None, usage: dict[str, int] | None) -> bool:
        """Add the end. Return False if the client's Last-Event-ID is beyond it."""
        if self.whole is not None:
            self._out.append(encode(self.whole.object(reason, usage, note)))
            return True
        self._out.append(self._chunks.end(reason, note))
        if self._asked.has_usage:
            self._out.append(self._chunks.usage(usage))
        if self._chunks.position < self._asked.after:
            return False
        self._out.append(DONE)
        return True

    def fail(self, error: ExitError, *, begun: bool) -> None:
        """Add an error: as an event, if the answer has begun."""
        if self.whole is None and (begun or any(self._out)):
            self._out.append(f"data: {encode(error.body)}\n\n")
        else:
            self.failure = error


def _fidelity(attached: AttachedEngine, asked: Asked) -> str:
    """Return what the engine provides for a request: "ids", "bytes" or "text"."""
    if asked.request["params"].get("engine") == "scripted" or attached.engine.info().name == (
        attached.scripted.info().name
    ):
        by_token = asked.request["params"].get("cut", "token") == "token"
        return IDS if by_token and attached.vocabulary is not None else BYTES
    request = EngineRequest(
        asked.request["prompt"], asked.request["messages"], Sampling(), "both", {}
    )
    return attached.engine.gives(request)


async def _disconnected(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _refusal(error: ExitError) -> Response:
    headers = {"x-should-retry": "true" if error.retry else "false"}
    if error.retry:
        headers["retry-after"] = str(error.retry_after)
    return _json(error.status, error.body, headers)


def _json(status: int, value: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(
        encode(value),
        status,
        {"content-type": "application/json", "cache-control": "no-store", **(headers or {})},
    )
