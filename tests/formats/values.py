"""Values as models write them, read as JSON text: JSON, Python literals, Gemma's, raw parameters.

A marker of a format is one character of a private range (`mark`), so that text can be searched as
plain text and a marker is never confused with text that is spelled like it. Every reader that can
meet the end of the text says how it ended: DONE, CUT (the text ended before it) or BAD (something
else follows). What it returns after CUT is the beginning of every way to go on.
"""

import ast
import json
import re
from typing import Any, Callable

DONE, CUT, BAD = "done", "cut", "bad"

_SPELLINGS: list[str] = []
_FIRST_MARK = 0xF0000
ANY_MARK = "\U000f0000-\U000fffff"  # in a set of characters of a pattern


def mark(spelling: str) -> str:
    """Return the character that stands for a marker."""
    if spelling not in _SPELLINGS:
        _SPELLINGS.append(spelling)
    return chr(_FIRST_MARK + _SPELLINGS.index(spelling))


def is_mark(character: str) -> bool:
    return ord(character) >= _FIRST_MARK


def spelled(text: str) -> str:
    """Return the text with its markers spelled out."""
    return "".join(_SPELLINGS[ord(c) - _FIRST_MARK] if is_mark(c) else c for c in text)


def marked(notation: str) -> str:
    """Return text in which `⟦x⟧` is the marker x."""
    return re.sub("⟦(.*?)⟧", lambda found: mark(found[1]), notation)


def quoted(text: str) -> str:
    return json.dumps(spelled(text), ensure_ascii=False)


def skip_space(text: str, i: int, also: str = "") -> int:
    while i < len(text) and (text[i] in " \t\r\n" or text[i] in also):
        i += 1
    return i


# -- JSON as written ------------------------------------------------------------------------------


def json_end(text: str, i: int) -> tuple[int, str]:
    """Return where the JSON value at `i` ends, and how. Only brackets and quotes are looked at."""
    if text[i] in "{[":
        depth = 0
        while i < len(text):
            if is_mark(text[i]):
                return i, BAD
            if text[i] == '"':
                i, ended = json_end(text, i)
                if ended == CUT:
                    return i, CUT
                continue
            depth += (text[i] in "{[") - (text[i] in "}]")
            i += 1
            if depth == 0:
                return i, DONE
        return i, CUT
    if text[i] == '"':
        i += 1
        while i < len(text) and text[i] != '"':
            i += 2 if text[i] == "\\" else 1
        return (i + 1, DONE) if i < len(text) else (len(text), CUT)
    start = i
    while i < len(text) and text[i] not in " \t\r\n,:]}" and not is_mark(text[i]):
        i += 1
    return i, CUT if i == len(text) else DONE if i > start else BAD


def arguments_as_written(raw: str) -> str:
    """Return a JSON value as it is written; the text of a string that begins with `{`."""
    if raw.startswith('"'):
        text, _, ended = escaped_string(raw, 0)
        if text.startswith("{"):
            return spelled(text)
        if not text and ended == CUT:
            return ""
    return spelled(raw)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\"}
_ESCAPES |= {'"': '"', "'": "'", "0": "\0", "a": "\a", "v": "\v", "\n": ""}
_DIGITS = {"x": 2, "u": 4, "U": 8}


