"""What the kit says of a page that shows an answer late, in part, where nobody sees it, or not."""

import contextlib
import re
import time
import warnings

import pytest
from chat_fixtures import fixtures
from playwright.sync_api import expect

from detok_py.glyphs.proxy import ChaosProxy
from detok_py.glyphs.watch import GlyphWarning, GlyphWatch, WatchError

PAGE = """<!doctype html><html data-state=streaming><meta charset=utf-8><link rel=icon href=data:,>
<style>.away { display: none }</style><main></main><script type=module>
const main = document.querySelector("main"), html = document.documentElement;
// The end of the text has come; the test says when it may be shown.
const allowed = () => new Promise((done) => { window.show = done; });
const decoder = new TextDecoder();
let text = "", more = "";
const parts = async function* () {
  for await (const chunk of (await fetch("/wire/text?pause=60" + more)).body)
    yield (text += decoder.decode(chunk, { stream: true }));
};
%s
html.dataset.state = "finished";
</script>"""
LAST = "for await (const all of parts());"
RENDER = r"""
more = "&text=" + encodeURIComponent("Here is a **bold** word, and `code` behind it.");
const render = (all) => all.replace(/\*\*(.+?)\*\*/g, "<b>$1</b>").replace(/`(.+?)`/g, "<code>$1</code>");
"""
FORMULA = r"""
more = "&text=" + encodeURIComponent("Die Formel $\\alpha^2 + \\sqrt{b}$ ist 漢字, und \\[x_1\\] Öl.");
const katex = (shown, tex) => `<span class=katex><span style="position:absolute;clip:rect(1px,1px,1px,1px)"><math><mi>${shown}</mi><annotation>${tex}</annotation></math></span><span aria-hidden=true>${shown}</span></span>`;
const render = (all) => all.replace(/\$(.+?)\$/, (_, tex) => katex("α2+b", tex)).replace(/\\\[(.+?)\\\]/, "<math><mi>x₁</mi></math>").replace("漢字", "<ruby>漢字<rt>かんじ</rt></ruby>");
"""
PAGES = {
    "shows what comes": "for await (const all of parts()) main.textContent = all;",
    "shows a cursor behind it": "for await (const all of parts()) main.textContent = all + '▍'; main.textContent = text;",
    "renders it anew each time": "for await (const all of parts()) main.innerHTML = `<p>${all}</p><button>Copy</button>\\n`;",
    "shows it in a details": "main.innerHTML = '<details><summary>…</summary><p></p></details>'; for await (const all of parts()) main.querySelector('p').textContent = all;",
    "waits for the end": LAST + "await allowed(); main.textContent = text;",
    "waits and renders": LAST
    + "await allowed(); main.innerHTML = `<p>${text}</p><button>Copy</button>\\n`;",
    "fills what is hidden": "main.className = 'away'; for await (const all of parts()) main.textContent = all; await allowed(); main.className = '';",
    "shows nothing": LAST,
    "hides it": "main.className = 'away'; for await (const all of parts()) main.textContent = all;",
    "quotes markup in code": "for await (const all of parts()) main.textContent = all; main.insertAdjacentHTML('beforeend', ' <code>&lt;|im_end|></code>');",
    "shows markup": "for await (const all of parts()) main.textContent = all; main.append(' <|im_end|>');",
    "shows markup in pieces": "for await (const all of parts()) main.textContent = all; const span = document.createElement('span'); span.append('_end', '|>'); main.append(' <|', 'im', span);",
    "has the pieces of markup in two lines": "for await (const all of parts()) main.textContent = all; main.insertAdjacentHTML('beforeend', ' &lt;|im<p>_end|>');",
    "shows Markdown first": RENDER
    + LAST
    + "for (let n = 1; n <= text.length; n++) { main.innerHTML = render(text.slice(0, n)); await new Promise(requestAnimationFrame); }",
    "holds Markdown back": RENDER
    + "for await (const all of parts()) main.innerHTML = render(all).replace(/(\\*\\*?[^*]*\\*?|`[^`]*)$/, '');",
    "renders formulas and readings": FORMULA
    + "for await (const all of parts()) main.innerHTML = render(all);",
    "loses a word beside formulas": FORMULA
    + "for await (const all of parts()) main.innerHTML = render(all).replace('Öl', '');",
    "keeps what is no Markdown": "more = '&text=' + encodeURIComponent('It is 2 ** 3, __init__ and `'); for await (const all of parts()) main.textContent = all;",
    "takes a guess back": "let guessed = false; for await (const all of parts()) { const guesses = !guessed && all.length > 12; guessed ||= guesses; main.textContent = all + (guesses ? ' wrong' : ''); if (guesses) await new Promise(requestAnimationFrame); } main.textContent = text;",
    "joins text to what is undefined": "let shown, last = ''; for await (const all of parts()) { shown += all.slice(last.length); last = all; main.textContent = shown; }",
    "shows the last event": "for await (const all of parts()) main.textContent = all; main.insertAdjacentHTML('beforeend', '<p>data: [DONE]');",
    "writes of what is undefined": "more = '&text=' + encodeURIComponent('null or undefined? The last event is data: [DONE]'); for await (const all of parts()) main.textContent = all; main.insertAdjacentHTML('beforeend', '<p>null');",
    "loses its end": "for await (const all of parts()) main.textContent = all.slice(0, 12);",
}
# What `expect_clean(max_late=…, markdown=True)` finds, if anything.
FOUND = {
    "waits for the end": "held-too-long",
    "waits and renders": "held-too-long",
    "fills what is hidden": "held-too-long",
    "shows nothing": "dropped-text",
    "hides it": "dropped-text",
    "loses its end": "dropped-text",
    "shows markup": "format-markup",
    "shows markup in pieces": "format-markup",
    "shows Markdown first": "markdown-flash",
    "takes a guess back": "taken-back",
    "joins text to what is undefined": "added-text",
    "shows the last event": "added-text",
    "loses a word beside formulas": "dropped-text",
}


