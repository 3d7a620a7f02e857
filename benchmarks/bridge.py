"""What the bridge costs: latency from an engine's chunk to the client's socket, CPU a token, memory
a client, beside a bare WebSocket.

    .venv/bin/python -m benchmarks.bridge [--clients 200] [--rate 100] [--seconds 10]

Prints one JSON object a line. The engine says the time in its token ids, on the clock that all
processes of a machine share, and the clients, in a process of their own, compare. `peer` is the
same load through a bare uvicorn WebSocket that sends one frame a token and knows nothing of credit,
resume or sums. Beside each, in the same run, a bare server has four clients: what these wait is the
share of the machine and of the clients' process. Where there is a redis-server, a quarter of the
clients are measured again with their runs in Redis, read at the producer's replica and at another.
Times include whatever else the machine does, so trust the ratios and the CPU times.
"""

import argparse
import asyncio
import base64
import contextlib
import gc
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import uvicorn
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from detok_py.bridge.assets import Assets
from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.engines import IDS, End, Ids, Info
from detok_py.bridge.gate import Gate
from detok_py.bridge.redis_store import RedisStore
from detok_py.bridge.server import Server, application, bind
from detok_py.bridge.stream import Bridge
from detok_py.protocol import wire

from .rows import ROOT, report

CLOCK = 1 << 31
ACK_EVERY = 256  # as `ClientSession` does
NAME = "bridge.test:1"


def now() -> int:
    return time.monotonic_ns() // 1000 % CLOCK


# Clients that wait for the same millisecond wait for one timer: a timer for each token would cost
# the servers' loop 10 to 16 µs, more than they take to send it.
timers: dict[int, asyncio.Future[None]] = {}


async def ticks(rate: float, count: int):
    """The times at which `count` tokens are due, each client with a phase of its own. A server that
    is late wakes late, too, so the time of waking would hide its delay.
    """
    loop = asyncio.get_running_loop()
    begin = loop.time() + int.from_bytes(os.urandom(2), "big") / 65536 / rate
    for n in range(count):
        due = int((begin + n / rate) * 1000)  # ms
        if due / 1000 > loop.time():
            if due not in timers:
                timers[due] = loop.create_future()
                loop.call_at(due / 1000, lambda due=due: timers.pop(due).set_result(None))
            await timers[due]
        yield due * 1000 % CLOCK


class ClockEngine:
    """Says what time it is, `rate` times a second."""

    def __init__(self, rate, count):
        self.rate, self.count = rate, count

    async def open(self):
        pass

    def info(self):
        return Info("clock", IDS, "no model: a clock")

    def gives(self, request):
        return IDS

    async def vocabulary(self):
        return None

    async def refuse_vocabulary(self, vocabulary):
        return None

    async def generate(self, request):
        async for tick in ticks(self.rate, self.count):
            yield Ids([tick])
        yield End("length")

    async def close(self):
        pass


def bare(rate, count):
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept", "subprotocol": "detok.v1"})
        await receive()
        async for tick in ticks(rate, count):
            await send(
                {
                    "type": "websocket.send",
                    "bytes": wire.data_frame(wire.IDS, wire.pack_ids([tick])),
                }
            )
        await send({"type": "websocket.send", "text": '{"type":"finished"}'})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    return app


def serve(which, rate, count, redis=None):
    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    if which == "bridge":
        store = RedisStore(redis, grace=0) if redis else None
        attached = AttachedEngine("clock", ClockEngine(rate, count))
        bridge = Bridge([attached], max_clients=10_000, store=store)
        server = Server(bridge, Gate(application(bridge, Assets()), [NAME]), sock)
        run = server.serve()
    else:
        server = bare_server(bare(rate, count), ws=WSProtocol, ws_per_message_deflate=False)
        run = server.serve(sockets=[sock])
    asyncio.run(until_closed(server, run, port))


