"""The pytest plugin, in runs of pytest of its own: what a user's test sees."""

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from chat_fixtures import fixtures

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "testing-with-pytest.md"

OWN_BROWSER = """
import pytest

@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {**browser_type_launch_args, **LAUNCH}

"""
SYNC = (
    OWN_BROWSER
    + """
from detok_py.glyphs import expect_no_replacement

BAD, GOOD = "<main>a\\ufffd</main>", "<main>ä</main>"

def test_asks(page, glyph_watch):
    page.set_content(GOOD)
    assert glyph_watch.settle(quiet_ms=100)
    glyph_watch.expect_clean(within="main")
    glyph_watch.expect_text("ä")

def test_fails_by_itself(page, glyph_watch):
    page.set_content(BAD)

@pytest.mark.glyph_watch(ignore=["ufffd-persistent"])
def test_marker(page):
    page.set_content(BAD)

def test_function(page):
    page.set_content(BAD)
    expect_no_replacement(page, exclude="main")
    expect_no_replacement(page, allow_literal=True)
    expect_no_replacement(page, allow_literal="a\\ufffd")
    with pytest.raises(AssertionError, match="ufffd-persistent"):
        expect_no_replacement(page)

def test_dropped(page, glyph_watch):
    page.set_content("<main>Grße</main>")
    with pytest.raises(AssertionError, match="dropped"):
        glyph_watch.expect_text("Grüße")

def test_chaos(page, glyph_watch, chaos):
    assert chaos.sent_text is None and chaos.server.startswith("http://127.0.0.1:")

def test_no_answer(page, glyph_watch, chaos):
    address = chaos.url("http://127.0.0.1:1/")
    page.route(address, lambda route: route.fulfill(body=GOOD, content_type="text/html; charset=utf-8"))
    page.goto(address)
    with pytest.raises(AssertionError, match="no stream passed the proxy; waited"):
        glyph_watch.expect_clean()
    with pytest.raises(AssertionError, match="no text to compare"):
        glyph_watch.expect_text(chaos.sent_text)
    glyph_watch.expect_clean(ignore=["no-answer"])

@pytest.mark.glyph_watch(within="aside")
def test_marker_within(page):
    page.set_content(BAD + "<aside>ä</aside>")

@pytest.mark.glyph_watch(exclude="main")
def test_marker_exclude(page):
    page.set_content(BAD)

@pytest.mark.glyph_watch(allow_literal="a\\ufffd")
def test_marker_literal(page):
    page.set_content(BAD)

def test_include(page):
    page.set_content(BAD + "<aside>ä</aside>")
    expect_no_replacement(page, include="aside")
    with pytest.raises(AssertionError, match="main"):
        expect_no_replacement(page, include="main")

def test_within_and_ignore(page, glyph_watch):
    page.set_content(BAD + "<aside>ä</aside>")
    glyph_watch.expect_clean(within="aside")
    glyph_watch.expect_clean(ignore=["ufffd-persistent"])
    with pytest.raises(AssertionError, match="ufffd-persistent"):
        glyph_watch.expect_clean(within="main")

def test_strict(page, glyph_watch):
    page.set_content("<main></main>")
    page.evaluate("() => { const m = document.querySelector('main'); m.append('\\ufffd'); m.firstChild.remove(); }")
    glyph_watch.expect_clean()
    with pytest.raises(AssertionError, match="ufffd-unpainted"):
        glyph_watch.expect_clean(strict=True)

def test_a_selector_must_match(page, glyph_watch):
    page.set_content(GOOD)
    for wrong in ("[role=asistant]", "[["):
        with pytest.raises(RuntimeError, match="selector|matches"):
            glyph_watch.expect_clean(within=wrong)

def test_clear(page, glyph_watch):
    page.set_content(BAD)
    page.evaluate("() => new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)))")
    page.goto("about:blank")
    with pytest.raises(AssertionError, match="ufffd-painted|ufffd-persistent"):
        glyph_watch.expect_clean(ignore=["ufffd-unpainted"], strict=True)
    glyph_watch.clear()
    glyph_watch.expect_clean(strict=True)

def test_settle_gives_up(page, glyph_watch):
    page.set_content("<main data-n=0></main><script>setInterval(() => document.querySelector('main').dataset.n++, 5)</script>")
    assert glyph_watch.settle(quiet_ms=500, timeout_ms=1500) is False

def test_not_watched(page):
    page.set_content(BAD)
"""
)
ASYNC = """
import pytest
from playwright.async_api import async_playwright
from detok_py.glyphs import expect_no_replacement

pytestmark = pytest.mark.one_browser

@pytest.fixture
async def context():
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**LAUNCH)
        yield await browser.new_context()
        await browser.close()

@pytest.fixture
async def page(context):
    return await context.new_page()

async def test_asks(page, glyph_watch):
    await page.set_content("<main>ä</main>")
    assert await glyph_watch.settle(quiet_ms=100)
    await glyph_watch.expect_clean()
    await glyph_watch.expect_text("ä")
    await page.set_content("<main>a\\ufffd</main>")
    with pytest.raises(AssertionError, match="ufffd"):
        await expect_no_replacement(page)

async def test_fails_by_itself(page, glyph_watch):
    await page.set_content("<main>a\\ufffd</main>")

@pytest.mark.glyph_watch(ignore=["ufffd-persistent"])
async def test_marker(page):
    await page.set_content("<main>a\\ufffd</main>")

async def test_within(page, glyph_watch, chaos):
    await page.set_content("<main>a\\ufffd</main><aside>ä</aside>")
    await glyph_watch.expect_clean(within="aside", ignore=["tofu"])
    assert chaos.sent_text is None
    with pytest.raises(AssertionError, match="dropped"):
        await glyph_watch.expect_text("Grüße", within="aside")
"""


