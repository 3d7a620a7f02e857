"""The small vocabularies of the conformance suite, each as a whole tokenizer.json.

In: nothing. Out: `VOCABULARIES`, name to document, and for each a few ids that stand for everything
that could come next (`alphabet`), which tools/make_conformance.py needs for its brute force.
"""

from typing import Any

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
LETTER = {byte: chr(byte) for byte in _PRINTABLE} | {
    byte: chr(0x100 + at) for at, byte in enumerate(_OTHERS)
}
SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}


def spelled(data: bytes) -> str:
    """Return bytes as a byte-level vocabulary spells them, a letter a byte."""
    return "".join(LETTER[byte] for byte in data)


def added(content: str, token_id: int, special: bool) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token_id, "content": content, **flags, "special": special}


def sequence(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": list(rules)}


def strip(start: int, stop: int) -> dict[str, Any]:
    return {"type": "Strip", "content": " ", "start": start, "stop": stop}


def metaspace(scheme: str) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


def document(
    pieces: list[str],
    decoder: dict[str, Any] | None,
    special: tuple[str, ...] = (),
    plain: tuple[str, ...] = (),
    model: str = "BPE",
    **more: Any,
) -> dict[str, Any]:
    """Return a tokenizer.json. `special` and `plain` added tokens follow the pieces, unless they
    are among them.
    """
    vocab = {piece: at for at, piece in enumerate(pieces)}
    tokens = []
    for content in (*special, *plain):
        at = vocab.get(content, len(vocab) + sum(each["id"] >= len(vocab) for each in tokens))
        tokens.append(added(content, at, content in special))
    bpe = {"dropout": None, "unk_token": None, "continuing_subword_prefix": None}
    bpe |= {"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False}
    word = {"unk_token": pieces[0]}
    piece = {"unk_token": pieces[0], "continuing_subword_prefix": "##"}
    settings = {
        "BPE": bpe,
        "WordLevel": word,
        "WordPiece": {**piece, "max_input_chars_per_word": 100},
    }
    body = {"type": model, **settings[model], **more, "vocab": vocab}
    if model == "BPE":
        body["merges"] = []
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(tokens, key=lambda token: token["id"]),
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": decoder,
        "model": body,
    }


BYTES = [LETTER[byte] for byte in range(256)]
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]
# Tokens that begin and end inside characters, and a genuine U+FFFD alone and behind text.
BYTE_LEVEL_TOKENS = [
    *(b" red", b"fox", b" fox", b"Gr", b"\xc3\xbc\xc3", b"\x9fe", b"\xc3\xa9t\xc3", b"\xa9"),
    *(b" \xf0\x9f", b"\xa6\x8a", b"\xf0\x9f\xa6\x8a", b"\xef\xbf\xbd", b"ok\xef\xbf\xbd", b"\n\n"),
    *(b"\xe6\x9d\xb1\xe4\xba", b"\xac", b" END", b"EN", b"D", b"</", b"think>", b"<think>", b"  "),
    *(b"\xef\xbb\xbf", b"\x8a red", b"\xe2\x80\x8d", b"\r\n", b" it", b"'s"),
]
SP_PIECES = [
    *("▁", "▁▁", "▁▁▁▁", "▁red", "▁fox", "fox", "s", ".", "A", "»", "é", "東", "\ufffd", "▁Red"),
]
SENTENCEPIECE = ["<unk>", "<s>", "</s>", *BYTE_TOKENS, *SP_PIECES]
SP_SPECIAL = ("<unk>", "<s>", "</s>")
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
META = ["<unk>", "<s>", "▁", "▁▁", "▁red", "▁fox", "x", "\n", "a▁b"]
WORDS = [
    *("[UNK]", "[SEP]", "fox", "##es", "jump", "##ing", "over", "do", "not", "n", "'", "t", "s"),
    *("it", ".", ",", "!", "?", "said", "##", "i", "m", "ve"),
]

BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}
CTC = {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}

