"""The example chat UI as a person uses it: a real engine, lost connections, keyboard, history, and
no broken glyph at any time.
"""

import json
import re
from typing import Any

import pytest
from axe import faults, small_targets
from complaints import WRONG, heard
from frame_proxy import FrameProxy
from media import emulate
from playwright.sync_api import expect

from detok_py.bridge.engines.recite import texts

pytestmark = pytest.mark.one_browser

TEXTS = {text["id"]: text["text"] for text in texts()}
MIDDLE = "ổ".encode()[:2]  # a token in the middle of the answer to "hello"
RECORD = """() => {
  globalThis.said = [];
  const status = document.getElementById("status");
  new MutationObserver(() => said.push(status.textContent)).observe(status, { childList: true, characterData: true, subtree: true });
}"""


class ChatPage:
    """The chat on the page, and the errors and warnings of the console."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self._heard = heard(page, *WRONG)

    @property
    def complaints(self) -> list[str]:
        # The browser itself reports a cut socket and a missing bridge in the console.
        own = re.compile("WebSocket|/stream|ERR_CONNECTION|ERR_INTERNET")
        return [said for said in self._heard if not own.search(said)]

    def open(self, hash: str = "") -> "ChatPage":
        self.page.goto(f"{self.url}/examples/chat/{hash}")
        self.page.evaluate(RECORD)
        self.page.wait_for_function("() => document.getElementById('engine').textContent")
        return self

    def send(self, text: str) -> None:
        self.page.get_by_role("textbox", name="Your message").fill(text)
        self.page.keyboard.press("Enter")

    def wait(self) -> None:
        """Wait until the answer is over."""
        expect(self.page.locator("#stop")).to_be_hidden()

    def wait_for_text(self, least: int = 30) -> None:
        """Wait until an answer has begun to come."""
        text = self.page.locator(".assistant:last-of-type > .text")
        expect(text).to_have_text(re.compile(rf"^.{{{least},}}$", re.DOTALL))

    def ask(self, text: str) -> str:
        self.send(text)
        self.wait()
        return self.answer

    @property
    def answer(self) -> str:
        return str(self.page.locator(".assistant").last.locator("> .text").last.text_content())

    @property
    def status(self) -> str:
        return str(self.page.get_by_role("status").text_content())

    @property
    def said(self) -> list[str]:
        """The sentences of the status line, in order."""
        return [
            sentence
            for sentence in self.page.evaluate("said")
            if sentence and sentence != "Loading the decoder…"
        ]

    def new(self) -> None:
        self.page.get_by_role("button", name="New chat").click()

    def go_to(self, title: str) -> None:
        """Open a chat of the list, which the page does some time after the click."""
        self.page.locator("#chats a", has_text=title).click()
        expect(self.page.get_by_role("heading", name=title)).to_be_visible()

    def chats(self) -> list[str]:
        return list(self.page.locator("#chats a").all_text_contents())


@pytest.fixture
def chat(page: Any, bridge: Any) -> Any:
    one = ChatPage(page, bridge.url).open()
    yield one
    assert one.complaints == []


@pytest.fixture
def proxied(page: Any, bridge: Any) -> Any:
    """The chat behind a proxy that can cut it and hold it back."""
    proxy = FrameProxy(bridge.url)
    one = ChatPage(page, proxy.url).open()
    yield one, proxy
    proxy.close()
    assert one.complaints == []


# ---------------------------------------------------------------- lost connections


# The first frames are each of another kind; those of data are alike.
@pytest.mark.full
@pytest.mark.glyph_watch
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_a_connection_cut_after_any_frame_changes_nothing(proxied: Any, every: int) -> None:
    chat, proxy = proxied
    assert chat.ask("flags") == TEXTS["flags"]
    # The number of frames varies between runs. A run with fewer frames is not cut, and must be
    # whole as well.
    frames = proxy.frames[-1]
    cut = set()
    for number in [*range(1, min(4, frames)), *range(4, frames, every)]:
        chat.new()
        proxy.cuts = [number]
        before = len(proxy.frames)
        assert chat.ask("flags") == TEXTS["flags"], f"cut after frame {number} of {frames}"
        if len(proxy.frames) > before + 1:
            cut.add(number)
    # The greeting, the beginning, the first data: every run has these, and an end.
    assert cut >= {1, 2, 3}


@pytest.mark.full
def test_a_lost_connection_and_its_recovery_are_reported(proxied: Any) -> None:
    chat, proxy = proxied
    proxy.cuts = [2]  # before any text
    proxy.stop_before = b'"finished"'
    chat.send("en")
    status = chat.page.get_by_role("status")
    expect(status).to_have_text("Connected again; nothing was lost.")
    proxy.go.set()
    chat.wait()
    assert chat.answer == TEXTS["en"]
    assert chat.said[:3] == [
        "Answering…",
        "Connection lost, trying again…",
        "Connected again; nothing was lost.",
    ]
    assert chat.said[-1].startswith("Answer complete, ")
    assert status.count() == 1
    assert chat.page.get_by_role("log").get_attribute("aria-live") == "off"


@pytest.mark.full
def test_a_stopped_bridge_is_reported_in_one_sentence_with_a_way_out(
    page: Any, start_bridge: Any
) -> None:
    bridge = start_bridge()
    chat = ChatPage(page, bridge.url).open()
    assert chat.ask("de") == TEXTS["de"]
    bridge.kill()
    chat.send("fr")
    chat.wait()
    assert chat.status == "The bridge can't be reached. Check that it is running, then try again."
    assert page.locator(".end.wrong").text_content() == chat.status
    start_bridge("--port", bridge.url.rpartition(":")[2])
    page.get_by_role("button", name="Try again").click()
    chat.wait()
    assert chat.answer == TEXTS["fr"]
    assert page.locator(".message").count() == 4
    assert page.locator(".end.wrong").count() == 0


@pytest.mark.full
@pytest.mark.only_browser("chromium")
def test_offline_is_said_at_once_and_the_chat_goes_on_by_itself(chat: Any) -> None:
    offline = re.compile("^You are offline")
    assert chat.ask("de") == TEXTS["de"]
    chat.page.context.set_offline(True)
    expect(chat.page.get_by_role("status")).to_have_text(offline)
    chat.send("fr")
    # The library tries again for a while; then the answer ends, and is asked for again when the
    # network is back.
    expect(chat.page.locator(".end.wrong")).to_have_text(offline)
    chat.page.context.set_offline(False)
    text = chat.page.locator(".assistant").last.locator("> .text")
    expect(text).to_have_text(TEXTS["fr"])
    assert chat.page.locator(".message").count() == 4
    assert chat.page.locator(".end.wrong").count() == 0


# ---------------------------------------------------------------- stopping, going on, coming back


@pytest.mark.full
@pytest.mark.parametrize("way", ["button", "Escape"])
def test_stop_keeps_the_text_and_asking_again_gets_the_whole_answer(proxied: Any, way: str) -> None:
    chat, proxy = proxied
    proxy.stop_before = MIDDLE
    chat.send("hello")
    chat.wait_for_text()
    if way == "button":
        chat.page.get_by_role("button", name="Stop").click()
    else:
        chat.page.keyboard.press("Escape")
    proxy.go.set()
    chat.wait()
    assert chat.status == "Stopped."
    part = chat.answer
    assert TEXTS["hello"].startswith(part)
    assert part != TEXTS["hello"]
    chat.page.get_by_role("button", name="Ask again").click()
    chat.wait()
    assert chat.answer == TEXTS["hello"]
    assert chat.page.locator(".message").count() == 2


@pytest.mark.full
def test_a_reload_keeps_history_and_a_new_tab_begins_a_new_chat(chat: Any) -> None:
    chat.ask("ja")
    chat.ask("ko")
    address = chat.page.url
    chat.page.reload()
    texts = chat.page.locator(".message > .text").all_text_contents()
    assert texts == ["ja", TEXTS["ja"], "ko", TEXTS["ko"]]
    chat.page.goto(address.partition("#")[0])
    chat.page.reload()
    assert chat.page.locator(".message").count() == 0
    assert chat.chats() == ["ja"]


@pytest.mark.glyph_watch
def test_a_reload_in_the_middle_of_an_answer_loses_nothing(proxied: Any) -> None:
    chat, proxy = proxied
    proxy.stop_before = MIDDLE
    chat.send("hello")
    chat.wait_for_text()
    chat.page.reload()
    chat.page.evaluate(RECORD)
    shown = chat.answer
    assert shown
    assert TEXTS["hello"].startswith(shown)
    proxy.go.set()
    chat.wait()
    assert chat.answer == TEXTS["hello"]
    assert chat.page.locator(".message").count() == 2


@pytest.mark.full
def test_a_page_that_was_closed_in_the_middle_reports_it_and_can_ask_again(proxied: Any) -> None:
    chat, proxy = proxied
    proxy.stop_before = b'"finished"'
    chat.send("hello")
    chat.wait_for_text()
    address = chat.page.url
    chat.page.goto(chat.url + "/examples/")
    # Another tab has the chats, but does not know which answer this tab waited for.
    chat.page.evaluate("sessionStorage.clear()")
    proxy.go.set()
    chat.page.goto(address)
    assert "closed before" in str(chat.page.locator(".end.wrong").text_content())
    chat.page.get_by_role("button", name="Try again").click()
    chat.wait()
    assert chat.answer == TEXTS["hello"]


# ---------------------------------------------------------------- what an answer has in it


@pytest.mark.full
def test_reasoning_is_folded_and_a_tool_call_is_shown_and_not_run(chat: Any) -> None:
    reasoning, _, answer = TEXTS["think"].removeprefix("<think>").partition("</think>")
    assert chat.ask("think") == answer.lstrip().replace("**", "")
    folded = chat.page.locator("details.reasoning")
    assert folded.evaluate("(details) => details.open") is False
    folded.locator("summary").click()
    assert folded.locator(".text").text_content() == reasoning.lstrip()
    chat.ask("tool")
    call = json.loads(TEXTS["tool"].split("<tool_call>")[1].split("</tool_call>")[0])
    figure = chat.page.locator("figure.call")
    assert "get_weather" in str(figure.locator("figcaption").text_content())
    assert json.loads(str(figure.locator(".text").text_content())) == call["arguments"]


MARKDOWN = """## Plan

