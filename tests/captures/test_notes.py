"""What is said of a recorded stream besides who broke its text."""

import json
from typing import Any

import pytest
from recordings import (
    body_har,
    delta,
    finish,
    har,
    judged,
    response,
    shown,
    sse,
    tgi,
    unended,
    usage,
    whole,
)
from stream_samples import STREAMS

from detok_py.errors import CaptureError


def test_what_is_not_about_the_text_is_apart_for_the_alert():
    whole = judged(sse(delta("né"), finish("stop")))
    assert whole["notes"] == ""
    died = judged(sse(delta("né"), {"error": {"message": "the engine died"}}))
    assert died["notes"] == "The server ended it with an error in line 3: “the engine died”."
    bad = {"token": "�", "bytes": [239, 191, 189]}
    given = {"choices": [{"delta": {"content": "�"}, "logprobs": {"content": [bad]}}]}
    assert "in line 3 are given as EF BF BD" in judged(sse(delta("a"), given))["notes"]
    two = judged(sse(delta("né"), finish("stop"), delta("zwei"), finish("stop")))
    assert two["notes"] == ("Another answer begins in line 5; its text is behind the first one's.")
    assert two["verdict"].endswith(two["notes"])
    assert judged(unended(delta("né")))["notes"].startswith("It stops before its end")


def test_an_end_in_each_event_is_not_an_answer_each():
    each = [{"token": text, "finish_reason": "null"} for text in ("né", " ja")]
    kobold = judged(sse(*each, {"token": "", "finish_reason": "stop"}))
    assert (kobold["notes"], kobold["end"]["reason"]) == ("", "stop")
    parts = [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"} for text in "né"]
    assert judged(sse(*[{"candidates": [part]} for part in parts]))["notes"] == ""


def test_an_error_of_fastchat_is_no_text():
    died = judged(sse(delta("né"), {"text": "out of memory", "error_code": 50002}))
    assert died["notes"] == "The server ended it with an error in line 3: “out of memory”."


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ({"token": {"id": 1, "text": "né", "log_prob": -0.1}}, "DJL Serving, generate"),
        (
            {"type": "message_start", "message": {"id": "chatcmpl-1", "content": []}},
            "Anthropic-compatible server, messages",
        ),
        ({"choices": [], "prompt_filter_results": []}, "Azure OpenAI, chat completions"),
    ],
)
def test_a_server_is_named_by_what_only_it_sends(event, name):
    more = [{"type": "content_block_delta", "delta": {"text": "né"}}] if "message" in event else []
    more += [delta("né")] if "choices" in event else []
    assert judged(sse(event, *more))["header"]["engine"]["name"] == name


def test_an_end_belongs_to_its_own_answer():
    one = sse(delta("né"), finish("stop"))
    cut = judged(one + unended(delta("zwei")))
    assert cut["end"] is None
    assert cut["verdict"].startswith("The last answer stops before its end")
    assert "Nothing else broken was found in it." in cut["verdict"]
    another = "Another answer begins in line 7; its text is behind the first one's."
    assert cut["notes"].endswith(another)
    three = judged(3 * one)
    assert (three["end"]["reason"], "stops" in three["notes"]) == ("stop", False)
    assert three["notes"].startswith("Other answers begin in lines 7, 13; their texts are")
    # [DONE] is an end.
    assert "stops" not in judged(one + sse(delta("zwei")))["notes"]
    said = "a [DONE]"
    assert "stops" in judged(one + unended(delta(said)))["notes"]
    # Another answer's whole text and count are not its own.
    done = {"type": "response.completed", "response": {"status": "completed"}}
    first = [response(1, "a"), response(2, "b"), whole(3, "ab"), done]
    assert judged(sse(*first, response(1, "c")))["verdicts"] == []
    model = [{"content": "a", "tokens": [n], "stop": False} for n in range(3)]
    last = {"content": "", "tokens": [], "stop": True, "stop_type": "eos", "tokens_predicted": 3}
    assert "The server counts" not in judged(sse(*model, last, *model, last))["notes"]


def test_a_byte_order_mark_inside_a_file_is_named():
    whole = sse(delta("né"), delta("you"), finish("stop"))
    said = "A byte order mark that does not begin the file stands in line "
    assert judged("\ufeff" + whole)["notes"] == ""
    for text, line in (("\ufeff\ufeff" + whole, 1), (whole.replace("\n\n", "\n\n\ufeff", 1), 3)):
        found = judged(text)
        assert found["notes"].startswith(f"{said}{line}: files were joined there")
        assert shown(found) == "néyou"
    # A body may begin with one, as a file may.
    assert judged("HTTP/2 200\r\ncontent-type: x\r\n\r\n\ufeff" + whole)["notes"] == ""
    lines = '{"model":"m","response":"né"}\n\ufeff{"model":"m","response":"!","done":true}'
    assert judged(lines)["notes"].startswith(said + "2:")


