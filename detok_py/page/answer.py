"""One answer of a bridge, from WebSocket frames to typed text. Sans-I/O.

In: batches of frames (inbox.py), and calls when a socket opened or was lost. Out: one JSON text a
call. Held: the session's position, the decoder, events that wait for a vocabulary.

Every method that web/src/socket.js calls returns one JSON object with these keys, where needed:

    send    frames for the socket, in order
    close   [code, reason] when the socket is to be closed
    fetch   {"sha256", "size", "url"} when a vocabulary is to be fetched and given to `vocabulary`
    retry   seconds after which another socket is to be opened
    events  in the order of the stream:

    {"type": "hello", "engine", "vocabulary", "format"}
    {"type": "started", "id", "data", "position", "format", "start"}
    {"type": "text", "deltas", "rows", "count", "position", "held", "waiting"}
    {"type": "finished", "reason", "note", "position", "deltas"}
    {"type": "failed", "code", "message", "retry", "position", "deltas"}
    {"type": "notice", "code", "message"}
    {"type": "pong"}

A delta is `[channel, text]`; of a call in a format `[channel, text, {"call", "name", "id",
"complete"}]`: the call's number; on its first delta the name, and the id if the markup has one; on
its last one that it is complete. `held` counts the bytes of an unfinished character, `waiting` is
the text that may become a stop string or a tag. The deltas of `finished` and `failed` are text that
was held and became certain at the end. An answer with details has `rows` instead of `deltas`, one
for each token:

    [id or null, bytes in hex, deltas, held bytes in hex, waiting text, name of a skipped special
    token]

and `spent`, the microseconds that decoding them took.
"""

import json
import time
from typing import Any

from ..decode.chat import ChatStream
from ..decode.detokenizer import Detokenizer
from ..decode.utf8 import StreamingDetokenizer, decode_end
from ..decode.vocabulary import Vocabulary
from ..errors import DetokError, VocabularyError
from ..protocol import events as s
from ..protocol.client import ClientSession
from ..protocol.wire import ENGINE_DOWN, RESUME_EXPIRED, VOCABULARY_MISMATCH
from .deltas import crossed, open_call, open_chat
from .inbox import given_bytes, unpack_batch

# Sentences for close codes, if the bridge sends no reason.
CLOSED = {
    1001: "The bridge has been stopped. Start it again, then try again.",
    1006: "The connection to the bridge was lost. Check that it is running, then try again.",
    1008: "The bridge refused the connection. Open this page from the address that the bridge printed.",
    1009: "The request is too large for the bridge. Shorten the text.",
    1011: "The bridge failed. Its output in the terminal says why.",
    1012: "The bridge is restarting. Try again in a moment.",
    4400: "The bridge did not understand this page. Reload the page, so that both are of one version.",
    4401: "The bridge needs a token. Give the one that it printed, or that of its DETOK_TOKEN.",
    4403: "The bridge refuses pages of this origin. Start it with --allow-origin and this origin.",
    4404: "The bridge has no such engine. Choose one that it has.",
    4406: "The bridge speaks another protocol than this page. Reload the page, so that both are of one version.",
    VOCABULARY_MISMATCH: "The engine's vocabulary is not the one that this page decodes with. Reload the page.",
    RESUME_EXPIRED: "The bridge no longer keeps the rest of this answer. Ask again for the whole of it.",
    4429: "The bridge is busy with other streams. Try again in a moment.",
    4499: "The stream was cancelled.",
    ENGINE_DOWN: "The engine is not answering. Start it, then try again.",
}
NO_VOCABULARY = (
    "The bridge sends ids, and no vocabulary to decode them with; ask for bytes, or start it with "
    "--tokenizer."
)

# Microseconds; MicroPython's own clock, else that of CPython.
_ticks: Any = getattr(time, "ticks_us", None) or (lambda: time.perf_counter() * 1e6)

kept_vocabularies: dict[str, Vocabulary] = {}


