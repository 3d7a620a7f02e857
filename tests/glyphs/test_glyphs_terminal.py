"""`detok check --pty`: programs that chat in a terminal, and the model of its screen."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler

import pytest
from local_server import local_server

from detok_py.cli import main
from detok_py.glyphs.terminal_screen import COLUMNS, TerminalWatch

pytestmark = [pytest.mark.native, pytest.mark.skipif(os.name != "posix", reason="no terminals")]

TRUE_TEXT = "Grüße aus 東京 👩🏽‍🚀 และไทยที่นี่ हिन्दी 𠮷野家で会いましょう"
HEAD = f"""
import codecs, os, sys, time, tty
ANSWER = {TRUE_TEXT!r}
pieces = [bytes([byte]) for byte in ANSWER.encode()]
def show(text):
    os.write(1, text.encode())
    time.sleep(0.002)
def wait_until_seen():
    tty.setcbreak(0)
    os.write(1, b"\\x1b[6n")  # the terminal answers when it has drawn what came before
    while os.read(0, 1) != b"R": pass
def decoded_alone():
    for piece in pieces: show(piece.decode("utf-8", "replace"))
def decoded_as_a_stream():
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in pieces: show(decoder.decode(piece))
"""
CHAT = "while line := input('you> '):\n    %s\n    print()\n"


@pytest.fixture
def check(capsys):
    """Run `detok check … --pty` on a program in Python: its exit code, and its verdict or error."""

    def run(program, *words):
        command = [sys.executable, "-c", HEAD + program]
        code = main(["check", *words, "--json", "-", "--quiet", "200", "--pty", "--", *command])
        said = capsys.readouterr()
        return code, json.loads(said.out) if said.out else said.err

    return run


def ids(entries):
    return {one["id"] for one in entries}


def test_a_program_that_decodes_each_piece_alone_fails(check):
    code, result = check("decoded_alone()")
    assert (code, ids(result["violations"])) == (1, {"ufffd-persistent"})
    first = result["violations"][0]
    assert first["target"] == ["line 1"] and first["text"].startswith("Gr\ufffd")


def test_a_program_that_keeps_its_decoder_passes(check, tmp_path):
    true_text = tmp_path / "true.txt"
    true_text.write_text(TRUE_TEXT, encoding="utf-8")
    code, result = check("decoded_as_a_stream()", "--text", str(true_text))
    assert (code, result["violations"], result["incomplete"]) == (0, [], [])
    passes = ids(result["passes"])
    assert {"ufffd-painted", "dropped-text", "format-markup"} <= passes
    assert not passes & {"ufffd-canvas", "lone-surrogate"}  # a terminal has none


def test_a_finding_quotes_the_text_without_the_empty_rest_of_the_screen(check):
    _, result = check("show('CafÃ© naÃ¯ve')")
    assert [one["text"] for one in result["violations"]] == ["CafÃ© naÃ¯ve"]


def test_a_glyph_that_is_corrected_was_shown(check):
    code, result = check("show('Gr\\ufffd'); wait_until_seen(); time.sleep(0.1); show('\\büße')")
    assert (code, ids(result["violations"])) == (1, {"ufffd-painted"})
    assert result["violations"][0]["cleared_ms"] >= 90


CLEARED = "'\\r\\x1b[2K\\x1b[A\\x1b[2K\\r'"


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        ("show(ANSWER.replace('京', ''))", "dropped-text"),
        (
            f"show(ANSWER + ' wrong words'); wait_until_seen(); show({CLEARED} + ANSWER)",
            "taken-back",
        ),
        ("show(ANSWER + '<|im_end|>')", "format-markup"),
    ],
    ids=lambda value: value if value[0] != "s" else "",
)
def test_each_fault_of_a_text_has_its_rule(check, tmp_path, program, rule):
    true_text = tmp_path / "true.txt"
    true_text.write_text(TRUE_TEXT, encoding="utf-8")
    code, result = check(program, "--text", str(true_text))
    assert (code, ids(result["violations"])) == (1, {rule})


def test_a_text_that_was_read_in_another_encoding_is_found_without_the_true_text(check):
    code, result = check("show('Grüße aus Österreich, mañana'.encode().decode('cp1252'))")
    assert (code, ids(result["violations"])) == (1, {"latin1-mojibake"})


@pytest.mark.parametrize("decode", ["decoded_alone()", "decoded_as_a_stream()"])
def test_a_chat_that_waits_for_the_next_prompt_is_asked_and_judged(check, decode):
    code, result = check(CHAT % decode, "--prompt", "hello 漢字")
    assert code == ("alone" in decode)
    assert "not-settled" not in ids(result["incomplete"])


class Engine(BaseHTTPRequestHandler):
    """Streams the true text as server-sent events, a character at a time."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for character in TRUE_TEXT:
            delta = {"choices": [{"delta": {"content": character}}]}
            self.wfile.write(f"data: {json.dumps(delta)}\n\n".encode())
        self.wfile.flush()


