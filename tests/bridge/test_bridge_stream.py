"""`detok serve` over real sockets, with the scripted engine: streams, faults and their messages."""

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import socket
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
import websockets
from bridge_rig import TEXT, VOCABULARY, message, running, socket_to
from test_bridge_gate import serving
from waiting import eventually, eventually_sync

from detok_py import cli
from detok_py.bridge import metrics
from detok_py.bridge.engines import End, EngineError, Ids, Info, Prompt, Raw, Request, Sampling
from detok_py.bridge.jobs import Work, run_job
from detok_py.bridge.serve import log_fault
from detok_py.bridge.store import MemoryStore
from detok_py.bridge.stream import Bridge, _Sender, _Turns
from detok_py.decode.vocabulary import Vocabulary
from detok_py.protocol import wire
from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import (
    Bytes,
    Failed,
    Finished,
    Gap,
    Hello,
    Notice,
    Started,
    Tokens,
    new_run_id,
)
from detok_py.protocol.runs import Runs
from detok_py.protocol.server import ServerSession

pytestmark = [pytest.mark.native, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


class FakeEngine:
    """An engine that sends a list of chunks; it raises exceptions and sleeps for numbers in it."""

    def __init__(self, steps, gives="ids", down=None):
        self.steps, self._gives, self.down = steps, gives, down
        self.closed = 0
        self.given = 0

    async def open(self):
        if self.down:
            raise EngineError(self.down)

    def info(self):
        return Info("fake", self._gives)

    def gives(self, request: Request):
        return self._gives

    async def refuse_vocabulary(self, vocabulary):
        return None

    async def generate(self, request):
        try:
            for step in self.steps:
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, (int, float)):
                    await asyncio.sleep(step)
                else:
                    self.given += 1
                    yield step
        finally:
            self.closed += 1

    async def close(self):
        pass


async def scripted(bridge, text, *, want="both", on_event=None, **params):
    """Let the scripted engine say a text, as fast as it can unless a pace is given."""
    params = {"engine": "scripted", "text": text, "pace": 0, **params}
    asked = {"prompt": "", "params": params, "want": want}
    return await bridge.converse(on_event=on_event, **asked)


async def first_bytes(ws, **fields):
    """Ask for an answer over a new socket, and wait for the first bytes of it."""
    await ws.recv()
    await ws.send(wire.message("generate", prompt="hi", **fields))
    while not isinstance(await ws.recv(), bytes):
        pass


@pytest.mark.parametrize("want", ["ids", "bytes", "both"])
async def test_a_text_cut_by_token_arrives_complete(want):
    async with running() as bridge:
        heard = await scripted(bridge, TEXT, want=want)
    assert heard.data == TEXT.encode()
    assert heard.of(Started)[0].data == want
    assert heard.end.reason == "eos"
    assert heard.sockets == 1


THINKING = "<|im_start|>assistant\n<think>\n"
MESSAGES = {"messages": [{"role": "user", "content": "hi"}]}
ANSWER = [Ids([1]), End("eos")]


@pytest.mark.parametrize(
    ("asked", "steps", "start"),
    [
        ({"prompt": THINKING}, ANSWER, "reasoning"),
        ({"prompt": "Hello"}, ANSWER, "content"),
        (MESSAGES, [Prompt(THINKING), *ANSWER], "reasoning"),
        (MESSAGES, [Prompt(list(THINKING.encode())), *ANSWER], "reasoning"),
        (MESSAGES, ANSWER, ""),
    ],
    ids=["prompt", "plain prompt", "template", "template in ids", "not known"],
)
async def test_started_says_what_the_prompt_has_opened(asked, steps, start):
    engine = FakeEngine(steps)
    engine.tells_prompt = True
    async with running(engine) as bridge:
        heard = await bridge.converse(**asked)
    assert [started.start for started in heard.of(Started)] == [start]
    assert [event.ids for event in heard.of(Tokens)] == [[1]]


async def test_a_text_cut_by_byte_arrives_byte_by_byte():
    async with running() as bridge:
        heard = await scripted(bridge, TEXT, cut="byte")
    assert [event.data for event in heard.of(Bytes)] == [bytes([b]) for b in TEXT.encode()]


