r"""Bound the backtracking of a regular expression.

In: a tree. Out: `make_possessive`, the tree with the same matches and less backtracking, and
`quadratic_runs`, the characters whose long runs may still take quadratic time. What may take more
raises `Unsafe`.
"""

from functools import lru_cache
from math import prod
from typing import NamedTuple

from . import unicode_classes as uc
from .nodes import Alt, At, Atomic, Cat, Look, Node, Rep, Set, sets
from .unicode_classes import Ranges

_LONG = 16  # a repetition with a maximum up to this counts as short
_MAX_WAYS = 4096


class Ahead(NamedTuple):
    """What follows a node: its possible first characters, whether it may be empty, may fail."""

    first: Ranges
    may_be_empty: bool
    can_fail: bool


END = Ahead((), True, False)
_ASSERTION = Ahead(uc.EVERYTHING, True, True)


class Unsafe(Exception):
    """Why a pattern is refused; callers turn it into a TokenizerFormatError with the pattern."""


def make_possessive(node: Node, ahead: Ahead) -> tuple[Node, Ahead]:
    """Return the node with possessive repetitions, where that keeps the matches, and a new `ahead`.

    `ahead` describes what follows the node; the returned one describes the node and what follows.

    >>> make_possessive(Rep(Set(((97, 97),)), 1, None, "greedy"), END)[0].mode
    'possessive'
    """
    match node:
        case Set(ranges):
            return node, Ahead(ranges, False, True)
        case Cat(items):
            done: list[Node] = []
            for item in reversed(items):
                item, ahead = make_possessive(item, ahead)
                done.append(item)
            return Cat(tuple(reversed(done))), ahead
        case Alt(branches):
            pairs = [make_possessive(branch, ahead) for branch in branches]
            outs = [out for _, out in pairs]
            return Alt(tuple([branch for branch, _ in pairs])), Ahead(
                uc.union(*[out.first for out in outs]),
                any(out.may_be_empty for out in outs),
                all(out.can_fail for out in outs),
            )
        case Look(forward, negated, body):
            return Look(forward, negated, make_possessive(body, END)[0]), _ASSERTION
        case At():
            return node, _ASSERTION
        case Atomic(body):
            inner, out = make_possessive(body, END)
            return Atomic(inner), Ahead(
                uc.union(out.first, ahead.first) if out.may_be_empty else out.first,
                out.may_be_empty and ahead.may_be_empty,
                out.can_fail or ahead.can_fail,
            )
        case Rep():
            return _make_repetition_possessive(node, ahead)


def _make_repetition_possessive(node: Rep, ahead: Ahead) -> tuple[Node, Ahead]:
    body, least, most, mode = node
    alone = _start(body)
    often = most is None or most > 1
    if alone.may_be_empty and often:
        raise Unsafe("it repeats a part that can be empty")
    after_body = Ahead(
        uc.union(alone.first, ahead.first) if often else ahead.first,
        ahead.may_be_empty,
        ahead.can_fail or least > 1,
    )
    if mode == "possessive":
        after_body = Ahead(alone.first, True, False) if often else END
    body, _ = make_possessive(body, after_body)
    keeps = not ahead.can_fail or (
        not ahead.may_be_empty and not uc.intersection(alone.first, ahead.first)
    )
    if mode == "greedy" and keeps and (not ahead.can_fail or _is_unambiguous(body)):
        mode = "possessive"
    return Rep(body, least, most, mode), Ahead(
        uc.union(alone.first, ahead.first) if least == 0 else alone.first,
        (least == 0 or alone.may_be_empty) and ahead.may_be_empty,
        ahead.can_fail or least > 0,
    )


@lru_cache(maxsize=256)  # without it a repetition in a repetition takes twice as long
def _start(*items: Node) -> Ahead:
    """Return what nodes in sequence begin with, if nothing follows them."""
    return make_possessive(Cat(items), END)[1]


def _is_unambiguous(node: Node) -> bool:
    """Return whether the node can match a text in one way only, so that it never backtracks."""
    match node:
        case Cat(items):
            return all(map(_is_unambiguous, items))
        case Rep(body, least, most, mode):
            return (mode == "possessive" or least == most) and _is_unambiguous(body)
        case Alt(branches):
            starts = [_start(branch) for branch in branches]
            return (
                all(map(_is_unambiguous, branches))
                and not any(one.may_be_empty for one in starts)
                and not any(
                    uc.intersection(one.first, other.first)
                    for at, one in enumerate(starts)
                    for other in starts[:at]
                )
            )
    return True


def _is_long(node: Node) -> bool:
    return isinstance(node, Rep) and (node.most is None or node.most > _LONG)


def _contains_long(node: Node) -> bool:
    match node:
        case Cat(parts) | Alt(parts):
            return any(map(_contains_long, parts))
        case Rep(body=body) | Look(body=body) | Atomic(body):
            return _is_long(node) or _contains_long(body)
    return False


