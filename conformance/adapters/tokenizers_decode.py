"""Hugging Face tokenizers: `decode` of all ids so far, shown anew after each one."""

import functools
import json

import tokenizers

SYSTEM = f"tokenizers {tokenizers.__version__}, decode of all ids so far"
PURPOSE = "ids to text, of a whole text"


@functools.cache
def tokenizer_of(document):
    return tokenizers.Tokenizer.from_str(document)


class Stream:
    def __init__(self, decode):
        self.decode, self.ids = decode, []

    def push(self, ids):
        shown = self.decode(self.ids + ids)
        self.ids += ids
        return {"shown": shown}

    def flush(self):
        return {"shown": self.decode(self.ids)}


def adapter(case):
    options = case.get("options", {})
    known = {"skip_special_tokens", "byte_fallback", "added_tokens"}
    if case["input"] != "ids" or options.keys() - known or "prompt" in case:
        return None
    if options.get("byte_fallback") == "utf8":
        return None
    skip = options.get("skip_special_tokens", True)
    decode = tokenizer_of(json.dumps(case["tokenizer"])).decode
    return Stream(functools.partial(decode, skip_special_tokens=skip))
