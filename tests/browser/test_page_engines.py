"""A bridge with several engines: the page has a picker, the address has the choice, and an answer
stays with its engine.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import expect
from served_bridge import Bridge

from detok_py.decode.vocabulary import Vocabulary

pytestmark = pytest.mark.one_browser

TEXT = "日本語 and 👩‍🚀; " * 12
PIECES = [bytes([byte]) for byte in range(256)] + ["日本".encode()[:4], b"and "]
OWN = Vocabulary.from_bytes(PIECES)


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """The reciting model, and an engine that says its prompt, with a vocabulary of its own."""
    file: Path = tmp_path_factory.mktemp("vocabulary") / "own.detok"
    file.write_bytes(OWN.pack())
    bridge = Bridge("--engine", "recite", "--engine", "own=scripted", "--tokenizer", str(file))
    yield bridge
    bridge.stop()


def query_of(page: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_an_engine_that_is_chosen_answers_with_its_own_vocabulary(page: Any, demo: Any) -> None:
    demo.open("?runtime=micropython")
    picker = page.get_by_label("Engine", exact=True).and_(page.locator("select"))
    expect(picker).to_be_visible()
    expect(picker.locator("option")).to_have_text(["recite · recite.gguf", "own · scripted text"])
    assert demo.recite("en") == "finished"
    assert query_of(page)["engine"] == ["recite"]
    recited = json.loads(demo.save().splitlines()[0])["vocabulary"]["sha256"]

    picker.select_option("own")
    assert query_of(page)["engine"] == ["own"]
    # The page still shows the other engine's answer.
    expect(page.locator("#engine-name")).to_have_text("llama.cpp · recite.gguf")
    page.locator("#prompt-choice").select_option(label="Your own prompt, without a chat template…")
    page.locator("#prompt").fill("日本語 and é")
    page.locator("#start").click()
    expect(page.locator("#engine-name")).to_have_text("scripted text")
    expect(page.locator("html[data-state=finished]")).to_be_attached()
    assert demo.text("held") == "日本語 and é"
    lines = [json.loads(line) for line in demo.save().splitlines()]
    assert lines[0]["vocabulary"]["sha256"] == OWN.sha256 != recited
    assert lines[1][2][0][0] == PIECES.index("日本".encode()[:4])

    # The address asks for the same, from the same engine.
    page.reload()
    expect(page.locator("html[data-state=finished]")).to_be_attached()
    expect(picker).to_have_value("own")
    assert demo.text("held") == "日本語 and é"


@pytest.mark.full
def test_an_unknown_engine_of_the_address_is_one_error_and_another_can_be_chosen(
    page: Any, demo: Any
) -> None:
    demo.open("?runtime=micropython&engine=gone&text=abc&pace=0", "error")
    assert demo.alert.startswith("The bridge has no such engine. Choose one that it has.")
    expect(page.locator("#engine option:checked")).to_have_text("gone (not here)")
    page.locator("#engine").select_option("recite")
    page.locator("#start").click()
    demo.wait_for("finished")
    assert demo.text("held") == "abc"
    assert query_of(page)["engine"] == ["recite"]


@pytest.mark.full
def test_an_answer_goes_on_with_its_engine_after_a_reload(page: Any, demo: Any) -> None:
    demo.in_mid_answer(
        "sessionStorage.setItem('disabled', document.getElementById('engine').disabled); location.reload()"
    )
    page.goto(f"{demo.url}/?runtime=micropython&engine=own&text={quote(TEXT)}&pace=60")
    demo.wait_for("finished")
    assert demo.acted() != TEXT
    assert page.evaluate("() => sessionStorage.getItem('disabled')") == "true"
    expect(page.locator("#engine")).to_be_enabled()
    expect(page.locator("#engine")).to_have_value("own")
    assert demo.text("held") == TEXT
    header = json.loads(demo.save().splitlines()[0])
    assert header["vocabulary"]["sha256"] == OWN.sha256