async def test_hello_names_the_engine_and_a_vocabulary_that_can_be_fetched():
    async with running() as bridge:
        heard = await bridge.converse(prompt="hi", params={"pace": 0})
        hello = heard.of(Hello)[0]
        answer = await bridge.get(hello.vocabulary["url"])
    assert hello.engine["fidelity"] == "ids"
    assert hello.vocabulary["sha256"] == VOCABULARY.sha256
    assert answer.content == VOCABULARY.pack()
    assert answer.headers["cache-control"].endswith("immutable")


async def test_hello_names_the_format_of_the_vocabulary(monkeypatch):
    for name in (None, "harmony"):
        monkeypatch.setattr(VOCABULARY, "chat_format", name)
        async with running() as bridge:
            heard = await bridge.converse(prompt="hi", params={"pace": 0})
        assert heard.of(Hello)[0].raw.get("chat_format") == name


async def test_injected_invalid_bytes_arrive_unchanged_and_depend_on_the_seed():
    faulty = {"seed": 7, "faults": {"invalid": 0.3}}
    async with running() as bridge:
        first = await scripted(bridge, TEXT, cut="byte", **faulty)
        again = await scripted(bridge, TEXT, cut="byte", **faulty)
        by_token = await scripted(bridge, TEXT, cut="token", **faulty)
    assert first.data == again.data == by_token.data
    assert len(first.data) > len(TEXT.encode())
    with pytest.raises(UnicodeDecodeError):
        first.data.decode()


async def test_a_stop_inside_a_character_stops():
    async with running() as bridge:
        heard = await scripted(bridge, "café", cut="byte", faults={"end": 4})
    assert heard.data == b"caf\xc3"
    assert heard.end.reason == "stop"


async def test_an_engine_crash_is_an_error_and_keeps_the_text_so_far():
    async with running() as bridge:
        heard = await scripted(bridge, TEXT, cut="byte", faults={"crash": 9})
    assert heard.data == TEXT.encode()[:9]
    assert isinstance(heard.end, Failed)
    assert heard.end.code == 4503
    assert "what came before is kept" in heard.end.message


async def test_a_stalled_stream_continues():
    async with running() as bridge:
        begin = time.monotonic()
        heard = await scripted(bridge, "abc", cut="byte", faults={"stall": [2, 0.3]})
    assert heard.data == b"abc"
    assert time.monotonic() - begin >= 0.3


async def test_the_stream_keeps_its_pace():
    async with running() as bridge:
        begin = time.monotonic()
        await scripted(bridge, "a" * 50, cut="byte", pace=100)
    assert time.monotonic() - begin >= 0.45


async def test_a_long_prompt_takes_three_bytes_a_character_not_six():
    """uvicorn closes a socket whose frame has more than a mebibyte."""
    prompt = "日" * 340_000
    async with running(FakeEngine([Ids([1]), End("eos")])) as bridge:
        heard = await bridge.converse(prompt=prompt)
    assert heard.end.reason == "eos"


async def test_a_cancel_stops_an_engine_that_says_nothing_and_is_confirmed():
    engine = FakeEngine([Ids([1]), 60.0])
    async with running(engine) as bridge, socket_to(bridge) as ws:
        await first_bytes(ws)
        await ws.send(wire.message("cancel"))
        assert message(await ws.recv())["reason"] == "cancelled"
        await eventually(lambda: engine.closed == 1, 30)


@pytest.mark.parametrize("code", [1000, 4499])
async def test_a_client_that_closes_its_socket_stops_its_engine(code):
    engine = FakeEngine([Ids([1]), 60.0])
    async with running(engine) as bridge:
        async with socket_to(bridge) as ws:
            await first_bytes(ws)
            await ws.close(code)
        await eventually(lambda: engine.closed == 1)
        [run] = bridge.bridge.store.runs.by_id.values()
        assert run.log.end is not None
        assert run.log.end["reason"] == "cancelled"


async def test_the_engine_of_an_expired_run_is_stopped():
    engine = FakeEngine([Ids([1]), 60.0])
    async with running(engine, store=MemoryStore(keep_seconds=0.2)) as bridge:
        async with socket_to(bridge) as ws:
            await first_bytes(ws)
            ws.transport.abort()
        await eventually(lambda: engine.closed == 1)
        assert bridge.bridge.store.runs.by_id == {}


