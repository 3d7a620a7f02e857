"""Find the first of several words in a stream, by Aho and Corasick's automaton.

In: text, or a sequence of ids, cut anywhere. Out: the first match, and how many symbols at the end
may still become part of one. Held: nothing; the caller keeps the state, an integer.

The automaton is that of "Efficient string matching" (A. V. Aho, M. J. Corasick, 1975). A state
stands for the longest end of the input that is a prefix of a word. State 0, the root, stands for
the empty end: no word has begun. For the words "abcd" and "bc":

    ┌───┐ a  ┌───┐ b  ┌────┐ c  ┌─────┐ d  ┌──────┐      ──▶  goto: the next symbol of a word
    │ 0 ├───▶│ 1 ├───▶│ 2  ├───▶│ 3 ● ├───▶│ 4 ●  │      ┄┄▶  failure: the next shorter end
    │   │    │ a │    │ ab │    │ abc │    │ abcd │           that is a prefix of a word
    │   │    └───┘    └─┬──┘    └──┬──┘    └──────┘       ●   output: a word is complete
    │   │               ┆          ┆
    │   │               ▼          ▼
    │   │ b           ┌───┐ c   ┌─────┐
    │   ├────────────▶│ 5 ├────▶│ 6 ● │
    └───┘             │ b │     │ bc  │
                      └───┘     └─────┘

    0  root: nothing is pending.
    1  "a" has come. The failure link (not drawn) leads to the root, as "" is the next shorter end.
    2  "ab" has come. Its failure link leads to 5, because "b" is a prefix of "bc".
    3  "abc" has come. "bc" ends here, so state 3 has the output of state 6.
    4  Never reached: a caller stops at the match in state 3.
    5  "b" has come, without an "a" before it.
    6  "bc" has come: a match.

The first match is the word that is complete first; of words complete at the same symbol, the one
that began first. "abcd" is never a first match, because "bc" is complete inside it. So in state 1
nothing has to wait, and in state 2 only the "b": the held length can be shorter than the depth of
the state.
"""

import re
from typing import Any, Iterator, NamedTuple, Self, Sequence

# What a match does. Any other kind is the name of a tag.
STOP = "stop"  # the text ends before the word
KEPT = "kept"  # the text ends after the word
EDGE = "edge"  # not a match: the word is dropped at the beginning and at the end of the text
LEAD = "lead"  # not a match: the word is dropped, once, at the beginning of the text
STOPS = (STOP, KEPT)
PASSIVE = (EDGE, LEAD)

Match = NamedTuple("Match", [("kind", str), ("word", Any)])

# MicroPython's `re` has no `escape` and matches bytes, not characters.
HAS_REGULAR_EXPRESSIONS = hasattr(re, "escape")
_SHORT = 16  # shorter texts are walked: a regular expression takes longer to begin
_MANY = 64  # first characters: a pattern of so many choices tries them one by one
_MAX_SHARED = 64  # automatons and tables that are kept for the next stream with the same words

_shared: dict[Any, Any] = {}


def shared(key: tuple[Any, ...], make: Any) -> Any:
    """Return `make(*key[1:])`, cached by the key."""
    found = _shared.get(key)  # hashing a long list of words is slow
    if found is None:
        if len(_shared) >= _MAX_SHARED:
            _shared.clear()
        found = _shared[key] = make(*key[1:])
    return found


def letters_of(words: tuple[str, ...]) -> str:
    """Return all characters of these words.

    >>> letters_of(("stop", "top"))
    'opst'
    """
    found: str = shared(("letters", words), lambda words: "".join(sorted(set("".join(words)))))
    return found


