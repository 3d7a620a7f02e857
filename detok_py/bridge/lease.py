"""The right to write a run that replicas share, and what one replica knows about such a run.

In: the log that an engine of this replica writes, or entries that another replica has appended to
the store. Out: batches to append to the store, or a copy of the other replica's log. An entry is a
line of JSON (`s`, where it starts; `d` and `m`, what the run carries; `e`, its end) and packed
pieces of the log.
"""

import json
from typing import Any, NamedTuple

from ..protocol import wire
from ..protocol.log import Log, do_nothing
from ..protocol.runs import Run
from .store import clock

LOST = "The bridge's store has lost this answer; the text so far is kept. Ask again."
KEEP_SECONDS = 10.0  # between two times that a run which has ended is kept
NOTE = "The bridge's store was away, so this answer could not have been resumed elsewhere."


class Batch(NamedTuple):
    """One append to the store's log: an entry with everything up to position `end`."""

    number: int
    end: int
    entry: bytes
    sha256: str
    ended: int  # 1 or 0, as Redis takes no booleans


class Lease:
    """The right of this replica to write a run. `claim` identifies it in the store.

    `number` is the number of the last appended batch. `batch` was sent, and the store has not
    replied yet. `unstored` is true while local readers have seen more than the store has. `orphan`
    is true if the run must not be put back into the store.
    """

    def __init__(self, claim: str, digest: str) -> None:
        self.claim = claim
        self.digest = digest
        self.number: int = 0
        self.batch: Batch | None = None
        self.unstored: bool = False
        self.orphan = False

    def next_batch(self, run: Run) -> Batch | None:
        """Return the batch to append: the one without a reply, or else a new one with all that is
        new.
        """
        log = run.log
        first = self.number == 0
        new = (
            log.position > log.shown
            or (log.end is not None and not log.ended)
            or (first and bool(log.data))
        )
        if self.batch is None and new:
            self.batch = self._pack(run, log.shown, self.number + 1, first=first)
        return self.batch

    def whole(self, run: Run) -> Batch:
        """Return the whole log as one batch; all of it must have been appended before."""
        return self._pack(run, run.log.base, self.number, first=True)

    def _pack(self, run: Run, start: int, number: int, *, first: bool) -> Batch:
        log = run.log
        header: dict[str, Any] = {"s": start}
        if first and log.data:
            header.update(d=log.started, m=run.reader.model)
        sha256 = log.sha256()
        if log.end is not None:
            header["e"] = {**log.end, "sha256": sha256}
        entry = json.dumps(header, separators=(",", ":")).encode() + b"\n"
        entry += b"".join([record(*piece) for piece in pieces(log, start)])
        return Batch(number, log.position, entry, sha256, int(log.end is not None))

    def applied(self, run: Run) -> None:
        """Note that the store has the batch, and show it to readers."""
        batch, self.batch = self.batch, None
        if batch is not None:
            self.number = batch.number
            run.log.show(batch.end, ended=bool(batch.ended))

    def go_on_without(self, run: Run) -> None:
        """Show everything new to local readers, although the store does not have it."""
        self.unstored = True
        log = run.log
        end = log.end
        if end is not None and end["type"] == "finished" and not log.ended:
            log.end = {**end, "note": f"{end['note']} {NOTE}" if end.get("note") else NOTE}
        if self.batch is not None:
            self.number = self.batch.number  # the store may have it: use no number twice
            self.batch = None
        if self.next_batch(run) is not None:
            self.applied(run)


