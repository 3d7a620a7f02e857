"""Run the checks of a tier, and end with one line that counts them all.

`python tools/checks.py check|test|test-all|soak|real-uis|real-engines`, or the names of single
checks after the tier: `checks.py test chromium`. tests/conftest.py says which tests a tier has. Every check runs even
if an earlier one failed. Browser tests get a pytest process of their own for each browser: after
Playwright's sync API has run in a process, `asyncio.run` does not work there. The last line has the
form of pytest's own closing line, over all its runs, because continuous integration reads it.

A test that fails is run once more, alone, if it is one of few: among thousands of tests with real
browsers, servers and engines a busy machine breaks one now and then. Both runs are printed, and the
closing line counts it as "rerun". It is to be mended: it waits by the clock, or the code has a race.

DETOK_ORDER=random runs the tests of each pytest process in a random order.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[1]
FAILED = ("failed", "error", "errors")
COUNTED = ("failed", "passed", "rerun", "skipped", "deselected", "xfailed", "xpassed", *FAILED[1:])
# So many failed tests of a pytest process are tried once more; when more fail, it is not chance.
FEW = 3


class Outcome(NamedTuple):
    """How a check ended: its exit code, and what pytest's closing lines counted."""

    code: int
    counts: dict[str, int]

    def and_then(self, other: "Outcome") -> "Outcome":
        """Return the outcome of two runs that make one check."""
        words = dict.fromkeys([*self.counts, *other.counts])
        counts = {word: self.counts.get(word, 0) + other.counts.get(word, 0) for word in words}
        return Outcome(self.code or other.code, counts)


# Where the output of a check goes: of checks that run side by side, the others' waits in a file.
sink: ContextVar[IO[bytes]] = ContextVar("sink")


def run(command: list[str], **environment: str) -> Outcome:
    """Run a command and pass on its output as it comes."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=dict(os.environ, **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
    )
    assert process.stdout is not None
    return pass_on(process.stdout, process)


def pass_on(output: IO[bytes], process: subprocess.Popen[bytes]) -> Outcome:
    """Pass on the output of a process, and read the last closing line of pytest in it."""
    closing = ""
    line = b""
    while chunk := output.read(4096):
        sink.get().write(chunk)
        sink.get().flush()
        *ended, line = (line + chunk).split(b"\n")
        for text in ended:
            if re.search(rb"\b(\d+ \w+|no tests ran)[^\n]* in [\d.]+s", text):
                closing = text.decode("utf-8", "replace")
    return Outcome(process.wait(), counts(closing))


def counts(closing: str) -> dict[str, int]:
    """Return the numbers in pytest's closing line.

    >>> counts("== 2 failed, 310 passed, 4 skipped in 12.31s ==")
    {'failed': 2, 'passed': 310, 'skipped': 4}
    """
    return {
        word: int(number) for number, word in re.findall(r"(\d+) (\w+)", closing) if word in COUNTED
    }


def pytest(tier: str, *words: str, **environment: str) -> Outcome:
    command = [sys.executable, "-m", "pytest", "-q", "--continue-on-collection-errors"]
    if os.environ.get("DETOK_ORDER") != "random":
        command += ["-p", "no:randomly"]
    if os.environ.get("CI") or os.environ.get("TERM", "dumb") == "dumb":
        command += ["--color=no"]
    # A test that waits for what never comes is a failure with a name, and not the end of the run.
    if tier != "soak":
        command += ["--timeout=300"]
    # How many examples hypothesis tries (tests/conftest.py).
    environment["DETOK_PROFILE"] = tier if tier in ("check", "test", "soak") else "test-all"
    with tempfile.TemporaryDirectory() as cache:
        command += [f"--tier={tier}", *words, "-o", f"cache_dir={cache}"]
        outcome = run(command, **environment)
        failed = sum(outcome.counts.get(word, 0) for word in FAILED)
        if outcome.code == 1 and tier in ("test", "test-all") and failed <= FEW:
            say("What failed is run once more, alone.")
            once_more = ["--last-failed", "--last-failed-no-failures=none", "-n", "0", "-r", "fEp"]
            again = run([*command, *once_more], **environment)
            first = {word: n for word, n in outcome.counts.items() if word not in FAILED}
            # Exit code 5: nothing was run, so nothing is better.
            if again.code != 5:
                return Outcome(0, {**first, "rerun": failed}).and_then(again)
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
    return Outcome(code, {})


def types(tier: str) -> Outcome:
    python = run([sys.executable, "-m", "mypy"])
    known = ["--incremental", "--tsBuildInfoFile", ".build/cache/tsc.json"]
    script = run(["node", "node_modules/typescript/bin/tsc", "-p", "tsconfig.json", *known])
    return Outcome(python.code or script.code, {})


def unit(tier: str) -> Outcome:
    words = [
        "tests",
        "detok_py",
        "--doctest-modules",
        "--ignore=tests/browser",
        "--ignore=tests/webkit",
    ]
    # On two cores: servers and engines are waited for often enough that a third process finds time.
    return pytest(tier, *words, "-n", "3", "--dist", "worksteal")


def node(tier: str) -> Outcome:
    """Unit tests of the JavaScript modules, in Node's own runner."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.test.mjs"))
    return run(["node", "--test", "--test-reporter=dot", *files])


