"""The steps of calls that are Python, or Gemma's own notation."""

import json
from typing import TYPE_CHECKING, Any, Callable

from .values import (
    BAD,
    DONE,
    SPACE,
    STRING,
    WORDS,
    escaped,
    is_mark,
    json_kind,
    quoted,
    typed,
    unescaped,
)

if TYPE_CHECKING:
    from .state import State


def pythonic(r: "State") -> bool:
    """Read `[f(a=1), g()]`, or JSON in its place."""
    c = r.peek()
    if not c:
        return False
    if c != "[":
        return r.fail()
    at = r.look("", 1)
    if at < 0:
        return False
    if r.buf[at] == "{":
        return r.go("array")
    r.take(at)
    return r.go("python_calls")


def python_lines(r: "State") -> bool:
    """Read one call a line, or a list."""
    c = r.peek()
    return bool(c) and r.go("pythonic" if c == "[" else "python_calls")


def lfm2(r: "State") -> bool:
    """Read a list of Python calls, or JSON."""
    c = r.peek()
    return bool(c) and r.go("array" if c == "{" else "pythonic")


def python_calls(r: "State") -> bool:
    """Read the next call of a list."""
    c = r.peek(",;")
    if not c:
        return False
    some = len(r.calls) > r.began
    if some and c in ("]", r.form.calls[r.opener].close):
        return r.go("python_end")
    if some:
        r.begin(r.buf, "python_end")
    r.stack = ["python_next"]
    return r.go("python_name")


def python_next(r: "State") -> bool:
    """Go on behind a call."""
    return r.go("python_calls" if r.how == DONE else "python_end")


def python_end(r: "State") -> bool:
    """Read what closes the list."""
    r.stack = []
    if not r.buf:
        return False
    if r.buf[0] == "]":
        r.take(1)
    return r.go("after")


def python_name(r: "State") -> bool:
    """Read a name and what opens its arguments."""
    buf, i = r.buf, 0
    while i < len(buf) and (buf[i].isalpha() or buf[i] == "_" or (i and is_name(buf[i]))):
        i += 1
    at = r.look("\x0b\x0c", i)
    if (not i or ord(buf[0]) > 127) and buf:
        return r.fail()
    if at < 0:
        return False
    if buf[at] != "(":
        return r.fail()
    r.name = buf[:i]
    r.take(at + 1)
    return r.go("python_argument")


def is_name(c: str) -> bool:
    """Say whether a character may stand in the name of a tool."""
    return c.isalpha() or c.isdigit() or c in "_.-"


def say_python(r: "State") -> None:
    """Say a call whose first argument, or end, has come."""
    if not r.certain:
        name = r.name or ""
        r.say_call(name[:-5] if r.stack == ["leave"] and name.endswith(".call") else name)
        r.arguments("{")


def python_argument(r: "State") -> bool:
    """Read the name of an argument, or what closes the call."""
    c = r.peek(",")
    if not c:
        return False
    call = r.form.calls[r.opener]
    if c == ")":
        if not r.certain and call.bare and len(r.calls) == r.began:
            at = r.look("", 1)
            if at < 0:
                return False
            if r.buf[at] not in "],":
                return r.fail()
        r.take(1)
        say_python(r)
        r.arguments("}")
        r.complete()
        return r.back()
    buf, i = r.buf, 0
    while i < len(buf) and (buf[i].isalpha() or buf[i] == "_" or (i and buf[i].isdigit())):
        i += 1
    at = r.look("\x0b\x0c", i)
    if not i or (at >= 0 and buf[at] != "="):
        return r.back(BAD) if r.certain else r.fail()
    then = r.look("\x0b\x0c", at + 1) if at >= 0 else -1
    if then < 0:
        return False
    if buf[at + 1] == "=":
        return r.back(BAD) if r.certain else r.fail()
    say_python(r)
    r.key, r.value_types = buf[:i], None
    r.give_key()
    r.take(then)
    r.stack.append("python_value_end")
    return r.go("literal")


def python_value_end(r: "State") -> bool:
    """Go on behind an argument."""
    return r.go("python_argument") if r.how == DONE else r.back(BAD)


