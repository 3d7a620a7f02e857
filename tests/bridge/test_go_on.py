"""`--continue`: an answer goes on when its engine is back."""

import asyncio
import json
import os
import signal
import sys

import httpx
import pytest
from bridge_rig import running
from engine_replay import Answer, Replay, events
from local_server import free_port
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
MESSAGES = [{"role": "user", "content": "hi"}]
# What a bridge is given: the vocabulary, or how to find it, and how long it waits.
GIVEN = {"vocabulary": WORDS, "continue_seconds": 5}
PATIENT = {"vocabulary": None, "find_vocabulary": find_vocabulary, "continue_seconds": 30}


def bridge_for(server, make, options=GIVEN):
    return running(make(check_address(server.url)), **options)


async def ask(make, answers, *, options=GIVEN, **asked):
    """Ask a bridge in front of a server with these answers; return (conversation, server)."""
    given = {"prompt": "hi", "want": "both", "params": PARAMS, **asked}
    async with Replay(answers) as server, bridge_for(server, make, options) as bridge:
        return await bridge.converse(**given), server


def text_of(heard, vocabulary):
    """Return the bytes that a client shows: those of special tokens are not among them."""
    parts = []
    for event in heard.of((Bytes, Tokens)):
        if isinstance(event, Bytes):
            parts.append(event.data)
        elif event.pieces is not None:
            parts += event.pieces
        else:
            ids = [i for i in event.ids if i not in vocabulary.special_ids]
            parts += map(vocabulary.token_bytes, ids)
    return b"".join(parts)


@pytest.mark.parametrize("want", ["both", "bytes"])
@pytest.mark.parametrize("name", list(CASES))
async def test_the_answer_goes_on_behind_the_ids_of_prompt_and_answer(name, want):
    make, answers, route, prompt, limit = CASES[name]
    heard, server = await ask(make, answers(), want=want)
    second = server.bodies(route)[-1]
    assert second[prompt] == [1, 2, 10, 11]
    assert second.get("sampling_params", second)[limit] == 1
    assert text_of(heard, WORDS) == b"klm"
    if want == "both":
        assert heard.ids == [10, 11, 12]
    assert heard.end.reason == "length"
    assert "was lost after token 2;" in heard.end.note


@pytest.mark.parametrize("name", list(CASES))
async def test_without_the_option_an_engine_that_is_lost_is_an_error(name):
    make, answers, route, _, _ = CASES[name]
    heard, server = await ask(make, answers(), options={"vocabulary": WORDS})
    assert len(server.bodies(route)) == 1
    assert heard.ids == [10, 11]  # what came before is kept
    assert isinstance(heard.end, Failed)
    assert heard.end.code == 4503


async def test_messages_go_on_as_a_prompt_of_ids():
    table = vllm_dies()
    table["POST", "/v1/chat/completions"] = lost(openai_chunk("a", ids=[10, 11], chat=True))
    table["POST", "/v1/completions"] = table["POST", "/v1/completions"][1:]
    heard, server = await ask(VLLM, table, prompt=None, messages=MESSAGES)
    assert "messages" in server.bodies("/tokenize")[-1]
    assert server.bodies("/v1/completions")[0]["prompt"] == [1, 2, 10, 11]
    assert heard.ids == [10, 11, 12]


async def test_the_prompt_is_counted_without_the_answer_that_goes_on():
    table = {**llama_dies(), ("POST", "/apply-template"): Answer({"prompt": "hi"})}
    async with Replay(table) as server, bridge_for(server, LlamaServer) as bridge:
        asked = {"messages": MESSAGES, "max_tokens": 3}
        async with httpx.AsyncClient(base_url=bridge.url, trust_env=False) as http:
            answer = (await http.post("/v1/chat/completions", json=asked)).json()
    assert answer["choices"][0]["message"]["content"] == "klm"
    assert answer["usage"]["prompt_tokens"] == 2


async def test_an_engine_that_comes_back_with_another_vocabulary_does_not_go_on():
    def completions(first):
        entries = [{"id": i, "bytes": [first + i]} for i in range(15)]
        return Answer({"completion_probabilities": [{"top_logprobs": entries}]})

    def changes(body):
        props = {"default_generation_settings": {}, "model_path": "/models/other.gguf"}
        server.answers["GET", "/props"] = [Answer(props)]
        server.answers["POST", "/completion"] = [completions(65)]
        return lost(llama_event(10, b"k", 1))

    table = {**llama_dies(), ("POST", "/completion"): [completions(97), changes]}
    async with Replay(table) as server, bridge_for(server, LlamaServer, PATIENT) as bridge:
        heard = await bridge.converse(prompt="hi", want="bytes")
    assert heard.end.code == 4503
    assert "another model" in heard.end.message