@pytest.fixture
def run(tmp_path, browser_type_launch_args, browser_name):
    def run(source, *words):
        if browser_name != "chromium":
            pytest.skip("one browser is enough for what pytest does; the catalogue runs in both")
        (tmp_path / "test_it.py").write_text(
            f"LAUNCH = {json.loads(json.dumps(browser_type_launch_args))!r}\n{source}",
            encoding="utf-8",
        )
        options = ["-q", "-rA", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
        if not [
            e
            for e in importlib.metadata.entry_points(group="pytest11")
            if e.value == "detok_py.glyphs.plugin"
        ]:
            options += [
                "-p",
                "detok_py.glyphs.plugin",
            ]  # the checkout is not installed as a package
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *words, "test_it.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return dict(
            [
                line[::-1]
                for line in re.findall(r"(?m)^(PASSED|FAILED|ERROR) test_it.py::(\w+)", done.stdout)
            ]
        ), done.stdout

    return run


@pytest.mark.full
def test_sync_tests_are_watched_on_request(run):
    outcomes, out = run(SYNC)
    assert outcomes.pop("test_fails_by_itself") == "FAILED", out
    assert set(outcomes.values()) == {"PASSED"}, out
    assert "stays on the page" in out or "ufffd-persistent" in out


@pytest.mark.full
def test_every_test_is_watched_when_the_command_line_says_so(run):
    outcomes, out = run(SYNC, "--glyph-watch=error", "-k", "not_watched or asks")
    assert outcomes == {"test_not_watched": "FAILED", "test_asks": "PASSED"}, out


@pytest.mark.full
def test_a_fault_can_be_a_warning_or_be_ignored(run):
    outcomes, out = run(SYNC, "--glyph-watch=warn", "-k", "fails_by_itself")
    assert outcomes == {"test_fails_by_itself": "PASSED"} and "GlyphWarning" in out, out
    outcomes, out = run(SYNC, "--glyph-watch=off", "-k", "fails_by_itself or asks")
    assert set(outcomes.values()) == {"PASSED"} and "GlyphWarning" not in out, out


@pytest.mark.full
def test_async_tests_are_watched_too(run):
    outcomes, out = run(ASYNC, "-p", "no:playwright")
    assert outcomes.pop("test_fails_by_itself") == "FAILED", out
    assert outcomes == dict.fromkeys(["test_asks", "test_marker", "test_within"], "PASSED"), out


@pytest.mark.full
def test_a_test_that_is_watched_by_the_command_line_can_get_a_warning(run):
    outcomes, out = run(SYNC, "--glyph-watch=warn", "-k", "not_watched")
    assert outcomes == {"test_not_watched": "PASSED"} and "GlyphWarning" in out, out


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("twin", "outcome"), [("fixed", "PASSED"), ("faulty", "FAILED")])
def test_the_first_lines_of_the_documentation_work(run, twin, outcome):
    lines = re.search(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)[1]
    assert len(lines.splitlines()) <= 10
    with fixtures.ChatServer() as server:
        lines = lines.replace(
            "http://127.0.0.1:3000", f"{server.url}/01-fresh-decoder.{twin}.html?manual"
        )
        outcomes, out = run(OWN_BROWSER + lines)
    assert outcomes == {"test_no_broken_glyph": outcome}, out
    assert outcome == "PASSED" or "keep one decoder for the whole stream" in out
