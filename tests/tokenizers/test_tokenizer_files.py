"""Tokenizer files of every format: what is read, encoded, decoded and refused."""

import io
import json
import math
import pickle
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import (
    FAMILIES,
    LETTERS,
    added,
    byte_level,
    gguf,
    gpt2_values,
    llama_values,
    rank_file,
    rank_tokens,
    sentencepiece,
    spm_vocab,
    tekken,
    unigram,
    wordpiece,
    write,
)  # fmt: skip

from detok_py import ChatStream, Vocabulary
from detok_py.errors import TokenizerFormatError, VocabularyError
from detok_py.tokenizers import Tokenizer, load_tokenizer
from detok_py.tokenizers.hf_added import decoded_texts, number_added
from detok_py.tokenizers.hf_document import read_merges
from detok_py.tokenizers.hf_json import parse


def tokenizer_of(document) -> Tokenizer:
    return parse(json.dumps(document, ensure_ascii=False).encode())


BYTE_LEVEL = tokenizer_of(byte_level())
SPM = tokenizer_of(sentencepiece())
RANKS = load_tokenizer(rank_file(), "r50k_base")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_and_its_folder_are_the_same_tokenizer(family, tmp_path: Path):
    file = write(tmp_path, FAMILIES[family]())
    for path in (file, tmp_path, str(file), str(tmp_path)):
        tokenizer = load_tokenizer(path)
        assert tokenizer.family == family
        assert tokenizer.vocabulary.sha256 == load_tokenizer(file).vocabulary.sha256


@pytest.mark.parametrize("used", [False, True], ids=["", "used"])
def test_a_tokenizer_of_every_format_pickles(used, tmp_path: Path):
    files = [write(tmp_path, make(), f"{family}.json") for family, make in FAMILIES.items()]
    files.append(write(tmp_path, tekken(), "tekken.json"))
    for name, data in (("cl100k_base.tiktoken", rank_file()), ("a.gguf", gguf(llama_values()))):
        (tmp_path / name).write_bytes(data)
        files.append(tmp_path / name)
    for file in files:
        tokenizer = load_tokenizer(file)
        ids = tokenizer.encode("the cat é") if used else []
        again = pickle.loads(pickle.dumps(tokenizer))
        assert again.encode("the cat é") == (ids or tokenizer.encode("the cat é"))
        assert again.decode(ids) == tokenizer.decode(ids)
        assert (again.family, again.eos_ids) == (tokenizer.family, tokenizer.eos_ids)
        assert again.vocabulary.sha256 == tokenizer.vocabulary.sha256


def test_a_tokenizer_pickles_with_the_ends_of_text_that_its_vocabulary_does_not_have():
    model = b'{"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}'
    tokenizer = load_tokenizer({"tokenizer.json": model, "config.json": b'{"eos_token_id":[0,5]}'})
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.eos_ids == tokenizer.eos_ids == {0, 5}
    assert again.is_eos(5) and tokenizer.is_eos(5)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("as_pairs", [True, False])
def test_the_formatting_of_the_json_does_not_matter(indent, ensure_ascii, as_pairs):
    document = byte_level()
    pairs = [tuple(merge.split(" ")) for merge in document["model"]["merges"]]
    if as_pairs:
        document["model"]["merges"] = [list(pair) for pair in pairs]
    tokenizer = parse(json.dumps(document, indent=indent, ensure_ascii=ensure_ascii).encode())
    assert tokenizer.encode("the cat and é") == tokenizer_of(byte_level()).encode("the cat and é")


def test_a_piece_that_looks_like_merges_is_a_piece():
    # One piece is the beginning of the merges, another the placeholder that replaces them while the
    # rest is parsed.
    document = byte_level()
    document["model"]["vocab"] |= {
        '"merges": ["a b"]': 300,
        "\\": 301,
        '"merges"': 302,
        "merges": 303,
    }
    tokenizer = tokenizer_of(document)
    assert tokenizer.encode("the") == [document["model"]["vocab"]["the"]]
    assert tokenizer.decode([300]) == '"merges": ["a b"]'


