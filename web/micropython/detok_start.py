"""Import this before detok_py in MicroPython: built-in names that it lacks, and one difference of its classes.

A class there can have one built-in base at most, and detok's errors have two (`VocabularyError` is a DetokError and a ValueError). While
detok_py.errors is imported the second ones are empty classes: `except DetokError` and its subclasses work as everywhere,
`except ValueError` does not see them.
"""

import builtins
import os

import js


def _urandom(size):
    """Return random bytes from the page's generator; MicroPython for WebAssembly has none of its own."""
    numbers = js.Uint8Array.new(size)
    js.crypto.getRandomValues(numbers)
    return bytes([numbers[i] for i in range(size)])


if not hasattr(os, "urandom"):
    os.urandom = _urandom


class _NoBase:
    pass


for _name, _kin in (
    ("UnicodeDecodeError", UnicodeError),
    ("UnicodeEncodeError", UnicodeError),
    ("RecursionError", RuntimeError),
    ("ModuleNotFoundError", ImportError),
):
    if not hasattr(builtins, _name):
        setattr(builtins, _name, _kin)

_natives = ("ValueError", "RuntimeError", "LookupError", "TypeError", "OSError")
for _name in _natives:
    setattr(builtins, _name, _NoBase)
try:
    import detok_py.errors  # noqa: F401
finally:
    for _name in _natives:
        delattr(builtins, _name)

# `from . import wire` asks the package's `__getattr__` first there, so what is imported that way has to be in place before.
import detok_py.wire  # noqa: E402
import detok_py.session  # noqa: E402, F401, I001
