"""The cases of the conformance suite as people write them: what goes in and why, not what comes out.

A case is (id, title, why, what is pushed, settings). tools/make_conformance.py computes what each
push must give. `links` names issues ("owner/name#12") and pull requests ("owner/name!12") in the
wild in which a system had the trouble. `project=True` marks trouble that this project had itself.
`since` is the version of the suite that a case came with; tests/wrong_adapters.py has a decoder that
fails it.
"""

from typing import Any, NamedTuple


class Case(NamedTuple):
    """What goes into a stream. `steps` are pushes (hex, pieces or text), or words like "flush"."""

    id: str
    title: str
    why: str
    input: str
    steps: list[Any]
    options: dict[str, Any]
    links: list[str]
    project: bool
    prompt: list[str]
    vocabulary: str
    spans: bool
    since: str
    may_refuse: bool


CASES: list[Case] = []


def case(
    id: str,
    title: str,
    why: str,
    input: str,
    steps: list[Any],
    *links: str,
    project: bool = False,
    prompt: list[str] | None = None,
    vocabulary: str = "",
    spans: bool = False,
    since: str = "1.0.0",
    may_refuse: bool = False,
    **options: Any,
) -> None:
    steps = list(steps)
    if "flush" not in steps:
        steps.append("flush")
    CASES.append(
        Case(
            id,
            title,
            why,
            input,
            steps,
            options,
            list(links),
            project,
            prompt or [],
            vocabulary,
            spans,
            since,
            may_refuse,
        )
    )


def octets(id: str, title: str, why: str, pushes: str, *links: str, **options: Any) -> None:
    """Bytes: `pushes` is hex, a space between pushes."""
    case(f"bytes/{id}", title, why, "bytes", pushes.split(), *links, **options)


def ids(
    id: str, title: str, why: str, vocabulary: str, pieces: list[Any], *links: str, **options: Any
) -> None:
    case(f"ids/{id}", title, why, "ids", pieces, *links, vocabulary=vocabulary, **options)


def text(id: str, title: str, why: str, chunks: list[Any], *links: str, **options: Any) -> None:
    case(id, title, why, "text", chunks, *links, **options)


# ── Bytes ────────────────────────────────────────────────────────────────────────────────────────
W3 = "A complete EF BF BD is a character of the text, not a sign of missing bytes."
octets(
    "replacement-character-inside",
    "U+FFFD between letters",
    W3,
    "78 ef bf bd 79",
    "vllm-project/vllm#17448",
)
octets(
    "replacement-character-last", "U+FFFD at the end", W3, "78 efbfbd", "sgl-project/sglang#34740"
)
octets("replacement-character-only", "U+FFFD and nothing else", W3, "ef bf bd")
octets(
    "replacement-characters-in-a-row",
    "U+FFFD five times",
    W3,
    "efbfbd efbfbd efbfbd efbfbd efbfbd",
    "sgl-project/sglang#34740",
)
octets(
    "replacement-character-then-half",
    "U+FFFD, then half a character that ends",
    W3,
    "efbfbd e6 9d b1",
)
octets("two-bytes", "A character of two bytes", "It appears with its last byte.", "c3 bc")
octets("three-bytes", "A character of three bytes", "It appears with its last byte.", "e6 9d b1")
octets("four-bytes", "A character of four bytes", "It appears with its last byte.", "f0 9f a6 8a")
octets(
    "cut-across-two",
    "Two characters, cut without regard to them",
    "Chunks have nothing to do with characters.",
    "f0 9fa6 8af0 9f a68a",
)
octets(
    "text-before-a-half",
    "Text and half a character in a chunk",
    "The text is certain; only the half waits.",
    "477275c3 bc21",
    "ollama/ollama#7290",
)
octets(
    "half-then-ascii",
    "Half a character, then a letter",
    "The letter proves that the character was broken: U+FFFD and the letter come together.",
    "f0 9f 78",
)
octets(
    "half-of-three-then-ascii",
    "Two bytes of three, then a letter",
    "One U+FFFD for the part, not one for each byte.",
    "e2 82 78",
)
octets(
    "half-then-lead",
    "Half a character, then another one",
    "The second lead byte makes the first one an error at once.",
    "c3 e6 9d b1",
)
octets(
    "lead-lead",
    "The same lead byte twice",
    "The first is an error when the second comes.",
    "e6 e6 9d b1",
)
octets(
    "three-of-four-then-three",
    "Three bytes of four, then a whole character",
    "One U+FFFD for three bytes.",
    "f0 9f a6 e2 82 ac",
)
octets(
    "end-after-one",
    "The stream ends after one byte of two",
    "Flushing gives one U+FFFD.",
    "78 c3",
    "vllm-project/vllm#17448",
)
octets(
    "end-after-three",
    "The stream ends after three bytes of four",
    "Flushing gives one U+FFFD, not none and not three.",
    "78 f0 9f a6",
)
octets(
    "end-in-a-byte-order-mark",
    "The stream ends inside EF BB BF",
    "What looked like a mark is a broken character.",
    "ef bb",
)
octets(
    "byte-order-mark-first",
    "U+FEFF at the beginning",
    "It is text: a stream of tokens has no byte order.",
    "ef bb bf 78",
    "huggingface/transformers.js#853",
)
octets("byte-order-mark-inside", "U+FEFF between letters", "It is text.", "78 ef bb bf 79")
octets("c0", "C0", "C0 can begin nothing: U+FFFD at once.", "c0 78")
octets("c1-81", "C1 81", "Two errors, each certain at once.", "c1 81 78")
octets("f5", "F5", "F5 and above can begin nothing.", "f5 80 78")
octets("ff-fe", "FF FE", "Never part of UTF-8.", "ff fe 78")
octets(
    "overlong-three",
    "E0 80 80",
    "After E0 only A0..BF can follow, so 80 is certain to be an error.",
    "e0 80 80 78",
)
octets("overlong-four", "F0 80 80 80", "After F0 only 90..BF can follow.", "f0 80 80 80 78")
octets(
    "surrogate",
    "ED A0 80",
    "After ED only 80..9F can follow: half a surrogate pair is no character. Decoders that wait for the third byte are a byte late.",
    "ed a0 80 78",
    project=True,
)
octets(
    "surrogate-pair",
    "Two surrogates, three bytes each",
    "They are not an emoji.",
    "ed a0 be ed b6 8a 78",
    project=True,
)
octets(
    "surrogate-lead-ends", "ED A0 at the end", "Both errors are certain before the end.", "ed a0"
)
octets(
    "last-before-surrogates",
    "U+D7FF",
    "The last character before the surrogates is one.",
    "ed 9f bf",
)
octets("above-the-last", "F4 90", "Above U+10FFFF there is nothing.", "f4 90 80 80 78")
octets("last-character", "U+10FFFF", "The last code point is valid.", "f4 8f bf bf")
octets(
    "noncharacters", "U+FFFE and U+FFFF", "Noncharacters are valid in UTF-8.", "ef bf be ef bf bf"
)
octets("controls", "U+0000, U+0080 and U+007F", "Controls are text.", "00 c2 80 7f")
octets(
    "continuations-alone",
    "Six continuation bytes",
    "Each is an error of its own, however many there are.",
    "80 80 80 80 80 80 78",
)
octets(
    "continuations-after-text",
    "Continuation bytes behind a whole character",
    "The character is not theirs.",
    "c3bc 80 80",
)
octets(
    "table-3-8",
    "The non-shortest forms of the Unicode Standard",
    "Chapter 3, maximal subparts: each byte that can't go on is an error.",
    "c0 af e0 80 bf f0 81 82 78",
)
octets(
    "table-3-9",
    "The surrogates of the Unicode Standard",
    "Chapter 3, maximal subparts.",
    "ed a0 80 ed bf bf ed af 78",
)
octets(
    "table-3-10",
    "The other ill-formed sequences of the Unicode Standard",
    "Chapter 3, maximal subparts.",
    "f4 91 92 93 ff 78 80 bf 79",
)
octets(
    "table-3-11",
    "The truncated sequences of the Unicode Standard",
    "Chapter 3, maximal subparts: one U+FFFD for each truncated sequence.",
    "e1 80 e2 f0 91 92 f1 bf 78",
)
octets(
    "combining",
    "A letter and a combining mark",
    "The letter doesn't wait for marks.",
    "75 cc 88 78",
)
octets(
    "joined-emoji",
    "Two emoji and a joiner",
    "What joins characters to one glyph is no reason to wait.",
    "f09fa68a e2808d f0 9f a6 8a",
)
octets("flag", "A flag of two characters", "The first half is a character.", "f09f87a9 f09f87 aa")
octets("carriage-return", "CR, then LF", "Neither waits for the other.", "780d 0a79")
octets(
    "empty-pushes",
    "Pushes without bytes",
    "They change nothing, inside a character too.",
    "c3 - bc - 78".replace("-", "''"),
)
octets(
    "one-big-push",
    "Everything in one push",
    "The same text as byte by byte.",
    "c3bcff78e69db1f09fe282",
    project=True,
)
octets(
    "errors-ignored",
    "Invalid bytes left out",
    "With the policy `ignore`.",
    "78 ff 79 c3",
    errors="ignore",
)
octets(
    "errors-ignored-inside",
    "A broken character left out",
    "With the policy `ignore`; the letter behind it stays.",
    "f0 9f 78",
    errors="ignore",
)
octets(
    "errors-strict",
    "Invalid bytes refused",
    "With the policy `strict` the push that makes the error certain raises.",
    "78 c3 78",
    errors="strict",
)
octets(
    "errors-strict-at-the-end",
    "A half refused at the end",
    "With the policy `strict` flushing half a character raises.",
    "78 c3",
    errors="strict",
)

