"""The stream of a chat completion (openai-python, or its JSON) as deltas of a ChatStream.

In: chunks of `client.chat.completions.create(stream=True)`, sync or async: objects or dicts. Out:
`Delta`s, with stops, reasoning tags, tool-call tags and artifacts found in any chunking. With
`TextStage`, a ChatStream takes text. openai is not needed to import this module.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..decode.channels import REASONING
from ..decode.chat import ChatStream
from ..decode.stage import Delta
from ..decode.utf8 import ended
from ..errors import DetokError

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from .. import ChatFormat
    from ..decode.channels import StopScope
    from ..decode.chat import ChatStart

    class Options(TypedDict, total=False):
        """The options of `ChatStream` that text can have: `stop`, `reasoning`, `tools`, `start`,
        `trim_artifacts`, `include_stop`, `stop_scope`, `format` and `tool_schemas`.
        """

        stop: str | Iterable[str] | None
        reasoning: str | Sequence[str | Sequence[str]] | None
        tools: Sequence[str | Sequence[str | None] | None] | None
        start: ChatStart
        trim_artifacts: bool | Sequence[str]
        include_stop: bool
        stop_scope: StopScope
        format: str | ChatFormat | None
        tool_schemas: Iterable[dict[str, Any]] | str | None


class TextStage:
    """The first stage of a ChatStream whose input is text.

    A string of JSON can be cut between the halves of a surrogate pair. So the first half at the end
    of a chunk is held, and joined with the second; a half alone becomes U+FFFD. All other text is
    certain at once.

    >>> chat = ChatStream(TextStage(), stop=["STOP"])
    >>> [
    ...     tuple(delta)
    ...     for delta in chat.feed("<think>hm</thi")
    ...     + chat.feed("nk>so \\ud83d")
    ...     + chat.feed("\\ude00ST")
    ... ]
    [('reasoning', 'hm'), ('content', 'so '), ('content', '😀')]
    """

    held_bytes = b""
    """Always empty: the input is text."""

    def __init__(self) -> None:
        self.reset()

    def __repr__(self) -> str:
        return f"<TextStage, held {self.held_text!r}>"

    def reset(self) -> None:
        """Forget everything and begin a new text."""
        self.held_text: str = ""
        self._ended = False

    def feed(self, text: str) -> str:
        """Take text; return what is certain of it."""
        if not isinstance(text, str):
            raise TypeError(f"TextStage takes str, not {type(text).__name__}")
        if self._ended and text:
            ended("feeding it")
        text = self.held_text + text
        cut = len(text) - ("\ud800" <= text[-1:] <= "\udbff")
        self.held_text = text[cut:]
        return joined(text[:cut])

    def flush(self) -> str:
        """End the text; return U+FFFD if half a pair is held."""
        text, self.held_text, self._ended = joined(self.held_text), "", True
        return text

    def save(self) -> tuple[str, bool]:
        """Return the state."""
        return self.held_text, self._ended

    def load(self, state: tuple[str, bool]) -> None:
        """Take a state that `save` returned."""
        self.held_text, self._ended = state

    def copy(self) -> "TextStage":
        """Return an independent stage in the same state."""
        other = TextStage()
        other.load(self.save())
        return other


def joined(text: str) -> str:
    """Return text with its surrogate pairs joined, and U+FFFD for each half alone.

    >>> joined("a\\ud83d\\ude00\\ude00")
    'a😀�'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class ServerError(DetokError):
    """The server sent an error in place of the rest of an answer; `error` is what it sent."""

    def __init__(self, error: object) -> None:
        message = _get(error, "message") or error
        super().__init__(f"the server ended the answer with an error: {message}")
        self.error: object = error


class ChatDeltas:
    """The deltas of one answer of a chat completion: loop over it with `for` or `async for`.

    `index` is the choice that is read, and the options are those of `ChatStream`. Reasoning that
    the server has in a field of its own (`reasoning_content`, `reasoning`) is a delta of that
    channel; what it sends there is not searched for tags or stops. Tool calls that the server has
    parsed (`delta.tool_calls`) are not read: take them from the chunks. `chat` is the ChatStream;
    `finish_reason` is that of `chat`, or else the server's. A chunk with an `error` raises
    ServerError, after the deltas of all that came before it. Anything but a chunk, such as text,
    raises TypeError.
    """

    def __init__(
        self,
        chunks: Iterable[object] | AsyncIterable[object],
        *,
        index: int = 0,
        **options: "Unpack[Options]",
    ) -> None:
        self.chat: ChatStream[str] = ChatStream(TextStage(), **options)
        self._chunks: Any = chunks
        self._thoughts = TextStage()
        self._index = index
        self._reason: str | None = None
        self._error: ServerError | None = None

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ended, None before it has."""
        return self.chat.finish_reason or self._reason

    def _feed(self, chunk: object) -> list[Delta]:
        out: list[Delta] = []
        if not isinstance(chunk, dict) and not (
            hasattr(chunk, "choices") or hasattr(chunk, "error")
        ):
            raise TypeError(
                f"ChatDeltas reads chunks of a chat completion, not {repr(chunk)[:40]}; ChatStream(TextStage()) reads text"
            )
        for choice in _get(chunk, "choices") or ():
            if _get(choice, "index", 0) != self._index:
                continue
            self._reason = _get(choice, "finish_reason") or self._reason
            delta = _get(choice, "delta")
            thought = _get(delta, "reasoning_content") or _get(delta, "reasoning")
            if thought and self.chat.finish_reason is None:
                out += _reasoning(self._thoughts.feed(thought))
            out += self.chat.feed(_get(delta, "content") or "")
        error = chunk if _get(chunk, "object") == "error" else _get(chunk, "error")
        if error is not None:
            self._error = ServerError(error)
            out += self._flush()
        return out

    def _flush(self) -> list[Delta]:
        return _reasoning(self._thoughts.flush()) + self.chat.flush()

    def __iter__(self) -> Iterator[Delta]:
        for chunk in self._chunks:
            yield from self._feed(chunk)
            if self._error is not None:
                raise self._error
        yield from self._flush()

    async def __aiter__(self) -> AsyncIterator[Delta]:
        async for chunk in self._chunks:
            for delta in self._feed(chunk):
                yield delta
            if self._error is not None:
                raise self._error
        for delta in self._flush():
            yield delta


def _reasoning(text: str) -> list[Delta]:
    return [Delta(REASONING, text)] if text else []


def _get(value: Any, name: str, default: Any = None) -> Any:
    if isinstance(value, dict):
        return value.get(name, default)
    return getattr(value, name, default)
