"""The client's side: its states, credit, reconnecting, and servers that break the protocol."""

import pytest
from link import RUN, TOKENS, Link, feed

from detok_py.errors import LocalProtocolError
from detok_py.protocol import wire
from detok_py.protocol.client import ClientSession, backoff
from detok_py.protocol.events import Failed, Finished, Notice, Tokens
from detok_py.protocol.runs import Runs


def test_nothing_is_sent_before_the_hello():
    client = ClientSession()
    client.generate(prompt="hi")
    client.opened()
    assert client.frames() == []


@pytest.mark.parametrize("data", ["bytes", "ids", "both"])
@pytest.mark.parametrize("size", [1, 2, 3, 63, 100])
def test_a_server_with_a_small_window_is_acknowledged_in_time(size, data):
    link = Link(Runs(window={"tokens": size, "bytes": size}), prompt="hi", want=data).settle()
    link.feed(TOKENS * 50)
    assert isinstance(link.events[-1], Finished)


@pytest.mark.parametrize(("data", "window"), [("bytes", 8192), ("ids", 1024), ("both", 1024)])
def test_every_quarter_of_the_window_is_acknowledged(data, window):
    link = Link(prompt="hi", want=data).settle()
    link.run.log.start(data)
    link.settle()
    acks = []
    for _ in range(window):
        feed(link.run, data, [(1, b"x")], reason=None)
        link.client.receive(link.server.frames()[0])
        acks += link.client.frames()
    assert [wire.read_message(ack)["n"] for ack in acks] == [window * n // 4 for n in (1, 2, 3, 4)]


def test_a_paused_client_that_cancels_still_gets_the_end():
    link = Link(prompt="hi")
    link.client.paused = True
    link.settle()
    link.run.log.start("ids")
    link.run.log.add_ids(range(1500))
    link.settle()
    link.client.cancel()
    link.settle()
    assert link.tasks[-1] == ("cancel", link.run)
    link.finish("cancelled")
    assert link.events[-1] == Finished("cancelled", 1500, None)


def test_a_session_can_attach_to_the_middle_of_a_run():
    link = Link(prompt="hi").settle().feed(reason=None)
    link.cut()
    again = Link(link.store, ClientSession())
    again.client.attach(RUN, after=3)
    link.run.log.finish("eos")
    again.settle()
    assert again.of(Tokens) == [Tokens(3, [70000, 8], [b"\xf0\x9f", b"\x98\x80!"])]
    assert again.events[-1] == Finished("eos", 5, None)


def test_a_session_that_asked_for_one_run_can_attach_to_another():
    link = Link(prompt="hi").settle().feed()
    feed(link.store.create("another-run-id-1", {"want": "both"}))
    link.client.attach("another-run-id-1")
    link.settle()
    assert [word for word, _ in link.tasks] == ["generate"]
    assert link.of(Finished) == [Finished("eos", 5, None)] * 2


def test_a_server_with_another_vocabulary_is_refused_before_the_request():
    link = Link(
        client=ClientSession("a" * 64),
        hello={"engine": {}, "vocabulary": {"sha256": "b" * 64, "size": 9, "url": "/v"}},
        prompt="hi",
    ).settle()
    assert link.of(Failed)[0].code == 4409
    assert (
        "is bbbbbbbbbbbb…, but this page decodes with aaaaaaaaaaaa…" in link.of(Failed)[0].message
    )
    assert link.client.closing[0] == 4409
    assert link.tasks == []


def test_a_server_of_another_protocol_is_refused():
    client = ClientSession()
    client.generate(prompt="hi")
    client.opened()
    events = client.receive('{"type":"hello","protocol":"detok.v9"}')
    assert events[-1].code == 4406
    assert client.closing[0] == 4406


@pytest.mark.parametrize("failed", [False, True])
def test_a_stream_with_another_sha256_fails(failed):
    link = Link(prompt="hi").settle()
    feed(link.run, reason=None if failed else "eos")
    if failed:
        link.run.log.fail(4503, "The engine is gone.")
    link.server.frames()
    frames = [
        wire.message("started", id=RUN, data="both", position=0),
        wire.data_frame(wire.TOKENS, wire.pack_tokens([(3, b"wrong")] + TOKENS[1:])),
        link.run.log.ending(RUN),
    ]
    events = [event for frame in frames for event in link.client.receive(frame)]
    assert isinstance(events[-1], Failed)
    assert "SHA-256" in events[-1].message


@pytest.mark.parametrize(
    ("frame", "word"),
    [
        (wire.message("started", id=RUN, data="both", position=3), "position 3, expected 0"),
        (wire.message("started", id=RUN, data="text", position=0), "'text'"),
        (wire.message("finished", id=RUN, reason="eos", tokens=0), "SHA-256"),
        (b"\x00abc", "`data` is not allowed"),
        (b"\x09", "op byte 9"),
        ("[" * 1000, "nested"),
    ],
)
def test_a_server_that_breaks_the_protocol_ends_the_run_with_the_reason(frame, word):
    link = Link(prompt="hi")
    link.settle()
    events = link.client.receive(frame)
    assert word in events[-1].message
    assert link.client.closing[0] == 4400
    assert link.client.receive(frame) == []


@pytest.mark.parametrize("greeted", [False, True], ids=["hello", "started"])
def test_after_a_reconnect_data_before_started_is_refused(greeted):
    link = Link(prompt="hi").settle().feed(reason=None)
    link.cut()
    link.client.opened()
    if greeted:
        link.client.receive(wire.message("hello", protocol="detok.v1"))
    events = link.client.receive(wire.data_frame(wire.TOKENS, wire.pack_tokens(TOKENS)))
    assert [type(event) for event in events] == [Failed]
    assert "before `started`" in events[0].message
    assert (link.client.closing[0], link.client.position) == (4400, len(TOKENS))


@pytest.mark.parametrize("attached", [False, True])
def test_after_a_reconnect_finished_before_started_is_refused(attached):
    link = Link(prompt="hi").settle()
    feed(link.run)
    link.server.frames()
    client = ClientSession() if attached else link.client
    if attached:
        client.attach(RUN, len(TOKENS))
    else:
        client.receive(wire.message("started", id=RUN, data="both", position=0))
        client.receive(wire.data_frame(wire.TOKENS, wire.pack_tokens(TOKENS)))
        client.lost()
    client.opened()
    client.receive(wire.message("hello", protocol="detok.v1"))
    [failed] = client.receive(link.run.log.ending(RUN))
    assert failed.message == "The bridge broke the protocol: `finished` came before `started`."
    assert (client.closing[0], client.position) == (4400, len(TOKENS))


def test_the_reason_of_a_close_is_short_and_ascii():
    link = Link(
        client=ClientSession("a" * 64), hello={"vocabulary": {"sha256": "日" * 64}}, prompt="hi"
    ).settle()
    assert link.client.closing[1].startswith("The engine's vocabulary is ????????????")
    link.server.refuse(4503, "語" * 200)
    for _, reason in (link.client.closing, link.server.closing):
        assert len(reason.encode()) <= 123


def test_a_hello_whose_sha256_is_no_string_breaks_the_protocol():
    client = ClientSession("a" * 64)
    client.generate(prompt="hi")
    client.opened()
    events = client.receive('{"type":"hello","protocol":"detok.v1","vocabulary":{"sha256":5}}')
    assert "must be a string" in events[-1].message
    assert client.closing[0] == 4400


def test_a_server_that_sends_beyond_its_credit_is_refused():
    link = Link(prompt="hi", want="ids").settle()
    link.client.paused = True
    link.client.receive(wire.message("started", id=RUN, data="ids", position=0))
    assert isinstance(
        link.client.receive(wire.data_frame(wire.IDS, wire.pack_ids(range(1024))))[0], Tokens
    )
    assert "credit" in link.client.receive(wire.data_frame(wire.IDS, b"\x01"))[0].message


@pytest.mark.parametrize("code", [1001, 1006, 1012, 4429, 4503, 1000, 4400, 4401])
def test_lost_returns_a_wait_only_for_retryable_close_codes(code):
    link = Link(prompt="hi").settle()
    assert (link.client.lost(code) is None) == (code in (1000, 4400, 4401))


def test_a_client_tries_for_as_long_as_the_server_keeps_runs():
    link = Link(Runs(keep_seconds=60), prompt="hi").settle()
    waits = []
    while len(waits) < 100 and (seconds := link.client.lost(1006)) is not None:
        waits.append(seconds)
    assert waits[:3] == [0.25, 0.5, 1.0]
    assert 60 <= sum(waits) < 71
    assert link.client.give_up(1006, "The connection to the bridge was lost.")[0].retry
    assert link.client.give_up(1006, "again") == []


def test_a_client_that_never_heard_a_hello_gives_up_after_eight_attempts_in_a_row():
    client = ClientSession()
    client.generate(prompt="hi")
    assert [client.lost(1006) is not None for _ in range(9)] == [True] * 8 + [False]


def test_a_server_that_is_full_is_tried_for_as_long_as_it_keeps_runs():
    link = Link(Runs(keep_seconds=60), prompt="hi")
    waited, tries = 0.0, 0
    while tries < 100:
        tries += 1
        link.connect()
        link.server.has_place, link.server.full = False, "Full."
        link.settle()
        assert link.server.closing == (4429, "too many clients")
        seconds = link.cut(4429)
        if seconds is None:
            break
        waited += seconds
    assert 60 <= waited < 71
    assert link.of(Notice) == [Notice(4429, "Full.")] * tries
    assert link.of(Failed) == []


def test_an_error_before_the_hello_is_a_notice_and_the_client_tries_again():
    client = ClientSession()
    client.generate(prompt="hi")
    client.opened()
    frame = wire.message("error", code=4429, message="Full.", retry=True)
    assert client.receive(frame) == [Notice(4429, "Full.")]
    assert client.lost(4429) == 0.25


@pytest.mark.parametrize("lost", ["the cancel", "the cancel and the request", "nothing"])
def test_a_cancel_that_was_lost_is_repeated(lost):
    link = Link(prompt="hi")
    if lost != "the cancel and the request":
        link.settle()
        link.run.log.start("ids")
        link.settle()
    link.client.cancel()
    if lost == "nothing":
        link.settle()
    link.client.frames()  # these are lost
    link.reconnect()
    assert ("cancel", link.run) in link.tasks


def test_a_run_that_is_cancelled_before_its_engine_begins_is_finished_without_a_start():
    link = Link(Runs(), prompt="hi", want="ids").settle()
    link.client.cancel()
    link.settle()
    assert link.tasks[-1] == ("cancel", link.run)
    link.finish("cancelled")
    assert link.events[-1] == Finished("cancelled", 0, None)


def test_a_cancel_without_a_socket_is_sent_by_the_next_one():
    link = Link(prompt="hi").settle()
    link.run.log.start("ids")
    link.settle()
    link.cut()
    link.client.cancel()
    link.connect()
    link.settle()
    assert link.tasks[-1] == ("cancel", link.run)
    link.finish("cancelled")
    assert link.events[-1] == Finished("cancelled", 0, None)
    link.client.generate(prompt="again", run_id=RUN + "2")
    link.tasks = []
    link.settle()
    assert [word for word, _ in link.tasks] == ["generate"]


def test_a_client_without_a_run_does_not_reconnect():
    assert ClientSession().lost(1006) is None


def test_backoff_is_jittered_over_its_upper_half():
    assert backoff(2, 0.0) == 0.5
    assert backoff(2, 1.0) == 1.0


@pytest.mark.parametrize(
    "arguments",
    [{}, {"prompt": "a", "messages": [{}]}, {"prompt": "a", "want": "text"}],
    ids=["neither", "both", "want"],
)
def test_wrong_arguments_of_generate_are_local_errors(arguments):
    with pytest.raises(LocalProtocolError):
        ClientSession().generate(**arguments)


def test_a_second_run_while_one_is_active_is_a_local_error():
    link = Link(prompt="hi").settle()
    with pytest.raises(LocalProtocolError, match="not allowed"):
        link.client.generate(prompt="b")
    with pytest.raises(LocalProtocolError, match="not allowed"):
        link.client.attach(RUN)