def test_an_escaped_piece_is_unescaped():
    document = byte_level(added_tokens=[added('a"b\\', 1), added("\n\t", 2), added("€", 3)])
    tokenizer = parse(json.dumps(document, ensure_ascii=True).encode())
    first = len(document["model"]["vocab"])
    assert [tokenizer.vocabulary.token_bytes(first + i) for i in range(3)] == [
        b'a"b\\',
        b"\n\t",
        "€".encode(),
    ]


# Added tokens
# --------------------------------------------------------------------------------------------------


def test_an_added_token_has_the_id_of_its_piece_or_the_next_free_one():
    entries = [added(content) for content in ("b", "<x>", "", "<x>", "<y>")]
    assert [(entry["content"], i) for entry, i in number_added({"a": 0, "b": 1}, 2, entries)] == [
        ("b", 1),
        ("<x>", 2),
        ("<y>", 3),
    ]


def test_an_added_token_decodes_in_its_normal_form_if_one_of_its_entries_is_normalized():
    for flags in ([True, False], [True, False, False], [False, True]):
        tokens = [{**added("<X>"), "normalized": flag} for flag in flags]
        numbered = number_added({}, 0, tokens)
        assert decoded_texts(numbered, {"type": "Lowercase"}, "x") == {0: "<x>"}


def test_special_tokens_are_recognized_by_content():
    document = unigram()
    document["model"]["vocab"].append(["<pad>", -1.0])
    tokenizer = tokenizer_of(document)
    assert tokenizer.vocabulary.special_ids == {0, 1, 2, 17}


def test_an_added_token_that_is_not_special_is_not_skipped():
    tokenizer = tokenizer_of(byte_level())
    end = len(byte_level()["model"]["vocab"])
    assert tokenizer.decode([end, end + 1]) == "<think>"
    assert tokenizer.decode([end, end + 1], skip_special_tokens=False) == "<|end|><think>"


def test_a_folder_adds_the_added_tokens_of_its_other_files(tmp_path: Path):
    file = write(tmp_path, byte_level())
    size = len(load_tokenizer(file).vocabulary)
    write(tmp_path, {"<later>": size, "<last>": size + 2}, "added_tokens.json")
    write(
        tmp_path,
        {"added_tokens_decoder": {str(size + 1): added("<middle>"), "0": added("<think>")}},
        "tokenizer_config.json",
    )
    assert len(load_tokenizer(file).vocabulary) == size
    tokenizer = load_tokenizer(tmp_path)
    assert (
        tokenizer.decode([size, size + 1, size + 2], skip_special_tokens=False)
        == "<later><middle><last>"
    )
    # As in transformers, a token that tokenizer_config.json calls special is special wherever it
    # was added.
    assert tokenizer.vocabulary.special_ids == {size - 2, size - 1, size + 1}


# Bytes, file objects and mappings
# --------------------------------------------------------------------------------------------------


class Pipe(io.BytesIO):
    """A file that can be read once."""

    def seekable(self):
        return False

    def seek(self, *place):
        raise io.UnsupportedOperation

    tell = seek


FILES = {
    "tokenizer.json": json.dumps(byte_level()).encode(),
    "spm.json": json.dumps(sentencepiece()).encode(),
    "x.gguf": gguf(llama_values()),
    "tekken.json": json.dumps(tekken()).encode(),
    "gpt2.tiktoken": rank_file(),
}


@pytest.mark.parametrize("name", FILES)
def test_bytes_and_file_objects_are_the_tokenizer_of_the_file(name, tmp_path: Path):
    file, data = tmp_path / name, FILES[name]
    file.write_bytes(data)
    expected = load_tokenizer(file)
    encoding = "gpt2" if name.endswith(".tiktoken") else None
    behind = io.BytesIO(b"before" + data)
    behind.seek(6)
    for source in (
        data, bytearray(data), memoryview(data), io.BytesIO(data), Pipe(data), behind, {name: data}, {name: io.BytesIO(data)}
    ):  # fmt: skip
        if isinstance(source, dict) and name == "spm.json":
            continue  # no name by which a folder's tokenizer is known
        tokenizer = load_tokenizer(source, encoding)
        assert tokenizer.vocabulary.sha256 == expected.vocabulary.sha256
        assert tokenizer.family == expected.family
        assert tokenizer.encode("the cat 😀") == expected.encode("the cat 😀")
    with file.open("rb") as opened:
        assert load_tokenizer(opened).vocabulary.sha256 == expected.vocabulary.sha256
        assert not opened.closed


