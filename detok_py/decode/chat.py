"""A chat answer: ids or bytes in, typed deltas out.

In: what the detokenizer takes, cut anywhere. Out: deltas, text with its channel, as soon as they
are certain. Held: what the parts hold (pipeline.py).

A table (table.py), shared by streams with the same options, caches each step. An id that has come
in the same state before costs one lookup; the parts run only for new steps.
"""

from typing import TYPE_CHECKING, Any, Generic, Iterable, Sequence

from .chat_parts import REASONING, TOOLS, channels_of, opened_section, table_of
from .pipeline import NO_LIMIT, Pipeline, bytes_held, id_rules
from .stage import Chunk, Delta, TextSource
from .table import Row
from .utf8 import ended
from .vocabulary import as_id, as_ids

if TYPE_CHECKING:
    from typing import Literal

    from ..formats.chat_format import ChatFormat
    from .channels import StopScope
    from .pipeline import Saved as SavedParts

    # The state of the parts; the characters shown in each channel.
    Saved = tuple[SavedParts, dict[str, int] | None]
    ChatStart = Literal["auto", "content", "reasoning", "tool_call", "header"]

_LONGEST = 32  # characters: longer pieces of text rarely come again
_NOWHERE = Row(None)  # the row of a stream whose steps are not remembered


