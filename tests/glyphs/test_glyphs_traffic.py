"""The text of a stream is read from every known format, and is None if the format is unknown."""

import json

import pytest

from detok_py.glyphs.traffic import Answer, SentText, Traffic, text_of

TEXT = "Grüße 東京 👋🏽 ภาษาไทย 龜龜 \ufffd ende"
pytestmark = pytest.mark.native


def sse(text: str, size: int = 3) -> bytes:
    parts = [text[i : i + size] for i in range(0, len(text), size)]
    events = [json.dumps({"choices": [{"delta": {"content": part}}]}) for part in parts]
    return "".join([f"data: {event}\n\n" for event in [*events, "[DONE]"]]).encode()


@pytest.mark.parametrize(
    "value", [{"usage": {"total": 3}}, {"type": "audio-delta", "delta": "{"}, [1], 3, None]
)
def test_an_event_without_text_is_none(value):
    assert text_of(value) is None


def whole(kind, data, size=1 << 20):
    """Return what was sent by a body that came in pieces of so many bytes, and has ended."""
    sent = SentText(kind)
    for i in range(0, len(data), size):
        sent.feed(data[i : i + size])
    sent.flush()
    return sent


def said(*messages, url=""):
    """Return the text of messages of a WebSocket."""
    sent = SentText("websocket", url)
    for message in messages:
        sent.message(message)
    return sent.text


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_text_of_a_stream_does_not_depend_on_its_cuts(size, end):
    data = sse(TEXT).replace(b"\n", end.encode())
    assert whole("text/event-stream; charset=utf-8", data, size).text == TEXT


@pytest.mark.parametrize("charset", ["iso-8859-1", "latin1", "windows-1252", "us-ascii", "no-such"])
def test_utf8_is_read_as_such_whatever_its_header_says(charset):
    text = "schöne Grüße, 東京 🚆"
    assert whole(f"text/plain; charset={charset}", text.encode(), 1).text == text


def test_latin1_is_read_as_its_header_says():
    for charset, text in (("iso-8859-1", "schöne Grüße"), ("windows-1252", "„schön“ – 5 €")):
        assert whole(f"text/plain; charset={charset}", text.encode(charset), 1).text == text


def test_a_stream_of_unknown_events_has_no_known_text():
    data = b'data: {"msg": "process_generating", "output": {}}\n\n'
    assert whole("text/event-stream", data).text is None


@pytest.mark.parametrize("word", ["ALIVE", "ping", "keep-alive", "heartbeat"])
def test_a_keep_alive_is_not_text(word):
    sent = whole("text/event-stream", f"data: {word}\n\n".encode() * 3)
    assert not sent.text
    sent.feed(b"data: a keep-alive of 15 s\n\n")
    assert sent.text == "a keep-alive of 15 s"


def test_an_unknown_binary_message_has_no_known_text():
    assert said("pong") == ""
    assert said("pong", None) is None
    assert said("pong", None, "a") == "a"


@pytest.mark.parametrize("kind", ["application/x-ndjson", "application/json; charset=utf-8"])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_of_json_are_read_whatever_their_type_and_their_last_end(kind, end):
    assert whole(kind, b'{"response": "a"}\n{"response": "b"}' + end).text == "ab"


def test_halves_of_a_pair_in_two_events_are_one_character_and_are_counted():
    events = (rb'data: {"content": "a\ud83e"}', rb'data: {"content": "\udd8a b \ud83e\udd8a"}')
    sent = whole("text/event-stream", b"\n\n".join([*events, b""]))
    assert (sent.text, sent.halves) == ("a🦊 b 🦊", 2)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"choices": [{"message": {"content": TEXT}}]}, TEXT),
        ([{"response": "a"}, {"response": "b"}], "ab"),
        ({"model": "x", "vocabulary": {"ä": 1}}, ""),
        ([1, 2], ""),
        ("Grüße", ""),
    ],
)
def test_of_json_an_answer_is_read_and_other_data_is_no_answer(document, text):
    assert whole("application/json", json.dumps(document).encode(), 1).text == text


BYTES = {"content-type": "application/octet-stream"}
TRAFFIC = Traffic("every-byte", 0, None, "fragments")


@pytest.mark.parametrize(
    ("url", "request_", "answer"),
    [
        ("http://a/chat", {}, BYTES),
        ("http://a/chat", {"sec-fetch-dest": "empty", "accept": "*/*"}, {}),
        ("http://a/chat?file=x.wasm", {}, {"content-type": "text/plain; charset=utf-8"}),
        ("http://a/chat", {"accept": "application/json"}, {"content-type": "application/json"}),
        ("http://a/v1/models/x.bin", {}, {"content-type": "text/event-stream", "etag": "x"}),
        ("http://a/x", {}, {"content-type": "application/x-ndjson", "content-length": "3"}),
    ],
)
def test_what_can_be_an_answer_is_cut(url, request_, answer):
    assert TRAFFIC.is_stream(url, request_, answer)


