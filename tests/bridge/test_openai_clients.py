"""What others' clients, and our own readers, make of the exit in OpenAI's language."""

import asyncio
import json
import random
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from adapters.detok import vocabulary_of
from bridge_rig import TEXT, running
from cutting_proxy import DOWN, CuttingProxy
from engine_replay import Replay, ndjson
from redis_rig import NAME, redis_server, replicas
from test_bridge_stream import FakeEngine
from test_engine_replay import of_chat, ollama, openai
from test_openai_exit import (
    CALL,
    CHAT,
    LANGUAGES,
    NAMED,
    RUN,
    STREAM,
    TOOLS,
    USER,
    ask,
    client,
    first_of,
    ids_of,
    piece,
    read,
    said_in,
)

from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.engines import End, Ids
from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.ollama import Ollama
from detok_py.bridge.engines.openai import OpenAIServer
from detok_py.bridge.store import MemoryStore
from detok_py.commands.conformance import cases_of, load_suite

pytestmark = [pytest.mark.native, pytest.mark.slow]
TESTS = Path(__file__).parents[1]
NODE = shutil.which("node") or "node"


async def node(script, *arguments, given=""):
    """Run a script of tests/; return the JSON of its last line."""
    pipe = subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        NODE, TESTS / script, *arguments, stdin=pipe, stdout=pipe, stderr=pipe
    )
    out, errors = await process.communicate(given.encode())
    assert process.returncode == 0, errors.decode()
    return [json.loads(line) for line in out.decode().splitlines()]


async def test_the_ai_sdk_understands_text_reasoning_calls_and_usage():
    """By its OpenAI-compatible provider."""
    async with running(FakeEngine([*ids_of(CALL), End("eos", prompt_tokens=3)])) as bridge:
        [said] = await node("ai_sdk_client.mjs", bridge.url)
    assert said == {
        "text": "I look.",
        "reasoning": "日本?",
        "calls": [["weather", {"city": "東京"}]],
        "finish": "tool-calls",
        "usage": [3, len(CALL.encode())],
        "errors": [],
    }


@pytest.mark.full
async def test_openais_own_client_for_javascript_understands_it():
    async with running(FakeEngine([*ids_of(CALL), End("eos", prompt_tokens=3)])) as bridge:
        [said] = await node("openai_client.mjs", bridge.url)
    answer = {"text": "I look.", "reasoning": "日本?", "calls": [["weather", {"city": "東京"}]]}
    answer["finish"] = "tool_calls"
    assert said["answers"] == [answer, answer]
    assert (said["models"], said["usage"]) == (["first"], 3)
    assert said["refused"] == ["NotFoundError", 404, "model_not_found"]


async def test_our_own_reader_in_javascript_reads_it_at_any_cut():
    async with running(FakeEngine([*ids_of(CALL), End("eos")])) as bridge:
        stream, whole = await ask(bridge, stream=True), await ask(bridge)
    lines = [
        json.dumps([answer.headers["content-type"], answer.text, cut])
        for answer in (stream, whole)
        for cut in (1, 7, 1 << 20)
    ]
    content = read(stream.text)[0]
    for said in await node("read_answer.mjs", given="\n".join(lines)):
        assert (said["content"], said["reasoning"], said["error"]) == (content, "日本?", None)
        assert said["reason"] == "stop"


@pytest.mark.full
async def test_openais_own_client_understands_it():
    openai = pytest.importorskip("openai", reason="only `make test-all` installs openai")
    async with running(FakeEngine([*ids_of(CALL), End("eos", prompt_tokens=3)])) as bridge:
        async with openai.AsyncOpenAI(base_url=bridge.url + "/v1", api_key="any") as ai:
            assert [model.id async for model in ai.models.list()] == ["first"]
            asked = {"model": "first", "messages": USER, "tools": TOOLS}
            whole = await ai.chat.completions.create(**asked)
            async with ai.chat.completions.stream(**asked) as events:
                async for _ in events:
                    pass
                final = await events.get_final_completion()
            for answer in (whole, final):
                message = answer.choices[0].message
                assert message.content == "I look."
                assert message.reasoning_content == "日本?"
                [call] = message.tool_calls
                assert (call.function.name, json.loads(call.function.arguments)) == (
                    "weather",
                    {"city": "東京"},
                )
                assert answer.choices[0].finish_reason == "tool_calls"
            assert whole.usage.prompt_tokens == 3
            completion = await ai.completions.create(model="first", prompt="hi")
            assert completion.choices[0].text == CALL
            with pytest.raises(openai.NotFoundError) as refused:
                await ai.chat.completions.create(model="gpt-5", messages=USER)
            assert refused.value.code == "model_not_found"
            with pytest.raises(openai.BadRequestError):
                await ai.chat.completions.create(model="first", messages=USER, n=2)


