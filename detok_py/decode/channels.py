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

Each pair of tags has a state REASONING, TOOL_CALL and ANSWER_CALL of its own. From ANSWER, open tags
of reasoning lead on only where every block is reasoning ("all"). A call whose tag has no close tag
ends where the next call opens, or with the text.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from .stage import common
from .stop_strings import check_text, stop_words
from .utf8 import ended
from .word_search import EDGE, KEPT, LEAD, PASSIVE, STOP, STOPS, WordSearch, shared

Delta = NamedTuple("Delta", [("channel", str), ("text", str)])

if TYPE_CHECKING:
    # The state's text, flags, stop, call and calls.
    Saved = tuple[
        tuple[str, int, str, int], tuple[bool, bool, bool], str | None, str, tuple[str, ...]
    ]

CONTENT = "content"
REASONING = "reasoning"
PROMPTED = "prompted reasoning"
ANSWER = "answer"
TOOL_CALL = "tool_call"
ANSWER_CALL = "answer's tool_call"

OPEN_REASONING = "open reasoning"
CLOSE_REASONING = "close reasoning"
OPEN_CALL = "open call"
CLOSE_CALL = "close call"

# Artifacts: markers that engines let through at the ends of an answer, from the chat templates of
# Qwen and other ChatML models, Llama 2 to 4, Phi, Gemma 2 to 4, DeepSeek, Cohere, gpt-oss.
_CLOSING = (
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end|>", "<|return|>", "<|eot|>",
    "<end_of_turn>", "<turn|>", "<eos>", "</s>", "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|END_RESPONSE|>",
)  # fmt: skip
_OPENING = (
    "<|im_start|>", "<|im_start|>assistant", "<|start_header_id|>assistant<|end_header_id|>", "<|begin_of_text|>", "<|assistant|>",
    "<start_of_turn>model", "<|turn>model", "<bos>", "<｜begin▁of▁sentence｜>", "<｜Assistant｜>",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|START_RESPONSE|>", "<|start|>assistant<|channel|>final<|message|>",
)  # fmt: skip
ARTIFACTS = tuple(
    [marker + newlines for marker in _CLOSING + _OPENING for newlines in ("", "\n", "\n\n")]
)

_EDGES = tuple([(word, EDGE) for word in ARTIFACTS])

MAX_ARTIFACTS = 4  # how many are dropped at each end; it bounds what is held
_MAX_MEMO = 4096  # entries in each memo of a search
_MAX_TOKEN = 32  # characters of a text whose effect is remembered
_NONE: dict[str, Delta] = {}


