r"""Read the source of a regular expression into a tree.

In: a pattern in the syntax of Oniguruma (tokenizer.json) or Rust's fancy-regex (tiktoken). Out: a
`Node` over explicit sets of characters. What `re` can't match in the same way, as back-references
and conditionals, raises TokenizerFormatError with its place in the pattern.
"""

import re
from functools import lru_cache

from ..errors import TokenizerFormatError
from . import unicode_classes as uc
from .nodes import (
    NEWLINE,
    At,
    Atomic,
    Look,
    Node,
    Set,
    alternation,
    concatenation,
    repetition,
)
from .unicode_classes import Ranges

MAX_SOURCE = 65536
MAX_DEPTH = 32
_MAX_REPEAT = 1000
_MAX_STACKED = 4

_DOT = uc.complement(NEWLINE)
_COUNTS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_ESCAPED = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7, "e": 27}
_ASSERTIONS = {
    "A": "text start",
    "z": "text end",
    "Z": "last line end",
    "b": "word edge",
    "B": "no word edge",
}


def parse(source: str, flavour: str) -> Node:
    """Return the tree of a pattern in the syntax of "oniguruma" or "rust".

    >>> parse("a{2}", "rust")
    Rep(body=Set(ranges=((97, 97),)), least=2, most=2, mode='greedy')
    """
    return _Parser(source, flavour).whole()


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

    def whole(self) -> Node:
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
        return alternation(branches)

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
        return concatenation(items)

    def _refuse_wide_folds(self, items: list[Node]) -> None:
        # Ignoring case, `ss` also matches `ß` in Oniguruma. No known tokenizer needs this.
        text = "".join(
            chr(item.ranges[0][0]) if isinstance(item, Set) and 0 < len(item.ranges) <= 4 else "\n"
            for item in items
        ).casefold()
        for pair in ("ss", "ff", "fi", "fl", "st", "ʼn"):
            if pair in text and self.ruby:
                raise self._error(f"ignoring case, {pair!r} also matches a single character")

    def _item(self) -> Node | None:
        character = self._read()
        if character == "(":
            return self._group()
        if character == "[":
            return Set(self._class())
        if character == ".":
            return Set(uc.EVERYTHING if self.dot_all else _DOT)
        if character == "^":
            return At("line start" if self.ruby or self.lines else "text start")
        if character == "$":
            return At("line end" if self.ruby or self.lines else "text end")
        if character == "\\":
            return self._escape()
        if character in "*+?":
            raise self._error(f"{character!r} has nothing to repeat")
        return self._literal(ord(character))

    def _literal(self, code_point: int) -> Node:
        one = ((code_point, code_point),)
        return Set(_folded(one) if self.fold else one)

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
            return Atomic(self._expect_close(self._alternatives()))
        if kind in "=!":
            return Look(True, kind == "!", self._expect_close(self._alternatives()))
        if kind == "P" and self._peek() == "<":
            kind = self._read()
        if kind == "<":
            if self._peek() in ("=", "!"):
                negated = self._read() == "!"
                return Look(False, negated, self._expect_close(self._alternatives()))
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
        stacked = 0
        while True:
            sign = self._peek()
            if sign in _COUNTS:
                self.at += 1
                least, most = _COUNTS[sign]
            elif sign == "{":
                found = re.compile(r"\{(\d{0,6})(,?)(\d{0,6})\}").match(self.source, self.at)
                if found is None or not (found[1] or found[3]) or (not found[1] and not self.ruby):
                    return node  # a brace that isn't a repetition is a literal
                self.at = found.end()
                least = int(found[1] or 0)
                most = least if not found[2] else int(found[3]) if found[3] else None
            else:
                return node
            stacked += 1
            if stacked > _MAX_STACKED:
                raise self._error(f"more than {_MAX_STACKED} repetitions follow each other")
            if least > _MAX_REPEAT or (most is not None and not least <= most <= _MAX_REPEAT):
                raise self._error(
                    f"it repeats {least} to {most} times; supported: at most {_MAX_REPEAT}"
                )
            mode = "greedy"
            if self._peek() == "?":
                self.at += 1
                mode = "lazy"
                if sign == "{" and self.ruby and least == most:  # Oniguruma: a{2}? is (a{2})?
                    node = repetition(node, least, most, "greedy")
                    least, most, mode = 0, 1, "greedy"
            elif self._peek() == "+" and (sign != "{" or not self.ruby):
                # In Oniguruma a{2}+ is (a{2})+.
                self.at += 1
                mode = "possessive"
            if isinstance(node, Look | At):
                raise self._error("it repeats an assertion")
            node = repetition(node, least, most, mode)

    def _escape(self) -> Node | None:
        letter = self._read()
        if letter in _ASSERTIONS:
            return At(_ASSERTIONS[letter])
        if letter == "R":
            newline = concatenation([Set(((13, 13),)), Set(NEWLINE)])
            return Atomic(alternation([newline, Set(uc.parse("A-D 85 2028-2029"))]))
        if letter in "KGXkg123456789":
            raise self._error(f"\\{letter} is not known here")
        if letter in "wW" and self.ruby:
            # Outside a class, Oniguruma's \\w includes the numbers of Latin-1 (² ³ ¹ ¼ ½ ¾).
            return Set(uc.named("word") if letter == "w" else uc.complement(uc.named("word")))
        self.at -= 1
        ranges = self._escaped_set()
        return Set(_folded(ranges) if self.fold else ranges)

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
            ranges = self._shorthand(letter.lower())
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

    def _shorthand(self, letter: str) -> Ranges:
        if letter == "w":
            return uc.word() if self.ruby else uc.rust_word()
        if letter == "s":
            return uc.WHITE_SPACE
        return uc.category("Nd") if letter == "d" else uc.named("xdigit")

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
