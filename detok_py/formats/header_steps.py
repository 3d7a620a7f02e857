"""The steps of calls that have a header, and JSON behind it."""

from typing import TYPE_CHECKING, Any, Callable

from .values import DONE, is_mark

if TYPE_CHECKING:
    from .state import State


def header(r: "State", stop: str) -> "str | None":
    """Take the text up to the marker `stop`; "" if it has not come, None if this is no header."""
    i = r.pos
    while i < len(r.buf) and not is_mark(r.buf[i]):
        i += 1
    r.pos = i
    if i == len(r.buf):
        return ""
    r.pos = 0
    said = r.buf[:i].strip()
    if r.buf[i] != stop or not said:
        r.fail()
        return None
    r.take(i + 1)
    return said


def kimi_k2(r: "State") -> bool:
    """Read `functions.NAME:0⟦argument_begin⟧J`."""
    said = header(r, r.form.inner["<|tool_call_argument_begin|>"])
    if not said:
        return said is None
    name, _, index = said.rpartition(":")
    r.id = said
    name = name if name and index.isdigit() else said
    r.say_call(name[10:] if name.startswith("functions.") else name)
    return r.go("json")


def deepseek(r: "State") -> bool:
    """Read `NAME⟦sep⟧J`."""
    said = header(r, r.form.inner["<｜tool▁sep｜>"])
    if not said:
        return said is None
    r.say_call(said)
    return r.go("json")


def deepseek_r1(r: "State") -> bool:
    """Read `function⟦sep⟧NAME`, a newline, and J in a fence of Markdown."""
    said = header(r, r.form.inner["<｜tool▁sep｜>"])
    return said is None or (bool(said) and r.go("deepseek_name"))


def deepseek_name(r: "State") -> bool:
    """Read the name on a line of its own."""
    buf = r.buf.lstrip(" \t")
    end = 0
    while end < len(buf) and not buf[end].isspace() and buf[end] not in "{`":
        end += 1
    rest = buf[end:].lstrip()
    if not end and buf.strip():
        return r.fail()
    if not rest:
        return False
    r.say_call(buf[:end])
    r.buf = rest
    return r.go("fence")


def fence(r: "State") -> bool:
    """Read what opens a fence of Markdown, if one does."""
    whole = "```json"
    if whole.startswith(r.buf):
        return False
    if r.buf.startswith("```"):
        r.take(len(whole) if r.buf.startswith(whole) else 3)
    return r.go("json")


def mistral(r: "State") -> bool:
    """Read an array, or `NAME[CALL_ID]ID[ARGS]J` with or without the id and the marker."""
    c = r.peek()
    if not c:
        return False
    if c in "[{":
        return r.go("array")
    i = r.pos
    while i < len(r.buf) and r.buf[i] != "{" and not is_mark(r.buf[i]):
        i += 1
    r.pos = i
    if i == len(r.buf):
        return False
    r.pos = 0
    inner, name = r.form.inner, r.buf[:i].strip()
    if not name or r.buf[i] not in ("{", inner["[ARGS]"], inner["[CALL_ID]"]):
        return r.fail()
    r.key = name
    if r.buf[i] == inner["[CALL_ID]"]:
        r.take(i + 1)
        return r.go("mistral_id")
    r.take(i + (r.buf[i] != "{"))
    r.say_call(name)
    return r.go("json")


def mistral_id(r: "State") -> bool:
    """Read the id of a call."""
    said = header(r, r.form.inner["[ARGS]"])
    if not said:
        return said is None
    r.id = said
    r.say_call(r.key)
    return r.go("json")


def closes(r: "State") -> str:
    """Return the marker that ends the arguments behind a header."""
    call = r.form.calls[r.opener]
    return call.close or call.opener


def json_(r: "State") -> bool:
    """Read arguments as JSON; text instead becomes a JSON string, up to what closes the call."""
    c = r.peek()
    if not c:
        return False
    if c == closes(r):
        r.arguments("{}")
        r.how = DONE
        return r.go("json_end")
    if c in '{["':
        r.stack.append("json_end")
        return r.go("args")
    r.arguments('"')
    return r.go("words")


def words(r: "State") -> bool:
    """Give text that stands where JSON should be."""
    end = r.buf.find(closes(r))
    r.give_words(end)
    if end < 0:
        return False
    r.arguments('"')
    r.how = DONE
    return r.go("json_end")


def json_end(r: "State") -> bool:
    """Go on behind the arguments."""
    if r.how == DONE:
        r.complete()
    return r.go("after") if r.form.calls[r.opener].close else r.leave()


STEPS: "dict[str, Callable[[Any], bool]]" = {
    "deepseek": deepseek, "deepseek_name": deepseek_name, "deepseek_r1": deepseek_r1, "fence":
    fence, "json": json_, "json_end": json_end, "kimi_k2": kimi_k2, "mistral": mistral,
    "mistral_id": mistral_id, "words": words,
}  # fmt: skip