class WordSearch:
    """An automaton that finds words in text, or sequences in a stream of ids.

    `words` are pairs (word, kind). If a stop and a tag are spelled the same, the stop matches. An
    empty word raises ValueError. The automaton does not change: streams share it.

    >>> search = WordSearch([("STOP", STOP)])
    >>> search.scan(0, "a STO"), search.held_length(3)
    ((3, 5, None), 3)
    >>> search.scan(3, "P!")
    (4, 1, Match(kind='stop', word='STOP'))
    """

    def __init__(self, words: Sequence[tuple[Any, str]]) -> None:
        self._goto: list[dict[Any, int]] = [{}]
        self._depth = [0]
        self._prefix_of: list[list[tuple[Any, str]]] = [[]]
        # The match in each state, and the match in each state while stops are ignored.
        self._output: list[Match | None] = [None]
        self._tag_output: list[Match | None] = [None]
        known = set()
        for word, kind in words:
            if not len(word):
                raise ValueError("A stop or tag must not be empty.")
            if (word, kind) not in known:
                known.add((word, kind))
                self._add(word, kind)
        self._failure = [0] * len(self._goto)
        self._link()
        # The transitions of each state but those of the root, made when they are first needed.
        self._rows: list[dict[Any, int] | None] = [{}] + [None] * (len(self._goto) - 1)
        # The words that have begun in a state, by kind, made when they are first needed.
        self._begun: dict[int, list[tuple[str, list[Any]]]] = {}
        # Where the last match inside a word ends, and the match at its end: with stops, without.
        # Made when they are first needed.
        self._inner: dict[Any, tuple[int, Match | None]] = {}
        self._tag_inner: dict[Any, tuple[int, Match | None]] = {}
        self.first: frozenset[Any] = frozenset(self._goto[0])
        self._pattern: Any = None
        self._held_lengths: dict[int, dict[int, int]] = {0: {}, -1: {}}

    @classmethod
    def shared(cls, words: tuple[tuple[Any, str], ...]) -> Self:
        """Return an automaton for `words`, the same one for the same words."""
        found: Self = shared((cls.__name__, words), cls)
        return found

    def _add(self, word: Any, kind: str) -> None:
        state = 0
        goto, prefix_of, begun = self._goto, self._prefix_of, (word, kind)
        for symbol in word:
            row = goto[state]
            state = row.get(symbol, 0)
            if state:
                prefix_of[state].append(begun)
            else:
                state = row[symbol] = len(goto)
                goto.append({})
                prefix_of.append([begun])
        new = len(goto) - len(self._depth)  # states, the last ones of the word
        self._depth += range(len(word) - new + 1, len(word) + 1)
        self._output += [None] * new
        self._tag_output += [None] * new
        if kind in PASSIVE:
            return
        match = self._output[state]
        if match is None or (kind in STOPS and match.kind not in STOPS):
            self._output[state] = Match(kind, word)
        if kind not in STOPS and self._tag_output[state] is None:
            self._tag_output[state] = Match(kind, word)

    def _link(self) -> None:
        """Set the failure links, breadth first, and pass on the outputs along them."""
        goto, failures = self._goto, self._failure
        outputs, tag_outputs = self._output, self._tag_output
        queue = list(goto[0].values())
        for state in queue:
            failure = failures[state]
            if failure:
                outputs[state] = outputs[state] or outputs[failure]
                tag_outputs[state] = tag_outputs[state] or tag_outputs[failure]
            for symbol, child in goto[state].items():
                other = failure
                while other and symbol not in goto[other]:
                    other = failures[other]
                failures[child] = goto[other].get(symbol, 0)
                queue.append(child)

    def _find_inner(self, word: Any) -> None:
        """Note where the last match inside `word` ends (0: there is none), and the match at the
        end of `word`.
        """
        goto, outputs, tag_outputs = self._goto, self._output, self._tag_output
        state = last = tag_last = 0
        for at, symbol in enumerate(word):
            if outputs[state] is not None:
                last = at
                if tag_outputs[state] is not None:
                    tag_last = at
            state = goto[state][symbol]
        self._tag_inner[word] = tag_last, tag_outputs[state]
        self._inner[word] = last, outputs[state]  # last, for other threads

    def _row(self, state: int) -> dict[Any, int]:
        """Return the next state for each symbol; one that is missing leads where the root leads.

        Without the root's, which are as many as the words, a row is short.
        """
        path = []
        row = self._rows[state]
        while row is None:
            path.append(state)
            state = self._failure[state]
            row = self._rows[state]
        for state in reversed(path):
            if self._goto[state]:
                if row:
                    row = dict(row)
                    row.update(self._goto[state])
                else:
                    row = self._goto[state]
            self._rows[state] = row
        return row

    def _next(self, state: int, symbol: Any) -> int:
        return self._row(state).get(symbol) or self._goto[0].get(symbol, 0)

    def scan(
        self, state: int, text: Any, at: int = 0, tags_only: bool = False
    ) -> tuple[int, int, Match | None]:
        """Read `text[at:]` up to the first match.

        Returns (state, index after the last symbol that was read, Match or None). `tags_only`
        ignores stops.
        """
        outputs = self._tag_output if tags_only else self._output
        rows = self._rows
        root = self._goto[0]
        size = len(text)
        while at < size:
            if state:
                row = rows[state]
                if row is None:
                    row = self._row(state)
                state = row.get(text[at]) or root.get(text[at], 0)
            else:
                at = self._skip(text, at)
                if at == size:
                    break
                state = root[text[at]]
            at += 1
            if state and outputs[state] is not None:
                return state, at, outputs[state]
        return state, at, None

    def _skip(self, text: Any, at: int) -> int:
        """Return the first index, from `at` on, where a word may begin, or the length of `text`."""
        first = self.first
        size = len(text)
        if size - at <= _SHORT:
            while at < size and text[at] not in first:
                at += 1
            return at
        if HAS_REGULAR_EXPRESSIONS:
            if self._pattern is None:
                self._pattern = self._compiled()
            found = self._pattern.search(text, at)
            return found.start() if found else size
        # Each search ends at the best index so far, so a character is read only a few times.
        for symbol in first:
            found = text.find(symbol, at, size)
            if found >= 0:
                size = found
        return size

    def _compiled(self) -> Any:
        """Return the pattern for the first two characters of a word, or for the first one at the
        end of the text; of many words, for the first one anywhere.
        """
        if len(self.first) > _MANY:
            return re.compile("[" + "".join([re.escape(one) for one in sorted(self.first)]) + "]")
        choices = []
        for symbol, state in self._goto[0].items():
            choice = re.escape(symbol)
            seconds = "".join([re.escape(second) for second in self._goto[state]])
            if seconds and self._output[state] is None:
                choice += "(?:[" + seconds + r"]|\Z)"
            choices.append(choice)
        return re.compile("|".join(choices) or "(?!)")

    def begun(self, state: int) -> Any:
        """Return the beginning of a word that a state stands for.

        >>> WordSearch([("STOP", STOP)]).begun(3)
        'STO'
        """
        return self._prefix_of[state][0][0][: self._depth[state]] if state else ""

    def prefixes(self, state: int) -> Iterator[tuple[int, str, list[Any]]]:
        """Yield (length, kind, words) for the words that have begun in a state, longest part first.

        A word that is complete is included if it is passive. A caller that needs only one of
        `words` stops there: of a long list many words begin alike.
        """
        while state:
            for kind, words in self._begun_in(state):
                yield self._depth[state], kind, words
            state = self._failure[state]

    def _begun_in(self, state: int) -> list[tuple[str, list[Any]]]:
        """Return the words that begin with all that a state stands for, by kind."""
        found = self._begun.get(state)
        if found is None:
            depth = self._depth[state]
            kinds: dict[str, list[Any]] = {}
            for word, kind in self._prefix_of[state]:
                if depth < len(word) or kind in PASSIVE:
                    kinds.setdefault(kind, []).append(word)
            found = self._begun[state] = list(kinds.items())
        return found

    def match_kind(self, state: int, depth: int, word: Any, kind: str, no_stop: int = 0) -> str:
        """Return the kind that `word` would match as, or "" if another word matches first.

        The last `depth` symbols of `word` have come. No stop can end within the next `no_stop`
        symbols; a negative number means any number of symbols that lets `word` match. A passive
        word that is complete at the same symbol as a stop that is shown becomes part of that stop.
        """
        if no_stop <= 0 and self._depth[state] == depth:
            # The state stands for a prefix of `word` and nothing longer: the tables have the
            # answer.
            if word not in self._inner:
                self._find_inner(word)
            last, match = (self._tag_inner if no_stop else self._inner)[word]
            if no_stop and kind in STOPS:  # the stop itself may end
                match = self._inner[word][1]
            if last > depth:
                return ""
            return kind if depth == len(word) else _kind_at_end(match, word, kind)
        if no_stop < 0:
            no_stop = len(word) - depth - (1 if kind in STOPS else 0)
        match = None
        for at in range(depth, len(word)):
            if match is not None:
                return ""
            state = self._next(state, word[at])
            match = self._output[state] if at - depth >= no_stop else self._tag_output[state]
        return _kind_at_end(match, word, kind)

    def held_length(self, state: int, no_stop: int = 0) -> int:
        """Return how many of the last symbols may still become a stop that is hidden, or a tag.

        `no_stop` is that of `match_kind`.
        """
        known = self._held_lengths.get(no_stop, {})
        if state not in known:
            held = 0
            for depth, kind, words in self.prefixes(state):
                if (
                    kind != KEPT
                    and kind not in PASSIVE
                    and any(self.match_kind(state, depth, word, kind, no_stop) for word in words)
                ):
                    held = depth
                    break
            known[state] = held  # last, for other threads
        return known[state]


def _kind_at_end(match: Match | None, word: Any, kind: str) -> str:
    """Return the kind that `word` matches as where `match` is found at its end."""
    passive = kind in PASSIVE
    if match is None:
        return kind if passive else ""
    if passive and match.kind == KEPT:
        return KEPT
    return kind if match == (kind, word) else ""
