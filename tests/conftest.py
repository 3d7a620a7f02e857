"""Shared configuration: the test data, hypothesis profiles, and which tests run where.

The same files run in CPython and inside Pyodide. There, a test module is left out if it imports
something that Pyodide lacks (sockets, subprocesses, packages with native code, folders of detok_py
that don't run there). The start of the run lists the left-out modules with their reasons.
"""

import ast
import functools
import importlib.util
import json
import os
import re
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from large_data import data_folder

IN_PYODIDE = sys.platform == "emscripten"
TESTS = Path(__file__).resolve().parent
# Importable in Pyodide, but useless without processes, threads and sockets.
NOT_IN_PYODIDE = {
    *("subprocess", "multiprocessing", "threading", "concurrent", "socket", "asyncio", "ssl"),
    *("signal", "pty"),
}
# Their tests run in Pyodide in `make test` (tools/checks.py), of each function every third case.
PYODIDE_FOLDERS = ("decode", "protocol", "page")
# Which tests a tier has; `make check`, `test`, `test-all` and `soak` are tiers. "any" is all but
# soak.
TIERS = ("check", "test", "test-all", "soak", "real-uis", "real-engines", "any")
# `make real-uis` and `make real-engines` install what these need, and run them.
INSTALLED_APART = ("real_uis", "real_engines")

# What these say is worked out when they are imported; they hold no tests.
collect_ignore_glob = ["micropython/script_*.py"]

# A shell makes background processes and their children ignore SIGINT. Restore Python's handler, so
# that the tests of Ctrl-C work.
if not IN_PYODIDE and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadlines, because the load of the machine would decide whether a test passes.
QUIET = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile("check", max_examples=15, **QUIET)
settings.register_profile("test", max_examples=25, **QUIET)
settings.register_profile("test-all", max_examples=100, **QUIET)
settings.register_profile("soak", max_examples=2000, **QUIET)
settings.load_profile(os.environ.get("DETOK_PROFILE", "test" if IN_PYODIDE else "test-all"))


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the folder of the large test data; skip the test if it is missing."""
    folder = data_folder()
    if folder is None:
        pytest.skip("the large test data is not here (set DETOK_DATA to its folder)")
    return folder


def modules_imported(path: Path) -> set[str]:
    """Return the top-level imports of a file, dotted; `from a import b` gives a and a.b."""
    names = set()
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def missing(name: str) -> bool:
    """Return whether a package, or a part of detok_py, is neither a module nor an attribute."""
    package, _, part = name.partition(".")
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None:  # a folder of tests is not a package
        return False
    return not part or not hasattr(importlib.import_module(package), part)


@functools.cache
def reason_to_leave_out(path: Path) -> str | None:
    """Return why a test file cannot run inside Pyodide, or None."""
    if re.search(r"^pytestmark\b.*\bnative\b", path.read_text(encoding="utf-8"), re.MULTILINE):
        return "is marked native"
    for name in sorted(modules_imported(path)):
        top = name.split(".")[0]
        if top in NOT_IN_PYODIDE:
            return f"imports {name}"
        if top == "detok_py":
            # The wheel for browsers has the folders that run there (tools/layout.py).
            if missing(".".join(name.split(".")[:2])):
                return f"imports {name}, which does not run in a page"
        elif others := list(TESTS.rglob(f"{top}.py")):
            for other in others:
                if reason := reason_to_leave_out(other):
                    return f"imports {top}, which {reason}"
        elif top not in sys.modules and missing(top):
            return f"needs the package {top}"
    return None


left_out: list[str] = []


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.parent == TESTS and collection_path.name in INSTALLED_APART:
        return not any(collection_path.name in word for word in config.args) or None
    if (
        not IN_PYODIDE
        or collection_path.suffix != ".py"
        or not collection_path.name.startswith("test_")
    ):
        return None
    reason = reason_to_leave_out(collection_path)
    if reason is None:
        return None
    left_out.append(f"{collection_path.relative_to(TESTS)}: {reason}")
    return True


def pytest_report_collectionfinish() -> list[str]:
    return [f"left out inside Pyodide: {line}" for line in left_out]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, help="run the tests of this tier (default: all)")
    parser.addoption(
        "--counts",
        metavar="FILE",
        help="write as JSON how many reports of each kind, and what failed",
    )


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Count for tools/checks.py, which adds up several runs."""
    if file := config.getoption("--counts"):
        stats = terminalreporter.stats
        counts = {kind: len(reports) for kind, reports in stats.items()}
        reports = [*stats.get("failed", ()), *stats.get("error", ())]
        failed = list(dict.fromkeys(report.nodeid for report in reports))
        Path(file).write_text(json.dumps({"counts": counts, "failed": failed}), encoding="utf-8")


