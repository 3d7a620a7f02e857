"""A page that is reloaded, or whose worker is killed, resumes the answer that was coming: the whole
text, one generation.
"""

import json
import re
import urllib.request
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

TEXT = "日本語 and 👩‍🚀, ไทย; " * 8
SLOWLY = f"?runtime=micropython&text={quote(TEXT)}&cut=byte&pace=100"
# So that a test can end the page's worker without an event, as a browser that runs out of memory
# does.
REMEMBER_WORKERS = "window.Worker = class extends Worker { constructor(...given) { super(...given); window.lastWorker = this; } };"


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def counted(url: str, name: str) -> float:
    """Return one of a bridge's counters, summed over all labels."""
    lines = fetched(url + "/metrics").splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}(\{{|\s)", line)
    )


@pytest.fixture
def quiet(start_bridge: Any) -> Any:
    """A bridge that only this test uses."""
    return start_bridge("--engine", "recite")


@pytest.mark.sampled(3)
def test_a_page_reloaded_in_mid_answer_shows_the_whole_answer_of_one_generation(
    page: Any, quiet: Any, new_demo: Any
) -> None:
    demo = new_demo(quiet.url)
    demo.in_mid_answer("location.reload()")
    page.goto(quiet.url + "/" + SLOWLY)
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    before = demo.acted()
    assert TEXT.startswith(before) and before != TEXT
    assert demo.text("held") == TEXT
    held = demo.seen("held")
    assert (held["replacements"], held["takenBack"]) == (0, 0)
    assert counted(quiet.url, "detok_requests_total") == 1
    assert counted(quiet.url, "detok_resumes_total") == 1
    # The answer is over: a page that is loaded now does not resume it.
    page.reload()
    assert demo.wait_for("ready") == "ready"


@pytest.mark.one_browser
@pytest.mark.full
def test_an_answer_of_the_model_is_resumed_by_its_ids_after_a_reload(
    page: Any, quiet: Any, new_demo: Any
) -> None:
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
    demo = new_demo(quiet.url)
    texts = {text["id"]: text["text"] for text in json.loads(fetched(quiet.url + "/texts.json"))}
    page.goto(quiet.url + "/?runtime=micropython&prompt=ja")
    page.wait_for_function("() => sessionStorage.getItem('loaded-again')")
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == texts["ja"]
    assert counted(quiet.url, "detok_requests_total") == 1
    assert counted(quiet.url, "detok_resumes_total") == 1


@pytest.mark.full
def test_a_page_reloaded_at_the_moment_of_the_end_shows_the_whole_answer(
    page: Any, quiet: Any, new_demo: Any
) -> None:
    # Its worker has seen the end before and has acknowledged it to the bridge.
    page.add_init_script(
        """if (!sessionStorage.getItem("loaded-again")) Storage.prototype.removeItem = () => {
          sessionStorage.setItem("loaded-again", "yes");
          location.reload();
        };"""
    )
    demo = new_demo(quiet.url)
    page.goto(f"{quiet.url}/?text={quote(TEXT)}&cut=byte&pace=5000")
    page.wait_for_function("() => sessionStorage.getItem('loaded-again')")
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == TEXT
    assert counted(quiet.url, "detok_requests_total") == 1
    assert counted(quiet.url, "detok_resumes_total") == 1


@pytest.mark.one_browser
@pytest.mark.full
@pytest.mark.parametrize(
    "arrived", [False, True], ids=["the request was lost", "the request arrived"]
)
def test_a_page_reloaded_before_the_bridge_replied_asks_again_and_there_is_one_answer(
    page: Any, quiet: Any, new_demo: Any, arrived: bool
) -> None:
    # A reader who has done something gets no introduction, which would be a second answer.
    page.add_init_script(
        "document.addEventListener('DOMContentLoaded', () => dispatchEvent(new Event('keydown')))"
    )
    demo = new_demo(quiet.url)
    demo.open("?runtime=micropython")
    request = {
        "id": "0123456789abcdef",
        "prompt": "",
        "params": {"engine": "scripted", "text": TEXT, "cut": "byte", "pace": 500},
    }
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
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == TEXT
    assert counted(quiet.url, "detok_requests_total") == 1
    assert counted(quiet.url, "detok_resumes_total") == arrived


def with_a_killed_worker(page: Any, demo: Any) -> Any:
    """Return a page whose worker has ended in mid-answer."""
    page.add_init_script(REMEMBER_WORKERS)
    demo.in_mid_answer("lastWorker.terminate()")
    page.goto(demo.url + "/" + SLOWLY)
    assert demo.wait_for("error", "finished") == "error"
    return demo


@pytest.mark.full
def test_a_killed_worker_keeps_the_text_and_a_new_one_resumes_the_answer(
    page: Any, quiet: Any, new_demo: Any
) -> None:
    demo = with_a_killed_worker(page, new_demo(quiet.url))
    assert "worker" in demo.alert and "kept" in demo.alert
    assert demo.text("held").startswith(demo.acted())
    page.route("**/samples/*", lambda route: route.abort())
    page.locator("#samples button").first.click()
    expect(page.locator("#alert")).not_to_contain_text("worker")  # another alert keeps the way out
    page.get_by_role("button", name="Try again").click()
    assert demo.wait_for("finished") == "finished"
    assert demo.text("held") == TEXT
    assert counted(quiet.url, "detok_requests_total") == 1


@pytest.mark.one_browser
@pytest.mark.full
def test_what_had_arrived_stays_if_the_bridge_has_lost_the_answer(
    page: Any, quiet: Any, new_demo: Any
) -> None:
    demo = with_a_killed_worker(page, new_demo(quiet.url))
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
def test_another_address_in_the_same_tab_is_another_question(
    page: Any, quiet: Any, new_demo: Any
) -> None:
    demo = new_demo(quiet.url)
    demo.in_mid_answer("location.assign('?text=né')")
    page.goto(quiet.url + "/" + SLOWLY)
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == "né"
