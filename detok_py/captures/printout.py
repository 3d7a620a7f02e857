"""The stream in lines that are values printed by a program, or a log of these.

In: the lines of a file. Out: an import. Held: nothing. reprs.py reads each value.
"""

from typing import Any

from ..errors import CaptureError
from .frames import model_event
from .imported import with_missing
from .log import (
    DAMAGED,
    NO_EVENT,
    LoggedEvent,
    Problem,
    read_pieces,
    shown,
    without_lines_of_log,
)
from .logged import is_of_log, label_of, without_echoes
from .parse import is_utf8
from .printed import PYTHON, begin_of_value
from .reprs import (
    NotRead,
    end_of_printed,
    looks_printed,
    prefix_of_printed,
    printed_bytes,
    printed_value,
)
from .sentence import listed
from .stream import PRINTED, of_events
from .times import seconds_in

MOST_BEFORE = 20  # lines before the first value that a program printed
NOT_PRINTED = "no value that Python prints"
CUT_VALUE = DAMAGED + " value, which {} printed, breaks off or is damaged: "


def may_be_printed(texts: list[str]) -> bool:
    """Return whether there may be printed values in a file with these first lines."""
    return any(looks_printed(text) or prefix_of_printed(text) for text in texts)


def of_printed(lines: list[bytes], texts: list[str], file: str, path: str) -> tuple[Any, Any]:
    """Return (the stream in printed values, None), or (None, why there is none, if that is
    certain). `texts` are the lines, with each value on its first line (`joined_values`); [] if
    there are no values. Raises CaptureError if there is nothing else in the file.
    """
    stamps: list[Any] = [None] * len(texts)
    labels = [""] * len(texts)
    if any(prefix_of_printed(text) for text in texts[:MOST_BEFORE]):
        begins = [prefix_of_printed(text) for text in texts]
        labels = [label_of(texts[n][:at]) for n, at in enumerate(begins)]
        ends = [end_of_printed(text) if at else len(text) for text, at in zip(texts, begins)]
        stamps = [seconds_in(texts[n][:at] + texts[n][ends[n] :]) for n, at in enumerate(begins)]
        texts = [texts[n][at : ends[n]] for n, at in enumerate(begins)]
    printed = printed_bytes(texts)
    if printed:
        timed = stamps if any(stamps) else None
        events, problems = read_pieces(printed[0], timed)
        problems += [Problem(n, NO_EVENT + shown(lines[n - 1])) for n in printed[1]]
        problems.sort(key=lambda problem: problem.line)
        return of_events(events, problems, "bytes that Python printed", file, path), None
    if not any(labels) and not any(looks_printed(text) for text in texts[:MOST_BEFORE]):
        return None, None
    language, events, problems, marks = _events(texts, stamps, labels)
    wrong = [(n, line) for n, line in enumerate(lines, 1) if not is_utf8(line)]
    problems += [Problem(n, f"{DAMAGED} line is not UTF-8: {shown(line)}") for n, line in wrong]
    try:
        found = of_events(events, problems, PRINTED.replace(PYTHON, language), file, path)
        return with_missing(found, _left_out(marks)), None
    except CaptureError as error:
        if (events or wrong) and not any(labels) and language == PYTHON:
            raise  # a log may have printed values besides
        said = f"no token stream was found in this. {_left_out(marks)}"
        why = CaptureError(said) if marks else error
        return None, why if events and language != PYTHON else None


def _events(texts: list[str], stamps: list[Any], labels: list[str]) -> Any:
    """Return the language of lines of printed values, the events, the problems, and what was
    printed in place of parts, each with its line. Of lines of a log, the labels are what is before
    the values. A line of a log has the time of the value in the next line.
    """
    events: list[Any] = []
    problems, its = [], []
    marks: list[tuple[int, str]] = []
    logged = any(labels)
    before = None
    language = ""
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        printed = begin_of_value(text)[1]
        language = language or printed
        left_out: list[tuple[int, str]] = []
        try:
            value = model_event(printed_value(text, left_out))
        except (NotRead, CaptureError):
            is_log = is_of_log(text.encode())
            logged = logged or is_log
            before = seconds_in(text) if is_log else before
            why = NO_EVENT + shown(text.encode()) if logged else NOT_PRINTED
            why = CUT_VALUE.format(printed) + shown(text.encode()) if printed else why
            problems.append(Problem(number, why))
            continue
        its.append(labels[number - 1])
        stamp = stamps[number - 1] if stamps[number - 1] is not None else before
        before = None
        marks += [(number + lines, mark) for lines, mark in left_out]
        events.append(LoggedEvent(value, number, False, stamp, True, False))
    if logged:
        problems = without_lines_of_log(problems)
    return language or PYTHON, without_echoes(events, its), problems, marks


def _left_out(marks: list[tuple[int, str]]) -> str:
    """Return a sentence on what Node printed in place of values, each mark with its line; "" if
    there is none.

    >>> _left_out([(3, "[Object]"), (5, "[Object]")])[:62]
    'Node printed “[Object]” in place of what is deep or long (line'
    """
    if not marks:
        return ""
    kinds = sorted({f"“{mark}”" for _, mark in marks})
    lines = [str(line) for line in sorted({line for line, _ in marks})]
    return (
        f"Node printed {listed(kinds)} in place of what is deep or long (line {listed(lines)}): "
        "print it as JSON, or with depth: null and maxArrayLength: null."
    )
