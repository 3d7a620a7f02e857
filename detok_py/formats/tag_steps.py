"""The steps of calls whose parameters stand in tags, each raw: XML of several families, GLM's."""

from typing import TYPE_CHECKING, Any, Callable

from .header_steps import header
from .literal_steps import python_value
from .values import STRING, escaped, is_mark, json_kind, typed

if TYPE_CHECKING:
    from .state import State


def opening(buf: str, before: str, behind: str) -> "tuple[str, int]":
    """Return the name in the tag that begins `buf`, with its attribute, and the tag's length: 0 if
    it may still become one, -1 if not.
    """
    if not buf.startswith(before):
        return "", 0 if before.startswith(buf) else -1
    end = buf.find(">")
    rest = buf[len(before) : end if end >= 0 else len(buf)]
    name, _, attributes = rest.partition(" ")
    if any(c.isspace() or c == "<" for c in name) or "<" in attributes or "\n" in attributes:
        return "", -1
    if end < 0:
        return "", 0
    name, found, attribute = rest.partition(behind) if behind != ">" else (rest, "", "")
    if not name or (behind != ">" and not found):
        return "", -1
    if attribute not in ("", ' string="true"', ' string="false"'):
        return "", -1
    return name + attribute, end + 1


def split_attribute(name: str) -> "tuple[str, str]":
    """Return a name and the type that stands behind it.

    >>> split_attribute('city string="true"')
    ('city', 'true')
    """
    for kind in ("true", "false"):
        tail = f' string="{kind}"'
        if name.endswith(tail):
            return name[: -len(tail)], kind
    return name, ""


def tagged(r: "State") -> bool:
    """Read the calls of a block, or what closes it."""
    call = r.form.calls[r.opener]
    tags: Any = call.tags
    at = r.look()
    if at < 0:
        return False
    rest = r.buf[at:]
    if rest.startswith(call.close):
        r.take(at + len(call.close))
        return r.leave()
    name, length = opening(rest, tags.name, tags.behind)
    if length < 0 and call.close.startswith(rest) and not r.ended:
        return False
    if length < 0:
        return r.fail() if r.raw else r.leave()
    if not length:
        if r.ended and not r.raw:
            r.buf = ""
        return False
    r.take(at + length)
    return say_tagged(r, name)


def say_tagged(r: "State", name: str) -> bool:
    """Begin a call whose tag has come."""
    r.begin(r.raw)
    r.name = r.form.spelled(split_attribute(name)[0])
    r.say_call(r.name)
    r.arguments("{")
    return r.go("parameters")


def untagged(r: "State") -> bool:
    """Read a call whose opener is missing: a parameter, or its end, must follow its name."""
    tags: Any = r.form.calls[r.opener].tags
    name, length = opening(r.buf, tags.name, tags.behind)
    at = r.look("", length) if length > 0 else -1
    if length < 0:
        return r.fail()
    if at < 0:
        return False
    rest = r.buf[at:]
    if not rest.startswith(tags.end):
        found = opening(rest, tags.key, tags.behind)[1]
        if tags.end.startswith(rest) or not found:
            return False
        if found < 0:
            return r.fail()
    r.take(length)
    return say_tagged(r, name)


def step3(r: "State") -> bool:
    """Read `function⟦sep⟧`, and a call in tags."""
    said = header(r, r.form.inner["<｜tool_sep｜>"])
    return said is None or (bool(said) and r.go("step3_tag"))


def step3_tag(r: "State") -> bool:
    """Read the tag of a call."""
    tags: Any = r.form.calls[r.opener].tags
    if not r.peek():
        return False
    name, length = opening(r.buf, tags.name, tags.behind)
    if length < 0:
        return r.fail()
    if not length:
        return False
    r.take(length)
    return say_tagged(r, name)


def parameters(r: "State") -> bool:
    """Read up to a parameter, or the end of the call; what stands between is not shown."""
    call = r.form.calls[r.opener]
    tags: Any = call.tags
    buf, i = r.buf, 0
    ends = [tags.end, call.close]
    ends += tags.again
    while i < len(buf):
        for each in ends:
            if buf.startswith(each, i):
                r.arguments("}")
                r.complete()
                r.take(i + (len(each) if each == tags.end else 0))
                return r.go("tagged" if call.body == "tagged" else "after")
        if buf[i] == tags.key[0] or any(each[0] == buf[i] for each in ends):
            rest = buf[i:]
            name, length = opening(rest, tags.key, tags.behind)
            if length > 0:
                r.take(i + length)
                return parameter(r, name)
            if not length or any(each.startswith(rest) for each in ends):
                break
        i += 1
    r.take(i)
    return False


