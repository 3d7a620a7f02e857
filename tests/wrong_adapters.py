"""Decoders that are wrong on purpose, each in one way, as adapters of the conformance suite.

In: a case. Out: a stream that is right but for one fault, or None where the case does not have what
the fault is about. A case is worth having if one of them fails it. Most faults are those of a
decoder in the wild, or that detok_py had itself. Left out are faults that any set of cases finds
if it finds another fault of this file.
"""

import importlib
import itertools
import re

from laws.reference import decode

from detok_py.decode.detokenizer import Detokenizer
from detok_py.decode.stop_strings import StopStrings

ours = importlib.import_module("adapters.detok")


def options_of(case):
    return case.get("options", {})


def with_options(case, **changed):
    """Return a case with other options; None leaves one out."""
    options = {**options_of(case), **changed}
    return {**case, "options": {k: v for k, v in options.items() if v is not None}}


def ignoring(name):
    """Return an adapter that does not look at an option, or at the prompt."""

    def adapter(case):
        if name == "prompt":
            return ours.adapter({**case, "prompt": []}) if "prompt" in case else None
        return (
            ours.adapter(with_options(case, **{name: None})) if name in options_of(case) else None
        )

    return adapter


def every_block_is_the_first(case):
    """Later blocks of reasoning are text, also where all count."""
    pairs = options_of(case).get("reasoning", [])
    return ours.adapter(with_options(case, reasoning=[p[:2] for p in pairs])) if pairs else None


def first_pair_only(case):
    """Of several pairs of tags the first is known."""
    for name in ("reasoning", "tools"):
        pairs = options_of(case).get(name, [])
        if len(pairs) > 1:
            return ours.adapter(with_options(case, **{name: pairs[:1]}))
    return None


def calls_end_with_their_tag(case):
    """A call without a close tag is ended by nothing."""
    pairs = options_of(case).get("tools", [])
    if not any(close is None for _, close in pairs):
        return None
    return ours.adapter(with_options(case, tools=[[a, b or "\0"] for a, b in pairs]))


class Ends:
    """Ends an answer outside of the stream that decodes it, and loses what is held then."""

    def __init__(self, case):
        options = options_of(case)
        self.eos, self.stop_ids = options.get("eos", []), options.get("stop_ids", [])
        self.most = options.get("max_tokens", 1 << 30)
        known = with_options(case, eos=None, stop_ids=None, max_tokens=None)
        stream = ours.adapter(known)
        channels = "reasoning" in options or "tools" in options
        self.stream, self.nothing = stream, [] if channels else ""
        self.before, self.over = [], None

    def push(self, ids):
        out = self.nothing
        for token in ids:
            if self.over is None and token in self.eos:
                self.over = "eos"
            if self.over is not None:
                break
            self.before.append(token)
            if any(self.before[-len(each) :] == each for each in self.stop_ids):
                self.over = "stop"
                break
            out = out + self.stream.push([token])
            if len(self.before) == self.most:
                self.over = "length"
        return out

    def flush(self):
        return self.nothing if self.over else self.stream.flush()

    def reset(self):
        self.stream.reset()
        self.before, self.over = [], None

    def reason(self):
        return self.over or (self.stream.reason() if hasattr(self.stream, "reason") else None)


ENDS = ("eos", "stop_ids", "max_tokens")


def ends_lose_what_is_held(case):
    return Ends(case) if any(name in options_of(case) for name in ENDS) else None


def tags_do_not_end_characters(case):
    """A tag that is a special token waits inside a character until the character ends."""
    options = options_of(case)
    if case["input"] != "ids" or not ("reasoning" in options or "tools" in options):
        return None
    stream, vocabulary = ours.adapter(case), ours.vocabulary_of(case)
    decoder = Detokenizer(vocabulary, case.get("prompt", ()))
    pairs = [*options.get("reasoning", ()), *options.get("tools", ())]
    words = {word for pair in pairs for word in pair}
    tags = {t["id"] for t in case["tokenizer"]["added_tokens"] if t["content"] in words}
    push, waiting = stream.push, []

    def late(ids):
        out = []
        for token in ids:
            if token in tags and decoder.held:
                waiting.append(token)
                continue
            decoder.push(token)
            out += push([token])
            while waiting and not decoder.held:
                out += push([waiting.pop()])
        return out

    stream.push = late
    return stream


def rewinds_the_decoder_only(case):
    """Stops and tags stay as they were."""
    stream = ours.adapter(case)
    if not isinstance(stream, ours.Chat):
        return None
    decoder = stream.chat.detokenizer
    stream.mark, stream.rollback = decoder.save, lambda mark: decoder.load(mark)
    return stream


