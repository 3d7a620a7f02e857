"""The server's side of one detok.v1 socket, sans-I/O: the run that it reads, credit, resuming.

In: frames of a client (`str` text, `bytes` binary), and the logs of runs. Out: frames for the
socket, and commands for the program: start or stop an engine. Held: the position sent so far.

>>> from detok_py.protocol.client import ClientSession
>>> client, server = ClientSession(), ServerSession(Runs(), {"engine": {"name": "demo"}})
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
>>> log = server.run.log
>>> log.start("bytes"); log.add_bytes(b"caf\\xc3"); log.add_bytes(b"\\xa9"); log.finish("eos")
>>> for event in exchange(): print(event)
Started(id='0123456789abcdef', data='bytes', position=0, start='')
Bytes(position=0, data=b'caf\\xc3')
Bytes(position=4, data=b'\\xa9')
Finished(reason='eos', position=5, note=None)
"""

from typing import Any, Callable

from ..errors import LocalProtocolError, RemoteProtocolError
from . import wire
from .events import WANTS, new_run_id, next_state
from .log import do_nothing
from .reader import ANYONE, Attempt
from .runs import Run, Runs, request_digest

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
    (STARTING, "end"): ENDED,  # the engine failed before it started
    (STREAMING, "end"): ENDED,
    (STARTING, "release"): IDLE,
    (STREAMING, "release"): IDLE,
    (ENDED, "release"): IDLE,
}

MAX_MESSAGES = 256  # that a client may send at once; MESSAGES_A_SECOND in the long run
MESSAGES_A_SECOND = 64
MESSAGE_SIZE = 16 << 10  # a longer message counts as several
MAX_PINGS = 20
PINGS_A_SECOND = 2
_ID_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


class Allowance:
    """A rate limit (token bucket): `most` at once, `each_second` in the long run.

    >>> pings = Allowance(2, 1)
    >>> [pings.spend(1, now) for now in (0.0, 0.0, 0.0, 1.5)]
    [True, True, False, True]
    """

    def __init__(self, most: float, each_second: float) -> None:
        self.left: float = most
        self._most = most
        self._each_second = each_second
        self._at = 0.0

    def spend(self, cost: float, now: float) -> bool:
        """Spend `cost` and return True, or return False if too little is left."""
        left = min(self._most, self.left + self._each_second * max(0.0, now - self._at))
        self._at = now
        self.left = left - cost if left >= cost else left
        return left >= cost


