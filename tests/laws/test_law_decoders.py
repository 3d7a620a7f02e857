"""The law over ids: for every kind of decoder rule, exhaustively over small alphabets, against
brute force.

The rules and pieces are made here; those of the large test data are walked through as well where it
is present.
"""

import itertools
import json
import random
import sys

import pytest

from detok_py import Detokenizer, TokenizerFormatError, Vocabulary

from .oracle import Certain, left_out
from .reference import decode, decode_apart

pytestmark = pytest.mark.slow

SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}


def sequence(*rules):
    return {"type": "Sequence", "decoders": list(rules)}


def strip(start, stop):
    return {"type": "Strip", "content": " ", "start": start, "stop": stop}


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def metaspace(scheme):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


def word_piece(cleanup):
    return {"type": "WordPiece", "prefix": "##", "cleanup": cleanup}


CTC = {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}
BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}

# name: (rules, pieces, clean-up). The last piece of each is a special token. A continuation is any
# text, so the pieces behind a fuse or a clean-up spell every character that its rules name: with
# fewer, brute force would find things certain that are not.
FAMILIES = {
    "byte-level": (BYTE_LEVEL, ["Ġa", "ð", "Ł", "ĺĢ", "ï¿½", "<é>", "<s>"], False),
    "byte-level, then a strip": (sequence(BYTE_LEVEL, strip(1, 0)), ["Ġ", "ĠĠa", "Ã", "©", "<s>"], False),
    "sentencepiece": (sequence(SPACE, FALLBACK, FUSE, strip(1, 0)), ["▁", "▁a", "<0xE4>", "<0xBD>", "<0xA0>", "<0xFF>", "<s>"], False),
    "sentencepiece, U+FFFD spelled by bytes": (
        sequence(SPACE, FALLBACK, FUSE, strip(1, 0)),
        ["▁", "<0x20>", "<0xEF>", "<0xBF>", "<0xBD>", "<s>"],
        False,
    ),
    "a .model file": (
        {"type": "SentencePiece", "strip": "one"}, ["▁", "▁▁a", "<0xE4>", "<0xBD>", "<0xA0>", "<0x61>", "<s>"], False,
    ),
    "a .model file that removes spaces": (
        {"type": "SentencePiece", "strip": "all"}, ["▁", "▁▁a", "b", "<0xED>", "<0x9F>", "<0xBF>", "<s>"], False,
    ),
    "a .model file without a strip": (
        {"type": "SentencePiece", "strip": "none"}, ["▁a", "<0xC3>", "<0xA9>", "b▁", "<s>"], False,
    ),
    "sentencepiece without a strip": (sequence(SPACE, FALLBACK, FUSE), ["▁a", "<0xC3>", "<0xA9>", "<0x0A>", "<0xZZ>", "<s>"], False),
    "metaspace first": (metaspace("first"), ["▁", "▁▁a", "b", "", "<s>"], False),
    "metaspace never": (metaspace("never"), ["▁", "▁▁a", "b", "", "<s>"], False),
    "word pieces": (word_piece(True), ["a", "##b", "'", "s", ".", "<s>"], False),
    "word pieces without clean-up": (word_piece(False), ["a", "##b", "##", ".", "<s>"], False),
    "word pieces, cleaned up again": (word_piece(True), ["n", "'", "t", "s", "do", "<s>"], True),
    "byte-level, cleaned up": (BYTE_LEVEL, ["Ġ", "n", "'", "t", "s", ".", "<s>"], True),
    "suffixes": ({"type": "BPEDecoder", "suffix": "</w>"}, ["a", "b</w>", "c</w>d</w>", "</w>", "<s>"], False),
    "no decoder": (None, ["a", "", "b ", "<s>"], False),
    "ctc": (CTC, ["a", "b", "<pad>", "|", "a<pad>|", "<s>"], False),
    "strips at both ends": (sequence(SPACE, FUSE, strip(1, 2)), ["▁", "▁a", "b▁", "▁▁▁", "<s>"], False),
    "replace behind a fuse": (sequence(FUSE, replace("<n>", "\n")), ["a", "<", "n", ">", "<n", "<s>"], False),
    "a replacement that begins as its pattern does": (sequence(FUSE, replace("ab", "a")), ["a", "b", "c", "<s>"], False),
    "replacements that feed each other": (
        sequence(FUSE, replace("ab", "c"), replace("cc", "ab"), strip(1, 1)),
        ["a", "b", "c", " ", "<s>"],
        False,
    ),
    "metaspace behind a fuse": (sequence(FUSE, metaspace("always")), ["▁", "a▁", "<s>"], False),
    "ctc, then a metaspace": (sequence(CTC, metaspace("always")), ["▁a", "▁", "<pad>", "a▁b", "<s>"], False),
    "suffixes, then a metaspace": (
        sequence({"type": "BPEDecoder", "suffix": "</w>"}, metaspace("always")),
        ["▁a", "▁b</w>", "</w>▁", "</w>", "<s>"],
        False,
    ),
    "suffixes, then two metaspaces": (
        sequence({"type": "BPEDecoder", "suffix": "</w>"}, metaspace("first"), {**metaspace("never"), "replacement": "a"}),
        ["a▁", "</w>▁", "a</w>", "<s>"],
        False,
    ),
    "strips of each piece": (sequence(strip(1, 1), FUSE), [" a ", "  ", "b", "<s>"], False),
}  # fmt: skip


