"""The page of a bridge takes what is dropped on it: streams of other servers, and tokenizers."""

import gzip
import io
import json
import zipfile
from typing import Any

import pytest
from playwright.sync_api import expect
from small_tokenizers import bpe_model, byte_level, gguf, gpt2_values, rank_file, rwkv_file, tekken
from stream_samples import FILES, PASTE, STREAMS
from transfer import DROP, copied_report, drop, sse

from detok_py.bridge.engines.recite import FOLDER


def test_a_dropped_body_names_its_own_server_and_what_arrived_broken(demo: Any) -> None:
    demo.open("?runtime=micropython")
    drop(demo.page, "x.txt", b"hello")
    status = demo.page.locator("#status")
    expect(status).to_have_text("x.txt was not opened. No stream is shown.")
    demo.page.click("#tab-faults")
    expect(demo.page.locator("#faults-none")).to_contain_text("Stream something first")
    demo.page.click("#tab-tokens")
    drop(demo.page, "report.sse", (STREAMS / "report-broken-utf8.sse").read_bytes())
    expect(demo.page.locator("#pane-held")).to_have_text("Re��é ok")
    expect(demo.page.locator("#engine-name")).to_contain_text("OpenAI-compatible server")
    expect(demo.page.locator("#alert")).to_contain_text(
        "The engine broke 2 places. The engine wrote the bytes of each token into an event"
    )
    drop(demo.page, "x.txt", b"hello")
    expect(demo.page.locator("#alert")).to_contain_text("x.txt: no token stream was found in this")
    expect(demo.page.locator("#alert")).to_contain_text("The page still shows report.sse.")
    expect(status).to_have_text("x.txt was not opened. The page still shows report.sse.")
    drop(demo.page, "empty.sse", b"")
    expect(demo.page.locator("#alert")).to_have_text(
        "empty.sse: no token stream was found in this: it is an empty file, 0 bytes. "
        "The page still shows report.sse."
    )


@pytest.mark.full
def test_a_file_takes_the_place_of_the_introduction_if_it_can_be_read(first_visit: Any) -> None:
    page = first_visit.page
    first_visit.open("?runtime=micropython")
    expect(page.locator("#pane-naive")).to_contain_text("\ufffd")
    drop(page, "x.txt", b"hello")
    still = "The page still shows its introduction."
    expect(page.locator("#alert")).to_contain_text(still)
    expect(page.locator("#status")).to_have_text(f"x.txt was not opened. {still}")
    page.locator("#to-end").click()
    expect(page.locator("#pane-held")).to_contain_text("Guten Morgen, schöne Grüße!")
    drop(page, "report.sse", (STREAMS / "report-broken-utf8.sse").read_bytes())
    expect(page.locator("#pane-held")).to_have_text("Re��é ok")
    expect(page.locator("#speed")).to_have_value("0")


TOKENS = [("Hi ", b"Hi "), ("�", b"\xe4\xbd"), ("�", b"\xa0"), ("ok", b"ok")]


@pytest.mark.full
@pytest.mark.one_browser
def test_the_verdict_comes_first_and_a_saved_stream_keeps_it(booted: Any) -> None:
    page = booted.page
    events = []
    for text, data in TOKENS:
        its = {"content": [{"token": text, "bytes": list(data)}]}
        events.append({"choices": [{"delta": {"content": text}, "logprobs": its}]})
    drop(page, "vllm.sse", sse(*events))
    expect(page.locator("#alert")).to_contain_text("The engine broke 1 place.")
    expect(page.locator("#alert")).to_contain_text("“你” arrived as “��”")
    page.locator("#tab-faults").click()
    faults = page.locator("#faults")
    for _ in range(2):
        expect(page.locator("#tab-faults")).to_have_text("Faults (1)")
        expect(faults).to_contain_text("The engine broke 1 place.")
        expect(faults.locator("li").first).to_contain_text("Broken by the engine")
        expect(faults.locator(".no-fault")).to_contain_text("2 tokens begin or end inside")
        drop(page, "saved.detok.jsonl", booted.save().encode())
        expect(page.locator("#source-name")).to_have_text("saved.detok.jsonl")


