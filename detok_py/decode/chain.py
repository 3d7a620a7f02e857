"""The decoder rules of a tokenizer as one chain: tokens in, text out.

In: one item a token. Out: text that no continuation can change. Held: 3 bytes of UTF-8, a byte run
in "hf" mode, the few characters that a replacement or a strip may still want. The parts, in order:

    maps         look at one token alone: applied once, when the table entry of a token is made
    item stages  depend on what came before: the first token, the token before
    join         makes text of items, and brings the text stages: strip, replace, clean-up
"""

from codecs import utf_8_decode
from typing import TYPE_CHECKING

from ..errors import VocabularyError
from .item_stages import token_stages
from .joins import Join, SingleBytes, WholeRuns
from .rules import CLEAN_UP, Rules
from .stage import APART, LITERAL, PIECE, RAW, Item, State, futures_of
from .text_stages import text_row
from .utf8 import decode_end

if TYPE_CHECKING:
    from .item_stages import ItemMap
    from .rules import Rule
    from .stage import Future, ItemStage, JoinedText

# A private-use character that no rule names. After it, the chain is in the state of a text that has
# begun.
NEUTRAL = "\U000f0000"


class Chain:
    """Decoder rules, compiled. `entry` makes the item of a token; `push` and `flush` run the rules.

    `rules` come from `read_rules`. `byte_fallback` is "utf8" or "hf", `errors` a policy of utf8.py.
    `late_because` is "" if the law holds (after every push, the output is the longest common prefix
    over all continuations), else the reason why it does not.

    >>> from detok_py.decode.rules import read_rules
    >>> chain = Chain(
    ...     read_rules(
    ...         {
    ...             "type": "Sequence",
    ...             "decoders": [
    ...                 {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    ...                 {"type": "ByteFallback"},
    ...                 {"type": "Fuse"},
    ...                 {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ...             ],
    ...         }
    ...     )
    ... )
    >>> (
    ...     [
    ...         chain.push(chain.entry(piece.encode()))
    ...         for piece in ("▁Hello", "<0xE4>", "<0xBD>", "<0xA0>", "▁world")
    ...     ],
    ...     chain.exact,
    ... )
    (['Hello', '', '', '你', ' world'], True)
    """

    def __init__(self, rules: Rules, byte_fallback: str = "utf8", errors: str = "replace") -> None:
        if byte_fallback not in ("utf8", "hf"):
            raise ValueError(f'byte_fallback is "utf8" or "hf", not {byte_fallback!r}')
        self.rules = rules
        self.byte_fallback = byte_fallback
        self.errors = errors
        kinds = [rule.kind for rule in rules.tokens]
        self.takes_bytes: bool = kinds == ["Bytes"]
        self.joins_bytes: bool = self.takes_bytes and not rules.text
        self.late_because: str
        make_text, self.late_because = text_row(rules.text, errors)
        if "ByteFallback" in kinds[:-1]:
            self.late_because = (
                "ByteFallback comes before " + kinds[kinds.index("ByteFallback") + 1]
            )
        self.maps: list[ItemMap]
        self.items: list[ItemStage]
        self.maps, self.items = token_stages(rules.tokens, byte_fallback, errors)
        # "hf" means: as the library of the rules does. Under "strict" a bad byte raises in all
        # modes.
        ways: dict[str, type[Join | WholeRuns]] = {
            "ByteFallback": WholeRuns,
            "SentencePiece": SingleBytes,
        }
        last = kinds[-1] if kinds and byte_fallback == "hf" and errors != "strict" else ""
        self.join_class: type[Join | WholeRuns] = ways.get(last, Join)
        self.join: Join | WholeRuns = self.join_class(errors, make_text)

    def default_state(self) -> State:
        """Return the state of a text that has begun, with nothing held."""
        start = self.state
        self.push(self.entry(NEUTRAL.encode()))
        default = self.state
        self.state = start
        return default

    @property
    def exact(self) -> bool:
        return not self.late_because

    def entry(self, stored: bytes, literal: bool = False) -> Item:
        """Return the item of a token from what the vocabulary stores for it."""
        if self.takes_bytes:
            return Item(RAW, "", stored)
        try:
            text = utf_8_decode(stored, "strict", True)[0]
        except UnicodeError:
            raise VocabularyError(
                f"damaged vocabulary: the piece {stored[:40]!r} is not UTF-8; pack it again"
            ) from None
        item = Item(LITERAL if literal else PIECE, text, b"")
        for function in self.maps:
            item = function(item)
        return item

    def push(self, item: Item) -> str:
        """Take one item; return the text that it makes certain."""
        return self._from(0, [item]) if self.items else self.join.feed(item)

    def _from(self, stage: int, items: list[Item]) -> str:
        """Send items through the rules from the item stage numbered `stage` on."""
        for each in self.items[stage:]:
            items = [out for item in items for out in each.feed(item)]
        return "".join([self.join.feed(item) for item in items])

    def flush(self) -> str:
        """End the stream; return what was held."""
        text = ""
        for at, stage in enumerate(self.items):
            text += self._from(at + 1, stage.flush())
        return text + self.join.flush()

    def omit(self, text: str) -> None:
        """Leave out what comes next, as far as it is the beginning of `text`."""
        self.join.omit(text)

    def futures(self, letters: str) -> "list[Future] | None":
        """Return what can come out next, None if anything can. `letters` are the characters that
        make a difference to the caller.
        """
        # Late rules may hold the whole text; running them on it costs its length.
        if self.late_because or any(stage.held_bytes for stage in self.items):
            return None
        if not any(stage.held_text for stage in self.items):
            return self.join.futures(letters)
        # Held text depends only on whether another token comes, not on which.
        start = self.state
        end = self.flush()
        self.state = start
        more = self.push(self.entry(NEUTRAL.encode())).partition(NEUTRAL)[0]
        self.state = start
        return [(end, True), (more, False)] if end and more else None

    @property
    def held_text(self) -> str:
        """The text that a rule may still change."""
        return self.join.held_text + "".join([each.held_text for each in reversed(self.items)])

    @property
    def held_bytes(self) -> bytes:
        """The bytes of an unfinished character or run."""
        return bytes(self.join.run) + b"".join([each.held_bytes for each in self.items])

    @property
    def is_small(self) -> bool:
        """Whether the state is a few characters: no long byte run, no text held to its end."""
        return not self.late_because and len(self.join.run) < 4

    @property
    def state(self) -> State:
        """The state, which `state = …` takes back; `tuples` restores it from JSON."""
        items = tuple([stage.state for stage in self.items]) if self.items else ()
        return items, self.join.state

    @state.setter
    def state(self, state: State) -> None:
        for stage, part in zip(self.items, state[0]):
            stage.state = part
        self.join.state = state[1]


