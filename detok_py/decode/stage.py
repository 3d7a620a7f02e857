"""What a stage is: one step on the way from tokens to text.

In: items (in front of the join) or text (behind it). Out: what has become certain. Held: whatever
could still change, and nothing else.

A stage obeys four rules: any chunking gives the same joined output; output is never taken back; an
empty input changes nothing; after `flush()` nothing is held. Its whole state is in the attribute
`state`, made of plain values (int, str, None and tuples of them), so that it goes through pickle and
JSON and can be assigned to another stage made alike.
"""

from typing import Any, NamedTuple, Protocol
from warnings import warn

# The kinds of items.
PIECE = 0  # `text` is a token string that the rules apply to
LITERAL = 1  # `text` is not changed by the rules
RAW = 2  # `data` is bytes of UTF-8, cut anywhere
APART = 3  # `text` is a special token that stands by itself (see `Apart`)

# One token on its way through the rules. `text` is "" for RAW, `data` is b"" for the others.
Item = NamedTuple("Item", [("kind", int), ("text", str), ("data", bytes)])

State = Any  # int, str, None, or a tuple of states


class ItemStage(Protocol):
    """Items in, items out."""

    state: State

    @property
    def held_text(self) -> str:
        """The text that waits."""

    @property
    def held_bytes(self) -> bytes:
        """The bytes that wait to become text."""

    def feed(self, item: Item) -> list[Item]:
        """Take an item; return the items that it makes certain.

        The last item returned belongs to `item`, those before it to the item before.
        """

    def flush(self) -> list[Item]:
        """End the stream; return what was held."""


class TextStage(Protocol):
    """Text in, text out."""

    state: State

    @property
    def held(self) -> str:
        """The text that waits."""

    def feed(self, text: str) -> str:
        """Take text; return the text that it makes certain."""

    def flush(self) -> str:
        """End the stream; return what was held."""


class JoinedText(TextStage, Protocol):
    """All the text stages behind a join, as one."""

    @property
    def rest(self) -> str:
        """What is still to be left out."""

    def omit(self, text: str) -> None:
        """Leave out what comes next, as far as it is the beginning of `text`."""


def renamed(old: str, new: str) -> None:
    """Warn that a public name is another one now."""
    warn(f"{old} is now {new}; the old name ends with this version", DeprecationWarning, 3)


def tuples(state: State) -> State:
    """Return a state with tuples for the lists that JSON made of them."""
    return tuple([tuples(part) for part in state]) if isinstance(state, (list, tuple)) else state


def common(a: str, b: str) -> int:
    """Return the length of the longest common prefix.

    >>> common("don't", "do it")
    2
    """
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    at = 0
    while a[at] == b[at]:
        at += 1
    return at
