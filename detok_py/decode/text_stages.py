"""The rules that see text: characters in, characters out, behind the join.

`text_row` makes one stage of them all. It obeys the law, and `late_because` says why if it doesn't:
a replacement by regular expression, or a ByteLevel behind a join, needs the whole text; and rules with
too many states between them are not searched for what is certain.
"""

from typing import Callable, Sequence

from .byte_level import byte_level
from .rules import TRANSFORMERS_CLEAN_UP, Rule, replacement
from .stage import State, TextStage
from .utf8 import decode_end

MAX_MEMO = 4096  # states for which `Exact` remembers what is certain
# `Exact` looks for what is certain where the number of states (the product of those of each rule)
# times the number of characters is at most this. Beyond it one push could take minutes.
MAX_SEARCH = 1 << 21


class ReplaceText:
    """Replace a literal in a stream. Held: the longest end that could still become the literal.

    >>> r = ReplaceText("<n>", "\\n")
    >>> r.feed("a<"), r.feed("n"), r.feed("><")
    ('a', '', '\\n')
    """

    def __init__(self, find: str, put: str) -> None:
        self.find = find
        self.put = put
        self.state = ""  # what is held

    @property
    def held(self) -> str:
        return self.state

    def feed(self, text: str) -> str:
        if not self.state and self.find[0] not in text:
            return text
        parts = (self.state + text).split(self.find)
        tail = parts[-1]
        self.state = ""
        for n in range(min(len(self.find) - 1, len(tail)), 0, -1):
            if tail.endswith(self.find[:n]):
                self.state = self.find[:n]
                parts[-1] = tail[:-n]
                break
        return self.put.join(parts)

    def flush(self) -> str:
        held, self.state = self.state, ""
        return held


class StripText:
    """Strip at most `start` leading and `stop` trailing `content` of the whole text.

    Held: at most `stop` characters.
    """

    def __init__(self, content: str, start: int, stop: int) -> None:
        self.content = content
        self.stop = stop
        self.state = start, 0  # how many more may be stripped at the start, how many are held

    @property
    def held(self) -> str:
        return self.content * self.state[1]

    def feed(self, text: str) -> str:
        strippable, held = self.state
        if not text or not (strippable or self.stop):
            return text
        at = 0
        while at < min(strippable, len(text)) and text[at] == self.content:
            at += 1
        strippable = strippable - at if at == len(text) else 0
        text = text[at:]
        if self.stop:
            end = len(text)
            while end and text[end - 1] == self.content:
                end -= 1
            trailing = len(text) - end + (0 if end else held)
            text = (self.content * held if end else "") + text[:end]
            held = min(trailing, self.stop)
            text += self.content * (trailing - held)
        self.state = strippable, held
        return text

    def flush(self) -> str:
        self.state = self.state[0], 0
        return ""


