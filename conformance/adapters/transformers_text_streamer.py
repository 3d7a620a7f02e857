"""transformers, TextStreamer."""

import functools
import json

import numpy
import tokenizers
import transformers

SYSTEM = f"transformers {transformers.__version__}, TextStreamer"
PURPOSE = "prints an answer to a terminal, a word at a time"


@functools.cache
def tokenizer_of(document):
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(document)
    )


class Stream(transformers.TextStreamer):
    def on_finalized_text(self, text, stream_end=False):
        self.new = text

    def push(self, ids):
        self.new = ""
        self.put(numpy.array(ids, dtype=numpy.int64))
        return self.new

    def flush(self):
        self.end()
        return self.new


def adapter(case):
    options = dict(case.get("options", {}))
    known = {"skip_special_tokens", "byte_fallback", "clean_up_tokenization_spaces", "added_tokens"}
    if case["input"] != "ids" or options.keys() - known or "prompt" in case:
        return None  # a prompt is skipped there, and has no effect on what follows
    options.pop("added_tokens", None)
    if options.pop("byte_fallback", "hf") == "utf8":
        return None
    options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False, **options}
    tokenizer = tokenizer_of(json.dumps(case["tokenizer"]))
    return Stream(tokenizer, **options)
