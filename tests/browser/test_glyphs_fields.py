"""The field that `detok check` asks a page by: waited for when it comes late, and typed into as a
person does.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_browser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def detok_check(browser_name, browser_type_launch_args):
    """Run `detok check`; return its exit code, its verdict and its error message."""

    def check(*words):
        environment = {
            **os.environ,
            f"DETOK_{browser_name.upper()}": str(browser_type_launch_args["executable_path"]),
        }
        command = [
            sys.executable,
            "-m",
            "detok_py",
            "check",
            *words,
            "--browser",
            browser_name,
            "--json",
            "-",
        ]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    return check


@pytest.mark.full
def test_a_field_that_comes_late_is_waited_for(server, detok_check):
    code, verdict, trouble = detok_check(
        f"{server.url}/late-field.html?manual", "--prompt", "hello", "--split", "every-byte"
    )
    assert (code, trouble) == (0, "")
    assert verdict["violations"] == [] and [
        stream["finished"] for stream in verdict["streams"]
    ] == [True]


def asks_what_is_given(server, detok_check, tmp_path, page, asked):
    (tmp_path / "asked.txt").write_text(asked, encoding="utf-8")
    code, verdict, trouble = detok_check(
        f"{server.url}/{page}",
        "--prompt",
        "naïve 漢",
        "--text",
        str(tmp_path / "asked.txt"),
        "--timeout",
        "20",
    )
    assert (code, verdict["violations"], trouble) == (0, [], "")


@pytest.mark.full
def test_a_field_that_ignores_a_value_that_is_only_set_is_typed_into(server, detok_check, tmp_path):
    asked = "You asked: naïve 漢"
    asks_what_is_given(server, detok_check, tmp_path, "tracked-field.html", asked)


@pytest.mark.full
def test_an_editor_gets_the_prompt_and_no_more(server, detok_check, tmp_path):
    asked = "You asked with 7 characters: naïve 漢"
    asks_what_is_given(server, detok_check, tmp_path, "editor-field.html", asked)


@pytest.mark.full
def test_a_page_without_a_field_cannot_get_a_prompt(server, detok_check):
    code, verdict, trouble = detok_check(
        f"{server.url}/frame.html", "--prompt", "hello", "--timeout", "3"
    )
    assert (code, verdict) == (2, None)
    assert "no field to type into" in trouble


@pytest.mark.full
def test_a_field_that_cannot_be_typed_into_is_named(detok_check, tmp_path):
    page = tmp_path / "chat.html"
    page.write_text("<p>Chat<p><textarea id=search readonly>old</textarea>")
    code, verdict, trouble = detok_check(page.as_uri(), "--prompt", "hello", "--timeout", "30")
    assert (code, verdict) == (2, None)
    assert 'into <textarea id="search" readonly="">' in trouble and "--script" in trouble
