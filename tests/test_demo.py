"""The demo page is an application of the published library: its modules import each other and what
`detok-web` exports, nothing else.
"""

import json
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.native  # about the files of the repository
WEB = Path(__file__).resolve().parents[1] / "web"
# The page as it is served, in few files (tools/build_page.mjs).
PAGE = WEB.parent / ".build" / "page"
MODULES = sorted((WEB / "demo").glob("*.js"))
IMPORT = re.compile(r"""(?:\bfrom|(?<!["'])\bimport)\s*\(?\s*["']([^"'\n]+)["']""")


def exported_sources() -> set[str]:
    """Return the modules of web/src that web/package.json exports, as the demo imports them."""
    exports = json.loads((WEB / "package.json").read_text("utf-8"))["exports"]
    files = [entry["default"] for entry in exports.values() if isinstance(entry, dict)]
    return {file.replace("./dist/", "../src/") for file in files}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_of_the_demo_imports_only_the_demo_and_the_published_library(module: Path) -> None:
    own = {f"./{path.name}" for path in MODULES}
    # Of uPlot only the types are named; it is loaded when it is asked for.
    # What cuts the reader's own text asks the library's worker itself, and what starts it waits for
    # no other module of the library.
    worker = {"../src/decoder.js", "../src/on-demand.js", "../src/rows.js"}
    allowed = (
        worker if module.name in ("local-answer.js", "start.js", "own-tokenizer.js") else set()
    )
    if module.name == "copy-test.js":  # the test that it writes has imports of its own
        allowed = {"node:http", "node:net", "detok-web/playwright"}
    assert set(IMPORT.findall(module.read_text("utf-8"))) <= own | exported_sources() | allowed | {
        "uplot"
    }


def test_python_is_started_before_anything_else_of_the_page_is_read() -> None:
    html = (PAGE / "index.html").read_text("utf-8")
    asked = re.findall(r'<(?:script|link)[^>]* (?:src|href)="/page/([^"]+)"', html)
    assert asked[0] == "start.js"
    # It does not wait for the page to be parsed, nor for a file that is found only when another is
    # there.
    assert re.search(r'<script type="module" src="/page/start.js" async ', html)
    start = (PAGE / "start.js").read_text("utf-8")
    shared = re.findall(r'(?:from|import)"\./([^"]+)"', start)
    assert shared and asked[1 : 1 + len(shared)] == shared


def test_the_page_is_few_files_and_names_no_other() -> None:
    html = (PAGE / "index.html").read_text("utf-8")
    asked = set(re.findall(r'<(?:script|link)[^>]* (?:src|href)="(/[^"]+)"', html))
    assert len(asked) <= 7
    assert {path.removeprefix("/page/") for path in asked} <= {path.name for path in PAGE.iterdir()}
    imported = re.findall(r'(?:from|import)"\./([^"]+)"', (PAGE / "page.js").read_text("utf-8"))
    assert {f"/page/{name}" for name in imported} <= asked


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_of_the_demo_begins_with_its_contract(module: Path) -> None:
    assert module.read_text("utf-8").startswith("/**")


def test_the_demo_connects_through_the_library_and_asks_for_details() -> None:
    page = (WEB / "demo" / "page.js").read_text("utf-8")
    ask = (WEB / "demo" / "ask.js").read_text("utf-8")
    assert 'import { connect } from "../src/index.js"' in ask
    assert "details: true" in page
