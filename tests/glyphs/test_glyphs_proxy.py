"""The chaos proxy passes the same bytes on in other pieces, in every framing."""

import contextlib
import gzip
import http.client
import json
import socket
import struct
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler

import pytest
from local_server import free_port, local_server
from test_glyphs_traffic import TEXT, sse
from waiting import eventually_sync
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect
from websockets.sync.server import serve

from detok_py.glyphs.proxy import ChaosProxy
from detok_py.glyphs.recut import ProxyError
from detok_py.glyphs.traffic import origin_of

pytestmark = [pytest.mark.native, pytest.mark.slow]


BLOB = b"\0asm\1\0\0\0" + bytes(range(256)) * 4
LINE = json.dumps({"message": {"content": TEXT}}, ensure_ascii=False) + "\n"
BODIES = {
    "sse": ("text/event-stream", sse(TEXT)),
    "text": ("text/plain; charset=utf-8", TEXT.encode()),
    "ndjson": ("application/x-ndjson", LINE.encode()),
    "blob": ("application/octet-stream", BLOB),
}


class EngineRequest(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers.items())))
        self.server.sockets.add(self.client_address)
        if self.path in ("/silent", "/endless"):
            self.until_left()
            return
        kind, _, form = self.path.strip("/").partition("/")
        if kind not in BODIES:
            self.plain(404, "text/html", b"<p>no such page</p>")
            return
        content_type, body = BODIES[kind]
        if form == "length":
            self.plain(200, content_type, body)
            return
        self.send_response(200)
        self.send_header("content-type", content_type)
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

    def until_left(self) -> None:
        """Say nothing, or do not stop, until the client has left."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            if self.path == "/silent":
                self.rfile.read(1)
            else:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for _ in range(6000):
                    self.wfile.write(b"data: {}\n\n")
                    time.sleep(0.01)
        self.server.left.set()

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
    with local_server(EngineRequest) as server:
        server.seen, server.sockets, server.left = [], set(), threading.Event()
        yield server


def get(address: "str | urllib.request.Request") -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read()


def client_of(address: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)


def raw_exchange(address: str, request: bytes, until: bytes = b"nothing else") -> bytes:
    """Send bytes and return what comes back, until these bytes or the end of the connection."""
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(request)
        raw = b""
        while not raw.endswith(until) and (data := client.recv(65536)):
            raw += data
    return raw


@pytest.mark.parametrize("split", ["every-bytes", "random:x", "token:3"])
def test_an_unknown_split_is_refused_in_a_sentence(split):
    with pytest.raises(ProxyError, match="random:"):
        ChaosProxy(split=split)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:80", "ftp://x/", "http://127.0.0.1:99999", "http://", "http://[::1"]
)
def test_an_upstream_that_is_not_an_address_is_refused(address):
    with pytest.raises(ProxyError, match=r"http://127\.0\.0\.1"):
        origin_of(address)


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ('{"messages": [{"role": "user", "content": "Grüße\\nan alle"}], "n": 1}', ["user", "Grüße", "an alle"]),
        ("Grüße\nan alle", ["Grüße", "an alle"]),
        ("", []),
    ],
)  # fmt: skip
def test_an_answer_knows_the_texts_of_its_request(engine, body, lines):
    with ChaosProxy(only="/ask", delay=0) as chaos:
        request = urllib.request.Request(chaos.url(engine.url + "/ask"), body.encode())
        assert get(request) == body.encode()
        assert chaos.answers[0].asked == lines


@pytest.mark.parametrize(("split", "numbers"), [("every-byte", 1), ("none", 0)])
def test_a_stream_has_the_number_of_the_last_proxy_only(engine, split, numbers):
    with ChaosProxy(delay=0) as first, ChaosProxy(split=split, delay=0) as last:
        address = last.url(first.url(engine.url + "/text"))
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert len(answer.headers.get_all("detok-stream", [])) == numbers
            assert answer.read().decode() == TEXT


@pytest.mark.parametrize("form", ["", "length", "gzip", "close"])
@pytest.mark.parametrize("kind", ["sse", "text", "ndjson"])
def test_every_framing_arrives_unchanged_and_is_read(engine, kind, form):
    path = f"/{kind}/{form}".rstrip("/")
    with ChaosProxy(split="every-byte", delay=0) as chaos:
        request = urllib.request.Request(
            chaos.url(engine.url + path),
            headers={"accept-encoding": "gzip"} if form == "gzip" else {},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
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
        request = b"GET /text HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        raw = raw_exchange(chaos.url(engine.url), request)
    body = raw.partition(b"\r\n\r\n")[2]
    assert body.count(b"\r\n") >= 2 * len(TEXT.encode())
    assert body.startswith(b"1\r\nG\r\n1\r\nr\r\n1\r\n\xc3\r\n")


def test_a_connection_is_kept_for_the_next_request(engine):
    with ChaosProxy(split="token", delay=0) as chaos:
        client = client_of(chaos.url(engine.url))
        engine.sockets.clear()
        bodies = []
        for path in ("/sse", "/text", "/sse", "/nothing"):
            client.request("GET", path)
            bodies.append(client.getresponse().read())
        client.close()
    assert bodies[:3] == [sse(TEXT), TEXT.encode(), sse(TEXT)]
    assert b"no such page" in bodies[3]
    assert len(engine.sockets) == 1


def test_an_answer_that_is_not_a_stream_passes_in_one_piece(engine):
    with ChaosProxy(delay=0) as chaos:
        request = urllib.request.Request(chaos.url(engine.url + "/echo"), data=TEXT.encode() * 100)
        assert get(request) == TEXT.encode() * 100
        assert chaos.answers == []


def test_a_file_of_unknown_length_is_no_answer(engine):
    with ChaosProxy(delay=0) as chaos:
        assert get(chaos.url(engine.url + "/blob")) == BLOB
        assert chaos.answers == [] and chaos.sent_text is None


def test_a_browser_may_use_it_as_its_proxy(engine):
    with ChaosProxy(delay=0) as chaos:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": chaos.server}))
        with opener.open(engine.url + "/sse", timeout=60) as answer:
            assert answer.read() == sse(TEXT)
        assert chaos.sent_text == TEXT


def test_the_upstream_sees_its_own_name_and_origin(engine):
    with ChaosProxy(delay=0) as chaos:
        own = chaos.url(engine.url)
        sent = {"origin": own, "referer": own + "/chat"}
        get(urllib.request.Request(own + "/sse", headers=sent))
    headers = {name.lower(): value for name, value in engine.seen[-1][1].items()}
    assert headers["origin"] == engine.url
    assert headers["referer"] == engine.url + "/chat"
    assert headers["host"] == engine.url[7:]


def test_an_engine_that_cannot_be_reached_is_a_502_and_a_problem(engine):
    with ChaosProxy() as chaos:
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(chaos.url(f"http://127.0.0.1:{free_port()}/sse"))
        with caught.value as error:
            assert error.code == 502
            assert "cannot be reached" in error.read().decode()
        assert "Is it running?" in chaos.problems[0]


def test_nothing_runs_after_the_proxy_is_closed(engine):
    before = threading.active_count()
    with ChaosProxy(delay=0.5) as chaos:
        client = client_of(chaos.url(engine.url))
        client.request("GET", "/sse")
        server = chaos.server
    client.close()
    eventually_sync(lambda: "chaos proxy" not in [t.name for t in threading.enumerate()])
    eventually_sync(lambda: threading.active_count() <= before + 2)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(server.rpartition(":")[2])), timeout=2).close()


def test_a_client_that_leaves_in_mid_answer_is_no_problem_and_stops_the_engine(engine):
    engine.left.clear()
    with ChaosProxy(delay=0) as chaos:
        client = client_of(chaos.url(engine.url))
        client.request("GET", "/endless")
        answer = client.getresponse()
        assert answer.read(20).startswith(b"data: {}")
        answer.close()
        client.close()
        assert engine.left.wait(60)
        assert get(chaos.url(engine.url + "/text/length")) == TEXT.encode()
        assert list(chaos.problems) == []


def test_a_client_of_http_1_0_gets_no_chunks(engine):
    with ChaosProxy(delay=0) as chaos:
        raw = raw_exchange(chaos.url(engine.url), b"GET /text HTTP/1.0\r\nhost: x\r\n\r\n")
    head, _, body = raw.partition(b"\r\n\r\n")
    assert body == TEXT.encode()
    assert b"chunked" not in head.lower()


def test_a_client_that_waits_for_permission_to_send_its_body_gets_it(engine):
    with ChaosProxy(delay=0) as chaos:
        raw = raw_exchange(
            chaos.url(engine.url),
            b"POST /echo HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nconnection: close\r\n"
            b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        )
    assert raw.startswith(b"HTTP/1.1 100 ")
    assert raw.endswith(b"\r\n\r\nabc")


def test_an_answer_to_head_has_no_body(engine):
    with ChaosProxy(delay=0) as chaos:
        raw = raw_exchange(
            chaos.url(engine.url), b"HEAD /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"ontent-" in head  # the length that GET would have
    assert body == b""


@contextlib.contextmanager
def answering(answer):
    """Give the address of a server that does this with its one connection, and closes it."""

    def serve_one(server):
        with server.accept()[0] as client:
            answer(client)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve_one, args=[server])
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (b"", "closed the connection without an answer"),
        (b"SSH-2.0\r\n\r\n", "does not answer in HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", "broke the rules"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n"
            b"transfer-encoding: chunked\r\n\r\n14\r\n"
            + gzip.compress(sse("a"))[:20]
            + b"\r\n5\r\nab",
            "broke the rules",
        ),
    ],
    ids=["silent", "not HTTP", "cut off in a chunk", "cut off in gzip"],
)
def test_a_server_that_breaks_off_is_a_problem(reply, problem):
    def answer(client):
        client.recv(65536)
        client.sendall(reply)

    with answering(answer) as address, ChaosProxy(address) as chaos:
        raw = raw_exchange(chaos.server, b"GET /sse HTTP/1.1\r\nhost: x\r\n\r\n")
        assert problem in chaos.problems[0]
    assert not raw.endswith(b"0\r\n\r\n")


# --- WebSocket ------------------------------------------------------------------------------------
@pytest.fixture
def talker():
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

    with serve(talk, "127.0.0.1", 0, max_size=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()


@pytest.mark.parametrize("tunnel", [False, True])
def test_a_websocket_message_in_fragments_is_the_same_message(talker, tunnel):
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


UPGRADE = (
    b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
)


def test_a_cut_falls_inside_a_character_of_a_text_message(talker):
    # The frame is sent at once, before the handshake is answered.
    request = UPGRADE + Frame(Opcode.TEXT, b"text").serialize(mask=True)
    with ChaosProxy(f"http://{talker}", split="every-byte", delay=0) as chaos:
        raw = raw_exchange(chaos.server, request, until=b"\x80\x01e")  # the end of "done"
    ü = [Frame(Opcode.CONT, byte, fin=False).serialize(mask=False) for byte in (b"\xc3", b"\xbc")]
    assert b"".join(ü) in raw


def test_a_frame_that_no_server_may_send_is_a_problem_that_says_so():
    """A server's frames have no mask (RFC 6455, 5.1)."""
    switched = b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"

    def answer(client):
        client.recv(65536)
        client.sendall(switched)
        client.sendall(b"\x81\x81\x01\x02\x03\x04\x05")
        client.recv(65536)  # until the proxy has closed

    with answering(answer) as address, ChaosProxy(address, delay=0) as chaos:
        raw_exchange(chaos.server, UPGRADE)
        eventually_sync(lambda: len(chaos.problems) > 0)
        assert "mask" in chaos.problems[0]


