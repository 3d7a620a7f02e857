"""A client and a server of detok.v1 without a socket."""

from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Bytes, Gap, Tokens
from detok_py.protocol.runs import Runs
from detok_py.protocol.server import ServerSession

RUN = "0123456789abcdef"
TOKENS = [(3, b"caf\xc3"), (300, b"\xa9 "), (7, b""), (70000, b"\xf0\x9f"), (8, b"\x98\x80!")]


class Link:
    """A server, a client and the frames between them; `cut` loses the frames that are on
    the way.
    """

    def __init__(self, store=None, client=None, hello=None, **generate):
        self.store = store or Runs()
        self.hello = hello or {"engine": {"name": "test"}}
        self.client = client or ClientSession()
        self.events = []
        self.tasks = []
        self.now = 0.0
        if generate:
            self.client.generate(run_id=RUN, **generate)
        self.connect()

    def connect(self):
        self.server = ServerSession(self.store, self.hello)
        self.client.opened()
        self.up = list(self.client.frames())
        self.down = []

    def step(self):
        """Deliver one frame in each direction; return False if there was none."""
        self.up += self.client.frames()
        self.down += self.server.frames()
        moved = bool(self.up or self.down)
        if self.up:
            self.tasks += self.server.receive(self.up.pop(0), self.now)
        if self.down:
            self.events += self.client.receive(self.down.pop(0))
        return moved

    def settle(self):
        while self.step():
            pass
        return self

    def cut(self, code=1006):
        self.server.lost(code, self.now)
        return self.client.lost(code)

    def reconnect(self):
        self.cut()
        self.connect()
        return self.settle()

    def feed(self, tokens=TOKENS, reason="eos"):
        """Give the run its data and its end, and deliver them."""
        feed(self.run, None, tokens, reason)
        return self.settle()

    def finish(self, reason):
        """End the run, and deliver the end."""
        self.run.log.finish(reason)
        return self.settle()

    @property
    def run(self):
        return self.store.by_id.get(RUN)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def data(self):
        """Return the data of all events as a list; check that their positions follow each other."""
        out, at = [], 0
        for event in self.events:
            if isinstance(event, (Bytes, Tokens, Gap)):
                assert event.position == at
            if isinstance(event, Bytes):
                out += list(event.data)
                at += len(event.data)
            elif isinstance(event, Tokens):
                out += list(zip(event.ids, event.pieces or [None] * len(event.ids)))
                at += len(event.ids)
            elif isinstance(event, Gap):
                out.append((event.count, event.data))
                at += event.count
        return out


def read_again(store):
    """Return the link of another client, as a reloaded page has, which reads the run anew."""
    again = Link(store, ClientSession())
    again.client.attach(RUN)
    return again.settle()


def feed(run, data=None, tokens=TOKENS, reason="eos"):
    """Give a run its data, of the kind that was asked for, and its end."""
    data = data or run.request["want"]
    run.log.start(data)
    for i, piece in tokens:
        if data == "bytes":
            run.log.add_bytes(piece)
        elif data == "ids":
            run.log.add_ids([i])
        else:
            run.log.add_tokens([(i, piece)])
    if reason:
        run.log.finish(reason)
