"""What the worker in a page calls: streams by number, JSON out.

In: numbers, JSON texts, and bytes (inbox.py). Out: JSON texts. Held: one decoder for each stream
that is open, until `release`. JavaScript keeps no Python object but these functions.

A step of a text stream is `[deltas, finish reason or null]`, a delta `[channel, text]`.
"""

import json
import sys
from typing import Any

import detok_py

from ..decode.chat import ChatStream
from ..decode.detokenizer import Detokenizer
from ..decode.utf8 import StreamingDetokenizer
from .answer import Answer, crossed, named_vocabulary, open_chat, unpack_vocabulary
from .captures import capture_rows, capture_text, capture_vocabulary
from .inbox import given_bytes, inbox, read_from_file

__all__ = [
    "capture_rows",
    "capture_text",
    "capture_vocabulary",
    "inbox",
    "read_from_file",
]

_texts: dict[int, ChatStream] = {}
_answers: dict[int, Answer] = {}


def about() -> str:
    """Return which Python this is, and which detok_py."""
    version = ".".join([str(n) for n in sys.version_info[:3]])
    return json.dumps(
        {"python": sys.implementation.name + " " + version, "detok": detok_py.__version__}
    )


def keep_vocabulary(given: "int | str") -> str:
    """Keep a packed vocabulary; return `[sha256, count of ids]`. Raises VocabularyError if it is
    damaged.
    """
    vocabulary = unpack_vocabulary(given_bytes(given))
    return json.dumps([vocabulary.sha256, len(vocabulary)])


def pack_tokenizer(path: str) -> bytes:
    """Return the packed vocabulary of a tokenizer file (Pyodide only). Raises TokenizerFormatError."""
    packed: bytes = detok_py.load_tokenizer(path).vocabulary.pack()
    return packed


def open_text(stream: int, options: str) -> str:
    """Begin a text stream: of ids if the options name a vocabulary, else of bytes."""
    given: dict[str, Any] = json.loads(options)
    errors = "strict" if given.get("fatal") else "replace"
    detokenizer: Detokenizer | StreamingDetokenizer
    if given.get("vocabulary"):
        detokenizer = Detokenizer(
            named_vocabulary(given["vocabulary"]),
            given.get("promptIds") or (),
            skip_special_tokens=given.get("skipSpecialTokens") is not False,
            errors=errors,
            unknown=given.get("unknown") or "error",
        )
    else:
        detokenizer = StreamingDetokenizer(errors)
    _texts[stream] = open_chat(given, detokenizer)
    return "null"


def feed_bytes(stream: int, given: "int | str") -> str:
    """Take bytes; return a step."""
    chat = _texts[stream]
    return _step(chat, chat.feed(given_bytes(given)))


def feed_ids(stream: int, ids: str) -> str:
    """Take ids, as a JSON list; return a step."""
    chat = _texts[stream]
    return _step(chat, chat.feed(json.loads(ids)))


def flush(stream: int) -> str:
    """End a text stream; return what was held, as a step."""
    chat = _texts[stream]
    return _step(chat, chat.flush())


def open_answer(stream: int, request: str) -> str:
    """Begin an answer of a bridge."""
    _answers[stream] = Answer(request)
    return "null"


def ask_answer(stream: int, method: str, *args: Any) -> str:
    """Call a method of an answer; return what there is to do."""
    return str(getattr(_answers[stream], method)(*args))


def release(stream: int) -> str:
    """Forget a stream."""
    _texts.pop(stream, None)
    _answers.pop(stream, None)
    return "null"


def open_streams() -> str:
    """Return how many streams are open."""
    return json.dumps(len(_texts) + len(_answers))


def _step(chat: ChatStream, deltas: list[Any]) -> str:
    reason = chat.finish_reason
    if reason is not None:
        deltas = deltas + chat.flush()  # nothing more will be asked for: what was held comes now
    return json.dumps([crossed(deltas), reason])
