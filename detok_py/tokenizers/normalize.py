"""Normalize text: the `normalizer` of a tokenizer.json.

In: a text. Out: the text in the form that the model was trained on, for example composed, in lower
case, without accents, or with spaces as `▁`. The rules are those of Hugging Face `tokenizers`
(normalizers/*.rs). Its Unicode tables are older than Python's; characters that they lack are left
unchanged, on every version of Python.
"""

import unicodedata
from base64 import b64decode
from binascii import Error as Base64Error
from functools import lru_cache, partial
from typing import Any, Callable, Literal

from ..errors import TokenizerFormatError
from ..patterns import unicode_classes as uc
from ..patterns.compiler import Pattern, compile_pattern
from .added import SPACES
from .charsmap import CharacterMap
from .pretokenize import byte_level, class_source, flag

Normalizer = Callable[[str], str]
_flag = partial(flag, part="normalizer")

MAX_DEPTH = 16

# Characters that newer Unicode versions decompose, compose or reorder, and that the crate
# unicode-normalization-alignments leaves unchanged. The ranges include unassigned characters.
_INERT = uc.parse(
    "558 58B-58C 5C8-5C9 7FD 897-89F 8CA-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1AF0 1DF6-1DFA 209D-209F 32FF A7F1-A7F4 A82C AB69 105C9 "
    "105D2 105DA 105E4 10781-107BF 10D24-10D27 10D69-10D6D 10EAB-10EAC 10ECB-10ECF 10EF0-10EFB 10EFD-10EFF 10F46-10F50 10F82-10F85 "
    "11070 1133B 11382-11385 1138B-11391 113C2-113C8 113CE-113D0 1145E 11839-1183A 11935 11938 1193D-1193E 11943 119E0 11A34 11A47 "
    "11A99 11D42 11D44-11D45 11D97 11F41-11F42 1611E 16121-16129 1612F 16D63 16D67-16D6A 16FF0-16FF1 1B123-1B126 1CCD6-1CCF9 "
    "1D127-1D128 1D250-1D252 1D25B-1D25C 1D25F 1D280-1D281 1D6A6 1DF95 1DFCD-1DFFF 1E030-1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF "
    "1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1F16C 1FBF0-1FBF9"
)

# Capitals since Unicode 15, which Rust knows and Python may not: first, last, distance to lower
# case.
_NEW_CAPITALS = (
    (0x1C89, 0x1C89, 1), (0xA7CB, 0xA7CB, 0x264 - 0xA7CB), (0xA7CC, 0xA7CC, 1), (0xA7CE, 0xA7CE, 1), (0xA7D2, 0xA7D2, 1),
    (0xA7D4, 0xA7D4, 1),
    (0xA7DA, 0xA7DA, 1), (0xA7DC, 0xA7DC, 0x19B - 0xA7DC), (0x10D50, 0x10D65, 32), (0x16EA0, 0x16EB8, 27),
)  # fmt: skip
_LOWER = {
    code_point: chr(code_point + step)
    for first, last, step in _NEW_CAPITALS
    for code_point in range(first, last + 1)
}

_CHINESE = uc.parse("3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F")


def compile_normalizer(config: dict[str, Any] | None) -> Normalizer:
    """Return the function that normalizes a text.

    Raises TokenizerFormatError, with the type, if the normalizer isn't supported.

    >>> compile_normalizer(
    ...     {
    ...         "type": "Sequence",
    ...         "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}],
    ...     }
    ... )("Été")
    'ete'
    >>> compile_normalizer(None)("Été")
    'Été'
    """
    return _compile(config, 0)


def precompiled(charsmap: bytes) -> Normalizer:
    """Return the normalizer of a SentencePiece `precompiled_charsmap`.

    A grapheme cluster of less
    than 6 bytes is replaced as a whole if a prefix of it is in the map; other characters are
    replaced one by one (as in the crate spm_precompiled). Raises TokenizerFormatError if the map is
    truncated.
    """
    return _ByClusters(charsmap)


