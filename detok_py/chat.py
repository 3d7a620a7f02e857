"""The whole way of an answer: ids or bytes in, typed deltas out.

In: what the detokenizer takes, cut anywhere. Out: deltas, text with its channel, as soon as they are certain. Held: what each part
holds: ids that may become a stop sequence, half a character, the end of a text that may become a stop, a tag or a marker.

The parts follow each other: ids (ends of text, stop sequences) → detokenizer → stops, tags and markers (segments.py). They
are flushed in this order too, each one's rest going through the later ones.
"""

from typing import Any, Iterable, Sequence

from .segments import STOP, Automaton, Channels, Delta, automaton
from .utf8 import ended

_NO_LIMIT = 1 << 60


class ChatStream:
    """An answer, from a detokenizer's input to deltas of content, reasoning and tool calls.

    `detokenizer` is a `Detokenizer` (chunks are ids), a `StreamingDetokenizer` (chunks are bytes), or anything with their methods.
    `stop` are strings that end the answer, in the content only unless `stop_scope` is "everywhere"; `include_stop` shows them.
    `eos_ids` end it too, in addition to those of the vocabulary, and are never shown. `stop_ids` are ids or sequences of ids that
    do the same as stop strings. The first `min_tokens` ids end nothing, and no stop string ends in their text; after
    `max_tokens` ids the answer is over.
    `reasoning`, `tools`, `start` and `trim_artifacts` are those of `Channels`. A tag that is a special token of the vocabulary is
    known by its id, whether special tokens are skipped or not; where it means nothing it is what it is anyway.

    `finish_reason` is None, then "stop", "eos" or "length"; what comes afterwards is dropped. `flush` ends the stream and returns what
    was held: an end of the answer that only looked like the beginning of a stop or tag is never lost. Only a stop discards what
    came behind it, half characters included.

    >>> from detok_py.utf8 import StreamingDetokenizer
    >>> c = ChatStream(StreamingDetokenizer(), stop=["\\nUser:"])
    >>> for chunk in (b"<think>2+2", b"</think>", b"It is 4 \\xf0\\x9f", b"\\x99\\x82\\nUs", b"er: thanks"):
    ...     print([tuple(delta) for delta in c.feed(chunk)])
    [('reasoning', '2+2')]
    []
    [('content', 'It is 4 ')]
    [('content', '🙂')]
    []
    >>> c.finish_reason, c.stopped, c.flush()
    ('stop', '\\nUser:', [])
    """

    __slots__ = (
        "_channels", "_counts", "_ended", "_eos", "_granted", "_left", "_node", "_plain", "_push", "_sequences", "_settings", "_shower",
        "_tags", "_taken", "_waiting", "_watched", "detokenizer", "finish_reason", "max_tokens", "min_tokens", "stopped",
    )  # fmt: skip

    def __init__(
        self,
        detokenizer: Any,
        stop: Any = (),
        eos_ids: Iterable[int] = (),
        reasoning: tuple[str, str] | None = ("<think>", "</think>"),
        tools: tuple[str, str] | None = ("<tool_call>", "</tool_call>"),
        start: str = "content",
        trim_artifacts: bool | Sequence[str] = True,
        *,
        stop_ids: Iterable[Any] = (),
        include_stop: bool = False,
        stop_scope: str = "content",
        min_tokens: int = 0,
        max_tokens: int | None = None,
    ) -> None:
        self.detokenizer = detokenizer
        self._push: Any = getattr(detokenizer, "push", None)  # None where it takes bytes
        self.min_tokens = min_tokens
        self.max_tokens = max_tokens
        eos = frozenset(eos_ids)
        sequences = tuple([_sequence(each) for each in stop_ids])
        if self._push is None and (eos or sequences or min_tokens or max_tokens is not None):
            raise ValueError(
                "eos_ids, stop_ids, min_tokens and max_tokens are about ids, and this detokenizer takes bytes; use stop strings, "
                "or a Detokenizer with a vocabulary"
            )
        if min_tokens < 0 or (max_tokens is not None and max_tokens < 0):
            raise ValueError("min_tokens and max_tokens count tokens: they are not negative")
        self._settings: tuple[Any, ...] = (stop, eos, reasoning, tools, start, trim_artifacts, sequences, include_stop, stop_scope)
        self._channels = Channels(
            stop,
            include_stop=include_stop,
            stop_scope=stop_scope,
            reasoning=reasoning,
            tools=tools,
            start=start,
            trim_artifacts=trim_artifacts,
        )
        vocabulary = getattr(detokenizer, "vocabulary", None)
        if vocabulary is not None:
            eos = eos | vocabulary.eos_ids
        self._eos = eos.difference([each[0] for each in sequences if len(each) == 1])
        words = tuple([(each, STOP) for each in sequences] + [((i,), STOP) for i in sorted(self._eos)])
        self._sequences: Automaton | None = automaton(words) if words else None
        self._tags: dict[int, str] = {}
        self._shower: Any = None
        if vocabulary is not None and getattr(detokenizer, "skip_special_tokens", False):
            for tag in (reasoning or ()) + (tools or ()):
                i = vocabulary.find(tag.encode())
                if i is not None:
                    self._tags[i] = tag
        self._watched = frozenset([each[0] for each, _ in words] + list(self._tags))
        self._begin()

    def _begin(self) -> None:
        self.finish_reason: str | None = None
        self.stopped: Any = None  # the stop string, or the sequence of ids, that ended the answer
        self._taken = 0  # ids taken when the ids were granted that may go straight to the detokenizer
        self._granted = self._left = 0
        self._node = 0
        self._waiting: list[int] = []  # the last ids taken, as long as they may become a stop sequence
        self._ended = False
        self._counts: dict[str, int] | None = None  # characters shown in each channel, once a mark was made
        self._rest()

    def _rest(self) -> None:
        """Count the ids that can go straight to the detokenizer, if they aren't watched; look what texts can pass as they are."""
        self._taken = self.tokens
        straight = not self._waiting and not self._node and self._taken >= self.min_tokens and self.finish_reason is None
        limit = _NO_LIMIT if self.max_tokens is None else self.max_tokens
        self._left = self._granted = max(0, limit - self._taken - 1) if straight and not self._ended and self._counts is None else 0
        self._plain = self._channels.plain

    def reset(self) -> None:
        """Forget everything, the detokenizer's prompt included, and begin a new answer."""
        self.detokenizer.reset()
        self._channels.reset()
        self._begin()

    @property
    def tokens(self) -> int:
        """How many ids were taken."""
        return self._taken + self._granted - self._left

    @property
    def channel(self) -> str:
        """The channel that the next character belongs to, as far as is known."""
        return self._channels.channel

    @property
    def calls(self) -> list[str]:
        """The text of every tool call that its close tag has ended."""
        return self._channels.calls

    @property
    def open_call(self) -> str | None:
        """The text, so far, of a tool call that no close tag has ended; None outside of one."""
        return self._channels.open_call

    @property
    def held(self) -> str:
        """The text that waits because it may become a stop, a tag or a marker; `detokenizer.held` are the bytes before it."""
        return self._channels.held

    def push(self, token_id: int) -> list[Delta]:
        """Take one id; return the deltas that are certain."""
        left = self._left - 1
        if left < 0 or token_id in self._watched:
            return self._slowly((token_id,))
        text = self._push(token_id)
        self._left = left
        delta = self._plain.get(text)
        return [delta] if delta is not None else self._deltas(text)

    def feed(self, chunk: Any) -> list[Delta]:
        """Take ids, or bytes where the detokenizer takes those; return the deltas that are certain.

        An id that is unknown raises VocabularyError, and the stream is as it was before the chunk.
        """
        if self._push is not None:
            if chunk.__class__ is not list and chunk.__class__ is not tuple:
                chunk = list(chunk)
            size = len(chunk)
            if size == 1:
                return self.push(chunk[0])
            if self._left < size or not self._watched.isdisjoint(chunk):
                return self._slowly(chunk)
            text = self.detokenizer.feed(chunk)
            self._left -= size
        elif self._left:
            text = self.detokenizer.feed(chunk)
        else:
            return self._slowly(chunk)
        delta = self._plain.get(text)
        return [delta] if delta is not None else self._deltas(text)

    def _deltas(self, text: str) -> list[Delta]:
        out: list[Delta] = []
        self._channels.take(text, out)
        self._plain = self._channels.plain
        if self._channels.stopped is not None:
            self._finish("stop", self._channels.stopped)
            self._rest()
        return out

    def _slowly(self, chunk: Any) -> list[Delta]:
        """Take a chunk in which something may end, or that may not be the whole chunk: id by id."""
        out: list[Delta] = []
        if self.finish_reason is not None or not len(chunk):
            return out
        if self._ended:
            ended("feeding it")
        self._taken, self._granted, self._left = self.tokens, 0, 0
        if self._push is not None:
            before = self.save() if hasattr(self.detokenizer, "save") else None
            try:
                for token_id in chunk:
                    self._one(token_id, out)
            except Exception:
                # Whole or not at all: what the ids before this one made certain would be lost with the exception.
                if before is not None:
                    self.load(before)
                raise
        else:
            self._channels.take(self.detokenizer.feed(chunk), out)
            if self._channels.stopped is not None:
                self._finish("stop", self._channels.stopped)
        self._rest()
        self._count(out)
        return out

    def _one(self, token_id: int, out: list[Delta]) -> None:
        """Take one id: it may end the answer, wait, or go on with those that have waited."""
        if self.finish_reason is None and self._is_full():
            self._finish("length")
        if self.finish_reason is not None:
            return
        self._taken += 1
        self._waiting.append(token_id)
        keep = 0
        if self._sequences is not None:
            silent = self.tokens <= self.min_tokens
            self._node, _, hit = self._sequences.scan(self._node, (token_id,), 0, silent)
            if hit is not None:
                sequence = hit[1]
                self._go_on(len(sequence), out)
                if self.finish_reason is None:
                    is_eos = len(sequence) == 1 and sequence[0] in self._eos
                    self._finish("eos" if is_eos else "stop", None if is_eos else sequence)
                return
            keep = self._sequences.keep(self._node, max(0, self.min_tokens - self.tokens))
        self._go_on(keep, out)
        if self.finish_reason is None and self._is_full():
            self._finish("length")

    def _is_full(self) -> bool:
        return self.max_tokens is not None and self.tokens >= self.max_tokens

    def _go_on(self, keep: int, out: list[Delta]) -> None:
        """Hand over all waiting ids but the last `keep`."""
        index = self.tokens - len(self._waiting)
        while len(self._waiting) > keep and self.finish_reason is None:
            index += 1
            text = self._decode(self._waiting.pop(0))
            self._channels.take(text, out, index <= self.min_tokens, index < self.min_tokens)
            if self._channels.stopped is not None:
                self._finish("stop", self._channels.stopped)

    def _decode(self, token_id: int) -> str:
        tag = self._tags.get(token_id)
        if tag is None or not self._channels.expects(tag):
            return str(self.detokenizer.push(token_id))
        # A tag that would be skipped is shown this once, so that it ends what came before it as any text does: a half character
        # or a byte run doesn't go on behind a tag.
        hidden = self.detokenizer
        if self._shower is None:
            self._shower = hidden.__class__(
                hidden.vocabulary,
                skip_special_tokens=False,
                byte_fallback=hidden.byte_fallback,
                errors=hidden.errors,
                unknown=hidden.unknown,
                spans=_records_spans(hidden),
                clean_up_tokenization_spaces=hidden.clean_up,
                spaces_between_special_tokens=hidden.apart,
            )
        self._shower.load(hidden.save())
        text = self._shower.push(token_id)
        hidden.load(self._shower.save())
        return str(text)

    def _finish(self, reason: str, stopped: Any = None) -> None:
        self.finish_reason = reason
        if reason == "stop":
            self.stopped = stopped
            self._waiting = []
            self._node = 0
        elif reason == "eos":
            self._waiting = []

    def _count(self, out: list[Delta]) -> None:
        if self._counts is not None:
            for channel, text in out:
                self._counts[channel] = self._counts.get(channel, 0) + len(text)

    def flush(self) -> list[Delta]:
        """End the stream; return what was held. Until `reset`, a further `feed` raises StreamEndedError."""
        out: list[Delta] = []
        if self._ended:
            return out
        if self.finish_reason == "stop":
            try:
                self.detokenizer.flush()  # what came behind the stop
            except UnicodeError:
                pass
            self._channels.end(out)
        else:
            self._go_on(0, out)
            if self.finish_reason != "stop":
                self._channels.take(self.detokenizer.flush(), out, 0 < self.tokens <= self.min_tokens)
            if self._channels.stopped is not None:
                self._finish("stop", self._channels.stopped)
            self._channels.end(out)
        self._ended = True
        self._rest()
        self._count(out)
        return out

    def mark(self) -> Any:
        """Return a mark of this moment for `rollback`: before ids that a draft model guessed, say."""
        if self._counts is None:
            self._counts = {}
            self._rest()
        return self.save()

    def rollback(self, mark: Any) -> dict[str, int]:
        """Go back to `mark`; return how many characters, shown since then, are to be taken back from each channel's end.

        Channels with nothing to take back are left out.
        """
        then = mark[-1] or {}
        back = {}
        for channel, count in (self._counts or {}).items():
            back[channel] = count - then.get(channel, 0)
        for count in back.values():
            if count < 0:
                raise ValueError("this mark lies ahead of the stream: it was made after what has been rolled back")
        self.load(mark)
        return {channel: count for channel, count in back.items() if count}

    def save(self) -> tuple[Any, ...]:
        """Return the whole state, the detokenizer's included, as plain values."""
        counts = None if self._counts is None else dict(self._counts)
        own = (self._node, tuple(self._waiting), self.tokens, self.finish_reason, self.stopped, self._ended)
        return self.detokenizer.save(), self._channels.save(), own, counts

    def load(self, state: Any) -> None:
        """Take a state that `save` of a ChatStream made alike returned, or what JSON made of it."""
        self.detokenizer.load(state[0])
        self._channels.load(state[1])
        self._node, waiting, self._taken, self.finish_reason, stopped, self._ended = state[2]
        self._granted = self._left = 0
        self._waiting = list(waiting)
        self.stopped = tuple(stopped) if stopped.__class__ is list else stopped
        self._counts = None if state[3] is None else dict(state[3])
        self._rest()

    def copy(self) -> "ChatStream":
        """Return an independent ChatStream in the same state: for n > 1, and for beams."""
        stop, eos, reasoning, tools, start, trim_artifacts, sequences, include_stop, stop_scope = self._settings
        other = ChatStream(
            self.detokenizer.copy(),
            stop,
            eos,
            reasoning,
            tools,
            start,
            trim_artifacts,
            stop_ids=sequences,
            include_stop=include_stop,
            stop_scope=stop_scope,
            min_tokens=self.min_tokens,
            max_tokens=self.max_tokens,
        )
        other.load(self.save())
        return other


def _sequence(ids: Any) -> tuple[Any, ...]:
    try:
        return tuple(ids)
    except TypeError:  # one id
        return (ids,)


def _records_spans(detokenizer: Any) -> bool:
    try:
        return detokenizer.spans is not None
    except ValueError:
        return False


def strip_thinking(text: str, open: str = "<think>", close: str = "</think>") -> str:
    """Return a whole text without its reasoning: the content that a ChatStream with these tags would give.

    The first `open` begins it, the first `close` after that ends it, all later tags are text; reasoning that is never closed goes to
    the end. White space and tool calls stay.

    >>> strip_thinking("<think>2+2 is 4</think>Four."), strip_thinking("a <b> c"), strip_thinking("So <think>far")
    ('Four.', 'a <b> c', 'So ')
    """
    channels = Channels(reasoning=(open, close), tools=None, trim_artifacts=False)
    return "".join([delta.text for delta in channels.feed(text) + channels.flush() if delta.channel == "content"])