class WholeText:
    """A function of the whole text. Held: all of it, to the end."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self.function = function
        self.state = ""

    @property
    def held(self) -> str:
        return self.state

    def feed(self, text: str) -> str:
        self.state += text
        return ""

    def flush(self) -> str:
        held, self.state = self.state, ""
        return self.function(held) if held else ""


class AsItIs:
    """No rules: the text as it is."""

    held = ""
    state: State = ""

    def feed(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""


class Row:
    """Text stages in a row; itself a text stage.

    Flushes like a pipe: what an earlier stage held goes through the later ones before they flush.

    >>> row = Row([ReplaceText("ab", "c"), ReplaceText("cc", "d")])
    >>> row.feed("ab"), row.feed("a"), row.feed("b"), row.flush()
    ('', '', 'd', '')
    """

    def __init__(self, stages: Sequence[TextStage]) -> None:
        self.stages = stages

    @property
    def held(self) -> str:
        return "".join([stage.held for stage in reversed(self.stages)])

    @property
    def state(self) -> State:
        return tuple([stage.state for stage in self.stages])

    @state.setter
    def state(self, state: State) -> None:
        for stage, part in zip(self.stages, state):
            stage.state = part

    def feed(self, text: str) -> str:
        for stage in self.stages:
            text = stage.feed(text)
        return text

    def flush(self) -> str:
        out = ""
        for stage in self.stages:
            out = (stage.feed(out) if out else "") + stage.flush()
        return out


class Exact:
    """Text stages in a row that obey the law together.

    Each stage alone is as early as it can be, but a row of them need not be. Two futures that differ
    behind the first stage may be the same behind the second. And a literal whose replacement begins
    as the literal does is certain before it is complete. So after each chunk this asks what the row
    would put out if the stream ended here, and how much of that every continuation shares. The
    states are few, and the answer is remembered for each. A continuation is any text, but only the
    characters that the stages name make a difference; one other character stands for the rest.
    """

    def __init__(self, make: Callable[[], Sequence[TextStage]], alphabet: str) -> None:
        self.row = Row(make())
        self.probe = Row(make())
        self.alphabet = alphabet
        self.ahead = ""  # shown already, and still to come out of the row
        self.certain: dict[State, str] = {self.row.state: ""}

    @property
    def held(self) -> str:
        held = self.row.held
        return held[len(self.ahead) :] if held.startswith(self.ahead) else held

    @property
    def state(self) -> State:
        return self.row.state, self.ahead

    @state.setter
    def state(self, state: State) -> None:
        self.row.state, self.ahead = state

    def feed(self, text: str) -> str:
        out = self.row.feed(text)
        if self.ahead:
            n = min(len(out), len(self.ahead))
            out, self.ahead = out[n:], self.ahead[n:]
        state = self.row.state
        certain = self.certain.get(state)
        if certain is None:
            certain = self._certain_in(state)
        if len(certain) > len(self.ahead):
            out += certain[len(self.ahead) :]
            self.ahead = certain
        return out

    def _certain_in(self, state: State) -> str:
        """Return what comes next out of the row whatever is fed to it in `state`."""
        self.probe.state = state
        end = self.probe.flush()
        n = 0
        while n < len(end) and self._always(state, end[: n + 1]):
            n += 1
        if len(self.certain) > MAX_MEMO:
            self.certain.clear()
        self.certain[state] = end[:n]
        return end[:n]

    def _always(self, state: State, text: str) -> bool:
        """Return whether the output from `state` begins with `text` whatever comes."""
        todo = [(state, text)]
        seen = {(state, text)}
        while todo:
            state, text = todo.pop()
            self.probe.state = state
            if not self.probe.flush().startswith(text):
                return False
            for c in self.alphabet:
                self.probe.state = state
                out = self.probe.feed(c)
                if out.startswith(text):
                    continue
                if not text.startswith(out):
                    return False
                then = self.probe.state, text[len(out) :]
                if then not in seen:
                    seen.add(then)
                    todo.append(then)
        return True

    def flush(self) -> str:
        out = self.row.flush()[len(self.ahead) :]
        self.ahead = ""
        return out


def text_stages(rules: Sequence[Rule], errors: str) -> list[TextStage]:
    """Return a stage for each thing that the rules do."""
    stages: list[TextStage] = []
    for rule in rules:
        if rule.kind == "Strip":
            stages.append(StripText(rule.find, rule.start, rule.stop))
        elif rule.kind == "clean-up":
            stages += [ReplaceText(find, put) for find, put in TRANSFORMERS_CLEAN_UP]
        elif rule.kind == "ByteLevel":
            stages.append(WholeText(lambda text: decode_end(byte_level(text), errors)))
        elif needs_all(rule):
            stages.append(WholeText(replacement(rule)))
        else:  # a Replace, or a Metaspace of what is now one token
            stages.append(ReplaceText(rule.find, rule.put))
    return stages


def needs_all(rule: Rule) -> str:
    """Return why a rule behind the join needs the whole text, "" if it doesn't."""
    if rule.kind == "ByteLevel":
        return "a ByteLevel behind a join needs the whole text"
    if rule.kind == "Replace" and (rule.replace or not rule.find):
        return "a Replace by regular expression behind a join needs the whole text"
    return ""


def text_row(rules: Sequence[Rule], errors: str) -> tuple[Callable[[], TextStage], str]:
    """Return how to make one stage of the rules, and why it is late, "" if it obeys the law."""

    def row() -> TextStage:
        return Row(text_stages(rules, errors))

    for rule in rules:
        if needs_all(rule):
            return row, needs_all(rule)
    if not rules:
        return AsItIs, ""
    if [rule.kind for rule in rules] == ["Strip"]:
        return (lambda: text_stages(rules, errors)[0]), ""
    words = []
    search = 1
    for rule in rules:
        own = TRANSFORMERS_CLEAN_UP if rule.kind == "clean-up" else ((rule.find, ""),)
        for word, _ in own:
            words.append(word)
            search = min(search * len(word), MAX_SEARCH + 1)  # a file may have very many rules
        search = min(search * (rule.start + 1) * (rule.stop + 1), MAX_SEARCH + 1)
    alphabet = "".join(words)
    other = 0x21
    while chr(other) in alphabet:
        other += 1
    alphabet = "".join(sorted(set(alphabet))) + chr(other)
    if search * len(alphabet) > MAX_SEARCH:
        return row, "the rules behind the join have too many states"
    return (lambda: Exact(lambda: text_stages(rules, errors), alphabet)), ""
