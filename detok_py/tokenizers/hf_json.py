"""Hugging Face's tokenizer.json, alone or in its folder.

In: a path. Out: a `Tokenizer` that decodes and encodes as the `tokenizers` library (0.23) does with the same file.

The merges, which are two thirds of a large file and which only an encoder reads, are cut out before the rest is parsed, and kept as
bytes. The ids of added tokens are those that `tokenizers` gives them, which are not always those in the file (see `number_added`).
"""

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from ..errors import TokenizerFormatError
from ..vocabulary import Vocabulary
from .known_patterns import LLAMA3, MAX_PATTERN, O200K, QWEN
from .strict_json import loads, read_bytes
from .tokenizer import Encode, Tokenizer

Json = dict[str, Any]
Pair = tuple[str, str]

MAX_TOKENS = 1 << 20
MAX_PIECE = 1 << 16
# A table up to this id is small whatever the file says; a higher id needs a file of a size that makes it credible.
SMALL_ID = 1 << 18

_REST = rb'[^"\\]*+(?:\\.[^"\\]*+)*+"'
_HALF = rb'[^"\\ ]*+(?:\\.[^"\\ ]*+)*+'
_OLD_MERGE = rb'"' + _HALF + rb" " + _HALF + rb'"'
_NEW_MERGE = rb'\[\s*+"' + _REST + rb'\s*+,\s*+"' + _REST + rb"\s*+\]"
# Merges as strings of two pieces and a space, or as pairs. Possessive throughout: a file that is neither fails in one pass.
_MERGES = re.compile(
    rb'(?<!\\)"merges"\s*+:\s*+(\[\s*+(?:'
    rb"(?:" + _OLD_MERGE + rb"\s*+(?:,\s*+(?=\")|(?=\])))++|(?:" + _NEW_MERGE + rb"\s*+(?:,\s*+(?=\[)|(?=\])))++"
    rb")\])",
    re.DOTALL,
)
_CUT = "merges, which are kept as bytes"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

_LISTS = ("normalizers", "pretokenizers", "processors", "decoders")
# Components that are known to be supported by their type alone, and patterns that are known to be safe.
_PLAIN: dict[str, frozenset[str]] = {
    "normalizer": frozenset(
        ["Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer", "Replace", "Prepend", "Precompiled"]
    ),
    "pre_tokenizer": frozenset(
        ["Sequence", "ByteLevel", "Split", "Metaspace", "Digits", "BertPreTokenizer", "Whitespace", "WhitespaceSplit"]
    ),
    "post_processor": frozenset(["Sequence", "ByteLevel", "TemplateProcessing", "BertProcessing", "RobertaProcessing"]),
    "decoder": frozenset(),
}
# What is a string wherever it occurs in a component.
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
_PATTERNS = frozenset([QWEN, LLAMA3, O200K])

# The files that say which ids end a text.
_BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "config.json")


