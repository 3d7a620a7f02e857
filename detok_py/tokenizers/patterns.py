r"""The regular expressions of tokenizer files, turned into what the standard library's `re` runs, and runs in linear time.

In: a pattern as Oniguruma reads it (tokenizer.json) or as Rust's fancy-regex does (tiktoken). Out: a `Pattern` that finds the same matches.

`re` has no `\p{…}`, no `[a&&b]`, reads `\s` and `\w` otherwise, and backtracks. So a pattern is parsed into a tree over explicit sets of
characters (unicode_classes) and written again:

- A repetition that could not give anything back to what follows (nothing after it can fail, or what follows begins with other
  characters) is written possessively, `[…]++`: the same match without a way back.
- What is left must be at most one way back in an alternative, so an attempt costs at most the length of the run it looks at. A repetition
  inside a repetition that could be cut in two ways is refused: `(a+b?)+$` would take exponential time.
- An attempt that reads a long run and fails must not be made again at each character of the run: an alternative that then takes
  the run has to stand behind it (`\s+(?!\S)|\s+`). Where none does, time can grow with the square of a run, and texts with runs of over
  `MAX_RUN` such characters are refused (`\d{1,3}(?=(\d{3})*$)`, say); `Pattern.guarded` says so.

`re` compares a character above FFFF with the ranges of a class one by one. So a text with such characters is matched with stand-ins: each
is replaced by a character below that is in exactly the same sets.
"""

import re
from functools import lru_cache
from itertools import accumulate
from typing import Any, Iterator

from detok_py.errors import TokenizerFormatError
from detok_py.tokenizers import unicode_classes as uc
from detok_py.tokenizers.unicode_classes import Ranges

MAX_SOURCE = 65536
MAX_DEPTH = 32
MAX_RUN = 2000
_LONG = 16  # a repetition up to this often counts as bounded
_MAX_REPEAT = 1000
_MAX_WAYS = 4096

# A node is a tuple: ("set", ranges) · ("cat", nodes) · ("alt", nodes) · ("rep", node, least, most or None, mode) ·
# ("look", ahead, negated, node) · ("atomic", node) · ("at", where)
Node = tuple[Any, ...]

_EMPTY: Node = ("cat", ())
_NEWLINE: Ranges = ((10, 10),)
_DOT = uc.complement(_NEWLINE)
_ASCII: Ranges = ((0, 127),)
_BMP: Ranges = ((0, 0xFFFF),)
_ESCAPED = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7, "e": 27}


