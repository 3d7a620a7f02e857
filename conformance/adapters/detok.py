"""detok_py: `detok conformance --adapter adapters/detok.py:adapter`."""

import detok_py

SYSTEM = f"detok_py {detok_py.__version__}"
PURPOSE = "streaming detokenizer for Python, browsers and MicroPython"
_vocabularies = {}


def vocabulary_of(case):
    """Return the vocabulary of a case: its tokenizer.json is read once."""
    name = case["vocabulary"]
    if name not in _vocabularies:
        found = case["tokenizer"]
        pieces = found["model"]["vocab"] | {t["content"]: t["id"] for t in found["added_tokens"]}
        special = [t["id"] for t in found["added_tokens"] if t["special"]]
        ordered = sorted(pieces, key=pieces.get)
        _vocabularies[name] = detok_py.Vocabulary.from_pieces(ordered, found["decoder"], special)
    return _vocabularies[name]


class Chat:
    """A ChatStream: its deltas as pairs, or as text where the case asks for no channels."""

    def __init__(self, stream, options):
        self.stream, self.channels = stream, "reasoning" in options or "tools" in options
        self.chat = detok_py.ChatStream(
            stream,
            options.get("stop", ()),
            eos_ids=options.get("eos", ()),
            reasoning=options.get("reasoning"),
            tools=options.get("tools"),
            start=options.get("start", "content"),
            trim_artifacts=options.get("trim", False),
            stop_ids=options.get("stop_ids", ()),
            include_stop=options.get("include_stop", False),
            stop_scope=options.get("stop_scope", "content"),
            min_tokens=options.get("min_tokens", 0),
            max_tokens=options.get("max_tokens"),
        )
        self.mark = self.chat.mark

    def push(self, chunk):
        return self.out(self.chat.feed(chunk))

    def flush(self):
        return self.out(self.chat.flush())

    def reset(self):
        self.chat.reset()

    def rollback(self, mark):
        return sum(self.chat.rollback(mark).values())

    def reason(self):
        return self.chat.finish_reason

    def spans(self):
        return self.chat.detokenizer.spans

    def out(self, deltas):
        if self.channels:
            return [tuple(delta) for delta in deltas]
        return "".join([delta.text for delta in deltas])


class Answer:
    """A ChatStream in a format: its deltas, and its calls."""

    def __init__(self, stream, options):
        self.chat = detok_py.ChatStream(
            stream,
            format=options["format"],
            start=options.get("start", "content"),
            tool_schemas=options.get("tool_schemas"),
            trim_artifacts=False,
        )

    def push(self, ids):
        return [self.out(delta) for delta in self.chat.feed(ids)]

    def flush(self):
        return [self.out(delta) for delta in self.chat.flush()]

    def calls(self):
        return [{"id": call.id, "complete": call.complete} for call in self.chat.calls]

    def out(self, delta):
        if delta.channel != "tool_call":
            return {delta.channel: delta.text}
        name = {} if delta.name is None else {"name": delta.name}
        return {"call": delta.call, **name, "arguments": delta.text}


class Plain:
    """A StreamingDetokenizer or a Detokenizer, by the names of the suite."""

    def __init__(self, stream):
        self.push, self.flush, self.reset = stream.feed, stream.flush, stream.reset
        self.mark, self.rollback = stream.mark, stream.rollback
        self.spans = lambda: stream.spans


class Text:
    """Text as it is, where the stage that joins surrogate pairs is not there."""

    def feed(self, chunk):
        return chunk

    def flush(self):
        return ""

    def save(self):
        return None

    def load(self, state):
        pass

    def reset(self):
        pass


try:
    from detok_py.integrations.openai import TextStage
except ImportError:  # the wheel for browsers is without it
    TextStage = Text


def adapter(case):
    options = case.get("options", {})
    if case["input"] == "bytes":
        stream = detok_py.StreamingDetokenizer(options.get("errors", "replace"))
    elif case["input"] == "text":
        return Chat(TextStage(), options)
    else:
        names = (
            "skip_special_tokens",
            "byte_fallback",
            "clean_up_tokenization_spaces",
            "spaces_between_special_tokens",
        )
        given = {name: options[name] for name in names if name in options}
        stream = detok_py.Detokenizer(
            vocabulary_of(case), case.get("prompt", ()), spans="spans" in case, **given
        )
    if "format" in options:
        return Answer(stream, options)
    filters = ("stop", "eos", "stop_ids", "max_tokens", "reasoning", "tools", "trim")
    return Chat(stream, options) if any(name in options for name in filters) else Plain(stream)
