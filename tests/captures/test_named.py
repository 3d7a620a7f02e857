"""What the names of events say: errors, replacements and ends; ChatGPT's patches; a text that comes
again whole; times that go back.
"""

import base64
import json

import pytest
from recordings import compact, delta, judged, sse, text_of
from recordings import har as har_of

from detok_py.captures.har import of_har
from detok_py.captures.read import read
from detok_py.errors import CaptureError

WORDS = ("Grüße", " aus", " Köln", " am", " Rhein")


def chunk(text, finish=None):
    return compact({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


def stream(*events):
    """Server-sent events of (name, data); without a name, ("", data)."""
    return "".join(
        (f"event: {name}\n" if name else "") + f"data: {data}\n\n" for name, data in events
    )


CHUNKS = [("", chunk(word)) for word in WORDS]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("error", '{"message":"upstream timeout","code":"504"}', "upstream timeout"),
        ("error", '{"status_code":500,"message":"Internal Server Error"}', "Internal Server Error"),
        ("error", "CUDA out of memory", "CUDA out of memory"),
        ("error", '"No such model"', "No such model"),
        ("stream-error", '{"detail":"Too many"}', "Too many"),
    ],
)
def test_the_data_of_an_event_named_error_is_the_servers_error(name, data, said):
    found = read(stream(*CHUNKS, (name, data)).encode())
    assert (text_of(found), found.end) == ("".join(WORDS), {"type": "error", "message": said})


@pytest.mark.parametrize(
    ("data", "said"), [("no memory", "no memory"), (r'"\ud83d"', r'"\ud83d"'), ("null", None)]
)
def test_an_error_behind_events_of_plain_text_is_told_as_it_came(data, said):
    found = read(stream(("output", "né"), ("output", " you"), ("error", data)).encode())
    assert (text_of(found), (found.end or {}).get("message")) == ("né you", said)


def test_an_error_between_events_that_are_alike_is_found():
    words = [("", compact({"text": word})) for word in WORDS]
    found = read(stream(*words, ("error", compact({"text": "no memory"})), *words[:1]).encode())
    assert (text_of(found), found.facts.error) == ("".join(WORDS) + WORDS[0], 12)


def test_an_event_named_done_is_an_end_and_strings_of_other_names_are_no_text():
    strings = [("connected", '"ok"'), *[("", f'"{word}"') for word in WORDS], ("end", '"bye"')]
    assert text_of(read(stream(*strings).encode())) == "".join(WORDS)
    found = read(stream(*CHUNKS, ("done", "{}")).encode())
    assert not found.facts.no_end and read(stream(*CHUNKS).encode()).facts.no_end


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ([("error", '{"detail": "no memory"}'), ("done", '{"reason": "error"}')], "no memory"),
        ([("done", '{"reason": "canceled"}')], "canceled"),
        ([("done", "{}")], "done"),
    ],
)
def test_how_an_answer_of_replicate_ended_is_its_servers_word(events, end):
    words = [("output", word.replace(" ", "  ", 1)) for word in WORDS]
    found = read(stream(*words, *events).encode())
    assert found.header["engine"]["name"] == "Replicate"
    assert found.end["message" if end == "no memory" else "reason"] == end


@pytest.mark.parametrize("name", ["replace_response", ""])
def test_a_text_that_replaces_the_answer_is_told_and_not_added(name):
    words = [("text", compact({"text": word})) for word in WORDS]
    poe = ("replace_response", '{"text":"Withdrawn."}')
    dify = ("", '{"event":"message_replace","answer":"Withdrawn.","task_id":"t"}')
    out = judged(stream(*words, poe if name else dify))
    assert "".join(row[1] for row in out["deltas"]) in ("".join(WORDS), "")
    assert "the server replaced the answer by “Withdrawn.”" in out["verdict"]


def patched(*patches):
    return stream(("delta_encoding", '"v1"'), *[("delta", compact(one)) for one in patches])


