"""Values inside calls: strings and their escapes, JSON text, the types of raw parameters.

A marker that is one token is one character here, of a range that no text has: lone surrogates.
"""

import json
from typing import TYPE_CHECKING, Any, Iterable

if TYPE_CHECKING:
    Types = tuple[str, ...] | None  # JSON types that a value may have; None: nothing is said

DONE, BAD = "done", "bad"  # how a value ended
SPACE = " \t\r\n"
FIRST_MARK = 0xDC00
MOST_MARKS = 64
_FIRST = chr(FIRST_MARK)


class More(Exception):
    """A step needs more symbols than have come; it has taken none."""


def is_mark(c: str) -> bool:
    """Say whether a character stands for a marker.

    >>> is_mark(chr(FIRST_MARK)), is_mark("<")
    (True, False)
    """
    return FIRST_MARK <= ord(c) < FIRST_MARK + MOST_MARKS


def has_mark(text: str) -> bool:
    """Say whether any character of a text stands for a marker."""
    return bool(text) and max(text) >= _FIRST and any(is_mark(c) for c in text)


def in_common(texts: "list[str]") -> str:
    """Return the longest common prefix of some texts.

    >>> in_common(["don't", "do it"])
    'do'
    """
    first, last = min(texts), max(texts)
    n = 0
    while n < len(first) and first[n] == last[n : n + 1]:
        n += 1
    return first[:n]


_LONG_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def escaped(text: str) -> str:
    """Return text as it stands inside a JSON string (RFC 8259, section 7).

    >>> print(escaped('a "b" \\\\ c' + chr(10)))
    a \\"b\\" \\\\ c\\n
    """
    out = text.replace("\\", "\\\\").replace('"', '\\"')
    if any(c < " " for c in out):
        out = "".join([c if c >= " " else _LONG_ESCAPES.get(c) or f"\\u{ord(c):04x}" for c in out])
    return out


def quoted(text: str) -> str:
    """Return text as a JSON string.

    >>> print(quoted("it's"))
    "it's"
    """
    return '"' + escaped(text) + '"'


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\"}
_ESCAPES.update({'"': '"', "'": "'", "0": "\0", "a": "\a", "v": "\v", "\n": ""})
_DIGITS = {"x": 2, "u": 4, "U": 8}
_HEX = "0123456789abcdefABCDEF"


def unescaped(text: str, quote: str) -> tuple[str, str, bool]:
    """Decode the inside of a string, with the escapes of JSON and Python, up to its closing quote.

    Return what is certain, what is left (behind the quote, or from an escape that is not whole
    on), and whether the string has ended. Half a surrogate pair waits for the other half.

    >>> unescaped('a\\\\n\\\\u00e9" b', '"')
    ('a\\né', ' b', True)
    >>> unescaped("a\\\\u00", '"')
    ('a', '\\\\u00', False)
    """
    out: list[str] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c == quote:
            return "".join(out), text[i + 1 :], True
        if c != "\\":
            out.append(c)
            i += 1
            continue
        said, length = _escape(text[i : i + 16])
        if not length:
            break
        out.append(said)
        i += length
    return "".join(out), text[i:], False


def _escape(text: str) -> tuple[str, int]:
    """Return what the escape at the beginning says, and its length, 0 if it is not whole."""
    if len(text) < 2:
        return "", 0
    kind = text[1]
    if kind not in _DIGITS:
        return _ESCAPES.get(kind, "\\" + kind), 2
    length = 2 + _DIGITS[kind]
    digits = text[2:length]
    if any(d not in _HEX for d in digits):
        return "\\" + kind, 2
    if len(text) < length:
        return "", 0
    code = int(digits, 16)
    if 0xD800 <= code < 0xDC00:
        low = text[length : length + 6]
        whole = len(low) == 6
        if _begins_low(low):
            if not whole:
                return "", 0
            return chr(0x10000 + ((code - 0xD800) << 10) + int(low[2:], 16) - 0xDC00), length + 6
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        return "\N{REPLACEMENT CHARACTER}", length
    return chr(code), length


