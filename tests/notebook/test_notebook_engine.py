"""`ask`: the answers of a real bridge, also over connections that are cut."""

import pytest
from bridge_rig import VOCABULARY, running
from cutting_proxy import DOWN, UP, CuttingProxy

import detok_py as d
from detok_py.bridge.engines.scripted import ScriptedEngine
from detok_py.bridge.server import names_of
from detok_py.notebook.engine import ask

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
