"""SGLang's parsers of reasoning and tool calls, as its server composes them.

They import its engine, which needs triton, and IPython; what they do needs neither.
"""

import importlib
import importlib.metadata
import json
import sys
from unittest.mock import MagicMock

import tokenizers
from tokenizers.decoders import DecodeStream

for name in ("triton", "triton.language", "IPython", "IPython.display"):
    sys.modules[name] = MagicMock(__spec__=None)
protocol = importlib.import_module("sglang.srt.entrypoints.openai.protocol")
function_calls = importlib.import_module("sglang.srt.function_call.function_call_parser")
reasoning_parser = importlib.import_module("sglang.srt.parser.reasoning_parser")

SYSTEM = f"SGLang {importlib.metadata.version('sglang')}, parsers"
PURPOSE = "text to reasoning, content and tool calls, in its server"
# The parsers of tool calls and of reasoning for each format, as the server's options name them.
PARSERS = {
    "apertus": ("apertus2509", "apertus2509"),
    "deepseek_v3_r1": ("deepseekv3", "deepseek-r1"),
    "deepseek_v3.1": ("deepseekv31", "deepseek-v3"),
    "deepseek_v3.2": ("deepseekv32", "deepseek-v3"),
    "deepseek_v4": ("deepseekv4", "deepseek-v4"),
    "gemma4": ("gemma4", "gemma4"),
    "glm4.5": ("glm45", "glm45"),
    "glm4.7": ("glm47", "glm45"),
    "hermes2_text": ("hermes", None),
    "kimi_k2": ("kimi_k2", "kimi_k2"),
    "kimi_k3": ("kimi_k3", "kimi_k3"),
    "lfm2": ("lfm2", None),
    "llama3.1_json": ("llama3", None),
    "llama4_pythonic": ("pythonic", None),
    "minimax_m2": ("minimax-m2", "minimax"),
    "mistral_v3_array": ("mistral", None),
    "mistral_v11_args": ("mistral", "mistral"),
    "mistral_small3.2_callid": ("mistral", None),
    "nemotron3": ("qwen3_coder", "nemotron_3"),
    "qwen3_hermes": ("qwen", "qwen3"),
    "qwen3_coder": ("qwen3_coder", None),
    "qwen3.5": ("qwen3_coder", "qwen3"),
    "step3": ("step3", "step3"),
    "step3.5": ("step3p5", "step3p5"),
}


def offered(case):
    """Return a request's tools: those that are called, or one, so that calls are looked for."""
    names = [run["call"] for run in case["out"] if "call" in run] or ["get_weather"]
    schema = {"type": "object", "properties": {}}
    return [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name in dict.fromkeys(names)
    ]


class Stream:
    def __init__(self, case, tools, reasoning):
        options = case["options"]
        schemas = options.get("tool_schemas") or offered(case)
        known = [protocol.Tool(**schema) for schema in schemas]
        self.calls_parser = function_calls.FunctionCallParser(known, tools)
        self.reasoning = None
        if any("reasoning" in run for run in case["out"]):
            opened = options.get("start") == "reasoning"
            parser = reasoning_parser.ReasoningParser
            self.reasoning = parser(reasoning, force_reasoning=opened)
        self.tokenizer = tokenizers.Tokenizer.from_str(json.dumps(case["tokenizer"]))
        # The server gives the parsers text with special tokens, but for those that end a turn.
        self.decoder, self.ends = DecodeStream(skip_special_tokens=False), case["ends"]
        self.over = False

    def push(self, ids):
        text = ""
        for token in ids:
            self.over = self.over or token in self.ends
            if not self.over:
                text += self.decoder.step(self.tokenizer, token) or ""
        return self.parsed(text) if text else None

    def flush(self):
        deltas = []
        if self.reasoning:
            reasoning, text = self.reasoning.parse_stream_end()
            deltas.append({"reasoning": reasoning})
            deltas += self.read(text) if text else []
        deltas.append(self.delta(*self.calls_parser.parse_stream_end()))
        # What the server adds to the last call when the answer ends.
        detector = self.calls_parser.detector
        calls = getattr(detector, "prev_tool_call_arr", None) or []
        given = getattr(detector, "streamed_args_for_tool", None) or []
        last = len(calls) - 1
        if 0 <= last < len(given):
            whole = calls[last].get("arguments", {})
            whole = whole if isinstance(whole, str) else json.dumps(whole, ensure_ascii=False)
            if whole.startswith(given[last]):
                deltas.append({"call": last, "arguments": whole[len(given[last]) :]})
        return deltas

    def parsed(self, text):
        if not self.reasoning:
            return self.read(text)
        reasoning, text = self.reasoning.parse_stream_chunk(text)
        return [{"reasoning": reasoning}, *(self.read(text) if text else [])]

    def read(self, text):
        return [self.delta(*self.calls_parser.parse_stream_chunk(text))]

    def delta(self, text, calls):
        calls = [
            {"call": call.tool_index, "name": call.name, "arguments": call.parameters}
            for call in calls
        ]
        return {"content": text, "calls": calls}


def adapter(case):
    options = case.get("options", {})
    known = PARSERS.get(options.get("format"))
    thinks = any("reasoning" in run for run in case["out"]) if known else False
    if known is None or "policies" in options or (thinks and known[1] is None):
        return None
    return Stream(case, *known)
