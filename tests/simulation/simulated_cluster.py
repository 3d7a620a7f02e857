"""Replicas of the bridge, a Redis, engines and clients on one simulated clock and network.

In: a plan (simulated_plan.py), which one seed makes. Out: `wrong`, what broke a law, and `trace`,
what happened, step by step. The bridge, its store, redis-py, the protocol and the client's session
are the real ones.
"""

import asyncio
import collections
import functools
import random

import redis.utils
from simulated_clients import Reader, ServedSocket
from simulated_loop import Machine, simulated_loop
from simulated_network import Network
from simulated_plan import KEEP_SECONDS
from simulated_redis import Data, Server

from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.engines import End, EngineError, Ids, Info
from detok_py.bridge.redis_store import RedisStore
from detok_py.bridge.stream import Bridge
from detok_py.decode.vocabulary import Vocabulary

# redis-py reads its own version from a file whenever it connects: a tenth of a short schedule.
redis.utils.get_lib_version = functools.cache(redis.utils.get_lib_version)

VOCABULARY = Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"caf\xc3", b"the "])
TTL_SECONDS = 18
WINDOW = {"tokens": 16, "bytes": 64}
# How long a run may take to end once nothing is broken any more: what is left of it, a lease, a
# grace, and a client that waits as long as runs are kept.
BOUND_SECONDS = 60.0


class Generation:
    """What one engine makes for one request."""

    def __init__(self, plan, number, where):
        self.where = where
        random_ = random.Random(f"{plan.seed} {plan.name} {number}")
        self.ids = [random_.randrange(len(VOCABULARY)) for _ in range(plan.tokens)]
        self.made = 0
        self.running = True

    def text(self, want):
        """Return what a reader of `want` may have by now, by position."""
        ids = self.ids[: self.made]
        if want != "bytes":
            return ids
        return list(b"".join([VOCABULARY.token_bytes(i) for i in ids]))


class Engine:
    """An engine of one replica, which makes what the plan of a run says."""

    def __init__(self, cluster, machine):
        self._cluster = cluster
        self._machine = machine

    goes_on = True

    async def open(self):
        pass

    def info(self):
        return Info("simulated", "ids")

    def gives(self, request):
        return "ids"

    async def refuse_vocabulary(self, vocabulary):
        return None

    async def generate(self, request):
        plan = self._cluster.plan.runs[request.prompt]
        generation = self._cluster.generation_of(plan, self._machine, request.answered)
        try:
            while generation.made < plan.tokens:
                if generation.made in plan.fails_at and len(request.answered) != generation.made:
                    raise EngineError("The engine was lost.")
                ids = generation.ids[generation.made :][: plan.chunk]
                generation.made += len(ids)
                yield Ids(ids)
                await asyncio.sleep(plan.pace)
            yield End("eos")
        finally:
            generation.running = False

    async def close(self):
        pass


class Replica:
    """A replica that can be killed and started again: each life has a machine of its own."""

    def __init__(self, cluster, name):
        self.cluster = cluster
        self.name = name
        self.machine = None
        self.bridge = None
        self.store = None

    def start(self):
        cluster = self.cluster
        self.machine = Machine(cluster.loop, self.name)
        self.machine.context.run(self._start)
        cluster.network.listeners[self.name] = (self.machine, self._accept)
        self.machine.spawn(self.bridge.open())

    def _start(self):
        cluster = self.cluster
        self.store = RedisStore(
            "redis://redis:6379",
            secret="s",
            window=WINDOW,
            keep_seconds=KEEP_SECONDS,
            max_log=cluster.plan.max_log,
        )
        cluster.stores.append(self.store)
        self.store.link.times = self.store.link.times._replace(ttl=TTL_SECONDS)
        engine = Engine(cluster, self.machine)
        self.bridge = Bridge(
            [AttachedEngine("first", engine, vocabulary=VOCABULARY)],
            store=self.store,
            max_clients=64,
            continue_seconds=cluster.plan.continue_seconds,
        )

    def _accept(self, connection):
        served = ServedSocket(connection)
        self.machine.spawn(served.serve(self.bridge))
        return served

    def kill(self, seconds=0.0):
        """End it as `kill -9` does. What is connected to it learns of that after `seconds`."""
        self.cluster.network.listeners[self.name] = (self.machine, None)
        self.cluster.network.kill(self.machine, seconds)
        self.machine.go_on()
        self.machine.end_tasks()

    async def drain(self, seconds):
        """Stop it as SIGTERM does."""
        await self.machine.spawn(self.bridge.drain(seconds))
        self.cluster.network.listeners[self.name] = (self.machine, None)
        await self.machine.spawn(self.bridge.close())
        self.kill()

    def kept(self):
        """Return what is still here that a run needed."""
        bridge, store = self.bridge, self.store
        follower, writer = store._follower, store._writer
        found = {
            "runs": len(store.runs.by_id),
            "shared": len(store.shared),
            "jobs": len(bridge.jobs),
            "sessions": len(bridge._sessions),
            "starting": len(bridge._starting),
            "asked": len(follower._asked),
            "written": len(writer._written),
            "tasks": len(self.machine.tasks) > 8,
        }
        return {name: count for name, count in found.items() if count}


