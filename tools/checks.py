"""Run the checks of a tier, and end with one line that counts them all.

`python tools/checks.py TIER` runs all checks of a tier, `checks.py test chromium` one of them;
`--help` lists both. tests/conftest.py says which tests a tier has. Every check runs even
if an earlier one failed. Browser tests get a pytest process of their own for each browser: after
Playwright's sync API has run in a process, `asyncio.run` does not work there. The last line has the
form of pytest's closing line, and counts all its runs, because continuous integration reads it.

What fails in `make test` and `make test-all` is run once more, alone: among thousands of tests with
real browsers, servers and engines a busy machine breaks one now and then. The closing line counts
it as "rerun". Mend it: it waits by the clock, or the code has a race.

DETOK_ORDER=random runs the tests of each pytest process in a random order.
"""

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[1]
# What pytest counts, in the order in which the closing line has it.
COUNTED = ("failed", "passed", "rerun", "skipped", "deselected", "xfailed", "xpassed", "error")
# If more tests fail, something is broken.
MOST_AGAIN = 20


class Outcome(NamedTuple):
    """How a check ended: its exit code, and how many reports of pytest are of each kind."""

    code: int
    counts: Mapping[str, int] = {}
    failed: Sequence[str] = ()  # ids of tests

    def and_then(self, other: "Outcome") -> "Outcome":
        """Return the outcome of two runs that make one check."""
        return Outcome(self.code or other.code, Counter(self.counts) + Counter(other.counts))

    def but_then(self, again: "Outcome") -> "Outcome":
        """Return the outcome of a run whose failed tests ran once more."""
        counts = Counter(self.counts)
        for kind in ("failed", "error"):
            counts[kind] = again.counts.get(kind, 0)
        counts["passed"] += again.counts.get("passed", 0)
        counts["rerun"] += len(self.failed)
        return Outcome(again.code, counts, again.failed)


# Where the output of a check goes. Of checks that run side by side, all but the first write files.
sink: ContextVar[IO[bytes]] = ContextVar("sink")


