"""One peer's share: what a hostile peer can make the bridge keep or compute is bounded, and another
client is served meanwhile.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import random
import time
import tracemalloc

import pytest
from bridge_rig import TEXT, VOCABULARY, running, socket_to
from test_bridge_gate import close_and_wait, close_code, frame, memory, raw_socket
from test_bridge_stream import FakeEngine, scripted, websocket_of
from waiting import eventually

from detok_py.bridge.assets import Assets
from detok_py.bridge.engines import Ids
from detok_py.bridge.serve import return_memory
from detok_py.bridge.server import PIECE
from detok_py.protocol import wire

pytestmark = [pytest.mark.native, pytest.mark.slow]


async def served_meanwhile(bridge):
    """Return the seconds that another client waits for a short text."""
    begin = time.monotonic()
    assert (await scripted(bridge, TEXT)).data == TEXT.encode()
    return time.monotonic() - begin


async def run_named(bridge, name):
    runs = bridge.bridge.store.runs.by_id
    await eventually(lambda: name in runs)
    return runs[name]


async def test_a_flood_of_unknown_messages_that_is_never_read_is_closed():
    async with running() as bridge, raw_socket(bridge) as (reader, writer):
        before = memory()
        flood = frame(1, b'{"type":"' + b"x" * 30 + b'"}') * 1000
        with contextlib.suppress(ConnectionError):
            for _ in range(30):
                writer.write(flood)
                await asyncio.wait_for(writer.drain(), 60)
        assert await served_meanwhile(bridge) < 20
        assert await close_code(reader) in (4429, None)
        assert memory() - before < 20_000


async def test_refused_requests_of_a_mebibyte_are_not_kept():
    async with running() as bridge:
        async with raw_socket(bridge) as (reader, writer):
            gc.collect()
            before = memory()
            text = "x" * 1_000_000
            with contextlib.suppress(ConnectionError):
                for n in range(40):
                    request = wire.message("generate", prompt=text, params={"no": n})
                    writer.write(frame(1, request.encode()))
                    await asyncio.wait_for(writer.drain(), 60)
            assert await close_code(reader) in (4429, None)
        assert all(not run.request for run in bridge.bridge.store.runs.by_id.values())
        gc.collect()
        assert memory() - before < 40_000


@pytest.mark.parametrize(("cut", "size"), [("byte", 250_000), ("token", 20_000)])
async def test_long_scripted_texts_take_little_memory_and_hold_up_nobody(cut, size):
    faults = {"invalid": 0.01}
    params = {"engine": "scripted", "text": "\U0001f30d" * size, "cut": cut, "faults": faults}
    async with running() as bridge, contextlib.AsyncExitStack() as stack:
        runs = bridge.bridge.store.runs.by_id
        gc.collect()
        before = memory()
        names = [f"a-long-text-{n:06}" for n in range(3)]
        for name in names:
            ws = await stack.enter_async_context(socket_to(bridge))
            stack.callback(ws.transport.abort)
            await ws.recv()
            request = {"type": "generate", "id": name, "prompt": "", "params": params}
            await ws.send(json.dumps(request, ensure_ascii=False))
        assert await served_meanwhile(bridge) < 20
        await eventually(lambda: all(name in runs and runs[name].log.position for name in names))
        assert memory() - before < 60_000


class Counting(FakeEngine):
    """Says 20,000 ids, as many bytes each as those of a large vocabulary."""

    async def generate(self, request):
        ids = random.Random(1)
        for n in range(20_000):
            yield Ids([ids.randrange(200_000)])
            if n % 16 == 15:
                await asyncio.sleep(0)
        await asyncio.sleep(3600)


@pytest.mark.full
@pytest.mark.parametrize("cut", [None, "token", "random"])
async def test_a_client_with_20000_tokens_takes_less_than_100_kilobytes(cut):
    """Of an engine's ids, the most that 20,000 can be, and of texts that the bridge cuts itself."""
    until = 88_000 if cut == "random" else 20_000  # bytes, in pieces of one to eight
    text = "".join(random.Random(1).choices("etaoin shrdlu", k=until + 4096))
    params = {"engine": "scripted", "text": text, "cut": cut, "pace": 0}
    request = {"params": params} if cut else {}
    engine = Counting([]) if cut is None else None
    async with running(engine, vocabulary=VOCABULARY if cut else None) as bridge:
        await served_meanwhile(bridge)
        async with raw_socket(bridge) as (reader, writer):
            gc.collect()
            tracemalloc.start()
            asked = wire.message("generate", id="a-client-that-stays", prompt="", **request)
            writer.write(frame(1, asked.encode()))
            del asked, params, request, text
            run = await run_named(bridge, "a-client-that-stays")
            acknowledged = 0
            while run.log.position < until:
                await reader.read(1 << 16)
                if run.log.position >= acknowledged + 512:
                    acknowledged = run.log.shown
                    writer.write(frame(1, wire.message("ack", n=acknowledged).encode()))
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            assert run.log.end is None
            assert taken < 100_000


