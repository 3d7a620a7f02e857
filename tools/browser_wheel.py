"""Build the wheel that a browser downloads: the core and nothing else, at most 100 kB.

In: detok_py/ and the name, version and summary in pyproject.toml. Out: .build/runtime/detok_py-<version>-py3-none-any.whl and its line in
manifest.json. Same name and version as the full wheel, so that `micropip.install("detok_py")` and a local copy are the same
thing; the rims (bridge/, glyphs/, commands/, the command line) and data stay out. Written here rather than by the build
backend because one project has one wheel there, and because the same input must give the same bytes.

Docstrings, comments and the types within functions stay behind, and every statement stays on its line: a traceback in a browser names the
lines of the repository.
"""

import ast
import base64
import hashlib
import io
import json
import re
import struct
import sys
import tokenize
import tomllib
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / ".build" / "runtime"
RIMS = ("bridge", "glyphs", "commands", "cli.py", "__main__.py")
MOST_BYTES = 100_000


def core_files() -> list[Path]:
    """Return the files of the core, sorted: Python modules outside the rims.

    >>> "utf8.py" in [path.name for path in core_files()]
    True
    """
    package = ROOT / "detok_py"
    return [path for path in sorted(package.rglob("*.py")) if path.relative_to(package).parts[0] not in RIMS]


def bare(source: str) -> str:
    """Return Python source without docstrings, comments, types within functions and wide indentation, line for line.

    >>> bare('def f(a: int = 1) -> int:\\n    "Say\\\\n hi."\\n    return a  # one\\n')
    'def f(a = 1):\\n ""\\n return a\\n'
    """
    lines = [line.encode() for line in source.split("\n")]
    cuts: list[tuple[int, int, int, int, bytes]] = []  # first row and column, last row and column (in bytes), what stands there instead
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row = token.start[0] - 1
            cuts.append((row, len(token.line[: token.start[1]].encode()), row, len(lines[row]), b""))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            for inner in ast.walk(node):
                # `self.x: T = …`, `x: T = …`. Outside of functions a class may mean its types (NamedTuple), and `x: T` alone declares.
                if isinstance(inner, ast.AnnAssign) and inner.value is not None and not isinstance(inner.target, ast.Subscript):
                    cuts.append((*end(inner.target), *end(inner.annotation), b""))
        if isinstance(node, ast.arg) and node.annotation is not None:
            cuts.append((node.lineno - 1, node.col_offset + len(node.arg.encode()), *end(node.annotation), b""))
        if isinstance(node, ast.FunctionDef) and node.returns is not None and node.returns.lineno == node.returns.end_lineno:
            row = node.returns.lineno - 1
            arrow = lines[row].rfind(b"->", 0, node.returns.col_offset)
            if arrow >= 0:
                cuts.append((row, len(lines[row][:arrow].rstrip()), *end(node.returns), b""))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            cuts.append((docstring.lineno - 1, docstring.col_offset, *end(docstring), b'""'))
    for first, left, last, right, instead in sorted(set(cuts), reverse=True):
        rest = lines[last][right:]
        lines[first] = lines[first][:left] + instead + (rest if first == last else b"")
        for row in range(first + 1, last + 1):
            lines[row] = rest if row == last else b""
    whole = b"\n".join([line.rstrip() for line in lines])
    lines = whole.split(b"\n")
    # Rows that begin inside a string keep their spaces; a step of indentation becomes one space everywhere else.
    inside = {
        row
        for node in ast.walk(ast.parse(whole))
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno
        for row in range(node.lineno, node.end_lineno)
    }
    for row, line in enumerate(lines):
        if row not in inside:
            text = line.lstrip(b" ")
            lines[row] = b" " * ((len(line) - len(text)) // 4) + text
    return b"\n".join(lines).decode()


def end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Return the row and the column (in bytes) where a node ends."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno - 1, node.end_col_offset


def version() -> str:
    """Return `__version__` of the package, without importing it."""
    found = re.search(r'^__version__ = "([^"]+)"', (ROOT / "detok_py" / "__init__.py").read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit('detok_py/__init__.py has no line __version__ = "…".')
    return found.group(1)


def wheel_bytes() -> bytes:
    """Return the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, number = project["name"], version()
    info = f"{name}-{number}.dist-info"
    files = {path.relative_to(ROOT).as_posix(): bare(path.read_text(encoding="utf-8")).encode() for path in core_files()}
    metadata = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {number}", f"Summary: {project['description']}"]
    metadata += [f"License-Expression: {project['license']}", f"Requires-Python: {project['requires-python']}"]
    files[f"{info}/METADATA"] = ("\n".join(metadata) + "\n").encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: detok\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = [f"{path},sha256={urlsafe_sha256(data)},{len(data)}" for path, data in files.items()]
    files[f"{info}/RECORD"] = ("\n".join([*record, f"{info}/RECORD,,"]) + "\n").encode()
    return zipped(files)


def zipped(files: dict[str, bytes]) -> bytes:
    """Return a zip of `files`, always the same for the same files and the same compressor.

    Written by hand, because the zipfile module compresses with zlib only, and zopfli finds a shorter deflate: 4 % of the wheel.
    """
    out = io.BytesIO()
    directory = []
    for path, data in files.items():
        name, packed = path.encode(), deflated(data)
        # Version 2.0, names in UTF-8, deflate, 1 January 1980; APPNOTE.TXT sections 4.3.7 and 4.3.12.
        common = struct.pack("<HHHHHIIIHH", 20, 0x800, 8, 0, 33, zlib.crc32(data), len(packed), len(data), len(name), 0)
        made_by_unix, mode = 3 << 8 | 20, 0o100644 << 16
        directory.append(b"PK\1\2" + struct.pack("<H", made_by_unix) + common + struct.pack("<HHHII", 0, 0, 0, mode, out.tell()) + name)
        out.write(b"PK\3\4" + common + name + packed)
    start = out.tell()
    whole = b"".join(directory)
    out.write(whole + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, len(files), len(files), len(whole), start, 0))
    return out.getvalue()


def deflated(data: bytes) -> bytes:
    """Return raw deflate data (RFC 1951), by zopfli where it is installed."""
    try:
        import zopfli.zlib
    except ImportError:
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
        return squeeze.compress(data) + squeeze.flush()
    # Two bytes of header and four of checksum are zlib's (RFC 1950).
    whole: bytes = zopfli.zlib.compress(data)
    return whole[2:-4]


def urlsafe_sha256(data: bytes) -> str:
    """Return the digest as RECORD writes it: base64 with - and _, no padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main() -> int:
    data = wheel_bytes()
    if len(data) > MOST_BYTES:
        # No reason to refuse a demo; tests/test_packages.py is where this fails.
        print(
            f"The browser's wheel has {len(data)} bytes, more than {MOST_BYTES}: what came into the core that belongs in a rim?",
            file=sys.stderr,
        )
    RUNTIME.mkdir(parents=True, exist_ok=True)
    for old in RUNTIME.glob("detok_py-*.whl"):
        old.unlink()
    name = f"detok_py-{version()}-py3-none-any.whl"
    (RUNTIME / name).write_bytes(data)
    manifest_path = RUNTIME / "manifest.json"
    manifest = json.loads(manifest_path.read_text()) if manifest_path.exists() else {}
    manifest = {file: line for file, line in manifest.items() if not file.startswith("detok_py-")}
    # Compressed once already: there is nothing to gain from a second compression on the way.
    manifest[name] = {"bytes": len(data), "br_bytes": len(data), "gz_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest_path.write_text(json.dumps(manifest, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
