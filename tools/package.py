"""Build what is published into dist/, and prove that it works where nothing else is.

For an index of Python: detok_py (sdist; a wheel of it alone, without dependencies; a smaller wheel
for Pyodide, which micropip prefers) and detok_py_page (sdist and wheel: the page, the client
library, the examples, the browser's runtimes and the small model, for the extra `serve`). For npm:
detok-web and detok-web-pyodide. For Pyodide: a recipe, and an entry of its lock file. Wheels are
built from the sdists alone, and the same sources give the same bytes.

The proof: into a new virtual environment `detok_py[serve]` is installed from these wheels and from
wheels in a folder, without an index; in an empty folder `detok serve` starts; the page, the client
library, the examples and the runtimes come over HTTP as they are in the clone; and the model
recites a text, letter for letter. tests/ install and try the npm packages, and micropip's choice.
"""

import argparse
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
import zipfile
from pathlib import Path

import browser_wheel
from build_notebooks import lock_entry
from hatch_build import published
from setup import pack, write_manifest

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
WHEELHOUSE = ROOT / ".build" / "wheelhouse"
REQUIREMENTS = ("requirements/serve.txt", "requirements/engine.txt")
# What the bridge serves of web/ as it is, and what is bundled for the page and for two examples.
WEB = ("src", "examples")
BUNDLED = ("react.js", "ai-sdk.js", "uplot.js", "uplot.css", "markdown.js")
# The memory of a started Pyodide and the bytecode of the wheel stay out: on a network their bytes
# take longer than what they save.
LEFT_OUT = ("memory.bin", "detok_bytecode.bin", "*.whl")
# URL path → file of the clone that must come out of it.
SERVED = {
    "/": ".build/page/index.html",
    "/page/start.js": ".build/page/start.js",
    "/src/index.js": "web/src/index.js",
    "/src/decoder-worker.js": "web/src/decoder-worker.js",
    "/runtime/pyodide.asm.wasm": ".build/runtime/pyodide.asm.wasm",
    "/runtime/micropython.wasm": ".build/runtime/micropython.wasm",
    "/runtime/detok_micropython.bin": ".build/runtime/detok_micropython.bin",
    "/runtime/detok_captures.bin": ".build/runtime/detok_captures.bin",
    "/examples/": "web/examples/index.html",
    "/examples/chat/": "web/examples/chat/index.html",
    "/examples/built/react.js": ".build/examples/react.js",
}


class NotProven(Exception):
    """One sentence: what does not work."""


def run(command: list[str], trouble: str, **options: object) -> None:
    """Run a command; show its output if it fails."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )  # type: ignore[call-overload]
    if done.returncode:
        raise NotProven(f"{trouble}\n{done.stdout}")


def main() -> int:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    shutil.rmtree(DIST, ignore_errors=True)
    try:
        build(DIST)
        fill_wheelhouse()
        with tempfile.TemporaryDirectory() as folder:
            prove(Path(folder))
    except NotProven as error:
        print(error, file=sys.stderr)
        return 1
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  dist/{path.name}")
    print("detok serve works from the wheels alone: page, library, examples, runtime and model")
    return 0


def build(dist: Path) -> None:
    """Build all packages into a folder. Raises NotProven if one cannot be built."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page"
        stage_page(page)
        for source in (ROOT, page):
            # First the sdist, then the wheel from what is in it.
            run(
                [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), source],
                f"The sdist and wheel of {source.name} could not be built.",
            )
    wheel = dist / f"detok_py-{browser_wheel.version()}-py3-none-any.whl"
    platform = browser_wheel.pyodide_platform()
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        small = browser_wheel.index_wheel(True, archive.read(metadata))
        files = {name: archive.read(name) for name in archive.namelist()}
    # hatchling compresses by zlib, which takes 26 kB more.
    wheel.write_bytes(browser_wheel.zipped(files, True))
    index = wheel.with_name(wheel.name.replace("any", platform))
    index.write_bytes(small)
    write_for_pyodide(index)
    run(
        ["node", "tools/package_web.mjs", str(dist)],
        "The npm packages could not be built.",
        cwd=ROOT,
    )


