"""A stream of ids or bytes as a stream of text, for `for` and `async for`.

In: an iterable or async iterable of ids, lists of ids, or bytes. Out: text, as soon as it is
certain, never empty; at the end what was held. Nothing is read ahead.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from ..decode.detokenizer import Detokenizer
from ..decode.utf8 import StreamingDetokenizer, check_errors
from ..errors import VocabularyError

Chunk = int | Iterable[int] | bytes


class TextStream:
    """The text of a stream, as `Tokenizer.stream` returns it. Each loop over it begins a new text.

    `chunks` yields ids, lists of ids, or bytes; not bytes and ids in one stream. `make` returns the
    detokenizer of a new text. An id that is not in the vocabulary raises VocabularyError, after the
    text of the chunks before its own.
    """

    def __init__(
        self, chunks: Iterable[Chunk] | AsyncIterable[Chunk], make: Callable[[], Detokenizer]
    ) -> None:
        if isinstance(chunks, str) or not (
            hasattr(chunks, "__iter__") or hasattr(chunks, "__aiter__")
        ):
            raise TypeError(
                f"a stream is an iterable of ids, lists of ids or bytes, not {type(chunks).__name__}"
            )
        # Bytes are one chunk: iterating over them yields numbers, which are not ids.
        is_bytes = isinstance(chunks, (bytes, bytearray, memoryview))
        self._chunks: Any = [chunks] if is_bytes else chunks
        self._make = make

    def __iter__(self) -> Iterator[str]:
        if not hasattr(self._chunks, "__iter__"):
            raise TypeError("these chunks come asynchronously: loop over their text by `async for`")
        feed, flush = _stages(self._make)
        for chunk in self._chunks:
            text = feed(chunk)
            if text:
                yield text
        text = flush()
        if text:
            yield text

    async def __aiter__(self) -> AsyncIterator[str]:
        if not hasattr(self._chunks, "__aiter__"):
            for text in self:
                yield text
            return
        feed, flush = _stages(self._make)
        async for chunk in self._chunks:
            text = feed(chunk)
            if text:
                yield text
        text = flush()
        if text:
            yield text


def _stages(make: Callable[[], Detokenizer]) -> tuple[Callable[[Any], str], Callable[[], str]]:
    """Return `feed` and `flush` of a new text."""
    ids = make()
    data = StreamingDetokenizer(check_errors(ids.settings.errors))
    kinds: set[bool] = set()  # whether chunks were bytes

    def feed(chunk: Any) -> str:
        is_bytes = isinstance(chunk, (bytes, bytearray, memoryview))
        kinds.add(is_bytes)
        if len(kinds) > 1:
            raise VocabularyError("a stream is of ids or of bytes, and this one mixes them")
        if is_bytes:
            return data.feed(chunk)
        try:
            many = iter(chunk)
        except TypeError:  # one id, or what `push` refuses
            return ids.push(chunk)
        return ids.feed(many)

    return feed, lambda: ids.flush() + data.flush()
