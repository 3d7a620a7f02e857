"""tiktoken: each token decoded by itself, and all ids so far, shown anew."""

import functools
import json

import tiktoken

PURPOSE = "ids to text, of a whole text"
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
BYTE = {chr(b): b for b in PRINTABLE} | {chr(256 + n): b for n, b in enumerate(OTHERS)}


@functools.cache
def encoding_of(document):
    found = json.loads(document)
    ranks = {bytes(BYTE[x] for x in piece): i for piece, i in found["model"]["vocab"].items()}
    special = {token["content"]: token["id"] for token in found["added_tokens"]}
    return tiktoken.Encoding(
        "case", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens=special
    )


class Stream:
    def __init__(self, encoding, whole):
        self.decode, self.whole, self.ids = encoding.decode, whole, []

    def push(self, ids):
        if not self.whole:
            return "".join([self.decode([i]) for i in ids])
        shown = self.decode(self.ids + ids)
        self.ids += ids
        return {"shown": shown}

    def flush(self):
        return {"shown": self.decode(self.ids)} if self.whole else ""


def adapter(case, whole):
    # Added tokens are special tokens there, and shown.
    if case["input"] != "ids" or case["vocabulary"] != "byte-level" or "prompt" in case:
        return None
    added = {token["id"] for token in case["tokenizer"]["added_tokens"]}
    used = {i for step in case["steps"] for i in step.get("in", ())}
    if case.get("options", {}).keys() - {"skip_special_tokens"} or added & used:
        return None
    return Stream(encoding_of(json.dumps(case["tokenizer"])), whole)


each = functools.partial(adapter, whole=False)
whole = functools.partial(adapter, whole=True)
each.SYSTEM = f"tiktoken {tiktoken.__version__}, decode of each id by itself"
whole.SYSTEM = f"tiktoken {tiktoken.__version__}, decode of all ids so far"
