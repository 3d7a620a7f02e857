"""Encode a text as llama.cpp does, with the vocabulary of a GGUF file.

In: the key-values of the file. Out: the function that encodes. It splits the text at special
tokens, longest tokens first. The text between them is split by the patterns of "tokenizer.ggml.pre"
and then encoded by the model's algorithm. All this follows llama.cpp's `src/llama-vocab.cpp`
(`load`, `tokenize`, `tokenizer_st_partition`).

The algorithms are imported by the models that use them: the compiler of patterns
alone takes more time to import than the rest of this package.
"""

from array import array
from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple

from ..errors import TokenizerFormatError
from .gguf_file import CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, Strings, token_numbers
from .gguf_pre import PRE, Pre
from .tokenizer import Encode

SPACE = "▁"


def encoder(
    model: str,
    pre: Pre | None,
    metadata: dict[str, Any],
    tokens: Strings,
    types: "array[int]",
    roles: dict[str, int],
    what: str,
) -> Encode:
    """Return the function that encodes; see `Tokenizer.encode`."""
    if pre is None:
        name = str(metadata["tokenizer.ggml.pre"])[:40]
        raise TokenizerFormatError(
            f"{what} can be decoded, but not encoded: the pre-tokenizer {name!r} is not supported; supported: {', '.join(sorted(PRE))}"
        )
    try:
        pieces = [tokens[i].decode() for i in range(len(tokens))]
    except UnicodeDecodeError as error:
        raise TokenizerFormatError(
            f"{what} has a token that is not UTF-8, and can't encode: {error.reason} in {error.object[:40]!r}"
        ) from None
    file = _File(pre, metadata, pieces, types, roles, what)
    special = _special_tokens(file)
    encode_text, first, last = {"llama": _llama, "bert": _bert, "t5": _t5}.get(model, _gpt2)(file)

    def encode(text: str, add_special_tokens: bool, parse_special: bool) -> list[int]:
        out = list(first) if add_special_tokens else []
        # A space may be added in front of the text that follows a special token, and at the very
        # beginning.
        after_special = True
        for part in _partition(text, special, parse_special):
            if isinstance(part, str):
                out += encode_text(part, after_special)
                after_special = False
            else:
                out.append(part)
                after_special = True
        if add_special_tokens:
            out += last
        return out

    return encode


class _File(NamedTuple):
    """What encoding needs of a GGUF file."""

    pre: Pre
    metadata: dict[str, Any]
    pieces: list[str]
    types: "array[int]"
    roles: dict[str, int]
    what: str

    def flag(self, key: str, default: bool) -> bool:
        """Return the bool that the file has for `key`, or `default`."""
        value = self.metadata.get("tokenizer.ggml." + key, default)
        if not isinstance(value, bool):
            raise TokenizerFormatError(
                f'{self.what}: "tokenizer.ggml.{key}" is {value!r:.40}; expected a bool'
            )
        return value

    def around(self, role: str, wanted: bool) -> list[int]:
        """Return the id that has `role`, in a list; an empty list if it is not wanted or
        not known.
        """
        return [self.roles[role]] if wanted and role in self.roles else []

    def ids(self) -> dict[str, int]:
        """Return the id of each piece: the lowest id if a piece occurs twice."""
        return {piece: i for i, piece in reversed(list(enumerate(self.pieces)))}

    def scores(self) -> "array[Any] | None":
        """Return the score of each piece, or None if the file has no scores."""
        scores = token_numbers(self.metadata, "scores", "fi", len(self.pieces), self.what)
        if scores is not None and not isfinite(sum(map(abs, scores))):
            raise TokenizerFormatError(f"{self.what} has a score that is not a finite number")
        return scores and scores[: len(self.pieces)]


# A function from a text, and whether it follows a special token, to ids. Then the ids before and
# after a whole text.
_Model = tuple[Callable[[str, bool], list[int]], list[int], list[int]]


def _llama(file: _File) -> _Model:
    from .sentencepiece import ScoreMerger

    scores = file.scores() or array("f", bytes(4 * len(file.pieces)))
    merger = ScoreMerger(file.pieces, scores, unk_id=file.roles.get("unknown_token_id"))
    prefix = file.flag("add_space_prefix", True)

    def encode(text: str, after_special: bool) -> list[int]:
        return merger.encode((SPACE if prefix and after_special else "") + text.replace(" ", SPACE))

    return (
        encode,
        file.around("bos_token_id", file.flag("add_bos_token", True)),
        file.around("eos_token_id", file.flag("add_eos_token", False)),
    )


def _gpt2(file: _File) -> _Model:
    from .byte_bpe import BytePairEncoder
    from .pretokenize import compile_pretokenizer

    merges = file.metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, Strings):
        raise TokenizerFormatError(
            f'{file.what} has no "tokenizer.ggml.merges"; encoding needs them'
        )
    pairs = []
    for i in range(len(merges)):
        left, space, right = merges[i].partition(b" ")
        if not (left and space and right):
            raise TokenizerFormatError(
                f"{file.what}: merge {i} is {merges[i][:40]!r}; expected two pieces separated by a space"
            )
        pairs.append((left.decode("utf-8", "replace"), right.decode("utf-8", "replace")))
    bpe = BytePairEncoder(
        file.ids(), pairs, byte_fallback=not file.pre.mapped, ignore_merges=file.pre.ignore_merges
    )
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
        for pattern in file.pre.patterns
    ]
    if file.pre.mapped:
        steps.append({"type": "ByteLevel", "add_prefix_space": False, "use_regex": False})
    cut = compile_pretokenizer({"type": "Sequence", "pretokenizers": steps})

    def encode(text: str, after_special: bool) -> list[int]:
        return bpe.encode_all(cut(text if file.pre.mapped else text.replace(" ", SPACE)))

    add_bos = file.pre == PRE["gemma4"] or file.flag("add_bos_token", file.pre.add_bos)
    return (
        encode,
        file.around("bos_token_id", add_bos),
        file.around("eos_token_id", file.flag("add_eos_token", False)),
    )


