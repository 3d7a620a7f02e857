"""Which streams are not for the reader, and which answers were on the page before.

In: the texts of the streams, how the page differs from each, and what the page showed. Out: whether
a stream is left to a person to judge, and whether the page may show it anew.
"""

from .evidence import Options, Seen
from .held import SKEW
from .truth import WHOLE, Difference, compare, letters, unmarked


def is_absent(
    one: str, differences: dict[str, list[Difference]], seen: Seen, options: Options
) -> bool:
    """Return whether a stream is not for the reader (a title, a suggestion): another one is shown
    correctly, and this one is hidden, or little of it is shown beside that.
    """
    shown = [other for other, found in differences.items() if not found]
    if not (differences[one] and shown):
        return False
    whole, plain = letters(one), letters(unmarked(one))
    if any(whole in letters(text) for text in seen.hidden.values()):
        return True
    if any(letters(other).startswith(whole) for other in shown):
        return True  # it was cut off, and came again whole
    if len(whole) < WHOLE and not options.own(one):
        return True  # it may be made of words of the prompt
    beside, lines = letters(seen.text), options.own(one)
    for other in shown:
        if whole.startswith(letters(other)):
            continue  # which was cut off, and came again as this one
        for form in filter(None, (letters(other), letters(unmarked(other)))):
            beside = beside.replace(form, "\0")
        lines += unmarked(other).splitlines()
    # The page may have its own words between the lines, and the prompt.
    for line in sorted(map(letters, lines), key=len, reverse=True):
        if len(line) >= 4:
            beside = beside.replace(line, "\0", 1)
    begins, ends = plain[:16] in beside, plain[-16:] in beside
    if len(whole) >= WHOLE and begins:
        return False
    lost = [d.sent for d in compare(one, beside, options.times) if d.kind != "latin1"]
    return sum(map(len, lost)) >= (0.8 if begins or ends else 0.3) * len(whole)


def is_new(one: str, seen: Seen, options: Options) -> bool:
    """Return whether the page may show an answer anew that it showed before it was asked."""
    whole = letters(one)
    there = 0 if len(whole) < WHOLE else letters(options.before or "").count(whole)
    if whole in map(letters, options.asked(one)):
        return True  # a title may repeat the prompt
    if not there or letters(seen.text).count(whole) > there:
        return True
    first = min([a.sent.arrived[0][0] for a in options.answers if a.sent.arrived], default=0.0)
    later = [letters(tail) for when, tail in seen.tails if when > first - SKEW]
    return any(tail and tail in whole for tail in later)
