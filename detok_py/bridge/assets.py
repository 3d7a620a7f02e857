"""The static files of the bridge: the page, the client library, the runtime, wheels.

In: a URL path. Out: a File, or None. Files outside the folders are never opened: each part of a
path must be a plain name, and the path must be inside the folder after links are resolved.

In a clone the folders are `web/` and `.build/runtime/`. Elsewhere they are those of detok_py_page,
a distribution that the extra `serve` installs; its runtime files are compressed (`name.gz`). Beside
the runtime folder are `page`, the demo page bundled into few files, `examples`, those that need a
bundler, and in a clone `gz`, the runtime's files compressed.
"""

import gzip
import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from .. import __version__
from ..errors import DetokError

PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
MAX_PATH = 512
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".wasm": "application/wasm",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".ts": "text/plain; charset=utf-8",
    ".py": "text/plain; charset=utf-8",
    ".jsonl": "application/x-ndjson",
    ".sse": "text/event-stream; charset=utf-8",
    ".ndjson": "application/x-ndjson",
    ".har": "application/json",
    ".webmanifest": "application/manifest+json",
}
COMPRESSED = {
    ".html",
    ".js",
    ".mjs",
    ".css",
    ".json",
    ".svg",
    ".txt",
    ".md",
    ".py",
    ".ts",
    ".jsonl",
    ".detok",
}


class File(NamedTuple):
    """A response body with its content encoding; `etag` is the sha256 of the unencoded file."""

    body: bytes
    content_type: str
    encoding: str | None
    etag: str


class Folders(NamedTuple):
    """What the bridge serves, and the model of its own engine."""

    web: Path
    runtime: Path
    recite: Path


def folders() -> Folders:
    """Return the folders of the clone, or those of detok_py_page. Raises ModuleNotFoundError if
    that is not installed, and DetokError if it is of another version.
    """
    package = Path(__file__).resolve().parents[1]
    clone = package.parent
    if (clone / "web" / "src").is_dir() and (clone / "pyproject.toml").is_file():
        return Folders(clone / "web", clone / ".build" / "runtime", package / "bridge" / "recite")
    import detok_py_page

    if detok_py_page.__version__ != __version__:
        raise DetokError(
            f"detok_py is {__version__} and detok_py_page {detok_py_page.__version__}; install one version "
            f"of both: pip install 'detok_py[serve]=={__version__}'."
        )
    page = Path(detok_py_page.__file__).parent
    return Folders(page / "web", page / "runtime", page / "recite")


