"""`detok serve` over real sockets, with the scripted engine: what arrives, what goes wrong, and what is said then."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import httpx
import pytest
import websockets
from bridge_rig import TEXT, VOCABULARY, converse, eventually, message, running
from websockets.asyncio.client import connect

from detok_py import wire
from detok_py.bridge.engines import End, EngineError, Ids, Info, Raw, Request
from detok_py.session import Bytes, Failed, Finished, Hello, RunStore, Started, Tokens, new_run_id

pytestmark = pytest.mark.native


class FakeEngine:
    """An engine that plays a list of chunks; an exception in it is raised, a number is slept."""

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

    async def vocabulary(self):
        return None

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


def socket_to(bridge, **options):
    return connect(bridge.stream, **{"origin": bridge.url, "subprotocols": ["detok.v1"], "compression": None, "proxy": None, **options})


@pytest.mark.parametrize("want", ["ids", "bytes", "both"])
async def test_a_text_cut_by_token_arrives_whole(want):
    async with running() as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="", params={"engine": "scripted", "text": TEXT, "pace": 0}, want=want)
    assert heard.data == TEXT.encode()
    assert heard.of(Started)[0].data == want
    assert heard.end.reason == "eos"
    assert heard.sockets == 1


async def test_a_text_cut_by_byte_arrives_byte_by_byte():
    async with running() as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="", params={"engine": "scripted", "text": TEXT, "cut": "byte", "pace": 0})
    assert [event.data for event in heard.of(Bytes)] == [bytes([b]) for b in TEXT.encode()]


async def test_the_hello_names_the_engine_and_the_vocabulary_and_the_vocabulary_is_there():
    async with running() as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi", params={"pace": 0})
        hello = heard.of(Hello)[0]
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.get(bridge.url + hello.vocabulary["url"])
    assert hello.engine["fidelity"] == "ids"
    assert hello.vocabulary["sha256"] == VOCABULARY.sha256
    assert answer.content == VOCABULARY.pack()
    assert answer.headers["cache-control"].endswith("immutable")


async def test_invalid_bytes_come_through_as_they_are_and_by_seed():
    params = {"engine": "scripted", "text": TEXT, "cut": "byte", "pace": 0, "seed": 7, "faults": {"invalid": 0.3}}
    async with running() as bridge:
        first = await converse(bridge.stream, bridge.url, prompt="", params=params)
        again = await converse(bridge.stream, bridge.url, prompt="", params=params)
        by_token = await converse(bridge.stream, bridge.url, prompt="", params={**params, "cut": "token"})
    assert first.data == again.data == by_token.data
    assert len(first.data) > len(TEXT.encode())
    with pytest.raises(UnicodeDecodeError):
        first.data.decode()


async def test_a_stop_in_mid_character_is_a_stop():
    async with running() as bridge:
        heard = await converse(
            bridge.stream,
            bridge.url,
            prompt="",
            params={"engine": "scripted", "text": "café", "cut": "byte", "pace": 0, "faults": {"end": 4}},
        )
    assert heard.data == b"caf\xc3"
    assert heard.end.reason == "stop"


async def test_an_engine_that_crashes_ends_in_an_error_with_the_text_so_far():
    async with running() as bridge:
        heard = await converse(
            bridge.stream,
            bridge.url,
            prompt="",
            params={"engine": "scripted", "text": TEXT, "cut": "byte", "pace": 0, "faults": {"crash": 9}},
        )
    assert heard.data == TEXT.encode()[:9]
    assert isinstance(heard.end, Failed)
    assert heard.end.code == 4503
    assert "what came before is kept" in heard.end.message


async def test_a_stall_is_only_a_pause():
    async with running() as bridge:
        begin = time.monotonic()
        heard = await converse(
            bridge.stream,
            bridge.url,
            prompt="",
            params={"engine": "scripted", "text": "abc", "cut": "byte", "pace": 0, "faults": {"stall": [2, 0.3]}},
        )
    assert heard.data == b"abc"
    assert time.monotonic() - begin >= 0.3


async def test_pace_is_kept():
    async with running() as bridge:
        begin = time.monotonic()
        await converse(bridge.stream, bridge.url, prompt="", params={"engine": "scripted", "text": "a" * 50, "cut": "byte", "pace": 100})
    assert time.monotonic() - begin >= 0.45


async def test_cancel_stops_the_engine_and_says_so():
    engine = FakeEngine([item for n in range(1000) for item in (Ids([n % 256]), 0.005)])

    async def cancel(event, ws, session):
        if isinstance(event, Tokens) and event.position > 5:
            session.cancel()

    async with running(engine) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi", on_event=cancel)
        assert engine.closed == 1
    assert heard.end.reason == "cancelled"
    assert heard.end.position < 900


async def test_the_engine_stops_within_100_ms_of_a_cancel():
    engine = FakeEngine([Ids([1]), 60.0])
    async with running(engine) as bridge, socket_to(bridge) as ws:
        await ws.recv()
        await ws.send(wire.message("generate", prompt="hi"))
        while not isinstance(await ws.recv(), bytes):
            pass
        await ws.send(wire.message("cancel"))
        begin = time.monotonic()
        assert message(await ws.recv())["reason"] == "cancelled"
        while not engine.closed:
            assert time.monotonic() - begin < 5
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("code", [1000, 4499])
async def test_a_client_that_leaves_on_purpose_stops_its_engine(code):
    engine = FakeEngine([Ids([1]), 60.0])
    async with running(engine) as bridge:
        async with socket_to(bridge) as ws:
            await ws.recv()
            await ws.send(wire.message("generate", prompt="hi"))
            while not isinstance(await ws.recv(), bytes):
                pass
            await ws.close(code)
        await eventually(lambda: engine.closed == 1)
        [run] = bridge.bridge.store.runs.values()
        assert run.end is not None
        assert run.end["reason"] == "cancelled"


async def test_a_client_that_is_lost_for_longer_than_the_bridge_keeps_a_run_stops_its_engine():
    engine = FakeEngine([Ids([1]), 60.0])
    async with running(engine, store=RunStore(keep_seconds=0.2)) as bridge:
        async with socket_to(bridge) as ws:
            await ws.recv()
            await ws.send(wire.message("generate", prompt="hi"))
            while not isinstance(await ws.recv(), bytes):
                pass
            ws.transport.abort()
        await eventually(lambda: engine.closed == 1)
        assert bridge.bridge.store.runs == {}


async def test_an_engine_that_is_down_is_named_with_the_way_out_and_the_page_still_comes():
    async with running(FakeEngine([], down="No llama-server answers at http://127.0.0.1:1; start it.")) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi")
        async with httpx.AsyncClient(trust_env=False) as http:
            health = (await http.get(bridge.url + "/healthz")).json()
    assert heard.end.code == 4503
    assert heard.end.retry
    assert "start it" in heard.end.message
    assert heard.of(Hello)[0].engine["down"]
    assert health["status"] == "engine down"


async def test_an_engine_that_comes_up_later_is_used():
    engine = FakeEngine([Ids([97]), End("eos")], down="No engine.")
    async with running(engine) as bridge:
        assert (await converse(bridge.stream, bridge.url, prompt="hi")).end.code == 4503
        engine.down = None
        assert (await converse(bridge.stream, bridge.url, prompt="hi")).data == b"a"


async def test_an_engine_that_is_lost_in_mid_answer_never_looks_finished():
    async with running(FakeEngine([Ids([97]), Ids([98])])) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi")
    assert heard.data == b"ab"
    assert isinstance(heard.end, Failed)
    assert "without saying that it was done" in heard.end.message


async def test_an_id_that_the_vocabulary_does_not_have_ends_the_run_in_one_sentence():
    async with running(FakeEngine([Ids([97]), Ids([9999]), End("eos")])) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi", want="both")
    assert heard.data == b"a"
    assert "9999" in heard.end.message


async def test_a_fault_of_the_bridge_is_said_to_be_one_and_its_message_stays_inside(caplog):
    async with running(FakeEngine([Ids([97]), RuntimeError("canary")])) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi")
    assert heard.end.code == 1011
    assert "canary" not in heard.end.message + caplog.text
    assert caplog.records[0].fields["kind"] == "RuntimeError"


async def test_what_an_engine_dropped_is_said():
    async with running(FakeEngine([Raw(b"a", 1, 97), End("length", "The engine dropped the last token.")], gives="bytes")) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi")
    assert heard.end == Finished("length", 1, "The engine dropped the last token.")


async def test_ids_that_a_byte_engine_leaves_out_are_found_or_said_to_be_unknown():
    # " \xf0" is one token and two bytes; "\x9f" alone has two ids in this vocabulary if it is doubled.
    async with running(FakeEngine([Raw(b" \xf0\x9f\x8c\xa6", 3, 0xA6), Raw(b"?", 2, 63), End("eos")], gives="bytes")) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi", want="both")
    assert heard.ids == [257, 0x8C, 0xA6, 63]
    assert [(event.count, event.data) for event in heard.events if type(event).__name__ == "Gap"] == [(1, b"")]


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"tempreature": 1}, "'tempreature'"),
        ({"max_tokens": 0}, "max_tokens is a number"),
        ({"max_tokens": 1.5}, "max_tokens is a number"),
        ({"temperature": "hot"}, "temperature is a number"),
        ({"seed": True}, "seed is a number"),
        ({"engine": "gpt"}, "no such engine"),
        ({"engine": "scripted", "cut": "half"}, "'half'"),
        ({"engine": "scripted", "text": 7}, "params.text"),
        ({"engine": "scripted", "pace": -1}, "a number of tokens"),
        ({"engine": "scripted", "text": "a" * 300_000}, "at most"),
        ({"engine": "scripted", "faults": 1}, "are an object"),
        ({"engine": "scripted", "faults": {"fire": 1}}, "'fire'"),
        ({"engine": "scripted", "faults": {"invalid": 2}}, "'invalid'"),
        ({"engine": "scripted", "faults": {"stall": [1]}}, "'stall'"),
    ],
)
async def test_a_request_that_can_not_be_is_refused_in_one_sentence(params, word):
    async with running() as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi", params=params)
    assert heard.end.code in (4400, 4404)
    assert word in heard.end.message
    assert not heard.end.retry


async def test_a_text_that_the_vocabulary_has_no_tokens_for_says_what_to_do():
    from detok_py.vocabulary import Vocabulary

    async with running(vocabulary=Vocabulary.from_bytes([b"a", b"b"])) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="", params={"engine": "scripted", "text": "abc"})
    assert 'use cut "byte"' in heard.end.message


async def test_a_vocabulary_that_can_not_be_the_engine_s_is_refused():
    class Other(FakeEngine):
        async def refuse_vocabulary(self, vocabulary):
            return "it has 260 ids and the engine's model has 151936"

    async with running(Other([Ids([1]), End("eos")])) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi")
    assert heard.end.code == 4409
    assert "151936" in heard.end.message


async def test_a_socket_that_is_lost_is_taken_up_where_it_stopped():
    engine = FakeEngine([item for n in range(200) for item in (Ids([n]), 0.002)] + [End("eos")])
    cuts = []

    async def cut(event, ws, session):
        if isinstance(event, Tokens) and len(cuts) < 3 and event.position >= 40 * (len(cuts) + 1):
            cuts.append(event.position)
            ws.transport.abort()

    async with running(engine) as bridge:
        heard = await converse(bridge.stream, bridge.url, prompt="hi", on_event=cut, wait_factor=0.1)
        metrics = bridge.bridge.metrics.expose().decode()
    assert heard.ids == list(range(200))
    assert isinstance(heard.end, Finished)
    assert heard.sockets == 4
    assert engine.closed == 1
    assert "detok_resumes_total 3.0" in metrics


async def test_a_slow_reader_pauses_its_engine_and_nobody_else():
    engine = FakeEngine([Ids([n % 256]) for n in range(20_000)] + [End("eos")])
    async with running(engine) as bridge, socket_to(bridge, max_queue=1) as slow:
        await slow.recv()
        await slow.send(wire.message("generate", prompt="hi", want="ids"))
        await eventually(lambda: engine.given >= 1024)
        await asyncio.sleep(0.1)
        assert engine.given <= 1026
        run = next(iter(bridge.bridge.store.runs.values()))
        assert run.size < 256 << 10
        quick = await converse(bridge.stream, bridge.url, prompt="", params={"engine": "scripted", "text": TEXT, "pace": 0})
        assert quick.data == TEXT.encode()
        # and the slow one, when it reads on, gets everything
        got = 0
        while got < 20_000:
            frame = await slow.recv()
            if isinstance(frame, bytes):
                got += len(wire.read_data(frame)[1])
                await slow.send(wire.message("ack", n=got))
        assert message(await slow.recv())["tokens"] == 20_000


@pytest.mark.parametrize("offered", [[], ["chat"]])
async def test_a_socket_that_does_not_speak_detok_v1_is_closed_with_4406(offered):
    async with running() as bridge:
        try:
            async with socket_to(bridge, subprotocols=offered or None) as ws:
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    await ws.recv()
                assert closed.value.rcvd.code == 4406
        except websockets.InvalidHandshake:
            assert offered  # the client itself refuses a server that takes none of what it offered


async def test_a_ninth_client_is_told_that_the_bridge_is_busy():
    async with running(max_clients=2) as bridge, socket_to(bridge) as one, socket_to(bridge) as two:
        await one.recv(), await two.recv()
        async with socket_to(bridge) as three:
            assert message(await three.recv())["code"] == 4429
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await three.recv()
            assert closed.value.rcvd.code == 4429
        await one.close()
        await eventually(lambda: bridge.bridge.clients == 1)
        async with socket_to(bridge) as four:
            assert message(await four.recv())["type"] == "hello"


async def test_a_bridge_that_ends_says_1012_and_a_resume_elsewhere_says_that_the_run_is_gone():
    engine = FakeEngine([Ids([97]), 60.0])
    run_id = new_run_id()
    async with running(engine) as bridge:
        ws = await socket_to(bridge)
        await ws.recv()
        await ws.send(wire.message("generate", id=run_id, prompt="hi"))
        while not isinstance(await ws.recv(), bytes):
            pass
    with pytest.raises(websockets.ConnectionClosed) as closed:
        while True:
            await ws.recv()
    assert closed.value.rcvd.code == 1012
    assert engine.closed == 1
    async with running() as bridge, socket_to(bridge) as ws:
        await ws.recv()
        await ws.send(wire.message("resume", id=run_id, after=1))
        assert message(await ws.recv())["code"] == 4410


async def test_metrics_have_the_usual_names_and_nothing_of_what_was_said():
    async with running() as bridge:
        await converse(bridge.stream, bridge.url, prompt="canary", params={"text": "canary", "pace": 0})
        async with httpx.AsyncClient(trust_env=False) as http:
            text = (await http.get(bridge.url + "/metrics")).text
    assert "detok_time_to_first_token_seconds_count 1.0" in text
    assert "detok_inter_token_latency_seconds_count 5.0" in text
    assert "detok_generation_tokens_total 6.0" in text
    assert 'detok_requests_total{finished_reason="eos"} 1.0' in text
    assert "canary" not in text


def serve(*options):
    """Start `detok serve` as a user would, on a free port; returns (process, url)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "detok_py", "serve", "--port", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    line = process.stdout.readline()
    return process, line.split()[-1] if line else ""


