"""`ask`: the answers of a real bridge, also over connections that are cut."""

import hashlib
import json
import sys
from types import SimpleNamespace

import pytest
from bridge_rig import VOCABULARY, running
from cutting_proxy import DOWN, UP, CuttingProxy

import detok_py as d
from detok_py.bridge.engines.scripted import ScriptedEngine
from detok_py.bridge.server import names_of
from detok_py.notebook import engine
from detok_py.notebook.engine import Lost, ask
from detok_py.protocol import events, wire

pytestmark = pytest.mark.native  # sockets

TEXT = "naïve ไทย 👩‍🚀 " * 30


async def read(answer):
    """The tokens of an answer."""
    tokens = d.TokenList(answer.source)
    async for given in answer:
        for each in given:
            tokens.add(each)
    tokens.flush()
    return tokens


async def test_an_answer_has_the_ids_of_its_engine_and_the_vocabulary_of_the_bridge():
    async with running() as bridge:
        answer = await ask(bridge.url, "", text=TEXT, pace=0)
        tokens = await read(answer)
        assert answer.source == VOCABULARY
        assert (tokens.text, answer.reason) == (TEXT, "eos")
        assert all(token.id is not None for token in tokens)


async def test_an_engine_that_gives_only_bytes_has_no_vocabulary():
    async with running(ScriptedEngine(lambda: None), vocabulary=None) as bridge:
        answer = await ask(bridge.url, "", text=TEXT, pace=0)
        assert answer.source is None
        assert (await read(answer)).text == TEXT


@pytest.mark.parametrize("cut", [(DOWN, 1500, "reset"), (UP, 900, "close"), (DOWN, 1600, "close")])
async def test_a_connection_that_is_cut_loses_nothing(cut):
    async with CuttingProxy(0, [cut]) as proxy:
        gate = {"names": names_of("127.0.0.1", proxy.port)}
        async with running(gate=gate) as bridge:
            proxy.target = bridge.port
            answer = await ask(f"http://127.0.0.1:{proxy.port}", "", text=TEXT, pace=0)
            assert (await read(answer)).text == TEXT
        assert len(proxy.lengths) == 3  # one for the vocabulary


async def test_a_bridge_that_refuses_says_so():
    async with running(gate={"token": "s" * 32}) as bridge:
        with pytest.raises(d.ProtocolError, match="token is missing") as refused:
            await ask(bridge.url, "", text=TEXT, pace=0)
        assert refused.value.code == 4401
        answer = await ask(bridge.url, "", token="s" * 32, text=TEXT, pace=0)
        assert (await read(answer)).text == TEXT


async def test_a_bridge_that_is_not_there_is_named():
    async with running() as bridge:
        gone = bridge.url
    with pytest.raises(d.DetokError, match="is not answering; is `detok serve` running there"):
        await ask(gone, "Hello")


class Script:
    """A socket that receives frames out of a list; a function in it makes one of the run's id."""

    def __init__(self, frames):
        self.frames, self.sent, self.closed = list(frames), [], False

    async def send(self, frame):
        self.sent.append(frame)

    async def receive(self):
        frame = self.frames.pop(0)
        return frame(self.run) if callable(frame) else frame

    async def close(self):
        self.closed = True

    @property
    def run(self):
        return next(found["id"] for found in map(json.loads, self.sent) if "id" in found)


def hello(vocabulary):
    named = {"sha256": vocabulary.sha256, "url": "/x"} if vocabulary else None
    return json.dumps({"type": "hello", "protocol": "detok.v1", "engine": {}, "vocabulary": named})


def of_run(kind, **fields):
    return lambda run: json.dumps({"type": kind, "id": run, **fields})


def finished(count, *frames):
    sha256 = hashlib.sha256(b"".join(frame[1:] for frame in frames)).hexdigest()
    return of_run("finished", reason="eos", tokens=count, bytes=count, sha256=sha256)


AB, XY = (d.Vocabulary.from_bytes(tokens) for tokens in ([b"a\xc3", b"b"], [b"x", b"y"]))
ONE = bytes([wire.TOKENS]) + wire.pack_tokens([(0, b"a\xc3")])
TWO = bytes([wire.TOKENS]) + wire.pack_tokens([(1, b"b")])
GAP = bytes([wire.GAP]) + wire.pack_gap(2, b"\xa9c")
RAW = bytes([wire.BYTES]) + "é".encode()
IDS = bytes([wire.IDS]) + wire.pack_ids([0])