@pytest.fixture
def watched(new_context, server):
    """Open a page by a proxy in a context of its own; return its watch."""
    with contextlib.ExitStack() as stack:

        def open(script):
            chaos = stack.enter_context(ChaosProxy(delay=0))
            context = new_context()
            watch = GlyphWatch(context)
            watch.traffic = chaos
            address = chaos.url(f"{server.url}/page")
            page = context.new_page()
            body = PAGE % script
            page.route(address, lambda route: route.fulfill(body=body, content_type="text/html"))
            page.goto(address, wait_until="commit")
            return watch

        yield open


@pytest.fixture
def watch(context):
    """The watch of `page`, which comes after it among a test's arguments: it is opened later."""
    return GlyphWatch(context)


def verdict_of(watch, **options):
    """Return the rules that `expect_clean` finds broken, and its message."""
    try:
        with warnings.catch_warnings():
            # A busy machine joins pieces, which other tests are for.
            warnings.simplefilter("ignore", GlyphWarning)
            watch.expect_clean(**options)
    except AssertionError as error:
        return re.findall(r"^  ([a-z0-9-]+) \(", str(error), re.M), str(error)
    return [], ""


@pytest.mark.one_browser  # Firefox takes a minute for it, in `make soak`.
def test_text_that_is_shown_late_or_never_does_not_pass(watched):
    begun = time.monotonic()
    opened = {name: watched(script) for name, script in PAGES.items()}
    late = [name for name, found in FOUND.items() if found == "held-too-long"]
    for name in late:
        opened[name].context.pages[0].wait_for_function("() => window.show")
    for watch in (watch for name, watch in opened.items() if name not in late):
        assert watch.settle(quiet_ms=700)
    # What was shown as it came was shown by now; what was held waits as long again.
    most = (time.monotonic() - begun) * 1000
    opened[late[0]].context.pages[0].wait_for_timeout(most + 100)
    for name in late:
        opened[name].context.pages[0].evaluate("() => show()")
    for name, watch in opened.items():
        assert watch.settle(quiet_ms=700), name
        broken, said = verdict_of(watch, max_late=most, markdown=True)
        assert sorted(set(broken)) == ([FOUND[name]] if name in FOUND else []), (name, said)
        result = watch.result(max_late=most)
        passes = {one["id"] for one in result["passes"]}
        found = {one["id"] for one in result["violations"]} | passes
        assert "markdown-flash" not in found, name
        timed = FOUND.get(name) not in ("held-too-long", "dropped-text") and "formulas" not in name
        assert ("held-too-long" in passes) == timed, name
        assert ("dropped-text" in passes) == (FOUND.get(name) != "dropped-text"), name
    assert "1 piece of text was held" in verdict_of(opened["waits and renders"], max_late=most)[1]


