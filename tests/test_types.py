"""The public names have types: mypy and pyright accept their right use, and refuse the wrong one."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import detok_py

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "types" / "public_api.py"
pytestmark = pytest.mark.native  # about the files of the repository

# The states of streams are opaque: plain values to keep and to give back.
OPAQUE = {"save", "load", "future", "mark", "rollback"}


@pytest.mark.slow
def test_mypy_knows_the_public_names():
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(FILE)]
    # `packages` of pyproject.toml and a file exclude each other.
    done = subprocess.run(
        [*command, "--config-file="], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@pytest.mark.full
@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_knows_the_public_names():
    done = subprocess.run(["pyright", str(FILE)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def public_functions():
    for name in detok_py.__all__:
        found = getattr(detok_py, name)
        if not inspect.isclass(found):
            yield name, found
            continue
        for key, member in vars(found).items():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if inspect.isfunction(function) and (key == "__init__" or not key.startswith("_")):
                yield f"{name}.{key}", function


def test_no_public_signature_says_any():
    """But for values of JSON, as in the decoder of a tokenizer.json."""
    anything = {}
    for name, function in public_functions():
        said = " ".join(str(kind) for kind in function.__annotations__.values())
        said = re.sub(r"\[str, (typing\.)?Any\]", "", said)
        if "Any" in said and name.split(".")[-1] not in OPAQUE:
            anything[name] = said
    assert anything == {}


def test_dir_lists_every_public_name():
    assert set(detok_py.__all__) <= set(dir(detok_py))
