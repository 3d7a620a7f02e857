"""A test that waits in vain says what for, and what it saw last."""

import pytest
from waiting import eventually, eventually_sync, told

pytestmark = pytest.mark.native


class Engine:
    def __init__(self, closed):
        self.closed = closed


async def test_a_wait_in_vain_names_the_condition_and_the_values():
    engine, runs = Engine(2), {"a": "b"}
    with pytest.raises(AssertionError) as failed:
        await eventually(lambda: engine.closed == 3 and not runs, 0)
    assert str(failed.value).splitlines()[0] == (
        "after 0 s not yet: engine.closed == 3 and (not runs); "
        "last seen: engine.closed = 2, runs = {'a': 'b'}"
    )
    with pytest.raises(AssertionError, match="last seen: engine.closed = 2"):
        eventually_sync(lambda: engine.closed < 1, 0)


async def test_what_holds_in_time_is_no_failure():
    looks = []
    await eventually(lambda: looks.append(1) or len(looks) > 2)
    eventually_sync(lambda: looks.append(1) or len(looks) > 5)
    assert len(looks) == 6


def test_a_value_that_fails_or_is_long_is_shown_short():
    missing, long = {}, "x" * 1000
    sentence = told(lambda: missing["name"] or long == "", 60)
    assert "missing['name'] = KeyError('name')" in sentence
    assert len(sentence) < 500


def test_a_lambda_over_several_lines_is_quoted():
    sentence = told(
        lambda: (
            1 == 2  # as the formatter leaves it
        ),
        60,
    )
    assert sentence.startswith("after 60 s not yet: ")
    assert "1" in sentence and "2" in sentence
