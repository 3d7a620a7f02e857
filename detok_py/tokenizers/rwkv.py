"""Read RWKV's vocabulary, rwkv_vocab_v20230424.txt: each line has an id, a token as Python spells
it (`'a'` or `b'\\xff'`), and its length in bytes.

In: bytes. Out: a `Tokenizer`. Encoding is greedy: the longest token that the rest of the text
begins with. Id 0 is in no file; the model ends a text with it, and it is special here. Source:
`rwkv/rwkv_tokenizer.py` (TRIE_TOKENIZER).
"""

import re
from collections.abc import Callable, Mapping
from functools import partial

from ..decode.vocabulary import Vocabulary
from ..errors import TokenizerFormatError
from .tokenizer import Encode, Tokenizer

MAX_TOKENS = 1 << 20
MAX_TOKEN = 4096
END = "<|endoftext|>"

_LINE = re.compile(r"""(\d{1,7}) (b?)('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+") (\d{1,4})""")
_ESCAPE = re.compile(r"\\(?:([\\'\"ntr])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_SHORT = {"n": "\n", "t": "\t", "r": "\r"}


def read(data: bytes, what: str) -> Tokenizer:
    """Return the tokenizer of the bytes of a vocabulary file; errors call it `what`."""
    ids = _read_tokens(data, what)
    table: list[bytes | None] = [None] * (max(ids.values()) + 1)
    for token, i in ids.items():
        table[i] = token
    special = {END: 0} if table[0] is None else {}
    for name, i in special.items():
        table[i] = name.encode()
    vocabulary = Vocabulary.from_bytes(
        table, special.values(), special.values(), added_ids=special.values()
    )
    return Tokenizer("rwkv", vocabulary, partial(_make_encode, ids, special, what))


def _read_tokens(data: bytes, what: str) -> dict[bytes, int]:
    """Return the id of each token."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise TokenizerFormatError(
            f"{what} is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}"
        ) from None
    lines = [line.removesuffix("\r") for line in lines if line.strip()]
    if not 0 < len(lines) <= MAX_TOKENS:
        raise TokenizerFormatError(f"{what} has {len(lines)} tokens; expected 1 to {MAX_TOKENS}")
    ids: dict[bytes, int] = {}
    taken = set()
    for at, line in enumerate(lines):
        found = _LINE.fullmatch(line)
        token = None if found is None else _token(found[2], found[3][1:-1])
        if found is None or token is None or len(token) != int(found[4]):
            raise TokenizerFormatError(
                f"{what}: line {at + 1} is {line[:60]!r}; expected an id, a token in quotes and its length in bytes"
            )
        i = int(found[1])
        if token in ids or i in taken or i >= MAX_TOKENS or not 0 < len(token) <= MAX_TOKEN:
            raise TokenizerFormatError(
                f"{what}: the id {i} or the token {token[:40]!r} is there twice, empty or too large; expected each once"
            )
        ids[token] = i
        taken.add(i)
    return ids


def _token(prefix: str, text: str) -> bytes | None:
    """Return the bytes of a string as Python spells it, None if it is not spelled so."""
    if "\\" in text:
        if "\\" in _ESCAPE.sub("", text):
            return None
        text = _ESCAPE.sub(_unescape, text)
    try:
        return text.encode("latin-1" if prefix else "utf-8")
    except UnicodeEncodeError:
        return None


def _unescape(found: re.Match[str]) -> str:
    short, *digits = found.groups()
    if short:
        return _SHORT.get(short, short)
    number = int(next(filter(None, digits)), 16)
    return chr(number) if number < 0x110000 else "\ud800"  # which has no UTF-8


def _make_encode(ids: Mapping[bytes, int], special: Mapping[str, int], what: str) -> Encode:
    """Return the encoder."""
    missing = [byte for byte in range(256) if bytes([byte]) not in ids]
    if missing:
        raise TokenizerFormatError(
            f"{what} can be decoded, but not encoded: it has no token for the byte 0x{missing[0]:02X}"
        )
    greedy = _greedy(ids)

    def encode(text: str, add_special_tokens: bool, parse_special: bool) -> list[int]:
        if not (parse_special and special and END in text):
            return greedy(text.encode())
        first, *rest = text.split(END)
        out = greedy(first.encode())
        for part in rest:
            out += [special[END], *greedy(part.encode())]
        return out

    return encode


def _greedy(ids: Mapping[bytes, int]) -> Callable[[bytes], list[int]]:
    """Return the function that takes the longest token again and again."""
    lengths: dict[bytes, set[int]] = {}
    for token in ids:
        lengths.setdefault(token[:2], set()).add(len(token))
    longest_first = {start: sorted(found, reverse=True) for start, found in lengths.items()}

    def encode(data: bytes) -> list[int]:
        out: list[int] = []
        at = 0
        while at < len(data):
            for length in longest_first.get(data[at : at + 2], ()):
                i = ids.get(data[at : at + length])
                # At the end a slice is shorter than its length, and can be another token.
                if i is not None and at + length <= len(data):
                    break
            else:
                length, i = 1, ids[data[at : at + 1]]
            out.append(i)
            at += length
        return out

    return encode
