"""The table id → bytes, and its packed file: exact, deterministic, and refused when damaged."""

import copy
import json
import pickle
from binascii import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_detokenizer import LLAMA

from detok_py import (
    ByteVocabulary,
    Detokenizer,
    DetokError,
    TokenizerFormatError,
    Vocabulary,
    VocabularyError,
)
from detok_py.decode.chain import Chain
from detok_py.decode.packed import BLOCK, MAGIC, MAX_TOKENS, places
from detok_py.decode.table import MAX_TABLES, kept


def small() -> Vocabulary:
    return Vocabulary.from_bytes(
        [b"a", b"\xc3", b"\xa9", None, b"x" * 300, b"", b"<eos>"], special_ids=[6], eos_ids=[6]
    )


def test_an_id_gives_its_bytes():
    v = small()
    assert [v.token_bytes(i) for i in (0, 1, 5)] == [b"a", b"\xc3", b""]
    assert len(v) == 7
    assert v.special_ids == v.eos_ids == {6}


@pytest.mark.parametrize("wrong", [-1, 7, 10**30, 3])
def test_an_id_that_is_not_there_is_named_with_the_ids_that_are(wrong):
    with pytest.raises(
        VocabularyError, match=rf"id {wrong} is .* this vocabulary, whose ids are 0..6"
    ):
        small().token_bytes(wrong)


def test_literal_ids_are_text_as_it_stands():
    v = Vocabulary.from_pieces(["Ġa", "<é>"], {"type": "ByteLevel"}, literal_ids=[1])
    assert [v.token_bytes(i) for i in (0, 1)] == [b" a", "<é>".encode()]
    v = Vocabulary.from_pieces(["▁a", "▁<0x41>", "<0x41>"], LLAMA, literal_ids=[1])
    t = Detokenizer(v)
    assert t.feed([1, 0, 2]) + t.flush() == "▁<0x41> aA"


def test_the_bytes_of_a_piece_are_what_it_adds_to_a_text_that_has_begun():
    v = Vocabulary.from_pieces(["▁Hello", "<0xE4>", "▁", "<s>"], LLAMA)
    assert [v.token_bytes(i) for i in range(4)] == [b" Hello", b"\xe4", b" ", b"<s>"]
    v = Vocabulary.from_pieces(
        ["play", "##ing"], {"type": "WordPiece", "prefix": "##", "cleanup": False}
    )
    assert [v.token_bytes(i) for i in range(2)] == [b" play", b"ing"]


def test_the_bytes_of_a_piece_are_its_own_where_rules_need_the_whole_text():
    fuse, level = {"type": "Fuse"}, {"type": "ByteLevel"}
    v = Vocabulary.from_pieces(["a", "b"], {"type": "Sequence", "decoders": [fuse, level]})
    assert v.token_bytes(1) == b"b"


@pytest.mark.native  # the wheel for browsers shortens private names
def test_the_bytes_of_a_piece_are_its_own_in_each_thread(monkeypatch):
    strip = {"type": "Strip", "content": "x", "start": 0, "stop": 1}
    rules = {"type": "Sequence", "decoders": [LLAMA["decoders"][0], {"type": "Fuse"}, strip]}
    v = Vocabulary.from_pieces(["▁a", "▁b"], rules)
    push, seen = Chain.push, []

    def interrupted(self, item):
        if not seen:
            seen.append(b"")
            seen[0] = v.token_bytes(1)
        return push(self, item)

    monkeypatch.setattr(Chain, "push", interrupted)
    assert (v.token_bytes(0), seen) == (b" a", [b" b"])


def test_bytes_and_pieces_are_not_confused():
    with pytest.raises(VocabularyError, match="from_pieces takes str"):
        Vocabulary.from_bytes([b"a", "b"])


def test_packing_keeps_everything_and_is_deterministic():
    v = small()
    again = Vocabulary.unpack(v.pack())
    assert again.pack() == v.pack() == small().pack()
    assert again.sha256 == v.sha256
    assert len(v.sha256) == 64
    assert Vocabulary.unpack(v.pack(), sha256="known").sha256 == "known"  # not computed
    assert [again.token_bytes(i) for i in range(7) if i != 3] == [
        v.token_bytes(i) for i in range(7) if i != 3
    ]
    assert (again.special_ids, again.eos_ids, len(again)) == (v.special_ids, v.eos_ids, 7)
    with pytest.raises(VocabularyError, match="a hole"):
        again.token_bytes(3)