@pytest.fixture
def scripted(monkeypatch):
    """Return a function that asks a bridge of scripted sockets, and these sockets."""
    sockets = []

    def script(*frames, served=b""):
        sockets.append(Script(frames))

        async def open_script(url, protocols):
            return sockets[0]

        async def fetched(url, token):
            if isinstance(served, Exception):
                raise served
            return served

        monkeypatch.setattr(engine, "opener", lambda: open_script)
        monkeypatch.setattr(engine, "fetched", fetched)
        return ask("http://a", "Hello"), sockets[0]

    return script


@pytest.mark.parametrize(
    ("vocabulary", "data", "frames", "count", "text"),
    [
        (AB, "both", [ONE, GAP, TWO], 4, "aécb"),  # two tokens without ids
        (AB, "bytes", [RAW], 2, "é"),
        (None, "both", [ONE, GAP], 3, "aéc"),
    ],
)
async def test_what_has_no_id_is_shown_by_its_bytes(
    scripted, vocabulary, data, frames, count, text
):
    started = of_run("started", data=data, position=0)
    frames = [hello(vocabulary), started, *frames, finished(count, *frames)]
    asked, _ = scripted(*frames, served=AB.pack())
    answer = await asked
    assert ((await read(answer)).text, answer.reason) == (text, "eos")


@pytest.mark.parametrize(
    ("frames", "served", "says"),
    [
        ([hello(AB)], XY.pack(), f"announced the vocabulary {AB.sha256[:12]}… and served {XY.sha256[:12]}…"),
        ([hello(AB)], OSError("HTTP Error 404: Not Found"), "could not be fetched from http://a .HTTP Error 404"),
        ([hello(AB)], b"?", "vocabulary"),
        ([hello(None), of_run("started", data="ids", position=0), IDS], b"", "sends ids, and no vocabulary"),
        ([hello(None), of_run("error", code=4503, message="engine down")], b"", "engine down"),
    ],
    ids=["another vocabulary", "no vocabulary", "damaged", "only ids", "an error"],
)  # fmt: skip
async def test_an_answer_that_cannot_begin_closes_its_socket(scripted, frames, served, says):
    asked, socket = scripted(*frames, served=served)
    with pytest.raises(d.DetokError, match=says):
        await asked
    assert socket.closed


async def test_the_rest_of_an_answer_from_a_bridge_with_another_vocabulary_is_refused(scripted):
    started = of_run("started", data="both", position=0)
    asked, _ = scripted(hello(AB), started, ONE, Lost(), hello(XY), served=AB.pack())
    answer = await asked
    with pytest.raises(d.ProtocolError) as refused:
        await read(answer)
    assert refused.value.code == 4409


async def test_a_socket_of_the_browser_frees_what_it_was_given(monkeypatch):
    proxies = []

    class Proxy:
        def __init__(self, call):
            self.call, self.destroyed = call, False
            proxies.append(self)

        def destroy(self):
            self.destroyed = True

    class WebSocket:
        def __init__(self):
            self.listeners, self.opens = {}, True

        def addEventListener(self, name, proxy):
            self.listeners[name] = proxy
            if len(self.listeners) == 3:
                self.emit("open" if self.opens else "close", code=1006, reason="")

        def removeEventListener(self, name, proxy):
            assert self.listeners.pop(name) is proxy
            assert not proxy.destroyed

        def emit(self, name, **fields):
            self.listeners[name].call(SimpleNamespace(**fields))

        def close(self):
            pass

    sockets = [WebSocket() for _ in range(3)]
    made = iter(sockets)
    js = SimpleNamespace(WebSocket=SimpleNamespace(new=lambda url, protocols: next(made)))
    ffi = SimpleNamespace(create_proxy=Proxy, to_js=lambda value: value)
    for name, module in (("js", js), ("pyodide", SimpleNamespace(ffi=ffi)), ("pyodide.ffi", ffi)):
        monkeypatch.setitem(sys.modules, name, module)
    closed = await engine.open_in_browser("ws://a", [])
    await closed.close()
    assert await closed.receive() == Lost(1000)
    lost = await engine.open_in_browser("ws://a", [])
    sockets[1].emit("close", code=1012, reason="restart")
    assert await lost.receive() == Lost(1012, "restart")
    sockets[2].opens = False
    with pytest.raises(ConnectionError):
        await engine.open_in_browser("ws://a", [])
    assert len(proxies) == 9
    assert all(proxy.destroyed for proxy in proxies)


async def test_a_special_token_is_no_text_where_ids_were_lost():
    vocabulary = d.Vocabulary.from_bytes([b"a", b"<eos>"], special_ids=[1], eos_ids=[1])
    answer = engine.Answer("http://127.0.0.1:1", "", {})
    answer.source = vocabulary
    for event in (events.Gap(0, 1, b"b"), events.Tokens(1, [0, 1], [b"a", b"<eos>"])):
        await answer._take(event)
    assert [b"".join(given) for given in answer._ready] == [b"b", b"a"]
