"""Who may write a run that replicas share, and what one replica knows of it.

In: the log that an engine writes here, or entries of the log in the store. Out: batches for the
store, or the same log as at the replica that writes it. An entry is a line of JSON (`s`, where it
starts; `d` and `m`, what the run carries; `e`, its end) and packed pieces of the log.
"""

import json
from typing import Any, NamedTuple

from ..protocol import wire
from ..protocol.log import Log, do_nothing
from ..protocol.runs import Run
from .store import clock

LOST = "The bridge's store has lost this answer; the text so far is kept. Ask again."
NOTE = "The bridge's store was away, so this answer could not have been resumed elsewhere."


class Batch(NamedTuple):
    """What is appended to the log of the store at once: an entry, up to position `end`."""

    number: int
    end: int
    entry: bytes
    sha256: str
    ended: int  # 1 or 0, as Redis takes no booleans


class Lease:
    """The right to write a run, which this replica has. `claim` is what the store knows it by.

    `number` is that of the last batch that was appended. `batch` waits for the store's answer.
    `unstored` is true while the store lacks what readers here were shown, `orphan` when it is not
    to have the run again.
    """

    def __init__(self, claim: str, digest: str) -> None:
        self.claim = claim
        self.digest = digest
        self.number: int = 0
        self.batch: Batch | None = None
        self.unstored: bool = False
        self.orphan = False

    def next_batch(self, run: Run) -> Batch | None:
        """Return the batch to append: the one that waits for an answer, or else all that is new."""
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
        """Return all that the log has, as one batch; nothing may be new."""
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
        """Show the batch to readers."""
        batch, self.batch = self.batch, None
        if batch is not None:
            self.number = batch.number
            run.log.show(batch.end, ended=bool(batch.ended))

    def go_on_without(self, run: Run) -> None:
        """Show all that is new to readers here although the store does not have it."""
        self.unstored = True
        log = run.log
        end = log.end
        if end is not None and end["type"] == "finished" and not log.ended:
            log.end = {**end, "note": f"{end['note']} {NOTE}" if end.get("note") else NOTE}
        if self.batch is not None:
            self.number = self.batch.number  # it may be in the store: no other may have its id
            self.batch = None
        if self.next_batch(run) is not None:
            self.applied(run)


class SharedRun:
    """A run that other replicas may write or read.

    `lease` is set if it is written here. `turn` is that of the last reader here, `rival` the
    highest turn that was heard of; `taking` is true while a reader here asks for a turn, `unheard`
    when the store did not have the run that a reader here has asked for something. `log_id` and
    `asks_id` are the last entries that were read of the streams. `lost_at` is since when the
    store lacks what readers here have.
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

    @property
    def settled(self) -> bool:
        """Whether the store has the whole run, with the end that was written here."""
        return self.run.log.ended and self.lease is not None and not self.lease.unstored

    @property
    def follows(self) -> bool:
        """Whether a reader here waits for what is written elsewhere."""
        wanted = self.run.reader.session is not None or self.cancelled
        return wanted and self.lease is None and not self.claiming and self.run.log.end is None

    @property
    def listens(self) -> bool:
        """Whether what other readers ask for matters here."""
        writes = self.lease is not None and not self.settled
        return not self.claiming and (writes or self.run.reader.session is not None)

    def begin(self, started: str, model: str | None) -> None:
        """Begin with what the producer says (`Log.started`). A client that was told another model
        is refused.
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
        """Add an entry of the log, without what is here already. Return False if something is
        missing before it.
        """
        header, records = unpack(entry)
        log = self.run.log
        at = header["s"]
        if log.end is not None:
            return True
        if at > log.position:
            return False
        if "d" in header and not log.data:
            self.begin(header["d"], header.get("m") or None)
        log.hold = do_nothing  # the session is woken once
        for op, count, payload in read_records(records):
            skip = log.position - at
            if skip < count:
                log.add(op, count - skip, payload[wire.split_at(op, payload, skip) :])
            at += count
        if "e" in header:
            # A store that has lost its last part is behind what readers here were shown.
            log.close(header["e"] if at == log.position else lost_end())
        log.hold = None
        log.show(log.position, ended=log.end is not None)
        self.log_id = key
        self.lost_at = None
        return True

    def lose(self, after_seconds: float) -> None:
        """Note that the store lacks what comes next. Its producer may put it back; if it does not,
        the run ends.
        """
        now = clock()
        self.lost_at = now if self.lost_at is None else self.lost_at
        if now - self.lost_at >= after_seconds:
            self.run.log.close(lost_end())

    def hear(self, turn: int, ack: int) -> None:
        """Note whose turn it is to read the run, and the credit that this reader gives."""
        self.rival = max(self.rival, turn)
        if self.taking:
            return
        self.give_way()
        reader = self.run.reader
        if self.lease is not None and reader.session is None:
            reader.log.acknowledge(ack)
            reader.wake()

    def give_way(self) -> None:
        """Stop reading here, if it is the turn of a reader elsewhere."""
        session = self.run.reader.session
        if self.rival > self.turn and session is not None and not self.taking:
            session.give_way(clock())

    def lose_lease(self) -> None:
        """Follow the run from now on: it was ended elsewhere, as its lease had run out. What was
        not appended in time is dropped.
        """
        old = self.run.log
        new = Log(max_size=old.max_size, base=old.base, codec=old.codec)
        if old.data:
            new.start(old.data)
        for piece in pieces(old, old.base, old.shown):
            new.add(*piece)
        new.acked = old.acked
        old.hold = old.changed = do_nothing
        self.lease = None
        self.log_id = f"{new.position}-0"
        self.run.log = new
        self.run.reader.follow(new)


def lost_end() -> dict[str, Any]:
    """Return the end of a run that the store has lost: without a sum, as its reader may have more
    than the store, and this replica may not have the beginning.
    """
    end = {"code": wire.ENGINE_DOWN, "message": LOST, "retry": True, "sha256": None}
    return {"type": "error", **end}


def pieces(log: Log, start: int, end: int | None = None) -> list[tuple[int, int, bytes]]:
    """Return the (op, count, payload) of what a log has from `start` on."""
    out = []
    end = log.position if end is None else end
    while start < end and (step := log.read(start, end)) is not None:
        frame, after = step
        out.append((frame[0], after - start, frame[1:]))
        start = after
    return out


def record(op: int, count: int, payload: bytes) -> bytes:
    """Return one piece of data as it stands in an entry.

    >>> read_records(record(wire.IDS, 2, b"ab") + record(wire.BYTES, 1, b"c"))
    [(1, 2, b'ab'), (0, 1, b'c')]
    """
    return bytes((op,)) + wire.pack_number(count) + wire.pack_number(len(payload)) + payload


def read_records(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return the (op, count, payload) of each piece."""
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
