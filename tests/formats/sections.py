"""Answers made of sections and markers: all formats but Harmony's and Kimi K3's."""

from typing import NamedTuple

from .calls import Call, Context, NotACall, Reader, Undecided
from .values import is_mark, spelled

MOST_NEWLINES = 2


class Opener(NamedTuple):
    """What opens a call: its spelling, what reads the rest, and where it may stand."""

    text: str
    read: Reader
    bare: bool = False  # the text of the call itself, so it is text until it is certainly a call
    close: str = ""  # what closes it, where that is more than one token
    where: str = (
        "anywhere"  # or "start" of the answer, or "reasoned": where reasoning has just ended
    )


class Format(NamedTuple):
    """The markup of one format, with its markers as characters."""

    calls: tuple[Opener, ...]
    thinks: tuple[tuple[str, str], ...] = ()
    wraps: tuple[tuple[str, str], ...] = ()  # around content
    blocks: tuple[tuple[str, str], ...] = ()  # around calls, and nothing more
    silent: tuple[str, ...] = ()  # not shown
    texts: tuple[str, ...] = ()  # markers that are ordinary text in the vocabulary
    ends: tuple[str, ...] = ()  # of a turn
    thought: str = ""  # the name of reasoning, behind its opener
    leading: bool = False  # newlines that begin the answer are markup


