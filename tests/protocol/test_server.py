"""The server's side: runs, resuming, what is kept and how long, and clients that break the
protocol. Every test has a real client at the other end.
"""

import hashlib
import json
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from link import RUN, TOKENS, Link, feed, read_again

from detok_py.errors import LocalProtocolError
from detok_py.protocol import wire
from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Failed, Finished, Hello, Notice, Pong, Started
from detok_py.protocol.log import Log
from detok_py.protocol.runs import Runs


def test_a_generation_from_hello_to_finished():
    link = Link(prompt="hi", params={"max_tokens": 5}).settle()
    assert link.tasks == [("generate", link.run)]
    assert link.run.request == {
        "prompt": "hi",
        "messages": None,
        "params": {"max_tokens": 5},
        "want": "both",
    }
    link.feed()
    assert link.of(Hello)[0].engine == {"name": "test"}
    assert link.of(Started) == [Started(RUN, "both", 0, "")]
    assert link.data() == TOKENS
    assert link.events[-1] == Finished("eos", 5, None)


def test_a_long_chat_counts_as_the_characters_that_were_sent():
    messages = [{"role": "user", "content": "今" * 300_000}]
    link = Link()
    event = {"type": "generate", "id": RUN, "messages": messages}
    assert link.server.receive(json.dumps(event, ensure_ascii=False), 0.0)
    assert link.run.request["messages"] == messages


@pytest.mark.parametrize(
    ("data", "expected"),
    [("ids", [(i, None) for i, _ in TOKENS]), ("bytes", list(b"".join(p for _, p in TOKENS)))],
)
def test_a_run_of_ids_or_of_bytes(data, expected):
    link = Link(prompt="hi", want=data).settle()
    assert link.feed().data() == expected
    assert link.client.state == "finished"


def test_tokens_of_unknown_ids_keep_their_count_and_their_bytes():
    link = Link(prompt="hi").settle()
    link.run.log.start("both")
    link.run.log.add_tokens([(3, b"a")])
    link.run.log.add_gap(2, b"\xe3\x81\x82")
    link.run.log.add_gap(1, b"c")
    link.run.log.add_tokens([(4, b"b")])
    link.run.log.finish("length", note="three ids are not known")
    link.settle()
    assert link.data() == [(3, b"a"), (2, b"\xe3\x81\x82"), (1, b"c"), (4, b"b")]
    assert link.events[-1] == Finished("length", 5, "three ids are not known")


def test_a_resume_inside_a_gap_breaks_the_protocol():
    link = Link(prompt="hi").settle()
    link.run.log.start("both")
    link.run.log.add_tokens([(3, b"a"), (4, b"b")])
    link.run.log.add_gap(2, b"c")
    link.run.log.add_gap(3, b"d")
    link.run.log.add_tokens([(5, b"e")])
    refused = []
    for after in range(link.run.log.position + 1):
        link.connect()
        link.server.receive(wire.message("resume", id=RUN, after=after))
        if link.server.closing is not None:
            assert link.server.closing == (4400, f"`resume.after` is {after}, inside a gap.")
            refused.append(after)
    assert refused == [3, 5, 6]


def test_the_server_and_its_engine_pause_at_1024_unacknowledged_tokens():
    link = Link(prompt="hi")
    link.client.paused = True
    link.settle()
    link.run.log.start("ids")
    link.run.log.add_ids(range(1000))
    assert link.run.reader.has_credit
    link.run.log.add_ids(range(1000))
    assert not link.run.reader.has_credit
    link.settle()
    assert link.client.position == 1024
    woken = []
    link.run.reader.wake = lambda: woken.append(link.run.reader.has_credit)
    link.client.paused = False
    link.client.acknowledge()
    link.settle()
    assert link.client.position == 2000
    assert woken[-1]


