r"""Sets of characters by their Unicode properties: what `\p{L}` and other classes mean in the
patterns of tokenizer files.

In: the name of a property. Out: a sorted tuple of `(first, last)` code points, both inclusive. Also
here: union, intersection and difference of such sets, and a set as the text of a `re` character
class. The categories come from `unicodedata`. They are scanned once per process (about 20 ms), at
the first use.

The sets are those of Unicode 16.0 in every Python version. Python 3.11 has Unicode 14.0: there, the
characters that 15.0 to 16.0 added (10,301 characters in 127 ranges) are added to its categories.
Python 3.14 has them already. Hugging Face's `tokenizers` 0.23 uses the tables of 16.0 too, so both
split a text at the same places.
"""

import unicodedata
from bisect import bisect_right
from itertools import groupby
from typing import Iterable

from ..errors import TokenizerFormatError
from . import unicode_tables as tables

Ranges = tuple[tuple[int, int], ...]

MAX_CODE_POINT = 0x10FFFF

# Only these ranges are scanned. `_GIVEN` has the rest: surrogates, private use, and code points
# that are not assigned.
_SCANNED = (range(0xD800), range(0xE000, 0x323B0), range(0xE0000, 0xE01F0))
_GIVEN = (
    ("Cs", 0xD800, 0xDFFF),
    ("Cn", 0x323B0, 0xDFFFF),
    ("Cn", 0xE01F0, 0xEFFFF),
    ("Co", 0xF0000, 0xFFFFD),
    ("Cn", 0xFFFFE, 0xFFFFF),
    ("Co", 0x100000, 0x10FFFD),
    ("Cn", 0x10FFFE, 0x10FFFF),
)


def parse(text: str) -> Ranges:
    """Return the set that a text of hexadecimal ranges describes.

    >>> parse("41-5A 5F")
    ((65, 90), (95, 95))
    """
    out = []
    for item in text.split():
        first, _, last = item.partition("-")
        out.append((int(first, 16), int(last or first, 16)))
    return tuple(out)


WHITE_SPACE = parse("9-D 20 85 A0 1680 2000-200A 2028-2029 202F 205F 3000")
EVERYTHING: Ranges = ((0, MAX_CODE_POINT),)
ASCII_PUNCTUATION = parse("21-2F 3A-40 5B-60 7B-7E")
# Alphabetic beyond letters, letter numbers and marks: the circled and squared Latin letters.
_OTHER_ALPHABETIC_SYMBOLS = parse("24B6-24E9 1F130-1F149 1F150-1F169 1F170-1F189")

