"""How the browser tests start a browser: playwright.config.py says how, tools/browsers.py finds the
program.

Run as `pytest tests/browser --browser chromium` (or firefox), in a process of its own: once
Playwright's sync API has run in a process, `asyncio.run` no longer works there.
"""

import contextlib
import io
import json
import re
import runpy
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import browsers
import pytest
from chat_fixtures import fixtures
from complaints import heard
from frame_proxy import CuttingProxy
from library_rig import LibraryServer, wait_for_library
from playwright.sync_api import Error, expect
from served_bridge import Bridge
from static_folder import serving

from detok_py.cli import main

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = runpy.run_path(str(ROOT / "playwright.config.py"))
expect.set_options(timeout=SETTINGS["patience"])

# Hundreds of pages start a Python that they use for a second. If its WebAssembly is not compiled
# once more, for speed, Pyodide's start takes two fifths less CPU time in Chromium, a sixth less in
# Firefox. And no process waits for a next page. `make soak` has the browsers as readers have them.
# (Of several --disable-features the last one counts.)
QUICK = (
    "--js-flags=--liftoff-only",
    f"--disable-features={SETTINGS['chromium_features_off']},SpareRendererForSitePerProcess",
)


@pytest.fixture(scope="session")
def browser_type_launch_args(
    pytestconfig: Any, browser_type_launch_args: dict[str, Any], browser_name: str
) -> dict[str, Any]:
    """Pytest-playwright's launch options, with the program that was found and the arguments of
    playwright.config.py.
    """
    try:
        program = browsers.usable(browser_name)
    except browsers.BrowserNotFound as error:
        sentence = f"{browser_name.capitalize()}: {error}; tools/browsers.py --install may help."
        if browser_name == "firefox":
            pytest.skip(sentence)
        pytest.fail(sentence, pytrace=False)
    options = {**browser_type_launch_args, **SETTINGS["browsers"][browser_name]}
    quick = pytestconfig.getoption("--tier") != "soak"
    if browser_name == "firefox":
        options["firefox_user_prefs"] = {
            **options["firefox_user_prefs"],
            # Playwright does not reduce motion in a context of Firefox.
            "ui.prefersReducedMotion": 1,
            "javascript.options.wasm_optimizingjit": not quick,
        }
    elif quick:
        options["args"] = [*options["args"], *QUICK]
    return {**options, "executable_path": program, "timeout": SETTINGS["patience"]}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    # With reduced motion the page does not play its introduction, so that it waits for the test.
    return {**browser_context_args, "viewport": SETTINGS["viewport"], "reduced_motion": "reduce"}


@pytest.fixture
def context(context: Any) -> Any:
    context.set_default_timeout(SETTINGS["patience"])
    context.set_default_navigation_timeout(SETTINGS["patience"])
    return context


@pytest.fixture(scope="module")
def server() -> Any:
    """The chat pages that the regression kit is tried on, on a free port."""
    with fixtures.ChatServer() as running:
        yield running


CHAT = """<!doctype html><title>chat</title><input aria-label="Message"><main></main><script>
document.querySelector("input").onkeydown = async ({ key }) => {
  if (key !== "Enter") return;
  const { body } = await fetch("/v1/chat/completions", { method: "POST", body: "{}" });
  let decoder = new TextDecoder(), lines = "";
  for (let reader = body.getReader(), part; !(part = await reader.read()).done;) {
    if (ALONE) decoder = new TextDecoder();
    lines += decoder.decode(part.value, { stream: !ALONE });
    for (let at; (at = lines.indexOf("\\n")) >= 0; lines = lines.slice(at + 1)) {
      const line = lines.slice(0, at);
      if (line.startsWith("data: {"))
        document.querySelector("main").append(JSON.parse(line.slice(6)).choices[0].delta.content);
    }
  }
};
</script>"""


