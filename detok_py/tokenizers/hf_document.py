"""The parts of a tokenizer.json: its document, the model's pieces and merges.

In: bytes. Out: parsed JSON that is checked, pieces by id, merges as pairs. What is damaged raises
TokenizerFormatError, which says what is there and what was expected.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from ..decode.rules import MAX_PATTERN
from ..errors import TokenizerFormatError
from .strict_json import loads

Json = dict[str, Any]
Pair = tuple[str, str]

MAX_TOKENS = 1 << 20
MAX_PIECE = 1 << 16
# Ids below this need little memory. A higher id is accepted only if the file has as many bytes.
SMALL_ID = 1 << 18

_STRING_REST = rb'[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING_HALF = rb'[^"\\ ]*+(?:\\.[^"\\ ]*+)*+'
_OLD_MERGE = rb'"' + _STRING_HALF + rb" " + _STRING_HALF + rb'"'
_NEW_MERGE = rb'\[\s*+"' + _STRING_REST + rb'\s*+,\s*+"' + _STRING_REST + rb"\s*+\]"
# Merges as strings "a b" or as pairs ["a", "b"]. All quantifiers are possessive, so a mismatch
# fails in one pass.
_MERGES = re.compile(
    rb'(?<!\\)"merges"\s*+:\s*+(\[\s*+(?:'
    rb"(?:"
    + _OLD_MERGE
    + rb"\s*+(?:,\s*+(?=\")|(?=\])))++|(?:"
    + _NEW_MERGE
    + rb"\s*+(?:,\s*+(?=\[)|(?=\])))++"
    rb")\])",
    re.DOTALL,
)
_CUT = "merges, which are kept as bytes"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

_LISTS = ("normalizers", "pretokenizers", "processors", "decoders")
# Keys whose value is a string in every component.
_STRINGS = (
    "behavior",
    "content",
    "delimiter",
    "pad_token",
    "precompiled_charsmap",
    "prefix",
    "prepend",
    "prepend_scheme",
    "replacement",
    "suffix",
    "word_delimiter_token",
)


def parse_document(data: bytes, what: str) -> tuple[Json, bytes | None]:
    """Return the parsed document, and the merges as bytes if they could be cut out of it."""
    if not data.lstrip(b" \t\r\n").startswith(b"{"):
        raise TokenizerFormatError(f"{what} begins with {data[:12]!r}; expected a JSON object")
    cut = _MERGES.search(data)
    if cut is not None:
        rest = b"".join([data[: cut.start(1)], b'"', _CUT.encode(), b'"', data[cut.end(1) :]])
        document = loads(rest, what)
        model = document.get("model")
        if isinstance(model, dict) and model.get("merges") == _CUT:
            return document, cut.group(1)
    document = loads(data, what)
    if not isinstance(document, dict):
        raise TokenizerFormatError(f"{what} is {describe(document)}; expected a JSON object")
    return document, None


def check(document: Json, what: str) -> None:
    """Raise TokenizerFormatError if a component is damaged.

    Those that only encoding needs are compiled when the first text is encoded: a file that
    can't be encoded can still be decoded.
    """
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        component = document.get(part)
        fused = False
        for entry in _nested(component):
            if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
                raise TokenizerFormatError(
                    f'{what}: the {part} contains {describe(entry)}; expected an object with a "type"'
                )
            if entry["type"] == "Sequence" and not any(
                isinstance(entry.get(key), list) for key in _LISTS
            ):
                raise TokenizerFormatError(f"{what}: a Sequence in the {part} has no list of steps")
            wrong = next((key for key in _STRINGS if not isinstance(entry.get(key, ""), str)), None)
            if wrong is not None:
                raise TokenizerFormatError(
                    f'{what}: "{wrong}" of the {part} {entry["type"][:40]} is {describe(entry[wrong])}; expected a string'
                )
            if not entry.get("precompiled_charsmap", "").isascii():
                raise TokenizerFormatError(
                    f"{what}: the precompiled_charsmap of the {part} is not base64"
                )
            pattern = entry.get("pattern")
            regex = pattern.get("Regex") if isinstance(pattern, dict) else None
            if isinstance(regex, str) and len(regex) > MAX_PATTERN:
                raise TokenizerFormatError(
                    f"{what}: the {part} has a pattern of {len(regex)} characters; at most {MAX_PATTERN} are allowed"
                )
            if fused and entry["type"] in ("WordPiece", "CTC") and entry.get("cleanup", True):
                # No known tokenizer has it, and decoding a stream by it takes seconds.
                raise TokenizerFormatError(
                    f"{what}: a {entry['type']} decoder with cleanup after a Fuse is not supported; set its cleanup to false"
                )
            fused = fused or entry["type"] == "Fuse"


def _nested(component: Any) -> Iterator[Json]:
    """Yield a component and everything in it, in order."""
    todo = [component] if component is not None else []
    while todo:
        part = todo.pop()
        yield part
        if isinstance(part, dict):
            for key in _LISTS:
                inner = part.get(key)
                todo.extend(reversed(inner) if isinstance(inner, list) else [])


def types_in(component: Any) -> set[Any]:
    """Return the types of a component and of everything in it."""
    return {part.get("type") for part in _nested(component)}


def read_list(document: Json, key: str, what: str) -> list[Any]:
    """Return the list under `key`, or an empty one."""
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise TokenizerFormatError(f"{what}: {key} is {describe(value)}; expected a list")
    return value


def model_type(model: Json, what: str) -> str:
    """Return the type of the model; old files lack it, but their keys tell it."""
    kind = model.get("type")
    if kind is None:
        if isinstance(model.get("vocab"), list):
            kind = "Unigram"
        elif "merges" in model:
            kind = "BPE"
        elif "max_input_chars_per_word" in model or "continuing_subword_prefix" in model:
            kind = "WordPiece"
    if kind not in ("BPE", "Unigram", "WordPiece", "WordLevel"):
        raise TokenizerFormatError(
            f"{what}: the model type {describe(kind)} is not supported; supported: BPE, Unigram, WordPiece, and WordLevel to decode"
        )
    return str(kind)


def pieces_of(model: Json, size: int, what: str) -> list[str | None]:
    """Return the pieces by id, where vocab is an object; the file has `size` bytes."""
    vocab = model.get("vocab")
    if not isinstance(vocab, dict):
        raise TokenizerFormatError(
            f"{what}: the model's vocab is {describe(vocab)}; expected an object of pieces and ids"
        )
    if not set(map(type, vocab.values())) <= {int}:
        piece, wrong = next((piece, i) for piece, i in vocab.items() if type(i) is not int)
        raise TokenizerFormatError(
            f"{what}: the id of piece {piece[:40]!r} is {describe(wrong)}; expected a whole number"
        )
    if not vocab:
        return []
    lowest, highest = min(vocab.values()), max(vocab.values())
    if lowest < 0 or highest >= MAX_TOKENS or (highest >= SMALL_ID and highest >= size):
        raise TokenizerFormatError(
            f"{what}: the id {lowest if lowest < 0 else highest} is out of range; expected ids in 0..{min(MAX_TOKENS, max(SMALL_ID, size)) - 1}"
        )
    if max(map(len, vocab)) > MAX_PIECE:
        raise TokenizerFormatError(
            f"{what}: a piece has {max(map(len, vocab))} characters; at most {MAX_PIECE} are allowed"
        )
    pieces: list[str | None] = [None] * (highest + 1)
    for piece, i in vocab.items():
        pieces[i] = piece
    if len(pieces) - pieces.count(None) < len(vocab):
        first, second = next((pieces[i], piece) for piece, i in vocab.items() if pieces[i] != piece)
        raise TokenizerFormatError(
            f"{what}: the id {vocab[second]} belongs to both {second!r} and {first!r}"
        )
    return pieces


def scored_pieces(model: Json, what: str) -> tuple[list[str | None], "array[float]"]:
    """Return the pieces and the scores of a Unigram model by id; its vocab is a list."""
    vocab = model.get("vocab")
    if not isinstance(vocab, list):
        raise TokenizerFormatError(
            f"{what}: the vocab of a Unigram model is {describe(vocab)}; expected a list of [piece, score]"
        )
    if len(vocab) > MAX_TOKENS:
        raise TokenizerFormatError(
            f"{what}: the vocab has {len(vocab)} pieces; at most {MAX_TOKENS} are allowed"
        )
    pieces: list[str | None] = []
    scores = array("d")
    for i, entry in enumerate(vocab):
        if not (
            isinstance(entry, list)
            and len(entry) == 2
            and isinstance(entry[0], str)
            and type(entry[1]) in (float, int)
            and len(entry[0]) <= MAX_PIECE
        ):
            raise TokenizerFormatError(
                f"{what}: piece {i} of the vocab is {describe(entry)}; expected [piece, score]"
            )
        pieces.append(entry[0])
        try:
            scores.append(entry[1])
        except OverflowError:
            scores.append(float("inf"))
    if not isfinite(sum(map(abs, scores))):
        at = next((i for i, score in enumerate(scores) if not isfinite(score)), 0)
        raise TokenizerFormatError(
            f"{what}: the score of piece {at} is {scores[at]!r}, or the scores sum to infinity; expected finite numbers"
        )
    unk_id = model.get("unk_id")
    if unk_id is not None and not (type(unk_id) is int and 0 <= unk_id < len(pieces)):
        raise TokenizerFormatError(
            f"{what}: unk_id is {describe(unk_id)}; expected null or an id in 0..{len(pieces) - 1}"
        )
    return pieces, scores


def refuse_surrogates(data: bytes, pieces: Sequence[str | None], what: str) -> None:
    """Raise TokenizerFormatError for a piece with half a surrogate pair; `data` is its file."""
    if not _SURROGATE.search(data):
        return
    for i, piece in enumerate(pieces):
        try:
            (piece or "").encode()
        except UnicodeEncodeError:
            raise TokenizerFormatError(
                f"{what}: the piece of id {i} contains half a surrogate pair: {piece!r}; remove it"
            ) from None


def read_merges(merges: Any) -> list[Pair]:
    """Return the merges of a BPE model as pairs, from either form.

    >>> read_merges(["a b"]), read_merges([["a", "b"]])
    ([('a', 'b')], [('a', 'b')])
    """
    if merges is None:
        return []
    if not isinstance(merges, list):
        raise TokenizerFormatError(f"the merges are {describe(merges)}; expected a list of pairs")
    kinds = set(map(type, merges))
    pairs: list[Any]
    if kinds == {str}:
        pairs = [merge.split(" ") for merge in merges]
    elif kinds <= {list}:
        pairs = merges
    else:
        pairs = [None]
    if set(map(type, pairs)) <= {list} and set(map(len, pairs)) <= {2}:
        first = [pair[0] for pair in pairs]
        second = [pair[1] for pair in pairs]
        if set(map(type, first)) | set(map(type, second)) <= {str}:
            return list(zip(first, second))
    at, merge = next((i, merge) for i, merge in enumerate(merges) if not _is_merge(merge, kinds))
    raise TokenizerFormatError(
        f'merge {at} is {describe(merge)}; expected every merge as "a b", or every merge as ["a", "b"]'
    )


def _is_merge(merge: Any, kinds: set[type]) -> bool:
    if len(kinds) > 1:
        return False
    if isinstance(merge, str):
        return merge.count(" ") == 1
    return (
        isinstance(merge, list)
        and len(merge) == 2
        and all(isinstance(piece, str) for piece in merge)
    )


def describe(value: Any) -> str:
    """Return a JSON value as an error message shows it, shortened."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    text: str | int = repr(value[:40]) if isinstance(value, str) else type(value).__name__
    return {"dict": "an object", "list": "a list"}.get(str(text), str(text))