@pytest.mark.parametrize("data", ["both", "ids", "bytes"])
@pytest.mark.parametrize("seed", range(40))
def test_any_schedule_of_cuts_loses_nothing_and_doubles_nothing(data, seed):
    """Frames are delivered one at a time, the engine produces tokens in between, and the connection
    is cut at random moments.
    """
    rng = random.Random(seed)
    tokens = [
        (
            rng.randrange(1 << rng.randrange(1, 32)),
            bytes(rng.randrange(256) for _ in range(rng.randrange(6))),
        )
        for _ in range(400)
    ]
    client = ClientSession(ack_every=10, max_attempts=1000)
    link = Link(Runs(window={"tokens": 70, "bytes": 600}), client, prompt="hi", want=data)
    left = list(tokens)
    generations = 0
    for _ in range(20_000):
        if link.client.state == "finished":
            break
        link.step()
        generations += sum(word == "generate" for word, _ in link.tasks)
        link.tasks.clear()
        run = link.run
        if run and not run.log.data:
            run.log.start(data)
        if run and run.log.end is None and run.reader.has_credit and rng.random() < 0.5:
            token = left.pop(0)
            feed(run, data, [token], reason=None if left else "eos")
        if rng.random() < 0.05:
            if rng.random() < 0.5:
                link.cut()
            else:
                link.client.lost(1006)  # half-open: the server has not noticed
            link.connect()
    assert link.client.state == "finished"
    assert generations == 1
    expected = {
        "both": tokens,
        "ids": [(i, None) for i, _ in tokens],
        "bytes": list(b"".join(p for _, p in tokens)),
    }[data]
    assert link.data() == expected


def test_a_lost_request_is_sent_again_and_runs_once():
    link = Link(prompt="hi")
    link.step()  # the hello arrives
    link.up += link.client.frames()
    assert '"generate"' in link.up[0]
    link.reconnect()
    assert [word for word, _ in link.tasks] == ["generate"]
    link.reconnect()
    assert [word for word, _ in link.tasks] == ["generate"]


def test_a_request_is_the_same_whatever_the_order_of_its_keys():
    """A page may ask in Pyodide and after a reload in MicroPython, whose dicts have no order."""
    one = {"pace": 5, "faults": {"crash": 1, "stall": [2, 3]}}
    link = Link(prompt="hi", params=one).settle()
    other = {"faults": {"stall": [2, 3], "crash": 1}, "pace": 5}
    again = Link(link.store, prompt="hi", params=other).settle()
    assert (again.tasks, again.server.closing) == ([], None)
    assert again.server.run is link.run
    other["faults"]["stall"] = [3, 2]
    assert Link(link.store, prompt="hi", params=other).settle().server.closing[0] == 4400


def test_a_newer_socket_takes_the_run_over_and_the_older_one_is_closed():
    link = Link(prompt="hi").settle()
    woken = []
    link.server.wake = lambda: woken.append(True)
    again = read_again(link.store)
    assert link.server.closing == (4499, "another socket has taken up this run")
    assert woken
    assert link.server.lost(4499, 0.0) == []
    assert link.run.reader.session is again.server


def test_a_socket_without_a_place_takes_that_of_the_socket_whose_run_it_resumes():
    link = Link(prompt="hi").settle().feed(reason=None)
    old = link.server
    link.client.lost(1006)  # the server has not noticed
    link.connect()
    link.server.has_place, link.server.full = False, "Full."
    link.settle()
    assert old.closing[0] == 4499
    assert (old.has_place, link.server.has_place) == (False, True)
    link.finish("eos")
    assert link.data() == TOKENS
    assert isinstance(link.events[-1], Finished)


def test_a_socket_has_a_place_unless_the_program_says_otherwise():
    link = Link(prompt="hi")
    link.server.full = "Full."
    link.settle()
    assert link.server.closing is None


@pytest.mark.parametrize("owned", [False, True], ids=["a lost run", "a new run"])
def test_a_socket_without_a_place_is_closed_unless_there_is_one_now(owned):
    link = Link(prompt="hi")
    if not owned:
        link.settle()
        link.cut()
        link.connect()
    link.server.has_place, link.server.full = False, "Full."
    tasks = len(link.tasks)
    link.settle()
    assert link.server.closing == (4429, "too many clients")
    assert len(link.tasks) == tasks
    link.client.lost(4429)
    link.connect()
    link.server.has_place, link.server.full = False, None
    link.settle()
    assert link.server.has_place
    assert link.server.closing is None
    assert link.run.reader.session is link.server


def test_a_restarted_bridge_reports_the_run_as_gone_and_earlier_events_stay_valid():
    link = Link(prompt="hi").settle().feed(reason=None)
    link.cut()
    link.store = Runs()
    link.connect()
    link.settle()
    failed = link.of(Failed)[0]
    assert (failed.code, failed.position) == (4410, 5)
    assert link.server.closing[0] == 4410
    assert link.data() == TOKENS


