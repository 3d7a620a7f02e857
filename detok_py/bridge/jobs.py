"""One generation: copies an engine's chunks to a run's log, with backpressure from the client.

In: a Run with its request, and the engine. Out: the run's log, then its end or failure. A run
carries ids, bytes or both: what the client wants, as far as the engine provides it. `started` says
which.
"""

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple

from ..decode.detokenizer import MOST_OF_PROMPT, Detokenizer
from ..decode.format_channels import known_format, start_in
from ..decode.vocabulary import Vocabulary
from ..errors import DetokError
from ..protocol import wire
from ..protocol.log import Log, do_nothing
from ..protocol.runs import Run
from .engines import (
    BYTES,
    DEFAULT_MAX_TOKENS,
    IDS,
    LONG_ANSWER,
    BadRequest,
    Chunk,
    End,
    Engine,
    EngineError,
    Ids,
    ModelChanged,
    Prompt,
    Raw,
    Request,
    Sampling,
)
from .engines.text import AROUND
from .go_on import Answered, going_on
from .metrics import EngineMetrics, Stopwatch
from .recover import LONG, Known, Recovery, Unknown

logger: logging.Logger = logging.getLogger("detok.bridge")

MAX_TOKENS = 1 << 20
# The type and the bounds of a parameter.
NUMBERS: dict[str, tuple[type, float, float]] = {
    "max_tokens": (int, 1, MAX_TOKENS),
    "temperature": (float, 0, 100),
    "seed": (int, 0, (1 << 32) - 1),
    "top_p": (float, 0, 1),
    "top_k": (int, 0, 1 << 20),
}
PARAMS = (*NUMBERS, "engine", "text", "cut", "pace", "faults", "tools", "apart")
ALL_THERE_IS = "context"  # a value of `max_tokens`: whatever the engine's context has room for
PROMPT_LETTERS = 4096  # of a prompt's end that are searched for the section it opens


def read_request(request: dict[str, Any]) -> Request:
    """Return the checked request of a run.

    Raises BadRequest, which names the invalid parameter.
    """
    params = request["params"]
    for name in params:
        if name not in PARAMS:
            raise BadRequest(f"There is no parameter {name[:40]!r}; expected {', '.join(PARAMS)}.")
    tools = params.get("tools")
    if tools is not None and not is_list_of_objects(tools):
        raise BadRequest("Parameter tools must be a list of objects.")
    if params.get("apart") not in (None, *AROUND):
        raise BadRequest(f"Parameter apart must be {' or '.join(map(json.dumps, AROUND))}.")
    most = DEFAULT_MAX_TOKENS
    if params.get("max_tokens") == ALL_THERE_IS:
        most = LONG_ANSWER
        params = {name: params[name] for name in params if name != "max_tokens"}
    sampling = Sampling(**{name: read_number(params, name) for name in NUMBERS})
    sampling = sampling._replace(max_tokens=sampling.max_tokens or most)
    return Request(request["prompt"], request["messages"], sampling, request["want"], params)


def is_list_of_objects(value: Any) -> bool:
    """Return whether a value of JSON is a list, perhaps empty, of objects."""
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def read_number(params: dict[str, Any], name: str) -> Any:
    """Return a number of `NUMBERS`, or None if it is not set. Raises BadRequest if it is another
    value.
    """
    kind, low, high = NUMBERS[name]
    value = params.get(name)
    if value is None:
        return None
    if type(value) not in (int, kind) or not low <= value <= high:
        raise BadRequest(
            f"Parameter {name} must be {'an integer' if kind is int else 'a number'} from {low} to {high}."
        )
    return kind(value)


def carries(want: str, gives: str, vocabulary: Vocabulary | None) -> str:
    """Return what a run carries ("ids", "bytes" or "both").

    `want` is what the client wants, `gives` what the engine provides ("ids", "bytes" or "text").

    >>> (
    ...     carries("both", "ids", None),
    ...     carries("both", "bytes", Vocabulary.from_bytes([b"a"])),
    ...     carries("ids", "text", None),
    ... )
    ('ids', 'both', 'bytes')
    """
    if gives == IDS:
        return want if vocabulary is not None else "ids"
    return "both" if want != "bytes" and gives == BYTES and vocabulary is not None else "bytes"


