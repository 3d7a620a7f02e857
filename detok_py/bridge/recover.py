"""Recover the token ids that llama-server doesn't send.

In: Raw chunks (bytes, number of tokens, id of the last token) and the vocabulary. Out: tokens with
their bytes, and gaps where several sequences of tokens are possible. Ids are never guessed.

llama-server sends nothing while the text ends inside a character. So in a chunk of several tokens,
every token but the last ends inside a character. Given the bytes and the number of tokens, nearly
always only one sequence of tokens fits. Special tokens have no bytes there, so any number of them
can stand between the others: a sequence of fewer tokens counts too, as special tokens may fill it
up.
"""

from typing import NamedTuple

from ..decode.vocabulary import Vocabulary
from .engines import Raw

# Chunks of more bytes are not searched. A search of this length takes about 10 ms.
MAX_SEARCH = 2048
# Chunks of more tokens are better searched in a thread: shorter ones take less than 1 ms.
LONG = 64


class Known(NamedTuple):
    """A token and its bytes."""

    id: int
    data: bytes


class Unknown(NamedTuple):
    """The bytes of `tokens` tokens whose ids are unknown."""

    tokens: int
    data: bytes


class Recovery:
    """Recovers the ids of one stream. `ids_of` is the result of `table` and can be shared."""

    def __init__(self, vocabulary: Vocabulary, ids_of: dict[bytes, list[int]]) -> None:
        self._vocabulary = vocabulary
        self._ids_of = ids_of
        self._sizes = sorted({len(data) for data in ids_of if data})
        self._tail = b""

    @staticmethod
    def table(vocabulary: Vocabulary) -> dict[bytes, list[int]]:
        """Return a dict from bytes to ids, of the tokens that can end inside a character. Special
        tokens and tokens of no bytes are under `b""`.
        """
        out: dict[bytes, list[int]] = {}
        for i in range(len(vocabulary)):
            data = b""
            if i not in vocabulary.special_ids:
                try:
                    data = vocabulary.token_bytes(i)
                except ValueError:
                    continue
                if data and not _can_end_inside(data):
                    continue
            out.setdefault(data, []).append(i)
        return out

    def feed(self, chunk: Raw) -> list[Known | Unknown]:
        """Return the tokens of a chunk in order; their bytes, joined, equal `chunk.data`.

        >>> v = Vocabulary.from_bytes([b"\\xf0", b"\\x9f\\x8c", b"\\xa6", b" \\xf0\\x9f", b"\\x8c"])
        >>> r = Recovery(v, Recovery.table(v))
        >>> r.feed(Raw(b" \\xf0\\x9f\\x8c\\xa6", 3, 2))
        [Known(id=3, data=b' \\xf0\\x9f'), Known(id=4, data=b'\\x8c'), Known(id=2, data=b'\\xa6')]
        """
        before, self._tail = self._tail, (self._tail + chunk.data)[-3:]
        count = max(1, chunk.tokens)
        last = self._bytes_of(chunk.last_id)
        if last is None or chunk.last_id is None or not chunk.data.endswith(last):
            return [Unknown(count, chunk.data)]
        known = Known(chunk.last_id, last)
        rest = chunk.data[: len(chunk.data) - len(last)]
        if count == 1:
            # More bytes than the token has: the count or the vocabulary is wrong.
            return [known] if not rest else [Unknown(1, chunk.data)]
        # More tokens than bytes: some have no bytes, so no search is possible.
        found = self._unique_cut(before, rest, count - 1) if count - 1 <= len(rest) else None
        if found is None:
            return [Unknown(count - 1, rest), known]
        return [*found, known]

    def restart(self) -> None:
        """Begin a new request of the same answer: the engine's text begins anew."""
        self._tail = b""

    def _bytes_of(self, token_id: int | None) -> bytes | None:
        if token_id is None:
            return None
        if token_id in self._vocabulary.special_ids:
            return b""  # the event at the end of the text has no bytes
        try:
            return self._vocabulary.token_bytes(token_id)
        except ValueError:
            return None

    def _unique_cut(self, before: bytes, data: bytes, count: int) -> list[Known] | None:
        """Return the only way to cut `data` into `count` tokens that end inside a character.

        Returns None if there is no such way, or more than one.
        """
        size = len(data)
        if size > MAX_SEARCH or not size or not _ends_inside_a_character(before + data):
            return None
        text = before + data
        first = len(before)
        inside = [
            _ends_inside_a_character(text[max(0, n - 4) : n]) for n in range(first, len(text) + 1)
        ]
        # Bit k of some[n]: k tokens can reach offset n; of several[n]: in more than one way. So one
        # pass counts the ways for every number of tokens.
        some = [0] * (size + 1)
        several = [0] * (size + 1)
        some[0] = 1
        wanted = (2 << count) - 1
        for start in range(size):
            one, more = some[start] << 1 & wanted, several[start] << 1 & wanted
            if not one:
                continue
            for length in self._sizes:
                end = start + length
                if end > size:
                    break
                ids = self._ids_of.get(data[start:end]) if inside[end] else None
                if ids:
                    several[end] |= more | (one if len(ids) > 1 else one & some[end])
                    some[end] |= one
        exactly = 1 << count
        fewer = some[size] & (exactly - 1) if b"" in self._ids_of else 0
        if not some[size] & exactly or several[size] & exactly or fewer:
            return None
        path: list[Known] = []
        while size:
            exactly >>= 1
            for length in self._sizes:
                ids = self._ids_of.get(data[size - length : size]) if length <= size else None
                if ids and some[size - length] & exactly:
                    path.append(Known(ids[0], data[size - length : size]))
                    size -= length
                    break
        return path[::-1]


def _can_end_inside(token: bytes) -> bool:
    """Return whether a text can end inside a character after `token`."""
    only_continuations = all(byte & 0xC0 == 0x80 for byte in token)
    return len(token) < 3 if only_continuations else _ends_inside_a_character(token)


def _ends_inside_a_character(text: bytes) -> bool:
    """Return whether llama-server holds back events after `text`.

    Its rule looks only at the lead byte among the last four bytes.
    """
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        if byte & 0xC0 == 0x80:
            continue
        if byte & 0xE0 == 0xC0:
            return back < 2
        if byte & 0xF0 == 0xE0:
            return back < 3
        if byte & 0xF8 == 0xF0:
            return back < 4
        return False
    return False
