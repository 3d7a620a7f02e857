"""A store of runs in Redis or Valkey: any replica of the bridge resumes any run.

In: what engines produce here, and what readers want here. Out: the same runs at every replica.
Held: a mirror of each run that is read or produced here.

A run has one producer, the replica that claimed its id. The `Producer` is what the engine writes to.
Its batches are appended to a log in Redis, and only what was appended reaches a `Mirror`, which is
what a session reads: at the producer's replica after the append, at any other through its channel,
or, where that lost a message, by a look at the log twice a second. The log's end is an entry of the
log. A producer holds a lease; where a reader sees that it has run out, it appends the end itself.

While Redis is away, runs that are produced here go on in memory and are put back afterwards; new
runs are refused. Run ids are secrets, so keys have a keyed hash of them.
"""

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ..errors import DetokError, RemoteProtocolError
from ..protocol import wire
from ..protocol.server import Run, RunStore
from . import redis_scripts as scripts

log = logging.getLogger("detok.bridge")

LEASE_SECONDS = 3.0
POLL_SECONDS = 0.5
BATCH_SECONDS = 0.005
# How long commands may fail before runs go on without Redis.
PATIENCE_SECONDS = 0.5
TIMEOUT_SECONDS = 1.0
# Keys live this much longer than a client tries to resume.
SPARE_SECONDS = 30
AHEAD_SECONDS = 1.0

AWAY = "The bridge's store cannot be reached, so no run can begin or be resumed; try again soon."
YOUNG = "The bridge's store has just been started; try again in a few seconds."
DEAD = "The bridge that made this answer was lost; the text so far is kept. Ask again."
LOST = "The bridge's store has lost this answer; the text so far is kept. Ask again."
NOTE = "The bridge's store was away, so this answer could not have been resumed elsewhere."


class StoreError(DetokError):
    """The store cannot be used."""


class Mirror(Run):
    """A run as a session reads it: what is in the log, and nothing else.

    `producer` is what writes to the log, if that is here. `epoch` is that of the last command of a
    reader here; a higher one means that a reader elsewhere has taken over.
    """

    def __init__(self, store: "RedisStore", run_id: str, request: dict[str, Any]) -> None:
        super().__init__(run_id, request, window=store.window, max_log=store.max_log)
        self.store = store
        self.tag = store.tag_of(run_id)
        self.producer: Producer | None = None
        self.epoch = 0
        self.rival = 0  # the highest epoch of a reader elsewhere
        self.claiming = True
        self.cancelled = False
        self.reader: Any = None
        self._applying = False
        self.taking = False  # whether a reader here is about to take the run over
        self.seen = ""  # the id of the last entry that was applied

    def acknowledge(self, n: int) -> None:
        """Note the credit, here and for the producer."""
        taken = self.owner is not self.reader or n < self.acked
        self.reader = self.owner
        super().acknowledge(n)
        if self.producer is not None:
            self.producer.acked = n
            self.producer.wake()
        if not self.claiming:
            self.store.tell(self, taken)

    def apply(self, start: int, header: dict[str, Any], records: bytes) -> bool:
        """Add an entry of the log, without what is here already. Return whether nothing is missing
        before it.
        """
        if self.end is not None:
            return True
        if start > self.position:
            return False
        if "d" in header and not self.data:
            self.begin(header["d"], header.get("m") or None)
        at = start
        self._applying = True  # the reader is woken once
        for op, count, payload in read_records(records):
            skip = self.position - at
            if skip < count:
                payload = payload[wire.split_at(op, payload, skip) :] if skip else payload
                self._add(op, count - skip, payload)
            at += count
        self._applying = False
        if "e" in header:
            self.end = header["e"]
        self._wake_owner()
        return True

    def _wake_owner(self) -> None:
        if not self._applying:
            super()._wake_owner()

    def begin(self, data: str, model: str | None) -> None:
        """Begin with what the producer says. A client that was told another model is refused."""
        told, self.model = self.model, model
        if data != "bytes" and self.owner is not None and told != model:
            self.owner.refuse(
                wire.VOCABULARY_MISMATCH,
                "The ids of this run are of another vocabulary than this bridge has. Start it again.",
            )
        self.start(data)

    def give_way(self) -> None:
        """Stop reading here, if a reader elsewhere has the run now."""
        if self.rival > self.epoch and self.owner is not None and not self.taking:
            self.owner.give_way(time.monotonic())


