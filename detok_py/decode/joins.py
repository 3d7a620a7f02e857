"""Where tokens become text: items in, text out, through the text stages after the join.

Bytes that follow each other are one UTF-8 stream, which ends where an item of text comes. Held: an
unfinished character, or the byte run that `WholeRuns` can't be sure of.
"""

from typing import TYPE_CHECKING, Callable

from .stage import RAW, Item, JoinedText, State, common, futures_of
from .utf8 import bad_byte, decode_end, decode_utf8, texts_behind

if TYPE_CHECKING:
    from .stage import Future


class Join:
    """Items → text: bytes as UTF-8, by maximal subparts; text as it is."""

    def __init__(self, errors: str, make_text: Callable[[], JoinedText]) -> None:
        self.errors = errors
        self.text: JoinedText = make_text()
        self.run: bytes = b""  # an unfinished character

    @property
    def held_text(self) -> str:
        return self.text.held

    @property
    def state(self) -> State:
        return self.run.hex() if self.run else "", self.text.state

    @state.setter
    def state(self, state: State) -> None:
        self.run, self.text.state = bytes.fromhex(state[0]), state[1]

    @property
    def rest(self) -> str:
        """What is still to be left out."""
        return self.text.rest

    def omit(self, text: str) -> None:
        """Leave out what comes next, as far as it is the beginning of `text`."""
        self.text.omit(text)

    def feed(self, item: Item) -> str:
        if item.kind == RAW:
            text, self.run = decode_utf8(
                self.run + item.data if self.run else item.data, self.errors
            )
        else:
            text = self.end_run() + item.text if self.run else item.text
        text = self.text.feed(text)
        if self.run and self.text.held:
            texts = texts_behind(self.run, self.errors, self.text.letters)
            text += self.text.expect(texts) if texts else ""
        return text

    def futures(self, letters: str) -> "list[Future] | None":
        """Return what can come out next, None if anything can."""
        letters += self.text.letters
        texts = texts_behind(self.run, self.errors, letters)
        if texts is None and (self.run or not self.text.held):
            return None
        return futures_of(self.text, texts, letters)

    def end_run(self) -> str:
        run, self.run = self.run, b""
        return decode_end(run, self.errors)

    def flush(self) -> str:
        text = self.end_run()
        return self.text.feed(text) + self.text.flush()


class SingleBytes(Join):
    """Items → text as SentencePiece decodes byte tokens: an invalid byte becomes one U+FFFD, also
    where several bytes begin a character that is not completed.
    """

    run: bytes

    def feed(self, item: Item) -> str:
        if item.kind != RAW:
            return Join.feed(self, item)
        out, run = "", self.run + item.data  # one byte, behind an unfinished character
        while True:
            try:
                text, self.run = decode_utf8(run, "strict")
                return self.text.feed(out + text)
            except UnicodeError:
                out += bad_byte(run[0], self.errors)
                run = run[1:]

    def end_run(self) -> str:
        run, self.run = self.run, b""
        return "".join([bad_byte(byte, self.errors) for byte in run])