def unpack_vocabulary(data: bytes, sha256: str = "", known: "str | None" = None) -> Vocabulary:
    """Unpack a vocabulary and keep it for every stream that names it; `known` is its SHA-256.

    Raises VocabularyError if it is damaged, or if `sha256` is given and its SHA-256 differs: ids
    decoded with the wrong vocabulary give wrong text that looks right.
    """
    vocabulary = Vocabulary.unpack(data, sha256=known or None)
    if sha256 and vocabulary.sha256 != sha256:
        raise VocabularyError(
            f"The bridge announced the vocabulary {sha256[:12]}… and served {vocabulary.sha256[:12]}…, so nothing is decoded: "
            "ids of one read with the other give wrong text. Reload the page; if this stays, restart the bridge."
        )
    kept_vocabularies[vocabulary.sha256] = vocabulary
    return vocabulary


def kept_vocabulary(sha256: Any) -> "Vocabulary | None":
    """Return the vocabulary with this SHA-256, or None if it is not kept here."""
    return kept_vocabularies.get(sha256) if isinstance(sha256, str) else None


def named_vocabulary(sha256: str) -> Vocabulary:
    """Return the vocabulary with this SHA-256. Raises VocabularyError if it is not kept here."""
    vocabulary = kept_vocabularies.get(sha256)
    if vocabulary is None:
        raise VocabularyError(
            f"this worker has no vocabulary {str(sha256)[:12]}…; load it with loadVocabulary first"
        )
    return vocabulary