def bare_server(app, **options):
    return uvicorn.Server(
        uvicorn.Config(app, http="h11", lifespan="off", log_config=None, **options)
    )


async def until_closed(server, run, port):
    """Serve until the parent closes stdin."""
    task = asyncio.create_task(run)
    while not server.started:
        await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()  # as `detok serve` does
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    if isinstance(server, Server):
        server.stop()
    else:
        server.should_exit = True
    await task


class Client(asyncio.Protocol):
    """A client with as little of its own as can be: the figures are the server's."""

    def __init__(self, latencies, after, ask):
        self.latencies, self.after, self.ask = latencies, after, ask
        self.buffer = bytearray()
        self.open = False
        self.got = self.acked = 0
        self.done = asyncio.get_running_loop().create_future()
        self.started = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            f"GET /stream HTTP/1.1\r\nHost: {NAME}\r\nOrigin: http://{NAME}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: detok.v1\r\n\r\n".encode()
        )

    def connection_lost(self, exc):
        if not self.done.done():
            self.done.set_result(-1)

    def data_received(self, data):
        at = now()
        buffer = self.buffer
        buffer += data
        if not self.open:
            head = buffer.find(b"\r\n\r\n")
            if head < 0:
                return
            del buffer[: head + 4]
            self.open = True
            self.transport.write(masked(self.ask.encode()))
        while len(buffer) >= 2:
            size, start = buffer[1], 2
            if size == 126:
                if len(buffer) < 4:
                    return
                size, start = struct.unpack("!H", buffer[2:4])[0], 4
            if len(buffer) < start + size:
                return
            kind, payload = buffer[0] & 15, bytes(buffer[start : start + size])
            del buffer[: start + size]
            if kind == 2:
                for tick in wire.unpack_ids(payload[1:]):
                    self.got += 1
                    if self.got > self.after:
                        self.latencies.append((at - tick) % CLOCK)
                if self.got - self.acked >= ACK_EVERY:
                    self.acked = self.got
                    self.transport.write(masked(wire.message("ack", n=self.got).encode()))
            elif kind == 1 and b'"started"' in payload:
                self.started.set()
            elif kind == 1 and b'"finished"' in payload:
                self.done.set_result(self.got)
                self.transport.close()


async def one_client(port, latencies, after, other=None):
    """Read a run, from its replica or, if `other` is a port, from another one."""
    run_id = os.urandom(12).hex()
    ask = wire.message("generate", id=run_id, prompt="", want="ids")
    connect = asyncio.get_running_loop().create_connection
    _, client = await connect(lambda: Client(latencies, after, ask), "127.0.0.1", port)
    if other is not None:
        await client.started.wait()
        client.transport.abort()
        ask = wire.message("resume", id=run_id, after=0)
        _, client = await connect(lambda: Client(latencies, after, ask), "127.0.0.1", other)
    return await client.done


def masked(payload):
    head = (
        bytes([0x81, 0x80 | len(payload)])
        if len(payload) < 126
        else bytes([0x81, 0xFE]) + struct.pack("!H", len(payload))
    )
    return head + b"\0\0\0\0" + payload


def usage_of(pid):
    """CPU seconds and resident kilobytes of a process."""
    with open(f"/proc/{pid}/stat") as stat:
        words = stat.read().rpartition(")")[2].split()
    with open(f"/proc/{pid}/status") as status:
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"), resident


def child(script, which, **options):
    """Start a server of a script in a process of its own; return the process and its port."""
    words = [sys.executable, "-m", f"benchmarks.{script}", "--serve", which]
    for name, value in options.items():
        words += [f"--{name}", str(value)] if value is not None else []
    process = subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, int(process.stdout.readline())


def end(processes):
    for process in processes:
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


