"""How documents are written: every code name is one of the code, and lines and cells are short."""

import re

import pytest
from documented_names import FOREIGN, code_of, has_name, has_path, names_in
from documents import DOCUMENTS, ROOT, name, prose, spans

pytestmark = pytest.mark.native  # about the files of the repository
# Written by programs, and about other libraries.
GENERATED = {"docs/benchmarks.md", "docs/conformance.md"}
READ = [path for path in DOCUMENTS if name(path) not in GENERATED]


@pytest.mark.parametrize("path", READ, ids=name)
def test_every_code_name_is_one_of_the_code(path):
    found = {each for span in spans(path) for each in names_in(span)}
    assert sorted(each for each in found - FOREIGN if not has_name(each)) == []


@pytest.mark.parametrize("path", READ, ids=name)
def test_a_name_beside_its_file_is_in_that_file(path):
    wrong = []
    for file, member in re.findall(r"`([\w/.-]+\.(?:py|m?js))`, `([\w.#]+)`", prose(path)):
        code = code_of(ROOT / file) if (ROOT / file).exists() else ""
        wrong += [(file, each) for each in re.findall(r"\w+", member) if each not in code]
    assert wrong == []


def test_names_of_others_are_still_in_a_document():
    text = "".join(path.read_text("utf-8") for path in READ)
    assert [each for each in sorted(FOREIGN) if each not in text] == []


def test_a_name_that_is_gone_is_found():
    gone = ("NoSuchEngine", "no_such_name", "--no-such-option", "docs/gone.md", "Detokenizer.gone")
    assert [has_name(each) for each in (*gone, "detok_py.gone", "detok_py.errors.Gone")] == [
        False
    ] * 7
    there = ("Detokenizer.push", "ChatStream", "--engine", "docs/README.md", "detok_py.errors")
    assert all(has_name(each) for each in (*there, "DETOK_TOKEN", "EngineSocket.#drain"))
    assert has_path("detok_py/bridge/engines/<engine>.py")
    assert not has_path("detok_py/bridge/engines/<engine>.js")


# The format and the options of the suite are told in one table each.
LONG_CELLS = {"conformance/README.md"}


@pytest.mark.parametrize("path", READ, ids=name)
def test_lines_are_short_and_cells_hold_phrases(path):
    lines, cells = [], []
    for line in prose(path).splitlines():
        if line.startswith("|"):
            text = re.sub(r"\]\([^)]*\)", "]", line)
            cells += [cell for cell in re.split(r"(?<!\\)\|", text) if len(cell.strip()) > 140]
        elif len(line) > 100 and "](" not in line:
            lines.append(line)
    assert lines == []
    assert cells == [] or name(path) in LONG_CELLS
