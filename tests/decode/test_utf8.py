"""Bytes to text: the output at each byte, under every error policy, in any chunking."""

import codecs
import json
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py import (
    StreamEndedError,
    StreamingDetokenizer,
    last_complete_utf8_end,
    utf8_expected_len,
)
from detok_py.decode.utf8 import decode_utf8, second_byte_range, subparts


def test_holds_half_a_character():
    stream = StreamingDetokenizer()
    assert stream.feed(b"\xf0\x9f") == ""
    assert stream.held == b"\xf0\x9f"
    assert stream.feed(b"\x98\x80") == "😀"
    assert stream.held == b""


def test_the_second_byte_of_a_surrogate_is_not_waited_for_as_the_codec_does():
    codec = codecs.getincrementaldecoder("utf-8")("replace")
    assert codec.decode(b"\xed\xa0") == ""
    assert StreamingDetokenizer().feed(b"\xed\xa0") == "\ufffd\ufffd"


def test_strict_refuses_the_chunk_and_keeps_the_state():
    stream = StreamingDetokenizer("strict")
    assert stream.feed(b"a\xe4") == "a"
    with pytest.raises(UnicodeDecodeError):
        stream.feed(b"\xff")
    assert stream.held == b"\xe4"
    assert stream.feed(b"\xbd\xa0") == "你"


def test_an_unknown_policy_is_refused_with_the_list_of_those_known():
    with pytest.raises(
        ValueError, match=r"replace, strict, ignore, backslashreplace, not 'surrogateescape'"
    ):
        StreamingDetokenizer("surrogateescape")


def test_flush_ends_the_stream_and_reset_begins_another():
    stream = StreamingDetokenizer()
    stream.feed(b"\xe4")
    assert (stream.flush(), stream.flush()) == ("\ufffd", "")
    assert stream.feed(b"") == ""
    with pytest.raises(StreamEndedError, match="reset"):
        stream.feed(b"\xbd\xa0")
    assert issubclass(StreamEndedError, RuntimeError)
    stream.reset()
    assert stream.feed(b"\xbd\xa0") == "\ufffd\ufffd"


def test_a_mark_that_lies_ahead_is_refused():
    stream = StreamingDetokenizer()
    early = stream.mark()
    stream.feed(b"abc")
    late = stream.mark()
    stream.rollback(early)
    with pytest.raises(ValueError, match="ahead"):
        stream.rollback(late)


def test_copies_are_independent():
    stream = StreamingDetokenizer()
    stream.feed(b"\xf0\x9f")
    other = stream.copy()
    assert (stream.feed(b"\x98\x80"), other.feed(b"A")) == ("😀", "\ufffdA")


@given(
    st.lists(st.binary(max_size=6), max_size=8),
    st.sampled_from(["replace", "ignore", "backslashreplace"]),
)
def test_any_cutting_gives_what_the_whole_gives(chunks, errors):
    stream = StreamingDetokenizer(errors)
    assert "".join([*map(stream.feed, chunks), stream.flush()]) == b"".join(chunks).decode(
        "utf-8", errors
    )


@given(st.binary(max_size=12))
def test_the_state_goes_through_json_at_every_byte(data):
    stream, shown = StreamingDetokenizer(), ""
    for byte in data:
        again = StreamingDetokenizer()
        again.load(json.loads(json.dumps(stream.save())))
        shown += again.feed(bytes([byte]))
        stream = again
    assert shown + stream.flush() == data.decode("utf-8", "replace")


@given(st.binary(max_size=16))
def test_the_safe_end_is_what_the_stream_shows_at_once(data):
    stream = StreamingDetokenizer()
    stream.feed(data)
    assert last_complete_utf8_end(data) == len(data) - len(stream.held)
    assert len(stream.held) <= 3


@given(st.binary(max_size=16))
def test_the_slow_form_says_the_same_as_the_fast_one(data):
    pairs = subparts(data)
    assert sum(size for size, _ in pairs) == len(data)
    assert "".join(text for _, text in pairs) == data.decode("utf-8", "replace")
    text, held = decode_utf8(data, "replace")
    assert text + held.decode("utf-8", "replace") == data.decode("utf-8", "replace")


def test_the_length_of_a_character_is_known_from_its_first_byte():
    for byte in range(256):
        lengths = {
            len(chr(c).encode())
            for c in (*range(0x80), 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF)
            if chr(c).encode()[0] == byte
        }
        assert not lengths or lengths == {utf8_expected_len(byte)}
    assert [byte for byte in range(256) if not utf8_expected_len(byte)] == [
        *range(0x80, 0xC2),
        *range(0xF5, 0x100),
    ]
    with pytest.raises(ValueError, match="256"):
        utf8_expected_len(256)


def test_the_second_byte_decides_what_the_first_leaves_open():
    for lead in range(0xC2, 0xF5):
        low, high = second_byte_range(lead)
        good = {
            b
            for b in range(256)
            if last_complete_utf8_end(bytes([lead, b])) == 0
            or (utf8_expected_len(lead) == 2 and 0x80 <= b <= 0xBF)
        }
        assert good == set(range(low, high + 1))


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview, lambda data: array("B", data)])
def test_any_buffer_is_bytes_wherever_it_is_cut(buffer):
    data = "a😀é".encode()
    for cut in range(len(data) + 1):
        s = StreamingDetokenizer()
        assert s.feed(buffer(data[:cut])) + s.feed(buffer(data[cut:])) == "a😀é"
        assert s.held == b""


@pytest.mark.parametrize("held", [b"", b"\xf0"])
@pytest.mark.parametrize("data", ["a", 1, [97], None])
def test_what_is_no_buffer_is_refused(held, data):
    s = StreamingDetokenizer()
    s.feed(held)
    with pytest.raises(TypeError):
        s.feed(data)
    assert s.held == held


def test_text_is_refused_with_the_reason():
    with pytest.raises(TypeError, match="takes bytes, not 'né', which is text already"):
        StreamingDetokenizer().feed("né")