LINE = '{"model":"m","created_at":"2026-01-01T00:00:0%d.25Z","response":"word%d ","done":false}\n'
TIMED = "".join(LINE % (n, n) for n in range(4)).encode()
UNTIMED = sse("naÃ¯ve cafÃ©")
COARSE = TIMED.replace(b"created_at", b"at").replace(b"{", b"Nov 20 22:41:12 gpu llm[1]: {", 1)
COARSE = COARSE.replace(b"\n{", b"\nNov 20 22:41:13 gpu llm[1]: {")
NO_TIMES = "This file does not say when each chunk came."


@pytest.mark.full
@pytest.mark.one_browser
def test_the_tab_that_is_open_shows_the_stream_that_is_open_now(demo: Any) -> None:
    page = demo.page
    held_back: list[Any] = []
    page.route("**/uplot.js", lambda route: held_back.append(route))

    def swap(panel: str, timed: Any, untimed: Any) -> None:
        for name, data, said in (
            ("timed.ndjson", TIMED, timed),
            ("untimed.sse", UNTIMED, untimed),
            ("timed.ndjson", TIMED, timed),
        ):
            drop(page, name, data)
            expect(page.locator("#source-name")).to_have_text(name)
            expect(page.locator(panel)).to_contain_text(said)

    demo.open("?runtime=micropython")
    page.locator("#tab-times").click()
    with page.expect_request("**/uplot.js") as asked:
        drop(page, "timed.ndjson", TIMED)
    drop(page, "untimed.sse", UNTIMED)
    expect(page.locator("#times")).to_have_text(NO_TIMES)
    held_back.pop().continue_()
    page.evaluate("async (url) => void (await import(url))", asked.value.url)
    expect(page.locator("#times")).to_have_text(NO_TIMES)
    swap("#times", "for each chunk: ■ since the one before 1000 ms", NO_TIMES)
    expect(page.locator("#times canvas")).to_be_visible()
    drop(page, "coarse.log", COARSE)
    expect(page.locator("#times")).to_have_text(
        "The times in this file are whole seconds: how long a chunk took is not known."
    )
    expect(page.locator("#status")).to_have_text("coarse.log: 4 chunks, 1 second.")
    page.locator("#tab-faults").click()
    swap(
        "#faults",
        "Nothing else broken was found in it.",
        "The server, a proxy, a client, or what recorded it, broke 2 places.",
    )
    page.locator("#tab-tokens").click()
    swap("#timeline", "word0", "naÃ¯ve")
    assert demo.complaints == []


@pytest.mark.full
@pytest.mark.one_browser
def test_misread_text_is_marked_in_the_panes_and_counted(booted: Any) -> None:
    page = booted.page
    drop(page, "latin.sse", sse("naÃ¯ve Ã¤Ã\x9fÃ", "¼ 5 â‚¬"))  # naïve äßü 5 €
    expect(page.locator("#alert")).to_contain_text(
        "The server, a proxy, a client, or what recorded it, broke 3 places."
    )
    # The run that goes on in the second event is one place.
    expect(page.locator("#alert")).to_contain_text(
        "“äßü” arrived as “Ã¤Ã‹009F›Ã¼”; line 3 (event 2): “€” arrived as “â‚¬”."
    )
    for pane in ("held", "naive", "stream"):
        expect(page.locator(f"#pane-{pane} .damage")).to_have_text(["Ã¯", "Ã¤Ã\x9fÃ", "¼", "â‚¬"])
        expect(page.locator(f"#tally-{pane} [data-count=replacements]")).to_have_text("5")
    page.locator("#tab-faults").click()
    expect(page.locator("#fault-list button")).to_have_text(["chunk 1", "chunk 1", "chunk 2"])


