"""The files of the conformance suite: valid, as brute force gives them, and standing alone."""

import json
import re
from pathlib import Path

import jsonschema
import make_conformance
import make_format_cases
import peers
import pytest
from wrong_adapters import WRONG
from wrong_readers import WRONG_READERS

from detok_py.commands.conformance import VERDICTS, cases_of, judge, load_suite
from detok_py.errors import DetokError

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "conformance"
SUITE = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))
FORMATS = json.loads((FOLDER / "formats.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("suite", [SUITE, FORMATS], ids=["cases", "formats"])
def test_the_file_is_valid(suite):
    schema = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(suite)


@pytest.mark.slow
def test_brute_force_gives_what_the_file_says_of_bytes():
    """The quick ones; all of them are computed again in `make test-all`."""
    for case in SUITE["cases"]:
        if case["input"] == "bytes" and len(case["steps"]) < 6 and "options" not in case:
            assert make_conformance.made(case, {}) == case


@pytest.mark.full
def test_brute_force_gives_what_the_file_says():
    found = make_conformance.computed(SUITE)
    assert make_conformance.written(found) == (FOLDER / "cases.json").read_text(encoding="utf-8")


@pytest.mark.full
def test_the_plain_readers_give_what_the_file_says_of_formats():
    found = make_format_cases.computed(FORMATS)
    text = (FOLDER / "formats.json").read_text(encoding="utf-8")
    assert make_format_cases.written(found) == text


def test_a_case_of_a_format_is_told_by_its_pieces(capsys):
    assert make_format_cases.main(["--show", "formats/hermes2_text/half-a-marker"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        '  "Almost" → 6',
        '  " " → 7',
        '  "<" → 7',
        '  {"content": "Almost <"}',
    ]


def test_each_format_has_ten_cases_and_an_id_is_there_once():
    ids = [case["id"] for case in FORMATS["cases"]]
    assert len(ids) == len(set(ids))
    assert {case["since"] for case in FORMATS["cases"]} == {FORMATS["version"]}
    for name in FORMATS["formats"]:
        assert sum(i.startswith(f"formats/{name}/") for i in ids) >= 10


def test_a_case_is_written_with_pieces_and_without_what_comes_out():
    case = {
        "id": "ids/strip/new",
        "since": SUITE["version"],
        "title": "A letter",
        "why": "It is text.",
        "input": "ids",
        "vocabulary": "strip at both ends",
        "prompt": ["c"],
        "options": {"eos": "c", "stop_ids": [["▁", "▁a"]]},
        "steps": [{"do": "push", "in": ["▁a", "b▁"]}, {"do": "push", "in": "c"}, {"do": "flush"}],
    }
    made = make_conformance.made(case, SUITE["vocabularies"])
    assert (made["prompt"], made["options"]) == ([4], {"eos": [4], "stop_ids": [[1, 2]]})
    assert made["steps"] == [
        {"do": "push", "in": [2, 3], "out": " ab"},
        {"do": "push", "in": [4], "out": ""},
        {"do": "flush", "out": ""},
    ]
    assert made["reason"] == "eos"
    shown = make_conformance.told(made, SUITE["vocabularies"]).splitlines()
    assert shown[-3] == '  push ["▁a", "b▁"] → " ab"'


def test_a_published_case_can_not_change():
    assert make_conformance.faults(SUITE) == []
    other = json.loads(json.dumps(SUITE))
    other["cases"][9]["links"] = []  # a link may come later
    other["cases"][9]["superseded_by"] = "bytes/other"
    assert make_conformance.faults(other) == []
    other["cases"][3]["steps"][0]["out"] = "?"
    del other["cases"][next(at for at, c in enumerate(SUITE["cases"]) if c["since"] == "1.1.0")]
    other["cases"].append({**other["cases"][0], "since": "9.0.0"})
    told = "\n".join(make_conformance.faults(other))
    for sentence in (
        "The id bytes/replacement-character-inside is there twice.",
        "is since 9.0.0; a new case is since",
        "The cases of 1.0.0 are not those that were published.",
        "The cases of 1.1.0 are not those that were published.",
    ):
        assert sentence in told
    assert told.count("\n") == 3
    other["vocabularies"]["byte-level"]["decoder"] = None
    assert make_conformance.digest(other, "1.1.0") != make_conformance.digest(SUITE, "1.1.0")


def test_steps_join_to_a_text_and_ids_are_of_the_vocabulary():
    for case in SUITE["cases"]:
        if "vocabulary" not in case:
            continue
        found = SUITE["vocabularies"][case["vocabulary"]]
        size = len(found["model"]["vocab"]) + len(found["added_tokens"])
        ids = [i for step in case["steps"] if step["do"] == "push" for i in step["in"]]
        unknown = [i for i in ids if not 0 <= i < size]
        assert not unknown or case["id"].startswith("life-cycle/"), case["id"]


def test_the_readme_stands_alone_and_names_every_option():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    schema = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
    assert not re.search(r"\]\(\.\./", text)
    for name in schema["$defs"]["options"]["properties"]:
        assert f"`{name}`" in text
    cases = SUITE["cases"] + FORMATS["cases"]
    examples = [json.loads(each) for each in re.findall(r"```json\n(.+?)```", text, re.DOTALL)]
    assert len(examples) == 2
    for example in examples:
        assert example == next(case for case in cases if case["id"] == example["id"])


def passed_by_all(cases, adapters):
    """Return the cases that no adapter fails; each of them must fail one."""
    passed = {case["id"] for case in cases}
    for name, adapter in adapters.items():
        failed = {case["id"] for case in cases if judge(case, adapter).verdict in VERDICTS[1:4]}
        assert failed, f"{name} is right everywhere"
        passed -= failed
    return passed


def test_each_case_fails_a_decoder_that_is_wrong_in_one_way():
    """A case that every decoder passes would be of no use."""
    assert passed_by_all(list(cases_of(SUITE)), WRONG) == set()


@pytest.mark.full
def test_each_case_of_a_format_fails_a_reader_that_is_wrong_in_one_way():
    cases = [case for case in cases_of(load_suite()) if "answer" in case]
    assert passed_by_all(cases, WRONG_READERS) == set()


def test_a_version_has_the_cases_that_were_there():
    suite = load_suite()
    versions = sorted({case["since"] for case in suite["cases"]})
    assert versions[0] == "1.0.0" and versions[-1] == suite["version"] == SUITE["version"]
    assert len(list(cases_of(suite, "1.0.0"))) == 263
    assert len(list(cases_of(suite, "1.1.0"))) == 338
    first, second = SUITE["cases"][0], next(c for c in SUITE["cases"] if c["since"] == "1.2.0")
    assert (first["since"], second["since"]) == ("1.0.0", "1.2.0")
    superseded = {"superseded_by": second["id"], **first}
    suite = {**SUITE, "cases": [superseded, second]}
    assert [case["id"] for case in cases_of(suite)] == [second["id"]]
    assert [case["id"] for case in cases_of(suite, "1.0.0")] == [first["id"]]
    with pytest.raises(DetokError, match="no 3.0.0 yet"):
        list(cases_of(SUITE, "3.0.0"))


def test_the_page_about_other_systems_is_of_this_suite_and_has_a_row_for_each():
    """`make peers` writes it, with the cases of the version that it names."""
    text = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    version, count = re.search(r"version ([\d.]+) of\s.+, (\d+) cases", text).groups()
    assert int(count) == len(list(cases_of(load_suite(), version)))
    rows = re.findall(
        r"^\| (.+) \| (.+) \| (\d+) \|" + r" (\d+|·) \|" * 5 + "$", text, re.MULTILINE
    )
    parsers = len(peers.PARSERS) * len(peers.CHUNKS)
    assert len(rows) >= len(peers.PYTHON + peers.LLAMA) + len(peers.JAVASCRIPT) + parsers
    for _, _, count, *verdicts in rows:
        assert int(count) == sum(int(number.replace("·", "0")) for number in verdicts)
    python = [*(name for name, _ in peers.PYTHON + peers.LLAMA + peers.VLLM), *peers.PARSERS]
    names = [f"{name}.py" for name in python + [*peers.ENGINE_PARSERS, "openai_harmony_parser"]]
    for name in names + [f"{name}.mjs" for name in peers.JAVASCRIPT]:
        assert (FOLDER / "adapters" / name).exists(), name
