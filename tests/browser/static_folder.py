"""A folder behind a plain static server of its own, as another origin or a host of files has it."""

import contextlib
import http.server
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from local_server import local_server

ROOT = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def serving(
    folder: Path, handler: type[Any] = http.server.SimpleHTTPRequestHandler
) -> Iterator[str]:
    """Serve a folder on a free port; gives the address, without a slash at its end."""
    with local_server(handler, directory=str(folder)) as server:
        yield server.url


class Lenient(http.server.SimpleHTTPRequestHandler):
    """A plain static server without a policy: the examples, the runtime, and PyScript as its
    package has it.
    """

    roots = {
        "pyscript": "node_modules/@pyscript/core/dist",
        "runtime": ".build/runtime",
        "wheels": ".build/runtime",
        "src": "web/src",
        "examples": "web/examples",
    }

    def translate_path(self, path: str) -> str:
        folder, _, name = path.split("?")[0].lstrip("/").partition("/")
        return str(ROOT / self.roots.get(folder, "nowhere") / name)
