"""A folder behind a plain static server of its own, as another origin or a host of files has it."""

import contextlib
import http.server
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from local_server import local_server


@contextlib.contextmanager
def serving(
    folder: Path, handler: type[Any] = http.server.SimpleHTTPRequestHandler
) -> Iterator[str]:
    """Serve a folder on a free port; gives the address, without a slash at its end."""
    with local_server(handler, directory=str(folder)) as server:
        yield server.url
