"""The state of the reader of a format, as plain values, and what its steps have in common."""

from typing import TYPE_CHECKING, Any, NamedTuple

from .form import CONTENT, REASONING, TOOL_CALL, Form
from .tool_call import ToolCall
from .values import BAD, DONE, SPACE, STRING, escaped, has_mark, is_mark, quoted

if TYPE_CHECKING:
    from .values import Types

# All of the state but the calls: plain values, which can be a key, or become JSON.
TEXT_STATE: "tuple[str, ...]" = tuple(
    [
        "at",
        "section",
        "run",
        "shown",
        "content",
        "reasoning",
        "wrapped",
        "after_call",
        "after_reasoning",
        "held",
        "skip",
        "buf",
        "half",
        "ahead",
        "ended",
    ]
)
CALL_STATE: "tuple[str, ...]" = tuple(
    [
        "raw",
        "opener",
        "began",
        "on_fail",
        "name",
        "id",
        "certain",
        "pending",
        "comma",
        "has_arguments",
        "whole",
        "key",
        "value_types",
        "nest",
        "how",
        "pos",
        "depth",
        "quote",
    ]
)
# The steps in which text of a section is read.
PLACES_OF_TEXT: "tuple[str, ...]" = tuple(
    [
        "text",
        "edge",
        "thought",
        "harmony",
        "harmony_start",
        "harmony_header",
        "harmony_body",
        "harmony_over",
        "kimi_k3",
        "k3_text",
    ]
)
MOST_NEWLINES = 2  # at each side of a marker, which are markup

# Output: text of a channel; for a call its number and, on its first, its name. Without a channel: a
# marker that ends a run of text.
Said = NamedTuple(
    "Said", [("channel", str), ("text", str), ("call", "int | None"), ("name", "str | None")]
)