def resets_the_decoder_only(case):
    stream = ours.adapter(case)
    if not isinstance(stream, ours.Chat):
        return None
    stream.reset = stream.chat.detokenizer.reset
    return stream


def flush_twice_gives_it_twice(case):
    stream = ours.adapter(case)
    if any(step.get("refused") for step in case["steps"]):
        return None
    flush = stream.flush
    stream.kept = None

    def again():
        stream.kept = flush() if stream.kept is None else stream.kept
        return stream.kept

    stream.flush = again
    return stream


def halves_pass(case):
    """Half of a surrogate pair is shown as it is."""
    if case["input"] != "text" or options_of(case):
        return None
    return Pushed(lambda text: text)


def pushing(stream, change):
    """Let a stream get what `change` makes of each chunk; return it."""
    push = stream.push
    stream.push = lambda chunk: push(change(chunk))
    return stream


class Pushed:
    """A stream that holds nothing: each push gives a function of its chunk."""

    def __init__(self, text):
        self.push = text

    def flush(self):
        return ""


class Shown:
    """The whole text again at each push, by a function of all that came."""

    def __init__(self, text, nothing):
        self.text, self.given = text, nothing

    def push(self, chunk):
        self.given = self.given + chunk
        return {"shown": self.text(self.given)}

    def flush(self):
        return {"shown": self.text(self.given)}


def pieces_of(tokenizer):
    """Return the pieces of a tokenizer.json by their ids."""
    pieces = {at: piece for piece, at in tokenizer["model"]["vocab"].items()}
    return pieces | {token["id"]: token["content"] for token in tokenizer["added_tokens"]}


def final_of(case):
    """Return a function from a whole input to its text, without stops and tags."""
    options = options_of(case)
    if case["input"] == "bytes":
        return lambda data: data.decode("utf-8", options.get("errors", "replace"))
    if case["input"] == "text":
        return lambda text: text
    found = case["tokenizer"]
    pieces = pieces_of(found)
    skip = options.get("skip_special_tokens", True)
    left_out = {token["id"] for token in found["added_tokens"] if token["special"] and skip}

    def text(ids):
        return decode(
            found["decoder"],
            [pieces.get(i, "") for i in ids if i not in left_out],
            options.get("byte_fallback", "utf8"),
            options.get("clean_up_tokenization_spaces", False),
        )

    prompt = case.get("prompt", [])
    return lambda ids: text([*prompt, *ids])[len(text(prompt)) :]


PLAIN = {"skip_special_tokens", "byte_fallback", "clean_up_tokenization_spaces"}


def regular_expression_of_the_whole(case):
    """Reasoning and calls are taken out of the whole text at the end."""
    options = options_of(case)
    if not ("reasoning" in options or "tools" in options):
        return None
    stream = ours.adapter(case)
    kept = []
    push, flush = stream.push, stream.flush
    stream.push = lambda chunk: kept.extend(push(chunk)) or []
    stream.flush = lambda: [*kept, *flush()]
    return stream


def markers_anywhere(case):
    """Markers are taken out wherever they are."""
    words = options_of(case).get("trim")
    if not words or case["input"] != "text":
        return None
    anywhere = re.compile("|".join(map(re.escape, words)))
    return pushing(ours.adapter(case), lambda text: anywhere.sub("", text))


def spans_leave_special_tokens_out(case):
    stream = ours.adapter(case)
    found = getattr(stream, "spans", None)
    if "spans" not in case or found is None:
        return None
    stream.spans = lambda: [span for span in found() if span[0] < span[1]]
    return stream


def spans_are_lengths_of_pushes(case):
    """A token has what its push showed."""
    if "spans" not in case:
        return None
    stream = ours.adapter(case)
    ends = [0]
    push = stream.push

    def counted(ids):
        out = push(ids)
        ends.append(ends[-1] + len(out))
        return out

    stream.push, stream.spans = counted, lambda: list(itertools.pairwise(ends))
    return stream


def spans_count_the_prompt(case):
    if "spans" not in case or "prompt" not in case:
        return None
    stream = ours.adapter({**case, "prompt": []})
    stream.push(case["prompt"])
    return stream


def empty_stop_ends_all(case):
    """`text.find("")` is 0."""
    if "" not in options_of(case).get("stop", []):
        return None
    return Pushed(lambda text: "")


def unknown_is_the_last(case):
    """An id counts from the end if it is negative, and is the last one if it is too large."""
    if case["input"] != "ids":
        return None
    size = len(ours.vocabulary_of(case))
    return pushing(ours.adapter(case), lambda ids: [min(i, size - 1) % size for i in ids])


def goes_on_after_the_end(case):
    """A push behind the flush goes on with the bytes that were flushed."""
    steps = [step["do"] for step in case["steps"]]
    if case["input"] != "bytes" or options_of(case) or "flush" not in steps[:-1]:
        return None
    return None if "reset" in steps else Shown(final_of(case), b"")


