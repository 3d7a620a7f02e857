"""Change the code in one place at a time, and see whether a test fails: `make mutants`.

In: the files of MUTATED, as they are now, committed or not. cosmic-ray makes the mutants: `--count`
places, and a change of each, chosen by a hash of `--seed` and the line: so most stay the same while
the code changes. Out: each mutant that no test has killed, and how many these are. Those of
tests/equivalent_mutants.txt change nothing that a test could see, and are not counted. Exit code 1
if more than three in a hundred live. Stryker makes those of the library in JavaScript, in an eighth
as many lines (mutants_js.py).

The examples of the file and tests of `make test` run in a copy in .build/mutants/tree, up to the
first that fails. A mutant that lives costs half a minute, one that is killed a few seconds.
"""

import argparse
import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import mutants_js
from toolchain import BUILD, PYTHON, ROOT

TREE = BUILD / "mutants" / "tree"
LIVED = BUILD / "mutants" / "lived.txt"
KNOWN = ROOT / "tests" / "equivalent_mutants.txt"
# Files, and the tests that see a change of them: the quickest first.
MUTATED = {
    "detok_py/decode/*.py": (
        "tests/decode",
        "tests/formats",
        "tests/laws",
        "tests/goldens",
        "tests/page",
    ),
    "detok_py/protocol/*.py": ("tests/protocol", "tests/captures"),
    "detok_py/tokenizers/*.py": ("tests/tokenizers", "tests/formats/test_find.py", "tests/goldens"),
    "detok_py/glyphs/verdict.py": ("tests/glyphs",),
    "detok_py/glyphs/absent.py": ("tests/glyphs",),
}
# Others change nothing (`is` for `==`), or raise TypeError at once (`**` for `+` of texts).
OPERATORS = re.compile(
    r"core/(ReplaceComparisonOperator_((Not)?Eq|[LG]tE?)_((Not)?Eq|[LG]tE?)"
    r"|ReplaceComparisonOperator_(Is_IsNot|IsNot_Is)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_FloorDiv|FloorDiv_Mul|Div_Mul|Mod_FloorDiv"
    r"|LShift_RShift|RShift_LShift|BitAnd_BitOr|BitOr_BitAnd|BitXor_BitOr)"
    r"|ReplaceUnaryOperator_.*|AddNot|Replace(True|False|And|Or|Break|Continue)With.*"
    r"|ExceptionReplacer|NumberReplacer|ZeroIterationForLoop)"
)
LINE = re.compile(r"(\S+): `(.*)` → `(.*)`: .+")
MOST_PERCENT = 3


class Mutant(NamedTuple):
    """A change of a file: its lines as they were and as they are."""

    path: str
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}: `{self.before}` → `{self.after}`"


def annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where annotations begin and end. Changing them does not change the program."""
    found = []
    for node in ast.walk(ast.parse(source)):
        for name in ("annotation", "returns"):
            each = getattr(node, name, None)
            if isinstance(each, ast.expr):
                end = (each.end_lineno or 0, each.end_col_offset or 0)
                found.append(((each.lineno, each.col_offset), end))
    return found


def places(path: str) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Return for each place in a file what can be changed there: (operator, occurrence)."""
    from cosmic_ray.commands.init import _all_work_items

    notes = annotations((ROOT / path).read_text("utf-8"))
    found: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for item in _all_work_items([ROOT / path], {}):
        (change,) = item.mutations
        in_note = any(start <= change.start_pos < end for start, end in notes)
        if not in_note and OPERATORS.fullmatch(change.operator_name):
            found.setdefault(change.start_pos, []).append((change.operator_name, change.occurrence))
    return found


def mutant(path: str, operator: str, occurrence: int) -> Mutant:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (ROOT / path).read_text("utf-8")
    changed = mutate_code(source, get_operator(operator)(), occurrence)
    lines, others = source.splitlines(), changed.splitlines()
    first = next(n for n, line in enumerate(lines) if others[n : n + 1] != [line])
    rest = len(lines) - first - 1
    after = others[first : len(others) - rest]
    return Mutant(path, lines[first].strip(), " ".join(map(str.strip, after)), changed)


