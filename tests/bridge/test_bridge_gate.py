"""What a server on localhost must refuse, over real sockets: handshake, HTTP, WebSocket, output.

What needs a real browser is in tests/browser, and requests to engines are in test_engine_http.py.
"""

import asyncio
import base64
import contextlib
import gzip
import hashlib
import io
import json
import logging
import os
import re
import struct
import subprocess
import sys
import time
import urllib.request

import httpx
import pytest
import websockets
from bridge_rig import TEXT, VOCABULARY, converse, running, socket_to
from starlette.routing import Route, WebSocketRoute
from waiting import eventually

from detok_py.bridge import protocols
from detok_py.bridge.assets import TYPES, Assets
from detok_py.bridge.gate import CSP, new_token
from detok_py.bridge.server import (
    ServeError,
    application,
    is_loopback,
    names_of,
    set_up_logging,
)
from detok_py.bridge.store import MemoryStore
from detok_py.protocol import wire
from detok_py.protocol.client import ClientSession
from detok_py.protocol.events import Failed

pytestmark = [pytest.mark.native, pytest.mark.slow]


async def raw(bridge, request):
    """Send bytes; return what arrives up to the close."""
    reader, writer = await asyncio.open_connection("127.0.0.1", bridge.port)
    try:
        writer.write(request)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:
        return b""
    finally:
        await close_and_wait(writer)


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


