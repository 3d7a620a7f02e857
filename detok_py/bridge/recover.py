"""Ids from bytes: what llama-server leaves out, found again where it can be known.

In: Raw chunks (bytes, how many tokens made them, the id of the last) and the vocabulary. Out: tokens with their bytes, and gaps where more
than one reading is possible. An id is never guessed: unknown is said to be unknown.

llama-server sends nothing while the text ends inside a character, so a chunk of several tokens is a run whose every token but the last
ended inside one. With the bytes, the number of tokens and that rule there is nearly always one way to cut it.
"""

from typing import NamedTuple

from detok_py.vocabulary import Vocabulary

from .engines import Raw


class Known(NamedTuple):
    """A token and its bytes."""

    id: int
    data: bytes


class Unknown(NamedTuple):
    """`tokens` tokens whose ids can't be known, and the bytes that they made together."""

    tokens: int
    data: bytes


class Recovery:
    """Finds ids for one stream. The table of a vocabulary is made once and shared: see `table`."""

    def __init__(self, vocabulary: Vocabulary, ids_of: dict[bytes, list[int]]) -> None:
        self._vocabulary = vocabulary
        self._ids_of = ids_of
        self._tail = b""

    @staticmethod
    def table(vocabulary: Vocabulary) -> dict[bytes, list[int]]:
        """Return bytes → ids, without special tokens, which generate no text, and without tokens of no bytes."""
        out: dict[bytes, list[int]] = {}
        for i in range(len(vocabulary)):
            if i in vocabulary.special_ids:
                continue
            try:
                data = vocabulary.token_bytes(i)
            except ValueError:
                continue
            if data:
                out.setdefault(data, []).append(i)
        return out

    def feed(self, chunk: Raw) -> list[Known | Unknown]:
        """Return the tokens of a chunk, in order; their bytes, joined, are the chunk's.

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
            # Bytes that the last token can't account for: the count is wrong, or the table is; either way they are nobody's.
            return [known] if not rest else [Unknown(1, chunk.data)]
        found = self._only_way(before, rest, count - 1)
        if found is None:
            return [Unknown(count - 1, rest), known]
        return [*found, known]

    def _bytes_of(self, token_id: int | None) -> bytes | None:
        if token_id is None:
            return None
        if token_id in self._vocabulary.special_ids:
            return b""  # llama-server sends an event for the end of the text, and no bytes with it
        try:
            return self._vocabulary.token_bytes(token_id)
        except ValueError:
            return None

    def _only_way(self, before: bytes, data: bytes, count: int) -> list[Known] | None:
        """The one way to cut `data` into `count` tokens, each ending inside a character; None where there is none or more than one."""
        ends = [n for n in range(1, len(data) + 1) if _ends_inside_a_character(before + data[:n])]
        if len(data) not in ends:
            return None
        # ways[n] after k tokens: how many ways (2 means several) lead to offset n, and one of them.
        ways: dict[int, tuple[int, list[Known]]] = {0: (1, [])}
        for _ in range(count):
            after: dict[int, tuple[int, list[Known]]] = {}
            for start, (number, path) in ways.items():
                for end in ends:
                    if end <= start:
                        continue
                    ids = self._ids_of.get(data[start:end])
                    if not ids:
                        continue
                    total = after[end][0] if end in after else 0
                    after[end] = (min(2, total + number * len(ids)), [*path, Known(ids[0], data[start:end])])
            ways = after
        number, path = ways.get(len(data), (0, []))
        return path if number == 1 else None


def _ends_inside_a_character(text: bytes) -> bool:
    """Whether llama-server holds its events back after `text`: its rule looks at the last four bytes and at leads only."""
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
