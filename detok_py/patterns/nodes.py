r"""The tree of a regular expression, over explicit sets of characters.

In: the parts that a parser reads. Out: a `Node`. `concatenation`, `alternation` and `repetition`
build the simplest node with the same matches.
"""

from typing import Iterator, NamedTuple, Sequence

from . import unicode_classes as uc
from .unicode_classes import Ranges

NEWLINE: Ranges = ((10, 10),)


class Set(NamedTuple):
    """One character of a set."""

    ranges: Ranges


class Cat(NamedTuple):
    """Nodes one after another."""

    items: tuple["Node", ...]


class Alt(NamedTuple):
    """Alternatives; the first that leads to a match is taken."""

    branches: tuple["Node", ...]
    # Makes it unequal to a Cat of the same nodes: caches compare nodes as tuples.
    sign: str = "|"


class Rep(NamedTuple):
    """A repetition; without a maximum, `most` is None."""

    body: "Node"
    least: int
    most: int | None
    mode: str  # "greedy", "lazy" or "possessive"


class Look(NamedTuple):
    """A lookahead or a lookbehind."""

    ahead: bool
    negated: bool
    body: "Node"


class Atomic(NamedTuple):
    """A group that is not entered again by backtracking."""

    body: "Node"


class At(NamedTuple):
    """An assertion: "text start", "text end", "last line end", "line start", "line end", "word
    edge" or "no word edge".
    """

    where: str


Node = Set | Cat | Alt | Rep | Look | Atomic | At


def concatenation(items: Sequence[Node]) -> Node:
    """Return the node for `items` in sequence.

    >>> concatenation([Cat((At("text start"),))])
    At(where='text start')
    """
    flat: list[Node] = []
    for item in items:
        flat += item.items if isinstance(item, Cat) else [item]
    return flat[0] if len(flat) == 1 else Cat(tuple(flat))


def alternation(branches: Sequence[Node]) -> Node:
    """Return the node for one of `branches`.

    >>> alternation([Set(((97, 97),)), Set(((98, 98),))])
    Set(ranges=((97, 98),))
    """
    flat: list[Node] = []
    for branch in branches:
        flat += branch.branches if isinstance(branch, Alt) else [branch]
    sets = [branch.ranges for branch in flat if isinstance(branch, Set)]
    if len(flat) == len(sets) > 1:
        return Set(uc.union(*sets))
    return flat[0] if len(flat) == 1 else Alt(tuple(flat))


def repetition(body: Node, least: int, most: int | None, mode: str) -> Node:
    """Return the node for `body` repeated.

    >>> letter = Set(((97, 97),))
    >>> repetition(letter, 1, 1, "greedy") is letter
    True
    """
    match body:
        case _ if least == most == 1:
            return body
        # (x{1,3})+ becomes x+: the same matches, found in one way.
        case Rep(Set() as inner, inner_least, _, "greedy") if (
            inner_least <= 1 and least <= 1 and most is None and mode == "greedy"
        ):
            return Rep(inner, least * inner_least, None, mode)
    return Rep(body, least, most, mode)


def sets(node: Node) -> Iterator[Ranges]:
    """Yield the sets that decide what a node matches, in order, with repeats."""
    match node:
        case Set(ranges):
            yield ranges
        case Cat(parts) | Alt(parts):
            for part in parts:
                yield from sets(part)
        case Rep(body=body) | Atomic(body) | Look(body=body):
            yield from sets(body)
        case At("line start" | "line end" | "last line end"):
            yield NEWLINE
        case At("word edge" | "no word edge"):
            yield uc.named("word")