def in_tier(tier: str, item: pytest.Item, number: int) -> bool:
    """Return whether a tier has a test; `number` counts the cases of its function from 0.

    `make test` has every n-th case of what is marked `sampled(n)`, and nothing that is marked
    `full`; `make test-all` has the rest. It has once more, as `make soak` has, what is
    property-based, with more examples, or marked `again`. Inside Pyodide, which is a CPython,
    `make test` has every third case of the tests of its folders, `make test-all` the other cases
    and the other folders, and `make soak` the others too; of the laws there is never more than a
    third.
    """
    soak = item.get_closest_marker("soak") is not None
    sampled = item.get_closest_marker("sampled")
    full = item.get_closest_marker("full") is not None or (sampled and number % sampled.args[0])
    law = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if IN_PYODIDE:
        folder = item.path.parent.name
        if number % 3 and (tier == "test" or folder == "laws"):
            return False
        if tier == "test-all" and number % 3 == 0 and folder in PYODIDE_FOLDERS:
            return False
    if IN_PYODIDE:
        tier = {"test-all": "test", "soak": "any"}.get(tier, tier)
    if tier == "soak":
        return bool(soak or law or item.get_closest_marker("again"))
    if soak or tier in ("any", "real-uis", "real-engines"):
        return not soak
    if tier == "test-all":
        return bool(full or law or item.get_closest_marker("again"))
    return not full and (tier == "test" or item.get_closest_marker("slow") is None)


def case_numbers(items: list[pytest.Item]) -> list[int]:
    """Return for each test which case of its function it is, counted from 0 in each browser."""
    seen: dict[object, int] = {}
    numbers = []
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        key = (item.path, getattr(item, "originalname", item.name), params.get("browser_name"))
        numbers.append(seen.get(key, 0))
        seen[key] = numbers[-1] + 1
    return numbers


# A wrapper, as pytest-randomly's is: which cases are sampled does not depend on the order that is
# chosen at random.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    tier = config.getoption("--tier")
    if tier and not any("::" in word for word in config.args):  # a test that is named runs
        kept = [in_tier(tier, *pair) for pair in zip(items, case_numbers(items), strict=True)]
        config.hook.pytest_deselected(
            items=[i for i, keep in zip(items, kept, strict=True) if not keep]
        )
        items[:] = [item for item, keep in zip(items, kept, strict=True) if keep]
    yield
    if not IN_PYODIDE:
        # Each takes a minute in one process: where they begin first, all processes end together.
        long = ("test_micropython.py", "test_packages.py")
        items.sort(key=lambda item: item.path.name not in long)
        return
    for item in items:
        if item.get_closest_marker("native"):
            item.add_marker(pytest.mark.skip(reason="needs a CPython with its packages"))
        elif item.get_closest_marker("slow_in_wasm"):
            item.add_marker(
                pytest.mark.skip(reason="takes minutes in WebAssembly; runs in CPython")
            )
        elif "gigabytes" in item.name:
            item.add_marker(pytest.mark.skip(reason="files are memory in Pyodide, holes included"))
