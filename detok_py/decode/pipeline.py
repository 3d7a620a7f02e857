"""The parts of a chat answer, in order: ids or bytes in, typed deltas out.

In: ids, or the text of a detokenizer. Out: deltas, as soon as they are certain. Held: what each
part holds: ids that may become a stop sequence, part of a character, an end of the text that may
become a stop, a tag or an artifact.

The parts: ids (ends of text, stop sequences) → detokenizer → stops, tags and artifacts
(channels.py). They are flushed in this order too; what one part still held goes through the later
ones. Held input of an earlier part limits what can come next: half a character becomes one of a few
characters; waiting ids become text, or end the answer. So held text of a later part is shown early,
if nothing that can come completes its stop or tag.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from .channels import CONTENT
from .detokenizer import Detokenizer
from .stage import Delta, shared_start, tuples
from .stop_strings import as_count
from .table import kept
from .utf8 import texts_behind
from .vocabulary import as_id, id_list, id_set
from .word_search import STOP, WordSearch, letters_of

if TYPE_CHECKING:
    from .channels import Saved as SavedChannels
    from .stage import Future

    # The state of the detokenizer, of the channels, and that of the pipeline.
    Saved = tuple[
        object,
        SavedChannels,
        tuple[int, tuple[int, ...], int, str | None, Any, bool, str],
    ]

# What is done with ids. `sequences` are those that end the answer, with `search` for them, and
# `longest` the length of the longest one; of them, `eos` are the ends of text. `tags` are the ids
# of special tokens that are tags, where the detokenizer leaves out special tokens. `watched` are
# the ids that are looked for: tags, and the first ids of sequences. Within the first `least` ids
# nothing ends the answer; after `most` it is over.
IdRules = NamedTuple(
    "IdRules",
    [
        ("sequences", "tuple[tuple[int, ...], ...]"),
        ("eos", "frozenset[int]"),
        ("tags", "dict[int, str]"),
        ("search", WordSearch),
        ("watched", "frozenset[int]"),
        ("longest", int),
        ("least", int),
        ("most", int),
    ],
)
NO_LIMIT = 1 << 60
MAX_HELD = 512  # characters: steps from a state that holds more are not cached
AT_REST = (0, (), "", 0)  # a key's part of ids that wait, text ahead and ids to come


def id_rules(
    source: Any, eos_ids: Any, stop_ids: Any, channels: Any, least: Any, most: Any
) -> IdRules:
    """Return the rules for the ids of `source`, with these `channels`."""
    vocabulary = getattr(source, "vocabulary", None)
    skips = vocabulary is not None and getattr(source, "skip_special_tokens", False)
    limits = (
        as_count(least, "min_tokens"),
        NO_LIMIT if most is None else as_count(most, "max_tokens"),
    )
    if eos_ids.__class__ is not tuple or eos_ids or stop_ids.__class__ is not tuple or stop_ids:
        return _id_rules(vocabulary, skips, eos_ids, stop_ids, channels, limits)
    # Most streams are made like this. Vocabularies that differ in their ends of text share a memo.
    eos = None if vocabulary is None else vocabulary.eos_ids
    key = eos, skips, tuple(channels.tags), tuple(channels.marker_ids.items()), limits
    rules: IdRules = kept(
        vocabulary,
        "id rules",
        key,
        lambda: _id_rules(vocabulary, skips, (), (), channels, limits),
    )
    return rules


def _id_rules(
    vocabulary: Any,
    skips: bool,
    eos_ids: Any,
    stop_ids: Any,
    channels: Any,
    limits: "tuple[int, int]",
) -> IdRules:
    eos = id_set(() if eos_ids is None else eos_ids, "eos_ids")
    sequences = [_sequence(each) for each in id_list(stop_ids, "stop_ids")]
    if isinstance(stop_ids, (set, frozenset)):
        sequences.sort()
    if vocabulary is not None and eos_ids is not None:
        eos = eos | vocabulary.eos_ids | frozenset(channels.end_ids)
    eos = eos.difference([each[0] for each in sequences if len(each) == 1])
    sequences += [(i,) for i in sorted(eos)]
    hidden = dict(channels.marker_ids)
    if skips:
        for tag in channels.tags:
            i = vocabulary.find(tag.encode())
            if i is not None:
                hidden[i] = tag
    search = WordSearch.shared(tuple([(each, STOP) for each in sequences]))
    return IdRules(
        tuple(sequences),
        eos,
        hidden,
        search,
        search.first.union(hidden),
        max([len(each) for each in sequences], default=1),
        limits[0],
        limits[1],
    )


def _sequence(ids: Any) -> tuple[int, ...]:
    try:
        return tuple([as_id(i) for i in ids])
    except TypeError:  # one id
        return (as_id(ids),)


def bytes_held(source: Any) -> bytes:
    """Return the bytes of half a character that a source of text holds."""
    held: Any = getattr(source, "held", b"")
    return held if held.__class__ is bytes and hasattr(source, "errors") else b""


def _with_text(delta: Delta, text: str) -> Delta:
    """Return a delta with another text."""
    other = Delta(delta.channel, text)
    other.call, other.name = delta.call, delta.name
    return other


class Pipeline:
    """A detokenizer and channels behind it, with what ends the answer by ids.

    `finish_reason` and `stopped` are those of `ChatStream`; `tokens` is how many ids were taken.
    """

    def __init__(self, source: Any, channels: Any, rules: IdRules) -> None:
        self.source = source
        self.channels = channels
        self.rules = rules
        self.takes_ids: bool = hasattr(source, "push")
        self.begin()

    def begin(self) -> None:
        """Forget everything but what the detokenizer and the channels know."""
        self.finish_reason: str | None = None
        self.stopped: str | tuple[int, ...] | None = None
        self.tokens: int = 0
        self.state: int = 0  # of the search for sequences
        self.waiting: list[int] = []  # the last ids, as long as they may become a stop sequence
        self.ended: bool = False
        # Text that was shown early, because whatever comes next begins with it.
        self.ahead: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether ids can still come."""
        return self.finish_reason is None and not self.ended

    @property
    def pending(self) -> bool:
        """Whether a stop sequence may have begun."""
        return bool(self.waiting or self.state)

    # ------------------------------------------------------------ text and ids

    def take_text(self, out: list[Delta], text: str, tokens: int) -> None:
        """Send the text of the detokenizer on; `tokens` ids have come by now."""
        self.tokens = tokens
        least = self.rules.least
        self._feed_channels(out, text, 0 < tokens <= least, tokens < least)
        if self.finish_reason is not None:
            self._close(out)
        if self.ahead or self.channels.held:
            self._settle(out)

    def take_ids(self, out: list[Delta], ids: Sequence[int]) -> None:
        """Take ids one by one, because some may end the answer: all of them, or none if one is
        refused.
        """
        before = self._saved()
        try:
            for token_id in ids:
                self._take_id(out, token_id)
            if self.finish_reason is not None:
                self._close(out)
        except Exception:
            if before is not None:
                self.load(before)
            raise
        self._settle(out)

    def _take_id(self, out: list[Delta], token_id: int) -> None:
        """Take one id: it may end the answer, wait, or let ids that have waited go on."""
        self._finish_if_full()
        if self.finish_reason is not None:
            return
        self.tokens += 1
        search, shows_stop = self.rules.search, self.channels.options["include_stop"]
        todo = [token_id]
        while todo and self.finish_reason is None:
            token_id = todo.pop(0)
            self.waiting.append(token_id)
            index = self.tokens - len(todo)
            no_stop = index <= self.rules.least
            begins = len(self.waiting) == 1 and not (shows_stop and self.state)
            if begins and not self._may_stop():
                if token_id in self.rules.eos and not no_stop:
                    self._finish("eos")
                self._release(out, 0, len(todo))
                continue
            self.state, _, match = search.scan(self.state, (token_id,), 0, no_stop)
            if match is not None:
                sequence = match.word
                self._release(out, len(sequence), len(todo))
                if self.finish_reason is not None:
                    break
                if len(sequence) == 1 and sequence[0] in self.rules.eos:
                    self._finish("eos")
                    break
                if self._may_stop():
                    if shows_stop:
                        self._release(out, 0, len(todo), True)
                    self._finish("stop", sequence)
                    break
            else:
                no_stop_for = max(0, self.rules.least - index)
                held = 0 if shows_stop else search.held_length(self.state, no_stop_for)
                self._release(out, held, len(todo))
                self._stop_within(out, len(todo))
            if not self._may_stop():
                # The waiting ids begin after a tag, and are not a stop.
                todo = self.waiting + todo
                self.waiting = []
                self.state = 0
        self._finish_if_full()

    def _may_stop(self) -> bool:
        """Say whether a stop sequence may begin now."""
        everywhere = self.channels.options["stop_scope"] == "everywhere"
        return everywhere or bool(self.channels.channel == CONTENT)

    def _finish_if_full(self) -> None:
        if self.tokens >= self.rules.most and self.finish_reason is None:
            self._finish("length")

    def _stop_within(self, out: list[Delta], later: int) -> None:
        """End the answer if a stop string is complete in the text of the ids that wait; otherwise
        they go on waiting.
        """
        if not self.waiting or not self.channels.options["stop"]:
            return
        before, trial = self._saved(), list(out)
        if before is None:
            return
        try:
            self._release(trial, 0, later)
        except UnicodeError:  # under "strict" ids that wait need not be text
            pass
        if self.finish_reason is None:
            self.load(before)
        else:
            out[:] = trial

    def _release(self, out: list[Delta], keep: int, later: int = 0, no_stop: bool = False) -> None:
        """Decode all waiting ids except the last `keep`; `later` ids came after them. With
        `no_stop` no stop string ends in their text.
        """
        index = self.tokens - later - len(self.waiting)
        while len(self.waiting) > keep and self.channels.stopped is None:
            index += 1
            text = self._decode(self.waiting.pop(0))
            within = index <= self.rules.least
            self._feed_channels(out, text, no_stop or within, no_stop or index < self.rules.least)

    def _decode(self, token_id: int) -> str:
        tag = self.rules.tags.get(token_id)
        if tag is None or not self.channels.expects(tag):
            return str(self.source.push(token_id))
        # This tag is shown, so that it ends what came before it as any text does: a character or a
        # run of byte tokens does not continue after a tag.
        showing = self.source.showing_special_tokens()
        text = showing.push(token_id)
        self.source.load(showing.save())
        is_marker = token_id in self.channels.marker_ids
        return str(self.channels.symbols(text, tag) if is_marker else text)

    def _feed_channels(
        self, out: list[Delta], text: str, no_stop: bool = False, no_stop_after: bool = False
    ) -> None:
        self.channels.feed_into(out, text, no_stop, no_stop_after)
        if self.channels.stopped is not None:
            self._finish("stop", self.channels.stopped)

    def _finish(self, reason: str, stopped: Any = None) -> None:
        self.finish_reason, self.stopped = reason, stopped
        if reason != "length":
            self.waiting = []

    def _close(self, out: list[Delta]) -> None:
        """Append what was held to `out`: nothing comes that could change it."""
        self._release(out, 0)
        # A stop sequence that is shown is no artifact, and its text no other stop.
        shows_stop = self.channels.options["include_stop"] and self.finish_reason == "stop"
        if self.channels.stopped is None:
            text = self.source.flush()
            self._feed_channels(out, text, shows_stop or 0 < self.tokens <= self.rules.least)
        else:
            try:
                self.source.flush()  # discard what came after the stop
            except UnicodeError:
                pass
        self.channels.flush_into(out, not shows_stop)
        if self.finish_reason == "eos" and self.channels.ends_with_call:
            self.finish_reason = "tool_calls"

    # ------------------------------------------------------------ what the next text begins with

    def _settle(self, out: list[Delta]) -> None:
        """Remove text that was shown early from the deltas, and show early what is certain now."""
        while self.ahead and out:
            delta = out.pop(0)
            ahead, self.ahead = self.ahead, self.ahead[len(delta.text) :]
            if len(delta.text) > len(ahead):
                out.insert(0, _with_text(delta, delta.text[len(ahead) :]))
        before = self._saved() if self.waiting else None
        try:
            more = self._certain_ahead()
        except UnicodeError:  # under "strict" ids that wait need not be text: they may be a stop
            if before is not None:
                self.load(before)
            return
        if not more:
            return
        self.ahead += more
        delta = Delta(self.channels.channel, more)
        delta.call = self.channels.call_number
        last = out[-1] if out else None
        begins = self.channels.begins_call or (last is not None and last.name is not None)
        if last and not begins and (last.channel, last.call) == (delta.channel, delta.call):
            delta = _with_text(out.pop(), last.text + more)
        out.append(delta)

    def _certain_ahead(self) -> str:
        """Return the held text of the channels that all possible continuations begin with. Bytes,
        ids or text that earlier parts hold limit the continuations.
        """
        if not self.waiting and len(self.channels.held) <= len(self.ahead):
            return ""
        if self.finish_reason is not None or self.ended or not hasattr(self.source, "save"):
            return ""
        futures = None if self.waiting else self._source_futures()
        if not self.waiting and futures is None:
            return ""
        before: Any = self._saved()
        starts = []
        for depth, _, _ in self.rules.search.prefixes(self.state) if self.waiting else ():
            out: list[Delta] = []
            self._release(out, depth)
            self._finish("stop")
            self._close(out)
            starts.append(out)
            self.load(before)
        released: list[Delta] = []
        if self.waiting:
            self._release(released, 0)
            futures = self._source_futures() or [("", False)]
            before, first = self._saved(), before
        else:
            first = before
        for text, ends in futures or ():
            # Whether a stop may end in that text, where ids that have not come yet decide it.
            for no_stop in (False, True) if self.tokens < self.rules.least else (False,):
                out = list(released)
                self._feed_channels(out, text, no_stop, no_stop)
                if ends and self.finish_reason is None:
                    self.channels.flush_into(out)
                starts.append(out)
                self.load(before)
        self.load(first)
        channel = self.channels.channel
        texts = [out[0].text if out and out[0].channel == channel else "" for out in starts]
        return shared_start(texts)[len(self.ahead) :]

    def _source_futures(self) -> "list[Future] | None":
        """Return what text can come next out of the detokenizer, None if any can."""
        letters = letters_of(self.channels.words)
        if self.source.__class__ is Detokenizer:
            futures: list[Future] | None = self.source._futures(letters)
            return futures
        held = bytes_held(self.source)
        texts = texts_behind(held, self.source.errors, letters) if held else None
        return None if texts is None else [(text, False) for text in texts]

    # ------------------------------------------------------------ the end, and the state

    def flush(self, out: list[Delta]) -> None:
        """End the stream; append what was held."""
        if self.finish_reason is None:
            before = self._saved() if self.waiting else None
            try:
                self._close(out)
            except UnicodeError:
                if before is not None:  # the text of the ids that waited is lost with `out`
                    self.load(before)
                raise
        self.ended = True
        self._settle(out)

    def _saved(self) -> "Saved | None":
        """Return the state to go back to, None if the source cannot save its own."""
        return self.save(mark=True) if hasattr(self.source, "save") else None

    def save(self, mark: bool = False) -> "Saved":
        """Return the whole state as plain values; with `mark` in brief, to go back here."""
        own = (
            self.state,
            tuple(self.waiting),
            self.tokens,
            self.finish_reason,
            self.stopped,
            self.ended,
            self.ahead,
        )
        return self.source.save(), self.channels.save(mark), own

    def load(self, state: "Saved") -> None:
        """Take a state that `save` of a pipeline made alike returned, or what JSON made of it."""
        self.source.load(state[0])
        self.channels.load(state[1])
        self.state, waiting, self.tokens, self.finish_reason = state[2][:4]
        stopped, self.ended, self.ahead = state[2][4:]
        self.waiting = list(waiting)
        self.stopped = tuple(stopped) if stopped.__class__ is list else stopped

    @property
    def future(self) -> Any:
        """The part of the state that future output depends on, for an answer that has not ended, as
        plain values.

        Pipelines with the same options and the same future give the same deltas from here on.
        Counts and collected calls are not in it.
        """
        own = self.state, tuple(self.waiting), self.ahead, self.count_class(self.tokens)
        return self.source.save(), self.channels.key, own

    @future.setter
    def future(self, future: Any) -> None:
        source, channels, own = tuples(future)
        self.channels.forget()
        self.begin()
        self.source.load(source)
        self.channels.key = channels
        self.state, waiting, self.ahead, _ = own
        self.waiting = list(waiting)

    def count_class(self, tokens: int) -> int:
        """Return the part of the number of ids that matters: how many more ids cannot end the
        answer, up to one more than the longest stop sequence.
        """
        rules = self.rules
        return min(max(rules.least - tokens, 0), rules.longest + 1) if rules.least else 0

    @property
    def key(self) -> Any:
        """The future as the key of a table, None where the table has no row for it.

        Of a source of text the state of the source is not in the key: what comes is text.
        """
        channels = self.channels.key
        if len(self.channels.held) > MAX_HELD or not self.goes_on:
            return None
        if not self.takes_ids:
            return None if self.ahead else (None, channels, AT_REST)
        source = self.source._key if self.source.__class__ is Detokenizer else None
        if source is None:
            return None
        own = self.state, tuple(self.waiting), self.ahead, self.count_class(self.tokens)
        return source, channels, own

    @key.setter
    def key(self, key: Any) -> None:
        source, self.channels.key, (self.state, waiting, self.ahead, _) = key
        self.waiting = list(waiting)
        if source is not None:
            self.source._key = source

    def is_at(self, key: Any) -> bool:
        """Say whether the state is still that of a key in which no ids and no text wait."""
        if key[2] != AT_REST or self.waiting or self.state or self.ahead or self.rules.least:
            return False
        source = self.source._key if self.takes_ids else None
        return bool(self.channels.key == key[1] and source == key[0] and self.goes_on)