octets(
    "stray-after-interrupted",
    "Two bytes of three, a letter, then the third byte",
    "The letter has ended the character, so the byte is an error of its own.",
    "e2 82 78 ac",
    since="1.1.0",
)
octets(
    "ascii-after-every-lead",
    "A lead byte before each letter",
    "Each letter proves one error, and none is held for the next.",
    "c378 e279 f07a",
    since="1.1.0",
)

# ── Ids: byte-level ──────────────────────────────────────────────────────────────────────────────
B = "byte-level"
ids(
    "byte-level/leading-space",
    "A leading space",
    "Byte-level vocabularies keep every byte, the first space too.",
    B,
    ["Ġred", "Ġfox"],
)
ids(
    "byte-level/space-alone",
    "A space alone, then a word",
    "A space is text.",
    B,
    ["Ġ", "fox"],
    "ml-explore/mlx-lm!1754",
)
ids("byte-level/spaces", "Two spaces at the end", "Trailing spaces are text.", B, ["fox", "ĠĠ"])
ids(
    "byte-level/character-over-tokens",
    "A character over three tokens",
    "It appears with the last of them.",
    B,
    ["Ġ", "ð", "Ł", "¦Ĭ"],
    "huggingface/tokenizers#1141",
)
ids(
    "byte-level/tails-and-heads",
    "Tokens that end one character and begin the next",
    "The text of the token is certain up to the half: neither later nor twice.",
    B,
    ["Gr", "Ã¼Ã", "Łe", "Ã©tÃ", "©"],
    "sgl-project/sglang#31598",
)
ids(
    "byte-level/head-in-a-token",
    "A token with text and half a character",
    "The text doesn't wait for the other half.",
    B,
    ["æĿ±äº", "¬"],
)
ids(
    "byte-level/space-and-half",
    "A space and half an emoji in one token",
    "The space is certain.",
    B,
    ["ĠðŁ", "¦Ĭ"],
)
ids(
    "byte-level/half-and-word",
    "Half a character, then a word",
    "U+FFFD and the word come together.",
    B,
    ["ĠðŁ", "Ġred"],
)
ids(
    "byte-level/replacement-token",
    "A token that is U+FFFD",
    "It is a character, shown at once.",
    B,
    ["ï¿½", "ï¿½", "Ġfox"],
    "sgl-project/sglang#34740",
)
ids(
    "byte-level/replacement-at-the-end",
    "A token that ends in U+FFFD, at the end",
    "It is shown, though nothing comes behind it.",
    B,
    ["Gr", "okï¿½"],
)
ids(
    "byte-level/replacements-many",
    "Forty tokens that are U+FFFD",
    "Each is shown at once, at the same cost.",
    B,
    ["ï¿½"] * 40,
    "sgl-project/sglang!34852",
)
ids(
    "byte-level/end-in-a-character",
    "The stream ends inside a character",
    "Flushing gives one U+FFFD.",
    B,
    ["Ġfox", "ðŁ"[:1], "Ł"],
    "vllm-project/vllm#17448",
)
ids("byte-level/newlines", "Newlines", "They are text at once.", B, ["Gr", "ĊĊ", "fox", "čĊ"])
ids("byte-level/one-token", "A single token", "There is nothing to wait for.", B, ["fox"])
ids("byte-level/byte-order-mark", "U+FEFF as a token", "It is text.", B, ["ï»¿", "fox"])
ids(
    "byte-level/joiner",
    "A joiner between two emoji",
    "Nothing waits for what may join.",
    B,
    ["ðŁ¦Ĭ", "âĢį", "ðŁ¦Ĭ"],
)
ids(
    "byte-level/special-skipped",
    "A special token inside a character, skipped",
    "A token that is skipped is nothing: the halves join.",
    B,
    ["ĠðŁ", "<|end|>", "¦Ĭ"],
)
ids(
    "byte-level/special-shown",
    "A special token inside a character, shown",
    "The token ends the character: U+FFFD, the token, then an error for each stray byte.",
    B,
    ["ð", "Ł", "<|sep|>", "¦", "Ĭ"],
    skip_special_tokens=False,
)
ids(
    "byte-level/special-at-both-ends",
    "Special tokens around the text",
    "Skipped ones leave nothing behind.",
    B,
    ["<|sep|>", "fox", "<|end|>"],
)
ids(
    "byte-level/added-inside-a-character",
    "An added token inside a character",
    "Text behind half a character ends it.",
    B,
    ["ð", "Ł", "<｜note▁here｜>", "fox"],
)
ids(
    "byte-level/added-unmapped",
    "An added token whose letters stand for no bytes",
    "Its text is taken as it is; ▁ is no space here.",
    B,
    ["fox", "<｜note▁here｜>", "Ġred"],
    "huggingface/tokenizers#1392",
)
ids(
    "byte-level/added-mixed",
    "An added token, some of whose letters stand for bytes",
    "One letter that stands for none makes the whole token text.",
    B,
    ["fox", "łza東", "Ġred"],
)
ids(
    "byte-level/added-mapped",
    "An added token all of whose letters stand for bytes",
    "Where the token's letters stand for bytes, as in Hugging Face's tokenizers, `ĉ` is a tab.",
    B,
    ["fox", "ĉlan", "Ġred"],
    "huggingface/tokenizers#1915",
    added_tokens="bytes",
)
ids(
    "byte-level/added-mapped-invalid",
    "An added token whose letters stand for invalid bytes",
    "Where the token's letters stand for bytes, as in Hugging Face's tokenizers, `ï` is EF.",
    B,
    ["fox", "<naïve>", "Ġred"],
    "huggingface/tokenizers#1996",
    added_tokens="bytes",
)
ids(
    "byte-level/batch",
    "Several ids in a push",
    "The same text as one by one.",
    B,
    [["Gr", "Ã¼Ã"], ["Łe", "Ġfox"]],
)
ids("byte-level/empty-push", "A push without ids", "It changes nothing.", B, ["ĠðŁ", [], "¦Ĭ"])
ids(
    "byte-level/long-line",
    "A line of a hundred tokens without a space",
    "Each is shown at once.",
    B,
    ["fox"] * 100,
    "huggingface/transformers#28849",
)
ids(
    "byte-level/east-asian",
    "Characters without spaces between",
    "Nothing waits for a space.",
    B,
    ["æĿ±äº", "¬", "æĿ±äº", "¬"],
    "huggingface/transformers!22664",
)
ids(
    "byte-level/same-token-twice",
    "The same half twice",
    "The first is an error when the second comes.",
    B,
    ["ĠðŁ", "ĠðŁ", "¦Ĭ"],
)

