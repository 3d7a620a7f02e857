"""Find the chat format of a vocabulary, and the section in which an answer begins.

In: a chat template as text, a function that tells whether a spelling is one token, the end of a
prompt. Out: the name of a format in the table and how it was found, or None if nothing decides. A
template is searched for strings, not rendered.

The strings with which the models' own templates write calls or reasoning decide. The rules of
llama.cpp (`common/chat.cpp`) and mlx-lm (`tokenizer_utils.py`) are of the same kind.
"""

from typing import Any, Callable, NamedTuple

from .table import FORMATS

# What a format was found by, and its name.
Found = NamedTuple("Found", [("name", str), ("found_by", str)])

# A format, strings that its template has, strings that its template lacks, spellings that are one
# token, and spellings that are not. A rule without strings is for vocabularies whose template says
# nothing. `also`: other formats that fit; this one is the most general. `alone`: only if there is
# no template, because other formats have the same tokens.
Rule = NamedTuple(
    "Rule",
    [
        ("name", str),
        ("has", "tuple[str, ...]"),
        ("lacks", "tuple[str, ...]"),
        ("tokens", "tuple[str, ...]"),
        ("no_tokens", "tuple[str, ...]"),
        ("also", "tuple[str, ...]"),
        ("alone", bool),
    ],
)


def in_template(
    name: str,
    *has: str,
    lacks: "tuple[str, ...]" = (),
    no_tokens: "tuple[str, ...]" = (),
    also: "tuple[str, ...]" = (),
) -> Rule:
    """Return a rule for what a template has."""
    return Rule(name, has, lacks, (), no_tokens, also, False)


def in_vocabulary(
    name: str,
    *tokens: str,
    no_tokens: "tuple[str, ...]" = (),
    also: "tuple[str, ...]" = (),
    alone: bool = False,
) -> Rule:
    """Return a rule for the tokens of a vocabulary."""
    return Rule(name, (), (), tokens, no_tokens, also, alone)


TOOL = "<tool_call>"
XML = ("<function=", "<parameter=")
SEP = "<｜tool▁sep｜>"
# MiniMax M3 and Functionary 3.1, whose calls no format of the table reads.
OTHERS = ("]<]minimax[>[", "<function=")

