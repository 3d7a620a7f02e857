"""A chat answer: ids or bytes in, typed deltas out.

In: what the detokenizer takes, cut anywhere. Out: deltas, text with its channel, as soon as they
are certain. Held: what each part holds: ids that may become a stop sequence, part of a character,
an end of the text that may become a stop, a tag or an artifact.

The parts, in order: ids (ends of text, stop sequences) → detokenizer → stops, tags and artifacts
(channels.py). They are flushed in this order too; what one part still held goes through the later
ones.
"""

from typing import TYPE_CHECKING, Any, Iterable, Never, Protocol, Sequence

from .channels import CONTENT, EVERY, Channels, Delta
from .stage import renamed
from .stop_strings import stop_words
from .utf8 import ended
from .vocabulary import as_id, id_list, id_set
from .word_search import STOP, WordSearch

if TYPE_CHECKING:
    from .channels import Saved as SavedChannels

    # The state of the detokenizer, of the channels, its own; the characters shown in each channel.
    Saved = tuple[
        object,
        SavedChannels,
        tuple[int, tuple[int, ...], int, str | None, object, bool],
        dict[str, int] | None,
    ]

_NO_LIMIT = 1 << 60


class TextSource(Protocol):
    """What a ChatStream reads from: a stage that makes text of chunks of ids, bytes or text."""

    def feed(self, __chunk: Never) -> str:
        """Take a chunk; return the text that it makes certain."""

    def flush(self) -> str:
        """End the stream; return what was held."""


