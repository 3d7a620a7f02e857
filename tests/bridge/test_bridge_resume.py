"""Resume: after a cut at any byte, in either direction, by close or by reset, the stream equals the
stream without the cut, from one generation.

These tests take a sample of offsets and a hundred schedules. `make soak` takes every offset and ten
thousand schedules.
"""

import asyncio
import random

import pytest
from bridge_rig import VOCABULARY, converse, running
from cutting_proxy import DOWN, UP, CuttingProxy
from test_bridge_stream import FakeEngine

from detok_py.bridge.engines import End, Ids, Raw
from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Failed, Finished, Tokens

pytestmark = [pytest.mark.native, pytest.mark.slow]

# 60 tokens, some with varints of two bytes, some that end inside a character: about 1 kB of frames.
TOKENS = [(n * 37) % 256 if n % 3 else 257 for n in range(60)]


class CountingEngine(FakeEngine):
    """Sends TOKENS as ids or as bytes in small chunks, and counts its generations."""

    def __init__(self, gives="ids", pause=0.0):
        super().__init__([], gives)
        self.pause = pause
        self.generations = 0
        self.finished = 0

    async def generate(self, request):
        self.generations += 1
        for at in range(0, len(TOKENS), 3):
            ids = TOKENS[at : at + 3]
            if self.gives(request) == "ids":
                yield Ids(ids)
            else:
                yield Raw(b"".join(VOCABULARY.token_bytes(i) for i in ids))
            await asyncio.sleep(self.pause)
        self.finished += 1
        yield End("eos")


EXPECTED = b"".join(VOCABULARY.token_bytes(i) for i in TOKENS)


async def through_cuts(bridge, engine, cuts, want):
    """Run a generation through a proxy with these cuts; check that nothing is lost or doubled."""
    before = engine.generations
    async with CuttingProxy(bridge.port, cuts) as proxy:
        session = ClientSession(ack_every=8, max_attempts=20)
        heard = await bridge.converse(
            session, wait_factor=0.004, via=proxy.port, prompt="hi", want=want
        )
    assert isinstance(heard.end, Finished), (cuts, heard.end)
    assert heard.data == EXPECTED, cuts
    assert engine.generations - before == 1, cuts
    if want != "bytes":
        assert heard.ids == TOKENS
    return proxy.lengths


async def length_of_an_exchange(bridge, engine, want):
    lengths = await through_cuts(bridge, engine, [], want)
    assert len(lengths) == 1
    return lengths[0]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("way", [UP, DOWN])
@pytest.mark.parametrize("want", ["ids", "both", "bytes"])
@pytest.mark.parametrize(
    "every",
    [False, pytest.param(True, marks=pytest.mark.soak)],
    ids=["a sample", "every byte"],
)
async def test_a_cut_at_any_byte_does_not_change_the_text(every, want, way, how):
    engine = CountingEngine()
    async with running(engine) as bridge:
        whole = (await length_of_an_exchange(bridge, engine, want))[way]
        # The first bytes, the end of the handshake, the last bytes, and regular offsets between.
        sample = {0, 1, whole - 1, whole - 2, whole - 40, *range(3, whole, max(1, whole // 24))}
        for offset in range(whole) if every else sorted(sample):
            await through_cuts(bridge, engine, [(way, offset, how)], want)


SEEDS = [(seed, 17) for seed in range(6)]
SEEDS += [pytest.param(seed, 250, marks=pytest.mark.soak) for seed in range(1000, 1040)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("seed", "count"), SEEDS)
async def test_schedules_of_two_and_three_cuts_do_not_change_the_text(seed, count):
    rng = random.Random(seed)
    want = rng.choice(["ids", "both", "bytes"])
    gives = "ids" if rng.random() < 0.7 else "text"
    want = "bytes" if gives == "text" else want
    engine = CountingEngine(gives)
    async with running(engine) as bridge:
        whole = await length_of_an_exchange(bridge, engine, want)
        for _ in range(count):
            cuts = []
            for _ in range(rng.choice([2, 3])):
                way = rng.choice([UP, DOWN])
                cuts.append((way, rng.randrange(whole[way]), rng.choice(["close", "reset"])))
            await through_cuts(bridge, engine, cuts, want)


async def test_a_reloaded_page_gets_the_whole_stream_again_from_one_generation():
    engine = CountingEngine(pause=0.01)
    async with running(engine) as bridge:
        first = ClientSession()

        async def reload(event, ws, session):
            if isinstance(event, Tokens) and event.position > 10:
                session.state = "idle"  # the page is closed, so this session does not reconnect
                await ws.close(1001)

        await bridge.converse(first, on_event=reload, prompt="hi")
        second = ClientSession()
        second.attach(first.run_id)
        heard = await bridge.converse(second)
    assert heard.data == EXPECTED
    assert isinstance(heard.end, Finished)
    assert engine.generations == 1


async def test_after_a_killed_bridge_the_run_fails_and_the_partial_text_is_kept():
    """A new bridge at the same address does not have the run of the killed one."""
    gate = {"names": ["bridge.test:1"]}
    async with (
        running(CountingEngine(pause=0.02), gate=gate) as first,
        running(CountingEngine(), gate=gate) as second,
    ):
        async with CuttingProxy(first.port) as proxy:

            async def kill(event, ws, session):
                if isinstance(event, Tokens) and event.position > 10:
                    proxy.target = second.port
                    ws.transport.abort()

            heard = await converse(
                "ws://bridge.test:1/stream",
                "http://bridge.test:1",
                on_event=kill,
                via=proxy.port,
                wait_factor=0.1,
                prompt="hi",
            )
    assert isinstance(heard.end, Failed)
    assert heard.end.code == 4410
    assert "restarted" in heard.end.message
    assert heard.data
    assert EXPECTED.startswith(heard.data)


async def test_a_bridge_that_stays_away_is_an_error_when_it_no_longer_keeps_the_run():
    async with running(CountingEngine(pause=0.02)) as bridge, CuttingProxy(bridge.port) as proxy:

        async def kill(event, ws, session):
            if isinstance(event, Tokens) and event.position > 10:
                proxy.cuts = [(DOWN, 0, "reset")] * 20
                ws.transport.abort()

        options = {"on_event": kill, "via": proxy.port, "wait_factor": 0.01}
        heard = await bridge.converse(prompt="hi", **options)
        assert len(proxy.lengths) == 1 + 13  # 64 seconds, had they been waited for
    assert heard.end.code == 1006
    assert EXPECTED.startswith(heard.data)
    assert heard.data