class Pattern:
    r"""A compiled pattern: `findall` and `spans` of a text.

    `guarded` is the set of characters whose runs may not be longer than `MAX_RUN`, because time could grow with their square; empty for
    nearly all patterns.

    >>> compile_pattern(r"\p{N}{1,3}|\p{L}+| ?[^\s\p{L}\p{N}]+|\s+").findall("añ 1234 ⅷ!")
    ['añ', ' ', '123', '4', ' ', 'ⅷ', '!']
    """

    def __init__(self, source: str, flavour: str = "oniguruma") -> None:
        self.source = source
        tree = _Parser(source, flavour).parse()
        try:
            tree, start = _settle(tree, _END)
        except _Unsafe as why:
            raise TokenizerFormatError(f"the pattern {source!r:.200} is not supported: {why}") from None
        self.nullable = start.may_be_empty
        self.guarded = _uncovered(tree, source)
        self._tree = tree
        self._ascii = self._compile(_ASCII)
        self._bmp: re.Pattern[str] | None = None
        self._whole: re.Pattern[str] | None = None
        self._stand_ins: _StandIns | None = None
        self._guard = re.compile(uc.class_text(self.guarded) + "++") if self.guarded else None

    def __repr__(self) -> str:
        return f"Pattern({self.source!r})"

    def findall(self, text: str) -> list[str]:
        """Return the text of every match, in order; empty matches are left out."""
        if self.nullable:
            return [text[first:last] for first, last in self.spans(text) if first < last]
        machine, look = self._machine(text)
        found: list[str] = machine.findall(look)
        if look is text:
            return found
        if sum(map(len, found)) != len(text):
            return [text[match.start() : match.end()] for match in machine.finditer(look)]
        ends = list(accumulate(map(len, found)))
        return list(map(text.__getitem__, map(slice, [0, *ends], ends)))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Give where each match begins and ends. An empty match never touches the end of the match before it."""
        machine, look = self._machine(text)
        if not self.nullable:
            for match in machine.finditer(look):
                yield match.span()
            return
        at, before = 0, -1
        while at <= len(look):
            found = machine.search(look, at)
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

    def _machine(self, text: str) -> tuple[re.Pattern[str], str]:
        if self._guard is not None:
            longest = max((found.end() - found.start() for found in self._guard.finditer(text)), default=0)
            if longest > MAX_RUN:
                raise TokenizerFormatError(
                    f"the pattern {self.source!r:.200} takes time with the square of a run, and the text has a run of {longest} such "
                    f"characters; at most {MAX_RUN} are encoded"
                )
        if text.isascii():
            return self._ascii, text
        if self._bmp is None:
            self._bmp = self._compile(_BMP)
        if len(text.encode("utf-16-le", "surrogatepass")) == 2 * len(text):
            return self._bmp, text
        if self._stand_ins is None:
            self._stand_ins = _StandIns(self._tree)
        look = self._stand_ins.replace(text)
        if look is not None:
            return self._bmp, look
        if self._whole is None:
            self._whole = self._compile(uc.EVERYTHING)
        return self._whole, text

    def _compile(self, within: Ranges) -> re.Pattern[str]:
        try:
            return re.compile(_write(self._tree, within))
        except (re.error, OverflowError, RecursionError) as error:
            raise TokenizerFormatError(f"the pattern {self.source!r:.200} is not supported: {error}") from None


@lru_cache(maxsize=64)
def compile_pattern(source: str, flavour: str = "oniguruma") -> Pattern:
    r"""Return the `Pattern` of a source text.

    `flavour` is "oniguruma" (tokenizer.json; `^` and `$` are ends of lines) or "rust" (fancy-regex, tiktoken; ends of the text).
    Raises TokenizerFormatError for what isn't supported (back-references, conditionals, `\X`), and for a pattern that could take more than
    the square of a run's length.

    >>> try:
    ...     compile_pattern(r"(a+b?)+$")
    ... except TokenizerFormatError as error:
    ...     print(str(error)[:78])
    the pattern '(a+b?)+$' is not supported: it repeats what can itself repeat, in
    """
    if flavour not in ("oniguruma", "rust"):
        raise ValueError(f"flavour is {flavour!r}; expected 'oniguruma' or 'rust'")
    return Pattern(source, flavour)


class _StandIns:
    # For each character above FFFF, one below that every set of the pattern treats alike.

    def __init__(self, tree: Node) -> None:
        self._sets = sorted(set(_sets(tree)))
        self._by_kind: dict[tuple[bool, ...], str] = {}
        for first in sorted({edge for one in self._sets for pair in one for edge in (pair[0], pair[1] + 1)} | {0}):
            if first < 0xD800 or 0xE000 <= first <= 0xFFFF:
                self._by_kind.setdefault(self._kind(first), chr(first))
        self._known: dict[str, str | None] = {}
        self._search = re.compile("[\\U00010000-\\U0010ffff]")

    def _kind(self, code_point: int) -> tuple[bool, ...]:
        return tuple([uc.contains(one, code_point) for one in self._sets])

    def replace(self, text: str) -> str | None:
        known = self._known
        if len(known) >= 65536:
            known.clear()
        for character in set(self._search.findall(text)):
            if character not in known:
                known[character] = self._by_kind.get(self._kind(ord(character)))
            if known[character] is None:
                return None
        return self._search.sub(lambda match: known[match.group()] or "", text)


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


# ------------------------------------------------------------------------------------------------------------ reading


class _Parser:
    def __init__(self, source: str, flavour: str) -> None:
        if len(source) > MAX_SOURCE:
            raise TokenizerFormatError(f"a pattern has {len(source)} characters; supported: at most {MAX_SOURCE}")
        self.source = source
        self.ruby = flavour == "oniguruma"
        self.at = 0
        self.depth = 0
        self.fold = self.dot_all = self.extended = self.lines = False

    def parse(self) -> Node:
        tree = self._alternatives()
        if self.at < len(self.source):
            raise self._wrong("it closes a group that it didn't open")
        return tree

    def _wrong(self, why: str) -> TokenizerFormatError:
        return TokenizerFormatError(f"the pattern {self.source!r:.200} is not supported: {why} (at character {self.at})")

    def _peek(self, length: int = 1) -> str:
        return self.source[self.at : self.at + length]

    def _take(self, length: int = 1) -> str:
        text = self._peek(length)
        if len(text) < length:
            raise self._wrong("it ends too early")
        self.at += length
        return text

    def _until(self, end: str) -> str:
        stop = self.source.find(end, self.at)
        if stop < 0:
            raise self._wrong(f"there is no {end!r} to close it")
        text = self.source[self.at : stop]
        self.at = stop + len(end)
        return text

    def _alternatives(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._wrong(f"its groups are nested more than {MAX_DEPTH} deep")
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
                self.at = self.source.find("\n", self.at) + 1 or len(self.source) if next_one == "#" else self.at + 1
                continue
            item = self._item()
            if item is not None:
                items.append(self._repeated(item))
        if self.fold:
            self._refuse_wide_folds(items)
        return _cat(items)

    def _refuse_wide_folds(self, items: list[Node]) -> None:
        # Ignoring case, `ss` also matches `ß` in Oniguruma; nobody's pattern needs it, so it is refused and not done wrong.
        text = "".join(chr(item[1][0][0]) if item[0] == "set" and len(item[1]) <= 4 else "\n" for item in items).casefold()
        for pair in ("ss", "ff", "fi", "fl", "st", "ʼn"):
            if pair in text and self.ruby:
                raise self._wrong(f"ignoring case, {pair!r} also is a single character")

    def _item(self) -> Node | None:
        character = self._take()
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
            raise self._wrong(f"{character!r} repeats nothing")
        return self._literal(ord(character))

    def _literal(self, code_point: int) -> Node:
        return ("set", _folded(((code_point, code_point),)) if self.fold else ((code_point, code_point),))

    def _group(self) -> Node | None:
        if self._peek() != "?":
            return self._closed(self._alternatives())
        self.at += 1
        kind = self._take()
        if kind == "#":
            self._until(")")
            return None
        if kind == ":":
            return self._closed(self._alternatives())
        if kind == ">":
            return ("atomic", self._closed(self._alternatives()))
        if kind in "=!":
            return ("look", True, kind == "!", self._closed(self._alternatives()))
        if kind == "P" and self._peek() == "<":
            kind = self._take()
        if kind == "<":
            if self._peek() in ("=", "!"):
                negated = self._take() == "!"
                return ("look", False, negated, self._closed(self._alternatives()))
            self._until(">")
            return self._closed(self._alternatives())
        self.at -= 1
        return self._flags()

    def _flags(self) -> Node | None:
        on = True
        flags = self.fold, self.dot_all, self.extended, self.lines
        while (letter := self._take()) not in ":)":
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
                raise self._wrong(f"the group '(?{letter}' is not known")
        if letter == ")":
            # In Oniguruma the rest of the group, alternatives and all, is under the flag: a(?i)b|c is a(?i:b|c).
            return self._alternatives() if self.ruby else None
        inner = self._closed(self._alternatives())
        self.fold, self.dot_all, self.extended, self.lines = flags
        return inner

    def _closed(self, node: Node) -> Node:
        if self._peek() != ")":
            raise self._wrong("a group is not closed")
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
                    return node  # a brace that isn't a repetition is itself
                self.at = found.end()
                least = int(found[1] or 0)
                bounds = (least, least if not found[2] else int(found[3]) if found[3] else None)
            if bounds is None:
                return node
            least, most = bounds
            if least > _MAX_REPEAT or (most is not None and not least <= most <= _MAX_REPEAT):
                raise self._wrong(f"a repetition of {least} to {most} times; supported: at most {_MAX_REPEAT}")
            mode = "greedy"
            if self._peek() == "?":
                self.at += 1
                mode = "lazy"
                if sign == "{" and self.ruby and least == most:  # Oniguruma: a{2}? is (a{2})?
                    node, least, most, mode = _rep(node, least, most, "greedy"), 0, 1, "greedy"
            elif self._peek() == "+" and (sign != "{" or not self.ruby):  # Oniguruma: a{2}+ is (a{2})+
                self.at += 1
                mode = "possessive"
            if node[0] in ("look", "at"):
                raise self._wrong("it repeats an assertion")
            node = _rep(node, least, most, mode)

    def _escape(self) -> Node | None:
        letter = self._take()
        if letter in "AzZbB":
            where = {"A": "text start", "z": "text end", "Z": "last line end", "b": "word edge", "B": "no word edge"}[letter]
            return ("at", where)
        if letter == "R":
            newline: Node = _cat([("set", ((13, 13),)), ("set", _NEWLINE)])
            return ("atomic", _alt([newline, ("set", uc.parse("A-D 85 2028-2029"))]))
        if letter == "K" or letter == "G" or letter == "X" or letter == "k" or letter == "g" or letter in "123456789":
            raise self._wrong(f"\\{letter} is not known here")
        self.at -= 1
        if letter in "wW" and self.ruby:
            # Outside of a class Oniguruma's \\w has the numbers of Latin-1 (² ³ ¹ ¼ ½ ¾) as well.
            self.at += 1
            return ("set", uc.named("word") if letter == "w" else uc.complement(uc.named("word")))
        ranges = self._escaped_set()
        return ("set", _folded(ranges) if self.fold else ranges)

    def _escaped_set(self) -> Ranges:
        # After the backslash, inside or outside of a class.
        letter = self._take()
        if letter in "pP":
            name = self._until("}") if self._peek() == "{" and self._take() else self._take()
            negated = (letter == "P") != name.startswith("^")
            ranges = uc.named(name.lstrip("^"))
            return uc.complement(ranges) if negated else ranges
        if letter in "dDsSwWhH":
            if letter in "hH" and not self.ruby:
                raise self._wrong(f"\\{letter} is not known")
            kind = letter.lower()
            if kind == "w":
                ranges = self._word()
            else:
                ranges = uc.WHITE_SPACE if kind == "s" else uc.category("Nd") if kind == "d" else uc.named("xdigit")
            return uc.complement(ranges) if letter.isupper() else ranges
        if letter in "xu":
            if self._peek() == "{":
                self.at += 1
                digits = self._until("}")
            else:
                digits = self._take(2 if letter == "x" else 4)
            try:
                code_point = int(digits, 16)
            except ValueError:
                raise self._wrong(f"{digits!r} is not a hexadecimal number") from None
            if code_point > uc.MAX_CODE_POINT:
                raise self._wrong(f"{digits!r} is beyond Unicode")
            return ((code_point, code_point),)
        if letter == "0":
            return ((0, 0),)
        code_point = _ESCAPED.get(letter, ord(letter))
        if letter.isalnum() and letter not in _ESCAPED:
            raise self._wrong(f"\\{letter} is not known")
        return ((code_point, code_point),)

    def _word(self) -> Ranges:
        return uc.word() if self.ruby else uc.rust_word()

    def _class(self) -> Ranges:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._wrong(f"its classes are nested more than {MAX_DEPTH} deep")
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
            if len(item) == 1 and item[0][0] == item[0][1] and self._peek() == "-" and self._peek(2) not in ("-]", "-["):
                self.at += 1
                last = self._class_item()
                if len(last) != 1 or last[0][0] != last[0][1]:
                    item = uc.union(item, ((45, 45),), last)
                elif last[0][0] < item[0][0]:
                    raise self._wrong("a range runs backwards")
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
        character = self._take()
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
    # (x{1,3})+ is x+: the same matches, and one way to find them.
    if node[0] == "rep" and most is None and least <= 1 and node[2] <= 1 and mode == node[4] == "greedy" and node[1][0] == "set":
        return ("rep", node[1], least * node[2], None, mode)
    return ("rep", node, least, most, mode)


@lru_cache(maxsize=1)
def _orbits() -> dict[int, tuple[int, ...]]:
    # Characters that are one when case is ignored: those with the same one-character fold.
    groups: dict[str, set[int]] = {}
    for name in ("Lu", "Ll", "Lt", "Mn", "Nl", "So"):
        for first, last in uc.category(name):
            for code_point in range(first, last + 1):
                folded = chr(code_point).casefold()
                if len(folded) == 1 and folded != chr(code_point):
                    groups.setdefault(folded, {ord(folded)}).add(code_point)
    return {one: tuple(sorted(group)) for group in groups.values() for one in group}


def _folded(ranges: Ranges) -> Ranges:
    orbits = _orbits()
    more = [(other, other) for one, group in orbits.items() if uc.contains(ranges, one) for other in group]
    return uc.union(ranges, more)


# ----------------------------------------------------------------------------------------- which ways back are needed


class _Ahead:
    """What can come next: the first character it may take, whether it may take none, whether it can fail."""

    __slots__ = ("can_fail", "first", "may_be_empty")

    def __init__(self, first: Ranges, may_be_empty: bool, can_fail: bool) -> None:
        self.first = first
        self.may_be_empty = may_be_empty
        self.can_fail = can_fail


_END = _Ahead((), True, False)


def _settle(node: Node, ahead: _Ahead) -> tuple[Node, _Ahead]:
    """Write repetitions possessively where that changes nothing, given what comes after; return the node and what it makes of `ahead`."""
    kind = node[0]
    if kind == "set":
        return node, _Ahead(node[1], False, True)
    if kind == "cat":
        items = list(node[1])
        for at in range(len(items) - 1, -1, -1):
            items[at], ahead = _settle(items[at], ahead)
        return ("cat", tuple(items)), ahead
    if kind == "alt":
        pairs = [_settle(branch, ahead) for branch in node[1]]
        outs = [out for _, out in pairs]
        return ("alt", tuple([branch for branch, _ in pairs])), _Ahead(
            uc.union(*[out.first for out in outs]), any(out.may_be_empty for out in outs), all(out.can_fail for out in outs)
        )
    if kind == "look":
        inner, _ = _settle(node[3], _END)
        return ("look", node[1], node[2], inner), _Ahead(uc.EVERYTHING, True, True)
    if kind == "at":
        return node, _Ahead(uc.EVERYTHING, True, True)
    if kind == "atomic":
        inner, out = _settle(node[1], _END)
        return ("atomic", inner), _Ahead(
            uc.union(out.first, ahead.first) if out.may_be_empty else out.first,
            out.may_be_empty and ahead.may_be_empty,
            out.can_fail or ahead.can_fail,
        )
    _, body, least, most, mode = node
    _, alone = _settle(body, _END)
    if alone.may_be_empty and (most is None or most > 1):
        raise _Unsafe("it repeats what can be empty")
    often = most is None or most > 1
    loop = _Ahead(
        uc.union(alone.first, ahead.first) if often else ahead.first, ahead.may_be_empty, ahead.can_fail or least > 1
    )
    body, _ = _settle(body, loop if mode != "possessive" else _END if not often else _Ahead(alone.first, True, False))
    keeps = not ahead.can_fail or (not ahead.may_be_empty and not uc.intersection(alone.first, ahead.first))
    if mode == "greedy" and keeps and (body[0] == "set" or not ahead.can_fail or _one_way(body)):
        mode = "possessive"
    out = _Ahead(
        uc.union(alone.first, ahead.first) if least == 0 else alone.first,
        (least == 0 and ahead.may_be_empty) or (alone.may_be_empty and ahead.may_be_empty),
        ahead.can_fail or least > 0,
    )
    return ("rep", body, least, most, mode), out


class _Unsafe(Exception):
    """Why a pattern is refused; turned into a TokenizerFormatError where the pattern's source is known."""


