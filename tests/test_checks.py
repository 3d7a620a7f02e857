"""The last line of `make test`, which continuous integration reads, counts all its runs."""

import json
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


def test_pytest_writes_how_many_reports_are_of_each_kind(tmp_path):
    reporter = SimpleNamespace(stats={"passed": [1, 2], "rerun": [3]})
    file = tmp_path / "counts.json"
    config = SimpleNamespace(getoption=lambda name: str(file))
    conftest.pytest_terminal_summary(reporter, config)
    assert json.loads(file.read_text()) == {"passed": 2, "rerun": 1}
