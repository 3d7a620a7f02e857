"""Every adapter against what its engine says, replayed through a real HTTP server: cut at every
byte, with CRLF, keep-alives, errors, ends.

The exchanges are written from the engines' documented shapes; nothing here was recorded from a
running server of theirs.
"""

import asyncio
import contextlib
import json
import random
import re
import sys
import threading
import time
import types
from contextlib import aclosing
from functools import partial

import pytest
from engine_replay import Answer, Replay, events, ndjson
from waiting import eventually

from detok_py.bridge.engines import End, EngineError, Ids, Prompt, Raw, Request, Sampling
from detok_py.bridge.engines.address import Address, check_address
from detok_py.bridge.engines.http import EngineClient
from detok_py.bridge.engines.lemonade import Lemonade
from detok_py.bridge.engines.llama_cpp import LlamaCpp
from detok_py.bridge.engines.llama_server import LlamaServer
from detok_py.bridge.engines.ollama import Ollama
from detok_py.bridge.engines.openai import OpenAIServer
from detok_py.bridge.engines.sglang import SGLang
from detok_py.bridge.engines.tgi import TGI
from detok_py.bridge.engines.threaded import aside, in_thread
from detok_py.bridge.engines.transformers import Transformers, device_of
from detok_py.bridge.engines.vllm import VLLM
from detok_py.bridge.find import engine_at, open_engine, recognise
from detok_py.bridge.jobs import write
from detok_py.decode.vocabulary import Vocabulary
from detok_py.protocol.log import Log

pytestmark = [pytest.mark.native, pytest.mark.slow]

PROMPT = Request("hi", None, Sampling(max_tokens=20, temperature=0.5, seed=3), "both", {})
CHAT = Request(None, [{"role": "user", "content": "hi"}], Sampling(max_tokens=20), "both", {})
BYTES = Vocabulary.from_bytes([bytes([b]) for b in range(256)])

MODELS = Answer({"data": [{"id": "tiny", "root": "/models/tiny", "meta": {"n_vocab": 4}}]})


def llama_event(i, data, count):
    return {
        "index": 0,
        "content": "�",
        "tokens": [i],
        "stop": False,
        "tokens_predicted": count,
        "completion_probabilities": [
            {"id": i, "token": "?", "bytes": list(data), "prob": 1.0, "top_probs": []}
        ],
    }


def llama_end(count, kind="limit"):
    return {
        "index": 0,
        "content": "",
        "tokens": [],
        "stop": True,
        "stop_type": kind,
        "tokens_predicted": count,
    }


LLAMA = [llama_event(7, b" \xf0\x9f\x8c\xa6", 3), llama_event(8, b"\xc6il", 4)]


def llama(**cut):
    props = {"default_generation_settings": {}, "model_path": "/models/tiny.gguf"}
    props["eos_token"] = "</s>"
    return {
        ("GET", "/props"): Answer(props),
        ("GET", "/v1/models"): MODELS,
        ("POST", "/apply-template"): Answer({"prompt": "<user>hi"}),
        ("POST", "/completion"): events(*LLAMA, llama_end(4), **cut),
    }


def openai_chunk(text=None, reason=None, ids=None, chat=False, **more):
    choice = {"index": 0, "finish_reason": reason}
    choice.update({"delta": {"content": text}} if chat else {"text": text})
    if ids is not None:
        choice["token_ids"] = ids
    return {"id": "cmpl-1", "object": "chunk", "choices": [choice], **more}


def vllm(**cut):
    return {
        ("GET", "/v1/models"): MODELS,
        ("POST", "/v1/completions"): events(
            openai_chunk("", ids=[], prompt_token_ids=[1, 2]),
            openai_chunk("日", ids=[10, 11]),
            openai_chunk("", "length", ids=[12]),
            {"choices": [], "usage": {"total_tokens": 5}},
            done=True,
            **cut,
        ),
        ("POST", "/v1/chat/completions"): events(
            openai_chunk("", ids=[], chat=True, prompt_token_ids=[1, 2]),
            openai_chunk("a", ids=[10, 11], chat=True),
            openai_chunk("", "stop", ids=[12], chat=True),
            done=True,
            **cut,
        ),
        ("POST", "/tokenize"): Answer({"tokens": [1, 2], "count": 2}),
        ("POST", "/inference/v1/generate"): events(
            {"request_id": "r", "choices": [{"index": 0, "token_ids": [10, 11]}]},
            {
                "request_id": "r",
                "choices": [{"index": 0, "token_ids": [12], "finish_reason": "stop"}],
            },
            done=True,
            **cut,
        ),
    }


def sglang_event(ids, total, reason=None):
    return {
        "text": "日",
        "output_ids": ids,
        "meta_info": {"id": "r", "completion_tokens": total, "finish_reason": reason},
    }


def sglang(cumulative=True, **cut):
    second = [10, 11, 12] if cumulative else [12]
    return {
        ("GET", "/get_model_info"): Answer(
            {"model_path": "tiny", "tokenizer_path": "/models/tiny"}
        ),
        ("POST", "/generate"): events(
            sglang_event([10, 11], 2),
            sglang_event(second, 3, {"type": "length", "length": 3}),
            done=True,
            **cut,
        ),
        ("POST", "/v1/chat/completions"): events(
            openai_chunk("é", chat=True), openai_chunk(None, "stop", chat=True), done=True, **cut
        ),
    }


def tgi_event(i, details=None):
    return {
        "index": 1,
        "token": {"id": i, "text": "�", "logprob": -1.0, "special": False},
        "generated_text": None,
        "details": details,
    }


def tgi(**cut):
    return {
        ("GET", "/info"): Answer({"model_id": "tiny"}),
        ("POST", "/generate_stream"): events(
            tgi_event(10),
            tgi_event(11),
            tgi_event(12, {"finish_reason": "length", "generated_tokens": 3}),
            **cut,
        ),
        ("POST", "/v1/chat/completions"): events(
            openai_chunk("é", chat=True), openai_chunk(None, "length", chat=True), done=True, **cut
        ),
    }


def openai(**cut):
    return {
        ("GET", "/v1/models"): MODELS,
        ("POST", "/v1/completions"): events(
            openai_chunk("日本"),
            openai_chunk("é🌦", None),
            openai_chunk("", "stop"),
            done=True,
            **cut,
        ),
        ("POST", "/v1/chat/completions"): events(
            openai_chunk("日本", chat=True),
            openai_chunk("é🌦", chat=True),
            openai_chunk(None, "stop", chat=True),
            done=True,
            **cut,
        ),
    }


def ollama(cut=0, **_):
    return {
        ("GET", "/api/tags"): Answer({"models": [{"name": "tiny:latest"}]}),
        ("POST", "/api/generate"): ndjson(
            {"response": "日本", "done": False},
            {"response": "é🌦", "done": False},
            {"response": "", "done": True, "done_reason": "stop"},
            cut=cut,
        ),
        ("POST", "/api/chat"): ndjson(
            {"message": {"content": "日本é🌦"}, "done": False},
            {"message": {"content": ""}, "done": True, "done_reason": "length"},
            cut=cut,
        ),
    }


