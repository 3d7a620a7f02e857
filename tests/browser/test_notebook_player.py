"""The view of `d.widget`, in a page that has the model which anywidget would give it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from axe import faults
from complaints import heard
from playwright.sync_api import expect
from static_folder import serving

import detok_py as d
from detok_py.notebook.player import row_of

SOURCES = Path(d.__file__).parent / "notebook"
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>A notebook</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="player.css">
<main><h1>A notebook</h1><div id="view"></div></main>
<script type="module">
  import player from "./player.js";
  const traits = TRAITS;
  const events = new EventTarget();
  window.model = {
    get: (name) => traits[name],
    on: (event, listener) => events.addEventListener(event, listener),
    off: (event, listener) => events.removeEventListener(event, listener),
  };
  window.change = (name, value) => {
    traits[name] = value;
    events.dispatchEvent(new Event(`change:${name}`));
  };
  window.remove = player.render({ model, el: document.getElementById("view") });
</script></html>"""


@pytest.fixture
def view(page: Any, tmp_path: Path) -> Any:
    """Show a stream; returns its element."""
    wrong = heard(page, "error")

    def show(**traits: Any) -> Any:
        given = {"rows": [], "batch": [0, []], "state": "finished", "note": "", "speed": 1}
        text = PAGE.replace("TRAITS", json.dumps({**given, **traits}))
        (tmp_path / "index.html").write_text(text, encoding="utf-8")
        page.goto(address)
        return page.get_by_role("group", name="A stream")

    for name in ("player.js", "player.css"):
        shutil.copy(SOURCES / name, tmp_path)
    with serving(tmp_path) as address:
        yield show
    assert wrong == []


def rows_of(tokens: d.TokenList, milliseconds: float) -> list[Any]:
    return [row_of(token, n * milliseconds) for n, token in enumerate(tokens)]


SPLIT = d.TokenList(None, [b"caf\xc3", b"\xa9 \xf0\x9f", b"\x98\x80", b"\xff!"])


def text_of(view: Any, pane: str) -> Any:
    return view.locator(f"[data-pane={pane}]")


def test_a_recorded_stream_is_played_beside_decoders_that_break_it(view: Any) -> None:
    seen = view(rows=rows_of(SPLIT, 20))
    expect(seen).to_have_attribute("data-state", "finished")
    assert text_of(seen, "held").text_content() == "café 😀\ufffd!"
    assert text_of(seen, "stream").text_content() == "café 😀\ufffd!"
    assert text_of(seen, "naive").text_content() == "caf\ufffd\ufffd \ufffd\ufffd\ufffd\ufffd!"
    expect(seen.get_by_role("listitem")).to_have_count(4)
    assert seen.get_by_role("listitem").first.text_content() == "63■c61■c66■cc3◧hcaf"
    assert seen.get_by_role("listitem").last.text_content() == "ff✕r21■c\ufffd!"


def test_a_stream_is_paused_stepped_and_played_again(view: Any) -> None:
    seen = view(rows=rows_of(SPLIT, 3_600_000))
    held, step = text_of(seen, "held"), seen.get_by_role("button", name="Step")
    expect(held).to_have_text("caf")
    step.click()
    expect(held).to_have_text("café ")
    expect(seen.get_by_role("button", name="Play")).to_be_enabled()
    expect(seen.get_by_role("status")).to_have_text("2 of 4 tokens")
    seen.get_by_role("slider", name="Token").fill("4")
    expect(held).to_have_text("café 😀\ufffd!")
    expect(step).to_be_disabled()
    seen.get_by_role("slider", name="Token").fill("1")
    expect(held).to_have_text("caf")
    seen.get_by_role("slider", name="Token").fill("3")
    seen.get_by_role("button", name="Again").click()
    expect(held).to_have_text("caf")
    expect(seen.get_by_role("button", name="Pause")).to_be_visible()


def test_tokens_are_shown_as_they_come_and_their_states_as_they_change(
    view: Any, page: Any
) -> None:
    seen = view(state="streaming")
    tokens = d.TokenList(None)
    tokens.add(b"caf\xc3")
    page.evaluate("rows => change('batch', [0, rows])", rows_of(tokens, 1))
    expect(text_of(seen, "held")).to_have_text("caf")
    expect(seen.get_by_role("status")).to_have_text("1 of 1 tokens, more come")
    # A byte that was held is replaced, in its box; the text before it is not drawn again.
    first = seen.get_by_role("listitem").first
    expect(first).to_contain_text("c3◧h")
    page.evaluate("window.shown = document.querySelector('[data-pane=held]').firstChild")
    broken = rows_of(d.TokenList(None, [b"caf\xc3", b"!"]), 1)
    page.evaluate("rows => change('batch', [0, rows])", broken)
    expect(text_of(seen, "held")).to_have_text("caf\ufffd!")
    expect(first).to_contain_text("c3✕r")
    assert page.evaluate("window.shown.isConnected")
    tokens.add(b"\xa9")
    page.evaluate("rows => change('batch', [0, rows])", rows_of(tokens, 1))
    expect(text_of(seen, "held")).to_have_text("café")
    # The bytes at the end of the stream were held, and are replaced.
    tokens.add(b"\xf0")
    page.evaluate("rows => change('batch', [0, rows])", rows_of(tokens, 1))
    last = seen.get_by_role("listitem").last
    expect(last).to_have_text("f0◧h\u00a0")
    tokens.flush()
    page.evaluate("rows => change('batch', [0, rows])", rows_of(tokens, 1))
    expect(last).to_have_text("f0✕r\ufffd")
    expect(text_of(seen, "held")).to_have_text("café\ufffd")
    # A view that missed a batch gets all rows at the end.
    page.evaluate("change('batch', [7, [[null, '21', 'c', '!', '', 5]]])")
    rows = rows_of(d.TokenList(None, [b"caf\xc3", b"\xa9", b"\xf0", b"!"]), 1)
    page.evaluate("rows => (change('rows', rows), change('state', 'finished'))", rows)
    expect(text_of(seen, "held")).to_have_text("café\ufffd!")
    expect(seen).to_have_attribute("data-state", "finished")


def test_the_error_of_a_stream_is_shown_and_a_removed_view_is_silent(view: Any, page: Any) -> None:
    seen = view(state="streaming")
    page.evaluate("change('note', 'The engine is gone.'); change('state', 'error')")
    expect(seen.get_by_role("status")).to_have_text("The engine is gone.")
    page.evaluate("remove(); change('batch', [0, [[null, '61', 'c', 'a', '', 0]]])")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done()))")
    assert text_of(seen, "held").text_content() == ""


def test_what_a_model_writes_is_text_and_a_special_token_has_its_name(view: Any) -> None:
    v = d.Vocabulary.from_bytes([b"<b>x</b>", b"<eos>"], special_ids=[1], eos_ids=[1])
    seen = view(rows=rows_of(d.TokenList(v, [0, 1]), 1))
    expect(text_of(seen, "held")).to_have_text("<b>x</b>")
    expect(text_of(seen, "naive")).to_have_text("<b>x</b>")
    assert seen.locator("b").count() == 0
    expect(seen.get_by_role("listitem").last).to_contain_text("<eos>")


def test_the_view_has_no_faults_of_access(view: Any, page: Any) -> None:
    expect(view(rows=rows_of(SPLIT, 1))).to_have_attribute("data-state", "finished")
    assert faults(page) == []
