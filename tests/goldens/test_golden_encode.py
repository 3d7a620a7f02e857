"""Encoding equals that of Hugging Face, tiktoken and llama.cpp for every case of the test data."""

from unicodedata import is_normalized

import pytest

from .test_golden_decode import JSON, SAME, TIKTOKEN

pytestmark = [pytest.mark.slow, pytest.mark.slow_in_wasm]

GGUF = {
    "bert_uncased": "ggml-vocab-bert-bge.gguf",
    "deepseek_llm": "ggml-vocab-deepseek-llm.gguf",
    "gpt2": "ggml-vocab-gpt-2.gguf",
    "llama2": "ggml-vocab-llama-spm.gguf",
    "llama3": "ggml-vocab-llama-bpe.gguf",
    "phi3": "ggml-vocab-phi-3.gguf",
    "qwen2_5": "ggml-vocab-qwen2.gguf",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", JSON)
def test_encodes_as_hugging_face_does(name, load, golden):
    tokenizer = load(f"{name}/tokenizer.json")
    wrong = [
        (case["i"], special)
        for case in golden(name, "encode")
        for key, special in (("ids", False), ("ids_special", True))
        if tokenizer.encode(case["text"], add_special_tokens=special) != case[key]
    ]
    assert wrong == []


@pytest.mark.parametrize("encoding", TIKTOKEN)
def test_encodes_as_tiktoken_does(encoding, load, golden):
    tokenizer = load(TIKTOKEN[encoding], encoding)
    wrong = [
        (case["i"], special)
        for case in golden(f"tiktoken_{encoding}", "encode")
        for key, special in (("ids_ordinary", False), ("ids_allowed_special", True))
        if tokenizer.encode(case["text"], parse_special=special) != case[key]
    ]
    assert wrong == []


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", GGUF)
def test_encodes_as_llama_cpp_does(name, load, tokenizer_file):
    file = tokenizer_file(f"{name}/{GGUF[name]}")
    tokenizer = load(f"{name}/{GGUF[name]}")
    texts = (
        file.with_name(file.name + ".inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    )
    expected = [
        [int(word) for word in line.split()]
        for line in file.with_name(file.name + ".out").read_bytes().decode().split("\n")
    ]
    assert len(texts) == len(expected)
    assert [
        i
        for i, (text, ids) in enumerate(zip(texts, expected, strict=True))
        if tokenizer.encode(text) != ids
    ] == []


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", SAME)
def test_a_gguf_and_a_tokenizer_json_of_one_model_give_the_same_ids(name, load, golden):
    """Texts that need normalization or tokens named [PAD17] are left out: llama.cpp lacks both."""
    tokenizer = load(f"{name}/{SAME[name]}")
    rows = [tokenizer.vocabulary.token_bytes(i) for i in range(len(tokenizer.vocabulary))]
    padding = {i for i, row in enumerate(rows) if row.startswith(b"[PAD")}
    cases = [
        case
        for case in golden(name, "encode")
        if is_normalized("NFC", case["text"]) and padding.isdisjoint(case["ids"])
    ]
    assert len(cases) > 250
    assert [case["i"] for case in cases if tokenizer.encode(case["text"]) != case["ids"]] == []


@pytest.mark.full
def test_a_unigram_gguf_gives_the_ids_of_its_tokenizer_json_except_for_trailing_spaces(
    load, golden
):
    tokenizer = load("xlmr/ggml-vocab-nomic-bert-moe.gguf")
    space = 6
    assert tokenizer.vocabulary.token_bytes(space) == b" "
    wrong = []
    for case in golden("xlmr", "encode"):
        ids = case["ids"]
        while ids and ids[-1] == space:
            ids = ids[:-1]  # SentencePiece and llama.cpp drop trailing spaces
        if tokenizer.encode(case["text"]) != ids and tokenizer.vocabulary.special_ids.isdisjoint(
            ids
        ):
            wrong.append(case["i"])
    assert wrong == []


def test_tekken_and_the_tokenizer_json_of_one_model_give_the_same_ids(load, golden):
    tokenizer = load("mistral_nemo/tekken_240718.json")
    wrong = [
        case["i"]
        for case in golden("mistral_nemo", "encode")
        if tokenizer.encode(case["text"]) != case["ids"]
    ]
    assert wrong == []


def test_the_rank_file_and_the_tokenizer_json_of_qwen_give_the_same_ids(load, golden):
    tokenizer = load("qwen2_5/qwen.tiktoken")
    # Models after the first Qwen have their own tokens above 151645.
    cases = [case for case in golden("qwen2_5", "encode") if max(case["ids"], default=0) <= 151645]
    assert [case["i"] for case in cases if tokenizer.encode(case["text"]) != case["ids"]] == []