RECIPE = """\
package:
  name: {name}
  version: {version}
  top-level:
{imports}
source:
  url: {file_name}
  sha256: {sha256}
about:
  home: {home}
  summary: "{summary}"
  license: {license}
test:
  imports:
{imports}
"""


def write_for_pyodide(wheel: Path) -> None:
    """Write, beside a wheel, its entry of pyodide-lock.json, which names the release's file, and
    the recipe that Pyodide's own repository would take (meta.yaml).
    """
    project = browser_wheel.project()
    home = project["urls"]["Repository"]
    entry = lock_entry(wheel, ())
    entry["file_name"] = f"{home}/releases/download/v{entry['version']}/{wheel.name}"
    lock = json.dumps({entry["name"]: entry}, indent=1)
    wheel.with_name("detok_py.pyodide-lock.json").write_text(lock + "\n", encoding="utf-8")
    imports = "\n".join(f"    - {name}" for name in entry["imports"])
    about = {"home": home, "summary": project["description"], "license": project["license"]}
    text = RECIPE.format(**{**entry, **about, "imports": imports})
    wheel.with_name("detok_py.meta.yaml").write_text(text, encoding="utf-8")


def stage_page(folder: Path) -> None:
    """Put together the project detok_py_page: its own files, the version and the addresses of
    detok_py, and the files that it carries, each once. The bridge unpacks the runtime's for the few
    clients that don't take gzip.
    """
    source = ROOT / "packages" / "detok_py_page"
    version = browser_wheel.version()
    package = folder / "detok_py_page"
    package.mkdir(parents=True)
    urls = browser_wheel.project()["urls"]
    lines = [f'{name} = "{url}"' for name, url in urls.items()]
    manifest = (source / "pyproject.toml").read_text("utf-8")
    (folder / "pyproject.toml").write_text("\n".join([manifest, "[project.urls]", *lines, ""]))
    readme = (source / "README.md").read_text("utf-8")
    links = (urls["Repository"], version, source.relative_to(ROOT).as_posix())
    (folder / "README.md").write_text(published(readme, *links), encoding="utf-8")
    for name in ("LICENSE", "web/THIRD-PARTY.md"):
        shutil.copy(ROOT / name, folder)
    said = (source / "__init__.py").read_text("utf-8")
    (package / "__init__.py").write_text(f'{said}\n__version__ = "{version}"\n', encoding="utf-8")
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "*.map")
    for name in WEB:
        shutil.copytree(ROOT / "web" / name, package / "web" / name, ignore=unwanted)
    shutil.copytree(ROOT / "detok_py" / "bridge" / "recite", package / "recite", ignore=unwanted)
    shutil.copytree(ROOT / ".build" / "page", package / "page", ignore=unwanted)
    (package / "examples").mkdir()
    for name in BUNDLED:
        shutil.copy(ROOT / ".build" / "examples" / name, package / "examples")
    built, runtime = ROOT / ".build" / "runtime", package / "runtime"
    shutil.copytree(built, runtime, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for wheel in built.glob("micropip-*.whl"):
        shutil.copy(wheel, runtime)
    name = f"detok_py-{version}-py3-none"
    (runtime / f"{name}-any.whl").write_bytes(browser_wheel.page_wheel(smallest=True))
    index = runtime / f"{name}-{browser_wheel.pyodide_platform()}.whl"
    index.write_bytes(browser_wheel.index_wheel(smallest=True))
    pack(runtime, runtime, 9)
    write_manifest(runtime, runtime)
    for path in runtime.glob("*.gz"):
        path.with_suffix("").unlink()


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
    """Install the wheels in `folder` and use them. Raises NotProven."""
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
    (wheel,) = DIST.glob("detok_py-*-any.whl")
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    command = [
        *pip,
        "install",
        "--no-index",
        *("--find-links", str(WHEELHOUSE), "--find-links", str(DIST)),
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
        for name, told in json.loads(get(f"{address}/runtime/manifest.json")).items():
            data = get(f"{address}/runtime/{name}")
            if told != {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}:
                raise NotProven(f"/runtime/{name} is not what manifest.json says.")
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
