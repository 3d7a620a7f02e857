"""Turn text that an engine has decoded back into bytes, and count what is missing.

In: strings from JSON. Out: UTF-8. Held: at most one high surrogate, because some servers split a
surrogate pair between two events. A lone surrogate is not a character, so it becomes U+FFFD.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from ...captures.event_shapes import Calls

# The names of the field for reasoning: in vLLM, in DeepSeek and llama-server, in Ollama.
REASONING = ("reasoning", "reasoning_content", "thinking")
# How many tokens may have no text: the end of text; more around reasoning and tool calls.
SILENT = 1
SILENT_TAGS = 16
# How many events without text are normal: with a role, a reason, or a special token.
SILENT_EVENTS = 8


class Surrogates:
    """Joins surrogate pairs that were split between two strings.

    >>> s = Surrogates()
    >>> s.feed("a\\ud83d"), s.feed("\\ude00b"), s.feed("\\udc00"), s.feed("\\ud83d"), s.flush()
    (b'a', b'\\xf0\\x9f\\x98\\x80b', b'\\xef\\xbf\\xbd', b'', b'\\xef\\xbf\\xbd')
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> bytes:
        """Return the bytes of all complete characters."""
        text = self._held + text
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return _encode(text)

    def flush(self) -> bytes:
        """Return U+FFFD if half of a pair was held."""
        held, self._held = self._held, ""
        return _encode(held)


# What is before reasoning in the text, and behind it. Behind U+0010 (data link escape) is "r" where
# reasoning begins, "c" where content goes on, and a second U+0010 for one of the text.
AROUND = {"tags": ("<think>", "</think>"), "marks": ("\x10r", "\x10c")}
_MARK = re.compile(rb"\x10(.)", re.DOTALL)


class Tags:
    """Puts reasoning and calls that an engine sends apart into its text, as `wanted`: with "tags",
    between tags; with "marks", reasoning between marks, which `Parts` tells from all text; with
    None, drops them.

    >>> from ...captures.event_shapes import read_event
    >>> tags = Tags("tags")
    >>> for message in (
    ...     {"thinking": "hm"},
    ...     {"content": "4"},
    ...     {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]},
    ... ):
    ...     print(tags.feed(read_event({"message": message, "done": False})))
    <think>hm
    </think>4
    <tool_call>{"id": "a", "name": "f", "arguments": {}
    >>> tags.flush()
    '}</tool_call>'
    """

    def __init__(self, wanted: str | None) -> None:
        self.wanted = wanted
        self._begin, self._end = AROUND[wanted or "tags"]
        self._thinks = False  # the open part is reasoning
        self._calls = Calls(tagged=True)

    def feed(self, said: Any) -> str:
        """Return the text of an event, including its reasoning and calls."""
        text: str = said.text
        if not self.wanted:
            return text
        out = ""
        if said.reasoning:
            if not self._thinks:
                # Between marks, reasoning does not interrupt a call.
                out = self._calls.flush(goes_on=True) if self.wanted == "tags" else ""
                out += self._begin
            out += self._plain(said.reasoning)
            self._thinks = True
        if text:
            out += self._end_thought() + self._plain(self._calls.flush(goes_on=True) + text)
        for call in said.calls:
            written = self._calls.feed(call)
            if written:
                out += self._end_thought() + self._plain(written)
        return out

    def flush(self) -> str:
        """Return the end of the open part. A call that breaks off stays open."""
        return self._end_thought() + self._plain(self._calls.flush())

    def _end_thought(self) -> str:
        end, self._thinks = self._end if self._thinks else "", False
        return end

    def _plain(self, text: str) -> str:
        return text.replace("\x10", "\x10\x10") if self.wanted == "marks" else text


