"""Which attempt of a client to read a run is older than another."""

from detok_py.protocol.reader import MAX_READERS, Attempt, Attempts


def test_what_another_server_knows_is_learned_with_its_order():
    attempts = Attempts()
    attempts.learn(["before", "page"], 3)
    assert attempts.last == Attempt("page", 3)
    assert attempts.are_after(Attempt("before", 9))
    attempts.learn(["page"], 2)
    assert attempts.last == Attempt("page", 3)
    attempts.learn(["other", "page"], 5)
    assert attempts.last == Attempt("page", 5)
    assert attempts.are_after(Attempt("other", 1))


def test_only_the_latest_sessions_are_remembered():
    attempts = Attempts()
    for n in range(MAX_READERS + 2):
        attempts.add(Attempt(str(n), 0))
    assert attempts.lack(Attempt("0", 0))
    assert not attempts.lack(Attempt("1", 0))