def delimiter(r: "State") -> str:
    """Return what stands at both sides of Gemma's strings, "" in Python."""
    inner = r.form.inner
    body = r.form.calls[r.opener].body if r.form.calls else ""
    if body == "function_gemma":
        return inner["<escape>"]
    return inner['<|"|>'] if body in ("gemma", "gemma_bare") else ""


def literal(r: "State") -> bool:
    """Give a value of Python or of Gemma as JSON text."""
    c = r.buf[:1]
    if not c:
        return False
    gemma = delimiter(r)
    if c == gemma:
        r.take(1)
        if r.value_types is None:
            r.arguments('"')
            r.value_types = STRING
        return r.go("gemma_string")
    if c == '"' or (c == "'" and not gemma):
        r.take(1)
        if r.value_types != STRING:
            r.arguments('"')
        return r.go("string_1" if c == "'" else "string_2")
    if r.value_types == STRING:
        # The quote of a string was given with the key; what is not a string is its own text.
        return r.go("word")
    if c in "{[" or (c == "(" and not gemma):
        r.take(1)
        r.nest += "{" if c == "{" else "["
        r.arguments(r.nest[-1])
        return r.go("element")
    return r.go("word")


def gemma_string(r: "State") -> bool:
    """Give one of Gemma's strings."""
    close = delimiter(r)
    end = r.buf.find(close)
    if r.value_types == STRING:
        raw = r.take(len(r.buf) if end < 0 else end)
        r.arguments(escaped(r.form.spelled(raw)))
        if end < 0:
            return False
        r.take(1)
        r.arguments('"')
        return r.back()
    if end < 0:
        return False
    raw = r.take(end)
    r.take(1)
    r.arguments(typed(r.form.spelled(raw), r.value_types))
    return r.back()


def string_1(r: "State") -> bool:
    """Give a string in single quotes."""
    return string(r, "'")


def string_2(r: "State") -> bool:
    """Give a string in double quotes."""
    return string(r, '"')


def string(r: "State", quote: str) -> bool:
    """Give a string with escapes."""
    said, r.buf, ended = unescaped(r.buf, quote)
    r.arguments(escaped(r.form.spelled(said)) + ('"' if ended else ""))
    return ended and r.back()


def word(r: "State") -> bool:
    """Give a number, a constant or other text without quotes, at its end."""
    i = r.pos
    while i < len(r.buf) and r.buf[i] not in ",]})" and not is_mark(r.buf[i]):
        i += 1
    r.pos = i
    if i == len(r.buf):
        return False
    r.pos = 0
    said = r.form.spelled(r.take(i)).strip()
    if not i:
        return r.back(BAD)
    r.arguments(typed(said, r.value_types) if delimiter(r) else python_word(said))
    return r.back()


def python_word(said: str) -> str:
    """Return a Python literal without quotes as JSON text.

    >>> python_word("True"), python_word("0x10"), python_word("x")
    ('true', '16', '"x"')
    """
    if said in WORDS:
        return WORDS[said]
    if json_kind(said):
        return said
    plain = said.replace("_", "")
    for read in (lambda: int(plain, 0), lambda: float(plain)):
        try:
            number: Any = read()
        except ValueError:
            continue
        if said[:1] in "+-.0123456789" and plain[-1:] not in "fny":
            return json.dumps(number)
    return quoted(said)


def element(r: "State") -> bool:
    """Read an item of a list, or a key and its value."""
    c = r.peek(",")
    if not c:
        return False
    kind = r.nest[-1]
    mapping = kind in "{}"
    if c in "]})":
        r.take(1)
        r.nest = r.nest[:-1]
        r.arguments("}" if mapping else "]")
        return r.back()
    gemma = delimiter(r)
    if is_mark(c) and c != gemma:
        return end_container(r, BAD)
    if not mapping:
        r.arguments(", " if kind == "]" else "")
        r.nest = r.nest[:-1] + "]"
        r.value_types = None
        r.stack.append("element_end")
        return r.go("literal")
    found = mapping_key(r, gemma)
    if found is None:
        return False
    if not found:
        return end_container(r, BAD)
    types = None
    if len(r.nest) == 1 and gemma and r.form.calls[r.opener].body == "function_gemma":
        types = r.type_of(r.key)
    r.value_types = None
    r.comma = kind == "}"
    r.give_key()
    r.value_types = types
    r.nest = r.nest[:-1] + "}"
    r.stack.append("element_end")
    return r.go("element_value")