def escaped_string(text: str, i: int) -> tuple[str, int, str]:
    """Return the text of the string whose quote stands at `i`, where it ends, and how.

    Escapes are those of JSON and Python. Half a surrogate pair waits for the other half.
    """
    quote = text[i]
    i += 1
    out = ""
    while i < len(text) and text[i] != quote:
        if text[i] != "\\":
            out += text[i]
            i += 1
            continue
        if i + 1 == len(text):
            return out, len(text), CUT
        kind = text[i + 1]
        if kind not in _DIGITS:
            out += _ESCAPES.get(kind, "\\" + kind)
            i += 2
            continue
        digits = text[i + 2 : i + 2 + _DIGITS[kind]]
        if not re.fullmatch("[0-9a-fA-F]*", digits) or quote in digits:
            out += "\\" + kind
            i += 2
            continue
        if len(digits) < _DIGITS[kind]:
            return out, len(text), CUT
        code = int(digits, 16)
        i += 2 + len(digits)
        if 0xD800 <= code < 0xDC00:
            follows = text[i : i + 6]
            low = re.fullmatch(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", follows)
            if low:
                code = 0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00
                i += 6
            elif len(follows) < 6 and re.fullmatch(
                r"(\\(u([dD]([c-fC-F][0-9a-fA-F]?)?)?)?)?", follows
            ):
                return out, len(text), CUT
        out += "\N{REPLACEMENT CHARACTER}" if 0xD800 <= code < 0xE000 else chr(code)
    return (out, i + 1, DONE) if i < len(text) else (out, len(text), CUT)


# -- Types ----------------------------------------------------------------------------------------


def parsed(text: str) -> Any:
    """Return the value of strict JSON; ValueError for anything else."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


def types_in(schema: Any) -> set[str] | None:
    """Return the JSON types that a schema allows, or None if it does not say."""
    if not isinstance(schema, dict):
        return None
    if "type" in schema:
        return {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            parts = [types_in(part) for part in schema[union]]
            return None if None in parts else set().union(*parts)  # type: ignore[arg-type]
    if "const" in schema:
        return {kind_of(schema["const"])}
    return {kind_of(value) for value in schema["enum"]} if "enum" in schema else None


def kind_of(value: Any) -> str:
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}
    return kinds.get(type(value), "null" if value is None else "object")


def types_of(tool_schemas: Any, name: str, key: str) -> set[str] | None:
    """Return the types that OpenAI's list of tools gives to a parameter, or None."""
    for tool in tool_schemas or []:
        function = tool.get("function", tool)
        if function.get("name") == name:
            properties = (function.get("parameters") or {}).get("properties") or {}
            return types_in(properties.get(key))
    return None


def typed(raw: str, types: set[str] | None, python: bool = False) -> str:
    """Return the JSON text of a raw parameter whose end is known."""
    raw = spelled(raw)
    text = raw.strip()
    if types == {"string"}:
        return quoted(raw)
    try:
        kind = kind_of(parsed(text))
    except ValueError:
        kind = ""
    if types and "string" in types:
        fits = kind in types - {"string"} or (kind == "integer" and "number" in types)
        return text if kind and fits else quoted(raw)
    if kind:
        return text
    if types and "boolean" in types and text in ("True", "False"):
        return text.lower()
    if types and "null" in types and text == "None":
        return "null"
    if python and types and types & {"array", "object"}:
        try:
            return json.dumps(ast.literal_eval(text), ensure_ascii=False)
        except (ValueError, SyntaxError, TypeError):
            pass
    return quoted(raw)


def typed_prefix(raw: str, types: set[str] | None, *closes: str) -> str:
    """Return what is certain of a raw parameter that has not ended: of a string, its beginning.

    The end of `raw` that may still become one of `closes` is not part of it.
    """
    if types != {"string"}:
        return ""
    beginnings = [close[:n] for close in closes for n in range(len(close))]
    held = max((len(part) for part in beginnings if raw.endswith(part)), default=0)
    return quoted(raw[: len(raw) - held])[:-1]


# -- Python literals and Gemma's values -----------------------------------------------------------

Types = Callable[[str], "set[str] | None"]


def literal(
    text: str, i: int, delimiter: str = "", types: set[str] | None = None
) -> tuple[str, int, str]:
    """Return the value at `i` as JSON text, where it ends, and how.

    With a `delimiter`, Gemma's: raw strings between delimiters, bare keys. Without, Python's.
    """
    if delimiter and text[i] == delimiter:
        end = text.find(delimiter, i + 1)
        if types in (None, {"string"}):
            if end < 0:
                return quoted(text[i + 1 :])[:-1], len(text), CUT
            return quoted(text[i + 1 : end]), end + 1, DONE
        return ("", len(text), CUT) if end < 0 else (typed(text[i + 1 : end], types), end + 1, DONE)
    if text[i] == '"' or (text[i] == "'" and not delimiter):
        inner, end, how = escaped_string(text, i)
        return (quoted(inner) if how == DONE else quoted(inner)[:-1]), end, how
    if text[i] in "{[" or (text[i] == "(" and not delimiter):
        return container(text, i, delimiter)
    end = i
    while end < len(text) and text[end] not in ",]})" and not is_mark(text[end]):
        end += 1
    if end == len(text) or end == i:
        return "", end, CUT if end == len(text) else BAD
    return bare(text[i:end].strip(), delimiter, types), end, DONE


def bare(word: str, delimiter: str, types: set[str] | None) -> str:
    """Return a value without quotes as JSON text: a number, a name of a constant, else a string."""
    if delimiter:
        return typed(word, types)
    constants = {"True": "true", "False": "false", "None": "null"}
    if word in constants:
        return constants[word]
    try:
        parsed(word)
    except ValueError:
        try:
            return json.dumps(ast.literal_eval(word), ensure_ascii=False)
        except (ValueError, SyntaxError, TypeError):
            return quoted(word)
    return word


def container(
    text: str, i: int, delimiter: str = "", types: Types | None = None
) -> tuple[str, int, str]:
    """Return the list, tuple or mapping at `i` as JSON text, where it ends, and how."""
    mapping = text[i] == "{"
    out = "{" if mapping else "["
    items = 0
    i += 1
    while True:
        i = skip_space(text, i, also=",")
        if i == len(text):
            return out, i, CUT
        if text[i] in "]})":
            return out + ("}" if mapping else "]"), i + 1, DONE
        if is_mark(text[i]) and text[i] != delimiter:
            return out, i, BAD
        before, key = ", " if items else "", ""
        if mapping:
            key, i, how = mapping_key(text, i, delimiter)
            if how != DONE:
                return out, i, how
            out += before + quoted(key) + ": "
            before = ""
            i = skip_space(text, i)
            if i == len(text):
                return out, i, CUT
        value, i, how = literal(text, i, delimiter, types(key) if types else None)
        out += before + value
        items += 1
        if how != DONE:
            return out, i, how


def mapping_key(text: str, i: int, delimiter: str) -> tuple[str, int, str]:
    """Return the key at `i`, where its value may begin, and how the key ended."""
    if text[i] == delimiter or text[i] in "\"'":
        if text[i] == delimiter:
            end = text.find(delimiter, i + 1)
            key, i, how = (text[i + 1 : end], end + 1, DONE) if end >= 0 else ("", len(text), CUT)
        else:
            key, i, how = escaped_string(text, i)
        i = skip_space(text, i)
        if how == CUT or i == len(text):
            return key, len(text), CUT
        return key, i + 1, DONE if text[i] == ":" else BAD
    found = re.compile(r"[^:,{}\[\]" + ANY_MARK + "]*").match(text, i)
    assert found
    if found.end() == len(text):
        return "", len(text), CUT
    return found[0].strip(), found.end() + 1, DONE if text[found.end()] == ":" else BAD


def python_call(text: str, i: int) -> tuple[str, str, int, str]:
    """Return name and arguments of `f(a=1, b="x")` at `i`, where it ends, and how.

    A call is certain, and has a name, from its first `key=` or its `)` on.
    """
    found = re.compile(r"([A-Za-z_][\w.\-]*)\s*(\(?)\s*").match(text, i)
    if not found:
        return "", "", i, BAD
    if not found[2]:
        return "", "", found.end(), CUT if found.end() == len(text) else BAD
    name, out, i, certain = found[1], "{", found.end(), False
    while True:
        i = skip_space(text, i, also=",")
        if i == len(text):
            return name if certain else "", out, i, CUT
        if text[i] == ")":
            return name, out + "}", i + 1, DONE
        key = re.compile(r"((?:[^\W\d]\w*)?)\s*(=?)(?!=)\s*").match(text, i)
        assert key
        if key.end() == len(text) and key[1]:
            return name if certain else "", out, len(text), CUT
        if not key[1] or not key[2]:
            return name if certain else "", out, i, BAD
        certain = True
        out += (", " if out != "{" else "") + quoted(key[1]) + ": "
        value, i, how = literal(text, key.end())
        out += value
        if how != DONE:
            return name, out, i, how
