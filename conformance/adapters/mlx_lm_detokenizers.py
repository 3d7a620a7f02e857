"""mlx-lm's three streaming detokenizers."""

import functools
import importlib.metadata
import json

import mlx_lm.tokenizer_utils as mlx
import tokenizers
import transformers

VERSION = importlib.metadata.version("mlx-lm")


@functools.cache
def tokenizer_of(document):
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(document)
    )


class Stream:
    def __init__(self, detokenizer):
        self.detokenizer, self.reset = detokenizer, detokenizer.reset
        self.reset()

    def push(self, ids):
        text = ""
        for i in ids:
            self.detokenizer.add_token(i)
            text += self.detokenizer.last_segment
        return text

    def flush(self):
        self.detokenizer.finalize()
        return self.detokenizer.last_segment


def claims(case, vocabularies, byte_fallback):
    # They show special tokens: mlx-lm ends an answer before one comes.
    options = case.get("options", {})
    special = {t["id"] for t in case.get("tokenizer", {}).get("added_tokens", ()) if t["special"]}
    used = {i for step in case["steps"] for i in step.get("in", ()) if isinstance(i, int)}
    return (
        case["input"] == "ids"
        and not options.keys() - {"skip_special_tokens", "byte_fallback"}
        and "prompt" not in case
        and (vocabularies is None or case["vocabulary"] in vocabularies)
        and options.get("byte_fallback", byte_fallback) == byte_fallback
        and not (special & used and options.get("skip_special_tokens", True))
    )


def bpe(case):
    if not claims(case, ("byte-level",), "utf8"):
        return None
    return Stream(mlx.BPEStreamingDetokenizer(tokenizer_of(json.dumps(case["tokenizer"]))))


def spm(case):
    if not claims(case, ("sentencepiece", "sentencepiece, no strip"), "utf8"):
        return None
    trim = case["vocabulary"] == "sentencepiece"
    tokenizer = tokenizer_of(json.dumps(case["tokenizer"]))
    return Stream(mlx.SPMStreamingDetokenizer(tokenizer, trim_space=trim))


def naive(case):
    options = {k: v for k, v in case.get("options", {}).items() if k != "added_tokens"}
    if not claims({**case, "options": options}, None, "hf"):
        return None
    return Stream(mlx.NaiveStreamingDetokenizer(tokenizer_of(json.dumps(case["tokenizer"]))))


bpe.SYSTEM = f"mlx-lm {VERSION}, BPEStreamingDetokenizer"
bpe.PURPOSE = "ids of byte-level vocabularies to text, in linear time, without the first space"
spm.SYSTEM = f"mlx-lm {VERSION}, SPMStreamingDetokenizer"
spm.PURPOSE = "ids of SentencePiece vocabularies to text, in linear time"
naive.SYSTEM = f"mlx-lm {VERSION}, NaiveStreamingDetokenizer"
naive.PURPOSE = "ids of any tokenizer to text"
