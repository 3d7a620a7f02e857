"""The steps of a stream, for a table that JavaScript keeps: (state, symbol) → deltas and the state
after it.

In: the options of a stream, a state, and symbols: token ids, pieces of text, half a character as
the negative number that its bytes spell, None for the end. Out:
JSON. No stream is held here. Its whole state is kept in JavaScript and passed with each question,
so this worker or the next one can continue any stream.

A state crosses as `[state, triggers, held bytes, held text, channel]`: `state` is an opaque text.
`triggers` are characters as in a class of a JavaScript regular expression: text without any of them
passes unchanged and does not change the state. None means that no text passes unchanged. A step
crosses as `[deltas, finish reason or None, next state or None if unchanged]`, or as an error
message if the symbol is refused.
"""

import json
from typing import Any

from ..decode.chat import ChatStream
from ..decode.detokenizer import Detokenizer
from ..errors import DetokError
from .answer import named_vocabulary
from .deltas import crossed, open_call, open_chat

MOST_STATES = 1 << 16  # characters of states in one answer; a state that holds much is long
MOST_KINDS = 64  # of streams, told apart by their options

_streams: dict[str, "tuple[ChatStream, Any]"] = {}


class Text:
    """What a ChatStream decodes where its input is text already, decoded by the page.

    `held` are the bytes of half a character that the page's decoder holds.

    >>> Text().feed("é")
    'é'
    """

    def __init__(self, errors: str = "replace") -> None:
        self.errors = errors
        self.held: bytes = b""

    def feed(self, text: "str | bytes") -> str:
        """Take text, or the bytes that are held from now on."""
        if isinstance(text, bytes):
            self.held = text
            return ""
        self.held = b""
        return text

    def flush(self) -> str:
        return ""

    def save(self) -> str:
        return self.held.hex() if self.held else ""

    def load(self, state: str) -> None:
        self.held = bytes.fromhex(state)


def _stream(options: str) -> "tuple[ChatStream, Any]":
    """Return a stream with these options, and the state that it begins in."""
    known = _streams.get(options)
    if known is None:
        given: dict[str, Any] = json.loads(options)
        errors: Any = "strict" if given.get("fatal") else "replace"
        source: Any = Text(errors)
        if given.get("vocabulary"):
            source = Detokenizer(
                named_vocabulary(given["vocabulary"]),
                given.get("promptIds") or (),
                skip_special_tokens=given.get("skipSpecialTokens") is not False,
                errors=errors,
                unknown=given.get("unknown") or "error",
            )
        chat = open_chat(given, source)
        if len(_streams) >= MOST_KINDS:
            _streams.clear()
        known = _streams[options] = chat, chat._future
    return known


def _crossed_state(chat: ChatStream, future: Any) -> list[Any]:
    triggers = chat._triggers if isinstance(chat.detokenizer, Text) else None
    if triggers is not None:
        triggers = "".join(["\\u{" + f"{ord(c):x}" + "}" for c in triggers])
    return [json.dumps(future), triggers, len(chat.held_bytes), chat.held_text, chat.channel]


def begin_steps(options: str) -> str:
    """Return the state that a stream with these options begins in."""
    chat, start = _stream(options)
    chat._future = start
    return json.dumps(_crossed_state(chat, start))


def _step(chat: ChatStream, before: Any, symbol: Any) -> "tuple[Any, Any]":
    """Take a symbol; return the step, and the state after it."""
    open = open_call(chat.calls)
    try:
        if symbol is None:
            deltas = chat.flush()
        elif isinstance(symbol, str):
            deltas = chat.feed(symbol)
        elif isinstance(chat.detokenizer, Text):
            # Half a character makes a difference only where text waits.
            size = 1 if symbol > -0x100 else 2 if symbol > -0x10000 else 3
            held: Any = (-symbol).to_bytes(size, "big")
            deltas = chat.feed(held) if chat.held_text else []
        else:
            deltas = chat.push(symbol)
        reason = chat.finish_reason
    except (DetokError, UnicodeError) as error:
        chat._future = before
        return str(error), before
    said = crossed(deltas, chat.calls, open)
    if symbol is None or reason is not None:
        return [said, reason or "end", None], None
    after = chat._future
    same = after == before
    return [said, None, None if same else _crossed_state(chat, after)], after


def walk(options: str, state: str, symbols: str) -> str:
    """Return the steps from a state through symbols, one after another, up to the end of
    the text, or to where the states that are returned have `MOST_STATES` characters.
    """
    chat, _ = _stream(options)
    chat._future = json.loads(state)
    future, out, size = chat._future, [], 0
    for symbol in json.loads(symbols):
        step, future = _step(chat, future, symbol)
        out.append(step)
        if step.__class__ is list and step[2] is not None:
            size += len(step[2][0])
        if future is None or size > MOST_STATES:
            break
    return json.dumps(out)


def fan(options: str, state: str, first: int, end: int) -> str:
    """Return the steps from one state for each id from `first` to `end`, exclusive.

    A step that does not change the state crosses as its text, if that is on the state's channel. A
    refused id crosses as null.
    """
    chat, _ = _stream(options)
    chat._future = json.loads(state)
    before, channel = chat._future, chat.channel
    source: Any = chat.detokenizer
    out: list[Any] = []
    for token_id in range(first, min(end, len(source.vocabulary))):
        step, after = _step(chat, before, token_id)
        if after != before:
            chat._future = before
        if step.__class__ is str:
            step = None
        elif after == before and not step[0]:
            step = ""
        elif after == before and len(step[0]) == 1 and step[0][0][:-1] == [channel]:
            step = step[0][0][1]
        out.append(step)
    return json.dumps(out)
