"""Replacements for transformers' `TextStreamer` and its relatives (`generation/streamers.py`).

In: what `generate(streamer=…)` puts: first the prompt's ids, then each new one. Out: text, as soon
as it is certain, to `on_finalized_text`. Written from transformers' documented interface;
transformers is not needed to import it.

TextStreamer waits for a space or a line's end and decodes the whole line at each token. These hold
only text that can still change.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from queue import Queue
from types import SimpleNamespace
from typing import Any

from ..tokenizers.tokenizer import Decodes
from ..tokenizers.window import IncrementalDetokenizer


class TextStreamer:
    """`put` and `end`, called by `generate`; prints the text.

    With `skip_prompt` the prompt is not shown, but it is known: a space between it and the answer
    is kept, and a character that began in it is completed. `decode_kwargs` are those of the
    `decode` of `tokenizer`.
    """

    def __init__(
        self, tokenizer: Decodes, skip_prompt: bool = False, **decode_kwargs: object
    ) -> None:
        self.tokenizer = tokenizer
        self.skip_prompt = skip_prompt
        self.decode_kwargs = decode_kwargs
        self._stream: IncrementalDetokenizer | None = None

    def _begin(self, prompt_ids: list[int]) -> IncrementalDetokenizer:
        given: dict[str, Any] = self.decode_kwargs
        if set(given) <= {"skip_special_tokens", "clean_up_tokenization_spaces"}:
            return IncrementalDetokenizer(self.tokenizer, prompt_ids, **given)
        # Only the tokenizer itself knows these options, so its own `decode` gets them.
        tokenizer: Any = self.tokenizer
        asked = SimpleNamespace(decode=lambda ids: str(tokenizer.decode(ids, **given)))
        return IncrementalDetokenizer(asked, prompt_ids)

    def put(self, value: object) -> None:
        """Take ids, as a tensor or a list; a batch of one is allowed, more raises ValueError."""
        ids: Any = value.tolist() if hasattr(value, "tolist") else value
        ids = [ids] if isinstance(ids, int) else list(ids)
        if ids and isinstance(ids[0], (list, tuple)):
            if len(ids) > 1:
                raise ValueError(
                    f"{type(self).__name__} takes one answer, not a batch of {len(ids)}"
                )
            ids = list(ids[0])
        if self._stream is None and self.skip_prompt:
            self._stream = self._begin(ids)
            return
        if self._stream is None:
            self._stream = self._begin([])
        text = self._stream.feed(ids)
        if text:
            self.on_finalized_text(text)

    def end(self) -> None:
        """End the answer: what was held is shown. The next `put` begins another."""
        text = self._stream.flush() if self._stream is not None else ""
        self._stream = None
        self.on_finalized_text(text, stream_end=True)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """Print the text, and a newline at the end. Override it to do something else."""
        print(text, flush=True, end="\n" if stream_end else "")


class TextIteratorStreamer(TextStreamer):
    """The text as an iterator, for another thread than that of `generate`.

    Waiting longer than `timeout` seconds for a text raises `queue.Empty`. `text_queue` has the
    texts that are not read yet, and `stop_signal` at the end.
    """

    def __init__(
        self,
        tokenizer: Decodes,
        skip_prompt: bool = False,
        timeout: float | None = None,
        **decode_kwargs: object,
    ) -> None:
        super().__init__(tokenizer, skip_prompt, **decode_kwargs)
        self.text_queue: Queue[str | None] = Queue()
        self.stop_signal: None = None
        self.timeout = timeout

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """Put the text into the queue, and None at the end."""
        if text:
            self.text_queue.put(text, timeout=self.timeout)
        if stream_end:
            self.text_queue.put(self.stop_signal, timeout=self.timeout)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        value = self.text_queue.get(timeout=self.timeout)
        if value is self.stop_signal:
            raise StopIteration
        return str(value)


class AsyncTextIteratorStreamer(TextStreamer):
    """The text as an asynchronous iterator of the running loop, while `generate` is in a thread.

    Waiting longer than `timeout` seconds for a text raises TimeoutError. `text_queue` has the texts
    that are not read yet, and `stop_signal` at the end; it belongs to `loop`.
    """

    def __init__(
        self,
        tokenizer: Decodes,
        skip_prompt: bool = False,
        timeout: float | None = None,
        **decode_kwargs: object,
    ) -> None:
        super().__init__(tokenizer, skip_prompt, **decode_kwargs)
        self.text_queue: asyncio.Queue[str | None] = asyncio.Queue()
        self.stop_signal: None = None
        self.timeout = timeout
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """Put the text into the queue, and None at the end."""
        if text:
            self.loop.call_soon_threadsafe(self.text_queue.put_nowait, text)
        if stream_end:
            self.loop.call_soon_threadsafe(self.text_queue.put_nowait, self.stop_signal)

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        value = await asyncio.wait_for(self.text_queue.get(), self.timeout)
        if value is self.stop_signal:
            raise StopAsyncIteration
        return str(value)