def element_value(r: "State") -> bool:
    """Begin the value of a key."""
    if not r.peek():
        return False
    if r.value_types == STRING and r.buf[0] in ('"', delimiter(r)):
        r.arguments('"')
    elif r.value_types == STRING and r.buf[0] in "{[":
        r.value_types = None
    return r.go("literal")


def element_end(r: "State") -> bool:
    """Go on behind an item."""
    return r.go("element") if r.how == DONE else end_container(r, BAD)


def end_container(r: "State", how: str) -> bool:
    """Leave a list or mapping that is broken."""
    r.nest = r.nest[:-1]
    return r.back(how)


def mapping_key(r: "State", gemma: str) -> "bool | None":
    """Take a key and its colon; None if it is not whole, False if it is none."""
    buf = r.buf
    if buf[0] == gemma or buf[0] in "\"'":
        if buf[0] == gemma:
            said, found, rest = buf[1:].partition(gemma)
            ended = bool(found)
        else:
            said, rest, ended = unescaped(buf[1:], buf[0])
        rest = rest.lstrip(SPACE)
        if not ended or not rest:
            return None
        r.key, r.buf = said, rest[1:]
        return rest[0] == ":"
    end = 0
    while end < len(buf) and buf[end] not in ":,{}[]" and not is_mark(buf[end]):
        end += 1
    if end == len(buf):
        return None
    if buf[end] != ":":
        r.take(end + 1)
        return False
    r.key = buf[:end].strip()
    r.take(end + 1)
    return True


def gemma(r: "State") -> bool:
    """Read `call:NAME{K:V,…}`."""
    r.peek()
    buf = r.buf
    at = 4 if buf.startswith("call") else 0
    if not at and "call".startswith(buf):
        return False
    at += buf[at : at + 1] == ":"
    at = r.look("\x0b\x0c", at)
    if at < 0:
        return False
    end = at
    while end < len(buf) and not buf[end].isspace() and buf[end] not in ":{}\"'":
        if is_mark(buf[end]):
            return r.fail()
        end += 1
    if end == at:
        return r.fail()
    then = r.look("\x0b\x0c", end)
    if then < 0:
        return False
    if buf[then] != "{":
        return r.fail()
    r.name = buf[at:end]
    r.say_call(r.name)
    r.take(then)
    r.stack.append("literal_end")
    return r.go("literal")


def gemma_bare(r: "State") -> bool:
    """Read the same where its opener is missing: no space, and names of letters."""
    end = len("call:")
    while end < len(r.buf) and is_name(r.buf[end]):
        end += 1
    if end == len(r.buf):
        return False
    return r.go("gemma") if r.buf[end] == "{" and end > 5 else r.fail()


def literal_end(r: "State") -> bool:
    """Go on behind the arguments."""
    if r.how == DONE:
        r.complete()
    return r.go("after")


def value_only(r: "State") -> bool:
    """Stop behind a value that stands by itself."""
    return False


def python_value(r: "State", raw: str) -> str:
    """Return a Python literal as JSON text, "" if it is none."""
    alone = r.__class__(r.form)
    alone.stack = ["value_only"]
    alone.at, alone.buf = "literal", raw
    while STEPS[alone.at](alone):
        pass
    whole = alone.at == "value_only" and alone.how == DONE and not alone.buf.strip()
    return alone.pending if whole else ""


STEPS: "dict[str, Callable[[Any], bool]]" = {
    "element": element, "element_end": element_end, "element_value": element_value,
    "function_gemma": gemma, "gemma": gemma, "gemma_bare": gemma_bare, "gemma_string":
    gemma_string, "lfm2": lfm2, "literal": literal, "literal_end": literal_end, "python_argument":
    python_argument, "python_calls": python_calls, "python_end": python_end, "python_lines":
    python_lines, "python_name": python_name, "python_next": python_next, "python_value_end":
    python_value_end, "pythonic": pythonic, "string_1": string_1, "string_2": string_2,
    "value_only": value_only, "word": word,
}  # fmt: skip
