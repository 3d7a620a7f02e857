"""Builds small tokenizer files of every format and family."""

import base64
import json
import struct
from pathlib import Path
from typing import Any

from detok_py.decode.byte_level import BYTE_OF

LETTER = {byte: letter for letter, byte in BYTE_OF.items()}
LETTERS = [LETTER[byte] for byte in range(256)]

# Merges that give ordinary words, whole characters and parts of characters.
MERGES = [
    ("t", "h"), ("th", "e"), ("Ġ", "the"), ("a", "n"), ("an", "d"), ("Ġ", "and"), ("i", "n"), ("in", "g"), ("Ġ", "Ġ"), ("ĠĠ", "ĠĠ"), ("c",
    "a"), ("ca", "t"),
    ("Ġ", "cat"), ("ð", "Ł"), ("ðŁ", "ĺ"), ("Ã", "©"), ("ä", "½"), ("ä½", "ł"), ("Ċ", "Ċ"), ("1", "2"), ("'", "s"), ("e", "r"),
]  # fmt: skip

GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def added(content: str, token_id: int = 0, special: bool = True, **flags: bool) -> dict[str, Any]:
    """Return an added token in the form of tokenizer.json."""
    return {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": not special,
        "special": special,
        **flags,
    }


def byte_level_part(prefix: bool, trim: bool) -> dict[str, Any]:
    """Return a pre-tokenizer, post-processor or decoder of bytes."""
    kind = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim}
    return {**kind, "use_regex": True}


def byte_level(**parts: Any) -> dict[str, Any]:
    """Return a byte-level BPE tokenizer.json; `parts` replace its parts."""
    vocab = {letter: i for i, letter in enumerate(LETTERS)}
    for left, right in MERGES:
        vocab.setdefault(left + right, len(vocab))
    end = len(vocab)
    document = {
        "version": "1.0",
        "added_tokens": [added("<|end|>", end), added("<think>", end + 1, special=False)],
        "normalizer": None,
        "pre_tokenizer": byte_level_part(prefix=False, trim=True),
        "post_processor": byte_level_part(prefix=True, trim=False),
        "decoder": byte_level_part(prefix=True, trim=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocab,
            "merges": [f"{a} {b}" for a, b in MERGES],
        },
    }
    return {**document, **parts}


SPM_PIECES = [
    *("▁", "t", "h", "e", "a", "c", "n", "d", "th", "the", "▁the", "ca", "at", "cat", "▁cat"),
    *("an", "and", "▁and", "▁▁", "é", "你", "s", ".", ","),
]
SPM_MERGES = [
    ("t", "h"),
    ("th", "e"),
    ("▁", "the"),
    ("c", "a"),
    ("ca", "t"),
    ("▁", "cat"),
    ("a", "n"),
    ("an", "d"),
    ("▁", "and"),
    ("▁", "▁"),
]


def spm_vocab() -> list[str]:
    """Return SentencePiece pieces by id: three control tokens, 256 bytes, ordinary pieces."""
    return ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)], *SPM_PIECES]


def sentencepiece(**parts: Any) -> dict[str, Any]:
    """Return a SentencePiece-BPE tokenizer.json, with byte fallback; `parts` replace its parts."""
    vocab = {piece: i for i, piece in enumerate(spm_vocab())}
    template = {
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [],
    }
    template["pair"] = [*template["single"], {"Sequence": {"id": "B", "type_id": 1}}]
    document = {
        "version": "1.0",
        "added_tokens": [added("<unk>", 0), added("<s>", 1), added("</s>", 2)],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace",
        "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", **template, "special_tokens": {"<s>": {"id": "<s>", "ids": [1],
        "tokens": ["<s>"]}}},
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
            "vocab": vocab, "merges": [list(pair) for pair in SPM_MERGES],
        },
    }  # fmt: skip
    return {**document, **parts}


