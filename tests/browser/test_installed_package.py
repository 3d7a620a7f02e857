"""detok-web, installed from its tarball into an empty folder and served as plain files: it decodes,
and asks nobody else for anything.
"""

import http.server
import shutil

import pytest
from complaints import heard
from packed import ROOT, install, pack, run
from playwright.sync_api import expect
from small_tokenizers import byte_level, write
from static_folder import serving

from detok_py import Vocabulary

pytestmark = [pytest.mark.one_browser, pytest.mark.full]

TEXT = "naïve 你好 👩‍🚀 שלום 🇩🇪"
PIECES = [bytes([n]) for n in range(256)]
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; "
    "img-src data:; require-trusted-types-for 'script'; trusted-types detok-library"
)
# Ten lines, as an author would write them; bytes, ids and a tokenizer file are told apart by the
# address.
SCRIPT = """
import { DetokStream, loadVocabulary } from "detok-web";
const { from, ...options } = Object.fromEntries(new URL(location).searchParams);
if (options.trimArtifacts) options.trimArtifacts = true;
const bytes = new Uint8Array(await (await fetch("./text.txt")).arrayBuffer());
const vocabulary = from && (await loadVocabulary(from, options));
const source = new ReadableStream({ start(c) { for (const n of bytes) c.enqueue(vocabulary ? n : new Uint8Array([n])); c.close(); } });
const reader = source.pipeThrough(new DetokStream({ vocabulary, ...options })).getReader();
for (let part = await reader.read(); !part.done; part = await reader.read()) document.querySelector("output").append(part.value);
document.documentElement.dataset.state = "finished";
"""
PAGE = '<!doctype html><meta charset="utf-8"><title>ten lines</title><link rel="icon" href="data:,"><output></output>{script}'


class Files(http.server.SimpleHTTPRequestHandler):
    """A plain static server, with the policy of docs/embedding.md."""

    def end_headers(self):
        if not self.path.startswith("/docs/"):  # its script stands in the page
            self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of an app: `/plain/` imports the package's own files, `/bundled/` one file that
    esbuild made.
    """
    app = tmp_path_factory.mktemp("site") / "app"
    package = install(pack(), app, pyodide=True)
    (app / "page.js").write_text(SCRIPT)
    for name, script in [
        ("plain", SCRIPT.replace('"detok-web"', '"/node_modules/detok-web/dist/index.js"')),
        ("bundled", None),
    ]:
        folder = app / name
        folder.mkdir()
        (folder / "text.txt").write_text(TEXT, encoding="utf-8")
        (folder / "bytes.detok").write_bytes(Vocabulary.from_bytes(PIECES).pack())
        write(folder, byte_level())  # its first ids are the bytes
        (folder / "index.html").write_text(
            PAGE.format(script='<script type="module" src="page.js"></script>')
        )
        if script:
            (folder / "page.js").write_text(script)
    document = (ROOT / "docs" / "embedding.md").read_text("utf-8")
    (app / "docs").mkdir()
    (app / "docs" / "index.html").write_text(document.partition("```html\n")[2].partition("```")[0])
    (app / "answer").write_text(TEXT + "</s> and nothing more", encoding="utf-8")
    # esbuild moves no file but modules: the worker goes beside the bundle, the runtime one folder
    # up.
    esbuild = str(ROOT / "node_modules" / ".bin" / "esbuild")
    words = ["page.js", "--bundle", "--format=esm", "--outdir=bundled", "--log-level=error"]
    run([esbuild, *words], app)
    shutil.copy(package / "dist" / "decoder-worker.js", app / "bundled")
    (app / "runtime").symlink_to(package / "runtime")
    (app / "alone").mkdir()
    (app / "alone" / "detok-web").symlink_to(package)
    with serving(app, Files) as url:
        yield url


@pytest.fixture
def visit(page, site):
    """Open a page of the app; return its text. Whatever is asked of anybody else is refused, and
    fails the test.
    """
    strangers, complaints = [], heard(page)

    def guard(route):
        if route.request.url.startswith((site + "/", "data:")):
            route.continue_()
        else:
            strangers.append(route.request.url)
            route.abort()

    page.context.route("**/*", guard)

    def go(path, text=None):
        page.goto(site + path)
        if text is None:
            expect(page.locator("html")).to_have_attribute("data-state", "finished")
        else:
            expect(page.locator("body")).to_have_text(text)
        assert strangers == []
        assert complaints == []
        return page.locator("body").text_content()

    return go


@pytest.mark.parametrize(
    ("form", "runtime"),
    [
        ("plain", "micropython"),
        ("plain", "pyodide"),
        ("plain", "pyodide&runtimeUrl=/node_modules/detok-web-pyodide"),
        ("bundled", "micropython"),
    ],
)
def test_bytes_become_text(visit, form, runtime):
    assert visit(f"/{form}/?runtime={runtime}&trimArtifacts=yes") == TEXT


REFUSED = """async ([index, options]) => {
  const { warmUp } = await import(index);
  const { name, kind, message } = await warmUp({ runtime: "pyodide", ...options }).catch((error) => error);
  return { name, kind, message };
}"""


@pytest.mark.parametrize(
    ("options", "file"),
    [
        ({}, "/alone/detok-web-pyodide/pyodide.mjs"),
        ({"runtimeUrl": "/runtime"}, "/runtime/pyodide.mjs"),
    ],
)
def test_where_the_package_for_pyodide_is_missing_the_error_names_it(page, site, options, file):
    page.goto(site + "/plain/?runtime=micropython")
    said = page.evaluate(REFUSED, ["/alone/detok-web/dist/index.js", options])
    assert (said["name"], said["kind"]) == ("DetokError", "network")
    assert f"{site}{file} could not be read (HTTP 404)" in said["message"]
    assert "npm install detok-web-pyodide" in said["message"]


@pytest.mark.parametrize(
    ("form", "file"),
    [("plain", "bytes.detok"), ("bundled", "bytes.detok"), ("plain", "tokenizer.json")],
)
def test_ids_of_a_vocabulary_or_a_tokenizer_file_become_text(visit, form, file):
    assert visit(f"/{form}/?runtime=micropython&from={file}") == TEXT


def test_the_ten_lines_of_the_documentation_work(visit):
    visit("/docs/", TEXT)


def test_the_runtime_may_lie_elsewhere(visit, page):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    assert visit("/plain/?runtime=micropython&runtimeUrl=/runtime&from=bytes.detok") == TEXT
    runtimes = [url for url in asked if url.endswith("/runtime/micropython.mjs")]
    assert [url for url in runtimes if "node_modules" not in url]
