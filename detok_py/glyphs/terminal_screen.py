"""Watch the screen of a terminal for broken glyphs, as watcher.js watches a page.

In: the bytes that a program writes, and when. Out: findings, the text and its changes, for
`verdict.verdict`. pyte keeps the screen. This file adds what it lacks: characters without a width
(the vowels of Thai, joined emoji) are kept, a wide character is not cut by the edge, and sequences
that pyte does not know are not drawn as text.
"""

import codecs
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyte
from pyte.modes import DECAWM
from wcwidth import wcwidth

COLUMNS, ROWS = 80, 24
FRAME_MS = 1000 / 60  # a state that lasts less may not have been painted
TAIL = 32  # how many of a line's last characters are kept for each of its changes
CONTEXT = 12  # how many characters before a glyph are compared with the true text
# Control sequences (ECMA-48), strings for the terminal, and others. Of the first two, those of a
# form that pyte does not know (UNKNOWN) are dropped.
SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[^ -?]|[\]P_^X][^\x07\x1b]*(?:\x07|\x1b.)|(?![][P_^X])[ -/]*[^ -/])",
    re.DOTALL,
)
UNKNOWN = re.compile(r"\x1b(?:[P_^X]|\[[0-?]*[ -/:<=>])")
WRAPPED = "\u21a9"
MARK = -1  # the column that says that a row continues the one above
BORDER = " │┃║|"  # signs that programs draw beside a text


class Screen(pyte.Screen):
    """A screen that keeps what has scrolled off, and joins the rows of a wrapped line.

    `past` has the lines that have scrolled off. `answer` sends to the program what it asks for.
    """

    def __init__(self, answer: Callable[[str], None] = lambda text: None) -> None:
        self.past: list[str] = []
        self.answer = answer
        super().__init__(COLUMNS, ROWS)

    def draw(self, data: str) -> None:
        for char in data:
            width = wcwidth(char)
            if width <= 0:
                self._join(char)
                continue
            if self.cursor.x + width > self.columns:
                self.cursor.x = self.columns
            wraps = self.cursor.x == self.columns and DECAWM in self.mode
            super().draw(char)
            if wraps:
                row = self.buffer[self.cursor.y]
                row[MARK] = self.cursor.attrs._replace(data=WRAPPED)

    def _join(self, char: str) -> None:
        """Add a character without a width to the one before it."""
        row, x = self.buffer[self.cursor.y], self.cursor.x - 1
        if x > 0 and not row[x].data:
            x -= 1  # the right half of a wide character
        if x >= 0:
            row[x] = row[x]._replace(data=row[x].data + char)

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and top == 0:
            _add_row(self.past, *self._row(0))
        super().index()

    def write_process_input(self, data: str) -> None:
        self.answer(data)

    def _row(self, y: int) -> tuple[str, bool]:
        row = self.buffer[y]
        return "".join([row[x].data for x in range(self.columns)]), row[MARK].data == WRAPPED

    def visible(self) -> list[str]:
        """Return the lines on the screen, without the borders of windows."""
        lines: list[str] = []
        for y in range(self.lines):
            _add_row(lines, *self._row(y))
        return [line.strip(BORDER) for line in lines]


def _add_row(lines: list[str], row: str, wrapped: bool) -> None:
    if wrapped and lines:
        lines[-1] += row
    else:
        lines.append(row)


class TerminalWatch:
    """What a terminal has shown, however briefly.

    `changed` is when the screen last changed; `tails` has the end of each line that changed, with
    the time. Times are in milliseconds since 1970, as those of a proxy.
    """

    def __init__(self, answer: Callable[[str], None] = lambda text: None) -> None:
        self.changed: float | None = None
        self.tails: list[tuple[float, str]] = []
        self._screen = Screen(answer)
        self._stream = pyte.Stream(self._screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._lines: list[str] = []
        # Lines that have scrolled off with a broken glyph, and their numbers.
        self._broken: list[tuple[str, int]] = []
        self._found: dict[tuple[str, str, int], dict[str, Any]] = {}

    def feed(self, data: bytes, now: float, final: bool = False) -> None:
        """Draw what the program has written, and look for broken glyphs."""
        before = len(self._screen.past)
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        at = 0
        while at < len(text):
            escape = text.find("\x1b", at)
            escape = len(text) if escape < 0 else escape
            self._draw(text[at:escape])
            sequence = SEQUENCE.match(text, escape)
            if sequence is None:
                self._held = text[escape:]
                break
            if not UNKNOWN.match(sequence[0]):
                self._draw(sequence[0])
            at = sequence.end()
        self._find_glyphs(now, [line.strip(BORDER) for line in self._screen.past[before:]])

    def _draw(self, part: str) -> None:
        # pyte raises it for a sequence with too many parameters. Terminals ignore such a sequence.
        with contextlib.suppress(TypeError):
            self._stream.feed(part)

    def _find_glyphs(self, now: float, scrolled: list[str]) -> None:
        lines = self._screen.visible()
        if scrolled or lines != self._lines:
            self.changed = now
        known = set(self._lines)
        for line in [*scrolled, *lines]:
            if line and line not in known:
                self.tails.append((now, line[-TAIL:]))
        self._lines = lines
        first = 1 + len(self._screen.past) - len(scrolled)
        self._broken += [(line, n) for n, line in enumerate(scrolled, first) if "\ufffd" in line]
        seen: Counter[tuple[str, str]] = Counter()
        live = set()
        for place, line, number in self._places():
            for run in re.finditer("\ufffd+", line):
                before = (place, line[max(0, run.start() - CONTEXT) : run.start()])
                key = (*before, seen[before])
                seen[before] += 1
                live.add(key)
                self._note(key, line, run, f"line {number}", now)
        for key, finding in self._found.items():
            if key not in live and finding["gone"] is None:
                finding["gone"] = now

    def _places(self) -> Iterator[tuple[str, str, int]]:
        """Yield each text that may have a broken glyph: its place, the text, and its line."""
        yield "title", self._screen.title, 0
        for line, number in self._broken:
            yield "text", line, number
        for number, line in enumerate(self._lines, 1 + len(self._screen.past)):
            yield "text", line, number

    def _note(self, key: Any, line: str, run: re.Match[str], target: str, now: float) -> None:
        finding = self._found.setdefault(key, {"target": target, "since": now, "ms": 0.0})
        if finding.get("gone") is not None:  # it is back
            finding["ms"] += finding["gone"] - finding["since"]
            finding["since"] = now
        born = finding.setdefault("born", now)
        first, end = max(0, run.start() - 40), run.end() + 40
        finding.update(
            {"kind": "ufffd", "place": key[0], "name": "", "culprit": None, "outside": False},
            text=line[first:end],
            at=run.start() - first,
            run=run.end() - run.start(),
            spots=[line[max(0, i - CONTEXT) : i + 1] for i in range(*run.span())],
            born=born,
            gone=None,
            detached=False,
            more=0,
        )

    def findings(self, url: str, now: float) -> list[dict[str, Any]]:
        """Return every finding, oldest first, in the form of the watcher's."""
        out = []
        for one in self._found.values():
            live = one["gone"] is None
            frames = int((one["ms"] + (now if live else one["gone"]) - one["since"]) / FRAME_MS)
            frames = max(frames, int(live))
            out.append({**one, "url": url, "live": live, "frames": frames, "painted": frames > 0})
        return sorted(out, key=lambda one: one["born"])

    def lines(self) -> list[str]:
        """Return all lines, also those that have scrolled off."""
        return [line.strip(BORDER) for line in self._screen.past] + self._lines
