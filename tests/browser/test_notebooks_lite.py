"""The notebooks in JupyterLite, as `make site` serves them, with this project's Pyodide and without
a network.
"""

import http.server
import json
from pathlib import Path
from typing import Any

import build_notebooks
import pytest
from packed import built_once
from playwright.sync_api import expect
from static_folder import serving

pytestmark = [pytest.mark.full, pytest.mark.one_browser]

MOST_BYTES = 45_000_000
BRIDGE = "http://127.0.0.1:8765"
SUB_PATH = "some/path"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Python's own static server, without its log. In notebooks the bridge has the address
    `bridge`.
    """

    bridge = BRIDGE

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.suffix != ".ipynb" or not path.exists():
            return super().do_GET()
        text = path.read_text("utf-8").replace(BRIDGE, self.bridge).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture(scope="module")
def folder() -> Path:
    """JupyterLite, built once."""
    if not (build_notebooks.BUILD / "notebooks" / "venv").exists():
        pytest.skip("JupyterLite is not here: `make test-all` installs it")
    sources = [*build_notebooks.BOOKS.iterdir(), *build_notebooks.wheels()]
    sources += [Path(build_notebooks.__file__)]
    return built_once("lite", sources, lambda at: build_notebooks.build(at / SUB_PATH))


@pytest.fixture(scope="module")
def address(folder: Path) -> Any:
    with serving(folder, Handler) as url:
        yield f"{url}/{SUB_PATH}"


def wait_for_the_end(book: Any, name: str) -> None:
    """Wait until the last cell has run; no cell may have raised."""
    cells = json.loads((build_notebooks.BOOKS / name).read_text("utf-8"))["cells"]
    count = sum(cell["cell_type"] == "code" for cell in cells)
    prompt = book.locator(".jp-CodeCell").last.locator(".jp-InputPrompt")
    wrong = book.locator("[data-mime-type='application/vnd.jupyter.stderr']")
    end = prompt.get_by_text(f"[{count}]:", exact=True)
    expect(end.or_(wrong).first).to_be_attached()
    assert wrong.all_text_contents() == []


@pytest.fixture
def run(page: Any, address: str) -> Any:
    """Open a notebook and run all of it, to its end; afterwards nothing may have been asked of
    elsewhere.
    """
    elsewhere: list[str] = []

    def look(request: Any) -> None:
        if not request.url.startswith((address, "data:", "blob:", "http://127.0.0.1:")):
            elsewhere.append(request.url)

    page.context.on("request", look)

    def open_and_run(name: str) -> Any:
        page.goto(f"{address}/notebooks/index.html?path={name}")
        # "Run All Cells" runs nothing while the notebook is there and its kernel is not.
        kernel = page.locator(".jp-Notebook-ExecutionIndicator")
        expect(kernel).to_have_attribute("data-status", "idle")
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        book = page.locator(".jp-Notebook")
        wait_for_the_end(book, name)
        return book

    yield open_and_run
    assert elsewhere == []


def test_it_is_small_enough_for_a_static_site(folder: Path) -> None:
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size <= MOST_BYTES


def test_the_folder_lists_the_notebooks(page: Any, address: str) -> None:
    page.goto(f"{address}/")
    for book in build_notebooks.BOOKS.glob("*.ipynb"):
        expect(page.get_by_text(book.name)).to_be_visible()


@pytest.mark.soak  # tests/notebook runs its cells in CPython
def test_how_text_breaks(run: Any) -> None:
    book = run("how-text-breaks.ipynb")
    assert "na\ufffd\ufffdve" in (book.locator(".jp-OutputArea-output").first.text_content() or "")
    expect(book.locator("[data-pane=held]")).to_have_text("naïve ไทย 👩‍🚀\ufffd")
    expect(book.locator("[data-pane=naive]")).to_contain_text("na\ufffd\ufffdve")
    expect(book.get_by_text("bytes held")).to_be_attached()


@pytest.mark.soak  # tests/notebook runs its cells in CPython
def test_tokens_of_a_tokenizer(run: Any) -> None:
    book = run("tokens-of-a-tokenizer.ipynb")
    expect(book.get_by_role("rowheader", name="begin or end inside")).to_be_attached()
    expect(book.locator("[data-pane=held]")).to_have_text("naïve ไทย 👩‍🚀")


def test_watching_a_stream_of_a_bridge(
    run: Any, address: str, start_bridge: Any, monkeypatch: Any
) -> None:
    origin = address.removesuffix(f"/{SUB_PATH}")
    bridge = start_bridge("--engine", "recite", "--allow-origin", origin)
    monkeypatch.setattr(Handler, "bridge", bridge.url)
    book = run("watching-a-stream.ipynb")
    expect(book.locator("[data-pane=held]")).to_contain_text("Good morning ☀️")