def test_a_run_is_kept_for_60_seconds_after_its_client_was_lost():
    link = Link(prompt="hi").settle()
    link.server.lost(1006, 100.0)
    assert link.store.expire(159.9) == []
    run = link.run
    assert link.store.expire(160.0) == [run]
    assert link.store.by_id == {}


def test_a_run_with_a_client_is_never_expired():
    link = Link(prompt="hi").settle()
    assert link.store.expire(1e9) == []


@pytest.mark.parametrize("code", [1000, 4499])
def test_a_client_that_closes_on_purpose_stops_its_engine_at_once(code):
    link = Link(prompt="hi").settle().feed(reason=None)
    assert link.server.lost(code, 0.0) == [("cancel", link.run)]
    link.run.log.finish("cancelled")
    assert read_again(link.store).data() == TOKENS


@pytest.mark.parametrize("code", [1000, 1001, 1006])
def test_a_run_that_was_received_to_its_end_can_be_read_again(code):
    # The client may be a worker whose page is reloaded before it knows of the end.
    link = Link(prompt="hi").settle().feed()
    assert link.run.reader.done
    assert link.server.lost(code, 100.0) == []
    again = read_again(link.store)
    assert again.data() == TOKENS
    assert again.events[-1] == Finished("eos", 5, None)
    assert link.tasks == [("generate", link.run)]
    again.server.lost(1001, 101.0)
    assert link.store.expire(160.9) == []
    assert [run.id for run in link.store.expire(161.0)] == [RUN]


def test_a_client_that_leaves_after_another_took_its_run_over_stops_nothing():
    link = Link(prompt="hi").settle()
    again = read_again(link.store)
    again.server.lost(1006, 0.0)
    assert link.server.lost(1000, 0.0) == []
    assert not link.run.reader.done


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((3, 5), {"usage": {"prompt_tokens": 3, "completion_tokens": 5}}),
        ((3, None), {"usage": {"prompt_tokens": 3}}),
        ((None, 5), {"usage": {"completion_tokens": 5}}),
        ((None, None), {}),
    ],
)
def test_the_end_has_the_counts_that_the_engine_says(counts, said):
    log = Log()
    log.finish("eos", counts=counts)
    assert log.end == {"type": "finished", "reason": "eos", "note": None, **said}


def test_a_lost_end_is_sent_again():
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    link.client.ack_every = 1
    link.settle()
    link.run.log.finish("eos")
    link.server.frames()
    assert link.reconnect().events[-1] == Finished("eos", 5, None)


def test_a_run_is_received_to_its_end_only_once_it_has_ended():
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    for done in (False, True):
        link.settle().server.receive(json.dumps({"type": "ack", "n": 5, "end": True}))
        assert link.run.reader.done == done
        link.run.log.finish("eos")


def test_the_log_drops_only_acknowledged_data_and_then_the_run_cannot_be_read_from_the_start():
    store = Runs(max_log=8000, window={"tokens": 16, "bytes": 16})
    link = Link(store, prompt="hi", want="ids")
    link.client.ack_every = 4
    link.settle()
    run = link.run
    run.log.start("ids")
    for i in range(5000):
        run.log.add_ids([i])
        if not run.reader.has_credit:
            link.settle()
    assert run.log.size < 8000 + 16 * 200
    assert run.log.base > 0
    run.log.finish("length")
    link.settle()
    assert link.data() == [(i, None) for i in range(5000)]
    assert read_again(store).of(Failed)[0].code == 4410
    # The same `generate` again fails in the same way.
    again = Link(store, ClientSession(), prompt="hi", want="ids").settle()
    assert again.of(Failed)[0].code == 4410
    assert again.tasks == []


def test_an_engine_that_is_lost_gives_its_data_then_an_error():
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    link.run.log.fail(
        4503,
        "The engine at 127.0.0.1:8080 closed the connection in mid-answer; start it and ask again.",
        retry=True,
    )
    link.settle()
    assert link.data() == TOKENS
    assert link.events[-1].code == 4503
    assert link.events[-1].retry
    assert not link.of(Finished)