def read(path: Path) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json, or of a folder that has one.

    Of a folder, added_tokens.json and the added tokens of tokenizer_config.json count too, as they do in transformers. Given the
    folder or the file, the files beside it say which ids end a text.
    """
    folder, file = (path, path / "tokenizer.json") if path.is_dir() else (path.parent, path)
    beside = {name: _read_beside(folder / name) for name in _BESIDE}
    more = _added_beside(beside["tokenizer_config.json"], _read_beside(folder / "added_tokens.json")) if path.is_dir() else []
    return parse(read_bytes(file), file.name, more, beside)


def parse(
    data: bytes, what: str = "tokenizer.json", more_added: Sequence[Json] = (), beside: Mapping[str, Json] | None = None
) -> Tokenizer:
    """Return the tokenizer of the bytes of a tokenizer.json; `what` is how errors name it.

    `more_added` are added tokens from other files, `beside` the parsed files that say which ids end a text.
    """
    document, cut = _split(data, what)
    model = document.get("model")
    if not isinstance(model, dict):
        raise TokenizerFormatError(
            f'{what} has no model: a tokenizer.json is an object with a "model" object in it, this has {_named(model)}'
        )
    _check(document, what)
    kind = _model_type(model, what)
    scores: array[float] | None = None
    merges: bytes | list[Pair] = []
    if kind == "Unigram":
        pieces, scores = _scored_pieces(model, what)
    else:
        pieces = _pieces(model, len(data), what)
        if kind == "BPE":
            merges = cut if cut is not None else read_merges(model.get("merges"), what)
    # From here on the pieces say it all: the tables as they were parsed are three times their size.
    model = document["model"] = {key: value for key, value in model.items() if key not in ("vocab", "merges")}

    added = [_added_token(entry, what) for entry in _list(document, "added_tokens", what)]
    special = {entry["content"] for entry in (*added, *more_added) if entry["special"]}
    numbered = _numbered(pieces, added, more_added)
    shown = _shown(numbered, document.get("normalizer"), what)
    hidden = {i: pieces[i] if i < len(pieces) else None for i in shown}
    pieces.extend([None] * (max(shown, default=0) + 1 - len(pieces)))
    for token_id, piece in shown.items():
        pieces[token_id] = piece
    if _SURROGATE.search(data):
        _refuse_half_characters(pieces, what)

    # `tokenizers` leaves special tokens out by what they decode to: one that a normalizer changes is shown, one that a table has twice is
    # left out twice.
    candidates = shown if scores is None else range(len(pieces))
    special_ids = [i for i in candidates if pieces[i] in special]
    eos_ids = _eos_ids(beside or {}, {entry["content"]: i for entry, i in numbered}, pieces)
    vocabulary = Vocabulary.from_pieces(pieces, document.get("decoder"), special_ids, [i for i in eos_ids if i < len(pieces)])

    def make_encode() -> Encode:
        from .hf_encode import encoder

        table = list(pieces)
        for token_id, piece in hidden.items():
            table[token_id] = piece
        pairs = read_merges(loads(merges, what + ": merges"), what) if isinstance(merges, bytes) else merges
        return encoder(kind, document, model, table, scores, pairs, numbered, special)

    return Tokenizer(_family(kind, document, model), vocabulary, make_encode, eos_ids, whole_runs=True)


def _numbered(pieces: Sequence[str | None], added: Sequence[Json], more_added: Sequence[Json]) -> list[tuple[Json, int]]:
    """Return all added tokens with their ids; those from other files come after those of the tokenizer.json."""
    wanted = {entry["content"] for entry in (*added, *more_added)}
    known = {piece: i for i, piece in enumerate(pieces) if piece is not None and piece in wanted}
    size = len(pieces) - pieces.count(None)
    numbered = number_added(known, size, added)
    given = {entry["content"]: i for entry, i in numbered}
    highest = max(given.values(), default=-1)
    more = [entry for entry in more_added if entry["content"] not in given]
    return numbered + number_added({**known, **given}, highest + 1 if highest >= size else size, more)


def number_added(known: Mapping[str, int], free: int, added: Sequence[Json]) -> list[tuple[Json, int]]:
    """Return each added token with the id that `tokenizers` gives it: that of its piece in the model's table, else the next from `free` on.

    The id in the file is not looked at, and neither is whether the model has something else at that id (tokenizers 0.23, `add_tokens` of
    `added_vocabulary.rs`). A token that comes twice keeps its id and has the flags of the last time; an empty one is none.

    >>> number_added({"a": 0, "b": 1}, 2, [{"content": "b"}, {"content": "<x>"}, {"content": "<y>"}])
    [({'content': 'b'}, 1), ({'content': '<x>'}, 2), ({'content': '<y>'}, 3)]
    """
    out: dict[str, tuple[Json, int]] = {}
    for entry in added:
        content = entry["content"]
        if content in out:
            before, token_id = out[content]
            out[content] = ({**entry, "shown_normalized": before.get("shown_normalized") or before.get("normalized")}, token_id)
        elif content in known:
            out[content] = (entry, known[content])
        elif content:
            out[content] = (entry, free)
            free += 1
    return list(out.values())


def _shown(numbered: Sequence[tuple[Json, int]], normalizer: Any, what: str) -> dict[int, str]:
    """Return the piece that each added token decodes from: what it contains, or the normalized form of that if it is looked for normalized.

    So it is since tokenizers 0.23, and stays so if the token comes again and is not to be normalized.
    """
    out = {token_id: entry["content"] for entry, token_id in numbered}
    changed = [(entry["content"], token_id) for entry, token_id in numbered if entry["normalized"] or entry.get("shown_normalized")]
    if changed and not _types(normalizer) <= {"Sequence"}:
        normalize = _compile("normalizer", normalizer, what)
        out.update([(token_id, normalize(content)) for content, token_id in changed])
    return out


def read_merges(merges: Any, what: str) -> list[Pair]:
    """Return the merges of a BPE model as pairs; both forms that files have, `"a b"` and `["a", "b"]`, are read."""
    if merges is None:
        return []
    if not isinstance(merges, list):
        raise TokenizerFormatError(f"{what}: the merges are {_named(merges)}; expected a list of pairs")
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
    raise TokenizerFormatError(f'{what}: merge {at} is {_named(merge)}; expected two pieces, all as "a b" or all as ["a", "b"]')


def _is_merge(merge: Any, kinds: set[type]) -> bool:
    if len(kinds) > 1:
        return False
    if isinstance(merge, str):
        return merge.count(" ") == 1
    return isinstance(merge, list) and len(merge) == 2 and all(isinstance(piece, str) for piece in merge)


def _split(data: bytes, what: str) -> tuple[Json, bytes | None]:
    """Return the document, and the merges as bytes if they could be cut out of it."""
    if not data.lstrip(b" \t\r\n").startswith(b"{"):
        raise TokenizerFormatError(f"{what} begins with {data[:12]!r}; a tokenizer.json is a JSON object")
    cut = _MERGES.search(data)
    if cut is not None:
        rest = b"".join([data[: cut.start(1)], b'"', _CUT.encode(), b'"', data[cut.end(1) :]])
        document = loads(rest, what)
        model = document.get("model")
        if isinstance(model, dict) and model.get("merges") == _CUT:
            return document, cut.group(1)
    document = loads(data, what)
    if not isinstance(document, dict):
        raise TokenizerFormatError(f"{what} is {_named(document)}; a tokenizer.json is a JSON object")
    return document, None


def _model_type(model: Json, what: str) -> str:
    """Return which algorithm the model is for; old files don't say it and are told apart by what they hold."""
    kind = model.get("type")
    if kind is None:
        if isinstance(model.get("vocab"), list):
            kind = "Unigram"
        elif "merges" in model:
            kind = "BPE"
        elif "max_input_chars_per_word" in model or "continuing_subword_prefix" in model:
            kind = "WordPiece"
    if kind not in ("BPE", "Unigram", "WordPiece"):
        raise TokenizerFormatError(f"{what}: a model of type {_named(kind)} is not supported; supported: BPE, Unigram, WordPiece")
    if model.get("dropout"):
        raise TokenizerFormatError(f"{what}: BPE with dropout {model['dropout']!r} is not supported, it encodes by chance; set it to null")
    return str(kind)


