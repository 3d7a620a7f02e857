"""What each folder of detok_py may import, and where it runs, as the folder itself says it.

In: the docstring of a folder's `__init__.py`, which has the lines "Runs in: …" and "Imports: …".
Out: `FOLDERS`, and `files(runtime)`. Tests and builds read the rules from here; no file is named
anywhere. A file at the top of detok_py (errors) runs wherever a folder that imports it runs. A
folder that runs in "Pyodide on demand" is not in the page's wheel, but in a file of its own; one
that runs in "Pyodide by micropip" is only in the wheel that micropip takes from an index.
"""

import ast
import re
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
