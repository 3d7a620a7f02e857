"""Pin: write requirements/*.txt and tests/real_uis/requirements.txt from their .in files, with the hash of every file of every version.

All platforms and Pythons from 3.11 on are in one file (`uv --universal`), so that a machine takes whichever wheel it can use. No
line names where a package comes from. Run it after editing a .in file: `make lock`.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    **dict.fromkeys([f"requirements/{name}" for name in ("serve", "engine", "build", "dev")], "3.11"),
    **dict.fromkeys(["requirements/runtime", "requirements/pyodide"], "3.14"),
    "tests/real_uis/requirements": "3.11",
}


def main() -> int:
    if importlib.util.find_spec("uv") is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "uv==0.13.8"], check=True)
    for name, python in FILES.items():
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--python-version", python]
        command += ["--generate-hashes", "--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links"]
        if name in ("requirements/engine", "requirements/runtime"):
            command.append("--no-deps")
        done = subprocess.run([*command, f"{name}.in", "-o", f"{name}.txt"], cwd=ROOT)
        if done.returncode:
            return done.returncode
        print(f"{name}.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
