"""The steps of calls that have a header, and JSON behind it."""

from typing import TYPE_CHECKING

from .tool_call import MOST_NAME
from .values import DONE, SPACE, is_mark

if TYPE_CHECKING:
    from .state import State


def header(r: "State", stop: str) -> str:
    """Take and return the text up to the marker `stop`; "" if this is no header, so not a call."""
    end = r.upto()
    said = r.buf[:end].strip()
    if not said or r.buf[end] != r.form.inner[stop]:
        r.fail()
        return ""
    r.take(end + 1)
    return said


def kimi_k2(r: "State") -> bool:
    """Read `functions.NAME:0⟦argument_begin⟧J`."""
    said = header(r, "<|tool_call_argument_begin|>")
    if said:
        name, _, index = said.rpartition(":")
        r.call.id = said
        begin(r, without_namespace(name if name and index.isdigit() else said))
    return True


def without_namespace(name: str) -> str:
    """Return the name of a tool without its namespace."""
    return name[10:] if name.startswith("functions.") else name


def begin(r: "State", name: str) -> bool:
    """Begin a call whose header has ended."""
    r.say_call(name)
    return r.go("json_value")


def deepseek(r: "State") -> bool:
    """Read `NAME⟦sep⟧J`."""
    said = header(r, "<｜tool▁sep｜>")
    return not said or begin(r, said)


def deepseek_r1(r: "State") -> bool:
    """Read `function⟦sep⟧NAME`, a newline, and J in a fence of Markdown."""
    return not header(r, "<｜tool▁sep｜>") or r.go("deepseek_name")


def deepseek_name(r: "State") -> bool:
    """Read the name on a line of its own."""
    buf = r.buf.lstrip(" \t")
    end, most = 0, min(len(buf), MOST_NAME + 1)
    while end < most and not buf[end].isspace() and buf[end] not in "{`":
        end += 1
    rest = buf[end:].lstrip()
    if end > MOST_NAME or (not end and buf.strip()):
        return r.fail()
    if not rest:
        return False
    r.say_call(buf[:end])
    r.buf = rest
    return r.go("fence")


def fence(r: "State") -> bool:
    """Read the opening fence of Markdown, if there is one."""
    whole = "```json"
    if whole.startswith(r.buf):
        return False
    if r.buf.startswith("```"):
        r.take(len(whole) if r.buf.startswith(whole) else 3)
    return r.go("json_value")


def mistral(r: "State") -> bool:
    """Read an array, or `NAME[CALL_ID]ID[ARGS]J` with or without the id and the marker."""
    if r.next() in "[{":
        return r.go("array")
    end = r.upto("{")
    c, inner, name = r.buf[end], r.form.inner, r.buf[:end].strip()
    if not name or c not in ("{", inner["[ARGS]"], inner["[CALL_ID]"]):
        return r.fail()
    r.call.key = name
    r.take(end + (c != "{"))
    return r.go("mistral_id") if c == inner["[CALL_ID]"] else begin(r, name)


def mistral_id(r: "State") -> bool:
    """Read the id of a call."""
    r.call.id = header(r, "[ARGS]") or None
    return not r.call.id or begin(r, r.call.key)


def end_of(r: "State") -> int:
    """Return where the arguments behind a header end, -1 if that has not come."""
    limits = r.form.limits
    end = r.find(limits or r.grammar.close or r.grammar.opener)
    return end if end < len(r.buf) or (r.ended and limits) else -1


def json_value(r: "State") -> bool:
    """Read arguments as JSON; text instead becomes a JSON string, or code for a tool of the
    engine.
    """
    end, at, skips = end_of(r), 0, r.form.limits
    while at < len(r.buf) and (r.buf[at] in SPACE or (skips and is_mark(r.buf[at]))) and at != end:
        at += 1
    if at == end:
        r.take(at)
        r.arguments("{}")
        r.call.how = DONE
        return r.go("json_end")
    if at == len(r.buf):
        return False
    c = r.buf[at]
    if c in '{["':
        r.take(at)
        return r.then("args", "json_end")
    if r.call.comma:
        return r.go("engine_code")
    r.take(at)
    r.arguments('"')
    return r.go("words")


def words(r: "State") -> bool:
    """Give text that stands where JSON should be. Space at its end waits, and is dropped at the
    end.
    """
    end = end_of(r)
    said = (r.buf if end < 0 else r.buf[:end]).rstrip()
    r.inside(said)
    r.take(len(said) if end < 0 else end)
    if end < 0:
        return False
    r.arguments('"')
    r.call.how = DONE
    return r.go("json_end")


def json_end(r: "State") -> bool:
    """Go on behind the arguments."""
    if r.call.how == DONE:
        r.complete()
    if r.form.limits:
        return r.go("harmony_rest")
    return r.go("after") if r.grammar.close else r.leave()
