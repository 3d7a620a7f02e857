"""A large file without most of its events: those that differ in their text only.

In: a part of a file, for which web/src/fold.js asks which lines are alike; then what it took out of
the file, as JSON, with what is left. Out: the shapes of lines (alike.py); the texts that were taken
out, in their places. Held: nothing.

Reading 30 MB in Python takes seconds in MicroPython, and the memory that WebAssembly has once had
is never given back. What is left is read as any file is; if a reader needs more of it than its
lines, the page gives it whole.
"""

import json
from typing import Any

from .alike import ANY_NUMBER, ANY_STRING, BEGINS, COUNT, TEXT, Texts, cut_line, shape_of_parts

KINDS = {"text": TEXT, "string": ANY_STRING, "number": ANY_NUMBER, "count": COUNT}


def shapes_in(part: bytes) -> list[Any]:
    """Return the shapes that several lines of a part of a file have: [parts, kinds] each.

    >>> shapes_in(b'data: {"n":1,"content":"a"}\\n\\ndata: {"n":2,"content":"b"}\\n')
    [[['data: {"n":', ',"content":"', '"}'], ['number', 'text']]]
    """
    names = {kind: name for name, kind in KINDS.items()}
    seen: dict[tuple[bytes, ...], int] = {}
    out = []
    for line in part.replace(b"\r\n", b"\n").split(b"\n"):
        if line[-1:] != b"}" or not line.startswith(BEGINS):
            continue
        cut = cut_line(line)
        if cut is None:
            continue
        key = tuple(cut[0])
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2 and shape_of_parts(*cut) is not None:
            out.append([[one.decode() for one in cut[0]], [names[kind] for kind in cut[1]]])
    return out


class Folded:
    """What was taken out of a file: runs of lines, each with the place that it had among the lines
    that are left. `used` is whether a reader has put them back.

    `made` is JSON: {"shapes": as of `shapes_in`, "runs": [[lines before it, shape, lines from one
    event to the next, sequence numbers or null, texts], …], "again": the lines of the file where
    events are that came again, as their ids say}. Each of these is a run of its own.
    """

    def __init__(self, made: str) -> None:
        given = json.loads(made)
        shapes = []
        for parts, names in given["shapes"]:
            kinds = [KINDS[name] for name in names]
            shapes.append(
                shape_of_parts([part.encode() for part in parts], kinds, kinds.index(TEXT))
            )
        self.runs: list[tuple[int, Texts]] = []
        self.again: list[int] = given["again"]
        apart = set(self.again)
        out = 0  # lines that were taken out before
        for line, shape, step, numbers, texts in given["runs"]:
            lines = range(line + out + 1, line + out + 1 + step * len(texts), step)
            cuts = [n + more for n, one in enumerate(lines) if one in apart for more in (0, 1)]
            for begin, end in zip([0] + cuts, cuts + [len(texts)]):
                if begin < end:
                    its = numbers[begin:end] if numbers else None
                    run = Texts(shapes[shape], texts[begin:end], step, None, its)
                    self.runs.append((line, run))
            out += step * len(texts)
        self.used: bool = False

    def lines_before(self, line: int) -> int:
        """Return how many lines were taken out before one of those that are left."""
        return sum([len(texts.texts) * texts.step for at, texts in self.runs if at <= line])

    def has(self, part: str) -> bool:
        """Return whether a text that was taken out has a part."""
        return any(part in "\n".join(texts.texts) for _, texts in self.runs)
