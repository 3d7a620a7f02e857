"""The markup of the 36 formats: `⟦x⟧` is a marker, which the vocabulary has as one token."""

from .calls import (
    deepseek_r1,
    deepseek_v31,
    json_array,
    json_object,
    keyed_call,
    kimi_k2,
    mistral,
)
from .literal_calls import gemma, gemma_bare, internlm_code, lfm2, llama_json, llama_tag, pythonic
from .sections import Format, Opener
from .tagged_calls import (
    DSML,
    MINIMAX_XML,
    QWEN_XML,
    SEED_XML,
    glm,
    step3,
    tagged,
    untagged,
)
from .values import mark, marked

THINK = ((mark("<think>"), mark("</think>")),)
TEXT_THINK = (mark("<think>"), mark("</think>"))
TOOL, TOOL_END = mark("<tool_call>"), mark("</tool_call>")
DEEPSEEK_BLOCK = ((mark("<｜tool▁calls▁begin｜>"), mark("<｜tool▁calls▁end｜>")),)
DEEPSEEK_MARKS = "⟦<｜tool▁call▁begin｜>⟧"
CHATML = ("<|im_end|>", "<|endoftext|>")
GLM_ENDS = ("<|user|>", "<|observation|>", "<|endoftext|>")


def pair(begin: str, end: str) -> tuple[str, str]:
    return marked(begin), marked(end)


def qwen_xml(*ends: str) -> Format:
    return Format(
        calls=(
            Opener(TOOL, tagged(QWEN_XML, TOOL_END, TOOL, "<function=")),
            Opener("<function=", untagged(QWEN_XML, TOOL_END, TOOL, "<function="), bare=True),
        ),
        thinks=THINK,
        ends=(*CHATML, *ends),
    )


def dsml(block: str) -> Format:
    call = marked("<⟦｜DSML｜⟧invoke")
    close = marked(f"</⟦｜DSML｜⟧{block}>")
    return Format(
        calls=(
            Opener(marked(f"<⟦｜DSML｜⟧{block}>"), tagged(DSML, close, call), close=close),
            Opener(call, untagged(DSML, close, call), bare=True, close=close),
        ),
        thinks=THINK,
        ends=("<｜end▁of▁sentence｜>",),
    )


def hermes(*texts: str) -> Format:
    calls = (Opener(TOOL, json_object(TOOL_END), close=TOOL_END),)
    return Format(calls, thinks=THINK, texts=texts, ends=CHATML)


def glm_format(leading: bool) -> Format:
    return Format(calls=(Opener(TOOL, glm),), thinks=THINK, ends=GLM_ENDS, leading=leading)


def mistral_format(thinks: bool) -> Format:
    return Format(
        calls=(Opener(mark("[TOOL_CALLS]"), mistral),),
        thinks=((mark("[THINK]"), mark("[/THINK]")), *THINK) if thinks else (),
        texts=TEXT_THINK,
        ends=("</s>",),
    )


SEED_END, SEED = mark("</seed:tool_call>"), mark("<seed:tool_call>")
PROSE = ("Here is my thought process:", "Here is my response:")
PROSE_2 = ("Here's my thought process:", "Here's my response:")

