"""The server's side of detok.v1, sans-I/O: runs and their logs, credit, resuming.

In: frames of a client (`str` text, `bytes` binary), and what an engine produces. Out: frames for
the socket, and what the program has to do: start or stop an engine. Held: the log of each run.

A run belongs to no socket: it is kept when its socket is lost, and another socket can continue it.

>>> from detok_py.protocol.client import ClientSession
>>> client, server = ClientSession(), ServerSession(RunStore(), {"engine": {"name": "demo"}})
>>> client.generate(prompt="hi", want="bytes", run_id="0123456789abcdef")
>>> client.opened()
>>> def exchange():
...     out = []
...     for frame in server.frames():
...         out += client.receive(frame)
...     for frame in client.frames():
...         server.receive(frame)
...     return out
>>> exchange()[0].engine["name"]
'demo'
>>> run = server.run
>>> run.start("bytes"); run.add_bytes(b"caf\\xc3"); run.add_bytes(b"\\xa9"); run.finish("eos")
>>> for event in exchange(): print(event)
Started(id='0123456789abcdef', data='bytes', position=0)
Bytes(position=0, data=b'caf\\xc3')
Bytes(position=4, data=b'\\xa9')
Finished(reason='eos', position=5, note=None)
"""

import hashlib
import json
from typing import Any, Callable, Iterable

from ..errors import LocalProtocolError, RemoteProtocolError
from . import wire
from .events import WANTS, WINDOW, new_run_id, next_state

# States of a socket.
IDLE = "idle"  # no run is read here
STARTING = "starting"  # a run is read here; `started` has not been sent
STREAMING = "streaming"  # `started` has been sent; data is sent in this state only
ENDED = "ended"  # the last frame of the run has been sent

# The first five are messages of the client: without a transition they are a RemoteProtocolError.
# The other events are frames that the session sends, and `release`: the socket is lost, or another
# socket continues the run. `ack`, `cancel` and `ping` are allowed in every state and change none.
TRANSITIONS = {
    (IDLE, "generate"): STARTING,
    (IDLE, "resume"): STARTING,
    (STARTING, "resume"): STARTING,
    (STREAMING, "resume"): STARTING,
    (ENDED, "resume"): STARTING,
    (STARTING, "started"): STREAMING,
    (STARTING, "end"): ENDED,  # an engine that fails before it starts
    (STREAMING, "end"): ENDED,
    (STARTING, "release"): IDLE,
    (STREAMING, "release"): IDLE,
    (ENDED, "release"): IDLE,
}

KEEP_SECONDS = 60
MAX_LOG = 8 << 20
MAX_FRAME_DATA = 16 << 10
_SEGMENT_COST = 200  # bytes of bookkeeping that a segment of a log is counted with
_SEGMENT_ROOM = 31  # small pieces that are added to a segment, each of less than 256 bytes
_DROPPED = (0, 0, -1, b"", b"")
MAX_MESSAGES = 256  # of a client at once; MESSAGES_A_SECOND in the long run
MESSAGES_A_SECOND = 64
MESSAGE_SIZE = 16 << 10  # a longer message counts as several
MAX_PENDING = 16 << 20  # characters of the requests of all runs that have not ended
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