class Answer:
    """One answer: a session of detok.v1 and a ChatStream.

    `request` is JSON: {"prompt" or "messages" or "resume", "params", "want", "id"}, the options of
    `open_chat`, "vocabulary" (the SHA-256 of a kept one that the bridge must have), "details" (rows
    instead of deltas) and "singleBytes" (each raw byte is a row of its own). "resume" is the id of
    a run that an earlier page began; its answer comes again from the beginning.

    Text is decoded from ids while every id is known. After a Gap, whose ids are unknown, it is
    decoded from bytes, and the held bytes are kept.
    """

    def __init__(self, request: str, max_attempts: int = 5) -> None:
        self._options: dict[str, Any] = json.loads(request)
        asked = self._options
        self.session: ClientSession = ClientSession(max_attempts=max_attempts)
        if asked.get("resume"):
            self.session.attach(asked["resume"])
        else:
            self.session.generate(
                prompt=asked.get("prompt"),
                messages=asked.get("messages"),
                params=asked.get("params"),
                want=asked.get("want") or "both",
                run_id=asked.get("id"),
            )
        self._chat: ChatStream | None = None
        self._vocabulary: Vocabulary | None = None  # the one that the bridge must have
        self._by_ids: Vocabulary | None = None  # the one that ids are decoded with
        self._wanted: dict[str, Any] | None = None  # the vocabulary that is being fetched
        self._waiting: list[Any] = []  # events that came while it is being fetched
        self._over = False
        self._format: str | None = None  # the one that the bridge names, or that of the vocabulary
        self._open: int | None = None  # the number of the call that is not complete
        self._complete = False  # the one JSON value of the format json has come
        if asked.get("vocabulary"):
            self.use(named_vocabulary(asked["vocabulary"]))

    # ---------------------------------------------------------------- calls of JavaScript

    def opened(self) -> str:
        """Note that a socket is open."""
        self.session.opened()
        return self._outcome([])

    def receive(self, given: "int | str") -> str:
        """Take a batch of frames."""
        events: list[Any] = []
        for frame in unpack_batch(given_bytes(given)):
            events += self.session.receive(frame)
        return self._outcome(events)

    def vocabulary(self, given: "int | str") -> str:
        """Take the vocabulary that was asked for."""
        assert self._wanted is not None
        try:
            self.use(unpack_vocabulary(given_bytes(given), self._wanted["sha256"]))
        except VocabularyError as error:
            return self._refuse(str(error))
        return self._outcome([])

    def no_vocabulary(self, why: str) -> str:
        """Note that the vocabulary that was asked for could not be fetched."""
        return self._refuse(
            f"The vocabulary could not be fetched from the bridge ({why}), so nothing is decoded. Reload the page."
        )

    def lost(self, code: int, reason: str, random: float) -> str:
        """Note that the socket is lost. Without `retry` in the result, the answer is over."""
        seconds = self.session.lost(code, random)
        if seconds is not None:
            return self._outcome([], seconds)
        sentence = CLOSED.get(code) or reason or f"The bridge closed the connection (code {code})."
        return self._outcome(self.session.give_up(code, sentence))

    def cancel(self) -> str:
        """Ask the engine to stop. What it has already sent still arrives."""
        self.session.cancel()
        return self._outcome([])

    def give_up(self) -> str:
        """End the answer now. Later frames are ignored."""
        return self._abandon(4499, CLOSED[4499])

    def pause(self, paused: bool) -> str:
        """Stop or resume giving credit: without credit the bridge makes its engine wait."""
        self.session.paused = paused
        if not paused:
            self.session.acknowledge()
        return self._outcome([])

    def ping(self) -> str:
        """Send a ping to the bridge."""
        self.session.ping()
        return self._outcome([])

    # ---------------------------------------------------------------- tokens to text

    def begin(
        self, vocabulary: "Vocabulary | None", named: "str | None" = None, start: str = ""
    ) -> None:
        """Begin to decode: from ids of this vocabulary, or from bytes; in the format `named`, else
        in the one that is known. `start` is what the answer begins in, if that is known.
        """
        self._by_ids = vocabulary
        self._format = named or self._format or getattr(vocabulary, "chat_format", None)
        self._chat = open_chat(
            self._options,
            StreamingDetokenizer() if vocabulary is None else Detokenizer(vocabulary),
            tags=not self._options.get("details"),
            known=self._format,
            start=start,
        )

    def row(self, token_id: "int | None", data: "bytes | None") -> list[Any]:
        """Decode one token and return its row; `data` are its bytes, if the engine gave them.

        Raises VocabularyError for an unknown id. The stream is unchanged then.
        """
        name = None
        vocabulary = self._by_ids
        if vocabulary is not None and token_id is not None:
            if token_id in vocabulary.special_ids:
                name, data = decode_end(vocabulary.stored_bytes(token_id), "replace"), b""
            elif data is None:
                data = vocabulary.token_bytes(token_id)
        deltas = self._decode(None if token_id is None else [token_id], data)
        held, waiting = self._held()
        return [token_id, (data or b"").hex(), deltas, held.hex(), waiting, name]

    @property
    def format(self) -> "str | None":
        """The name of the format that the text is read in; None if it is read in none."""
        form = None if self._chat is None else self._chat._form
        return None if form is None else str(form.name)

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the text."""
        return self._chat is not None and self._chat.finish_reason == "stop"

    @property
    def _ends_with_call(self) -> bool:
        """Whether the last call of an answer in a format is complete."""
        calls = self._chat.calls if self._chat is not None and self.format is not None else []
        return bool(calls) and bool(calls[-1].complete)

    def flush(self) -> list[list[Any]]:
        """End the text; return what was held, as deltas."""
        return [] if self._chat is None else self._crossed(self._chat.flush())

    def _decode(self, ids: "list[int] | None", data: "bytes | None") -> list[list[Any]]:
        """Return the deltas of some ids, or of bytes whose ids are not known."""
        assert self._chat is not None
        if self._by_ids is not None and ids is not None:
            return self._crossed(self._chat.feed(ids))
        if data is None:
            raise VocabularyError(NO_VOCABULARY)
        deltas = [] if self._by_ids is None else self._go_on_by_bytes()
        return deltas + self._crossed(self._chat.feed(data))

    def _crossed(self, deltas: list[Any]) -> list[list[Any]]:
        """Return deltas as they cross to JavaScript."""
        chat, before = self._chat, self._open
        assert chat is not None
        whole = not self._complete and chat.complete
        self._complete = self._complete or whole
        of_calls = [delta for delta in deltas if delta.call is not None]
        if before is None and not of_calls:
            return crossed(deltas, whole=whole)
        calls = chat.calls
        self._open = open_call(calls)
        return crossed(deltas, calls, before, whole)

    def _go_on_by_bytes(self) -> list[list[Any]]:
        """Decode from bytes instead of ids from here on, beginning with the held bytes."""
        assert self._chat is not None
        (_, channels, own), counts = self._chat.save(calls=True)
        before: Any = self._chat
        self.begin(None)
        begun: Any = self._chat.detokenizer
        if self.format is not None:
            from ..decode.format_channels import moved

            channels = moved(channels, before._form, self._chat._form)
        self._chat.load(((begun.save(), channels, own), counts))
        return self._crossed(self._chat.feed(before.detokenizer.held))

    def _held(self) -> tuple[bytes, str]:
        """Return the bytes and the text that are held."""
        chat = self._chat
        if chat is None or chat.finish_reason is not None:
            return b"", ""
        return chat.held_bytes, chat.held_text

    # ---------------------------------------------------------------- events

    def use(self, vocabulary: Vocabulary) -> None:
        """Decode with this vocabulary, which the bridge must have."""
        self._vocabulary = vocabulary
        self._format = self._format or vocabulary.chat_format
        # From here on the session refuses a bridge with another vocabulary, also after a reconnect.
        self.session.vocabulary_sha256 = vocabulary.sha256
        self._wanted = None

    def _refuse(self, sentence: str) -> str:
        """End the answer because its vocabulary is not available."""
        self.session.cancel()
        self.session.closing = (VOCABULARY_MISMATCH, "vocabulary mismatch")
        return self._abandon(VOCABULARY_MISMATCH, sentence)

    def _abandon(self, code: int, sentence: str) -> str:
        """End the answer, and drop the events that wait for a vocabulary.

        The failure is reported even if the session has ended, because the end may be among those
        events.
        """
        self._waiting = []
        self._wanted = None
        self.session.give_up(code, sentence)
        return self._outcome([s.Failed(code, sentence, False, self.session.position)])

    def _outcome(self, events: list[Any], retry: "float | None" = None) -> str:
        return json.dumps(self.results(events, retry), separators=(",", ":"))

    def results(self, events: list[Any], retry: "float | None" = None) -> dict[str, Any]:
        """Return what events of the session mean, as the object in this file's docstring."""
        out: dict[str, Any] = {"events": []}
        waiting, self._waiting = self._waiting + events, []
        for n, event in enumerate(waiting):
            if self._wanted is not None and not isinstance(event, s.Failed):
                self._waiting = waiting[n:]
                break
            self._add(event, out["events"])
            if self._wanted is not None:
                out["fetch"] = self._wanted
        send = self.session.frames()
        if send:
            out["send"] = send
        if self.session.closing:
            out["close"] = self.session.closing
        if retry is not None:
            out["retry"] = retry
        return out

    def _add(self, event: Any, out: list[Any]) -> None:
        """Add what an event of the session means for the page."""
        if isinstance(event, (s.Tokens, s.Bytes, s.Gap)):
            self._data(event, out)
        elif isinstance(event, s.Hello):
            self._hello(event)
            hello: dict[str, Any] = {"type": "hello", "engine": event.engine}
            hello["vocabulary"] = event.vocabulary
            hello["format"] = self._format
            out.append(hello)
        elif isinstance(event, s.Started):
            if self._chat is None:
                self.begin(None if event.data == "bytes" else self._vocabulary, start=event.start)
            started: dict[str, Any] = {"type": "started", "id": event.id, "data": event.data}
            started.update({"position": event.position, "format": self.format})
            started["start"] = event.start
            out.append(started)
        elif isinstance(event, s.Finished):
            self._finish(out, event.reason, event.note, event.position)
        elif isinstance(event, s.Failed):
            self._fail(out, event.code, event.message, event.retry, event.position)
        elif isinstance(event, s.Notice):
            out.append({"type": "notice", "code": event.code, "message": event.message})
        else:
            out.append({"type": "pong"})

    def _hello(self, event: Any) -> None:
        """Use the bridge's vocabulary, or request it if it is not kept here."""
        named = event.raw.get("chat_format")
        if isinstance(named, str):
            from ..decode.format_channels import known_format

            self._format = known_format(named) or self._format
        wanted = event.vocabulary
        if self._vocabulary is not None or not isinstance(wanted, dict) or not wanted.get("sha256"):
            return
        known = kept_vocabularies.get(wanted["sha256"])
        if known is not None:
            self.use(known)
        else:
            self._wanted = wanted

    def _data(self, event: Any, out: list[Any]) -> None:
        """Decode the tokens or bytes of a data frame."""
        chat = self._chat
        if self._over or chat is None:
            return
        text: dict[str, Any] = {"type": "text"}
        failure: DetokError | None = None
        count = 0
        if self._options.get("details"):
            rows: list[Any] = []
            text["rows"] = rows
            began = _ticks()
            for ids, data, size in self._tokens(event):
                try:
                    rows.append(self.row(ids[0] if ids else None, data))
                except DetokError as error:
                    failure = error
                    break
                count += size
                if self.stopped:
                    break
            text["spent"] = _ticks() - began
        else:
            text["deltas"], count, failure = self._whole(event)
        held, text["waiting"] = self._held()
        text["held"] = len(held)
        text["count"] = count
        position = text["position"] = event.position + count
        out.append(text)
        if failure is not None:
            self.session.cancel()
            self._fail(out, VOCABULARY_MISMATCH, str(failure), False, position)
        elif self.stopped:
            self.session.cancel()
            self._finish(out, "stop", None, position)

    def _whole(self, event: Any) -> tuple[list[list[Any]], int, "DetokError | None"]:
        """Decode a data frame in one step. Return its deltas, how many positions were decoded, and
        the error that stopped it.
        """
        deltas: list[list[Any]] = []
        count = 0
        try:
            if isinstance(event, s.Tokens):
                data = None if event.pieces is None else b"".join(event.pieces)
                return self._decode(event.ids, data), len(event.ids), None
            deltas = self._decode(None, event.data)
            return deltas, len(event.data) if isinstance(event, s.Bytes) else event.count, None
        except DetokError:
            # `feed` takes a whole chunk or nothing, so decode the ids before the unknown one
            # singly.
            for ids, data, size in self._tokens(event):
                try:
                    deltas += self._decode(ids, data)
                except DetokError as error:
                    return deltas, count, error
                count += size
        return deltas, count, None

    def _tokens(self, event: Any) -> list[tuple["list[int] | None", "bytes | None", int]]:
        """Return (ids, bytes, positions) for each row of a data frame."""
        if isinstance(event, s.Tokens):
            pieces = event.pieces
            return [([i], pieces[n] if pieces else None, 1) for n, i in enumerate(event.ids)]
        if isinstance(event, s.Gap):
            return [(None, event.data, event.count)]
        if self._options.get("singleBytes"):
            return [(None, bytes([byte]), 1) for byte in event.data]
        return [(None, event.data, len(event.data))]

    def _finish(self, out: list[Any], reason: str, note: "str | None", position: int) -> None:
        self._end(out, {"type": "finished", "reason": reason, "note": note, "position": position})

    def _fail(self, out: list[Any], code: int, message: str, retry: bool, position: int) -> None:
        event: dict[str, Any] = {"type": "failed", "code": code, "message": message}
        event.update({"retry": retry, "position": position})
        self._end(out, event)

    def _end(self, out: list[Any], event: dict[str, Any]) -> None:
        """Report the end once, with the held text. The end that a cancelled stream sends later is
        ignored.
        """
        if self._over:
            return
        self._over = True
        event["deltas"] = self.flush()
        if self.stopped and "reason" in event:
            event["reason"] = "stop"
        elif self._ends_with_call and event.get("reason") in ("eos", "stop"):
            event["reason"] = "tool_calls"
        out.append(event)
