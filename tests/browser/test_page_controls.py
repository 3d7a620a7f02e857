"""What the page shows at first, and how a reader gets around in a stream: transport, list of
tokens, faults, links between tokens and characters, tabs, the address.
"""

import json
import re
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from media import emulate
from playwright.sync_api import expect
from transfer import copied_report

pytestmark = pytest.mark.one_browser


def test_a_first_visit_plays_by_itself_and_can_be_paused(first_visit: Any) -> None:
    page = first_visit.page
    # Half a character waits for a moment only.
    waits = "document.getElementById('hold-text').textContent.includes('waiting for')"
    first_visit.in_mid_answer("document.getElementById('pause').click()", when=waits)
    first_visit.open("?runtime=micropython")
    expect(page.locator("#pause")).to_have_text("Play")
    expect(page.locator("#hold-text")).to_contain_text("waiting for")
    expect(page.get_by_role("button", name="Start", exact=True)).to_be_enabled()
    # Transport, panes and list of tokens are in one window.
    assert page.evaluate(
        "() => document.querySelector('.details').getBoundingClientRect().bottom < innerHeight"
    )
    page.locator("#to-end").click()
    text = page.locator("[data-pane=held]")
    expect(text).to_contain_text("Guten Morgen, schöne Grüße!")
    expect(page.locator("#position")).to_have_text(re.compile(r"^(\d+) / \1$"))
    assert "\ufffd" not in str(text.text_content())


@pytest.mark.full
def test_with_reduced_motion_nothing_plays_by_itself(demo: Any) -> None:
    demo.open("?runtime=micropython")
    # Without it, the page begins to play in the task in which it becomes ready.
    demo.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert (demo.state, demo.text("held")) == ("ready", "")


def test_tokens_that_come_later_are_dimmed_and_can_be_gone_to(booted: Any) -> None:
    booted.stream_text("abcdef", cut="byte")
    page, position = booted.page, booted.page.locator("#position")
    page.locator("#to-start").click()
    expect(page.locator(".chip.future")).to_have_count(7)
    page.locator(".chip").nth(3).click()
    expect(position).to_have_text("4 / 7")
    expect(page.locator(".chip.future")).to_have_count(3)
    page.locator(".chips").focus()
    page.keyboard.press("ArrowRight")
    expect(position).to_have_text("5 / 7")
    expect(page.locator(".chip[aria-selected=true]")).to_contain_text("65")
    assert booted.text("held") == "abcde"


@pytest.mark.full
def test_keys_work_anywhere_in_the_stream_and_the_next_place_wraps(booted: Any) -> None:
    booted.stream_text("aébé", cut="byte")
    page, place = booted.page, booted.page.locator("#fault-place")
    page.locator("#export").focus()
    for expected in ("split 1 of 4, from the beginning again", "split 2 of 4", "split 3 of 4"):
        page.keyboard.press("f")
        expect(place).to_have_text(expected)
    page.locator("[data-pane=naive]").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#position")).to_have_text("4 / 7")
    page.keyboard.press("Home")
    expect(page.locator("#position")).to_have_text("0 / 7")


@pytest.mark.full
def test_pause_says_how_far_behind_it_is_and_catch_up_ends_that(demo: Any) -> None:
    page, booted = demo.page, demo
    demo.in_mid_answer("document.getElementById('pause').click()")
    page.goto(f"{demo.url}/?runtime=micropython&text={'abcdefgh' * 40}&cut=byte&pace=100")
    expect(page.locator("#position")).to_contain_text("behind")
    page.locator("#catch-up").click()
    expect(page.locator("#catch-up")).to_be_hidden()
    assert booted.wait_for("finished") == "finished"
    assert booted.text("held") == "abcdefgh" * 40


@pytest.mark.full
def test_a_token_points_at_its_characters_and_they_at_it(booted: Any) -> None:
    booted.stream_text("né 👩\u200d🚀", cut="byte")
    page = booted.page
    linked = """() => Object.fromEntries(["held", "naive", "stream"].map((name) => [name,
      [...CSS.highlights.get(`linked-${name}`)].map(({ startContainer, startOffset, endOffset }) => {
        const before = document.createRange();
        before.setStart(document.querySelector(`[data-pane=${name}]`), 0);
        before.setEnd(startContainer, startOffset);
        const from = before.toString().length;
        return [from, from + endOffset - startOffset];
      })]))"""
    # The list may be drawn once more, under a pointer that does not move.
    for _ in range(100):
        page.mouse.move(0, 0)
        page.locator(".chip").nth(2).hover()
        if page.evaluate(linked)["held"]:
            break
    assert page.evaluate(linked) == {"held": [[1, 2]], "naive": [[2, 3]], "stream": [[1, 2]]}
    box = page.evaluate(
        """() => {
          const range = document.createRange();
          const text = document.querySelector("[data-pane=held]").firstChild.firstChild;
          range.setStart(text, 1);
          range.setEnd(text, 2);
          const { x, y, width, height } = range.getBoundingClientRect();
          return [x + width / 4, y + height / 2];
        }"""
    )
    page.mouse.move(0, 0)
    page.mouse.move(*box)
    expect(page.locator(".chip.linked")).to_contain_text("A9")
    # An invisible character has its name.
    page.locator(".chip", has_text="‹200D›").hover()
    expect(page.locator("#token-details")).to_contain_text("U+200D ZERO WIDTH JOINER")


