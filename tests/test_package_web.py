"""detok-web as npm packs it: whole, small, importable on a server, typed, and with nothing in it
that was not meant to be.
"""

import json
import re
import shutil
import subprocess
import tarfile
import tomllib

import documents
import pytest
from packed import ROOT, assert_links_are_absolute, install, pack, run

import detok_py

pytestmark = [pytest.mark.native, pytest.mark.full]

MOST_JAVASCRIPT = 10_150
# Tells a file that should not be there; the reserve is for code that grows.
MOST_PACKED = 670_000
# With brotli as a server compresses a file when it is asked for; the heads of the answers add 1 kB.
MOST_WITH_MICROPYTHON = 302_000
BROTLI = """import { readFileSync } from "node:fs";
import { brotliCompressSync, constants } from "node:zlib";
const quick = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } };
const size = (file) => brotliCompressSync(readFileSync(file), quick).length;
console.log(process.argv.slice(1).reduce((sum, file) => sum + size(file), 0));"""
SUBPATHS = {
    "detok-web": {
        *("Answer", "Decoder", "DetokError", "DetokStream", "connect", "createDecoder"),
        *("graphemes", "loadVocabulary", "shutDown", "warmUp"),
    },
    "detok-web/fetch": {"ServerSentEvents", "readAnswer", "resumingFetch"},
    "detok-web/ai-sdk": {"DetokTransport"},
    "detok-web/assistant-ui": {"detokModel"},
    "detok-web/deep-chat": {"detokHandler"},
    "detok-web/react": {"useAnswer"},
    "detok-web/vue": {"useAnswer"},
    "detok-web/svelte": {"answerStore"},
    "detok-web/store": {"AnswerStore"},
    "detok-web/element": {"DetokText", "define"},
    "detok-web/capture": {"readCapture", "writeCapture"},
}
# What the sub-paths share with index.js; the types don't tell of it.
SHARED = {
    "DecoderWorker",
    "asDetokError",
    "base",
    "checked",
    "decoderWorker",
    "socketUrl",
    "startWorker",
}
DOM = "ES2023,DOM,DOM.Iterable,DOM.AsyncIterable"
# Those with types and without names to import.
WORKERS = {
    f"detok-web/{name}.js" for name in ("boot-pyodide", "decoder-worker", "micropip", "socket")
}
# Imports each sub-path and says its names, and which globals came with it. What it left running
# would keep Node from ending.
IMPORTER = """
const before = new Set(Reflect.ownKeys(globalThis));
const names = {};
for (const path of process.argv.slice(2)) names[path] = Object.keys(await import(path));
const globals = Reflect.ownKeys(globalThis).filter((key) => !before.has(key)).map(String);
console.log(JSON.stringify({ names, globals }));
"""


@pytest.fixture(scope="module")
def built():
    return pack()


@pytest.fixture(scope="module")
def manifest(installed):
    return json.loads((installed / "package.json").read_text())


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    return install(built, tmp_path_factory.mktemp("app") / "empty", pyodide=True)


@pytest.fixture(scope="module")
def app(installed):
    """The folder of the app, with the packages beside it that the adapters are for."""
    modules = installed.parent
    for name in (
        "react",
        "ai",
        "@types",
        "@ai-sdk",
        "@opentelemetry",
        "@standard-schema",
        "zod",
        "json-schema",
        "csstype",
        "vue",
        "@vue",
    ):
        if (ROOT / "node_modules" / name).exists():
            (modules / name).symlink_to(ROOT / "node_modules" / name)
    return modules.parent


def compiled(folder, files, *options, target="ES2022", lib=DOM):
    """Compile files of a folder as a strict program, without writing anything."""
    words = ["node", str(ROOT / "node_modules" / "typescript" / "bin" / "tsc"), *map(str, files)]
    words += ["--strict", "--noEmit", "--target", target, *(["--lib", lib] if lib else [])]
    run([*words, *options], folder)


def files_of(package):
    return [
        path.relative_to(package).as_posix()
        for path in sorted(package.rglob("*"))
        if path.is_file()
    ]