@pytest.mark.full
def test_text_that_is_still_on_its_way_is_waited_for(watched):
    late = "new Promise((done) => setTimeout(done, 3500))"
    watch = watched(PAGES["waits for the end"].replace("allowed()", late))
    (page,) = watch.context.pages
    while not watch.traffic.sent_text:
        page.wait_for_timeout(20)
    assert verdict_of(watch) == ([], "")
    assert fixtures.TEXT in watch.text()


def test_a_limit_needs_a_stream_that_has_passed_the_proxy(watched):
    watch = watched("main.append('hi');")
    watch.settle(quiet_ms=100)
    with pytest.raises(WatchError, match="no stream passed one"):
        watch.expect_clean(max_late=2500)


def test_an_engine_that_cannot_be_reached_is_not_clean(watched):
    watch = watched("main.append('hi');")
    watch.traffic.problems.append("http://127.0.0.1:9 cannot be reached: refused.")
    with pytest.raises(WatchError, match="cannot be reached"):
        watch.expect_clean()


def test_a_rule_to_ignore_must_exist(watch, page):
    page.set_content("hi")
    with pytest.raises(WatchError, match="There is no rule 'dropped'; there are ufffd-persistent,"):
        watch.expect_clean(ignore=["tofu", "dropped"])
    assert watch.expect_clean(ignore=["tofu", "dropped-text"])["violations"] == []


def test_what_expect_text_has_found_may_have_a_replacement_character(watch, page):
    page.set_content("<main>👋👋👋👋👋👋👋 was \ufffd once</main>")
    assert verdict_of(watch)[0] == ["ufffd-persistent"]
    watch.expect_text("👋👋👋👋👋👋👋 was \ufffd once")
    assert verdict_of(watch) == ([], "")
    (one,) = watch.result()["passes"][:1]
    assert one["id"] == "ufffd-literal"


# By frames, not by the clock: a busy machine paints a frame of another process late.
AFTER = "const after = (n, act) => requestAnimationFrame(() => (n ? after(n - 1, act) : act()));"
CORRECTED = f"""<!doctype html><meta charset=utf-8><p id=o></p><script>{AFTER}
const o = document.getElementById("o");
o.textContent = new TextDecoder().decode(new Uint8Array([0xe2, 0x82]));
after(5, () => (o.textContent = "€"));
</script>"""
# The parent writes into the frames of the first line; those of the second write themselves.
FRAMES = f"""<!doctype html><meta charset=utf-8><link rel=icon href=data:,>
<iframe name=srcdoc srcdoc="<p id=o>"></iframe> <iframe name=src src=/empty></iframe> <iframe name=blank></iframe>
<iframe srcdoc='{CORRECTED}'></iframe> <iframe src=http://other.test/own></iframe>
<iframe sandbox srcdoc="<p>text"></iframe>
<script>{AFTER}
const write = (name) => {{
  const {{ body }} = frames[name].document, o = body.querySelector("#o") ?? body;
  o.textContent = name + " \ufffd";
  after(5, () => (o.textContent = "€"));
}};
onload = () => {{
  ["srcdoc", "src", "blank"].map(write);
  const late = document.body.appendChild(document.createElement("iframe"));
  late.src = "/own";
}};
</script>"""