def test_an_answer_knows_the_texts_of_the_messages_before_it(talker):
    said = ["text", '42["chat",{"text":"Gr\u00fc\u00dfe"}]', "an\nalle " + "a" * 300, "text"]
    said += [json.dumps({"audio": "QUJD" * 1000}), "a long upload " * 80_000]
    with ChaosProxy(f"http://{talker}", split="every-byte", delay=0) as chaos:
        with connect(chaos.server.replace("http", "ws"), proxy=None) as client:
            for message in said:
                client.send([message[:2], message[2:]])  # in fragments
                client.send(b"\xffno text")
                for _ in range(2):
                    while client.recv() != "done":
                        pass
                assert client.ping().wait(10)
        want = ["text", "chat", "Grüße", "an", "alle " + "a" * 300]  # and no file
        assert list(chaos.answers[0].asked) == want


def test_a_frame_that_no_page_may_send_passes_and_is_not_read(talker):
    frames = [Frame(Opcode.TEXT, b"text").serialize(mask=mask) for mask in (True, False, True)]
    with ChaosProxy(f"http://{talker}", delay=0) as chaos:
        raw = raw_exchange(chaos.server, UPGRADE + b"".join(frames))
        assert b"\x88" in raw  # the server ends it
        assert list(chaos.answers[0].asked) == ["text"]
        assert list(chaos.problems) == []


