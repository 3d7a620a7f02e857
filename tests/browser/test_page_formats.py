"""The page names the format of a stream, and shows which bytes are its markup."""

import base64
import json
from typing import Any

import pytest
from playwright.sync_api import expect
from test_page_imports import drop

CALL = '{"name": "look", "arguments": {"at": "é"}}'
PIECES = ["Hi<th", "ere <tool", "_call>", CALL[:12], CALL[12:-2], "}}</tool_call>", "So é"]
# The bytes of each token that are drawn as markup.
BYTES_OF = """(chips) => chips.map((chip) =>
  [...chip.querySelectorAll(".byte.markup")].map((run) => run.textContent.replace("◇m ", "")).join(" "))"""


def capture(**header: Any) -> bytes:
    pieces = [base64.b64encode(piece.encode()).decode() for piece in PIECES]
    rows = [[0.1, "t", [[n, piece]]] for n, piece in enumerate(pieces)]
    lines = [{"detok": 1, **header}, *rows, [0.1, "j", {"type": "finished", "reason": "eos"}]]
    return "\n".join([json.dumps(line) for line in lines]).encode()


def markup_of(demo: Any) -> list[str]:
    found = demo.page.locator(".chip").evaluate_all(BYTES_OF)
    return [bytes.fromhex(each).decode() for each in found]


@pytest.mark.engine
def test_a_capture_has_the_name_of_its_format_and_its_markup_is_marked(demo: Any) -> None:
    demo.open()
    expect(demo.page.locator("#engine-format")).to_be_hidden()
    drop(demo, "call.detok.jsonl", capture(chat_format="qwen3_hermes"))
    expect(demo.page.locator("#pane-held")).to_have_text('Hi<there {"at": "é"}So é')
    expect(demo.page.locator("#engine-format")).to_have_text("qwen3_hermes")
    markup = markup_of(demo)
    assert markup[:4] == ["", "<tool", "_call>", CALL[:12]]
    assert markup[5].endswith("}</tool_call>")
    # By shape as well as by colour, and said to who cannot see it.
    [split] = demo.page.locator(".chip").nth(1).locator(".byte.markup").all_inner_texts()
    assert split.startswith("◇m")
    demo.page.locator(".chip").nth(2).click()
    expect(demo.page.locator("#token-details")).to_contain_text("has markup of the format")


def test_without_a_format_nothing_is_marked(demo: Any) -> None:
    demo.open()
    drop(demo, "plain.detok.jsonl", capture())
    expect(demo.page.locator("#pane-held")).to_contain_text("</tool_call>")
    expect(demo.page.locator("#engine-format")).to_be_hidden()
    assert set(markup_of(demo)) <= {""}
