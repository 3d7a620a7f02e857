"""One answer without a page: batches in, one JSON text out, against a real server session."""

import json
import time

import pytest
from page_rig import END, HAO, NI, NI_BEGINS, TOKENS, VOCABULARY, Line, fill

import detok_py
from detok_py.decode.vocabulary import Vocabulary
from detok_py.errors import VocabularyError
from detok_py.page import answer, streams


@pytest.fixture(autouse=True)
def no_vocabulary_is_known_yet():
    answer.kept_vocabularies.clear()


def test_each_token_is_a_row_with_its_bytes_its_text_and_what_is_held():
    line = Line().hear([NI_BEGINS, 0xA0, ord("!")], "eos")
    assert line.rows == [
        [NI_BEGINS, "e4bd", "", "e4bd", "", None],
        [0xA0, "a0", "你", "", "", None],
        [33, "21", "!", "", "", None],
    ]
    assert line.last == {
        "type": "finished",
        "reason": "eos",
        "note": None,
        "position": 3,
        "deltas": [],
    }


def test_the_microseconds_of_decoding_are_a_part_of_those_of_the_call():
    line = Line()
    line.start().add_tokens([(NI_BEGINS, TOKENS[NI_BEGINS])] * 50)
    began = time.perf_counter()
    line.batch()
    took = (time.perf_counter() - began) * 1e6
    spent = next(event["spent"] for event in line.events if "rows" in event)
    assert 0 < spent < took


def test_ids_alone_are_enough_where_the_vocabulary_is_known():
    line = Line({"want": "ids"}).hear([NI, HAO])
    assert [row[1] for row in line.rows] == [TOKENS[NI].hex(), TOKENS[HAO].hex()]
    assert line.text == "你好!"


def test_raw_bytes_need_no_vocabulary():
    line = Line({"want": "bytes"}, vocabulary=None)
    line.hear("é".encode()[:1]).hear("é".encode()[1:], "eos")
    assert line.text == "é"
    assert [row[0] for row in line.rows] == [None, None]


def test_raw_bytes_can_be_a_row_each():
    line = Line({"want": "bytes", "singleBytes": True}, vocabulary=None).hear("é!".encode())
    assert [row[1] for row in line.rows] == ["c3", "a9", "21"]


def test_a_special_token_is_named_and_puts_nothing_into_the_text():
    line = Line().hear([NI_BEGINS, END, 0xA0])
    assert line.rows[1] == [END, "", "", "e4bd", "", "<end>"]
    assert line.text == "你"


def test_a_special_token_that_is_not_utf8_has_a_name_too():
    page = answer.Answer(json.dumps({"prompt": "hi", "details": True}))
    page.begin(Vocabulary.from_bytes([b"a\xff"], special_ids=[0]))
    assert page.row(0, None)[-1] == "a\ufffd"


def test_tokens_of_unknown_ids_go_on_by_their_bytes_with_what_is_held():
    line = Line().hear([NI_BEGINS])
    line.log.add_gap(2, b"\xa0\xe5\xa5")
    line.hear([0xBD], "eos")
    assert line.text == "你好"
    assert [row[0] for row in line.rows] == [NI_BEGINS, None, 0xBD]


def test_a_stream_that_ends_inside_a_character_shows_one_replacement_character():
    line = Line().hear([NI_BEGINS], "length")
    assert line.text == "\ufffd"
    assert line.last["deltas"] == [["content", "\ufffd"]]


def test_data_waits_until_the_vocabulary_is_there():
    line = Line()
    line.batch()
    line.batch()
    line.log.start("both")
    line.hear([NI], "eos")
    assert [event["type"] for event in line.events] == ["hello"]
    assert line.fetches == [
        {"sha256": VOCABULARY.sha256, "size": len(VOCABULARY), "url": "/vocabulary/x.detok"}
    ]
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
    assert (
        other.sha256[:12] in line.last["message"] and VOCABULARY.sha256[:12] in line.last["message"]
    )
    assert line.closed == [[4409, "vocabulary mismatch"]]
    assert line.text == ""
    with pytest.raises(VocabularyError, match="nothing is decoded"):
        answer.unpack_vocabulary(other.pack(), VOCABULARY.sha256)


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
    line.log.start("both")
    line.hear([NI], "eos")
    before = len(line.events)
    line.told(line.page.vocabulary(fill(b"damaged")) if way == "damaged" else line.page.give_up())
    assert [event["type"] for event in line.events[before:]] == ["failed"]
    assert line.text == ""


