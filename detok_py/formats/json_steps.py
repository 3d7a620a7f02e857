"""The steps of calls that are JSON: an object, an array of them, or `{"NAME": {…}}`."""

from typing import TYPE_CHECKING, Any, Callable

from .values import BAD, DONE, unescaped

if TYPE_CHECKING:
    from .state import State

NAMES = ("name", "tool_name")
ARGUMENTS = ("arguments", "parameters")
IDS = ("id", "tool_call_id")


def args(r: "State") -> bool:
    """Give a JSON value as it is written; of a string that begins with `{`, its text."""
    if r.buf[:1] != '"':
        return r.go("args_raw")
    said, rest, ended = unescaped(r.buf[1:], '"')
    if said[:1] == "{":
        r.take(1)
        return r.go("args_decoded")
    limited = bool(rest) and rest[0] in r.form.limits
    return bool(said or ended or limited) and r.go("args_raw")


def args_raw(r: "State") -> bool:
    """Give a JSON value as it is written."""
    how = r.scan()
    r.arguments(r.form.spelled(r.take(r.pos)))
    r.pos = 0
    if not how:
        return False
    r.forget_scan()
    return r.back(how)


def args_decoded(r: "State") -> bool:
    """Give the text of a string that holds JSON."""
    end = 0
    while end < len(r.buf) and r.buf[end] not in r.form.limits:
        end += 1
    inside = r.take(end)
    said, rest, ended = unescaped(inside, '"')
    r.arguments(r.form.spelled(said))
    limited, r.buf = bool(r.buf), rest + r.buf
    return (ended or limited) and r.back(DONE if ended else BAD)


def object_call(r: "State") -> bool:
    """Read a call that is one JSON object."""
    r.stack.append("after")
    return r.go("object")


def object_(r: "State") -> bool:
    """Read what opens an object."""
    return r.expect("{", "member")


def member(r: "State") -> bool:
    """Read what begins a member, or closes the object."""
    c = r.peek(",")
    if not c:
        return False
    if c == '"':
        return r.go("key")
    if c == "}":
        r.take(1)
    return end_object(r, c == "}")


def key(r: "State") -> bool:
    """Read the key of a member."""
    if not r.scan():
        return False
    r.key = unescaped(r.taken()[1:], '"')[0]
    return r.go("colon")


def colon(r: "State") -> bool:
    """Read what stands behind a key."""
    c = r.peek()
    if not c:
        return False
    if c != ":":
        return end_object(r, False)
    r.take(1)
    return r.go("value")


def value(r: "State") -> bool:
    """Find out what the value of a member is for."""
    if not r.peek():
        return False
    if r.key in ARGUMENTS and not r.has_arguments:
        r.has_arguments = True
        r.stack.append("arguments_member")
        return r.go("args")
    return r.go("other_value")


def arguments_member(r: "State") -> bool:
    """Go on behind the arguments."""
    r.whole = r.how == DONE
    return r.go("member") if r.whole else end_object(r, False)


def other_value(r: "State") -> bool:
    """Read the value of a member that is not the arguments: the name, the id, or any other."""
    is_name = r.key in NAMES and r.name is None
    is_id = r.key in IDS and r.id is None
    how = r.scan()
    if not how:
        if not (is_name or is_id):
            r.take(r.pos)
            r.pos = 0
        return False
    raw = r.taken()
    if how == DONE and is_name and raw[0] == '"':
        r.name = r.form.spelled(unescaped(raw[1:], '"')[0])
        if r.name:
            r.say_call(r.name)
    elif how == DONE and is_id:
        r.id = r.form.spelled(unescaped(raw[1:], '"')[0] if raw[0] == '"' else raw)
        if r.certain:
            r.calls[-1].id = r.id
    return r.go("member") if how == DONE else end_object(r, False)


def end_object(r: "State", ended: bool) -> bool:
    """End a call that is an object, with its bracket or without."""
    if not r.certain:
        return r.fail()
    if ended:
        if not r.has_arguments:
            r.arguments("{}")
        r.complete()
    return r.back()


def array(r: "State") -> bool:
    """Read an array of calls, or one call without brackets."""
    c = r.peek()
    if not c:
        return False
    if c == "{":
        r.stack.append("after")
        return r.go(r.form.calls[r.opener].item)
    if c != "[":
        return r.fail()
    r.take(1)
    return r.go("items")


def items(r: "State") -> bool:
    """Read what begins an item of an array of calls, or closes the array."""
    c = r.peek(",")
    if not c:
        return False
    call, some = r.form.calls[r.opener], len(r.calls) > r.began
    if c == "]":
        if not some and call.least:
            return r.fail()
        r.take(1)
        if not some:
            r.enclose()
        return r.go("after")
    if c != "{":
        return r.go("after") if some else r.fail()
    if some:
        r.begin(r.buf, "skip_item")
    r.stack.append("item_end")
    return r.go(call.item)


def item_end(r: "State") -> bool:
    """Go on behind an item."""
    call = r.form.calls[r.opener]
    if r.calls[-1].complete:
        return r.go("items")
    at = r.look()
    if at < 0:
        return False
    if r.whole and call.close:
        if r.buf.startswith(call.close, at):
            r.complete()
            return r.go("items")
        if call.close.startswith(r.buf[at:]) and not r.ended:
            return False
    return r.leave()


def skip_item(r: "State") -> bool:
    """Skip what stands in an array of calls and is none."""
    r.stack = []
    how = r.scan()
    r.take(r.pos)
    r.pos = 0
    if not how:
        return False
    r.forget_scan()
    return r.leave()


def keyed(r: "State") -> bool:
    """Read `{"NAME": {…}}`."""
    return r.expect("{", "keyed_name")


def keyed_name(r: "State") -> bool:
    """Read the name of a call, which is a key."""
    c = r.peek()
    if not c:
        return False
    if c != '"':
        return r.fail()
    if not r.scan():
        return False
    r.key = unescaped(r.taken()[1:], '"')[0]
    return r.go("keyed_colon")


def keyed_colon(r: "State") -> bool:
    """Read what makes a call certain."""
    return r.expect(":", "keyed_certain")


def keyed_certain(r: "State") -> bool:
    """Say the call."""
    r.say_call(r.form.spelled(r.key))
    return r.go("keyed_value")


def keyed_value(r: "State") -> bool:
    """Read the arguments behind the name."""
    if not r.peek():
        return False
    r.stack.append("keyed_end")
    return r.go("args")


def keyed_end(r: "State") -> bool:
    """Read the bracket behind the arguments."""
    r.whole = r.how == DONE
    at = r.look() if r.whole else 0
    if at < 0:
        return False
    if r.whole and r.buf[at] == "}":
        r.take(at + 1)
        r.complete()
    return r.back()


STEPS: "dict[str, Callable[[Any], bool]]" = {
    "args": args, "args_decoded": args_decoded, "args_raw": args_raw, "arguments_member":
    arguments_member, "array": array, "colon": colon, "item_end": item_end, "items": items, "key":
    key, "keyed": keyed, "keyed_certain": keyed_certain, "keyed_colon": keyed_colon, "keyed_end": keyed_end, "keyed_name":
    keyed_name, "keyed_value": keyed_value, "member": member, "object": object_, "object_call":
    object_call, "other_value": other_value, "skip_item": skip_item, "value": value,
}  # fmt: skip
