"""The reader of a run: one session at a time, which reads as far as its client gives credit.

In: a session, and what its client acknowledges. Out: how far the engine may write and the session
may read. Held: the session, or the time when the last one was lost.
"""

from typing import Any, Callable

from .log import Log, do_nothing


class Reader:
    """The place of the session that reads a run, and its client's credit.

    `session` is the session that reads the run, or None; `detached_at` is the time when the last
    one was lost. `done` is true if the client needs nothing more of the run. `model` is the
    vocabulary or model that the client's hello named. The reader calls `wake`, which the engine's
    job sets, when there may be credit again. It calls `moved`, which a store that shares runs sets,
    after each acknowledgement and for each new session; the argument says whether the session is
    new.
    """

    def __init__(self, log: Log, window: dict[str, int]) -> None:
        self.session: Any = None
        self.detached_at: float | None = None
        self.done: bool = False
        self.model: str | None = None
        self.wake: Callable[[], None] = do_nothing
        self.moved: Callable[[bool], None] | None = None
        self._window = window
        self.follow(log)

    def follow(self, log: Log) -> None:
        """Read another log from now on."""
        self.log = log
        log.changed = self._wake_session

    @property
    def limit(self) -> int:
        """The position that credit reaches to."""
        return self.log.acked + self._window[self.log.unit]

    @property
    def has_credit(self) -> bool:
        """Whether the engine may write more."""
        return self.log.position < self.limit

    def take(self, session: Any, after: int) -> None:
        """Read the run for a session from now on."""
        new = session is not self.session
        self.session = session
        self.detached_at = None
        self.done = False
        self._move(after, new)

    def release(self, now: float) -> None:
        """Note that no session reads the run."""
        self.session = None
        self.detached_at = now

    def acknowledge(self, n: int) -> None:
        """Note that the client has the data before `n`."""
        self._move(n, False)

    def _move(self, n: int, new: bool) -> None:
        self.log.acknowledge(n)
        self.wake()
        if self.moved is not None:
            self.moved(new)

    def _wake_session(self) -> None:
        if self.session is not None:
            self.session.wake()
