"""Run the checks one after another, each under a headline, and end with one line that counts them all.

`python tools/checks.py all` or some of: lint types unit node pyodide chromium firefox real-chromium real-firefox soak soak-chromium
soak-firefox.
`--quick` leaves out what is marked slow. Every check runs even when an earlier one failed: a person wants to see all that is wrong. Browser
tests get a pytest process of their own for each browser, because after Playwright's sync API has run in a process, `asyncio.run` does not
work there. The last line has the form of pytest's own closing line, over all its runs, because that is what continuous integration reads.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PYTEST = [sys.executable, "-m", "pytest", "-q", "--continue-on-collection-errors"]
IN_PYODIDE = ["node", "tests/pyodide/run.mjs"]
COUNTED = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "error", "errors")


class Outcome(NamedTuple):
    """How a check ended: its exit code, and what pytest's closing line counted."""

    code: int
    counts: dict[str, int]


def run(command: list[str], environment: dict[str, str] | None = None) -> Outcome:
    """Run a command and pass on what it prints as it comes."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=dict(os.environ, **(environment or {})), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
    )
    assert process.stdout is not None
    return passed_on(process.stdout, process)


def passed_on(output: IO[bytes], process: subprocess.Popen[bytes]) -> Outcome:
    """Pass on what a command prints, or has printed, and read the last pytest closing line in it."""
    closing = ""
    line = b""
    while chunk := output.read(4096):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        *ended, line = (line + chunk).split(b"\n")
        for text in ended:
            if re.search(rb"\b(\d+ \w+|no tests ran)[^\n]* in [\d.]+s", text):
                closing = text.decode("utf-8", "replace")
    return Outcome(process.wait(), counts(closing))


def both(first: Outcome, second: Outcome) -> Outcome:
    """Return one outcome for two runs that share one check. What its marks leave out, each of them has left out."""
    words = [*first.counts, *(word for word in second.counts if word not in first.counts)]
    told = {word: first.counts.get(word, 0) + (second.counts.get(word, 0) if word != "deselected" else 0) for word in words}
    return Outcome(first.code or second.code, told)


def counts(closing: str) -> dict[str, int]:
    """Return what pytest's closing line counts.

    >>> counts("== 2 failed, 310 passed, 4 skipped in 12.31s ==")
    {'failed': 2, 'passed': 310, 'skipped': 4}
    """
    return {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", closing) if word in COUNTED}


def lint(quick: bool) -> Outcome:
    return run([sys.executable, "-m", "ruff", "check", "--quiet", "."])


def types(quick: bool) -> Outcome:
    python = run([sys.executable, "-m", "mypy"])
    if not list((ROOT / "web" / "src").glob("*.js")):
        return python
    script = run(["node", "node_modules/typescript/bin/tsc", "-p", "tsconfig.json"])
    if not script.code:
        print("tsc: no issues found in web/src", flush=True)
    return Outcome(python.code or script.code, {})


def unit(quick: bool) -> Outcome:
    marks = "not soak and not slow" if quick else "not soak"
    command = [*PYTEST, "tests", "detok_py", "--doctest-modules", "--ignore=tests/browser", "--ignore=tests/pyodide", "-m", marks]
    # On two cores: servers and engines are waited for often enough that a third process finds time.
    command += ["-n", "3", "--dist", "worksteal"]
    return run(command, {"DETOK_PROFILE": "check"} if quick else None)


def node(quick: bool) -> Outcome:
    """Unit tests of the JavaScript modules, in Node's own runner."""
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.test.mjs"))
    if not files:
        print("no *.test.mjs in tests/", flush=True)
        return Outcome(0, {})
    return run(["node", "--test", "--test-reporter=dot", *files])


def pyodide(quick: bool) -> Outcome:
    """In two processes as well: one Pyodide has one thread."""
    with tempfile.TemporaryFile() as later, subprocess.Popen([*IN_PYODIDE, "--part=2/2"], cwd=ROOT, stdout=later, stderr=later) as second:
        first = run([*IN_PYODIDE, "--part=1/2"])
        second.wait()
        later.seek(0)
        return both(first, passed_on(later, second))


# A browser has processes of its own. The one of these two pytests that is done first takes tests of the other.
IN_TWO = ("tests/browser", "-n", "2", "--dist", "worksteal")