**bold** and `code <b>` and [link](https://example.org/), [bad](javascript:alert(1))

| a | b |
|---|---|
| 1 | 2 |

1. one
   - two

<img src=x onerror=alert(1)> ![x](https://example.org/x.png)

```js
let **x** = 1;
```
"""
GROW = """async (text) => {
  const { showMarkdown } = await import("/examples/built/markdown.js");
  const box = document.createElement("div");
  let flashed = [];
  for (let n = 1; n <= text.length; n++) {
    showMarkdown(box, text.slice(0, n), true);
    const prose = [...box.querySelectorAll("p, td, th, li")].map((one) => one.textContent).join(" ");
    if (/[*`|]|\\]\\(|https/.test(prose.replace(/\\[bad.*|<img.*/s, ""))) flashed.push(prose);
  }
  showMarkdown(box, text, false);
  const links = [...box.querySelectorAll("a")].map((one) => one.href);
  return [flashed, links, box.innerHTML];
}"""


@pytest.mark.full
def test_markdown_is_shown_without_flashing_markers_and_runs_nothing(chat: Any) -> None:
    flashed, links, html = chat.page.evaluate(GROW, MARKDOWN)
    assert flashed == []
    assert links == ["https://example.org/", "https://example.org/x.png"]  # no image is loaded
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "<strong>bold</strong> and <code>code &lt;b&gt;</code>" in html
    assert "<td>1</td><td>2</td>" in html
    assert "<pre><code>let **x** = 1;\n</code></pre>" in html


@pytest.mark.full
def test_text_is_never_markup(chat: Any) -> None:
    markup = "<img src=x onerror=alert(1)> &lt; <b>bold</b>"
    chat.send(markup)
    assert chat.page.locator(".user .text").text_content() == markup
    assert chat.page.locator(".message :is(img, b)").count() == 0
    chat.wait()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("prompt", "direction"), [("ar", "rtl"), ("he", "rtl"), ("en", "ltr"), ("zh-hans", "ltr")]
)
def test_each_message_has_the_direction_of_its_text(chat: Any, prompt: str, direction: str) -> None:
    assert chat.ask(prompt) == TEXTS[prompt]
    shown = "(element) => getComputedStyle(element).direction"
    assert chat.page.locator(".assistant > .text").evaluate(shown) == direction
    assert chat.page.locator("body").evaluate(shown) == "ltr"


@pytest.mark.glyph_watch
def test_held_text_is_reported_and_no_broken_glyph_is_shown(proxied: Any) -> None:
    chat, proxy = proxied
    assert chat.ask("emoji") == TEXTS["emoji"]
    # llama.cpp sends whole characters, but sends the beginning of a tag at once: in a frame of its
    # own, if the bridge has not been kept waiting.
    proxy.stop_after = b"<"
    for _ in range(10):
        chat.send("think")
        state = chat.page.wait_for_function(
            "() => document.getElementById('held').textContent || "
            "document.getElementById('status').textContent.startsWith('Answer complete')"
        ).json_value()
        proxy.go.set()
        chat.wait()
        proxy.go.clear()
        if state == "held: could be a tag":
            break
        chat.new()
    assert state == "held: could be a tag"
    assert chat.page.locator("#held").text_content() == ""


# ---------------------------------------------------------------- keyboard


def test_everything_by_keyboard(proxied: Any) -> None:
    chat, proxy = proxied
    page = chat.page
    focused = "() => document.activeElement.textContent.trim() || document.activeElement.id"
    prompt = page.get_by_role("textbox", name="Your message")
    prompt.focus()
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    assert prompt.input_value() == "one\ntwo"
    prompt.fill("hello")
    proxy.stop_before = b'"finished"'
    page.keyboard.press("Enter")
    chat.wait_for_text()
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Stop"
    page.keyboard.press("Enter")
    chat.wait()
    # The button with the focus has disappeared; the next keystroke goes into the next message.
    assert page.evaluate(focused) == "prompt"
    for words in ("Ask again", "Copy", "Copy"):
        page.keyboard.press("Shift+Tab")
        assert page.evaluate(focused) == words
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.id") == "log"
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    for words in ("Source", "Delete all chats", "×", "hello", "New chat"):
        page.keyboard.press("Shift+Tab")
        assert page.evaluate(focused) == words
    page.keyboard.press("Enter")
    assert page.evaluate(focused) == "prompt"
    assert page.locator(".message").count() == 0


@pytest.mark.full
def test_enter_while_an_input_method_composes_does_not_send(chat: Any) -> None:
    chat.page.get_by_role("textbox", name="Your message").fill("にほんご")
    chat.page.evaluate("""() => document.getElementById("prompt").dispatchEvent(
      new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true }))""")
    assert chat.page.locator(".message").count() == 0


@pytest.mark.full
def test_every_target_is_at_least_24_pixels_high_and_wide(chat: Any) -> None:
    chat.ask("think")
    assert small_targets(chat.page, "button, a:not(.skip), summary, textarea") == []


# ---------------------------------------------------------------- reading


@pytest.mark.full
def test_scrolling_follows_unless_the_reader_is_elsewhere(proxied: Any) -> None:
    chat, proxy = proxied
    chat.page.set_viewport_size({"width": 800, "height": 420})
    chat.ask("hello")
    at_end = "() => { const log = document.getElementById('log'); return log.scrollHeight - log.scrollTop - log.clientHeight < 2; }"
    assert chat.page.evaluate(at_end)
    proxy.stop_before = MIDDLE
    chat.send("hello")
    chat.wait_for_text()
    chat.page.evaluate("document.getElementById('log').scrollTop = 0")
    proxy.go.set()
    latest = chat.page.get_by_role("button", name="Latest")
    latest.wait_for()
    assert chat.page.evaluate("document.getElementById('log').scrollTop") == 0
    latest.click()
    assert chat.page.evaluate(at_end)
    assert not latest.is_visible()
    chat.wait()
    assert chat.page.evaluate(at_end)


@pytest.mark.full
@pytest.mark.window
def test_copy_gives_the_text_of_the_answer(chat: Any) -> None:
    answer = chat.ask("emoji")
    chat.page.locator(".assistant").get_by_role("button", name="Copy").click()
    chat.page.wait_for_function("() => document.getElementById('status').textContent === 'Copied.'")
    chat.page.get_by_role("textbox", name="Your message").focus()
    chat.page.keyboard.press("Control+V")
    assert chat.page.get_by_role("textbox", name="Your message").input_value() == answer.strip()


@pytest.mark.full
def test_a_narrow_page_has_its_chats_behind_a_button(chat: Any) -> None:
    chat.page.set_viewport_size({"width": 320, "height": 600})
    chat.ask("keycaps")
    assert chat.page.evaluate("document.documentElement.scrollWidth") <= 320
    page = chat.page
    chats = page.get_by_role("navigation", name="Chats")
    show = page.locator("#show-history")
    for close in ("Escape", "Close"):
        assert not chats.is_visible()
        assert show.get_attribute("aria-expanded") == "false"
        page.get_by_role("button", name="Chats", exact=True).click()
        assert chats.is_visible()
        assert show.get_attribute("aria-expanded") == "true"
        assert page.evaluate("document.activeElement.id") == "new"
        if close == "Escape":
            page.keyboard.press("Escape")
        else:
            page.get_by_role("button", name="Close").click()
        assert page.evaluate("document.activeElement.id") == "show-history"
    assert not chats.is_visible()


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_answer_has_no_faults_of_access(chat: Any, scheme: str) -> None:
    emulate(chat.page, "prefers-color-scheme", scheme)
    chat.ask("think")
    assert faults(chat.page) == []


# ---------------------------------------------------------------- chats that stay


@pytest.mark.full
@pytest.mark.window
def test_chats_are_listed_opened_and_deleted_after_one_question(chat: Any) -> None:
    chat.ask("flags")
    chat.new()
    chat.ask("maths")
    assert chat.chats() == ["maths", "flags"]
    chat.go_to("flags")
    assert chat.answer == TEXTS["flags"]
    assert chat.page.locator("#chats [aria-current=page]").text_content() == "flags"
    delete = chat.page.get_by_role("button", name="Delete “maths”")
    delete.click()
    assert chat.chats() == ["maths", "flags"]
    assert chat.status == "Delete for good? Press again."
    delete.click()
    assert chat.chats() == ["flags"]
    assert chat.answer == TEXTS["flags"]
    everything = chat.page.locator("#forget")
    everything.click()
    everything.click()
    assert chat.chats() == []
    assert chat.page.locator(".message").count() == 0
    assert chat.page.evaluate("localStorage.length") == 0


@pytest.mark.full
def test_an_answer_goes_on_while_another_chat_is_read(proxied: Any) -> None:
    chat, proxy = proxied
    chat.ask("flags")
    chat.new()
    proxy.stop_before = MIDDLE
    chat.send("hello")
    chat.wait_for_text()
    chat.go_to("flags")
    assert chat.answer == TEXTS["flags"]
    proxy.go.set()
    chat.wait()
    assert chat.answer == TEXTS["flags"]
    chat.go_to("hello")
    assert chat.answer == TEXTS["hello"]


@pytest.mark.full
def test_stored_chats_are_bounded_and_the_oldest_are_deleted_first(chat: Any) -> None:
    seen = chat.page.evaluate("""async () => {
      const { allChats, keepChat, newChat } = await import("/examples/chat/history.js");
      const make = (n, length) => {
        const messages = Array.from({ length }, () => ({ role: "user", parts: [{ channel: "content", text: "x" }] }));
        return { ...newChat(), title: `chat ${n}`, messages };
      };
      for (let n = 0; n < 55; n++) {
        keepChat(make(n, 3));
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
      const count = allChats().length;
      const latest = allChats()[0].title;
      keepChat(make("long", 250));
      const messages = allChats()[0].messages.length;
      const kept = [];
      for (let n = 0; n < 8; n++) {
        const large = make(`large ${n}`, 1);
        large.messages[0].parts[0].text = "é".repeat(1 << 20);
        kept.push(keepChat(large));
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
      const titles = allChats().map(({ title }) => title);
      return [count, latest, messages, kept.every(Boolean), titles[0], titles.includes("chat 20")];
    }""")
    assert seen == [50, "chat 54", 200, True, "chat large 7", False]


@pytest.mark.full
def test_a_damaged_entry_is_left_out_silently(chat: Any) -> None:
    chat.page.goto(chat.url + "/examples/")
    chat.page.evaluate("""() => {
      localStorage.setItem("detok.chat.a", "{");
      localStorage.setItem("detok.chat.b", '{"id":"b","title":"b","at":1,"messages":[{}]}');
      localStorage.setItem("detok.chat.c", "null");
    }""")
    chat.open("#a")
    assert chat.chats() == []
    assert chat.ask("bo") == TEXTS["bo"]


@pytest.mark.full
def test_a_long_chat_shows_its_end_and_has_the_rest_behind_a_button(chat: Any) -> None:
    chat.page.goto(chat.url + "/examples/")
    chat.page.evaluate("""() => {
      const messages = Array.from({ length: 150 }, (_, n) => ({
        role: n % 2 ? "assistant" : "user", parts: [{ channel: "content", text: `message ${n}` }], end: { reason: "eos" },
      }));
      localStorage.setItem("detok.chat.long", JSON.stringify({ id: "long", title: "long", at: 1, messages }));
    }""")
    chat.open("#long")
    assert chat.page.locator(".message").count() == 60
    chat.page.get_by_role("button", name="Show 60 earlier messages").click()
    chat.page.get_by_role("button", name="Show 30 earlier messages").click()
    assert chat.page.locator(".message").count() == 150
    assert chat.page.locator(".message .text").first.text_content() == "message 0"
    # The next answer removes them from the page again.
    chat.ask("flags")
    assert chat.page.locator(".message").count() <= 64


@pytest.mark.full
@pytest.mark.only_browser("chromium")
def test_memory_stays_flat_over_many_answers(chat: Any) -> None:
    session = chat.page.context.new_cdp_session(chat.page)

    def used() -> int:
        session.send("HeapProfiler.collectGarbage")
        return int(session.send("Runtime.getHeapUsage")["usedSize"])

    def answers(count: int) -> None:
        for _ in range(count):
            chat.new()
            assert chat.ask("flags") == TEXTS["flags"]

    answers(10)
    before = used()
    answers(40)
    nodes = chat.page.evaluate("document.querySelectorAll('*').length")
    assert used() - before < 1_000_000
    # 50 chats are listed with three elements each, and two messages are shown.
    assert nodes < 400
