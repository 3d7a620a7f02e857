"""What one seed does: runs, readers, and the faults with their times."""

import asyncio
import random
from dataclasses import dataclass

from simulated_network import pair_of


@dataclass
class RunPlan:
    seed: str
    name: str
    id: str
    tokens: int
    chunk: int
    pace: float
    want: str
    engine_fails: tuple = ()
    may_be_cancelled: bool = False


@dataclass
class ReaderPlan:
    seed: str
    name: str
    run: RunPlan
    at: float
    attaches: bool
    ack_every: int
    act: str | None = None
    acts_at: int | None = None
    keeps: bool = False
    leaves: bool = False


@dataclass
class Fault:
    """Something bad at a time, for some seconds."""

    kind: str
    at: float
    seconds: float
    who: str
    amount: float

    def __str__(self):
        return f"{self.at:7.3f} {self.kind} {self.who} {self.seconds:.3f} s {self.amount:.3f}"

    async def happen(self, cluster):
        await asyncio.sleep(self.at)
        async with cluster.locks[self.who]:
            cluster.note("fault", self.kind, self.who, self.seconds, self.amount)
            await FAULTS[self.kind](self, cluster)
            cluster.note("over", self.kind, self.who)


async def kill_replica(fault, cluster):
    replica = cluster.replicas[fault.who]
    replica.kill(None if fault.amount > 0.7 else fault.amount)
    await asyncio.sleep(fault.seconds)
    replica.start()


async def drain_replica(fault, cluster):
    replica = cluster.replicas[fault.who]
    await replica.drain(fault.seconds)
    await asyncio.sleep(fault.amount)
    replica.start()


async def pause_replica(fault, cluster):
    machine = cluster.replicas[fault.who].machine
    machine.pause()
    await asyncio.sleep(fault.seconds)
    machine.go_on()


async def part_from_redis(fault, cluster):
    pair = pair_of(fault.who, "redis")
    cluster.network.part(pair)
    await asyncio.sleep(fault.seconds)
    cluster.network.join(pair)


async def part_from_clients(fault, cluster):
    pairs = [pair_of(fault.who, plan.name) for plan in cluster.plan.readers]
    for pair in pairs:
        cluster.network.part(pair)
    await asyncio.sleep(fault.seconds)
    for pair in pairs:
        cluster.network.join(pair)


async def slow_redis(fault, cluster):
    pair = pair_of(fault.who, "redis")
    cluster.network.slow[pair] = fault.amount
    await asyncio.sleep(fault.seconds)
    cluster.network.slow.pop(pair, None)


async def cut_sockets(fault, cluster):
    """Each end learns of it at another time, or not at all."""
    network = cluster.network
    for connection in list(network.connections):
        if "redis" not in connection.pair and fault.who in connection.pair:
            connection.reset(0, connection.chance.random())
            if fault.amount < 0.8:
                connection.reset(1, connection.chance.random() * 3)


async def cut_from_redis(fault, cluster):
    network = cluster.network
    for connection in list(network.connections):
        if connection.pair == pair_of(fault.who, "redis"):
            connection.reset(0, connection.chance.random() / 10)
            connection.reset(1, connection.chance.random() / 10)


async def pause_redis(fault, cluster):
    machine = cluster.redis.machine
    machine.pause()
    await asyncio.sleep(fault.seconds)
    machine.go_on()


async def restart_redis(fault, cluster):
    """Restart it with all that it had."""
    cluster.redis.kill()
    saved = cluster.redis.data.saved()
    await asyncio.sleep(fault.seconds)
    cluster.redis.start(saved)


async def lose_last_second(fault, cluster):
    """Restart it without the last part of what it had."""
    saved = cluster.redis.data.saved()
    await asyncio.sleep(fault.amount)
    cluster.redis.kill()
    await asyncio.sleep(fault.seconds)
    cluster.redis.start(saved)


async def empty_redis(fault, cluster):
    cluster.redis.kill()
    await asyncio.sleep(fault.seconds)
    cluster.redis.start(None)


async def evict(fault, cluster):
    """Drop a key, as a Redis does whose memory is full."""
    data = cluster.redis.data
    keys = sorted([key for key in data.purge() if key.endswith(fault.who.encode())])
    if keys:
        data.drop(keys[int(fault.amount * len(keys))])


async def jump_clock(fault, cluster):
    cluster.redis.jump += fault.amount


