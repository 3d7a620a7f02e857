"""What a model writes in each format, as its chat template does: whole_text the other way round.

In: reasoning, content, calls, text after them. Out: the answer in the notation of the cases.
"""

import json
from typing import Any, NamedTuple, Sequence

from .values import kind_of
from .whole_text import NAMES

TAGS = ("⟦<think>⟧\n", "\n⟦</think>⟧\n\n")
TEXT_TAGS = ("<think>\n", "\n</think>\n\n")
CLOSE_TAGS = ("⟦<think>⟧", "⟦</think>⟧")
THINKING = {
    "apertus": ("⟦<|inner_prefix|>⟧", "⟦<|inner_suffix|>⟧"),
    "command_a": ("⟦<|START_THINKING|>⟧", "⟦<|END_THINKING|>⟧"),
    "deepseek_v3_r1": TAGS,
    "deepseek_v3.1": CLOSE_TAGS,
    "deepseek_v3.2": CLOSE_TAGS,
    "deepseek_v4": CLOSE_TAGS,
    "ernie4.5": TAGS,
    "gemma4": ("⟦<|channel>⟧thought\n", "\n⟦<channel|>⟧"),
    "glm4.5": ("\n⟦<think>⟧", "⟦</think>⟧\n"),
    "glm4.7": CLOSE_TAGS,
    "granite3": ("<think>", "</think>"),
    "granite4": TEXT_TAGS,
    "hermes2_text": TEXT_TAGS,
    "hunyuan_a13b": ("<think>\n", "\n</think>\n"),
    "internlm2": TEXT_TAGS,
    "kimi_k2": CLOSE_TAGS,
    "lfm2": TEXT_TAGS,
    "minimax_m2": TAGS,
    "mistral_v11_args": ("⟦[THINK]⟧", "⟦[/THINK]⟧"),
    "nemotron3": TAGS,
    "nemotron_nano_v2": TEXT_TAGS,
    "olmo3": TEXT_TAGS,
    "qwen3_hermes": TAGS,
    "qwen3.5": TAGS,
    "seed_oss": ("⟦<seed:think>⟧", "⟦</seed:think>⟧"),
    "step3": TAGS,
    "step3.5": TAGS,
}
WRAPPED = {
    "command_a": ("⟦<|START_RESPONSE|>⟧", "⟦<|END_RESPONSE|>⟧"),
    "ernie4.5": ("⟦<response>⟧\n", "\n⟦</response>⟧\n"),
    "hunyuan_a13b": ("<answer>\n", "\n</answer>"),
}
# Text before the calls is not possible: only the beginning of an answer can be a call.
NO_TEXT_BEFORE = ("llama3.1_json", "llama4_pythonic")
SCHEMA_NEEDED = ("qwen3_coder", "qwen3.5", "nemotron3", "step3.5", "seed_oss", "glm4.5", "glm4.7")
SCHEMA_NEEDED += ("minimax_m2", "step3")
WITH_REASONING = (*THINKING, "harmony", "kimi_k3")


class Spoken(NamedTuple):
    """A call before it is written; `arguments` is an object, or its JSON text where that
    is used.
    """

    name: str
    arguments: Any
    id: str | None = None