def walk(rules, pieces, special, clean_up, byte_fallback, length, alphabet, skip=True, apart=False):
    """Push all sequences of at most `length` ids; after each id compare the shown text with what is
    certain, and at the end with the final text. Returns the number of sequences.
    """
    vocabulary = Vocabulary.from_pieces(pieces, rules, special_ids=special, clean_up=clean_up)

    def final(ids):
        spelled = [pieces[i] for i in ids if not (skip and i in special)]
        return (
            decode_apart(rules, spelled, {pieces[i] for i in special}, byte_fallback, clean_up)
            if apart
            else decode(rules, spelled, byte_fallback, clean_up)
        )

    def make():
        return Detokenizer(
            vocabulary,
            skip_special_tokens=skip,
            byte_fallback=byte_fallback,
            spaces_between_special_tokens=apart,
        )

    certain = Certain(final, [(i,) for i in alphabet], 3)
    count = 0
    for n in range(1, length + 1):
        for ids in itertools.product(alphabet, repeat=n):
            t = make()
            shown = ""
            for at, token_id in enumerate(ids):
                if at == n - 1:
                    # The state goes through JSON into a Detokenizer made alike, and through a copy.
                    saved = json.loads(json.dumps(t.save()))
                    t = make()
                    t.load(saved)
                    t = t.copy()
                shown += t.push(token_id)
            spelled = [pieces[i] for i in ids]
            assert shown == certain(ids), (
                f"{spelled}: {shown!r} is shown, {certain(ids)!r} is certain"
            )
            assert shown + t.flush() == final(ids), spelled
            assert t.held == b""
            count += 1
    return count


def walk_family(name, byte_fallback, length=None, **options):
    rules, pieces, clean_up = FAMILIES[name]
    length = length or (2 if clean_up else 3)
    special, ids = {len(pieces) - 1}, range(len(pieces))
    return walk(rules, pieces, special, clean_up, byte_fallback, length, ids, **options)


def walk_behind_prompts(name, byte_fallback, prompts, length, apart=False):
    """Hold the text behind each prompt against that of prompt and ids without that of the
    prompt.
    """
    rules, pieces, clean_up = FAMILIES[name]
    special = len(pieces) - 1
    vocabulary = Vocabulary.from_pieces(pieces, rules, special_ids=[special], clean_up=clean_up)
    settings = {"byte_fallback": byte_fallback}
    if apart:
        settings |= {"skip_special_tokens": False, "spaces_between_special_tokens": True}

    def text(ids):
        if apart:
            spelled = [pieces[i] for i in ids]
            return decode_apart(rules, spelled, {pieces[special]}, byte_fallback, clean_up)
        return decode(rules, [pieces[i] for i in ids if i != special], byte_fallback, clean_up)

    alphabet = range(len(pieces))
    for prompt in prompts:
        known = text(prompt)
        certain = Certain(
            lambda ids, known=known, prompt=prompt: left_out(known, text(prompt + ids)),
            [(i,) for i in alphabet],
            3,
        )
        for ids in itertools.product(alphabet, repeat=length):
            streams = [
                Detokenizer(vocabulary, prompt, spans=spans, **settings) for spans in (False, True)
            ]
            spelled = [pieces[i] for i in prompt], [pieces[i] for i in ids]
            shown = ""
            for at, token_id in enumerate(ids):
                saved = json.loads(json.dumps(streams[0].save()))
                streams[0] = Detokenizer(vocabulary, **settings)
                streams[0].load(saved)
                out = {t.push(token_id) for t in streams}
                assert len(out) == 1, spelled
                shown += out.pop()
                wanted = certain(ids[: at + 1])
                assert shown == wanted, f"{spelled}: {shown!r} is shown, {wanted!r} is certain"
            shown += {t.flush() for t in streams}.pop()
            assert shown == certain.whole(ids), spelled
            fed = Detokenizer(vocabulary, prompt, **settings)
            assert fed.feed(ids) + fed.flush() == shown, spelled
            # A character belongs to at least one token, and none to a character of the prompt.
            spans = streams[1].spans
            assert max([last for _, last in spans]) <= len(shown), spelled
            assert {at for first, last in spans for at in range(first, last)} <= set(
                range(len(shown))
            )


