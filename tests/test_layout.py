"""Folders are rules: what a file imports, and which Python it is written for, its folder says.
Functions, classes and files stay small.

Two proofs of the imports: what the source files say, each import statement wherever it stands, and
what a fresh Python has really loaded afterwards.
"""

import ast
import contextlib
import importlib
import re
import sys
from pathlib import Path

import layout
import pytest
from programs import ran

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.native  # about the files of the repository


PACKAGE = layout.PACKAGE
MODULES = sorted(PACKAGE.rglob("*.py"))

# Input and output, other flows of control, and the browser: not for what runs in a page. `os`
# stays allowed: a loader reads a file.
IMPURE = {
    "asyncio", "concurrent", "ctypes", "ftplib", "http", "js", "micropip", "mmap", "multiprocessing",
    "pyodide", "select", "selectors", "signal", "smtplib", "socket", "socketserver", "sqlite3", "ssl",
    "subprocess", "threading", "_thread", "urllib", "webbrowser", "xmlrpc",
}  # fmt: skip
# What MicroPython has, or gets a shim for in web/micropython/.
MICROPYTHON = {
    "__future__", "array", "binascii", "codecs", "collections", "functools", "hashlib", "io",
    "itertools", "json", "math", "operator", "os", "re", "struct", "sys", "time", "typing", "warnings",
}  # fmt: skip


def name(path):
    return path.relative_to(PACKAGE).as_posix()


def own(path):
    """Return what a file imports of detok_py: names of folders, or of modules at the top."""
    mine = {dotted for dotted in layout.imports(path) if dotted.split(".")[0] == "detok_py"}
    return {dotted.split(".")[1] if "." in dotted else "__init__" for dotted in mine}


def foreign(path):
    """Return the top-level names that a file imports from elsewhere, when it runs."""
    return {dotted.split(".")[0] for dotted in layout.imports(path, types=False)} - {"detok_py"}


@pytest.mark.parametrize(
    "path", [one for one in MODULES if layout.part(one) in layout.FOLDERS], ids=name
)
def test_a_module_imports_what_its_folder_says(path):
    folder = layout.part(path)
    assert own(path) - {folder, "__init__"} <= layout.FOLDERS[folder].imports


def test_a_folder_runs_where_all_that_it_imports_runs():
    for folder, rules in layout.FOLDERS.items():
        runtimes = {runtime.split()[0] for runtime in rules.runs_in}
        for other in rules.imports & set(layout.FOLDERS):
            assert runtimes <= layout.FOLDERS[other].runs_in, (folder, other)


@pytest.mark.slow
def test_no_module_imports_itself_by_a_detour():
    """An import within a function counts: it would only hide the circle."""
    ways = {}
    for path in MODULES:
        dotted = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        ways[dotted.removesuffix(".__init__")] = layout.imports(path)
    done = set()

    def walk(module, trail):
        assert module not in trail, " → ".join([*trail[trail.index(module) :], module])
        if module in done or module not in ways:
            return
        for other in sorted(ways[module] & set(ways)):
            # The package itself is only asked for names that every module may have.
            if other != "detok_py":
                walk(other, [*trail, module])
        done.add(module)

    for module in ways:
        walk(module, [])


ON_DEMAND = layout.files("Pyodide on demand")
IN_A_PAGE = layout.files("Pyodide") + ON_DEMAND


@pytest.mark.parametrize("path", IN_A_PAGE, ids=name)
def test_what_runs_in_a_page_imports_the_standard_library_and_does_no_io(path):
    assert foreign(path) <= set(sys.stdlib_module_names)
    assert not foreign(path) & IMPURE


@pytest.mark.parametrize("path", layout.files("MicroPython") + ON_DEMAND, ids=name)
def test_what_runs_in_micropython_imports_what_it_has(path):
    assert foreign(path) <= MICROPYTHON


