"""Read SentencePiece's own files: tokenizer.model, spiece.model, *.model.

In: bytes. Out: a `Tokenizer` that encodes and decodes as the `sentencepiece` library does with the
same file.

A folder's added tokens (tokenizer_config.json, added_tokens.json) are added with the ids that they
have there. An id that is another piece of the model is an error: the library of such a model gives
its pieces other ids than the file does.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ..decode.vocabulary import Vocabulary
from ..errors import TokenizerFormatError
from .hf_document import Json
from .hf_json import named_ids, piece_of, read_beside
from .spm_file import BYTE, CONTROL, FAMILIES, MAX_TOKENS, Model, read_model
from .tokenizer import Encode, Tokenizer


def read(data: bytes, what: str, content: Callable[[str], bytes | None], folder: bool) -> Tokenizer:
    """Return the tokenizer of a model file, or of a folder that has one.

    `content` returns the bytes of another file of its folder. Raises TokenizerFormatError if the
    file is damaged, or if its folder gives its ids other pieces.
    """
    model = read_model(data, what)
    beside, found = read_beside(content, folder)
    config = beside["tokenizer_config.json"]
    table, literal, special = _table(model, found)
    decoder = {"type": "SentencePiece", "strip": _strip(model)}
    bos, eos = (model.control_id(piece) for piece in (model.bos_piece, model.eos_piece))
    contents = {entry["content"]: i for entry, i in found}
    ends = named_ids("eos", beside, contents, model.pieces)
    if ends is None:
        ends = {} if eos is None else {eos: f"eos_piece of {what}"}
    begins = named_ids("bos", beside, contents, model.pieces)
    bos = next(iter(begins), None) if begins is not None else bos
    around = (
        [bos] if bos is not None and config.get("add_bos_token", True) is True else [],
        list(ends)[:1] if config.get("add_eos_token", False) is True else [],
    )
    known = {i: (entry, i) for entry, i in found}
    for i in special - set(known):
        known[i] = ({"content": model.pieces[i], "special": True, "normalized": False}, i)
    return Tokenizer(
        FAMILIES[model.model_type],
        Vocabulary.from_pieces(
            table, decoder, special, literal_ids=literal, added_ids=special | literal
        ),
        partial(_make_encode, model, list(known.values()), around),
        eos_ids=ends,
        whole_runs=True,
        bos_id=bos,
        piece_of=partial(piece_of, {i: entry["content"] for entry, i in found}, model.pieces),
    )


def _table(
    model: Model, found: Sequence[tuple[Json, int]]
) -> tuple[list[str | None], set[int], set[int]]:
    """Return the piece of each id as it decodes, the ids that decode literally, the special ids."""
    size = len(model.pieces)
    table: list[str | None] = list(model.pieces)
    special = {i for i, kind in enumerate(model.types) if kind == CONTROL}
    unknown = model.unk_id
    for entry, i in found:
        if i < size and model.pieces[i] != entry["content"]:
            raise TokenizerFormatError(
                f"{model.what}: id {i} is {model.pieces[i]!r}, but {entry['content']!r} in the files beside it, "
                "whose library numbers the pieces otherwise; pass the model's tokenizer.json"
            )
        if i >= size + MAX_TOKENS:
            raise TokenizerFormatError(
                f"{model.what}: the added token {entry['content'][:40]!r} has the id {i}; expected ids below {size + MAX_TOKENS}"
            )
        table += [None] * (i + 1 - len(table))
        table[i] = entry["content"]
        if entry["special"] and i != unknown:
            special.add(i)
    table[unknown] = model.unk_surface
    literal = special | {unknown, *(i for _, i in found)}
    # Only pieces of type byte are bytes; others may be spelled like them.
    pairs = zip(model.pieces, model.types)
    like = {i for i, (one, kind) in enumerate(pairs) if kind != BYTE and one[:3] == "<0x"}
    return table, literal | like, special


def _strip(model: Model) -> str:
    if model.remove_extra_whitespaces:
        return "all"
    return "one" if model.add_dummy_prefix else "none"


def _make_encode(
    model: Model, known: list[tuple[Json, int]], around: tuple[list[int], list[int]]
) -> Encode:
    from .spm_encode import encoder

    try:
        return encoder(model, known, around)
    except TokenizerFormatError as error:
        raise TokenizerFormatError(
            f"{model.what} can be decoded, but not encoded: {error}"
        ) from None
