"""Streams that other programs have wrapped or printed, and files that are no streams."""

import base64
import contextlib
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import compact, delta, socket_har, text_of, unended
from stream_samples import STREAMS

from detok_py.captures import gateways
from detok_py.captures.joined import Ahead
from detok_py.captures.read import read
from detok_py.captures.wrapped import bodies_of_cassette as bodies_of
from detok_py.errors import CaptureError

TWO = [delta("né "), delta("你好")]
BODY = unended(*TWO)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENTS = [line for line in BODY.split("\n") if line]
END_OF_EVENT = "\n\n"
LOGGED = BODY.strip().split("\n")


def lines(*values: Any) -> str:
    return "\n".join(value if isinstance(value, str) else json.dumps(value) for value in values)


def in_chunks(at: int) -> bytes:
    """Return the body in two chunks, cut at a byte."""
    parts = (BODY.encode()[:at], BODY.encode()[at:], b"")
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


def queue(*outputs: Any, last: Any = None) -> str:
    """Messages of Gradio's queue, each with the value of one output, or its changes."""
    said: list[Any] = [{"msg": "estimation", "rank": 0}, {"msg": "process_starts"}]
    said += [{"msg": "process_generating", "output": {"data": ["", one]}} for one in outputs]
    said += [{"msg": "process_completed", "output": {"data": ["", last]}}] if last else []
    return unended(*said)


def said(role: str, content: str) -> Any:
    return {"role": role, "content": content}


