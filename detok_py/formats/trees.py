"""The steps of two formats without sections: harmony's messages, Kimi K3's tags."""

from typing import TYPE_CHECKING, Any, Callable

from .form import CONTENT, REASONING
from .values import DONE, SPACE, STRING, escaped, is_mark, typed

if TYPE_CHECKING:
    from .state import State


def next_mark(r: "State", marks: "tuple[str, ...]", at: int = 0) -> int:
    """Return where the next of some markers stands, or how many symbols wait."""
    while at < len(r.buf) and r.buf[at] not in marks:
        at += 1
    return at


def show_run(r: "State", text: str) -> None:
    """Show text of a section; outside of one, hold space until other text follows."""
    text = r.held + r.form.without_tokens(text)
    r.held = ""
    if r.wrapped or text.strip():
        r.wrapped = r.wrapped or bool(text)
        if text:
            r.say(r.section, text)
    else:
        r.held = text


# ---------------------------------------------------------------- harmony


def marks_of(r: "State", *names: str) -> "tuple[str, ...]":
    """Return the symbols of markers."""
    return tuple([r.form.mark(f"<|{name}|>") for name in names])


def harmony(r: "State") -> bool:
    """Begin: with a header, or in a message."""
    r.wrapped = True
    r.section = REASONING if r.start == REASONING else CONTENT
    if r.start == "header":
        r.at = "harmony_start"
        return harmony_start(r)
    return r.go("harmony_body")


def harmony_start(r: "State") -> bool:
    """Find out whether the answer begins inside a header."""
    buf = r.buf
    if not r.ended and " to=".startswith(" " + buf.lstrip(" ")):
        return False
    is_header = bool(buf) and (is_mark(buf[0]) or buf.startswith((" to=", "to=")))
    return r.go("harmony_header" if is_header else "harmony_body")


def harmony_header(r: "State") -> bool:
    """Read what a message is, up to its text."""
    start, message, end, back, call = marks_of(r, "start", "message", "end", "return", "call")
    at = next_mark(r, (start, message, end, back, call), r.pos)
    r.pos = at
    if at == len(r.buf):
        return False
    r.pos = 0
    mark, header = r.buf[at], r.form.spelled(r.buf[:at])
    symbols = r.take(at + 1)[:-1]
    if mark in (back, call):
        return r.go("harmony_over")
    if mark == start:
        return True
    if mark == end:
        return r.go("harmony_body")
    to, channel = recipient(symbols), channel_of(symbols, marks_of(r, "channel")[0])
    r.wrapped, r.held = True, ""
    if not to:
        r.section = REASONING if channel == "analysis" else CONTENT
        return r.go("harmony_body")
    r.section, r.key = CONTENT, to
    r.begin()
    name = to[10:] if to.startswith("functions.") else to
    r.say_call(name)
    if to == "python" and "json" not in header:
        r.arguments('{"code": "')
        return r.go("harmony_code")
    r.comma = name == to  # a tool of the engine: other text than JSON is code
    return r.go("harmony_call")


def recipient(header: str) -> str:
    """Return whom a message is for, "" if it is for the user."""
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
    start, channel, end, back, call = marks_of(r, "start", "channel", "end", "return", "call")
    at = next_mark(r, (start, channel, end, back, call))
    show_run(r, r.take(at))
    if not r.buf:
        return False
    mark = r.buf[0]
    if mark in (back, call):
        return r.go("harmony_over")
    r.end_run()
    r.section, r.wrapped = CONTENT, False
    r.take(mark != channel)
    return r.go("harmony_header") if mark in (start, channel) else True


def harmony_over(r: "State") -> bool:
    """Drop what stands behind the end."""
    r.buf = ""
    return False


def call_end(r: "State") -> int:
    """Return where the text of a call ends, -1 if it has not."""
    at = next_mark(r, marks_of(r, "start", "channel", "end", "return", "call"))
    return at if at < len(r.buf) or r.ended else -1


def end_call(r: "State", text: str) -> bool:
    """End the arguments."""
    r.arguments(text)
    if text:
        r.complete()
    return r.go("harmony_rest")


def harmony_call(r: "State") -> bool:
    """Find out what the text of a call is."""
    end = call_end(r)
    at = 0
    while at < len(r.buf) and (r.buf[at] in SPACE or (is_mark(r.buf[at]) and at != end)):
        at += 1
    if end >= 0 and at >= end:
        return end_call(r, "{}")
    if at == len(r.buf):
        return False
    if r.buf[at] in '{["':
        r.take(at)
        r.stack.append("harmony_json")
        return r.go("args")
    if r.comma:
        r.arguments('{"code": "')
        return r.go("harmony_code")
    r.take(at)
    r.arguments('"')
    return r.go("harmony_words")


