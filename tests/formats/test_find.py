"""Which format a chat template or a vocabulary speaks, and in what an answer begins."""

import json
import lzma
import pickle
from pathlib import Path

import pytest
from small_tokenizers import STRING, added, byte_level, gguf, gpt2_values, rank_file, tekken, write

from detok_py import ChatFormat, TokenizerFormatError, load_tokenizer
from detok_py.formats.find import RULES, find_format, find_start
from detok_py.formats.table import FORMATS


def no_token(spelling):
    return False


def is_tool_call(spelling):
    return spelling == "<tool_call>"


# What a template of each format writes of a call, in few words.
TEMPLATES = {
    "apertus": "<|tools_prefix|>[{{ calls }}]<|tools_suffix|>",
    "command_a": "<|START_ACTION|>[{{ calls }}]<|END_ACTION|>",
    "deepseek_v3_r1": "function<｜tool▁sep｜>{{ name }}\n```json\n{{ arguments }}\n```",
    "deepseek_v3.1": "{{ name }}<｜tool▁sep｜>{{ arguments }}",
    "deepseek_v3.2": "{% set m = '｜DSML｜' %}<{{ m }}function_calls>{{ message.tool_calls }}",
    "deepseek_v4": "{% set m = '｜DSML｜' %}<{{ m }}tool_calls>{{ message.tool_calls }}",
    "ernie4.5": '<think></think><response></response><tool_call>{"name": {{ n }}}',
    "functiongemma": "<start_function_call>call:{{ name }}",
    "gemma4": "<|channel>thought<channel|><|tool_call>call:{{ name }}<tool_call|>",
    "glm4.5": "<tool_call>{{ name }}\n<arg_key>{{ k }}</arg_key>\n<arg_value>",
    "glm4.7": "<tool_call>{{ name }}<arg_key>{{ k }}</arg_key><arg_value>",
    "granite3": "<|start_of_role|>assistant<|end_of_role|><|tool_call|>[{{ calls }}]",
    "granite4": '<|start_of_role|>assistant<|end_of_role|><tool_call>{"name": {{ n }}}',
    "harmony": "<|start|>assistant<|channel|>final<|message|>{{ text }}",
    "hunyuan_a13b": '<think></think><answer></answer><tool_calls>[{"name": {{ n }}}]',
    "internlm2": "<|action_start|><|plugin|>\n{{ call }}",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}",
    "kimi_k3": "<|open|>think<|sep|><|close|>think<|sep|><|end_of_msg|>",
    "lfm2": "List of tools: <|tool_list_start|>[{{ tools }}]<|tool_list_end|>",
    "llama3.1_json": "Environment: ipython\n{{ tools }}",
    "llama4_pythonic": "Write [func_name1(a=1), func_name2()].<|python_start|>",
    "minimax_m2": '<think><minimax:tool_call><invoke name="{{ name }}">',
    "mistral_v3_array": "[INST]{{ text }}[/INST][TOOL_CALLS][{{ calls }}]",
    "mistral_v11_args": "[INST]{{ text }}[/INST][TOOL_CALLS]{{ name }}[ARGS]{{ arguments }}",
    "mistral_small3.2_callid": "[TOOL_CALLS]{{ name }}[CALL_ID]{{ id }}[ARGS]{{ arguments }}",
    "nemotron3": "{{ truncate_history_thinking }}<think><tool_call><function=f><parameter=k>",
    "nemotron_nano_v2": "<think><TOOLCALL>[{{ calls }}]</TOOLCALL>",
    "olmo3": "<function_calls>{{ call }}</function_calls>",
    "phi4_mini": "<|tool|>{{ tools }}<|/tool|>",
    "qwen3_hermes": '<|im_start|><think></think><tool_call>{\\"name\\": {{ n }}}</tool_call>',
    "qwen3_coder": "<tool_call>\n<function={{ name }}>\n<parameter={{ k }}>",
    "qwen3.5": "<think>\n<tool_call>\n<function={{ name }}>\n<parameter={{ k }}>",
    "seed_oss": "<seed:tool_call><function={{ name }}><parameter={{ k }}>",
    "step3": 'function<｜tool_sep｜><steptml:invoke name="{{ name }}">',
    "step3.5": "<think><tool_call><function=f><parameter=k><|im_start|>tool_response",
}


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_a_format_is_found_by_what_its_template_writes(name):
    found = find_format(TEMPLATES[name], is_tool_call)
    assert found.name == name
    assert found.found_by.startswith("chat template: ")