class ChatStream:
    """An answer, from a detokenizer's input to deltas of content, reasoning and tool calls.

    `detokenizer` is a `Detokenizer` (chunks are ids), a `StreamingDetokenizer` (chunks are bytes),
    or anything with their methods. `stop` are strings that end the answer, in the content only
    unless `stop_scope` is "everywhere"; `include_stop` shows them. `eos_ids` end it too, in
    addition to those of the vocabulary, and are never shown; with None no id ends it. `stop_ids` are
    ids, or sequences of ids, that end it as stop strings do: a sequence that begins outside of the
    content is none unless `stop_scope` is "everywhere". Within the first `min_tokens` ids nothing ends the answer,
    neither an id nor a stop string in their text; after `max_tokens` ids the answer is over.
    `reasoning`, `tools`, `start` and `trim_artifacts` are those of `Channels`. A tag that is a
    special token of the vocabulary is recognised by its id, even if special tokens are skipped.
    Elsewhere it is an ordinary token.

    `finish_reason` is None, then "stop", "eos" or "length"; later input is dropped, and `tokens` does
    not count it. What ends the answer makes all text certain: the call that takes it returns what
    was held. `flush` does so where the input just ends. So an end of the answer that only looked like
    the beginning of a stop or tag is not lost, and neither is part of a character before an id that
    ends the answer. A stop string discards what came after it, part of a character included.

    >>> from detok_py.decode.utf8 import StreamingDetokenizer
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

    def __init__(
        self,
        detokenizer: TextSource,
        stop: str | Iterable[str] | None = (),
        eos_ids: Iterable[int] | None = (),
        reasoning: str | Sequence[str | Sequence[str]] | None = ("<think>", "</think>"),
        tools: Sequence[str | Sequence[str | None] | None] | None = ("<tool_call>", "</tool_call>"),
        start: str = "content",
        trim_artifacts: bool | Sequence[str] = True,
        *,
        stop_ids: Iterable[int | Iterable[int]] = (),
        include_stop: bool = False,
        stop_scope: str = "content",
        min_tokens: int = 0,
        max_tokens: int | None = None,
    ) -> None:
        if not hasattr(detokenizer, "feed"):
            raise TypeError(
                f"ChatStream reads from a detokenizer, not {detokenizer.__class__.__name__}; a Tokenizer makes one: tokenizer.detokenizer()"
            )
        self.detokenizer: Any = detokenizer
        self._push: Any = getattr(detokenizer, "push", None)  # None if it takes bytes
        self.min_tokens = min_tokens
        self.max_tokens = max_tokens
        eos = id_set(() if eos_ids is None else eos_ids, "eos_ids")
        self._stop_ids = tuple([_sequence(each) for each in id_list(stop_ids, "stop_ids")])
        if self._push is None and (eos or self._stop_ids or min_tokens or max_tokens is not None):
            raise ValueError(
                "eos_ids, stop_ids, min_tokens and max_tokens need a detokenizer that takes ids; this one takes bytes."
            )
        if min_tokens < 0 or (max_tokens is not None and max_tokens < 0):
            raise ValueError("min_tokens and max_tokens must not be negative.")
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
        if vocabulary is not None and eos_ids is not None:
            eos = eos | vocabulary.eos_ids
        self._eos = eos.difference([each[0] for each in self._stop_ids if len(each) == 1])
        sequences = list(self._stop_ids) + [(i,) for i in sorted(self._eos)]
        self._search = WordSearch.shared(tuple([(each, STOP) for each in sequences]))
        self._tags: dict[int, str] = {}  # tags that are special tokens which are skipped
        self._showing: Any = None  # the same detokenizer, but one that shows special tokens
        if vocabulary is not None and getattr(detokenizer, "skip_special_tokens", False):
            for tag in self._channels.tags:
                i = vocabulary.find(tag.encode())
                if i is not None:
                    self._tags[i] = tag
        self._watched = self._search.first.union(self._tags)
        options = self._channels.options
        self._everywhere = options["stop_scope"] == "everywhere"
        self._shows_stop = options["include_stop"]
        # Whether a text may end the answer, so that it matters which id it came from.
        self._stops_in_text = bool(stop_words(options["stop"]))
        self._begin()

    def _begin(self) -> None:
        self.finish_reason: str | None = None
        self.stopped: Any = None  # the stop string, or the sequence of ids, that ended the answer
        # Ids counted when the fast path was last checked; how many more could take it, and can.
        self._taken = self._fast_limit = self._fast_left = 0
        self._state = 0
        self._waiting: list[int] = []  # the last ids, as long as they may become a stop sequence
        self._ended = False
        # Characters shown in each channel, once a mark was made.
        self._counts: dict[str, int] | None = None
        self._set_fast_path()

    def _set_fast_path(self) -> None:
        """Count the ids that can go straight to the detokenizer if they are not watched, and look
        up which texts pass the channels unchanged.
        """
        self._taken = self.tokens
        self._fast_limit = 0
        pending = self._waiting or self._state or self._taken < self.min_tokens
        over = self.finish_reason is not None or self._ended
        if not pending and not over and self._counts is None:
            limit = _NO_LIMIT if self.max_tokens is None else self.max_tokens
            self._fast_limit = max(0, limit - self._taken - 1)
        self._fast_left = self._fast_limit
        self._plain = self._channels.plain

    def reset(self, prompt_ids: Iterable[int] = ()) -> None:
        """Forget everything, the detokenizer's prompt included, and begin a new answer, after
        `prompt_ids`.
        """
        ids = list(prompt_ids)
        if ids and self._push is None:
            raise ValueError("prompt_ids need a detokenizer that takes ids; this one takes bytes.")
        self.detokenizer.reset(*([ids] if ids else []))
        self._channels.reset()
        self._begin()

    @property
    def tokens(self) -> int:
        """How many ids were taken."""
        return self._taken + self._fast_limit - self._fast_left

    @property
    def channel(self) -> str:
        """The channel of the next character, as far as is known."""
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
    def held_bytes(self) -> bytes:
        """The bytes that are not text yet: those of the detokenizer."""
        held: bytes = getattr(self.detokenizer, "held_bytes", b"")
        return held

    @property
    def held_text(self) -> str:
        """The text that is not shown yet: it may become a stop, a tag or an artifact, or it is that
        of the detokenizer. Ids that may become a stop sequence are not decoded yet.
        """
        held: str = getattr(self.detokenizer, "held_text", "")
        return self._channels.held + held

    @property
    def held(self) -> str:
        """An old name of `held_text`."""
        renamed("ChatStream.held", "held_text")
        return self.held_text

    @property
    def triggers(self) -> str | None:
        """The characters that can change how text passes the channels: text without them is shown
        as it is. None where any text can.
        """
        return None if self.finish_reason is not None else self._channels.triggers

    def __repr__(self) -> str:
        state = self.finish_reason or self.channel
        return f"<ChatStream {state}, {self.tokens} tokens, held {self.held_text!r}, {self.detokenizer!r}>"

    def push(self, token_id: int) -> list[Delta]:
        """Take one id; return the deltas that are certain."""
        if type(token_id) is not int:  # a tensor that holds a watched id is not found by it
            token_id = as_id(token_id)
        left = self._fast_left - 1
        if left < 0 or token_id in self._watched:
            return self._feed_slowly((token_id,))
        text = self._push(token_id)
        self._fast_left = left
        delta = self._plain.get(text)
        return [delta] if delta is not None else self._deltas(text)

    def feed(self, chunk: Iterable[int] | str) -> list[Delta]:
        """Take ids, or bytes if the detokenizer takes bytes; return the deltas that are certain.

        An unknown id raises VocabularyError, and the stream is as it was before the chunk.
        """
        if self._push is not None:
            ids: Any = chunk
            if ids.__class__ is not list and ids.__class__ is not tuple:
                ids = list(ids)
            size = len(ids)
            if size == 1:
                return self.push(ids[0])
            ids = _integers(ids)
            if self._fast_left < size or not self._watched.isdisjoint(ids):
                return self._feed_slowly(ids)
            before = None
            if self._stops_in_text:
                if not hasattr(self.detokenizer, "save"):
                    return self._feed_slowly(ids)
                before = self.save()
            text = self.detokenizer.feed(ids)
            self._fast_left -= size
            if before is not None and text not in self._plain:
                out = self._deltas(text)
                if self.finish_reason is not None:
                    self.load(before)  # so that the ids behind the stop are not taken
                    out = self._feed_slowly(ids)
                return out
        elif self._fast_left:
            text = self.detokenizer.feed(chunk)
        else:
            return self._feed_slowly(chunk)
        delta = self._plain.get(text)
        return [delta] if delta is not None else self._deltas(text)

    def _deltas(self, text: str) -> list[Delta]:
        out: list[Delta] = []
        channels = self._channels
        channels.feed_into(out, text)
        self._plain = channels.plain
        if channels.stopped is not None:
            self._finish("stop", channels.stopped)
            self._close(out)
            self._set_fast_path()
        return out

    def _feed_channels(
        self, out: list[Delta], text: str, no_stop: bool = False, no_stop_after: bool = False
    ) -> None:
        self._channels.feed_into(out, text, no_stop, no_stop_after)
        if self._channels.stopped is not None:
            self._finish("stop", self._channels.stopped)

    def _feed_slowly(self, chunk: Any) -> list[Delta]:
        """Take a chunk that may end the answer, id by id."""
        out: list[Delta] = []
        if self.finish_reason is not None or not len(chunk):
            return out
        if self._ended:
            ended("feeding it")
        if self._push is None:
            self._feed_channels(out, self.detokenizer.feed(chunk))
            if self.finish_reason is not None:
                self._close(out)
        else:
            self._taken, self._fast_limit, self._fast_left = self.tokens, 0, 0
            before = self.save() if hasattr(self.detokenizer, "save") else None
            try:
                for token_id in chunk:
                    self._feed_id(out, token_id)
                if self.finish_reason is not None:
                    self._close(out)
            except Exception:
                # All or nothing: the deltas of the ids before this one would be lost.
                if before is not None:
                    self.load(before)
                raise
        self._set_fast_path()
        self._count(out)
        return out

    def _feed_id(self, out: list[Delta], token_id: int) -> None:
        """Take one id: it may end the answer, wait, or let ids that have waited go on."""
        self._finish_if_full()
        if self.finish_reason is not None:
            return
        self._taken += 1
        todo = [token_id]
        while todo and self.finish_reason is None:
            token_id = todo.pop(0)
            self._waiting.append(token_id)
            index = self._taken - len(todo)
            no_stop = index <= self.min_tokens
            begins = len(self._waiting) == 1 and not (self._shows_stop and self._state)
            if begins and not self._may_stop():
                if token_id in self._eos and not no_stop:
                    self._finish("eos")
                self._release(out, 0, len(todo))
                continue
            self._state, _, match = self._search.scan(self._state, (token_id,), 0, no_stop)
            if match is not None:
                sequence = match.word
                self._release(out, len(sequence), len(todo))
                if self.finish_reason is not None:
                    break
                if len(sequence) == 1 and sequence[0] in self._eos:
                    self._finish("eos")
                    break
                if self._may_stop():
                    if self._shows_stop:
                        self._release(out, 0, len(todo), True)
                    self._finish("stop", sequence)
                    break
            else:
                no_stop_for = max(0, self.min_tokens - index)
                held = 0 if self._shows_stop else self._search.held_length(self._state, no_stop_for)
                self._release(out, held, len(todo))
            if not self._may_stop():
                # What waits begins behind a tag, and is no stop.
                todo = self._waiting + todo
                self._waiting = []
                self._state = 0
        self._finish_if_full()

    def _may_stop(self) -> bool:
        """Say whether a stop sequence may begin now."""
        return self._everywhere or self._channels.channel == CONTENT

    def _finish_if_full(self) -> None:
        full = self.max_tokens is not None and self.tokens >= self.max_tokens
        if full and self.finish_reason is None:
            self._finish("length")

    def _release(self, out: list[Delta], keep: int, later: int = 0, no_stop: bool = False) -> None:
        """Decode all waiting ids except the last `keep`; `later` ids came after them. With `no_stop`
        no stop string ends in their text.
        """
        index = self.tokens - later - len(self._waiting)
        while len(self._waiting) > keep and self._channels.stopped is None:
            index += 1
            text = self._decode(self._waiting.pop(0))
            within = index <= self.min_tokens
            self._feed_channels(out, text, no_stop or within, no_stop or index < self.min_tokens)

    def _decode(self, token_id: int) -> str:
        tag = self._tags.get(token_id)
        hidden = self.detokenizer
        if tag is None or not self._channels.expects(tag):
            return str(hidden.push(token_id))
        # This tag is shown, so that it ends what came before it as any text does: a character or a
        # run of byte tokens does not continue after a tag.
        if self._showing is None:
            make, (vocabulary, settings, state) = hidden.__reduce__()
            self._showing = make(vocabulary, (False,) + settings[1:], state)
        self._showing.load(hidden.save())
        text = self._showing.push(token_id)
        hidden.load(self._showing.save())
        return str(text)

    def _finish(self, reason: str, stopped: Any = None) -> None:
        self.finish_reason, self.stopped = reason, stopped
        if reason != "length":
            self._waiting = []

    def _count(self, out: list[Delta]) -> None:
        if self._counts is not None:
            for channel, text in out:
                self._counts[channel] = self._counts.get(channel, 0) + len(text)

    def flush(self) -> list[Delta]:
        """End the stream; return what was held. Until `reset`, a further `feed` raises
        StreamEndedError.
        """
        out: list[Delta] = []
        if self._ended:
            return out
        if self.finish_reason is None:
            self._close(out)
        self._ended = True
        self._set_fast_path()
        self._count(out)
        return out

    def _close(self, out: list[Delta]) -> None:
        """Append what was held to `out`: nothing comes that could change it."""
        self._release(out, 0)
        # A stop sequence that is shown is no artifact, and its text no other stop.
        shows_stop = self._shows_stop and self.finish_reason == "stop"
        if self._channels.stopped is None:
            text = self.detokenizer.flush()
            self._feed_channels(out, text, shows_stop or 0 < self.tokens <= self.min_tokens)
        else:
            try:
                self.detokenizer.flush()  # discard what came after the stop
            except UnicodeError:
                pass
        self._channels.flush_into(out, not shows_stop)

    def mark(self) -> "Saved":
        """Return a mark of this moment for `rollback`, for example before ids that a draft model
        guessed.
        """
        if self._counts is None:
            self._counts = {}
            self._set_fast_path()
        return self.save()

    def rollback(self, mark: "Saved") -> dict[str, int]:
        """Go back to `mark`; return how many characters, shown since then, are to be removed from
        each channel's end. Channels with nothing to remove are left out.
        """
        then = mark[-1] or {}
        back = {}
        for channel, count in (self._counts or {}).items():
            if count != then.get(channel, 0):
                back[channel] = count - then.get(channel, 0)
        if min(back.values(), default=0) < 0:
            raise ValueError("This mark was made after the position of the stream.")
        self.load(mark)
        return back

    def save(self) -> "Saved":
        """Return the whole state, the detokenizer's included, as plain values."""
        counts = None if self._counts is None else dict(self._counts)
        waiting = tuple(self._waiting)
        own = (self._state, waiting, self.tokens, self.finish_reason, self.stopped, self._ended)
        return self.detokenizer.save(), self._channels.save(), own, counts

    def future(self) -> "Saved":
        """Return what of the state decides what is still to come, as plain values; `load` takes it.

        Streams made alike that have the same future give the same deltas from here on, whatever
        they gave before. What was counted and collected up to here is not in it.
        """
        detokenizer, (text, flags, stopped, _, _), own, _ = self.save()
        text = (text[0], text[1], text[2], text[3] if flags[0] else 0)
        counts = self.min_tokens or self.max_tokens is not None
        own = (own[0], own[1], own[2] if counts else 0, own[3], own[4], own[5])
        return detokenizer, (text, flags, stopped, "", ()), own, None

    def load(self, state: "Saved") -> None:
        """Take a state that `save` of a ChatStream made alike returned, or what JSON made of it."""
        self.detokenizer.load(state[0])
        self._channels.load(state[1])
        self._state, waiting, self._taken, self.finish_reason, stopped, self._ended = state[2]
        self._fast_limit = self._fast_left = 0
        self._waiting = list(waiting)
        self.stopped = tuple(stopped) if stopped.__class__ is list else stopped
        self._counts = None if state[3] is None else dict(state[3])
        self._set_fast_path()

    def copy(self) -> "ChatStream":
        """Return an independent ChatStream in the same state: for n > 1, and for beams."""
        other = ChatStream(
            self.detokenizer.copy(),
            eos_ids=self._eos or None,
            stop_ids=self._stop_ids,
            min_tokens=self.min_tokens,
            max_tokens=self.max_tokens,
            **self._channels.options,
        )
        other.load(self.save())
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> "ChatStream":
        return self.copy()