def test_a_mapping_of_files_is_read_as_their_folder(tmp_path: Path):
    files = {
        "tokenizer.json": byte_level(),
        "generation_config.json": {"eos_token_id": 5},
        "tokenizer_config.json": {"added_tokens_decoder": {"280": added("<new>", 280)}},
        "model.safetensors": {},
    }
    for name, document in files.items():
        write(tmp_path, document, name)
    contents = {name: json.dumps(document).encode() for name, document in files.items()}
    ours, expected = load_tokenizer(contents), load_tokenizer(tmp_path)
    assert ours.vocabulary.sha256 == expected.vocabulary.sha256
    assert ours.eos_ids == {5}
    assert ours.encode("<new>") == expected.encode("<new>") == [280]


def test_a_document_that_is_parsed_already_is_read_as_its_file():
    for document in (byte_level(), sentencepiece(), unigram(), tekken()):
        data = json.dumps(document).encode()
        ours, expected = load_tokenizer(document), load_tokenizer(data)
        assert ours.vocabulary.sha256 == expected.vocabulary.sha256


@pytest.mark.parametrize(
    ("source", "error", "says"),
    [
        (None, TypeError, "a path, bytes, a binary file or a mapping, not NoneType"),
        (5, TypeError, "not int"),
        (io.StringIO("{}"), TypeError, "binary mode"),
        ({"tokenizer.json": "text"}, TypeError, "not str"),
        ({}, TokenizerFormatError, "the mapping has no tokenizer.json"),
        ({"a.gguf": b"", "b.gguf": b""}, TokenizerFormatError, "found: a.gguf, b.gguf"),
        (b"", TokenizerFormatError, "begins with b''"),
        (rank_file(), TokenizerFormatError, "encoding="),
    ],
)
def test_what_is_no_tokenizer_is_refused_in_one_sentence(source, error, says):
    with pytest.raises(error, match=re.escape(says)):
        load_tokenizer(source)


# End-of-text ids
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "ends"),
    [
        ("tokenizer_config.json", {"eos_token": "<|end|>"}, {278}),
        ("tokenizer_config.json", {"eos_token": {"content": "<think>", "lstrip": False}}, {279}),
        ("tokenizer_config.json", {"eos_token": None, "other": [1, {"a": None}]}, set()),
        ("tokenizer_config.json", {"eos_token": "not in the table"}, set()),
        ("special_tokens_map.json", {"eos_token": "<|end|>"}, {278}),
        ("generation_config.json", {"eos_token_id": 5}, {5}),
        ("generation_config.json", {"eos_token_id": [5, 278]}, {5, 278}),
        ("generation_config.json", {"eos_token_id": None}, set()),
        ("generation_config.json", {"eos_token_id": [100000]}, {100000}),
        ("generation_config.json", {"eos_token_id": -1}, set()),
        ("config.json", {"eos_token_id": 7}, {7}),
        ("config.json", {"text_config": {"eos_token_id": [7, 8]}}, {7, 8}),
        ("config.json", {"eos_token_id": 9, "text_config": {"eos_token_id": 7}}, {7, 9}),
        ("config.json", {"text_config": 5}, {278}),
    ],
)
def test_other_files_of_the_folder_name_end_of_text_ids(name, content, ends, tmp_path: Path):
    file = write(tmp_path, byte_level())
    write(tmp_path, content, name)
    assert load_tokenizer(file).eos_ids == load_tokenizer(tmp_path).eos_ids == ends


def test_the_end_of_text_ids_of_all_files_are_joined(tmp_path: Path):
    write(tmp_path, byte_level())
    write(tmp_path, {"eos_token": "<|end|>"}, "tokenizer_config.json")
    write(tmp_path, {"eos_token_id": [1, 2]}, "generation_config.json")
    assert load_tokenizer(tmp_path).eos_ids == {1, 2, 278}


def test_add_eos_id_adds_an_end_of_text_id():
    tokenizer = tokenizer_of(byte_level())
    assert not tokenizer.is_eos(5)
    tokenizer.add_eos_id(5)
    assert tokenizer.is_eos(5)
    assert tokenizer.eos_ids == {5, 278}
    for wrong in (10**6, -1, True, "5", None):
        with pytest.raises(VocabularyError):
            tokenizer.add_eos_id(wrong)
    assert tokenizer.eos_ids == {5, 278}


