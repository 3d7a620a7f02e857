"""One engine of the bridge: its state, its vocabulary, and the runs that it writes.

In: an engine. Out: the `hello` of its clients, and jobs that write its answers to runs. An engine
may be restarted with another model at any time. `open` notices that, and every client, run and
request calls it.
"""

import asyncio
import functools
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from ..decode.format_channels import marker_tokens
from ..decode.vocabulary import Vocabulary
from ..formats.find import find_format
from ..protocol import wire
from ..protocol.runs import Run
from ..protocol.server import model_of
from .engines import Engine, EngineError, Info, Request
from .engines.scripted import ScriptedEngine
from .jobs import Work, begins_in, carries, fault_of, run_job
from .metrics import Metrics
from .recover import Recovery
from .store import clock

log: logging.Logger = logging.getLogger("detok.bridge")
# Seconds between two searches for a vocabulary that was not found.
FIND_SECONDS = 60.0
MAX_NAME = 1000


def report(event: str, **fields: Any) -> None:
    """Log an event with numbers. Never pass a prompt, a text, a token or a run id."""
    log.info(event, extra={"fields": fields})


def short_id(run_id: str) -> str:
    """Return the name of a run in logs: whoever knows it cannot resume the run. It is the same at
    every replica.

    >>> short_id("0123456789abcdef")
    '71c9db6e'
    """
    return hashlib.sha256(f"log {run_id}".encode()).hexdigest()[:8]


