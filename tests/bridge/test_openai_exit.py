"""The exit in OpenAI's language: what any chat UI gets that is given the bridge's URL."""

import asyncio
import contextlib
import json
import socket

import httpx
import pytest
from bridge_rig import TEXT, running
from engine_replay import Answer, Replay
from served_bridge import Bridge
from test_bridge_stream import FakeEngine
from test_engine_replay import MODELS, of_chat
from waiting import eventually

from detok_py.bridge import openai_exit, protocols
from detok_py.bridge.attached import AttachedEngine
from detok_py.bridge.engines import NO_ROOM_FOR_PROMPT, ContextFull, End, EngineError, Ids, Raw
from detok_py.bridge.engines.address import check_address
from detok_py.bridge.engines.openai import OpenAIServer
from detok_py.bridge.engines.scripted import ScriptedEngine
from detok_py.bridge.engines.text import Tags
from detok_py.captures.event_shapes import read_event
from detok_py.protocol import wire
from detok_py.protocol.sse import EventReader

pytestmark = [pytest.mark.native, pytest.mark.slow]

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RUN = "0123456789abcdef"
NAMED = {"x-detok-run": RUN}
USER = [{"role": "user", "content": "hi"}]
STREAM = {"messages": USER, "stream": True}
JSON = {"content-type": "application/json"}
LANGUAGES = "日本語の文章、ภาษาไทย, हिन्दी, עברית, 🏳️‍🌈👩🏽‍🚀 and é. "


def client(bridge):
    return httpx.AsyncClient(base_url=bridge.url, trust_env=False, timeout=60)


class Silent(FakeEngine):
    """Says nothing; `asked` has the requests."""

    def __init__(self):
        super().__init__([End("eos")])
        self.asked = []

    def generate(self, request):
        self.asked.append(request)
        return super().generate(request)


def ids_of(text):
    """Return a text in tokens that are a byte each: every other character is split."""
    return [Ids([byte]) for byte in text.encode()]


def read(body):
    """Return what our own reader finds in a stream: (content, reasoning, calls, finish)."""
    said = [read_event(json.loads(event.data)) for event in events_of(body)]
    calls: list[list[str]] = []
    for one in said:
        for call in one.calls:
            if call.name:
                calls.append([call.id, call.name, ""])
            calls[-1][2] += call.text
    text = "".join([one.text for one in said])
    reasoning = "".join([one.reasoning for one in said])
    return text, reasoning, calls, next((one.finish for one in said if one.finish), None)


def events_of(body):
    reader = EventReader()
    found = [*reader.feed(body.encode()), *reader.flush()]
    return [event for event in found if event.data != "[DONE]"]


def error_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


async def ask(bridge, path=CHAT, headers=None, **body):
    given = {"prompt": "hi"} if path == COMPLETIONS else {"messages": USER}
    async with client(bridge) as http:
        return await http.post(path, json={**given, **body}, headers=headers or {})


async def answered(bridge, **body):
    """Return an answer in a stream, and the same as one object."""
    stream = await ask(bridge, stream=True, **body)
    assert stream.text.endswith("data: [DONE]\n\n"), stream.text
    whole = await ask(bridge, **body)
    return read(stream.text), whole.json()["choices"][0]


# ---------------------------------------------------------------- text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cut", ["token", "byte", "random"])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_split_characters_arrive_whole(path, cut):
    text = TEXT + LANGUAGES * 3
    async with running() as bridge:
        (said, reasoning, calls, finish), whole = await answered(
            bridge, path=path, detok={"text": text, "cut": cut, "pace": 0}
        )
    assert said == text
    assert (reasoning, calls, finish) == ("", [], "stop")
    assert (whole["text"] if path == COMPLETIONS else whole["message"]["content"]) == text


async def test_the_real_bridge_answers_with_what_its_model_recites():
    served = Bridge()
    try:
        async with client(served) as http:
            [model] = (await http.get("/v1/models")).json()["data"]
            [first, *_] = (await http.get("/texts.json")).json()
            given = {"model": model["id"], "prompt": first["prompt"], "max_tokens": 2000}
            whole = (await http.post(COMPLETIONS, json=given)).json()
            usage = {"include_usage": True}
            stream = await http.post(
                COMPLETIONS, json={**given, "stream": True, "stream_options": usage}
            )
    finally:
        served.stop()
    assert first["text"].startswith(whole["choices"][0]["text"].rstrip()[:40])
    assert read(stream.text)[0] == whole["choices"][0]["text"]
    last = json.loads(events_of(stream.text)[-1].data)
    assert last["usage"] == whole["usage"]
    assert whole["usage"]["prompt_tokens"] > 0
    assert stream.headers["x-detok-fidelity"] == "bytes"