_categories: dict[str, Ranges] = {}
_scripts: dict[str, Ranges] = {}


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Return the code points that are in any of the sets.

    >>> union([(1, 3)], [(2, 5), (9, 9)])
    ((1, 5), (9, 9))
    """
    out: list[tuple[int, int]] = []
    for first, last in sorted(pair for one in sets for pair in one):
        if out and first <= out[-1][1] + 1:
            if last > out[-1][1]:
                out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return tuple(out)


def complement(ranges: Ranges) -> Ranges:
    """Return the code points that are not in the set.

    >>> complement(((0, 64), (91, 0x10FFFF)))
    ((65, 90),)
    """
    out = []
    start = 0
    for first, last in ranges:
        if first > start:
            out.append((start, first - 1))
        start = last + 1
    if start <= MAX_CODE_POINT:
        out.append((start, MAX_CODE_POINT))
    return tuple(out)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """Return the code points that are in both sets.

    >>> intersection(((0, 9),), ((5, 20),))
    ((5, 9),)
    """
    out = []
    i = j = 0
    while i < len(left) and j < len(right):
        first, last = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if first <= last:
            out.append((first, last))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


def difference(left: Ranges, right: Ranges) -> Ranges:
    """Return the code points that are in the first set and not in the second.

    >>> difference(((0, 9),), ((5, 20),))
    ((0, 4),)
    """
    return intersection(left, complement(right))


def contains(ranges: Ranges, code_point: int) -> bool:
    """Return whether the set has this code point.

    >>> contains(((65, 90),), 66), contains(((65, 90),), 97)
    (True, False)
    """
    at = bisect_right(ranges, (code_point, MAX_CODE_POINT + 1)) - 1
    return at >= 0 and code_point <= ranges[at][1]


def class_text(ranges: Ranges) -> str:
    """Return the set as a `re` character class, negated where that is shorter.

    For an empty set it is a pattern that never matches.

    >>> class_text(((65, 90), (95, 95)))
    '[\\\\U00000041-\\\\U0000005a\\\\U0000005f]'
    """
    if not ranges:
        return "(?!)"
    other = complement(ranges)
    negated = len(other) < len(ranges)
    if negated and not other:
        return "[\\s\\S]"
    items = "".join(
        f"\\U{first:08x}" if first == last else f"\\U{first:08x}-\\U{last:08x}"
        for first, last in (other if negated else ranges)
    )
    return ("[^" if negated else "[") + items + "]"


def category(name: str) -> Ranges:
    """Return a general category (`"Lu"`) or a group of categories (`"L"`).

    Raises KeyError for any other name.

    >>> contains(category("Lu"), ord("É")), contains(category("N"), ord("½"))
    (True, True)
    """
    if not _categories:
        _scan_categories()
    return _categories[name]


def named(name: str) -> Ranges:
    r"""Return the set of `\p{name}`.

    The name is that of a category (short or long), a script, a POSIX class, Alphabetic or
    White_Space. Spaces, `_`, `-` and case are ignored (UTS 18, 1.2). Raises TokenizerFormatError
    for any other property.

    >>> named("Uppercase_Letter") == category("Lu") == named("lu")
    True
    """
    key = "".join(name.split()).replace("_", "").replace("-", "").lower()
    short = tables.LONG_NAMES.get(key, key[:1].upper() + key[1:])
    if len(short) <= 2:
        try:
            return category(short)
        except KeyError:
            pass
    if key in ("whitespace", "space"):
        return WHITE_SPACE
    if key == "any":
        return EVERYTHING
    if key == "assigned":
        return complement(category("Cn"))
    if key in ("alphabetic", "alpha"):
        return union(
            category("L"),
            category("Nl"),
            difference(category("M"), parse(tables.NOT_ALPHABETIC)),
            _OTHER_ALPHABETIC_SYMBOLS,
        )
    if key == "digit":
        return category("Nd")
    if key == "alnum":
        return union(named("alpha"), category("Nd"))
    if key in ("punct", "posixpunct"):
        return union(category("P"), category("S"))
    if key == "upper" or key == "uppercase":
        return union(
            category("Lu"), parse("2160-216F 24B6-24CF 1F130-1F149 1F150-1F169 1F170-1F189")
        )
    if key == "xdigit":
        return parse("30-39 41-46 61-66")
    if key == "ascii":
        return ((0, 127),)
    if key == "blank":
        return union(category("Zs"), ((9, 9),))
    if key == "cntrl":
        return category("Cc")
    if key == "word":
        # Oniguruma's class [[:word:]] has ² ³ ¹ ¼ ½ ¾ besides what its \w has.
        return union(word(), parse("B2-B3 B9 BC-BE"))
    found = script(key)
    if found is None:
        raise TokenizerFormatError(
            f"the Unicode property \\p{{{name}}} is not supported; supported: general categories, scripts, Alphabetic, White_Space"
        )
    return found


def script_names() -> list[str]:
    """Return the names of all scripts, in lower case and without underscores.

    >>> "han" in script_names(), len(script_names())
    (True, 170)
    """
    if not _scripts:
        found = {}
        for entry in tables.SCRIPTS.split(";"):
            name, _, ranges = entry.strip().partition(" ")
            found[name.replace("_", "").lower()] = _parse_distances(ranges)
        _scripts.update(found)  # at once, for other threads
    return list(_scripts)


def script(name: str) -> Ranges | None:
    """Return the characters of a script, or None if there is no script of that name.

    >>> script("hiragana")[0] == (0x3041, 0x3096), script("klingon")
    (True, None)
    """
    script_names()
    return _scripts.get(tables.SCRIPT_CODES.get(name, name))


def _parse_distances(text: str) -> Ranges:
    out, at = [], 0
    for item in text.split():
        gap, _, more = item.partition("-")
        first = at + int(gap, 16)
        at = first + int(more or "0", 16)
        out.append((first, at))
    return tuple(out)


def since_unicode_9() -> Ranges:
    """Return the characters that were assigned after Unicode 9.0.

    The ranges include code points between them that are still unassigned.

    >>> contains(since_unicode_9(), 0x1C89), contains(since_unicode_9(), 0x41)
    (True, False)
    """
    return parse(tables.SINCE_9)


def since_unicode_8() -> Ranges:
    """Return `since_unicode_9()` and the punctuation, nonspacing marks and format characters that
    Unicode 9.0 added.
    """
    return union(parse(tables.SINCE_9), parse(tables.IN_9))


def rust_word() -> Ranges:
    r"""Return `\w` as Rust's `regex` defines it (UTS 18, annex C): alphabetic characters, marks,
    decimal digits, connectors and joiners.

    >>> contains(rust_word(), ord("½")), contains(rust_word(), 0x200D)
    (False, True)
    """
    return union(word(), parse("200C-200D"))


def word() -> Ranges:
    r"""Return `\w` as Oniguruma defines it: letters, marks, decimal digits, letter numbers,
    connectors and circled letters.
    """
    return union(
        category("L"),
        category("M"),
        category("Nd"),
        category("Nl"),
        category("Pc"),
        _OTHER_ALPHABETIC_SYMBOLS,
    )


def _scan_categories() -> None:
    runs: dict[str, list[tuple[int, int]]] = {}
    for span in _SCANNED:
        at = span.start
        for name, run in groupby(map(unicodedata.category, map(chr, span))):
            length = sum(1 for _ in run)
            runs.setdefault(name, []).append((at, at + length - 1))
            at += length
    for name, first, last in _GIVEN:
        runs.setdefault(name, []).append((first, last))
    found = {name: union(pairs) for name, pairs in runs.items()}
    # U+0897 was assigned in Unicode 16.0. If it is unassigned here, the tables of this Python are
    # older.
    if unicodedata.category("\u0897") == "Cn":
        later = {
            name: parse(" ".join(text)) for name, text in _by_category(tables.SINCE_14).items()
        }
        touched = union(*later.values())
        found = {name: difference(ranges, touched) for name, ranges in found.items()}
        for name, ranges in later.items():
            found[name] = union(found[name], ranges)
    for name in "LMNPSZC":
        found[name] = union(
            *[ranges for key, ranges in found.items() if key[0] == name and len(key) == 2]
        )
    _categories.update(found)


def _by_category(text: str) -> dict[str, list[str]]:
    """Return the ranges of each category, from items like "Mn10D69-10D6D"."""
    out: dict[str, list[str]] = {}
    for item in text.split():
        out.setdefault(item[:2], []).append(item[2:])
    return out