class Run:
    """One generation: an append-only log that can be read from any position that is still kept.

    `data` is what the log carries ("bytes", "ids", "both"; "" before `start`). The program lets the
    engine wait while `has_credit` is false, so nothing is dropped for a slow client. `wake` is
    called when credit may have come back; the program sets it. `owner` is the session that reads
    the run, or None; its `wake` is called when there is something to send. `done` is true when the
    client wants nothing more of the run. The program may empty `request` when it has read it; a
    repeated request is compared by its digest. `model` is what the client was told that its ids are of.
    """

    def __init__(
        self,
        run_id: str,
        request: dict[str, Any],
        *,
        window: dict[str, int] | None = None,
        max_log: int = MAX_LOG,
    ) -> None:
        self.id = run_id
        self.request = request
        self.digest = _request_digest(request)
        self.data = ""
        self.position = 0
        self.acked = 0
        self.base = 0  # the first position that the log still has
        self.end: dict[str, Any] | None = None
        self.owner: Any = None
        self.detached_at: float | None = None
        self.done = False
        self.model: str | None = None
        self.wake: Callable[[], None] = _do_nothing
        self._window = window or WINDOW
        self._max_log = max_log
        # A segment is (position, count, op, payload, sizes); those before `_first` have been
        # dropped. `sizes` has the sizes of the pieces that raw bytes came in, if they are small.
        self._segments: list[tuple[int, int, int, bytes, bytes]] = []
        self._first = 0
        self._open_op = -1  # of the last segment, if more can be added to it
        self._room = 0
        self._newest = -1  # the last position at which something was added, and its offset
        self._newest_offset = 0
        self._next = self._next_offset = 0  # where the last `read` ended, and its offset
        self.weight = 0  # characters of the request
        self._size = 0
        self._hash = hashlib.sha256()
        self._sum: str | None = None  # the SHA-256, once the run has ended

    def start(self, data: str) -> None:
        """Set what the log carries; the client now gets `started`."""
        if data not in WANTS:
            raise LocalProtocolError(f"A run carries 'bytes', 'ids' or 'both', not {data!r}.")
        self.data = data
        self._wake_owner()

    def add_bytes(self, data: bytes) -> None:
        """Append raw bytes (a run of "bytes")."""
        if data:
            self._add(wire.BYTES, len(data), bytes(data))

    def add_ids(self, ids: Iterable[int]) -> None:
        """Append token ids (a run of "ids")."""
        ids = list(ids)
        if ids:
            self._add(wire.IDS, len(ids), wire.pack_ids(ids))

    def add_tokens(self, tokens: Iterable[tuple[int, bytes]]) -> None:
        """Append tokens with their bytes (a run of "both")."""
        tokens = list(tokens)
        if tokens:
            self._add(wire.TOKENS, len(tokens), wire.pack_tokens(tokens))

    def add_gap(self, count: int, data: bytes) -> None:
        """Append `count` tokens whose ids are not known, and their bytes (a run of "both")."""
        self._add(wire.GAP, count, wire.pack_gap(count, data))

    def finish(self, reason: str, note: str | None = None) -> None:
        """End the run: "eos", "stop", "length" or "cancelled". `note` is one sentence about what the
        engine lost, if it lost anything.
        """
        self._end({"type": "finished", "reason": reason, "note": note})

    def fail(
        self,
        code: int,
        message: str,
        *,
        retry: bool = False,
        vocabulary: dict[str, Any] | None = None,
    ) -> None:
        """End the run with an error. The client gets the data before it first. `vocabulary` is the
        one that the server has now, if the client has another.
        """
        self._end(
            {
                "type": "error",
                "code": code,
                "message": message,
                "retry": retry,
                "vocabulary": vocabulary,
            }
        )

    def _end(self, end: dict[str, Any]) -> None:
        if self.end is None:
            self.end = end
            self._wake_owner()

    @property
    def unit(self) -> str:
        """What a position counts: "bytes" or "tokens"."""
        return "bytes" if self.data == "bytes" else "tokens"

    @property
    def has_credit(self) -> bool:
        """Whether the engine may go on."""
        return self.position - self.acked < self._window[self.unit]

    @property
    def size(self) -> int:
        """The bytes that the log takes, bookkeeping included."""
        return self._size

    def read(self, position: int, limit: int) -> tuple[bytes, int] | None:
        """Return the next frame after `position` and the position after that frame, or None at the
        end of the log or at `limit`.

        Neighbouring segments of tokens are joined into one frame, up to 16 KiB. Raw bytes are sent
        as the engine cut them: that shows where its tokens ended.
        """
        at = self._find(position)
        out: list[bytes] = []
        size = 0
        op = -1
        while at < len(self._segments):
            start, count, kind, payload, sizes = self._segments[at]
            if op >= 0 and (kind != op or kind in (wire.GAP, wire.BYTES) or size >= MAX_FRAME_DATA):
                break
            if kind == wire.GAP:
                # A gap is not split: it is sent if its last token is within the limit, or if it is
                # the first thing within the limit.
                if start + count > limit and start >= limit:
                    break
                return wire.data_frame(kind, payload), start + count
            skip = position - start
            take = min(start + count, limit) - position
            if kind == wire.BYTES:
                take = min(take, MAX_FRAME_DATA, _left_of_piece(sizes, skip) or take)
            if take <= 0:
                break
            if position == self._newest:
                low = self._newest_offset
            elif skip and position == self._next:
                low = self._next_offset
            else:
                low = wire.split_at(kind, payload, skip)
            high = (
                len(payload) if skip + take == count else wire.split_at(kind, payload, skip + take)
            )
            op = kind
            out.append(payload[low:high])
            size += high - low
            position += take
            self._next = position
            self._next_offset = high
            if position < start + count:
                break
            at += 1
        return (wire.data_frame(op, b"".join(out)), position) if out else None

    def ending(self) -> str:
        """Return the last text frame of the run, with the count and the SHA-256 of all its data."""
        if self._sum is None:
            self._sum = self._hash.digest().hex()  # once: a hash of MicroPython ends with `digest`
        fields: dict[str, Any] = {"id": self.id, "sha256": self._sum, self.unit: self.position}
        fields.update(self.end or {})
        return wire.message(fields.pop("type"), **fields)

    def acknowledge(self, n: int) -> None:
        """Note that the client has everything before `n`, so the log may drop it."""
        self.acked = n
        self._trim()
        self.wake()

    def _wake_owner(self) -> None:
        if self.owner is not None:
            self.owner.wake()

    def _add(self, op: int, count: int, payload: bytes) -> None:
        if self.end is not None:
            raise LocalProtocolError("A run that has ended takes no more data.")
        if op not in wire.OPS.get(self.data, ()):
            raise LocalProtocolError(f"A run of {self.data!r} does not carry op {op}.")
        self._hash.update(payload)
        self._append(op, count, payload)
        self.position += count
        self._trim()
        self._wake_owner()

    def _append(self, op: int, count: int, payload: bytes) -> None:
        """Add to the last segment, or begin another: a segment for each token would take a hundred
        times the memory of a token.
        """
        size = len(payload)
        self._newest = self.position
        if op == self._open_op and count <= self._room and size < 256:
            start, n, _, data, sizes = self._segments[-1]
            if op == wire.BYTES:
                sizes += bytes((size,))
                self._room -= 1
            else:
                self._room -= count
            self._newest_offset = len(data)
            self._segments[-1] = (start, n + count, op, data + payload, sizes)
            self._size += size
            return
        small = size < 256 and op != wire.GAP
        sizes = bytes((size,)) if small and op == wire.BYTES else b""
        self._segments.append((self.position, count, op, payload, sizes))
        self._size += size + _SEGMENT_COST
        self._newest_offset = 0
        self._open_op = op if small else -1
        self._room = _SEGMENT_ROOM

    def _trim(self) -> None:
        """Drop the oldest segments that are acknowledged while the log is larger than it may be."""
        while self._size > self._max_log and self._first < len(self._segments):
            start, count, _, payload, _ = self._segments[self._first]
            if start + count > self.acked:
                break
            self._segments[self._first] = _DROPPED
            self._first += 1
            self._size -= len(payload) + _SEGMENT_COST
            self.base = start + count
        if self._first == len(self._segments):
            self._open_op = -1
        if self._first > 1024:
            del self._segments[: self._first]
            self._first = 0

    def _find(self, position: int) -> int:
        """Return the index of the segment that has `position` (MicroPython has no bisect)."""
        low, high = self._first, len(self._segments)
        if high and position >= self._segments[-1][0] + self._segments[-1][1]:
            return high
        while low < high:
            middle = (low + high) // 2
            if self._segments[middle][0] + self._segments[middle][1] <= position:
                low = middle + 1
            else:
                high = middle
        return low


