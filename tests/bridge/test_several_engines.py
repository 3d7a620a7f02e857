"""A bridge with several engines: each has its own vocabulary, hello and runs, and a client chooses
one by the address of its socket.
"""

import argparse
import asyncio
import json

import pytest
from bridge_rig import TEXT, VOCABULARY, message, running, socket_to
from cutting_proxy import DOWN, CuttingProxy
from engine_replay import Answer, Replay
from test_bridge_models import PIECES, model
from test_bridge_resume import EXPECTED, CountingEngine
from test_bridge_stream import FakeEngine
from test_engine_replay import vllm

from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.command import add_arguments
from detok_py.bridge.engines import End, EngineError, Ids
from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.llama_server import LlamaServer
from detok_py.bridge.find import attach_engine, find_vocabulary, finder
from detok_py.bridge.store import MemoryStore
from detok_py.decode.vocabulary import Vocabulary
from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Finished, Hello, Notice

pytestmark = [pytest.mark.native, pytest.mark.slow]

OTHER = Vocabulary.from_bytes([b"x", b"y\xc3", b"\xa9z"])
RUN = "0123456789abcdef"


def other(engine=None, *, name="other", vocabulary=OTHER):
    engine = engine or FakeEngine([Ids([0, 1, 2]), End("eos")])
    return AttachedEngine(name, engine, vocabulary=vocabulary)


def ask(bridge, query="?engine=other", session=None, **generate):
    given = {"prompt": "hi", "want": "ids", **generate}
    return bridge.converse(session, query=query, **given)


async def test_each_engine_answers_with_its_own_vocabulary_and_the_first_is_the_default():
    async with running(FakeEngine([Ids([257]), End("eos")]), others=[other()]) as bridge:
        for query, vocabulary, ids in (
            ("", VOCABULARY, [257]),
            ("?engine=first", VOCABULARY, [257]),
            ("?engine=other", OTHER, [0, 1, 2]),
        ):
            heard = await ask(bridge, query)
            assert heard.of(Hello)[0].vocabulary["sha256"] == vocabulary.sha256
            assert heard.ids == ids
            assert heard.end.reason == "eos"


async def test_info_lists_the_engines_and_every_vocabulary_is_served():
    async with running(others=[other()]) as bridge:
        info = (await bridge.get("/info")).json()
        assert [one["id"] for one in info["engines"]] == ["first", "other"]
        assert [info["engine"], info["vocabulary"]] == [
            info["engines"][0][key] for key in ("engine", "vocabulary")
        ]
        for one, vocabulary in zip(info["engines"], (VOCABULARY, OTHER), strict=True):
            served = await bridge.get(one["vocabulary"]["url"])
            assert Vocabulary.unpack(served.content).sha256 == vocabulary.sha256


async def test_a_text_of_the_client_is_cut_by_the_vocabulary_of_the_engine_it_has_chosen():
    async with running(others=[other()]) as bridge:
        params = {"engine": "scripted", "text": "xyéz"}
        assert (await ask(bridge, params=params)).ids == [0, 1, 2]
        assert (await ask(bridge, "", params=params)).ids == list("xyéz".encode())


async def test_an_unknown_engine_is_one_error_and_is_not_tried_again():
    async with running(others=[other()]) as bridge:
        heard = await ask(bridge, "?engine=no%20such")
        [notice, failed] = heard.events
        assert notice == Notice(
            4404, "There is no such engine here; /info lists the engines of this bridge."
        )
        assert (failed.code, failed.retry, heard.sockets) == (4404, False, 1)
        async with socket_to(bridge) as ws:
            await ws.recv()
            request = {"prompt": "", "params": {"engine": "other"}}
            await ws.send(json.dumps({"type": "generate", **request}))
            error = message(await ws.recv())
        assert (error["code"], error["message"]) == (
            4404,
            'There is no such engine here; expected "first" or "scripted".',
        )


