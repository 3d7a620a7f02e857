"""An answer in OpenAI's shapes: server-sent events, or one object.

In: the deltas and the end of an answer (`ExitAnswer`). Out: the bytes of events, or an object.
Held: the position in a stream; the text of a whole answer.

The position in a stream is the `id` of each event. Each character of each channel, the beginning of
each call, the role, the finish reason and the usage count one. So it does not depend on how the
text is cut into events.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..decode.utf8 import StreamingDetokenizer
from ..errors import DetokError
from ..formats.chat_format import ChatFormat
from ..formats.table import FORMATS
from ..page.answer import Answer
from ..protocol.events import Tokens
from .engines.text import Parts

Rows = list[list[Any]]  # deltas as `page.deltas.crossed` returns them
CHANNELS = {"content": "content", "reasoning": "reasoning_content"}
_encode: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Some clients look for the lines of a stream with `str.splitlines`, which also splits at these.
# JSON has them in strings only.
LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
# The format in which most models without one of their own are asked for calls; the same without
# reasoning.
ASKED_FORMAT = "hermes2_text"
NO_REASONING = ChatFormat(ASKED_FORMAT, "its name", FORMATS[ASKED_FORMAT]._replace(thinks=()))
DONE = "data: [DONE]\n\n"


def encode(value: Any) -> str:
    """Return a value as JSON in one line.

    >>> encode({"a": "é\\u2028\\n"})
    '{"a":"é\\\\u2028\\\\n"}'
    """
    text = _encode(value)
    if not text.isascii():
        for end, escaped in LINE_ENDS.items():
            text = text.replace(end, escaped)
    return text


class ExitAnswer(Answer):
    """An answer whose client is not told what is held. If `marked`, an engine may send reasoning
    apart: that is between marks, and once it comes, no tag of reasoning is looked for.
    """

    def __init__(self, request: str, *, marked: bool) -> None:
        super().__init__(request)
        self._parts = Parts() if marked else None
        self._reasoning = StreamingDetokenizer()
        self._has_content = False

    def _held(self) -> tuple[bytes, str]:
        return b"", ""

    def _whole(self, event: Any) -> tuple[list[list[Any]], int, DetokError | None]:
        ids, pieces = getattr(event, "ids", ()), getattr(event, "pieces", None)
        if len(ids) < 2 or not self._options.get("stop"):
            return super()._whole(event)
        # The token that completes a stop string is the last one that counts, however the run is
        # cut into frames.
        deltas: list[list[Any]] = []
        failure = None
        count = 0
        while count < len(ids) and failure is None and not self.stopped:
            one = slice(count, count + 1)
            token = Tokens(event.position + count, ids[one], pieces and pieces[one])
            rows, size, failure = super()._whole(token)
            deltas += rows
            count += size
        return deltas, count, failure

    def _decode(self, ids: list[int] | None, data: bytes | None) -> list[list[Any]]:
        if self._parts is None or data is None:
            return super()._decode(ids, data)
        deltas: list[list[Any]] = []
        for is_reasoning, part in self._parts.feed(data):
            if self.stopped:
                break
            if not is_reasoning:
                self._has_content = True
                deltas += super()._decode(None, part)
                continue
            deltas += self._end_search()
            text = self._reasoning.feed(part)
            deltas += [["reasoning", text]] if text else []
        return deltas

    def _end_search(self) -> list[list[Any]]:
        """Look for no tags of reasoning from here on; return the text that was held for them."""
        form = self._options.get("format", "tags")
        if form not in ("tags", ASKED_FORMAT) or (form == ASKED_FORMAT and self._has_content):
            return []  # a format has them at its beginning only
        held = self.flush()
        self._options["format"] = None if form == "tags" else NO_REASONING
        self.begin(None, start="content")
        return held


class Named(NamedTuple):
    """What every object of an answer has: its id, when it was made (seconds), its model."""

    id: str
    created: int
    model: str

    def object(self, kind: str, choices: list[Any], **more: Any) -> dict[str, Any]:
        """Return an object of an answer."""
        its = {"id": self.id, "object": kind, "created": self.created, "model": self.model}
        return {**its, "choices": choices, **{key: more[key] for key in more if more[key]}}


def name_of(secret: str, prefix: str) -> str:
    """Return an id that is equal for all readers of a run, and does not reveal the run's id.

    >>> name_of("0123456789abcdef", "cmpl-")
    'cmpl-68ace7e191b9e0c1654347fb'
    """
    return prefix + hashlib.sha256(f"{prefix}0\n{secret}".encode()).hexdigest()[:24]


def call_id_of(secret: str, number: int) -> str:
    """Return an id like that of `name_of` for a call of a run, in nine letters and digits: the chat
    templates of Mistral's models refuse others.

    >>> call_id_of("0123456789abcdef", 0), call_id_of("0123456789abcdef", 1)
    ('35c1817d2', '35c1817d3')
    """
    first = int(name_of(secret, "")[:9], 16)
    return f"{(first + number) % 16**9:09x}"


def finish_of(reason: str) -> str:
    """Return OpenAI's word for why an answer ended.

    >>> finish_of("eos"), finish_of("length"), finish_of("tool_calls")
    ('stop', 'length', 'tool_calls')
    """
    return reason if reason in ("length", "tool_calls") else "stop"


def extra(note: str | None) -> dict[str, Any] | None:
    """Return the fields that OpenAI's shapes lack."""
    return {"note": note} if note else None


