"""What `make mutants` knows, counts and changes."""

from pathlib import Path

import mutants
import mutants_js
import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.native  # about the files of the repository


def test_each_equivalent_mutant_is_of_a_line_that_is_still_there():
    lines = mutants.KNOWN.read_text("utf-8").splitlines()
    found = [mutants.LINE.fullmatch(line) for line in lines[2:]]
    assert None not in found
    sources = {path: (ROOT / path).read_text("utf-8") for path in {one[1] for one in found}}
    assert [one[0] for one in found if one[2] not in sources[one[1]]] == []


def test_the_closing_line_says_how_many_live():
    counts = {"killed": 97, "equivalent": 20, "alive": 3}
    line, percent = mutants.told(counts)
    assert (line, percent) == ("120 mutants: 97 killed, 20 equivalent, 3 alive (3.0 %)", 3)


def test_annotations_are_not_changed():
    found = mutants.annotations("def f(a: int | None = 1) -> str:\n    b: int = 1 | 2")
    assert sorted(found) == [((1, 9), (1, 19)), ((1, 28), (1, 31)), ((2, 7), (2, 10))]


def test_a_change_of_the_code_leaves_the_choice_of_other_lines_as_it_is(monkeypatch, tmp_path):
    def chosen(source):
        (tmp_path / "web/src/chunks.js").write_text("\n".join(source))
        places = mutants_js.lines(10, 1)
        return {source[int(place.rpartition("-")[2]) - 1] for place in places}

    monkeypatch.setattr(mutants_js, "ROOT", tmp_path)
    monkeypatch.setattr(mutants_js, "FILES", ["chunks"])
    (tmp_path / "web/src").mkdir(parents=True)
    source = [f"f({n});" for n in range(100)]
    assert len(chosen(source) & chosen(["g();", *source])) >= 9


def test_javascript_is_changed_in_lines_of_code():
    places = mutants_js.lines(40, 1)
    assert len(set(places)) == 40
    for place in places:
        path, _, span = place.partition(":")
        line = (ROOT / path).read_text("utf-8").splitlines()[int(span.split("-")[0]) - 1]
        assert not line.lstrip().startswith(("//", "*", "/*", "import ")), line
