"""Text cut at words: stop strings, tags and the markers of chat templates, found by one automaton.

In: text, cut anywhere. Out: the text that is certain, with the channel it belongs to. Held: the end of the text, as long as some
continuation would show less of it; nothing else.

What is found is the word that is complete first; of those complete at the same character, the one that began first. A stop ends
the text. A tag ends a segment and begins the next one, and none of its characters takes part in another word. Markers of chat
templates are passive: text wherever they stand, except at the very ends.

`Automaton` is Aho and Corasick's ("Efficient string matching", 1975). What waits is not simply the depth of its state: a word with
a shorter one inside it can never be complete first, so nothing waits for it. So each state is asked, once, which of the words that
it is a beginning of would really be the first, and what all these outcomes have in common is certain.
"""

from typing import Any, NamedTuple, Sequence

from .utf8 import ended

try:
    from re import compile, escape
except ImportError:  # MicroPython's `re` has no such thing, and looks at bytes
    escape: Any = None  # type: ignore[no-redef]

Delta = NamedTuple("Delta", [("channel", str), ("text", str)])

# What becomes of the text when a word is complete. Any other kind is the name of a tag.
STOP = "stop"  # the text ends before it
KEPT = "kept"  # the text ends behind it
EDGE = "edge"  # passive: not shown where the text begins or ends with it
LEAD = "lead"  # passive: not shown, once, where the text begins with it
PASSIVE = (EDGE, LEAD)

OPEN_REASONING = "open reasoning"
CLOSE_REASONING = "close reasoning"
OPEN_CALL = "open call"
CLOSE_CALL = "close call"

# Markers that engines let through at the ends of an answer, from the chat templates of Qwen and other ChatML models, Llama 2 to 4,
# Phi, Gemma 2 to 4, DeepSeek, Cohere, gpt-oss.
_CLOSING = (
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>", "<|end|>", "<|return|>", "<|eot|>",
    "<end_of_turn>", "<turn|>", "<eos>", "</s>", "<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|END_RESPONSE|>",
)  # fmt: skip
_OPENING = (
    "<|im_start|>", "<|im_start|>assistant", "<|start_header_id|>assistant<|end_header_id|>", "<|begin_of_text|>", "<|assistant|>",
    "<start_of_turn>model", "<|turn>model", "<bos>", "<｜begin▁of▁sentence｜>", "<｜Assistant｜>",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|START_RESPONSE|>", "<|start|>assistant<|channel|>final<|message|>",
)  # fmt: skip
ARTIFACTS = tuple([marker + newlines for marker in _CLOSING + _OPENING for newlines in ("", "\n", "\n\n")])

MAX_ARTIFACTS = 4  # markers that are not shown at each end; it bounds what is held
_MAX_MEMO = 4096  # entries in each memo of an automaton
_SHORT = 16  # characters that are looked through one by one, as a search would take longer to begin
_MAX_TOKEN = 32  # characters of a text that is remembered with what came of it
_NOTHING: dict[str, Delta] = {}


