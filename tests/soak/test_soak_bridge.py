"""The bridge under load: after ten million tokens and ten thousand reconnects, memory, sockets and
tasks are as at the start.
"""

import asyncio
import gc
import math
import os

import pytest
from bridge_rig import running, socket_to
from test_bridge_gate import memory
from test_bridge_stream import FakeEngine
from waiting import eventually

from detok_py.bridge.engines import End, Ids
from detok_py.bridge.store import MemoryStore
from detok_py.protocol import wire
from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Finished

pytestmark = [pytest.mark.native, pytest.mark.soak]

TOKENS = int(os.environ.get("DETOK_SOAK_TOKENS", "10000000"))
RECONNECTS = int(os.environ.get("DETOK_SOAK_RECONNECTS", "10000"))


def resident():
    """Return the resident memory of this process in kB."""
    gc.collect()
    return memory()


def open_files():
    return len(os.listdir("/proc/self/fd"))


class Endless(FakeEngine):
    """Sends `count` tokens in chunks of 64, as fast as they are read."""

    def __init__(self, count):
        super().__init__([])
        self.count = count

    async def generate(self, request):
        chunk = Ids(list(range(64)))
        for n in range(self.count // 64):
            yield chunk
            if n % 16 == 15:
                await asyncio.sleep(0)
        yield End("length")


async def receive_all(bridge, count, seen):
    """Receive `count` tokens over one WebSocket."""
    session = ClientSession()
    async with socket_to(bridge) as ws:
        session.opened()
        session.generate(prompt="", want="ids")
        while session.state != "finished":
            for event in session.receive(await ws.recv()):
                if isinstance(event, Finished):
                    assert event.position == count // 64 * 64
            for frame in session.frames():
                await ws.send(frame)
            seen(session.position)
        await ws.close(1000)


async def test_ten_million_tokens_leak_no_memory():
    async with running(Endless(TOKENS)) as bridge:
        marks = []

        def seen(position):
            # The log reaches its limit of 8 MiB in the first quarter and must not grow after it.
            if position >= TOKENS // 10 * (len(marks) + 1):
                marks.append(resident())

        await receive_all(bridge, TOKENS, seen)
        await eventually(lambda: not bridge.bridge.jobs and bridge.bridge.clients == 0)
        [run] = bridge.bridge.store.expire(math.inf)
        assert run.log.size <= 8 << 20
    print(
        f"\n{TOKENS} tokens: resident {marks[2]} kB after three tenths, {marks[-1]} kB at the end"
    )
    assert marks[-1] - marks[2] <= 1024


async def test_ten_thousand_reconnects_leak_no_socket_task_or_memory():
    engine = FakeEngine([Ids([1]), Ids([2]), 3600.0])
    async with running(engine, store=MemoryStore(keep_seconds=1e6)) as bridge:
        session = ClientSession(max_attempts=10**9)
        session.generate(prompt="", want="ids")
        files = tasks = memory = 0
        for n in range(RECONNECTS):
            session.opened()
            ws = await socket_to(bridge)
            heard = 0
            while heard < 2:  # the hello, then `started`
                frame = await ws.recv()
                heard += isinstance(frame, str)
                session.receive(frame)
                for out in session.frames():
                    await ws.send(out)
            ws.transport.abort()
            await ws.wait_closed()
            session.lost(1006)
            if n == RECONNECTS // 10:
                await eventually(lambda: bridge.bridge.clients == 0)
                files, tasks, memory = open_files(), len(asyncio.all_tasks()), resident()
        await eventually(lambda: bridge.bridge.clients == 0)
        after = open_files(), len(asyncio.all_tasks()), resident()
        assert len(bridge.bridge.store.runs.by_id) == 1
        assert engine.closed == 0
    print(
        f"\n{RECONNECTS} reconnects: files {files} → {after[0]}, tasks {tasks} → {after[1]}, resident {memory} → {after[2]} kB"
    )
    assert after[0] <= files
    assert after[1] <= tasks
    assert after[2] - memory <= 1024


async def test_a_thousand_runs_that_are_not_resumed_expire():
    async with running(
        FakeEngine([Ids([1]), 3600.0]), store=MemoryStore(keep_seconds=0.5)
    ) as bridge:
        for _ in range(1000):
            async with socket_to(bridge) as ws:
                await ws.recv()
                await ws.send(wire.message("generate", prompt=""))
                await ws.recv()
                ws.transport.abort()
        await eventually(lambda: not bridge.bridge.store.runs.by_id and not bridge.bridge.jobs)
