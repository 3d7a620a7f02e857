"""The reader of one format: symbols in, deltas out, with the state as plain values.

In: symbols, the characters of the answer and one character for each token that is a marker. Out:
what is certain of content, reasoning and calls. Held: in text the newlines and the beginning of a
marker at its end; of a call everything until its name is known, because then it is certain that it
is one; behind a call the space before what closes it.

A step (text_steps.py and its neighbours) reads what it can of the symbols that wait, and says which
step is next.
"""

from typing import Any, Callable

from . import code_steps, header_steps, json_steps, literal_steps, tag_steps, text_steps, trees
from .state import Said, State
from .values import SPACE, has_mark

STEPS: "dict[str, Callable[[Any], bool]]" = {}
for _steps in (text_steps, json_steps, header_steps, tag_steps, literal_steps, code_steps, trees):
    STEPS.update(_steps.STEPS)
PIECE = 4096  # symbols that are read at once


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

    raw: str
    buf: str
    out: list[Said]

    def feed(self, symbols: str) -> list[Said]:
        """Take symbols; return what is certain."""
        for at in range(0, len(symbols), PIECE):
            piece = symbols[at : at + PIECE]
            if self.raw:
                self.raw += piece
            self.buf += piece
            while STEPS[self.at](self):
                pass
        out, self.out = self.out, []
        return out

    def flush(self) -> list[Said]:
        """End the answer; return what was held of it."""
        self.ended = True
        while True:
            while STEPS[self.at](self):
                pass
            if self.at in ("text", "edge"):
                self.end_text()
                break
            if self.raw and not self.on_fail:
                if not self.form.calls[self.opener].bare:
                    break
                self.refute()
            elif self.at in ("after", "tagged") and self.buf.strip(SPACE):
                begun = self.buf.strip(SPACE)
                if has_mark(begun) and self.form.calls[self.opener].close.startswith(begun):
                    break  # half of what closes the call, with a token of it
                self.leave()
            else:
                break
        out, self.out = self.out, []
        return out

    def end_text(self) -> None:
        """Show what is held at the end, unless it is an edge, or a marker that lacks a token."""
        is_edge = self.after_call and self.run < 2 and not self.held.strip("\n")
        if not is_edge and not has_mark(self.held):
            self.show(self.held)
        self.held = ""

    @property
    def finish_reason(self) -> str:
        """Why the answer ended, if it has: "tool_calls" where the last call is complete."""
        return "tool_calls" if self.calls and self.calls[-1].complete else "stop"