class Redis:
    """The Redis: its machine, its data, its life."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.jump = 0.0
        self.start(None)
        self.data.up_since -= 1000

    def clock(self):
        return self.cluster.loop.now + self.jump

    def start(self, saved):
        """Start it with what was saved, or with nothing."""
        self.machine = Machine(self.cluster.loop, "redis")
        self.data = Data(self.clock)
        if saved is not None:
            self.data.values, self.data.until = saved
        self.server = Server(self.machine, self.data)
        self.cluster.network.listeners["redis"] = (self.machine, self.server.accept)

    def kill(self):
        self.cluster.network.listeners["redis"] = (self.machine, None)
        self.machine.go_on()
        self.cluster.network.kill(self.machine, 0.0)


class Cluster:
    """Runs one plan. `wrong` has what broke a law."""

    def __init__(self, plan, loop):
        self.plan = plan
        self.loop = loop
        self.trace = []
        self.wrong = []
        self.network = Network(loop, plan.seed)
        self.redis = Redis(self)
        self.replicas = {f"r{n}": Replica(self, f"r{n}") for n in range(plan.replicas)}
        self.generations = {name: [] for name in plan.runs}
        self.readers = []
        self.stores = []
        self.locks = collections.defaultdict(asyncio.Lock)

    def note(self, *words):
        self.trace.append((round(self.loop.now - 1000, 4), *words))

    def fail(self, *words):
        self.note("WRONG", *words)
        self.wrong.append(" ".join(map(str, words)))

    def generation_of(self, plan, machine, answered):
        """Return the generation that a request begins, or goes on with."""
        found = self.generations[plan.name]
        if answered and found:
            found[-1].running = True
            found[-1].made = len(answered)
            return found[-1]
        found.append(Generation(plan, len(found), machine.name))
        self.note("generates", plan.name, machine.name, len(found))
        if len(found) > 1 and not self.plan.may_generate_twice:
            self.fail("generated twice:", plan.name)
        return found[-1]

    @property
    def producer(self):
        """The name of a replica that generates now."""
        for found in self.generations.values():
            for generation in found:
                if generation.running:
                    return generation.where
        return "r0"

    async def run(self):
        for replica in self.replicas.values():
            replica.start()
        loop = self.loop
        faults = [loop.create_task(fault.happen(self)) for fault in self.plan.faults]
        readers = []
        for plan in self.plan.readers:
            machine = Machine(loop, plan.name)
            reader = Reader(self, plan, machine)
            self.readers.append(reader)
            readers.append(machine.spawn(reader.read()))
        await asyncio.gather(*faults)
        begun = max([loop.now, *[1000 + plan.at for plan in self.plan.readers]])
        await asyncio.wait(readers, timeout=begun + BOUND_SECONDS - loop.now)
        for task, reader in zip(readers, self.readers):
            if not task.done():
                self.fail("has no end:", reader.name, reader.session.state, reader.session.position)
            elif task.exception() is not None:
                raise task.exception()
        if not self.wrong and self.plan.waits_for_expiry:
            await self._expire()

    async def _expire(self):
        """Check that nothing of the runs is left when their time is over."""
        back = sum([abs(fault.amount) for fault in self.plan.faults if fault.kind == "jump clock"])
        await asyncio.sleep(KEEP_SECONDS + TTL_SECONDS + 5 + back)
        for replica in self.replicas.values():
            if kept := replica.kept():
                self.fail("kept for good:", replica.name, kept)
        keys = [key for key in self.redis.data.purge() if b"wake" not in key]
        if keys:
            self.fail("kept for good in Redis:", keys)
        for name, found in self.generations.items():
            if any(generation.running for generation in found):
                self.fail("generates for nobody:", name)

    def close(self):
        """Leave no connection open: asyncio and redis-py warn of those that are."""
        for connection in self.network.connections:
            connection.open = [False, False]
        for store in self.stores:
            pool = store.link.client.connection_pool
            for one in (*pool._available_connections, *pool._in_use_connections):
                one._writer = one._reader = None


def run_plan(plan):
    """Run a plan; return its cluster."""
    with simulated_loop() as loop:
        cluster = Cluster(plan, loop)
        try:
            loop.run_until_complete(cluster.run())
        finally:
            cluster.close()
        for fault in loop.faults:
            cluster.fail("fault:", fault.get("message"), repr(fault.get("exception")))
    return cluster
