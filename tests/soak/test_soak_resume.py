"""Resume, exhaustively: a cut at every byte of an exchange in both directions, by close and by
reset, and ten thousand schedules of several cuts.
"""

import random

import pytest
from bridge_rig import running
from cutting_proxy import DOWN, UP
from test_bridge_resume import CountingEngine, length_of_an_exchange, through_cuts

pytestmark = [pytest.mark.native, pytest.mark.soak]


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("way", [UP, DOWN])
@pytest.mark.parametrize("want", ["ids", "both", "bytes"])
async def test_a_cut_at_any_byte_does_not_change_the_text(want, way, how):
    engine = CountingEngine()
    async with running(engine) as bridge:
        whole = (await length_of_an_exchange(bridge, engine, want))[way]
        for offset in range(whole):
            await through_cuts(bridge, engine, [(way, offset, how)], want)
    print(
        f"\n{whole} offsets of {want} {way} {how}: 0 differences, {engine.generations} generations, expected {whole + 1}"
    )
    assert engine.generations == whole + 1


@pytest.mark.parametrize("block", range(20))
async def test_ten_thousand_schedules_of_cuts_do_not_change_the_text(block):
    rng = random.Random(1000 + block)
    for gives, wants in (("ids", ["ids", "both", "bytes"]), ("text", ["bytes"])):
        engine = CountingEngine(gives)
        async with running(engine) as bridge:
            lengths = {want: await length_of_an_exchange(bridge, engine, want) for want in wants}
            for _ in range(250):
                want = rng.choice(wants)
                cuts = []
                for _ in range(rng.choice([2, 3])):
                    way = rng.choice([UP, DOWN])
                    cuts.append(
                        (way, rng.randrange(lengths[want][way]), rng.choice(["close", "reset"]))
                    )
                await through_cuts(bridge, engine, cuts, want)
