"""Random cases: a vocabulary, options, pushes of streams; and what the core shows of them."""

import itertools
import random
from typing import Any, NamedTuple

from formats.test_whole_text import cases, units
from formats.whole_text import NAMES, pieces_of
from laws import test_law_decoders as laws

import detok_py as d
from detok_py.formats.form import Form
from detok_py.page.deltas import crossed, open_call, open_chat

MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "</s>"]
WORDS = [*MARKS, *"ab <>\n", "é", "👩\u200d🚀", "ST", "OP", "<th", '{"a": ["é]"]}', '"x"', "\ufffd"]
HALVES = [b"\xff", b"\xf0", b"\x9f", b"\xf0\x9f", b"\xc3", b"\xa9", b"\xe4\xbd", b"\xed"]
STOPS = ["ST", "STOP", "aa", " ", "é", "\n", "b<", "\ufffd", "}"]
TAGS = {
    "reasoning": [True, "all", ["<", ">"], ["<", ">", "all"], [["a", "b"], MARKS[:2]]],
    "tools": [True, ["ST", None], ["<", ">"], [["ST", "OP"], MARKS[2:4]]],
    "startWithReasoning": [True],
}
RULES = [rule for rule in laws.EACH if "Regex" not in str(rule)]  # MicroPython has no such rule
# In this decoder a stage makes bytes of pieces.
BYTE_STAGE = laws.sequence(laws.metaspace("first"), laws.FALLBACK, laws.FUSE)


class Case(NamedTuple):
    vocabulary: d.Vocabulary | None
    options: list[dict[str, Any]]
    pushes: list[Any]  # [stream, number of its options, ids or hexadecimal bytes or None, awaited]


def random_vocabulary(rng: random.Random) -> d.Vocabulary:
    rules, pieces, clean_up = rng.choice(list(laws.FAMILIES.values()))
    data = rng.choice([b"", "é👩".encode(), b"a\xff"])
    if (kind := rng.random()) < 0.3:
        rules, pieces = laws.sequence(*rng.choices(RULES, k=rng.randint(1, 3))), laws.PIECES
    elif kind < 0.5:
        rules, data = BYTE_STAGE, "é👩".encode()
    letters = "".join(pieces) + "ab<>ST"
    pieces = [*pieces, *(f"<0x{byte:02X}>" for byte in data)]
    pieces += ["".join(rng.choices(letters, k=rng.randint(1, 3))) for _ in range(8)]
    pieces += rng.sample([*MARKS, "ST", "OP", "<", "é"], 5)
    special = [i for i, piece in enumerate(pieces) if piece in [*MARKS, "<s>"]]
    eos = [i for i in special if pieces[i] == "</s>" and rng.random() < 0.5]
    if rng.random() < 0.2:
        return d.Vocabulary.from_bytes([*map(str.encode, pieces), *HALVES], special, eos)
    try:
        return d.Vocabulary.from_pieces(pieces, rules, special, eos_ids=eos, clean_up=clean_up)
    except d.TokenizerFormatError:  # rules that do not go together
        return random_vocabulary(rng)


def random_options(rng: random.Random, vocabulary: Any, answer: Any) -> dict[str, Any]:
    form = answer["format"] if answer else rng.choice([None, "auto", "auto", "auto", "json"])
    given = {"format": form, "toolSchemas": answer.get("schemas") if answer else None}
    if form == "auto":
        given |= {name: rng.choice(tags) for name, tags in TAGS.items() if rng.random() < 0.5}
    given["stop"] = rng.sample(STOPS, rng.choice([0, 0, 0, 1, 2]))
    given |= {"output": rng.choice(["text", "deltas", "deltas"]), "unknown": "skip"}
    if vocabulary is not None:
        given["promptIds"] = rng.choices(range(len(vocabulary)), k=rng.choice([0, 0, 1, 3]))
    chances = {"skipSpecialTokens": 0.7, "includeStop": 0.5, "trimArtifacts": 0.3}
    given |= {flag: rng.random() < chance for flag, chance in chances.items()}
    try:
        Core(given, vocabulary)
    except ValueError:  # tags that do not go together
        return random_options(rng, vocabulary, answer)
    return given


def rearranged(rng: random.Random, parts: list[Any], more: list[Any]) -> list[Any]:
    """Return at most 60 parts, with some left out, doubled, moved, or one of `more` put in."""
    for _ in range(rng.randrange(4)):
        a, b, c = sorted(rng.choices(range(len(parts) + 1), k=3))
        put_in = parts[:a] + [rng.choice(more)] + parts[a:]
        ways = parts[:a] + parts[b:], parts[:b] + parts[a:], parts[a:c], parts + parts[a:b], put_in
        parts = rng.choice(ways)
    return parts[:60]


