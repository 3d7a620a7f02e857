"""What a Detokenizer is made with, and the tables that those with the same settings share.

In: the state of a Detokenizer and an id. Out: the text that the id gave before, if it did.
"""

from typing import NamedTuple

from .rules import Rules
from .stage import Item, State
from .table import Row, Table

# What a Detokenizer is made with, besides its vocabulary. Tables are kept by it.
Settings = NamedTuple(
    "Settings",
    [
        ("skip_special_tokens", bool),
        ("byte_fallback", str),
        ("errors", str),
        ("unknown", str),
        ("spans", bool),
        ("clean_up_tokenization_spaces", bool),
        ("spaces_between_special_tokens", bool),
    ],
)


class _NoTexts(dict):  # type: ignore[type-arg]  # MicroPython has no `dict[…]`
    """The texts of a state that has no row: None for every id, so that a miss is no KeyError.
    MicroPython does not call `__missing__`; there a miss is a KeyError.
    """

    def __missing__(self, token_id: int) -> None:
        return None


NO_TEXTS: "dict[int, str | None]" = _NoTexts()  # of a state that is too large to have a row


class Tables(Table):
    """What Detokenizers with the same settings share. The tables fill themselves, and can be
    forgotten.

    `settings` are what they are made with, and `rules` the decoder rules; `start` is the state of a
    text that has not begun, and `default` that of one that has, with nothing held.
    """

    def __init__(self, settings: Settings, rules: Rules, start: State, default: State) -> None:
        Table.__init__(self)
        self.settings = settings
        self.rules = rules
        self.start = start
        self.items: dict[int, Item | None] = {}  # id → what the chain takes, None if skipped
        self.bytes_of: dict[int, bytes] = {}  # the same where the chain only joins bytes
        # It has as many texts as there are tokens, which are not forgotten.
        self.default_row: Row = Row(default)

    def row(self, key: State) -> Row:
        return self.default_row if key == self.default_row.key else Table.row(self, key)

    def _forget(self) -> None:
        Table._forget(self)
        row = self.default_row  # its steps lead to rows that are forgotten
        for token_id in list(row.steps):
            row.texts.pop(token_id, None)
        row.steps.clear()

    def note_text(self, row: Row, token_id: int, text: str, after: Row) -> None:
        """Remember the text that a token gave, and the row of the state that it led to."""
        if row is not self.default_row:
            self._grow()
        if after is not row:
            row.steps[token_id] = text, after
        row.texts[token_id] = text if after is row else None
