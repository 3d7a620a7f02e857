"""The core is pure: it imports the standard library only, nothing that does I/O, and nothing of the rims.

Two proofs: what the source files say, each import statement wherever it stands, and what a fresh Python has really loaded afterwards.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "detok_py"
RIMS = ("bridge", "glyphs", "commands", "cli.py", "__main__.py")
CORE = sorted(path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in RIMS)
DECODE_PATH = (
    "errors", "stage", "utf8", "vocabulary", "decoders", "detokenizer", "spans", "segments", "chat", "wire", "session", "browser",
)  # fmt: skip

# Input and output, other flows of control, and the browser: a rim's business. `os` stays allowed: a loader reads a file.
IMPURE = {
    "asyncio", "concurrent", "ctypes", "ftplib", "http", "js", "micropip", "mmap", "multiprocessing", "pyodide", "select", "selectors",
    "signal", "smtplib", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "threading", "_thread", "urllib", "webbrowser", "xmlrpc",
}  # fmt: skip
# What MicroPython has, or gets a shim for in web/micropython/.
MICROPYTHON = {
    "__future__", "array", "binascii", "codecs", "collections", "functools", "hashlib", "io", "itertools", "json", "math", "os", "re",
    "struct", "sys", "typing",
}  # fmt: skip


def imports(path):
    """Return the top-level names that a file imports, wherever it does; imports within the package as "detok_py.x"."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                package = path.relative_to(PACKAGE.parent).parent.parts
                base = ".".join(package[: len(package) - node.level + 1])
                found |= {f"{base}.{node.module}"} if node.module else {f"{base}.{alias.name}" for alias in node.names}
            else:
                found.add(node.module)
                if node.module == "detok_py":
                    found |= {f"detok_py.{alias.name}" for alias in node.names}
    return found


def name(path):
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", CORE, ids=name)
def test_a_core_module_imports_the_standard_library_only(path):
    tops = {imported.split(".")[0] for imported in imports(path)} - {"detok_py"}
    assert tops <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("path", CORE, ids=name)
def test_a_core_module_does_no_io_and_starts_no_threads(path):
    assert not {imported.split(".")[0] for imported in imports(path)} & IMPURE


@pytest.mark.parametrize("path", CORE, ids=name)
def test_nothing_in_the_core_imports_a_rim(path):
    rims = {"detok_py." + rim.removesuffix(".py") for rim in RIMS}
    assert not {imported for imported in imports(path) for rim in rims if imported == rim or imported.startswith(rim + ".")}


@pytest.mark.parametrize("module", DECODE_PATH)
def test_the_decode_path_imports_what_micropython_has(module):
    path = PACKAGE / f"{module}.py"
    tops = {imported.split(".")[0] for imported in imports(path)} - {"detok_py"}
    assert tops <= MICROPYTHON


def beyond_micropython(tree):
    """Yield (line, what) for each construct that MicroPython does not have or does differently."""
    annotations = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            part = getattr(node, field, None)
            if part is not None:
                annotations |= {id(inner) for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            yield node.lineno, "match"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node.args.posonlyargs:
            yield node.lineno, "positional-only arguments"
        elif isinstance(node, ast.Subscript) and id(node) not in annotations:
            if isinstance(node.value, ast.Name) and node.value.id in ("list", "dict", "tuple", "set", "frozenset", "type"):
                yield node.lineno, f"{node.value.id}[…] outside an annotation: there built-in types can't be subscripted"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "decode" and len(node.args) > 1:
            yield node.lineno, ".decode with an error policy: there it knows none (codecs.utf_8_decode does)"


@pytest.mark.parametrize("module", DECODE_PATH)
def test_the_decode_path_uses_nothing_that_micropython_lacks(module):
    tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    assert list(beyond_micropython(tree)) == []


def test_importing_detok_loads_no_io_no_threads_and_no_package():
    """What is loaded, rather than what is written: an import hidden in a dependency of the standard library counts too."""
    question = "import sys; before = set(sys.modules); import detok_py, detok_py.browser; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-S", "-c", question], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    loaded = {module.split(".")[0] for module in done.stdout.split()} - {"detok_py"}
    assert loaded <= set(sys.stdlib_module_names)
    assert not loaded & IMPURE