# Without byte tokens there is but one way to fall back.
WAYS = [
    (name, byte_fallback)
    for name, (_, pieces, _) in FAMILIES.items()
    for byte_fallback in (
        ("hf", "utf8") if any(piece.startswith("<0x") for piece in pieces) else ("hf",)
    )
]


# Special tokens are skipped in every second of these ways and shown in the others; `make soak` does
# both in each.
SKIPS = [
    pytest.param(
        *(name, byte_fallback, skip),
        id=f"{name}-{byte_fallback}-specials {'skipped' if skip else 'shown'}",
        marks=() if number % 2 == skip else pytest.mark.soak,
    )
    for number, (name, byte_fallback) in enumerate(WAYS)
    for skip in (True, False)
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "byte_fallback", "skip"), SKIPS)
def test_every_push_shows_what_is_certain(name, byte_fallback, skip):
    assert walk_family(name, byte_fallback, skip=skip) > 30


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("name", "byte_fallback"), WAYS)
def test_every_push_with_special_tokens_set_apart_shows_what_is_certain(name, byte_fallback):
    assert walk_family(name, byte_fallback, skip=False, apart=True) > 30


@pytest.mark.soak
@pytest.mark.parametrize(("name", "byte_fallback"), WAYS)
def test_every_push_of_longer_streams_shows_what_is_certain(name, byte_fallback):
    walk_family(name, byte_fallback, 4)


# Prompts that end in what is held: byte runs, half a character, a space that a clean-up may take.
def prompts_of(name, length):
    return list(itertools.product(range(len(FAMILIES[name][1])), repeat=length))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("apart", [False, True], ids=["", "apart"])
@pytest.mark.parametrize(("name", "byte_fallback"), WAYS)
def test_every_push_behind_a_prompt_shows_what_is_certain(name, byte_fallback, apart):
    walk_behind_prompts(name, byte_fallback, prompts_of(name, 2)[::7], 1, apart)


@pytest.mark.soak
@pytest.mark.parametrize("apart", [False, True], ids=["", "apart"])
@pytest.mark.parametrize(("name", "byte_fallback"), WAYS)
def test_every_push_behind_every_short_prompt_shows_what_is_certain(name, byte_fallback, apart):
    for length in (1, 2):
        walk_behind_prompts(name, byte_fallback, prompts_of(name, length), 2, apart)


@pytest.mark.parametrize(
    "rule", [word_piece(True), CTC, FALLBACK, {"type": "BPEDecoder", "suffix": "</w>"}]
)
@pytest.mark.parametrize("join", [FUSE, BYTE_LEVEL, sequence(FALLBACK, FUSE)])
def test_a_rule_for_tokens_is_refused_behind_a_rule_that_joins_them(join, rule):
    with pytest.raises(TokenizerFormatError, match=f"decoder {rule['type']} behind"):
        Vocabulary.from_pieces(["a"], sequence(join, rule))


# These orders are right and late: some text comes later than it is certain. transformers makes the
# last one of GGUF files of Llama 3.
LATE = {
    "byte tokens before a metaspace": (sequence(FALLBACK, metaspace("always"), FUSE, strip(1, 0)), ["▁a", "<0xC3>", "<0xA9>", "<0xE4>", "▁"]),
    "byte tokens before a byte-level rule": (sequence(FALLBACK, BYTE_LEVEL), ["Ġa", "<0xC3>", "<0xA9>", "ð"]),
    "a byte-level rule behind a fuse": (
        sequence(FALLBACK, FUSE, SPACE, BYTE_LEVEL, strip(1, 0)), ["Ġa", "<0xC3>", "▁", "ð", "Ł"]
    ),
}  # fmt: skip


