"""`--continue`: an answer goes on when its engine is back."""

import asyncio
import json
import os
import signal
import socket
import sys

import httpx
import pytest
from bridge_rig import converse, running
from engine_replay import Answer, Replay, events
from test_engine_replay import (
    llama,
    llama_end,
    llama_event,
    openai_chunk,
    sglang,
    sglang_event,
    vllm,
)

from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.agree import SAMPLE
from detok_py.bridge.engines.llama_server import LlamaServer
from detok_py.bridge.engines.recite import FOLDER, ReciteEngine, texts
from detok_py.bridge.engines.sglang import SGLang
from detok_py.bridge.engines.vllm import VLLM
from detok_py.bridge.find import find_vocabulary
from detok_py.decode.vocabulary import Vocabulary
from detok_py.protocol.events import Bytes, Failed, Finished, Tokens

pytestmark = [pytest.mark.native, pytest.mark.slow]

# 15 tokens: the ids of the answers below are 10 to 14.
WORDS = Vocabulary.from_bytes([bytes([97 + i]) for i in range(15)])
TINY = Answer({"data": [{"id": "tiny", "root": "/models/tiny", "meta": {"n_vocab": 15}}]})


def lost(*values, then="lost"):
    return Answer(events(*values).body, kind="text/event-stream", then=then)


def tokenize(body):
    """Two ids for a prompt; none for the sample by which vocabularies are compared."""
    return Answer({"tokens": [] if body.get("prompt", "").startswith(SAMPLE.strip()) else [1, 2]})


def llama_dies():
    def tokenize(body):
        pieces = [{"id": 0, "piece": "a"}]
        return Answer({"tokens": pieces if body.get("with_pieces") else [1, 2]})

    return {
        **llama(),
        ("GET", "/v1/models"): TINY,
        ("POST", "/tokenize"): tokenize,
        ("POST", "/completion"): [
            lost(llama_event(10, b"k", 1), llama_event(11, b"l", 2)),
            events(llama_event(12, b"m", 1), llama_end(1)),
        ],
    }


def vllm_dies():
    error = {"error": {"message": "EngineCore encountered an issue", "code": 500}}
    return {
        **vllm(),
        ("POST", "/tokenize"): tokenize,
        ("POST", "/v1/completions"): [
            lost(openai_chunk("", ids=[10, 11]), error, then="end"),
            events(openai_chunk("", "length", ids=[12]), done=True),
        ],
    }


def sglang_dies():
    return {
        **sglang(),
        ("POST", "/tokenize"): tokenize,
        ("POST", "/generate"): [
            lost(sglang_event([10, 11], 2)),
            events(sglang_event([12], 1, {"type": "length", "length": 1})),
        ],
    }


CASES = {
    "llama-server": (LlamaServer, llama_dies, "/completion", "prompt", "n_predict"),
    "vLLM": (VLLM, vllm_dies, "/v1/completions", "prompt", "max_tokens"),
    "SGLang": (SGLang, sglang_dies, "/generate", "input_ids", "max_new_tokens"),
}
PARAMS = {"max_tokens": 3, "temperature": 0}


def ask(bridge, **options):
    given = {"prompt": "hi", "want": "both", "params": PARAMS, **options}
    return converse(bridge.stream, bridge.url, **given)


@pytest.mark.parametrize("want", ["both", "bytes"])
@pytest.mark.parametrize("name", list(CASES))
async def test_the_answer_goes_on_behind_the_ids_of_prompt_and_answer(name, want):
    make, answers, route, prompt, limit = CASES[name]
    async with Replay(answers()) as server:
        engine = make(check_address(server.url))
        async with running(engine, vocabulary=WORDS, continue_seconds=5) as bridge:
            heard = await ask(bridge, want=want)
        second = server.bodies(route)[-1]
    assert second[prompt] == [1, 2, 10, 11]
    assert second.get("sampling_params", second)[limit] == 1
    data = b"".join(
        event.data if isinstance(event, Bytes) else b"".join(event.pieces)
        for event in heard.of((Bytes, Tokens))
    )
    assert data == b"klm"
    if want == "both":
        assert heard.ids == [10, 11, 12]
    assert heard.end.reason == "length"
    assert "was lost after token 2;" in heard.end.note


@pytest.mark.parametrize("name", list(CASES))
async def test_without_the_option_an_engine_that_is_lost_is_an_error(name):
    make, answers, route, _, _ = CASES[name]
    async with Replay(answers()) as server:
        async with running(make(check_address(server.url)), vocabulary=WORDS) as bridge:
            heard = await ask(bridge)
        assert len(server.bodies(route)) == 1
    assert isinstance(heard.end, Failed)
    assert heard.end.code == 4503


