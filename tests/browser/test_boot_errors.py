"""Where the library's Python cannot start, the page is told at once which file or which policy it
is.
"""

import contextlib
import http.server
import json
from pathlib import Path

import pytest
from local_server import local_server
from playwright.sync_api import expect

from detok_py.bridge.assets import TYPES

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"/src/": ROOT / "web" / "src", "/runtime/": ROOT / ".build" / "runtime"}
SCRIPT = """
import { warmUp } from "/src/index.js";
const options = location.hash ? { runtime: location.hash.slice(1), cache: false } : {};
const { name, kind, message, isRetryable, stack } = await warmUp(options).catch((error) => error);
document.querySelector("output").textContent = JSON.stringify({ name, kind, message, isRetryable, stack: String(stack) });
"""
PAGE = b"""<!doctype html><link rel="icon" href="data:,"><output></output><script type="module" src="/page.js"></script>"""
ALLOWED = "script-src 'self' 'wasm-unsafe-eval'"

WORKER, MODULE = "/src/decoder-worker.js", "/runtime/micropython.mjs"
WASM, PARTS = "/runtime/micropython.wasm", "/runtime/detok_micropython.bin"

# What is wrong: of one file (by its end) the status, the type or the headers. Then what the
# sentence names.
FAULTS = {
    "no worker": (WORKER, {"status": 404}, [WORKER, "404"]),
    "no micropython.mjs": (MODULE, {"status": 404}, [MODULE, "404"]),
    "no micropython.wasm": (WASM, {"status": 500}, [WASM, "500"]),
    "no modules": (PARTS, {"status": 404}, [PARTS, "404"]),
    "a page instead of a file": (WASM, {"type": "text/html"}, [WASM, "text/html"]),
    "worker is plain text": (WORKER, {"type": "text/plain"}, [WORKER, "text/plain"]),
    "module is plain text": (MODULE, {"type": "text/plain"}, [MODULE, "text/plain"]),
    "worker forbidden": (
        "/",
        {"policy": ALLOWED + "; worker-src 'none'"},
        [WORKER, "worker-src"],
    ),
    "no WebAssembly": (WORKER, {"policy": "script-src 'self'"}, [WORKER, "'wasm-unsafe-eval'"]),
    "requests forbidden": ("", {"policy": ALLOWED + "; connect-src 'none'"}, ["connect-src"]),
    "worker without the page's embedder policy": (
        "/",
        {"embedder": "require-corp"},
        [WORKER, "Cross-Origin-Embedder-Policy"],
    ),
    "another policy for trusted types": (
        "/",
        {"policy": ALLOWED + "; require-trusted-types-for 'script'; trusted-types other"},
        ["detok-library"],
    ),
}


class Files(http.server.BaseHTTPRequestHandler):
    """The sources and the runtime, but for the server's fault."""

    def do_GET(self):
        end, fault = self.server.fault
        path = self.path.partition("?")[0]
        if not path.endswith(end):
            fault = {}
        elif fault.get("status"):
            return self._answer(fault["status"], "text/plain", b"no", {})
        if path == "/":
            return self._answer(200, "text/html", PAGE, fault)
        if path == "/page.js":
            return self._answer(200, "text/javascript", SCRIPT.encode(), fault)
        for start, folder in FOLDERS.items():
            file = folder / path.removeprefix(start)
            if path.startswith(start) and file.is_file():
                body = b"<!doctype html>" if fault.get("type") == "text/html" else file.read_bytes()
                type_ = TYPES.get(file.suffix, "application/octet-stream")
                return self._answer(200, type_, body, fault)
        return self._answer(404, "text/plain", b"not here", {})

    def _answer(self, status, type_, body, fault):
        self.send_response(status)
        self.send_header("content-type", fault.get("type", type_))
        self.send_header("content-length", str(len(body)))
        if "policy" in fault:
            self.send_header("content-security-policy", fault["policy"])
        if "embedder" in fault:
            self.send_header("cross-origin-embedder-policy", fault["embedder"])
        self.end_headers()
        with contextlib.suppress(OSError):  # the page may have what it wanted to know
            self.wfile.write(body)


