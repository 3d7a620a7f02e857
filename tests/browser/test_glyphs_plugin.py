"""The pytest plugin, in runs of pytest of its own: what a user's test sees."""

import importlib.metadata
import json
import re
import subprocess
import sys

import pytest

SYNC = """
import pytest
from detok_py.glyphs import expect_no_replacement

BAD, GOOD = "<main>a\\ufffd</main>", "<main>ä</main>"

@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {**browser_type_launch_args, **LAUNCH}

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

def test_not_watched(page):
    page.set_content(BAD)
"""
ASYNC = """
import pytest
from playwright.async_api import async_playwright
from detok_py.glyphs import expect_no_replacement

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
"""


@pytest.fixture
def run(tmp_path, browser_type_launch_args, browser_name):
    def run(source, *words):
        if browser_name != "chromium":
            pytest.skip("one browser is enough for what pytest does; the catalogue runs in both")
        (tmp_path / "test_it.py").write_text(f"LAUNCH = {json.loads(json.dumps(browser_type_launch_args))!r}\n{source}", encoding="utf-8")
        options = ["-q", "-rA", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"]
        if not [e for e in importlib.metadata.entry_points(group="pytest11") if e.value == "detok_py.glyphs.plugin"]:
            options += ["-p", "detok_py.glyphs.plugin"]  # the checkout is not installed as a package
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *words, "test_it.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        return dict([line[::-1] for line in re.findall(r"(?m)^(PASSED|FAILED|ERROR) test_it.py::(\w+)", done.stdout)]), done.stdout

    return run


def test_sync_tests_are_watched_where_they_ask(run):
    outcomes, out = run(SYNC)
    assert outcomes.pop("test_fails_by_itself") == "FAILED", out
    assert set(outcomes.values()) == {"PASSED"}, out
    assert "stays on the page" in out or "ufffd-persistent" in out


def test_every_test_is_watched_when_the_command_line_says_so(run):
    outcomes, out = run(SYNC, "--glyph-watch=error", "-k", "not_watched or asks")
    assert outcomes == {"test_not_watched": "FAILED", "test_asks": "PASSED"}, out


def test_a_fault_may_be_a_warning_or_nothing(run):
    outcomes, out = run(SYNC, "--glyph-watch=warn", "-k", "fails_by_itself")
    assert outcomes == {"test_fails_by_itself": "PASSED"} and "GlyphWarning" in out, out
    outcomes, out = run(SYNC, "--glyph-watch=off", "-k", "fails_by_itself or asks")
    assert set(outcomes.values()) == {"PASSED"} and "GlyphWarning" not in out, out


def test_async_tests_are_watched_too(run):
    outcomes, out = run(ASYNC, "-p", "no:playwright")
    assert outcomes == {"test_asks": "PASSED", "test_fails_by_itself": "FAILED"}, out