def test_what_a_frame_shows_and_corrects_is_seen_or_told(watch, page, browser_name):
    """Firefox runs a script of the harness only in the first, empty document of a frame."""
    pages = {"": FRAMES, "own": CORRECTED, "empty": "<!doctype html><p id=o>"}
    page.context.route(
        re.compile(r"^http://(page|other)\.test/"),
        lambda route: route.fulfill(
            content_type="text/html", body=pages.get(route.request.url.split("/")[-1], "")
        ),
    )
    page.goto("http://page.test/")
    assert watch.settle(quiet_ms=500)
    for frame in page.frames:
        expect(frame.locator("body")).not_to_contain_text("\ufffd")
    result = watch.result(tofu=False)
    found = {(one["id"], one["url"], one["text"][:3]) for one in result["violations"]}
    told = [(one["id"], one["text"]) for one in result["incomplete"]]
    assert found == {
        ("ufffd-painted", "about:srcdoc", "src"),
        ("ufffd-painted", "http://page.test/empty", "src"),
        ("ufffd-painted", "about:blank", "bla"),
        ("ufffd-painted", "about:srcdoc", "\ufffd"),
        ("ufffd-painted", "http://other.test/own", "\ufffd"),
        ("ufffd-painted", "http://page.test/own", "\ufffd"),
    }, told
    # The line is the page's own, not one of the watcher.
    lines = [one["cause_hint"] for one in result["violations"] if one["text"] == "\ufffd"]
    assert [("/own:3:" in one) for one in lines if "/own:" in one] == [True, True], lines
    # In Firefox, the watcher also runs in the sandboxed frame, where scripts may not.
    unseen = [("not-watched", "about:srcdoc")] if browser_name == "chromium" else []
    assert told == unseen


# Each word says whether a reader can see it.
WORDS = """<!doctype html><meta charset=utf-8><style>
.only-heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip: rect(0 0 0 0) }
.gradient { background: linear-gradient(red, blue); background-clip: text; -webkit-background-clip: text; color: transparent }
.small { height: 0; overflow: hidden } .clear { opacity: 0 } .see-through { color: transparent } .tiny { font-size: 0 }
@keyframes blink { from { opacity: 0 } to { opacity: 0 } }
</style>
<p>seen-plain <p class=clear>not-clear <b>not-inside</b></p>
<p style="opacity: 0.01">seen-faint <p style="color: #000">seen-black <p style="color: rgb(0 0 0 / 50%)">seen-half
<p class=clear style="animation: blink 1s infinite">seen-moving
<p class=tiny>not-tiny <b style="font-size: 1rem">seen-large</b></p>
<p style="transform: scale(0)">not-scaled <p style="scale: 0">not-scaled-too <p style="content-visibility: hidden">not-skipped
<p style="position: fixed; left: 200vw">not-right <p style="position: fixed; right: 0; top: 3px">seen-corner
<p class=see-through>not-transparent <b style="color: green">seen-green</b></p>
<p class=gradient>seen-gradient <b>seen-shimmer</b></p>
<p class=see-through style="text-shadow: 0 0 1px red">seen-shadow
<p style="-webkit-text-fill-color: red; color: transparent">seen-filled
<p class=see-through style="-webkit-text-stroke: 1px red">seen-stroke
<p style="position: absolute; left: -9999px">not-left <p style="position: absolute; top: -9999px">not-above
<p style="position: absolute; left: 9999px">seen-right <p style="text-indent: -9999px">not-indented
<div style="margin-left: -9999px"><i style="position: absolute; left: 9px">seen-back</i></div>
<div class=small>not-small</div> <div class=small><i style="position: absolute; left: 9px">seen-escaped</i></div>
<span style="overflow: hidden">seen-inline</span> <div style="height: 1em; overflow: hidden">seen-line</div>
<div class=only-heard aria-live=polite>not-heard</div> <div style="clip-path: inset(50%)">not-cut</div>
<details><summary>seen-summary</summary><div class=small style="height: auto">seen-closed</div></details>
<button aria-expanded=false aria-controls=one>seen-button</button><hr><div class=small id=one>seen-collapsed</div>
<button aria-expanded=false>seen-other</button><div class="small clear">seen-next</div>
<div style="height: 50px; overflow: auto; display: flex; flex-direction: column-reverse">
  <p>seen-newest</p><div style="min-height: 999px">seen-tall</div><p>seen-oldest</p></div>
<div style="margin-top: 9000px"></div><p class=clear>seen-below</p>
<div id=host></div><script>
host.attachShadow({ mode: "open" }).innerHTML = "<p class=in style='opacity: 0'>not-shadow <slot></slot></p>";
host.innerHTML = "<b>not-slotted</b>";
</script>"""


