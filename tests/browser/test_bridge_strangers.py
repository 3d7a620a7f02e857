"""A real browser as an attacker: a page of another origin, and a name that was rebound to this
machine. Both have 0 successes.
"""

import copy
from typing import Any

import pytest
from library_rig import scripted
from local_server import local_server
from static_folder import Lenient

PROBE = """async (base) => {
  const socket = (protocols) => new Promise((resolve) => {
    const ws = new WebSocket(base.replace("http", "ws") + "/stream", protocols);
    // A socket of detok.v1 that is refused hears nothing but the reason.
    ws.onmessage = () => resolve("open");
    ws.onclose = ({ code }) => resolve([1006, 4403].includes(code) ? "refused" : `closed with ${code}`);
  });
  const read = (path, options) =>
    fetch(base + path, options).then((answer) => answer.text()).then((text) => text || "nothing", () => "refused");
  const script = (path) => new Promise((resolve) => {
    const element = document.createElement("script");
    try {
      element.src = base + path;
    } catch {
      resolve("refused"); // our own pages take no script address that is only text (Trusted Types)
    }
    element.onload = () => resolve("open");
    element.onerror = () => resolve("refused");
    document.head.append(element);
  });
  return {
    socket: await socket(["detok.v1"]),
    plain: await socket([]),
    info: await read("/info"),
    withCookies: await read("/info", { credentials: "include" }),
    post: await read("/info", { method: "POST", body: "x" }),
    opaque: await read("/info", { mode: "no-cors" }),
    script: await script("/src/decoder-worker.js"),
  };
}"""


@pytest.fixture
def stranger() -> Any:
    """Somebody else's server, with the library on it; what is not there is a page of it too."""
    with local_server(Lenient) as server:
        yield server.url


@pytest.mark.engine
def test_a_page_of_another_origin_gets_no_socket_and_reads_nothing(
    page: Any, bridge: Any, stranger: str
) -> None:
    page.goto(stranger)
    got = page.evaluate(PROBE, bridge.url)
    # What a page may not read it gets as nothing or as an error, whatever it asks for.
    assert {got[name] for name in ("socket", "plain", "info", "withCookies", "post", "script")} == {
        "refused"
    }, got
    assert got["opaque"] in ("refused", "nothing")


@pytest.mark.full
def test_the_bridge_s_own_page_gets_both(page: Any, bridge: Any) -> None:
    """The probe itself works: without this the test above could pass for a wrong reason."""
    page.goto(bridge.url + "/healthz")
    got = page.evaluate(PROBE, bridge.url)
    assert got["socket"] == "open"
    assert '"vocabulary"' in got["info"]


@pytest.mark.full
def test_an_origin_that_was_allowed_gets_a_socket(
    page: Any, start_bridge: Any, stranger: str
) -> None:
    bridge = start_bridge("--engine", "scripted", "--allow-origin", stranger)
    page.goto(stranger)
    got = page.evaluate(PROBE, bridge.url)
    assert got["socket"] == "open"
    assert '"engine"' in got["info"]
    assert got["withCookies"] == "refused"


@pytest.mark.full
def test_a_name_that_was_rebound_to_this_machine_gets_nothing(
    bridge: Any, browser_type: Any, browser_type_launch_args: dict[str, Any], browser_name: str
) -> None:
    options = copy.deepcopy(browser_type_launch_args)
    if browser_name == "chromium":
        rule = "--host-resolver-rules=MAP evil.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        options["args"] = [
            argument for argument in options["args"] if "host-resolver-rules" not in argument
        ] + [rule]
    else:
        options["firefox_user_prefs"].update(
            {"network.dns.localDomains": "evil.test", "network.proxy.type": 0}
        )
    port = bridge.url.rpartition(":")[2]
    browser = browser_type.launch(**options)
    try:
        page = browser.new_page()
        answer = page.goto(f"http://evil.test:{port}/")
        assert answer.status == 421
        assert "data-state" not in page.content()
        got = page.evaluate(PROBE, f"http://evil.test:{port}")
        assert got["socket"] == got["plain"] == "refused"
        assert "vocabulary" not in str(got)
        assert got["script"] == "refused"
    finally:
        browser.close()


# What a script that had got into our page might try, and the directive that stops it.
INJECTED = {
    "img-src": "document.body.append(Object.assign(new Image(), { src: '/runtime/manifest.json' }))",
    "connect-src": "fetch('http://127.0.0.1:9/').catch(() => {})",
    "frame-src": "document.body.append(Object.assign(document.createElement('iframe'), { src: '/healthz' }))",
    "style-src-elem": "document.head.append(Object.assign(document.createElement('style'), { textContent: 'p{}' }))",
    "media-src": "document.body.append(Object.assign(document.createElement('audio'), { src: '/a.ogg' }))",
    "base-uri": "document.head.append(Object.assign(document.createElement('base'), { href: 'http://127.0.0.1:9/' }))",
    "require-trusted-types-for": "try { document.body.innerHTML = '<b>x</b>' } catch {}",
}


@pytest.mark.full
def test_each_injected_probe_is_one_violation(page: Any, bridge: Any) -> None:
    page.goto(bridge.url + "/healthz")
    page.evaluate(
        """() => {
          globalThis.violations = [];
          addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
        }"""
    )
    seen: list[str] = []
    for directive, script in INJECTED.items():
        assert page.evaluate("() => violations") == seen
        page.evaluate("() => { " + script + " }")
        seen.append(directive)
        page.wait_for_function(f"() => violations.length >= {len(seen)}")
    # One that is late would come before the violation of a probe that is injected again.
    directive, script = next(iter(INJECTED.items()))
    page.evaluate("() => { " + script + " }")
    page.wait_for_function(f"() => violations.length > {len(seen)}")
    assert page.evaluate("() => violations") == [*seen, directive]


@pytest.mark.engine
def test_a_page_of_another_origin_connects_with_the_bridge_s_token(
    page: Any, start_bridge: Any, stranger: str, monkeypatch: Any
) -> None:
    """The library of the page's own server, and a bridge elsewhere that wants a token: for its
    socket and for its vocabulary.
    """
    token = "a-token-of-sixteen-or-more"
    monkeypatch.setenv("DETOK_TOKEN", token)
    bridge = start_bridge("--engine", "scripted", "--allow-origin", stranger)
    stream = bridge.url.replace("http", "ws") + "/stream"
    page.goto(stranger + "/")
    got = page.evaluate(
        """async ([url, options]) => {
          const { connect } = await import("/src/index.js");
          const answer = connect(url, { runtime: "micropython", runtimeUrl: "/runtime/", want: "both", ...options });
          let text = "";
          answer.addEventListener("delta", ({ detail }) => (text += detail.text));
          const { reason, error } = await answer.finished;
          return [text, reason, error?.message ?? ""];
        }""",
        [stream, {"token": token, "prompt": "", **scripted("café 🌦️")}],
    )
    assert got == ["café 🌦️", "eos", ""]