def unigram(**parts: Any) -> dict[str, Any]:
    """Return a Unigram tokenizer.json; `parts` replace its parts."""
    pieces = [
        *("<pad>", "</s>", "<unk>", "▁", "▁the", "▁cat", "the", "c", "a", "t", "h", "e", "s"),
        *("▁s", "at", "é", "."),
    ]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    document = {
        "version": "1.0",
        "added_tokens": [added("<pad>", 0), added("</s>", 1), added("<unk>", 2)],
        "normalizer": {"type": "NFKC"},
        "pre_tokenizer": {**metaspace, "split": True},
        "post_processor": None,
        "decoder": {**metaspace, "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": 2,
            "vocab": [[piece, -float(i)] for i, piece in enumerate(pieces)],
            "byte_fallback": False,
        },
    }
    return {**document, **parts}


def wordpiece(**parts: Any) -> dict[str, Any]:
    """Return a WordPiece tokenizer.json; `parts` replace its parts."""
    pieces = [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "play", "##ing", ".", ",", "'"),
        *("don", "t", "do", "not", "s", "##e", "!"),
    ]
    single = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    names = {
        "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
        "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
    }
    document = {
        "version": "1.0",
        "added_tokens": [added(piece, i) for i, piece in enumerate(pieces[:4])],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
        "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": names},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
            "vocab": {piece: i for i, piece in enumerate(pieces)},
        },
    }  # fmt: skip
    return {**document, **parts}


FAMILIES = {
    "byte_bpe": byte_level,
    "sentencepiece": sentencepiece,
    "unigram": unigram,
    "wordpiece": wordpiece,
}


def write(folder: Path, document: Any, name: str = "tokenizer.json", **options: Any) -> Path:
    """Write a JSON file into a folder; return its path."""
    file = folder / name
    file.write_text(json.dumps(document, ensure_ascii=False, **options), encoding="utf-8")
    return file


# GGUF
# --------------------------------------------------------------------------------------------------

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_LETTERS = {
    U8: "B",
    I8: "b",
    U16: "H",
    I16: "h",
    U32: "I",
    I32: "i",
    F32: "f",
    BOOL: "?",
    U64: "Q",
    I64: "q",
    F64: "d",
}


