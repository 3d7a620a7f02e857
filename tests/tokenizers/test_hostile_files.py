"""Damaged and malicious files: they load or raise TokenizerFormatError, in little memory.

A damaged file may load, because a changed letter of a piece can't be detected. Its tokenizer then
works, or raises typed errors.
"""

import io
import json
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tokenizers import (
    ARRAY,
    FAMILIES,
    I32,
    STRING,
    U8,
    U32,
    U64,
    added,
    byte_level,
    gguf,
    gguf_string,
    gpt2_values,
    llama_values,
    model_file,
    rank_file,
    rwkv_file,
    sentencepiece,
    tekken,
    unigram,
)  # fmt: skip

from detok_py.errors import DetokError, TokenizerFormatError
from detok_py.tokenizers import load_tokenizer
from detok_py.tokenizers import rwkv as rwkv_reader
from detok_py.tokenizers import tekken as tekken_file
from detok_py.tokenizers.gguf import from_metadata, read_metadata
from detok_py.tokenizers.hf_json import parse
from detok_py.tokenizers.strict_json import loads, rust_float
from detok_py.tokenizers.tiktoken import ENCODINGS, from_ranks, read_ranks

TEXT = "the cat 1é😀<|end|></s>[UNK]"


def load_gguf(data: bytes):
    return from_metadata(read_metadata(io.BytesIO(data), len(data), "x.gguf"), "x.gguf")


def load_ranks(data: bytes):
    return from_ranks(read_ranks(data, "x.tiktoken"), ENCODINGS["gpt2"], "x.tiktoken")


def load_model(data: bytes):
    return load_tokenizer({"x.model": data})


def load_rwkv(data: bytes):
    return rwkv_reader.read(data, "x.txt")


READERS = {
    "json": parse,
    "gguf": load_gguf,
    "tiktoken": load_ranks,
    "tekken": tekken_file.parse,
    "model": load_model,
    "rwkv": load_rwkv,
}


def survives(read, data: bytes) -> bool:
    """Return whether a file loads; its tokenizer must raise only typed errors."""
    try:
        tokenizer = read(data)
    except TokenizerFormatError:
        return False
    try:
        size = len(tokenizer.vocabulary)
        tokenizer.decode(range(min(size, 300)), unknown="skip", skip_special_tokens=False)
        tokenizer.decode([size - 1], unknown="skip")
        tokenizer.encode(TEXT, add_special_tokens=True)
    except DetokError:
        pass
    return True


def small(document):
    """Return a tokenizer.json so small that every byte of it can be changed in turn."""
    vocab = document["model"]["vocab"]
    if isinstance(vocab, dict):
        keep = [piece for piece in vocab if len(piece) < 4 and piece.isascii() and piece.isalpha()][
            -12:
        ]
        document["model"]["vocab"] = {piece: i for i, piece in enumerate(keep)}
        document["model"]["merges"] = []
    document["added_tokens"] = document["added_tokens"][:1]
    return json.dumps(document, separators=(",", ":")).encode()


SMALL = {
    "byte_bpe": ("json", small(byte_level())),
    "sentencepiece": ("json", small(sentencepiece())),
    "unigram": ("json", small(unigram())),
    "merges": ("json", json.dumps({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}).encode()),
    "pairs": ("json", json.dumps({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}}).encode()),
    "gguf_llama": (
        "gguf",
        gguf({
            "tokenizer.ggml.model": (STRING, "llama"),
            "tokenizer.ggml.tokens": (ARRAY, (STRING, ["<unk>", "a", "<0x41>"])),
            "tokenizer.ggml.token_type": (ARRAY, (I32, [2, 1, 6])),
            "x.y": (ARRAY, (U8, [1, 2])),
            "tokenizer.ggml.eos_token_id": (U32, 1),
        }),
    ),
    "gguf_gpt2": (
        "gguf",
        gguf({
            "tokenizer.ggml.model": (STRING, "gpt2"),
            "tokenizer.ggml.pre": (STRING, "qwen2"),
            "tokenizer.ggml.tokens": (ARRAY, (STRING, ["a", "b", "ab"])),
            "tokenizer.ggml.merges": (ARRAY, (STRING, ["a b"])),
        }),
    ),
    "tiktoken": ("tiktoken", rank_file([b"a", b"b", b"ab"])),
    "unigram_model": ("model", model_file([("<unk>", 0.0, 2), ("</s>", 0.0, 3), ("▁a", -1.5, 1)], {3: 1}, {2: b"x"})),
    "bpe_model": ("model", model_file([("<unk>", 0.0, 2), ("a", -2.0, 1), ("aa", -1.5, 5), ("b", -1.5, 4)], {3: 2}, {4: 0})),
    "rwkv": ("rwkv", rwkv_file()[-90:].partition(b"\n")[2]),
    "tekken": ("tekken", json.dumps(tekken() | {"vocab": tekken()["vocab"][:3]}).encode()),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_every_truncation_is_refused_or_gives_a_smaller_tokenizer(name):
    kind, data = SMALL[name]
    assert survives(READERS[kind], data)
    loaded = [end for end in range(len(data)) if survives(READERS[kind], data[:end])]
    if kind in ("json", "tekken", "gguf"):
        assert loaded == []  # these formats mark their end
    elif kind == "model":
        assert len(loaded) <= 5  # between two fields
    else:
        assert all(data[:end][-1:] in b"0123456789\n" for end in loaded)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SMALL)
