"""Read what a SentencePiece model file says.

In: bytes, a protobuf message (`sentencepiece_model.proto`). Out: a `Model`. Read are the pieces
(field 1) and, of trainer_spec (2), normalizer_spec (3) and denormalizer_spec (5), what encoding and
decoding need.
"""

from array import array
from collections.abc import Mapping
from struct import unpack_from
from typing import Any, NamedTuple

from ..decode.item_stages import byte_of
from ..errors import TokenizerFormatError
from .protobuf import fields

MAX_TOKENS = 1 << 20
MAX_PIECE = 4096
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2
FAMILIES = {UNIGRAM: "unigram", BPE: "sentencepiece", 3: "word", 4: "char"}


class Model(NamedTuple):
    """What a model file says; the names are those of `sentencepiece_model.proto`."""

    pieces: list[str]
    scores: "array[float]"
    types: list[int]
    model_type: int
    byte_fallback: bool
    treat_whitespace_as_suffix: bool
    unk_surface: str
    bos_piece: str
    eos_piece: str
    precompiled_charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool
    escape_whitespaces: bool
    what: str

    @property
    def unk_id(self) -> int:
        """The id of the unknown piece, of which a file has exactly one."""
        return self.types.index(UNKNOWN)

    def control_id(self, piece: str) -> int | None:
        """Return the id of a control piece, None if the model has none that is spelled so."""
        found = [
            i for i, one in enumerate(self.pieces) if one == piece and self.types[i] == CONTROL
        ]
        return found[0] if found else None


def read_model(data: bytes, what: str) -> Model:
    """Return what a model file says; errors call it `what`."""
    pieces: list[str] = []
    scores = array("f")
    types: list[int] = []
    specs: dict[int, dict[int, Any]] = {2: {}, 3: {}, 5: {}}
    for number, value in fields(data, what):
        if number == 1 and isinstance(value, bytes):
            piece, score, kind = _read_piece(value, what)
            pieces.append(piece)
            if len(pieces) > MAX_TOKENS:
                break
            scores.append(score)
            types.append(kind)
        elif number in specs and isinstance(value, bytes):
            specs[number].update(fields(value, what))
    if not 0 < len(pieces) <= MAX_TOKENS:
        raise TokenizerFormatError(
            f"{what} has {len(pieces)} pieces; expected 1 to {MAX_TOKENS}: is it a SentencePiece model?"
        )
    if specs[5].get(2):
        raise TokenizerFormatError(
            f"{what} has a denormalizer, which is not supported; use the model's tokenizer.json"
        )
    model = _model(pieces, scores, types, specs[2], specs[3], what)
    _check(model)
    return model


def _model(
    pieces: list[str],
    scores: "array[float]",
    types: list[int],
    trainer: Mapping[int, Any],
    normalizer: Mapping[int, Any],
    what: str,
) -> Model:
    """Return the model with its settings; the defaults are those of the .proto file."""

    def text(number: int, default: str) -> str:
        return _text(trainer.get(number, default.encode()), what)

    def flag(spec: Mapping[int, Any], number: int, default: bool) -> bool:
        return bool(spec.get(number, default))

    charsmap = normalizer.get(2, b"")
    return Model(
        pieces,
        scores,
        types,
        trainer.get(3, UNIGRAM),
        flag(trainer, 35, False),
        flag(trainer, 24, False),
        text(44, " \u2047 "),
        text(46, "<s>"),
        text(47, "</s>"),
        charsmap if isinstance(charsmap, bytes) else b"",
        flag(normalizer, 3, True),
        flag(normalizer, 4, True),
        flag(normalizer, 5, True),
        what,
    )


def _read_piece(data: bytes, what: str) -> tuple[str, float, int]:
    """Return the text, score and type of a piece."""
    size = data[1] if len(data) > 1 else 0
    if data[:1] == b"\x0a" and size < 128 and len(data) == size + 7 and data[size + 2] == 0x15:
        inner: dict[int, Any] = {1: data[2 : size + 2], 2: unpack_from("<f", data, size + 3)[0]}
    else:
        inner = dict(fields(data, what))
    score, kind = inner.get(2, 0.0), inner.get(3, NORMAL)
    piece = _text(inner.get(1, b""), what)
    if not piece or len(piece) > MAX_PIECE or not isinstance(score, float):
        raise TokenizerFormatError(
            f"{what} has a piece {piece[:40]!r} of {len(piece)} characters and score {score!r:.40}; "
            f"expected 1 to {MAX_PIECE} characters and a number"
        )
    return piece, score, kind


def _text(value: Any, what: str) -> str:
    try:
        return str(value, "utf-8")
    except (TypeError, UnicodeDecodeError):
        raise TokenizerFormatError(f"{what} has a text that is not UTF-8: {value!r:.60}") from None


def _check(model: Model) -> None:
    """Raise TokenizerFormatError if a model breaks a rule that the library checks at load."""
    what = model.what
    if model.model_type not in FAMILIES:
        raise TokenizerFormatError(
            f"{what} is of model type {model.model_type!r:.20}; expected 1 (unigram), 2 (BPE), 3 (word) or 4 (char)"
        )
    if model.types.count(UNKNOWN) != 1:
        raise TokenizerFormatError(
            f"{what} has {model.types.count(UNKNOWN)} unknown pieces; expected one"
        )
    if set(model.types) - {NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE}:
        raise TokenizerFormatError(f"{what} has a piece of an unknown type; expected types 1 to 6")
    if not all(abs(score) < 3e38 for score in model.scores):
        raise TokenizerFormatError(f"{what} has a score that is not a finite number")
    if len(set(model.pieces)) < len(model.pieces):
        twice = next(
            piece for i, piece in enumerate(model.pieces) if model.pieces.index(piece) != i
        )
        raise TokenizerFormatError(f"{what} has the piece {twice[:40]!r} twice; expected each once")
    bytes_of = [byte_of(piece) for piece, kind in zip(model.pieces, model.types) if kind == BYTE]
    if bytes_of and (not model.byte_fallback or sorted(bytes_of) != list(range(256))):
        raise TokenizerFormatError(
            f"{what} has {len(bytes_of)} byte pieces; expected <0x00> to <0xFF>, and byte_fallback"
        )