def _one_way(node: Node) -> bool:
    """Say whether the node can match a given text in one way only, so that failing later needs no second try."""
    kind = node[0]
    if kind in ("set", "look", "at", "atomic"):
        return True
    if kind == "cat":
        return all(map(_one_way, node[1]))
    if kind == "rep":
        return (node[4] == "possessive" or node[2] == node[3]) and _one_way(node[1])
    firsts = [_settle(branch, _END)[1] for branch in node[1]]
    return (
        all(map(_one_way, node[1]))
        and not any(one.may_be_empty for one in firsts)
        and not any(uc.intersection(one.first, other.first) for at, one in enumerate(firsts) for other in firsts[:at])
    )


def _long(node: Node) -> bool:
    return node[0] == "rep" and (node[3] is None or node[3] > _LONG)


def _has_long(node: Node) -> bool:
    if _long(node):
        return True
    if node[0] in ("cat", "alt"):
        return any(map(_has_long, node[1]))
    if node[0] == "look":
        return _has_long(node[3])
    return node[0] in ("rep", "atomic") and _has_long(node[1])


def _characters(node: Node) -> Ranges:
    return uc.union(*_sets(node))


def _ways_back(node: Node, can_fail: bool) -> int:
    """Count the long repetitions whose ways multiply: those that may have to give back, and those read again each time one does."""
    kind = node[0]
    if kind == "cat":
        total = 0
        for at, item in enumerate(node[1]):
            rest_can_fail = can_fail or _settle(("cat", node[1][at + 1 :]), _END)[1].can_fail
            total += _ways_back(item, rest_can_fail)
            if total and (rest_can_fail or item[0] == "look") and _has_long(item) and not _ways_back(item, rest_can_fail):
                total += 1
        return total
    if kind == "alt":
        return max(_ways_back(branch, can_fail) for branch in node[1])
    if kind == "look":
        return _ways_back(node[3], False)
    if kind == "atomic":
        return _ways_back(node[1], False)
    if kind != "rep":
        return 0
    _, body, _, most, mode = node
    often = most is None or most > 1
    inside = _ways_back(body, can_fail or often)
    if (often and inside) or (_long(node) and mode != "possessive" and not _one_way(body)):
        raise _Unsafe("it repeats what can itself repeat, in more ways than one, which may take exponential time")
    return inside + (1 if _long(node) and mode != "possessive" else 0)


