"""Import this before detok_py in MicroPython: built-in names that it lacks, and one difference of
its classes.

A class there can have one built-in base at most, and detok's errors have two (`VocabularyError` is
a DetokError and a ValueError). While detok_py.errors is imported the second ones are empty classes:
`except DetokError` and its subclasses work as everywhere, `except ValueError` does not see them.
"""

import builtins
import gc
import os

import js

# Memory is swept when so much of it has been taken, at the end of the call that took it. As built
# that is 16 kB, a few calls, and a sweep costs more than they do.
gc.threshold(1 << 20)


def _urandom(size):
    """Return random bytes from the page's generator; MicroPython for WebAssembly has none of its
    own.
    """
    numbers = js.Uint8Array.new(size)
    js.crypto.getRandomValues(numbers)
    return bytes([numbers[i] for i in range(size)])


if not hasattr(os, "urandom"):
    os.urandom = _urandom


class _NoBase:
    pass


class UnicodeDecodeError(UnicodeError):
    """What CPython's is: it knows which bytes were wrong, and says so in the same words."""

    def __init__(self, encoding, data, start, end, reason):
        where = (
            f"byte 0x{data[start]:02x} in position {start}"
            if end == start + 1
            else f"bytes in position {start}-{end - 1}"
        )
        super().__init__(f"'{encoding}' codec can't decode {where}: {reason}")
        self.encoding = encoding
        self.object = data
        self.start = start
        self.end = end
        self.reason = reason


builtins.UnicodeDecodeError = UnicodeDecodeError

for _name, _kin in (
    ("UnicodeEncodeError", UnicodeError),
    ("RecursionError", RuntimeError),
    ("ModuleNotFoundError", ImportError),
):
    if not hasattr(builtins, _name):
        setattr(builtins, _name, _kin)

_repr = repr


def _told(value):
    """Return `repr(value)` as CPython has it, where a character that can be printed stands for
    itself.
    """
    text = _repr(value)
    at = text.find("\\")
    if at < 0:
        return text
    out = []
    begin = 0
    while 0 <= at < len(text) - 1:
        size = {"x": 2, "u": 4, "U": 8}.get(text[at + 1], 0)
        if size:
            code = int(text[at + 2 : at + 2 + size], 16)
            if _is_printed(code):
                out += [text[begin:at], chr(code)]
                begin = at + 2 + size
        at = text.find("\\", at + 2 + size)
    return "".join(out) + text[begin:]


def _is_printed(code):
    """Say whether CPython would print a character beyond ASCII: all but controls, formats, spaces
    and private use, by block.
    """
    return all(not first <= code <= last for first, last in _UNPRINTED)


_UNPRINTED = (
    (0, 0xA0), (0xAD, 0xAD), (0x61C, 0x61C), (0x180E, 0x180E), (0x2000, 0x200F), (0x2028, 0x202F), (0x205F, 0x206F), (0x3000, 0x3000),
    (0xD800, 0xF8FF), (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFB), (0xFFFE, 0xFFFF), (0xE0000, 0x10FFFF),
)  # fmt: skip
builtins.repr = _told

_natives = ("ValueError", "RuntimeError", "LookupError", "TypeError", "OSError")
for _name in _natives:
    setattr(builtins, _name, _NoBase)
try:
    import detok_py.errors  # noqa: F401
finally:
    for _name in _natives:
        delattr(builtins, _name)
