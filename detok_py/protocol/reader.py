"""The reader of a run: one session at a time, which reads as far as its client gives credit.

In: a session, and what its client acknowledges. Out: how far the engine may write and the session
may read. Held: the session, or the time when the last one was lost; and which attempts to read are
older than the last one.
"""

from typing import Any, Callable, NamedTuple

from .log import Log, do_nothing

# One request of a client for a run: which of its sessions asks (`reader`, a random id), and the
# number of this request (`number`), 1 for the first. A client that sends neither has ("", 0).
Attempt = NamedTuple("Attempt", [("reader", str), ("number", int)])
ANYONE = Attempt("", 0)
MAX_READERS = 32  # that a run remembers


class Attempts:
    """The attempts to read one run, to tell an older one that arrives late from a newer one.

    Attempts of one session are ordered by their numbers. A session that was followed by another one
    is older for good. An attempt without an id is always new.

    >>> attempts = Attempts()
    >>> attempts.add(Attempt("page", 2))
    >>> attempts.are_after(Attempt("page", 1)), attempts.are_after(Attempt("page", 2))
    (True, False)
    >>> attempts.add(Attempt("page reloaded", 1))
    >>> attempts.are_after(Attempt("page", 3))
    True
    """

    def __init__(self) -> None:
        self.last: Attempt = ANYONE
        self._earlier: list[str] = []

    def are_after(self, attempt: Attempt) -> bool:
        """Return whether an attempt is older than the last one."""
        if attempt.reader == self.last.reader:
            return attempt.number < self.last.number
        return attempt.reader != "" and attempt.reader in self._earlier

    def lack(self, attempt: Attempt) -> bool:
        """Return whether the session of an attempt is not known."""
        return attempt.reader not in ["", self.last.reader] + self._earlier

    def learn(self, readers: list[str], number: int) -> None:
        """Learn the sessions that another server knows, the latest last, and its last number."""
        latest = readers[-1]
        if self.last == ANYONE and not self._earlier:
            self.last = Attempt(latest, number)
        elif latest == self.last.reader:
            self.last = Attempt(latest, max(number, self.last.number))
        known = self._earlier + [self.last.reader]
        new = [reader for reader in readers[:-1] if reader not in known]
        self._earlier = (new + self._earlier)[-MAX_READERS:]

    def add(self, attempt: Attempt) -> None:
        """Add the newest attempt."""
        if attempt.reader != self.last.reader:
            self._earlier = (self._earlier + [self.last.reader])[-MAX_READERS:]
        self.last = attempt


class Reader:
    """The place of the session that reads a run, and its client's credit.

    `session` is the session that reads the run, or None; `detached_at` is the time when the last
    one was lost. `attempts` orders the requests to read it. `done` is true if the client needs
    nothing more of the run. `model` is the vocabulary or model that the client's hello named. The
    reader calls `wake`, which the engine's job sets, when there may be credit again. It calls
    `moved`, which a store that shares runs sets, after each acknowledgement and for each new
    session; the argument says whether the session is new.
    """

    def __init__(self, log: Log, window: dict[str, int]) -> None:
        self.session: Any = None
        self.attempts: Attempts = Attempts()
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

    def take(self, session: Any, after: int, attempt: Attempt = ANYONE) -> None:
        """Read the run for a session from now on."""
        new = session is not self.session
        self.attempts.add(attempt)
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
