"""Readers of calls: each reads the calls at a place of a whole text, from behind their opener.

A reader returns the calls and where the text goes on. It raises NotACall if what stands there is
no call, and Undecided if the text ends before that can be known.
"""

import re
from typing import Any, Callable, NamedTuple

from .values import (
    DONE,
    arguments_as_written,
    escaped_string,
    is_mark,
    json_end,
    mark,
    quoted,
    skip_space,
    spelled,
)


class Call(NamedTuple):
    id: str | None
    name: str
    arguments: str
    complete: bool


class NotACall(Exception):
    """What stands here is text."""


class Undecided(Exception):
    """The text ends before it is known whether this is a call."""


Read = tuple[list[Call], int]


class Context(NamedTuple):
    """What a reader knows besides the text."""

    schemas: Any  # OpenAI's list of tools, or None
    ended: bool  # nothing more comes


Reader = Callable[[str, int, Context], Read]

NAMES = ("name", "tool_name")
ARGUMENTS = ("arguments", "parameters")
IDS = ("id", "tool_call_id")


def fail(text: str, i: int) -> None:
    """Raise what is true of a call that ends at `i` before it has a name."""
    raise Undecided if i >= len(text) else NotACall


def after(text: str, i: int, close: str, also: str = "") -> int:
    """Return the place behind `close`, or `i` if only space stands between and it does not come."""
    j = skip_space(text, i, also)
    if close and text.startswith(close, j):
        return j + len(close)
    return i if j < len(text) else j


# -- JSON bodies ----------------------------------------------------------------------------------


def object_call(text: str, i: int, close: str = "") -> tuple[Call, int]:
    """Read `{"name": …, "arguments": …}`, with members in any order."""
    if not text.startswith("{", i):
        fail(text, i)
    name = identity = arguments = None
    whole = ended = False
    i += 1
    while True:
        i = skip_space(text, i, also=",")
        if i < len(text) and text[i] == "}":
            i, ended = i + 1, True
        if ended or i == len(text) or text[i] != '"':
            break
        key, i, how = escaped_string(text, i)
        i = skip_space(text, i)
        if how != DONE or not text.startswith(":", i):
            break
        i = skip_space(text, i + 1)
        if i == len(text):
            break
        end, how = json_end(text, i)
        raw, i = text[i:end], end
        if key in NAMES and name is None and how == DONE and raw.startswith('"'):
            name = spelled(escaped_string(raw, 0)[0])
        elif key in ARGUMENTS and arguments is None:
            arguments, whole = arguments_as_written(raw), how == DONE
        elif key in IDS and identity is None and how == DONE:
            identity = spelled(escaped_string(raw, 0)[0] if raw.startswith('"') else raw)
        if how != DONE:
            break
    if not name:
        fail(text, len(text) if not ended and i >= len(text) else -1)
    if arguments is None and ended:
        arguments, whole = "{}", True
    closed = bool(close) and text.startswith(close, skip_space(text, i))
    return Call(identity, str(name), arguments or "", ended or (whole and closed)), i


def keyed_call(text: str, i: int, close: str = "") -> tuple[Call, int]:
    """Read `{"NAME": {…}}`: the name is the key."""
    if not text.startswith("{", i):
        fail(text, i)
    i = skip_space(text, i + 1)
    if not text.startswith('"', i):
        fail(text, i)
    name, i, how = escaped_string(text, i)
    i = skip_space(text, i)
    if how != DONE or not text.startswith(":", i):
        fail(text, i)
    i = skip_space(text, i + 1)
    if i == len(text):
        return Call(None, spelled(name), "", False), i
    end, how = json_end(text, i)
    arguments = arguments_as_written(text[i:end])
    i = skip_space(text, end)
    ended = how == DONE and text.startswith("}", i)
    closed = how == DONE and bool(close) and text.startswith(close, i)
    return Call(None, spelled(name), arguments, ended or closed), i + 1 if ended else end


def array_calls(text: str, i: int, close: str, item: Any = object_call) -> Read:
    """Read `[{…}, {…}]`, or one object without brackets, and what closes it."""
    i = skip_space(text, i)
    if text.startswith("{", i):
        call, i = item(text, i, close)
        return [call], after(text, i, close)
    if not text.startswith("[", i):
        fail(text, i)
    calls: list[Call] = []
    i += 1
    while True:
        i = skip_space(text, i, also=",")
        if text.startswith("]", i):
            return calls, after(text, i + 1, close)
        if not text.startswith("{", i) and not calls:
            fail(text, i)
        if not text.startswith("{", i):
            return calls, after(text, i, close)
        try:
            call, i = item(text, i, close)
        except (NotACall, Undecided):
            if not calls:
                raise
            return calls, json_end(text, i)[0]
        calls.append(call)
        if not call.complete:
            return calls, i


