"""`d.widget` in JupyterLab and in marimo, with kernels in CPython, and without other machines."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from served_bridge import Bridge
from ui_rig import HERE, PYTHON, ROOT, TEXTS, Server

# To start a kernel, and to play all of an answer.
MOST_MS = 120_000
QUIET = ("news_url=None", "check_for_updates_class=jupyterlab.NeverCheckForUpdate")


@pytest.fixture
def asked(page: Any) -> Any:
    """Collect the requests of the page to other machines; afterwards there may be none."""
    elsewhere: list[str] = []

    def look(request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            elsewhere.append(request.url)

    page.on("request", look)
    yield elsewhere
    assert elsewhere == []


def panes(page: Any) -> list[Any]:
    return [page.locator(f"[data-pane={name}]") for name in ("held", "naive", "stream")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The notebooks and a tokenizer, in a folder that is a user's home too."""
    for path in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        shutil.copy(path, tmp_path)
    shutil.copy(ROOT / "detok_py" / "bridge" / "recite" / "tokenizer.json", tmp_path)
    return tmp_path


def run_in_jupyterlab(page: Any) -> None:
    page.locator(".jp-CodeCell").first.wait_for()
    # Before the kernel is there, "Run All Cells" asks for one.
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=MOST_MS)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    player = page.get_by_role("group", name="A stream")
    expect(player).to_have_attribute("data-state", "finished", timeout=MOST_MS)


@pytest.mark.parametrize("name", ["how-text-breaks", "watching-a-stream"])
def test_jupyterlab_plays_a_stream(page: Any, asked: Any, folder: Path, name: str) -> None:
    bridge = Bridge("--engine", "recite")
    book = folder / f"{name}.ipynb"
    text = book.read_text("utf-8").replace("http://127.0.0.1:8765", bridge.url)
    book.write_text(text, encoding="utf-8")
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", "--port={port}"]
    options += ["--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"]
    options += [f"--LabApp.{each}" for each in QUIET]
    lab = Server("jupyterlab", PYTHON, "-m", "jupyterlab", *options, HOME=str(folder))
    try:
        page.goto(f"{lab.said['url']}/lab/tree/{name}.ipynb")
        run_in_jupyterlab(page)
        held, naive, stream = panes(page)
        assert "\ufffd" in naive.text_content()
        assert held.text_content() == stream.text_content()
        if name == "watching-a-stream":
            shown = held.text_content().rstrip("\ufffd")
            assert len(shown) > 60 and TEXTS["hello"]["text"].startswith(shown)
    finally:
        lab.stop()
        bridge.stop()


def test_marimo_shows_tokens_and_plays_a_stream(page: Any, asked: Any) -> None:
    options = ["--headless", "--no-token", "--host", "127.0.0.1", "--port", "{port}"]
    command = [PYTHON, "-m", "marimo", "--yes", "run", HERE / "marimo_widget.py", *options]
    server = Server("marimo-widget", *command)
    try:
        page.goto(server.said["url"])
        expect(page.get_by_role("group", name="A stream")).to_have_attribute(
            "data-state", "finished", timeout=MOST_MS
        )
        held, naive, stream = panes(page)
        assert [pane.text_content() for pane in (held, naive, stream)] == [
            "café 😀!",
            "caf\ufffd\ufffd \ufffd\ufffd\ufffd!",
            "café 😀!",
        ]
        expect(page.get_by_text(re.compile("3 tokens, 2 with bytes that waited"))).to_be_visible()
    finally:
        server.stop()