@pytest.mark.full
@pytest.mark.one_browser
def test_what_nobody_knows_to_be_broken_is_not_counted_as_broken(booted: Any) -> None:
    def event(text: str) -> str:
        return f'data: {{"choices":[{{"delta":{{"content":"{text}"}}}}]}}\n\n'

    page = booted.page
    usage = 'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":9}}\n\n'
    body = event("né") + event("a � is") + event("b\n�� c") + usage
    drop(page, "quoted.sse", body.encode())
    # Every kind is named, and an event with two is one place.
    alert = page.locator("#alert")
    expect(alert).to_contain_text("In 2 places, it is not known who broke the text")
    for said in (
        "The text has a �: it broke on its way into this file",
        "The JSON of an event goes on",
    ):
        expect(alert).to_contain_text(said)
    expect(alert).to_contain_text("It is in line 5 (event 3).")
    expect(page.locator("#tab-faults")).to_have_text("Faults (2 in doubt)")
    page.locator("#to-end").click()
    for pane in ("held", "naive", "stream"):
        expect(page.locator(f"#pane-{pane} .doubt")).to_have_text(["�", "��"])
        count = page.locator(f"#tally-{pane} [data-count=replacements]")
        expect(count).to_have_text("0 (3 in doubt)")
    expect(page.locator("#pane-held .damage")).to_have_count(0)
    report = copied_report(page)
    assert "- Faults: 0; not known whether there are, in 2 places" in report
    assert "- By the server’s count: 5 tokens in, 9 out\n" in report
    # The second in which each was made is not when it came.
    made = [
        event(text).replace("}]}", f'}}],"created":{1795660000 + n}}}')
        for n, text in enumerate("ab\ufffd")
    ]
    drop(page, "made.sse", "".join(made).encode())
    expect(page.locator("#status")).to_have_text("made.sse: 3 chunks, with times in whole seconds.")
    assert "; not known whether there are, in 1 place\n" in copied_report(page)
    trace = '<= Recv data, 99 bytes (0x63)\n0000: {"model":"m","response":"a....","done":true,"done_reason":"stop"}'
    drop(page, "trace.txt", trace.encode())
    expect(page.locator("#source-name")).to_have_text("trace.txt")
    assert "- Faults: not known\n" in copied_report(page)
    # Beside what is known to be broken.
    raw = b'data: {"choices":[{"delta":{"content":"\xe4"}}]}\n\n'
    drop(page, "both.sse", (event("né") + event("a � is")).encode() + raw)
    expect(page.locator("#tab-faults")).to_have_text("Faults (1, 1 in doubt)")
    page.locator("#to-end").click()
    expect(page.locator("#tally-held [data-count=replacements]")).to_have_text("1 (1 in doubt)")
    expect(page.locator("#pane-held .damage")).to_have_text(["�"])


@pytest.mark.full
def test_a_packed_file_is_unpacked_and_unknown_events_are_read_by_a_click(booted: Any) -> None:
    page = booted.page
    body = sse({"foo": 0, "bar": {"text": "né"}}, {"foo": 1, "bar": {"text": " you"}})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("body.sse", gzip.compress(body))
    drop(page, "report.zip", packed.getvalue())
    expect(page.locator("#alert")).to_contain_text("Its events have `foo`, `bar`.")
    page.locator("#alert").get_by_role("button", name="Read bar.text").click()
    expect(page.locator("#pane-held")).to_have_text("né you")


# A file that takes long to read, so that a click comes before the end: each event has another key,
# so that all are parsed by themselves.
DROP_LARGE = """() => {
    const event = (n) => `data: {"${n}":0,"choices":[{"delta":{"content":"wörd "}}]}\\n\\n`;
    const transfer = new DataTransfer();
    transfer.items.add(new File(Array.from({ length: 300_000 }, (_, n) => event(n)), "large.sse"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true }));
}"""


SMALL_STREAM = sse("small")


@pytest.mark.full
@pytest.mark.one_browser
def test_a_file_that_comes_before_or_in_a_stream_is_not_lost(demo: Any) -> None:
    page, source = demo.page, demo.page.locator("#source-name")
    # The page drops the file by itself, in the second before its stream, or in the stream.
    page.add_init_script(
        f"""addEventListener("DOMContentLoaded", () => {{
          const root = document.documentElement, wanted = location.hash.slice(1);
          const look = new MutationObserver(() => {{
            if (root.dataset.state !== wanted) return;
            look.disconnect();
            setTimeout(() => ({DROP})(["small.sse", {list(SMALL_STREAM)}]));
          }});
          look.observe(root, {{ attributes: true }});
        }});"""
    )
    slowly = "?runtime=micropython&cut=byte&pace=2&text=" + "a" * 40
    demo.open(slowly + "#ready", state="ready|finished")
    expect(source).to_have_text("small.sse")
    page.wait_for_timeout(1500)
    expect(source).to_have_text("small.sse")
    demo.open(slowly + "&speed=0#streaming", state="streaming")
    expect(page.locator("#alert")).to_contain_text("Stop it to open the file")
    page.locator("#stop").click()
    demo.wait_for("finished")
    assert demo.text("held").strip("a") == ""
    page.get_by_role("button", name="Open small.sse").click()
    expect(source).to_have_text("small.sse")


