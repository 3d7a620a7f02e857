"""A Redis of its own, replicas of the bridge in this process, and a balancer in front of them.

Redis is found by DETOK_REDIS or on the PATH (redis-server or valkey-server); as root, Debian's
package is installed from fresh lists. It listens on a Unix socket only, and keeps its data in a
file if it is to be started again with it.
"""

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from bridge_rig import running
from tcp_server import TCPServer
from test_bridge_resume import CountingEngine
from toolchain import SetupFailed, apt_install
from waiting import eventually_sync

from detok_py.bridge.redis_store import RedisStore

NAME = "bridge.test:1"
STREAM = f"ws://{NAME}/stream"
ORIGIN = f"http://{NAME}"


@functools.cache
def program(variable, package, *others):
    """Return a program; skip the test if there is none and none can be had."""
    named = os.environ.get(variable)
    if named:
        return named
    problem = ""
    for attempt in (0, 1):
        for name in (package, *others):
            if found := shutil.which(name):
                return found
        if not attempt:
            try:
                apt_install(package, trouble="")
            except SetupFailed as error:
                problem = " ".join(str(error).split())
    pytest.skip(f"there is no {package}; install one, or set {variable}. {problem}")


def is_open(path):
    """Return whether a server accepts at a socket: it is there a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


class Redis:
    """A server that can be killed and started again, with what it had (`keeps`) or with nothing."""

    def __init__(self, *, keeps=True):
        self.folder = Path(tempfile.mkdtemp(prefix="detok-redis-"))
        self.url = f"unix://{self.folder}/redis.sock"
        self.keeps = keeps
        self.process = None

    def start(self):
        redis = program("DETOK_REDIS", "redis-server", "valkey-server")
        words = [redis, "--port", "0", "--unixsocket", str(self.folder / "redis.sock")]
        words += ["--dir", str(self.folder), "--save", "", "--loglevel", "warning"]
        words += ["--appendonly", "yes", "--appendfsync", "always"] if self.keeps else []
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        path = self.folder / "redis.sock"
        eventually_sync(lambda: is_open(path) or self.process.poll() is not None)
        assert self.process.poll() is None, "redis-server did not start"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        (self.folder / "redis.sock").unlink(missing_ok=True)

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def redis_server(**settings):
    server = Redis(**settings)
    try:
        server.start()
        yield server
    finally:
        server.close()


class Balancer(TCPServer):
    """Forwards each connection to the next of `ports`: no stickiness, no look at what is
    forwarded.
    """

    def __init__(self, ports=()):
        self.ports = list(ports)
        self.next = 0

    async def serve(self, reader, writer):
        far = None
        try:
            for _ in range(len(self.ports)):  # a replica that refuses is passed over
                port = self.ports[self.next % len(self.ports)]
                self.next += 1
                with contextlib.suppress(OSError):
                    far_reader, far = await asyncio.open_connection("127.0.0.1", port)
                    break
            if far is None:
                return
            ways = [
                asyncio.create_task(forward(reader, far)),
                asyncio.create_task(forward(far_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.wait(ways, timeout=0.05)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            writer.transport.abort()
            if far is not None:
                far.transport.abort()


async def forward(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


@contextlib.asynccontextmanager
async def replicas(count, redis, *, pause=0.0, engine=None, max_clients=64, **settings):
    """Serve `count` replicas on one Redis, with one engine that counts what all of them generate,
    behind a balancer.
    """
    engine = engine or CountingEngine(pause=pause)
    options = {"grace": 0, "secret": "s", **settings}
    async with contextlib.AsyncExitStack() as stack:
        bridges = [
            await stack.enter_async_context(
                running(
                    engine,
                    gate={"names": [NAME]},
                    store=RedisStore(redis.url, **options),
                    max_clients=max_clients,
                )
            )
            for _ in range(count)
        ]
        for bridge in bridges:
            await bridge.bridge.open()
        balancer = await stack.enter_async_context(Balancer([b.port for b in bridges]))
        yield bridges, balancer, engine


class Replica:
    """A replica in a process of its own (store_replica.py), which can be killed and
    started again.
    """

    def __init__(self, redis, file, *, pause=0.01, lease=3.0, grace=3.0):
        self.words = [redis.url, str(file), str(pause), str(lease), str(grace)]
        self.process = None
        self.port = 0

    def start(self):
        tests = Path(__file__).resolve().parent
        folders = [tests, tests / "bridge", tests.parent / "tools", tests.parent]
        self.process = subprocess.Popen(
            [sys.executable, str(tests / "store_replica.py"), *self.words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait(self):
        self.port = int(self.process.stdout.readline())

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process.stdout.close()
            self.process = None


@contextlib.contextmanager
def processes(count, redis, file, **settings):
    """Serve replicas in processes of their own."""
    found = [Replica(redis, file, **settings) for _ in range(count)]
    try:
        for replica in found:
            replica.start()
        for replica in found:
            replica.wait()
        yield found
    finally:
        for replica in found:
            replica.kill()
