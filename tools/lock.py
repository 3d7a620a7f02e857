"""Write requirements/<group>.txt for each dependency group of pyproject.toml: `make lock`.

Each file pins every version with the hash of every file, for all platforms and for Python from
3.11 on, so that a machine takes whichever wheel it can use. A `uv.lock` would record the addresses
of the index; these files name none.
"""

import argparse
import subprocess
import sys
import tomllib

from toolchain import ROOT, uv

# What runs in Pyodide, which is CPython 3.14.
FOR_PYODIDE = ("lite", "micropip", "pyodide")
# What is installed alone.
ALONE = ("lite", "micropip", "parsers")


def main() -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    for group in groups:
        command = [*uv(), "pip", "compile", "--quiet", "--universal", "--generate-hashes"]
        command += ["--no-annotate", "--no-header", "--no-emit-index-url"]
        command += ["--python-version", "3.14" if group in FOR_PYODIDE else "3.11"]
        command += [*(["--no-deps"] if group in ALONE else []), "--group", group]
        done = subprocess.run([*command, "-o", f"requirements/{group}.txt"], cwd=ROOT)
        if done.returncode:
            return done.returncode
        print(f"requirements/{group}.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
