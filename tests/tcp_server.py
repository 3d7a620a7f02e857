"""A TCP server on a port of its own, whose connections end with it."""

import asyncio


class TCPServer:
    """Gives each connection to `serve`, in a task of its own."""

    async def __aenter__(self):
        self.tasks = set()
        self.server = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await asyncio.sleep(0.01)  # what has just been accepted gets its task
        while self.tasks:
            for task in list(self.tasks):
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.server.wait_closed()
        await asyncio.sleep(0)  # transports close in the next round

    async def _begin(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        try:
            await self.serve(reader, writer)
        except asyncio.CancelledError:
            # The test is over, and so is what was not sent. asyncio would report the handler.
            writer.transport.abort()
        finally:
            self.tasks.discard(task)
            writer.close()
