"""What the client library's worker calls, in Pyodide and in MicroPython: streams by number, JSON out. Sans-I/O.

In: numbers, JSON texts, and bytes in the inbox of detok_py.browser. Out: JSON texts. Held: one decoder for each stream that is open; a
stream is gone with `release`. JavaScript keeps no Python object but these functions.

A step of a text stream is `[deltas, finish reason or null, count of held bytes, held text]`, a delta `[channel, text]`. An answer gives
what `PageStream` of detok_py/browser.py gives, with `deltas` in place of `tokens`.
"""

import json
import sys

import detok_py
import detok_py.browser as browser  # `from detok_py import browser` asks the package's __getattr__ first in MicroPython
import detok_py.session as s
from detok_py.errors import DetokError, VocabularyError
from detok_py.wire import VOCABULARY_MISMATCH

_streams = {}
_files = []


def about():
    """Return which Python this is, and which detok_py, as JSON."""
    version = ".".join([str(n) for n in sys.version_info[:3]])
    return json.dumps({"python": sys.implementation.name + " " + version, "detok": detok_py.__version__})


def read_inbox(size):
    """Fill the inbox from the file /inbox: MicroPython's memory has no view that JavaScript could write to."""
    if not _files:
        _files.append(open("/inbox", "rb"))  # noqa: SIM115 - once, and kept: opening it costs more than reading it
    _files[0].seek(0)
    _files[0].readinto(memoryview(browser.inbox(size))[:size])


def _taken(given):
    """Return the bytes that JavaScript has given: so many in the inbox, or the few that a hex string spells, which costs one call less."""
    return bytes.fromhex(given) if isinstance(given, str) else bytes(memoryview(browser.inbox())[:given])


def _put(given):
    """Return how many bytes of the inbox were given, after putting those of a hex string there."""
    if not isinstance(given, str):
        return given
    data = bytes.fromhex(given)
    browser.inbox(len(data))[: len(data)] = data
    return len(data)


def keep_vocabulary(given):
    """Keep a packed vocabulary; return `[sha256, count of ids]`. Raises VocabularyError when it is damaged."""
    data = _taken(given)
    vocabulary = detok_py.Vocabulary.unpack(data)
    browser._vocabularies[vocabulary.sha256] = vocabulary
    return json.dumps([vocabulary.sha256, len(vocabulary)])


def pack_tokenizer(path):
    """Return the packed vocabulary of a tokenizer file (Pyodide only). Raises TokenizerFormatError."""
    return detok_py.load_tokenizer(path).vocabulary.pack()


def _vocabulary(sha256):
    vocabulary = browser._vocabularies.get(sha256)
    if vocabulary is None:
        raise VocabularyError("this worker has no vocabulary " + str(sha256)[:12] + "…; load it with loadVocabulary first")
    return vocabulary


def _pair(value):
    return tuple(value) if value else None


def _chat(options, detokenizer):
    return detok_py.ChatStream(
        detokenizer,
        stop=[stop for stop in options.get("stop") or () if stop],
        reasoning=_pair(options.get("reasoning")),
        tools=_pair(options.get("tools")),
        start=options.get("start") or "content",
        trim_artifacts=bool(options.get("trimArtifacts")),
        include_stop=bool(options.get("includeStop")),
    )


def _crossed(deltas):
    return [[delta.channel, delta.text] for delta in deltas]


def _step(chat, deltas):
    reason = chat.finish_reason
    if reason is not None:
        deltas = deltas + chat.flush()  # nothing more is asked for: what was held comes along
    held = chat.detokenizer.held
    return json.dumps([_crossed(deltas), reason, len(held) if reason is None else 0, chat.held if reason is None else ""])


def open_text(stream, options):
    """Begin a text stream: bytes, or ids where the options name a vocabulary."""
    given = json.loads(options)
    errors = given.get("errors") or "replace"
    if given.get("vocabulary"):
        detokenizer = detok_py.Detokenizer(
            _vocabulary(given["vocabulary"]),
            given.get("promptIds") or (),
            skip_special_tokens=given.get("skipSpecialTokens") is not False,
            errors=errors,
            unknown=given.get("unknown") or "error",
        )
    else:
        detokenizer = detok_py.StreamingDetokenizer(errors)
    _streams[stream] = _chat(given, detokenizer)


def feed_bytes(stream, given):
    """Take bytes."""
    chat = _streams[stream]
    return _step(chat, chat.feed(_taken(given)))


