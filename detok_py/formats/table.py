"""The formats that chat models speak, one entry each.

`⟦x⟧` is a marker that the vocabulary has as one token; all else is ordinary text. Names and
grammars are those of the models' chat templates (docs/formats.md).
"""

from typing import NamedTuple

# A family of tags around parameters: what stands before and behind the name of a call, what closes
# the call, what stands before and behind the key of a parameter, what closes the parameter.
# `again`: what also ends a call whose end is missing. `newline`: one newline at each side of a
# value is markup. `python`: lists and objects may be Python literals, where the schema says so.
Tags = NamedTuple(
    "Tags",
    [
        ("name", str),
        ("behind", str),
        ("end", str),
        ("key", str),
        ("value_end", str),
        ("again", "tuple[str, ...]"),
        ("newline", bool),
        ("python", bool),
    ],
)
# How a call begins and goes on. `body` is the step that reads it, `close` what ends it, `item` the
# step for each call of an array, `least` how many calls an array must have. `bare`: the opener is
# part of the call, and text until a call is certain. `where`: "start" of the answer, or "reasoned":
# directly behind reasoning.
Call = NamedTuple(
    "Call",
    [
        ("opener", str),
        ("body", str),
        ("close", str),
        ("item", str),
        ("least", int),
        ("tags", "Tags | None"),
        ("bare", bool),
        ("where", str),
    ],
)
# A format. `thinks`, `wraps` and `blocks` are pairs around reasoning, content, and calls; `silent`
# are markers that are not shown, `ends` the tokens that end a turn. `thought` is the name that
# stands behind what opens reasoning. `leading`: newlines that begin an answer are markup. `tree`
# names the reader of a format that has a grammar of its own.
Format = NamedTuple(
    "Format",
    [
        ("calls", "tuple[Call, ...]"),
        ("thinks", "tuple[tuple[str, str], ...]"),
        ("wraps", "tuple[tuple[str, str], ...]"),
        ("blocks", "tuple[tuple[str, str], ...]"),
        ("silent", "tuple[str, ...]"),
        ("ends", "tuple[str, ...]"),
        ("thought", str),
        ("leading", bool),
        ("tree", str),
    ],
)


def call(
    opener: str,
    body: str,
    close: str = "",
    item: str = "json_object",
    least: int = 0,
    tags: "Tags | None" = None,
    bare: bool = False,
    where: str = "anywhere",
) -> Call:
    """Return how a call begins and goes on."""
    return Call(opener, body, close, item, least, tags, bare, where)


def form(
    *calls: Call,
    thinks: "tuple[tuple[str, str], ...]" = (),
    wraps: "tuple[tuple[str, str], ...]" = (),
    blocks: "tuple[tuple[str, str], ...]" = (),
    silent: "tuple[str, ...]" = (),
    ends: "tuple[str, ...]" = (),
    thought: str = "",
    leading: bool = False,
    tree: str = "",
) -> Format:
    """Return a format of these calls."""
    return Format(calls, thinks, wraps, blocks, silent, ends, thought, leading, tree)


THINK = ("⟦<think>⟧", "⟦</think>⟧")
TEXT_THINK = ("<think>", "</think>")
CHATML = ("<|im_end|>", "<|endoftext|>")
TOOL, TOOL_END = "⟦<tool_call>⟧", "⟦</tool_call>⟧"


def _functions(block: str, newline: bool = False, python: bool = False) -> Tags:
    """Return the tags of calls in the marker `block`: `<function=f><parameter=k>v</parameter>…`."""
    return Tags(
        "<function=",
        ">",
        "</function>",
        "<parameter=",
        "</parameter>",
        (block, "<function="),
        newline,
        python,
    )


def _invokes(prefix: str, *again: str) -> Tags:
    """Return the tags of calls like `<invoke name="f"><parameter name="k">v</parameter>…`, with a
    prefix before each name.
    """
    invoke, parameter = prefix + "invoke", prefix + "parameter"
    return Tags(
        f'<{invoke} name="',
        '"',
        f"</{invoke}>",
        f'<{parameter} name="',
        f"</{parameter}>",
        again,
        False,
        False,
    )


QWEN_TAGS = _functions(TOOL, newline=True)
SEED_TAGS = _functions("⟦<seed:tool_call>⟧", python=True)
INVOKE_TAGS = _invokes("", "<invoke name=")
STEP_TAGS = _invokes("steptml:")
DSML_TAGS = _invokes("⟦｜DSML｜⟧", "<⟦｜DSML｜⟧invoke")


def _hermes(opener: str, close: str, think: "tuple[str, str]") -> Format:
    return form(call(opener, "object_call", close), thinks=(think,), ends=CHATML)


