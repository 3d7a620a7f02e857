"""Replicas, a Redis and clients under faults, in schedules that seeds choose: laws of a run hold.

- What a reader has is the beginning of what one generation has made.
- A run is generated once.
- Every reader is told the end of its run, with a code that its faults explain.
- Nothing of a run is left when its time is over.

`python tests/simulation/replay.py SEED` shows what a seed does, and the fewest faults that break a
law.
"""

import gc
import logging
import os

import pytest
from simulated_cluster import run_plan
from simulated_plan import make_plan

# A machine that is killed closes nothing, and Python warns of each connection.
unclosed = pytest.mark.filterwarnings("ignore::ResourceWarning")
pytestmark = [pytest.mark.native, pytest.mark.slow, unclosed]

FIRST = int(os.environ.get("DETOK_FIRST_SEED", "1000"))
SEEDS = int(os.environ.get("DETOK_SEEDS", "100000"))
PART = 1000


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    gc.collect()  # what was killed is no other test's warning


def broken(seeds):
    """Return what is wrong in the schedules of these seeds."""
    found = {}
    for seed in seeds:
        if wrong := run_plan(make_plan(seed)).wrong:
            found[seed] = wrong
    return found


def test_the_laws_hold_in_25_schedules():
    assert broken(range(25)) == {}


@pytest.mark.full
@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_the_laws_hold_in_1000_schedules(first):
    assert broken(range(first, first + 100)) == {}


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, PART))
def test_the_laws_hold_in_as_many_schedules_as_asked_for(first):
    assert broken(range(first, min(first + PART, FIRST + SEEDS))) == {}


@pytest.mark.parametrize(
    ("seed", "found"),
    [
        (470, "an end had the id of a batch that Redis had appended after its timeout"),
        (10540, "who read a claim that was given up kept it"),
        (2264, "a copy that a trimmed log could not go on with broke the protocol"),
        (21206, "a reader that looked for a run while its claim succeeded stopped its writer"),
        (10575, "a resume at a replica whose own claim was late broke the protocol"),
        (6959, "a run that was cancelled before its claim ended, but not in Redis"),
        (19105, "a turn that Redis got late was taken from a newer socket of the same client"),
        (41418, "a copy whose log expired while a reader was looked for broke the protocol"),
        (35962, "a copy behind a trimmed log ended as lost, late, and not as expired"),
        (29979, "a run whose client came back when its keys had expired was cancelled"),
        (62778, "a reader whose copy went for a newer attempt was told no end"),
    ],
)
def test_what_a_seed_has_found_stays_mended(seed, found):
    assert broken([seed]) == {}, found


def test_a_seed_replays_exactly():
    for seed in range(4):
        first, second = [run_plan(make_plan(seed)) for _ in range(2)]
        assert str(first.plan) == str(second.plan)
        assert first.trace == second.trace