def test_the_package_is_small_and_asks_for_pyodide_only_where_it_is_wanted(
    built, installed, manifest
):
    assert built["bytes"] <= MOST_PACKED
    assert not [name for name in files_of(installed) if name.startswith("runtime/py")]
    assert manifest["peerDependencies"]["detok-web-pyodide"] == detok_py.__version__
    assert manifest["peerDependenciesMeta"]["detok-web-pyodide"] == {"optional": True}
    assert "dependencies" not in manifest


def test_the_package_for_pyodide_has_what_its_files_say(built):
    with tarfile.open(built["pyodide"]["file"]) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    assert names == {
        *("package.json", "README.md", "LICENSE", "THIRD-PARTY.md"),
        *("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_core.zip"),
        *("python_core.json", "detok_captures.bin", "kit.zip"),
    }


@pytest.mark.parametrize(
    ("name", "folder"),
    [("detok-web", "web"), ("detok-web-pyodide", "packages/detok-web-pyodide")],
)
def test_a_package_says_its_version_and_where_it_comes_from(installed, name, folder):
    manifest = json.loads((installed.parent / name / "package.json").read_text())
    assert manifest["version"] == detok_py.__version__
    assert "version" not in json.loads((ROOT / folder / "package.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    at = project["urls"]["Repository"]
    assert manifest["repository"] == {"type": "git", "url": f"git+{at}.git", "directory": folder}
    assert manifest["bugs"]["url"] == project["urls"]["Issues"]
    assert manifest["homepage"].startswith(f"{at}/tree/v{detok_py.__version__}/{folder}")
    readme = (installed.parent / name / "README.md").read_text("utf-8")
    assert_links_are_absolute(readme, at)


def test_the_kit_without_pyodide_says_what_to_install(built, tmp_path):
    alone = install(built, tmp_path / "alone").parent.parent
    (alone / "start.mjs").write_text(
        'import { startPython } from "./node_modules/detok-web/kit/python.mjs";\n'
        "await startPython().catch(({ message }) => console.log(message));"
    )
    said = run(["node", "start.mjs"], alone)
    assert f"npm install --save-dev detok-web-pyodide@{detok_py.__version__}" in said
    assert "none is installed" in said


def test_a_command_that_cannot_run_is_one_sentence_and_its_help_is_its_usage(tmp_path):
    for folder in ("bin", "kit"):
        shutil.copytree(ROOT / "web" / folder, tmp_path / folder)
    (tmp_path / "package.json").write_text('{"type": "module", "version": "1.0.0"}')
    command = ["node", str(tmp_path / "bin" / "detok-web.mjs")]
    check = [*command, "check", "http://127.0.0.1:9"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("detok-web: The regression kit runs in Pyodide")
    for words in (["--help"], ["-h"], ["conformance", "--help"]):
        assert run([*command, *words], tmp_path).startswith("usage: detok-web conformance")


def test_a_page_downloads_little(built, installed):
    assert built["javascript"] <= MOST_JAVASCRIPT
    files = ["dist/index.js", "dist/decoder-worker.js"]
    files += [f"runtime/micropython.{kind}" for kind in ("mjs", "wasm")]
    files += ["runtime/detok_micropython.bin"]
    told = run(["node", "--input-type=module", "-e", BROTLI, *files], installed)
    assert 200_000 < int(told) <= MOST_WITH_MICROPYTHON


def test_what_is_loaded_by_its_address_is_too_long_for_a_data_url(installed):
    """Vite makes data: URLs of files below 4096 bytes, which have no origin and fetch nothing."""
    loaded = ["decoder-worker.js", "socket.js"]
    assert [name for name in loaded if (installed / "dist" / name).stat().st_size <= 4096] == []


def test_only_what_was_meant_to_be_is_in_it(built):
    with tarfile.open(built["file"]) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    plain = {name for name in names if "/" not in name}
    assert plain == {"package.json", "README.md", "LICENSE", "THIRD-PARTY.md"}
    folders = {name.split("/")[0] for name in names - plain}
    assert folders == {"bin", "dist", "kit", "node", "src", "runtime"}
    kinds = {name.rpartition(".")[2] for name in names if name.startswith("dist/")}
    assert kinds == {"js", "map", "ts"}


def test_every_export_is_there_with_its_types(installed, manifest):
    assert manifest["sideEffects"] is False
    for name, entry in manifest["exports"].items():
        for file in entry.values() if isinstance(entry, dict) else [entry]:
            assert (installed / file.replace("*", "micropython.wasm")).is_file(), name
    assert set(SUBPATHS) | WORKERS | {"detok-web/playwright"} == {
        "detok-web" + name[1:]
        for name, entry in manifest["exports"].items()
        if isinstance(entry, dict)
    }


def test_its_command_runs_the_conformance_suite(installed, tmp_path):
    (tmp_path / "nothing.mjs").write_text("export default () => null;")
    done = run(
        ["npx", "--no-install", "detok-web", "conformance", str(tmp_path / "nothing.mjs")],
        installed.parent.parent,
    )
    assert "all" in done and "not claimed" in done


def test_every_module_of_the_library_can_be_reached_from_an_export(installed):
    sources = {path.name for path in (ROOT / "web" / "src").glob("*.js")}
    packed = {path.name for path in (installed / "src").glob("*.js")} - {"package.js"}
    assert sources == packed


def test_the_worker_is_one_file_that_works_wherever_a_bundler_puts_it(installed):
    worker = (installed / "dist" / "decoder-worker.js").read_text("utf-8")
    assert "import.meta" not in worker
    assert not re.findall(r"""\b(?:import|from)\s*\(?\s*["']""", worker)


def test_nothing_in_it_names_this_machine(installed):
    for name in files_of(installed):
        if name.endswith((".js", ".map", ".ts", ".json", ".md")) and not name.startswith(
            "runtime/"
        ):
            text = (installed / name).read_text("utf-8")
            assert str(ROOT) not in text, name
            assert "/tmp/" not in re.sub(r'`/tmp/|"/tmp/', "", text), (
                name
            )  # Pyodide's own file system has one


def test_each_map_leads_to_the_sources(installed):
    for path in (installed / "dist").glob("*.map"):
        for source in json.loads(path.read_text())["sources"]:
            assert (path.parent / source).is_file(), f"{path.name}: {source}"


def test_every_export_can_be_imported_on_a_server_and_does_nothing(app):
    (app / "import.mjs").write_text(IMPORTER)
    said = json.loads(run(["node", "import.mjs", *SUBPATHS], app))
    wanted = SUBPATHS | {"detok-web": SUBPATHS["detok-web"] | SHARED}
    assert {path: set(names) for path, names in said["names"].items()} == wanted
    # Vue itself sets some.
    assert [name for name in said["globals"] if "VUE" not in name] == []


def test_the_hook_is_for_the_browser_where_react_renders_on_servers_as_well(installed):
    assert (installed / "dist" / "react.js").read_text().startswith('"use client"')


def test_without_the_frameworks_the_rest_can_still_be_imported(built, tmp_path):
    alone = install(built, tmp_path / "alone").parent.parent
    (alone / "import.mjs").write_text(IMPORTER)
    run(
        ["node", "import.mjs", *(path for path in SUBPATHS if not path.endswith(("react", "vue")))],
        alone,
    )


CONSUMER = """
import { connect, createDecoder, DetokError, DetokStream, loadVocabulary, warmUp, type Delta, type Finish, type Vocabulary } from "detok-web";
import { readAnswer } from "detok-web/fetch";
import { DetokTransport } from "detok-web/ai-sdk";
import { useAnswer } from "detok-web/react";
import { useAnswer as inVue } from "detok-web/vue";
import { answerStore } from "detok-web/svelte";
import { define } from "detok-web/element";
import { readCapture, writeCapture } from "detok-web/capture";

export async function all(response: Response, signal: AbortSignal): Promise<string> {
  await warmUp({ onProgress: ({ step }) => console.log(step.length) });
  const vocabulary: Vocabulary = await loadVocabulary("/vocabulary", { cache: false, signal });
  const stream: ReadableStream<string> = response.body!.pipeThrough(new DetokStream({ vocabulary, stop: ["x"], granularity: "grapheme" }));
  const answer = connect("/stream", { messages: [{ role: "user", content: "hi" }], signal });
  answer.addEventListener("held", ({ detail }) => console.log(detail.bytes + detail.text.length));
  answer.addEventListener("finish", ({ detail }) => console.log(detail.reason satisfies Finish["reason"]), { once: true });
  answer.addEventListener("mine", (event: Event) => console.log(event.type));
  const finish: Finish = await answer.finished;
  const ended: "eos" | "stop" | "length" | "tool_calls" | "cancelled" | "error" = finish.reason;
  let text = "";
  for await (const delta of answer) text += (delta satisfies Delta).text;
  for await (const { channel, text: part } of readAnswer(response)) text += channel === "content" ? part : "";
  const failure = new DetokError("no", { code: 4409 });
  define();
  const detailed = connect("/stream", { prompt: "", details: true, runtime: "pyodide", install: "micropip", id: "0123456789abcdef" });
  detailed.addEventListener("token", ({ detail }) => console.log(detail.at, detail.rows?.map(({ id, bytes, special }) => [id, bytes.length, special])));
  detailed.addEventListener("hello", ({ detail }) => console.log(detail.engine.name));
  const capture = await readCapture(new Blob([]));
  text += await writeCapture({ header: capture.header, rows: capture.rows, seconds: capture.seconds, end: { type: "finished" } });
  return text + ended + (failure.code ?? 0) + String(stream) + String(useAnswer("/stream").status) + String(new DetokTransport("/stream"));
}

// @ts-expect-error A runtime that there isn't.
new DetokStream({ runtime: "cpython" });
// @ts-expect-error No event has this.
connect("/stream", { prompt: "" }).addEventListener("held", ({ detail }) => detail.nonsense);
// @ts-expect-error A stop is text, or a list.
connect("/stream", { prompt: "", stop: 5 });
// @ts-expect-error Something must be asked.
connect("/stream", {});
// @ts-expect-error Text is text.
for await (const part of new DetokStream().readable) part.channel;
for await (const part of new DetokStream({ output: "deltas" }).readable) part.channel satisfies Delta["channel"];
const decoder = await createDecoder({ stop: ["x"], onText: (text) => text.length satisfies number });
(decoder.push(1) + decoder.flush() + (await decoder.ready())) satisfies string;
// @ts-expect-error Text is text.
decoder.feed(1).at(-1).channel;
const byChannel = await createDecoder({ output: "deltas", onText: ([delta]) => delta?.channel satisfies string | undefined });
byChannel.push(1).map(({ channel }) => channel satisfies Delta["channel"]);
(await byChannel.ready()).length satisfies number;
(await byChannel.ready((deltas) => deltas.length)) satisfies number;
document.querySelector("detok-text")!.request = { prompt: "" };
const answer = inVue(() => "/stream");
answer.state.value.status satisfies "ready" | "submitted" | "streaming" | "reconnecting" | "error";
answerStore("/stream").subscribe(({ toolCalls }) => toolCalls.length);
const worker: Promise<object> = import("detok-web/decoder-worker.js");
"""
# Those of a new Next.js app: `lib` says nothing of the iteration of streams.
NEXT_OPTIONS = ["--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler"]
NEXT_OPTIONS += ["--isolatedModules"]
NEXT_LIB = "dom,dom.iterable,esnext"
FIRST_EXAMPLE = """
import { DetokStream } from "detok-web";

export async function show(bubble: HTMLElement, body: BodyInit) {
  const response = await fetch("/v1/raw", { method: "POST", body });
  const text = response.body!.pipeThrough(new DetokStream({ stop: ["</s>"] }));
  for await (const part of text) bubble.append(part);
}
"""


def test_the_first_example_compiles_with_the_settings_of_a_next_app(app):
    (app / "first.ts").write_text(FIRST_EXAMPLE)
    compiled(app, ["first.ts"], *NEXT_OPTIONS, target="ES2017", lib=NEXT_LIB)


@pytest.mark.parametrize(
    ("module", "resolution"),
    [("ES2022", "bundler"), ("Node16", "node16"), ("NodeNext", "nodenext")],
)
def test_a_strict_typescript_program_compiles_against_it(app, module, resolution):
    (app / "consumer.ts").write_text(CONSUMER)
    options = ["--skipLibCheck", "--module", module, "--moduleResolution", resolution]
    compiled(app, ["consumer.ts"], *options)


def test_a_test_in_typescript_compiles_against_the_fixture(app):
    for name in ("@playwright", "playwright", "playwright-core"):
        (app / "node_modules" / name).symlink_to(ROOT / "node_modules" / name)
    docs = (ROOT / "docs" / "testing-with-playwright.md").read_text("utf-8")
    files = re.findall(r"```ts\n(.*?)```", docs, re.DOTALL)
    files.append((ROOT / "tests/browser/playwright/fixture.spec.ts").read_text("utf-8"))
    assert len(files) == 3
    names = [f"kit{n}.spec.ts" for n in range(len(files))]
    for name, text in zip(names, files, strict=True):
        (app / name).write_text(text, encoding="utf-8")
    (app / "node.d.ts").write_text("declare const process: { env: Record<string, string> };")
    options = ["--module", "NodeNext", "--noUncheckedIndexedAccess", "--skipLibCheck"]
    compiled(app, ["node.d.ts", *names], *options, lib="")


def test_its_own_types_are_sound(installed):
    """What skipLibCheck would pass over: every declaration of ours, without those of the
    frameworks.
    """
    files = ["dist/index.d.ts", "dist/fetch.d.ts", "dist/element.d.ts"]
    compiled(installed, files, "--module", "ES2022", "--moduleResolution", "bundler")


# What the page of the reader has: the names that the examples use and don't make
# (docs/embedding.md).
PAGE = """
declare module "@assistant-ui/react";
declare module "deep-chat";
declare const bubble: HTMLElement, hint: HTMLElement, stopButton: HTMLButtonElement, fileInput: HTMLInputElement, sha256: string, body: string;
declare var __zod_globalConfig: { jitless: boolean };
"""


def snippets():
    """The scripts of the documents, each as a module: those of its HTML too. Those of reproductions
    are about other packages.
    """
    for block in documents.blocks():
        if block.document.startswith("docs/reproductions/"):
            continue
        if block.language in ("js", "jsx"):
            yield block.language, block.text
        elif block.language == "html":
            for text in re.findall(
                r'<script type="module">\n(.*?)</script>', block.text, re.DOTALL
            ):
                text = re.sub(r"https://cdn\.example/[\w.-]+", "detok-web", text)
                named = re.sub(r'"/node_modules/detok-web/dist/(\w+)\.js"', r'"detok-web/\1"', text)
                yield "html", named.replace("detok-web/index", "detok-web")


def test_every_script_of_the_documentation_compiles(app):
    found = list(snippets())
    assert len(found) >= 20
    folder = app / "snippets"
    folder.mkdir()
    (folder / "page.d.ts").write_text(PAGE)
    for n, (kind, text) in enumerate(found):
        # One that makes a name itself may.
        (folder / f"{n}.{'tsx' if kind == 'jsx' else 'ts'}").write_text(
            text + "\nexport {};\n", encoding="utf-8"
        )
    options = ["--strictNullChecks", "false", "--skipLibCheck", "--jsx", "react-jsx"]
    options += ["--module", "ES2022", "--moduleResolution", "bundler"]
    compiled(app, sorted(folder.iterdir()), *options)


PAGES = [
    "embedding.md",
    "testing-with-playwright.md",
    *(f"web/{path.name}" for path in sorted((ROOT / "docs/web").glob("*.md"))),
]


@pytest.mark.parametrize("name", ["README.md", *(f"docs/{page}" for page in PAGES)])
def test_the_documentation_names_only_what_there_is(installed, manifest, name):
    text = ((installed if name == "README.md" else ROOT) / name).read_text("utf-8")
    exported = {"detok-web" + path[1:] for path in manifest["exports"]}
    assert set(re.findall(r"detok-web/(?!dist|runtime)[\w-]+", text)) <= exported
    other = installed.parent / "detok-web-pyodide"
    for file in re.findall(r"\b(?:node_modules/detok-web/)?((?:dist|runtime)/[\w.-]+)", text):
        beside = other / file.removeprefix("runtime/")
        assert (installed / file).exists() or beside.exists(), file
