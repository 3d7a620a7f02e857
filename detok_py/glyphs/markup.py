"""Markup that no reader should see: markers of chat formats, and Markdown that was shown raw.

Out: the markers, for faults.js, and the Markdown syntax that a page showed and then rendered.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache

from ..formats.form import marker_spellings

# Only markers have these characters. Other tags may be written by people, or belong to other
# markup.
_MARKER = re.compile(r"[|｜:_]|think|tool", re.IGNORECASE)
# Emphasis, code, the address of a link; a heading, a quotation or an item at the start of a line.
_SYNTAX = re.compile(
    r"\*\*|~~|`|\]\(|(?<!\w)[*_](?=\w)|^ {0,3}(?:#{1,6}|[-*+>]|\d{1,3}\.) (?=\S)", re.MULTILINE
)


@cache
def markers() -> list[str]:
    """Return the markers of chat formats that no reader should see, the longest first.

    >>> "<|channel|>" in markers(), "</think>" in markers(), "<answer>" in markers()
    (True, True, False)
    """
    found = [one for one in marker_spellings() if _MARKER.search(one)]
    return sorted(found, key=lambda one: (-len(one), one))


def flashed(shown: Iterable[tuple[float, str]], page: str, sent: Sequence[str] = ()) -> list[str]:
    """Return the Markdown syntax that the page showed and that is no longer on it, with the text
    before it. If it is known what was sent, only syntax of that.

    `shown` are the last characters of each text that changed, with the time of the change.

    >>> flashed([(0, "a **bo"), (5, "a "), (5, "bold")], "a bold")
    ['a **bo']
    >>> flashed([(0, "2 **"), (5, "2 ** 3")], "2 ** 3")
    []
    """
    kept, known = _line(page), [_line(one) for one in sent]
    out: dict[str, str] = {}
    for _, text in shown:
        for found in _SYNTAX.finditer(text):
            word = re.compile(r"\w{0,8}").match(text, found.end())
            spot = _line(text[max(0, found.start() - 12) : word.end() if word else found.end()])
            if spot not in kept and (not known or any(spot in one for one in known)):
                # While the word after it grows, it is the same syntax.
                out[_line(text[max(0, found.start() - 12) : found.end()])] = spot
    return list(out.values())


def _line(text: str) -> str:
    return " ".join(text.split())
