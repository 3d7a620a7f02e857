"""Stages as one machine: the text of the stages, as early as it is certain, and no machine at all
where it would take long to make.
"""

import itertools

import pytest
from laws.oracle import Certain, left_out

from detok_py.decode.machine import make_machine
from detok_py.decode.rules import CLEAN_UP
from detok_py.decode.text_stages import Exact, ReplaceText, Row, StripText, machine_of

STAGES = [
    lambda: [ReplaceText("ab", "a")],
    lambda: [ReplaceText("ab", "c"), ReplaceText("cc", "ab"), StripText(" ", 1, 1)],
    lambda: [StripText(" ", 2, 1), ReplaceText("  ", "a")],
    lambda: [ReplaceText("b", ""), ReplaceText("aa", "b"), ReplaceText("ba", " ")],
]


def whole(make, text):
    row = Row(make())
    return row.feed(text) + row.flush()


@pytest.mark.parametrize("make", STAGES)
def test_a_machine_puts_out_what_is_certain_behind_any_prompt(make):
    machine = make_machine(make(), " ab")
    for known in ("", " ", "ab"):
        final = {}

        def behind(text, known=known, final=final):
            if text not in final:
                final[text] = left_out(known, whole(make, text))
            return final[text]

        certain = Certain(behind, "ab x", 4)
        for letters in itertools.product("ab x", repeat=3):
            stage, shown = Exact(machine), ""
            stage.omit(known)
            for at, letter in enumerate(letters):
                shown += stage.feed(letter)
                assert shown == certain("".join(letters[: at + 1])), (known, letters)
            assert shown + stage.flush() == behind("".join(letters))


def test_nothing_is_certain_where_the_text_may_end_before_what_is_left_out():
    machine = make_machine([StripText(" ", 0, 1)], " ")
    _, held = machine.steps[0][" "]
    assert machine.certain_behind(held, "a") == ""


def test_the_clean_up_of_spaces_has_few_states():
    machine = machine_of([CLEAN_UP], "replace")
    assert len(machine.steps) == 14
    assert machine_of([CLEAN_UP], "replace") is machine  # streams share it


def test_stages_with_very_many_states_have_no_machine():
    assert make_machine([ReplaceText("ab" * n, "a") for n in range(9, 1, -1)], "ab") is None