def _ways(node: Node) -> int:
    """Bound the ways in which the short repetitions and alternatives of a node can match a text."""
    kind = node[0]
    if kind == "cat":
        return _capped(1, [_ways(item) for item in node[1]])
    if kind == "alt":
        ways = [_ways(branch) for branch in node[1]]
        return max(ways) if _one_way(node) else sum(ways)
    if kind != "rep" or node[4] == "possessive":
        return _ways(node[3]) if kind == "look" else 1
    _, body, least, most, _ = node
    if most is None or most > _LONG:
        return 1
    return _capped(most - least + 1, [_ways(body)] * most)


def _capped(product: int, factors: list[int]) -> int:
    for factor in factors:
        product = min(product * factor, _MAX_WAYS + 1)
    return product


def _uncovered(tree: Node, source: str) -> Ranges:
    """Return the characters whose long runs could be read again and again; raise TokenizerFormatError where it would be worse than that."""
    branches = tree[1] if tree[0] == "alt" else (tree,)
    found: list[Ranges] = []
    try:
        for branch in branches:
            if _ways_back(branch, False) > 1:
                raise _Unsafe("repetitions in a row can share a run in too many ways")
            if _ways(branch) > _MAX_WAYS:
                raise _Unsafe("its short repetitions and alternatives can match in too many ways")
            for scanned in _read_and_failed(branch):
                if not _is_taken(branches, scanned):
                    found.append(scanned)
    except _Unsafe as why:
        raise TokenizerFormatError(f"the pattern {source!r:.200} is not supported: {why}") from None
    return uc.union(*found)


