"""All measurements that need no browser and no server, one after another: `python -m benchmarks`,
one JSON object a line.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ALONE = {
    "page",
    "bridge",
    "library",
    "package",
    "watcher",
}  # these start browsers and servers: run them by name

failed = 0
for path in sorted(FOLDER.glob("*.py")):
    if path.stem not in ALONE and not path.stem.startswith("__"):
        failed |= subprocess.run(
            [sys.executable, "-m", f"benchmarks.{path.stem}"], cwd=FOLDER.parent
        ).returncode
sys.exit(failed)
