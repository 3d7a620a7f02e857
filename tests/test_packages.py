"""What is packed for a browser is the core, whole and small, and means what the sources mean."""

import ast
import importlib.util
import io
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.native  # about the files of the repository


def load_tool(name):
    spec = importlib.util.spec_from_file_location(f"detok_tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


packer = load_tool("browser_wheel")
CORE = packer.core_files()


class WithoutTypes(ast.NodeTransformer):
    """Makes `x: T = 1` within functions `x = 1`."""

    depth = 0

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def visit_AnnAssign(self, node):
        if not self.depth or node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def meaning(source):
    """Return the syntax tree with what `bare` may take away taken away, and with the line of every statement."""
    tree = WithoutTypes().visit(ast.parse(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body[0].value.value = ""
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return ast.dump(tree), lines


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_without_its_comments_means_the_same_on_the_same_lines(path):
    source = path.read_text(encoding="utf-8")
    assert meaning(packer.bare(source)) == meaning(source)


@pytest.fixture(scope="module")
def wheel():
    with zipfile.ZipFile(io.BytesIO(packer.wheel_bytes())) as wheel:
        yield wheel


def test_the_browsers_wheel_is_small(wheel):
    assert wheel.fp.getbuffer().nbytes <= packer.MOST_BYTES


def test_the_same_files_give_the_same_archive():
    files = {"a/b.py": b"x = 1\n" * 50, "é.txt": b"", "c": bytes(range(256))}
    assert packer.zipped(files) == packer.zipped(files)
    with zipfile.ZipFile(io.BytesIO(packer.zipped(files))) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == files


def test_the_browsers_wheel_has_the_core_and_no_rim(wheel):
    names = wheel.namelist()
    modules = [name for name in names if ".dist-info/" not in name]
    assert modules == [path.relative_to(ROOT).as_posix() for path in CORE]
    assert {"detok_py/browser.py", "detok_py/tokenizers/__init__.py"} <= set(modules)
    assert not [name for name in modules if name.split("/")[1] in packer.RIMS]


def test_the_browsers_wheel_lists_each_of_its_files_with_its_hash(wheel):
    (record,) = [name for name in wheel.namelist() if name.endswith("/RECORD")]
    lines = [line.split(",") for line in wheel.read(record).decode().splitlines()]
    assert [line[0] for line in lines] == wheel.namelist()
    for name, digest, size in lines[:-1]:
        assert (digest, size) == ("sha256=" + packer.urlsafe_sha256(wheel.read(name)), str(len(wheel.read(name))))


@pytest.fixture(scope="module")
def static():
    """What the build backend is told to add to the full wheel: path in the repository → path in the wheel."""
    pytest.importorskip("hatchling", reason="the build backend is not installed here")
    hook = load_tool("hatch_build").StaticFiles(str(ROOT), {}, None, None, "", "wheel", None)
    data = {"force_include": {}}
    hook.initialize("standard", data)
    return {Path(file).relative_to(ROOT).as_posix(): target for file, target in data["force_include"].items()}


def test_the_full_wheel_has_every_file_that_the_bridge_serves(static):
    tracked = subprocess.run(["git", "ls-files", "web"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a clone")
    for file in tracked.stdout.split():
        assert static[file] == "detok_py/bridge/static/" + file
    for file in ("manifest.json", "pyodide.asm.wasm", "python_stdlib.zip"):
        assert static[f".build/runtime/{file}"] == f"detok_py/bridge/static/runtime/{file}"


def test_the_full_wheel_has_no_file_twice_over(static):
    assert len(set(static.values())) == len(static)
    assert not [file for file in static if file.endswith(".gz") or "__pycache__" in file]