class Calls:
    """The calls of a streamed answer: which have begun, and which have arguments."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._sizes: list[int] = []

    def delta(self, row: list[Any]) -> tuple[dict[str, Any], str, bool]:
        """Return OpenAI's delta of a call without its arguments, the arguments that come with it,
        and whether the call begins.
        """
        _, text, its = row
        n = its["call"]
        begins = n >= len(self._sizes)
        delta: dict[str, Any] = {"index": n}
        if begins:
            self._sizes += [0] * (n + 1 - len(self._sizes))
            delta["id"] = its.get("id") or call_id_of(self._secret, n)
            delta.update(type="function", function={"name": its.get("name") or ""})
        self._sizes[n] += len(text)
        if its.get("complete") and not self._sizes[n]:
            text = "{}"
        return delta, text, begins


class Chunks:
    """The events of a streamed answer after position `after`. If `numbered`, they have ids, with
    which a client can come back for the rest.
    """

    def __init__(
        self, named: Named, secret: str, *, is_chat: bool, after: int = 0, numbered: bool = False
    ) -> None:
        self.position: int = 0
        self._named = named
        self._calls = Calls(secret)
        self._after = after
        self._numbered = numbered
        self._kind = "chat.completion.chunk" if is_chat else "text_completion"
        self._is_chat = is_chat
        whole = encode(named.object(self._kind, [{"index": 0, "+": 0, "finish_reason": None}]))
        before, _, self._tail = whole.partition('"+":0')
        self._head = "data: " + before + ('"delta":{' if is_chat else "")
        names = CHANNELS if is_chat else {"content": "text"}
        self._heads = {channel: f'{self._head}"{names[channel]}":' for channel in names}
        self._tail = ("}" if is_chat else "") + self._tail + "\n\n"

    def text(self, rows: Rows) -> str:
        """Return the events of some deltas."""
        if self.position and len(rows) == 1 and len(rows[0]) == 2:
            return self._text(*rows[0])
        begin = "" if self.position else self._begin()
        out = [self._call(row) if len(row) > 2 else self._text(*row) for row in rows]
        return begin + "".join(out)

    def _begin(self) -> str:
        """Return the first event, with the role."""
        return self._event('"role":"assistant","content":""', 1) if self._is_chat else ""

    def end(self, reason: str, note: str | None = None) -> str:
        """Return the event with the finish reason."""
        begin = "" if self.position else self._begin()
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish_of(reason)}
        choice["delta" if self._is_chat else "text"] = {} if self._is_chat else ""
        return begin + self._object(self._named.object(self._kind, [choice], detok=extra(note)))

    def usage(self, usage: dict[str, int] | None) -> str:
        """Return the event with the usage."""
        return self._object({**self._named.object(self._kind, []), "usage": usage})

    def _text(self, channel: str, text: str) -> str:
        before = self.position
        self.position += len(text)
        if before < self._after:
            text = text[self._after - before :]
        if not text:
            return ""
        number = f"id: {self.position}\n" if self._numbered else ""
        return number + self._heads[channel] + encode(text) + self._tail

    def _call(self, row: list[Any]) -> str:
        delta, text, begins = self._calls.delta(row)
        out = ""
        if begins:
            delta["function"]["arguments"] = ""
            out = self._event(f'"tool_calls":{encode([delta])}', 1)
        text = self._rest(text)
        if not text:
            return out
        more = {"index": delta["index"], "function": {"arguments": text}}
        return out + self._event(f'"tool_calls":{encode([more])}', 0)

    def _rest(self, text: str) -> str:
        """Count a text; return the part that the client lacks."""
        before = self.position
        self.position += len(text)
        return text if before >= self._after else text[self._after - before :]

    def _object(self, value: dict[str, Any]) -> str:
        self.position += 1
        if self.position <= self._after:
            return ""
        return self._id() + "data: " + encode(value) + "\n\n"

    def _event(self, inner: str, units: int) -> str:
        self.position += units
        if self.position <= self._after:
            return ""
        return self._id() + self._head + inner + self._tail

    def _id(self) -> str:
        return f"id: {self.position}\n" if self._numbered else ""


class Whole:
    """An answer that is sent as one object."""

    def __init__(self, named: Named, secret: str, *, is_chat: bool) -> None:
        self._named = named
        self._is_chat = is_chat
        self._calls = Calls(secret)
        self._texts: dict[str, list[str]] = {"content": [], "reasoning": []}
        self._found: list[dict[str, Any]] = []
        self._arguments: list[list[str]] = []

    def add(self, rows: Rows) -> None:
        """Add deltas."""
        for row in rows:
            if len(row) == 2:
                self._texts[row[0]].append(row[1])
                continue
            delta, text, begins = self._calls.delta(row)
            if begins:
                self._found.append(delta)
                self._arguments.append([])
            self._arguments[delta["index"]].append(text)

    def object(
        self, reason: str, usage: dict[str, int] | None, note: str | None = None
    ) -> dict[str, Any]:
        """Return the object."""
        text = "".join(self._texts["content"])
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish_of(reason), "logprobs": None}
        if not self._is_chat:
            choice["text"] = text
            return self._named.object("text_completion", [choice], usage=usage, detok=extra(note))
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if not self._found:
            message["content"] = text
        if self._texts["reasoning"]:
            message["reasoning_content"] = "".join(self._texts["reasoning"])
        for call, pieces in zip(self._found, self._arguments, strict=True):
            call.pop("index")
            call["function"]["arguments"] = "".join(pieces)
        if self._found:
            message["tool_calls"] = self._found
        choice["message"] = message
        return self._named.object("chat.completion", [choice], usage=usage, detok=extra(note))
