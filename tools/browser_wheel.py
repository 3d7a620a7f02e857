"""Build the two wheels for browsers: the page's, and the one that micropip takes from an index.

In: detok_py/ and the name, version and summary in pyproject.toml. Out, in .build/runtime/, and by
`make package` in their smallest form:

- detok_py-<version>-py3-none-any.whl: the modules that a page needs at once.
- detok_py-<version>-py3-none-<Pyodide's platform, PEP 783>.whl: all modules that run in Pyodide,
  for `micropip.install("detok_py")`, with the docstrings and types of the public names. pip takes
  the full wheel.

The folders of modules say where they run (tools/layout.py). The build backend does not make these
wheels, because it makes one wheel of a project, and because the same input must give the same
bytes.

Other docstrings, comments, the types of parameters and of variables outside classes are left out,
and so are the imports from typing that only these types use. Variables of functions get short
names, and so do names that begin with an underscore. In the wheel for an index the modules are in
one zip, from which Python imports them (zipimport): a wheel compresses each file alone, and 130
files take 50 kB more.
"""

import ast
import base64
import builtins
import functools
import hashlib
import io
import json
import keyword
import os
import re
import string
import struct
import sys
import tomllib
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import layout

ROOT = Path(__file__).resolve().parents[1]
# The formats of models are 26 kB of it.
MOST_BYTES = 176_000
MOST_BYTES_OF_INDEX = 252_000
MODULES = "modules.zip"
ZOPFLI = ROOT / ".build" / "cache" / "zopfli"


class Bare(ast.NodeTransformer):
    """Removes docstrings, and types except those of the variables of a class; with `public` those
    of public names stay.
    """

    in_class = False

    def __init__(self, public: bool = False) -> None:
        self.public = public

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt] | None:
        outer = self.in_class, self.public
        name = getattr(node, "name", None) or ""
        keep = self.public and (not name.startswith("_") or name == "__init__")
        if isinstance(node, FUNCTIONS):
            if not keep:
                node.returns = None
                for each in ast.walk(node.args):
                    if isinstance(each, ast.arg):
                        each.annotation = None
            self.in_class = self.public = False
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return self.generic_visit(ast.Module(node.orelse, [])).body
        elif isinstance(node, ast.ClassDef):
            # The types in a class body may be fields (NamedTuple).
            self.in_class, self.public = True, keep
        elif isinstance(node, ast.AnnAssign) and not self.in_class:
            if node.value is None:
                return None
            node = ast.Assign([node.target], node.value, lineno=node.lineno)
        self.generic_visit(node)
        self.in_class, self.public = outer
        if isinstance(node, ast.Module | ast.ClassDef | FUNCTIONS):
            text = ast.get_docstring(node)
            if text is not None:
                kept: list[ast.stmt] = [ast.Expr(ast.Constant(text))] if keep else []
                empty: list[ast.stmt] = [] if isinstance(node, ast.Module) else [ast.Pass()]
                node.body = kept + node.body[1:] or empty
        return node