def test_an_error_is_not_one_to_try_again_after_unless_it_says_so():
    link = Link(prompt="hi").settle()
    link.run.log.fail(4500, "The engine said no.")
    link.settle()
    assert link.of(Failed) == [Failed(4500, "The engine said no.", False, 0)]
    assert not link.of(Started)


def test_the_sha256_is_that_of_the_joined_payloads():
    link = Link(prompt="hi", want="ids").settle()
    feed(link.run, "ids")
    assert (
        json.loads(link.run.log.ending(RUN))["sha256"]
        == hashlib.sha256(wire.pack_ids(i for i, _ in TOKENS)).hexdigest()
    )


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ({"type": "ack", "n": 1}, "`ack.n` is 1"),
        ({"type": "ack", "n": -1}, "must be an integer"),
        ({"type": "ack", "n": True}, "must be an integer"),
        ({"type": "ack"}, "must be an integer"),
        ({"type": "resume", "id": RUN, "after": 10**6}, "only at"),
        ({"type": "resume", "id": "short", "after": 0}, "16 to 64"),
        ({"type": "resume", "id": "a" * 65, "after": 0}, "16 to 64"),
        ({"type": "resume", "id": RUN}, "must be an integer"),
        ({"type": "generate", "id": RUN, "prompt": "other"}, "another request"),
        (
            {"type": "generate", "id": "another-run-id-1", "prompt": "hi"},
            "`generate` is not allowed",
        ),
        ({"type": "generate"}, "either `prompt` or `messages`"),
        ({"type": "generate", "prompt": "a", "messages": [{}]}, "either `prompt` or `messages`"),
        ({"type": "generate", "prompt": 7}, "must be a string"),
        ({"type": "generate", "messages": []}, "list of objects"),
        ({"type": "generate", "messages": ["hi"]}, "list of objects"),
        ({"type": "generate", "prompt": "a", "params": []}, "params"),
        ({"type": "generate", "prompt": "a", "want": "text"}, "want"),
        ({"type": "generate", "prompt": "a" * 2_000_000}, "at most"),
        ({"type": "generate", "prompt": "a", "id": "x/../../etc/passwd"}, "16 to 64"),
    ],
)
def test_a_client_that_breaks_the_protocol_is_closed_and_can_resume(message, word):
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    link.server.receive(json.dumps(message))
    assert link.server.closing[0] == 4400
    assert word in link.server.closing[1]
    said = json.loads(link.server.frames()[-1])
    assert said["type"] == "error"
    assert said["code"] == 4400
    link.cut(4400)
    again = read_again(link.store)
    assert again.data() == TOKENS


def test_a_client_that_sends_a_binary_frame_is_closed():
    link = Link(prompt="hi").settle()
    link.server.receive(b"\x00abc")
    assert link.server.closing[0] == 4400


def test_an_unknown_message_is_answered_and_the_connection_stays():
    link = Link(prompt="hi").settle()
    link.server.receive('{"type":"dance"}')
    link.settle()
    assert link.server.closing is None
    assert "'dance'" in link.of(Notice)[0].message
    link.feed()
    assert link.client.state == "finished"


def test_a_ping_gets_a_pong_and_too_many_pings_close_the_socket():
    link = Link().settle()
    link.client.ping()
    link.settle()
    assert link.of(Pong) == [Pong()]
    for n in range(200):
        link.server.receive('{"type":"ping"}', n * 0.5)
    assert link.server.closing is None
    for _ in range(20):
        link.server.receive('{"type":"ping"}', 200.0)
    assert link.server.closing is None
    link.server.receive('{"type":"ping"}', 200.0)
    assert link.server.closing[0] == 4429


def test_one_socket_serves_one_generation_after_another():
    link = Link(prompt="hi").settle().feed()
    link.client.generate(prompt="again", run_id="another-run-id-1")
    link.settle()
    assert link.tasks[-1][0] == "generate"
    assert link.server.run.id == "another-run-id-1"
    assert link.server.run.reader.attempts.last.number == 1
    assert read_again(link.store).data() == TOKENS


def test_a_run_whose_socket_reads_another_run_is_kept_like_one_whose_client_was_lost():
    link = Link(prompt="hi").settle()
    link.store.create("another-run-id-1", {})
    link.now = 100.0
    link.server.receive('{"type":"resume","id":"another-run-id-1","after":0}', link.now)
    assert link.store.expire(159.9) == []
    # The bridge stops the engines of the runs that `expire` returns.
    assert [run.id for run in link.store.expire(160.0)] == [RUN]