def test_every_change_of_one_byte_is_handled(name):
    kind, data = SMALL[name]
    for at in range(len(data)):
        for byte in {0x00, 0xFF, 0x22, 0x5B, 0x2C, 0x39, data[at] ^ 0x01, data[at] ^ 0x80} - {
            data[at]
        }:
            survives(READERS[kind], data[:at] + bytes([byte]) + data[at + 1 :])


@pytest.mark.parametrize("name", ["gguf_llama", "gguf_gpt2"])
def test_any_number_in_a_gguf_header_is_handled(name):
    data = SMALL[name][1]
    for at in range(4, len(data) - 8):
        for number in (0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(data)):
            survives(load_gguf, data[:at] + struct.pack("<Q", number) + data[at + 8 :])


@pytest.mark.slow
@pytest.mark.sampled(3)
@given(st.data())
@pytest.mark.parametrize("name", SMALL)
def test_random_changes_are_handled(name, data):
    kind, whole = SMALL[name]
    out = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(out)))
        end = min(len(out), at + data.draw(st.integers(0, 8)))
        out[at:end] = data.draw(
            st.binary(max_size=8)
            | st.sampled_from(
                [
                    *(b"[" * 70, b"{", b"null", b"-1", b"1e400", b'"\\ud800"', b"NaN"),
                    *(b'""', b"\xff\xff"),
                ]
            )
        )
    survives(READERS[kind], bytes(out))


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 5)
    | st.sampled_from([2**40, -(2**70), 1.5, 1e300])
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


def places(value, path=()):
    """Yield the path to every value of a document."""
    yield path
    for key, inner in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:3])
        if isinstance(value, list)
        else ()
    ):
        yield from places(inner, (*path, key))


@pytest.mark.slow
@given(st.data())
@pytest.mark.parametrize("family", FAMILIES)
def test_swapped_values_are_handled(family, data):
    document = json.loads(small(FAMILIES[family]()))
    *way, last = data.draw(st.sampled_from([path for path in places(document) if path]))
    parent = document
    for key in way:
        parent = parent[key]
    if data.draw(st.booleans()):
        parent[last] = data.draw(JSON_VALUES)
    else:
        del parent[last]
    survives(parse, json.dumps(document).encode())


# Memory
# --------------------------------------------------------------------------------------------------


