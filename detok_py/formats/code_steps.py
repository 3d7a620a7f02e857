"""The steps of calls that are code, and of answers that begin as JSON without an opener."""

from typing import TYPE_CHECKING, Any, Callable

from .json_steps import ARGUMENTS
from .values import DONE, escaped, unescaped

if TYPE_CHECKING:
    from .state import State

LLAMA_MEMBERS = ("name", "parameters", "arguments", "id", "type")


def code(r: "State") -> bool:
    """Give code up to what closes the call as the argument `code`."""
    r.say_call("interpreter")
    r.arguments('{"code": "')
    return r.go("code_edge")


def code_edge(r: "State") -> bool:
    """Drop the newline that code begins with."""
    if not r.buf:
        return False
    if r.buf[0] == "\n":
        r.take(1)
    return r.go("code_text")


def code_text(r: "State") -> bool:
    """Give code."""
    end = r.buf.find(r.form.calls[r.opener].close)
    said = r.buf if end < 0 else r.buf[:end]
    if said.endswith("\n"):
        said = said[:-1]
    r.arguments(escaped(r.form.spelled(said)))
    r.take(len(said) if end < 0 else end + 1)
    if end < 0:
        return False
    r.arguments('"}')
    r.complete()
    return r.leave()


def llama_tag(r: "State") -> bool:
    """Read JSON, `tool.call(a="b")`, or code."""
    c = r.peek()
    if not c:
        return False
    r.on_fail = "llama_code"
    r.raw = r.buf
    if c == "{":
        r.stack = ["llama_next"]
        return r.go("object")
    i = 0
    while i < len(r.buf) and (r.buf[i] == "_" or r.buf[i].isalpha() or (i and r.buf[i].isdigit())):
        i += 1
    rest = r.buf[i:]
    if not i or ord(c) > 127 or not (rest.startswith(".call(") or ".call(".startswith(rest)):
        return r.fail()
    if len(rest) < 6:
        return False
    r.stack = ["leave"]
    return r.go("python_name")


def leave(r: "State") -> bool:
    """Go back to text."""
    return r.leave()


def llama_next(r: "State") -> bool:
    """Read a further object behind a semicolon."""
    return behind_semicolon(r, "object", ["llama_next"])


def behind_semicolon(r: "State", then: str, stack: "list[str]") -> bool:
    """Go to a step with the object behind a semicolon; other text is text."""
    at = r.look()
    if at < 0:
        return False
    if r.buf[at] != ";":
        return r.leave()
    at = r.look(";", at)
    if at < 0:
        return False
    if r.buf[at] != "{":
        return r.leave()
    r.begin(r.buf, "leave")
    r.take(at)
    r.stack = stack
    return r.go(then)


def llama_code(r: "State") -> bool:
    """Give code as the argument `code`; only the end of the answer ends it."""
    if not r.certain:
        r.stack = []
        r.say_call("python")
        r.arguments('{"code": "')
    r.arguments(escaped(r.form.spelled(r.take(len(r.buf)))))
    if r.ended and not r.calls[-1].complete:
        r.arguments('"}')
        r.complete()
    return False


def llama(r: "State") -> bool:
    """Follow what may be `{"name": …, "parameters": {…}}`, until both are seen."""
    r.peek()
    r.nest = ""
    r.take(1)
    return r.go("llama_member")


def llama_member(r: "State") -> bool:
    """Read the key of a member; only some may come."""
    c = r.peek(",")
    if not c:
        return False
    if c != '"':
        return r.fail()
    said, rest, ended = unescaped(r.buf[1:], '"')
    if not ended:
        return r.fail() if not any(each.startswith(said) for each in LLAMA_MEMBERS) else False
    if said not in LLAMA_MEMBERS:
        return r.fail()
    r.key, r.buf = said, rest
    return r.go("llama_colon")


def llama_colon(r: "State") -> bool:
    """Read what stands behind a key."""
    return r.expect(":", "llama_value")


def llama_value(r: "State") -> bool:
    """Look at the value: the arguments must be an object, the name a string."""
    c = r.peek()
    if not c:
        return False
    if r.key == "name" and c != '"':
        return r.fail()
    if r.key in ARGUMENTS:
        if r.buf == '"':
            return False
        if c != "{" and not r.buf.startswith('"{'):
            return r.fail()
    seen = r.nest + ("a" if r.key in ARGUMENTS else r.key[0])
    if "a" in seen and "n" in seen:
        return llama_certain(r)
    return r.go("llama_skip")


def llama_skip(r: "State") -> bool:
    """Pass over a value, which is read again as that of a call."""
    how = r.scan()
    if not how:
        return False
    r.taken()
    if how != DONE:
        return r.fail()
    r.nest += "a" if r.key in ARGUMENTS else r.key[0]
    return r.go("llama_member")


def llama_certain(r: "State") -> bool:
    """It is a call: read it again as one."""
    r.buf = r.raw
    r.begin(r.raw, r.on_fail)
    r.peek(";")
    r.stack = ["llama_more"]
    return r.go("object")


def llama_more(r: "State") -> bool:
    """A further call may follow a semicolon."""
    return behind_semicolon(r, "llama", []) if r.calls[-1].complete else r.leave()


STEPS: "dict[str, Callable[[Any], bool]]" = {
    "code": code, "code_edge": code_edge, "code_text": code_text, "leave": leave, "llama": llama,
    "llama_code": llama_code, "llama_colon": llama_colon, "llama_member": llama_member,
    "llama_more": llama_more, "llama_next": llama_next, "llama_skip": llama_skip, "llama_tag":
    llama_tag, "llama_value": llama_value,
}  # fmt: skip
