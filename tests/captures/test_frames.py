"""Event streams of Amazon, and packets in hex dumps."""

import base64
import gzip
import json
import struct

import pytest
from recordings import body_har, compact, text_of

from detok_py.captures.frames import packets, read_frames
from detok_py.captures.read import read
from detok_py.errors import CaptureError

WORDS = ["Gleis ", "7: 次の", "駅は", "京都 🚆"]


def message(kind, payload, message_type="event"):
    headers = {
        ":event-type" if message_type == "event" else ":exception-type": kind,
        ":content-type": "application/json",
        ":message-type": message_type,
    }
    head = b"".join(
        bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for key, value in headers.items()
    )
    body = payload if isinstance(payload, bytes) else compact(payload).encode()
    return struct.pack(">III", 16 + len(head) + len(body), len(head), 0) + head + body + bytes(4)


def delta(text):
    return {"contentBlockIndex": 0, "delta": {"text": text}, "p": "abc"}


ANSWER = (
    message("messageStart", {"role": "assistant", "p": "ab"})
    + b"".join(message("contentBlockDelta", delta(word)) for word in WORDS)
    + message("messageStop", {"stopReason": "end_turn"})
    + message("metadata", {"usage": {"outputTokens": 9}, "metrics": {"latencyMs": 5}})
)  # fmt: skip


def test_an_answer_of_bedrock_is_read():
    found = read(ANSWER, "body.bin")
    assert text_of(found) == "".join(WORDS)
    assert found.header["source"]["server"] == "Amazon Bedrock, converse"
    assert found.header["source"]["format"] == "Amazon event stream"
    assert found.end["reason"] == "end_turn"
    assert (found.problems, found.facts.no_end) == ([], False)


def test_chunks_have_the_events_of_the_model():
    events = [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": word}}
        for word in WORDS
    ]
    payloads = [json.dumps(event).encode() for event in events]
    chunks = [{"bytes": base64.b64encode(one).decode(), "p": "a"} for one in payloads]
    found = read(b"".join(message("chunk", chunk) for chunk in chunks))
    assert text_of(found) == "".join(WORDS)
    assert found.header["source"]["server"] == "Amazon Bedrock, Anthropic messages"
    assert found.facts.no_end
    printed = "\n".join(repr({"chunk": {"bytes": one}}) for one in payloads)
    assert text_of(read(printed.encode())) == "".join(WORDS)


def test_a_har_file_has_it_in_base64():
    form = {"mimeType": "application/vnd.amazon.eventstream", "encoding": "base64"}
    body = base64.b64encode(ANSWER).decode()
    assert text_of(read(body_har(body, **form).encode())) == "".join(WORDS)
    with pytest.raises(CaptureError, match="it is not whole base64"):
        read(body_har(body[:-1], **form).encode())


def test_a_message_that_is_cut_off_or_broken_is_a_problem_and_an_exception_an_error():
    cut = read(ANSWER[:-60])
    assert [one.reason for one in cut.problems] == ["this message is cut off"]
    bad = read_frames(ANSWER + message("messageStop", b"{") + b"\0\0\0\x10" + bytes(20))
    assert [one.reason for one in bad[1]] == [
        "this message's payload is not JSON",
        "no message of an event stream",
    ]
    died = read(
        message("contentBlockDelta", delta("a"))
        + message("throttlingException", {"message": "Slow down."}, "exception")
    )
    assert died.end == {"type": "error", "message": "throttlingException: Slow down."}
    raw = read(message("contentBlockDelta", b'{"delta":{"text":"caf\xc3"}}'))
    assert [chunk.broken for chunk in raw.chunks] == ["the bytes that arrived are not UTF-8"]


@pytest.mark.parametrize(
    "data", [b"data: {}", bytes(40), ANSWER[:10], ANSWER[:40], b"\x89PNG" + bytes(60)]
)
def test_other_files_are_no_event_streams(data):
    assert read_frames(data) is None


def packet(sequence, body, port=8080, version=4, kind=6):
    tcp = struct.pack(">HHIIBBHHH", port, 50000, sequence, 1, 0x50, 0x18, 512, 0, 0) + body
    if version == 6:
        return b"\x60\0\0\0" + struct.pack(">HBB", len(tcp), kind, 64) + bytes(32) + tcp
    ends = b"\x7f\0\0\1" * 2
    return struct.pack(">BBHIBBH8s", 0x45, 0, 20 + len(tcp), 0, 64, kind, 0, ends) + tcp


def dumped(*blocks):
    """What `tcpdump -X` prints."""
    lines = []
    for block in blocks:
        lines.append(
            "10:00:00.123456 IP localhost.8080 > localhost.50000: Flags [P.], length 9: HTTP"
        )
        for at in range(0, len(block), 16):
            row = block[at : at + 16]
            letters = "".join(chr(c) if 32 <= c < 127 else "." for c in row)
            lines.append(f"\t0x{at:04x}:  {row.hex(' ', -2):39}  {letters}")
    return "\n".join(lines).encode()


BODY = 'data: {"choices":[{"delta":{"content":"né 駅"}}]}\n\ndata: [DONE]\n\n'.encode()
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SENT = HEAD + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize("version", [4, 6])
def test_packets_are_put_in_order_and_what_came_twice_is_left_out(version):
    cut = SENT.index("駅".encode()) + 1  # inside a character
    first = packet(1, SENT[:cut], version=version)
    second = packet(1 + cut, SENT[cut:], version=version)
    asked = packet(7, b"GET /v1 HTTP/1.1\r\n\r\n", port=50000, version=version)
    again = packet(cut - 9, SENT[cut - 10 :], version=version)
    found = read(dumped(asked, second, first, again))
    assert (text_of(found), found.problems) == ("né 駅", [])
    lost = read(dumped(first, packet(cut + 50, SENT[cut:], version=version)))
    assert "a packet is missing in this dump" in [one.reason for one in lost.problems]


def test_other_blocks_are_no_packets_and_a_compressed_body_is_named():
    assert packets([packet(1, b"x", kind=17)]) is None
    assert packets([b"HTTP/1.1 200 OK"]) is None
    assert packets([packet(1, b"")]) is None
    body = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(BODY)
    with pytest.raises(CaptureError, match="compressed"):
        read(dumped(packet(1, body)))