class Automaton:
    """Finds words in text, or sequences in a stream of ids. One is shared by all streams that look for the same words.

    `words` are pairs (word, kind). A stop goes before a tag of the same spelling. An empty word raises ValueError.

    >>> a = Automaton([("STOP", STOP)])
    >>> a.scan(0, "a STO", 0), a.keep(3)
    ((3, 5, None), 3)
    >>> a.scan(3, "P!", 0)
    (4, 1, ('stop', 'STOP'))
    """

    __slots__ = (
        "_calm", "_depths", "_ends", "_fails", "_keeps", "_last", "_loud", "_next", "_rows", "_search", "_settled", "_through",
        "edges", "first", "leads", "plain", "steps",
    )  # fmt: skip

    def __init__(self, words: Sequence[tuple[Any, str]]) -> None:
        kinds: dict[Any, list[str]] = {}
        given = []  # in their order: states are numbered by it, in MicroPython too, whose dicts have none
        for word, kind in words:
            if not len(word):
                raise ValueError("an empty stop or tag would be found everywhere; leave it out")
            if word not in kinds:
                kinds[word] = []
                given.append(word)
            its = kinds[word]
            if kind not in its:
                its.append(kind)
        self.edges: tuple[str, ...] = tuple([word for word in given if EDGE in kinds[word]])
        self.leads: tuple[str, ...] = tuple([word for word in given if LEAD in kinds[word]])
        self._ends = frozenset([word[-1] for word in self.edges])
        self._next: list[dict[Any, int]] = [{}]
        self._depths = [0]
        self._through: list[list[tuple[Any, str]]] = [[]]
        self._loud: list[tuple[str, Any] | None] = [None]  # the longest active word that ends here
        self._calm: list[tuple[str, Any] | None] = [None]  # the longest tag that ends here: what is found while stops are silent
        for word in given:
            self._add(word, kinds[word])
        self._fails = [0] * len(self._next)
        self._link()
        self._rows: list[dict[Any, int] | None] = [None] * len(self._next)
        self._rows[0] = self._next[0]
        self._last = {word: self._ending(word) for word in kinds}
        self.first = frozenset(self._next[0])
        self._search: Any = None
        self._keeps: dict[int, dict[int, int]] = {0: {}, -1: {}}
        self._settled: dict[Any, Any] = {}
        # What `Channels` has learnt. (state, held, text) → (state, held, delta, what is plain then); at the root, text → its delta.
        self.steps: dict[tuple[int, str, str], tuple[int, str, Delta | None, dict[str, Delta]]] = {}
        self.plain: dict[str, Delta] = {}

    def _add(self, word: Any, its: list[str]) -> None:
        active = [kind for kind in its if kind not in PASSIVE]
        stops = [kind for kind in active if kind in (STOP, KEPT)]
        tags = [kind for kind in active if kind not in (STOP, KEPT)]
        node = 0
        for symbol in word:
            child = self._next[node].get(symbol)
            if child is None:
                child = self._next[node][symbol] = len(self._next)
                self._next.append({})
                self._depths.append(self._depths[node] + 1)
                self._through.append([])
                self._loud.append(None)
                self._calm.append(None)
            node = child
            self._through[node] += [(word, kind) for kind in its]
        if active:
            self._loud[node] = ((stops or tags)[0], word)
        if tags:
            self._calm[node] = (tags[0], word)

    def _link(self) -> None:
        """Find each state's longest proper suffix that is a state, level by level."""
        level = list(self._next[0].values())
        while level:
            below = []
            for node in level:
                fail = self._fails[node]
                if self._loud[node] is None:
                    self._loud[node] = self._loud[fail]
                if self._calm[node] is None:
                    self._calm[node] = self._calm[fail]
                for symbol, child in self._next[node].items():
                    other = fail
                    while other and symbol not in self._next[other]:
                        other = self._fails[other]
                    self._fails[child] = self._next[other].get(symbol, 0)
                    below.append(child)
            level = below

    def _ending(self, word: Any) -> tuple[int, Any]:
        """Return where the last active word that lies inside `word` ends (0 if none does), and what is found at its end."""
        node = last = 0
        for at in range(len(word)):
            if self._loud[node] is not None:
                last = at
            node = self._next[node][word[at]]
        return last, self._loud[node]

    def _row(self, node: int) -> dict[Any, int]:
        """Return where each symbol leads from a state; a symbol that isn't there leads to the root."""
        chain = []
        row = self._rows[node]
        while row is None:
            chain.append(node)
            node = self._fails[node]
            row = self._rows[node]
        for node in reversed(chain):
            own = self._next[node]
            if own:
                row = dict(row)
                row.update(own)
            self._rows[node] = row
        return row

    def scan(self, node: int, text: Any, at: int, calm: bool = False) -> tuple[int, int, Any]:
        """Go on from a state over `text[at:]`, to its end or to the first word that is complete.

        Returns (state, index behind the last character that was read, None or (kind, word)). `calm` finds tags only.
        """
        hits = self._calm if calm else self._loud
        rows = self._rows
        size = len(text)
        while at < size:
            if not node:
                at = self._skip(text, at)
                if at == size:
                    break
            row = rows[node]
            if row is None:
                row = self._row(node)
            node = row.get(text[at], 0)
            at += 1
            if node and hits[node] is not None:
                return node, at, hits[node]
        return node, at, None

    def _skip(self, text: Any, at: int) -> int:
        """Return the first index from `at` on where a word may begin, or the end of `text`."""
        first = self.first
        size = len(text)
        if size - at <= _SHORT:
            while at < size and text[at] not in first:
                at += 1
            return at
        if self._search is None and escape is not None:
            self._search = self._compiled()
        if self._search is not None:
            found = self._search(text, at)
            return found.start() if found else size
        # Each search ends where the best one before it has, so that all together look at each character a few times at most.
        for symbol in first:
            found = text.find(symbol, at, size)
            if found >= 0:
                size = found
        return size

    def _compiled(self) -> Any:
        """Return the search for the first two characters of a word, or for the first one at the end of the text."""
        ways = []
        for symbol, node in self._next[0].items():
            way = escape(symbol)
            seconds = "".join([escape(second) for second in self._next[node]])
            if seconds and self._loud[node] is None:
                way += "(?:[" + seconds + r"]|\Z)"
            ways.append(way)
        return compile("|".join(ways)).search

    def _reached(self, node: int, depth: int, word: Any, kind: str, silent: int) -> str:
        """Return as what `word`, of which the last `depth` symbols are there, can be complete before anything else is; "" if never.

        Stops are silent for the next `silent` symbols; if that is negative, for as long as suits the word. A passive word that is
        complete just when a stop that is shown is, is part of what that stop keeps.
        """
        passive = kind in PASSIVE
        if silent < 0:
            silent = len(word) - depth - (1 if kind in (STOP, KEPT) else 0)
        elif not silent and self._depths[node] == depth:
            # The state is a beginning of the word and of nothing longer: what lies ahead is known without walking there.
            last, hit = self._last[word]
            if last > depth:
                return ""
            if hit is None or depth == len(word):
                return kind
            return KEPT if passive and hit[0] == KEPT else kind if hit == (kind, word) else ""
        for at in range(depth, len(word)):
            row = self._rows[node]
            if row is None:
                row = self._row(node)
            node = row.get(word[at], 0)
            hit = self._loud[node] if at - depth >= silent else self._calm[node]
            if hit is not None:
                if at + 1 < len(word):
                    return ""
                return KEPT if passive and hit[0] == KEPT else kind if hit == (kind, word) else ""
        return kind if passive else ""

    def keep(self, node: int, silent: int = 0) -> int:
        """Return how many of the last symbols must wait in a state, markers apart.

        Stops are silent for the next `silent` symbols; if that is negative, until some unknown time.
        """
        if silent <= 0 and node in self._keeps[silent]:
            return self._keeps[silent][node]
        longest = 0
        state = node
        while state and not longest:
            depth = self._depths[state]
            for word, kind in self._through[state]:
                if depth < len(word) and kind != KEPT and kind not in PASSIVE and self._reached(node, depth, word, kind, silent):
                    longest = depth
                    break
            state = self._fails[state]
        if silent <= 0:
            self._keeps[silent][node] = longest
        return longest

    def run_back(self, text: str, most: int = MAX_ARTIFACTS) -> int:
        """Return how many characters at the end of `text` are markers: at most `most` of them, as many characters as possible."""
        best = 0
        if most and text and text[-1] in self._ends:
            for word in self.edges:
                if text.endswith(word):
                    best = max(best, len(word) + self.run_back(text[: -len(word)], most - 1))
        return best

    def run_ahead(self, text: str, most: int = MAX_ARTIFACTS, lead: bool = True) -> int:
        """Return how many characters at the beginning of `text` are markers: at most `most`, the leading word once among them."""
        best = 0
        if most and text and text[0] in self.first:
            for word in self.edges:
                if text.startswith(word):
                    best = max(best, len(word) + self.run_ahead(text[len(word) :], most - 1, lead))
            for word in self.leads if lead else ():
                if text.startswith(word):
                    best = max(best, len(word) + self.run_ahead(text[len(word) :], most - 1, False))
        return best

    def trim(self, text: str, leading: bool, trailing: bool) -> str:
        """Return `text` without the markers at its beginning, without those at its end."""
        if leading:
            text = text[self.run_ahead(text) :]
        return text[: len(text) - self.run_back(text)] if trailing else text

    def _outcomes(self, node: int, most: int, silent: int) -> list[tuple[int, Any, str]]:
        """Return all that could be complete next and of which at most `most` symbols are there: (symbols there, word, as what)."""
        found = []
        state = node
        while state:
            depth = self._depths[state]
            for word, kind in self._through[state] if depth <= most else ():
                outcome = self._reached(node, depth, word, kind, silent) if depth < len(word) or kind in PASSIVE else ""
                if outcome:
                    found.append((depth, word, outcome))
            state = self._fails[state]
        return found

    def settle(self, node: int, text: str, silent: int = 0) -> int:
        """Return how many characters at the end of `text`, which has led to a state, must wait."""
        if not self.edges or not node:
            return self.keep(node, silent)
        # All that could wait: a beginning of a word, and whole markers before it.
        reach = 0
        state = node
        while state:
            depth = self._depths[state]
            reach = max(reach, depth + self.run_back(text[:-depth]))
            state = self._fails[state]
        tail = text[-reach:]
        key = (node, tail, silent)
        longest = self._settled.get(key)
        if longest is None:
            longest = self.run_back(tail)
            for depth, word, kind in self._outcomes(node, len(tail), silent):
                if kind == STOP:
                    waits = depth + self.run_back(tail[:-depth])
                elif kind == EDGE:
                    waits = self.run_back(tail + word[depth:]) - (len(word) - depth)
                else:
                    waits = 0 if kind in (KEPT, LEAD) else depth
                longest = max(longest, waits)
            self._remember(key, longest)
        return int(longest)

    def settle_lead(self, node: int, text: str, silent: int = 0) -> tuple[str, int]:
        """Return what is certain of a text that begins here, and how many of its first characters are markers: -1 if that is open."""
        key = (node, text, silent, LEAD)
        known = self._settled.get(key)
        if known is None:
            lead = self.run_ahead(text)
            is_open = lead == len(text)
            certain = self.trim(text, True, True)
            for depth, word, kind in self._outcomes(node, len(text), silent):
                whole = text + word[depth:] if kind == KEPT or kind in PASSIVE else text[:-depth]
                is_open = is_open or self.run_ahead(whole) != lead
                certain = _common(certain, self.trim(whole, True, kind == STOP or kind in PASSIVE))
            known = (certain, -1 if is_open else lead)
            self._remember(key, known)
        return known[0], known[1]

    def _remember(self, key: Any, value: Any) -> None:
        if len(self._settled) >= _MAX_MEMO:
            self._settled.clear()
        self._settled[key] = value


