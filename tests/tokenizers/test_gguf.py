"""GGUF: the vocabulary is read from the header alone, and tokens are llama.cpp's pieces."""

import io
import re
import struct
from pathlib import Path

import pytest
from small_tokenizers import (
    ARRAY,
    BOOL,
    BYTE,
    CONTROL,
    F32,
    I32,
    LETTERS,
    NORMAL,
    STRING,
    U8,
    U32,
    U64,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    byte_level,
    character_map,
    gguf,
    gguf_string,
    gguf_value,
    gpt2_values,
    llama_values,
    spm_vocab,
    write,
)  # fmt: skip

from detok_py.errors import TokenizerFormatError
from detok_py.tokenizers import load_tokenizer
from detok_py.tokenizers.gguf import read_metadata


def load(values):
    return load_tokenizer({"x.gguf": gguf(values)})


class Counted(io.BytesIO):
    """A file that counts what is read of it."""

    taken = 0

    def read(self, size=-1):
        data = super().read(size)
        self.taken += len(data)
        return data


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_reads_every_type_of_value_in_either_byte_order(version, order):
    values = {
        "tokenizer.ggml.model": (STRING, "llama"),
        "tokenizer.ggml.a": (U8, 200),
        "tokenizer.ggml.b": (I32, -5),
        "tokenizer.ggml.c": (BOOL, True),
        "tokenizer.ggml.d": (F32, 1.5),
        "tokenizer.ggml.e": (U64, 1 << 40),
        "tokenizer.ggml.f": (ARRAY, (I32, [1, -2, 3])),
        "tokenizer.ggml.g": (ARRAY, (STRING, ["x", "", "yz"])),
        "other.h": (ARRAY, (STRING, ["skipped"])),
        "other.i": (ARRAY, (F32, [0.5])),
        "other.j": (STRING, "skipped"),
    }
    data = gguf(values, version=version, order=order)
    read = read_metadata(io.BytesIO(data), len(data))
    short = {key.rpartition(".")[2]: value for key, value in read.items()}
    assert list(short["g"]) == [b"x", b"", b"yz"]
    assert list(short["f"]) == [1, -2, 3]
    assert {key: short[key] for key in "abcde"} == {
        "a": 200,
        "b": -5,
        "c": True,
        "d": 1.5,
        "e": 1 << 40,
    }
    assert set(short) == set("abcdefg") | {"model"}


def test_tokens_of_a_llama_vocabulary_are_the_bytes_of_llama_cpps_pieces():
    tokenizer = load(llama_values())
    token = tokenizer.vocabulary.token_bytes
    vocab = spm_vocab()
    assert token(vocab.index("▁the")) == b" the"
    assert token(vocab.index("<0xE4>")) == b"\xe4"
    assert token(1) == b"<s>"
    assert token(len(vocab)) == b"<tool>"
    assert token(len(vocab) + 1) == b"<0x41>b"  # a token of type normal, whatever it looks like
    assert token(len(vocab) + 2) == b""  # unused tokens have no piece
    assert tokenizer.family == "sentencepiece"
    assert tokenizer.vocabulary.special_ids == {0, 1, 2}


def test_decoding_joins_pieces_so_the_leading_space_stays():
    tokenizer = load(llama_values())
    ids = [spm_vocab().index(piece) for piece in ("▁the", "▁cat", "<0xE4>", "<0xBD>", "<0xA0>")]
    assert tokenizer.decode([1, *ids, 2]) == " the cat你"
    assert tokenizer.decode([1, *ids, 2], skip_special_tokens=False) == "<s> the cat你</s>"


def test_a_bad_byte_among_byte_tokens_costs_only_itself():
    # llama.cpp emits bytes, so a run of byte tokens is a UTF-8 stream; Hugging Face would turn all
    # four into U+FFFD.
    ids = [spm_vocab().index(f"<0x{byte:02X}>") for byte in b"\xe4\xbd\xa0\xff"]
    assert load(llama_values()).decode(ids) == "你\ufffd"


