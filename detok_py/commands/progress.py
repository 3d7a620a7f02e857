"""A progress bar for work that takes longer than a second.

In: a label, and a `with` body. Out: a bar on stderr while the body runs, if stderr is a terminal.
It is erased at the end.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0
FRAME = 0.1
WIDTH = 20


@contextmanager
def waiting(label: str) -> Iterator[None]:
    """Draw a bar with the elapsed seconds while the body runs, from the first second on.

    The total time is unknown (a file is parsed in one call), so the bar moves to and fro.

    >>> with waiting("reading"):
    ...     pass
    """
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    began = time.monotonic()

    def draw() -> None:
        if done.wait(PATIENCE):
            return
        step = 0
        while True:
            at = abs((step + WIDTH) % (2 * WIDTH) - WIDTH)
            sys.stderr.write(
                f"\r{label} [{' ' * at}{'=' * 4}{' ' * (WIDTH - at)}] {time.monotonic() - began:.0f} s "
            )
            sys.stderr.flush()
            step += 1
            if done.wait(FRAME):
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()
                return

    drawer = threading.Thread(target=draw, daemon=True)
    drawer.start()
    try:
        yield
    finally:
        done.set()
        drawer.join()
