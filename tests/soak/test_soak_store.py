"""Runs that outlive a bridge, exhaustively: three replicas in processes of their own on one Redis,
behind a balancer without stickiness. A cut at every byte; schedules of cuts while replicas are
killed and Redis is started again. What is asserted: no text differs, nothing is generated twice,
nothing hangs.
"""

import asyncio
import collections
import contextlib
import os
import random
import time

import pytest
from bridge_rig import converse
from cutting_proxy import DOWN, UP, CuttingProxy
from redis_rig import ORIGIN, STREAM, Balancer, processes, redis_server
from test_bridge_resume import EXPECTED
from test_bridge_store import exchange, socket

from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Failed, Finished, Started

pytestmark = [pytest.mark.native, pytest.mark.soak]

SCHEDULES = int(os.environ.get("DETOK_SOAK_SCHEDULES", "2000"))
AT_ONCE = 30
# The longest that nothing may come, on a busy machine: a lease, a look at it, the store away for
# two seconds, and handshakes with replicas that were killed.
SILENCE = 30.0
# The note says that the store was away: on a busy machine it may answer late.
WHOLE = {"Finished", "Finished with a note"}


class Tally:
    """How the runs ended, and what was wrong."""

    def __init__(self, port):
        self.port = port
        self.ends = collections.Counter()
        self.wrong = []
        self.lengths = {}

    async def run(self, name, cuts, want):
        silence, last = 0.0, time.monotonic()

        async def note(event, ws, session):
            nonlocal silence, last
            silence, last = max(silence, time.monotonic() - last), time.monotonic()

        async with CuttingProxy(self.port, cuts) as proxy:
            session = ClientSession(ack_every=8, max_attempts=100)
            heard = await converse(
                STREAM,
                ORIGIN,
                session,
                wait_factor=0.1,
                via=proxy.port,
                seconds=600,
                on_event=note,
                prompt=name,
                want=want,
            )
        end = heard.end
        self.lengths[want] = proxy.lengths[0]
        word = f"{type(end).__name__} {getattr(end, 'code', '')}".strip()
        self.ends[word + (" with a note" if getattr(end, "note", None) else "")] += 1
        if isinstance(end, Finished):
            good = heard.data == EXPECTED
        else:
            good = isinstance(end, Failed) and EXPECTED.startswith(heard.data)
        if not good or silence > SILENCE:
            self.wrong.append((name, cuts, want, end, silence))
        return end


def generated_twice(file):
    names = collections.Counter(file.read_text().split())
    return [name for name, count in names.items() if count > 1]


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("way", [UP, DOWN])
@pytest.mark.parametrize("want", ["ids", "both", "bytes"])
async def test_a_cut_at_any_byte_between_replicas_changes_nothing(tmp_path, want, way, how):
    file = tmp_path / "generations"
    with redis_server() as redis, processes(3, redis, file, pause=0.002, grace=0) as replicas:
        async with Balancer([replica.port for replica in replicas]) as balancer:
            tally = Tally(balancer.port)
            await tally.run("whole", [], want)
            whole = tally.lengths[want][way]
            for first in range(0, whole, AT_ONCE):
                offsets = range(first, min(whole, first + AT_ONCE))
                await asyncio.gather(*[tally.run(f"p{n}", [(way, n, how)], want) for n in offsets])
    print(f"\n{whole} offsets of {want} {way} {how}: {dict(tally.ends)}")
    assert tally.wrong == []
    assert set(tally.ends) <= WHOLE
    assert generated_twice(file) == []


def cuts_of(rng):
    return [
        (way, rng.randrange(600 if way == UP else 1200), rng.choice(["close", "reset"]))
        for way in rng.choices([UP, DOWN], k=rng.choice([0, 1, 2, 3]))
    ]


@pytest.mark.parametrize(
    ("kills", "restarts", "keeps"),
    [(True, False, True), (False, True, True), (False, True, False), (True, True, True)],
    ids=["replicas killed", "store restarted", "store emptied", "both"],
)
async def test_schedules_of_cuts_and_deaths_change_nothing(tmp_path, kills, restarts, keeps):
    file = tmp_path / "generations"
    rng = random.Random(f"{kills}{restarts}{keeps}")
    count = SCHEDULES if not restarts else SCHEDULES // 10
    deaths = collections.Counter()
    with redis_server(keeps=keeps) as redis, processes(3, redis, file) as replicas:
        async with Balancer([replica.port for replica in replicas]) as balancer:
            tally = Tally(balancer.port)
            free = asyncio.Semaphore(AT_ONCE)
            await asyncio.sleep(4)

            async def one(n):
                async with free:
                    await tally.run(f"p{n}", cuts_of(rng), rng.choice(["ids", "both", "bytes"]))

            async def kill_replicas():
                while kills:
                    await asyncio.sleep(rng.uniform(0.5, 2))
                    n = rng.randrange(3)
                    replicas[n].kill()
                    deaths["replica"] += 1
                    replicas[n].start()
                    await asyncio.to_thread(replicas[n].wait)
                    balancer.ports[n] = replicas[n].port

            async def restart_redis():
                while restarts:
                    await asyncio.sleep(rng.uniform(3, 8))
                    redis.kill()
                    deaths["redis"] += 1
                    await asyncio.sleep(rng.uniform(0, 2))
                    await asyncio.to_thread(redis.start)

            hostile = [asyncio.create_task(kill_replicas()), asyncio.create_task(restart_redis())]
            await asyncio.gather(*[one(n) for n in range(count)])
            for task in hostile:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*hostile)
    print(f"\n{count} schedules, killed: {dict(deaths)}: {dict(tally.ends)}")
    assert tally.wrong == []
    assert generated_twice(file) == []
    if not kills and keeps:
        assert set(tally.ends) <= WHOLE
    elif not restarts:
        assert set(tally.ends) <= WHOLE | {"Failed 4503"}


async def test_a_killed_producer_is_an_end_after_its_lease(tmp_path):
    took = []
    file = tmp_path / "generations"
    with redis_server() as redis, processes(2, redis, file, pause=1.0, grace=0) as replicas:
        for _ in range(5):
            ended = []

            async def read(name, ready, ended):
                session, heard = ClientSession(), type("Heard", (), {"events": []})()
                session.generate(prompt=name)
                async with socket(replicas[0], session) as ws:
                    await exchange(ws, session, heard, lambda: session.position > 0)
                session.lost(1006)
                async with socket(replicas[1], session) as ws:
                    started = [e for e in heard.events if isinstance(e, Started)]
                    await exchange(
                        ws,
                        session,
                        heard,
                        lambda: (
                            len([e for e in heard.events if isinstance(e, Started)]) > len(started)
                        ),
                    )
                    ready.set()
                    await exchange(ws, session, heard, lambda: isinstance(heard.events[-1], Failed))
                assert heard.events[-1].code == 4503
                ended.append(time.monotonic())

            ready = [asyncio.Event() for _ in range(10)]
            readers = [
                asyncio.create_task(read(f"{len(took)}-{n}", ready[n], ended)) for n in range(10)
            ]
            await asyncio.gather(*[event.wait() for event in ready])
            replicas[0].kill()
            killed = time.monotonic()
            await asyncio.gather(*readers)
            took.append(max(ended) - killed)
            replicas[0].start()
            await asyncio.to_thread(replicas[0].wait)
    print(f"\nends after {min(took):.1f} to {max(took):.1f} s")
    assert generated_twice(file) == []
