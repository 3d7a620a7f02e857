"""The folder of the large test data."""

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent


def data_folder() -> Path | None:
    """Return $DETOK_DATA, by default ../shared/data beside the project; None if it is missing."""
    named = os.environ.get("DETOK_DATA")
    if named:
        if not Path(named).is_dir():
            raise pytest.UsageError(f"DETOK_DATA={named} is not a folder; correct it or unset it.")
        return Path(named)
    folder = TESTS.parents[1] / "shared" / "data"
    return folder if folder.is_dir() else None