def test_another_vocabulary_after_a_reconnect_is_refused():
    line = Line().hear([NI])
    line.told(line.page.lost(1006, "", 0.5))
    line.named = Vocabulary.from_bytes([b"x"])
    line.connect()
    line.batch()
    assert (line.last["type"], line.last["code"]) == ("failed", 4409)
    assert line.text == "你"


def test_an_unknown_id_ends_the_stream_and_keeps_what_came_before():
    line = Line().hear([NI_BEGINS, 9999])
    assert line.rows == [[NI_BEGINS, "e4bd", "", "e4bd", "", None]]
    assert line.last["type"] == "failed"
    assert "9999" in line.last["message"]
    assert line.last["deltas"] == [["content", "\ufffd"]]


def test_a_lost_connection_is_taken_up_where_it_was_cut():
    line = Line().hear([NI_BEGINS])
    run = line.log
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
    line = Line().hear([NI_BEGINS])
    run = line.log
    line.server.lost(1001, 0.0)
    run.add_tokens([(0xA0, b"\xa0"), (HAO, TOKENS[HAO])])
    run.finish("eos")
    [run_id] = line.store.by_id
    line.page, line.events = answer.Answer(json.dumps({"resume": run_id, "details": True})), []
    line.connect()
    line.batch()
    line.batch()
    assert line.text == "你好!"
    assert [event["type"] for event in line.events if event["type"] in ("started", "finished")] == [
        "started",
        "finished",
    ]


def test_a_connection_that_stays_lost_is_given_up_and_held_bytes_become_text():
    line = Line().hear([ord("a"), NI_BEGINS])
    waits = []
    while True:
        outcome = line.told(line.page.lost(1006, "", 1.0))
        if "retry" not in outcome:
            break
        waits.append(outcome["retry"])
    assert waits[:5] == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert sum(waits) >= 60  # as long as the bridge keeps the run
    assert line.last["type"] == "failed"
    assert "connection to the bridge was lost" in line.last["message"]
    assert line.text == "a\ufffd"


def test_a_refused_connection_is_not_tried_again():
    line = Line()
    outcome = line.told(line.page.lost(4403, "", 1.0))
    assert "retry" not in outcome
    assert line.last["code"] == 4403


def test_every_code_that_closes_has_a_sentence_with_a_way_out():
    for code, sentence in answer.CLOSED.items():
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
    line = Line().hear([NI])
    line.told(line.page.cancel())
    line.hear([], "cancelled")
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
    line = Line({"stop": ["STOP"]}).hear(b"go STreet STOP and more")
    assert line.text == "go STreet "
    assert line.last["reason"] == "stop"
    assert line.rows[4][4] == "ST"
    assert line.rows[5][2:5] == ["STr", "", ""]
    line.hear([], "cancelled")
    assert [event["type"] for event in line.events].count("finished") == 1


def test_a_stop_string_that_does_not_come_is_text_in_the_end():
    line = Line({"stop": ["STOP"]}).hear(b"ST", "eos")
    assert line.text == "ST"


def test_a_bridge_that_breaks_the_protocol_is_closed_and_what_came_is_kept():
    line = Line().hear([NI])
    line.told(line.page.receive(fill(b"\x01\x01\x00\x00\x00\x63")))
    assert line.last["type"] == "failed"
    assert line.closed[0][0] == 4400
    assert line.text == "你"


# ---------------------------------------------------------------- deltas instead of rows

PLAIN = {"details": False, "reasoning": None, "tools": None, "trimArtifacts": False}
TAGS = {"reasoning": ["<think>", "</think>"]}


def joined(line: Line) -> dict[str, str]:
    """The text of each channel."""
    out: dict[str, str] = {}
    for channel, text in line.deltas:
        out[channel] = out.get(channel, "") + text
    return out


@pytest.mark.parametrize("details", [False, True])
@pytest.mark.parametrize("data", ["ids", "both", "bytes"])
def test_text_comes_by_channels_with_details_and_without(data, details):
    line = Line({"want": data, "details": details, **TAGS})
    line.hear("<think>hm 你</think>né".encode(), "eos")
    assert joined(line) == {"reasoning": "hm 你", "content": "né"}
    assert [event["type"] for event in line.events].count("finished") == 1


