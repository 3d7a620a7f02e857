"""Encode text: added tokens, normalizer, pre-tokenizer, model, post-processor, in this order.

In: the parsed parts of a tokenizer.json or of a rank file. Out: a function that encodes a text.
Each part is compiled by its own module; this module connects them, as
`tokenizers/src/tokenizer/mod.rs` does.
"""

import re
from array import array
from typing import Any, Callable, Iterable, Mapping, Sequence
from unicodedata import normalize

from ..errors import TokenizerFormatError
from .added import AddedTokens
from .byte_bpe import BytePairEncoder, RankEncoder
from .normalize import compile_normalizer
from .pretokenize import compile_pretokenizer, compile_split
from .templates import compile_post_processor
from .tokenizer import Encode

Json = dict[str, Any]


def encoder(
    kind: str,
    document: Json,
    pieces: Sequence[str | None],
    scores: "array[float] | None",
    merges: Sequence[tuple[str, str]],
    added: Sequence[tuple[Json, int]],
    special: set[str],
) -> Encode:
    """Return the function behind `Tokenizer.encode`.

    `pieces` and `scores` are the model's own, indexed by id. `added` are the added tokens with
    their ids. `special` holds the contents of the special ones.
    """
    split = compile_pretokenizer(document.get("pre_tokenizer"))
    encode_all = _compile_model(kind, document["model"], pieces, scores, merges)
    around = compile_post_processor(document.get("post_processor"))
    tokens = AddedTokens(
        [{**entry, "id": i, "special": entry["content"] in special} for entry, i in added],
        compile_normalizer(document.get("normalizer")),
    )

    def encode(text: str, add_special_tokens: bool, parse_special: bool) -> list[int]:
        ids: list[int] = []
        first = True
        for part in tokens.split(text, not parse_special):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += encode_all(split(part, first))
            first = False
        return around(ids) if add_special_tokens else ids

    return encode


def _compile_model(
    kind: str,
    model: Json,
    pieces: Sequence[str | None],
    scores: "array[float] | None",
    merges: Sequence[tuple[str, str]],
) -> Callable[[Iterable[str]], list[int]]:
    """Return the function that encodes a list of pieces with the model."""
    if kind == "WordLevel" or model.get("dropout"):
        raise TokenizerFormatError(
            "its model is WordLevel"
            if kind == "WordLevel"
            else f"its dropout of {model['dropout']!r:.40} encodes at random; set it to null"
        )
    if scores is not None:  # Unigram
        from .unigram import UnigramEncoder

        vocab = [(piece or "", score) for piece, score in zip(pieces, scores)]
        return UnigramEncoder(vocab, model.get("unk_id"), _flag(model, "byte_fallback")).encode_all
    ids = {piece: i for i, piece in enumerate(pieces) if piece is not None}
    if kind == "WordPiece":
        from .wordpiece import WordPieceEncoder

        longest = model.get("max_input_chars_per_word", 100)
        if type(longest) is not int or longest < 0:
            raise TokenizerFormatError(
                f"max_input_chars_per_word is {longest!r:.40}; expected a whole number"
            )
        prefix = _text(model, "continuing_subword_prefix")
        return WordPieceEncoder(
            ids, _text(model, "unk_token", "[UNK]"), "##" if prefix is None else prefix, longest
        ).encode_all
    return BytePairEncoder(
        ids,
        merges,
        unk_token=_text(model, "unk_token"),
        byte_fallback=_flag(model, "byte_fallback"),
        ignore_merges=_flag(model, "ignore_merges"),
        continuing_subword_prefix=_text(model, "continuing_subword_prefix"),
        end_of_word_suffix=_text(model, "end_of_word_suffix"),
        fuse_unk=_flag(model, "fuse_unk"),
    ).encode_all


def rank_encoder(
    ranks: Mapping[bytes, int],
    pattern: str,
    special: Mapping[str, int],
    *,
    first_id: int = 0,
    bos_id: int | None = None,
    nfc: bool = False,
) -> Encode:
    """Return the function that encodes by ranks, as tiktoken and tekken do.

    The id of a token is `first_id` plus its rank. `bos_id` is put before the text when special
    tokens are added. `nfc` normalizes the text to NFC first.
    """
    ids = RankEncoder(
        {token: rank + first_id for token, rank in ranks.items()} if first_id else ranks
    )
    split = compile_split(pattern)
    names = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))) or "(?!)")

    def encode(text: str, add_special_tokens: bool, parse_special: bool) -> list[int]:
        if nfc:
            text = normalize("NFC", text)
        out = [bos_id] if add_special_tokens and bos_id is not None else []
        begin = 0
        for found in names.finditer(text) if parse_special else ():
            out += ids.encode_all(split(text[begin : found.start()]))
            out.append(special[found.group()])
            begin = found.end()
        out += ids.encode_all(split(text[begin:]))
        return out

    return encode


def _flag(model: Json, key: str) -> bool:
    value = model.get(key)
    if value is not None and not isinstance(value, bool):
        raise TokenizerFormatError(f"the model's {key} is {value!r:.40}; expected true or false")
    return bool(value)


def _text(model: Json, key: str, default: str | None = None) -> str | None:
    value = model.get(key, default)
    if value is not None and not isinstance(value, str):
        raise TokenizerFormatError(f"the model's {key} is {value!r:.40}; expected a string")
    return value
