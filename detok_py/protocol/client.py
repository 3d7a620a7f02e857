"""The client's side of detok.v1, sans-I/O: requests, credit, reconnecting, resuming.

In: frames (`str` text, `bytes` binary), and calls when a socket opened or was lost. Out: events
(events.py) for the program, frames for the socket. Held: the position and a running SHA-256.

    session = ClientSession()
    session.generate(prompt="ja: ", want="both")    # makes a run id
    # when a socket opens:              session.opened()
    # when a frame arrives:             for event in session.receive(frame): …
    # after every call:                 for frame in session.frames(): socket.send(frame)
    # when `session.closing` is set:    socket.close(*session.closing)
    # when the socket is lost:          seconds = session.lost(code)
    # after so many seconds:            open another socket; if it is None, give up

The guarantee: the connection may be cut after any byte, in either direction, any number of times.
The joined data of the events is then the same as without the cuts, or there is a Failed event.
"""

import hashlib
from typing import Any

from ..errors import LocalProtocolError, RemoteProtocolError
from . import events, wire

# States of a run.
IDLE = "idle"  # nothing has been asked for
WAITING = "waiting"  # the run has been asked for, and the server has not said `started`
STREAMING = "streaming"  # the server has said `started`; a lost socket does not end this state
FINISHED = "finished"
FAILED = "failed"
ACTIVE = (WAITING, STREAMING)

MAX_KEEP_SECONDS = 600.0  # an upper bound for the server's `keep_seconds`

# `generate` and `attach` are calls of the program: without a transition they are a
# LocalProtocolError. The other events are frames of the server for this run: without a transition
# they are a RemoteProtocolError. Frames for a run that is not active are ignored.
TRANSITIONS = {
    (IDLE, "generate"): WAITING,
    (IDLE, "attach"): WAITING,
    (WAITING, "started"): STREAMING,
    (WAITING, "finished"): FINISHED,  # cancelled before its engine has begun
    (WAITING, "error"): FAILED,
    (STREAMING, "started"): STREAMING,  # the answer to `resume`
    (STREAMING, "data"): STREAMING,
    (STREAMING, "finished"): FINISHED,
    (STREAMING, "error"): FAILED,
    (FINISHED, "generate"): WAITING,
    (FINISHED, "attach"): WAITING,
    (FAILED, "generate"): WAITING,
    (FAILED, "attach"): WAITING,
}


def backoff(attempt: int, random: float) -> float:
    """Return the seconds to wait before reconnect number `attempt` (0 is the first); `random` is
    from 0 to 1.

    Doubles from a quarter of a second to ten, spread over the upper half, so that many clients do
    not reconnect at the same time.

    >>> [backoff(n, 1.0) for n in range(7)]
    [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0]
    """
    return min(10.0, 0.25 * (1 << min(attempt, 6))) * (0.5 + 0.5 * random)


class Retries:
    """Counts the attempts to reconnect since the run last began or went on.

    It allows at least `max_attempts`, and more while their waits fit into `keep_seconds`, the time
    for which the server keeps a run without a client.

    >>> retries = Retries(1)
    >>> retries.next_seconds(1.0), retries.next_seconds(1.0)
    (0.25, None)
    """

    def __init__(self, max_attempts: int) -> None:
        self.max_attempts = max_attempts
        self.keep_seconds: float = 0.0
        self.reset()

    def reset(self) -> None:
        """Begin to count anew."""
        self.attempts: int = 0
        self.waited: float = 0.0

    def next_seconds(self, random: float) -> float | None:
        """Count an attempt; return the seconds to wait before it, or None if there is none."""
        if self.attempts >= self.max_attempts and self.waited >= self.keep_seconds:
            return None
        seconds = backoff(self.attempts, random)
        self.attempts += 1
        self.waited += seconds
        return seconds


class Socket:
    """One socket: the frames to send, and whether it has had its `hello`, and `started` since it
    last asked for a run. `attempt` counts what `reader` has asked for up to now.
    """

    def __init__(self, reader: str = "", attempt: int = 0) -> None:
        self.greeted = False
        self.started: bool = False
        self.outbox: list[str | bytes] = []
        self.reader = reader
        self.attempt: int = attempt

    def next(self) -> "Socket":
        """Return a socket that follows this one."""
        return Socket(self.reader, self.attempt)

    def ask(self, kind: str, **fields: Any) -> None:
        """Ask for the run. The server orders what arrives by reader and attempt."""
        self.started = False
        self.attempt += 1
        fields.update(reader=self.reader, attempt=self.attempt)
        self.outbox.append(wire.message(kind, **fields))