class Producer(Run):
    """A run as its engine writes it: batches for the log. It has credit as the reader gives it."""

    def __init__(self, mirror: Mirror, claim: str) -> None:
        super().__init__(mirror.id, {}, window=mirror.store.window)
        self.mirror = mirror
        self.claim = claim  # the value of `own`
        self.number = 0  # of the last batch that was applied
        self.batch: Batch | None = None  # that is being appended
        self.epoch = 1
        self.commands = 0  # the epoch of the last command that was obeyed
        self.reader = mirror.store.name
        # Whether the store lacks what was applied, and whether it is to have it again.
        self.unstored = False
        self.orphan = False
        self._records: list[bytes] = []
        self._begun = False
        self._told_end = False

    @property
    def owner(self) -> Any:
        """The session that reads the run here."""
        return self.mirror.owner

    @owner.setter
    def owner(self, _: Any) -> None:
        pass

    @property
    def model(self) -> str | None:
        """What the first client was told that its ids are of."""
        return self.mirror.model

    @model.setter
    def model(self, _: Any) -> None:
        pass

    @property
    def settled(self) -> bool:
        """Whether the log has the run's end."""
        return self.mirror.end is not None and not self.unstored

    def _wake_owner(self) -> None:
        self.mirror.store.write_soon(self)

    def _append(self, op: int, count: int, payload: bytes) -> None:
        self._records.append(record(op, count, payload))

    def next_batch(self) -> "Batch | None":
        """Return the batch to append: the one that waits for an answer, or else all that is new."""
        if self.batch is None and (
            self._records or (self.data and not self._begun) or (self.end and not self._told_end)
        ):
            header: dict[str, Any] = {"s": self.mirror.position}
            if not self._begun:
                header.update(d=self.data, m=self.model) if self.data else None
                self._begun = bool(self.data)
            sha256 = self._hash.copy().digest().hex()
            if self.end is not None:
                self._told_end = True
                header["e"] = {**self.end, "sha256": sha256}
            self.batch = Batch(
                self.number + 1, self.position, header, b"".join(self._records), sha256
            )
            self._records = []
        return self.batch

    def applied(self) -> None:
        """Show the batch to the reader here."""
        batch, self.batch = self.batch, None
        if batch is not None:
            self.number = batch.number
            self.mirror.apply(batch.header["s"], batch.header, batch.records)
        if self._records or (self.end is not None and not self._told_end):
            self._wake_owner()

    def take_credit(self, epoch: int, n: int) -> None:
        """Note the credit that a reader elsewhere gives."""
        if epoch >= self.epoch:
            self.epoch = epoch
            self.acked = n
            self.wake()


class Batch:
    """What is appended to the log at once."""

    def __init__(
        self, number: int, end: int, header: dict[str, Any], records: bytes, sha256: str
    ) -> None:
        self.number = number
        self.end = end
        self.header = header
        self.records = records
        self.sha256 = sha256

    def pack(self) -> bytes:
        """Return the batch as an entry of the log."""
        return json.dumps(self.header, separators=(",", ":")).encode() + b"\n" + self.records


