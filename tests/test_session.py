"""The two sessions against each other, without a socket: order, credit, resume, and what happens to whoever breaks the rules."""

import hashlib
import json
import random

import pytest

from detok_py import wire
from detok_py.errors import LocalProtocolError
from detok_py.session import (
    Bytes,
    ClientSession,
    Failed,
    Finished,
    Gap,
    Hello,
    Notice,
    Pong,
    RunStore,
    ServerSession,
    Started,
    Tokens,
    backoff,
    new_run_id,
)

RUN = "0123456789abcdef"
TOKENS = [(3, b"caf\xc3"), (300, b"\xa9 "), (7, b""), (70000, b"\xf0\x9f"), (8, b"\x98\x80!")]


class Link:
    """A server, a client and the frames between them; `cut` loses what is on the way."""

    def __init__(self, store=None, client=None, hello=None, **generate):
        self.store = store or RunStore()
        self.hello = hello or {"engine": {"name": "test"}}
        self.client = client or ClientSession()
        self.events = []
        self.tasks = []
        self.now = 0.0
        if generate:
            self.client.generate(run_id=RUN, **generate)
        self.connect()

    def connect(self):
        self.server = ServerSession(self.store, self.hello)
        self.client.opened()
        self.up = list(self.client.frames())
        self.down = []

    def step(self):
        """One frame in each direction; False when nothing moved."""
        self.up += self.client.frames()
        self.down += self.server.frames()
        moved = bool(self.up or self.down)
        if self.up:
            self.tasks += self.server.receive(self.up.pop(0), self.now)
        if self.down:
            self.events += self.client.receive(self.down.pop(0))
        return moved

    def settle(self):
        while self.step():
            pass
        return self

    def cut(self, code=1006):
        self.server.lost(code, self.now)
        return self.client.lost(code)

    @property
    def run(self):
        return self.store.runs.get(RUN)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def data(self):
        """Everything that arrived, in one comparable form; raises if the positions don't follow each other."""
        out, at = [], 0
        for event in self.events:
            if isinstance(event, (Bytes, Tokens, Gap)):
                assert event.position == at
            if isinstance(event, Bytes):
                out += list(event.data)
                at += len(event.data)
            elif isinstance(event, Tokens):
                out += list(zip(event.ids, event.pieces or [None] * len(event.ids)))
                at += len(event.ids)
            elif isinstance(event, Gap):
                out.append((event.count, event.data))
                at += event.count
        return out


def feed(run, data="both", tokens=TOKENS, reason="eos"):
    run.start(data)
    for i, piece in tokens:
        if data == "bytes":
            run.add_bytes(piece)
        elif data == "ids":
            run.add_ids([i])
        else:
            run.add_tokens([(i, piece)])
    if reason:
        run.finish(reason)


def test_a_generation_from_hello_to_finished():
    link = Link(prompt="hi", params={"max_tokens": 5}).settle()
    assert link.tasks == [("generate", link.run)]
    assert link.run.request == {"prompt": "hi", "messages": None, "params": {"max_tokens": 5}, "want": "both"}
    feed(link.run)
    link.settle()
    assert link.of(Hello)[0].engine == {"name": "test"}
    assert link.of(Started) == [Started(RUN, "both", 0)]
    assert link.data() == TOKENS
    assert link.events[-1] == Finished("eos", 5, None)


@pytest.mark.parametrize(("data", "expected"), [("ids", [(i, None) for i, _ in TOKENS]), ("bytes", list(b"".join(p for _, p in TOKENS)))])
def test_ids_or_bytes_alone(data, expected):
    link = Link(prompt="hi", want=data).settle()
    feed(link.run, data)
    assert link.settle().data() == expected
    assert link.client.state == "finished"


def test_nothing_is_sent_before_the_hello():
    client = ClientSession()
    client.generate(prompt="hi")
    client.opened()
    assert client.frames() == []


def test_tokens_of_unknown_ids_keep_their_count_and_their_bytes():
    link = Link(prompt="hi").settle()
    link.run.start("both")
    link.run.add_tokens([(3, b"a")])
    link.run.add_gap(2, b"\xe3\x81\x82")
    link.run.add_tokens([(4, b"b")])
    link.run.finish("length", note="two ids are not known")
    link.settle()
    assert link.data() == [(3, b"a"), (2, b"\xe3\x81\x82"), (4, b"b")]
    assert link.events[-1] == Finished("length", 4, "two ids are not known")


