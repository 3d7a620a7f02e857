"""The law for stops, tags and markers, by brute force: every text over a small alphabet, every cut, every end."""

import itertools

import pytest

from detok_py.segments import StopStrings
from laws.oracle import Certain, final_text, obeys_the_law

WORDS = ["".join(letters) for size in (1, 2, 3) for letters in itertools.product("ab", repeat=size)]
PAIRS = list(itertools.combinations(WORDS, 2))


@pytest.mark.parametrize("include", [False, True])
def test_one_stop_or_two_of_up_to_three_letters(include: bool) -> None:
    for stops in [(word,) for word in WORDS] + PAIRS:
        certain = Certain(lambda text: final_text(text, stops, include), "abc", max(map(len, stops)))
        assert obeys_the_law(lambda: StopStrings(stops, include), certain, "", 5) == 364
