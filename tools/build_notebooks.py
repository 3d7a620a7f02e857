"""Build JupyterLite with the notebooks: `python tools/build_notebooks.py [FOLDER]`.

In: docs/notebooks/, .build/runtime/ (Pyodide and detok_py's wheel for an index), the wheels of
requirements/lite.txt in .build/lite-wheels/, and jupyterlite-core in .build/notebooks/venv. Out: a
folder that any static server can serve, at any path, without a network. All wheels are in the lock
of its Pyodide, so nothing is asked of an index.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / ".build"
RUNTIME = BUILD / "runtime"
BOOKS = ROOT / "docs" / "notebooks"
PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm")
LIBRARY = "python_stdlib.zip"


def lock_entry(wheel: Path, known: Iterable[str]) -> dict[str, Any]:
    """Return what pyodide-lock.json says of a wheel; it depends only on `known` packages."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (path,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        fields = archive.read(path).decode().partition("\n\n")[0]
    wanted = re.findall(r"^Requires-Dist: ([\w.-]+)(?![^\n]*\bextra\b)", fields, re.MULTILINE)
    tops = {name.split("/")[0].removesuffix(".py") for name in names if name.endswith(".py")}
    name, version = wheel.name.split("-")[:2]
    return {
        "name": normalized(name),
        "version": version,
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": sorted(top for top in tops if "." not in top),
        "depends": sorted({normalized(each) for each in wanted} & set(known) - {normalized(name)}),
        "unvendored_tests": False,
    }


def normalized(name: str) -> str:
    """Return the normalized name of a project (PEP 503).

    >>> normalized("detok_py")
    'detok-py'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def wheels() -> list[Path]:
    """Return the wheels in the lock of JupyterLite's Pyodide."""
    kernel = BUILD / "notebooks/venv/share/jupyter/labextensions/@jupyterlite"
    own = [*kernel.glob("*/static/pypi/*.whl")]
    # Of the two stand-ins the one that ipywidgets asks for.
    own = [wheel for wheel in own if not wheel.name.startswith("widgetsnbextension-3")]
    ours = [*RUNTIME.glob("detok_py-*_wasm32.whl"), *RUNTIME.glob("micropip-*.whl")]
    return sorted([*ours, *own, *(BUILD / "lite-wheels").glob("*.whl")])


def write_pyodide(folder: Path) -> list[str]:
    """Write Pyodide and the wheels, with a lock file that has them all; return their names."""
    folder.mkdir(parents=True)
    for name in PYODIDE:
        shutil.copy(RUNTIME / name, folder)
    with zipfile.ZipFile(RUNTIME / LIBRARY) as library:
        with zipfile.ZipFile(folder / LIBRARY, "w", zipfile.ZIP_DEFLATED) as smaller:
            for each in library.infolist():
                smaller.writestr(zipfile.ZipInfo(each.filename), library.read(each), 8)
    lock = json.loads((RUNTIME / "pyodide-lock.json").read_text("utf-8"))
    found = wheels()
    known = {normalized(wheel.name.split("-")[0]) for wheel in found}
    lock["packages"] = {}
    for wheel in found:
        shutil.copy(wheel, folder)
        entry = lock_entry(wheel, known)
        lock["packages"][entry["name"]] = entry
    (folder / "pyodide-lock.json").write_text(json.dumps(lock), encoding="utf-8")
    return list(lock["packages"])


def write_files(folder: Path) -> None:
    """Write the notebooks and a tokenizer, and the list of them that JupyterLite reads."""
    files = folder / "files"
    files.mkdir(parents=True)
    time = "2026-01-01T00:00:00Z"
    common = {"content": None, "created": time, "last_modified": time, "size": None}
    common |= {"mimetype": None, "writable": True, "hash": None, "hash_algorithm": None}
    listed: list[dict[str, Any]] = []
    tokenizer = ROOT / "detok_py" / "bridge" / "recite" / "tokenizer.json"
    for path in [*sorted(BOOKS.glob("*.ipynb")), tokenizer]:
        text = path.read_text("utf-8")
        (files / path.name).write_text(text, encoding="utf-8")
        kind = {"type": "notebook", "format": "json"}
        if path.suffix != ".ipynb":
            kind = {"type": "file", "format": "text", "mimetype": "application/json"}
        own = {"name": path.name, "path": path.name, "size": len(text.encode())}
        listed.append({**common, **own, **kind})
    root = {**common, "name": "", "path": "", "type": "directory", "format": "json"}
    api = folder / "api" / "contents"
    api.mkdir(parents=True)
    root["content"] = listed
    (api / "all.json").write_text(json.dumps(root), encoding="utf-8")


def build(folder: Path) -> None:
    """Write JupyterLite into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        names = write_pyodide(source / "static" / "pyodide")
        # Loaded side by side at the start, so that nothing has to be resolved.
        kernel = {"disablePyPIFallback": True, "loadPyodideOptions": {"packages": names}}
        config = {
            "appName": "detok's notebooks",
            "appUrl": "./tree",
            "contentsAllJsonFile": "all.json",
            "litePluginSettings": {"@jupyterlite/pyodide-kernel-extension:kernel": kernel},
        }
        about = {"jupyter-lite-schema-version": 0, "jupyter-config-data": config}
        (source / "jupyter-lite.json").write_text(json.dumps(about), encoding="utf-8")
        command = [BUILD / "notebooks/venv/bin/jupyter-lite", "build", "--lite-dir", source]
        command += ["--output-dir", folder, "--apps", "notebooks", "--apps", "tree"]
        command += ["--no-sourcemaps", "--no-unused-shared-packages"]
        done = subprocess.run(
            list(map(str, command)), cwd=temporary, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"jupyter-lite build failed.\n{done.stdout}\n{done.stderr}")
    write_files(folder)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD / "lite")
    folder = parser.parse_args(words).folder.resolve()
    build(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