def _pieces(model: Json, size: int, what: str) -> list[str | None]:
    """Return the pieces, by id, of a model whose vocab is an object; `size` is how many bytes the file has."""
    vocab = model.get("vocab")
    if not isinstance(vocab, dict):
        raise TokenizerFormatError(f"{what}: the model's vocab is {_named(vocab)}; expected an object of pieces and their ids")
    if not set(map(type, vocab.values())) <= {int}:
        piece, wrong = next((piece, i) for piece, i in vocab.items() if type(i) is not int)
        raise TokenizerFormatError(f"{what}: the id of piece {piece[:40]!r} is {_named(wrong)}; expected a whole number")
    if not vocab:
        return []
    lowest, highest = min(vocab.values()), max(vocab.values())
    if lowest < 0 or highest >= MAX_TOKENS or (highest >= SMALL_ID and highest >= size):
        raise TokenizerFormatError(
            f"{what}: a piece has the id {lowest if lowest < 0 else highest}; ids are 0..{min(MAX_TOKENS, max(SMALL_ID, size)) - 1}"
        )
    if max(map(len, vocab)) > MAX_PIECE:
        raise TokenizerFormatError(f"{what}: a piece has {max(map(len, vocab))} characters; a piece has at most {MAX_PIECE}")
    pieces: list[str | None] = [None] * (highest + 1)
    for piece, i in vocab.items():
        pieces[i] = piece
    if len(pieces) - pieces.count(None) < len(vocab):
        first, second = next((pieces[i], piece) for piece, i in vocab.items() if pieces[i] != piece)
        raise TokenizerFormatError(f"{what}: the id {vocab[second]} is given to both {second!r} and {first!r}")
    return pieces