def harmony_json(r: "State") -> bool:
    """Go on behind JSON."""
    if r.how == DONE:
        r.complete()
    return r.go("harmony_rest")


def harmony_code(r: "State") -> bool:
    """Give code."""
    end = call_end(r)
    r.arguments(escaped(r.form.spelled(r.take(len(r.buf) if end < 0 else end))))
    return end >= 0 and end_call(r, '"}')


def harmony_words(r: "State") -> bool:
    """Give text that is not JSON."""
    end = call_end(r)
    r.give_words(end)
    return end >= 0 and end_call(r, '"')


def harmony_rest(r: "State") -> bool:
    """Drop what follows the arguments of a call."""
    at = next_mark(r, marks_of(r, "start", "channel", "end", "return", "call"))
    r.take(at)
    return bool(r.buf) and r.go("harmony_body")


# ---------------------------------------------------------------- Kimi K3

SECTIONS = {"think": REASONING, "response": CONTENT}


def kimi_k3(r: "State") -> bool:
    """Begin inside a section."""
    r.wrapped = True
    r.section = REASONING if r.start == REASONING else CONTENT
    return r.go("k3_text")


def k3_marks(r: "State") -> "tuple[str, ...]":
    """Return the symbols that tags are made of."""
    return marks_of(r, "open", "close", "sep")


def k3_tag(r: "State") -> "tuple[bool, str, str, int] | None":
    """Return whether the tag at the front opens, its name, its attributes and its length."""
    marks = k3_marks(r)
    at = next_mark(r, marks, 1)
    if at == len(r.buf):
        return None
    words = r.buf[1:at].split(None, 1)
    opens, length = r.buf[0] == marks[0], at + (r.buf[at] == marks[2])
    return opens, words[0] if words else "", words[1] if len(words) > 1 else "", length


def k3_text(r: "State") -> bool:
    """Show text up to a tag; read the tag."""
    marks = k3_marks(r)
    show_run(r, r.take(next_mark(r, marks)))
    if not r.buf:
        return False
    if r.buf[0] == marks[2]:
        r.held = ""
        r.take(1)
        return True
    tag = k3_tag(r)
    if tag is None:
        return False
    opens, name, attributes, length = tag
    r.take(length)
    r.end_run()
    r.section = SECTIONS.get(name, "") if opens else ""
    r.wrapped = bool(r.section)
    r.section = r.section or CONTENT
    if opens and name == "call":
        r.begin()
        r.name = attribute(attributes, "tool") or ""
        r.say_call(r.name)
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
    r.take(next_mark(r, marks[:2]))
    tag = k3_tag(r) if r.buf else None
    if tag is None:
        return False
    opens, name, attributes, length = tag
    if name != "argument":
        r.arguments("}")
        r.complete()
        r.take(length if name == "call" and not opens else 0)
        r.section, r.wrapped, r.held = CONTENT, False, ""
        return r.go("k3_text")
    r.take(length)
    if not opens:
        return True
    r.key = attribute(attributes, "key") or ""
    kind = attribute(attributes, "type")
    r.value_types = (kind,) if kind is not None else r.type_of(r.key)
    r.give_key()
    return r.go("k3_value")


def k3_value(r: "State") -> bool:
    """Give the value of an argument."""
    is_string = r.value_types == STRING
    end = next_mark(r, k3_marks(r)[:2])
    ended = end < len(r.buf)
    if is_string:
        r.arguments(escaped(r.form.spelled(r.take(end))) + ('"' if ended else ""))
    elif ended:
        r.arguments(typed(r.form.spelled(r.take(end)), r.value_types))
    return ended and r.go("k3_call")


STEPS: "dict[str, Callable[[Any], bool]]" = {
    "harmony": harmony, "harmony_body": harmony_body, "harmony_call": harmony_call,
    "harmony_code": harmony_code, "harmony_header": harmony_header, "harmony_json": harmony_json,
    "harmony_over": harmony_over, "harmony_rest": harmony_rest, "harmony_start": harmony_start,
    "harmony_words": harmony_words, "k3_call": k3_call, "k3_text": k3_text, "k3_value": k3_value,
    "kimi_k3": kimi_k3,
}  # fmt: skip
