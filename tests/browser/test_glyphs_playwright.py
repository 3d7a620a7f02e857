"""The packed fixture for Playwright Test: its results in tests, and its verdicts, which are those
of Python.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import documents
import pytest
import test_glyphs_catalogue as catalogue
from packed import ROOT, install, pack
from transfer import HARD_TO_QUOTE, copied_test

from detok_py.glyphs.watch import GlyphWatch

SPECS = Path(__file__).parent / "playwright"
fixtures = catalogue.fixtures
CONFIG = """
import { defineConfig } from "@playwright/test";
export default defineConfig({
  testDir: ".", reporter: [["json"]], timeout: 240_000, workers: 1, expect: { timeout: 60_000 },
  use: USE,
});
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """The folder of a project in which the package and Playwright Test are installed."""
    built = pack()
    modules = install(built, tmp_path_factory.mktemp("app") / "empty", pyodide=True).parent
    for name in ("@playwright", "playwright", "playwright-core"):
        (modules / name).symlink_to(ROOT / "node_modules" / name)
    (modules / ".bin" / "playwright").symlink_to("../playwright/cli.js")
    return modules.parent


@pytest.fixture
def play(app, browser_name, browser_type_launch_args):
    def run(spec, *words, **settings):
        launch = dict(browser_type_launch_args)
        use = {"browserName": browser_name, "launchOptions": launch}
        if "channel" in launch:
            use["channel"] = launch.pop("channel")
        launch["executablePath"] = launch.pop("executable_path")
        if "firefox_user_prefs" in launch:
            launch["firefoxUserPrefs"] = launch.pop("firefox_user_prefs")
        (app / "playwright.config.ts").write_text(CONFIG.replace("USE", json.dumps(use)))
        for path in SPECS.glob("*.spec.ts"):
            (app / path.name).write_text(path.read_text("utf-8"), encoding="utf-8")
        done = subprocess.run(
            ["npx", "--no-install", "playwright", "test", spec, *words],
            cwd=app,
            env={**os.environ, "DETOK_CATALOGUE": json.dumps(settings)},
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.stdout.startswith("{"), done.stdout[:2000] + done.stderr[:2000]
        report = json.loads(done.stdout)
        assert not report["errors"], report["errors"]
        return {" ".join(names): result for names, result in results(report["suites"])}

    return run


def results(suites, above=()):
    """Yield each test's names and its last result."""
    for suite in suites:
        names = above if suite["title"].endswith(".ts") else (*above, suite["title"])
        yield from results(suite.get("suites", ()), names)
        for spec in suite["specs"]:
            yield (*names, spec["title"]), spec["tests"][0]["results"][-1]


def said(result):
    return "\n".join([error["message"] for error in result["errors"]])


def told(verdict, group):
    """What a verdict says of a page each time.

    How many frames showed a glyph is chance, and so is whether one between two of them is noticed.
    """
    return {
        (one["id"], *one.get("target", ()), one["description"], one["impact"])
        for one in verdict[group]
        if one["id"] != "ufffd-unpainted"
    }


@pytest.mark.full
@pytest.mark.one_browser
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(n, marks=pytest.mark.soak) for n in range(1, 8))]
)
def test_the_whole_catalogue_has_the_verdicts_of_python(
    play, page, server, tmp_path, browser_name, part
):
    pages = [
        {"name": f"{name}.{twin}", "truth": catalogue.TRUTHS.get(name, fixtures.TEXT)}
        for name in fixtures.pages()[part::8]
        for twin in ("faulty", "fixed")
        if name != "hidden-declarative-closed-shadow" or browser_name == "chromium"
    ]
    outcomes = play("catalogue", url=server.url, pages=pages, out=str(tmp_path))
    wrong = {name: said(one) for name, one in outcomes.items() if one["status"] != "passed"}
    assert wrong == {}
    for one in pages:
        theirs = json.loads((tmp_path / f"{one['name']}.json").read_text())
        watch = GlyphWatch.of(page)
        page.goto("about:blank")
        watch.clear()
        page.goto(f"{server.url}/{one['name']}.html")
        assert watch.settle(quiet_ms=150)
        ours = watch.result(truth=one["truth"])
        for group in ("violations", "incomplete", "passes"):
            assert told(theirs, group) == told(ours, group), one["name"]
        if one["name"].endswith(".faulty"):
            catalogue.must_be_caught(theirs["violations"], one["name"][:-7], browser_name)
        else:
            assert theirs["violations"] == []


