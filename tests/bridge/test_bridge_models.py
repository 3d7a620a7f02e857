"""An engine that is restarted with another model: no client decodes ids with the wrong
vocabulary.
"""

import asyncio

import pytest
from bridge_rig import TEXT, VOCABULARY, message, running, socket_to
from engine_replay import Answer, Replay
from test_bridge_stream import FakeEngine, scripted
from waiting import eventually

from detok_py.bridge import attached
from detok_py.bridge.engines import Ids
from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.lemonade import Lemonade
from detok_py.bridge.engines.llama_server import LlamaServer
from detok_py.bridge.find import find_vocabulary
from detok_py.bridge.store import MemoryStore
from detok_py.decode.vocabulary import Vocabulary
from detok_py.protocol import wire
from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Failed, Finished, Hello, Tokens

pytestmark = [pytest.mark.native, pytest.mark.slow]

PIECES = {"one": [b"a", b"b", b"c"], "two": [b"x", b"y", b"z", b"!"], "other": [b"k", b"l", b"m"]}
SUMS = {name: Vocabulary.from_bytes(pieces).sha256 for name, pieces in PIECES.items()}


def model(name, *, path=None):
    """Return what a llama-server with a model of a few tokens answers."""
    pieces = PIECES[name]
    props = {"default_generation_settings": {}, "model_path": path or f"/m/{name}.gguf"}
    entries = [{"id": i, "bytes": list(piece)} for i, piece in enumerate(pieces)]
    completion = {
        "tokens": [0],
        "model": name,
        "stop_type": "limit",
        "completion_probabilities": [{"top_logprobs": entries}],
    }

    def tokenize(body):
        first = {"id": 0, "piece": pieces[0].decode()}
        return Answer({"tokens": [first if body.get("with_pieces") else 0]})

    return {
        ("GET", "/props"): [Answer(props)],
        ("GET", "/v1/models"): [Answer({"data": [{"id": "m", "meta": {"n_vocab": len(pieces)}}]})],
        ("POST", "/tokenize"): [tokenize],
        ("POST", "/completion"): [Answer(completion)],
    }


def bridge_for(replay, engine=LlamaServer, **options):
    found = {"vocabulary": None, "find_vocabulary": find_vocabulary, **options}
    return running(engine(check_address(replay.url)), **found)


def ask(bridge, **options):
    given = {"prompt": "hi", "want": "ids", "params": {"max_tokens": 3}, **options}
    return bridge.converse(**given)


async def greeted(bridge):
    ws = await socket_to(bridge)
    vocabulary = message(await ws.recv()).get("vocabulary")
    return ws, vocabulary and vocabulary["sha256"]


async def last_message(ws):
    while True:
        frame = await asyncio.wait_for(ws.recv(), 60)
        if isinstance(frame, str) and message(frame)["type"] in ("finished", "error"):
            return message(frame)


@pytest.mark.parametrize("path", [None, "/m/same.gguf"], ids=["another file", "the same name"])
async def test_a_client_that_knows_the_earlier_vocabulary_is_told_the_new_one(path):
    async with Replay(model("one", path=path)) as replay, bridge_for(replay) as bridge:
        ws, told = await greeted(bridge)
        assert told == SUMS["one"]
        replay.answers = model("two", path=path)
        await ws.send(wire.message("generate", prompt="hi", want="ids"))
        error = await last_message(ws)
        await ws.close()
        assert (error["code"], error["vocabulary"]["sha256"]) == (4409, SUMS["two"])
        assert SUMS["two"] in error["message"]
        heard = await ask(bridge)
        assert heard.of(Hello)[0].vocabulary["sha256"] == SUMS["two"]
        assert heard.end == Finished("length", 3, None)
        info = (await bridge.get("/info")).json()
        table = await bridge.get(info["vocabulary"]["url"])
        assert info["vocabulary"]["sha256"] == SUMS["two"]
        assert Vocabulary.unpack(table.content).token_bytes(3) == b"!"