def _characters(node: Node) -> Ranges:
    return uc.union(*sets(node))


def _backtracking(node: Node, can_fail: bool) -> int:
    """Return how many long repetitions multiply their cost: those that backtrack, and those read
    again each time another one backtracks. Raises Unsafe if the cost may be exponential.
    """
    match node:
        case Cat(items):
            total = 0
            for at, item in enumerate(items):
                rest_can_fail = can_fail or _start(*items[at + 1 :]).can_fail
                cost = _backtracking(item, rest_can_fail)
                total += cost
                read_again = rest_can_fail or isinstance(item, Look)
                if total and not cost and read_again and _contains_long(item):
                    total += 1
            return total
        case Alt(branches):
            return max(_backtracking(branch, can_fail) for branch in branches)
        case Look(body=body) | Atomic(body):
            return _backtracking(body, False)
        case Rep(body, _, most, mode):
            often = most is None or most > 1
            inside = _backtracking(body, can_fail or often)
            backtracks = _is_long(node) and mode != "possessive"
            if (often and inside) or (backtracks and not _is_unambiguous(body)):
                raise Unsafe(
                    "nested repetitions can match in more than one way, which may take exponential time"
                )
            return inside + backtracks
    return 0


def _count_ways(node: Node) -> int:
    """Return a bound on the ways that short repetitions and alternatives of a node match a text, at
    most `_MAX_WAYS` + 1.
    """
    ways = 1
    match node:
        case Cat(items):
            ways = prod(map(_count_ways, items))
        case Alt(branches):
            counts = map(_count_ways, branches)
            ways = max(counts) if _is_unambiguous(node) else sum(counts)
        case Look(body=body):
            ways = _count_ways(body)
        case Rep(body, least, int(most), mode) if mode != "possessive" and most <= _LONG:
            ways = (most - least + 1) * _count_ways(body) ** most
    return min(ways, _MAX_WAYS + 1)


def quadratic_runs(tree: Node) -> Ranges:
    """Return the characters whose long runs may take quadratic time.

    Raises Unsafe if the pattern may take more than that.
    """
    branches = tree.branches if isinstance(tree, Alt) else (tree,)
    found: list[Ranges] = []
    for branch in branches:
        if _backtracking(branch, False) > 1:
            raise Unsafe("consecutive repetitions can divide a run in too many ways")
        if _count_ways(branch) > _MAX_WAYS:
            raise Unsafe("its short repetitions and alternatives can match in too many ways")
        found += [run for run in _rescanned_runs(branch) if not _is_consumed(branches, run)]
    return uc.union(*found)


def _items(branch: Node) -> tuple[Node, ...]:
    return branch.items if isinstance(branch, Cat) else (branch,)


def _rescanned_runs(branch: Node) -> list[Ranges]:
    # The runs that an attempt at this branch may read to the end before it fails.
    out: list[Ranges] = []
    items = _items(branch)
    for at, item in enumerate(items):
        if not _contains_long(item):
            continue
        match item:
            case Look(body=body):
                out.append(_characters(body))
            case Alt() | Atomic():
                out.append(_characters(item))
            case Rep(body=body) if _start(*items[at + 1 :]).can_fail or _contains_long(body):
                out.append(_characters(body))
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
        match item:
            case Rep(Set(ranges), least, None, _) if least <= 2 and _is_subset(run, ranges):
                rest = items[at + 1 :]
                if not _start(*rest).can_fail:
                    return True
                return len(rest) == 1 and _is_negative_lookahead(rest[0], ranges)
            case Rep(least=0) if not _contains_long(item):
                continue
        return False
    return False


def _is_negative_lookahead(node: Node, taken: Ranges) -> bool:
    match node:
        case Look(True, True, Set(ranges)):
            return not uc.intersection(ranges, taken)
    return False


def _matches_boundedly(branch: Node, run: Ranges) -> bool:
    # Whether the branch can match only a bounded number of times inside a run.
    start = _start(branch)
    if not start.may_be_empty and not uc.intersection(start.first, run):
        return True
    items = _items(branch)
    for at, item in enumerate(items):
        match item:
            case Set(ranges) | Rep(Set(ranges)):
                apart = not uc.intersection(ranges, run)
                if apart and (isinstance(item, Set) or item.least > 0):
                    return True  # this item is outside the run
                if isinstance(item, Rep) and item.most is None and not apart:
                    # Greedy: reads the whole run and backtracks to the last place where the rest
                    # matches. There is no further match in this run.
                    return _is_subset(run, ranges) and (
                        item.mode == "possessive"
                        or _begins_with_one_character(items[at + 1 :])
                        or _consumes_run(branch, run)
                    )
            case At() | Look():
                continue
            case _:
                return False
    return False


def _begins_with_one_character(items: tuple[Node, ...]) -> bool:
    match items[:1]:
        case (Set(),) | (Rep(Set(), 1),):
            return True
    return False