def measure(which, clients, rate, seconds, redis=None, *, elsewhere=False):
    """Measure a server. Beside it, in the same run, a bare one has four clients: what these wait is
    the machine's share, and that of the clients' own process. With `elsewhere`, every run is
    produced at one replica and read at another.
    """
    count = int(rate * seconds)
    load = {"rate": rate, "count": count}
    servers = [child("bridge", which, redis=redis, **load)]
    servers += [child("bridge", "bridge", redis=redis, **load)] if elsewhere else []
    beside, beside_port = child("bridge", "bare", **load)
    server, port = servers[0]
    other = servers[1][1] if elsewhere else None
    latencies, beside_latencies = [], []
    cpu_before, memory_before = usage_of(server.pid)
    memory = memory_before

    async def main():
        nonlocal memory
        # The first second is connecting and warming up.
        tasks = [
            asyncio.create_task(one_client(port, latencies, int(rate), other))
            for _ in range(clients)
        ]
        tasks += [
            asyncio.create_task(one_client(beside_port, beside_latencies, int(rate)))
            for _ in range(4)
        ]
        await asyncio.sleep(seconds * 0.7)
        memory = usage_of(server.pid)[1]
        got = await asyncio.gather(*tasks)
        assert got == [count] * (clients + 4), "tokens are missing"

    asyncio.run(main())
    cpu = usage_of(server.pid)[0] - cpu_before
    end([*[one for one, _ in servers], beside])
    latencies.sort()
    beside_latencies.sort()
    return {
        DELAY: latencies[len(latencies) // 2] / 1000,
        SLOWEST: latencies[len(latencies) * 99 // 100] / 1000,
        BESIDE: beside_latencies[len(beside_latencies) * 99 // 100] / 1000,
        CPU: cpu / (count * clients) * 1e6,
        MEMORY: (memory - memory_before) / clients,
    }


DELAY = "delay of a token, median"
SLOWEST = "delay of a token, 99th percentile"
BESIDE = "the same for four clients of a bare server meanwhile"
CPU = "the server's CPU time a token"
MEMORY = "the server's memory a client"
UNITS = {DELAY: "ms", SLOWEST: "ms", BESIDE: "ms", CPU: "µs", MEMORY: "kB"}


def tell(case, ours, peer, peer_name):
    for name, unit in UNITS.items():
        report("bridge", f"{case}: {name}", ours[name], unit, peer[name], peer_name)


@contextlib.contextmanager
def redis_server():
    """Run a Redis of its own on a Unix socket, and yield its URL."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["redis-server", "--port", "0", "--unixsocket", f"{folder}/redis.sock"]
        process = subprocess.Popen(
            [*words, "--save", "", "--dir", folder], stdout=subprocess.DEVNULL
        )
        try:
            while not os.path.exists(f"{folder}/redis.sock"):
                time.sleep(0.01)
            yield f"unix://{folder}/redis.sock"
        finally:
            process.terminate()
            process.wait(10)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--serve", choices=["bridge", "bare"])
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--redis")
    args = parser.parse_args()
    if args.seconds < 2:
        parser.error("--seconds is at least 2: the first one is connecting and warming up")
    if args.serve:
        serve(args.serve, args.rate, args.count, args.redis)
        return
    gc.disable()  # the clients' own pauses are not the server's
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], 65536), limit[1]))
    ours = measure("bridge", args.clients, args.rate, args.seconds)
    peer = measure("bare", args.clients, args.rate, args.seconds)
    case = f"{args.clients} clients at {args.rate:g} tokens/s"
    tell(case, ours, peer, "bare uvicorn + wsproto")
    if shutil.which("redis-server"):
        few = max(1, args.clients // 4)
        memory = measure("bridge", few, args.rate, args.seconds)
        with redis_server() as url:
            store = measure("bridge", few, args.rate, args.seconds, url)
            other = measure("bridge", few, args.rate, args.seconds, url, elsewhere=True)
        case = f"{few} clients at {args.rate:g} tokens/s, runs in Redis"
        tell(case, store, memory, "runs in memory")
        tell(f"{case}, read at another replica", other, memory, "runs in memory")


if __name__ == "__main__":
    main()
