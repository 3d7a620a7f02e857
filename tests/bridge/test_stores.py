"""One table for both stores: what a session at one bridge writes, a session at another one reads.

Two bridges share a Redis; the store in memory has one bridge, which is both.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal

import pytest
from redis_rig import redis_server
from waiting import eventually

from detok_py.bridge import redis_scripts as scripts
from detok_py.bridge.lease import NOTE, SharedRun
from detok_py.bridge.redis_follower import AWAY, _word
from detok_py.bridge.redis_link import PARTS, key_of
from detok_py.bridge.redis_store import RedisStore
from detok_py.bridge.store import MemoryStore, clock, resumes
from detok_py.protocol import wire
from detok_py.protocol.reader import ANYONE
from detok_py.protocol.runs import Runs
from detok_py.protocol.server import ServerSession

pytestmark = [pytest.mark.native, pytest.mark.slow]
HELLO = {"engine": {"name": "test", "model": "m"}}
RUN = "0123456789abcdef"
PIECES = [b"caf\xc3", b"\xa9 ", b"\xf0\x9f", b"\x98\x80!"]
TEXT = b"".join(PIECES)


class Place:
    """One bridge: its store, and a session that reads there. `stopped` are the runs whose engines
    were to stop.
    """

    def __init__(self, store):
        self.store = store
        self.stopped = []
        self.connect()

    def connect(self):
        self.session = ServerSession(self.store.runs, HELLO)
        self.session.frames()
        self.data, self.ends = b"", []

    def leave(self):
        self.session.lost(1006, clock())

    @property
    def client(self):
        """The client of Redis."""
        return self.store.link.client

    def key(self, part):
        """Return the name of a key of RUN."""
        return key_of(self.store.tag_of(RUN), part)

    async def receive(self, **message):
        """Give the session a message, and do what a bridge does then. Return the run that an engine
        has to write, or None; or why the store refuses.
        """
        frame = json.dumps(message)
        if (asked := resumes(frame)) is not None:
            problem = await self.store.find(*asked)
            if problem is not None:
                return problem
        for word, run in self.session.receive(frame, clock()):
            if word == "cancel":
                if self.store.cancel(run):
                    self.stopped.append(run)
            elif await self.store.claim(run):
                return run
        return None

    async def generate(self, **fields):
        asked = {"id": RUN, "prompt": "hi", "want": "bytes", **fields}
        return await self.receive(type="generate", **asked)

    async def resume(self, after=0, **fields):
        return await self.receive(type="resume", id=RUN, after=after, **fields)

    def read(self):
        """Read what may be sent; return all bytes so far."""
        for frame in self.session.frames():
            if isinstance(frame, bytes):
                self.data += wire.read_data(frame)[-1]
            elif (event := json.loads(frame))["type"] in ("finished", "error"):
                self.ends.append(event)
            elif event["type"] == "started":
                self.started = event
        return self.data

    async def reads(self, expected):
        await eventually(lambda: self.read() == expected)

    async def ends_with(self, kind, **fields):
        await eventually(lambda: self.read() is not None and self.ends)
        end = self.ends[0]
        assert {"type": kind, **fields}.items() <= end.items()
        return end


@pytest.fixture(scope="module")
def redis():
    with redis_server() as server:
        yield server


@pytest.fixture
def own_redis():
    """A Redis that a test may change or kill."""
    with redis_server() as server:
        yield server


@contextlib.asynccontextmanager
async def opened(*stores):
    places = [Place(store) for store in stores]
    for place in places:
        await place.store.open(place.stopped.append)
    try:
        yield places
    finally:
        for place in places:
            await place.store.close()


@contextlib.asynccontextmanager
async def two_places(kind, redis, **bounds):
    """Yield two places that share runs."""
    if kind == "memory":
        store = MemoryStore(**bounds)
        yield Place(store), Place(store)
        return
    settings = {"grace": 0, "secret": os.urandom(8).hex(), "poll": 0.05, **bounds}
    async with opened(*[RedisStore(redis.url, **settings) for _ in range(2)]) as places:
        yield places


both = pytest.mark.parametrize("kind", ["memory", "redis"])


def write(run, pieces=PIECES, reason="eos"):
    if not run.log.data:
        run.log.start("bytes")
    for piece in pieces:
        run.log.add_bytes(piece)
    if reason:
        run.log.finish(reason)


async def begun(place, count=1, **fields):
    """Return a run that is written at a place, and of which the first pieces were read there."""
    run = await place.generate(**fields)
    write(run, PIECES[:count], reason=None)
    await place.reads(b"".join(PIECES[:count]))
    return run


async def half_read(here, there):
    """Return a run that is written here, and of which there the first half has been read."""
    run = await here.generate()
    write(run, PIECES[:2], reason=None)
    await there.resume(0)
    await there.reads(b"".join(PIECES[:2]))
    return run


@both
async def test_what_one_writes_the_other_reads_from_every_position(kind, redis):
    async with two_places(kind, redis) as (here, there):
        write(await here.generate())
        await here.reads(TEXT)
        end = await here.ends_with("finished", reason="eos", bytes=len(TEXT))
        for after in range(len(TEXT) + 1):
            there.connect()
            assert await there.resume(after) is None
            await there.reads(TEXT[after:])
            assert await there.ends_with("finished") == end


@both
async def test_a_reader_elsewhere_is_told_what_the_answer_begins_in(kind, redis):
    async with two_places(kind, redis) as (here, there):
        run = await here.generate()
        run.log.start("bytes", "reasoning")
        write(run)
        await here.reads(TEXT)
        await there.resume(0)
        await there.reads(TEXT)
        assert (here.started["start"], there.started["start"]) == ("reasoning", "reasoning")


@both
async def test_a_reader_elsewhere_reads_while_the_engine_writes(kind, redis):
    async with two_places(kind, redis) as (here, there):
        run = await begun(here)
        await there.resume(0)
        for n in range(2, len(PIECES) + 1):
            write(run, PIECES[n - 1 : n], reason=None)
            await there.reads(b"".join(PIECES[:n]))
        write(run, [])
        await there.ends_with("finished", bytes=len(TEXT))


@both
async def test_the_same_request_is_written_once(kind, redis):
    async with two_places(kind, redis) as (here, there):
        run = await here.generate()
        assert await there.generate() is None
        write(run)
        await there.reads(TEXT)
        await there.ends_with("finished", reason="eos")


@both
async def test_another_request_of_the_same_id_is_refused(kind, redis):
    async with two_places(kind, redis) as (here, there):
        write(await here.generate())
        await here.reads(TEXT)
        await there.generate(prompt="ho")
        assert there.session.closing[0] == 4400


@both
async def test_the_newer_session_reads_and_the_older_one_is_closed(kind, redis):
    async with two_places(kind, redis) as (here, there):
        run = await begun(here)
        await there.resume(0)
        await eventually(lambda: here.session.closing is not None)
        assert here.session.closing[0] == 4499
        write(run, PIECES[1:])
        await there.reads(TEXT)


PAGE, RELOADED = "a-page-before-its-reload", "the-same-page-after-it"


@both
@pytest.mark.parametrize(
    ("newer", "older"),
    [((PAGE, 3), (PAGE, 2)), ((RELOADED, 1), (PAGE, 2))],
    ids=["a later attempt", "a later session"],
)
async def test_an_older_attempt_that_arrives_late_does_not_take_the_run(kind, redis, newer, older):
    async with two_places(kind, redis) as (here, there):
        run = await begun(here, reader=PAGE, attempt=1)
        await there.resume(len(PIECES[0]), reader=newer[0], attempt=newer[1])
        await eventually(lambda: here.session.closing is not None)
        for late in (Place(here.store), Place(there.store)):
            assert await late.resume(0, reader=older[0], attempt=older[1]) is None
            await eventually(lambda late=late: late.session.closing is not None)
            assert late.session.closing[0] == 4499
        write(run, PIECES[1:])
        await there.reads(TEXT[len(PIECES[0]) :])
        await there.ends_with("finished", reason="eos")
        assert there.session.closing is None


@both
async def test_the_engine_waits_for_the_credit_of_whoever_reads(kind, redis):
    async with two_places(kind, redis, window={"tokens": 4, "bytes": 4}) as (here, there):
        run = await begun(here)
        assert not run.reader.has_credit
        await there.resume(0)
        await there.reads(PIECES[0])
        await there.receive(type="ack", n=4)
        await eventually(lambda: run.reader.has_credit)


@both
async def test_a_cancel_stops_the_engine_wherever_it_is(kind, redis):
    async with two_places(kind, redis) as (here, there):
        run = await half_read(here, there)
        await there.receive(type="cancel")
        await there.ends_with("finished", reason="cancelled")
        await eventually(lambda: run in [*here.stopped, *there.stopped])
        assert run.log.end["reason"] == "cancelled"


@both
async def test_a_run_that_was_forgotten_is_gone_everywhere(kind, redis):
    async with two_places(kind, redis) as (here, there):
        run = await here.generate()
        write(run)
        await here.reads(TEXT)
        here.leave()
        here.store.forget(run)

        async def gone():
            there.leave()
            there.connect()
            await there.resume(0)
            return there.session.closing is not None

        deadline = clock() + 60
        while not await gone():
            assert clock() < deadline, "the run can still be resumed after a minute"
        assert there.session.closing[0] == 4410


async def test_a_run_that_failed_without_data_may_be_begun_again_anywhere(redis):
    async with two_places("redis", redis) as (here, there):
        run = await here.generate()
        run.log.fail(wire.ENGINE_DOWN, "not ready", retry=True)
        await there.resume(0)
        await there.ends_with("error", code=wire.ENGINE_DOWN)
        there.leave()
        [copy] = there.store.runs.by_id.values()
        there.store.forget(copy)
        again = await began(there)
        write(again)
        await there.reads(TEXT)
        # Its first producer does not bring it back.
        here.leave()
        here.store.forget(run)
        here.connect()
        await here.resume(0)
        await here.reads(TEXT)


async def began(place):
    """Return the run that a place begins, as soon as it may."""
    for _ in range(100):
        place.connect()
        run = await place.generate()
        if run is not None:
            return run
        place.leave()
        for copy in list(place.store.runs.by_id.values()):
            place.store.forget(copy)
        await asyncio.sleep(0.05)
    raise AssertionError("the run was not begun again")


@both
async def test_the_log_is_dropped_behind_what_was_acknowledged(kind, redis):
    bounds = {"max_log": 4000, "window": {"tokens": 1024, "bytes": 1 << 20}}
    async with two_places(kind, redis, **bounds) as (here, there):
        run = await here.generate()
        write(run, [], reason=None)
        for _ in range(40):
            write(run, [bytes(400)], reason=None)
            await eventually(lambda: len(here.read()) == run.log.position)
            await here.receive(type="ack", n=run.log.position)
        write(run, [b"end"])
        await here.ends_with("finished", bytes=16_003)
        assert 0 < run.log.base < 16_000
        assert run.log.size < 5000
        await there.resume(run.log.base)
        await eventually(lambda: there.read().endswith(b"end"))
        there.connect()
        await there.resume(0)
        assert there.session.closing[0] == 4410


@both
async def test_runs_without_a_client_are_dropped_after_their_time(kind, redis):
    async with two_places(kind, redis, keep_seconds=60) as (here, _):
        run = await here.generate()
        write(run)
        await here.reads(TEXT)
        await eventually(lambda: run.log.ended)
        here.session.lost(1006, 100.0)
        here.store.expire(159.0)
        assert run.id in here.store.runs.by_id
        here.store.expire(160.0)
        assert here.store.runs.by_id == {}


# What only Redis can do.


@contextlib.contextmanager
def paused(redis):
    redis.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        redis.process.send_signal(signal.SIGCONT)


@pytest.mark.full
async def test_a_claim_that_timed_out_has_a_producer_when_redis_comes_back(own_redis):
    """Redis executes the command after the client was refused; the client asks again elsewhere."""
    async with two_places("redis", own_redis) as (here, there):
        with paused(own_redis):
            asking = asyncio.create_task(here.generate())
            await eventually(lambda: here.session.closing is not None)
            assert here.session.closing[0] == 4503
            here.leave()
        again = await there.generate()
        while there.session.closing is not None:  # its Redis is still away
            await asyncio.sleep(0.1)
            there.connect()
            again = await there.generate()
        run = again or await asyncio.wait_for(asking, 20)
        assert run is not None, "nobody writes the run"
        write(run)
        await there.reads(TEXT)
        await there.ends_with("finished", reason="eos")
        asking.cancel()


async def test_a_claim_whose_owner_is_gone_vanishes_and_another_one_succeeds(redis):
    async with two_places("redis", redis, lease=60) as (here, there):
        # The digest that a claim of the same request has.
        asked = {"prompt": "hi", "messages": None, "params": {}, "want": "bytes"}
        claim = {"claim": "gone", "digest": Runs().create(RUN, asked).digest, "turn": 1}
        await here.client.hset(here.key("run"), mapping={**claim, "ack": 0, "n": 0, "pos": 0})
        await here.client.pexpire(here.key("run"), 300)
        assert await there.generate() is not None


@pytest.mark.parametrize("lost", ["log", "run"])
async def test_a_log_that_redis_has_lost_is_put_back_by_its_producer(redis, lost):
    async with two_places("redis", redis) as (here, there):
        run = await half_read(here, there)
        await here.client.delete(here.key(lost))
        write(run, PIECES[2:])
        await there.reads(TEXT)
        await there.ends_with("finished", reason="eos", bytes=len(TEXT))


async def dies(place):
    """End a replica: nothing of it reaches Redis any more."""
    for task in list(place.store._tasks):
        task.cancel()
    place.store._closing = True
    await asyncio.gather(*place.store._tasks, return_exceptions=True)


async def ends_waiting(place):
    """Let all leases run out for a replica, which then waits for none."""
    link = place.store.link
    await link.client.delete(place.key("lease"))
    link.times = link.times._replace(lease=0.0)


async def test_a_log_that_is_lost_with_its_producer_is_an_explicit_end(redis):
    async with two_places("redis", redis, lease=60) as (here, there):
        await half_read(here, there)
        await dies(here)
        await here.client.delete(here.key("log"))
        await ends_waiting(there)
        end = await there.ends_with("error", code=4503, retry=True)
        assert "lost this answer" in end["message"]
        assert "sha256" not in end
        assert there.data == b"".join(PIECES[:2])


async def test_a_reader_that_is_ahead_of_a_log_that_was_cut_keeps_its_text(redis):
    """Redis comes back without its last part, and the producer is dead."""
    async with two_places("redis", redis, lease=60) as (here, there):
        run = await begun(here)
        before = [(key, await here.client.dump(key)) for key in map(here.key, ("run", "log"))]
        write(run, PIECES[1:3], reason=None)
        await there.resume(0)
        await there.reads(b"".join(PIECES[:3]))
        await dies(here)
        for key, value in before:
            await here.client.restore(key, 60_000, value, replace=True)
        await ends_waiting(there)
        end = await there.ends_with("error", code=4503, retry=True)
        # Not the sum of the shorter log, which the client would call a breach of the protocol.
        assert "sha256" not in end
        assert there.data == b"".join(PIECES[:3])


UNREADABLE = [{"b": b'{"version":2}\n'}, {"c": b""}, {"b": b'{"s":4}\n\x07\x01\x01x'}]


@pytest.mark.parametrize("entry", UNREADABLE, ids=["no start", "no entry", "an unknown op"])
async def test_an_entry_that_cannot_be_read_ends_its_run_and_no_other(redis, entry):
    async with two_places("redis", redis) as (here, there):
        pairs = [(await here.generate(), there)]
        writer, reader = Place(here.store), Place(there.store)
        pairs += [(await writer.generate(id=f"{RUN}2"), reader)]
        for run, place in pairs:
            write(run, PIECES[:1], reason=None)
            await place.receive(type="resume", id=run.id, after=0)
            await place.reads(PIECES[0])
        await here.client.xadd(here.key("log"), entry, id="900-9")
        await there.ends_with("error", code=4503, retry=True)
        assert there.data == PIECES[0]
        write(pairs[1][0], PIECES[1:])
        await reader.reads(TEXT)
        await reader.ends_with("finished", reason="eos")


def test_a_run_whose_lease_is_lost_begins_as_before():
    run = Runs().create(RUN, {})
    run.log.start("bytes", "reasoning")
    SharedRun(run, "tag", claiming=False).lose_lease()
    assert run.log.started == "bytes reasoning"


async def test_a_redis_that_evicts_keys_is_warned_of(own_redis, caplog):
    with caplog.at_level(logging.WARNING, "detok.bridge"):
        store = RedisStore(own_redis.url)
        await store.link.client.config_set("maxmemory-policy", "allkeys-lru")
        async with opened(store):
            pass
    assert [record.message for record in caplog.records] == ["store_may_evict_runs"]
    assert caplog.records[0].fields == {"policy": "allkeys-lru", "expected": "noeviction"}


@pytest.mark.parametrize("reason", [None, "eos"], ids=["that goes on", "that has ended"])
async def test_a_run_that_redis_has_cut_is_put_back_by_its_producer(redis, reason):
    """Redis comes back without its last part, and the producer has nothing new to append."""
    async with two_places("redis", redis, lease=30) as (here, there):
        run = await begun(here)
        before = [(key, await here.client.dump(key)) for key in map(here.key, ("run", "log"))]
        write(run, PIECES[1:], reason=reason)
        await here.reads(TEXT)
        await eventually(lambda: run.log.ended == bool(reason))
        for key, value in before:
            await here.client.restore(key, 60_000, value, replace=True)
        await here.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
        await there.resume(0)
        await there.reads(TEXT)
        write(run, [])
        await there.ends_with("finished", reason="eos", bytes=len(TEXT))


async def test_a_reader_that_knows_more_than_its_producer_was_told_is_waited_for(
    redis, monkeypatch
):
    """Redis has appended a batch, and its answer to the producer is late."""
    async with two_places("redis", redis) as (here, there):
        run = await here.generate()
        answers = asyncio.Event()
        call = here.store.link.call

        async def late(script, calls):
            replies = await call(script, calls)
            await answers.wait()
            return replies

        monkeypatch.setattr(here.store.link, "call", late)
        write(run)
        await there.resume(0)
        await there.reads(TEXT)
        here.connect()
        resuming = asyncio.create_task(here.resume(len(TEXT)))
        await asyncio.sleep(0.05)
        answers.set()
        assert await resuming is None
        await here.ends_with("finished", reason="eos", bytes=len(TEXT))


async def test_a_look_that_is_older_than_what_was_read_loses_nothing(redis, monkeypatch):
    """The answer of Redis to a look comes after newer entries of the log."""
    async with two_places("redis", redis) as (here, there):
        run = await here.generate()
        write(run, PIECES[:1], reason=None)
        await there.resume(0)
        await there.reads(PIECES[0])
        looked, answers = asyncio.Event(), asyncio.Event()
        call = there.store.link.call

        async def late(script, calls):
            replies = await call(script, calls)
            if script == scripts.LOOK:
                looked.set()
                await answers.wait()
            return replies

        monkeypatch.setattr(there.store.link, "call", late)
        await looked.wait()
        write(run, PIECES[1:2], reason=None)
        await there.reads(PIECES[0] + PIECES[1])
        answers.set()
        await asyncio.sleep(0.01)
        assert there.store.shared[RUN].lost_at is None
        write(run, PIECES[2:])
        await there.ends_with("finished")


async def test_a_replica_that_has_never_reached_redis_takes_no_clients():
    async with opened(RedisStore("unix:///nowhere/redis.sock")) as [place]:
        assert "cannot be reached" in place.store.state.away == place.store.state.unready


async def test_an_idle_replica_asks_redis_four_times_a_second_and_learns_that_it_is_away(own_redis):
    async with opened(RedisStore(own_redis.url)) as [place]:
        await place.client.config_resetstat()
        since = clock()
        await asyncio.sleep(1)
        asked = (await place.client.info("commandstats"))["cmdstat_xread"]["calls"]
        assert asked <= 4 * (clock() - since) + 1
        # Redis stands still twice, and answers in between: it is not away.
        for n in (1, 2):
            with paused(own_redis):
                await eventually(lambda n=n: place.store.link.counts.failures >= n)
            await eventually(lambda: not place.store.link.failing)
        assert not place.store.state.away
        own_redis.kill()
        await eventually(lambda: place.store.state.away)
        assert place.store.state.unready is None
        own_redis.start()
        await eventually(lambda: not place.store.state.away)


async def test_a_wrong_password_is_said_as_such(own_redis, caplog, monkeypatch):
    url = own_redis.url
    with caplog.at_level(logging.WARNING, "detok.bridge"):
        admin = RedisStore(url).link.client
        await admin.config_set("requirepass", "right")
        async with opened(RedisStore(url), RedisStore(f"{url}?password=wrong")) as places:
            for place in places:
                assert "password" in place.store.state.away == place.store.state.unready
                await place.generate()
                assert place.session.closing[0] == 4503
            await admin.aclose()
        async with opened(RedisStore(f"{url}?password=right")) as [place]:
            assert place.store.state.away is place.store.state.unready is None
        monkeypatch.setenv("DETOK_STORE_PASSWORD", "right")
        async with opened(RedisStore(url)) as [place]:
            assert place.store.state.away is None
    messages = [record.message for record in caplog.records]
    assert set(messages) == {"store_refuses_the_password"}
    assert "wrong" not in caplog.text


async def test_a_run_that_goes_on_is_not_gone_because_redis_lacks_its_last_part(redis, monkeypatch):
    """Its producer puts that back later than a reader elsewhere asks for it."""
    monkeypatch.setattr("detok_py.bridge.redis_store.AHEAD_SECONDS", 0.05)
    async with two_places("redis", redis) as (here, there):
        run = await begun(here)
        assert "try again" in await there.resume(len(TEXT))
        write(run, PIECES[1:])
        await here.reads(TEXT)
        there.connect()
        assert await there.resume(len(TEXT)) is None
        await there.ends_with("finished", bytes=len(TEXT))


async def test_a_reader_that_asks_while_redis_lacks_the_run_is_heard_later(redis):
    """Redis was emptied, and the producer puts the run back after the reader has asked."""
    async with two_places("redis", redis) as (here, there):
        run = await begun(here)
        here.leave()
        assert await there.store.find(RUN, 0, ANYONE) is None
        await here.client.delete(*map(here.key, PARTS))
        there.session.receive(wire.message("resume", id=RUN, after=0), clock())
        await eventually(lambda: there.store.shared[RUN].turn == 2)
        write(run, PIECES[1:])
        await there.reads(TEXT)
        await there.ends_with("finished")
        assert there.session.closing is None


async def test_credit_that_redis_has_lost_is_given_again(redis, monkeypatch):
    async with two_places("redis", redis, window={"tokens": 4, "bytes": 4}) as (here, there):
        run = await begun(here)
        await there.resume(0)
        await there.reads(PIECES[0])
        await eventually(lambda: there.store.shared[RUN].turn == 2)
        call = there.store.link.call
        lost = []

        async def losing(script, calls):
            if not lost and any(words[0] == "ack" for _, words in calls):
                lost.append(calls)
                return [2 for _ in calls]
            return await call(script, calls)

        monkeypatch.setattr(there.store.link, "call", losing)
        await there.receive(type="ack", n=4)
        await eventually(lambda: run.reader.has_credit)
        assert lost


# Clients that leave, come elsewhere or ask for nonsense; a Redis that reads and does not write.


async def test_a_redis_that_only_reads_is_away_and_the_answer_goes_on(own_redis):
    async with opened(RedisStore(own_redis.url, grace=0)) as [place]:
        run = await begun(place, 2)
        await place.client.config_set("maxmemory", 1)
        write(run, PIECES[2:])
        # Others ask all the while; a script that has deleted something may write.
        deadline = clock() + 20
        for n in range(100):
            if place.store.link.away:
                break
            await Place(place.store).generate(id=f"{n:016d}")
            await asyncio.sleep(0.1)
        assert clock() < deadline
        end = await place.ends_with("finished")
        assert (place.data, end["note"]) == (TEXT, NOTE)
        place.connect()
        await place.generate(id="f" * 16)
        assert place.session.closing == (4503, AWAY)
        await place.client.config_set("maxmemory", 0)
        await eventually(lambda: not place.store.state.away)


async def test_a_refusal_long_ago_does_not_count_against_redis(redis, monkeypatch):
    link = RedisStore(redis.url).link
    await link.connect()
    now = clock()
    monkeypatch.setattr("detok_py.bridge.redis_link.clock", lambda: now)
    refusal = link._refusal("READONLY You can't write against a read only replica.")
    away = []
    for seconds in (0, 3600, 0.4, 0.4):
        now += seconds
        link.failed(refusal)
        link.succeeded(wrote=False)  # it answers those who read
        away.append(link.away)
    await link.close()
    assert away == [False, False, False, True]


async def test_a_run_that_is_read_elsewhere_outlives_an_outage(redis):
    async with two_places("redis", redis, keep_seconds=1) as (here, there):
        run = await begun(here, 2)
        here.leave()
        await there.resume(0)
        await there.reads(b"".join(PIECES[:2]))
        for _ in range(15):
            await asyncio.sleep(0.1)
            here.store.expire(clock())
        # Redis loses the log while the engine says nothing.
        await here.client.delete(*map(here.key, PARTS))
        await asyncio.sleep(0.3)
        here.store.expire(clock())
        write(run, PIECES[2:])
        await there.reads(TEXT)
        await there.ends_with("finished")


async def test_a_run_that_is_put_back_lives_no_longer_without_a_client(redis):
    async with two_places("redis", redis) as (here, _):
        run = await begun(here, 2)
        here.leave()
        client = here.client
        keys = [here.key(part) for part in PARTS]
        for key in keys:  # as forty seconds later
            await client.expire(key, 50)
        run.reader.detached_at = left = clock() - 40
        await client.delete(*keys)
        while not await client.exists(keys[0]):
            await asyncio.sleep(0.01)
        assert 40 < await client.ttl(keys[0]) <= 50
        renewed = here.store.link.counts.calls
        await eventually(lambda: here.store.link.counts.calls > renewed + 2)
        assert run.reader.detached_at < left + 2


async def test_a_run_that_has_ended_is_kept_while_its_client_is_connected(redis, monkeypatch):
    monkeypatch.setattr("detok_py.bridge.redis_store.SPARE_SECONDS", 0)
    monkeypatch.setattr("detok_py.bridge.lease.KEEP_SECONDS", 0.1)
    async with two_places("redis", redis, keep_seconds=1) as (here, there):
        run = await here.generate()
        write(run)
        await here.reads(TEXT)
        await asyncio.sleep(1.5)
        for place in (here, there):  # who wrote the run, and who has a copy
            there.connect()
            await there.resume(0)
            await there.reads(TEXT)
            await asyncio.sleep(1.5 * (place is here))


async def test_refused_requests_are_not_kept_for_good(redis):
    async with two_places("redis", redis) as (here, _):
        for n in range(3):
            asked = wire.message("generate", id=f"{n:016d}", prompt="hi", want="bytes")
            here.session.receive(asked, clock())
            here.session.run.log.fail(4400, "no")  # before a claim, as for a wrong parameter
            here.leave()
            here.connect()
        now = clock()
        here.store.expire(now + 50)
        assert len(here.store.runs.by_id) == 3
        here.store.expire(now + 60)
        assert here.store.runs.by_id == {}


async def test_of_many_runs_without_a_client_the_oldest_are_dropped(redis):
    async with two_places("redis", redis, max_runs=2, lease=5) as (here, there):
        runs = []
        for n in range(5):
            here.connect()
            runs.append(await here.generate(id=f"{n:016d}"))
            write(runs[-1], [b"x"], reason=None)
            here.leave()
        await there.receive(type="resume", id=runs[0].id, after=0)
        await there.reads(b"x")

        def newest():
            return max(run.reader.detached_at for run in runs[1:])

        # The first one is read elsewhere, as the renewal of its lease tells.
        await eventually(lambda: runs[0].reader.detached_at > newest() + 0.01)
        assert here.store.expire(newest() + 0.5) == []
        dropped = here.store.expire(newest() + 5.001)
        assert dropped == runs[1:3]
        for run in dropped:
            here.store.cancel(run)  # as the bridge does, to stop its engine
        # A client that comes back does not read that as the end of its answer.
        deadline = clock() + 10
        while here.session.closing is None or here.session.closing[0] != 4410:
            assert clock() < deadline, (here.session.closing, here.ends)
            here.leave()
            here.connect()
            await here.receive(type="resume", id=runs[1].id, after=0)
            await asyncio.sleep(0.1)


async def test_the_credit_of_a_client_that_is_gone_stays(redis):
    async with two_places("redis", redis) as (here, _):
        run = await here.generate()
        write(run, [bytes(1000)], reason=None)
        await here.reads(bytes(1000))
        await here.receive(type="ack", n=1000)
        here.leave()
        calls = here.store.link.counts.calls
        await eventually(lambda: here.store.link.counts.calls > calls + 2)
        assert run.log.acked == 1000


async def test_readers_of_other_replicas_are_sent_away_while_redis_is_away(own_redis):
    async with two_places("redis", own_redis, lease=0.2) as (here, there):
        await half_read(here, there)
        own_redis.kill()
        await eventually(lambda: there.session.closing is not None)
        assert there.session.closing == (4503, AWAY)


async def test_a_cancel_right_after_a_resume_elsewhere_stops_the_engine(redis):
    async with two_places("redis", redis) as (here, there):
        reader = {"reader": "r" * 16}
        run = await begun(here, 2, **reader, attempt=1)
        here.leave()
        await there.resume(0, **reader, attempt=2)
        for word, one in there.session.lost(1000, clock()):
            assert (word, there.store.cancel(one)) == ("cancel", False)
        await eventually(lambda: here.stopped == [run])


async def test_many_clients_that_come_back_at_once_leave_redis_to_others(redis, monkeypatch):
    # That they get connections is asked here, not how quickly this machine is.
    monkeypatch.setattr("detok_py.bridge.redis_link.TIMEOUT_SECONDS", 30)
    async with two_places("redis", redis) as (here, _):
        write(await here.generate(), reason=None)
        places = [Place(here.store) for _ in range(52)]
        before = here.store.link.counts.failures
        await asyncio.gather(
            *[
                place.resume(0, reader=f"{n:016d}", attempt=1)
                for n, place in enumerate(places[:40])
            ],
            *[place.generate(id=f"{n:016d}") for n, place in enumerate(places[40:])],
        )
        assert here.store.link.counts.failures == before
        assert [place.session.closing for place in places[40:]] == [None] * 12


async def test_clients_of_runs_here_do_not_all_ask_a_redis_that_hangs(own_redis):
    async with two_places("redis", own_redis) as (here, _):
        write(await here.generate(), reason=None)
        client, asked = here.client, []
        hmget = client.hmget
        client.hmget = lambda *fields: asked.append(fields) or hmget(*fields)
        readers = [(Place(here.store), f"{n:016d}") for n in range(40)]
        with paused(own_redis):
            await asyncio.gather(
                *[place.resume(0, reader=reader, attempt=1) for place, reader in readers]
            )
        # Eight at once ask; the others learn in the meantime that it is away.
        assert 0 < len(asked) < 40


async def test_a_full_redis_ends_no_run_whose_producer_lives(own_redis):
    async with two_places("redis", own_redis, lease=0.5) as (here, there):
        run = await half_read(here, there)
        await here.client.config_set("maxmemory", 1)
        await eventually(lambda: there.session.closing is not None)
        assert there.session.closing == (4503, AWAY)
        assert await there.resume(0) == AWAY  # not again and again
        await here.client.config_set("maxmemory", 0)
        await eventually(lambda: not here.store.state.away and not there.store.state.away)
        assert (here.stopped, run.log.end) == ([], None)
        there.leave()
        there.connect()
        await there.resume(0)
        write(run, PIECES[2:])
        await there.reads(TEXT)


async def test_credit_from_elsewhere_counts_though_redis_has_lost_a_turn(redis):
    async with two_places("redis", redis) as (here, there):
        run = await here.generate()
        write(run, [bytes(1000)], reason=None)
        await here.reads(bytes(1000))
        here.leave()
        here.connect()
        await here.resume(0)
        await eventually(lambda: here.store.shared[RUN].turn == 2)
        here.leave()
        await here.client.hincrby(here.key("run"), "turn", -1)
        await there.resume(0)
        await eventually(lambda: len(there.read()) == 1000)
        await there.receive(type="ack", n=1000)
        await eventually(lambda: run.log.acked == 1000)


async def test_a_late_cancel_of_a_client_without_a_name_takes_no_run(redis):
    async with two_places("redis", redis) as (here, there):
        run = await here.generate()
        write(run, PIECES[:2], reason=None)
        await there.resume(0)
        shared = there.store.shared[RUN]
        there.session.lost(1000, clock())
        there.store.cancel(shared.run)
        shared.taking = True
        assert _word(shared) != "take"