def test_a_packed_file_has_its_lengths_and_bytes_where_its_header_says():
    tokens = [b"a" * (n % 7) for n in range(2 * BLOCK + 1)]
    data = Vocabulary.from_bytes(tokens).pack()
    (lengths_at, blob_at, _), _ = places(data)
    assert list(data[lengths_at:blob_at]) == [len(token) for token in tokens]
    assert data[blob_at:-4] == b"".join(tokens)


def test_packing_keeps_the_decoder_rules():
    v = Vocabulary.from_pieces(["▁Hello", "<0xC3>", "<0xA9>", "<0x21>"], LLAMA, literal_ids=[3])
    t = Detokenizer(Vocabulary.unpack(v.pack()))
    assert t.feed([0, 1, 2, 3]) + t.flush() == "Helloé<0x21>"


def test_a_vocabulary_keeps_tables_for_several_settings():
    vocabulary = Vocabulary.from_bytes([b"a"])
    tables = [kept(vocabulary, "tables", setting, list) for setting in range(MAX_TABLES)]
    assert kept(vocabulary, "tables", 0, list) is tables[0]
    kept(vocabulary, "tables", MAX_TABLES, list)  # one too many: all are made again
    assert kept(vocabulary, "tables", 0, list) is not tables[0]


@pytest.mark.parametrize("made_again", [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy])
def test_ends_of_text_beyond_the_vocabulary_stay_in_a_copy(made_again):
    vocabulary = small().with_eos_ids([1, 500])
    again = made_again(vocabulary)
    assert (again, again.eos_ids) == (vocabulary, {1, 500})
    assert made_again(Detokenizer(vocabulary)).vocabulary.eos_ids == {1, 500}


@given(
    st.lists(
        st.one_of(st.none(), st.binary(max_size=6), st.binary(min_size=254, max_size=258)),
        max_size=140,
    )
)
def test_any_tokens_come_back(tokens):
    again = Vocabulary.unpack(Vocabulary.from_bytes(tokens).pack())
    for i, token in enumerate(tokens):
        if token is None:
            with pytest.raises(VocabularyError):
                again.token_bytes(i)
        else:
            assert again.token_bytes(i) == token


def test_every_truncation_is_refused():
    packed = small().pack()
    for end in range(len(packed)):
        with pytest.raises(VocabularyError):
            Vocabulary.unpack(packed[:end])


def with_checksum(packed):
    """Return a packed file whose checksum is mended: what a hostile one would bring."""
    return packed[:-4] + crc32(packed[:-4]).to_bytes(4, "little")