def test_the_server_pauses_at_1024_unacknowledged_tokens_and_the_engine_with_it():
    link = Link(prompt="hi")
    link.client.paused = True
    link.settle()
    link.run.start("ids")
    link.run.add_ids(range(1000))
    assert link.run.has_credit
    link.run.add_ids(range(1000))
    assert not link.run.has_credit
    link.settle()
    assert link.client.position == 1024
    woken = []
    link.run.wake = lambda: woken.append(link.run.has_credit)
    link.client.paused = False
    link.client.acknowledge()
    link.settle()
    assert link.client.position == 2000
    assert woken[-1]


@pytest.mark.parametrize("data", ["bytes", "ids", "both"])
@pytest.mark.parametrize("size", [1, 2, 3, 63, 100])
def test_a_server_with_a_small_window_is_acknowledged_in_time(size, data):
    link = Link(RunStore(window={"tokens": size, "bytes": size}), prompt="hi", want=data).settle()
    feed(link.server.run, data, TOKENS * 50)
    link.settle()
    assert isinstance(link.events[-1], Finished)


def test_a_paused_client_that_cancels_still_hears_the_end():
    link = Link(prompt="hi")
    link.client.paused = True
    link.settle()
    link.run.start("ids")
    link.run.add_ids(range(1500))
    link.settle()
    link.client.cancel()
    link.settle()
    assert link.tasks[-1] == ("cancel", link.run)
    link.run.finish("cancelled")
    link.settle()
    assert link.events[-1] == Finished("cancelled", 1500, None)


@pytest.mark.parametrize("data", ["both", "ids", "bytes"])
@pytest.mark.parametrize("seed", range(40))
def test_any_schedule_of_cuts_loses_nothing_and_doubles_nothing(data, seed):
    """Frames are delivered one at a time, the engine goes on in between, and the connection is cut at random moments."""
    rng = random.Random(seed)
    tokens = [(rng.randrange(1 << rng.randrange(1, 32)), bytes(rng.randrange(256) for _ in range(rng.randrange(6)))) for _ in range(400)]
    link = Link(RunStore(window={"tokens": 70, "bytes": 600}), prompt="hi", want=data)
    link.client.ack_every = 10
    left = list(tokens)
    generations = 0
    for _ in range(20_000):
        if link.client.state == "finished":
            break
        link.step()
        generations += sum(word == "generate" for word, _ in link.tasks)
        link.tasks.clear()
        run = link.run
        if run and not run.data:
            run.start(data)
        if run and run.end is None and run.has_credit and rng.random() < 0.5:
            i, piece = left.pop(0)
            if data == "bytes":
                run.add_bytes(piece)
            elif data == "ids":
                run.add_ids([i])
            else:
                run.add_tokens([(i, piece)])
            if not left:
                run.finish("eos")
        if rng.random() < 0.05:
            if rng.random() < 0.5:
                link.cut()
            else:
                link.client.lost(1006)  # half-open: the server does not know
            link.client._attempts = 0
            link.connect()
    assert link.client.state == "finished"
    assert generations == 1
    expected = {"both": tokens, "ids": [(i, None) for i, _ in tokens], "bytes": list(b"".join(p for _, p in tokens))}[data]
    assert link.data() == expected


def test_a_request_that_was_lost_on_the_way_is_sent_again_and_runs_once():
    link = Link(prompt="hi")
    link.step()  # the hello arrives
    link.up += link.client.frames()
    assert '"generate"' in link.up[0]
    link.cut()
    link.connect()
    link.settle()
    assert [word for word, _ in link.tasks] == ["generate"]
    link.cut()
    link.connect()
    link.settle()
    assert [word for word, _ in link.tasks] == ["generate"]


def test_a_reloaded_page_takes_the_run_up_from_the_start():
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    link.settle()
    link.cut(1001)
    again = Link(link.store, ClientSession())
    again.client.attach(RUN)
    again.settle()
    assert again.data() == TOKENS
    link.run.finish("eos")
    again.settle()
    assert again.events[-1] == Finished("eos", 5, None)


def test_a_session_can_go_on_from_the_middle_when_the_start_is_in_other_hands():
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    link.settle().cut()
    again = Link(link.store, ClientSession())
    again.client.attach(RUN, after=3)
    link.run.finish("eos")
    again.settle()
    assert again.of(Tokens) == [Tokens(3, [70000, 8], [b"\xf0\x9f", b"\x98\x80!"])]
    assert again.events[-1] == Finished("eos", 5, None)