TEXT = "日本é🌦".encode()
RAW = [Raw(b" \xf0\x9f\x8c\xa6", 3, 7), Raw(b"\xc6il", 1, 8), End("length", tokens=4)]
VLLM_TOKENS = partial(VLLM, tokens_only=True)
# engine, its answers, request, what comes out (joined, see `joined`)
CASES = {
    "llama-server": (LlamaServer, llama, PROMPT, ([], b" \xf0\x9f\x8c\xa6\xc6il", "length")),
    "llama-server chat": (LlamaServer, llama, CHAT, ([], b" \xf0\x9f\x8c\xa6\xc6il", "length")),
    "vLLM": (VLLM, vllm, PROMPT, ([10, 11, 12], b"", "length")),
    "vLLM chat": (VLLM, vllm, CHAT, ([10, 11, 12], b"", "eos")),
    "vLLM tokens": (VLLM_TOKENS, vllm, PROMPT, ([10, 11, 12], b"", "eos")),
    "vLLM tokens chat": (VLLM_TOKENS, vllm, CHAT, ([10, 11, 12], b"", "eos")),
    "SGLang cumulative": (SGLang, sglang, PROMPT, ([10, 11, 12], b"", "length")),
    "SGLang incremental": (SGLang, partial(sglang, False), PROMPT, ([10, 11, 12], b"", "length")),
    "SGLang chat": (SGLang, sglang, CHAT, ([], "é".encode(), "eos")),
    "TGI": (TGI, tgi, PROMPT, ([10, 11, 12], b"", "length")),
    "TGI chat": (TGI, tgi, CHAT, ([], "é".encode(), "length")),
    "OpenAI": (OpenAIServer, openai, PROMPT, ([], TEXT, "eos")),
    "OpenAI chat": (OpenAIServer, openai, CHAT, ([], TEXT, "eos")),
    "Ollama": (Ollama, ollama, PROMPT, ([], TEXT, "eos")),
    "Ollama chat": (Ollama, ollama, CHAT, ([], TEXT, "length")),
}
# What an engine says that its chat template has made of the messages.
PROMPTS = {"llama-server chat": "<user>hi", "vLLM chat": [1, 2], "vLLM tokens chat": [1, 2]}
# Each engine, its answers, and the route that generates.
PLAIN = [
    (LlamaServer, llama, "/completion"),
    (VLLM, vllm, "/v1/completions"),
    (SGLang, sglang, "/generate"),
    (TGI, tgi, "/generate_stream"),
    (OpenAIServer, openai, "/v1/completions"),
    (Ollama, ollama, "/api/generate"),
]
MAKES = [make for make, _, _ in PLAIN]
each_engine = pytest.mark.parametrize(("make", "answers", "path"), PLAIN)


@contextlib.asynccontextmanager
async def opened(engine):
    """Yield an engine that is open, and close it afterwards."""
    try:
        await engine.open()
        yield engine
    finally:
        await engine.close()


async def run(engine, request):
    """Return everything that an engine gives."""
    async with opened(engine):
        return [chunk async for chunk in engine.generate(request)]


@contextlib.asynccontextmanager
async def served(make, table):
    """Yield an engine that is open, and its server, which answers with `table`."""
    async with Replay(table) as server, opened(make(check_address(server.url))) as engine:
        yield engine, server


async def chunks_of(make, table, request=PROMPT):
    """Return everything that an engine gives if its server answers with `table`."""
    async with served(make, table) as (engine, _):
        return [chunk async for chunk in engine.generate(request)]


def joined(chunks):
    ids = [i for chunk in chunks if isinstance(chunk, Ids) for i in chunk.ids]
    data = b"".join(chunk.data for chunk in chunks if isinstance(chunk, Raw))
    assert isinstance(chunks[-1], End)
    return ids, data, chunks[-1].reason