@pytest.mark.full
@pytest.mark.one_browser
def test_a_file_that_names_another_tokenizer_than_the_dropped_one_is_called_so(demo: Any) -> None:
    demo.open("?runtime=micropython")
    drop(demo.page, "tokenizer.json", (FOLDER / "tokenizer.json").read_bytes())
    expect(demo.page.locator("#alert")).to_contain_text("now cuts “Your text”")
    header = {"detok": 1, "vocabulary": {"sha256": "a" * 64, "size": 768}}
    drop(demo.page, "other.jsonl", f'{json.dumps(header)}\n[0,"i",[300,301]]\n'.encode())
    expect(demo.page.locator("#alert")).to_contain_text("the tokenizer that the file names")


@pytest.mark.full
@pytest.mark.one_browser
def test_wrong_values_of_the_address_are_left_out_and_a_hash_starts_nothing_else(
    demo: Any,
) -> None:
    wrong = "?runtime=micropython&cut=byte&text=caf%C3%A9&speed=1e999&pace=abc&fault=foo#panes"
    demo.open(wrong, state="finished")
    assert demo.text("held") == "café"
    expect(demo.page.locator("#fault")).to_have_value("")
    assert demo.complaints == []


@pytest.mark.full
def test_a_large_file_says_that_it_is_read_and_the_next_one_takes_its_place(booted: Any) -> None:
    page = booted.page
    booted.stream_text("before", pace=5000)
    page.evaluate(DROP_LARGE)
    reading = page.locator("#reading")
    expect(reading).to_contain_text("Reading large.sse (18.8 MB)")
    reading.get_by_role("button", name="Cancel").click()
    expect(reading).to_be_hidden()
    booted.wait_for("ready")  # another worker is there at once: the first one has been stopped
    assert booted.text("held") == "before"
    page.evaluate(DROP_LARGE)
    expect(reading).to_be_visible()
    drop(page, "small.sse", SMALL_STREAM)
    expect(page.locator("#source-name")).to_have_text("small.sse")
    expect(page.locator("#pane-held")).to_have_text("small")
    expect(reading).to_be_hidden()
    page.evaluate(DROP_LARGE)
    expect(reading).to_be_visible()
    booted.stream_text("after", pace=5000)  # does not wait until the file is read
    assert booted.text("held") == "after"
    expect(reading).to_be_hidden()


@pytest.mark.full
def test_each_stream_of_a_har_file_can_be_chosen(booted: Any) -> None:
    page = booted.page
    page.get_by_role("button", name="HAR, a proxy’s fault").click()
    expect(page.locator("#source-name")).to_have_text("proxy.har")
    expect(page.locator("#pane-held .damage").first).to_be_visible()
    choices = page.locator("#entry")
    urls = ["chat.example/v1/chat/completions", "127.0.0.1:8000/v1/chat/completions"]
    expect(choices.locator("option")).to_have_count(2)
    expect(choices.locator("option")).to_contain_text(urls)
    choices.select_option("3")
    expect(page.locator("#pane-held")).to_contain_text("Zürich")
    expect(page.locator("#alert")).to_be_hidden()
    expect(choices).to_have_value("3")
    page.locator("#format").select_option("none")
    expect(choices).to_have_value("3")
    booted.stream_text("after")
    expect(choices).to_be_hidden()


SMALL = {
    "version": "1.0",
    "added_tokens": [],
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ã": 2, "©": 3, "c": 4}, "merges": []},
}