def _bert(file: _File) -> _Model:
    from .normalize import compile_normalizer
    from .pretokenize import compile_pretokenizer
    from .wordpiece import WordPieceEncoder

    lower = file.flag("normalizer.lowercase", True)
    accents = file.flag("normalizer.strip_accents", lower)
    normalize = compile_normalizer(
        {"type": "BertNormalizer", "strip_accents": accents, "lowercase": lower}
    )
    cut = compile_pretokenizer({"type": "BertPreTokenizer"})
    unknown = file.roles.get("unknown_token_id")
    words = WordPieceEncoder(
        file.ids(), None if unknown is None else file.pieces[unknown], "", None, phantom_space=SPACE
    )

    def encode(text: str, after_special: bool) -> list[int]:
        return words.encode_all(cut(normalize(text)))

    return encode, file.around("bos_token_id", True), file.around("seperator_token_id", True)


def _t5(file: _File) -> _Model:
    from .normalize import precompiled
    from .unigram import UnigramEncoder

    scores = file.scores()
    if scores is None:
        raise TokenizerFormatError(
            f'{file.what} has no "tokenizer.ggml.scores"; encoding needs them'
        )
    # Control and unknown tokens never match text. User-defined tokens always win.
    vocab = [
        (piece, 0.0 if kind == USER_DEFINED else float(score))
        if kind in (NORMAL, UNUSED, USER_DEFINED)
        else ("", 0.0)
        for piece, kind, score in zip(file.pieces, file.types, scores)
    ]
    unigram = UnigramEncoder(vocab, file.roles.get("unknown_token_id"))
    charsmap = file.metadata.get("tokenizer.ggml.precompiled_charsmap")
    if charsmap is not None and not (isinstance(charsmap, array) and charsmap.itemsize == 1):
        raise TokenizerFormatError(
            f'{file.what}: "tokenizer.ggml.precompiled_charsmap" is not an array of bytes'
        )
    normalize = precompiled(charsmap.tobytes()) if charsmap else str
    prefix = file.flag("add_space_prefix", False)
    squeeze = file.flag("remove_extra_whitespaces", False)

    def encode(text: str, after_special: bool) -> list[int]:
        text = normalize(text)
        if squeeze:
            words = [word for word in text.split(" ") if word]
            text = SPACE + SPACE.join(words) if words else ""
        else:
            # The added space goes before the first character that is not a space.
            bare = text.lstrip(" ")
            before = text[: len(text) - len(bare)] + (" " if prefix and bare else "")
            text = (before + bare).replace(" ", SPACE)
        return unigram.encode(text)

    return (
        encode,
        file.around("bos_token_id", file.flag("add_bos_token", False)),
        file.around("eos_token_id", file.flag("add_eos_token", True)),
    )


class Special(NamedTuple):
    """A token that a text is split at.

    A `control` token matches only with `parse_special`. With `lstrip` or `rstrip`, white space on
    that side belongs to the token.
    """

    text: str
    id: int
    control: bool
    lstrip: bool
    rstrip: bool


def _special_tokens(file: _File) -> list[Special]:
    """Return the tokens that a text is split at, longest first.

    GGUF has no field for `lstrip` and `rstrip`. llama.cpp recognises the few models that have them
    by name.
    """
    name = str(file.metadata.get("general.name", "")).lower()
    architecture = file.metadata.get("general.architecture")
    jina = str(file.metadata.get("tokenizer.ggml.pre", "")) in (
        "jina-v2-de",
        "jina-v2-es",
        "jina-v2-code",
    )
    mask = "[MASK]" if "modern-bert" in name else None
    if jina or architecture in ("nomic-bert-moe", "jina-bert-v3"):
        mask = "<mask>"
    phi3 = mask is None and ("phi-3" in name or "phi3" in name)
    out = []
    for i, kind in enumerate(file.types):
        if kind in (CONTROL, UNKNOWN, USER_DEFINED) and file.pieces[i]:
            rstrip = phi3 and file.pieces[i] not in ("<unk>", "<s>", "<|endoftext|>")
            out.append(
                Special(file.pieces[i], i, kind != USER_DEFINED, file.pieces[i] == mask, rstrip)
            )
    return sorted(out, key=lambda special: -len(special.text.encode()))


def _partition(text: str, special: list[Special], parse_special: bool) -> list[str | int]:
    """Return the text split at its special tokens: texts and ids in their order."""
    parts: list[str | int] = [text] if text else []
    for token in special:
        if token.text not in text or (token.control and not parse_special):
            continue
        cut: list[str | int] = []
        for part in parts:
            if not isinstance(part, str) or token.text not in part:
                cut.append(part)
                continue
            between = part.split(token.text)
            for i, piece in enumerate(between):
                if i > 0:
                    cut.append(token.id)
                    piece = piece.lstrip(" \t\n\v\f\r") if token.rstrip else piece
                if token.lstrip and i < len(between) - 1:
                    piece = piece.rstrip(" \t\n\v\f\r")
                if piece:
                    cut.append(piece)
        parts = cut
    return parts