def test_an_added_end_of_text_id_ends_an_answer_and_is_packed():
    tokenizer = tokenizer_of(byte_level())
    assert tokenizer.decode([5]) == tokenizer.vocabulary.token_bytes(5).decode()
    tokenizer.add_eos_id(5)
    chat = ChatStream(tokenizer.detokenizer())
    assert chat.push(5) == []
    assert chat.finish_reason == "eos"
    assert Vocabulary.unpack(tokenizer.vocabulary.pack()).eos_ids == {5, 278}


def test_an_end_of_text_id_of_a_file_ends_an_answer_even_beyond_the_vocabulary(tmp_path: Path):
    """A model can have more rows than its tokenizer has tokens."""
    write(tmp_path, byte_level())
    write(tmp_path, {"eos_token_id": [100000]}, "generation_config.json")
    tokenizer = load_tokenizer(tmp_path)
    chat = ChatStream(tokenizer.detokenizer())
    chat.push(100000)
    assert chat.finish_reason == "eos"
    assert Vocabulary.unpack(tokenizer.vocabulary.pack()).eos_ids == set()


def test_a_tokenizer_json_alone_has_the_end_of_text_ids_that_are_known_by_name(tmp_path: Path):
    names = ["<s>", "</s>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>"]
    document = byte_level(
        added_tokens=[added(name) for name in names] + [added("<eos>", special=False)]
    )
    tokenizer = load_tokenizer(write(tmp_path, document))
    # "<|end|>" ends a message where "<|return|>" and "<|call|>" end the answer.
    ends = {tokenizer.encode(name)[0] for name in ("</s>", "<|im_end|>", "<|return|>", "<|call|>")}
    assert tokenizer.eos_ids == ends
    assert set(tokenizer.eos_sources.values()) == {"its name"}
    # A file that names them is believed, even if it names none.
    write(tmp_path, {"eos_token_id": None}, "config.json")
    assert load_tokenizer(tmp_path).eos_ids == set()


def test_each_end_of_text_id_says_where_it_comes_from(tmp_path: Path):
    write(tmp_path, byte_level())
    write(tmp_path, {"eos_token": "<|end|>"}, "tokenizer_config.json")
    write(tmp_path, {"text_config": {"eos_token_id": [1, 278]}}, "config.json")
    tokenizer = load_tokenizer(tmp_path)
    tokenizer.add_eos_id(2)
    assert tokenizer.eos_sources == {
        278: "eos_token of tokenizer_config.json",
        1: "text_config.eos_token_id of config.json",
        2: "add_eos_id",
    }
    (tmp_path / "gpt2.tiktoken").write_bytes(rank_file())
    assert set(load_tokenizer(tmp_path / "gpt2.tiktoken").eos_sources.values()) == {"its encoding"}


def test_infinity_in_config_json_is_read_as_python_writes_it(tmp_path: Path):
    write(tmp_path, byte_level())
    write(
        tmp_path,
        {"time_step_limit": [0.0, math.inf], "x": math.nan, "eos_token_id": 3},
        "config.json",
    )
    assert "Infinity" in (tmp_path / "config.json").read_text(encoding="utf-8")
    assert load_tokenizer(tmp_path).eos_ids == {3}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("generation_config.json", {"eos_token_id": "5"}),
        ("generation_config.json", {"eos_token_id": [True]}),
        ("generation_config.json", []),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": added("a")}}),
        ("tokenizer_config.json", {"added_tokens_decoder": []}),
        ("added_tokens.json", {"a": "b"}),
    ],
)
def test_a_damaged_file_of_the_folder_is_named(name, content, tmp_path: Path):
    write(tmp_path, byte_level())
    write(tmp_path, content, name)
    with pytest.raises(TokenizerFormatError, match=re.escape(name)):
        load_tokenizer(tmp_path)


# Decoding
# --------------------------------------------------------------------------------------------------


def test_decodes_one_id_or_several():
    tokenizer = tokenizer_of(byte_level())
    assert tokenizer.decode(LETTERS.index("A")) == tokenizer.decode([LETTERS.index("A")]) == "A"


