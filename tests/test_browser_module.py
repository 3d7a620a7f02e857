"""What the page's worker calls, without a page: batches in, one JSON text out, against a real server session."""

import json
from typing import Any

import pytest

from detok_py import browser
from detok_py.capture import CaptureError
from detok_py.errors import VocabularyError
from detok_py.session import RunStore, ServerSession
from detok_py.vocabulary import Vocabulary

TOKENS = [bytes([b]) for b in range(256)] + [b"<end>", "你".encode(), "你".encode()[:2], "好!".encode()]
END, NI, NI_BEGINS, HAO = 256, 257, 258, 259
VOCABULARY = Vocabulary.from_bytes(TOKENS, special_ids=[END], eos_ids=[END])


@pytest.fixture(autouse=True)
def no_vocabulary_is_known_yet():
    browser._vocabularies.clear()


class Line:
    """A page's stream and a bridge's session, joined by a wire that keeps all that the page was told."""

    def __init__(self, request: dict[str, Any] | None = None, vocabulary: Vocabulary | None = VOCABULARY) -> None:
        self.store = RunStore()
        self.named = vocabulary
        self.page = browser.PageStream(json.dumps({"prompt": "hi"} | (request or {})))
        self.events: list[dict[str, Any]] = []
        self.fetches: list[dict[str, Any]] = []
        self.closed: list[Any] = []
        self.connect()

    def connect(self) -> None:
        hello: dict[str, Any] = {"engine": {"name": "test"}}
        if self.named is not None:
            hello["vocabulary"] = {"sha256": self.named.sha256, "size": len(self.named), "url": "/vocabulary/x.detok"}
        self.server = ServerSession(self.store, hello)
        self.told(self.page.opened())

    def told(self, text: str) -> dict[str, Any]:
        outcome: dict[str, Any] = json.loads(text)
        self.events += outcome["events"]
        if "fetch" in outcome:
            self.fetches.append(outcome["fetch"])
        if "close" in outcome:
            self.closed.append(outcome["close"])
        for frame in outcome.get("send", []):
            self.server.receive(frame)
        return outcome

    def batch(self) -> dict[str, Any]:
        """All that the bridge has to send now, as one batch."""
        packed = b""
        for frame in self.server.frames():
            data = frame.encode() if isinstance(frame, str) else frame
            packed += bytes([isinstance(frame, bytes)]) + len(data).to_bytes(4, "little") + data
        return self.told(self.page.receive(fill(packed)))

    def start(self, data: str = "both") -> Any:
        """Everything up to the first token; returns the bridge's run."""
        self.batch()
        if self.named is not None:
            self.told(self.page.vocabulary(fill(self.named.pack())))
        self.batch()
        self.server.run.start(data)
        return self.server.run

    @property
    def rows(self) -> list[Any]:
        return [row for event in self.events if event["type"] == "tokens" for row in event["rows"]]

    @property
    def text(self) -> str:
        return "".join([row[2] for row in self.rows]) + "".join([event.get("text", "") for event in self.events])

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]


def fill(data: bytes) -> int:
    browser.inbox(len(data))[: len(data)] = data
    return len(data)


def test_a_batch_holds_any_number_of_frames():
    batch = b""
    frames = ['{"type":"pong"}', b"", b"\x00\xf0\x9f", "ü", b"x" * 70_000]
    for frame in frames:
        data = frame.encode() if isinstance(frame, str) else frame
        batch += bytes([isinstance(frame, bytes)]) + len(data).to_bytes(4, "little") + data
    assert browser.unpack_batch(batch) == frames


def test_the_inbox_grows_and_never_shrinks():
    size = len(browser.inbox())
    assert len(browser.inbox(size + 1)) > size
    assert browser.inbox(10) is browser.inbox()


def test_each_token_is_a_row_with_its_bytes_its_text_and_what_is_held():
    line = Line()
    run = line.start()
    run.add_tokens([(NI_BEGINS, TOKENS[NI_BEGINS]), (0xA0, b"\xa0"), (ord("!"), b"!")])
    run.finish("eos")
    line.batch()
    assert line.rows == [[NI_BEGINS, "e4bd", "", "e4bd", "", None], [0xA0, "a0", "你", "", "", None], [33, "21", "!", "", "", None]]
    assert line.last == {"type": "finished", "reason": "eos", "note": None, "position": 3, "text": ""}