def _items(branch: Node) -> tuple[Node, ...]:
    return branch[1] if branch[0] == "cat" else (branch,)


def _read_and_failed(branch: Node) -> list[Ranges]:
    # The runs that an attempt at this branch may read to the end before it fails.
    out: list[Ranges] = []
    items = _items(branch)
    for at, item in enumerate(items):
        rest = _settle(("cat", items[at + 1 :]), _END)[1]
        if item[0] == "look" and _has_long(item[3]):
            out.append(_characters(item[3]))
        elif item[0] in ("alt", "atomic") and _has_long(item):
            out.append(_characters(item))
        elif item[0] == "rep" and _has_long(item):
            if rest.can_fail or (item[1][0] != "set" and _has_long(item[1])):
                out.append(_characters(item[1]))
    return out


def _is_taken(branches: tuple[Node, ...], run: Ranges) -> bool:
    # Whether some branch takes such a run once it is read, and none before it nibbles at it more often than a fixed number of times.
    for branch in branches:
        if _takes(branch, run):
            return True
        if not _leaves(branch, run):
            return False
    return False


def _inside(small: Ranges, large: Ranges) -> bool:
    return not uc.difference(small, large)


def _takes(branch: Node, run: Ranges) -> bool:
    # x?y+ with a tail that cannot fail, or fails no further than one character back: (?!\S) after \s+.
    items = _items(branch)
    for at, item in enumerate(items):
        rest = items[at + 1 :]
        if item[0] == "rep" and item[1][0] == "set" and item[3] is None and item[2] <= 2 and _inside(run, item[1][1]):
            if not _settle(("cat", rest), _END)[1].can_fail:
                return True
            return len(rest) == 1 and _refuses_only(rest[0], item[1][1])
        if not (item[0] == "rep" and item[2] == 0 and not _has_long(item)):
            return False
    return False


