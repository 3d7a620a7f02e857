"""The steps of calls that are JSON: an object, an array of them, or `{"NAME": {…}}`."""

from typing import TYPE_CHECKING

from .values import BAD, DONE, unescaped

if TYPE_CHECKING:
    from .state import State

NAMES = ("name", "tool_name")
ARGUMENTS = ("arguments", "parameters")
IDS = ("id", "tool_call_id")


def args(r: "State") -> bool:
    """Give a JSON value as it is written; of a string that begins with `{`, its text."""
    if r.next() != '"':
        return r.go("args_raw")
    said, rest, ended = unescaped(r.buf[1:], '"')
    if said[:1] == "{":
        r.take(1)
        return r.go("args_decoded")
    limited = bool(rest) and rest[0] in r.form.limits
    return bool(said or ended or limited) and r.go("args_raw")


def args_raw(r: "State") -> bool:
    """Give a JSON value as it is written."""
    said, how = r.follow()
    r.arguments(r.form.spelled(said))
    return bool(how) and r.back(how)


def args_decoded(r: "State") -> bool:
    """Give the text of a string that holds JSON."""
    inside = r.take(r.find(r.form.limits))
    said, rest, ended = unescaped(inside, '"')
    r.arguments(r.form.spelled(said))
    limited, r.buf = bool(r.buf), rest + r.buf
    return (ended or limited) and r.back(DONE if ended else BAD)


def object_call(r: "State") -> bool:
    """Read a call that is one JSON object."""
    return r.then("json_object", "after")


def json_object(r: "State") -> bool:
    """Read what opens an object."""
    if r.next() != "{":
        return r.fail()
    r.take(1)
    return r.go("member")


def member(r: "State") -> bool:
    """Read the key of a member, or what closes the object."""
    c = r.next(",")
    if c == '"':
        r.call.key, r.buf = r.string()
    if c == "}" or (c == '"' and r.buf[0] == ":"):
        r.take(1)
    elif c == '"':
        c = ""
    return r.go("value") if c == '"' else end_object(r, c == "}")


def value(r: "State") -> bool:
    """Read the value of a member: the arguments, the name, the id, or any other."""
    if r.call.key in ARGUMENTS and not r.call.has_arguments:
        r.call.has_arguments = True
        return r.then("args", "arguments_member")
    if not r.value.begun:
        r.next()
    is_name = r.call.key in NAMES and r.call.name is None
    is_id = r.call.key in IDS and r.call.id is None
    raw, how = r.follow(is_name or is_id)
    if not how:
        return False
    said = r.form.spelled(unescaped(raw[1:], '"')[0] if raw[:1] == '"' else raw)
    if how == DONE and is_name and raw[0] == '"':
        r.call.name = said
        if said:
            r.say_call(said)
    elif how == DONE and is_id:
        r.call.id = said
        if r.call.certain:
            r.calls[-1].id = said
    return r.go("member") if how == DONE else end_object(r, False)


def arguments_member(r: "State") -> bool:
    """Go on behind the arguments."""
    r.call.whole = r.call.how == DONE
    return r.go("member") if r.call.whole else end_object(r, False)


def end_object(r: "State", ended: bool) -> bool:
    """End a call that is an object, with its bracket or without."""
    if not r.call.certain:
        return r.fail()
    if ended:
        if not r.call.has_arguments:
            r.arguments("{}")
        r.complete()
    return r.back()


def array(r: "State") -> bool:
    """Read an array of calls, or one call without brackets."""
    c = r.next()
    if c == "{":
        return r.then(r.grammar.item, "after")
    if c != "[":
        return r.fail()
    r.take(1)
    return r.go("items")


def items(r: "State") -> bool:
    """Read what begins an item of an array of calls, or closes the array."""
    c, some = r.next(","), len(r.calls) > r.began
    if c == "{":
        if some:
            r.begin(r.buf, "skip_item")
        return r.then(r.grammar.item, "item_end")
    if c != "]":
        return r.go("after") if some else r.fail()
    if not some:
        if r.grammar.least:
            return r.fail()
        r.end_text_run()
    r.take(1)
    return r.go("after")


def item_end(r: "State") -> bool:
    """Go on behind an item."""
    if r.calls[-1].complete:
        return r.go("items")
    at = r.behind()
    if not r.call.whole or not r.closes(at):
        return r.leave()
    r.complete()
    return r.go("items")


def skip_item(r: "State") -> bool:
    """Skip an item of an array of calls that is not a call."""
    return bool(r.follow()[1]) and r.leave()


def keyed(r: "State") -> bool:
    """Read `{"NAME":`; the arguments follow."""
    if r.next() != "{":
        return r.fail()
    at = r.behind(1)
    if r.buf[at] != '"':
        return r.fail()
    name, rest = r.string(at)
    if rest[0] != ":":
        return r.fail()
    r.buf = rest[1:]
    r.say_call(r.form.spelled(name))
    return r.then("args", "keyed_end")


def keyed_end(r: "State") -> bool:
    """Read the bracket behind the arguments."""
    r.call.whole = r.call.how == DONE
    at = r.behind() if r.call.whole else 0
    if r.call.whole and r.buf[at] == "}":
        r.take(at + 1)
        r.complete()
    return r.back()
