"""The rows of a stream as page.py gives them to the page: one each, or many texts as one list.

In: rows. Out: how many there are, and what they show. Held: nothing.
"""

from typing import Any, Iterator, NamedTuple

# row: from 0 · got: the text as it came · right: the right text, "" if it is not known · begin and
# end: of the text that is wrong without a U+FFFD, in the row's text, in UTF-16 units; 0 if there
# is none
Place = NamedTuple(
    "Place",
    [("row", int), ("got", str), ("right", str), ("begin", int), ("end", int)],
)


def count_of(row: Any) -> int:
    """Return how many rows a row stands for.

    >>> count_of([0.0, ["a", "b"], "content", 3, 2, "", 2])
    2
    """
    return len(row[1]) if _is_many(row) else 1


def shown(row: Any) -> str:
    """Return the text that a row shows."""
    if _is_many(row):
        return "".join(row[1])
    return "".join([text for _, text, *_ in row[1][2]])


def came(row: Any) -> str:
    """Return the text that came with a row; of many rows, which have no U+FFFD, ""."""
    return "" if _is_many(row) else bytes.fromhex(row[1][1]).decode()


def numbered(rows: list[Any]) -> Iterator[tuple[int, Any]]:
    """Yield (number, row), where each of many texts counts."""
    n = 0
    for row in rows:
        yield n, row
        n += count_of(row)


def texts_of(rows: list[Any]) -> list[str]:
    """Return the text of each row that a server has decoded; "" for tokens and bytes."""
    out: list[str] = []
    for row in rows:
        if _is_many(row):
            out += row[1]
        else:
            out.append(shown(row) if row[6] is not None else "")
    return out


def _is_many(row: Any) -> bool:
    return len(row) > 6 and isinstance(row[6], int)