async def test_an_engine_that_stays_away_is_lost_after_the_time_that_was_given():
    table = vllm_dies()
    away = Answer({"error": {"message": "gone", "code": 500}}, status=500)
    table["POST", "/v1/completions"][1] = away
    heard, server = await ask(VLLM, table, options={**GIVEN, "continue_seconds": 0.7})
    assert 2 <= len(server.bodies("/v1/completions")) <= 5
    assert heard.ids == [10, 11]
    assert heard.end.code == 4503


async def test_what_was_refused_is_not_tried_again():
    table = {**vllm_dies(), ("POST", "/v1/completions"): Answer({}, status=422)}
    heard, server = await ask(VLLM, table)
    assert heard.end.code == 4400
    assert len(server.bodies("/v1/completions")) == 1


async def test_an_answer_with_unknown_ids_is_kept_and_says_why_it_cannot_go_on():
    table = {**llama_dies(), ("POST", "/completion"): lost(llama_event(10, b"\xc3\xa9k", 3))}
    heard, _ = await ask(LlamaServer, table)
    assert heard.end.code == 4503
    assert "ids of the answer are not known" in heard.end.message


FULL = Answer({"error": {"type": "exceed_context_size_error"}}, status=400)


async def test_a_prompt_that_is_too_long_is_refused_also_after_a_loss():
    table = {**llama_dies(), ("POST", "/completion"): [Answer({}, status=503), FULL]}
    heard, _ = await ask(LlamaServer, table)
    assert isinstance(heard.end, Failed)
    assert heard.end.code == 4400


async def test_an_answer_that_has_filled_the_context_is_complete():
    table = llama_dies()
    table["POST", "/completion"][1] = FULL
    heard, _ = await ask(LlamaServer, table)
    assert (heard.end.reason, heard.ids) == ("length", [10, 11])


@pytest.mark.parametrize(
    ("last", "reason"),
    [(openai_chunk("", "stop", ids=[12]), "eos"), (openai_chunk("", ids=[12, 13]), "length")],
)
async def test_an_answer_that_was_complete_is_not_asked_for_again(last, reason):
    route = "/v1/completions"
    table = {**vllm_dies(), ("POST", route): lost(openai_chunk("", ids=[10]), last)}
    heard, server = await ask(VLLM, table)
    assert len(server.bodies(route)) == 1
    assert isinstance(heard.end, Finished)
    assert heard.end.reason == reason


# ------------------------------------------------------------------ llama.cpp itself

TEXTS = {text["id"]: text for text in texts()}
# Of each, the longest in its script: one byte, two, three and four bytes a character.
LONGEST = sorted(TEXTS, key=lambda name: len(TEXTS[name]["text"].encode()))[-12:]


class Mortal(ReciteEngine):
    """Its child is killed after each number of chunks in `deaths`, one in each generation. What it
    has sent beyond them is lost too: how much that is depends on how quickly it is read.
    """

    def __init__(self, deaths):
        super().__init__()
        self.deaths = list(deaths)

    async def _watched(self, chunks):
        after = self.deaths.pop(0) if self.deaths else -1
        async for chunk in super()._watched(chunks):
            if after != 0:
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
    asked = {"prompt": text["prompt"], "want": want, "seconds": 60.0}
    async with running(Mortal(deaths), **PATIENT) as bridge:
        heard = await bridge.converse(**asked)
        vocabulary = bridge.bridge.first.vocabulary
    assert isinstance(heard.end, Finished), heard.end
    assert " and after token " in heard.end.note
    assert text_of(heard, vocabulary).decode() == text["text"]


@pytest.mark.full
async def test_a_llama_server_that_is_restarted_on_its_port_goes_on():
    port = free_port()
    program = ["-m", "detok_py.bridge.engines.recite_server", f"--port={port}"]
    program += ["--model", str(FOLDER / "recite.gguf")]

    async def start():
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        child = await asyncio.create_subprocess_exec(
            sys.executable, *program, stdin=pipe, stdout=pipe, stderr=null
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

        asked = {"prompt": text["prompt"], "want": "ids", "params": {"temperature": 0}}
        async with running(engine, **PATIENT) as bridge:
            heard = await bridge.converse(on_event=kill, seconds=60.0, **asked)
            await asyncio.gather(*restarts)
            vocabulary = bridge.bridge.first.vocabulary
    finally:
        for child in children:
            child.stdin.close()
            await child.wait()
    assert text_of(heard, vocabulary).decode() == text["text"]
    assert "was lost after" in heard.end.note