def test_a_run_of_byte_tokens_is_decoded_as_hugging_face_does_and_streamed_as_utf8():
    tokenizer = tokenizer_of(sentencepiece())
    ids = [spm_vocab().index(f"<0x{byte:02X}>") for byte in b"\xe4\xbd\xa0\xff"]
    assert tokenizer.decode(ids) == "\ufffd" * 4
    detokenizer = tokenizer.detokenizer()
    assert detokenizer.feed(ids) + detokenizer.flush() == "你\ufffd"


def test_an_unknown_id_is_an_error_unless_it_is_skipped():
    tokenizer = tokenizer_of(byte_level())
    with pytest.raises(VocabularyError, match="100000"):
        tokenizer.decode([LETTERS.index("A"), 100000])
    assert tokenizer.decode([LETTERS.index("A"), 100000, -1], unknown="skip") == "A"


def test_spaces_are_cleaned_up_only_on_request():
    tokenizer = tokenizer_of(byte_level())
    text = "do n't , said ' he ' ; it 's !"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=True) == "don't, said'he'; it's!"


# Encoding
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_add_special_tokens_follows_the_template(family):
    tokenizer = tokenizer_of(FAMILIES[family]())
    bare = tokenizer.encode("the cat")
    around = {
        "byte_bpe": ([], []),
        "sentencepiece": ([1], []),
        "unigram": ([], []),
        "wordpiece": ([2], [3]),
    }[family]
    assert tokenizer.encode("the cat", add_special_tokens=True) == [*around[0], *bare, *around[1]]


def test_parse_special_false_encodes_special_tokens_as_text():
    tokenizer = tokenizer_of(byte_level())
    assert tokenizer.encode("a<|end|>") == [LETTERS.index("a"), 278]
    ids = tokenizer.encode("a<|end|><think>", parse_special=False)
    assert 278 not in ids
    assert ids[-1] == 279  # an added token that is not special is still found
    assert tokenizer.decode(ids) == "a<|end|><think>"


@pytest.mark.parametrize(
    ("tokenizer", "space"),
    [(BYTE_LEVEL, ""), (RANKS, ""), (SPM, "▁")],
    ids=["byte level", "ranks", "sentencepiece"],
)
@given(data=st.data())
def test_ids_decode_to_the_encoded_text(tokenizer, space, data):
    characters = st.characters(exclude_categories=["Cs"], exclude_characters=space)
    text = data.draw(st.text(characters))
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


def test_bytes_and_half_surrogate_pairs_are_not_encoded():
    with pytest.raises(VocabularyError, match="half a surrogate pair at index 1"):
        BYTE_LEVEL.encode("a\ud800")
    with pytest.raises(TypeError, match="bytes"):
        BYTE_LEVEL.encode(b"a")  # type: ignore[arg-type]


def test_an_empty_text_has_no_ids():
    assert BYTE_LEVEL.encode("") == SPM.encode("") == RANKS.encode("") == []


# Refused files
# --------------------------------------------------------------------------------------------------


