"""`detok check` and `detok proxy`, as a person at a shell meets them: what is printed, what is
written, and the exit code.
"""

import contextlib
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import NamedTuple

import pytest
from chat_fixtures import FOLDER, fixtures
from local_server import free_port, local_server

from detok_py.cli import main

pytestmark = pytest.mark.one_browser


class Done(NamedTuple):
    code: int
    out: str
    err: str


def detok(*words):
    """Run the command in a thread of this process: Playwright's sync API may already have a loop in
    the main one.
    """

    def run():
        try:
            return main([str(word) for word in words])
        except SystemExit as error:  # what argparse raises
            return error.code

    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        ThreadPoolExecutor(1) as thread,
    ):
        code = thread.submit(run).result()
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture
def check(browser_name, browser_type_launch_args, monkeypatch):
    """Run `detok check` with the browser that is being tested."""
    monkeypatch.setenv(f"DETOK_{browser_name.upper()}", browser_type_launch_args["executable_path"])
    return lambda *words: detok("check", "--browser", browser_name, "--quiet", "200", *words)


@pytest.fixture
def one_browser(browser_name):
    if browser_name != "chromium":
        pytest.skip("one browser is enough for what no browser decides")


def ids(entries):
    return {one["id"] for one in entries}


# --- exit code 0, 1 -------------------------------------------------------------------------------
def test_a_clean_page_is_reported_and_the_exit_code_is_0(check, server):
    url = f"{server.url}/01-fresh-decoder.fixed.html"
    done = check(url)
    assert (done.code, done.err) == (0, "")
    said, compared = done.out.splitlines()
    assert said == f"No broken glyph was shown on {url}."
    assert compared.startswith("Whether text is missing was not checked")


def test_a_fault_is_reported_in_three_formats_and_the_exit_code_is_1(check, server, tmp_path):
    files = {form: tmp_path / f"verdict.{form}" for form in ("json", "junit", "html")}
    url = f"{server.url}/01-fresh-decoder.faulty.html"
    done = check(url, *[word for form, file in files.items() for word in (f"--{form}", file)])
    assert (done.code, done.err) == (1, "")
    assert (
        "ufffd-persistent (critical)" in done.out
        and "keep one decoder for the whole stream" in done.out
    )

    result = json.loads(files["json"].read_text())
    assert result["url"] == url
    (one, *_) = [one for one in result["violations"] if one["id"] == "ufffd-persistent"]
    assert one["target"] and "\ufffd" in one["text"] and one["frames"] >= 1 and one["painted"]
    assert one["screenshot"].startswith("iVBOR") and one["screenshot_kind"] == "page"

    suite = ElementTree.parse(files["junit"]).getroot()
    assert int(suite.get("failures")) == len(ids(result["violations"]))
    page = files["html"].read_text("utf-8")
    assert page.count("<img alt=") == len(
        [one for one in result["violations"] if "screenshot" in one]
    )
    assert one["screenshot"] in page and "<mark>\ufffd" in page


@pytest.mark.full
def test_a_dash_writes_to_stdout_and_nothing_else_does(check, server, one_browser):
    done = check(f"{server.url}/hidden-surrogate.faulty.html", "--json", "-")
    assert done.code == 1
    assert "lone-surrogate" in ids(json.loads(done.out)["violations"])