def test_a_length_that_is_not_that_of_the_body_is_said_where_it_is_certain():
    body = sse(delta("né"), finish("stop")).encode()
    size = len(body)

    def notes(head: str, data: bytes) -> str:
        return str(judged(b"HTTP/1.1 200 OK\r\n" + head.encode() + b"\r\n" + data)["notes"])

    length = f"Content-Length: {size + 900}\r\n"
    said = f"Its head says Content-Length: {size + 900}, and {size} bytes follow it here: "
    assert notes(length, body) == said + "the rest is missing."
    curl = b"curl: (18) transfer closed with 900 bytes remaining to read\n"
    assert said in notes(length, body + curl)
    assert notes(f"content-length: {size}\r\n", body + b"\n") == ""
    assert f"clients read {size - 40} of them" in notes(f"content-length: {size - 40}\r\n", body)
    for more in ("Transfer-Encoding: chunked\r\n", "Content-Encoding: gzip\r\n"):
        assert notes(length + more, body) == ""
    # CRLF may have become LF, but not 900 times; and UTF-16 has no bytes of a body.
    for text, certain in ((f"Content-Length: {size + 3}", False), (length.strip(), True)):
        found = judged(f"HTTP/1.1 200 OK\n{text}\n\n".encode() + body)
        assert ("the rest is missing" in found["notes"]) == certain
    utf16 = f"HTTP/1.1 200 OK\r\n{length}\r\n{body.decode()}".encode("utf-16")
    assert judged(utf16)["notes"] == ""


