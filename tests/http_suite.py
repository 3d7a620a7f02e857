"""The conformance suite over HTTP, run as a stranger runs it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HTTP = Path(__file__).resolve().parents[1] / "conformance" / "http"


def write_model(folder: Path) -> Path:
    """Write the model that says the cases into a folder."""
    subprocess.run([sys.executable, HTTP / "make_model.py", folder], check=True, timeout=60)
    return folder


def failed(url: str, model: Path) -> set[str]:
    """Return the cases that fail against a server."""
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", HTTP, "-c", os.devnull, HTTP / "test_over_http.py"],
        env={**os.environ, "ENGINE": url, "MODEL": str(model), "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    count = len(json.loads((model / "cases.json").read_text("utf-8")))
    found = set(re.findall(r"^FAILED .*\[(\S+)\]", done.stdout, re.MULTILINE))
    assert f"{count - len(found)} passed" in done.stdout, done.stdout + done.stderr
    return found