FORMATS = {
    "apertus": Format(
        calls=(Opener(mark("<|tools_prefix|>"), json_array(mark("<|tools_suffix|>"), keyed_call)),),
        thinks=(pair("⟦<|inner_prefix|>⟧", "⟦<|inner_suffix|>⟧"),),
        ends=("<|assistant_end|>", "</s>"),
    ),
    "command_a": Format(
        calls=(Opener(mark("<|START_ACTION|>"), json_array(mark("<|END_ACTION|>"))),),
        thinks=(pair("⟦<|START_THINKING|>⟧", "⟦<|END_THINKING|>⟧"),),
        wraps=(
            pair("⟦<|START_RESPONSE|>⟧", "⟦<|END_RESPONSE|>⟧"),
            pair("⟦<|START_TEXT|>⟧", "⟦<|END_TEXT|>⟧"),
        ),
        ends=("<|END_OF_TURN_TOKEN|>",),
    ),
    "deepseek_v3_r1": Format(
        calls=(Opener(marked(DEEPSEEK_MARKS), deepseek_r1),),
        thinks=THINK,
        blocks=DEEPSEEK_BLOCK,
        ends=("<｜end▁of▁sentence｜>",),
    ),
    "deepseek_v3.1": Format(
        calls=(Opener(marked(DEEPSEEK_MARKS), deepseek_v31),),
        thinks=THINK,
        blocks=DEEPSEEK_BLOCK,
        ends=("<｜end▁of▁sentence｜>",),
    ),
    "deepseek_v3.2": dsml("function_calls"),
    "deepseek_v4": dsml("tool_calls"),
    "ernie4.5": Format(
        calls=(Opener(TOOL, json_object(TOOL_END)),),
        thinks=THINK,
        wraps=(pair("⟦<response>⟧", "⟦</response>⟧"),),
        ends=("</s>", "<|im_end|>"),
    ),
    "functiongemma": Format(
        calls=(
            Opener(
                mark("<start_function_call>"),
                gemma(mark("<escape>"), mark("<end_function_call>"), schema=True),
            ),
        ),
        ends=("<end_of_turn>", "<start_function_response>"),
    ),
    "gemma4": Format(
        calls=(
            Opener(mark("<|tool_call>"), gemma(mark('<|"|>'), mark("<tool_call|>"))),
            Opener("call:", gemma_bare, bare=True, where="reasoned"),
        ),
        thinks=(pair("⟦<|channel>⟧", "⟦<channel|>⟧"),),
        ends=("<turn|>", "<|tool_response>"),
        thought="thought",
    ),
    "glm4.5": glm_format(leading=True),
    "glm4.7": glm_format(leading=False),
    "granite3": Format(
        calls=(
            Opener(mark("<|tool_call|>"), json_array("")),
            Opener(TOOL, json_array("", least=1)),
        ),
        thinks=(*THINK, tuple(map(mark, PROSE)), tuple(map(mark, PROSE_2))),
        wraps=(pair("⟦<response>⟧", "⟦</response>⟧"),),
        texts=(
            *(TOOL, *TEXT_THINK, mark("<response>"), mark("</response>")),
            *map(mark, PROSE + PROSE_2),
        ),
        ends=("<|end_of_text|>",),
    ),
    "granite4": hermes(*TEXT_THINK),
    "hermes2_text": hermes(*TEXT_THINK, TOOL, TOOL_END),
    "hunyuan_a13b": Format(
        calls=(
            Opener(
                mark("<tool_calls>"),
                json_array(mark("</tool_calls>"), least=1),
                close=mark("</tool_calls>"),
            ),
        ),
        thinks=THINK,
        wraps=(pair("⟦<answer>⟧", "⟦</answer>⟧"),),
        texts=(
            *(*TEXT_THINK, mark("<answer>"), mark("</answer>")),
            *(mark("<tool_calls>"), mark("</tool_calls>")),
        ),
        ends=("<|eos|>",),
    ),
    "internlm2": Format(
        calls=(
            Opener(marked("⟦<|action_start|>⟧⟦<|plugin|>⟧"), json_object(mark("<|action_end|>"))),
            Opener(marked("⟦<|action_start|>⟧⟦<|interpreter|>⟧"), internlm_code),
        ),
        thinks=THINK,
        texts=TEXT_THINK,
        ends=("<|im_end|>", "</s>"),
    ),
    "kimi_k2": Format(
        calls=(Opener(mark("<|tool_call_begin|>"), kimi_k2),),
        thinks=THINK,
        blocks=(pair("⟦<|tool_calls_section_begin|>⟧", "⟦<|tool_calls_section_end|>⟧"),),
        ends=("<|im_end|>", "[EOS]"),
    ),
    "lfm2": Format(
        calls=(Opener(mark("<|tool_call_start|>"), lfm2),),
        thinks=THINK,
        texts=TEXT_THINK,
        ends=("<|im_end|>",),
    ),
    "llama3.1_json": Format(
        calls=(
            Opener(mark("<|python_tag|>"), llama_tag),
            Opener("{", llama_json, bare=True, where="start"),
        ),
        ends=("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"),
    ),
    "llama4_pythonic": Format(
        calls=(
            Opener(mark("<|python_start|>"), pythonic(mark("<|python_end|>"))),
            Opener("[", pythonic(""), bare=True, where="start"),
        ),
        ends=("<|eot|>", "<|eom|>", "<|eot_id|>", "<|end_of_text|>"),
    ),
    "minimax_m2": Format(
        calls=(
            Opener(
                mark("<minimax:tool_call>"),
                tagged(MINIMAX_XML, mark("</minimax:tool_call>"), "<invoke name="),
            ),
        ),
        thinks=THINK,
        ends=("[e~[",),
    ),
    "mistral_v3_array": mistral_format(thinks=False),
    "mistral_v11_args": mistral_format(thinks=True),
    "mistral_small3.2_callid": mistral_format(thinks=False),
    "nemotron3": qwen_xml(),
    "nemotron_nano_v2": Format(
        calls=(
            Opener(
                mark("<TOOLCALL>"),
                json_array(mark("</TOOLCALL>"), least=1),
                close=mark("</TOOLCALL>"),
            ),
        ),
        thinks=THINK,
        texts=(*TEXT_THINK, mark("<TOOLCALL>"), mark("</TOOLCALL>")),
        ends=("<SPECIAL_12>",),
    ),
    "olmo3": Format(
        calls=(Opener(mark("<function_calls>"), pythonic(mark("</function_calls>"), lines=True)),),
        thinks=THINK,
        texts=TEXT_THINK,
        ends=CHATML,
    ),
    "phi4_mini": Format(
        calls=(
            Opener(mark("<|tool_call|>"), json_array(mark("<|/tool_call|>"))),
            Opener(mark("functools"), json_array("", least=1)),
        ),
        texts=(mark("functools"),),
        ends=("<|end|>", "<|endoftext|>"),
    ),
    "qwen3_hermes": hermes(),
    "qwen3_coder": qwen_xml(),
    "qwen3.5": qwen_xml(),
    "seed_oss": Format(
        calls=(
            Opener(SEED, tagged(SEED_XML, SEED_END, SEED, "<function=")),
            Opener("<function=", untagged(SEED_XML, SEED_END, SEED, "<function="), bare=True),
        ),
        thinks=(pair("⟦<seed:think>⟧", "⟦</seed:think>⟧"),),
        silent=(mark("<seed:cot_budget_reflect>"), mark("</seed:cot_budget_reflect>")),
        ends=("<seed:eos>",),
    ),
    "step3": Format(
        calls=(Opener(mark("<｜tool_call_begin｜>"), step3),),
        thinks=THINK,
        blocks=(pair("⟦<｜tool_calls_begin｜>⟧", "⟦<｜tool_calls_end｜>⟧"),),
        ends=("<|im_end|>", "<｜end▁of▁sentence｜>"),
    ),
    "step3.5": qwen_xml(),
}