@pytest.mark.full
def test_as_a_program_of_its_own_it_ends_with_the_same_codes(
    browser_name, browser_type_launch_args, server
):
    environment = {
        **os.environ,
        f"DETOK_{browser_name.upper()}": browser_type_launch_args["executable_path"],
    }
    for twin, code in (("faulty", 1), ("fixed", 0)):
        words = [
            "check",
            f"{server.url}/hidden-one-frame.{twin}.html",
            "--browser",
            browser_name,
            "--quiet",
            "200",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "detok_py", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (code, ""), done.stdout


@pytest.mark.full
def test_self_proves_the_installation(check):
    done = check("--self")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("The mended page: clean.\nThis installation works.\n")


@pytest.mark.full
def test_webkit_is_checked_if_it_is_installed(one_browser):
    def present():
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            return Path(playwright.webkit.executable_path).exists()

    with ThreadPoolExecutor(1) as thread:
        if not thread.submit(present).result():
            pytest.skip(
                "no WebKit on this machine (`playwright install webkit`): the watcher is not tried in it"
            )
    done = detok("check", "--self", "--browser", "webkit")
    assert (done.code, done.err) == (0, "")


# --- driving --------------------------------------------------------------------------------------
@pytest.mark.full
def test_a_prompt_is_typed_and_sent(check, server):
    waiting = f"{server.url}/01-fresh-decoder.faulty.html?manual"
    assert check(waiting, "--prompt", "hello").code == 1


@pytest.mark.full
def test_a_page_that_gets_no_prompt_passes_and_the_verdict_says_that_no_answer_was_tested(
    check, server, one_browser
):
    done = check(f"{server.url}/01-fresh-decoder.faulty.html?manual")
    assert done.code == 0
    assert "No answer was asked for or seen, so none was tested" in done.out


@pytest.mark.full
def test_steps_type_send_and_wait(check, server, tmp_path):
    script = tmp_path / "steps.yaml"
    script.write_text(
        """
- wait_for: textarea
- type: {into: textarea, text: "say {prompt}"}
- click: button
- fill: once more
- press: Enter
- wait_for: "[data-role=assistant] >> nth=1"
- wait: 50
- settle: 200
"""
    )
    done = check(
        f"{server.url}/01-fresh-decoder.faulty.html?manual",
        "--script",
        script,
        "--prompt",
        "something",
        "--json",
        "-",
    )
    assert done.code == 1
    targets = {one["target"][0] for one in json.loads(done.out)["violations"]}
    assert len({re.sub(r" > span.*", "", target) for target in targets}) == 2, (
        targets
    )  # both answers


@pytest.mark.full
def test_the_true_text_finds_what_was_dropped(check, server, tmp_path):
    true_text = tmp_path / "true.txt"
    true_text.write_text(fixtures.TEXT, encoding="utf-8")
    words = ["--text", true_text, "--prompt", "hello", "--json", "-"]
    done = check(f"{server.url}/15-dropped.faulty.html?manual", *words)
    assert (done.code, ids(json.loads(done.out)["violations"])) == (1, {"dropped-text"})
    done = check(f"{server.url}/15-dropped.fixed.html?manual", *words)
    assert (done.code, json.loads(done.out)["violations"]) == (0, [])


@pytest.mark.full
def test_the_true_text_is_typed_if_there_is_no_prompt(check, server, tmp_path, one_browser):
    # The page then has it twice: the user's message, and an answer that drops some of it.
    true_text = tmp_path / "true.txt"
    true_text.write_text(fixtures.TEXT + "\n", encoding="utf-8")
    assert check(f"{server.url}/15-dropped.faulty.html?manual", "--text", true_text).code == 1
    assert check(f"{server.url}/15-dropped.fixed.html?manual", "--text", true_text).code == 0


@pytest.mark.full
def test_a_page_that_never_stops_changing_is_judged_after_the_timeout(check, server, one_browser):
    done = check(f"{server.url}/01-fresh-decoder.fixed.html?pause=2000", "--timeout", "4")
    assert done.code == 0
    assert "not-settled" in done.out


# --- cutting --------------------------------------------------------------------------------------
@pytest.mark.full
@pytest.mark.parametrize("split", ["every-byte", "token", "random:7"])
def test_a_fault_that_only_a_cut_shows_is_found(check, server, split):
    # The server sends whole lines: nothing is wrong with either page until the proxy cuts.
    whole = "cut=1000"
    if split == "every-byte":
        assert check(f"{server.url}/01-fresh-decoder.faulty.html?{whole}").code == 0
    done = check(
        f"{server.url}/01-fresh-decoder.faulty.html?{whole}",
        "--split",
        split,
        "--delay",
        "30",
        "--json",
        "-",
    )
    result = json.loads(done.out)
    assert done.code == 1 and "ufffd-persistent" in ids(result["violations"])
    (stream,) = [one for one in result["streams"] if "/wire/" in one["url"]]
    assert stream["finished"] and stream["bytes"] == len(fixtures.TEXT.encode())
    assert (
        stream["pieces"] == stream["bytes"]
        if split == "every-byte"
        else 5 < stream["pieces"] < stream["bytes"]
    )
    assert check(f"{server.url}/01-fresh-decoder.fixed.html?{whole}", "--split", split).code == 0


@pytest.mark.full
def test_what_the_proxy_read_is_the_true_text_if_none_is_given(check, server, one_browser):
    done = check(
        f"{server.url}/17-delete-every-replacement.fixed.html?literal",
        "--split",
        "every-byte",
        "--json",
        "-",
    )
    assert done.code == 0
    assert "ufffd-literal" in ids(json.loads(done.out)["passes"])


class Relay(BaseHTTPRequestHandler):
    """A chat server of the kind that asks the engine itself, and decodes each piece by itself."""

    protocol_version = "HTTP/1.1"
    engine = ""

    def do_GET(self):
        page = """<!doctype html><meta charset=utf-8><title>relay</title><link rel=icon href=data:,><main></main><script type=module>
            const decoder = new TextDecoder();
            for await (const c of (await fetch("answer")).body) document.querySelector("main").append(decoder.decode(c, { stream: true }));
        </script>"""
        self.send_response(200)
        self.send_header(
            "content-type",
            "text/html; charset=utf-8" if self.path == "/" else "text/plain; charset=utf-8",
        )
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        if self.path == "/":
            self.wfile.write(page.encode())
            return
        with urllib.request.urlopen(f"{self.engine}/wire/text?cut=1000", timeout=60) as answer:
            while piece := answer.read1(4096):
                self.wfile.write(piece.decode("utf-8", "replace").encode())


@pytest.mark.full
def test_a_page_whose_server_calls_the_engine_is_tested_through_the_proxys_port(
    check, server, one_browser
):
    port = free_port()
    Relay.engine = f"http://127.0.0.1:{port}"
    options = ("--upstream", server.url, "--listen", port, "--delay", "10", "--json", "-")
    with local_server(Relay) as relay:
        done = check(f"{relay.url}/", *options)
    result = json.loads(done.out)
    assert done.code == 1 and "ufffd-persistent" in ids(result["violations"])
    assert f"{server.url}/wire/text?cut=1000" in {one["url"] for one in result["streams"]}


class Embedding(BaseHTTPRequestHandler):
    """A UI that has the library in it. Nothing that it serves has a length, and no type but that of
    scripts and pages is known.
    """

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        page = """<!doctype html><meta charset=utf-8><title>embeds</title><link rel=icon href=data:,><main></main><script type=module>
            import { DetokStream } from "./src/index.js";
            document.documentElement.dataset.state = "streaming";
            const { body } = await fetch("answer");
            for await (const text of body.pipeThrough(new DetokStream({ stop: ["never"] }))) document.querySelector("main").append(text);
            document.documentElement.dataset.state = "finished";
        </script>"""
        if self.path == "/":
            kind, body = "text/html; charset=utf-8", page.encode()
        elif self.path == "/answer":
            kind, body = "application/octet-stream", fixtures.TEXT.encode()
        else:
            root = FOLDER.parents[2]
            file = root / ("web" if self.path.startswith("/src/") else ".build") / self.path[1:]
            kind = (
                "text/javascript" if file.suffix in (".js", ".mjs") else "application/octet-stream"
            )
            body = file.read_bytes()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))


