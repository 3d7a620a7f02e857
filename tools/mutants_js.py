"""The mutants of the library in JavaScript, made by Stryker: a part of `make mutants`.

In: the copy of the project that tools/mutants.py makes. Out: for each mutant its file, its line
before and after, and whether it lives. Lines are chosen by a hash of a seed and the line; Stryker
makes every mutant of a line. The tests are those of tests/js, in Node.
"""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from toolchain import BUILD, ROOT, SetupFailed

PROGRAM = BUILD / "mutants" / "node_modules" / "@stryker-mutator" / "core" / "bin" / "stryker.js"
# The modules that Node's tests run. Those of a page alone are tested in browsers, which takes long.
FILES = ["chunks", "create-decoder", "detok-stream", "fetch", "graphemes", "messages", "options"]
FILES += ["read-events", "step-table", "tool-calls", "unpack", "vocabulary"]
# Stryker's own global is there from the start: two tests look for new ones.
GLOBAL = "--import=data:text/javascript,globalThis.__stryker__={}"
CODE = re.compile(r"\s*(?!//|/?\*|import\b|export \{)\S.*[\w(]")


def rank(seed: int, *words: object) -> int:
    """Return a number by which places are chosen. It does not depend on the code around a place."""
    return int.from_bytes(hashlib.sha256(repr((seed, *words)).encode()).digest()[:8])


def lines(count: int, seed: int) -> list[str]:
    """Return places for Stryker, `path:first-last`, each of one line of code."""
    found = [
        (rank(seed, name, line), f"web/src/{name}.js:{n}-{n}")
        for name in FILES
        for n, line in enumerate((ROOT / f"web/src/{name}.js").read_text("utf-8").splitlines(), 1)
        if CODE.match(line)
    ]
    return sorted([place for _, place in sorted(found)[:count]])


def mutants(tree: Path, places: list[str]) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the file of each mutant of these places, its line before and after, and whether no test
    of the copy `tree` has noticed it.
    """
    tests = sorted(
        str(path.relative_to(tree)) for path in (tree / "tests" / "js").glob("*.test.mjs")
    )
    report = tree / "stryker.json"
    settings = {
        "testRunner": "command",
        "commandRunner": {"command": " ".join(["node", "--test", *tests])},
        "mutate": places,
        # Sentences in errors are read, not tested letter by letter.
        "mutator": {"excludedMutations": ["StringLiteral"]},
        "ignorePatterns": ["**", "!web/src/**"],
        "inPlace": True,
        "checkers": [],
        "plugins": [],
        "reporters": ["json"],
        "jsonReporter": {"fileName": str(report)},
        "concurrency": 2,
        "timeoutMS": 30_000,
        "allowConsoleColors": False,
        "disableTypeChecks": False,
        "tempDirName": ".build-stryker",
    }
    (tree / "stryker.conf.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        ["node", str(PROGRAM), "run", "stryker.conf.json"],
        cwd=tree,
        env=os.environ | {"NODE_OPTIONS": GLOBAL},
        capture_output=True,
        text=True,
    )
    if not report.exists():
        raise SetupFailed(f"Stryker has made no report: {(done.stdout + done.stderr)[-2000:]}")
    for path, file in sorted(json.loads(report.read_text("utf-8"))["files"].items()):
        source = file["source"].splitlines()
        for mutant in file["mutants"]:
            if mutant["status"] in ("Survived", "Killed", "Timeout"):
                start, end = mutant["location"]["start"], mutant["location"]["end"]
                line = source[start["line"] - 1]
                # Stryker counts columns from 1 in its reports.
                after = line[: start["column"] - 1] + mutant["replacement"]
                after += source[end["line"] - 1][end["column"] - 1 :]
                yield path, line.strip(), after.strip(), mutant["status"] == "Survived"