async def test_a_stop_string_is_never_half_shown():
    async with running() as bridge:
        (said, *_, finish), whole = await answered(
            bridge, stop=["\nUser:"], detok={"text": "fine\nUse it\nUser: no", "pace": 0}
        )
    assert (said, finish) == ("fine\nUse it", "stop")
    assert whole["message"]["content"] == "fine\nUse it"


async def test_an_answer_that_is_cut_short_says_so():
    async with running() as bridge:
        (said, *_, finish), whole = await answered(
            bridge, max_tokens=3, detok={"text": "abcdef", "pace": 0}
        )
    assert (said, finish, whole["finish_reason"]) == ("abc", "length", "length")


async def test_an_answer_may_fill_the_context_unless_it_is_bounded():
    """Chat UIs send no `max_tokens`, and reasoning is long."""
    engine = Silent()
    async with running(engine) as bridge:
        await ask(bridge)
        await ask(bridge, max_completion_tokens=7)
    seen = [(asked.sampling.max_tokens, "max_tokens" in asked.params) for asked in engine.asked]
    assert seen == [(32768, False), (7, True)]


# ---------------------------------------------------------------- reasoning and calls

CALL = '<think>日本?</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "東京"}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


async def test_reasoning_and_calls_are_deltas_of_their_own():
    async with running(FakeEngine([*ids_of(CALL), End("eos")])) as bridge:
        said, whole = await answered(bridge, tools=TOOLS)
    text, reasoning, [[call_id, name, arguments]], finish = said
    assert (text.strip(), reasoning, finish) == ("I look.", "日本?", "tool_calls")
    assert (name, json.loads(arguments)) == ("weather", {"city": "東京"})
    # Mistral's chat templates refuse other ids.
    assert (len(call_id), call_id.isalnum()) == (9, True)
    message = whole["message"]
    assert message["reasoning_content"] == reasoning
    assert message["tool_calls"][0]["function"] == {"name": name, "arguments": arguments}
    assert whole["finish_reason"] == "tool_calls"


async def test_without_tools_what_looks_like_a_call_is_text():
    async with running(FakeEngine([*ids_of(CALL), End("eos")])) as bridge:
        (text, _, calls, finish), _ = await answered(bridge)
    assert "<tool_call>" in text
    assert (calls, finish) == ([], "stop")


async def test_the_tools_reach_the_engine_in_its_own_request():
    engine = Silent()
    async with running(engine) as bridge:
        await ask(bridge, tools=TOOLS)
        await ask(bridge, tools=TOOLS, tool_choice="none")
    assert [asked.tools for asked in engine.asked] == [{"tools": TOOLS}, {}]


@contextlib.asynccontextmanager
async def engine_that_sends(answer):
    """Run a bridge whose engine parses its own text, and answers so."""
    table = {("GET", "/v1/models"): MODELS, ("POST", CHAT): answer}
    async with Replay(table) as server:
        async with running(OpenAIServer(check_address(server.url)), vocabulary=None) as bridge:
            yield bridge


def text_engine(*deltas, finish="tool_calls"):
    """Run a bridge whose engine parses its own text, and sends these deltas."""
    return engine_that_sends(of_chat(*deltas, finish=finish))


def piece(index, text, **head):
    function = {**head, "arguments": text}
    call_id = {"id": f"id-{index}", "type": "function"} if head else {}
    return {"tool_calls": [{"index": index, **call_id, "function": function}]}


REASONING_AGAIN = [
    *({"reasoning_content": "日本 </th"}, {"reasoning_content": "ink> \x10c"}),
    *({"content": "<think>4"}, {"content": "2 \x10"}, {"content": "r"}),
    *({"reasoning_content": "hm"}, {"content": "!"}, {"reasoning_content": "\x10"}),
]


async def test_what_a_text_engine_says_is_reasoning_is_all_that_is_reasoning():
    """Tags in it, or in the content, are text; it may come again after content, and between the
    pieces of a call.
    """
    call = [piece(0, '{"a":', name="f"), {"reasoning_content": "?"}, piece(0, '"\\u0010"}')]
    async with text_engine(*REASONING_AGAIN, *call) as bridge:
        (text, reasoning, calls, _), whole = await answered(bridge, tools=TOOLS)
        without_tools = (await answered(bridge))[0]
    assert without_tools[1] == reasoning
    assert without_tools[0].startswith(text + "<tool_call>")
    assert text == whole["message"]["content"] == "<think>42 \x10r!"
    assert reasoning == whole["message"]["reasoning_content"] == "日本 </think> \x10chm\x10?"
    assert calls == [["id-0", "f", '{"a":"\\u0010"}']]