def feed_ids(stream, ids):
    """Take ids, as a JSON list."""
    chat = _streams[stream]
    return _step(chat, chat.feed(json.loads(ids)))


def flush(stream):
    """End a text stream; return what was held."""
    chat = _streams[stream]
    return _step(chat, chat.flush())


def open_answer(stream, request):
    """Begin an answer of a bridge."""
    _streams[stream] = AnswerStream(request)


def ask(stream, method, *args):
    """Call a method of an answer; return what there is to do."""
    return getattr(_streams[stream], method)(*args)


def release(stream):
    """Forget a stream."""
    _streams.pop(stream, None)


def open_streams():
    """Return how many streams are held."""
    return len(_streams)


class AnswerStream(browser.PageStream):
    """One answer of a bridge as typed deltas: a session of detok.v1 and a ChatStream.

    `request` is that of `PageStream`, with the options of a text stream, and `vocabulary`: the SHA-256 of one that is kept here, where the
    page insists on it.
    """

    def __init__(self, request):
        super().__init__(request)
        self._options = json.loads(request)
        self._chat = None
        self._by_ids = False
        named = self._options.get("vocabulary")
        if named:
            self._use(_vocabulary(named))

    def receive(self, given):
        return super().receive(_put(given))

    def vocabulary(self, given):
        return super().vocabulary(_put(given))

    def _tell(self, event, out):
        if isinstance(event, s.Started):
            if self._chat is None:
                self._begin(event.data != "bytes" and self._vocabulary is not None)
            out.append({"type": "started", "id": event.id, "data": event.data, "position": event.position})
        else:
            super()._tell(event, out)

    def _begin(self, by_ids):
        self._by_ids = by_ids
        self._chat = _chat(self._options, detok_py.Detokenizer(self._vocabulary) if by_ids else detok_py.StreamingDetokenizer())

    def _go_on_by_bytes(self):
        """The engine lost ids: from here on the text is that of the bytes, and what is held goes on with them."""
        _, channels, own, counts = self._chat.save()
        held = self._chat.detokenizer.held
        self._begin(False)
        self._chat.load((self._chat.detokenizer.save(), channels, own, counts))
        return _crossed(self._chat.feed(held))

    def _data(self, event, out):
        chat = self._chat
        if self._over or chat is None:
            return
        failure = None
        deltas = []
        count = len(event.ids) if isinstance(event, s.Tokens) else event.count if isinstance(event, s.Gap) else len(event.data)
        if self._by_ids and isinstance(event, s.Tokens):
            try:
                deltas = _crossed(chat.feed(event.ids))
            except DetokError:
                # A chunk goes in whole or not at all: what stands before the unknown id is text all the same.
                for n, token_id in enumerate(event.ids):
                    try:
                        deltas += _crossed(chat.push(token_id))
                    except DetokError as error:
                        failure, count = error, n
                        break
        elif isinstance(event, s.Tokens) and event.pieces is None:
            count = 0
            failure = "The bridge sends ids, and no vocabulary to read them with; ask for bytes, or start it with --tokenizer."
        else:
            if self._by_ids:
                deltas = self._go_on_by_bytes()
                chat = self._chat
            deltas += _crossed(chat.feed(b"".join(event.pieces or []) if isinstance(event, s.Tokens) else event.data))
        position = event.position + count
        out.append(
            {
                "type": "deltas",
                "deltas": deltas,
                "count": count,
                "position": position,
                "held": len(chat.detokenizer.held) if chat.finish_reason is None else 0,
                "waiting": chat.held if chat.finish_reason is None else "",
            }
        )
        if failure is not None:
            self.session.cancel()
            self._fail(out, VOCABULARY_MISMATCH, str(failure), False, position)
        elif chat.finish_reason == "stop":
            self.session.cancel()
            self._end(out, {"type": "finished", "reason": "stop", "note": None, "position": position, "stopped": chat.stopped})

    def _end(self, out, event):
        if self._over:
            return
        self._over = True
        deltas = _crossed(self._chat.flush()) if self._chat is not None else []
        if self._chat is not None and self._chat.finish_reason == "stop" and event["type"] == "finished":
            event["reason"] = "stop"
        if deltas:
            out.append({"type": "deltas", "deltas": deltas, "count": 0, "position": event["position"], "held": 0, "waiting": ""})
        event["text"] = ""
        out.append(event)