def _scored_pieces(model: Json, what: str) -> tuple[list[str | None], "array[float]"]:
    """Return the pieces by id, and their scores, of a Unigram model, whose vocab is a list."""
    vocab = model.get("vocab")
    if not isinstance(vocab, list):
        raise TokenizerFormatError(f"{what}: the vocab of a Unigram model is {_named(vocab)}; expected a list of [piece, score]")
    if len(vocab) > MAX_TOKENS:
        raise TokenizerFormatError(f"{what}: the vocab has {len(vocab)} pieces; at most {MAX_TOKENS} are read")
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
            raise TokenizerFormatError(f"{what}: piece {i} of the vocab is {_named(entry)}; expected [piece, score]")
        pieces.append(entry[0])
        try:
            scores.append(entry[1])
        except OverflowError:
            scores.append(float("inf"))
    if not isfinite(sum(map(abs, scores))):
        at = next((i for i, score in enumerate(scores) if not isfinite(score)), 0)
        raise TokenizerFormatError(f"{what}: the score of piece {at} is not a number that can be reckoned with: {scores[at]!r}")
    unk_id = model.get("unk_id")
    if unk_id is not None and not (type(unk_id) is int and 0 <= unk_id < len(pieces)):
        raise TokenizerFormatError(f"{what}: unk_id is {_named(unk_id)}; expected null or an id in 0..{len(pieces) - 1}")
    return pieces, scores


def _added_token(entry: Any, what: str) -> Json:
    """Return an added token with every flag it can have; what the file leaves out is as `tokenizers` has it by default."""
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        raise TokenizerFormatError(f'{what}: an added token is {_named(entry)}; expected an object with a "content"')
    content = entry["content"]
    if len(content) > MAX_PIECE:
        raise TokenizerFormatError(f"{what}: an added token has {len(content)} characters; a piece has at most {MAX_PIECE}")
    special = entry.get("special", False)
    out = {"id": entry.get("id"), "content": content, "special": special}
    for flag, default in (("single_word", False), ("lstrip", False), ("rstrip", False), ("normalized", not special)):
        out[flag] = entry.get(flag, default)
    wrong = next((flag for flag, value in out.items() if flag not in ("id", "content") and not isinstance(value, bool)), None)
    if wrong is not None:
        raise TokenizerFormatError(f'{what}: "{wrong}" of the added token {content[:40]!r} is {_named(out[wrong])}; expected true or false')
    if out["id"] is not None and (type(out["id"]) is not int or out["id"] < 0):
        raise TokenizerFormatError(
            f"{what}: the id of the added token {content[:40]!r} is {_named(out['id'])}; expected a whole number from 0"
        )
    return out


def _added_beside(config: Json, added: Json) -> list[Json]:
    """Return the added tokens of tokenizer_config.json and added_tokens.json, by id."""
    found: dict[int, Json] = {}
    decoder = config.get("added_tokens_decoder", {})
    if not isinstance(decoder, dict):
        raise TokenizerFormatError(f"tokenizer_config.json: added_tokens_decoder is {_named(decoder)}; expected an object")
    for key, entry in decoder.items():
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise TokenizerFormatError(f"tokenizer_config.json: added_tokens_decoder has the id {key[:40]!r}; expected a whole number")
        found[int(key)] = _added_token(entry, "tokenizer_config.json")
    for content, token_id in added.items():
        if type(token_id) is not int:
            raise TokenizerFormatError(f"added_tokens.json: the id of {content[:40]!r} is {_named(token_id)}; expected a whole number")
        found.setdefault(token_id, _added_token({"content": content}, "added_tokens.json"))
    return [found[i] for i in sorted(found)]


def _read_beside(file: Path) -> Json:
    """Return a JSON object beside tokenizer.json, or nothing where there is none."""
    try:
        value = loads(read_bytes(file), file.name)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if not isinstance(value, dict):
        raise TokenizerFormatError(f"{file.name} is {_named(value)}; expected a JSON object")
    return value


def _eos_ids(beside: Mapping[str, Json], added: Mapping[str, int], pieces: Sequence[str | None]) -> set[int]:
    """Return the ids that end a text: eos_token of the tokenizer's files, eos_token_id of the model's."""
    out: set[int] = set()
    for name, document in beside.items():
        token = document.get("eos_token")
        if isinstance(token, dict):
            token = token.get("content")
        if isinstance(token, str) and (token in added or token in pieces):
            out.add(added[token] if token in added else pieces.index(token))
        ids = document.get("eos_token_id")
        for token_id in ids if isinstance(ids, list) else [ids]:
            if type(token_id) is int:
                # May lie beyond the table, as models have rows that no tokenizer names; -1 stands for none.
                out |= {token_id} if token_id >= 0 else set()
            elif token_id is not None:
                raise TokenizerFormatError(f"{name}: eos_token_id is {_named(ids)}; expected an id or a list of ids")
    return out


