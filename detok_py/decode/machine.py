"""Text stages in a row, compiled to one finite machine that outputs text as early as it is certain.

In: stages whose states are finitely many (literal replacements, strips). Out: `Machine`, a
subsequential transducer: it reads a character, puts out text and goes to another state; each state
has the text that it puts out at the end. It is onward: in every state, the common prefix of all
futures has already been output (M. Mohri, "Minimization algorithms for sequential transducers",
2000). So it obeys the law by construction, and a character costs one look into a table.

The stages are composed one by one, and the machine is made onward and minimal after each. So it
stays small, though the stages themselves have thousands of states between them.
"""

from typing import Any, Sequence

from .stage import TextStage, common, other_than

# The most steps explored to make a machine: a tenth of a second. transformers' clean-up of spaces
# takes 10,000.
MAX_WORK = 1 << 17


class _Work:
    """How many more steps may be explored."""

    def __init__(self) -> None:
        self.left = MAX_WORK

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise OverflowError


class Machine:
    """A machine; state 0 is the start.

    `steps` has for each state what each character that the stages name puts out, and the state it
    leads to. Any other character puts out what `breaks` has for the state, and then itself, and
    leads to the state `default`. `ends` has what each state puts out at the end of the text.
    """

    def __init__(
        self,
        steps: list[dict[str, tuple[str, int]]],
        breaks: list[str],
        ends: list[str],
        default: int,
    ) -> None:
        self.steps = steps
        self.breaks = breaks
        self.ends = ends
        self.default = default

    def certain_behind(self, state: int, rest: str) -> str:
        """Return what every future of `state` puts out in common if what it has in common with
        `rest` is left out.
        """
        best = None
        todo = [(state, rest)]
        for state, rest in todo:
            others = [(self.ends[state], -1), (self.breaks[state], -1)]
            for out, then in others + list(self.steps[state].values()):
                n = common(out, rest)
                if n < len(out):
                    best = out[n:] if best is None else best[: common(best, out[n:])]
                elif then >= 0 and n < len(rest):
                    if (then, rest[n:]) not in todo:
                        todo.append((then, rest[n:]))
                    continue
                else:  # it may end here, or go on with any character
                    return ""
                if not best:
                    return ""
        return best or ""


def make_machine(stages: Sequence[TextStage], letters: str) -> Machine | None:
    """Return the machine of the stages in a row, None if making it would take too long.

    `letters` has all characters that make a difference to the stages.

    >>> from detok_py.decode.text_stages import ReplaceText
    >>> machine = make_machine([ReplaceText("ab", "a")], "ab")
    >>> machine.steps[0]["a"], machine.ends
    (('a', 1), ['', ''])
    """
    other = other_than(letters)
    machine = Machine([{}], [""], [""], 0)
    work = _Work()
    try:
        for stage in stages:
            composed = _composed(machine, stage, letters, other, work)
            machine = _minimal(_onward(composed, work), work)
    except OverflowError:
        return None
    return machine


def _composed(before: Machine, stage: TextStage, letters: str, other: str, work: _Work) -> Machine:
    """Return the machine `before` with a stage behind it."""
    pairs = [(0, stage.state)]
    numbers = {pairs[0]: 0}

    def number(state: int) -> int:
        pair = state, stage.state
        if pair not in numbers:
            numbers[pair] = len(pairs)
            pairs.append(pair)
        return numbers[pair]

    after = Machine([], [], [], 0)
    default = 0
    for at, state in pairs:
        work.spend(len(letters) + 1)
        stage.state = state
        after.breaks.append(stage.feed(before.breaks[at] + other)[:-1])
        default = number(before.default)
        stage.state = state
        after.ends.append(stage.feed(before.ends[at]) + stage.flush())
        row: dict[str, tuple[str, int]] = {}
        for c in letters:
            out, then = before.steps[at].get(c) or (before.breaks[at] + c, before.default)
            stage.state = state
            out = stage.feed(out)
            row[c] = out, number(then)
        after.steps.append(row)
    return Machine(after.steps, after.breaks, after.ends, default)


def _onward(machine: Machine, work: _Work) -> Machine:
    """Return the machine with each text put out as soon as all futures share it."""
    certain = list(machine.ends)
    changed = True
    while changed:
        changed = False
        for state, text in enumerate(certain):
            if not text:
                continue
            row = machine.steps[state]
            work.spend(len(row))
            for future in [machine.breaks[state]] + [out + certain[to] for out, to in row.values()]:
                text = text[: common(text, future)]
            if text != certain[state]:
                certain[state] = text
                changed = True
    steps = []
    for state, row in enumerate(machine.steps):
        n = len(certain[state])
        steps.append({c: ((out + certain[then])[n:], then) for c, (out, then) in row.items()})
    breaks = [text[len(known) :] for text, known in zip(machine.breaks, certain)]
    ends = [text[len(known) :] for text, known in zip(machine.ends, certain)]
    return Machine(steps, breaks, ends, machine.default)


def _minimal(machine: Machine, work: _Work) -> Machine:
    """Return the machine with states that put out the same in every future made one."""
    rows = machine.steps
    keys: list[Any] = [
        (machine.breaks[state], machine.ends[state], tuple([out for out, _ in row.values()]))
        for state, row in enumerate(rows)
    ]
    classes: list[int] = []
    count = 0
    while True:
        numbers: dict[Any, int] = {}
        classes = [numbers.setdefault(key, len(numbers)) for key in keys]
        if len(numbers) == count:
            break
        count = len(numbers)
        work.spend(len(rows) * len(rows[0]))
        keys = [
            (classes[state], tuple([classes[then] for _, then in row.values()]))
            for state, row in enumerate(rows)
        ]
    first = [classes.index(number) for number in range(count)]
    steps = [{c: (out, classes[then]) for c, (out, then) in rows[state].items()} for state in first]
    return Machine(
        steps,
        [machine.breaks[state] for state in first],
        [machine.ends[state] for state in first],
        classes[machine.default],
    )