def test_answers_that_are_mixed_are_not_read_as_one():
    def chunk(name: str, text: str) -> Any:
        return {"id": name, **delta(text)}

    first, second = ["Première", "réponse."], ["Второй", "ответ."]
    mixed = judged(sse(*[chunk("AB"[n % 2], [first, second][n % 2][n // 2]) for n in range(4)]))
    assert shown(mixed) == "".join(first)
    left_out = "Another answer is mixed into it, in 2 events from line 3 on: left out here."
    assert mixed["notes"].endswith(left_out)
    behind = judged(sse(*[chunk("A", one) for one in first], finish("stop"), chunk("B", "zwei")))
    assert behind["notes"].startswith("Another answer begins in line 7")


def test_text_in_latin_1_is_read_so_if_its_head_says_so():
    body = sse(delta("ça"), delta(" où ’"), finish("stop")).encode("cp1252")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream;charset=ISO-8859-1\r\n\r\n"
    found = judged(head + body)
    assert "".join(row[1][2][0][1] for row in found["rows"]) == "ça où ’"
    assert found["verdicts"] == [] and "Its head says that it is in Latin-1" in found["notes"]
    assert judged(head.replace(b"ISO-8859-1", b"utf-8") + body)["verdicts"][0][1] == "raw-all"
    # It may say so of UTF-8.
    assert judged(head + body.decode("cp1252").encode())["notes"] == ""


def test_log_probabilities_that_are_spoiled_do_not_spoil_the_text():
    def said(text: str, *tokens: bytes) -> str:
        given = [{"token": one.decode(), "bytes": list(one)} for one in tokens]
        return json.dumps({"response": text, "done": False, "logprobs": given}) + "\n"

    bad = "�".encode()
    found = judged(said("Hi ", b"Hi", b" ") + said("🚆", bad, bad, bad) + said("!", b"!"))
    assert shown(found) == "Hi 🚆!"
    assert "EF BF BD as the bytes of 3 tokens (line 2)" in found["notes"]
    assert not found["verdicts"] and not found["problems"]
    # If the text may have ended before it, the model may have written it.
    (written,) = judged(said("Hi ", b"Hi", b" ") + said("", bad))["verdicts"]
    assert written[1] == "written"


def test_the_whole_text_ends_an_answer_of_tgi():
    body = sse(tgi("a"), {**tgi("a", "aa"), "details": None}).replace("data: [DONE]", "")
    assert judged(body)["verdict"].startswith("Nothing in it is broken")


def test_control_tokens_that_stand_in_a_text_are_named():
    leaked = judged(sse(delta("Hi!<|im_"), delta("end|>\n<|im_start|>user"), finish("stop")))
    assert leaked["notes"].startswith("The text has control tokens as text: “<|im_end|>”, “<|im_s")
    assert "by letter. No broken character was found in it." in leaked["verdict"]
    for meant in ("ends with `<|im_end|>`", "“<|im_end|>” ends it", "```\n<|im_end|>\n```\nend"):
        assert judged(sse(delta(meant), finish("stop")))["notes"] == ""


def test_what_python_printed_in_windows_1252_is_read_so():
    printed = "".join(f"{delta(text)!r}\n" for text in ("Voilà", " – 20 €", "."))
    found = judged(printed.encode("cp1252"))
    assert shown(found) == "Voilà – 20 €."
    assert "The file is not UTF-8. It is whole in Windows-1252" in found["notes"]
    # Another file is not called so: its lines that are not UTF-8 are.
    (two,) = judged(printed.encode().replace("€".encode(), b"\x80"))["problems"]
    assert two[0] == 2 and two[1].startswith("this event's line is not UTF-8")


def test_what_its_counts_and_ids_say_of_a_stream_is_noted():
    def ids(text: str, *given: int) -> Any:
        return {"choices": [{"delta": {"content": text}, "token_ids": list(given)}]}

    pieces = [ids("né", 5), ids(" you", 6), ids("!", 7)]
    assert judged(sse(*pieces, usage(4)))["notes"] == ""
    said = judged(sse(*pieces, usage(9)))["notes"]
    assert said.endswith("The server counts 9 tokens, and its events have 3 ids.")
    twice = judged(sse(*pieces, finish("stop"), ids("。", 6)))["notes"]
    assert "The id 6 came with “ you” in line 3 and with “。” in line 9" in twice
    # The text of a part of a character differs.
    assert "came with" not in judged(sse(ids("é", 9), ids("né", 8), ids("ï", 9)))["notes"]
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": '{"a": "b'}}
    cut = judged(sse({"choices": [{"delta": {"tool_calls": [call]}}]}, finish("length")))
    assert cut["notes"] == (
        "The arguments of a tool call are not whole JSON, and the answer ended with “length”."
    )
    assert "Nothing else broken was found in it." in cut["verdict"]
    assert cut["verdict"].endswith("only what is in these came so.")
    assert shown(cut).endswith('{"a": "b')
    text = [{"text": "a", "meta_info": {}}, {"text": "a �", "meta_info": {}}]
    end = {"text": "a 🚆", "meta_info": {"finish_reason": {"type": "stop"}}}
    assert judged(sse(*text, end))["notes"].startswith("In 1 event (line 3) the text so far ends")


def notebook(body: str) -> str:
    return json.dumps({"cells": [{"outputs": [{"text": body}]}]}, indent=1)


def nock(body: str) -> str:
    return json.dumps([{"scope": "https://a", "response": body}], indent=1)


def chunked(body: str) -> str:
    size = len(body.encode())
    return f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n"


def traced(body: str) -> str:
    data = body.encode()
    rows = [data[at : at + 16] for at in range(0, len(data), 16)]
    lines = [f"<= Recv data, {len(data)} bytes (0x{len(data):x})"]
    lines += [f"{16 * n:04x}: {row.hex(' '):<48}{'.' * len(row)}" for n, row in enumerate(rows)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("form", "what"),
    [
        (body_har, "the response body"),
        (nock, "the response body"),
        (chunked, "the response body"),
        (traced, "the response body"),
        (notebook, "what the cell printed"),
    ],
)
def test_lines_of_a_part_of_a_file_are_called_so(form, what):
    error = {"error": {"message": "it died"}}
    body = sse(delta("n�")).replace("[DONE]", json.dumps(error)) + "HTTP-proxy\n\n"
    found = judged(form(body))
    assert found["verdict"].endswith(f" Line numbers are those of {what}.")
    assert found["notes"] == (
        f"The server ended it with an error in line 3: “it died”. Line numbers are those of {what}."
    )
    assert [(row[3], row[4]) for row in found["rows"]] == [(0, 1)]
    assert found["problems"] == [[0, f"line 5 of {what}: no event: HTTP-proxy"]]
    cut = judged(form(sse(delta("né"), delta("you"))[:70] + "\n\n"))
    assert "(line 3): its text is missing." in cut["notes"]
    assert cut["notes"].endswith(f" Line numbers are those of {what}.")
    second = {"choices": [{"index": 1, "delta": {"content": "b"}}]}
    left_out = judged(form(sse(delta("né"), second, finish("stop"))))
    assert left_out["problems"] == [[0, "choice 1 is left out: only choice 0 is read"]]
    # Without a line, nothing is said of lines; in a file itself, they are its own.
    assert "Line numbers" not in judged(form(sse(delta("né"), finish("stop"))))["verdict"]
    plain = judged(body)
    assert ("Line numbers" in plain["verdict"], plain["rows"][0][3]) == (False, 1)
    # An event whose lines were joined is found in its row.
    joined = judged(form(sse(delta("a"), delta("né"), delta("c")).replace('"né"', '"n\né"')))
    ((_, rule, said, places, *_),) = joined["verdicts"]
    assert (rule, places[0][0]) == ("joined", 1)
    assert said.endswith(f" Lines 3–4 of {what}.")


DIFY = {"event": "message", "task_id": "t", "answer": "né"}


def watsonx(text: str, reason: str, **counts: int) -> Any:
    return {"model_id": "m", "results": [{"generated_text": text, "stop_reason": reason, **counts}]}


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([delta("né"), {"choices": [], "usage": {"prompt_tokens": 31, "completion_tokens": 2}}],
         "31 tokens in, 2 out"),
        ([{"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 24}}},
          {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "né"}}],
         "24 tokens in"),
        ([{"message": {"content": "né"}, "model": "m", "done": False, "created_at": ""},
          {"message": {"content": ""}, "model": "m", "done": True, "eval_count": 2}],
         "2 tokens out"),
        ([delta("né"), {**finish("stop"), "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}}],
         "3 tokens in, 4 out"),
        ([delta("né"), {**finish("stop"), "usage": {"prompt_tokens": 3, "completion_tokens": 9,
           "completion_tokens_details": {"reasoning_tokens": 7}}}],
         "3 tokens in, 9 out, 7 of reasoning"),
        ([delta("né"), finish("stop")], None),
        ([DIFY, {"event": "message_end", "task_id": "t",
           "metadata": {"usage": {"prompt_tokens": 33, "completion_tokens": 29}}}],
         "33 tokens in, 29 out"),
        ([DIFY, {"conversation_id": "1", "bot_id": "2", "status": "completed",
           "usage": {"output_count": 31, "input_count": 381}}],
         "381 tokens in, 31 out"),
        ([watsonx("né", "not_finished", input_token_count=12),
          watsonx("", "eos_token", input_token_count=0, generated_token_count=2)],
         "12 tokens in, 2 out"),
        # An event may count its own token; each choice and each answer has its own count.
        ([{**delta("a"), "usage": {"completion_tokens": 1}}] * 6, None),
        ([delta("né"), {"choices": [{"index": 1, "delta": {"content": "b"}}]}, usage(7)], None),
        ([delta("né"), finish("stop"), delta("b"), {"choices": [], "usage": {"completion_tokens": 2}}],
         None),
    ],
)  # fmt: skip
def test_what_the_server_counts_is_kept_for_a_report(events, said):
    assert judged(sse(*events))["header"]["source"].get("usage") == said


def test_what_a_har_file_says_of_its_times_is_kept_for_a_report():
    file = json.loads(body_har(sse(delta("né"), finish("stop"))))
    entry = file["log"]["entries"][0]
    assert "timings" not in judged(json.dumps(file))["header"]["source"]
    entry.update({"time": 1932.64, "timings": {"wait": 611.3, "receive": 123456.7, "ssl": -1}})
    said = judged(json.dumps(file))["header"]["source"]["timings"]
    assert said == "wait 611.3 ms, receive 123457 ms, 1932.6 ms in all"


def test_a_refusal_is_called_so():
    refused = judged(sse({"choices": [{"delta": {"refusal": "né"}}]}, finish("stop")))
    assert refused["notes"] == "The server sent it as a refusal (`refusal`), not as an answer."
    none = {"choices": [{"delta": {"content": "né", "refusal": ""}}]}
    assert "refusal" not in judged(sse(none, finish("stop")))["notes"]


def test_events_that_were_encoded_twice_are_called_so():
    said = judged(sse(json.dumps(json.dumps(delta("né"))), finish("stop")))["verdict"]
    assert said.startswith("Its events are JSON in strings of JSON: the server, or something after")
    assert "Nothing else broken was found in it." in said


def logged(*events: Any, column: int) -> str:
    """A log in journald's pager, which has so many columns."""
    lines = [
        line
        for n, event in enumerate(events)
        for line in (
            f"Mar 01 22:57:0{n} box server[7]: next: slot 0",
            f"Mar 01 22:57:0{n} box server[7]: data: {json.dumps(event, ensure_ascii=False)}",
        )
    ]
    return "".join(
        f"{each if len(each) <= column else each[: column - 1] + '>'}\n" for each in lines
    )


def answer_of(*texts: str, **more: Any) -> list[Any]:
    return [{"choices": [{"delta": {"content": text}}], "id": "a" * 9, **more} for text in texts]


def test_events_that_a_pager_cut_are_read_as_far_as_they_came():
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}], "id": "a" * 40}
    events = [*answer_of("", "für ", 'm{"', "\\", model="a" * 60), end]
    found = judged(logged(*events, column=105))
    assert shown(found) == 'für m{"\\'
    assert (found["seconds"], found["end"]["reason"]) == (4.0, "stop")
    assert found["notes"] == (
        "A pager such as less -S wrote “>” in place of the end of 5 events, at column 105: what "
        "was there, such as the model, is missing."
    )
    assert "Nothing else broken was found in it." in found["verdict"]
    assert [reason[:22] for _, reason in found["problems"]] == ["5 lines are not events"]


def test_a_text_that_a_pager_cut_is_missing():
    found = judged(logged(*answer_of("né", "a longer piece", "ok", model="a" * 60), column=84))
    assert shown(found) == "néok"
    assert "1 event breaks off or cannot be read (line 4): its text is missing." in found["verdict"]


def test_text_that_may_be_behind_the_cut_of_a_pager_is_doubted():
    first, second = answer_of("né", "ja", model="a" * 60)
    second["choices"][0]["delta"] = {"role": "assistant", "content": "ja"}
    found = judged(logged(first, second, first, column=90))
    assert shown(found) == "néné"
    assert found["notes"].endswith("It may have been text in 1 of them, the first in line 4.")
    assert found["problems"][1][1].startswith("a pager cut this event, whose text may go on: ")


@pytest.mark.parametrize(
    "event",
    [
        {"choices": [{"delta": {"reasoning_content": "hm", "content": 'n"é'}}], "model": "m"},
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": "n", "arguments": "{}"}}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "né"}, {"text": "b"}]}, "index": 0}]},
        {"index": 0, "content": "\\né", "tokens": [12, 34], "stop": False, "id_slot": -1},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "é"}},
    ],
)
def test_no_text_that_a_pager_cut_is_shown_in_part_or_left_out_without_a_word(event):
    def said(column: int) -> tuple[Any, list[Any]]:
        found = judged(logged(*[event] * 3, *answer_of("ok"), column=column))
        return found, [row[1][1] for row in found["rows"] if row[3] == 2]

    _, whole = said(999)
    cut = 0
    for column in range(60, len(logged(event, column=999).split("\n")[1])):
        try:
            found, rows = said(column)
        except CaptureError:
            continue  # no text is left
        assert rows == whole or any(line == 2 for line, _ in found["problems"])
        assert "wrote “>” in place of the end" in found["notes"]
        cut += rows == whole
    assert cut


