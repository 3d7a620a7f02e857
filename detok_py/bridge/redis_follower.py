"""The readers' side of the Redis store: follow logs, and send turns, credit and cancels to
producers.

In: entries that other replicas append, and what sessions here acknowledge. Out: copies of the runs,
and entries for their producers. Two blocking XREADs follow all streams.
"""

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..protocol import wire
from ..protocol.reader import Attempt
from ..protocol.runs import Run, Runs
from . import redis_scripts as scripts
from .jobs import fault_of
from .lease import SharedRun, unpack
from .redis_link import Call, Link, key_of, text, woken
from .store import clock

log: logging.Logger = logging.getLogger("detok.bridge")

AWAY = "The bridge's store cannot be reached or written; no run can begin or be resumed. Try again soon."
DEAD = "The bridge that made this answer was lost; the text so far is kept. Ask again."
_DEAD_END = {"type": "error", "code": wire.ENGINE_DOWN, "message": DEAD, "retry": True}


class Follower:
    """Keeps the copies in `shared` up to date with Redis. `stop` stops the engine of a run."""

    def __init__(self, link: Link, runs: Runs, shared: dict[str, SharedRun]) -> None:
        self.link = link
        self.runs = runs
        self.shared = shared
        self.stop: Callable[[Run], None] = lambda run: None
        self._asked: dict[SharedRun, None] = {}  # runs whose readers want a turn, or give credit
        self._wake_ask = asyncio.Event()
        # A stream of this replica that only wakes its XREADs, and the last ids they read of it.
        self._wake_key = f"detok:wake:{secrets.token_hex(8)}"
        self._wake_ids = {"log": "0-0", "asks": "0-0"}
        self._regroup = False  # whether XREAD must begin again, with other streams
        self._wake_follow = asyncio.Event()

    def share(self, run: Run, tag: str, *, claiming: bool) -> SharedRun:
        """Add a run to `shared`."""
        shared = self.shared[run.id] = SharedRun(run, tag, claiming=claiming)
        run.reader.moved = partial(self.moved, shared)
        return shared

    def moved(self, shared: SharedRun, new: bool) -> None:
        """Send the credit that a reader here gives, or ask for the turn of a new reader."""
        if shared.claiming:
            return
        if new:
            shared.taking = True
        elif shared.lease is not None:
            return  # the engine of this replica has the credit already
        self.ask_soon(shared)

    def ask_soon(self, shared: SharedRun) -> None:
        """Send soon what a reader here wants."""
        self._asked[shared] = None
        self._wake_ask.set()

    def group_again(self) -> None:
        """Begin XREAD again, because the set of followed streams has changed."""
        self._regroup = True
        self._wake_follow.set()
        self._wake_ask.set()

    def ask_again(self) -> None:
        """Send what could not be sent while Redis was away."""
        self._wake_ask.set()

    async def ask(self) -> None:
        """Wait for what readers here want, and send it to Redis."""
        await self._wake_ask.wait()
        self._wake_ask.clear()
        if self.link.away:
            return
        asked, self._asked = self._asked, {}
        order = [
            (shared, word, shared.run.reader.attempts.last)
            for shared in asked
            if (word := _word(shared))
        ]
        for shared, *_ in order:
            shared.unheard = False
        calls: list[Call] = [
            (shared.tag, (word, shared.turn, shared.run.log.acked, self.link.times.ttl, *attempt))
            for shared, word, attempt in order
        ]
        try:
            replies = await self.link.call(scripts.ASK, calls)
        except self.link.errors:
            kept = [shared for shared in asked if shared.run.id in self.shared]
            self._asked.update(dict.fromkeys(kept))
            self._wake_ask.set()
            raise
        for (shared, word, attempt), reply in zip(order, replies):
            if attempt == shared.run.reader.attempts.last:
                self._take_turn(shared, word, int(reply))
            else:
                self.ask_soon(shared)  # a newer reader here has come since
        if self._regroup:
            self._regroup = False
            pipe = self.link.client.pipeline(transaction=False)
            pipe.xadd(self._wake_key, {"w": ""}, maxlen=1)
            pipe.expire(self._wake_key, self.link.times.ttl)
            await pipe.execute()

    def _take_turn(self, shared: SharedRun, word: str, turn: int) -> None:
        if turn == 0:
            # Its producer restores the run; then `hear` asks again.
            shared.unheard = True
            return
        if word == "take":
            shared.taking = False
        if turn < 0:
            shared.rival = max(shared.rival, shared.turn + 1)
        elif word == "take":
            shared.turn = max(shared.turn, turn)
            self.group_again()
            if shared.cancelled:
                self.ask_soon(shared)
        shared.give_way()

    async def follow(self) -> None:
        """Read new entries of the logs that other replicas write, as soon as one has any."""
        await self.link.here.wait()
        chosen = {
            shared: shared.log_id
            for shared in self.shared.values()
            if shared.follows and shared.lost_at is None
        }
        if not chosen:
            await woken(self._wake_follow, self.link.times.poll / 2)
            return
        for shared, entries in await self._read("log", chosen):
            with _reading(shared):
                self._apply(shared, [(key, fields[b"b"]) for key, fields in entries])

    async def listen(self) -> None:
        """Read what readers elsewhere ask for. This is a command of its own, because few entries
        come, and a blocking XREAD has to name all its streams again after each. It also waits if
        nothing is chosen, because it learns at once that Redis was restarted.
        """
        await self.link.here.wait()
        chosen = {shared: shared.asks_id for shared in self.shared.values() if shared.listens}
        for shared, entries in await self._read("asks", chosen):
            self._read_asks(shared, entries)

    async def _read(self, part: str, chosen: dict[SharedRun, str]) -> list[tuple[SharedRun, Any]]:
        """Wait for new entries of a stream of each chosen run, after the given ids; return them."""
        runs = {key_of(shared.tag, part): shared for shared in chosen}
        streams = {key: chosen[shared] for key, shared in runs.items()}
        streams[self._wake_key] = self._wake_ids[part]
        wait = int(self.link.times.poll * 500)  # well below the timeout of a command
        found = []
        replies = await self.link.client.xread(streams, block=wait)
        self.link.succeeded(wrote=False)
        for key, entries in replies:
            if (name := text(key)) == self._wake_key:
                self._wake_ids[part] = text(entries[-1][0])
            else:
                found.append((runs[name], entries))
        return found

    def _read_asks(self, shared: SharedRun, entries: Any) -> None:
        for key, fields in entries:
            shared.asks_id = text(key)
            self.hear(shared, int(fields[b"t"]), int(fields[b"a"]), fields[b"w"] == b"cancel")

    def hear(self, shared: SharedRun, turn: int, ack: int, cancel: bool) -> None:
        """Do what the reader with the latest turn asks for."""
        shared.hear(turn, ack)
        if shared.unheard:
            self.ask_soon(shared)
        if cancel and shared.lease is not None and shared.run.log.end is None:
            shared.run.log.finish("cancelled")
            self.stop(shared.run)

    def _apply(self, shared: SharedRun, entries: list[tuple[Any, bytes]]) -> None:
        """Add entries to the copy of a log, unless an earlier entry is missing."""
        if not all(shared.apply(text(key), entry) for key, entry in entries):
            shared.lose(self.link.times.lease)

    async def learn_attempts(self, shared: SharedRun) -> None:
        """Learn from Redis who has read a run."""
        shared.learn_attempts(*await self.link.fields(shared.tag, "readers", "attempt"))

    async def look(self) -> None:
        """Check followed runs twice a second: whether their producers live, and whether Redis still
        has them. Those that have ended are kept while they have a reader here. If Redis stays away,
        the readers must ask elsewhere: their producers may be there.
        """
        await asyncio.sleep(self.link.times.poll)
        followed = [shared for shared in self.shared.values() if shared.follows]
        if self.link.is_long_away():
            for shared in followed:
                refuse(shared.run, wire.ENGINE_DOWN, AWAY)
        followed += [
            shared for shared in self.shared.values() if shared.lease is None and shared.must_keep()
        ]
        if self.link.away or not followed:
            return
        calls = [
            self._look(shared.tag, f"({shared.log_id}", shared.run.reader.session is not None)
            for shared in followed
        ]
        # Positions before the call: `follow` may read more before Redis replies.
        had = [shared.run.log.position for shared in followed]
        replies = await self.link.call(scripts.LOOK, calls)
        for shared, before, reply in zip(followed, had, replies):
            status = text(reply[0])
            if status in ("gone", "lost"):
                shared.lose(self.link.times.lease)
            elif status == "ok":
                with _reading(shared):
                    self._take_look(shared, reply, before)
                if shared.cancelled and shared.run.log.end is None:
                    self.ask_soon(shared)

    def _look(self, tag: str, begin: str, keep: bool) -> Call:
        times = self.link.times
        dead = json.dumps(_DEAD_END, separators=(",", ":"))[:-1]
        return (tag, (begin, times.ttl if keep else 0, times.grace, dead))

    def _take_look(self, shared: SharedRun, reply: Any, before: int) -> None:
        """Apply a reply of LOOK. `before` is the position of the log when LOOK was sent."""
        turn, position = int(reply[1]), int(reply[4])
        started, ended = text(reply[2]), text(reply[5])
        log = shared.run.log
        if started and not log.data:
            shared.begin(started, text(reply[3]) or None)
        if position < before:
            # Redis has lost its last part; the producer may restore it.
            shared.lose(0.0 if ended else self.link.times.lease)
        elif reply[7]:
            self._apply(shared, [(key, fields[1]) for key, fields in reply[7]])
        else:
            shared.lost_at = None
        shared.hear(turn, shared.run.log.acked)
        shared.learn_attempts(reply[9], reply[10])
        if shared.run.reader.session is not None and shared.lease is None:
            acked = turn == shared.turn and int(reply[8]) >= log.acked
            if shared.unheard or not (acked or turn > shared.turn):
                self.ask_soon(shared)  # Redis has lost an earlier request of a reader here

    async def fetch(
        self, run_id: str, tag: str, after: int, attempt: Attempt
    ) -> tuple[str, SharedRun | None]:
        """Bring the copy of a run up to date, or make one that begins at `after`. Return the status
        of LOOK, or "ended", or "older" if a newer attempt reads the run here; and the copy.
        """
        run = self.runs.by_id.get(run_id)
        known = run is not None and run.log.base <= after <= run.log.position
        before = run.log.position if run is not None else 0
        begin = before if known else after
        look = self._look(tag, f"{begin}-0", False)
        reply = (await self.link.call(scripts.LOOK, [look]))[0]
        status = text(reply[0])
        if status != "ok":
            if status == "gone" and run is not None and run.reader.session is None:
                self.drop(run)
            return status, None
        if self.runs.by_id.get(run_id) is not run:
            # The run was dropped, or another socket has fetched it.
            return await self.fetch(run_id, tag, after, attempt)
        shared = self.shared.get(run_id)
        if shared is not None:
            shared.learn_attempts(reply[9], reply[10])
            if shared.run.reader.attempts.are_after(attempt):
                return "older", None
        if shared is not None and (shared.lease is not None or shared.claiming):
            return status, shared  # an engine here writes it now: there is nothing to copy
        base = unpack(reply[7][0][1][1])[0]["s"] if reply[7] else int(reply[4])
        if run is not None and reply[7] and base > run.log.position:
            known = False  # the log was trimmed behind another reader: this copy cannot go on
        if not known or shared is None:
            if run is not None and run.reader.session is not None:
                run.reader.session.give_way(clock())
            if run is not None and base > after:
                self.drop(run)  # the log no longer has the next position
                return "gone", None
            run = self.runs.create(run_id, {}, base=base)
            run.digest = text(reply[6])
            shared = self.share(run, tag, claiming=False)
            before = 0
        with _reading(shared):
            self._take_look(shared, reply, before)
        return ("ended" if text(reply[5]) else status), shared

    def drop(self, run: Run) -> None:
        """Drop the copy of a run."""
        self.runs.drop(run)
        shared = self.shared.pop(run.id, None)
        if shared is not None:
            self._asked.pop(shared, None)

    async def close(self) -> None:
        """Remove what only this replica uses."""
        with contextlib.suppress(*self.link.errors):
            await self.link.client.delete(self._wake_key)


@contextlib.contextmanager
def _reading(shared: SharedRun) -> Iterator[None]:
    """End a run that cannot be read, because a replica of another version writes it, or because of
    a bug: the runs that are read after it go on.
    """
    try:
        yield
    except Exception as error:
        log.error("store_fault", extra={"fields": fault_of(error)})
        shared.lose(0.0)


def refuse(run: Run, code: int, sentence: str) -> None:
    """Close the socket of a run that cannot begin, or go on here."""
    if run.reader.session is not None and not run.reader.session.closing:
        run.reader.session.refuse(code, sentence)


def _word(shared: SharedRun) -> str:
    """Return what a reader here asks for: "take", "ack", "cancel" or ""."""
    reader = shared.run.reader
    if reader.session is None and not (shared.cancelled and reader.attempts.last.reader):
        # A late "take" would take the run from a newer socket elsewhere.
        shared.taking = False
    if shared.taking:
        return "take"
    if shared.lease is not None:
        return ""
    return "cancel" if shared.cancelled and shared.run.log.end is None else "ack"
