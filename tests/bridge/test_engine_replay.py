"""Every adapter against what its engine says, replayed through a real HTTP server: cut at every
byte, with CRLF, keep-alives, errors, ends.

The exchanges are written from the engines' documented shapes; nothing here was recorded from a
running server of theirs.
"""

import asyncio
import json
import sys
import threading
import types
from contextlib import aclosing

import pytest
from engine_replay import Answer, Replay, events, ndjson

from detok_py.bridge.engines import End, EngineError, Ids, Raw, Request, Sampling
from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.lemonade import Lemonade
from detok_py.bridge.engines.llama_cpp import LlamaCpp
from detok_py.bridge.engines.llama_server import LlamaServer
from detok_py.bridge.engines.ollama import Ollama
from detok_py.bridge.engines.openai import OpenAIServer
from detok_py.bridge.engines.sglang import SGLang
from detok_py.bridge.engines.tgi import TGI
from detok_py.bridge.engines.threaded import in_thread
from detok_py.bridge.engines.transformers import Transformers, device_of
from detok_py.bridge.engines.vllm import VLLM
from detok_py.bridge.find import engine_at, recognise
from detok_py.decode.vocabulary import Vocabulary

pytestmark = [pytest.mark.native, pytest.mark.slow]

PROMPT = Request("hi", None, Sampling(max_tokens=20, temperature=0.5, seed=3), "both", {})
CHAT = Request(None, [{"role": "user", "content": "hi"}], Sampling(max_tokens=20), "both", {})
BYTES = Vocabulary.from_bytes([bytes([b]) for b in range(256)])

PROPS = Answer(
    {"default_generation_settings": {}, "model_path": "/models/tiny.gguf", "eos_token": "</s>"}
)
MODELS = Answer({"data": [{"id": "tiny", "root": "/models/tiny", "meta": {"n_vocab": 4}}]})


def probability(i, data):
    return {"id": i, "token": "?", "bytes": list(data), "prob": 1.0, "top_probs": []}


