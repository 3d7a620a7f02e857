"""Read tiktoken rank files: each line has a token in base64 and its rank, which is its id.

In: bytes, and the name of the encoding unless the file is named after it. Out: a `Tokenizer`. A
rank file contains neither its pattern nor its special tokens. `ENCODINGS` has those of the known
encodings, from `tiktoken_ext/openai_public.py`, Qwen's `tokenization_qwen.py` and
`whisper/tokenizer.py`; those of other encodings are given by the caller.
"""

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ..decode.rules import MAX_PATTERN
from ..decode.vocabulary import Vocabulary
from ..errors import TokenizerFormatError
from ..patterns.known import CL100K, GPT2, O200K, QWEN
from .tokenizer import Encode, Tokenizer, ends_by_name

MAX_TOKENS = 1 << 20
MAX_TOKEN = 4096


# Names and ids, or names whose ids follow the ranks.
SpecialTokens = Mapping[str, int] | Iterable[str]


class RankOptions(NamedTuple):
    """What the caller says about a rank file, which contains neither of these."""

    encoding: str | None = None
    pattern: str | None = None
    special_tokens: SpecialTokens | None = None


class Encoding(NamedTuple):
    """What a rank file lacks: pattern, special tokens, end-of-text ids, normalization to NFC.

    Special tokens without ids follow the ranks. Without end-of-text ids, names that are known to
    end a text do.
    """

    pattern: str
    special: SpecialTokens
    eos: tuple[int, ...] | None = None
    nfc: bool = False


def _harmony() -> dict[str, int]:
    named = {
        "<|startoftext|>": 199998, "<|endoftext|>": 199999, "<|return|>": 200002, "<|constrain|>": 200003, "<|channel|>": 200005,
        "<|start|>": 200006, "<|end|>": 200007, "<|message|>": 200008, "<|call|>": 200012,
    }  # fmt: skip
    taken = set(named.values())
    # As in tiktoken, 200018 has two names; it decodes to the later one.
    return {
        **named,
        "<|endofprompt|>": 200018,
        **{f"<|reserved_{i}|>": i for i in range(200000, 201088) if i not in taken},
    }


def _qwen() -> dict[str, int]:
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *[f"<|extra_{i}|>" for i in range(205)]]
    return {name: 151643 + i for i, name in enumerate(names)}


def _whisper(languages: int) -> list[str]:
    times = [f"{i * 0.02:.2f}" for i in range(1501)]
    tasks = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
    names = ["endoftext", "startoftranscript", *_LANGUAGES.split()[:languages], *tasks, *times]
    return [f"<|{name}|>" for name in names]


# As Whisper numbers them; the last has been there since large-v3.
_LANGUAGES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs "
    "ro da hu ta no th ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk "
    "br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu "
    "am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue"
)
_GPT2_END = {"<|endoftext|>": 50256}
_FIM = {"<|fim_prefix|>": 50281, "<|fim_middle|>": 50282, "<|fim_suffix|>": 50283}
_CL100K_SPECIAL = {
    "<|endoftext|>": 100257,
    "<|fim_prefix|>": 100258,
    "<|fim_middle|>": 100259,
    "<|fim_suffix|>": 100260,
    "<|endofprompt|>": 100276,
}
ENCODINGS = {
    "cl100k_base": Encoding(CL100K, _CL100K_SPECIAL, (100257,)),
    "o200k_base": Encoding(O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}, (199999,)),
    "o200k_harmony": Encoding(O200K, _harmony(), (199999, 200002, 200012)),
    "p50k_base": Encoding(GPT2, _GPT2_END, (50256,)),
    "p50k_edit": Encoding(GPT2, {**_GPT2_END, **_FIM}, (50256,)),
    "r50k_base": Encoding(GPT2, _GPT2_END, (50256,)),
    "gpt2": Encoding(GPT2, _GPT2_END, (50256,)),
    "qwen": Encoding(QWEN, _qwen(), (151643, 151645), nfc=True),
    "multilingual": Encoding(GPT2, _whisper(99)),  # the name of Whisper's file
    "whisper": Encoding(GPT2, _whisper(99)),
    "whisper_v3": Encoding(GPT2, _whisper(100)),
}


def parse(data: bytes, what: str, options: RankOptions) -> Tokenizer:
    """Return the tokenizer of the bytes of a rank file named `what`, which is the default of the
    encoding.

    Raises TokenizerFormatError if the encoding isn't in `ENCODINGS`, if neither it nor a pattern is
    given and the file's name is none of them, or if the file is damaged.
    """
    name, pattern, special = options
    known = ENCODINGS.get(name if name is not None else what.removesuffix(".tiktoken"))
    if name is None and pattern is not None:
        known = Encoding(pattern, ())  # what the caller gives counts, not the file's name
    if pattern is not None and len(pattern) > MAX_PATTERN:
        raise TokenizerFormatError(
            f"the pattern has {len(pattern)} characters; at most {MAX_PATTERN} are allowed"
        )
    if known is None:
        raise TokenizerFormatError(
            f"{name or what!r} is not a known encoding, and a rank file has no pattern and no special tokens; pass pattern= and "
            "special_tokens=, or encoding=, one of " + ", ".join(ENCODINGS)
        )
    if pattern is not None:
        known = known._replace(pattern=pattern)
    if special is not None:
        known = known._replace(special=special, eos=None)
    return from_ranks(read_ranks(data, what), known, what)