# name: the file, its text, its seconds (None: no times), what its source's format begins with
WRAPPED: dict[str, tuple["str | bytes", str, "float | None", str]] = {
    "journald": (lines(*[{"__REALTIME_TIMESTAMP": str(1700000000000000 + n * 100000), "MESSAGE": line} for n, line in enumerate(LOGGED)]), "né 你好", 0.2, "log"),
    "journald, bytes": (lines(*[{"__REALTIME_TIMESTAMP": "1", "MESSAGE": list(line.encode())} for line in LOGGED]), "né 你好", None, "log"),
    "seconds of Python": (lines(*[{"t": 1753600000.25 + n, "chunk": line + "\n\n"} for n, line in enumerate(EVENTS)]), "né 你好", 1.0, "log"),
    "seconds beside an event": (lines(*[{"time": 1753600000.25 + n, "chunk": delta(text)} for n, text in enumerate(("né ", "你", "好"))]), "né 你好", 2.0, "lines"),
    "slog, an end": (lines(*[{"time": f"2026-11-23T10:00:0{n}.5Z", "level": "DEBUG", "msg": "sse event", "data": line.removeprefix("data: ")} for n, line in enumerate([*EVENTS, "data: [DONE]"])]), "né 你好", 1.0, "log"),
    "slog, a payload": (lines(*[{"time": f"2026-11-26T12:00:0{n}Z", "level": "DEBUG", "msg": "sse event", "payload": line[6:]} for n, line in enumerate(EVENTS)]), "né 你好", 1.0, "log"),
    "slog, a chunk": (lines(*[{"time": f"2026-11-26T12:00:0{n}Z", "level": "DEBUG", "msg": "sse event", "chunk": line[6:]} for n, line in enumerate(EVENTS)]), "né 你好", 1.0, "log"),
    "logfmt, data": (lines(*[f"time=2026-11-26T12:00:0{n}Z level=DEBUG msg=event data={json.dumps(line + END_OF_EVENT)}" for n, line in enumerate(EVENTS)]), "né 你好", 1.0, "log"),
    "logfmt, msg": (lines(*[f'time="2026-11-26T12:00:0{n}+01:00" level=debug msg={json.dumps(line + END_OF_EVENT)} component=relay' for n, line in enumerate(EVENTS)]), "né 你好", 1.0, "log"),
    "logfmt, body": (lines(*[f"2026-11-26T12:00:0{n} INFO [proxy] forward len=512 body={json.dumps(line + END_OF_EVENT)}" for n, line in enumerate(EVENTS)]), "né 你好", 1.0, "log"),
    "bytes behind a key": (lines(*[f"2026-11-26 12:00:0{n},000 DEBUG relay chunk={BODY.encode()[at : at + 37]!r}" for n, at in enumerate(range(0, len(BODY.encode()), 37))]), "né 你好", 2.0, "bytes that"),
    "a console's break before a time": (lines(*[f'{{"model":"m","created_at":"\n2026-11-24T10:00:0{n}.123456789+00:00","response":"{text}"}}' for n, text in enumerate(("né", "!"))]), "né!", 1.0, "lines"),
    "a character of code zero": (unended(delta("né\0")), "né\0", None, "server-sent"),
    "docker, json-file": (lines(*[{"log": line + "\n", "stream": "stdout", "time": f"2026-11-23T10:00:0{n}.5Z"} for n, line in enumerate(LOGGED)]), "né 你好", 2.0, "log"),
    "docker, a long line": (lines(*[{"log": part, "stream": "stdout", "time": "2026-11-23T10:00:00.5Z"} for part in (EVENTS[0][:9], EVENTS[0][9:] + "\n")]), "né ", None, "log"),
    "kubernetes": (lines(*[f"2026-11-23T10:00:0{n}.5Z stdout F {line}" for n, line in enumerate(EVENTS)]), "né 你好", 1.0, "log"),
    "kubernetes, long lines": (lines(*[f"2026-11-23T10:00:0{n}.5Z stdout {flag} {part}" for n, line in enumerate(EVENTS) for flag, part in (("P", line[:40]), ("F", line[40:]))]), "né 你好", 1.0, "log"),
    "loki": (lines(*[{"ts": f"2026-11-23T10:00:0{n}.5Z", "line": line} for n, line in enumerate(EVENTS)]), "né 你好", 1.0, "log"),
    "cloudwatch": (lines(*[{"timestamp": 1764000000000 + 500 * n, "message": line} for n, line in enumerate(EVENTS)]), "né 你好", 0.5, "log"),
    "insomnia": (BODY.replace("data: ", "| data: ").replace("\n\n", "\n|\n"), "né 你好", None, "server-sent"),
    "journald in a pager": (lines(*[f'Mar 01 22:57:0{n} box server[7]: data: {{"choices":[{{"delta":{{"content":"{text}"}}}}],"created":1,"id":"chatcmpl-0123456789'[:99] + ">" for n, text in enumerate(("né ", "你好", " a", "!"))]), "né 你好 a!", 3.0, "server-sent"),
    "litellm": (lines(*[f"DEBUG {label}: Chunk(choices=[Choice(delta=Delta(content={text!r}), index=0)]) | timestamp=2026-11-23T10:00:00.00000{n}" for n, text in enumerate(("né", " a | b=1")) for label in ("PRE", "POST")]), "né a | b=1", 1e-6, "values that"),
    "ts %.s": (lines(*[f"1700000000.{n}00 {line}" for n, line in enumerate(EVENTS)]), "né 你好", 0.1, "server-sent"),
    "DevTools, events": (lines(*[f"\tmessage\t{line[6:]}\t12:00:01.{n}00" for n, line in enumerate(EVENTS)], "\tmessage\t[DONE]\t12:00:01.3"), "né 你好", 0.1, "lines"),
    "DevTools, messages": (lines(*[f"{line[6:]}\t53\t12:00:01.{n}00" for n, line in enumerate(EVENTS)]), "né 你好", 0.1, "lines"),
    "iter_lines": (lines(*[repr(line.encode()) for line in BODY.split("\n")]), "né 你好", None, "bytes that"),
    "iter_bytes": (lines(*[repr(BODY.encode()[at : at + 9]) for at in range(0, len(BODY.encode()), 9)]), "né 你好", None, "bytes that"),
    "bytes in a log": (lines(*[f"2026-11-23 10:00:0{n},500 DEBUG chunk {BODY.encode()[at : at + 40]!r}" for n, at in enumerate(range(0, len(BODY.encode()), 40))]), "né 你好", 2.0, "bytes that"),
    "dicts": (lines(repr(delta("né ")), repr(delta("it's"))), "né it's", None, "values that"),
    "openai": ("ChatCompletionChunk(id='c', choices=[Choice(delta=ChoiceDelta(content='né ', role='assistant'), finish_reason=None, index=0)], created=1, model='m')\nChatCompletionChunk(id='c', choices=[Choice(delta=ChoiceDelta(content=\"it's\"), finish_reason='stop', index=0)])", "né it's", None, "values that"),
    "langchain": ("content='né' additional_kwargs={} id='run--1'\ncontent=' you' additional_kwargs={} response_metadata={'finish_reason': 'stop'} id='run--1'", "né you", None, "values that"),
    "ollama": ("model='m' created_at='2026-11-23T10:00:00.1Z' done=False message=Message(role='assistant', content='né', images=None)\nmodel='m' created_at='2026-11-23T10:00:00.4Z' done=True done_reason='stop' message=Message(role='assistant', content='!')", "né!", 0.3, "values that"),
    "anthropic": ("RawContentBlockDeltaEvent(delta=TextDelta(text='né', type='text_delta'), index=0, type='content_block_delta')", "né", None, "values that"),
    "UTF-16 LE": (BODY.encode("utf-16-le"), "né 你好", None, "server-sent"),
    "UTF-16 BE": (BODY.encode("utf-16-be"), "né 你好", None, "server-sent"),
    "a HAR's binary events": (socket_har(*[line[6:].encode() for line in EVENTS], step=0.25), "né 你好", 0.25, "HAR"),
    "a HAR's bytes": (socket_har(b"n\xc3", b"\xa9!", step=0.25), "né!", 0.25, "HAR"),
    "a HAR's text": (socket_har("né", "!", step=0.25), "né!", 0.25, "HAR"),
    "a followed connection": ("POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n{}HTTP/1.1 200 OK\r\nServer: s\r\n\r\n" + BODY, "né 你好", None, "server-sent"),
    "a followed connection, in chunks": (b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n{}" + CHUNKED + in_chunks(30), "né 你好", None, "HTTP response"),
    "a response in chunks": (CHUNKED + in_chunks(9), "né 你好", None, "HTTP response, server-sent"),
    "a response in chunks, cut inside a character": (CHUNKED + in_chunks(BODY.encode().index(b"\xc3") + 1), "né 你好", None, "HTTP response, server-sent"),
    "a response that curl -i has put together": (CHUNKED + BODY.encode(), "né 你好", None, "server-sent"),
    "a stub of WireMock": (json.dumps({"request": {}, "response": {"body": BODY}}, indent=1), "né 你好", None, "WireMock, response 1, server-sent"),
    "stubs of WireMock": (json.dumps({"mappings": [{"request": {}, "response": {"base64Body": "/w=="}}, {}, {"request": {}, "response": {"base64Body": base64.b64encode(BODY.encode()).decode()}}]}), "né 你好", None, "WireMock, response 3, server-sent"),
    "the chunks of curl --raw": (in_chunks(30), "né 你好", None, "HTTP response"),
    "curl, what it received": ("* Connected\n{ [5 bytes data]\n" + BODY, "né 你好", None, "server-sent"),
    "a recording of nock, in hex": (json.dumps([{"scope": "https://a.test:443", "response": [BODY.encode().hex()[:33], BODY.encode().hex()[33:]]}]), "né 你好", None, "nock, response 1, server-sent"),
    "a cassette of bytes": (f"interactions:\n- response:\n    body:\n      string: !!binary |\n        {base64.b64encode(BODY.encode()).decode()}\n", "né 你好", None, "cassette"),
    "JSON within JSON": (unended(*[json.dumps(json.dumps(one)) for one in TWO]), "né 你好", None, "server-sent"),
    "events of events": (unended(*[f"data: {json.dumps(one)}" for one in TWO]), "né 你好", None, "server-sent"),
    "dicts in a log": (lines(*[f"INFO:root:{one!r}" for one in TWO]), "né 你好", None, "values that"),
    "bytes of JSON in a log": (lines(*[f"DEBUG got {json.dumps(one).encode()!r}" for one in TWO]), "né 你好", None, "bytes that"),
    "strings": (lines(*[repr("data: " + json.dumps(one)) for one in TWO]), "né 你好", None, "bytes that"),
    "a short log, with no copy of a piece": (lines(*[f"{level} chunk {json.dumps(unended(delta(text)))}" for level, text in (("DEBUG", "ha"), ("WARN", "ha"), ("DEBUG", "ho"))]), "hahaho", None, "log"),
    "a log whose `ts` is finer than its `timestamp`": (lines(*[{"timestamp": 1764000000 + n, "ts": 1764000000.25 + n / 4, "msg": f"data: {json.dumps(one)}"} for n, one in enumerate(TWO)]), "né 你好", 0.25, "log"),
    "raw deltas and their sums": (lines(*9 * [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}, {"type": "text", "text": "a", "snapshot": "a"}]), 9 * "a", None, "lines"),
    "a recording of nock": (json.dumps([{"scope": "https://127.0.0.1:443", "method": "GET", "response": {"data": []}}, {"scope": "https://127.0.0.1:443", "method": "POST", "response": BODY}]), "né 你好", None, "nock, response 2, server-sent"),
    "a session of Charles": (json.dumps([{"durations": {}, "request": {"body": {"text": "hi"}}, "response": {"body": body}} for body in ({}, {"text": BODY})]), "né 你好", None, "Charles, response 2, server-sent"),
    "a session of Charles, packed": (json.dumps([{"durations": {}, "response": {"body": {"encoded": base64.b64encode(BODY.encode()).decode()}}}]), "né 你好", None, "Charles, response 1, server-sent"),
    "Gradio's queue": (queue("né ", [["append", [], "你"]], [["append", [], "好"]], last="né 你好"), "né 你好", None, "server-sent"),
    "Gradio's queue, a chat": (queue([said("user", "a"), said("assistant", "né ")], [["append", [1, "content"], "你"]], [["replace", [1, "content"], "né 你好"]]), "né 你好", None, "server-sent"),
    "Gradio's queue, pairs": (queue([], [["add", [0], ["a", "né"]]], [["append", [0, 1], " 你好"], ["add", [1], 2], ["delete", [1], None]]), "né 你好", None, "server-sent"),
    "Gradio's queue, whole": (queue("né ", "né 你", "né 你好"), "né 你好", None, "server-sent"),
    "a notebook": (json.dumps({"cells": [{"cell_type": "markdown", "source": ["# a"]}, {"cell_type": "code", "outputs": [{"output_type": "stream", "name": "stdout", "text": [repr(delta("né ")) + "\n", repr(delta("it's"))]}]}], "nbformat": 4}, indent=1), "né it's", None, "Jupyter notebook, cell 2, values that"),
    "langgraph": ('event: metadata\ndata: {"run_id":"1"}\n\nevent: messages\ndata: [{"content":"né","type":"AIMessageChunk","id":"r"},{"langgraph_node":"a"}]\n\n', "né", None, "server-sent"),
    "langgraph, partial": ("".join([f'event: messages/partial\ndata: [{{"content":"{text}","type":"ai","id":"r"}}]\n\n' for text in ("n", "né")]), "né", None, "server-sent"),
    "langgraph, an end": ('event: messages/partial\ndata: [{"content":"né","type":"ai","id":"run-1","response_metadata":{}}]\n\nevent: end\ndata: null\n\n', "né", None, "server-sent"),
    "astream_events": (lines({"event": "on_chat_model_start", "data": {}, "run_id": "1"}, {"event": "on_chat_model_stream", "data": {"chunk": {"content": "né"}}, "run_id": "1"}), "né", None, "lines"),
    "langserve, strings": ('event: data\ndata: "n\\u00e9"\n\nevent: data\ndata: " you"\n\n', "né you", None, "server-sent"),
    "langserve, log": ('data: {"ops":[{"op":"add","path":"/streamed_output/-","value":"né"}]}\n\n', "né", None, "server-sent"),
    "cohere before 2024": (lines({"event_type": "stream-start"}, {"event_type": "text-generation", "text": "né"}, {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": {"text": "né"}}), "né", None, "lines"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapped_stream_is_read_with_its_times(name):
    data, text, seconds, form = WRAPPED[name]
    found = read(data.encode() if isinstance(data, str) else data)
    assert (text_of(found), found.problems) == (text, [])
    assert found.seconds == (seconds if seconds is None else pytest.approx(seconds, abs=1e-6))
    assert found.header["source"]["format"].startswith(form)


@pytest.mark.parametrize(
    "value",
    [
        {"cells": [1, {"outputs": 2}, {"outputs": [3, {"text": 4}, {"text": [5, None]}]}]},
        [{"scope": "a", "response": 1}, {"scope": 2}, 3, {"response": ["a"]}],
        {"cells": [{"outputs": {"a": 1}}]},
        {"mappings": [1, {"request": {}, "response": {"body": 2}}]},
    ],
)
def test_a_notebook_or_recording_without_a_stream_is_refused(value):
    with pytest.raises(CaptureError, match="no token stream was found"):
        read(json.dumps(value).encode())


@pytest.mark.parametrize(
    ("clock", "steps"),
    [
        ("Nov 20 22:41:1{} gpu1 proxy[7]: ", 1.0),
        ("2026-11-25T03:02:0{}+0100 srv vllm[77]: ", 1.0),
        ("2026-11-25T03:02:0{}.000Z ", 1.0),
        ("12:00:01.{} ", 0.1),
        ("12:00:01.{}1 ", None),
        ("1764000000.{}16 ", None),
    ],
)
def test_a_clock_that_is_too_coarse_for_tokens_is_known(clock, steps):
    found = read(lines(*[clock.format(n) + line for n, line in enumerate(EVENTS)]).encode())
    assert found.seconds
    assert found.header["source"].get("steps") == steps


def test_what_curl_traced_has_times_and_a_trace_of_ascii_is_whole():
    found = read((STREAMS / "curl-trace.txt").read_bytes())
    assert (found.seconds, found.problems) == (pytest.approx(0.24, abs=0.01), [])
    ascii_ = read((STREAMS / "curl-trace-ascii.txt").read_bytes())
    assert ascii_.problems == []


def traced(blocks, *, rows=64):
    """What `curl --trace-ascii --trace-time` writes of these blocks of a body."""
    out = []
    for n, block in enumerate(blocks):
        out.append(f"10:22:41.{n}90000 <= Recv data, {len(block)} bytes (0x{len(block):x})")
        at = 0
        for part in block.split("\r\n"):
            for begin in range(0, len(part) or 1, rows):
                row = part[begin : begin + rows]
                said = "".join([c if " " <= c < "\x7f" else "." for c in row])
                out += [f"{at + begin:04x}: {said}"] if at + begin < len(block) else []
            at += len(part) + 2
    return lines(*out).encode()


@pytest.mark.parametrize(("text", "lost"), [("a. ", False), ("Ã©", True), ("\\u00e9.", False)])
def test_a_trace_of_a_chunked_body_has_a_time_for_each_block(text, lost):
    event = f'data: {{"choices":[{{"delta":{{"content":"{text}"}}}}]}}\n\n'
    chunk = f"{len(event):x}\r\n{event}\r\n"
    found = read(traced([chunk, chunk[:20], chunk[20:], "0\r\n\r\n"]))
    assert [chunk.seconds for chunk in found.chunks] == [0, 0.2]
    assert [one.reason[:18] for one in found.problems] == ["curl --trace-ascii"] * lost


@pytest.mark.parametrize(
    ("stamps", "times", "steps"),
    [
        ((1777913291047, 1777913291082), "ts", None),
        (("12:52PM DBG ", "12:52PM DBG "), None, 60.0),
        (("12:52PM DBG ", "12:53PM DBG "), "lines", 60.0),
        (("0.21.071.334 D ", "0.21.097.578 D "), "lines", None),
    ],
)
def test_the_times_of_records_and_of_more_clocks_are_known(stamps, times, steps):
    event = '{"response":"a"}'
    rows = [
        event.replace("{", f'{{"ts":{one},') if isinstance(one, int) else one + event
        for one in stamps
    ]
    found = read(lines(*rows).encode())
    source = found.header["source"]
    assert (source.get("times"), source.get("steps")) == (times, steps)
    assert (found.seconds is not None) == (times is not None)


@pytest.mark.parametrize(
    "prompt",
    ["$ python dump.py", ">>> for chunk in answer: print(chunk)", "% ./a.py", r"PS C:\> a"],
)
def test_chunks_that_python_printed_are_found_behind_a_prompt(prompt):
    body = BODY.encode()
    printed = [prompt, "", repr(body[:50]), repr(body[50:]), prompt[:3]]
    found = read(lines(*printed).encode())
    assert text_of(found) == "né 你好"
    assert [chunk.line for chunk in found.chunks] == [3, 4]
    assert [problem.line for problem in found.problems] == [1, 5]
    assert text_of(read(lines(prompt, repr(body)).encode())) == "né 你好"


class Body(str):
    """A text that PyYAML writes in a style of its own."""


def cassette(
    *bodies: str, style: "str | None" = None, of: Any = yaml.SafeDumper, **options: Any
) -> str:
    """As vcrpy writes it."""
    kind = type("Dumper", (of,), {})
    kind.add_representer(
        Body,
        lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style),
    )
    made = [
        {
            "request": {"body": Body("response:\n" + BODY), "uri": f"https://a.b/{n}?c"},
            "response": {"body": {"string": Body(body)}, "status": {"code": 200}},
        }
        for n, body in enumerate(bodies)
    ]
    return yaml.dump({"interactions": made, "version": 1}, Dumper=kind, **options)


PARTS = [
    "data: ",
    "{}",
    "\\",
    '"',
    "'",
    "é",
    "東",
    "🗼",
    "\xa0",
    "\t",
    "#|>",
    " ",
    "\n",
    "\n\n",
    "a word",
]


@pytest.mark.parametrize("style", [None, "'", '"', "|", ">"])
@pytest.mark.parametrize("of", [yaml.SafeDumper, yaml.CSafeDumper])
@settings(max_examples=settings.default.max_examples // 3)
@given(
    st.lists(st.lists(st.sampled_from(PARTS), max_size=50).map("".join), min_size=1, max_size=3),
    st.booleans(),
)
def test_the_bodies_of_a_cassette_are_as_they_were_recorded(style, of, bodies, plain):
    bodies = ["data: " + body for body in bodies]
    text = cassette(*bodies, style=style, of=of, allow_unicode=plain)
    told = yaml.safe_load(text)["interactions"]
    read_ = [b"".join([piece for piece, _ in pieces]).decode() for _, pieces in bodies_of(text)]
    assert read_ == [one["response"]["body"]["string"] for one in told]


@pytest.mark.parametrize("style", [None, "'", '"', "|", ">"])
def test_a_cassette_is_read_with_the_lines_of_its_file(style):
    text = cassette(
        '{"models": []}', BODY, BODY.replace("你好", "two"), style=style, allow_unicode=True
    )
    found = read(text.encode(), "a.yaml")
    assert (text_of(found), found.header["source"]["entry"]) == ("né 你好", 2)
    assert found.header["entries"] == [[2, "https://a.b/1"], [3, "https://a.b/2"]]
    begin = text.index("string:", text.index("string:") + 1)
    at = [text.index("data: ", begin), text.index("data: ", text.index("data: ", begin) + 1)]
    assert [chunk.line for chunk in found.chunks] == [1 + text.count("\n", 0, one) for one in at]
    assert text_of(read(text.encode(), "a.yaml", entry=3)) == "né two"


def test_a_log_line_between_the_pieces_of_an_event_is_no_part_of_it():
    head = "2026-11-25 10:00:0{},120 DEBUG client recv:"
    begin, end = EVENTS[0].split("né")
    given = [head.format(0), f"{begin}n\ufffd", head.format(1), f"\ufffd{end}", "", EVENTS[1], ""]
    found = read(lines(*given).encode())
    assert text_of(found) == "n\ufffd\ufffd 你好"
    assert [chunk.line for chunk in found.chunks] == [2, 6]
    assert [problem.line for problem in found.problems] == [1, 3]
    assert found.facts.joined == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is an empty file, 0 bytes."),
        (b"\x89PNG\r\n\x1a\n\0", "it is a PNG picture."),
        (b"<html><head><title>502 Bad Gateway</title>", "it is an HTML page, “502 Bad Gateway”."),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "run git lfs pull"),
        (b"\xd4\xc3\xb2\xa1\x02\0", "In Wireshark choose Follow"),
        (b"\x1f\x8b\x08\0", "could not be unpacked"),
        (b"\x01\0\0\0\x02", "a binary file"),
        (b'{"tokenizer_class": "X"}', "open its tokenizer.json"),
        (b'{"foo": 1, "bar": {"text": "hi you"}}', "`foo`, `bar`. Text may be in `bar.text`."),
    ],
)
def test_what_is_no_stream_is_named(data, said):
    with pytest.raises(CaptureError) as caught:
        read(data)
    assert said in str(caught.value)


def test_unknown_events_are_read_by_the_path_that_is_suggested():
    data = unended(*[{"foo": n, "bar": {"text": text}} for n, text in enumerate(["né", " you"])])
    with pytest.raises(CaptureError, match="Text may be in `bar.text`"):
        read(data.encode())
    assert text_of(read(data.encode(), "", "bar.text")) == "né you"


CHUNK = "ChatCompletionChunk(choices=[Choice(delta=Delta(content={!r}), index=0)])"
OUTPUT = "(pid=1) INFO 12-08 15:10:57 [a.py:1] response x ({}): output: {!r}, output_token_ids: {}, finish_reason: {}"  # fmt: skip


def data_of(text):
    return json.dumps(delta(text), ensure_ascii=False)


def packet(text):
    return "[2025-04-25 17:15:09][INFO] packet: " + json.dumps(delta(text), indent=2)


@pytest.mark.parametrize(
    "log",
    [
        (packet("né "), packet("你"), "[2025-04-25 17:15:10][INFO] Finished"),
        (f"12:00:01.1 SSE received - event: message, data: {data_of('né ')}, id: , retry: None",
         f"12:00:01.2 SSE received - event: message, data: {data_of('你')}, id: , retry: None",
         "12:00:01.3 SSE received - event: message, data: [DONE], id: , retry: None"),
        (f"12:00:01.1 [a] sent {data_of('né ')} (1)", f"12:00:01.2 [a] sent {data_of('你')} (2)"),
        *[("12:00:01 INFO start", "", "12:00:01 - value: " + CHUNK.format("né "), second,
           "12:00:02 - value: " + CHUNK.format("你"), second.replace("né ", "你"))
          for second in ("12:00:01 - PROCESSED: " + CHUNK.format("né "), "")],
        ("12:00:00 request: Params(n=1), a: 1", OUTPUT.format("delta", "né ", [7], None),
         OUTPUT.format("delta", "你", [8], "length"),
         OUTPUT.format("complete", "né 你", None, "streaming_complete")),
        ("12:00:00 - {'stream': True}", f"12:00:01.1 data: {data_of('né ')}",
         f"12:00:01.2 data: {data_of('你')}"),
        ('12:52PM Request received: {"model":"m","stream":true}', f"12:52PM Sent: {data_of('né ')}",
         "api_1 |", f"12:52PM Sent: {data_of('你')}"),
    ],
)  # fmt: skip
def test_an_event_anywhere_in_the_lines_of_a_log_is_read_once(log):
    found = read(lines(*log).encode())
    assert text_of(found) == "né 你"
    assert found.chunks[0].event == 1
    marks = ("lines are not events, ", "this line is no event: ")
    assert [one.reason for one in found.problems if not any(m in one.reason for m in marks)] == []


CODE = ["né {b: 1}\n", ".box { color: red; }\n", "{Name:x}"]


def told(text):
    return unended(delta(text))


def cri(stream, part, text):
    return f"2026-11-24T10:00:00Z {stream} {part} {text}"


@pytest.mark.parametrize(
    "log",
    [
        [CHUNK.format(text) for text in CODE],
        [f"12:00:01 - value: {CHUNK.format(text)}" for text in CODE],
        [f"2026-11-24 10:00:00 [DEBUG] app: {told(text).encode()!r}" for text in CODE],
        [f"(APIServer pid=1) INFO {told(text).encode()!r}" for text in CODE],
        [f"\x1b[92m10:15:01 - LiteLLM:DEBUG\x1b[0m: utils.py:237 - chunk: {delta(text)}"
         for text in CODE],
        [f"[app] chunk: {told(text)!r}" for text in CODE],
        [f"got {('event: message' + chr(10) + told(text)).encode()!r}" for text in CODE],
        [f"({told(text).encode()!r}, True)" for text in CODE],
        [f"time=10:00:0{n} level={level} msg={json.dumps(told(text))}"
         for n, (text, level) in enumerate(zip(CODE, ("debug", "info", "debug"), strict=True))],
        [f'level=debug dur={dur} msg={json.dumps(told(text))}'
         for text, dur in zip(CODE, ("1.2ms", "850us", "2ms"), strict=True)],
        [cri("stdout", "F", told(CODE[0]).strip()), cri("stdout", "P", told(CODE[1]).strip()[:30]),
         cri("stderr", "F", "warning: slow"), cri("stdout", "F", told(CODE[1]).strip()[30:]),
         cri("stdout", "F", told(CODE[2]).strip())],
    ],
)  # fmt: skip
def test_text_with_code_and_line_ends_is_read_as_it_was_sent(log):
    assert text_of(read(lines(*log).encode())) == "".join(CODE)


WORDS = ["né ", "ha", "ha", " don't"]


@pytest.mark.parametrize(
    "labels",
    [
        ("10:00 rx <- ", "10:00 tx -> "),
        ("10:00 in ", "10:00 to "),
        ("10:00 < ", "10:00 > "),
        ("10:00 ← ", "10:00 → "),
        ("DEBUG chunk ", "TRACE chunk "),
        ("level=debug dur=2ms msg=", "level=info dur=900us msg="),
        ("level=debug dur={} msg=", "level=info dur={} msg="),
        ("\x1b[32mDEBUG\x1b[0m chunk ", "\x1b[31mFATAL\x1b[0m chunk "),
    ],
)
def test_pieces_that_a_log_writes_twice_are_read_once(labels):
    times = ("2ms", "900us", "1m2s", "3s")
    log = [
        label.format(time) + json.dumps(told(text))
        for text, time in zip(WORDS, times, strict=True)
        for label in labels
    ]
    for some in (log, log[1:], log[:-1]):
        found = read(lines(*some).encode())
        assert (text_of(found), found.problems) == ("".join(WORDS), [])


@pytest.mark.parametrize(
    "labels",
    [
        [f"level={level} msg=" for level in ("debug", "notice", "critical", "fatal")],
        [f"<{level}> chunk " for level in ("DEBUG", "TRACE", "PANIC", "WARN")],
        [f"dur={dur} msg=" for dur in ("850µs", "1.2ms", "1m2.5s", "3s")],
        [f"took {dur} chunk " for dur in ("850 µs", "1.2 ms", "1 ms", "3 s")],
        [f"span={span} chunk " for span in ("4bf92", "0aff3", "01ab", "99")],
        [f"{time} chunk " for time in ("11:59:58 AM", "11:59:59 AM", "12:00:00 PM", "12:00:01 PM")],
        [f"{icon} chunk " for icon in "🟢🟡🟢🔴"],
        [f"{spinner} chunk " for spinner in "⠋⠙⠹⠸"],
        ["DEBUG chunk "] * 4,
    ],
)
def test_equal_pieces_behind_labels_of_one_kind_are_all_read(labels):
    log = [label + json.dumps(told(text)) for label, text in zip(labels, WORDS, strict=True)]
    found = read(lines(*log).encode())
    assert (text_of(found), found.problems) == ("".join(WORDS), [])


@pytest.mark.parametrize("size", [1000, 8192])
def test_a_large_event_in_the_pieces_of_a_log_is_read_whole(size):
    body = told("né ") + told("x" * 300_000) + told("!")
    pieces = [body[at : at + size].rstrip("\n") for at in range(0, len(body), size)]
    found = read(lines(*[f"12:00:01 chunk {piece}" for piece in pieces]).encode())
    assert (text_of(found), found.problems) == ("né " + "x" * 300_000 + "!", [])


@pytest.mark.parametrize("piece", ['x"}', "[1]"])
def test_pieces_that_may_end_an_event_are_looked_at_for_a_bounded_time(piece, monkeypatch):
    looked = []
    monkeypatch.setattr(gateways, "is_whole", lambda line, after: looked.append(len(line)))
    monkeypatch.setattr(gateways, "MOST_LOOKED", 100_000)
    log = ['12:00:01 chunk data: {"a":"', *[f"12:00:02 chunk {piece}"] * 5000]
    assert gateways.pieces_of_console([line.encode() for line in log]) is None
    assert sum(looked) < 110_000


def test_a_whole_event_is_looked_at_once_before_a_log_s_own_words(monkeypatch):
    looked = []
    monkeypatch.setattr(gateways, "is_whole", lambda line, after: looked.append(line) or True)
    log = ['12:00:01 chunk data: {"a":', "12:00:01 chunk 1}", *["12:00:02 chunk idle"] * 100]
    assert gateways.pieces_of_console([line.encode() for line in log])
    assert looked == [b'data: {"a":1}']


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (told("a") + told("?é").replace("?", "\x1b"), "aé"),
        (f"$ python x\n\x1bé\n{told('a').encode()!r}", "a"),
    ],
)
def test_a_character_behind_a_bare_escape_stays_whole(data, text):
    assert text_of(read(data.encode())) == text