@given(st.data())
def test_one_changed_byte_is_noticed(data):
    packed = bytearray(small().pack())
    packed[data.draw(st.integers(6, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(VocabularyError):
        Vocabulary.unpack(bytes(packed))


def test_a_damaged_file_is_said_to_be_damaged():
    with pytest.raises(VocabularyError, match="its 433 bytes don't have the checksum"):
        Vocabulary.unpack(small().pack()[:-1] + b"?")


def test_a_packed_file_of_version_1_has_no_checksum_and_is_read():
    packed = small().pack()
    old = b"detok\x01" + packed[6:-4]
    v = Vocabulary.unpack(old)
    assert [v.token_bytes(i) for i in (0, 4)] == [small().token_bytes(i) for i in (0, 4)]
    assert v.pack() == old
    with pytest.raises(VocabularyError):
        Vocabulary.unpack(b"detok\x01" + packed[6:])


def changed(data, first, last):
    """Return a packed file with one byte changed between two offsets, and its checksum mended."""
    packed = bytearray(small().pack())
    packed[data.draw(st.integers(first, last - 1))] = data.draw(st.integers(0, 255))
    return with_checksum(bytes(packed))


def typed_error_or_vocabulary(packed):
    try:
        v = Vocabulary.unpack(packed)
    except VocabularyError:
        return
    for i in range(len(v)):
        try:
            v.token_bytes(i)
        except VocabularyError:
            pass


def head_end():
    return 10 + int.from_bytes(small().pack()[6:10], "little")


@given(st.data())
def test_a_wrong_byte_after_the_header_gives_a_typed_error_or_a_vocabulary(data):
    typed_error_or_vocabulary(changed(data, head_end(), len(small().pack()) - 4))


@pytest.mark.parametrize("longest", [40, 255, 300])
def test_no_start_and_no_length_is_wrong_where_the_checksum_is_right(longest):
    packed = Vocabulary.from_bytes([b"x" * (n % longest) for n in range(300)]).pack()
    lengths = 10 + int.from_bytes(packed[6:10], "little")
    for at in range(lengths, lengths + 4 * 5 + 300, 3):
        wrong = packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :]
        with pytest.raises(VocabularyError, match="damaged"):
            Vocabulary.unpack(with_checksum(wrong))


def test_the_length_of_a_long_token_may_be_any_number_in_a_hostile_header():
    packed = Vocabulary.from_bytes([b"x" * 256] * 70).pack()
    wrong = packed.replace(b'"3":256', b'"3":' + b"9" * 3)
    with pytest.raises(VocabularyError, match="damaged"):
        Vocabulary.unpack(with_checksum(wrong))
    for key, n in ((b"0", b"9" * 40), (b"00", b"255"), ("²".encode(), b"255"), (b" 0", b"255")):
        head = b'{"long":{"%s":%s},"size":1}' % (key, n)
        body = MAGIC + len(head).to_bytes(4, "little") + head + bytes(4) + b"\xff" + bytes(4)
        with pytest.raises(VocabularyError, match="damaged"):
            Vocabulary.unpack(with_checksum(body))


# MicroPython's reader of JSON takes some headers that CPython's refuses: not compared.
@pytest.mark.unrecorded
@given(st.data())
def test_a_wrong_byte_in_the_header_gives_a_typed_error_or_a_vocabulary(data):
    typed_error_or_vocabulary(changed(data, 0, head_end()))


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ('{"size": -1}', "can't be read"),
        ('{"size": 1e9}', "can't be read"),
        ('{"size": "7"}', "can't be read"),
        ("[]", "can't be read"),
        ("{", "can't be read"),
        (f'{{"size": {MAX_TOKENS + 1}}}', "can't be read"),
        ("[" * 100_000, "can't be read"),
        ('{"a":"' + "]" * 900 + '","b":' + "[" * 900 + "]" * 900 + "}", "can't be read"),
        ('{"a":"\\\\\\"' + "]" * 900 + '","b":' + "[" * 900 + "]" * 900 + "}", "can't be read"),
        ('{"size":1,"special":[[0,9]]}', "damaged"),
        ('{"size":1,"special":[[0,0],[0,0]]}', "damaged"),
        ('{"size":2,"special":[[1,1],[0,0]]}', "damaged"),
        ('{"size":1,"special":[[-1,0]]}', r"ids in 0\.\.0"),
        ('{"size":1,"long":[]}', "damaged"),
        ('{"size":1,"long":{"0":255}}', "damaged"),
    ],
)
def test_a_header_that_is_not_sound_is_refused(header, words):
    head = header.encode()
    body = MAGIC + len(head).to_bytes(4, "little") + head + b"\0" * 64
    with pytest.raises(VocabularyError, match=words):
        Vocabulary.unpack(with_checksum(body))


def test_a_file_of_another_kind_says_what_was_expected():
    with pytest.raises(VocabularyError, match="detok pack"):
        Vocabulary.unpack(b"GGUF\x03\0\0\0" + b"\0" * 40)


def test_rules_that_a_later_version_may_know_are_refused_by_name():
    v = Vocabulary.from_bytes([b"a"])
    packed = v.pack().replace(b'{"type":"Bytes"}', b'{"type":"Rot13"}')
    with pytest.raises(VocabularyError, match="Rot13"):
        Vocabulary.unpack(with_checksum(packed))


def test_the_byte_vocabulary_is_silent_about_ids_that_are_not_bytes():
    v = ByteVocabulary()
    t = Detokenizer(v)
    assert [t.push(i) for i in (0xE4, 50_000, 0xBD, -1, 0xA0)] == ["", "", "", "", "你"]
    assert len(v) == 256
    again = Vocabulary.unpack(v.pack())
    assert Detokenizer(again).feed([0x41, 999]) == "A"


def test_every_error_is_a_detok_error():
    assert issubclass(VocabularyError, DetokError)
    assert issubclass(TokenizerFormatError, DetokError)


def test_the_header_is_readable_json():
    packed = small().pack()
    header = json.loads(packed[10 : 10 + int.from_bytes(packed[6:10], "little")])
    assert header == {
        "eos": [[6, 6]],
        "holes": [[3, 3]],
        "long": {"4": 300},
        "rules": {"type": "Bytes"},
        "size": 7,
        "special": [[6, 6]],
    }


def test_a_special_id_beyond_the_vocabulary_is_refused_with_the_ids_that_it_has():
    with pytest.raises(VocabularyError, match=r"special id 3 is not .* whose ids are 0\.\.1$"):
        Vocabulary.from_bytes([b"a", b"b"], special_ids=[3])
