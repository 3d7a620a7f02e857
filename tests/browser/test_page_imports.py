"""The page of a bridge takes what is dropped on it: streams of other servers, and tokenizers."""

import json
from typing import Any

import pytest
from playwright.sync_api import expect
from small_tokenizers import bpe_model, gguf, gpt2_values, rank_file, rwkv_file, tekken
from stream_samples import FILES, PASTE, STREAMS

DROP = """([name, bytes]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([new Uint8Array(bytes)], name));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


def drop(demo: Any, name: str, data: bytes) -> None:
    demo.page.evaluate(DROP, [name, list(data)])


def test_a_dropped_body_names_its_own_server_and_what_arrived_broken(demo: Any) -> None:
    demo.open()
    drop(demo, "report.sse", (STREAMS / "report-broken-utf8.sse").read_bytes())
    expect(demo.page.locator("#pane-held")).to_have_text("Re��é ok")
    expect(demo.page.locator("#engine-name")).to_contain_text("OpenAI-compatible server")
    expect(demo.page.locator("#alert")).to_contain_text(
        "Broken before it reached this page: line 1 (event 1): the bytes that arrived are not UTF-8"
    )
    drop(demo, "x.txt", b"hello")
    expect(demo.page.locator("#alert")).to_contain_text("x.txt: there is no token stream in this")


@pytest.mark.full
def test_a_dropped_tokenizer_takes_the_place_of_the_bridges(demo: Any) -> None:
    demo.open()
    small = {
        "version": "1.0",
        "added_tokens": [],
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"},
        "model": {
            "type": "BPE",
            "vocab": {"<unk>": 0, "▁": 1, "a": 2, "b": 3, "ab": 4, "▁ab": 5},
            "merges": ["a b", "▁ ab"],
            "unk_token": "<unk>",
        },
    }
    drop(demo, "tokenizer.json", json.dumps(small).encode())
    expect(demo.page.locator("#alert")).to_contain_text("now cuts “Your text”")
    assert demo.stream_text("ab ab", cut="token") == "finished"
    assert demo.text("held") == "ab ab"
    expect(demo.page.locator("#engine-name")).to_have_text(
        "none: this page cuts your text with tokenizer.json"
    )
    assert json.loads(demo.save().splitlines()[0])["vocabulary"]["size"] == 6


@pytest.mark.full
@pytest.mark.one_browser
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("small.gguf", gguf(gpt2_values())),
        ("cl100k_base.tiktoken", rank_file()),
        ("tekken.json", json.dumps(tekken()).encode()),
        ("tokenizer.model", bpe_model()),
        ("rwkv_vocab_v1.txt", rwkv_file()),
    ],
    ids=["gguf", "tiktoken", "tekken", "model", "rwkv"],
)
def test_a_tokenizer_file_of_each_kind_cuts_the_text(demo: Any, name: str, data: bytes) -> None:
    demo.open()
    drop(demo, name, data)
    expect(demo.page.locator("#alert")).to_contain_text("now cuts “Your text”")
    text = "hello 日本 world"
    assert demo.stream_text(text, cut="token") == "finished"
    assert demo.text("held") == text
    expect(demo.page.locator("#engine-name")).to_have_text(
        f"none: this page cuts your text with {name}"
    )


@pytest.mark.full
@pytest.mark.one_browser
@pytest.mark.parametrize("name", FILES)
def test_the_stream_of_each_server_is_dropped_and_pasted(booted: Any, name: str) -> None:
    server, fidelity, texts, _ = FILES[name]
    page = booted.page
    data = (STREAMS / name).read_bytes()
    whole = "".join(texts.values())
    for source in (name, "pasted text"):
        if source == name:
            drop(booted, name, data)
        else:
            page.evaluate(PASTE, data.decode("utf-16" if data[:2] == b"\xff\xfe" else "utf-8"))
        expect(page.locator("#source-name")).to_have_text(source)
        expect(page.locator("#pane-held")).to_have_text(whole)
        expect(page.locator("#engine-name")).to_contain_text(server)
        expect(page.locator("#engine-fidelity")).to_contain_text(
            {"ids": "token ids", "bytes": "bytes", "text": "text in chunks"}[fidelity]
        )
        for channel in ("reasoning", "tool_call"):
            marked = page.locator(f"#pane-held .{channel}").all_text_contents()
            assert "".join(marked) == texts.get(channel, "")