async def test_a_run_id_is_of_one_engine():
    async with running(FakeEngine([Ids([0]), End("eos")]), others=[other()]) as bridge:
        assert isinstance((await ask(bridge, run_id=RUN)).end, Finished)
        assert isinstance((await ask(bridge, run_id=RUN)).end, Finished)
        heard = await ask(bridge, "", run_id=RUN)
        assert (heard.end.code, heard.sockets) == (4400, 1)
        # Its ids would be read with the wrong vocabulary.
        session = ClientSession()
        session.attach(RUN)
        heard = await bridge.converse(session)
        assert heard.end.code == 4409
        assert "engine of this connection" in heard.end.message


async def test_a_run_of_the_second_engine_resumes_there_after_every_cut():
    engine = CountingEngine(pause=0.001)
    store = MemoryStore(window={"tokens": 8, "bytes": 64})
    attached = other(engine, vocabulary=VOCABULARY)
    async with running(FakeEngine([]), others=[attached], store=store) as bridge:
        cuts = [(DOWN, n, "reset") for n in (520, 560, 600)]
        async with CuttingProxy(bridge.port, cuts) as proxy:
            session = ClientSession(ack_every=4, max_attempts=20)
            options = {"via": proxy.port, "wait_factor": 0.004}
            heard = await ask(bridge, session=session, want="both", **options)
    assert heard.end.reason == "eos"
    assert heard.data == EXPECTED
    assert heard.sockets > 1
    assert engine.generations == 1


async def test_one_engine_that_is_down_leaves_the_others_ready():
    down = other(FakeEngine([], down="No engine answers at http://127.0.0.1:9."))
    async with running(others=[down]) as bridge:
        info = (await bridge.get("/info")).json()
        assert [one["engine"]["down"] for one in info["engines"]] == [None, down.engine.down]
        assert (await bridge.get("/readyz")).status_code == 200
        health = (await bridge.get("/healthz")).json()
        assert health == {"status": "engine down", "engine": f"other: {down.engine.down}"}
        assert (await ask(bridge, "", params={"text": TEXT})).end.reason == "eos"
        assert (await ask(bridge)).end.message == down.engine.down


async def test_all_engines_down_is_not_ready(monkeypatch):
    monkeypatch.setattr("detok_py.bridge.server.READY_SECONDS", 60)
    sentence = "No engine answers."
    engines = [FakeEngine([], down=sentence) for _ in range(2)]
    async with running(engines[0], others=[other(engines[1])]) as bridge:
        await bridge.get("/info")
        ready = await bridge.get("/readyz")
        assert (ready.status_code, ready.json()["problem"]) == (503, sentence)
        # Behind a balancer no client comes before this says that an engine is back.
        engines[1].down = None
        assert (await bridge.get("/readyz")).status_code == 200


async def test_the_places_are_those_of_all_engines_together():
    async with running(others=[other()], max_clients=1) as bridge, socket_to(bridge) as ws:
        await ws.recv()
        async with socket_to(bridge, uri=bridge.stream + "?engine=other") as beyond:
            await beyond.recv()
            await beyond.send('{"type":"generate","prompt":""}')
            assert message(await beyond.recv())["code"] == 4429


async def test_an_engine_with_another_model_is_noticed_and_the_other_engine_is_not_disturbed():
    async with Replay(model("one")) as changes, Replay(model("other")) as stays:
        engines = [LlamaServer(check_address(one.url)) for one in (changes, stays)]
        attached = AttachedEngine("other", engines[1], find_vocabulary=find_vocabulary)
        async with running(
            engines[0], vocabulary=None, find_vocabulary=find_vocabulary, others=[attached]
        ) as bridge:
            short = {"params": {"max_tokens": 3}}
            first = await ask(bridge, "", **short)
            changes.answers = model("two")
            again = await ask(bridge, "", **short)
            kept = await ask(bridge, **short)
    sums = [one.of(Hello)[0].vocabulary["sha256"] for one in (first, again, kept)]
    assert sums == [Vocabulary.from_bytes(PIECES[name]).sha256 for name in ("one", "two", "other")]
    assert isinstance(kept.end, Finished)