def _left_of_piece(sizes: bytes, skip: int) -> int:
    """Return how many bytes are left, at offset `skip` of a segment, of the piece that they came
    in; 0 if the segment is one piece.

    >>> _left_of_piece(bytes([3, 4]), 2), _left_of_piece(bytes([3, 4]), 3), _left_of_piece(b"", 3)
    (1, 4, 0)
    """
    end = 0
    for size in sizes:
        end += size
        if end > skip:
            return end - skip
    return 0


class RunStore:
    """The runs that a server keeps: those with a client, and, for `keep_seconds`, those without.

    A run that was received to its end is kept too: the page that received it may be reloaded before
    it knows. Bounds: at most `max_runs` without a client, and at most `max_log` bytes of runs that
    were received to their end. Beyond them, runs that were received to their end are dropped first,
    then the others; in each group, those that lost their client first. The requests of runs that
    have not ended have at most `max_pending` characters in all; beyond them, requests are refused.
    """

    def __init__(
        self,
        *,
        keep_seconds: float = KEEP_SECONDS,
        max_runs: int = 256,
        max_log: int = MAX_LOG,
        max_pending: int = MAX_PENDING,
        window: dict[str, int] | None = None,
    ) -> None:
        self.keep_seconds = keep_seconds
        self.max_runs = max_runs
        self.max_log = max_log
        self.max_pending = max_pending
        self.window = dict(window or WINDOW)
        self.runs: dict[str, Run] = {}

    @property
    def pending(self) -> int:
        """The characters of the requests of all runs that have not ended."""
        return sum([run.weight for run in self.runs.values() if run.end is None])

    def create(self, run_id: str, request: dict[str, Any]) -> Run:
        """Begin a run."""
        run = Run(run_id, request, window=self.window, max_log=self.max_log)
        self.runs[run_id] = run
        return run

    async def open(self, stop: Callable[[Run], None]) -> None:
        """Begin to work. `stop` stops the engine of a run that has ended elsewhere."""

    async def close(self) -> None:
        """End all work."""

    @property
    def away(self) -> str | None:
        """Why no run can begin, in one sentence, or None."""
        return None

    async def find(self, frame: str | bytes) -> str | None:
        """Fetch the run that a frame wants to resume, before a session reads the frame. Return why
        that is not possible, or None. This store has all its runs in memory, and fetches none.
        """
        return None

    async def produce(self, run: Run) -> Run | None:
        """Return what the engine writes to: here the run itself. None if no engine has to start."""
        return run

    def cancel(self, run: Run) -> bool:
        """Cancel a run. Return whether its engine is here, and has to be stopped."""
        run.finish("cancelled")
        return True

    def forget(self, run: Run) -> None:
        """Drop a run. It cannot be resumed after this."""
        self.runs.pop(run.id, None)

    def expire(self, now: float) -> list[Run]:
        """Drop and return the runs that are over a bound; the program stops their engines."""
        away = [run for run in self.runs.values() if run.detached_at is not None]
        away.sort(key=lambda run: (not run.done, run.detached_at or 0.0))
        too_many = len(away) - self.max_runs
        done_bytes = sum([run.size for run in away if run.done])
        gone: list[Run] = []
        for run in away:
            too_large = run.done and done_bytes > self.max_log
            too_old = now - (run.detached_at or 0.0) >= self.keep_seconds
            if len(gone) < too_many or too_large or too_old:
                gone.append(run)
                done_bytes -= run.size if run.done else 0
        for run in gone:
            self.forget(run)
        return gone


