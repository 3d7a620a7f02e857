"""Read Mistral's tekken.json: ranks of byte tokens, a pattern, and special tokens.

In: bytes. Out: a `Tokenizer`. Special tokens have the ids 0 to `default_num_special_tokens` - 1.
The token of rank r has the id r plus that number. Ranks at or beyond `default_vocab_size` minus
that number are ignored. Source: `mistral_common/tokens/tokenizers/tekken.py`.
"""

from binascii import a2b_base64
from functools import partial
from typing import Any

from ..decode.rules import MAX_PATTERN
from ..decode.vocabulary import Vocabulary
from ..errors import TokenizerFormatError
from .strict_json import loads
from .tiktoken import MAX_TOKEN, MAX_TOKENS, make_rank_encode, name_bytes
from .tokenizer import Tokenizer

# The special tokens of files that don't list them (before 2025). The remaining special ids are
# <SPECIAL_20>, <SPECIAL_21>, …
_SPECIAL = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
]


def parse(data: bytes, what: str = "tekken.json") -> Tokenizer:
    """Return the tokenizer of the bytes of a tekken.json; errors call the file `what`."""
    document = loads(data, what)
    config = document.get("config") if isinstance(document, dict) else None
    entries = document.get("vocab") if isinstance(document, dict) else None
    if not isinstance(config, dict) or not isinstance(entries, list):
        raise TokenizerFormatError(
            f'{what} has no "config" object or no "vocab" list; a tekken.json has both'
        )
    pattern = config.get("pattern")
    special = _special(
        document.get("special_tokens"), config.get("default_num_special_tokens"), what
    )
    room = len(special)
    size = config.get("default_vocab_size")
    if size is None:
        size = room + len(entries)
    if (
        not isinstance(pattern, str)
        or len(pattern) > MAX_PATTERN
        or type(size) is not int
        or not room <= size <= MAX_TOKENS
    ):
        raise TokenizerFormatError(
            f"{what}: the config needs a pattern of at most {MAX_PATTERN} characters and a default_vocab_size from {room} to {MAX_TOKENS}"
        )
    ranks: dict[bytes, int] = {}
    for i, entry in enumerate(entries[: size - room]):
        token = _token(entry, i, what)
        if token in ranks:
            raise TokenizerFormatError(
                f"{what}: ranks {ranks[token]} and {i} are the same token {token[:40]!r}"
            )
        ranks[token] = i
    names: list[bytes] = [name_bytes(name, what) for name in special]
    vocabulary = Vocabulary.from_bytes(
        names + list(ranks),
        range(room),
        [special.index("</s>")] if "</s>" in special else [],
        added_ids=range(room),
    )
    bos = special.index("<s>") if "<s>" in special else None

    numbered = {name: i for i, name in enumerate(special)}
    make_encode = partial(make_rank_encode, ranks, pattern, numbered, first_id=room, bos_id=bos)
    return Tokenizer("tiktoken", vocabulary, make_encode, bos_id=bos)


def _token(entry: Any, i: int, what: str) -> bytes:
    if (
        not isinstance(entry, dict)
        or entry.get("rank") != i
        or not isinstance(entry.get("token_bytes"), str)
    ):
        raise TokenizerFormatError(
            f"{what}: entry {i} of the vocab should be an object with rank {i} and token_bytes in base64"
        )
    try:
        token = a2b_base64(entry["token_bytes"], strict_mode=True)
    except ValueError as error:  # binascii.Error is one
        raise TokenizerFormatError(
            f"{what}: the token_bytes of rank {i} are not base64: {error}"
        ) from None
    if not 0 < len(token) <= MAX_TOKEN:
        raise TokenizerFormatError(
            f"{what}: the token of rank {i} has {len(token)} bytes; expected 1 to {MAX_TOKEN}"
        )
    return token


def _special(entries: Any, room: Any, what: str) -> list[str]:
    """Return the names of the special tokens, by id."""
    if room is not None and not (type(room) is int and 0 <= room <= MAX_TOKENS):
        raise TokenizerFormatError(
            f"{what}: default_num_special_tokens should be a whole number up to {MAX_TOKENS}"
        )
    if entries is None:
        names = list(_SPECIAL[:room])
    elif isinstance(entries, list):
        names = [""] * len(entries)
        for entry in entries:
            said = entry if isinstance(entry, dict) else {}
            rank, name = said.get("rank"), said.get("token_str")
            if (
                type(rank) is not int
                or not 0 <= rank < len(names)
                or names[rank]
                or not isinstance(name, str)
                or not name
            ):
                raise TokenizerFormatError(
                    f"{what}: each of the {len(names)} special_tokens needs a token_str and a unique rank below {len(names)}"
                )
            names[rank] = name
    else:
        raise TokenizerFormatError(f"{what}: special_tokens should be a list")
    if room is not None and len(names) > room:
        raise TokenizerFormatError(
            f"{what} has {len(names)} special tokens; default_num_special_tokens allows {room}"
        )
    names += [f"<SPECIAL_{i}>" for i in range(len(names), len(names) if room is None else room)]
    if len(set(names)) < len(names):
        raise TokenizerFormatError(f"{what}: two special tokens have the same name")
    return names
