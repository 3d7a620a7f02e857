"""The documents and references as `make site` draws them: every public name has its text, every
link its target, and no page needs a file from elsewhere.
"""

import html.parser
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from documents import ROOT
from packed import drawn_site
from programs import ran

import detok_py

pytestmark = [pytest.mark.native, pytest.mark.full]


class Page(html.parser.HTMLParser):
    """The ids of a page, where it links to, and the files that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.ids |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])


@pytest.fixture(scope="module")
def pages():
    """The pages of a site, by their paths."""
    return {path: Page(path) for path in drawn_site().rglob("*.html")}


def test_every_link_has_a_target(pages):
    wrong = []
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "data", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            known = target.exists() and not target.is_dir() and not parts.path.startswith("/")
            if not known or (anchor and target in pages and anchor not in pages[target].ids):
                wrong.append(f"{path.name}: {link}")
    assert sorted(set(wrong)) == []


def test_no_page_needs_a_file_from_elsewhere(pages):
    assert [link for page in pages.values() for link in page.loaded if urlsplit(link).netloc] == []


def test_every_document_and_every_module_has_a_page(pages):
    drawn = {path.as_posix().partition("/docs/")[2] for path in pages}
    folder = ROOT / "docs"
    documents = {path.relative_to(folder).with_suffix(".html") for path in folder.rglob("*.md")}
    assert {path.as_posix() for path in documents} - {"README.html"} <= drawn
    assert {"index.html", "modules/detok-web.html", "modules/detok-web_fetch.html"} <= drawn
    assert "python/detok_py/integrations/starlette.html" in drawn


def test_the_references_have_the_public_names(pages):
    names = {path.name: page.ids for path, page in pages.items()}
    assert set(detok_py.__all__) <= names["detok_py.html"]
    for name in ("DetokStream", "Answer", "Decoder", "DetokError"):
        assert f"detok-web.{name}.html" in names


@pytest.mark.parametrize(
    ("tool", "source", "found", "damaged"),
    [
        (
            "draw.mjs",
            "web/src/graphemes.js",
            "feed  Takes text, and returns what is whole.",
            "feed",
        ),
        (
            "python_reference.py",
            "detok_py/errors.py",
            '    """The remote side sent',
            "    '''''' #",
        ),
    ],
)
def test_a_public_name_without_a_text_is_found(tmp_path, tool, source, found, damaged):
    """The tools look at a copy of the project in which one text is missing."""
    copy = tmp_path / "project"
    for name in ("detok_py", "web", "docs", "conformance", "tools/site"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        # Links to the same folders, but for the one that is changed.
        if source.startswith(f"{name}/") or name == "tools/site":
            subprocess.run(["cp", "-r", ROOT / name, copy / name], check=True)
        else:
            (copy / name).symlink_to(ROOT / name)
    for name in ("tsconfig.json", "CONTRIBUTING.md", "CHANGELOG.md", "node_modules", ".build"):
        (copy / name).symlink_to(ROOT / name)
    text = (copy / source).read_text("utf-8")
    assert found in text
    (copy / source).write_text(text.replace(found, damaged), encoding="utf-8")
    program = "node" if tool == "draw.mjs" else ROOT / ".build/docs/venv/bin/python"
    done = ran(program, copy / "tools" / "site" / tool, tmp_path / "out", timeout=600)
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "does not have any documentation" in said or "has no docstring" in said