@pytest.mark.parametrize("tools", [None, TOOLS])
async def test_content_before_reasoning_changes_nothing(tools):
    deltas = [
        *({"content": "Let me see <th"}, {"reasoning_content": "hm"}, {"content": "!"}),
        *({"content": "Write <think> first; then"}, {"content": " </think>."}),
    ]
    async with text_engine(*deltas, finish="stop") as bridge:
        (text, reasoning, _, finish), whole = await answered(bridge, tools=tools)
    assert (reasoning, finish) == ("hm", "stop")
    assert text == "Let me see <th!Write <think> first; then </think>."
    assert whole["message"]["content"] == text


async def test_halves_of_a_pair_in_a_call_that_waits_are_joined():
    deltas = [
        *(piece(0, '{"a":', name="f"), piece(1, '{"b":"\ud83d', name="g")),
        *(piece(1, '\ude00"}'), piece(0, "1}")),
    ]
    async with text_engine(*deltas) as bridge:
        (_, _, calls, _), _ = await answered(bridge, tools=TOOLS)
    assert [call[2] for call in calls] == ['{"a":1}', '{"b":"😀"}']


async def test_reasoning_that_a_text_engine_leaves_in_its_text_is_found():
    async with text_engine({"content": "<think>日本</thi"}, {"content": "nk>4"}) as bridge:
        (text, reasoning, _, _), whole = await answered(bridge)
    assert (text, reasoning) == ("4", "日本")
    assert whole["message"] == {"role": "assistant", "content": "4", "reasoning_content": "日本"}


async def test_calls_of_a_text_engine_whose_pieces_interleave_stay_apart_and_keep_their_ids():
    deltas = [
        *(piece(0, "", name="f"), piece(1, "", name="g")),
        *(piece(0, '{"a":'), piece(1, '{"b":'), piece(0, '"0"}'), piece(1, '"1"}')),
    ]
    async with text_engine(*deltas) as bridge:
        said, whole = await answered(bridge, tools=TOOLS)
    assert said[0].strip() == ""
    assert said[2] == [["id-0", "f", '{"a":"0"}'], ["id-1", "g", '{"b":"1"}']]
    assert whole["message"]["content"] is None
    calls = [(c["id"], c["function"]["arguments"]) for c in whole["message"]["tool_calls"]]
    # Its chat template may refuse other ids when the calls come back.
    assert calls == [("id-0", '{"a":"0"}'), ("id-1", '{"b":"1"}')]


@pytest.mark.parametrize("cut", ['{"a": "x', '{"a": "x", ', '{"a": {"b": 1}'])
async def test_the_arguments_of_a_call_that_is_cut_have_no_tag(cut):
    async with text_engine(piece(0, cut, name="f"), finish="length") as bridge:
        (text, _, calls, finish), whole = await answered(bridge, tools=TOOLS)
    assert (text, calls, finish) == ("", [["id-0", "f", cut]], "length")
    assert whole["message"]["tool_calls"][0]["function"]["arguments"] == cut
    assert whole["finish_reason"] == "length"


def test_text_after_a_call_that_broke_off_comes_behind_its_tag():
    tags = Tags("tags")
    call, text = piece(0, '{"a": 1', name="f"), {"content": "Sorry."}
    said = [tags.feed(read_event({"choices": [{"delta": delta}]})) for delta in (call, text)]
    assert said[1] == "</tool_call>Sorry."
    assert tags.flush() == ""


async def test_the_ids_of_calls_differ_and_are_the_same_for_every_reader():
    written = ['{"name": "now"}'] * 2 + ['{"name": "now", "arguments": {}}']
    text = "".join(f"<tool_call>\n{call}\n</tool_call>" for call in written)
    async with running(FakeEngine([*ids_of(text), End("eos")])) as bridge:
        answers = [await ask(bridge, tools=TOOLS, stream=True, headers=NAMED) for _ in range(2)]
    calls, again = [read(answer.text)[2] for answer in answers]
    assert calls == again
    # Arguments that are left out are an empty object too.
    assert [call[1:] for call in calls] == [["now", "{}"]] * 3
    ids = {call[0] for call in calls}
    assert len(ids) == 3
    assert all(len(one) == 9 and one.isalnum() for one in ids)


# ---------------------------------------------------------------- models and errors


async def test_the_models_are_those_of_the_engines():
    other = AttachedEngine("other", ScriptedEngine(lambda: None))
    async with running(others=[other]) as bridge, client(bridge) as http:
        models = (await http.get("/v1/models")).json()
        assert [one["id"] for one in models["data"]] == ["first", "other"]
        assert (await http.get("/v1/models/other")).json() == models["data"][1]
        assert error_of(await http.get("/v1/models/none")) == (404, "model_not_found")
        answer = (await ask(bridge, model="other", detok={"text": "é"})).json()
        assert (answer["model"], answer["choices"][0]["message"]["content"]) == ("other", "é")
        refused = await ask(bridge, model="gpt-5")
        assert error_of(refused) == (404, "model_not_found")
        assert "gpt-5" not in refused.text


