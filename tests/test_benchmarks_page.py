"""The page of benchmarks: what report.py makes of rows, and that the page names its plots."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from programs import ran

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[1]
# Imports each script, and prints the names of the modules that were not found.
IMPORT_ALL = """
import importlib, pathlib
for path in sorted(pathlib.Path("benchmarks").glob("[a-z]*.py")):
    try:
        importlib.import_module("benchmarks." + path.stem)
    except ModuleNotFoundError as error:
        print(error.name)
"""


def test_every_plot_of_the_page_is_there_and_every_plot_is_shown():
    """`make bench` writes both."""
    shown = set()
    for page in (ROOT / "docs" / "benchmarks.md", ROOT / "README.md"):
        text = page.read_text(encoding="utf-8")
        shown |= {Path(name).name for name in re.findall(r"\((\S+?/bench-[a-z0-9-]+\.svg)\)", text)}
    drawn = {path.name for path in (ROOT / "docs" / "images").glob("bench-*.svg")}
    assert drawn == shown
    assert len(drawn) >= 4


def test_the_plots_are_small_and_name_no_machine():
    for path in (ROOT / "docs" / "images").glob("bench-*.svg"):
        text = path.read_text(encoding="utf-8")
        assert len(text) < 100_000, path.name
        assert "/home/" not in text and str(ROOT) not in text and "<dc:date>" not in text


def test_every_script_of_the_page_is_there_and_has_a_title():
    scripts = importlib.import_module("benchmarks.__main__").SCRIPTS
    for name in scripts:
        assert (ROOT / "benchmarks" / f"{name}.py").is_file(), name
    titles = re.search(
        r"TITLES = {(.+?)}", (ROOT / "benchmarks" / "report.py").read_text("utf-8"), re.DOTALL
    )[1]
    benches = {"streamers": "native", "in_browsers": "browser"}
    for name in scripts.keys() - {"growth"}:
        assert f'"{benches.get(name, name)}":' in titles, name


def test_every_script_finds_the_modules_of_this_repository():
    """In a process of its own, because the tests have more folders to import from. Packages that
    `make peers` installs may be missing.
    """
    done = ran(sys.executable, "-c", IMPORT_ALL)
    assert done.returncode == 0, done.stderr
    missing = set(done.stdout.split())
    own = {path.stem for folder in ("tools", "tests") for path in (ROOT / folder).rglob("*.py")}
    assert not missing & own


def test_rounds_become_medians_with_the_least_and_the_most():
    report = pytest.importorskip("benchmarks.report", reason="matplotlib is for `make bench`")
    rows = [
        {"bench": "bridge", "case": "a", "ours": value, "peer": 9, "peer_name": "b", "unit": "ms"}
        for value in (3, 1, 2)
    ]
    found = report.grouped(rows)["bridge"]["a"]
    assert found == {"detok": ((2, 1, 3), "ms"), "b": ((9, 9, 9), "ms")}
    assert report.told((1234.5, 0.5, 20000)) == "1,234 (0.5–20,000)"
