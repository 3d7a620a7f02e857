"""Hostile peers and engines against one well-behaved client, whose text and latency are what is
asserted.
"""

import asyncio
import contextlib
import json
import os
import random
import time

import pytest
from bridge_rig import TEXT, running
from engine_replay import Answer, Replay
from test_bridge_gate import close_and_wait, frame, opened
from test_bridge_models import ask, bridge_for, model
from test_engine_odd import ODD

from detok_py.protocol import wire
from detok_py.protocol.events import Failed, Finished

pytestmark = [pytest.mark.native, pytest.mark.soak]

SECONDS = float(os.environ.get("DETOK_SOAK_SECONDS", "60"))
LONG = {"engine": "scripted", "text": "\U0001f30d" * 60_000, "cut": "byte", "pace": 0}


def message_of(rng):
    """Return a random message, of the kinds that cost a server most."""
    return rng.choice(
        [
            '{"type":"dance"}',
            '{"type":"ping"}',
            '{"type":"cancel"}',
            '{"type":"ack","n":0}',
            wire.message("resume", id="0" * 16, after=0),
            wire.message("generate", prompt="x" * rng.choice([1, 100_000]), params={"no": 1}),
            json.dumps({"type": "generate", "prompt": "", "params": LONG}, ensure_ascii=False),
            '{"type":"x","a":' + "[" * 60_000 + "]" * 60_000 + "}",
            "{",
        ]
    )


async def hostile(bridge, rng, until):
    """Open sockets one after another, send what costs most, read nothing."""
    while time.monotonic() < until:
        with contextlib.suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            _, writer = await opened(bridge)
            try:
                for _ in range(rng.randrange(400)):
                    writer.write(frame(1, message_of(rng).encode()))
                    await asyncio.wait_for(writer.drain(), 1)
            finally:
                writer.transport.abort()
                await close_and_wait(writer)
        await asyncio.sleep(rng.random() / 10)


async def test_a_client_is_served_while_others_attack():
    rng = random.Random(16)
    until = time.monotonic() + SECONDS
    waits = []
    async with running(max_clients=32) as bridge:
        attacks = [asyncio.create_task(hostile(bridge, rng, until)) for _ in range(6)]
        while time.monotonic() < until:
            begin = time.monotonic()
            params = {"engine": "scripted", "text": TEXT, "pace": 0}
            heard = await bridge.converse(prompt="", params=params)
            assert isinstance(heard.end, Finished)
            assert heard.data == TEXT.encode()
            waits.append(time.monotonic() - begin)
            await asyncio.sleep(0.05)
        await asyncio.gather(*attacks)
    waits.sort()
    print(f"\n{len(waits)} answers: p50 {waits[len(waits) // 2]:.3f} s, worst {waits[-1]:.3f} s")
    assert waits[len(waits) // 2] < 1
    assert waits[-1] < 5


async def test_an_engine_that_turns_odd_at_any_time_never_gives_wrong_text():
    rng = random.Random(16)
    until = time.monotonic() + SECONDS
    names = ["one", "two", "other"]
    finished = failed = 0
    async with Replay(model("one")) as replay, bridge_for(replay) as bridge:
        while time.monotonic() < until:
            name = rng.choice(names)
            replay.answers = model(name)
            if rng.random() < 0.5:
                path = rng.choice(list(replay.answers))
                replay.answers[path] = [Answer(rng.choice(ODD), status=rng.choice([200, 200, 503]))]
            heard = await ask(bridge, seconds=20)
            if isinstance(heard.end, Finished):
                finished += 1
                assert heard.ids in ([0, 0, 0], [])
            else:
                failed += 1
                assert isinstance(heard.end, Failed)
                assert heard.end.code != 1011, heard.end
    print(f"\n{finished} finished, {failed} failed with one sentence")
    assert finished
    assert failed
