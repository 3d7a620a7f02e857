"""Compare texts of an engine, and count the characters that are missing.

In: texts of one answer, or its token ids. Out: a word and a number. Held: nothing.
"""

import re
from difflib import SequenceMatcher

from ..decode.detokenizer import Detokenizer
from ..decode.vocabulary import Vocabulary

REPLACED = "\ufffd"


def compared(truth: str | None, text: str | None) -> tuple[str, int]:
    """Return how a text compares with the truth, and how many characters of the truth it lacks.

    Bytes that are not a character are U+FFFD in both; their number may differ.

    >>> compared("日本", "日本"), compared("日本語", "日��語"), compared("日本", "日本?")
    (('equal', 0), ('broken', 1), ('other', 0))
    >>> compared("a�b", "a��b"), compared(None, "b")
    (('equal', 0), ('not compared', 0))
    """
    if truth is None or text is None:
        return "not compared", 0
    truth, text = shown(truth), shown(text)
    if truth == text:
        return "equal", 0
    blocks = SequenceMatcher(None, truth, text, autojunk=False).get_matching_blocks()
    kept = sum([len(truth[b.a : b.a + b.size].replace(REPLACED, "")) for b in blocks])
    lost = len(truth.replace(REPLACED, "")) - kept
    return ("broken", lost) if lost or REPLACED in text else ("other", 0)


def shown(text: str) -> str:
    """Return a text as it is compared: U+FFFD once in place of several, none at the end, where an
    answer is cut, and no space at the beginning, which depends on the prompt.

    >>> shown(" a��b��")
    'a�b'
    """
    return re.sub(f"{REPLACED}+", REPLACED, text).rstrip(REPLACED).lstrip(" ")


def holding(wanted: str | None, *texts: str | None) -> str | None:
    """Return the first of the texts that has the one that was asked for.

    >>> holding("日本", None, "日�", '"日本"')
    '"日本"'
    """
    found = [text for text in texts if wanted and text is not None and wanted in text]
    return found[0] if found else None


def masked(wanted: str | None, *texts: str | None) -> str | None:
    """Return `wanted` if one of the texts is the same but for U+FFFD in place of characters.

    >>> masked("日本語", "日��語"), masked("日本語", "�x")
    ('日本語', None)
    """
    for text in texts:
        parts = re.split(f"{REPLACED}+", text) if wanted and text and REPLACED in text else []
        pattern = ".+?".join([re.escape(part) for part in parts])
        if wanted and any(parts) and re.fullmatch(pattern, wanted, re.DOTALL):
            return wanted
    return None


def replaced_in(text: str | None) -> int:
    """Return how many places of a text have U+FFFD.

    >>> replaced_in("a��b�")
    2
    """
    return len(re.findall(f"{REPLACED}+", text or ""))


def split_in(ids: list[int] | None, vocabulary: Vocabulary | None) -> int | None:
    """Return how many characters of an answer were split over several tokens."""
    if ids is None or vocabulary is None:
        return None
    detokenizer = Detokenizer(vocabulary, spans=True)
    tokens = [0] * (len(detokenizer.feed(ids) + detokenizer.flush()) + 1)
    for first, past in detokenizer.spans:
        for place in range(first, min(past, len(tokens))):
            tokens[place] += 1
    return sum([count > 1 for count in tokens])


def inside(ids: list[int], vocabulary: Vocabulary | None) -> list[int]:
    """Return after how many tokens an answer ends inside a character, but for its last token."""
    if vocabulary is None:
        return []
    detokenizer = Detokenizer(vocabulary)
    places = []
    for n, i in enumerate(ids[:-1], 1):
        detokenizer.push(i)
        if detokenizer.held_bytes:
            places.append(n)
    return places
