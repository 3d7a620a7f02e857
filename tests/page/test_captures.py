"""Captures, read and written as a page does it."""

import json
from typing import Any

import pytest
from page_rig import END, NI_BEGINS, TOKENS, VOCABULARY, Line, fill, plain

from detok_py.errors import CaptureError, VocabularyError
from detok_py.page import answer, captures, streams


@pytest.fixture(autouse=True)
def no_vocabulary_is_known_yet():
    answer.kept_vocabularies.clear()


def read(text: str) -> Any:
    return json.loads(captures.capture_rows(text))


def rows_of(text: str) -> list[Any]:
    return [plain(row) for _, row in read(text)["rows"]]


def test_a_recording_written_and_read_again_is_the_same_stream():
    line = Line()
    run = line.start()
    run.add_tokens([(NI_BEGINS, TOKENS[NI_BEGINS]), (END, b""), (0xA0, b"\xa0")])
    run.add_gap(2, b"\xf0\x9f")
    run.finish("length")
    line.batch()
    made = {
        "header": {"engine": {"name": "test"}, "vocabulary": {"sha256": VOCABULARY.sha256}},
        "rows": [[0.25 * n, row[0], row[1]] for n, row in enumerate(line.rows)],
        "seconds": 1.5,
        "end": {"type": "finished", "reason": "length"},
    }
    text = json.loads(captures.capture_text(json.dumps(made)))
    again = read(text)
    assert [plain(row) for _, row in again["rows"]] == line.rows
    assert [seconds for seconds, _ in again["rows"]] == [0.0, 0.25, 0.5, 0.75]
    assert (again["deltas"], again["seconds"], again["header"]["engine"]) == (
        [["content", "\ufffd"]],
        1.5,
        {"name": "test"},
    )


def test_a_capture_names_the_vocabulary_that_it_wants():
    text = json.loads(
        captures.capture_text(
            json.dumps(
                {"header": {"vocabulary": {"sha256": VOCABULARY.sha256}}, "rows": [], "seconds": 0}
            )
        )
    )
    assert json.loads(captures.capture_vocabulary(text)) == VOCABULARY.sha256
    streams.keep_vocabulary(fill(VOCABULARY.pack()))
    assert json.loads(captures.capture_vocabulary(text)) is None


def test_ids_with_their_bytes_need_no_vocabulary():
    assert [row[2] for row in rows_of('{"detok":1}\n[0,"t",[[7,"5A=="],[8,"vaA="]]]\n')] == [
        "",
        "你",
    ]


def test_ids_without_bytes_and_vocabulary_are_refused_with_the_way_out():
    with pytest.raises(VocabularyError, match="--tokenizer"):
        captures.capture_rows('{"detok":1}\n[0,"i",[7,8]]\n')


def test_an_event_stream_and_a_har_file_are_captures_too():
    assert (
        "".join(
            [
                row[2]
                for row in rows_of(
                    'data: {"choices":[{"delta":{"content":"né"}}]}\n\ndata: [DONE]\n\n'
                )
            ]
        )
        == "né"
    )
    messages = [
        {
            "type": "receive",
            "time": 1,
            "opcode": 1,
            "data": '{"type":"hello","protocol":"detok.v1"}',
        },
        {"type": "receive", "time": 1.5, "opcode": 2, "data": "AMOp"},
    ]
    har = json.dumps({"log": {"entries": [{"_webSocketMessages": messages}]}})
    assert rows_of(har) == [[None, "c3a9", "é", "", "", None]]


def test_a_file_that_is_no_capture_is_said_to_be_none():
    for text in ("", "hello", "{}", "[1,2]", "\x00\x01"):
        with pytest.raises(CaptureError):
            captures.capture_rows(text)
        assert json.loads(captures.capture_vocabulary(text)) is None