def llama_event(i, data, count):
    return {
        "index": 0,
        "content": "�",
        "tokens": [i],
        "stop": False,
        "tokens_predicted": count,
        "completion_probabilities": [probability(i, data)],
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
    return {
        ("GET", "/props"): PROPS,
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
RAW = [Raw(b" \xf0\x9f\x8c\xa6", 3, 7), Raw(b"\xc6il", 1, 8), End("length")]
THREE = [Ids([10, 11]), Ids([12]), End("length")]
# engine, its answers, request, what comes out (joined, see `joined`)
CASES = {
    "llama-server": (LlamaServer, llama, PROMPT, ([], b" \xf0\x9f\x8c\xa6\xc6il", "length")),
    "llama-server chat": (LlamaServer, llama, CHAT, ([], b" \xf0\x9f\x8c\xa6\xc6il", "length")),
    "vLLM": (VLLM, vllm, PROMPT, ([10, 11, 12], b"", "length")),
    "vLLM chat": (VLLM, vllm, CHAT, ([10, 11, 12], b"", "eos")),
    "vLLM tokens": (
        lambda address: VLLM(address, tokens_only=True),
        vllm,
        PROMPT,
        ([10, 11, 12], b"", "eos"),
    ),
    "vLLM tokens chat": (
        lambda address: VLLM(address, tokens_only=True),
        vllm,
        CHAT,
        ([10, 11, 12], b"", "eos"),
    ),
    "SGLang cumulative": (SGLang, sglang, PROMPT, ([10, 11, 12], b"", "length")),
    "SGLang incremental": (
        SGLang,
        lambda **cut: sglang(False, **cut),
        PROMPT,
        ([10, 11, 12], b"", "length"),
    ),
    "SGLang chat": (SGLang, sglang, CHAT, ([], "é".encode(), "eos")),
    "TGI": (TGI, tgi, PROMPT, ([10, 11, 12], b"", "length")),
    "TGI chat": (TGI, tgi, CHAT, ([], "é".encode(), "length")),
    "OpenAI": (OpenAIServer, openai, PROMPT, ([], TEXT, "eos")),
    "OpenAI chat": (OpenAIServer, openai, CHAT, ([], TEXT, "eos")),
    "Ollama": (Ollama, ollama, PROMPT, ([], TEXT, "eos")),
    "Ollama chat": (Ollama, ollama, CHAT, ([], TEXT, "length")),
}
MAIN_ROUTE = {
    LlamaServer: "/completion",
    VLLM: "/v1/completions",
    SGLang: "/generate",
    TGI: "/generate_stream",
    OpenAIServer: "/v1/completions",
    Ollama: "/api/generate",
}
PLAIN = {
    "llama-server": LlamaServer,
    "vLLM": VLLM,
    "SGLang cumulative": SGLang,
    "TGI": TGI,
    "OpenAI": OpenAIServer,
    "Ollama": Ollama,
}


async def run(engine, request):
    """Everything that an engine gives, then whether it was closed."""
    try:
        await engine.open()
        return [chunk async for chunk in engine.generate(request)]
    finally:
        await engine.close()


def joined(chunks):
    ids = [i for chunk in chunks if isinstance(chunk, Ids) for i in chunk.ids]
    data = b"".join(chunk.data for chunk in chunks if isinstance(chunk, Raw))
    assert isinstance(chunks[-1], End)
    return ids, data, chunks[-1].reason


@pytest.mark.parametrize("name", list(CASES))
async def test_an_exchange_gives_what_the_engine_said(name):
    make, answers, request, expected = CASES[name]
    async with Replay(answers()) as server:
        engine = make(check_address(server.url))
        assert joined(await run(engine, request)) == expected


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
    async with Replay(answers(**how)) as server:
        assert joined(await run(make(check_address(server.url)), request)) == expected


@pytest.mark.parametrize("name", list(PLAIN))
async def test_only_the_given_parameters_reach_the_engine(name):
    make, answers, request, _ = CASES[name]
    async with Replay(answers()) as server:
        await run(make(check_address(server.url)), request)
        body = server.bodies(MAIN_ROUTE[make])[0]
        headers = server.requests[-1][2]
    flat = json.dumps(body)
    assert '"hi"' in flat
    assert "20" in flat
    assert "0.5" in flat
    assert (
        "stop" not in body
    )  # an engine that holds text back for a stop string holds bytes back too
    assert "top_p" not in flat
    assert "authorization" not in headers
    assert headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("name", list(PLAIN))
async def test_a_stream_that_breaks_off_is_a_lost_engine_and_keeps_what_came_before(name):
    make, answers, request, expected = CASES[name]
    table = answers()
    route = ("POST", MAIN_ROUTE[make])
    whole = table[route].body
    # Everything but the last two events, then the connection is gone.
    table[route] = Answer(
        whole[: whole.index(b"\n", len(whole) // 4) + 1], kind="text/event-stream", then="lost"
    )
    async with Replay(table) as server:
        engine = make(check_address(server.url))
        await engine.open()
        got = []
        with pytest.raises(EngineError) as caught:
            async for chunk in engine.generate(request):
                got.append(chunk)
        await engine.close()
    assert "lost in mid-answer" in str(caught.value)
    assert caught.value.code == 4503
    assert not any(isinstance(chunk, End) for chunk in got)
    assert expected[1].startswith(b"".join(chunk.data for chunk in got if isinstance(chunk, Raw)))


@pytest.mark.parametrize("name", list(PLAIN))
async def test_a_stream_that_ends_early_without_an_error_is_not_finished(name):
    make, answers, request, _ = CASES[name]
    table = answers()
    route = ("POST", MAIN_ROUTE[make])
    table[route] = Answer(
        table[route].body[: table[route].body.index(b"\n") + 2], kind="text/event-stream"
    )
    async with Replay(table) as server:
        engine = make(check_address(server.url))
        await engine.open()
        chunks = []
        try:
            async for chunk in engine.generate(request):
                chunks.append(chunk)
        except EngineError:
            pass
        await engine.close()
    assert not any(isinstance(chunk, End) for chunk in chunks)


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
@pytest.mark.parametrize("name", list(PLAIN))
async def test_a_refusal_is_one_sentence_with_the_way_out_and_repeats_nothing(
    name, status, body, code, retry, word
):
    make, answers, request, _ = CASES[name]
    table = answers()
    table["POST", MAIN_ROUTE[make]] = Answer(
        body, status=status, headers=[("location", "http://127.0.0.1:1/")] if status == 302 else []
    )
    async with Replay(table) as server:
        with pytest.raises(EngineError) as caught:
            await run(make(check_address(server.url)), request)
    assert (caught.value.code, caught.value.retry) == (code, retry)
    assert word in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("name", list(PLAIN))
async def test_an_error_event_in_a_stream_raises(name):
    make, answers, request, _ = CASES[name]
    table = answers()
    route = ("POST", MAIN_ROUTE[make])
    error = b'data: {"error": {"code": 500, "message": "canary", "type": "server_error"}}\n\n'
    table[route] = Answer(error, kind="text/event-stream")
    async with Replay(table) as server:
        with pytest.raises(EngineError, match="failed") as caught:
            await run(make(check_address(server.url)), request)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("name", list(PLAIN))
async def test_closing_the_stream_closes_the_connection_so_that_the_engine_stops(name):
    make, answers, request, _ = CASES[name]
    table = answers()
    route = ("POST", MAIN_ROUTE[make])
    body = table[route].body
    table[route] = Answer(
        body[: body.rindex(b"{", 0, len(body) - 30)].rpartition(b"\n")[0] + b"\n",
        kind="text/event-stream",
        then="hang",
    )
    async with Replay(table) as server:
        engine = make(check_address(server.url))
        await engine.open()
        async with aclosing(engine.generate(request)) as chunks:
            async for _ in chunks:
                break
        for _ in range(100):
            if server.closed_early:
                break
            await asyncio.sleep(0.01)
        await engine.close()
        assert server.closed_early == 1


@pytest.mark.parametrize("name", list(PLAIN))
async def test_an_engine_that_is_down_says_how_to_start_it(name):
    make, answers, _, _ = CASES[name]
    async with Replay(answers()) as server:
        address = check_address(server.url)
    with pytest.raises(EngineError) as caught:
        await run(make(address), PROMPT)
    assert "answers at http://127.0.0.1" in str(caught.value)
    assert caught.value.retry


@pytest.mark.parametrize("name", list(PLAIN))
async def test_a_server_that_is_not_the_engine_is_refused(name):
    make, _, _, _ = CASES[name]
    page = Answer(b"<!doctype html>", kind="text/html")
    routes = ["/props", "/v1/models", "/get_model_info", "/info", "/api/tags"]
    async with Replay({("GET", path): page for path in routes}) as server:
        with pytest.raises(EngineError, match="not JSON"):
            await run(make(check_address(server.url)), PROMPT)


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        (llama(), "llama"),
        ({("GET", "/version"): Answer({"version": "0.33"}), **vllm()}, "vllm"),
        (sglang(), "sglang"),
        (tgi(), "tgi"),
        ({("GET", "/api/version"): Answer({"version": "0.9"}), **ollama()}, "ollama"),
        ({("GET", "/v1/health"): Answer({"status": "ok", "model_loaded": None})}, "lemonade"),
        (openai(), "openai"),
        ({}, None),
    ],
)
async def test_an_engine_is_recognised_by_the_routes_that_only_it_has(answers, kind):
    async with Replay(answers) as server:
        assert await recognise(check_address(server.url)) == kind
        assert not server.bodies("/completion")
    if kind:
        assert engine_at(kind, check_address(server.url)).info().fidelity in (
            "ids",
            "bytes",
            "text",
        )


# ------------------------------------------------------------------ llama-server, in detail


async def test_the_end_has_a_note_if_llama_server_dropped_tokens():
    table = llama()
    table["POST", "/completion"] = events(*LLAMA, llama_end(6))
    async with Replay(table) as server:
        end = (await run(LlamaServer(check_address(server.url)), PROMPT))[-1]
    assert end.reason == "length"
    assert "dropped the last 2 tokens" in end.note


async def test_the_end_of_text_token_is_not_a_dropped_one():
    table = llama()
    table["POST", "/completion"] = events(*LLAMA, llama_end(5, "eos"))
    async with Replay(table) as server:
        assert (await run(LlamaServer(check_address(server.url)), PROMPT))[-1] == End("eos")


async def test_progress_events_are_not_tokens():
    table = llama()
    progress = {
        "index": 0,
        "content": "",
        "tokens": [0],
        "stop": False,
        "prompt_progress": {"total": 9, "processed": 3},
    }
    table["POST", "/completion"] = events(progress, *LLAMA, llama_end(4))
    async with Replay(table) as server:
        assert await run(LlamaServer(check_address(server.url)), PROMPT) == RAW


async def test_a_llama_server_without_token_bytes_is_an_error():
    table = llama()
    table["POST", "/completion"] = events(
        {"content": "a", "tokens": [1], "stop": False, "tokens_predicted": 1}
    )
    async with Replay(table) as server:
        with pytest.raises(EngineError, match="use a newer one"):
            await run(LlamaServer(check_address(server.url)), PROMPT)


async def test_step_mode_asks_for_one_token_at_a_time_and_gives_exact_ids():
    table = llama()
    table["POST", "/tokenize"] = Answer({"tokens": [1, 2]})
    table["POST", "/completion"] = [
        Answer({"tokens": [7], "stop_type": "limit"}),
        Answer({"tokens": [8], "stop_type": "limit"}),
        Answer({"tokens": [], "stop_type": "eos"}),
    ]
    async with Replay(table) as server:
        chunks = await run(LlamaServer(check_address(server.url)), PROMPT._replace(want="ids"))
        bodies = server.bodies("/completion")
    assert chunks == [Ids([7]), Ids([8]), End("eos")]
    assert [body["prompt"] for body in bodies] == [[1, 2], [1, 2, 7], [1, 2, 7, 8]]
    assert {body["n_predict"] for body in bodies} == {1}
    assert len({body["seed"] for body in bodies}) == 3


async def test_the_vocabulary_comes_from_the_server_itself():
    table = llama()
    table["POST", "/completion"] = Answer(
        {
            "completion_probabilities": [
                {
                    "top_logprobs": [
                        {"id": 2, "bytes": [195]},
                        {"id": 0, "bytes": [97]},
                        {"id": 1, "bytes": []},
                        {"id": 3, "bytes": [169]},
                    ]
                }
            ]
        }
    )
    table["POST", "/detokenize"] = Answer({"content": "</s>"})
    table["POST", "/tokenize"] = Answer({"tokens": [1]})
    async with Replay(table) as server:
        engine = LlamaServer(check_address(server.url))
        await engine.open()
        vocabulary = await engine.vocabulary()
        await engine.close()
        assert server.bodies("/completion")[0]["n_probs"] == 4
    assert [vocabulary.token_bytes(i) for i in range(4)] == [b"a", b"</s>", b"\xc3", b"\xa9"]
    assert vocabulary.special_ids == vocabulary.eos_ids == {1}


async def test_a_vocabulary_of_another_model_is_refused():
    table = llama()
    table["GET", "/v1/models"] = Answer({"data": [{"id": "tiny", "meta": {"n_vocab": 256}}]})
    table["POST", "/tokenize"] = Answer(
        {"tokens": [{"id": 97, "piece": "a"}, {"id": 0xC3, "piece": [0xC3]}]}
    )
    async with Replay(table) as server:
        engine = LlamaServer(check_address(server.url))
        await engine.open()
        assert await engine.refuse_vocabulary(BYTES) is None
        assert "2000 ids" in await engine.refuse_vocabulary(Vocabulary.from_bytes([b"a"] * 2000))
        assert "other bytes" in await engine.refuse_vocabulary(Vocabulary.from_bytes([b"a"] * 16))
        turned = Vocabulary.from_bytes([bytes([255 - b]) for b in range(256)])
        assert "other bytes" in await engine.refuse_vocabulary(turned)
        await engine.close()


# ------------------------------------------------------------------ the others, in detail


@pytest.mark.parametrize("make", [VLLM, SGLang, TGI])
async def test_a_vocabulary_is_compared_by_a_sample(make):
    from detok_py.bridge.engines.agree import SAMPLE

    ids = list(SAMPLE.encode())
    table = {**vllm(), **sglang(), **tgi()}
    table["POST", "/tokenize"] = Answer(
        [{"id": i} for i in ids] if make is TGI else {"tokens": ids}
    )
    async with Replay(table) as server:
        engine = make(check_address(server.url))
        await engine.open()
        assert await engine.refuse_vocabulary(BYTES) is None
        assert "another text" in await engine.refuse_vocabulary(Vocabulary.from_bytes([b"x"] * 256))
        assert "id 240" in await engine.refuse_vocabulary(Vocabulary.from_bytes([b"x"] * 9))
        await engine.close()


async def test_a_vllm_that_sends_no_ids_says_what_to_use_instead():
    table = vllm()
    table["POST", "/v1/completions"] = events(
        openai_chunk("a"), openai_chunk("b", "stop"), done=True
    )
    async with Replay(table) as server:
        with pytest.raises(EngineError, match="return_token_ids"):
            await run(VLLM(check_address(server.url)), PROMPT)


async def test_an_sglang_that_leaves_ids_out_is_an_error():
    table = sglang()
    table["POST", "/generate"] = events(sglang_event([10], 1), sglang_event([12], 4), done=True)
    async with Replay(table) as server:
        with pytest.raises(EngineError, match="left out 2 token ids"):
            await run(SGLang(check_address(server.url)), PROMPT)


async def test_surrogates_that_a_server_cut_in_two_are_joined():
    chunk = '{"choices":[{"text":"%s","finish_reason":null}]}'
    table = openai()
    table["POST", "/v1/completions"] = events(
        chunk % "\\ud83c", chunk % "\\udf26", chunk % "\\ud83c", openai_chunk("", "stop"), done=True
    )
    async with Replay(table) as server:
        assert joined(await run(OpenAIServer(check_address(server.url)), PROMPT)) == (
            [],
            "🌦\ufffd".encode(),
            "eos",
        )


async def test_lemonade_gives_the_address_of_its_llama_server_which_is_used():
    async with Replay(llama()) as child:
        front = {
            ("GET", "/v1/health"): Answer(
                {"status": "ok", "all_models_loaded": [{"backend_url": child.url + "/v1"}]}
            )
        }
        async with Replay(front) as server:
            engine = Lemonade(check_address(server.url))
            assert await run(engine, PROMPT) == RAW
            assert "Lemonade" in engine.info().name


@pytest.mark.parametrize(
    ("health", "word"),
    [
        ({"status": "ok"}, "no llama.cpp model loaded"),
        ({"backend_url": "http://169.254.169.254/"}, "not on this machine"),
    ],
)
async def test_a_lemonade_whose_server_is_not_on_this_machine_is_refused(health, word):
    async with Replay({("GET", "/v1/health"): Answer(health)}) as server:
        with pytest.raises(EngineError, match=word):
            await run(Lemonade(check_address(server.url)), PROMPT)


async def test_a_key_from_the_environment_is_sent_and_never_shown(monkeypatch):
    monkeypatch.setenv("DETOK_ENGINE_API_KEY", "canary")
    table = openai()
    table["POST", "/v1/completions"] = Answer({"error": "canary"}, status=401)
    async with Replay(table) as server:
        with pytest.raises(EngineError) as caught:
            await run(OpenAIServer(check_address(server.url)), PROMPT)
        assert server.requests[-1][2]["authorization"] == "bearer canary"
    assert "canary" not in str(caught.value)


# ------------------------------------------------------------------ in this process


class FakeLlama:
    """llama-cpp-python's Llama, as far as the adapter uses it: a model that says 5, 6, 7, then its
    end.
    """

    metadata = {"tokenizer.chat_template": "{{ messages }}"}

    def __init__(self, model_path, n_gpu_layers, verbose):
        self.seed = None

    def n_vocab(self):
        return 8

    def n_ctx(self):
        return 16

    def token_eos(self):
        return 2

    def token_bos(self):
        return 1

    def set_seed(self, seed):
        self.seed = seed

    def tokenize(self, data, add_bos, special):
        return list(range(len(data)))

    def detokenize(self, ids, special=False):
        return b"".join(bytes([65 + i]) for i in ids)

    def generate(self, prompt, **options):
        yield from [5, 6, 7, 2, 9]


@pytest.fixture
def fake_llama_cpp(monkeypatch, tmp_path):
    module = types.ModuleType("llama_cpp")
    module.Llama = FakeLlama
    module.llama_supports_gpu_offload = lambda: False
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
    assert await run(engine, CHAT) == [Ids([5]), Ids([6]), Ids([7]), End("eos")]
    assert await run(engine, PROMPT._replace(sampling=Sampling(max_tokens=2))) == [
        Ids([5]),
        Ids([6]),
        End("length"),
    ]
    assert engine.info().line == "llama.cpp (llama-cpp-python) · CPU"
    with pytest.raises(EngineError, match="longer than the engine's context"):
        await run(engine, PROMPT._replace(prompt="a" * 99))


async def test_llama_cpp_in_process_gives_its_own_vocabulary(fake_llama_cpp):
    engine = LlamaCpp(fake_llama_cpp)
    await engine.open()
    vocabulary = await engine.vocabulary()
    assert vocabulary.token_bytes(5) == b"F"
    assert vocabulary.eos_ids == {2}
    assert "8" in await engine.refuse_vocabulary(BYTES)
    await engine.close()


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

    def reshape(self, _):
        return self

    def tolist(self):
        return list(self)

    def to(self, _):
        return self


class FakeModel:
    """transformers' model: `generate` puts the prompt, then 5, 6 and its end."""

    device = "cpu"
    generation_config = types.SimpleNamespace(eos_token_id=[2, 3])

    def to(self, _):
        return self

    def eval(self):
        return self

    def generate(self, prompt, streamer, max_new_tokens, **options):
        streamer.put(FakeIds(prompt))
        for i in [5, 6, 3][:max_new_tokens]:
            streamer.put(FakeIds([i]))
        streamer.end()


@pytest.fixture
def fake_transformers(monkeypatch, tmp_path):
    class Tokenizer:
        def __call__(self, prompt, return_tensors):
            return types.SimpleNamespace(input_ids=FakeIds([1, 2]))

        def apply_chat_template(self, messages, add_generation_prompt, return_tensors):
            return FakeIds([1])

        def __len__(self):
            return 10

    library = types.ModuleType("transformers")
    library.AutoTokenizer = types.SimpleNamespace(from_pretrained=lambda *_, **__: Tokenizer())
    library.AutoModelForCausalLM = types.SimpleNamespace(
        from_pretrained=lambda *_, **__: FakeModel()
    )
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    torch.manual_seed = lambda seed: None
    torch.no_grad = lambda: __import__("contextlib").nullcontext()
    monkeypatch.setitem(sys.modules, "transformers", library)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return str(tmp_path)


async def test_transformers_in_process_gives_exact_ids_and_leaves_the_prompt_out(fake_transformers):
    assert await run(Transformers(fake_transformers), PROMPT) == [Ids([5]), Ids([6]), End("eos")]
    assert await run(Transformers(fake_transformers), CHAT) == [Ids([5]), Ids([6]), End("eos")]
    assert await run(
        Transformers(fake_transformers), PROMPT._replace(sampling=Sampling(max_tokens=1))
    ) == [Ids([5]), End("length")]


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


async def test_a_blocking_engine_stops_when_its_iterator_is_closed():
    stopped = threading.Event()

    def begin(stop):
        try:
            for n in range(10_000):
                if stop.is_set():
                    return
                yield Ids([n])
        finally:
            stopped.set()

    async with aclosing(in_thread(begin, "test")) as chunks:
        async for _ in chunks:
            break
    assert await asyncio.to_thread(stopped.wait, 5)


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