@pytest.mark.parametrize("name", list(CASES))
async def test_an_exchange_gives_what_the_engine_said(name):
    make, answers, request, expected = CASES[name]
    chunks = await chunks_of(make, answers(), request)
    assert joined(chunks) == expected
    read = [chunk.read for chunk in chunks if isinstance(chunk, Prompt)]
    assert read == [PROMPTS[name]] if name in PROMPTS else not read


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "how",
    [
        {"cut": 1},
        {"cut": 2},
        {"cut": 7},
        {"end": "\r\n"},
        {"end": "\r\n", "cut": 1},
        {"end": "\r", "cut": 3},
        {"comments": True, "cut": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", list(CASES))
async def test_where_reads_are_cut_and_how_lines_end_changes_nothing(name, how):
    make, answers, request, expected = CASES[name]
    assert joined(await chunks_of(make, answers(**how), request)) == expected


@each_engine
async def test_only_the_given_parameters_reach_the_engine(make, answers, path):
    async with Replay(answers()) as server:
        await run(make(check_address(server.url)), PROMPT)
        body = server.bodies(path)[0]
        headers = server.requests[-1][2]
    flat = json.dumps(body)
    assert '"hi"' in flat
    assert "20" in flat
    assert "0.5" in flat
    assert ('"sampling_seed": 3' if make is SGLang else '"seed": 3') in flat
    assert (
        "stop" not in body
    )  # an engine that holds text back for a stop string holds bytes back too
    assert "top_p" not in flat
    assert "authorization" not in headers
    assert headers["accept-encoding"] == "identity"


async def test_tgi_gets_the_seed_0_and_no_top_p_of_1():
    sampling = Sampling(max_tokens=5, temperature=0.7, seed=0, top_p=1.0)
    async with Replay(tgi()) as server:
        for asked in (PROMPT, CHAT):
            await run(TGI(check_address(server.url)), asked._replace(sampling=sampling))
        [ids] = server.bodies("/generate_stream")
        [chat] = server.bodies("/v1/chat/completions")
    assert ids["parameters"]["seed"] == chat["seed"] == 0
    assert "top_p" not in {**ids["parameters"], **chat}


def first_half(answer, then):
    """Return an answer with the first half of the events; `then` is what follows."""
    found = re.findall(rb"(?:data: )?{.*\n+", answer.body)
    return Answer(b"".join(found[: len(found) // 2]), kind=answer.kind, then=then)


@pytest.mark.parametrize("then", ["lost", "end"])
@each_engine
async def test_a_stream_that_breaks_off_is_not_finished_and_keeps_what_came_before(
    make, answers, path, then
):
    table, whole, got = answers(), await chunks_of(make, answers()), []
    table["POST", path] = first_half(table["POST", path], then)
    error = None
    async with served(make, table) as (engine, _):
        try:
            async for chunk in engine.generate(PROMPT):
                got.append(chunk)
        except EngineError as caught:
            error = caught
    assert 0 < len(got) < len(whole)
    assert got == whole[: len(got)]
    # Some engines leave an end without an error to the bridge.
    if then == "lost" or error:
        assert "lost in mid-answer" in str(error)
        assert error.code == 4503


async def test_the_last_event_of_a_stream_needs_no_line_end():
    table = llama()
    table["POST", "/completion"].body = table["POST", "/completion"].body.rstrip()
    assert await chunks_of(LlamaServer, table) == RAW


REFUSALS = [
    (
        503,
        {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        4503,
        True,
        "not ready",
    ),
    (429, {"error": "Model is overloaded", "error_type": "overloaded"}, 4429, True, "busy"),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
            }
        },
        4400,
        False,
        "context",
    ),
    (
        400,
        {"message": "This model's maximum context length is 1024 tokens"},
        4400,
        False,
        "context",
    ),
    (400, {"error": "the prompt exceeds the context size"}, 4400, False, "context"),
    (400, {"error": "the prompt exceeds the context window"}, 4400, False, "context"),
    (422, {"error": "Input validation error: canary"}, 4400, False, "refused"),
    (401, {"error": {"message": "Invalid API Key canary"}}, 4503, False, "DETOK_ENGINE_API_KEY"),
    (404, {"error": "File Not Found"}, 4404, False, "no such route"),
    (302, {}, 4503, False, "redirects"),
    (500, {"error": "canary"}, 4503, True, "failed (500)"),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("status", "body", "code", "retry", "word"),
    REFUSALS,
    ids=[str(r[0]) + " " + r[4] for r in REFUSALS],
)
@each_engine
async def test_a_refusal_is_one_sentence_with_the_way_out_and_repeats_nothing(
    make, answers, path, status, body, code, retry, word
):
    refusal = Answer(body, status=status, headers=[("location", "http://127.0.0.1:1/")])
    with pytest.raises(EngineError) as caught:
        await chunks_of(make, {**answers(), ("POST", path): refusal})
    assert (caught.value.code, caught.value.retry) == (code, retry)
    assert word in str(caught.value)
    assert "canary" not in str(caught.value)


@each_engine
async def test_an_error_event_in_a_stream_raises(make, answers, path):
    error = events({"error": {"code": 500, "message": "canary", "type": "server_error"}})
    with pytest.raises(EngineError, match="failed") as caught:
        await chunks_of(make, {**answers(), ("POST", path): error})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("word", ["abort", "error"])
@pytest.mark.parametrize("make", [OpenAIServer, VLLM, SGLang])
async def test_an_answer_that_the_engine_gave_up_is_not_finished(make, word):
    gave_up = events(openai_chunk("hel", ids=[1]), openai_chunk("", word, ids=[]), done=True)
    table = {
        **sglang(),
        ("GET", "/v1/models"): MODELS,
        ("POST", "/v1/completions"): gave_up,
        ("POST", "/generate"): events(sglang_event([1], 1, {"type": word}), done=True),
    }
    with pytest.raises(EngineError, match="aborted the request") as caught:
        await chunks_of(make, table)
    assert (caught.value.code, caught.value.retry) == (4503, True)


@pytest.mark.parametrize("then", ["lost", "hang"])
@pytest.mark.parametrize("make", [OpenAIServer, VLLM])
async def test_an_answer_is_whole_at_its_done_however_the_connection_ends(make, then, monkeypatch):
    monkeypatch.setattr("detok_py.bridge.engines.http.DONE_SECONDS", 0.2)
    whole = events(openai_chunk("a", "stop", ids=[1]), done=True, then=then)
    *_, end = await chunks_of(make, {**openai(), ("POST", "/v1/completions"): whole})
    assert isinstance(end, End)


async def test_a_connection_is_used_again_after_done(monkeypatch):
    monkeypatch.setattr("detok_py.bridge.engines.http.DONE_SECONDS", 60)
    async with served(OpenAIServer, openai()) as (engine, server):
        engine.client._http._transport._pool._keepalive_expiry = 60
        for _ in range(3):
            _ = [chunk async for chunk in engine.generate(PROMPT)]
            await engine.open()
        assert server.connections == 1


@each_engine
async def test_closing_the_stream_closes_the_connection_so_that_the_engine_stops(
    make, answers, path
):
    table = answers()
    table["POST", path] = first_half(table["POST", path], "hang")
    async with served(make, table) as (engine, server):
        async with aclosing(engine.generate(PROMPT)) as chunks:
            await anext(chunks)
        # At once, and not when Python collects a generator that was left open.
        assert engine.client._http._transport._pool.connections == []
        await eventually(lambda: server.closed_early)
    assert server.closed_early == 1


@pytest.mark.parametrize(
    "make",
    [
        *MAKES,
        pytest.param(partial(Ollama, model="tiny"), id="Ollama with a model"),
        pytest.param(partial(OpenAIServer, model="tiny"), id="OpenAIServer with a model"),
    ],
)
async def test_an_engine_that_is_down_says_how_to_start_it(make):
    async with Replay({}) as server:
        address = check_address(server.url)
    with pytest.raises(EngineError, match="No .* answers at http://127.0.0.1") as caught:
        async with opened(make(address)):
            pass
    assert caught.value.retry


@pytest.mark.parametrize("make", MAKES)
async def test_a_server_that_is_not_the_engine_is_refused(make):
    page = Answer(b"<!doctype html>", kind="text/html")
    routes = ["/props", "/v1/models", "/get_model_info", "/info", "/api/tags"]
    with pytest.raises(EngineError, match="not JSON"):
        await chunks_of(make, {("GET", path): page for path in routes})


@pytest.mark.parametrize(
    ("answers", "kind", "fidelity"),
    [
        (llama(), "llama", "bytes"),
        ({("GET", "/version"): Answer({"version": "0.33"}), **vllm()}, "vllm", "ids"),
        (sglang(), "sglang", "ids"),
        (tgi(), "tgi", "ids"),
        ({("GET", "/api/version"): Answer({"version": "0.9"}), **ollama()}, "ollama", "text"),
        ({("GET", "/v1/health"): Answer({"model_loaded": None})}, "lemonade", "bytes"),
        (openai(), "openai", "text"),
        ({}, None, None),
    ],
)
async def test_an_engine_is_recognised_by_the_routes_that_only_it_has(answers, kind, fidelity):
    async with Replay(answers) as server:
        assert await recognise(check_address(server.url)) == kind
        assert not server.bodies("/completion")
    if kind:
        assert engine_at(kind, check_address(server.url)).info().fidelity == fidelity


# ------------------------------------------------------------------ llama-server, in detail


UNSAID = "The llama-server does not say why the answer ended."
DROPPED = "The engine dropped the last 2 tokens: the stream ends inside a character, and llama-server does not send what it holds then."
UNKNOWN = ["none", "moon", None, 7]


@pytest.mark.parametrize(
    ("count", "kind", "reason", "note"),
    [
        (6, "limit", "length", DROPPED),
        (5, "eos", "eos", None),  # the token that ends the text is not a dropped one
        *[(5, kind, "stop", UNSAID) for kind in UNKNOWN],
    ],
)
async def test_the_end_tells_what_llama_server_dropped_and_what_it_does_not_say(
    count, kind, reason, note
):
    table = {**llama(), ("POST", "/completion"): events(*LLAMA, llama_end(count, kind))}
    *chunks, end = await chunks_of(LlamaServer, table)
    assert chunks == RAW[:-1]
    assert end == End(reason, note, tokens=count)


async def test_progress_events_are_not_tokens():
    progress = {
        "index": 0,
        "content": "",
        "tokens": [0],
        "stop": False,
        "prompt_progress": {"total": 9, "processed": 3},
    }
    table = {**llama(), ("POST", "/completion"): events(progress, *LLAMA, llama_end(4))}
    assert await chunks_of(LlamaServer, table) == RAW


async def test_a_llama_server_without_token_bytes_is_an_error():
    event = {"content": "a", "tokens": [1], "stop": False, "tokens_predicted": 1}
    with pytest.raises(EngineError, match="use a newer one"):
        await chunks_of(LlamaServer, {**llama(), ("POST", "/completion"): events(event)})


STEPS = PROMPT._replace(want="ids")


def in_steps(*steps):
    """Return the answers of a llama-server to one request per token: each the ids and why it
    stopped.
    """
    said = [Answer({"tokens": ids, "stop_type": kind}) for ids, kind in steps]
    tokens = Answer({"tokens": [1, 2]})
    return {**llama(), ("POST", "/tokenize"): tokens, ("POST", "/completion"): said}


@pytest.mark.parametrize(
    ("steps", "end"),
    [
        ([([7], "word")], End("stop")),  # a stop string of the server
        *[([([7], kind), ([], kind)], End("stop", UNSAID)) for kind in UNKNOWN],
    ],
)
async def test_step_mode_tells_what_llama_server_does_not_say_about_the_end(steps, end):
    assert await chunks_of(LlamaServer, in_steps(*steps), STEPS) == [Ids([7]), end]


async def test_step_mode_asks_for_one_token_at_a_time_and_gives_exact_ids():
    async with Replay(in_steps(([7], "limit"), ([8], "limit"), ([], "eos"))) as server:
        chunks = await run(LlamaServer(check_address(server.url)), STEPS)
        bodies = server.bodies("/completion")
    assert chunks == [Ids([7]), Ids([8]), End("eos")]
    assert [body["prompt"] for body in bodies] == [[1, 2], [1, 2, 7], [1, 2, 7, 8]]
    assert {body["n_predict"] for body in bodies} == {1}
    assert len({body["seed"] for body in bodies}) == 3


async def test_the_vocabulary_comes_from_the_server_itself():
    likely = [(2, [195]), (0, [97]), (1, []), (3, [169])]
    entries = [{"id": i, "bytes": data} for i, data in likely]
    table = llama()
    table["POST", "/completion"] = Answer({"completion_probabilities": [{"top_logprobs": entries}]})
    table["POST", "/detokenize"] = Answer({"content": "</s>"})
    table["POST", "/tokenize"] = Answer({"tokens": [1]})
    async with served(LlamaServer, table) as (engine, server):
        vocabulary = await engine.vocabulary()
        assert server.bodies("/completion")[0]["n_probs"] == 4
    assert [vocabulary.token_bytes(i) for i in range(4)] == [b"a", b"</s>", b"\xc3", b"\xa9"]
    assert vocabulary.special_ids == vocabulary.eos_ids == {1}


async def test_a_vocabulary_of_another_model_is_refused():
    table = llama()
    table["GET", "/v1/models"] = Answer({"data": [{"id": "tiny", "meta": {"n_vocab": 256}}]})
    table["POST", "/tokenize"] = Answer(
        {"tokens": [{"id": 97, "piece": "a"}, {"id": 0xC3, "piece": [0xC3]}]}
    )
    async with served(LlamaServer, table) as (engine, _):
        assert await engine.refuse_vocabulary(BYTES) is None
        assert "2000 ids" in await engine.refuse_vocabulary(Vocabulary.from_bytes([b"a"] * 2000))
        assert "other bytes" in await engine.refuse_vocabulary(Vocabulary.from_bytes([b"a"] * 16))
        turned = Vocabulary.from_bytes([bytes([255 - b]) for b in range(256)])
        assert "other bytes" in await engine.refuse_vocabulary(turned)


# ------------------------------------------------------------------ the others, in detail


@pytest.mark.parametrize("make", [VLLM, SGLang, TGI])
async def test_a_vocabulary_is_compared_by_a_sample(make):
    def tokenize(body):
        ids = list((body.get("prompt") or body["inputs"]).encode())
        return Answer([{"id": i} for i in ids] if make is TGI else {"tokens": ids})

    table = {**vllm(), **sglang(), **tgi(), ("POST", "/tokenize"): tokenize}
    async with served(make, table) as (engine, _):
        assert await engine.refuse_vocabulary(BYTES) is None
        assert "another text" in await engine.refuse_vocabulary(Vocabulary.from_bytes([b"x"] * 256))
        assert "id 240" in await engine.refuse_vocabulary(Vocabulary.from_bytes([b"x"] * 9))


async def test_a_tokenizer_that_differs_in_rare_words_only_is_refused():
    words = [b" word%d" % n for n in range(500)]
    table = Vocabulary.from_bytes([bytes([b]) for b in range(256)] + words)
    ids = {word: 256 + n for n, word in enumerate(words)}

    def tokenize(body):
        parts = re.split(rb"( word\d+)", body["prompt"].encode())
        return Answer({"tokens": [i for p in parts for i in ([ids[p]] if p in ids else p)]})

    async with served(VLLM, {**vllm(), ("POST", "/tokenize"): tokenize}) as (engine, _):
        assert await engine.refuse_vocabulary(table) is None
        # One word in twenty has another's id: the usual sample has none of them.
        ids.update({words[n]: ids[words[n + 1]] for n in range(0, 500, 20)})
        assert "another text" in await engine.refuse_vocabulary(table)


async def test_a_vllm_that_sends_no_ids_says_what_to_use_instead():
    without = events(openai_chunk("a"), openai_chunk("b", "stop"), done=True)
    with pytest.raises(EngineError, match="return_token_ids"):
        await chunks_of(VLLM, {**vllm(), ("POST", "/v1/completions"): without})


async def test_an_sglang_that_leaves_ids_out_is_an_error():
    some = events(sglang_event([10], 1), sglang_event([12], 4), done=True)
    with pytest.raises(EngineError, match="left out 2 token ids"):
        await chunks_of(SGLang, {**sglang(), ("POST", "/generate"): some})


async def test_surrogates_that_a_server_cut_in_two_are_joined():
    chunk = '{"choices":[{"text":"%s","finish_reason":null}]}'
    halves = events(
        chunk % "\\ud83c", chunk % "\\udf26", chunk % "\\ud83c", openai_chunk("", "stop"), done=True
    )
    chunks = await chunks_of(OpenAIServer, {**openai(), ("POST", "/v1/completions"): halves})
    assert joined(chunks) == ([], "🌦\ufffd".encode(), "eos")


@pytest.mark.parametrize(
    ("health", "word"),
    [
        ({"status": "ok"}, "no llama.cpp model loaded"),
        ({"backend_url": "http://169.254.169.254/"}, "not on this machine"),
    ],
)
async def test_a_lemonade_whose_server_is_not_on_this_machine_is_refused(health, word):
    with pytest.raises(EngineError, match=word):
        await chunks_of(Lemonade, {("GET", "/v1/health"): Answer(health)})


@pytest.mark.parametrize("key", ["kèy", "key\r"])
async def test_a_key_that_no_header_can_have_is_refused_by_its_name(key, monkeypatch):
    monkeypatch.setenv("DETOK_ENGINE_API_KEY", key)
    with pytest.raises(EngineError, match="^DETOK_ENGINE_API_KEY has a character"):
        OpenAIServer(check_address("http://127.0.0.1:9"))


async def test_half_a_pair_reaches_the_engine_as_an_escape():
    async with Replay(openai()) as server:
        await run(OpenAIServer(check_address(server.url)), PROMPT._replace(prompt="a\ud83d"))
        assert server.bodies("/v1/completions")[0]["prompt"] == "a\ud83d"


@pytest.mark.parametrize("status", [403, 404, 500, 501, 503])
@pytest.mark.parametrize("make", [Ollama, OpenAIServer])
async def test_a_model_that_was_named_is_asked_for_whatever_the_list_of_models_says(make, status):
    refused = Answer({}, status=status)
    table = {("GET", "/api/tags"): refused, ("GET", "/v1/models"): refused}
    async with served(partial(make, model="tiny"), table) as (engine, _):
        assert engine.info().model == "tiny"


@pytest.mark.parametrize(
    ("host", "name"),
    [("[::1]:8443", "::1"), ("xn--fa-hia.de", "xn--fa-hia.de"), ("xn--ls8h.la", "xn--ls8h.la")],
)
def test_the_name_for_tls_is_the_host_as_it_is_written(host, name):
    address = Address("https://127.0.0.1:8443", host, f"https://{host}")
    assert EngineClient(address)._extensions == {"sni_hostname": name}


async def test_an_ollama_whose_model_is_gone_gets_another_one():
    lists = [["one", "two"], ["two", "one"], ["two"], []]
    tags = [Answer({"models": [{"name": name} for name in names]}) for names in lists]
    models = []
    async with served(Ollama, {("GET", "/api/tags"): tags}) as (engine, _):
        models.append(engine.info().model)
        for _ in range(2):
            await engine.open()
            models.append(engine.info().model)
        with pytest.raises(EngineError, match="has no model yet"):
            await engine.open()
    assert models == ["one", "one", "two"]


async def test_a_model_name_that_vllm_does_not_list_is_called_that():
    with pytest.raises(EngineError, match="no model 'wrong', but 'tiny'") as caught:
        await chunks_of(partial(VLLM, model="wrong"), vllm())
    assert (caught.value.code, caught.value.retry) == (4404, False)


NO_MODEL = {
    "error": {
        "message": "The model `canary` does not exist. Valid aliases: tiny.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }
}


@pytest.mark.parametrize(
    ("make", "answers", "path", "said"),
    [
        (OpenAIServer, openai, "/v1/completions", NO_MODEL),
        (VLLM, vllm, "/v1/completions", NO_MODEL),
        (Ollama, ollama, "/api/generate", {"error": "model 'canary' not found"}),
    ],
)
async def test_a_model_name_that_a_server_refuses_is_called_that(make, answers, path, said):
    with pytest.raises(EngineError, match="has no model of the name") as caught:
        await chunks_of(make, {**answers(), ("POST", path): Answer(said, status=404)})
    assert "canary" not in str(caught.value)


DEFAULT = Request("hi", None, Sampling(), "ids", {})
SMALL = {
    VLLM: (vllm, "/v1/completions", lambda body: body["max_tokens"]),
    SGLang: (sglang, "/generate", lambda body: body["sampling_params"]["max_new_tokens"]),
    TGI: (tgi, "/generate_stream", lambda body: body["parameters"]["max_new_tokens"]),
    OpenAIServer: (openai, "/v1/completions", lambda body: body["max_tokens"]),
}


def with_context(make, tokens):
    """The answers of a server whose model has a context of so many tokens."""
    table = SMALL[make][0]()
    table["GET", "/v1/models"] = Answer(
        {"data": [{"id": "tiny", "root": "/models/tiny", "max_model_len": tokens}]}
    )
    table["GET", "/info"] = Answer({"model_id": "tiny", "max_total_tokens": tokens})
    table["POST", "/tokenize"] = Answer([{"id": 1}] * 9 if make is TGI else {"tokens": [1] * 9})
    return table


@pytest.mark.parametrize("make", list(SMALL))
async def test_the_default_of_max_tokens_fits_into_a_small_context(make):
    _, route, asked = SMALL[make]
    async with Replay(with_context(make, 512)) as server:
        given = DEFAULT._replace(sampling=Sampling(max_tokens=2048), params={"max_tokens": 2048})
        for request in (DEFAULT, given):
            await run(make(check_address(server.url)), request)
        # Without /tokenize, each byte of the prompt may be a token.
        left = 508 if make is OpenAIServer else 503
        assert [asked(body) for body in server.bodies(route)] == [left, 2048]


@pytest.mark.parametrize("make", list(SMALL))
async def test_a_large_context_costs_no_request(make):
    _, route, asked = SMALL[make]
    async with Replay(with_context(make, 32768)) as server:
        await run(make(check_address(server.url)), DEFAULT)
        assert [asked(body) for body in server.bodies(route)] == [2048]
        assert not server.bodies("/tokenize")


async def test_a_max_tokens_beyond_the_context_is_not_called_a_long_prompt():
    said = "max_tokens=2048 cannot be greater than max_model_len=512. Please request fewer output tokens."
    refusal = Answer({"error": {"message": said}}, status=400)
    with pytest.raises(EngineError, match="lower max_tokens"):
        await chunks_of(VLLM, {**vllm(), ("POST", "/v1/completions"): refusal})


WORDS = Vocabulary.from_bytes([b"a", b"b", b"<|im_end|>"])
ENDED_BY_AN_ID = [
    (
        VLLM,
        "/v1/completions",
        events(openai_chunk("a", ids=[0, 1]), openai_chunk("", "stop", ids=[2]), done=True),
    ),
    (
        SGLang,
        "/generate",
        events(
            sglang_event([0, 1], 2),
            sglang_event([0, 1, 2], 3, {"type": "stop", "matched": 2}),
        ),
    ),
    (
        TGI,
        "/generate_stream",
        events(tgi_event(0), tgi_event(1), tgi_event(2, {"finish_reason": "eos_token"})),
    ),
]


@pytest.mark.parametrize(("make", "path", "answer"), ENDED_BY_AN_ID)
async def test_the_id_that_ends_an_answer_is_not_text(make, path, answer):
    chunks = await chunks_of(make, {**vllm(), **sglang(), **tgi(), ("POST", path): answer})
    assert joined(chunks) == ([0, 1, 2], b"", "eos")
    log = {}
    for data in ("bytes", "ids", "both"):
        log[data] = Log()
        log[data].start(data)
        for chunk in chunks[:-1]:
            write(log[data], chunk, WORDS)
    assert [log[data].position for data in log] == [2, 3, 3]


def of_chat(*deltas, finish="stop", **usage):
    """Return the stream of a chat whose events have these deltas."""
    said = [(delta, None) for delta in deltas] + [({}, finish)]
    chunks = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in said
    ]
    chunks += [{"choices": [], "usage": usage}] * bool(usage)
    # As ASCII, which halves of pairs need.
    return events(*map(json.dumps, chunks), done=True)


LOST = "The engine counted {} tokens and sent 3 bytes of text: it lost text and does not say where."
APART = (
    "The engine sent {} characters of reasoning apart from its text; they are not in this answer."
)
EMPTY = "38 events of the engine have no text, and no character came after them that would explain it: it has probably lost text."
# The deltas of a chat, its usage, and the note.
NOTES = {
    "few tokens": ([{"content": "日"}], {"completion_tokens": 4}, None),
    "more tokens than the text can have": (
        [{"role": "assistant", "content": ""}, {"content": "日"}],
        {"completion_tokens": 1724},
        LOST.format(1724),
    ),
    "more tokens than text and reasoning can have": (
        [{"content": "abc"}],
        {"completion_tokens": 540, "completion_tokens_details": {"reasoning_tokens": 500}},
        LOST.format(540),
    ),
    "reasoning that is counted and not sent": (
        [{"content": "Yes."}],
        {"completion_tokens": 500, "completion_tokens_details": {"reasoning_tokens": 498}},
        None,
    ),
    "reasoning in rare characters": (
        [*[{"content": "", "reasoning_content": "𓀀"}] * 40, {"content": "好"}],
        {"completion_tokens": 122},
        APART.format(40),
    ),
    "text beside reasoning": (
        [{"reasoning_content": "hm", "content": "x" * 100}],
        {"completion_tokens": 110},
        APART.format(2),
    ),
    # llama_cpp.server sends no usage, and an event for each token that it could not decode.
    "events without text": ([*[{"content": ""}] * 40, {"content": "日"}], {}, EMPTY),
    # vLLM sends an event for each token, and the text when the character is complete.
    "events without text that a character explains": (
        [*[{"content": ""}, {"content": ""}, {"content": "日"}] * 20, {"content": "ok"}],
        {},
        None,
    ),
}


@pytest.mark.parametrize("case", list(NOTES))
async def test_the_note_tells_what_text_a_server_has_lost_or_sent_apart(case):
    deltas, usage, note = NOTES[case]
    table = {**openai(), ("POST", "/v1/chat/completions"): of_chat(*deltas, **usage)}
    assert (await chunks_of(OpenAIServer, table, CHAT))[-1].note == note


async def test_a_server_that_cannot_count_its_tokens_is_asked_without():
    table = openai()
    streams = table["POST", "/v1/completions"]
    refusal = Answer({"error": "unknown field stream_options"}, status=422)
    table["POST", "/v1/completions"] = [refusal, streams, streams]
    async with served(OpenAIServer, table) as (engine, server):
        for _ in range(2):
            chunks = [chunk async for chunk in engine.generate(PROMPT)]
            assert joined(chunks) == ([], TEXT, "eos")
        asked = [body.get("stream_options") for body in server.bodies("/v1/completions")]
    assert asked == [{"include_usage": True}, None, None]


# ------------------------------------------------------------------ in this process


class FakeLlama:
    """llama-cpp-python's Llama, as far as the adapter uses it: a model that says 5, 6, 7, then its
    end.
    """

    metadata = {"tokenizer.chat_template": "{{ messages }}"}
    trained_with = 16
    end = 2

    def __init__(self, model_path, n_gpu_layers, verbose, n_ctx=512):
        self.seeds = []
        self.model = "model"
        self._n_ctx = n_ctx or self.trained_with

    def n_vocab(self):
        return 8

    def n_ctx(self):
        return self._n_ctx

    def token_eos(self):
        return 2

    def token_bos(self):
        return 1

    def set_seed(self, seed):
        self.seeds.append(seed)

    def tokenize(self, data, add_bos, special):
        return list(range(len(data)))

    def detokenize(self, ids, special=False):
        # The real one has room for 32 bytes.
        return b"".join(token_of(i)[:32] for i in ids)

    def generate(self, prompt, **options):
        yield from [5, 6, 7, self.end, 9]


def token_of(i):
    return b"long" * 20 if i == 6 else bytes([65 + i])


def llama_token_to_piece(vocab, token, buffer, size, lstrip, special):
    """Write the token into the buffer, or return how much too small it is, as llama.cpp does."""
    assert vocab == "vocabulary of model"
    data = token_of(token)
    if len(data) > size:
        return -len(data)
    buffer[: len(data)] = data
    return len(data)


@pytest.fixture
def fake_llama_cpp(monkeypatch, tmp_path):
    module = types.ModuleType("llama_cpp")
    module.Llama = FakeLlama
    module.llama_supports_gpu_offload = lambda: False
    module.LLAMA_DEFAULT_SEED = 0xFFFFFFFF
    module.llama_model_get_vocab = lambda model: "vocabulary of " + model
    module.llama_vocab_is_eog = lambda vocab, token: token in (2, 3)
    module.llama_token_to_piece = llama_token_to_piece
    chat = types.ModuleType("llama_cpp.llama_chat_format")
    chat.Jinja2ChatFormatter = lambda **_: lambda messages: types.SimpleNamespace(prompt="hi")
    monkeypatch.setitem(sys.modules, "llama_cpp", module)
    monkeypatch.setitem(sys.modules, "llama_cpp.llama_chat_format", chat)
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


async def test_llama_cpp_in_process_gives_exact_ids_until_its_end(fake_llama_cpp):
    engine = LlamaCpp(fake_llama_cpp)
    assert await run(engine, PROMPT) == [Ids([5]), Ids([6]), Ids([7]), End("eos")]
    prompt, *answer = await run(engine, CHAT)
    assert isinstance(prompt, Prompt) and prompt.read
    assert answer == [Ids([5]), Ids([6]), Ids([7]), End("eos")]
    two = PROMPT._replace(sampling=Sampling(max_tokens=2))
    assert await run(engine, two) == [Ids([5]), Ids([6]), End("length")]
    assert engine.info().line == "llama.cpp (llama-cpp-python) · CPU"
    with pytest.raises(EngineError, match="longer than the engine's context"):
        await run(engine, PROMPT._replace(prompt="a" * 99))


async def test_a_model_that_loads_does_not_stop_the_event_loop(
    fake_llama_cpp, fake_transformers, monkeypatch
):
    loop, seen = asyncio.get_running_loop(), []

    def loads(make):
        def load(*args, **options):
            # The loop runs something while the model loads.
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)
            seen.append(make)
            return make(*args, **options)

        return load

    monkeypatch.setattr(sys.modules["llama_cpp"], "Llama", loads(FakeLlama))
    models = sys.modules["transformers"].AutoModelForCausalLM
    monkeypatch.setattr(models, "from_pretrained", loads(models.from_pretrained))
    for engine in (LlamaCpp(fake_llama_cpp), Transformers(fake_transformers)):
        async with asyncio.timeout(20), opened(engine):
            pass
    assert len(seen) == 2


async def test_llama_cpp_in_process_is_freed_when_its_thread_is_done(fake_llama_cpp, monkeypatch):
    inside, go_on, freed = threading.Event(), threading.Event(), []

    def generate(self, prompt, **options):
        inside.set()
        assert go_on.wait(10)
        yield 5

    monkeypatch.setattr(FakeLlama, "generate", generate)
    monkeypatch.setattr(
        FakeLlama, "close", lambda self: freed.append(go_on.is_set()), raising=False
    )
    engine = LlamaCpp(fake_llama_cpp)
    await engine.open()
    answer = asyncio.create_task(anext(engine.generate(PROMPT)))
    await asyncio.to_thread(inside.wait, 10)
    answer.cancel()
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0.05)
    assert freed == []
    go_on.set()
    await closing
    assert freed == [True]


async def test_llama_cpp_in_process_gives_its_own_vocabulary(fake_llama_cpp):
    async with opened(LlamaCpp(fake_llama_cpp)) as engine:
        vocabulary = await engine.vocabulary()
        assert "8" in await engine.refuse_vocabulary(BYTES)
    assert vocabulary.token_bytes(5) == b"F"
    assert vocabulary.token_bytes(6) == b"long" * 20
    assert vocabulary.eos_ids == {2, 3}


async def test_llama_cpp_in_process_has_the_context_of_its_model_or_the_one_that_was_asked_for(
    fake_llama_cpp, monkeypatch
):
    monkeypatch.setattr(FakeLlama, "trained_with", 4096)
    long = PROMPT._replace(prompt="a" * 600)
    assert (await run(LlamaCpp(fake_llama_cpp), long))[-1] == End("eos")
    with pytest.raises(EngineError, match="longer than the engine's context"):
        await run(open_engine("llama-cpp-python", model=fake_llama_cpp, context=128), long)


async def test_llama_cpp_in_process_stops_at_every_id_that_ends_a_generation(
    fake_llama_cpp, monkeypatch
):
    monkeypatch.setattr(FakeLlama, "end", 3)  # <|im_end|>, say, where token_eos is <|endoftext|>
    assert joined(await run(LlamaCpp(fake_llama_cpp), PROMPT)) == ([5, 6, 7], b"", "eos")


async def test_a_seed_is_not_kept_for_the_next_run(fake_llama_cpp):
    engine = LlamaCpp(fake_llama_cpp)
    await engine.open()
    llama = engine._llama
    for seed in (3, None):
        sampling = PROMPT.sampling._replace(seed=seed)
        assert [c async for c in engine.generate(PROMPT._replace(sampling=sampling))]
    assert llama.seeds == [3, 0xFFFFFFFF]


@pytest.mark.parametrize(
    ("make", "word"),
    [(LlamaCpp, "llama-cpp-python is not installed"), (Transformers, "not installed")],
)
async def test_an_engine_whose_package_is_missing_names_the_package(
    make, word, tmp_path, monkeypatch
):
    for name in ("llama_cpp", "torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "m.gguf"
    path.write_bytes(b"")
    with pytest.raises(EngineError, match=word):
        await make(str(path) if make is LlamaCpp else str(tmp_path)).open()
    with pytest.raises(EngineError, match="give"):
        await make(str(tmp_path / "nowhere")).open()


class FakeIds(list):
    """A tensor, as far as the adapter uses one."""

    @property
    def shape(self):
        return (1, len(self))

    def reshape(self, _):
        return self

    def tolist(self):
        return list(self)

    def to(self, _):
        return self


class FakeModel:
    """transformers' model: `generate` puts the prompt, then 5, 6 and its end; when it samples, ids
    that `FakeTorch` draws.
    """

    device = "cpu"
    generation_config = types.SimpleNamespace(eos_token_id=[2, 3])
    config = types.SimpleNamespace(max_position_embeddings=1000)
    drawn = 0
    put = 0

    def to(self, _):
        return self

    def eval(self):
        return self

    def generate(self, prompt, streamer, max_new_tokens, do_sample, logits_processor=(), **options):
        streamer.put(FakeIds(prompt))
        torch = sys.modules["torch"]
        if not do_sample:
            tokens = iter([5, 6, 3][:max_new_tokens])
        else:
            tokens = (self.draw(torch, logits_processor) for _ in range(max_new_tokens))
        for i in tokens:
            streamer.put(FakeIds([i]))
            self.put += 1
        streamer.end()

    def draw(self, torch, logits_processor):
        for processor in logits_processor:
            processor(None, None)
        time.sleep(0)  # another generation may draw now
        return torch.draw()


class FakeTorch(types.ModuleType):
    """torch, with one random state for the whole process."""

    def __init__(self):
        super().__init__("torch")
        self.cuda = types.SimpleNamespace(is_available=lambda: False)
        self.no_grad = contextlib.nullcontext
        self._random = random.Random()
        self.manual_seed = self._random.seed
        self.seed = self._random.seed
        self.get_rng_state = self._random.getstate
        self.set_rng_state = self._random.setstate

    def draw(self):
        return self._random.randrange(10, 1 << 20)


@pytest.fixture
def fake_transformers(monkeypatch, tmp_path):
    class Tokenizer:
        def __call__(self, prompt, return_tensors):
            return types.SimpleNamespace(input_ids=FakeIds([1, 2]))

        def apply_chat_template(
            self, messages, add_generation_prompt, return_tensors, return_dict=True
        ):
            # As transformers 5: a BatchEncoding by default, which has no `shape`.
            return {"input_ids": FakeIds([1])} if return_dict else FakeIds([1])

        def __len__(self):
            return 300

    library = types.ModuleType("transformers")
    library.AutoTokenizer = types.SimpleNamespace(from_pretrained=lambda *_, **__: Tokenizer())
    library.AutoModelForCausalLM = types.SimpleNamespace(
        from_pretrained=lambda *_, **__: FakeModel()
    )
    library.LogitsProcessorList = list
    monkeypatch.setitem(sys.modules, "transformers", library)
    monkeypatch.setitem(sys.modules, "torch", FakeTorch())
    return str(tmp_path)


GREEDY = PROMPT._replace(sampling=Sampling(max_tokens=20))


async def test_transformers_in_process_gives_exact_ids_and_leaves_the_prompt_out(fake_transformers):
    assert await run(Transformers(fake_transformers), GREEDY) == [Ids([5]), Ids([6]), End("eos")]
    prompt, *answer = await run(Transformers(fake_transformers), CHAT)
    assert isinstance(prompt, Prompt) and prompt.read
    assert answer == [Ids([5]), Ids([6]), End("eos")]
    one = PROMPT._replace(sampling=Sampling(max_tokens=1))
    assert await run(Transformers(fake_transformers), one) == [Ids([5]), End("length")]


async def test_transformers_in_process_takes_a_vocabulary_that_is_padded_but_no_smaller_one(
    fake_transformers,
):
    async with opened(Transformers(fake_transformers)) as engine:
        assert "300" in await engine.refuse_vocabulary(BYTES)
        assert await engine.refuse_vocabulary(Vocabulary.from_bytes([b"a"] * 301)) is None


async def test_seeded_runs_at_the_same_time_have_a_random_state_each(fake_transformers):
    engine = Transformers(fake_transformers)
    await engine.open()

    async def ids_of(seed):
        request = PROMPT._replace(sampling=Sampling(200, 1.0, seed))
        return joined([chunk async for chunk in engine.generate(request)])[0]

    alone = [await ids_of(seed) for seed in (1, 2)]
    torch = sys.modules["torch"]
    torch.manual_seed(1)
    assert alone[0] == [torch.draw() for _ in range(200)]  # the engine's own answer to that seed
    before = torch.get_rng_state()
    first, second, _, third = await asyncio.gather(*map(ids_of, (1, 2, None, 1)))
    assert [first, second] == alone
    assert third == first
    assert torch.get_rng_state() == before


async def test_transformers_waits_for_a_reader_that_is_slow(fake_transformers):
    engine = Transformers(fake_transformers)
    await engine.open()
    request = PROMPT._replace(sampling=Sampling(100_000, 1.0, 1))
    async with aclosing(engine.generate(request)) as chunks:
        await anext(chunks)
        put = -1
        while put != engine._model.put:
            put = engine._model.put
            await asyncio.sleep(0.1)
        assert put <= 2 * 64 + 4
    await eventually(
        lambda: not [one for one in threading.enumerate() if "detok-transformers" in one.name]
    )


async def test_a_model_folder_that_transformers_cannot_read_is_one_sentence(
    fake_transformers, monkeypatch
):
    class SafetensorError(Exception):
        """As safetensors has it: derived from Exception."""

    def fail(*_, **__):
        raise SafetensorError("incomplete metadata, file not fully covered")

    loader = types.SimpleNamespace(from_pretrained=fail)
    monkeypatch.setattr(sys.modules["transformers"], "AutoModelForCausalLM", loader)
    with pytest.raises(EngineError, match=r"SafetensorError.*give a complete model folder"):
        await Transformers(fake_transformers).open()


async def test_the_default_of_max_tokens_ends_where_a_models_positions_end(
    fake_transformers, monkeypatch
):
    monkeypatch.setattr(FakeModel.config, "max_position_embeddings", 4)
    default = PROMPT._replace(sampling=Sampling(temperature=1.0))
    ids, _, reason = joined(await run(Transformers(fake_transformers), default))
    assert (len(ids), reason) == (2, "length")
    default = default._replace(params={"max_tokens": 2048})
    assert len(joined(await run(Transformers(fake_transformers), default))[0]) == 2048


def torch_with(hip, name, target):
    properties = types.SimpleNamespace(name=name, gcnArchName=target)
    cuda = types.SimpleNamespace(
        is_available=lambda: True, get_device_properties=lambda _: properties
    )
    return types.SimpleNamespace(cuda=cuda, version=types.SimpleNamespace(hip=hip))


def test_torch_names_an_amd_gpu_with_its_target():
    assert (
        device_of(torch_with("7.1", "AMD Radeon AI PRO R9700", "gfx1201:sramecc-"))
        == "ROCm AMD Radeon AI PRO R9700 (gfx1201)"
    )
    assert device_of(torch_with(None, "Some GPU", "")) == "CUDA Some GPU"
    assert (
        device_of(types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False)))
        == "CPU"
    )