class ClientSession:
    """One run at a time, over as many sockets as it takes.

    `vocabulary_sha256` names the vocabulary that the client decodes with. If it is given, a server
    with another vocabulary is refused (4409), because the wrong vocabulary gives wrong text.
    An ack is sent every `ack_every` tokens or eight times as many bytes: by default a quarter of a
    window. While `paused` is true no ack is sent: the server runs out of credit and pauses
    its engine. A lost socket is replaced for as long as the server keeps runs, which its hello
    says, and for at least `max_attempts` attempts.

    `state` is "idle", "waiting", "streaming", "finished" or "failed". `closing` is the (code,
    reason) to close the socket with, or None.
    """

    def __init__(
        self, vocabulary_sha256: str | None = None, *, ack_every: int = 256, max_attempts: int = 8
    ) -> None:
        self.vocabulary_sha256 = vocabulary_sha256
        self.ack_every = ack_every
        self.paused: bool = False
        self.state: str = IDLE
        self.run_id: str = ""
        self.data: str = ""
        self.position: int = 0
        self.closing: tuple[int, str] | None = None
        self._request: dict[str, Any] | None = None  # None if the run was attached to
        self._hash: Any = None  # None if the start of the stream is not known
        self._window = dict(events.WINDOW)
        self._acked = 0
        self._cancelled = False
        self._retries = Retries(max_attempts)
        self._socket = Socket()

    def generate(
        self,
        *,
        prompt: str | None = None,
        messages: list[dict[str, Any]] | None = None,
        params: dict[str, Any] | None = None,
        want: str = "both",
        run_id: str | None = None,
    ) -> None:
        """Ask for a run. The request waits for the server's hello; after a loss it is sent again
        with the same id.

        Raises LocalProtocolError during another run, or unless one of `prompt` and `messages` is
        given.
        """
        state = events.next_state(TRANSITIONS, self.state, "generate", LocalProtocolError)
        if (prompt is None) == (messages is None):
            raise LocalProtocolError("Give either `prompt` or `messages`.")
        if want not in events.WANTS:
            raise LocalProtocolError(f"`want` must be 'ids', 'bytes' or 'both', not {want!r}.")
        run_id = run_id or events.new_run_id()
        self._request = {
            "id": run_id,
            "prompt": prompt,
            "messages": messages,
            "params": params or {},
            "want": want,
        }
        self._begin(state, run_id, 0)

    def attach(self, run_id: str, after: int = 0) -> None:
        """Continue a run that an earlier session began (a reloaded page, a replaced worker), after
        `after` positions.

        With `after=0` the whole stream comes again and is checked against its SHA-256. Otherwise
        only order and count can be checked.
        """
        state = events.next_state(TRANSITIONS, self.state, "attach", LocalProtocolError)
        self._request = None
        self._begin(state, run_id, after)

    def _begin(self, state: str, run_id: str, position: int) -> None:
        self.state = state
        self.run_id = run_id
        self.data = ""
        self.position = self._acked = position
        self._hash = None if position else hashlib.sha256()
        self._cancelled = False
        self._socket.reader = events.new_run_id()[:16]
        self._socket.attempt = 0
        self._retries.reset()
        if self._socket.greeted:
            self._ask()

    def cancel(self) -> None:
        """Ask the server to stop. Ends a pause.

        What the engine has produced still arrives, then Finished("cancelled"). Without a socket,
        and after a socket was lost, the next one asks again: the first cancel may not have arrived.
        """
        self.paused = False
        self._cancelled = self.state in ACTIVE
        if self._cancelled and self._socket.greeted:
            self.acknowledge()
            self._socket.outbox.append(wire.message("cancel", id=self.run_id))

    def ping(self) -> None:
        """Send a ping; a Pong event follows. Browsers cannot send the WebSocket's own pings."""
        self._socket.outbox.append(wire.message("ping"))

    def acknowledge(self) -> None:
        """Send an ack for the current position. Unless `paused`, the session does this every
        `ack_every` positions.
        """
        if self.state == STREAMING and self.position > self._acked:
            self._acked = self.position
            self._socket.outbox.append(wire.message("ack", n=self.position))

    def opened(self) -> None:
        """Begin a socket. Nothing is sent before the server's hello."""
        self._socket = self._socket.next()
        self.closing = None

    def lost(self, code: int = 1006, random: float = 1.0) -> float | None:
        """End a socket. Return the seconds to wait before opening another, or None if there is no
        active run, the close code is not retryable, or all attempts have failed (`Retries`).
        """
        self._socket = self._socket.next()
        if self.state not in ACTIVE or code not in wire.RETRY_CODES:
            return None
        return self._retries.next_seconds(random)

    def give_up(self, code: int, message: str) -> list[Any]:
        """End the run on this side, for example after `lost` has returned None."""
        if self.state not in ACTIVE:
            return []
        self.state = TRANSITIONS[self.state, "error"]
        return [events.Failed(code, message, code in wire.RETRY_CODES, self.position)]

    def frames(self) -> list[str | bytes]:
        """Return the frames to send now, and forget them."""
        out, self._socket.outbox = self._socket.outbox, []
        return out

    def receive(self, frame: str | bytes) -> list[Any]:
        """Take a frame of the server; return its events.

        A breach of the protocol ends the run with a Failed event and sets `closing`.
        """
        if self.closing:
            return []
        try:
            if isinstance(frame, str):
                return self._receive_message(wire.read_message(frame))
            return self._receive_data(bytes(frame))
        except RemoteProtocolError as error:
            return self._refuse(error.code, f"The bridge broke the protocol: {error}")

    def _ask(self) -> None:
        """Ask for the run, or for the rest of it.

        Until `started` arrives, it is unknown whether the request has arrived: it is sent again,
        and its id makes sure that it runs once.
        """
        if self.state == WAITING and self._request is not None:
            self._socket.ask("generate", **self._request)
        else:
            self._acked = self.position
            self._socket.ask("resume", id=self.run_id, after=self.position)
        if self._cancelled:
            self._socket.outbox.append(wire.message("cancel", id=self.run_id))

    def _refuse(self, code: int, sentence: str) -> list[Any]:
        self.closing = (code, wire.close_reason(sentence))
        self._socket.outbox = []
        return self.give_up(code, sentence)

    def _receive_message(self, event: dict[str, Any]) -> list[Any]:
        kind = event["type"]
        if kind == "hello":
            return self._hello(event)
        code = event.get("code")
        code = code if isinstance(code, int) else wire.BAD_MESSAGE
        text = str(event.get("message", ""))
        if kind == "error" and "id" not in event:
            # It may come before `hello`, from a server that closes the socket after it.
            return [events.Notice(code, text)]
        if not self._socket.greeted:
            raise RemoteProtocolError(f"`{kind[:40]}` came before `hello`.")
        if kind == "pong":
            return [events.Pong()]
        if event.get("id") != self.run_id or self.state not in ACTIVE:
            return []  # belongs to an earlier run
        if kind not in ("started", "finished", "error"):
            return []  # a newer server may have more messages
        state = events.next_state(TRANSITIONS, self.state, kind, RemoteProtocolError)
        out: list[Any]
        if kind == "started":
            self._check_start(event)
            self._socket.started = True
            # Not at the hello, because the next message may say that the server is full.
            self._retries.reset()
            self.data = event["data"]
            start = event.get("start")
            start = start if start in events.STARTS else ""
            out = [events.Started(self.run_id, self.data, self.position, start)]
        elif kind == "finished":
            # A run that is cancelled before its engine begins has no `started`, and no data.
            if not self._socket.started and (self.data or self.position):
                raise RemoteProtocolError("`finished` came before `started`.")
            self._check_sum(event)
            self._acked = self.position
            # After this ack, the server may drop this run before others.
            self._socket.outbox.append(wire.message("ack", n=self.position, end=True))
            out = [events.Finished(str(event.get("reason")), self.position, event.get("note"))]
        else:
            if self.state == STREAMING and "sha256" in event:
                self._check_sum(event)
            out = [events.Failed(code, text, bool(event.get("retry")), self.position)]
        self.state = state
        return out

    def _hello(self, event: dict[str, Any]) -> list[Any]:
        if event.get("protocol") != wire.SUBPROTOCOL:
            return self._refuse(
                wire.WRONG_SUBPROTOCOL,
                f"The bridge speaks {event.get('protocol')!r}, this client {wire.SUBPROTOCOL!r}. Update the older one.",
            )
        vocabulary = event.get("vocabulary")
        window = event.get("window")
        if isinstance(window, dict):
            for unit in self._window:
                if isinstance(window.get(unit), int) and window[unit] > 0:
                    self._window[unit] = window[unit]
        keep = event.get("keep_seconds")
        if isinstance(keep, (int, float)) and not isinstance(keep, bool):
            self._retries.keep_seconds = min(MAX_KEEP_SECONDS, keep)
        out: list[Any] = [events.Hello(event.get("engine") or {}, vocabulary, self._window, event)]
        served = vocabulary.get("sha256") if isinstance(vocabulary, dict) else None
        if served is not None and not isinstance(served, str):
            raise RemoteProtocolError("`hello.vocabulary.sha256` must be a string.")
        if self.vocabulary_sha256 and served and served != self.vocabulary_sha256:
            return out + self._refuse(
                wire.VOCABULARY_MISMATCH,
                f"The engine's vocabulary is {served[:12]}…, but this page decodes with {self.vocabulary_sha256[:12]}…. "
                "Reload the vocabulary from the bridge.",
            )
        self._socket.greeted = True
        if self.state in ACTIVE:
            self._ask()
        return out

    def _check_start(self, event: dict[str, Any]) -> None:
        data, at = event.get("data"), event.get("position")
        if data not in events.WANTS or data != (self.data or data):
            expected = self.data or "'ids', 'bytes' or 'both'"
            raise RemoteProtocolError(f"`started` has data {data!r}, expected {expected}.")
        if at != self.position:
            raise RemoteProtocolError(f"`started` has position {at!r}, expected {self.position}.")

    def _check_sum(self, event: dict[str, Any]) -> None:
        """Raise RemoteProtocolError if what arrived is not what the server sent."""
        total = event.get("bytes" if self.data == "bytes" else "tokens")
        if total != self.position:
            raise RemoteProtocolError(
                f"`{event['type']}` has position {total!r}, expected {self.position}."
            )
        if self._hash is not None and event.get("sha256") != self._hash.digest().hex():
            raise RemoteProtocolError(f"The SHA-256 in `{event['type']}` does not match the data.")

    def _receive_data(self, frame: bytes) -> list[Any]:
        op, entries = wire.read_data(frame)
        if self.state not in ACTIVE:
            return []
        if self.state != STREAMING:
            self.state = events.next_state(TRANSITIONS, self.state, "data", RemoteProtocolError)
        if not self._socket.started:
            raise RemoteProtocolError("Data came before `started`.")
        if op not in wire.OPS[self.data]:
            raise RemoteProtocolError(f"A stream of {self.data!r} does not carry op {op}.")
        at = self.position
        unit, count, beyond, every = "tokens", len(entries), 0, self.ack_every
        event: Any
        if op == wire.IDS:
            event = events.Tokens(at, entries, None)
        elif op == wire.TOKENS:
            event = events.Tokens(at, [i for i, _ in entries], [piece for _, piece in entries])
        elif op == wire.BYTES:
            event = events.Bytes(at, entries)
            unit, every = "bytes", every * 8
        else:
            count = beyond = entries[0]  # a gap is not split where the window ends
            event = events.Gap(at, count, entries[1])
        window = self._window[unit]
        end = at + count
        if end - self._acked > window + beyond:
            raise RemoteProtocolError(f"The data exceeds the credit of {window} {unit}.")
        if self._hash is not None:
            self._hash.update(frame[1:])
        if self._retries.attempts:
            self._retries.reset()
        self.position = end
        # A server whose window is smaller than `ack_every` would wait for an ack forever.
        if not self.paused and end - self._acked >= min(every, max(1, window // 2)):
            self.acknowledge()
        return [event] if count else []