def test_lines_that_a_console_broke_at_a_bracket_are_not_those_of_a_pager():
    lines = [f"data: {json.dumps(event)}" for event in answer_of("<b>", "<i>", "<u>", "né")]
    width = lines[0].index(">") + 1
    broken = [line[at : at + width] for line in lines for at in range(0, len(line), width)]
    found = judged("\n".join(broken))
    assert shown(found) == "<b><i><u>né"
    assert "pager" not in found["notes"]


def test_an_end_without_a_reason_is_noted_where_events_have_a_field_for_it():
    def said(*events: Any) -> str:
        return str(judged(sse(*events))["notes"])

    open_ = {"choices": [{"delta": {"content": "né"}, "finish_reason": None}]}
    noted = "It ended with [DONE], and no event here says why (`finish_reason`)."
    assert (said(open_, open_), said(open_, finish("stop")), said(delta("né"))) == (noted, "", "")
    # The event that says why may be the one that cannot be read.
    damaged = '{"choices":[{"delta":{},"finish_reason":"st'
    assert noted not in said(open_, damaged)
    assert noted not in said(open_, finish("stop"), open_)


def test_the_filter_that_ended_an_answer_is_named():
    results = {"hate": {"filtered": False}, "violence": {"filtered": True, "severity": "high"}}
    met = {"finish_reason": "content_filter", "content_filter_results": results}
    notes = judged(sse(delta("né"), {"choices": [{"delta": {}, **met}]}))["notes"]
    assert notes.startswith("The filter that it met: violence. The answer was stopped by a filter")


