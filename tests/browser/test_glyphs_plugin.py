"""The pytest plugin, in runs of pytest of its own: what a user's test sees."""

import importlib.metadata
import re
from pathlib import Path

import pytest
from pytest_runs import LAUNCH, run_pytest

# One browser is enough for what pytest does; the catalogue runs in both.
pytestmark = pytest.mark.only_browser("chromium")

DOCS = Path(__file__).resolve().parents[2] / "docs" / "testing-with-pytest.md"

SYNC = """
import pytest
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
    page.set_content("<main>b\\ufffd</main>")  # equal warnings would be shown once
"""
ASYNC = """
import pytest
from conftest import LAUNCH
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
def run(tmp_path, browser_type_launch_args):
    def run(source, *words):
        (tmp_path / "conftest.py").write_text(LAUNCH % browser_type_launch_args)
        (tmp_path / "test_it.py").write_text(source, encoding="utf-8")
        options = ["-rA", "-o", "asyncio_mode=auto"]
        plugin = "detok_py.glyphs.plugin"
        installed = importlib.metadata.entry_points(group="pytest11")
        if plugin not in {entry.value for entry in installed}:
            options += ["-p", plugin]  # the checkout is not installed as a package
        done = run_pytest(tmp_path, *options, *words)
        said = re.findall(r"(?m)^(PASSED|FAILED|ERROR) [./]*test_it.py::(\w+)", done.stdout)
        return {name: outcome for outcome, name in said}, done.stdout

    return run


@pytest.mark.full
def test_sync_tests_are_watched_on_request(run):
    outcomes, out = run(SYNC)
    assert outcomes.pop("test_fails_by_itself") == "FAILED", out
    assert set(outcomes.values()) == {"PASSED"}, out
    assert "stays on the page" in out or "ufffd-persistent" in out


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "expected", "warnings"),
    [
        ("error", {"test_not_watched": "FAILED", "test_asks": "PASSED"}, 0),
        ("warn", {"test_not_watched": "PASSED", "test_fails_by_itself": "PASSED"}, 2),
        ("off", {"test_fails_by_itself": "PASSED", "test_asks": "PASSED"}, 0),
    ],
    ids=["error", "warn", "off"],
)
def test_the_command_line_says_what_a_fault_is_in_every_test(run, mode, expected, warnings):
    outcomes, out = run(SYNC, f"--glyph-watch={mode}", "-k", " or ".join(expected))
    assert (outcomes, out.count("GlyphWarning: ")) == (expected, warnings), out


@pytest.mark.full
def test_async_tests_are_watched_too(run):
    outcomes, out = run(ASYNC, "-p", "no:playwright")
    assert outcomes.pop("test_fails_by_itself") == "FAILED", out
    assert outcomes == dict.fromkeys(["test_asks", "test_marker", "test_within"], "PASSED"), out


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("twin", "outcome"), [("fixed", "PASSED"), ("faulty", "FAILED")])
def test_the_first_lines_of_the_documentation_work(run, server, twin, outcome):
    lines = re.search(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)[1]
    assert len(lines.splitlines()) <= 10
    lines = lines.replace(
        "http://127.0.0.1:3000", f"{server.url}/01-fresh-decoder.{twin}.html?manual"
    )
    outcomes, out = run(lines)
    assert outcomes == {"test_no_broken_glyph": outcome}, out
    assert outcome == "PASSED" or "keep one decoder for the whole stream" in out
