"""Build what is published into dist/ (wheel, sdist, npm package), and prove that the wheel works
where nothing else is.

The wheel is built from the sdist alone. The proof: into a new virtual environment `detok_py[serve]`
is installed from wheels in a folder, without an index; in an empty folder `detok serve` starts; the
page, the client library, the examples and the runtime come over HTTP as they are in the clone; and
the model that came with it recites a text, letter for letter. The wheel that browsers download is
another file of the same name, .build/runtime/detok_py-….whl; tests/ install and try the npm
package.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from setup import write_manifest

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
WHEELHOUSE = ROOT / ".build" / "wheelhouse"
STATIC = ROOT / ".build" / "static"
REQUIREMENTS = ("requirements/serve.txt", "requirements/engine.txt")
# URL path → file of the clone that must come out of it.
SERVED = {
    "/": ".build/page/index.html",
    "/page/start.js": ".build/page/start.js",
    "/src/index.js": "web/src/index.js",
    "/src/decoder-worker.js": "web/src/decoder-worker.js",
    "/runtime/manifest.json": ".build/static/manifest.json",
    "/runtime/pyodide.asm.wasm": ".build/static/pyodide.asm.wasm",
    "/runtime/micropython.wasm": ".build/static/micropython.wasm",
    "/runtime/detok_micropython.bin": ".build/static/detok_micropython.bin",
    "/runtime/detok_captures.bin": ".build/static/detok_captures.bin",
    "/examples/": "web/examples/index.html",
    "/examples/chat/": "web/examples/chat/index.html",
    "/examples/built/react.js": ".build/examples/react.js",
}


class NotProven(Exception):
    """One sentence: what does not work."""


def run(command: list[str], trouble: str, **options: object) -> None:
    """Run a command; what it says is shown when it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )  # type: ignore[call-overload]
    if done.returncode:
        raise NotProven(f"{trouble}\n{done.stdout}")


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    try:
        stage()
        # First the sdist, then the wheel from what is in it.
        run(
            [sys.executable, "-m", "build", "--no-isolation", "."],
            "The wheel could not be built from the sdist.",
            cwd=ROOT,
        )
        run(
            ["node", "tools/package_web.mjs", str(DIST)],
            "The npm package could not be built.",
            cwd=ROOT,
        )
        fill_wheelhouse()
        with tempfile.TemporaryDirectory() as folder:
            prove(Path(folder))
    except NotProven as error:
        print(error, file=sys.stderr)
        return 1
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  dist/{path.name}")
    print("detok serve works from the wheel alone: page, library, examples, runtime and model")
    return 0


def stage() -> None:
    """Fill .build/static/ with the runtime as it is published: the smallest wheel for browsers, and
    brotli forms, which a demo on this machine does without. The memory of a started Pyodide and the
    bytecode of the wheel stay out: on a network their bytes take longer than what they save.
    """
    shutil.rmtree(STATIC, ignore_errors=True)
    runtime = ROOT / ".build" / "runtime"
    shutil.copytree(
        runtime, STATIC, ignore=shutil.ignore_patterns("memory.bin", "detok_bytecode.bin")
    )
    for command in (
        [sys.executable, "tools/browser_wheel.py", str(STATIC)],
        ["node", "tools/compress.mjs", str(STATIC)],
    ):
        run(command, f"{command[1]} failed.", cwd=ROOT)
    write_manifest(STATIC)


def fill_wheelhouse() -> None:
    """Download, once, what `detok serve` needs, by the hashes of the pinned files."""
    digest = hashlib.sha256(
        b"".join([(ROOT / name).read_bytes() for name in REQUIREMENTS])
    ).hexdigest()
    stamp = WHEELHOUSE / "made-of"
    if stamp.exists() and stamp.read_text() == digest:
        return
    shutil.rmtree(WHEELHOUSE, ignore_errors=True)
    files = [word for name in REQUIREMENTS for word in ("-r", name)]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--only-binary=:all:",
        "--no-deps",
        "--require-hashes",
        *files,
    ]
    run(
        [*command, "-d", str(WHEELHOUSE)],
        "pip could not download what detok serve needs; is a package index reachable?",
        cwd=ROOT,
    )
    stamp.write_text(digest)


def prove(folder: Path) -> None:
    """Install the wheel in `folder` and use it. Raises NotProven."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PIP_", "VIRTUAL_ENV"))
    }
    empty = folder / "empty"
    empty.mkdir()
    run(
        [sys.executable, "-m", "venv", str(folder / "venv")],
        "No virtual environment could be made.",
        env=environment,
    )
    python = str(folder / "venv" / "bin" / "python")
    (wheel,) = DIST.glob("*.whl")
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    command = [
        *pip,
        "install",
        "--no-index",
        "--find-links",
        str(WHEELHOUSE),
        f"detok_py[serve] @ {wheel.as_uri()}",
    ]
    run(command, "The wheel could not be installed with what it needs.", cwd=empty, env=environment)
    run([*pip, "check"], "pip check: what is installed does not fit.", cwd=empty, env=environment)
    server = subprocess.Popen(
        [str(folder / "venv" / "bin" / "detok"), "serve", "--port", "0"],
        cwd=empty,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise NotProven(f"detok serve did not start from the wheel; it said {line!r}.")
        address = found[0].rstrip("/")
        for path, file in SERVED.items():
            if get(address + path) != (ROOT / file).read_bytes():
                raise NotProven(f"{path} is not {file}.")
        text = json.loads(
            (ROOT / "detok_py" / "bridge" / "recite" / "texts.json").read_text("utf-8")
        )[0]
        if recited(address, text["prompt"]) != text["text"].encode():
            raise NotProven(f"The model does not recite {text['id']!r}.")
    except OSError as error:
        raise NotProven(f"detok serve from the wheel: {error}.") from error
    finally:
        server.terminate()
        server.communicate(timeout=30)
    if left := [path.name for path in empty.iterdir()]:
        raise NotProven(f"detok serve left something in its folder: {left}.")


def get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return bytes(response.read())
    except urllib.error.HTTPError as error:
        raise NotProven(f"{url}: HTTP {error.code}.") from None


def recited(address: str, prompt: str) -> bytes:
    """Ask the bridge's socket for an answer; return its bytes."""
    from websockets.sync.client import connect

    data = b""
    stream = address.replace("http", "ws", 1) + "/stream"
    with connect(stream, origin=address, subprotocols=["detok.v1"], open_timeout=30) as socket:  # type: ignore[list-item, arg-type]
        socket.send(
            json.dumps({"type": "generate", "id": "p" * 16, "prompt": prompt, "want": "bytes"})
        )
        while True:
            frame = socket.recv(timeout=60)
            if isinstance(frame, bytes):
                data += frame[1:]  # after the op 00
                socket.send(json.dumps({"type": "ack", "n": len(data)}))
            elif json.loads(frame)["type"] in ("finished", "error"):
                return data


if __name__ == "__main__":
    sys.exit(main())
