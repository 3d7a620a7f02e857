"""The examples, each opened as a reader opens it: complete, short, and right, with a clean console
under the bridge's own policy.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from axe import faults
from complaints import WRONG, heard
from library_rig import scripted
from local_server import local_server
from packed import built_once
from playwright.sync_api import expect
from static_folder import Lenient
from stock_llama_server import llama_server

from detok_py.bridge.engines.recite import texts

pytestmark = pytest.mark.one_browser

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "web" / "examples"
TEXTS = {text["id"]: text["text"] for text in texts()}
RECORDED = (EXAMPLES / "recorded.txt").read_text("utf-8")
# What `think: ` and `tool: ` recite, as each channel has it.
REASONING, ANSWER = TEXTS["think"].removeprefix("<think>").split("</think>")
SAID, CALL = TEXTS["tool"].removesuffix("\n</tool_call>").split("<tool_call>")
FILES = {
    "bubble": ["bubble.html", "bubble.js"],
    "events": ["events.html", "events.js"],
    "bytes": ["bytes.html", "bytes.js"],
    "element": ["element.html", "element.js"],
    "react": ["react.html", "react.jsx"],
    "ai-sdk": ["ai-sdk.html", "ai-sdk.jsx", "zod-without-eval.js"],
    "pyodide": ["pyodide.html", "pyodide.js"],
    "python": ["python.html", "python.js", "python.py"],
    "pyscript": ["pyscript.html", "pyscript.py"],
    "pyscript-worker": ["pyscript-worker.html", "pyscript-worker.py", "pyscript-main.py"],
    # Beside pyscript-micropython.py, which unpacks detok for MicroPython in any page.
    "pyscript-socket": ["pyscript-socket.html", "pyscript-socket.py"],
    "pyscript-socket-pyodide": ["pyscript-socket-pyodide.html", "pyscript-socket.py"],
}
CHAT = [
    "index.html",
    "chat.js",
    "message.js",
    "markdown.js",
    "history.js",
    "parts.js",
    "palette.css",
    "chat.css",
]
# For servers of their own: the bridge's policy forbids what it needs, and its index says so instead
# of leading there.
ELSEWHERE = ["pyscript", "pyscript-worker", "pyscript-socket", "pyscript-socket-pyodide"]
PAGES = ["chat/", *(f"{name}.html" for name in FILES if name not in ELSEWHERE)]


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    """Bundle what these tests import by name, once: another process may be serving it."""
    ours = [f"tests/browser/{name}.js" for name in ("ai_sdk_chat", "react_ask", "vue_ask")]
    command = ["node", "tools/build_examples.mjs", *ours]
    sources = [ROOT / "package-lock.json", ROOT / command[1], *(ROOT / name for name in ours)]
    sources += (ROOT / "web" / "src").glob("*.js")
    built_once("examples", sources, lambda _: subprocess.run(command, cwd=ROOT, check=True))


UNTIL = """globalThis.until = async (done) => {
  for (let turns = 0; !done(); turns++) {
    if (turns > 6000) throw new Error(`never: ${done}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};"""


class Example:
    """A page, and the errors and warnings of its console."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.complaints = heard(page, *WRONG)
        page.add_init_script(UNTIL)

    def open(self, name: str) -> Any:
        self.page.goto(f"{self.url}/examples/{name}.html")
        return self.page

    def blank(self) -> Any:
        """Open an empty page of the bridge, which has its policy."""
        self.page.goto(self.url + "/examples/")
        self.page.evaluate("document.body.replaceChildren()")
        return self.page

    def shows(self, selector: str, text: str) -> None:
        # Every white space counts, which `to_have_text` would join.
        exact = re.compile(f"^{re.escape(text)}$")
        expect(self.page.locator(selector).first).to_have_text(exact)

    def says(self, words: str) -> None:
        expect(self.page.get_by_role("status").first).to_contain_text(words)


@pytest.fixture
def example(page: Any, bridge: Any) -> Any:
    one = Example(page, bridge.url)
    yield one
    assert one.complaints == []


@pytest.mark.parametrize("name", FILES)
def test_an_example_is_at_most_25_lines(name: str) -> None:
    lines = [
        line
        for file in FILES[name]
        for line in (EXAMPLES / file).read_text("utf-8").splitlines()
        if line.strip()
    ]
    assert len(lines) <= 25


@pytest.mark.full
def test_every_example_is_listed_and_none_that_is_not_there(example: Any) -> None:
    page = example.page
    page.goto(example.url + "/examples/")
    links = page.eval_on_selector_all(
        "li > a", "(links) => links.map((link) => link.getAttribute('href'))"
    )
    assert sorted(links) == sorted(PAGES)
    there = {path.name for path in EXAMPLES.glob("*.html")}
    assert there == {"index.html", *(f"{name}.html" for name in FILES)}


@pytest.mark.full
def test_each_example_shows_its_source_and_is_accessible_at_390_pixels(
    page: Any, bridge: Any
) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    exports = json.loads((ROOT / "web" / "package.json").read_text("utf-8"))["exports"]
    found = {}
    for name in ["", *PAGES]:
        page.goto(f"{bridge.url}/examples/{name}")
        if name == "chat/":
            assert faults(page) == []
            page.get_by_role("button", name="Source").click()
        if name:
            files = CHAT if name == "chat/" else FILES[name.removesuffix(".html")]
            expect(page.locator(".source pre")).to_have_count(len(files))
            shown = page.locator(".source h2").all_text_contents()
            assert sorted(shown) == sorted(files)
            source = page.locator(".source pre").all_text_contents()
            assert "/src/" not in "".join(source) and "source.js" not in "".join(source)
            for module in re.findall(r'"(detok-web[^"]*)"', "".join(source)):
                assert module.replace("detok-web", ".") in exports
        found[name] = faults(page)
    assert {name: them for name, them in found.items() if them} == {}
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { document.title = text; }; }")  # fmt: skip
    page.get_by_role("button", name="Copy python.js").click()
    expect(page).to_have_title(re.compile("^import { loadPyodide }"))


def test_a_chat_bubble(example: Any) -> None:
    page = example.open("bubble")
    page.get_by_role("button", name="Send").click()
    example.shows("#bubble", TEXTS["hello"])
    example.says("Finished")


# What these show without a click.
SHOWN = {
    "bytes": {"#content": RECORDED, "[role=status]": "Finished."},
    "events": {"#content": ANSWER, "#reasoning": REASONING, "[role=status]": "Finished."},
    "pyodide": {"#content": RECORDED, "[role=status]": "Finished."},
    "python": {"#content": TEXTS["hello"]},
}


@pytest.mark.full
@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_the_whole_text(example: Any, name: str) -> None:
    example.open(name)
    for selector, text in SHOWN[name].items():
        example.shows(selector, text)


@pytest.mark.full
def test_a_custom_element(example: Any) -> None:
    page = example.open("element")
    example.says("Finished")
    element = page.locator("detok-text")
    assert element.text_content() == TEXTS["hello"]
    assert page.get_by_role("log").get_attribute("aria-live") == "off"
    assert element.get_attribute("dir") == "auto"


@pytest.mark.full
def test_a_react_hook(example: Any) -> None:
    page = example.open("react")
    page.get_by_role("button", name="Send").click()
    example.shows("[role=log]", ANSWER)
    example.says("ready")
    example.shows("details p", REASONING)


@pytest.mark.full
def test_the_ai_sdk(example: Any) -> None:
    page = example.open("ai-sdk")
    page.get_by_role("button", name="Send").click()
    arguments = page.evaluate("JSON.stringify", json.loads(CALL)["arguments"])
    example.shows("[role=log]", f"{SAID}get_weather {arguments}")
    example.says("ready")
    page.get_by_role("textbox").fill("think: ")
    page.get_by_role("button", name="Send").click()
    # White space alone makes no part; white space at the beginning of a part stays.
    shown = f"({REASONING}){ANSWER}"
    expect(page.locator("main")).to_have_text(re.compile(re.escape(shown)))


@pytest.fixture
def lenient(page: Any) -> Any:
    with local_server(Lenient) as site:
        yield Example(page, site.url)


@pytest.mark.full
@pytest.mark.parametrize("name", ["pyscript", "pyscript-worker"])
def test_pyscript_on_a_server_that_lets_it_compile_scripts_from_strings(
    lenient: Any, name: str
) -> None:
    asked: list[str] = []
    lenient.page.on("request", lambda request: asked.append(request.url))
    lenient.open(name)
    lenient.says("Finished")
    lenient.shows("#content", RECORDED)
    # Without two headers a worker cannot use the page's `document`, and says so; it needs not.
    found = [each for each in lenient.complaints if "SharedArrayBuffer" not in each]
    assert (found, len(lenient.complaints)) == ([], name == "pyscript-worker")
    own = (lenient.url, "blob:", "data:")
    assert [address for address in asked if not address.startswith(own)] == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "interpreter"),
    [("pyscript-socket", "micropython.mjs"), ("pyscript-socket-pyodide", "pyodide.mjs")],
)
def test_pyscript_over_a_websocket(
    lenient: Any, start_bridge: Any, name: str, interpreter: str
) -> None:
    page, url = lenient.page, lenient.url
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    bridge = start_bridge("--engine", "recite", "--allow-origin", url)
    page.goto(f"{url}/examples/{name}.html?bridge={bridge.url.replace('http', 'ws')}/stream")
    lenient.says("Finished")
    lenient.shows("#content", TEXTS["hello"])
    assert {"micropython.mjs", "pyodide.mjs"} & set(asked) == {interpreter}
    assert lenient.complaints == []


# ---------------------------------------------------------- the body of a fetch, from a real engine


READ_ENGINE = """async ([engine, prompt, options]) => {
  const { readAnswer } = await import("/src/fetch.js");
  const body = JSON.stringify({ messages: [{ role: "user", content: prompt }], stream: true, temperature: 0 });
  const got = { content: "", reasoning: "", tool_call: "" };
  const headers = { "content-type": "application/json" };
  const answer = readAnswer(fetch(engine + "/v1/chat/completions", { method: "POST", headers, body }), options);
  for (;;) {
    const { done, value } = await answer.next();
    if (done) return { ...got, reason: value };
    got[value.channel] += value.text;
  }
}"""


@pytest.mark.full
def test_a_real_engine_is_read_exactly(lenient: Any) -> None:
    """At every cut: tests/js/fetch.test.mjs."""
    page = lenient.blank()
    with llama_server() as engine:
        got = page.evaluate(READ_ENGINE, [engine, "hello: ", {}])
        only = {"reasoning": "", "tool_call": "", "reason": "stop"}
        assert got == {"content": TEXTS["hello"], **only}
        got = page.evaluate(READ_ENGINE, [engine, "think: ", {"reasoning": True}])
        assert (got["reasoning"], got["content"]) == (REASONING, ANSWER)
        got = page.evaluate(READ_ENGINE, [engine, "tool: ", {"tools": True}])
        assert got["tool_call"].strip() == CALL.strip()
        # A stop string of the page ends the text before it.
        got = page.evaluate(READ_ENGINE, [engine, "en: ", {"stop": ["thirty years"]}])
        assert got["content"] == TEXTS["en"].split("thirty years")[0]
    assert lenient.complaints == []


# ------------------------------------ React: development's double effects, lost connections, errors


def type_in(page: Any, text: str) -> None:
    """Type key by key: in Firefox, React does not notice text that Playwright fills in at once."""
    page.get_by_role("textbox").fill("")
    page.get_by_role("textbox").press_sequentially(text)


@pytest.mark.full
def test_the_hook_survives_double_effects_and_a_lost_connection(
    page: Any, bridge: Any, cutting_proxy: Any
) -> None:
    proxy = cutting_proxy(bridge.url)
    example = Example(page, proxy.url)
    example.blank()
    page.evaluate("""async () => {
      document.body.replaceChildren(Object.assign(document.createElement("div"), { id: "root" }));
      await import("/examples/built/react.development.js");
    }""")
    page.evaluate("""() => {
      globalThis.states = [];
      new MutationObserver(() => {
        const said = document.querySelector("[role=status]").textContent;
        if (said !== states.at(-1)) states.push(said);
      }).observe(document.getElementById("root"), { subtree: true, childList: true, characterData: true });
    }""")
    type_in(page, "hello: ")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("log")).not_to_be_empty()
    proxy.cut()
    example.shows("[role=log]", TEXTS["hello"])
    example.says("ready")
    states = page.evaluate("states")
    assert states[0] == "submitted"
    assert states[-1] == "ready"
    assert set(states) <= {"submitted", "streaming", "reconnecting", "ready"}
    # A second question keeps nothing of the first.
    type_in(page, "flags: ")
    page.get_by_role("button", name="Send").click()
    example.shows("[role=log]", TEXTS["flags"])
    # The browser itself reports a cut socket in the console.
    own = [each for each in example.complaints if "WebSocket" not in each and "stream" not in each]
    assert own == []


@pytest.mark.full
def test_the_hook_reports_a_stopped_bridge(page: Any, start_bridge: Any) -> None:
    bridge = start_bridge()
    example = Example(page, bridge.url)
    example.open("react")
    page.get_by_role("button", name="Send").click()
    example.shows("[role=log]", ANSWER)
    bridge.kill()
    page.get_by_role("button", name="Send").click()
    example.says("reconnecting")
    expect(page.get_by_role("status")).to_have_text(re.compile(r"\.$"))
    assert page.get_by_role("button", name="Send").is_visible()


@pytest.mark.full
def test_unmounting_cancels_the_answer_and_asking_again_cancels_the_first(
    example: Any,
) -> None:
    page = example.blank()
    seen = page.evaluate(
        """async ([options, text]) => {
          await import("/examples/built/react_ask.js");
          const mounted = await mount(options);
          const first = mounted.answer.send("");
          await until(() => mounted.answer.text.length > 20);
          const second = mounted.answer.send({ prompt: "" });
          const fresh = (await first).reason;
          await until(() => mounted.answer.status === "submitted" || mounted.answer.text.length < 20);
          await until(() => mounted.answer.text.length > 20);
          mounted.unmount();
          return [fresh, (await second).reason, text.startsWith(mounted.answer.text), mounted.answer.text.length < text.length];
        }""",
        [SLOWLY, LONG],
    )
    assert seen == ["cancelled", "cancelled", True, True]


@pytest.mark.full
def test_a_quick_answer_is_rendered_at_most_once_a_frame(example: Any) -> None:
    page = example.blank()
    renders, frames, text = page.evaluate(
        """async (options) => {
          await import("/examples/built/react_ask.js");
          const mounted = await mount(options);
          let frames = 0;
          const count = () => { frames++; requestAnimationFrame(count); };
          requestAnimationFrame(count);
          const before = mounted.renders;
          await mounted.answer.send("");
          await new Promise((resolve) => setTimeout(resolve, 100));
          return [mounted.renders - before, frames, mounted.answer.text];
        }""",
        scripted(LONG * 4, pace=4000),
    )
    assert text == LONG * 4
    # The end is rendered at once, in addition to the frames.
    assert renders <= frames + 1


@pytest.mark.full
def test_vue_shows_an_answer_once_a_frame_and_unmounting_cancels_it(example: Any) -> None:
    seen = example.blank().evaluate(
        """async ([options, slow]) => {
          await import("/examples/built/vue_ask.js");
          const mounted = mountVue(options);
          let frames = 0;
          const count = () => { frames++; requestAnimationFrame(count); };
          requestAnimationFrame(count);
          const { reason } = await mounted.answer.send("");
          const { text, status } = mounted.answer.state.value;
          await until(() => mounted.element.textContent === text);
          const renders = mounted.renders;
          const second = mounted.answer.send({ prompt: "", ...slow });
          await until(() => mounted.answer.state.value.text.length > 20);
          mounted.unmount();
          return [reason, status, text, renders <= frames + 2, (await second).reason];
        }""",
        [scripted(LONG * 4, pace=4000), SLOWLY],
    )
    assert seen == ["eos", "ready", LONG * 4, True, "cancelled"]


@pytest.mark.full
def test_a_svelte_store_gives_its_state_at_once_and_cancels_with_its_last_reader(
    example: Any,
) -> None:
    seen = example.blank().evaluate(
        """async ([options, slow]) => {
          await import("/examples/built/vue_ask.js");
          const answer = answerStore("/stream", options);
          const states = [], other = [];
          const leave = answer.subscribe((state) => states.push(state));
          const first = states[0].status;
          const leaveOther = answer.subscribe((state) => other.push(state));
          const { reason } = await answer.send("");
          const last = states.at(-1);
          const grows = states.every(({ text }) => last.text.startsWith(text));
          const second = answer.send({ prompt: "", ...slow });
          await until(() => states.at(-1).text.length > 20 && states.at(-1) !== last);
          leave();
          const count = states.length;
          await until(() => other.at(-1).text.length > 60 && other.at(-1) !== last);
          leaveOther();
          return [first, reason, last.text, last.status, grows, states.length === count, (await second).reason];
        }""",
        [scripted(LONG, pace=4000), SLOWLY],
    )
    assert seen == ["ready", "eos", LONG, "ready", True, True, "cancelled"]


@pytest.mark.full
def test_all_hooks_read_an_answer_that_no_bridge_gives(example: Any) -> None:
    """What the state is then, is in tests/browser/test_library_any_answer.py."""
    texts = example.blank().evaluate(
        """async ([text, asked]) => {
          await import("/examples/built/react_ask.js");
          await import("/examples/built/vue_ask.js");
          const ask = async function* (request, { signal }) {
            if (request !== asked || signal.aborted) throw new Error(String(request));
            yield* text;
          };
          const react = await mount({}, ask), vue = mountVue({}, ask), svelte = answerStore(ask);
          let last;
          svelte.subscribe((state) => (last = state));
          const reasons = [];
          for (const { send } of [react.answer, vue.answer, svelte])
            reasons.push((await send(asked)).reason);
          await until(() => react.answer.status === "ready" && vue.element.textContent === text);
          // A component inside may ask before the effects of the hook have run.
          let times = 0;
          await mount({}, () => (times++, []), (send) => send(""));
          return [reasons, react.answer.text, vue.answer.state.value.text, last.text, times];
        }""",
        [LONG, "hello"],
    )
    assert texts == [["end"] * 3, LONG, LONG, LONG, 1]


# ---------------------------------------------------------------- the AI SDK's own chat


@pytest.fixture
def sdk_page(example: Any) -> Any:
    example.page.add_init_script(path=EXAMPLES / "zod-without-eval.js")
    return example.blank()


LONG = "naïve 你好 👩‍🚀 שלום. " * 40
SLOWLY = scripted(LONG, pace=100)  # for answers that do not come to their end
BEGIN_CHAT = """async ([options, id]) => {
  await import("/examples/built/ai_sdk_chat.js");
  globalThis.mine = chat(options, id);
  globalThis.asked = mine.sendMessage({ text: "go" });
  await until(() => mine.lastMessage?.parts.some((part) => part.text?.length > 20));
}"""
TEXT_OF = "() => mine.lastMessage.parts.filter((part) => part.type === 'text').map((part) => part.text).join('')"


@pytest.mark.full
def test_a_chat_of_the_sdk_has_parts_for_text_reasoning_and_calls(sdk_page: Any) -> None:
    calls = ['{"name": "look", "arguments": {"at": "é"}}', '{"name": "go"}', "no call"]
    text = "<think>hm</think>\nAt once. <tool_call>{}</tool_call>\n<tool_call>{}</tool_call><tool_call>{}</tool_call>".format(
        *calls
    )
    parts = sdk_page.evaluate(
        """async (options) => {
          await import("/examples/built/ai_sdk_chat.js");
          globalThis.mine = chat(options, "parts");
          await mine.sendMessage({ text: "go" });
          const seen = ({ type, text, toolName, input, state }) => [type, text ?? toolName, input, state].map((one) => one ?? null);
          return [mine.status, mine.lastMessage.parts.map(seen)];
        }""",
        scripted(text),
    )
    assert parts == [
        "ready",
        [
            ["step-start", None, None, None],
            ["reasoning", "hm", None, "done"],
            ["text", "\nAt once. ", None, "done"],
            ["dynamic-tool", "look", {"at": "é"}, "input-available"],
            ["dynamic-tool", "go", {}, "input-available"],
            ["dynamic-tool", "unknown", "no call", "output-error"],
        ],
    ]


@pytest.mark.full
def test_a_chat_of_the_sdk_can_be_stopped_and_keeps_its_text(sdk_page: Any) -> None:
    page = sdk_page
    page.evaluate(BEGIN_CHAT, [SLOWLY, "stopped"])
    seen, *status = page.evaluate(f"""async () => {{
      const seen = ({TEXT_OF})();
      await mine.stop();
      await asked;
      return [seen, mine.status, String(mine.error)];
    }}""")
    text = page.evaluate(TEXT_OF)
    assert status == ["ready", "undefined"]
    assert seen
    assert text.startswith(seen)
    assert LONG.startswith(text)
    assert len(text) < len(LONG)


@pytest.mark.full
def test_a_chat_of_the_sdk_resumes_its_answer_after_a_reload(sdk_page: Any) -> None:
    page = sdk_page
    page.evaluate(BEGIN_CHAT, [scripted(LONG, pace=400), "reloaded"])
    page.reload()
    page.evaluate("""async () => {
      await import("/examples/built/ai_sdk_chat.js");
      globalThis.mine = chat({}, "reloaded");
      await mine.resumeStream();
    }""")
    assert page.evaluate(TEXT_OF) == LONG
    # The answer is over: nothing is stored any more.
    assert page.evaluate("() => sessionStorage.length") == 0


@pytest.mark.full
def test_a_chat_of_the_sdk_reports_an_error_in_one_sentence(sdk_page: Any) -> None:
    error = sdk_page.evaluate("""async () => {
      await import("/examples/built/ai_sdk_chat.js");
      const mine = chat({}, "wrong");
      await mine.sendMessage({ text: "go" }, { body: { temprature: 1 } });
      return [mine.status, mine.error.message];
    }""")
    assert error[0] == "error"
    assert error[1].startswith("There is no parameter 'temprature'")


# ---------------------------------------------------------------- the element


@pytest.fixture
def element_page(example: Any) -> Any:
    """A page in which `made` adds an element, and `ended` resolves to how its text ended."""
    page = example.blank()
    page.evaluate(DEFINE)
    return page


DEFINE = """async () => {
  const { define } = await import("/src/element.js");
  define();
  globalThis.made = (attributes = {}) => {
    const element = Object.assign(document.createElement("detok-text"), attributes);
    globalThis.ended = new Promise((resolve) => element.addEventListener("finish", ({ detail }) => resolve(detail), { once: true }));
    document.body.append(element);
    return element;
  };
}"""


@pytest.mark.full
def test_the_element_shows_any_stream_as_one_text_node(element_page: Any) -> None:
    seen = element_page.evaluate("""async () => {
      const parts = ["a", { channel: "reasoning", text: "hidden" }, { channel: "content", text: "<b>é</b>" }];
      const element = made({ stream: new ReadableStream({ start(c) { parts.forEach((part) => c.enqueue(part)); c.close(); } }) });
      const { reason } = await ended;
      return [reason, element.text, element.childNodes.length, element.firstChild.nodeName, element.dataset.state, element.shadowRoot];
    }""")
    assert seen == ["end", "a<b>é</b>", 1, "#text", "finished", None]


@pytest.mark.full
def test_the_element_reports_an_error_and_keeps_its_text(element_page: Any) -> None:
    seen = element_page.evaluate("""async () => {
      const element = made({ stream: (async function* () { yield "half"; throw new Error("the wire broke"); })() });
      const errors = [];
      element.addEventListener("error", ({ detail }) => errors.push(detail.error.message));
      const { reason } = await ended;
      return [reason, element.text, element.dataset.state, errors];
    }""")
    assert seen == ["error", "half", "error", ["the wire broke"]]


@pytest.mark.full
def test_removing_the_element_cancels_and_moving_it_does_not(element_page: Any) -> None:
    seen = element_page.evaluate(
        """async ([text, request]) => {
          const element = made({ request: { prompt: "", ...request } });
          element.setAttribute("src", "/stream");
          await until(() => element.text.length >= 20);
          const frame = document.body.appendChild(document.createElement("main"));
          frame.append(element);
          await until(() => element.text.length >= 40);
          const moved = element.dataset.state;
          element.remove();
          return [moved, (await ended).reason, text.startsWith(element.text) && element.text.length < text.length];
        }""",
        [LONG, SLOWLY],
    )
    assert seen == ["streaming", "cancelled", True]


@pytest.mark.full
def test_an_element_that_is_moved_with_another_question_asks_it(element_page: Any) -> None:
    seen = element_page.evaluate("""async () => {
      const asking = (text, pace) => ({ prompt: "", params: { engine: "scripted", text, cut: "byte", pace } });
      const element = made({ request: asking("one", 0) });
      element.setAttribute("src", "/stream");
      const reasons = [(await ended).reason];
      const texts = [element.text];
      for (const [text, pace] of [["two", 0], ["three".repeat(1000), 400], ["four", 0]]) {
        const next = new Promise((resolve) => element.addEventListener("finish", ({ detail }) => resolve(detail.reason), { once: true }));
        element.remove(); // and back in the same task, with another question
        element.request = asking(text, pace);
        document.body.append(element);
        if (pace) await until(() => element.text.startsWith("three"));
        else reasons.push(await next);
        texts.push(element.text.slice(0, 5));
      }
      return [texts, reasons];
    }""")
    assert seen == [["one", "two", "three", "four"], ["eos", "eos", "eos"]]
