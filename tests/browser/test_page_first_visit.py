"""What a reader sees who has done nothing yet: a stream that plays by itself."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.one_browser, pytest.mark.full]


def test_it_is_the_embedded_model_in_two_panes_also_on_a_phone(first_visit: Any) -> None:
    page = first_visit.page
    page.set_viewport_size({"width": 390, "height": 844})
    first_visit.open("?runtime=micropython")
    expect(page.locator("#pane-naive")).to_contain_text("\ufffd")
    expect(page.locator("html")).to_have_attribute("data-state", "ready")
    expect(page.locator("#source-name")).to_have_text("engine")
    expect(page.locator("#engine-name")).to_have_text("llama.cpp · recite.gguf")
    expect(page.locator("#runtime-name")).to_have_text("MicroPython in WebAssembly")
    # llama.cpp sends bytes; the bridge knows the ids of all these tokens.
    expect(page.locator("#engine-fidelity")).to_have_text("token ids, exact")
    # Slow enough to be read, and the controls show what plays.
    expect(page.locator("#speed")).to_have_value("15")
    expect(page.locator("#position")).to_have_text(re.compile(r"^\d+ / 7\d\d$"))
    expect(page.locator("#prompt-choice")).to_have_value("hello")
    for pane in ("held", "naive"):
        assert page.locator(f"#pane-{pane}").bounding_box()["y"] < 600
    for pane in ("stream", "wild"):
        expect(page.locator(f"#pane-{pane}")).to_be_hidden()
    page.locator("#start").click()
    expect(page.locator("html")).to_have_attribute("data-state", "finished")


def test_without_a_vocabulary_a_text_is_cut_into_bytes_and_nothing_is_red(
    first_visit: Any, start_bridge: Any
) -> None:
    page = first_visit.page
    page.goto(start_bridge("--engine", "scripted").url + "/?runtime=micropython")
    expect(page.locator("#pane-naive")).to_contain_text("\ufffd")
    expect(page.locator("html")).to_have_attribute("data-state", "ready")
    expect(page.locator("#source-name")).to_have_text("your text")
    expect(page.locator("#alert")).to_be_hidden()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1366, 768)])
def test_the_first_screen_has_the_panes_with_whole_lines_and_whole_tokens(
    demo: Any, width: int, height: int
) -> None:
    page = demo.page
    page.set_viewport_size({"width": width, "height": height})
    text = "naïve%20日本%20" * 40
    demo.open(f"?runtime=micropython&cut=byte&pace=0&text={text}", state="finished")
    expect(page.locator(".chip.current")).to_be_attached()
    # At least four lines of the first pane are on the first screen.
    assert height - page.locator("#pane-held").bounding_box()["y"] > 4 * 30
    lines, cut = page.evaluate("""() => {
      const lines = [...document.querySelectorAll(".text")]
        .filter((text) => text.clientHeight)
        .map((text) => text.clientHeight / parseFloat(getComputedStyle(text).lineHeight));
      const { top } = document.querySelector("#timeline").getBoundingClientRect();
      const cut = [...document.querySelectorAll(".chip")]
        .map((chip) => chip.getBoundingClientRect())
        .filter((chip) => chip.top < top - 1 && chip.bottom > top + 1);
      return [lines, cut.length];
    }""")
    assert lines == pytest.approx([round(line) for line in lines], abs=0.05)
    assert cut == 0
