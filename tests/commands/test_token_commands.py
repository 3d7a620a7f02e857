"""`detok encode`, `detok tokens` and `detok pack`, called through the command line."""

import io
import json
from pathlib import Path

import pytest
from programs import refusal_of
from small_tokenizers import LETTERS, bpe_model, byte_level, rank_file, rank_tokens, write

from detok_py import Vocabulary
from detok_py.cli import main
from detok_py.tokenizers import load_tokenizer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path, byte_level())


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def out_of(capsys, *words):
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_encode_writes_ids(file, capsys):
    tokenizer = load_tokenizer(file)
    ids = tokenizer.encode("the cat<|end|>")
    assert out_of(capsys, "encode", file, "the cat<|end|>") == " ".join(map(str, ids)) + "\n"
    assert json.loads(out_of(capsys, "encode", file, "the cat<|end|>", "--json")) == ids
    assert json.loads(
        out_of(capsys, "encode", file, "the<|end|>", "--json", "--no-parse-special")
    ) == tokenizer.encode("the<|end|>", parse_special=False)


def test_every_command_takes_the_file_by_place_or_by_name(file, tmp_path, capsys):
    by_place = out_of(capsys, "encode", file, "the cat")
    for name in ("--tokenizer", "--vocabulary"):
        assert out_of(capsys, "encode", name, file, "the cat") == by_place
        assert out_of(capsys, "encode", "the cat", name, file) == by_place
        assert out_of(capsys, "tokens", name, file) == out_of(capsys, "tokens", file)
        out_of(capsys, "pack", name, file, "-o", tmp_path / (name + ".detok"))
        assert "two tokenizers were given" in refusal_of(capsys, "pack", file, name, file)
    for command in ("encode", "tokens", "pack"):
        assert "pass its FILE" in refusal_of(capsys, command)


