"""Every program that a recipe of the Makefile calls takes the words that the recipe gives it."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from programs import parse

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.native  # about the files of the repository
TARGETS = re.findall(r"^([a-z-]+):$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
# A script of this repository, or a module of it, and its words.
CALL = re.compile(
    r"(?:python|python3) ((?:tools|tests)/\S+|-m (?:detok_py|benchmarks)\b)([^&|;\n]*)"
)


def calls(target):
    """Return what `make TARGET` would run: (script or module, its words)."""
    command = ["make", "-n", target, "PYTHON=python3", "TAG=v1.2.3", "ENGINE=http://127.0.0.1:1"]
    recipe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [(program, shlex.split(words)) for program, words in CALL.findall(recipe)]


@pytest.mark.parametrize("target", TARGETS)
def test_every_program_of_a_recipe_takes_its_words(monkeypatch, target):
    for program, words in calls(target):
        with monkeypatch.context() as patch:
            parse(patch, program, words)


def test_recipes_with_programs_are_found():
    called = {program for target in TARGETS for program, _ in calls(target)}
    assert {"tools/setup.py", "tools/checks.py", "tools/mutants.py", "tests/fresh/run.py"} <= called


def test_words_that_a_program_does_not_know_are_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit) as refused:
        parse(monkeypatch, "tools/checks.py", ["soak", "soak-chromium"])
    assert refused.value.code == 2
    assert "there is no check 'soak-chromium'" in capsys.readouterr().err
