"""A replacement for `tokenizers.decoders.DecodeStream`.

In: a tokenizer (Hugging Face `tokenizers`, or any with `decode(ids)`) and ids, step by step. Out:
text or None. Held: as in DecodeStream, a text that still ends in U+FFFD; `flush`, which
DecodeStream lacks, returns it at the end.
"""

from collections.abc import Iterable

from ..decode.stage import common
from ..decode.vocabulary import as_id, as_ids
from ..errors import VocabularyError
from ..tokenizers.tokenizer import Decodes
from ..tokenizers.window import REPLACEMENT, IncrementalDetokenizer


class DecodeStream:
    """`step` as in DecodeStream, and `flush`.

    `ids` are those of a prompt, which are not shown. With `skip_special_tokens` special tokens give
    no text. A stream belongs to the tokenizer of its first step; `copy.copy` gives an independent
    one. A step gives all text that DecodeStream would give, and characters before a bad byte at
    once. So a run of byte tokens is shown before it ends: if a bad byte follows, which turns the
    whole run into U+FFFD, what is shown stays, and its bytes get no U+FFFD. Otherwise, the joined
    text is that of the tokenizer's `decode`.

    >>> class Letters:
    ...     def decode(self, ids, skip_special_tokens=True):
    ...         return bytes(ids).decode("utf-8", "replace")
    >>> stream, letters = DecodeStream(), Letters()
    >>> (
    ...     stream.step(letters, 0xC3),
    ...     stream.step(letters, 0xA9),
    ...     stream.step(letters, 0xF0),
    ...     stream.flush(),
    ... )
    (None, 'é', None, '\\ufffd')
    """

    def __init__(self, ids: Iterable[int] | None = None, skip_special_tokens: bool = False) -> None:
        self._prompt_ids = as_ids(() if ids is None else ids)
        self._skips = skip_special_tokens
        self._tokenizer: Decodes | None = None
        self._stream: IncrementalDetokenizer | None = None
        self._ahead = ""  # what is shown of the text that the stream holds

    def step(self, tokenizer: Decodes, id: int | Iterable[int]) -> str | None:
        """Take an id, or several; return the text that there is now, None if there is none."""
        if self._stream is None:
            self._tokenizer = tokenizer
            self._stream = IncrementalDetokenizer(
                tokenizer, self._prompt_ids, skip_special_tokens=self._skips
            )
        elif tokenizer is not self._tokenizer:
            raise ValueError("a stream belongs to one tokenizer; make a new one for another")
        text = self._without_shown(self._stream.feed(_ids(id)))
        if self._stream.held:
            held = self._stream.copy().flush()
            if held.startswith(self._ahead) and not held.endswith(REPLACEMENT):
                text += held[len(self._ahead) :]
                self._ahead = held
        return text or None

    def flush(self) -> str | None:
        """End the text; return what was held, None if nothing was."""
        if self._stream is None:
            return None
        return self._without_shown(self._stream.flush()) or None

    def _without_shown(self, text: str) -> str:
        """Return `text`, which comes next in the stream, without what is shown of it already."""
        same = common(self._ahead, text)
        gone, text = self._ahead[same:], text[same:]
        self._ahead = gone
        if gone and text:
            # The run of byte tokens turned bad: U+FFFD for each byte, also of what is shown.
            self._ahead = ""
            bad = len(text) - len(text.lstrip(REPLACEMENT))
            text = text[min(len(gone.encode()), bad) :]
        return text

    def __copy__(self) -> "DecodeStream":
        other = DecodeStream(self._prompt_ids, self._skips)
        other._tokenizer = self._tokenizer
        other._stream = None if self._stream is None else self._stream.copy()
        other._ahead = self._ahead
        return other

    def __deepcopy__(self, memo: object) -> "DecodeStream":
        return self.__copy__()


def _ids(ids: int | Iterable[int]) -> list[int]:
    try:
        return [as_id(ids)]  # type: ignore[arg-type]
    except VocabularyError:  # several ids, or a value that `as_ids` refuses
        return as_ids(ids)  # type: ignore[arg-type]
