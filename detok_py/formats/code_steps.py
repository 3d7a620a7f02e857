"""The steps of calls that are code, and of answers that begin as JSON without an opener."""

from typing import TYPE_CHECKING

from .json_steps import ARGUMENTS
from .values import DONE, unescaped

if TYPE_CHECKING:
    from .state import State

LLAMA_MEMBERS = ("name", "parameters", "arguments", "id", "type")


def code(r: "State") -> bool:
    """Begin a call that is code."""
    r.say_call("interpreter")
    r.arguments('{"code": "')
    r.text.skip = 1
    return r.go("code_text")


def code_text(r: "State") -> bool:
    """Give code up to what closes the call as the argument `code`, without the newlines at its
    edges.
    """
    if r.buf and r.text.skip:
        r.take(r.buf[0] == "\n")
        r.text.skip = 0
    end = r.find(r.grammar.close)
    ended, said = end < len(r.buf), r.buf[:end]
    if said.endswith("\n"):
        said = said[:-1]
    r.inside(said)
    r.take(end + 1 if ended else len(said))
    if ended:
        r.arguments('"}')
        r.complete()
    return ended and r.leave()


def llama_tag(r: "State") -> bool:
    """Read JSON, `tool.call(a="b")`, or code."""
    c = r.next()
    r.call.on_fail, r.call.raw = "llama_code", r.buf
    if c == "{":
        return r.then("json_object", "llama_next")
    end = r.name_end(0)
    rest = r.buf[end:]
    if not end or ord(c) > 127 or not (rest.startswith(".call(") or ".call(".startswith(rest)):
        return r.fail()
    return len(rest) >= 6 and r.then("python_name", "leave")


def leave(r: "State") -> bool:
    """Go back to text."""
    return r.leave()


def llama_next(r: "State") -> bool:
    """Read a further object behind a semicolon."""
    return behind_semicolon(r, "json_object", ["llama_next"])


def behind_semicolon(r: "State", then: str, stack: "list[str]") -> bool:
    """Go to a step with the object behind a semicolon; other text is text."""
    at = r.behind()
    at = r.behind(at, ";") if r.buf[at] == ";" else -1
    if at < 0 or r.buf[at] != "{":
        return r.leave()
    r.begin(r.buf, "leave")
    r.take(at)
    r.stack = stack
    return r.go(then)


def llama_code(r: "State") -> bool:
    """Give code as the argument `code`; only the end of the answer ends it."""
    if not r.call.certain:
        r.stack = []
        r.say_call("python")
        r.arguments('{"code": "')
    r.inside(r.take(len(r.buf)))
    if r.ended and not r.calls[-1].complete:
        r.arguments('"}')
        r.complete()
    return False


def llama(r: "State") -> bool:
    """Follow what may be `{"name": …, "parameters": {…}}`, until both members are seen."""
    r.next()
    r.call.nest = ""
    r.take(1)
    return r.go("llama_member")


def llama_member(r: "State") -> bool:
    """Read the key of a member; only some may come."""
    if r.next(",") != '"':
        return r.fail()
    said, _, ended = unescaped(r.buf[1:], '"')
    if not any(each == said or (not ended and each.startswith(said)) for each in LLAMA_MEMBERS):
        return r.fail()
    r.call.key, r.buf = r.string()
    if r.take(1) != ":":
        return r.fail()
    return r.go("llama_value")


def llama_value(r: "State") -> bool:
    """Look at the value: the arguments must be an object, the name a string."""
    c, is_arguments = r.next(), r.call.key in ARGUMENTS
    if is_arguments and r.buf == '"':
        return False
    fits = c == "{" or r.buf.startswith('"{') if is_arguments else c == '"' or r.call.key != "name"
    if not fits:
        return r.fail()
    r.call.nest += "a" if is_arguments else r.call.key[0]
    return r.go("llama_certain" if "a" in r.call.nest and "n" in r.call.nest else "llama_skip")


def llama_skip(r: "State") -> bool:
    """Pass over a value, which is read again as that of a call."""
    how = r.follow(True)[1]
    if not how:
        return False
    return r.go("llama_member") if how == DONE else r.fail()


def llama_certain(r: "State") -> bool:
    """It is a call: read it again as one."""
    r.buf = r.call.raw
    r.begin(r.call.raw, r.call.on_fail)
    r.next(";")
    return r.then("json_object", "llama_more")


def llama_more(r: "State") -> bool:
    """A further call may follow a semicolon."""
    return behind_semicolon(r, "llama", []) if r.calls[-1].complete else r.leave()