def test_tokens_of_a_gpt2_vocabulary_go_through_the_byte_map_and_added_ones_do_not():
    tokenizer = load(gpt2_values(("<|end|>", "đem", "Ġraw"), (CONTROL, USER_DEFINED, USER_DEFINED)))
    token = tokenizer.vocabulary.token_bytes
    size = len(tokenizer.vocabulary)
    assert token(LETTERS.index("Ġ")) == b" "
    assert [token(size - 3), token(size - 2), token(size - 1)] == [
        b"<|end|>",
        "đem".encode(),
        "Ġraw".encode(),
    ]
    assert tokenizer.family == "byte_bpe"


def test_an_empty_token_has_the_name_that_llama_cpp_gives_it():
    assert (
        load(gpt2_values(("", ""), (CONTROL, NORMAL)))
        .vocabulary.token_bytes(len(load(gpt2_values()).vocabulary) - 1)
        .startswith(b"[EMPTY_")
    )


def test_without_types_byte_tokens_are_known_by_name():
    values = llama_values()
    del values["tokenizer.ggml.token_type"]
    tokenizer = load(values)
    assert [tokenizer.vocabulary.token_bytes(3 + byte) for byte in range(256)] == [
        bytes([byte]) for byte in range(256)
    ]
    assert tokenizer.decode([3 + byte for byte in "é🚀".encode()]) == "é🚀"
    assert tokenizer.vocabulary.token_bytes(len(spm_vocab()) + 1) == b"<0x41>b"
    values = gpt2_values(("<0x41>",), (NORMAL,))
    del values["tokenizer.ggml.token_type"]
    assert load(values).decode([len(byte_level()["model"]["vocab"])]) == "<0x41>"


@pytest.mark.parametrize("pre", [(STRING, "made-up"), (U32, 7)])
def test_an_unknown_pre_tokenizer_is_missed_only_by_encode(pre):
    tokenizer, known = load(gpt2_values(pre=pre)), load(gpt2_values())
    assert tokenizer.vocabulary.sha256 == known.vocabulary.sha256
    assert tokenizer.decode(known.encode("the cat 😀")) == "the cat 😀"
    with pytest.raises(TokenizerFormatError, match=r"not encoded: .*(made-up|7)"):
        tokenizer.encode("the")


def test_tokens_that_look_like_the_end_of_a_text_end_it_whatever_the_file_says():
    names = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "other")
    tokenizer = load(gpt2_values(names, (NORMAL,) * 5, eos_token_id=(U32, 5)))
    first = len(tokenizer.vocabulary) - 5
    assert tokenizer.eos_ids == {5, first, first + 1, first + 2, first + 3}
    assert tokenizer.vocabulary.special_ids == {first, first + 1, first + 2, first + 3}
    assert tokenizer.eos_sources[5] == '"tokenizer.ggml.eos_token_id" of x.gguf'
    assert tokenizer.eos_sources[first + 1] == "its name"


@pytest.mark.parametrize(("kind", "ends"), [(NORMAL, False), (CONTROL, True)])
def test_struck_out_text_of_a_web_page_ends_no_text(kind, ends):
    tokenizer = load(gpt2_values(("</s>", "<|end|>"), (kind, CONTROL), eos_token_id=(U32, 279)))
    assert tokenizer.is_eos(len(tokenizer.vocabulary) - 2) == ends


def test_a_message_may_end_where_an_answer_goes_on():
    names = ("<|end|>", "<|return|>", "<|call|>", "<|channel|>")
    tokenizer = load(gpt2_values(names, (CONTROL,) * 4, eos_token_id=(U32, 279)))
    end = len(tokenizer.vocabulary) - 4
    assert tokenizer.eos_ids >= {end + 1, end + 2}
    assert end not in tokenizer.eos_ids
    # Shown, so that whoever reads the channels sees where they begin and end.
    assert {end, end + 3}.isdisjoint(tokenizer.vocabulary.special_ids)


