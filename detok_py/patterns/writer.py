"""Write a tree as the source of a regular expression for the standard library's `re`.

In: a tree, and the characters that the searched text may have. Out: the source.
"""

from . import unicode_classes as uc
from .nodes import Alt, At, Atomic, Cat, Look, Node, Rep, Set
from .unicode_classes import Ranges


def to_source(node: Node, within: Ranges) -> str:
    """Return the source that finds the matches of `node` in texts of the characters `within`.

    >>> to_source(Rep(Set(((48, 57), (0x660, 0x669))), 1, None, "possessive"), ((0, 127),))
    '[\\\\U00000030-\\\\U00000039]++'
    """
    match node:
        case Set(ranges):
            return _set_to_source(ranges, within)
        case Cat(items):
            sources = [(item, to_source(item, within)) for item in items]
            return "".join(
                [f"(?:{text})" if isinstance(item, Alt) else text for item, text in sources]
            )
        case Alt(branches):
            return "|".join([to_source(branch, within) for branch in branches])
        case Atomic(body):
            return f"(?>{to_source(body, within)})"
        case Look(ahead, negated, body):
            sign = "!" if negated else "="
            if ahead:
                return f"(?{sign}{to_source(body, within)})"
            # A lookbehind of `re` has a fixed width, so each alternative gets its own.
            branches = body.branches if isinstance(body, Alt) else (body,)
            looks = [f"(?<{sign}{to_source(branch, within)})" for branch in branches]
            return "".join(looks) if negated else f"(?:{'|'.join(looks)})"
        case At(where):
            return _assertion_to_source(where, within)
        case Rep(body, least, most, mode):
            inner = to_source(body, within)
            if not isinstance(body, Set) or inner.startswith("(?!"):
                inner = f"(?:{inner})"
            return (
                inner + _count(least, most) + {"greedy": "", "lazy": "?", "possessive": "+"}[mode]
            )


def _count(least: int, most: int | None) -> str:
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    if short:
        return short
    bounds = str(least) if least == most else f"{least},{'' if most is None else most}"
    return "{" + bounds + "}"


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
