"""The channels of a chat answer: content, reasoning and tool calls, told apart by tags.

In: text, cut anywhere. Out: deltas, text with its channel, as soon as they are certain. Held: the
end of the text, as long as it can still become a stop, a tag or an artifact; nothing else.

A stop ends the text. A tag ends a segment and begins the next one, and none of its characters takes
part in another match. An artifact, a marker of a chat template, is dropped at both ends of the
text; elsewhere it is text. The states, and the tags that lead from one to another:

    start="content"                                   start="reasoning"
         │                                                  │
         ▼        open reasoning                            ▼
    ┌─────────┐ ────────────────▶ ┌───────────┐       ┌──────────┐
    │ CONTENT │                   │ REASONING │       │ PROMPTED │
    └─────────┘                   └───────────┘       └──────────┘
      │     ▲                           │                   │
 open │     │ close                     │ close             │ close
 call │     │ call                      │ reasoning         │ reasoning
      ▼     │                           ▼                   │
    ┌───────────┐                 ┌───────────┐             │
    │ TOOL_CALL │                 │  ANSWER   │ ◀───────────┘
    └───────────┘                 └───────────┘
          ▲                         │       ▲
          │                    open │       │ close
    start="tool_call"          call ▼       │ call
                                ┌─────────────┐
                                │ ANSWER_CALL │
                                └─────────────┘

    CONTENT      the answer; reasoning has not begun and still can
    REASONING    what the model thinks, after its open tag
    PROMPTED     reasoning whose open tag is in the prompt; if the model repeats the tag at the
                 very beginning, the tag is dropped
    ANSWER       the answer after reasoning; a further open tag of reasoning is text
    TOOL_CALL    a call that began in CONTENT
    ANSWER_CALL  a call that began in ANSWER

Each pair of tags has a state REASONING, TOOL_CALL and ANSWER_CALL of its own. From ANSWER, open
tags of reasoning lead on only where every block is reasoning ("all"). A call whose tag has no close
tag ends where the next call opens, or with the text.
"""

from typing import TYPE_CHECKING, Any, Sequence

from .artifacts import ARTIFACTS, ArtifactSearch
from .stage import Delta
from .stop_strings import check_text, stop_words, words_of
from .utf8 import ended
from .word_search import EDGE, KEPT, LEAD, STOP, STOPS, shared

if TYPE_CHECKING:
    from typing import Literal

    Start = Literal["content", "reasoning", "tool_call"]
    StopScope = Literal["content", "everywhere"]
    # The state's text, flags, stop, call and calls.
    Saved = tuple[
        tuple[str, int, str, int], tuple[bool, bool, bool], str | None, str, tuple[str, ...]
    ]

CONTENT, REASONING, TOOL_CALL = "content", "reasoning", "tool_call"
PROMPTED, ANSWER, ANSWER_CALL = "prompted reasoning", "answer", "answer's tool_call"
OPEN_REASONING, CLOSE_REASONING = "open reasoning", "close reasoning"
OPEN_CALL, CLOSE_CALL = "open call", "close call"

EVERY = "all"  # after a pair of tags: every block between them is reasoning, not only the first


def tag_pairs(pairs: Any, option: str) -> tuple[tuple[str, str, bool], ...]:
    """Return pairs of tags as (open, close, whether every block counts); a tag that a call doesn't
    have to close is "".
    """
    if pairs is None:
        return ()
    if pairs == EVERY and option == "reasoning":
        pairs = ("<think>", "</think>", EVERY)
    many = [pairs]
    if isinstance(pairs, (list, tuple)) and pairs and not isinstance(pairs[0], str):
        many = list(pairs)
    found = []
    for pair in many:
        tags = tuple(pair) if isinstance(pair, (list, tuple)) else ()
        every = len(tags) == 3 and tags[2] == EVERY and option == "reasoning"
        if every:
            tags = tags[:2]
        closes = not (option == "tools" and len(tags) == 2 and tags[1] is None)
        if not closes:
            tags = tags[:1]
        if len(tags) != 1 + closes or not all(isinstance(tag, str) and tag for tag in tags):
            raise ValueError(
                f"{option} must be None or a pair of non-empty tags (open, close), or a list of such pairs, not {repr(pairs)[:60]}."
            )
        found.append((tags[0], tags[1] if closes else "", every))
    return tuple(found)


