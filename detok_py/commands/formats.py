"""`detok formats`: list the formats that models write their answers in, or explain which one a
tokenizer has.

In: nothing, or `explain` and a tokenizer file. Out: a line for each format; or the format of the
file, what it was found by, and how its reasoning and calls are written. Exit code 1 if nothing in
the file decides.
"""

import argparse
import json
from typing import NamedTuple

from ..errors import DetokError
from ..formats.table import FORMATS
from .encode import add_tokenizer, open_tokenizer, settle


class Family(NamedTuple):
    """Which models write a format, how they write a call, and whether the types of arguments need
    a schema.
    """

    models: str
    call: str
    schema: bool = False


FAMILIES = {
    "apertus": Family("Apertus", '<|tools_prefix|>[{"NAME": {…}}]<|tools_suffix|>'),
    "command_a": Family("Command A, R7B", '<|START_ACTION|>[{"tool_name": …}]<|END_ACTION|>'),
    "deepseek_v3_r1": Family(
        "DeepSeek V3, R1", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME, then ```json"
    ),
    "deepseek_v3.1": Family("DeepSeek V3.1", "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{…}"),
    "deepseek_v3.2": Family("DeepSeek V3.2", '<｜DSML｜function_calls><｜DSML｜invoke name="NAME">'),
    "deepseek_v4": Family("DeepSeek V4", '<｜DSML｜tool_calls><｜DSML｜invoke name="NAME">'),
    "ernie4.5": Family("ERNIE 4.5 Thinking", '<tool_call>{"name": …}</tool_call>'),
    "functiongemma": Family("FunctionGemma", "<start_function_call>call:NAME{…}", True),
    "gemma4": Family("Gemma 4", "<|tool_call>call:NAME{…}<tool_call|>"),
    "glm4.5": Family(
        "GLM-4.5, 4.6, Ling 3, Laguna", "<tool_call>NAME<arg_key>…<arg_value>… with line breaks", True
    ),
    "glm4.7": Family("GLM-4.7, 5", "<tool_call>NAME<arg_key>…<arg_value>…", True),
    "granite3": Family("Granite 3", '<|tool_call|>[{"name": …}]'),
    "granite4": Family("Granite 4", '<tool_call>{"name": …}</tool_call>'),
    "harmony": Family("gpt-oss", "<|channel|>commentary to=functions.NAME … <|message|>{…}<|call|>"),
    "hermes2_text": Family("Hermes 2, 3", '<tool_call>{"name": …}</tool_call> as ordinary text'),
    "hunyuan_a13b": Family("Hunyuan A13B, Apriel", '<tool_calls>[{"name": …}]</tool_calls>'),
    "internlm2": Family("InternLM 2, 3", '<|action_start|><|plugin|>{"name": …}<|action_end|>'),
    "kimi_k2": Family("Kimi K2", "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}"),
    "kimi_k3": Family("Kimi K3", '<|open|>call tool="NAME"<|sep|>…<|close|>call<|sep|>'),
    "lfm2": Family("LFM2, LFM2.5", "<|tool_call_start|>[NAME(k=1)]<|tool_call_end|>"),
    "llama3.1_json": Family("Llama 3.1 to 3.3", '{"name": …, "parameters": …} begins the answer'),
    "llama4_pythonic": Family("Llama 4, ToolACE", "[NAME(k=1)] begins the answer"),
    "minimax_m2": Family("MiniMax M2", '<minimax:tool_call><invoke name="NAME">', True),
    "mistral_v3_array": Family("Mistral 7B v0.3, Nemo, Small 3", '[TOOL_CALLS][{"name": …}]'),
    "mistral_v11_args": Family("Devstral, Magistral, Ministral 3", "[TOOL_CALLS]NAME[ARGS]{…}"),
    "mistral_small3.2_callid": Family(
        "Mistral Small 3.2", "[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{…}"
    ),
    "nemotron3": Family("Nemotron 3", "<tool_call><function=NAME><parameter=KEY>", True),
    "nemotron_nano_v2": Family("Nemotron Nano 2", '<TOOLCALL>[{"name": …}]</TOOLCALL>'),
    "olmo3": Family("Olmo 3", "<function_calls>NAME(k=1)</function_calls>, one on a line"),
    "phi4_mini": Family("Phi-4-mini", 'functools[{"name": …}] or <|tool_call|>[…]<|/tool_call|>'),
    "qwen3_hermes": Family("Qwen 2.5, Qwen3, QwQ, SmolLM3", '<tool_call>{"name": …}</tool_call>'),
    "qwen3_coder": Family("Qwen3-Coder", "<tool_call><function=NAME><parameter=KEY>", True),
    "qwen3.5": Family("Qwen3.5", "<tool_call><function=NAME><parameter=KEY>", True),
    "seed_oss": Family("Seed-OSS", "<seed:tool_call><function=NAME><parameter=KEY>", True),
    "step3": Family("Step-3", '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="NAME">', True),
    "step3.5": Family("Step-3.5", "<tool_call><function=NAME><parameter=KEY>", True),
}  # fmt: skip
TREES = {"harmony": "<|channel|>analysis<|message|>", "kimi_k3": "<|open|>think<|sep|>"}


def reasoning(name: str) -> str:
    """Return what opens reasoning in a format, "" if nothing does.

    >>> reasoning("mistral_v11_args")
    '[THINK] or <think>'
    """
    openers = [opener.replace("⟦", "").replace("⟧", "") for opener, _ in FORMATS[name].thinks]
    # Granite 3 may open reasoning with a sentence, which is not a marker.
    return TREES.get(name) or " or ".join([each for each in openers if " " not in each])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "action",
        nargs="?",
        type=_action,
        choices=["explain"],
        help="explain which format a FILE has",
    )
    add_tokenizer(parser)
    parser.add_argument("--json", action="store_true", help="write one JSON object per line")


def _action(word: str) -> str:
    """Return the word `explain`. Raises DetokError for another, which may be a FILE."""
    if word != "explain":
        raise DetokError(f"a file is explained by: detok formats explain {word}")
    return word


def run(args: argparse.Namespace) -> int:
    """Write the list, or what was found in a file."""
    if args.action is None:
        if args.named is not None:
            raise DetokError("a file is explained by: detok formats explain FILE")
        rows = [described(name) for name in sorted(FORMATS)]
        widths = [max(len(row[key]) for row in rows) for key in ("name", "models", "reasoning")]
        for row in rows:
            cells = [row["name"], row["models"], row["reasoning"], row["calls"]]
            padded = [cell.ljust(width) for cell, width in zip(cells, [*widths, 0], strict=True)]
            print(json.dumps(row, ensure_ascii=False) if args.json else "  ".join(padded).rstrip())
        return 0
    settle(args)
    found = open_tokenizer(args).chat_format
    if found is None:
        nothing = "neither a chat template nor special tokens decide"
        told = json.dumps({"name": None, "found_by": None})
        print(told if args.json else f"{args.tokenizer}: no format found; {nothing}")
        return 1
    row = {"name": found.name, "found_by": found.found_by, **described(found.name)}
    if args.json:
        print(json.dumps(row, ensure_ascii=False))
        return 0
    for key, value in row.items():
        print(f"{key.replace('_', ' ').ljust(11)}{value or 'none'}")
    return 0


def described(name: str) -> dict[str, str]:
    """Return what a format is, in words."""
    family = FAMILIES[name]
    return {
        "name": name,
        "models": family.models,
        "reasoning": reasoning(name),
        "calls": family.call,
        "types": "by a schema" if family.schema else "in the call",
    }
