"""A replacement for the streaming detokenizers of mlx-lm (`mlx_lm/tokenizer_utils.py`).

In: ids, by `add_token`. Out: `text`, all of it so far, and `last_segment`, what is new since it was
last read. Written from mlx-lm's documented interface; mlx-lm is not needed to import it.

    from mlx_lm.tokenizer_utils import TokenizerWrapper
    tokenizer = TokenizerWrapper(tokenizer, StreamingDetokenizer)
"""

from ..tokenizers.tokenizer import Decodes
from ..tokenizers.window import IncrementalDetokenizer


class StreamingDetokenizer:
    """`reset`, `add_token`, `finalize`, `text`, `tokens`, `last_segment` and `offset` of mlx-lm.

    After `finalize`, `text` is `tokenizer.decode(tokens)`. Before it, no text is shown that could
    still change.

    >>> class Letters:
    ...     def decode(self, ids):
    ...         return bytes(ids).decode("utf-8", "replace")
    >>> d = StreamingDetokenizer(Letters())
    >>> d.add_token(0xC3), d.last_segment, d.add_token(0xA9), d.last_segment, d.text
    (None, '', None, 'é', 'é')
    """

    __slots__ = ("_parts", "_stream", "_tokenizer", "offset", "tokens")

    def __init__(self, tokenizer: Decodes) -> None:
        self._tokenizer = tokenizer
        self.reset()

    def reset(self) -> None:
        """Forget everything and begin a new text."""
        self._stream = IncrementalDetokenizer(self._tokenizer)
        self._parts: list[str] = []
        self.tokens: list[int] = []
        self.offset: int = 0

    def add_token(self, token: int) -> None:
        """Take an id."""
        text = self._stream.push(token)
        self.tokens.append(token)
        if text:
            self._parts.append(text)

    def finalize(self) -> None:
        """End the text: what was held is in `text` now."""
        self._parts.append(self._stream.flush())

    @property
    def text(self) -> str:
        """All the text so far."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    @property
    def last_segment(self) -> str:
        """The text since this was last read."""
        text = self.text
        segment = text[self.offset :]
        self.offset = len(text)
        return segment