def with_model(**changes):
    document = byte_level()
    document["model"] |= changes
    return document


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (byte_level(decoder={"type": "Rot13"}), "Rot13"),
        (byte_level(normalizer={"type": "Rot13"}), "Rot13"),
        (byte_level(normalizer=[]), "normalizer"),
        (byte_level(decoder={"kind": "ByteLevel"}), "decoder"),
        (byte_level(pre_tokenizer={"type": "Sequence"}), "Sequence"),
        (with_model(vocab=[]), "a list"),
        (with_model(vocab={"a": -1}), "-1"),
        (with_model(vocab={"a": 1.0}), "1.0"),
        (with_model(vocab={"a": True}), "true"),
        (with_model(vocab={"a": None}), "null"),
        (with_model(vocab={"a": 2**31}), "2147483648"),
        (with_model(vocab={"a": 1, "b": 1}), "belongs to both"),
        (with_model(vocab={"a" * 70000: 1}), "70000 characters"),
        (byte_level(added_tokens={}), "added_tokens"),
        (byte_level(added_tokens=[{"id": 1}]), "added token"),
        (byte_level(added_tokens=[added("x") | {"special": 1}]), '"special"'),
        (byte_level(added_tokens=[added("x") | {"id": -1}]), "-1"),
        (byte_level(model=[]), "a list"),
        (unigram(model={"type": "Unigram", "unk_id": 0, "vocab": {}}), "an object"),
        (unigram(model={"type": "Unigram", "unk_id": 0, "vocab": [["a"]]}), "piece 0"),
        (unigram(model={"type": "Unigram", "unk_id": 0, "vocab": [["a", "b"]]}), "piece 0"),
        (unigram(model={"type": "Unigram", "unk_id": 9, "vocab": [["a", 0]]}), "unk_id is 9"),
        ([], "[]"),
        (None, "null"),
    ],
)
def test_a_fault_is_named_at_load(document, says):
    with pytest.raises(TokenizerFormatError, match=re.escape(says)):
        tokenizer_of(document)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (byte_level(pre_tokenizer={"type": "Rot13"}), "Rot13"),
        (
            byte_level(
                pre_tokenizer={
                    "type": "Sequence",
                    "pretokenizers": [{"type": "Digits"}, {"type": "Rot13"}],
                }
            ),
            "Rot13",
        ),
        (byte_level(post_processor={"type": "Rot13"}), "Rot13"),
        (
            byte_level(
                pre_tokenizer={
                    "type": "Split",
                    "pattern": {"Regex": "(a|aa)+$"},
                    "behavior": "Isolated",
                    "invert": False,
                }
            ),
            "(a|aa)+$",
        ),
        (with_model(type="WordLevel"), "WordLevel"),
        (with_model(dropout=0.1), "dropout"),
        (with_model(merges={"a": 1}), "an object"),
        (with_model(merges=["q x"]), "'qx'"),
        (with_model(merges=["ab"]), "merge 0"),
        (with_model(merges=["a b c"]), "merge 0"),
        (with_model(merges=["a b", ["a", "b"]]), "merge 0"),
        (with_model(merges=[["a"]]), "merge 0"),
        (with_model(merges=[["a", 1]]), "merge 0"),
        (with_model(merges=[1]), "merge 0"),
        (
            byte_level(normalizer={"type": "Rot13"}, added_tokens=[added("<|end|>")]),
            "Rot13",
        ),
    ],
)
def test_what_only_encoding_needs_is_named_when_a_text_is_encoded(document, says):
    tokenizer = tokenizer_of(document)
    ids = BYTE_LEVEL.encode("the cat 😀<|end|>")
    assert tokenizer.vocabulary.token_bytes(0) == BYTE_LEVEL.vocabulary.token_bytes(0)
    assert tokenizer.decode(ids) == BYTE_LEVEL.decode(ids)
    with pytest.raises(
        TokenizerFormatError, match=r"decoded, but not encoded: .*" + re.escape(says)
    ):
        tokenizer.encode("the cat")


@pytest.mark.parametrize("score", [b"1e999", b"-1e999", b"1" + b"0" * 400])
def test_an_infinite_score_is_refused(score):
    data = json.dumps(unigram()).encode().replace(b"-16.0", score)
    with pytest.raises(TokenizerFormatError, match="score"):
        parse(data)


def test_a_piece_with_half_a_surrogate_pair_is_refused():
    with pytest.raises(TokenizerFormatError, match="surrogate"):
        parse(json.dumps(byte_level(added_tokens=[added("\ud800")])).encode())
    assert (
        tokenizer_of(byte_level(added_tokens=[added("😀")])).decode(
            [278], skip_special_tokens=False
        )
        == "😀"
    )


def test_a_model_may_have_no_merges():
    assert read_merges([]) == read_merges(None) == []


@pytest.mark.parametrize("make", [unigram, byte_level, wordpiece])
def test_the_model_type_of_an_old_file_follows_from_its_keys(make):
    document = make()
    expected = tokenizer_of(document).family
    del document["model"]["type"]
    assert tokenizer_of(document).family == expected


# tiktoken and tekken
# --------------------------------------------------------------------------------------------------


