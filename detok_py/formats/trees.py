"""The steps of two formats without sections: harmony's messages, Kimi K3's tags."""

from typing import TYPE_CHECKING

from .form import CONTENT, REASONING
from .header_steps import end_of, without_namespace
from .values import STRING, More, is_mark, typed

if TYPE_CHECKING:
    from .state import State


def show_run(r: "State", text: str) -> None:
    """Show text of a section; outside a section, hold space until other text follows."""
    text = r.text.held + r.form.without_tokens(text)
    r.text.held = ""
    if r.text.wrapped or text.strip():
        r.text.wrapped = r.text.wrapped or bool(text)
        if text:
            r.say(r.text.section, text)
    else:
        r.text.held = text


# ---------------------------------------------------------------- harmony


def harmony(r: "State") -> bool:
    """Begin in a message."""
    r.text.wrapped = True
    return r.go("harmony_body")


def harmony_start(r: "State") -> bool:
    """Begin in a message or inside a header, which is found out here."""
    r.text.wrapped, buf = True, r.buf
    if not r.ended and " to=".startswith(" " + buf.lstrip(" ")):
        return False
    is_header = bool(buf) and (is_mark(buf[0]) or buf.startswith((" to=", "to=")))
    return r.go("harmony_header" if is_header else "harmony_body")


def harmony_header(r: "State") -> bool:
    """Read what a message is, up to its text."""
    start, channel, end, back, call = list(r.form.limits)
    ends = (start, r.form.mark("<|message|>"), end, back, call)
    r.value.pos = at = r.find(ends, r.value.pos)
    if at == len(r.buf):
        return False
    r.value.pos = 0
    header, mark = r.take(at), r.take(1)
    if mark in (back, call):
        return r.go("harmony_over")
    if mark in (start, end):
        return r.go("harmony_header" if mark == start else "harmony_body")
    to, name = recipient(header), channel_of(header, channel)
    r.text.wrapped, r.text.held = True, ""
    r.text.section = REASONING if name == "analysis" and not to else CONTENT
    if not to:
        return r.go("harmony_body")
    r.begin()
    name = without_namespace(to)
    r.say_call(name)
    r.call.comma = name == to  # a tool of the engine: other text than JSON is code
    is_code = to == "python" and "json" not in r.form.spelled(header)
    return r.go("engine_code" if is_code else "json_value")


def recipient(header: str) -> str:
    """Return the recipient in a header: a tool, or "" if the message is for the user."""
    at = 0
    while True:
        at = header.find("to=", at)
        if at < 0:
            return ""
        end = at + 3
        while end < len(header) and not header[end].isspace() and not is_mark(header[end]):
            end += 1
        before = header[at - 1 : at]
        if end > at + 3 and (not before or before.isspace() or is_mark(before)):
            return "" if header[at + 3 : end] == "assistant" else header[at + 3 : end]
        at += 3


def channel_of(header: str, mark: str) -> str:
    """Return the channel that a header names."""
    _, found, rest = header.partition(mark)
    rest = rest.lstrip()
    end = 0
    while end < len(rest) and (rest[end].isalpha() or rest[end].isdigit() or rest[end] == "_"):
        end += 1
    return rest[:end] if found and end else "final"


def harmony_body(r: "State") -> bool:
    """Show the text of a message, up to the next one."""
    start, channel, _, back, call = list(r.form.limits)
    show_run(r, r.take(r.find(r.form.limits)))
    if not r.buf:
        return False
    mark = r.buf[0]
    if mark in (back, call):
        return r.go("harmony_over")
    r.end_run()
    r.text.section, r.text.wrapped = CONTENT, False
    r.take(mark != channel)
    return r.go("harmony_header") if mark in (start, channel) else True


def harmony_over(r: "State") -> bool:
    """Drop what stands behind the end."""
    r.buf = ""
    return False


