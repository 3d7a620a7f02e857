"""The page says of every stream where it comes from and how exact its data is, what arrived broken,
and how it ended; and it asks an engine of the user's own in a way that is sound for it.
"""

import json
from typing import Any

import pytest
from playwright.sync_api import expect
from transfer import drop, sse

pytestmark = pytest.mark.one_browser


def opened(demo: Any, name: str, data: bytes) -> None:
    drop(demo.page, name, data)
    expect(demo.page.locator("#source-name")).to_have_text(name)
    demo.page.locator("#to-end").click()


def head(demo: Any) -> list[str]:
    names = ("source-name", "engine-name", "engine-fidelity")
    return [str(demo.page.locator(f"#{name}").text_content()) for name in names]


def test_your_text_and_a_capture_are_not_said_to_come_from_the_engine(booted: Any) -> None:
    booted.stream_text("né", cut="byte")
    assert head(booted) == ["your text", "none: the bridge cuts your text", "bytes, exact"]
    engine = json.loads(booted.save().splitlines()[0])["engine"]
    assert (engine["name"], engine["fidelity"]) == ("detok, your text", "bytes")
    opened(booted, "body.sse", sse("a\ufffdb"))
    assert head(booted)[0] == "body.sse"
    assert "llama" not in head(booted)[1]
    assert head(booted)[2] == "text in chunks, decoded elsewhere"
    booted.recite("en")
    assert head(booted)[:2] == ["engine", "llama.cpp · recite.gguf"]


@pytest.mark.full
def test_text_that_did_not_arrive_and_an_end_that_is_missing_are_said(booted: Any) -> None:
    def token(text: str, data: bytes) -> Any:
        tokens = {"content": [{"token": "�", "bytes": list(data)}]}
        return {"choices": [{"index": 0, "delta": {"content": text}, "logprobs": tokens}]}

    parts = [token("a", b"a"), token("", b"\xf0\x9f"), token("", b"\x9a\x86"), token("b", b"b")]
    opened(booted, "dropped.sse", sse(*parts))
    page = booted.page
    expect(page.locator("#tab-faults")).to_have_text("Faults (1)")
    expect(page.locator("#alert")).to_contain_text("It stops before its end")
    page.locator("#tab-faults").click()
    expect(page.locator("#faults-none")).to_contain_text("The engine broke 1 place.")
    expect(page.locator("#fault-list li").first).to_contain_text("“🚆” did not arrive.")


@pytest.mark.full
def test_damage_that_arrived_is_a_fault_with_its_event(booted: Any) -> None:
    opened(booted, "broken.sse", sse("a", "a", "\ufffd"))
    page = booted.page
    expect(page.locator("#tab-faults")).to_have_text("Faults (1 in doubt)")
    page.locator("#pane-held").focus()
    page.keyboard.press("f")
    expect(page.locator("#position")).to_have_text("3 / 4")
    page.locator("#tab-faults").click()
    row = page.locator("#fault-list li")
    expect(row).to_contain_text("Not known by whom")
    expect(row).to_contain_text("chunk 3 (line 5, event 3)")
    expect(page.locator("#faults-none")).to_contain_text("it is not known who broke the text")
    page.locator("#tab-tokens").click()
    opened(booted, "raw.detok.jsonl", b'{"detok":1}\n[0,"b","Yf9i"]\n')
    expect(page.locator("#tab-faults")).to_have_text("Faults (1 in doubt)")
    assert head(booted)[2] == "bytes, exact"