def test_of_a_large_file_only_the_header_is_read():
    data = gguf(llama_values())
    file = Counted(data + bytes(30_000_000))
    read_metadata(file, len(data) + 30_000_000)
    assert file.taken < len(data) + 600_000


@pytest.mark.native
def test_key_values_beyond_the_bound_are_not_read(monkeypatch):
    monkeypatch.setattr("detok_py.tokenizers.gguf_file.MAX_HEADER", 600)
    data = one_key("other.x", gguf_value(STRING, "x" * 500))
    assert read_metadata(io.BytesIO(data), len(data)) is not None
    data = one_key("other.x", gguf_value(STRING, "x" * 600))
    with pytest.raises(TokenizerFormatError, match="more than 600 bytes of key-values"):
        read_metadata(io.BytesIO(data), len(data))


@pytest.mark.native
def test_a_sparse_file_of_20_gigabytes_loads(tmp_path: Path):
    file = tmp_path / "large.gguf"
    with file.open("wb") as opened:
        opened.write(gguf(llama_values(), tensors=3))
        try:
            opened.truncate(20_000_000_000)
        except OSError as error:
            pytest.skip(f"this file system has no sparse files of 20 GB: {error}")
    assert len(load_tokenizer(file).vocabulary) == len(spm_vocab()) + 3


def one_key(key, value):
    """Return a file of one key, whose type and value are as given."""
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_string(key) + value


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GGUF", "4 bytes"),
        (b"GGML" + bytes(40), "b'GGML'"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "version 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 5000), "5000 keys"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "keys"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**40), "a key has"),
        (one_key("tokenizer.ggml.x", struct.pack("<I", 13)), "type 13"),
        (one_key("tokenizer.ggml.x", struct.pack("<IQ", STRING, 2**21)), "2097152 bytes"),
        (one_key("tokenizer.ggml.x", struct.pack("<IIQ", ARRAY, STRING, 2**61)), "strings"),
        (one_key("tokenizer.ggml.x", struct.pack("<IIQ", ARRAY, STRING, 1000)), "1000 strings"),
        (one_key("tokenizer.ggml.x", struct.pack("<IIQ", ARRAY, U64, 2**61)), "is it complete"),
        (one_key("other.x", struct.pack("<IIQ", ARRAY, U64, 2**61)), "is it complete"),
        (
            one_key("tokenizer.ggml.x", struct.pack("<IIQ", ARRAY, ARRAY, 1)),
            "nested arrays are not",
        ),
        (one_key("k" * 65_537, struct.pack("<I", 4)), "a key has 65537 bytes"),
        (one_key(b"\xff", struct.pack("<I", 4)), "not UTF-8"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + 2 * (gguf_string("a.b") + gguf_value(U32, 1)),
            "twice",
        ),
    ],
)
def test_a_header_that_promises_what_the_file_has_not_is_refused(data, says):
    with pytest.raises(TokenizerFormatError, match=re.escape(says)):
        read_metadata(io.BytesIO(data), len(data), "x.gguf")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"general.architecture": (STRING, "clip")}, '"tokenizer.ggml.model" is missing'),
        (llama_values(model=(U32, 3)), "expected a string"),
        (llama_values(model=(STRING, "rwkv")), "'rwkv' is not supported"),
        (llama_values(tokens=(ARRAY, (I32, [1]))), "expected an array of strings"),
        (llama_values(tokens=(ARRAY, (STRING, []))), "0 tokens"),
        (llama_values(tokens=(ARRAY, (STRING, ["x" * 5000]))), "5000 bytes"),
        (llama_values(token_type=(ARRAY, (I32, [1]))), "1 numbers"),
        (llama_values(token_type=(ARRAY, (F32, [1.0] * 300))), "type 'f'"),
        (gpt2_values(("<0xZZ>", "x"), (BYTE, CONTROL)), "of type byte"),
    ],
)
def test_a_vocabulary_that_is_not_one_is_refused_and_named(values, says):
    with pytest.raises(TokenizerFormatError, match=re.escape(says)):
        load(values)


