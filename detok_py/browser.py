"""What a page's worker calls: one stream from frames to rows, and recordings decoded again. Sans-I/O.

In: batches of WebSocket frames, in one buffer that JavaScript writes into (`inbox`), so that a batch costs one call across the
border between JavaScript and Python, however many frames it has. Out: one JSON text a call. Held: the session's position, the decoder.

Every method of `PageStream` returns the same object as JSON, with what there is to do:

    send    frames for the socket, in order
    close   [code, reason] when the socket is to be closed
    fetch   {"sha256", "size", "url"} when a vocabulary is to be fetched and given to `vocabulary`; data waits meanwhile
    retry   seconds after which another socket is to be opened
    events  {"type": "hello" | "started" | "tokens" | "finished" | "failed" | "notice" | "pong", …} in the order of the stream

`tokens` has `rows`, one for each token: [id or null, bytes in hex, text that this token made certain, held bytes in hex,
text that a stop string holds, name of the token where it is special and skipped]. `finished` and `failed` have `text`: what was
held and is text now that nothing more comes.
"""

import json
from typing import Any

from . import session as s
from .detokenizer import Detokenizer
from .errors import DetokError, VocabularyError
from .segments import StopStrings
from .utf8 import StreamingDetokenizer
from .vocabulary import Vocabulary
from .wire import ENGINE_DOWN, RESUME_EXPIRED, VOCABULARY_MISMATCH

TEXT_FRAME = 0
BINARY_FRAME = 1

# What a close code says to a person, where the bridge had no time to say more.
CLOSED = {
    1001: "The bridge has been stopped. Start it again, then try again.",
    1006: "The connection to the bridge was lost. Check that it is running, then try again.",
    1008: "The bridge refused the connection. Open this page from the address that the bridge printed.",
    1009: "The request is too large for the bridge. Shorten the text.",
    1011: "The bridge failed. What it printed where it was started says why.",
    1012: "The bridge is restarting. Try again in a moment.",
    4400: "The bridge did not understand this page. Reload the page, so that both are of one version.",
    4401: "The bridge wants a token. Open the address that it printed, which has the token in it.",
    4403: "The bridge refused this page's address. Open the address that it printed.",
    4404: "The bridge has no such engine.",
    4406: "The bridge speaks another protocol than this page. Reload the page, so that both are of one version.",
    VOCABULARY_MISMATCH: "The engine's vocabulary is not the one that this page decodes with. Reload the page.",
    RESUME_EXPIRED: "The bridge no longer keeps the rest of this answer. Ask again for the whole of it.",
    4429: "The bridge is busy with other streams. Try again in a moment.",
    4499: "The stream was cancelled.",
    ENGINE_DOWN: "The engine is not answering. Start it, then try again.",
}

_vocabularies: dict[str, Vocabulary] = {}
_inbox = bytearray(1 << 16)


def inbox(size: int = 0) -> bytearray:
    """Return the buffer that batches are written into, of at least `size` bytes. A larger one replaces the smaller one.

    A batch is, for each frame: one byte (0 text, 1 binary), the length as 4 bytes, lowest first, the frame.
    """
    global _inbox
    if size > len(_inbox):
        _inbox = bytearray(max(size, 2 * len(_inbox)))
    return _inbox


def unpack_batch(batch: bytes) -> list[str | bytes]:
    """Return the frames of a batch.

    >>> unpack_batch(b"\\x00\\x02\\x00\\x00\\x00{}" + b"\\x01\\x01\\x00\\x00\\x00\\x07")
    ['{}', b'\\x07']
    """
    frames: list[str | bytes] = []
    at = 0
    while at < len(batch):
        kind = batch[at]
        size = int.from_bytes(batch[at + 1 : at + 5], "little")
        at += 5
        frame = bytes(batch[at : at + size])
        frames.append(frame.decode() if kind == TEXT_FRAME else frame)
        at += size
    return frames


def keep_vocabulary(data: bytes, sha256: str) -> Vocabulary:
    """Unpack a vocabulary and keep it for every stream that names it; refuse one that isn't what its name says.

    Raises VocabularyError: ids decoded with the wrong table are fluent nonsense.
    """
    vocabulary = Vocabulary.unpack(data)
    if vocabulary.sha256 != sha256:
        raise VocabularyError(
            "The bridge announced the vocabulary " + sha256[:12] + "… and served " + vocabulary.sha256[:12] + "…, so nothing is decoded: "
            "ids of one read with the other give wrong text. Reload the page; if this stays, restart the bridge."
        )
    _vocabularies[sha256] = vocabulary
    return vocabulary


