"""The library as one file: from another origin than the page, and with nothing loaded beside it."""

import contextlib
import http.server
import subprocess

import pytest
from packed import ROOT
from playwright.sync_api import expect
from static_folder import serving

from detok_py import Vocabulary

TEXT = "naïve 你好 👩‍🚀 שלום 🇩🇪"
BUILD = f"""
import {{ writeFileSync }} from "node:fs";
import {{ buildSingle }} from "{ROOT}/tools/hosts.mjs";
const text = await buildSingle("{ROOT}/web", "{ROOT}/.build/runtime", "");
writeFileSync("detok-web.js", text);
"""
SCRIPT = """
import { DetokStream, createDecoder, loadVocabulary, readAnswer } from "CDN/detok-web.js";
const show = (text) => document.querySelector("output").append(text);
try {
  const body = () => new Response("TEXT</s> and nothing more").body;
  for await (const part of body().pipeThrough(new DetokStream({ stop: "</s>" }))) show(part);
  const vocabulary = await loadVocabulary(await (await fetch("bytes.detok")).blob());
  const decoder = await createDecoder({ vocabulary });
  show(decoder.feed([...new TextEncoder().encode("TEXT")]) + decoder.flush() + (await decoder.ready()));
  for await (const { text } of readAnswer(new Response("TEXT"), { format: "bytes", tools: true })) show(text);
  await createDecoder({ runtime: "pyodide", stop: ["x"] });
} catch (error) {
  show(` ${error.name} ${error.kind}: ${error.message}`);
}
document.documentElement.dataset.state = "finished";
"""
PAGE = (
    '<!doctype html><meta charset="utf-8"><title>one file</title><link rel="icon" href="data:,">'
    '<output></output><script type="module" src="page.js"></script>'
)
POLICY = (
    "default-src 'none'; script-src 'self' CDN 'wasm-unsafe-eval'; worker-src blob:; "
    "connect-src 'self'; img-src data:; require-trusted-types-for 'script'; "
    "trusted-types detok-library"
)


class Files(http.server.SimpleHTTPRequestHandler):
    policy = ""

    def end_headers(self):
        self.send_header("Access-Control-Allow-Origin", "*")
        if self.policy:
            self.send_header("Content-Security-Policy", self.policy)
        super().end_headers()


@pytest.fixture(scope="module")
def cdn(tmp_path_factory):
    """The folder that another origin serves, with the single file."""
    folder = tmp_path_factory.mktemp("cdn")
    command = ["node", "--input-type=module", "-e", BUILD]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return folder


@pytest.fixture
def visit(page, cdn, tmp_path):
    """Open a page under a policy; return its text, and the URLs that it requested."""
    stack = contextlib.ExitStack()

    def serve(folder, policy=""):
        handler = type("Handler", (Files,), {"policy": policy})
        return stack.enter_context(serving(folder, handler))

    def go(policy, markup=PAGE):
        elsewhere = serve(cdn)
        site = serve(tmp_path, policy.replace("CDN", elsewhere))
        script = SCRIPT.replace("CDN", elsewhere).replace("TEXT", TEXT)
        (tmp_path / "page.js").write_text(script, encoding="utf-8")
        (tmp_path / "index.html").write_text(markup.replace("CDN", elsewhere))
        (tmp_path / "answer").write_text(f"{TEXT}</s> and nothing more", encoding="utf-8")
        pieces = [bytes([n]) for n in range(256)]
        (tmp_path / "bytes.detok").write_bytes(Vocabulary.from_bytes(pieces).pack())
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(site + "/")
        if markup != PAGE:
            expect(page.locator("body")).to_have_text(TEXT)
            return None
        expect(page.locator("html[data-state=finished]")).to_be_attached()
        asked = [url for url in asked if not url.startswith(("data:", "blob:"))]
        return page.locator("output").text_content(), {url.rpartition("/")[2] for url in asked}

    with stack:
        yield go


@pytest.mark.engine
def test_one_file_of_another_origin_decodes_under_a_strict_policy(visit):
    text, asked = visit(POLICY)
    assert text.startswith(TEXT * 3 + " DetokError option: The single file has MicroPython"), text
    assert asked == {"", "page.js", "detok-web.js", "bytes.detok"}


@pytest.mark.full
@pytest.mark.engine
@pytest.mark.parametrize(
    ("without", "sentence"),
    [
        ("worker-src blob:; ", "must allow blob:"),
        (" 'wasm-unsafe-eval'", "script-src must have 'wasm-unsafe-eval'"),
    ],
)
def test_a_policy_that_forbids_it_is_named(visit, without, sentence):
    text, _ = visit(POLICY.replace(without, ""))
    assert text.startswith(" DetokError policy: Python could not be loaded"), text
    assert sentence in text


@pytest.mark.full
@pytest.mark.one_browser
def test_the_page_of_the_documentation_works(visit):
    document = (ROOT / "docs" / "web" / "single-file.md").read_text("utf-8")
    markup = document.partition("```html\n")[2].partition("```")[0]
    visit("", markup.replace("https://cdn.example/detok-web-0.1.0.js", "CDN/detok-web.js"))