@pytest.mark.full
def test_a_page_that_embeds_the_library_is_clean_and_only_its_answer_is_cut(check):
    with local_server(Embedding) as ui:
        done = check(ui.url, "--split", "every-byte", "--delay", "1", "--json", "-")
    result = json.loads(done.out)
    assert (done.code, result["violations"]) == (0, [])
    assert [one["url"] for one in result["streams"]] == [f"{ui.url}/answer"]
    assert "not-settled" not in ids(result["incomplete"])


@pytest.mark.full
def test_a_pair_in_two_events_is_the_engines_fault(check, server, one_browser):
    done = check(f"{server.url}/hidden-surrogate.faulty.html", "--split", "none", "--json", "-")
    result = json.loads(done.out)
    assert done.code == 1
    assert ids(result["violations"]) == {"upstream-broken", "lone-surrogate"}
    assert all("The engine" in one["cause_hint"] for one in result["violations"])


# --- judging --------------------------------------------------------------------------------------
@pytest.mark.full
def test_selectors_limit_what_is_judged(check, server, one_browser):
    url = f"{server.url}/01-fresh-decoder.faulty.html"
    assert check(url, "--within", "[data-role=user]").code == 0
    assert check(url, "--within", "[data-role=assistant]").code == 1
    assert check(url, "--exclude", "[data-role=assistant]").code == 0
    assert check(url, "--ignore", "ufffd-persistent", "--ignore", "ufffd-painted").code == 0


