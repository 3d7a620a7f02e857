"""What whole_text says of a cut answer is exactly what all ways to go on have in common."""

from typing import Any

import pytest
from laws.oracle import common

from formats.table import FORMATS
from formats.test_whole_text import answer_to, cases, units
from formats.values import is_mark, spelled
from formats.whole_text import NAMES, Piece, Token, markers_of, pieces_of, whole_text

# It judges the judge: no change of the package can fail it.
pytestmark = [pytest.mark.native, pytest.mark.soak]

# Calls without an opener: what has come may go on as the rest of one of these.
BARE = {
    "llama3.1_json": ('{"name": "x", "parameters": {}}', '"name": "x", "arguments": {}}'),
    "llama4_pythonic": ("[f(a=1)]", "f(a=1)]", "=1)]"),
}
XML = ("<function=f></function>", "=f></function>", "></function>")
BARE |= dict.fromkeys(("qwen3_coder", "qwen3.5", "nemotron3", "step3.5", "seed_oss"), XML)


def markers(name: str) -> list[list[Piece]]:
    """Return the markers of a format in units, each also behind one and two newlines."""
    marks, texts, _ = markers_of(name)
    written = sorted(marks)
    if name in FORMATS:
        form = FORMATS[name]
        written = [text for opener in form.calls for text in (opener.text, opener.close) if text]
        written += [text for both in form.thinks + form.wraps + form.blocks for text in both]
    found = []
    for text in written:
        parts: list[Piece] = []
        for c in text:
            parts += [Token(spelled(c))] if is_mark(c) and c not in texts else spelled(c)
        found += [["\n"] * newlines + parts for newlines in range(3)]
    return found


def ways_on(name: str, so_far: list[Piece], rest: list[Piece]) -> list[list[Piece]]:
    """Return ways to go on: none, plain text, the answer's own, and what completes a marker."""

    def kinds(units: list[Piece]) -> list[tuple[type, str]]:
        return [(type(unit), unit) for unit in units]

    ways: list[list[Piece]] = [[], ["x"], ["["], [" ", "x"], ["\n", "\n", "x"], rest]
    for marker in markers(name):
        for n in range(len(marker)):
            if kinds(marker[:n]) == kinds(so_far[len(so_far) - n :]):
                ways.append(marker[n:])
    return ways + [list(text[n:]) for text in BARE.get(name, ()) for n in range(len(text))]


def in_common(answers: list[Any], part: str) -> Any:
    said = [getattr(answer, part) for answer in answers]
    return common(min(said), max(said))


# Each case is cut at every third unit, and not at the same ones as the case before it.
@pytest.mark.parametrize("name", NAMES)
def test_a_cut_answer_says_what_all_ways_on_have_in_common(name: str) -> None:
    for k, case in enumerate(cases(name)):
        pieces = units(pieces_of(case["pieces"]))
        for n in range(k % 3, len(pieces) + 1, 3):
            cut = answer_to(case, pieces[:n], cut=True)
            start, schemas = case.get("start", "content"), case.get("schemas")
            answers = [
                whole_text(name, pieces[:n] + way, start, schemas)
                for way in ways_on(name, pieces[:n], pieces[n:])
            ]
            where = (case["name"], pieces[:n])
            assert cut.content == in_common(answers, "content"), where
            assert cut.reasoning == in_common(answers, "reasoning"), where
            assert len(cut.calls) == min(len(answer.calls) for answer in answers), where
            for index, call in enumerate(cut.calls):
                of_all = [answer.calls[index] for answer in answers]
                assert call.name == in_common(of_all, "name"), where
                assert call.arguments == in_common(of_all, "arguments"), where
