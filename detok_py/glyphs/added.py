"""Text that a page adds to an answer: values that a program shows by mistake, and other words
inside a line.

In: the true text and the page's text. Out: the pieces that were added, each with the text before
it. Words between two lines of an answer, such as a button, belong to the page.
"""

import re
from collections import Counter
from collections.abc import Sequence

from .truth import insertions, letters, unmarked

# What no page shows on purpose.
_STRAY = re.compile(r"\[object \w+\]|\b(?:undefined|NaN)\b")
# What a script shows if it joins a value that is no text to one, takes an event for text, or
# escapes text twice.
_WORD = r"(?:undefined|null|NaN)+"
_EVENT = (
    r"\[object \w+\]|(?:data: ?)?\[DONE\]|data: ?\{\".*"
    r"|&(?:amp|lt|gt|quot|nbsp|#0?39|#x27);|\{\".*\"(?:choices|delta|candidates|finish_reason|done_reason)\":.*\}"
)
_VALUE = re.compile(rf"{_WORD}|(?P<event>{_EVENT})(?:\s*(?:{_EVENT}))*")
NEAR = 8  # how many letters beside a value identify the answer
LINE = 16  # how many letters a line needs so that it is looked for
MOST = 40  # the most letters that are looked for in one place of a line


def values(true_text: str, shown: str, known: Sequence[str] = ()) -> list[str]:
    """Return each value of a program that stands inside the answer, or directly before or behind
    it.

    >>> values("Grüße aus Köln.", "Bot: undefinedGrüße ausNaN Köln.\\ndata: [DONE]\\nSend")
    ['Bot: undefined', ': undefinedGrüße ausNaN', 'data: [DONE]']
    >>> values("It is undefined or null.", "It is undefined or null.\\nnull results")
    []
    >>> values("> Ja &amp; nein", "> Ja &amp; nein"), values("Ja & nein", "Ja &amp; nein")
    ([], ['Ja &amp;'])
    """
    wholes = {letters(true_text), letters(unmarked(true_text))}
    sent = wholes | {letters(form) for one in known for form in (one, unmarked(one))}
    return [
        shown[max(0, match.start() - 20) : match.end()].rpartition("\n")[2]
        for match in _VALUE.finditer(shown)
        if not any(_is_sent(match, whole) for whole in sent)
        and any(len(whole) >= 4 and _is_added(match, whole) for whole in wholes)
    ]


def strays(known: str, shown: str) -> list[str]:
    """Return each value of a program that the page shows more often than the texts that are known:
    what was sent and typed, and what the page had before.

    >>> strays("Is undefined an object?", "You: Is undefined an object?\\nSource: [object Object]")
    ['Source: [object Object]']
    """
    left = Counter(_STRAY.findall(known))
    out = []
    for match in _STRAY.finditer(shown):
        left[match.group()] -= 1
        if left[match.group()] < 0:
            out.append(shown[max(0, match.start() - 20) : match.end()].rpartition("\n")[2])
    return out


def _beside(match: re.Match[str], whole: str) -> tuple[str, str]:
    """Return the letters before a value and behind it, as many as identify the answer."""
    before, after = match.string[: match.start()][-99:], match.string[match.end() :][:99]
    near = min(NEAR, len(whole))
    # Other values between the letters are no letters of the answer.
    return letters(_VALUE.sub("", before))[-near:], letters(_VALUE.sub("", after))[:near]


def _is_sent(match: re.Match[str], whole: str) -> bool:
    """Return whether a value is in the letters `whole` of an answer."""
    last, following = _beside(match, whole)
    value = letters(match.group())
    return bool(value) and (last + value in whole or value + following in whole)


def _is_added(match: re.Match[str], whole: str) -> bool:
    """Return whether a value stands beside the letters `whole` of an answer."""
    last, following = _beside(match, whole)
    begin, end = match.span()
    before, after = match.string[max(0, begin - 1) : begin], match.string[end : end + 1]
    near = min(NEAR, len(whole))
    if last[-4:] and following[:4] and last[-4:] + following[:4] in whole:
        return True
    # Apart from the answer, such a word may be the page's own.
    ends = last.endswith(whole[-near:]) and (match["event"] or before > " ")
    return bool(ends or (following == whole[:near] and (match["event"] or after > " ")))


def in_lines(true_text: str, shown: str) -> list[str]:
    """Return the words that the page shows inside a line of an answer that is there otherwise.

    >>> in_lines("Grüße aus Köln am Rhein.\\nUnd", "Grüße aus [3] Köln am Rhein. Copy Und")
    ['Grüßeaus⟦3⟧']
    """
    page, out = letters(shown), []
    if letters(true_text) in page:
        return []
    for line in unmarked(true_text).splitlines():
        found = insertions(letters(line), page) if len(letters(line)) >= LINE else []
        if sum(len(added) for _, added in found) <= MOST:
            out += [f"{before}⟦{added}⟧" for before, added in found]
    return out
