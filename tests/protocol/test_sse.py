"""Events are the same however their bytes are cut, and as WHATWG HTML 9.2.6 has them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py.protocol.sse import EventReader, LineReader

PARTS = [
    *(b"a", b"bc", b"\r", b"\n", b"\r\n", b"\xc3", b"\xa9", b": x", b"data: ", b"data:{}"),
    *(b"{", b""),
]


def in_pieces(reader, body, data):
    """Return what a reader gives for `body`, which it gets in small pieces."""
    out, at = [], 0
    while at < len(body):
        size = data.draw(st.integers(1, 4))
        out += reader.feed(body[at : at + size])
        at += size
    return out + reader.flush()


@given(st.lists(st.sampled_from(PARTS), max_size=30), st.data())
def test_lines_are_the_same_however_they_are_cut(parts, data):
    body = b"".join(parts)
    whole = LineReader()
    expected = whole.feed(body) + whole.flush()
    assert in_pieces(LineReader(), body, data) == expected
    assert b"\n".join(expected).replace(b"\n", b"") == body.replace(b"\r", b"").replace(b"\n", b"")


@given(st.lists(st.sampled_from(PARTS), max_size=30), st.data())
def test_events_are_the_same_however_they_are_cut(parts, data):
    body = b"".join(parts)
    whole = EventReader()
    assert in_pieces(EventReader(), body, data) == whole.feed(body) + whole.flush()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: a\n\ndata:b\n\ndata:  c\n\n", ["a", "b", " c"]),
        (b"data: a\ndata\ndata: b\n\n", ["a\n\nb"]),
        (b"event: x\nid: 1\nretry: 5\n: comment\ndata: a\n\n", ["a"]),
        (b"event: x\n\ndata\n\ndata: [DONE]\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"\xff\xff\xffdata: a\n\n", []),
        (b"dat: a\nxdata: b\n\ndata: \xff\n\n", ["\ufffd"]),
        (b"data: a\n\ndata: b", ["a", "b"]),
        (b'error: {"code": 500}\n\n', ['{"code": 500}']),
        (b'{"a": 1}\n{"b": 2}', ['{"a": 1}', '{"b": 2}']),
        (b"| a\n}\n\xc3\xa9\n1:x\n", []),
    ],
    ids=[
        "one space after the colon is dropped",
        "data lines are joined",
        "other fields and comments are ignored",
        "an event without data is no event",
        "a byte order mark at the start is ignored",
        "three other bytes at the start are part of a field's name",
        "unknown fields are ignored and bad bytes replaced",
        "the end of the stream ends an event",
        "llama-server's error field",
        "lines of JSON",
        "lines that begin with no object and no field",
    ],
)
def test_an_event_stream_is_read(body, expected):
    reader = EventReader()
    assert [event.data for event in reader.feed(body) + reader.flush()] == expected


def test_an_event_knows_the_number_of_its_first_line():
    assert [
        event.line for event in EventReader().feed(b": x\ndata: a\ndata: b\n\n\ndata: c\n\n")
    ] == [2, 6]