def _xml() -> Format:
    return form(
        call(TOOL, "tagged", TOOL_END, tags=QWEN_TAGS),
        call("<function=", "untagged", TOOL_END, tags=QWEN_TAGS, bare=True),
        thinks=(THINK,),
        ends=CHATML,
    )


def _dsml(block: str) -> Format:
    close = "</⟦｜DSML｜⟧" + block + ">"
    return form(
        call("<⟦｜DSML｜⟧" + block + ">", "tagged", close, tags=DSML_TAGS),
        call("<⟦｜DSML｜⟧invoke", "untagged", close, tags=DSML_TAGS, bare=True),
        thinks=(THINK,),
        ends=("<｜end▁of▁sentence｜>",),
    )


def _deepseek(body: str) -> Format:
    return form(
        call("⟦<｜tool▁call▁begin｜>⟧", body, "⟦<｜tool▁call▁end｜>⟧"),
        thinks=(THINK,),
        blocks=(("⟦<｜tool▁calls▁begin｜>⟧", "⟦<｜tool▁calls▁end｜>⟧"),),
        ends=("<｜end▁of▁sentence｜>",),
    )


def _glm(leading: bool) -> Format:
    ends = ("<|user|>", "<|observation|>", "<|endoftext|>")
    return form(call(TOOL, "glm", TOOL_END), thinks=(THINK,), ends=ends, leading=leading)


def _mistral(*thinks: "tuple[str, str]") -> Format:
    return form(call("⟦[TOOL_CALLS]⟧", "mistral"), thinks=thinks, ends=("</s>",))


