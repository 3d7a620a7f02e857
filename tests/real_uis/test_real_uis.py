"""The regression kit on widely used chat UIs: it finds their faults and raises no false alarms."""

import json
import os
import subprocess
import sys

import pytest
from local_server import free_port
from ui_rig import ROOT, TEXTS, UI, start_gradio

SPLITS = [
    pytest.param(split, marks=pytest.mark.chaos(split=split, delay=0.001), id=split)
    for split in ("every-byte", "token", "random:7")
]
# ZWJ sequences, Thai, Japanese, Hindi, Arabic from right to left, rare Han and other characters
# beyond 16 bits, a table and lists, and a U+FFFD that the model really sends.
ASKED = ("emoji", "th", "ja", "hi", "ar", "astral", "markdown", "replacement")

CORRECT = [
    UI("Gradio ChatInterface", "gradio", "gradio", "/client/"),
    UI("Streamlit write_stream", "streamlit", "streamlit", "/"),
    UI("deep-chat, events", "deep-chat", "node", "/deep-chat.html?mode=events"),
    UI("deep-chat, readable", "deep-chat", "node", "/deep-chat.html?mode=readable"),
    UI("AI SDK useChat, messages", "@ai-sdk/react", "node", "/ai-sdk.html?mode=messages"),
    UI("AI SDK useChat, text", "@ai-sdk/react", "node", "/ai-sdk.html?mode=text"),
    UI("assistant-ui, plain", "@assistant-ui/react", "node", "/assistant-ui.html?mode=plain"),
    UI("NLUX, mended adapter", "@nlux/core", "node", "/nlux.html?mode=mended"),
    UI("chat-ui", "@llamaindex/chat-ui", "node", "/llamaindex.html?mode=messages"),
    UI("NiceGUI chat_message", "nicegui", "nicegui", "/client"),
    UI("marimo mo.ui.chat", "marimo", "marimo", "/"),
    UI("Chainlit stream_token", "chainlit", "chainlit", "/"),
    UI("llama.cpp's web UI", "xllamacpp", "llama-ui", "/"),
    UI("Open WebUI", "open-webui", "open-webui", "/?models=recite"),
]
# The same with detok_py in their server, or detok-web in their page.
WITH_LIBRARY = [
    UI("Gradio, detok_py", "gradio", "gradio", "/detok/"),
    UI("Streamlit, detok_py", "streamlit", "streamlit", "/?mode=detok"),
    UI("NiceGUI, detok_py", "nicegui", "nicegui", "/detok"),
    UI("marimo, detok_py", "marimo", "marimo-detok", "/"),
    UI("Chainlit, detok_py", "chainlit", "chainlit-detok", "/"),
    UI("Open WebUI, detok_py", "open-webui", "open-webui", "/?models=detok"),
    UI("deep-chat, detok-web", "deep-chat", "node", "/deep-chat.html?mode=detok"),
    UI("AI SDK useChat, detok-web", "@ai-sdk/react", "node", "/ai-sdk.html?mode=detok"),
    UI("assistant-ui, detok-web", "@assistant-ui/react", "node", "/assistant-ui.html?mode=detok"),
    UI("chat-ui, detok-web", "@llamaindex/chat-ui", "node", "/llamaindex.html?mode=detok"),
    UI("NLUX, detok-web", "@nlux/core", "node", "/nlux.html?mode=detok"),
]
# As they are, with the address of a bridge as that of the engine.
BY_EXIT = [
    UI("Gradio, exit", "gradio", "gradio", "/client/", "before_exit"),
    UI("Streamlit, exit", "streamlit", "streamlit", "/", "before_exit"),
]
# Its own adapter decodes each chunk by itself.
BY_CHUNK = UI("NLUX, nlbridge adapter", "@nlux/nlbridge", "node", "/nlux.html?mode=nlbridge")
# These animate an answer as if typed, and cut it between UTF-16 units.
BY_UNIT = [
    UI("deep-chat, simulation", "deep-chat", "node", "/deep-chat.html?mode=simulation"),
    UI("assistant-ui, smooth", "@assistant-ui/react", "node", "/assistant-ui.html?mode=smooth"),
]
# Our own faulty readers in correct UIs: they decode each chunk by itself.
FAULTY = [
    UI("Gradio, our faulty reader", "gradio", "gradio", "/careless/"),
    UI("deep-chat, our faulty handler", "deep-chat", "node", "/deep-chat.html?mode=careless"),
]


def named(ui):
    return ui.name.replace(", ", "-").replace(" ", "-").replace("'", "")


