"""The connection to Redis: its scripts, and whether Redis can be reached."""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..errors import DetokError
from . import redis_scripts as scripts
from .store import Counts, clock

log: logging.Logger = logging.getLogger("detok.bridge")

# How long commands may fail before runs go on without Redis.
PATIENCE_SECONDS = 0.5
TIMEOUT_SECONDS = 1.0
# A refusal counts for so long: a replica without runs may not write, and not learn that it can.
REFUSAL_SECONDS = 10.0

# Redis does nothing else while a script runs: about 8 µs for each run.
MOST_RUNS = 64

Call = tuple[str, tuple[Any, ...]]  # the tag of a run, and the arguments of a script for it


class Times(NamedTuple):
    """Seconds: `lease`, how long a lease lasts if it is not renewed; `grace`, how long after a
    start Redis gets no new runs; `poll`, how often leases are checked; `ttl`, how long keys live
    without a reader.
    """

    lease: float
    grace: float
    poll: float
    ttl: int


class StoreError(DetokError):
    """The store cannot be used."""


class Link:
    """A pool of connections to one Redis. `errors` are what its commands raise. `here` is not set
    before the first connection, nor once commands have failed, or Redis has refused to write, for
    `PATIENCE_SECONDS`; `on_change` is called when it changes. `refused` is true if Redis refused
    the password of the last attempt, `reached` once it has answered. The password is that of the
    address, or else that of the environment: other users of a machine can read a command line.
    """

    def __init__(self, url: str, times: Times) -> None:
        self.times = times
        try:
            import redis.asyncio as client
            from redis.exceptions import AuthenticationError, NoScriptError, ResponseError
        except ImportError:
            raise StoreError(
                "--store needs redis-py; install it with: pip install 'detok_py[serve]'."
            ) from None
        self._no_script = NoScriptError
        self._refusal = ResponseError
        self._wrong_password = AuthenticationError
        self.errors: tuple[type[Exception], ...] = (client.RedisError, OSError, TimeoutError)
        try:
            self.client: Any = client.Redis.from_url(
                url,
                socket_timeout=TIMEOUT_SECONDS,
                socket_connect_timeout=TIMEOUT_SECONDS,
                password=os.environ.get("DETOK_STORE_PASSWORD") or None,
                retry=None,
                max_connections=16,
            )
            # Making a connection, which is not opened here, checks the options of the address.
            self.client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
        except (ValueError, TypeError, client.RedisError) as error:
            raise StoreError(
                f"--store is not the address of a Redis: {error}; expected a form like redis://127.0.0.1:6379/0."
            ) from None
        self.counts: Counts = Counts()
        self.here: asyncio.Event = asyncio.Event()
        self.refused: bool = False
        self.reached: bool = False
        self.on_change: Callable[[], None] = lambda: None
        self._shas = {text: hashlib.sha1(text.encode()).hexdigest() for text in scripts.ALL}
        self._calls = asyncio.Semaphore(8)
        # Since when commands are "failing"; since when those that write are "refused", and when one
        # was "last refused"; since when Redis is "away".
        self._since: dict[str, float] = {}
        self._opened = False

    async def call(self, script: str, calls: Sequence[Call]) -> list[Any]:
        """Run a script for each of several runs, many in one command, because redis-py takes 25 µs
        for the reply of a command. Return the replies. Raises `errors`; Redis may have done some of
        the calls then.
        """
        replies: list[Any] = []
        for start in range(0, len(calls), MOST_RUNS):
            some = calls[start : start + MOST_RUNS]
            keys = [key_of(tag, part) for tag, _ in some for part in PARTS]
            words = [word for _, arguments in some for word in (len(arguments), *arguments)]
            command = ("EVALSHA", self._shas[script], len(keys), *keys, *words)
            async with self._calls:
                begun = clock()
                try:
                    replies += await self.client.execute_command(*command)
                except self._no_script:  # a restarted Redis has forgotten it
                    await self._load_scripts()
                    replies += await self.client.execute_command(*command)
                self.counts.calls += 1
                self.counts.seconds += clock() - begun
            # Others may write nothing, or delete first, after which a full Redis lets them write.
            self.succeeded(wrote=script in (scripts.APPEND, scripts.RESTORE))
        return replies

    async def fields(self, tag: str, *names: str) -> list[Any]:
        """Return fields of a run. Raises `errors`."""
        async with self._calls:
            if self.away:  # as others that waited here have learnt
                raise TimeoutError("Redis is away")
            return list(await self.client.hmget(key_of(tag, "run"), *names))

    async def _load_scripts(self) -> None:
        pipe = self.client.pipeline(transaction=False)
        for script in scripts.ALL:
            pipe.script_load(script)
        await pipe.execute()

    @property
    def away(self) -> bool:
        """Whether Redis cannot be used."""
        return not self.here.is_set()

    def is_long_away(self) -> bool:
        """Return whether Redis has been away for longer than a lease."""
        return self.away and clock() - self._since.get("away", clock()) > self.times.lease

    @property
    def failing(self) -> bool:
        """Whether the last command has failed."""
        return "failing" in self._since or "refused" in self._since

    def succeeded(self, *, wrote: bool) -> None:
        """Note that Redis has answered, and whether it has written what was asked for."""
        self._since.pop("failing", None)
        if wrote:
            self._since.pop("refused", None)

    def failed(self, error: Exception) -> None:
        """Note a failure. After `PATIENCE_SECONDS` of failures, Redis counts as away. One that is
        full, or became a replica, still answers those who read.
        """
        now = clock()
        self.counts.failures += 1
        kind = "refused" if isinstance(error, self._refusal) else "failing"
        if kind == "refused":
            if now - self._since.get("last refused", now) > REFUSAL_SECONDS:
                self._since.pop("refused", None)
            self._since["last refused"] = now
        since = self._since.setdefault(kind, now)
        if not self.away and now - since >= PATIENCE_SECONDS:
            self.here.clear()
            self._since["away"] = now
            log.warning("store_away", extra={"fields": {"kind": type(error).__name__}})
            self.on_change()

    async def connect(self) -> bool:
        """Try to reach Redis; return whether it answers, and writes."""
        try:
            await self._load_scripts()
            await self.client.set("detok:written", "", px=1000)
        except self.errors as error:
            # redis-py reports that it could not connect; the cause is the refused password.
            refused = isinstance(error.__cause__ or error, self._wrong_password)
            if refused and not self.refused:
                log.error("store_refuses_the_password")
            elif not self._opened:
                log.warning("store_away", extra={"fields": {"kind": type(error).__name__}})
            self._opened = True
            self.refused = refused
            return False
        self.refused = False
        self.reached = True
        self.succeeded(wrote=True)
        if self.away:
            self.here.set()
            if self._opened:
                log.warning("store_back")
            await self._check_policy()
            self._opened = True
            self.on_change()
        return True

    async def _check_policy(self) -> None:
        """Warn if Redis evicts keys when its memory is full: answers would end early."""
        with contextlib.suppress(*self.errors):  # this Redis user may not be allowed to ask
            found = await self.client.config_get("maxmemory-policy")
            policy = found.get("maxmemory-policy", found.get(b"maxmemory-policy"))
            if policy is not None and text(policy) != "noeviction":
                fields = {"policy": text(policy), "expected": "noeviction"}
                log.warning("store_may_evict_runs", extra={"fields": fields})

    async def close(self) -> None:
        """Disconnect."""
        with contextlib.suppress(*self.errors):
            await self.client.aclose()


async def woken(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, at most for some seconds, and clear it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()


PARTS = ("run", "log", "asks", "lease")


def key_of(tag: str, part: str) -> str:
    """Return the name of one of a run's keys.

    >>> key_of("ab12", "log")
    'detok:{ab12}:log'
    """
    return f"detok:{{{tag}}}:{part}"


def text(value: Any) -> str:
    """Return a reply of Redis as str."""
    return value.decode() if isinstance(value, bytes) else str(value)