async def test_a_long_request_is_not_kept_while_its_answer_waits():
    params = {"engine": "scripted", "text": "\U0001f30d" * 80_000, "cut": "byte", "pace": 0}
    asked = {"type": "generate", "id": "a-client-that-waits", "prompt": "", "params": params}
    request = frame(1, json.dumps(asked).encode())  # a mebibyte of escapes
    async with running() as bridge:
        await served_meanwhile(bridge)
        async with raw_socket(bridge) as (_, writer):
            tracemalloc.start()
            writer.write(request)
            run = await run_named(bridge, "a-client-that-waits")
            await eventually(lambda: run.log.position and not run.reader.has_credit)
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            assert taken < 300_000


class Lost:
    """Refers to itself, as a connection does, and has a piece of a file."""

    def __init__(self):
        self.itself, self.piece = self, bytes(PIECE)


async def test_an_idle_bridge_gives_memory_back(monkeypatch):
    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("only glibc keeps it")
    monkeypatch.setattr("detok_py.bridge.serve.RETURN_SECONDS", 0.05)
    async with running() as bridge:
        connections = [Lost() for _ in range(4000)]
        full = memory()
        del connections[:-1]  # the last one is at the end of the heap
        task = asyncio.create_task(return_memory(bridge.bridge))
        await eventually(lambda: full - memory() > 50_000)
        task.cancel()


async def test_downloads_that_are_not_read_take_one_piece_each(tmp_path):
    (tmp_path / "big.bin").write_bytes(bytes(8 << 20))
    assets = Assets(tmp_path, tmp_path)
    async with running(assets=assets) as bridge, contextlib.AsyncExitStack() as stack:

        async def ask():
            reader, writer = await asyncio.open_connection("127.0.0.1", bridge.port, limit=1 << 10)
            stack.push_async_callback(close_and_wait, writer)
            writer.write(f"GET /big.bin HTTP/1.1\r\nHost: {bridge.host}\r\n\r\n".encode())
            await reader.readexactly(12)
            return reader

        readers = [await ask()]
        gc.collect()
        before = memory()
        readers += [await ask() for _ in range(30)]
        assert await served_meanwhile(bridge) < 20
        assert memory() - before < 30_000
        connections = bridge.server._uvicorn.server_state.connections
        assert max(one.transport.get_write_buffer_size() for one in connections) <= PIECE
        # What is read arrives whole.
        await readers[0].readuntil(b"\r\n\r\n")
        assert await readers[0].readexactly(8 << 20) == bytes(8 << 20)


async def test_a_socket_that_reads_nothing_is_aborted(monkeypatch):
    monkeypatch.setattr("detok_py.bridge.protocols.STALL_SECONDS", 0.2)
    steps = [Ids([n % 256]) for n in range(1000)]
    async with running(FakeEngine([*steps, 3600.0])) as bridge, raw_socket(bridge):
        # As if the kernel took nothing more.
        websocket_of(bridge).pause_writing()
        await eventually(lambda: bridge.bridge.clients == 0)
