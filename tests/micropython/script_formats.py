"""Answers in the formats of models, by ids: a token is a marker, or one other character."""

from say import say

from detok_py import ChatStream, Detokenizer, StreamingDetokenizer, Vocabulary

TOOLS = [{"function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}]
ANSWERS = {
    "qwen3_hermes": '⟦<think>⟧\nHm 👩‍🚀\n⟦</think>⟧\n\nHi <⟦<tool_call>⟧\n{"arguments": {"a": "</tool_call>é"},'
    ' "name": "f"}\n⟦</tool_call>⟧ok⟦<|im_end|>⟧',
    "hermes2_text": 'a <tool_call> b\n<tool_call>\n{"name": "f", "arguments": "{\\"a\\": 1}"}\n</tool_call>',
    "qwen3_coder": "⟦<tool_call>⟧\n<function=f>\n<parameter=a>\n12\n</parameter>\n<parameter=b>\ntrue\n"
    "</parameter>\n</function>\n⟦</tool_call>⟧",
    "seed_oss": "<function=f><parameter=c>{'x': None}</parameter></function>",
    "deepseek_v3.2": '<⟦｜DSML｜⟧function_calls>\n<⟦｜DSML｜⟧invoke name="f">\n<⟦｜DSML｜⟧parameter name="a" string="true">'
    "12</⟦｜DSML｜⟧parameter>\n</⟦｜DSML｜⟧invoke>\n</⟦｜DSML｜⟧function_calls>",
    "deepseek_v3_r1": "⟦<｜tool▁call▁begin｜>⟧function⟦<｜tool▁sep｜>⟧f\n```json\n{}\n```⟦<｜tool▁call▁end｜>⟧",
    "kimi_k2": '⟦<|tool_call_begin|>⟧functions.f:0⟦<|tool_call_argument_begin|>⟧{"a": 1}⟦<|tool_call_end|>⟧',
    "glm4.5": "\nHi⟦<tool_call>⟧f\n⟦<arg_key>⟧a⟦</arg_key>⟧\n⟦<arg_value>⟧1⟦</arg_value>⟧\n⟦</tool_call>⟧",
    "mistral_small3.2_callid": '⟦[TOOL_CALLS]⟧f⟦[CALL_ID]⟧abc⟦[ARGS]⟧{"a": [1]}',
    "llama3.1_json": '{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}',
    "llama4_pythonic": "[f(a=1, b='x\"', c=[True, {'k': None}], d=0x10), g()]",
    "gemma4": '⟦<|channel>⟧thought\nHm⟦<channel|>⟧⟦<|tool_call>⟧call:f{a:⟦<|"|>⟧x⟦<|"|>⟧,b:[1,{c:true}]}⟦<tool_call|>⟧',
    "apertus": '⟦<|tools_prefix|>⟧[{"f": {"a": 1}}, {"g": {}}]⟦<|tools_suffix|>⟧',
    "internlm2": "⟦<|action_start|>⟧⟦<|interpreter|>⟧\nprint(1)\n⟦<|action_end|>⟧",
    "harmony": "⟦<|channel|>⟧analysis⟦<|message|>⟧Hm⟦<|end|>⟧⟦<|start|>⟧assistant⟦<|channel|>⟧commentary to=functions.f"
    ' ⟦<|constrain|>⟧json⟦<|message|>⟧{"a": 1}⟦<|call|>⟧',
    "kimi_k3": "⟦<|open|>⟧response⟦<|sep|>⟧Hi⟦<|close|>⟧response⟦<|sep|>⟧⟦<|open|>⟧tools⟦<|sep|>⟧⟦<|open|>⟧call tool="
    '"f"⟦<|sep|>⟧⟦<|open|>⟧argument key="a" type="string"⟦<|sep|>⟧1⟦<|close|>⟧argument⟦<|sep|>⟧⟦<|close|>⟧call⟦<|sep|>⟧',
}  # fmt: skip

for name in sorted(ANSWERS):
    pieces = []
    special = set()
    for at, part in enumerate(ANSWERS[name].replace("⟧", "⟦").split("⟦")):
        pieces += [part] if at % 2 else list(part)
        if at % 2:
            special.add(part)
    table = sorted(set(pieces))
    ids = [table.index(piece) for piece in pieces]
    vocabulary = Vocabulary.from_bytes(
        [piece.encode() for piece in table], [table.index(part) for part in special]
    )
    for _ in range(2):  # the second time out of the table
        chat = ChatStream(
            Detokenizer(vocabulary), format=name, stop=["\nUser:"], tool_schemas=TOOLS
        )
        for token_id in ids:
            deltas = [
                (delta.channel, delta.text, delta.call, delta.name) for delta in chat.push(token_id)
            ]
            if deltas:
                say(name, deltas)
            state = chat.save(calls=True)
            chat = chat.copy()
            chat.load(state)
        say([(delta.channel, delta.text) for delta in chat.flush()], chat.finish_reason)
        calls = chat.calls
        say([(call.id, call.name, call.arguments, call.complete) for call in calls])

for name in sorted(ANSWERS):
    data = ANSWERS[name].replace("⟦", "").replace("⟧", "").encode()
    chat = ChatStream(StreamingDetokenizer(), format=name, tool_schemas=TOOLS)
    for at in range(0, len(data), 3):
        said = chat.feed(data[at : at + 3])
        say(name, [(delta.channel, delta.text, delta.call, delta.name) for delta in said])
    say([(delta.channel, delta.text) for delta in chat.flush()])
    say([(call.id, call.name, call.arguments, call.complete) for call in chat.calls])

chat = ChatStream(StreamingDetokenizer(), stop=["\n", '"x'], format="json")
for piece in (' {"a": "b\n\\"', '"x', '", "c": [1]}', "\nmore"):
    say([(delta.channel, delta.text) for delta in chat.feed(piece.encode())], chat.complete)
    state = chat.save()
    chat = chat.copy()
    chat.load(state)
say(chat.finish_reason, chat.stopped)
