"""What both sides share: the tables' one function, and run ids."""

import pytest

from detok_py.errors import LocalProtocolError, RemoteProtocolError
from detok_py.protocol.events import new_run_id, next_state


@pytest.mark.parametrize("error", [LocalProtocolError, RemoteProtocolError])
def test_an_event_without_a_transition_raises_the_error_of_the_side_at_fault(error):
    table = {("idle", "generate"): "waiting"}
    assert next_state(table, "idle", "generate", error) == "waiting"
    with pytest.raises(error, match='`data` is not allowed in the state "idle"'):
        next_state(table, "idle", "data", error)


def test_run_ids_are_128_random_bits():
    assert len({new_run_id() for _ in range(1000)}) == 1000
    assert len(new_run_id()) == 32
