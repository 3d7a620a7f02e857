"""The code blocks of the documents, each run in a browser as a reader runs it, before a real
bridge.
"""

import json
import re
import subprocess
from typing import Any

import pytest
from complaints import WRONG, heard
from documents import ROOT, Block, blocks
from playwright.sync_api import expect
from small_tokenizers import byte_level
from transfer import sse

from detok_py import Vocabulary

pytestmark = pytest.mark.one_browser

BLOCKS = [block for block in blocks() if block.in_browser]
COMPONENTS = ("jsx", "svelte", "vue")
# The sources of the components, where both Svelte and the packages of this project are found.
SOURCES = ROOT / ".build" / "docs" / "blocks"
TEXT = "naïve 你好 👩‍🚀 שלום"
# The ids of the examples, as in the vocabulary of Llama 3.
PIECES = {9906: b"Hello", 11: b",", 1917: b" world", 0: b"!"}
EVENTS = ["<think>hm</th", "ink>你好 ", "👩", "\u200d🚀"]
EXPORTS = json.loads((ROOT / "web" / "package.json").read_text("utf-8"))["exports"]
SUB_PATHS = [path[2:] for path in EXPORTS if re.fullmatch(r"\./[\w-]+", path)]
IMPORTS = {f"detok-web/{path}": f"/src/{path}.js" for path in SUB_PATHS}
# What embedding.md says that the examples find in a page.
PAGE = """<!doctype html><meta charset="utf-8"><title>block</title><link rel="icon" href="data:,">
<div id="app"></div><p id="bubble"></p><p id="hint"></p><button id="stopButton">Stop</button><input type="file" id="fileInput">
<script type="importmap">{imports}</script>
<script>const sha256 = "{sha256}", body = "hello";</script>
<script type="module">{script}
document.documentElement.dataset.state = "run";</script>"""
IN_PYODIDE = """import {{ loadPyodide }} from "/runtime/pyodide.mjs";
const python = await loadPyodide({{ indexURL: "/runtime/", packages: ["micropip"] }});
await python.runPythonAsync(`import micropip\nmicropip.set_index_urls(["${{location.origin}}/wheels/simple"])`);
await python.runPythonAsync({code});"""
MOUNT = {
    "jsx": 'import {{ createElement }} from "react"; import {{ createRoot }} from "react-dom/client"; import * as block from "./{file}";'
    "createRoot(document.getElementById('app')).render(createElement(Object.values(block)[0]));",
    "vue": 'import {{ createApp }} from "vue"; import block from "./{file}"; createApp(block).mount("#app");',
    "svelte": 'import {{ mount }} from "svelte"; import block from "./{file}"; mount(block, {{ target: document.getElementById("app") }});',
}
# Single files of components to JavaScript: `node compile.cjs LANGUAGE FILE`.
COMPILE = """const [language, source] = [process.argv[2], require("fs").readFileSync(process.argv[3], "utf8")];
if (language === "vue") {
  const { parse, compileScript } = require("vue/compiler-sfc");
  process.stdout.write(compileScript(parse(source).descriptor, { id: "block", inlineTemplate: true }).content);
} else process.stdout.write(require("svelte/compiler").compile(source, { generate: "client" }).js.code);"""


def compiled(block: Block) -> str:
    """Return a component of Svelte or Vue as JavaScript."""
    source = SOURCES / f"block.{block.language}"
    source.write_text(block.text, encoding="utf-8")
    script = SOURCES / "compile.cjs"
    script.write_text(COMPILE, encoding="utf-8")
    command = ["node", str(script), block.language, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bundled(block: Block) -> str:
    """Bundle a component with what mounts it; return where the bridge serves it."""
    SOURCES.mkdir(parents=True, exist_ok=True)
    is_jsx = block.language == "jsx"  # esbuild reads it
    name = "block-" + re.sub(r"\W", "-", str(block))
    file = f"{name}.code.{'jsx' if is_jsx else 'js'}"
    (SOURCES / file).write_text(block.text if is_jsx else compiled(block), encoding="utf-8")
    (SOURCES / f"{name}.js").write_text(MOUNT[block.language].format(file=file), encoding="utf-8")
    command = ["node", "tools/build_examples.mjs", str(SOURCES / f"{name}.js")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    return f"/examples/built/{name}.js"


def page_of(block: Block, sha256: str) -> str:
    """Return the HTML of a page with a block."""
    if block.language == "html":
        return '<link rel="icon" href="data:,">' + block.text
    imports = json.dumps({"imports": {"detok-web": "/src/index.js", **IMPORTS}})
    if block.language in COMPONENTS:
        script = f'import "{bundled(block)}";'
    elif block.language == "python":
        script = IN_PYODIDE.format(code=json.dumps(block.text))
    else:
        script = block.text
    return PAGE.format(imports=imports, sha256=sha256, script=script)


@pytest.fixture
def reader(page: Any, bridge: Any, tmp_path: Any) -> Any:
    """Open a block as a page of the bridge, with the addresses that the documents name."""
    complaints = heard(page, *WRONG)
    pieces = [PIECES.get(i) for i in range(max(PIECES) + 1)]
    bytes_only = Vocabulary.from_bytes([bytes([i]) for i in range(256)] + [b"ab"] * 24)
    plain = "text/plain; charset=utf-8"
    given: dict[str, tuple[str, str | bytes]] = {
        "/answer": (plain, TEXT + "</s> and nothing more"),
        "/v1/raw": (plain, TEXT + "</s> and nothing more"),
        "/llama3.detok": ("application/octet-stream", Vocabulary.from_bytes(pieces).pack()),
        "/qwen3.detok": ("application/octet-stream", bytes_only.pack()),
        "/v1/chat/completions": ("text/event-stream", sse(*EVENTS) + b"data: [DONE]\n\n"),
    }

    def serve(path: str, kind: str, body: str | bytes) -> None:
        page.route(bridge.url + path, lambda route: route.fulfill(content_type=kind, body=body))

    for path, (kind, body) in given.items():
        serve(path, kind, body)
    # The installed package is one bundle for each entry, whose names are those of the sources.
    page.route(
        "**/node_modules/detok-web/dist/*.js",
        lambda route: route.fulfill(
            content_type="text/javascript",
            body=f'export * from "/src/{route.request.url.rpartition("/")[2]}";',
        ),
    )
    (tmp_path / "tokenizer.json").write_text(json.dumps(byte_level()), encoding="utf-8")

    def open_block(block: Block) -> Any:
        text = page_of(block, bytes_only.sha256)
        text = text.replace("ws://127.0.0.1:8765", bridge.url.replace("http", "ws"))
        serve("/documents/", "text/html; charset=utf-8", text)
        page.goto(bridge.url + "/documents/")
        for _, file in block.marked("choose"):
            expect(page.locator("html")).to_have_attribute("data-state", "run")
            folder = tmp_path if (tmp_path / file).exists() else ROOT / "tests/fixtures/streams"
            page.locator("#fileInput").set_input_files(folder / file)
        for _, button in block.marked("click"):
            page.get_by_role("button", name=button, exact=True).click()
        return page

    yield open_block
    assert complaints == []


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, marks=[pytest.mark.full] if block.language == "svelte" else [])
        for block in BLOCKS
    ],
    ids=str,
)
def test_a_block_of_the_documents_shows_what_they_say(reader: Any, block: Block) -> None:
    page = reader(block)
    for where, text in block.marked("shows"):
        place = page.locator(f"#{where}" if where in ("bubble", "hint") else where)
        pattern = ".*".join(map(re.escape, text.split("…")))
        expect(place).to_have_text(re.compile(f"^{pattern}$", re.DOTALL))
