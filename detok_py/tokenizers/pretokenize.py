"""Cut a normalized text into pieces for the model: the `pre_tokenizer` of a tokenizer.json.

In: a text. Out: its pieces, none empty. With `ByteLevel` a piece is spelt in an alphabet of 256
printable characters, one for each byte of its UTF-8 (a space is Ġ). The rules are those of Hugging
Face `tokenizers` (pre_tokenizers/*.rs), including their quirks.

`compile_pretokenizer` returns a function of `(text, first=True)`. `first` is true at the start of
the input and false after an added token; Metaspace with `prepend_scheme: "first"` depends on it.
"""

import re
from bisect import bisect_right
from itertools import pairwise
from typing import Any, Callable, Iterable, Iterator, Protocol

from ..decode.byte_level import ALPHABET
from ..errors import TokenizerFormatError
from ..patterns import unicode_classes as uc
from ..patterns.compiler import Pattern, compile_pattern
from .byte_bpe import Words

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
MAX_DEPTH = 16

# (text, whether it is the start of the input) → pieces
Cut = Callable[[str, bool], list[str]]
Span = tuple[int, int, bool]  # start, end, whether it is a match

# Numbers of Unicode 17, which Rust's char::is_numeric knows.
_NEW_NUMERIC = uc.parse("11DE0-11DE9 16FF4-16FF6")


class PreTokenizer(Protocol):
    """The type of the function that `compile_pretokenizer` returns."""

    def __call__(self, text: str, first: bool = True) -> list[str]:
        """Return the pieces of a text; `first` if it is the start of the input."""


def compile_pretokenizer(config: dict[str, Any] | None) -> PreTokenizer:
    """Return the function that cuts a text into pieces.

    Without a configuration the text is one piece. Raises TokenizerFormatError, with the type, if
    the pre-tokenizer isn't supported.

    >>> compile_pretokenizer({"type": "ByteLevel", "add_prefix_space": False})("Hi you")
    ['Hi', 'Ġyou']
    >>> compile_pretokenizer({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"})(
    ...     "Hi you", first=False
    ... )
    ['Hi', '▁you']
    """
    cut = _compile(config, 0)

    def pretokenize(text: str, first: bool = True) -> list[str]:
        return cut(text, first) if text else []

    return pretokenize


def compile_split(source: str, flavour: str = "rust") -> Callable[[str], list[str]]:
    r"""Return the function that lists a pattern's matches in a text, as tiktoken and tekken cut.

    >>> compile_split(r"\p{L}+|\s+")("a b")
    ['a', ' ', 'b']
    """
    return compile_pattern(source, flavour).findall


def _compile(config: dict[str, Any] | None, depth: int) -> Cut:
    if config is None:
        return lambda text, first: [text]
    if not isinstance(config, dict) or depth > MAX_DEPTH:
        raise TokenizerFormatError(
            "the pre-tokenizer is not an object with a type, or is nested too deeply"
        )
    kind = config.get("type")
    if kind == "Sequence":
        return _sequence(config, depth)
    build = _KINDS.get(kind) if isinstance(kind, str) else None
    if build is None:
        raise TokenizerFormatError(
            f"the pre-tokenizer {kind!r:.60} is not supported; supported: {', '.join(_KINDS)}, Sequence"
        )
    return build(config)


def _sequence(config: dict[str, Any], depth: int) -> Cut:
    parts = config.get("pretokenizers")
    if not isinstance(parts, list):
        raise TokenizerFormatError("a Sequence pre-tokenizer has no list of pretokenizers")
    cuts = [_compile(part, depth + 1) for part in parts]
    if not cuts:
        return _compile(None, 0)
    if len(cuts) == 1:
        return cuts[0]

    def cut(text: str, first: bool) -> list[str]:
        pieces = [text]
        for one in cuts:
            before = pieces
            if isinstance(one, _ByteLevel):
                pieces = one.pieces(pieces, first)
            else:
                pieces = _cut_all(one, pieces, first)
            # If a step removed the start of the text, the first piece no longer starts the input.
            first = first and bool(before and pieces) and before[0].startswith(pieces[0])
        return pieces

    return cut


def _cut_all(cut: Cut, pieces: list[str], first: bool) -> list[str]:
    out: list[str] = []
    for piece in pieces:
        out += cut(piece, first)
        first = False
    return out


# --------------------------------------------------------------------------------------- byte level


_BYTE_TABLE = dict(enumerate(ALPHABET))


def byte_level(text: str) -> str:
    """Return the UTF-8 of a text, spelt in the byte alphabet.

    >>> byte_level("é a")
    'Ã©Ġa'
    """
    return text.encode("utf-8").decode("latin-1").translate(_BYTE_TABLE)


