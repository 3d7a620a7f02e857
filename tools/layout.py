"""What each folder of detok_py may import, and where it runs, as the folder itself says it.

In: the docstring of a folder's `__init__.py`, which has the lines "Runs in: …" and "Imports: …".
Out: `FOLDERS`, and `files(runtime)`. Tests and builds read the rules from here; no file is named
anywhere. `reached(paths)` follows the imports themselves. A file at the top of detok_py (errors)
runs wherever a folder that imports it runs. A folder that runs in "Pyodide on demand" is not in the
page's wheel, but in a file of its own; one that runs in "Pyodide by micropip" is only in the wheel
that micropip takes from an index.
"""

import ast
import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1] / "detok_py"
RUNTIMES = ("CPython", "Pyodide", "MicroPython")
ON_DEMAND = " on demand"  # in a runtime where a page loads the folder only when it needs it
BY_MICROPIP = " by micropip"


class Folder(NamedTuple):
    """The rules of one folder: the runtimes its files run in, and what of detok_py they import."""

    runs_in: frozenset[str]
    imports: frozenset[str]


def folder_rules(init: Path) -> Folder:
    """Return the rules in the docstring of a folder's `__init__.py`."""
    text = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
    said = dict(re.findall(r"^(Runs in|Imports): (.+?)\.$", text, re.MULTILINE))
    if set(said) != {"Runs in", "Imports"}:
        raise SystemExit(f"{init} must have the lines 'Runs in: ….' and 'Imports: ….'")
    words = {name: frozenset(re.split(r", ", line)) - {"nothing"} for name, line in said.items()}
    return Folder(words["Runs in"], words["Imports"])


FOLDERS = {init.parent.name: folder_rules(init) for init in sorted(PACKAGE.glob("*/__init__.py"))}


def part(path: Path) -> str:
    """Return the folder of a file of detok_py, or the module's name for a file at the top."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def runs_in(name: str) -> frozenset[str]:
    """Return where a folder, or a module at the top, runs."""
    if name in FOLDERS:
        return FOLDERS[name].runs_in
    users = [
        folder.runs_in & set(RUNTIMES) for folder in FOLDERS.values() if name in folder.imports
    ]
    return (
        frozenset(RUNTIMES)
        if name == "__init__"
        else frozenset().union(*users) or frozenset({"CPython"})
    )


def files(runtime: str) -> list[Path]:
    """Return the modules of detok_py that run in `runtime`, sorted.

    >>> "decode/utf8.py" in [path.relative_to(PACKAGE).as_posix() for path in files("MicroPython")]
    True
    >>> {part(path) for path in files("Pyodide")} & {"bridge", "glyphs", "commands", "cli"}
    set()
    """
    return [path for path in sorted(PACKAGE.rglob("*.py")) if runtime in runs_in(part(path))]


def modules(runtime: str) -> list[str]:
    """Return the names of those modules below detok_py, without the packages themselves.

    >>> "decode.utf8" in modules("MicroPython")
    True
    """
    paths = [path for path in files(runtime) if path.name != "__init__.py"]
    return [".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in paths]


class WithoutTypes(ast.NodeTransformer):
    """Takes out what only a type checker reads."""

    def visit_If(self, node: ast.If) -> ast.If | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if ast.unparse(node.test) == "TYPE_CHECKING" else node


@functools.cache
def imports(path: Path, types: bool = True) -> frozenset[str]:
    """Return the modules that a file imports, wherever it does, as absolute dotted names; without
    `types` not those that only a type checker does.
    """
    found = set[str]()
    package = path.relative_to(PACKAGE.parent).parent.parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree if types else WithoutTypes().visit(tree)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            inner = [f"{module}.{alias.name}" for alias in node.names]
            # `from . import wire` imports a module, `from .wire import Reader` a name of one.
            modules = [one for one in inner if file_of(one)]
            found |= set(modules) if module.startswith("detok_py") and modules else {module}
    return frozenset(found)


def file_of(module: str) -> Path | None:
    """Return the file of a module by its dotted name, or None if detok_py has no such module."""
    path = PACKAGE.parent.joinpath(*module.split("."))
    options = (path.with_suffix(".py"), path / "__init__.py")
    return next((one for one in options if one.is_relative_to(PACKAGE) and one.exists()), None)


def reached(roots: Iterable[Path]) -> set[Path]:
    """Return the modules of detok_py that are loaded when those at `roots` run: what they import,
    in functions too, what that imports, and the packages that all of it is in.

    >>> found = reached([PACKAGE / "page" / "streams.py"])
    >>> PACKAGE / "decode" / "utf8.py" in found, PACKAGE / "bridge" / "jobs.py" in found
    (True, False)
    """
    found, left = set[Path](), list(roots)
    while left:
        path = left.pop()
        if path in found:
            continue
        found.add(path)
        above = (folder / "__init__.py" for folder in path.parents)
        left += [init for init in above if init.is_relative_to(PACKAGE)]
        left += [file for file in map(file_of, imports(path, types=False)) if file]
    return found
