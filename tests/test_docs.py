"""The documents: their Python examples give the shown output, and their links have targets."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.native  # about the files of the repository
DOCUMENTS = [
    path
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))
    if path.exists()
]


def name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_the_examples_give_the_shown_output(path):
    # The closing fence would read as expected output.
    text = re.sub(r"^```.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, name(path), str(path), 0)
    output = []
    failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=output.append).failed
    assert not failed, "".join(output)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_within_the_repository_have_targets(path):
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if not (path.parent / link).exists()]
    assert missing == []