def dumps(value: Any) -> str:
    """Return a value as templates write it: strings as they are, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write(
    name: str,
    content: str = "",
    reasoning: str | None = None,
    calls: Sequence[Spoken] = (),
    later: str = "",
    start: str = "content",
) -> str:
    """Return an answer; from "reasoning" or "header" on, if it starts there."""
    if name == "harmony":
        return write_harmony(content, reasoning, calls, start)
    if name == "kimi_k3":
        return write_kimi_k3(content, reasoning, calls, start)
    out = ""
    if reasoning is not None:
        begin, end = THINKING[name]
        out += ("" if start == "reasoning" else begin) + reasoning + end
    begin, end = WRAPPED.get(name, ("", ""))
    if content:
        out += begin + content + end
    return out + (CALLS[name](calls) if calls else "") + later


def write_harmony(content: str, reasoning: str | None, calls: Sequence[Spoken], start: str) -> str:
    messages = []
    if reasoning is not None:
        messages.append(f"⟦<|channel|>⟧analysis⟦<|message|>⟧{reasoning}")
    if content:
        channel = "commentary" if calls else "final"
        messages.append(f"⟦<|channel|>⟧{channel}⟦<|message|>⟧{content}")
    for call in calls:
        head = f"⟦<|channel|>⟧commentary to=functions.{call.name} ⟦<|constrain|>⟧json"
        messages.append(f"{head}⟦<|message|>⟧{dumps(call.arguments)}")
    out = "⟦<|end|>⟧⟦<|start|>⟧assistant".join(messages)
    out += "⟦<|call|>⟧" if calls else "⟦<|return|>⟧"
    opened = {"reasoning": "analysis", "content": "commentary" if calls else "final"}
    return out.removeprefix(f"⟦<|channel|>⟧{opened.get(start)}⟦<|message|>⟧")


def write_kimi_k3(content: str, reasoning: str | None, calls: Sequence[Spoken], start: str) -> str:
    def element(tag: str, body: str, attributes: str = "") -> str:
        head = f"⟦<|open|>⟧{tag}{attributes}⟦<|sep|>⟧"
        return f"{head}{body}⟦<|close|>⟧{tag}⟦<|sep|>⟧"

    def kind(value: Any) -> str:
        return kind_of(value).replace("integer", "number")

    out = element("think", reasoning) if reasoning is not None else ""
    out += element("response", content) if content or start == "content" else ""
    out = out.removeprefix(f"⟦<|open|>⟧{'think' if start == 'reasoning' else 'response'}⟦<|sep|>⟧")
    said = ""
    for n, call in enumerate(calls):
        body = "".join(
            element("argument", dumps(value), f' key="{key}" type="{kind(value)}"')
            for key, value in call.arguments.items()
        )
        said += element("call", body, f' tool="{call.name}" index="{n + 1}"')
    out += element("tools", said) if calls else ""
    return out + "⟦<|close|>⟧message⟦<|sep|>⟧⟦<|end_of_msg|>⟧"


# -- Calls ----------------------------------------------------------------------------------------


def json_call(call: Spoken, arguments: str = "arguments") -> str:
    return f'{{"name": "{call.name}", "{arguments}": {dumps(call.arguments)}}}'


def hermes(
    calls: Sequence[Spoken], begin: str = "⟦<tool_call>⟧", end: str = "⟦</tool_call>⟧"
) -> str:
    return "".join(f"\n{begin}\n{json_call(call)}\n{end}" for call in calls)


def array(before: str, after: str = "") -> Any:
    return lambda calls: before + "[" + ", ".join(map(json_call, calls)) + "]" + after


def parameters(
    begin: str, end: str, open_call: str, open_value: str, close_value: str, close_call: str
) -> Any:
    """Return a writer of parameters in tags, one block for each call."""

    def written(calls: Sequence[Spoken]) -> str:
        out = ""
        for call in calls:
            out += begin + open_call % call.name
            for key, value in call.arguments.items():
                kind = "true" if isinstance(value, str) else "false"
                out += open_value.replace("KEY", key).replace("KIND", kind)
                out += dumps(value) + close_value
            out += close_call + end
        return out

    return written


def around(begin: str, write_calls: Any, end: str) -> Any:
    return lambda calls: begin + write_calls(calls) + end


QWEN_XML = parameters(
    "\n⟦<tool_call>⟧\n",
    "\n⟦</tool_call>⟧",
    "<function=%s>\n",
    "<parameter=KEY>\n",
    "\n</parameter>\n",
    "</function>",
)
DSML = parameters(
    "",
    "\n",
    '<⟦｜DSML｜⟧invoke name="%s">\n',
    '<⟦｜DSML｜⟧parameter name="KEY" string="KIND">',
    "</⟦｜DSML｜⟧parameter>\n",
    "</⟦｜DSML｜⟧invoke>",
)


def glm(gap: str) -> Any:
    value = f"⟦<arg_key>⟧KEY⟦</arg_key>⟧{gap}⟦<arg_value>⟧"
    return parameters(
        f"{gap}⟦<tool_call>⟧", "⟦</tool_call>⟧", f"%s{gap}", value, f"⟦</arg_value>⟧{gap}", ""
    )


def deepseek(before: str, between: str, after: str, gap: str) -> Any:
    def written(calls: Sequence[Spoken]) -> str:
        bodies = [
            f"⟦<｜tool▁call▁begin｜>⟧{before % call.name}{between}{dumps(call.arguments)}{after}"
            "⟦<｜tool▁call▁end｜>⟧"
            for call in calls
        ]
        return f"⟦<｜tool▁calls▁begin｜>⟧{gap.join(bodies)}⟦<｜tool▁calls▁end｜>⟧"

    return written


def kimi_k2(calls: Sequence[Spoken]) -> str:
    return (
        "⟦<|tool_calls_section_begin|>⟧"
        + "".join(
            f"⟦<|tool_call_begin|>⟧{call.id}⟦<|tool_call_argument_begin|>⟧"
            f"{dumps(call.arguments)}⟦<|tool_call_end|>⟧"
            for call in calls
        )
        + "⟦<|tool_calls_section_end|>⟧"
    )


def mistral(calls: Sequence[Spoken]) -> str:
    out = ""
    for call in calls:
        head = f"⟦[CALL_ID]⟧{call.id}" if call.id else ""
        out += f"⟦[TOOL_CALLS]⟧{call.name}{head}⟦[ARGS]⟧{dumps(call.arguments)}"
    return out


def mistral_array(calls: Sequence[Spoken]) -> str:
    bodies = [
        json_call(call)[:-1] + (f', "id": "{call.id}"}}' if call.id else "}") for call in calls
    ]
    return f"⟦[TOOL_CALLS]⟧ [{', '.join(bodies)}]"


def command_a(calls: Sequence[Spoken]) -> str:
    bodies = [
        f'\n    {{"tool_call_id": "{call.id}", "tool_name": "{call.name}", '
        f'"parameters": {dumps(call.arguments)}}}'
        for call in calls
    ]
    return f"⟦<|START_ACTION|>⟧[{','.join(bodies)}\n]⟦<|END_ACTION|>⟧"


def keyed(calls: Sequence[Spoken]) -> str:
    bodies = ", ".join(f'{{"{call.name}": {dumps(call.arguments)}}}' for call in calls)
    return f"⟦<|tools_prefix|>⟧[{bodies}]⟦<|tools_suffix|>⟧"


def python_list(calls: Sequence[Spoken], gap: str = ", ") -> str:
    return gap.join(
        f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"
        for call in calls
    )


def gemma_value(value: Any, mark: str) -> str:
    if isinstance(value, str):
        return mark + value + mark
    if isinstance(value, list):
        return "[" + ",".join(gemma_value(item, mark) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{gemma_value(v, mark)}" for k, v in value.items()) + "}"
    return dumps(value)


def gemma(begin: str, end: str, mark: str) -> Any:
    return lambda calls: "".join(
        f"{begin}call:{call.name}{gemma_value(call.arguments, mark)}{end}" for call in calls
    )


PLUGIN = "⟦<|action_start|>⟧⟦<|plugin|>⟧\n"
CALLS: dict[str, Any] = {
    "apertus": keyed,
    "command_a": command_a,
    "deepseek_v3_r1": deepseek("function⟦<｜tool▁sep｜>⟧%s", "\n```json\n", "\n```", "\n"),
    "deepseek_v3.1": deepseek("%s", "⟦<｜tool▁sep｜>⟧", "", ""),
    "deepseek_v3.2": around(
        "\n\n<⟦｜DSML｜⟧function_calls>\n", DSML, "</⟦｜DSML｜⟧function_calls>"
    ),
    "deepseek_v4": around("\n\n<⟦｜DSML｜⟧tool_calls>\n", DSML, "</⟦｜DSML｜⟧tool_calls>"),
    "ernie4.5": hermes,
    "functiongemma": gemma("⟦<start_function_call>⟧", "⟦<end_function_call>⟧", "⟦<escape>⟧"),
    "gemma4": gemma("⟦<|tool_call>⟧", "⟦<tool_call|>⟧", '⟦<|"|>⟧'),
    "glm4.5": glm("\n"),
    "glm4.7": glm(""),
    "granite3": array("<tool_call>"),
    "granite4": hermes,
    "hermes2_text": lambda calls: hermes(calls, "<tool_call>", "</tool_call>"),
    "hunyuan_a13b": array("\n<tool_calls>", "</tool_calls>"),
    "internlm2": lambda calls: "".join(
        f"{PLUGIN}{json_call(call, 'parameters')}⟦<|action_end|>⟧" for call in calls
    ),
    "kimi_k2": kimi_k2,
    "lfm2": around("⟦<|tool_call_start|>⟧[", python_list, "]⟦<|tool_call_end|>⟧"),
    "llama3.1_json": lambda calls: "; ".join(json_call(call, "parameters") for call in calls),
    "llama4_pythonic": around("[", python_list, "]"),
    "minimax_m2": around(
        "\n⟦<minimax:tool_call>⟧\n",
        parameters(
            *("", "\n", '<invoke name="%s">\n', '<parameter name="KEY">'),
            *("</parameter>\n", "</invoke>"),
        ),
        "⟦</minimax:tool_call>⟧",
    ),
    "mistral_v3_array": mistral_array,
    "mistral_v11_args": mistral,
    "mistral_small3.2_callid": mistral,
    "nemotron3": QWEN_XML,
    "nemotron_nano_v2": array("<TOOLCALL>", "</TOOLCALL>"),
    "olmo3": lambda calls: f"⟦<function_calls>⟧{python_list(calls, chr(10))}⟦</function_calls>⟧",
    "phi4_mini": array("functools"),
    "qwen3_hermes": hermes,
    "qwen3_coder": QWEN_XML,
    "qwen3.5": QWEN_XML,
    "seed_oss": parameters(
        *("\n⟦<seed:tool_call>⟧\n", "\n⟦</seed:tool_call>⟧", "<function=%s>\n"),
        *("<parameter=KEY>", "</parameter>\n", "</function>"),
    ),
    "step3": around(
        "⟦<｜tool_calls_begin｜>⟧",
        parameters(
            *("⟦<｜tool_call_begin｜>⟧function⟦<｜tool_sep｜>⟧", "⟦<｜tool_call_end｜>⟧"),
            *('<steptml:invoke name="%s">', '<steptml:parameter name="KEY">'),
            *("</steptml:parameter>", "</steptml:invoke>"),
        ),
        "⟦<｜tool_calls_end｜>⟧",
    ),
    "step3.5": QWEN_XML,
}
assert sorted([*CALLS, "harmony", "kimi_k3"]) == list(NAMES)


def expected_id(name: str, call: Spoken) -> str | None:
    """Return the id that the format writes for a call, if it writes one."""
    ids = ("kimi_k2", "command_a", "mistral_v3_array", "mistral_small3.2_callid")
    return call.id if name in ids else None


def schemas_for(calls: Sequence[Spoken]) -> list[dict[str, Any]]:
    """Return OpenAI's list of tools that types the arguments as they are."""

    return [
        {
            "type": "function",
            "function": {
                "name": call.name,
                "parameters": {
                    "type": "object",
                    "properties": {
                        key: {"type": kind_of(value)} for key, value in call.arguments.items()
                    },
                },
            },
        }
        for call in calls
    ]