@pytest.mark.parametrize(("token_id", "ends"), [(0, {0}), (1, {1}), (10**6, set())])
def test_ids_beyond_the_vocabulary_end_no_text(token_id, ends):
    values = gpt2_values(("x", "y"), (CONTROL, UNUSED), eos_token_id=(U32, token_id))
    assert load(values).eos_ids == ends


def test_encodes_as_llama_cpp_with_a_space_in_front_of_a_text_and_after_special_tokens():
    tokenizer = load(llama_values())
    the, cat, tool = spm_vocab().index("▁the"), spm_vocab().index("▁cat"), len(spm_vocab())
    assert tokenizer.encode("the cat") == [the, cat]
    assert tokenizer.encode("the cat", add_special_tokens=True) == [1, the, cat]
    assert tokenizer.encode("the<tool>the") == [the, tool, the]
    assert tokenizer.encode("<s>the") == [1, the]
    assert tokenizer.encode("") == []


def test_special_tokens_in_a_strangers_text_stay_text_and_user_defined_ones_do_not():
    tokenizer = load(llama_values())
    ids = tokenizer.encode("<s>the<tool>", parse_special=False)
    assert 1 not in ids
    assert ids[-1] == len(spm_vocab())
    assert tokenizer.decode(ids, skip_special_tokens=False) == " <s>the<tool>"


def test_no_space_is_put_in_front_where_the_file_says_so():
    tokenizer = load(llama_values(add_space_prefix=(BOOL, False)))
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"


@pytest.mark.sampled(7)
def test_a_gguf_and_a_tokenizer_json_of_one_model_give_the_same_ids(tmp_path: Path):
    one, other = load(gpt2_values()), load_tokenizer(write(tmp_path, byte_level()))
    for text in ("the cat and the<think>ing", "  123 \n\n é😀你", "<|end|>the", ""):
        assert one.encode(text) == other.encode(text)
        assert one.decode(one.encode(text), skip_special_tokens=False) == text


@pytest.mark.parametrize(("pre", "count"), [("gpt-2", 3), ("llama-bpe", 1)])
def test_a_word_that_is_a_token_without_merges_is_one_token_where_the_model_says_so(pre, count):
    tokenizer = load(gpt2_values(("dog",), (NORMAL,), pre=(STRING, pre)))
    assert len(tokenizer.encode("dog", add_special_tokens=False)) == count


def test_white_space_beside_phi3s_tokens_goes_with_them():
    values = {"general.name": (STRING, "Phi3"), **llama_values()}
    tokenizer = load(values)
    assert tokenizer.encode("<tool>  \n the") == [len(spm_vocab()), spm_vocab().index("▁the")]
    kept = [len(spm_vocab()), *map(spm_vocab().index, ("▁▁", "▁the"))]
    assert load(llama_values()).encode("<tool>  the") == kept


@pytest.mark.parametrize("merge", ["ab", "", "a ", " b"])
def test_a_merge_that_is_not_two_pieces_is_refused_when_something_is_encoded(merge):
    tokenizer = load(gpt2_values(merges=(ARRAY, (STRING, [merge]))))
    with pytest.raises(TokenizerFormatError, match="merge"):
        tokenizer.encode("a")


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_no_number_is_refused_when_something_is_encoded(score):
    values = llama_values()
    values["tokenizer.ggml.scores"] = (
        ARRAY,
        (F32, [score] * len(values["tokenizer.ggml.tokens"][1][1])),
    )
    with pytest.raises(TokenizerFormatError, match="score"):
        load(values).encode("a")


