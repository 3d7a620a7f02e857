"""Text that ends at the first of several stop strings.

In: text, cut anywhere. Out: the text before the stop. Held: the longest end of the text that can
still become a stop, nothing else.
"""

from typing import Any, Iterable

from .utf8 import ended
from .word_search import KEPT, STOP, WordSearch


def words_of(words: Any) -> tuple[Any, ...]:
    """Return words as a tuple: a string means one. Those of a set are sorted, so that every process
    has them in the same order.
    """
    if isinstance(words, (str, bytes, bytearray)):
        return (words,)
    return tuple(sorted(words) if isinstance(words, (set, frozenset)) else words)


def stop_words(stops: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return stop strings as a tuple: `None` means none, a string means one. An empty string raises
    ValueError.
    """
    words = () if stops is None else words_of(stops)
    for word in words:
        if not isinstance(word, str):
            raise TypeError("A stop string must be a str, not " + repr(word)[:40] + ".")
        if not word:
            raise ValueError("A stop string must not be empty: leave it out.")
    return words


def check_text(text: Any) -> None:
    """Raise TypeError if `text` is not a str."""
    if not isinstance(text, str):
        raise TypeError(
            f"This stream takes str, not {repr(text)[:40]}; a StreamingDetokenizer makes text of bytes."
        )


def as_count(number: Any, option: str) -> int:
    """Return a number of ids or characters that an option names."""
    if number.__class__ is not int:
        raise TypeError(f"{option} must be an int, not {number!r}.")
    if number < 0:
        raise ValueError(f"{option} must not be negative, not {number!r}.")
    return int(number)


class StopStrings:
    """Text that ends where one of some strings begins: text in, text out.

    Law: after every `feed` all that was returned, joined, is the longest common prefix of the final
    text over everything that could still come. So only an end of the text that can still become a
    stop is held: at most the longest stop less a character.

    The stop that is complete first wins; of stops complete at the same character, the one that
    began first. With `include_stop` (or `include`) the stop is shown too, and nothing is ever held.
    A stop that ends within the first `min_chars` characters is text. After a stop, further text is
    dropped; `stopped` is the stop that was found, or None, and `held_text` the text that is not
    shown yet; `held_bytes` is always empty. `stops` are the strings, of which an empty one raises
    ValueError.

    >>> st = StopStrings(["STOP"])
    >>> [st.feed(chunk) for chunk in ("go, S", "T", "!", " ST", "OP, no more")], st.stopped
    (['go, ', '', 'ST!', ' ', ''], 'STOP')
    """

    held_bytes = b""  # what comes is text

    def __init__(
        self,
        stops: str | Iterable[str] | None,
        include_stop: bool = False,
        min_chars: int = 0,
        *,
        include: bool = False,
    ) -> None:
        self.stops: tuple[str, ...] = stop_words(stops)
        self.include_stop: bool = include_stop or include
        self.min_chars: int = as_count(min_chars, "min_chars")
        kind = KEPT if self.include_stop else STOP
        self._search = WordSearch.shared(tuple([(word, kind) for word in self.stops]))
        self.reset()

    def reset(self) -> None:
        """Forget everything and begin a new text."""
        self.held_text: str = ""
        self.stopped: str | None = None
        self._state = 0
        self._no_stop = self.min_chars  # no stop can end within so many further characters
        self._ended = False

    def __repr__(self) -> str:
        return f"<StopStrings {self.stops!r}, held {self.held_text!r}, stopped by {self.stopped!r}>"

    def feed(self, text: str) -> str:
        """Take text; return what is certain to be shown."""
        if text.__class__ is not str:
            check_text(text)
        if self.stopped is not None or not text:
            return ""
        if self._ended:
            ended("feeding it")
        search = self._search
        if not self._state and not self._no_stop and search.first.isdisjoint(text):
            return text
        state, at, match = self._state, 0, None
        if self._no_stop:
            at = min(self._no_stop, len(text))
            state, _, _ = search.scan(state, text[:at], 0, True)
            self._no_stop -= at
        if at < len(text):
            state, at, match = search.scan(state, text, at)
        whole = self.held_text + text[:at]
        if match is not None:
            self.stopped = match.word
            self.held_text = ""
            self._state = 0
            return whole if self.include_stop else whole[: -len(match.word)]
        self._state = state
        cut = len(whole) - search.held_length(state, self._no_stop)
        self.held_text = whole[cut:]
        return whole[:cut]

    def flush(self) -> str:
        """End the text; return what was held. Until `reset`, a further `feed` raises
        StreamEndedError.
        """
        text, self.held_text = self.held_text, ""
        self._state = 0
        self._ended = True
        return text

    def save(self) -> tuple[str, str | None, int, int, bool]:
        """Return the state as plain values."""
        return self.held_text, self.stopped, self._state, self._no_stop, self._ended

    def load(self, state: tuple[str, str | None, int, int, bool]) -> None:
        """Take a state that `save` of a StopStrings with the same stops returned, or the list that
        JSON made of it.
        """
        self.held_text, self.stopped, self._state, self._no_stop, self._ended = state

    def copy(self) -> "StopStrings":
        """Return an independent stream in the same state."""
        other = StopStrings(self.stops, self.include_stop, self.min_chars)
        other.load(self.save())
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> "StopStrings":
        return self.copy()
