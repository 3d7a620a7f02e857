"""Stages: the steps on the way from tokens to text.

In: items (in front of the join) or text (behind it). Out: text or items that are certain. Held:
only what could still change.

A stage obeys four rules: any chunking gives the same joined output; output is never taken back; an
empty input changes nothing; after `flush()` nothing is held. Its whole state is in the attribute
`state`, made of plain values (int, str, None and tuples of them), so that it goes through pickle
and JSON and can be assigned to another stage made alike.
"""

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol

if TYPE_CHECKING:
    # For type checkers only: before Python 3.13 no TypeVar of `typing` has a default.
    from typing_extensions import TypeVar

    # What a stream takes: ids, bytes or text.
    Chunk = TypeVar("Chunk", contravariant=True, default=Any)
else:
    from typing import TypeVar

    Chunk = TypeVar("Chunk", contravariant=True)

# The kinds of items.
PIECE = 0  # `text` is a token string that the rules apply to
LITERAL = 1  # `text` is not changed by the rules
RAW = 2  # `data` is bytes of UTF-8, cut anywhere
APART = 3  # `text` is a special token that stands by itself (see `Apart`)

# One token on its way through the rules. `text` is "" for RAW, `data` is b"" for the others.
Item = NamedTuple("Item", [("kind", int), ("text", str), ("data", bytes)])


_Pair = NamedTuple("_Pair", [("channel", str), ("text", str)])


class Delta(_Pair):
    """Text that is certain, and its channel; it unpacks as that pair.

    A delta of a call in a format has the call's number, `call`, and the first one of a call its
    `name`. Elsewhere both are None.
    """

    call: int | None = None
    name: str | None = None


class TextSource(Protocol, Generic[Chunk]):
    """What a ChatStream reads from: a stage that makes text of chunks of ids, bytes or text."""

    def feed(self, __chunk: Chunk) -> str:
        """Take a chunk; return the text that it makes certain."""

    def flush(self) -> str:
        """End the stream; return what was held."""


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

    @property
    def letters(self) -> str:
        """The characters that make a difference to the stages."""

    def omit(self, text: str) -> None:
        """Leave out what comes next, as far as it is the beginning of `text`."""

    def expect(self, texts: list[str]) -> str:
        """Return what is certain since the next text begins with one of `texts`, and leave it out
        when it comes.
        """


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


if TYPE_CHECKING:
    # A possible next output of a stage: a text, and whether the stream ends after it; if not, any
    # text can follow.
    Future = tuple[str, bool]
MAX_FUTURES = 64  # states that are looked at to find the futures of a stage


def futures_of(stage: TextStage, texts: list[str] | None, letters: str) -> "list[Future] | None":
    """Return the possible next outputs of `stage`, None if any text is possible.

    `texts` are the possible next inputs; None means any text, or the end. `letters` are the
    characters that the stage, or a later one, treats specially.
    """
    start = stage.state
    futures: list[Future] = []
    todo = [start]
    for state in todo:
        if texts is None:
            stage.state = state
            futures.append((stage.flush(), True))
        for text in list(letters) + [other_than(letters)] if texts is None else texts:
            stage.state = state
            out = stage.feed(text)
            if out:
                futures.append((out, False))
            elif stage.state not in todo:
                todo.append(stage.state)
        texts = None
        if len(todo) > MAX_FUTURES:
            break
    stage.state = start
    if len(todo) > MAX_FUTURES or ("", True) in futures:
        return None
    return futures


def other_than(letters: str) -> str:
    """Return a character that is none of `letters`."""
    code = 0x21
    while chr(code) in letters:
        code += 1
    return chr(code)


def shared_start(texts: list[str]) -> str:
    """Return the longest common prefix of some texts.

    >>> shared_start(["don't", "do it"])
    'do'
    """
    start = texts[0]
    for text in texts[1:]:
        start = start[: common(start, text)]
    return start
