"""Runs, and how long a server keeps them.

A run is one generation: its log, and the reader of the log. It outlives its socket: another socket
can continue it.
"""

import hashlib
import json
from typing import Any

from .events import WINDOW
from .log import MAX_LOG, Log
from .reader import Reader

KEEP_SECONDS = 60
MAX_PENDING = 16 << 20  # characters of the requests of all runs that have not ended


class Run:
    """One generation. Its engine writes to `log` while `reader.has_credit`, so nothing is dropped
    for a slow client.

    The program may empty `request` after reading it; `digest` recognises a repeated request.
    `weight` is the size of the request in characters.
    """

    def __init__(
        self,
        run_id: str,
        request: dict[str, Any],
        *,
        window: dict[str, int] | None = None,
        max_log: int = MAX_LOG,
        base: int = 0,
        codec: Any = None,
    ) -> None:
        self.id = run_id
        self.request = request
        self.digest: str = request_digest(run_id, request)
        self.weight = 0
        self.log: Log = Log(max_size=max_log, base=base, codec=codec)
        self.reader: Reader = Reader(self.log, window or WINDOW)


class Runs:
    """The runs that a server keeps: all with a client, and for `keep_seconds` those without one.

    Runs whose client has received the end are kept too, because a page may be reloaded just then.
    Bounds: at most `max_runs` without a client, and at most `max_log` bytes of runs that were
    received to their end. Beyond the bounds, runs that were received to their end are dropped
    first, then others without a client; in each group, those that have been without a client for
    longest. Requests of runs that have not ended may have `max_pending` characters in all; further
    requests are refused. `codec`, such as zlib, compresses what was acknowledged.
    """

    def __init__(
        self,
        *,
        keep_seconds: float = KEEP_SECONDS,
        max_runs: int = 256,
        max_log: int = MAX_LOG,
        max_pending: int = MAX_PENDING,
        window: dict[str, int] | None = None,
        codec: Any = None,
    ) -> None:
        self.codec = codec
        self.keep_seconds = keep_seconds
        self.max_runs = max_runs
        self.max_log = max_log
        self.max_pending = max_pending
        self.window: dict[str, int] = dict(window or WINDOW)
        self.by_id: dict[str, Run] = {}

    @property
    def pending(self) -> int:
        """The characters of the requests of all runs that have not ended."""
        return sum([run.weight for run in self.by_id.values() if run.log.end is None])

    def create(self, run_id: str, request: dict[str, Any], *, base: int = 0) -> Run:
        """Begin a run. Its log begins at `base`."""
        bounds: Any = {"window": self.window, "max_log": self.max_log, "codec": self.codec}
        run = Run(run_id, request, base=base, **bounds)
        self.by_id[run_id] = run
        return run

    def drop(self, run: Run) -> None:
        """Drop a run. It cannot be resumed after this."""
        self.by_id.pop(run.id, None)

    def expire(self, now: float) -> list[Run]:
        """Drop and return the runs that are over a bound; the program stops their engines."""
        gone = self.over_bounds(list(self.by_id.values()), now)
        for run in gone:
            self.drop(run)
        return gone

    def over_bounds(self, runs: list[Run], now: float) -> list[Run]:
        """Return the runs, among these, that exceed a bound."""
        away = [run for run in runs if run.reader.detached_at is not None]
        away.sort(key=lambda run: (not run.reader.done, run.reader.detached_at or 0.0))
        too_many = len(away) - self.max_runs
        done_bytes = sum([run.log.size for run in away if run.reader.done])
        gone: list[Run] = []
        for run in away:
            done = run.reader.done
            too_large = done and done_bytes > self.max_log
            too_old = now - (run.reader.detached_at or 0.0) >= self.keep_seconds
            if len(gone) < too_many or too_large or too_old:
                gone.append(run)
                done_bytes -= run.log.size if done else 0
        return gone


def request_digest(run_id: str, request: dict[str, Any]) -> str:
    """Return a digest by which two requests are compared. It is keyed with the run id, a secret."""
    return hashlib.sha256(f"{run_id}\n{json.dumps(_in_order(request))}".encode()).digest().hex()


def _in_order(value: Any) -> Any:
    """Return a value of JSON whose keys are sorted: a page may ask in Pyodide, and after a reload
    in MicroPython, whose dicts have another order (and whose json knows no `sort_keys`).

    >>> _in_order({"b": [{"d": 1, "c": 2}], "a": None})
    [['a', None], ['b', [[['c', 2], ['d', 1]]]]]
    """
    if isinstance(value, dict):
        return [[key, _in_order(value[key])] for key in sorted(value)]
    return [_in_order(one) for one in value] if isinstance(value, list) else value