def begins_in(
    prompt: list[int] | str, vocabulary: Vocabulary | None, chat_format: str | None
) -> str:
    """Return the section that the end of a prompt opens: "content", "reasoning" or "header"; "" if
    the prompt is ids and there is no vocabulary.

    >>> begins_in("Hi<|im_end|><|im_start|>assistant<think>", None, None)
    'reasoning'
    """
    if isinstance(prompt, str):
        tail = prompt[-PROMPT_LETTERS:]
    elif vocabulary is None:
        return ""
    else:
        tail = Detokenizer(vocabulary, prompt[-MOST_OF_PROMPT:]).prompt_tail()
    return start_in(tail, known_format(chat_format), (("<think>", "</think>"),))


class Work(NamedTuple):
    """What the jobs of one engine share.

    `ready` checks the engine before an answer, and returns its vocabulary or ends the run. `table`
    returns the table for recovering ids; `begins` is `begins_in` for this engine. A job waits up to
    `continue_seconds` for a lost engine that can continue an answer.
    """

    engine: Engine
    ready: Callable[[Run, Request], Awaitable[Vocabulary | None]]
    table: Callable[[Vocabulary], dict[bytes, list[int]]]
    begins: Callable[[list[int] | str], str]
    metrics: EngineMetrics
    continue_seconds: float = 0.0


async def run_job(run: Run, request: Request, work: Work) -> None:
    """Copy the chunks of an engine to the log of a run.

    Raises only CancelledError; failures end the run.
    """
    log = run.log
    reason = "failed"
    try:
        reason = await _answer(run, request, work, Stopwatch(work.metrics))
    except asyncio.CancelledError:
        log.finish("cancelled")
        reason = "cancelled"
        raise
    except EngineError as error:
        if isinstance(error, ModelChanged):
            # This ends all runs with a vocabulary that the engine no longer has, perhaps this one.
            with contextlib.suppress(EngineError):
                await work.ready(run, request)
        log.fail(error.code, str(error), retry=error.retry, retry_after=error.retry_after)
    except DetokError as error:
        log.fail(
            wire.ENGINE_DOWN,
            f"The vocabulary does not match the engine: {error}; start the bridge with the engine's own tokenizer.",
        )
    except Exception as error:
        # A bug in the bridge. Its place is logged, but not its message, which may contain a prompt.
        logger.error("job_fault", extra={"fields": fault_of(error)})
        log.fail(
            1011,
            "The bridge failed because of a bug in detok; its log names the place.",
            retry=False,
        )
    finally:
        run.reader.wake = do_nothing
        work.metrics.ended(reason)


async def _answer(run: Run, request: Request, work: Work, watch: Stopwatch) -> str:
    """Write an answer with its end; return how it ended. Raises EngineError if the engine fails."""
    credit = asyncio.Event()
    run.reader.wake = credit.set
    vocabulary = await work.ready(run, request)
    log = run.log
    if log.end is not None:
        return "failed"
    answer = _Answer(run, request, work, vocabulary)
    if request.prompt is not None or not getattr(work.engine, "tells_prompt", False):
        answer.start(request.prompt)
    await answer.prepare()
    prompt_tokens = None
    async with contextlib.aclosing(answer.chunks()) as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Prompt) and isinstance(chunk.read, list):
                prompt_tokens = len(chunk.read)
            if not log.data:
                answer.start(chunk.read if isinstance(chunk, Prompt) else None)
            if isinstance(chunk, End):
                read = prompt_tokens if chunk.prompt_tokens is None else chunk.prompt_tokens
                log.finish(chunk.reason, chunk.note, (read, chunk.tokens))
                return chunk.reason
            before = log.position
            await answer.write(chunk)
            if not isinstance(chunk, Prompt):
                watch.chunk(log.position - before)
            while not run.reader.has_credit:
                credit.clear()
                await credit.wait()
                watch.resume()
    raise EngineError("The engine's stream ended without an end event; the text so far is kept.")


