"""A page that is loaded again, or whose worker is killed, takes up the answer that was coming: the whole text, one generation."""

import re
import urllib.request
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

TEXT = "日本語 and 👩‍🚀, ไทย; " * 16
# So that a test can end the page's worker behind its back, as a browser that runs out of memory does: no event says so.
REMEMBER_WORKERS = "window.Worker = class extends Worker { constructor(...given) { super(...given); window.lastWorker = this; } };"


def slow(pace: int = 50) -> str:
    return f"?text={quote(TEXT)}&cut=byte&pace={pace}"


def counted(url: str, name: str) -> float:
    """Return what a bridge says of one of its counters, over all labels."""
    with urllib.request.urlopen(url + "/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{|\s)", line))


def some_of_it_is_there(demo: Any, least: int = 30) -> str:
    demo.page.wait_for_function("(n) => document.querySelector('[data-pane=held]').textContent.length > n", arg=least)
    return str(demo.text("held"))


@pytest.fixture
def quiet(start_bridge: Any) -> Any:
    """A bridge that nobody else asks anything."""
    return start_bridge("--engine", "recite")


def test_a_page_loaded_again_in_mid_answer_shows_the_whole_answer_of_one_generation(page: Any, quiet: Any, new_demo: Any) -> None:
    demo = new_demo(quiet.url)
    demo.open(slow(), state="streaming")
    before = some_of_it_is_there(demo)
    assert TEXT.startswith(before) and before != TEXT
    page.reload()
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == TEXT
    held = demo.seen("held")
    assert (held["replacements"], held["takenBack"]) == (0, 0)
    assert counted(quiet.url, "detok_requests_total") == 1
    assert counted(quiet.url, "detok_resumes_total") == 1
    # It is over: a page that is loaded now begins anew.
    page.reload()
    assert demo.wait_for("ready") == "ready"


# Not every day: a page that is loaded again just when a quick answer ends may be told that the bridge no longer has it, and it has to be
# asked for again by hand. The cause is not yet known for certain; the model is so quick that this test meets it now and then.
@pytest.mark.soak
def test_an_answer_of_the_model_is_taken_up_by_its_ids_when_the_page_is_loaded_again(page: Any, quiet: Any, new_demo: Any) -> None:
    demo = new_demo(quiet.url)
    demo.open("?prompt=japanese", state="ready")
    assert demo.wait_for("finished", "error") == "finished"
    whole = demo.text("held")
    assert whole
    for _ in range(20):
        page.get_by_role("button", name="Start", exact=True).click()
        # The model may have said all before anybody has looked; then it is asked once more.
        part = page.wait_for_function(
            """(whole) => {
              const { textContent } = document.querySelector("[data-pane=held]"), { state } = document.documentElement.dataset;
              if (state !== "streaming" && state !== "finished") return null;
              if (textContent === whole) return state === "finished" ? { part: false } : null;
              return textContent ? { part: true } : null;
            }""",
            arg=whole,
        )
        if part.json_value()["part"]:
            break
    else:
        pytest.fail("the answer was never seen while it came")
    page.reload()
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == whole


def test_a_killed_worker_keeps_what_came_and_a_new_one_takes_the_answer_up(page: Any, quiet: Any, new_demo: Any) -> None:
    page.add_init_script(REMEMBER_WORKERS)
    demo = new_demo(quiet.url)
    demo.open(slow(), state="streaming")
    before = some_of_it_is_there(demo)
    page.evaluate("() => lastWorker.terminate()")
    assert demo.wait_for("error", "finished") == "error"
    assert "worker" in demo.alert and "kept" in demo.alert
    assert demo.text("held").startswith(before)
    page.get_by_role("button", name="Try again").click()
    assert demo.wait_for("finished", timeout=90_000) == "finished"
    assert demo.text("held") == TEXT
    assert counted(quiet.url, "detok_requests_total") == 1


def test_an_answer_that_the_bridge_no_longer_keeps_is_said_and_can_be_asked_for_again(page: Any, demo: Any) -> None:
    demo.open()
    page.evaluate(
        """() => sessionStorage.setItem("detok-answer", JSON.stringify(
          { request: { id: "0123456789abcdef", want: "both", stop: [] }, lang: "", search: location.search }))"""
    )
    page.reload()
    assert demo.wait_for("error", "finished") == "error"
    expect(page.locator("#alert")).to_contain_text("no longer")
    page.reload()
    assert demo.wait_for("ready") == "ready"


def test_another_address_in_the_same_tab_is_another_question(page: Any, quiet: Any, new_demo: Any) -> None:
    demo = new_demo(quiet.url)
    demo.open(slow(), state="streaming")
    some_of_it_is_there(demo)
    demo.open("?text=né", state="finished")
    assert demo.text("held") == "né"
