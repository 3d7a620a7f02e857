r"""Sets of characters by their Unicode properties: what `\p{L}` and its kin mean in the patterns of tokenizer files.

In: the name of a property. Out: a sorted tuple of `(first, last)` code points, inclusive; the algebra of such sets; the text of
a `re` character class. The categories come from `unicodedata`, scanned once a process (about 20 ms) and only when asked for.

The tables are those of Unicode 16.0 on every Python: 3.11 knows 14.0, so what 15.0 to 16.0 added below is filled in where this
Python's `unicodedata` says "unassigned" (10,301 characters, 127 ranges), and Python 3.14 already has it. 16.0 is what the regex engine of
Hugging Face `tokenizers` 0.23 uses, so both split the same text in the same places.
"""

import unicodedata
from bisect import bisect_right
from itertools import groupby
from typing import Iterable

from detok_py.errors import TokenizerFormatError

Ranges = tuple[tuple[int, int], ...]

MAX_CODE_POINT = 0x10FFFF

# Assigned in Unicode 15.0, 15.1 and 16.0: category, first, last. (1171E changed from Mn to Mc in 16.0.)
_SINCE_UNICODE_14 = (
    "Mn897 McCF3 MnECE Po1B4E-1B4F Po1B7F Lu1C89 Ll1C8A So2427-2429 So2FFC-2FFF So31E4-31E5 So31EF LuA7CB-A7CC LlA7CD LuA7DA "
    "LlA7DB LuA7DC Lo105C0-105F3 Nd10D40-10D49 Lo10D4A-10D4D Lm10D4E Lo10D4F Lu10D50-10D65 Mn10D69-10D6D Pd10D6E Lm10D6F "
    "Ll10D70-10D85 Sm10D8E-10D8F Lo10EC2-10EC4 Mn10EFC-10EFF Lo1123F-11240 Mn11241 Lo11380-11389 Lo1138B Lo1138E Lo11390-113B5 "
    "Lo113B7 Mc113B8-113BA Mn113BB-113C0 Mc113C2 Mc113C5 Mc113C7-113CA Mc113CC-113CD Mn113CE Mc113CF Mn113D0 Lo113D1 Mn113D2 "
    "Lo113D3 Po113D4-113D5 Po113D7-113D8 Mn113E1-113E2 Nd116D0-116E3 Mc1171E Po11B00-11B09 Lo11BC0-11BE0 Po11BE1 Nd11BF0-11BF9 "
    "Mn11F00-11F01 Lo11F02 Mc11F03 Lo11F04-11F10 Lo11F12-11F33 Mc11F34-11F35 Mn11F36-11F3A Mc11F3E-11F3F Mn11F40 Mc11F41 Mn11F42 "
    "Po11F43-11F4F Nd11F50-11F59 Mn11F5A Lo1342F Cf13439-1343F Mn13440 Lo13441-13446 Mn13447-13455 Lo13460-143FA Lo16100-1611D "
    "Mn1611E-16129 Mc1612A-1612C Mn1612D-1612F Nd16130-16139 Lm16D40-16D42 Lo16D43-16D6A Lm16D6B-16D6C Po16D6D-16D6F "
    "Nd16D70-16D79 Lo18CFF Lo1B132 Lo1B155 So1CC00-1CCEF Nd1CCF0-1CCF9 So1CD00-1CEB3 No1D2C0-1D2D3 Ll1DF25-1DF2A Lm1E030-1E06D "
    "Mn1E08F Lo1E4D0-1E4EA Lm1E4EB Mn1E4EC-1E4EF Nd1E4F0-1E4F9 Lo1E5D0-1E5ED Mn1E5EE-1E5EF Lo1E5F0 Nd1E5F1-1E5FA Po1E5FF So1F6DC "
    "So1F774-1F776 So1F77B-1F77F So1F7D9 So1F8B2-1F8BB So1F8C0-1F8C1 So1FA75-1FA77 So1FA87-1FA89 So1FA8F So1FAAD-1FAAF "
    "So1FABB-1FABF So1FAC6 So1FACE-1FACF So1FADA-1FADC So1FADF So1FAE8-1FAE9 So1FAF7-1FAF8 So1FBCB-1FBEF Lo2B739 Lo2EBF0-2EE5D "
    "Lo31350-323AF"
)

# Everything assigned lies below 323B0, in E0000..E01EF, or is private use or a surrogate: the rest needs no scan.
_SCANNED = (range(0xD800), range(0xE000, 0x323B0), range(0xE0000, 0xE01F0))
_GIVEN = (("Cs", 0xD800, 0xDFFF), ("Cn", 0x323B0, 0xDFFFF), ("Cn", 0xE01F0, 0xEFFFF),
          ("Co", 0xF0000, 0xFFFFD), ("Cn", 0xFFFFE, 0xFFFFF), ("Co", 0x100000, 0x10FFFD), ("Cn", 0x10FFFE, 0x10FFFF))

