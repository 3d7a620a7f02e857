"""Build what a `make` target needs, and nothing that is there already.

`python tools/setup.py TARGET` (see TARGETS) brings .venv/, node_modules/ and .build/ to what the
pinned files say. While the hash of a step's sources is that of its stamp in .build/stamps/, and the
result exists, the step costs nothing. Steps of one row run side by side.
"""

import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import toolchain
from toolchain import BUILD, PYTHON, ROOT, SetupFailed, install, install_if_there, run

RUNTIME = BUILD / "runtime"


class Step(NamedTuple):
    """`work` makes `results` from `sources`; both are patterns of paths."""

    purpose: str
    sources: tuple[str, ...]
    results: tuple[str, ...]
    work: Callable[[], object]


def tool(*words: str) -> Callable[[], object]:
    """Return a step's work: run a tool of this folder."""
    return partial(run, list(words), f"{words[1]} failed.")


def write_manifest() -> None:
    """Write manifest.json: {file: {bytes, sha256}} for every file that a page may ask for."""
    files = {f.name: f.read_bytes() for f in sorted(RUNTIME.iterdir()) if f.name != "manifest.json"}
    lines = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    }
    (RUNTIME / "manifest.json").write_text(json.dumps(lines, indent=1) + "\n")


SOURCES = ("detok_py/**/*.py", "tools/layout.py", "pyproject.toml")
VENV = ".venv/pyvenv.cfg"
R = ".build/runtime/"
STEPS = {
    "serve": Step("the server's packages", ("requirements/serve.txt", VENV), (".venv/bin/uvicorn",), partial(install, "serve")),
    "engine": Step("llama.cpp", ("requirements/engine.txt", VENV), (), partial(install_if_there, "engine", "the scripted engine remains")),
    "mpy": Step("MicroPython's compiler", ("requirements/mpy.txt", VENV), (), partial(install_if_there, "mpy", "MicroPython compiles the modules at its start")),
    "dev": Step("the tools' packages", ("requirements/dev.txt", VENV), (".venv/bin/pytest",), partial(install, "dev")),
    "webkit": Step("Selenium", ("requirements/webkit.txt", VENV), (".venv/lib/*/site-packages/selenium/__init__.py",), partial(install, "webkit")),
    "project": Step("detok_py in place", ("pyproject.toml", VENV), (".venv/bin/detok",), toolchain.install_project),
    "npm": Step("the packages from npm", ("package-lock.json",), ("node_modules/pyodide/pyodide.mjs",), toolchain.install_node_packages),
    "micropip": Step("micropip", ("requirements/micropip.txt",), (".build/wheels",), toolchain.fetch_micropip),
    "site": Step("pytest for Pyodide", ("requirements/pyodide.txt", "tools/toolchain.py"), (".build/pyodide-site/pytest",), toolchain.install_for_pyodide),
    "runtime": Step(
        "Pyodide, with its standard library as bytecode",
        ("tools/build_runtime.mjs", "tools/compile_stdlib.py", "web/src/memory-snapshot.js", "package-lock.json", "requirements/micropip.txt"),
        (f"{R}python_stdlib.zip", f"{R}pyodide-lock.json", f"{R}micropip-*.whl", f"{R}memory.bin"),
        tool("node", "tools/build_runtime.mjs"),
    ),
    "wheel": Step("the wheel for browsers", (*SOURCES, "tools/browser_wheel.py"), (f"{R}detok_py-*.whl",), tool(str(PYTHON), "tools/browser_wheel.py")),
    "captures": Step(
        "what a page loads to open files",
        (*SOURCES, "tools/build_on_demand.py", "tools/browser_wheel.py"),
        (f"{R}detok_captures.bin",),
        tool(str(PYTHON), "tools/build_on_demand.py"),
    ),
    "micropython": Step(
        "MicroPython",
        (*SOURCES, "web/micropython/*.py", "tools/build_micropython.py", "tools/browser_wheel.py", "requirements/mpy.txt"),
        (f"{R}micropython.wasm", f"{R}detok_micropython.bin"),
        tool(str(PYTHON), "tools/build_micropython.py"),
    ),
    "core": Step(
        "Pyodide cut down, for embedding",
        (*SOURCES, "tools/build_core.mjs", "tools/core_work.py", "tools/compile_stdlib.py", ".build/stamps/runtime"),
        (f"{R}python_core.zip", f"{R}python_core.json"),
        tool("node", "tools/build_core.mjs"),
    ),
    "examples": Step(
        "the examples that need a bundler",
        ("web/examples/*.js*", "web/src/*.js", "tools/build_examples.mjs", "package-lock.json"),
        (".build/examples/react.js", ".build/examples/react.development.js", ".build/examples/ai-sdk.js"),
        tool("node", "tools/build_examples.mjs"),
    ),
    "uis": Step(
        "chat UIs of other people (some 800 MB)",
        ("requirements/real-uis.txt", "tests/real_uis/package-lock.json"),
        (".build/real-uis/venv/bin/streamlit", ".build/real-uis/node_modules/deep-chat/package.json"),
        partial(toolchain.install_apart, "real-uis", "tests/real_uis"),
    ),
    "peers": Step(
        "what detok is compared with (some 900 MB)",
        ("requirements/peers.txt", "benchmarks/peers/package-lock.json"),
        (".build/peers/venv/bin/transformers", ".build/peers/node_modules/js-tiktoken/package.json"),
        # Without scripts: one of them would download libraries for graphics cards.
        partial(toolchain.install_apart, "peers", "benchmarks/peers", "--ignore-scripts"),
    ),
    "engines": Step(
        "engines of other people (some 2 GB)",
        ("requirements/real-engines.txt",),
        (".build/real-engines/venv/lib/python*/site-packages/torch/__init__.py",),
        toolchain.install_real_engines,
    ),
}  # fmt: skip
ARTEFACTS = [["runtime", "wheel", "captures", "micropython", "examples"], ["core"]]
TARGETS = {
    "demo": [["serve", "npm"], ["engine", "mpy", "micropip"], *ARTEFACTS],
    "site": [["npm"], ["mpy", "micropip"], *ARTEFACTS],
    "check": [["dev", "npm"], ["engine", "mpy", "micropip", "project"], *ARTEFACTS],
    "test": [["dev", "npm"], ["engine", "mpy", "micropip", "project", "site"], *ARTEFACTS],
    "test-all": [
        ["dev", "npm"],
        ["engine", "mpy", "micropip", "project", "site"],
        *ARTEFACTS,
        ["webkit"],
    ],
    "real-uis": [["dev", "npm"], ["engine", "project", "uis"]],
    "peers": [["dev", "npm"], ["project", "peers"]],
    "bench": [["dev", "npm"], ["engine", "mpy", "micropip", "project", "peers"], *ARTEFACTS],
    "real-engines": [["dev"], ["project", "engines"]],
}


