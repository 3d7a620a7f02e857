"""`detok check` and `detok proxy`, as a person at a shell meets them: what is printed, what is
written, and the exit code.
"""

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree as ElementTree
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from chat_fixtures import FOLDER, fixtures
from local_server import free_port, local_server

pytestmark = pytest.mark.one_browser


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
def test_as_a_program_of_its_own_it_ends_with_the_same_codes(found_browser, server):
    for twin, code in (("faulty", 1), ("fixed", 0)):
        url = f"{server.url}/hidden-one-frame.{twin}.html"
        words = f"check {url} --browser {found_browser} --quiet 200"
        done = subprocess.run(
            [sys.executable, "-m", "detok_py", *words.split()],
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
def test_webkit_is_checked_if_it_is_installed(detok, playwright, one_browser):
    if not Path(playwright.webkit.executable_path).exists():
        pytest.skip(
            "no WebKit on this machine (`playwright install webkit`): the watcher is not tried in it"
        )
    done = detok("check", "--self", "--browser", "webkit")
    assert (done.code, done.err) == (0, "")


# --- driving --------------------------------------------------------------------------------------
@pytest.mark.full
def test_a_page_that_gets_no_prompt_passes_and_the_verdict_says_that_no_answer_was_tested(
    check, server, one_browser
):
    done = check(f"{server.url}/01-fresh-decoder.faulty.html?manual")
    assert done.code == 0
    assert "No answer was asked for or seen, so none was tested" in done.out


@pytest.mark.full
def test_steps_type_send_and_wait(judge, server, tmp_path):
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
    url = f"{server.url}/01-fresh-decoder.faulty.html?manual"
    code, verdict = judge(url, "--script", script, "--prompt", "something")
    assert code == 1
    targets = {one["target"][0] for one in verdict["violations"]}
    answers = {re.sub(r" > span.*", "", target) for target in targets}
    assert len(answers) == 2, targets


@pytest.mark.full
def test_the_true_text_finds_what_was_dropped(judge, server, tmp_path):
    true_text = tmp_path / "true.txt"
    true_text.write_text(fixtures.TEXT, encoding="utf-8")
    words = ["--text", true_text, "--prompt", "hello"]
    code, verdict = judge(f"{server.url}/15-dropped.faulty.html?manual", *words)
    assert (code, ids(verdict["violations"])) == (1, {"dropped-text"})
    code, verdict = judge(f"{server.url}/15-dropped.fixed.html?manual", *words)
    assert (code, verdict["violations"]) == (0, [])


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
def test_a_fault_that_only_a_cut_shows_is_found(check, judge, server, split):
    # The server sends whole lines: nothing is wrong with either page until the proxy cuts.
    faulty, fixed = [
        f"{server.url}/01-fresh-decoder.{twin}.html?cut=1000" for twin in ("faulty", "fixed")
    ]
    if split == "every-byte":
        assert check(faulty).code == 0
    code, verdict = judge(faulty, "--split", split, "--delay", "30")
    assert code == 1 and "ufffd-persistent" in ids(verdict["violations"])
    (stream,) = [one for one in verdict["streams"] if "/wire/" in one["url"]]
    size = len(fixtures.TEXT.encode())
    assert stream["finished"] and stream["bytes"] == size
    assert stream["pieces"] == size if split == "every-byte" else 5 < stream["pieces"] < size
    assert check(fixed, "--split", split).code == 0


@pytest.mark.full
def test_what_the_proxy_read_is_the_true_text_if_none_is_given(judge, server, one_browser):
    url = f"{server.url}/17-delete-every-replacement.fixed.html?literal"
    code, verdict = judge(url, "--split", "every-byte")
    assert code == 0
    assert "ufffd-literal" in ids(verdict["passes"])


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
    judge, server, one_browser
):
    port = free_port()
    Relay.engine = f"http://127.0.0.1:{port}"
    options = ("--upstream", server.url, "--listen", port, "--delay", "10")
    with local_server(Relay) as relay:
        code, verdict = judge(f"{relay.url}/", *options)
    assert code == 1 and "ufffd-persistent" in ids(verdict["violations"])
    assert f"{server.url}/wire/text?cut=1000" in {one["url"] for one in verdict["streams"]}


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
def test_a_page_that_embeds_the_library_is_clean_and_only_its_answer_is_cut(judge):
    with local_server(Embedding) as ui:
        code, verdict = judge(ui.url, "--split", "every-byte", "--delay", "1")
    assert (code, verdict["violations"]) == (0, [])
    assert [one["url"] for one in verdict["streams"]] == [f"{ui.url}/answer"]
    assert "not-settled" not in ids(verdict["incomplete"])


