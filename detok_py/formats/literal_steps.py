"""The steps of calls that are Python, or Gemma's own notation."""

import json
from typing import TYPE_CHECKING, Any

from .tool_call import MOST_NAME
from .values import BAD, DONE, STRING, WORDS, is_mark, json_kind, quoted, typed, unescaped

if TYPE_CHECKING:
    from .state import State

OTHER_SPACE = "\x0b\x0c"


def pythonic(r: "State") -> bool:
    """Read `[f(a=1), g()]`, or JSON in its place."""
    if r.next() != "[":
        return r.fail()
    at = r.behind(1)
    if r.buf[at] == "{":
        return r.go("array")
    r.take(at)
    return r.go("python_calls")


def python_lines(r: "State") -> bool:
    """Read one call a line, or a list."""
    return r.go("pythonic" if r.next() == "[" else "python_calls")


def lfm2(r: "State") -> bool:
    """Read a list of Python calls, or JSON."""
    return r.go("array" if r.next() == "{" else "pythonic")


def python_calls(r: "State") -> bool:
    """Read the next call of a list."""
    c, some = r.next(",;"), len(r.calls) > r.began
    if some and c in ("]", r.grammar.close):
        return r.go("python_end")
    if some:
        r.begin(r.buf, "python_end")
    r.stack = ["python_next"]
    return r.go("python_name")


def python_next(r: "State") -> bool:
    """Go on behind a call."""
    return r.go("python_calls" if r.call.how == DONE else "python_end")


def python_end(r: "State") -> bool:
    """Read what closes the list."""
    r.stack = []
    if not r.buf:
        return False
    r.take(r.buf[0] == "]")
    return r.go("after")


def python_name(r: "State") -> bool:
    """Read a name and what opens its arguments."""
    end = r.name_end(0, ".-")
    if r.buf and (not end or ord(r.buf[0]) > 127):
        return r.fail()
    at = r.behind(end, OTHER_SPACE)
    if r.buf[at] != "(":
        return r.fail()
    r.call.name = r.take(at + 1)[:end]
    return r.go("python_argument")


def say_python(r: "State") -> None:
    """Say a call whose first argument, or end, has come."""
    if not r.call.certain:
        name = r.call.name or ""
        r.say_call(name[:-5] if r.stack == ["leave"] and name.endswith(".call") else name)
        r.arguments("{")


def python_argument(r: "State") -> bool:
    """Read the name of an argument, or what closes the call."""
    if r.next(",") == ")":
        if not r.call.certain and r.grammar.bare and len(r.calls) == r.began:
            if r.buf[r.behind(1)] not in "],":
                return r.fail()
        r.take(1)
        say_python(r)
        r.arguments("}")
        r.complete()
        return r.back()
    buf, end = r.buf, r.name_end(0)
    at = r.behind(end, OTHER_SPACE) if end else 0
    if not end or buf[at] != "=":
        return r.back(BAD) if r.call.certain else r.fail()
    then = r.behind(at + 1, OTHER_SPACE)
    if buf[at + 1] == "=":
        return r.back(BAD) if r.call.certain else r.fail()
    say_python(r)
    r.call.key, r.call.value_types = buf[:end], None
    r.give_key()
    r.take(then)
    return r.then("literal", "python_value_end")


def python_value_end(r: "State") -> bool:
    """Go on behind an argument."""
    return r.go("python_argument") if r.call.how == DONE else r.back(BAD)


def delimiter(r: "State") -> str:
    """Return what stands at both sides of Gemma's strings, "" in Python."""
    body = r.grammar.body if r.form.calls else ""
    if body == "function_gemma":
        return r.form.inner["<escape>"]
    return r.form.inner['<|"|>'] if body in ("gemma", "gemma_bare") else ""


def literal(r: "State") -> bool:
    """Give a value of Python or of Gemma as JSON text."""
    c = r.buf[:1]
    if not c:
        return False
    gemma = delimiter(r)
    if c == gemma:
        r.take(1)
        if r.call.value_types is None:
            r.arguments('"')
            r.call.value_types = STRING
        return r.go("gemma_string")
    if c == '"' or (c == "'" and not gemma):
        r.take(1)
        if r.call.value_types != STRING:
            r.arguments('"')
        return r.go("string_1" if c == "'" else "string_2")
    # A value without quotes is a word, also where the schema expects a string.
    if r.call.value_types == STRING or not (c in "{[" or (c == "(" and not gemma)):
        return r.go("word")
    r.take(1)
    r.call.nest += "{" if c == "{" else "["
    r.arguments(r.call.nest[-1])
    return r.go("element")


