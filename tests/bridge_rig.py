"""A bridge on a free port and a client session for it, for tests."""

import asyncio
import contextlib
import json
import time
from types import SimpleNamespace

import httpx
import uvicorn.server
import websockets
from websockets.asyncio.client import connect

from detok_py.bridge.assets import Assets
from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.engines.scripted import ScriptedEngine
from detok_py.bridge.gate import Gate
from detok_py.bridge.server import Server, application, bind, names_of
from detok_py.bridge.stream import Bridge
from detok_py.decode.vocabulary import Vocabulary
from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Bytes, Failed, Finished, Gap, Tokens

# Every byte is a token, so any text can be encoded; a few longer tokens end inside a character.
VOCABULARY = Vocabulary.from_bytes(
    [bytes([b]) for b in range(256)] + [b"caf\xc3", b" \xf0\x9f", b"the ", b"<eos>"], [259], [259]
)
# uvicorn looks every 0.1 s whether it is to stop, and whether its connections have ended.
uvicorn.server.asyncio = SimpleNamespace(
    **{**vars(asyncio), "sleep": lambda seconds: asyncio.sleep(seconds / 20)}
)
TEXT = "the café 日本 🌦️ the end"


class Running:
    """A running bridge. `url` is its HTTP address, `stream` the address of its WebSocket."""

    def __init__(self, bridge, server, port):
        self.bridge, self.server, self.port = bridge, server, port
        self.host = f"127.0.0.1:{port}"
        self.url = f"http://{self.host}"
        self.stream = f"ws://{self.host}/stream"

    async def get(self, path, **headers):
        """Return the answer to a request."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=60) as http:
            return await http.get(path, headers=headers)

    async def converse(self, session=None, *, query="", **options):
        """Run a generation to its end with a client session; see `converse` below."""
        return await converse(self.stream + query, self.url, session, **options)


@contextlib.asynccontextmanager
async def running(
    engine=None,
    *,
    vocabulary=VOCABULARY,
    find_vocabulary=None,
    encode=None,
    others=(),
    gate=None,
    assets=None,
    **settings,
):
    """Serve on a free port of 127.0.0.1, and stop everything afterwards. `others` are engines
    besides the first.
    """
    first = AttachedEngine(
        "first",
        engine or ScriptedEngine(lambda: vocabulary),
        vocabulary=vocabulary,
        find_vocabulary=find_vocabulary,
        encode=encode,
    )
    bridge = Bridge([first, *others], **settings)
    sock = bind("127.0.0.1", 0)
    port = sock.getsockname()[1]
    options = {"names": names_of("127.0.0.1", port), "metrics": bridge.metrics, **(gate or {})}
    server = Server(bridge, Gate(application(bridge, assets or Assets()), **options), sock)
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.005)
        yield Running(bridge, server, port)
    finally:
        server.stop()
        await asyncio.wait_for(task, 60)


class Conversation:
    """The events that a client received, over one or more WebSockets."""

    def __init__(self):
        self.events = []
        self.sockets = 0

    @property
    def data(self):
        return b"".join(
            self._bytes(event) for event in self.events if isinstance(event, (Bytes, Tokens, Gap))
        )

    def _bytes(self, event):
        if isinstance(event, Tokens):
            return b"".join(
                event.pieces
                if event.pieces is not None
                else [VOCABULARY.token_bytes(i) for i in event.ids]
            )
        return event.data

    @property
    def ids(self):
        return [i for event in self.events if isinstance(event, Tokens) for i in event.ids]

    @property
    def end(self):
        return (
            self.events[-1]
            if self.events and isinstance(self.events[-1], (Finished, Failed))
            else None
        )

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


def socket_to(bridge, **options):
    """Connect a socket to a running bridge. The test reads when it likes: what arrives is queued,
    and the socket never gives up by itself, however busy the machine is.
    """
    return connect(
        options.pop("uri", bridge.stream),
        **{
            "origin": bridge.url,
            "subprotocols": ["detok.v1"],
            "compression": None,
            "proxy": None,
            "open_timeout": 60,
            "ping_interval": None,
            "max_queue": None,
            **options,
        },
    )


async def converse(
    stream,
    origin,
    session=None,
    *,
    on_event=None,
    seconds=30.0,
    wait_factor=1.0,
    via=None,
    **generate,
):
    """Run a generation to its end with a client session, with its reconnects; return the
    Conversation.

    `via` is the port of a proxy to connect through, with the same Host and Origin as without it.
    """
    around = {} if via is None else {"host": "127.0.0.1", "port": via}
    session = session or ClientSession()
    heard = Conversation()
    if generate:
        session.generate(**generate)
    deadline = time.monotonic() + seconds
    while heard.end is None and time.monotonic() < deadline:
        code = 1006
        try:
            async with connect(
                stream,
                origin=origin,
                subprotocols=["detok.v1"],
                compression=None,
                proxy=None,
                open_timeout=60,
                close_timeout=1,
                **around,
            ) as ws:
                heard.sockets += 1
                await _until_the_end(ws, session, heard, deadline, on_event)
        except websockets.ConnectionClosed as closed:
            code = closed.rcvd.code if closed.rcvd is not None else 1006
        except (OSError, websockets.InvalidMessage, EOFError, TimeoutError):
            code = 1006
        except websockets.InvalidStatus as refused:
            raise AssertionError(
                f"refused: {refused.response.status_code} {refused.response.body!r}"
            ) from None
        if heard.end is None:
            wait = session.lost(code, 0.5)
            if wait is None:
                heard.events += session.give_up(code, "The connection to the bridge was lost.")
                break
            await asyncio.sleep(wait * wait_factor)
    return heard


async def _until_the_end(ws, session, heard, deadline, on_event):
    """Move frames between a socket and a session until the run ends or the session closes it."""
    session.opened()
    while heard.end is None:
        for frame in session.frames():
            await ws.send(frame)
        if session.closing:
            await ws.close(*session.closing)
            return
        seconds = max(0.1, deadline - time.monotonic())
        for event in session.receive(await asyncio.wait_for(ws.recv(), seconds)):
            heard.events.append(event)
            if on_event is not None:
                await on_event(event, ws, session)
    for frame in session.frames():
        await ws.send(frame)
    await ws.close(1000)


def message(frame):
    """Return the event of a text frame as a dict."""
    return json.loads(frame)
