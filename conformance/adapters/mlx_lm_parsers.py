"""mlx-lm's parsers of tool calls, with the state machine of its server."""

import functools
import importlib
import importlib.metadata
import json

import tokenizers
import transformers
from mlx_lm.generate import TextStateMachine, make_text_state_machine
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers.decoders import DecodeStream

SYSTEM = f"mlx-lm {importlib.metadata.version('mlx-lm')}, tool parsers"
PURPOSE = "text to reasoning, content and tool calls, in its server"
PARSERS = {
    "functiongemma": "function_gemma",
    "gemma4": "gemma4",
    "glm4.5": "glm47",
    "glm4.7": "glm47",
    "granite4": "json_tools",
    "hermes2_text": "json_tools",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "lfm2": "pythonic",
    "minimax_m2": "minimax_m2",
    "mistral_v3_array": "mistral",
    "mistral_v11_args": "mistral",
    "mistral_small3.2_callid": "mistral",
    "nemotron3": "qwen3_coder",
    "qwen3_hermes": "json_tools",
    "qwen3_coder": "qwen3_coder",
    "qwen3.5": "qwen3_coder",
}


@functools.cache
def machine_of(document, name):
    """Return a tokenizer, the machine that finds sections and calls, the parser of calls, and
    whether the machine knows reasoning.
    """
    found = tokenizers.Tokenizer.from_str(document)
    module = importlib.import_module(f"mlx_lm.tool_parsers.{name}")
    names = ("structural_markers", "response_transitions")
    known = {each: getattr(module, each) for each in names if hasattr(module, each)}
    wrapper = TokenizerWrapper(
        transformers.PreTrainedTokenizerFast(tokenizer_object=found),
        tool_call_start=module.tool_call_start,
        tool_call_end=module.tool_call_end,
        tool_parser=module.parse_tool_call,
        **known,
    )
    machine = make_text_state_machine(wrapper)
    return found, machine, module.parse_tool_call, wrapper.has_thinking


class Stream:
    def __init__(self, case, tokenizer, machine, parse):
        self.tokenizer, self.parse = tokenizer, parse
        opened = case["options"].get("start") == "reasoning"
        self.now = "reasoning" if opened else "normal"
        self.state = machine.make_state(self.now)
        self.tools = case["options"].get("tool_schemas")
        self.decoder, self.ends = DecodeStream(skip_special_tokens=False), case["ends"]
        self.tool, self.count, self.over = "", 0, False

    def push(self, ids):
        out = []
        for token in ids:
            self.over = self.over or token in self.ends
            if not self.over:
                text = self.decoder.step(self.tokenizer, token) or ""
                self.state, segments = TextStateMachine.split(self.state, text)
                out += self.deltas(segments)
        return out

    def flush(self):
        # What the server does when an answer ends by itself: what waits is markup.
        segments = []
        if not self.over:
            self.state, text, now = TextStateMachine.flush(self.state)
            segments = [(now, text)]
        out = self.deltas(segments)
        return out + self.call() if self.tool else out

    def deltas(self, segments):
        out = []
        for state, text in segments:
            if self.now == "tool" and state == "normal":
                out += self.call()
            self.now = state
            if state == "tool":
                self.tool += text
            else:
                out.append({"content" if state == "normal" else "reasoning": text})
        return out

    def call(self):
        text, self.tool = self.tool, ""
        try:
            calls = self.parse(text, self.tools)
        except ValueError:  # the server says that it was cut
            return []
        calls = calls if isinstance(calls, list) else [calls]
        first, self.count = self.count, self.count + len(calls)
        return [
            {"call": first + at, "name": call["name"], "arguments": call["arguments"]}
            for at, call in enumerate(calls)
        ]


def adapter(case):
    options = case.get("options", {})
    name = PARSERS.get(options.get("format"))
    if name is None or "policies" in options:
        return None
    *parts, thinks = machine_of(json.dumps(case["tokenizer"]), name)
    if not thinks and any("reasoning" in run for run in case["out"]):
        return None
    return Stream(case, *parts)
