"""A replica of the bridge in a process of its own, which can be killed: prints its port.

`python tests/store_replica.py REDIS FILE PAUSE LEASE GRACE`: each generation adds its prompt to
FILE. The folders of the tests are on PYTHONPATH.
"""

import asyncio
import os
import signal
import sys

from bridge_rig import VOCABULARY
from test_bridge_resume import CountingEngine

from detok_py.bridge.assets import Assets
from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.gate import Gate
from detok_py.bridge.redis_store import RedisStore
from detok_py.bridge.server import Server, application, bind
from detok_py.bridge.stream import Bridge


class FilingEngine(CountingEngine):
    def __init__(self, file, pause):
        super().__init__(pause=pause)
        self.file = file

    async def generate(self, request):
        os.write(self.file, request.prompt.encode() + b"\n")
        async for chunk in super().generate(request):
            yield chunk


async def main(url, path, pause, lease, grace):
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    store = RedisStore(url, secret="s", lease=float(lease), grace=float(grace))
    engine = FilingEngine(file, float(pause))
    attached = AttachedEngine("filing", engine, vocabulary=VOCABULARY)
    bridge = Bridge([attached], max_clients=256, store=store)
    sock = bind("127.0.0.1", 0)
    server = Server(bridge, Gate(application(bridge, Assets()), ["bridge.test:1"]), sock)
    draining = []
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, lambda: draining.append(asyncio.create_task(server.drain(20)))
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, server.stop)
    serving = asyncio.create_task(server.serve())
    await bridge.open()
    while not server.started:
        await asyncio.sleep(0.01)
    print(sock.getsockname()[1], flush=True)
    await serving


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
