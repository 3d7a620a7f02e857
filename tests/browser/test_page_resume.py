"""A page that is reloaded, or whose worker is killed, resumes the answer that was coming: the whole
text, one generation.
"""

import re
import urllib.request
from typing import Any
from urllib.parse import quote

import pytest
from library_rig import scripted
from playwright.sync_api import expect

from detok_py.bridge.engines.recite import texts

TEXT = "日本語 and 👩‍🚀, ไทย; " * 8
SLOWLY = f"?runtime=micropython&text={quote(TEXT)}&cut=byte&pace=100"
# So that a test can end the page's worker without an event, as a browser that runs out of memory
# does.
REMEMBER_WORKERS = "window.Worker = class extends Worker { constructor(...given) { super(...given); window.lastWorker = this; } };"


def counted(url: str, name: str) -> float:
    """Return one of a bridge's counters, summed over all labels."""
    with urllib.request.urlopen(url + "/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{|\s)", line)
    )


@pytest.fixture
def bridge(start_bridge: Any) -> Any:
    """A bridge that only this test uses."""
    return start_bridge("--engine", "recite")


def check_whole(demo: Any, text: str, resumes: int = 1) -> None:
    """Check that the page ends with the whole text, of one generation."""
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == text
    assert counted(demo.url, "detok_requests_total") == 1
    assert counted(demo.url, "detok_resumes_total") == resumes


@pytest.mark.sampled(3)
def test_a_page_reloaded_in_mid_answer_shows_the_whole_answer_of_one_generation(
    page: Any, demo: Any
) -> None:
    demo.in_mid_answer("location.reload()")
    page.goto(demo.url + "/" + SLOWLY)
    check_whole(demo, TEXT)
    before = demo.acted()
    assert TEXT.startswith(before) and before != TEXT
    held = demo.seen("held")
    assert (held["replacements"], held["takenBack"]) == (0, 0)
    # The answer is over: a page that is loaded now does not resume it.
    page.reload()
    assert demo.wait_for("ready") == "ready"


@pytest.mark.one_browser
@pytest.mark.full
def test_an_answer_of_the_model_is_resumed_by_its_ids_after_a_reload(page: Any, demo: Any) -> None:
    # The model answers within hundredths of a second, so the page reloads itself at the moment in
    # which the answer begins.
    page.add_init_script(
        """if (!sessionStorage.getItem("loaded-again")) {
          const { setItem } = Storage.prototype;
          Storage.prototype.removeItem = () => {};  // this page ignores the end of the answer
          Storage.prototype.setItem = function (key, value) {
            setItem.call(this, key, value);
            if (!JSON.parse(value).request.resume) return;
            setItem.call(this, "loaded-again", "yes");
            location.reload();
          };
        }"""
    )
    [text] = [text["text"] for text in texts() if text["id"] == "ja"]
    page.goto(demo.url + "/?runtime=micropython&prompt=ja")
    page.wait_for_function("() => sessionStorage.getItem('loaded-again')")
    check_whole(demo, text)


@pytest.mark.full
def test_a_page_reloaded_at_the_moment_of_the_end_shows_the_whole_answer(
    page: Any, demo: Any
) -> None:
    # Its worker has seen the end before and has acknowledged it to the bridge.
    page.add_init_script(
        """if (!sessionStorage.getItem("loaded-again")) Storage.prototype.removeItem = () => {
          sessionStorage.setItem("loaded-again", "yes");
          location.reload();
        };"""
    )
    page.goto(f"{demo.url}/?runtime=micropython&text={quote(TEXT)}&cut=byte&pace=5000")
    # The first page goes on, and may finish its answer, until the second one is there.
    page.wait_for_function("() => performance.getEntriesByType('navigation')[0].type === 'reload'")
    check_whole(demo, TEXT)