def _integers(ids: Any) -> Any:
    """Return ids as ints. Their sum is no int if one of them is a tensor or a numpy integer, and is
    the quickest look at all of them.
    """
    try:
        if sum(ids).__class__ is int:
            return ids
    except TypeError:
        pass
    return [as_id(i) for i in ids]


def _sequence(ids: Any) -> tuple[Any, ...]:
    try:
        return tuple([as_id(i) for i in ids])
    except TypeError:  # one id
        return (as_id(ids),)


def strip_thinking(
    text: str,
    open: str = "<think>",
    close: str = "</think>",
    *,
    start: str = "content",
    every: bool = False,
) -> str:
    """Return a whole text without its reasoning: the content that a ChatStream with these tags
    would give.

    The first `open` begins the reasoning, the first `close` after that ends it, all later tags are
    text; with `every` each block is reasoning. Reasoning that is never closed goes to the end. With
    `start="reasoning"` the text begins within it, for templates that open the block in the prompt.
    White space and tool calls stay.

    >>> strip_thinking("<think>2+2 is 4</think>Four."), strip_thinking("a <b> c"), strip_thinking("So <think>far")
    ('Four.', 'a <b> c', 'So ')
    >>> strip_thinking("2+2 is 4</think>Four.", start="reasoning")
    'Four.'
    """
    tags = (open, close, EVERY) if every else (open, close)
    channels = Channels(reasoning=tags, tools=None, start=start, trim_artifacts=False)
    deltas = channels.feed(text) + channels.flush()
    return "".join([delta.text for delta in deltas if delta.channel == "content"])