async def test_messages_go_on_as_a_prompt_of_ids():
    table = vllm_dies()
    table["POST", "/v1/chat/completions"] = lost(openai_chunk("a", ids=[10, 11], chat=True))
    table["POST", "/v1/completions"] = table["POST", "/v1/completions"][1:]
    async with Replay(table) as server:
        engine = VLLM(check_address(server.url))
        async with running(engine, vocabulary=WORDS, continue_seconds=5) as bridge:
            heard = await ask(bridge, prompt=None, messages=[{"role": "user", "content": "hi"}])
        assert "messages" in server.bodies("/tokenize")[-1]
        assert server.bodies("/v1/completions")[0]["prompt"] == [1, 2, 10, 11]
    assert heard.ids == [10, 11, 12]


async def test_the_prompt_is_counted_without_the_answer_that_goes_on():
    async with Replay(llama_dies()) as server:
        server.answers["POST", "/apply-template"] = [Answer({"prompt": "hi"})]
        engine = LlamaServer(check_address(server.url))
        async with running(engine, vocabulary=WORDS, continue_seconds=5) as bridge:
            asked = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
            async with httpx.AsyncClient(base_url=bridge.url, trust_env=False) as http:
                answer = (await http.post("/v1/chat/completions", json=asked)).json()
    assert answer["choices"][0]["message"]["content"] == "klm"
    assert answer["usage"]["prompt_tokens"] == 2


async def test_an_engine_that_comes_back_with_another_vocabulary_does_not_go_on():
    async with Replay(llama_dies()) as server:
        entries = [{"id": i, "bytes": [65 + i]} for i in range(15)]
        table = Answer({"completion_probabilities": [{"top_logprobs": entries}]})
        same = Answer(
            {
                "completion_probabilities": [
                    {"top_logprobs": [{"id": i, "bytes": [97 + i]} for i in range(15)]}
                ]
            }
        )
        server.answers["POST", "/completion"].insert(0, same)

        def changes(body):
            server.answers["GET", "/props"] = [
                Answer({"default_generation_settings": {}, "model_path": "/models/other.gguf"})
            ]
            server.answers["POST", "/completion"] = [table]
            return lost(llama_event(10, b"k", 1))

        server.answers["POST", "/completion"][1] = changes
        async with running(
            LlamaServer(check_address(server.url)),
            vocabulary=None,
            find_vocabulary=find_vocabulary,
            continue_seconds=5,
        ) as bridge:
            for want, code in (("bytes", 4503),):
                heard = await ask(bridge, want=want)
                assert heard.end.code == code
                assert "another model" in heard.end.message


async def test_an_engine_that_stays_away_is_lost_after_the_time_that_was_given():
    async with Replay(vllm_dies()) as server:
        away = Answer({"error": {"message": "gone", "code": 500}}, status=500)
        server.answers["POST", "/v1/completions"][1] = away
        engine = VLLM(check_address(server.url))
        async with running(engine, vocabulary=WORDS, continue_seconds=0.7) as bridge:
            heard = await ask(bridge)
        assert 2 <= len(server.bodies("/v1/completions")) <= 5
    assert heard.ids == [10, 11]
    assert heard.end.code == 4503


async def test_what_was_refused_is_not_tried_again():
    async with Replay(vllm_dies()) as server:
        server.answers["POST", "/v1/completions"] = [Answer({}, status=422)]
        engine = VLLM(check_address(server.url))
        async with running(engine, vocabulary=WORDS, continue_seconds=5) as bridge:
            assert (await ask(bridge)).end.code == 4400
        assert len(server.bodies("/v1/completions")) == 1


async def test_an_answer_with_unknown_ids_is_kept_and_says_why_it_cannot_go_on():
    async with Replay(llama_dies()) as server:
        server.answers["POST", "/completion"] = [lost(llama_event(10, b"\xc3\xa9k", 3))]
        engine = LlamaServer(check_address(server.url))
        async with running(engine, vocabulary=WORDS, continue_seconds=5) as bridge:
            heard = await ask(bridge)
    assert heard.end.code == 4503
    assert "ids of the answer are not known" in heard.end.message


async def test_a_prompt_that_is_too_long_is_refused_also_after_a_loss():
    full = Answer({"error": {"type": "exceed_context_size_error"}}, status=400)
    table = llama_dies()
    table["POST", "/completion"] = [Answer({}, status=503), full]
    async with Replay(table) as server:
        engine = LlamaServer(check_address(server.url))
        async with running(engine, vocabulary=WORDS, continue_seconds=5) as bridge:
            heard = await ask(bridge)
    assert isinstance(heard.end, Failed)
    assert heard.end.code == 4400


