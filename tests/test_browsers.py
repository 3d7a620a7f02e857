"""tools/browsers.py: a browser that cannot be used is one sentence that says what to do."""

import os
import sys

import browsers
import pytest
from programs import ran

from detok_py.glyphs import drive

pytestmark = pytest.mark.native  # starts processes


def told(tmp_path, browser, *words, says=None, code=0):
    """Run the tool with a made-up `browser` that says `says`; return its exit code and its line."""
    program = tmp_path / "browser"
    if says is not None:
        program.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
        program.chmod(0o755)
    environment = {**os.environ, browsers.BROWSERS[browser].variable: str(program)}
    done = ran(sys.executable, browsers.__file__, *words, browser, env=environment)
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    return done.returncode, line, program


@pytest.mark.parametrize("words", [(), ("--install",)])
@pytest.mark.parametrize(
    ("browser", "says", "version", "code", "begins"),
    [
        ("chromium", "Chromium 120.0.6099.224 built on", 120, 1, "Chromium: "),
        ("firefox", "Mozilla Firefox 140.12.0esr", 140, 0, "Firefox: skipped, because "),
    ],
    ids=["Chromium, a failure", "Firefox, a skip"],
)
def test_a_browser_that_is_too_old_names_both_versions(
    tmp_path, browser, says, version, code, begins, words
):
    found, line, program = told(tmp_path, browser, *words, says=says)
    oldest = browsers.BROWSERS[browser].oldest
    assert found == code
    assert line == (
        f"{begins}{program} is version {version}, and the tests need {oldest} or newer; "
        f"upgrade it, or set DETOK_{browser.upper()} to a newer one."
    )


def test_a_program_that_cannot_run_is_named_with_its_reason(tmp_path):
    code, line, program = told(tmp_path, "chromium", says="error while loading libx.so", code=127)
    assert (code, line) == (
        1,
        f"Chromium: {program} cannot be launched (error while loading libx.so).",
    )


def test_a_program_that_is_not_there_is_named_with_its_variable(tmp_path):
    code, line, program = told(tmp_path, "firefox")
    assert code == 0
    assert line == (
        f"Firefox: skipped, because DETOK_FIREFOX={program} is not a program that can be run; "
        "correct it or unset it."
    )


@pytest.mark.slow
def test_a_browser_that_does_not_start_is_one_sentence(tmp_path):
    code, line, program = told(tmp_path, "chromium", "--launch", says="Chromium 199.0.1.1")
    assert code == 1
    assert line.startswith(f"Chromium: {program} cannot be launched (")


def test_a_browser_that_is_new_enough_is_its_program(tmp_path):
    code, line, program = told(tmp_path, "firefox", says="Mozilla Firefox 199.0")
    assert (code, line) == (0, f"firefox\t{program}")


def test_the_kit_names_the_playwright_that_is_pinned():
    pinned = (browsers.ROOT / "pyproject.toml").read_text("utf-8")
    assert f'"playwright=={drive.PLAYWRIGHT}.' in pinned