def test_every_command_takes_a_model_file(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "Llama-2"
    folder.mkdir()
    file = folder / "tokenizer.model"
    file.write_bytes(bpe_model())
    ids = out_of(capsys, "encode", file, "the cat")
    assert ids == "261 260\n"
    assert "▁the" not in out_of(capsys, "tokens", file, "the cat")
    (tmp_path / "ids.txt").write_text(ids)
    assert main(["decode", str(file), str(tmp_path / "ids.txt")]) == 0
    monkeypatch.chdir(tmp_path)
    out_of(capsys, "pack", file)
    assert Vocabulary.unpack((tmp_path / "Llama-2.detok").read_bytes()).token_bytes(261) == b" the"


def test_a_pattern_and_special_tokens_are_given_for_a_tiktoken_file(tmp_path, capsys):
    file = tmp_path / "mine.tiktoken"
    file.write_bytes(rank_file())
    size = len(rank_tokens())
    words = ["encode", file, "a<x=1>", "--pattern", ".", "--special-token", f"<x=1>={size}"]
    assert out_of(capsys, *words) == f"97 {size}\n"
    words = ["encode", file, "a", "--pattern", ".", "--special-token"]
    assert "takes NAME=ID" in refusal_of(capsys, *words, "<x>")
    assert "half a surrogate pair" in refusal_of(capsys, *words, "\udcff=300")


def test_options_of_tiktoken_files_are_refused_with_another_file(file, tmp_path, capsys):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[UNK]\na\n")
    packed = tmp_path / "my.detok"
    out_of(capsys, "pack", file, "-o", packed)
    for option, value in (("--encoding", "no"), ("--pattern", "."), ("--special-token", "<x>=1")):
        for words in (["encode", file], ["tokens", vocabulary], ["decode", packed], ["pack", file]):
            said = refusal_of(capsys, *words, option, value)
            assert f"{words[1].name} has its own encoding; leave out {option}, only for" in said
        said = refusal_of(capsys, "decode", option, value)
        assert f"{option}: only for token ids; add the tokenizer's FILE" in said


def test_an_unknown_encoding_is_refused_by_the_options_name(tmp_path, capsys):
    file = tmp_path / "mine.tiktoken"
    file.write_bytes(rank_file())
    for more in ([], ["--pattern", "."]):
        said = refusal_of(capsys, "encode", file, "a", "--encoding", "cl100k", *more)
        assert "--encoding 'cl100k' is not known; give one of cl100k_base, " in said


def test_encode_reads_all_of_stdin_unchanged(file, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", Stdin(" é\r\n".encode()))
    assert json.loads(out_of(capsys, "encode", file, "--json")) == load_tokenizer(file).encode(
        " é\r\n"
    )
    monkeypatch.setattr("sys.stdin", Stdin(b"a\xff"))
    assert "0xff at offset 1" in refusal_of(capsys, "encode", file)


def test_tokens_shows_where_a_character_is_split(file, capsys):
    rows = [
        json.loads(line) for line in out_of(capsys, "tokens", file, "a😀", "--json").splitlines()
    ]
    assert [row["id"] for row in rows] == load_tokenizer(file).encode("a😀")
    assert bytes.fromhex("".join(row["hex"] for row in rows)).decode() == "a😀"
    assert rows[0] == {
        "id": LETTERS.index("a"),
        "hex": "61",
        "whole": True,
        "text": "a",
        "special": False,
        "eos": False,
        "format": None,
    }
    assert not rows[1]["whole"]
    assert rows[1]["text"].startswith("\\xf0")


def test_tokens_of_a_vocabulary_can_be_filtered(file, capsys):
    assert len(out_of(capsys, "tokens", file).splitlines()) == len(load_tokenizer(file).vocabulary)
    assert [
        line.split()[-4:] for line in out_of(capsys, "tokens", file, "--special").splitlines()
    ] == [["special", "end", "of", "text"]]
    every = [json.loads(line) for line in out_of(capsys, "tokens", file, "--json").splitlines()]
    split = out_of(capsys, "tokens", file, "--split").splitlines()
    assert len(split) == sum(not token["whole"] for token in every) > 0
    assert all(" part " in line for line in split)
    assert "'\\n'" in out_of(capsys, "tokens", file, "--ids", 10)


def test_missing_ids_are_not_listed_and_are_an_error_if_requested(tmp_path, capsys):
    ranks = tmp_path / "gpt2.tiktoken"
    ranks.write_bytes(rank_file())
    assert len(out_of(capsys, "tokens", ranks).splitlines()) == rank_file().count(b"\n") + 1
    assert "40000" in refusal_of(capsys, "tokens", ranks, "--ids", "40000")
    assert "not both" in refusal_of(capsys, "tokens", ranks, "a", "--ids", "1")


def test_pack_writes_a_vocabulary_that_unpacks_to_the_same_tokens(
    file, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    said = out_of(capsys, "pack", file)
    packed = tmp_path / (tmp_path.name + ".detok")  # a tokenizer.json is named after its folder
    vocabulary = load_tokenizer(file).vocabulary
    assert vocabulary.sha256 in said
    assert str(len(packed.read_bytes())) in said
    assert Vocabulary.unpack(packed.read_bytes()).sha256 == vocabulary.sha256
    assert "special" in out_of(capsys, "tokens", packed, "--ids", 278)
    assert sorted(path.name for path in tmp_path.iterdir()) == [packed.name, "tokenizer.json"]


def test_pack_overwrites_only_with_force(file, tmp_path, capsys):
    target = tmp_path / "v.detok"
    target.write_bytes(b"precious")
    assert "--force" in refusal_of(capsys, "pack", file, "-o", target)
    assert target.read_bytes() == b"precious"
    out_of(capsys, "pack", file, "-o", target, "--force")
    assert target.read_bytes()[:5] == b"detok"


def test_pack_names_the_file_that_cannot_be_written(file, tmp_path, capsys):
    output = tmp_path / "nowhere" / "v.detok"
    sentence = f"detok: {output} cannot be written: its folder does not exist\n"
    assert refusal_of(capsys, "pack", file, "-o", output) == sentence
    folder = tmp_path / "v.detok"
    folder.mkdir()
    sentence = f"detok: {folder} cannot be written: Is a directory\n"
    assert refusal_of(capsys, "pack", file, "-o", folder, "--force") == sentence


def test_a_packed_vocabulary_cannot_encode(file, tmp_path, capsys):
    packed = str(tmp_path / "v.detok")
    out_of(capsys, "pack", file, "-o", packed)
    assert "can't encode" in refusal_of(capsys, "tokens", packed, "text")
    for words in (["encode", packed, "a"], ["pack", packed], ["formats", "explain", packed]):
        assert "can only be decoded; give the tokenizer's own file" in refusal_of(capsys, *words)


@pytest.mark.parametrize(
    ("words", "takes"),
    [
        (["encode"], False),
        (["pack"], False),
        (["formats", "explain"], False),
        (["tokens"], True),
        (["decode", "--ids"], True),
    ],
)
def test_a_command_offers_packed_vocabularies_if_it_takes_them(words, takes, capsys):
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert ("or *.detok" in " ".join(capsys.readouterr().out.split())) == takes
    assert ("or *.detok" in refusal_of(capsys, *words)) == takes


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_long_wait_at_a_terminal_draws_a_bar_and_erases_it(monkeypatch):
    import time

    from detok_py.commands import progress

    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "FRAME", 0.01)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.waiting("reading x"):
        end = time.monotonic() + 60
        while "reading x" not in terminal.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    assert "====" in terminal.getvalue()
    assert terminal.getvalue().endswith("\033[K")


def test_no_bar_is_drawn_without_a_terminal_or_for_a_short_wait(monkeypatch):
    from detok_py.commands import progress

    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setattr("sys.stderr", stream)
        with progress.waiting("reading x"):
            pass
        assert stream.getvalue() == ""


def test_tokens_that_are_markers_of_the_chat_format_are_named(tmp_path, capsys):
    added = [{"id": 1, "content": "<seed:tool_call>", "special": False}]
    model = {"type": "WordLevel", "vocab": {"Hi": 0}, "unk_token": "Hi"}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"model": model, "added_tokens": added}))
    hi, marker = out_of(capsys, "tokens", file).splitlines()
    assert "marker" not in hi
    assert marker.endswith("marker of seed_oss")
    packed = tmp_path / "v.detok"
    out_of(capsys, "pack", file, "-o", packed)
    assert (
        json.loads(out_of(capsys, "tokens", packed, "--ids", "1", "--json"))["format"] == "seed_oss"
    )