_LONG_NAMES = {
    "letter": "L", "uppercaseletter": "Lu", "lowercaseletter": "Ll", "titlecaseletter": "Lt", "modifierletter": "Lm",
    "otherletter": "Lo", "mark": "M", "combiningmark": "M", "nonspacingmark": "Mn", "spacingmark": "Mc", "enclosingmark": "Me",
    "number": "N", "decimalnumber": "Nd", "letternumber": "Nl", "othernumber": "No", "punctuation": "P",
    "connectorpunctuation": "Pc", "dashpunctuation": "Pd", "openpunctuation": "Ps", "closepunctuation": "Pe",
    "initialpunctuation": "Pi", "finalpunctuation": "Pf", "otherpunctuation": "Po", "symbol": "S", "mathsymbol": "Sm",
    "currencysymbol": "Sc", "modifiersymbol": "Sk", "othersymbol": "So", "separator": "Z", "spaceseparator": "Zs",
    "lineseparator": "Zl", "paragraphseparator": "Zp", "other": "C", "control": "Cc", "format": "Cf", "surrogate": "Cs",
    "privateuse": "Co", "unassigned": "Cn",
}  # fmt: skip


def parse(text: str) -> Ranges:
    """Read ranges written in hexadecimal, as the tables of this package write them.

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

_cache: dict[str, Ranges] = {}


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Return what is in any of the sets.

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
    """Return every code point that is not in the set.

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
    """Return what is in both sets.

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
    """Return what is in the first set and not in the second.

    >>> difference(((0, 9),), ((5, 20),))
    ((0, 4),)
    """
    return intersection(left, complement(right))


def contains(ranges: Ranges, code_point: int) -> bool:
    """Say whether the set has this code point.

    >>> contains(((65, 90),), 66), contains(((65, 90),), 97)
    (True, False)
    """
    at = bisect_right(ranges, (code_point, MAX_CODE_POINT + 1)) - 1
    return at >= 0 and code_point <= ranges[at][1]


def class_text(ranges: Ranges) -> str:
    """Write the set as `re` source: `[…]`, whichever of it and its complement is shorter; nothing matches an empty set.

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
        f"\\U{first:08x}" if first == last else f"\\U{first:08x}-\\U{last:08x}" for first, last in (other if negated else ranges)
    )
    return ("[^" if negated else "[") + items + "]"


def category(name: str) -> Ranges:
    """Return a general category (`"Lu"`) or a group of them (`"L"`); KeyError for anything else.

    >>> contains(category("Lu"), ord("É")), contains(category("N"), ord("½"))
    (True, True)
    """
    if not _cache:
        _scan()
    return _cache[name]


def named(name: str) -> Ranges:
    r"""Return the set of `\p{name}`: categories by short or long name, Alphabetic, White_Space, the POSIX classes, scripts.

    Spaces, `_`, `-` and case don't count (Unicode TS 18, 1.2). Raises TokenizerFormatError for a property that isn't here.

    >>> named("Uppercase_Letter") == category("Lu") == named("lu")
    True
    """
    # Here, because that table is written with this module's ranges.
    from detok_py.tokenizers.unicode_scripts import alphabetic_marks, script

    key = "".join(name.split()).replace("_", "").replace("-", "").lower()
    short = _LONG_NAMES.get(key, key[:1].upper() + key[1:])
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
        return union(category("L"), category("Nl"), alphabetic_marks(category("M")), _OTHER_ALPHABETIC_SYMBOLS)
    if key == "digit":
        return category("Nd")
    if key == "alnum":
        return union(named("alpha"), category("Nd"))
    if key in ("punct", "posixpunct"):
        return union(category("P"), category("S"))
    if key == "upper" or key == "uppercase":
        return union(category("Lu"), parse("2160-216F 24B6-24CF 1F130-1F149 1F150-1F169 1F170-1F189"))
    if key == "xdigit":
        return parse("30-39 41-46 61-66")
    if key == "ascii":
        return ((0, 127),)
    if key == "blank":
        return union(category("Zs"), ((9, 9),))
    if key == "cntrl":
        return category("Cc")
    if key == "word":
        # Oniguruma counts the numbers of Latin-1 (² ³ ¹ ¼ ½ ¾) in, and no others that aren't digits or letters.
        return union(word(), parse("B2-B3 B9 BC-BE"))
    found = script(key)
    if found is None:
        raise TokenizerFormatError(
            f"the Unicode property \\p{{{name}}} is not supported; supported: general categories, scripts, Alphabetic, White_Space"
        )
    return found


def rust_word() -> Ranges:
    r"""Return `\w` as Rust's `regex` reads it (UTS 18 annex C): alphabetic, marks, decimal digits, connectors, joiners.

    >>> contains(rust_word(), ord("½")), contains(rust_word(), 0x200D)
    (False, True)
    """
    return union(word(), parse("200C-200D"))


def word() -> Ranges:
    r"""Return `\w` as Oniguruma reads it in a class: letters, marks, decimal digits, letter numbers, connectors, circled letters."""
    return union(category("L"), category("M"), category("Nd"), category("Nl"), category("Pc"), _OTHER_ALPHABETIC_SYMBOLS)


def _scan() -> None:
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
    if unicodedata.category("\u0897") == "Cn":  # a mark of Unicode 16.0: this Python's tables are older
        later = {name: parse(" ".join(text)) for name, text in _by_category(_SINCE_UNICODE_14).items()}
        touched = union(*later.values())
        found = {name: difference(ranges, touched) for name, ranges in found.items()}
        for name, ranges in later.items():
            found[name] = union(found[name], ranges)
    for name in "LMNPSZC":
        found[name] = union(*[ranges for key, ranges in found.items() if key[0] == name and len(key) == 2])
    _cache.update(found)


def _by_category(text: str) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for item in text.split():
        out.setdefault(item[:2], []).append(item[2:])
    return out
