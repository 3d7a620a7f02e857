"""Ids to text: each family's decoder rules, skipped specials, prompts, both kinds of byte fallback,
marks, packing, errors.
"""

from say import Numbers, say

from detok_py import ByteVocabulary, Detokenizer, DetokError, Vocabulary, VocabularyError
from detok_py.decode.byte_level import ALPHABET

TEXT = "Hé 你好 👩‍🚀 \u0301ß\n x"


LEVEL = [
    "".join([ALPHABET[byte] for byte in token])
    for token in [TEXT.encode()[i : i + 3] for i in range(len(TEXT.encode()))]
]
LLAMA = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
FALLBACK = [f"<0x{byte:02X}>" for byte in TEXT.encode() + b"\xed\xa0\x80\xc0\xff"] + [
    "▁a",
    "▁",
    "é",
    "▁好",
    "x",
]

VOCABULARIES = [
    (
        "bytes",
        Vocabulary.from_bytes(
            [TEXT.encode()[i : i + 2] for i in range(30)] + [b"<eos>", None],
            special_ids=[30],
            eos_ids=[30],
        ),
    ),
    (
        "byte-level",
        Vocabulary.from_pieces(
            LEVEL + ["<|end|>"], {"type": "ByteLevel"}, special_ids=[len(LEVEL)]
        ),
    ),
    (
        "byte fallback",
        Vocabulary.from_pieces(FALLBACK + ["</s>"], LLAMA, special_ids=[len(FALLBACK)]),
    ),
    (
        "wordpiece",
        Vocabulary.from_pieces(
            ["he", "##llo", "##é", "don", "'", "t", ",", "你", "[SEP]"],
            {"type": "WordPiece", "prefix": "##", "cleanup": True},
            special_ids=[8],
        ),
    ),
    (
        "metaspace",
        Vocabulary.from_pieces(
            ["▁He", "llo", "▁", "▁▁", "é"],
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        ),
    ),
    ("plain", Vocabulary.from_pieces(["a", "é", "好"], None)),
]

numbers = Numbers(11)
for name, vocabulary in VOCABULARIES:
    # The packed bytes themselves differ: a dict has no order in MicroPython, and its JSON escapes
    # less. Both read both.
    say(
        name,
        len(vocabulary),
        Vocabulary.unpack(vocabulary.pack()).pack() == vocabulary.pack(),
        len(vocabulary.sha256),
    )
    again = Vocabulary.unpack(vocabulary.pack())
    say([again.token_bytes(i) for i in range(len(again)) if not (name == "bytes" and i == 31)])
    for _ in range(60):
        ids = [
            numbers.below(min(31, len(vocabulary)))
            if name == "bytes"
            else numbers.below(len(vocabulary))
            for _ in range(12)
        ]
        prompt = ids[: numbers.below(4)]
        for options in (
            {},
            {"byte_fallback": "hf"},
            {"skip_special_tokens": False},
            {"errors": "backslashreplace"},
            {"spans": True},
        ):
            t = Detokenizer(again, prompt, **options)
            pieces = [t.push(i) for i in ids]
            held = t.held
            say(name, ids, pieces, held, t.flush(), t.spans if "spans" in options else None)
        t = Detokenizer(vocabulary)
        first = t.feed(ids[:5])
        mark = t.mark()
        then = t.feed(ids[5:])
        back = t.rollback(mark)
        copied = t.copy()
        say(first, then, back, copied.feed(ids[5:]) == then, t.flush())

# Invalid sequences that look like UTF-8: surrogates, overlong forms, beyond U+10FFFF. MicroPython's
# own decoder takes some of them.
no_utf8 = Vocabulary.from_pieces(
    [f"<0x{byte:02X}>" for byte in range(256)], {"type": "ByteFallback"}
)
for data in (
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xf0\x80\x80\x80",
    b"\xe4\xbd\xa0",
):
    for byte_fallback in ("utf8", "hf"):
        t = Detokenizer(no_utf8, byte_fallback=byte_fallback, spans=True)
        say(data, byte_fallback, [t.push(byte) for byte in data], t.flush(), t.spans)

t = Detokenizer(VOCABULARIES[0][1])
for wrong in (31, 32, -1, 10**12):
    try:
        say(t.push(wrong))
    except VocabularyError as error:
        say("VocabularyError", wrong, str(error))
say(t.push(0), Detokenizer(ByteVocabulary()).feed([0xE4, 0xBD, 0xA0, 500]))
for data in (b"", b"nonsense", VOCABULARIES[0][1].pack()[:-1]):
    try:
        Vocabulary.unpack(data)
        say("taken")
    except DetokError as error:
        say(str(error))

# An empty text is found beside each character, not beside each of its bytes.
for rule in (
    {"type": "Replace", "pattern": {"String": ""}, "content": "-"},
    {"type": "BPEDecoder", "suffix": ""},
    {"type": "CTC", "word_delimiter_token": ""},
):
    t = Detokenizer(Vocabulary.from_pieces(["aé", "", "好"], rule))
    say(rule["type"], t.feed([0, 1, 2, 0]), t.flush())
