"""The reciting model in llama.cpp: real tokens, real split characters, known texts.

The engine runs in a child process, as in the bridge. The tests are skipped with a reason if the
package xllamacpp is not installed.
"""

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import unicodedata
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually_sync

from detok_py.decode.detokenizer import Detokenizer
from detok_py.tokenizers import load_tokenizer

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "detok_py" / "bridge" / "recite"
MODEL = SHIPPED / "recite.gguf"
TEXTS: list[dict[str, str]] = json.loads((SHIPPED / "texts.json").read_text(encoding="utf-8"))
TOKENIZER: dict[str, Any] = json.loads((SHIPPED / "tokenizer.json").read_text(encoding="utf-8"))
BY_ID = {text["id"]: text["text"] for text in TEXTS}

pytestmark = [pytest.mark.native, pytest.mark.slow]  # the engine is a process of its own

needs_the_engine = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason="the package xllamacpp is not installed here",
)
each_text = pytest.mark.parametrize("text", TEXTS, ids=[text["id"] for text in TEXTS])


SPECIAL = {token["content"]: token["id"] for token in TOKENIZER["added_tokens"]}


def launch(*arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start the launcher as the bridge does, with pipes for stdin and stdout."""
    command = [sys.executable, "-m", "detok_py.bridge.engines.recite_server", *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
    )


def exit_code_of(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a launcher that should exit by itself; if it does not, kill it and
    fail.
    """
    try:
        return process.wait(10)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def is_listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def running(
    model: Path = MODEL, env: dict[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """Yield the launcher and its line, `{"port", …}`; then close its stdin, which ends it well."""
    process = launch("--model", str(model), env=env)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        code = exit_code_of(process)
    assert code == 0


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """Yield the URL of a running engine with the shipped model."""
    with running() as (_, ready):
        yield f"http://127.0.0.1:{ready['port']}"


ONE_TOKEN = {"prompt": "en: ", "n_predict": 1}


def post(url: str, body: dict[str, Any], **headers: str) -> Any:
    headers["Content-Type"] = "application/json"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def recited(engine: str, prompt: str) -> Any:
    """Return the greedy answer to `prompt`."""
    body = {"prompt": prompt, "n_predict": 1000, "temperature": 0}
    return post(engine + "/completion", body)


def is_whole(token: bytes) -> bool:
    with contextlib.suppress(UnicodeDecodeError):
        token.decode()
        return True
    return False


# The texts and the files that ship


def test_there_are_texts_in_at_least_24_languages_and_20_scripts() -> None:
    scripts = {
        unicodedata.name(character).split()[0]
        for text in TEXTS
        for character in text["text"]
        if character.isalpha()
    }
    assert len({text["lang"] for text in TEXTS}) >= 24
    wanted = "LATIN CYRILLIC GREEK ARABIC HEBREW DEVANAGARI BENGALI TAMIL TELUGU SINHALA THAI LAO KHMER MYANMAR TIBETAN GEORGIAN ARMENIAN ETHIOPIC CJK HIRAGANA KATAKANA HANGUL GOTHIC ADLAM"
    assert set(wanted.split()) <= scripts


def test_each_text_has_an_id_a_prompt_and_a_direction_of_its_own() -> None:
    assert len(BY_ID) == len(TEXTS)
    assert [text["prompt"] for text in TEXTS] == [f"{name}: " for name in BY_ID]
    assert all(
        set(text) == {"id", "title", "lang", "dir", "prompt", "text"} and all(text.values())
        for text in TEXTS
    )
    rtl = {text["id"] for text in TEXTS if text["dir"] == "rtl"}
    assert rtl == {"ar", "he", "fa", "ur", "rtl-mixed"}


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        ("emoji", "\u200d"),
        ("flags", "🇯🇵"),
        ("flags", "\U000e007f"),
        ("keycaps", "1\ufe0f\u20e3"),
        ("keycaps", "👋🏿"),
        ("combining", "e\u0301"),
        ("conjuncts", "क्ष"),
        ("rtl-mixed", "Online Shop"),
        ("maths", "∑"),
        ("javascript", "\\u{1F600}"),
        ("python", "\\N{SPARKLES}"),
        ("think", "<think>"),
        ("think", "</think>"),
        ("tool", "<tool_call>"),
        ("replacement", "\ufffd"),
        ("invisible", "\r\n"),
        ("astral", "𠮷"),
    ],
)
def test_the_difficult_characters_are_in_the_texts(text: str, characters: str) -> None:
    assert characters in BY_ID[text]


def test_a_text_begins_with_a_byte_order_mark_and_keeps_one_inside() -> None:
    assert BY_ID["bom"].startswith("\ufeff") and "\ufeff" in BY_ID["bom"][1:]


def test_the_model_is_small() -> None:
    assert MODEL.stat().st_size <= 1_500_000


@pytest.mark.parametrize("tag", ["<think>", "</think>", "<tool_call>", "</tool_call>"])
def test_a_tag_is_several_ordinary_tokens(tag: str) -> None:
    assert tag not in SPECIAL
    assert tag not in TOKENIZER["model"]["vocab"]


def test_both_tokenizer_files_give_the_same_vocabulary_and_the_same_tokens() -> None:
    json_file, gguf_file = load_tokenizer(SHIPPED / "tokenizer.json"), load_tokenizer(MODEL)
    assert json_file.vocabulary.sha256 == gguf_file.vocabulary.sha256
    for text in TEXTS:
        assert json_file.encode(text["text"]) == gguf_file.encode(text["text"])


# The engine with the model


@pytest.mark.sampled(9)
@needs_the_engine
@each_text
def test_llama_cpp_recites_each_text_byte_for_byte_and_stops(
    engine: str, text: dict[str, str]
) -> None:
    answer = recited(engine, text["prompt"])
    assert (answer["content"], answer["stop_type"]) == (text["text"], "eos")


@needs_the_engine
@pytest.mark.parametrize("prompt", ["ja:", "ja"])
def test_a_trimmed_prompt_recites_too(engine: str, prompt: str) -> None:
    assert recited(engine, prompt)["content"] == BY_ID["ja"]


@needs_the_engine
@pytest.mark.parametrize("text", ["ja", "emoji", "tool"])
def test_a_chat_whose_last_message_is_a_prompt_recites_too(engine: str, text: str) -> None:
    said = [("system", "You recite."), ("user", "en: "), ("assistant", BY_ID["en"])]
    said.append(("user", text + ": "))
    messages = [{"role": role, "content": content} for role, content in said]
    answer = post(engine + "/v1/chat/completions", {"messages": messages, "temperature": 0})
    [choice] = answer["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (BY_ID[text], "stop")


@needs_the_engine
@each_text
def test_the_tokens_of_each_text_split_characters_and_are_output_as_whole_ones(
    engine: str, text: dict[str, str]
) -> None:
    vocabulary = load_tokenizer(SHIPPED / "tokenizer.json").vocabulary
    ids = post(engine + "/tokenize", {"content": text["text"]})["tokens"]
    pieces = [vocabulary.token_bytes(i) for i in ids]
    assert b"".join(pieces) == text["text"].encode()
    assert not all(map(is_whole, pieces))
    detokenizer = Detokenizer(vocabulary)
    shown = ""
    for i in ids:
        shown += detokenizer.push(i)
        assert text["text"].startswith(shown)
    assert shown + detokenizer.flush() == text["text"]


# The launcher


@needs_the_engine
def test_the_launcher_prints_port_and_device_and_exits_when_its_stdin_is_closed() -> None:
    with running() as (_, ready):
        assert is_listening(ready["port"])
        assert ready["device"]
    assert not is_listening(ready["port"])


@needs_the_engine
@pytest.mark.skipif(
    os.name != "posix", reason="only POSIX sends an interrupt to a whole process group"
)
def test_an_interrupt_is_ignored_and_left_to_the_parent() -> None:
    with running() as (process, ready):
        process.send_signal(signal.SIGINT)
        url = f"http://127.0.0.1:{ready['port']}/completion"
        assert post(url, ONE_TOKEN)["tokens_predicted"] == 1


@needs_the_engine
@pytest.mark.skipif(
    os.name != "posix",
    reason="only POSIX tells a child that its parent is gone; elsewhere the end of stdin does",
)
def test_the_engine_exits_when_its_parent_is_killed_even_if_stdin_stays_open() -> None:
    reader, writer = os.pipe()
    try:
        script = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]])"
        arguments = ["-m", "detok_py.bridge.engines.recite_server", "--model", str(MODEL)]
        parent = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            cwd=ROOT,
            stdin=reader,
            stdout=subprocess.PIPE,
        )
        assert parent.stdout is not None
        try:
            port = json.loads(parent.stdout.readline())["port"]
        finally:
            parent.kill()
            parent.wait()
            parent.stdout.close()
        eventually_sync(lambda: not is_listening(port))
    finally:
        os.close(reader)
        os.close(writer)