def chosen(count: int, seed: int, only: str) -> Iterator[tuple[Mutant, tuple[str, ...]]]:
    """Yield mutants in the order of their hashes, each of another place, with their tests."""
    tests = {
        str(path.relative_to(ROOT)): folders
        for pattern, folders in MUTATED.items()
        for path in sorted(ROOT.glob(pattern))
    }
    found = []
    for path in tests:
        lines = (ROOT / path).read_text("utf-8").splitlines()
        for (row, column), changes in sorted(places(path).items()):
            found.append((mutants_js.rank(seed, path, lines[row - 1], column), path, changes))
    for rank, path, changes in sorted(found)[:count]:
        made = mutant(path, *changes[rank % len(changes)])
        if only in str(made):
            own = f"{tests[path][0]}/test_{Path(path).stem}.py"
            yield made, (path, *((own,) if (ROOT / own).exists() else ()), *tests[path])


def copy_tree() -> None:
    """Make the copy: what git has, with the changes since, and links to what the set-up made."""
    shutil.rmtree(TREE, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (TREE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, TREE / name)
    for name in (".build", "node_modules", ".venv"):
        (TREE / name).symlink_to(ROOT / name)


def passes(tests: tuple[str, ...]) -> bool:
    """Run tests up to the first that fails. A run that takes too long has failed as well."""
    command = [str(PYTHON), "-m", "pytest", "-x", "-q", "--tier=test", "--timeout=60"]
    command += ["--doctest-modules", *tests]
    for plugin in ("cacheprovider", "randomly", "xdist"):
        command += ["-p", f"no:{plugin}"]
    environment = {"DETOK_PROFILE": "check", "DETOK_DATA": str(ROOT.parent / "shared" / "data")}
    if not Path(environment["DETOK_DATA"]).is_dir():
        del environment["DETOK_DATA"]
    try:
        done = subprocess.run(
            command, cwd=TREE, env=environment | os.environ, capture_output=True, timeout=900
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def survives(made: Mutant, tests: tuple[str, ...]) -> bool:
    target = TREE / made.path
    original = target.read_bytes()
    # Python takes a compiled file for that of a source of the same time and size.
    compiled = Path(importlib.util.cache_from_source(str(target)))
    try:
        compiled.unlink(missing_ok=True)
        target.write_text(made.source, encoding="utf-8")
        return passes(tests)
    finally:
        target.write_bytes(original)
        compiled.unlink(missing_ok=True)


def told(counts: dict[str, int]) -> tuple[str, float]:
    """Return the closing line, and how many in a hundred live."""
    seen = counts["killed"] + counts["alive"]
    percent = 100 * counts["alive"] / max(1, seen)
    line = f"{seen + counts['equivalent']} mutants: {counts['killed']} killed, "
    return (
        line + f"{counts['equivalent']} equivalent, {counts['alive']} alive ({percent:.1f} %)",
        percent,
    )


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="how many places are changed")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--only", default="", help="those of them with this in their line")
    parser.add_argument("--minutes", type=float, default=1e9, help="end after this time")
    parser.add_argument("--again", action="store_true", help="those that lived the last time")
    parser.add_argument("--quick", action="store_true", help="only with the tests of the folder")
    options = parser.parse_args(words)
    earlier = LIVED.read_text("utf-8").splitlines() if options.again else None
    known = {
        found.groups()
        for found in map(LINE.fullmatch, KNOWN.read_text("utf-8").splitlines())
        if found
    }
    sys.path += map(str, (BUILD / "mutants" / "venv").glob("lib/python*/site-packages"))
    copy_tree()
    counts, lived, sound = dict.fromkeys(("killed", "equivalent", "alive"), 0), [], set()
    end = time.monotonic() + 60 * options.minutes

    def note(made: Mutant, alive: bool) -> None:
        counts["alive" if alive else "killed"] += 1
        if alive:
            lived.append(str(made))
            print(made, flush=True)
            LIVED.write_text("\n".join(lived) + "\n", encoding="utf-8")

    for made, tests in chosen(options.count, options.seed, options.only):
        if earlier is not None and str(made) not in earlier:
            continue
        if time.monotonic() > end:
            break
        if made[:3] in known:
            counts["equivalent"] += 1
            continue
        if options.quick:
            tests = tuple(one for one in tests if one not in ("tests/laws", "tests/goldens"))
        if tests[-1] not in sound and not passes(tests):
            sys.exit(f"{' '.join(tests)} fail without a change")
        sound.add(tests[-1])
        note(made, survives(made, tests))
    if not options.again:
        places = mutants_js.lines(options.count // 8, options.seed)
        for path, before, after, alive in mutants_js.mutants(
            TREE, [one for one in places if options.only in one]
        ):
            if (path, before, after) in known:
                counts["equivalent"] += 1
            else:
                note(Mutant(path, before, after, ""), alive)
    line, percent = told(counts)
    print(line)
    return int(percent > MOST_PERCENT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