WRONG = {
    "no messages": ({"messages": []}, "messages"),
    "a message that is no object": ({"messages": ["hi"]}, "messages"),
    "two answers": ({"n": 2}, "n"),
    "log probabilities": ({"logprobs": True}, "logprobs"),
    "a stop that is no string": ({"stop": [1]}, "stop"),
    "tools without names": ({"tools": [{"type": "function"}]}, "tools"),
    "a model that is no string": ({"model": 7}, "model"),
    "a script with another word": ({"detok": {"x": 1}}, "detok"),
    "a temperature beyond 100": ({"temperature": 1000}, "temperature"),
    "no token": ({"max_tokens": 0}, "max_tokens"),
    "the log probability of tokens alone": ({"logprobs": 0}, "logprobs"),
    "no token of an answer": ({"max_completion_tokens": 0}, "max_completion_tokens"),
    "a seed that is no number": ({"seed": "1"}, "seed"),
    "stops of too many characters": ({"stop": ["a" * 5000, "b" * 5000]}, "stop"),
    "a role that is no string": ({"messages": [{"role": 5, "content": "hi"}]}, "messages"),
    "a message without a role": ({"messages": [{"content": "hi"}]}, "messages"),
    **{
        f"a tool with the parameters {parameters}": (
            {"tools": [{"function": {"name": "f", "parameters": parameters}}]},
            "tools",
        )
        for parameters in (5, "x", {"properties": 5})
    },
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", list(WRONG))
async def test_a_wrong_parameter_is_named(kind):
    body, param = WRONG[kind]
    async with running() as bridge:
        for stream in (True, False):
            answer = await ask(bridge, stream=stream, **body)
            error = answer.json()["error"]
            assert (answer.status_code, error["type"]) == (400, "invalid_request_error")
            assert error["param"] == param
            assert answer.headers["x-should-retry"] == "false"


async def test_what_has_no_effect_is_named_in_a_header_unless_it_is_done_anyway():
    plain = {
        "n": 1,
        "temperature": 1,
        "frequency_penalty": 0,
        "logit_bias": {},
        "stop": None,
        "response_format": {"type": "text"},
        "parallel_tool_calls": True,
        "logprobs": False,
        "repetition_penalty": 1.0,
        "skip_special_tokens": True,
        "modalities": ["text"],
        "user": "me",
    }
    other = {
        "response_format": {"type": "json_object"},
        "repetition_penalty": 1.1,
        "presence_penalty": 1,
    }
    async with running() as bridge:
        assert "x-detok-ignored" not in (await ask(bridge, **plain)).headers
        ignored = (await ask(bridge, **{**plain, **other})).headers["x-detok-ignored"]
    assert set(ignored.split(", ")) == set(other)


async def test_seeds_of_64_bits_and_a_top_k_of_minus_1_are_taken():
    engine = Silent()
    async with running(engine) as bridge:
        for seed in (-1, 1 << 40, -(1 << 63), 7):
            assert (await ask(bridge, seed=seed, top_k=-1)).status_code == 200
    seen = [(asked.sampling.seed, asked.sampling.top_k) for asked in engine.asked]
    assert seen == [((1 << 32) - 1, None), (0, None), (0, None), (7, None)]


async def test_tools_may_have_no_parameters():
    async with running() as bridge:
        for parameters in (None, {}, [], {"properties": None}, {"properties": []}):
            tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
            assert (await ask(bridge, tools=tools, detok={"text": "a"})).status_code == 200


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"a": NaN}', b"\xff", b'{"a":' + b"[" * 90 + b"]" * 90 + b"}"]
)
async def test_a_body_that_is_no_json_object_is_refused(body):
    async with running() as bridge, client(bridge) as http:
        answer = await http.post(CHAT, content=body, headers=JSON)
        assert error_of(answer) == (400, "invalid_json")


async def test_a_body_that_is_too_large_or_of_another_type_is_refused():
    async with running() as bridge, client(bridge) as http:
        for body in (b"x" * ((1 << 20) + 1), chunks_of(b"x" * 4096, 300)):
            answer = await http.post(CHAT, content=body, headers=JSON)
            assert error_of(answer) == (413, "body_too_large")
        kind = {"content-type": "Application/JSON; charset=utf-8"}  # RFC 9110, 8.3.1
        assert error_of(await http.post(CHAT, content=b"{}", headers=kind))[0] == 400
        answer = await http.post(CHAT, content=b"{}", headers={"content-type": "text/plain"})
        assert error_of(answer) == (415, "unsupported_media_type")
        assert bridge.bridge.crowded is False


async def chunks_of(piece, count):
    for _ in range(count):
        yield piece
        await asyncio.sleep(0)