class Short(ast.NodeTransformer):
    """Gives the variables of each function, but for its parameters, names of one or two letters.

    A name is left as it is if the module or Python itself knows it too.
    """

    def __init__(self, module: ast.Module) -> None:
        inside = {
            id(node) for f in ast.walk(module) if isinstance(f, FUNCTIONS) for node in ast.walk(f)
        }
        outside = [node for node in ast.walk(module) if id(node) not in inside]
        # A doctest leaves "_" there.
        self.known = set(dir(builtins)) - {"_"} | names_in(outside)
        for node in ast.walk(module):
            if isinstance(node, ast.Global | ast.Nonlocal):
                self.known |= set(node.names)
            elif isinstance(node, ast.alias):
                self.known.add((node.asname or node.name).split(".")[0])
            elif isinstance(node, FUNCTIONS | ast.ClassDef) or (
                isinstance(node, ast.ExceptHandler) and node.name
            ):
                self.known.add(node.name)
            elif isinstance(node, ast.MatchStar | ast.MatchMapping):
                raise SystemExit("Short doesn't know how to rename what these patterns bind.")
        self.names: dict[str, str] = {}

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, FUNCTIONS) and not self.names:
            nodes = list(ast.walk(node))
            parameters = {each.arg for each in nodes if isinstance(each, ast.arg)}
            bound = [
                each.id if isinstance(each, ast.Name) else each.name
                for each in nodes
                if (isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load))
                or (isinstance(each, ast.MatchAs) and each.name)
            ]
            taken = self.known | parameters | names_in(nodes)
            free = (name for name in SHORT_NAMES if name not in taken)
            keep = self.known | parameters
            if not any(isinstance(each, ast.ClassDef) for each in nodes):
                self.names = {n: next(free) for n in dict.fromkeys(bound) if n not in keep}
            self.generic_visit(node)
            self.names = {}
            return node
        if isinstance(node, ast.Name):
            node.id = self.names.get(node.id, node.id)
        elif isinstance(node, ast.MatchAs) and node.name:
            node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that stand in some nodes."""
    return {node.id for node in nodes if isinstance(node, ast.Name)}


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
LETTERS = string.ascii_lowercase
SHORT_NAMES = [*LETTERS, *(a + b for a in LETTERS for b in LETTERS if not keyword.iskeyword(a + b))]


@functools.cache  # for both wheels
def bare(source: str, public: bool = False) -> str:
    """Return Python source without docstrings, comments, types, empty lines and wide indentation;
    with `public` the docstrings and types of public names stay.

    >>> bare(
    ...     'def f(a: int = 1) -> int:\\n    "Say\\\\n hi"\\n    two = a  # one\\n    return two\\n'
    ... )
    'def f(a=1):\\n b = a\\n return b'
    >>> bare("def f(a):\\n    match a:\\n        case int(number):\\n            return number")
    'def f(a):\\n match a:\\n  case int(b):\\n   return b'
    >>> bare('def f(a: int):\\n  "Say hi."\\n  return a', public=True).replace(chr(34), "")
    'def f(a: int):\\n Say hi.\\n return a'
    """
    tree = Bare(public).visit(ast.parse(source))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in list(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module in ("typing", "collections.abc"):
            node.names = [one for one in node.names if (one.asname or one.name) in used]
            if not node.names:
                tree.body.remove(node)
    return unparsed(Short(tree).visit(tree))


def unparsed(tree: ast.AST) -> str:
    """Return the source of a module, with indents of one space and without empty lines."""
    text = ast.unparse(tree)
    # Rows that begin inside a string keep their spaces.
    strings = {
        row
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno
        for row in range(node.lineno, node.end_lineno)
    }
    return "\n".join(
        line if row in strings else " " * ((len(line) - len(line.lstrip())) // 4) + line.lstrip()
        for row, line in enumerate(text.split("\n"))
        if line or row in strings
    )


def with_short_privates(modules: dict[str, str]) -> dict[str, str]:
    """Return modules, by path, with short names for what begins with one underscore: functions,
    classes, attributes and variables that the modules define.

    The same name becomes the same everywhere. A name that is short, is a parameter, stands in a
    string too (in `__slots__`, say), or is a method of named tuples is left as it is.

    >>> with_short_privates({"a.py": "_vowels = 'aeiou'", "b.py": "from .a import _vowels"})
    {'a.py': "_a = 'aeiou'", 'b.py': 'from .a import _a'}
    """
    trees = {path: ast.parse(text) for path, text in modules.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    keep = set(dir(NamedTuple("Pair", [])))
    keep |= {node.value for node in nodes if isinstance(node, ast.Constant)}
    keep |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    defined = {node.name for node in nodes if isinstance(node, FUNCTIONS | ast.ClassDef)}
    counts: Counter[str] = Counter()
    for node in nodes:
        name = getattr(node, "attr", getattr(node, "id", ""))
        counts[name] += 1
        if name and isinstance(getattr(node, "ctx", None), ast.Store):
            defined.add(name)
    private = [name for name in defined - keep if re.match(r"_[^_]\w{5}", name)]
    private.sort(key=lambda name: (-counts[name], name))
    names = dict(zip(private, [f"_{short}" for short in SHORT_NAMES], strict=False))
    for node in nodes:
        for place in ("name", "attr", "id"):
            if hasattr(node, place):
                setattr(node, place, names.get(getattr(node, place), getattr(node, place)))
        if isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [names.get(name, name) for name in node.names]
    return {path: unparsed(tree) for path, tree in trees.items()}


def version() -> str:
    """Return `__version__` of the package, without importing it."""
    found = re.search(
        r'^__version__ = "([^"]+)"',
        (ROOT / "detok_py" / "__init__.py").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    if found is None:
        raise SystemExit('detok_py/__init__.py has no line __version__ = "…".')
    return found.group(1)


def api_modules() -> set[Path]:
    """Return the modules that define what `detok_py` and the drop-ins give to users."""
    found = {layout.PACKAGE / "__init__.py", layout.PACKAGE / "errors.py"}
    found |= set(layout.files(f"Pyodide{layout.BY_MICROPIP}"))
    init = layout.PACKAGE / "__init__.py"
    for node in ast.walk(ast.parse(init.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level and node.module:
            found |= {defining(init, node, alias.name) for alias in node.names}
    return found


def defining(path: Path, node: ast.ImportFrom, name: str) -> Path:
    """Return the module that defines a name which the module at `path` imports."""
    other = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
    other = other / "__init__.py" if other.is_dir() else other.with_suffix(".py")
    for inner in ast.parse(other.read_text(encoding="utf-8")).body:
        if isinstance(inner, ast.ImportFrom) and inner.level:
            if name in (alias.asname or alias.name for alias in inner.names):
                return defining(other, inner, name)
    return other


def page_wheel(smallest: bool = False) -> bytes:
    """Return the wheel that the page installs; `smallest` as `zipped` takes it."""
    modules = {
        path.relative_to(ROOT).as_posix(): bare(path.read_text(encoding="utf-8"))
        for path in layout.files("Pyodide")
    }
    files = {path: text.encode() for path, text in with_short_privates(modules).items()}
    return wheel_of(files, "any", own_metadata(), smallest)


def index_modules() -> list[Path]:
    """Return the modules in the wheel that micropip takes from an index."""
    kinds = ("", layout.ON_DEMAND, layout.BY_MICROPIP)
    return sorted({path for kind in kinds for path in layout.files(f"Pyodide{kind}")})


def index_wheel(smallest: bool = False, published: bytes | None = None) -> bytes:
    """Return the wheel that micropip takes from an index. `published` is the METADATA beside other
    wheels of the version: an index takes all to have the same.
    """
    public, paths = api_modules(), index_modules()
    modules = with_short_privates(
        {
            path.relative_to(layout.PACKAGE).as_posix(): bare(
                path.read_text(encoding="utf-8"), path in public
            )
            for path in paths
        }
    )
    archive = {path: text.encode() for path, text in modules.items()}
    data = {path for each in paths for path in each.parent.iterdir()}
    for path in sorted(path for path in data if path.suffix in (".json", ".js", ".css")):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            text = json.dumps(json.loads(text), separators=(",", ":"))
        archive[path.relative_to(layout.PACKAGE).as_posix()] = text.encode()
    lines = archive.pop("__init__.py").decode().split("\n")
    # After the docstring.
    lines.insert(
        ast.parse("\n".join(lines)).body[0].end_lineno or 0,
        f"__path__.append(__path__[0] + '/{MODULES}')",
    )
    files = {
        "detok_py/__init__.py": "\n".join(lines).encode(),
        f"detok_py/{MODULES}": stored(archive),
    }
    return wheel_of(files, pyodide_platform(), published or own_metadata(), smallest)


def pyodide_platform() -> str:
    """Return the platform tag of the Pyodide that is pinned (PEP 783)."""
    lock = json.loads((ROOT / "node_modules" / "pyodide" / "pyodide-lock.json").read_text("utf-8"))
    return f"pyemscripten_{lock['info']['abi_version']}_wasm32"


def project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def own_metadata() -> bytes:
    """Return the METADATA of a wheel that is not published."""
    about = project()
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {about['name']}",
        f"Version: {version()}",
        f"Summary: {about['description']}",
        f"License-Expression: {about['license']}",
        f"Requires-Python: {about['requires-python']}",
    ]
    return ("\n".join(lines) + "\n").encode()


def wheel_of(files: dict[str, bytes], platform: str, metadata: bytes, smallest: bool) -> bytes:
    """Return a wheel of these files for a platform's tag."""
    info = f"{project()['name']}-{version()}.dist-info"
    wheel = "Wheel-Version: 1.0\nGenerator: detok\nRoot-Is-Purelib: true\n"
    files = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"{wheel}Tag: py3-none-{platform}\n".encode(),
    }
    record = [f"{path},sha256={urlsafe_sha256(data)},{len(data)}" for path, data in files.items()]
    files[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]) + "\n").encode()
    return zipped(files, smallest)


