"""Readers of calls whose parameters stand in tags, each raw: XML of several families, and GLM's."""

import re
from typing import NamedTuple

from .calls import Call, Context, NotACall, Read, Reader, Undecided, after, fail, header
from .values import (
    ANY_MARK,
    mark,
    marked,
    quoted,
    skip_space,
    spelled,
    typed,
    typed_prefix,
    types_of,
)


class Tags(NamedTuple):
    """How one family writes a call in tags; `key` and `name` are patterns with one group."""

    name: str  # what opens a call and has its name
    end: str  # what closes it
    key: str  # what opens a parameter
    value_end: str  # what closes a parameter
    newline: bool = False  # one newline at each side of a value is markup
    python: bool = False  # objects may be Python literals
    attribute: bool = False  # the second group of `key` says whether the value is a string


INSIDE = r"[^\s<>]*( [^<>\n]*)?"  # of a tag, behind its name


def opening(text: str, i: int, pattern: str) -> re.Match[str] | None:
    """Return the match of an opening tag at `i`; Undecided if it is cut. `>` ends every
    such tag.
    """
    found = re.compile(pattern).match(text, i)
    literal = pattern.split("(")[0].replace("\\", "")
    if found:
        inside = found[0][len(literal) : -1]
        return found if re.fullmatch(INSIDE, inside) else None
    if literal.startswith(text[i : i + len(literal)]) and ">" not in text[i:]:
        if re.fullmatch(INSIDE, text[i + len(literal) :]):
            raise Undecided
    return None


def tagged_call(text: str, i: int, tags: Tags, closes: tuple[str, ...], known: Context) -> Read:
    """Read one call in tags; `closes` also end it, where its own close is missing."""
    found = opening(text, i, tags.name)
    if not found:
        fail(text, i)
    assert found
    name, out, i = spelled(found[1]), "{", found.end()
    while True:
        # What stands between parameters is not shown.
        while i < len(text) and not text.startswith((tags.end, *closes), i):
            try:
                if key := opening(text, i, tags.key):
                    break
            except Undecided:
                return [Call(None, name, out, False)], len(text)
            i += 1
        if i == len(text):
            return [Call(None, name, out, False)], i
        if text.startswith(tags.end, i):
            return [Call(None, name, out + "}", True)], i + len(tags.end)
        if text.startswith(closes, i):
            return [Call(None, name, out + "}", True)], i
        assert key
        out += (", " if out != "{" else "") + quoted(key[1]) + ": "
        types = types_of(known.schemas, name, spelled(key[1]))
        if tags.attribute and key[2] in ("true", "false"):
            types = {"string"} if key[2] == "true" else None
        newline = "\n" if tags.newline else ""
        end = text.find(tags.value_end, key.end())
        if end < 0:
            raw = text[key.end() :].removeprefix(newline)
            rest = typed_prefix(raw, types, tags.value_end, newline + tags.value_end)
            return [Call(None, name, out + rest, False)], len(text)
        raw = text[key.end() : end].removeprefix(newline).removesuffix(newline)
        out += typed(raw, types, tags.python)
        i = end + len(tags.value_end)


QWEN_XML = Tags(
    "<function=([^>\n]+)>", "</function>", "<parameter=([^>\n]+)>", "</parameter>", True
)
SEED_XML = QWEN_XML._replace(newline=False, python=True)
MINIMAX_XML = Tags(
    '<invoke name="([^"]+)">', "</invoke>", '<parameter name="([^"]+)">', "</parameter>"
)
STEP_XML = Tags(
    '<steptml:invoke name="([^"]+)">',
    "</steptml:invoke>",
    '<steptml:parameter name="([^"]+)">',
    "</steptml:parameter>",
)
DSML = Tags(
    marked('<⟦｜DSML｜⟧invoke name="([^"]+)">'),
    marked("</⟦｜DSML｜⟧invoke>"),
    marked('<⟦｜DSML｜⟧parameter name="([^"]+)"(?: string="(true|false)")?>'),
    marked("</⟦｜DSML｜⟧parameter>"),
    attribute=True,
)


def tagged(tags: Tags, close: str, *closes: str) -> Reader:
    """Return a reader of the calls between an opener and `close`; `closes` also end a call."""

    def read(text: str, i: int, known: Context) -> Read:
        calls: list[Call] = []
        while True:
            j = skip_space(text, i)
            if text.startswith(close, j):
                return calls, j + len(close)
            try:
                more, i = tagged_call(text, j, tags, (close, *closes), known)
            except (NotACall, Undecided) as why:
                if not calls:
                    raise
                return calls, len(text) if isinstance(why, Undecided) else i
            calls += more

    return read


def untagged(tags: Tags, close: str, *closes: str) -> Reader:
    """Return a reader of one call whose opener is missing; its tags must go on as those
    of a call.
    """

    def read(text: str, i: int, known: Context) -> Read:
        found = opening(text, i, tags.name)
        if not found:
            fail(text, i)
        assert found
        j = skip_space(text, found.end())
        if not text.startswith(tags.end, j):
            if tags.end.startswith(text[j:]) or not opening(text, j, tags.key):
                fail(text, len(text) if tags.end.startswith(text[j:]) else j)
        calls, i = tagged_call(text, i, tags, (close, *closes), known)
        return calls, after(text, i, close)

    return read


def step3(text: str, i: int, known: Context) -> Read:
    """Read `function⟦sep⟧<steptml:invoke …>…⟦end⟧`."""
    close = mark("<｜tool_call_end｜>")
    _, i = header(text, i, mark("<｜tool_sep｜>"))
    calls, i = tagged_call(text, skip_space(text, i), STEP_XML, (close,), known)
    return calls, after(text, i, close)


def glm(text: str, i: int, known: Context) -> Read:
    """Read `NAME⟦arg_key⟧K⟦/arg_key⟧⟦arg_value⟧V⟦/arg_value⟧…⟦/tool_call⟧`."""
    key_open, key_close = mark("<arg_key>"), mark("</arg_key>")
    value_open, value_close = mark("<arg_value>"), mark("</arg_value>")
    close, again = mark("</tool_call>"), mark("<tool_call>")
    found = re.compile(r"\s*([^\s{" + ANY_MARK + r"]+)\s*").match(text, i)
    if not found or found.end() == len(text):
        fail(text, len(text) if not text[i:].strip() or found else i)
    assert found
    name, out, i = found[1], "{", found.end()
    if text[i] not in (key_open, close, again):
        raise NotACall
    while True:
        i = skip_space(text, i)
        if i == len(text):
            return [Call(None, name, out, False)], i
        if text[i] in (close, again):
            return [Call(None, name, out + "}", True)], i + (text[i] == close)
        if text[i] != key_open:
            i += 1
            continue
        end = text.find(key_close, i)
        if end < 0:
            return [Call(None, name, out, False)], len(text)
        key = spelled(text[i + 1 : end].strip())
        start = skip_space(text, end + 1)
        if start == len(text):
            return [Call(None, name, out, False)], start
        i = start
        if text[i] != value_open:
            continue
        types = types_of(known.schemas, name, key)
        out += (", " if out != "{" else "") + quoted(key) + ": "
        end = text.find(value_close, i)
        if end < 0:
            return [Call(None, name, out + typed_prefix(text[i + 1 :], types, ""), False)], len(
                text
            )
        out += typed(text[i + 1 : end], types)
        i = end + 1