def parameter(r: "State", name: str) -> bool:
    """Give the key of a parameter; its value follows."""
    r.key, attribute = split_attribute(name)
    r.value_types = STRING if attribute == "true" else None
    if not attribute:
        r.value_types = r.type_of(r.key)
    r.give_key()
    tags: Any = r.form.calls[r.opener].tags
    return r.go("value_edge" if tags.newline else "raw_value")


def value_edge(r: "State") -> bool:
    """Drop the newline that a value begins with."""
    if not r.buf:
        return False
    if r.buf[0] == "\n":
        r.take(1)
    return r.go("raw_value")


def raw_value(r: "State") -> bool:
    """Give the value of a parameter: a string as it comes, another one at its end."""
    tags: Any = r.form.calls[r.opener].tags
    return give_raw(r, tags.value_end, tags.newline, "parameters", tags.python)


def give_raw(r: "State", close: str, newline: bool, then: str, python: bool = False) -> bool:
    """Give a raw value up to `close`; `then` is the next step."""
    is_string = r.value_types == STRING
    end = r.buf.find(close, max(0, r.pos - len(close)))
    if end < 0 and not is_string:
        r.pos = len(r.buf)
        return False
    raw = r.buf if end < 0 else r.buf[:end]
    if end < 0:
        keep = 0
        for whole in (close, "\n" + close) if newline else (close,):
            for n in range(1, len(whole)):
                if raw.endswith(whole[:n]):
                    keep = max(keep, n)
        raw = raw[: len(raw) - keep]
        r.take(len(raw))
    else:
        r.take(end + len(close))
        if newline and raw.endswith("\n"):
            raw = raw[:-1]
    raw = r.form.spelled(raw)
    if is_string:
        r.arguments(escaped(raw) + ('"' if end >= 0 else ""))
        return end >= 0 and r.go(then)
    r.pos = 0
    types = r.value_types
    said = typed(raw, types)
    if python and types and ("array" in types or "object" in types) and not json_kind(raw.strip()):
        said = python_value(r, raw.strip()) or said
    r.arguments(said)
    return r.go(then)


def glm(r: "State") -> bool:
    """Read `NAME`, and pairs of a key and a value."""
    i = r.look("\x0b\x0c")
    end = i
    while 0 <= end < len(r.buf) and not (r.buf[end].isspace() or r.buf[end] == "{"):
        if is_mark(r.buf[end]):
            break
        end += 1
    if i < 0:
        return False
    if end == i:
        return r.fail()
    at = r.look("\x0b\x0c", end)
    if at < 0:
        return False
    call = r.form.calls[r.opener]
    if r.buf[at] not in (r.form.inner["<arg_key>"], call.close, call.opener):
        return r.fail()
    r.name = r.buf[i:end]
    r.say_call(r.name)
    r.arguments("{")
    r.take(at)
    return r.go("glm_key")


def glm_key(r: "State") -> bool:
    """Read a key, or what closes the call."""
    inner, call = r.form.inner, r.form.calls[r.opener]
    c = r.peek()
    if not c:
        return False
    if c in (call.close, call.opener):
        r.arguments("}")
        r.complete()
        r.take(c == call.close)
        return r.leave()
    if c != inner["<arg_key>"]:
        r.take(1)
        return True
    end = r.buf.find(inner["</arg_key>"])
    at = r.look("", end + 1) if end >= 0 else -1
    if at < 0:
        return False
    r.key = r.buf[1:end].strip()
    found = r.buf[at] == inner["<arg_value>"]
    r.take(at + found)
    if found:
        r.value_types = r.type_of(r.key)
        r.give_key()
        return r.go("glm_value")
    return True


def glm_value(r: "State") -> bool:
    """Give the value of a key."""
    return give_raw(r, r.form.inner["</arg_value>"], False, "glm_key")


STEPS: "dict[str, Callable[[Any], bool]]" = {
    "glm": glm, "glm_key": glm_key, "glm_value": glm_value, "parameters": parameters, "raw_value":
    raw_value, "step3": step3, "step3_tag": step3_tag, "tagged": tagged, "untagged": untagged,
    "value_edge": value_edge,
}  # fmt: skip