@pytest.mark.full
def test_two_panes_are_shown_and_the_others_are_a_click_away_also_on_a_phone(booted: Any) -> None:
    page = booted.page
    booted.stream_text("né")
    page.set_viewport_size({"width": 400, "height": 800})
    for pane in ("held", "naive"):
        expect(page.locator(f"[data-pane={pane}]")).to_be_visible()
    other = page.get_by_role("button", name="Streaming decoder")
    for shown in (True, False):
        other.click()
        expect(other).to_have_attribute("aria-pressed", str(shown).lower())
        expect(page.locator("[data-pane=stream]")).to_be_visible(visible=shown)


@pytest.mark.full
def test_the_address_has_what_was_asked_for(demo: Any) -> None:
    stop = "&stop=X&stop=%0A"
    demo.open(f"?text={quote('né & 日本')}&cut=byte&fault=truncate{stop}&pace=2000", "finished")
    demo.page.get_by_role("button", name="Start", exact=True).click()
    demo.wait_for("finished")
    query = parse_qs(urlsplit(demo.page.url).query)
    assert query["text"] == ["né & 日本"]
    assert (query["cut"], query["fault"], query["stop"]) == (["byte"], ["truncate"], ["X", "\n"])
    demo.page.locator("#speed").select_option("15")
    assert "speed=15" in demo.page.url
    demo.recite("th")
    assert "prompt=th" in demo.page.url and "text=" not in demo.page.url


@pytest.mark.full
def test_reasoning_is_told_apart_where_it_is_asked_for(booted: Any) -> None:
    booted.page.locator("#channels").check()
    booted.stream_text("<think>so é</think>yes", cut="byte")
    assert booted.text("held") == "so éyes"
    assert booted.text("stream") == "<think>so é</think>yes"
    expect(booted.page.locator("[data-pane=held] .reasoning")).to_have_text("so é")
    assert json.loads(booted.save().splitlines()[0])["reasoning"] is True
    # A link of the report opens what was shown.
    link = re.search(r"\]\((.*#capture=.*)\)", copied_report(booted.page))
    assert link
    opened = booted.page.context.new_page()
    try:
        opened.goto(link[1])
        expect(opened.locator("#source-name")).to_have_text("the link's capture")
        expect(opened.locator("[data-pane=held]")).to_have_text("so éyes")
    finally:
        opened.close()


@pytest.mark.full
def test_the_times_are_drawn_by_a_library_that_comes_when_it_is_asked_for(demo: Any) -> None:
    demo.open("?runtime=micropython&text=abcdef&cut=byte&pace=200", "finished")
    assert not any("uplot" in url for url in demo.requested)
    demo.page.locator("#tab-times").click()
    expect(demo.page.locator("#times canvas")).to_be_visible()
    expect(demo.page.locator("#times")).to_contain_text("decoding")
    # Other colours are drawn.
    demo.page.evaluate("() => { document.querySelector('#times canvas').className = 'before'; }")
    emulate(demo.page, "prefers-color-scheme", "dark")
    expect(demo.page.locator("#times canvas")).not_to_have_class("before")
    assert demo.complaints == []


@pytest.mark.full
def test_the_focus_stays_on_the_button_that_can_be_pressed(demo: Any) -> None:
    demo.open()  # Enter presses a button in a window that has the focus: in Firefox the newest
    page = demo.page
    demo.stream_text("né")
    page.locator("#own-text").fill("abc " * 3000)  # it is stopped long before its end
    page.locator("#pace").select_option("100")
    page.locator("#start").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#stop")).to_be_focused()
    page.keyboard.press("Enter")
    demo.wait_for("finished")
    expect(page.locator("#start")).to_be_focused()


@pytest.mark.full
def test_text_that_is_dropped_goes_into_the_field(booted: Any) -> None:
    prevented = booted.page.evaluate(
        """() => {
          const dataTransfer = new DataTransfer();
          dataTransfer.setData("text/plain", "né");
          const event = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
          document.getElementById("own-text").dispatchEvent(event);
          return event.defaultPrevented;
        }"""
    )
    assert prevented is False


@pytest.mark.full
def test_a_browser_without_webassembly_is_told_at_once_and_why(demo: Any) -> None:
    demo.page.add_init_script(
        "WebAssembly.Module = class { constructor() { throw new WebAssembly.CompileError('blocked by policy'); } };"
    )
    demo.page.goto(demo.url)
    demo.wait_for("error")
    assert "WebAssembly" in demo.alert and "blocked by policy" in demo.alert


@pytest.mark.full
def test_with_one_engine_there_is_no_picker(demo: Any) -> None:
    demo.open("?runtime=micropython")
    expect(demo.page.locator("#engine")).to_be_hidden()
    demo.recite("en")
    assert "engine=" not in demo.page.url
