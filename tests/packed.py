"""detok-web as it is published, for the tests that install it: built from the sources as they are now."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(command: list[str], folder: Path) -> str:
    """Run a program of Node's in `folder`; return what it says. npm may ask no registry and read no settings of this machine."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().startswith("npm_config_")}
    environment |= {"npm_config_userconfig": os.devnull, "npm_config_offline": "true", "npm_config_update_notifier": "false"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pack(folder: Path) -> dict:
    """Build the package into `folder`; return what the build says of it: file, bytes, unpacked, javascript."""
    said = run(["node", str(ROOT / "tools" / "package_web.mjs"), str(folder)], ROOT)
    return json.loads(said.splitlines()[-1])


def install(package: Path, folder: Path) -> Path:
    """Install the package into an empty folder, as a person without a network would; return where it went."""
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    # A cache of its own: what this machine has downloaded before must not help.
    run(["npm", "install", "--offline", "--no-audit", "--no-fund", "--cache", str(folder.parent / "npm-cache"), str(package)], folder)
    return folder / "node_modules" / "detok-web"
