"""Read Hugging Face's tokenizer.json, alone or in its folder.

In: bytes. Out: a `Tokenizer` that encodes and decodes as the `tokenizers` library (0.23) does with
the same file.

The merges are two thirds of a large file, and only an encoder needs them. They are cut out before
the rest is parsed, and kept as bytes. Added tokens get the ids that `tokenizers` gives them, which
can differ from those in the file (see `number_added`).
"""

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any

from ..decode.vocabulary import Vocabulary
from ..errors import TokenizerFormatError
from ..patterns.known import MAX_PATTERN
from .strict_json import loads
from .tokenizer import BEGINS, Encode, Tokenizer, ends_by_name

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

# Files in the same folder that name end-of-text ids.
_EOS_FILES = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "config.json",
)


def read(data: bytes, what: str, content: Callable[[str], bytes | None], folder: bool) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json, or of a folder that has one.

    `content` returns the bytes of another file of its folder. For a folder, added_tokens.json and
    the added tokens of tokenizer_config.json are read too, as transformers does. For both, the
    other files of the folder name the end-of-text ids.
    """
    beside, more = read_beside(content, folder)
    return parse(data, what, [entry for entry, _ in more], beside)


def read_beside(
    content: Callable[[str], bytes | None], folder: bool
) -> tuple[dict[str, Json], list[tuple[Json, int]]]:
    """Return the files beside that name the ids of roles, parsed, and for a folder the added tokens
    of added_tokens.json and tokenizer_config.json with their ids. `content` is that of `read`.
    """
    beside = {name: read_object(content(name), name) for name in _EOS_FILES}
    if not folder:
        return beside, []
    name = "added_tokens.json"
    added = read_object(content(name), name)
    return beside, added_beside(beside["tokenizer_config.json"], added)


def parse(
    data: bytes,
    what: str = "tokenizer.json",
    more_added: Sequence[Json] = (),
    beside: Mapping[str, Json] | None = None,
) -> Tokenizer:
    """Return the tokenizer of the bytes of a tokenizer.json; errors call the file `what`.

    `more_added` are added tokens from other files. `beside` are the parsed files that name
    end-of-text ids.
    """
    document, cut = _parse_document(data, what)
    return build(document, cut, data, what, more_added, beside)


def build(
    document: Json,
    merges: Any,
    data: bytes,
    what: str,
    more_added: Sequence[Json] = (),
    beside: Mapping[str, Json] | None = None,
) -> Tokenizer:
    """Return the tokenizer of a parsed tokenizer.json; the rest is as for `parse`.

    `merges` are those of a BPE model, None if the document has them. `data` is the file that its
    vocabulary came from.
    """
    model = document.get("model")
    if not isinstance(model, dict):
        raise TokenizerFormatError(f'{what}: "model" is {_describe(model)}; expected an object')
    _check(document, what)
    kind = _model_type(model, what)
    scores: array[float] | None = None
    if kind == "Unigram":
        pieces, scores = _scored_pieces(model, what)
    else:
        pieces = _pieces(model, len(data), what)
    merges = merges if merges is not None else model.get("merges")
    # The parsed tables take three times the memory of the pieces, and are not needed from here on.
    model = document["model"] = {
        key: value for key, value in model.items() if key not in ("vocab", "merges")
    }

    added = [added_token(entry, what) for entry in _read_list(document, "added_tokens", what)]
    special = {entry["content"] for entry in (*added, *more_added) if entry["special"]}
    numbered = _numbered(pieces, added, more_added)
    shown = _decoded_texts(numbered, document.get("normalizer"), what)
    hidden = {i: pieces[i] if i < len(pieces) else None for i in shown}
    pieces.extend([None] * (max(shown, default=0) + 1 - len(pieces)))
    for token_id, piece in shown.items():
        pieces[token_id] = piece
    if _SURROGATE.search(data):
        _refuse_surrogates(pieces, what)

    # `tokenizers` skips special tokens by the text they decode to: a token whose text a normalizer
    # changes is not skipped, and two ids with the text of a special token are both skipped.
    candidates = shown if scores is None else range(len(pieces))
    special_ids = [i for i in candidates if pieces[i] in special]
    added_ids = {entry["content"]: i for entry, i in numbered}
    eos_ids = named_ids("eos", beside or {}, added_ids, pieces)
    if eos_ids is None:
        names = {name: i for name, i in added_ids.items() if name in special}
        eos_ids = dict.fromkeys(sorted(ends_by_name(names)), "its name")
    begins = named_ids("bos", beside or {}, added_ids, pieces)
    if begins is None:
        begins = {added_ids[name]: name for name in BEGINS if name in added_ids}
    vocabulary = Vocabulary.from_pieces(pieces, document.get("decoder"), special_ids)

    contents = {i: entry["content"] for entry, i in numbered}

    make_encode = partial(
        _make_encode, kind, document, pieces, hidden, scores, merges, numbered, special, what
    )
    return Tokenizer(
        _family(kind, document, model),
        vocabulary,
        make_encode,
        eos_ids=eos_ids,
        whole_runs=True,
        bos_id=next(iter(begins), None),
        piece_of=partial(_piece, contents, pieces),
    )


def _make_encode(
    kind: str,
    document: Json,
    pieces: list[str | None],
    hidden: dict[int, str | None],
    scores: Any,
    merges: Any,
    numbered: list[tuple[Json, int]],
    special: set[str],
    what: str,
) -> Encode:
    """Return the encoder of what `_read` has read: a function, so that a Tokenizer pickles."""
    from .hf_encode import encoder

    table = list(pieces)
    for token_id, piece in hidden.items():
        table[token_id] = piece
    try:
        raw = loads(merges, "merges") if isinstance(merges, bytes) else merges
        pairs = read_merges(raw if kind == "BPE" else None)
        return encoder(kind, document, document["model"], table, scores, pairs, numbered, special)
    except TokenizerFormatError as error:
        raise TokenizerFormatError(f"{what} can be decoded, but not encoded: {error}") from None


def _numbered(
    pieces: Sequence[str | None], added: Sequence[Json], more_added: Sequence[Json]
) -> list[tuple[Json, int]]:
    """Return all added tokens with their ids, those of tokenizer.json first."""
    wanted = {entry["content"] for entry in (*added, *more_added)}
    known = {piece: i for i, piece in enumerate(pieces) if piece is not None and piece in wanted}
    size = len(pieces) - pieces.count(None)
    numbered = number_added(known, size, added)
    given = {entry["content"]: i for entry, i in numbered}
    highest = max(given.values(), default=-1)
    more = [entry for entry in more_added if entry["content"] not in given]
    return numbered + number_added(
        {**known, **given}, highest + 1 if highest >= size else size, more
    )


def number_added(
    known: Mapping[str, int], free: int, added: Sequence[Json]
) -> list[tuple[Json, int]]:
    """Return each added token with the id that `tokenizers` gives it.

    That is the id of the same piece in the model's vocabulary (`known`), otherwise the next id from
    `free` on. The id in the file is ignored, as in tokenizers 0.23 (`add_tokens` of
    added_vocabulary.rs). A token listed twice keeps its first id and has its last flags. An empty
    token is dropped.

    >>> number_added(
    ...     {"a": 0, "b": 1}, 2, [{"content": "b"}, {"content": "<x>"}, {"content": "<y>"}]
    ... )
    [({'content': 'b'}, 1), ({'content': '<x>'}, 2), ({'content': '<y>'}, 3)]
    """
    out: dict[str, tuple[Json, int]] = {}
    for entry in added:
        content = entry["content"]
        if content in out:
            before, token_id = out[content]
            out[content] = (
                {
                    **entry,
                    "shown_normalized": before.get("shown_normalized") or before.get("normalized"),
                },
                token_id,
            )
        elif content in known:
            out[content] = (entry, known[content])
        elif content:
            out[content] = (entry, free)
            free += 1
    return list(out.values())


def _decoded_texts(
    numbered: Sequence[tuple[Json, int]], normalizer: Any, what: str
) -> dict[int, str]:
    """Return the text that each added token decodes to.

    That is its content, normalized if the token or an earlier entry for it has "normalized", as in
    tokenizers since 0.23.
    """
    out = {token_id: entry["content"] for entry, token_id in numbered}
    changed = [
        (entry["content"], token_id)
        for entry, token_id in numbered
        if entry["normalized"] or entry.get("shown_normalized")
    ]
    if changed and not _types(normalizer) <= {"Sequence"}:
        from .normalize import compile_normalizer

        try:
            normalize = compile_normalizer(normalizer)
        except TokenizerFormatError as error:
            raise TokenizerFormatError(
                f"{what}: the text of {changed[0][0]!r} depends on its normalizer: {error}"
            ) from None
        out.update([(token_id, normalize(content)) for content, token_id in changed])
    return out


def read_merges(merges: Any) -> list[Pair]:
    """Return the merges of a BPE model as pairs, from either form.

    >>> read_merges(["a b"]), read_merges([["a", "b"]])
    ([('a', 'b')], [('a', 'b')])
    """
    if merges is None:
        return []
    if not isinstance(merges, list):
        raise TokenizerFormatError(f"the merges are {_describe(merges)}; expected a list of pairs")
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
        f'merge {at} is {_describe(merge)}; expected every merge as "a b", or every merge as ["a", "b"]'
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


def _parse_document(data: bytes, what: str) -> tuple[Json, bytes | None]:
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
        raise TokenizerFormatError(f"{what} is {_describe(document)}; expected a JSON object")
    return document, None


def _model_type(model: Json, what: str) -> str:
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
            f"{what}: the model type {_describe(kind)} is not supported; supported: BPE, Unigram, WordPiece, and WordLevel to decode"
        )
    return str(kind)


def _pieces(model: Json, size: int, what: str) -> list[str | None]:
    """Return the pieces by id, where vocab is an object; the file has `size` bytes."""
    vocab = model.get("vocab")
    if not isinstance(vocab, dict):
        raise TokenizerFormatError(
            f"{what}: the model's vocab is {_describe(vocab)}; expected an object of pieces and ids"
        )
    if not set(map(type, vocab.values())) <= {int}:
        piece, wrong = next((piece, i) for piece, i in vocab.items() if type(i) is not int)
        raise TokenizerFormatError(
            f"{what}: the id of piece {piece[:40]!r} is {_describe(wrong)}; expected a whole number"
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


def _scored_pieces(model: Json, what: str) -> tuple[list[str | None], "array[float]"]:
    """Return the pieces and the scores of a Unigram model by id; its vocab is a list."""
    vocab = model.get("vocab")
    if not isinstance(vocab, list):
        raise TokenizerFormatError(
            f"{what}: the vocab of a Unigram model is {_describe(vocab)}; expected a list of [piece, score]"
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
                f"{what}: piece {i} of the vocab is {_describe(entry)}; expected [piece, score]"
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
            f"{what}: unk_id is {_describe(unk_id)}; expected null or an id in 0..{len(pieces) - 1}"
        )
    return pieces, scores


def added_token(entry: Any, what: str) -> Json:
    """Return an added token with all flags; missing ones have the defaults of `tokenizers`."""
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        raise TokenizerFormatError(
            f'{what}: an added token is {_describe(entry)}; expected an object with a "content"'
        )
    content = entry["content"]
    if len(content) > MAX_PIECE:
        raise TokenizerFormatError(
            f"{what}: an added token has {len(content)} characters; at most {MAX_PIECE} are allowed"
        )
    special = entry.get("special", False)
    out = {"id": entry.get("id"), "content": content, "special": special}
    for flag, default in (
        ("single_word", False),
        ("lstrip", False),
        ("rstrip", False),
        ("normalized", not special),
    ):
        out[flag] = entry.get(flag, default)
    wrong = next(
        (
            flag
            for flag, value in out.items()
            if flag not in ("id", "content") and not isinstance(value, bool)
        ),
        None,
    )
    if wrong is not None:
        raise TokenizerFormatError(
            f'{what}: "{wrong}" of the added token {content[:40]!r} is {_describe(out[wrong])}; expected true or false'
        )
    if out["id"] is not None and (type(out["id"]) is not int or out["id"] < 0):
        raise TokenizerFormatError(
            f"{what}: the id of the added token {content[:40]!r} is {_describe(out['id'])}; expected a whole number, 0 or more"
        )
    return out


def added_beside(config: Json, added: Json) -> list[tuple[Json, int]]:
    """Return the added tokens of tokenizer_config.json and added_tokens.json with their ids, in the
    order of these.
    """
    found: dict[int, Json] = {}
    decoder = config.get("added_tokens_decoder", {})
    if not isinstance(decoder, dict):
        raise TokenizerFormatError(
            f"tokenizer_config.json: added_tokens_decoder is {_describe(decoder)}; expected an object"
        )
    for key, entry in decoder.items():
        if not (key.isascii() and key.isdigit() and len(key) < 10):
            raise TokenizerFormatError(
                f"tokenizer_config.json: added_tokens_decoder has the id {key[:40]!r}; expected a whole number"
            )
        found[int(key)] = added_token(entry, "tokenizer_config.json")
    for content, token_id in added.items():
        if type(token_id) is not int or token_id < 0:
            raise TokenizerFormatError(
                f"added_tokens.json: the id of {content[:40]!r} is {_describe(token_id)}; expected a whole number"
            )
        found.setdefault(token_id, added_token({"content": content}, "added_tokens.json"))
    return [(found[i], i) for i in sorted(found)]


def read_object(data: bytes | None, what: str) -> Json:
    """Return the JSON object of a file, or an empty one if there is no such file."""
    if data is None:
        return {}
    value = loads(data, what, constants=True)
    if not isinstance(value, dict):
        raise TokenizerFormatError(f"{what} is {_describe(value)}; expected a JSON object")
    return value


def _piece(contents: dict[int, str], pieces: Sequence[str | None], i: int) -> str | None:
    return contents.get(i, pieces[i])


def named_ids(
    role: str,
    beside: Mapping[str, Json],
    added: Mapping[str, int],
    pieces: Sequence[str | None],
) -> dict[int, str] | None:
    """Return the ids with the role "eos" or "bos", each with the file and key that names it; None
    if no file has such a key.

    The keys are eos_token (a token) and eos_token_id (ids), also in the text_config of a model that
    sees images too.
    """
    one, many = role + "_token", role + "_token_id"
    out: dict[int, str] = {}
    silent = True
    for name, whole in beside.items():
        for key, document in (("", whole), ("text_config.", whole.get("text_config"))):
            if not isinstance(document, dict):
                continue
            silent = silent and not {one, many} & set(document)
            token = document.get(one)
            if isinstance(token, dict):
                token = token.get("content")
            if isinstance(token, str) and (token in added or token in pieces):
                place = added[token] if token in added else pieces.index(token)
                out.setdefault(place, f"{key}{one} of {name}")
            ids = document.get(many)
            for i in ids if isinstance(ids, list) else [ids]:
                if type(i) is int:
                    # A model may have more rows than the tokenizer has tokens; -1 means none.
                    if i >= 0:
                        out.setdefault(i, f"{key}{many} of {name}")
                elif i is not None and role == "eos":
                    raise TokenizerFormatError(
                        f"{name}: {key}{many} is {_describe(ids)}; expected an id or a list of ids"
                    )
    return None if silent else out


def _family(kind: str, document: Json, model: Json) -> str:
    if kind != "BPE":
        return kind.lower()
    parts = set().union(
        *[_types(document.get(part)) for part in ("normalizer", "pre_tokenizer", "decoder")]
    )
    return (
        "sentencepiece"
        if "ByteLevel" not in parts and (model.get("byte_fallback") or "Metaspace" in parts)
        else "byte_bpe"
    )


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


def _types(component: Any) -> set[Any]:
    return {part.get("type") for part in _nested(component)}


def _check(document: Json, what: str) -> None:
    """Raise TokenizerFormatError if a component is damaged.

    Those that only encoding needs are compiled when the first text is encoded: what is not
    supported there does not stop a file from being decoded.
    """
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        component = document.get(part)
        fused = False
        for entry in _nested(component):
            if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
                raise TokenizerFormatError(
                    f'{what}: the {part} contains {_describe(entry)}; expected an object with a "type"'
                )
            if entry["type"] == "Sequence" and not any(
                isinstance(entry.get(key), list) for key in _LISTS
            ):
                raise TokenizerFormatError(f"{what}: a Sequence in the {part} has no list of steps")
            wrong = next((key for key in _STRINGS if not isinstance(entry.get(key, ""), str)), None)
            if wrong is not None:
                raise TokenizerFormatError(
                    f'{what}: "{wrong}" of the {part} {entry["type"][:40]} is {_describe(entry[wrong])}; expected a string'
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


def _read_list(document: Json, key: str, what: str) -> list[Any]:
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise TokenizerFormatError(f"{what}: {key} is {_describe(value)}; expected a list")
    return value


def _refuse_surrogates(pieces: Sequence[str | None], what: str) -> None:
    for i, piece in enumerate(pieces):
        try:
            (piece or "").encode()
        except UnicodeEncodeError:
            raise TokenizerFormatError(
                f"{what}: the piece of id {i} contains half a surrogate pair: {piece!r}; remove it"
            ) from None


def _describe(value: Any) -> str:
    """Return a JSON value as an error message shows it, shortened."""
    if value is None:
        return "null"
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    text: str | int = repr(value[:40]) if isinstance(value, str) else type(value).__name__
    return {"dict": "an object", "list": "a list"}.get(str(text), str(text))
