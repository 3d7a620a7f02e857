"""Runs that outlive a bridge: several replicas on one Redis, behind a balancer without
stickiness.
"""

import asyncio
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import websockets
import yaml
from bridge_rig import Conversation, converse, socket_to
from cutting_proxy import DOWN, UP, CuttingProxy
from redis_rig import NAME, ORIGIN, STREAM, program, redis_server, replicas
from test_bridge_resume import EXPECTED
from waiting import eventually
from websockets.asyncio.client import unix_connect

from detok_py.bridge.redis_link import StoreError
from detok_py.bridge.redis_store import RedisStore
from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Finished, Started

pytestmark = [pytest.mark.native, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def redis():
    with redis_server() as server:
        yield server


@contextlib.asynccontextmanager
async def socket(bridge, session):
    """Connect a session to one replica; at the end the connection is lost, and not closed."""
    public = SimpleNamespace(stream=STREAM, url=ORIGIN)
    async with socket_to(public, host="127.0.0.1", port=bridge.port) as ws:
        session.opened()
        try:
            yield ws
        finally:
            ws.transport.abort()


async def exchange(ws, session, heard, until):
    """Send and receive until a condition holds."""
    while not until():
        for frame in session.frames():
            await ws.send(frame)
        for event in session.receive(await asyncio.wait_for(ws.recv(), 60)):
            heard.events.append(event)
    for frame in session.frames():
        await ws.send(frame)


async def begun_and_lost(bridge, **options):
    """Begin a run at a replica, and lose the socket; return the session and its conversation."""
    session, heard = ClientSession(**options), Conversation()
    session.generate(prompt="hi")
    async with socket(bridge, session) as ws:
        await exchange(ws, session, heard, lambda: session.position > 2)
    session.lost(1006)
    return session, heard


def converse_at(place, session=None, **options):
    """Run a generation at a replica, or through the balancer."""
    return converse(STREAM, ORIGIN, session, via=place.port, **options)


def attached(run_id, position=0):
    """Return the session of another client that reads a run."""
    session = ClientSession()
    session.attach(run_id, position)
    return session


async def kill(bridge):
    """End a replica as `kill -9` does: nothing of it reaches Redis or a client any more."""
    store = bridge.bridge.store

    async def nothing(*_):
        await asyncio.Event().wait()

    async def closed():
        pass

    store.link.call = nothing
    store.close = closed
    store._closing = True  # redis-py can lose a cancellation that comes with a timeout
    for task in list(store._tasks):
        task.cancel()
    await asyncio.gather(*store._tasks, return_exceptions=True)
    await store.link.close()
    bridge.server._uvicorn.servers[0].close()
    for connection in list(bridge.server._uvicorn.server_state.connections):
        connection.transport.abort()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("want", ["both", "ids", "bytes"])
async def test_cuts_between_replicas_change_nothing_and_generate_once(redis, want):
    rng = random.Random(want)
    async with replicas(3, redis) as (_, balancer, engine):
        for n in range(8):
            cuts = []
            for _ in range(1 + n % 3):
                way = rng.choice([UP, DOWN])
                at = rng.randrange(480 if way == UP else 900)
                cuts.append((way, at, rng.choice(["close", "reset"])))
            session = ClientSession(ack_every=8, max_attempts=40)
            async with CuttingProxy(balancer.port, cuts) as proxy:
                heard = await converse_at(proxy, session, prompt="hi", want=want, wait_factor=0.05)
            assert isinstance(heard.end, Finished), (cuts, heard.end)
            assert heard.data == EXPECTED, cuts
            assert engine.generations == n + 1, cuts


async def test_a_cancel_reaches_the_producer_at_another_replica(redis):
    async with replicas(2, redis, pause=0.3) as (bridges, _, engine):
        session, heard = await begun_and_lost(bridges[0])
        async with socket(bridges[1], session) as ws:
            await exchange(ws, session, heard, lambda: len(heard.of(Started)) == 2)
            session.cancel()
            await exchange(ws, session, heard, lambda: heard.end is not None)
        await eventually(lambda: not bridges[0].bridge.jobs)
    assert heard.end.reason == "cancelled"
    assert EXPECTED.startswith(heard.data)
    assert (engine.generations, engine.finished) == (1, 0)


async def test_a_killed_producer_is_an_explicit_end_and_the_text_is_kept(redis):
    async with replicas(2, redis, pause=0.5, lease=2, poll=0.1) as (bridges, _, engine):
        session, heard = await begun_and_lost(bridges[0])
        async with socket(bridges[1], session) as ws:
            await exchange(ws, session, heard, lambda: len(heard.of(Started)) == 2)
            await kill(bridges[0])
            await exchange(ws, session, heard, lambda: heard.end is not None)
        # It is the end at every replica.
        same = await converse_at(bridges[1], attached(session.run_id))
    assert (heard.end.code, heard.end.retry) == (4503, True)
    assert heard.data
    assert EXPECTED.startswith(heard.data)
    assert (same.data, same.end) == (heard.data, heard.end)
    assert engine.generations == 1


@pytest.mark.full
async def test_a_position_ahead_of_the_log_is_gone_and_not_a_breach(redis):
    async with replicas(2, redis) as (bridges, _, _):
        session = ClientSession()
        await converse_at(bridges[0], session, prompt="hi", want="ids")
        heard = await converse_at(bridges[1], attached(session.run_id, 1000))
    assert heard.end.code == 4410


async def test_keys_have_no_run_id_and_no_prompt(redis):
    async with replicas(1, redis) as (bridges, _, _):
        session = ClientSession()
        await converse_at(bridges[0], session, prompt="a secret", want="ids")
        client = bridges[0].bridge.store.link.client
        tag = bridges[0].bridge.store.tag_of(session.run_id)
        keys = await client.keys("*" + tag + "*")
        found = b"".join(keys) + b"".join([await client.dump(key) for key in keys])
    assert len(keys) >= 3
    assert session.run_id.encode() not in found
    assert b"a secret" not in found


@pytest.mark.full
async def test_while_redis_is_away_runs_go_on_here_and_new_ones_are_refused():
    with redis_server(keeps=False) as redis:
        async with replicas(2, redis, pause=0.06, poll=0.05) as (bridges, _, engine):
            session, heard = ClientSession(), Conversation()
            session.generate(prompt="hi")
            async with socket(bridges[0], session) as ws:
                await exchange(ws, session, heard, lambda: session.position > 2)
                redis.kill()
                refused = ClientSession(max_attempts=1)
                other = await converse_at(bridges[0], refused, wait_factor=0, prompt="hi")
                assert other.events[1].code == 4503
                assert "store" in other.events[1].message
                await exchange(ws, session, heard, lambda: heard.end is not None)
                # It keeps its clients: their runs are here, and no other replica has a store.
                ready = await bridges[0].get("/readyz", host=NAME)
                assert (ready.status_code, ready.json()["ready"]) == (200, True)
                assert ready.json()["problem"] == bridges[0].bridge.store.state.away
            # It has lost everything, and is given back what it lost.
            redis.start()
            await eventually(lambda: bridges[0].bridge.store.state.away is None)
            shared = bridges[0].bridge.store.shared[session.run_id]
            await eventually(lambda: shared.settled)
            same = await converse_at(bridges[1], attached(session.run_id))
    assert "could not have been resumed elsewhere" in heard.end.note
    assert (heard.data, engine.generations) == (EXPECTED, 1)
    assert (same.data, same.end) == (EXPECTED, heard.end)


async def test_a_store_that_has_just_been_started_takes_no_new_runs():
    with redis_server() as redis:
        async with replicas(1, redis, grace=60) as (bridges, _, engine):
            # A Redis that is slow to answer on a busy machine is refused with other words.
            for _ in range(20):
                session = ClientSession(max_attempts=1)
                heard = await converse_at(bridges[0], session, wait_factor=0, prompt="hi")
                refusal = heard.events[1]
                assert refusal.code == 4503
                if "cannot be reached" not in refusal.message:
                    break
            assert engine.generations == 0
    assert "just been started" in refusal.message


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1", "redis://h?unknown=1", "rediss://h?ssl_cert_reqs=maybe"]
)
def test_an_address_that_is_none_is_one_sentence(url):
    with pytest.raises(StoreError, match="expected a form like redis://"):
        RedisStore(url)