class ChatStream(Generic[Chunk]):
    """An answer, from a detokenizer's input to deltas of content, reasoning and tool calls.

    `detokenizer` is a `Detokenizer` (chunks are ids), a `StreamingDetokenizer` (chunks are bytes),
    or anything with their methods. `stop` are strings that end the answer, in the content only
    unless `stop_scope` is "everywhere"; `include_stop` shows them. `eos_ids` end it too, in
    addition to those of the vocabulary, and are never shown; with None no id ends it. `stop_ids`
    are ids, or sequences of ids, that end it as stop strings do: only a sequence that begins in the
    content counts, unless `stop_scope` is "everywhere". With a format no stop ends inside the
    arguments of a call: their JSON is made of the markup. The stop that is complete first ends the
    answer, with the token that completes it; of a string and a sequence that end with one token,
    the sequence does. Within the first `min_tokens` ids nothing ends the answer, neither an id nor
    a stop string in their text; after `max_tokens` ids the answer is over. `reasoning`, `tools`,
    `start` and `trim_artifacts` are those of `Channels`; with `start="auto"` the end of the prompt
    says in what the answer begins. `format` is a `ChatFormat` or the name of one ("harmony",
    "qwen3_hermes"; docs/formats.md): its markup takes the place of the tags, a delta of a call has
    the call's number and name, and `calls` has arguments as JSON. `tool_schemas` is then OpenAI's
    list of tools, which types arguments where the markup does not. "auto" is the format of the
    vocabulary, where its tokenizer file says one and no tags are given, else the pairs of tags;
    with None nothing is looked for. "json" is for an answer that is one JSON value: `complete` says
    whether all of it has come, and no stop ends inside a string of it. A tag that is a special
    token of the vocabulary is recognised by its id, even if special tokens are skipped. Elsewhere
    it is an ordinary token.

    `finish_reason` is None, then "stop", "eos" or "length"; later input is dropped, and `tokens`
    does not count it. The token that ends the answer makes all text certain: the call that takes it
    returns the held text. `flush` does so if the input just ends. So text that only looked like the
    beginning of a stop or tag is not lost, nor is part of a character before an id that ends the
    answer. A stop string discards everything after it, including part of a character.

    >>> from detok_py.decode.utf8 import StreamingDetokenizer
    >>> c = ChatStream(StreamingDetokenizer(), stop=["\\nUser:"])
    >>> for chunk in (
    ...     b"<think>2+2",
    ...     b"</think>",
    ...     b"It is 4 \\xf0\\x9f",
    ...     b"\\x99\\x82\\nUs",
    ...     b"er: thanks",
    ... ):
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
        detokenizer: TextSource[Chunk],
        stop: str | Iterable[str] | None = (),
        *,
        eos_ids: Iterable[int] | None = (),
        reasoning: str | Sequence[str | Sequence[str]] | None = REASONING,
        tools: Sequence[str | Sequence[str | None] | None] | None = TOOLS,
        start: "ChatStart" = "auto",
        trim_artifacts: bool | str | Sequence[str] = True,
        stop_ids: Iterable[int | Iterable[int]] = (),
        include_stop: bool = False,
        stop_scope: "StopScope" = "content",
        min_tokens: int = 0,
        max_tokens: int | None = None,
        format: "str | ChatFormat | None" = "auto",
        tool_schemas: "Iterable[dict[str, Any]] | str | None" = None,
    ) -> None:
        if not hasattr(detokenizer, "feed"):
            raise TypeError(
                f"ChatStream reads from a detokenizer, not {detokenizer.__class__.__name__}; a Tokenizer makes one: tokenizer.detokenizer()"
            )
        options: dict[str, Any] = {
            "include_stop": include_stop,
            "stop_scope": stop_scope,
            "start": start,
            "trim_artifacts": trim_artifacts,
        }
        self._finds_start = start == "auto"
        channels = channels_of(detokenizer, stop, format, (reasoning, tools), tool_schemas, options)
        rules = id_rules(detokenizer, eos_ids, stop_ids, channels, min_tokens, max_tokens)
        self._parts = Pipeline(detokenizer, channels, rules)
        limited = rules.least or rules.most != NO_LIMIT
        if not self._parts.takes_ids and (rules.sequences or limited):
            raise ValueError(
                "eos_ids, stop_ids, min_tokens and max_tokens need a detokenizer that takes ids; this one takes bytes."
            )
        # Decodes chunks, if they are not ids.
        self._text_of: Any = None if self._parts.takes_ids else detokenizer.feed
        self._table = table_of(self._parts)
        self._begin()

    def _begin(self) -> None:
        # Characters shown in each channel, counted once a mark was made.
        self._counts: dict[str, int] | None = None
        self._take_row(_NOWHERE)

    def _take_row(self, row: Row) -> None:
        """Continue from the state of the parts, whose row is `row`."""
        # While steps come out of the table, the parts lag behind.
        self._row, self._lags = row, False
        parts, rules = self._parts, self._parts.rules
        # How many more ids may use the table, and how many will have come by then.
        self._left = 0
        if parts.goes_on:
            self._left = max(0, rules.most - parts.tokens - 1)
            if parts.tokens < rules.least:
                steps = rules.least - parts.tokens - rules.longest - 1
                self._left = max(0, min(self._left, steps))
        self._until = parts.tokens + self._left

    def _catch_up(self) -> Pipeline:
        """Return the parts, in the state that the stream is in."""
        self._parts.tokens = self.tokens
        if self._lags:
            self._lags = False
            self._parts.key = self._row.key
        return self._parts

    def _find_row(self) -> Row:
        """Return the row of the state that the stream is in, the parts included."""
        parts = self._catch_up()
        if self._row is _NOWHERE:
            key = parts.key
            if key is not None:
                self._row = self._table.row(key)
        return self._row

    # ------------------------------------------------------------ what it is, what it holds

    @property
    def detokenizer(self) -> TextSource[Chunk]:
        """The detokenizer, in the state that the stream is in."""
        source: TextSource[Chunk] = self._catch_up().source
        return source

    @property
    def finish_reason(self) -> str | None:
        """Why the answer ended: "stop", "eos" or "length"; None before it has."""
        return self._parts.finish_reason

    @property
    def stopped(self) -> str | tuple[int, ...] | None:
        """The stop string, or the sequence of ids, that ended the answer."""
        return self._parts.stopped

    @property
    def min_tokens(self) -> int:
        """How many ids nothing ends the answer within."""
        return self._parts.rules.least

    @property
    def max_tokens(self) -> int | None:
        """After how many ids the answer is over; None: no number."""
        most = self._parts.rules.most
        return None if most == NO_LIMIT else most

    @property
    def tokens(self) -> int:
        """How many ids were taken."""
        return self._until - self._left

    @property
    def channel(self) -> str:
        """The channel of the next character, as far as is known."""
        return str(self._catch_up().channels.channel)

    @property
    def calls(self) -> list[Any]:
        """The text of every tool call that its close tag has ended; in a format, each call so far
        as a `ToolCall`, with its id, name and arguments, and whether it is complete.
        """
        calls: list[Any] = self._catch_up().channels.calls
        return calls

    @property
    def complete(self) -> bool:
        """Whether the whole JSON value of `format="json"` has come."""
        # Only JSON is asked for it: the parts lag behind while steps come out of the table.
        return hasattr(self._parts.channels, "complete") and self._catch_up().channels.complete

    @property
    def open_call(self) -> str | None:
        """The text, so far, of a tool call that no close tag has ended; None outside of one."""
        parts = self._catch_up()
        call = parts.channels.open_call
        return None if call is None else call + parts.ahead

    @property
    def held_bytes(self) -> bytes:
        """The bytes that are not text yet: those of the detokenizer."""
        held: bytes = getattr(self.detokenizer, "held_bytes", b"")
        return held

    @property
    def held_text(self) -> str:
        """The text that is not shown yet: it may become a stop, a tag or an artifact, or it is that
        of the detokenizer. Ids that may become a stop sequence are not decoded, and not included.
        """
        parts = self._catch_up()
        held: str = parts.channels.held + getattr(parts.source, "held_text", "")
        return held[len(parts.ahead) :]

    @property
    def _form(self) -> Any:
        """The format in which the answer is read; None if it is read in none."""
        return getattr(self._parts.channels, "form", None)

    def __repr__(self) -> str:
        state = self.finish_reason or self.channel
        return f"<ChatStream {state}, {self.tokens} tokens, held {self.held_text!r}, {self.detokenizer!r}>"

    # ------------------------------------------------------------ ids and chunks

    def push(self, token_id: int) -> list[Delta]:
        """Take one id; return the deltas that are certain."""
        # An int, because 1.0 and a tensor are equal to ids that the table has.
        if self._left and token_id.__class__ is int:
            step = self._row.steps.get(token_id)
            if step is not None:
                self._left -= 1
                deltas, row, call = step
                if row is not None:
                    self._row = row
                    self._lags = True
                if call:
                    self._parts.channels.extend_call(call)
                if self._counts is not None:
                    self._count(deltas)
                return list(deltas)
        return self._push(token_id)

    def _push(self, token_id: Any) -> list[Delta]:
        """Take an id that has no step in the table, and note its step."""
        parts, rules = self._parts, self._parts.rules
        if not parts.takes_ids:
            raise TypeError("`push` takes a token id, and this stream takes bytes: use `feed`.")
        token_id = as_id(token_id)
        if not self._left and not self._goes_on():
            return []
        is_known = self._row is not _NOWHERE
        row, tokens, channels = self._find_row(), self.tokens, parts.channels
        if self._left and not is_known and token_id in row.steps:
            return self.push(token_id)
        mark = channels.mark_call()
        out: list[Delta] = []
        if token_id in rules.watched or parts.pending or tokens + 1 >= rules.most:
            parts.take_ids(out, (token_id,))
        else:
            parts.take_text(out, parts.source.push(token_id), tokens + 1)
        after = row if row is not _NOWHERE and parts.is_at(row.key) else _NOWHERE
        self._take_row(after)
        call = channels.call_since(mark)
        if row is not _NOWHERE and call is not None:
            if after is _NOWHERE:
                after = self._find_row()
            if after is not _NOWHERE and parts.count_class(tokens) == parts.count_class(tokens + 1):
                then = None if after is row else after
                self._table.note(row, token_id, (tuple(out), then, call))
        self._count(out)
        return out

    def feed(self, chunk: Chunk) -> list[Delta]:
        """Take ids, or bytes if the detokenizer takes bytes; return the deltas that are certain.

        An unknown id raises VocabularyError, and the stream is as it was before the chunk.
        """
        text_of = self._text_of
        if text_of is not None:
            if not self._left and not self._goes_on():
                return []
            text = text_of(chunk)
            step = self._row.steps.get(text)
            if step is None:
                if self._row is _NOWHERE and len(text) <= _LONGEST:
                    step = self._find_row().steps.get(text)
                if step is None:
                    return self._feed_text(text)
            deltas, row, call = step
            if row is not None:
                # Held bytes also decide which held text is shown.
                if row.key[1][2] and bytes_held(self._parts.source):
                    return self._feed_text(text)
                self._row, self._lags = row, True
            if call:
                self._parts.channels.extend_call(call)
            if self._counts is not None:
                self._count(deltas)
            return list(deltas)
        given: Any = chunk
        ids = given if given.__class__ is list else as_ids(given, "A chunk")
        if len(ids) == 1:
            return self.push(ids[0])
        ids = as_ids(ids)
        out: list[Delta] = []
        if not ids or not self._goes_on():
            return out
        parts = self._catch_up()
        try:
            if not self._feed_at_once(out, ids):
                parts.take_ids(out, ids)
        finally:
            self._take_row(_NOWHERE)
        self._count(out)
        return out

    def _goes_on(self) -> bool:
        """Say whether the answer goes on. Raises StreamEndedError after `flush`."""
        if self._parts.finish_reason is not None:
            return False
        if self._parts.ended:
            ended("feeding it")
        return True

    def _feed_at_once(self, out: list[Delta], ids: list[int]) -> bool:
        """Take ids in one step if none of them can end the answer, wait or be a tag. Return False,
        and take nothing, if that is unknown or if a stop string ends within them.
        """
        parts, rules, tokens = self._parts, self._parts.rules, self.tokens
        if self._left < len(ids) or parts.pending or not rules.watched.isdisjoint(ids):
            return False
        stops = bool(parts.channels.options["stop"]) and tokens >= rules.least
        if stops and not hasattr(parts.source, "save"):
            return False
        before = parts.save(mark=True) if stops else None
        parts.take_text(out, parts.source.feed(ids), tokens + len(ids))
        if before is not None and parts.finish_reason is not None:
            parts.load(before)  # so that the ids behind the stop are not taken
            out.clear()
            return False
        return True

    def _feed_text(self, text: str) -> list[Delta]:
        """Take text that may change the state, and note its step. If the detokenizer holds bytes,
        the step depends on them too, and is not noted.
        """
        parts, row = self._catch_up(), self._row
        channels: Any = parts.channels
        out: list[Delta] = []
        noted = row is not _NOWHERE and len(text) <= _LONGEST
        if noted:
            mark, at_rest = channels.mark_call(), channels.at_rest
        parts.take_text(out, text, 0)
        stays = row is not _NOWHERE and parts.is_at(row.key)
        self._take_row(row if stays else _NOWHERE)
        if noted and not (channels.held and bytes_held(parts.source)):
            call = channels.call_since(mark)
            after = _NOWHERE if call is None else self._find_row()
            if after is not _NOWHERE:
                then = None if after is row and at_rest else after
                self._table.note(row, text, (tuple(out), then, call))
        if self._counts is not None:
            self._count(out)
        return out

    # ------------------------------------------------------------ the end, and going back

    def flush(self) -> list[Delta]:
        """End the stream; return what was held. Until `reset`, a further `feed` raises
        StreamEndedError.
        """
        out: list[Delta] = []
        parts = self._catch_up()
        if not parts.ended:
            try:
                parts.flush(out)
            finally:
                self._take_row(_NOWHERE)
            self._count(out)
        return out

    def reset(self, prompt_ids: Iterable[int] = ()) -> None:
        """Forget everything, the detokenizer's prompt included, and begin a new answer, after
        `prompt_ids`.
        """
        ids, parts = list(prompt_ids), self._parts
        if ids and not parts.takes_ids:
            raise ValueError("prompt_ids need a detokenizer that takes ids; this one takes bytes.")
        parts.source.reset(*([ids] if ids else []))
        if self._finds_start:
            options = parts.channels.options
            options["start"] = opened_section(parts.source, options.get("format"), options)
            self._table = table_of(parts)
        parts.channels.reset()
        parts.begin()
        self._begin()

    def _count(self, deltas: Iterable[Delta]) -> None:
        if self._counts is not None:
            for channel, text in deltas:
                self._counts[channel] = self._counts.get(channel, 0) + len(text)

    def mark(self) -> "Saved":
        """Return a mark of this moment for `rollback`, for example before ids that a draft model
        guessed.
        """
        if self._counts is None:
            self._counts = {}
        return self.save(calls=True)

    def rollback(self, mark: "Saved") -> dict[str, int]:
        """Go back to `mark`; return how many characters, shown since then, are to be removed from
        each channel's end. Channels with nothing to remove are left out.
        """
        now, then = self._counts or {}, mark[-1] or {}
        back = dict(now)
        for channel, count in then.items():
            back[channel] = now.get(channel, 0) - count
        if min(back.values(), default=0) < 0:
            raise ValueError("This mark lies ahead of the stream.")
        self.load(mark)
        return {channel: count for channel, count in back.items() if count}

    def save(self, *, calls: bool = False) -> "Saved":
        """Return the state, with the detokenizer's, as plain values: everything that future output
        depends on. The text of calls is included on request; without it `calls` of the stream that
        goes on has only what came since.
        """
        counts = None if self._counts is None else dict(self._counts)
        parts = self._catch_up()
        source, channels, own = parts.save()
        if not calls:
            channels = parts.channels.without_calls(channels)
        return (source, channels, own), counts

    def load(self, state: "Saved") -> None:
        """Take a state that `save` of a ChatStream made alike returned, or what JSON made of it."""
        parts, counts = state
        self._parts.load(parts)
        self._counts = None if counts is None else dict(counts)
        self._take_row(_NOWHERE)

    @property
    def _future(self) -> Any:
        """Everything that future output depends on, as plain values: `Pipeline.future`."""
        return self._catch_up().future

    @_future.setter
    def _future(self, future: Any) -> None:
        self._parts.future = future
        self._begin()

    def copy(self) -> "ChatStream[Chunk]":
        """Return an independent ChatStream in the same state: for n > 1, and for beams."""
        source, options, finds_start, state = self.__reduce__()[1]
        return _restored(source.copy(), options, finds_start, state)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> "ChatStream[Chunk]":
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self._catch_up()
        rules, options = parts.rules, dict(parts.channels.options)
        options["eos_ids"] = rules.eos or None
        options["stop_ids"] = [i for i in rules.sequences if len(i) > 1 or i[0] not in rules.eos]
        options["min_tokens"], options["max_tokens"] = self.min_tokens, self.max_tokens
        return _restored, (parts.source, options, self._finds_start, self.save(calls=True))


def _restored(
    source: Any, options: "dict[str, Any]", finds_start: bool, state: Any
) -> ChatStream[Any]:
    stream: ChatStream[Any] = ChatStream(source, **options)
    stream._finds_start = finds_start
    stream.load(state)
    return stream
