"""Decoding equals that of Hugging Face, tiktoken and llama.cpp for every case of the test data."""

import pytest
from laws.oracle import left_out

pytestmark = pytest.mark.slow

JSON = [
    "bert_uncased", "deepseek_v3", "gemma2", "gpt2", "llama2", "llama3", "mistral_nemo", "mistral_v1", "o200k", "phi3", "qwen2_5", "qwen3",
    "t5_small", "xlmr",
]  # fmt: skip
BYTE_LEVEL = ["deepseek_v3", "gpt2", "llama3", "mistral_nemo", "o200k", "qwen2_5", "qwen3"]
TIKTOKEN = {
    "cl100k_base": "cl100k/cl100k_base.tiktoken",
    "o200k_base": "o200k/o200k_base.tiktoken",
    "o200k_harmony": "o200k/o200k_base.tiktoken",
}
# GGUF and tokenizer.json of one model.
SAME = {
    "gpt2": "ggml-vocab-gpt-2.gguf",
    "llama2": "ggml-vocab-llama-spm.gguf",
    "llama3": "ggml-vocab-llama-bpe.gguf",
    "mistral_v1": "derived-vocab.gguf",
    "phi3": "ggml-vocab-phi-3.gguf",
    "qwen2_5": "ggml-vocab-qwen2.gguf",
    "qwen3": "derived-vocab.gguf",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", JSON)
def test_decodes_as_hugging_face_does(name, load, golden):
    tokenizer = load(f"{name}/tokenizer.json")
    wrong = [
        (case["i"], skip)
        for case in golden(name, "decode")
        for key, skip in (("text", False), ("text_skip", True))
        if tokenizer.decode(case["ids"], skip_special_tokens=skip) != case[key]
    ]
    assert wrong == []


@pytest.mark.parametrize("encoding", TIKTOKEN)
def test_decodes_as_tiktoken_does(encoding, load, golden):
    tokenizer = load(TIKTOKEN[encoding], encoding)
    wrong = []
    for case in golden(f"tiktoken_{encoding}", "decode"):
        data = b"".join(map(tokenizer.vocabulary.token_bytes, case["ids"]))
        if (
            data.hex() != case["bytes_hex"]
            or tokenizer.decode(case["ids"], skip_special_tokens=False) != case["text"]
        ):
            wrong.append(case["i"])
    assert wrong == []


def streamed(tokenizer, case):
    detokenizer = tokenizer.detokenizer(skip_special_tokens=case.get("skip", False))
    return [detokenizer.push(token_id) for token_id in case["ids"]], detokenizer.flush()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_streams_as_early_as_possible(name, load, golden):
    tokenizer = load(f"{name}/tokenizer.json")
    assert [
        case["i"]
        for case in golden(name, "stream")
        if streamed(tokenizer, case) != (case["pieces"], case["flush"])
    ] == []


@pytest.mark.parametrize("encoding", TIKTOKEN)
def test_streams_ranks_as_early_as_possible(encoding, load, golden):
    tokenizer = load(TIKTOKEN[encoding], encoding)
    assert [
        case["i"]
        for case in golden(f"tiktoken_{encoding}", "stream")
        if streamed(tokenizer, case) != (case["pieces"], case["flush"])
    ] == []


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", SAME)
def test_a_gguf_has_the_tokens_of_the_tokenizer_json(name, load):
    packed = load(f"{name}/tokenizer.json").vocabulary
    vocabulary = load(f"{name}/{SAME[name]}").vocabulary
    differ = [
        token_id
        for token_id in range(min(len(packed), len(vocabulary)))
        if vocabulary.token_bytes(token_id) != packed.token_bytes(token_id)
        # A model may have more rows than tokens; the converter names the rest [PAD17] and so on.
        and not vocabulary.token_bytes(token_id).startswith(b"[PAD")
    ]
    assert differ == []


def test_tekken_has_the_tokens_of_the_tokenizer_json(load):
    ours = load("mistral_nemo/tekken_240718.json").vocabulary
    theirs = load("mistral_nemo/tokenizer.json").vocabulary
    assert len(ours) == len(theirs)
    assert ours.special_ids == theirs.special_ids
    # tekken.json has mistral-common's names of the special tokens 10 to 19, tokenizer.json older
    # ones.
    assert [
        i
        for i in range(len(ours))
        if ours.token_bytes(i) != theirs.token_bytes(i) and not 10 <= i < 20
    ] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["qwen3", "o200k", "gemma2", "xlmr"])
def test_a_packed_vocabulary_decodes_alike(name, load, golden):
    from detok_py import Detokenizer, Vocabulary

    tokenizer = load(f"{name}/tokenizer.json")
    vocabulary = Vocabulary.unpack(tokenizer.vocabulary.pack())
    for case in golden(name, "decode"):
        detokenizer = Detokenizer(vocabulary, byte_fallback="hf")
        assert detokenizer.feed(case["ids"]) + detokenizer.flush() == case["text_skip"]


def wrong_splits(tokenizer, cases, step):
    """Return the splits into prompt and answer, every `step`-th, whose answer is not the text of
    both without that of the prompt.
    """
    wrong = []
    for number, case in enumerate(cases):
        ids, text = case["ids"], case["text_skip"]
        for cut in range(number % step, len(ids) + 1, step):
            t = tokenizer.detokenizer(ids[:cut], byte_fallback="hf")
            if t.feed(ids[cut:]) + t.flush() != left_out(tokenizer.decode(ids[:cut]), text):
                wrong.append((case["i"], cut))
    return wrong


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", JSON)
def test_an_answer_is_what_hugging_face_decodes_behind_the_prompt(name, load, golden):
    assert wrong_splits(load(f"{name}/tokenizer.json"), golden(name, "decode"), 97) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", JSON)
def test_an_answer_is_what_hugging_face_decodes_behind_every_prompt(name, load, golden):
    assert wrong_splits(load(f"{name}/tokenizer.json"), golden(name, "decode"), 1) == []
