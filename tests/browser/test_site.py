"""The static site, as any static server serves it in a sub-path: no bridge, and nothing asked of
it.
"""

import contextlib
import doctest
import json
import re
import string
from pathlib import Path
from typing import Any
from urllib.parse import quote

import build_site
import pytest
from axe import faults
from packed import drawn_site
from playwright.sync_api import expect
from small_tokenizers import byte_level
from static_folder import serving
from stream_samples import PASTE, STREAMS
from transfer import copied_report, drop, sse

SUB_PATH = "/some/path/"


@pytest.fixture(scope="session")
def serve_folder() -> Any:
    """Serve a folder, which has the site in a sub-path; return the address of the site."""
    with contextlib.ExitStack() as stack:
        yield lambda root: stack.enter_context(serving(root)) + SUB_PATH


@pytest.fixture(scope="session")
def site(tmp_path_factory: Any, serve_folder: Any) -> str:
    """The address of the site."""
    root = tmp_path_factory.mktemp("served")
    build_site.build(root / SUB_PATH.strip("/"))
    return str(serve_folder(root))


def complaints(page: Any, site: str) -> list[str]:
    """Return a list that takes what goes wrong in a page, and what it asks others for."""
    wrong: list[str] = []
    page.on("response", lambda one: wrong.append(one.url) if one.status >= 400 else None)
    page.on("request", lambda one: None if one.url.startswith((site, "data:", "blob:")) else wrong.append(one.url))  # fmt: skip
    page.on("pageerror", lambda error: wrong.append(str(error)))
    return wrong


@pytest.fixture
def visit(page: Any, site: str) -> Any:
    """Open the site; afterwards, no request may have left its folder, failed, or been a socket."""
    wrong = complaints(page, site)
    page.on("websocket", lambda socket: wrong.append(f"socket {socket.url}"))

    def open_site(query: str = "") -> Any:
        page.goto(site + query)
        expect(page.locator("html")).to_have_attribute("data-state", "ready")
        return page

    yield open_site
    assert wrong == []


def stream(page: Any, text: str, cut: str) -> str:
    """Stream a text; return what the first pane shows in the end."""
    page.locator("#own-text").fill(text)
    page.locator("#cut").select_option(cut)
    page.locator("#pace").select_option("0")
    page.locator("#start").click()
    expect(page.locator("html")).to_have_attribute("data-state", "finished")
    return str(page.locator("#pane-held").text_content())


def test_a_visitor_streams_a_text_and_opens_a_sample(visit: Any) -> None:
    page = visit()
    expect(page.locator("#source")).to_be_hidden()
    assert "<think>" in page.locator("#own-text").input_value()
    assert stream(page, "naïve 你好 👩‍🚀", "byte") == "naïve 你好 👩‍🚀"
    assert "�" in page.locator("#pane-naive").text_content()
    page.get_by_role("button", name="curl in a console").click()
    expect(page.locator("#pane-held")).to_contain_text("Voil├á: na├»ve")
    expect(page.locator("#alert")).to_contain_text(
        "The server, a proxy, a client, or what recorded it, broke 10 places."
    )
    expect(page.get_by_role("link", name="Documents")).to_have_attribute("href", "docs/index.html")


@pytest.mark.full
@pytest.mark.one_browser
def test_a_link_and_a_report_of_a_bridge_open_here(visit: Any, site: str, booted: Any) -> None:
    booted.stream_text("naïve <|endoftext|>日本 😀", cut="token")
    report = copied_report(booted.page)
    fragment = re.search(r"#capture=[\w-]+", report[report.index("[Open this stream") :])
    assert fragment
    page = visit("?runtime=micropython")
    for name, pasted in (("report", report), ("link", f"http://other:1/x{fragment[0]}")):
        page.evaluate(PASTE, pasted)
        expect(page.locator("#source-name"), name).to_have_text("the link's capture")
        expect(page.locator("#pane-held")).to_have_text("naïve 日本 😀")
        expect(page.locator("#engine-fidelity")).to_have_text("token ids, exact")
        drop(page, "next.sse", sse("next"))
        expect(page.locator("#source-name")).to_have_text("next.sse")
    page.goto("about:blank")
    page.goto(f"{site}?runtime=micropython{fragment[0]}")
    expect(page.locator("#pane-held")).to_have_text("naïve 日本 😀")


