"""openai-harmony's StreamableParser: gpt-oss's own format, by ids.

It knows the vocabulary o200k_base, whose file it looks for in the folder that the environment
variable TIKTOKEN_ENCODINGS_BASE names, or else downloads. The suite's tokens are given as those of
that vocabulary with the same bytes, or as one token a byte.
"""

import functools
import importlib.metadata
import os
from pathlib import Path

import openai_harmony
import tiktoken.load
from tokenizers import decoders

SYSTEM = f"openai-harmony {importlib.metadata.version('openai-harmony')}, StreamableParser"
PURPOSE = "ids of gpt-oss to channels, recipients and text"
OPENED = {"header": "", "reasoning": "analysis", "content": "final"}


@functools.cache
def encoding():
    return openai_harmony.load_harmony_encoding("HarmonyGptOss")


@functools.cache
def ranks():
    file = Path(os.environ["TIKTOKEN_ENCODINGS_BASE"], "o200k_base.tiktoken")
    return tiktoken.load.load_tiktoken_bpe(str(file))


@functools.cache
def ids_of(piece, special):
    if special:
        return encoding().encode(piece, allowed_special="all")
    # Each letter of a piece is a byte, in the order of a byte-level vocabulary.
    data = b"".join(BYTES[letter] for letter in piece)
    known = ranks().get(data)
    return [ranks()[bytes([byte])] for byte in data] if known is None else [known]


PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
HIDDEN = [byte for byte in range(256) if byte not in PRINTED]
BYTES = {chr(byte): bytes([byte]) for byte in PRINTED}
BYTES |= {chr(256 + at): bytes([byte]) for at, byte in enumerate(HIDDEN)}
assert decoders.ByteLevel().decode(["ĠÃ©"]) == " é"


class Stream:
    def __init__(self, case):
        document = case["tokenizer"]
        self.pieces = {at: (piece, False) for piece, at in document["model"]["vocab"].items()}
        self.pieces |= {t["id"]: (t["content"], True) for t in document["added_tokens"]}
        self.parser = openai_harmony.StreamableParser(
            encoding(), role=openai_harmony.Role.ASSISTANT
        )
        self.count, self.messages, self.over = -1, -1, False
        channel = OPENED[case["options"].get("start", "content")]
        if channel:
            header = f"<|channel|>{channel}<|message|>"
            list(self.take(encoding().encode(header, allowed_special="all")))

    def push(self, ids):
        return [delta for i in ids for delta in self.take(ids_of(*self.pieces[i]))]

    def flush(self):
        self.parser.process_eos()
        return self.deltas()

    def take(self, ids):
        for token in ids:
            if self.over:
                break
            self.parser.process(token)
            self.over = token in encoding().stop_tokens_for_assistant_actions()
            yield from self.deltas()

    def deltas(self):
        parser = self.parser
        recipient, text = parser.current_recipient, parser.last_content_delta or ""
        if recipient is None:
            channel = "reasoning" if parser.current_channel == "analysis" else "content"
            return [{channel: text}] if text else []
        name = {}
        if self.messages != len(parser.messages):
            self.messages, self.count = len(parser.messages), self.count + 1
            name = {"name": recipient.removeprefix("functions.")}
        return [{"call": self.count, **name, "arguments": text}] if name or text else []


def adapter(case):
    options = case.get("options", {})
    # The arguments of built-in tools are no JSON.
    if options.get("format") != "harmony" or "policies" in options:
        return None
    return None if "to=python" in case["answer"] or "to=browser" in case["answer"] else Stream(case)
