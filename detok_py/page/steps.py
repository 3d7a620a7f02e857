"""The steps of a stream, for a table that JavaScript keeps: (state, symbol) → deltas and the state
after it.

In: the options of a stream, a state, and symbols: token ids, pieces of text, None for the end. Out:
JSON. Nothing of a stream is held here: its whole state goes to JavaScript and comes back, so that a
stream goes on where its table ends, in this worker or in the next one.

A state crosses as `[state, triggers, held bytes, held text, channel]`: `state` is a text that means
something here only; text without one of the characters of `triggers`, which are written as in a
regular expression of JavaScript, passes unchanged and leaves the state as it is (None: no text
does). A step crosses as `[deltas, finish reason or None, state after
it, or None where it stays]`, or, where the symbol is refused, as the sentence that says why.
"""

import json
from typing import Any

from ..decode.chat import ChatStream
from ..decode.detokenizer import Detokenizer
from ..errors import DetokError
from .answer import crossed, named_vocabulary, open_chat

MOST_KINDS = 64  # of streams, told apart by their options

_streams: dict[str, "tuple[ChatStream, Any]"] = {}


class Text:
    """What a ChatStream decodes where its input is text already.

    >>> Text().feed("é")
    'é'
    """

    def feed(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""

    def save(self) -> None:
        return None

    def load(self, state: None) -> None:
        pass


def _stream(options: str) -> "tuple[ChatStream, Any]":
    """Return a stream with these options, and the state that it begins in."""
    known = _streams.get(options)
    if known is None:
        given: dict[str, Any] = json.loads(options)
        source: Any = Text()
        if given.get("vocabulary"):
            source = Detokenizer(
                named_vocabulary(given["vocabulary"]),
                given.get("promptIds") or (),
                skip_special_tokens=given.get("skipSpecialTokens") is not False,
                errors="strict" if given.get("fatal") else "replace",
                unknown=given.get("unknown") or "error",
            )
        chat = open_chat(given, source)
        if len(_streams) >= MOST_KINDS:
            _streams.clear()
        known = _streams[options] = chat, chat.future()
    return known


def _crossed_state(chat: ChatStream, future: Any) -> list[Any]:
    triggers = chat.triggers
    if triggers is not None:
        triggers = "".join(["\\u{" + f"{ord(c):x}" + "}" for c in triggers])
    return [json.dumps(future), triggers, len(chat.held_bytes), chat.held_text, chat.channel]


def begin_steps(options: str) -> str:
    """Return the state that a stream with these options begins in."""
    chat, start = _stream(options)
    chat.load(start)
    return json.dumps(_crossed_state(chat, start))


def _step(chat: ChatStream, before: Any, symbol: Any) -> "tuple[Any, Any]":
    """Take a symbol; return the step, and the state after it."""
    try:
        if symbol is None:
            deltas = chat.flush()
        else:
            deltas = chat.push(symbol) if isinstance(symbol, int) else chat.feed(symbol)
        reason = chat.finish_reason
    except (DetokError, UnicodeError) as error:
        chat.load(before)
        return str(error), before
    if symbol is None or reason is not None:
        return [crossed(deltas), reason or "end", None], None
    after = chat.future()
    same = after == before
    return [crossed(deltas), None, None if same else _crossed_state(chat, after)], after


def walk(options: str, state: str, symbols: str) -> str:
    """Return the steps from a state through symbols, one after another, up to the end of the text."""
    chat, _ = _stream(options)
    chat.load(json.loads(state))
    future, out = chat.future(), []
    for symbol in json.loads(symbols):
        step, future = _step(chat, future, symbol)
        out.append(step)
        if future is None:
            break
    return json.dumps(out)


def fan(options: str, state: str, first: int, end: int) -> str:
    """Return the steps from one state, by each of the ids from `first` up to, without, `end`.

    A step that leaves the state as it is crosses as its text where that is in the state's channel,
    and what is refused as null.
    """
    chat, _ = _stream(options)
    chat.load(json.loads(state))
    before, channel = chat.future(), chat.channel
    out: list[Any] = []
    for token_id in range(first, min(end, len(chat.detokenizer.vocabulary))):
        step, after = _step(chat, before, token_id)
        if after is not before:
            chat.load(before)
        if step.__class__ is str:
            step = None
        elif after == before and not step[0]:
            step = ""
        elif after == before and len(step[0]) == 1 and step[0][0][0] == channel:
            step = step[0][0][1]
        out.append(step)
    return json.dumps(out)
