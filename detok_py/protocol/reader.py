"""Who reads a run: one session at a time, as far as its client gives credit.

In: a session that takes the run, and what its client acknowledges. Out: how far the engine and the
session may go. Held: the session, and since when there is none.
"""

from typing import Any, Callable

from .log import Log, do_nothing


class Reader:
    """Who reads a run, and how much credit the client gives.

    `session` reads the run, or None; `detached_at` is when the last one was lost. `done` is true
    when the client wants nothing more of the run. `model` is what the client was told that its ids
    are of. `wake` is called when credit may have come back; the engine's job sets it. `moved` is
    called with what the client has acknowledged too, and with whether the session is a new one; a
    store that shares runs sets it.
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
        """Whether the engine may go on."""
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
        """Note that the client has everything before `n`."""
        self._move(n, False)

    def _move(self, n: int, new: bool) -> None:
        self.log.acknowledge(n)
        self.wake()
        if self.moved is not None:
            self.moved(new)

    def _wake_session(self) -> None:
        if self.session is not None:
            self.session.wake()