class ServerSession:
    """One socket of a server.

    `receive` returns what the program has to do, as (word, run): ("generate", run) starts an
    engine, ("cancel", run) stops it. `frames()` returns what to send now: all that credit allows.
    `run` is the run that is read here, or None. `closing` is the (code, reason) to close the socket
    with, or None. `wake`, which the program sets, is called when there is something to send.

    A program that bounds its clients sets `has_place` to False for a socket beyond the bound. Such
    a socket may continue a run whose socket has a place, and takes that place: the older socket is
    probably half-open. For any other run it needs a new place. If there is none, `full` is one
    sentence, which the program keeps up to date, and the socket is closed with it (4429).

    `engine` is the one that the client has chosen, if it has: the same request of another engine is
    another request.
    """

    def __init__(
        self,
        store: RunStore,
        hello: dict[str, Any],
        *,
        engine: str = "",
        max_prompt: int = wire.MAX_MESSAGE,
        max_pings: int = 20,
    ) -> None:
        self.store = store
        self.engine = engine
        self.run: Run | None = None
        self.closing: tuple[int, str] | None = None
        self.max_prompt = max_prompt
        self.has_place = True
        self.full: str | None = None
        self.wake: Callable[[], None] = _do_nothing
        self._state = IDLE
        self._sent = 0
        self._pings_left: float = max_pings
        self._max_pings = max_pings
        self._pinged_at = 0.0
        self._budget: float = MAX_MESSAGES
        self._heard_at = 0.0
        self._model = model_of(hello)
        fields = dict(hello)
        fields["protocol"] = wire.SUBPROTOCOL
        fields["window"] = store.window
        fields["keep_seconds"] = store.keep_seconds
        self._outbox: list[str | bytes] = [wire.message("hello", **fields)]

    def receive(self, frame: str | bytes, now: float = 0.0) -> list[tuple[str, Run]]:
        """Take a frame of the client; return what there is to do. A breach of the protocol sets
        `closing`; the run can still be resumed.
        """
        if self.closing:
            return []
        try:
            self._spend(len(frame), now)
            _require(isinstance(frame, str), "A client must send text frames only.")
            return self._receive_message(wire.read_message(str(frame)), len(frame), now)
        except RemoteProtocolError as error:
            self.refuse(error.code, str(error))
            return []

    def frames(self) -> list[str | bytes]:
        """Return everything that may be sent now."""
        out, self._outbox = self._outbox, []
        run = self.run
        if run is None or self.closing:
            return out
        if self._state == STARTING and run.data:
            self._go_on("started")
            out.append(wire.message("started", id=run.id, data=run.data, position=self._sent))
        limit = run.acked + self.store.window[run.unit]
        while self._state == STREAMING and self._sent < run.position:
            step = run.read(self._sent, limit)
            if step is None:
                break
            frame, self._sent = step
            out.append(frame)
        if self._state != ENDED and run.end is not None and self._sent >= run.position:
            self._go_on("end")
            out.append(run.ending())
        return out

    def refuse(self, code: int, sentence: str) -> None:
        """Close the socket with a code, and say why."""
        self._send_error(code, sentence, retry=code in wire.RETRY_CODES)
        self.closing = (code, sentence[:100])
        self.wake()

    def give_way(self, now: float) -> None:
        """Stop reading the run, because another socket continues it, here or at another server."""
        self._release(now)
        self.closing = (wire.CANCELLED, "another socket has taken up this run")
        self.wake()

    def claim_place(self, owner: "ServerSession | None" = None) -> bool:
        """Return whether this socket has a place: its own, that of `owner`, or a new one. If not,
        the socket is closed with 4429.
        """
        if self.closing:
            return False
        if not self.has_place and owner is not None and owner.has_place:
            owner.has_place = False
            self.has_place = True
        if not self.has_place:
            self.has_place = self.full is None
            if self.full is not None:
                self._send_error(wire.BUSY, self.full, retry=True)
                self.closing = (wire.BUSY, "too many clients")
                self.wake()
        return self.has_place

    def lost(self, code: int, now: float) -> list[tuple[str, Run]]:
        """End the socket. 1000 and 4499 mean that the client wants no more; after any other code it
        may come back.

        The log is kept in both cases: the client may be a worker whose page is reloaded before it
        has received the end.
        """
        run = self.run
        self._release(now)
        if run is None or code not in (1000, wire.CANCELLED):
            return []
        run.done = True
        return [("cancel", run)] if run.end is None else []

    def _go_on(self, event: str, error: Any = LocalProtocolError) -> None:
        self._state = next_state(TRANSITIONS, self._state, event, error)

    def _send_error(
        self, code: int, sentence: str, run_id: str | None = None, *, retry: bool = False
    ) -> None:
        self._outbox.append(
            wire.message("error", id=run_id, code=code, message=sentence, retry=retry)
        )

    def _spend(self, size: int, now: float) -> None:
        """Count a message: each costs work, and most cost memory, whether the client reads or not.

        An ack that moves on is free: what it acknowledges was sent within the client's credit. So
        is a request whose run the client has received.
        """
        earned = MESSAGES_A_SECOND * max(0.0, now - self._heard_at)
        self._budget = min(MAX_MESSAGES, self._budget + earned) - 1 - size / MESSAGE_SIZE
        self._heard_at = now
        if self._budget < 0:
            raise RemoteProtocolError("Too many messages at once; send fewer.", wire.BUSY)

    def _receive_message(
        self, event: dict[str, Any], size: int, now: float
    ) -> list[tuple[str, Run]]:
        kind = event["type"]
        run = self.run
        if kind == "generate":
            return self._generate(event, size, now)
        if kind == "resume":
            run_id, after = _checked_id(event.get("id")), _checked_count(event, "after")
            self._read(run_id, after, now, "resume")
        elif kind == "ack":
            self._acknowledge(_checked_count(event, "n"), event.get("end") is True)
        elif kind == "cancel":
            return [("cancel", run)] if run is not None and run.end is None else []
        elif kind == "ping":
            self._pong(now)
        else:
            sentence = f"Unknown message {kind[:40]!r}: a client sends generate, cancel, ack, resume or ping."
            self._send_error(wire.BAD_MESSAGE, sentence)
        return []

    def _generate(self, event: dict[str, Any], size: int, now: float) -> list[tuple[str, Run]]:
        run_id = event.get("id")
        run_id = new_run_id() if run_id is None else _checked_id(run_id)
        request = _checked_request(event, self.max_prompt)
        if self.engine:
            request["engine"] = self.engine
        run = self.store.runs.get(run_id)
        if run is not None:
            # The same request again, as the client does not know that it arrived. It runs once.
            same = run.digest == _request_digest(request)
            _require(same, "This run id belongs to another request; each run needs a new one.")
            self._read(run_id, 0, now, "resume")
            return []
        if self.run is not None and self.run.end is not None:
            self._release(now)  # its engine has ended, so the client need not wait for the rest
        next_state(TRANSITIONS, self._state, "generate", RemoteProtocolError)
        if not self.claim_place():
            return []
        if self.store.pending + size > self.store.max_pending:
            raise RemoteProtocolError("Too many requests at once; try again later.", wire.BUSY)
        run = self.store.create(run_id, request)
        run.weight = size
        self._read(run_id, 0, now, "generate")
        return [("generate", run)]

    def _pong(self, now: float) -> None:
        """Answer a ping: `max_pings` at once, two a second in the long run."""
        earned = 2 * max(0.0, now - self._pinged_at)
        self._pings_left = min(self._max_pings, self._pings_left + earned) - 1
        self._pinged_at = now
        if self._pings_left < 0:
            raise RemoteProtocolError("Too many pings: one every 20 seconds is enough.", wire.BUSY)
        self._outbox.append(wire.message("pong"))

    def _acknowledge(self, n: int, end: bool) -> None:
        run = self.run
        if run is None:
            return
        _require(n <= self._sent, f"`ack.n` is {n}, but the last position sent is {self._sent}.")
        if n > run.acked:
            run.acknowledge(n)
            self._budget += 1
        if self._state == ENDED and n == run.position and end and not run.done:
            run.done = True
            self._budget += 2

    def _read(self, run_id: str, after: int, now: float, event: str) -> None:
        """Read a run here from now on. A socket that has read it, probably half-open, is closed.

        If the run is gone, or its log no longer reaches back to `after`, this socket is closed.
        """
        run = self.store.runs.get(run_id)
        if run is None or after < run.base:
            kept = f"{self.store.keep_seconds:g} seconds or {self.store.max_log >> 20} MiB"
            sentence = f"The bridge no longer has this run: it was restarted, or more than {kept} went by. Start it again."
            self._send_error(wire.RESUME_EXPIRED, sentence, run_id)
            self.closing = (wire.RESUME_EXPIRED, "resume expired")
            return
        position = run.position
        _require(
            after <= position, f"`resume.after` is {after}, but the run is only at {position}."
        )
        if not run.data:
            run.model = self._model
        elif run.data != "bytes" and run.model != self._model:
            sentence = "The ids of this run are of another vocabulary than the engine of this connection has. Start it again."
            self._send_error(wire.VOCABULARY_MISMATCH, sentence, run_id)
            self.closing = (wire.VOCABULARY_MISMATCH, "another vocabulary")
            return
        before = run.owner
        if not self.claim_place(before):
            return
        if before is not None and before is not self:
            before.give_way(now)
        if self.run is not run:
            self._release(now)
        self._go_on(event, RemoteProtocolError)
        run.owner = self
        run.detached_at = None
        run.done = False
        run.acknowledge(after)
        self.run = run
        self._sent = after

    def _release(self, now: float) -> None:
        """Stop reading the run: its socket is lost, or reads another run."""
        if self.run is not None:
            self._go_on("release")
            self.run.owner = None
            self.run.detached_at = now
            self.run = None