class State:
    """What has been read of an answer in one format, and what steps do with it."""

    def __init__(
        self, form: Form, start: str = CONTENT, types: "dict[tuple[str, str], Any] | None" = None
    ) -> None:
        self.form = form
        self.start = start
        self.types: dict[tuple[str, str], Any] = types or {}
        self.calls: list[ToolCall] = []
        self.out: list[Said] = []
        self.ended = False
        # -- the text
        self.section = REASONING if start == REASONING else CONTENT
        # How much has come of the run behind the last marker, shown or not, and of each section
        # before it: 0 nothing, 1 newlines, 2 other text.
        self.run: int = 0
        self.shown: int = 0
        self.content: int = 0
        self.reasoning: int = 0
        self.wrapped = False
        self.after_call: bool = False
        self.after_reasoning: bool = False
        self.held: str = ""  # the end of the run, which may become markup
        self.skip = MOST_NEWLINES if start == REASONING or form.spec.leading else 0
        # -- what is read
        self.at: str = form.spec.tree or ("edge" if self.skip else "text")
        self.stack: list[str] = []  # the steps behind this one
        self.buf: str = ""  # symbols that no step has read
        self.half: str = ""  # the end of the text, which may become a marker that is text
        self.ahead: str = ""  # what was said already of what comes out next, as `half` has come
        self.raw: str = ""  # all symbols of a call, while it is not certain that it is one
        self.opener = 0  # which of the calls of the format is read
        self.began = 0  # how many calls there were before it
        self.on_fail: str = ""
        self.begin()

    def begin(self, raw: str = "", on_fail: str = "") -> None:
        """Forget the last call; `raw` are the symbols that wait until the next one is certain."""
        self.raw, self.on_fail = raw, on_fail
        self.name: str | None = None
        self.id: str | None = None
        self.certain: bool = False  # whether the name has been said
        self.pending: str = ""  # arguments that came before the name
        self.has_arguments = self.whole = False
        self.comma: bool = False
        self.key = ""
        self.value_types: Any = None
        self.nest = (
            ""  # the containers that are open: `{`, `[`, or `}`, `]` behind their first item
        )
        self.how: str = DONE
        self.forget_scan()

    def forget_scan(self) -> None:
        self.pos: int = 0
        self.depth: int = -2
        self.quote: str = ""

    # ------------------------------------------------------------ the state

    @property
    def state(self) -> Any:
        """The state as plain values: `load` takes it. Of the calls it has their number, and whether
        the last one is complete.
        """
        text = tuple([getattr(self, name) for name in TEXT_STATE])
        call = tuple([getattr(self, name) for name in CALL_STATE])
        complete = bool(self.calls) and self.calls[-1].complete
        return text, call, tuple(self.stack), len(self.calls), complete

    def load(self, state: Any, calls: Any = None) -> None:
        """Take a state, or what JSON made of it, and the calls so far, as (id, name, arguments,
        complete). Without them they stay, if they are as many; else nothing is known of them.
        """
        text, call, stack, count, complete = state
        for names, values in ((TEXT_STATE, text), (CALL_STATE, call)):
            for name, value in zip(names, values):
                setattr(self, name, value)
        if self.value_types is not None:
            self.value_types = tuple(self.value_types)
        self.stack = list(stack)
        if calls is not None:
            self.calls = [
                ToolCall(each[0], each[1], arguments=each[2], complete=each[3]) for each in calls
            ]
        elif len(self.calls) != count:
            self.calls = [ToolCall(None, "") for _ in range(count)]
            if count:
                self.calls[-1].complete = complete
                self.calls[-1].id = self.id if self.certain else None
        if self.ahead and self.in_call:
            self.calls[-1].ahead = self.ahead

    @property
    def calls_mark(self) -> "tuple[int, str | None, bool, int]":
        """How far the calls have come: their number, and of the last one its id, whether it is
        complete, and how many parts its arguments have.
        """
        if not self.calls:
            return 0, None, False, 0
        last = self.calls[-1]
        return len(self.calls), last.id, last.complete, len(last.parts)

    # ------------------------------------------------------------ what waits

    @property
    def in_call(self) -> bool:
        """Whether what comes next belongs to a call."""
        return self.at not in PLACES_OF_TEXT and not self.raw

    @property
    def waiting(self) -> str:
        """The text that waits, with markers spelled out."""
        symbols = self.held + self.raw if self.raw else self.held + self.buf
        text = self.form.spelled(symbols) + self.half
        return text if self.in_call else text[len(self.ahead) :]

    @property
    def triggers(self) -> str | None:
        """The characters that can begin a marker; None where other text does not just pass."""
        if self.at != "text" or self.held or self.half or self.run < 2 or self.shown < 2:
            return None
        first = [c for c in self.form.markers(self).first if not is_mark(c)]
        return "".join(first) + self.form.begins

    # ------------------------------------------------------------ what steps do

    def peek(self, also: str = "") -> str:
        """Drop space; return the next symbol, "" if none has come."""
        if self.buf and (self.buf[0] in SPACE or self.buf[0] in also):
            self.buf = self.buf.lstrip(SPACE + also)
        return self.buf[:1]

    def expect(self, symbol: str, then: str) -> bool:
        """Take a symbol behind space, and go to a step; behind another one this is no call."""
        c = self.peek()
        if not c:
            return False
        if c != symbol:
            return self.fail()
        self.take(1)
        return self.go(then)

    def look(self, also: str = "", at: int = 0) -> int:
        """Return where the next symbol is that is no space, -1 if none has come."""
        while at < len(self.buf) and (self.buf[at] in SPACE or self.buf[at] in also):
            at += 1
        return at if at < len(self.buf) else -1

    def take(self, count: int) -> str:
        """Take symbols out of those that wait."""
        text, self.buf = self.buf[:count], self.buf[count:]
        return text

    def go(self, at: str) -> bool:
        self.at = at
        return True

    def back(self, how: str = DONE) -> bool:
        """Go on with the step that waits for this one."""
        self.how = how
        self.at = self.stack.pop()
        return True

    def scan(self) -> str:
        """Follow the JSON value that begins the symbols, up to `pos`; return how it ended.

        Only brackets and quotes are looked at. A marker ends what is no string.
        """
        buf, i, limits = self.buf, self.pos, self.form.limits
        how = ""
        while i < len(buf) and not how:
            c = buf[i]
            if c in limits:
                how = BAD
                break
            if self.quote:
                if self.quote == "\\":
                    self.quote = '"'
                elif c == "\\":
                    self.quote = "\\"
                elif c == '"':
                    self.quote = ""
                    how = DONE if self.depth == 0 else ""
            elif self.depth < 0:
                if self.depth == -2 and c in '{["':
                    self.quote, self.depth = ('"', 0) if c == '"' else ("", 1)
                elif c in " \t\r\n,:]}" or has_mark(c):
                    how = BAD if self.depth == -2 else DONE
                    break
                else:
                    self.depth = -1
            elif c == '"':
                self.quote = '"'
            elif c in "{[":
                self.depth += 1
            elif c in "}]":
                self.depth -= 1
                how = "" if self.depth else DONE
            elif has_mark(c):
                how = BAD
                break
            i += 1
        self.pos = i
        return how

    def taken(self) -> str:
        """Take the symbols that were followed."""
        text = self.take(self.pos)
        self.forget_scan()
        return text

    # ------------------------------------------------------------ text

    def show(self, text: str) -> None:
        """Give text of the section."""
        if not text:
            return
        if self.run < 2:
            self.run = 2 if text.strip("\n") else 1
        text = self.form.without_tokens(text)
        if text:
            if self.shown < 2:
                self.shown = 2 if text.strip("\n") else 1
            self.say(self.section, text)

    def say(self, channel: str, text: str) -> None:
        last = self.out[-1] if self.out else None
        if last is not None and last.channel == channel and channel != TOOL_CALL:
            text = self.out.pop().text + text
        self.out.append(Said(channel, text, None, None))

    def end_run(self) -> None:
        """End the run of text: a marker has come."""
        self.out.append(Said("", "", None, None))
        if self.section == REASONING:
            self.reasoning = max(self.reasoning, self.shown)
        else:
            self.content = max(self.content, self.shown)
        self.run = self.shown = 0
        self.held = ""

    # ------------------------------------------------------------ calls

    def refute(self) -> bool:
        """Treat what looked like a call as text, from its first symbol on."""
        raw, self.raw = self.raw, ""
        self.show(self.held + raw[0])
        self.held = ""
        self.buf = raw[1:]
        self.stack = []
        return self.go("text")

    def fail(self) -> bool:
        """Treat what has been read as text: it is not a call."""
        if not self.on_fail:
            return self.refute()
        self.buf, self.raw = self.raw, ""
        self.forget_scan()
        return self.go(self.on_fail)

    def say_call(self, name: str) -> None:
        """Begin a call, which is certain now and has this name."""
        self.enclose()
        self.certain = True
        self.calls.append(ToolCall(self.id, name))
        self.out.append(Said(TOOL_CALL, "", len(self.calls) - 1, name))
        self.arguments(self.pending)
        self.pending = ""

    def enclose(self) -> None:
        """The text before the call is a section that has ended."""
        self.end_run()
        self.after_call, self.after_reasoning, self.raw = True, False, ""

    def arguments(self, text: str) -> None:
        """Give JSON text of the arguments."""
        if not text:
            return
        if not self.certain:
            self.pending += text
            return
        at = len(self.calls) - 1
        self.calls[at].parts.append(text)
        last = self.out[-1] if self.out else None
        if last is not None and last.call == at and last.name is None:
            text = self.out.pop().text + text
        self.out.append(Said(TOOL_CALL, text, at, None))

    def give_words(self, end: int) -> None:
        """Give text as the inside of a JSON string: up to `end`, or all that has come if that is
        -1. Space at its end waits, and is dropped at the end.
        """
        said = (self.buf if end < 0 else self.buf[:end]).rstrip()
        self.arguments(escaped(self.form.spelled(said)))
        self.take(len(said) if end < 0 else end)

    def type_of(self, key: str) -> "Types":
        """Return the types that the schema of the call's tool gives to a parameter."""
        return self.types.get((self.name or "", self.form.spelled(key)))

    def give_key(self) -> None:
        """Give the key of a parameter, and the quote that a string begins with."""
        self.arguments((", " if self.comma else "") + quoted(self.form.spelled(self.key)) + ": ")
        self.comma = True
        if self.value_types == STRING:
            self.arguments('"')

    def complete(self) -> None:
        self.calls[-1].complete = True

    def leave(self) -> bool:
        """Go back to text; what waits is text."""
        if self.raw:
            self.enclose()
        self.stack = []
        return self.go("text")
