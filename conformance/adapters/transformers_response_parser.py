"""transformers' ResponseParser, with the templates that its server has for models without one."""

import functools
import json

import tokenizers
import transformers
from tokenizers.decoders import DecodeStream
from transformers.cli.serving.utils import _RESPONSE_TEMPLATE_FALLBACKS as TEMPLATES
from transformers.utils.chat_parsing.response_parser import ResponseParser

SYSTEM = f"transformers {transformers.__version__}, ResponseParser"
PURPOSE = "text to the fields of a response template: a call comes when it ends"
CHANNELS = {"content": "content", "reasoning_content": "reasoning", "thinking": "reasoning"}
MODELS = {"qwen3_hermes": "qwen3", "qwen3.5": "qwen3_5", "gemma4": "gemma4"}
OPENERS = {"gemma4": "<|turn>model\n<|channel>thought\n"}
QWEN = "<|im_start|>assistant\n<think>\n"


@functools.cache
def template_of(model):
    return next(template for types, template in TEMPLATES.items() if model in types)


@functools.cache
def tokenizer_of(document):
    return tokenizers.Tokenizer.from_str(document)


class Stream:
    def __init__(self, case, model):
        options = case["options"]
        opened = options.get("start") == "reasoning"
        prefix = OPENERS.get(options["format"], QWEN) if opened else ""
        self.parser = ResponseParser(
            template_of(model), prefix=prefix, tools=options.get("tool_schemas")
        )
        self.tokenizer = tokenizer_of(json.dumps(case["tokenizer"]))
        self.decoder, self.count = DecodeStream(skip_special_tokens=False), 0

    def push(self, ids):
        text = "".join([self.decoder.step(self.tokenizer, i) or "" for i in ids])
        return self.deltas(self.parser.feed(text))

    def flush(self):
        return self.deltas(self.parser.finalize()[1])

    def deltas(self, events):
        out = []
        for event in events:
            channel = CHANNELS.get(event["field"])
            if event["type"] == "region_chunk" and channel:
                out.append({channel: event["text"]})
            elif event["type"] == "region_close" and not channel:
                call = event["value"]["function"]
                out.append(
                    {"call": self.count, "name": call["name"], "arguments": call["arguments"]}
                )
                self.count += 1
        return out


def adapter(case):
    options = case.get("options", {})
    model = MODELS.get(options.get("format"))
    return None if model is None or "policies" in options else Stream(case, model)