def test_a_newer_socket_takes_the_run_over_and_the_old_one_is_told_to_go():
    link = Link(prompt="hi").settle()
    woken = []
    link.server.wake = lambda: woken.append(True)
    again = Link(link.store, ClientSession())
    again.client.attach(RUN)
    again.settle()
    assert link.server.closing == (4499, "another socket has taken up this run")
    assert woken
    assert link.server.lost(4499, 0.0) == []
    assert link.run.owner is again.server


def test_a_bridge_that_was_restarted_says_that_the_run_is_gone_and_what_came_is_kept():
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    link.settle().cut()
    link.store = RunStore()
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
    assert link.store.runs == {}


def test_a_run_with_a_client_is_never_expired():
    link = Link(prompt="hi").settle()
    assert link.store.expire(1e9) == []


@pytest.mark.parametrize("code", [1000, 4499])
def test_a_client_that_closes_on_purpose_stops_its_engine_at_once(code):
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    link.settle()
    assert link.server.lost(code, 0.0) == [("cancel", link.run)]
    link.run.finish("cancelled")
    assert taken_up(link.store).data() == TOKENS


def taken_up(store):
    """Another client, as the page has after it was loaded again, that has the run from its beginning."""
    again = Link(store, ClientSession())
    again.client.attach(RUN)
    return again.settle()


@pytest.mark.parametrize("code", [1000, 1001, 1006])
def test_a_run_that_was_heard_to_its_end_can_be_taken_up_like_any_other(code):
    # The one that heard it may be a worker, and its page may be loaded again before it knows.
    link = Link(prompt="hi").settle()
    feed(link.run)
    link.settle()
    assert link.run.done
    assert link.server.lost(code, 100.0) == []
    again = taken_up(link.store)
    assert again.data() == TOKENS
    assert again.events[-1] == Finished("eos", 5, None)
    assert link.tasks == [("generate", link.run)]
    again.server.lost(1001, 101.0)
    assert link.store.expire(160.9) == []
    assert [run.id for run in link.store.expire(161.0)] == [RUN]


def test_a_client_that_leaves_after_another_took_its_run_up_stops_nothing():
    link = Link(prompt="hi").settle()
    again = taken_up(link.store)
    again.server.lost(1006, 0.0)
    assert link.server.lost(1000, 0.0) == []
    assert not link.run.done


def test_an_end_that_was_lost_on_the_way_comes_again():
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    link.client.ack_every = 1
    link.settle()
    link.run.finish("eos")
    link.server.frames()
    link.cut()
    link.connect()
    assert link.settle().events[-1] == Finished("eos", 5, None)


def test_the_log_forgets_only_what_was_acknowledged_and_says_so_when_it_is_asked_for():
    store = RunStore(max_log=8000, window={"tokens": 16, "bytes": 16})
    link = Link(store, prompt="hi", want="ids")
    link.client.ack_every = 4
    link.settle()
    run = link.run
    run.start("ids")
    for i in range(5000):
        run.add_ids([i])
        if not run.has_credit:
            link.settle()
    assert run.size < 8000 + 16 * 200
    assert run.base > 0
    run.finish("length")
    link.settle()
    assert link.data() == [(i, None) for i in range(5000)]
    assert taken_up(store).of(Failed)[0].code == 4410
    # whoever asks for it once more, because it never heard that it was asked for, is told the same
    again = Link(store, ClientSession(), prompt="hi", want="ids").settle()
    assert again.of(Failed)[0].code == 4410
    assert again.tasks == []


def test_an_engine_that_is_lost_ends_in_an_error_with_all_that_came_before():
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None)
    link.run.fail(4503, "The engine at 127.0.0.1:8080 closed the connection in mid-answer; start it and ask again.", retry=True)
    link.settle()
    assert link.data() == TOKENS
    assert link.events[-1].code == 4503
    assert link.events[-1].retry
    assert not link.of(Finished)


def test_an_engine_that_is_down_is_an_error_before_any_start():
    link = Link(prompt="hi").settle()
    link.run.fail(4503, "No engine answers at 127.0.0.1:8080; start it.", retry=True)
    link.settle()
    assert not link.of(Started)
    assert link.of(Failed)[0].message.startswith("No engine")