def _common(a: str, b: str) -> str:
    """Return the longest common prefix."""
    at = 0
    most = min(len(a), len(b))
    while at < most and a[at] == b[at]:
        at += 1
    return a[:at]


_shared: dict[Any, Automaton] = {}


def automaton(words: tuple[tuple[Any, str], ...]) -> Automaton:
    """Return the automaton of some words. It is made once, as streams with the same stops and tags follow each other."""
    found = _shared.get(words)
    if found is None:
        if len(_shared) >= 64:
            _shared.clear()
        found = _shared[words] = Automaton(words)
    return found


def stop_words(stops: Any) -> tuple[str, ...]:
    """Return stop strings as a tuple: None is none, a single string is one. An empty string raises ValueError."""
    words = () if stops is None else (stops,) if isinstance(stops, str) else tuple(stops)
    for word in words:
        if not isinstance(word, str):
            raise TypeError("a stop string is text, not " + repr(word)[:40])
        if not word:
            raise ValueError("an empty stop string would stop every text at once; leave it out")
    return words


class StopStrings:
    """Text that ends where one of some strings begins: text in, text out.

    Law: after every `feed` all that was returned, joined, is the longest common prefix of the final text over everything that could
    still come. So only an end of the text that can still become a stop is held: at most the longest stop less a character.

    The stop that is complete first wins; of those complete at the same character, the one that began first. With `include` the
    stop is shown too, and nothing ever needs to wait. A stop that ends within the first `min_chars` characters is text.
    After a stop everything is dropped; `stopped` says which it was. An empty stop string raises ValueError.

    >>> st = StopStrings(["STOP"])
    >>> [st.feed(chunk) for chunk in ("go, S", "T", "!", " ST", "OP, no more")], st.stopped
    (['go, ', '', 'ST!', ' ', ''], 'STOP')
    """

    __slots__ = ("_automaton", "_ended", "_node", "_silent", "held", "include", "min_chars", "stopped", "stops")

    def __init__(self, stops: Any, include: bool = False, min_chars: int = 0) -> None:
        self.stops = stop_words(stops)
        self.include = include
        self.min_chars = min_chars
        self._automaton = automaton(tuple([(word, KEPT if include else STOP) for word in self.stops]))
        self.reset()

    def reset(self) -> None:
        """Forget everything and begin a new text."""
        self.held = ""
        self.stopped: str | None = None
        self._node = 0
        self._silent = self.min_chars  # characters to come within which no stop may end
        self._ended = False

    def feed(self, text: str) -> str:
        """Take text; return what is certain to be shown."""
        if self.stopped is not None or not text:
            return ""
        if self._ended:
            ended("feeding it")
        words = self._automaton
        if not self._node and not self._silent and words.first.isdisjoint(text):
            return text
        node, at, hit = self._node, 0, None
        if self._silent:
            at = min(self._silent, len(text))
            node = words.scan(node, text[:at], 0, True)[0]
            self._silent -= at
        if at < len(text):
            node, at, hit = words.scan(node, text, at)
        whole = self.held + text[:at]
        if hit is not None:
            self.stopped = hit[1]
            self.held = ""
            self._node = 0
            return whole if self.include else whole[: -len(hit[1])]
        self._node = node
        cut = len(whole) - words.keep(node, self._silent)
        self.held = whole[cut:]
        return whole[:cut]

    def flush(self) -> str:
        """End the text; return what was held, as it became no stop. Until `reset`, a further `feed` raises StreamEndedError."""
        text, self.held = self.held, ""
        self._node = 0
        self._ended = True
        return text

    def save(self) -> tuple[Any, ...]:
        """Return the state as plain values."""
        return self.held, self.stopped, self._node, self._silent, self._ended

    def load(self, state: Any) -> None:
        """Take a state that `save` of a StopStrings with the same stops returned, or the list that JSON made of it."""
        self.held, self.stopped, self._node, self._silent, self._ended = state

    def copy(self) -> "StopStrings":
        """Return an independent stream in the same state."""
        other = StopStrings(self.stops, self.include, self.min_chars)
        other.load(self.save())
        return other