def _do_nothing() -> None:
    pass


def model_of(hello: dict[str, Any]) -> str | None:
    """Return what a hello says that ids are of: the vocabulary's SHA-256, or else the model.

    >>> model_of({"engine": {"model": "m"}}), model_of({"vocabulary": {"sha256": "ab12"}})
    ('m', 'ab12')
    """
    for part, name in (("vocabulary", "sha256"), ("engine", "model")):
        found = hello.get(part)
        if isinstance(found, dict) and found.get(name):
            return str(found[name])
    return None


def _request_digest(request: dict[str, Any]) -> bytes:
    # Both requests that are compared are made from parsed JSON, in the order of keys of the sender.
    return hashlib.sha256(json.dumps(request).encode("utf-8")).digest()


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise RemoteProtocolError(sentence)


def _checked_id(value: Any) -> str:
    valid = isinstance(value, str) and 16 <= len(value) <= 64 and not value.strip(_ID_LETTERS)
    _require(valid, "A run id must be 16 to 64 random letters, digits, - or _.")
    return str(value)


def _checked_count(event: dict[str, Any], name: str) -> int:
    n = event.get(name, -1)
    valid = isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= wire.MAX_ID
    _require(valid, f"`{event['type']}.{name}` must be an integer from 0 to {wire.MAX_ID}.")
    return int(n)


def _checked_request(event: dict[str, Any], max_prompt: int) -> dict[str, Any]:
    prompt = event.get("prompt")
    messages = event.get("messages")
    params = event.get("params", {})
    want = event.get("want", "both")
    given = (prompt is None) != (messages is None)
    _require(given, "`generate` must have either `prompt` or `messages`.")
    if messages is None:
        _require(isinstance(prompt, str), "`generate.prompt` must be a string.")
    else:
        _require(
            isinstance(messages, list)
            and messages != []
            and all(isinstance(m, dict) for m in messages),
            '`generate.messages` must be a list of objects like {"role":"user","content":"…"}.',
        )
    _require(isinstance(params, dict), "`generate.params` must be an object.")
    _require(want in WANTS, '`generate.want` must be "ids", "bytes" or "both".')
    text: Any = prompt if messages is None else json.dumps(messages)
    size = len(text)
    _require(size <= max_prompt, f"A prompt must have at most {max_prompt} characters, not {size}.")
    return {"prompt": prompt, "messages": messages, "params": params, "want": want}