def test_the_second_answer_of_llama_server_is_told_from_the_first():
    said = enumerate(("né", "x", " 你", "y", "!", "z"))
    mixed = [compact({**delta(text), "id": "chatcmpl-" + "ab"[n % 2]}) for n, text in said]
    found = read(unended(*mixed).encode())
    assert text_of(found) == "né 你!"
    assert "mixed into it" in found.facts.notes


@pytest.mark.parametrize("wrap", ["{}", "data: {}", '{{"level":1,"msg":"data: {{","a":{}}}'])
def test_what_is_nested_too_deep_is_a_problem_and_no_crash(wrap):
    deep = '{"a":' + "[" * 2000 + '"[",1' + "]" * 2000 + "}"
    with contextlib.suppress(CaptureError):
        read((wrap.format(deep) + "\n\n").encode())


def test_an_array_that_is_cut_inside_code_keeps_its_whole_events():
    events = [delta("né "), delta("你"), delta("}" * 30)]
    assert text_of(read(json.dumps(events)[:-20].encode())) == "né 你"


def test_an_event_that_breaks_off_in_a_log_is_not_called_a_line_of_the_log():
    log = [f"12:00:01 data: {data_of('né')}", "12:00:02 idle", '12:00:03 data: {"choices":[{"del']
    found = read(lines(*log, "12:00:04 idle").encode())
    reasons = [one.reason[:30] for one in found.problems]
    assert reasons == ["2 lines are not events, such a", "this event's JSON breaks off o"]