class Apart:
    """A chain whose runs of ordinary tokens are decoded each by itself. Special tokens stand
    between them as they are, and single spaces join it all.

    That is `spaces_between_special_tokens` of slow tokenizers, as vLLM streams it. A run counts
    even if its text is empty, so a space is certain as soon as both its sides are known.
    transformers' clean-up of spaces comes last, over the joined text. Used as `Chain` is.

    >>> from detok_py.decode.rules import read_rules
    >>> apart = Apart(Chain(read_rules({"type": "Metaspace"})))
    >>> entries = [
    ...     apart.entry(b"<s>", True),
    ...     apart.entry("▁Hello".encode()),
    ...     apart.entry(b"</s>", True),
    ... ]
    >>> [apart.push(entry) for entry in entries]
    ['<s>', ' Hello', ' </s>']
    """

    joins_bytes = False

    def __init__(self, chain: Chain, clean_up: bool = False) -> None:
        self.chain = chain
        self.rules: list[Rule] = [CLEAN_UP] if clean_up else []
        make_text, _ = text_row(self.rules, chain.errors)
        self.text: JoinedText = make_text()
        self.late_because: str = chain.late_because
        if clean_up and (chain.rules.text or chain.join_class is WholeRuns):
            self.late_because = (
                chain.late_because
                or "the clean-up of spaces comes after rules that hold text back themselves"
            )
        self.begin: State = chain.state
        self.place: int = 0  # 1 in a run of ordinary tokens, 2 behind a special token

    def default_state(self) -> State:
        """Return the state of a run of ordinary tokens that has begun, with nothing held."""
        return 1, self.chain.default_state(), self.text.state

    @property
    def join(self) -> Join | WholeRuns:
        return self.chain.join

    def entry(self, stored: bytes, apart: bool = False) -> Item:
        """Return the item of a token; `apart` says that it stands by itself."""
        item = self.chain.entry(stored, apart)
        if not apart:
            return item
        return Item(APART, item.text + decode_end(item.data, "replace"), b"")

    def push(self, item: Item) -> str:
        """Take one item; return the text that it makes certain."""
        if item.kind == APART:
            text = self.end_run() + (" " if self.place else "") + item.text
            self.place = 2
        else:
            text = " " if self.place == 2 else ""
            self.place = 1
            text += self.chain.push(item)
        text = self.text.feed(text)
        if self.text.held and self.place == 1:
            futures = self.chain.futures(self.text.letters)
            if futures and not any(ends for _, ends in futures):
                text += self.text.expect([future for future, _ in futures])
        return text

    def futures(self, letters: str) -> "list[Future] | None":
        """Return what can come out next, None if anything can."""
        if not self.text.held and not self.held_bytes:
            return None
        letters += self.text.letters
        futures = self.chain.futures(letters) if self.place == 1 else None
        texts = [text for text, _ in futures] if futures else None
        return futures_of(self.text, texts, letters)

    def omit(self, text: str) -> None:
        """Leave out what comes next, as far as it is the beginning of `text`."""
        (self.text if self.rules else self.chain).omit(text)

    def end_run(self) -> str:
        """Begin the chain anew; return what it held."""
        text = self.chain.flush() if self.place == 1 else ""
        if self.chain.join.rest:
            self.text.omit(self.chain.join.rest)
        self.chain.state = self.begin
        return text

    def flush(self) -> str:
        """End the stream; return what was held."""
        text = self.end_run()
        return self.text.feed(text) + self.text.flush()

    @property
    def held_text(self) -> str:
        """The text that a rule may still change."""
        return self.text.held + self.chain.held_text

    @property
    def held_bytes(self) -> bytes:
        """The bytes of an unfinished character or run."""
        return self.chain.held_bytes

    @property
    def is_small(self) -> bool:
        return self.chain.is_small

    @property
    def state(self) -> State:
        """The state, which `state = …` takes back."""
        return self.place, self.chain.state, self.text.state

    @state.setter
    def state(self, state: State) -> None:
        self.place, self.chain.state, self.text.state = state


def flushed(chain: "Chain | Apart") -> str:
    """End the stream of a chain; return what was held. An error leaves the chain as it was."""
    before = chain.state
    try:
        return chain.flush()
    except UnicodeError:
        chain.state = before
        raise
