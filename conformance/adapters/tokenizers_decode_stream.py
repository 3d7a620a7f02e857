"""Hugging Face tokenizers, DecodeStream."""

import functools
import json

import tokenizers
from tokenizers.decoders import DecodeStream

SYSTEM = f"tokenizers {tokenizers.__version__}, DecodeStream"
PURPOSE = "ids to text as they come, with any decoder of tokenizer.json; it has no end of a stream"


@functools.cache
def tokenizer_of(document):
    return tokenizers.Tokenizer.from_str(document)


class Stream:
    def __init__(self, tokenizer, prompt, skip):
        self.tokenizer = tokenizer
        self.stream = DecodeStream(ids=prompt or None, skip_special_tokens=skip)

    def push(self, ids):
        return self.stream.step(self.tokenizer, ids) if ids else ""

    def flush(self):
        return ""


def adapter(case):
    options = case.get("options", {})
    known = {"skip_special_tokens", "byte_fallback", "added_tokens"}
    if case["input"] != "ids" or options.keys() - known or options.get("byte_fallback") == "utf8":
        return None
    tokenizer = tokenizer_of(json.dumps(case["tokenizer"]))
    return Stream(tokenizer, case.get("prompt", []), options.get("skip_special_tokens", True))