def record(op: int, count: int, payload: bytes) -> bytes:
    """Return one piece of data as it stands in an entry.

    >>> list(read_records(record(wire.IDS, 2, b"ab") + record(wire.BYTES, 1, b"c")))
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


class Keyed(bytes):
    """The digest of a request as Redis has it: equal to the plain one that it was made of."""

    key = b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, bytes) and bytes(self) == keyed(self.key, other)

    __hash__ = bytes.__hash__


def keyed(key: bytes, digest: bytes) -> bytes:
    """Return a digest of a digest that says nothing without the run id, which is a secret."""
    return hmac.new(key, digest, hashlib.sha256).hexdigest().encode()


class RedisStore(RunStore):
    """Runs that all replicas of the bridge share through one Redis or Valkey.

    `url` is redis://, rediss:// or unix://. `secret` keys the hashes of run ids; all replicas need
    the same. `grace` is how long a store that has just been started takes no new runs: for that
    time the replicas put back what it has lost.
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
        super().__init__(**bounds)
        try:
            import redis.asyncio as client
            from redis.exceptions import NoScriptError
        except ImportError:
            raise StoreError(
                "--store needs redis-py; install it with: pip install 'detok_py[serve]'."
            ) from None
        self._no_script = NoScriptError
        self._errors: tuple[type[Exception], ...] = (client.RedisError, OSError, TimeoutError)

        self.name = secrets.token_hex(8)
        self._secret = (
            os.environ.get("DETOK_STORE_SECRET", "") if secret is None else secret
        ).encode()
        self._lease_ms = int(lease * 1000)
        # Producers get time for a failed command, a look and a busy machine.
        self._grace = lease + 2 if grace is None else grace
        self._poll_seconds = poll
        self._ttl = int(self.keep_seconds) + SPARE_SECONDS
        try:
            self._redis: Any = client.Redis.from_url(
                url,
                socket_timeout=TIMEOUT_SECONDS,
                socket_connect_timeout=TIMEOUT_SECONDS,
                retry=None,
                max_connections=16,
            )
        except ValueError as error:
            raise StoreError(
                f"--store is not the address of a Redis: {error}; expected a form like redis://127.0.0.1:6379/0."
            ) from None
        self._shas = {text: hashlib.sha1(text.encode()).hexdigest() for text in scripts.ALL}
        self._by_tag: dict[str, Mirror] = {}
        self._dirty: set[Producer] = set()
        self._told: set[Mirror] = set()  # whose readers here have a command or credit to write
        self._calls = asyncio.Semaphore(8)
        self._wake_writer = asyncio.Event()
        self._wake_poll = asyncio.Event()
        self._poll_now: set[Mirror] = set()
        self._failing_since: float | None = None
        self._away = True
        self._opening = False
        self._unopened = True
        self._expired: list[Run] = []
        self._look_at_all = False
        self._tasks: list[asyncio.Task[None]] = []
        self._stop: Callable[[Run], None] = lambda run: None

    # What the bridge calls.

    async def open(self, stop: Callable[[Run], None]) -> None:
        """Connect. A Redis that is away is tried again and again."""
        if self._opening:
            return
        self._opening = True
        self._stop = stop
        await self._reconnect()
        self._unopened = False
        for work in (self._write_forever, self._poll_forever, self._listen_forever):
            self._tasks.append(asyncio.create_task(self._keep(work)))

    async def close(self) -> None:
        """Append what is left, and disconnect."""
        if self._tasks and not self._away:
            with contextlib.suppress(*self._errors):
                while any([await self._write_producers(), self._dirty]):
                    if self._failing_since is not None:
                        break
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        with contextlib.suppress(*self._errors):
            await self._redis.aclose()

    @property
    def away(self) -> str | None:
        """Why no run can begin."""
        return AWAY if self._away else None

    def create(self, run_id: str, request: dict[str, Any]) -> Run:
        """Begin a run; `produce` claims it."""
        mirror = Mirror(self, run_id, request)
        self.runs[run_id] = self._by_tag[mirror.tag] = mirror
        return mirror

    async def find(self, frame: str | bytes) -> str | None:
        """Fetch the run that a frame wants to resume. A position that the log does not have, after
        Redis has lost its last part, is given a moment to come; then the run counts as gone.
        """
        asked = resumes(frame)
        if asked is None:
            return None
        run_id, after = asked
        mirror = self.runs.get(run_id)
        if isinstance(mirror, Mirror) and (mirror.producer is not None or mirror.claiming):
            return None
        deadline = time.monotonic() + AHEAD_SECONDS
        while True:
            try:
                found, young = await self._fetch(run_id, after)
            except self._errors as error:
                self._failed(error)
                mirror = self.runs.get(run_id)
                return (
                    None if mirror is not None and mirror.base <= after <= mirror.position else AWAY
                )
            if found is None:
                return YOUNG if young else None
            if found.position >= after or found.end is not None or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        if found.position < after:
            self._drop(found)
        return None

    async def produce(self, run: Run) -> Run | None:
        """Claim a run. Return what the engine writes to, or None if another replica has the run."""
        assert isinstance(run, Mirror)
        digest = keyed(run.id.encode(), run.digest).decode()
        value = f"{digest}:{secrets.token_hex(8)}"
        arguments = (value, self.name, self._ttl, self._lease_ms, self._grace)
        status, held = "", ""
        try:
            if not self._away:
                for attempt in (0, 1):
                    try:
                        reply = (await self._call([(scripts.CLAIM, run.tag, arguments)]))[0]
                        status, held = text(reply[0]), text(reply[1])
                        break
                    except self._errors:
                        if attempt:
                            raise
        except self._errors as error:
            self._failed(error)
        if status != "held":
            self._refuse(run, wire.ENGINE_DOWN, YOUNG if status == "young" else AWAY)
            return None
        if held.partition(":")[0] != digest:
            sentence = "This run id belongs to another request; each run needs a new one."
            self._refuse(run, wire.BAD_MESSAGE, sentence)
            return None
        run.claiming = False
        if held != value:
            # Another replica produces it. Take it over as a reader.
            if run.owner is not None:
                self.tell(run, True)
            if run.cancelled:
                self.cancel(run)
            return None
        run.epoch = 1
        run.producer = Producer(run, value)
        run.producer.weight = run.weight
        run.producer.acked = run.acked
        if run.cancelled:
            run.producer.finish("cancelled")
            return None
        return run.producer

    def cancel(self, run: Run) -> bool:
        """Cancel a run, wherever it is produced."""
        assert isinstance(run, Mirror)
        run.cancelled = True
        if run.producer is not None:
            run.producer.finish("cancelled")
            return True
        if not run.claiming and run.end is None:
            self.tell(run, False)
        return False

    def forget(self, run: Run) -> None:
        """Drop a run here and in Redis."""
        mirror = self.runs.get(run.id)
        if not isinstance(mirror, Mirror):
            return
        self._drop(mirror)
        producer = mirror.producer
        if producer is not None:
            producer.orphan = True
            self._spawn(self._forget(mirror.tag, producer.claim))

    def expire(self, now: float) -> list[Run]:
        """Drop what nothing here needs; return the runs whose keys have run out in Redis."""
        gone, self._expired = self._expired, []
        settled: list[Mirror] = []  # kept here too, for a Redis that loses what it has
        for run in list(self.runs.values()):
            if not isinstance(run, Mirror) or run.claiming or run.owner is not None:
                continue
            if run.producer is None:
                if not (run.cancelled and run.end is None):
                    self._drop(run)
            elif run.producer.settled:
                settled.append(run)
            elif run.producer.orphan or run.producer.unstored:
                if now - (run.detached_at or now) >= self.keep_seconds:
                    gone.append(run)
        settled.sort(key=lambda run: run.detached_at or 0.0, reverse=True)
        kept = 0
        for n, run in enumerate(settled):
            kept += run.size
            too_old = now - (run.detached_at or 0.0) >= self.keep_seconds
            if too_old or n >= self.max_runs or kept > self.max_log:
                self._drop(run)
        for run in gone:
            self._drop(run)
        return gone

    # What runs call.

    def tag_of(self, run_id: str) -> str:
        """Return the hash of a run id that its keys have."""
        return hmac.new(self._secret, run_id.encode(), hashlib.sha256).hexdigest()[:32]

    def write_soon(self, producer: Producer) -> None:
        """Append what a producer has, with the next batch."""
        self._dirty.add(producer)
        self._wake_writer.set()

    def tell(self, mirror: Mirror, taken: bool) -> None:
        """Write the credit of a reader here, with the next batch; `taken` if it is a new reader."""
        if not taken and mirror.producer is not None:
            return  # the producer has it
        mirror.taking = mirror.taking or taken
        self._told.add(mirror)
        self._wake_writer.set()

    # Redis.

    def _arguments(self, script: str, tag: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        keys = [f"detok:{{{tag}}}:{part}" for part in ("own", "run", "log", "cmd", "lease")]
        return (self._shas[script], 5, *keys, *arguments)

    async def _call(self, calls: list[tuple[str, str, tuple[Any, ...]]]) -> list[Any]:
        """Run scripts in one round trip; return their replies. Raises what redis-py raises."""
        replies: list[Any] = []
        for attempt in (0, 1):
            pipe = self._redis.pipeline(transaction=False)
            for call in calls:
                pipe.execute_command("EVALSHA", *self._arguments(*call))
            async with self._calls:
                replies = await pipe.execute(raise_on_error=False)
            if not attempt and any(isinstance(reply, self._no_script) for reply in replies):
                await self._load_scripts()  # a Redis that was started again has forgotten them
                continue
            break
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        self._failing_since = None
        return replies

    async def _load_scripts(self) -> None:
        pipe = self._redis.pipeline(transaction=False)
        for script in scripts.ALL:
            pipe.script_load(script)
        await pipe.execute()

    def _failed(self, error: Exception) -> None:
        """Note a failure. After some time of nothing else, runs go on without Redis."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if not self._away and now - self._failing_since >= PATIENCE_SECONDS:
            self._away = True
            log.warning("store_away", extra={"fields": {"kind": type(error).__name__}})
            self._wake_writer.set()

    async def _reconnect(self) -> bool:
        try:
            await self._load_scripts()
        except self._errors as error:
            if self._unopened:
                log.warning("store_away", extra={"fields": {"kind": type(error).__name__}})
            return False
        self._failing_since = None
        if self._away:
            self._away = False
            self._wake_writer.set()
            self._look_at_all = True
            if not self._unopened:
                log.warning("store_back")
        return True

    async def _keep(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do a piece of work again and again; Redis may fail at any time."""
        while True:
            try:
                await work()
            except self._errors as error:
                self._failed(error)
                await asyncio.sleep(0.05)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(
            lambda task: self._tasks.remove(task) if task in self._tasks else None
        )

    async def _forget(self, tag: str, value: str) -> None:
        with contextlib.suppress(*self._errors):
            await self._call([(scripts.FORGET, tag, (value,))])

    def _drop(self, run: Run) -> None:
        self.runs.pop(run.id, None)
        if isinstance(run, Mirror):
            self._by_tag.pop(run.tag, None)
            self._told.discard(run)

    def _refuse(self, run: Mirror, code: int, sentence: str) -> None:
        """Close the socket of a run that cannot begin; its client tries again where that helps."""
        self._drop(run)
        if run.owner is not None:
            run.owner.refuse(code, sentence)

    # Writing.

    async def _write_forever(self) -> None:
        await self._wake_writer.wait()
        self._wake_writer.clear()
        begun = time.monotonic()
        await self._write_producers()
        if not self._away:
            await self._write_readers()
        if self._failing_since is None and not self._away:
            await asyncio.sleep(max(0.0, begun + BATCH_SECONDS - time.monotonic()))

    async def _write_producers(self) -> bool:
        """Append a batch of each producer that has one. Return whether there were any."""
        calls: list[tuple[str, str, tuple[Any, ...]]] = []
        waiting: list[tuple[Producer, Batch]] = []
        dirty, self._dirty = self._dirty, set()
        for producer in dirty:
            batch = producer.next_batch()
            if batch is None:
                continue
            if producer.orphan or producer.unstored or self._away:
                self._go_on_without(producer, batch)
                continue
            waiting.append((producer, batch))
            calls.append(
                (scripts.APPEND, producer.mirror.tag, self._append_arguments(producer, batch))
            )
        if not calls:
            return False
        try:
            replies = await self._call(calls)
        except self._errors as error:
            self._failed(error)
            self._dirty.update([producer for producer, _ in waiting])
            self._wake_writer.set()
            await asyncio.sleep(0.05)
            return True
        for (producer, batch), reply in zip(waiting, replies):
            status = text(reply)
            if status == "ok":
                producer.applied()
            elif status == "lost":
                self._go_on_without(producer, batch)
                self._wake_poll.set()
            else:
                self._end_elsewhere(producer)
        return True

    def _append_arguments(self, producer: Producer, batch: Batch) -> tuple[Any, ...]:
        return (
            producer.claim,
            batch.number,
            batch.end,
            batch.pack(),
            batch.sha256,
            self._lease_ms,
            producer.data,
            producer.model or "",
            int("e" in batch.header),
            producer.mirror.base,
            self.name,
            self._channel(""),
            producer.mirror.tag,
        )

    def _go_on_without(self, producer: Producer, batch: Batch) -> None:
        """Show a batch to the reader here although Redis does not have it."""
        producer.unstored = True
        end = batch.header.get("e")
        if end is not None and end["type"] == "finished":
            end["note"] = f"{end['note']} {NOTE}" if end.get("note") else NOTE
        producer.applied()

    def _end_elsewhere(self, producer: Producer) -> None:
        """Stop a producer whose run was ended elsewhere, because its lease had run out. What was
        shown to a reader here, and is not in the log, is not taken back: then the run goes on here.
        """
        if producer.unstored or producer.orphan:
            producer.orphan = True
            return
        producer.orphan = True
        mirror = producer.mirror
        mirror.producer = None
        self._stop(mirror)
        self._poll_now.add(mirror)
        self._wake_poll.set()

    async def _write_readers(self) -> None:
        """Write the commands and the credit of readers here."""
        told, self._told = self._told, set()
        calls: list[tuple[str, str, tuple[Any, ...]]] = []
        order: list[tuple[Mirror, str]] = []
        for mirror in told:
            end = (self._channel(""), mirror.tag)
            if mirror.owner is None:
                # A late command would take the run from a newer socket elsewhere.
                mirror.taking = False
            if mirror.taking:
                order.append((mirror, "take"))
                arguments = ("take", self.name, mirror.acked, self._ttl, mirror.epoch, *end)
                calls.append((scripts.COMMAND, mirror.tag, arguments))
            elif mirror.cancelled and mirror.end is None:
                order.append((mirror, "cancel"))
                arguments = ("cancel", self.name, mirror.acked, self._ttl, mirror.epoch, *end)
                calls.append((scripts.COMMAND, mirror.tag, arguments))
            elif mirror.producer is None:
                order.append((mirror, "ack"))
                calls.append(
                    (scripts.ACK, mirror.tag, (mirror.epoch, mirror.acked, self.name, *end))
                )
        if not calls:
            return
        try:
            replies = await self._call(calls)
        except self._errors as error:
            self._failed(error)
            self._told.update([mirror for mirror in told if mirror.id in self.runs])
            if not self._away:
                self._wake_writer.set()
            await asyncio.sleep(0.05)
            return
        for (mirror, kind), reply in zip(order, replies):
            epoch = int(reply)
            if kind == "take":
                mirror.taking = False
            if kind == "ack" or epoch <= 0:
                if epoch < 0:
                    mirror.rival = max(mirror.rival, mirror.epoch + 1)
                    mirror.give_way()
                continue
            mirror.epoch = epoch
            if mirror.producer is not None:
                mirror.producer.epoch = epoch
                mirror.producer.reader = self.name
            else:
                self._poll_now.add(mirror)
                self._wake_poll.set()
            if kind == "take" and mirror.cancelled:
                self.tell(mirror, False)
            mirror.give_way()

    # Reading.

    async def _fetch(self, run_id: str, after: int) -> tuple[Mirror | None, bool]:
        """Bring the mirror of a run up to date, or make one that begins at `after`. Return it, and
        whether the store is too young to know the run.
        """
        mirror = self.runs.get(run_id)
        known = isinstance(mirror, Mirror) and mirror.base <= after <= mirror.position
        tag = self.tag_of(run_id)
        begin = mirror.position if known and mirror is not None else after
        arguments = (f"{begin}-0", 0, self._grace, self._dead(), self._channel(""), tag)
        reply = (await self._call([(scripts.FOLLOW, tag, arguments)]))[0]
        status = text(reply[0])
        if status != "ok":
            if mirror is not None and mirror.owner is None:
                self._drop(mirror)
            return None, status == "young"
        if self.runs.get(run_id) is not mirror:
            return await self._fetch(run_id, after)  # it was dropped, or another socket was quicker
        if not known or not isinstance(mirror, Mirror):
            fresh = Mirror(self, run_id, {})
            fresh.claiming = False
            fresh.digest = Keyed(text(reply[7]).partition(":")[0].encode())
            fresh.digest.key = run_id.encode()
            entries = [(key, *unpack(entry)) for key, entry in pairs(reply[6])]
            fresh.base = fresh.position = entries[0][1] if entries else int(reply[5])
            if fresh.base > after and mirror is not None:
                return None, False
            if mirror is not None and mirror.owner is not None:
                mirror.owner.give_way(time.monotonic())
            self.runs[run_id] = self._by_tag[tag] = mirror = fresh
        self._take_reply(mirror, reply)
        return mirror, False

    def _take_reply(self, mirror: Mirror, reply: Any) -> None:
        """Apply what FOLLOW has returned."""
        epoch, reader, data = int(reply[1]), text(reply[2]), text(reply[3])
        if data and not mirror.data:
            mirror.begin(data, text(reply[4]) or None)
        for key, blob in pairs(reply[6]):
            mirror.apply(*unpack(blob))
            mirror.seen = key
        if reader != self.name:
            mirror.rival = max(mirror.rival, epoch)
            mirror.give_way()

    async def _listen_forever(self) -> None:
        async with self._redis.pubsub() as channel:
            await channel.subscribe(self._channel(self.name))
            # What was published before is looked up, and whether Redis still has what it had.
            self._look_at_all = True
            self._wake_poll.set()
            while True:
                message = await channel.get_message(ignore_subscribe_messages=True, timeout=5.0)
                if message is not None:
                    self._hear(message["data"])

    def _hear(self, message: bytes) -> None:
        kind, tag = message[:1], message[1:33].decode()
        mirror = self._by_tag.get(tag)
        if mirror is None:
            return
        rest = message[33:]
        producer = mirror.producer
        if kind == b"D" and producer is None:
            key, _, entry = rest.partition(b" ")
            if mirror.apply(*unpack(entry)):
                mirror.seen = key.decode()
            else:
                self._poll_now.add(mirror)
                self._wake_poll.set()
        elif kind == b"T":
            mirror.rival = max(mirror.rival, int(rest))
            mirror.give_way()
        elif kind == b"A" and producer is not None:
            producer.take_credit(*[int(number) for number in rest.split()])
        elif kind == b"C" and producer is not None:
            epoch, word, reader, n = rest.decode().split(" ")
            self._obey(producer, int(epoch), word, reader, int(n))

    def _obey(self, producer: Producer, epoch: int, word: str, reader: str, n: int) -> None:
        """Do what a reader elsewhere has commanded; once, though it is told and looked up."""
        producer.take_credit(epoch, n)
        if epoch <= producer.commands:
            return
        producer.commands = epoch
        producer.reader = reader
        if word == "cancel":
            producer.finish("cancelled")
            self._stop(producer.mirror)

    async def _poll_forever(self) -> None:
        """Look at every run that is read or produced here."""
        timeout = self._poll_seconds
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake_poll.wait(), timeout)
        self._wake_poll.clear()
        if self._away and not await self._reconnect():
            await asyncio.sleep(self._poll_seconds)
            return
        only, self._poll_now = self._poll_now, set()
        producers = [m.producer for m in self._by_tag.values() if m.producer is not None]
        every, self._look_at_all = self._look_at_all, False
        await self._restore([p for p in producers if p.unstored and not p.orphan])
        await self._renew(
            [p for p in producers if not p.unstored and not p.orphan and (every or not p.settled)]
        )
        await self._follow(
            [
                mirror
                for mirror in {*self._by_tag.values(), *only}
                if mirror.producer is None
                and not mirror.claiming
                and mirror.end is None
                and (mirror.owner is not None or mirror.cancelled)
            ]
        )

    async def _renew(self, producers: list[Producer]) -> None:
        if not producers:
            return
        replies = await self._call(
            [
                (
                    scripts.RENEW,
                    producer.mirror.tag,
                    (
                        producer.claim,
                        self._lease_ms,
                        self._ttl if producer.owner is not None else 0,
                        producer.commands,
                        self._grace,
                    ),
                )
                for producer in producers
            ]
        )
        for producer, reply in zip(producers, replies):
            status = text(reply[0])
            if status == "lost":
                self._expired_or_lost(producer, bool(int(reply[1])))
            elif status == "ok":
                for key, entry in pairs(reply[4]):
                    command = dict(zip(entry[::2], entry[1::2]))
                    self._obey(
                        producer,
                        int(key.partition("-")[0]),
                        command[b"k"].decode(),
                        command[b"r"].decode(),
                        int(command[b"a"]),
                    )
                if text(reply[3]) != self.name:
                    producer.reader = text(reply[3])
                    producer.take_credit(int(reply[1]), int(reply[2] or 0))
                    producer.mirror.rival = max(producer.mirror.rival, int(reply[1]))
                    producer.mirror.give_way()
            elif not producer.settled:
                self._end_elsewhere(producer)

    def _expired_or_lost(self, producer: Producer, young: bool) -> None:
        """The keys are gone. Unless Redis was started again, nothing has read the run for as long
        as it is kept: it ends.
        """
        mirror = producer.mirror
        if not young and mirror.owner is None and mirror.detached_at is not None:
            if time.monotonic() - mirror.detached_at >= self.keep_seconds:
                self._expired.append(mirror)
                return
        producer.unstored = True
        self._wake_poll.set()

    async def _restore(self, producers: list[Producer]) -> None:
        for producer in producers:
            mirror = producer.mirror
            header: dict[str, Any] = {"s": mirror.base}
            if mirror.data:
                header.update(d=mirror.data, m=mirror.model)
            records = []
            at = mirror.base
            while (step := mirror.read(at, mirror.position)) is not None:
                frame, after = step
                records.append(record(frame[0], after - at, frame[1:]))
                at = after
            sha256 = mirror._hash.copy().digest().hex()
            if mirror.end is not None:
                header["e"] = {**mirror.end, "sha256": sha256}
            whole = Batch(producer.number, mirror.position, header, b"".join(records), sha256)
            arguments = (
                producer.claim,
                self.name,
                producer.reader,
                producer.epoch,
                producer.acked,
                whole.number,
                whole.end,
                whole.pack(),
                sha256,
                mirror.data,
                mirror.model or "",
                int(mirror.end is not None),
                self._ttl,
                self._lease_ms,
                self._channel(""),
                mirror.tag,
            )
            reply = await self._call([(scripts.RESTORE, mirror.tag, arguments)])
            # More may have been applied in the meantime; then it is put back once more.
            if text(reply[0]) != "ok":
                producer.orphan = True
            elif producer.number == whole.number:
                producer.unstored = False
                self._dirty.add(producer)
                self._wake_writer.set()
            else:
                self._wake_poll.set()

    async def _follow(self, mirrors: list[Mirror]) -> None:
        if not mirrors:
            return
        replies = await self._call(
            [
                (
                    scripts.FOLLOW,
                    mirror.tag,
                    (
                        f"({mirror.seen}" if mirror.seen else f"{mirror.position}-0",
                        self._ttl if mirror.owner is not None else 0,
                        self._grace,
                        self._dead(),
                        self._channel(""),
                        mirror.tag,
                    ),
                )
                for mirror in mirrors
            ]
        )
        for mirror, reply in zip(mirrors, replies):
            status = text(reply[0])
            if status == "gone":
                # Without a sum: a mirror may not have the beginning.
                end = {"code": wire.ENGINE_DOWN, "message": LOST, "retry": True, "sha256": None}
                mirror._end({"type": "error", **end})
            elif status == "ok":
                self._take_reply(mirror, reply)
                if mirror.cancelled and mirror.end is None:
                    self.tell(mirror, False)

    def _channel(self, name: str) -> str:
        return f"detok:replica:{name}"

    def _dead(self) -> str:
        end = {"type": "error", "code": wire.ENGINE_DOWN, "message": DEAD, "retry": True}
        return json.dumps(end, separators=(",", ":"))[:-1]