def peak_of(read, data: bytes) -> int:
    """Return the peak memory of reading, in bytes, without the data itself."""
    tracemalloc.start()
    try:
        survives(read, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


BIG = 1_000_000
LARGE = {
    "deep lists": b"[" * BIG,
    "deep lists in an object": b'{"model":' + b"[" * BIG,
    "deep and closed": b'{"model":' + b"[" * (BIG // 2) + b"]" * (BIG // 2) + b"}",
    "deep objects": b'{"a":' * (BIG // 5),
    "many empty lists": b'{"model":[' + b"[]," * (BIG // 3) + b"[]]}",
    "many zeros": b'{"model":[' + b"0," * (BIG // 2) + b"0]}",
    "many nulls": b'{"model":[' + b"null," * (BIG // 5) + b"0]}",
    "one long string": b'{"model":"' + b"x" * BIG + b'"}',
    "many escapes": b'{"model":"' + b"\\u0000" * (BIG // 6) + b'"}',
    "many backslashes": b'{"model":"' + b"\\" * BIG,
    "many quotes": b'{"model":' + b'"' * BIG,
    "many merges, truncated": b'{"model":{"merges":[' + b'"a b",' * (BIG // 6),
    "many beginnings of merges": b'{"model":{' + b'"merges":["a b",' * (BIG // 16),
    "spaces": b" " * BIG,
    "a long number": b'{"model":' + b"1" * BIG + b"}",
    "a piece with a huge id": b'{"model":{"type":"BPE","vocab":{"a":4000000000},"merges":[]}}',
    "a piece with the id 1000000": b'{"model":{"type":"BPE","vocab":{"a":1000000},"merges":[]}}',
}


@pytest.mark.parametrize("name", LARGE)
def test_a_malicious_document_takes_little_memory(name):
    data = LARGE[name]
    assert peak_of(parse, data) < 4 * len(data) + 100_000


def test_counts_larger_than_the_file_allocate_nothing():
    for kind in (U8, U64, STRING):
        for count in (2**20, 2**32, 2**62):
            head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_string("tokenizer.ggml.tokens")
            assert (
                peak_of(load_gguf, head + struct.pack("<IIQ", ARRAY, kind, count) + bytes(100))
                < 100_000
            )


@pytest.mark.parametrize("values", [llama_values(), gpt2_values()], ids=["llama", "gpt2"])
def test_a_gguf_header_takes_at_most_four_times_its_size(values):
    # Large enough that Python's fixed costs do not matter.
    filler = {f"other.{i}": (STRING, "x" * 1000) for i in range(1000)}
    data = gguf({**filler, **values})
    assert peak_of(load_gguf, data) < 4 * len(data)
    assert survives(load_gguf, data)


# JSON
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [63, 64])
def test_nesting_up_to_the_limit_is_read(levels):
    data = b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"
    assert loads(data, "x") is not None


@pytest.mark.parametrize("levels", [65, 100, 5000, 100_000])
@pytest.mark.parametrize("closed", [True, False])
def test_deeper_nesting_is_refused_before_it_is_parsed(levels, closed):
    for opening, ending in ((b"[", b"]"), (b'{"a":', b"}")):
        data = opening * levels + (b"1" + ending * levels if closed else b"")
        with pytest.raises(TokenizerFormatError, match="64 levels|too many values"):
            loads(data, "x")


def test_brackets_in_strings_do_not_count_as_nesting():
    text = "[{" * 5000 + '\\"' * 100 + "]"
    assert loads(json.dumps({"a": text, "b": '"', '"': "\\"}).encode(), "x") == {
        "a": text,
        "b": '"',
        '"': "\\",
    }


def test_digits_beyond_64_bits_of_a_number_are_dropped_as_serde_json_drops_them():
    assert rust_float("0.9542609096972337495600") == 0.9542609096972338


def test_a_number_below_every_power_that_a_float_has_is_scaled_in_two_steps():
    assert [rust_float("-5e-320"), rust_float("7e-700")] == [-5e-320, 0.0]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": "\xff"}', "0xff"),
        (b'\xef\xbb\xbf{"a": 1}', "BOM"),
        (b'{"a": 1}'.decode().encode("utf-16"), "UTF-8"),
        (b'{"a": 1', "is the file complete"),
        (b'{"a": ' + b"1" * 5000 + b"}", "digits"),
        (b"", "is the file complete"),
    ],
)
def test_invalid_json_is_refused(data, says):
    with pytest.raises(TokenizerFormatError, match=says):
        loads(data, "x")


def test_no_file_of_the_json_test_suite_is_a_tokenizer(data: Path):
    files = sorted((data / "hostile" / "nst_json_testsuite").rglob("*.json"))
    assert len(files) > 300
    for file in files:
        with pytest.raises(TokenizerFormatError):
            parse(file.read_bytes(), file.name)


def test_the_json_test_suite_passes(data: Path):
    """Files named y_ parse and files named n_ are refused; others may do either."""
    wrong = []
    for file in sorted((data / "hostile" / "nst_json_testsuite").rglob("*.json")):
        try:
            loads(file.read_bytes(), file.name)
        except TokenizerFormatError:
            # RFC 8259 requires UTF-8; this one file of the suite is UTF-16.
            if file.name.startswith("y_") and file.name != "y_string_utf16.json":
                wrong.append(file.name)
        else:
            if file.name.startswith("n_"):
                wrong.append(file.name)
    assert wrong == []


# Valid JSON with invalid content
# --------------------------------------------------------------------------------------------------


def test_cyclic_merges_end():
    document = {
        "model": {
            "type": "BPE",
            "vocab": {"a": 0, "b": 1, "ab": 2, "ba": 3, "aba": 4},
            "merges": [["ab", "a"], ["a", "ba"], ["b", "a"], ["a", "b"], ["a", "b"]],
        }
    }
    assert parse(json.dumps(document).encode()).encode("abababab")


def test_duplicate_ids_are_refused_and_holes_and_empty_tables_load():
    assert not survives(parse, b'{"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}}')
    assert survives(parse, b'{"model":{"type":"BPE","vocab":{"a":0,"a":5},"merges":[]}}')
    assert survives(parse, b'{"model":{"type":"BPE","vocab":{},"merges":[]}}')
    assert survives(
        parse,
        json.dumps(
            {"model": {"type": "BPE", "vocab": {}}, "added_tokens": [added("x", 7)]}
        ).encode(),
    )


def part(key, value):
    document = json.loads(small(byte_level()))
    document[key] = value
    return json.dumps(document).encode()


FOUND = {  # by tools/fuzz_tokenizer_files.py
    "a pattern that is an object": part(
        "pre_tokenizer",
        {"type": "Split", "pattern": {"Regex": {}}, "behavior": "Isolated", "invert": False},
    ),
    "a type that is an object": part("normalizer", {"type": {"type": "NFC"}}),
    "a behaviour that is an object": part(
        "pre_tokenizer",
        {"type": "Split", "pattern": {"String": "a"}, "behavior": {}, "invert": False},
    ),
    "a behaviour of punctuation that is a list": part(
        "pre_tokenizer", {"type": "Punctuation", "behavior": []}
    ),
    "a character map that is not base64": part(
        "normalizer", {"type": "Precompiled", "precompiled_charsmap": "Ġ"}
    ),
    "a truncated character map": part(
        "normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}
    ),
    "a Replace decoder with an invalid pattern": part(
        "decoder", {"type": "Replace", "pattern": {"Regex": "("}, "content": "x"}
    ),
    "a clean-up after a Fuse": part(
        "decoder",
        {
            "type": "Sequence",
            "decoders": [{"type": "Fuse"}, {"type": "WordPiece", "prefix": "", "cleanup": True}],
        },
    ),
    "a pattern of 5000 letters": part(
        "pre_tokenizer",
        {
            "type": "Split",
            "pattern": {"Regex": "x" * 5000},
            "behavior": "Isolated",
            "invert": False,
        },
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_files_that_the_fuzzer_found_are_refused(name):
    with pytest.raises(TokenizerFormatError):
        parse(FOUND[name]).encode("a")


def test_a_tekken_file_may_have_as_many_special_tokens_as_it_says():
    special = [{"rank": n, "token_str": f"<{n}>"} for n in range(3)]
    size = {"default_vocab_size": None, "default_num_special_tokens": None}
    unsaid = json.dumps(tekken(**size) | {"special_tokens": special}).encode()
    assert tekken_file.parse(unsaid).encode("a")[-1] >= 3
    few = json.dumps(tekken(default_num_special_tokens=2) | {"special_tokens": special}).encode()
    with pytest.raises(TokenizerFormatError, match="has 3 special tokens.* allows 2"):
        tekken_file.parse(few)


def test_a_tekken_pattern_of_5000_letters_is_refused():
    with pytest.raises(TokenizerFormatError, match="2048"):
        tekken_file.parse(json.dumps(tekken(pattern="x" * 5000)).encode())


def test_half_a_surrogate_pair_in_a_special_token_is_refused():
    document = tekken()
    document["special_tokens"] = [{"rank": 0, "token_str": "\ud800"}]
    document["config"]["default_num_special_tokens"] = 1
    with pytest.raises(TokenizerFormatError, match="half a surrogate pair"):
        tekken_file.parse(json.dumps(document).encode())
    with pytest.raises(TokenizerFormatError, match="half a surrogate pair"):
        load_tokenizer(rank_file(), pattern=".", special_tokens=["\ud800"])