# The first rule that fits decides, so the most specific ones are first. In templates a quote is
# searched without the backslash that a string of Jinja may have before it.
RULES = (
    in_template("gemma4", "<|tool_call>", "<tool_call|>"),
    in_template("functiongemma", "<start_function_call>"),
    in_template("harmony", "<|channel|>", lacks=("<atem:",)),  # Muse has calls in other markup
    in_template("kimi_k3", "<|open|>", "<|close|>", "<|end_of_msg|>"),
    in_template("kimi_k2", "<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
    in_template("step3", "<steptml:invoke"),
    in_template("deepseek_v3.2", "｜DSML｜", "function_calls"),
    in_template("deepseek_v4", "｜DSML｜", "tool_calls"),
    in_template("deepseek_v3_r1", SEP, "```json"),
    in_template("deepseek_v3.1", SEP),
    in_template("seed_oss", "<seed:tool_call>"),
    in_template("minimax_m2", "<minimax:tool_call>"),
    in_template("glm4.7", "</arg_key><arg_value>"),
    in_template("glm4.5", "<arg_key>"),
    in_template("mistral_small3.2_callid", "[TOOL_CALLS]", "[CALL_ID]"),
    in_template("mistral_v11_args", "[TOOL_CALLS]", "[ARGS]"),
    in_template("mistral_v11_args", "[THINK]"),
    in_template("mistral_v11_args", "[INST]", "<think>", lacks=("<tool_call",)),
    in_template("mistral_v3_array", "[TOOL_CALLS]"),
    in_template("apertus", "<|tools_prefix|>"),
    in_template("command_a", "<|START_ACTION|>"),
    in_template("internlm2", "<|action_start|>", "<|plugin|>"),
    in_template("lfm2", "<|tool_call_start|>"),
    in_template("lfm2", "<|tool_list_start|>"),
    in_template("olmo3", "<function_calls>", lacks=("<invoke",)),
    in_template("granite3", "<|start_of_role|>", "<|tool_call|>"),
    in_template("granite4", "<|start_of_role|>", TOOL),
    in_template("granite3", "<|start_of_role|>"),
    in_template("phi4_mini", "functools["),
    in_template("phi4_mini", "<|/tool|>"),
    in_template("nemotron_nano_v2", "<TOOLCALL>"),
    in_template("hunyuan_a13b", "<tool_calls>["),
    in_template("hunyuan_a13b", "<|extra_0|>", "<answer>"),
    in_template("nemotron3", TOOL, XML[0], XML[1], "truncate_history_thinking"),
    in_template("step3.5", TOOL, XML[0], XML[1], "<|im_start|>tool_response"),
    in_template("qwen3.5", XML[0], XML[1], "<think>", also=("nemotron3", "step3.5")),
    in_template("qwen3_coder", XML[0], XML[1]),
    in_template("ernie4.5", TOOL, "<think>", "<response>"),
    in_template("hermes2_text", TOOL, '"name"', lacks=OTHERS, no_tokens=(TOOL,)),
    in_template("hermes2_text", TOOL, "tool_call.name", lacks=OTHERS, no_tokens=(TOOL,)),
    in_template("qwen3_hermes", TOOL, '"name"', lacks=OTHERS),
    in_template("qwen3_hermes", TOOL, "tool_call.name", lacks=OTHERS),
    in_template("llama4_pythonic", "[func_name1("),
    in_template("llama3.1_json", '"parameters": dictionary of argument name'),
    in_template("llama4_pythonic", "<|python_start|>"),
    in_template("llama3.1_json", "<|python_tag|>", lacks=OTHERS),
    in_template("llama3.1_json", "Environment: ipython", lacks=OTHERS),
    # Reasoning, and nothing about calls.
    in_template("qwen3_hermes", "<think>", lacks=("tool_calls", "<function")),
    in_vocabulary("gemma4", "<|tool_call>", "<tool_call|>"),
    in_vocabulary("functiongemma", "<start_function_call>", "<escape>"),
    in_vocabulary("harmony", "<|channel|>", "<|message|>", "<|constrain|>"),
    in_vocabulary("kimi_k3", "<|open|>", "<|close|>", "<|end_of_msg|>"),
    in_vocabulary("kimi_k2", "<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
    in_vocabulary("step3", "<｜tool_call_begin｜>", "<｜tool_sep｜>"),
    in_vocabulary("seed_oss", "<seed:tool_call>"),
    in_vocabulary("minimax_m2", "<minimax:tool_call>", no_tokens=(OTHERS[0],)),
    in_vocabulary("glm4.5", "<arg_key>", "<arg_value>", also=("glm4.7",)),
    in_vocabulary("mistral_v11_args", "[TOOL_CALLS]", "[ARGS]", also=("mistral_small3.2_callid",)),
    in_vocabulary("mistral_v3_array", "[TOOL_CALLS]"),
    in_vocabulary("apertus", "<|tools_prefix|>", "<|inner_prefix|>"),
    in_vocabulary("command_a", "<|START_ACTION|>"),
    in_vocabulary("internlm2", "<|action_start|>", "<|plugin|>"),
    in_vocabulary("lfm2", "<|tool_call_start|>"),
    in_vocabulary("olmo3", "<function_calls>"),
    in_vocabulary("granite4", "<|start_of_role|>", TOOL),
    in_vocabulary("granite3", "<|start_of_role|>"),
    in_vocabulary("phi4_mini", "<|tool_call|>", "<|/tool_call|>"),
    in_vocabulary("nemotron_nano_v2", "<TOOLCALL>"),
    in_vocabulary("ernie4.5", TOOL, "<response>", no_tokens=(OTHERS[0],)),
    in_vocabulary("llama4_pythonic", "<|python_start|>", alone=True),
    in_vocabulary("llama3.1_json", "<|python_tag|>", alone=True),
    in_vocabulary(
        "qwen3_hermes",
        TOOL,
        "</tool_call>",
        no_tokens=(OTHERS[0],),
        also=("qwen3_coder", "qwen3.5"),
        alone=True,
    ),
)


def find_format(
    template: str | None, has_token: Callable[[str], bool], response_template: Any = None
) -> Found | None:
    """Return the format of a model, None if neither its template nor its vocabulary decides.

    `template` is the chat template, or several joined to one text. `has_token` tells whether a
    spelling is one token. `response_template` is the value of that name in a
    tokenizer_config.json, whose strings decide if those of the template do not.

    >>> find_format("{{ '<|start|>assistant<|channel|>final' }}", lambda spelling: False)
    Found(name='harmony', found_by='chat template: <|channel|>')
    >>> find_format(None, lambda spelling: spelling in ("<|tool_call>", "<tool_call|>"))
    Found(name='gemma4', found_by='special tokens: <|tool_call>, <tool_call|>')
    """
    for where, text in (
        ("chat template", template or ""),
        ("response template", "\n".join(strings_in(response_template))),
    ):
        text = text.replace('\\"', '"')
        for rule in RULES:
            if rule.has and _fits(rule, text, has_token):
                return _found(rule, where, rule.has)
    for rule in RULES:
        if not rule.has and not (rule.alone and template) and _fits(rule, "", has_token):
            return _found(rule, "special tokens", rule.tokens)
    return None


def _fits(rule: Rule, text: str, has_token: Callable[[str], bool]) -> bool:
    return (
        all(each in text for each in rule.has)
        and not any(each in text for each in rule.lacks)
        and all(has_token(each) for each in rule.tokens)
        and not any(has_token(each) for each in rule.no_tokens)
    )


def _found(rule: Rule, where: str, decided: "tuple[str, ...]") -> Found:
    also = "; fits also " + ", ".join(rule.also) if rule.also else ""
    return Found(rule.name, where + ": " + ", ".join(decided) + also)


def strings_in(value: Any) -> "list[str]":
    """Return the strings in a JSON value, keys left out."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for part in parts for each in strings_in(part)]


# What precedes a turn, or ends one, in any format.
TURNS = ("<|", "<｜", "[/INST]", "]~b]", "<seed:", "<SPECIAL_", "<start_of_turn>", "<role>")


def find_start(name: str, tail: str) -> str:
    """Return the section in which an answer begins: "content", "reasoning" or "header".

    `tail` is the end of the prompt, with special tokens as they are spelled. Without one, harmony
    may begin with a header. Raises KeyError if no format has this name.

    >>> find_start("qwen3_hermes", "<|im_start|>assistant\\n<think>\\n")
    'reasoning'
    >>> find_start("qwen3_hermes", "<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n")
    'content'
    """
    spec = FORMATS[name]
    pairs = [(_spelled(opener), _spelled(close)) for opener, close in spec.thinks]
    if spec.tree == "harmony":
        if not tail or tail.rstrip(" ").endswith("<|start|>assistant"):
            return "header"
        pairs = [("<|channel|>analysis<|message|>", "<|end|>")]
    elif spec.tree == "kimi_k3":
        pairs = [("<|open|>think<|sep|>", "<|close|>think<|sep|>")]
    return "reasoning" if opens_reasoning(tail, pairs) else "content"


def opens_reasoning(tail: str, pairs: "list[tuple[str, str]]") -> bool:
    """Say whether a prompt that ends in `tail` has opened the reasoning between a pair of tags, and
    not closed it.
    """
    for opener, close in pairs:
        at = tail.rfind(opener)
        behind = tail[at + len(opener) :]
        if at >= 0 and not any(each in behind for each in (close,) + TURNS):
            return True
    return False


def _spelled(notation: str) -> str:
    return notation.replace("⟦", "").replace("⟧", "")