def test_the_patches_of_chatgpts_page_are_its_text():
    message = {"message": {"author": {"role": "assistant"}, "content": {"parts": [""]}}}
    path = "/message/content/parts/0"
    done = [
        {"p": path, "o": "append", "v": WORDS[4]},
        {"p": "/message/status", "o": "replace", "v": "finished_successfully"},
    ]
    found = read(
        patched(
            {"p": "", "o": "add", "v": message, "c": 0},
            {"p": "/message/content/thoughts/0/content", "o": "append", "v": "hm"},
            {"p": path, "o": "append", "v": WORDS[0]},
            *[{"v": word} for word in WORDS[1:4]],
            {"p": "", "o": "patch", "v": done},
        ).encode()
    )
    assert (text_of(found), text_of(found, "reasoning")) == ("".join(WORDS), "hm")
    assert found.header["engine"]["name"] == "ChatGPT"
    assert found.end["reason"] == "finished_successfully"


def test_the_patches_of_deepseeks_page_are_its_text():
    parts = [
        {"v": {"response": {"message_id": 2, "content": "", "status": "WIP"}}},
        {"p": "response/thinking_content", "o": "APPEND", "v": "hm"},
        {"p": "response/content", "o": "APPEND", "v": "Grüße"},
        *[{"v": word} for word in WORDS[1:]],
        {"p": "response/status", "o": "SET", "v": "FINISHED"},
    ]
    found = read(stream(*[("", compact(part)) for part in parts], ("finish", "{}")).encode())
    assert (text_of(found), text_of(found, "reasoning")) == ("".join(WORDS), "hm")
    assert found.header["source"]["server"] == "DeepSeek, chat page"
    assert found.end == {"type": "finished", "reason": "FINISHED"}


def test_a_text_that_comes_again_whole_is_not_added():
    whole = {"choices": [{"message": {"content": "".join(WORDS)}, "finish_reason": "stop"}]}
    out = judged(stream(*CHUNKS, ("", compact(whole))))
    assert out["verdict"] == (
        "Nothing in it is broken: the pieces are the text that the server sent whole at the end."
    )
    twice = judged(stream(("", chunk("haha")), ("", chunk("haha"))))
    assert twice["count"] == 2


def of_ollama(text, at):
    return compact({"created_at": f"2026-11-26T{at}Z", "response": text, "done": False})


def test_times_that_go_back_have_no_span():
    times = ("10.5", "10.7", "08.9", "09.1")
    lines = [of_ollama(word, f"12:00:{at}") for at, word in zip(times, WORDS, strict=False)]
    assert judged("\n".join(lines))["header"]["source"]["back"] == 3
    assert "back" not in judged("\n".join(lines[:2]))["header"]["source"]


def test_a_trace_whose_lines_differ_in_their_times_alone_has_these():
    """MicroPython takes lines that differ in one string for alike."""
    lines = [of_ollama("...", f"12:00:{at}.500") for at in range(10, 16)]
    assert judged("\n".join(lines))["header"]["source"]["times"] == "created_at"


@pytest.mark.parametrize("count", [3, 30])
def test_counts_of_events_that_are_alike_are_the_servers_own(count):
    events = [
        {**delta(f" a{n}"), "usage": {"prompt_tokens": 40, "completion_tokens": n}}
        for n in range(1, count)
    ]
    source = judged(stream(*[("", compact(one)) for one in events]))["header"]["source"]
    assert source["usage"] == f"40 tokens in, {count - 1} out"


def test_the_token_that_ends_an_answer_is_no_text():
    def with_token(text, finish=None):
        token = {"token": text or "<|im_end|>", "bytes": list((text or "<|im_end|>").encode())}
        choice = {"delta": {"content": text}, "logprobs": {"content": [token]}}
        choice["finish_reason"] = finish
        return {"choices": [choice], "prompt_token_ids": None}

    found = read(sse(*map(with_token, WORDS), with_token("", "stop")).encode())
    tokens = [data for one in found.chunks for _, data in one.tokens]
    assert b"".join(tokens).decode() == "".join(WORDS)


def test_halves_of_a_character_in_two_messages_of_a_program_are_in_doubt():
    lines = [f'42["token",{{"text":"{text}"}}]' for text in ("a", "\\ud83c", "\\udf63")]
    ((who, rule, *_, less),) = judged("\n".join(["0{}", "40", *lines]))["verdicts"]
    assert (who, rule, less) == ("unknown", "parted-messages", "doubt")


def test_an_answer_that_the_server_broke_off_is_called_so():
    events = [*CHUNKS, ("", chunk("", "insufficient_system_resource"))]
    said = judged(stream(*events))["verdict"]
    assert "ended with “insufficient_system_resource”: the server broke it off." in said