READ = """
import json, urllib.request
whole = ""
for line in urllib.request.urlopen({url!r}):
    if line.startswith(b"data: "):
        whole += json.loads(line[6:])["choices"][0]["delta"]["content"]
{then}
"""


def test_text_that_is_dropped_or_late_is_found_by_the_proxy(check):
    def checked(then, late):
        program = READ.format(url=f"{server.url}/", then=then)
        code, result = check(program, "--split", "none", "--max-late", late)
        return code, ids(result["violations"]), result

    with local_server(Engine) as server:
        code, broken, result = checked("show(whole)", "60000")
        assert (code, broken) == (0, set())
        assert {"dropped-text", "held-too-long"} <= ids(result["passes"])
        assert [one["finished"] for one in result["streams"]] == [True]
        late = checked("time.sleep(0.8); show(whole)", "400")
        assert late[:2] == (1, {"held-too-long"})
        assert checked("show(whole[:-9])", "60000")[:2] == (1, {"dropped-text"})


# --- what could not run ---------------------------------------------------------------------------
def test_a_program_that_fails_is_no_verdict(check):
    code, said = check("show('no key'); sys.exit(3)")
    assert code == 2 and said.endswith("ended with exit code 3: no key\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--pty"], "Which program?"),
        (["--pty", "--", "no-such-program"], "There is no program 'no-such-program' to run."),
        (["--within", "main", "--pty", "--", "cat"], "--within is about a page"),
        (["http://127.0.0.1:1/", "cat"], "leave out 'cat', or add --pty"),
        (["--max-late", "9", "--pty", "--", "cat"], "--max-late needs the proxy"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_sentence(capsys, words, sentence):
    assert main(["check", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_program_that_does_not_end_is_judged_at_the_timeout(check):
    code, result = check("show(ANSWER); time.sleep(60)", "--timeout", "0.6")
    assert (code, ids(result["incomplete"])) == (0, {"not-settled"})


# --- the screen -----------------------------------------------------------------------------------
def shown(data, size=1):
    watch = TerminalWatch()
    for i in range(0, len(data), size):
        watch.feed(data[i : i + size], float(i))
    return watch


def test_text_that_is_cut_at_every_byte_and_wrapped_is_whole():
    true_text = TRUE_TEXT * 9
    watch = shown(true_text.encode())
    (line,) = [line for line in watch.lines() if line]
    assert line.replace(" ", "") == true_text.replace(" ", "")
    assert watch.findings("", 1e6) == []


def test_a_wide_character_is_not_cut_by_the_edge():
    watch = shown(("x" * (COLUMNS - 1) + "漢字").encode())
    assert watch.lines()[0].endswith("x 漢字")


def test_sequences_that_the_model_does_not_know_are_not_text():
    unknown = [
        *("\x1b[38:2::9:9:9m", "\x1b[<u", "\x1b[>4;2m", "\x1bP+q544e\x1b\\", "\x1b[?4m", "\x1b[!p"),
        *("\x1b]8;;http://a\x1b\\", "\x1b]8;;\x07", "\x1b_app\x1b\\", "\x1b[1;2;3A", "\x1b[?1$p"),
    ]
    watch = shown("".join([f"漢{one}" for one in unknown]).encode())
    assert watch.lines()[0] == "漢" * len(unknown)


def test_a_program_is_answered_where_its_cursor_is():
    said = []
    TerminalWatch(said.append).feed("漢字\x1b[6n".encode(), 0.0)
    assert said == ["\x1b[1;5R"]


def test_a_glyph_that_no_frame_can_have_shown_does_not_count_as_painted():
    watch = TerminalWatch()
    watch.feed("ab\ufffd".encode(), 100.0)
    watch.feed(b"\bc", 105.0)
    watch.feed("\ufffd".encode(), 200.0)
    watch.feed(b"\bd", 250.0)
    assert [one["frames"] for one in watch.findings("", 300.0)] == [0, 3]


def test_a_glyph_that_has_scrolled_off_stays():
    watch = shown(b"".join([b"%d \xff\r\n" % i for i in range(60)]), 7)
    found = watch.findings("", 1e6)
    assert len(found) == 60 and all(one["live"] for one in found)
    assert found[40]["target"] == "line 41"


def test_a_title_with_a_broken_glyph_is_found():
    (one,) = shown(b"\x1b]0;chat \xff\x07ok").findings("", 1e6)
    assert (one["place"], one["live"]) == ("title", True)