MISREAD_TEXT = "GrÃ¶Ã\x9fe und Ã\x84rger schÃ¶n"


@pytest.mark.parametrize(
    ("text", "size", "said"),
    [
        ("Größe — Ärger", None, ""),
        ("Gr�ße", "all", "as many as this text has in UTF-8: it came so to the browser."),
        ("Gr�ße", -2, "each � was one byte when it came, so the model did not write it."),
        ("Gr�ß� e", -2, "at least one � was less than three bytes when it came"),
        ("Gr�ße", -3, ""),
        (MISREAD_TEXT, "right", "as many as the right text has"),
        (MISREAD_TEXT, "all", "it came so to the browser."),
    ],
)
def test_what_chrome_counted_of_a_body_says_who_read_it_wrongly(text, size, said):
    body = sse(delta(text), finish("stop"))
    whole = len(body.encode())
    sizes = {None: whole, "all": whole, "right": len(body)}
    count = sizes[size] if size in sizes else whole + size

    def notes(name: str, size: int = count) -> str:
        entry = {"response": {"content": {"size": size, "text": body}}}
        return str(judged(har(entry, creator={"name": name}))["notes"])

    assert said in notes("WebInspector") and bool(said) == bool(notes("WebInspector"))
    # Other tools count characters, or the text that they have decoded.
    assert notes("a tool") == ""
    # What is missing is.
    cut = f"The HAR counts 52311 bytes of its body, and has {whole} of them here."
    assert cut in notes("a tool", size=52311)


