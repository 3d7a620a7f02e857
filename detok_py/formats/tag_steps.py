"""The steps of calls with raw parameters in tags: the XML of several families, and GLM's tags."""

from typing import TYPE_CHECKING, Any

from .header_steps import header
from .literal_steps import OTHER_SPACE, python_value
from .tool_call import MOST_NAME
from .values import STRING, is_mark, json_kind, typed

if TYPE_CHECKING:
    from .state import State


TOO_LONG = -2  # as the length of a tag


def opening(buf: str, before: str, behind: str) -> "tuple[str, int]":
    """Return the name in the tag that begins `buf`, with its attribute, and the tag's length: 0 if
    it may still become one, -1 if not, `TOO_LONG` if what stands in it is too long.
    """
    if not buf.startswith(before):
        return "", 0 if before.startswith(buf) else -1
    end = buf.find(">")
    rest = buf[len(before) : end if end >= 0 else len(buf)]
    name, _, attributes = rest[: MOST_NAME + 1].partition(" ")
    if any(c.isspace() or c == "<" for c in name) or "<" in attributes or "\n" in attributes:
        return "", -1
    if len(rest) > MOST_NAME:
        return "", TOO_LONG
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
    at = r.behind()
    if r.closes(at):
        r.take(at + len(r.grammar.close))
        return r.leave()
    tags: Any = r.grammar.tags
    name, length = opening(r.buf[at:], tags.name, tags.behind)
    if length < 0:
        return r.fail() if r.call.raw else r.leave()
    if not length:
        if r.ended and not r.call.raw:
            r.buf = ""
        return False
    r.take(at + length)
    return say_tagged(r, name)


def say_tagged(r: "State", name: str) -> bool:
    """Begin a call whose tag has come."""
    r.begin(r.call.raw)
    r.say_call(r.form.spelled(split_attribute(name)[0]))
    r.arguments("{")
    return r.go("parameters")


def untagged(r: "State") -> bool:
    """Read a call whose opener is missing: a parameter, or its end, must follow its name."""
    tags: Any = r.grammar.tags
    name, length = opening(r.buf, tags.name, tags.behind)
    if length < 0:
        return r.fail()
    if not length:
        return False
    rest = r.buf[r.behind(length) :]
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
    return not header(r, "<｜tool_sep｜>") or r.go("step3_tag")


def step3_tag(r: "State") -> bool:
    """Read the tag of a call."""
    r.next()
    tags: Any = r.grammar.tags
    name, length = opening(r.buf, tags.name, tags.behind)
    if length < 0:
        return r.fail()
    r.take(length)
    return bool(length) and say_tagged(r, name)


def parameters(r: "State") -> bool:
    """Read up to a parameter, or the end of the call; what stands between is not shown. A parameter
    whose name is too long, and all behind it, is text.
    """
    call, buf, i = r.grammar, r.buf, 0
    tags: Any = call.tags
    ends = (tags.end, call.close) + tags.again
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
            if length == TOO_LONG:
                r.take(i)
                return r.leave()
            if not length or any(each.startswith(rest) for each in ends):
                break
        i += 1
    r.take(i)
    return False


def parameter(r: "State", name: str) -> bool:
    """Give the key of a parameter; its value follows."""
    r.call.key, attribute = split_attribute(name)
    r.call.value_types = STRING if attribute == "true" else None
    if not attribute:
        r.call.value_types = r.type_of(r.call.key)
    r.give_key()
    tags: Any = r.grammar.tags
    return r.go("value_edge" if tags.newline else "raw_value")


def value_edge(r: "State") -> bool:
    """Drop the newline that a value begins with."""
    if not r.buf:
        return False
    r.take(r.buf[0] == "\n")
    return r.go("raw_value")


def raw_value(r: "State") -> bool:
    """Give the value of a parameter: a string as it comes, any other value at its end."""
    tags: Any = r.grammar.tags
    return give_raw(r, tags.value_end, tags.newline, "parameters", tags.python)


def give_raw(r: "State", close: str, newline: bool, then: str, python: bool = False) -> bool:
    """Give a raw value up to `close`; `then` is the next step."""
    types, end = r.call.value_types, r.buf.find(close, max(0, r.value.pos - len(close)))
    if end < 0:
        r.value.pos = 0 if types == STRING else len(r.buf)
        if types == STRING:
            keep = max(begun(r.buf, close), begun(r.buf, "\n" + close) if newline else 0)
            r.inside(r.take(len(r.buf) - keep))
        return False
    r.value.pos = 0
    raw = r.take(end + len(close))[:end]
    if newline and raw.endswith("\n"):
        raw = raw[:-1]
    if types == STRING:
        r.inside(raw)
        r.arguments('"')
        return r.go(then)
    raw = r.form.spelled(raw)
    said = typed(raw, types)
    if python and types and ("array" in types or "object" in types) and not json_kind(raw.strip()):
        said = python_value(r, raw.strip()) or said
    r.arguments(said)
    return r.go(then)


def begun(text: str, word: str) -> int:
    """Return how many characters at the end of a text begin a word.

    >>> begun("a</t", "</tool>")
    3
    """
    at = text.find(word[0], max(0, len(text) - len(word) + 1))
    while at >= 0 and not word.startswith(text[at:]):
        at = text.find(word[0], at + 1)
    return len(text) - at if at >= 0 else 0


def glm(r: "State") -> bool:
    """Read `NAME`, and pairs of a key and a value."""
    at = end = r.behind(0, OTHER_SPACE)
    most = min(len(r.buf), at + MOST_NAME)
    while end < most and not (r.buf[end].isspace() or r.buf[end] == "{"):
        if is_mark(r.buf[end]):
            break
        end += 1
    if end == at:
        return r.fail()
    then = r.behind(end, OTHER_SPACE)
    if r.buf[then] not in (r.form.inner["<arg_key>"], r.grammar.close, r.grammar.opener):
        return r.fail()
    r.say_call(r.buf[at:end])
    r.arguments("{")
    r.take(then)
    return r.go("glm_key")


def glm_key(r: "State") -> bool:
    """Read a key, or what closes the call."""
    inner, call, c = r.form.inner, r.grammar, r.next()
    if c in (call.close, call.opener):
        r.arguments("}")
        r.complete()
        r.take(c == call.close)
        return r.leave()
    if c != inner["<arg_key>"]:
        r.take(1)
        return True
    end = r.find(inner["</arg_key>"])
    at = r.behind(end + 1)
    r.call.key = r.buf[1:end].strip()
    found = r.buf[at] == inner["<arg_value>"]
    r.take(at + found)
    if found:
        r.call.value_types = r.type_of(r.call.key)
        r.give_key()
        r.go("glm_value")
    return True


def glm_value(r: "State") -> bool:
    """Give the value of a key."""
    return give_raw(r, r.form.inner["</arg_value>"], False, "glm_key")