@pytest.fixture(scope="module")
def site():
    with local_server(Files) as server:
        yield server


def told(page, site, end, fault, runtime=""):
    site.fault = (end, fault)
    page.goto(f"{site.url}/{runtime and '#' + runtime}")
    expect(page.locator("output")).not_to_be_empty()
    return json.loads(page.locator("output").text_content())


@pytest.mark.engine
@pytest.mark.sampled(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_page_is_told_what_failed_and_does_not_wait(page, site, fault):
    end, what, named = FAULTS[fault]
    said = told(page, site, end, what)
    kind = "network" if "status" in what else "policy"
    assert (said["name"], said["kind"]) == ("DetokError", kind), said
    for word in named:
        assert word in said["message"], said
    assert said["isRetryable"] is (kind == "network")
    assert "nothing came for" not in said["message"]  # as it says after the time limit


PYODIDE = ["boot-pyodide.js", "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_core.json", "python_core.zip"]  # fmt: skip

# One of each way to be asked for: as a module, as WebAssembly, by `fetch`.
WAYS = ["pyodide.mjs", "pyodide.asm.wasm", "python_core.json"]


@pytest.mark.engine
@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "type_"),
    [
        *[
            pytest.param(file, type_, marks=[] if file in WAYS else pytest.mark.one_browser)
            for file in PYODIDE
            for type_ in (None, "text/html")
        ],
        ("pyodide.asm.wasm", "application/octet-stream"),
    ],
)
def test_each_file_of_pyodide_is_named(page, site, file, type_):
    fault = {"type": type_} if type_ else {"status": 404}
    said = told(page, site, file, fault, "pyodide")
    assert (said["name"], said["kind"]) == ("DetokError", "policy" if type_ else "network"), said
    assert f"/{file} " in said["message"] and (type_ or "HTTP 404") in said["message"]
    assert "nothing came for" not in said["message"]


@pytest.mark.full
@pytest.mark.parametrize("has_why", [True, False])
def test_a_browser_that_is_offline_is_told_so(page, site, has_why):
    """The file that finds out why may be among those that cannot be had."""
    site.fault = ("nothing", {})
    page.goto(f"http://127.0.0.1:{site.server_port}/nothing-here")
    files = ["/src/index.js", "/src/why.js"][: 1 + has_why]
    load = "async (files) => { for (const file of files) globalThis.lib ??= await import(file); await import(files.at(-1)); }"
    page.evaluate(load, files)
    page.context.set_offline(True)
    try:
        kind, message = page.evaluate(
            "() => globalThis.lib.warmUp().catch(({ kind, message }) => [kind, message])"
        )
    finally:
        page.context.set_offline(False)
    assert kind == "network"
    assert "/src/decoder-worker.js" in message
    assert "offline" in message or not has_why


@pytest.mark.full
def test_a_server_that_is_gone_is_told_with_the_file(page, site):
    page.route("**/micropython.wasm", lambda route: route.abort())
    said = told(page, site, "nothing", {})
    assert said["kind"] == "network"
    assert "/runtime/micropython.wasm could not be reached" in said["message"]


@pytest.mark.only_browser("chromium")  # others leave the message out of the stack
def test_stacks_begin_with_the_name_of_the_error(page, site):
    said = told(page, site, "worker.js", {"status": 404})
    assert said["stack"].startswith("DetokError: ")


@pytest.mark.engine
def test_a_page_of_another_origin_is_told_that_the_bridge_refuses_it(page, site, served):
    told(page, site, "nothing", {})
    address = served.url.replace("http", "ws") + "/stream"
    said = page.evaluate(
        """async (url) => {
          const { connect } = await import("/src/index.js");
          const { reason, error } = await connect(url, { prompt: "x" }).finished;
          return [reason, error.name, error.kind, error.code, error.isRetryable, error.message];
        }""",
        address,
    )
    assert said[:5] == ["error", "DetokError", "bridge", 4403, False]
    assert "--allow-origin" in said[5]