def json_object(close: str) -> Reader:
    """Return a reader of one object, which `close` ends."""

    def read(text: str, i: int, known: Context) -> Read:
        call, i = object_call(text, skip_space(text, i), close)
        return [call], after(text, i, close)

    return read


def json_array(close: str, item: Any = object_call, least: int = 0) -> Reader:
    """Return a reader of an array of at least `least` calls."""

    def read(text: str, i: int, known: Context) -> Read:
        calls, end = array_calls(text, i, close, item)
        if len(calls) < least:
            raise NotACall
        return calls, end

    return read


def json_arguments(text: str, i: int, closes: tuple[str, ...]) -> tuple[str, int, bool]:
    """Read the arguments behind a header: JSON as written, or text, which becomes a string."""
    i = skip_space(text, i)
    if i == len(text):
        return "", i, False
    if text[i] in closes:
        return "{}", i, True
    if text[i] in '{["':
        end, how = json_end(text, i)
        return arguments_as_written(text[i:end]), end, how == DONE
    end = i
    while end < len(text) and text[end] not in closes:
        end += 1
    if end == len(text):
        return quoted(text[i:].rstrip())[:-1], end, False
    return quoted(text[i:end].rstrip()), end, True


# -- Headers, then JSON ---------------------------------------------------------------------------


def header(text: str, i: int, stop: str) -> tuple[str, int]:
    """Return the text up to the marker `stop`, and the place behind it; no other may come
    before.
    """
    end = i
    while end < len(text) and not is_mark(text[end]):
        end += 1
    if not text.startswith(stop, end) or not text[i:end].strip():
        fail(text, end)
    return text[i:end].strip(), end + len(stop)


def kimi_k2(text: str, i: int, known: Context) -> Read:
    """Read `functions.NAME:0⟦argument_begin⟧J⟦call_end⟧`."""
    close = mark("<|tool_call_end|>")
    identity, i = header(text, i, mark("<|tool_call_argument_begin|>"))
    name = re.sub(r":\d+$", "", identity).removeprefix("functions.")
    arguments, i, complete = json_arguments(text, i, (close,))
    return [Call(identity, name, arguments, complete)], after(text, i, close)


def deepseek_v31(text: str, i: int, known: Context) -> Read:
    """Read `NAME⟦sep⟧J⟦end⟧`."""
    close = mark("<｜tool▁call▁end｜>")
    name, i = header(text, i, mark("<｜tool▁sep｜>"))
    arguments, i, complete = json_arguments(text, i, (close,))
    return [Call(None, name, arguments, complete)], after(text, i, close)


def deepseek_r1(text: str, i: int, known: Context) -> Read:
    """Read `function⟦sep⟧NAME`, a newline, and J in a fence of Markdown."""
    close = mark("<｜tool▁call▁end｜>")
    _, i = header(text, i, mark("<｜tool▁sep｜>"))
    name = re.compile(r"[ \t]*([^\s{`]+)\s*").match(text, i)
    if not name:
        fail(text, len(text) if not text[i:].strip() else i)
    assert name
    if name.end() == len(text):
        raise Undecided
    i = name.end()
    fence = "```json"
    if fence.startswith(text[i:]):
        return [Call(None, name[1], "", False)], len(text)
    if text.startswith("```", i):
        i += len(fence) if text.startswith(fence, i) else 3
    arguments, i, complete = json_arguments(text, i, (close,))
    return [Call(None, name[1], arguments, complete)], after(text, i, close, also="`")


def mistral(text: str, i: int, known: Context) -> Read:
    """Read what follows `[TOOL_CALLS]`: an array, or `NAME[CALL_ID]ID[ARGS]J`."""
    i = skip_space(text, i)
    if i == len(text) or text[i] in "[{":
        return array_calls(text, i, "")
    opens = (mark("[ARGS]"), mark("[CALL_ID]"), "{")
    end = i
    while end < len(text) and text[end] not in opens and not is_mark(text[end]):
        end += 1
    name = text[i:end].strip()
    if end == len(text) or text[end] not in opens or not name:
        fail(text, end)
    identity: str | None = None
    if text[end] == mark("[CALL_ID]"):
        identity, end = header(text, end + 1, mark("[ARGS]"))
    elif text[end] == mark("[ARGS]"):
        end += 1
    arguments, end, complete = json_arguments(text, end, (mark("[TOOL_CALLS]"),))
    return [Call(identity, name, arguments, complete)], end


def code_call(name: str, code: str, ended: bool) -> Call:
    """Return the call of a tool that takes code: it is the argument `code`."""
    text = '{"code": ' + quoted(code)
    return Call(None, name, text + "}" if ended else text[:-1], ended)