@pytest.mark.full
@pytest.mark.one_browser
def test_a_fault_is_blamed_on_no_more_than_is_known(booted: Any) -> None:
    def last(text: str) -> Any:
        return {"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]}

    page, fault = booted.page, booted.page.locator("#fault-list li").first
    opened(booted, "halves.sse", sse("a\ud83d", last("\ude86b")))
    page.locator("#tab-faults").click()
    expect(fault).to_contain_text("Broken by the engine, or by a gateway: ")
    kind = "response.output_text.delta"
    numbered = [{"type": kind, "sequence_number": n, "delta": "a "} for n in (1, 2, 4, 5, 6)]
    opened(booted, "lost.sse", sse(*numbered))
    expect(fault).to_contain_text("Broken by a proxy, by the server, or by what recorded it: ")
    expect(page.locator("#alert")).to_contain_text(
        "The server, a proxy, or what recorded it, broke 1 place."
    )
    opened(booted, "two.sse", sse("a", last(""), last("b")))
    expect(page.locator("#alert")).to_contain_text("Another answer begins in line 5; its text")
    expect(page.locator("#alert")).not_to_contain_text("Not read")


@pytest.mark.full
def test_a_capture_has_the_stop_string_and_the_crash_of_its_run(booted: Any) -> None:
    page = booted.page
    page.locator("#stop-strings").fill("##\n\\n\\n")
    booted.stream_text("one # two ##", cut="byte")
    stopped = booted.save()
    booted.stream_text("日本語 one\n\nand", cut="byte")
    assert booted.text("held") == "日本語 one"
    page.locator("#stop-strings").fill("")
    booted.stream_text("日本語 and 日本語", cut="byte", fault="crash")
    crashed = booted.save()
    assert json.loads(stopped.splitlines()[0])["stop"] == ["##", "\n\n"]
    opened(booted, "stopped.detok.jsonl", stopped.encode())
    expect(page.locator("[data-pane=held]")).to_have_text("one # two ")
    opened(booted, "crashed.detok.jsonl", crashed.encode())
    expect(page.locator("#alert")).to_contain_text(
        "The server ended it with an error: “The scripted engine crashed"
    )
    assert booted.stream_text("still here") == "finished"


@pytest.mark.full
def test_an_engine_of_your_own_is_asked_in_its_chat_template(
    start_bridge: Any, new_demo: Any
) -> None:
    demo = new_demo(start_bridge("--engine", "scripted").url)
    demo.open("?runtime=micropython")
    choices = demo.page.locator("#prompt-choice option").all_text_contents()
    assert "Your own message…" in choices
    assert not any("forty languages" in choice for choice in choices)
    demo.page.locator("#prompt-choice").select_option(label="A table")
    demo.page.get_by_role("button", name="Start", exact=True).click()
    demo.wait_for("finished", "error")
    assert "message=" in demo.page.url


@pytest.mark.full
def test_a_tiny_model_is_said_to_answer_with_noise(booted: Any) -> None:
    page = booted.page
    page.get_by_role("radio", name="Engine").check(force=True)
    expect(page.locator("#prompt-note")).to_be_hidden()
    page.locator("#prompt-choice").select_option(label="Your own prompt…")
    expect(page.locator("#prompt-note")).to_contain_text("noise")
    page.locator("#prompt-choice").select_option(index=0)
    expect(page.locator("#prompt-note")).to_be_hidden()


@pytest.mark.full
def test_text_that_cannot_be_sent_is_refused_with_advice_before_it_is(booted: Any) -> None:
    for expression, advice in (
        (r"'half \ud83d of a pair'", "delete it"),
        ("'x'.repeat(262145)", "Shorten it by 1"),
    ):
        booted.page.evaluate(
            f"""() => {{
              document.querySelector("[name=source][value=text]").click();
              document.getElementById("own-text").value = {expression};
              document.getElementById("start").click();
            }}"""
        )
        expect(booted.page.locator("#alert")).to_contain_text(advice)
        assert booted.state != "streaming"
    assert booted.stream_text("né") == "finished"
    assert booted.alert == ""


@pytest.mark.full
def test_a_special_token_in_your_text_is_named(booted: Any) -> None:
    assert booted.stream_text("a<|endoftext|>b", cut="token") == "finished"
    assert booted.text("held") == "ab"
    assert "<|endoftext|>, which the tokenizer reads as a special token" in booted.alert
    assert booted.stream_text("a<|endoftext|>b", cut="byte") == "finished"
    assert (booted.text("held"), booted.alert) == ("a<|endoftext|>b", "")


@pytest.mark.full
def test_a_report_has_the_faults_and_a_link_that_opens_the_stream(demo: Any, context: Any) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    demo.open("?runtime=micropython")
    demo.stream_text("né 😀", cut="byte", fault="truncate")
    demo.page.locator("#report").click()
    expect(demo.page.locator("#alert")).to_contain_text("in the clipboard")
    report = demo.page.evaluate("() => navigator.clipboard.readText()")
    assert "| 6 | – | `9F` |" in report and "micropython" in report
    assert "begin or end inside a character, which is no fault" in report
    link = report.rpartition("](")[2].rstrip(")\n")
    demo.page.goto("about:blank")
    demo.page.goto(link.replace("/#", "/?runtime=micropython#"))
    demo.wait_for("finished")
    demo.page.locator("#to-end").click()
    expect(demo.page.locator("[data-pane=held]")).to_have_text("né �")