async def test_what_loads_an_engine_may_panic():
    """A panic of Rust, in which tokenizers are written, is no Exception in Python."""

    class PanicException(BaseException):
        pass

    def load():
        raise PanicException("canary")

    with pytest.raises(RuntimeError, match="PanicException"):
        await asyncio.wait_for(aside(load), 60)


async def test_a_blocking_engine_that_fails_tells_the_type_of_the_error_and_not_its_message():
    def begin(stop):
        yield Ids([1])
        raise RuntimeError("canary")

    got = []
    with pytest.raises(EngineError) as caught:
        async for chunk in in_thread(begin, "The engine"):
            got.append(chunk)
    assert got == [Ids([1])]
    assert "RuntimeError" in str(caught.value)
    assert "canary" not in str(caught.value)


# ---------------------------------------------------------------- tools and counts

TOOLS = [{"type": "function", "function": {"name": "weather"}}]


async def test_the_chat_template_gets_the_tools():
    asked = CHAT._replace(params={"tools": TOOLS})
    async with Replay(llama()) as server:
        await run(LlamaServer(check_address(server.url)), asked)
        assert server.bodies("/apply-template") == [{"messages": CHAT.messages, "tools": TOOLS}]
    async with Replay(vllm()) as server:
        await run(VLLM(check_address(server.url)), asked)
        [body] = server.bodies("/v1/chat/completions")
        # Its own parser of calls needs options of the server, and is not read.
        assert (body["tools"], body["tool_choice"]) == (TOOLS, "none")
        await run(VLLM(check_address(server.url)), PROMPT._replace(params={"tools": TOOLS}))
        assert "tools" not in server.bodies("/v1/completions")[0]


