"""The proxy that the npm package brings passes the tests of the one in Python: the same bytes in
the same pieces.
"""

import json
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import test_glyphs_proxy
from test_glyphs_proxy import *  # noqa: F403  the tests, and their fixtures
from test_glyphs_proxy import TEXT, ProxyError, client_of, engine, raw_exchange, talker  # noqa: F401

del test_an_upstream_that_is_not_an_address_is_refused  # noqa: F821  which asks no proxy
pytestmark = [pytest.mark.native, pytest.mark.slow]
GET_TEXT = b"GET /text/length HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def node():
    with subprocess.Popen(
        ["node", str(Path(__file__).with_name("node_proxy.mjs"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:

        def call(*words):
            print(json.dumps(words), file=process.stdin, flush=True)
            said = json.loads(process.stdout.readline())
            if "error" in said:
                raise ProxyError(said["error"])
            return said["value"]

        yield call
        process.stdin.close()
        process.wait(60)


@pytest.fixture(autouse=True)
def in_node(monkeypatch, node):
    class NodeProxy:
        def __init__(self, upstream=None, *, delay=0.003, **options):
            self.at = node("open", {**options, "delay": delay * 1000})
            self.server = node("listen", self.at, upstream)

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            node("close", self.at)

        def url(self, address):
            return node("url", self.at, address)

        def __getattr__(self, name):
            state = node("state", self.at)
            answers = [SimpleNamespace(**one) for one in state.pop("answers")]
            return {**state, "answers": answers}[name]

    monkeypatch.setattr(test_glyphs_proxy, "ChaosProxy", NodeProxy)


def test_a_request_whose_client_has_left_is_not_sent_again(engine):  # noqa: F811
    engine.left.clear()
    with test_glyphs_proxy.ChaosProxy() as chaos:
        address = chaos.url(engine.url)
        client = client_of(address)
        client.request("GET", "/text/length")
        client.getresponse().read()  # the connection to the engine is kept
        engine.seen.clear()
        client.request("GET", "/silent")
        while not engine.seen:
            time.sleep(0.01)
        client.close()
        assert engine.left.wait(60)
        assert raw_exchange(address, GET_TEXT).endswith(TEXT.encode())
        assert [path for path, _ in engine.seen] == ["/silent", "/text/length"]
        assert list(chaos.problems) == []
