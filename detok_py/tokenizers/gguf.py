"""The tokenizer in a GGUF file (llama.cpp).

In: a file. Out: a `Tokenizer` whose token bytes are llama.cpp's pieces, and which encodes as
llama.cpp does. Only the key-values of the file are read. What a token is, which ids are special
and which ids end a text follow llama.cpp's `src/llama-vocab.cpp`.
"""

import re
from array import array
from collections.abc import Callable
from functools import partial
from operator import sub
from typing import Any, BinaryIO

from ..decode.byte_level import byte_level
from ..decode.rules import BYTES
from ..decode.vocabulary import Vocabulary
from ..errors import TokenizerFormatError
from ..formats.find import strings_in
from .gguf_encode import encoder
from .gguf_file import (
    BYTE,
    CHAT_TEMPLATE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Strings,
    read_metadata,
    token_numbers,
)
from .gguf_pre import PRE
from .tokenizer import END_OR_TAG, ENDS, Tokenizer, inner_ends

MAX_TOKENS = 1 << 20
MAX_TOKEN = 4096
_BYTE_TOKEN = re.compile(rb"<0x[0-9A-Fa-f]{2}>")
MODELS = ("llama", "gpt2", "bert", "t5", "gemma4")

# The texts of end-of-turn and fill-in-the-middle tokens. If the file does not name the token of a
# role, it is the lowest id that has one of these texts.
_ROLES = {
    "eot_token_id": "<|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> <EOT> _<EOT> [EOT] <｜end▁of▁sentence｜>"
    " <end_of_utterance>",
    "eom_token_id": "<|eom_id|>",
    "fim_pre_token_id": "<|fim_prefix|> <fim-prefix> <fim_prefix> <｜fim▁begin｜> <PRE> ▁<PRE> <|code_prefix|> <|prefix|>",
    "fim_suf_token_id": "<|fim_suffix|> <fim-suffix> <fim_suffix> <｜fim▁hole｜> <SUF> ▁<SUF> <|code_suffix|> <|suffix|>",
    "fim_mid_token_id": "<|fim_middle|> <fim-middle> <fim_middle> <｜fim▁end｜> <MID> ▁<MID> <|code_middle|> <|middle|>",
    "fim_pad_token_id": "<|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD]",
    "fim_rep_token_id": "<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame>",
    "fim_sep_token_id": "<|file_sep|>",
}
_ROLES_THAT_END = (
    "eos_token_id",
    "eot_token_id",
    "eom_token_id",
    "fim_pad_token_id",
    "fim_rep_token_id",
    "fim_sep_token_id",
)
# gpt-oss: always shown, because a parser of its channels needs them.
_SHOWN = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
# The ids of roles that a file does not name. For "gpt2" llama.cpp uses id 11, which is a comma in
# most vocabularies, so here there is no default.
_DEFAULTS: dict[str, dict[str, int]] = {
    "llama": {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0},
    "bert": {
        "bos_token_id": 101,
        "unknown_token_id": 100,
        "seperator_token_id": 102,
        "padding_token_id": 0,
    },
    "gpt2": {},
    "t5": {"eos_token_id": 1, "unknown_token_id": 2, "padding_token_id": 0},
    "gemma4": {},
}
_FAMILIES = {
    "llama": "sentencepiece",
    "gemma4": "sentencepiece",
    "bert": "wordpiece",
    "t5": "unigram",
}


def read(file: BinaryIO, size: int, what: str) -> Tokenizer:
    """Return the tokenizer of an open GGUF file of `size` bytes; errors call it `what`."""
    return from_metadata(read_metadata(file, size, what), what)


def from_metadata(metadata: dict[str, Any], what: str) -> Tokenizer:
    """Return the tokenizer that the key-values of a GGUF file describe.

    `what` names the file in error messages.
    """
    model = _get(metadata, "model", str, what)
    if model not in MODELS:
        raise TokenizerFormatError(
            f"{what}: a tokenizer of model {model[:40]!r} is not supported; supported: {', '.join(MODELS)}"
        )
    name = "default"
    if model in ("gpt2", "gemma4"):
        name = metadata.get("tokenizer.ggml.pre", name) if model == "gpt2" else model
    # Decoding needs to know only whether the pieces are in the byte alphabet. They are where the
    # pre-tokenizer is not known here.
    pre = PRE.get(name) if isinstance(name, str) else None
    mapped = model == "gpt2" and (pre is None or pre.mapped)
    tokens = _tokens(metadata, what)
    types = _types(metadata, tokens, mapped, what)
    roles = _roles(metadata, model, len(tokens))
    ends = _set_types_by_text(tokens, types, roles)
    eos_ids = {
        i: f'"tokenizer.ggml.{role}" of {what}' if "tokenizer.ggml." + role in metadata else role
        for i, role in ends.items()
    }
    vocabulary = Vocabulary(
        len(tokens),
        _bytes_of(tokens, types, mapped),
        BYTES,
        special_ids=[i for i, kind in enumerate(types) if kind in (UNKNOWN, CONTROL)],
        eos_ids=eos_ids,
        added_ids=[i for i, kind in enumerate(types) if kind in (UNKNOWN, CONTROL, USER_DEFINED)],
    )
    tokenizer = Tokenizer(
        _FAMILIES.get(model, "byte_bpe"),
        vocabulary,
        partial(encoder, model, pre, metadata, tokens, types, roles, what),
        eos_ids=eos_ids,
        bos_id=roles.get("bos_token_id"),
        piece_of=partial(_piece, tokens),
    )
    templates = [metadata[key] for key in sorted(metadata) if key.startswith(CHAT_TEMPLATE)]
    tokenizer.chat_template = "\n".join(strings_in(templates)) or None
    return tokenizer


