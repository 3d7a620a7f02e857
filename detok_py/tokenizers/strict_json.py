"""JSON from a file that nobody vouches for.

In: the bytes of a JSON document. Out: the value, or a TokenizerFormatError that says where it goes wrong.

RFC 8259, and no more: NaN and Infinity, which Python's json takes, are refused, and so are bytes that are not UTF-8. A document is
weighed before it is parsed, because parsing is what kills: nesting of a few thousand levels ends an interpreter in WebAssembly for
good, and `[[],[],…` takes 20 times its size in memory. What a tokenizer file holds is strings; a document whose brackets or commas
outnumber its strings is something else.
"""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from ..errors import TokenizerFormatError

MAX_DEPTH = 64
MAX_BYTES = 1 << 28
# Brackets and commas that a document may have beyond what its strings account for: short lists of numbers, empty containers.
SLACK = 4096

_STRUCTURE = bytes(set(range(256)) - set(b'[]{}",'))
_LEVEL = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def read_bytes(file: Path) -> bytes:
    """Return the bytes of a file; one that is larger than any tokenizer file raises TokenizerFormatError unread."""
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise TokenizerFormatError(f"{file.name} has {size} bytes; a tokenizer file has at most {MAX_BYTES}")
    return file.read_bytes()


def loads(data: bytes, what: str) -> Any:
    """Return the value of a JSON document; `what` is how an error names it.

    >>> loads(b'{"a": [1, 2]}', "x.json")
    {'a': [1, 2]}
    >>> loads(b'{"a": NaN}', "x.json")
    Traceback (most recent call last):
    detok_py.errors.TokenizerFormatError: x.json is not JSON: NaN is not a number that JSON has
    """
    weigh(data, what)
    try:
        return json.loads(data.decode(), parse_float=rust_float, parse_constant=lambda name: _refuse(name, what))
    except UnicodeDecodeError as error:
        raise TokenizerFormatError(
            f"{what} is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}; save it as UTF-8"
        ) from None
    except TokenizerFormatError:
        raise
    except ValueError as error:  # JSONDecodeError, and integers of more digits than Python reads
        raise TokenizerFormatError(f"{what} is not JSON: {error}; is the file whole?") from None
    except RecursionError:  # what `weigh` lets through of a document that breaks off does not reach this; better certain than sorry
        raise TokenizerFormatError(f"{what} is nested too deeply to be read") from None


# As literals, because 10.0**k is off by a bit for some k.
_POWERS = [float(f"1e{k}") for k in range(309)]
_MAX_U64 = 2**64 - 1


def rust_float(text: str) -> float:
    """Return a number as serde_json reads it, which may be off by a bit: the digits as one whole number, rounded, and then scaled.

    The scores of a Unigram are compared by their sums, so a bit decides between two ways to cut a word that are equally good. (serde_json
    `de.rs`, `f64_from_parts`; what doesn't fit in 64 bits of digits is dropped.)

    >>> rust_float("-3.2001476287841797"), rust_float("7.038531e-26") == 7.038531e-26
    (-3.2001476287841797, False)
    """
    dot = text.find(".")
    if dot > 0 and len(text) < 20 and "e" not in text and "E" not in text:  # nearly always, and quick
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


def weigh(data: bytes, what: str) -> None:
    """Raise TokenizerFormatError for a document that is too large, too deep, too much structure for its strings, or breaks off.

    Time and memory are a few passes over the bytes; nothing is parsed. Up to the place where a document stops being JSON, the count
    of its brackets is exact: escaped quotes are taken out first, then every quote pairs with the next.
    """
    if len(data) > MAX_BYTES:
        raise TokenizerFormatError(f"{what} has {len(data)} bytes; a tokenizer file has at most {MAX_BYTES}")
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    # Two neighbouring quotes, whether they end one string and begin the next or hold one string between them, change no pairing.
    marks = bare.translate(None, _STRUCTURE)
    quotes = marks.count(b'"')
    strings = quotes // 2
    if b'"' in marks:
        marks = marks.replace(b'""', b"")
        marks = b"".join(marks.split(b'"')[::2])
    if marks.count(b",") > 2 * strings + SLACK or marks.count(b"[") + marks.count(b"{") > strings + SLACK:
        raise TokenizerFormatError(f"{what} has too many values for its {strings} strings to be a tokenizer file")
    marks = marks.translate(None, b",")
    # A few levels fall away at the speed of `replace`; whatever is left is counted.
    for _ in range(4):
        marks = marks.replace(b"[]", b"").replace(b"{}", b"")
    depth = 0
    for start in range(0, len(marks), 1 << 16):
        levels = list(accumulate([_LEVEL[mark] for mark in marks[start : start + (1 << 16)]], initial=depth))
        if max(levels) > MAX_DEPTH - 4:
            raise TokenizerFormatError(f"{what} is nested more than {MAX_DEPTH} levels deep, which no tokenizer file is")
        depth = levels[-1]
    if depth or quotes % 2:
        # Said before parsing, because what was parsed of a file that breaks off is thrown away.
        raise TokenizerFormatError(f"{what} is not JSON: {'a string' if quotes % 2 else 'a bracket'} is not closed; is the file whole?")


def _refuse(name: str, what: str) -> NoReturn:
    raise TokenizerFormatError(f"{what} is not JSON: {name} is not a number that JSON has")