def run(command: list[str], **environment: str) -> Outcome:
    """Run a command; what it says goes where the check's output goes."""
    said = {"stdout": sink.get(), "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ, **environment), **said)
    return Outcome(done.returncode)


def counted(command: list[str], **environment: str) -> Outcome:
    """Run a command with the option `--counts` of tests/conftest.py, and read what it counted."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "counts.json")
        code = run([*command, f"--counts={file}"], **environment).code
        return Outcome(code, **json.loads(file.read_text())) if file.exists() else Outcome(code)


def pytest(tier: str, *words: str, spread: Sequence[str] = (), **environment: str) -> Outcome:
    """Run pytest with options and paths; the options in `spread` spread the tests over several
    processes.
    """
    command = [sys.executable, "-m", "pytest", "-q", "--continue-on-collection-errors"]
    command += [f"--tier={tier}", "-p", "no:cacheprovider"]
    if os.environ.get("DETOK_ORDER") != "random":
        command += ["-p", "no:randomly"]
    if os.environ.get("CI") or os.environ.get("TERM", "dumb") == "dumb":
        command += ["--color=no"]
    # A test that waits for what never comes is a failure with a name, and not the end of the run.
    if tier != "soak":
        command += ["--timeout=300"]
    # How many examples hypothesis tries (tests/conftest.py).
    environment["DETOK_PROFILE"] = tier if tier in ("check", "test", "soak") else "test-all"
    outcome = counted([*command, *spread, *words], **environment)
    again = tier in ("test", "test-all") and outcome.code == 1
    if again and 0 < len(outcome.failed) <= MOST_AGAIN:
        say("These failed, and run once more, alone:")
        say("\n".join(outcome.failed))
        command += [word for word in words if word.startswith("-")]
        if any(name.startswith("detok_py") for name in outcome.failed):
            command.append("tests/conftest.py")  # which has the options; examples do not load it
        outcome = outcome.but_then(counted([*command, *outcome.failed], **environment))
    # Exit code 5: this tier has none of these tests.
    return Outcome(0 if outcome.code == 5 else outcome.code, outcome.counts)


T = TypeVar("T")


def side_by_side(*checks: Callable[[], T]) -> list[T]:
    """Run checks at the same time, and pass on their outputs one after another."""

    def held_back(check: Callable[[], T]) -> tuple[T, IO[bytes]]:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it has been passed on
        sink.set(file)
        return check(), file

    with ThreadPoolExecutor(len(checks)) as pool:
        others = [pool.submit(held_back, check) for check in checks[1:]]
        outcomes = [checks[0]()]
        for other in others:
            outcome, file = other.result()
            with file:
                file.seek(0)
                shutil.copyfileobj(file, sink.get())
            outcomes.append(outcome)
    return outcomes


def lint(tier: str) -> Outcome:
    ruff = [sys.executable, "-m", "ruff"]
    # Files that have not changed are not read again.
    cache = ["--cache", "--cache-strategy=content", "--cache-location"]
    prettier = ["node", "node_modules/prettier/bin/prettier.cjs", "--log-level=warn", "--check"]
    commands = [
        [*ruff, "check", "--quiet", "."],
        [*ruff, "format", "--check", "--quiet", "."],
        [*prettier, *cache, ".build/cache/prettier", "."],
        ["node", "node_modules/eslint/bin/eslint.js", *cache, ".build/cache/eslint", "."],
    ]
    code = max(run(command).code for command in commands)
    if code:
        say("`make format` formats; what it leaves is to be mended by hand.")
    return Outcome(code)


def types(tier: str) -> Outcome:
    python = run([sys.executable, "-m", "mypy"])
    known = ["--incremental", "--tsBuildInfoFile", ".build/cache/tsc.json"]
    script = run(["node", "node_modules/typescript/bin/tsc", "-p", "tsconfig.json", *known])
    return Outcome(python.code or script.code)


UNIT = ("tests", "detok_py", "--doctest-modules", "--ignore=tests/browser", "--ignore=tests/webkit")


def collect(tier: str) -> Outcome:
    """Compile the unit tests once; otherwise each process that runs them would."""
    command = [sys.executable, "-m", "pytest", "-qq", "--collect-only", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, f"--tier={tier}", *UNIT], cwd=ROOT, stdout=subprocess.PIPE)
    if done.returncode:
        say(done.stdout.decode())
    return Outcome(done.returncode)


def unit(tier: str) -> Outcome:
    # For two cores: tests wait for servers and engines so often that a third process finds time.
    return pytest(tier, *UNIT, spread=["-n", "3", "--dist", "worksteal"])


def node(tier: str) -> Outcome:
    """Unit tests of the JavaScript modules, in Node's own runner."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.test.mjs"))
    return run(["node", "--test", "--test-concurrency=2", "--test-reporter=dot", *files])


def pyodide(tier: str) -> Outcome:
    """In two processes: a Pyodide has one thread."""
    # The shared decode path for `make test`; all folders for the other tiers.
    folders = [f"tests/{name}" for name in ("decode", "protocol", "page")]
    words = [f"--tier={tier}", *(folders if tier == "test" else [])]
    command = ["node", "tests/pyodide/run.mjs", *words]
    first, second = side_by_side(
        *[functools.partial(counted, [*command, f"--part={part}/2"]) for part in (1, 2)]
    )
    return first.and_then(second)


def chromium(tier: str) -> Outcome:
    """What needs no window runs in the headless shell, where there is one; the rest in Chromium."""
    programs, code = installation().result()
    if code:
        return Outcome(code)
    if "chromium-shell" not in programs or "DETOK_CHROMIUM" in os.environ:
        return in_browser("chromium", tier)
    most = in_browser("chromium", tier, "-m=not window", DETOK_CHROMIUM=programs["chromium-shell"])
    if tier == "test":
        return most  # what needs a window is in `make test-all`
    rest = in_browser("chromium", tier, "-m=window", "-n=0")
    return most.and_then(rest)


def firefox(tier: str) -> Outcome:
    programs, _ = installation().result()
    return in_browser("firefox", tier) if "firefox" in programs else Outcome(0)


def webkit(tier: str) -> Outcome:
    run([sys.executable, "tools/browsers.py", "--install", "webkit"])
    return pytest("any", "tests/webkit", "-s")


def in_browser(name: str, tier: str, *words: str, **environment: str) -> Outcome:
    """Chromium in three or four processes of pytest; beside it Firefox in one or two.

    For two cores: tests wait for browsers two thirds of the time.
    """
    folder = "tests/real_uis" if tier == "real-uis" else "tests/browser"
    several = {
        ("chromium", "test"): 3,
        ("chromium", "test-all"): 4,
        ("firefox", "test-all"): 2,
        ("firefox", "soak"): 2,
    }
    processes = several.get((name, tier))
    spread = ["-n", str(processes), "--dist", "worksteal"] if processes else ["-s"]
    if processes and tier == "soak":
        spread.append("-rP")  # What the tests counted is told at the end.
    return pytest(tier, folder, f"--browser={name}", *words, spread=spread, **environment)


@functools.cache
def installation() -> Future[tuple[dict[str, str], int]]:
    """Begin to install the browsers, and to start each once: the first checks don't wait for it.

    Returns their programs, and 1 if Chromium is missing, without which nothing is tested.
    """

    def work() -> tuple[dict[str, str], int]:
        command = [sys.executable, "tools/browsers.py", "--install", "--launch"]
        told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        print(told.stdout, end="", flush=True)
        lines = [line.partition("\t") for line in told.stdout.splitlines()]
        return {name: program for name, tab, program in lines if tab}, told.returncode

    return ThreadPoolExecutor(1).submit(work)


def engines(tier: str) -> Outcome:
    """vLLM takes a minute to start, and starts several times."""
    return pytest(tier, "tests/real_engines", "-s", "--timeout=1800")


CHECKS: dict[str, tuple[str, Callable[[str], Outcome]]] = {
    "lint": ("lint: ruff, Prettier, ESLint", lint),
    "types": ("types: mypy --strict, tsc", types),
    "collect": ("unit tests: all can be imported", collect),
    "unit": ("unit tests in CPython, with the examples of the docstrings", unit),
    "node": ("unit tests of the JavaScript, in Node", node),
    "pyodide": ("unit tests inside Pyodide, in Node", pyodide),
    "chromium": ("browser tests in Chromium", chromium),
    "firefox": ("browser tests in Firefox", firefox),
    "webkit": ("browser tests in WebKit", webkit),
    "engines": ("real engines beside their own truth", engines),
}
# The checks of a row run side by side: most use one core, and the browsers' wait more than they
# work.
TIERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "check": (("lint", "types"), ("unit",)),
    "test": (
        ("lint", "types", "collect"),
        ("unit", "node", "pyodide"),
        ("chromium", "firefox"),
    ),
    "test-all": (("unit", "webkit"), ("pyodide",), ("chromium", "firefox")),
    "soak": (("unit",), ("pyodide",), ("chromium", "firefox")),
    "real-uis": (("chromium",), ("firefox",)),
    "real-engines": (("engines",),),
}