def _family(kind: str, document: Json, model: Json) -> str:
    if kind != "BPE":
        return kind.lower()
    parts = set().union(*[_types(document.get(part)) for part in ("normalizer", "pre_tokenizer", "decoder")])
    return "sentencepiece" if "ByteLevel" not in parts and (model.get("byte_fallback") or "Metaspace" in parts) else "byte_bpe"


def _inside(component: Any) -> Iterator[Json]:
    """Yield a component and everything in it, in order."""
    todo = [component] if component is not None else []
    while todo:
        part = todo.pop()
        yield part
        if isinstance(part, dict):
            for key in _LISTS:
                inner = part.get(key)
                todo.extend(reversed(inner) if isinstance(inner, list) else [])


def _types(component: Any) -> set[Any]:
    return {part.get("type") for part in _inside(component)}


def _check(document: Json, what: str) -> None:
    """Raise TokenizerFormatError for a component that is none, or that isn't supported.

    What is well known isn't compiled for that; anything else is, so that it is refused at load and not with the first text. (The decoder is
    compiled at load in any case.)
    """
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        component = document.get(part)
        plain, fused = True, False
        for entry in _inside(component):
            if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
                raise TokenizerFormatError(f'{what}: the {part} has {_named(entry)} where an object with a "type" was expected')
            if entry["type"] == "Sequence" and not any(isinstance(entry.get(key), list) for key in _LISTS):
                raise TokenizerFormatError(f"{what}: the {part} has a Sequence without its list")
            wrong = next((key for key in _STRINGS if not isinstance(entry.get(key, ""), str)), None)
            if wrong is not None:
                raise TokenizerFormatError(
                    f'{what}: "{wrong}" of the {part} {entry["type"][:40]} is {_named(entry[wrong])}; expected a string'
                )
            if not entry.get("precompiled_charsmap", "").isascii():
                raise TokenizerFormatError(f"{what}: the precompiled_charsmap of the {part} is not base64")
            pattern = entry.get("pattern")
            regex = pattern.get("Regex") if isinstance(pattern, dict) else None
            if isinstance(regex, str) and len(regex) > MAX_PATTERN:
                raise TokenizerFormatError(f"{what}: the {part} has a pattern of {len(regex)} characters; at most {MAX_PATTERN} are read")
            plain = plain and entry["type"] in _PLAIN[part] and (regex is None or (isinstance(regex, str) and regex in _PATTERNS))
            if fused and entry["type"] in ("WordPiece", "CTC") and entry.get("cleanup", True):
                # No tokenizer has it; what it makes certain of a stream takes seconds to find out.
                raise TokenizerFormatError(
                    f"{what}: a {entry['type']} decoder that cleans up behind a Fuse is not supported; set its cleanup to false"
                )
            fused = fused or entry["type"] == "Fuse"
        if not plain and part != "decoder":
            _compile(part, component or {}, what)


def _compile(part: str, component: Json, what: str) -> Any:
    from .normalize import compile_normalizer
    from .pretokenize import compile_pretokenizer
    from .templates import compile_post_processor

    compilers: dict[str, Callable[[Json], Any]] = {
        "normalizer": compile_normalizer,
        "pre_tokenizer": compile_pretokenizer,
        "post_processor": compile_post_processor,
    }
    try:
        return compilers[part](component)
    except TokenizerFormatError as error:
        raise TokenizerFormatError(f"{what}: {error}") from None


def _list(document: Json, key: str, what: str) -> list[Any]:
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise TokenizerFormatError(f"{what}: {key} is {_named(value)}; expected a list")
    return value


def _refuse_half_characters(pieces: Sequence[str | None], what: str) -> None:
    for i, piece in enumerate(pieces):
        try:
            (piece or "").encode()
        except UnicodeEncodeError:
            raise TokenizerFormatError(f"{what}: the piece of id {i} has half a surrogate pair: {piece!r}; no text holds one") from None


def _named(value: Any) -> str:
    """Return a value as an error shows it: JSON's words, and not much of it."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    text: str | int = repr(value[:40]) if isinstance(value, str) else type(value).__name__
    return {"dict": "an object", "list": "a list"}.get(str(text), str(text))