def read_ranks(data: bytes, what: str) -> dict[bytes, int]:
    """Return a dict from the tokens of a rank file to their ranks; errors call the file `what`.

    >>> read_ranks(b"YQ== 0\\nYWI= 1\\n", "x.tiktoken")
    {b'a': 0, b'ab': 1}
    """
    fields = data.split()
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if len(fields) % 2 or not fields or len(fields) // 2 > min(lines, MAX_TOKENS):
        raise TokenizerFormatError(
            f"{what} has {len(fields)} words in {lines} lines; expected a token in base64 and its rank on each line"
        )
    numbers = fields[1::2]
    # `int` accepts signs, underscores and the digits of all scripts; a rank file has none of them.
    if max(map(len, numbers)) > 7 or not b"".join(numbers).isdigit():
        at = next(i for i, number in enumerate(numbers) if len(number) > 7 or not number.isdigit())
        raise TokenizerFormatError(
            f"{what}: the rank of token {at} is {numbers[at][:20]!r}; expected a whole number below {MAX_TOKENS}"
        )
    try:
        # Whisper's multilingual.tiktoken has an empty token, spelled "=".
        tokens = [
            a2b_base64(field, strict_mode=True) if field != b"=" else b"" for field in fields[::2]
        ]
    except Base64Error as error:
        raise TokenizerFormatError(f"{what} has a token that is not base64: {error}") from None
    ranks = dict(zip(tokens, map(int, numbers)))
    if len(ranks) < len(tokens) or len(set(ranks.values())) < len(tokens):
        raise TokenizerFormatError(f"{what} has a token or a rank twice; expected each once")
    longest = max(map(len, tokens))
    if not 0 < longest <= MAX_TOKEN:
        raise TokenizerFormatError(
            f"{what} has a token of {longest} bytes; expected 1 to {MAX_TOKEN}"
        )
    highest = max(ranks.values())
    if highest >= MAX_TOKENS or highest > 2 * len(ranks) + 4096:
        raise TokenizerFormatError(
            f"{what} has {len(ranks)} tokens, but the rank {highest}; expected ranks from 0 without large gaps"
        )
    return ranks


def make_rank_encode(*given: Any, **options: Any) -> Encode:
    """Return `rank_encoder(…)`, whose module is read when it is needed."""
    from .hf_encode import rank_encoder

    return rank_encoder(*given, **options)


def from_ranks(ranks: dict[bytes, int], encoding: Encoding, what: str) -> Tokenizer:
    """Return the tokenizer of ranks and an encoding; errors call the file `what`."""
    special = _numbered(encoding.special, 1 + max(ranks.values()))
    eos = ends_by_name(special) if encoding.eos is None else encoding.eos
    table: list[bytes | None] = [None] * (max([*ranks.values(), *special.values()]) + 1)
    taken = set(ranks.values())
    for token, i in ranks.items():
        table[i] = token
    for name, i in special.items():
        if i in taken:
            raise TokenizerFormatError(
                f"{what}: rank {i} is the token {table[i]!r}, but {name} in this encoding; is the file of another encoding?"
            )
        table[i] = name_bytes(name, what)
    vocabulary = Vocabulary.from_bytes(
        table, set(special.values()), eos, added_ids=set(special.values())
    )

    make_encode = partial(make_rank_encode, ranks, encoding.pattern, special, nfc=encoding.nfc)
    return Tokenizer("tiktoken", vocabulary, make_encode)


def name_bytes(name: str, what: str) -> bytes:
    """Return the bytes of a special token's name."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise TokenizerFormatError(
            f"{what}: the special token {name!r} has half a surrogate pair; remove it"
        ) from None


def _numbered(special: SpecialTokens, free: int) -> dict[str, int]:
    """Return the ids of special tokens; those that have none follow from `free` on.

    >>> _numbered(["<a>", "<b>"], 7), _numbered({"<a>": 3}, 7)
    ({'<a>': 7, '<b>': 8}, {'<a>': 3})
    """
    if isinstance(special, str):
        raise TypeError(f"special_tokens is a list of names or a mapping, not the name {special!r}")
    if isinstance(special, Mapping):
        out = dict(special)
    else:
        out = dict(zip(special, range(free, MAX_TOKENS)))
    for name, i in out.items():
        if not isinstance(name, str) or not name or type(i) is not int or not 0 <= i < MAX_TOKENS:
            raise TokenizerFormatError(
                f"the special token {name!r:.60} has the id {i!r:.40}; expected a name and an id below {MAX_TOKENS}"
            )
    return out
