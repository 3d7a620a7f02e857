"""A cache of steps: for a state and a symbol, the output and the next state.

In: a state and a symbol. Out: the step, if it was taken before. A state is the key of its row, and
contains everything that future output depends on. So a step is valid in every stream that shares
the table. Streams with the same options share one.
"""

from typing import Any, Callable

from .word_search import HAS_REGULAR_EXPRESSIONS

# Rows and steps that a table keeps, some 250 bytes each; MicroPython has less memory.
MAX_STEPS = 1 << 15 if HAS_REGULAR_EXPRESSIONS else 1 << 11
MAX_TABLES = 32  # per kind, kept by a vocabulary for the next stream with the same settings


_without_vocabulary: dict[Any, Any] = {}


def kept(vocabulary: Any, kind: str, key: Any, make: Callable[[], Any]) -> Any:
    """Return what a vocabulary keeps of a kind for a key, made by `make` the first time. What
    needs no vocabulary (None) is kept as long as the process lives.

    >>> kept(None, "letters", "a", list) is kept(None, "letters", "a", list)
    True
    """
    memo = _without_vocabulary if vocabulary is None else vocabulary._memo
    known: dict[Any, Any] = memo.setdefault(kind, {})
    found = known.get(key)  # hashing a long key is slow
    if found is None:
        if len(known) >= MAX_TABLES:
            known.clear()
        found = known[key] = make()
    return found


class Row:
    """A state, and the steps from it: by symbol, what comes out and the row of the state after it.

    The row after a step is None where the step leaves the state as it is. A step that gives a plain
    text is in `texts`: the text, or None if it leads to another state, and is in `steps` too.
    """

    __slots__ = ("key", "steps", "texts")

    def __init__(self, key: Any) -> None:
        self.key: Any = key
        self.steps: dict[Any, Any] = {}
        self.texts: dict[Any, str | None] = {}


class Table:
    """The rows of streams that are made alike, which fill themselves and can be forgotten.

    >>> table = Table()
    >>> row = table.row(("content", ""))
    >>> table.note(row, 5, ("Hi", None))
    >>> table.row(("content", "")).steps[5]
    ('Hi', None)
    """

    def __init__(self) -> None:
        self.rows: dict[Any, Row] = {}
        self._count = 0

    def row(self, key: Any) -> Row:
        """Return the row of a state."""
        row = self.rows.get(key)
        if row is None:
            self._grow()
            row = self.rows[key] = Row(key)
        return row

    def note(self, row: Row, symbol: Any, step: Any) -> None:
        """Remember a step."""
        self._grow()
        row.steps[symbol] = step

    def _grow(self) -> None:
        """Count a row or a step. A table that is full begins anew."""
        self._count += 1
        if self._count > MAX_STEPS:
            self._forget()
            self._count = 1

    def _forget(self) -> None:
        for each in list(self.rows.values()):  # another thread may add one
            each.texts.clear()
            each.steps.clear()
        self.rows.clear()