class _ByteLevel:
    # A class, so that a Sequence can pass all pieces in one call, which is faster.
    def __init__(self, config: dict[str, Any]) -> None:
        self._prefix = flag(config, "add_prefix_space", True)
        self._pattern = compile_pattern(GPT2_PATTERN) if flag(config, "use_regex", True) else None
        self._spell = Words(byte_level).__getitem__

    def __call__(self, text: str, first: bool) -> list[str]:
        return self.pieces([text], first)

    def pieces(self, pieces: list[str], first: bool) -> list[str]:
        if self._prefix:
            pieces = [piece if piece.startswith(" ") else " " + piece for piece in pieces]
        if self._pattern is not None:
            find = self._pattern.findall
            pieces = (
                find(pieces[0])
                if len(pieces) == 1
                else [found for piece in pieces for found in find(piece)]
            )
        return list(map(self._spell, pieces))


def flag(config: dict[str, Any], name: str, default: bool, part: str = "pre-tokenizer") -> bool:
    """Return what a part of the pipeline has for `name`, which must be true or false."""
    value = config.get(name, default)
    if not isinstance(value, bool):
        raise TokenizerFormatError(
            f"the {config.get('type')} {part}'s {name!r} is {value!r:.60}; expected true or false"
        )
    return value


# ------------------------------------------------------------------------------------------- splits


def _split(config: dict[str, Any]) -> Cut:
    behaviour = config.get("behavior")
    invert = flag(config, "invert", False)
    pattern = config.get("pattern")
    if isinstance(pattern, dict) and len(pattern) == 1:
        kind, source = next(iter(pattern.items()))
    else:
        kind, source = None, None
    if kind not in ("Regex", "String") or not isinstance(source, str):
        raise TokenizerFormatError(
            f"the pattern of a Split pre-tokenizer is {pattern!r:.80}; expected {{'Regex': …}} or {{'String': …}}"
        )
    if behaviour not in _JOINED:
        raise _unsupported_behaviour("Split", behaviour)
    if kind == "String" and source:
        matches = re.compile(re.escape(source)).finditer
        return _cut_by_spans(lambda text: map(re.Match.span, matches(text)), behaviour, invert)
    return split_by(compile_pattern(source), behaviour, invert)


def split_by(pattern: Pattern, behaviour: str, invert: bool = False) -> Cut:
    """Return the function that cuts at the matches of a pattern, by one of `_JOINED`.

    >>> split_by(compile_pattern(","), "MergedWithPrevious")("a,b", True)
    ['a,', 'b']
    """
    spans = _cut_by_spans(pattern.spans, behaviour, invert)
    if behaviour == "Removed" and invert:
        return lambda text, first: pattern.findall(text)
    if behaviour != "Isolated" or pattern.nullable:
        return spans

    def cut(text: str, first: bool) -> list[str]:
        found = pattern.findall(text)
        # The matches nearly always cover the text. If not, the gaps are pieces too.
        return found if sum(map(len, found)) == len(text) else spans(text, first)

    return cut


def _cut_by_spans(
    find: Callable[[str], Iterable[tuple[int, int]]], behaviour: str, invert: bool
) -> Cut:
    joined, keeps_matches = _JOINED[behaviour], behaviour != "Removed"

    def cut(text: str, first: bool) -> list[str]:
        out: list[tuple[int, int]] = []
        before = False
        for begin, end, is_match in _with_gaps(find(text), len(text)):
            is_match = is_match != invert
            if out and (before, is_match) in joined:
                out[-1] = (out[-1][0], end)
            elif keeps_matches or not is_match:
                out.append((begin, end))
            before = is_match
        return [text[begin:end] for begin, end in out if begin < end]

    return cut


def _unsupported_behaviour(kind: str, behaviour: Any) -> TokenizerFormatError:
    return TokenizerFormatError(
        f"the behavior {behaviour!r:.60} of a {kind} pre-tokenizer is not supported; supported: {', '.join(_JOINED)}"
    )


def _with_gaps(matches: Iterable[tuple[int, int]], length: int) -> Iterator[Span]:
    at = 0
    for begin, end in matches:
        if at != begin:
            yield at, begin, False
        yield begin, end, True
        at = end
    if at != length:
        yield at, length, False


# Neighbours that become one piece: whether the first is a match, and whether the second is.
_JOINED: dict[str, tuple[tuple[bool, bool], ...]] = {
    "Isolated": (),
    "Removed": (),
    "Contiguous": ((False, False), (True, True)),
    "MergedWithPrevious": ((False, True),),
    "MergedWithNext": ((True, False),),
}


# ------------------------------------------------------------------------------------- fixed splits


def _class_pattern(ranges: uc.Ranges) -> Pattern:
    return compile_pattern(class_source(ranges))


def class_source(ranges: uc.Ranges) -> str:
    """Return the source of a character class for `compile_pattern`."""
    return "[" + "".join(f"\\x{{{first:X}}}-\\x{{{last:X}}}" for first, last in ranges) + "]"


def _digits(config: dict[str, Any]) -> Cut:
    numeric = _class_pattern(uc.union(uc.category("N"), _NEW_NUMERIC))
    return split_by(
        numeric, "Isolated" if flag(config, "individual_digits", False) else "Contiguous"
    )


def punctuation() -> uc.Ranges:
    """Return the punctuation of `Punctuation` and `BertPreTokenizer`: ASCII's, and category P.

    The category is that of Unicode 8.0, from the crate unicode_categories. Two of its characters
    have left category P since.
    """
    known = uc.difference(uc.category("P"), uc.since_unicode_8())
    return uc.union(known, uc.parse("166D 111C9"), uc.ASCII_PUNCTUATION)