def children_of(pid):
    """The processes whose parent is `pid`, from /proc: not every machine has ps."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as stat:
                if int(stat.read().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(name))
    return found


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_detok_serve_says_its_url_and_a_signal_ends_it_and_its_engine(sent):
    process, url = serve()
    try:
        engine_line = process.stdout.readline()
        assert engine_line.startswith("engine: llama.cpp")
        with urllib.request.urlopen(url + "healthz", timeout=5) as answer:
            assert json.load(answer)["status"] == "ok"
        children = children_of(process.pid)
        assert children
        process.send_signal(sent)
        process.wait(10)
        for child in children:
            with pytest.raises(ProcessLookupError):
                os.kill(child, 0)
    finally:
        process.kill()
        _, errors = process.communicate()
    assert "Traceback" not in errors


def test_the_engine_of_a_bridge_that_was_killed_ends_by_itself():
    process, _ = serve()
    try:
        assert process.stdout.readline().startswith("engine: llama.cpp")
        [child] = children_of(process.pid)
    finally:
        process.kill()
        process.communicate()

    def ended():
        try:
            with open(f"/proc/{child}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "Z"  # ended, and nobody asked how
        except OSError:
            return True

    deadline = time.monotonic() + 10
    while not ended():
        assert time.monotonic() < deadline
        time.sleep(0.05)


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
def test_a_command_line_that_can_not_be_is_refused_in_one_sentence(options, word):
    done = subprocess.run([sys.executable, "-m", "detok_py", "serve", "--port", "0", *options], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert word in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_a_port_that_is_taken_says_what_to_do():
    process, url = serve("--engine", "scripted")
    try:
        port = url.rstrip("/").rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "detok_py", "serve", "--port", port, "--engine", "scripted"], capture_output=True, text=True, timeout=30
        )
    finally:
        process.terminate()
        process.communicate(timeout=10)
    assert done.returncode == 2
    assert "--port" in done.stderr


async def test_a_token_never_waits_for_the_acknowledgement_of_the_one_before():
    """Without TCP_NODELAY the first token after each ack of the client is 40 ms late: Nagle's rule meets delayed acknowledgements."""
    async with running() as bridge, socket_to(bridge) as ws:
        await ws.recv()
        [connection] = [one for one in bridge.server._uvicorn.server_state.connections if type(one).__name__ == "StrictWebSocket"]
        assert connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
