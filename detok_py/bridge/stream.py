"""Connects `ServerSession` to WebSockets and engines.

In: an ASGI WebSocket. Out: detok.v1. The session makes all decisions about the protocol; this file
receives, feeds and sends. Runs outlive their WebSockets, because a client may resume.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ..decode.vocabulary import Vocabulary
from ..protocol import wire
from ..protocol.server import Run, RunStore, ServerSession, model_of
from .engines import Engine, EngineError, Info, Request
from .engines.scripted import ScriptedEngine
from .gate import Receive, Scope, Send
from .jobs import carries, fault_of, read_request, run_job
from .metrics import Metrics
from .protocols import FRAMES
from .recover import Recovery

log = logging.getLogger("detok.bridge")
HELLO_SECONDS = 30.0
LOOK_SECONDS = 2.0
# Sockets beyond `max_clients` that may be open at the same time, and for how long each: enough to
# send the resume of a run.
WAITING_SOCKETS = 8
WAITING_SECONDS = 5.0
STOPPING = "This bridge is stopping."
STOPPED = "The bridge that made this answer was stopped; the text so far is kept. Ask again."


def report(event: str, **fields: Any) -> None:
    """Log an event with numbers. Never pass a prompt, a text, a token or a run id."""
    log.info(event, extra={"fields": fields})


class Bridge:
    """An engine, its vocabulary, and the runs of all clients.

    `vocabulary` and `encode` are those of `--tokenizer`; by default `find_vocabulary` gets them
    from the engine. The scripted engine needs `encode`. `max_clients` bounds the open WebSockets. A
    few more are open for a moment: each is told hello, and has a place if it resumes a run whose
    socket has one. An engine that is lost in mid-answer is waited for `continue_seconds`, to go on.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        vocabulary: Vocabulary | None = None,
        encode: Callable[[str], list[int]] | None = None,
        find_vocabulary: Callable[
            [Engine], Awaitable[tuple[Vocabulary, Callable[[str], list[int]] | None] | None]
        ]
        | None = None,
        max_clients: int = 8,
        continue_seconds: float = 0.0,
        store: RunStore | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.engine = engine
        self.vocabulary = vocabulary
        self.scripted = ScriptedEngine(lambda: self.vocabulary, encode)
        self.metrics = metrics or Metrics()
        self.store = store or RunStore()
        self.max_clients = max_clients
        self.continue_seconds = continue_seconds
        self._sessions: set[ServerSession] = set()
        self._sockets = 0
        self.down: str | None = None
        self.refused: str | None = None
        self._given = vocabulary
        self._find_vocabulary = find_vocabulary
        self._identity: str | None = None
        self._refusal: str | None = None
        self._failure: EngineError | None = None
        self._look: asyncio.Task[None] | None = None
        # By what the engine writes to, which is the run itself if the store is in memory.
        self._jobs: dict[Run, asyncio.Task[None]] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._opening_store: asyncio.Task[None] | None = None
        self._draining = False
        self._recovery_tables: dict[Vocabulary, dict[bytes, list[int]]] = {}
        self._opened = False
        self._expiry: asyncio.Task[None] | None = None
        self.metrics.clients.set_function(lambda: self.clients)

    @property
    def clients(self) -> int:
        """How many sockets have a place. A socket that is being closed has none."""
        return sum([session.has_place and not session.closing for session in self._sessions])

    async def open(self) -> None:
        """Look at the engine: start it, and find its vocabulary if it has another model than
        before. Every client, run and request for its description comes through here; those at the
        same time share one look.

        If the engine is down, `self.down` says why; a later call tries again.
        """
        if self._expiry is None:
            self._expiry = asyncio.create_task(self._expire_runs())
            self._opening_store = asyncio.create_task(self.store.open(self._stop))
        if self._opening_store is not None:
            await asyncio.shield(self._opening_store)
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_at_engine())
        await asyncio.shield(self._look)

    async def _look_at_engine(self) -> None:
        try:
            await self.engine.open()
            if await self._is_another_model():
                identity = self.engine.info().identity
                await self._find()
                self._identity = identity
                self._opened = True
            self.down = self._failure = None
        except EngineError as error:
            self.down, self._failure = str(error), error
        except Exception as error:
            # An answer of a shape that no adapter expects. Its place is logged, not its content.
            log.error("engine_fault", extra={"fields": fault_of(error)})
            self._failure = EngineError(
                "The engine's answers have a shape that detok does not know; check that it is the engine you meant, and its version.",
                retry=False,
            )
            self.down = str(self._failure)

    async def _sample(self) -> str | None:
        """Return what the engine has against the vocabulary in use, by a sample."""
        return (
            None
            if self.vocabulary is None
            else await self.engine.refuse_vocabulary(self.vocabulary)
        )

    async def _is_another_model(self) -> bool:
        if not self._opened or self.engine.info().identity != self._identity:
            return True
        try:
            return await self._sample() != self._refusal
        except EngineError:
            return False  # as unknown as before

    async def _find(self) -> None:
        """Find the vocabulary of the engine's model, or compare the given one with it."""
        vocabulary, encode = self._given, self.scripted.encode
        if vocabulary is None and self._find_vocabulary is not None:
            vocabulary, encode = await self._find_vocabulary(self.engine) or (None, None)
        if vocabulary is not None:
            await asyncio.to_thread(lambda: vocabulary.sha256)  # it packs all tokens, once
        self.vocabulary, self.scripted.encode = vocabulary, encode
        self._refusal = await self._sample()
        self.refused = None
        if self._given is not None and self._refusal is not None:
            self.refused = f"The given tokenizer does not match the engine: {self._refusal}; pass the engine's own tokenizer, or none."
        for run, job in list(self._jobs.items()):
            if run.data not in ("", "bytes") and self._refuse_ids(run):
                job.cancel()

    def _refuse_ids(self, run: Run) -> bool:
        """End a run if the engine's ids are not of the vocabulary that its client knows. Return
        whether they are not.
        """
        hello = self.hello()
        if self.refused is not None:
            run.fail(wire.VOCABULARY_MISMATCH, self.refused)
            return True
        now = model_of(hello)
        if run.model == now:
            return False
        if run.model is None:
            # The client came while the engine was down. It reconnects, and gets another hello.
            if run.owner is not None:
                run.owner.closing = (1012, "the engine has started")
                run.owner.wake()
            self.store.forget(run)
        vocabulary = hello.get("vocabulary")
        has = f"vocabulary {vocabulary['sha256']}" if vocabulary else f"model {now}"
        run.fail(
            wire.VOCABULARY_MISMATCH,
            f"The engine has another model now: {has}. Reload the vocabulary from the bridge and ask again.",
            vocabulary=vocabulary,
        )
        return True

    async def _ready(self, run: Run, request: Request, engine: Engine) -> Vocabulary | None:
        """Return the vocabulary for a run that is about to start, or end the run. Raises
        EngineError if the engine is down.
        """
        if engine is self.engine:
            await self.open()
            if self._failure is not None:
                failure = self._failure
                raise EngineError(str(failure), code=failure.code, retry=failure.retry)
        if carries(request.want, engine.gives(request), self.vocabulary) != "bytes":
            self._refuse_ids(run)
        return self.vocabulary

    @property
    def unready(self) -> str | None:
        """Why a new client should go to another replica, in one sentence, or None."""
        if self._draining:
            return STOPPING
        if not self._opened:
            return self.down or "The engine has not started yet."
        return self.store.away or self.down

    async def drain(self, seconds: float) -> None:
        """Send the clients to other replicas, which have the runs too, and go on with the runs that
        are produced here, for so long at most.
        """
        self._draining = True
        for session in self._sessions:
            session.closing = session.closing or (1012, STOPPING)
            session.wake()
        deadline = time.monotonic() + seconds
        report("draining", runs=len(self._jobs))
        while jobs := {*self._jobs.values(), *self._starting}:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            await asyncio.wait(jobs, timeout=left)

    async def close(self) -> None:
        """Stop all generations and the engine."""
        for run in self._jobs:
            run.fail(wire.ENGINE_DOWN, STOPPED, retry=True)
        jobs = [
            job
            for job in (
                self._expiry,
                self._look,
                self._opening_store,
                *self._starting,
                *self._jobs.values(),
            )
            if job is not None
        ]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await self.store.close()
        await self.engine.close()

    def info(self) -> dict[str, Any]:
        """Return the engine's fields for `hello` and `/info`."""
        info: Info = self.engine.info()
        return {
            "name": info.name,
            "fidelity": info.fidelity,
            "device": info.device,
            "model": info.model,
            "line": info.line,
            "down": self.down,
        }

    def hello(self) -> dict[str, Any]:
        """Return the fields of `hello`."""
        out: dict[str, Any] = {"engine": self.info()}
        if self.vocabulary is not None:
            sha256 = self.vocabulary.sha256
            out["vocabulary"] = {
                "sha256": sha256,
                "size": len(self.vocabulary),
                "url": f"/vocabulary/{sha256}.detok",
            }
        return out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await receive()  # websocket.connect
        if wire.SUBPROTOCOL not in scope["subprotocols"]:
            await send({"type": "websocket.accept"})
            return await send(
                {
                    "type": "websocket.close",
                    "code": wire.WRONG_SUBPROTOCOL,
                    "reason": "expected the subprotocol detok.v1",
                }
            )
        await send({"type": "websocket.accept", "subprotocol": wire.SUBPROTOCOL})
        if self._sockets >= self.max_clients + max(WAITING_SOCKETS, self.max_clients):
            self.metrics.refused.labels(str(wire.BUSY)).inc()
            return await send(
                {"type": "websocket.close", "code": wire.BUSY, "reason": "too many clients"}
            )
        if self._draining:
            return await send({"type": "websocket.close", "code": 1012, "reason": STOPPING})
        self._sockets += 1
        report("client_connected", sockets=self._sockets)
        code = 1006
        try:
            extension = scope.get("extensions", {}).get(FRAMES, {})
            code = await self._serve_socket(receive, send, extension)
        finally:
            self._sockets -= 1
            report("client_lost", sockets=self._sockets, code=code)

    def _find_place(self, session: ServerSession) -> None:
        session.full = (
            None
            if self.clients < self.max_clients
            else f"This bridge already serves {self.max_clients} clients; close one, or start it with a higher --max-clients."
        )

    def _end_wait(self, session: ServerSession) -> None:
        self._find_place(session)
        session.claim_place()

    async def _serve_socket(self, receive: Receive, send: Send, extension: dict[str, Any]) -> int:
        try:
            # A client that resumes must not wait for an engine that hangs: its run has a log.
            await asyncio.wait_for(self.open(), LOOK_SECONDS if self._opened else HELLO_SECONDS)
        except TimeoutError:
            if not self._opened:
                self.down = "The engine has not started yet, so its vocabulary is unknown."
        session = ServerSession(self.store, self.hello())
        self._find_place(session)
        session.has_place = session.full is None
        self._sessions.add(session)
        sender = _Sender(session, send, extension)
        waiting = asyncio.get_running_loop().call_later(WAITING_SECONDS, self._end_wait, session)
        writer = asyncio.create_task(sender.run())
        code = 1006
        try:
            while True:
                message = await receive()
                if message["type"] == "websocket.disconnect":
                    code = message.get("code") or 1005
                    break
                if session.closing:
                    continue
                if not session.has_place:
                    self._find_place(session)
                frame = message.get("text")
                frame = frame if frame is not None else message.get("bytes") or b""
                problem = await self.store.find(frame)
                if problem is not None:
                    session.refuse(wire.ENGINE_DOWN, problem)
                    continue
                before = session.run
                tasks = session.receive(frame, time.monotonic())
                if session.run is not before and not tasks:
                    self.metrics.resumes.inc()
                    report("run_resumed")
                for word, run in tasks:
                    self._run_task(word, run)
                sender.wake()
        finally:
            waiting.cancel()
            writer.cancel()
            if session.closing and session.closing[0] == wire.BUSY:
                self.metrics.refused.labels(str(wire.BUSY)).inc()
            self._sessions.discard(session)
            # If the server closed the socket, the client did not cancel its run.
            for word, run in session.lost(1006 if session.closing else code, time.monotonic()):
                self._run_task(word, run)
        return session.closing[0] if session.closing else code

    def _run_task(self, word: str, run: Run) -> None:
        if word == "cancel":
            self._cancel(run)
            return
        try:
            request = read_request(run.request)
            run.request = {}  # the log is kept for much longer than the prompt is needed
            name = request.params.get("engine")
            if name not in (None, "scripted", self.engine.info().name):
                raise EngineError(
                    f'There is no such engine here; expected "{self.engine.info().name}" or "scripted".',
                    code=wire.NO_SUCH_ENGINE,
                    retry=False,
                )
        except EngineError as error:
            run.request = {}
            run.fail(error.code, str(error), retry=error.retry)
            return
        engine: Engine = self.scripted if name == "scripted" else self.engine
        starting = asyncio.create_task(self._start(run, request, engine))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def _start(self, run: Run, request: Request, engine: Engine) -> None:
        sink = await self.store.produce(run)
        if sink is None or sink.end is not None:
            return
        job = asyncio.create_task(
            run_job(
                sink,
                request,
                engine,
                lambda run, request: self._ready(run, request, engine),
                self._recovery_table,
                self.metrics,
                continue_seconds=self.continue_seconds,
            )
        )
        self._jobs[sink] = job
        job.add_done_callback(lambda _: self._job_ended(sink))

    def _job_ended(self, run: Run) -> None:
        self._jobs.pop(run, None)
        end = run.end or {}
        report(
            "run_ended",
            kind=end.get("type"),
            reason=end.get("reason"),
            code=end.get("code"),
            positions=run.position,
        )
        if end.get("code") == wire.ENGINE_DOWN and self._identity is None:
            self._opened = False  # it may come back with another model, and would not say so

    def _cancel(self, run: Run) -> None:
        if self.store.cancel(run):
            self._stop(run)

    def _stop(self, run: Run) -> None:
        """Stop the engine of a run."""
        for sink, job in self._jobs.items():
            if sink.id == run.id:
                job.cancel()

    def _recovery_table(self, vocabulary: Vocabulary) -> dict[bytes, list[int]]:
        if vocabulary not in self._recovery_tables:
            self._recovery_tables = {vocabulary: Recovery.table(vocabulary)}
        return self._recovery_tables[vocabulary]

    async def _expire_runs(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            for run in self.store.expire(time.monotonic()):
                if not run.done:
                    report("run_expired", positions=run.position)
                self._cancel(run)


class _Sender:
    """Sends the frames of a session: at once where that is possible, and once in a turn of the loop,
    so that what comes in the same turn is one frame; else as fast as the peer reads.
    """

    def __init__(self, session: ServerSession, send: Send, extension: dict[str, Any]) -> None:
        self._session = session
        self._send = send
        self._can_write: Callable[[], bool] = extension.get("can", lambda: False)
        self._write: Callable[[list[str | bytes]], None] | None = extension.get("write")
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._sending = False
        self._wrote = False  # in this turn
        session.wake = self.wake

    def wake(self) -> None:
        """Send what there is."""
        if (
            self._write is None
            or self._wrote
            or self._sending
            or self._session.closing
            or not self._can_write()
        ):
            self._woken.set()
            return
        frames = self._session.frames()
        if frames:
            self._wrote = True
            self._loop.call_soon(self._end_turn)
            self._write(frames)

    def _end_turn(self) -> None:
        self._wrote = False

    async def run(self) -> None:
        """Send what could not be sent at once, and close the socket."""
        session = self._session
        while True:
            self._woken.clear()
            # uvicorn's send waits while the socket's buffer is full, so at most one window of
            # credit is queued for a slow reader.
            self._sending = True
            for frame in session.frames():
                await self._send(
                    {"type": "websocket.send", "text": frame}
                    if isinstance(frame, str)
                    else {"type": "websocket.send", "bytes": frame}
                )
            self._sending = False
            if session.closing:
                code, reason = session.closing
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
                return
            await self._woken.wait()