@pytest.mark.parametrize("byte_fallback", ["hf", "utf8"])
@pytest.mark.parametrize("name", LATE)
def test_rules_that_are_late_are_right_at_the_end(name, byte_fallback):
    rules, pieces = LATE[name]
    vocabulary = Vocabulary.from_pieces(pieces, rules)
    assert not Detokenizer(vocabulary).exact
    for ids in itertools.product(range(len(pieces)), repeat=4):
        t = Detokenizer(vocabulary, byte_fallback=byte_fallback)
        shown = "".join([t.push(i) for i in ids]) + t.flush()
        assert shown == decode(rules, [pieces[i] for i in ids], byte_fallback)


@pytest.mark.parametrize(
    "rules",
    [
        sequence(FUSE, *[replace("ab" * n, "a") for n in range(1, 9)]),
        sequence(FUSE, *[replace("ab" * n, "a") for n in range(9, 1, -1)], strip(1, 0)),
    ],
)
def test_many_replacements_behind_each_other_are_late_instead_of_slow(rules):
    pieces = [*"ab<n1 >do't.", "ab" * 9]
    vocabulary = Vocabulary.from_pieces(pieces, rules, clean_up=True)
    t = Detokenizer(vocabulary)
    assert "too many states" in t.late_because
    ids = [n * 7 % len(pieces) for n in range(60)]
    assert t.feed(ids) + t.flush() == decode(rules, [pieces[i] for i in ids], clean_up=True)


# One of each kind, with the texts that the pieces below spell.
EACH = [
    *(SPACE, FALLBACK, FUSE, BYTE_LEVEL, CTC, {**CTC, "cleanup": False}, word_piece(True)),
    *(word_piece(False), metaspace("first"), metaspace("never"), strip(1, 0), strip(1, 2)),
    {"type": "SentencePiece", "strip": "all"},
    *(
        replace("ab", "a"),
        replace("", "▁"),
        replace("a", "ab"),
        {"type": "BPEDecoder", "suffix": "</w>"},
    ),
    {"type": "Replace", "pattern": {"Regex": "a|b+"}, "content": " "},
]
PIECES = [
    *("▁", " ", "a", "b", "ab", "'", "n't", " do not", "<0xE4>", "<0x20>", "##", "</w>", "|", "Ġ"),
    *("ð", "<pad>", "<s>"),
]
MAX_CALLS = 40  # function calls of a push, for each character that goes in or comes out; about 5 µs