@pytest.mark.one_browser
@pytest.mark.full
@pytest.mark.parametrize("runtime", ["pyodide", "micropython"])
def test_the_default_text_shows_what_a_decoder_of_bytes_does_not_know(
    visit: Any, runtime: str
) -> None:
    page = visit(f"?runtime={runtime}")
    shown = stream(page, page.locator("#own-text").input_value(), "token")
    assert "<think>" not in shown and "STOP" not in shown and "whole when it is shown" in shown
    assert "STOP" in page.locator("#pane-stream").text_content()
    assert "<think>" in page.locator("#pane-stream").text_content()
    # The � of the text is no fault of a decoder.
    expect(page.locator("#pane-held .written")).to_have_text("\ufffd")
    expect(page.locator("#tally-held dd")).to_have_text("0")
    assert page.locator("#timeline").text_content()


TOKENIZER = byte_level()
IDS = TOKENIZER["model"]["vocab"]
CUTS = f"({len(IDS) + len(TOKENIZER['added_tokens'])} tokens) now cuts"


@pytest.mark.one_browser
@pytest.mark.full
def test_a_dropped_tokenizer_cuts_the_text_and_reads_ids(visit: Any) -> None:
    page = visit()
    drop(page, "tokenizer.json", json.dumps(TOKENIZER).encode())
    expect(page.locator("#alert")).to_contain_text(f"tokenizer.json {CUTS}")
    assert stream(page, "the cat", "token") == "the cat"
    expect(page.locator("#position")).to_have_text("3 / 3")  # two tokens, and the end
    drop(page, "ids.sse", sse({"choices": [{"text": "", "token_ids": [IDS["the"], IDS["Ġcat"]]}]}))
    expect(page.locator("#pane-held")).to_have_text("the cat")
    drop(page, "tokenizer.json", b'{"added_tokens": [], "model": 3}')
    expect(page.locator("#alert")).to_contain_text("tokenizer.json: ")
    assert stream(page, "the cat", "token") == "the cat"


@pytest.mark.full
@pytest.mark.one_browser
def test_the_sites_own_tokenizer_that_comes_late_does_not_take_the_place_of_a_dropped_one(
    page: Any, visit: Any
) -> None:
    late: list[Any] = []
    page.route("**/tokenizer.json", lambda route: late.append(route))
    visit()
    page.locator("#own-text").fill("the cat the")
    page.locator("#cut").select_option("token")
    page.locator("#start").click()  # which asks for the site's own tokenizer
    drop(page, "mine.json", json.dumps(TOKENIZER).encode())
    expect(page.locator("#alert")).to_contain_text(f"mine.json {CUTS}")
    late.pop().continue_()
    expect(page.locator("html")).to_have_attribute("data-state", "finished")
    expect(page.locator("#pane-held")).to_have_text("the cat the")
    expect(page.locator("#position")).to_have_text("4 / 4")  # three tokens, and the end
    assert stream(page, "the cat", "token") == "the cat"
    expect(page.locator("#position")).to_have_text("3 / 3")


@pytest.mark.one_browser
@pytest.mark.full
def test_what_is_pasted_is_opened(visit: Any) -> None:
    page = visit()
    page.evaluate(PASTE, (STREAMS / "curl-verbose.txt").read_text("utf-8"))
    expect(page.locator("#pane-held")).to_have_text("你好")
    expect(page.locator("#alert")).to_contain_text("Not read: line 1: no event")


@pytest.mark.one_browser
@pytest.mark.full
@pytest.mark.parametrize("fault", ["truncate", "crash", "stall"])
def test_faults_are_made_without_a_bridge(visit: Any, fault: str) -> None:
    page = visit()
    page.locator("#fault").select_option(fault)
    page.locator("#own-text").fill("ab né " * 3)
    page.locator("#cut").select_option("byte")
    page.locator("#start").click()
    if fault == "stall":
        expect(page.locator("html")).to_have_attribute("data-state", "streaming")
        page.locator("#stop").click()
        expect(page.locator("#status")).to_have_text("Stopped.")
    elif fault == "crash":
        expect(page.locator("#alert")).to_contain_text("The engine crashed")
    else:
        expect(page.locator("#pane-held")).to_have_text("ab né ab né ab n�")


RULES = ["each-token", "window-4", "ends-with", "last-space", "flush-on-space", "modulo-4", "slice"]


@pytest.mark.one_browser
def test_a_rule_found_in_the_wild_is_chosen_and_counted(visit: Any) -> None:
    page = visit("?runtime=micropython&rule=window-4")
    stream(page, "a👩‍🚀 b", "byte")
    expect(page.locator("#tally-wild [data-count=lost]")).not_to_have_text("0")
    assert page.locator("#wild-rule option").evaluate_all("all => all.map((one) => one.value)") == RULES  # fmt: skip
    for rule in RULES:
        page.locator("#wild-rule").select_option(rule)
        expect(page.locator("#wild-link")).to_have_attribute("href", re.compile("^https://"))  # fmt: skip
    expect(page.locator("#pane-wild")).to_have_text("a👩‍🚀 b")
    expect(page.locator("#tally-wild [data-count=late]")).not_to_have_text("0")
    page.locator("#to-start").click()
    expect(page.locator("#pane-wild")).to_have_text("")
    expect(page.locator("#tally-wild [data-count=late]")).to_have_text("0")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: Any, serve_folder: Any) -> tuple[Path, str]:
    """The folder of a site with its documents, and its address."""
    folder, root = drawn_site(), tmp_path_factory.mktemp("drawn")
    (root / SUB_PATH.strip("/")).parent.mkdir(parents=True)
    (root / SUB_PATH.strip("/")).symlink_to(folder)
    return folder, serve_folder(root)


