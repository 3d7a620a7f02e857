r"""Compile the regular expressions of tokenizer files to the standard library's `re`.

In: a pattern in the syntax of Oniguruma (tokenizer.json) or Rust's fancy-regex (tiktoken). Out: a
`Pattern` that finds the same matches, in linear time.

`re` has no `\p{…}` and no `[a&&b]`, defines `\s` and `\w` differently, and backtracks. A pattern is
therefore parsed into a tree over explicit sets of characters (parser, nodes), made safe
(backtracking) and written again (writer):

- A repetition becomes possessive, `[…]++`, if backtracking into it can't help: nothing after it can
  fail, or what follows begins with other characters. The match is the same.
- Each alternative may keep at most one repetition that backtracks, so an attempt costs at most the
  length of the run it reads. A repetition inside a repetition that can match in two ways, as in
  `(a+b?)+$`, would take exponential time and is refused.
- An attempt that reads a long run and fails must not be repeated at each character of the run: a
  later alternative has to consume it (`\s+(?!\S)|\s+`). Otherwise the time can be quadratic, as for
  `\d{1,3}(?=(\d{3})*$)`. `Pattern.guarded` holds the characters of such runs, and texts with runs
  longer than `MAX_RUN` are refused.

`re` compares a character above U+FFFF with the ranges of a class one by one. Before matching, each
such character is therefore replaced by one up to U+FFFF that is in the same sets.
"""

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import Iterator

from ..errors import TokenizerFormatError
from . import unicode_classes as uc
from .backtracking import END, Unsafe, make_possessive, quadratic_runs
from .nodes import Node, sets
from .parser import parse
from .unicode_classes import Ranges
from .writer import to_source

MAX_RUN = 2000
_ASCII: Ranges = ((0, 127),)
_BMP: Ranges = ((0, 0xFFFF),)
_ABOVE = re.compile("[\\U00010000-\\U0010ffff]")


