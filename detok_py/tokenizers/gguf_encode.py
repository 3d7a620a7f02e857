"""How llama.cpp encodes with the vocabulary of a GGUF file.

In: what `gguf` read. Out: the function that encodes. Special tokens are cut out first, the longest before the others; the text between
goes through the patterns that "tokenizer.ggml.pre" names, and then the algorithm of the model. Which patterns and switches go with a name,
and the order of things, are those of llama.cpp's `src/llama-vocab.cpp` (`load`, `tokenize`, `tokenizer_st_partition`). Where llama.cpp
had to rewrite a model's own pattern, because its regular expressions lack a class (gpt-4o, tekken), the model's own is used, so that GGUF
and tokenizer.json of one model agree.
"""

from array import array
from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import TokenizerFormatError
from .known_patterns import CL100K, GPT2, O200K, QWEN
from .tokenizer import Encode

if TYPE_CHECKING:
    from .gguf import Strings

SPACE = "▁"


class Pre(NamedTuple):
    """What a pre-tokenizer's name stands for. `mapped`: pieces are bytes in GPT-2's letters, else text with ▁ for the space."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    mapped: bool = True


def _class(ranges: str) -> str:
    """Return the inside of a character class, from ranges in hexadecimal."""
    return "".join(["-".join([chr(int(end, 16)) for end in part.split("-")]) for part in ranges.split()])


_TEKKEN = O200K.replace(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
_CASED = _class(
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C 38E-3A1 3A3-3F5 3F7-481 "
    "48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 "
    "1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC "
    "1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 "
    "2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 "
    "FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943"
)
_CJK = "[" + _class("4E00-9FA5 800-4E00 AC00-D7FF") + "]+"
_CJK_KANA = "[" + _class("4E00-9FA5 3040-309F 30A0-30FF") + "]+"
_PUNCTUATED = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SEED = QWEN.replace(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}\r\n]+")
_QWEN35 = QWEN.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+")
_GPT2 = Pre((GPT2,))
_DIGITS = Pre((r"\p{N}", GPT2))
_LLAMA3 = Pre((CL100K,), ignore_merges=True, add_bos=True)
_DEEPSEEK3 = Pre((r"\p{N}{1,3}", _CJK_KANA, _PUNCTUATED))
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_LINES = r"[^\n]+|[\n]+"

PRE: dict[str, Pre] = {
    "default": Pre((r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    **dict.fromkeys(["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"], _LLAMA3),
    **dict.fromkeys(["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], Pre((CL100K,))),
    "minicpm5": Pre((r"\p{N}{1,3}", CL100K.replace(r"\p{N}{1,3}", r"\p{N}+")), ignore_merges=True),
    "deepseek-llm": Pre(
        (r"[\r\n]", rf"\s?[{_CASED}]+", rf"\s?[{_class('21-2F 3A-7E FF01-FF0F FF1A-FF5E 2018-201F 3000-3002')}]+", r"\s+$", _CJK, r"\p{N}+")
    ),
    "deepseek-coder": Pre((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
    **dict.fromkeys(["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], _DEEPSEEK3),
    "spark2_5": Pre((r"\p{N}{1,3}", _CJK_KANA, _PUNCTUATED.replace(r"[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+", r"[\p{P}\p{S}]+|[\r\n]"), r"\p{N}")),
    "falcon": Pre((r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]")),
    **dict.fromkeys(["starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"], _DIGITS),
    **dict.fromkeys(
        ["gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert"], _GPT2
    ),
    **dict.fromkeys(["mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4", "jina-v1-en", "jina-v2-code", "roberta-bpe"], _GPT2),
    **dict.fromkeys(
        ["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2"], Pre((QWEN,))
    ),
    "qwen35": Pre((_QWEN35,)),
    "laguna": Pre((_LINES, QWEN)),
    "ufakzeka": Pre((QWEN.removeprefix("(?i:'s|'t|'re|'ve|'m|'ll|'d)|"),)),
    **dict.fromkeys(["bailingmoe", "bailingmoe2", "llada-moe"], Pre((QWEN.replace(r"\s*[\r\n]+", r"\s*[\r\n]"),))),
    "seed-coder": Pre((_SEED,)),
    **dict.fromkeys(["bloom", "gpt3-finnish", "poro-chat"], Pre((_BLOOM,))),
    "viking": Pre((_BLOOM, r"\p{N}")),
    "tekken": Pre((_TEKKEN,), ignore_merges=True, add_bos=True),
    **dict.fromkeys(["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], Pre((O200K,))),
    "granite-embed-multi-97m": Pre((O200K,), ignore_merges=True),
    **dict.fromkeys(["gemma4", "granite-embed-multi-311m"], Pre((_LINES,), add_bos=True, mapped=False)),
    "sarvam-moe": Pre((_LINES,), mapped=False),
}


def encoder(
    model: str, pre: Pre, metadata: dict[str, Any], tokens: "Strings", types: "array[int]", roles: dict[str, int], what: str
) -> Encode:
    """Return the function that encodes; see `Tokenizer.encode`."""
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
        after_special = True  # a text's beginning counts as the end of a special token: that is where a space is put in front
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
    """What was read of a GGUF file."""

    pre: Pre
    metadata: dict[str, Any]
    pieces: list[str]
    types: "array[int]"
    roles: dict[str, int]
    what: str

    def flag(self, key: str, default: bool) -> bool:
        """Return a switch of the file."""
        value = self.metadata.get("tokenizer.ggml." + key, default)
        if not isinstance(value, bool):
            raise TokenizerFormatError(f'{self.what}: "tokenizer.ggml.{key}" is {value!r:.40}; expected a bool')
        return value

    def around(self, role: str, wanted: bool) -> list[int]:
        """Return the id that stands at an end of a text, if it is wanted and there is one."""
        return [self.roles[role]] if wanted and role in self.roles else []

    def ids(self) -> dict[str, int]:
        """Return the id of each piece, the lowest where a piece comes twice."""
        return {piece: i for i, piece in reversed(list(enumerate(self.pieces)))}

    def scores(self) -> "array[Any] | None":
        """Return the score of each piece."""
        from .gguf import token_numbers

        scores = token_numbers(self.metadata, "scores", "fi", len(self.pieces), self.what)
        if scores is not None and not isfinite(sum(map(abs, scores))):
            raise TokenizerFormatError(f"{self.what} has a score that is not a number that can be reckoned with")
        return scores and scores[: len(self.pieces)]


# text of a fragment, whether it comes after a special token → ids; and the ids in front of and behind a text
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
    from .gguf import Strings
    from .pretokenize import compile_pretokenizer

    merges = file.metadata.get("tokenizer.ggml.merges")
    if not isinstance(merges, Strings):
        raise TokenizerFormatError(f'{file.what} has no "tokenizer.ggml.merges", without which nothing can be encoded')
    pairs = []
    for i in range(len(merges)):
        left, space, right = merges[i].partition(b" ")
        if not (left and space and right):
            raise TokenizerFormatError(f"{file.what}: merge {i} is {merges[i][:40]!r}; expected two pieces with a space between")
        pairs.append((left.decode("utf-8", "replace"), right.decode("utf-8", "replace")))
    bpe = BytePairEncoder(file.ids(), pairs, byte_fallback=not file.pre.mapped, ignore_merges=file.pre.ignore_merges)
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False} for pattern in file.pre.patterns
    ]
    if file.pre.mapped:
        steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    cut = compile_pretokenizer({"type": "Sequence", "pretokenizers": steps})

    def encode(text: str, after_special: bool) -> list[int]:
        return bpe.encode_all(cut(text if file.pre.mapped else text.replace(" ", SPACE)))

    add_bos = file.pre == PRE["gemma4"] or file.flag("add_bos_token", file.pre.add_bos)
    return encode, file.around("bos_token_id", add_bos), file.around("eos_token_id", file.flag("add_eos_token", False))


def _bert(file: _File) -> _Model:
    from .normalize import compile_normalizer
    from .pretokenize import compile_pretokenizer
    from .wordpiece import WordPieceEncoder

    lower = file.flag("normalizer.lowercase", True)
    accents = file.flag("normalizer.strip_accents", lower)
    normalize = compile_normalizer(
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": accents, "lowercase": lower}
    )
    cut = compile_pretokenizer({"type": "BertPreTokenizer"})
    unknown = file.roles.get("unknown_token_id")
    words = WordPieceEncoder(file.ids(), None if unknown is None else file.pieces[unknown], "", None, phantom_space=SPACE)

    def encode(text: str, after_special: bool) -> list[int]:
        return words.encode_all(cut(normalize(text)))

    return encode, file.around("bos_token_id", True), file.around("seperator_token_id", True)


def _t5(file: _File) -> _Model:
    from .gguf import NORMAL, UNUSED, USER_DEFINED
    from .normalize import precompiled
    from .unigram import UnigramEncoder

    scores = file.scores()
    if scores is None:
        raise TokenizerFormatError(f'{file.what} has no "tokenizer.ggml.scores", without which nothing can be encoded')
    # Control and unknown tokens are no part of a text; what a user defined always wins.
    vocab = [
        (piece, 0.0 if kind == USER_DEFINED else float(score)) if kind in (NORMAL, UNUSED, USER_DEFINED) else ("", 0.0)
        for piece, kind, score in zip(file.pieces, file.types, scores)
    ]
    unigram = UnigramEncoder(vocab, file.roles.get("unknown_token_id"))
    charsmap = file.metadata.get("tokenizer.ggml.precompiled_charsmap")
    if charsmap is not None and not (isinstance(charsmap, array) and charsmap.itemsize == 1):
        raise TokenizerFormatError(f'{file.what}: "tokenizer.ggml.precompiled_charsmap" is not an array of bytes')
    normalize = precompiled(charsmap.tobytes()) if charsmap else str
    prefix, squeeze = file.flag("add_space_prefix", False), file.flag("remove_extra_whitespaces", False)

    def encode(text: str, after_special: bool) -> list[int]:
        text = normalize(text)
        if squeeze:
            words = [word for word in text.split(" ") if word]
            text = SPACE + SPACE.join(words) if words else ""
        else:
            # The space that is put in front comes before the first character that isn't a space.
            bare = text.lstrip(" ")
            text = (text[: len(text) - len(bare)] + (" " if prefix and bare else "") + bare).replace(" ", SPACE)
        return unigram.encode(text)

    return (
        encode,
        file.around("bos_token_id", file.flag("add_bos_token", False)),
        file.around("eos_token_id", file.flag("add_eos_token", True)),
    )


class Special(NamedTuple):
    """A token that is cut out of a text: whether it takes the white space beside it along, and whether only on being asked for."""

    text: str
    id: int
    control: bool
    lstrip: bool = False
    rstrip: bool = False


def _special_tokens(file: _File) -> list[Special]:
    """Return the tokens to be cut out of a text, the longest first.

    GGUF doesn't say which of them take white space along; llama.cpp knows it of a few models by their names.
    """
    from .gguf import CONTROL, UNKNOWN, USER_DEFINED

    name, architecture = str(file.metadata.get("general.name", "")).lower(), file.metadata.get("general.architecture")
    jina = str(file.metadata.get("tokenizer.ggml.pre", "")) in ("jina-v2-de", "jina-v2-es", "jina-v2-code")
    mask = "<mask>" if jina or architecture in ("nomic-bert-moe", "jina-bert-v3") else "[MASK]" if "modern-bert" in name else None
    phi3 = mask is None and ("phi-3" in name or "phi3" in name)
    out = []
    for i, kind in enumerate(file.types):
        if kind in (CONTROL, UNKNOWN, USER_DEFINED) and file.pieces[i]:
            rstrip = phi3 and file.pieces[i] not in ("<unk>", "<s>", "<|endoftext|>")
            out.append(Special(file.pieces[i], i, kind != USER_DEFINED, file.pieces[i] == mask, rstrip))
    return sorted(out, key=lambda special: -len(special.text.encode()))


def _partition(text: str, special: list[Special], parse_special: bool) -> list[str | int]:
    """Return the text cut at its special tokens: texts and ids."""
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
