"""One generation: copies an engine's chunks to a run's log, with backpressure from the client.

In: a Run with its request, and the engine. Out: the run's log, then its end or failure. A run
carries what the client wants as far as the engine provides it, and `started` names what it carries.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ..decode.vocabulary import Vocabulary
from ..errors import DetokError
from ..protocol import wire
from ..protocol.server import Run
from .engines import (
    BYTES,
    IDS,
    Chunk,
    End,
    Engine,
    EngineError,
    Ids,
    ModelChanged,
    Raw,
    Request,
    Sampling,
)
from .go_on import Answered, going_on
from .metrics import Metrics, Stopwatch
from .recover import LONG, Known, Recovery, Unknown

log = logging.getLogger("detok.bridge")

PARAMS = (
    "max_tokens",
    "temperature",
    "seed",
    "top_p",
    "top_k",
    "engine",
    "text",
    "cut",
    "pace",
    "faults",
)
MAX_TOKENS = 1 << 20


def read_request(request: dict[str, Any]) -> Request:
    """Return the checked request of a run.

    Raises EngineError (4400), which names the invalid parameter.
    """
    params = request["params"]
    for name in params:
        if name not in PARAMS:
            raise EngineError(
                f"There is no parameter {name[:40]!r}; expected {', '.join(PARAMS)}.",
                code=wire.BAD_MESSAGE,
                retry=False,
            )
    sampling = Sampling(
        max_tokens=_number(params, "max_tokens", int, 1, MAX_TOKENS) or Sampling().max_tokens,
        temperature=_number(params, "temperature", float, 0, 100),
        seed=_number(params, "seed", int, 0, (1 << 32) - 1),
        top_p=_number(params, "top_p", float, 0, 1),
        top_k=_number(params, "top_k", int, 0, 1 << 20),
    )
    return Request(request["prompt"], request["messages"], sampling, request["want"], params)


def _number(params: dict[str, Any], name: str, kind: type, low: float, high: float) -> Any:
    value = params.get(name)
    if value is None:
        return None
    fits = (
        isinstance(value, int if kind is int else (int, float))
        and not isinstance(value, bool)
        and low <= value <= high
    )
    if not fits:
        raise EngineError(
            f"Parameter {name} must be {'an integer' if kind is int else 'a number'} from {low} to {high}.",
            code=wire.BAD_MESSAGE,
            retry=False,
        )
    return kind(value)


def carries(want: str, gives: str, vocabulary: Vocabulary | None) -> str:
    """Return what a run carries ("ids", "bytes" or "both").

    `want` is what the client wants, `gives` what the engine provides ("ids", "bytes" or "text").

    >>> carries("both", "ids", None), carries("both", "bytes", Vocabulary.from_bytes([b"a"])), carries("ids", "text", None)
    ('ids', 'both', 'bytes')
    """
    if gives == IDS:
        return want if vocabulary is not None else "ids"
    return "both" if want != "bytes" and gives == BYTES and vocabulary is not None else "bytes"


async def run_job(
    run: Run,
    request: Request,
    engine: Engine,
    ready: Callable[[Run, Request], Awaitable[Vocabulary | None]],
    table: Callable[[Vocabulary], dict[bytes, list[int]]],
    metrics: Metrics,
    *,
    continue_seconds: float = 0.0,
) -> None:
    """Copy the chunks of `engine` to `run`. `ready` looks at the engine and returns its vocabulary.
    An engine that is lost is waited for `continue_seconds`, if it can go on with an answer.

    Raises only CancelledError; failures end the run.
    """
    watch = Stopwatch(metrics)
    metrics.running.inc()
    credit = asyncio.Event()
    run.wake = credit.set
    reason = "failed"
    try:
        vocabulary = await ready(run, request)
        if run.end is not None:
            return
        run.start(carries(request.want, engine.gives(request), vocabulary))
        goes_on = continue_seconds > 0 and bool(getattr(engine, "goes_on", False))
        recovers = run.data == "both" or (goes_on and engine.gives(request) == BYTES)
        recovery = (
            Recovery(vocabulary, await asyncio.to_thread(table, vocabulary))
            if recovers and vocabulary is not None
            else None
        )
        answered = Answered(
            list(request.answered), end_ids=vocabulary.eos_ids if vocabulary else frozenset()
        )
        model = engine.info().model

        async def again() -> None:
            now = await ready(run, request)
            sums = [v and v.sha256 for v in (vocabulary, now)]
            if run.end is not None or sums[0] != sums[1] or engine.info().model != model:
                raise ModelChanged("The engine came back with another model in mid-answer.")

        source = (
            going_on(engine, request, answered, again, seconds=continue_seconds, recovery=recovery)
            if goes_on
            else engine.generate(request)
        )
        async with contextlib.aclosing(source) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, End):
                    run.finish(chunk.reason, chunk.note)
                    reason = chunk.reason
                    return
                before = run.position
                if recovery is not None and isinstance(chunk, Raw):
                    # A long search must not hold up the other clients.
                    slow = chunk.tokens > LONG
                    parts = (
                        await asyncio.to_thread(recovery.feed, chunk)
                        if slow
                        else recovery.feed(chunk)
                    )
                    answered.add_recovered(parts)
                    if run.data == "both":
                        write_recovered(run, parts)
                    else:
                        write(run, chunk, vocabulary)
                else:
                    if goes_on:
                        answered.add(chunk)
                    write(run, chunk, vocabulary)
                watch.chunk(run.position - before)
                while not run.has_credit:
                    credit.clear()
                    await credit.wait()
        raise EngineError(
            "The engine's stream ended without an end event; the text so far is kept."
        )
    except asyncio.CancelledError:
        run.finish("cancelled")
        reason = "cancelled"
        raise
    except EngineError as error:
        if isinstance(error, ModelChanged):
            # Looking at the engine ends the runs whose vocabulary it no longer has, this one too.
            with contextlib.suppress(EngineError):
                await ready(run, request)
        run.fail(error.code, str(error), retry=error.retry)
    except DetokError as error:
        run.fail(
            wire.ENGINE_DOWN,
            f"The vocabulary does not match the engine: {error}; start the bridge with the engine's own tokenizer.",
        )
    except Exception as error:
        # A bug in the bridge. Its place is logged, but not its message, which may contain a prompt.
        log.error("job_fault", extra={"fields": fault_of(error)})
        run.fail(
            1011,
            "The bridge failed because of a bug in detok; its log names the place.",
            retry=False,
        )
    finally:
        run.wake = _do_nothing
        metrics.running.dec()
        metrics.requests.labels(reason).inc()


def write(run: Run, chunk: Chunk, vocabulary: Vocabulary | None) -> None:
    """Append a chunk to a run, as ids, bytes or both, whichever the run carries."""
    if isinstance(chunk, Ids) and run.data == "ids":
        run.add_ids(chunk.ids)
    elif isinstance(chunk, Ids) and vocabulary is not None:
        tokens = [(i, vocabulary.token_bytes(i)) for i in chunk.ids]
        if run.data == "both":
            run.add_tokens(tokens)
        else:
            text = tokens[:-1] if chunk.ends else tokens
            run.add_bytes(b"".join([data for _, data in text]))
    elif isinstance(chunk, Raw):
        run.add_bytes(chunk.data)


def write_recovered(run: Run, parts: list[Known | Unknown]) -> None:
    """Append tokens and gaps to a run that carries both."""
    for known, group in itertools.groupby(parts, lambda part: isinstance(part, Known)):
        if known:
            run.add_tokens([(part.id, part.data) for part in group if isinstance(part, Known)])
            continue
        for part in group:
            if isinstance(part, Unknown):
                run.add_gap(part.tokens, part.data)


def fault_of(error: BaseException) -> dict[str, str]:
    """Return the type and the place of an error, for the log."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "?"
    if trace is not None:
        where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
    return {"kind": type(error).__name__, "where": where}


def _do_nothing() -> None:
    pass