def _markers(trim_artifacts: Any) -> tuple[str, ...]:
    """Return the artifacts to trim: True means the well-known ones, a string means one."""
    if trim_artifacts is True:
        return ARTIFACTS
    if not trim_artifacts:
        return ()
    markers = words_of(trim_artifacts)
    for marker in markers:
        if not isinstance(marker, str) or not marker:
            raise ValueError("An artifact must be a non-empty str, not " + repr(marker)[:40] + ".")
    return markers


def _given(pair: tuple[str, str, bool]) -> tuple[str | None, ...]:
    """Return a pair of tags as it is given."""
    return (pair[0], pair[1] or None) + ((EVERY,) if pair[2] else ())


def _numbered(state: str, at: int) -> str:
    """Return the name of a state of the pair of tags at an index."""
    return state + " " + str(at + 1) if at else state


class Place:
    """One of the states of the diagram above, for one set of options.

    `words` are the pairs (word, kind) that are searched for in it, and `tags` says where a tag
    leads. A call in a place without `closes` ends where the next one opens.
    """

    def __init__(self, channel: str, words: tuple[tuple[str, str], ...], tags: Any) -> None:
        self.channel = channel
        self.words = words
        self.tags: dict[str, str] = tags
        self.closes: bool = CLOSE_CALL in [kind for _, kind in words]
        self.spelled: tuple[str, ...] = ()  # the words of all places
        self._search: ArtifactSearch | None = None

    @property
    def search(self) -> ArtifactSearch:
        """The automaton for the words, made when it is first needed."""
        if self._search is None:
            self._search = ArtifactSearch.shared(self.words)
        return self._search


def _places_of(
    words: Any, kind: str, stop_scope: str, markers: Any, thoughts: Any, calls: Any
) -> "dict[str, Place]":
    """Return the places that a text can be in, by name."""
    places = {}
    edges = tuple([(word, EDGE) for word in markers])
    stops = tuple([(word, kind) for word in words])
    everywhere = stops if stop_scope == "everywhere" else ()

    def add(name: str, channel: str, active: Any, tags: list[tuple[str, str, str]]) -> None:
        words = active + tuple([(word, kind) for word, kind, _ in tags]) + edges
        places[name] = Place(channel, words, {word: to for word, _, to in tags})

    for name, call_name, blocks in (
        (CONTENT, TOOL_CALL, thoughts),
        (ANSWER, ANSWER_CALL, [pair for pair in thoughts if pair[2]]),
    ):
        new_calls = [
            (word, OPEN_CALL, _numbered(call_name, at)) for at, (word, _, _) in enumerate(calls)
        ]
        new_thoughts = [
            (pair[0], OPEN_REASONING, _numbered(REASONING, thoughts.index(pair))) for pair in blocks
        ]
        add(name, CONTENT, stops, new_thoughts + new_calls)
        for at, (_, close, _) in enumerate(calls):
            ends = [(close, CLOSE_CALL, name)] if close else new_calls
            add(_numbered(call_name, at), TOOL_CALL, everywhere, ends)
    closes = [(pair[1], CLOSE_REASONING, ANSWER) for pair in thoughts]
    for at, end in enumerate(closes):
        add(_numbered(REASONING, at), REASONING, everywhere, [end])
    leads = [(pair[0], LEAD, "") for pair in thoughts]
    add(PROMPTED, REASONING, everywhere, leads + closes)
    spelled = tuple(sorted({word for place in places.values() for word, _ in place.words}))
    for place in places.values():
        place.spelled = spelled
    return places


