"""Text that a page held too long: the proxy had sent it whole, and the page showed it later.

In: when each part of an answer could be decoded, and what the page's changes ended in, both with
the time in milliseconds. Out: the stretches of text that were late. As in `truth`, only letters
count, because a page may change markup.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .truth import letters

SKEW = 50.0  # milliseconds by which the clocks of the page and of the proxy may differ
SURE = 8  # the fewest letters that say where in the answer a change is, wherever that is


class Held(NamedTuple):
    """A stretch of text that was shown late: by how many milliseconds at most, how many
    characters, and how it begins.
    """

    late_ms: float
    late_characters: int
    text: str


def untimed(arrived: Iterable[tuple[float, str]], shown: Iterable[tuple[float, str]]) -> str:
    """Return the end of an answer, of which no change says when it was shown.

    >>> untimed([(0, "one "), (10, "two ")], [(5, "one")])
    'two'
    """
    text, times = _letters(arrived)
    return text[len(_ends(text, times, shown)) :]


def taken_back(sent: str, shown: Iterable[tuple[float, str]], page: str) -> list[str]:
    """Return what a page showed behind the beginning of an answer that was not sent, and that is
    no longer there.

    Of Markdown that is rendered anew only letters count, and these were sent.

    >>> shown = [(0, "Hello Wor"), (5, "Hello Worms▍"), (9, "Hello World")]
    >>> taken_back("Hello World", shown, "Hello World")
    ['ms']
    """
    wanted, kept = letters(sent), letters(page)
    out: list[str] = []
    for _, raw in shown:
        tail = _without_cursor(letters(raw))
        if len(tail) <= SURE or tail in wanted or tail in kept:
            continue
        least, most = SURE - 1, len(tail)  # of the beginnings, the longest one that was sent
        while most - least > 1:
            half = (least + most) // 2
            least, most = (half, most) if tail[:half] in wanted else (least, half)
        more = tail[least:]
        known = least >= SURE and not any(more in one or one in more for one in out)
        if known and not any(c == "\ufffd" or "\ud800" <= c <= "\udfff" for c in more):
            out.append(more)
    return out


def held(
    arrived: Iterable[tuple[float, str]], shown: Iterable[tuple[float, str]], limit_ms: float
) -> list[Held]:
    """Return the stretches of an answer that were shown more than `limit_ms` after they arrived.

    `arrived` are its parts in their order, `shown` the last characters of each text that changed.
    A character that no change accounts for is not counted: `truth.compare` finds what is missing,
    and `untimed` says what was not measured.

    >>> held([(0, "one "), (10, "two "), (500, "three")], [(5, "one"), (505, "one two three")], 300)
    [Held(late_ms=495, late_characters=3, text='two')]
    """
    text, times = _letters(arrived)
    ends = _ends(text, times, shown)
    late: list[Held] = []
    i = 0
    while i < len(ends):
        first = i
        while i < len(ends) and ends[i] - times[i] > limit_ms:
            i += 1
        if i > first:
            most = max([ends[n] - times[n] for n in range(first, i)])
            late.append(Held(round(most, 1), i - first, text[first : min(i, first + 60)]))
        i += 1
    return late


def _letters(arrived: Iterable[tuple[float, str]]) -> tuple[str, list[float]]:
    """Return the letters of an answer, and when each arrived."""
    text, times, half = "", [], ""
    for when, part in arrived:
        part, half = half + part, ""
        if "\ud800" <= part[-1:] <= "\udbff":
            part, half = part[:-1], part[-1]  # its other half comes in the next part
        found = letters(part.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
        text += found
        times += [when] * len(found)
    return text, times


def _without_cursor(tail: str) -> str:
    """Return a text without signs at its end, such as the block that some pages show there."""
    while tail and not tail[-1].isalnum():
        tail = tail[:-1]
    return tail


def _ends(text: str, times: Sequence[float], shown: Iterable[tuple[float, str]]) -> list[float]:
    """Return when each character was shown, as far as the page showed the answer."""
    ends: list[float] = []
    known = 0  # how many characters had arrived
    for when, raw in shown:
        tail = letters(raw)
        while known < len(times) and times[known] <= when + SKEW:
            known += 1
        # The next place that ends in this tail. A short one is taken only if it goes on where the
        # last one ended, because the page may have the same letters in a clock or a button.
        near = known if len(tail) >= SURE else min(known, len(ends) + len(tail) + SURE)
        for part in (tail, _without_cursor(tail)):
            at = text.find(part, max(0, len(ends) - len(part) + 1), near) if part else -1
            if at >= 0:
                ends += [when] * (at + len(part) - len(ends))
                break
    return ends
