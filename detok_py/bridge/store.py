"""Where the runs of a bridge are kept: the interface, and the store in memory.

`Store` is all that the bridge asks of a store; `MemoryStore` and `RedisStore` (redis_store.py) are
the two there are, and one table of tests drives both (tests/bridge/test_stores.py).
"""

import asyncio
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from ..errors import RemoteProtocolError
from ..protocol import wire
from ..protocol.runs import Run, Runs


class Store(Protocol):
    """Keeps runs. `runs` are those that sessions here can read now."""

    runs: Runs

    async def open(self, stop: Callable[[Run], None]) -> None:
        """Begin to work. `stop` stops the engine of a run that has ended elsewhere."""

    async def close(self) -> None:
        """End all work."""

    @property
    def away(self) -> str | None:
        """Why no run can begin, in one sentence, or None."""

    async def find(self, run_id: str, after: int) -> str | None:
        """Fetch a run that a client wants to resume, before a session looks for it in `runs`.
        Return why that is not possible, or None.
        """

    async def claim(self, run: Run) -> bool:
        """Return whether an engine here has to write the run. If not, it is written elsewhere, or
        its client was refused.
        """

    def cancel(self, run: Run) -> bool:
        """Cancel a run, wherever it is written. Return whether its engine is here, and has to be
        stopped.
        """

    def forget(self, run: Run) -> None:
        """Drop a run. It cannot be resumed after this."""

    def expire(self, now: float) -> list[Run]:
        """Drop and return the runs that are over a bound; the program stops their engines."""


class MemoryStore:
    """Runs in the memory of one bridge, which writes all of them. `bounds` are those of `Runs`."""

    def __init__(self, **bounds: Any) -> None:
        self.runs: Runs = Runs(codec=zlib, **bounds)
        self.away: str | None = None
        self.forget: Callable[[Run], None] = self.runs.drop
        self.expire: Callable[[float], list[Run]] = self.runs.expire

    async def open(self, stop: Callable[[Run], None]) -> None:
        """Do nothing: the store is always open."""

    async def close(self) -> None:
        """Do nothing."""

    async def find(self, run_id: str, after: int) -> str | None:
        """Return None: all runs are in memory, so none has to be fetched."""
        return None

    async def claim(self, run: Run) -> bool:
        """Return True: no other bridge can write a run."""
        return True

    def cancel(self, run: Run) -> bool:
        """Cancel a run, whose engine is here."""
        run.log.finish("cancelled")
        return True


def clock() -> float:
    """Return the seconds on the clock of the loop that runs here: a simulation has its own."""
    return asyncio.get_running_loop().time()


def resumes(frame: str | bytes) -> tuple[str, int] | None:
    """Return the (run id, position) that a frame wants to resume, or None.

    >>> resumes('{"type":"resume","id":"0123456789abcdef","after":3}')
    ('0123456789abcdef', 3)
    """
    if not isinstance(frame, str) or '"resume"' not in frame:
        return None
    try:
        event = wire.read_message(frame)
    except RemoteProtocolError:
        return None
    run_id, after = event.get("id"), event.get("after")
    if event["type"] != "resume" or not isinstance(run_id, str) or not isinstance(after, int):
        return None
    return (run_id, after) if 0 <= after <= wire.MAX_ID else None
