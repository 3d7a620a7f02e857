"""The chaos proxy: between a chat UI and its engine, it cuts streams at unusual places and changes
nothing else. It numbers a stream in a header, for reads.js.

In: HTTP/1.1 from a browser, as its HTTP proxy, or from a UI, as its engine's address. Out: the same
answers in other pieces, and their text: `sent_text`.

Only streams are cut: server-sent events, lines of JSON, WebSocket messages, and what a script
fetches without a known length. HTML, scripts and pictures pass unchanged, and so does TLS in a
CONNECT tunnel.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

from .http import Connection
from .recut import ProxyError
from .traffic import Traffic, origin_of


class ChaosProxy(Traffic):
    """A proxy that cuts streams: a context manager, with a thread of its own, so that sync and
    async tests can use it.

    `url(address)` returns the address of a server through the proxy. `server` is the proxy's own
    address: as a browser's HTTP proxy it needs no change to the page. `sent_text` is the text of
    all streams. `delay` is in seconds, for each cut that asks for a pause (see Recut).

    >>> with ChaosProxy(split="random:7") as chaos:  # doctest: +SKIP
    ...     page.goto(chaos.url("http://127.0.0.1:3000"))
    """

    def __init__(
        self, upstream: str | None = None, *, split: str = "every-byte", delay: float = 0.003, listen: str = "127.0.0.1", port: int = 0,
        only: str | None = None, websocket: str = "fragments",
    ) -> None:  # fmt: skip
        super().__init__(split, delay, only, websocket)
        self._listen, self._port, self._upstream = listen, port, upstream and origin_of(upstream)
        self.used: bool = upstream is not None
        self._servers: dict[str | None, asyncio.Server] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: set[asyncio.Task[None]] = set()

    # --- life -------------------------------------------------------------------------------------
    def __enter__(self) -> "ChaosProxy":
        ready = threading.Event()
        self._loop = asyncio.new_event_loop()

        def run() -> None:
            assert self._loop is not None
            self._loop.call_soon(ready.set)
            self._loop.run_forever()

        self._thread = threading.Thread(target=run, name="chaos proxy", daemon=True)
        self._thread.start()
        ready.wait()
        try:
            self._await(self._open(self._upstream, self._port))
        except OSError as error:
            self.__exit__()
            raise ProxyError(
                f"The proxy cannot listen on {self._listen}:{self._port}: {error.strerror}. Choose another port."
            ) from None
        return self

    def __exit__(self, *exc: object) -> None:
        if self._loop is None or self._thread is None:
            return
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self._loop = None

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _open(self, upstream: str | None, port: int) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            try:
                await Connection(self, upstream, reader, writer).run()
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                pass  # one side closed the connection
            except ProxyError as error:
                self.problems.append(str(error))
            except OSError:
                pass  # the tunnel's host cannot be reached: the browser sees that the tunnel ends
            except asyncio.CancelledError:
                writer.transport.abort()  # the proxy is closing: what was not sent yet is dropped
            finally:
                self._connections.discard(task)
                writer.close()

        self._servers[upstream] = await asyncio.start_server(serve, self._listen, port)

    async def _close(self) -> None:
        # A connection that was just accepted has no task yet, and a transport closes in a later
        # round of the loop. Without these waits, sockets would stay open.
        await asyncio.sleep(0.01)
        for server in self._servers.values():
            server.close()
        for _ in range(5):
            tasks = list(self._connections)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.002)

    # --- addresses ----------------------------------------------------------------------
    def _address(self, upstream: str | None) -> str:
        host, port = self._servers[upstream].sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    @property
    def server(self) -> str:
        """The proxy's own address: a browser's HTTP proxy, or a UI's engine."""
        return self._address(self._upstream)

    def url(self, address: str) -> str:
        """Return the address at which the proxy serves `address`."""
        upstream = origin_of(address)
        self.used = True
        if upstream not in self._servers:
            self._await(self._open(upstream, 0))
        return self._address(upstream) + address[len(upstream) :]
