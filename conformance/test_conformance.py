"""The conformance suite as a test of your own: copy this file, and name your adapter.

Each case is one test; one that your system takes no part in is skipped. What comes late passes,
what was shown too early or is wrong fails: take "late" out of `GOOD` to be as early as possible.
It needs `pip install pytest detok_py`. The README of the suite says what an adapter is.
"""

import pytest
from my_adapter import adapter  # your module, and the function in it

from detok_py.commands.conformance import cases_of, judge, load_suite

GOOD = ("right", "late")
CASES = [case for chunk in (1, 4, 0) for case in cases_of(load_suite(), chunk=chunk)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_conformance_suite(case):
    outcome = judge(case, adapter)
    if outcome.verdict == "not claimed":
        pytest.skip(outcome.why or "not claimed")
    assert outcome.verdict in GOOD, outcome.why
