"""The state of the reader of a format, as plain values, and what its steps have in common."""

from typing import TYPE_CHECKING, Any, NamedTuple

from .form import CONTENT, REASONING, TOOL_CALL, Form
from .table import Call
from .tool_call import MOST_NAME, ToolCall
from .values import BAD, DONE, SPACE, STRING, More, escaped, has_mark, is_mark, quoted, unescaped

if TYPE_CHECKING:
    from .values import Types

# All of the state but the calls: plain values, which can be a key, or become JSON.
OWN_FIELDS = ("at", "buf", "half", "ahead", "ended", "opener", "began")
TEXT_FIELDS = (
    "section", "run", "shown", "content", "reasoning", "wrapped", "after_call", "after_reasoning",
    "held", "skip",
)  # fmt: skip
CALL_FIELDS = (
    "raw", "on_fail", "name", "id", "certain", "pending", "comma", "has_arguments", "whole", "key",
    "value_types", "nest", "how",
)  # fmt: skip
VALUE_FIELDS = ("pos", "depth", "quote")
FIELDS: tuple[str, ...] = OWN_FIELDS + TEXT_FIELDS + CALL_FIELDS + VALUE_FIELDS
# The steps in which text of a section is read.
PLACES_OF_TEXT = (
    "text", "edge", "thought", "harmony", "harmony_start", "harmony_header", "harmony_body",
    "harmony_over", "kimi_k3", "k3_text",
)  # fmt: skip
MOST_NEWLINES = 2  # at each side of a marker, which are markup

# Output: text of a channel; for a call its number and, in its first piece, its name. Without a
# channel: a marker that ends a run of text.
Said = NamedTuple(
    "Said", [("channel", str), ("text", str), ("call", "int | None"), ("name", "str | None")]
)


class Text:
    """What has come of the text of an answer, and what of it waits."""

    def __init__(self, section: str, skip: int) -> None:
        self.section = section
        # How much text has come: 0 none, 1 newlines, 2 other text. `run`: since the last marker;
        # `shown`: how much of that was shown; `content` and `reasoning`: shown before that marker.
        self.run: int = 0
        self.shown: int = 0
        self.content: int = 0
        self.reasoning: int = 0
        self.wrapped: bool = False
        self.after_call: bool = False
        self.after_reasoning: bool = False
        self.held: str = ""  # the end of the run, which may become markup
        self.skip = skip  # newlines at the beginning of a run, which are markup


class OpenCall:
    """What has come of the call that is read.

    `raw` are the symbols that wait until it is certain that it is a call. If it is none, they are
    read as text, or by the step `on_fail`.
    """

    def __init__(self, raw: str = "", on_fail: str = "") -> None:
        self.raw = raw
        self.on_fail = on_fail
        self.name: str | None = None
        self.id: str | None = None
        self.certain: bool = False  # whether the name has been said
        self.pending: str = ""  # arguments that came before the name
        self.comma: bool = False
        self.has_arguments: bool = False
        self.whole: bool = False
        self.key: str = ""
        self.value_types: Any = None
        # The containers that are open: `{`, `[`, or `}`, `]` after their first item.
        self.nest: str = ""
        self.how: str = DONE


class Value:
    """How far the value at the front of the symbols has been followed."""

    def __init__(self) -> None:
        self.pos: int = 0  # how many of the symbols were looked at
        self.depth: int = -2
        self.quote: str = ""

    @property
    def begun(self) -> bool:
        """Whether `scan` has begun to follow a JSON value."""
        return self.depth != -2

    def scan(self, buf: str, limits: Any) -> str:
        """Follow the JSON value at the front of the symbols, from `pos` on, and move `pos`; return
        how it ended, "" if it has not.

        Looks only at brackets and quotes. A marker ends a value, unless it is inside a string.
        """
        i, how = self.pos, ""
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