async def test_an_engine_that_is_down_is_reported_and_the_page_is_still_served():
    engine = FakeEngine([], down="No llama-server answers at http://127.0.0.1:1; start it.")
    async with running(engine) as bridge:
        heard = await bridge.converse(prompt="hi")
        health = (await bridge.get("/healthz")).json()
    assert heard.end.code == 4503
    assert heard.end.retry
    assert "start it" in heard.end.message
    assert heard.of(Hello)[0].engine["down"]
    assert health["status"] == "engine down"


async def test_an_engine_lost_during_an_answer_is_an_error():
    async with running(FakeEngine([Ids([97]), Ids([98])])) as bridge:
        heard = await bridge.converse(prompt="hi")
    assert heard.data == b"ab"
    assert isinstance(heard.end, Failed)
    assert "without an end event" in heard.end.message


async def test_an_id_outside_the_vocabulary_fails_the_run():
    async with running(FakeEngine([Ids([97]), Ids([9999]), End("eos")])) as bridge:
        heard = await bridge.converse(prompt="hi", want="both")
    assert heard.data == b"a"
    assert "9999" in heard.end.message


async def test_a_bug_in_the_bridge_is_reported_without_its_message(caplog):
    async with running(FakeEngine([Ids([97]), RuntimeError("canary")])) as bridge:
        heard = await bridge.converse(prompt="hi")
    assert heard.end.code == 1011
    assert "canary" not in heard.end.message + caplog.text
    assert caplog.records[0].fields["kind"] == "RuntimeError"


async def test_the_note_of_dropped_tokens_is_sent():
    steps = [Raw(b"a", 1, 97), End("length", "The engine dropped the last token.")]
    async with running(FakeEngine(steps, gives="bytes")) as bridge:
        heard = await bridge.converse(prompt="hi")
    assert heard.end == Finished("length", 1, "The engine dropped the last token.")


async def test_missing_ids_are_recovered_or_sent_as_a_gap():
    # The first chunk has one cut into three tokens, of which " \xf0\x9f" is 257; the second gives a
    # gap, because one token has no bytes.
    steps = [Raw(b" \xf0\x9f\x8c\xa6", 3, 0xA6), Raw(b"?", 2, 63), End("eos")]
    async with running(FakeEngine(steps, gives="bytes")) as bridge:
        heard = await bridge.converse(prompt="hi", want="both")
    assert heard.ids == [257, 0x8C, 0xA6, 63]
    assert [(gap.count, gap.data) for gap in heard.of(Gap)] == [(1, b"")]


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"tempreature": 1}, "'tempreature'"),
        ({"max_tokens": 0}, "max_tokens must be an integer"),
        ({"max_tokens": 1.5}, "max_tokens must be an integer"),
        ({"temperature": "hot"}, "temperature must be a number"),
        ({"seed": True}, "seed must be an integer"),
        ({"engine": "gpt"}, "no such engine"),
        ({"engine": "scripted", "cut": "half"}, "'half'"),
        ({"engine": "scripted", "text": 7}, "params.text"),
        ({"engine": "scripted", "pace": -1}, "a number of tokens"),
        ({"engine": "scripted", "pace": 10**400}, "a number of tokens"),
        ({"engine": "scripted", "text": "a" * 300_000}, "at most"),
        ({"engine": "scripted", "faults": 1}, "are an object"),
        ({"engine": "scripted", "faults": {"fire": 1}}, "'fire'"),
        ({"engine": "scripted", "faults": {"invalid": 2}}, "'invalid'"),
        ({"engine": "scripted", "faults": {"stall": [1]}}, "'stall'"),
    ],
)
async def test_an_invalid_request_is_refused_with_a_reason(params, word):
    async with running() as bridge:
        heard = await bridge.converse(prompt="hi", params=params)
    assert heard.end.code in (4400, 4404)
    assert word in heard.end.message
    assert not heard.end.retry


async def test_a_text_without_tokens_in_the_vocabulary_is_refused_with_the_way_out():
    async with running(vocabulary=Vocabulary.from_bytes([b"a", b"b"])) as bridge:
        heard = await scripted(bridge, "abc")
    assert 'use cut "byte"' in heard.end.message