class RowDecoder:
    """Tokens to rows: what each token brought, what it made certain, and what is held after it.

    Goes by ids where every id is known. Where the engine loses ids (a Gap), it goes on by bytes, taking over what is held; from
    there the text is that of the bytes.

    >>> rows = RowDecoder(None, [])
    >>> rows.token(None, b"\\xc3"), rows.token(None, b"\\xa9"), rows.flush()
    ([None, 'c3', '', 'c3', '', None], [None, 'a9', 'é', '', '', None], '')
    """

    def __init__(self, vocabulary: "Vocabulary | None", stops: list[str]) -> None:
        self.vocabulary = vocabulary
        self.by_ids: Detokenizer | None = Detokenizer(vocabulary) if vocabulary is not None else None
        self.by_bytes = StreamingDetokenizer()
        self.stops = StopStrings(stops) if stops else None

    @property
    def stopped(self) -> "str | None":
        """The stop string that ended the text, or None."""
        return self.stops.stopped if self.stops else None

    def token(self, token_id: "int | None", data: "bytes | None") -> list[Any]:
        """Return the row of one token; `data` are its bytes where the engine gave them. Raises VocabularyError for an unknown id."""
        name = None
        if self.by_ids is not None and token_id is not None:
            if token_id in self.by_ids.vocabulary.special_ids:
                name = self.by_ids.vocabulary.stored_bytes(token_id).decode()
                data = b""
            elif data is None:
                data = self.by_ids.vocabulary.token_bytes(token_id)
            text = self.by_ids.push(token_id)
            held = self.by_ids.held
        else:
            if self.by_ids is not None:
                self._go_on_by_bytes()
            data = data or b""
            text = self.by_bytes.feed(data)
            held = self.by_bytes.held
        waiting = ""
        if self.stops is not None:
            text = self.stops.feed(text)
            waiting = self.stops.held
        return [token_id, data.hex(), text, held.hex(), waiting, name]

    def flush(self) -> str:
        """Return what was held, now that nothing more comes."""
        text = self.by_ids.flush() if self.by_ids is not None else self.by_bytes.flush()
        return self.stops.feed(text) + self.stops.flush() if self.stops is not None else text

    def _go_on_by_bytes(self) -> None:
        if self.by_ids is not None:
            self.by_bytes.feed(self.by_ids.held)
            self.by_ids = None


def capture_vocabulary(text: str) -> str:
    """Return the SHA-256 of the vocabulary that a capture was made with, where it is not known here yet; else ""."""
    try:
        named = _read_capture(text).header.get("vocabulary")
    except DetokError:
        return ""  # `capture_rows` says what is wrong with it
    sha256 = named.get("sha256") if isinstance(named, dict) else None
    return sha256 if isinstance(sha256, str) and sha256 not in _vocabularies else ""


def keep_captured_vocabulary(size: int, sha256: str) -> None:
    """Keep the vocabulary in the first `size` bytes of the inbox, for captures that name it. Raises as `keep_vocabulary` does."""
    keep_vocabulary(bytes(memoryview(_inbox)[:size]), sha256)


def capture_rows(text: str) -> str:
    """Return a recorded stream, decoded again, as JSON: {"header", "rows": [[seconds since the start, row], …], "seconds", "text"}.

    Reads `.detok.jsonl`, a HAR file with a detok.v1 socket, and the body of server-sent events. Raises CaptureError, or VocabularyError
    where there are ids without bytes and their vocabulary is not known.
    """
    capture = _read_capture(text)
    named = capture.header.get("vocabulary")
    vocabulary = _vocabularies.get(str(named.get("sha256"))) if isinstance(named, dict) else None
    decoder = RowDecoder(vocabulary, [])
    rows: list[Any] = []
    seconds = 0.0
    for record in capture.records:
        seconds += record.seconds
        tokens: list[Any] = []
        if record.kind == "i":
            if vocabulary is None:
                raise VocabularyError(
                    "This capture has token ids without their bytes, and its vocabulary is not at this bridge. "
                    "Start the bridge with --tokenizer and the file of that model, then open the capture again."
                )
            tokens = [(i, None) for i in record.value]
        elif record.kind == "t":
            tokens = record.value
        elif record.kind == "g":
            tokens = [(None, record.value[1])]
        elif record.kind == "b":
            tokens = [(None, record.value)]
        elif record.kind == "x":
            tokens = [(None, record.value.encode())]
        for token_id, data in tokens:
            rows.append([seconds, decoder.token(token_id, data)])
    return json.dumps({"header": capture.header, "rows": rows, "seconds": seconds, "text": decoder.flush()}, separators=(",", ":"))


