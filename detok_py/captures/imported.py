"""A recorded stream as it was read: its chunks, and what is known of the whole.

In: what stream.py, har.py and the others find out. Out: an `Import`. Held: nothing.
"""

import json
from typing import Any, NamedTuple

from .alike import Texts
from .log import MAX_PROBLEMS, Problem
from .order import plural
from .parse import object_at
from .rules import BORDERS

# header: as that of a capture, with "source" · chunks · seconds: how long it took, None if the file
# has no times · end: the event that ended it, or None · problems: by line · left_out: how many more
# · facts: about the whole stream, for verdict.py
Import = NamedTuple(
    "Import",
    [
        ("header", "dict[str, Any]"),
        ("chunks", "list[Chunk]"),
        ("seconds", "float | None"),
        ("end", "dict[str, str] | None"),
        ("problems", "list[Problem]"),
        ("left_out", int),
        ("facts", "Facts"),
    ],
)
# all: the text of the answer that the server sent whole, after its pieces, "" if it did not ·
# no_end: whether the server's word that the answer has ended is missing · missing: sentences on
# what could not be read · lossy: whether the file has dots for bytes beyond ASCII · parted: (chunk,
# character) of each character whose halves came in two events · numbers: (event, "twice", "order"
# or "gap") of each event whose sequence number is not the next one, "again" of one with a time of
# creation that has been, "begun" of one behind another beginning of the answer, "count" of one
# with more than one token more by the server's count · told: by rule, what its sentence adds;
# "borders" and SIZE (rules.py) change which rule it is · joined: (first line, last line) of each
# event whose lines were joined · wrapped: whether a console had broken all of these ·
# total: how many tokens the server says that it made, 0 if it does not · error, others: the line of
# its error, 0 if there is none, and of the first events of further answers; how the stream ended is
# how the last one did · notes: further sentences on it · lines: what has its lines, "" for the file
Facts = NamedTuple(
    "Facts",
    [
        ("all", str),
        ("no_end", bool),
        ("missing", str),
        ("lossy", bool),
        ("parted", "list[tuple[int, str]]"),
        ("numbers", "list[tuple[int, str]]"),
        ("joined", "list[tuple[int, int]]"),
        ("wrapped", bool),
        ("total", int),
        ("error", int),
        ("others", "list[int]"),
        ("told", "dict[str, str]"),
        ("notes", str),
        ("lines", str),
    ],
)
AT_END, AT_FACTS = 3, 6  # in `Import`
AT_NO_END, AT_MISSING, AT_TOLD, AT_NOTES, AT_LINES = 1, 2, 11, 12, 13  # in `Facts`
NO_FACTS = Facts("", False, "", False, [], [], [], False, 0, 0, [], {}, "", "")
# seconds since the start · channel · tokens: (id or None, bytes or None) each · data: the bytes of
# its text, None if only tokens are known · line and event in the file, both from 1 · broken: how
# the text was damaged before it came here, or "" · plain: whether its event has characters beyond
# ASCII that are not escapes · texts: of many events, the text of each, the first of which is at
# `line` and `event`; None for one event
Chunk = NamedTuple(
    "Chunk",
    [
        ("seconds", float),
        ("channel", str),
        ("tokens", "list[Any]"),
        ("data", "bytes | None"),
        ("line", int),
        ("event", int),
        ("broken", str),
        ("plain", bool),
        ("texts", "Texts | None"),
    ],
)

SOME_IDS = "some"  # the fidelity of exact bytes whose ids are not all known
# How a chunk is broken.
REPLACED = "the text arrived with U+FFFD in it"
ESCAPED = "the text arrived with \\ufffd in it"
INVALID = "the bytes that arrived are not UTF-8"
HALF = "half a character arrived alone: a surrogate pair was cut"
HALVES_AS_BYTES = "the bytes that arrived are CESU-8, which is not UTF-8"
REPEATED = "the text arrived with U+FFFD in it, in events that repeat the text so far"


def fidelity(chunks: list[Any]) -> str:
    """Return what every chunk has: "ids", "bytes" of its tokens, or only "text"."""
    if all(chunk.tokens and all(i is not None for i, _ in chunk.tokens) for chunk in chunks):
        return "ids"
    exact = [
        chunk.data is None or (chunk.tokens and all(data is not None for _, data in chunk.tokens))
        for chunk in chunks
    ]
    return "bytes" if all(exact) else "text"


def named_fidelity(header: dict[str, Any]) -> Any:
    """Return the fidelity that a header names; None if it names none."""
    return object_at(header, "engine").get("fidelity")


def with_problems(found: Any, more: list[Any]) -> Any:
    """Return an import with more problems."""
    told = found.problems + more
    left_out = found.left_out + max(0, len(told) - MAX_PROBLEMS)
    header, chunks, seconds, end, _, _, facts = found
    return Import(header, chunks, seconds, end, told[:MAX_PROBLEMS], left_out, facts)


def with_note(found: Any, note: str) -> Any:
    """Return an import with one more of its `notes`."""
    return with_fact(found, AT_NOTES, f"{found.facts.notes} {note}".strip()) if note else found


def with_borders(found: Any, count: int, all_: bool) -> Any:
    """Return an import of a log in whose pieces so many characters are broken where one ends; with
    `all_`, all U+FFFD that are beside each other are there.
    """
    if count and all_:
        return with_told(found, "borders", "")
    return with_note(found, f"In {plural(count, 'place')} of its log, {BORDERS}" if count else "")


def with_told(found: Any, rule: str, said: str) -> Any:
    """Return an import with one more of what is `told` by rule."""
    return with_fact(found, AT_TOLD, dict(list(found.facts.told.items()) + [(rule, said)]))


def with_end(found: Any, reason: str) -> Any:
    """Return an import of an answer that has ended."""
    return _with(found, AT_END, {"type": "finished", "reason": reason})


def with_missing(found: Any, said: str) -> Any:
    """Return an import with one more sentence on what could not be read."""
    return with_fact(found, AT_MISSING, f"{found.facts.missing} {said}".strip()) if said else found


def inside(found: Any, what: str) -> Any:
    """Return an import whose lines are not those of the file, but of a part of it."""
    return with_fact(found, AT_LINES, what)


def with_fact(found: Any, place: int, value: Any) -> Any:
    """Return an import with another of its facts."""
    return _with(found, AT_FACTS, _with(found.facts, place, value))


def _with(one: Any, place: int, value: Any) -> Any:
    """Do as `_replace` of named tuples, which those of MicroPython lack."""
    fields = list(one)
    fields[place] = value
    return type(one)(*fields)


def summary(found: Any) -> dict[str, Any]:
    """Return the summary of an import for a page."""
    return {
        "header": found.header,
        "timed": found.seconds is not None,
        "end": found.end,
        "problems": [[problem.line, problem.reason] for problem in found.problems],
        "leftOut": found.left_out,
    }


def as_json(value: Any) -> str:
    """Return compact JSON."""
    return json.dumps(value, separators=(",", ":"))