async def test_a_slow_reader_pauses_only_its_own_engine():
    engine = FakeEngine([Ids([n % 256]) for n in range(20_000)] + [End("eos")])
    async with running(engine) as bridge, socket_to(bridge, max_queue=1) as slow:
        await slow.recv()
        await slow.send(wire.message("generate", prompt="hi", want="ids"))
        await eventually(lambda: engine.given >= 1024)
        await asyncio.sleep(0.1)
        assert engine.given <= 1026
        run = next(iter(bridge.bridge.store.runs.by_id.values()))
        assert run.log.size < 256 << 10
        quick = await scripted(bridge, TEXT)
        assert quick.data == TEXT.encode()
        # when the slow client reads on, it gets everything
        got = 0
        while got < 20_000:
            frame = await slow.recv()
            if isinstance(frame, bytes):
                got += len(wire.read_data(frame)[1])
                await slow.send(wire.message("ack", n=got))
        assert message(await slow.recv())["tokens"] == 20_000


async def test_what_comes_later_in_a_turn_of_the_loop_is_sent_as_one_frame_when_it_ends():
    async def send(_):
        raise AssertionError("the way through uvicorn takes several turns")

    turns, runs, written = _Turns(), [], []
    for _ in range(3):
        session = ServerSession(Runs(), {"engine": {"name": "fake"}})
        _Sender(session, send, {"can": lambda: True, "write": written.append}, turns)
        [(_, run)] = session.receive(wire.message("generate", prompt="", want="ids"))
        run.log.start("ids")  # sends hello and `started`
        runs.append(run)
    await asyncio.sleep(0)
    for _ in range(2):
        written.clear()
        for token in (1, 2, 3):
            for run in runs:
                run.log.add_ids([token])
        assert written == [[b"\1\1"]] * 3
        await asyncio.sleep(0)
        assert written == [[b"\1\1"]] * 3 + [[b"\1\2\3"]] * 3
        await asyncio.sleep(0)


@pytest.mark.parametrize("offered", [[], ["chat"]])
async def test_a_socket_without_the_subprotocol_is_closed_with_4406(offered):
    async with running() as bridge:
        try:
            async with socket_to(bridge, subprotocols=offered or None) as ws:
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    await ws.recv()
                assert closed.value.rcvd.code == 4406
        except websockets.InvalidHandshake:
            assert offered  # the client refuses a server that accepts none of its subprotocols


async def test_a_ninth_client_gets_hello_then_the_error_busy():
    async with running(max_clients=2) as bridge, socket_to(bridge) as one, socket_to(bridge) as two:
        await one.recv(), await two.recv()
        async with socket_to(bridge) as three:
            assert message(await three.recv())["type"] == "hello"
            await three.send(wire.message("generate", prompt="hi"))
            assert message(await three.recv())["code"] == 4429
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await three.recv()
            assert closed.value.rcvd.code == 4429
        await one.close()
        await eventually(lambda: bridge.bridge.clients == 1)
        async with socket_to(bridge) as four:
            await four.recv()
            assert bridge.bridge.clients == 2


async def test_a_client_of_a_full_bridge_tries_again_until_there_is_a_place():
    async with running(max_clients=1) as bridge:
        one = await socket_to(bridge)
        await one.recv()

        async def free(event, ws, session):
            if isinstance(event, Notice):
                await one.close()

        heard = await scripted(bridge, TEXT, on_event=free)
    assert heard.data == TEXT.encode()
    assert heard.of(Notice)[0].code == 4429


async def test_more_sockets_than_can_wait_are_closed_at_once():
    async with running(max_clients=1) as bridge, contextlib.AsyncExitStack() as stack:
        for _ in range(9):
            ws = await stack.enter_async_context(socket_to(bridge))
            assert message(await ws.recv())["type"] == "hello"
        ws = await stack.enter_async_context(socket_to(bridge))
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await ws.recv()
        assert closed.value.rcvd.code == 4429


