"""`detok formats`, called through the command line."""

import json
import re
from pathlib import Path

import pytest
from programs import refusal_of
from small_tokenizers import added, byte_level, write

from detok_py.cli import main
from detok_py.commands.formats import FAMILIES
from detok_py.formats.table import FORMATS

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "formats.md"


@pytest.fixture
def spoken(tmp_path):
    write(tmp_path, byte_level(added_tokens=[added("<seed:tool_call>", 300)]))
    return tmp_path


def test_every_format_has_a_line(capsys):
    assert main(["formats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(FORMATS) == sorted(FAMILIES)
    assert main(["formats", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    harmony = next(row for row in rows if row["name"] == "harmony")
    assert harmony["models"] == "gpt-oss"
    assert harmony["types"] == "in the call"


def test_a_call_is_written_with_markers_of_its_format():
    for name, family in FAMILIES.items():
        openers = [call.opener.replace("⟦", "").replace("⟧", "") for call in FORMATS[name].calls]
        openers += [opener for opener, _ in FORMATS[name].blocks] + ["<|channel|>", "<|open|>"]
        assert any(opener in family.call for opener in openers), name


def test_a_file_is_explained(spoken, capsys):
    assert main(["formats", "explain", str(spoken)]) == 0
    out = capsys.readouterr().out
    assert re.search("^name +seed_oss$", out, re.MULTILINE)
    assert re.search("^found by +special tokens: <seed:tool_call>$", out, re.MULTILINE)
    assert re.search("^types +by a schema$", out, re.MULTILINE)
    assert main(["formats", "explain", "--tokenizer", str(spoken), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found_by"] == "special tokens: <seed:tool_call>"


def test_a_file_that_decides_nothing_is_exit_code_1(tmp_path, capsys):
    file = write(tmp_path, byte_level())
    assert main(["formats", "explain", str(file)]) == 1
    assert "neither a chat template nor special tokens decide" in capsys.readouterr().out
    assert main(["formats", "explain", str(file), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"name": None, "found_by": None}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["formats", "explain"], "no tokenizer was given; pass its FILE"),
        (["formats", "explain", "/no/such/file"], "No such file"),
        (["formats", "explain", __file__], "is not a supported tokenizer file"),
        (["formats", "--tokenizer", "x"], "detok formats explain FILE"),
        (["formats", "x.json"], "a file is explained by: detok formats explain x.json"),
    ],
)
def test_bad_input_is_one_sentence(words, says, capsys):
    err = refusal_of(capsys, *words)
    assert says in err
    assert err.count("\n") == 1


def test_the_document_has_the_same_table():
    rows = re.findall(r"^\| `([\w.]+)` +\| (.+?) +\| ", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    told = dict(rows)
    assert told == {name: family.models for name, family in FAMILIES.items()}
