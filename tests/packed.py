"""The npm packages detok-web and detok-web-pyodide, built from the current sources, for the tests
that install them; and what holds of every README that is published.
"""

import json
import os
import re
import subprocess
from pathlib import Path

from detok_py import __version__

ROOT = Path(__file__).resolve().parents[1]


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


def pack(folder: Path) -> dict:
    """Build the packages into `folder`; return the figures of detok-web: file, bytes, unpacked,
    javascript; and in `pyodide` those of the other.
    """
    said = run(["node", str(ROOT / "tools" / "package_web.mjs"), str(folder)], ROOT)
    return json.loads(said.splitlines()[-1])


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
    links = re.findall(r"\]\(([^)#]+)", readme)
    assert links
    for link in links:
        assert link.startswith("https://"), link
        if link.startswith(repository + "/"):
            kind, tag, path = link.removeprefix(repository + "/").split("/", 2)
            assert (kind in ("blob", "raw"), tag) == (True, f"v{__version__}"), link
            assert (ROOT / path).exists(), link