async def test_messages_that_a_chat_template_cannot_read_are_refused_and_not_retried():
    failed = Answer({"error": {"code": 500, "message": "canary"}}, status=500)
    for path, code, retry in (("/apply-template", 4400, False), ("/completion", 4503, True)):
        with pytest.raises(EngineError) as caught:
            await chunks_of(LlamaServer, {**llama(), ("POST", path): failed}, CHAT)
        assert (caught.value.code, caught.value.retry) == (code, retry)
        assert "canary" not in str(caught.value)


async def test_the_end_has_what_the_engine_has_counted():
    ended = {**llama_end(4), "tokens_evaluated": 7}
    usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}}
    told = {"message": {"content": "a"}, "done": True, "done_reason": "stop", "eval_count": 1}
    for engine, table, request, counts in (
        (LlamaServer, {("POST", "/completion"): events(*LLAMA, ended)}, PROMPT, (7, 4)),
        (VLLM, {}, PROMPT, (2, None)),
        (VLLM, {}, CHAT, (2, None)),
        (
            OpenAIServer,
            {("POST", "/v1/completions"): events(openai_chunk("a", "stop"), usage)},
            PROMPT,
            (9, 5),
        ),
        (Ollama, {("POST", "/api/chat"): ndjson({**told, "prompt_eval_count": 3})}, CHAT, (3, 1)),
    ):
        tags = {("GET", "/api/tags"): Answer({"models": [{"name": "m"}]})}
        *_, end = await chunks_of(engine, {**vllm(), **llama(), **tags, **table}, request)
        assert (end.prompt_tokens, end.tokens) == counts, engine


async def test_an_answer_of_any_length_is_as_long_as_the_engine_allows():
    long = PROMPT._replace(sampling=Sampling(max_tokens=32768))
    listed = {"data": [{"id": "m", "max_model_len": 9000}]}
    for models, most in ((listed, 9000 - 512), ({"data": [{"id": "m"}]}, 2048)):
        async with Replay({**openai(), ("GET", "/v1/models"): Answer(models)}) as server:
            await run(OpenAIServer(check_address(server.url)), long)
            [body] = server.bodies("/v1/completions")
        assert most <= body["max_tokens"] <= max(most, 9000 - len("hi"))
