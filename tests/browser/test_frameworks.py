"""detok-web in the frameworks and bundlers that people have: each from an empty folder, with what
npm installs there, built for production and served as plain files.
"""

import contextlib
import functools
import json
import os
import shutil
import subprocess
from urllib.parse import urlencode

import pytest
from complaints import heard
from packed import ROOT, pack
from playwright.sync_api import expect
from static_folder import serving

from detok_py import Vocabulary

pytestmark = [pytest.mark.one_browser, pytest.mark.full]

APPS = ROOT / "tests" / "bundlers"
TEXT = "naïve 你好 👩‍🚀 שלום 🇩🇪"
BUILDS = {
    "next": ("next", "build"),
    "next with webpack": ("next", "build:webpack"),
    "parcel": ("parcel", "build"),
    "sveltekit": ("sveltekit", "build"),
    "vue": ("vue", "build"),
}


def npm(folder, *words, needs_registry=False):
    """Run npm, which must go well; a test is skipped if it needs a registry and reaches none."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().startswith("npm_config_")
    }
    environment |= {
        "NEXT_TELEMETRY_DISABLED": "1",
        "npm_config_update_notifier": "false",
        "npm_config_fetch_timeout": "30000",  # ms until a request that hangs is made again
        "CI": "1",
    }
    done = subprocess.run(
        ["npm", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    said = f"{done.stdout}\n{done.stderr}"
    lost = any(word in said for word in ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED"))
    if done.returncode and needs_registry and lost:
        pytest.skip(f"npm could not install {folder.parent.name}: is a registry reachable?")
    assert done.returncode == 0, said


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of an app with all that it needs, installed once for each app."""
    quiet = ("--no-audit", "--no-fund", "--no-package-lock")

    @functools.cache
    def install(name):
        folder = tmp_path_factory.mktemp(name) / "app"
        shutil.copytree(APPS / name, folder)
        shutil.copy(APPS / "decode.js", folder)
        npm(folder, "install", *quiet, needs_registry=True)
        npm(folder, "install", "--no-save", *quiet, pack()["file"])
        return folder

    return install


@pytest.fixture
def serve():
    with contextlib.ExitStack() as stack:
        yield lambda folder: stack.enter_context(serving(folder)) + "/"


# Next, with either of its bundlers, costs as much as all others together.
@pytest.mark.parametrize(
    "build",
    [pytest.param(name, marks=pytest.mark.soak) if "next" in name else name for name in BUILDS],
)
def test_a_production_build_decodes_bytes_and_ids(page, installed, serve, build):
    name, script = BUILDS[build]
    folder = installed(name)
    shutil.rmtree(folder / "out", ignore_errors=True)
    npm(folder, "run", script)
    (folder / "out" / "bytes.detok").write_bytes(
        Vocabulary.from_bytes([bytes([n]) for n in range(256)]).pack()
    )
    complaints = heard(page)
    page.goto(serve(folder / "out"))
    expect(page.locator("html")).to_have_attribute("data-state", "finished")
    expect(page.locator("output")).to_have_text(TEXT + TEXT)
    assert complaints == []


# ---------------------------------------------------------------- chat UIs, on a bridge

ANSWER = f'<think>hm</think>{TEXT}<tool_call>{{"name": "add", "arguments": {{"a": 1}}}}</tool_call>'


@pytest.fixture
def chat(page, installed, serve, start_bridge):
    """Open a chat UI whose answers are a text, token by token."""
    folder = installed("chat-uis")
    if not (folder / "out").exists():
        npm(folder, "run", "build")
    origin = serve(folder / "out").rstrip("/")
    bridge = start_bridge("--engine", "recite", "--allow-origin", origin)

    def open_chat(ui, text, pace=0, **options):
        options |= {"params": {"engine": "scripted", "text": text, "pace": pace, "cut": "byte"}}
        stream = bridge.url.replace("http", "ws") + "/stream"
        page.goto(
            f"{origin}/?{urlencode({'ui': ui, 'bridge': stream, 'options': json.dumps(options)})}"
        )
        return page

    return open_chat


def test_the_adapters_fit_the_types_of_their_packages(installed):
    npm(installed("chat-uis"), "run", "types")


def send_to_assistant_ui(page, text):
    # In keys: in Firefox its field does not notice what `fill` sets.
    page.get_by_label("Message").press_sequentially(text)
    page.get_by_role("button", name="Send").click()


def test_assistant_ui_shows_text_reasoning_and_calls(chat):
    page = chat("assistant-ui", ANSWER)
    send_to_assistant_ui(page, "hello")
    expect(page.locator("code")).to_have_text('add({"a":1})')
    expect(page.locator("i")).to_have_text("hm")
    expect(page.locator("p").last).to_have_text(TEXT)


def test_assistant_ui_stops_an_answer_and_asks_again(chat):
    page = chat("assistant-ui", "a" * 4000, pace=100)
    send_to_assistant_ui(page, "hello")
    expect(page.locator("p").last).to_contain_text("aaaa")
    page.get_by_role("button", name="Stop").click()
    send_to_assistant_ui(page, "again")
    expect(page.locator("p")).to_have_count(4)
    expect(page.locator("p").last).to_contain_text("aaaa")


def send_to_deep_chat(page):
    page.locator("#text-input").fill("hello")
    page.locator("#text-input").press("Enter")


def test_deep_chat_shows_the_content_only(chat):
    page = chat("deep-chat", ANSWER)
    send_to_deep_chat(page)
    expect(page.locator(".ai-message-text")).to_have_text(TEXT)


def test_deep_chat_stops_an_answer(chat):
    page = chat("deep-chat", "a" * 4000, pace=100)
    send_to_deep_chat(page)
    expect(page.locator(".ai-message-text")).to_contain_text("aaaa")
    page.locator(".input-button").last.click()
    # deep-chat takes the next message once the handler has ended: long before all 4000 have come.
    send_to_deep_chat(page)
    expect(page.locator(".ai-message-text")).to_have_count(2)
    assert len(page.locator(".ai-message-text").first.text_content()) < 4000


def test_deep_chat_shows_the_sentence_of_an_error(chat):
    page = chat("deep-chat", "a", granularity="word")
    send_to_deep_chat(page)
    expect(page.locator("#messages")).to_contain_text("The option granularity")
