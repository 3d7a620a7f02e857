"""The page reports everything that can go wrong in one readable sentence, and keeps the text that
had arrived.
"""

import contextlib
from typing import Any
from urllib.parse import quote

import pytest
from frame_proxy import FrameProxy
from playwright.sync_api import Error, expect

from detok_py.decode.vocabulary import Vocabulary

pytestmark = pytest.mark.one_browser

SLOW_TEXT = "日本語 😀 " * 40
OTHER_VOCABULARY = Vocabulary.from_bytes([b"x", b"y"]).pack()
# Takes a minute, so that it goes on when a test has looked at its beginning.
SLOWLY = f"?runtime=micropython&text={quote(SLOW_TEXT)}&cut=byte&pace=8"


def some_text_is_there(demo: Any) -> str:
    expect(demo.page.locator("[data-pane=held]")).to_contain_text("日本")
    return str(demo.text("held"))


def test_an_engine_that_is_down_is_reported_with_the_way_out(
    page: Any, start_bridge: Any, new_demo: Any
) -> None:
    demo = new_demo(start_bridge("--engine", "http://127.0.0.1:9").url)
    demo.open("?runtime=micropython")
    page.get_by_role("button", name="Start", exact=True).click()
    assert demo.wait_for("error") == "error"
    assert "No engine answers at http://127.0.0.1:9" in demo.alert
    expect(page.get_by_role("alert")).to_be_visible()
    # The page goes on: the scripted engine of the same bridge still streams.
    assert demo.stream_text("né") == "finished"
    assert demo.text("held") == "né"
    assert demo.alert == ""


@pytest.mark.full
def test_an_engine_lost_in_mid_answer_keeps_the_text_that_came(demo: Any) -> None:
    demo.open("?runtime=micropython")
    assert demo.stream_text(SLOW_TEXT, fault="crash") == "error"
    held = demo.seen("held")
    assert held["takenBack"] == 0
    # The crash falls inside a character: one replacement character stands for its first bytes.
    assert held["last"].endswith("\ufffd")
    assert SLOW_TEXT.startswith(held["last"][:-1]) and len(held["last"]) > 50
    assert "crashed" in demo.alert and "kept" in demo.alert
    demo.page.locator("#alert button").click()
    assert demo.wait_for("streaming", "error", "finished")


@pytest.mark.full
def test_a_bridge_that_dies_is_noticed_and_the_text_stays(
    page: Any, start_bridge: Any, new_demo: Any
) -> None:
    bridge = start_bridge("--engine", "scripted")
    proxy = FrameProxy(bridge.url)
    # The page tries for as long as the bridge keeps runs, which is a minute.
    proxy.instead = (b'"keep_seconds":60', b'"keep_seconds": 9')
    demo = new_demo(proxy.url)
    demo.open(SLOWLY, state="streaming")
    before = some_text_is_there(demo)
    bridge.kill()
    expect(page.locator("#alert")).to_contain_text("Trying again")
    assert demo.wait_for("error") == "error"
    assert "connection to the bridge was lost" in demo.alert
    assert demo.text("held").startswith(before)
    assert demo.seen("held")["takenBack"] == 0
    proxy.close()


@pytest.mark.full
def test_a_bridge_that_was_started_again_is_named_and_stop_ends_the_attempts(
    page: Any, start_bridge: Any, new_demo: Any
) -> None:
    bridge = start_bridge("--engine", "scripted")
    demo = new_demo(bridge.url)
    demo.open(SLOWLY, state="streaming")
    some_text_is_there(demo)
    alert = page.locator("#alert")
    bridge.kill()
    expect(alert).to_contain_text("Trying again")
    page.locator("#stop").click()
    assert demo.wait_for("finished", "error") == "finished"
    # Attempts that were under way say nothing any more.
    expect(alert).to_be_hidden()
    expect(page.locator("#start")).to_be_focused()
    port = bridge.url.rpartition(":")[2]
    bridge = start_bridge("--engine", "scripted", "--port", port)
    page.locator("#start").click()
    demo.wait_for("streaming")
    some_text_is_there(demo)
    bridge.kill()
    start_bridge("--engine", "scripted", "--port", port)
    assert demo.wait_for("error") == "error"
    expect(alert).to_contain_text("The bridge was started again, and the new one does not know")
    alert.get_by_role("button").click()
    expect(page.locator("#stop")).to_be_focused()


