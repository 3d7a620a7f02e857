"""A store of runs in Redis or Valkey: any replica of the bridge resumes any run.

In: runs that engines of this replica write, and what its readers ask for. Out: the same runs at
every replica. Held: a copy of each run that is read or written here.

A run has one producer, the replica that claimed its id and holds its lease. It appends the engine's
data to a stream in Redis, the log, and shows it to readers after that (redis_writer.py). A reader
at another replica follows the log. To a second stream it appends what it asks for: its turn,
credit, a cancel (redis_follower.py). If a lease runs out, a reader ends the log.

While Redis is away, runs that are written here go on in memory and are put back afterwards; new
runs are refused. Run ids are secrets, so the names of keys contain a keyed hash of them.
"""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import os
import secrets
import zlib
from collections.abc import Callable, Coroutine
from typing import Any

from ..protocol import wire
from ..protocol.reader import Attempt
from ..protocol.runs import Run, Runs
from . import redis_scripts as scripts
from .jobs import fault_of
from .lease import Lease, SharedRun
from .redis_follower import AWAY, Follower, refuse
from .redis_link import Call, Link, Times, text
from .redis_writer import Writer
from .store import StoreState, clock

log: logging.Logger = logging.getLogger("detok.bridge")

LEASE_SECONDS = 3.0
POLL_SECONDS = 0.5
# Keys live this much longer than clients try to resume.
SPARE_SECONDS = 30
AHEAD_SECONDS = 1.0
CLAIM_PAUSE_SECONDS = 0.1

REFUSED = "The bridge's store wants another user or password than --store or DETOK_STORE_PASSWORD gives, so no run can begin or be resumed; whoever runs the bridge has to change it."
YOUNG = "The bridge's store has just been started; try again in a few seconds."
OTHER = "This run id belongs to another request; each run needs a new one."