def pyodide(tier: str) -> Outcome:
    """In two processes: a Pyodide has one thread."""
    # The shared decode path for `make test`; whatever can run there for `make test-all`.
    folders = [f"tests/{name}" for name in ("decode", "protocol", "page", "laws")]
    words = [f"--tier={tier}", *folders] if tier == "test" else ["--tier=any"]
    command = ["node", "tests/pyodide/run.mjs", *words]
    first, second = side_by_side(
        *[functools.partial(run, [*command, f"--part={part}/2"]) for part in (1, 2)]
    )
    return first.and_then(second)


def chromium(tier: str) -> Outcome:
    """What needs no window runs in the headless shell, where there is one; the rest in Chromium."""
    programs, code = installation().result()
    if code:
        return Outcome(code, {})
    if "chromium-shell" not in programs or "DETOK_CHROMIUM" in os.environ:
        return in_browser("chromium", tier)
    most = in_browser(
        "chromium", tier, "-m", "not window", DETOK_CHROMIUM=programs["chromium-shell"]
    )
    rest = in_browser("chromium", tier, "-m", "window", "-n", "0")
    return most.and_then(rest)


def firefox(tier: str) -> Outcome:
    programs, _ = installation().result()
    return in_browser("firefox", tier) if "firefox" in programs else Outcome(0, {})


def webkit(tier: str) -> Outcome:
    run([sys.executable, "tools/browsers.py", "--install", "webkit"])
    return pytest("any", "tests/webkit", "-s")


def in_browser(name: str, tier: str, *words: str, **environment: str) -> Outcome:
    """Chromium, which has most of the tests, in two processes of pytest, beside Firefox in one."""
    folder = "tests/real_uis" if tier == "real-uis" else "tests/browser"
    many = name == "chromium" and tier in ("test", "test-all")
    spread = ["-n", "2", "--dist", "worksteal"] if many else ["-s"]
    return pytest(tier, folder, "--browser", name, *spread, *words, **environment)


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
    return pytest(tier, "tests/real_engines", "-s", "--timeout=900")


CHECKS: dict[str, tuple[str, Callable[[str], Outcome]]] = {
    "lint": ("lint: ruff, Prettier, ESLint", lint),
    "types": ("types: mypy --strict, tsc", types),
    "unit": ("unit tests in CPython, with the examples of the docstrings", unit),
    "node": ("unit tests of the JavaScript, in Node", node),
    "pyodide": ("unit tests inside Pyodide, in Node", pyodide),
    "chromium": ("browser tests in Chromium", chromium),
    "firefox": ("browser tests in Firefox", firefox),
    "webkit": ("browser tests in WebKit", webkit),
    "engines": ("real engines beside their own truth", engines),
}
# The checks of a row run side by side: the browsers' wait more than they work.
TIERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "check": (("lint", "types"), ("unit",)),
    "test": (("lint", "types"), ("unit",), ("node",), ("pyodide",), ("chromium", "firefox")),
    "test-all": (("unit",), ("pyodide",), ("chromium", "firefox"), ("webkit",)),
    "soak": (("unit",), ("chromium",), ("firefox",)),
    "real-uis": (("chromium",), ("firefox",)),
    "real-engines": (("engines",),),
}


def say(text: str) -> None:
    sink.get().write(text.encode() + b"\n")
    sink.get().flush()


def headline(text: str) -> None:
    width = shutil.get_terminal_size().columns
    say("\n" + f" {text} ".center(min(width, 100), "━"))


def timed(tier: str, name: str) -> tuple[Outcome, str]:
    """Run a check; return its outcome and the line that tells it."""
    title, check = CHECKS[name]
    headline(title)
    start = time.monotonic()
    outcome = check(tier)
    told = ", ".join(f"{number} {word}" for word, number in outcome.counts.items())
    took = time.monotonic() - start
    return outcome, f"{'failed' if outcome.code else 'ok':7}{title:62}{took:7.1f} s  {told}"


def main(words: list[str]) -> int:
    tier, names = (words[0], words[1:]) if words else ("", [])
    if tier not in TIERS or any(name not in CHECKS for name in names):
        print(f"usage: checks.py {'|'.join(TIERS)} [{'|'.join(CHECKS)}]", file=sys.stderr)
        return 2
    began = time.monotonic()
    sink.set(sys.stdout.buffer)
    lines, total, failures = [], Outcome(0, {}), 0
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
    if failures and not total.counts.get("failed"):
        # Lint or types failed, and every test passed: the last line must not read as success.
        total.counts["failed"] = failures
    told = ", ".join(f"{total.counts[word]} {word}" for word in COUNTED if word in total.counts)
    say(f"===== {told or 'no tests ran'} in {time.monotonic() - began:.2f}s =====")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