class ArtifactSearch(WordSearch):
    """A search for stops and tags that also finds artifacts at both ends of a text.

    `edges` and `leads` are the words of these kinds. `steps` and `plain` are memos of `Channels`:
    (state, held, text) to (state, held, delta, `plain` then), and text to the delta that it makes
    while nothing is held.
    """

    def __init__(self, words: Sequence[tuple[Any, str]]) -> None:
        super().__init__(words)
        self.edges = [word for word, kind in words if kind == EDGE]
        self.leads = [word for word, kind in words if kind == LEAD]
        self._last = frozenset([word[-1] for word in self.edges])
        self._memo: dict[Any, Any] = {}
        self.steps: dict[tuple[int, str, str], tuple[int, str, Delta | None, dict[str, Delta]]] = {}
        self.plain: dict[str, Delta] = {}

    def artifacts(
        self, text: str, at_end: bool, most: int = MAX_ARTIFACTS, lead: bool = True
    ) -> int:
        """Return how many characters at the start or end of `text` are artifacts: at most `most`
        artifacts, as many characters as possible. At the start, with `lead`, one of them can be the
        repeated open tag.
        """
        best = 0
        if most and text and (text[-1] in self._last if at_end else text[0] in self.first):
            for word in self.edges if at_end or not lead else self.edges + self.leads:
                if text.endswith(word) if at_end else text.startswith(word):
                    rest = text[: -len(word)] if at_end else text[len(word) :]
                    more = self.artifacts(rest, at_end, most - 1, lead and word not in self.leads)
                    best = max(best, len(word) + more)
        return best

    def trim(self, text: str, start: bool, end: bool) -> str:
        """Return `text` without the artifacts at its start, without those at its end."""
        if start:
            text = text[self.artifacts(text, False) :]
        return text[: len(text) - self.artifacts(text, True)] if end else text

    def held_at_end(self, state: int, text: str, no_stop: int = 0) -> int:
        """Return how many characters at the end of `text`, which has led to `state`, must wait."""
        if not self.edges or not state:
            return self.held_length(state, no_stop)
        # The most that could wait: a prefix of a word, and whole artifacts before it.
        reach = 0
        shorter = state
        while shorter:
            depth = self._depth[shorter]
            reach = max(reach, depth + self.artifacts(text[:-depth], True))
            shorter = self._failure[shorter]
        tail = text[-reach:]
        key = (state, tail, no_stop)
        longest = self._memo.get(key)
        if longest is None:
            longest = self.artifacts(tail, True)
            for depth, kind, words in self.prefixes(state):
                waits = 0 if kind in (KEPT, LEAD) else depth
                if kind == STOP:
                    waits += self.artifacts(tail[:-depth], True)
                for word in words:
                    if kind == EDGE:
                        rest = word[depth:]
                        waits = self.artifacts(tail + rest, True) - len(rest)
                    elif not longest < waits:
                        break
                    if longest < waits <= len(tail) and kind == self.match_kind(
                        state, depth, word, kind, no_stop
                    ):
                        longest = waits
            self._remember(key, longest)
        return int(longest)

    def certain_start(self, state: int, text: str, no_stop: int = 0) -> tuple[str, int]:
        """Return what is certain to be shown of a text that begins here, and the length of the
        artifacts that it begins with: -1 if that can still change.
        """
        key = (state, text, no_stop, LEAD)
        known = self._memo.get(key)
        if known is None:
            lead = self.artifacts(text, False)
            is_open = lead == len(text)
            certain = self.trim(text, True, True)
            for depth, kind, words in self.prefixes(state):
                for word in words if depth <= len(text) else ():
                    outcome = self.match_kind(state, depth, word, kind, no_stop)
                    if not outcome:
                        continue
                    passive = outcome in PASSIVE
                    whole = text + word[depth:] if passive or outcome == KEPT else text[:-depth]
                    is_open = is_open or self.artifacts(whole, False) != lead
                    final = self.trim(whole, True, passive or outcome == STOP)
                    certain = certain[: common(certain, final)]
                    if not passive and outcome != KEPT:
                        break  # the other words leave the same text
            known = (certain, -1 if is_open else lead)
            self._remember(key, known)
        return known[0], known[1]

    def _remember(self, key: Any, value: Any) -> None:
        if len(self._memo) >= _MAX_MEMO:
            self._memo.clear()
        self._memo[key] = value


EVERY = "all"  # behind a pair of tags: every block between them is reasoning, not the first alone


def _tag_pairs(pairs: Any, option: str) -> list[tuple[str, str, bool]]:
    """Return pairs of tags as (open, close, whether every block counts); a tag that a call doesn't
    have to close is "".
    """
    if pairs is None:
        return []
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
                option
                + " must be None or a pair of non-empty tags (open, close), or a list of such pairs, not "
                + repr(pairs)[:60]
                + "."
            )
        found.append((tags[0], tags[1] if closes else "", every))
    return found


def _numbered(state: str, at: int) -> str:
    """Return the name of a state of the pair of tags at an index."""
    return state + " " + str(at + 1) if at else state


