"""What all tests share: where the test data is, how hard hypothesis tries, and what is left out where it cannot run.

The same files run in CPython and inside Pyodide. There, a test module is left out when it imports what Pyodide does not
have (sockets, subprocesses, packages with native code, the rims of detok_py), and the head of the run names it and the reason.
"""

import ast
import importlib.util
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from large_data import data_folder

IN_PYODIDE = sys.platform == "emscripten"
TESTS = Path(__file__).resolve().parent
# Importable there, or made to look so, but of no use without processes, threads and sockets.
NOT_IN_PYODIDE = {"subprocess", "multiprocessing", "threading", "concurrent", "socket", "asyncio", "ssl", "signal", "pty"}
RIMS = ("detok_py.bridge", "detok_py.glyphs", "detok_py.commands", "detok_py.cli")
# The same statements as their neighbours, over far more cases.
TOO_LONG_IN_PYODIDE = ("test_golden_encode.py", "test_one_stop_or_two_of_up_to_three_letters", "test_every_sequence_of_three_bytes")

# Real servers, real engines and brute force: `make check` leaves these files out, so that it stays a loop that one waits for.
SLOW_FILES = {
    *("test_bridge_gate.py", "test_bridge_resume.py", "test_bridge_stream.py", "test_engine_recite.py", "test_engine_replay.py"),
    *("test_glyphs_proxy.py", "test_law_decoders.py", "test_law_segments.py", "test_micropython.py", "test_recite_model.py"),
}

# A shell that runs things in the background lets them ignore Ctrl-C, and what they start as well: here Ctrl-C is what it is at a terminal.
if not IN_PYODIDE and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Never a deadline: other work on the machine would decide whether a test passes.
QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]}
settings.register_profile("check", max_examples=40, **QUIET)
settings.register_profile("test", max_examples=150, **QUIET)
settings.register_profile("soak", max_examples=5000, **QUIET)
settings.load_profile(os.environ.get("DETOK_PROFILE", "check" if IN_PYODIDE else "test"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the large test data; a test that needs it is skipped, and says so, where it is absent."""
    folder = data_folder()
    if folder is None:
        pytest.skip("the large test data is not here (set DETOK_DATA to its folder)")
    return folder


def modules_imported(path: Path) -> set[str]:
    """Return what a test file imports at its top level, as dotted names; `from a import b` gives a and a.b."""
    names = set()
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def reason_to_leave_out(path: Path) -> str | None:
    """Say why a test file cannot run inside Pyodide, or None."""
    if re.search(r"^pytestmark\b.*\bnative\b", path.read_text(encoding="utf-8"), re.MULTILINE):
        return "is marked native"
    for name in sorted(modules_imported(path)):
        top = name.split(".")[0]
        if top in NOT_IN_PYODIDE or name.startswith(RIMS):
            return f"imports {name}"
        if top not in sys.modules and importlib.util.find_spec(top) is None and not (TESTS / f"{top}.py").exists():
            return f"needs the package {top}"
    return None


left_out: list[str] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path == TESTS / "real_uis" and not any("real_uis" in word for word in config.args):
        return True  # other people's chat UIs: `make real-uis` installs and tries them
    if not IN_PYODIDE or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    reason = reason_to_leave_out(collection_path)
    if reason is None:
        return None
    left_out.append(f"{collection_path.relative_to(TESTS)}: {reason}")
    return True


def pytest_report_collectionfinish() -> list[str]:
    return [f"left out inside Pyodide: {line}" for line in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not IN_PYODIDE:
        for item in items:
            if item.path.name in SLOW_FILES:
                item.add_marker(pytest.mark.slow)
        # One test of it takes a minute: where it begins first, several processes end together.
        items.sort(key=lambda item: item.path.name != "test_micropython.py")
    if IN_PYODIDE:
        for item in items:
            if item.get_closest_marker("native"):
                item.add_marker(pytest.mark.skip(reason="needs a CPython with its packages"))
            elif any(name in item.nodeid for name in TOO_LONG_IN_PYODIDE) and "DETOK_EVERYTHING" not in os.environ:
                item.add_marker(pytest.mark.skip(reason="takes minutes in WebAssembly; runs in CPython (DETOK_EVERYTHING=1 runs it here)"))
            elif "gigabytes" in item.name:
                item.add_marker(pytest.mark.skip(reason="files are memory in Pyodide, holes included"))