def chromium(quick: bool) -> Outcome:
    """What needs no window in Chromium's headless shell, where there is one: a page in it costs a quarter less. The rest in Chromium."""
    programs, code = found("chromium", *(() if "DETOK_CHROMIUM" in os.environ else ("chromium-shell",)))
    if code:
        return Outcome(code, {})
    if "chromium-shell" not in programs:
        return in_browser("chromium", *IN_TWO, "-m", "not soak")
    most = in_browser("chromium", *IN_TWO, "-m", "not soak and not window", DETOK_CHROMIUM=programs["chromium-shell"])
    rest = in_browser("chromium", "tests/browser", "-m", "not soak and window")
    rest.counts.pop("deselected", None)  # all that ran before
    return both(most, rest)


def browser(name: str, *words: str, **environment: str) -> Callable[[bool], Outcome]:
    """Return a check that runs pytest with these words in an installed browser."""

    def check(quick: bool) -> Outcome:
        programs, code = found(name)
        return in_browser(name, *words, **environment) if programs else Outcome(code, {})

    return check


def found(*names: str) -> tuple[dict[str, str], int]:
    """Return the programs of browsers, installed where that is possible, and 1 if one that has to be there is not."""
    told = subprocess.run([sys.executable, "tools/browsers.py", "--install", *names], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    print(told.stdout, end="", flush=True)
    return {name: program for name, tab, program in (line.partition("\t") for line in told.stdout.splitlines()) if tab}, told.returncode


def in_browser(name: str, *words: str, **environment: str) -> Outcome:
    outcome = run([*PYTEST, *words, "--browser", name], {"DETOK_PROFILE": "test", **environment})
    # Exit code 5: every test was meant for the other browser.
    return Outcome(0 if outcome.code == 5 else outcome.code, outcome.counts)


def soak(quick: bool) -> Outcome:
    command = [*PYTEST, "tests", "--ignore=tests/browser", "--ignore=tests/pyodide"]
    return run(command, {"DETOK_PROFILE": "soak"})


CHECKS: dict[str, tuple[str, Callable[[bool], Outcome]]] = {
    "lint": ("lint: ruff", lint),
    "types": ("types: mypy --strict, tsc", types),
    "unit": ("unit tests in CPython, with the examples of the docstrings", unit),
    "node": ("unit tests of the JavaScript, in Node", node),
    "pyodide": ("unit tests inside Pyodide, in Node", pyodide),
    "chromium": ("browser tests in Chromium", chromium),
    "firefox": ("browser tests in Firefox", browser("firefox", *IN_TWO, "-m", "not soak")),
    "real-chromium": ("other people's chat UIs in Chromium", browser("chromium", "tests/real_uis")),
    "real-firefox": ("other people's chat UIs in Firefox", browser("firefox", "tests/real_uis")),
    "soak": ("soak: the exhaustive and the endless", soak),
    "soak-chromium": (
        "soak: broken glyphs 100 times, a million tokens in a page",
        browser("chromium", "tests/browser", "-m", "soak", "-s", DETOK_PROFILE="soak"),
    ),
    "soak-firefox": (
        "soak: what Firefox does not do every day",
        browser("firefox", "tests/browser", "-m", "soak", "-s", DETOK_PROFILE="soak"),
    ),
}
ALL = ("lint", "types", "unit", "node", "pyodide", "chromium", "firefox")


def headline(text: str) -> None:
    width = shutil.get_terminal_size().columns
    print("\n" + f" {text} ".center(min(width, 100), "━"), flush=True)


def main(words: list[str]) -> int:
    quick = "--quick" in words
    names = [name for word in words if not word.startswith("-") for name in (ALL if word == "all" else (word,))]
    if not names or any(name not in CHECKS for name in names):
        print(f"usage: checks.py [--quick] all|{'|'.join(CHECKS)}", file=sys.stderr)
        return 2
    began = time.monotonic()
    lines, total, failed = [], dict[str, int](), False
    for name in names:
        title, check = CHECKS[name]
        headline(title)
        start = time.monotonic()
        outcome = check(quick)
        for word, number in outcome.counts.items():
            total[word] = total.get(word, 0) + number
        failed = failed or outcome.code != 0
        told = ", ".join(f"{number} {word}" for word, number in outcome.counts.items())
        lines.append(f"{'failed' if outcome.code else 'ok':7}{title:62}{time.monotonic() - start:7.1f} s  {told}")
    headline("what ran")
    print("\n".join(lines))
    if failed and not total.get("failed"):
        # Lint or types failed, and every test passed: the last line must not read as success.
        total = {"failed": sum(line.startswith("failed") for line in lines), **total}
    told = ", ".join(f"{total[word]} {word}" for word in COUNTED if word in total) or "no tests ran"
    print(f"===== {told} in {time.monotonic() - began:.2f}s =====", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