def _states_of(
    stops: Any, everywhere: Any, edges: Any, thoughts: Any, calls: Any
) -> "dict[str, list[Any]]":
    """Return for each state its channel, the words that it searches for, where its tags lead, and
    None in place of its search.
    """
    states = {}

    def add(state: str, channel: str, active: Any, tags: list[tuple[str, str, str]]) -> None:
        words = active + tuple([(word, kind) for word, kind, _ in tags]) + edges
        states[state] = [channel, words, {word: to for word, kind, to in tags}, None]

    for state, call_state, blocks in (
        (CONTENT, TOOL_CALL, thoughts),
        (ANSWER, ANSWER_CALL, [pair for pair in thoughts if pair[2]]),
    ):
        new_calls = [
            (word, OPEN_CALL, _numbered(call_state, at)) for at, (word, _, _) in enumerate(calls)
        ]
        new_thoughts = [
            (pair[0], OPEN_REASONING, _numbered(REASONING, thoughts.index(pair))) for pair in blocks
        ]
        add(state, CONTENT, stops, new_thoughts + new_calls)
        for at, (_, close, _) in enumerate(calls):
            ends = [(close, CLOSE_CALL, state)] if close else new_calls
            add(_numbered(call_state, at), TOOL_CALL, everywhere, ends)
    closes = [(pair[1], CLOSE_REASONING, ANSWER) for pair in thoughts]
    for at, end in enumerate(closes):
        add(_numbered(REASONING, at), REASONING, everywhere, [end])
    leads = [(pair[0], LEAD, "") for pair in thoughts]
    add(PROMPTED, REASONING, everywhere, leads + closes)
    return states


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
    it what could be the last 4 artifacts.

    Deltas are not empty. Within one `feed`, neighbours of one channel are one delta, but two tool
    calls are two. `calls` has the text of every call that was closed, `open_call` that of one that
    wasn't; `channel` is the channel of the next character, as far as is known; `held` is the text
    that waits. `plain` maps texts that pass unchanged in this state to their deltas.

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
        stop_scope: str = "content",
        reasoning: str | Sequence[Any] | None = ("<think>", "</think>"),
        tools: Sequence[Any] | None = ("<tool_call>", "</tool_call>"),
        start: str = "content",
        trim_artifacts: bool | Sequence[str] = True,
    ) -> None:
        if stop_scope not in ("content", "everywhere"):
            raise ValueError(
                'stop_scope must be "content" or "everywhere", not ' + repr(stop_scope) + "."
            )
        thoughts = _tag_pairs(reasoning, "reasoning")
        calls = _tag_pairs(tools, "tools")
        opens = [pair[0] for pair in thoughts + calls]
        for word in opens:
            if opens.count(word) > 1:
                raise ValueError(
                    "reasoning and tools must not have the same open tag, " + repr(word) + "."
                )
        if start not in (CONTENT, REASONING, TOOL_CALL):
            raise ValueError(
                'start must be "content", "reasoning" or "tool_call", not ' + repr(start) + "."
            )
        if (start == REASONING and not thoughts) or (start == TOOL_CALL and not calls):
            option = "reasoning" if start == REASONING else "tools"
            raise ValueError("start is " + repr(start) + ", so " + option + " must have tags.")
        self.options: dict[str, Any] = {
            "stop": stop,
            "include_stop": include_stop,
            "stop_scope": stop_scope,
            "reasoning": reasoning,
            "tools": tools,
            "start": start,
            "trim_artifacts": trim_artifacts,
        }
        edges = (
            _EDGES
            if trim_artifacts is True
            else tuple([(word, EDGE) for word in trim_artifacts or ()])
        )
        stops = tuple([(word, KEPT if include_stop else STOP) for word in stop_words(stop)])
        everywhere = stops if stop_scope == "everywhere" else ()
        self.tags = [tag for pair in thoughts + calls for tag in pair[:2] if tag]
        key = ("states", stops, everywhere, edges, tuple(thoughts), tuple(calls))
        self._states: dict[str, list[Any]] = shared(key, _states_of)
        self.reset()

    def reset(self) -> None:
        """Forget everything and begin a new text."""
        start = self.options["start"]
        self._node = 0
        self.held = ""
        self.stopped: str | None = None
        self.calls: list[str] = []
        self._call = ""
        self._new_call = False  # whether the next delta begins another call
        self._ended = False
        self._shown = 0  # characters shown while the artifacts at the start are not yet known
        self._enter(PROMPTED if start == REASONING else start)
        self._at_start = bool(self._search.edges or self._search.leads)
        self._emit_certain([], "", 0)

    @property
    def triggers(self) -> str | None:
        """The first characters of the words that are searched for; None where text without them
        does not just pass: something is held, or it begins the text or a call.
        """
        pending = self._node or self._at_start or self._ended or self.stopped is not None
        return None if pending or self._new_call else "".join(sorted(self._search.first))

    @property
    def open_call(self) -> str | None:
        """The text, so far, of a tool call that no close tag has ended; None outside of one."""
        is_open = self.channel == TOOL_CALL and not (self._ended and self._needs_no_close())
        return self._call if is_open else None

    def _needs_no_close(self) -> bool:
        return CLOSE_CALL not in [kind for _, kind in self._states[self._state][1]]

    def expects(self, tag: str) -> bool:
        """Say whether `tag` would be a tag now, not text."""
        for word, kind in self._states[self._state][1]:
            if word == tag and kind not in STOPS and kind != EDGE:
                return kind != LEAD or self._at_start
        return False

    def feed(self, text: str) -> list[Delta]:
        """Take text; return the deltas that are certain."""
        if text.__class__ is not str:
            check_text(text)
        delta = self.plain.get(text)
        if delta is not None:
            return [delta]
        out: list[Delta] = []
        self.feed_into(out, text)
        return out

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
        search = self._search
        memorable = not self._at_start and not no_stop and not no_stop_after
        before = (self._node, self.held, text)
        known = search.steps.get(before) if memorable else None
        if known is not None:
            self._node, self.held, delta, self.plain = known
            if delta is not None:
                if out or self.channel == TOOL_CALL:
                    self._emit(out, delta.text)
                else:
                    out.append(delta)
            return
        begin = at = 0
        while True:
            self._node, at, match = self._search.scan(self._node, text, begin, no_stop)
            whole = self.held + text[begin:at]
            if match is None:
                break
            kind, word = match
            if kind != KEPT:
                whole = whole[: -len(word)]
            self._end_segment(out, whole, kind == STOP)
            if kind in STOPS:
                self.stopped = word
                self._set_plain()
                return
            self._turn(kind, word)
            begin = at
        self._emit_certain(out, whole, -1 if no_stop_after else 0)
        if memorable and not begin and len(text) <= _MAX_TOKEN:
            # Tokens repeat: the next time, this one is looked up.
            if len(search.steps) >= _MAX_MEMO:
                search.steps.clear()
                search.plain.clear()
            certain = whole[: len(whole) - len(self.held)]
            delta = Delta(self.channel, certain) if certain else None
            search.steps[before] = (self._node, self.held, delta, self.plain)
            if not before[0] and not self._node and self.channel != TOOL_CALL:
                search.plain[text] = Delta(self.channel, text)

    def _emit_certain(self, out: list[Delta], whole: str, no_stop: int) -> None:
        """Emit what is certain of `whole`, the text that waited and the new text; hold the rest."""
        if self._at_start:
            certain, lead = self._search.certain_start(self._node, whole, no_stop)
            self._emit(out, certain[self._shown :])
            self._shown = len(certain)
            self._at_start = lead < 0
            self.held = whole if lead < 0 else whole[lead + len(certain) :]
        else:
            cut = len(whole) - self._search.held_at_end(self._node, whole, no_stop)
            self._emit(out, whole[:cut])
            self.held = whole[cut:]
        self._set_plain()

    def _set_plain(self) -> None:
        pending = self._node or self._at_start or self._ended or self.stopped is not None
        self.plain = _NONE if pending or self.channel == TOOL_CALL else self._search.plain

    def _end_segment(self, out: list[Delta], whole: str, trim_end: bool) -> None:
        """Emit the rest of a segment."""
        shown = self._shown if self._at_start else 0
        self._emit(out, self._search.trim(whole, self._at_start, trim_end)[shown:])
        self._at_start = False
        self.held = ""

    def _emit(self, out: list[Delta], text: str) -> None:
        if not text:
            return
        channel = self.channel
        another = False
        if channel == TOOL_CALL:
            self._call += text
            another, self._new_call = self._new_call, False
        if out and not another and out[-1].channel == channel:
            text = out.pop().text + text
        out.append(Delta(channel, text))

    def _turn(self, kind: str, tag: str) -> None:
        """Go to the state that a tag leads to."""
        if self.channel == TOOL_CALL:
            self.calls.append(self._call)
        self._call = ""
        self._new_call = kind == OPEN_CALL
        self._enter(self._states[self._state][2][tag])

    def _enter(self, state: str) -> None:
        self._state = state
        entry = self._states[state]
        self.channel: str = entry[0]
        if entry[3] is None:
            entry[3] = ArtifactSearch.shared(entry[1])
        self._search = entry[3]
        self._node = 0
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
        if self.channel == TOOL_CALL and not self._ended and self._needs_no_close():
            self.calls.append(self._call)
        self._node = 0
        self._ended = True
        self._set_plain()

    def save(self) -> "Saved":
        """Return the state as plain values."""
        flags = (self._at_start, self._new_call, self._ended)
        text = (self._state, self._node, self.held, self._shown)
        return text, flags, self.stopped, self._call, tuple(self.calls)

    def load(self, state: "Saved") -> None:
        """Take a state that `save` of Channels made alike returned, or the list that JSON made of
        it.
        """
        text, flags, self.stopped, self._call, calls = state
        self._enter(text[0])
        self._node, self.held, self._shown = text[1:]
        self._at_start, self._new_call, self._ended = flags
        self.calls = list(calls)
        self._set_plain()

    def copy(self) -> "Channels":
        """Return an independent stream in the same state."""
        other = Channels(**self.options)
        other.load(self.save())
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> "Channels":
        return self.copy()
