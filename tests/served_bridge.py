"""A `detok serve` in a child process, for tests in browsers."""

import re
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Bridge:
    """A `detok serve` of its own, in a child process, on a free port of 127.0.0.1."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "detok_py", "serve", "--port", "0", *options],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                self.url = found[0]
                # What it prints from here on is read and forgotten, so that the pipe never fills.
                self.reader = threading.Thread(target=self.process.stdout.read, daemon=True)
                self.reader.start()
                return
        raise RuntimeError(f"detok serve did not start:\n{said}")

    def kill(self) -> None:
        """End it as a power cut would, as far as its clients can tell."""
        self.process.kill()
        self._ended()

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self._ended()
            except subprocess.TimeoutExpired:
                self.kill()

    def _ended(self) -> None:
        self.process.wait(10)
        self.reader.join(10)
        if self.process.stdout is not None:
            self.process.stdout.close()