_EDGES = tuple([(word, EDGE) for word in ARTIFACTS])


def _tags(pair: Any, what: str) -> tuple[str, str]:
    """Return a pair of tags, ("", "") for None."""
    if pair is None:
        return "", ""
    tags = tuple(pair)
    if isinstance(pair, str) or len(tags) != 2 or not all(isinstance(tag, str) and tag for tag in tags):
        raise ValueError(what + " is None or a pair of tags, (open, close), none of them empty; not " + repr(pair)[:60])
    return tags[0], tags[1]


class Channels:
    """Text to deltas: what is the answer, what is reasoning, what is a tool call.

    `reasoning` and `tools` are pairs of tags, or None. The first open tag of reasoning anywhere in the answer begins it, the first
    close tag after that ends it, and its later tags are text. Tool calls may be many; the first close tag ends a call, wherever
    it stands. Nothing is nested, no white space is trimmed. `start` is the channel that the text begins in: "reasoning" where the
    template has opened the block in the prompt; an open tag at the very beginning, which repeats it, is then dropped.
    `stop` strings end the text: in the answer only, or, with the `stop_scope` "everywhere" instead of "content", in all channels.
    `include_stop` shows them. With `trim_artifacts`, markers of chat templates are not shown where the whole text begins or ends
    with them, up to 4 at each end; True stands for the well-known ones (`ARTIFACTS`), a sequence of strings for these.

    Law: the deltas of every `feed`, joined, are the longest common prefix of the final deltas over everything that could still come.
    At most one stop or tag less a character is held, and before it what could be the last 4 markers.

    Deltas are not empty. Within one `feed`, neighbours of one channel are one delta, but two tool calls are two. `calls` has the
    text of every call that was closed, `open_call` that of one that wasn't; `channel` is where the next character belongs, as far as
    is known; `held` is the text that waits.

    >>> c = Channels()
    >>> for chunk in ("<thi", "nk>Hm.</think>Yes", ". <tool_call>{}</tool_call>"):
    ...     print([tuple(delta) for delta in c.feed(chunk)])
    []
    [('reasoning', 'Hm.'), ('content', 'Yes')]
    [('content', '. '), ('tool_call', '{}')]
    >>> c.calls
    ['{}']
    """

    __slots__ = (
        "_automaton", "_call", "_ended", "_lead", "_node", "_settings", "_shown", "_split", "_state", "_words",
        "calls", "channel", "held", "plain", "stopped",
    )  # fmt: skip

    def __init__(
        self,
        stop: Any = (),
        *,
        include_stop: bool = False,
        stop_scope: str = "content",
        reasoning: tuple[str, str] | None = ("<think>", "</think>"),
        tools: tuple[str, str] | None = ("<tool_call>", "</tool_call>"),
        start: str = "content",
        trim_artifacts: bool | Sequence[str] = True,
    ) -> None:
        if stop_scope not in ("content", "everywhere"):
            raise ValueError('stop_scope is "content" or "everywhere", not ' + repr(stop_scope))
        think, unthink = _tags(reasoning, "reasoning")
        call, uncall = _tags(tools, "tools")
        if think and think == call:
            raise ValueError("reasoning and tools have the same open tag, " + repr(think) + ": give them different ones")
        if start not in ("content", "reasoning", "tool_call"):
            raise ValueError('start is "content", "reasoning" or "tool_call", not ' + repr(start))
        if (start == "reasoning" and not think) or (start == "tool_call" and not call):
            raise ValueError("a text that starts in " + start + " needs the tags of " + ("reasoning" if start == "reasoning" else "tools"))
        edges = _EDGES if trim_artifacts is True else tuple([(word, EDGE) for word in trim_artifacts or ()])
        stops = tuple([(word, KEPT if include_stop else STOP) for word in stop_words(stop)])
        everywhere = stops if stop_scope == "everywhere" else ()
        open_reasoning = ((think, OPEN_REASONING),) if think else ()
        open_call = ((call, OPEN_CALL),) if call else ()
        close_reasoning = ((unthink, CLOSE_REASONING),)
        # What is looked for in each state. "answer" is content after reasoning; "opened" is reasoning that the prompt has begun.
        self._words: dict[str, tuple[tuple[str, str], ...]] = {
            "content": stops + open_reasoning + open_call + edges,
            "answer": stops + open_call + edges,
            "reasoning": everywhere + close_reasoning + edges,
            "opened": everywhere + close_reasoning + ((think, LEAD),) + edges,
            "tool_call": everywhere + ((uncall, CLOSE_CALL),) + edges,
            "answer's tool_call": everywhere + ((uncall, CLOSE_CALL),) + edges,
        }
        self._settings = (stop, include_stop, stop_scope, reasoning, tools, start, trim_artifacts)
        self.reset()

    def reset(self) -> None:
        """Forget everything and begin a new text."""
        start = self._settings[5]
        self.held = ""
        self._node = 0
        self.stopped: str | None = None
        self.calls: list[str] = []
        self._call = ""
        self.plain: dict[str, Delta] = _NOTHING  # texts that pass as they are now, with the delta that they make
        self._split = False  # whether the next delta of a call is of another call than the last
        self._ended = False
        self._shown = 0  # characters shown of a text whose beginning is still open
        self._enter("opened" if start == "reasoning" else start)
        self._lead = bool(self._automaton.edges or self._automaton.leads)
        self._settle("", [], 0)

    @property
    def open_call(self) -> str | None:
        """The text, so far, of a tool call that no close tag has ended; None outside of one."""
        return self._call if self.channel == "tool_call" else None

    def expects(self, tag: str) -> bool:
        """Say whether `tag` would mean something now, or is text."""
        for word, kind in self._words[self._state]:
            if word == tag and kind not in (STOP, KEPT, EDGE):
                return kind != LEAD or self._lead
        return False

    def feed(self, text: str) -> list[Delta]:
        """Take text; return the deltas that are certain."""
        delta = self.plain.get(text)
        if delta is not None:
            return [delta]
        out: list[Delta] = []
        self.take(text, out)
        return out

    def take(self, text: str, out: list[Delta], silent: bool = False, silent_after: bool = False) -> None:
        """Take text; append the deltas that are certain to `out`.

        With `silent` no stop can end within `text`; with `silent_after` none can until some later time either.
        """
        if self.stopped is not None or not text:
            return
        if self._ended:
            ended("feeding it")
        words = self._automaton
        usual = not self._lead and not silent and not silent_after
        before = (self._node, self.held, text)
        known = words.steps.get(before) if usual else None
        if known is not None:
            self._node, self.held, delta, self.plain = known
            if delta is not None:
                if out or self.channel == "tool_call":
                    self._emit(delta.text, out)
                else:
                    out.append(delta)
            return
        begin = at = 0
        while True:
            self._node, at, hit = self._automaton.scan(self._node, text, begin, silent)
            whole = self.held + text[begin:at]
            if hit is None:
                break
            kind, word = hit
            if kind != KEPT:
                whole = whole[: -len(word)]
            self._finish(whole, kind == STOP, out)
            if kind in (STOP, KEPT):
                self.stopped = word
                self._look()
                return
            self._turn(kind)
            begin = at
        self._settle(whole, out, -1 if silent_after else 0)
        if usual and not begin and len(text) <= _MAX_TOKEN:
            # Tokens come again and again: the next time this one is a look into a table.
            if len(words.steps) >= _MAX_MEMO:
                words.steps.clear()
                words.plain.clear()
            certain = whole[: len(whole) - len(self.held)]
            words.steps[before] = self._node, self.held, Delta(self.channel, certain) if certain else None, self.plain
            if not before[0] and not self._node and self.channel != "tool_call":
                words.plain[text] = Delta(self.channel, text)

    def _settle(self, whole: str, out: list[Delta], silent: int) -> None:
        """Show what is certain of `whole`, which has led to this state; hold the rest."""
        if self._lead:
            certain, lead = self._automaton.settle_lead(self._node, whole, silent)
            self._emit(certain[self._shown :], out)
            if lead < 0:
                self.held = whole
                self._shown = len(certain)
            else:
                self._lead = False
                self.held = whole[lead + len(certain) :]
        else:
            cut = len(whole) - self._automaton.settle(self._node, whole, silent)
            self._emit(whole[:cut], out)
            self.held = whole[cut:]
        self._look()

    def _look(self) -> None:
        """See whether texts can pass as they are."""
        at_rest = not self._node and not self._lead and self.stopped is None and not self._ended
        self.plain = self._automaton.plain if at_rest and self.channel != "tool_call" else _NOTHING

    def _finish(self, whole: str, trailing: bool, out: list[Delta]) -> None:
        """Show all of a segment that is still to be shown."""
        shown = self._shown if self._lead else 0
        self._emit(self._automaton.trim(whole, self._lead, trailing)[shown:], out)
        self._lead = False
        self.held = ""

    def _emit(self, text: str, out: list[Delta]) -> None:
        if not text:
            return
        channel = self.channel
        if channel == "tool_call":
            self._call += text
            split, self._split = self._split, False
        else:
            split = False
        if out and not split and out[-1].channel == channel:
            out[-1] = Delta(channel, out[-1].text + text)
        else:
            out.append(Delta(channel, text))

    def _turn(self, tag: str) -> None:
        """Go to the state that a tag leads to."""
        if tag == OPEN_REASONING:
            self._enter("reasoning")
        elif tag == CLOSE_REASONING:
            self._enter("answer")
        elif tag == OPEN_CALL:
            self._call = ""
            self._split = True
            self._enter("tool_call" if self._state == "content" else "answer's tool_call")
        else:
            self.calls.append(self._call)
            self._call = ""
            self._enter("content" if self._state == "tool_call" else "answer")

    def _enter(self, state: str) -> None:
        self._state = state
        self.channel = _CHANNEL_OF[state]
        self._automaton = automaton(self._words[state])
        self._node = 0
        self.held = ""

    def flush(self) -> list[Delta]:
        """End the text; return what was held. Until `reset`, a further `feed` raises StreamEndedError."""
        out: list[Delta] = []
        self.end(out)
        return out

    def end(self, out: list[Delta]) -> None:
        """End the text; append what was held to `out`."""
        if self.stopped is None and not self._ended:
            self._finish(self.held, True, out)
        self._node = 0
        self._ended = True
        self.plain = _NOTHING

    def save(self) -> tuple[Any, ...]:
        """Return the state as plain values."""
        flags = (self._lead, self._split, self._ended)
        return self._state, self._node, self.held, self._shown, flags, self.stopped, self._call, tuple(self.calls)

    def load(self, state: Any) -> None:
        """Take a state that `save` of Channels made alike returned, or the list that JSON made of it."""
        self._enter(state[0])
        self._node, self.held, self._shown = state[1:4]
        self._lead, self._split, self._ended = state[4]
        self.stopped, self._call, self.calls = state[5], state[6], list(state[7])
        self._look()

    def copy(self) -> "Channels":
        """Return an independent stream in the same state."""
        stop, include_stop, stop_scope, reasoning, tools, start, trim = self._settings
        other = Channels(
            stop, include_stop=include_stop, stop_scope=stop_scope, reasoning=reasoning, tools=tools, start=start, trim_artifacts=trim
        )
        other.load(self.save())
        return other


_CHANNEL_OF = {
    "content": "content",
    "answer": "content",
    "reasoning": "reasoning",
    "opened": "reasoning",
    "tool_call": "tool_call",
    "answer's tool_call": "tool_call",
}