async def test_a_body_that_does_not_come_holds_its_place_for_a_moment_only(monkeypatch):
    monkeypatch.setattr(openai_exit, "BODY_SECONDS", 1.5)  # a busy machine asks late
    refused = asyncio.Event()

    async def slow_body():
        while not refused.is_set():
            yield b" "
            await asyncio.sleep(0.05)

    async with running(max_clients=1) as bridge, client(bridge) as http:
        slow = [
            asyncio.create_task(http.post(CHAT, content=slow_body(), headers=JSON))
            for _ in range(9)
        ]
        await eventually(lambda: bridge.bridge.crowded)
        assert error_of(await ask(bridge)) == (429, "too_many_clients")
        await eventually(lambda: bridge.bridge._sockets == 0)
        refused.set()  # the clients are still sending when their answers come
        for answer in await asyncio.gather(*slow):
            assert error_of(answer) == (408, "timeout")
        assert (await ask(bridge, detok={"text": "a"})).status_code == 200


async def test_a_body_that_goes_on_behind_its_refusal_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(protocols, "HEAD_SECONDS", 0.3)
    async with running() as bridge:
        reader, writer = await asyncio.open_connection("127.0.0.1", bridge.port)
        head = f"POST {CHAT} HTTP/1.1\r\nHost: {bridge.host}\r\nContent-Length: 9999\r\n\r\n"
        writer.write(head.encode())
        assert b" 415 " in await reader.readline()
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        assert writer.is_closing() or reader.at_eof()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_an_unknown_route_or_method_is_an_error_in_the_same_shape():
    async with running() as bridge, client(bridge) as http:
        assert error_of(await http.post("/v1/embeddings", json={})) == (404, "unknown_route")
        for path in ("/v1", "/v1/"):
            assert error_of(await http.get(path)) == (404, "unknown_route")
            assert error_of(await http.post(path, json={})) == (404, "unknown_route")
            assert error_of(await http.request("PUT", path)) == (405, "method_not_allowed")
        assert error_of(await http.get(CHAT)) == (405, "method_not_allowed")
        assert error_of(await http.request("DELETE", CHAT)) == (405, "method_not_allowed")
        assert (await http.post("/info", json={})).status_code == 405


FAILURES = {
    "down": ([EngineError("No engine answers.")], 503, "engine_down", "true"),
    "refused": (
        [EngineError("Too long.", code=wire.BAD_MESSAGE, retry=False)],
        400,
        "bad_request",
        "false",
    ),
    "too long": (
        [ContextFull(NO_ROOM_FOR_PROMPT, code=wire.BAD_MESSAGE, retry=False)],
        400,
        "context_length_exceeded",
        "false",
    ),
}


@pytest.mark.parametrize("kind", list(FAILURES))
async def test_an_engine_that_fails_before_its_first_token_has_a_status(kind):
    steps, status, code, retry = FAILURES[kind]
    for stream in (True, False):
        async with running(FakeEngine(steps)) as bridge:
            answer = await ask(bridge, stream=stream)
        assert error_of(answer) == (status, code)
        assert answer.headers["x-should-retry"] == retry


@pytest.mark.parametrize("said", ["17", "Wed, 21 Oct 2026 07:28:00 GMT", None])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_rate_limit_of_the_engine_is_passed_on_as_its_own(stream, said):
    headers = () if said is None else [("retry-after", said)]
    refusal = Answer({"error": {"message": "Slow."}}, status=429, headers=headers)
    async with engine_that_sends(refusal) as bridge:
        answer = await ask(bridge, stream=stream)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (429, "rate_limit_exceeded")
    assert error["type"] == "rate_limit_error"
    assert "is busy (429)" in error["message"]
    assert answer.headers["x-should-retry"] == "true"
    assert answer.headers["retry-after"] == ("17" if said == "17" else "1")


async def test_an_engine_that_is_lost_in_mid_answer_ends_the_stream_with_an_error():
    steps = [*ids_of("caf\xe9"), EngineError("The engine was lost.")]
    async with running(FakeEngine(steps)) as bridge:
        stream = await ask(bridge, stream=True)
        whole = await ask(bridge)
    events = [json.loads(event.data) for event in events_of(stream.text)]
    assert read(stream.text)[0] == "café"
    assert events[-1]["error"]["message"] == "The engine was lost."
    assert "[DONE]" not in stream.text
    assert error_of(whole) == (503, "engine_down")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_named_run_that_failed_before_its_first_token_begins_again(stream):
    class Engine(FakeEngine):
        asked = 0

        async def generate(self, request):
            self.asked += 1
            if self.asked == 1:
                raise EngineError("The engine is not ready.")
            yield Raw(b"ab")
            if self.asked == 2:
                raise EngineError("The engine was lost.")

    engine = Engine([], gives="text")
    async with running(engine) as bridge:
        failed = await ask(bridge, stream=stream, headers=NAMED)
        assert (error_of(failed), failed.headers["x-should-retry"]) == (
            (503, "engine_down"),
            "true",
        )
        # A part of it is kept for a client that comes back.
        for _ in range(2):
            assert "The engine was lost." in (await ask(bridge, stream=True, headers=NAMED)).text
        again = await ask(bridge, headers=NAMED)
        assert (error_of(again), again.headers["x-should-retry"]) == ((503, "engine_down"), "false")
    assert engine.asked == 2


