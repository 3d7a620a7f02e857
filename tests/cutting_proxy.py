"""A TCP proxy that closes or resets a connection after an exact number of bytes."""

import asyncio
import contextlib
import socket
import struct

UP, DOWN = "up", "down"


class CuttingProxy:
    """Forwards connections to `port`.

    Each connection uses the next of `cuts`: (direction, bytes to forward, "close" or "reset"), or
    None for no cut. `lengths` has the bytes forwarded in each direction, one entry per connection.
    """

    def __init__(self, port, cuts=()):
        self.target = port
        self.cuts = list(cuts)
        self.lengths = []
        self.port = 0
        self._server = None
        self._tasks = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        cut = self.cuts.pop(0) if self.cuts else None
        passed = {UP: 0, DOWN: 0}
        self.lengths.append(passed)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        ways = [
            asyncio.create_task(self._forward(reader, far_writer, UP, passed, cut)),
            asyncio.create_task(self._forward(far_reader, writer, DOWN, passed, cut)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if not (cut and passed[cut[0]] >= cut[1]):
                # One side closed the connection: forward what the other still sends, such as the
                # echo of a close frame.
                await asyncio.wait(ways, timeout=0.2)
        except asyncio.CancelledError:
            pass  # the test is over; asyncio would report a handler that was cancelled
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, far_writer):
                if cut and cut[2] == "reset" and passed[cut[0]] >= cut[1]:
                    # With SO_LINGER 0 a close becomes a reset, and the other side discards unread
                    # data too.
                    with contextlib.suppress(OSError):
                        end.get_extra_info("socket").setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                        )
                    end.transport.abort()
                else:
                    end.close()
            for end in (writer, far_writer):
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await end.wait_closed()
            self._tasks.discard(task)

    async def _forward(self, reader, writer, way, passed, cut):
        limit = cut[1] if cut and cut[0] == way else None
        if limit == 0:
            return
        while data := await reader.read(65536):
            if limit is not None and passed[way] + len(data) >= limit:
                data = data[: limit - passed[way]]
                writer.write(data)
                passed[way] += len(data)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                return
            passed[way] += len(data)
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
