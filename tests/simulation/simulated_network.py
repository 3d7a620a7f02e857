"""Connections between machines, as TCP makes them: in order, after a delay, cut at any time.

In: what a machine sends. Out: the same at the other machine, later. While two machines are parted,
what they send waits, as TCP sends it again; a connection that is reset ends at both, and each
learns of it in its own time.
"""

import asyncio
import collections
import random


class Network:
    """Delays, and who cannot reach whom. `slow` has the seconds that a pair needs in addition."""

    def __init__(self, loop, seed):
        self.loop = loop
        self.random = random.Random(f"{seed} network")
        self.parted = set()
        self.slow = {}
        self.listeners = {}
        self.connections = {}
        loop.connect = self.open_stream

    def delay(self, pair, chance):
        """Return the seconds that something takes on its way; `chance` is a source of them."""
        seconds = chance.expovariate(1000)
        if chance.random() < 0.01:
            seconds += chance.random() / 5
        return seconds + self.slow.get(pair, 0.0)

    def part(self, pair):
        self.parted.add(pair)

    def join(self, pair):
        self.parted.discard(pair)
        for connection in list(self.connections):
            if connection.pair == pair:
                for way in connection.ways:
                    way.go_on()

    async def dial(self, machine, host, make_end):
        """Connect to the machine that listens as `host`; return the near end."""
        pair = pair_of(machine.name, host)
        await asyncio.sleep(self.delay(pair, self.random))
        while pair in self.parted:
            await asyncio.sleep(0.05)
        far, accept = self.listeners[host]
        if accept is None:
            raise ConnectionRefusedError("refused")
        connection = Connection(self, machine, far)
        connection.ends[0] = make_end(connection)
        connection.ends[1] = accept(connection)
        return connection.ends[0]

    async def open_stream(self, machine, host, protocol_factory):
        """Connect as `loop.create_connection` does."""
        protocol = protocol_factory()
        transport = await self.dial(
            machine, host, lambda connection: Stream(connection, 0, protocol)
        )
        protocol.connection_made(transport)
        return transport, protocol

    def kill(self, machine, seconds):
        """End all connections of a machine that has died: the far ends learn of it after `seconds`,
        or never.
        """
        for connection in list(self.connections):
            end = connection.machines.index(machine) if machine in connection.machines else None
            if end is not None and connection.open[end]:
                connection.shut(end)
                if seconds is not None:
                    connection.reset(
                        1 - end, seconds + self.delay(connection.pair, connection.chance)
                    )


def pair_of(one, other):
    """Return what two machines are called together."""
    return tuple(sorted((one, other)))


class Connection:
    """Two ways between two machines. An end has `receive(item)` and `lost(reset)`."""

    def __init__(self, network, near, far):
        self.network = network
        self.pair = pair_of(near.name, far.name)
        self.machines = (near, far)
        self.ends = [None, None]
        self.open = [True, True]
        # Of its own: in which order a bridge uses several of them changes nothing.
        self.chance = random.Random(network.random.random())
        self.ways = (Way(self, 1), Way(self, 0))
        network.connections[self] = None

    def send(self, end, item):
        """Send from one of the two ends to the other one."""
        if self.open[end]:
            self.ways[end].send(item)

    def close(self, end):
        """Close one end; the other one learns of it after what was sent."""
        if self.open[end]:
            self.ways[end].send(None)
            self.shut(end)

    def shut(self, end):
        self.open[end] = False
        if not any(self.open):
            self.network.connections.pop(self, None)

    def reset(self, end, seconds):
        """Reset one end after some time."""
        machine = self.machines[end]
        loop = self.network.loop
        loop.call_later(seconds, self.end, end, True, context=machine.context)

    def end(self, end, reset):
        """Tell one end that the connection is lost."""
        if self.open[end]:
            self.shut(end)
            self.ends[end].lost(reset)


class Way:
    """What goes to one end of a connection."""

    def __init__(self, connection, end):
        self._connection = connection
        self._end = end
        self._last = 0.0
        self.queue = collections.deque()
        self._waits = False

    def send(self, item):
        network = self._connection.network
        self._last = max(
            self._last,
            network.loop.now + network.delay(self._connection.pair, self._connection.chance),
        )
        self.queue.append(item)
        network.loop.call_at(
            self._last, self._arrive, context=self._connection.machines[self._end].context
        )

    def _arrive(self):
        connection = self._connection
        if connection.pair in connection.network.parted:
            self._waits = True
        if self._waits or not self.queue:
            return
        item = self.queue.popleft()
        if not connection.open[self._end]:
            return
        if item is None:
            connection.end(self._end, False)
        else:
            connection.ends[self._end].receive(item)

    def go_on(self):
        """Deliver what has waited while the machines were parted."""
        if not self._waits:
            return
        self._waits = False
        queue, self.queue = self.queue, collections.deque()
        for item in queue:
            self.send(item)


class Stream(asyncio.Transport):
    """An end of a connection as a transport of asyncio."""

    def __init__(self, connection, end, protocol):
        super().__init__()
        self._connection = connection
        self._end = end
        self._protocol = protocol

    def receive(self, item):
        self._protocol.data_received(item)

    def lost(self, reset):
        self._protocol.connection_lost(ConnectionResetError("reset") if reset else None)

    def write(self, data):
        self._connection.send(self._end, bytes(data))

    def writelines(self, parts):
        self.write(b"".join(parts))

    def is_closing(self):
        return not self._connection.open[self._end]

    def get_extra_info(self, name, default=None):
        return default

    def close(self):
        if not self.is_closing():
            self._connection.close(self._end)
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close