async def test_an_answer_that_has_filled_the_context_is_complete():
    full = Answer({"error": {"type": "exceed_context_size_error"}}, status=400)
    async with Replay(llama_dies()) as server:
        server.answers["POST", "/completion"][1] = full
        engine = LlamaServer(check_address(server.url))
        async with running(engine, vocabulary=WORDS, continue_seconds=5) as bridge:
            heard = await ask(bridge)
    assert (heard.end.reason, heard.ids) == ("length", [10, 11])


@pytest.mark.parametrize(
    ("last", "reason"),
    [(openai_chunk("", "stop", ids=[12]), "eos"), (openai_chunk("", ids=[12, 13]), "length")],
)
async def test_an_answer_that_was_complete_is_not_asked_for_again(last, reason):
    async with Replay(vllm_dies()) as server:
        server.answers["POST", "/v1/completions"] = [lost(openai_chunk("", ids=[10]), last)]
        engine = VLLM(check_address(server.url))
        async with running(engine, vocabulary=WORDS, continue_seconds=5) as bridge:
            heard = await ask(bridge)
        assert len(server.bodies("/v1/completions")) == 1
    assert isinstance(heard.end, Finished)
    assert heard.end.reason == reason


# ------------------------------------------------------------------ llama.cpp itself

TEXTS = {text["id"]: text for text in texts()}
# Of each, the longest in its script: one byte, two, three and four bytes a character.
LONGEST = sorted(TEXTS, key=lambda name: len(TEXTS[name]["text"].encode()))[-12:]


class Mortal(ReciteEngine):
    """Its child is killed after each number of chunks in `deaths`, one in each generation."""

    def __init__(self, deaths):
        super().__init__()
        self.deaths = list(deaths)

    async def _watched(self, chunks):
        after = self.deaths.pop(0) if self.deaths else -1
        async for chunk in super()._watched(chunks):
            after -= 1
            yield chunk
            if after == 0:
                os.kill(self._child.pid, signal.SIGKILL)


# Each text with one of the forms; `make soak` does the others.
@pytest.mark.sampled(36)
@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param(name, want, marks=() if at % 3 == n else pytest.mark.soak)
        for at, name in enumerate(LONGEST)
        for n, want in enumerate(("both", "bytes", "ids"))
    ],
)
async def test_a_reciting_engine_that_is_killed_twice_gives_the_undisturbed_text(name, want):
    text = TEXTS[name]
    deaths = [3 + LONGEST.index(name), 5 + 2 * LONGEST.index(name)]
    async with running(
        Mortal(deaths), vocabulary=None, find_vocabulary=find_vocabulary, continue_seconds=30
    ) as bridge:
        heard = await converse(
            bridge.stream, bridge.url, prompt=text["prompt"], want=want, seconds=60.0
        )
        vocabulary = bridge.bridge.first.vocabulary
    assert isinstance(heard.end, Finished), heard.end
    assert " and after token " in heard.end.note
    data = b""
    for event in heard.of((Bytes, Tokens)):
        if isinstance(event, Tokens) and event.pieces is None:
            data += b"".join(
                vocabulary.token_bytes(i) for i in event.ids if i not in vocabulary.special_ids
            )
        else:
            data += event.data if isinstance(event, Bytes) else b"".join(event.pieces)
    assert data.decode() == text["text"]


@pytest.mark.full
async def test_a_llama_server_that_is_restarted_on_its_port_goes_on():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    async def start():
        program = ["-m", "detok_py.bridge.engines.recite_server", "--port", str(port)]
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *program,
            "--model",
            str(FOLDER / "recite.gguf"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert json.loads(await child.stdout.readline())["port"] == port
        return child

    children = [await start()]
    restarts = []
    text = TEXTS[LONGEST[-1]]
    try:
        engine = LlamaServer(check_address(f"http://127.0.0.1:{port}"))

        async def kill(event, ws, session):
            if isinstance(event, (Tokens, Bytes)) and event.position == 0:
                children[0].kill()
                restarts.append(asyncio.create_task(restart()))

        async def restart():
            await children[0].wait()
            await asyncio.sleep(0.5)  # the bridge finds no engine there
            children.append(await start())

        async with running(
            engine, vocabulary=None, find_vocabulary=find_vocabulary, continue_seconds=30
        ) as bridge:
            heard = await converse(
                bridge.stream,
                bridge.url,
                on_event=kill,
                prompt=text["prompt"],
                want="ids",
                params={"temperature": 0},
                seconds=60.0,
            )
            await asyncio.gather(*restarts)
            vocabulary = bridge.bridge.first.vocabulary
    finally:
        for child in children:
            child.stdin.close()
            await child.wait()
    ids = [i for i in heard.ids if i not in vocabulary.special_ids]
    assert b"".join(vocabulary.token_bytes(i) for i in ids).decode() == text["text"]
    assert "was lost after" in heard.end.note
