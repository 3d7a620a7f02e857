"""A WebSocket that echoes every message, behind the protocols and limits of the bridge: WebSocket
conformance suites talk to it.

`python tools/echo_server.py [PORT]` prints its address and serves on 127.0.0.1 until it is ended.
The results are in docs/bridge-tests.md.
"""

import asyncio
import socket
import sys
from typing import Any

import uvicorn

from detok_py.bridge.server import configure


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        said = "text" if message.get("text") is not None else "bytes"
        await send({"type": "websocket.send", said: message[said]})


def main() -> int:
    sock = socket.create_server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    print(f"ws://127.0.0.1:{sock.getsockname()[1]}/", flush=True)
    asyncio.run(uvicorn.Server(configure(echo)).serve(sockets=[sock]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
