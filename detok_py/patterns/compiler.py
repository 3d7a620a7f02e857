r"""Compile the regular expressions of tokenizer files to the standard library's `re`.

In: a pattern in the syntax of Oniguruma (tokenizer.json) or Rust's fancy-regex (tiktoken). Out: a
`Pattern` that finds the same matches, in linear time.

`re` has no `\p{…}` and no `[a&&b]`, defines `\s` and `\w` differently, and backtracks. A pattern is
therefore parsed into a tree over explicit sets of characters (unicode_classes) and written again:

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
from typing import Any, Iterator

from ..errors import TokenizerFormatError
from . import unicode_classes as uc
from .unicode_classes import Ranges

MAX_SOURCE = 65536
MAX_DEPTH = 32
MAX_RUN = 2000
_LONG = 16  # a repetition with a maximum up to this counts as short
_MAX_REPEAT = 1000
_MAX_WAYS = 4096

# A node is a tuple: ("set", ranges) · ("cat", nodes) · ("alt", nodes) · ("rep", node, least, most
# or None, mode) · ("look", ahead, negated, node) · ("atomic", node) · ("at", where)
Node = tuple[Any, ...]

_EMPTY: Node = ("cat", ())
_NEWLINE: Ranges = ((10, 10),)
_DOT = uc.complement(_NEWLINE)
_ASCII: Ranges = ((0, 127),)
_BMP: Ranges = ((0, 0xFFFF),)
_ABOVE = re.compile("[\\U00010000-\\U0010ffff]")
_ESCAPED = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7, "e": 27}


class Pattern:
    r"""A compiled pattern: `findall` and `spans` of a text.

    `guarded` is the set of characters whose runs may have at most `MAX_RUN` characters, because a
    run can take quadratic time. It is empty for nearly all patterns.

    >>> compile_pattern(r"\p{N}{1,3}|\p{L}+| ?[^\s\p{L}\p{N}]+|\s+").findall("añ 1234 ⅷ!")
    ['añ', ' ', '123', '4', ' ', 'ⅷ', '!']
    """

    def __init__(self, source: str, flavour: str = "oniguruma") -> None:
        self.source = source
        tree = _Parser(source, flavour).parse()
        try:
            tree, start = _make_possessive(tree, _END)
        except _Unsafe as why:
            raise TokenizerFormatError(
                f"the pattern {source!r:.200} is not supported: {why}"
            ) from None
        self.nullable = start.may_be_empty
        self.guarded = _quadratic_runs(tree, source)
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
            return re.compile(_to_source(self._tree, within))
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
        self._sets = sorted(set(_sets(tree)))
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


def _sets(node: Node) -> Iterator[Ranges]:
    if node[0] == "set":
        yield node[1]
    elif node[0] in ("cat", "alt"):
        for one in node[1]:
            yield from _sets(one)
    elif node[0] == "rep" or node[0] == "atomic":
        yield from _sets(node[1])
    elif node[0] == "look":
        yield from _sets(node[3])
    elif node[1] in ("line start", "line end", "last line end"):
        yield _NEWLINE
    elif node[1] in ("word edge", "no word edge"):
        yield uc.named("word")


# ------------------------------------------------------------------------------------------ reading


class _Parser:
    def __init__(self, source: str, flavour: str) -> None:
        if len(source) > MAX_SOURCE:
            raise TokenizerFormatError(
                f"a pattern has {len(source)} characters; supported: at most {MAX_SOURCE}"
            )
        self.source = source
        self.ruby = flavour == "oniguruma"
        self.at = 0
        self.depth = 0
        self.fold = self.dot_all = self.extended = self.lines = False

    def parse(self) -> Node:
        tree = self._alternatives()
        if self.at < len(self.source):
            raise self._error("it has an unmatched ')'")
        return tree

    def _error(self, why: str) -> TokenizerFormatError:
        return TokenizerFormatError(
            f"the pattern {self.source!r:.200} is not supported: {why} (at character {self.at})"
        )

    def _peek(self, length: int = 1) -> str:
        return self.source[self.at : self.at + length]

    def _read(self, length: int = 1) -> str:
        text = self._peek(length)
        if len(text) < length:
            raise self._error("it is incomplete")
        self.at += length
        return text

    def _read_until(self, end: str) -> str:
        stop = self.source.find(end, self.at)
        if stop < 0:
            raise self._error(f"there is no {end!r} to close it")
        text = self.source[self.at : stop]
        self.at = stop + len(end)
        return text

    def _alternatives(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(f"its groups are nested more than {MAX_DEPTH} deep")
        flags = self.fold, self.dot_all, self.extended, self.lines
        branches = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            branches.append(self._sequence())
        self.fold, self.dot_all, self.extended, self.lines = flags
        self.depth -= 1
        return _alt(branches)

    def _sequence(self) -> Node:
        items: list[Node] = []
        while True:
            next_one = self._peek()
            if next_one in ("", "|", ")"):
                break
            if self.extended and (next_one.isspace() or next_one == "#"):
                self.at = (
                    self.source.find("\n", self.at) + 1 or len(self.source)
                    if next_one == "#"
                    else self.at + 1
                )
                continue
            item = self._item()
            if item is not None:
                items.append(self._repeated(item))
        if self.fold:
            self._refuse_wide_folds(items)
        return _cat(items)

    def _refuse_wide_folds(self, items: list[Node]) -> None:
        # Ignoring case, `ss` also matches `ß` in Oniguruma. No known tokenizer needs this.
        text = "".join(
            chr(item[1][0][0]) if item[0] == "set" and len(item[1]) <= 4 else "\n" for item in items
        ).casefold()
        for pair in ("ss", "ff", "fi", "fl", "st", "ʼn"):
            if pair in text and self.ruby:
                raise self._error(f"ignoring case, {pair!r} also matches a single character")

    def _item(self) -> Node | None:
        character = self._read()
        if character == "(":
            return self._group()
        if character == "[":
            return ("set", self._class())
        if character == ".":
            return ("set", uc.EVERYTHING if self.dot_all else _DOT)
        if character == "^":
            return ("at", "line start" if self.ruby or self.lines else "text start")
        if character == "$":
            return ("at", "line end" if self.ruby or self.lines else "text end")
        if character == "\\":
            return self._escape()
        if character in "*+?":
            raise self._error(f"{character!r} has nothing to repeat")
        return self._literal(ord(character))

    def _literal(self, code_point: int) -> Node:
        return (
            "set",
            _folded(((code_point, code_point),)) if self.fold else ((code_point, code_point),),
        )

    def _group(self) -> Node | None:
        if self._peek() != "?":
            return self._expect_close(self._alternatives())
        self.at += 1
        kind = self._read()
        if kind == "#":
            self._read_until(")")
            return None
        if kind == ":":
            return self._expect_close(self._alternatives())
        if kind == ">":
            return ("atomic", self._expect_close(self._alternatives()))
        if kind in "=!":
            return ("look", True, kind == "!", self._expect_close(self._alternatives()))
        if kind == "P" and self._peek() == "<":
            kind = self._read()
        if kind == "<":
            if self._peek() in ("=", "!"):
                negated = self._read() == "!"
                return ("look", False, negated, self._expect_close(self._alternatives()))
            self._read_until(">")
            return self._expect_close(self._alternatives())
        self.at -= 1
        return self._flags()

    def _flags(self) -> Node | None:
        on = True
        flags = self.fold, self.dot_all, self.extended, self.lines
        while (letter := self._read()) not in ":)":
            if letter == "-":
                on = False
            elif letter == "i":
                self.fold = on
            elif letter == "x":
                self.extended = on
            elif (letter == "m" and self.ruby) or (letter == "s" and not self.ruby):
                self.dot_all = on
            elif letter == "m":
                self.lines = on
            elif letter == "u" and not self.ruby and on:
                pass
            else:
                raise self._error(f"the group '(?{letter}' is not known")
        if letter == ")":
            # In Oniguruma the flag applies to the rest of the group, including its alternatives:
            # a(?i)b|c is a(?i:b|c).
            return self._alternatives() if self.ruby else None
        inner = self._expect_close(self._alternatives())
        self.fold, self.dot_all, self.extended, self.lines = flags
        return inner

    def _expect_close(self, node: Node) -> Node:
        if self._peek() != ")":
            raise self._error("a group is not closed")
        self.at += 1
        return node

    def _repeated(self, node: Node) -> Node:
        while True:
            sign = self._peek()
            bounds = None
            if sign in ("*", "+", "?") and sign:
                self.at += 1
                bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
            elif sign == "{":
                found = re.compile(r"\{(\d{0,6})(,?)(\d{0,6})\}").match(self.source, self.at)
                if found is None or not (found[1] or found[3]) or (not found[1] and not self.ruby):
                    return node  # a brace that isn't a repetition is a literal
                self.at = found.end()
                least = int(found[1] or 0)
                bounds = (least, least if not found[2] else int(found[3]) if found[3] else None)
            if bounds is None:
                return node
            least, most = bounds
            if least > _MAX_REPEAT or (most is not None and not least <= most <= _MAX_REPEAT):
                raise self._error(
                    f"it repeats {least} to {most} times; supported: at most {_MAX_REPEAT}"
                )
            mode = "greedy"
            if self._peek() == "?":
                self.at += 1
                mode = "lazy"
                if sign == "{" and self.ruby and least == most:  # Oniguruma: a{2}? is (a{2})?
                    node, least, most, mode = _rep(node, least, most, "greedy"), 0, 1, "greedy"
            elif self._peek() == "+" and (
                sign != "{" or not self.ruby
            ):  # Oniguruma: a{2}+ is (a{2})+
                self.at += 1
                mode = "possessive"
            if node[0] in ("look", "at"):
                raise self._error("it repeats an assertion")
            node = _rep(node, least, most, mode)

    def _escape(self) -> Node | None:
        letter = self._read()
        if letter in "AzZbB":
            where = {
                "A": "text start",
                "z": "text end",
                "Z": "last line end",
                "b": "word edge",
                "B": "no word edge",
            }[letter]
            return ("at", where)
        if letter == "R":
            newline: Node = _cat([("set", ((13, 13),)), ("set", _NEWLINE)])
            return ("atomic", _alt([newline, ("set", uc.parse("A-D 85 2028-2029"))]))
        if (
            letter == "K"
            or letter == "G"
            or letter == "X"
            or letter == "k"
            or letter == "g"
            or letter in "123456789"
        ):
            raise self._error(f"\\{letter} is not known here")
        self.at -= 1
        if letter in "wW" and self.ruby:
            # Outside a class, Oniguruma's \\w includes the numbers of Latin-1 (² ³ ¹ ¼ ½ ¾).
            self.at += 1
            return ("set", uc.named("word") if letter == "w" else uc.complement(uc.named("word")))
        ranges = self._escaped_set()
        return ("set", _folded(ranges) if self.fold else ranges)

    def _escaped_set(self) -> Ranges:
        # Called after the backslash, inside or outside a class.
        letter = self._read()
        if letter in "pP":
            name = self._read_until("}") if self._peek() == "{" and self._read() else self._read()
            negated = (letter == "P") != name.startswith("^")
            ranges = uc.named(name.lstrip("^"))
            return uc.complement(ranges) if negated else ranges
        if letter in "dDsSwWhH":
            if letter in "hH" and not self.ruby:
                raise self._error(f"\\{letter} is not known")
            kind = letter.lower()
            if kind == "w":
                ranges = self._word()
            else:
                ranges = (
                    uc.WHITE_SPACE
                    if kind == "s"
                    else uc.category("Nd")
                    if kind == "d"
                    else uc.named("xdigit")
                )
            return uc.complement(ranges) if letter.isupper() else ranges
        if letter in "xu":
            if self._peek() == "{":
                self.at += 1
                digits = self._read_until("}")
            else:
                digits = self._read(2 if letter == "x" else 4)
            try:
                code_point = int(digits, 16)
            except ValueError:
                raise self._error(f"{digits!r} is not a hexadecimal number") from None
            if code_point > uc.MAX_CODE_POINT:
                raise self._error(f"{digits!r} is beyond U+10FFFF")
            return ((code_point, code_point),)
        if letter == "0":
            return ((0, 0),)
        code_point = _ESCAPED.get(letter, ord(letter))
        if letter.isalnum() and letter not in _ESCAPED:
            raise self._error(f"\\{letter} is not known")
        return ((code_point, code_point),)

    def _word(self) -> Ranges:
        return uc.word() if self.ruby else uc.rust_word()

    def _class(self) -> Ranges:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._error(f"its classes are nested more than {MAX_DEPTH} deep")
        negated = self._peek() == "^"
        if negated:
            self.at += 1
        whole: Ranges | None = None
        found: list[Ranges] = []
        first = True
        while True:
            if self._peek() == "]" and not first:
                self.at += 1
                break
            if self._peek(2) == "&&":
                self.at += 2
                part = uc.union(*found)
                whole = part if whole is None else uc.intersection(whole, part)
                found = []
                continue
            first = False
            item = self._class_item()
            if (
                len(item) == 1
                and item[0][0] == item[0][1]
                and self._peek() == "-"
                and self._peek(2) not in ("-]", "-[")
            ):
                self.at += 1
                last = self._class_item()
                if len(last) != 1 or last[0][0] != last[0][1]:
                    item = uc.union(item, ((45, 45),), last)
                elif last[0][0] < item[0][0]:
                    raise self._error("a range ends before it begins")
                else:
                    item = ((item[0][0], last[0][0]),)
            found.append(item)
        self.depth -= 1
        ranges = uc.union(*found)
        if whole is not None:
            ranges = uc.intersection(whole, ranges)
        if self.fold:
            ranges = _folded(ranges)
        return uc.complement(ranges) if negated else ranges

    def _class_item(self) -> Ranges:
        posix = re.compile(r"\[:(\^?)(\w+):\]").match(self.source, self.at)
        if posix:
            self.at = posix.end()
            ranges = uc.named(posix[2]) if posix[2] != "word" else uc.word()
            return uc.complement(ranges) if posix[1] else ranges
        character = self._read()
        if character == "[":
            return self._class()
        if character == "\\":
            if self._peek() == "b":
                self.at += 1
                return ((8, 8),)
            return self._escaped_set()
        return ((ord(character), ord(character)),)


def _cat(items: list[Node]) -> Node:
    flat: list[Node] = []
    for item in items:
        flat += item[1] if item[0] == "cat" else [item]
    return flat[0] if len(flat) == 1 else ("cat", tuple(flat))


def _alt(branches: list[Node]) -> Node:
    flat: list[Node] = []
    for branch in branches:
        flat += branch[1] if branch[0] == "alt" else [branch]
    if len(flat) > 1 and all(branch[0] == "set" for branch in flat):
        return ("set", uc.union(*[branch[1] for branch in flat]))
    return flat[0] if len(flat) == 1 else ("alt", tuple(flat))


def _rep(node: Node, least: int, most: int | None, mode: str) -> Node:
    if (least, most) == (1, 1):
        return node
    # (x{1,3})+ becomes x+: the same matches, found in one way.
    if (
        node[0] == "rep"
        and most is None
        and least <= 1
        and node[2] <= 1
        and mode == node[4] == "greedy"
        and node[1][0] == "set"
    ):
        return ("rep", node[1], least * node[2], None, mode)
    return ("rep", node, least, most, mode)


@lru_cache(maxsize=1)
def _case_folds() -> dict[int, tuple[int, ...]]:
    # Characters that are equal when case is ignored: those with the same one-character case fold.
    groups: dict[str, set[int]] = {}
    for name in ("Lu", "Ll", "Lt", "Mn", "Nl", "So"):
        for first, last in uc.category(name):
            for code_point in range(first, last + 1):
                folded = chr(code_point).casefold()
                if len(folded) == 1 and folded != chr(code_point):
                    groups.setdefault(folded, {ord(folded)}).add(code_point)
    return {one: tuple(sorted(group)) for group in groups.values() for one in group}


def _folded(ranges: Ranges) -> Ranges:
    folds = _case_folds()
    more = [
        (other, other)
        for one, group in folds.items()
        if uc.contains(ranges, one)
        for other in group
    ]
    return uc.union(ranges, more)


# ------------------------------------------------------------------------------------- backtracking


class _Ahead:
    """What follows a node: its possible first characters, whether it may be empty, may fail."""

    __slots__ = ("can_fail", "first", "may_be_empty")

    def __init__(self, first: Ranges, may_be_empty: bool, can_fail: bool) -> None:
        self.first = first
        self.may_be_empty = may_be_empty
        self.can_fail = can_fail


_END = _Ahead((), True, False)


def _make_possessive(node: Node, ahead: _Ahead) -> tuple[Node, _Ahead]:
    """Return the node with possessive repetitions, where that keeps the matches, and a new `ahead`.

    `ahead` describes what follows the node; the returned one describes the node and what follows.
    """
    kind = node[0]
    if kind == "set":
        return node, _Ahead(node[1], False, True)
    if kind == "cat":
        items = list(node[1])
        for at in range(len(items) - 1, -1, -1):
            items[at], ahead = _make_possessive(items[at], ahead)
        return ("cat", tuple(items)), ahead
    if kind == "alt":
        pairs = [_make_possessive(branch, ahead) for branch in node[1]]
        outs = [out for _, out in pairs]
        return ("alt", tuple([branch for branch, _ in pairs])), _Ahead(
            uc.union(*[out.first for out in outs]),
            any(out.may_be_empty for out in outs),
            all(out.can_fail for out in outs),
        )
    if kind == "look":
        inner, _ = _make_possessive(node[3], _END)
        return ("look", node[1], node[2], inner), _Ahead(uc.EVERYTHING, True, True)
    if kind == "at":
        return node, _Ahead(uc.EVERYTHING, True, True)
    if kind == "atomic":
        inner, out = _make_possessive(node[1], _END)
        return ("atomic", inner), _Ahead(
            uc.union(out.first, ahead.first) if out.may_be_empty else out.first,
            out.may_be_empty and ahead.may_be_empty,
            out.can_fail or ahead.can_fail,
        )
    _, body, least, most, mode = node
    _, alone = _make_possessive(body, _END)
    if alone.may_be_empty and (most is None or most > 1):
        raise _Unsafe("it repeats a part that can be empty")
    often = most is None or most > 1
    loop = _Ahead(
        uc.union(alone.first, ahead.first) if often else ahead.first,
        ahead.may_be_empty,
        ahead.can_fail or least > 1,
    )
    body, _ = _make_possessive(
        body,
        loop if mode != "possessive" else _END if not often else _Ahead(alone.first, True, False),
    )
    keeps = not ahead.can_fail or (
        not ahead.may_be_empty and not uc.intersection(alone.first, ahead.first)
    )
    if (
        mode == "greedy"
        and keeps
        and (body[0] == "set" or not ahead.can_fail or _is_unambiguous(body))
    ):
        mode = "possessive"
    out = _Ahead(
        uc.union(alone.first, ahead.first) if least == 0 else alone.first,
        (least == 0 and ahead.may_be_empty) or (alone.may_be_empty and ahead.may_be_empty),
        ahead.can_fail or least > 0,
    )
    return ("rep", body, least, most, mode), out


class _Unsafe(Exception):
    """Why a pattern is refused; callers turn it into a TokenizerFormatError with the pattern."""


def _is_unambiguous(node: Node) -> bool:
    """Return whether the node can match a text in one way only, so that it never backtracks."""
    kind = node[0]
    if kind in ("set", "look", "at", "atomic"):
        return True
    if kind == "cat":
        return all(map(_is_unambiguous, node[1]))
    if kind == "rep":
        return (node[4] == "possessive" or node[2] == node[3]) and _is_unambiguous(node[1])
    firsts = [_make_possessive(branch, _END)[1] for branch in node[1]]
    return (
        all(map(_is_unambiguous, node[1]))
        and not any(one.may_be_empty for one in firsts)
        and not any(
            uc.intersection(one.first, other.first)
            for at, one in enumerate(firsts)
            for other in firsts[:at]
        )
    )


def _is_long(node: Node) -> bool:
    return node[0] == "rep" and (node[3] is None or node[3] > _LONG)


def _contains_long(node: Node) -> bool:
    if _is_long(node):
        return True
    if node[0] in ("cat", "alt"):
        return any(map(_contains_long, node[1]))
    if node[0] == "look":
        return _contains_long(node[3])
    return node[0] in ("rep", "atomic") and _contains_long(node[1])


def _characters(node: Node) -> Ranges:
    return uc.union(*_sets(node))


def _backtracking(node: Node, can_fail: bool) -> int:
    """Return how many long repetitions multiply their cost: those that backtrack, and those read
    again each time another one backtracks. Raises _Unsafe if the cost may be exponential.
    """
    kind = node[0]
    if kind == "cat":
        total = 0
        for at, item in enumerate(node[1]):
            rest_can_fail = (
                can_fail or _make_possessive(("cat", node[1][at + 1 :]), _END)[1].can_fail
            )
            total += _backtracking(item, rest_can_fail)
            if (
                total
                and (rest_can_fail or item[0] == "look")
                and _contains_long(item)
                and not _backtracking(item, rest_can_fail)
            ):
                total += 1
        return total
    if kind == "alt":
        return max(_backtracking(branch, can_fail) for branch in node[1])
    if kind == "look":
        return _backtracking(node[3], False)
    if kind == "atomic":
        return _backtracking(node[1], False)
    if kind != "rep":
        return 0
    _, body, _, most, mode = node
    often = most is None or most > 1
    inside = _backtracking(body, can_fail or often)
    if (often and inside) or (
        _is_long(node) and mode != "possessive" and not _is_unambiguous(body)
    ):
        raise _Unsafe(
            "nested repetitions can match in more than one way, which may take exponential time"
        )
    return inside + (1 if _is_long(node) and mode != "possessive" else 0)


def _count_ways(node: Node) -> int:
    """Return a bound on the ways that short repetitions and alternatives of a node match a text."""
    kind = node[0]
    if kind == "cat":
        return _capped_product(1, [_count_ways(item) for item in node[1]])
    if kind == "alt":
        ways = [_count_ways(branch) for branch in node[1]]
        return max(ways) if _is_unambiguous(node) else sum(ways)
    if kind != "rep" or node[4] == "possessive":
        return _count_ways(node[3]) if kind == "look" else 1
    _, body, least, most, _ = node
    if most is None or most > _LONG:
        return 1
    return _capped_product(most - least + 1, [_count_ways(body)] * most)


def _capped_product(product: int, factors: list[int]) -> int:
    for factor in factors:
        product = min(product * factor, _MAX_WAYS + 1)
    return product


def _quadratic_runs(tree: Node, source: str) -> Ranges:
    """Return the characters whose long runs may take quadratic time.

    Raises TokenizerFormatError if the pattern may take more than that.
    """
    branches = tree[1] if tree[0] == "alt" else (tree,)
    found: list[Ranges] = []
    try:
        for branch in branches:
            if _backtracking(branch, False) > 1:
                raise _Unsafe("consecutive repetitions can divide a run in too many ways")
            if _count_ways(branch) > _MAX_WAYS:
                raise _Unsafe("its short repetitions and alternatives can match in too many ways")
            for scanned in _rescanned_runs(branch):
                if not _is_consumed(branches, scanned):
                    found.append(scanned)
    except _Unsafe as why:
        raise TokenizerFormatError(f"the pattern {source!r:.200} is not supported: {why}") from None
    return uc.union(*found)


def _items(branch: Node) -> tuple[Node, ...]:
    return branch[1] if branch[0] == "cat" else (branch,)


def _rescanned_runs(branch: Node) -> list[Ranges]:
    # The runs that an attempt at this branch may read to the end before it fails.
    out: list[Ranges] = []
    items = _items(branch)
    for at, item in enumerate(items):
        rest = _make_possessive(("cat", items[at + 1 :]), _END)[1]
        if item[0] == "look" and _contains_long(item[3]):
            out.append(_characters(item[3]))
        elif item[0] in ("alt", "atomic") and _contains_long(item):
            out.append(_characters(item))
        elif item[0] == "rep" and _contains_long(item):
            if rest.can_fail or (item[1][0] != "set" and _contains_long(item[1])):
                out.append(_characters(item[1]))
    return out


def _is_consumed(branches: tuple[Node, ...], run: Ranges) -> bool:
    # Whether a branch consumes such a run as a whole, and the branches before it match in the run
    # only a bounded number of times.
    for branch in branches:
        if _consumes_run(branch, run):
            return True
        if not _matches_boundedly(branch, run):
            return False
    return False


def _is_subset(small: Ranges, large: Ranges) -> bool:
    return not uc.difference(small, large)


def _consumes_run(branch: Node, run: Ranges) -> bool:
    # Whether the branch has the form x?y+ with a tail that can't fail, or that succeeds one
    # character earlier, such as (?!\S) after \s+.
    items = _items(branch)
    for at, item in enumerate(items):
        rest = items[at + 1 :]
        if (
            item[0] == "rep"
            and item[1][0] == "set"
            and item[3] is None
            and item[2] <= 2
            and _is_subset(run, item[1][1])
        ):
            if not _make_possessive(("cat", rest), _END)[1].can_fail:
                return True
            return len(rest) == 1 and _is_negative_lookahead(rest[0], item[1][1])
        if not (item[0] == "rep" and item[2] == 0 and not _contains_long(item)):
            return False
    return False


def _is_negative_lookahead(node: Node, taken: Ranges) -> bool:
    return (
        node[0] == "look"
        and node[1]
        and node[2]
        and node[3][0] == "set"
        and not uc.intersection(node[3][1], taken)
    )


def _matches_boundedly(branch: Node, run: Ranges) -> bool:
    # Whether the branch can match only a bounded number of times inside a run.
    first = _make_possessive(branch, _END)[1]
    if not first.may_be_empty and not uc.intersection(first.first, run):
        return True
    items = _items(branch)
    for at, item in enumerate(items):
        if item[0] == "set":
            if not uc.intersection(item[1], run):
                return True  # this item is outside the run
        elif item[0] == "rep" and item[1][0] == "set":
            apart = not uc.intersection(item[1][1], run)
            if apart and item[2] > 0:
                return True
            if item[3] is None and not apart:
                # Greedy: reads the whole run and backtracks to the last place where the rest
                # matches. There is no further match in this run.
                rest = items[at + 1 :]
                single = bool(rest) and (
                    rest[0][0] == "set"
                    or (rest[0][0] == "rep" and rest[0][1][0] == "set" and rest[0][2] == 1)
                )
                return _is_subset(run, item[1][1]) and (
                    item[4] == "possessive" or single or _consumes_run(branch, run)
                )
        elif item[0] not in ("at", "look"):
            return False
    return False


# ------------------------------------------------------------------------------------------ writing


def _to_source(node: Node, within: Ranges) -> str:
    kind = node[0]
    if kind == "set":
        return _set_to_source(node[1], within)
    if kind == "cat":
        return "".join(
            [
                _to_source(item, within) if item[0] != "alt" else f"(?:{_to_source(item, within)})"
                for item in node[1]
            ]
        )
    if kind == "alt":
        return "|".join([_to_source(branch, within) for branch in node[1]])
    if kind == "atomic":
        return f"(?>{_to_source(node[1], within)})"
    if kind == "look":
        if node[1]:
            return f"(?{'!' if node[2] else '='}{_to_source(node[3], within)})"
        # A lookbehind of `re` has a fixed width, so each alternative gets its own.
        looks = [
            f"(?<{'!' if node[2] else '='}{_to_source(one, within)})"
            for one in (node[3][1] if node[3][0] == "alt" else (node[3],))
        ]
        return "".join(looks) if node[2] else f"(?:{'|'.join(looks)})"
    if kind == "at":
        return _assertion_to_source(node[1], within)
    _, body, least, most, mode = node
    inner = _to_source(body, within)
    if body[0] != "set" or inner.startswith("(?!"):
        inner = f"(?:{inner})"
    count = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    if count is None:
        bounds = str(least) if least == most else f"{least},{'' if most is None else most}"
        count = "{" + bounds + "}"
    return inner + count + {"greedy": "", "lazy": "?", "possessive": "+"}[mode]


def _set_to_source(ranges: Ranges, within: Ranges) -> str:
    inside = uc.intersection(ranges, within)
    if len(inside) == 1 and inside[0][0] == inside[0][1]:
        return f"\\U{inside[0][0]:08x}"
    outside = uc.difference(within, ranges)
    if len(outside) < len(inside):
        return uc.class_text(uc.complement(outside))
    return uc.class_text(inside)


def _assertion_to_source(where: str, within: Ranges) -> str:
    if where in ("word edge", "no word edge"):
        word = _set_to_source(uc.named("word"), within)
        one, other = ("!", "=") if where == "word edge" else ("=", "!")
        return f"(?:(?<={word})(?{one}{word})|(?<!{word})(?{other}{word}))"
    return {
        "line start": r"(?:\A|(?<=\n)(?!\Z))", "line end": r"(?=\n|\Z)", "last line end": r"(?=\n?\Z)",
        "text start": r"\A", "text end": r"\Z",
    }[where]  # fmt: skip
