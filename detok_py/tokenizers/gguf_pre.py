"""The pre-tokenizers that GGUF files name in "tokenizer.ggml.pre".

In: a name. Out: the patterns that split a text into words, and the switches that depend on the
name. Both are those of llama.cpp's `src/llama-vocab.cpp` (`load`). llama.cpp had to rewrite the
patterns of some models (gpt-4o, tekken), because its regular expressions lack a class. Here these
models have their original patterns, so that the GGUF and the tokenizer.json of a model agree.
"""

from typing import NamedTuple

from ..patterns.known import CL100K, GPT2, O200K, QWEN


class Pre(NamedTuple):
    """The patterns and switches of a pre-tokenizer.

    If `mapped`, pieces are written in GPT-2's byte alphabet. Otherwise they are text, with ▁ for a
    space.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    mapped: bool = True


def _class(ranges: str) -> str:
    """Return ranges in hexadecimal as the content of a character class."""
    return "".join(
        ["-".join([chr(int(end, 16)) for end in part.split("-")]) for part in ranges.split()]
    )


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
_PUNCTUATED = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SEED = QWEN.replace(r" ?[^\s\p{L}\p{N}]+[\r\n]*", r" ?[^\s\p{L}\p{N}\r\n]+")
_QWEN35 = QWEN.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(
    r"[^\s\p{L}\p{N}]+", r"[^\s\p{L}\p{M}\p{N}]+"
)
_GPT2 = Pre((GPT2,))
_DIGITS = Pre((r"\p{N}", GPT2))
_LLAMA3 = Pre((CL100K,), ignore_merges=True, add_bos=True)
_DEEPSEEK3 = Pre((r"\p{N}{1,3}", _CJK_KANA, _PUNCTUATED))
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_LINES = r"[^\n]+|[\n]+"

PRE: dict[str, Pre] = {
    "default": Pre((r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    **dict.fromkeys(
        [
            "llama3",
            "llama-v3",
            "llama-bpe",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        _LLAMA3,
    ),
    **dict.fromkeys(["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], Pre((CL100K,))),
    "minicpm5": Pre((r"\p{N}{1,3}", CL100K.replace(r"\p{N}{1,3}", r"\p{N}+")), ignore_merges=True),
    "deepseek-llm": Pre(
        (
            r"[\r\n]",
            rf"\s?[{_CASED}]+",
            rf"\s?[{_class('21-2F 3A-7E FF01-FF0F FF1A-FF5E 2018-201F 3000-3002')}]+",
            r"\s+$",
            _CJK,
            r"\p{N}+",
        )
    ),
    "deepseek-coder": Pre((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
    **dict.fromkeys(["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], _DEEPSEEK3),
    "spark2_5": Pre(
        (
            r"\p{N}{1,3}",
            _CJK_KANA,
            _PUNCTUATED.replace(r"[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+", r"[\p{P}\p{S}]+|[\r\n]"),
            r"\p{N}",
        )
    ),
    "falcon": Pre((r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]")),
    **dict.fromkeys(
        [
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        _DIGITS,
    ),
    **dict.fromkeys(
        [
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "gigachat",
            "jina-v2-es",
            "jina-v2-de",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
        ],
        _GPT2,
    ),
    **dict.fromkeys(
        [
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "megrez",
            "grok-2",
        ],
        Pre((QWEN,)),
    ),
    "qwen35": Pre((_QWEN35,)),
    "laguna": Pre((_LINES, QWEN)),
    "ufakzeka": Pre((QWEN.removeprefix("(?i:'s|'t|'re|'ve|'m|'ll|'d)|"),)),
    **dict.fromkeys(
        ["bailingmoe", "bailingmoe2", "llada-moe"],
        Pre((QWEN.replace(r"\s*[\r\n]+", r"\s*[\r\n]"),)),
    ),
    "seed-coder": Pre((_SEED,)),
    **dict.fromkeys(["bloom", "gpt3-finnish", "poro-chat"], Pre((_BLOOM,))),
    "viking": Pre((_BLOOM, r"\p{N}")),
    "tekken": Pre((_TEKKEN,), ignore_merges=True, add_bos=True),
    **dict.fromkeys(["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], Pre((O200K,))),
    "granite-embed-multi-97m": Pre((O200K,), ignore_merges=True),
    **dict.fromkeys(
        ["gemma4", "granite-embed-multi-311m"], Pre((_LINES,), add_bos=True, mapped=False)
    ),
    "sarvam-moe": Pre((_LINES,), mapped=False),
}