async def test_silent_sockets_give_their_places_to_the_sockets_that_resume_their_runs():
    engine = FakeEngine([item for n in range(100) for item in (Ids([n]), 0.005)] + [End("eos")])
    async with running(engine, max_clients=8) as bridge, contextlib.AsyncExitStack() as stack:
        sessions = []
        for _ in range(8):
            session = ClientSession()
            session.generate(prompt="hi", want="ids")
            session.opened()
            # Its pings are not answered and its end is not sent: half-open, as far as is visible.
            dead = await stack.enter_async_context(socket_to(bridge))
            session.receive(await dead.recv())
            for frame in session.frames():
                await dead.send(frame)
            session.receive(await dead.recv())
            assert session.state == "streaming"
            session.lost(1006)
            sessions.append(session)
        begin = time.monotonic()
        heard = await asyncio.gather(*[bridge.converse(session) for session in sessions])
        assert time.monotonic() - begin < 20
        assert bridge.bridge.clients <= 8
    assert [one.end for one in heard] == [Finished("eos", 100, None)] * 8
    assert engine.closed == 8
    assert [one.sockets for one in heard] == [1] * 8


async def test_a_stopping_bridge_closes_with_1012_and_another_bridge_does_not_have_the_run():
    engine = FakeEngine([Ids([97]), 60.0])
    run_id = new_run_id()
    async with running(engine) as bridge:
        ws = await socket_to(bridge)
        await first_bytes(ws, id=run_id)
    await ws.wait_closed()
    assert ws.close_code == 1012
    assert engine.closed == 1
    async with running() as bridge, socket_to(bridge) as ws:
        await ws.recv()
        await ws.send(wire.message("resume", id=run_id, after=1))
        assert message(await ws.recv())["code"] == 4410


async def test_metrics_have_the_usual_names_and_no_content():
    async with running() as bridge:
        params = {"text": "canary", "pace": 0}
        await bridge.converse(prompt="canary", params=params)
        text = (await bridge.get("/metrics")).text
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    engine = bridge.bridge.first.name
    assert found[f'detok_time_to_first_token_seconds_count{{engine="{engine}"}}'] == "1.0"
    assert found[f'detok_inter_token_latency_seconds_count{{engine="{engine}"}}'] == "5.0"
    assert found[f'detok_generation_tokens_total{{engine="{engine}"}}'] == "6.0"
    assert found[f'detok_requests_total{{engine="{engine}",finished_reason="eos"}}'] == "1.0"
    assert found[f'detok_requests_running{{engine="{engine}"}}'] == "0.0"
    assert found[f'detok_engine_up{{engine="{engine}"}}'] == "1.0"
    assert found['detok_runs{state="ended"}'] == "1.0"
    assert float(found['detok_run_bytes{state="ended"}']) > 0
    assert "canary" not in text
    # The document and the dashboard have all of them, and nothing else.
    names = set(re.findall(r"# HELP (\w+)", text))
    names -= {name for name in names if name.endswith("_created")}
    document = (ROOT / "docs/bridge-security.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(detok_\w+)` \|", document, re.M)) == names
    dashboard = json.loads((ROOT / "deploy/grafana.json").read_text("utf-8"))
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = set(re.findall(r"\bdetok_\w+", " ".join(asked)))
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in used} == names