class Parts:
    r"""Reads text in which reasoning is between marks: yields (whether it is reasoning, bytes).

    >>> parts = Parts()
    >>> [*parts.feed(b"\x10rhm</think>\x10c4"), *parts.feed(b" \x10"), *parts.feed(b"\x10\x10r!")]
    [(True, b'hm</think>'), (False, b'4'), (False, b' '), (False, b'\x10'), (True, b'!')]
    """

    def __init__(self) -> None:
        self._is_reasoning = False
        self._held = b""  # the first half of a mark

    def feed(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """Yield the parts of the next bytes."""
        texts = _MARK.split(self._held + data)  # and the second half of each mark between them
        self._held = texts[-1][-1:] if texts[-1].endswith(b"\x10") else b""
        texts[-1] = texts[-1].removesuffix(b"\x10")
        for n, text in enumerate(texts):
            if n % 2 and text != b"\x10":
                self._is_reasoning = text == b"r"
            elif text:
                yield self._is_reasoning, text


class Tally:
    """Counts text and tokens of an engine that sends text, for the note at the end.

    >>> tally = Tally()
    >>> tally.add({"content": "日"}), tally.note()
    (None, None)
    >>> tally.counted(10), tally.note()
    (None, 'The engine counted 10 tokens and sent 3 bytes of text: it lost text and does not say
    where.')
    >>> tally.add({"reasoning": "hm, 4 + 4"}), tally.note()
    (None, 'The engine sent 9 characters of reasoning apart from its text; they are not in this
    answer.')
    """

    def __init__(self, *, tags: bool = False) -> None:
        self._tags = tags  # reasoning and calls are in the text too
        self._tokens: int | None = None
        self._hidden = 0  # tokens of reasoning
        self._size = 0  # of the text, in bytes
        self._beside = 0  # of the reasoning and the calls
        self._empty = 0
        self._unexplained = 0
        self._apart: dict[str, int] = {}

    def add(self, message: dict[str, Any]) -> None:
        """Count the message of an event: `content`, reasoning and calls."""
        text = message.get("content")
        size = len(text.encode("utf-8", "replace")) if isinstance(text, str) else 0
        self._size += size
        thought = next((message[name] for name in REASONING if message.get(name)), None)
        if isinstance(thought, str):
            self._apart["reasoning"] = self._apart.get("reasoning", 0) + len(thought)
            self._beside += len(thought.encode("utf-8", "replace"))
        calls = message.get("tool_calls")
        if calls:
            written = len(json.dumps(calls))
            self._apart["tool calls"] = self._apart.get("tool calls", 0) + written
            self._beside += written
        if not isinstance(text, str) or thought or calls:
            return
        if not size:
            self._empty += 1
            return
        # Tokens have no text while a character is incomplete. Each of them adds at least one byte
        # to it.
        self._unexplained += self._empty if text.isascii() else max(0, self._empty + 1 - size)
        self._empty = 0

    def counted(self, tokens: Any, hidden: Any = 0) -> None:
        """Note the engine's own count of tokens, if it reports one. Of them, `hidden` are said to
        be reasoning, which a server may count and not send.
        """
        if type(tokens) is int:
            self._tokens, self._hidden = tokens, hidden if type(hidden) is int else 0

    def note(self) -> str | None:
        """Return what is missing from the answer, in one sentence each, or None."""
        said = [
            f"The engine sent {size} character{'s' * (size != 1)} of {channel} apart from its text; they are not in this answer."
            for channel, size in self._apart.items()
            if not self._tags
        ]
        size = self._size + self._beside
        # Every other token has at least one byte.
        silent = SILENT_TAGS if self._apart else SILENT
        if self._tokens is not None and self._tokens - self._hidden - silent > size:
            said.append(
                f"The engine counted {self._tokens} tokens and sent {self._size} bytes of text: it lost text and does not say where."
            )
        elif self._unexplained + self._empty > SILENT_EVENTS:
            said.append(
                f"{self._unexplained + self._empty} events of the engine have no text, and no character came after them that would explain it: it has probably lost text."
            )
        return " ".join(said) or None


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return (
            text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")
        )