def test_the_file_name_or_the_encoding_argument_names_the_encoding(tmp_path: Path):
    tokens = rank_tokens()
    (tmp_path / "cl100k_base.tiktoken").write_bytes(rank_file(tokens))
    (tmp_path / "qwen.tiktoken").write_bytes(rank_file(tokens))
    (tmp_path / "9b5ad71b").write_bytes(rank_file(tokens))
    assert load_tokenizer(tmp_path / "cl100k_base.tiktoken").eos_ids == {100257}
    assert load_tokenizer(tmp_path / "qwen.tiktoken").eos_ids == {151643, 151645}
    assert (
        load_tokenizer(tmp_path / "9b5ad71b", encoding="o200k_harmony").decode(
            [200008], skip_special_tokens=False
        )
        == "<|message|>"
    )
    assert load_tokenizer(tmp_path / "cl100k_base.tiktoken", "gpt2").eos_ids == {50256}


def test_an_unknown_encoding_is_refused_with_a_list_of_known_ones(
    tmp_path: Path,
):
    (tmp_path / "mine.tiktoken").write_bytes(rank_file())
    with pytest.raises(TokenizerFormatError, match="cl100k_base.*o200k_base"):
        load_tokenizer(tmp_path / "mine.tiktoken")
    with pytest.raises(TokenizerFormatError, match="'nope'"):
        load_tokenizer(tmp_path / "mine.tiktoken", encoding="nope")


def test_ranks_encode_and_decode_with_special_tokens(tmp_path: Path):
    (tmp_path / "r50k_base.tiktoken").write_bytes(rank_file())
    tokenizer = load_tokenizer(tmp_path / "r50k_base.tiktoken")
    assert tokenizer.family == "tiktoken"
    the = rank_tokens().index(b" the")
    assert tokenizer.encode(" the the<|endoftext|>") == [the, the, 50256]
    assert 50256 not in tokenizer.encode("<|endoftext|>", parse_special=False)
    assert tokenizer.decode([the, 50256]) == " the"
    with pytest.raises(VocabularyError, match="hole"):
        tokenizer.decode([40000])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"YQ== 0\nYg==\n", "3 words"),
        (b"YQ== 0\n!!!! 1\n", "base64"),
        (b"YQ== 0\nYg== x\n", "'x'"),
        (b"YQ== 0\nYg== -1\n", "'-1'"),
        (b"YQ== 0\nYg== 1_0\n", "1_0"),
        (b"YQ== 0\nYg== " + b"9" * 30, "is b'99999999999999999999'; expected"),
        (b"YQ== 0\nYg== 900000\n", "900000"),
        (b"YQ== 0\nYQ== 1\n", "twice"),
        (b"YQ== 0\nYg== 0\n", "twice"),
        (b"YQ== 0 Yg== 1", "4 words"),
        (b"", "0 words"),
    ],
)
def test_a_damaged_rank_file_is_refused(data, says, tmp_path: Path):
    (tmp_path / "cl100k_base.tiktoken").write_bytes(data)
    with pytest.raises(TokenizerFormatError, match=re.escape(says)):
        load_tokenizer(tmp_path / "cl100k_base.tiktoken")


def test_a_rank_file_without_all_bytes_decodes_but_cannot_encode(tmp_path: Path):
    (tmp_path / "cl100k_base.tiktoken").write_bytes(b"YQ== 0\nYg== 1\n")
    tokenizer = load_tokenizer(tmp_path / "cl100k_base.tiktoken")
    assert tokenizer.decode([0, 1]) == "ab"
    with pytest.raises(TokenizerFormatError, match="254 of the 256 bytes have no rank"):
        tokenizer.encode("a")


def test_tekken_special_tokens_have_the_first_ids(tmp_path: Path):
    tokenizer = load_tokenizer(write(tmp_path, tekken(), "tekken.json"))
    the = 24 + rank_tokens().index(b" the")
    assert tokenizer.encode(" the the") == [the, the]
    assert tokenizer.encode(" the[INST]", add_special_tokens=True) == [1, the, 3]
    assert tokenizer.decode([1, the, 2, 23]) == " the"
    assert tokenizer.decode([1, the, 23], skip_special_tokens=False) == "<s> the<SPECIAL_23>"
    assert tokenizer.eos_ids == {2}
    assert tokenizer.family == "tiktoken"


def test_tekken_files_can_list_their_special_tokens():
    document = tekken(default_num_special_tokens=3) | {
        "special_tokens": [
            {"rank": 1, "token_str": "</s>", "is_control": True},
            {"rank": 0, "token_str": "<s>"},
        ]
    }
    tokenizer = load_tokenizer(document)
    assert tokenizer.decode([0, 1, 2], skip_special_tokens=False) == "<s></s><SPECIAL_2>"
    assert tokenizer.eos_ids == {1}


