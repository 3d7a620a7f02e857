"""The reader of one format: symbols in, deltas out, with the state as plain values.

In: symbols, the characters of the answer and one character for each token that is a marker. Out:
what is certain of content, reasoning and calls. Held: in text, newlines and the beginning of a
marker at its end; a call until its name is known, because only then is it certainly a call; after a
call, the space before its closing marker.

A step (text_steps.py and its neighbours) reads what it can of the symbols that wait, and says which
step is next.
"""

from typing import Any, Callable

from . import text_steps
from .state import Said, State
from .values import SPACE, More, in_common

# The steps by their names: the functions of text_steps.py, and once one of them is needed, of its
# neighbours.
STEPS: "dict[str, Callable[[Any], bool]]" = {}
PIECE = 4096  # the most symbols that `_read` adds to `buf` at once
NOTHING = Said("", "", None, None)


def add_steps(*modules: Any) -> None:
    """Add the functions of these modules to the steps."""
    for module in modules:
        STEPS.update({name: getattr(module, name) for name in dir(module)})


add_steps(text_steps)


def find_step(name: str) -> "Callable[[Any], bool]":
    """Return a step. What reads calls is imported when there is one: MicroPython starts sooner."""
    if name not in STEPS:
        from . import code_steps, header_steps, json_steps, literal_steps, tag_steps, trees

        add_steps(code_steps, header_steps, json_steps, literal_steps, tag_steps, trees)
    return STEPS[name]


class Reader(State):
    """An answer in one format.

    >>> from detok_py.formats.form import Form
    >>> form = Form("qwen3_hermes")
    >>> reader = Reader(form)
    >>> said = reader.feed(form.symbols('Hi⟦<tool_call>⟧{"name": "f", "arguments": {"a": 1}}'))
    >>> said += reader.flush()
    >>> for each in said:
    ...     if each.channel:
    ...         print(tuple(each))
    ('content', 'Hi', None, None)
    ('tool_call', '', 0, 'f')
    ('tool_call', '{"a": 1}', 0, None)
    """

    buf: str
    half: str
    ahead: str
    out: list[Said]

    def feed(self, text: str) -> list[Said]:
        """Take text, in which each marker that is one token is a symbol; return what is certain."""
        if not self.form.texts:
            return self._read(text)
        return self._show_ahead(self._read(self._symbols(text)))

    def _read(self, symbols: str) -> list[Said]:
        if self.calls:
            self.calls[-1].ahead = ""  # before a later call becomes the last one
        for at in range(0, len(symbols), PIECE):
            piece = symbols[at : at + PIECE]
            if self.call.raw:
                self.call.raw += piece
            self.buf += piece
            self.work()
        out, self.out = self.out, []
        return out

    def work(self) -> None:
        """Go from step to step, as far as the symbols lead."""
        try:
            while self.at and (STEPS.get(self.at) or find_step(self.at))(self):
                pass
        except More:
            pass

    def _symbols(self, text: str) -> str:
        """Return text with a symbol for each marker that is text; its end may become one, and
        waits.
        """
        text, self.half = self.half + text, ""
        texts, begins = self.form.texts, self.form.begins
        parts, begin, at = [], 0, 0
        while at < len(text):
            if text[at] in begins:
                found = [each for each in texts if text.startswith(each, at)]
                if found:
                    parts += [text[begin:at], texts[found[0]]]
                    begin = at = at + len(found[0])
                    continue
                # Slices only near the end, where the slice is short.
                if any(len(text) - at < len(each) and each.startswith(text[at:]) for each in texts):
                    self.half = text[at:]
                    break
            at += 1
        return "".join(parts) + text[begin : len(text) - len(self.half)]

    def _show_ahead(self, out: list[Said]) -> list[Said]:
        """Return the output without the part that was shown early, plus what is certain whether
        `half` becomes a marker or stays text.
        """
        while self.ahead and out:
            said = out.pop(0)
            text, self.ahead = said.text[len(self.ahead) :], self.ahead[len(said.text) :]
            if text:
                out.insert(0, Said(said.channel, text, said.call, said.name))
        if not self.half:
            return out
        texts = self.form.texts
        ways = [self.half] + [texts[each] for each in texts if each.startswith(self.half)]
        state = self.state
        firsts = [self._first_of(state, way) for way in ways]
        common = firsts[0]
        if all(each[0] == common[0] and each[2] == common[2] for each in firsts):
            certain = in_common([each.text for each in firsts])
            if common.call is not None:
                self.calls[common.call].ahead = certain
            more, self.ahead = certain[len(self.ahead) :], certain
            if more:
                out.append(Said(common.channel, more, common.call, None))
        return out

    def _first_of(self, state: Any, symbols: str) -> Said:
        """Return the first text that symbols would give from a state; nothing is taken."""
        trial = self.__class__(self.form, types=self.types)
        trial.load(state)
        out = trial._read(symbols)
        return out[0] if out and out[0].channel and out[0].name is None else NOTHING

    def flush(self) -> list[Said]:
        """End the answer; return what was held of it."""
        half, self.half = self.half, ""
        return self._show_ahead(self._read(half) + self._end())

    def _end(self) -> list[Said]:
        self.ended = True
        while True:
            self.work()
            if self.at in ("text", "edge"):
                self.end_text()
                break
            if self.call.raw and not self.call.on_fail:
                if not self.grammar.bare:
                    break
                self.refute()
            elif self.at in ("after", "tagged") and self.buf.strip(SPACE):
                begun = self.buf.strip(SPACE)
                if self.form.has_token(begun) and self.grammar.close.startswith(begun):
                    break  # the beginning of the call's closing marker, with a token of it
                self.leave()
            else:
                break
        out, self.out = self.out, []
        return out

    def end_text(self) -> None:
        """Show what is held at the end, unless it is newlines after a call, or an unfinished marker
        that has a token.
        """
        is_edge = self.text.after_call and self.text.run < 2 and not self.text.held.strip("\n")
        if not is_edge and not self.form.has_token(self.text.held):
            self.show(self.text.held)
        self.text.held = ""

    @property
    def finish_reason(self) -> str:
        """Why the answer ended, if it has: "tool_calls" where the last call is complete."""
        return "tool_calls" if self.calls and self.calls[-1].complete else "stop"
