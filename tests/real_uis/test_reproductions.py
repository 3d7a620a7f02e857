"""The reproductions of docs/reproductions/ still show the faults, with the installed packages.

If one fails because its package has been mended, its page and docs/real-uis.md say so from then on.
"""

import re
import shutil
import subprocess

import pytest
from local_server import free_port
from ui_rig import INSTALLED, ROOT

from detok_py.glyphs import GlyphWatch

PAGES = ROOT / "docs" / "reproductions"
MOST_MS = 60_000


@pytest.fixture
def folder(request):
    """Return a new folder with the files of a page, from where the installed packages are found."""
    home = INSTALLED / "reproductions" / request.param
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    text = (PAGES / f"{request.param}.md").read_text("utf-8")
    for name, code in re.findall(r"```\w+\n(?://|<!--) (\S+)(?: -->)?\n(.*?)```", text, re.S):
        (home / name).write_text(code, encoding="utf-8")
    installs = re.search(r"npm install (.+)", text)[1].split()
    for package, version in (word.rsplit("@", 1) for word in installs if "@" in word[1:]):
        manifest = (INSTALLED / "node_modules" / package / "package.json").read_text("utf-8")
        assert f'"version": "{version}"' in manifest, f"{package} is of another version here"
    return home


@pytest.fixture
def address(folder):
    """Serve the folder by the command of its page, on a free port, and return its address."""
    text = (PAGES / f"{folder.name}.md").read_text("utf-8")
    command = re.search(r"npx esbuild (.+)", text)[1].replace("8000", str(port := free_port()))
    program = INSTALLED / "node_modules" / ".bin" / "esbuild"
    server = subprocess.Popen(
        [program, *command.split()], cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while b"127.0.0.1" not in (line := server.stderr.readline()):
        assert line, "esbuild did not start"
    yield f"http://127.0.0.1:{port}/"
    server.terminate()
    server.communicate(timeout=60)


@pytest.mark.parametrize("folder", ["assistant-ui-smooth", "deep-chat-simulation"], indirect=True)
def test_half_a_pair_is_painted(page, glyph_watch, address):
    page.goto(address)
    # The page counts the frames itself, and the kit agrees.
    page.wait_for_function("parseInt(document.title) > 0", timeout=MOST_MS)
    glyph_watch.settle(timeout_ms=MOST_MS)
    found = {entry["id"] for entry in glyph_watch.result()["violations"]}
    assert found == {"lone-surrogate"}


@pytest.mark.parametrize("folder", ["nlux-end"], indirect=True)
def test_the_end_of_an_answer_is_lost(page, glyph_watch: GlyphWatch, address):
    page.goto(address)
    page.wait_for_function("document.title != 'waiting'", timeout=MOST_MS)
    assert page.title() == "a part of the answer"
    result = glyph_watch.result(truth="This sentence has an end.")
    assert {entry["id"] for entry in result["violations"]} == {"dropped-text"}


@pytest.mark.parametrize("folder", ["nlux-adapters"], indirect=True)
def test_adapters_deliver_broken_text(folder):
    done = subprocess.run(
        ["node", "reproduction.mjs"], cwd=folder, capture_output=True, text=True, timeout=60
    )
    bridge, langchain = done.stdout.splitlines()
    assert bridge.endswith("delivered Hello \ufffd\ufffd\ufffd! [complete]"), done.stderr
    assert "Hello" not in langchain.partition("delivered")[2]