class SharedRun:
    """A run that other replicas may write or read.

    "Here" means: at this replica. `tag` names the run's keys. `claiming` is true until the store
    has decided a claim of this replica. `lease` is set if the run is written here. One reader at a
    time has the turn to read: `turn` is the number of the last turn here, `rival` the highest
    number seen in the store, and `taking` is true while a reader here asks for a turn. `unheard` is
    true if the store did not have the run when a reader here asked for something. `log_id` and
    `asks_id` are the ids of the last entries read from the streams `log` and `asks`. `lost_at` is
    when the store was first seen to have less than the readers here, or None.
    """

    def __init__(self, run: Run, tag: str, *, claiming: bool) -> None:
        self.run = run
        self.tag = tag
        self.lease: Lease | None = None
        self.claiming = claiming
        self.cancelled = False
        self.turn = 0
        self.rival: int = 0
        self.taking = False
        self.unheard = False
        self.log_id: str = f"{run.log.position}-0"
        self.asks_id = "0-0"
        self.lost_at: float | None = None
        self._kept_at = 0.0

    @property
    def settled(self) -> bool:
        """Whether the run was written here, and the store has all of it with its end."""
        return self.run.log.ended and self.lease is not None and not self.lease.unstored

    def must_keep(self) -> bool:
        """Return whether the store must keep an ended run, because a reader here may still come
        back for it; some seconds after the last time.
        """
        run, now = self.run, clock()
        if run.log.end is None or run.reader.session is None or now - self._kept_at < KEEP_SECONDS:
            return False
        self._kept_at = now
        return True

    @property
    def follows(self) -> bool:
        """Whether a reader here waits for what another replica writes."""
        wanted = self.run.reader.session is not None or self.cancelled
        return wanted and self.lease is None and not self.claiming and self.run.log.end is None

    @property
    def listens(self) -> bool:
        """Whether this replica must read what readers elsewhere ask for."""
        writes = self.lease is not None and not self.settled
        return not self.claiming and (writes or self.run.reader.session is not None)

    def begin(self, started: str, model: str | None) -> None:
        """Start the copy with the producer's `Log.started`. Refuse a client whose hello named
        another model.
        """
        data, begins = started.split(" ")
        reader = self.run.reader
        told, reader.model = reader.model, model
        if data != "bytes" and reader.session is not None and told != model:
            reader.session.refuse(
                wire.VOCABULARY_MISMATCH,
                "The ids of this run are of another vocabulary than this bridge has. Start it again.",
            )
        self.run.log.start(data, begins)

    def apply(self, key: str, entry: bytes) -> bool:
        """Add the new part of an entry of the log. Return False if an earlier entry is missing."""
        header, records = unpack(entry)
        log = self.run.log
        at = header["s"]
        if log.end is not None:
            return True
        if at > log.position:
            return False
        if "d" in header and not log.data:
            self.begin(header["d"], header.get("m") or None)
        log.hold = do_nothing  # so that the session wakes once
        try:
            for op, count, payload in read_records(records):
                skip = log.position - at
                if skip < count:
                    log.add(op, count - skip, payload[wire.split_at(op, payload, skip) :])
                at += count
            if "e" in header:
                # The store may have lost its last part, which readers here have seen.
                log.close(header["e"] if at == log.position else lost_end())
        finally:
            log.hold = None
        log.show(log.position, ended=log.end is not None)
        self.log_id = key
        self.lost_at = None
        return True

    def lose(self, after_seconds: float) -> None:
        """Note that the store has lost what comes next. If its producer does not put it back in
        time, the run ends.
        """
        now = clock()
        self.lost_at = now if self.lost_at is None else self.lost_at
        if now - self.lost_at >= after_seconds:
            self.run.log.close(lost_end())

    def hear(self, turn: int, ack: int) -> None:
        """Note the highest turn in the store, and the position that its reader acknowledged."""
        self.rival = max(self.rival, turn)
        if self.taking:
            return
        self.give_way()
        reader = self.run.reader
        # What a reader here has acknowledged is not in the store.
        if (
            self.lease is not None
            and reader.session is None
            and (self.rival > self.turn or ack > reader.log.acked)
        ):
            reader.log.acknowledge(ack)
            reader.wake()

    def learn_attempts(self, readers: bytes | None, number: bytes | None) -> None:
        """Learn who has read the run, from the fields `readers` and `attempt` in the store."""
        if readers:
            ids = [b"" if word == b"-" else word for word in readers.split()]
            self.run.reader.attempts.learn([word.decode() for word in ids], int(number or 0))

    def give_way(self) -> None:
        """Stop reading here if a reader elsewhere has a later turn."""
        session = self.run.reader.session
        if self.rival > self.turn and session is not None and not self.taking:
            session.give_way(clock())

    def lose_lease(self) -> None:
        """Follow the run from now on: its lease ran out, so another replica has ended it. Drop what
        was not appended in time.
        """
        old = self.run.log
        new = Log(max_size=old.max_size, base=old.base, codec=old.codec)
        if old.data:
            new.start(old.data, old.begins)
        for piece in pieces(old, old.base, old.shown):
            new.add(*piece)
        new.acked = old.acked
        old.hold = old.changed = do_nothing
        self.lease = None
        self.log_id = f"{new.position}-0"
        self.run.log = new
        self.run.reader.follow(new)


def lost_end() -> dict[str, Any]:
    """Return the end of a run that the store has lost. It has no SHA-256: the reader may have more
    than the store, and this replica may not have the beginning.
    """
    end = {"code": wire.ENGINE_DOWN, "message": LOST, "retry": True, "sha256": None}
    return {"type": "error", **end}


def pieces(log: Log, start: int, end: int | None = None) -> list[tuple[int, int, bytes]]:
    """Return the pieces of a log from `start` on, as (op, count, payload)."""
    out = []
    end = log.position if end is None else end
    while start < end and (step := log.read(start, end)) is not None:
        frame, after = step
        out.append((frame[0], after - start, frame[1:]))
        start = after
    return out


def record(op: int, count: int, payload: bytes) -> bytes:
    """Pack one piece for an entry.

    >>> read_records(record(wire.IDS, 2, b"ab") + record(wire.BYTES, 1, b"c"))
    [(1, 2, b'ab'), (0, 1, b'c')]
    """
    return bytes((op,)) + wire.pack_number(count) + wire.pack_number(len(payload)) + payload


def read_records(data: bytes) -> list[tuple[int, int, bytes]]:
    """Unpack the pieces of an entry: (op, count, payload) each."""
    out = []
    at = 0
    while at < len(data):
        op = data[at]
        count, at = wire.unpack_number(data, at + 1)
        size, at = wire.unpack_number(data, at)
        out.append((op, count, data[at : at + size]))
        at += size
    return out


def unpack(entry: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the (header, pieces) of an entry of the log.

    >>> unpack(b'{"s":2}\\nxy')
    ({'s': 2}, b'xy')
    """
    head, _, records = entry.partition(b"\n")
    return json.loads(head), records