def test_text_that_no_reader_can_see_is_not_shown(watch, page):
    page.set_content(WORDS)
    words = set(re.findall(r"(?:seen|not)-[a-z-]+", WORDS.split("</style>")[1]))
    host = {"not-shadow", "not-slotted"}  # far below the window, where opacity may end
    assert set(watch.text().split()) == {one for one in words if one.startswith("seen")} | host
    page.evaluate("() => document.body.prepend(host)")
    assert not host & set(watch.text().split())
    # A window that begins at its right end scrolls to the left.
    page.evaluate("() => { document.documentElement.dir = 'rtl' }")
    assert "not-left" in watch.text() and "not-clear" not in watch.text()


# Shows a text in elements: one for each code point, whole character, word or four code points.
SPLIT = """<!doctype html><meta charset=utf-8><link rel=icon href=data:,>
<style>.boxes span { display: inline-block } .flex { display: flex } .gap { gap: 4px }
.opaque span { opacity: 0.5; color: red }</style><main></main><script>
const whole = (text) => [...new Intl.Segmenter("en").segment(text)].map((one) => one.segment);
const marks = (text) => text.match(/[^]\\p{M}*/gu);
window.show = (id, name, text, how) => {
  const p = document.querySelector("main").appendChild(document.createElement("p"));
  [p.id, p.className] = [id, name];
  const parts = { points: (text) => [...text], whole, marks, words: (text) => text.split(/(?= )/),
    thirds: (text) => text.match(/[^]{1,4}/gu) };
  for (const part of parts[how](text))
    p.appendChild(document.createElement("span")).textContent = part;
};
</script>"""
FAMILY = "👨\u200d👩\u200d👧 ok"
DRAWN = [
    ("an emoji in boxes", "boxes", FAMILY, "points", "👨\u200d👩\u200d👧"),
    ("an emoji in whole boxes", "boxes", FAMILY, "whole", ""),
    ("an emoji in inline elements", "opaque", FAMILY, "points", ""),
    ("a flag in a flex box", "flex", "🇩🇪", "points", "🇩🇪"),
    ("pieces with a gap", "flex gap", FAMILY, "points", ""),
    ("a mark", "boxes", "cafe\u0301", "points", "e\u0301"),
    ("a vowel of Hindi", "boxes", "कि", "points", "कि"),
    ("an emoji of three chunks in boxes", "boxes", "ok " + FAMILY, "thirds", "👨\u200d👩\u200d👧"),
    ("Arabic letters", "boxes", "سلام", "points", "سلام"),
    ("Arabic letters with marks", "boxes", "سَلام", "marks", "سَلام"),
    ("letters that do not join", "boxes", "دار", "points", ""),
    ("Arabic letters in inline elements", "opaque", "سلام", "points", ""),
    ("Arabic words", "boxes", "سلام عليكم", "words", ""),
    ("an accent of a formula", "katex boxes", "x\u20d7", "points", ""),
    ("Latin letters", "boxes", "Straße", "points", ""),
]


