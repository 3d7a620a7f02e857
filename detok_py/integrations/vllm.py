"""A replacement for vLLM's `IncrementalDetokenizer` (`vllm/v1/engine/detokenizer.py`).

In: a request, and the ids of each step, by `update`. Out: text, by `get_next_output_text`, and the
stop string that was found. Written from vLLM's interface; vLLM is not needed to import it.

    import vllm.v1.engine.output_processor as output_processor
    output_processor.IncrementalDetokenizer = IncrementalDetokenizer

vLLM calls `from_new_request` in the process that answers requests, so it is set there, before the
engine is made.
"""

from collections.abc import Sequence
from typing import Protocol

from ..decode.chat import ChatStream
from ..decode.stage import Delta
from ..tokenizers import window
from ..tokenizers.tokenizer import Decodes


class SamplingParams(Protocol):
    """What is read of vLLM's `SamplingParams`."""

    @property
    def stop(self) -> str | list[str] | None:
        """The strings that end the text."""

    @property
    def include_stop_str_in_output(self) -> bool:
        """Whether the stop is shown."""

    @property
    def min_tokens(self) -> int:
        """How many ids must come before the text can end."""

    @property
    def skip_special_tokens(self) -> bool:
        """Whether special tokens are left out."""


class Request(Protocol):
    """What is read of vLLM's `EngineCoreRequest`."""

    @property
    def prompt_token_ids(self) -> list[int] | None:
        """The prompt; None if it has no ids."""

    @property
    def sampling_params(self) -> SamplingParams | None:
        """The options of the text."""


class IncrementalDetokenizer:
    """`from_new_request`, `update`, `get_next_output_text`, `output_token_ids`,
    `num_output_tokens`, `output_text` and `token_ids` of vLLM's.

    Of stop strings that end at the same character, the first of the list counts. Only the end that
    can still become a stop is held, not as many characters as the longest stop has.
    `spaces_between_special_tokens` is ignored: the text is that of the tokenizer's `decode`.

    >>> from types import SimpleNamespace
    >>> class Letters:
    ...     def decode(self, ids, skip_special_tokens=True):
    ...         return bytes(ids).decode("utf-8", "replace")
    >>> params = SimpleNamespace(
    ...     stop=["STOP"], include_stop_str_in_output=False, min_tokens=0, skip_special_tokens=True
    ... )
    >>> request = SimpleNamespace(prompt_token_ids=[0x41], sampling_params=params)
    >>> d = IncrementalDetokenizer.from_new_request(Letters(), request)
    >>> d.update([0xC3], False), d.update([0xA9, 0x53], False), d.get_next_output_text(False, True)
    (None, None, 'é')
    >>> d.update(list(b"TOP, no more"), False), d.get_next_output_text(True, True), d.output_text
    ('STOP', '', 'é')
    """

    def __init__(self, tokenizer: Decodes | None = None, request: Request | None = None) -> None:
        self.token_ids: list[int] = []
        self.output_text: str = ""
        self._sent = 0  # characters of the text that were returned as a delta
        self._chat: ChatStream | None = None
        params = request.sampling_params if request is not None else None
        if tokenizer is None or request is None or params is None:
            return
        stream = window.IncrementalDetokenizer(
            tokenizer,
            request.prompt_token_ids or (),
            skip_special_tokens=params.skip_special_tokens,
        )
        self._keeps_stop = params.include_stop_str_in_output
        stop = params.stop or ()
        self._stops = [stop] if isinstance(stop, str) else list(stop)
        self._chat = ChatStream(
            stream,
            self._stops,
            reasoning=None,
            tools=None,
            trim_artifacts=False,
            include_stop=params.include_stop_str_in_output,
            min_tokens=params.min_tokens,
        )

    @classmethod
    def from_new_request(
        cls, tokenizer: Decodes | None, request: Request
    ) -> "IncrementalDetokenizer":
        """Return the detokenizer of a request; without a tokenizer it only keeps the ids."""
        return cls(tokenizer, request)

    @property
    def output_token_ids(self) -> list[int]:
        """The ids so far; those behind a stop string are not among them."""
        return self.token_ids

    def num_output_tokens(self) -> int:
        """Return how many ids came so far."""
        return len(self.token_ids)

    def update(self, new_token_ids: Sequence[int], stop_terminated: bool) -> str | None:
        """Take the ids of a step; return the stop string that was found, None if none was.

        With `stop_terminated` the last id is one that ended the text. It is shown only if stops
        are.
        """
        chat = self._chat
        if chat is None:
            self.token_ids += new_token_ids
            return None
        shown = len(new_token_ids) - (stop_terminated and not self._keeps_stop)
        for i in new_token_ids[:shown]:
            self.token_ids.append(i)
            self._show(chat.push(i))
            if chat.stopped is not None:
                return self._first_listed(str(chat.stopped))
        self.token_ids += new_token_ids[max(shown, 0) :]
        return None

    def get_next_output_text(self, finished: bool, delta: bool) -> str:
        """Return the text so far, or with `delta` what is new of it. With `finished` it is
        complete.
        """
        if finished and self._chat is not None:
            self._show(self._chat.flush())
        text = self.output_text[self._sent :] if delta else self.output_text
        if delta:
            self._sent = len(self.output_text)
        return text

    def _first_listed(self, stop: str) -> str:
        """Return the first listed stop string that ends where `stop` does, and show the part of
        `stop` before it. `stop` begins earliest, so all of these are suffixes of it.
        """
        first = next(each for each in self._stops if each and stop.endswith(each))
        if not self._keeps_stop:
            self.output_text += stop[: len(stop) - len(first)]
        return first

    def _show(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            self.output_text += delta.text
