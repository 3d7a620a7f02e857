"""The packages for browsers and the full wheel: which files they have, their size and content."""

import io
import subprocess
import zipfile
from pathlib import Path

import browser_wheel as packer
import layout
import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.native, pytest.mark.full]  # about the files of the repository


CORE = layout.files("Pyodide")
SOURCE = '''"""What it is for."""
from typing import NamedTuple

class Pair(NamedTuple):
    """Two."""

    left: int
    right: int = 1  # a default

def f(x: int, *rest: str, key: str = "a") -> str:
    """Say it."""
    later: int
    text: str = """
        kept spaces
    """
    def inner() -> None:
        """Nothing."""
    return text + key  # joined
'''
BARE = """from typing import NamedTuple
class Pair(NamedTuple):
 left: int
 right: int = 1
def f(x, *rest, key='a'):
 a = '\\n        kept spaces\\n    '
 def inner():
  pass
 return a + key"""


def test_a_packed_module_has_no_docstrings_comments_or_annotations_of_functions():
    assert packer.bare(SOURCE) == BARE


@pytest.fixture(scope="module")
def wheel():
    with zipfile.ZipFile(io.BytesIO(packer.wheel_bytes(smallest=True))) as wheel:
        yield wheel


def test_the_browser_wheel_is_small(wheel):
    assert wheel.fp.getbuffer().nbytes <= packer.MOST_BYTES


def test_the_same_files_give_the_same_archive():
    files = {"a/b.py": b"x = 1\n" * 50, "é.txt": b"", "c": bytes(range(256))}
    assert packer.zipped(files) == packer.zipped(files)
    with zipfile.ZipFile(io.BytesIO(packer.zipped(files))) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == files


def test_the_browser_wheel_has_exactly_the_modules_for_pyodide(wheel):
    names = wheel.namelist()
    modules = [name for name in names if ".dist-info/" not in name]
    assert modules == [path.relative_to(ROOT).as_posix() for path in CORE]
    assert {"detok_py/page/answer.py", "detok_py/tokenizers/__init__.py"} <= set(modules)


def test_the_browser_wheel_lists_each_file_with_its_hash(wheel):
    (record,) = [name for name in wheel.namelist() if name.endswith("/RECORD")]
    lines = [line.split(",") for line in wheel.read(record).decode().splitlines()]
    assert [line[0] for line in lines] == wheel.namelist()
    for name, digest, size in lines[:-1]:
        assert (digest, size) == (
            "sha256=" + packer.urlsafe_sha256(wheel.read(name)),
            str(len(wheel.read(name))),
        )


@pytest.fixture(scope="module")
def static():
    """Return the files that the build backend adds to the full wheel, from path to target path."""
    hatch_build = pytest.importorskip(
        "hatch_build", reason="the build backend is not installed here"
    )
    hook = hatch_build.StaticFiles(str(ROOT), {}, None, None, "", "wheel", None)
    data = {"force_include": {}}
    hook.initialize("standard", data)
    return {
        Path(file).relative_to(ROOT).as_posix(): target
        for file, target in data["force_include"].items()
    }


def test_the_full_wheel_has_every_file_that_the_bridge_serves(static):
    tracked = subprocess.run(["git", "ls-files", "web"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a clone")
    for file in tracked.stdout.split():
        assert static[file] == "detok_py/bridge/static/" + file
    for file in ("manifest.json", "pyodide.asm.wasm", "python_stdlib.zip"):
        assert f"detok_py/bridge/static/runtime/{file}" in static.values()


def test_the_full_wheel_has_each_file_once(static):
    assert len(set(static.values())) == len(static)
    assert not [file for file in static if "__pycache__" in file]
