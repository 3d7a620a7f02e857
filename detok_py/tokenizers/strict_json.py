"""Parse JSON from an untrusted file.

In: the bytes of a JSON document. Out: the value, or a TokenizerFormatError that locates the fault.

The grammar is RFC 8259: NaN and Infinity, which Python's json accepts, are refused unless they are
asked for, and so is invalid UTF-8. The structure of a document is checked before it is parsed:
nesting of a few thousand levels crashes an interpreter in WebAssembly, and parsing `[[],[],…` takes
20 times its size in memory. A tokenizer file is mostly strings, so a document with many more
brackets or commas than strings is refused.
"""

import json
from itertools import accumulate
from typing import Any, BinaryIO, NoReturn

from ..errors import TokenizerFormatError

MAX_DEPTH = 64
MAX_BYTES = 1 << 28
# Brackets and commas allowed beyond those in proportion to the strings, for lists of numbers and
# empty containers.
SLACK = 4096

_STRUCTURE = bytes(set(range(256)) - set(b'[]{}",'))
_LEVEL = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def read_all(file: BinaryIO, what: str) -> bytes:
    """Return the bytes of a seekable file.

    Raises TokenizerFormatError, before reading, if the file has more than `MAX_BYTES` bytes.
    """
    size = file.seek(0, 2)
    file.seek(0)
    if size > MAX_BYTES:
        raise TokenizerFormatError(f"{what} has {size} bytes; at most {MAX_BYTES} are allowed")
    return file.read()


def as_text(data: bytes, what: str) -> str:
    """Return the text of a file. Raises TokenizerFormatError if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise TokenizerFormatError(
            f"{what} is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}; save it as UTF-8"
        ) from None


def loads(data: bytes, what: str, constants: bool = False) -> Any:
    """Return the value of a JSON document; errors call it `what`. `constants` admits NaN and
    Infinity, which Python writes into config.json.

    >>> loads(b'{"a": [1, 2]}', "x.json")
    {'a': [1, 2]}
    >>> loads(b'{"a": NaN}', "x.json")
    Traceback (most recent call last):
    detok_py.errors.TokenizerFormatError: x.json is not JSON: NaN is not a JSON number
    """
    check_structure(data, what)
    try:
        return json.loads(
            as_text(data, what),
            parse_float=rust_float,
            parse_constant=float if constants else lambda name: _refuse(name, what),
        )
    except TokenizerFormatError:
        raise
    except ValueError as error:  # JSONDecodeError, or an integer of too many digits
        raise TokenizerFormatError(f"{what} is not JSON: {error}; is the file complete?") from None
    # `check_structure` bounds the nesting; this is a second safeguard.
    except RecursionError:
        raise TokenizerFormatError(f"{what} is nested too deeply to be read") from None


# Parsed from decimals, because 10.0**k is off by one bit for some k.
_POWERS = [float(f"1e{k}") for k in range(309)]
_MAX_U64 = 2**64 - 1


def rust_float(text: str) -> float:
    """Return a number as serde_json parses it, which can be one bit off the nearest float.

    The digits are read as one integer, rounded, then scaled; digits beyond 64 bits are dropped
    (serde_json `de.rs`, `f64_from_parts`). Unigram sums scores, so one bit can decide between two
    ways to cut a word.

    >>> rust_float("-3.2001476287841797"), rust_float("7.038531e-26") == 7.038531e-26
    (-3.2001476287841797, False)
    """
    dot = text.find(".")
    if dot > 0 and len(text) < 20 and "e" not in text and "E" not in text:  # the common case
        return int(text[:dot] + text[dot + 1 :]) / _POWERS[len(text) - dot - 1]
    mantissa, _, power = text.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    written = (whole + fraction).lstrip("0")
    kept = written[:20] if int(written[:20] or 0) <= _MAX_U64 else written[:19]
    exponent = int(power or 0) - len(fraction) + len(written) - len(kept)
    number = float(int(kept or 0))
    while exponent < -308 and number:
        number /= 1e308
        exponent += 308
    if number and exponent > 308:
        number = float("inf")
    elif number:
        number = number * _POWERS[exponent] if exponent >= 0 else number / _POWERS[-exponent]
    return -number if text.startswith("-") else number


def check_structure(data: bytes, what: str) -> None:
    """Raise TokenizerFormatError if a document is too large, too deep or truncated.

    A document is also refused if it has too many brackets or commas for its strings. Nothing is
    parsed: the cost is a few passes over the bytes. Escaped quotes are removed first, so that every
    quote pairs with the next one and the brackets outside strings are counted exactly.

    >>> check_structure(b'{"a": [1, 2', "x.json")
    Traceback (most recent call last):
    detok_py.errors.TokenizerFormatError: x.json is not JSON: a bracket is not closed; is the file
    complete?
    """
    if len(data) > MAX_BYTES:
        raise TokenizerFormatError(f"{what} has {len(data)} bytes; at most {MAX_BYTES} are allowed")
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    # Two adjacent quotes (an empty string, or the end of one and the start of the next) can be
    # removed without changing how the others pair.
    marks = bare.translate(None, _STRUCTURE)
    quotes = marks.count(b'"')
    strings = quotes // 2
    if b'"' in marks:
        marks = marks.replace(b'""', b"")
        marks = b"".join(marks.split(b'"')[::2])
    if (
        marks.count(b",") > 2 * strings + SLACK
        or marks.count(b"[") + marks.count(b"{") > strings + SLACK
    ):
        raise TokenizerFormatError(
            f"{what} has too many values for its {strings} strings; is it a tokenizer file?"
        )
    marks = marks.translate(None, b",")
    # `replace` removes the innermost levels fast; the rest is counted.
    for _ in range(4):
        marks = marks.replace(b"[]", b"").replace(b"{}", b"")
    depth = 0
    for start in range(0, len(marks), 1 << 16):
        levels = list(
            accumulate([_LEVEL[mark] for mark in marks[start : start + (1 << 16)]], initial=depth)
        )
        if max(levels) > MAX_DEPTH - 4:
            raise TokenizerFormatError(
                f"{what} is nested more than {MAX_DEPTH} levels deep; is it a tokenizer file?"
            )
        depth = levels[-1]
    if depth or quotes % 2:
        # Reported here to save parsing a truncated file.
        raise TokenizerFormatError(
            f"{what} is not JSON: {'a string' if quotes % 2 else 'a bracket'} is not closed; is the file complete?"
        )


def _refuse(name: str, what: str) -> NoReturn:
    raise TokenizerFormatError(f"{what} is not JSON: {name} is not a JSON number")