@pytest.mark.parametrize(
    ("ui", "split"),
    [
        pytest.param(ui, *split.values, marks=split.marks, id=f"{named(ui)}-{split.id}")
        for ui in CORRECT
        for split in SPLITS
    ]
    + [
        pytest.param(ui, *split.values, marks=split.marks, id=f"{named(ui)}-{split.id}")
        for split, uis in ((SPLITS[-1], WITH_LIBRARY), (SPLITS[0], BY_EXIT))
        for ui in uis
    ],
)
def test_a_correct_ui_passes(ui, split, conversation, address_of, add_row):
    conversation.open(address_of(ui))
    for name in ASKED:
        conversation.watch.expect_text(conversation.ask(name))
    result = conversation.watch.result(allow_literal=TEXTS["replacement"]["text"])
    add_row(ui, split, result)
    assert result["violations"] == []
    assert "ufffd-literal" in {entry["id"] for entry in result["passes"]}
    # llama.cpp's own UI has no server between the engine and the browser.
    answers = conversation.before_engine.answers or conversation.chaos.answers
    assert [answer.sent.text for answer in answers] == [TEXTS[name]["text"] for name in ASKED]
    assert conversation.errors == []


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("ui", BY_UNIT, ids=named)
def test_cuts_between_utf16_units_are_found_although_the_final_text_is_right(
    ui, split, conversation, address_of, add_row
):
    conversation.open(address_of(ui))
    # Whether a frame shows a given half of a pair varies, but some frame shows one of some hundred.
    for _ in range(5):
        conversation.watch.expect_text(conversation.ask("emoji"))
        conversation.watch.expect_text(conversation.ask("astral"))
        result = conversation.watch.result()
        if result["violations"]:
            break
    add_row(ui, split, result)
    assert {entry["id"] for entry in result["violations"]} == {"lone-surrogate"}
    assert all("UTF-16" in entry["cause_hint"] for entry in result["violations"])


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("ui", [BY_CHUNK, *FAULTY], ids=named)
def test_a_faulty_reader_is_found(ui, split, conversation, address_of, add_row):
    conversation.open(address_of(ui))
    truth = conversation.ask("emoji")
    result = conversation.watch.result(truth=truth)
    add_row(ui, split, result)
    found = {entry["id"] for entry in result["violations"]}
    assert "ufffd-persistent" in found and found & {"changed-text", "dropped-text"}


# --- from a shell ---------------------------------------------------------------------------------
@pytest.fixture
def detok_check(browser_name, browser_type_launch_args, tmp_path):
    """Return the function that runs `detok check`; it returns the exit code and the JSON result."""

    def check(address, *options):
        environment = {
            **os.environ,
            f"DETOK_{browser_name.upper()}": str(browser_type_launch_args["executable_path"]),
        }
        verdict = tmp_path / "verdict.json"
        command = [sys.executable, "-m", "detok_py", "check", address, *options]
        command += ["--browser", browser_name, "--json", str(verdict), "--timeout", "120"]
        command += ["--prompt", TEXTS["emoji"]["prompt"], "--split", "every-byte"]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.returncode, json.loads(verdict.read_text("ascii"))

    return check


@pytest.mark.parametrize("ui", [*CORRECT, *WITH_LIBRARY], ids=named)
def test_detok_check_passes_a_correct_ui(ui, address_of, before_engine, detok_check, tmp_path):
    before_engine.split = "every-byte"
    (tmp_path / "emoji.txt").write_text(TEXTS["emoji"]["text"], encoding="utf-8")
    code, verdict = detok_check(address_of(ui), "--text", str(tmp_path / "emoji.txt"))
    assert (code, verdict["violations"]) == (0, [])
    # How late text is shown depends on the machine too.
    assert {entry["id"] for entry in verdict["incomplete"]} <= {"held-text"}
    assert sum(stream["pieces"] for stream in verdict["streams"]) > len(TEXTS["emoji"]["text"])


@pytest.mark.parametrize(
    ("path", "code"), [("/client/", 0), ("/careless/", 1)], ids=["client", "careless"]
)
def test_detok_check_listens_between_a_uis_server_and_the_engine(path, code, engine, detok_check):
    port = free_port()
    gradio = start_gradio(f"http://127.0.0.1:{port}")
    try:
        # Without --text, the true text is what the engine sent.
        found, verdict = detok_check(
            gradio.said["url"] + path, "--upstream", engine, "--listen", str(port)
        )
    finally:
        gradio.stop()
    assert found == code
    assert {entry["id"] for entry in verdict["incomplete"]} <= {"not-read"}
    assert [
        stream
        for stream in verdict["streams"]
        if stream["url"].startswith(engine) and stream["finished"]
    ]
    assert not code or "ufffd-persistent" in {entry["id"] for entry in verdict["violations"]}
