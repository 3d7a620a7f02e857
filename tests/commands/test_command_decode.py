"""`detok decode` as a subprocess in a pipe."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detok_py.decode.vocabulary import Vocabulary

pytestmark = pytest.mark.native


def decode(given: bytes, *options: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "detok_py", "decode", *options],
        input=given,
        capture_output=True,
        timeout=60,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "detok_py", "decode", "--stop", "STOP"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def packed(tmp_path: Path) -> str:
    tokens = [b"Hi", b" \xf0\x9f", b"\x98\x80", b"<eos>", b"!"]
    path = tmp_path / "small.detok"
    path.write_bytes(Vocabulary.from_bytes(tokens, special_ids=[3], eos_ids=[3]).pack())
    return str(path)


def test_decodes_bytes() -> None:
    assert decode("né 世界\r\n".encode()) == (0, "né 世界\r\n", "")


def test_an_incomplete_character_at_the_end_is_a_replacement_character() -> None:
    assert decode(b"a\xf0\x9f") == (0, "a\ufffd", "")


def test_the_first_stop_string_ends_the_text() -> None:
    assert decode(b"one END two STOP", "--stop", "STOP", "--stop", "END") == (0, "one ", "")
    assert decode(b"one END two", "--stop", "END", "--include-stop") == (0, "one END", "")


def test_an_incomplete_stop_string_is_text() -> None:
    assert decode(b"one EN", "--stop", "END") == (0, "one EN", "")


@pytest.mark.parametrize(
    ("think", "shown"), [("strip", "Four."), ("only", "2+2"), ("show", "<think>2+2</think>Four.")]
)
def test_think_strips_shows_or_shows_only_reasoning(think: str, shown: str) -> None:
    assert decode(b"<think>2+2</think>Four.", "--think", think) == (0, shown, "")


def test_thinking_starts_inside_reasoning() -> None:
    assert decode(b"2+2</think>Four.", "--think", "strip", "--thinking") == (0, "Four.", "")


ANSWER = b'<think>\nHm\n</think>\n\nHi\n<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'


def test_a_format_gives_calls_as_names_and_arguments() -> None:
    text = decode(ANSWER, "--format", "qwen3_hermes", "--think", "strip")
    assert text == (0, 'Hi\nf {"a": 1}', "")
    code, lines, _ = decode(ANSWER, "--format", "qwen3_hermes", "--json")
    assert (code, [json.loads(line) for line in lines.splitlines()]) == (
        0,
        [
            {"channel": "reasoning", "text": "Hm"},
            {"channel": "content", "text": "Hi"},
            {"channel": "tool_call", "text": "", "call": 0, "name": "f"},
            {"channel": "tool_call", "text": '{"a": 1}', "call": 0},
        ],
    )


def test_decodes_ids_up_to_the_end_of_text(packed: str) -> None:
    assert decode(b"0 1\n2\t4 3 0", "--ids", "--vocabulary", packed) == (0, "Hi 😀!", "")


@pytest.mark.parametrize("ids", [b"0 1 2 4 3 0", b"[0, 1, 2, 4, 3, 0]\n", b"[0,1,\n2,4]"])
def test_the_file_comes_as_in_encode_and_the_ids_as_encode_writes_them(
    packed: str, ids: bytes
) -> None:
    for options in ([packed], ["--ids", packed], ["--tokenizer", packed]):
        assert decode(ids, *options) == (0, "Hi 😀!", "")
    for first in (packed, str(Path(packed).parent)):
        code, _, error = decode(b"", first, "--tokenizer", packed)
        assert (code, "two tokenizers were given" in error) == (2, True)


def test_an_unknown_id_is_an_error_after_the_text_before_it(packed: str) -> None:
    code, text, error = decode(b"0 4 99 0", "--ids", "--tokenizer", packed)
    assert (code, text) == (2, "Hi!")
    assert error.startswith("detok: id 99 is not in this vocabulary")
    assert error.count("\n") == 1


def test_an_invalid_id_is_named(packed: str) -> None:
    code, text, error = decode(b"0 four", "--ids", "--tokenizer", packed)
    assert (code, text) == (2, "Hi")
    assert "'four' is not a token id" in error


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        (["--ids"], "pass its FILE"),
        (["--show-special"], "add the tokenizer's FILE"),
        (["--thinking"], "--think strip"),
        (["--stop", ""], "leave it out"),
        (["--format", "qwen"], "one of apertus"),
        (["--errors", "strict"], "not UTF-8: ff"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_way_out(options: list[str], way_out: str) -> None:
    code, text, error = decode(b"\xff", *options)
    assert (code, text) == (2, "")
    assert way_out in error


def test_text_is_written_when_it_is_certain_and_ctrl_c_writes_held_text(
    running: "subprocess.Popen[bytes]",
) -> None:
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(b"go ST")
    running.stdin.flush()
    assert os.read(running.stdout.fileno(), 100) == b"go "
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=60) == (b"ST", b"")
    assert running.returncode == 130


def test_a_closed_pipe_prints_no_traceback(running: "subprocess.Popen[bytes]") -> None:
    assert running.stdin is not None
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    running.stdin.write(b"anything")
    running.stdin.close()
    assert running.wait(30) == 141
    assert running.stderr.read() == b""


def test_the_input_is_a_file_or_stdin(packed: str, tmp_path: Path) -> None:
    text, ids = tmp_path / "answer.txt", tmp_path / "ids"
    text.write_bytes("né\r\n".encode())
    ids.write_text("0 1 2")
    assert decode(b"", str(text)) == (0, "né\r\n", "")
    assert decode(b"in", "-") == (0, "in", "")
    assert decode(b"", packed, str(ids)) == (0, "Hi 😀", "")
    assert decode(b"", "--tokenizer", packed, str(ids)) == (0, "Hi 😀", "")
    assert decode(b"0 4", packed, "-") == (0, "Hi!", "")


def test_an_input_that_is_not_there_is_named(packed: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing.txt")
    sentence = f"detok: {missing}: No such file or directory.\n"
    assert decode(b"", missing) == (2, "", sentence)
    assert decode(b"", packed, missing) == (2, "", sentence)
    assert decode(b"", str(tmp_path / "nothing.gguf"))[0] == 2


def test_json_has_a_line_for_each_piece() -> None:
    code, out, _ = decode(b"<think>a</think>b", "--json", "--think-open", "<think>")
    assert (code, [json.loads(line) for line in out.splitlines()]) == (
        0,
        [{"channel": "content", "text": "<think>a</think>b"}],
    )