def _refuses_only(node: Node, taken: Ranges) -> bool:
    return node[0] == "look" and node[1] and node[2] and node[3][0] == "set" and not uc.intersection(node[3][1], taken)


def _leaves(branch: Node, run: Ranges) -> bool:
    # Whether the branch, begun in a run, can match only a fixed number of times before the run is over.
    first = _settle(branch, _END)[1]
    if not first.may_be_empty and not uc.intersection(first.first, run):
        return True
    items = _items(branch)
    for at, item in enumerate(items):
        if item[0] == "set":
            if not uc.intersection(item[1], run):
                return True  # it must step out of the run here
        elif item[0] == "rep" and item[1][0] == "set":
            apart = not uc.intersection(item[1][1], run)
            if apart and item[2] > 0:
                return True
            if item[3] is None and not apart:
                # Takes all, then gives back to the last place where the rest matches: there is none after it in this run.
                rest = items[at + 1 :]
                single = bool(rest) and (rest[0][0] == "set" or (rest[0][0] == "rep" and rest[0][1][0] == "set" and rest[0][2] == 1))
                return _inside(run, item[1][1]) and (item[4] == "possessive" or single or _takes(branch, run))
        elif item[0] not in ("at", "look"):
            return False
    return False


# ------------------------------------------------------------------------------------------------------------ writing


