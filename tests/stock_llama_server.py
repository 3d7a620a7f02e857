"""llama.cpp's own server with the reciting model, in a child process."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from detok_py.bridge.engines.recite import FOLDER

PROGRAM = Path(__file__).parent / "real_uis" / "llama_ui.py"


@contextlib.contextmanager
def llama_server() -> Iterator[str]:
    """Give the address of a server with the settings that llama-server has by default."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(FOLDER / "recite.gguf")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(20)
