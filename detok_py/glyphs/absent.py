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
    whole = letters(one)
    if any(whole in letters(text) for text in seen.hidden.values()):
        return True
    if any(letters(other).startswith(whole) for other in shown):
        return True  # it was cut off, and came again whole
    # What stands beside the other answers, the page's own words and the prompt; and what the stream
    # has beside those: reasoning quotes the prompt.
    beside, rest = letters(seen.text), letters(unmarked(one))
    own = list(map(letters, options.own(one)))
    for line in _longest_first(own):
        rest = rest.replace(line, "")
    for other in shown:
        if whole.startswith(letters(other)):
            continue  # which was cut off, and came again as this one
        for form in filter(None, (letters(other), letters(unmarked(other)))):
            beside = beside.replace(form, "\0")
        own += map(letters, unmarked(other).splitlines())
    for line in _longest_first(own):
        beside = beside.replace(line, "\0", 1)
    if len(rest) >= WHOLE and rest[:16] in beside:
        return False  # it begins
    found = compare(rest, beside, options.times)
    lost = sum([len(d.sent) for d in found if d.kind != "latin1"])
    # More of a short text is found by chance.
    return lost >= (0.8 if len(rest) >= WHOLE else 0.65) * max(1, len(rest))


def _longest_first(lines: list[str]) -> list[str]:
    """Return the lines that are long enough to be no chance."""
    return sorted([line for line in lines if len(line) >= 4], key=len, reverse=True)


def is_new(one: str, seen: Seen, options: Options) -> bool:
    """Return whether the page may show an answer anew that it showed before it was asked."""
    whole = letters(one)
    there = 0 if len(whole) < WHOLE else letters(options.before or "").count(whole)
    if not there or letters(seen.text).count(whole) > there:
        return True
    asked = options.asked(one)
    is_short = len(whole) <= 2 * WHOLE and "\n" not in one.strip()
    if whole in map(letters, asked) or (is_short and {*one.split()} <= {*" ".join(asked).split()}):
        return True  # a title may have the words of the prompt
    first = min([a.sent.arrived[0][0] for a in options.answers if a.sent.arrived], default=0.0)
    later = [letters(tail) for when, tail in seen.tails if when > first - SKEW]
    return any(tail and tail in whole for tail in later)
