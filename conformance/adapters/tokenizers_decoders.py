"""Hugging Face tokenizers: its DecodeStream, its `decode` of all ids so far, and the rules of Text
Generation Inference and of Dynamo, written from their published sources.

The last two cannot be had from a package index: TGI is in none, and that of Dynamo exports no
decoder. Both decode two windows of ids anew for each token, and show by how much the second is
longer. Sources: text-generation-inference, `Model.decode_token` in
server/text_generation_server/models/model.py; dynamo, `DecodeStream` in lib/llm/src/tokenizers.rs.
"""

import functools
import json

import tokenizers
from tokenizers.decoders import DecodeStream

VERSION = f"tokenizers {tokenizers.__version__}"
PURPOSE = "ids to text in an engine; it has no end of a stream"
CONTEXT = 5  # ids of the prompt that are decoded with the answer


@functools.cache
def tokenizer_of(document):
    return tokenizers.Tokenizer.from_str(document)


def decoder_of(case, skip):
    decode = tokenizer_of(json.dumps(case["tokenizer"])).decode
    return functools.partial(decode, skip_special_tokens=skip)


def skips(case):
    return case.get("options", {}).get("skip_special_tokens", True)


def claims(case):
    options = case.get("options", {})
    known = {"skip_special_tokens", "byte_fallback", "added_tokens"}
    return (
        case["input"] == "ids"
        and not options.keys() - known
        and options.get("byte_fallback") != "utf8"
    )


class Stream:
    def __init__(self, tokenizer, prompt, skip):
        self.tokenizer = tokenizer
        self.stream = DecodeStream(ids=prompt or None, skip_special_tokens=skip)

    def push(self, ids):
        return self.stream.step(self.tokenizer, ids) if ids else ""

    def flush(self):
        return ""


class Whole:
    """All ids so far, shown anew after each one."""

    def __init__(self, decode):
        self.decode, self.ids = decode, []

    def push(self, ids):
        shown = self.decode(self.ids + ids)
        self.ids += ids
        return {"shown": shown}

    def flush(self):
        return {"shown": self.decode(self.ids)}


class Window:
    """Two windows: one ends where text was shown last, the other with the newest id."""

    def __init__(self, decode, units, prompt):
        self.decode, self.units, self.ids = decode, units, list(prompt)
        self.begin, self.read = max(len(prompt) - CONTEXT, 0), len(prompt)

    def push(self, ids):
        return "".join([self.step(i) for i in ids])

    def step(self, i):
        self.ids.append(i)
        known = self.units(self.decode(self.ids[self.begin : self.read]))
        now = self.units(self.decode(self.ids[self.begin :]))
        if len(now) <= len(known) or self.units("\ufffd") == now[-len(self.units("\ufffd")) :]:
            return ""
        self.begin, self.read = self.read, len(self.ids)
        rest = now[len(known) :]
        return rest if isinstance(rest, str) else rest.decode()

    def flush(self):
        return ""


def stream(case):
    if not claims(case):
        return None
    tokenizer = tokenizer_of(json.dumps(case["tokenizer"]))
    return Stream(tokenizer, case.get("prompt", []), skips(case))


def whole(case):
    if not claims(case) or "prompt" in case:
        return None
    return Whole(decoder_of(case, skips(case)))


def tgi(case):
    """Characters are counted, and special tokens are not skipped: its clients are told which."""
    if not claims(case):
        return None
    special = {t["id"] for t in case["tokenizer"]["added_tokens"] if t["special"]}
    used = {i for step in case["steps"] for i in step.get("in", ())} | {*case.get("prompt", ())}
    if special & used and skips(case):
        return None
    return Window(decoder_of(case, False), str, case.get("prompt", []))


def dynamo(case):
    """Bytes are counted; where they end inside a character, Rust panics."""
    if not claims(case):
        return None
    return Window(decoder_of(case, skips(case)), str.encode, case.get("prompt", []))


stream.SYSTEM = f"{VERSION}, DecodeStream"
stream.PURPOSE = (
    "ids to text as they come, with any decoder of tokenizer.json; it has no end of a stream"
)
whole.SYSTEM = f"{VERSION}, decode of all ids so far"
whole.PURPOSE = "ids to text, of a whole text"
tgi.SYSTEM = f"Text Generation Inference's rule (decode_token), with {VERSION}"
dynamo.SYSTEM = f"Dynamo's rule (DecodeStream), with {VERSION}"
