"""`json` for MicroPython, whose own reads an escaped surrogate pair as two halves of a character.

Half a pair alone is a ValueError here: MicroPython's strings are UTF-8, and have no place for it.
"""

from ujson import dumps as _dumps, loads as _loads  # noqa: I001 - "u" asks for the built-in module


def dumps(value, separators=(", ", ": "), ensure_ascii=True):
    """Return a value as JSON. `ensure_ascii` has no effect: MicroPython escapes no letter."""
    return _dumps(value, separators=separators)


def loads(text):
    """Return the value of a JSON text."""
    return _loads(_joined(text) if "\\ud" in text or "\\uD" in text else text)


def _joined(text):
    out = []
    for part in text.split("\\\\"):  # between two escaped backslashes a backslash begins an escape
        escapes = part.split("\\u")
        joined = [escapes[0]]
        high = 0
        for escape in escapes[1:]:
            code = int(escape[:4], 16)
            if (0xDC00 <= code < 0xE000) != bool(high):
                raise ValueError("half a surrogate pair")
            if high:
                joined.append(chr(0x10000 + ((high - 0xD800) << 10) + code - 0xDC00) + escape[4:])
                high = 0
            elif 0xD800 <= code < 0xDC00 and len(escape) == 4:
                high = code
            elif 0xD800 <= code < 0xDC00:
                raise ValueError("half a surrogate pair")
            else:
                joined.append("\\u" + escape)
        if high:
            raise ValueError("half a surrogate pair")
        out.append("".join(joined))
    return "\\\\".join(out)