async def test_continue_goes_on_with_the_engine_that_was_lost():
    class Lost(FakeEngine):
        goes_on = True

        async def generate(self, request):
            # It comes back with its end only.
            back = [Ids([2]), End("eos")]
            self.steps = back if request.answered else [Ids([0, 1]), EngineError("lost")]
            async for chunk in super().generate(request):
                yield chunk

    first = FakeEngine([Ids([5]), End("eos")])
    async with running(first, others=[other(Lost([]))], continue_seconds=30) as bridge:
        heard = await ask(bridge)
    assert heard.ids == [0, 1, 2]
    assert "went on" in heard.end.note
    assert first.given == 0


# ---------------------------------------------------------------- what the command line gives


def parse(*words):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def test_options_belong_to_the_engine_before_them():
    assert parse().engines == [{}]
    assert parse("--tokenizer", "t", "--engine", "a").engines == [{"tokenizer": "t", "engine": "a"}]
    assert parse("--engine", "a", "--engine", "b", "--model", "m", "--context", "7").engines == [
        {"engine": "a"},
        {"engine": "b", "model": "m", "context": 7},
    ]
    assert parse().engines == [{}]  # nothing is left of an earlier command line


def test_a_url_is_named_by_its_address_and_has_a_key_of_its_own_by_name(monkeypatch):
    monkeypatch.setenv("DETOK_ENGINE_API_KEY", "all")
    monkeypatch.setenv("DETOK_ENGINE_API_KEY_MY_CLOUD", "own")
    plain = attach_engine("vllm+http://127.0.0.1:8000/")
    named = attach_engine("my-cloud=vllm+http://127.0.0.1:8001")
    assert (plain.name, named.name) == ("127.0.0.1:8000", "my-cloud")
    keys = [one.engine.client._http.headers["authorization"] for one in (plain, named)]
    assert keys == ["Bearer all", "Bearer own"]


async def test_an_engine_that_starts_after_the_bridge_is_recognised_then():
    async with Replay({}) as starting:
        attached = await asyncio.to_thread(attach_engine, f"{starting.url}/v1", model="tiny")
        assert attached.name == starting.url.partition("//")[2]
        await attached.open()
        assert "answers like no engine that detok knows" in attached.down
        replay = Replay({("GET", "/version"): Answer({"version": "0.33"}), **vllm()})
        starting.answers = replay.answers
        await attached.open()
        assert attached.down is None
        assert attached.engine.info().line == "vLLM · device not reported"
        asked = len(starting.requests)
        await attached.open()
        assert not {"/props", "/api/version"} & {
            path for _, path, _, _ in starting.requests[asked:]
        }
        await attached.engine.close()


# ---------------------------------------------------------------- engines that are found


async def test_engines_that_are_found_are_offered_and_are_sent_no_key(monkeypatch):
    monkeypatch.setenv("DETOK_ENGINE_API_KEY", "canary")
    async with Replay(model("one")) as known, Replay(model("two")) as found, Replay({}) as nothing:
        given = AttachedEngine("given", LlamaServer(check_address(known.url)))
        asked = len(known.requests)
        find = finder([given], [known.url, found.url, nothing.url, "http://127.0.0.1:9"])
        async with running(others=[given], find=find) as bridge:
            info = (await bridge.get("/info")).json()
            name = found.url.partition("//")[2]
            assert [one["id"] for one in info["engines"]] == ["first", "given", name]
            heard = await ask(bridge, f"?engine={name}", params={"max_tokens": 3})
            assert heard.end.reason == "length"
            assert await find() == []
        assert {path for _, path, _, _ in known.requests[asked:]} <= {
            "/props",
            "/v1/models",
            "/completion",
            "/tokenize",
        }
        sent = [head for _, _, head, _ in found.requests + nothing.requests]
        assert sent
        assert not any("authorization" in head for head in sent)


async def test_a_socket_that_names_an_engine_of_the_usual_ports_waits_for_the_look():
    """After a restart of the bridge nobody may have asked for /info yet."""
    async with Replay(model("two")) as found:
        async with running(find=finder([], [found.url])) as bridge:
            query = "?engine=" + found.url.partition("//")[2]
            heard = await ask(bridge, query, params={"max_tokens": 3})
    assert heard.end.reason == "length"


def test_engines_are_looked_for_only_if_the_user_asks():
    assert parse().find is False
    assert parse("--find").find is True
