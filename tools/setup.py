"""Build what a `make` target needs, and nothing that is there already.

`python tools/setup.py TARGET` brings .venv/, node_modules/ and .build/ to what the pinned files
say; tools/steps.py has the targets and their steps. While the hash of a step's sources is that of
its stamp in .build/stamps/, and the result exists, the step costs nothing. Steps of one row run
side by side.
"""

import argparse
import fcntl
import gzip
import hashlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import toolchain
from steps import STEPS, TARGETS, Step
from toolchain import BUILD, ROOT, SetupFailed

RUNTIME = BUILD / "runtime"
GZ = BUILD / "gz"
PACKED = (".wasm", ".zip", ".bin", ".mjs")


def pack(folder: Path, into: Path, level: int) -> None:
    """Compress the files of a runtime's folder with gzip, unless that was done since they were
    written. Wheels are compressed already.
    """

    def pack_one(path: Path) -> None:
        packed = into / f"{path.name}.gz"
        if not packed.exists() or packed.stat().st_mtime_ns < path.stat().st_mtime_ns:
            unfinished = packed.with_suffix(".part")  # a bridge may be serving this folder
            unfinished.write_bytes(gzip.compress(path.read_bytes(), level, mtime=0))
            unfinished.replace(packed)

    into.mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = [path for path in sorted(folder.iterdir()) if path.suffix in PACKED]
        list(pool.map(pack_one, files))


def write_manifest(folder: Path, packed: Path) -> None:
    """Write manifest.json: {file: {bytes, sha256, packed}} for every file that a page may ask for.
    `packed` is the size of a file that is compressed in the folder `packed`.
    """
    lines: dict[str, dict[str, int | str]] = {}
    for path in sorted(folder.iterdir()):
        if path.name == "manifest.json" or path.suffix == ".gz":
            continue
        data = path.read_bytes()
        lines[path.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        if (small := packed / f"{path.name}.gz").exists():
            lines[path.name]["packed"] = small.stat().st_size
    (folder / "manifest.json").write_text(json.dumps(lines, indent=1) + "\n")


def fingerprint(step: Step) -> str:
    """Return the hash of a step's sources: their names and their bytes."""
    digest = hashlib.sha256()
    for pattern in step.sources:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def bring_up(name: str) -> bool:
    """Do a step unless it is done, and print one line for it. Returns whether it was done now."""
    step, stamp = STEPS[name], BUILD / "stamps" / name
    key = fingerprint(step)
    made = all(any(ROOT.glob(result)) for result in step.results)
    if made and stamp.exists() and stamp.read_text() == key:
        return False
    began = time.monotonic()
    step.work()
    stamp.write_text(key)
    print(f"set up {step.purpose}: {time.monotonic() - began:.1f} s", flush=True)
    return True


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("target", choices=TARGETS, help="what the set-up is for")
    target = parser.parse_args(words).target
    for folder in (BUILD / "stamps", RUNTIME, Path.home()):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with open(BUILD / "lock", "w") as lock, ThreadPoolExecutor(os.cpu_count()) as pool:
            # A second `make` waits here, and then finds everything done.
            fcntl.flock(lock, fcntl.LOCK_EX)
            toolchain.make_venv()
            toolchain.find_node()
            done = [now for row in TARGETS[target] for now in list(pool.map(bring_up, row))]
            if any(done) or not GZ.exists():
                pack(RUNTIME, GZ, 6)
                write_manifest(RUNTIME, GZ)
    except SetupFailed as error:
        sys.exit(f"set-up failed: {error}")
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
