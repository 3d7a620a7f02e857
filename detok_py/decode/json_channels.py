"""The content of an answer that is one JSON value, as structured output is (RFC 8259).

In: text, cut anywhere. Out: deltas of content, as soon as they are certain. Held: text that may
become a stop. No stop may overlap a string of the value. Of a value in brackets, only quotes and
brackets are parsed. Text that does not begin as a JSON value does is ordinary text.

A pipeline (pipeline.py) uses it in the place of `Channels`.
"""

from typing import TYPE_CHECKING, Any

from .channels import CONTENT, Channels
from .stop_strings import stop_words

if TYPE_CHECKING:
    from .stage import Delta

SPACE = " \t\r\n"
BEGINS = '{["-0123456789tfn'  # what a JSON value begins with
# What has been read: nothing but space, text, a part of the value, all of it.
START, TEXT, VALUE, DONE = "start", "text", "value", "done"
# What a value outside of brackets can be so far. Numbers stand for all that go on like them.
WORDS = ("true", "false", "null")
NUMBERS = {
    "": {"-": "-", "0": "0", "1": "1"},
    "-": {"0": "0", "1": "1"},
    "0": {".": "1.", "e": "1e"},
    "1": {"0": "1", "1": "1", ".": "1.", "e": "1e"},
    "1.": {"0": "1.1", "1": "1.1"},
    "1.1": {"0": "1.1", "1": "1.1", "e": "1e"},
    "1e": {"-": "1e+", "+": "1e+", "0": "1e1", "1": "1e1"},
    "1e+": {"0": "1e1", "1": "1e1"},
    "1e1": {"0": "1e1", "1": "1e1"},
}
NO_VALUE = "!"
# States that are a whole value if the text ends, or since a bracket or quote was closed.
WHOLE = WORDS + ("0", "1", "1.1", "1e1", "{", "[", '"')


def bare(so_far: str, c: str) -> str:
    """Return the state of a number or a word after one more character.

    >>> bare(bare("", "7"), "."), bare("tru", "e"), bare("n", "o")
    ('1.', 'true', '!')
    """
    if any(word.startswith(so_far + c) for word in WORDS):
        return so_far + c
    c = "1" if c in "123456789" else "e" if c == "E" else c
    return NUMBERS.get(so_far, {}).get(c, NO_VALUE)