def test_a_text_that_needs_what_the_file_has_not_is_refused_with_the_files_name():
    values = gpt2_values()
    del values["tokenizer.ggml.merges"]
    tokenizer = load(values)
    assert tokenizer.decode([LETTERS.index("a")]) == "a"
    with pytest.raises(TokenizerFormatError, match=re.escape("x.gguf")):
        tokenizer.encode("a")


def test_a_bert_vocabulary_has_its_roles_without_being_told():
    pieces = ["[PAD]", *[f"[unused{n}]" for n in range(99)], "[UNK]", "[CLS]", "[SEP]", "▁a"]
    values = {
        "tokenizer.ggml.model": (STRING, "bert"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, pieces)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, [*[CONTROL] * 103, NORMAL])),
    }
    assert load(values).encode("a b", add_special_tokens=True) == [101, 103, 100, 102]


@pytest.mark.parametrize(
    ("pre", "said", "begins"),
    [
        ("gpt-2", None, False),
        ("gpt-2", True, True),
        ("llama-bpe", None, True),
        ("llama-bpe", False, False),
        ("gemma4", False, True),  # whatever the file says, as llama.cpp does
    ],
)
def test_a_text_begins_with_bos_as_the_file_or_its_pre_tokenizer_says(pre, said, begins):
    end = len(byte_level()["model"]["vocab"])
    flag = {} if said is None else {"add_bos_token": (BOOL, said)}
    tokenizer = load(gpt2_values(pre=(STRING, pre), bos_token_id=(U32, end), **flag))
    a = tokenizer.encode("a")
    assert tokenizer.encode("a", add_special_tokens=True) == [end] * begins + a


def t5_values(**more):
    """Return the key-values of a small "t5" vocabulary."""
    pieces = ["<unk>", "</s>", "▁", "a", "▁a"]
    values = {
        "tokenizer.ggml.model": (STRING, "t5"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, pieces)),
        "tokenizer.ggml.scores": (ARRAY, (F32, [0.0, 0.0, -2.0, -1.0, -1.0])),
        "tokenizer.ggml.token_type": (ARRAY, (I32, [UNKNOWN, CONTROL, *[NORMAL] * 3])),
        "tokenizer.ggml.unknown_token_id": (U32, 0),
    }
    return {**values, **{"tokenizer.ggml." + key: value for key, value in more.items()}}


@pytest.mark.parametrize(("asked", "ids"), [(True, [4]), (False, [3])])
def test_a_t5_vocabulary_puts_a_space_in_front_of_a_text_if_asked_to(asked, ids):
    tokenizer = load(t5_values(add_space_prefix=(BOOL, asked)))
    assert tokenizer.encode("a", add_special_tokens=False) == ids
    assert tokenizer.encode("", add_special_tokens=False) == []


def test_a_token_of_t5_that_is_not_used_has_its_score_all_the_same():
    types = (ARRAY, (I32, [UNKNOWN, CONTROL, NORMAL, NORMAL, UNUSED]))
    scores = (ARRAY, (F32, [0.0, 0.0, -2.0, -1.0, -4.0]))
    tokenizer = load(t5_values(token_type=types, scores=scores, add_space_prefix=(BOOL, True)))
    assert tokenizer.encode("a", add_special_tokens=False) == [2, 3]


def test_a_character_map_is_used_when_something_is_encoded():
    tokenizer = load(t5_values(precompiled_charsmap=(ARRAY, (U8, list(character_map({"A": "a"}))))))
    assert tokenizer.encode("A", add_special_tokens=False) == [3]


def test_a_character_map_that_is_no_array_of_bytes_is_refused_when_something_is_encoded():
    tokenizer = load(t5_values(precompiled_charsmap=(ARRAY, (I32, [1, 2]))))
    with pytest.raises(TokenizerFormatError, match="not an array of bytes"):
        tokenizer.encode("a")