@pytest.mark.full
@pytest.mark.one_browser
def test_every_example_of_the_documents_runs_in_its_page(page: Any, drawn: Any) -> None:
    """By keyboard, the last one first, which needs the names of those above it."""
    folder, site = drawn
    wrong, asked = complaints(page, site), []
    page.on("request", lambda one: asked.append(one.url) if "/runtime/" in one.url else None)
    files = [
        each for each in (folder / "docs").glob("*.html") if "run.js" in each.read_text("utf-8")
    ]
    count = 0
    for file in sorted(files):
        page.goto(f"{site}docs/{file.name}")
        blocks = page.locator("code[data-run]").all()
        assert asked == []
        for at, block in reversed(list(enumerate(blocks, 1))):
            page.get_by_role("button", name=f"Run example {at}", exact=True).focus()
            page.keyboard.press("Enter")
            output = page.get_by_role("status", name=f"Output of example {at}", exact=True)
            expect(output).to_have_attribute("data-state", "finished")
            text = block.inner_text() + "\n"
            shown = "".join(each.want for each in doctest.DocTestParser().get_examples(text))
            shown = shown if text.startswith(">>> ") else "naïve 👩‍🚀\n"
            found = output.inner_text() + "\n"
            assert doctest.OutputChecker().check_output(
                shown or "No output.\n", found, doctest.ELLIPSIS
            ), f"{file.name}: {text}{found}"
            count += 1
        assert all(url.startswith(f"{site}runtime/") for url in asked) and asked
        asked.clear()
        assert faults(page) == []
    assert (count, wrong) == (19, [])


@pytest.mark.full
@pytest.mark.one_browser
def test_examples_of_the_documents_say_what_went_wrong_and_run_again(page: Any, drawn: Any) -> None:
    _, site = drawn
    page.route("**/run.py", lambda route: route.abort())
    page.goto(f"{site}docs/python.html")
    output = page.get_by_role("status", name="Output of example 1")
    page.get_by_role("button", name="Run example 1").click()
    expect(output).to_contain_text("Python could not start: ")
    page.unroute("**/run.py")
    page.get_by_role("button", name="Run example 1").click()
    expect(output).to_have_text("(['na', 'ïve ', '😀'], '')")


@pytest.mark.full
@pytest.mark.only_browser("chromium")  # Firefox cannot be told to run no scripts
@pytest.mark.browser_context_args(java_script_enabled=False)
def test_documents_read_as_before_without_javascript(page: Any, drawn: Any) -> None:
    _, site = drawn
    page.goto(f"{site}docs/python.html")
    expect(page.locator("pre > code.python").first).to_contain_text("['na', 'ïve ', '😀']")
    expect(page.get_by_role("button", name="Run")).to_have_count(0)


@pytest.mark.full
@pytest.mark.one_browser
def test_the_documents_link_to_the_demo_and_both_references_in_any_folder(
    page: Any, drawn: Any
) -> None:
    """Also without a network: the pages ask nobody else for anything."""
    _, site = drawn
    wrong = complaints(page, site)
    page.goto(site)
    page.get_by_role("link", name="Documents").click()
    expect(page.locator("#documentation")).to_be_visible()
    page.get_by_role("link", name="createDecoder", exact=True).first.click()
    expect(page).to_have_url(re.compile("/docs/web/create-decoder.html$"))
    page.get_by_role("navigation", name="detok").get_by_role("link", name="Python").click()
    page.get_by_role("link", name="detok_py.errors", exact=True).first.click()
    expect(page.locator("#StreamEndedError")).to_be_visible()
    page.get_by_role("navigation", name="detok").get_by_role("link", name="JavaScript").click()
    page.get_by_role("button", name="Search").click()
    page.locator("#tsd-search-input").fill("readAnswer")
    page.locator("#tsd-search-results a").first.click()
    expect(page).to_have_url(re.compile("readAnswer.html|read-answer.html"))
    page.get_by_role("navigation", name="detok").get_by_role("link", name="Demo").click()
    expect(page.locator("html")).to_have_attribute("data-state", "ready")
    assert wrong == []