class JsonChannels(Channels):
    """Text to deltas of content, where the text is one JSON value; `complete` says whether all of
    it has come. The options are those of `Channels`.

    >>> channels = JsonChannels(["\\n"])
    >>> channels.feed('{"a": "b\\n"')[0].text, channels.complete
    ('{"a": "b\\n"', False)
    >>> channels.feed("}\\nmore")[0].text, channels.complete, channels.stopped
    ('}', True, '\\n')
    """

    held: str

    def __init__(self, stop: Any = (), *, start: str = CONTENT, **options: Any) -> None:
        if start != CONTENT:
            raise ValueError(f"start must be 'content' in the format json, not {start!r}.")
        words = stop_words(stop)
        # A stop with a quote inside would end in a string.
        of_value = [word for word in words if '"' not in word[:-1]]
        # Other stops, with which text that is not a value may begin.
        of_start = [word for word in words if word in of_value or word.strip()[0] not in BEGINS]
        tags: dict[str, Any] = {"reasoning": None, "tools": None}
        self._stops: dict[str, Any] = {
            mode: Channels(found, **tags, **options)._places
            for mode, found in ((START, of_start), (TEXT, words), (VALUE, of_value))
        }
        self._stops[DONE] = self._stops[VALUE]
        Channels.__init__(self, words, **tags, **options)
        for each in tags:
            del self.options[each]
        self.options["format"] = "json"

    def reset(self) -> None:
        """Forget everything and begin a new text."""
        self._mode: str = START
        self._depth: int = 0  # brackets that are open
        self._quote: str = ""  # a quote inside a string, a backslash behind one
        self._so_far: str = ""  # of a number or a word (`bare`); else what opened the value
        self._places = self._stops[START]
        Channels.reset(self)

    @property
    def complete(self) -> bool:
        """Whether the whole value has come."""
        return self._mode == DONE and self._so_far in WHOLE

    @property
    def triggers(self) -> str | None:
        """The first characters of the stops; None where other characters change the state."""
        passes = self._mode in (TEXT, DONE) and self.at_rest
        return "".join(sorted(self._place.search.first)) if passes else None

    def feed_into(
        self, out: "list[Delta]", text: str, no_stop: bool = False, no_stop_after: bool = False
    ) -> None:
        """Take text; append the deltas that are certain to `out`."""
        at = 0
        while at < len(text) and self.stopped is None:
            if self._quote and not self._ended:
                end = self._end_of_string(text, at)
                self._emit(out, text[at:end])
                if not self._quote and not self._depth:
                    self._mode = DONE
            else:
                end = self._end_of_piece(text, at)
                Channels.feed_into(self, out, text[at:end], no_stop, no_stop_after)
                if self.stopped is None and self._mode == VALUE:
                    self._read(out, text[end - 1])
                elif self.stopped is None and self._mode == START and end < len(text):
                    self._begin(out, text[end])
            at = end

    def _end_of_string(self, text: str, at: int) -> int:
        """Return where a string ends, or the text."""
        while at < len(text) and self._quote:
            c, at = text[at], at + 1
            if self._quote == "\\":
                self._quote = '"'
            elif c == "\\" or c == '"':
                self._quote = "\\" if c == "\\" else ""
        return at

    def _end_of_piece(self, text: str, at: int) -> int:
        """Return where the state changes next: before a character that is not space, or after one
        that changes the state.
        """
        if self._mode in (TEXT, DONE):
            return len(text)
        while at < len(text):
            if self._mode == START:
                if text[at] not in SPACE:
                    return at
            elif text[at] in '"{[]}' or (not self._depth and text[at] in SPACE + ","):
                return at + 1
            elif not self._depth:
                self._so_far = bare(self._so_far, text[at])
            at += 1
        return at

    def _begin(self, out: "list[Delta]", c: str) -> None:
        """Begin the value, or ordinary text; each has its own stops."""
        self._mode = VALUE if c in BEGINS else TEXT
        self._places = self._stops[self._mode]
        held = self.held
        self._enter(CONTENT)
        # A stop that is complete in the held space was excused: another one has ended the answer.
        Channels.feed_into(self, out, held, True)

    def _read(self, out: "list[Delta]", c: str) -> None:
        """Go on behind the last character of a piece of the value."""
        if not self._depth and c in '"{[]}':
            self._so_far = NO_VALUE if self._so_far else c
        if c == '"':
            self._quote = c
            self.end_segment(out)
        elif c in "{[":
            self._depth += 1
        elif c in "]}":
            self._depth -= 1
        if self._depth <= 0 and not self._quote and c in "]}, \t\r\n":
            self._mode = DONE

    def flush_into(self, out: "list[Delta]", trim_end: bool = True) -> None:
        """End the text; append what was held to `out`."""
        Channels.flush_into(self, out, trim_end)
        if self._mode == VALUE and not self._depth and not self._quote:
            self._mode = DONE

    def save(self, mark: bool = False) -> Any:
        """Return the state as plain values."""
        return Channels.save(self) + ((self._mode, self._depth, self._quote, self._so_far),)

    def load(self, state: Any) -> None:
        """Take a state that `save` returned, or the list that JSON made of it."""
        self._take(state[5])
        Channels.load(self, tuple(state[:5]))

    @staticmethod
    def without_calls(state: Any) -> Any:
        """Return a saved state without the text of calls: there are none."""
        return state

    @property
    def key(self) -> Any:
        """All of the state that decides what is still to come."""
        own = self._mode, self._depth, self._quote, self._so_far
        return (self._name, self._node, self.held, own, self._shown if self._at_start else -1)

    @key.setter
    def key(self, key: Any) -> None:
        self._take(key[3])
        self._enter(key[0])
        self._node, self.held = key[1:3]
        self._at_start, self._shown = key[4] >= 0, max(0, key[4])

    def _take(self, own: Any) -> None:
        self._mode, self._depth, self._quote, self._so_far = own
        self._places = self._stops[self._mode]
