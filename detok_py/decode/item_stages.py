"""The rules that see tokens: items in, items out, in front of the join.

A rule that looks at one token alone is a function of an item (`item_map`): the chain applies it
once a token, when it makes its table. A rule that depends on what came before is a stage
(`item_stage`).
"""

from typing import Callable, Sequence

from .byte_level import byte_level
from .rules import WORDPIECE_CLEAN_UP, Rule, clean_up, replace_all, replacement
from .stage import LITERAL, PIECE, RAW, Item, ItemStage, State, common
from .utf8 import bad_byte, decode_end

ItemMap = Callable[[Item], Item]


def byte_of(piece: str) -> int:
    """Return the byte that `<0xE4>` stands for, -1 for any other piece.

    As `tokenizers/src/decoders/byte_fallback.rs`: six bytes, read by Rust's `u8::from_str_radix`,
    which accepts a plus sign.

    >>> byte_of("<0xE4>"), byte_of("<0xZZ>")
    (228, -1)
    """
    if len(piece) != 6 or piece[:3] != "<0x" or piece[5] != ">":
        return -1
    digits = piece[4:5] if piece[3] == "+" else piece[3:5]
    for c in digits:
        if c not in "0123456789abcdefABCDEF":
            return -1
    return int(digits, 16)


def strip(piece: str, content: str, start: int, stop: int) -> str:
    """Return `piece` without at most `start` leading and `stop` trailing `content`.

    As `tokenizers/src/decoders/strip.rs`, which panics on a piece that it strips to nothing.

    >>> strip("  a ", " ", 1, 1)
    ' a'
    """
    first, last = 0, len(piece)
    while first < min(start, last) and piece[first] == content:
        first += 1
    while last > first and len(piece) - last < stop and piece[last - 1] == content:
        last -= 1
    return piece[first:last]


def _on_pieces(function: Callable[[str], str]) -> ItemMap:
    def on_piece(item: Item) -> Item:
        text = function(item.text) if item.kind == PIECE else item.text
        return item if text == item.text else Item(PIECE, text, b"")

    return on_piece


def _byte_token(item: Item) -> Item:
    if item.kind != PIECE or item.text[:3] != "<0x":
        return item
    byte = byte_of(item.text)
    return item if byte < 0 else Item(RAW, "", bytes([byte]))


def _byte_level_token(item: Item) -> Item:
    return Item(RAW, "", byte_level(item.text) if item.kind == PIECE else item.text.encode())


def item_map(rule: Rule, joins: bool) -> ItemMap | None:
    """Return the rule as a function of one item, None if it depends on other items.

    `joins` says whether no rule behind it sees tokens.
    """
    kind = rule.kind
    if kind == "Replace":
        return _on_pieces(replacement(rule))
    if kind == "Strip":
        return _on_pieces(lambda piece: strip(piece, rule.find, rule.start, rule.stop))
    if kind == "ByteLevel":
        return _byte_level_token
    if kind == "ByteFallback" and joins:
        return _byte_token
    return None if kind != "Bytes" else lambda item: item


class HoldsNothing:
    """What the stages have in common that return at once what becomes of an item."""

    held_text: str = ""
    held_bytes: bytes = b""

    def flush(self) -> list[Item]:
        return []


class EachItem(HoldsNothing):
    """A function of one item, behind a stage."""

    state: State = ""

    def __init__(self, function: ItemMap) -> None:
        self.function = function

    def feed(self, item: Item) -> list[Item]:
        return [self.function(item)]


class FirstAndLater(HoldsNothing):
    """Metaspace, WordPiece and joining by spaces: the first piece becomes something else than the
    later ones.
    """

    def __init__(self, first: Callable[[str], str], later: Callable[[str], str]) -> None:
        self.first = first
        self.later = later
        self.state: int = 0  # 1 once there was an item

    def feed(self, item: Item) -> list[Item]:
        change = self.later if self.state else self.first
        self.state = 1
        return [item if item.kind == LITERAL else Item(PIECE, change(item.text), b"")]


class Suffixes:
    """BPEDecoder, and the Metaspaces behind it: the suffix is a space, but nothing in the last
    token.

    A Metaspace changes the first token otherwise than the later ones, so it must see whole tokens.
    What this stage returns are parts of them, so the Metaspaces are applied in here.
    """

    held_bytes = b""

    def __init__(self, suffix: str, behind: Sequence[FirstAndLater] = ()) -> None:
        self.suffix = suffix
        self.behind = behind
        # The rest of the token before: if it was the last, if it was not; 1 once there was a token.
        self.state: tuple[str, str, int] = "", "", 0

    @property
    def held_text(self) -> str:
        return self.state[0]

    def replaced(self, piece: str, put: str) -> str:
        """Return a token with `put` for its suffix, as the rules behind leave it."""
        piece = replace_all(piece, self.suffix, put)
        for stage in self.behind:
            piece = (stage.later if self.state[2] else stage.first)(piece)
        return piece

    def feed(self, item: Item) -> list[Item]:
        rest = self.state[1]
        last = more = item.text
        if item.kind == PIECE:
            last, more = self.replaced(last, ""), self.replaced(more, " ")
        same = common(last, more)
        self.state = last[same:], more[same:], 1
        shown = Item(item.kind, last[:same], b"")
        return [Item(PIECE, rest, b""), shown] if rest else [shown]

    def flush(self) -> list[Item]:
        rest = self.state[0]
        self.state = "", "", self.state[2]
        return [Item(PIECE, rest, b"")] if rest else []


