"""Compile a zip of Python sources into a zip of `.pyc`, and cut one down to what is needed; or into
a file of `.pyc` that go beside the sources.

Runs inside Pyodide, because only its own Python writes its bytecode.

In: the path of Pyodide's python_stdlib.zip. Out: a zip with the same modules as `.pyc` next to
where the `.py` were. The npm package ships sources, which every visitor's browser compiles again at
every start: 3.5 s of CPU against 0.95 s.

Docstrings and asserts of the standard library are dropped (nobody reads them in a worker);
Pyodide's own packages keep theirs, because its C side looks some of them up. Entries are stored,
not deflated: the transfer is compressed as a whole, which is smaller, and the start has nothing to
inflate.
"""

import importlib.util
import json
import marshal
import struct
import zipfile

KEEP_DOCSTRINGS = ("pyodide/", "_pyodide/")
# Bit 0: the .pyc is validated by hash, bit 1 unset: never compare it with a source (PEP 552).
UNCHECKED_HASH = struct.pack("<I", 0b01) + bytes(8)
# Bit 1 set: used only if its hash is that of the source beside it.
CHECKED_HASH = struct.pack("<I", 0b11)


def bytecode(source: bytes, name: str) -> bytes:
    """Return the `.pyc` of a module's source."""
    level = 0 if name.startswith(KEEP_DOCSTRINGS) else 2
    code = compile(source, name, "exec", dont_inherit=True, optimize=level)
    return importlib.util.MAGIC_NUMBER + UNCHECKED_HASH + marshal.dumps(code)


def compile_zip(source: str, target: str, compression: int = zipfile.ZIP_STORED) -> int:
    """Compile every module in the zip `source` into the zip `target`; return how many there were.

    A file that does not compile (a template, a deliberately broken example) and data files go over
    as they are.
    """
    count = 0
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compression) as new:
        for name in sorted(old.namelist()):
            if name.endswith(("/", ".pyc")):
                continue
            data = old.read(name)
            if name.endswith(".py"):
                try:
                    data = bytecode(data, name)
                    name += "c"
                    count += 1
                except SyntaxError:
                    pass
            # A fixed date: the same input gives the same bytes, so the hash of the runtime means
            # something.
            new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, compression)
    return count


def select(stdlib: str, package: str, target: str, loaded: list[str]) -> int:
    """Write the zip `target`: the modules of the zip `stdlib` whose origins are in `loaded`, and
    the zip `package` compiled, with its scripts.

    `loaded` has entries such as "/lib/python314.zip/json/decoder.pyc". Returns how many modules of
    the standard library went in.
    """
    with (
        zipfile.ZipFile(stdlib) as old,
        zipfile.ZipFile(package) as own,
        zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new,
    ):
        names = set(old.namelist())
        wanted = sorted(
            {origin.split(".zip/", 1)[1] for origin in loaded if ".zip/" in origin} & names
        )
        for name in wanted:
            new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), old.read(name))
        for name in sorted(own.namelist()):
            if name.endswith(".py"):
                new.writestr(
                    zipfile.ZipInfo(name + "c", (1980, 1, 1, 0, 0, 0)),
                    bytecode(own.read(name), name),
                )
            elif name.endswith((".js", ".json")):
                new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), own.read(name))
    return len(wanted)


def compile_beside(package: str, target: str) -> None:
    """Write the file `target`: bytecode of the modules of the zip `package`, to put beside their
    sources. Python uses the bytecode of a module if it has the hash of the source.

    One line of JSON, [[name, size], …], and the files one after another.
    """
    files = {}
    with zipfile.ZipFile(package) as own:
        for name in sorted(name for name in own.namelist() if name.endswith(".py")):
            source = own.read(name)
            code = marshal.dumps(compile(source, name, "exec", dont_inherit=True))
            head = importlib.util.MAGIC_NUMBER + CHECKED_HASH + importlib.util.source_hash(source)
            files[importlib.util.cache_from_source(name)] = head + code
    sizes = [[name, len(data)] for name, data in files.items()]
    with open(target, "wb") as file:
        file.write(json.dumps(sizes, separators=(",", ":")).encode() + b"\n")
        file.writelines(files.values())