def engine_code(r: "State") -> bool:
    """Give code for a tool of the engine."""
    if not r.call.has_arguments:
        r.call.has_arguments = True
        r.arguments('{"code": "')
    end = end_of(r)
    r.inside(r.take(len(r.buf) if end < 0 else end))
    if end >= 0:
        r.arguments('"}')
        r.complete()
    return end >= 0 and r.go("harmony_rest")


def harmony_rest(r: "State") -> bool:
    """Drop what follows the arguments of a call."""
    r.take(r.find(r.form.limits))
    return bool(r.buf) and r.go("harmony_body")


# ---------------------------------------------------------------- Kimi K3

SECTIONS = {"think": REASONING, "response": CONTENT}


def kimi_k3(r: "State") -> bool:
    """Begin inside a section."""
    r.text.wrapped = True
    return r.go("k3_text")


def k3_marks(r: "State") -> "list[str]":
    """Return the symbols that tags are made of: they open, close and end one."""
    return [r.form.mark(each) for each in ("<|open|>", "<|close|>", "<|sep|>")]


def k3_tag(r: "State") -> "tuple[bool, str, str, int]":
    """Return whether the tag at the front opens, its name, its attributes and its length."""
    marks = k3_marks(r)
    at = r.find(marks, 1)
    if at >= len(r.buf):
        raise More
    words = r.buf[1:at].split(None, 1)
    opens, length = r.buf[0] == marks[0], at + (r.buf[at] == marks[2])
    return opens, words[0] if words else "", words[1] if len(words) > 1 else "", length


def k3_text(r: "State") -> bool:
    """Show text up to a tag; read the tag."""
    marks = k3_marks(r)
    show_run(r, r.take(r.find(marks)))
    if not r.buf:
        return False
    if r.buf[0] == marks[2]:
        r.text.held = ""
        r.take(1)
        return True
    opens, name, attributes, length = k3_tag(r)
    r.take(length)
    r.end_run()
    r.text.section = SECTIONS.get(name, "") if opens else ""
    r.text.wrapped = bool(r.text.section)
    r.text.section = r.text.section or CONTENT
    if opens and name == "call":
        r.begin()
        r.say_call(attribute(attributes, "tool") or "")
        r.arguments("{")
        return r.go("k3_call")
    return True


def attribute(text: str, key: str) -> "str | None":
    """Return an attribute's value.

    >>> attribute('tool="a &amp; b" index="0"', "tool")
    'a & b'
    """
    found = None
    parts = text.split('"')
    for before, said in zip(parts[::2], parts[1::2]):
        if len(before) and before[-1] == "=" and before[:-1].split()[-1:] == [key]:
            found = said
    if found is None:
        return None
    for name, c in (
        ("lt", "<"),
        ("gt", ">"),
        ("quot", '"'),
        ("#39", "'"),
        ("apos", "'"),
        ("amp", "&"),
    ):
        found = found.replace(f"&{name};", c)
    return found


def k3_call(r: "State") -> bool:
    """Read the tags of a call; what stands between arguments is not shown."""
    marks = k3_marks(r)
    r.take(r.find(marks[:2]))
    opens, name, attributes, length = k3_tag(r)
    if name != "argument":
        r.arguments("}")
        r.complete()
        r.take(length if name == "call" and not opens else 0)
        r.text.section, r.text.wrapped, r.text.held = CONTENT, False, ""
        return r.go("k3_text")
    r.take(length)
    if not opens:
        return True
    r.call.key = attribute(attributes, "key") or ""
    kind = attribute(attributes, "type")
    r.call.value_types = (kind,) if kind is not None else r.type_of(r.call.key)
    r.give_key()
    return r.go("k3_value")


def k3_value(r: "State") -> bool:
    """Give the value of an argument."""
    is_string = r.call.value_types == STRING
    end = r.find(k3_marks(r)[:2])
    ended = end < len(r.buf)
    if is_string:
        r.inside(r.take(end))
        r.arguments('"' if ended else "")
    elif ended:
        r.arguments(typed(r.form.spelled(r.take(end)), r.call.value_types))
    return ended and r.go("k3_call")
