"""Captures, read and written as a page does it."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from page_rig import END, NI_BEGINS, TOKENS, VOCABULARY, Line, fill, plain
from recordings import judged, unended
from stream_samples import STREAMS

from detok_py.captures import page as captures
from detok_py.decode.vocabulary import Vocabulary
from detok_py.errors import CaptureError, VocabularyError
from detok_py.page import answer, streams


@pytest.fixture(autouse=True)
def no_vocabulary_is_known_yet():
    answer.kept_vocabularies.clear()


def texts_of(found: Any) -> list[str]:
    """Return the text of each row."""
    return [plain(row[1])[2] for row in found["rows"]]


def capture_of(text: str, **header: Any) -> str:
    """Return a capture with the bytes of a text."""
    row = [0, "b", base64.b64encode(text.encode()).decode()]
    return json.dumps({"detok": 1, **header}) + "\n" + json.dumps(row)


def saved(*rows: list[Any], **header: Any) -> str:
    """Return the file that a page saves of rows."""
    made = {"header": header, "rows": list(rows), "seconds": 0}
    return str(json.loads(captures.capture_text(json.dumps(made))))


def test_a_long_stream_comes_in_parts(monkeypatch):
    monkeypatch.setattr(captures, "MOST_ROWS", 2)
    tokens = [[n, base64.b64encode(b"%d" % n).decode()] for n in range(5)]
    body = '{"detok":1}\n' + json.dumps([0, "t", tokens])
    first, other = judged(body), judged(body)
    ids = []
    for part in (first, json.loads(captures.more_rows(first["more"]))):
        ids.append([plain(row[1])[0] for row in part["rows"]])
    last = json.loads(captures.more_rows(part["more"]))
    assert ids + [[plain(row[1])[0] for row in last["rows"]]] == [[0, 1], [2, 3], [4]]
    assert last["more"] == 0
    # A stream that is read meanwhile has parts of its own.
    rest = json.loads(captures.more_rows(other["more"]))
    assert [plain(row[1])[0] for row in rest["rows"]] == [2, 3]


def test_reasoning_and_tools_are_told_apart_if_the_header_says_so():
    text = "<think>so</think>yes<tool_call>{}</tool_call>"
    assert texts_of(judged(capture_of(text, reasoning=True, tools=True))) == ["soyes{}"]
    # Not by a value of another kind, which a file may have.
    assert texts_of(judged(capture_of(text, reasoning=["a", "b"], tools=1))) == [text]


def test_the_format_of_the_header_is_read_and_one_of_another_release_is_not():
    text = 'Hi<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    capture = judged(capture_of(text, chat_format="qwen3_hermes"))
    assert (capture["format"], texts_of(capture)) == ("qwen3_hermes", ['Hi{"a": 1}'])
    for other in ("of tomorrow", 5):
        capture = judged(capture_of(text, chat_format=other))
        assert (capture["format"], texts_of(capture)) == (None, [text])


def test_a_text_is_cut_and_read_in_the_format_of_its_vocabulary():
    vocabulary = Vocabulary.from_bytes([bytes([n]) for n in range(256)])
    vocabulary.chat_format = "qwen3_hermes"
    streams.keep_vocabulary(fill(vocabulary.pack()))
    text = "<think>a</think>b"
    answered = cut_text(text=text, cut="token", sha256=vocabulary.sha256)
    assert answered["format"] == "qwen3_hermes"
    deltas = [delta for row in answered["rows"] for delta in row[1][2]] + answered["deltas"]
    assert "".join([text for _, text in deltas]) == "ab"


def named(text: str) -> Any:
    return json.loads(captures.capture_vocabulary(fill(text.encode()), "a.file"))


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
    again = judged(text)
    assert [plain(row[1]) for row in again["rows"]] == line.rows
    assert [row[0] for row in again["rows"]] == [0.0, 0.25, 0.5, 0.75]
    assert (again["deltas"], again["seconds"]) == ([["content", "\ufffd"]], 1.5)
    assert again["header"]["engine"] == {"name": "test"}


def test_what_a_server_has_sent_apart_is_apart_in_a_capture_too():
    said = [{"reasoning_content": "hm </think>"}, {"content": "né"}, {"reasoning_content": "so"}]
    rows = judged(unended(*[{"choices": [{"delta": one}]} for one in said]))["rows"]
    again = judged(saved(*[[0, *row[1][:2], row[6], row[2]] for row in rows]))["rows"]
    assert [(row[2], row[1][2]) for row in again] == [(row[2], row[1][2]) for row in rows]
    assert [row[2] for row in again] == ["reasoning", "content", "reasoning"]


def test_a_capture_names_the_vocabulary_that_it_wants():
    text = saved(vocabulary={"sha256": VOCABULARY.sha256})
    assert named(text) == VOCABULARY.sha256
    streams.keep_vocabulary(fill(VOCABULARY.pack()))
    assert named(text) is None


def test_ids_with_their_bytes_need_no_vocabulary():
    assert texts_of(judged('{"detok":1}\n[0,"t",[[7,"5A=="],[8,"vaA="]]]\n')) == ["", "你"]


def test_ids_without_bytes_and_vocabulary_are_refused_with_the_way_out():
    with pytest.raises(VocabularyError, match="--tokenizer"):
        judged('{"detok":1}\n[0,"i",[7,8]]\n')


def test_a_file_that_is_no_capture_is_said_to_be_none():
    for text in ("", "hello", "{}", "[1,2]", "\x00\x01"):
        with pytest.raises(CaptureError):
            judged(text)
        assert named(text) is None


SMALL = Vocabulary.from_bytes([b"a", b"b", b"\xc3", b"\xa9", b"</s>"], special_ids=[4])


def test_a_dropped_tokenizer_reads_the_ids_of_a_server():
    body = (STREAMS / "vllm-completions.sse").read_bytes()
    without = judged(body)
    assert [row[1][:3] + row[6:] for row in without["rows"]] == [
        [None, "61", [["content", "a"]], [0]],
        [None, "", [], [2]],
        [None, "c3a9", [["content", "é"]], [3]],
    ]
    streams.keep_vocabulary(fill(SMALL.pack()))
    found = judged(body, sha256=SMALL.sha256)
    assert [row[1][:2] for row in found["rows"]] == [[0, "61"], [2, "c3"], [3, "a9"]]
    assert [row[1][3] for row in found["rows"]] == ["", "c3", ""]
    assert found["problems"] == []


def test_ids_that_nothing_reads_are_text_and_are_saved_until_a_tokenizer_reads_them():
    found = judged((STREAMS / "vllm-completions.sse").read_bytes())
    assert (found["fidelity"], found["header"]["engine"]["fidelity"]) == ("text", "text")
    rows = [[row[0], *row[1][:2], row[6]] for row in found["rows"]]
    text = saved(*rows, **found["header"])
    assert text.split("\n")[1:4] == ['[0,"x",["a",[0]]]', '[0,"x",["",[2]]]', '[0,"x",["é",[3]]]']
    streams.keep_vocabulary(fill(SMALL.pack()))
    again = judged(text, sha256=SMALL.sha256)
    assert [row[1][:2] + row[6:] for row in again["rows"]] == [
        [0, "61", None],
        [2, "c3", None],
        [3, "a9", None],
    ]
    assert (again["fidelity"], again["header"]["engine"]["fidelity"]) == ("ids", "ids")


def test_ids_of_which_some_are_missing_are_not_read_with_a_tokenizer():
    streams.keep_vocabulary(fill(SMALL.pack()))
    # llama-server counts three tokens, and sends the last one's id with "é".
    events = [("a", 0, 1), ("é", 3, 3), ("b", 1, 5)]
    lines = [
        {"content": text, "tokens": [id_], "tokens_predicted": total, "stop": False}
        for text, id_, total in events
    ]
    found = judged(unended(*lines), sha256=SMALL.sha256)
    assert ("".join(texts_of(found)), found["fidelity"], found["verdicts"]) == ("aéb", "text", [])


def test_times_are_those_of_the_file_or_none():
    ollama = [
        {"response": "a", "created_at": "2026-11-23T10:00:00.25Z", "done": False},
        {"response": "b", "created_at": "2026-11-23T10:00:01.5Z", "done": True},
    ]
    found = judged("\n".join([json.dumps(event) for event in ollama]))
    assert ([row[0] for row in found["rows"]], found["timed"]) == ([0.0, 1.25], True)
    assert found["header"]["source"]["times"] == "created_at"
    logged = "".join([f'23:59:59,{n}00 INFO data: {{"response":"{n}"}}\n' for n in (1, 3)])
    logged += '00:00:00,100 INFO data: {"response":"5"}\n'
    found = judged(logged)
    assert ([row[0] for row in found["rows"]], found["seconds"]) == ([0.0, 0.2, 1.0], 1.0)
    untimed = judged(logged + 'data: {"response":"6"}\n')
    assert (untimed["timed"], untimed["seconds"]) == (False, 0.0)
    assert judged(saved([0, None, "61", None], timed=False))["timed"] is False


def test_a_tokenizer_of_another_model_is_not_used_and_that_is_said():
    other = Vocabulary.from_bytes([b"x", b"y"])
    streams.keep_vocabulary(fill(other.pack()))
    found = judged((STREAMS / "vllm-completions.sse").read_bytes(), sha256=other.sha256)
    assert "".join(texts_of(found)) == "aé"
    said = "the tokenizer has no id 2, so it is not this model's: not used"
    assert found["problems"] == [[3, said]]


def test_text_that_is_not_what_its_tokens_say_is_found():
    body = """data: {"choices":[{"delta":{"content":"a\\ufffd"},"logprobs":{"content":[
data: {"token":"a","bytes":[97]},{"token":"x","bytes":[195]}]}}]}