@pytest.mark.full
def test_a_lost_connection_is_resumed_and_nothing_is_missing_or_doubled(
    page: Any, bridge: Any, cutting_proxy: Any, new_demo: Any
) -> None:
    text = "日本語 and 😀, " * 100
    proxy = cutting_proxy(bridge.url)
    proxy.budgets = [2000, 3000]
    demo = new_demo(proxy.url)
    page.goto(f"{proxy.url}/?runtime=micropython&text={quote(text)}&cut=byte&pace=1000")
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert proxy.cuts == 2
    assert demo.text("held") == text
    held = demo.seen("held")
    assert (held["replacements"], held["takenBack"]) == (0, 0)
    assert demo.alert == ""


@pytest.mark.full
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param({"body": OTHER_VOCABULARY}, "nothing is decoded", id="not the announced one"),
        pytest.param({"status": 404}, "HTTP 404", id="missing"),
    ],
)
def test_a_vocabulary_that_cannot_be_had_is_reported(
    demo: Any, answer: dict[str, Any], said: str
) -> None:
    demo.page.context.route("**/vocabulary/*.detok", lambda route: route.fulfill(**answer))
    demo.open("?runtime=micropython")
    demo.page.get_by_role("button", name="Start", exact=True).click()
    assert demo.wait_for("error") == "error"
    assert "vocabulary" in demo.alert and said in demo.alert
    assert demo.text("held") == ""


@pytest.mark.full
def test_a_runtime_that_does_not_load_is_given_up_after_the_time_limit(demo: Any) -> None:
    held_up: list[Any] = []
    demo.page.context.route("**/runtime/pyodide.asm.wasm", lambda route: held_up.append(route))
    demo.open("?boot-timeout=3000", state="error")
    assert "Python could not be loaded" in demo.alert
    assert "pyodide.asm.wasm did not answer within 5 s" in demo.alert
    demo.page.context.unroute("**/runtime/pyodide.asm.wasm")
    for route in held_up:
        with contextlib.suppress(Error):  # the worker that asked is gone
            route.abort()
    # The way out works. A busy machine can need more than one attempt within this time limit.
    for _ in range(5):
        demo.page.get_by_role("button", name="Try again").click()
        demo.page.wait_for_selector("html:not([data-state=loading])", state="attached")
        if demo.state == "ready":
            break
    assert demo.state == "ready"


@pytest.mark.full
def test_a_missing_runtime_is_reported(demo: Any) -> None:
    demo.page.context.route(
        "**/runtime/manifest.json", lambda route: route.fulfill(status=404, body="no")
    )
    demo.open("", state="error")
    assert "manifest" in demo.alert and "404" in demo.alert
    expect(demo.page.get_by_role("button", name="Start", exact=True)).to_be_disabled()


def test_stop_ends_a_stream_and_keeps_its_text(demo: Any) -> None:
    demo.open(SLOWLY, state="streaming")
    some_text_is_there(demo)
    demo.page.get_by_role("button", name="Stop", exact=True).click()
    assert demo.wait_for("finished", "error") == "finished"
    expect(demo.page.locator("#status")).to_have_text("Stopped.")
    assert len(demo.text("held")) < len(SLOW_TEXT)
    assert SLOW_TEXT.startswith(demo.text("held").rstrip("\ufffd"))


@pytest.mark.full
def test_a_stall_is_waited_for(demo: Any) -> None:
    demo.open("?runtime=micropython")
    assert demo.stream_text("before 日本 after", fault="stall") == "finished"
    assert demo.text("held") == "before 日本 after"
