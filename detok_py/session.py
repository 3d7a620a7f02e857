"""detok.v1 sessions: order, credit and resume, sans-I/O. The same file runs on the server and in the browser.

In: frames (`str` text, `bytes` binary) and the fact that a socket opened or was lost. Out: events for the program, frames for
the socket. Held: on the client a position and a running SHA-256, on the server the log of each run.

A client, whatever carries its frames:

    session = ClientSession()
    session.generate(prompt="ja: ", want="both")    # a run id is made here; it names the run for as long as it lives
    # whenever a socket opens:          session.opened()
    # whenever a frame arrives:         for event in session.receive(frame): …
    # after every call:                 for frame in session.frames(): socket.send(frame)
    # when `session.closing` is set:    socket.close(*session.closing)
    # whenever the socket is lost:      seconds = session.lost(code); None: it is over, else open a new socket after so long

Events are named tuples, in the order of the stream:

    Hello(engine, vocabulary, window, raw)      the server is there; `vocabulary` is {"sha256", "size", "url"} or None
    Started(id, data, position)                 `data` says what will come: "bytes", "ids" or "both"
    Bytes(position, data)                       raw bytes, cut anywhere
    Tokens(position, ids, pieces)               token ids; `pieces` has their bytes, or is None
    Gap(position, count, data)                  `count` tokens whose ids are not known, and their bytes
    Finished(reason, position, note)            the whole stream is here and its SHA-256 is right
    Failed(code, message, retry, position)      it is over, and this is why; all that came before still counts
    Notice(code, message)                       the server did not understand something; nothing is over
    Pong()

The guarantee: cut the connection after any byte, in either direction, any number of times: the events' data, joined, are what
they would have been without the cut, or a Failed event says that they are not. Position counts what was delivered (tokens; bytes where
`data` is "bytes"), so frames need no sequence number, and a resumed stream goes on exactly there.

>>> store = RunStore()
>>> client, server = ClientSession(), ServerSession(store, {"engine": {"name": "demo"}})
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
import os
from collections import namedtuple
from typing import Any, Callable, Iterable

from . import wire
from .errors import LocalProtocolError, RemoteProtocolError

Hello = namedtuple("Hello", ["engine", "vocabulary", "window", "raw"])
Started = namedtuple("Started", ["id", "data", "position"])
Bytes = namedtuple("Bytes", ["position", "data"])
Tokens = namedtuple("Tokens", ["position", "ids", "pieces"])
Gap = namedtuple("Gap", ["position", "count", "data"])
Finished = namedtuple("Finished", ["reason", "position", "note"])
Failed = namedtuple("Failed", ["code", "message", "retry", "position"])
Notice = namedtuple("Notice", ["code", "message"])
Pong = namedtuple("Pong", [])

WINDOW = {"tokens": 1024, "bytes": 8192}
KEEP_SECONDS = 60
MAX_LOG = 8 << 20
MAX_FRAME_DATA = 16 << 10
WANTS = ("ids", "bytes", "both")
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


_DROPPED = (0, 0, -1, b"")


def new_run_id() -> str:
    """Return a run id that nobody can guess: 128 random bits, in hex. Whoever has it can read the run."""
    return "".join([f"{byte:02x}" for byte in os.urandom(16)])


def backoff(attempt: int, random: float) -> float:
    """Return the seconds to wait before reconnecting for the `attempt`-th time (0 first); `random` is from 0 to 1.

    Doubles from a quarter of a second to ten, and is spread over the upper half, so that many clients don't come back at once.

    >>> [backoff(n, 1.0) for n in range(7)]
    [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0]
    """
    return min(10.0, 0.25 * (1 << min(attempt, 6))) * (0.5 + 0.5 * random)


class ClientSession:
    """The client's side of detok.v1: one run at a time, over as many sockets as it takes.

    `vocabulary_sha256` is the vocabulary that the client decodes with. Where it is given, a server with another one is refused
    (4409): ids decoded with the wrong table are fluent nonsense. `ack_every` is how many positions pass between two acks; while
    `paused` is true no ack is sent and the server's credit runs out, so that a paused page pauses its engine.

    `state` is "idle", "waiting" (asked for, nothing heard), "streaming", "finished" or "failed".
    """

    def __init__(self, vocabulary_sha256: str | None = None, *, ack_every: int = 64, max_attempts: int = 8) -> None:
        self.vocabulary_sha256 = vocabulary_sha256
        self.ack_every = ack_every
        self.max_attempts = max_attempts
        self.paused = False
        self.state = "idle"
        self.run_id = ""
        self.data = ""
        self.position = 0
        self.closing: tuple[int, str] | None = None
        self._request: dict[str, Any] | None = None
        self._hash: Any = None
        self._window = dict(WINDOW)
        self._started = False
        self._acked = 0
        self._attempts = 0
        self._greeted = False
        self._outbox: list[str | bytes] = []

    def generate(
        self,
        *,
        prompt: str | None = None,
        messages: list[dict[str, Any]] | None = None,
        params: dict[str, Any] | None = None,
        want: str = "both",
        run_id: str | None = None,
    ) -> None:
        """Ask for a run. Before the server's hello it waits; after a loss it is asked for again under the same id.

        Raises LocalProtocolError while another run goes on, or when neither or both of `prompt` and `messages` are given.
        """
        if self.state in ("waiting", "streaming"):
            raise LocalProtocolError("a run is going on; cancel it or wait for its end before asking for another")
        if (prompt is None) == (messages is None):
            raise LocalProtocolError("a run starts from a prompt or from messages, one of the two")
        if want not in WANTS:
            raise LocalProtocolError(f"want is {want!r}; it can be 'ids', 'bytes' or 'both'")
        self._begin(run_id or new_run_id(), 0, hashlib.sha256())
        self._request = {"id": self.run_id, "prompt": prompt, "messages": messages, "params": params or {}, "want": want}
        if self._greeted:
            self._ask()

    def attach(self, run_id: str, after: int = 0) -> None:
        """Take up a run that an earlier session began (a reloaded page, a replaced worker), after `after` positions.

        With `after=0` the whole stream comes again and is checked against its SHA-256. With `after` beyond 0 the start is in
        other hands, so only order and count can be checked.
        """
        if self.state in ("waiting", "streaming"):
            raise LocalProtocolError("a run is going on; cancel it or wait for its end before taking up another")
        self._begin(run_id, after, None if after else hashlib.sha256())
        self._request = None
        self._started = True
        if self._greeted:
            self._ask()

    def cancel(self) -> None:
        """Ask the server to stop. What the engine gave already still arrives, then Finished("cancelled"). Ends a pause."""
        self.paused = False
        if self.state in ("waiting", "streaming") and self._greeted:
            self.acknowledge()
            self._outbox.append(wire.message("cancel", id=self.run_id))

    def ping(self) -> None:
        """Ask for a sign of life; a Pong comes. Browsers can't send the WebSocket's own pings."""
        self._outbox.append(wire.message("ping"))

    def acknowledge(self) -> None:
        """Say now how far the stream has come. Done by itself every `ack_every` positions, unless `paused`."""
        if self.state == "streaming" and self._started and self.position > self._acked:
            self._acked = self.position
            self._outbox.append(wire.message("ack", n=self.position))

    def opened(self) -> None:
        """A socket is open. Nothing is sent before the server's hello."""
        self._greeted = False
        self._outbox = []
        self.closing = None

    def lost(self, code: int = 1006, random: float = 1.0) -> float | None:
        """The socket is gone. Return the seconds after which to open another, or None where it would be of no use.

        While a run goes on, 1001, 1006, 1012, 4429 and 4503 are tried again, `max_attempts` times in a row without hearing anything.
        """
        self._greeted = False
        self._outbox = []
        if self.state not in ("waiting", "streaming") or code not in wire.RETRY_CODES or self._attempts >= self.max_attempts:
            return None
        self._attempts += 1
        return backoff(self._attempts - 1, random)

    def give_up(self, code: int, message: str) -> list[Any]:
        """End the run on this side: after `lost` returned None, or when the program has waited long enough."""
        if self.state not in ("waiting", "streaming"):
            return []
        self.state = "failed"
        return [Failed(code, message, code in wire.RETRY_CODES, self.position)]

    def frames(self) -> list[str | bytes]:
        """Return what is to be sent now, and forget it."""
        out, self._outbox = self._outbox, []
        return out

    def receive(self, frame: str | bytes) -> list[Any]:
        """Take a frame of the server; return its events.

        What breaks the protocol ends the run with a Failed event and sets `closing`; nothing that came before is lost.
        """
        if self.closing:
            return []
        try:
            if isinstance(frame, str):
                return self._receive_message(wire.read_message(frame))
            return self._receive_data(bytes(frame))
        except RemoteProtocolError as error:
            return self._refuse(error.code, "The bridge sent " + str(error) + ".")

    # ------------------------------------------------------------------

    def _begin(self, run_id: str, position: int, digest: Any) -> None:
        self.run_id = run_id
        self.state = "waiting"
        self.data = ""
        self.position = self._acked = position
        self._hash = digest
        self._started = False
        self._attempts = 0

    def _ask(self) -> None:
        """Ask for the run, or for the rest of it: before `started` was heard nobody can know whether the request arrived, so it is sent
        again whole, and the id keeps it from running twice."""
        if self._started or self._request is None:
            self._acked = self.position
            self._outbox.append(wire.message("resume", id=self.run_id, after=self.position))
        else:
            request = self._request
            self._outbox.append(
                wire.message(
                    "generate",
                    id=request["id"],
                    prompt=request["prompt"],
                    messages=request["messages"],
                    params=request["params"],
                    want=request["want"],
                )
            )

    def _refuse(self, code: int, sentence: str) -> list[Any]:
        self.closing = (code, sentence[:100])
        self._outbox = []
        return self.give_up(code, sentence)

    def _receive_message(self, event: dict[str, Any]) -> list[Any]:
        kind = event["type"]
        if kind == "hello":
            return self._hello(event)
        if not self._greeted:
            raise RemoteProtocolError(f"a {kind!r} message before its hello")
        if kind == "pong":
            return [Pong()]
        if kind == "error":
            return self._error(event)
        if event.get("id") != self.run_id or self.state not in ("waiting", "streaming"):
            # An echo of a run that this side has already given up.
            return []
        if kind == "started":
            return self._start(event)
        if kind == "finished":
            return self._finish(event)
        # A later server may say more than this client knows.
        return []

    def _hello(self, event: dict[str, Any]) -> list[Any]:
        if event.get("protocol") != wire.SUBPROTOCOL:
            return self._refuse(
                wire.WRONG_SUBPROTOCOL,
                f"The bridge speaks {event.get('protocol')!r}; this client speaks {wire.SUBPROTOCOL!r}: update the older of the two.",
            )
        vocabulary = event.get("vocabulary")
        window = event.get("window")
        if isinstance(window, dict):
            for unit in self._window:
                if isinstance(window.get(unit), int) and window[unit] > 0:
                    self._window[unit] = window[unit]
        out: list[Any] = [Hello(event.get("engine") or {}, vocabulary, self._window, event)]
        served = vocabulary.get("sha256") if isinstance(vocabulary, dict) else None
        if self.vocabulary_sha256 and served and served != self.vocabulary_sha256:
            return out + self._refuse(
                wire.VOCABULARY_MISMATCH,
                f"The engine's vocabulary is {served[:12]}… and this page decodes with {self.vocabulary_sha256[:12]}…; "
                "reload the vocabulary from the bridge, because ids of one read with the other give wrong text.",
            )
        self._greeted = True
        if self.state in ("waiting", "streaming"):
            self._ask()
        return out

    def _start(self, event: dict[str, Any]) -> list[Any]:
        data, at = event.get("data"), event.get("position")
        if data not in WANTS or at != self.position or (self.data and data != self.data):
            raise RemoteProtocolError(f"a start at {at!r} with {data!r} where {self.position} was asked for")
        self._attempts = 0
        self._started = True
        self.state = "streaming"
        self.data = str(data)
        return [Started(self.run_id, self.data, self.position)]

    def _receive_data(self, frame: bytes) -> list[Any]:
        op, entries = wire.read_data(frame)
        if self.state != "streaming":
            if self.state == "waiting":
                raise RemoteProtocolError("data before it said started")
            return []
        if (op == wire.BYTES) != (self.data == "bytes") or (op == wire.IDS) != (self.data == "ids"):
            raise RemoteProtocolError(f"a data frame with op {op} in a stream of {self.data}")
        at = self.position
        event: Any
        if op == wire.BYTES:
            count, event = len(entries), Bytes(at, entries)
        elif op == wire.IDS:
            count, event = len(entries), Tokens(at, entries, None)
        elif op == wire.TOKENS:
            count, event = len(entries), Tokens(at, [i for i, _ in entries], [piece for _, piece in entries])
        else:
            count, event = entries[0], Gap(at, entries[0], entries[1])
        unit = "bytes" if op == wire.BYTES else "tokens"
        if at + count - self._acked > self._window[unit] + (count if op == wire.GAP else 0):
            raise RemoteProtocolError(f"more than the {self._window[unit]} {unit} it had credit for")
        if self._hash is not None:
            self._hash.update(frame[1:])
        self._attempts = 0
        self.position = at + count
        # A server with a small window would wait for ever for an ack that comes after more than it may send.
        step = min(self.ack_every * (8 if op == wire.BYTES else 1), max(1, self._window[unit] // 2))
        if not self.paused and self.position - self._acked >= step:
            self.acknowledge()
        return [event] if count else []

    def _check_sum(self, event: dict[str, Any]) -> None:
        """A stream that differs from what the server sent is never passed off as whole."""
        total = event.get("bytes" if self.data == "bytes" else "tokens")
        if total != self.position:
            raise RemoteProtocolError(f"an end after {total!r} where {self.position} had arrived")
        if self._hash is not None and event.get("sha256") != _hex(self._hash):
            raise RemoteProtocolError("an end whose SHA-256 is not that of what arrived")

    def _finish(self, event: dict[str, Any]) -> list[Any]:
        if self.state != "streaming":
            raise RemoteProtocolError("an end before it said started")
        self._check_sum(event)
        self.state = "finished"
        self._acknowledge_end()
        return [Finished(str(event.get("reason")), self.position, event.get("note"))]

    def _acknowledge_end(self) -> None:
        """Tell the server that everything is here: where it has no room for all runs, this one may go first."""
        self._acked = self.position
        self._outbox.append(wire.message("ack", n=self.position, end=True))

    def _error(self, event: dict[str, Any]) -> list[Any]:
        code, text = event.get("code"), str(event.get("message", ""))
        code = code if isinstance(code, int) else wire.BAD_MESSAGE
        if "id" not in event:
            return [Notice(code, text)]
        if event["id"] != self.run_id or self.state not in ("waiting", "streaming"):
            return []
        if self.state == "streaming" and "sha256" in event:
            self._check_sum(event)
        self.state = "failed"
        return [Failed(code, text, bool(event.get("retry")), self.position)]


class Run:
    """One generation on the server: an append-only log that a client can read from any position that is still kept.

    `data` is what the log carries ("bytes", "ids", "both"). The rim lets the engine wait while `has_credit` is false, and so nothing is
    ever dropped for a slow client. `wake` is called when credit may have come back; `owner` is the session that reads the run, and its
    `wake` is called when there is something to send. The rim sets both. `done` says that the reader has heard all that it wants.
    """

    def __init__(self, run_id: str, request: dict[str, Any], *, window: dict[str, int] | None = None, max_log: int = MAX_LOG) -> None:
        self.id = run_id
        self.request = request
        self.digest = _request_digest(request)
        self.data = ""
        self.position = 0
        self.acked = 0
        self.base = 0
        self.end: dict[str, Any] | None = None
        self.owner: Any = None
        self.detached_at: float | None = None
        self.done = False
        self.wake: Callable[[], None] = _nothing
        self._window = window or WINDOW
        self._max_log = max_log
        # A segment is (position, positions, op, payload); those before `_first` have been dropped.
        self._segments: list[tuple[int, int, int, bytes]] = []
        self._first = 0
        self._size = 0
        self._hash = hashlib.sha256()
        self._sum: str | None = None  # of everything, once it is known

    def start(self, data: str) -> None:
        """Say what the engine gives; from here on the client hears `started`."""
        if data not in WANTS:
            raise LocalProtocolError(f"a run carries 'bytes', 'ids' or 'both', not {data!r}")
        self.data = data
        self._tell()

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
        """Append `count` tokens whose ids nobody knows, and the bytes that they made (a run of "both")."""
        self._add(wire.GAP, count, wire.pack_gap(count, data))

    def finish(self, reason: str, note: str | None = None) -> None:
        """The engine is done: "eos", "stop", "length", "cancelled". `note` is one sentence about what the engine lost, if it did."""
        if self.end is None:
            self.end = {"type": "finished", "reason": reason, "note": note}
            self._tell()

    def fail(self, code: int, message: str, *, retry: bool = False) -> None:
        """The engine is gone. The client gets everything up to here, then the error; never a false end."""
        if self.end is None:
            self.end = {"type": "error", "code": code, "message": message, "retry": retry}
            self._tell()

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
        """Return the next frame after `position` and the position after it, or None where the log or the limit ends.

        Neighbouring segments of tokens go into one frame, up to 16 KiB. Raw bytes go as the engine cut them, because there the cut is all
        that is left to see of its tokens.
        """
        at = self._find(position)
        out: list[bytes] = []
        size = 0
        op = -1
        while at < len(self._segments):
            start, count, kind, payload = self._segments[at]
            if op >= 0 and (kind != op or kind in (wire.GAP, wire.BYTES) or size >= MAX_FRAME_DATA):
                break
            if kind == wire.GAP:
                # A gap is one thing: it goes when its last token fits, and a gap larger than the window goes alone.
                if start + count > limit and start >= limit:
                    break
                return wire.data_frame(kind, payload), start + count
            take = min(start + count, limit) - position
            if take <= 0:
                break
            low = wire.split_at(kind, payload, position - start)
            high = wire.split_at(kind, payload, position - start + take) if take < start + count - position else len(payload)
            if kind == wire.BYTES and high - low > MAX_FRAME_DATA:
                high = low + MAX_FRAME_DATA
                take = MAX_FRAME_DATA
            op = kind
            out.append(payload[low:high])
            size += high - low
            position += take
            if position < start + count:
                break
            at += 1
        if op < 0:
            return None
        return wire.data_frame(op, b"".join(out)), position

    def ending(self) -> str:
        """Return the last text frame of the run, with the count and the SHA-256 of everything that was delivered."""
        end = self.end or {}
        if self._sum is None:
            self._sum = _hex(self._hash)  # once: MicroPython's hashes end with it
        fields = {"id": self.id, "sha256": self._sum, self.unit: self.position}
        for name in end:
            if name != "type":
                fields[name] = end[name]
        return wire.message(end["type"], **fields)

    def acknowledge(self, n: int) -> None:
        """The client has applied everything before `n`; what the log no longer has room for may go."""
        self.acked = n
        self._trim()
        self.wake()

    def _tell(self) -> None:
        if self.owner is not None:
            self.owner.wake()

    def _add(self, op: int, count: int, payload: bytes) -> None:
        if self.end is not None:
            raise LocalProtocolError("a run that has ended takes no more data")
        if (op == wire.BYTES) != (self.data == "bytes") or (op == wire.IDS) != (self.data == "ids"):
            raise LocalProtocolError(f"a run of {self.data!r} does not carry op {op}")
        self._hash.update(payload)
        self._segments.append((self.position, count, op, payload))
        self._size += len(payload) + 160
        self.position += count
        self._trim()
        self._tell()

    def _trim(self) -> None:
        """Forget the oldest segments that are acknowledged while the log is larger than it may be."""
        while self._size > self._max_log and self._first < len(self._segments):
            start, count, _, payload = self._segments[self._first]
            if start + count > self.acked:
                break
            self._segments[self._first] = _DROPPED
            self._first += 1
            self._size -= len(payload) + 160
            self.base = start + count
        if self._first > 1024:
            del self._segments[: self._first]
            self._first = 0

    def _find(self, position: int) -> int:
        """The index of the segment that holds `position` (no bisect in MicroPython)."""
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


class RunStore:
    """The runs that a bridge keeps: those with a client, and for `keep_seconds` those that lost theirs.

    A run that was heard to its end is kept as well: the page that heard it may be loaded again before it knows. Bounded: at most
    `max_runs` without a client, and of those heard to their end `max_log` bytes in all; beyond that these go first, and the ones lost the
    longest ago.
    """

    def __init__(
        self, *, keep_seconds: float = KEEP_SECONDS, max_runs: int = 256, max_log: int = MAX_LOG, window: dict[str, int] | None = None
    ) -> None:
        self.keep_seconds = keep_seconds
        self.max_runs = max_runs
        self.max_log = max_log
        self.window = dict(window or WINDOW)
        self.runs: dict[str, Run] = {}

    def create(self, run_id: str, request: dict[str, Any]) -> Run:
        """Begin a run."""
        run = Run(run_id, request, window=self.window, max_log=self.max_log)
        self.runs[run_id] = run
        return run

    def forget(self, run: Run) -> None:
        """Drop a run. It can't be resumed after this."""
        self.runs.pop(run.id, None)

    def expire(self, now: float) -> list[Run]:
        """Drop and return the runs whose client has been away too long; the rim stops their engines."""
        away = [run for run in self.runs.values() if run.detached_at is not None]
        away.sort(key=lambda run: (not run.done, run.detached_at or 0.0))
        too_many = len(away) - self.max_runs
        done_bytes = sum([run.size for run in away if run.done])
        gone: list[Run] = []
        for run in away:
            too_large = run.done and done_bytes > self.max_log
            if len(gone) < too_many or too_large or now - (run.detached_at or 0.0) >= self.keep_seconds:
                gone.append(run)
                done_bytes -= run.size if run.done else 0
        for run in gone:
            self.forget(run)
        return gone


class ServerSession:
    """The server's side of detok.v1 for one socket.

    `receive` returns what the rim has to do, as (word, run): ("generate", run) starts an engine, ("cancel", run) stops it.
    `frames()` returns what to send now: everything that credit allows. `closing` is set when the socket has to be closed.
    """

    def __init__(self, store: RunStore, hello: dict[str, Any], *, max_prompt: int = wire.MAX_MESSAGE, max_pings: int = 20) -> None:
        self.store = store
        self.run: Run | None = None
        self.closing: tuple[int, str] | None = None
        self.max_prompt = max_prompt
        self.wake: Callable[[], None] = _nothing
        self._pings_left: float = max_pings
        self._max_pings = max_pings
        self._pinged_at = 0.0
        self._sent = 0
        self._announced = False
        self._ended = False
        fields = dict(hello)
        fields["protocol"] = wire.SUBPROTOCOL
        fields["window"] = store.window
        fields["keep_seconds"] = store.keep_seconds
        self._outbox: list[str | bytes] = [wire.message("hello", **fields)]

    def receive(self, frame: str | bytes, now: float = 0.0) -> list[tuple[str, Run]]:
        """Take a frame of the client; return what there is to do. A breach of the protocol sets `closing`; the run can still be resumed."""
        if self.closing:
            return []
        try:
            if not isinstance(frame, str):
                raise RemoteProtocolError("a binary frame from the client; a client sends text frames only")
            return self._receive_message(wire.read_message(frame), now)
        except RemoteProtocolError as error:
            self._close(error.code, str(error))
            return []

    def frames(self) -> list[str | bytes]:
        """Return everything that may be sent now."""
        out, self._outbox = self._outbox, []
        run = self.run
        if run is None or run.owner is not self or self.closing:
            return out
        if not self._announced and (run.data or run.end is not None):
            self._announced = True
            if run.data:
                out.append(wire.message("started", id=run.id, data=run.data, position=self._sent))
        if self._announced and not self._ended:
            limit = run.acked + self.store.window[run.unit]
            while self._sent < run.position:
                step = run.read(self._sent, limit)
                if step is None:
                    break
                frame, self._sent = step
                out.append(frame)
            if run.end is not None and self._sent >= run.position:
                self._ended = True
                out.append(run.ending())
        return out

    def lost(self, code: int, now: float) -> list[tuple[str, Run]]:
        """The socket is gone. 1000 and 4499 mean that the client wants no more; anything else, that it may come back.

        What was said is kept in either case: a client may be a worker, and its page may be loaded again before it has heard the end.
        """
        run = self.run
        if run is None or run.owner is not self:
            return []
        self._release(now)
        if code not in (1000, wire.CANCELLED):
            return []
        run.done = True
        return [("cancel", run)] if run.end is None else []

    def _close(self, code: int, sentence: str) -> None:
        self._outbox.append(wire.message("error", code=code, message=sentence, retry=False))
        self.closing = (code, sentence[:100])

    def _receive_message(self, event: dict[str, Any], now: float) -> list[tuple[str, Run]]:
        kind = event["type"]
        if kind == "generate":
            return self._generate(event, now)
        if kind == "resume":
            return self._resume(event, now)
        if kind == "ack":
            return self._ack(event)
        if kind == "cancel":
            run = self.run
            return [("cancel", run)] if run is not None and run.owner is self and run.end is None else []
        if kind == "ping":
            # Two a second in the long run, `max_pings` at once: a sign of life, not a way to keep a server busy.
            self._pings_left = min(self._max_pings, self._pings_left + 2 * max(0.0, now - self._pinged_at)) - 1
            self._pinged_at = now
            if self._pings_left < 0:
                self._close(wire.BUSY, "too many pings; one every 20 seconds is enough")
            else:
                self._outbox.append(wire.message("pong"))
            return []
        sentence = f"detok.v1 has no message {kind[:40]!r}; a client sends generate, cancel, ack, resume or ping"
        self._outbox.append(wire.message("error", code=wire.BAD_MESSAGE, message=sentence, retry=False))
        return []

    def _generate(self, event: dict[str, Any], now: float) -> list[tuple[str, Run]]:
        run_id = event.get("id")
        run_id = new_run_id() if run_id is None else _checked_id(run_id)
        request = _checked_request(event, self.max_prompt)
        run = self.store.runs.get(run_id)
        if run is not None:
            # The same request again: the client never heard that it had arrived. It runs once.
            if run.digest != _request_digest(request):
                raise RemoteProtocolError("a run id that was used for another request; make a new one for every run")
            self._take(run_id, 0, now)
            return []
        if self.run is not None and self.run.owner is self and self.run.end is None:
            raise RemoteProtocolError("a second generate while a run goes on; one generation a socket at a time")
        run = self.store.create(run_id, request)
        self._take(run_id, 0, now)
        return [("generate", run)]

    def _resume(self, event: dict[str, Any], now: float) -> list[tuple[str, Run]]:
        self._take(_checked_id(event.get("id")), _checked_count(event.get("after"), "after"), now)
        return []

    def _ack(self, event: dict[str, Any]) -> list[tuple[str, Run]]:
        n = _checked_count(event.get("n"), "n")
        run = self.run
        if run is None or run.owner is not self:
            return []
        if n > self._sent:
            raise RemoteProtocolError(f"an ack of {n} where only {self._sent} was sent")
        if n > run.acked:
            run.acknowledge(n)
        if self._ended and n == run.position and event.get("end") is True:
            run.done = True
        return []

    def _take(self, run_id: str, after: int, now: float) -> None:
        """This socket reads the run from now on; a socket that did so before (half-open, most likely) is told to go.

        A run that is gone, or whose log no longer reaches back to `after`, is said to be gone, and this socket is closed.
        """
        run = self.store.runs.get(run_id)
        if run is None or after < run.base:
            kept = f"{self.store.keep_seconds:g} seconds or {self.store.max_log >> 20} MiB"
            sentence = f"the bridge no longer has that run: it was restarted, or more than {kept} went by; start it again"
            self._outbox.append(wire.message("error", id=run_id, code=wire.RESUME_EXPIRED, message=sentence, retry=False))
            self.closing = (wire.RESUME_EXPIRED, "resume expired")
            return
        if after > run.position:
            raise RemoteProtocolError(f"a resume after {after} of a run that is only at {run.position}")
        before = run.owner
        if before is not None and before is not self:
            before.closing = (wire.CANCELLED, "another socket has taken up this run")
            before.wake()
        if self.run is not run:
            self._release(now)
        run.owner = self
        run.detached_at = None
        run.done = False
        run.acknowledge(after)
        self.run = run
        self._sent = after
        self._announced = self._ended = False

    def _release(self, now: float) -> None:
        """This socket reads its run no more: it is gone, or has gone on to another."""
        if self.run is not None and self.run.owner is self:
            self.run.owner = None
            self.run.detached_at = now
        self.run = None


def _nothing() -> None:
    pass


def _hex(digest: Any) -> str:
    return "".join([f"{byte:02x}" for byte in digest.digest()])


def _request_digest(request: dict[str, Any]) -> bytes:
    # Both sides of the comparison are made here, from parsed JSON, so the order of keys is the sender's own both times.
    return hashlib.sha256(json.dumps(request).encode("utf-8")).digest()


def _checked_id(value: Any) -> str:
    if not isinstance(value, str) or not 16 <= len(value) <= 64 or value.strip(_ID_LETTERS):
        raise RemoteProtocolError("a run id that is not 16 to 64 letters, digits, - or _; make it random, because it opens the run")
    return value


def _checked_count(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or value > wire.MAX_ID:
        raise RemoteProtocolError(f'a message whose "{name}" is not a count')
    return value


def _checked_request(event: dict[str, Any], max_prompt: int) -> dict[str, Any]:
    prompt, messages, params, want = event.get("prompt"), event.get("messages"), event.get("params", {}), event.get("want", "both")
    if (prompt is None) == (messages is None):
        raise RemoteProtocolError("a generate with neither or both of prompt and messages; it takes one of the two")
    if prompt is not None and not isinstance(prompt, str):
        raise RemoteProtocolError("a generate whose prompt is not a string")
    if messages is not None and not (isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages)):
        raise RemoteProtocolError('a generate whose messages are not a list of objects like {"role":"user","content":"…"}')
    if not isinstance(params, dict):
        raise RemoteProtocolError("a generate whose params are not an object")
    if want not in WANTS:
        raise RemoteProtocolError('a generate whose want is none of "ids", "bytes", "both"')
    size = len(prompt) if prompt is not None else len(json.dumps(messages))
    if size > max_prompt:
        raise RemoteProtocolError(f"a prompt of {size} characters; this bridge takes at most {max_prompt}")
    return {"prompt": prompt, "messages": messages, "params": params, "want": want}
