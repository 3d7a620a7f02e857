"""The vocabulary in a GGUF file (llama.cpp), of which only the header is read.

In: a path. Out: a `Tokenizer` whose tokens are the bytes of llama.cpp's pieces, and which encodes as llama.cpp does.

A GGUF file is a header (counts), key-values, tensor infos, tensors; numbers are little-endian unless the version reads as swapped
(`docs/gguf.md` of ggml). The reader goes through the key-values once, in a window that grows as it is needed: a 20 GB model costs what its
vocabulary costs. Every count is checked against the bytes that remain in the file before anything of that size is made. What a token is,
which ids are special and which end a text is as in llama.cpp's `src/llama-vocab.cpp`.
"""

import re
import struct
from array import array
from collections.abc import Callable
from operator import sub
from pathlib import Path
from sys import byteorder
from typing import Any, BinaryIO, Optional

from ..errors import TokenizerFormatError
from ..vocabulary import BYTES, Vocabulary, byte_level
from .gguf_encode import PRE, Pre
from .tokenizer import Encode, Tokenizer

MAX_KEYS = 4096
MAX_KEY = 1 << 16
MAX_STRING = 1 << 20
MAX_TOKENS = 1 << 20
MAX_MERGES = 1 << 22
MAX_TOKEN = 4096
MAX_HEADER = 1 << 28
WINDOW = 1 << 18

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
# Type → the letter that `struct` and `array` have for it.
_LETTER = {
    UINT8: "B",
    INT8: "b",
    UINT16: "H",
    INT16: "h",
    UINT32: "I",
    INT32: "i",
    FLOAT32: "f",
    BOOL: "B",
    UINT64: "Q",
    INT64: "q",
    FLOAT64: "d",
}
_SIZE = {kind: struct.calcsize("<" + letter) for kind, letter in _LETTER.items()}

# Token types, `llama_token_type` in llama.h.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

_BYTE_TOKEN = re.compile(rb"<0x[0-9A-Fa-f]{2}>")
MODELS = ("llama", "gpt2", "bert", "t5", "gemma4")