@pytest.mark.parametrize(
    ("rank", "name"), [(0, 7), (0, ""), (-1, "<s>"), (3, "<s>"), (None, "<s>")]
)
def test_a_special_token_of_tekken_needs_a_name_and_a_rank(rank, name):
    document = tekken(default_num_special_tokens=3)
    document["special_tokens"] = [{"rank": rank, "token_str": name}]
    with pytest.raises(TokenizerFormatError, match="needs a token_str and a unique rank below 1"):
        load_tokenizer(document)


@pytest.mark.parametrize("change", [{"rank": 3}, {"token_bytes": 65}, {"token_bytes": None}])
def test_a_token_of_tekken_needs_its_rank_and_its_bytes(change):
    document = tekken()
    document["vocab"][2].update(change)
    with pytest.raises(TokenizerFormatError, match="entry 2 of the vocab should be .* rank 2"):
        load_tokenizer(document)


def test_tekken_ranks_beyond_the_vocabulary_size_are_ignored():
    assert len(load_tokenizer(tekken(default_vocab_size=290)).vocabulary) == 290


def test_a_tekken_vocabulary_has_at_most_a_million_tokens():
    assert load_tokenizer(tekken(default_vocab_size=1 << 20)).family == "tiktoken"
    with pytest.raises(TokenizerFormatError, match="default_vocab_size from 24 to 1048576"):
        load_tokenizer(tekken(default_vocab_size=(1 << 20) + 1))


# Detection of the format
# --------------------------------------------------------------------------------------------------


def test_the_format_follows_from_the_content_not_the_name(tmp_path: Path):
    write(tmp_path, byte_level(), "a.bin")
    write(tmp_path, tekken(), "b.json")
    (tmp_path / "c.json").write_bytes(gguf(llama_values()))
    assert load_tokenizer(tmp_path / "a.bin").family == "byte_bpe"
    assert load_tokenizer(tmp_path / "b.json").family == "tiktoken"
    assert load_tokenizer(tmp_path / "c.json").family == "sentencepiece"


@pytest.mark.parametrize("left_out", ["default_vocab_size", "token_bytes"])
def test_either_of_its_keys_tells_a_tekken_file_at_its_beginning(left_out):
    document = tekken()
    if left_out == "token_bytes":  # it comes behind what is read to tell the format
        document["config"]["note"] = "x" * 5000
    else:
        del document["config"][left_out]
    assert load_tokenizer(json.dumps(document).encode()).family == "tiktoken"


def test_a_folder_without_tokenizer_json_may_have_one_other_tokenizer_file(tmp_path: Path):
    with pytest.raises(TokenizerFormatError, match="tokenizer.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "a.gguf").write_bytes(gguf(gpt2_values()))
    assert load_tokenizer(tmp_path).family == "byte_bpe"
    (tmp_path / "b.gguf").write_bytes(gguf(gpt2_values()))
    with pytest.raises(TokenizerFormatError, match=r"a\.gguf, b\.gguf"):
        load_tokenizer(tmp_path)


def test_another_file_is_refused_and_a_missing_file_is_an_os_error(tmp_path: Path):
    (tmp_path / "x.txt").write_bytes(b"hello")
    with pytest.raises(TokenizerFormatError, match="b'hello'"):
        load_tokenizer(tmp_path / "x.txt")
    with pytest.raises(FileNotFoundError):
        load_tokenizer(tmp_path / "nothing.json")


@pytest.mark.native
def test_encoders_are_imported_at_the_first_encode(tmp_path: Path):
    import subprocess  # imported here, so that the rest of this file runs inside Pyodide

    file = write(tmp_path, byte_level(normalizer=None))
    script = f"""
import sys
from detok_py import load_tokenizer
tokenizer = load_tokenizer({str(file)!r})
tokenizer.decode([65])
encoders = {{"byte_bpe", "unigram", "wordpiece", "sentencepiece", "pretokenize", "patterns", "unicode_classes", "added"}}
before = {{name.rpartition(".")[2] for name in sys.modules if name.startswith("detok_py.tokenizers.")}} & encoders
tokenizer.encode("a")
assert not before, before
assert "detok_py.tokenizers.byte_bpe" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