@pytest.fixture
def chat_pages(tmp_path: Path) -> Any:
    """The addresses of a chat page that decodes each chunk alone, and of one that does not."""
    for name in ("true", "false"):
        (tmp_path / f"{name}.html").write_text(CHAT.replace("ALONE", name))
    with serving(tmp_path) as address:
        yield [f"{address}/{name}.html" for name in ("true", "false")]


# ------------------------------------------------------------------- `detok check`, as in a shell


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def detok() -> Any:
    """Run the command in a thread of this process: Playwright's sync API may already have a loop in
    the main one.
    """

    def run(words: list[str]) -> Any:
        try:
            return main(words)
        except SystemExit as error:  # what argparse raises
            return error.code

    def detok(*words: Any) -> Done:
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            ThreadPoolExecutor(1) as thread,
        ):
            code = thread.submit(run, [str(word) for word in words]).result()
        return Done(code, out.getvalue(), err.getvalue())

    return detok


@pytest.fixture
def found_browser(
    browser_name: str, browser_type_launch_args: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> str:
    """The name of the browser that is being tested, whose program `detok check` finds."""
    monkeypatch.setenv(f"DETOK_{browser_name.upper()}", browser_type_launch_args["executable_path"])
    return browser_name


@pytest.fixture
def check(detok: Any, found_browser: str) -> Any:
    """Run `detok check` with the browser that is being tested."""
    return lambda *words: detok("check", "--browser", found_browser, "--quiet", "200", *words)


@pytest.fixture
def judge(check: Any) -> Any:
    """Run `detok check`; return its exit code and its verdict."""

    def judge(*words: Any) -> tuple[int, Any]:
        done = check(*words, "--json", "-")
        assert done.err == ""
        return done.code, json.loads(done.out)

    return judge


# ---------------------------------------------------------------- the page, served by a real bridge

RECORDER = (Path(__file__).parent / "recorder.js").read_text("utf-8")


@pytest.fixture(scope="session")
def bridge() -> Any:
    """The bridge that most tests share: the reciting model in llama.cpp, and the scripted
    engine.
    """
    bridge = Bridge("--engine", "recite")
    yield bridge
    bridge.stop()


@pytest.fixture
def start_bridge() -> Any:
    """Start bridges that belong to one test."""
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> Bridge:
            bridge = Bridge(*options)
            stack.callback(bridge.stop)
            return bridge

        yield start


class DemoPage:
    """The page with a recorder in it, the console's messages, and the URLs that it requested."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints = heard(page)
        self.requested: list[str] = []
        page.on("request", lambda request: self.requested.append(request.url))
        page.add_init_script(RECORDER)

    def open(self, query: str = "", state: str = "ready") -> None:
        self.page.goto(self.url + "/" + query)
        self.wait_for(state)
        # Firefox writes these two lines about a socket that was still connecting when its page
        # was left; no page can prevent them.
        left = f"{self.url.replace('http', 'ws', 1)}/stream"
        for line in (
            f"pageerror: Firefox can’t establish a connection to the server at {left}.",
            f"pageerror: The connection to {left} was interrupted while the page was loading.",
        ):
            if line in self.complaints:
                self.complaints.remove(line)

    def in_mid_answer(self, act: str, when: str = "pane.textContent.length > 30") -> None:
        """Let the page act once, by itself, when it has shown 31 characters of an answer, or when
        something else is true: the answer may be over before a test has looked at it. `acted` says
        what it had shown.
        """
        self.page.add_init_script(
            """if (!sessionStorage.getItem("shown")) document.addEventListener("DOMContentLoaded", () => {
              const pane = document.querySelector("[data-pane=held]");
              const look = new MutationObserver(() => {
                if (!(WHEN)) return;
                look.disconnect();
                sessionStorage.setItem("shown", pane.textContent);
                ACT;
              });
              look.observe(document.body, { childList: true, characterData: true, subtree: true });
            });""".replace("ACT", act).replace("WHEN", when)
        )

    def acted(self) -> str:
        """Wait until the page has acted in mid-answer; return what it had shown then."""
        self.page.wait_for_function("() => sessionStorage.getItem('shown')")
        return str(self.page.evaluate("() => sessionStorage.getItem('shown')"))

    def wait_for(self, *states: str) -> str:
        wanted = re.compile(f"^({'|'.join(states)})$")
        expect(self.page.locator("html")).to_have_attribute("data-state", wanted)
        return self.state

    @property
    def state(self) -> str:
        return str(self.page.locator("html").get_attribute("data-state"))

    @property
    def alert(self) -> str:
        alert = self.page.locator("#alert")
        return str(alert.text_content()) if alert.is_visible() else ""

    def text(self, pane: str) -> str:
        return str(self.page.locator(f"[data-pane={pane}]").text_content())

    def seen(self, pane: str) -> dict[str, Any]:
        """Return what the recorder saw in a pane since `recorder.begin()`."""
        return dict(self.page.evaluate("pane => recorder.seen(pane)", pane))

    def stream_text(
        self, text: str, *, cut: str = "byte", pace: int = 5000, fault: str = ""
    ) -> str:
        """Stream a text with the form's settings; return the state that it ends in."""
        # One call instead of six: the suite streams some hundred texts.
        self.page.evaluate(
            """([text, cut, pace, fault]) => {
              recorder.begin();
              document.querySelector("[name=source][value=text]").click();
              document.getElementById("own-text").value = text;
              document.getElementById("cut").value = cut;
              const choose = (id, value) => {
                const list = document.getElementById(id);
                if (![...list.options].some((option) => option.value === value)) list.append(new Option(value, value));
                list.value = value;
              };
              choose("pace", String(pace));
              choose("fault", fault);
              choose("speed", "0"); // a test that failed may have left another one
              document.getElementById("speed").dispatchEvent(new Event("change"));
              document.getElementById("start").click();
            }""",
            [text, cut, pace, fault],
        )
        return self.wait_for("finished", "error")

    def save(self) -> str:
        """Return the capture that Save makes."""
        # Playwright reports no downloads of Firefox over BiDi, so the file is taken before the
        # download.
        text = self.page.evaluate(
            """async () => {
              const plain = URL.createObjectURL;
              const saved = new Promise((resolve) => {
                URL.createObjectURL = (blob) => (resolve(blob), plain.call(URL, blob));
              });
              document.getElementById("export").click();
              try {
                return await (await saved).text();
              } finally {
                URL.createObjectURL = plain;
              }
            }"""
        )
        return str(text)

    def recite(self, text_id: str) -> str:
        """Let the engine recite a text; return the state that it ends in."""
        self.page.evaluate(
            """(id) => {
              recorder.begin();
              document.querySelector("[name=source][value=engine]").click();
              document.getElementById("prompt-choice").value = id;
              document.getElementById("start").click();
            }""",
            text_id,
        )
        return self.wait_for("finished", "error")


@pytest.fixture(scope="session")
def booted_once(browser: Any, bridge: Bridge, browser_context_args: dict[str, Any]) -> Any:
    context = browser.new_context(**browser_context_args)
    demo = DemoPage(context.new_page(), bridge.url)
    demo.open()
    yield demo
    context.close()


# What an earlier test has chosen.
CHOOSE_NOTHING = """() => {
  document.getElementById("tab-tokens").click();
  document.getElementById("stop-strings").value = "";
  document.getElementById("channels").checked = false;
}"""


@pytest.fixture
def booted(booted_once: Any) -> Any:
    """The page, booted once for all tests that only stream: Python needs a second to start, a text
    a tenth of one.
    """
    booted_once.page.bring_to_front()  # in Firefox, a page behind another one has no focus
    booted_once.page.set_viewport_size(SETTINGS["viewport"])
    booted_once.page.evaluate(CHOOSE_NOTHING)
    return booted_once


@pytest.fixture
def demo(page: Any, bridge: Bridge) -> DemoPage:
    """A page of its own for one test, not opened yet."""
    return DemoPage(page, bridge.url)


@pytest.fixture
def first_visit(new_context: Any, bridge: Bridge) -> Any:
    """The page of a reader who has nothing against motion: it plays its introduction."""
    context = new_context()
    context.add_init_script(
        """const matching = matchMedia;
        window.matchMedia = (query) =>
          matching(query.replace("(prefers-reduced-motion: reduce)", "not all"));"""
    )
    return DemoPage(context.new_page(), bridge.url)


@pytest.fixture
def new_demo(page: Any) -> Any:
    """The page of a bridge that the test started itself."""
    return lambda url: DemoPage(page, url)


@pytest.fixture
def cutting_proxy() -> Any:
    """Make proxies that cut."""
    with contextlib.ExitStack() as stack:
        yield lambda target: stack.enter_context(contextlib.closing(CuttingProxy(target)))


# --------------------------------------------------- the client library, in pages of the tests' own


@pytest.fixture(scope="session")
def served() -> Any:
    """A bridge that also serves the pages in tests/browser/pages/."""
    with contextlib.closing(LibraryServer()) as server:
        yield server


@pytest.fixture(scope="session")
def open_library(browser: Any, served: LibraryServer, browser_context_args: dict[str, Any]) -> Any:
    """Open a page of modules, or one of classic scripts, that has the library and has done nothing
    with it.
    """
    contexts = []

    def open_page(kind: str = "module") -> Any:
        context = browser.new_context(**browser_context_args)
        contexts.append(context)
        page = context.new_page()
        page.complaints = heard(page)
        page.goto(f"{served.url}/pages/{kind}.html")
        wait_for_library(page)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def library(open_library: Any) -> Any:
    """A page with the library, for all tests that leave its worker alive."""
    return open_library()


@pytest.fixture(scope="session", params=["module", "classic"])
def either_page(request: pytest.FixtureRequest, open_library: Any, library: Any) -> Any:
    """That page, and one of classic scripts."""
    return library if request.param == "module" else open_library("classic")


@pytest.fixture(autouse=True)
def _complaints_of_its_own(request: pytest.FixtureRequest) -> None:
    """What an earlier test did wrong on purpose is not the next one's."""
    for name in ("library", "either_page"):
        if name in request.fixturenames:
            request.getfixturevalue(name).complaints.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """A page that tests share is loaded again when one has failed: what that one left open must
    not fail the others. If the page cannot be loaded, the next test says so: an error of a hook
    would end the whole run.
    """
    report = yield
    if report.failed and call.when == "call":
        with contextlib.suppress(Error, AssertionError):
            for page in {item.funcargs.get(name) for name in ("library", "either_page")} - {None}:
                page.reload()
                wait_for_library(page)
            if "booted" in item.funcargs:
                item.funcargs["booted"].open()
    return report


# Firefox runs what is marked `engine` in `make test`, of the rest every third case of a function in
# `make test-all`, and the other cases and what is marked `one_browser` or opens no page in `make
# soak`. What needs a window is in `make test-all`. Pages of modules are tested in Chromium,
# those of classic scripts in Firefox, and the other way round in `make soak`.
DAILY_PAGES = {"chromium": "module", "firefox": "classic"}


# A wrapper, as that of tests/conftest.py is, which reads the marks.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> Generator[None]:
    without_page = "firefox" if config.getoption("--browser") == ["firefox"] else ""
    cases: Counter[Any] = Counter()
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        browser = params.get("browser_name", without_page)
        once = "browser_name" not in params or item.get_closest_marker("one_browser")
        daily = DAILY_PAGES.get(browser)
        if params.get("either_page", daily) != daily or (browser == "firefox" and once):
            item.add_marker(pytest.mark.soak)
        elif browser == "firefox" and not item.get_closest_marker("engine"):
            item.add_marker(pytest.mark.full)
            function = (item.path, item.originalname)
            if cases[function] % 3:
                item.add_marker(pytest.mark.soak)
            cases[function] += 1
        if item.get_closest_marker("window"):
            item.add_marker(pytest.mark.full)
    yield