CITIES = ["東京", "x</tool_call>y"]


@pytest.mark.parametrize("kind", ["openai", "ollama"])
async def test_what_an_engine_of_text_sends_apart_stays_apart(kind):
    said = [{"thinking": "日"}, {"thinking": "本?"}, {"content": "4 "}, {"content": "🙂"}]
    deltas = list(said)
    for n, city in enumerate(CITIES):
        deltas += [piece(n, '{"city": ', name="weather"), piece(n, json.dumps(city) + "}")]
    calls = [{"name": "weather", "arguments": {"city": city}} for city in CITIES]
    messages = [*said, *[{"tool_calls": [{"function": call}]} for call in calls]]
    lines = [{"message": {"content": "", **one}, "done": False} for one in messages]
    lines.append({"message": {"content": ""}, "done": True, "done_reason": "stop"})
    table = {
        **openai(),
        **ollama(),
        ("POST", CHAT): of_chat(*deltas, finish="tool_calls"),
        ("POST", "/api/chat"): ndjson(*lines),
    }
    async with Replay(table) as server:
        engine = {"openai": OpenAIServer, "ollama": Ollama}[kind](check_address(server.url))
        async with running(engine, vocabulary=None) as bridge:
            stream = await ask(bridge, stream=True, tools=TOOLS)
            whole = await ask(bridge, tools=TOOLS)
        bodies = server.bodies("/api/chat") + server.bodies(CHAT)
    assert stream.headers["x-detok-fidelity"] == "text"
    text, reasoning, calls, finish = read(stream.text)
    assert (text.strip(), reasoning, finish) == ("4 🙂", "日本?", "tool_calls")
    assert [json.loads(arguments)["city"] for _, _, arguments in calls] == CITIES
    answer = whole.json()
    message = answer["choices"][0]["message"]
    assert message["reasoning_content"] == "日本?"
    given = [call["function"]["arguments"] for call in message["tool_calls"]]
    assert given == [call[2] for call in calls]
    assert "detok" not in answer  # nothing is missing
    assert [body["tools"] for body in bodies] == [TOOLS, TOOLS]


async def test_a_content_of_parts_reaches_an_engine_that_takes_text_only():
    """As many clients send it. Ollama's own route refuses it."""
    parts = [{"type": "text", "text": text} for text in ("日本", "🙂")]
    said = [{"role": "user", "content": parts}]
    async with Replay(ollama()) as server:
        async with running(Ollama(check_address(server.url)), vocabulary=None) as bridge:
            await ask(bridge, messages=said)
            scripted = await ask(bridge, messages=said, detok={"engine": "scripted", "pace": 0})
        [body] = server.bodies("/api/chat")
    assert body["messages"] == [{"role": "user", "content": "日本\n🙂"}]
    assert scripted.json()["choices"][0]["message"]["content"] == "日本\n🙂"


# ---------------------------------------------------------------- every format of the suite


class Recorded(FakeEngine):
    """Says the ids of the case whose number the message has."""

    def __init__(self, cases):
        super().__init__([])
        self.cases = cases

    async def generate(self, request):
        for token in self.cases[int(request.messages[0]["content"])]["ids"]:
            yield Ids([token])
        yield End("eos")


@pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.full)])
async def test_each_format_of_the_conformance_suite_comes_out_as_openais_deltas(step):
    suite = [case for case in cases_of(load_suite()) if "answer" in case]
    cases = [case for case in suite if case["options"].get("start", "content") == "content"]
    engines = {}
    for case in cases:
        name = case["options"]["format"]
        if name not in engines:
            vocabulary = vocabulary_of(case)
            vocabulary.chat_format = name
            engines[name] = AttachedEngine(name, Recorded(cases), vocabulary=vocabulary)
    async with (
        running(FakeEngine([]), others=list(engines.values())) as bridge,
        client(bridge) as http,
    ):
        for n in range(0, len(cases), step):
            case = cases[n]
            body = {"messages": [{"role": "user", "content": str(n)}], "stream": True}
            body |= {"model": case["options"]["format"]}
            if "tool_schemas" in case["options"]:
                body["tools"] = case["options"]["tool_schemas"]
            content, reasoning, calls, _ = read((await http.post(CHAT, json=body)).text)
            out = case["out"]
            assert content == "".join([one.get("content", "") for one in out]), case["id"]
            assert reasoning == "".join([one.get("reasoning", "") for one in out]), case["id"]
            expected = [[one["call"], one["arguments"]] for one in out if "call" in one]
            assert [call[1:] for call in calls] == expected, case["id"]


