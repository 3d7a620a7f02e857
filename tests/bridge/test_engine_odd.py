"""Engines that answer with JSON of another shape, or not at all."""

import asyncio
import signal
import subprocess
import sys

import pytest
from bridge_rig import running
from engine_replay import Answer, Replay, events
from test_bridge_models import ask, bridge_for, model

from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.lemonade import Lemonade
from detok_py.bridge.engines_command import probe
from detok_py.bridge.find import engine_at, find_vocabulary
from detok_py.bridge.stream import Bridge
from detok_py.decode.vocabulary import Vocabulary
from detok_py.protocol.events import Failed, Finished

pytestmark = [pytest.mark.native, pytest.mark.slow]

ODD = [
    [],
    {},
    None,
    7,
    "x",
    {"tokens": []},
    {"tokens": [[]]},
    {"tokens": 7},
    {"tokens": [-1, True]},
    {"tokens": [1, 2.5]},
]
ODD += [{"tokens": [{"id": 0, "piece": 50_000_000}]}, {"data": [{"meta": {"n_vocab": 10**12}}]}]
ODD += [{"completion_probabilities": [{"top_logprobs": [{"id": 0, "bytes": 50_000_000}]}]}]
ODD += [{"completion_probabilities": [{"top_logprobs": [{"id": -1, "bytes": [97]}]}]}]


@pytest.mark.parametrize(
    "path", ["/props", "/v1/models", "/tokenize", "/detokenize", "/completion"]
)
async def test_odd_answers_at_the_start_are_one_sentence_and_no_fault(path, caplog):
    method = "GET" if path in ("/props", "/v1/models") else "POST"
    for odd in ODD:
        answers = model("one")
        # A special token, so that /detokenize is asked for its text.
        special = {"id": 2, "bytes": []}
        answers["POST", "/completion"] = [
            Answer({"completion_probabilities": [{"top_logprobs": [special]}]})
        ]
        answers[method, path] = [Answer(odd)]
        async with Replay(answers) as replay:
            engine = engine_at("llama", check_address(replay.url))
            attached = AttachedEngine("odd", engine, find_vocabulary=find_vocabulary)
            bridge = Bridge([attached])
            await bridge.open()
            await bridge.close()
        down = bridge.down
        assert down is None or (down.endswith(".") and "\n" not in down), odd
        assert attached.vocabulary is None or len(attached.vocabulary.pack()) < 1000
    assert "engine_fault" not in caplog.text


@pytest.mark.parametrize("odd", ODD[:-2])
async def test_odd_answers_in_step_mode_fail_the_run_with_one_sentence(odd):
    answers = model("one")
    async with Replay(answers) as replay, bridge_for(replay) as bridge:
        assert isinstance((await ask(bridge)).end, Finished)
        answers = model("one")
        usual = answers["POST", "/tokenize"][0]
        answers["POST", "/tokenize"] = [
            lambda body: usual(body) if body.get("with_pieces") else Answer(odd)
        ]
        replay.answers = answers
        heard = await ask(bridge)
    if odd == {"tokens": []}:
        assert isinstance(heard.end, Finished)
    else:
        assert isinstance(heard.end, Failed)
        assert "unexpected shape" in heard.end.message


async def test_step_mode_that_fills_the_context_ends_with_length():
    answers = model("one")
    steps = [answers["POST", "/completion"][0]] * 3
    full = Answer({"error": {"type": "exceed_context_size_error"}}, status=400)
    async with Replay(answers) as replay, bridge_for(replay) as bridge:
        await bridge.bridge.open()
        replay.answers["POST", "/completion"] = [*steps, full]
        assert (await ask(bridge, params={"max_tokens": 9})).end == Finished("length", 3, None)
        heard = await ask(bridge, params={"max_tokens": 9})
    assert heard.end.code == 4400
    assert "context" in heard.end.message


async def test_the_key_is_sent_only_to_an_address_that_the_user_named(monkeypatch):
    monkeypatch.setenv("DETOK_ENGINE_API_KEY", "canary")
    async with Replay(model("one")) as replay:
        assert await probe([replay.url])
        assert "canary" not in str(replay.requests)
        assert await probe([replay.url], named=True)
        assert "canary" in str(replay.requests)
        replay.requests.clear()
        health = Answer({"backend_url": replay.url})
        async with Replay({("GET", "/v1/health"): health}) as front:
            engine = Lemonade(check_address(front.url))
            await engine.open()
            await engine.close()
            assert "canary" in str(front.requests)
            assert replay.requests
            assert "canary" not in str(replay.requests)


async def test_a_signal_does_not_wait_for_an_engine_that_hangs():
    hang = Answer(b"", then="hang")
    async with Replay({("GET", "/props"): hang}) as replay:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "detok_py", "serve", "--port", "0", "--engine", f"llama+{replay.url}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            assert b"detok serves" in await asyncio.wait_for(process.stdout.readline(), 60)
            process.send_signal(signal.SIGINT)
            _, errors = await asyncio.wait_for(process.communicate(), 20)
            assert b"Traceback" not in errors
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@pytest.mark.parametrize(
    "count",
    [4 * 10**9, 10**15, int("9" * 4000), -(10**18), True],
    ids=lambda count: str(count)[:12],
)
@pytest.mark.parametrize("where", ["in an event", "at the end"])
async def test_a_count_of_tokens_that_cannot_be_true_does_no_harm(count, where):
    """The middle event ends inside no character, its tokens do: their ids would be searched for."""
    one = {"content": "", "completion_probabilities": [{"id": 0, "bytes": [0xE6]}]}
    one["tokens_predicted"] = 1
    middle = {"content": "日", "completion_probabilities": [{"id": 2, "bytes": [0x97, 0xA5]}]}
    middle["tokens_predicted"] = count if where == "in an event" else 3
    end = {"content": "", "stop": True, "stop_type": "limit", "tokens_predicted": count}
    vocabulary = Vocabulary.from_bytes([b"\xe6", b"\x97", b"\xa5"])
    answers = model("one")
    answers["GET", "/v1/models"], answers["POST", "/tokenize"] = [Answer({})], [Answer({})]
    answers["POST", "/completion"] = [events(one, middle, end)]
    async with Replay(answers) as replay:
        engine = engine_at("llama", check_address(replay.url))
        async with running(engine, vocabulary=vocabulary) as bridge:
            heard = await ask(bridge, want="both", params={"max_tokens": 9})
    assert heard.data == "日".encode()
    assert isinstance(heard.end, Finished)
    assert len(heard.end.note or "") < 200
