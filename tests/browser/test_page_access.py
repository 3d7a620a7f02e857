"""What axe finds on the page in each of its states, and the marks that say what is broken."""

from pathlib import Path
from typing import Any

import pytest
from axe import faults
from media import emulate
from playwright.sync_api import expect

pytestmark = pytest.mark.one_browser

ROOT = Path(__file__).resolve().parents[2]
BROKEN = ROOT / "tests" / "fixtures" / "streams" / "report-broken-utf8.sse"


def show_wild(page: Any) -> None:
    """Show the fourth pane, which works only then."""
    choice = page.get_by_role("button", name="Found in the wild")
    if choice.get_attribute("aria-pressed") != "true":
        choice.click()
    expect(page.locator("#pane-wild")).to_be_visible()


@pytest.fixture
def broken(booted: Any) -> Any:
    """The page with a stream that arrived broken."""
    booted.page.locator("#import-file").set_input_files(BROKEN)
    expect(booted.page.locator("#alert")).to_contain_text("The engine broke 2 places.")
    booted.page.locator("#to-end").click()
    expect(booted.page.locator("[data-pane=held]")).to_have_text("Re\ufffd\ufffdé ok")
    return booted


def test_damage_that_arrived_is_marked_in_the_text_and_has_a_name(broken: Any) -> None:
    for pane in ("held", "naive"):
        marks = broken.page.locator(f"[data-pane={pane}]").get_by_role("img")
        expect(marks).to_have_text(["\ufffd", "\ufffd"])
        for n, place in enumerate(("line 1, event 1", "line 3, event 2")):
            expect(marks.nth(n)).to_have_accessible_name(
                f"Broken by the engine ({place}): The engine wrote the bytes of each token into an event "
                "of its own: they are not UTF-8 by themselves."
            )
    # What a decoder breaks itself has another mark.
    broken.stream_text("né", cut="byte")
    naive = broken.page.locator("[data-pane=naive]")
    expect(naive.get_by_role("img")).to_have_count(0)
    expect(naive.locator(".broken")).to_have_text("\ufffd\ufffd")
    assert broken.page.locator("[data-pane=held] span").count() == 0


@pytest.mark.full
@pytest.mark.parametrize("state", ["capture", "report", "faults", "lanes", "phone", "your text"])
def test_axe_finds_nothing(broken: Any, state: str) -> None:
    page = broken.page
    if state == "report":
        page.evaluate("() => { navigator.clipboard.writeText = async () => {}; }")
        page.locator("#report").click()
        expect(page.locator("#alert")).to_contain_text("The report is in the clipboard")
        page.evaluate("() => { delete navigator.clipboard.writeText; }")
    elif state == "faults":
        page.locator("#tab-faults").click()
        expect(page.locator("#fault-list")).to_contain_text("line 1, event 1")
    elif state == "lanes":
        broken.stream_text("né", cut="byte")
        page.locator("#tab-times").click()
        expect(page.locator("#times canvas")).to_be_visible()
    elif state == "phone":
        page.set_viewport_size({"width": 390, "height": 844})
        page.get_by_role("button", name="HAR, a proxy’s fault").click()
        expect(page.locator("#source-name")).to_have_text("proxy.har")
        show_wild(page)
    elif state == "your text":
        broken.stream_text("né <think>日本</think> 😀", cut="byte", fault="truncate")
    assert faults(page) == []


@pytest.mark.full
def test_what_is_chosen_is_told_apart_in_forced_colors(booted: Any) -> None:
    booted.stream_text("né", cut="byte")
    page = booted.page
    show_wild(page)
    emulate(page, "forced-colors", "active")
    styles = """(some) => some.map((one) => {
      const { backgroundColor, outlineStyle } = getComputedStyle(one);
      return `${backgroundColor} ${outlineStyle}`;
    })"""
    choices = page.locator(".more-panes button")
    off, on = choices.evaluate_all(styles)
    assert off != on
    page.locator(".chip").nth(1).hover()
    expect(page.locator(".chip.linked")).to_have_count(1)
    linked, other = page.locator(".chip.linked, .chip:nth-child(1)").evaluate_all(styles)
    assert linked != other
    page.emulate_media(forced_colors="none")


@pytest.mark.full
def test_axe_finds_nothing_while_the_introduction_plays(first_visit: Any) -> None:
    page = first_visit.page
    # Half a character waits for a moment only.
    waits = "document.getElementById('hold-text').textContent.includes('waiting for')"
    first_visit.in_mid_answer("document.getElementById('pause').click()", when=waits)
    first_visit.open("?runtime=micropython")
    expect(page.locator("#hold-text")).to_contain_text("waiting for")
    assert faults(page) == []
    page.locator("#pause").click()
    expect(page.locator("html[data-playback=playing]")).to_be_attached()
    assert faults(page) == []


WORK = """async () => {
  const panes = document.getElementById("panes");
  const counts = [];
  for (const id of ["step-back", "step-back", "step", "step-back"]) {
    let touched = 0;
    const count = (records) => {
      for (const { addedNodes, removedNodes } of records) touched += 1 + addedNodes.length + removedNodes.length;
    };
    const watch = new MutationObserver(count);
    watch.observe(panes, { childList: true, characterData: true, subtree: true });
    const before = document.getElementById("position").textContent;
    document.getElementById(id).click();
    while (document.getElementById("position").textContent === before)
      await new Promise((resolve) => requestAnimationFrame(resolve));
    count(watch.takeRecords());
    watch.disconnect();
    counts.push(touched);
  }
  return [Math.max(...counts), panes.querySelectorAll("*").length];
}"""


@pytest.mark.full
def test_the_work_of_a_step_does_not_grow_with_the_stream(booted: Any) -> None:
    work = {}
    show_wild(booted.page)
    for times in (1, 20):
        text = "Each word is one or two tokens, and 日本語 and 😀 break. " * 40 * times
        assert booted.stream_text(text, cut="byte", pace=0) == "finished"
        wild = booted.page.locator("#pane-wild")
        broken = text.replace("日本語", "\ufffd" * 9).replace("😀", "\ufffd" * 4)
        expect(wild).to_have_text(broken)
        work[times] = booted.page.evaluate(WORK)
    (small, few), (large, many) = work[1], work[20]
    # A step back over the beginning of a block also removes that block.
    assert large <= small + 20
    # A block out of view is one text node. Only blocks in view have elements.
    assert many < 3 * few