class Pattern:
    r"""A compiled pattern: `findall` and `spans` of a text.

    `guarded` is the set of characters whose runs may have at most `MAX_RUN` characters, because a
    run can take quadratic time. It is empty for nearly all patterns.

    >>> compile_pattern(r"\p{N}{1,3}|\p{L}+| ?[^\s\p{L}\p{N}]+|\s+").findall("añ 1234 ⅷ!")
    ['añ', ' ', '123', '4', ' ', 'ⅷ', '!']
    """

    def __init__(self, source: str, flavour: str = "oniguruma") -> None:
        self.source = source
        try:
            tree, start = make_possessive(parse(source, flavour), END)
            self.guarded: Ranges = quadratic_runs(tree)
        except Unsafe as why:
            raise TokenizerFormatError(
                f"the pattern {source!r:.200} is not supported: {why}"
            ) from None
        self.nullable: bool = start.may_be_empty
        self._tree = tree
        self._ascii = self._compile(_ASCII)
        self._bmp: re.Pattern[str] | None = None
        self._whole: re.Pattern[str] | None = None
        self._stand_ins: _StandIns | None = None
        self._guard = re.compile(uc.class_text(self.guarded) + "++") if self.guarded else None

    def __repr__(self) -> str:
        return f"Pattern({self.source!r})"

    def findall(self, text: str) -> list[str]:
        """Return the text of every non-empty match, in order."""
        if self.nullable:
            return [text[first:last] for first, last in self.spans(text) if first < last]
        machine, searched = self._prepare(text)
        found: list[str] = machine.findall(searched)
        if searched is text:
            return found
        if sum(map(len, found)) != len(text):
            return [text[match.start() : match.end()] for match in machine.finditer(searched)]
        # Only the pieces with characters that were replaced are another text.
        ends = list(accumulate(map(len, found)))
        end = 0
        while changed := _ABOVE.search(text, end):
            at = bisect_right(ends, changed.start())
            end = ends[at]
            found[at] = text[ends[at - 1] if at else 0 : end]
        return found

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each match.

        An empty match at the end of the previous match is skipped.
        """
        machine, searched = self._prepare(text)
        if not self.nullable:
            for match in machine.finditer(searched):
                yield match.span()
            return
        at, before = 0, -1
        while at <= len(searched):
            found = machine.search(searched, at)
            if found is None:
                return
            first, last = found.span()
            if first == last:
                at = last + 1
                if last == before:
                    continue
            else:
                at = last
            before = last
            yield first, last

    def _prepare(self, text: str) -> tuple[re.Pattern[str], str]:
        if self._guard is not None:
            longest = max(
                (found.end() - found.start() for found in self._guard.finditer(text)), default=0
            )
            if longest > MAX_RUN:
                raise TokenizerFormatError(
                    f"the pattern {self.source!r:.200} takes quadratic time, and the text has a run of {longest} "
                    f"characters; at most {MAX_RUN} are allowed"
                )
        if text.isascii():
            return self._ascii, text
        if self._bmp is None:
            self._bmp = self._compile(_BMP)
        if len(text.encode("utf-16-le", "surrogatepass")) == 2 * len(text):
            return self._bmp, text
        if self._stand_ins is None:
            self._stand_ins = _StandIns(self._tree)
        searched = self._stand_ins.replace(text)
        if searched is not None:
            return self._bmp, searched
        if self._whole is None:
            self._whole = self._compile(uc.EVERYTHING)
        return self._whole, text

    def _compile(self, within: Ranges) -> re.Pattern[str]:
        try:
            return re.compile(to_source(self._tree, within))
        except (re.error, OverflowError, RecursionError) as error:
            raise TokenizerFormatError(
                f"the pattern {self.source!r:.200} is not supported: {error}"
            ) from None


@lru_cache(maxsize=64)
def compile_pattern(source: str, flavour: str = "oniguruma") -> Pattern:
    r"""Return the `Pattern` of a source text.

    `flavour` is "oniguruma" (tokenizer.json; `^` and `$` match at the ends of lines) or "rust"
    (fancy-regex, tiktoken; at the ends of the text). Raises TokenizerFormatError if the pattern
    uses back-references, conditionals or `\X`, or can take more than quadratic time.

    >>> try:
    ...     compile_pattern(r"(a+b?)+$")
    ... except TokenizerFormatError as error:
    ...     print(str(error)[:77])
    the pattern '(a+b?)+$' is not supported: nested repetitions can match in more
    """
    if flavour not in ("oniguruma", "rust"):
        raise ValueError(f"flavour is {flavour!r}; expected 'oniguruma' or 'rust'")
    return Pattern(source, flavour)


class _StandIns:
    # Maps each character above U+FFFF to one up to U+FFFF that is in the same sets of the pattern.

    def __init__(self, tree: Node) -> None:
        self._sets = sorted(set(sets(tree)))
        # One bit for each set. The kind of a character, the sets that it is in, changes at the
        # edges of their ranges.
        turns: dict[int, int] = {0: 0}
        for at, one in enumerate(self._sets):
            for first, last in one:
                turns[first] = turns.get(first, 0) ^ 1 << at
                turns[last + 1] = turns.get(last + 1, 0) ^ 1 << at
        self._by_kind: dict[int, str] = {}
        kind = 0
        for first in sorted(turns):
            kind ^= turns[first]
            if first < 0xD800 or 0xE000 <= first <= 0xFFFF:
                self._by_kind.setdefault(kind, chr(first))
        self._known: dict[str, str | None] = {}

    def _kind(self, code_point: int) -> int:
        kinds = [uc.contains(one, code_point) << at for at, one in enumerate(self._sets)]
        return sum(kinds)

    def replace(self, text: str) -> str | None:
        known = self._known
        if len(known) >= 65536:
            known.clear()
        for character in set(_ABOVE.findall(text)):
            if character not in known:
                known[character] = self._by_kind.get(self._kind(ord(character)))
            if known[character] is None:
                return None
        return _ABOVE.sub(lambda match: known[match.group()] or "", text)