def _punctuation(config: dict[str, Any]) -> Cut:
    behaviour = config.get("behavior", "Isolated")
    if behaviour not in _JOINED:
        raise _unsupported_behaviour("Punctuation", behaviour)
    return split_by(_class_pattern(punctuation()), behaviour)


def _matches(source: str) -> Cut:
    find = compile_split(source)
    return lambda text, first: find(text)


def _bert(config: dict[str, Any]) -> Cut:
    # Pieces are words between white space, and single punctuation characters.
    words = uc.complement(uc.union(punctuation(), uc.WHITE_SPACE))
    return _matches(f"{class_source(words)}+|{class_source(punctuation())}")


def _char_delimiter(config: dict[str, Any]) -> Cut:
    delimiter = config.get("delimiter")
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise TokenizerFormatError(
            f"the delimiter of a CharDelimiterSplit pre-tokenizer is {delimiter!r:.60}; expected one character"
        )
    return lambda text, first: [piece for piece in text.split(delimiter) if piece]


def _fixed_length(config: dict[str, Any]) -> Cut:
    length = config.get("length", 5)
    if type(length) is not int or length < 1:
        raise TokenizerFormatError(
            f"the length of a FixedLength pre-tokenizer is {length!r:.60}; expected a whole number, 1 or more"
        )
    return lambda text, first: [text[at : at + length] for at in range(0, len(text), length)]


def _metaspace(config: dict[str, Any]) -> Cut:
    mark = config.get("replacement", "▁")
    if not isinstance(mark, str) or len(mark) != 1:
        raise TokenizerFormatError(
            f"the replacement of a Metaspace pre-tokenizer is {mark!r:.60}; expected one character"
        )
    scheme = config.get("prepend_scheme")
    if scheme is None:
        scheme = "always"
    if scheme not in ("always", "first", "never"):
        raise TokenizerFormatError(
            f"the prepend_scheme {scheme!r:.60} of a Metaspace pre-tokenizer is not supported; supported: always, first, never"
        )
    if flag(config, "add_prefix_space", True) is False:
        if config.get("prepend_scheme") not in (None, "never"):
            raise TokenizerFormatError(
                "a Metaspace pre-tokenizer with add_prefix_space false has a prepend_scheme other than never"
            )
        scheme = "never"
    split = flag(config, "split", True)

    def cut(text: str, first: bool) -> list[str]:
        text = text.replace(" ", mark)
        if (scheme == "always" or (scheme == "first" and first)) and not text.startswith(mark):
            text = mark + text
        if not split:
            return [text]
        # A piece begins at each mark.
        head, *tail = text.split(mark)
        pieces = [mark + piece for piece in tail]
        return [head, *pieces] if head else pieces

    return cut


# ------------------------------------------------------------------------------------------ scripts


def _unicode_scripts(config: dict[str, Any]) -> Cut:
    # One set for each script; Han, Hiragana and Katakana share one. Spaces and characters that are
    # not in Unicode 9 have no script.
    young = uc.since_unicode_9()
    sets = {name: uc.difference(uc.script(name) or (), young) for name in uc.script_names()}
    sets["han"] = uc.union(
        sets["han"], sets.pop("hiragana"), sets.pop("katakana"), ((0x30FC, 0x30FC),)
    )
    sets["common"] = uc.difference(sets["common"], uc.parse("20 30FC 589 61C"))
    sets["armenian"] = uc.union(sets["armenian"], uc.parse("589"))
    sets["inherited"] = uc.difference(sets["inherited"], uc.parse("953-954"))
    sets["devanagari"] = uc.union(sets["devanagari"], uc.parse("953-954"))
    table = sorted((first, last, name) for name, ranges in sets.items() for first, last in ranges)
    starts = [first for first, _, _ in table]

    def cut(text: str, first: bool) -> list[str]:
        # A piece begins where the script changes. A character without a script belongs to the piece
        # before it; at the start of the text it is dropped.
        edges: list[int] = []
        before = None
        for at, character in enumerate(text):
            entry = table[bisect_right(starts, ord(character)) - 1]
            if ord(character) > entry[1]:
                continue
            if entry[2] != before:
                edges.append(at)
                before = entry[2]
        edges.append(len(text))
        return [text[begin:end] for begin, end in pairwise(edges)]

    return cut


_KINDS: dict[str, Callable[[dict[str, Any]], Cut]] = {
    "ByteLevel": _ByteLevel,
    "Split": _split,
    "Metaspace": _metaspace,
    "Digits": _digits,
    "Punctuation": _punctuation,
    "BertPreTokenizer": _bert,
    "Whitespace": lambda config: _matches(r"\w+|[^\w\s]+"),
    "WhitespaceSplit": lambda config: _matches(r"\S+"),
    "UnicodeScripts": _unicode_scripts,
    "CharDelimiterSplit": _char_delimiter,
    "FixedLength": _fixed_length,
}
