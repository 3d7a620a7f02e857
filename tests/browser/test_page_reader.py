"""What a reader can do with the page: keys, pause, replay, captures, addresses; and what assistive
technology gets.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from axe import small_targets
from playwright.sync_api import expect
from transfer import drop, sse


def address(text: str, **more: Any) -> str:
    return "?" + urlencode({"text": text, **more}, quote_via=quote)


@pytest.mark.full
def test_the_address_streams_its_text_by_itself(demo: Any) -> None:
    text = "line\r\nends, 日本 and 😀 stay as they are"
    demo.open(address(text, runtime="micropython", cut="byte", pace=2000), state="finished")
    assert demo.text("held") == text
    assert demo.seen("naive")["replacements"] == 10
    assert demo.complaints == []


def test_the_keyboard_walks_through_a_stream(demo: Any) -> None:
    demo.open(address("a😀b", runtime="micropython", cut="byte", pace=2000), state="finished")
    position = demo.page.locator("#position")
    keyboard = demo.page.keyboard
    expect(position).to_have_text("7 / 7")
    # Letters and signs belong to the page only in the stream; with Shift, the others select text.
    for key in ("f", ",", "Shift+Home", "Shift+ArrowLeft"):
        keyboard.press(key)
    keyboard.press("ArrowLeft")
    expect(position).to_have_text("6 / 7")
    demo.page.locator("#pane-held").focus()
    for key, expected in (
        ("Home", 0),
        (".", 1),
        ("ArrowRight", 2),
        ("ArrowLeft", 1),
        (",", 0),
        ("f", 2),
        ("f", 3),
        ("End", 7),
        ("f", 2),
        ("End", 7),
    ):
        keyboard.press(key)
        expect(position).to_have_text(f"{expected} / 7")
    assert demo.text("held") == "a😀b"


@pytest.mark.full
def test_space_pauses_a_stream_and_the_engine_waits(demo: Any) -> None:
    text = "日本語 😀 " * 100
    demo.open(address(text, runtime="micropython", cut="byte", pace=20), state="streaming")
    expect(demo.page.locator("[data-pane=held]")).to_contain_text("日本")
    demo.page.keyboard.press("Space")
    expect(demo.page.locator("#pause")).to_have_text("Play")
    shown, position = demo.text("held"), str(demo.page.locator("#position").text_content())
    # More comes, and is not shown.
    expect(demo.page.locator("#position")).not_to_have_text(position)
    assert demo.text("held") == shown
    demo.page.keyboard.press("End")
    demo.page.get_by_role("button", name="Stop", exact=True).click()
    assert demo.wait_for("finished") == "finished"
    assert text.startswith(demo.text("held").rstrip("\ufffd"))
    assert len(demo.text("held")) > len(shown)


@pytest.mark.full
def test_keys_belong_to_the_field_that_has_the_focus(demo: Any) -> None:
    demo.open(address("abc", runtime="micropython", pace=2000), state="finished")
    demo.page.locator("#own-text").fill("")
    demo.page.locator("#own-text").press_sequentially("a . f ,")
    assert demo.page.locator("#own-text").input_value() == "a . f ,"
    expect(demo.page.locator("#position")).to_contain_text("4 / 4")


@pytest.mark.full
def test_a_replay_shows_the_same_text_at_another_speed(booted: Any) -> None:
    booted.stream_text("again, 日本語 😀", cut="byte", pace=200)
    booted.page.locator("#speed").select_option("15")
    booted.page.evaluate("() => recorder.begin()")
    booted.page.locator("#pause").click()
    expect(booted.page.locator("html")).to_have_attribute("data-playback", "playing")
    expect(booted.page.locator("html")).to_have_attribute("data-playback", "paused")
    held = booted.seen("held")
    assert held["last"] == "again, 日本語 😀"
    assert held["replacements"] == 0
    assert held["states"] > 3


@pytest.mark.full
@pytest.mark.parametrize(("text", "said"), [("你好 🚀", "4 characters"), ("a", "1 character")])
def test_the_status_counts_the_characters_that_a_slow_speed_has_not_shown_yet(
    demo: Any, text: str, said: str
) -> None:
    demo.open(address(text, runtime="micropython", pace=2000), state="finished")
    demo.page.locator("#speed").select_option("15")
    demo.page.locator("#start").click()
    assert demo.wait_for("finished") == "finished"
    expect(demo.page.locator("#status")).to_have_text(f"Complete, {said}.")


@pytest.mark.full
@pytest.mark.one_browser
def test_an_answer_that_reaches_its_limit_of_tokens_is_not_called_complete(demo: Any) -> None:
    demo.page.add_init_script(
        """const post = Worker.prototype.postMessage;
        Worker.prototype.postMessage = function (message, ...more) {
          const asked = (arg) => arg?.replace?.('"pace":', '"max_tokens":3,"pace":') ?? arg;
          if (message.call === "connect") message.args = message.args.map(asked);
          return post.call(this, message, ...more);
        };"""
    )
    demo.open("?runtime=micropython", state="ready")
    demo.stream_text("abcdef")
    assert demo.text("held") == "abc"
    expect(demo.page.locator("#status")).to_have_text("Cut off, 3 characters.")
    assert demo.alert == "The answer ends here because it has reached its limit of tokens."


def test_a_capture_saved_and_opened_is_the_same_stream(booted: Any, tmp_path: Path) -> None:
    booted.stream_text("né 日本 😀 end", cut="token", pace=500)
    counts = {pane: booted.seen(pane)["last"] for pane in ("held", "naive", "stream")}
    file = tmp_path / "saved.detok.jsonl"
    file.write_text(booted.save(), "utf-8")
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    assert lines[0]["detok"] == 1 and len(lines[0]["vocabulary"]["sha256"]) == 64
    assert "né" not in json.dumps(lines[0], ensure_ascii=False)
    assert lines[-1][1:] == ["j", {"type": "finished", "reason": "eos", "note": None}]
    booted.stream_text("something else")
    booted.page.locator("#import-file").set_input_files(file)
    expect(booted.page.locator("#status")).to_contain_text("saved.detok.jsonl")
    booted.page.locator("#to-end").click()
    expect(booted.page.locator("[data-pane=held]")).to_have_text(counts["held"])
    assert {pane: booted.text(pane) for pane in counts} == counts


@pytest.mark.full
def test_each_byte_shows_its_state_by_letter_and_by_shape(booted: Any) -> None:
    booted.stream_text("é", cut="byte")
    cells = booted.page.locator(".chip .byte")
    expect(cells).to_have_text(["◧h C3", "■c A9"])
    booted.stream_text("é", cut="byte", fault="truncate")
    expect(cells.first).to_have_text("✕r C3")


@pytest.mark.full
def test_the_panes_are_logs_that_do_not_speak_and_one_status_does(booted: Any) -> None:
    for pane in ("held", "naive", "stream"):
        log = booted.page.locator(f"[data-pane={pane}]")
        assert log.get_attribute("role") == "log"
        assert log.get_attribute("aria-live") == "off"
        assert log.get_attribute("dir") == "auto"
    for field in ("prompt", "own-text"):
        assert booted.page.locator(f"#{field}").get_attribute("dir") == "auto"
    assert booted.page.locator("[role=status], output, [aria-live=polite]").count() == 1
    booted.stream_text("two words")
    expect(booted.page.locator("#status")).to_have_text("Complete, 9 characters.")


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "side"), [("שלום עולם", "right"), ("مرحبا", "right"), ("hello", "left")]
)
def test_each_paragraph_has_the_direction_of_its_text(booted: Any, text: str, side: str) -> None:
    booted.stream_text(text + "\nLatin second line", cut="token")
    sides = booted.page.evaluate(
        """() => {
          const pane = document.querySelector("[data-pane=held]");
          const { left, right } = pane.getBoundingClientRect();
          return pane.textContent.split("\\n").map((line, n, lines) => {
            const range = document.createRange();
            const from = lines.slice(0, n).join("\\n").length + (n ? 1 : 0);
            const node = pane.firstChild.firstChild;
            range.setStart(node, from);
            range.setEnd(node, from + line.length);
            const box = range.getBoundingClientRect();
            return box.left - left < right - box.right ? "left" : "right";
          });
        }"""
    )
    assert sides == [side, "left"]


@pytest.mark.full
def test_every_control_is_at_least_24_pixels_high_and_wide(booted: Any) -> None:
    assert small_targets(booted.page, "button, select, textarea, input[type=text]") == []


@pytest.mark.full
def test_nothing_is_wider_than_the_window(booted: Any) -> None:
    model = "Qwen3-Coder-30B-A3B-Instruct-UD-Q4_K_XL.gguf"
    name = "what-was-saved-yesterday-evening-by-the-browser.sse"
    event = {"model": model, "choices": [{"delta": {"content": "a"}}]}
    drop(booted.page, name, sse(event))
    expect(booted.page.locator("#engine-name")).to_contain_text(model)
    wide = {}
    for width in (320, 400, 768, 1280, 1920):
        booted.page.set_viewport_size({"width": width, "height": 800})
        wide[width] = booted.page.evaluate(
            """() => {
              const { scrollWidth, clientWidth } = document.documentElement;
              const wider = (one) =>
                one.checkVisibility() && one.getBoundingClientRect().right > clientWidth;
              return scrollWidth <= clientWidth ? [] :
                [...document.querySelectorAll("body, body *")].filter(wider).map((one) => one.outerHTML);
            }"""
        )
    assert not any(wide.values()), wide


@pytest.mark.full
def test_text_goes_in_as_text(booted: Any) -> None:
    text = "<img src=x onerror=alert(1)><script>alert(2)</script>&amp;"
    booted.stream_text(text, cut="token")
    assert booted.text("held") == text
    assert booted.page.locator("[data-pane] * *, [data-pane] :not(div)").count() == 0


@pytest.mark.engine
def test_the_page_obeys_a_policy_with_trusted_types_and_breaks_none(
    page: Any, bridge: Any, demo: Any
) -> None:
    page.add_init_script(
        """addEventListener("securitypolicyviolation", (event) => (globalThis.violations ??= []).push(event.violatedDirective))"""
    )
    with page.expect_response(bridge.url + "/") as answer:
        demo.open()
    assert "require-trusted-types-for 'script'" in answer.value.headers["content-security-policy"]
    assert demo.stream_text("é") == "finished"
    assert page.evaluate("() => globalThis.violations ?? []") == []
    assert demo.complaints == []
    # The listener works: an inline style is a violation.
    page.evaluate("() => document.body.setAttribute('style', 'color: red')")
    page.wait_for_function("() => globalThis.violations?.length === 1")