def upgrade(bridge, *headers, host=None, path="/stream", subprotocols="detok.v1"):
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host or bridge.host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {subprotocols}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def get(bridge, path="/healthz", *headers, host=None, method="GET"):
    host_line = [f"Host: {host or bridge.host}"] if host != "" else []
    lines = [f"{method} {path} HTTP/1.1", *host_line, *headers, "Connection: close"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def status(bridge, path="/healthz", *headers, **options):
    """Return the status of a request."""
    return status_of(await raw(bridge, get(bridge, path, *headers, **options)))


def basic(password):
    """Return the header of HTTP's basic authentication, with which the bridge takes any user."""
    return "Authorization: Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


async def upgraded(bridge, *headers, **options):
    """Return the status of an upgrade request, or the code if the WebSocket has nothing but a
    close; else close it.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", bridge.port)
    try:
        writer.write(upgrade(bridge, *headers, **options))
        answered = status_of(await asyncio.wait_for(reader.readline(), 60))
        if answered == 101:
            await reader.readuntil(b"\r\n\r\n")
            opcode, payload = await read_frame(reader)
            if opcode == 8:
                return int.from_bytes(payload[:2], "big")
        return answered
    finally:
        await close_and_wait(writer)


async def close_and_wait(writer):
    """Close a raw connection and wait until it is closed."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def opened(bridge):
    """Return a raw connection after its handshake and hello: (reader, writer)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", bridge.port)
    writer.write(upgrade(bridge, f"Origin: {bridge.url}"))
    await reader.readuntil(b"\r\n\r\n")
    await read_frame(reader)
    return reader, writer


@contextlib.asynccontextmanager
async def raw_socket(bridge):
    """Yield such a connection, and close it."""
    reader, writer = await opened(bridge)
    try:
        yield reader, writer
    finally:
        await close_and_wait(writer)


def frame(opcode, payload, *, fin=True, masked=True, rsv=0, length=None):
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    size = len(payload) if length is None else length
    mask = 0x80 if masked else 0
    if size < 126:
        head += bytes([mask | size])
    elif size < 1 << 16:
        head += bytes([mask | 126]) + struct.pack("!H", size)
    else:
        head += bytes([mask | 127]) + struct.pack("!Q", size)
    return head + (b"\0\0\0\0" if masked else b"") + payload


async def read_frame(reader):
    """Return the opcode and the payload of the server's next frame."""
    first, size = await reader.readexactly(2)
    if size == 126:
        size = struct.unpack("!H", await reader.readexactly(2))[0]
    elif size == 127:
        size = struct.unpack("!Q", await reader.readexactly(8))[0]
    return first & 15, await reader.readexactly(size)


async def close_code(reader):
    """Return the code of the close frame, or None if the connection ends without one."""
    try:
        while True:
            opcode, payload = await asyncio.wait_for(read_frame(reader), 60)
            if opcode == 8:
                return struct.unpack("!H", payload[:2])[0] if payload else 1005
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def memory():
    """Return the resident memory of this process in kB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


# ---------------------------------------------------------------- handshake


async def test_a_socket_without_an_origin_is_refused_unless_allowed():
    async with running() as bridge:
        assert await upgraded(bridge) == 403
    async with running(gate={"require_origin": False}) as bridge:
        assert await upgraded(bridge) == 101


STRANGERS = {
    "null": ["null"],
    "another site": ["https://evil.test", "http://evil.test", "file://", "chrome-extension://abc"],
    "another port": [
        "http://127.0.0.1:{other}",
        "http://localhost:{other}",
        "http://127.0.0.1",
        "http://localhost",
    ],
    "a name that begins alike": ["http://localhost.evil.test:{port}"],
    "an address that begins alike": ["http://127.0.0.1.evil.test:{port}"],
    "another address": [
        "http://192.168.1.5:{port}",
        "http://10.0.0.1:{port}",
        "http://[::2]:{port}",
        "http://0.0.0.0:{port}",
        "http://2130706433:{port}",
    ],
    "a form that differs": [
        "http://127.0.0.1:{port}.evil.test",
        "http://127.0.0.1:{port}/",
        "http://127.0.0.1:{port}x",
        "xhttp://127.0.0.1:{port}",
        "HTTP://127.0.0.1:{port}",
        "http://LOCALHOST:{port}",
        "http://localhost.:{port}",
        "http://127.0.0.1.:{port}",
        "http://user@127.0.0.1:{port}",
        " ",
    ],
}


@pytest.mark.parametrize("kind", list(STRANGERS))
async def test_an_origin_that_differs_from_the_bridges_is_refused(kind):
    async with running() as bridge:
        for origin in STRANGERS[kind]:
            said = origin.format(port=bridge.port, other=bridge.port + 1)
            refused = 4403 if said.strip() else 403
            assert await upgraded(bridge, f"Origin: {said}") == refused, said
            other = await upgraded(bridge, f"Origin: {said}", subprotocols="chat")
            assert other == 403, said
            assert await status(bridge, "/healthz", f"Origin: {said}") == 403, said


async def test_the_bridges_own_names_are_accepted():
    async with running() as bridge:
        for name in ("127.0.0.1", "localhost", "[::1]"):
            host = f"{name}:{bridge.port}"
            assert await upgraded(bridge, f"Origin: http://{host}", host=host) == 101


async def test_only_the_allowed_origins_are_accepted():
    async with running(gate={"allowed": ["http://localhost:3000"]}) as bridge:
        assert await upgraded(bridge, "Origin: http://localhost:3000") == 101
        assert await upgraded(bridge, "Origin: http://localhost:3001") == 4403
        answer = await raw(bridge, get(bridge, "/info", "Origin: http://localhost:3000"))
        assert b"access-control-allow-origin: http://localhost:3000\r\n" in answer.lower()
        preflight = await raw(
            bridge, get(bridge, "/info", "Origin: http://localhost:3000", method="OPTIONS")
        )
        assert b"access-control-allow-origin: http://localhost:3000\r\n" in preflight.lower()


async def test_two_origins_are_a_bad_request():
    async with running() as bridge:
        assert await upgraded(bridge, f"Origin: {bridge.url}", f"Origin: {bridge.url}") == 400
        two = [f"Origin: {bridge.url}", "Origin: http://evil.test"]
        assert await status(bridge, "/", *two) == 400


async def test_another_host_or_port_is_421():
    async with running() as bridge:
        for host in (
            "evil.test",
            f"evil.test:{bridge.port}",
            f"127.0.0.1.evil.test:{bridge.port}",
            f"localhost.:{bridge.port}",
            f"127.0.0.1:{bridge.port + 1}",
            "127.0.0.1",
            "localhost",
        ):
            assert await upgraded(bridge, f"Origin: http://{host}", host=host) == 421
            assert await status(bridge, host=host) == 421


async def test_a_missing_or_repeated_host_is_a_bad_request():
    async with running() as bridge:
        assert await status(bridge, host="") == 400
        assert await status(bridge, "/", f"Host: {bridge.host}") == 400
        assert status_of(await raw(bridge, b"GET / HTTP/1.0\r\n\r\n")) == 400


TOKEN = new_token()
WRONG_TOKENS = {
    "none": None,
    "one character": ("A" if TOKEN[0] != "A" else "B") + TOKEN[1:],
    "shorter": TOKEN[:-1],
    "longer": TOKEN + "A",
    "empty": "",
    "long": "A" * 7000,
    "earlier": new_token(),
}


@pytest.mark.parametrize("token", WRONG_TOKENS.values(), ids=WRONG_TOKENS)
async def test_every_request_without_the_right_token_is_refused(token):
    async with running(gate={"token": TOKEN}) as bridge:
        origin = f"Origin: {bridge.url}"
        tries = [[]] if token is None else [[f"Authorization: Bearer {token}"], [basic(token)]]
        for headers in tries:
            refused = 431 if len("".join(headers)) > 8192 else 401
            assert await status(bridge, "/", *headers) == refused
            told = 4401 if refused == 401 else refused
            assert await upgraded(bridge, origin, *headers) == told
            assert await upgraded(bridge, origin, *headers, subprotocols="chat") == refused
        if token:
            offered = f"detok.v1, detok.token.{token}"
            assert await upgraded(bridge, origin, subprotocols=offered) == 4401


async def test_a_refused_origin_is_logged_once_with_the_option_that_allows_it(caplog):
    async with running() as bridge:
        for _ in range(3):
            await upgraded(bridge, "Origin: http://localhost:3000")
            await raw(bridge, get(bridge, "/info", "Origin: http://localhost:3000"))
            await upgraded(bridge, "Origin: null")
        logged = [record for record in caplog.records if record.msg == "origin_refused"]
        assert [record.fields["origin"] for record in logged] == ["http://localhost:3000", "null"]
        assert logged[0].fields["allowed_by"] == "--allow-origin http://localhost:3000"
        assert logged[0].levelno == logging.WARNING  # what is printed by default
        # Pages can have origins without end; the log has not.
        for number in range(40):
            await upgraded(bridge, f"Origin: http://evil{number}.test")
        assert len([one for one in caplog.records if one.msg == "origin_refused"]) == 32


async def test_the_token_is_accepted_as_header_password_or_subprotocol_but_not_in_a_url():
    async with running(gate={"token": TOKEN}) as bridge:
        assert await status(bridge, "/healthz", f"Authorization: Bearer {TOKEN}") == 200
        assert await status(bridge, "/healthz", basic(TOKEN)) == 200
        assert await status(bridge, "/healthz", "Authorization: Basic !!!") == 401
        assert await status(bridge, f"/healthz?token={TOKEN}") == 401
        async with socket_to(bridge, subprotocols=["detok.v1", f"detok.token.{TOKEN}"]) as ws:
            assert json.loads(await ws.recv())["type"] == "hello"
            assert ws.subprotocol == "detok.v1"


async def test_each_token_is_long_and_random():
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 43


async def test_every_route_is_behind_the_gate():
    async with running() as bridge:
        listed = application(bridge.bridge, Assets()).routes
        paths = [
            route.path.replace("{sha256:str}", "ab").replace("{path:path}", "any/thing")
            for route in listed
        ]
        assert {type(route) for route in listed} == {Route, WebSocketRoute}
        assert "/stream" in paths
        assert len(paths) >= 8
        for path in [*paths, "/nothing-here", "/runtime/manifest.json", "*"]:
            for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE", "TRACE"):
                found = [
                    await status(bridge, path, host="evil.test", method=method),
                    await status(bridge, path, "Origin: http://evil.test", method=method),
                ]
                assert found == [421, 403], (method, path)
            assert await upgraded(bridge, "Origin: http://evil.test", path=path) == 4403, path


@contextlib.contextmanager
def serving(*options, engine="scripted"):
    """Run `detok serve`, with the engine that it chooses by itself if `engine` is None; yield its
    process and its URL. At the end the process has `said`: the rest of its output, and its errors.
    """
    words = ["serve", "--port=0", *([f"--engine={engine}"] if engine else []), *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "detok_py", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("detok serves")
        yield process, line.split()[-1]
    finally:
        process.terminate()
        process.said = process.communicate(timeout=60)


def test_the_listening_sockets_of_the_process_are_on_loopback_only():
    with serving() as (process, _):
        inodes = set()
        for name in os.listdir(f"/proc/{process.pid}/fd"):
            with contextlib.suppress(OSError):
                link = os.readlink(f"/proc/{process.pid}/fd/{name}")
                if link.startswith("socket:["):
                    inodes.add(link[8:-1])
        listening = []
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            if os.path.exists(table):
                with open(table) as lines:
                    for line in list(lines)[1:]:
                        words = line.split()
                        if words[3] == "0A" and words[9] in inodes:
                            listening.append(words[1].split(":")[0])
        assert listening == ["0100007F"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_other_addresses_are_not_loopback(host):
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "option", ["--host=0.0.0.0", "--public-name=detok.example:443", "--public-name=detok.example"]
)
def test_a_bridge_beyond_loopback_prints_its_token_once_and_requires_it(option):
    """A bridge on loopback with a public name has a proxy in front."""
    with serving(option) as (process, url):
        token = process.stdout.readline().split()[-1]
        for headers, expected in (({}, 401), ({"authorization": "Bearer " + token}, 200)):
            answer = httpx.get(url + "healthz", trust_env=False, headers=headers)
            assert answer.status_code == expected
    assert token not in "".join(process.said)


def test_another_name_of_loopback_needs_no_token():
    with serving("--public-name", "localhost:9999") as (_, url):
        assert httpx.get(url + "healthz", trust_env=False).status_code == 200


async def test_cors_headers_never_have_a_star_or_reflect_an_unknown_origin():
    async with running(gate={"allowed": ["http://localhost:3000"]}) as bridge:
        for headers in (
            [],
            ["Origin: http://evil.test"],
            [f"Origin: {bridge.url}"],
            ["Origin: null"],
        ):
            for path in ("/", "/info", "/nope", "/metrics"):
                answer = await raw(bridge, get(bridge, path, *headers))
                assert b"access-control-allow-origin" not in answer.lower(), (path, headers)


# --------------------------------------------------------------------- HTTP


@pytest.fixture
def site(tmp_path):
    web, runtime = tmp_path / "web", tmp_path / "runtime"
    for folder in (web / "demo", runtime, tmp_path / "page"):
        folder.mkdir(parents=True)
    (web / "demo" / "index.html").write_text("demo")
    (tmp_path / "page" / "index.html").write_text("page")
    (tmp_path / "secret.txt").write_text("canary")
    (tmp_path / "web-private").mkdir()
    (tmp_path / "web-private" / "index.html").write_text("canary")
    (web / ".env").write_text("canary")
    (web / "link.txt").symlink_to(tmp_path / "secret.txt")
    (web / "linked").symlink_to(tmp_path / "web-private")
    return Assets(web, runtime)


async def test_files_outside_the_folders_are_not_served(site):
    ways = [
        "/../secret.txt", "/demo/../../secret.txt", "/%2e%2e/secret.txt", "/demo/%2e%2e/%2e%2e/secret.txt", "/%252e%252e/secret.txt",
        "/..%2fsecret.txt", "/..%5csecret.txt", "/..\\secret.txt", "/demo\\..\\..\\secret.txt", "//etc/passwd", "/demo//index.html",
        "/page/../secret.txt", "/page/%2e%2e/secret.txt", "/page/", "/page",
        "/etc/passwd", "/%2fetc%2fpasswd", "/demo/index.html%00.js", "/demo/index.html%00", "/link.txt", "/linked/index.html",
        "/../web-private/index.html", "/.env", "/demo/.", "/demo/..", "/demo/", "/demo", "/runtime/../secret.txt",
        "/runtime/%2e%2e/secret.txt", "/wheels/../../secret.txt", "/demo/index.html/", "/demo/index.html/x", "/" + "a" * 5000,
        "/demo/index.html;x", "/~root", "/%", "/examples/../../secret.txt", "/examples/built/../../secret.txt", "/examples//", "/examples/",
        "/examples/../", "/wheels/simple/../", "/wheels/simple/", "/wheels/simple/detok_py/", "/wheels/simple/../../secret.txt/",
    ]  # fmt: skip
    async with running(assets=site) as bridge:
        for way in ways:
            answer = await raw(bridge, get(bridge, way))
            assert status_of(answer) in (400, 404), way
            assert b"canary" not in answer
            assert b"root:" not in answer
        assert (await raw(bridge, get(bridge, "/"))).endswith(b"page")


async def test_the_wheels_of_a_project_are_served_as_a_package_index(site):
    """PEP 503: the name is normalized, and each file has a link with its SHA-256."""
    (site.runtime / "detok_py-1.0-py3-none-any.whl").write_bytes(b"wheel")
    (site.runtime / "other-1.0-py3-none-any.whl").write_bytes(b"other")
    (site.web / "examples" / "chat").mkdir(parents=True)
    (site.web / "examples" / "chat" / "index.html").write_text("chat")
    link = f'<a href="../../detok_py-1.0-py3-none-any.whl#sha256={hashlib.sha256(b"wheel").hexdigest()}">detok_py-1.0-py3-none-any.whl</a>'
    async with running(assets=site) as bridge:
        for name in ("detok-py", "detok_py", "Detok.Py"):
            answer = await bridge.get(f"/wheels/simple/{name}/")
            assert answer.headers["content-type"].startswith("text/html")
            assert re.findall("<a .*</a>", answer.text) == [link]
        assert (await bridge.get("/wheels/detok_py-1.0-py3-none-any.whl")).content == b"wheel"
        assert (await bridge.get("/wheels/simple/unknown/")).status_code == 404
        # The path of an example's folder gives its page; other folders are not found.
        assert (await bridge.get("/examples/chat/")).text == "chat"


async def test_a_long_header_or_too_many_headers_are_431():
    async with running() as bridge:
        many = [f"X-{n}: 1" for n in range(65)]
        assert await status(bridge, "/", "X: " + "a" * 8192) == 431
        assert await status(bridge, "/", *many) == 431
        assert await status(bridge, "/healthz", "X: " + "a" * 8000, *many[:50]) == 200
        unfinished = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 70_000
        assert status_of(await raw(bridge, unfinished)) == 431


ALLOWED = "http://localhost:3000"


async def test_a_preflight_of_an_allowed_origin_needs_no_token():
    """Browsers send no Authorization with a preflight."""
    async with running(gate={"allowed": [ALLOWED], "token": "secret"}) as bridge:
        asks = [
            "Access-Control-Request-Method: GET",
            "Access-Control-Request-Headers: authorization",
        ]
        answer = await raw(
            bridge, get(bridge, "/info", f"Origin: {ALLOWED}", *asks, method="OPTIONS")
        )
        assert status_of(answer) == 204
        assert b"access-control-allow-headers: authorization\r\n" in answer.lower()
        assert b"vocabulary" not in answer
        given = [f"Origin: {ALLOWED}", "Authorization: Bearer secret"]
        assert await status(bridge, "/info", *given) == 200
        # Without the token the page is refused, and can read that.
        refused = await raw(bridge, get(bridge, "/info", f"Origin: {ALLOWED}"))
        assert status_of(refused) == 401
        assert f"access-control-allow-origin: {ALLOWED}\r\n".encode() in refused.lower()
        other = "Origin: http://localhost:3001"
        assert await status(bridge, "/info", other, *asks, method="OPTIONS") == 403


async def test_an_allowed_origin_is_allowed_with_its_own_scheme_only():
    async with running(gate={"allowed": ["http://tunnel.example"]}) as bridge:
        for scheme, expected in (("http", 200), ("https", 403)):
            for host in (None, "tunnel.example"):
                origin = f"Origin: {scheme}://tunnel.example"
                assert await status(bridge, "/healthz", origin, host=host) == expected, origin


@pytest.mark.parametrize(
    ("host", "extra", "name"),
    [
        ("127.0.0.2", [], "127.0.0.2:8765"),
        ("::1", [], "[::1]:8765"),
        ("fd00::7", [], "[fd00::7]:8765"),
        ("127.0.0.1", ["detok.example"], "detok.example:8765"),
        ("127.0.0.1", ["detok.example:8443"], "detok.example:8443"),
        ("127.0.0.1", ["detok.example:443"], "detok.example"),
        ("127.0.0.1", ["[fd00::7]:80"], "[fd00::7]"),
    ],
)
def test_the_names_of_the_bridge(host, extra, name):
    names = names_of(host, 8765, extra)
    assert name in names
    assert len(set(names)) == len(names)
    assert "127.0.0.1:8765" in names


@pytest.mark.parametrize("name", ["", "http://x", "a b", "x:y", "x/..", "*"])
def test_a_public_name_that_is_none_is_refused(name):
    with pytest.raises(ServeError, match="--public-name"):
        names_of("127.0.0.1", 8765, [name])


@pytest.mark.parametrize("host", ["127.0.0.2", "::1"])
def test_the_address_that_is_printed_answers(host):
    with serving("--host", host) as (_, url):
        with urllib.request.urlopen(url + "healthz", timeout=60) as answer:
            assert answer.status == 200


HEADERS_OF_A_HANDSHAKE = ["Origin", "Connection", "Upgrade", "Sec-WebSocket-Protocol"]
HEADERS_OF_A_HANDSHAKE += ["Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions"]


@pytest.mark.parametrize("name", HEADERS_OF_A_HANDSHAKE)
async def test_a_header_beyond_ascii_is_a_bad_request(name, caplog):
    async with running() as bridge:
        request = upgrade(bridge, f"Origin: {bridge.url}").partition(b"\r\n\r\n")[0]
        request += f"\r\n{name}: caf\xe9\r\n\r\n".encode("latin-1")
        assert status_of(await raw(bridge, request)) == 400
        # A cookie of another program on this machine is none of ours.
        assert await upgraded(bridge, f"Origin: {bridge.url}", "Cookie: a=\xe9") == 101
    assert "Traceback" not in caplog.text


def test_links_of_compressed_files_do_not_lead_out_of_the_folder(tmp_path):
    web = tmp_path / "web"
    web.mkdir()
    (tmp_path / "secret").write_bytes(gzip.compress(b"secret"))
    (web / "a.js.gz").symlink_to(tmp_path / "secret")
    assets = Assets(web, web)
    assert assets.find("/a.js", "gzip") is None
    (web / "round").symlink_to(web / "circle")
    (web / "circle").symlink_to(web / "round")
    assert assets.find("/round") is None
    (web / "b.js.gz").symlink_to(web / "circle")
    assert assets.find("/b.js", "gzip") is None


def test_a_file_that_is_stored_compressed_is_the_same_for_clients_that_take_no_gzip(tmp_path):
    (tmp_path / "a.wasm.gz").write_bytes(gzip.compress(b"code"))
    (tmp_path / "a.js.gz").write_bytes(gzip.compress(b"let a;"))
    assets = Assets(tmp_path, tmp_path)
    for name, raw in (("/runtime/a.wasm", b"code"), ("/runtime/a.js", b"let a;")):
        plain, packed = assets.find(name), assets.find(name, "br, gzip")
        assert (plain.body, plain.encoding) == (raw, None)
        assert (gzip.decompress(packed.body), packed.encoding) == (raw, "gzip")
        assert plain.etag == packed.etag == hashlib.sha256(raw).hexdigest()
        assert plain.content_type == packed.content_type == TYPES[name[name.index(".") :]]


def test_a_runtime_file_is_sent_as_it_was_compressed_beside_if_that_is_still_it(tmp_path):
    runtime, packed = tmp_path / "runtime", tmp_path / "gz"
    runtime.mkdir()
    packed.mkdir()
    (runtime / "a.wasm").write_bytes(b"code")
    assert Assets(runtime, runtime).find("/runtime/a.wasm", "gzip").encoding is None
    stored = gzip.compress(b"code", 1)
    (packed / "a.wasm.gz").write_bytes(stored)
    assets = Assets(runtime, runtime)
    plain, sent = assets.find("/runtime/a.wasm"), assets.find("/runtime/a.wasm", "gzip")
    assert (plain.body, plain.encoding) == (b"code", None)
    assert (sent.body, sent.encoding) == (stored, "gzip")
    assert plain.etag == sent.etag == hashlib.sha256(b"code").hexdigest()
    assert assets.find("/gz/a.wasm.gz", "gzip") is None
    # The file was built again, and not compressed yet.
    (runtime / "a.wasm").write_bytes(b"more code")
    os.utime(packed / "a.wasm.gz", ns=(1, 1))
    sent = assets.find("/runtime/a.wasm", "gzip")
    assert (sent.body, sent.encoding) == (b"more code", None)
    # A link there leads nowhere else.
    (tmp_path / "secret").write_bytes(gzip.compress(b"secret"))
    (packed / "a.wasm.gz").unlink()
    (packed / "a.wasm.gz").symlink_to(tmp_path / "secret")
    assert assets.find("/runtime/a.wasm", "gzip").body == b"more code"


@pytest.mark.full
async def test_unfinished_requests_are_dropped_and_do_not_delay_others():
    async with running() as bridge:
        slow = await beginning(bridge, 200, b"GET / HTTP/1.1\r\nHost: ")
        begin = time.monotonic()
        answers = [await asyncio.wait_for(bridge.get("/healthz"), 5) for _ in range(5)]
        assert all(answer.status_code == 200 for answer in answers)
        for n in range(40):
            if all(reader.at_eof() for reader, _ in slow):
                break
            for _, writer in slow[:20]:
                writer.write(b"a")  # more bytes do not extend the timeout
            await asyncio.sleep(0.2)
            with contextlib.suppress(ConnectionError, TimeoutError):
                await asyncio.wait_for(slow[n % 200][0].read(1), 0.01)
        assert time.monotonic() - begin < 60
        for reader, writer in slow:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(1), 60) == b""
            writer.close()


@pytest.mark.parametrize("whole", [False, True])
async def test_connections_without_a_request_make_room_for_requests(whole, monkeypatch):
    """Half a head is sent, or one request and no other."""
    monkeypatch.setattr(protocols, "MAX_CONNECTIONS", 20)
    async with running() as bridge:
        open_now = bridge.server._uvicorn.server_state.connections
        head = f"GET /healthz HTTP/1.1\r\nHost: {bridge.host}\r\n".encode() + b"\r\n" * whole
        idle = await beginning(bridge, 20, head)
        await eventually(lambda: len(open_now) == 20)
        for _ in range(30):
            assert await status(bridge) == 200
        assert len(open_now) <= 20
        for _, writer in idle:
            writer.close()


async def test_the_oldest_of_many_unfinished_requests_of_an_address_is_closed(monkeypatch):
    monkeypatch.setattr(protocols, "MAX_HEADS", 10)
    monkeypatch.setattr(protocols, "HEAD_GRACE_SECONDS", 0.0)
    async with running() as bridge:
        idle = await beginning(bridge, 30, b"GET / HTTP/1.1\r\n")
        ends = asyncio.gather(*[one.read() for one, _ in idle[:20]], return_exceptions=True)
        await asyncio.wait_for(ends, 4)  # a head that is late is closed after five seconds
        assert len(bridge.server._uvicorn.server_state.connections) == 10
        for _, writer in idle:
            writer.close()


async def beginning(bridge, count, head):
    """Open connections, and send the beginning of a request on each."""
    opened = [await asyncio.open_connection("127.0.0.1", bridge.port) for _ in range(count)]
    for _, writer in opened:
        writer.write(head)
    return opened


async def test_writing_methods_are_not_allowed():
    async with running() as bridge:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
            for path in ("/", "/info", "/stream", "/nope"):
                found = await status(bridge, path, "Content-Length: 0", method=method)
                assert found == 405, (method, path)


async def test_a_request_with_two_lengths_is_a_bad_request():
    async with running() as bridge:
        for headers in (
            ["Content-Length: 0", "Content-Length: 0"],
            ["Content-Length: 5", "Content-Length: 5"],
            ["Content-Length: 1", "Content-Length: 2"],
            ["Content-Length: 4", "Transfer-Encoding: chunked"],
        ):
            assert status_of(await raw(bridge, get(bridge, "/", *headers) + b"0\r\n\r\n")) == 400
        smuggled = (
            get(bridge, "/", "Content-Length: 4", "Transfer-Encoding: chunked")
            + b"0\r\n\r\n"
            + get(bridge, "/healthz")
        )
        assert (await raw(bridge, smuggled)).count(b"HTTP/1.1 ") == 1


# ---------------------------------------------------------------- WebSocket


async def test_a_message_over_a_mebibyte_is_1009_and_not_kept_in_memory():
    async with running() as bridge, raw_socket(bridge) as (reader, writer):
        before = memory()
        with contextlib.suppress(ConnectionError):
            writer.write(frame(1, b"", length=64 << 20, fin=True))
            for _ in range(64):
                writer.write(b"a" * (64 << 10))
                await writer.drain()
        assert await close_code(reader) in (1009, None)
        assert memory() - before < 8 << 10


async def test_a_message_of_a_mebibyte_and_a_byte_is_closed_with_1009():
    async with running() as bridge, socket_to(bridge) as ws:
        await ws.recv()
        with contextlib.suppress(websockets.ConnectionClosed):
            await ws.send("a" * ((1 << 20) + 1))
        await ws.wait_closed()
        assert ws.close_code == 1009


async def test_a_frame_length_of_2_to_the_63_is_closed_at_once():
    async with running() as bridge:
        for length in (1 << 63, (1 << 64) - 1, (1 << 63) - 1, 1 << 40):
            async with raw_socket(bridge) as (reader, writer):
                before = memory()
                writer.write(frame(2, b"", length=length) + b"a" * 4096)
                if length >= 1 << 63:
                    assert await close_code(reader) in (1002, 1009, None)
                assert memory() - before < 2 << 10


async def test_too_many_fragments_are_closed():
    async with running() as bridge, raw_socket(bridge) as (reader, writer):
        before = memory()
        with contextlib.suppress(ConnectionError):
            writer.write(frame(1, b"", fin=False))
            for _ in range(100):
                writer.write(frame(0, b"", fin=False) * 10_000)
                await writer.drain()
        assert await close_code(reader) in (1008, 1009, None)
        assert memory() - before < 16 << 10


async def test_invalid_utf_8_in_a_text_frame_is_1007():
    async with running() as bridge:
        for payload in (b"\xff", b"\xc3", b"\xed\xa0\x80", b'{"type":"\xf0\x9f"}'):
            async with raw_socket(bridge) as (reader, writer):
                writer.write(frame(1, payload))
                assert await close_code(reader) == 1007, payload


async def test_frames_that_rfc_6455_forbids_are_1002():
    async with running() as bridge:
        for bad in (
            *(frame(1, b"a", masked=False), frame(1, b"a", rsv=4), frame(1, b"a", rsv=1)),
            *(frame(3, b"a"), frame(11, b""), frame(9, b"a" * 126)),
            *(frame(8, b"a"), frame(0, b"a"), frame(9, b"", fin=False)),
        ):
            async with raw_socket(bridge) as (reader, writer):
                writer.write(bad)
                assert await close_code(reader) == 1002, bad


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "1", '{"type":"ack"}', '{"type":"ack","n":NaN}', "[" * 100_000),
        *('{"a":' * 3000, '{"type":"\\ud800"}'),
    ],
)
async def test_bad_json_is_4400_and_does_not_affect_others(text):
    params = {"engine": "scripted", "text": TEXT * 4, "cut": "byte", "pace": 400}
    asked = {"prompt": "", "params": params}
    # With little credit and no ack, the answer can't end before the bad message arrives.
    async with running(store=MemoryStore(window={"tokens": 32, "bytes": 32})) as bridge:
        other = asyncio.create_task(bridge.converse(**asked))
        victim = []

        async def break_rules(event, ws, session):
            if hasattr(event, "data") and not victim and getattr(event, "position", 0) > 10:
                victim.append(session.run_id)
                session.paused = True
                await ws.send(text)

        heard = await bridge.converse(on_event=break_rules, **asked)
        assert isinstance(heard.end, Failed)
        assert heard.end.code == 4400
        # the run itself can be resumed
        session = ClientSession()
        session.attach(victim[0])
        again = await bridge.converse(session)
        assert again.data == TEXT.encode() * 4
        assert (await other).data == TEXT.encode() * 4


async def test_a_flood_of_pings_is_closed():
    async with running() as bridge:
        async with raw_socket(bridge) as (reader, writer):
            with contextlib.suppress(ConnectionError):
                for _ in range(100):
                    writer.write(frame(9, b"a" * 125) * 100)
                    await writer.drain()
            assert await close_code(reader) in (1008, None)
        async with raw_socket(bridge) as (reader, writer):
            writer.write(frame(1, b'{"type":"ping"}') * 100)
            assert await close_code(reader) == 4429


async def test_a_peer_that_does_not_answer_pings_is_closed(monkeypatch):
    monkeypatch.setattr("detok_py.bridge.server.PING_SECONDS", 0.2)
    async with running() as bridge, raw_socket(bridge) as (reader, _):
        begin = time.monotonic()
        assert await close_code(reader) in (1011, None)
        assert time.monotonic() - begin > 0.3


async def test_a_stalled_reader_holds_less_than_512_kib_and_loses_nothing():
    name, text = "a-slow-reader-01", "a" * 50_000
    params = {"engine": "scripted", "text": text, "cut": "random", "pace": 0}
    async with running() as bridge:
        runs = bridge.bridge.store.runs.by_id
        async with raw_socket(bridge) as (_, writer):
            asked = wire.message("generate", id=name, prompt="", want="bytes", params=params)
            writer.write(frame(1, asked.encode()))
            await eventually(lambda: name in runs and runs[name].log.position >= 8192)
            await asyncio.sleep(0.1)
            # Nothing was acknowledged, so the engine waits for credit. A chunk of three bytes takes
            # 160 bytes in the log.
            assert runs[name].log.position < 8192 + 16
            assert runs[name].log.size < 512 << 10
        later = ClientSession()
        later.attach(name)
        heard = await bridge.converse(later)
    assert heard.data == text.encode()


# ------------------------------------------------------------------- output


def test_a_log_that_cannot_be_written_prints_nothing_in_its_place(monkeypatch, capfd):
    names = ("detok", "uvicorn", "uvicorn.error", "uvicorn.access")
    loggers = [logging.getLogger(name) for name in names]
    before = [(one.handlers, one.level, one.propagate, one.disabled) for one in loggers]
    try:
        with monkeypatch.context() as patch, io.StringIO() as gone:
            patch.setattr(sys, "stderr", gone)
            set_up_logging("debug")
        logging.getLogger("detok").warning("words of a user")
        assert "words" not in "".join(capfd.readouterr())
    finally:
        for one, (one.handlers, level, one.propagate, one.disabled) in zip(
            loggers, before, strict=True
        ):
            one.setLevel(level)


async def test_no_log_at_any_level_contains_prompt_or_text(caplog, capfd):
    """All loggers are at DEBUG, except those of this test's own HTTP and WebSocket clients."""
    caplog.set_level(logging.DEBUG)
    canary = "canary7f3a"
    async with running(gate={"token": canary * 4}) as bridge:
        evil = "Origin: http://evil.test"
        for header in (f"Authorization: Bearer {canary}", basic(canary)):
            await raw(bridge, get(bridge, f"/{canary}?text={canary}", header, evil))
            await raw(bridge, get(bridge, f"/?text={canary}", header))
        await upgraded(bridge, evil, subprotocols=f"detok.v1, detok.token.{canary}")
        await raw(bridge, f"{canary} / HTTP/1.1\r\n{canary}\r\n\r\n".encode())
    asked = {"prompt": canary, "id": canary * 4, "params": {"engine": canary}}
    async with running() as bridge:
        async with raw_socket(bridge) as (reader, writer):
            writer.write(frame(1, wire.message("generate", **asked).encode()))
            writer.write(frame(1, canary.encode()))
            answer = await asyncio.wait_for(reader.read(1 << 16), 60)
        # The run's error has the id that the client chose, and nothing else of the request.
        assert canary not in answer.decode("latin-1").replace(canary * 4, "")
        params = {"engine": "scripted", "text": canary, "pace": 0}
        await bridge.converse(prompt=canary, params=params)
        params["faults"] = {"crash": 3}
        await bridge.converse(prompt="", params=params)
    ours = [
        record
        for record in caplog.records
        if not record.name.startswith(("websockets", "httpx", "httpcore"))
    ]
    said = " ".join([record.getMessage() + repr(getattr(record, "fields", "")) for record in ours])
    out, err = capfd.readouterr()
    assert canary not in said + out + err


def test_the_debug_log_has_events_and_no_content():
    params = {"text": "canary", "cut": "byte", "pace": 0}
    with serving("--log-level", "debug") as (process, url):
        stream = url.replace("http", "ws") + "stream"
        asyncio.run(converse(stream, url.rstrip("/"), prompt="canary", params=params))
        httpx.get(url + "?text=canary", trust_env=False)
        httpx.get(url + "canary", trust_env=False)
    out, errors = process.said
    lines = [json.loads(line) for line in errors.splitlines()]
    events = {line["event"]: line for line in lines}
    assert "client_connected" in events
    assert len({line["replica"] for line in lines}) == 1
    run = events["run_started"]["run"]
    assert len(run) == 8
    assert events["run_ended"]["run"] == run
    assert "canary" not in out + errors


EXACT = {
    "content-security-policy": CSP,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


async def test_every_response_has_exactly_the_security_headers():
    vocabulary = f"/vocabulary/{VOCABULARY.sha256}.detok"
    paths = ["/", "/healthz", "/nope", "/info", "/metrics", "/texts.json", vocabulary, "/stream"]
    async with running() as bridge:
        answers = [await bridge.get(path) for path in paths]
        answers.append(await bridge.get("/", host="evil.test"))
    for answer in answers:
        for name, value in EXACT.items():
            assert answer.headers.get_list(name) == [value], (answer.url, name)
        assert "server" not in answer.headers
    assert "'unsafe-inline'" not in CSP
    assert "'unsafe-eval'" not in CSP
    assert "*" not in CSP
