"""A TCP proxy that closes or resets a connection after an exact number of bytes."""

import asyncio
import contextlib
import socket
import struct

from tcp_server import TCPServer

UP, DOWN = "up", "down"


class CuttingProxy(TCPServer):
    """Forwards connections to `port`.

    Each connection uses the next of `cuts`: (direction, bytes to forward, "close" or "reset"), or
    None for no cut. `lengths` has the bytes forwarded in each direction, one entry per connection.
    """

    def __init__(self, port, cuts=()):
        self.target = port
        self.cuts = list(cuts)
        self.lengths = []

    async def serve(self, reader, writer):
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
        finally:
            for way in ways:
                way.cancel()
            try:
                await asyncio.gather(*ways, return_exceptions=True)
            finally:  # also where the proxy ends meanwhile
                for end in (writer, far_writer):
                    self._end(end, cut and cut[2] == "reset" and passed[cut[0]] >= cut[1])
            for end in (writer, far_writer):
                with contextlib.suppress(OSError, asyncio.CancelledError):
                    await end.wait_closed()

    def _end(self, end, resets):
        if not resets:
            end.close()
            return
        # With SO_LINGER 0 a close becomes a reset, and the other side discards unread data too.
        with contextlib.suppress(OSError):
            end.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        end.transport.abort()

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
