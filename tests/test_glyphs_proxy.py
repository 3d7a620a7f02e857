"""The chaos proxy: other pieces, the same bytes; and what they say."""

import contextlib
import gzip
import http.client
import json
import random
import socket
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from detok_py.glyphs.proxy import ChaosProxy, ProxyError, Recut, SentText, origin_of, text_of

TEXT = "Grüße 東京 👋🏽 ภาษาไทย 龜龜 \ufffd ende"
pytestmark = pytest.mark.native


def sse(text: str, size: int = 3) -> bytes:
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    return (
        b"".join([b"data: " + json.dumps({"choices": [{"delta": {"content": p}}]}).encode() + b"\n\n" for p in parts]) + b"data: [DONE]\n\n"
    )


class EngineRequest(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers.items())))
        self.server.sockets.add(self.client_address)
        kind, _, form = self.path.strip("/").partition("/")
        body = {
            "sse": sse(TEXT),
            "text": TEXT.encode(),
            "ndjson": json.dumps({"message": {"content": TEXT}}, ensure_ascii=False).encode() + b"\n",
        }.get(kind)
        if body is None:
            self.plain(404, "text/html", b"<p>no such page</p>")
            return
        types = {"sse": "text/event-stream", "text": "text/plain; charset=utf-8", "ndjson": "application/x-ndjson"}
        if form == "length":
            self.plain(200, types[kind], body)
            return
        self.send_response(200)
        self.send_header("content-type", types[kind])
        if form == "gzip":
            body = gzip.compress(body)
            self.send_header("content-encoding", "gzip")
        if form == "close":
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for i in range(0, len(body), 50):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(body[i : i + 50]), body[i : i + 50]))
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        self.plain(200, "application/json", data)

    def plain(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def engine():
    server = ThreadingHTTPServer(("127.0.0.1", 0), EngineRequest)
    server.daemon_threads = True
    server.seen, server.sockets = [], set()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=20) as answer:
        return answer.read()


@pytest.mark.parametrize("split", ["every-byte", "token", "random:1", "random:2", "none"])
def test_a_recut_changes_no_byte(split):
    data = random.Random(4).randbytes(2000) + sse(TEXT)
    recut = Recut(split)
    assert b"".join([piece for chunk in (data[:700], b"", data[700:]) for piece, _ in recut.feed(chunk)]) == data


def test_the_same_seed_cuts_the_same_way():
    cuts = [[piece for piece, _ in Recut(f"random:{seed}").feed(TEXT.encode() * 3)] for seed in (5, 5, 6)]
    assert cuts[0] == cuts[1] != cuts[2]


