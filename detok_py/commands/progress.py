"""A bar on the terminal, for whoever has waited a second.

In: a label, and work that goes on meanwhile. Out: nothing but what is drawn on stderr, and that only where stderr is a terminal; it is
wiped when the work is done, so that neither a log nor a pipe ever has it.
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
    """Draw a bar with the seconds that have passed while the body runs, from the first second on.

    How long it will take isn't known (a file is parsed in one call), so the bar moves to and fro.

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
            sys.stderr.write(f"\r{label} [{' ' * at}{'=' * 4}{' ' * (WIDTH - at)}] {time.monotonic() - began:.0f} s ")
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
