"""Streams as other recorders keep them: entries of Google Cloud Logging, nock's bodies in hex; and
the ends that servers write beside their JSON.
"""

import gzip
import json

import pytest
from recordings import delta, finish, har, judged, shown, socket_har, text_of, unended

from detok_py.captures.read import read
from detok_py.errors import CaptureError

EVENTS = [delta("né "), delta("🚆"), finish("stop")]
BODY = unended(*EVENTS)
LINES = [line for line in BODY.split("\n") if line] + ["data: [DONE]"]
# The fractions of Google's times have as many digits as they need.
TIMES = [f"2025-10-01T12:00:0{time}Z" for time in ("5", "5.000000001", "5.25", "6.5")]


def entries(key):
    """Return the entries of a log whose lines are at a key."""
    out = []
    for n, (line, time) in enumerate(zip(LINES, TIMES, strict=True)):
        said = {"textPayload": line} if key == "text" else {"jsonPayload": {"message": line}}
        if key == "object" and n < len(EVENTS):
            said = {"jsonPayload": EVENTS[n]}
        out.append({"insertId": f"k{n}", **said, "timestamp": time, "logName": "projects/a"})
    return out


CLOUD = {
    f"Google Cloud, {key}, {order}, {form}": json.dumps(found, indent=2)
    if form == "array"
    else "".join(json.dumps(one) + "\n" for one in found)
    for key in ("text", "message", "object")
    for order, step in (("oldest first", 1), ("newest first", -1))
    for form in ("array", "lines")
    for found in [entries(key)[::step]]
}


@pytest.mark.parametrize("name", CLOUD)
def test_entries_of_google_cloud_are_read_in_the_order_of_their_times(name):
    found = read(CLOUD[name].encode())
    assert text_of(found) == "né 🚆"
    assert (found.end or {})["reason"] == "stop"
    assert found.header["source"]["format"] == "log"
    assert found.problems == []
    assert (found.seconds or 0) > 0


def test_entries_with_one_time_that_come_newest_first_are_turned_round():
    some = entries("text")[::-1]
    some[1]["timestamp"] = some[2]["timestamp"] = some[3]["timestamp"]
    found = read(json.dumps(some, indent=1).encode())
    assert text_of(found) == "né 🚆"


def nock(*chunks, encoding="identity"):
    recorded = {"scope": "https://a.test:443", "status": 200, "response": list(chunks)}
    return json.dumps([{**recorded, "rawHeaders": ["content-encoding", encoding]}]).encode()


def test_a_packed_body_that_nock_wrote_in_hex_is_said_so():
    said = gzip.compress(BODY.encode()).hex()
    with pytest.raises(CaptureError, match="response 1 in this recording is gzip, written in hex"):
        read(nock(said[:40], said[40:], encoding="gzip"))


def dash(text, finish="null"):
    return {"output": {"text": text, "finish_reason": finish}, "request_id": "r"}


def test_a_lost_character_in_pieces_of_a_server_that_may_repeat_its_text_stays():
    out = judged(unended(dash("Das ist "), dash("sch\ufffd"), dash("\ufffdn.", "stop")))
    assert shown(out) == "Das ist sch\ufffd\ufffdn."
    assert [one[:2] for one in out["verdicts"]] == [["engine", "seam"]]
    assert "repeat" not in out["verdict"]


FETCH = """\
fetch("https://a.example/v1/chat/completions", {
  "headers": {
    "content-type": "application/json"
  },
  "body": "{\\"stream\\":true,\\"messages\\":[{\\"content\\":\\"data: né\\"}]}",
  "method": "POST"
});
"""
PASTED = {
    "fetch": FETCH + "\n" + BODY,
    "fetch, promise": FETCH.replace("});", "}).then((r) => r);") + BODY,
    "fetch, one line": 'await fetch("https://a.example");\n' + BODY,
}


