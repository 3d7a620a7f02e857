"""`binascii` for MicroPython, whose own reads base64 from bytes only."""

from ubinascii import *  # noqa: F403 - the "u" asks for the built-in module
from ubinascii import a2b_base64 as _a2b_base64


def a2b_base64(data):
    """Return the bytes that base64 text stands for."""
    return _a2b_base64(data.encode() if isinstance(data, str) else data)