async def test_times_are_those_of_tokens_and_without_waits_for_the_reader(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(metrics, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    class Slow(FakeEngine):
        async def generate(self, request):
            yield Prompt([1, 2, 3])
            for seconds in (1.0, 0.25):
                now[0] += seconds
                yield Ids([7])
            yield End("eos")

    async def ready(run, request):
        return None

    measured = metrics.Metrics()
    run = Runs(window={"tokens": 1, "bytes": 1}).create("0123456789abcdef", {})
    work = Work(Slow([]), ready, None, lambda prompt: "", measured.of("slow"))
    asked = Request(None, [{}], Sampling(), "ids", {})
    job = asyncio.create_task(run_job(run, asked, work))
    for n in (1, 2):
        await eventually(lambda n=n: run.log.position == n)
        now[0] += 100.0
        run.reader.acknowledge(n)
    await job
    found = re.findall(r"detok_(\w+_seconds_sum){.*} (.*)", measured.expose().decode())
    assert found == [
        ("time_to_first_token_seconds_sum", "1.0"),
        ("inter_token_latency_seconds_sum", "0.25"),
    ]


def test_an_error_while_the_bridge_opens_ends_it(monkeypatch):
    async def fails(self):
        assert asyncio.get_running_loop().get_exception_handler() is log_fault
        raise RuntimeError("a bug")

    monkeypatch.setattr(Bridge, "open", fails)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["serve", "--port", "0", "--engine", "scripted"])


async def test_an_error_that_nothing_catches_is_logged_without_its_message(caplog):
    loop = asyncio.get_running_loop()
    with caplog.at_level(logging.ERROR):
        log_fault(loop, {"message": "canary", "exception": ValueError("canary")})
        log_fault(loop, {"message": "canary"})
    assert [record.fields for record in caplog.records] == [
        {"kind": "ValueError", "where": "?"},
        {},
    ]
    assert "canary" not in caplog.text


def state_and_parent_of(pid):
    """Return the state of a process and its parent, from /proc, because ps may be missing."""
    state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    return state, int(parent)


def children_of(pid):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if state_and_parent_of(name)[1] == pid:
                found.append(int(name))
    return found


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_detok_serve_prints_its_url_and_a_signal_stops_it_and_its_engine(sent):
    with serving(engine=None) as (process, url):
        assert process.stdout.readline().startswith("engine: llama.cpp")
        with urllib.request.urlopen(url + "healthz", timeout=60) as answer:
            assert json.load(answer)["status"] == "ok"
        children = children_of(process.pid)
        assert children
        process.send_signal(sent)
        process.wait(10)
        for child in children:
            with pytest.raises(ProcessLookupError):
                os.kill(child, 0)
    assert "Traceback" not in process.said[1]


def test_the_engine_of_a_killed_bridge_exits():
    with serving(engine=None) as (process, _):
        assert process.stdout.readline().startswith("engine: llama.cpp")
        [child] = children_of(process.pid)
        process.kill()

    def ended():
        try:
            return state_and_parent_of(child)[0] == "Z"  # ended, but not waited for
        except OSError:
            return True

    eventually_sync(lambda: ended())


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--engine", "gpt"], "there is no engine 'gpt'"),
        (["--engine", "magic+http://127.0.0.1:1"], "no engine kind 'magic'"),
        (["--engine", "http://user:secret@127.0.0.1"], "no user or password"),
        (["--engine", "http://192.0.2.1:80"], "not on this machine"),
        (["--engine", "transformers"], "--model"),
        (["--allow-origin", "*"], "is not an origin"),
        (["--max-clients", "0"], "--max-clients"),
        (["--tokenizer", "/nowhere/tokenizer.json"], "/nowhere/tokenizer.json"),
    ],
)
def test_an_invalid_command_line_is_refused_with_a_reason(options, word, capsys):
    assert cli.main(["serve", "--port", "0", *options]) == 2
    said = capsys.readouterr().err
    assert word in said
    assert said.count("\n") == 1
    assert "secret" not in said


def test_a_port_in_use_is_refused_with_the_way_out(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert cli.main(["serve", "--port", port, "--engine", "scripted"]) == 2
    assert "--port" in capsys.readouterr().err


def websocket_of(bridge):
    """Return the server's end of its only WebSocket."""
    connections = bridge.server._uvicorn.server_state.connections
    [found] = [one for one in connections if type(one).__name__ == "StrictWebSocket"]
    return found


async def test_a_token_does_not_wait_for_a_delayed_tcp_ack():
    """Without TCP_NODELAY, Nagle's algorithm and delayed acks delay the token after each ack by 40
    ms.
    """
    async with running() as bridge, socket_to(bridge) as ws:
        await ws.recv()
        connected = websocket_of(bridge).transport.get_extra_info("socket")
        assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_hello_names_the_format_of_the_template_that_the_engine_uses():
    engine = FakeEngine(ANSWER)
    engine.chat_template = "{{ '<tool_call>' }} <function= <parameter= </think> <think>"
    async with running(engine, vocabulary=None) as bridge:
        heard = await bridge.converse(prompt="hi", want="bytes")
    assert heard.of(Hello)[0].raw["chat_format"] == "qwen3.5"