# What ends a text by its look, whether or not the file says so (llama.cpp `load`, "auto-detect special tokens by text").
_ENDS = (
    [
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|eom_id|>",
    ]
    + ["<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "[e~["]
    + ["<｜end▁of▁sentence｜>"]
)
# What end-of-turn and fill-in-the-middle tokens look like: the lowest id with one of these names is one, unless the file names it.
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
_ROLES_THAT_END = ("eos_token_id", "eot_token_id", "eom_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id")
# gpt-oss: always shown, so that whoever parses its channels sees them.
_SHOWN = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
# Ids where a file names none. For "gpt2" llama.cpp takes 11, which is a comma in most vocabularies: here it is none.
_DEFAULTS: dict[str, dict[str, int]] = {
    "llama": {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0},
    "bert": {"bos_token_id": 101, "unknown_token_id": 100, "seperator_token_id": 102, "padding_token_id": 0},
    "gpt2": {},
    "t5": {"eos_token_id": 1, "unknown_token_id": 2, "padding_token_id": 0},
    "gemma4": {},
}


class Strings:
    """An array of strings as it lies in the file: each string is the bytes from `starts[i]` to eight before `starts[i + 1]`."""

    __slots__ = ("blob", "starts")

    def __init__(self, blob: bytes, starts: "array[int]") -> None:
        self.blob = blob
        self.starts = starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> bytes:
        return self.blob[self.starts[i] : self.starts[i + 1] - 8]


def read_metadata(file: BinaryIO, size: int, what: str = "the file") -> dict[str, Any]:
    """Return the key-values of a GGUF file that begin with "tokenizer.ggml." or are "general.architecture" or "general.name".

    A number, a bool and a str are themselves, an array of numbers is an `array`, an array of strings is a `Strings`; what the other keys
    hold is stepped over. `size` is how many bytes the file has: nothing is believed that would not fit in it.

    >>> import io
    >>> data = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 12) + b"general.name" + struct.pack("<IQ", STRING, 4) + b"tiny"
    >>> read_metadata(io.BytesIO(data), len(data))
    {'general.name': 'tiny'}
    """
    return _Reader(file, size, what).read()


class _Reader:
    """A place in the file, and what of it has been read so far."""

    __slots__ = ("at", "data", "file", "order", "size", "what")

    def __init__(self, file: BinaryIO, size: int, what: str) -> None:
        self.file, self.size, self.what = file, size, what
        self.data = bytearray()
        self.at = 0
        self.order = "<"

    def read(self) -> dict[str, Any]:
        if self.take(4) != b"GGUF":
            raise TokenizerFormatError(f"{self.what} begins with {bytes(self.data[:4])!r}; a GGUF file begins with b'GGUF'")
        version = self.number(UINT32)
        if version and version & 0xFFFF == 0:
            self.order = ">"
            version >>= 24
        if version not in (2, 3):
            raise TokenizerFormatError(f"{self.what} is GGUF version {version}; versions 2 and 3 are read: convert the model again")
        self.number(UINT64)  # how many tensors: of no interest here
        keys = self.number(UINT64)
        if keys > MAX_KEYS:
            raise TokenizerFormatError(f"{self.what} says that it has {keys} keys; at most {MAX_KEYS} are read")
        out: dict[str, Any] = {}
        seen = set()
        for _ in range(keys):
            key = self.string(MAX_KEY, "a key")
            if key in seen:
                raise TokenizerFormatError(f"{self.what} has the key {key[:80]!r} twice")
            seen.add(key)
            wanted = key.startswith("tokenizer.ggml.") or key in ("general.architecture", "general.name")
            value = self.value(key[:80], self.number(UINT32), wanted)
            if wanted:
                out[key] = value
        return out

    def need(self, count: int) -> None:
        """Have the next `count` bytes at hand; raise TokenizerFormatError if the file has not so many."""
        end = self.at + count
        if end > self.size or end > MAX_HEADER:
            if end <= self.size:
                raise TokenizerFormatError(f"{self.what} has more than {MAX_HEADER} bytes of key-values, which no model needs")
            raise TokenizerFormatError(
                f"{self.what} has {self.size} bytes, and from byte {self.at} on {count} were to be read: is it whole?"
            )
        if end > len(self.data):
            self.data += self.file.read(max(end - len(self.data), min(WINDOW, self.size - len(self.data))))
            if end > len(self.data):
                raise TokenizerFormatError(f"{self.what} became shorter while it was read")

    def take(self, count: int) -> bytes:
        self.need(count)
        self.at += count
        return self.since(self.at - count)

    def since(self, begin: int) -> bytes:
        """Return what was read from `begin` on, copied once."""
        with memoryview(self.data) as view, view[begin : self.at] as part:
            return bytes(part)

    def skip(self, count: int) -> None:
        self.need(count)
        self.at += count

    def number(self, kind: int) -> Any:
        return struct.unpack(self.order + _LETTER[kind], self.take(_SIZE[kind]))[0]

    def string(self, most: int, what: str) -> str:
        length = self.number(UINT64)
        if length > most:
            raise TokenizerFormatError(f"{self.what}: {what} has {length} bytes; at most {most} are read")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise TokenizerFormatError(f"{self.what}: {what} is not UTF-8: {error.reason}, at byte {error.start} of it") from None

    def value(self, key: str, kind: int, wanted: bool) -> Any:
        if kind == STRING:
            if wanted:
                return self.string(MAX_STRING, f"the value of {key!r}")
            return self.skip(self.number(UINT64))
        if kind == ARRAY:
            return self.array(key, wanted)
        if kind not in _LETTER:
            raise TokenizerFormatError(f"{self.what}: the value of {key!r} is of type {kind}; GGUF has the types 0 to 12")
        number = self.number(kind)
        return bool(number) if kind == BOOL else number

    def array(self, key: str, wanted: bool) -> Any:
        kind, count = self.number(UINT32), self.number(UINT64)
        if kind == STRING:
            return self.strings(key, count, wanted)
        if kind not in _LETTER:
            raise TokenizerFormatError(
                f"{self.what}: {key!r} is an array of type {kind}; arrays of numbers and of strings are read, and no nested ones"
            )
        if not wanted:
            return self.skip(count * _SIZE[kind])
        out = array(_LETTER[kind], self.take(count * _SIZE[kind]))
        if (self.order == ">") != (byteorder == "big"):
            out.byteswap()
        return out

    def strings(self, key: str, count: int, wanted: bool) -> Any:
        if count > MAX_MERGES:
            raise TokenizerFormatError(f"{self.what}: {key!r} says that it has {count} strings; at most {MAX_MERGES} are read")
        if self.at + 8 * count > self.size:
            raise TokenizerFormatError(
                f"{self.what}: {key!r} says that it has {count} strings, and {self.size - self.at} bytes remain: is it whole?"
            )
        begin = self.at
        starts = array("I")
        length_at = struct.Struct(self.order + "Q").unpack_from
        at, have, data = begin, len(self.data), self.data
        for _ in range(count):
            if at + 8 > have:
                self.at = at
                self.need(8)
                have = len(data)
            at += 8
            starts.append(at - begin)
            length = length_at(data, at - 8)[0]
            at += length
            if at > have:
                self.at = at - length
                self.need(length)
                have = len(data)
        starts.append(at - begin + 8)
        self.at = at
        return Strings(self.since(begin), starts) if wanted else None


def read(path: Path) -> Tokenizer:
    """Return the tokenizer of a GGUF file."""
    with path.open("rb") as file:
        file.seek(0, 2)
        size = file.tell()
        file.seek(0)
        metadata = read_metadata(file, size, path.name)
    return from_metadata(metadata, path.name)


def from_metadata(metadata: dict[str, Any], what: str) -> Tokenizer:
    """Return the tokenizer that the key-values of a GGUF file describe."""
    model = _get(metadata, "model", str, what)
    if model not in MODELS:
        raise TokenizerFormatError(f"{what}: a tokenizer of model {model[:40]!r} is not supported; supported: {', '.join(MODELS)}")
    pre = _pre(model, metadata, what)
    tokens: Strings = _get(metadata, "tokens", Strings, what)
    count = len(tokens)
    if not 0 < count <= MAX_TOKENS:
        raise TokenizerFormatError(f"{what} has {count} tokens; 1 to {MAX_TOKENS} are read")
    longest = max(map(sub, tokens.starts[1:], tokens.starts)) - 8
    if longest > MAX_TOKEN:
        raise TokenizerFormatError(f"{what} has a token of {longest} bytes; a token has at most {MAX_TOKEN}")
    types = token_numbers(metadata, "token_type", "i", count, what)
    if types is None:
        types = array("i", [NORMAL]) * count
    for i, kind in enumerate(types):
        if kind == BYTE and not _BYTE_TOKEN.fullmatch(tokens[i]):
            raise TokenizerFormatError(f"{what}: token {i} is of type byte, and is {tokens[i][:40]!r} instead of <0x00> to <0xFF>")

    roles = dict(_DEFAULTS[model])
    for role in (*_ROLES, "bos_token_id", "eos_token_id", "unknown_token_id", "seperator_token_id", "padding_token_id", "mask_token_id"):
        token_id = metadata.get("tokenizer.ggml." + role)
        if isinstance(token_id, int) and 0 <= token_id < count:
            roles[role] = token_id
    roles = {role: token_id for role, token_id in roles.items() if token_id < count}
    eos_ids = _mark_by_look(tokens, types, roles)
    special_ids = [i for i, kind in enumerate(types) if kind in (UNKNOWN, CONTROL)]

    vocabulary = Vocabulary(count, _bytes_of(tokens, types, model == "gpt2" and pre.mapped), BYTES, special_ids, eos_ids)
    family = {"llama": "sentencepiece", "gemma4": "sentencepiece", "bert": "wordpiece", "t5": "unigram"}.get(model, "byte_bpe")

    def make_encode() -> Encode:
        from .gguf_encode import encoder

        return encoder(model, pre, metadata, tokens, types, roles, what)

    return Tokenizer(family, vocabulary, make_encode, eos_ids)


def _bytes_of(tokens: Strings, types: "array[int]", mapped: bool) -> Callable[[int], bytes]:
    """Return the function from an id to the bytes of llama.cpp's piece for it (`token_to_piece`)."""

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


def _mark_by_look(tokens: Strings, types: "array[int]", roles: dict[str, int]) -> set[int]:
    """Give the tokens with well-known names the type that llama.cpp gives them; return the ids that end a text."""
    # Most tokens are told apart from all of these by their first four bytes, and never become a str.
    first = frozenset(name.encode()[:4] for name in ("</s>", *_ENDS, *_SHOWN, *" ".join(_ROLES.values()).split()))
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
    ends = {named[name] for name in _ENDS if name in named}
    for i in ends:
        types[i] = CONTROL
    # llama.cpp counts every "</s>"; in vocabularies made from web pages that is the end of struck-out text, and no control token.
    if "</s>" in named and types[named["</s>"]] == CONTROL:
        ends.add(named["</s>"])
    for name in _SHOWN:
        if name in named:
            types[named[name]] = USER_DEFINED
    ends |= {roles[role] for role in _ROLES_THAT_END if role in roles}
    # Where a message may end without the answer being over, only the answer's end ends the text.
    has = {name for name in named if named[name] in ends}
    if "<|end|>" in has and ({"<|return|>", "<|call|>"} <= has or ({"<|flush|>"} <= has and has & {"<|call|>", "<|calls|>"})):
        ends.discard(named["<|end|>"])
        types[named["<|end|>"]] = USER_DEFINED
    if {"<|tool_response>", "</s>"} <= has:
        ends.discard(named["</s>"])
        types[named["</s>"]] = NORMAL
    return ends


def _pre(model: str, metadata: dict[str, Any], what: str) -> Pre:
    """Return how texts are cut into words; a name that isn't known raises TokenizerFormatError."""
    name = "gemma4" if model == "gemma4" else metadata.get("tokenizer.ggml.pre", "default") if model == "gpt2" else "default"
    pre = PRE.get(name) if isinstance(name, str) else None
    if pre is None:
        raise TokenizerFormatError(f"{what}: the pre-tokenizer {str(name)[:40]!r} is not supported; supported: {', '.join(sorted(PRE))}")
    return pre


def _get(metadata: dict[str, Any], key: str, kind: Any, what: str) -> Any:
    value = metadata.get("tokenizer.ggml." + key)
    if not isinstance(value, kind):
        expected = {str: "a string", Strings: "an array of strings"}[kind]
        found = "is missing" if value is None else f"is of type {type(value).__name__}"
        raise TokenizerFormatError(f'{what}: "tokenizer.ggml.{key}" {found}; expected {expected}: does this GGUF hold a language model?')
    return value


def token_numbers(metadata: dict[str, Any], key: str, letters: str, count: int, what: str) -> Optional["array[Any]"]:
    """Return an array that has a number for each token, or None where there is none."""
    value = metadata.get("tokenizer.ggml." + key)
    if value is None:
        return None
    if not isinstance(value, array) or value.typecode not in letters or len(value) < count:
        found = f"{len(value)} numbers of type {value.typecode!r}" if isinstance(value, array) else type(value).__name__
        raise TokenizerFormatError(f'{what}: "tokenizer.ggml.{key}" is {found}; expected {count} of type {letters[0]!r}')
    return value