class ServerSession:
    """One socket of a server.

    `receive` returns commands for the program: ("generate", run) to start an engine, ("cancel",
    run) to stop it. `frames()` returns the frames to send now, as far as credit allows. `run` is
    the run that this socket reads, or None. `closing` is the (code, reason) to close the socket
    with, or None. The session calls `wake`, which the program sets, when there is something to
    send.

    A program that limits its clients sets `has_place` to False for a socket beyond the limit. Such
    a socket may continue a run whose socket has a place, and takes that place: the older socket is
    probably half-open. For any other run it needs a new place. While no place is free, the program
    sets `full` to one sentence, and the session closes the socket with it (4429).

    `engine` is the name of the engine that the client has chosen, or "". Equal requests for
    different engines are different requests.
    """

    def __init__(self, runs: Runs, hello: dict[str, Any], *, engine: str = "") -> None:
        self.runs = runs
        self.engine = engine
        self.run: Run | None = None
        self.closing: tuple[int, str] | None = None
        self.has_place: bool = True
        self.full: str | None = None
        self.wake: Callable[[], None] = do_nothing
        self._state = IDLE
        self._sent = 0
        self._messages = Allowance(MAX_MESSAGES, MESSAGES_A_SECOND)
        self._pings = Allowance(MAX_PINGS, PINGS_A_SECOND)
        self._model = model_of(hello)
        fields = dict(hello)
        fields["protocol"] = wire.SUBPROTOCOL
        fields["window"] = runs.window
        fields["keep_seconds"] = runs.keep_seconds
        self._outbox: list[str | bytes] = [wire.message("hello", **fields)]

    def receive(self, frame: str | bytes, now: float = 0.0) -> list[tuple[str, Run]]:
        """Take a frame of the client; return commands for the program. A breach of the protocol
        sets `closing`; the run can still be resumed.
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
        log = run.log
        if self._state == STARTING and log.data:
            self._change_state("started")
            out.append(
                wire.message(
                    "started", id=run.id, data=log.data, position=self._sent, start=log.begins
                )
            )
        limit = min(run.reader.limit, log.shown)
        while self._state == STREAMING and self._sent < log.shown:
            step = log.read(self._sent, limit)
            if step is None:
                break
            frame, self._sent = step
            out.append(frame)
        if self._state != ENDED and log.ended and self._sent >= log.shown:
            self._change_state("end")
            out.append(log.ending(run.id))
        return out

    def refuse(self, code: int, sentence: str) -> None:
        """Close the socket with a code and a sentence."""
        self._send_error(code, sentence, retry=code in wire.RETRY_CODES)
        self.closing = (code, wire.close_reason(sentence))
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
        run.reader.done = True
        return [("cancel", run)] if run.log.end is None else []

    def _change_state(self, event: str, error: Any = LocalProtocolError) -> None:
        self._state = next_state(TRANSITIONS, self._state, event, error)

    def _send_error(
        self, code: int, sentence: str, run_id: str | None = None, *, retry: bool = False
    ) -> None:
        self._outbox.append(
            wire.message("error", id=run_id, code=code, message=sentence, retry=retry)
        )

    def _spend(self, size: int, now: float) -> None:
        """Count a message against the rate limit, because most cost work and memory.

        Two kinds are free: an ack with a new position, which credit limits already, and a request
        whose run the client has received to its end.
        """
        if not self._messages.spend(1 + size / MESSAGE_SIZE, now):
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
            self._read(run_id, after, now, "resume", attempt_of(event))
        elif kind == "ack":
            self._acknowledge(_checked_count(event, "n"), event.get("end") is True)
        elif kind == "cancel":
            return [("cancel", run)] if run is not None and run.log.end is None else []
        elif kind == "ping":
            self._pong(now)
        else:
            sentence = f"Unknown message {kind[:40]!r}: a client sends generate, cancel, ack, resume or ping."
            self._send_error(wire.BAD_MESSAGE, sentence)
        return []

    def _generate(self, event: dict[str, Any], size: int, now: float) -> list[tuple[str, Run]]:
        run_id = event.get("id")
        run_id = new_run_id() if run_id is None else _checked_id(run_id)
        attempt = attempt_of(event)
        request = _checked_request(event)
        if self.engine:
            request["engine"] = self.engine
        run = self.runs.by_id.get(run_id)
        if run is not None:
            # The same request again: the client does not know whether it arrived. It runs once.
            same = run.digest == request_digest(run_id, request)
            _require(same, "This run id belongs to another request; each run needs a new one.")
            self._read(run_id, 0, now, "resume", attempt)
            return []
        if self.run is not None and self.run.log.end is not None:
            self._release(now)  # its engine has ended: the client need not read the rest first
        next_state(TRANSITIONS, self._state, "generate", RemoteProtocolError)
        if not self.claim_place():
            return []
        if self.runs.pending + size > self.runs.max_pending:
            raise RemoteProtocolError("Too many requests at once; try again later.", wire.BUSY)
        run = self.runs.create(run_id, request)
        run.weight = size
        self._read(run_id, 0, now, "generate", attempt)
        return [("generate", run)]

    def _pong(self, now: float) -> None:
        if not self._pings.spend(1, now):
            raise RemoteProtocolError("Too many pings: one every 20 seconds is enough.", wire.BUSY)
        self._outbox.append(wire.message("pong"))

    def _acknowledge(self, n: int, end: bool) -> None:
        run = self.run
        if run is None:
            return
        _require(n <= self._sent, f"`ack.n` is {n}, but the last position sent is {self._sent}.")
        if n > run.log.acked:
            run.reader.acknowledge(n)
            self._messages.left += 1
        if self._state == ENDED and n == run.log.shown and end and not run.reader.done:
            run.reader.done = True
            self._messages.left += 2

    def _read(self, run_id: str, after: int, now: float, event: str, attempt: Attempt) -> None:
        """Let this socket read a run. The socket that has read it, probably half-open, is closed.

        If the run is gone, its log no longer reaches back to `after`, or the attempt is older than
        the last one, this socket is closed.
        """
        run = self.runs.by_id.get(run_id)
        if run is not None and run.reader.attempts.are_after(attempt):
            return self.give_way(now)
        if run is None or after < run.log.base:
            kept = f"{self.runs.keep_seconds:g} seconds or {self.runs.max_log >> 20} MiB"
            sentence = f"The bridge no longer has this run: it was restarted, or more than {kept} went by. Start it again."
            self._send_error(wire.RESUME_EXPIRED, sentence, run_id)
            self.closing = (wire.RESUME_EXPIRED, "resume expired")
            return
        position = run.log.shown
        _require(
            after <= position, f"`resume.after` is {after}, but the run is only at {position}."
        )
        _require(not run.log.inside_gap(after), f"`resume.after` is {after}, inside a gap.")
        if not run.log.data:
            run.reader.model = self._model
        elif run.log.data != "bytes" and run.reader.model != self._model:
            sentence = "The ids of this run are of another vocabulary than the engine of this connection has. Start it again."
            self._send_error(wire.VOCABULARY_MISMATCH, sentence, run_id)
            self.closing = (wire.VOCABULARY_MISMATCH, "another vocabulary")
            return
        before = run.reader.session
        if not self.claim_place(before):
            return
        if before is not None and before is not self:
            before.give_way(now)
        if self.run is not run:
            self._release(now)
        self._change_state(event, RemoteProtocolError)
        self.run = run
        self._sent = after
        run.reader.take(self, after, attempt)

    def _release(self, now: float) -> None:
        """Stop reading the run, because the socket is lost or reads another run."""
        if self.run is not None:
            self._change_state("release")
            self.run.reader.release(now)
            self.run = None


def attempt_of(event: dict[str, Any]) -> Attempt:
    """Return which attempt of which session a `generate` or `resume` is.

    >>> attempt_of({"type": "resume", "reader": "0123456789abcdef", "attempt": 3})
    Attempt(reader='0123456789abcdef', number=3)
    """
    reader = event.get("reader")
    if reader is None:
        return ANYONE
    return Attempt(_checked_id(reader, "reader"), _checked_count(event, "attempt"))


def model_of(hello: dict[str, Any]) -> str | None:
    """Return what identifies the ids according to a hello: the vocabulary's SHA-256, or else the
    model.

    >>> model_of({"engine": {"model": "m"}}), model_of({"vocabulary": {"sha256": "ab12"}})
    ('m', 'ab12')
    """
    for part, name in (("vocabulary", "sha256"), ("engine", "model")):
        found = hello.get(part)
        if isinstance(found, dict) and found.get(name):
            return str(found[name])
    return None


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise RemoteProtocolError(sentence)


def _checked_id(value: Any, of: str = "run id") -> str:
    valid = isinstance(value, str) and 16 <= len(value) <= 64 and not value.strip(_ID_LETTERS)
    _require(valid, f"A {of} must be 16 to 64 random letters, digits, - or _.")
    return str(value)


def _checked_count(event: dict[str, Any], name: str) -> int:
    n = event.get(name, -1)
    valid = isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= wire.MAX_ID
    _require(valid, f"`{event['type']}.{name}` must be an integer from 0 to {wire.MAX_ID}.")
    return int(n)


def _checked_request(event: dict[str, Any]) -> dict[str, Any]:
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
    return {"prompt": prompt, "messages": messages, "params": params, "want": want}
