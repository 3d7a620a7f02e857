"""The demo page is an application of the published library: its modules import each other and what
`detok-web` exports, nothing else.
"""

import json
import re
from pathlib import Path

import build_site
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


def test_a_site_says_nothing_of_a_bridge_that_it_does_not_have() -> None:
    page = build_site.index_page()
    about = re.sub("<[^>]+>", "", page[page.index('<details class="about">') :])
    assert "A worker cuts your text into tokens. Python runs in that worker" in about
    assert "It keeps its memory in this browser" in about
    assert not re.findall("WebSocket|micropip|the engine;|the bridge has", about)
    assert "hidden" not in page[page.index('<details class="about">') : page.index("</details>")]


def rgb(color: str) -> list[float]:
    return [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def contrast(one: list[float], other: list[float]) -> float:
    """Return the contrast of two colours as WCAG 2.2 computes it."""

    def luminance(color: list[float]) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fields_have_edges_and_marked_tokens_have_bytes_that_can_be_seen(scheme: str) -> None:
    css = (WEB / "examples" / "chat" / "palette.css").read_text("utf-8")
    css += (WEB / "demo" / "page.css").read_text("utf-8")
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", css)
    colors = {name: rgb(dict(light=light, dark=dark)[scheme]) for name, light, dark in pairs}
    [share] = re.findall(r"--edge: color-mix\(in srgb, var\(--line\), var\(--ink\) (\d+)%", css)
    mixed = zip(colors["line"], colors["ink"], strict=True)
    edge = [line + (ink - line) * int(share) / 100 for line, ink in mixed]
    assert css.count("1px solid var(--edge)") == 2
    for around in ("card", "paper"):
        assert contrast(edge, colors[around]) >= 3
    assert contrast(colors["soft"], colors["link-wash"]) >= 4.5
