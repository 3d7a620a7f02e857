"""What is wrong in the texts of rows without a U+FFFD: names of tokens, misread text, and “?” in
the place of letters.

In: the text of each row. Out: `Place`s for the rules of verdict.py. Held: nothing.
"""

from typing import Any, Iterator

from .mojibake import Misread, find_misread, is_about_lost, misread_runs, right_letters
from .replaced import asked, read_as
from .rows import Place
from .undecoded import named_bytes, named_spaces

LEAST_RIGHT = 2  # letters elsewhere, if a part is misread
MISREAD = ("misread", "misread-part", "misread-sent", "misread-read")


def judge_names(texts: list[str], add: Any) -> None:
    """Judge names of tokens in the text of servers."""
    for row, names, right in named_bytes(texts):
        add("named-bytes", Place(row, names, right, 0, _units(texts[row])))
    for row, text, right in named_spaces(texts):
        add("named-spaces", Place(row, text, right, 0, _units(text)))


def judge_misread(texts: list[str], add: Any) -> str:
    """Judge text that is UTF-8 read in another encoding; return that encoding, "" for none."""
    whole = "".join(texts)
    runs = find_misread(whole)
    rule = MISREAD[len(runs) > 0 and right_letters(whole, runs) >= LEAST_RIGHT]
    n = begin = 0
    for run in _in_rows(runs, texts, whole):
        while begin + len(texts[n]) <= run.begin:
            begin += len(texts[n])
            n += 1
        text = texts[n]
        first, last = run.begin - begin, min(run.end - begin, len(text))
        units = [_units(text[:first]), _units(text[:last])]
        got = "".join(texts[n : n + 8])[first : run.end - begin]
        got += "…" if len(got) < run.end - run.begin else ""
        right = _all_right(run.right, run.encoding)
        add(rule, Place(n, got, right, units[0], units[1]))
        # A run may go on in the next rows.
        over, m = run.end - begin - len(text), n + 1
        while over > 0:
            size = min(over, len(texts[m]))
            if size:
                add(rule, Place(m, texts[m][:size], "", 0, _units(texts[m][:size])))
            over -= size
            m += 1
    return runs[0].encoding if runs else ""


def _in_rows(runs: list[Misread], texts: list[str], whole: str) -> Iterator[Misread]:
    """Yield misread runs; of one that goes on in the next row, what ends with its row by itself."""
    n = border = 0
    for begin, end, right, encoding, weight in runs:
        while True:
            while border <= begin:
                border += len(texts[n])
                n += 1
            inside = misread_runs(whole[begin:border], encoding) if border < end else []
            if [(one.begin, one.end) for one in inside] != [(0, border - begin)]:
                break
            yield Misread(begin, border, inside[0].right, encoding, weight)
            begin, right = border, right[len(inside[0].right) :]
        yield Misread(begin, end, right, encoding, weight)


def judge_replaced(texts: list[str], add: Any) -> str:
    """Judge text that is UTF-8 read as a code page of East Asia, and “?” in the place of letters.
    Return which code page, "" for none.
    """
    text = "".join(texts)
    if is_about_lost(text):
        return ""
    east = read_as(text)
    if east:
        for row, one in enumerate(texts):
            if one and max(one) > "\x7f":
                add("misread-east", Place(row, one, "", 0, 0))
        return east
    words = asked(text)
    begin = n = 0
    for row, one in enumerate(texts):
        end = begin + len(one)
        while n < len(words) and words[n][1] <= begin:
            n += 1
        if n < len(words) and words[n][0] < end and "?" in one:
            add("asked", Place(row, one, "", 0, 0))
        begin = end
    return ""


def _all_right(text: str, encoding: str) -> str:
    """Return a text whose bytes may have been misread twice, both times in this encoding."""
    again = misread_runs(text, encoding)
    while len(again) == 1 and (again[0].begin, again[0].end) == (0, len(text)):
        text = again[0].right
        again = misread_runs(text, encoding)
    return text


def _units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text) + sum([letter > "\uffff" for letter in text])
