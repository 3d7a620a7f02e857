"""Text that a page held too long: the proxy had sent it in full, and the page showed it later.

In: the parts of an answer, with the times when they could be decoded; the last characters of each
text that the page changed, with the times of the changes. Out: the stretches of text that were
late. As in `truth`, only letters count, because a page may change markup. Times are in
milliseconds.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .truth import letters

SKEW = 50.0  # how many milliseconds the clocks of page and proxy may differ
SURE = 8  # how many letters identify a place in the answer


class Held(NamedTuple):
    """A stretch of text that was shown late: by how many milliseconds at most, how many
    characters, and how it begins.
    """

    late_ms: float
    late_characters: int
    text: str


def untimed(arrived: Iterable[tuple[float, str]], shown: Iterable[tuple[float, str]]) -> str:
    """Return the end of an answer whose time no change tells.

    >>> untimed([(0, "one "), (10, "two ")], [(5, "one")])
    'two'
    """
    text, times = _letters(arrived)
    return _composed(text[len(_ends(text, times, shown)) :])


def taken_back(sent: str, shown: Iterable[tuple[float, str]], page: str) -> list[str]:
    """Return each text that the page showed after a part of the answer, that was never sent, and
    that is no longer on the page.

    Markdown that is rendered again does not count: its letters were sent.

    >>> shown = [(0, "Hello Wor"), (5, "Hello Worms▍"), (9, "Hello World")]
    >>> taken_back("Hello World", shown, "Hello World")
    ['ms']
    """
    wanted, kept = _decomposed(sent), _decomposed(page)
    out: list[str] = []
    for _, raw in shown:
        tail = _without_cursor(_decomposed(raw))
        if len(tail) <= SURE or tail in wanted or tail in kept:
            continue
        least, most = SURE - 1, len(tail)  # the longest beginning that was sent
        while most - least > 1:
            half = (least + most) // 2
            least, most = (half, most) if tail[:half] in wanted else (least, half)
        while least and unicodedata.combining(tail[least]):
            least -= 1  # a mark is reported with its letter
        more = _composed(tail[least:])
        known = _is_sure(tail[:least]) and not any(more in one or one in more for one in out)
        if known and not any(c == "\ufffd" or "\ud800" <= c <= "\udfff" for c in more):
            out.append(more)
    return out


def was_shown(sent: str, piece: str, before: str, shown: Iterable[tuple[float, str]]) -> bool:
    """Return whether the page showed all letters of a piece of an answer at some time.

    >>> was_shown("one two three four", "two", "one", [(0, "one two thr")])
    True
    """
    text, before, piece = _decomposed(sent), _decomposed(before), _decomposed(piece)
    begin = text.find(before + piece) + len(before)
    if not piece or begin < len(before):
        return False
    seen: set[int] = set()
    first, last = max(0, begin - 64), begin + len(piece) + 64
    for tail in {_decomposed(raw) for _, raw in shown}:
        for part in (tail, _without_cursor(tail)):
            at = text.find(part, first, last) if len(part) >= SURE else -1
            while at >= 0:
                seen.update(range(at, at + len(part)))
                at = text.find(part, at + 1, last)
    return seen.issuperset(range(begin, begin + len(piece)))


def held(
    arrived: Iterable[tuple[float, str]], shown: Iterable[tuple[float, str]], limit_ms: float
) -> list[Held]:
    """Return the stretches of an answer that were shown more than `limit_ms` after they arrived.

    `arrived` are its parts in their order, `shown` the last characters of each text that changed.
    Characters that belong to no change are not counted: `truth.compare` finds missing text, and
    `untimed` returns text without a time.

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
            whole = _composed(text[first:i])
            late.append(Held(round(most, 1), len(whole), whole[:60]))
        i += 1
    return late


def _decomposed(text: str) -> str:
    """Return the letters of a text, each followed by its marks (NFD): a stream may be cut between
    them, and a page then shows the letter alone. Syllables of Hangul stay whole.
    """
    return re.sub("[^가-힣]+", lambda run: unicodedata.normalize("NFD", run[0]), letters(text))


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _is_sure(text: str) -> bool:
    """Return whether letters identify a place in the answer; marks do not count."""
    return sum([not unicodedata.combining(c) for c in text]) >= SURE


def _letters(arrived: Iterable[tuple[float, str]]) -> tuple[str, list[float]]:
    """Return the letters of an answer, and when each arrived."""
    text, times, half = "", [], ""
    for when, part in arrived:
        part, half = half + part, ""
        if "\ud800" <= part[-1:] <= "\udbff":
            part, half = part[:-1], part[-1]  # its other half comes in the next part
        whole = part.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        found = _decomposed(whole)
        text += found
        times += [when] * len(found)
    return text, times


def _without_cursor(tail: str) -> str:
    """Return a text without the signs at its end, such as the block that some pages show there."""
    while tail and not (tail[-1].isalnum() or unicodedata.combining(tail[-1])):
        tail = tail[:-1]
    return tail


def _ends(text: str, times: Sequence[float], shown: Iterable[tuple[float, str]]) -> list[float]:
    """Return the times when the characters were shown, as far as the page showed the answer."""
    ends: list[float] = []
    known = 0  # how many characters had arrived
    for when, raw in shown:
        tail = _decomposed(raw)
        while known < len(times) and times[known] <= when + SKEW:
            known += 1
        # The next place with this tail. A short tail counts only right after the previous one,
        # because a clock or a button may show the same letters.
        near = known if _is_sure(tail) else min(known, len(ends) + len(tail) + SURE)
        for part in (tail, _without_cursor(tail)):
            at = text.find(part, max(0, len(ends) - len(part) + 1), near) if part else -1
            if at >= 0:
                ends += [when] * (at + len(part) - len(ends))
                break
    return ends