TOKEN = "a-token-that-all-replicas-have"


class Replica:
    """The `bridge` of deploy/compose.yaml, without its container."""

    def __init__(self, redis):
        compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
        changed = {
            "--engine": "scripted",
            "--host": "127.0.0.1",
            "--port": "0",
            "--store": redis.url,
        }
        command = [word.partition("=") for word in compose["services"]["bridge"]["command"]]
        words = [
            f"{name}={changed.get(name, value)}" if value else name for name, _, value in command
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "detok_py", *words],
            cwd=ROOT,
            env={**os.environ, "DETOK_TOKEN": TOKEN, "DETOK_STORE_SECRET": "s"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait(self):
        self.port = int(self.process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
        self.process.stdout.readline()

    def says(self, path):
        """Return what it answers, whatever the status is."""
        headers = {"Host": "localhost:8080", "Authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{self.port}{path}"
        return httpx.get(url, headers=headers, trust_env=False, timeout=60).json()

    @property
    def is_ready(self):
        return self.says("/readyz")["ready"]


@contextlib.contextmanager
def haproxy(replicas, folder):
    """Run HAProxy with deploy/haproxy.cfg, on a Unix socket; yield its path."""
    text = (ROOT / "deploy" / "haproxy.cfg").read_text("utf-8")
    text = text.replace("bind :8080", f"bind unix@{folder}/public.sock")
    text = re.sub(r"resolvers containers\n  parse-resolv-conf\n", "", text)
    servers = [f"  server r{n} 127.0.0.1:{one.port}" for n, one in enumerate(replicas)]
    text = re.sub(r"  server-template .*", "\n".join(servers), text)
    (folder / "haproxy.cfg").write_text(text, encoding="utf-8")
    process = subprocess.Popen(
        [program("DETOK_HAPROXY", "haproxy"), "-db", "-f", str(folder / "haproxy.cfg")],
        env={**os.environ, "DETOK_TOKEN": TOKEN},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield folder / "public.sock"
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.full
async def test_sigterm_moves_clients_to_another_replica_in_mid_answer(tmp_path):
    """As deploy/compose.yaml runs it: a shared token, readiness, HAProxy and draining."""
    with redis_server() as redis:
        await asyncio.sleep(6)  # a store that has just been started takes no runs
        all_ = [Replica(redis) for _ in range(2)]
        try:
            for replica in all_:
                await asyncio.to_thread(replica.wait)
            await eventually(lambda: all(replica.is_ready for replica in all_))
            text = "the quick brown fox " * 8
            session, heard = ClientSession(), Conversation()
            session.generate(
                prompt=text, want="bytes", params={"engine": "scripted", "pace": 40, "cut": "byte"}
            )
            codes, waits, readiness = [], [], []
            with haproxy(all_, tmp_path) as path:
                while heard.end is None and len(codes) < 50:
                    try:
                        async with unix_connect(
                            str(path),
                            "ws://localhost:8080/stream",
                            origin="http://localhost:8080",
                            subprotocols=["detok.v1", f"detok.token.{TOKEN}"],
                        ) as ws:
                            session.opened()
                            if not codes:
                                await exchange(ws, session, heard, lambda: session.position > 20)
                                # Which of the two has the socket and the engine?
                                [mine] = [one for one in all_ if one.says("/info")["clients"]]
                                mine.process.send_signal(signal.SIGTERM)
                            await exchange(ws, session, heard, lambda: heard.end is not None)
                    except websockets.ConnectionClosed as closed:
                        codes.append(closed.rcvd.code)
                        waits.append(session.lost(closed.rcvd.code))
                        readiness.append(mine.is_ready)
                    except (OSError, websockets.InvalidHandshake):
                        # HAProxy has not started, or sends to the replica that has just stopped.
                        await asyncio.sleep(0.1)
            assert codes[0] == 1012
            assert None not in waits
            assert not any(readiness)
            assert isinstance(heard.end, Finished)
            assert heard.data == text.encode()
            assert await asyncio.to_thread(mine.process.wait, 10) == 0
        finally:
            for replica in all_:
                replica.process.kill()
                replica.process.wait(10)
                replica.process.stdout.close()