def stops_before_tags(case):
    """Stops are looked for in the text with its tags."""
    options = options_of(case)
    if not options.get("stop") or not ("reasoning" in options or "tools" in options):
        return None
    stops = StopStrings(options["stop"])
    stream = ours.adapter(with_options(case, stop=None))
    push, flush = stream.push, stream.flush
    stream.flush = lambda: [*push(stops.flush()), *flush()]
    pushing(stream, stops.feed)
    stream.reason = lambda: "stop" if stops.stopped else None
    return stream


class Mapped:
    """What a right stream gives, changed."""

    def __init__(self, stream, change):
        self.stream, self.change = stream, change
        for name in ("reset", "mark", "rollback", "reason", "spans"):
            if hasattr(stream, name):
                setattr(self, name, getattr(stream, name))

    def push(self, chunk):
        return self.changed(self.stream.push(chunk))

    def flush(self):
        return self.changed(self.stream.flush())

    def changed(self, out):
        if isinstance(out, str):
            return self.change(out)
        return [(channel, self.change(text)) for channel, text in out]


def dropping(character):
    """Return an adapter whose text lacks a character."""
    return lambda case: Mapped(ours.adapter(case), lambda text: text.replace(character, ""))


def pieces_are_joined(case):
    """The decoder of the file is not looked at: Ġ and ▁ are spaces, and pieces are joined."""
    if case["input"] != "ids" or options_of(case).keys() - PLAIN:
        return None
    pieces = pieces_of(case["tokenizer"])
    spaces = str.maketrans("Ġ▁", "  ")
    return Pushed(lambda ids: "".join(pieces.get(i, "") for i in ids).translate(spaces))


def each_id_alone(case):
    """Each id is decoded by itself."""
    if case["input"] != "ids" or options_of(case).keys() - PLAIN:
        return None
    final = final_of({**case, "prompt": []})
    return Pushed(lambda ids: "".join(final([i]) for i in ids))


def graphemes_wait(case):
    """The last character waits: a mark could follow it."""
    options = options_of(case)
    if "reasoning" in options or "tools" in options or options.get("errors") == "strict":
        return None
    stream, held = ours.adapter(case), [""]
    push, flush = stream.push, stream.flush

    def wait(chunk):
        text = held[0] + push(chunk)
        held[0] = text[-1:]
        return text[:-1]

    stream.push, stream.flush = wait, lambda: held.pop() + flush() if held else flush()
    return stream


def rewinding_tells_nothing(case):
    stream = ours.adapter(case)
    if not hasattr(stream, "rollback") or "rollback" not in str(case["steps"]):
        return None
    back = stream.rollback
    stream.rollback = lambda mark: min(back(mark), 0)
    return stream


def nothing_cannot_be_flushed(case):
    stream = ours.adapter(case)
    flush = stream.flush
    if not any(step["do"] == "push" for step in case["steps"]):
        stream.flush = lambda: flush() + "\ufffd"
    return stream


def every_first_space_goes(case):
    """Byte-level and other decoders are taken for SentencePiece's, which takes a space away."""
    if case["input"] != "ids" or options_of(case).keys() - PLAIN:
        return None
    final = final_of(case)
    return Shown(lambda ids: final(ids).removeprefix(" "), [])


OPTIONS = (
    *("prompt", "skip_special_tokens", "byte_fallback", "clean_up_tokenization_spaces", "errors"),
    *("spaces_between_special_tokens", "stop", "include_stop", "stop_scope", "eos", "stop_ids"),
    *("min_tokens", "max_tokens", "start", "trim", "reasoning", "tools"),
)
WRONG = {f"ignoring {name}": ignoring(name) for name in OPTIONS}
# A byte order mark, a replacement character, and half of a line's end.
WRONG |= {f"dropping {character!a}": dropping(character) for character in "\ufeff\ufffd\r"}
WRONG |= {
    each.__name__: each
    for each in (
        *(every_block_is_the_first, first_pair_only, calls_end_with_their_tag),
        *(ends_lose_what_is_held, tags_do_not_end_characters, rewinds_the_decoder_only),
        *(resets_the_decoder_only, flush_twice_gives_it_twice, halves_pass),
        *(regular_expression_of_the_whole, markers_anywhere, spans_leave_special_tokens_out),
        *(spans_are_lengths_of_pushes, spans_count_the_prompt, empty_stop_ends_all),
        *(unknown_is_the_last, goes_on_after_the_end, pieces_are_joined),
        *(each_id_alone, graphemes_wait, rewinding_tells_nothing, nothing_cannot_be_flushed),
        *(every_first_space_goes, stops_before_tags),
    )
}