@pytest.mark.full
def test_ids_wait_for_a_tokenizer_and_nothing_is_called_exact_before(booted: Any) -> None:
    page = booted.page
    drop(page, "vllm.sse", (STREAMS / "vllm-completions.sse").read_bytes())
    fidelity = page.locator("#engine-fidelity")
    expect(fidelity).to_have_text("text in chunks, decoded elsewhere")
    expect(page.locator("#alert")).to_contain_text("It has 3 token ids")
    header, first = [json.loads(line) for line in booted.save().splitlines()[:2]]
    assert (header["engine"]["fidelity"], header["timed"]) == ("text", False)
    assert first == [0, "x", ["a", [0]]]
    page.locator("#tab-times").click()
    expect(page.locator("#times")).to_have_text("This file does not say when each chunk came.")
    page.locator("#tab-tokens").click()
    drop(page, "tokenizer.json", json.dumps(SMALL).encode())
    expect(fidelity).to_have_text("token ids, exact")
    expect(page.locator("#pane-held")).to_have_text("aé")
    booted.open()  # without the tokenizer, and without the address of an earlier test


@pytest.mark.full
@pytest.mark.one_browser
def test_a_tokenizer_file_of_each_kind_cuts_the_text_until_the_next_one_comes(booted: Any) -> None:
    booted.open()  # without a file that waits for its tokenizer
    text = "hello 日本 world"
    for name, data in {
        "tokenizer.json": json.dumps(byte_level()).encode(),
        "small.gguf": gguf(gpt2_values()),
        "cl100k_base.tiktoken": rank_file(),
        "tekken.json": json.dumps(tekken()).encode(),
        "tokenizer.model": bpe_model(),
        "rwkv_vocab_v1.txt": rwkv_file(),
    }.items():
        drop(booted.page, name, data)
        expect(booted.page.locator("#alert")).to_contain_text(f"{name} (")
        expect(booted.page.locator("#alert")).to_contain_text("now cuts “Your text”")
        said = booted.alert
        assert booted.stream_text(text, cut="token") == "finished"
        assert booted.text("held") == text
        size = json.loads(booted.save().splitlines()[0])["vocabulary"]["size"]
        assert f"{name} ({size:,} tokens)" in said
        expect(booted.page.locator("#engine-name")).to_have_text(
            f"none: this page cuts your text with {name}"
        )
    booted.open()  # without a tokenizer


@pytest.mark.full
@pytest.mark.one_browser
@pytest.mark.parametrize("name", FILES)
def test_the_stream_of_each_server_is_dropped_and_pasted(booted: Any, name: str) -> None:
    server, fidelity, texts, _ = FILES[name]
    if name in ("vllm-completions.sse", "sglang-generate.sse", "tgi.sse"):
        fidelity = "text"  # no tokenizer reads their ids
    page = booted.page
    data = (STREAMS / name).read_bytes()
    whole = "".join(texts.values())
    # What is no text cannot be pasted.
    for source in (name,) if name.endswith(".bin") else (name, "pasted text"):
        if source == name:
            drop(page, name, data)
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


ROWS = 500
OBJECTS = 14  # of a stream: it has more
COUNT = """function () {
  const drawn = [Node, DOMTokenList, DOMStringMap];
  return this.filter((one) => !drawn.some((kind) => one instanceof kind)).length;
}"""


def count_objects(page: Any) -> int:
    """Return how many objects the page keeps, without those of its elements, of which it may be
    drawing some.
    """
    session = page.context.new_cdp_session(page)
    prototype = session.send("Runtime.evaluate", {"expression": "Object.prototype"})["result"]
    found = session.send("Runtime.queryObjects", {"prototypeObjectId": prototype["objectId"]})
    length = {"functionDeclaration": COUNT, "returnByValue": True}
    counted = session.send(
        "Runtime.callFunctionOn", {"objectId": found["objects"]["objectId"], **length}
    )
    session.detach()
    return int(counted["result"]["value"])


@pytest.mark.full
@pytest.mark.only_browser("chromium")  # the others do not count objects
def test_files_that_are_opened_one_after_another_leave_nothing_in_the_page(booted: Any) -> None:
    page = booted.page

    def open_files(first: int, count: int) -> None:
        for n in range(first, first + count):
            words = [f"w{n}-{word} " for word in range(ROWS)]
            drop(page, f"{n}.sse", sse(*words))
            expect(page.locator("#source-name")).to_have_text(f"{n}.sse")
            page.locator("#to-end").click()
            expect(page.locator("#pane-held")).to_contain_text(words[-1].strip())

    open_files(0, 2)
    before, workers = count_objects(page), len(page.workers)
    open_files(2, 10)
    assert count_objects(page) - before < 10 * OBJECTS  # the ten streams are not kept
    assert len(page.workers) == workers
