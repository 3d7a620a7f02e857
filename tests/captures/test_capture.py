"""Captures: records survive a round trip, prompts are left out, errors name the line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py.captures.capture import (
    Capture,
    CaptureError,
    Record,
    read_capture,
    record_of,
    write_capture,
)
from detok_py.protocol import wire

RECORDS = [
    Record(0.0, "b", b"\xf0\x9f"),
    Record(0.01, "i", [3, 300]),
    Record(0.25, "t", [(3, b"caf\xc3"), (4, b"")]),
    Record(0.0, "g", (2, b"\xe3\x81\x82")),
    Record(1.0, "x", "日本 \ufffd"),
    Record(0.5, "j", {"type": "finished", "reason": "eos"}),
]
HEADER = {"detok": 1, "engine": {"name": "demo"}, "vocabulary": {"sha256": "ab", "size": 3}}


def test_every_kind_of_record_survives_a_round_trip():
    assert read_capture(write_capture(HEADER, RECORDS)) == Capture(HEADER, RECORDS)


SECONDS = st.floats(min_value=0, max_value=100).map(lambda x: round(x, 6))


@given(st.lists(st.builds(Record, SECONDS, st.just("b"), st.binary(max_size=30))))
def test_any_bytes_survive_a_round_trip(records):
    assert read_capture(write_capture({}, records)).records == records


def test_prompts_and_messages_are_left_out_unless_asked_for():
    asked = {
        "type": "generate",
        "prompt": "canary",
        "messages": [{"content": "canary"}],
        "params": {"text": "canary", "seed": 1},
    }
    header = {"prompt": "canary", "engine": {}}
    shared = write_capture(header, [(0.0, "j", asked)])
    assert "canary" not in shared
    assert read_capture(shared).records[0].value == {"type": "generate", "params": {"seed": 1}}
    assert write_capture(header, [(0.0, "j", asked)], keep_prompt=True).count("canary") == 4


def test_comments_empty_lines_and_a_byte_order_mark_are_ignored():
    assert read_capture('\ufeff{"detok":1}\r\n\n# note\n[0,"b",""]\n').records == [
        Record(0.0, "b", b"")
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "line 1 is not JSON"),
        ("{}", "not a detok capture"),
        ("[]", "not a detok capture"),
        ('{"detok":2}', "version 2"),
        ('{"detok":1}\n[0,"b"]', "line 2 must be"),
        ('{"detok":1}\n\n[0,"b","!"]', "line 3"),
        ('{"detok":1}\n[0,"z",1]', "'z'"),
        ('{"detok":1}\n[-1,"b",""]', "seconds"),
        ('{"detok":1}\n[true,"b",""]', "seconds"),
        ('{"detok":1}\n[NaN,"b",""]', "line 2 is not JSON"),
        ('{"detok":1}\n[0,"i",[-1]]', "wrong value for the kind 'i'"),
        ('{"detok":1}\n[0,"i",[true]]', "wrong value for the kind 'i'"),
        ('{"detok":1}\n[0,"t",[[1]]]', "wrong value for the kind 't'"),
        ('{"detok":1}\n[0,"g",[]]', "wrong value for the kind 'g'"),
        ('{"detok":1}\n[0,"x",1]', "wrong value for the kind 'x'"),
        ('{"detok":1}\n[0,"x","\\ud800"]', "line 2"),
        ('{"detok":1}\n[0,"j",[]]', "wrong value for the kind 'j'"),
        ('{"detok":1}\n' + "[" * 3000, "nested deeper"),
    ],
)
def test_an_error_is_one_sentence_that_names_the_line(text, word):
    with pytest.raises(CaptureError) as caught:
        read_capture(text)
    assert word in str(caught.value)
    assert str(caught.value).endswith(".")


def test_frames_become_records():
    frames = [wire.message("pong"), b"\x00\xff", b"\x01\x03", b"\x02\x03\x01a", b"\x03\x02\x01b"]
    assert [record_of(0.0, frame).kind for frame in frames] == ["j", "b", "i", "t", "g"]
