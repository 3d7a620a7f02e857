"""tools/browsers.py: a browser that cannot be used is one sentence that says what to do."""

import os
import subprocess
import sys

import browsers
import pytest

from detok_py.glyphs import drive

pytestmark = pytest.mark.native  # starts processes


def told(tmp_path, browser, *words, says=None, code=0):
    """Run the tool with a made-up `browser` that says `says`; return its exit code and its line."""
    program = tmp_path / "browser"
    if says is not None:
        program.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
        program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, browsers.__file__, *words, browser],
        env={**os.environ, browsers.VARIABLES[browser]: str(program)},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    return done.returncode, line, program


@pytest.mark.parametrize("words", [(), ("--install",)])
def test_a_chromium_that_is_too_old_is_a_failure_that_names_both_versions(tmp_path, words):
    code, line, program = told(
        tmp_path, "chromium", *words, says="Chromium 120.0.6099.224 built on"
    )
    assert code == 1
    assert line == (
        f"Chromium: {program} is version 120, and the tests need {browsers.OLDEST['chromium']} or "
        "newer; upgrade it, or set DETOK_CHROMIUM to a newer one."
    )


@pytest.mark.parametrize("words", [(), ("--install",)])
def test_a_firefox_that_is_too_old_is_a_skip_that_names_both_versions(tmp_path, words):
    code, line, program = told(tmp_path, "firefox", *words, says="Mozilla Firefox 140.12.0esr")
    assert code == 0
    assert line == (
        f"Firefox: skipped, because {program} is version 140, and the tests need "
        f"{browsers.OLDEST['firefox']} or newer; upgrade it, or set DETOK_FIREFOX to a newer one."
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