def test_a_character_that_is_drawn_in_parts_is_a_fault(watch, page):
    page.route("**/split", lambda route: route.fulfill(body=SPLIT, content_type="text/html"))
    page.goto("http://127.0.0.1/split")
    for n, (_, style, text, how, _) in enumerate(DRAWN):
        page.evaluate("(given) => show(...given)", [f"p{n}", style, text, how])
    for n, (name, _, text, _, split) in enumerate(DRAWN):
        result = watch.result(within=f"#p{n}", truth=text, tofu=False)
        found = [one for one in result["violations"] if one["id"] == "split-character"]
        passed = "split-character" in {one["id"] for one in result["passes"]}
        assert len(result["violations"]) == len(found), name
        assert (bool(found), passed) == (bool(split), not split), name
        said = [one["cause_hint"].partition(" has parts")[0] for one in found]
        assert said == ([split] if split else []), name
    assert watch.result(exclude="p", tofu=False)["violations"] == []


# What each does with a canvas, and whether the broken glyph stays on it.
CANVASES = {
    "sized and drawn": ("add(c); c.width = 300; draw(c)", True),
    "drawn, and its class is set": ("add(c); draw(c); c.className = 'a'", True),
    "drawn before it is in the document": ("draw(c); add(c)", True),
    "cleared by its size": ("add(c); draw(c); await painted(); c.width = 300", False),
    "cleared by an attribute": (
        "add(c); draw(c); await painted(); c.setAttribute('height', 90)",
        False,
    ),
    "cleared by reset": (
        "add(c); draw(c); await painted(); c.getContext('2d').reset()",
        False,
    ),
    "cleared before it is in the document": ("draw(c); c.width = 300; add(c)", None),
    "never in the document": ("draw(c)", None),
}
DRAWING = """async ([id, does]) => {
  const add = (c) => document.body.append(c), c = document.createElement("canvas");
  const draw = (c) => c.getContext("2d").fillText("gr\\ufffdn", 9, 9);
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)));
  c.id = id;
  await eval(`(async () => { ${does} })()`);
  await painted();
}"""


def test_a_broken_glyph_on_a_canvas_is_there_until_the_canvas_is_cleared(watch, page):
    page.set_content("<p>hi")
    for n, (does, _) in enumerate(CANVASES.values()):
        page.evaluate(DRAWING, [f"c{n}", does])
    found = {one["target"]: one for one in watch.findings() if one["painted"]}
    for n, (name, (_, stays)) in enumerate(CANVASES.items()):
        assert (found[f"#c{n}"]["live"] if f"#c{n}" in found else None) == stays, name


COMPONENT = """() => {
  const host = document.createElement("chat-token"), open = { mode: "open" };
  const text = host.attachShadow(open).appendChild(document.createElement("p"));
  window.host = host;
  text.textContent = "gr\\ufffdn";
}"""


def test_a_shadow_root_is_watched_while_its_host_is_in_the_document(watch, page):
    page.set_content("<p>hi")
    page.evaluate(COMPONENT)
    assert watch.findings() == []
    roots = "() => window.__detokGlyphs.roots.size"
    assert page.evaluate(roots) == 1
    page.evaluate(
        "() => { host.shadowRoot.firstChild.textContent = ''; document.body.append(host) }"
    )
    assert watch.findings() == []
    assert page.evaluate(roots) == 2
    page.evaluate("() => { host.shadowRoot.firstChild.append('gr\\ufffdn') }")
    assert [one["kind"] for one in watch.findings()] == ["ufffd"]


@pytest.mark.parametrize("when", ["before the page", "in the page"])
def test_a_clock_that_a_test_stops_does_not_stop_the_watcher(watch, page, server, when):
    if when == "in the page":
        page.goto(f"{server.url}/01-fresh-decoder.fixed.html?manual")
    page.clock.install(time=0)
    if when == "before the page":
        page.goto(f"{server.url}/01-fresh-decoder.fixed.html?manual")
    page.clock.pause_at(3_600_000)
    page.evaluate("() => document.body.append('later')")
    assert watch.settle(quiet_ms=100, timeout_ms=5000)
    now = time.time() * 1000
    watch.findings()
    assert abs(watch._tails[-1][0] - now) < 60_000