@pytest.mark.parametrize("name", PASTED)
def test_a_call_of_fetch_before_a_body_is_left_out(name):
    data = PASTED[name]
    found = read(data.encode())
    assert text_of(found) == "né 🚆"
    assert found.problems == []
    assert found.chunks[0].line == data[: data.index("data: {")].count("\n") + 1


def test_a_tool_s_result_begins_no_other_answer():
    def message(kind, text, finish=None, **more):
        meta = {"finish_reason": finish} if finish else {}
        said = {"content": text, "type": kind, "response_metadata": meta, **more}
        return f"event: messages\ndata: {json.dumps([said, {'langgraph_step': 1}])}\n\n"

    out = judged(
        message("AIMessageChunk", "", "tool_calls")
        + message("tool", "14:05", tool_call_id="c")
        + message("AIMessageChunk", "at two")
        + message("AIMessageChunk", "", "stop")
    )
    assert shown(out) == "at two"
    assert "Another answer" not in out["verdict"]
    assert out["end"] == {"type": "finished", "reason": "stop"}


def event_source(body, *, times=True):
    """A HAR file with the messages of an EventSource beside its body."""
    data = [line[6:] for line in LINES]
    messages = [
        {"time": 7.0 + n / 4 if times else None, "eventName": "message", "data": one}
        for n, one in enumerate(data)
    ]
    content = {"mimeType": "text/event-stream", "text": body}
    entry = {"response": {"content": content}, "_eventSourceMessages": messages}
    return har(entry)


@pytest.mark.parametrize("body", ["", BODY + "data: [DONE]\n\n"])
def test_the_messages_of_an_event_source_have_times(body):
    out = judged(event_source(body))
    assert (out["count"], out["seconds"], out["end"]["reason"]) == (2, 0.5, "stop")
    assert out["header"]["source"]["times"] == "messages"


def test_messages_of_an_event_source_that_are_not_all_there_are_not_read():
    assert judged(event_source(BODY))["timed"] is False
    assert judged(event_source(BODY + "data: [DONE]\n\n", times=False))["timed"] is False


def test_the_last_event_of_a_socket_says_how_and_when_it_ended():
    said = [{"type": "token", "text": "né "}, {"type": "token", "text": "🚆"}]
    done = {"type": "done", "finish_reason": "stop"}
    out = judged(socket_har(*map(json.dumps, [*said, done])))
    assert (out["seconds"], out["end"]["reason"], out["count"]) == (2, "stop", 2)


def test_what_mitmproxy_says_of_a_flow_is_told():
    flow = b"99:7:version;2:21#5:error;58:3:msg;20:Client disconnected.;9:timestamp;4:1.25^}"
    out = judged(flow + b"7:content;9:" + BODY.encode())
    assert "mitmproxy says of it: “Client disconnected.”." in out["notes"]
    assert "mitmproxy" not in judged(BODY)["notes"]


def test_what_gradio_sends_whole_at_the_end_is_compared_with_its_pieces():
    outputs = ["né", [["append", [], " 🚆"]], [["append", [], "!"]]]
    said = [{"msg": "process_generating", "output": {"data": [one]}} for one in outputs]
    last = {"msg": "process_completed", "output": {"data": ["né 🚆 ja!"]}}
    out = judged(unended(*said, last))
    assert [(one[1], one[3][0][2]) for one in out["verdicts"]] == [("pieces-lack", " ja")]
    last["output"]["data"] = ["né 🚆!"]
    out = judged(unended(*said, last))
    assert out["verdict"].startswith("Nothing in it is broken: the pieces are the text")


def test_a_failed_message_of_gradio_is_an_error():
    first = {"msg": "process_generating", "output": {"data": ["né"]}}
    last = {"msg": "process_completed", "output": {"error": "out of memory"}, "success": False}
    out = judged(unended(first, last))
    assert out["notes"].startswith("The server ended it with an error in line 3: “out of memory”")