@pytest.mark.parametrize(
    ("text", "less", "rule", "said"),
    [
        (MISREAD_TEXT, 0, "misread-sent", "The server, or a proxy, broke 3 places."),
        (MISREAD_TEXT, None, "misread-read", "What read or recorded it broke 3 places."),
        ("né a��b", 0, "inside-sent", "A proxy broke 1 place."),
        ("né a��b", 1, "inside", "A proxy, or what recorded it, broke 1 place."),
        ("né a��b", 4, "one-byte", "It is broken in 1 place; by whom is not known."),
        ("né �", 2, "one-byte", "It is broken in 1 place; by whom is not known."),
    ],
)
def test_who_broke_it_follows_what_chrome_counted(text, less, rule, said):
    body = sse(delta(text), delta("ok"), finish("stop"), usage(3))
    size = len(body) if less is None else len(body.encode()) - less  # each byte is a character
    entry = {"response": {"content": {"size": size, "text": body}}}
    found = judged(har(entry, creator={"name": "WebInspector"}))
    assert [one[1] for one in found["verdicts"]] == [rule]
    assert found["verdict"].endswith(said)


def llama(text: str, data: bytes, total: int) -> Any:
    """An event of llama-server's /completion with log probabilities."""
    token = {"id": total, "token": text, "bytes": list(data)}
    known = {"content": text, "tokens": [total], "tokens_predicted": total, "stop": False}
    return {**known, "completion_probabilities": [token]}


WHOLE = [llama("憂", "憂".encode(), 1), llama("鬱", "鬱".encode(), 4), llama("!", b"!", 5)]
ENDS = [llama("憂", "憂".encode(), 1), llama("鬱", b"\xb1", 4), llama("!", b"!", 5)]


def test_where_a_token_has_only_the_end_of_a_character_the_text_is_read():
    found = judged(sse(*ENDS))
    shown = "".join(text for row in found["rows"] for _, text, *_ in row[1][2])
    assert (shown, found["verdicts"], found["problems"]) == ("憂鬱!", [], [])
    assert found["header"]["engine"]["fidelity"] == found["fidelity"] == "text"
    assert found["notes"] == (
        "The server counts 5 tokens, and its events have 3 ids. In 1 event (line 3) the text has a "
        "whole character, and its token has only the end of its bytes: the tokens before did not "
        "come, so the text is read."
    )
    # What an earlier token began goes on.
    begun = [llama("", b"\xe9\xac", 1), llama("鬱", b"\xb1", 2)]
    assert judged(sse(*begun))["fidelity"] == "ids"


def test_the_tokens_of_a_stop_string_that_the_server_left_out_are_told():
    said = [llama("né", "né".encode(), 1), llama("", b"\nUser", 2), llama("", b":", 3)]
    end = {"content": "", "tokens": [], "stop": True, "stop_type": "word", "tokens_predicted": 3}
    found = judged(sse(*said, {**end, "stopping_word": "\nUser:"}))
    assert found["notes"] == (
        "It ended at the stop string “\\nUser:”, which is shown here because its tokens came: the "
        "server's text is without it."
    )


