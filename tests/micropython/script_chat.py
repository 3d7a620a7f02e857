"""Text to a chat: stops, reasoning, tool calls and markers, cut at random; from bytes and from ids;
saved and taken up in mid-stream.
"""

import json

from say import Numbers, say

from detok_py import (
    ChatStream,
    Detokenizer,
    StopStrings,
    StreamingDetokenizer,
    Vocabulary,
    strip_thinking,
)

PARTS = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", "STOP", "ST", "<", "<think", "OP", "</th", "ink>", "<|im_end|>", "<|im_",
    "<|im_start|>assistant\n", "é", "你好", "👩‍🚀", " ", "\n", "x", '{"a":1}', "�", "ok. ",
]  # fmt: skip

numbers = Numbers(23)


def cut(data, most):
    """Return `data` in pieces of 1 to `most`."""
    pieces = []
    at = 0
    while at < len(data):
        size = 1 + numbers.below(most)
        pieces.append(data[at : at + size])
        at += size
    return pieces


for _ in range(150):
    text = "".join([numbers.choose(PARTS) for _ in range(3 + numbers.below(12))])
    stops = StopStrings(["STOP", "OPé", "ok. ok"], include=numbers.below(2) == 1)
    say(
        text,
        [stops.feed(piece) for piece in cut(text, 3)],
        stops.flush(),
        stops.stopped,
        strip_thinking(text),
    )
    chat = ChatStream(
        StreamingDetokenizer(), stop=["STOP", "OPé"], start=numbers.choose(["content", "reasoning"])
    )
    deltas = []
    for piece in cut(text.encode(), 4):
        deltas.append([(delta.channel, delta.text) for delta in chat.feed(piece)])
        if numbers.below(5) == 0:
            chat.load(json.loads(json.dumps(chat.save())))
    say(deltas, [(delta.channel, delta.text) for delta in chat.flush()], chat.finish_reason)

table = [part.encode() for part in PARTS] + [b"\xf0\x9f", b"\x91\xa9", b"\xff", b"<eos>"]
vocabulary = Vocabulary.from_bytes(table, special_ids=[len(table) - 1], eos_ids=[len(table) - 1])
for _ in range(150):
    ids = [numbers.below(len(table) - (1 if numbers.below(4) else 0)) for _ in range(10)]
    chat = ChatStream(
        Detokenizer(vocabulary),
        stop=["STOP"],
        eos_ids=vocabulary.eos_ids,
        trim_artifacts=numbers.below(2) == 1,
    )
    deltas = [[(delta.channel, delta.text) for delta in chat.feed(piece)] for piece in cut(ids, 3)]
    say(ids, deltas, [(delta.channel, delta.text) for delta in chat.flush()], chat.finish_reason)