def test_markers_that_are_no_tokens_are_those_of_the_text_format():
    assert find_format(TEMPLATES["qwen3_hermes"], no_token).name == "hermes2_text"
    assert set(TEMPLATES) | {"hermes2_text"} == set(FORMATS)


@pytest.mark.parametrize("rule", RULES, ids=[str(n) for n in range(len(RULES))])
def test_no_rule_hides_another(rule):
    def has_token(spelling):
        return spelling in rule.tokens or (rule.has and spelling not in rule.no_tokens)

    found = find_format(" ".join(rule.has), has_token)
    assert found.name == rule.name
    assert all(each in found.found_by for each in rule.has + rule.tokens)
    assert set(rule.also) <= set(FORMATS)


@pytest.mark.parametrize(
    "template",
    [
        "",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}",
        "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>",
        "[INST] {{ m.content }} [/INST]",
        # Calls that no format of the table reads.
        'Environment: ipython\n<function=f>{"a": 1}</function><|python_tag|>',
        "<|im_start|><think></think>{{ message.tool_calls }}<function name='f'><param name='k'>",
        "]<]minimax[>[<tool_call>]<]minimax[>[<f>\"name\"",
        "<|message|><atem:function_calls>",
        '<tool_calls>\n{"name": "f"}\n</tool_calls>',
        "<｜User｜>{{ text }}<｜Assistant｜>",
        # Of other markers these are parts.
        "<|channel>final",
        "<tool_call|>",
        "TOOL_CALLS, functools and function_calls",
        "<arg_key:opensource>{{ k }}</arg_key:opensource>",
        '<function_calls><invoke name="f">',
    ],
)  # fmt: skip
def test_what_only_looks_like_a_format_is_none(template):
    # In a vocabulary whose template says nothing of calls, these tokens say nothing either.
    tokens = ("<tool_call>", "</tool_call>", "<think>", "<|python_tag|>") if template else ()
    assert find_format(template, lambda spelling: spelling in tokens) is None


def test_reasoning_alone_is_read_as_the_most_common_format_does():
    found = find_format("<think>\n{{ m.reasoning }}\n</think>", no_token)
    assert found == ("qwen3_hermes", "chat template: <think>")


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        (("<|tool_call>", "<tool_call|>", "<|channel>"), "gemma4"),
        (("<|channel|>", "<|message|>", "<|constrain|>"), "harmony"),
        (("[TOOL_CALLS]",), "mistral_v3_array"),
        (("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"), "mistral_v11_args"),
        (("<tool_call>", "</tool_call>", "<arg_key>", "<arg_value>"), "glm4.5"),
        (("<tool_call>", "</tool_call>", "<think>"), "qwen3_hermes"),
        (("<tool_call>", "</tool_call>", "<|start_of_role|>"), "granite4"),
        (("<|python_tag|>", "<|python_start|>"), "llama4_pythonic"),
        (("<|python_tag|>",), "llama3.1_json"),
        # Two formats that exclude each other: nothing decides.
        (("<｜tool▁sep｜>", "<｜tool▁call▁begin｜>"), None),
        (("｜DSML｜",), None),
        (("<|im_start|>", "<|im_end|>"), None),
        (("<think>", "</think>"), None),
    ],
)
def test_special_tokens_decide_where_there_is_no_template(tokens, name):
    found = find_format(None, lambda spelling: spelling in tokens)
    assert (found and found.name) == name
    if found:
        assert found.found_by.startswith("special tokens: ")