def test_other_choices_are_left_out_also_beside_the_first_one():
    both = [{"index": n, "delta": {"content": text}} for n, text in enumerate("ab")]
    refused = {"choices": [{"index": 1, "delta": {"refusal": "No."}}]}
    found = judged(sse({"choices": both}, refused, delta("né"), finish("stop")))
    assert found["notes"] == "Choice 1 is left out: only choice 0 is read."
    assert found["count"] == 2
    assert "Nothing broken was found in choice 0." in found["verdict"]
    parts = [{"index": n, "content": {"parts": [{"text": text}]}} for n, text in enumerate("ab")]
    found = judged(sse({"candidates": parts}, {"candidates": parts}))
    assert (found["notes"], found["count"]) == ("Choice 1 is left out: only choice 0 is read.", 2)


def test_a_text_in_many_more_pieces_than_tokens_is_told():
    said = [delta(f"né {one} ") for one in "abcdefgh"]
    more = "The server counts 3 tokens, and the text came in 8 pieces."
    assert more in judged(sse(*said, finish("stop"), usage(3)))["notes"]
    assert judged(sse(*said, finish("stop"), usage(9)))["notes"] == ""


@pytest.mark.parametrize("counted", [True, False])
def test_ids_that_a_server_leaves_out_are_not_called_exact(counted):
    events = WHOLE if counted else [{**one, "tokens_predicted": None} for one in WHOLE]
    found = judged(sse(*events))
    assert (found["fidelity"], found["verdicts"]) == ("some", [])
    last = {**llama("�a", b"\xc6a", 6), "tokens_predicted": 6 if counted else None}
    broken = judged(sse(*events, last))
    assert [one[1] for one in broken["verdicts"]] == ["bytes"]
    ascii_only = judged(sse(llama("a", b"a", 1), llama("b", b"b", 2)))
    assert ascii_only["fidelity"] == "ids"


def test_the_stop_string_that_ended_an_answer_is_named():
    llama = {"content": "", "stop": True, "stop_type": "word", "stopping_word": "\nUser:"}
    notes = judged(sse({"content": "né", "stop": False}, llama))["notes"]
    assert notes == "It ended at the stop string “\\nUser:”."
    at_token = {"choices": [{"delta": {}, "finish_reason": "stop", "stop_reason": 151645}]}
    assert judged(sse(delta("né"), at_token))["notes"] == ""


def test_an_answer_with_another_id_is_another_answer_also_without_an_end_before_it():
    def begun(name: str) -> Any:
        return {"id": name, "choices": [{"delta": {"role": "assistant", "content": ""}}]}

    def said(*events: Any) -> str:
        return str(judged(sse(*events))["notes"])

    one, two = {"id": "a", **delta("Der Rhein")}, {"id": "b", **delta("Der Rhein ist")}
    noted = "Another answer begins in line 5; its text is behind the first one's."
    cut = "The answer before line 5 has no end: no event says that it is over. "
    assert said(begun("a"), one, begun("b"), two, finish("stop")) == cut + noted
    assert said(begun("a"), one, begun("a"), {"id": "a", **delta(" ist")}, finish("stop")) == ""


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("Hm, ja.</think>Ja.", "“</think>” is in the text without “<think>”"),
        (
            "<think>Hm.</think>Ja.",
            "between “<think>” and “</think>”: the server did not take it apart.",
        ),
        ("Es endet mit `</think>`.", ""),
        ("Ja.</s>", "“</s>”"),
        ("<s>Nein</s> ja, <s>nein</s>", ""),
    ],
)
def test_tags_that_the_server_should_have_taken_away_are_named(text, mark):
    notes = judged(sse(delta(text), finish("stop")))["notes"]
    assert mark in notes and bool(mark) == bool(notes)


def test_an_error_without_a_time_does_not_take_the_times_of_the_others():
    made = [
        {"created_at": f"2026-11-26T07:00:0{n}.5Z", "response": "né", "done": False}
        for n in range(3)
    ]
    assert judged(sse(*made, {"error": "unexpected EOF"}))["seconds"] == 2.0


def test_an_end_may_be_in_an_event_that_breaks_off():
    damaged = '{"choices":[{"delta":{},"finish_reason":"st'
    said = judged(unended(delta("né"), damaged))["notes"]
    assert said.startswith("It has no end here:") and "connection" not in said