def _write(node: Node, within: Ranges) -> str:
    kind = node[0]
    if kind == "set":
        return _write_set(node[1], within)
    if kind == "cat":
        return "".join([_write(item, within) if item[0] != "alt" else f"(?:{_write(item, within)})" for item in node[1]])
    if kind == "alt":
        return "|".join([_write(branch, within) for branch in node[1]])
    if kind == "atomic":
        return f"(?>{_write(node[1], within)})"
    if kind == "look":
        if node[1]:
            return f"(?{'!' if node[2] else '='}{_write(node[3], within)})"
        # `re` looks behind by a fixed width only: one look for each alternative.
        looks = [f"(?<{'!' if node[2] else '='}{_write(one, within)})" for one in (node[3][1] if node[3][0] == "alt" else (node[3],))]
        return "".join(looks) if node[2] else f"(?:{'|'.join(looks)})"
    if kind == "at":
        return _write_place(node[1], within)
    _, body, least, most, mode = node
    inner = _write(body, within)
    if body[0] != "set" or inner.startswith("(?!"):
        inner = f"(?:{inner})"
    count = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    if count is None:
        count = "{%d}" % least if least == most else "{%d,%s}" % (least, "" if most is None else most)  # noqa: UP031
    return inner + count + {"greedy": "", "lazy": "?", "possessive": "+"}[mode]


def _write_set(ranges: Ranges, within: Ranges) -> str:
    inside = uc.intersection(ranges, within)
    if len(inside) == 1 and inside[0][0] == inside[0][1]:
        return f"\\U{inside[0][0]:08x}"
    outside = uc.difference(within, ranges)
    if len(outside) < len(inside):
        return uc.class_text(uc.complement(outside))
    return uc.class_text(inside)


def _write_place(where: str, within: Ranges) -> str:
    if where in ("word edge", "no word edge"):
        word = _write_set(uc.named("word"), within)
        one, other = ("!", "=") if where == "word edge" else ("=", "!")
        return f"(?:(?<={word})(?{one}{word})|(?<!{word})(?{other}{word}))"
    return {
        "line start": r"(?:\A|(?<=\n)(?!\Z))", "line end": r"(?=\n|\Z)", "last line end": r"(?=\n?\Z)",
        "text start": r"\A", "text end": r"\Z",
    }[where]  # fmt: skip