class Channels:
    """Text to deltas: content, reasoning, tool calls.

    `reasoning` and `tools` are pairs of tags (open, close), lists of such pairs, or None. The first
    open tag of reasoning anywhere in the answer begins it, its first close tag after that ends it,
    and later tags of reasoning are text. Behind a pair, "all" makes every block reasoning: (open,
    close, "all"), or "all" alone for `<think>`. There can be many tool calls; the first close tag
    ends a call. A call that has no close tag, (open, None), ends where the next call opens, or with
    the text. Nothing is nested, no white space is trimmed. `start` is the channel that the text
    begins in: "reasoning" if the chat template has opened the block in the prompt (any close tag
    ends it); an open tag at the very beginning, which repeats
    it, is then dropped. `stop` strings end the text: in the content only, or, if `stop_scope` is
    "everywhere" instead of "content", in all channels. `include_stop` shows them. With
    `trim_artifacts`, markers of chat templates are dropped where the whole text begins or ends with
    them, up to 4 at each end; True means the well-known ones (`ARTIFACTS`), a sequence of strings
    means these strings.

    Law: the deltas of every `feed`, joined, are the longest common prefix of the final deltas over
    everything that could still come. At most one stop or tag less a character is held, and before
    it text that could be the last 4 artifacts.

    Deltas are not empty. Within one `feed`, neighbours of one channel are one delta, but two tool
    calls are two. `calls` has the text of every call that was closed, `open_call` that of one that
    wasn't; `held` is the text that waits.

    >>> c = Channels()
    >>> for chunk in ("<thi", "nk>Hm.</think>Yes", ". <tool_call>{}</tool_call>"):
    ...     print([tuple(delta) for delta in c.feed(chunk)])
    []
    [('reasoning', 'Hm.'), ('content', 'Yes')]
    [('content', '. '), ('tool_call', '{}')]
    >>> c.calls
    ['{}']
    """

    def __init__(
        self,
        stop: Any = (),
        *,
        include_stop: bool = False,
        stop_scope: "StopScope" = "content",
        reasoning: str | Sequence[Any] | None = ("<think>", "</think>"),
        tools: Sequence[Any] | None = ("<tool_call>", "</tool_call>"),
        start: "Start" = "content",
        trim_artifacts: bool | Sequence[str] = True,
    ) -> None:
        if stop_scope not in ("content", "everywhere"):
            raise ValueError(f'stop_scope must be "content" or "everywhere", not {stop_scope!r}.')
        thoughts = tag_pairs(reasoning, "reasoning")
        calls = tag_pairs(tools, "tools")
        opens = [pair[0] for pair in thoughts + calls]
        for word in opens:
            if opens.count(word) > 1:
                raise ValueError(f"reasoning and tools must not have the same open tag, {word!r}.")
        if start not in (CONTENT, REASONING, TOOL_CALL):
            raise ValueError(f'start must be "content", "reasoning" or "tool_call", not {start!r}.')
        if (start == REASONING and not thoughts) or (start == TOOL_CALL and not calls):
            option = "reasoning" if start == REASONING else "tools"
            raise ValueError("start is " + repr(start) + ", so " + option + " must have tags.")
        words, markers = stop_words(stop), _markers(trim_artifacts)
        # All that deltas depend on beside the text: copies, so the caller may change its lists.
        self.options: dict[str, Any] = {
            "stop": words,
            "include_stop": bool(include_stop),
            "stop_scope": stop_scope,
            "reasoning": tuple([_given(pair) for pair in thoughts]) or None,
            "tools": tuple([_given(pair) for pair in calls]) or None,
            "start": start,
            "trim_artifacts": markers,
        }
        self.tags: list[str] = [tag for pair in thoughts + calls for tag in pair[:2] if tag]
        kind = KEPT if include_stop else STOP
        key = ("places", words, kind, stop_scope, markers, thoughts, calls)
        self._places: dict[str, Place] = shared(key, _places_of)
        self.reset()

    # Of a format: ids of markers and of ends of a turn, if the last call is whole, the open call.
    marker_ids: dict[int, str] = {}
    end_ids: tuple[int, ...] = ()
    ends_with_call: bool = False
    call_number: int | None = None

    def reset(self) -> None:
        """Forget everything and begin a new text."""
        start = self.options["start"]
        self.forget()
        self.held: str = ""
        self._new_call = False  # whether the next delta begins another call
        self._shown = 0  # characters shown while the artifacts at the start are not yet known
        self._enter(PROMPTED if start == REASONING else start)
        search = self._place.search
        self._at_start = bool(search.edges or search.leads)
        self._emit_certain([], "", 0)

    def forget(self) -> None:
        """Forget that the text has ended, and its calls."""
        self.stopped: str | None = None
        self.calls: list[str] = []
        self.call: str = ""  # the text of the open call
        self._ended = False

    @property
    def channel(self) -> str:
        """The channel of the next character, as far as is known."""
        return self._place.channel

    @property
    def at_rest(self) -> bool:
        """Whether text without the characters of `triggers` passes unchanged."""
        pending = self._node or self._at_start or self._ended or self._new_call
        return not pending and self.stopped is None

    @property
    def triggers(self) -> str | None:
        """The first characters of the words that are searched for; None where text without them
        does not just pass: something is held, or it begins the text or a call.
        """
        return "".join(sorted(self._place.search.first)) if self.at_rest else None

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are searched for anywhere."""
        return self._place.spelled

    @property
    def begun(self) -> str:
        """The beginning of a word that the text ends with, shown or not; "" if there is none."""
        begun: str = self._place.search.begun(self._node)
        return begun

    @property
    def begins_call(self) -> bool:
        """Whether the next delta begins another call."""
        return self._new_call

    @property
    def open_call(self) -> str | None:
        """The text, so far, of a tool call that no close tag has ended; None outside of one."""
        is_open = self.channel == TOOL_CALL and not (self._ended and not self._place.closes)
        return self.call if is_open else None

    def expects(self, tag: str) -> bool:
        """Say whether `tag` would be a tag now, not text."""
        for word, kind in self._place.words:
            if word == tag and kind not in STOPS and kind != EDGE:
                return kind != LEAD or self._at_start
        return False

    def feed(self, text: str) -> list[Delta]:
        """Take text; return the deltas that are certain."""
        if text.__class__ is not str:
            check_text(text)
        out: list[Delta] = []
        self.feed_into(out, text)
        return out

    def mark_call(self) -> "tuple[int, int]":
        """Return how far the calls have come, for `call_since`."""
        return len(self.calls), len(self.call)

    def call_since(self, mark: "tuple[int, int]") -> str | None:
        """Return the text added to the open call since then; None if a call has ended."""
        return self.call[mark[1] :] if len(self.calls) == mark[0] else None

    def extend_call(self, text: str) -> None:
        """Add text from a table to the open call."""
        self.call += text

    def end_segment(self, out: list[Delta]) -> None:
        """End a segment of the text: append what is held to `out`."""
        self._end_segment(out, self.held, False)
        self._node = 0

    def feed_into(
        self, out: list[Delta], text: str, no_stop: bool = False, no_stop_after: bool = False
    ) -> None:
        """Take text; append the deltas that are certain to `out`.

        With `no_stop` no stop can end within `text`; with `no_stop_after` no stop can end within
        some text after it either.
        """
        if self.stopped is not None or not text:
            return
        if self._ended:
            ended("feeding it")
        begin = at = 0
        while True:
            self._node, at, match = self._place.search.scan(self._node, text, begin, no_stop)
            whole = self.held + text[begin:at]
            if match is None:
                break
            kind, word = match
            if kind != KEPT:
                whole = whole[: -len(word)]
            self._end_segment(out, whole, kind == STOP)
            if kind in STOPS:
                self.stopped = word
                return
            self._turn(kind, word)
            begin = at
        if self._node or self._at_start:
            self._emit_certain(out, whole, -1 if no_stop_after else 0)
        else:  # no word has begun
            self.held = ""
            self._emit(out, whole)

    def _emit_certain(self, out: list[Delta], whole: str, no_stop: int) -> None:
        """Emit the certain part of `whole` (the held text and the new one); hold the rest."""
        search = self._place.search
        if self._at_start:
            certain, lead = search.certain_start(self._node, whole, no_stop)
            self._emit(out, certain[self._shown :])
            self._shown = len(certain)
            self._at_start = lead < 0
            self.held = whole if lead < 0 else whole[lead + len(certain) :]
        else:
            cut = len(whole) - search.held_at_end(self._node, whole, no_stop)
            self._emit(out, whole[:cut])
            self.held = whole[cut:]

    def _end_segment(self, out: list[Delta], whole: str, trim_end: bool) -> None:
        """Emit the rest of a segment."""
        shown = self._shown if self._at_start else 0
        trimmed = self._place.search.trim(whole, self._at_start, trim_end)
        self._emit(out, trimmed[shown:])
        self._at_start = False
        self.held = ""

    def _emit(self, out: list[Delta], text: str) -> None:
        if not text:
            return
        channel = self.channel
        another = False
        if channel == TOOL_CALL:
            self.call += text
            another, self._new_call = self._new_call, False
        if out and not another and out[-1].channel == channel:
            text = out.pop().text + text
        out.append(Delta(channel, text))

    def _turn(self, kind: str, tag: str) -> None:
        """Go to the place that a tag leads to."""
        if self.channel == TOOL_CALL:
            self.calls.append(self.call)
        self.call = ""
        self._new_call = kind == OPEN_CALL
        self._enter(self._place.tags[tag])

    def _enter(self, name: str) -> None:
        self._name = name
        self._place = self._places[name]
        self._node = 0  # the state of the search
        self.held = ""

    def flush(self) -> list[Delta]:
        """End the text; return what was held. Until `reset`, a further `feed` raises
        StreamEndedError.
        """
        out: list[Delta] = []
        self.flush_into(out)
        return out

    def flush_into(self, out: list[Delta], trim_end: bool = True) -> None:
        """End the text; append what was held to `out`, without the artifacts at its end."""
        if self.stopped is None and not self._ended:
            self._end_segment(out, self.held, trim_end)
        if self.channel == TOOL_CALL and not self._ended and not self._place.closes:
            self.calls.append(self.call)
        self._node = 0
        self._ended = True

    def save(self, mark: bool = False) -> "Saved":
        """Return the state as plain values; as a `mark` too."""
        flags = (self._at_start, self._new_call, self._ended)
        # Behind the start the count says nothing: equal states are saved alike.
        text = (self._name, self._node, self.held, self._shown if self._at_start else 0)
        return text, flags, self.stopped, self.call, tuple(self.calls)

    def load(self, state: "Saved") -> None:
        """Take a state that `save` of Channels made alike returned, or the list that JSON made of
        it.
        """
        text, flags, self.stopped, self.call, calls = state
        self._enter(text[0])
        self._node, self.held, self._shown = text[1:]
        self._at_start, self._new_call, self._ended = flags
        self.calls = list(calls)

    @staticmethod
    def without_calls(state: "Saved") -> "Saved":
        """Return a saved state without the text of calls."""
        text, flags, stopped, _, _ = state
        return text, flags, stopped, "", ()

    @property
    def key(self) -> "tuple[str, int, str, int, bool]":
        """The part of the state that future output depends on, for a text that has not ended."""
        shown = self._shown if self._at_start else -1
        return self._name, self._node, self.held, shown, self._new_call

    @key.setter
    def key(self, key: "tuple[str, int, str, int, bool]") -> None:
        self._enter(key[0])
        self._node, self.held, shown, self._new_call = key[1:]
        self._at_start, self._shown = shown >= 0, max(0, shown)

    def copy(self) -> "Channels":
        """Return an independent stream in the same state."""
        other = Channels(**self.options)
        other.load(self.save())
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> "Channels":
        return self.copy()
