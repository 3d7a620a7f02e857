"""WebKitGTK, driven by Selenium on a display that nobody sees: `make test-all` runs these tests.

Playwright does not drive Debian's WebKit, so there is a small set of tests for it alone. Where it
is missing they are skipped, with the reason.
"""

import os
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsers
import pytest
from served_bridge import Bridge

RECORDER = (Path(__file__).parents[1] / "browser" / "recorder.js").read_text("utf-8")
# Seconds. The first load of a page compiles 9.6 MB of WebAssembly.
PATIENCE = 120


@pytest.fixture(scope="session")
def display() -> Iterator[str]:
    """A display of its own, without a window manager."""
    program = shutil.which("Xvfb")
    if program is None:
        pytest.skip("WebKit: there is no Xvfb to show it on; tools/browsers.py --install may help.")
    out, into = os.pipe()
    process = subprocess.Popen(
        [program, "-displayfd", str(into), "-screen", "0", "1366x768x24", "-nolisten", "tcp"],
        pass_fds=[into],
        stderr=subprocess.DEVNULL,
    )
    os.close(into)
    with os.fdopen(out) as told:
        number = told.readline().strip()
    yield f":{number}"
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="session")
def webkit(display: str) -> Iterator[Any]:
    """A WebKit, started once for all tests."""
    try:
        program = browsers.usable("webkit")
    except browsers.BrowserNotFound as error:
        pytest.skip(f"WebKit: {error}; tools/browsers.py --install may help.")
    webdriver = pytest.importorskip("selenium.webdriver", reason="WebKit: Selenium is missing")
    options = webdriver.WebKitGTKOptions()
    options.binary_location = program
    options.add_argument("--automation")
    driver_program = shutil.which("WebKitWebDriver")
    service = webdriver.WebKitGTKService(driver_program, env={**os.environ, "DISPLAY": display})
    # Selenium's driver of WebKit uses what Selenium itself calls deprecated.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        driver = webdriver.WebKitGTK(options=options, service=service)
    driver.set_script_timeout(PATIENCE)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def bridge() -> Iterator[Bridge]:
    """The reciting model in llama.cpp, and the scripted engine."""
    bridge = Bridge("--engine", "recite")
    yield bridge
    bridge.stop()


class DemoPage:
    """The demo page in WebKit."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver = driver
        self.url = url

    def open(self, query: str = "") -> None:
        self.driver.get(f"{self.url}/{query}")
        assert self.wait_for("ready", "error") == "ready", self.alert
        self.record()

    def record(self) -> None:
        """Record each state of each pane, from here on."""
        self.driver.execute_script(
            RECORDER + "document.dispatchEvent(new Event('DOMContentLoaded'));"
        )

    def wait_for(self, *states: str) -> str:
        """Wait until the page is in one of these states."""
        state = self.driver.execute_async_script(
            """const [states, done] = arguments, { dataset } = document.documentElement;
            const look = () => (states.includes(dataset.state) ? done(dataset.state) : setTimeout(look, 10));
            look();""",
            list(states),
        )
        return str(state)

    @property
    def alert(self) -> str:
        return str(
            self.driver.execute_script("return document.getElementById('alert').textContent")
        )

    def text(self, pane: str) -> str:
        script = "return document.querySelector(`[data-pane=${arguments[0]}]`).textContent"
        return str(self.driver.execute_script(script, pane))

    def seen(self, pane: str) -> dict[str, Any]:
        return dict(self.driver.execute_script("return recorder.seen(arguments[0])", pane))

    def recite(self, text_id: str) -> str:
        self.driver.execute_script(
            """recorder.begin();
            document.querySelector("[name=source][value=engine]").click();
            document.getElementById("prompt-choice").value = arguments[0];
            document.getElementById("start").click();""",
            text_id,
        )
        return self.wait_for("finished", "error")


@pytest.fixture(scope="session")
def booted(webkit: Any, bridge: Bridge) -> DemoPage:
    """The page, booted once for all tests that only stream."""
    demo = DemoPage(webkit, bridge.url)
    demo.open()
    return demo


@pytest.fixture
def demo(webkit: Any, bridge: Bridge) -> DemoPage:
    """The page, not opened yet."""
    return DemoPage(webkit, bridge.url)