VOCABULARIES: dict[str, dict[str, Any]] = {
    "byte-level": document(
        list(dict.fromkeys([*BYTES, *map(spelled, BYTE_LEVEL_TOKENS)])),
        BYTE_LEVEL,
        ("<|end|>", "<|sep|>"),
        ("<｜note▁here｜>", "<naïve>", "ĉlan", "łza東"),
    ),
    "sentencepiece": document(
        SENTENCEPIECE,
        sequence(SPACE, FALLBACK, FUSE, strip(1, 0)),
        SP_SPECIAL,
        unk_token="<unk>",
        byte_fallback=True,
    ),
    "sentencepiece, a token that looks like a byte": document(
        SENTENCEPIECE,
        sequence(SPACE, FALLBACK, FUSE, strip(1, 0)),
        SP_SPECIAL,
        ("<0xGG>",),
        unk_token="<unk>",
        byte_fallback=True,
    ),
    "sentencepiece, no strip": document(
        SENTENCEPIECE,
        sequence(SPACE, FALLBACK, FUSE),
        SP_SPECIAL,
        unk_token="<unk>",
        byte_fallback=True,
    ),
    "byte-level pieces, SentencePiece decoder": document(
        BYTES + ["Ġred", "fox"], sequence(SPACE, FALLBACK, FUSE, strip(1, 0))
    ),
    "metaspace, first": document(META, metaspace("first"), ("<s>",)),
    "metaspace, always": document(META, metaspace("always"), ("<s>",)),
    "metaspace, never": document(META, metaspace("never"), ("<s>",)),
    "wordpiece": document(
        WORDS, {"type": "WordPiece", "prefix": "##", "cleanup": True}, ("[SEP]",), model="WordPiece"
    ),
    "wordpiece, no clean-up": document(
        WORDS,
        {"type": "WordPiece", "prefix": "##", "cleanup": False},
        ("[SEP]",),
        model="WordPiece",
    ),
    "ctc": document(["<pad>", "|", "f", "o", "x", "r", "e"], CTC, model="WordLevel"),
    "suffix": document(
        ["<unk>", "f", "ox</w>", "fox</w>", "!</w>", "re"],
        {"type": "BPEDecoder", "suffix": "</w>"},
        end_of_word_suffix="</w>",
        unk_token="<unk>",
    ),
    "no decoder": document(["<unk>", "red", "fox", "s"], None, model="WordLevel"),
    "strip at both ends": document(
        ["<unk>", "▁", "▁a", "b▁", "c"], sequence(SPACE, FUSE, strip(1, 1)), model="WordLevel"
    ),
    "replace behind a fuse": document(
        ["<unk>", "a", "<", "br", ">", "<br", "b"],
        sequence(FUSE, {"type": "Replace", "pattern": {"String": "<br>"}, "content": "\n"}),
        model="WordLevel",
    ),
}

# What a stream may go on with, as far as it makes a difference.
ALPHABETS: dict[str, list[str]] = {
    "byte-level": [
        *(LETTER[byte] for byte in (0x41, 0x20, 0x80, 0x9F, 0xA9, 0xBF, 0xC3, 0xE6, 0xF0)),
        *("Ġred", "<|end|>", "<naïve>"),
    ],
    "sentencepiece": [
        *(f"<0x{byte:02X}>" for byte in (0x0A, 0x20, 0x80, 0x9F, 0xA9, 0xC3, 0xE6, 0xF0)),
        *("▁", "▁red", "A", "</s>"),
    ],
    "byte-level pieces, SentencePiece decoder": ["Ġred", "fox", "Ġ", "A", "Ã"],
    "wordpiece": WORDS[2:],
}
for name in ("no strip", "a token that looks like a byte"):
    ALPHABETS[f"sentencepiece, {name}"] = ALPHABETS["sentencepiece"]
ALPHABETS["wordpiece, no clean-up"] = WORDS[2:]


def pieces_of(name: str) -> list[str]:
    """Return the pieces of a vocabulary by id, added tokens included."""
    found = VOCABULARIES[name]
    by_id = {at: piece for piece, at in found["model"]["vocab"].items()}
    by_id |= {token["id"]: token["content"] for token in found["added_tokens"]}
    return [by_id[at] for at in range(len(by_id))]


def special_ids(name: str) -> set[int]:
    """Return the ids of the special tokens."""
    return {token["id"] for token in VOCABULARIES[name]["added_tokens"] if token["special"]}


def alphabet(name: str) -> list[int]:
    """Return ids that stand for everything that could come next."""
    pieces = pieces_of(name)
    return [pieces.index(piece) for piece in ALPHABETS.get(name, pieces)]
