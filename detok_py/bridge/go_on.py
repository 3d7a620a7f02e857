"""Continue an answer whose engine was lost in the middle: `detok serve --continue`.

In: an engine, a request, and the ids of the answer so far. Out: the chunks of one answer, across
restarts of the engine. When the engine is back, it gets the ids of the prompt and of the answer so
far, and generates the rest. A note in the End says where it was lost.

At temperature 0 the text equals that of an undisturbed answer, if the engine computes the same from
ids that it reads at once as from ids that it generates one by one. Otherwise only the beginning is
the same.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from ..protocol import wire
from .engines import (
    Chunk,
    ContextFull,
    End,
    Engine,
    EngineError,
    Ids,
    ModelChanged,
    Prompt,
    Raw,
    Request,
)
from .recover import Known, Recovery, Unknown
from .store import clock

PAUSE_SECONDS = 0.25
# After so many losses, the engine is considered broken.
MAX_TIMES = 16


class Answered:
    """The ids of an answer so far. `ended` is true if the last id ends the answer; `known` is false
    once the ids of a chunk were unknown.

    >>> answered = Answered([5])
    >>> answered.add(Ids([7, 8])), answered.add(Raw(b"x", 1, 9)), answered.ids, answered.known
    (None, None, [5, 7, 8, 9], True)
    >>> answered.add(Raw(b"text")), answered.known
    (None, False)
    """

    def __init__(
        self, ids: list[int] | None = None, *, end_ids: frozenset[int] = frozenset()
    ) -> None:
        self.ids: list[int] = list(ids or ())
        self.known: bool = True
        self.ended: bool = False
        self._end_ids = end_ids

    def add(self, chunk: Chunk) -> None:
        """Add the ids of a chunk."""
        if isinstance(chunk, Ids):
            self.ids += chunk.ids
            self.ended = chunk.ends
        elif isinstance(chunk, Raw) and chunk.last_id is not None and chunk.tokens == 1:
            self.add_recovered([Known(chunk.last_id, chunk.data)])
        elif isinstance(chunk, Raw):
            self.add_recovered([Unknown(chunk.tokens, chunk.data)])

    def add_recovered(self, parts: list[Known | Unknown]) -> None:
        """Add the ids of a chunk that were recovered from its bytes."""
        for part in parts:
            if isinstance(part, Known):
                self.ids.append(part.id)
                self.ended = part.id in self._end_ids
            else:
                self.known = False


async def going_on(
    engine: Engine,
    request: Request,
    answered: Answered,
    again: Callable[[], Awaitable[None]],
    *,
    seconds: float,
    recovery: Recovery | None = None,
) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of an answer, however often its engine is lost.

    The caller adds each chunk to `answered` before it asks for the next. `again` looks for the
    engine, and raises EngineError while it is not back. After `seconds` without it, or if the
    engine has another model, the EngineError is raised here.
    """
    places: list[int] = [len(answered.ids)] if answered.ids else []
    lost_at: float | None = None
    lost: EngineError | None = None
    while True:
        left = request.sampling.max_tokens - len(answered.ids)
        if places and (answered.ended or left < 1):
            yield End("eos" if answered.ended else "length", note_of(places))
            return
        rest = request._replace(
            sampling=request.sampling._replace(max_tokens=max(1, left)),
            answered=tuple(answered.ids),
        )
        try:
            if lost is not None:
                await again()
            async with aclosing(engine.generate(rest)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, End):
                        yield _marked(chunk, places)
                        return
                    if not isinstance(chunk, Prompt):  # a Prompt proves nothing about the answer
                        lost = lost_at = None
                    yield _without(chunk, rest.answered)
            raise EngineError("The engine's stream ended without an end event.")
        except ContextFull:
            if not answered.ids:
                raise  # the prompt alone is too long
            yield End("length", note_of(places))  # the answer so far has filled the context
            return
        except EngineError as error:
            lost, now = error, clock()
        lost_at = now if lost_at is None else lost_at
        if not _is_lost(lost) or now - lost_at >= seconds or len(places) >= MAX_TIMES:
            raise lost
        if not answered.known:
            raise EngineError(
                f"{lost} It can't go on, because some ids of the answer are not known.",
                code=lost.code,
            )
        if len(answered.ids) not in places:
            places.append(len(answered.ids))
        if recovery is not None:
            recovery.restart()
        await asyncio.sleep(PAUSE_SECONDS)


def note_of(places: list[int]) -> str:
    """Return the sentence that says where an answer went on.

    >>> note_of([1, 57])
    'The engine was lost after token 1 and after token 57; the answer went on from there when it was
    back.'
    """
    after = " and ".join([f"after token {place}" for place in places])
    return f"The engine was lost {after}; the answer went on from there when it was back."


def _without(chunk: Chunk, answered: tuple[int, ...]) -> Chunk:
    """Return a chunk; a prompt without the answer so far, with whose ids it ends."""
    if answered and isinstance(chunk, Prompt) and isinstance(chunk.read, list):
        return Prompt(chunk.read[: -len(answered)])
    return chunk


def _marked(end: End, places: list[int]) -> End:
    if not places:
        return end
    note = " ".join([note_of(places), *([end.note] if end.note else [])])
    return End(end.reason, note)  # without its counts, which are of the last part only


def _is_lost(error: EngineError) -> bool:
    """Return whether the engine may come back as it was."""
    return error.retry and error.code == wire.ENGINE_DOWN and not isinstance(error, ModelChanged)