def test_a_batch_of_deltas_says_how_far_the_stream_is_and_what_is_held():
    line = Line({**PLAIN, "stop": ["STOP"]}).hear(b"a ST")
    assert line.last == {
        "type": "text",
        "deltas": [["content", "a "]],
        "waiting": "ST",
        "held": 0,
        "count": 4,
        "position": 4,
    }
    line.hear("R你".encode()[:3])
    assert (line.last["held"], line.last["waiting"], line.last["position"]) == (2, "", 7)


def test_an_end_token_ends_the_text_without_details_and_is_a_row_with_them():
    for details, text in ((False, "a"), (True, "ab")):
        answer.kept_vocabularies.clear()
        line = Line({"details": details}).hear([ord("a"), END, ord("b")], "eos")
        assert line.text == text
        assert (line.last["type"], line.last["position"]) == ("finished", 3)


def test_deltas_before_an_unknown_id_are_kept():
    line = Line({**PLAIN, "want": "ids"}).hear([ord("a"), NI_BEGINS, 9999, ord("b")])
    assert line.text == "a\ufffd"
    assert (line.last["type"], line.last["code"], line.last["position"]) == ("failed", 4409, 2)


def test_deltas_of_unknown_ids_go_on_by_their_bytes_with_what_is_held():
    line = Line({**PLAIN, **TAGS}).hear([*b"<think>x", NI_BEGINS])
    line.log.add_gap(2, b"\xa0</thi")
    line.hear(b"nk>y", "eos")
    assert joined(line) == {"reasoning": "x你", "content": "y"}


@pytest.mark.parametrize("details", [False, True])
def test_ids_without_a_vocabulary_are_an_error(details):
    line = Line({"details": details, "want": "ids"}, vocabulary=None).hear([1, 2])
    assert (line.last["type"], line.last["code"], line.text) == ("failed", 4409, "")
    assert "--tokenizer" in line.last["message"]


def test_a_stop_in_a_batch_of_deltas_ends_the_answer():
    line = Line({**PLAIN, "stop": ["STOP"], "includeStop": True}).hear(b"go STOP and more")
    assert (line.text, line.last["reason"]) == ("go STOP", "stop")


def test_a_vocabulary_that_the_page_insists_on_must_be_kept_here():
    with pytest.raises(VocabularyError, match="loadVocabulary"):
        answer.Answer(json.dumps({"prompt": "", "vocabulary": VOCABULARY.sha256}))
    answer.unpack_vocabulary(VOCABULARY.pack())
    line = Line({**PLAIN, "vocabulary": VOCABULARY.sha256})
    line.named = Vocabulary.from_bytes([b"x"])
    line.connect()
    line.batch()
    assert (line.last["type"], line.last["code"]) == ("failed", 4409)


# ---------------------------------------------------------------- by number


def test_an_answer_is_asked_by_its_number():
    streams.open_answer(7, json.dumps({"prompt": "hi", "id": "0123456789abcdef"}))
    assert json.loads(streams.ask_answer(7, "opened")) == {"events": []}
    ended = json.loads(streams.ask_answer(7, "give_up"))["events"]
    assert [event["type"] for event in ended] == ["failed"]
    streams.release(7)
    with pytest.raises(KeyError):
        streams.ask_answer(7, "opened")


def test_the_worker_is_told_which_python_and_which_detok_it_has():
    about = json.loads(streams.about())
    assert about["detok"] == detok_py.__version__
    assert about["python"].split()[0] == "cpython"


def test_tags_and_markers_are_told_apart_without_details_unless_the_request_says_otherwise():
    text = b"<think>a</think><tool_call>{}</tool_call>b<|im_end|>"
    for options, expected in (
        ({"details": False}, {"reasoning": "a", "tool_call": "{}", "content": "b"}),
        ({"details": True}, {"content": text.decode()}),
        ({"details": True, "reasoning": True}, {"reasoning": "a", "content": text.decode()[16:]}),
        (PLAIN, {"content": text.decode()}),
    ):
        line = Line({"want": "bytes", **options}, vocabulary=None).hear(text, "eos")
        assert joined(line) == expected, options