class RedisStore:
    """Runs that all replicas of the bridge share through one Redis or Valkey.

    `url` is redis://, rediss:// or unix://. `secret` keys the hashes of run ids; all replicas need
    the same. For `grace` seconds after its start, Redis gets no new runs: replicas first restore
    what it has lost. `bounds` are the options of `Runs`.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: str | None = None,
        lease: float = LEASE_SECONDS,
        grace: float | None = None,
        poll: float = POLL_SECONDS,
        **bounds: Any,
    ) -> None:
        self.runs: Runs = Runs(codec=zlib, **bounds)
        # Two seconds more than a lease: for a failed command, a check and a busy machine.
        grace = lease + 2 if grace is None else grace
        times = Times(lease, grace, poll, int(self.runs.keep_seconds) + SPARE_SECONDS)
        self.link: Link = Link(url, times)
        self.shared: dict[str, SharedRun] = {}
        self._follower = Follower(self.link, self.runs, self.shared)
        self._writer = Writer(self._follower)
        secret = os.environ.get("DETOK_STORE_SECRET", "") if secret is None else secret
        self._secret = secret.encode()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._closing = False

    async def open(self, stop: Callable[[Run], None]) -> None:
        """Connect; while Redis cannot be reached, try again and again."""
        self._follower.stop = stop
        self.link.on_change = self._check_everything
        writer, follower = self._writer, self._follower
        for work in (
            writer.write,
            writer.keep_leases,
            follower.ask,
            follower.follow,
            follower.listen,
            follower.look,
        ):
            self._spawn(self._keep(work))
        await self.link.connect()

    async def close(self) -> None:
        """Append what is not in Redis yet, and disconnect."""
        if self._tasks and not self.link.away:
            with contextlib.suppress(*self.link.errors):
                await self._writer.write_rest()
            await self._follower.close()
        self._closing = True  # redis-py can lose a cancellation that comes with a timeout
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.link.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _keep(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Repeat a piece of work until the store is closed, through failures of Redis."""
        while not self._closing:
            try:
                await work()
            except self.link.errors as error:
                self.link.failed(error)
                self._check_everything()  # Redis may have been restarted without its data
                await asyncio.sleep(0.05)
            except Exception as error:
                # A bug in the bridge, or entries of another version: the other runs go on.
                log.error("store_fault", extra={"fields": fault_of(error)})
                await asyncio.sleep(self.link.times.poll)

    def _check_everything(self) -> None:
        self._writer.check_all()
        self._follower.ask_again()

    @property
    def state(self) -> StoreState:
        """What Redis has cost, and whether it takes new runs and new clients. A replica that Redis
        refuses, or that has never reached it, is not ready. If Redis goes away later, it is away
        for all replicas, so this one stays ready: its runs go on.
        """
        link = self.link
        away = (REFUSED if link.refused else AWAY) if link.away else None
        return StoreState(link.counts, away, away if link.refused or not link.reached else None)

    async def find(self, run_id: str, after: int, attempt: Attempt) -> str | None:
        """Fetch a run, unless a newer attempt reads it here. If the log does not reach `after` yet,
        wait a moment: the client may have seen more at another replica than this one has read.
        After that, the client must try again; or, if the run has ended, the run counts as lost,
        because Redis has lost its last part.
        """
        shared = self.shared.get(run_id)
        run = self.runs.by_id.get(run_id)
        deadline = clock() + AHEAD_SECONDS
        lacks = shared is not None and shared.lease and shared.run.reader.attempts.lack(attempt)
        if shared is not None and lacks and not self.link.away:
            with contextlib.suppress(*self.link.errors):
                await self._follower.learn_attempts(shared)
        if run is not None and (shared is None or shared.claiming or shared.lease):
            if shared is not None and shared.claiming and after > run.log.position:
                return AWAY  # this claim is late: another replica already has the run
            while run.log.shown < after <= run.log.position:
                if clock() > deadline:
                    return AWAY
                await asyncio.sleep(0.01)
            return None
        while True:
            try:
                status, found = await self._follower.fetch(
                    run_id, self.tag_of(run_id), after, attempt
                )
            except self.link.errors as error:
                self.link.failed(error)
                kept = run is not None and run.log.base <= after <= run.log.position
                goes_on = run is None or run.log.end is None
                return AWAY if not kept or (goes_on and self.link.is_long_away()) else None
            if status == "young":
                return YOUNG
            if status == "older":
                return None  # the session refuses it
            there = found is not None and (
                found.run.log.position >= after or found.run.log.end is not None
            )
            if status == "gone" or there or clock() > deadline:
                break
            await asyncio.sleep(0.05)
        known = self.shared.get(run_id)
        if found is None and known is not None and not known.claiming and known.lease is None:
            found = known  # Redis has just dropped its log
        if found is not None and found.run.log.position < after:
            reader = found.run.reader
            if reader.attempts.are_after(attempt):
                return None  # the session refuses it
            if reader.session is not None:
                reader.session.give_way(clock())  # nothing follows a copy that is dropped
            self._follower.drop(found.run)
            # Its producer may still restore it, so the client tries again.
            return YOUNG if status == "ok" else None
        return None

    async def claim(self, run: Run) -> bool:
        """Claim a run. If that takes longer than two commands may, the client is refused; the claim
        is still pursued, so that the run ends up with a producer or without a claim.
        """
        shared = self._claiming(run)
        lease = Lease(secrets.token_hex(8), run.digest)
        held = "away" if self.link.away else await self._claim(shared, lease)
        if held not in ("ours", "theirs"):
            code = wire.BAD_MESSAGE if held == "other request" else wire.ENGINE_DOWN
            self._follower.drop(run)
            refuse(run, code, {"away": AWAY, "young": YOUNG}.get(held, OTHER))
            return False
        shared.claiming = False
        if held == "ours":
            self._writer.begin(shared, lease)
        elif run.reader.session is not None or shared.cancelled:
            self._follower.moved(shared, True)
        if shared.cancelled:
            self.cancel(run)
        return held == "ours"

    def _claiming(self, run: Run) -> SharedRun:
        known = self.shared.get(run.id)
        if known is not None and known.run is run:
            return known
        return self._follower.share(run, self.tag_of(run.id), claiming=True)

    async def _claim(self, shared: SharedRun, lease: Lease) -> str:
        """Return who has the run: "ours", "theirs" or "other request"; "young" or "away" if nobody
        has it. The claim is confirmed before its engine starts; an unconfirmed claim expires soon.
        """
        times = self.link.times
        reader = shared.run.reader.attempts.last
        arguments = (lease.claim, lease.digest, int(times.lease * 1000), times.grace, *reader)
        deadline = clock() + 2 * times.lease
        while (reply := await self._call_twice(scripts.CLAIM, (shared.tag, arguments))) is not None:
            claim, digest, sure = [text(part) for part in reply]
            if claim == "young":
                return claim
            if digest != lease.digest:
                return "other request"
            if claim == lease.claim:
                break
            if sure or clock() > deadline:
                return "theirs"
            await asyncio.sleep(CLAIM_PAUSE_SECONDS)
        renewal = self._writer.renewal(shared.tag, lease, keep=True)
        if reply is None:
            refuse(shared.run, wire.ENGINE_DOWN, AWAY)
        while (reply := await self._call_twice(scripts.APPEND, renewal)) is None:
            refuse(shared.run, wire.ENGINE_DOWN, AWAY)
            await asyncio.sleep(times.poll)
        return {"ok": "ours", "lost": "away"}.get(text(reply[0]), "theirs")

    async def _call_twice(self, script: str, call: Call) -> Any:
        """Return the reply of a script, or None if it has failed twice."""
        for _ in range(2):
            try:
                return (await self.link.call(script, [call]))[0]
            except self.link.errors as error:
                self.link.failed(error)
        return None

    def cancel(self, run: Run) -> bool:
        """Cancel a run, wherever it is written."""
        shared = self.shared.get(run.id)
        if shared is None and run.id in self.runs.by_id:
            shared = self._claiming(run)  # its claim comes in this turn of the loop
        if shared is None or shared.lease is not None:
            run.log.finish("cancelled")
            return True
        shared.cancelled = True
        if not shared.claiming and run.log.end is None:
            self._follower.ask_soon(shared)
        return False

    def forget(self, run: Run) -> None:
        """Drop a run here; in Redis, if it is written here, or has been ended without data."""
        shared = self.shared.get(run.id)
        self._follower.drop(run)
        if shared is None or shared.claiming:
            return
        if shared.lease is not None:
            shared.lease.orphan = True
        claim = "" if shared.lease is None else shared.lease.claim
        self._spawn(self._forget((shared.tag, (claim,))))

    async def _forget(self, call: Call) -> None:
        with contextlib.suppress(*self.link.errors):
            await self.link.call(scripts.FORGET, [call])

    def expire(self, now: float) -> list[Run]:
        """Drop copies that nothing here needs; return the runs whose keys have expired in Redis.
        Runs that Redis has in full are kept here too, in case Redis loses them.
        """
        expired, self._writer.expired = self._writer.expired, []
        # A client may have come back since.
        gone = [run for run in expired if run.reader.session is None]
        # Refused requests, which were never claimed.
        bounded = [run for run in self.runs.by_id.values() if run.id not in self.shared]
        for shared in list(self.shared.values()):
            run, lease = shared.run, shared.lease
            if shared.claiming or run.reader.session is not None:
                continue
            if lease is None:
                if not shared.cancelled or run.log.end is not None:
                    self._follower.drop(run)
            elif shared.settled or now - (run.reader.detached_at or now) > self.link.times.lease:
                # Nobody reads it, here or elsewhere. What Redis has whole may go before others.
                run.reader.done = run.reader.done or shared.settled
                bounded.append(run)
        gone += self.runs.over_bounds(bounded, now)
        for run in gone:
            written = self.shared.get(run.id)
            if written is None or written.settled:
                self._follower.drop(run)
            else:
                self.forget(run)  # its engine stops, which must not be read as its end
        return gone

    def tag_of(self, run_id: str) -> str:
        """Return the hash of a run id, for the names of its keys."""
        return hmac.new(self._secret, run_id.encode(), hashlib.sha256).hexdigest()[:32]
