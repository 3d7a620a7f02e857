"""Run a blocking engine in a thread: its start as a coroutine, an answer as an async iterator.

In: a function that returns an iterator of chunks. Out: the same chunks, awaited. The thread pauses
while 64 chunks are waiting. Closing the async iterator stops the thread at its next chunk.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator

from . import Chunk, EngineError

WAITING = 64


async def aside(work: Callable[[], None]) -> None:
    """Run `work` in a thread, and raise what it raises. The end of the process does not wait for
    it, as it would with `asyncio.to_thread`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Exception | None] = loop.create_future()

    def settle(error: Exception | None) -> None:
        if not done.done():
            done.set_result(error)

    def run() -> None:
        failed = None
        try:
            work()
        except Exception as error:
            failed = error
        except BaseException as error:  # a panic of Rust (tokenizers, safetensors) is no Exception
            failed = RuntimeError(type(error).__name__)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, failed)

    threading.Thread(target=run, name="detok-engine", daemon=True).start()
    error = await done
    if error is not None:
        raise error


async def in_thread(
    begin: Callable[[threading.Event], Iterator[Chunk]], name: str
) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of `begin(stop)`. `stop` is set when no more are wanted.

    An exception in the thread is raised here as an EngineError.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Chunk | EngineError | None] = asyncio.Queue()
    room = threading.Semaphore(WAITING)
    stop = threading.Event()

    def put(item: Chunk | EngineError | None) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, item)
        except RuntimeError:
            stop.set()  # the loop is closed

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
            # Its message could repeat the prompt, so only its type is reported.
            put(
                EngineError(
                    f"{name} failed in mid-answer ({type(error).__name__}); what came before is kept.",
                    retry=False,
                )
            )
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
