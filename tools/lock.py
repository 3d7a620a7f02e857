"""Pin: write requirements/*.txt from requirements/*.in, with the hash of every file of every version.

All platforms and Pythons from 3.11 on are in one file (`uv --universal`), so that a machine takes whichever wheel it can use. No
line names where a package comes from. Run it after editing a .in file: `make lock`.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = {"serve": "3.11", "engine": "3.11", "build": "3.11", "dev": "3.11", "runtime": "3.14", "pyodide": "3.14"}


def main() -> int:
    if importlib.util.find_spec("uv") is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "uv==0.13.8"], check=True)
    for name, python in PYTHONS.items():
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--python-version", python]
        command += ["--generate-hashes", "--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links"]
        if name in ("engine", "runtime"):
            command.append("--no-deps")
        done = subprocess.run([*command, f"requirements/{name}.in", "-o", f"requirements/{name}.txt"], cwd=ROOT)
        if done.returncode:
            return done.returncode
        print(f"requirements/{name}.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