def say(text: str) -> None:
    sink.get().write(text.encode() + b"\n")
    sink.get().flush()


def headline(text: str) -> None:
    width = shutil.get_terminal_size().columns
    say("\n" + f" {text} ".center(min(width, 100), "━"))


def told(counts: Mapping[str, int]) -> str:
    """Return the counts as pytest writes them.

    >>> told({"passed": 310, "error": 2, "warnings": 1, "failed": 2})
    '2 failed, 310 passed, 2 errors'
    """
    found = [(counts[word], word) for word in COUNTED if counts.get(word)]
    return ", ".join(f"{n} {word}{'s' * (word == 'error' and n > 1)}" for n, word in found)


def timed(tier: str, name: str) -> tuple[Outcome, str]:
    """Run a check; return its outcome and the line that tells it."""
    title, check = CHECKS[name]
    headline(title)
    start = time.monotonic()
    outcome = check(tier)
    took = time.monotonic() - start
    return (
        outcome,
        f"{'failed' if outcome.code else 'ok':7}{title:62}{took:7.1f} s  {told(outcome.counts)}",
    )


def known(name: str) -> str:
    """Return the name of a check. In Python 3.11 `choices` does not allow an empty list."""
    if name not in CHECKS:
        raise argparse.ArgumentTypeError(f"there is no check {name!r}, but {', '.join(CHECKS)}")
    return name


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tier", choices=TIERS)
    parser.add_argument("checks", nargs="*", type=known, metavar="check", help=", ".join(CHECKS))
    tier, names = vars(parser.parse_args(words)).values()
    began = time.monotonic()
    # Hundreds of processes start Python here; without bytecode each compiles what it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".build" / "cache" / "bytecode")
    sink.set(sys.stdout.buffer)
    lines, total, failures = [], Outcome(0), 0
    rows = [(name,) for name in names] or TIERS[tier]
    if any(name in ("chromium", "firefox") for row in rows for name in row):
        installation()
    for row in rows:
        for outcome, line in side_by_side(*[functools.partial(timed, tier, name) for name in row]):
            total = total.and_then(outcome)
            failures += bool(outcome.code)
            lines.append(line)
    headline("what ran")
    say("\n".join(lines))
    counts = dict(total.counts)
    if failures and not counts.get("failed"):
        # Lint or types failed, and every test passed: the last line must not read as success.
        counts["failed"] = failures
    say(f"===== {told(counts) or 'no tests ran'} in {time.monotonic() - began:.2f}s =====")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