data: {"choices":[{"delta":{"content":"!"},"logprobs":{"content":[{"token":"y","bytes":[169]}]}}]}

"""
    found = judged(body)
    assert "".join(texts_of(found)) == "aé"
    assert found["problems"] == [[1, "here the server's text differs from that of its tokens"]]
    assert [row[5] for row in found["rows"]] == ["", "", ""]


def test_a_row_has_its_channel_its_place_and_its_damage():
    rows = judged((STREAMS / "deepseek-chat-reasoning.sse").read_bytes())["rows"]
    assert [row[2] for row in rows] == ["reasoning", "reasoning", "content", "content"]
    rows = judged((STREAMS / "report-decode-each-token.sse").read_bytes())["rows"]
    assert [row[3:6] for row in rows] == [
        [1, 1, ""],
        [3, 2, "the text arrived with \\ufffd in it"],
        [5, 3, "the text arrived with \\ufffd in it"],
        [7, 4, ""],
    ]


def test_half_a_character_of_one_channel_waits_while_another_speaks():
    token = '{"choices":[{"delta":{"%s":""},"logprobs":{"content":[{"token":"","bytes":[%d]}]}}]}'
    lines = [
        '{"choices":[{"delta":{"reasoning_content":"r"},"logprobs":null}]}',
        token.replace('"%s":""', '"content":"c"') % 0xC3,
        '{"choices":[{"delta":{"reasoning_content":"s"},"logprobs":null}]}',
        token.replace('"%s":""', '"content":"d"') % 0xA9,
    ]
    assert texts_of(judged("\n".join(lines))) == ["r", "", "s", "é"]


def cut_text(**asked: Any) -> Any:
    return json.loads(captures.cut_rows(json.dumps({"text": "né", "cut": "byte", **asked})))


def test_a_text_is_cut_into_bytes_at_a_pace():
    cut = cut_text(pace=4)
    assert [row[0] for row in cut["rows"]] == [0.0, 0.25, 0.5]
    assert texts_of(cut) == ["n", "", "é"]
    assert (cut["end"], cut["seconds"]) == ({"type": "finished", "reason": "eos"}, 0.5)


def test_a_text_is_cut_into_the_tokens_of_a_kept_vocabulary():
    streams.keep_vocabulary(fill(VOCABULARY.pack()))
    own = {"text": "你好!", "cut": "token", "sha256": VOCABULARY.sha256}
    assert [row[1][0] for row in cut_text(**own)["rows"]] == [257, 259]
    parts = list("你".encode())
    assert [row[1][0] for row in cut_text(**own, ids=[*parts, 259])["rows"]] == [*parts, 259]


def test_a_stop_string_ends_a_text_and_is_not_shown():
    cut = cut_text(text="one STOP two", stop=["STOP"])
    assert "".join(texts_of(cut)) == "one "
    assert cut["end"] == {"type": "finished", "reason": "stop"}


@pytest.mark.parametrize(
    ("faults", "said", "end"),
    [
        ({"end": 2}, "n\ufffd", {"type": "finished", "reason": "stop"}),
        ({"crash": 1}, "n", {"type": "error", "code": "engine_crashed"}),
        ({"invalid": 1}, "\ufffdn\ufffd\ufffd\ufffd\ufffd", {"type": "finished", "reason": "eos"}),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else None,
)
def test_faults_are_those_of_the_scripted_engine(faults, said, end):
    cut = cut_text(faults=faults)
    assert "".join(texts_of(cut) + [text for _, text in cut["deltas"]]) == said
    assert {name: cut["end"][name] for name in end} == end


def test_a_stall_makes_what_follows_late():
    assert [row[0] for row in cut_text(pace=2, faults={"stall": [1, 3]})["rows"]] == [0.0, 3.5, 4.0]


def test_modules_that_come_on_demand_bring_their_functions(monkeypatch, tmp_path):
    import build_on_demand

    monkeypatch.setattr(streams.detok_py, "__path__", str(tmp_path))
    for name in captures.__all__:
        monkeypatch.setattr(streams, name, None, raising=False)
    assert streams.extend(fill(build_on_demand.bundle())) == "null"
    assert sorted(path.name for path in (tmp_path / "captures").iterdir()) == sorted(
        path.name for path in Path(captures.__file__).parent.glob("*.*")
    )
    assert streams.capture_rows is captures.capture_rows