@pytest.mark.full
def test_a_glyph_that_the_model_sent_can_be_allowed(check, server, one_browser):
    url = f"{server.url}/literal.html"
    assert check(url).code == 1
    assert check(url, "--allow-literal").code == 0


# --- exit code 2 ----------------------------------------------------------------------------------
def sentence(done):
    """What could not be done, in one line on stderr."""
    assert done.code == 2, done
    assert done.out == ""
    (line,) = done.err.splitlines()
    return line


@pytest.mark.full
def test_a_check_needs_a_page(one_browser):
    assert "Which page?" in sentence(detok("check"))


@pytest.mark.full
def test_a_dead_address_could_not_be_checked(check):
    address = f"http://127.0.0.1:{free_port()}/"
    assert f"{address} cannot be opened" in sentence(check(address))


@pytest.mark.full
def test_a_missing_page_could_not_be_checked(check, server):
    assert "answers 404" in sentence(check(f"{server.url}/nothing.html"))


@pytest.mark.full
def test_a_missing_browser_is_named(monkeypatch, server, browser_name):
    variable = f"DETOK_{browser_name.upper()}"
    monkeypatch.setenv(variable, "/nowhere/browser")
    assert f"{variable}=/nowhere/browser" in sentence(
        detok("check", server.url, "--browser", browser_name)
    )


@pytest.mark.full
def test_the_error_for_a_missing_browser_says_how_to_get_one(
    monkeypatch, server, one_browser, tmp_path
):
    for variable in ("DETOK_CHROMIUM", "DETOK_WEBKIT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    said = sentence(detok("check", server.url, "--browser", "webkit"))
    assert said.endswith(
        "No webkit was found: run `playwright install webkit`, install one, or set DETOK_WEBKIT."
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "steps", "words"),
    [
        (
            "steps.yaml",
            "- dance: wildly",
            "step 1: {'dance': 'wildly'} is none of goto, click, fill, type, press",
        ),
        ("steps.yaml", "- press: Enter\n- just words", "step 2: 'just words' is none of"),
        ("steps.yaml", "- wait: soon", "step 1: wait takes milliseconds"),
        ("steps.yaml", "press: Enter", "must be a list of steps"),
        ("steps.yaml", "- {press: [", "is not YAML"),
        ("steps.json", "[{]", "is not JSON"),
        ("steps.json", '{"press": "Enter"}', "must be a list of steps"),
    ],
)
def test_a_bad_script_is_refused_before_a_browser_starts(tmp_path, one_browser, name, steps, words):
    script = tmp_path / name
    script.write_text(steps)
    assert words in sentence(detok("check", "http://127.0.0.1:1/", "--script", script))