def test_of_too_many_lost_runs_those_lost_first_are_dropped():
    store = Runs(max_runs=3)
    for n in range(5):
        store.create(f"run-number-{n:06}", {}).reader.detached_at = float(n)
    assert [run.id[-1] for run in store.expire(10.0)] == ["0", "1"]


def test_runs_with_a_client_do_not_count_towards_the_bound():
    store = Runs(max_runs=3)
    for n in range(8):
        store.create(f"run-number-{n:06}", {}).reader.detached_at = 0.0 if n < 3 else None
    assert store.expire(10.0) == []


def test_runs_that_were_received_to_their_end_are_dropped_first_and_share_one_log_bound():
    store = Runs(max_runs=4, max_log=1000)
    for n in range(6):
        run = store.create(f"run-number-{n:06}", {})
        run.log.start("bytes")
        run.log.add_bytes(bytes(300))  # and 200 for its place in the log
        run.reader.detached_at, run.reader.done = float(n), n % 2 == 1
    assert [run.id[-1] for run in store.expire(10.0)] == ["1", "3"]
    for run in store.by_id.values():
        run.reader.done = True
    assert [run.id[-1] for run in store.expire(10.0)] == ["0", "2"]
    assert sum(run.log.size for run in store.by_id.values()) <= 1000


def test_a_run_takes_only_data_of_its_kind_and_nothing_after_its_end():
    run = Runs().create(RUN, {})
    with pytest.raises(LocalProtocolError):
        run.log.start("text")
    run.log.start("ids")
    with pytest.raises(LocalProtocolError, match="does not carry"):
        run.log.add_bytes(b"a")
    run.log.finish("eos")
    with pytest.raises(LocalProtocolError, match="ended"):
        run.log.add_ids([1])


@given(
    st.sampled_from(["bytes", "ids", "both"]),
    st.lists(st.integers(0, 300), max_size=120),
    st.integers(0, 5000),
    st.integers(1, 900),
)
def test_a_log_reads_the_same_from_every_position(data, numbers, start, window):
    """Small pieces share segments of the log; no frame and no position shows that."""
    run = Runs(max_log=10**9).create(RUN, {})
    run.log.start(data)
    pieces = []
    for n in numbers:
        if data == "bytes":
            pieces += [bytes([n % 251]) * n] if n else []
            run.log.add_bytes(bytes([n % 251]) * n)
        elif data == "ids":
            pieces += [wire.pack_ids([n]), wire.pack_ids([n + 1])]
            run.log.add_ids([n, n + 1])
        elif n % 7:
            pieces += [wire.pack_tokens([(n, bytes(n))])]
            run.log.add_tokens([(n, bytes(n))])
        else:
            run.log.add_gap(n + 1, b"gap")
            pieces += [(n + 1, wire.pack_gap(n + 1, b"gap"))]
    # The expected entries, each at its position, and the payload from there on.
    marks, at = {}, 0
    for index, piece in enumerate(pieces):
        marks[at] = index
        at += piece[0] if isinstance(piece, tuple) else len(piece) if data == "bytes" else 1
    assert at == run.log.position
    begin = sorted(marks)[start % len(marks)] if marks else 0
    offset = start % len(pieces[marks[begin]]) if data == "bytes" and pieces else 0
    position, out = begin + offset, []
    acked = position
    while position < run.log.position:
        frame, position = run.log.read(position, acked + window)
        out.append(frame)
        acked = position
    expected = [p[1] if isinstance(p, tuple) else p for p in pieces[marks.get(begin, 0) :]]
    assert b"".join([frame[1:] for frame in out]) == b"".join(expected)[offset:]
    if data == "bytes" and window >= 300:
        # Raw bytes come as the engine cut them.
        whole = [*([expected[0][offset:]] if expected else []), *expected[1:]]
        assert [frame[1:] for frame in out] == whole


def test_a_log_drops_what_is_acknowledged_as_it_grows_and_as_it_is_read():
    log = Log(max_size=20_000)
    log.start("bytes")
    for _ in range(30):
        log.add_bytes(b"x" * 1000)
    assert log.size > 30_000
    log.acknowledge(log.position)
    assert log.size <= 20_000
    log.add_bytes(b"x" * 15_000)
    assert log.size <= 20_000


