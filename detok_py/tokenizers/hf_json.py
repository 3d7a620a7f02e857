"""Read Hugging Face's tokenizer.json, alone or in its folder.

In: bytes. Out: a `Tokenizer` that encodes and decodes as the `tokenizers` library (0.23) does with
the same file.

The merges are two thirds of a large file, and only an encoder needs them. They are cut out before
the rest is parsed, and kept as bytes. Added tokens get the ids that `tokenizers` gives them, which
can differ from those in the file (see `number_added` in hf_added).
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..decode.vocabulary import Vocabulary
from ..errors import TokenizerFormatError
from .hf_added import added_beside, added_token, all_numbered, decoded_texts
from .hf_document import (
    Json,
    check,
    describe,
    model_type,
    parse_document,
    pieces_of,
    read_list,
    read_merges,
    refuse_surrogates,
    scored_pieces,
    types_in,
)
from .strict_json import loads
from .tokenizer import BEGINS, Encode, Tokenizer, ends_by_name

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
    document, cut = parse_document(data, what)
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
        raise TokenizerFormatError(f'{what}: "model" is {describe(model)}; expected an object')
    check(document, what)
    kind = model_type(model, what)
    scores: array[float] | None = None
    if kind == "Unigram":
        pieces, scores = scored_pieces(model, what)
    else:
        pieces = pieces_of(model, len(data), what)
    merges = merges if merges is not None else model.get("merges")
    # The parsed tables take three times the memory of the pieces, and are not needed from here on.
    model = document["model"] = {
        key: value for key, value in model.items() if key not in ("vocab", "merges")
    }

    added = [added_token(entry, what) for entry in read_list(document, "added_tokens", what)]
    special = {entry["content"] for entry in (*added, *more_added) if entry["special"]}
    numbered = all_numbered(pieces, added, more_added)
    shown = decoded_texts(numbered, document.get("normalizer"), what)
    hidden = {i: pieces[i] if i < len(pieces) else None for i in shown}
    pieces.extend([None] * (max(shown, default=0) + 1 - len(pieces)))
    for token_id, piece in shown.items():
        pieces[token_id] = piece
    refuse_surrogates(data, pieces, what)

    # `tokenizers` skips special tokens by the text they decode to: a token whose text a normalizer
    # changes is not skipped, and two ids with the text of a special token are both skipped.
    candidates = shown if scores is None else range(len(pieces))
    special_ids = [i for i in candidates if pieces[i] in special]
    added_ids = {entry["content"]: i for entry, i in numbered}
    eos_ids, begins = _ends_and_begins(beside or {}, added_ids, special, pieces)
    decoder = document.get("decoder")
    vocabulary = Vocabulary.from_pieces(pieces, decoder, special_ids, added_ids=shown)
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
        piece_of=partial(piece_of, contents, pieces),
    )


def _ends_and_begins(
    beside: Mapping[str, Json],
    added: Mapping[str, int],
    special: set[str],
    pieces: Sequence[str | None],
) -> tuple[dict[int, str], dict[int, str]]:
    """Return the ids that end and that begin a text, by the files beside or else by their names."""
    ends = named_ids("eos", beside, added, pieces)
    if ends is None:
        names = {name: i for name, i in added.items() if name in special}
        ends = dict.fromkeys(sorted(ends_by_name(names)), "its name")
    begins = named_ids("bos", beside, added, pieces)
    if begins is None:
        begins = {added[name]: name for name in BEGINS if name in added}
    return ends, begins


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
    """Return the encoder of a tokenizer.json: a function, so that a Tokenizer pickles."""
    from .hf_encode import encoder

    table = list(pieces)
    for token_id, piece in hidden.items():
        table[token_id] = piece
    try:
        raw = loads(merges, "merges") if isinstance(merges, bytes) else merges
        pairs = read_merges(raw if kind == "BPE" else None)
        return encoder(kind, document, table, scores, pairs, numbered, special)
    except TokenizerFormatError as error:
        raise TokenizerFormatError(f"{what} can be decoded, but not encoded: {error}") from None


def read_object(data: bytes | None, what: str) -> Json:
    """Return the JSON object of a file, or an empty one if there is no such file."""
    if data is None:
        return {}
    value = loads(data, what, constants=True)
    if not isinstance(value, dict):
        raise TokenizerFormatError(f"{what} is {describe(value)}; expected a JSON object")
    return value


def piece_of(contents: Mapping[int, str], pieces: Sequence[str | None], i: int) -> str | None:
    """Return a token as it is spelled in its file: an added one, or a piece of the model."""
    return contents.get(i, pieces[i] if i < len(pieces) else None)


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
                        f"{name}: {key}{many} is {describe(ids)}; expected an id or a list of ids"
                    )
    return None if silent else out


def _family(kind: str, document: Json, model: Json) -> str:
    if kind != "BPE":
        return kind.lower()
    parts = set().union(
        *[types_in(document.get(part)) for part in ("normalizer", "pre_tokenizer", "decoder")]
    )
    is_text = "ByteLevel" not in parts and (model.get("byte_fallback") or "Metaspace" in parts)
    return "sentencepiece" if is_text else "byte_bpe"