def test_ids_alone_are_enough_where_the_vocabulary_is_known():
    line = Line({"want": "ids"})
    run = line.start("ids")
    run.add_ids([NI, HAO])
    line.batch()
    assert [row[1] for row in line.rows] == [TOKENS[NI].hex(), TOKENS[HAO].hex()]
    assert line.text == "你好!"


def test_raw_bytes_need_no_vocabulary():
    line = Line({"want": "bytes"}, vocabulary=None)
    run = line.start("bytes")
    run.add_bytes("é".encode()[:1])
    line.batch()
    run.add_bytes("é".encode()[1:])
    run.finish("eos")
    line.batch()
    assert line.text == "é"
    assert [row[0] for row in line.rows] == [None, None]


def test_raw_bytes_can_be_a_row_each():
    line = Line({"want": "bytes", "single_bytes": True}, vocabulary=None)
    line.start("bytes").add_bytes("é!".encode())
    line.batch()
    assert [row[1] for row in line.rows] == ["c3", "a9", "21"]


def test_a_special_token_is_named_and_puts_nothing_into_the_text():
    line = Line()
    line.start().add_tokens([(NI_BEGINS, TOKENS[NI_BEGINS]), (END, b"<end>"), (0xA0, b"\xa0")])
    line.batch()
    assert line.rows[1] == [END, "", "", "e4bd", "", "<end>"]
    assert line.text == "你"


def test_tokens_of_unknown_ids_go_on_by_their_bytes_with_what_is_held():
    line = Line()
    run = line.start()
    run.add_tokens([(NI_BEGINS, TOKENS[NI_BEGINS])])
    run.add_gap(2, b"\xa0\xe5\xa5")
    run.add_tokens([(0xBD, b"\xbd")])
    run.finish("eos")
    line.batch()
    assert line.text == "你好"
    assert [row[0] for row in line.rows] == [NI_BEGINS, None, 0xBD]


def test_a_stream_that_ends_inside_a_character_shows_one_replacement_character():
    line = Line()
    run = line.start()
    run.add_tokens([(NI_BEGINS, TOKENS[NI_BEGINS])])
    run.finish("length")
    line.batch()
    assert line.text == "\ufffd"
    assert line.last["text"] == "\ufffd"


def test_data_waits_until_the_vocabulary_is_there():
    line = Line()
    line.batch()
    line.batch()
    run = line.server.run
    run.start("both")
    run.add_tokens([(NI, TOKENS[NI])])
    run.finish("eos")
    line.batch()
    assert [event["type"] for event in line.events] == ["hello"]
    assert line.fetches == [{"sha256": VOCABULARY.sha256, "size": len(VOCABULARY), "url": "/vocabulary/x.detok"}]
    line.told(line.page.vocabulary(fill(VOCABULARY.pack())))
    assert line.text == "你"
    assert line.last["type"] == "finished"


def test_a_vocabulary_is_fetched_once_for_all_streams():
    Line().start()
    second = Line()
    second.batch()
    assert second.fetches == []


def test_a_vocabulary_that_is_not_what_its_name_says_is_refused():
    other = Vocabulary.from_bytes([b"x"])
    line = Line()
    line.batch()
    line.told(line.page.vocabulary(fill(other.pack())))
    assert line.last["type"] == "failed"
    assert line.last["code"] == 4409
    assert other.sha256[:12] in line.last["message"] and VOCABULARY.sha256[:12] in line.last["message"]
    assert line.closed == [[4409, "vocabulary mismatch"]]
    assert line.text == ""
    with pytest.raises(VocabularyError, match="nothing is decoded"):
        browser.keep_vocabulary(other.pack(), VOCABULARY.sha256)


def test_a_damaged_vocabulary_is_refused():
    line = Line()
    line.batch()
    line.told(line.page.vocabulary(fill(VOCABULARY.pack()[:-3])))
    assert (line.last["type"], line.last["code"]) == ("failed", 4409)


def test_a_vocabulary_that_cannot_be_fetched_ends_the_stream_and_says_why():
    line = Line()
    line.batch()
    line.told(line.page.no_vocabulary("HTTP 404"))
    assert line.last["type"] == "failed"
    assert "HTTP 404" in line.last["message"]