def _tokens(metadata: dict[str, Any], what: str) -> Strings:
    tokens: Strings = _get(metadata, "tokens", Strings, what)
    if not 0 < len(tokens) <= MAX_TOKENS:
        raise TokenizerFormatError(f"{what} has {len(tokens)} tokens; 1 to {MAX_TOKENS} are read")
    longest = max(map(sub, tokens.starts[1:], tokens.starts)) - 8
    if longest > MAX_TOKEN:
        raise TokenizerFormatError(
            f"{what} has a token of {longest} bytes; a token has at most {MAX_TOKEN}"
        )
    return tokens


def _types(metadata: dict[str, Any], tokens: Strings, mapped: bool, what: str) -> "array[int]":
    count = len(tokens)
    types = token_numbers(metadata, "token_type", "i", count, what)
    if types is None:
        types = array("i", [NORMAL]) * count
        if not mapped:
            for i in range(count):
                if _BYTE_TOKEN.fullmatch(tokens[i]):
                    types[i] = BYTE
    for i, kind in enumerate(types):
        if kind == BYTE and not _BYTE_TOKEN.fullmatch(tokens[i]):
            raise TokenizerFormatError(
                f"{what}: token {i} is of type byte, but its text is {tokens[i][:40]!r}; expected <0x00> to <0xFF>"
            )
    return types


def _roles(metadata: dict[str, Any], model: str, count: int) -> dict[str, int]:
    """Return the ids of roles, of the file or else of its model, if they are below `count`."""
    roles = dict(_DEFAULTS[model])
    for role in (
        *_ROLES,
        "bos_token_id",
        "eos_token_id",
        "unknown_token_id",
        "seperator_token_id",
        "padding_token_id",
        "mask_token_id",
    ):
        token_id = metadata.get("tokenizer.ggml." + role)
        if type(token_id) is int and 0 <= token_id < count:
            roles[role] = token_id
    return {role: token_id for role, token_id in roles.items() if token_id < count}


def _piece(tokens: Strings, i: int) -> str:
    return tokens[i].decode("utf-8", "replace")


def _bytes_of(tokens: Strings, types: "array[int]", mapped: bool) -> Callable[[int], bytes]:
    """Return the function that returns the bytes of an id (llama.cpp's `token_to_piece`)."""

    def stored(i: int) -> bytes:
        kind, token = types[i], tokens[i]
        if kind == BYTE:
            return bytes([int(token[3:5], 16)])
        if kind in (UNKNOWN, CONTROL, USER_DEFINED):
            return token or b"[EMPTY_%d]" % i
        if kind != NORMAL:
            return b""
        if not token:
            return b"[EMPTY_%d]" % i
        if not mapped:
            return token.replace(b"\xe2\x96\x81", b" ")
        try:
            return byte_level(token.decode())
        except UnicodeDecodeError:
            return token

    return stored


def _set_types_by_text(
    tokens: Strings, types: "array[int]", roles: dict[str, int]
) -> dict[int, str]:
    """Set the types of tokens with well-known texts as llama.cpp does; return the ids that end a
    text, each with its role or, if it has none, with "its name".
    """
    # The first four bytes rule out most tokens, which saves decoding them.
    first = frozenset(
        name.encode()[:4]
        for name in (END_OR_TAG, *ENDS, *_SHOWN, *" ".join(_ROLES.values()).split())
    )
    blob = tokens.blob
    named: dict[str, int] = {}
    for i, start in enumerate(tokens.starts[:-1]):
        if blob[start : start + 4] in first:
            named.setdefault(tokens[i].decode("utf-8", "replace"), i)

    for role, names in _ROLES.items():
        found = [named[name] for name in names.split() if name in named]
        if found and role not in roles:
            roles[role] = min(found)
            types[min(found)] = CONTROL
    ends = dict.fromkeys([named[name] for name in ENDS if name in named], "its name")
    for i in ends:
        types[i] = CONTROL
    if END_OR_TAG in named and types[named[END_OR_TAG]] == CONTROL:
        ends[named[END_OR_TAG]] = "its name"
    for name in _SHOWN:
        if name in named:
            types[named[name]] = USER_DEFINED
    for role in _ROLES_THAT_END:
        if role in roles:
            ends[roles[role]] = role
    for name in inner_ends([name for name in named if named[name] in ends]):
        del ends[named[name]]
        types[named[name]] = NORMAL if name == END_OR_TAG else USER_DEFINED
    return ends


def _get(metadata: dict[str, Any], key: str, kind: Any, what: str) -> Any:
    value = metadata.get("tokenizer.ggml." + key)
    if not isinstance(value, kind):
        expected = {str: "a string", Strings: "an array of strings"}[kind]
        found = "is missing" if value is None else f"is of type {type(value).__name__}"
        raise TokenizerFormatError(
            f'{what}: "tokenizer.ggml.{key}" {found}; expected {expected}: does this GGUF hold a language model?'
        )
    return value