@needs_the_engine
def test_a_key_in_the_environment_is_required_with_every_request() -> None:
    with running(env={**os.environ, "DETOK_ENGINE_KEY": "only for us"}) as (_, ready):
        url = f"http://127.0.0.1:{ready['port']}/completion"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            post(url, ONE_TOKEN)
        answer = post(url, ONE_TOKEN, Authorization="Bearer only for us")
        assert answer["tokens_predicted"] == 1


@needs_the_engine
def test_other_origins_cannot_read_responses_and_slots_are_off(engine: str) -> None:
    origin = "https://elsewhere.example"
    request = urllib.request.Request(engine + "/props", headers={"Origin": origin})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] not in ("*", origin)
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(engine + "/slots", timeout=60)


@needs_the_engine
@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"not a model", "invalid magic"), (b"GGUF\x03", "could not load"), (None, "no model at")],
)
def test_an_invalid_model_file_is_refused_with_a_reason(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "wrong.gguf"
    if content is not None:
        path.write_bytes(content)
    process = launch("--model", str(path))
    assert process.stdout is not None
    answer = json.loads(process.stdout.readline())
    assert exit_code_of(process) == 1
    assert list(answer) == ["error"]
    assert str(path) in answer["error"]
    assert reason in answer["error"]
    assert "GGUF file" in answer["error"]
