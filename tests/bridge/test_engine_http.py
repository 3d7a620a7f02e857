"""Towards engines: which addresses are taken, and what a hostile engine can't do."""

import asyncio
import contextlib
import socket

import pytest
from engine_replay import Answer, Replay, events
from hypothesis import given
from hypothesis import strategies as st
from tcp_server import TCPServer
from test_bridge_gate import memory
from test_engine_replay import chunks_of, openai

from detok_py.bridge.engines import End, EngineError, http
from detok_py.bridge.engines.address import AddressError, check_address
from detok_py.bridge.engines.http import EngineClient
from detok_py.bridge.engines.openai import OpenAIServer
from detok_py.bridge.engines.text import Surrogates

pytestmark = pytest.mark.native


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080",
        "http://localhost:8080/",
        "https://127.0.0.1",
        "http://[::1]:8080/engine/",
    ],
)
def test_an_engine_on_this_machine_is_allowed(url):
    assert check_address(url).base.startswith(url.split("://")[0] + "://")


def test_a_name_is_resolved_once_and_pinned(monkeypatch):
    asked = []

    def resolve(host, port, type):
        asked.append(host)
        return [
            (socket.AF_INET, type, 6, "", ("127.0.0.1" if len(asked) == 1 else "192.0.2.1", port))
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    address = check_address("http://engine.test:8080/llm/v1/")
    assert address.base == "http://127.0.0.1:8080/llm"
    assert address.host == "engine.test:8080"
    assert asked == ["engine.test"]


def test_a_name_with_one_address_elsewhere_is_refused(monkeypatch):
    both = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 80)) for ip in ("127.0.0.1", "192.0.2.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    with pytest.raises(AddressError, match="not on this machine"):
        check_address("http://engine.test/")


async def test_a_redirect_is_refused_and_never_followed():
    async with Replay({}) as elsewhere:
        for status in (301, 302, 303, 307, 308):
            to = Answer({}, status=status, headers=[("location", elsewhere.url + "/props")])
            async with Replay({("GET", "/props"): to}) as server:
                client = EngineClient(check_address(server.url))
                with pytest.raises(EngineError, match="redirects"):
                    await client.get("/props")
                await client.close()
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[fe80::1]/",
        "http://[2002:7f00:1::]/",
        "http://192.168.1.1/",
        "http://0.0.0.0/",
        "http://[::]/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.1.:80/x y",
        "http://user@127.0.0.1/",
        "http://user:canary@127.0.0.1/",
        "http://127.0.0.1@192.0.2.1/",
        "file:///etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1/",
        "unix:///run/engine.sock",
        "//127.0.0.1/",
        "127.0.0.1:8080",
        "http://",
        "http:///x",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:8080/?x=1",
        "http://127.0.0.1:8080/#x",
        "http://127.0.0.1\\@evil.test/",
        "http://127.0.0.1\r\nX: y/",
        "http://a..b:80/",
        "http://" + "a" * 64 + ".test/",
        "",
    ],
)
def test_an_address_outside_this_machine_is_refused_in_one_sentence(url):
    with pytest.raises(AddressError) as caught:
        check_address(url)
    assert "canary" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://[fe80::1]/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://[::ffff:192.0.2.1]/",
    ],
)
def test_link_local_and_odd_addresses_are_refused_even_where_remote_engines_are_allowed(url):
    with pytest.raises(AddressError):
        check_address(url, allow_remote=True)


def test_a_remote_engine_is_allowed_on_request():
    assert check_address("http://192.0.2.7:8000", allow_remote=True).base == "http://192.0.2.7:8000"


class Endless(TCPServer):
    """Sends `body` again and again, with a pause between, as an answer of a hundred mebibytes;
    `sent` counts.
    """

    def __init__(self, body, pause=0.0):
        self.body, self.pause, self.sent = body, pause, 0

    async def serve(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n")
            while True:
                writer.write(self.body)
                await writer.drain()
                self.sent += 1
                await asyncio.sleep(self.pause)


async def failure(server, what):
    """Return what the client of an engine raises while it reads events, or an answer."""
    client = EngineClient(check_address(f"http://127.0.0.1:{server.port}"))
    with pytest.raises(EngineError) as caught:
        if what == "events":
            async for _ in client.events("/completion", {}, max_tokens=5):
                pass
        else:
            await client.get("/props")
    await client.close()
    return str(caught.value)


@pytest.mark.parametrize(
    ("what", "mebibytes", "said"),
    [("events", 16, "more than 4 MiB without an event"), ("answer", 160, "over 65536 KiB")],
)
async def test_a_hundred_mebibytes_without_a_line_end_are_a_typed_error_in_little_memory(
    what, mebibytes, said, monkeypatch
):
    monkeypatch.setattr(http, "MAX_ANSWER", 64 << 20)
    before = memory()
    async with Endless(b"a" * (1 << 20)) as server:
        assert said in await failure(server, what)
        assert memory() - before < mebibytes << 10
        assert server.sent < 100


@pytest.mark.parametrize(
    "line", [b"data:\n", b"data: x\n", b":\n", b"\r\n", b"x: y\n", b"data: {}\n\n"]
)
async def test_endless_lines_are_a_typed_error(line, monkeypatch):
    monkeypatch.setattr(http, "MAX_EVENT", 1 << 16)
    monkeypatch.setattr(http, "MORE_EVENTS", 1000)
    async with Endless(line * 1000) as server:
        said = await asyncio.wait_for(failure(server, "events"), 60)
    assert ("far more events" if b"{}" in line else "MiB without an event") in said


@pytest.mark.parametrize(
    ("what", "said"), [("events", "no event for"), ("answer", "more than 0.3")]
)
async def test_an_engine_that_says_little_for_too_long_is_a_typed_error(what, said, monkeypatch):
    monkeypatch.setattr(http, "EVENT_SECONDS", 0.3)
    monkeypatch.setattr(http, "ANSWER_SECONDS", 0.05)
    async with Endless(b":\n", pause=0.01) as server:
        assert said in await asyncio.wait_for(failure(server, what), 60)
        assert server.sent > 3


@pytest.mark.parametrize(
    "body",
    [
        b"data: {\n\n",
        b"data: " + b"[" * 5000 + b"\n\n",
        b"data: \xff\xfe\n\n",
        b"data: nothing\n\n",
        b"data: {'a':1}\n\n",
    ],
)
async def test_an_event_that_is_not_json_is_a_typed_error(body):
    answer = Answer(body, kind="text/event-stream")
    with pytest.raises(EngineError, match="not JSON"):
        await chunks_of(OpenAIServer, {**openai(), ("POST", "/v1/completions"): answer})


@pytest.mark.parametrize(
    "event",
    [
        *("1", "[]", '"text"', "null", '{"choices":7}', '{"choices":[null]}'),
        *('{"choices":[{"text":7}]}', '{"choices":{}}'),
    ],
)
async def test_an_event_of_another_shape_is_skipped_or_a_typed_error(event):
    answer = events(event, '{"choices":[{"text":"a","finish_reason":"stop"}]}')
    with contextlib.suppress(EngineError):
        chunks = await chunks_of(OpenAIServer, {**openai(), ("POST", "/v1/completions"): answer})
        assert chunks[-1] == End("eos")


@given(st.lists(st.text(st.sampled_from("a\ud83c\udf26é"), max_size=4), max_size=12))
def test_surrogates_are_joined_as_utf_16_would(parts):
    s = Surrogates()
    got = b"".join([s.feed(part) for part in parts]) + s.flush()
    joined = "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert got.decode("utf-8") == joined