@pytest.mark.parametrize("after", ["", "[DONE]"])
def test_the_end_of_a_stream_without_its_field_is_no_problem(after):
    found = read(lines(data_of("né"), data_of("你"), after).encode())
    assert (text_of(found), found.problems) == ("né你", [])
    assert found.facts.no_end is (after == "")


def test_the_compressed_body_of_a_cassette_is_named():
    string = base64.b64encode(b"\x1f\x8b\x08\0\r\n").decode()
    text = f"interactions:\n- response:\n    body:\n      string: !!binary |\n        {string}\n"
    with pytest.raises(CaptureError, match="compressed"):
        read(text.encode())


def test_the_same_text_behind_another_label_is_an_echo_only_if_they_are_mixed():
    said = "12:00:01 {} chunk: {{'choices': [{{'delta': {{'content': 'ha'}}}}]}}\n"
    for labels, text in (("A B", "haha"), ("A B A B", "haha"), ("A A B B", "hahahaha")):
        log = "".join([said.format(label) for label in labels.split()])
        assert text_of(read(log.encode())) == text


@pytest.mark.parametrize("size", [9, 8, 7])
def test_what_python_printed_before_a_log_s_fields_is_read_once_with_its_times(size):
    said = (
        "DEBUG {}: Delta(content={!r}) | timestamp=2026-11-23T10:00:00.00000{}\n",
        "DEBUG {}: Chunk(choices=[Choice(delta=Delta(content={!r}), index=0)]) | "
        "timestamp=2026-11-23T10:00:00.00000{} \n",
    )
    labels = [("chunk", said[1]), ("choices[0].delta", said[0]), ("sent", said[1])]
    texts = ["né | a=1", " you", "!"]
    log = [form.format(label, text, n) for n, text in enumerate(texts) for label, form in labels]
    found = read("".join(log[:size]).encode())
    assert (text_of(found), found.problems) == ("".join(texts), [])
    times = pytest.approx([0.0, 1e-6, 2e-6], abs=1e-7)
    assert [chunk.seconds for chunk in found.chunks] == times


class Counted(list):
    """Lines that count how often one of them is looked at."""

    looks = 0

    def __getitem__(self, at):
        self.looks += 1
        return list.__getitem__(self, at)


@pytest.mark.parametrize(
    "opening",
    [
        [b"12:00:01 x: {", b' "a" b'],
        [b"12:00:01 x: {", b'"a": 1,', b"'b': 2", b"}"],
        [b'{"a": {"b":1}'],
        [b'12:00:01 x: {"a": {', b'"a": {', b'"a": {'],
        [b"{"],
    ],
)
def test_openings_that_are_never_whole_are_given_up(opening):
    many = Counted(opening * (3000 // len(opening)))
    ahead = Ahead(many)
    for n in range(len(many)):
        assert ahead.joined(many[n], n + 1)[0] == b""
    assert many.looks < 100 * len(many)
    # The rest of an event behind them is found.
    log = [one.decode() for one in opening] * 500
    event = data_of("né")
    end = ["", "12:00:02 data: " + event[:20], event[20:40], event[40:], ""]
    assert text_of(read(lines(*log, *end).encode())) == "né"