async def test_an_engine_that_is_still_opening_is_not_answered_for(monkeypatch):
    monkeypatch.setattr("detok_py.bridge.openai_exit.HELLO_SECONDS", 0.05)
    opens = asyncio.Event()

    class Engine(FakeEngine):
        async def open(self):
            await opens.wait()

    async with running(Engine([Raw(b"a"), End("eos")], gives="text")) as bridge:
        early = await ask(bridge)
        opens.set()
        await eventually(lambda: bridge.bridge.first.opened)
        assert (await ask(bridge)).status_code == 200
    assert (error_of(early), early.headers["x-should-retry"]) == ((503, "engine_down"), "true")


async def test_a_named_run_that_failed_when_nobody_was_there_begins_again():
    left = asyncio.Event()

    class Engine(FakeEngine):
        asked = 0

        async def generate(self, request):
            self.asked += 1
            if self.asked == 1:
                await left.wait()
                raise EngineError("The engine is not ready.")
            yield Raw(b"ab")
            yield End("eos")

    engine = Engine([], gives="text")
    async with running(engine) as bridge:
        client = asyncio.create_task(ask(bridge, stream=True, headers=NAMED))
        await eventually(lambda: engine.asked == 1)
        client.cancel()
        await asyncio.wait([client])
        await eventually(lambda: bridge.bridge._sockets == 0)
        left.set()
        [run] = bridge.bridge.store.runs.by_id.values()
        await eventually(lambda: run.log.end is not None)
        assert read((await ask(bridge, stream=True, headers=NAMED)).text)[0] == "ab"


async def test_a_scripted_text_has_the_fidelity_of_its_cut():
    async with running() as bridge:
        for cut, fidelity in (("token", "ids"), ("byte", "bytes"), ("random", "bytes")):
            script = {"engine": "scripted", "text": "é", "cut": cut, "pace": 0}
            answer = await ask(bridge, detok=script)
            assert answer.headers["x-detok-fidelity"] == fidelity


async def test_text_that_was_decoded_elsewhere_is_marked():
    async with running(FakeEngine([Raw("caf�".encode()), End("eos")], gives="text")) as bridge:
        answer = await ask(bridge, stream=True)
        assert answer.headers["x-detok-fidelity"] == "text"
        assert read(answer.text)[0] == "caf�"


async def test_ids_without_a_vocabulary_are_refused():
    async with running(FakeEngine([Ids([1]), End("eos")]), vocabulary=None) as bridge:
        assert error_of(await ask(bridge)) == (503, "no_vocabulary")


# ---------------------------------------------------------------- clients that leave


async def test_a_client_that_leaves_cancels_its_run():
    engine = FakeEngine([*ids_of("ab"), 3600])
    for stream in (True, False):
        async with running(engine) as bridge, client(bridge) as http:
            asked = {"messages": USER, "stream": stream}
            task = asyncio.create_task(first_of(http, asked))
            await eventually(lambda: bridge.bridge.jobs and engine.given >= 2)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await eventually(lambda b=bridge.bridge: not b.jobs and not b.store.runs.by_id)
            assert bridge.bridge.clients == 0
        engine.given = 0
    assert engine.closed == 2


async def first_of(http, body, headers=None, size=1 << 30):
    """Read a stream up to a number of bytes, then leave."""
    data = b""
    with contextlib.suppress(httpx.TransportError):  # the connection was cut
        async with http.stream("POST", CHAT, json=body, headers=headers or {}) as answer:
            async for piece in answer.aiter_raw():
                data += piece
                if len(data) >= size:
                    break
    return data[:size]


def said_in(events):
    found = [json.loads(one) for one in events]
    said = read("".join(f"data: {json.dumps(one)}\n\n" for one in found))
    calls = [call[1:] for call in said[2]]  # the id is that of the run
    return said[0], said[1], calls, said[3], [one["usage"] for one in found if one.get("usage")]


async def test_a_run_outlives_its_connection_and_is_begun_once():
    engine = FakeEngine([*ids_of("日本"), 0.2, *ids_of("語"), End("eos")])
    async with running(engine) as bridge, client(bridge) as http:
        await first_of(http, STREAM, NAMED, 1)
        whole = await http.post(CHAT, json={"messages": USER}, headers=NAMED)
        assert whole.json()["choices"][0]["message"]["content"] == "日本語"
        again = await http.post(CHAT, json={"messages": USER}, headers=NAMED)
        assert again.json()["choices"] == whole.json()["choices"]
        assert engine.closed == 1
        # Another request has another run, also with the same id.
        await http.post(CHAT, json={"messages": USER, "stop": "x"}, headers=NAMED)
        assert engine.closed == 2


