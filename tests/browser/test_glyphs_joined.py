"""A page that reads late gets joined pieces: the kit cuts them again, or says that it could not."""

import json
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest
from chat_fixtures import fixtures
from local_server import local_server

from detok_py.glyphs import ChaosProxy, GlyphWatch
from detok_py.glyphs.report import as_html
from detok_py.glyphs.watch import GlyphWarning

pytestmark = pytest.mark.full

# Each is a way to read the stream `body`. All but "right" decode each chunk by itself.
WAYS = {
    "reader": "const r = body.getReader(); for (let x; !(x = await r.read()).done;) show(x.value);",
    "buffer": """const r = body.getReader({ mode: "byob" });
        for (let x; !(x = await r.read(new Uint8Array(100))).done;) show(x.value);""",
    "loop": "for await (const chunk of body) show(chunk);",
    "pipe": "await body.pipeThrough(new TransformStream()).pipeTo(new WritableStream({ write: (chunk) => show(chunk) }));",
    "tee": "const [one] = body.tee(); for await (const chunk of one) show(chunk);",
    "right": """const decoder = new TextDecoder();
        for await (const chunk of body) show(chunk, decoder, { stream: true });""",
    "timers": """let set = 0;
        const { port1, port2 } = new MessageChannel(), fired = window.fired = [];
        const start = () => setTimeout((n) => fired.push(n), 0, set++);
        port1.onmessage = start;
        for await (const chunk of body) show(chunk), start(), port2.postMessage(0);
        while (fired.length < 2 * ends.length - 2) await new Promise((go) => setTimeout(go, 10));""",
    "clone": "for await (const chunk of response.clone().body) show(chunk);",
}
PAGE = """<!doctype html><html data-state=streaming><meta charset=utf-8><link rel=icon href=data:,>
<main></main><script type=module>
const ends = [0], main = document.querySelector("main");
const show = (chunk, decoder = new TextDecoder(), options = {}) => {
  ends.push(ends.at(-1) + chunk.length);
  main.append(decoder.decode(chunk, options));
};
const response = await fetch(%s);
const { body } = response;
// The whole answer comes while the page is busy.
for (const end = performance.now() + %s; performance.now() < end;);
%s
window.ends = ends;
document.documentElement.dataset.state = "finished";
</script>"""
WHOLE = """<!doctype html><html data-state=streaming><meta charset=utf-8><link rel=icon href=data:,>
<main></main><script type=module>
const response = await fetch("/wire");
if (response.body) document.querySelector("main").append(await response.text());
document.documentElement.dataset.state = "finished";
</script>"""


class Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urlsplit(self.path)
        query = dict(parse_qs(url.query))
        if url.path == "/wire":
            kind = "text/plain; charset=utf-8"
            body = fixtures.TEXT * int(query.get("times", ["1"])[0])
        elif url.path == "/whole":
            kind, body = "text/html", WHOLE
        else:
            (address,), (busy,) = query.get("from", ["/wire"]), query.get("busy", ["400"])
            kind, body = "text/html", PAGE % (json.dumps(address), int(busy), WAYS[url.path[1:]])
        data = body.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("access-control-allow-origin", "*")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))


@pytest.fixture(scope="module")
def engine():
    with local_server(Engine) as server:
        yield server.url


@pytest.fixture
def watched(page):
    """Return the watch of the page, behind a proxy with these options."""
    with ChaosProxy(delay=0) as chaos:
        watch = GlyphWatch.of(page)
        watch.traffic = chaos
        yield watch


def judged(watch, page):
    """Return which cuts of its answer a page did not see, and the verdict."""
    assert watch.settle(quiet_ms=100)
    result = watch.result()
    ends = page.evaluate("window.ends")
    return [cut for cut in watch.traffic.answers[-1].reads.cuts if cut not in ends], result


@pytest.mark.parametrize("way", WAYS)
def test_a_busy_page_gets_the_pieces_as_they_were_cut(page, watched, engine, way):
    page.goto(watched.traffic.url(f"{engine}/{way}"))
    missed, result = judged(watched, page)
    assert missed == []
    assert ("ufffd-persistent" in {one["id"] for one in result["violations"]}) == (way != "right")
    assert "pieces-joined" not in {one["id"] for one in result["incomplete"]}


def test_timers_that_a_page_sets_at_its_pieces_fire_in_their_order(page, watched, engine):
    page.goto(watched.traffic.url(f"{engine}/timers"))
    judged(watched, page)
    fired = page.evaluate("window.fired")
    assert fired == list(range(2 * len(page.evaluate("window.ends")) - 2))


def test_a_stream_of_another_origin_is_cut_too(page, watched, engine):
    address = watched.traffic.url(f"{engine.replace('127.0.0.1', 'localhost')}/wire")
    page.goto(watched.traffic.url(f"{engine}/reader?from={address}"))
    missed, _ = judged(watched, page)
    assert missed == []


def test_a_long_answer_is_cut_everywhere_too(page, watched, engine):
    page.goto(watched.traffic.url(f"{engine}/reader?from=/wire%3Ftimes=20"))
    missed, result = judged(watched, page)
    answer = watched.traffic.answers[-1]
    count = len(answer.reads.cuts)
    assert len(missed) < count > 300
    # On a busy machine the harness may answer too late for some: then these are told.
    told = [one["text"] for one in result["incomplete"] if one["id"] == "pieces-joined"]
    assert told == ([f"{len(missed)} of {count} cuts of {answer.url}"] if missed else [])


def test_a_page_that_reads_the_answer_whole_is_clean(page, watched, engine):
    page.goto(watched.traffic.url(f"{engine}/whole"))
    assert watched.settle(quiet_ms=100)
    assert watched.expect_clean()["incomplete"] == []


def test_cuts_that_the_page_did_not_see_are_told(page, watched, engine, monkeypatch):
    # A test that does not call Playwright while the page asks answers too late.
    read = watched.traffic.read
    monkeypatch.setattr(watched.traffic, "read", lambda m: "" if "within" in m else read(m))
    # On a busy machine the whole answer may come later than a page is busy.
    for busy in (400, 1600, 6400):
        page.goto(watched.traffic.url(f"{engine}/right?busy={busy}"))
        missed, result = judged(watched, page)
        if missed:
            break
    (joined,) = [one for one in result["incomplete"] if one["id"] == "pieces-joined"]
    answer = watched.traffic.answers[-1]
    assert (
        missed
        and joined["text"] == f"{len(missed)} of {len(answer.reads.cuts)} cuts of {answer.url}"
    )
    assert "ufffd-persistent" not in {one["id"] for one in result["passes"]}
    assert "<h1>No broken glyph was shown, but not every cut was tested</h1>" in as_html(result)
    with pytest.warns(GlyphWarning, match="not every cut was tested:\n.*a longer delay"):
        watched.expect_clean()
