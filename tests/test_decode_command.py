"""`detok decode`: ids and bytes in, text out, as they arrive."""

import os
import subprocess
import sys

import pytest

from detok_py import Vocabulary

pytestmark = pytest.mark.native


@pytest.fixture
def packed(tmp_path):
    file = tmp_path / "small.detok"
    file.write_bytes(Vocabulary.from_bytes([b"caf", b"\xc3", b"\xa9", b"<eos>"], special_ids=[3]).pack())
    return str(file)


def decode(*words, stdin=b""):
    done = subprocess.run([sys.executable, "-m", "detok_py", "decode", *words], input=stdin, capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_ids_on_the_command_line_become_text_with_nothing_added(packed):
    assert decode(packed, "0", "1", "2", "3") == (0, "café", "")


def test_ids_on_stdin_may_be_a_json_array(packed):
    assert decode(packed, stdin=b"[0, 1,\n2]") == (0, "café", "")


def test_special_tokens_show_when_asked_for(packed):
    assert decode("--special", packed, "0", "3") == (0, "caf<eos>", "")


def test_bytes_need_no_tokenizer():
    assert decode("--bytes", stdin="é…".encode()[:-1]) == (0, "é\ufffd", "")


def test_each_piece_comes_as_soon_as_it_is_certain(packed):
    command = [sys.executable, "-m", "detok_py", "decode", packed]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"0 1 ")
        process.stdin.flush()
        assert os.read(process.stdout.fileno(), 100) == b"caf"
        process.stdin.write(b"2 ")
        process.stdin.flush()
        assert os.read(process.stdout.fileno(), 100) == "é".encode()
        process.stdin.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["0", "1", "9"], "id 9 is not in this vocabulary"),
        (["0", "1", "x"], "'x' is no token id"),
    ],
)
def test_what_was_certain_and_what_was_held_comes_before_the_error(packed, words, said):
    code, text, complaint = decode(packed, *words)
    assert (code, text) == (2, "caf\ufffd")
    assert complaint.startswith("detok: ")
    assert said in complaint


def test_without_a_tokenizer_it_asks_for_one():
    code, _, complaint = decode()
    assert code == 2
    assert "which tokenizer?" in complaint