async def test_a_run_that_is_gone_is_not_begun_again():
    async with running(FakeEngine([*ids_of("ab"), End("eos")])) as bridge:
        gone = await ask(bridge, headers={**NAMED, "last-event-id": "2"}, stream=True)
        assert error_of(gone) == (410, "run_expired")
        for headers, code in (
            ({"x-detok-run": "short"}, "invalid_run"),
            ({**NAMED, "last-event-id": "x"}, "invalid_event_id"),
        ):
            assert error_of(await ask(bridge, headers=headers)) == (400, code)
        first = await ask(bridge, headers=NAMED, stream=True)
        assert read(first.text)[0] == "ab"
        beyond = await ask(bridge, headers={**NAMED, "last-event-id": "99"}, stream=True)
        assert error_of(beyond) == (410, "run_expired")
        for rest in ({"after": 2}, {"after": "2"}):  # behind the role and one character
            of_it = await ask(bridge, headers=NAMED, stream=True, **rest)
            assert read(of_it.text)[0] == "b"
        wrong = await ask(bridge, headers=NAMED, after=-1)
        assert error_of(wrong) == (400, "invalid_event_id")


@pytest.mark.parametrize("gives", ["ids", "bytes", "text"])
@pytest.mark.parametrize("ends", [True, False])
async def test_the_usage_behind_a_stop_string_is_the_same_when_a_run_is_read_again(gives, ends):
    tokens = [Ids([b]) if gives == "ids" else Raw(bytes([b]), 1) for b in b"one STOP and more"]
    engine = FakeEngine([*tokens, End("eos", None, 5, 17) if ends else 3600], gives)
    asked = {"stream": True, "stop": "STOP", "stream_options": {"include_usage": True}}
    async with running(engine) as bridge:
        first, again = [await ask(bridge, headers=NAMED, **asked) for _ in range(2)]
        rest = await ask(bridge, headers=NAMED, after=2, **asked)
        whole = await ask(bridge, headers=NAMED, **{**asked, "stream": False})
    usages = [json.loads(events_of(one.text)[-1].data)["usage"] for one in (first, again, rest)]
    assert usages[0] == (None if gives == "text" else {"completion_tokens": 8})
    assert usages[1:] == [usages[0]] * 2
    assert whole.json().get("usage") == usages[0]
    assert read(rest.text)[0] == "ne "


class Endless(FakeEngine):
    """Says a kilobyte at a time, for ever."""

    async def generate(self, request):
        while True:
            self.given += 1
            yield Raw(b"x" * 1000)
            await asyncio.sleep(0)


async def test_a_client_that_does_not_read_makes_the_engine_wait():
    engine = Endless([], gives="text")
    async with running(engine) as bridge, client(bridge) as http:
        async with http.stream("POST", CHAT, json=STREAM):
            before = -1
            while engine.given != before:  # the buffers of the system are full some time
                before = engine.given
                await asyncio.sleep(0.2)
        await eventually(lambda: not bridge.bridge.jobs)
    assert engine.given < 20_000


