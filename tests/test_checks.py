"""The last line of `make test`, which continuous integration reads, counts all its runs."""

import json
import os
import re
from types import SimpleNamespace

import checks
import conftest
import pytest

pytestmark = pytest.mark.native  # about the files of the repository


def last_line(monkeypatch, capfd, *outcomes):
    """Return the exit code and the last line of a tier whose checks end with `outcomes`."""
    found = {f"check {n}": ("title", lambda tier, one=one: one) for n, one in enumerate(outcomes)}
    monkeypatch.setattr(checks, "CHECKS", found)
    monkeypatch.setattr(checks, "TIERS", {"test": tuple((name,) for name in found)})
    code = checks.main(["test"])
    return code, re.sub(r" in [\d.]+s ", " in S s ", capfd.readouterr().out.splitlines()[-1])


def test_counts_of_several_runs_are_added_in_the_form_of_pytest(monkeypatch, capfd):
    first = checks.Outcome(0, {"": 9, "passed": 3, "rerun": 1, "warnings": 2})
    second = checks.Outcome(1, {"passed": 4, "error": 2, "failed": 1, "skipped": 1})
    code, line = last_line(monkeypatch, capfd, first, second)
    assert code == 1
    assert line == "===== 1 failed, 7 passed, 1 rerun, 1 skipped, 2 errors in S s ====="


def test_a_check_that_fails_without_a_test_is_counted(monkeypatch, capfd):
    lint, unit = checks.Outcome(1), checks.Outcome(0, {"passed": 3})
    code, line = last_line(monkeypatch, capfd, lint, unit)
    assert (code, line) == (1, "===== 1 failed, 3 passed in S s =====")
    assert last_line(monkeypatch, capfd, checks.Outcome(0))[1] == "===== no tests ran in S s ====="


def test_pytest_writes_how_many_reports_are_of_each_kind_and_what_failed(tmp_path):
    broken = SimpleNamespace(nodeid="a.py::test[1]")
    reporter = SimpleNamespace(stats={"passed": [1, 2], "failed": [broken]})
    file = tmp_path / "counts.json"
    config = SimpleNamespace(getoption=lambda name: str(file))
    conftest.pytest_terminal_summary(reporter, config)
    counts = {"passed": 2, "failed": 1}
    assert json.loads(file.read_text()) == {"counts": counts, "failed": ["a.py::test[1]"]}


ONCE = """
import pathlib, pytest
@pytest.mark.parametrize("name", ["é [1]::x y", "steady"])
def test_it(name, worker_id):
    mark = pathlib.Path(__file__).with_suffix(".ran")
    first = not mark.exists()
    mark.touch()
    assert name == "steady" or PASSES
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        ("not first and worker_id == 'master'", (0, {"passed": 2, "rerun": 1})),
        ("False", (1, {"failed": 1, "passed": 1, "rerun": 1})),
    ],
)
def test_what_failed_runs_once_more_alone(monkeypatch, tmp_path, passes, expected):
    """In one process, after all others: a busy machine cannot break it again."""
    (tmp_path / "test_once.py").write_text(ONCE.replace("PASSES", passes), encoding="utf-8")
    words = ["-pconftest", "--rootdir=.", f"--config-file={checks.ROOT}/pyproject.toml"]
    folders = os.pathsep.join(str(checks.ROOT / name) for name in ("tests", "tools"))
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    with open(tmp_path / "output", "w+b") as output:
        checks.sink.set(output)
        outcome = checks.pytest(
            "test", "test_once.py", *words, spread=["-n", "1"], PYTHONPATH=folders
        )
        output.seek(0)
        said = output.read().decode()
    assert "These failed, and run once more, alone:" in said, said
    counts = {kind: outcome.counts[kind] for kind in checks.COUNTED if outcome.counts.get(kind)}
    assert (outcome.code, counts) == expected, said
