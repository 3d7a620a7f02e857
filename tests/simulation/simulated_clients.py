"""Clients of a simulated bridge: sessions of detok.v1 over sockets that can be lost at any time.

In: what a plan says of a reader. Out: its events, each compared with what was generated.
"""

import asyncio
import collections
import random

from detok_py.protocol import wire
from detok_py.protocol.client import ACTIVE, ClientSession
from detok_py.protocol.events import Bytes, Failed, Finished, Tokens

QUIET_SECONDS = (
    3.0  # after which a client asks whether its socket lives; after twice as many it gives it up
)
OPEN_SECONDS = 3.0


class ServedSocket:
    """The end of a socket at a replica, as uvicorn gives it to an application of ASGI."""

    def __init__(self, connection):
        self._connection = connection
        self._items = collections.deque([{"type": "websocket.connect"}])
        self._come = asyncio.Event()

    async def serve(self, bridge):
        scope = {"type": "websocket", "subprotocols": [wire.SUBPROTOCOL], "query_string": b""}
        await bridge(scope, self._receive, self._send)
        self._connection.close(1)

    def receive(self, item):
        word, value = item
        self._put(
            {"type": "websocket.receive", "text": value}
            if word == "frame"
            else {"type": "websocket.disconnect", "code": value}
        )

    def lost(self, reset):
        self._put({"type": "websocket.disconnect", "code": 1006})

    def _put(self, message):
        self._items.append(message)
        self._come.set()

    async def _receive(self):
        while not self._items:
            self._come.clear()
            await self._come.wait()
        return self._items.popleft()

    async def _send(self, message):
        kind = message["type"]
        if kind == "websocket.send":
            frame = message.get("text")
            self._connection.send(1, ("frame", message["bytes"] if frame is None else frame))
        elif kind == "websocket.close":
            self._connection.send(1, ("close", message.get("code", 1000)))
            asyncio.get_running_loop().call_later(5.0, self.lost, True)


class ClientSocket:
    """The end of a socket at a client."""

    def __init__(self, connection):
        self.connection = connection
        self._items = collections.deque()
        self._come = asyncio.Event()

    def receive(self, item):
        self._items.append(item)
        self._come.set()

    def lost(self, reset):
        self.receive(("close", 1006))

    async def next(self, seconds):
        """Return the next ("frame", frame) or ("close", code). Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not self._items:
                self._come.clear()
                await self._come.wait()
        return self._items.popleft()


class Reader:
    """Reads one run to its end. `candidates` are the generations that its text may be of."""

    def __init__(self, cluster, plan, machine):
        self.cluster = cluster
        self.plan = plan
        self.name = plan.name
        self.machine = machine
        self.session = ClientSession(ack_every=plan.ack_every)
        self.text = []
        self.end = None
        self._after = 0
        self._random = random.Random(f"{plan.seed} {plan.name}")
        self._loop = cluster.loop

    async def read(self):
        """Read until the run has ended."""
        plan = self.plan
        await asyncio.sleep(plan.at)
        run = plan.run
        if plan.attaches:
            self.session.attach(run.id, 0)
        else:
            self.session.generate(prompt=run.name, want=run.want, run_id=run.id)
        while self.session.state in ACTIVE:
            code = await self._converse()
            if self.session.state not in ACTIVE:
                break
            if plan.leaves and code == 1000:
                return
            self.cluster.note(self.name, "lost", code)
            seconds = self.session.lost(code, self._random.random())
            if seconds is None:
                self._take(self.session.give_up(code, "given up"))
            else:
                await asyncio.sleep(seconds)

    async def _converse(self):
        """Read over one socket; return the code that it was closed with."""
        session, network = self.session, self.cluster.network
        host = self._random.choice(list(self.cluster.replicas))
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                socket = await network.dial(self.machine, host, ClientSocket)
        except (OSError, TimeoutError):
            return 1006
        self.cluster.note(self.name, "opened", host)
        session.opened()
        connection = socket.connection
        quiet = 0
        while True:
            for frame in session.frames():
                connection.send(0, ("frame", frame))
            if session.closing:
                return self._close(connection, session.closing[0])
            if session.state not in ACTIVE:
                return self._close(connection, 1000)
            try:
                word, value = await socket.next(QUIET_SECONDS)
            except TimeoutError:
                quiet += 1
                if quiet == 2:
                    return self._close(connection, 1006)
                session.ping()
                continue
            quiet = 0
            if word == "close":
                self._close(connection, value)
                return value
            self._take(session.receive(value))
            if code := self._act():
                return self._close(connection, code)

    def _close(self, connection, code):
        if code != 1006:
            connection.send(0, ("close", code))
        connection.close(0)
        return code

    def _act(self):
        """Do what the plan says of this position; return a code to close the socket with."""
        plan, session = self.plan, self.session
        if plan.acts_at is None or session.position < plan.acts_at or session.state not in ACTIVE:
            return 0
        plan.acts_at = None
        self.cluster.note(self.name, plan.act)
        if plan.act == "cancel":
            session.cancel()
        elif plan.act == "cut":
            return 1006
        elif plan.act == "leave":
            plan.leaves = True
            return 1000
        elif plan.act == "reload":
            self._after = self._random.randrange(session.position + 1) if plan.keeps else 0
            self.text = []
            self.session = ClientSession(ack_every=plan.ack_every)
            self.session.attach(plan.run.id, self._after)
            return 1001
        return 0

    def _take(self, events):
        for event in events:
            if isinstance(event, (Bytes, Tokens)):
                self.text += event.data if isinstance(event, Bytes) else event.ids
                self._check_text(event)
            elif isinstance(event, (Finished, Failed)):
                self.end = event
                self.cluster.note(self.name, *event)
                self._check_end(event)

    def _check_text(self, event):
        """What a reader has is a part of what one generation has made so far."""
        self.cluster.note(self.name, event.position, len(self.text))
        if not any(self._agrees(generation) for generation in self._generations):
            self.cluster.fail("wrong text:", self.name, self.text)

    @property
    def _generations(self):
        return self.cluster.generations[self.plan.run.name]

    def _agrees(self, generation, *, whole=False):
        made = generation.text(self.plan.run.want, generation.made)
        until = len(made) if whole else self._after + len(self.text)
        return made[self._after : until] == self.text

    def _check_end(self, event):
        plan = self.plan
        if isinstance(event, Finished):
            if event.reason == "eos" and not any(
                self._agrees(generation, whole=True) and generation.made == plan.run.tokens
                for generation in self._generations
            ):
                self.cluster.fail("finished with a part of the text:", self.name)
            elif event.reason != "eos" and not plan.run.may_be_cancelled:
                self.cluster.fail("ended without a reason:", self.name, event)
        elif event.code not in self.cluster.plan.codes(plan):
            self.cluster.fail("failed with a wrong code:", self.name, event)