def test_a_vocabulary_that_is_not_ours_is_refused_before_anything_is_asked():
    link = Link(
        client=ClientSession("a" * 64), hello={"engine": {}, "vocabulary": {"sha256": "b" * 64, "size": 9, "url": "/v"}}, prompt="hi"
    ).settle()
    assert link.of(Failed)[0].code == 4409
    assert link.client.closing[0] == 4409
    assert link.tasks == []


def test_a_server_of_another_protocol_is_refused():
    client = ClientSession()
    client.generate(prompt="hi")
    client.opened()
    events = client.receive('{"type":"hello","protocol":"detok.v9"}')
    assert events[-1].code == 4406
    assert client.closing[0] == 4406


def test_a_stream_that_differs_from_what_was_sent_is_not_passed_off_as_whole():
    link = Link(prompt="hi").settle()
    feed(link.run)
    link.server.frames()
    frames = [
        wire.message("started", id=RUN, data="both", position=0),
        wire.data_frame(wire.TOKENS, wire.pack_tokens([(3, b"wrong")] + TOKENS[1:])),
        link.run.ending(),
    ]
    events = [event for frame in frames for event in link.client.receive(frame)]
    assert isinstance(events[-1], Failed)
    assert "SHA-256" in events[-1].message


def test_the_sum_is_over_the_joined_payloads():
    link = Link(prompt="hi", want="ids").settle()
    feed(link.run, "ids")
    assert json.loads(link.run.ending())["sha256"] == hashlib.sha256(wire.pack_ids(i for i, _ in TOKENS)).hexdigest()


@pytest.mark.parametrize(
    ("frame", "word"),
    [
        (wire.message("started", id=RUN, data="both", position=3), "start at 3"),
        (wire.message("started", id=RUN, data="text", position=0), "'text'"),
        (wire.message("finished", id=RUN, reason="eos", tokens=0), "end before"),
        (b"\x00abc", "data before"),
        (b"\x09", "op byte 9"),
        ("[" * 1000, "nested"),
    ],
)
def test_a_server_that_breaks_the_protocol_ends_the_run_and_says_how(frame, word):
    link = Link(prompt="hi")
    link.settle()
    events = link.client.receive(frame)
    assert word in events[-1].message
    assert link.client.closing[0] == 4400
    assert link.client.receive(frame) == []


def test_a_server_that_sends_beyond_its_credit_is_refused():
    link = Link(prompt="hi", want="ids").settle()
    link.client.paused = True
    link.client.receive(wire.message("started", id=RUN, data="ids", position=0))
    assert isinstance(link.client.receive(wire.data_frame(wire.IDS, wire.pack_ids(range(1024))))[0], Tokens)
    assert "credit" in link.client.receive(wire.data_frame(wire.IDS, b"\x01"))[0].message


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ({"type": "ack", "n": 1}, "ack of 1"),
        ({"type": "ack", "n": -1}, "not a count"),
        ({"type": "ack", "n": True}, "not a count"),
        ({"type": "ack"}, "not a count"),
        ({"type": "resume", "id": RUN, "after": 10**6}, "only at"),
        ({"type": "resume", "id": "short", "after": 0}, "16 to 64"),
        ({"type": "resume", "id": RUN}, "not a count"),
        ({"type": "generate", "id": RUN, "prompt": "other"}, "another request"),
        ({"type": "generate", "id": "another-run-id-1", "prompt": "hi"}, "second generate"),
        ({"type": "generate"}, "neither or both"),
        ({"type": "generate", "prompt": "a", "messages": [{}]}, "neither or both"),
        ({"type": "generate", "prompt": 7}, "not a string"),
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
    again = Link(link.store, ClientSession())
    again.client.attach(RUN)
    again.settle()
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
    feed(link.run)
    link.settle()
    assert link.client.state == "finished"


def test_a_ping_gets_a_pong_and_a_flood_of_them_is_closed():
    link = Link().settle()
    link.client.ping()
    link.settle()
    assert link.of(Pong) == [Pong()]
    for n in range(200):
        link.server.receive('{"type":"ping"}', n * 0.5)
    assert link.server.closing is None
    for _ in range(30):
        link.server.receive('{"type":"ping"}', 100.0)
    assert link.server.closing[0] == 4429


def test_one_socket_serves_one_generation_after_another():
    link = Link(prompt="hi").settle()
    feed(link.run)
    link.settle()
    link.client.generate(prompt="again", run_id="another-run-id-1")
    link.settle()
    assert link.tasks[-1][0] == "generate"
    assert link.server.run.id == "another-run-id-1"
    assert taken_up(link.store).data() == TOKENS