def test_a_cut_matters_inside_a_character_and_inside_an_escape_and_between_lines():
    matters = {piece_end: m for piece_end, (_, m) in enumerate(Recut("every-byte").feed("a漢\n\\u6f22z".encode()), 1)}
    assert [at for at, m in matters.items() if m] == [2, 3, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("split", ["every-bytes", "random:x", "token:3"])
def test_an_unknown_split_is_refused_in_a_sentence(split):
    with pytest.raises(ProxyError, match="random:"):
        ChaosProxy(split=split)


@pytest.mark.parametrize("address", ["127.0.0.1:80", "ftp://x/", "http://127.0.0.1:99999", "http://"])
def test_an_upstream_that_is_no_address_is_refused(address):
    with pytest.raises(ProxyError, match=r"http://127\.0\.0\.1"):
        origin_of(address)


@pytest.mark.parametrize("form", ["", "length", "gzip", "close"])
@pytest.mark.parametrize("kind", ["sse", "text", "ndjson"])
def test_every_framing_arrives_unchanged_and_is_read(engine, kind, form):
    path = f"/{kind}/{form}".rstrip("/")
    with ChaosProxy(split="every-byte", delay=0) as chaos:
        request = urllib.request.Request(chaos.url(engine.url + path), headers={"accept-encoding": "gzip"} if form == "gzip" else {})
        with urllib.request.urlopen(request, timeout=20) as answer:
            body = answer.read()
            if answer.headers["content-encoding"] == "gzip":
                body = gzip.decompress(body)
        assert body == get(engine.url + path.removesuffix("/gzip"))
        if kind != "text" or form != "length":
            assert chaos.sent_text == TEXT
            assert chaos.answers[0].pieces == chaos.answers[0].bytes == len(body)
        else:
            # A text of known length is a file, not a stream.
            assert chaos.answers == []


def test_the_pieces_arrive_one_by_one(engine):
    with ChaosProxy(split="every-byte", delay=0.002) as chaos:
        address = chaos.url(engine.url + "/text")
        host, _, port = address.removeprefix("http://").partition("/")[0].partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(b"GET /text HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            raw = b""
            while data := client.recv(65536):
                raw += data
    body = raw.partition(b"\r\n\r\n")[2]
    assert body.count(b"\r\n") >= 2 * len(TEXT.encode())
    assert body.startswith(b"1\r\nG\r\n1\r\nr\r\n1\r\n\xc3\r\n")


def test_a_connection_is_kept_for_the_next_request(engine):
    with ChaosProxy(split="token", delay=0) as chaos:
        address = chaos.url(engine.url)
        client = http.client.HTTPConnection(address.removeprefix("http://"), timeout=20)
        engine.sockets.clear()
        bodies = []
        for path in ("/sse", "/text", "/sse", "/nothing"):
            client.request("GET", path)
            bodies.append(client.getresponse().read())
        client.close()
    assert bodies[0] == bodies[2] == sse(TEXT) and bodies[1] == TEXT.encode() and b"no such page" in bodies[3]
    assert len(engine.sockets) == 1


def test_what_is_no_stream_passes_in_one_piece(engine):
    with ChaosProxy(delay=0) as chaos:
        request = urllib.request.Request(chaos.url(engine.url + "/echo"), data=TEXT.encode() * 100)
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.read() == TEXT.encode() * 100
        assert chaos.answers == []


def test_a_browser_may_use_it_as_its_proxy(engine):
    with ChaosProxy(delay=0) as chaos:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": chaos.server}))
        with opener.open(engine.url + "/sse", timeout=20) as answer:
            assert answer.read() == sse(TEXT)
        assert chaos.sent_text == TEXT


def test_the_upstream_sees_its_own_name_and_origin(engine):
    with ChaosProxy(delay=0) as chaos:
        own = chaos.url(engine.url)
        get_ = urllib.request.Request(own + "/sse", headers={"origin": own, "referer": own + "/chat"})
        urllib.request.urlopen(get_, timeout=20).read()
    headers = {name.lower(): value for name, value in engine.seen[-1][1].items()}
    assert headers["origin"] == engine.url and headers["referer"] == engine.url + "/chat" and headers["host"] == engine.url[7:]


def test_an_engine_that_is_down_is_said_to_be(engine):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    with ChaosProxy() as chaos:
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(chaos.url(nobody + "/sse"))
        with caught.value as error:
            assert error.code == 502
            assert "cannot be reached" in error.read().decode()
        assert "Is it running?" in chaos.problems[0]


def test_it_leaves_nothing_running(engine):
    before = threading.active_count()
    with ChaosProxy(delay=0.5) as chaos:
        client = http.client.HTTPConnection(chaos.url(engine.url).removeprefix("http://"), timeout=20)
        client.request("GET", "/sse")
        server = chaos.server
    client.close()
    time.sleep(0.05)
    assert not [t for t in threading.enumerate() if t.name == "chaos proxy"] and threading.active_count() <= before + 2
    with pytest.raises(OSError), contextlib.closing(socket.create_connection(("127.0.0.1", int(server.rpartition(":")[2])), timeout=2)):
        pass


# --- WebSocket --------------------------------------------------------------------------------------------------------
@pytest.fixture
def talker():
    from websockets.sync.server import serve

    def talk(socket):
        for message in socket:
            if message == "text":
                socket.send(TEXT)
            elif message == "json":
                for c in TEXT:
                    socket.send(json.dumps({"type": "response.output_text.delta", "delta": c}))
            elif message == "bytes":
                socket.send(TEXT.encode())
            elif message == "long":
                socket.send(TEXT * 4000)
            socket.send("done")

    with serve(talk, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()


@pytest.mark.parametrize("tunnel", [False, True])
def test_a_websocket_message_in_fragments_is_the_same_message(talker, tunnel):
    from websockets.sync.client import connect

    with ChaosProxy(f"http://{talker}", split="every-byte", delay=0) as chaos:
        options = {"proxy": chaos.server} if tunnel else {"proxy": None}
        address = talker if tunnel else chaos.server.removeprefix("http://")
        with connect(f"ws://{address}/", **options) as client:
            for word, want in (("text", TEXT), ("bytes", TEXT.encode())):
                client.send(word)
                pieces = list(client.recv_streaming())
                assert type(want)().join(pieces) == want
                assert len(pieces) > len(TEXT) // 2
                assert client.recv() == "done"
            assert client.ping().wait(10)
        assert (chaos.sent_text or "").startswith(TEXT)


def test_websocket_messages_may_be_cut_into_messages(talker):
    from websockets.sync.client import connect

    with ChaosProxy(f"http://{talker}", delay=0, websocket="messages") as chaos:
        with connect(chaos.server.replace("http", "ws"), proxy=None) as client:
            client.send("bytes")
            assert b"".join([client.recv() for _ in TEXT.encode()]) == TEXT.encode()
            client.send("json")
            assert [client.recv() for _ in "done"] == list("done")
            for character in TEXT:  # what is no text of its own is not cut
                assert json.loads(client.recv()) == {"type": "response.output_text.delta", "delta": character}
            assert [client.recv() for _ in "done"] == list("done")


def test_a_long_websocket_message_passes(talker):
    from websockets.sync.client import connect

    with ChaosProxy(f"http://{talker}", split="random:3", delay=0) as chaos:
        with connect(chaos.server.replace("http", "ws"), proxy=None, max_size=None) as client:
            client.send("long")
            assert client.recv() == TEXT * 4000


# --- what streams say -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "value",
    [
        {"choices": [{"delta": {"content": "hé"}}]},
        {"choices": [{"text": "hé"}]},
        {"choices": [{"message": {"content": "hé"}}]},
        {"message": {"content": "hé"}},
        {"response": "hé", "done": False},
        {"content": "hé", "stop": False},
        {"token": {"id": 1, "text": "hé"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hé"}},
        {"type": "text-delta", "id": "1", "delta": "hé"},
        {"type": "response.output_text.delta", "delta": "hé"},
        {"text": "hé"},
    ],
)
def test_the_text_of_every_known_event(value):
    assert text_of(value) == "hé"


@pytest.mark.parametrize("value", [{"usage": {"total": 3}}, {"type": "tool-input-delta", "delta": "{"}, [1], 3, None])
def test_what_is_no_text_is_none(value):
    assert text_of(value) is None


def test_the_text_of_a_stream_does_not_depend_on_its_cuts():
    for data, kind in ((sse(TEXT), "text/event-stream"), (sse(TEXT).replace(b"\n", b"\r\n"), "text/event-stream; charset=utf-8")):
        for size in (1, 2, 7, len(data)):
            sent = SentText(kind)
            for i in range(0, len(data), size):
                sent.feed(data[i : i + size])
            sent.flush()
            assert sent.text == TEXT


def test_halves_of_a_pair_in_two_events_are_one_character():
    sent = SentText("text/event-stream")
    sent.feed(b'data: {"content": "a\\ud83e"}\n\ndata: {"content": "\\udd8ab"}\n\n')
    sent.flush()
    assert sent.text == "a🦊b"


def test_of_events_that_nobody_knows_nothing_is_claimed():
    sent = SentText("text/event-stream")
    sent.feed(b'data: {"msg": "process_generating", "output": {}}\n\n')
    sent.flush()
    assert sent.text is None


@pytest.mark.parametrize("word", ["ALIVE", "ping", "keep-alive", "heartbeat"])
def test_what_keeps_a_connection_open_is_nobodys_text(word):
    sent = SentText("text/event-stream")
    sent.feed(f"data: {word}\n\n".encode() * 3)
    sent.flush()
    assert not sent.text
    sent.feed(b"data: a keep-alive of 15 s\n\n")
    assert sent.text == "a keep-alive of 15 s"


def test_of_binary_messages_that_nobody_knows_nothing_is_claimed():
    sent = SentText("websocket")
    sent.message("pong")
    assert sent.text == ""
    sent.message(None)
    assert sent.text is None
    sent.message("a")
    assert sent.text == "a"


def test_the_last_line_counts_though_nothing_ends_it():
    sent = SentText("application/x-ndjson")
    sent.feed(b'{"response": "a"}\n{"response": "b"}')
    sent.flush()
    assert sent.text == "ab"