@pytest.mark.full
@pytest.mark.one_browser
@pytest.mark.parametrize("most", [1, pytest.param(None, marks=pytest.mark.soak)])
def test_axe_finds_nothing_in_the_documents_on_a_narrow_screen(
    page: Any, drawn: Any, most: int | None
) -> None:
    """In every third document, and of each kind of page in the references in the longest: the
    others are drawn alike. No document is wider than the screen. `make soak` looks at all pages.
    """
    folder, site = drawn
    page.set_viewport_size({"width": 390, "height": 844})
    docs = folder / "docs"

    def longest_first(pattern: str) -> list[Path]:
        return sorted(docs.glob(pattern), key=lambda file: -file.stat().st_size)

    documents = longest_first("*.html")
    pages = documents[:: 3 if most else 1]
    for kind in ("python", "web", "classes", "functions", "types"):
        files = longest_first(f"{kind}/**/*.html")
        assert files, kind
        pages += files[:most]
    found = {}
    for file in sorted(pages):
        page.goto(f"{site}docs/{file.relative_to(docs).as_posix()}")
        found[file.name] = faults(page)
    assert {name: them for name, them in found.items() if them} == {}
    # Only their contents differ, so one page shows each in turn.
    page.goto(f"{site}docs/index.html")
    wide = page.evaluate(
        """async (names) => {
          const content = document.querySelector(".col-content");
          const widths = [];
          for (const name of names) {
            const text = await (await fetch(name)).text();
            const other = new DOMParser().parseFromString(text, "text/html");
            content.replaceChildren(...other.querySelector(".col-content").childNodes);
            widths.push([name, document.documentElement.scrollWidth]);
          }
          return widths.filter(([, width]) => width > innerWidth);
        }""",
        [file.name for file in documents],
    )
    assert wide == []


# What readers ask, and a page or name that answers.
QUESTIONS = {
    "keeps a generation 60 s after a loss": "(replicas|protocol-resume)",
    "use with Ollama": "engines",
    "reconnect after the network drops": "protocol-resume",
    "read a HAR file": "captures",
    "test my UI in GitHub Actions": "testing-in-ci",
    "pytest fixture": "testing-with-pytest",
    "React hook for streaming": "react",
    "load tokenizer.json": "tokenizers",
    "tool calls and reasoning formats": "formats",
    "Content-Security-Policy": "hosting",
    "run detok behind nginx": "bridge-security",
    "Jupyter notebook": "notebooks",
    "createDecoder": "createDecoder",
    "connect to vLLM": "engines",
    "emoji broken when streaming": "(how-decoding-works|troubleshooting)",
    "why does my chat show replacement characters": "(how-decoding-works|troubleshooting)",
}


@pytest.fixture
def search(page: Any, drawn: Any) -> Any:
    """Search the documents for words; return the links that are found."""
    page.goto(f"{drawn[1]}docs/index.html")
    page.get_by_role("button", name="Search").click()
    field, results = page.locator("#tsd-search-input"), page.locator("#tsd-search-results a")

    def search(words: str) -> Any:
        field.fill("")
        expect(results).to_have_count(0)  # none of the words before is left
        field.fill(words)
        expect(results.first, words).to_be_visible()
        return results

    return search


@pytest.mark.full
@pytest.mark.one_browser
def test_a_search_for_what_readers_ask_finds_the_answer_among_the_first_three(
    search: Any,
) -> None:
    missed = {}
    for question, answer in QUESTIONS.items():
        first = [link.get_attribute("href") for link in search(question).all()[:3]]
        if not any(re.search(rf"\b{answer}\.html", href or "") for href in first):
            missed[question] = first
    assert missed == {}


@pytest.mark.full
@pytest.mark.one_browser
def test_the_beginning_of_any_word_can_be_searched_for(page: Any, search: Any) -> None:
    errors: list[Any] = []
    page.on("pageerror", lambda error: errors.append(error))
    for letter in string.digits + string.ascii_lowercase:
        search(letter)
    assert errors == []


def test_a_text_that_is_stopped_ends_with_what_was_held_then(visit: Any) -> None:
    text = "one " * 60 + "STO"
    page = visit(f"?runtime=micropython&cut=byte&pace=10&stop=STOP&text={quote(text)}")
    held = page.locator("#pane-held")
    expect(held).to_contain_text("one")
    page.locator("#stop").click()
    expect(page.locator("html")).to_have_attribute("data-state", "finished")
    assert "S" not in str(held.text_content())
    # A capture is not read with the site's own tokenizer, which has cut a text.
    assert stream(page, "né", "token") == "né"
    drop(page, "ids.jsonl", b'{"detok":1}\n[0,"i",[300,301]]\n')
    expect(page.locator("#alert")).to_contain_text("tokenizer")
    expect(held).to_have_text("né")