class State:
    """What has been read of an answer in one format, and what steps do with it."""

    def __init__(
        self, form: Form, start: str = CONTENT, types: "dict[tuple[str, str], Any] | None" = None
    ) -> None:
        self.form = form
        self.types: dict[tuple[str, str], Any] = types or {}
        self.calls: list[ToolCall] = []
        self.out: list[Said] = []
        leads = start == REASONING or form.spec.leading
        section = REASONING if start == REASONING else CONTENT
        self.text: Text = Text(section, MOST_NEWLINES if leads else 0)
        self.call: OpenCall = OpenCall()
        self.value: Value = Value()
        self.at: str = form.spec.tree or ("edge" if leads else "text")
        if self.at == "harmony" and start == "header":
            self.at = "harmony_start"
        self.stack: list[str] = []  # the steps that follow this one, the next one last
        self.buf: str = ""  # symbols that no step has read
        self.half: str = ""  # the end of the text, which may become a marker that is text
        self.ahead: str = ""  # how the next output begins, if `half` made that certain: shown early
        self.ended = False
        self.opener = 0  # which of the calls of the format is read
        self.began = 0  # how many calls there were before it

    def begin(self, raw: str = "", on_fail: str = "") -> None:
        """Begin to read another call, or what may be one."""
        self.call = OpenCall(raw, on_fail)
        self.value = Value()

    # ------------------------------------------------------------ the state

    @property
    def _parts(self) -> "tuple[tuple[Any, tuple[str, ...]], ...]":
        return (
            (self, OWN_FIELDS),
            (self.text, TEXT_FIELDS),
            (self.call, CALL_FIELDS),
            (self.value, VALUE_FIELDS),
        )

    @property
    def state(self) -> Any:
        """The state as plain values: `load` takes it. Of the calls it has their number, and whether
        the last one is complete.
        """
        fields = tuple([getattr(part, name) for part, names in self._parts for name in names])
        complete = bool(self.calls) and self.calls[-1].complete
        return fields, tuple(self.stack), len(self.calls), complete

    def load(self, state: Any, calls: Any = None) -> None:
        """Take a state, or what JSON made of it, and the calls so far, as (id, name, arguments,
        complete); the arguments are one text, or the pieces in which they came. Without `calls`,
        the present ones stay if their number is the same; otherwise only their number is known.
        """
        fields, stack, count, complete = state
        values = iter(fields)
        for part, names in self._parts:
            for name in names:
                setattr(part, name, next(values))
        if self.call.value_types is not None:
            self.call.value_types = tuple(self.call.value_types)
        self.stack = list(stack)
        if calls is not None:
            self.calls = [ToolCall(each[0], each[1], complete=each[3]) for each in calls]
            for call, each in zip(self.calls, calls):
                whole = isinstance(each[2], str)
                call.parts = list((each[2],) if whole and each[2] else each[2])
        elif len(self.calls) != count:
            self.calls = [ToolCall(None, "")] * count
            if count:
                call_id = self.call.id if self.call.certain else None
                self.calls[-1] = ToolCall(call_id, "", complete=complete)
        if self.calls:
            self.calls[-1].ahead = self.ahead if self.in_call else ""

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
        return self.at not in PLACES_OF_TEXT and not self.call.raw

    @property
    def waiting(self) -> str:
        """The text that waits, with markers spelled out."""
        symbols = self.text.held + self.call.raw if self.call.raw else self.text.held + self.buf
        text = self.form.spelled(symbols) + self.half
        return text if self.in_call else text[len(self.ahead) :]

    @property
    def triggers(self) -> str | None:
        """The characters that can begin a marker; None where others change the state too."""
        if (
            self.at != "text"
            or self.text.held
            or self.half
            or self.text.run < 2
            or self.text.shown < 2
        ):
            return None
        first = [c for c in self.form.markers(self).first if not is_mark(c)]
        return "".join(first) + self.form.begins

    # ------------------------------------------------------------ symbols

    def next(self, also: str = "") -> str:
        """Drop space; return the next symbol."""
        self.buf = self.buf.lstrip(SPACE + also)
        if not self.buf:
            raise More
        return self.buf[0]

    def behind(self, at: int = 0, also: str = "") -> int:
        """Return where the next symbol is that is not space."""
        while part := self.buf[at : at + 64]:  # a copy of all that follows would cost its length
            rest = part.lstrip(SPACE + also)
            if rest:
                return at + len(part) - len(rest)
            at += len(part)
        raise More

    def find(self, symbols: Any, at: int = 0) -> int:
        """Return where the next of some symbols stands, or how many symbols wait."""
        end = len(self.buf)
        for each in symbols:
            found = self.buf.find(each, at, end)
            end = found if found >= 0 else end
        return end

    def upto(self, symbols: str = "") -> int:
        """Return where the next marker stands, or the next of some symbols."""
        buf, at = self.buf, self.value.pos
        while at < len(buf) and buf[at] not in symbols and not is_mark(buf[at]):
            at += 1
        self.value.pos = at
        if at == len(buf):
            raise More
        self.value.pos = 0
        return at

    def name_end(self, at: int, also: str = "") -> int:
        """Return where a name ends that begins with a letter: letters, digits, and `also`. One that
        is too long ends at `MOST_NAME` characters; no step takes what follows there.
        """
        buf, end, most = self.buf, at, min(len(self.buf), at + MOST_NAME)
        while end < most and (
            buf[end].isalpha()
            or buf[end] == "_"
            or (end > at and (buf[end].isdigit() or buf[end] in also))
        ):
            end += 1
        return end

    def string(self, at: int = 0) -> "tuple[str, str]":
        """Return the string that begins with the quote at a place, and the symbols after it and
        after space.
        """
        said, rest, ended = unescaped(self.buf[at + 1 :], self.buf[at])
        rest = rest.lstrip(SPACE)
        if not ended or not rest:
            raise More
        return said, rest

    def closes(self, at: int) -> bool:
        """Say whether what closes the call stands at a place."""
        close, rest = self.grammar.close, self.buf[at:]
        if len(rest) < len(close) and close.startswith(rest) and not self.ended:
            raise More
        return bool(close) and rest.startswith(close)

    def take(self, count: int) -> str:
        """Take symbols out of those that wait."""
        text, self.buf = self.buf[:count], self.buf[count:]
        return text

    # ------------------------------------------------------------ steps

    @property
    def grammar(self) -> Call:
        """How the call that is read begins and goes on."""
        return self.form.calls[self.opener]

    def go(self, at: str) -> bool:
        self.at = at
        return True

    def then(self, at: str, behind: str) -> bool:
        """Go to a step, and to another one when that is done."""
        self.stack.append(behind)
        return self.go(at)

    def back(self, how: str = DONE) -> bool:
        """Go on with the step that waits for this one."""
        self.call.how = how
        return self.go(self.stack.pop())

    # ------------------------------------------------------------ JSON values

    def follow(self, whole: bool = False) -> "tuple[str, str]":
        """Take what has come of a JSON value, or all of it at its end if it is to be `whole`;
        return it, and how it ended.
        """
        how = self.value.scan(self.buf, self.form.limits)
        if whole and not how:
            return "", ""
        said, self.value.pos = self.take(self.value.pos), 0
        if how:
            self.value = Value()
        return said, how

    # ------------------------------------------------------------ text

    def show(self, text: str) -> None:
        """Give text of the section."""
        if not text:
            return
        if self.text.run < 2:
            self.text.run = 2 if text.strip("\n") else 1
        text = self.form.without_tokens(text)
        if text:
            if self.text.shown < 2:
                self.text.shown = 2 if text.strip("\n") else 1
            self.say(self.text.section, text)

    def say(self, channel: str, text: str, call: int | None = None) -> None:
        """Give text of a channel, joined to the text just given of the same channel."""
        last = self.out[-1] if self.out else None
        if last and last.channel == channel and last.call == call and last.name is None:
            text = self.out.pop().text + text
        self.out.append(Said(channel, text, call, None))

    def end_run(self) -> None:
        """End the run of text: a marker has come."""
        self.out.append(Said("", "", None, None))
        if self.text.section == REASONING:
            self.text.reasoning = max(self.text.reasoning, self.text.shown)
        else:
            self.text.content = max(self.text.content, self.text.shown)
        self.text.run = self.text.shown = 0
        self.text.held = ""

    # ------------------------------------------------------------ calls

    def refute(self) -> bool:
        """Treat what looked like a call as text, from its first symbol on."""
        raw, self.call.raw = self.call.raw, ""
        self.show(self.text.held + raw[0])
        self.text.held = ""
        self.buf = raw[1:]
        return self.leave()

    def fail(self) -> bool:
        """It is not a call: read its symbols again by the step `on_fail`, or else as text."""
        if not self.call.on_fail:
            return self.refute()
        self.buf, self.call.raw = self.call.raw, ""
        self.value = Value()
        return self.go(self.call.on_fail)

    def say_call(self, name: str) -> None:
        """Begin a call, which is certain now and has this name."""
        self.end_text_run()
        self.call.name, self.call.certain = name, True
        self.calls.append(ToolCall(self.call.id, name))
        self.out.append(Said(TOOL_CALL, "", len(self.calls) - 1, name))
        self.arguments(self.call.pending)
        self.call.pending = ""

    def end_text_run(self) -> None:
        """End the run of text before a call."""
        self.end_run()
        self.text.after_call, self.text.after_reasoning, self.call.raw = True, False, ""

    def arguments(self, text: str) -> None:
        """Give JSON text of the arguments."""
        if not text:
            return
        if not self.call.certain:
            self.call.pending += text
            return
        at = len(self.calls) - 1
        self.calls[at].parts.append(text)
        self.say(TOOL_CALL, text, at)

    def inside(self, symbols: str) -> None:
        """Give the inside of a JSON string."""
        self.arguments(escaped(self.form.spelled(symbols)))

    def type_of(self, key: str) -> "Types":
        """Return the types that the schema of the call's tool gives to a parameter."""
        return self.types.get((self.call.name or "", self.form.spelled(key)))

    def give_key(self) -> None:
        """Give the key of a parameter, and the quote that a string begins with."""
        self.arguments(
            (", " if self.call.comma else "") + quoted(self.form.spelled(self.call.key)) + ": "
        )
        self.call.comma = True
        if self.call.value_types == STRING:
            self.arguments('"')

    def complete(self) -> None:
        self.calls[-1].complete = True

    def leave(self) -> bool:
        """Go back to text; what waits is text."""
        if self.call.raw:
            self.end_text_run()
        self.stack = []
        return self.go("text")
