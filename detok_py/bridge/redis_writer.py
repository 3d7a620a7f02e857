"""The producers' side of the Redis store: append what engines write, renew leases, restore lost
runs.

In: logs that engines write. Out: batches in Redis, which readers here see after Redis has them.
While Redis is away, runs go on in memory, and are put back afterwards.
"""

import asyncio
from functools import partial
from typing import Any

from ..protocol.runs import Run
from . import redis_scripts as scripts
from .lease import Batch, Lease, SharedRun
from .redis_follower import Follower
from .redis_link import Call, Link, text, woken
from .store import clock


class Writer:
    """Appends the new data of runs written here. `expired` are runs whose keys have expired."""

    def __init__(self, follower: Follower) -> None:
        self.link: Link = follower.link
        self.expired: list[Run] = []
        self._follower = follower
        self._written: dict[SharedRun, None] = {}  # runs with new data
        self._wake_write = asyncio.Event()
        self._wake_leases = asyncio.Event()
        self._look_at_all = False  # also at leases of runs that have ended

    def begin(self, shared: SharedRun, lease: Lease) -> None:
        """Begin to append a run."""
        shared.lease = lease
        shared.turn = 1
        shared.run.log.hold = partial(self._write_soon, shared)
        self._follower.group_again()

    def _write_soon(self, shared: SharedRun) -> None:
        self._written[shared] = None
        self._wake_write.set()

    def check_all(self) -> None:
        """Check all leases soon: Redis was lost, is back, or was restarted."""
        self._look_at_all = True
        self._wake_write.set()
        self._wake_leases.set()

    async def write(self) -> None:
        """Wait for new data, and append it."""
        await self._wake_write.wait()
        self._wake_write.clear()
        await self._append()

    async def write_rest(self) -> None:
        """Append all that is left."""
        while self._written and not self.link.away and not self.link.failing:
            await self._append()

    async def _append(self) -> None:
        """Append one batch of each run with new data."""
        calls: list[Call] = []
        waiting: list[SharedRun] = []
        written, self._written = self._written, {}
        for shared in written:
            lease = shared.lease
            batch = None if lease is None else lease.next_batch(shared.run)
            if lease is None or batch is None:
                continue
            if lease.orphan or lease.unstored or self.link.away:
                lease.go_on_without(shared.run)
                continue
            waiting.append(shared)
            calls.append((shared.tag, self._batch(shared.run, lease, batch)))
        try:
            replies = await self.link.call(scripts.APPEND, calls)
        except self.link.errors:
            self._written.update(dict.fromkeys(waiting))
            self._wake_write.set()
            raise
        for shared, reply in zip(waiting, replies):
            self._take_reply(shared, reply)

    def _batch(self, run: Run, lease: Lease, batch: Batch) -> tuple[Any, ...]:
        first = batch.number == 1
        carries = (run.log.started, run.reader.model or "") if first else ()
        return (*self._claim(lease, keep=first), *batch, run.log.base, *carries)

    def _claim(self, lease: Lease, *, keep: bool) -> tuple[Any, ...]:
        times = self.link.times
        return (lease.claim, int(times.lease * 1000), times.ttl if keep else 0, times.grace)

    def _take_reply(self, shared: SharedRun, reply: Any) -> None:
        lease = shared.lease
        status = text(reply[0])
        if lease is None:
            return
        if status == "ok":
            lease.applied(shared.run)
            if lease.next_batch(shared.run) is not None:
                self._write_soon(shared)
        elif status == "lost":
            lease.go_on_without(shared.run)
            self._wake_leases.set()
        else:
            self._end_elsewhere(shared, lease)

    def _end_elsewhere(self, shared: SharedRun, lease: Lease) -> None:
        """Stop writing a run that another replica has ended, because its lease ran out. If a reader
        here has seen data that Redis lacks, the run goes on in memory instead: shown data stays.
        """
        was_shared = not (lease.unstored or lease.orphan)
        lease.orphan = True
        if was_shared:
            self._follower.stop(shared.run)
            shared.lose_lease()
            self._follower.group_again()

    def renewal(self, tag: str, lease: Lease, *, keep: bool) -> Call:
        """Return the call that renews a lease and confirms its claim; `keep` renews the keys."""
        return (tag, (*self._claim(lease, keep=keep), 0, lease.number))

    async def keep_leases(self) -> None:
        """Renew the leases held here twice a second, and restore what Redis has lost."""
        await woken(self._wake_leases, self.link.times.poll)
        if self.link.away and not await self.link.connect():
            return
        every, self._look_at_all = self._look_at_all, False
        held = [
            (shared, shared.lease)
            for shared in self._follower.shared.values()
            if shared.lease is not None and not shared.lease.orphan
        ]
        for shared, lease in held:
            if lease.unstored:
                await self._restore(shared, lease)
        await self._renew(
            [
                pair
                for pair in held
                if not pair[1].unstored and (every or not pair[0].settled or pair[0].must_keep())
            ]
        )

    async def _renew(self, held: list[tuple[SharedRun, Lease]]) -> None:
        calls = [
            self.renewal(shared.tag, lease, keep=shared.run.reader.session is not None)
            for shared, lease in held
        ]
        for (shared, lease), reply in zip(held, await self.link.call(scripts.APPEND, calls)):
            status = text(reply[0])
            if status == "ok":
                _note_reader(shared.run, self.link.times.ttl - int(reply[4]))
                self._follower.hear(shared, int(reply[1]), int(reply[2]), bool(reply[3]))
            elif status == "lost":
                self._expire_or_restore(shared.run, lease, young=bool(int(reply[1])))
            elif not shared.settled and shared.lease is lease:
                self._end_elsewhere(shared, lease)

    def _expire_or_restore(self, run: Run, lease: Lease, *, young: bool) -> None:
        """Handle missing keys. If the run had no reader for `keep_seconds`, its keys have expired
        and it ends; otherwise Redis has lost them, and they are put back.
        """
        detached_at = run.reader.detached_at
        if not young and run.reader.session is None and detached_at is not None:
            if clock() - detached_at >= self._follower.runs.keep_seconds:
                self.expired.append(run)
                return
        lease.unstored = True
        self._wake_leases.set()

    async def _restore(self, shared: SharedRun, lease: Lease) -> None:
        run = shared.run
        lease.go_on_without(run)
        whole = lease.whole(run)
        claim, lease_ms, ttl, grace = self._claim(lease, keep=True)
        reader = run.reader
        if reader.session is None and reader.detached_at is not None:
            # The keys live as long as they would have lived in a Redis that keeps them.
            ttl = max(1, ttl - int(clock() - reader.detached_at))
        arguments = (
            *(claim, lease_ms, ttl, grace),
            *whole,
            lease.digest,
            max(shared.turn, shared.rival),
            run.log.acked,
            run.log.started,
            run.reader.model or "",
        )
        reply = (await self.link.call(scripts.RESTORE, [(shared.tag, arguments)]))[0]
        if text(reply) != "ok":
            lease.orphan = True
        elif lease.number == whole.number:
            lease.unstored = False
            self._write_soon(shared)
            self._follower.group_again()
        else:
            self._wake_leases.set()  # more was shown in the meantime: restore once more


def _note_reader(run: Run, seconds: float) -> None:
    """Note that a reader was there so many seconds ago, at whatever replica: it kept the keys."""
    reader = run.reader
    if reader.session is None and seconds >= 0:
        reader.detached_at = max(reader.detached_at or 0.0, clock() - seconds)