@pytest.mark.one_browser
@pytest.mark.full
@pytest.mark.parametrize(
    "arrived", [False, True], ids=["the request was lost", "the request arrived"]
)
def test_a_page_reloaded_before_the_bridge_replied_asks_again_and_there_is_one_answer(
    page: Any, demo: Any, arrived: bool
) -> None:
    # A reader who has done something gets no introduction, which would be a second answer.
    page.add_init_script(
        "document.addEventListener('DOMContentLoaded', () => dispatchEvent(new Event('keydown')))"
    )
    demo.open("?runtime=micropython")
    request = {"id": "0123456789abcdef", "prompt": "", **scripted(TEXT, pace=500)}
    page.evaluate(
        """([request, arrived]) => {
          const want = "both", coming = { request: { ...request, want, stop: [] }, lang: "", search: location.search };
          sessionStorage.setItem("detok-answer", JSON.stringify(coming));
          if (!arrived) return;
          const socket = new WebSocket(location.origin.replace("http", "ws") + "/stream", "detok.v1");
          return new Promise((resolve) => {
            socket.onmessage = ({ data }) => {
              if (String(data).includes('"hello"')) socket.send(JSON.stringify({ type: "generate", ...request, messages: null, want }));
              else resolve();
            };
          });
        }""",
        [request, arrived],
    )
    page.reload()
    check_whole(demo, TEXT, resumes=arrived)


def kill_the_worker(page: Any, demo: Any) -> None:
    """Open the page, and end its worker in mid-answer."""
    page.add_init_script(REMEMBER_WORKERS)
    demo.in_mid_answer("lastWorker.terminate()")
    page.goto(demo.url + "/" + SLOWLY)
    assert demo.wait_for("error", "finished") == "error"


@pytest.mark.full
def test_a_killed_worker_keeps_the_text_and_a_new_one_resumes_the_answer(
    page: Any, demo: Any
) -> None:
    kill_the_worker(page, demo)
    assert "worker" in demo.alert and "kept" in demo.alert
    assert demo.text("held").startswith(demo.acted())
    page.route("**/samples/*", lambda route: route.abort())
    page.locator("#samples button").first.click()
    expect(page.locator("#alert")).not_to_contain_text("worker")  # another alert keeps the way out
    page.get_by_role("button", name="Try again").click()
    check_whole(demo, TEXT)


@pytest.mark.one_browser
@pytest.mark.full
def test_what_had_arrived_stays_if_the_bridge_has_lost_the_answer(page: Any, demo: Any) -> None:
    kill_the_worker(page, demo)
    arrived = demo.text("held")
    page.evaluate(
        """() => {
          const kept = JSON.parse(sessionStorage.getItem("detok-answer"));
          kept.request.id = kept.request.resume = "ffffffffffffffff";
          sessionStorage.setItem("detok-answer", JSON.stringify(kept));
        }"""
    )
    page.get_by_role("button", name="Try again").click()
    alert = page.locator("#alert")
    expect(alert).to_contain_text("no longer has this run")
    expect(alert).to_contain_text("What had arrived is kept below.")
    assert demo.text("held") == arrived
    expect(page.locator("#export")).to_be_enabled()


@pytest.mark.one_browser
@pytest.mark.full
def test_an_answer_that_the_bridge_no_longer_keeps_is_reported_and_can_be_asked_for_again(
    page: Any, demo: Any
) -> None:
    demo.open("?runtime=micropython")
    page.evaluate(
        """() => {
          const request = { id: "0123456789abcdef", resume: "0123456789abcdef", want: "both", stop: [] };
          sessionStorage.setItem("detok-answer", JSON.stringify({ request, lang: "", search: location.search }));
        }"""
    )
    page.reload()
    assert demo.wait_for("error", "finished") == "error"
    expect(page.locator("#alert")).to_contain_text("no longer")
    page.reload()
    assert demo.wait_for("ready") == "ready"


@pytest.mark.one_browser
@pytest.mark.full
def test_another_address_in_the_same_tab_is_another_question(page: Any, demo: Any) -> None:
    demo.in_mid_answer("location.assign('?text=né')")
    page.goto(demo.url + "/" + SLOWLY)
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == "né"
