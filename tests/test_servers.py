"""The library for servers, in Node and Deno: each push gives what the core gives, as in a page."""

import json
import os
import random
import re
import subprocess
import threading

import pytest
from adapters.detok import vocabulary_of
from bridge_rig import VOCABULARY
from packed import ROOT, install, pack
from programs import ran
from pushes import PUSHED, pushed
from served_bridge import Bridge
from websockets.sync.server import serve

import detok_py as d
from detok_py.protocol import wire

pytestmark = [pytest.mark.native, pytest.mark.slow]

SUITE = json.loads((ROOT / "conformance" / "cases.json").read_text("utf-8"))
BUILD = """
import {{ buildServer }} from "{root}/tools/hosts.mjs";
const entryPoints = ["index", "assistant-ui", "deep-chat"].map((name) => `{root}/web/src/${{name}}.js`);
await buildServer("{root}/web", {{ entryPoints, outdir: "{out}" }});
"""
DENO = {"name": "deno", "version": "2.9.6"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The path of the library's index, as the package has it, beside its runtime."""
    folder = tmp_path_factory.mktemp("server")
    index = folder / "node" / "index.js"
    (folder / "build.mjs").write_text(BUILD.format(root=ROOT, out=index.parent))
    subprocess.run(["node", "build.mjs"], cwd=folder, check=True, timeout=60)
    (folder / "runtime").symlink_to(ROOT / ".build" / "runtime")
    return index


@pytest.fixture(scope="module")
def deno(tmp_path_factory):
    """The command of Deno, from the package of that name."""
    folder = tmp_path_factory.mktemp("deno")
    (folder / "package.json").write_text('{"private": true}')
    package = f"{DENO['name']}@{DENO['version']}"
    words = ("install", "--no-audit", "--no-fund", "--no-package-lock", package)
    done = ran("npm", *words, cwd=folder, timeout=300)
    program = folder / "node_modules" / "deno" / "bin.cjs"
    if done.returncode or not program.exists():
        pytest.skip("npm could not install Deno: is a registry reachable?")
    environment = {**os.environ, "DENO_NO_UPDATE_CHECK": "1", "DENO_DIR": str(folder / "cache")}
    return ["node", str(program), "run", "--quiet", "--no-prompt", "--allow-all"], environment


@pytest.fixture(params=["node", pytest.param("deno", marks=pytest.mark.full)])
def run(request, tmp_path):
    """Run a script, a file or a text, and return what it prints, as JSON."""
    command, environment = ["node", "--experimental-websocket"], dict(os.environ)
    if request.param == "deno":
        command, environment = request.getfixturevalue("deno")

    def run(script, *words):
        if isinstance(script, str):
            (tmp_path / "script.mjs").write_text(script, encoding="utf-8")
            script = tmp_path / "script.mjs"
        done = ran(*command, script, *words, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return run


def test_the_conformance_suite_is_right_with_each_push(run, library, tmp_path):
    for number, (name, tokenizer) in enumerate(SUITE["vocabularies"].items()):
        vocabulary = vocabulary_of({"vocabulary": name, "tokenizer": tokenizer})
        (tmp_path / f"{number}.detok").write_bytes(vocabulary.pack())
    outcomes = run(ROOT / "tests" / "suite_in_servers.mjs", library, tmp_path)
    wrong = [one for one in outcomes if one["verdict"] not in ("right", "not claimed")]
    assert wrong == []
    assert sum(one["verdict"] == "right" for one in outcomes) >= 200


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_each_push_gives_what_the_core_gives(run, library, tmp_path, runtime):
    words = [*"naïve ".encode(), 256, 257, 0x9F, 0x98, 0x80, 258, 0xFF, 33]
    rng = random.Random(14)
    runs = [rng.choices(words, k=24) for _ in range(40)]
    (tmp_path / "small.detok").write_bytes(VOCABULARY.pack())
    given = json.dumps([{"runtime": runtime}, runs, str(tmp_path / "small.detok")])
    script = (
        f'import * as lib from "{library}";\n'
        "const fromHex = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));\n"
        f"console.log(JSON.stringify(await ({PUSHED})({given})));\n"
    )
    expected = [list(pushed(d.Detokenizer(VOCABULARY), run)) for run in runs]
    assert run(script) == expected


def test_an_answer_of_a_bridge_comes_whole_and_the_process_ends(run, library):
    bridge = Bridge("--engine", "recite", "--allow-no-origin")
    text = "naïve 你好 👩‍🚀 é שלום 🇩🇪"
    request = {"prompt": "", "params": {"engine": "scripted", "text": text, "pace": 0}}
    script = (
        f'import {{ connect }} from "{library}";\n'
        f"const answer = connect({json.dumps(bridge.url.replace('http', 'ws') + '/stream')}, {json.dumps(request)});\n"
        'let text = ""; for await (const delta of answer) text += delta.text;\n'
        "console.log(JSON.stringify([text, (await answer.finished).reason]));\n"
    )
    try:
        assert run(script) == [text, "eos"]
    finally:
        bridge.stop()


@pytest.mark.full
def test_a_bridge_that_is_not_there_is_tried_again_and_then_said(run, library):
    script = (
        f'import {{ connect }} from "{library}";\n'
        'const answer = connect("ws://127.0.0.1:1/stream", { prompt: "" });\n'
        'const codes = []; answer.addEventListener("resume", ({ detail }) => { codes.push(detail.code); if (codes.length === 2) answer.cancel(); });\n'
        "const { reason } = await answer.finished;\n"
        "console.log(JSON.stringify([codes, reason]));\n"
    )
    assert run(script) == [[1006, 1006], "cancelled"]


@pytest.mark.full
def test_the_installed_package_gives_servers_their_own_form(run, tmp_path):
    package = install(pack(), tmp_path / "app", pyodide=True)
    script = package.parent.parent / "app.mjs"
    script.write_text(
        'import { DetokError, DetokStream } from "detok-web";\n'
        'import { readAnswer } from "detok-web/fetch";\n'
        "const read = async (parts) => { let text = ''; for await (const part of parts) text += part.text ?? part; return text; };\n"
        'const body = () => new Response("né<think>x</think>STOP and more");\n'
        'const text = await read(body().body.pipeThrough(new DetokStream({ stop: "STOP" })));\n'
        'const content = await read(readAnswer(body(), { format: "bytes", stop: "STOP", tools: true, runtime: "pyodide" }));\n'
        "const one = await read(readAnswer(new Response('', { status: 500 }))).catch((error) => error);\n"
        "console.log(JSON.stringify([text, content, one instanceof DetokError]));\n"
    )
    text = "né<think>x</think>"
    assert run(script) == [text, text, True]
    # What the documentation shows.
    document = (ROOT / "docs" / "web" / "servers.md").read_text("utf-8")
    handler, loop = re.findall(r"```js\n(.*?)```", document, re.DOTALL)
    (script.parent / "handler.mjs").write_text(handler)
    (script.parent / "loop.mjs").write_text(loop)
    (script.parent / "tokenizer.detok").write_bytes(VOCABULARY.pack())
    script.write_text(
        'globalThis.fetch = async () => new Response("né</s> and more");\n'
        "const said = []; console.log = (text) => said.push(text);\n"
        'const { GET } = await import("./handler.mjs");\n'
        "said.push(await (await GET()).text());\n"
        'await import("./loop.mjs");\n'
        "process.stdout.write(JSON.stringify(said));\n"
    )
    assert run(script) == ["né", "h", "i", ""]


@pytest.fixture
def asked():
    """The address of a bridge that refuses everything, and what it was asked."""
    requests = []

    def refuse(socket):
        engine = {"name": "script"}
        socket.send(wire.message("hello", protocol=wire.SUBPROTOCOL, engine=engine))
        requests.append(json.loads(socket.recv(timeout=60)))
        socket.send(wire.message("error", code=4400, message="Not this.", retry=False))
        socket.close(4400)

    with serve(refuse, "127.0.0.1", 0, subprotocols=[wire.SUBPROTOCOL]) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/stream", requests
        server.shutdown()
        thread.join()


MODEL = """
import { detokModel } from "LIBRARY/assistant-ui.js";
const said = (text) => [{ type: "text", text }];
const call = { type: "tool-call", toolCallId: "1", toolName: "add", args: { a: 1 }, argsText: "", result: 2 };
const messages = [
  { role: "user", content: said("one") },
  { role: "assistant", content: [{ type: "reasoning", text: "hm" }, ...said("two"), call] },
  { role: "user", content: said("three") },
];
const run = async (...thread) => {
  const options = { messages: thread, abortSignal: new AbortController().signal, context: { system: "Be kind." } };
  try { for await (const part of detokModel("URL").run(options)); } catch (error) { return error.message; }
};
const image = { role: "user", content: [{ type: "image", image: "data:," }] };
console.log(JSON.stringify([await run(...messages), await run(image)]));
"""
HANDLER = """
import { detokHandler } from "LIBRARY/deep-chat.js";
const run = async (body) => {
  const heard = [];
  const note = (name) => (...words) => void heard.push([name, ...words]);
  const signals = { onOpen: note("open"), onClose: note("close"), onResponse: async (one) => note("response")(one), stopClicked: {} };
  await detokHandler("URL")(body, signals);
  return heard;
};
const messages = [{ role: "user", text: "one" }, { role: "ai", text: "two" }, { role: "user", text: "three" }];
console.log(JSON.stringify([await run({ messages }), await run(new FormData())]));
"""


def test_assistant_ui_sends_every_turn_with_its_calls_and_results(run, library, asked):
    url, requests = asked
    refused, image = run(MODEL.replace("LIBRARY", str(library.parent)).replace("URL", url))
    assert "did not understand" in refused
    assert image == 'A bridge takes text only, and this message has a part "image".'
    calls = [{"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}]
    assert requests[0]["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two", "tool_calls": calls},
        {"role": "tool", "content": "2", "tool_call_id": "1"},
        {"role": "user", "content": "three"},
    ]


def test_deep_chat_sends_its_messages_and_shows_a_refusal(run, library, asked):
    url, requests = asked
    refused, form = run(HANDLER.replace("LIBRARY", str(library.parent)).replace("URL", url))
    assert [name for name, *_ in refused] == ["open", "response", "response", "close"]
    assert "did not understand" in refused[2][1]["error"]
    assert form[1:] == [
        ["response", {"error": "A bridge takes text only: send it without files."}],
        ["close"],
    ]
    roles = [(one["role"], one["content"]) for one in requests[0]["messages"]]
    assert roles == [("user", "one"), ("assistant", "two"), ("user", "three")]
