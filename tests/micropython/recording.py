"""One recording of the tests of the decode path, made when it is first wanted and again when
anything that goes into it has changed.

It is kept in .build/recordings/ under the hash of what it is made from, because the tests in Node
and in each browser play the same one.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "micropython"
FOLDER = ROOT / ".build" / "recordings"
RECORDED = (
    "tests/decode",
    "tests/protocol",
    "tests/laws",
    "tests/goldens/test_torture_decoding.py",
    "tests/goldens/test_torture_segments.py",
)
SCRIPTS = tuple(sorted(path.stem for path in HERE.glob("script_*.py")))
# Takes seconds in MicroPython.
LONG = "script_of_all_pairs"


def fingerprint(data: Path | None) -> str:
    digest = hashlib.sha256()
    files = [
        *ROOT.glob("detok_py/**/*.py"),
        *HERE.glob("*.py"),
        ROOT / "tests" / "conftest.py",
        ROOT / "tests" / "vectors" / "wire.json",
    ]
    for name in RECORDED:
        recorded = ROOT / name
        files += [recorded] if recorded.is_file() else sorted(recorded.glob("*.py"))
    files += sorted((ROOT / "conformance").glob("*.json"))
    if data:
        files += [data / "torture.json", *sorted((data / "utf8").glob("*.json"))]
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def recording(data: Path | None, played_in: str | None) -> Path:
    """Return the file of the recording for a tier: of the quick tests every twelfth for `make
    test`, of all tests every tenth for `make test-all`, and all for `make soak`; and all scripts,
    but the long one not for `make test`.

    `data` is the folder of the large test data, where there is one.
    """
    quick = played_in in ("check", "test")
    tier, every = ("check", 12) if quick else ("any", 1 if played_in == "soak" else 10)
    FOLDER.mkdir(parents=True, exist_ok=True)
    key = fingerprint(data)[:24]
    path = FOLDER / f"{key}-{tier}-{every}.jsonl"
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not path.exists():
            for old in FOLDER.glob("*.jsonl"):
                if not old.name.startswith(key):
                    old.unlink()
            made = path.with_suffix(".part")
            record(made, tier, every)
            with made.open("a", encoding="utf-8") as file:
                for script in SCRIPTS:
                    if not (quick and script == LONG):
                        file.write(said(script) + "\n")
            made.rename(path)
    return path


def record(path: Path, tier: str, every: int) -> None:
    """Run the tests with the recorder. A test that fails there makes the recording worthless."""
    command = [sys.executable, "-m", "pytest", *RECORDED, "-q", "-m", "not unrecorded"]
    for plugin in ("no:cacheprovider", "no:xdist", "no:randomly", "recorder"):
        command += ["-p", plugin]
    command += ["--record", str(path), f"--every={every}", f"--tier={tier}", "--hypothesis-seed=0"]
    environment = dict(
        os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), str(HERE)]), DETOK_PROFILE="test"
    )
    # Without what this process's own pytest has said to its children.
    environment = {key: environment[key] for key in environment if not key.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"a recorded test failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")


def said(script: str) -> str:
    """Return the line of a recording for one of the scripts: its name, and what it says
    in CPython.
    """
    code = f"import json, player; print(json.dumps([{script!r}, player.script_lines({script!r})]))"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), str(HERE)]))
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