def text(value: Any) -> str:
    """Return a reply of Redis as str."""
    return value.decode() if isinstance(value, bytes) else str(value)


def pairs(entries: Any) -> list[tuple[str, Any]]:
    """Return the (id, fields) of entries of a stream."""
    return [(text(key), fields) for key, fields in entries]


def unpack(entry: Any) -> tuple[int, dict[str, Any], bytes]:
    """Return (start, header, records) of an entry of the log.

    >>> unpack(Batch(1, 2, {"s": 0}, b"xy", "").pack())
    (0, {'s': 0}, b'xy')
    """
    blob: bytes = entry if isinstance(entry, bytes) else entry[1]
    head, _, records = blob.partition(b"\n")
    header = json.loads(head)
    return header["s"], header, records


def resumes(frame: str | bytes) -> tuple[str, int] | None:
    """Return the (run id, position) that a frame wants to resume, or None.

    >>> resumes('{"type":"resume","id":"0123456789abcdef","after":3}')
    ('0123456789abcdef', 3)
    """
    if not isinstance(frame, str) or '"resume"' not in frame:
        return None
    try:
        event = wire.read_message(frame)
    except RemoteProtocolError:
        return None
    run_id, after = event.get("id"), event.get("after")
    if event["type"] != "resume" or not isinstance(run_id, str) or not isinstance(after, int):
        return None
    return (run_id, after) if 0 <= after <= wire.MAX_ID else None
