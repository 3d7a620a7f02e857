"""A newcomer opens a stream: a drop zone that one sees, samples, and words that are explained."""

import re
from typing import Any

import pytest
from axe import violations
from playwright.sync_api import expect
from transfer import drop, sse

DRAG = """([kind, type]) => {
  const transfer = new DataTransfer();
  if (type === "Files") transfer.items.add(new File(["x"], "a.sse"));
  else transfer.setData("text/plain", "x");
  document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: transfer, bubbles: true }));
}"""


def test_a_sample_is_one_click_away_and_says_who_broke_it(demo: Any) -> None:
    demo.open("?runtime=micropython")
    expect(demo.page.get_by_role("region", name="Open a recorded stream")).to_be_in_viewport()
    for name, said in (
        ("Broken llama.cpp stream", "The engine broke 16 places."),
        ("HAR, a proxy’s fault", "A proxy, or what recorded it, broke 2 places."),
    ):
        demo.page.get_by_role("button", name=name).click()
        expect(demo.page.locator("#alert")).to_contain_text(said)
    expect(demo.page.locator("#source-name")).to_have_text("proxy.har")
    # A recorded stream did not arrive now, so there is no time until it was painted.
    demo.page.locator("#to-end").click()
    expect(demo.page.locator("#pane-held")).to_contain_text("맑아요.")
    expect(demo.page.locator("[data-count=painted]")).to_have_text("–")
    assert demo.complaints == []


@pytest.mark.full
def test_while_a_file_is_dragged_the_page_says_that_it_takes_it(booted: Any) -> None:
    page, sign = booted.page, booted.page.locator("#drop-sign")
    page.evaluate(DRAG, ["dragenter", "text"])
    expect(sign).to_be_hidden()
    page.evaluate(DRAG, ["dragenter", "Files"])
    expect(sign).to_have_text("Let go to open it: a stream, or a tokenizer")
    expect(page.locator("#status")).to_contain_text("Let go to open it")
    assert violations(page) == []
    page.evaluate("() => document.dispatchEvent(new DragEvent('dragleave'))")
    expect(sign).to_be_hidden()
    page.evaluate(DRAG, ["dragenter", "Files"])
    drop(page, "a.sse", sse("dropped"))
    expect(sign).to_be_hidden()
    expect(page.locator("#pane-held")).to_have_text("dropped")


@pytest.mark.full
def test_a_file_that_is_dropped_while_a_stream_runs_is_offered(demo: Any) -> None:
    page = demo.page
    demo.open("?runtime=micropython&pace=10&text=" + "slow%20" * 200, state="streaming")
    drop(page, "a.sse", sse("dropped") + b"data: [DONE]\n\n")
    page.get_by_role("button", name="Stop and open").click()
    expect(page.locator("#pane-held")).to_have_text("dropped")
    demo.wait_for("finished")
    expect(page.locator("#alert")).to_be_hidden()
    assert demo.stream_text("after") == "finished"


@pytest.mark.full
def test_a_file_that_is_dropped_while_python_loads_is_opened_then(demo: Any) -> None:
    demo.page.goto(demo.url + "/?runtime=micropython")
    drop(demo.page, "a.sse", sse("dropped"))
    expect(demo.page.locator("#pane-held")).to_have_text("dropped")


@pytest.mark.full
@pytest.mark.one_browser
def test_each_word_that_is_not_plain_has_an_explanation(demo: Any) -> None:
    page = demo.page
    demo.open()  # a page of its own: in Firefox only the newest one's keys press its buttons
    demo.stream_text("né")
    expect(page.locator("#runtime")).to_have_accessible_name(re.compile("in WebAssembly$"))
    signs = page.get_by_role("button", name="What does")
    for n in range(signs.count()):
        sign = signs.nth(n)
        note = sign.locator("xpath=following-sibling::*[@role='note'][1]")
        expect(note).to_be_hidden()
        sign.focus()
        page.keyboard.press("Enter")
        expect(note).to_be_visible()
        box = note.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 1280 and box["y"] >= 0
        if n == 0:
            assert violations(page) == []
        page.keyboard.press("Escape")
        expect(note).to_be_hidden()
    assert signs.count() == 9