class _Answer:
    """The state of an answer that is being written: its ids, as far as they can be recovered."""

    def __init__(
        self, run: Run, request: Request, work: Work, vocabulary: Vocabulary | None
    ) -> None:
        self._run = run
        self._log = run.log  # kept here: a run that loses its lease gets another log
        self._request = request
        self._work = work
        self._vocabulary = vocabulary
        self._data = carries(request.want, work.engine.gives(request), vocabulary)
        self._goes_on = work.continue_seconds > 0 and bool(getattr(work.engine, "goes_on", False))
        self._recovery: Recovery | None = None
        end_ids = vocabulary.eos_ids if vocabulary else frozenset()
        self._answered = Answered(list(request.answered), end_ids=end_ids)

    def start(self, prompt: list[int] | str | None) -> None:
        """Start the log, with the section that the prompt has opened, if that is known."""
        scripted = self._request.params.get("engine") is not None
        begins = "" if prompt is None or scripted else self._work.begins(prompt)
        self._log.start(self._data, begins)

    async def prepare(self) -> None:
        """Make the table for recovering ids, if it is needed."""
        gives = self._work.engine.gives(self._request)
        needed = self._data == "both" or (self._goes_on and gives == BYTES)
        if needed and self._vocabulary is not None:
            table = await asyncio.to_thread(self._work.table, self._vocabulary)
            self._recovery = Recovery(self._vocabulary, table)

    def chunks(self) -> AsyncGenerator[Chunk, None]:
        """Return the chunks of the engine, across its losses."""
        work = self._work
        if not self._goes_on:
            return work.engine.generate(self._request)
        model = work.engine.info().model

        async def again() -> None:
            now = await work.ready(self._run, self._request)
            sums = [v and v.sha256 for v in (self._vocabulary, now)]
            same = sums[0] == sums[1] and work.engine.info().model == model
            if self._log.end is not None or not same:
                raise ModelChanged("The engine came back with another model in mid-answer.")

        return going_on(
            work.engine,
            self._request,
            self._answered,
            again,
            seconds=work.continue_seconds,
            recovery=self._recovery,
        )

    async def write(self, chunk: Chunk) -> None:
        """Append a chunk, with the ids recovered from it."""
        log = self._log
        if self._recovery is None or not isinstance(chunk, Raw):
            if self._goes_on:
                self._answered.add(chunk)
            write(log, chunk, self._vocabulary)
            return
        # A long search must not hold up the other clients.
        parts = (
            await asyncio.to_thread(self._recovery.feed, chunk)
            if chunk.tokens > LONG
            else self._recovery.feed(chunk)
        )
        self._answered.add_recovered(parts)
        if self._data == "both":
            write_recovered(log, parts)
        else:
            write(log, chunk, self._vocabulary)


def write(log: Log, chunk: Chunk, vocabulary: Vocabulary | None) -> None:
    """Append a chunk to a log, as ids, bytes or both, whichever it carries."""
    if isinstance(chunk, Ids) and log.data == "ids":
        log.add_ids(chunk.ids)
    elif isinstance(chunk, Ids) and vocabulary is not None:
        tokens = [(i, vocabulary.token_bytes(i)) for i in chunk.ids]
        if log.data == "both":
            log.add_tokens(tokens)
        else:
            text = tokens[:-1] if chunk.ends else tokens
            log.add_bytes(b"".join([data for _, data in text]))
    elif isinstance(chunk, Raw):
        log.add_bytes(chunk.data)


def write_recovered(log: Log, parts: list[Known | Unknown]) -> None:
    """Append tokens and gaps to a log that carries both."""
    for known, group in itertools.groupby(parts, lambda part: isinstance(part, Known)):
        if known:
            log.add_tokens([(part.id, part.data) for part in group if isinstance(part, Known)])
            continue
        for part in group:
            if isinstance(part, Unknown):
                log.add_gap(part.tokens, part.data)


def fault_of(error: BaseException) -> dict[str, str]:
    """Return the type and the place of an error, for the log."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "?"
    if trace is not None:
        where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
    return {"kind": type(error).__name__, "where": where}