async def read_slowly(bridge, body, headers=""):
    """Return the bytes of a response that is read much more slowly than the engine writes."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", bridge.port))
        data = json.dumps(body)
        head = f"POST {CHAT} HTTP/1.1\r\nHost: {bridge.host}\r\nContent-Length: {len(data)}\r\n"
        head += f"{headers}Content-Type: application/json\r\nConnection: close\r\n\r\n"
        await loop.sock_sendall(sock, (head + data).encode())
        await asyncio.sleep(0.5)
        out = b""
        while new := await loop.sock_recv(sock, 8192):
            out += new
            await asyncio.sleep(0.005)
    return out


ENDS = {
    "the engine": ([End("eos")], b"data: [DONE]"),
    "a stop string": ([Raw(b"THE LAST WORDS. STOP"), End("eos")], b"LAST WORDS"),
    "an error": ([EngineError("The engine was lost.")], b"The engine was lost."),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("headers", ["", f"X-Detok-Run: {RUN}\r\n"])
@pytest.mark.parametrize("end", list(ENDS))
async def test_a_client_that_reads_slowly_gets_the_end(end, headers):
    steps, last = ENDS[end]
    text = [Raw(f"{n:06d} ".encode() * 1400) for n in range(60)]
    async with running(FakeEngine([*text, *steps], gives="text")) as bridge:
        bridge.server.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        body = {**STREAM, "stop": "STOP"}
        response = await read_slowly(bridge, body, headers)
    assert last in response
    assert response.endswith(b"\r\n0\r\n\r\n")


async def test_a_reader_whose_run_another_takes_is_not_to_ask_again():
    engine = FakeEngine([*ids_of("ab"), 3600])
    async with running(engine) as bridge:
        first = asyncio.create_task(ask(bridge, headers=NAMED))
        await eventually(lambda: engine.given >= 2)
        other = asyncio.create_task(ask(bridge, headers=NAMED))
        answer = await asyncio.wait_for(first, 10)
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
    assert error_of(answer) == (409, "run_taken")
    assert answer.headers["x-should-retry"] == "false"


async def test_every_event_is_one_line_also_for_clients_that_split_at_other_line_ends():
    text = "one\u2028two\u2029three\x85four"
    async with running() as bridge:
        answer = await ask(bridge, stream=True, detok={"text": text, "pace": 0})
    found = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    deltas = [json.loads(one)["choices"][0]["delta"] for one in found]
    assert "".join([delta.get("content", "") for delta in deltas]) == text


async def test_a_silent_engine_keeps_its_connection(monkeypatch):
    """Proxies close connections on which nothing comes."""
    monkeypatch.setattr(openai_exit, "SILENT_SECONDS", 0.02)
    async with running(FakeEngine([0.2, *ids_of("é"), EngineError("Lost.")])) as bridge:
        answer = await ask(bridge, stream=True)
        whole = await ask(bridge)
    assert answer.text.startswith(": ")
    assert read(answer.text)[0] == "é"
    # The status was sent with the first comment, so the error is an event.
    assert "Lost." in answer.text
    assert whole.status_code == 503


async def test_a_bridge_that_stops_says_so_and_waits_for_nobody():
    engine = FakeEngine([*ids_of("é"), 3600])
    async with running(engine) as bridge, client(bridge) as http:
        reading = asyncio.create_task(first_of(http, STREAM))
        whole = asyncio.create_task(ask(bridge))
        await eventually(lambda: engine.given >= 4)
        bridge.server.stop()
        stream = (await asyncio.wait_for(reading, 2)).decode()
        assert error_of(await asyncio.wait_for(whole, 2)) == (503, "stopping")
    assert read(stream)[0] == "é"
    assert "This bridge is stopping." in stream


async def test_a_bridge_that_drains_finishes_what_nobody_can_come_back_for():
    engine = FakeEngine([*ids_of("日"), 0.3, *ids_of("本"), End("eos")])
    async with running(engine) as bridge, client(bridge) as http:
        stays = asyncio.create_task(first_of(http, STREAM))
        leaves = asyncio.create_task(first_of(http, STREAM, NAMED))
        await eventually(lambda: engine.given >= 6)
        await bridge.bridge.drain(10)
        assert read((await stays).decode())[0] == "日本"
        assert "This bridge is stopping." in (await leaves).decode()
        assert error_of(await ask(bridge)) == (503, "stopping")


# ---------------------------------------------------------------- who may ask


async def test_who_may_ask_is_as_for_the_socket():
    async with running(gate={"token": "secret", "allowed": ["http://localhost:3000"]}) as bridge:
        for headers, status, code in (
            ({}, 401, "invalid_api_key"),
            ({"authorization": "Bearer wrong"}, 401, "invalid_api_key"),
            ({"authorization": "Bearer secret"}, 200, None),
            (
                {"authorization": "Bearer secret", "origin": "http://evil.test"},
                403,
                "origin_refused",
            ),
            ({"authorization": "Bearer secret", "host": "evil.test"}, 421, "refused"),
        ):
            answer = await ask(bridge, headers=headers, detok={"text": "a"})
            assert answer.status_code == status
            assert "access-control-allow-origin" not in answer.headers
            if code:
                assert error_of(answer) == (status, code)


async def test_a_page_of_an_allowed_origin_may_post():
    origin = "http://localhost:3000"
    async with running(gate={"allowed": [origin]}) as bridge, client(bridge) as http:
        asks = "authorization, content-type, x-stainless-os"
        preflight = await http.options(
            CHAT,
            headers={
                "origin": origin,
                "access-control-request-method": "POST",
                "access-control-request-headers": asks,
            },
        )
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-headers"] == asks
        assert "POST" in preflight.headers["access-control-allow-methods"]
        answer = await ask(bridge, headers={"origin": origin}, detok={"text": "a"})
        assert answer.headers["access-control-allow-origin"] == origin


async def test_a_client_beyond_the_places_is_refused_with_429():
    engine = FakeEngine([*ids_of("a"), 3600])
    async with running(engine, max_clients=1) as bridge, client(bridge) as http:
        task = asyncio.create_task(first_of(http, STREAM))
        await eventually(lambda: engine.given)
        refused = await ask(bridge)
        assert error_of(refused) == (429, "too_many_clients")
        assert refused.headers["retry-after"] == "1"
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