async def test_a_model_of_the_same_size_and_name_is_noticed_by_its_tokens():
    async with Replay(model("one", path="/m")) as replay, bridge_for(replay) as bridge:
        ws, _ = await greeted(bridge)
        replay.answers = model("other", path="/m")
        await ws.send(wire.message("generate", prompt="hi", want="ids"))
        assert (await last_message(ws))["code"] == 4409
        await ws.close()


async def test_a_failed_request_does_not_leave_the_bridge_refusing():
    async with Replay(model("one")) as replay, bridge_for(replay) as bridge:
        assert isinstance((await ask(bridge)).end, Finished)
        replay.answers = {key: [Answer(b"{}", status=503)] for key in replay.answers}
        assert (await ask(bridge)).end.code == 4503
        replay.answers = model("two")
        heard = await ask(bridge)
        assert heard.end == Finished("length", 3, None)
        assert heard.of(Hello)[0].vocabulary["sha256"] == SUMS["two"]
        replay.answers = model("one")
        assert isinstance((await ask(bridge)).end, Finished)


async def test_a_given_tokenizer_is_refused_only_while_it_does_not_match():
    given = {"vocabulary": Vocabulary.from_bytes(PIECES["one"]), "find_vocabulary": None}
    async with Replay(model("one")) as replay, bridge_for(replay, **given) as bridge:
        assert isinstance((await ask(bridge)).end, Finished)
        replay.answers = model("two")
        refused = (await ask(bridge)).end
        assert refused.code == 4409
        assert "given tokenizer" in refused.message
        replay.answers = model("one")
        assert isinstance((await ask(bridge)).end, Finished)


async def test_a_vocabulary_that_was_not_found_is_looked_for_again(monkeypatch):
    """The engine refused its model's files, which were changed meanwhile."""
    found = []

    async def find(engine):
        return found[-1] if found else None

    async with Replay(model("one")) as replay, bridge_for(replay, find_vocabulary=find) as bridge:
        assert (await ask(bridge)).of(Hello)[0].vocabulary is None
        found.append((Vocabulary.from_bytes(PIECES["one"]), None))
        assert (await ask(bridge)).of(Hello)[0].vocabulary is None
        monkeypatch.setattr(attached, "FIND_SECONDS", 0.0)
        assert (await ask(bridge)).of(Hello)[0].vocabulary["sha256"] == SUMS["one"]


async def test_a_model_whose_name_is_no_text_is_told_to_clients():
    answers = model("one", path="/m/q\ud800wen")
    async with Replay(answers) as replay, bridge_for(replay) as bridge:
        info = await bridge.get("/info")
        assert info.json()["engine"]["model"] == "q?wen"
        heard = await ask(bridge)
    assert heard.of(Hello)[0].engine["model"] == "q?wen"
    assert isinstance(heard.end, Finished)


async def test_a_client_in_mid_answer_is_told_when_another_client_finds_another_model():
    store = MemoryStore(window={"tokens": 16, "bytes": 64})
    async with Replay(model("one")) as replay, bridge_for(replay, store=store) as bridge:
        ws, _ = await greeted(bridge)
        params = {"max_tokens": 5000}
        await ws.send(wire.message("generate", prompt="hi", want="ids", params=params))
        await eventually(lambda: store.runs.by_id)
        [run] = store.runs.by_id.values()
        # Nothing is acknowledged, so the engine is not asked for more.
        await eventually(lambda: run.log.position >= 16)
        replay.answers = model("two")
        other, told = await greeted(bridge)
        assert told == SUMS["two"]
        error = await last_message(ws)
        assert (error["code"], error["vocabulary"]["sha256"]) == (4409, SUMS["two"])
        await ws.close(), await other.close()


async def test_step_mode_notices_that_its_server_was_restarted_between_two_steps():
    async with Replay(model("one")) as replay, bridge_for(replay) as bridge:
        changed = []

        async def change(event, ws, session):
            if isinstance(event, Tokens) and not changed:
                changed.append(event.position)
                replay.answers = model("two")

        heard = await ask(bridge, params={"max_tokens": 3000}, on_event=change)
    assert isinstance(heard.end, Failed)
    assert heard.end.code == 4409
    assert SUMS["two"] in heard.end.message


