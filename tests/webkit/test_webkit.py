"""The page, the library and the examples in WebKit: the text is exact there too."""

import json
import random
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import detok_py

pytestmark = [pytest.mark.native, pytest.mark.webkit]
ROOT = Path(__file__).resolve().parents[2]
RECITED = json.loads((ROOT / "detok_py/bridge/recite/texts.json").read_text("utf-8"))
TEXTS = {text["id"]: text["text"] for text in RECITED}
RECORDED = (ROOT / "web/examples/recorded.txt").read_text("utf-8")
OWN = "naïve 👩‍🚀 你好 ไทย e\u0301 🏳️‍🌈 end"


def test_every_prompt_is_whole_at_every_moment(booted: Any) -> None:
    for text_id, text in TEXTS.items():
        assert booted.recite(text_id) == "finished", booted.alert
        held = booted.seen("held")
        assert held["last"] == booted.text("held") == booted.text("stream") == text
        assert held["replacements"] == text.count("\ufffd")
        assert held["takenBack"] == held["surrogates"] == 0


def test_a_text_from_the_address_is_cut_at_every_byte_and_shown_whole(demo: Any) -> None:
    demo.driver.get(f"{demo.url}/?text={quote(OWN)}&cut=byte&pace=5000")
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == OWN
    assert demo.text("naive").count("\ufffd") == sum(len(c.encode()) for c in OWN if ord(c) > 127)
    # What a decoder broke is underlined in its own colour.
    lines = demo.driver.execute_script(
        """const its = getComputedStyle(document.querySelector("#pane-naive .broken"));
        return [its.textDecorationLine, its.textDecorationColor === its.color];"""
    )
    assert lines == ["underline", True]


def test_a_page_that_is_loaded_again_goes_on_with_its_answer(demo: Any) -> None:
    text = OWN * 20
    demo.driver.get(f"{demo.url}/?text={quote(text)}&cut=byte&pace=400")
    assert demo.wait_for("streaming", "error") == "streaming", demo.alert
    demo.driver.execute_async_script(
        """const done = arguments[0], pane = document.querySelector("[data-pane=held]");
        const look = () => (pane.textContent.length > 20 ? done() : setTimeout(look, 5));
        look();"""
    )
    assert len(demo.text("held")) < len(text)
    demo.driver.refresh()
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert demo.text("held") == text


def test_a_capture_is_opened(demo: Any, tmp_path: Path) -> None:
    demo.open()
    demo.recite("ja")
    demo.driver.execute_script(
        """globalThis.saved = new Promise((resolve) => {
          const make = URL.createObjectURL;
          URL.createObjectURL = (blob) => { blob.text().then(resolve); return make.call(URL, blob); };
          document.addEventListener("click", (event) => event.target.download && event.preventDefault(), true);
        });
        document.getElementById("export").click();"""
    )
    capture = demo.driver.execute_async_script("saved.then(arguments[0])")
    file = tmp_path / "ja.detok.jsonl"
    file.write_text(capture, "utf-8")
    demo.open()
    # A file is given to an input that can be seen.
    demo.driver.execute_script("document.getElementById('import-file').hidden = false")
    demo.driver.find_element("id", "import-file").send_keys(str(file))
    shown(demo.driver, "[data-pane=held]", TEXTS["ja"])


def test_the_keyboard_starts_and_stops(demo: Any) -> None:
    demo.driver.get(f"{demo.url}/?text={quote(OWN * 50)}&cut=byte&pace=10")
    assert demo.wait_for("streaming", "error") == "streaming", demo.alert
    demo.driver.find_element("tag name", "body").send_keys(
        "\ue00c"
    )  # Escape (WebDriver, keyboard actions)
    assert demo.wait_for("finished", "error") == "finished", demo.alert
    assert OWN.startswith(demo.text("held")[: len(OWN)])
    demo.driver.find_element("id", "start").send_keys("\ue007")  # Enter
    assert demo.wait_for("streaming", "error") == "streaming", demo.alert
    demo.driver.find_element("tag name", "body").send_keys("\ue00c")
    demo.wait_for("finished", "error")


PUSHED = """const [runtime, url, runs, done] = arguments;
(async () => {
  const { createDecoder, loadVocabulary } = await import("/src/index.js");
  const vocabulary = await loadVocabulary(url, { runtime, cache: false });
  const out = [];
  for (const ids of runs) {
    const decoder = await createDecoder({ runtime, vocabulary });
    const pushes = [];
    for (const id of ids) pushes.push(decoder.push(id) + (await decoder.ready()));
    out.push([pushes, decoder.flush() + (await decoder.ready())]);
  }
  return out;
})().then(done, (error) => done(String(error)));"""


@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_each_push_gives_what_the_core_gives(webkit: Any, bridge: Any, runtime: str) -> None:
    with urllib.request.urlopen(bridge.url + "/info", timeout=60) as answer:
        url = json.load(answer)["vocabulary"]["url"]
    with urllib.request.urlopen(bridge.url + url, timeout=60) as answer:
        vocabulary = detok_py.Vocabulary.unpack(answer.read())
    rng = random.Random(runtime)
    usual = [i for i in range(len(vocabulary)) if i not in vocabulary.eos_ids]
    runs = [rng.choices(usual, k=40) for _ in range(20)]
    expected = []
    for run in runs:
        detokenizer = detok_py.Detokenizer(vocabulary)
        expected.append([[detokenizer.push(i) for i in run], detokenizer.flush()])
    webkit.get(bridge.url + "/examples/")
    assert webkit.execute_async_script(PUSHED, runtime, url, runs) == expected


@pytest.mark.parametrize(
    ("name", "selector", "text"),
    [("bytes", "#content", RECORDED), ("element", "detok-text", TEXTS["hello"])],
)
def test_an_example_shows_its_text(
    webkit: Any, bridge: Any, name: str, selector: str, text: str
) -> None:
    webkit.get(f"{bridge.url}/examples/{name}.html")
    shown(webkit, selector, text)


def shown(webkit: Any, selector: str, text: str) -> None:
    """Wait until an element has a text."""
    webkit.execute_async_script(
        """const [selector, text, done] = arguments;
        const look = () =>
          document.querySelector(selector)?.textContent === text ? done() : setTimeout(look, 10);
        look();""",
        selector,
        text,
    )
