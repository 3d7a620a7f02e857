"""The steps of a stream, for a table that JavaScript keeps: (state, symbol) → deltas and the state
after it.

In: the options of a stream, a state, and symbols: token ids, pieces of text, half a character as
the negative number that its bytes spell, None for the end. Out: JSON. No stream is held here: its
whole state is kept in JavaScript and passed with each question, so this worker or the next one can
continue any stream.

A state crosses as `[state, takes tokens, held bytes in hex, passing, held text, channel]`. `state`
is an opaque text. Where it takes tokens (passing.py), the held bytes are not part of it, and
`tokens_of` says what each id is. `passing` says what text passes (passing.py), None if none does.
JavaScript takes steps of such tokens and texts by itself, and asks only for the others. A step
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
from .passing import hold, passing, takes_tokens, texts_of, tokens_in_file

MOST_STATES = 1 << 16  # characters of states in one answer; a state that holds much is long
MOST_PASSING = 1 << 9  # states whose passing text is kept
MOST_KINDS = 64  # of options whose streams are kept

_streams: dict[str, "tuple[ChatStream, Any]"] = {}
_passing: dict[Any, Any] = {}  # `passing`, by the options and the state


class Text:
    """The first stage of a ChatStream whose input is text that the page has decoded.

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
            _passing.clear()
        known = _streams[options] = chat, chat._future
    return known


def _told(future: Any) -> str:
    """Return a state as a text that can cross: JSON, but a marker (formats/values.py) is "\\1" and
    four hex digits. It is a lone surrogate, which no UTF-8 has (RFC 3629, section 3).

    >>> _told(["é", "\\ud801"])
    '["é", "\\x01d801"]'
    """
    told = json.dumps(future, ensure_ascii=False)
    if max(told) < "\ud800":
        return told
    return "".join([c if c < "\ud800" or c > "\udfff" else f"\x01{ord(c):04x}" for c in told])


def _untold(told: str) -> Any:
    """Return the state of a text of `_told`.

    >>> _untold('["é", "\\x01d801"]') == ["é", "\\ud801"]
    True
    """
    first, *rest = told.split("\x01")
    return json.loads(first + "".join([chr(int(each[:4], 16)) + each[4:] for each in rest]))


def _crossed_state(chat: ChatStream, future: Any) -> list[Any]:
    held, tokens = chat.held_bytes, takes_tokens(chat)
    if tokens and held:
        hold(chat, b"")
        future = chat._future
    text_held = chat.held_text
    # Half a character can make held text certain, so no text just passes.
    passes, told = None, _told(future)
    if not held or (tokens and not text_held):
        key = id(chat), told
        if key not in _passing:
            if len(_passing) >= MOST_PASSING:
                _passing.clear()
            _passing[key] = passing(chat, _crossed_state)
        passes = _passing[key]
    out = [told, tokens, held.hex() if held else "", passes, text_held, chat.channel]
    if tokens and held:
        hold(chat, held)
    return out


def begin_steps(options: str) -> str:
    """Return `[state, place, asked]`: the state that a stream with these options begins in, where
    the bytes of its tokens are, or null if `tokens_of` says what they are, and the ids whose steps
    JavaScript must ask for (passing.py). A stream of bytes has the state alone.
    """
    chat, start = _stream(options)
    chat._future = start
    out = [_crossed_state(chat, start)]
    source: Any = chat.detokenizer
    if isinstance(source, Detokenizer):
        out += tokens_in_file(chat)
    return json.dumps(out)


def tokens_of(options: str, first: int, end: int) -> str:
    """Return what the ids from `first` to `end`, exclusive, are (`passing.texts_of`)."""
    source: Any = _stream(options)[0].detokenizer
    return json.dumps(texts_of(source, first, end))


def _step(chat: ChatStream, before: Any, symbol: Any) -> "tuple[Any, Any]":
    """Take a symbol; return the step, and the state after it."""
    open, was = open_call(chat.calls), chat.complete
    try:
        if symbol is None:
            deltas = chat.flush()
        elif isinstance(symbol, str):
            # Text of tokens goes past their detokenizer, which is in its default state.
            takes = chat.feed if isinstance(chat.detokenizer, Text) else chat._feed_text
            deltas = takes(symbol)
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
    said = crossed(deltas, chat.calls, open, chat.complete and not was)
    if symbol is None or reason is not None:
        return [said, reason or "end", None], None
    after = chat._future
    same = after == before
    return [said, None, None if same else _crossed_state(chat, after)], after


def walk(options: str, state: str, held: str, symbols: str) -> str:
    """Return the steps from a state through symbols, one after another, up to the end of the text,
    or until the returned states have `MOST_STATES` characters.
    """
    chat, _ = _stream(options)
    future = _begin_in(chat, state, held)
    out, size = [], 0
    for symbol in json.loads(symbols):
        step, future = _step(chat, future, symbol)
        out.append(step)
        if step.__class__ is list and step[2] is not None:
            size += len(step[2][0])
        if future is None or size > MOST_STATES:
            break
    return json.dumps(out)


def fan(options: str, state: str, held: str, symbols: str) -> str:
    """Return the step from one state by each symbol."""
    chat, _ = _stream(options)
    before, out = _begin_in(chat, state, held), []
    for symbol in json.loads(symbols):
        step, after = _step(chat, before, symbol)
        if after != before:
            chat._future = before
        out.append(step)
    return json.dumps(out)


def _begin_in(chat: ChatStream, state: str, held: str) -> Any:
    """Put a stream into a state that came from JavaScript; return the state."""
    chat._future = _untold(state)
    if held:
        hold(chat, bytes.fromhex(held))
    return chat._future