def capture_text(recording: str) -> str:
    """Return the `.detok.jsonl` of what a page has recorded.

    `recording` is JSON: {"header", "rows": [[seconds since the start, id or null, bytes in hex], …], "seconds", "end": {"type": …}}.
    """
    from .capture import write_capture

    made = json.loads(recording)
    records: list[Any] = []
    before = 0.0
    for seconds, token_id, data in made["rows"]:
        raw = bytes.fromhex(data)
        records.append((max(0.0, seconds - before), "b", raw) if token_id is None else (max(0.0, seconds - before), "t", [(token_id, raw)]))
        before = seconds
    if made.get("end"):
        records.append((max(0.0, made["seconds"] - before), "j", made["end"]))
    return write_capture(made["header"], records)


def _read_capture(text: str) -> Any:
    # Imported when it is asked for: MicroPython, which decodes and doesn't replay, has no base64.
    from .capture import read_capture, read_har, read_sse

    start = text[:4096].lstrip("\ufeff \t\r\n")
    if start.startswith("{") and '"detok"' not in start.split("\n")[0] and '"log"' in start:
        return read_har(text)
    if start.startswith(("data:", "event:", "id:", ":")):
        return read_sse(text.encode())
    return read_capture(text)


class PageStream:
    """One answer on a page: a session of detok.v1 and a decoder. Methods are called by web/src/worker.js.

    `request` is JSON: {"prompt" or "messages", "params", "want", "stop": [strings], "single_bytes": true where each raw byte is a
    row of its own}. With "resume", the id of a run that an earlier page began, that run comes again from its beginning.
    """

    def __init__(self, request: str, max_attempts: int = 5) -> None:
        asked = json.loads(request)
        self.session = s.ClientSession(max_attempts=max_attempts)
        if asked.get("resume"):
            self.session.attach(asked["resume"])
        else:
            self.session.generate(
                prompt=asked.get("prompt"),
                messages=asked.get("messages"),
                params=asked.get("params"),
                want=asked.get("want", "both"),
                run_id=asked.get("id"),
            )
        self._stop = [stop for stop in asked.get("stop", []) if stop]
        self._single_bytes = bool(asked.get("single_bytes"))
        self._rows: RowDecoder | None = None
        self._wanted: dict[str, Any] | None = None
        self._vocabulary: Vocabulary | None = None
        self._waiting: list[Any] = []
        self._over = False

    def opened(self) -> str:
        """A socket is open."""
        self.session.opened()
        return self._outcome([])

    def receive(self, size: int) -> str:
        """Take the batch that fills the first `size` bytes of the inbox."""
        events: list[Any] = []
        for frame in unpack_batch(bytes(memoryview(_inbox)[:size])):
            events += self.session.receive(frame)
        return self._outcome(events)

    def vocabulary(self, size: int) -> str:
        """Take the vocabulary that was asked for: the first `size` bytes of the inbox."""
        assert self._wanted is not None
        try:
            self._use(keep_vocabulary(bytes(memoryview(_inbox)[:size]), self._wanted["sha256"]))
        except VocabularyError as error:
            return self._refuse(str(error))
        return self._outcome([])

    def no_vocabulary(self, why: str) -> str:
        """The vocabulary that was asked for can't be had."""
        return self._refuse("The vocabulary could not be fetched from the bridge (" + why + "), so nothing is decoded. Reload the page.")

    def lost(self, code: int, reason: str, random: float) -> str:
        """The socket is gone. `retry` says when to open another; without it the stream is over."""
        seconds = self.session.lost(code, random)
        if seconds is not None:
            return self._outcome([], seconds)
        sentence = CLOSED.get(code) or reason or "The bridge closed the connection (code " + str(code) + ")."
        return self._outcome(self.session.give_up(code, sentence))

    def cancel(self) -> str:
        """Ask the engine to stop; what it sent already still comes."""
        self.session.cancel()
        return self._outcome([])

    def give_up(self) -> str:
        """End it here and now: nothing more is waited for, a vocabulary least of all."""
        return self._abandon(4499, CLOSED[4499])

    def pause(self, paused: bool) -> str:
        """Stop or go on giving credit: a page that doesn't read lets its engine wait."""
        self.session.paused = paused
        if not paused:
            self.session.acknowledge()
        return self._outcome([])

    def ping(self) -> str:
        """Ask the bridge for a sign of life."""
        self.session.ping()
        return self._outcome([])

    # ------------------------------------------------------------------

    def _use(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        # From here on a bridge with another vocabulary is refused, on a reconnect too.
        self.session.vocabulary_sha256 = vocabulary.sha256
        self._wanted = None

    def _refuse(self, sentence: str) -> str:
        self.session.cancel()
        self.session.closing = (VOCABULARY_MISMATCH, "vocabulary mismatch")
        return self._abandon(VOCABULARY_MISMATCH, sentence)

    def _abandon(self, code: int, sentence: str) -> str:
        """End it, with all that waits for a vocabulary. Told even where the session has ended: its end may be what waited."""
        self._waiting = []
        self._wanted = None
        self.session.give_up(code, sentence)
        return self._outcome([s.Failed(code, sentence, False, self.session.position)])

    def _outcome(self, events: list[Any], retry: "float | None" = None) -> str:
        out: dict[str, Any] = {"events": []}
        waiting, self._waiting = self._waiting + events, []
        fetch = None
        for n, event in enumerate(waiting):
            if self._wanted is not None and not isinstance(event, s.Failed):
                self._waiting = waiting[n:]
                break
            self._tell(event, out["events"])
            if self._wanted is not None:
                fetch = self._wanted
        send = self.session.frames()
        if send:
            out["send"] = send
        if self.session.closing:
            out["close"] = self.session.closing
        if fetch is not None:
            out["fetch"] = fetch
        if retry is not None:
            out["retry"] = retry
        return json.dumps(out, separators=(",", ":"))

    def _tell(self, event: Any, out: list[Any]) -> None:
        """Turn an event of the session into events of the page."""
        if isinstance(event, s.Hello):
            self._hello(event)
            out.append({"type": "hello", "engine": event.engine, "vocabulary": event.vocabulary})
        elif isinstance(event, s.Started):
            if self._rows is None:
                self._rows = RowDecoder(self._vocabulary if event.data != "bytes" else None, self._stop)
            out.append({"type": "started", "id": event.id, "data": event.data, "position": event.position})
        elif isinstance(event, (s.Bytes, s.Tokens, s.Gap)):
            self._data(event, out)
        elif isinstance(event, s.Finished):
            self._end(out, {"type": "finished", "reason": event.reason, "note": event.note, "position": event.position})
        elif isinstance(event, s.Failed):
            self._fail(out, event.code, event.message, event.retry, event.position)
        elif isinstance(event, s.Notice):
            out.append({"type": "notice", "code": event.code, "message": event.message})
        else:
            out.append({"type": "pong"})

    def _hello(self, event: Any) -> None:
        wanted = event.vocabulary
        if self._vocabulary is not None or not isinstance(wanted, dict) or not wanted.get("sha256"):
            return
        known = _vocabularies.get(wanted["sha256"])
        if known is not None:
            self._use(known)
        else:
            self._wanted = wanted

    def _data(self, event: Any, out: list[Any]) -> None:
        if self._over or self._rows is None:
            return
        tokens: list[Any]
        if isinstance(event, s.Tokens):
            pieces = event.pieces
            tokens = [(i, pieces[n] if pieces is not None else None) for n, i in enumerate(event.ids)]
        elif isinstance(event, s.Bytes) and self._single_bytes:
            tokens = [(None, bytes([byte])) for byte in event.data]
        else:
            tokens = [(None, event.data)]
        rows: list[Any] = []
        failure = None
        for token_id, data in tokens:
            try:
                rows.append(self._rows.token(token_id, data))
            except DetokError as error:
                failure = error
                break
            if self._rows.stopped is not None:
                break
        if rows:
            out.append({"type": "tokens", "rows": rows})
        if failure is not None:
            self.session.cancel()
            self._fail(out, VOCABULARY_MISMATCH, str(failure), False, event.position + len(rows))
        elif self._rows.stopped is not None:
            self.session.cancel()
            self._end(out, {"type": "finished", "reason": "stop", "note": None, "position": event.position + len(rows)})

    def _fail(self, out: list[Any], code: int, message: str, retry: bool, position: int) -> None:
        self._end(out, {"type": "failed", "code": code, "message": message, "retry": retry, "position": position})

    def _end(self, out: list[Any], event: dict[str, Any]) -> None:
        """Tell the end once, with what was held. What comes after it (the echo of a cancel) says nothing new."""
        if self._over:
            return
        self._over = True
        event["text"] = self._rows.flush() if self._rows is not None else ""
        out.append(event)