@pytest.mark.parametrize("way", ["damaged", "given up"])
def test_an_answer_that_ended_before_its_vocabulary_came_still_ends_once(way):
    line = Line()
    line.batch()
    run = line.server.run
    run.start("both")
    run.add_tokens([(NI, TOKENS[NI])])
    run.finish("eos")
    line.batch()
    before = len(line.events)
    line.told(line.page.vocabulary(fill(b"damaged")) if way == "damaged" else line.page.give_up())
    assert [event["type"] for event in line.events[before:]] == ["failed"]
    assert line.text == ""


def test_another_vocabulary_after_a_reconnect_is_refused():
    line = Line()
    line.start().add_tokens([(NI, TOKENS[NI])])
    line.batch()
    line.told(line.page.lost(1006, "", 0.5))
    line.named = Vocabulary.from_bytes([b"x"])
    line.connect()
    line.batch()
    assert (line.last["type"], line.last["code"]) == ("failed", 4409)
    assert line.text == "你"


def test_an_unknown_id_ends_the_stream_and_keeps_what_came_before():
    line = Line()
    line.start().add_tokens([(NI_BEGINS, TOKENS[NI_BEGINS]), (9999, b"?")])
    line.batch()
    assert line.rows == [[NI_BEGINS, "e4bd", "", "e4bd", "", None]]
    assert line.last["type"] == "failed"
    assert "9999" in line.last["message"]
    assert line.last["text"] == "\ufffd"


def test_a_lost_connection_is_taken_up_where_it_was_cut():
    line = Line()
    run = line.start()
    run.add_tokens([(NI_BEGINS, TOKENS[NI_BEGINS])])
    line.batch()
    outcome = line.told(line.page.lost(1006, "", 1.0))
    assert outcome["retry"] == 0.25
    line.server.lost(1006, 0.0)
    run.add_tokens([(0xA0, b"\xa0"), (HAO, TOKENS[HAO])])
    run.finish("eos")
    line.connect()
    line.batch()
    line.batch()
    assert line.text == "你好!"
    assert line.last["type"] == "finished"


def test_a_reloaded_page_takes_up_its_answer_from_the_beginning():
    line = Line()
    run = line.start()
    run.add_tokens([(NI_BEGINS, TOKENS[NI_BEGINS])])
    line.batch()
    line.server.lost(1001, 0.0)
    run.add_tokens([(0xA0, b"\xa0"), (HAO, TOKENS[HAO])])
    run.finish("eos")
    line.page, line.events = browser.PageStream(json.dumps({"resume": run.id})), []
    line.connect()
    line.batch()
    line.batch()
    assert line.text == "你好!"
    assert [event["type"] for event in line.events if event["type"] in ("started", "finished")] == ["started", "finished"]


def test_a_connection_that_stays_lost_is_given_up_and_held_bytes_become_text():
    line = Line()
    line.start().add_tokens([(ord("a"), b"a"), (NI_BEGINS, TOKENS[NI_BEGINS])])
    line.batch()
    waits = []
    while True:
        outcome = line.told(line.page.lost(1006, "", 1.0))
        if "retry" not in outcome:
            break
        waits.append(outcome["retry"])
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert line.last["type"] == "failed"
    assert "connection to the bridge was lost" in line.last["message"]
    assert line.text == "a\ufffd"


def test_a_refused_connection_is_not_tried_again():
    line = Line()
    outcome = line.told(line.page.lost(4403, "", 1.0))
    assert "retry" not in outcome
    assert line.last["code"] == 4403


def test_every_code_that_closes_has_a_sentence_with_a_way_out():
    for code, sentence in browser.CLOSED.items():
        assert sentence.endswith("."), code


def test_an_unknown_close_code_is_named():
    line = Line()
    line.told(line.page.lost(4777, "", 1.0))
    assert "4777" in line.last["message"]


def test_an_error_of_the_engine_keeps_the_text_and_ends_once():
    line = Line()
    run = line.start()
    run.add_tokens([(NI, TOKENS[NI])])
    run.fail(4503, "The engine was lost.", retry=True)
    line.batch()
    line.told(line.page.lost(1006, "", 1.0))
    assert [event["type"] for event in line.events].count("failed") == 1
    assert line.last["message"] == "The engine was lost."
    assert line.text == "你"


