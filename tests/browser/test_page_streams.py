"""The page streams every recited text, by byte, by token and from the engine, and never shows a
broken character in the hold-back pane.

One booted page streams them all. The recorder sees each state of each pane, after every mutation
and in every frame.
"""

from typing import Any

import pytest
from playwright.sync_api import expect

from detok_py.bridge.engines.recite import texts

TEXTS = {text["id"]: text["text"] for text in texts()}


def typed(text: str) -> str:
    """Return a text as a text area gives it back: with \\n as the line end (HTML Standard, the
    textarea's API value).
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_whole(demo: Any, text: str) -> None:
    """Check that the hold-back pane showed the text, nothing else, and never took a
    character back.
    """
    held = demo.seen("held")
    assert held["last"] == text
    assert demo.text("held") == text
    assert held["replacements"] == text.count("\ufffd")
    assert held["surrogates"] == 0
    assert held["takenBack"] == 0


# The engine recites all of them below.
@pytest.mark.one_browser
@pytest.mark.sampled(15)
@pytest.mark.parametrize(
    "text_id",
    [pytest.param(one, marks=pytest.mark.soak) if n % 3 else one for n, one in enumerate(TEXTS)],
)
def test_a_text_cut_at_every_byte_is_whole_at_every_moment(booted: Any, text_id: str) -> None:
    text = typed(TEXTS[text_id])
    assert booted.stream_text(text, cut="byte") == "finished"
    check_whole(booted, text)
    naive = booted.seen("naive")
    # A character of n bytes, a byte a chunk, becomes n replacement characters.
    assert naive["replacements"] == sum(len(c.encode()) for c in text if ord(c) > 127)
    assert booted.seen("stream")["last"] == text


# As the engine cuts them, whose tokens of every text come below; these a text area may change.
TYPED = ["hello", "tool", "bom", "replacement", "rtl-mixed", "invisible", "zalgo", "flags"]


@pytest.mark.one_browser
@pytest.mark.sampled(4)
@pytest.mark.parametrize("text_id", TYPED)
def test_a_text_cut_into_tokens_is_whole_at_every_moment(booted: Any, text_id: str) -> None:
    text = typed(TEXTS[text_id])
    assert booted.stream_text(text, cut="token") == "finished"
    check_whole(booted, text)
    assert booted.seen("stream")["last"] == text


@pytest.mark.sampled(14)
@pytest.mark.engine
@pytest.mark.parametrize("text_id", TEXTS)
def test_the_engine_recites_a_text_whole_at_every_moment(booted: Any, text_id: str) -> None:
    text = TEXTS[text_id]
    assert booted.recite(text_id) == "finished"
    check_whole(booted, text)
    assert booted.seen("stream")["last"] == text


def test_tokens_of_the_engine_break_in_the_naive_pane(booted: Any) -> None:
    broken = {}
    for text_id in ("ja", "th", "emoji", "ru"):
        booted.recite(text_id)
        broken[text_id] = booted.seen("naive")["replacements"]
    assert all(count > 0 for count in broken.values()), broken


@pytest.mark.parametrize("text_id", ["ja", "emoji", "en"])
def test_invalid_bytes_show_as_many_replacement_characters_as_python_gives(
    booted: Any, text_id: str
) -> None:
    assert booted.stream_text(TEXTS[text_id], fault="invalid") == "finished"
    raw = bytes(
        booted.page.evaluate(
            "() => [...document.querySelectorAll('.chip .byte')].flatMap((run) => run.textContent.slice(3).split(' ').map((hex) => parseInt(hex, 16)))"
        )
    )
    held = booted.seen("held")
    # Python's own decoder gives the expected end of the text; the timeline shows the last bytes.
    assert raw
    assert held["last"].endswith(raw.decode("utf-8", "replace").lstrip("\ufffd")[-20:])
    assert held["last"] == booted.seen("stream")["last"]
    assert held["last"].count("\ufffd") == held["replacements"] > 0
    assert held["takenBack"] == 0


def test_a_stream_that_ends_inside_a_character_shows_one_replacement_character(booted: Any) -> None:
    assert booted.stream_text("hold on 😀", fault="truncate") == "finished"
    held = booted.seen("held")
    assert held["last"] == booted.seen("stream")["last"] == "hold on \ufffd"
    assert held["surrogates"] == 0


def test_the_counters_agree_with_the_recorder(booted: Any) -> None:
    booted.stream_text("日本語 and 😀")
    for pane in ("held", "naive", "stream"):
        count = booted.seen(pane)["replacements"]
        tally = booted.page.locator(f"[data-tally={pane}] [data-count=replacements]")
        assert tally.text_content() == str(count)


def test_what_is_held_is_shown_with_what_it_still_needs(booted: Any) -> None:
    booted.stream_text("a😀b", cut="byte")
    page = booted.page
    hold, position = page.locator("#hold-text"), page.locator("#position")
    page.locator("#to-start").click()
    expect(position).to_have_text("0 / 7")
    page.locator("#step").click()
    expect(position).to_have_text("1 / 7")
    expect(hold).to_have_text("nothing waits")
    for held, missing in (("F0", 3), ("F0 9F", 2), ("F0 9F 98", 1)):
        page.locator("#step").click()
        bytes_ = "byte" if missing == 1 else "bytes"
        expect(hold).to_have_text(f"waiting for {missing} more {bytes_} after {held}")
        assert booted.text("held") == "a"
    page.locator("#step").click()
    expect(hold).to_have_text("nothing waits")
    assert booted.text("held") == "a😀"


def test_stepping_back_removes_what_the_step_added(booted: Any) -> None:
    booted.stream_text("né!", cut="byte")
    position = booted.page.locator("#position")
    texts = [booted.text("held")]
    for left in (4, 3, 2, 1):
        booted.page.locator("#step-back").click()
        expect(position).to_have_text(f"{left} / 5")
        texts.append(booted.text("held"))
    assert texts == ["né!", "né!", "né", "n", "n"]
    booted.page.locator("#to-end").click()
    expect(position).to_have_text("5 / 5")
    assert booted.text("held") == "né!"


@pytest.mark.full
def test_a_long_text_stays_exact_and_the_timeline_stays_short(booted: Any) -> None:
    text = typed("".join(TEXTS.values()) * 2)
    assert booted.stream_text(text, cut="token", pace=0) == "finished"
    check_whole(booted, text)
    assert booted.page.locator(".chip").count() <= 256 + 64


def test_a_stop_string_is_never_shown_in_part(booted: Any) -> None:
    booted.page.locator("#stop-strings").fill("###")
    assert booted.stream_text("one # two ## three ### four", cut="byte") == "finished"
    assert booted.seen("held")["last"] == "one # two ## three "
    assert booted.seen("held")["takenBack"] == 0


def test_the_console_is_empty_and_nothing_left_the_machine(booted: Any, bridge: Any) -> None:
    booted.stream_text("the last one 👋")
    assert booted.complaints == []
    assert {url.split("/")[2] for url in booted.requested if not url.startswith("data:")} == {
        bridge.url.split("/")[2]
    }