# ── Ids: SentencePiece ───────────────────────────────────────────────────────────────────────────
S, G = "sentencepiece", "sentencepiece, no strip"
for policy, slug, name in (("utf8", "utf8", "read as UTF-8"), ("hf", "run", "read as a run")):
    how = (
        "Each byte token is a byte of a UTF-8 stream."
        if policy == "utf8"
        else "A run of byte tokens is UTF-8 as a whole, or each of its bytes is U+FFFD: nothing of it is certain before it ends."
    )
    p: dict[str, Any] = {"byte_fallback": policy}
    ids(
        f"sentencepiece/{slug}/strip",
        f"The first space, {name}",
        "The decoder takes one space from the beginning.",
        S,
        ["▁red", "▁fox"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/space-first",
        f"A space alone at the beginning, {name}",
        "Only one space is taken, so the next one stays.",
        S,
        ["▁", "▁red", "▁fox"],
        "ml-explore/mlx-lm!1754",
        **p,
    )
    ids(
        f"sentencepiece/{slug}/two-spaces-first",
        f"A token of two spaces at the beginning, {name}",
        "One is taken, one is certain.",
        S,
        ["▁▁", "fox"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/newline",
        f"A newline as a byte, {name}",
        how,
        S,
        ["▁fox", "<0x0A>", "▁Red"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/character",
        f"A character of three byte tokens, {name}",
        how,
        S,
        ["▁red", "<0xE6>", "<0x9D>", "<0xB1>", "▁fox"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/two-characters",
        f"Two characters of byte tokens, {name}",
        how,
        S,
        ["<0xC3>", "<0xBC>", "<0xC3>", "<0xA9>", "s"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/broken-run",
        f"A character, then half of one, {name}",
        how,
        S,
        ["<0xE6>", "<0x9D>", "<0xB1>", "<0xE4>", "<0xBA>", "A"],
        "vllm-project/vllm#24180",
        **p,
    )
    ids(
        f"sentencepiece/{slug}/stray-byte",
        f"A no-break space and a stray byte, {name}",
        how,
        G,
        ["A", "<0xC2>", "<0xA0>", "<0xC2>", "»", "."],
        "vllm-project/vllm#17448",
        **p,
    )
    ids(
        f"sentencepiece/{slug}/space-byte-first",
        f"The byte 20 at the beginning, {name}",
        "It is a space like any other, and taken.",
        S,
        ["<0x20>", "A"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/byte-order-mark",
        f"U+FEFF as bytes, {name}",
        how,
        S,
        ["A", "<0xEF>", "<0xBB>", "<0xBF>", "s"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/special-inside",
        f"A special token inside a run, skipped, {name}",
        how,
        S,
        ["A", "<0xE6>", "<0x9D>", "</s>", "<0xB1>", "s"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/special-inside-shown",
        f"A special token inside a run, shown, {name}",
        how,
        S,
        ["A", "<0xE6>", "</s>", "<0x9D>", "s"],
        skip_special_tokens=False,
        **p,
    )
    ids(
        f"sentencepiece/{slug}/run-at-the-end",
        f"The stream ends behind a character, {name}",
        how,
        S,
        ["A", "<0xC3>", "<0xA9>"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/half-at-the-end",
        f"The stream ends inside a character, {name}",
        how,
        S,
        ["A", "<0xC3>"],
        **p,
    )
    ids(
        f"sentencepiece/{slug}/replacement-bytes",
        f"U+FFFD as byte tokens, {name}",
        how,
        S,
        ["<0xEF>", "<0xBF>", "<0xBD>", "s"],
        **p,
    )
ids(
    "sentencepiece/replacement-piece",
    "U+FFFD as a piece",
    "It is a character, shown at once.",
    S,
    ["▁red", "�", "▁fox"],
)
ids(
    "sentencepiece/spaces-inside",
    "Spaces between words",
    "Only the first space of the text is taken.",
    S,
    ["▁red", "▁▁", "▁fox", "▁"],
)
ids(
    "sentencepiece/special-first-shown",
    "A special token first, shown",
    "The text begins with it, so the space behind it stays.",
    S,
    ["<s>", "▁red", "</s>"],
    skip_special_tokens=False,
)
ids(
    "sentencepiece/special-first-skipped",
    "A special token first, skipped",
    "The text begins behind it, and its space is taken.",
    S,
    ["<s>", "▁red"],
)
ids(
    "sentencepiece/newline-keeps-the-space",
    "A word at the beginning of a line",
    "A newline does not begin the text again: the space stays.",
    S,
    ["▁red", "<0x0A>", "▁fox"],
    byte_fallback="utf8",
)
ids(
    "sentencepiece/looks-like-a-byte",
    "An added token that only looks like a byte token",
    "`<0xGG>` is text.",
    f"{S}, a token that looks like a byte",
    ["A", "<0xGG>", "s"],
)
ids(
    "sentencepiece/no-strip",
    "A decoder that keeps the first space",
    "Whether a space is taken is said in the file.",
    G,
    ["▁red", "▁fox"],
)
ids(
    "sentencepiece/no-strip-space",
    "A space alone with such a decoder",
    "It is text at once.",
    G,
    ["▁", "fox"],
)
ids(
    "sentencepiece/only-space", "Nothing but a space", "It is taken, and nothing is left.", S, ["▁"]
)
ids(
    "sentencepiece/byte-level-pieces",
    "Byte-level pieces under a SentencePiece decoder",
    "The decoder of the file decides, so `Ġ` is a letter.",
    "byte-level pieces, SentencePiece decoder",
    ["fox", "Ġred"],
    "ml-explore/mlx-lm#1041",
)

# ── Ids: other families ──────────────────────────────────────────────────────────────────────────
for scheme in ("first", "always", "never"):
    M = f"metaspace, {scheme}"
    ids(
        f"metaspace/{scheme}/words",
        f"Words, {scheme}",
        "The scheme says whether the first token loses its space.",
        M,
        ["▁red", "▁fox"],
    )
    ids(
        f"metaspace/{scheme}/two-first",
        f"Two spaces first, {scheme}",
        "All marks of the first token are the prefix's.",
        M,
        ["▁▁", "▁red"],
    )
    ids(
        f"metaspace/{scheme}/newline",
        f"A newline, {scheme}",
        "A newline begins no new text.",
        M,
        ["▁red", "\n", "▁fox"],
        "huggingface/transformers#31187",
    )
    ids(
        f"metaspace/{scheme}/special-shown",
        f"A special token first, shown, {scheme}",
        "It is the first token, so the next one keeps its space.",
        M,
        ["<s>", "▁red"],
        skip_special_tokens=False,
    )
    ids(
        f"metaspace/{scheme}/inside",
        f"A mark inside the first token, {scheme}",
        "The rule is for the whole token.",
        M,
        ["a▁b", "a▁b"],
    )
P, PN = "wordpiece", "wordpiece, no clean-up"
ids(
    "wordpiece/continued",
    "A word of two pieces",
    "`##` joins.",
    P,
    ["fox", "##es", "jump", "##ing", "over"],
)
ids(
    "wordpiece/continued-first",
    "A continuation at the beginning",
    "The first piece is taken as it is.",
    P,
    ["##es", "over"],
)
ids(
    "wordpiece/hashes",
    "A piece that is nothing but ##",
    "It joins nothing.",
    P,
    ["fox", "##", "over"],
)
ids(
    "wordpiece/punctuation",
    "Punctuation",
    "The decoder takes the space before each mark.",
    P,
    ["fox", ",", "it", ".", "over", "!"],
)
ids(
    "wordpiece/no-clean-up",
    "Punctuation without clean-up",
    "The file says that spaces stay.",
    PN,
    ["fox", ",", "it", "."],
)
ids(
    "wordpiece/special",
    "A special token, skipped",
    "It leaves no space behind.",
    P,
    ["fox", "[SEP]", "##es"],
)
ids(
    "wordpiece/clean-up-not",
    "do n ' t, cleaned up over the whole text",
    "A space may belong to what a clean-up takes away, so it waits.",
    P,
    ["it", "do", "n", "'", "t", "jump"],
    clean_up_tokenization_spaces=True,
)
ids(
    "wordpiece/clean-up-s",
    "it ' s, cleaned up over the whole text",
    "The clean-up takes both spaces.",
    P,
    ["it", "'", "s", "over"],
    clean_up_tokenization_spaces=True,
)
ids(
    "wordpiece/clean-up-quotes",
    "A quotation, cleaned up over the whole text",
    "What a quotation mark does is certain only with what follows.",
    P,
    ["said", "'", "over", "'", "."],
    clean_up_tokenization_spaces=True,
)
ids(
    "wordpiece/clean-up-have",
    "i ' ve, cleaned up over the whole text",
    "The longest form decides.",
    P,
    ["i", "'", "ve", "said"],
    clean_up_tokenization_spaces=True,
)
ids(
    "byte-level/clean-up",
    "A space before a full stop, cleaned up",
    "A clean-up of a byte-level text takes spaces that the model meant; where it is asked for, the space waits.",
    B,
    ["fox", "Ġ", ".", "Ġred"],
    "huggingface/transformers#35175",
    clean_up_tokenization_spaces=True,
)
ids(
    "byte-level/clean-up-space",
    "A space that a clean-up may take, at the end",
    "It stays: nothing came behind it.",
    B,
    ["fox", "Ġ"],
    "huggingface/transformers#32575",
    clean_up_tokenization_spaces=True,
)
ids(
    "byte-level/clean-up-it-s",
    "it 's, cleaned up",
    "The space goes when the whole pattern has come.",
    B,
    ["Ġit", "Ġ", "'s", "Ġred"],
    clean_up_tokenization_spaces=True,
)
ids(
    "ctc/repeats",
    "Letters that repeat",
    "A letter that comes twice in a row is one letter.",
    "ctc",
    ["f", "f", "o", "o", "x"],
)
ids(
    "ctc/pad",
    "A pad between two letters",
    "It keeps them apart.",
    "ctc",
    ["f", "o", "<pad>", "o", "x"],
)
ids(
    "ctc/words",
    "Words",
    "The delimiter is a space.",
    "ctc",
    ["r", "e", "|", "|", "f", "o", "x", "<pad>"],
)
ids(
    "ctc/three-times",
    "A letter three times",
    "It is still one letter.",
    "ctc",
    ["f", "f", "f", "o"],
    project=True,
)
ids(
    "suffix/words",
    "Words that end in a suffix",
    "The suffix is a space, but not at the end.",
    "suffix",
    ["f", "ox</w>", "fox</w>", "!</w>"],
)
ids(
    "suffix/at-the-end",
    "A suffix that something follows",
    "Whether it is a space is certain with the next token.",
    "suffix",
    ["fox</w>", "re"],
)
ids(
    "no-decoder/words",
    "A file without a decoder",
    "Single spaces join the tokens.",
    "no decoder",
    ["red", "fox", "s"],
)
ids(
    "strip/end",
    "A space at the end that may be taken",
    "It is certain with what follows.",
    "strip at both ends",
    ["▁a", "▁", "c"],
)
ids(
    "strip/end-of-stream",
    "A space at the end that is taken",
    "Flushing gives nothing.",
    "strip at both ends",
    ["▁a", "b▁"],
)
ids(
    "replace/across",
    "A pattern across tokens",
    "What may be its beginning waits.",
    "replace behind a fuse",
    ["a", "<", "br", ">", "b"],
)
ids(
    "replace/not-the-pattern",
    "What only begins as the pattern does",
    "It comes as soon as it can't be the pattern.",
    "replace behind a fuse",
    ["a", "<br", "<br", ">", "<"],
)


ids(
    "byte-level/clean-up-in-a-word",
    "A space before an exclamation mark that is no sentence's, cleaned up",
    "A clean-up knows no words: it takes the space of ` !=`, too.",
    B,
    ["fox", ["Ġ", "!", "="], "Ġred"],
    since="1.1.0",
    clean_up_tokenization_spaces=True,
)
APART: dict[str, Any] = {
    "skip_special_tokens": False,
    "spaces_between_special_tokens": True,
    "since": "1.1.0",
}
ids(
    "byte-level/special-apart",
    "Special tokens shown with spaces around them",
    "Single spaces join special tokens and the runs between them.",
    B,
    ["fox", "<|sep|>", "<|end|>", "Ġred"],
    **APART,
)
ids(
    "byte-level/special-apart-inside-a-character",
    "A special token inside a character, shown with spaces around it",
    "Each run is decoded by itself: no half is joined across the token.",
    B,
    ["ĠðŁ", "<|sep|>", "¦Ĭ"],
    **APART,
)
ids(
    "sentencepiece/special-apart",
    "A space taken from the beginning of each run",
    "Behind a special token that stands apart a run begins, and its first space is taken.",
    S,
    ["▁red", "<s>", "▁fox"],
    byte_fallback="utf8",
    **APART,
)


# ── Text ─────────────────────────────────────────────────────────────────────────────────────────
def pairs(id: str, title: str, why: str, chunks: list[Any], *links: str, **options: Any) -> None:
    text(f"text/{id}", title, why, chunks, *links, since="1.1.0", **options)


pairs(
    "pair-over-two-pushes",
    "A surrogate pair over two pushes",
    "A string of JSON can be cut inside a pair. The first half waits, and the pair is one character.",
    ["a\ud83e", "\udd8ab"],
    project=True,
)
pairs(
    "half-that-breaks",
    "The first half of a pair, then a letter",
    "The letter proves that the half is alone: U+FFFD and the letter come together.",
    ["a\ud83e", "b"],
    project=True,
)
pairs(
    "second-half-alone",
    "The second half of a pair alone",
    "Nothing can make a character of it: U+FFFD at once.",
    ["a\udd8a", "b"],
    project=True,
)
pairs(
    "half-at-the-end",
    "The first half of a pair at the end",
    "Flushing gives one U+FFFD.",
    ["a", "\ud83e"],
    project=True,
)
pairs(
    "first-half-twice",
    "The first half of a pair twice",
    "The first one is an error when the second one comes.",
    ["\ud83e", "\ud83e", "\udd8a"],
    project=True,
)


# ── Prompts ──────────────────────────────────────────────────────────────────────────────────────
def prompt(
    id: str,
    title: str,
    why: str,
    vocabulary: str,
    before: list[str],
    pieces: list[Any],
    *links: str,
    **options: Any,
) -> None:
    case(
        f"prompts/{id}",
        title,
        why,
        "ids",
        pieces,
        *links,
        vocabulary=vocabulary,
        prompt=before,
        **options,
    )


prompt(
    "inside-a-character",
    "The prompt ends inside a character",
    "The answer begins with the character that the prompt began.",
    B,
    ["Gr", "ĠðŁ"],
    ["¦Ĭ", "Ġred"],
    "vllm-project/vllm#48853",
)
prompt(
    "inside-a-character-that-breaks",
    "The prompt ends inside a character that never ends",
    "U+FFFD is in the text of the prompt already.",
    B,
    ["Gr", "ĠðŁ"],
    ["fox"],
    project=True,
)
prompt(
    "inside-two-bytes",
    "The prompt ends after one byte of two",
    "One byte ends the character.",
    B,
    ["Gr", "Ã¼Ã"],
    ["Łe"],
)
prompt(
    "keeps-the-space",
    "An answer behind a prompt keeps its first space",
    "It is not the beginning of the text.",
    S,
    ["<s>", "▁fox"],
    ["▁red", "▁fox"],
)
prompt(
    "only-special",
    "A prompt of a special token that is skipped",
    "The text begins with the answer, and its space is taken.",
    S,
    ["<s>"],
    ["▁red"],
)
prompt(
    "inside-a-run-utf8",
    "The prompt ends inside a byte run, read as UTF-8",
    "The character is the answer's.",
    S,
    ["A", "<0xE6>", "<0x9D>"],
    ["<0xB1>", "s"],
    byte_fallback="utf8",
)
prompt(
    "inside-a-run",
    "The prompt ends inside a byte run, read as a run",
    "The run of prompt and answer is one.",
    S,
    ["A", "<0xE6>", "<0x9D>"],
    ["<0xB1>", "s"],
    project=True,
    byte_fallback="hf",
)
prompt(
    "behind-a-whole-run",
    "The prompt ends behind a character of a run, read as a run",
    "A bad byte makes the whole run U+FFFD, the prompt's too.",
    S,
    ["A", "<0xC3>", "<0xA9>"],
    ["<0xC3>", "s"],
    project=True,
    byte_fallback="hf",
)
prompt(
    "metaspace",
    "A prompt before a Metaspace decoder",
    "Only the first token of the text loses its space.",
    "metaspace, always",
    ["▁red"],
    ["▁fox"],
)
prompt(
    "wordpiece",
    "A prompt before pieces of words",
    "The answer goes on with the word.",
    P,
    ["jump"],
    ["##ing", "over"],
)
prompt(
    "clean-up",
    "A prompt that ends in what a clean-up may take",
    "The space is in the prompt's text.",
    P,
    ["it", "do"],
    ["n", "'", "t"],
    project=True,
    clean_up_tokenization_spaces=True,
)
prompt("empty", "A prompt without ids", "It is no prompt.", S, [], ["▁red"])
prompt(
    "long",
    "A prompt of a hundred tokens",
    "Nothing of it appears.",
    B,
    ["Ġfox"] * 100,
    ["Ġred"],
    "huggingface/tokenizers!1856",
)


PROJECT: dict[str, Any] = {"project": True, "since": "1.1.0"}
prompt(
    "behind-a-character-of-a-run",
    "The prompt ends behind a character of a run, read as a run",
    "The character is the prompt's, and is not shown again.",
    S,
    ["A", "<0xC3>", "<0xA9>"],
    ["▁red", "s"],
    byte_fallback="hf",
    **PROJECT,
)
for policy in ("utf8", "hf"):
    prompt(
        f"character-and-half-{'run' if policy == 'hf' else policy}",
        f"The prompt ends in a character and half of the next, read as {policy}",
        "Only what the answer completes is shown.",
        S,
        ["<0xC3>", "<0xA9>", "<0xE6>", "<0x9D>"],
        ["<0xB1>", "s"],
        byte_fallback=policy,
        **PROJECT,
    )
prompt(
    "half-of-a-run-that-breaks",
    "The prompt ends inside a run that never becomes a character",
    "The prompt's own text ends in U+FFFD already.",
    S,
    ["A", "<0xE6>"],
    ["▁red"],
    byte_fallback="hf",
    **PROJECT,
)
prompt(
    "space-that-stays",
    "A prompt that ends in a space, with a clean-up",
    "The space is the prompt's, and is not shown again.",
    B,
    ["fox", "Ġ"],
    ["fox", "Ġred"],
    clean_up_tokenization_spaces=True,
    **PROJECT,
)
prompt(
    "space-that-goes",
    "A prompt that ends in a space that the answer makes go",
    "The text of the prompt is no beginning of the whole; what both begin with is left out.",
    B,
    ["fox", "Ġ"],
    [".", "Ġred"],
    clean_up_tokenization_spaces=True,
    **PROJECT,
)
prompt(
    "repeated-letter",
    "An answer that begins with the prompt's last letter, where repeats are one",
    "The letter is in the prompt's text.",
    "ctc",
    ["f"],
    ["f", "o"],
    since="1.1.0",
)
prompt(
    "suffix",
    "A prompt that ends in a suffix",
    "The suffix becomes a space when the answer begins, and the space is the answer's.",
    "suffix",
    ["fox</w>"],
    ["re", "ox</w>"],
    since="1.1.0",
)
prompt(
    "special-apart",
    "A prompt that ends in a special token that stands apart",
    "The answer begins with the space between them.",
    B,
    ["fox", "<|sep|>"],
    ["Ġred"],
    skip_special_tokens=False,
    spaces_between_special_tokens=True,
    **PROJECT,
)


# ── Stops ────────────────────────────────────────────────────────────────────────────────────────
def stop(
    id: str, title: str, why: str, stops: list[str], chunks: list[Any], *links: str, **options: Any
) -> None:
    text(f"stops/{id}", title, why, chunks, *links, stop=stops, **options)


stop(
    "over-two-chunks",
    "A stop over two chunks",
    "What is before it is shown, what is behind it is dropped.",
    ["END"],
    ["go E", "ND!", "more"],
    "ggml-org/llama.cpp#10914",
)
stop(
    "included",
    "A stop that is shown",
    "Nothing waits; the text ends behind the stop.",
    ["END"],
    ["go E", "NDless"],
    include_stop=True,
)
stop(
    "almost",
    "A beginning that goes on otherwise",
    "What waited comes with what follows.",
    ["END"],
    ["go E", "N", "g"],
)
stop(
    "again-from-inside",
    "A stop that begins inside an attempt",
    "The search goes on from inside of what failed.",
    ["END"],
    ["EEN", "EN", "D"],
)
stop(
    "self-overlapping",
    "A stop that overlaps itself",
    "As much comes as can't be part of it.",
    ["abab"],
    list("abaabab"),
)
stop(
    "inside-a-chunk",
    "A stop inside one chunk",
    "The text before it is not lost.",
    ["end"],
    ["the end of it"],
)
stop(
    "prefix-of-another",
    "A stop that another one begins with",
    "The one that is complete first ends the text.",
    ["endless", "end"],
    ["e", "n", "d", "l"],
)
stop(
    "tie",
    "Two stops complete at the same character",
    "The one that began first counts.",
    ["d", "nd"],
    ["e", "n", "d"],
)
stop(
    "inside-another",
    "A stop inside a longer one",
    "The longer one waits, the shorter one is complete first.",
    ["abcd", "bc"],
    list("xabcd"),
    project=True,
)
stop(
    "held-at-the-end",
    "A beginning of a stop at the end",
    "Flushing gives it back.",
    ["\nUser:"],
    ["Bye", "\n"],
    "ggml-org/llama.cpp#11738",
)
stop(
    "held-two-at-the-end",
    "Half a stop at the end",
    "Flushing gives it back.",
    ["###"],
    ["a #", "#"],
)
stop(
    "not-shown-early",
    "Half a stop is not shown",
    "Shown text can't be taken back.",
    ["<|end|>"],
    ["hi<|", "end", "|>"],
    "ggml-org/llama.cpp#4036",
)
stop(
    "only-what-can",
    "No more waits than can be the stop",
    "A chunk that ends in no beginning of it is shown whole.",
    ["STOP"],
    ["abc", "defS", "x"],
)
stop(
    "nothing-waits",
    "A long stop, and text without its letters",
    "The length of the stop is no reason to wait.",
    ["<|end_of_answer|>"],
    ["a", "b", "c"],
)
stop("first-chunk", "A stop first", "Nothing is shown.", ["END"], ["END", "x"])
stop("whole-text", "A stop letter by letter", "Nothing is shown.", ["END"], ["E", "N", "D"])
stop("newline", "A newline as stop", "It is complete at once.", ["\n"], ["one\ntwo", "three"])
stop("no-stop", "A list without stops", "It is as if there were none.", [], ["E", "ND"])
stop(
    "many",
    "A hundred stops",
    "As many are searched for at once.",
    [f"s{n:02}" for n in range(100)],
    ["a s", "4", "2 b"],
)
stop(
    "characters-outside-the-plane",
    "A stop of characters beyond U+FFFF",
    "Characters are units, not halves of them.",
    ["🦊🦊"],
    ["a🦊", "b🦊", "🦊c"],
)
stop(
    "after-a-stop",
    "Pushes behind a stop",
    "They give nothing.",
    ["END"],
    ["a END", "b", "END", "c"],
    project=True,
)
stop(
    "combining",
    "A stop that a combining mark follows",
    "A stop is made of characters, so it is complete.",
    ["e"],
    ["xe", "\u0301y"],
)
case(
    "stops/bytes-behind",
    "Half a character behind a stop",
    "It is dropped with everything behind the stop: no U+FFFD.",
    "bytes",
    ["6120454e44e6"],
    stop=["END"],
)
case(
    "stops/half-before",
    "Half a character before a stop",
    "U+FFFD belongs to the text.",
    "bytes",
    ["61c3", "454e44"],
    stop=["END"],
)
case(
    "stops/over-tokens",
    "A stop over tokens",
    "Tokens have nothing to do with stops.",
    "ids",
    ["fox", "ĠEND"[:1], "EN", "D", "Ġred"],
    vocabulary=B,
    stop=["END"],
)
case(
    "stops/inside-a-token",
    "A stop inside a token",
    "The space before it is shown.",
    "ids",
    ["fox", "ĠEND", "Ġred"],
    vocabulary=B,
    stop=["END"],
)
case(
    "stops/end-id",
    "An id that ends the answer",
    "Its text is not shown, nor anything behind it.",
    "ids",
    ["fox", "<|end|>", "Ġred"],
    vocabulary=B,
    eos=["<|end|>"],
)
case(
    "stops/end-id-shown",
    "An id that ends the answer, where special tokens are shown",
    "An id that ends the answer is no text.",
    "ids",
    ["<|sep|>", "fox", "<|end|>"],
    vocabulary=B,
    eos=["<|end|>"],
    skip_special_tokens=False,
)
case(
    "stops/reasoning-is-not-content",
    "A stop inside reasoning",
    "Stops are for the content, unless they are asked for everywhere.",
    "text",
    ["<think>a Q: b", "</think>", "c Q", ": d"],
    "vllm-project/vllm#53066",
    stop=["Q:"],
    reasoning=[["<think>", "</think>"]],
)
case(
    "stops/everywhere",
    "A stop inside reasoning, asked for everywhere",
    "It ends the answer.",
    "text",
    ["<think>a Q", ": b", "</think>"],
    stop=["Q:"],
    stop_scope="everywhere",
    reasoning=[["<think>", "</think>"]],
)

END: dict[str, Any] = {"eos": ["<|end|>"], **PROJECT}
case(
    "stops/end-id-behind-half-a-character",
    "An id that ends the answer, behind half a character",
    "Nothing can come any more, so U+FFFD is certain with the id.",
    "ids",
    ["fox", "ĠðŁ", "<|end|>", "Ġred"],
    vocabulary=B,
    **END,
)
case(
    "stops/end-id-behind-half-a-stop",
    "An id that ends the answer, behind half a stop",
    "Nothing can make a stop of it any more: it is text with the id.",
    "ids",
    ["fox", "EN", "<|end|>", "D"],
    vocabulary=B,
    stop=["END"],
    **END,
)
case(
    "stops/end-id-behind-a-clean-up",
    "An id that ends the answer, behind a space that may be taken",
    "Nothing can take it any more.",
    "ids",
    ["fox", "Ġ", "<|end|>"],
    vocabulary=B,
    clean_up_tokenization_spaces=True,
    **END,
)
case(
    "stops/end-id-behind-a-run",
    "An id that ends the answer, behind a byte run",
    "The run ends with the id, so it is a character.",
    "ids",
    ["A", "<0xC3>", "<0xA9>", "</s>", "s"],
    vocabulary=S,
    byte_fallback="hf",
    eos=["</s>"],
    **PROJECT,
)
case(
    "stops/end-id-inside-a-push",
    "An id that ends the answer, inside a push of several",
    "What is behind it is dropped, what was held before it is shown.",
    "ids",
    [["fox", "ĠðŁ", "<|end|>", "Ġred"], "fox"],
    vocabulary=B,
    **END,
)
case(
    "stops/end-id-that-is-text",
    "An ordinary token that ends the answer",
    "Its text is not shown either.",
    "ids",
    ["fox", "ĊĊ", "Ġred"],
    vocabulary=B,
    eos=["ĊĊ"],
    since="1.1.0",
)
case(
    "stops/complete-at-the-end",
    "A stop that the end of the bytes completes",
    "Half a character becomes U+FFFD at the end, and that is the stop.",
    "bytes",
    ["61", "e4", "b8"],
    stop=["\ufffd"],
    **PROJECT,
)
case(
    "stops/empty",
    "An empty stop",
    "It is refused, or it is none. An answer does not end before it began.",
    "text",
    ["a"],
    stop=[""],
    may_refuse=True,
    since="1.1.0",
)
case(
    "stops/before-a-half-in-a-push",
    "A stop, and half a stop behind it, in one push",
    "What is behind a stop is dropped, also where it looks like one.",
    "text",
    ["a STOP b ST"],
    stop=["STOP"],
    since="1.1.0",
)
case(
    "stops/included-twice",
    "A stop that is shown, and comes again",
    "The answer is over behind the first.",
    "text",
    ["a EN", "D b END"],
    stop=["END"],
    include_stop=True,
    since="1.1.0",
)


def stop_ids(id: str, title: str, why: str, pieces: list[Any], **options: Any) -> None:
    case(f"stops/ids-{id}", title, why, "ids", pieces, **{"vocabulary": B, **PROJECT, **options})


stop_ids(
    "sequence",
    "A sequence of ids that ends the answer",
    "Its beginning waits, and is text if it goes on otherwise.",
    ["fox", "Ċ", "fox", "Ċ", "Ġred", "fox"],
    stop_ids=[["Ċ", "Ġred"]],
)
stop_ids(
    "again-from-inside",
    "A sequence of ids that begins inside an attempt",
    "The search goes on from inside of what failed.",
    ["Ċ", "Ċ", "Ċ", "Ġred", "fox"],
    stop_ids=[["Ċ", "Ċ", "Ġred"]],
)
stop_ids(
    "behind-half-a-character",
    "Half a character before an id that stops",
    "It was before the stop, so it is text: U+FFFD, with the id.",
    ["fox", "ĠðŁ", "D", "¦Ĭ"],
    stop_ids=[["D"]],
)
stop_ids(
    "behind-a-run",
    "A byte run before an id that stops",
    "The run ends with the id, so it is a character.",
    ["A", "<0xC3>", "<0xA9>", "s"],
    vocabulary=S,
    byte_fallback="hf",
    stop_ids=[["s"]],
)
stop_ids(
    "behind-half-a-stop",
    "Half a stop string before an id that stops",
    "Nothing can make a stop of it any more: it is text.",
    ["fox", "EN", "Ċ", "D"],
    stop=["END"],
    stop_ids=[["Ċ"]],
)
stop_ids(
    "shown",
    "A sequence of ids that ends the answer and is shown",
    "It is shown whole, and nothing behind it.",
    ["fox", "Ċ", "Ġred", "fox"],
    stop_ids=[["Ċ", "Ġred"]],
    include_stop=True,
)
stop_ids(
    "held-at-the-end",
    "A beginning of a sequence at the end",
    "Flushing gives it back.",
    ["fox", "Ċ"],
    stop_ids=[["Ċ", "Ġred"]],
)
stop_ids(
    "held-at-the-limit",
    "A beginning of a sequence as the last token that is asked for",
    "Nothing can come any more: it is text with the token.",
    ["fox", "Ċ", "Ġred"],
    stop_ids=[["Ċ", "Ġred"]],
    max_tokens=2,
)
stop_ids(
    "inside-a-push",
    "A sequence of ids inside a push of several",
    "What is before it is shown.",
    [["fox", "Ċ"], ["Ġred", "fox"]],
    stop_ids=[["Ċ", "Ġred"]],
)
stop_ids(
    "in-reasoning",
    "An id that stops, inside reasoning",
    "Stops are for the content, unless they are asked for everywhere.",
    ["<think>", "fox", "D", "</", "think>", "Ġred", "D", "fox"],
    stop_ids=[["D"]],
    reasoning=[["<think>", "</think>"]],
)
stop_ids(
    "in-reasoning-everywhere",
    "An id that stops, inside reasoning, asked for everywhere",
    "It ends the answer.",
    ["<think>", "fox", "D", "</", "think>"],
    stop_ids=[["D"]],
    stop_scope="everywhere",
    reasoning=[["<think>", "</think>"]],
)
stop_ids(
    "behind-a-tag-that-waited",
    "A sequence of ids that begins with the end of a tag",
    "The first id is still inside the tag, so it begins no stop.",
    ["<think>", "fox", "</", "think>", "D", "fox"],
    stop_ids=[["think>", "D"]],
    reasoning=[["<think>", "</think>"]],
)
stop_ids(
    "of-an-end-id",
    "A sequence of ids that ends the text as well",
    "The end of text comes first, and what waited is text.",
    ["fox", "Ċ", "<|end|>", "Ġred"],
    stop_ids=[["Ċ", "Ġred"]],
    eos=["<|end|>"],
)


def limit(id: str, title: str, why: str, pieces: list[Any], *links: str, **options: Any) -> None:
    more = {"vocabulary": B, "since": "1.1.0", **options}
    case(f"stops/{id}", title, why, "ids", pieces, *links, **more)


limit(
    "limit",
    "A limit of tokens",
    "The answer is over with the last of them.",
    ["fox", "Ġred", "fox"],
    max_tokens=2,
)
limit(
    "limit-behind-half-a-stop",
    "A limit of tokens behind half a stop",
    "Nothing can make a stop of it any more: it is text with the last token.",
    ["fox", "EN", "D"],
    "ggml-org/llama.cpp#11738",
    stop=["END"],
    max_tokens=2,
    project=True,
)
limit(
    "limit-behind-half-a-character",
    "A limit of tokens inside a character",
    "U+FFFD is certain with the last token.",
    ["fox", "ĠðŁ", "¦Ĭ"],
    max_tokens=2,
    project=True,
)
limit(
    "limit-and-stop",
    "A stop that the last token completes",
    "The stop is the reason, and is not shown.",
    ["fox", "EN", "D", "fox"],
    stop=["END"],
    max_tokens=3,
)
limit(
    "limit-and-end-id",
    "An id that ends the answer as the last token",
    "The id is the reason.",
    ["fox", "<|end|>", "fox"],
    eos=["<|end|>"],
    max_tokens=2,
)
limit(
    "least",
    "A stop within the first tokens",
    "Within the first tokens nothing ends the answer; a stop is text there.",
    ["EN", "D", "fox", "Ġred"],
    stop=["END"],
    min_tokens=3,
)
limit(
    "least-end-id",
    "An id that ends the answer, within the first tokens",
    "It is a special token like any other there.",
    ["fox", "<|end|>", "Ġred", "<|end|>", "fox"],
    eos=["<|end|>"],
    min_tokens=2,
)
limit(
    "least-begins-before",
    "A stop that begins within the first tokens and ends behind them",
    "It counts: what matters is where it ends.",
    ["fox", "EN", "D", "fox"],
    stop=["END"],
    min_tokens=2,
)


# ── Reasoning and tools ──────────────────────────────────────────────────────────────────────────
THINK = {"reasoning": [["<think>", "</think>"]]}
CALL = {"tools": [["<tool_call>", "</tool_call>"]]}


def think(id: str, title: str, why: str, chunks: list[Any], *links: str, **options: Any) -> None:
    text(f"reasoning/{id}", title, why, chunks, *links, **{**THINK, **options})


think(
    "whole-tags",
    "Tags in chunks of their own",
    "Tags are not shown.",
    ["<think>", "hm", "</think>", "yes"],
)
think(
    "split-tags",
    "Tags cut anywhere",
    "What may be a tag waits.",
    ["<th", "ink>hm</", "thi", "nk>yes"],
    "vllm-project/vllm#36830",
)
think(
    "letter-by-letter",
    "Tags letter by letter",
    "Only what may be a tag waits.",
    [*"<think>a</think>b"],
)
think("one-chunk", "All in one chunk", "Each part goes to its channel.", ["<think>hm</think>yes"])
think(
    "text-before",
    "Text before the tag",
    "It is content.",
    ["Oh, ", "<think>", "hm", "</think>", "yes"],
)
think(
    "nested",
    "An open tag inside reasoning",
    "There is no nesting: the first close tag ends it.",
    ["<think>a<think>b</think>c</think>d"],
)
think(
    "second-block", "A second block", "Later tags are text.", ["<think>a</think>b<think>c</think>d"]
)
think(
    "second-block-counts",
    "A second block, where every block counts",
    "Each block is reasoning.",
    ["<think>a</think>b<th", "ink>c</think>d"],
    reasoning=[["<think>", "</think>", "all"]],
    project=True,
)
think("no-close", "Reasoning without end", "It stays reasoning.", ["<think>hm", " and so on"])
think(
    "half-a-close",
    "Half a close tag at the end",
    "Flushing gives it back as reasoning.",
    ["<think>hm", "</thi"],
)
think(
    "half-an-open",
    "Half an open tag at the end",
    "Flushing gives it back as content.",
    ["yes <th"],
    "Blaizzy/mlx-vlm!1845",
)
think("close-only", "A close tag without an open one", "It is text.", ["a</think>b"])
think(
    "from-the-prompt",
    "A prompt that opened the block",
    "The answer begins as reasoning.",
    ["hm</th", "ink>yes"],
    "vllm-project/vllm#27661",
    start="reasoning",
)
think(
    "from-the-prompt-repeated",
    "A prompt that opened the block, and a model that opens it too",
    "The repeated tag is dropped.",
    ["<thi", "nk>hm</think>yes"],
    start="reasoning",
)
think(
    "from-the-prompt-repeated-later",
    "A repeated tag that is not first",
    "It is text of the reasoning.",
    ["hm<think>o</think>yes"],
    start="reasoning",
)
think(
    "less-than",
    "A comparison",
    "`<` comes as soon as it can't begin a tag.",
    ["a <", " b", " </ c"],
)
think("white-space", "Nothing but white space", "It is text: nothing is trimmed.", ["  \n", " "])
think(
    "newlines-around",
    "Newlines around tags",
    "They belong to the text on their side.",
    ["<think>\nhm\n</think>\n\nyes"],
)
think(
    "other-tags",
    "Tags of another name",
    "They are what they are named.",
    ["[THINK]hm[/TH", "INK]yes"],
    reasoning=[["[THINK]", "[/THINK]"]],
)
think(
    "two-kinds",
    "Two kinds of tags",
    "Each ends with its own close tag.",
    ["<reason>a</think>b</reason>c"],
    reasoning=[["<think>", "</think>"], ["<reason>", "</reason>"]],
    project=True,
)
case(
    "reasoning/halves-in-bytes",
    "A tag behind half a character",
    "The tag ends the character.",
    "bytes",
    ["3c7468696e6b3ec3", "3c2f7468696e6b3e", "78"],
    **THINK,
)
case(
    "reasoning/tags-over-tokens",
    "Tags over tokens",
    "Tokens have nothing to do with tags.",
    "ids",
    ["<think>"[:1], "think>", "fox", "</", "think>", "Ġred"],
    vocabulary=B,
    **THINK,
)
case(
    "reasoning/text-before-a-half-tag",
    "A token with text and half a tag",
    "The text is certain.",
    "text",
    ["hi<", "/think>"],
    **THINK,
)
text(
    "tools/whole",
    "A call between texts",
    "The call has a channel of its own.",
    ["Wait. ", "<tool_call>", '{"a":1}', "</tool_call>", " Done."],
    **CALL,
)
text(
    "tools/split",
    "A call cut anywhere",
    "What may be a tag waits.",
    ["x<tool", '_call>{"a"', ":1}</to", "ol_call>y"],
    **CALL,
)
text(
    "tools/two",
    "Two calls",
    "Each is a call.",
    ["<tool_call>1</tool_call>", "\n<tool_call>2</tool_call>"],
    **CALL,
)
text(
    "tools/close-inside-a-string",
    "A close tag inside a string of the arguments",
    "Tags are found in text: the first close tag ends the call.",
    ['<tool_call>{"a":"</tool_call>"}', "</tool_call>x"],
    **CALL,
)
text(
    "tools/no-close-tag",
    "A tag that nothing closes",
    "The call goes on to the end.",
    ["a[TOOL", '_CALLS][{"a":1}]', "\n"],
    tools=[["[TOOL_CALLS]", None]],
    project=True,
)
text(
    "tools/half-at-the-end",
    "Half a tag at the end",
    "Flushing gives it back.",
    ["a<tool_c"],
    **CALL,
)
text(
    "tools/with-reasoning",
    "A call inside and behind reasoning",
    "Inside of reasoning it is text.",
    ["<think>a<tool_call>b</think>", "<tool_call>c</tool_call>d"],
    **THINK,
    **CALL,
)
case(
    "tools/emoji-in-arguments",
    "An emoji cut inside the arguments",
    "Arguments are whole characters.",
    "bytes",
    ["783c746f6f6c", "5f63616c6c3e22f0", "9fa6", "8a22", "3c2f746f6f6c5f63616c6c3e"],
    **CALL,
)
text(
    "tools/unfinished",
    "A call that never ends",
    "It stays a call.",
    ["<tool_call>{", '"a"'],
    **CALL,
)

case(
    "reasoning/end-id-behind-half-a-tag",
    "An id that ends the answer, behind half a tag",
    "Nothing can make a tag of it any more: it is reasoning, with the id.",
    "ids",
    ["<think>", "fox", "</", "<|end|>", "think>"],
    vocabulary=B,
    **THINK,
    **END,
)
# Tags that are special tokens: they are left out of the text, and still tell the channels apart.
SPECIAL_TAGS = [["<|sep|>", "<|end|>"]]


def special_tags(id: str, title: str, why: str, pieces: list[Any], **options: Any) -> None:
    more = {"reasoning": SPECIAL_TAGS, "vocabulary": B, "since": "1.1.0", **options}
    case(f"reasoning/{id}", title, why, "ids", pieces, **more)


special_tags(
    "special-tags",
    "Tags that are special tokens",
    "Where special tokens are skipped, a tag still begins and ends reasoning.",
    ["<|sep|>", "fox", "<|end|>", "Ġred"],
    project=True,
)
special_tags(
    "special-tags-second-block",
    "A second block whose tags are special tokens, where every block counts",
    "It is reasoning, and does not leak into the content.",
    ["<|sep|>", "fox", "<|end|>", "Ġred", "<|sep|>", "Gr", "<|end|>", "Ġfox"],
    reasoning=[["<|sep|>", "<|end|>", "all"]],
    project=True,
)
special_tags(
    "special-tags-in-a-push",
    "Tags that are special tokens, in one push",
    "Each part goes to its channel.",
    [["<|sep|>", "fox", "<|end|>", "Ġred"]],
)
special_tags(
    "special-tag-inside-a-character",
    "A tag that is a special token, inside a character",
    "A character doesn't go on behind a tag: U+FFFD before it, an error for each byte behind it.",
    ["<|sep|>", "ĠðŁ", "<|end|>", "¦Ĭ", "fox"],
    project=True,
)
special_tags(
    "special-tags-spelled",
    "Tags of special tokens, spelled by other tokens",
    "The text of a tag counts as its id does.",
    ["<|sep|>", "fox", "<", "|", ["e", "n", "d"], "|", ">", "Ġred"],
)
case(
    "tools/special-tags",
    "A call between special tokens",
    "Where special tokens are skipped, the call still has a channel of its own.",
    "ids",
    ["Gr", "<|sep|>", "fox", "<|end|>", "Ġred"],
    vocabulary=B,
    tools=SPECIAL_TAGS,
    **PROJECT,
)
think(
    "stop-behind-a-tag",
    "A stop that a tag and the text behind it spell",
    "No character of a tag takes part in a stop.",
    ["<think>a</think", ">b"],
    stop=[">b"],
    since="1.1.0",
)
text(
    "tools/no-close-tag-twice",
    "Two calls that nothing closes",
    "The next call ends the first.",
    ["[CALL]1[CA", "LL]2", "\n"],
    tools=[["[CALL]", None]],
    **PROJECT,
)
text(
    "tools/two-kinds",
    "Calls by two pairs of tags",
    "Each ends with its own close tag.",
    ["a[CALL]b</tool_call>[/CA", "LL]c<tool_call>d[/CALL]</tool_call>e"],
    tools=[["[CALL]", "[/CALL]"], ["<tool_call>", "</tool_call>"]],
    **PROJECT,
)
text(
    "tools/stop-inside",
    "A stop inside a call",
    "Stops are for the content, unless they are asked for everywhere.",
    ["<tool_call>a END", "b</tool_call>c EN", "D d"],
    stop=["END"],
    since="1.1.0",
    **CALL,
)


# ── Markers of chat templates at the ends ────────────────────────────────────────────────────────
TRIM = {"trim": ["<|end|>", "<|end|>\n", "<|start|>bot\n"]}
text("markers/at-the-end", "A marker at the end", "It is dropped.", ["yes<|e", "nd|>"], **TRIM)
text(
    "markers/at-the-end-with-newline",
    "A marker and a newline at the end",
    "Both are dropped.",
    ["yes", "<|end|>", "\n"],
    **TRIM,
)
text(
    "markers/inside",
    "A marker inside the text",
    "It is text, as soon as something follows.",
    ["a<|end|>", "b"],
    **TRIM,
)
text("markers/first", "A marker first", "It is dropped.", ["<|start|>b", "ot\nyes"], **TRIM)
text(
    "markers/twice", "Two markers at the end", "Both are dropped.", ["yes<|end|><|end|>\n"], **TRIM
)
text("markers/half", "Half a marker at the end", "Flushing gives it back.", ["yes<|en"], **TRIM)
text(
    "markers/replacement-character",
    "U+FFFD at the end",
    "It is text, and no marker.",
    ["yes", "�"],
    **TRIM,
)


text(
    "markers/before-a-stop",
    "A marker before a stop",
    "The text ends there, so the marker is at its end and dropped.",
    ["yes<|e", "nd|>STO", "P"],
    stop=["STOP"],
    since="1.1.0",
    **TRIM,
)
text(
    "markers/before-a-call",
    "A marker before a call",
    "The text goes on behind the call, so the marker is text.",
    ["yes<|end|>", "<tool_call>a</tool_call>"],
    since="1.1.0",
    **TRIM,
    **CALL,
)
text(
    "markers/first-half",
    "What only begins as a marker does, first",
    "It is text as soon as it can't be the marker.",
    ["<|sta", "y"],
    since="1.1.0",
    **TRIM,
)
case(
    "markers/end-id-behind-a-marker",
    "An id that ends the answer, behind half a marker",
    "Nothing can make a marker of it any more.",
    "ids",
    ["fox", "<", "|", "<|end|>"],
    vocabulary=B,
    trim=["<|sep|>"],
    **END,
)


# ── Spans ────────────────────────────────────────────────────────────────────────────────────────
def spans(
    id: str, title: str, why: str, vocabulary: str, pieces: list[Any], *links: str, **options: Any
) -> None:
    case(
        f"spans/{id}",
        title,
        why,
        "ids",
        pieces,
        *links,
        vocabulary=vocabulary,
        spans=True,
        **options,
    )


spans(
    "character-over-tokens",
    "A character over two tokens",
    "Both took part in it.",
    B,
    ["Gr", "ĠðŁ", "¦Ĭ", "fox"],
)
spans(
    "tails-and-heads",
    "Tokens that share characters",
    "Each has all the characters that a byte of it is in.",
    B,
    ["Gr", "Ã¼Ã", "Łe"],
)
spans(
    "invalid",
    "Invalid bytes",
    "U+FFFD belongs to the tokens whose bytes it stands for.",
    B,
    ["Gr", "Ã", "fox"],
)
spans("many-errors", "A token of several errors", "It has all of them.", B, ["¦Ĭ", "fox"])
spans("stripped", "A space that is taken", "It is no character of the text.", S, ["▁red", "▁fox"])
spans(
    "byte-tokens",
    "Byte tokens",
    "Each took part in the character.",
    S,
    ["▁red", "<0xE6>", "<0x9D>", "<0xB1>", "s"],
    byte_fallback="utf8",
)
spans(
    "end-in-a-character",
    "The stream ends inside a character",
    "Flushing makes U+FFFD of its tokens.",
    B,
    ["fox", "ĠðŁ"],
)

spans(
    "special-skipped",
    "A special token that is skipped",
    "It has no character: its span is empty, where the text before it ends.",
    B,
    ["fox", "<|end|>", "Ġred"],
    since="1.1.0",
)
spans(
    "behind-a-prompt",
    "Spans behind a prompt",
    "They count from the answer's first character, and only the answer's tokens.",
    B,
    ["Ġred", "fox"],
    prompt=["Gr"],
    since="1.1.0",
)
# ── Rewinding ────────────────────────────────────────────────────────────────────────────────────
case(
    "rewinding/inside-a-character",
    "Back into a character",
    "A guess that is taken back has no effect on what follows.",
    "bytes",
    ["f09f", "mark", "78", "rollback", "a68a"],
)
case(
    "rewinding/before-text",
    "Back before a word",
    "The length of what is taken back is told in characters.",
    "ids",
    ["Gr", "mark", "Ġfox", "rollback", "Ġred"],
    vocabulary=B,
)
case(
    "rewinding/before-the-first-space",
    "Back to the beginning",
    "The next token is the first again.",
    "ids",
    ["mark", "▁red", "rollback", "▁fox"],
    vocabulary=S,
)
case(
    "rewinding/nothing-shown",
    "Back over half a character",
    "Nothing was shown, so nothing is taken back.",
    "bytes",
    ["78", "mark", "c3", "rollback", "79"],
)
case(
    "rewinding/several",
    "Back over several pushes",
    "All of them are taken back.",
    "ids",
    ["Gr", "mark", "Ã¼Ã", "Łe", "Ġfox", "rollback", "Ã¼Ã", "Łe"],
    vocabulary=B,
)
case(
    "rewinding/twice",
    "Back twice to the same place",
    "A mark can be used again.",
    "bytes",
    ["c3", "mark", "bc", "rollback", "78", "rollback", "a9"],
)
case(
    "rewinding/run",
    "Back into a byte run",
    "The run goes on from there.",
    "ids",
    ["A", "<0xC3>", "mark", "<0xC3>", "rollback", "<0xA9>", "s"],
    vocabulary=S,
    byte_fallback="hf",
)

case(
    "rewinding/into-half-a-stop",
    "Back into half a stop",
    "What waited waits again.",
    "text",
    ["a ST", "mark", "x", "rollback", "OP b"],
    stop=["STOP"],
    since="1.1.0",
)
case(
    "rewinding/over-a-stop",
    "Back over a stop",
    "The stop is taken back with its text, and the answer goes on.",
    "text",
    ["a ST", "mark", "OP", "rollback", "x b"],
    stop=["STOP"],
    since="1.1.0",
)
case(
    "rewinding/over-an-end-id",
    "Back over an id that ended the answer",
    "The answer goes on, inside the character that it was in.",
    "ids",
    ["fox", "ĠðŁ", "mark", "<|end|>", "rollback", "¦Ĭ"],
    vocabulary=B,
    eos=["<|end|>"],
    since="1.1.0",
)
case(
    "rewinding/over-a-tag",
    "Back over a close tag",
    "What follows is reasoning again; characters of all channels are counted.",
    "text",
    ["<think>a</th", "mark", "ink>bcd", "rollback", "e"],
    since="1.1.0",
    **THINK,
)


# ── Life cycle ───────────────────────────────────────────────────────────────────────────────────
case("life-cycle/nothing", "A stream without input", "Flushing gives nothing.", "bytes", ["flush"])
case(
    "life-cycle/flush-twice",
    "Flushing twice",
    "The second time there is nothing left.",
    "bytes",
    ["c3", "flush", "flush"],
)
case(
    "life-cycle/push-after-flush",
    "A push behind the end",
    "It is refused, or it begins a new text. What was flushed is not completed.",
    "bytes",
    ["e6", "flush", {"push": "9db1", "may_refuse": True}],
)
case(
    "life-cycle/reset",
    "A new text in the same stream",
    "Nothing of the old one is left.",
    "bytes",
    ["78c3", "reset", "bc79"],
)
case(
    "life-cycle/reset-first-space",
    "A new text whose first space is taken",
    "The next token is the first again.",
    "ids",
    ["▁red", "reset", "▁fox"],
    vocabulary=S,
)
case(
    "life-cycle/reset-after-flush",
    "A new text behind the end",
    "The stream can be used again.",
    "bytes",
    ["78c3", "flush", "reset", "bc79", "flush"],
)
case(
    "life-cycle/reset-after-a-stop",
    "A new text behind a stop",
    "The stop has ended the old text only.",
    "text",
    ["a END", "reset", "b EN"],
    stop=["END"],
)
case(
    "life-cycle/unknown-id",
    "An id that is not in the vocabulary",
    "It is refused or skipped, and the stream goes on as if it had not come.",
    "ids",
    ["ĠðŁ", {"push": [99_999], "may_refuse": True}, "¦Ĭ"],
    "vllm-project/vllm#21951",
    vocabulary=B,
)
case(
    "life-cycle/negative-id",
    "A negative id",
    "It is refused or skipped, and is not counted from the end.",
    "ids",
    ["fox", {"push": [-1], "may_refuse": True}, "Ġred"],
    "vllm-project/vllm!26445",
    vocabulary=B,
)
case(
    "life-cycle/reset-after-an-end-id",
    "A new text behind an id that ended the old one",
    "Nothing of the old one is left, and the new one has ends of its own.",
    "ids",
    ["fox", "ĠðŁ", "<|end|>", "reset", "¦Ĭ", "fox", "<|end|>", "Ġred"],
    vocabulary=B,
    **END,
)
case(
    "life-cycle/reset-inside-a-tag",
    "A new text in the middle of reasoning",
    "It begins as content.",
    "text",
    ["<think>a</th", "reset", "ink>b"],
    since="1.1.0",
    **THINK,
)
case(
    "life-cycle/flush-behind-an-end-id",
    "Flushing behind an id that ended the answer",
    "All was given with the id.",
    "ids",
    ["EN", "<|end|>", "flush", "flush"],
    vocabulary=B,
    stop=["END"],
    **END,
)
