"""An engine that blocks, on a thread of its own, behind an async iterator.

In: a function that gives an iterator of chunks. Out: the same chunks, awaited. At most 64 wait; then the thread waits. Closing the
iterator stops the thread at its next chunk.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator

from . import Chunk, EngineError

WAITING = 64


async def in_thread(begin: Callable[[threading.Event], Iterator[Chunk]], name: str) -> AsyncGenerator[Chunk, None]:
    """Yield what `begin(stop)` gives; `stop` is set when nobody wants more. An exception there is an EngineError here."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Chunk | EngineError | None] = asyncio.Queue()
    room = threading.Semaphore(WAITING)
    stop = threading.Event()

    def put(item: Chunk | EngineError | None) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, item)
        except RuntimeError:
            stop.set()  # the loop is gone

    def work() -> None:
        try:
            for chunk in begin(stop):
                while not room.acquire(timeout=0.1):
                    if stop.is_set():
                        return
                if stop.is_set():
                    return
                put(chunk)
        except EngineError as error:
            put(error)
        except Exception as error:
            # The message could repeat a prompt; the kind of error can't.
            put(EngineError(f"{name} failed in mid-answer ({type(error).__name__}); what came before is kept.", retry=False))
        finally:
            put(None)

    thread = threading.Thread(target=work, name="detok-engine", daemon=True)
    thread.start()
    try:
        while True:
            item = await queue.get()
            if item is None:
                return
            if isinstance(item, EngineError):
                raise item
            room.release()
            yield item
    finally:
        stop.set()