def calls_of(push, token_id):
    """Return how many functions a push calls for each character that goes in or comes out."""
    count = 0

    def called(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        out = push(token_id)
    finally:
        sys.setprofile(None)
    return count / (len(PIECES[token_id]) + len(out) + 1)


def stream_of(rules, number):
    """Return a stream with options at random, and ids that it may be fed, random pieces and then a
    few of them again and again; None if the rules are refused.
    """
    rng = random.Random(number)
    try:
        vocabulary = Vocabulary.from_pieces(PIECES, rules, special_ids=[len(PIECES) - 1])
    except TokenizerFormatError:
        return None
    byte_fallback, clean_up, spans, apart = (rng.random() < 0.5 for _ in range(4))
    t = Detokenizer(
        vocabulary,
        byte_fallback="hf" if byte_fallback else "utf8",
        clean_up_tokenization_spaces=clean_up,
        spans=spans,
        skip_special_tokens=not apart,
        spaces_between_special_tokens=apart,
    )
    few = rng.sample(range(len(PIECES)), 4)
    return t, rng.choices(range(len(PIECES)), k=1000), rng.choices(few, k=100)


def most_calls(rules, number):
    """Return the calls of the worst push of random pieces, 0 if the rules are refused."""
    made = stream_of(rules, number)
    if made is None:
        return 0
    t, first, later = made
    t.feed(first[:100])
    # Spans go through each rule, and through the ten of a clean-up. So does, where special tokens
    # stand apart, what can come next in front of a clean-up.
    each_rule = t._trace or (t.apart and t.clean_up)
    stages = len(rules["decoders"]) + 10 * t.clean_up if each_rule else 1
    return max(calls_of(t.push, i) for i in later[:30]) / stages


def bounded(length, step=1, most=MAX_CALLS):
    orders = list(itertools.product(EACH, repeat=length))[::step]
    counts = [most_calls(sequence(*order), number) for number, order in enumerate(orders)]
    worst = max(counts)
    assert worst <= most, (worst, orders[counts.index(worst)])
    return sum(count > 0 for count in counts)


@pytest.mark.native
def test_every_push_is_bounded_whatever_the_order_of_the_rules():
    assert bounded(1) > 10
    assert bounded(2, 3) > 40


@pytest.mark.full
@pytest.mark.native
def test_every_push_is_bounded_whatever_the_order_of_three_rules():
    assert bounded(2) > 100
    assert bounded(3, 5) > 200


@pytest.mark.soak
@pytest.mark.native
def test_every_push_is_bounded_in_every_order_of_three_rules():
    assert bounded(3, most=64) > 1000


def test_a_run_of_bytes_costs_the_same_at_its_end_as_at_its_beginning():
    pieces = ["<0xEF>", "<0xBF>", "<0xBD>"]
    for errors in ("replace", "ignore", "backslashreplace"):
        t = Detokenizer(Vocabulary.from_pieces(pieces, FALLBACK), byte_fallback="hf", errors=errors)
        shown = "".join([t.push(n % 3) for n in range(30_000)])
        assert shown + t.flush() == "\ufffd" * 10_000


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([replace("a", "b" * 65)], "content should be at most 64 characters"),
        ([replace("a" * 65, "b")], "pattern should be at most 64 characters"),
        ([strip(65, 0)], "start should be at most 64"),
        ([strip(1, 0)] * 33, "33 rules"),
        ([replace("a", "aa")] * 9, "512 times as long"),
        ([replace("", "aaa")] * 5, "1024 times as long"),
        ([{**CTC, "word_delimiter_token": ""}] * 9, "512 times as long"),
    ],
)
def test_rules_that_can_make_a_long_text_of_a_short_one_are_refused(rules, why):
    with pytest.raises(TokenizerFormatError, match=why):
        Vocabulary.from_pieces(["a"], sequence(*rules))


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("byte_fallback", ["hf", "utf8"])
def test_the_small_tokenizers_of_the_torture_list_obey_too(data, byte_fallback):
    found = json.loads((data / "torture.json").read_text())["tokenizers"]
    count = 0
    for name, tokenizer in found.items():
        pieces = tokenizer["vocab"] + tokenizer["special"] + tokenizer["added"]
        special = set(
            range(len(tokenizer["vocab"]), len(tokenizer["vocab"]) + len(tokenizer["special"]))
        )
        # Of a large vocabulary the tokens that are more than one byte, which the bytes of a
        # character stand beside.
        wanted = [
            i
            for i, piece in enumerate(pieces)
            if len(pieces) < 30 or (len(piece) > 1 and piece[:3] != "<0x")
        ]
        wanted += [
            pieces.index(piece)
            for piece in ("<0xE4>", "<0xBD>", "<0xA0>", "<0xFF>", "ð", "Ł", "ĺ", "Ģ")
            if piece in pieces
        ]
        clean_up = "transformers_kwargs" in tokenizer
        if clean_up:  # what the clean-up looks at, all of it: see above
            looked_at = ("n", "'", "t", "s", "do", ".", "Ġ", "Ġ'")
            alphabets = [[i for i, piece in enumerate(pieces) if piece in looked_at]]
        else:
            alphabets = [wanted[at : at + 6] + wanted[-3:] for at in range(0, len(wanted), 6)]
        for alphabet in alphabets:
            ids = sorted(set(alphabet))
            rules = tokenizer["decoder"]
            count += walk(rules, pieces, special, clean_up, byte_fallback, 2, ids)
            assert count, name
    assert count > 1000


@pytest.mark.native
def test_the_reference_says_what_hugging_face_says():
    """The reference is only worth something if it is right: random pieces through `tokenizers`
    itself.
    """
    from tokenizers import Tokenizer

    rng = random.Random(7)
    for name, (rules, pieces, clean_up) in FAMILIES.items():
        if "SentencePiece" in json.dumps(rules):
            continue  # sentencepiece's, not tokenizers'
        if clean_up or any(f'"stop": {n}' in json.dumps(rules) for n in (1, 2)):
            # a clean-up is transformers', not tokenizers'; the Rust strip panics on a text that it
            # strips to nothing
            continue
        vocab = {piece: i for i, piece in enumerate(pieces)}
        model = {"type": "WordLevel", "vocab": vocab, "unk_token": pieces[0]}
        document = {"version": "1.0", "added_tokens": [], "decoder": rules, "model": model}
        tokenizer = Tokenizer.from_str(json.dumps(document))
        for _ in range(200):
            ids = [rng.randrange(len(pieces)) for _ in range(rng.randrange(1, 7))]
            spelled = [pieces[i] for i in ids]
            assert decode(rules, spelled, "hf") == tokenizer.decode(ids), (name, spelled)
