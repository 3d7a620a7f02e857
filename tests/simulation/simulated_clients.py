"""Clients of a simulated bridge: sessions of detok.v1 over sockets that can be lost at any time.

In: what a plan says of a reader. Out: its events, each compared with what was generated.
"""

import asyncio
import random

from simulated_plan import APART, KEEP_SECONDS, KEEPING, OF_SOCKETS

from detok_py.bridge.redis_follower import DEAD
from detok_py.protocol import wire
from detok_py.protocol.client import ACTIVE, ClientSession
from detok_py.protocol.events import Bytes, Failed, Finished, Started, Tokens

# A client asks after these whether its socket lives, and gives it up after twice as many.
QUIET_SECONDS = 3.0
OPEN_SECONDS = 3.0


class ServedSocket:
    """The end of a socket at a replica, as uvicorn gives it to an application of ASGI."""

    def __init__(self, connection):
        self._connection = connection
        self._items = asyncio.Queue()
        self._items.put_nowait({"type": "websocket.connect"})

    async def serve(self, bridge):
        scope = {"type": "websocket", "subprotocols": [wire.SUBPROTOCOL], "query_string": b""}
        await bridge(scope, self._items.get, self._send)
        self._connection.close(1)

    def receive(self, item):
        word, value = item
        self._items.put_nowait(
            {"type": "websocket.receive", "text": value}
            if word == "frame"
            else {"type": "websocket.disconnect", "code": value}
        )

    def lost(self, reset):
        self.receive(("close", 1006))

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
        self._items = asyncio.Queue()
        self.receive = self._items.put_nowait

    def lost(self, reset):
        self.receive(("close", 1006))

    async def next(self, seconds):
        """Return the next ("frame", frame) or ("close", code). Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            return await self._items.get()


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
        self._acts = list(plan.acts)
        self._after = 0
        self._heard_at = 0.0
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
            if code == 1000:
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
        session = self.session
        if not self._acts or session.position < self._acts[0][0] or session.state not in ACTIVE:
            return 0
        _, act = self._acts.pop(0)
        self.cluster.note(self.name, act)
        if act == "cancel":
            session.cancel()
        if act.startswith("reload"):
            self._after = session.position if act == "reload here" else 0
            self.text = []
            self.session = ClientSession(ack_every=self.plan.ack_every)
            self.session.attach(self.plan.run.id, self._after)
        return {"cancel": 0, "leave": 1000, "cut": 1006}.get(act, 1001)

    def _take(self, events):
        for event in events:
            if isinstance(event, (Started, Bytes, Tokens)):
                self._heard_at = self._loop.now
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
        made = generation.text(self.plan.run.want)
        until = len(made) if whole else self._after + len(self.text)
        return made[self._after : until] == self.text

    def _check_end(self, event):
        run = self.plan.run
        if isinstance(event, Failed):
            if not self._explains(event):
                self.cluster.fail("failed with a wrong code:", self.name, event)
        elif event.reason == "eos":
            whole = [one for one in self._generations if self._agrees(one, whole=True)]
            if not any(one.made == run.tokens for one in whole):
                self.cluster.fail("finished with a part of the text:", self.name)
        elif not any(one.cancels for one in (self.plan, *self.cluster.plan.others(self.plan))):
            self.cluster.fail("ended without a reason:", self.name, event)

    def _explains(self, event):
        """Return whether the faults explain that a run has failed with this code."""
        plan, kinds = self.cluster.plan, self.cluster.plan.kinds
        others = plan.others(self.plan)
        generated = bool(self._generations)
        early = not generated and (others or self._reloads)
        silent = self._loop.now - self._heard_at > KEEP_SECONDS - 2
        if event.code == wire.RESUME_EXPIRED:
            small = plan.max_log < 1000 and (others or self._reloads)
            return bool(kinds - KEEPING) or silent or small or early
        if event.code == wire.CANCELLED:
            return bool(others)
        if event.code == wire.ENGINE_DOWN:
            if event.message == DEAD and not generated:
                # After a pause Redis confirms a claim; if it is full then, no renewal is taken.
                return bool(kinds & APART) or {"pause redis", "fill redis"} <= kinds
            return bool(kinds - OF_SOCKETS or self.plan.run.fails_at)
        return event.code in (1006, 1012) and bool(kinds)

    @property
    def _reloads(self):
        return any(act.startswith("reload") for _, act in self.plan.acts)
