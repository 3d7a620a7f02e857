"""Connects `ServerSession` to WebSockets and engines.

In: an ASGI WebSocket. Out: detok.v1. The session makes all decisions about the protocol; this file
receives, feeds and sends. Runs outlive their WebSockets, because a client may resume.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qs

from ..protocol import wire
from ..protocol.runs import Run
from ..protocol.server import ServerSession
from .attached import AttachedEngine, plain, report, short_id
from .engines import Engine, EngineError, Request
from .gate import Receive, Scope, Send
from .jobs import read_request
from .metrics import Metrics, State
from .protocols import FRAMES
from .store import MemoryStore, Store, clock, resumes

HELLO_SECONDS = 30.0
LOOK_SECONDS = 2.0
# How long the engines found on this machine are cached.
FIND_SECONDS = 10.0
# At least so many sockets beyond `max_clients` may be open, each for so long: enough to resume.
WAITING_SOCKETS = 8
WAITING_SECONDS = 5.0
STOPPING = "This bridge is stopping."
STOPPED = "The bridge that made this answer was stopped; the text so far is kept. Ask again."
NO_SUCH_ENGINE = "There is no such engine here; /info lists the engines of this bridge."


class Bridge:
    """The engines, and the runs of all clients.

    A client chooses an engine by the address of its WebSocket (`?engine=NAME`); the default is the
    first engine. `find` returns engines of this machine that are not known yet. `max_clients`
    limits the WebSockets that have a place, of all engines together. A few more may be open for a
    moment: each gets a hello, and takes over the place of the socket whose run it resumes. If an
    engine is lost in mid-answer, the bridge waits up to `continue_seconds` for it, and continues
    the answer.
    """

    def __init__(
        self,
        engines: Iterable[AttachedEngine],
        *,
        find: Callable[[], Awaitable[list[AttachedEngine]]] | None = None,
        max_clients: int = 8,
        continue_seconds: float = 0.0,
        store: Store | None = None,
    ) -> None:
        self.engines: list[AttachedEngine] = []
        self.metrics: Metrics = Metrics()
        self.store: Store = store or MemoryStore()
        self.max_clients = max_clients
        self.continue_seconds = continue_seconds
        # None for a WebSocket; for other clients, whether they can come back for their run.
        self._sessions: dict[ServerSession, bool | None] = {}
        self._sockets = 0
        self._turns = _Turns()
        self._find = find
        self._finding: asyncio.Task[None] | None = None
        self._found_at = float("-inf")
        self._starting: dict[asyncio.Task[None], None] = {}
        self._opening_store: asyncio.Task[None] | None = None
        self.draining: bool = False
        self._expiry: asyncio.Task[None] | None = None
        self.metrics.state = self._state
        for attached in engines:
            self._attach(attached)

    def _attach(self, attached: AttachedEngine) -> None:
        attached.forget = self.store.forget
        self.engines.append(attached)

    def _state(self) -> State:
        engines = [(one.name, len(one.jobs), one.unready is None) for one in self.engines]
        runs, stored = list(self.store.runs.by_id.values()), self.store.state
        return State(engines, self.clients, runs, stored.away is None, stored.counts)

    @property
    def first(self) -> AttachedEngine:
        """The default engine."""
        return self.engines[0]

    @property
    def jobs(self) -> list[Run]:
        """The runs that engines are writing now."""
        return [run for attached in self.engines for run in attached.jobs]

    @property
    def clients(self) -> int:
        """How many sockets have a place. A socket that is being closed does not count."""
        return sum([session.has_place and not session.closing for session in self._sessions])

    @property
    def crowded(self) -> bool:
        """Whether no further client may connect, not even for a moment."""
        return self._sockets >= self.max_clients + max(WAITING_SOCKETS, self.max_clients)

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Count a client without a WebSocket as connected."""
        self._sockets += 1
        try:
            yield
        finally:
            self._sockets -= 1

    async def open(self) -> None:
        """Open the store, and look at all engines. Waits at most two seconds for each engine but
        the first.
        """
        await self._open_store()
        await self._look_for_engines(LOOK_SECONDS)
        await asyncio.gather(
            self.first.open(),
            *[_within(LOOK_SECONDS, attached.open()) for attached in self.engines[1:]],
        )

    async def _open_store(self) -> None:
        if self._expiry is None:
            self._expiry = asyncio.create_task(self._expire_runs())
            self._opening_store = asyncio.create_task(self.store.open(self._stop))
        if self._opening_store is not None:
            await asyncio.shield(self._opening_store)

    async def _look_for_engines(self, seconds: float) -> None:
        """Attach the engines found on this machine, if the user asked for that. Waits at most
        `seconds`. An engine that goes down stays attached, so that its clients learn that it is
        down.
        """
        if self._find is None or clock() < self._found_at + FIND_SECONDS:
            return
        if self._finding is None or self._finding.done():
            self._finding = asyncio.create_task(self._attach_found())
        await _within(seconds, asyncio.shield(self._finding))

    async def _attach_found(self) -> None:
        assert self._find is not None
        for attached in await self._find():
            self._attach(attached)
        self._found_at = clock()

    async def engine_for(self, name: str, *, by_model: bool = False) -> AttachedEngine | None:
        """Return the engine with this name, or, if `by_model`, with a model of this name. "" means
        the default engine.
        """

        def found() -> AttachedEngine | None:
            names = [one.name for one in self.engines]
            if by_model and name not in names:
                names = [plain(one.engine.info().model) or "" for one in self.engines]
            return self.engines[names.index(name)] if name in names else None

        if not name:
            return self.first
        attached = found()
        if attached is None:
            await self._look_for_engines(HELLO_SECONDS)
            if by_model and found() is None:
                await self.open()
            attached = found()
        return attached

    @property
    def down(self) -> str | None:
        """Which engines are down, and why, or None."""
        several = len(self.engines) > 1
        down = [
            f"{one.name}: {one.down}" if several else one.down
            for one in self.engines
            if one.down is not None
        ]
        return " ".join(down) or None

    @property
    def unready(self) -> str | None:
        """Why a new client should go to another replica, in one sentence, or None."""
        if self.draining:
            return STOPPING
        if all(attached.unready for attached in self.engines):
            return self.first.unready
        return self.store.state.unready

    async def drain(self, seconds: float) -> None:
        """Send the clients to other replicas, which have the runs too. Then wait for the runs that
        are written here, at most `seconds`.
        """
        self.draining = True
        for session in self._sessions:
            if self._sessions[session] is not False:
                _dismiss(session)
        deadline = clock() + seconds
        report("draining", runs=len(self.jobs))
        while jobs := {
            *self._starting,
            *[job for attached in self.engines for job in attached.jobs.values()],
        }:
            left = deadline - clock()
            if left <= 0:
                break
            await asyncio.wait(jobs, timeout=left)

    def end_replies(self) -> None:
        """End the answers to clients without a WebSocket; the server closes the WebSockets."""
        for session, comes_back in self._sessions.items():
            if comes_back is not None:
                _dismiss(session)

    async def close(self) -> None:
        """Stop all generations, and close the store and the engines."""
        for run in self.jobs:
            run.log.fail(wire.ENGINE_DOWN, STOPPED, retry=True)
        tasks = [
            task
            for task in (self._expiry, self._finding, self._opening_store, *self._starting)
            if task is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*[attached.stop() for attached in self.engines])
        await self.store.close()
        await asyncio.gather(
            *[attached.engine.close() for attached in self.engines], return_exceptions=True
        )

    def info(self) -> dict[str, Any]:
        """Return the fields of `/info`: those of the first engine's `hello`, and all engines."""
        engines = [{"id": attached.name, **attached.hello()} for attached in self.engines]
        return {**self.first.hello(), "engines": engines}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket."""
        await receive()  # websocket.connect
        if wire.SUBPROTOCOL not in scope["subprotocols"]:
            await send({"type": "websocket.accept"})
            reason = "expected the subprotocol detok.v1"
            return await send(_close(wire.WRONG_SUBPROTOCOL, reason))
        await send({"type": "websocket.accept", "subprotocol": wire.SUBPROTOCOL})
        if self.crowded:
            self.metrics.refused.labels(str(wire.BUSY)).inc()
            return await send(_close(wire.BUSY, "too many clients"))
        if self.draining:
            return await send(_close(1012, STOPPING))
        self._sockets += 1
        report("client_connected", sockets=self._sockets)
        code = 1006
        try:
            extension = scope.get("extensions", {}).get(FRAMES, {})
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            attached = await self.engine_for(query.get("engine", [""])[-1])
            if attached is None:
                code = wire.NO_SUCH_ENGINE
                error = wire.message("error", code=code, message=NO_SUCH_ENGINE, retry=False)
                await send({"type": "websocket.send", "text": error})
                return await send(_close(code, NO_SUCH_ENGINE))
            code = await self.serve(attached, receive, send, extension)
        finally:
            self._sockets -= 1
            report("client_lost", sockets=self._sockets, code=code)

    def _set_full(self, session: ServerSession) -> None:
        session.full = (
            None
            if self.clients < self.max_clients
            else f"This bridge already serves {self.max_clients} clients; close one, or start it with a higher --max-clients."
        )

    def _end_wait(self, session: ServerSession) -> None:
        self._set_full(session)
        session.claim_place()

    async def serve(
        self,
        attached: AttachedEngine,
        receive: Receive,
        send: Send,
        extension: dict[str, Any],
        *,
        comes_back: bool | None = None,
    ) -> int:
        """Serve a client of an engine by messages of an ASGI WebSocket; return the close code.

        `comes_back` is None for a WebSocket; for another client, whether it can come back for its
        run. Such a client gets its hello without a look at the engine, which follows before its
        answer anyway.
        """
        stored = self._opening_store is not None and self._opening_store.done()
        if comes_back is None or not (stored and attached.opened):
            await self._open_for(attached)
        session = self._begin_session(attached, comes_back)
        sender = _Sender(session, send, extension, self._turns)
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
                    self._set_full(session)
                frame = message.get("text")
                frame = frame if frame is not None else message.get("bytes") or b""
                asked = resumes(frame)
                problem = await self.store.find(*asked) if asked is not None else None
                if problem is not None:
                    session.refuse(wire.ENGINE_DOWN, problem)
                    continue
                before = session.run
                tasks = session.receive(frame, clock())
                now = session.run
                if now is not None and now is not before and not tasks:
                    self.metrics.resumes.inc()
                    report("run_resumed", run=short_id(now.id))
                for word, run in tasks:
                    self._run_task(word, run, attached)
                del message, frame, tasks  # a frame may have a mebibyte
                sender.wake()
        finally:
            waiting.cancel()
            writer.cancel()
            code = self._end_session(session, attached, code)
        return code

    def _begin_session(self, attached: AttachedEngine, comes_back: bool | None) -> ServerSession:
        """Begin the session of a client of an engine."""
        chosen = "" if attached is self.first else attached.name  # the first one needs no name
        session = ServerSession(self.store.runs, attached.hello(), engine=chosen)
        self._set_full(session)
        session.has_place = session.full is None
        self._sessions[session] = comes_back
        if self.draining and comes_back is None:
            _dismiss(session)  # it came while the bridge was still open
        return session

    def _end_session(self, session: ServerSession, attached: AttachedEngine, code: int) -> int:
        """End the session of a client that is gone; return its close code."""
        if session.closing and session.closing[0] == wire.BUSY:
            self.metrics.refused.labels(str(wire.BUSY)).inc()
        self._sessions.pop(session, None)
        # If the server closed the socket, the client did not cancel its run.
        for word, run in session.lost(1006 if session.closing else code, clock()):
            self._run_task(word, run, attached)
        return session.closing[0] if session.closing else code

    async def _open_for(self, attached: AttachedEngine) -> None:
        """Open the store and look at an engine, for a client that waits."""

        async def open_both() -> None:
            await self._open_store()
            await attached.open()

        # A client that resumes reads a log, and must not wait for an engine that hangs.
        seconds = LOOK_SECONDS if attached.opened else HELLO_SECONDS
        if not await _within(seconds, open_both()) and not attached.opened:
            attached.down = "The engine has not started yet, so its vocabulary is unknown."

    def _run_task(self, word: str, run: Run, attached: AttachedEngine) -> None:
        if word == "cancel":
            return self._cancel(run)
        try:
            request = read_request(run.request)
            run.request = {}  # the log is kept for much longer than the prompt is needed
            engine = attached.engine_of(request)
        except EngineError as error:
            run.request = {}
            return run.log.fail(error.code, str(error), retry=error.retry)
        starting = asyncio.create_task(self._start(run, request, attached, engine))
        self._starting[starting] = None
        starting.add_done_callback(self._starting.pop)

    async def _start(
        self, run: Run, request: Request, attached: AttachedEngine, engine: Engine
    ) -> None:
        if await self.store.claim(run) and run.log.end is None:
            attached.answer(
                run, request, engine, self.metrics, continue_seconds=self.continue_seconds
            )

    def _cancel(self, run: Run) -> None:
        if self.store.cancel(run):
            self._stop(run)

    def _stop(self, run: Run) -> None:
        """Stop the engine of a run."""
        for attached in self.engines:
            if run in attached.jobs:
                attached.jobs[run].cancel()

    async def _expire_runs(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            for run in self.store.expire(clock()):
                if not run.reader.done:
                    report("run_expired", run=short_id(run.id), positions=run.log.position)
                self._cancel(run)


def _dismiss(session: ServerSession) -> None:
    """Send a client to another replica."""
    session.closing = session.closing or (1012, STOPPING)
    session.wake()


async def _within(seconds: float, work: Awaitable[None]) -> bool:
    """Wait for `work`, at most `seconds`. Return whether it is done."""
    try:
        await asyncio.wait_for(work, seconds)
    except TimeoutError:
        return False
    return True


def _close(code: int, reason: str) -> dict[str, Any]:
    return {"type": "websocket.close", "code": code, "reason": reason}


class _Turns:
    """Numbers the turns of the event loop in which something is written. One callback ends a turn
    for all sessions: a callback for each token would take a tenth of the token's time.
    """

    def __init__(self) -> None:
        self.number: int = 0
        self._ending = False

    def write(self) -> int:
        """Return the number of this turn, which ends after the callbacks that wait already."""
        if not self._ending:
            self._ending = True
            asyncio.get_running_loop().call_soon(self._end)
        return self.number

    def _end(self) -> None:
        self._ending = False
        self.number += 1


class _Sender:
    """Sends the frames of a session: the first data of a turn of the event loop at once, and what
    else comes in that turn together, when the turn ends. Frames that cannot be written at once are
    sent as fast as the peer reads.
    """

    def __init__(
        self, session: ServerSession, send: Send, extension: dict[str, Any], turns: _Turns
    ) -> None:
        self._session = session
        self._send = send
        self._can_write: Callable[[], bool] = extension.get("can", lambda: False)
        self._write: Callable[[list[str | bytes]], None] | None = extension.get("write")
        self._woken = asyncio.Event()
        self._sending = False
        self._turns = turns
        self._wrote_in = -1  # the last turn in which this sender has written
        self._has_more = False  # since then
        session.wake = self.wake

    def wake(self) -> None:
        """Send what there is."""
        if self._wrote_in == self._turns.number:
            if not self._has_more:
                self._has_more = True
                asyncio.get_running_loop().call_soon(self._send_more)
        elif self._write is None or self._sending or self._session.closing or not self._can_write():
            self._woken.set()
        elif frames := self._session.frames():
            self._wrote_in = self._turns.write()
            self._write(frames)

    def _send_more(self) -> None:
        self._has_more = False
        self.wake()

    async def run(self) -> None:
        """Send what could not be sent at once, and close the socket."""
        session = self._session
        while True:
            self._woken.clear()
            # uvicorn's send waits while the socket's buffer is full, so at most one window of
            # credit is queued for a slow reader.
            self._sending = True
            for frame in session.frames():
                kind = "text" if isinstance(frame, str) else "bytes"
                await self._send({"type": "websocket.send", kind: frame})
            self._sending = False
            if session.closing:
                return await self._send(_close(*session.closing))
            await self._woken.wait()