class Assets:
    """Files by URL path, in an encoding that the client accepts.

    Contents are cached until the file on disk changes.
    """

    def __init__(self, web: Path | None = None, runtime: Path | None = None) -> None:
        self.web: Path = (web or folders().web).resolve()
        self.runtime: Path = (runtime or folders().runtime).resolve()
        self.page: Path = self.runtime.with_name("page")
        self.built: Path = self.runtime.with_name("examples")
        self.packed: Path = self.runtime.with_name("gz")
        self._cache: dict[tuple[Path, bool], tuple[tuple[int, int], File]] = {}

    def find(self, path: str, accept_encoding: str = "") -> File | None:
        """Return the file at a URL path, or None.

        `/` is the page, whose other files are in `/page/…`. `/runtime/…` and `/wheels/…` are in the
        runtime folder, where `/wheels/simple/<name>/` lists the wheels of a project. All other
        paths are under `web/`.
        """
        if path == "/":
            path = "/page/index.html"
        listed = re.fullmatch(r"/wheels/simple/([A-Za-z0-9_.-]{1,64})/", path)
        if listed:
            return self._simple_index(listed[1])
        if path.startswith("/examples/") and path.endswith("/"):
            path += "index.html"
        root = self.web
        for prefix, folder in (
            ("/page/", self.page),
            ("/runtime/", self.runtime),
            ("/wheels/", self.runtime),
            ("/examples/built/", self.built),
        ):
            if path.startswith(prefix):
                root, path = folder, path[len(prefix) - 1 :]
                break
        if not path.startswith("/") or len(path) > MAX_PATH:
            return None
        parts = path[1:].split("/")
        if not all(PLAIN.fullmatch(part) for part in parts):
            return None
        file = root.joinpath(*parts)
        for stored in (file, file.with_name(file.name + ".gz")):
            try:
                real = stored.resolve(strict=True)
            except (OSError, ValueError, RuntimeError):  # RuntimeError: circular links
                continue
            if real.is_relative_to(root) and real.is_file():
                return self._read(real, file.suffix, stored != file, accepts_gzip(accept_encoding))
        return None

    def read_ahead(self) -> None:
        """Read, hash and compress the files that a page with Python requests. Takes a tenth of a
        second; call it in a thread, so that the first visitor need not wait.
        """
        for file in [*self.page.glob("*"), *self.runtime.glob("*")]:
            if file.suffix != ".map":
                self.find(f"/{file.parent.name}/{file.name.removesuffix('.gz')}", "gzip")

    def _simple_index(self, name: str) -> File | None:
        """Return the index page of one project's wheels for micropip and pip (PEP 503)."""
        wheels = [
            wheel
            for wheel in sorted(self.runtime.glob("*.whl"))
            if _normalized(wheel.name.split("-")[0]) == _normalized(name)
        ]
        if not wheels:
            return None
        lines = [
            f'<a href="../../{wheel.name}#sha256={self._read(wheel, wheel.suffix, False, False).etag}">{wheel.name}</a>'
            for wheel in wheels
        ]
        body = "\n".join(
            ["<!doctype html>", f"<title>{_normalized(name)}</title>", *lines, ""]
        ).encode()
        return File(body, TYPES[".html"], None, hashlib.sha256(body).hexdigest())

    def _read(self, file: Path, suffix: str, packed: bool, gzipped: bool) -> File:
        """Return a file with the type of its suffix, `packed` if it is stored in gzip."""
        beside = self._packed_beside(file) if gzipped and not packed else None
        gzipped = gzipped and (packed or beside is not None or suffix in COMPRESSED)
        stat = file.stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        known = self._cache.get((file, gzipped))
        if known is not None and known[0] == stamp:
            return known[1]
        stored = file.read_bytes()
        raw = gzip.decompress(stored) if packed else stored
        body = stored if gzipped == packed else raw
        if gzipped and not packed:
            body = beside.read_bytes() if beside else gzip.compress(raw, 6, mtime=0)
        content_type = TYPES.get(suffix, "application/octet-stream")
        encoding = "gzip" if gzipped else None
        out = File(body, content_type, encoding, hashlib.sha256(raw).hexdigest())
        self._cache[file, gzipped] = (stamp, out)
        return out

    def _packed_beside(self, file: Path) -> Path | None:
        """Return where a runtime file is compressed, if that was done since it was written."""
        packed = self.packed / f"{file.name}.gz"
        if file.parent != self.runtime or not packed.is_file() or packed.is_symlink():
            return None
        return packed if packed.stat().st_mtime_ns >= file.stat().st_mtime_ns else None


def compress(body: bytes, content_type: str, accept_encoding: str, etag: str) -> File:
    """Return a File of the bytes, compressed with gzip if the client accepts it."""
    if accepts_gzip(accept_encoding) and len(body) > 1024:
        return File(gzip.compress(body, 6, mtime=0), content_type, "gzip", etag)
    return File(body, content_type, None, etag)


def _normalized(name: str) -> str:
    """Return the normalized name of a project (PEP 503).

    >>> _normalized("detok_py")
    'detok-py'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether a client accepts gzip; `q=0` means no (RFC 9110, section 12.4.2).

    >>> accepts_gzip("br, gzip"), accepts_gzip("gzip;q=0, zstd"), accepts_gzip("")
    (True, False, False)
    """
    for part in accept_encoding.lower().split(","):
        name, _, rest = part.partition(";")
        if name.strip() == "gzip":
            return not re.fullmatch(r"q=0(\.0*)?", rest.replace(" ", ""))
    return False
