"""Where a bridge keeps its runs: the interface of a store, and the store in memory.

The bridge uses a store only through `Store`. `MemoryStore` and `RedisStore` (redis_store.py)
implement it, and pass the same tests (tests/bridge/test_stores.py).
"""

import asyncio
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ..errors import RemoteProtocolError
from ..protocol import wire
from ..protocol.reader import Attempt
from ..protocol.runs import Run, Runs
from ..protocol.server import attempt_of


class Counts:
    """What a store has cost: its round trips, their time in seconds, and how many have failed."""

    def __init__(self) -> None:
        self.calls: int = 0
        self.seconds: float = 0.0
        self.failures: int = 0


class StoreState(NamedTuple):
    """What operators see of a store.

    `away` says in a sentence why no run can begin, `unready` why new clients should go to another
    replica. Each is None if there is no such reason.
    """

    counts: Counts
    away: str | None = None
    unready: str | None = None


class Store(Protocol):
    """Keeps runs. `runs` has those that sessions of this process can read now."""

    runs: Runs

    @property
    def state(self) -> StoreState:
        """What the store has cost, and whether it takes new runs and new clients."""

    async def open(self, stop: Callable[[Run], None]) -> None:
        """Open the store. It calls `stop` for a run that another replica has ended, to stop its
        engine.
        """

    async def close(self) -> None:
        """Close the store."""

    async def find(self, run_id: str, after: int, attempt: Attempt) -> str | None:
        """Put a run that a client wants to resume into `runs`. Return a sentence if the client must
        try again later, else None: a run that is not in `runs` then is lost. An older attempt
        leaves what newer ones read as it is.
        """

    async def claim(self, run: Run) -> bool:
        """Return whether this process must start an engine for the run. If not, another replica
        writes it, or its client was refused.
        """

    def cancel(self, run: Run) -> bool:
        """Cancel a run, whichever replica writes it. Return whether this process must stop its
        engine.
        """

    def forget(self, run: Run) -> None:
        """Drop a run. It cannot be resumed after this."""

    def expire(self, now: float) -> list[Run]:
        """Drop the runs that exceed a bound, and return them; the caller stops their engines."""


class MemoryStore:
    """Runs in the memory of a bridge that has no replicas. `bounds` are the options of `Runs`."""

    def __init__(self, **bounds: Any) -> None:
        self.runs: Runs = Runs(codec=zlib, **bounds)
        self.state: StoreState = StoreState(Counts())
        self.forget: Callable[[Run], None] = self.runs.drop
        self.expire: Callable[[float], list[Run]] = self.runs.expire

    async def open(self, stop: Callable[[Run], None]) -> None:
        """Do nothing: the store is always open."""

    async def close(self) -> None:
        """Do nothing."""

    async def find(self, run_id: str, after: int, attempt: Attempt) -> str | None:
        """Return None: all runs are in memory, so none has to be fetched."""
        return None

    async def claim(self, run: Run) -> bool:
        """Return True: no other bridge can write a run."""
        return True

    def cancel(self, run: Run) -> bool:
        """Cancel a run. Return True: its engine is in this process."""
        run.log.finish("cancelled")
        return True


def clock() -> float:
    """Return the time of the running event loop in seconds: in a simulation, simulated time."""
    return asyncio.get_running_loop().time()


def resumes(frame: str | bytes) -> tuple[str, int, Attempt] | None:
    """Return the (run id, position, attempt) of a frame that resumes a run, or None.

    >>> resumes('{"type":"resume","id":"0123456789abcdef","after":3}')
    ('0123456789abcdef', 3, Attempt(reader='', number=0))
    """
    if not isinstance(frame, str) or '"resume"' not in frame:
        return None
    try:
        event = wire.read_message(frame)
        attempt = attempt_of(event)
    except RemoteProtocolError:
        return None
    run_id, after = event.get("id"), event.get("after")
    if event["type"] != "resume" or not isinstance(run_id, str) or type(after) is not int:
        return None
    return (run_id, after, attempt) if 0 <= after <= wire.MAX_ID else None
