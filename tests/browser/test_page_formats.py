"""The page names the format of a stream, and shows which bytes are its markup."""

import base64
import json
from typing import Any

import pytest
from playwright.sync_api import expect
from transfer import drop, sse

import detok_py

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


def shown_format(demo: Any) -> str:
    return str(demo.page.locator("#format").evaluate("(list) => list.selectedOptions[0].text"))


@pytest.mark.engine
def test_a_capture_has_the_name_of_its_format_and_its_markup_is_marked(demo: Any) -> None:
    demo.open("?runtime=micropython")
    expect(demo.page.locator("#format")).to_be_hidden()
    drop(demo.page, "call.detok.jsonl", capture(chat_format="qwen3_hermes"))
    expect(demo.page.locator("#pane-held")).to_have_text('Hi<there {"at": "é"}So é')
    assert shown_format(demo) == "qwen3_hermes (found)"
    markup = markup_of(demo)
    assert markup[:4] == ["", "<tool", "_call>", CALL[:12]]
    assert markup[5].endswith("}</tool_call>")
    # By shape as well as by colour, and said to who cannot see it.
    [split] = demo.page.locator(".chip").nth(1).locator(".byte.markup").all_inner_texts()
    assert split.startswith("◇m")
    demo.page.locator(".chip").nth(2).click()
    expect(demo.page.locator("#token-details")).to_contain_text("has markup of the format")


def test_without_a_format_nothing_is_marked(demo: Any) -> None:
    demo.open("?runtime=micropython")
    drop(demo.page, "plain.detok.jsonl", capture())
    expect(demo.page.locator("#pane-held")).to_contain_text("</tool_call>")
    assert shown_format(demo) == "none (found)"
    assert set(markup_of(demo)) <= {""}
    expect(demo.page.locator("#markup-sign")).to_be_hidden()


@pytest.mark.full
def test_another_format_reads_the_stream_again_and_is_saved(booted: Any) -> None:
    page, held = booted.page, booted.page.locator("#pane-held")
    drop(page, "call.detok.jsonl", capture(chat_format="qwen3_hermes"))
    expect(held).to_have_text('Hi<there {"at": "é"}So é')
    page.locator("#format").select_option("none")
    expect(held).to_have_text("".join(PIECES))
    expect(page.locator("#position")).to_have_text("8 / 8")  # at its end, without a replay
    expect(page.locator("#source-name")).to_have_text("call.detok.jsonl")
    assert json.loads(booted.save().splitlines()[0])["chat_format"] == "none"
    page.locator("#format").select_option("granite4")
    expect(held).to_have_text('Hi<there {"at": "é"}So é')
    page.locator("#format").select_option("")
    assert shown_format(booted) == "qwen3_hermes (found)"


@pytest.mark.full
def test_an_answer_that_came_is_read_again_and_stays_what_it_is(booted: Any) -> None:
    page, held = booted.page, booted.page.locator("#pane-held")
    text = "".join(PIECES)
    booted.stream_text(text, cut="byte")
    assert booted.text("held") == text
    page.locator("#format").select_option("qwen3_hermes")
    expect(held).to_have_text('Hi<there {"at": "é"}So é')
    expect(page.locator("#source-name")).to_have_text("your text")
    expect(page.locator("#format")).to_be_enabled()
    page.locator("#format").select_option("none")
    expect(held).to_have_text(text)


@pytest.mark.full
def test_harmony_shows_as_what_it_is_and_other_markup_is_offered(booted: Any) -> None:
    page, held = booted.page, booted.page.locator("#pane-held")
    page.get_by_role("button", name="gpt-oss in harmony").click()
    expect(held).to_have_text('Need the weather in Zürich.Let me look ☀️.{"city":"Zürich"}')
    assert shown_format(booted) == "harmony (found)"
    expect(held.locator(".reasoning")).to_have_text("Need the weather in Zürich.")
    seed = "So <seed:tool_call><function=f><parameter=x>é</parameter></function></seed:tool_call>"
    drop(page, "seed.sse", sse(seed))
    expect(held).to_have_text(seed)
    page.locator("#alert").get_by_role("button", name="Read it as seed_oss").click()
    expect(held).to_have_text('So {"x": "é"}')
    expect(page.locator("#alert")).to_be_hidden()


def test_the_list_has_every_format_of_the_table(booted: Any) -> None:
    values = "(list) => [...list.options].map(({ value }) => value)"
    names = booted.page.locator("#format").evaluate(values)
    assert sorted(names) == sorted(["", "none", *detok_py.ChatFormat.names()])
