"""What one seed does: runs, readers, and the faults with their times."""

import asyncio
import random
from dataclasses import dataclass, replace

from simulated_network import pair_of

KEEP_SECONDS = 15


@dataclass(frozen=True)
class RunPlan:
    """What an engine makes: `tokens` in chunks. The engine is lost once at each of `fails_at`."""

    seed: int
    name: str
    id: str
    tokens: int
    chunk: int
    pace: float
    want: str
    fails_at: tuple = ()

    def __str__(self):
        lost = f", loses its engine at {self.fails_at}" if self.fails_at else ""
        return f"{self.name}: {self.tokens} {self.want} by {self.chunk} each {self.pace} s{lost}"


@dataclass(frozen=True)
class ReaderPlan:
    """Who reads a run, from when on, and what it does at which positions."""

    seed: int
    name: str
    run: RunPlan
    at: float
    attaches: bool
    ack_every: int
    acts: tuple = ()

    @property
    def cancels(self):
        return any(act in ("cancel", "leave") for _, act in self.acts)

    def __str__(self):
        begins = "attaches to" if self.attaches else "asks for"
        acts = "".join([f", at {position} {act}" for position, act in self.acts])
        return f"{self.at:7.3f} {self.name} {begins} {self.run}{acts}"


@dataclass(frozen=True)
class Fault:
    """Something bad at a time, for some seconds. "producer" is the replica that generates then."""

    kind: str
    at: float
    seconds: float
    who: str
    amount: float

    def __str__(self):
        return f"{self.at:7.3f} {self.kind} {self.who} {self.seconds:.3f} s {self.amount:.3f}"

    async def happen(self, cluster):
        await asyncio.sleep(self.at)
        fault = replace(self, who=cluster.producer) if self.who == "producer" else self
        async with cluster.locks[fault.who]:
            cluster.note("fault", fault)
            await FAULTS[self.kind](fault, cluster)
            cluster.note("over", self.kind, fault.who)


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


async def pause(fault, cluster):
    """Let a replica, or Redis, stand still."""
    place = cluster.redis if fault.who == "redis" else cluster.replicas[fault.who]
    machine = place.machine
    machine.pause()
    await asyncio.sleep(fault.seconds)
    machine.go_on()


async def part_from_redis(fault, cluster):
    await part(fault, cluster, ["redis"])


async def part_from_clients(fault, cluster):
    await part(fault, cluster, [plan.name for plan in cluster.plan.readers])


async def part(fault, cluster, others):
    pairs = [pair_of(fault.who, other) for other in others]
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
    """Reset sockets; each end learns of it at another time."""
    network = cluster.network
    for connection in list(network.connections):
        if "redis" not in connection.pair and fault.who in connection.pair:
            connection.reset(0, connection.chance.random())
            # Or the pings of the server find it out.
            seconds = 3 if fault.amount < 0.8 else 20
            connection.reset(1, connection.chance.random() * seconds)


async def cut_from_redis(fault, cluster):
    network = cluster.network
    for connection in list(network.connections):
        if connection.pair == pair_of(fault.who, "redis"):
            connection.reset(0, connection.chance.random() / 10)
            connection.reset(1, connection.chance.random() / 10)


async def restart_redis(fault, cluster):
    """Restart it with all that it had."""
    await restart(fault, cluster, cluster.redis.data.saved())


async def lose_last_second(fault, cluster):
    """Restart it without the last part of what it had."""
    saved = cluster.redis.data.saved()
    await asyncio.sleep(fault.amount)
    await restart(fault, cluster, saved)


async def empty_redis(fault, cluster):
    await restart(fault, cluster, None)


async def restart(fault, cluster, saved):
    cluster.redis.kill()
    await asyncio.sleep(fault.seconds)
    cluster.redis.start(saved)


async def evict(fault, cluster):
    """Drop a key, as a Redis does whose memory is full."""
    data = cluster.redis.data
    keys = sorted([key for key in data.purge() if key.endswith(fault.who.encode())])
    if keys:
        data.drop(keys[int(fault.amount * len(keys))])


async def fill_redis(fault, cluster):
    """Let its memory be full: it refuses to write."""
    cluster.redis.data.is_full = True
    await asyncio.sleep(fault.seconds)
    cluster.redis.data.is_full = False


async def jump_clock(fault, cluster):
    cluster.redis.jump += fault.amount