def beyond_micropython(tree, names):
    """Yield (line, what) for each construct that MicroPython does not have or does differently.
    `names` are the module's globals.
    """
    annotations = set()
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            part = getattr(node, field, None)
            if part is not None:
                annotations |= {id(inner) for inner in ast.walk(part)}
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":  # left out there
            annotations |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            yield node.lineno, "match"
        elif (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            and node.args.posonlyargs
        ):
            yield node.lineno, "positional-only arguments"
        elif isinstance(node, ast.Subscript) and id(node) not in annotations:
            if isinstance(node.value, ast.Name) and node.value.id in (
                "list", "dict", "tuple", "set", "frozenset", "type",
            ):  # fmt: skip
                yield (
                    node.lineno,
                    f"{node.value.id}[…] outside an annotation: there built-in types can't be subscripted",
                )
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "decode"
            and len(node.args) > 1
        ):
            yield (
                node.lineno,
                ".decode with an error policy: there it knows none (codecs.utf_8_decode does)",
            )
        elif isinstance(node, ast.JoinedStr) and any(
            isinstance(inner, ast.JoinedStr)
            for part in node.values
            if isinstance(part, ast.FormattedValue)
            for inner in ast.walk(part.value)
        ):
            yield node.lineno, "an f-string in the braces of another: there it is not a string"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("strip", "lstrip", "rstrip")
            and node.args
        ):
            with contextlib.suppress(NameError):  # of a parameter nothing is known
                letters = eval(ast.unparse(node.args[0]), dict(names))
                if isinstance(letters, str) and not letters.isascii():
                    yield (
                        node.lineno,
                        f".{node.func.attr} of {letters!r}: there it takes bytes away",
                    )


@pytest.mark.parametrize("path", layout.files("MicroPython") + ON_DEMAND, ids=name)
def test_what_runs_in_micropython_uses_nothing_that_it_lacks(path):
    dotted = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    names = vars(importlib.import_module(dotted.removesuffix(".__init__")))
    assert list(beyond_micropython(ast.parse(path.read_text(encoding="utf-8")), names)) == []


def test_importing_detok_loads_no_io_no_threads_and_no_package():
    """What is loaded, rather than what is written: an import hidden in a dependency of the standard
    library counts too.
    """
    question = "import sys; before = set(sys.modules); import detok_py, detok_py.page.answer; print(*sorted(set(sys.modules) - before))"
    done = ran(sys.executable, "-S", "-c", question, check=True)
    loaded = {module.split(".")[0] for module in done.stdout.split()} - {"detok_py"}
    assert loaded <= set(sys.stdlib_module_names)
    assert not loaded & IMPURE


MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_OF_A_FILE = 500
MOST_ATTRIBUTES = 15


def own_attributes(tree):
    """Return the attributes that a class sets on self."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def too_large(source):
    """Yield what is above a bound in a module."""
    lines = len(source.splitlines())
    if lines > MOST_LINES_OF_A_FILE:
        yield f"{lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > MOST_LINES_OF_A_FUNCTION:
                yield f"{node.name}: {lines} lines"
        elif isinstance(node, ast.ClassDef) and len(own_attributes(node)) > MOST_ATTRIBUTES:
            yield f"{node.name}: {len(own_attributes(node))} attributes"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_functions_classes_and_files_are_small(path):
    assert list(too_large(path.read_text(encoding="utf-8"))) == []


def test_what_is_too_large_is_found():
    sixteen = "".join(f"        self.a{n} = {n}\n" for n in range(16))
    source = f"class Wide:\n    def f(self):\n{sixteen}\nasync def long():\n" + "    0\n" * 600
    assert list(too_large(source)) == ["620 lines", "Wide: 16 attributes", "long: 601 lines"]


# Ruff checks those of Python (W505), ESLint those of JavaScript (max-len), and
# tests/test_docs_names.py the lines of documents.
COMMENTED = ("css", "html", "toml", "yml", "yaml")
COMMENT = re.compile(r"\s*(#|/?\*|<!--)")


def test_comments_in_other_languages_have_at_most_100_characters():
    folders = ("web", "tools", "deploy", "packages", ".github")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*")]
    files += [ROOT / "Makefile", ROOT / "pyproject.toml"]
    long = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in files
        if file.name == "Makefile" or file.suffix[1:] in COMMENTED
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if len(line) > 100 and COMMENT.match(line) and "node_modules" not in file.parts
    ]
    assert long == []