class SentencePieces(HoldsNothing):
    """SentencePiece: `▁` is a space, `<0xE4>` a byte, and what `strip` says is left out at the
    beginning.

    As `SentencePieceProcessor::Decode` of sentencepiece_processor.cc: a leading `▁` is left out of
    the first piece ("one"), or of each piece until there is text ("all", where the model removes
    spaces from what it encodes).
    """

    def __init__(self, strip: str) -> None:
        self.strip = strip
        self.state: int = 0  # 1 once the text has begun

    def feed(self, item: Item) -> list[Item]:
        if item.kind == PIECE:
            text, byte = item.text, byte_of(item.text)
            if not self.state and self.strip != "none" and text[:1] == "▁":
                text = text[1:]
                self.state = 1 if self.strip == "one" else 0
            if byte < 0:
                item = Item(PIECE, text.replace("▁", " "), b"")
            else:
                item = Item(RAW, "", bytes([byte]))
        if item.text or item.data:
            self.state = 1
        return [item]


class Ctc(HoldsNothing):
    """CTC: a token that repeats the one before it is dropped, and so is one without text."""

    def __init__(self, piece: Callable[[str], str]) -> None:
        self.piece = piece
        self.state: str | None = None  # the token before

    def feed(self, item: Item) -> list[Item]:
        if item.text == self.state:
            return []
        self.state = item.text
        if item.kind == PIECE:
            item = Item(PIECE, self.piece(item.text), b"")
        return [item] if item.text else []


class ByteRuns:
    """ByteFallback in front of rules that see tokens: a run of byte tokens is held until it ends,
    and is then one piece.
    """

    held_text = ""

    def __init__(self, byte_fallback: str, errors: str) -> None:
        self.byte_fallback = byte_fallback
        self.errors = errors
        self.run: bytearray = bytearray()

    @property
    def held_bytes(self) -> bytes:
        return bytes(self.run)

    @property
    def state(self) -> State:
        return bytes(self.run).hex() if self.run else ""

    @state.setter
    def state(self, state: State) -> None:
        self.run = bytearray(bytes.fromhex(state))

    def feed(self, item: Item) -> list[Item]:
        item = _byte_token(item)
        if item.kind != RAW:
            return self.flush() + [item]
        self.run += item.data
        return []

    def flush(self) -> list[Item]:
        run, self.run = bytes(self.run), bytearray()
        if not run:
            return []
        if self.byte_fallback == "utf8":
            return [Item(PIECE, decode_end(run, self.errors), b"")]
        try:
            return [Item(PIECE, decode_end(run, "strict"), b"")]
        except UnicodeError:
            return [Item(PIECE, bad_byte(byte, self.errors), b"") for byte in run]


def _metaspace(rule: Rule) -> FirstAndLater:
    return FirstAndLater(
        lambda piece: piece.replace(rule.find, rule.put),
        lambda piece: piece.replace(rule.find, " "),
    )


def item_stage(rule: Rule, byte_fallback: str, errors: str) -> ItemStage:
    """Return the stage of a rule that depends on more than one item."""
    find, put, pairs = rule.find, rule.put, WORDPIECE_CLEAN_UP if rule.clean_up else ()
    if rule.kind == "Spaces":
        return FirstAndLater(lambda piece: piece, lambda piece: " " + piece)
    if rule.kind == "Metaspace":
        return _metaspace(rule)
    if rule.kind == "SentencePiece":
        return SentencePieces(put)
    if rule.kind == "ByteFallback":
        return ByteRuns(byte_fallback, errors)
    if rule.kind == "CTC":
        if not rule.clean_up:
            return Ctc(lambda piece: piece.replace(find, ""))
        if put:
            return Ctc(lambda piece: clean_up(piece.replace(find, ""), pairs).replace(put, " "))
        return Ctc(lambda piece: replace_all(clean_up(piece.replace(find, ""), pairs), "", " "))

    def later(piece: str) -> str:
        return clean_up(piece[len(find) :] if piece.startswith(find) else " " + piece, pairs)

    return FirstAndLater(lambda piece: clean_up(piece, pairs), later)


def token_stages(
    rules: Sequence[Rule], byte_fallback: str, errors: str
) -> tuple[list[ItemMap], list[ItemStage]]:
    """Return the rules that see tokens: functions of one item, and the stages behind them."""
    maps: list[ItemMap] = []
    stages: list[ItemStage] = []
    for at, rule in enumerate(rules):
        if rule.kind == "BPEDecoder":
            stages.append(Suffixes(rule.find, [_metaspace(one) for one in rules[at + 1 :]]))
            break
        function = item_map(rule, at == len(rules) - 1)
        if function is None:
            stages.append(item_stage(rule, byte_fallback, errors))
        elif stages:
            stages.append(EachItem(function))
        else:
            maps.append(function)
    return maps, stages
