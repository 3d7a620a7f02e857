"""The rules of Text Generation Inference and of Dynamo, written from their published sources.

Neither can be had from a package index: TGI is in none, and that of Dynamo exports no
decoder. Both decode two windows of ids anew for each token, and show by how much the second is
longer. Sources: text-generation-inference, `Model.decode_token` in
server/text_generation_server/models/model.py; dynamo, `DecodeStream` in lib/llm/src/tokenizers.rs.
"""

import functools
import json

import tokenizers

PURPOSE = "ids to text in an engine; it has no end of a stream"
CONTEXT = 5  # ids of the prompt that are decoded with the answer


@functools.cache
def tokenizer_of(document):
    return tokenizers.Tokenizer.from_str(document)


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


def claims(case):
    options = case.get("options", {})
    known = {"skip_special_tokens", "byte_fallback", "added_tokens"}
    return (
        case["input"] == "ids"
        and not options.keys() - known
        and options.get("byte_fallback") != "utf8"
    )


def tgi(case):
    """Characters are counted, and special tokens are not skipped: its clients are told which."""
    if not claims(case):
        return None
    special = {t["id"] for t in case["tokenizer"]["added_tokens"] if t["special"]}
    used = {i for step in case["steps"] for i in step.get("in", ())} | {*case.get("prompt", ())}
    if special & used and case.get("options", {}).get("skip_special_tokens", True):
        return None
    tokenizer = tokenizer_of(json.dumps(case["tokenizer"]))
    decode = functools.partial(tokenizer.decode, skip_special_tokens=False)
    return Window(decode, str, case.get("prompt", []))


def dynamo(case):
    """Bytes are counted; where they end inside a character, Rust panics."""
    if not claims(case):
        return None
    skip = case.get("options", {}).get("skip_special_tokens", True)
    tokenizer = tokenizer_of(json.dumps(case["tokenizer"]))
    decode = functools.partial(tokenizer.decode, skip_special_tokens=skip)
    return Window(decode, str.encode, case.get("prompt", []))


tgi.SYSTEM = (
    f"Text Generation Inference's rule (decode_token), with tokenizers {tokenizers.__version__}"
)
dynamo.SYSTEM = f"Dynamo's rule (DecodeStream), with tokenizers {tokenizers.__version__}"