def test_what_curl_says_behind_its_trace_is_quoted():
    trace = (STREAMS / "curl-trace.txt").read_bytes()
    end = trace.rindex(b"\n", 0, trace.rindex(b"<= Recv data")) + 1
    trace = trace[:end] + b"curl: (18) transfer closed with outstanding read data\n"
    said = judged(trace)["notes"]
    assert "Curl says: “curl: (18) transfer closed" in said and "this is only a part" not in said


def test_a_har_whose_answer_is_an_error_gives_no_advice_to_save_it_again():
    with pytest.raises(CaptureError) as caught:
        judged(body_har(unended({"error": {"message": "busy"}})))
    assert "The server said: busy" in str(caught.value) and "again" not in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        {"response": "x"},
        {"response": {"content": "x"}},
        {"response": {"status": 500, "content": "x"}, "request": {"method": "POST"}},
        {"response": {"status": 500, "content": []}, "request": {"method": "POST", "url": 5}},
        {"request": "x", "response": {"content": {"text": 'data: {"a":1}\n\n'}}},
        {"request": [], "response": True, "_error": {}},
    ],
)
def test_entries_of_a_har_that_are_not_as_its_standard_says_are_no_streams(entry):
    with pytest.raises(CaptureError):
        judged(har(entry))


def test_an_answer_that_is_all_reasoning_is_called_empty():
    thought = {"choices": [{"delta": {"reasoning_content": "Hmm"}}]}
    assert "is empty" in judged(sse(thought, thought, finish("length")))["notes"]
    assert "is empty" not in judged(sse(thought, delta("Yes"), finish("stop")))["notes"]
    assert "is empty" not in judged(sse(thought, thought))["notes"]


def test_a_log_that_says_that_it_left_out_lines_is_quoted():
    lines = [f"May 14 09:31:0{n} gw1 relay[7]: data: {json.dumps(delta('né'))}" for n in range(4)]
    lines.insert(2, "May 14 09:31:01 gw1 systemd[1]: Started relay.")
    lines.insert(3, "May 14 09:31:02 gw1 systemd-journald[412]: Suppressed 3 messages from relay")
    found = judged("\n".join(lines))
    assert "The log says in line 4 that it left out lines." in found["notes"]


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_messages_that_langchain_printed_have_an_end_and_counts(reason):
    form = "content={!r} additional_kwargs={{}} response_metadata={!r} id='r'"
    told = {"finish_reason": reason, "model_name": "gpt-4o-mini"}
    counts = {"input_tokens": 13, "output_tokens": 5}
    lines = [form.format("né", {}), form.format(" 😀", {}), form.format("", told)]
    lines.append(form.format("", {}) + f" usage_metadata={counts!r}")
    found = judged("\n".join(lines))
    header = found["header"]
    assert header["source"]["server"] == "LangChain, message chunks"
    assert header["source"]["usage"] == "13 tokens in, 5 out"
    assert (found["end"]["reason"], header["engine"]["model"]) == (reason, "gpt-4o-mini")


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("length", "The answer ended with “length”, at its limit of tokens."),
        ("content_filter", "The answer was stopped by a filter: it ended with “content_filter”."),
        ("abort", "The answer ended with “abort”."),
        ("MALFORMED_FUNCTION_CALL", "The answer ended with “MALFORMED_FUNCTION_CALL”."),
        (
            "model_context_window_exceeded",
            "The answer ended with “model_context_window_exceeded”, at the end of its context.",
        ),
        ("stop", ""),
        ("tool_calls", ""),
    ],
)
def test_an_end_that_is_not_the_models_is_said(reason, said):
    assert judged(sse(delta("né"), finish(reason)))["notes"] == said


def test_what_curl_writes_between_two_pieces_is_no_text():
    body = sse(delta("Bonjour le monde"), finish("stop"))
    at = body.index("nde")
    found = judged(body[:at] + "{ [512 bytes data]\n" + body[at:])
    assert (found["verdicts"], found["problems"]) == ([], [])
    assert shown(found) == "Bonjour le monde"


def test_a_copy_of_the_text_that_is_broken_is_told():
    def both(text: str, copy: str) -> Any:
        return {"choices": [{"index": 0, "text": copy, "delta": {"content": text}}]}

    found = judged(sse(both("né", "né"), both("แล", "��ล"), finish("stop")))
    assert found["verdicts"] == [] and "`choices[].text` has � in line 3" in found["notes"]
    assert judged(sse(both("né", "né"), both("a�", "a�"), finish("stop")))["notes"] == ""