def random_pushes(rng: random.Random, name: int, whole: Any, is_twin: bool) -> list[Any]:
    """Return the pushes of a stream: its ids, or its bytes as hexadecimal digits, cut at random."""
    most = (99 if name else 1) if is_twin else rng.choice([1, 5, 99])
    awaited, number = rng.choice([1, 1, 0.5, 0.1]), 0 if is_twin else rng.randrange(2)
    cuts = itertools.accumulate(rng.choices(range(most + 1), k=len(whole)))
    chunks = [whole[a:b] for a, b in itertools.pairwise([0, *cuts])]
    chunks = [c.hex() if isinstance(c, bytes) else c for c in chunks if c or rng.random() < 0.05]
    pushes = [[name, number, chunk, rng.random() < awaited] for chunk in chunks]
    return [*pushes, [name, number, None, True]]


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    vocabulary, told, every = None, [], [*map(str.encode, WORDS), *HALVES]
    answer = rng.choice(cases(rng.choice(NAMES))) if rng.random() < 0.3 else None
    as_ids = rng.random() < 0.5
    if answer:
        told = [str(unit).encode() for unit in units(pieces_of(answer["pieces"]))]
        every = [b"\xc3", *(mark.encode() for mark in Form(answer["format"]).spellings)]
    if answer and as_ids:
        tokens = [*every, *sorted({*told}.difference(every)), *HALVES]
        vocabulary = d.Vocabulary.from_bytes(tokens, range(1, len(every)))
        vocabulary.chat_format = answer["format"]
        told, every = [tokens.index(token) for token in told], list(range(len(every)))
    elif as_ids:
        vocabulary = random_vocabulary(rng)
        every = list(range(len(vocabulary) + 1))  # the last one is unknown
    # Twins say the same one after another. The first says it in single units, which the page may
    # then remember; the others in chunks.
    are_twins = rng.random() < 0.4
    parts, streams = [], []
    for name in range(rng.randint(2, 4)):
        if not name or not are_twins:
            few = rng.sample(every, min(len(every), rng.choice([3, 6, 99])))
            parts = rearranged(rng, told or rng.choices(few, k=rng.randint(1, 40)), every)
        streams.append(random_pushes(rng, name, parts if as_ids else b"".join(parts), are_twins))
    turns = [name for name, pushes in enumerate(streams) for _ in pushes]
    turns = turns if are_twins else rng.sample(turns, len(turns))
    pushes = [streams[name].pop(0) for name in turns]
    return Case(vocabulary, [random_options(rng, vocabulary, answer) for _ in range(2)], pushes)


class Core:
    """A stream of the core, and what it has shown since it was last asked, as the page says it."""

    def __init__(self, options: dict[str, Any], vocabulary: d.Vocabulary | None) -> None:
        source: Any = d.StreamingDetokenizer()
        if vocabulary is not None:
            more = {"skip_special_tokens": options["skipSpecialTokens"], "unknown": "skip"}
            source = d.Detokenizer(vocabulary, options["promptIds"], **more)
        self.chat = open_chat(options, source)
        self.only_text = options["output"] == "text"
        self.reason: str | None = None
        self.shown: list[Any] = []
        self.may_split = False  # whether the page may show one delta as two

    def push(self, chunk: Any) -> None:
        if chunk is None:
            self.show(self.chat.flush)
            self.reason = self.reason or "end"
        elif isinstance(chunk, str):
            self.show(self.chat.feed, bytes.fromhex(chunk))
            self.may_split |= bool(self.chat.held_bytes)
        else:
            for token_id in chunk:
                self.show(self.chat.feed, [token_id])

    def show(self, call: Any, *chunk: Any) -> None:
        """Make a call, if the stream has not ended, and note what it shows."""
        chat = self.chat
        before, was_complete = open_call(chat.calls), chat.complete
        deltas = [] if self.reason else call(*chunk)
        ended = chat.complete and not was_complete
        for channel, text, *of_call in crossed(deltas, chat.calls, before, ended):
            if self.only_text:
                self.shown.append(text if channel == "content" else "")
            elif text or of_call:
                self.shown.append({"channel": channel, "text": text, **dict(*of_call)})
        self.reason = self.reason or chat.finish_reason

    def joined(self, shown: list[Any]) -> Any:
        """Return what is shown, with that joined which the page may show as one or as two."""
        if self.only_text:
            return "".join(shown)
        out: list[Any] = []
        for row in shown:
            last = out[-1] if out else {}
            is_same = [row.get(key) == last.get(key) for key in ("channel", "call")]
            if self.may_split and "name" not in row and all(is_same):
                out[-1] = {**last, **row, "text": last["text"] + row["text"]}
            else:
                out.append(row)
        return out

    def take_state(self) -> list[Any]:
        """Return what the page must have too, and forget what was shown."""
        chat, shown = self.chat, self.joined(self.shown)
        self.shown, self.may_split = [], False
        calls = chat.calls if chat._form else []
        named = [[call.id, call.name, call.arguments, call.complete] for call in calls]
        held = {"bytes": len(chat.held_bytes), "text": chat.held_text}
        return [shown, self.reason, None if self.reason else held, named]