def test_a_cancel_ends_with_what_had_come():
    line = Line()
    run = line.start()
    run.add_tokens([(NI, TOKENS[NI])])
    line.batch()
    line.told(line.page.cancel())
    run.finish("cancelled")
    line.batch()
    assert (line.last["type"], line.last["reason"]) == ("finished", "cancelled")
    assert line.text == "你"


def test_giving_up_ends_without_an_answer_of_the_bridge():
    line = Line()
    line.start()
    line.told(line.page.give_up())
    assert (line.last["type"], line.last["code"]) == ("failed", 4499)


def test_a_paused_page_gives_no_credit():
    line = Line()
    run = line.start()
    line.told(line.page.pause(True))
    run.add_tokens([(33, b"!")] * 500)
    line.batch()
    assert run.acked == 0
    line.told(line.page.pause(False))
    assert run.acked == 500


def test_a_stop_string_is_held_back_and_ends_the_stream():
    line = Line({"stop": ["STOP"]})
    run = line.start()
    run.add_tokens([(b, bytes([b])) for b in b"go STreet STOP and more"])
    line.batch()
    assert line.text == "go STreet "
    assert line.last["reason"] == "stop"
    assert line.rows[4][4] == "ST"
    assert line.rows[5][2:5] == ["STr", "", ""]
    run.finish("cancelled")
    line.batch()
    assert [event["type"] for event in line.events].count("finished") == 1


def test_a_stop_string_that_does_not_come_is_text_in_the_end():
    line = Line({"stop": ["STOP"]})
    run = line.start()
    run.add_tokens([(b, bytes([b])) for b in b"ST"])
    run.finish("eos")
    line.batch()
    assert line.text == "ST"


def test_a_bridge_that_breaks_the_protocol_is_closed_and_what_came_is_kept():
    line = Line()
    line.start().add_tokens([(NI, TOKENS[NI])])
    line.batch()
    line.told(line.page.receive(fill(b"\x01\x01\x00\x00\x00\x63")))
    assert line.last["type"] == "failed"
    assert line.closed[0][0] == 4400
    assert line.text == "你"


def rows_of(text: str) -> list[Any]:
    return [row for _, row in json.loads(browser.capture_rows(text))["rows"]]


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
    text = browser.capture_text(json.dumps(made))
    again = json.loads(browser.capture_rows(text))
    assert [row for _, row in again["rows"]] == line.rows
    assert [seconds for seconds, _ in again["rows"]] == [0.0, 0.25, 0.5, 0.75]
    assert (again["text"], again["seconds"], again["header"]["engine"]) == ("\ufffd", 1.5, {"name": "test"})


def test_a_capture_names_the_vocabulary_that_it_wants():
    text = browser.capture_text(json.dumps({"header": {"vocabulary": {"sha256": VOCABULARY.sha256}}, "rows": [], "seconds": 0}))
    assert browser.capture_vocabulary(text) == VOCABULARY.sha256
    browser.keep_captured_vocabulary(fill(VOCABULARY.pack()), VOCABULARY.sha256)
    assert browser.capture_vocabulary(text) == ""


def test_ids_with_their_bytes_need_no_vocabulary():
    assert [row[2] for row in rows_of('{"detok":1}\n[0,"t",[[7,"5A=="],[8,"vaA="]]]\n')] == ["", "你"]


def test_ids_without_bytes_and_vocabulary_are_refused_with_the_way_out():
    with pytest.raises(VocabularyError, match="--tokenizer"):
        browser.capture_rows('{"detok":1}\n[0,"i",[7,8]]\n')


def test_an_event_stream_and_a_har_file_are_captures_too():
    assert "".join([row[2] for row in rows_of('data: {"choices":[{"delta":{"content":"né"}}]}\n\ndata: [DONE]\n\n')]) == "né"
    messages = [
        {"type": "receive", "time": 1, "opcode": 1, "data": '{"type":"hello","protocol":"detok.v1"}'},
        {"type": "receive", "time": 1.5, "opcode": 2, "data": "AMOp"},
    ]
    har = json.dumps({"log": {"entries": [{"_webSocketMessages": messages}]}})
    assert rows_of(har) == [[None, "c3a9", "é", "", "", None]]


def test_a_file_that_is_no_capture_is_said_to_be_none():
    for text in ("", "hello", "{}", "[1,2]", "\x00\x01"):
        with pytest.raises(CaptureError):
            browser.capture_rows(text)
        assert browser.capture_vocabulary(text) == ""