def test_a_log_that_has_dropped_all_goes_on_where_it_was():
    log = Log(max_size=100)
    log.start("ids")
    for n in range(3):
        log.add_ids([n])
        log.acknowledge(n + 1)
        assert (log.base, log.size, log.read(n + 1, 9)) == (n + 1, 0, None)
    log.add_ids([3])
    log.add_ids([4])
    assert log.read(3, 9) == (wire.data_frame(wire.IDS, wire.pack_ids([3, 4])), 5)


@pytest.mark.parametrize("data", ["bytes", "ids", "both"])
def test_three_thousand_tokens_take_little_memory(data):
    tokens = [(300 + n % 50, b"abcd") for n in range(3000)]
    tracemalloc.start()
    run = Runs().create(RUN, {})
    before = tracemalloc.get_traced_memory()[0]
    feed(run, data, tokens)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert taken < 100_000
    assert run.log.size > taken / 2  # what the bounds of a store count


def test_a_flood_of_messages_without_progress_closes_the_socket():
    link = Link(prompt="hi").settle()
    for n in range(300):
        link.server.receive('{"type":"dance"}', now=n / 1000)
        if link.server.closing:
            break
    assert link.server.closing[0] == 4429
    assert 250 < n < 299
    assert len(link.server.frames()) <= 300
    # The run goes on with another socket.
    assert link.client.lost(4429) is not None
    link.connect()
    link.settle()
    assert link.run.reader.session is link.server


def test_acks_that_move_on_are_never_too_many():
    link = Link(prompt="hi", want="ids", client=ClientSession(ack_every=1)).settle()
    link.run.log.start("ids")
    for n in range(2000):
        link.run.log.add_ids([n])
        link.settle()
    assert link.server.closing is None
    assert link.run.log.acked == 2000


def test_acks_that_move_on_do_not_pay_for_other_messages():
    link = Link(prompt="hi", want="ids", client=ClientSession(ack_every=1)).settle()
    link.run.log.start("ids")
    for n in range(300):
        link.run.log.add_ids([n])
        link.now = n / 1000
        link.settle()
        link.server.receive('{"type":"dance"}', now=link.now)
        if link.server.closing:
            break
    assert link.server.closing[0] == 4429
    assert 250 < n < 299


def test_a_client_that_receives_its_runs_may_ask_for_as_many_as_it_likes():
    link = Link().settle()
    for n in range(400):
        link.client.generate(prompt="hi", run_id=f"run-number-{n:06}")
        link.settle()
        feed(link.tasks[-1][1])
        link.settle()
    assert link.server.closing is None
    assert len(link.of(Finished)) == 400


def test_large_requests_count_as_several_messages():
    link = Link().settle()
    frame = wire.message("generate", prompt="x" * 1_000_000)
    for n in range(10):
        link.tasks += link.server.receive(frame, now=n / 10)
        if link.server.closing:
            break
        link.server.run.log.fail(4400, "No.")
        link.server.frames()
    assert link.server.closing[0] == 4429
    assert n < 6


def test_the_requests_of_running_runs_share_one_bound():
    store = Runs(max_pending=1200)
    links = [Link(store) for _ in range(3)]
    for n, link in enumerate(links):
        link.client.generate(prompt="x" * 400, run_id=f"run-number-{n:06}")
        link.settle()
    assert [link.server.closing and link.server.closing[0] for link in links] == [None, None, 4429]
    links[0].server.run.log.finish("eos")
    assert links[2].cut(4429) is not None
    links[2].connect()
    links[2].settle()
    assert links[2].server.closing is None


def test_a_run_that_no_client_has_asked_for_weighs_nothing():
    store = Runs()
    store.create(RUN, {})
    assert store.pending == 0


def test_a_large_chunk_of_bytes_is_cut_into_frames():
    link = Link(Runs(window={"tokens": 1024, "bytes": 1 << 20}), prompt="hi", want="bytes").settle()
    link.run.log.start("bytes")
    link.run.log.add_bytes(bytes(100_000))
    link.run.log.finish("eos")
    assert max(len(frame) for frame in link.server.frames() if isinstance(frame, bytes)) <= 16385
