"""Readers of calls that are Python, Gemma's own notation, code, or JSON without an opener."""

import re

from .calls import (
    ARGUMENTS,
    Call,
    Context,
    NotACall,
    Read,
    Reader,
    Undecided,
    after,
    array_calls,
    code_call,
    fail,
)
from .values import (
    BAD,
    CUT,
    DONE,
    container,
    escaped_string,
    is_mark,
    json_end,
    mark,
    python_call,
    skip_space,
    types_of,
)


def pythonic(close: str, lines: bool = False) -> Reader:
    """Return a reader of `[f(a=1), g()]`; of one call a line, with `lines`."""

    def read(text: str, i: int, known: Context) -> Read:
        i = skip_space(text, i)
        listed = text.startswith("[", i)
        if not lines or listed:
            if not listed:
                fail(text, i)
            j = skip_space(text, i + 1)
            if text.startswith("{", j):
                return array_calls(text, i, close)
            i = j
        calls: list[Call] = []
        while True:
            i = skip_space(text, i, also=",;")
            if i == len(text) or (calls and text[i] in ("]", close)):
                break
            name, arguments, end, how = python_call(text, i)
            if not name:
                if not calls:
                    fail(text, end if how == CUT else -1)
                i = len(text) if how == CUT else i
                break
            calls.append(Call(None, name, arguments, how == DONE))
            i = end
            if how == BAD:
                break
            if how == DONE and not close:
                check_list(text, i, calls)
        if not calls:
            raise Undecided
        i += text.startswith("]", i)
        return calls, after(text, i, close)

    return read


def check_list(text: str, i: int, calls: list[Call]) -> None:
    """Refute a list without markers whose first call has no arguments, and is not the end of it."""
    i = skip_space(text, i)
    if len(calls) == 1 and calls[0].arguments == "{}" and not text.startswith(("]", ","), i):
        fail(text, i)


def lfm2(text: str, i: int, known: Context) -> Read:
    """Read a list of Python calls, or JSON."""
    close = mark("<|tool_call_end|>")
    if text.startswith("{", skip_space(text, i)):
        return array_calls(text, i, close)
    return pythonic(close)(text, i, known)


def gemma(delimiter: str, close: str, schema: bool = False) -> Reader:
    """Return a reader of `call:NAME{K:V,…}`; the schema types quoted values, with `schema`."""

    def read(text: str, i: int, known: Context) -> Read:
        i = skip_space(text, i)
        if re.compile(r"(c|ca|cal|call)?:?\s*$").match(text, i):
            raise Undecided
        found = re.compile(r"(?:call)?:?\s*([^\s:{}\"']+)\s*(\{?)").match(text, i)
        if not found or any(is_mark(c) for c in found[1]):
            raise NotACall
        if not found[2]:
            fail(text, found.end())
        name = found[1]
        types = (lambda key: types_of(known.schemas, name, key)) if schema else None
        arguments, i, how = container(text, found.end() - 1, delimiter, types)
        return [Call(None, name, arguments, how == DONE)], after(text, i, close)

    return read


def gemma_bare(text: str, i: int, known: Context) -> Read:
    """Read Gemma 4's `call:NAME{` where its opener is missing: no space, no other spelling."""
    found = re.compile(r"call:[\w.\-]+\{").match(text, i)
    if not found:
        rest = re.compile(r"(c|ca|cal|call|call:[\w.\-]*)$").match(text, i)
        raise Undecided if rest else NotACall
    return gemma(mark('<|"|>'), mark("<tool_call|>"))(text, i, known)


# -- Code, and answers that begin with JSON -------------------------------------------------------


def internlm_code(text: str, i: int, known: Context) -> Read:
    """Read code up to `<|action_end|>`."""
    close = mark("<|action_end|>")
    end = text.find(close, i)
    code = text[i : end if end >= 0 else len(text)]
    code = code.removeprefix("\n")
    if end < 0:
        return [code_call("interpreter", code.removesuffix("\n"), False)], len(text)
    return [code_call("interpreter", code.removesuffix("\n"), True)], end + 1


LLAMA_MEMBERS = ("name", "parameters", "arguments", "id", "type")


def llama_json(text: str, i: int, known: Context) -> Read:
    """Read `{"name": …, "parameters": {…}}` at the start of an answer, with nothing that opens it.

    Only these two members, "arguments", "id" and "type" may come, until both are known.
    """
    i = skip_space(text, i)
    seen: set[str] = set()
    j = i + 1
    if not text.startswith("{", i):
        fail(text, i)
    while not {"name", "arguments"} <= seen:
        j = skip_space(text, j, also=",")
        if not text.startswith('"', j):
            fail(text, j)
        key, j, how = escaped_string(text, j)
        j = skip_space(text, j)
        if how == CUT and any(member.startswith(key) for member in LLAMA_MEMBERS):
            raise Undecided
        if key not in LLAMA_MEMBERS:
            raise NotACall
        if not text.startswith(":", j):
            fail(text, j)
        j = skip_space(text, j + 1)
        if j == len(text):
            raise Undecided
        if key == "name" and text[j] != '"':
            raise NotACall
        if key in ARGUMENTS:
            key = "arguments"
            if text[j] == '"' and j + 1 == len(text):
                raise Undecided
            if text[j] != "{" and not text.startswith('"{', j):
                raise NotACall
        seen.add(key)
        if {"name", "arguments"} <= seen:
            break
        j, how = json_end(text, j)
        if how != DONE:
            fail(text, j)
    calls, i = array_calls(text, i, "")
    # A further call may follow a semicolon.
    try:
        j = skip_space(text, i)
        if calls[-1].complete and (j == len(text) or text[j] == ";"):
            more, end = llama_json(text, skip_space(text, j, also=";"), known)
            return calls + more, end
    except NotACall:
        pass
    except Undecided:
        return calls, len(text)
    return calls, i


def llama_tag(text: str, i: int, known: Context) -> Read:
    """Read what follows `<|python_tag|>`: JSON, `tool.call(a="b")`, or code."""
    i = skip_space(text, i)
    if i == len(text):
        raise Undecided
    if text[i] == "{":
        try:
            calls, i = array_calls(text, i, "")
            while text.startswith(";", skip_space(text, i)):
                more, i = array_calls(text, skip_space(text, i, also=";"), "")
                calls += more
            return calls, i
        except NotACall:
            pass
    dotted = re.compile(r"[A-Za-z_]\w*\.call\(").match(text, i)
    if dotted:
        name, arguments, end, how = python_call(text, i)
        if how == CUT and not name:
            raise Undecided
        if name:
            return [Call(None, name.removesuffix(".call"), arguments, how == DONE)], end
    elif re.compile(r"([A-Za-z_]\w*(\.(c(a(l(l)?)?)?)?)?)?$").match(text, i):
        raise Undecided
    # Only the end of the answer ends code.
    return [code_call("python", text[i:], known.ended)], len(text)