FAULTS = {
    "kill": kill_replica,
    "drain": drain_replica,
    "pause": pause,
    "part from redis": part_from_redis,
    "part from clients": part_from_clients,
    "slow redis": slow_redis,
    "cut sockets": cut_sockets,
    "cut from redis": cut_from_redis,
    "pause redis": pause,
    "restart redis": restart_redis,
    "lose last second": lose_last_second,
    "empty redis": empty_redis,
    "evict": evict,
    "jump clock": jump_clock,
    "fill redis": fill_redis,
}
OF_REDIS = ("pause redis", "restart redis", "lose last second", "empty redis", "fill redis")
LOSING = {"lose last second", "empty redis", "evict", "jump clock"}
# What takes a replica away from Redis or the world.
APART = {"kill", "drain", "pause", "part from redis", "slow redis", "cut from redis"}
OF_SOCKETS = {"cut sockets", "part from clients"}
# While none of the other faults happens, Redis has all that readers were shown.
KEEPING = {"kill", "drain", *OF_SOCKETS}


@dataclass(frozen=True)
class Plan:
    """All that a seed decides beforehand; delays and choices of clients follow from it too."""

    seed: int
    replicas: int
    runs: dict
    readers: tuple
    faults: tuple
    max_log: int
    continue_seconds: float
    waits_for_expiry: bool

    @property
    def kinds(self):
        return {fault.kind for fault in self.faults}

    @property
    def may_generate_twice(self):
        """Whether Redis loses a claim, and the replica that has the run may not be able to put it
        back in time; or loses it without being started again.
        """
        if self.kinds & {"evict", "jump clock"}:
            return True
        losses = [fault for fault in self.faults if fault.kind in LOSING]
        return bool(losses) and bool(self.kinds & APART or len(losses) > 1)

    def others(self, reader):
        """Return the other readers of a reader's run."""
        return [one for one in self.readers if one.run is reader.run and one is not reader]

    def __str__(self):
        lines = [
            f"seed {self.seed}: {self.replicas} replicas, logs of {self.max_log} bytes, engines wait {self.continue_seconds} s"
        ]
        lines += [f"  {reader}" for reader in self.readers]
        lines += [f"  {fault}" for fault in sorted(self.faults, key=lambda fault: fault.at)]
        return "\n".join(lines)


def make_plan(seed):
    """Return the plan of a seed."""
    rng = random.Random(f"plan {seed}")
    replicas = rng.choice([2, 2, 3])
    runs = [_run(rng, seed, n) for n in range(rng.choice([1, 1, 2, 3]))]
    readers = [_reader(rng, run, n) for run in runs for n in range(rng.choice([1, 1, 1, 2]))]
    # Most of what is hard to survive is a loss together with a producer that is away.
    groups = [sorted(FAULTS), sorted(FAULTS), sorted(LOSING), sorted(APART)]
    kinds = [rng.choice(group) for group in groups[: rng.choice([1, 2, 4, 4])]]
    begin, spread = rng.random() * 3, rng.choice([0.5, 1.0, 2.0, 8.0])
    faults = [
        _fault(rng, rng.choice(kinds), replicas, begin + rng.random() * spread)
        for _ in range(rng.choice([0, 1, 2, 3, 4, 6, 8]))
    ]
    return Plan(
        seed,
        replicas,
        {run.name: run for run in runs},
        tuple(readers),
        tuple(faults),
        max_log=rng.choice([1 << 20, 1 << 20, 400]),
        continue_seconds=rng.choice([0.0, 5.0]),
        waits_for_expiry=seed % 8 == 0,
    )


def _run(rng, seed, number):
    return RunPlan(
        seed,
        f"run{number}",
        f"{rng.getrandbits(128):032x}",
        tokens=rng.choice([1, 20, 60, 80]),
        chunk=rng.choice([1, 1, 2, 5]),
        pace=rng.choice([0.0, 0.02, 0.1, 0.2, 0.3]),
        want=rng.choice(["ids", "bytes", "both"]),
        fails_at=(rng.randrange(20),) if rng.random() < 0.1 else (),
    )


def _reader(rng, run, number):
    acts = [(rng.randrange(80), "cut") for _ in range(rng.choice([0, 0, 1, 2]))]
    acts += [(rng.randrange(4), "cut") for _ in range(rng.choice([0, 1]))]
    if rng.random() < 0.3:
        acts.append((rng.randrange(60), rng.choice(["cancel", "leave", "reload", "reload here"])))
    return ReaderPlan(
        run.seed,
        f"{run.name}.{number}",
        run,
        at=rng.random() * 2 + number,
        attaches=number > 0,
        ack_every=rng.choice([1, 4, 256]),
        acts=tuple(sorted(acts)),
    )


def _fault(rng, kind, replicas, at):
    who = rng.choice(["producer", f"r{rng.randrange(replicas)}"])
    if kind in OF_REDIS:
        who = "redis"
    elif kind == "evict":
        who = rng.choice(["run", "log", "log", "asks", "lease"])
    seconds = rng.choice([rng.random(), rng.random() * 6])
    amount = rng.uniform(-10, 10) if kind == "jump clock" else rng.random()
    return Fault(kind, at, seconds, who, amount)