def fingerprint(step: Step) -> str:
    """Return the hash of a step's sources: their names and their bytes."""
    digest = hashlib.sha256()
    for pattern in step.sources:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def bring_up(name: str) -> bool:
    """Do a step unless it is done, and print one line for it. Returns whether it was done now."""
    step, stamp = STEPS[name], BUILD / "stamps" / name
    key = fingerprint(step)
    made = all(any(ROOT.glob(result)) for result in step.results)
    if made and stamp.exists() and stamp.read_text() == key:
        return False
    began = time.monotonic()
    step.work()
    stamp.write_text(key)
    print(f"set up {step.purpose}: {time.monotonic() - began:.1f} s", flush=True)
    return True


def main(words: list[str]) -> int:
    if len(words) != 1 or words[0] not in TARGETS:
        print(f"usage: setup.py {'|'.join(TARGETS)}", file=sys.stderr)
        return 2
    for folder in (BUILD / "stamps", RUNTIME, Path.home()):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with open(BUILD / "lock", "w") as lock, ThreadPoolExecutor(os.cpu_count()) as pool:
            # A second `make` waits here, and then finds everything done.
            fcntl.flock(lock, fcntl.LOCK_EX)
            toolchain.make_venv()
            toolchain.find_node()
            done = [now for row in TARGETS[words[0]] for now in list(pool.map(bring_up, row))]
            if any(done):
                write_manifest()
    except SetupFailed as error:
        sys.exit(f"set-up failed: {error}")
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