class Sections:
    """The reading of one text; `cut` says that more may come."""

    def __init__(self, form: Format, text: str, start: str, known: Context, cut: bool) -> None:
        self.form, self.text, self.known, self.cut = form, text, known, cut
        self.section = "reasoning" if start == "reasoning" else "content"
        self.parts = {"content": "", "reasoning": ""}
        self.calls: list[Call] = []
        self.run = ""  # text of the section since the last marker
        self.close = ""  # what would close the call that has just been read
        self.wrapped = self.after_call = self.after_reasoning = False
        both = (*form.thinks, *form.wraps, *form.blocks)
        markers = [m for pair in both for m in pair] + [opener.text for opener in form.calls]
        self.first = {marker[0] for marker in [*markers, *form.silent]}
        self.first_written = {"\n", *(self.written(c)[0] for c in self.first)}
        self.longest = MOST_NEWLINES + max(len(self.written(marker)) for marker in markers)

    # -- What would be markup here ----------------------------------------------------------------

    def is_text(self, marker: str) -> bool:
        return not any(is_mark(c) and c not in self.form.texts for c in marker)

    def written(self, text: str) -> str:
        """Return the text with those markers spelled out that are text."""
        return "".join(spelled(c) if c in self.form.texts else c for c in text)

    def at_start(self, run: str) -> bool:
        """Return whether only newlines have come in the answer."""
        return not (run.strip("\n") or self.calls or any(self.parts.values()))

    def openers(self, run: str) -> list[Opener]:
        empty = not run.strip("\n")
        places = {
            "anywhere": True,
            "start": self.section == "content" and self.at_start(run),
            "reasoned": self.after_reasoning and empty,
        }
        return [opener for opener in self.form.calls if places[opener.where]]

    def sections(self, run: str) -> list[tuple[str, str]]:
        """Return the other markers that would be markup behind `run`, each with what it does.

        Spelled as text, what opens must stand at the beginning, and what closes must have been
        opened.
        """
        reasoning = self.section == "reasoning"
        content = not reasoning and not (self.parts["content"] + run).strip("\n")
        found = []
        for begin, end in self.form.thinks:
            again = reasoning and not (self.parts["reasoning"] + run).strip("\n")
            if not self.is_text(begin) or self.at_start(run) or again:
                found.append((begin, "think"))
            if not self.is_text(end) or reasoning:
                found.append((end, "thought"))
        for begin, end in self.form.wraps:
            if not self.is_text(begin) or content:
                found.append((begin, "wrap"))
            if not self.is_text(end) or self.wrapped:
                found.append((end, "unwrap"))
        for begin, end in self.form.blocks:
            found += [(begin, "block"), (end, "unblock")]
        return found + [(marker, "silent") for marker in self.form.silent]

    # -- Reading ----------------------------------------------------------------------------------

    def give(self, edge: bool) -> None:
        """Add the run to its section; at an edge, without the newlines that are markup."""
        run = self.run
        if edge:
            for _ in range(MOST_NEWLINES):
                run = run.removesuffix("\n")
        # A stray marker is not shown.
        self.parts[self.section] += "".join(c for c in self.written(run) if not is_mark(c))
        self.run = ""

    def newlines(self, i: int) -> int:
        """Return the place behind the newlines at `i` that are markup."""
        for _ in range(MOST_NEWLINES):
            i += self.text.startswith("\n", i)
        return i

    def read(self) -> None:
        text, i = self.text, 0
        if self.section == "reasoning" or self.form.leading:
            i = self.newlines(0)
        while i < len(text):
            j = None
            if text[i] in self.first:
                j = self.section_marker(i)
                if j is None:
                    j = self.call(i)
            if j is None:
                self.run += text[i]
                j = i + 1
            i = j
        separator = self.after_call and not self.run.strip("\n")
        waiting = self.waiting()
        begun = self.run[len(self.run) - waiting :]
        if self.cut or any(is_mark(c) and c not in self.form.texts for c in begun):
            held = max(waiting, min(len(self.run), MOST_NEWLINES) if separator else 0)
            self.run = self.run[: len(self.run) - held]
        self.give(edge=separator and not self.cut)

    def section_marker(self, i: int) -> int | None:
        """Read the marker at `i`, if one stands there; return the place behind it."""
        found = [(m, kind) for m, kind in self.sections(self.run) if self.text.startswith(m, i)]
        if not found:
            return None
        marker, kind = max(found, key=lambda pair: len(pair[0]))
        i += len(marker)
        self.close = ""
        if kind == "silent":
            return i
        reasoning = self.section == "reasoning"
        if kind == "think":
            self.give(edge=True)
            self.section, self.after_reasoning = "reasoning", False
            i = self.name_of_reasoning(i)
        elif kind == "thought":
            self.give(edge=reasoning)
            self.section = "content"
            self.after_reasoning = True
        elif kind == "wrap":
            self.give(edge=True)
            self.section, self.wrapped = "content", True
        elif kind == "unwrap":
            self.give(edge=self.wrapped)
            self.wrapped = False
        elif kind in ("block", "unblock"):
            self.give(edge=True)
            self.after_call = True
            return self.newlines(i) if kind == "block" else i
        self.after_call = False
        return self.newlines(i)

    def name_of_reasoning(self, i: int) -> int:
        name = self.form.thought
        if name and self.text.startswith(name, i):
            return i + len(name)
        return len(self.text) if name and name.startswith(self.text[i:]) else i

    def call(self, i: int) -> int | None:
        """Read the calls at `i`, if an opener stands there; return the place behind them."""
        for opener in self.openers(self.run):
            if not self.text.startswith(opener.text, i):
                continue
            begin = i if opener.bare else i + len(opener.text)
            try:
                calls, j = opener.read(self.text, begin, self.known)
            except NotACall:
                continue
            except Undecided:
                if opener.bare and not self.cut:
                    continue
                calls, j = [], len(self.text)
            self.give(edge=True)
            self.calls += calls
            self.after_call, self.after_reasoning = True, False
            closed = opener.close and self.text[:j].endswith(opener.close)
            self.close = "" if closed else opener.close
            return j
        return None

    def waiting(self) -> int:
        """Return how many characters at the end of the run may still become markup."""
        run = self.run
        if self.close and self.written(self.close).startswith(self.written(run).lstrip()):
            return len(run)
        for k in range(max(0, len(run) - self.longest), len(run)):
            before, rest = run[:k], self.written(run[k:])
            if rest[0] not in self.first_written:
                continue
            markers = [marker for marker, _ in self.sections(before)]
            markers += [opener.text for opener in self.openers(before)]
            for marker in markers:
                for newlines in range(MOST_NEWLINES + 1):
                    whole = "\n" * newlines + self.written(marker)
                    if whole.startswith(rest) and whole != rest:
                        return len(run) - k
        return 0
