"""The decode path gives the same in MicroPython, a runtime of 0.2 MB, as in CPython: the same source, line for line the same output.

Each script in tests/micropython/ prints JSON lines; it runs here and there, and what it prints is compared.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted((ROOT / "tests" / "micropython").glob("script_*.py"))
MICROPYTHON = ROOT / "node_modules" / "@micropython" / "micropython-webassembly-pyscript"

pytestmark = pytest.mark.skipif(
    not MICROPYTHON.is_dir() or shutil.which("node") is None, reason="MicroPython for WebAssembly is not here (npm ci brings it)"
)


def lines(command):
    """Run a command; return the JSON of each line that it prints."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "tests" / "micropython")]), PYTHONIOENCODING="utf-8")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace") or done.stdout.decode("utf-8", "replace")[-2000:]
    return [json.loads(line) for line in done.stdout.decode("utf-8").split("\n") if line]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_prints_the_same_in_micropython_as_in_cpython(script):
    here = lines([sys.executable, str(script)])
    there = lines(["node", "tools/micropython.mjs", str(script)])
    assert len(here) > 10
    for line_here, line_there in zip(here, there, strict=True):
        assert line_there == line_here