def gguf_string(text: str | bytes, order: str = "<") -> bytes:
    """Return a string in GGUF format."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack(order + "Q", len(data)) + data


def gguf_value(kind: int, value: Any, order: str = "<") -> bytes:
    """Return a value in GGUF format, after its type; an array is `(element type, elements)`."""
    return struct.pack(order + "I", kind) + _gguf_bare(kind, value, order)


def _gguf_bare(kind: int, value: Any, order: str) -> bytes:
    if kind == STRING:
        return gguf_string(value, order)
    if kind == ARRAY:
        inner, elements = value
        return struct.pack(order + "IQ", inner, len(elements)) + b"".join(
            [_gguf_bare(inner, element, order) for element in elements]
        )
    return struct.pack(order + _LETTERS[kind], value)


def gguf(
    values: dict[str, tuple[int, Any]], version: int = 3, order: str = "<", tensors: int = 0
) -> bytes:
    """Return a GGUF file with these key-values and no tensors after them."""
    head = b"GGUF" + struct.pack(order + "IQQ", version, tensors, len(values))
    return head + b"".join(
        [
            gguf_string(key, order) + gguf_value(kind, value, order)
            for key, (kind, value) in values.items()
        ]
    )


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def llama_values(**more: tuple[int, Any]) -> dict[str, tuple[int, Any]]:
    """Return the key-values of a small "llama" vocabulary; `more` are further ones, by the part
    of the key after "tokenizer.ggml.".
    """
    pieces = [*spm_vocab(), "<tool>", "<0x41>b", "unused"]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(SPM_PIECES)]
    types += [USER_DEFINED, NORMAL, UNUSED]
    scores = [
        float(len(piece)) if len(piece) > 1 else -float(len(SPM_PIECES) - i)
        for i, piece in enumerate(SPM_PIECES)
    ]
    scores = [*[0.0] * 259, *scores, *[0.0] * 3]
    values = {
        "general.architecture": (STRING, "llama"),
        "llama.context_length": (U32, 512),
        "tokenizer.ggml.model": (STRING, "llama"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, pieces)),
        "tokenizer.ggml.scores": (ARRAY, (F32, scores)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, types)),
        "tokenizer.ggml.bos_token_id": (U32, 1),
        "tokenizer.ggml.eos_token_id": (U32, 2),
        "tokenizer.chat_template": (STRING, "{{ messages }}"),
    }
    return {**values, **{"tokenizer.ggml." + key: value for key, value in more.items()}}


def gpt2_values(
    names: tuple[str, ...] = ("<|end|>", "<think>"),
    types: tuple[int, ...] = (CONTROL, USER_DEFINED),
    **more: tuple[int, Any],
) -> dict[str, tuple[int, Any]]:
    """Return the key-values of a "gpt2" vocabulary like `byte_level`, with these added tokens."""
    pieces = [*byte_level()["model"]["vocab"], *names]
    kinds = [*[NORMAL] * (len(pieces) - len(names)), *types]
    values = {
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, "gpt-2"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, pieces)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, kinds)),
        "tokenizer.ggml.merges": (ARRAY, (STRING, [f"{a} {b}" for a, b in MERGES])),
        "tokenizer.ggml.eos_token_id": (U32, len(pieces) - len(names)),
    }
    return {**values, **{"tokenizer.ggml." + key: value for key, value in more.items()}}


# Ranks
# --------------------------------------------------------------------------------------------------


def rank_tokens() -> list[bytes]:
    """Return the tokens of a small rank file by rank: all bytes, then the tokens of `MERGES`."""
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in MERGES:
        token = bytes([BYTE_OF[letter] for letter in left + right])
        if token not in tokens:
            tokens.append(token)
    return tokens


def rank_file(tokens: list[bytes] | None = None) -> bytes:
    """Return the content of a rank file."""
    return b"".join(
        [
            base64.b64encode(token) + b" %d\n" % rank
            for rank, token in enumerate(tokens or rank_tokens())
        ]
    )


def tekken(**config: Any) -> dict[str, Any]:
    """Return a small tekken.json; `config` replaces parts of its config."""
    tokens = rank_tokens()
    vocab = [
        {
            "rank": rank,
            "token_bytes": base64.b64encode(token).decode(),
            "token_str": token.decode("utf-8", "replace"),
        }
        for rank, token in enumerate(tokens)
    ]
    sizes = {
        "num_vocab_tokens": len(tokens),
        "default_vocab_size": len(tokens) + 24,
        "default_num_special_tokens": 24,
    }
    return {"config": {"pattern": GPT2_PATTERN, **sizes, "version": "v3", **config}, "vocab": vocab}


# SentencePiece
# --------------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def message(fields: list[tuple[int, Any]]) -> bytes:
    """Return a protobuf message: of an int, a float, a text, or bytes for each field."""
    out = b""
    for number, value in fields:
        if isinstance(value, float):
            out += _varint(number << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += _varint(number << 3 | 2) + _varint(len(data)) + data
    return out


def model_file(
    pieces: list[tuple[str, float, int]],
    trainer: dict[int, Any] | None = None,
    normalizer: dict[int, Any] | None = None,
    more: tuple[tuple[int, Any], ...] = (),
) -> bytes:
    """Return a SentencePiece model with these (piece, score, type), and fields of its specs."""
    each = [
        message([(1, piece), (2, score), *([(3, kind)] if kind != NORMAL else [])])
        for piece, score, kind in pieces
    ]
    specs = [(2, message(list((trainer or {}).items())))]
    specs.append((3, message(list((normalizer or {}).items()))))
    return message([*((1, one) for one in each), *specs, *more])


def normalizer_spec(**values: Any) -> dict[int, Any]:
    numbers = {"dummy": 3, "squeeze": 4, "escape": 5, "charsmap": 2}
    return {numbers[name]: value for name, value in values.items()}


CONTROLS = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]


def bpe_model(**normalizer: Any) -> bytes:
    """Return a BPE model as Llama's: byte pieces, a user-defined piece, no map of characters."""
    pieces = [*CONTROLS, *((f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256))]
    pieces += [
        (piece, -float(i), NORMAL) for i, piece in enumerate(sorted(SPM_PIECES, key=len)[::-1])
    ]
    pieces += [("<tool>", 0.0, USER_DEFINED), ("▁an", -99.0, UNUSED), ("x▁y", -3.0, USER_DEFINED)]
    return model_file(pieces, {3: 2, 35: 1}, normalizer_spec(**{"squeeze": 0, **normalizer}))


