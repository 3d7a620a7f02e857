"""The rules that see text: characters in, characters out, behind the join.

`text_row` makes one stage of them all. It obeys the law, and `late_because` says why if it doesn't:
a replacement by regular expression, or a ByteLevel behind a join, needs the whole text; and rules
with too many states between them are not made one machine.
"""

from typing import Any, Callable, Sequence

from .byte_level import byte_level
from .machine import Machine, make_machine
from .rules import TRANSFORMERS_CLEAN_UP, Rule, replacement
from .stage import JoinedText, State, TextStage, common, shared_start
from .utf8 import decode_end

MAX_MACHINES = 64  # machines that are kept for the next stream with the same rules


class ReplaceText:
    """Replace a literal in a stream. Held: the longest end that could still become the literal.

    >>> r = ReplaceText("<n>", "\\n")
    >>> r.feed("a<"), r.feed("n"), r.feed("><")
    ('a', '', '\\n')
    """

    def __init__(self, find: str, put: str) -> None:
        self.find = find
        self.put = put
        self.state: str = ""  # what is held

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
        # How many more may be stripped at the start, how many are held.
        self.state: tuple[int, int] = start, 0

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
        self.parts: list[str] = []

    @property
    def state(self) -> State:
        return "".join(self.parts)

    @state.setter
    def state(self, state: State) -> None:
        self.parts = [state]

    @property
    def held(self) -> str:
        return "".join(self.parts)

    def feed(self, text: str) -> str:
        self.parts.append(text)
        return ""

    def flush(self) -> str:
        held, self.parts = "".join(self.parts), []
        return self.function(held) if held else ""


class AfterPrompt:
    """Leave out the common prefix of the text and the held end of the prompt."""

    held = letters = ""

    def __init__(self) -> None:
        self.state: str = ""  # the text to leave out, as far as it has not come yet

    @property
    def rest(self) -> str:
        return self.state

    def omit(self, text: str) -> None:
        self.state = text

    def feed(self, text: str) -> str:
        if not self.state or not text:
            return text
        text, self.state = _left_out(text, self.state)
        return text

    def expect(self, texts: list[str]) -> str:
        return ""

    def flush(self) -> str:
        return ""


class Row:
    """Text stages in a row; itself a text stage.

    Flushes like a pipe: what an earlier stage held goes through the later ones before they flush.

    >>> row = Row([ReplaceText("ab", "c"), ReplaceText("cc", "d")])
    >>> row.feed("ab"), row.feed("a"), row.feed("b"), row.flush()
    ('', '', 'd', '')
    """

    letters = ""

    def __init__(self, stages: Sequence[TextStage]) -> None:
        self.last: AfterPrompt = AfterPrompt()
        self.stages = stages

    @property
    def held(self) -> str:
        return "".join([stage.held for stage in reversed(self.stages)])

    @property
    def state(self) -> State:
        return tuple([stage.state for stage in self.stages]), self.last.state

    @state.setter
    def state(self, state: State) -> None:
        for stage, part in zip(self.stages, state[0]):
            stage.state = part
        self.last.state = state[1]

    @property
    def rest(self) -> str:
        return self.last.rest

    def omit(self, text: str) -> None:
        self.last.omit(text)

    def feed(self, text: str) -> str:
        for stage in self.stages:
            text = stage.feed(text)
        return self.last.feed(text) if self.last.state else text

    def expect(self, texts: list[str]) -> str:
        return ""

    def flush(self) -> str:
        out = ""
        for stage in self.stages:
            out = (stage.feed(out) if out else "") + stage.flush()
        return self.last.feed(out)


class Exact:
    """Text stages in a row as one machine, which obeys the law.

    Each stage alone is as early as possible, but a row of them may not be: two futures that differ
    after the first stage may be equal after the second, and a replacement that begins like its
    literal is certain before the literal is complete. The machine (machine.py) outputs the common
    prefix of all futures. A character costs one look into a table.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        # The state of the machine; the text to leave out behind a prompt, as far as it has not come
        # yet; what was shown already, and is still to come.
        self.state: State = (0, "", "")

    @property
    def held(self) -> str:
        at, _, ahead = self.state
        held: str = self.machine.breaks[at][len(ahead) :]
        return held

    @property
    def letters(self) -> str:
        return "".join(self.machine.steps[0])

    @property
    def rest(self) -> str:
        rest: str = self.state[1]
        return rest

    def omit(self, text: str) -> None:
        # What was shown already comes before `text`.
        self.state = self.state[0], self.state[2] + text, ""

    def feed(self, text: str) -> str:
        machine = self.machine
        state, rest, ahead = self.state
        parts: list[str] = []
        for c in text:
            step = machine.steps[state].get(c)
            if step is None:
                parts += (machine.breaks[state], c)
                state = machine.default
            else:
                parts.append(step[0])
                state = step[1]
        out = "".join(parts)
        if rest or ahead:
            out, rest = _left_out(out, rest)
            if rest and text:
                out = machine.certain_behind(state, rest)
                out, ahead = out[len(ahead) :], out
            else:
                out, ahead = _left_out(out, ahead)
        self.state = state, rest, ahead
        return out

    def expect(self, texts: list[str]) -> str:
        state, rest, ahead = self.state
        if rest:
            return ""
        outs = []
        for text in texts:
            outs.append(self.feed(text))
            self.state = state, rest, ahead
        certain = shared_start(outs)
        self.state = state, rest, ahead + certain
        return certain

    def flush(self) -> str:
        state, rest, ahead = self.state
        out, rest = _left_out(self.machine.ends[state], rest)
        self.state = self.machine.default, rest, ""
        return out[len(ahead) :]


def _left_out(text: str, rest: str) -> tuple[str, str]:
    """Return `text` without its common prefix with `rest`, and what is then left out of the
    following text.
    """
    n = common(text, rest)
    return text[n:], rest[n:] if n == len(text) else ""


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


def text_row(rules: Sequence[Rule], errors: str) -> tuple[Callable[[], JoinedText], str]:
    """Return a function that makes one stage of the rules, and why the stage is late, "" if it
    obeys the law.
    """

    def row() -> JoinedText:
        return Row(text_stages(rules, errors))

    for rule in rules:
        if needs_all(rule):
            return row, needs_all(rule)
    if not rules:
        return AfterPrompt, ""
    if [(rule.kind, rule.stop) for rule in rules] == [("Strip", 0)]:
        return row, ""
    machine = machine_of(rules, errors)
    if machine is None:
        return row, "the rules behind the join have too many states"
    return (lambda: Exact(machine)), ""


_machines: dict[Any, Machine | None] = {}


def machine_of(rules: Sequence[Rule], errors: str) -> Machine | None:
    """Return the machine of rules that don't need the whole text, None if it would be too large.

    It is made once for the same rules: streams share it.
    """
    key = tuple(rules)
    if key not in _machines:
        if len(_machines) >= MAX_MACHINES:
            _machines.clear()
        letters = ""
        for rule in rules:
            pairs = TRANSFORMERS_CLEAN_UP if rule.kind == "clean-up" else ((rule.find, rule.put),)
            letters += "".join([find for find, _ in pairs])
        _machines[key] = make_machine(text_stages(rules, errors), "".join(sorted(set(letters))))
    return _machines[key]
