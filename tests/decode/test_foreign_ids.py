"""Ids that are integers by `__index__`: numpy's, and tensors without dimensions, whose hashes
differ although their values are equal.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detok_py import ChatStream, Detokenizer, StreamEndedError, Vocabulary, VocabularyError

pytestmark = pytest.mark.unrecorded


class Scalar:
    """As a tensor without dimensions: its hash is its identity."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Unhashable(Scalar):
    """As a numpy array without dimensions."""

    __hash__ = None

    def __eq__(self, other):
        return self.value == other


TOKENS = [b"caf", b"\xc3", b"\xa9", b" x", b"<eos>"]
BYTES = Vocabulary.from_bytes(TOKENS, special_ids=[4], eos_ids=[4])
PIECES = Vocabulary.from_pieces(
    ["▁caf", "é", "<0xC3>", "<0xA9>", "<eos>"],
    {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace"}]},
    special_ids=[4],
    eos_ids=[4],
)
IDS = st.lists(st.integers(0, 4), max_size=12)
KINDS = st.sampled_from([int, Scalar, Unhashable])


@given(
    st.sampled_from([BYTES, PIECES]), st.lists(st.tuples(st.integers(0, 4), KINDS)), st.booleans()
)
def test_an_id_of_any_integer_type_gives_the_text_of_the_int(vocabulary, given_ids, spans):
    ids = [i for i, _ in given_ids]
    foreign = [kind(i) for i, kind in given_ids]
    plain = Detokenizer(vocabulary, spans=spans)
    pushed = Detokenizer(vocabulary, spans=spans)
    assert [pushed.push(i) for i in foreign] == [plain.push(i) for i in ids]
    assert Detokenizer(vocabulary, spans=spans).feed(foreign) == Detokenizer(vocabulary).feed(ids)


@given(st.lists(st.tuples(st.integers(0, 4), KINDS)), st.sampled_from([(), (3,), ((0, 1),)]))
def test_an_id_of_any_integer_type_ends_an_answer(given_ids, stop_ids):
    chats = [ChatStream(Detokenizer(BYTES), stop_ids=stop_ids) for _ in range(3)]
    ids = [i for i, _ in given_ids]
    foreign = [kind(i) for i, kind in given_ids]
    expected = "".join(delta.text for i in ids for delta in chats[0].push(i))
    assert "".join(delta.text for i in foreign for delta in chats[1].push(i)) == expected
    assert "".join(delta.text for delta in chats[2].feed(foreign)) == expected
    assert len({(chat.finish_reason, chat.stopped) for chat in chats}) == 1


def test_settings_take_ids_of_any_integer_type():
    vocabulary = Vocabulary.from_bytes(TOKENS, special_ids=[Scalar(4)], eos_ids=[Scalar(4)])
    assert vocabulary.special_ids == vocabulary.eos_ids == {4}
    assert vocabulary.token_bytes(Unhashable(3)) == b" x"
    for options in ({"eos_ids": [Scalar(3)]}, {"stop_ids": [Scalar(3)]}):
        chat = ChatStream(Detokenizer(BYTES), **options)
        chat.push(3)
        assert chat.finish_reason


def test_the_shared_tables_do_not_grow_by_a_repeated_id():
    vocabulary = Vocabulary.from_bytes(TOKENS)
    t = Detokenizer(vocabulary)
    for _ in range(100):
        t.push(Scalar(0))
        t.feed([Scalar(1), Scalar(2)])
    (tables,) = vocabulary._memo.values()
    assert set(tables.items) | set(tables.bytes_of) | set(tables.default_row.texts) == {0, 1, 2}
    assert set(vocabulary._known) == {0, 1, 2}


@pytest.mark.parametrize("wrong", [[0], "0", None, 2.5, 2.0, float("inf"), b"0", {}, 3 + 0j])
def test_what_is_no_integer_is_refused_and_changes_nothing(wrong):
    t = Detokenizer(BYTES)
    t.push(1)
    chat = ChatStream(t)
    for refused in (t.push, chat.push, lambda i: t.feed([2, i]), lambda i: chat.feed([2, i])):
        with pytest.raises(VocabularyError, match="a token id is an integer, not "):
            refused(wrong)
    assert t.held == b"\xc3"
    for setting in ("eos_ids", "special_ids"):
        with pytest.raises(VocabularyError, match="an integer"):
            Vocabulary.from_bytes(TOKENS, **{setting: [wrong]})


@pytest.mark.parametrize("vocabulary", [BYTES, PIECES])
def test_a_float_is_no_id_even_if_a_table_would_find_it(vocabulary):
    t = Detokenizer(vocabulary)
    for _ in range(2):  # the second time the ids are in the tables
        for wrong in (lambda: t.push(0.0), lambda: t.feed([0, 0.0]), lambda: t.feed([0, 4.0])):
            with pytest.raises(VocabularyError, match="an integer, not [04].0"):
                wrong()
        assert [t.push(0).strip(), t.feed([0, 4]).strip()] == ["caf", "caf"]
    assert 0 in vocabulary
    with pytest.raises(VocabularyError, match="not 0.0"):
        0.0 in vocabulary  # noqa: B015


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_are_no_list_of_ids(kind):
    t = Detokenizer(BYTES)
    t.push(1)
    data = kind(bytes([2, 3]))
    for refused in (t.feed, t.reset, lambda ids: Detokenizer(BYTES, prompt_ids=ids)):
        with pytest.raises(TypeError, match="list of token ids, not " + kind.__name__):
            refused(data)
    with pytest.raises(TypeError, match="eos_ids is a list of token ids"):
        Vocabulary.from_bytes(TOKENS, eos_ids=data)


def test_true_is_no_id_in_a_setting():
    with pytest.raises(VocabularyError, match="an integer, not True"):
        ChatStream(Detokenizer(BYTES), eos_ids=[True])
    with pytest.raises(VocabularyError, match="an integer, not True"):
        Vocabulary.from_bytes(TOKENS, eos_ids=[True])


def test_a_foreign_id_after_the_end_is_refused_as_any():
    t = Detokenizer(BYTES)
    t.flush()
    with pytest.raises(StreamEndedError):
        t.push(Scalar(0))