FORMATS = {
    "apertus": form(
        call("⟦<|tools_prefix|>⟧", "array", "⟦<|tools_suffix|>⟧", item="keyed"),
        thinks=(("⟦<|inner_prefix|>⟧", "⟦<|inner_suffix|>⟧"),),
        ends=("<|assistant_end|>", "</s>"),
    ),
    "command_a": form(
        call("⟦<|START_ACTION|>⟧", "array", "⟦<|END_ACTION|>⟧"),
        thinks=(("⟦<|START_THINKING|>⟧", "⟦<|END_THINKING|>⟧"),),
        wraps=(
            ("⟦<|START_RESPONSE|>⟧", "⟦<|END_RESPONSE|>⟧"),
            ("⟦<|START_TEXT|>⟧", "⟦<|END_TEXT|>⟧"),
        ),
        ends=("<|END_OF_TURN_TOKEN|>",),
    ),
    "deepseek_v3_r1": _deepseek("deepseek_r1"),
    "deepseek_v3.1": _deepseek("deepseek"),
    "deepseek_v3.2": _dsml("function_calls"),
    "deepseek_v4": _dsml("tool_calls"),
    "ernie4.5": form(
        call(TOOL, "object_call", TOOL_END),
        thinks=(THINK,),
        wraps=(("⟦<response>⟧", "⟦</response>⟧"),),
        ends=("</s>", "<|im_end|>"),
    ),
    "functiongemma": form(
        call("⟦<start_function_call>⟧", "function_gemma", "⟦<end_function_call>⟧"),
        ends=("<end_of_turn>", "<start_function_response>"),
    ),
    "gemma4": form(
        call("⟦<|tool_call>⟧", "gemma", "⟦<tool_call|>⟧"),
        call("call:", "gemma_bare", "⟦<tool_call|>⟧", bare=True, where="reasoned"),
        thinks=(("⟦<|channel>⟧", "⟦<channel|>⟧"),),
        ends=("<turn|>", "<|tool_response>"),
        thought="thought",
    ),
    "glm4.5": _glm(leading=True),
    "glm4.7": _glm(leading=False),
    "granite3": form(
        call("⟦<|tool_call|>⟧", "array"),
        call("<tool_call>", "array", least=1),
        thinks=(
            TEXT_THINK,
            ("Here is my thought process:", "Here is my response:"),
            ("Here's my thought process:", "Here's my response:"),
        ),
        wraps=(("<response>", "</response>"),),
        ends=("<|end_of_text|>",),
    ),
    "granite4": _hermes(TOOL, TOOL_END, TEXT_THINK),
    "harmony": form(
        tree="harmony",
        silent=("⟦<|start|>⟧", "⟦<|channel|>⟧", "⟦<|message|>⟧", "⟦<|constrain|>⟧")
        + ("⟦<|end|>⟧", "⟦<|return|>⟧", "⟦<|call|>⟧"),
        ends=("<|return|>", "<|call|>"),
    ),
    "hermes2_text": _hermes("<tool_call>", "</tool_call>", TEXT_THINK),
    "hunyuan_a13b": form(
        call("<tool_calls>", "array", "</tool_calls>", least=1),
        thinks=(TEXT_THINK,),
        wraps=(("<answer>", "</answer>"),),
        ends=("<|eos|>",),
    ),
    "internlm2": form(
        call("⟦<|action_start|>⟧⟦<|plugin|>⟧", "object_call", "⟦<|action_end|>⟧"),
        call("⟦<|action_start|>⟧⟦<|interpreter|>⟧", "code", "⟦<|action_end|>⟧"),
        thinks=(TEXT_THINK,),
        ends=("<|im_end|>", "</s>"),
    ),
    "kimi_k2": form(
        call("⟦<|tool_call_begin|>⟧", "kimi_k2", "⟦<|tool_call_end|>⟧"),
        thinks=(THINK,),
        blocks=(("⟦<|tool_calls_section_begin|>⟧", "⟦<|tool_calls_section_end|>⟧"),),
        ends=("<|im_end|>", "[EOS]"),
    ),
    "kimi_k3": form(
        tree="kimi_k3",
        silent=("⟦<|open|>⟧", "⟦<|close|>⟧", "⟦<|sep|>⟧"),
        ends=("<|end_of_msg|>",),
    ),
    "lfm2": form(
        call("⟦<|tool_call_start|>⟧", "lfm2", "⟦<|tool_call_end|>⟧"),
        thinks=(TEXT_THINK,),
        ends=("<|im_end|>",),
    ),
    "llama3.1_json": form(
        call("⟦<|python_tag|>⟧", "llama_tag"),
        call("{", "llama", bare=True, where="start"),
        ends=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
    ),
    "llama4_pythonic": form(
        call("⟦<|python_start|>⟧", "pythonic", "⟦<|python_end|>⟧"),
        call("[", "pythonic", bare=True, where="start"),
        ends=("<|eot|>", "<|eom|>", "<|eot_id|>", "<|end_of_text|>"),
    ),
    "minimax_m2": form(
        call("⟦<minimax:tool_call>⟧", "tagged", "⟦</minimax:tool_call>⟧", tags=INVOKE_TAGS),
        thinks=(THINK,),
        ends=("[e~[",),
    ),
    "mistral_v3_array": _mistral(),
    "mistral_v11_args": _mistral(("⟦[THINK]⟧", "⟦[/THINK]⟧"), TEXT_THINK),
    "mistral_small3.2_callid": _mistral(),
    "nemotron3": _xml(),
    "nemotron_nano_v2": form(
        call("<TOOLCALL>", "array", "</TOOLCALL>", least=1),
        thinks=(TEXT_THINK,),
        ends=("<SPECIAL_12>",),
    ),
    "olmo3": form(
        call("⟦<function_calls>⟧", "python_lines", "⟦</function_calls>⟧"),
        thinks=(TEXT_THINK,),
        ends=CHATML,
    ),
    "phi4_mini": form(
        call("⟦<|tool_call|>⟧", "array", "⟦<|/tool_call|>⟧"),
        call("functools", "array", least=1),
        ends=("<|end|>", "<|endoftext|>"),
    ),
    "qwen3_hermes": _hermes(TOOL, TOOL_END, THINK),
    "qwen3_coder": _xml(),
    "qwen3.5": _xml(),
    "seed_oss": form(
        call("⟦<seed:tool_call>⟧", "tagged", "⟦</seed:tool_call>⟧", tags=SEED_TAGS),
        call("<function=", "untagged", "⟦</seed:tool_call>⟧", tags=SEED_TAGS, bare=True),
        thinks=(("⟦<seed:think>⟧", "⟦</seed:think>⟧"),),
        silent=("⟦<seed:cot_budget_reflect>⟧", "⟦</seed:cot_budget_reflect>⟧"),
        ends=("<seed:eos>",),
    ),
    "step3": form(
        call("⟦<｜tool_call_begin｜>⟧", "step3", "⟦<｜tool_call_end｜>⟧", tags=STEP_TAGS),
        thinks=(THINK,),
        blocks=(("⟦<｜tool_calls_begin｜>⟧", "⟦<｜tool_calls_end｜>⟧"),),
        ends=("<|im_end|>", "<｜end▁of▁sentence｜>"),
    ),
    "step3.5": _xml(),
}
# Tokens that only come inside calls.
INNER: "dict[str, tuple[str, ...]]" = {
    "deepseek": ("<｜tool▁sep｜>",),
    "deepseek_r1": ("<｜tool▁sep｜>",),
    "function_gemma": ("<escape>",),
    "gemma": ('<|"|>',),
    "glm": ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    "kimi_k2": ("<|tool_call_argument_begin|>",),
    "mistral": ("[ARGS]", "[CALL_ID]"),
    "step3": ("<｜tool_sep｜>",),
}
