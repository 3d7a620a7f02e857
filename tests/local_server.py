"""An HTTP server on a free port of this machine, while a block runs; and a free port for others."""

import contextlib
import functools
import socket
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any


@contextlib.contextmanager
def local_server(handler: Any, **options: Any) -> Iterator[Any]:
    """Serve with a handler of http.server, which logs nothing. Gives the server, with its `url`,
    which ends without a slash.
    """
    quiet = type(handler.__name__, (handler,), {"log_message": lambda *_: None})
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, **options))
    server.daemon_threads = True
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    """Return a port that is free now, for a program that cannot take port 0."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
