"""A token of a list, and what became of each of its bytes."""

from typing import NamedTuple

# As the page writes them: complete, held, replaced.
WHOLE, HELD, REPLACED = "c", "h", "r"


class Token(NamedTuple):
    """A token, or a chunk of bytes without an id.

    `text` is what it made certain. `states` has a letter for each byte: "c", it is part of a
    complete character; "h", so too, but it had to wait for a later token; "r", it was replaced by
    U+FFFD. `held` are the bytes that waited after this token, and `name` is that of a special token
    whose text is left out.
    """

    id: int | None
    data: bytes
    text: str
    states: str
    held: bytes
    name: str = ""
