"""Runs of pytest of their own, in a folder with a test that a user might have."""

import subprocess
import sys
from pathlib import Path

# The conftest.py of such a folder: it starts the browser as this run does.
LAUNCH = """
import pytest
LAUNCH = %r
@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {**browser_type_launch_args, **LAUNCH}
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