FAULTS = {
    "kill": kill_replica,
    "drain": drain_replica,
    "pause": pause_replica,
    "part from redis": part_from_redis,
    "part from clients": part_from_clients,
    "slow redis": slow_redis,
    "cut sockets": cut_sockets,
    "cut from redis": cut_from_redis,
    "pause redis": pause_redis,
    "restart redis": restart_redis,
    "lose last second": lose_last_second,
    "empty redis": empty_redis,
    "evict": evict,
    "jump clock": jump_clock,
}
OF_REDIS = ("pause redis", "restart redis", "lose last second", "empty redis")
LOSING = ("lose last second", "empty redis", "evict", "jump clock")


@dataclass
class Plan:
    """All that a seed decides beforehand; delays and choices of clients follow from it too."""

    seed: int
    replicas: int
    runs: dict
    readers: list
    faults: list
    max_log: int
    continue_seconds: float
    waits_for_expiry: bool

    @property
    def kinds(self):
        return {fault.kind for fault in self.faults}

    @property
    def may_generate_twice(self):
        """Redis has lost a claim, and the replica that has the run could not put it back in time;
        or it has lost it without being started again.
        """
        if self.kinds & {"evict", "jump clock"}:
            return True
        apart = {"kill", "drain", "pause", "part from redis", "slow redis", "cut from redis"}
        losses = [fault for fault in self.faults if fault.kind in LOSING]
        return bool(losses) and bool(self.kinds & apart or len(losses) > 1)

    def codes(self, reader):
        """Return the codes that a reader may fail with."""
        codes = set()
        if self.kinds - {"cut sockets", "part from clients"}:
            codes |= {4503, 4410, 1006, 1012}
        if self.kinds & {"part from clients", "cut sockets"}:
            codes |= {4410, 1006}
        if reader.run.engine_fails:
            codes.add(4503)
        if len([other for other in self.readers if other.run is reader.run]) > 1:
            codes |= {4499, 4410}
        if reader.run.may_be_cancelled or (reader.act == "reload" and self.max_log < 1000):
            codes |= {4410}
        return codes

    def __str__(self):
        lines = [
            f"seed {self.seed}: {self.replicas} replicas, log of {self.max_log} bytes, goes on for {self.continue_seconds} s"
        ]
        lines += [f"  {reader}" for reader in self.readers]
        lines += [f"  {fault}" for fault in sorted(self.faults, key=lambda fault: fault.at)]
        return "\n".join(lines)


def make_plan(seed):
    """Return the plan of a seed."""
    rng = random.Random(f"plan {seed}")
    replicas = rng.choice([2, 2, 3])
    runs, readers = {}, []
    for n in range(rng.choice([1, 1, 2, 3])):
        run = RunPlan(
            str(seed),
            f"run{n}",
            f"{rng.getrandbits(128):032x}",
            tokens=rng.choice([1, 5, 20, 40, 60]),
            chunk=rng.choice([1, 1, 2, 5]),
            pace=rng.choice([0.0, 0.01, 0.1, 0.1, 0.3]),
            want=rng.choice(["ids", "bytes", "both"]),
            engine_fails=(rng.randrange(20),) if rng.random() < 0.1 else (),
        )
        runs[run.name] = run
        readers += [_reader(rng, seed, run, m) for m in range(rng.choice([1, 1, 1, 2]))]
    kinds = rng.sample(sorted(FAULTS), rng.choice([1, 2, 3, 4]))
    faults = [
        _fault(rng, rng.choice(kinds), replicas) for _ in range(rng.choice([0, 1, 2, 3, 4, 6, 8]))
    ]
    return Plan(
        seed,
        replicas,
        runs,
        readers,
        faults,
        max_log=rng.choice([1 << 20, 400]),
        continue_seconds=rng.choice([0.0, 5.0]),
        waits_for_expiry=seed % 4 == 0,
    )


def _reader(rng, seed, run, number):
    reader = ReaderPlan(
        str(seed),
        f"{run.name}.{number}",
        run,
        at=rng.random() * 2 + number,
        attaches=number > 0,
        ack_every=rng.choice([1, 4, 64]),
    )
    if rng.random() < 0.4:
        reader.act = rng.choice(["cancel", "cut", "cut", "leave", "reload"])
        reader.acts_at = rng.randrange(40)
        reader.keeps = rng.random() < 0.5
        run.may_be_cancelled |= reader.act in ("cancel", "leave")
    return reader


def _fault(rng, kind, replicas):
    who = "redis" if kind in OF_REDIS else f"r{rng.randrange(replicas)}"
    if kind == "evict":
        who = rng.choice(["run", "log", "asks", "lease"])
    seconds = rng.choice([rng.random(), rng.random() * 6])
    return Fault(
        kind,
        rng.random() * 8,
        seconds,
        who,
        rng.random() if kind != "jump clock" else rng.uniform(-10, 10),
    )
