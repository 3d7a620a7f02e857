"""The whole way with a real engine: llama.cpp in a child process, the bridge, a socket, the client
session, the detokenizer.
"""

import asyncio
import importlib.util
import os
import signal

import pytest
from bridge_rig import running
from test_engine_replay import joined, opened

from detok_py.bridge.engines import Request, Sampling
from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.llama_server import LlamaServer
from detok_py.bridge.engines.recite import FOLDER, ReciteEngine, texts
from detok_py.bridge.find import find_vocabulary, recognise
from detok_py.decode.detokenizer import Detokenizer
from detok_py.decode.vocabulary import Vocabulary
from detok_py.protocol.events import Failed, Finished, Gap, Hello, Started, Tokens
from detok_py.tokenizers import load_tokenizer

no_engine = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason="the package xllamacpp is not installed here",
)
pytestmark = [pytest.mark.native, pytest.mark.slow, no_engine]
TEXTS = {text["id"]: text for text in texts()}
# One for each kind of trouble: three-byte scripts, joined emoji, right-to-left, combining marks,
# U+FFFD and U+FEFF of their own.
SAMPLE = sorted(TEXTS)[:: max(1, len(TEXTS) // 12)]


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(FOLDER)


def reciting(engine=None):
    """Run a bridge with the reciting model."""
    return running(engine or ReciteEngine(), vocabulary=None, find_vocabulary=find_vocabulary)


def recite(want, prompt, bridge, **params):
    return bridge.converse(prompt=prompt, want=want, params=params)


@pytest.mark.full
async def test_every_text_arrives_complete_as_bytes_and_as_ids(tokenizer):
    unknown = total = 0
    async with reciting() as bridge:
        for text in TEXTS.values():
            heard = await recite("both", text["prompt"], bridge)
            assert isinstance(heard.end, Finished), (text["id"], heard.end)
            assert heard.end.reason == "eos"
            assert heard.data.decode("utf-8") == text["text"], text["id"]
            unknown += sum(event.count for event in heard.of(Gap))
            total += heard.end.position
            if not heard.of(Gap):
                # The ids alone give the same text again, push by push.
                d = Detokenizer(tokenizer.vocabulary)
                assert d.feed(heard.ids) + d.flush() == text["text"]
    assert total > 1000
    assert unknown / total < 0.05


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", SAMPLE)
async def test_recovered_ids_are_the_ids_of_step_mode(name):
    """Step mode gives every id exactly. The ids that are recovered from bytes must agree wherever
    they are known.
    """
    prompt = TEXTS[name]["prompt"]
    async with reciting() as bridge:
        exact = await recite("ids", prompt, bridge)
        recovered = await recite("both", prompt, bridge)
    assert exact.of(Started)[0].data == "ids"
    ids = []
    for event in recovered.events:
        if isinstance(event, Tokens):
            ids += event.ids
        elif isinstance(event, Gap):
            ids += [None] * event.count
    assert len(ids) == len(exact.ids)
    assert [i for i, found in zip(exact.ids, ids) if found is not None] == [
        found for found in ids if found is not None
    ]


async def test_hello_has_the_device_from_the_log_and_the_vocabulary_of_the_model(tokenizer):
    async with reciting() as bridge:
        hello = (await recite("bytes", "x", bridge, max_tokens=1)).of(Hello)[0]
    assert hello.engine["line"].startswith("llama.cpp · ")
    assert hello.engine["fidelity"] == "bytes"
    assert hello.vocabulary["sha256"] == tokenizer.vocabulary.sha256


async def test_the_engines_own_vocabulary_is_the_tokenizers(tokenizer):
    tokens = [tokenizer.vocabulary.token_bytes(i) for i in range(768)]
    async with opened(ReciteEngine()) as engine:
        vocabulary = await engine.vocabulary()
        assert await engine.refuse_vocabulary(tokenizer.vocabulary) is None
        turned = Vocabulary.from_bytes(tokens[::-1])
        assert await engine.refuse_vocabulary(turned) is not None
    assert [vocabulary.token_bytes(i) for i in range(768)] == tokens
    assert vocabulary.special_ids == tokenizer.vocabulary.special_ids


async def test_messages_go_through_the_engines_own_template():
    text = TEXTS[SAMPLE[0]]
    async with reciting() as bridge:
        messages = [{"role": "user", "content": text["prompt"]}]
        heard = await bridge.converse(messages=messages, want="bytes")
    assert heard.data.decode("utf-8") == text["text"]


async def test_the_end_inside_a_character_says_how_many_tokens_the_engine_dropped():
    japanese = next(text for text in TEXTS.values() if text["lang"] == "ja")
    notes = []
    async with reciting() as bridge:
        for limit in range(1, 12):
            heard = await recite("bytes", japanese["prompt"], bridge, max_tokens=limit)
            assert heard.end.reason == "length"
            assert japanese["text"].encode().startswith(heard.data)
            notes.append(heard.end.note)
    assert any(note and "dropped the last" in note for note in notes)
    assert any(note is None for note in notes)


async def test_an_engine_that_starts_for_the_first_time_says_what_it_will_be():
    engine = ReciteEngine()
    opening = asyncio.create_task(engine.open())
    while not opening.done():
        said = engine.info()
        await asyncio.sleep(0.001)
    await opening
    assert said.name == engine.info().name
    assert said.model == "recite.gguf"
    await engine.close()


async def test_a_prompt_that_is_too_long_is_refused_in_one_sentence():
    async with reciting() as bridge:
        heard = await recite("bytes", "word " * 5000, bridge)
    assert heard.end.code == 4400
    assert "longer than the engine's context" in heard.end.message


async def test_an_engine_that_is_killed_in_mid_answer_is_lost_and_the_next_request_starts_another():
    engine = ReciteEngine()
    text = max(TEXTS.values(), key=lambda text: len(text["text"]))
    async with reciting(engine) as bridge:

        async def kill(event, ws, session):
            if isinstance(event, Started):
                session.paused = True  # so that the engine can't have finished before it is killed
            if isinstance(event, Tokens) and event.position == 0:
                os.kill(engine._child.pid, signal.SIGKILL)
                session.paused = False

        heard = await bridge.converse(
            on_event=kill,
            prompt="A prompt that nobody wrote",
            want="ids",
            params={"temperature": 2, "max_tokens": 900},
        )
        assert isinstance(heard.end, Failed), heard.end
        assert heard.end.code == 4503
        assert heard.of(Tokens)
        again = await recite("bytes", text["prompt"], bridge)
    assert again.data.decode("utf-8") == text["text"]


async def test_a_llama_server_by_its_url_is_the_same_engine_without_a_device(monkeypatch):
    text = TEXTS[SAMPLE[0]]
    async with opened(ReciteEngine()) as child:
        key = child.client._http.headers["authorization"].split()[1]
        address = check_address(child.client.address.base)
        request = Request(text["prompt"], None, Sampling(temperature=0.0), "bytes", {})
        async with opened(LlamaServer(address, key=key)) as engine:
            assert engine.info().line == "llama.cpp server · device not reported"
            chunks = [chunk async for chunk in engine.generate(request)]
        monkeypatch.setenv("DETOK_ENGINE_API_KEY", key)
        assert await recognise(address) == "llama"
    assert joined(chunks) == ([], text["text"].encode(), "eos")
    assert chunks[-1].note is None


async def test_twelve_clients_at_once_each_get_their_own_text():
    names = sorted(TEXTS)[:12]
    async with reciting() as bridge:
        heard = await asyncio.gather(
            *[recite("both", TEXTS[name]["prompt"], bridge) for name in names]
        )
    assert [one.data.decode("utf-8") for one in heard] == [TEXTS[name]["text"] for name in names]
