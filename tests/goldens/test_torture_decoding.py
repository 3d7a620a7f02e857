"""The cases of the torture list for bytes and ids: the exact output of each push."""

import json

import pytest

from detok_py import Detokenizer, StreamingDetokenizer, Vocabulary


@pytest.fixture(scope="module")
def torture(data):
    return json.loads((data / "torture.json").read_text())


def vocabulary(torture, name):
    """Return the pieces of one of its tokenizers, special and added ones last, and a vocabulary."""
    found = torture["tokenizers"][name]
    pieces = found["vocab"] + found["special"] + found["added"]
    special = range(len(found["vocab"]), len(found["vocab"]) + len(found["special"]))
    return pieces, Vocabulary.from_pieces(
        pieces, found["decoder"], special_ids=special, clean_up="transformers_kwargs" in found
    )


def units(case):
    """Return the bytes of each push of a case."""
    return [
        bytes(int(byte, 16) for byte in chunk)
        for chunk in case["input"]["chunks"]
        if chunk != "FLUSH"
    ]


def cases(torture, kind, *wanted):
    """Return the cases of a kind of input whose expectation has these keys."""
    return [
        c
        for c in torture["cases"]
        if c["input"].get("kind") == kind and all(key in c["expect"] for key in wanted)
    ]


def test_bytes_in_a_stream_and_in_a_byte_vocabulary(torture):
    tried = 0
    for case in cases(torture, "bytes", "pushes", "flush"):
        if "stop" in case["input"] or "FLUSH" in case["input"]["chunks"] or "open" in case["input"]:
            continue  # stops and tags have tests of their own
        pushes = units(case)
        want = case["expect"]["pushes"] + [case["expect"]["flush"]]
        stream = StreamingDetokenizer()
        assert [stream.feed(push) for push in pushes] + [stream.flush()] == want, case["id"]
        t = Detokenizer(Vocabulary.from_bytes(pushes))
        assert [t.push(i) for i in range(len(pushes))] + [t.flush()] == want, case["id"]
        tried += 1
    assert tried >= 15


def test_tokens_in_both_modes_of_byte_fallback(torture):
    tried = 0
    for case in cases(torture, "tokens", "pushes", "flush"):
        given, expect = case["input"], case["expect"]
        if "stop_id_sequences" in given or "watch_ids" in given:
            continue
        pieces, found = vocabulary(torture, given["tokenizer"])
        ids = given.get("ids") or [pieces.index(piece) for piece in given["pieces"]]
        prompt = [pieces.index(piece) for piece in given.get("prompt_pieces", [])]
        for byte_fallback, want in (("hf", expect), ("utf8", expect.get("utf8", expect))):
            settings = {
                "skip_special_tokens": given.get("skip_special_tokens", True),
                "byte_fallback": byte_fallback,
            }
            for spans in (False, True):
                t = Detokenizer(found, prompt, spans=spans, **settings)
                assert [t.push(i) for i in ids] + [t.flush()] == want["pushes"] + [want["flush"]], (
                    case["id"],
                    byte_fallback,
                )
                assert t.exact
            t = Detokenizer(found, prompt, **settings)
            assert t.feed(ids) + t.flush() == want["text"], case["id"]
            tried += 1
    assert tried >= 40


def test_spans_of_each_token(torture):
    tried = 0
    for case in torture["cases"]:
        if "spans" not in case["expect"]:
            continue
        if case["input"]["kind"] == "bytes":
            pushes = units(case)
            ids, found = range(len(pushes)), Vocabulary.from_bytes(pushes)
        else:
            pieces, found = vocabulary(torture, case["input"]["tokenizer"])
            ids = [pieces.index(piece) for piece in case["input"]["pieces"]]
        t = Detokenizer(found, spans=True)
        assert t.feed(ids) + t.flush() == case["expect"]["text"], case["id"]
        assert t.spans == [tuple(span) for span in case["expect"]["spans"]], case["id"]
        tried += 1
    assert tried >= 4


def test_rollback(torture):
    """R07, R08, R10: `mark` before each push; `rollback` to the mark before the undone push."""
    tried = 0
    for case in torture["cases"]:
        script = case["input"].get("script")
        if not script:
            continue
        if case["input"]["kind"] == "bytes":
            stream, take = StreamingDetokenizer(), bytes.fromhex
        else:
            pieces, found = vocabulary(torture, case["input"]["tokenizer"])
            pieces = [piece.replace("Ġ", " ").replace("Ċ", "\n") for piece in pieces]
            stream, take = Detokenizer(found), lambda piece, pieces=pieces: pieces.index(piece)
        marks, named, outputs = [], None, []
        for step, *argument in script:
            if step == "push":
                marks.append(stream.mark())
                given = take(argument[0])
                outputs.append(
                    stream.feed(given) if isinstance(given, bytes) else stream.push(given)
                )
            elif step == "mark":
                named = stream.mark()
                outputs.append(None)
            elif step == "rollback":
                outputs.append({"retract": stream.rollback(named)})
            elif step == "rewind":
                outputs.append({"retract": stream.rollback(marks[-argument[0]])})
        assert outputs == case["expect"]["outputs"], case["id"]
        tried += 1
    assert tried >= 3