@pytest.mark.full
def test_a_pair_in_two_events_is_the_engines_fault(judge, server, one_browser):
    code, verdict = judge(f"{server.url}/hidden-surrogate.faulty.html", "--split", "none")
    assert code == 1
    assert ids(verdict["violations"]) == {"upstream-broken", "lone-surrogate"}
    assert all("The engine" in one["cause_hint"] for one in verdict["violations"])


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
def test_a_check_needs_a_page(detok, one_browser):
    assert "Which page?" in sentence(detok("check"))


@pytest.mark.full
def test_a_dead_address_could_not_be_checked(check):
    address = f"http://127.0.0.1:{free_port()}/"
    assert f"{address} cannot be opened" in sentence(check(address))


@pytest.mark.full
def test_a_missing_page_could_not_be_checked(check, server):
    assert "answers 404" in sentence(check(f"{server.url}/nothing.html"))


@pytest.mark.full
def test_a_missing_browser_is_named(monkeypatch, server, detok, browser_name):
    variable = f"DETOK_{browser_name.upper()}"
    monkeypatch.setenv(variable, "/nowhere/browser")
    done = detok("check", server.url, "--browser", browser_name)
    assert f"{variable}=/nowhere/browser" in sentence(done)


@pytest.mark.full
def test_the_error_for_a_missing_browser_says_how_to_get_one(
    monkeypatch, server, detok, one_browser, tmp_path
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
def test_a_bad_script_is_refused_before_a_browser_starts(
    detok, tmp_path, one_browser, name, steps, words
):
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
        (["--text", "latin1.txt"], "is not UTF-8 at byte 2"),
        (["--script", "nowhere.yaml"], "nowhere.yaml"),
        (["--html", "nowhere/report.html"], "folder does not exist"),
        (["--split", "every-word"], "There is no split 'every-word'"),
        (["--split", "random:many"], "not a whole number"),
        (["--upstream", "localhost"], "is not an http address"),
        (["--only", "("], "'(' is not a regular expression"),
        (["--within", "[["], "'[[' is not a CSS selector"),
        (["--exclude", "p:first-"], "'p:first-' is not a CSS selector"),
        (["--within", "#gone"], "No element of the page matches '#gone'"),
    ],
)
def test_a_bad_value_is_one_sentence(
    check, server, one_browser, words, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("latin1.txt").write_bytes(b"na\xefve")
    assert said in sentence(check(f"{server.url}/tofu.html", *words))


@pytest.mark.full
@pytest.mark.parametrize(
    "words",
    [
        "check http://127.0.0.1:1/ --splitt token",
        "check http://127.0.0.1:1/ --browser netscape",
        "check http://127.0.0.1:1/ --ignore no-such-rule",
        "check http://127.0.0.1:1/ --timeout -1",
        "check http://127.0.0.1:1/ --listen 70000",
        "check http://127.0.0.1:1/ --quiet x",
        # It listens on loopback only.
        "proxy --listen=0.0.0.0:9000",
        "proxy --listen=0.0.0.0",
        "proxy --listen=-1",
        "proxy --listen=65536",
    ],
)
def test_an_unknown_option_or_value_is_refused(detok, one_browser, words):
    done = detok(*words.split())
    said = done.err.splitlines()[-1]
    assert done.code == 2 and done.out == "" and said.startswith("detok")
    assert re.search(r"--\w+", words)[0] in said


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
        cut = f"{size} bytes in {size} pieces: {fixtures.TEXT[:60]!r}\n"
        assert said == f"{server.url}/wire/text?cut=1000: {cut}"
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
def test_a_port_that_is_in_use_is_named(detok, one_browser):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1:{port}" in sentence(detok("proxy", "--listen", port))
