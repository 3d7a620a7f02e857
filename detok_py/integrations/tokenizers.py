"""In the place of `tokenizers.decoders.DecodeStream`.

In: a tokenizer (Hugging Face `tokenizers`, or any with `decode(ids)`) and ids, step by step. Out:
text or None. Held: what the decoder rules hold; `flush` returns it at the end, which DecodeStream
has no method for.
"""

from collections.abc import Iterable

from ..tokenizers.tokenizer import Decodes
from ..tokenizers.window import IncrementalDetokenizer


class DecodeStream:
    """`step` as DecodeStream's, and `flush`.

    `ids` are those of a prompt, which are not shown; they are `prompt_ids` then. With
    `skip_special_tokens` special tokens give no text. A stream belongs to the tokenizer of its first
    step. Unlike DecodeStream it shows characters before a bad byte at once, and loses no text at the
    end; its joined text is that of the tokenizer's `decode`.

    >>> class Letters:
    ...     def decode(self, ids, skip_special_tokens=True):
    ...         return bytes(ids).decode("utf-8", "replace")
    >>> stream, letters = DecodeStream(), Letters()
    >>> stream.step(letters, 0xC3), stream.step(letters, 0xA9), stream.step(letters, 0xF0), stream.flush()
    (None, 'é', None, '\\ufffd')
    """

    def __init__(self, ids: Iterable[int] | None = None, skip_special_tokens: bool = False) -> None:
        self.prompt_ids = list(ids or ())
        self.skip_special_tokens = skip_special_tokens
        self._tokenizer: Decodes | None = None
        self._stream: IncrementalDetokenizer | None = None

    def step(self, tokenizer: Decodes, id: int | list[int]) -> str | None:
        """Take an id, or a list of them; return the text that it makes certain, None if none."""
        if self._stream is None:
            self._tokenizer = tokenizer
            self._stream = IncrementalDetokenizer(
                tokenizer, self.prompt_ids, skip_special_tokens=self.skip_special_tokens
            )
        elif tokenizer is not self._tokenizer:
            raise ValueError("a stream belongs to one tokenizer; make a new one for another")
        stream = self._stream
        return (stream.feed(id) if isinstance(id, list) else stream.push(id)) or None

    def flush(self) -> str | None:
        """End the stream; return what was held, None if nothing was."""
        return (self._stream.flush() if self._stream is not None else "") or None
