"""Read the files that stood before tokenizer.json: vocab.json with merges.txt (byte-level BPE), and
vocab.txt (WordPiece).

In: bytes. Out: a `Tokenizer`, made of the tokenizer.json that the `transformers` library makes of
these files. What they lack follows from tokenizer_config.json: `tokenizer_class` decides how a text
is cut, `do_lower_case` and its like how it is normalized. Without a class it is GPT-2's or BERT's.
A class that is not known here can be decoded, and `encode` raises TokenizerFormatError.
"""

from collections.abc import Callable
from typing import Any

from ..errors import TokenizerFormatError
from ..patterns.known import QWEN
from .hf_added import added_token
from .hf_document import Json
from .hf_json import build, read_beside
from .strict_json import as_text, loads
from .tokenizer import Tokenizer

# The classes that cut a text as GPT-2 does, those of them that put <s> and </s> around it, and
# those that cut and normalize it as BERT does.
_GPT2 = ("GPT2", "CodeGen", "Roberta", "Bart", "LED", "Longformer")
_ROBERTA = _GPT2[2:]
_BERT = ("Bert", "DistilBert", "Electra", "MobileBert", "SqueezeBert")
_ROLES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
_FILES = ("tokenizer_config.json", "special_tokens_map.json")


def read_merges(what: str, content: Callable[[str], bytes | None], folder: bool) -> Tokenizer:
    """Return the tokenizer of vocab.json and merges.txt; `content` returns the bytes of a file, and
    `what` is the one that was asked for.

    Raises TokenizerFormatError if one of the two is missing or damaged.
    """
    vocab, merges = content("vocab.json"), content("merges.txt")
    if vocab is None or merges is None:
        other = "vocab.json" if vocab is None else "merges.txt"
        raise TokenizerFormatError(
            f"{what} is half of a tokenizer, and {other} is not beside it; pass the folder, or a mapping with "
            "vocab.json and merges.txt"
        )
    beside, more = read_beside(content, folder)
    config = beside["tokenizer_config.json"]
    table = loads(vocab, "vocab.json")
    if not isinstance(table, dict):
        raise TokenizerFormatError("vocab.json is not an object; expected pieces and their ids")
    class_name = _class(config, "GPT2")
    roberta = class_name in _ROBERTA
    defaults = dict.fromkeys(_ROLES[:3], "<|endoftext|>")
    if roberta:
        defaults = dict(zip(_ROLES, ("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>")))
    named = _named(beside, defaults)
    pre, normalizer = _cut(class_name, config.get("add_prefix_space") is True)
    around = (named["bos_token"], named["eos_token"] if roberta else None)
    with_bos = roberta or config.get("add_bos_token") is True
    document = {
        "normalizer": normalizer,
        "pre_tokenizer": pre,
        "post_processor": _template(around, table) if with_bos else None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": table},
    }
    added = _added(more, named, beside, table)
    return build(document, _merges(merges), vocab, "vocab.json", added, beside)


def read_words(
    data: bytes, what: str, content: Callable[[str], bytes | None], folder: bool
) -> Tokenizer:
    """Return the tokenizer of the bytes of a vocab.txt, which has a token on each line."""
    beside, more = read_beside(content, folder)
    config = beside["tokenizer_config.json"]
    lines = as_text(data, what).split("\n")
    if not lines[-1]:
        del lines[-1]
    table = {line.rstrip(): i for i, line in enumerate(lines)}
    named = _named(beside, dict(zip(_ROLES[2:], ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"))))
    class_name = _class(config, "Bert")
    accents = config.get("strip_accents")
    document = {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": config.get("tokenize_chinese_chars", True) is True,
            "strip_accents": accents if isinstance(accents, bool) else None,
            "lowercase": config.get("do_lower_case", True) is True,
        },
        "pre_tokenizer": {
            "type": "BertPreTokenizer" if class_name in _BERT else f"{class_name}Tokenizer"
        },
        "post_processor": _template((named["cls_token"], named["sep_token"]), table),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": named["unk_token"], "vocab": table},
    }
    return build(document, None, data, what, _added(more, named, beside, table), beside)


def _class(config: Json, default: str) -> str:
    name = config.get("tokenizer_class")
    if not isinstance(name, str):
        return default
    return name.removesuffix("Fast").removesuffix("Tokenizer")


def _cut(class_name: str, prefix_space: bool) -> tuple[Json, Json | None]:
    """Return the pre-tokenizer and the normalizer of a class of byte-level tokenizers."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": prefix_space}
    if class_name in _GPT2:
        return byte_level, None
    if class_name != "Qwen2":
        return {"type": f"{class_name}Tokenizer"}, None
    split = {"type": "Split", "pattern": {"Regex": QWEN}, "behavior": "Isolated", "invert": False}
    steps = [split, {**byte_level, "use_regex": False}]
    return {"type": "Sequence", "pretokenizers": steps}, {"type": "NFC"}


def _content(token: Any) -> Any:
    return token.get("content") if isinstance(token, dict) else token


def _named(beside: dict[str, Json], defaults: dict[str, str]) -> dict[str, str | None]:
    """Return the token of each role: the one that a file beside names, else the default."""
    out: dict[str, str | None] = {role: defaults.get(role) for role in _ROLES}
    for name in reversed(_FILES):
        for role in _ROLES:
            token = _content(beside[name].get(role, out[role]))
            out[role] = token if isinstance(token, str) else out[role]
    return out


def _added(
    more: list[tuple[Json, int]],
    named: dict[str, str | None],
    beside: dict[str, Json],
    table: Json,
) -> list[Json]:
    """Return the added tokens of the files beside, then the special tokens that are not among them:
    those with a role that are in the vocabulary, and those that the files name.
    """
    found: list[Any] = [token for token in named.values() if token in table]
    for name in _FILES:
        extra = beside[name].get("additional_special_tokens")
        found += [beside[name].get(role) for role in _ROLES]
        found += extra if isinstance(extra, list) else []
    out = {entry["content"]: entry for entry, _ in more}
    for token in found:
        if isinstance(_content(token), str) and _content(token) not in out:
            flags = token if isinstance(token, dict) else {}
            entry = {**flags, "content": _content(token), "special": True}
            out[entry["content"]] = added_token(entry, "tokenizer_config.json")
    return list(out.values())


def _template(around: tuple[str | None, str | None], table: Any) -> Json | None:
    """Return the post-processor that puts tokens before and after a text, as far as they exist."""
    first, last = ([{"SpecialToken": {"id": token}}] if token in table else [] for token in around)
    names = {token: {"ids": [table[token]]} for token in around if token in table}
    single = [*first, {"Sequence": {"id": "A"}}, *last]
    return {"type": "TemplateProcessing", "single": single, "special_tokens": names}


def _merges(data: bytes) -> list[list[str]]:
    """Return the pairs of a merges.txt, which begins with a line about its version."""
    lines = as_text(data, "merges.txt").split("\n")
    pairs = [
        line.removesuffix("\r").split(" ") for line in lines if not line.startswith("#version")
    ]
    if pairs and pairs[-1] == [""]:
        del pairs[-1]
    for at, pair in enumerate(pairs):
        if len(pair) != 2:
            raise TokenizerFormatError(
                f"merges.txt: merge {at} has {len(pair)} parts: {' '.join(pair)[:60]!r}; expected two pieces separated by a space"
            )
    return pairs
