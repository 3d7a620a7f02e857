"""What stages share: states that go through JSON, and common prefixes."""

import json

import pytest

from detok_py.decode.stage import common, tuples


def test_a_state_comes_back_from_json():
    state = ((1, ("a", None)), (), "b")
    assert tuples(json.loads(json.dumps(state))) == state


@pytest.mark.parametrize(
    ("a", "b", "n"), [("", "", 0), ("a", "", 0), ("ab", "ab", 2), ("ab", "abc", 2), ("xb", "ab", 0)]
)
def test_the_length_of_a_common_prefix(a, b, n):
    assert common(a, b) == common(b, a) == n
