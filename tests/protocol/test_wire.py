"""Messages and frames, against tests/vectors/wire.json, which other implementations can use too."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from work import lines_run

from detok_py.errors import RemoteProtocolError
from detok_py.protocol import wire

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "wire.json").read_text(encoding="utf-8")
)
IDS = st.integers(min_value=0, max_value=wire.MAX_ID)


def entries(vector):
    if "bytes" in vector:
        return bytes.fromhex(vector["bytes"])
    if "ids" in vector:
        return vector["ids"]
    if "gap" in vector:
        return vector["gap"][0], bytes.fromhex(vector["gap"][1])
    return [(i, bytes.fromhex(piece)) for i, piece in vector["tokens"]]


def pack(op, value):
    if op == wire.GAP:
        return wire.pack_gap(*value)
    return {wire.BYTES: bytes, wire.IDS: wire.pack_ids, wire.TOKENS: wire.pack_tokens}[op](value)


@pytest.mark.parametrize("vector", VECTORS["data"], ids=lambda v: v["hex"])
def test_reads_and_writes_the_data_vectors(vector):
    frame = bytes.fromhex(vector["hex"])
    assert wire.read_data(frame) == (vector["op"], entries(vector))
    assert wire.data_frame(vector["op"], pack(vector["op"], entries(vector))) == frame


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda v: v["why"])
def test_refuses_damaged_data(vector):
    with pytest.raises(RemoteProtocolError) as caught:
        wire.read_data(bytes.fromhex(vector["hex"]))
    assert caught.value.code == 4400


@pytest.mark.parametrize("vector", VECTORS["messages"], ids=lambda v: v["text"])
def test_reads_the_message_vectors(vector):
    assert wire.read_message(vector["text"]) == vector["message"]


@pytest.mark.parametrize("vector", VECTORS["refused_messages"], ids=lambda v: v["why"])
def test_refuses_what_is_not_a_plain_json_object(vector):
    with pytest.raises(RemoteProtocolError) as caught:
        wire.read_message(vector["text"])
    assert caught.value.code == 4400


def test_a_message_nested_65_deep_is_refused_before_it_is_parsed():
    def nested(depth):
        return '{"type":"x","a":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"

    assert wire.read_message(nested(64))["type"] == "x"
    for depth in (65, 3000, 60_000):
        with pytest.raises(RemoteProtocolError, match="nested deeper than 64"):
            wire.read_message(nested(depth))


@pytest.mark.unrecorded  # a recorder works too
@pytest.mark.parametrize("values", ["[" * 400_000 + "]" * 400_000, "[" + "[]," * 100_000 + "1]"])
def test_a_message_of_very_many_values_is_refused_after_little_work(values):
    def read():
        with pytest.raises(RemoteProtocolError, match="at most 65536 values"):
            wire.read_message('{"type":"x","a":' + values + "}")

    assert lines_run(read) < 10_000
    text = '{"type":"x","a":' + json.dumps(values + '\\"\\') + "}"
    assert wire.read_message(text)["a"] == values + '\\"\\'


@pytest.mark.slow
@given(st.recursive(st.text('a"\\[]{},:', max_size=6), st.lists, max_leaves=200))
def test_the_depth_of_a_text_is_that_of_its_values(value):
    def depth(value):
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    text = json.dumps(value)
    found = wire.depth(text)
    assert found == depth(value) or found == text.count("[") + text.count("{") <= wire.MAX_DEPTH


def test_brackets_inside_strings_are_not_depth():
    text = wire.message("generate", prompt='[{"\\' * 200)
    assert wire.read_message(text)["prompt"] == '[{"\\' * 200


@pytest.mark.unrecorded  # its JSON is compared as values, and MicroPython does not read this escape
def test_a_lone_surrogate_is_escaped_because_utf_8_has_none():
    assert (
        wire.message("cancel", why="\ud7ff\ud800 \ue000")
        == '{"type":"cancel","why":"\ud7ff\\ud800 \ue000"}'
    )
    text = wire.message("generate", prompt="日\ud800")
    assert json.loads(text.encode())["prompt"] == "日\ud800"


@pytest.mark.parametrize("prompt", ["canary", "canary" * 200_000 + '"}'], ids=["cut", "too long"])
def test_the_refusal_of_a_message_does_not_quote_it(prompt):
    with pytest.raises(RemoteProtocolError) as caught:
        wire.read_message('{"type":"generate","prompt":"' + prompt)
    assert "canary" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_a_number_that_does_not_fit_is_not_written(number):
    with pytest.raises(ValueError, match="does not fit"):
        wire.pack_number(number)


@given(st.lists(IDS))
def test_ids_survive_packing(ids):
    assert wire.unpack_ids(wire.pack_ids(ids)) == ids


@given(st.lists(st.tuples(IDS, st.binary(max_size=200))))
def test_tokens_survive_packing(tokens):
    assert wire.unpack_tokens(wire.pack_tokens(tokens)) == tokens


@given(
    st.lists(st.tuples(IDS, st.binary(max_size=9))), st.lists(st.tuples(IDS, st.binary(max_size=9)))
)
def test_where_frames_are_cut_has_no_meaning(before, after):
    assert wire.pack_tokens(before) + wire.pack_tokens(after) == wire.pack_tokens(before + after)
    payload = wire.pack_tokens(before + after)
    assert wire.split_at(wire.TOKENS, payload, len(before)) == len(wire.pack_tokens(before))
    ids = [i for i, _ in before + after]
    assert wire.split_at(wire.IDS, wire.pack_ids(ids), len(before)) == len(
        wire.pack_ids(ids[: len(before)])
    )


@given(st.binary(max_size=64))
def test_any_binary_frame_is_read_or_refused(frame):
    try:
        op, value = wire.read_data(frame)
    except RemoteProtocolError:
        return
    assert wire.data_frame(op, pack(op, value)) == frame


@given(st.text(max_size=200))
def test_any_text_frame_is_read_or_refused(frame):
    try:
        event = wire.read_message(frame)
    except RemoteProtocolError:
        return
    assert isinstance(event["type"], str)


def test_a_gap_is_not_split():
    payload = wire.pack_gap(3, b"abc")
    assert [wire.split_at(wire.GAP, payload, n) for n in (0, 3)] == [0, len(payload)]
    with pytest.raises(RemoteProtocolError, match="inside a 0x03 frame"):
        wire.split_at(wire.GAP, payload, 1)