def stored(files: dict[str, bytes]) -> bytes:
    """Return a zip that compresses nothing, always the same for the same files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data)
    return out.getvalue()


def zipped(files: dict[str, bytes], smallest: bool = False) -> bytes:
    """Return a zip of `files`, always the same for the same files and the same compressor.

    Written by hand, because the zipfile module compresses with zlib only, and zopfli finds a
    shorter deflate: 4 % of the wheel.
    """
    out = io.BytesIO()
    directory = []
    for path, data in files.items():
        name, packed = path.encode(), deflated(data, smallest)
        # Version 2.0, names in UTF-8, deflate, 1 January 1980; APPNOTE.TXT sections 4.3.7 and
        # 4.3.12.
        common = struct.pack(
            "<HHHHHIIIHH",
            20,
            0x800,
            8,
            0,
            33,
            zlib.crc32(data),
            len(packed),
            len(data),
            len(name),
            0,
        )
        made_by_unix, mode = 3 << 8 | 20, 0o100644 << 16
        directory.append(
            b"PK\1\2"
            + struct.pack("<H", made_by_unix)
            + common
            + struct.pack("<HHHII", 0, 0, 0, mode, out.tell())
            + name
        )
        out.write(b"PK\3\4" + common + name + packed)
    start = out.tell()
    whole = b"".join(directory)
    out.write(
        whole
        + b"PK\5\6"
        + struct.pack("<HHHHIIH", 0, 0, len(files), len(files), len(whole), start, 0)
    )
    return out.getvalue()


def deflated(data: bytes, smallest: bool) -> bytes:
    """Return raw deflate data (RFC 1951); the smallest is zopfli's, which is ten times as slow."""
    if not smallest:
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
        return squeeze.compress(data) + squeeze.flush()
    import zopfli.zlib

    # It takes seconds, and wheels have the same modules, today as tomorrow.
    known = ZOPFLI / str(zopfli.__version__) / hashlib.sha256(data).hexdigest()
    if not known.exists():
        known.parent.mkdir(parents=True, exist_ok=True)
        part = known.with_name(f"{known.name}.{os.getpid()}")
        # Two bytes of header and four of checksum are zlib's (RFC 1950).
        part.write_bytes(zopfli.zlib.compress(data)[2:-4])
        part.replace(known)
    return known.read_bytes()


def urlsafe_sha256(data: bytes) -> str:
    """Return the digest as RECORD writes it: base64 with - and _, no padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main() -> int:
    folder = ROOT / ".build" / "runtime"
    for old in folder.glob("detok_py-*.whl"):
        old.unlink()
    name = f"detok_py-{version()}-py3-none"
    (folder / f"{name}-any.whl").write_bytes(page_wheel())
    (folder / f"{name}-{pyodide_platform()}.whl").write_bytes(index_wheel())
    return 0


if __name__ == "__main__":
    sys.exit(main())