class WholeRuns:
    """Items → text as Hugging Face decodes byte tokens: a run that is not UTF-8 as a whole becomes
    one U+FFFD a byte.

    While a run is valid so far, there are two futures: it ends valid, or becomes invalid. Each goes
    through its own text stages; their common prefix is certain. Once they differ, nothing more is
    certain until the run ends or becomes invalid. So a run is held; a token costs O(1). (Under
    "strict" a bad run has no text, so there is one future, and `Join` will do.)
    """

    def __init__(self, errors: str, make_text: Callable[[], JoinedText]) -> None:
        self.errors = errors
        self.good: JoinedText = make_text()
        self.bad: JoinedText = make_text()
        self.begin_run()

    def begin_run(self) -> None:
        self.run: bytearray = bytearray()  # the bytes of a run that is good so far
        self.tail: bytes = b""  # its last bytes, an unfinished character
        self.is_bad: int = 0  # 1 in a run that is known to be bad, of which nothing is held
        self.differ: int = 0  # 1 once the futures differ in the first character that was not shown
        # What the run has put out in each future, without what was shown. One future can be far
        # ahead of the other; the parts before `good_at` and `bad_at` are empty.
        self.good_out: list[str] = []
        self.bad_out: list[str] = []
        self.good_at: int = 0
        self.bad_at: int = 0

    @property
    def held_text(self) -> str:
        return "" if self.run else self.good.held

    @property
    def state(self) -> State:
        # MicroPython has no hex of b"".
        run = bytes(self.run).hex() if self.run else ""
        tail = self.tail.hex() if self.tail else ""
        outs = "".join(self.good_out), "".join(self.bad_out)
        bad = self.bad.state if self.run else ""
        return run, tail, self.is_bad, self.differ, outs, self.good.state, bad

    @state.setter
    def state(self, state: State) -> None:
        run, tail, self.is_bad, self.differ, outs, self.good.state, bad = state
        self.run, self.tail = bytearray(bytes.fromhex(run)), bytes.fromhex(tail)
        self.good_out, self.bad_out = [outs[0]], [outs[1]]
        self.good_at = self.bad_at = 0
        if run:
            self.bad.state = bad

    @property
    def rest(self) -> str:
        """What is still to be left out behind a run."""
        return self.good.rest

    def omit(self, text: str) -> None:
        """Leave out what comes next, as far as it is the beginning of `text`, in both futures."""
        self.good_out = [_omit(self.good, "".join(self.good_out), text)]
        if self.run:
            self.bad_out = [_omit(self.bad, "".join(self.bad_out), text)]
        # One of the futures is the text that the prompt ends in.
        self.differ = self.good_at = self.bad_at = 0

    def feed(self, item: Item) -> str:
        if item.kind != RAW:
            return self.end_run() + self.good.feed(item.text)
        spelled = "\ufffd" if self.errors == "replace" else bad_byte(item.data[0], self.errors)
        if self.is_bad:
            return self.good.feed(spelled)
        if not self.run:
            self.bad.state = self.good.state
        try:
            if self.tail or item.data[0] >= 0x80:
                text, self.tail = decode_utf8(self.tail + item.data, "strict")
            else:
                text = chr(item.data[0])
        except UnicodeError:
            # The run can't end well any more: what comes is U+FFFD, byte by byte.
            out = "".join(self.bad_out) + self.bad.feed(spelled)
            self.good.state = self.bad.state
            self.begin_run()
            self.is_bad = 1
            return out
        self.run += item.data
        if text:
            self.good_out.append(self.good.feed(text))
        if self.tail and self.good.held:
            texts = texts_behind(self.tail, "strict", self.good.letters)
            self.good_out.append(self.good.expect(texts or [""]))
        self.bad_out.append(self.bad.feed(spelled))
        return "" if self.differ else self.take_shared()

    def futures(self, letters: str) -> "list[Future] | None":
        """Return what can come out next, None if anything can."""
        if not self.run:
            if not self.good.held:
                return None
            return futures_of(self.good, None, letters + self.good.letters)
        good, bad = "".join(self.good_out), "".join(self.bad_out)
        if not bad:
            return None
        if good or not self.tail:
            return [(good, False), (bad, False)] if good else None
        letters += self.good.letters
        futures = futures_of(self.good, texts_behind(self.tail, "strict", letters), letters)
        return None if futures is None else futures + [(bad, False)]

    def take_shared(self) -> str:
        """Remove the common prefix of both futures, and return it."""
        good, bad = self.good_out, self.bad_out
        shared = ""
        while not self.differ and self.good_at < len(good) and self.bad_at < len(bad):
            one, other = good[self.good_at], bad[self.bad_at]
            n = common(one, other)
            shared += one[:n]
            good[self.good_at], bad[self.bad_at] = one[n:], other[n:]
            if n == len(one):
                self.good_at += 1
            if n == len(other):
                self.bad_at += 1
            elif n < len(one):
                self.differ = 1
        return shared

    def end_run(self) -> str:
        out = ""
        if self.tail:
            self.good.state = self.bad.state
            out = "".join(self.bad_out)
        elif self.run:
            out = "".join(self.good_out)
        self.begin_run()
        return out

    def flush(self) -> str:
        return self.end_run() + self.good.flush()


def _omit(stage: JoinedText, out: str, text: str) -> str:
    """Return what has come out of a stage without what it has in common with `text`; the rest of
    `text` is left out of what comes next.
    """
    n = common(out, text)
    if n == len(out):
        stage.omit(text[n:])
    return out[n:]