class AttachedEngine:
    """An engine with the name by which clients choose it.

    `vocabulary` and `encode` come from `--tokenizer`; by default `find_vocabulary` gets them from
    the engine. The scripted engine, which streams a client's own text, cuts the text into tokens
    with them. `jobs` has the task that writes each run. `forget` drops a run; the bridge sets it.
    """

    def __init__(
        self,
        name: str,
        engine: Engine,
        *,
        vocabulary: Vocabulary | None = None,
        encode: Callable[[str], list[int]] | None = None,
        find_vocabulary: Callable[
            [Engine], Awaitable[tuple[Vocabulary, Callable[[str], list[int]] | None] | None]
        ]
        | None = None,
    ) -> None:
        self.name = name
        self.engine = engine
        self.vocabulary = vocabulary
        self.scripted: ScriptedEngine = ScriptedEngine(lambda: self.vocabulary, encode)
        self.opened: bool = False
        self.down: str | None = None
        self.refused: str | None = None
        self.jobs: dict[Run, asyncio.Task[None]] = {}
        self.forget: Callable[[Run], None] = lambda run: None
        self._given = vocabulary
        self._find_vocabulary = find_vocabulary
        self._identity: str | None = None
        # Why the engine refused the vocabulary, and when.
        self._refusal: tuple[str | None, float] = (None, 0.0)
        self._failure: EngineError | None = None
        self._opening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the engine, and find its vocabulary if it has another model than before. Concurrent
        callers share one attempt.

        If the engine is down, `self.down` says why; a later call tries again.
        """
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._look_at_engine())
        await asyncio.shield(self._opening)

    async def _look_at_engine(self) -> None:
        try:
            await self.engine.open()
            if await self._is_another_model():
                identity = self.engine.info().identity
                await self._find()
                self._identity = identity
                self.opened = True
            self.down = self._failure = None
        except EngineError as error:
            self.down, self._failure = str(error), error
        except Exception as error:
            # A response that no adapter expects. The place in the code is logged, not the content.
            log.error("engine_fault", extra={"fields": fault_of(error)})
            self._failure = EngineError(
                "The engine's answers have a shape that detok does not know; check that it is the engine you meant, and its version.",
                retry=False,
            )
            self.down = str(self._failure)

    async def _sample(self) -> str | None:
        """Let the engine tokenize a sample. Return why it refuses the vocabulary, or None."""
        if self.vocabulary is None:
            return None
        return await self.engine.refuse_vocabulary(self.vocabulary)

    async def _is_another_model(self) -> bool:
        if not self.opened or self.engine.info().identity != self._identity:
            return True
        refusal, found_at = self._refusal
        if self.vocabulary is None:
            # The files that the engine refused, or the engine, may have changed since.
            there = self._find_vocabulary is not None and hasattr(self.engine, "model_path")
            return there and clock() > found_at + FIND_SECONDS
        try:
            return (await self._sample() is None) != (refusal is None)
        except EngineError:
            return False  # still unknown

    async def _find(self) -> None:
        """Find the vocabulary of the engine's model, or compare the given one with it."""
        vocabulary, encode = self._given, self.scripted.encode
        if vocabulary is None and self._find_vocabulary is not None:
            vocabulary, encode = await self._find_vocabulary(self.engine) or (None, None)
        if vocabulary is not None:
            await asyncio.to_thread(
                lambda: vocabulary.sha256
            )  # cached; the first use packs all tokens
        self.vocabulary, self.scripted.encode = vocabulary, encode
        refusal = await self._sample()
        self._refusal = (refusal, clock())
        self.refused = None
        if self._given is not None and refusal is not None:
            self.refused = f"The given tokenizer does not match the engine: {refusal}; pass the engine's own tokenizer, or none."
        for run, job in list(self.jobs.items()):
            if run.log.data not in ("", "bytes") and self._refuse_ids(run):
                job.cancel()

    def _refuse_ids(self, run: Run) -> bool:
        """End a run if its client knows another vocabulary than the engine has. Return whether it
        was ended.
        """
        hello = self.hello()
        if self.refused is not None:
            run.log.fail(wire.VOCABULARY_MISMATCH, self.refused)
            return True
        now = model_of(hello)
        if run.reader.model == now:
            return False
        if run.reader.model is None:
            # The client came while the engine was down. It reconnects, and gets another hello.
            session = run.reader.session
            if session is not None:
                session.closing = (1012, "the engine has started")
                session.wake()
            self.forget(run)
        vocabulary = hello.get("vocabulary")
        has = f"vocabulary {vocabulary['sha256']}" if vocabulary else f"model {now}"
        run.log.fail(
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

    def engine_of(self, request: Request) -> Engine:
        """Return the engine for a request: this one, or the scripted one. Raises EngineError for
        the name of another engine.
        """
        name = request.params.get("engine")
        if name not in (None, "scripted", self.name, self.engine.info().name):
            raise EngineError(
                f'There is no such engine here; expected "{self.name}" or "scripted".',
                code=wire.NO_SUCH_ENGINE,
                retry=False,
            )
        return self.scripted if name == "scripted" else self.engine

    def answer(
        self,
        run: Run,
        request: Request,
        engine: Engine,
        metrics: Metrics,
        *,
        continue_seconds: float,
    ) -> None:
        """Begin to write the answer to a request."""

        async def ready(run: Run, request: Request) -> Vocabulary | None:
            return await self._ready(run, request, engine)

        def begins(prompt: list[int] | str) -> str:
            return begins_in(prompt, self.vocabulary, self.chat_format)

        work = Work(engine, ready, _recovery_table, begins, metrics.of(self.name), continue_seconds)
        report("run_started", run=short_id(run.id), engine=self.name)
        job = asyncio.create_task(run_job(run, request, work))
        self.jobs[run] = job
        job.add_done_callback(lambda _: self._job_ended(run))

    def _job_ended(self, run: Run) -> None:
        self.jobs.pop(run, None)
        end = run.log.end or {}
        report(
            "run_ended",
            run=short_id(run.id),
            engine=self.name,
            kind=end.get("type"),
            reason=end.get("reason"),
            code=end.get("code"),
            positions=run.log.position,
        )
        if end.get("code") == wire.ENGINE_DOWN and self._identity is None:
            self.opened = False  # it may come back with another model without notice

    @property
    def chat_format(self) -> str | None:
        """The name of the model's chat format, found from the engine's chat template, else from its
        vocabulary.
        """
        return format_of(getattr(self.engine, "chat_template", None), self.vocabulary)

    @property
    def unready(self) -> str | None:
        """Why the engine cannot answer now, in one sentence, or None."""
        return self.down or (None if self.opened else "The engine has not started yet.")

    async def stop(self) -> None:
        """Cancel the jobs and wait for them. After that, all runs have an end, and the engine can
        be closed.
        """
        tasks = [job for job in (self._opening, *self.jobs.values()) if job is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def info(self) -> dict[str, Any]:
        """Return the engine's fields for `hello` and `/info`."""
        info: Info = self.engine.info()
        return {
            "name": info.name,
            "fidelity": info.fidelity,
            "device": plain(info.device),
            "model": plain(info.model),
            "line": plain(info.line),
            "down": self.down,
        }

    def hello(self) -> dict[str, Any]:
        """Return the fields of `hello`."""
        out: dict[str, Any] = {"engine": self.info()}
        if (chat_format := self.chat_format) is not None:
            out["chat_format"] = chat_format
        if self.vocabulary is not None:
            sha256 = self.vocabulary.sha256
            out["vocabulary"] = {
                "sha256": sha256,
                "size": len(self.vocabulary),
                "url": f"/vocabulary/{sha256}.detok",
            }
        return out


def format_of(template: Any, vocabulary: Vocabulary | None) -> str | None:
    """Return the name of the chat format found from a chat template, else from a vocabulary.

    >>> format_of("{{ '<seed:tool_call>' }}", None), format_of(None, None)
    ('seed_oss', None)
    """
    found = _written_by(template, vocabulary) if isinstance(template, str) and template else None
    return found or (None if vocabulary is None else vocabulary.chat_format)


@functools.lru_cache(maxsize=4)
def _written_by(template: str, vocabulary: Vocabulary | None) -> str | None:
    tokens = {} if vocabulary is None else marker_tokens(vocabulary)
    found = find_format(template, lambda spelling: spelling.encode() in tokens)
    return None if found is None else found.name


def plain(said: Any) -> str | None:
    """Return an engine's text about itself, in a form that every client can read.

    >>> plain("qwen\\ud800"), plain(7), plain(None)
    ('qwen?', '7', None)
    """
    return None if said is None else str(said)[:MAX_NAME].encode("utf-8", "replace").decode()


_RECOVERY_TABLES: WeakKeyDictionary[Vocabulary, dict[bytes, list[int]]] = WeakKeyDictionary()


def _recovery_table(vocabulary: Vocabulary) -> dict[bytes, list[int]]:
    """Return the table for recovering ids; making it takes a second."""
    if vocabulary not in _RECOVERY_TABLES:
        _RECOVERY_TABLES[vocabulary] = Recovery.table(vocabulary)
    return _RECOVERY_TABLES[vocabulary]