async def test_ids_of_an_earlier_vocabulary_are_not_resumed_under_another():
    async with Replay(model("one")) as replay, bridge_for(replay) as bridge:
        session = ClientSession()
        heard = await ask(bridge, session=session)
        assert isinstance(heard.end, Finished)
        replay.answers = model("two")
        again = ClientSession()
        again.attach(session.run_id)
        heard = await bridge.converse(again)
    assert heard.end.code == 4409


async def test_a_client_that_came_while_the_engine_was_down_reconnects_to_learn_its_vocabulary():
    async with Replay({}) as replay, bridge_for(replay) as bridge:
        ws, told = await greeted(bridge)
        assert told is None
        replay.answers = model("one")
        session = ClientSession()
        session.generate(prompt="hi", want="ids", params={"max_tokens": 3})
        session.opened()
        session.receive(wire.message("hello", protocol="detok.v1"))
        for frame in session.frames():
            await ws.send(frame)
        await ws.wait_closed()
        assert ws.close_code == 1012
        session.lost(1012)
        heard = await bridge.converse(session)
    assert heard.of(Hello)[0].vocabulary["sha256"] == SUMS["one"]
    assert heard.end == Finished("length", 3, None)


async def test_a_lemonade_that_moves_its_port_is_followed():
    async with Replay(model("one")) as first, Replay(model("two")) as second, Replay({}) as front:

        def names(backend):
            front.answers = {("GET", "/v1/health"): [Answer({"backend_url": backend.url + "/v1"})]}

        names(first)
        async with bridge_for(front, Lemonade) as bridge:
            assert (await ask(bridge)).of(Hello)[0].vocabulary["sha256"] == SUMS["one"]
            names(second)
            heard = await ask(bridge)
            assert heard.of(Hello)[0].vocabulary["sha256"] == SUMS["two"]
            assert heard.end == Finished("length", 3, None)


async def test_clients_at_the_same_time_share_one_look_at_the_engine():
    engine = FakeEngine([Ids([97])])
    looks = []

    async def open():
        looks.append(1)
        await asyncio.sleep(0.05)

    engine.open = open
    async with running(engine) as bridge:
        before = len(looks)
        greetings = await asyncio.gather(*[greeted(bridge) for _ in range(6)])
        assert len(looks) - before <= 3
        await asyncio.gather(*[ws.close() for ws, _ in greetings])


async def test_an_engine_that_hangs_does_not_hold_up_a_client_that_resumes(monkeypatch):
    monkeypatch.setattr("detok_py.bridge.stream.LOOK_SECONDS", 0.1)
    engine = FakeEngine([Ids([97]), 60.0])
    session = ClientSession()
    async with running(engine) as bridge:

        async def lose(event, ws, session):
            if isinstance(event, Tokens):

                async def hang():
                    await asyncio.sleep(60)

                engine.open = hang
                ws.transport.abort()
                raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await bridge.converse(session, on_event=lose, prompt="hi")
        session.lost(1006)
        async with socket_to(bridge) as ws:
            session.opened()
            session.receive(await asyncio.wait_for(ws.recv(), 60))
            for frame in session.frames():
                await ws.send(frame)
            assert message(await asyncio.wait_for(ws.recv(), 60))["type"] == "started"


async def test_a_scripted_text_streams_while_the_engine_is_down():
    async with running(FakeEngine([], down="No engine.")) as bridge:
        heard = await scripted(bridge, TEXT)
    assert heard.data == TEXT.encode()
    assert VOCABULARY.sha256 == heard.of(Hello)[0].vocabulary["sha256"]


async def test_an_engine_of_an_unexpected_shape_is_down_with_one_sentence(caplog):
    class Odd(FakeEngine):
        async def open(self):
            return {}["canary"]

    async with running(Odd([])) as bridge:
        heard = await bridge.converse(prompt="hi")
    assert heard.end.code == 4503
    assert "shape" in heard.end.message
    assert "canary" not in heard.end.message + caplog.text
