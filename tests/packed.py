"""What is published, built once from the current sources for all tests: the npm packages detok-web
and detok-web-pyodide, and the static site; and what holds of every README that is published.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from detok_py import __version__

ROOT = Path(__file__).resolve().parents[1]
# What tools/package_web.mjs reads.
SOURCES = (
    *("web/**/*", "packages/**/*", "tools/*.mjs", ".build/runtime/*", ".build/kit.zip", "*.json"),
    *("conformance/cases.json", "LICENSE", "pyproject.toml", "detok_py/__init__.py"),
)


def run(command: list[str], folder: Path) -> str:
    """Run a Node program in `folder` and return its stdout; npm is offline and without settings."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().startswith("npm_config_")
    }
    environment |= {
        "npm_config_userconfig": os.devnull,
        "npm_config_offline": "true",
        "npm_config_update_notifier": "false",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def built_once(kind: str, sources: Iterable[Path], build: Callable[[Path], object]) -> Path:
    """Return a folder that `build` has filled from these sources, once for all processes."""
    digest = hashlib.sha256()
    for path in sorted(path for path in sources if path.is_file()):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    folder = ROOT / ".build" / "packed" / kind / digest.hexdigest()[:24]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            for old in folder.parent.glob("*/"):
                shutil.rmtree(old)
            folder.mkdir()
            build(folder)
            (folder / "built").touch()
    return folder


def pack() -> dict:
    """Build the packages; return the figures of detok-web: file, bytes, unpacked, javascript; and
    in `pyodide` those of the other.
    """

    def build(folder: Path) -> None:
        said = run(["node", str(ROOT / "tools" / "package_web.mjs"), str(folder)], ROOT)
        (folder / "figures.json").write_text(said.splitlines()[-1], encoding="utf-8")

    folder = built_once("npm", [path for each in SOURCES for path in ROOT.glob(each)], build)
    return json.loads((folder / "figures.json").read_text("utf-8"))


# What tools/build_site.py reads.
SITE_SOURCES = (
    *("docs/**/*", "*.md", "web/**/*", "packages/**/*", "tools/**/*", "conformance/*"),
    *("detok_py/**/*.py", "detok_py/**/*.json", "*.json", "pyproject.toml", "LICENSE"),
    *(".build/page/**/*", ".build/runtime/*", ".build/examples/uplot.*", ".build/docs/*.json"),
)


def drawn_site() -> Path:
    """Return the folder of the static site, documents included; skip the test if what draws them
    is not here. Raises CalledProcessError if a public name has no text.
    """
    if not (ROOT / ".build" / "docs" / "venv").exists():
        pytest.skip("the tools that draw the documents are not here: `make site` installs them")

    import build_site  # tests find tools/, but benchmarks, which pack too, do not

    def build(folder: Path) -> None:
        build_site.build(folder / "site")
        build_site.build_docs(folder / "site" / "docs")

    sources = [path for each in SITE_SOURCES for path in ROOT.glob(each)]
    own = [path for path in sources if "__pycache__" not in path.parts]
    return built_once("site", own, build) / "site"


def install(built: dict, folder: Path, *, pyodide: bool = False) -> Path:
    """Install detok-web offline into a new folder, with the package for Pyodide if asked for;
    return its folder.
    """
    packages = [built["file"], built["pyodide"]["file"]] if pyodide else [built["file"]]
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    # An empty cache, so that earlier downloads of this machine are not used.
    run(
        [
            "npm",
            "install",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--cache",
            str(folder.parent / "npm-cache"),
            *packages,
        ],
        folder,
    )
    return folder / "node_modules" / "detok-web"


def assert_links_are_absolute(readme, repository):
    """Every link of a README leads to a file of the repository at the version's tag, or
    elsewhere.
    """
    links = re.findall(r"\]\(([^)#]+)", readme) + re.findall(r'\bsrc(?:set)?="([^"]+)"', readme)
    assert links
    for link in links:
        assert link.startswith("https://"), link
        if link.startswith(repository + "/"):
            kind, tag, path = link.removeprefix(repository + "/").split("/", 2)
            assert (kind in ("blob", "raw"), tag) == (True, f"v{__version__}"), link
            assert (ROOT / path).exists(), link