@pytest.mark.parametrize(
    ("url", "request_", "answer"),
    [
        ("http://a/x", {"sec-fetch-dest": "script"}, BYTES),
        ("http://a/x", {"sec-fetch-dest": "image"}, {}),
        ("http://a/x", {"accept": "application/wasm, */*;q=0.8"}, BYTES),
        ("http://a/x", {"accept": "image/*"}, {}),
        ("http://a/runtime/detok_micropython.bin", {}, BYTES),
        ("http://a/micropython-Bx1.WASM?v=2", {}, BYTES),
        ("http://a/vocabulary.json", {}, {"content-type": "application/json"}),
        ("http://a/x", {}, {**BYTES, "content-length": "300"}),
        ("http://a/x", {}, {**BYTES, "etag": 'W/"1"'}),
        ("http://a/x", {}, {**BYTES, "last-modified": "Sun, 22 Nov 2026 00:00:00 GMT"}),
        ("http://a/x", {}, {**BYTES, "accept-ranges": "bytes"}),
        ("http://a/x", {}, {**BYTES, "content-disposition": "attachment"}),
        ("http://a/x", {}, {**BYTES, "cache-control": "public, max-age=31536000, immutable"}),
        ("http://a/x", {}, {"content-type": "application/wasm"}),
        ("http://a/x", {}, {"content-type": "text/html"}),
    ],
)
def test_a_file_is_not_cut(url, request_, answer):
    assert not TRAFFIC.is_stream(url, request_, answer)


@pytest.mark.parametrize(
    ("kind", "chunks"),
    [
        ("application/octet-stream", [b"\0asm\1\0\0\0", b"text"]),
        ("", [b"PK\3\4", b"\0"]),
        ("text/plain", [b"\x1f\x8b\x08", b"xyz"]),
        ("application/octet-stream", [b'[["a.mpy", 3]]\n', b"M\6\0", b"xyz"]),
    ],
)
def test_bytes_that_only_a_file_has_end_the_cutting(kind, chunks):
    traffic = Traffic("every-byte", 0, None, "fragments")
    answer = traffic.begin("http://a/x", kind)
    pieces = [[piece for piece, _ in answer.cut(chunk)] for chunk in chunks]
    assert b"".join(b"".join(one) for one in pieces) == b"".join(chunks)
    assert pieces[-1] == chunks[-1:]
    assert traffic.answers == [] and traffic.sent_text is None


def test_frames_with_their_lengths_are_no_file():
    answer = Answer("http://a/x", "application/octet-stream", "every-byte")
    frame = b"\0\0\0\2h\xc3"
    assert [piece for piece, _ in answer.cut(frame)] == [bytes([byte]) for byte in frame]


def test_a_page_is_told_where_a_chunk_that_it_read_was_cut():
    traffic = Traffic("every-byte", 0, None, "fragments")
    first, second = (traffic.begin("http://a/x", "text/plain") for _ in range(2))
    ((_, number), _) = traffic.headers(second)
    for answer in (first, second):
        list(answer.cut("né!".encode()))
    said = json.loads(traffic.read({"stream": number, "within": [0, 4]}))
    assert said == {"cuts": [2]}
    traffic.read({"stream": number, "ends": [4]})
    assert [first.reads.joined, second.reads.joined] == [0, 1]
    assert traffic.read({"stream": "a number of another proxy"}) == "{}"


def test_a_stream_that_is_not_cut_has_no_number():
    traffic = Traffic("none", 0, None, "fragments")
    assert traffic.headers(traffic.begin("http://a/x", "text/plain")) == []


def test_packets_of_socket_io_are_no_text_but_their_events_are():
    packets = ['0{"sid":"a","upgrades":[]}', "40", '40{"sid":"b"}', "2", '42["update",{"3":[]}]']
    assert said(*packets) is None  # the page's own: nothing to compare
    packets += ['42["token",{"text":"né "}]', '42["new_token","🚆"]', '42["status","ok"]', "2"]
    assert said(*packets) == "né 🚆"


@pytest.mark.parametrize("transport", ["polling", "websocket"])
def test_socket_io_begins_with_polls_and_goes_on_in_a_websocket(transport):
    address = f"ws://127.0.0.1/socket.io/?EIO=4&transport={transport}&sid=a"
    packets = ["3probe", '40{"sid":"b"}', '42["clear_ask",{}]', '42["new_token","🚆"]', "6", "ok"]
    sent = Answer(address, "text/plain; charset=UTF-8").sent
    if transport == "polling":
        sent.feed("\x1e".join(packets).encode())
        sent.flush()
    else:
        for packet in packets:
            sent.message(packet)
    assert sent.text == "🚆"


def test_numbers_in_a_websocket_are_text_where_nothing_speaks_of_socket_io():
    assert said("4", "2", ' ["') == '42 ["'


def test_the_first_piece_of_an_answer_may_come_with_its_beginning():
    packets = [
        '42["stream_start",{"type":"assistant_message","output":"終","streaming":true}]',
        '42["stream_token",{"id":"a","token":"電","isSequence":false}]',
        '42["update_message",{"type":"assistant_message","output":"終電","streaming":false}]',
    ]
    assert said(*packets, url="ws://127.0.0.1/ws/socket.io/?EIO=4&transport=websocket") == "終電"