def gemma_string(r: "State") -> bool:
    """Give one of Gemma's strings."""
    end = r.buf.find(delimiter(r))
    is_string = r.call.value_types == STRING
    if end < 0:
        if is_string:
            r.inside(r.take(len(r.buf)))
        return False
    raw = r.take(end)
    r.take(1)
    if is_string:
        r.inside(raw)
    r.arguments('"' if is_string else typed(r.form.spelled(raw), r.call.value_types))
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
    r.inside(said)
    r.arguments('"' if ended else "")
    return ended and r.back()


def word(r: "State") -> bool:
    """Give a number, a constant or other text without quotes, when its end has come."""
    end = r.upto(",]})")
    said = r.form.spelled(r.take(end)).strip()
    if end:
        r.arguments(typed(said, r.call.value_types) if delimiter(r) else python_word(said))
    return r.back(DONE if end else BAD)


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
            # Not inf or nan, which are no JSON; `dumps` refuses very long numbers.
            if said[:1] in "+-.0123456789" and number - number == 0:
                return json.dumps(number)
        except ValueError:
            continue
    return quoted(said)


def element(r: "State") -> bool:
    """Read an item of a list, or a key; its value follows."""
    c, kind = r.next(","), r.call.nest[-1]
    mapping, gemma = kind in "{}", delimiter(r)
    if c in "]})":
        r.take(1)
        r.arguments("}" if mapping else "]")
        return end_container(r, DONE)
    if (is_mark(c) and c != gemma) or (mapping and not mapping_key(r, gemma)):
        return end_container(r, BAD)
    r.call.nest = r.call.nest[:-1] + ("}" if mapping else "]")
    r.call.value_types = None
    if not mapping:
        r.arguments(", " if kind == "]" else "")
        return r.then("literal", "element_end")
    r.call.comma = kind == "}"
    r.give_key()
    if len(r.call.nest) == 1 and gemma and r.grammar.body == "function_gemma":
        r.call.value_types = r.type_of(r.call.key)
    return r.then("element_value", "element_end")


def element_value(r: "State") -> bool:
    """Begin the value of a key."""
    c = r.next()
    if r.call.value_types == STRING and c in ('"', delimiter(r)):
        r.arguments('"')
    elif r.call.value_types == STRING and c in "{[":
        r.call.value_types = None
    return r.go("literal")


def element_end(r: "State") -> bool:
    """Go on behind an item."""
    return r.go("element") if r.call.how == DONE else end_container(r, BAD)


def end_container(r: "State", how: str) -> bool:
    """Leave a list or mapping that has ended or is broken."""
    r.call.nest = r.call.nest[:-1]
    return r.back(how)


def mapping_key(r: "State", gemma: str) -> bool:
    """Take a key and its colon; say whether there is one."""
    c = r.buf[0]
    if c == gemma:
        end = r.find(gemma, 1)
        at = r.behind(end + 1)
        r.call.key = r.buf[1:end]
    elif c in "\"'":
        r.call.key, r.buf = r.string()
        at = 0
    else:
        at = r.upto(":,{}[]")
        if is_mark(r.buf[at]) or r.buf[at] != ":":
            r.take(at + 1)
            return False
        r.call.key = r.buf[:at].strip()
    return r.take(at + 1)[at] == ":"


def gemma(r: "State") -> bool:
    """Read `call:NAME{K:V,…}`."""
    r.next()
    buf = r.buf
    at = 4 if buf.startswith("call") else 0
    if not at and "call".startswith(buf):
        return False
    at = r.behind(at + (buf[at : at + 1] == ":"), OTHER_SPACE)
    end, most = at, min(len(buf), at + MOST_NAME)
    while end < most and not buf[end].isspace() and buf[end] not in ":{}\"'":
        if is_mark(buf[end]):
            return r.fail()
        end += 1
    if end == at:
        return r.fail()
    then = r.behind(end, OTHER_SPACE)
    if buf[then] != "{":
        return r.fail()
    r.say_call(buf[at:end])
    r.take(then)
    return r.then("literal", "json_end")


function_gemma = gemma


def gemma_bare(r: "State") -> bool:
    """Read a call like `gemma` whose opener is missing: without space, with a plain name."""
    buf, end = r.buf, len("call:")
    most = min(len(buf), end + MOST_NAME)
    while end < most and (buf[end].isalpha() or buf[end].isdigit() or buf[end] in "_.-"):
        end += 1
    if end == len(buf):
        return False
    return r.go("gemma") if buf[end] == "{" and end > 5 else r.fail()


def python_value(r: "State", raw: str) -> str:
    """Return a Python literal as JSON text, "" if the text is not one."""
    alone: Any = r.__class__(r.form)
    alone.then("literal", "")
    alone.buf = raw
    alone.work()
    whole = not alone.at and alone.call.how == DONE and not alone.buf.strip()
    return alone.call.pending if whole else ""