def test_what_fits_as_well_is_told():
    tokens = ("<tool_call>", "</tool_call>")
    assert find_format(None, lambda spelling: spelling in tokens).found_by == (
        "special tokens: <tool_call>, </tool_call>; fits also qwen3_coder, qwen3.5"
    )


def test_a_response_template_decides_if_the_chat_template_does_not():
    response = {"fields": {"tool_calls": {"open": "<seed:tool_call>", "repeats": True}}}
    assert find_format("{{ text }}", no_token, response) == (
        "seed_oss",
        "response template: <seed:tool_call>",
    )
    assert find_format(TEMPLATES["harmony"], no_token, response).name == "harmony"


@pytest.mark.parametrize(
    ("name", "tail", "start"),
    [
        ("qwen3_hermes", "<|im_start|>assistant\n", "content"),
        ("qwen3_hermes", "<|im_start|>assistant\n<think>", "reasoning"),
        ("qwen3_hermes", "<|im_start|>assistant\n<think>\n", "reasoning"),
        ("qwen3_hermes", "<|im_start|>assistant\n<think>\nThe user", "reasoning"),
        ("qwen3_hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\n", "content"),
        ("qwen3_hermes", "What is <think>?<|im_end|>\n<|im_start|>assistant\n", "content"),
        ("hermes2_text", "<|im_start|>assistant\n<think>\n", "reasoning"),
        ("qwen3_hermes", "", "content"),
        ("harmony", "<|start|>assistant", "header"),
        ("harmony", "<|start|>assistant<|channel|>analysis<|message|>", "reasoning"),
        ("harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant", "header"),
        ("harmony", "<|start|>assistant<|channel|>final<|message|>", "content"),
        ("kimi_k3", "<|open|>think<|sep|>", "reasoning"),
        ("kimi_k3", "<|open|>think<|sep|><|close|>think<|sep|><|open|>response<|sep|>", "content"),
        ("gemma4", "<|turn>model\n<|channel>thought\n", "reasoning"),
        ("gemma4", "<|turn>model\n<|channel>thought\n<channel|>", "content"),
        ("deepseek_v3.1", "<｜Assistant｜><think>", "reasoning"),
        ("deepseek_v3.1", "<｜Assistant｜></think>", "content"),
        ("glm4.5", "<|assistant|>\n<think></think>", "content"),
        ("minimax_m2", "]~b]ai\n<think>\n", "reasoning"),
        ("minimax_m2", "a <think> of mine[e~[\n]~b]ai\n", "content"),
        ("seed_oss", "<seed:bos>assistant\n<seed:think>", "reasoning"),
        ("command_a", "<|CHATBOT_TOKEN|><|START_THINKING|>", "reasoning"),
        ("command_a", "<|START_THINKING|><|END_THINKING|><|START_RESPONSE|>", "content"),
        ("mistral_v11_args", "What is <think>?[/INST]", "content"),
        ("llama3.1_json", "<think>", "content"),
    ],
)
def test_the_end_of_the_prompt_says_in_what_an_answer_begins(name, tail, start):
    assert find_start(name, tail) == start


# ---------------------------------------------------------------- files

HERMES = TEMPLATES["qwen3_hermes"]


def tokens(**beside):
    document = byte_level(added_tokens=[added("<tool_call>", 300, special=False)])
    files = {"tokenizer.json": document, **beside}
    return {
        name: value.encode() if isinstance(value, str) else json.dumps(value).encode()
        for name, value in files.items()
    }


@pytest.mark.parametrize(
    "beside",
    [
        {"tokenizer_config.json": {"chat_template": HERMES}},
        {
            "tokenizer_config.json": {
                "chat_template": [
                    {"name": "default", "template": "{{ text }}"},
                    {"name": "tool_use", "template": HERMES},
                ]
            }
        },
        {"chat_template.jinja": HERMES},
        {"chat_template.json": {"chat_template": HERMES}},
        {
            "tokenizer_config.json": {"chat_template": TEMPLATES["harmony"]},
            "chat_template.jinja": HERMES,
        },
    ],
)
def test_a_template_is_read_from_the_files_beside(beside, tmp_path):
    for name, content in tokens(**beside).items():
        (tmp_path / name).write_bytes(content)
    for source in (tokens(**beside), tmp_path, tmp_path / "tokenizer.json"):
        tokenizer = load_tokenizer(source)
        assert HERMES in tokenizer.chat_template
        assert tokenizer.chat_format.name == "qwen3_hermes"
    assert pickle.loads(pickle.dumps(tokenizer)).chat_format.name == "qwen3_hermes"