def _compile(config: dict[str, Any] | None, depth: int) -> Normalizer:
    if config is None:
        return lambda text: text
    if not isinstance(config, dict) or depth > MAX_DEPTH:
        raise TokenizerFormatError(
            "the normalizer is not an object with a type, or is nested too deeply"
        )
    kind = config.get("type")
    if kind == "Sequence":
        parts = config.get("normalizers")
        if not isinstance(parts, list):
            raise TokenizerFormatError("a Sequence normalizer has no list of normalizers")
        return _chain([_compile(part, depth + 1) for part in parts])
    build = _KINDS.get(kind) if isinstance(kind, str) else None
    if build is None:
        raise TokenizerFormatError(
            f"the normalizer {kind!r:.60} is not supported; supported: {', '.join(_KINDS)}, Sequence"
        )
    return build(config)


def _chain(steps: list[Normalizer]) -> Normalizer:
    if len(steps) == 1:
        return steps[0]

    def normalize(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return normalize


def _text(config: dict[str, Any], name: str) -> str:
    value = config.get(name)
    if not isinstance(value, str):
        raise TokenizerFormatError(
            f"the {config.get('type')} normalizer's {name!r} is {value!r:.60}; expected a string"
        )
    return value


def _substitute(pattern: Pattern, content: str) -> Normalizer:
    def normalize(text: str) -> str:
        out: list[str] = []
        at = 0
        # In an empty text not even an empty pattern matches.
        for begin, end in pattern.spans(text) if text else ():
            out.append(text[at:begin])
            at = end
        return content.join([*out, text[at:]]) if out else text

    return normalize


# ------------------------------------------------------------------------------ Unicode's own forms


Form = Literal["NFC", "NFD", "NFKC", "NFKD"]


def _form(form: Form) -> Callable[[dict[str, Any]], Normalizer]:
    return lambda config: partial(unicode_form, form)


def unicode_form(form: Form, text: str) -> str:
    """Return the text in NFC, NFD, NFKC or NFKD (UAX #15), by Hugging Face's Unicode tables.

    >>> unicode_form("NFC", "e" + chr(0x301)) == chr(0xE9)
    True
    """
    if text.isascii():
        return text
    out = []
    at = 0
    for begin, end in _inert().spans(text):
        out += [_normalized(form, text[at:begin]), text[begin:end]]
        at = end
    return "".join([*out, _normalized(form, text[at:])])


def _normalized(form: Form, text: str) -> str:
    # CPython sorts combining marks by insertion, which takes O(n²) for a run of n marks. Long runs
    # are sorted here first.
    out = []
    at = 0
    for begin, end in _mark_runs().spans(text):
        if end - begin > 64:
            marks = unicodedata.normalize(
                "NFKD" if "K" in form else "NFD",
                "".join(sorted(text[begin:end], key=unicodedata.combining)),
            )
            out += [text[at:begin], "".join(sorted(marks, key=unicodedata.combining))]
            at = end
    return unicodedata.normalize(form, "".join([*out, text[at:]]) if out else text)


@lru_cache(maxsize=1)
def _inert() -> Pattern:
    return compile_pattern(class_source(_INERT) + "+")


@lru_cache(maxsize=1)
def _mark_runs() -> Pattern:
    ordered = [
        (one, one)
        for first, last in uc.category("M")
        for one in range(first, last + 1)
        if unicodedata.combining(chr(one))
    ]
    return compile_pattern(class_source(uc.union(ordered)) + "{2,}")


# --------------------------------------------------------------------------------- case and accents


def lower(text: str) -> str:
    """Return the text in lower case, each character by itself: a final Σ becomes σ, not ς.

    >>> lower("ΟΔΟΣ"), "ΟΔΟΣ".lower()
    ('οδοσ', 'οδος')
    """
    if text.isascii():
        return text.lower()
    text = text.replace("Σ", "σ").lower()
    for begin, end in reversed(list(_new_capitals().spans(text))):
        text = text[:begin] + text[begin:end].translate(_LOWER) + text[end:]
    return text


@lru_cache(maxsize=1)
def _new_capitals() -> Pattern:
    return compile_pattern(class_source(uc.union([(one, one) for one in _LOWER])) + "+")


def _strip_accents(config: dict[str, Any]) -> Normalizer:
    # The marks of Unicode 9.0.
    marks = uc.union(
        uc.difference(uc.category("M"), uc.union(uc.since_unicode_9(), uc.parse("111C9"))),
        uc.parse("1CF2-1CF3"),
    )
    return _substitute(compile_pattern(class_source(marks) + "+"), "")


def _bert(config: dict[str, Any]) -> Normalizer:
    lowercase = _flag(config, "lowercase", True)
    strip_accents = config.get("strip_accents")
    if strip_accents is None:
        strip_accents = lowercase
    if not isinstance(strip_accents, bool):
        raise TokenizerFormatError(
            f"the BertNormalizer's 'strip_accents' is {strip_accents!r:.60}; expected true, false or null"
        )
    steps: list[Normalizer] = []
    if _flag(config, "clean_text", True):
        formats = uc.difference(uc.category("Cf"), uc.since_unicode_8())
        control = uc.difference(
            uc.union(uc.category("Cc"), formats, uc.category("Co"), uc.parse("FFFD")),
            uc.parse("9-A D"),
        )
        steps.append(_substitute(compile_pattern(class_source(control) + "+"), ""))
        spaces = compile_pattern(class_source(uc.difference(uc.WHITE_SPACE, ((32, 32),))))
        steps.append(_substitute(spaces, " "))
    if _flag(config, "handle_chinese_chars", True):
        steps.append(_put_spaces_around(compile_pattern(class_source(_CHINESE))))
    if strip_accents:
        # The nonspacing marks of Unicode 8.0.
        marks = uc.union(
            uc.difference(uc.category("Mn"), uc.union(uc.since_unicode_8(), uc.parse("111C9"))),
            uc.parse("1734 1171E"),
        )
        steps += [
            partial(unicode_form, "NFD"),
            _substitute(compile_pattern(class_source(marks) + "+"), ""),
        ]
    if lowercase:
        steps.append(lower)
    return _chain(steps)


def _put_spaces_around(pattern: Pattern) -> Normalizer:
    def normalize(text: str) -> str:
        out = []
        at = 0
        for begin, end in pattern.spans(text):
            out.append(f"{text[at:begin]} {text[begin:end]} ")
            at = end
        return "".join([*out, text[at:]]) if out else text

    return normalize


# ---------------------------------------------------------------------------------------- replacing


def _replace(config: dict[str, Any]) -> Normalizer:
    content = _text(config, "content")
    pattern = config.get("pattern")
    if isinstance(pattern, dict) and len(pattern) == 1:
        kind, source = next(iter(pattern.items()))
        if kind == "String" and isinstance(source, str) and source:
            return lambda text: text.replace(source, content)
        if kind in ("Regex", "String") and isinstance(source, str):
            return _substitute(compile_pattern(source), content)
    raise TokenizerFormatError(
        f"the pattern of a Replace normalizer is {pattern!r:.80}; expected {{'Regex': …}} or {{'String': …}}"
    )


def _prepend(config: dict[str, Any]) -> Normalizer:
    prefix = _text(config, "prepend")
    return lambda text: prefix + text if text else text


def _strip(config: dict[str, Any]) -> Normalizer:
    left, right = _flag(config, "strip_left", True), _flag(config, "strip_right", True)

    def normalize(text: str) -> str:
        if left:
            text = text.lstrip(SPACES)
        return text.rstrip(SPACES) if right else text

    return normalize


def _nmt(config: dict[str, Any]) -> Normalizer:
    removed = compile_pattern(class_source(uc.parse("1-8 B E-1F 7F 8F 9F")) + "+")
    spaces = compile_pattern(
        class_source(uc.parse("9-A C-D 1680 200B-200F 2028-2029 2581 FEFF FFFD"))
    )
    return _chain([_substitute(removed, ""), _substitute(spaces, " ")])


# ------------------------------------------------------------------------------ SentencePiece's map


def _precompiled(config: dict[str, Any]) -> Normalizer:
    charsmap = _text(config, "precompiled_charsmap")
    try:
        return precompiled(b64decode(charsmap, validate=True))
    except Base64Error as error:
        raise TokenizerFormatError(f"the precompiled_charsmap is not base64: {error}") from None


# Character classes for grapheme clusters (UAX #29): Prepend, Extend, and SpacingMark exceptions.
_PREPENDED = uc.parse(
    "600-605 6DD 70F 890-891 8E2 D4E 110BD 110CD 111C2-111C3 113D1 1193F 11941 11A84-11A89 11D46 11F02"
)
_EXTENDS_TOO = uc.parse("200C-200D E33 EB3 FF9E-FF9F 1F3FB-1F3FF E0020-E007F")
_SPACING_APART = uc.parse(
    "102B-102C 1038 1062-1064 1067-106D 1083 1087-108C 108F 109A-109C 1A61 1A63-1A64 AA7B AA7D 11720-11721"
)


@lru_cache(maxsize=1)
def _clusters() -> Pattern:
    extends = uc.union(uc.difference(uc.category("M"), _SPACING_APART), _EXTENDS_TOO)
    formats = uc.difference(uc.category("Cf"), uc.union(_PREPENDED, _EXTENDS_TOO))
    unassigned = uc.parse("2065 FFF0-FFF8 E0000-E001F E0080-E00FF E01F0-E0FFF")
    breaks = uc.union(uc.category("Cc"), formats, uc.category("Zl"), uc.category("Zp"), unassigned)
    base = uc.complement(breaks)
    prepended, follows = class_source(_PREPENDED), class_source(extends)
    return compile_pattern(
        rf"\r\n|{prepended}+{class_source(uc.difference(base, _PREPENDED))}{follows}*|{class_source(base)}{follows}+"
    )


class _ByClusters:
    """The map applied to grapheme clusters, then to characters."""

    def __init__(self, charsmap: bytes) -> None:
        self._find_prefix = CharacterMap(charsmap).shortest
        self._characters = _Replacements(self._find_prefix)

    def __call__(self, text: str) -> str:
        out = []
        at = 0
        for begin, end in _clusters().spans(text):
            cluster = text[begin:end]
            if len(cluster) < 6 and len(cluster.encode("utf-8", "surrogatepass")) < 6:
                found = self._find_prefix(cluster)
                if found is not None:
                    out += [text[at:begin].translate(self._characters), found]
                    at = end
        return "".join([*out, text[at:].translate(self._characters)])


class _Replacements(dict[int, str]):
    # A table for str.translate that looks a character up when it first occurs.
    def __init__(self, find: Callable[[str], str | None]) -> None:
        self._find_prefix = find

    def __missing__(self, code_point: int) -> str:
        found = self._find_prefix(chr(code_point))
        self[code_point] = chr(code_point) if found is None else found
        return self[code_point]


_KINDS: dict[str, Callable[[dict[str, Any]], Normalizer]] = {
    "NFC": _form("NFC"),
    "NFD": _form("NFD"),
    "NFKC": _form("NFKC"),
    "NFKD": _form("NFKD"),
    "Lowercase": lambda config: lower,
    "StripAccents": _strip_accents,
    "BertNormalizer": _bert,
    "Replace": _replace,
    "Prepend": _prepend,
    "Strip": _strip,
    "Nmt": _nmt,
    "ByteLevel": lambda config: byte_level,
    "Precompiled": _precompiled,
}