def test_a_run_that_its_socket_left_for_another_run_is_kept_as_if_its_client_was_lost():
    link = Link(prompt="hi").settle()
    link.store.create("another-run-id-1", {})
    link.now = 100.0
    link.server.receive('{"type":"resume","id":"another-run-id-1","after":0}', link.now)
    assert link.store.expire(159.9) == []
    # The rim stops the engines of those that are given back here, and of no others.
    assert [run.id for run in link.store.expire(160.0)] == [RUN]


def test_what_lost_says_follows_the_close_code():
    for code, again in [(1001, True), (1006, True), (1012, True), (4429, True), (4503, True), (1000, False), (4400, False), (4401, False)]:
        link = Link(prompt="hi").settle()
        assert (link.client.lost(code) is not None) is again


def test_a_client_stops_trying_after_eight_attempts_in_a_row():
    link = Link(prompt="hi").settle()
    waits = [link.client.lost(1006) for _ in range(9)]
    assert waits[:3] == [0.25, 0.5, 1.0]
    assert waits[-1] is None
    assert link.client.give_up(1006, "The connection to the bridge was lost.")[0].retry
    assert link.client.give_up(1006, "again") == []


def test_a_client_without_a_run_does_not_reconnect():
    assert ClientSession().lost(1006) is None


def test_backoff_is_jittered_over_its_upper_half():
    assert backoff(2, 0.0) == 0.5
    assert backoff(2, 1.0) == 1.0


def test_run_ids_are_128_random_bits():
    assert len({new_run_id() for _ in range(1000)}) == 1000
    assert len(new_run_id()) == 32


def test_too_many_lost_runs_push_out_those_lost_the_longest_ago():
    store = RunStore(max_runs=3)
    for n in range(5):
        store.create(f"run-number-{n:06}", {}).detached_at = float(n)
    assert [run.id[-1] for run in store.expire(10.0)] == ["0", "1"]


def test_runs_with_a_client_push_nobody_out():
    store = RunStore(max_runs=3)
    for n in range(8):
        store.create(f"run-number-{n:06}", {}).detached_at = 0.0 if n < 3 else None
    assert store.expire(10.0) == []


def test_runs_that_were_heard_to_their_end_go_first_and_take_no_more_room_than_one_log():
    store = RunStore(max_runs=4, max_log=1000)
    for n in range(6):
        run = store.create(f"run-number-{n:06}", {})
        run.start("bytes")
        run.add_bytes(bytes(300))  # and 160 for its place in the log
        run.detached_at, run.done = float(n), n % 2 == 1
    assert [run.id[-1] for run in store.expire(10.0)] == ["1", "3"]
    for run in store.runs.values():
        run.done = True
    assert [run.id[-1] for run in store.expire(10.0)] == ["0", "2"]
    assert sum(run.size for run in store.runs.values()) <= 1000


@pytest.mark.parametrize(
    "arguments", [{}, {"prompt": "a", "messages": [{}]}, {"prompt": "a", "want": "text"}], ids=["neither", "both", "want"]
)
def test_our_own_mistakes_are_local_errors(arguments):
    with pytest.raises(LocalProtocolError):
        ClientSession().generate(**arguments)


def test_a_second_generate_while_one_runs_is_a_local_error():
    link = Link(prompt="hi").settle()
    with pytest.raises(LocalProtocolError, match="going on"):
        link.client.generate(prompt="b")
    with pytest.raises(LocalProtocolError, match="going on"):
        link.client.attach(RUN)


def test_a_run_takes_only_what_it_said_it_carries_and_nothing_after_its_end():
    run = RunStore().create(RUN, {})
    with pytest.raises(LocalProtocolError):
        run.start("text")
    run.start("ids")
    with pytest.raises(LocalProtocolError, match="does not carry"):
        run.add_bytes(b"a")
    run.finish("eos")
    with pytest.raises(LocalProtocolError, match="ended"):
        run.add_ids([1])


def test_a_large_chunk_of_bytes_is_cut_into_frames():
    link = Link(RunStore(window={"tokens": 1024, "bytes": 1 << 20}), prompt="hi", want="bytes").settle()
    link.run.start("bytes")
    link.run.add_bytes(bytes(100_000))
    link.run.finish("eos")
    assert max(len(frame) for frame in link.server.frames() if isinstance(frame, bytes)) <= 16385
