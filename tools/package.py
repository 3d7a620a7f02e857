"""Build what is published into dist/: the full wheel and the sdist; then prove that the wheel works where nothing else is.

The proof: the wheel is unpacked into an empty folder, `detok serve` starts from there, and the page, the client library and the runtime
come over HTTP as they are in the clone. The wheel that browsers download is another file of the same name, .build/runtime/detok_py-….whl.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# URL path → file of the clone that must come out of it.
SERVED = {
    "/": "web/demo/index.html",
    "/src/worker.js": "web/src/worker.js",
    "/runtime/manifest.json": ".build/runtime/manifest.json",
    "/runtime/pyodide.asm.wasm": ".build/runtime/pyodide.asm.wasm",
}


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    if subprocess.run([sys.executable, "-m", "build", "--no-isolation", "--wheel", "--sdist", "."], cwd=ROOT).returncode:
        return 1
    (wheel,) = DIST.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        sentence = problem(Path(folder))
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  dist/{path.name}")
    print(sentence or "detok serve works from the wheel alone")
    return 1 if sentence else 0


def problem(folder: Path) -> str | None:
    """Serve from the unpacked wheel in `folder`; return what is wrong, None when all is well."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {"PYTHONPATH": str(folder)}
    # -P: not the clone that this file lies in, nor the folder that we are in.
    command = [sys.executable, "-P", "-m", "detok_py", "serve", "--port", "0", "--engine", "scripted"]
    server = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            return f"detok serve did not start from the wheel; it said {line!r}."
        for path, file in SERVED.items():
            with urllib.request.urlopen(found[0].rstrip("/") + path, timeout=30) as response:
                if response.read() != (ROOT / file).read_bytes():
                    return f"{path} is not {file}."
        return None
    except OSError as error:
        return f"detok serve from the wheel: {error}."
    finally:
        server.terminate()
        server.wait(timeout=30)


if __name__ == "__main__":
    sys.exit(main())