def _begins_low(text: str) -> bool:
    """Say whether a text begins as the second half of a surrogate pair does."""
    expected = ("\\", "u", "dD", "cdefCDEF", _HEX, _HEX)
    return all(c in allowed for c, allowed in zip(text, expected))


# ---------------------------------------------------------------- the types of raw parameters


def kind_of(value: Any) -> str:
    """Return the JSON type of a value."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "object"


def types_in(schema: Any) -> "Types":
    """Return the JSON types that a JSON Schema allows, None if it does not say, or is none.

    >>> types_in({"anyOf": [{"type": "string"}, {"enum": [1]}]})
    ('integer', 'string')
    """
    if not isinstance(schema, dict):
        return None
    if "type" in schema:
        said = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        listed = isinstance(said, (list, tuple)) and all(isinstance(each, str) for each in said)
        return tuple(sorted(said)) if listed else None
    for union in ("anyOf", "oneOf"):
        if union in schema:
            types: list[str] = []
            if not isinstance(schema[union], (list, tuple)):
                return None
            for part in schema[union]:
                found = types_in(part)
                if found is None:
                    return None
                types += found
            return tuple(sorted(set(types)))
    if "const" in schema:
        return (kind_of(schema["const"]),)
    values = schema.get("enum")
    return (
        tuple(sorted({kind_of(e) for e in values})) if isinstance(values, (list, tuple)) else None
    )


def schemas_text(tool_schemas: Iterable[Any] | None) -> str:
    """Return a list of tools as JSON text, "" if there is none. JSON text stays as it is."""
    if isinstance(tool_schemas, str):
        return tool_schemas
    return json.dumps(list(tool_schemas)) if tool_schemas else ""


def parameter_types(tool_schemas: Iterable[Any] | None) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the types of parameters, by the name of the tool and that of the parameter, from a
    list of tools as OpenAI's API takes it, or its JSON text. Parameters without a type in the
    schema are left out. Raises TypeError for anything else in the list.
    """
    if isinstance(tool_schemas, str):
        tool_schemas = json.loads(tool_schemas) if tool_schemas else ()
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for tool in tool_schemas or ():
        function: Any = tool.get("function", tool) if isinstance(tool, dict) else None
        parameters = function.get("parameters") or {} if isinstance(function, dict) else None
        properties = parameters.get("properties") or {} if isinstance(parameters, dict) else None
        if not isinstance(properties, dict):
            raise TypeError(
                'tool_schemas is a list of {"type": "function", "function": {…}}, each with '
                '"parameters" that are a JSON Schema, not of ' + repr(tool)[:60]
            )
        for key, schema in properties.items():
            types = types_in(schema)
            if types is not None:
                found.setdefault((function.get("name"), key), types)
    return found


def _has_constant(value: Any) -> bool:
    """Say whether a value has a number that JSON does not: NaN or Infinity."""
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, float) and each - each != 0:
            return True
        if isinstance(each, (dict, list)):
            todo += each.values() if isinstance(each, dict) else each
    return False


def json_kind(text: str) -> str:
    """Return the type of a JSON text, "" if the text is not JSON."""
    if text[:1] not in ("{", "[", '"', "-", "t", "f", "n") and not text[:1].isdigit():
        return ""
    try:
        value = json.loads(text)
    except (ValueError, RuntimeError):  # RuntimeError: nested too deep
        return ""
    if ("NaN" in text or "Infinity" in text) and _has_constant(value):
        return ""
    return kind_of(value)


WORDS = {"True": "true", "False": "false", "None": "null"}
STRING = ("string",)


def typed(raw: str, types: "Types") -> str:
    """Return the JSON text of a raw parameter whose end is known.

    >>> typed("12", None), typed("12", STRING), typed("Paris", None)
    ('12', '"12"', '"Paris"')
    """
    if types == STRING:
        return quoted(raw)
    text = raw.strip()
    kind = json_kind(text)
    if types and "string" in types:
        fits = kind != "string" and (kind in types or (kind == "integer" and "number" in types))
        return text if kind and fits else quoted(raw)
    if kind:
        return text
    if types and ("null" if text == "None" else "boolean") in types and text in WORDS:
        return WORDS[text]
    return quoted(raw)