def unigram_model(fallback: bool = False, **normalizer: Any) -> bytes:
    """Return a Unigram model as T5's: scores in which several cuts are equally good."""
    pieces = list(CONTROLS)
    if fallback:
        pieces += [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
    scores = {
        "▁": -2.1,
        "a": -3.3,
        "b": -3.3,
        "ab": -6.6,
        "ba": -6.6,
        "aba": -9.9,
        "▁a": -5.4,
        "s": -4.0,
    }
    scores |= {
        "▁the": -3.0,
        "t": -5.0,
        "h": -5.0,
        "e": -5.0,
        "é": -7.0,
        "你": -7.0,
        "\u2581\u2581": -4.2,
    }
    pieces += [(piece, score, NORMAL) for piece, score in scores.items()]
    pieces += [("<tool>", 0.0, USER_DEFINED), ("the", -1.0, UNUSED)]
    return model_file(pieces, {3: 1, 35: int(fallback)}, normalizer_spec(**normalizer))


def character_map(rules: dict[str, str]) -> bytes:
    """Return a `precompiled_charsmap`: a double array in which each byte of a rule has a unit."""
    texts, starts = b"", {}
    for key, put in rules.items():
        starts[key.encode()] = len(texts)
        texts += put.encode() + b"\0"
    prefixes = {key[:n] for key in starts for n in range(len(key) + 1)}
    units: dict[int, int] = {}
    todo = [(b"", 0)]
    blocks = 1
    while todo:
        prefix, at = todo.pop(0)
        offset = at ^ (blocks << 8)  # each prefix has a block of 256 units for its children
        blocks += 1
        label = units.get(at, 0) & 0xFF
        units[at] = offset << 10 | (prefix in starts) << 8 | label
        assert offset < 1 << 21, "the rules are too many for this simple layout"
        if prefix in starts:
            units[at ^ offset] = starts[prefix] | 1 << 31
        for byte in range(256):
            child = prefix + bytes([byte])
            if child in prefixes:
                place = at ^ offset ^ byte
                units[place] = byte
                todo.append((child, place))
    size = (max(units) // 256 + 1) * 256
    trie = b"".join([struct.pack("<I", units.get(i, 0)) for i in range(size)])
    return struct.pack("<I", len(trie)) + trie + texts


# RWKV
# --------------------------------------------------------------------------------------------------


def rwkv_file(
    more: tuple[bytes, ...] = (b"the", b" the", b"\t\t", "é".encode(), b"\xa9 \xc3", b"'\""),
) -> bytes:
    """Return a vocabulary as RWKV's: all bytes, then some tokens."""
    lines = []
    for i, token in enumerate([*(bytes([byte]) for byte in range(256)), *more], 1):
        try:
            spelled: Any = token.decode()
        except UnicodeDecodeError:
            spelled = token
        lines.append(f"{i} {spelled!r} {len(token)}\n")
    return "".join(lines).encode()