def test_websocket_messages_may_be_cut_into_messages(talker):
    with ChaosProxy(f"http://{talker}", delay=0, websocket="messages") as chaos:
        with connect(chaos.server.replace("http", "ws"), proxy=None) as client:
            client.send("bytes")
            assert b"".join([client.recv() for _ in TEXT.encode()]) == TEXT.encode()
            client.send("json")
            assert [client.recv() for _ in "done"] == list("done")
            for character in TEXT:  # JSON is not cut
                event = {"type": "response.output_text.delta", "delta": character}
                assert json.loads(client.recv()) == event
            assert [client.recv() for _ in "done"] == list("done")


def test_a_websocket_to_an_engine_that_is_not_there_is_a_problem():
    with ChaosProxy(f"http://127.0.0.1:{free_port()}") as chaos:
        raw_exchange(chaos.server, UPGRADE)
        eventually_sync(lambda: len(chaos.problems) > 0)
        assert "cannot be reached" in chaos.problems[0]


def test_a_client_that_resets_its_tunnel_before_its_first_byte_is_no_problem(engine):
    with ChaosProxy(delay=0) as chaos:
        host, _, port = chaos.server.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(b"CONNECT example.test:443 HTTP/1.1\r\nhost: example.test:443\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert get(chaos.url(engine.url + "/text/length")) == TEXT.encode()
        assert list(chaos.problems) == []


def test_a_long_websocket_message_passes(talker):
    with ChaosProxy(f"http://{talker}", split="random:3", delay=0) as chaos:
        with connect(chaos.server.replace("http", "ws"), proxy=None, max_size=None) as client:
            client.send("long")
            assert client.recv() == TEXT * 4000