@pytest.mark.full
def test_a_step_that_fails_is_named(check, server, tmp_path, one_browser):
    script = tmp_path / "steps.yaml"
    script.write_text('- wait_for: "#never"')
    done = check(f"{server.url}/tofu.html", "--script", script, "--timeout", "1")
    assert "step 1" in sentence(done) and "#never" in done.err


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--text", "nowhere.txt"], "nowhere.txt"),
        (["--script", "nowhere.yaml"], "nowhere.yaml"),
        (["--html", "nowhere/report.html"], "folder does not exist"),
        (["--split", "every-word"], "There is no split 'every-word'"),
        (["--split", "random:many"], "not a whole number"),
        (["--upstream", "localhost"], "is not an http address"),
        (["--only", "("], "'(' is not a regular expression"),
        (["--within", "[["], "'[[' is not a CSS selector"),
        (["--exclude", "p:first-"], "'p:first-' is not a CSS selector"),
        (
            ["--within", "#answer-that-is-not-there"],
            "No element of the page matches '#answer-that-is-not-there'",
        ),
    ],
)
def test_a_bad_value_is_one_sentence(
    check, server, one_browser, words, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert said in sentence(check(f"{server.url}/tofu.html", *words))


@pytest.mark.full
def test_a_true_text_that_is_not_utf8_is_refused(check, server, one_browser, tmp_path):
    (tmp_path / "true.txt").write_bytes(b"na\xefve")
    assert "is not UTF-8 at byte 2" in sentence(check(server.url, "--text", tmp_path / "true.txt"))


@pytest.mark.full
@pytest.mark.parametrize(
    "words",
    [
        ["--splitt", "token"],
        ["--browser", "netscape"],
        ["--ignore", "no-such-rule"],
        ["--timeout", "-1"],
        ["--listen", "70000"],
        ["--quiet", "x"],
    ],
)
def test_an_unknown_option_or_value_is_refused(one_browser, words):
    done = detok("check", "http://127.0.0.1:1/", *words)
    assert done.code == 2 and done.out == "" and done.err.splitlines()[-1].startswith("detok")


# --- detok proxy ----------------------------------------------------------------------------------
@contextlib.contextmanager
def proxy(*words):
    process = subprocess.Popen(
        [sys.executable, "-m", "detok_py", "proxy", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, process.stdout.readline()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@pytest.mark.full
def test_the_proxy_alone_cuts_streams_and_prints_their_text(server, one_browser):
    with proxy("--upstream", server.url, "--listen", "0", "--delay", "0") as (process, first):
        assert first.endswith(f"before {server.url}, split: every-byte. Ctrl+C ends it.\n")
        address = first.split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}/wire/text?cut=1000", timeout=60) as answer:
            assert answer.read().decode() == fixtures.TEXT
        said = process.stdout.readline()
        size = len(fixtures.TEXT.encode())
        assert (
            said
            == f"{server.url}/wire/text?cut=1000: {size} bytes in {size} pieces: {fixtures.TEXT[:60]!r}\n"
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.full
def test_the_proxy_is_a_browsers_proxy_if_no_upstream_is_given(server, one_browser):
    with proxy("--listen", "0", "--split", "token", "--delay", "0") as (_, first):
        assert "as a browser's HTTP proxy, split: token" in first
        host, _, port = first.split()[0].removeprefix("http://").partition(":")
        client = http.client.HTTPConnection(host, int(port), timeout=60)
        client.request("GET", f"{server.url}/wire/text")
        assert client.getresponse().read().decode() == fixtures.TEXT
        client.request("GET", "/wire/text")
        answer = client.getresponse()
        assert answer.status == 400 and b"start it with --upstream" in answer.read()
        client.close()


@pytest.mark.full
def test_a_port_that_is_in_use_is_named(one_browser):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}" in sentence(detok("proxy", "--listen", port))


@pytest.mark.full
@pytest.mark.parametrize("listen", ["0.0.0.0:9000", "0.0.0.0", "-1", "65536"])
def test_the_proxy_listens_on_loopback_only(one_browser, listen):
    done = detok("proxy", f"--listen={listen}")
    assert done.code == 2 and "--listen" in done.err.splitlines()[-1]