def test_a_file_without_a_template_has_its_tokens_only(tmp_path):
    tokenizer = load_tokenizer(byte_level())
    assert (tokenizer.chat_template, tokenizer.chat_format) == (None, None)
    config = {"response_template": {"open": "<seed:tool_call>"}}
    found = load_tokenizer(tokens(**{"tokenizer_config.json": config})).chat_format
    assert found.found_by == "response template: <seed:tool_call>"


def test_a_damaged_file_with_a_template_is_refused():
    with pytest.raises(TokenizerFormatError, match=r"chat_template\.json is not JSON"):
        load_tokenizer(tokens(**{"chat_template.json": '{"chat_template": '}))
    assert (
        load_tokenizer(tokens(**{"chat_template.json": {"chat_template": 3}})).chat_format is None
    )


def test_gguf_and_tekken_files_have_templates(tmp_path):
    key = "tokenizer.chat_template"
    values = {**gpt2_values(), key: (STRING, "{{ text }}")}
    assert load_tokenizer(gguf(values)).chat_format is None
    values[key + ".tool_use"] = (STRING, TEMPLATES["harmony"])
    assert load_tokenizer(gguf(values)).chat_format.name == "harmony"
    write(tmp_path, tekken(), "tekken.json")
    (tmp_path / "chat_template.jinja").write_text("[TOOL_CALLS]{{ n }}[ARGS]")
    assert load_tokenizer(tmp_path).chat_format.name == "mistral_v11_args"


def test_a_rank_file_does_not_take_the_template_of_another_model(tmp_path):
    (tmp_path / "r50k_base.tiktoken").write_bytes(rank_file())
    (tmp_path / "chat_template.jinja").write_text(HERMES)
    assert load_tokenizer(tmp_path / "r50k_base.tiktoken").chat_format is None


# What each real tokenizer speaks; all others are of models without such markup.
SPEAKS = {
    "deepseek_v3/tokenizer.json": "deepseek_v3_r1",
    "mistral_nemo/tekken_240718.json": "mistral_v3_array",
    "mistral_nemo/tokenizer.json": "mistral_v3_array",
    "qwen2_5/tokenizer.json": "qwen3_hermes",
    "qwen3/derived-vocab.gguf": "qwen3_hermes",
    "qwen3/tokenizer.json": "qwen3_hermes",
}


@pytest.mark.full
def test_real_tokenizers_speak_what_their_models_do(data, tmp_path):
    found = {}
    for folder in sorted(path for path in (data / "tokenizers").iterdir() if path.is_dir()):
        (tmp_path / folder.name).mkdir()
        files = [unpacked(path, tmp_path / folder.name) for path in folder.iterdir()]
        for file in files:
            if file.suffix in (".gguf", ".tiktoken", ".model", ".txt") or (
                file.name.startswith(("tokenizer.json", "tekken"))
            ):
                spoken = load_tokenizer(file).chat_format
                found[f"{folder.name}/{file.name}"] = spoken and spoken.name
    assert len(found) > 25
    assert {name: spoken for name, spoken in found.items() if spoken} == SPEAKS


def unpacked(path: Path, folder: Path) -> Path:
    data = path.read_bytes()
    out = folder / path.name.removesuffix(".xz")
    out.write_bytes(lzma.decompress(data) if path.suffix == ".xz" else data)
    return out


def test_a_format_has_a_name():
    assert ChatFormat.names() == sorted(FORMATS)
    for name in ChatFormat.names():
        assert ChatFormat.named(name).name == name
    with pytest.raises(ValueError, match=r"named 'glm4'; near are .*glm4\.5, glm4\.7"):
        ChatFormat.named("glm4")