# ---------------------------------------------------------------- many streams, many cuts


STREAMS = [
    30,
    pytest.param(300, marks=pytest.mark.full),
    pytest.param(10_000, marks=pytest.mark.soak),
]


@pytest.mark.parametrize("count", STREAMS)
async def test_random_texts_that_are_cut_at_random_are_the_engines_own(count):
    rng = random.Random(count)
    async with running() as bridge, client(bridge) as http:
        for number in range(count):
            letters = rng.sample(TEXT + LANGUAGES * 3, rng.randint(1, 60))
            text = "".join(letters)
            script = {"text": text, "cut": rng.choice(["token", "byte", "random"]), "pace": 0}
            body = {**STREAM, "seed": number, "detok": script}
            assert read((await http.post(CHAT, json=body)).text)[0] == text


EVERY = [211, pytest.param(9, marks=pytest.mark.full), pytest.param(1, marks=pytest.mark.soak)]


@pytest.mark.parametrize("step", EVERY)
async def test_an_answer_is_whole_after_a_cut_at_any_byte(step):
    """The connection is reset, also in the head of the response, and the same request goes on
    behind the last event that came whole. Text, reasoning and a call are what they are without a
    cut, and are generated once.
    """
    engine = FakeEngine([*ids_of(CALL[:40]), 0, *ids_of(CALL[40:]), End("eos")])
    body = {**STREAM, "tools": TOOLS, "stream_options": {"include_usage": True}}
    async with running(engine, store=MemoryStore(max_runs=100_000)) as bridge:
        async with CuttingProxy(bridge.port) as proxy:
            wanted, ends = await through(proxy, bridge.host, body, f"{RUN}-wanted", [])
            assert ends == 1
            length = proxy.lengths[0][DOWN]
            for at in range(1, length, step):
                cuts = [(DOWN, at, "reset"), (DOWN, 1200 + at % 97, "reset")]
                got, ends = await through(proxy, bridge.host, body, f"{RUN}-{at}", cuts)
                assert (said_in(got), ends) == (said_in(wanted), 1), at
    assert engine.closed == 1 + len(range(1, length, step))


async def through(proxy, host, body, run, cuts):
    """Read an answer through a proxy that cuts; return its events, and how often it ended."""
    proxy.cuts = list(cuts)
    got, last = [], ""
    while "[DONE]" not in got:
        headers = {"host": host, "x-detok-run": run, "connection": "close"}
        headers |= {"last-event-id": last} if last else {}
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{proxy.port}", trust_env=False, timeout=60, verify=False
        ) as http:
            data = await first_of(http, body, headers)
        for event in data.decode(errors="replace").split("\n\n")[:-1]:
            lines = event.split("\n")
            got += [line[6:] for line in lines if line.startswith("data: ")]
            last = next((line[4:] for line in lines if line.startswith("id: ")), last)
    return [one for one in got if one != "[DONE]"], got.count("[DONE]")


async def test_another_replica_has_the_rest_of_an_answer():
    """A run is begun at one replica and read on at the other, which has not made it."""
    text = TEXT + LANGUAGES
    engine = FakeEngine([step for token in ids_of(text) for step in (token, 0.002)] + [End("eos")])
    with redis_server() as redis:
        async with replicas(2, redis, engine=engine) as ((one, two), _, _):
            headers = {"host": NAME, **NAMED}
            async with client(one) as http:
                data = await first_of(http, STREAM, headers, 2000)
            whole = data.decode(errors="replace").rpartition("\n\n")[0] + "\n\n"
            last = whole.rpartition("id: ")[2].partition("\n")[0]
            async with client(two) as http:
                headers["last-event-id"] = last
                rest = await http.post(CHAT, json=STREAM, headers=headers)
    before = read(whole)[0]
    assert 0 < len(before) < len(text)
    assert before + read(rest.text)[0] == text
    assert engine.closed == 1