def har(status, text, kind="application/json"):
    answer = {"status": status, "content": {"mimeType": kind, "text": text}}
    request = {"method": "POST", "url": "http://127.0.0.1:8000/v1/chat/completions"}
    return har_of({"request": request, "response": answer}, version="1.2")


def test_a_har_whose_server_has_answered_with_an_error_says_so():
    with pytest.raises(CaptureError) as refused:
        read(har(429, '{"error":{"message":"Rate limit reached"}}').encode())
    assert str(refused.value).endswith("answered HTTP 429: “Rate limit reached”.")
    empty = stream(
        ("", chunk("", "stop")),
        ("", '{"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":0}}'),
    )
    with pytest.raises(CaptureError) as refused:
        read(har(200, empty, "text/event-stream").encode())
    assert str(refused.value).startswith("this HAR file has the stream of an answer without text.")
    assert "8 tokens in, 0 out" in str(refused.value)
    with pytest.raises(CaptureError, match="saved as text, which breaks them"):
        read(har(200, "\0\0\1\ufffd", "application/vnd.amazon.eventstream").encode())


LINES = [
    compact({"model": "m", "response": word, "done": False})
    for word in ("日本", "の東", "京は", "大きい")
]


@pytest.mark.parametrize("label", ["app.js:57 ", "sse.ts:12 chunk: ", "Received: "])
def test_lines_of_json_that_a_console_wrote_behind_a_label_are_joined(label):
    whole = "\n".join([label + LINES[0], label + LINES[1], LINES[2], label + LINES[3]])
    assert text_of(read(whole.encode())) == "日本の東京は大きい"
    # A client that decodes each chunk by itself has cut in 京.
    broken = LINES[2].replace("京", f"\ufffd\n{label}\ufffd\ufffd")
    out = judged("\n".join([label + LINES[0], label + LINES[1], label + broken, LINES[3]]))
    assert [one[1] for one in out["verdicts"]] == ["borders"] and out["count"] == 4


WRONG = (
    '"a\tb"',
    '"\\xe6"',
    '"\\u00zz"',
    '"a" "b"',
    '"a",,"b"',
    '"a"], "x": [01',
    '"a"], "x": [1.',
    '"a"], "x" ["b"',
)


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_json_is_no_event(text):
    """Also in MicroPython, whose parser takes all of these."""
    event = '{"choices":[{"delta":{"content":"né"}}],"logprobs":[' + text + "]}"
    out = judged(stream(CHUNKS[0], ("", event), CHUNKS[1]))
    assert out["count"] == 2 and "1 event breaks off or cannot be read (line 3)" in out["verdict"]


@pytest.mark.parametrize(
    "kind", ["text/plain; charset=utf-8", "application/octet-stream", "", None]
)
@pytest.mark.parametrize(
    "body",
    [
        '0:"né "\n0:"你"\n',
        ": ping\n\ndata: " + chunk("né 你") + "\n\n",
        compact([{"candidates": [{"content": {"parts": [{"text": "né 你"}]}}]}]),
        repr(json.loads(chunk("né 你"))),
        compact({"prompt_filter_results": [0] * 5000, **json.loads(chunk("né 你"))}),
    ],
)
def test_a_stream_of_a_general_type_is_found_in_a_har_file(kind, body):
    file = json.loads(har(200, body, kind))
    content = file["log"]["entries"][0]["response"]["content"]
    for fields in ({}, {"encoding": "base64", "text": base64.b64encode(body.encode()).decode()}):
        content.update(fields)
        assert text_of(read(json.dumps(file).encode())) == "né 你"


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "", None])
@pytest.mark.parametrize(
    "body",
    ["{\n  f({a: 'x', b: [1]});\n}", '[{"a": [1, 2]}]', '{"version":3,"mappings":"AAAA"}'],
)
def test_data_and_code_of_a_general_type_are_not_read_in_full(kind, body):
    def refuse(data, file):
        raise AssertionError(data)

    file = json.loads(har(200, body + " " * (1 << 16) + '"text"', kind))
    with pytest.raises(CaptureError, match="no stream of an engine"):
        of_har(file, "a.har", refuse)