@pytest.mark.full
@pytest.mark.one_browser
def test_the_fixture_does_in_a_test_what_its_documentation_says(play, server):
    outcomes = play("fixture", url=server.url)
    failed = {name: said(one) for name, one in outcomes.items() if one["status"] != "passed"}
    assert set(failed) == {
        "fails by itself",
        "of every test fails though it asks for no fixture",
        "of every test fails if no answer passed the proxy",
    }, failed
    unanswered = failed.pop("of every test fails if no answer passed the proxy")
    assert "no stream passed the proxy" in unanswered
    assert all("ufffd-persistent" in words for words in failed.values())
    attached = {one["name"] for one in outcomes["fails by itself"]["attachments"]}
    assert attached >= {"glyphs.json", "glyphs.html"}


@pytest.mark.full
@pytest.mark.one_browser
@pytest.mark.parametrize(("twin", "status"), [("fixed", "passed"), ("faulty", "failed")])
def test_the_lines_of_the_documentation_work(play, app, server, twin, status):
    """Those of testing-with-playwright.md: a test, and its configuration."""
    spec, config = [
        block.text
        for block in documents.blocks()
        if block.document == "docs/testing-with-playwright.md" and block.language == "ts"
    ]
    address = f"{server.url}/01-fresh-decoder.{twin}.html?manual"
    spec = spec.replace("http://127.0.0.1:3000", address)
    use = 'import config from "./documented.config";\ntest.use(config.use!);\n'
    (app / "documented.spec.ts").write_text(spec + use, encoding="utf-8")
    (app / "documented.config.ts").write_text(config, encoding="utf-8")
    outcomes = play("documented")
    assert {name: one["status"] for name, one in outcomes.items()} == {"no broken glyph": status}
    assert twin == "fixed" or "keep one decoder for the whole stream" in said(*outcomes.values())


@pytest.mark.full
@pytest.mark.engine
@pytest.mark.parametrize(("twin", "code"), [("faulty", 1), ("fixed", 0)])
def test_the_shell_form_has_the_options_and_the_verdict_of_detok_check(
    app, server, tmp_path, found_browser, twin, code
):
    url = f"{server.url}/01-fresh-decoder.{twin}.html?cut=9999"
    # Without a delay, the browser joins the pieces.
    words = f"npx --no-install detok-web check {url} --delay 0 --browser {found_browser}"
    files = ["--html", f"{tmp_path}/report.html", "--json", f"{tmp_path}/report.json"]
    done = subprocess.run(
        [*words.split(), *files], cwd=app, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == code, done.stdout + done.stderr
    found = json.loads((tmp_path / "report.json").read_text())
    broken = {one["id"] for one in found["violations"]}
    assert "ufffd-persistent" in broken if code else not broken
    assert [stream["pieces"] for stream in found["streams"]] == [len(fixtures.TEXT.encode())]
    said = re.search("<h1>([^<]*)", (tmp_path / "report.html").read_text("utf-8"))[1]
    assert (said == "No broken glyph was shown") == (not code), said


@pytest.mark.full
# The tests drive Firefox by BiDi, where `route.continue({url})` gives the page no answer.
@pytest.mark.only_browser("chromium")
def test_the_test_that_the_page_copies_fails_where_each_chunk_is_decoded_alone(
    app, play, booted, chat_pages
):
    booted.stream_text(HARD_TO_QUOTE, cut="byte")
    spec = copied_test(booted.page, "Playwright Test, of a chat page")
    for name, address in zip(("broken", "right"), chat_pages, strict=True):
        text = spec.replace("http://127.0.0.1:3000", address)
        (app / f"copied-{name}.spec.ts").write_text(text, encoding="utf-8")
    [broken] = play("copied-broken").values()
    [right] = play("copied-right").values()
    assert (broken["status"], right["status"]) == ("failed", "passed"), (broken, right)
    assert "ufffd" in str(broken["errors"])
