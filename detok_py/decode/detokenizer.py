"""Token ids to text, a token at a time.

In: ids. Out: after every push, the longest common prefix of the final text over everything that
could still come. Held: only what the decoder rules of the vocabulary hold (chain.py).

Most tokens don't change the state: the default one, of a text that has begun, with nothing held.
Then a push is one lookup in a table, which fills itself. Other tokens are steps from one small
state to another, which are cached too. The chain of rules runs only for new steps.

Every push takes time in proportion to the text of its token times the number of rules, and to the
text that it returns, whatever came before (rules.py has the limits). Making the first Detokenizer
with a clean-up of spaces, or with replacements after the join, takes up to a tenth of a second.
"""

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Iterable, NamedTuple

from ..errors import DetokError, VocabularyError
from .chain import Apart, Chain, flushed
from .rules import read_rules
from .settings import NO_TEXTS, Settings, Tables
from .spans import Trace
from .stage import RAW, Item, State, tuples
from .table import Row
from .utf8 import check_errors, decode_utf8, ended
from .vocabulary import Vocabulary, as_id, as_ids

Mark = NamedTuple("Mark", [("state", object), ("shown", int), ("ended", bool), ("trace", object)])

if TYPE_CHECKING:
    from typing import Literal

    from .stage import Future
    from .utf8 import Errors
    from .vocabulary import Ids

    ByteFallback = Literal["utf8", "hf"]
    Unknown = Literal["error", "skip"]

MOST_OF_PROMPT = 1024  # ids of the prompt that are kept, to find the section that it opens


class Detokenizer:
    """Token ids to text: `push` one id, `feed` many, `flush` at the end.

    `vocabulary` has the table and the decoder rules. `prompt_ids` go through the same rules first,
    so a prompt may end inside a character, or decide a leading space. The joined output is the text
    of the prompt and all further ids, without the text of the prompt alone. If the latter is not a
    prefix of the former (because the prompt ends inside a character, for example), their common
    prefix is left out. `skip_special_tokens` leaves special tokens out, and halves of a character
    join across them. `byte_fallback` is "utf8" (a run of byte tokens is a UTF-8 stream) or "hf" (as
    Hugging Face decodes it: one bad byte turns the whole run into U+FFFD, so the run is held until
    it ends). `errors` is a policy of `StreamingDetokenizer`. `unknown` is "error" (VocabularyError
    before any state changes; the stream goes on after it) or "skip". `spans=True` records which
    characters each token took part in. `clean_up_tokenization_spaces` overrides the vocabulary's
    setting; `clean_up` is the result. `spaces_between_special_tokens=True` (`apart`) is for special
    tokens that are shown: what stands between them is decoded by itself, and one space joins the
    parts, as slow tokenizers do and vLLM asks of them. A part without text counts too. `settings`
    are the options it was made with.

    >>> v = Vocabulary.from_bytes([b"caf", b"\\xc3", b"\\xa9", b"<eos>"], special_ids=[3])
    >>> t = Detokenizer(v)
    >>> [t.push(i) for i in (0, 1, 3, 2)], t.flush()
    (['caf', '', '', 'é'], '')
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        prompt_ids: Iterable[int] = (),
        *,
        skip_special_tokens: bool = True,
        byte_fallback: "ByteFallback" = "utf8",
        errors: "Errors" = "replace",
        unknown: "Unknown" = "error",
        spans: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        spaces_between_special_tokens: bool = False,
    ) -> None:
        if unknown not in ("error", "skip"):
            raise ValueError(f'unknown is "error" or "skip", not {unknown!r}')
        if not isinstance(vocabulary, Vocabulary):
            raise TypeError(
                f"Detokenizer takes a Vocabulary, not {vocabulary.__class__.__name__}; a Tokenizer has one, and makes streams: tokenizer.detokenizer()"
            )
        clean_up = clean_up_tokenization_spaces
        if clean_up is None:
            clean_up = vocabulary.clean_up
        self.vocabulary = vocabulary
        apart = bool(spaces_between_special_tokens)
        key = (
            bool(skip_special_tokens),
            byte_fallback,
            check_errors(errors),
            unknown,
            bool(spans),
            bool(clean_up),
            apart,
        )
        tables: Tables | None = vocabulary._memo.get(key)
        if tables is None:
            rules = read_rules(vocabulary.rules, bool(clean_up) and not apart)
        else:
            rules = tables.rules
        chain = Chain(rules, byte_fallback, errors)
        self._chain = Apart(chain, bool(clean_up)) if apart else chain
        if tables is None:
            settings = Settings(*key)
            tables = Tables(settings, rules, self._chain.state, self._chain.default_state())
            vocabulary._memo[settings] = tables
        self.settings: Settings = tables.settings
        self._tables = tables
        self._items = tables.items
        self._bytes_of = tables.bytes_of
        self._trace = Trace(self._chain) if spans else None
        self._row: Row | None = None
        self._counted: Row | None = None  # in the place of `_row` while characters are counted
        self._texts = NO_TEXTS  # those of `_row`
        self._counts = spans  # whether the number of characters shown is asked for
        self._prompt: list[int] = []
        self._begin()
        if prompt_ids.__class__ is not tuple or prompt_ids:
            self.reset(prompt_ids)

    @property
    def skip_special_tokens(self) -> bool:
        """Whether special tokens are left out."""
        return self.settings.skip_special_tokens

    @property
    def clean_up(self) -> bool:
        """Whether transformers' clean-up of spaces is done."""
        return self.settings.clean_up_tokenization_spaces

    @property
    def apart(self) -> bool:
        """Whether special tokens stand between spaces, as `spaces_between_special_tokens` says."""
        return self.settings.spaces_between_special_tokens

    def reset(self, prompt_ids: Iterable[int] = ()) -> None:
        """Forget everything and begin a new text after `prompt_ids`; refused ids change nothing."""
        ids = as_ids(prompt_ids, "prompt_ids")
        before = self.save()
        self._begin()
        if ids:
            try:
                self._omit_prompt(self.feed(ids))
            except (DetokError, UnicodeError):
                self.load(before)
                raise
        self._prompt = ids[-MOST_OF_PROMPT:]
        self._shown = 0

    def _begin(self) -> None:
        self._chain.state = self._tables.start
        self._ended, self._shown = False, 0
        if self._trace is not None:
            self._trace = Trace(self._chain)
        self._find_row()

    def _omit_prompt(self, certain: str) -> None:
        """Leave out the common prefix of the next text and the held end of the prompt's text, which
        follows its `certain` part.

        The end of a prompt may be held (a byte run, an unfinished character), but belongs to the
        prompt's own text.
        """
        chain = self._current_chain()
        state = chain.state
        try:
            text = chain.flush()
        except UnicodeError:  # under "strict" an unfinished character has no text
            text = chain.flush()
        chain.state = state
        if text:
            chain.omit(text)
            self._find_row()
        if self._trace is not None:
            self._trace.begin(certain + text)

    def _find_row(self) -> None:
        """Take the state from the chain, and find its row of the table if it is small enough to
        have one.
        """
        chain = self._chain
        # Whether the chain has the stream's state. While steps come from the table, the chain lags
        # behind, and the row has the state; without a row, the chain has it.
        self._in_chain = True
        if self._trace is not None or self._ended or not chain.is_small:
            self._row = self._counted = None
            self._texts = NO_TEXTS
            return
        row = self._tables.row(chain.state)
        if self._counts:
            self._row, self._counted, self._texts = None, row, NO_TEXTS
        else:
            self._row, self._counted, self._texts = row, None, row.texts

    def _current_chain(self) -> Chain | Apart:
        """Return the chain, in the state that the stream is in."""
        if not self._in_chain:
            row: Any = self._row or self._counted
            self._chain.state = row.key
            self._in_chain = True
        return self._chain

    def _futures(self, letters: str) -> "list[Future] | None":
        """Return the possible next texts, each with whether the stream may end after it; None if
        any text can follow. `letters` are the characters that make a difference to the caller.
        """
        return self._current_chain().futures(letters)

    def prompt_tail(self, count: int = MOST_OF_PROMPT) -> str:
        """Return the text of the last `count` ids of the prompt, at most 1024, with special tokens
        as they are spelled. A copy has no prompt.

        >>> Detokenizer(Vocabulary.from_bytes([b"Hi", b"<think>"]), [0, 1]).prompt_tail()
        'Hi<think>'
        """
        ids = [i for i in self._prompt[-count:] if i in self.vocabulary]
        data = b"".join([self.vocabulary.token_bytes(i) for i in ids])
        return decode_utf8(data, "replace")[0]

    @property
    def _key(self) -> State:
        """The state, None where it is too large to be one of a table."""
        return None if self._row is None else self._row.key

    @_key.setter
    def _key(self, key: State) -> None:
        self._chain.state = key
        self._find_row()

    @property
    def exact(self) -> bool:
        """Whether the law holds for the rules of this vocabulary; `late_because` says why not."""
        return not self._chain.late_because

    @property
    def late_because(self) -> str:
        """Why some text comes later than it could, "" if none does."""
        return self._chain.late_because

    @property
    def held_bytes(self) -> bytes:
        """The bytes that are not text yet: of an unfinished character or byte run."""
        return self._current_chain().held_bytes

    @property
    def held_text(self) -> str:
        """The text that is not shown yet, because a rule may still change it."""
        return self._current_chain().held_text

    @property
    def held(self) -> bytes:
        """All that waits: `held_text` as UTF-8, then `held_bytes`."""
        return self.held_text.encode() + self.held_bytes

    def __repr__(self) -> str:
        return f"<Detokenizer of {self.vocabulary!r}, held {self.held!r}>"

    @property
    def spans(self) -> list[tuple[int, int]]:
        """For each token since the prompt, the characters (first, one past last) of the text that
        it took part in.

        Characters of what is still held are not counted yet. Asked of a Detokenizer that was not
        made with `spans=True`, it raises ValueError.
        """
        if self._trace is None:
            raise ValueError("no spans were recorded: make the Detokenizer with spans=True")
        return self._trace.read()

    def _item(self, token_id: int) -> Item | None:
        """Return what the chain takes for an id, None for a token that is skipped."""
        vocabulary = self.vocabulary
        if token_id in self._items:
            return self._items[token_id]
        try:
            stored = vocabulary.stored_bytes(token_id)
        except VocabularyError:
            if self.settings.unknown == "skip":
                return None
            raise
        if not 0 <= token_id < len(vocabulary):
            return None  # silent ids are as many as there are integers: not for the table
        is_special = token_id in vocabulary.special_ids
        item = None
        if not (is_special and self.settings.skip_special_tokens):
            literal = token_id in vocabulary.literal_ids or (self.apart and is_special)
            item = self._chain.entry(stored, literal)
        self._items[token_id] = item
        return item

    def _bytes(self, token_id: int) -> bytes:
        """Return the bytes of an id, for a chain that only joins bytes."""
        item = self._item(token_id)
        data = item.data if item is not None else b""
        if token_id in self._items:
            self._bytes_of[token_id] = data
        return data

    def push(self, token_id: int) -> str:
        """Take one id; return the text that it makes certain, "" where nothing is yet."""
        if token_id.__class__ is not int:  # 1.0 would be found in the table
            return self.push(as_id(token_id))
        try:
            text = self._texts[token_id]
            if text is None:
                row: Any = self._row
                if row is None:
                    return self._push(token_id)
                text, row = row.steps[token_id]
                self._row, self._texts, self._in_chain = row, row.texts, False
            return text
        except KeyError:  # the first time
            pass
        return self._push(token_id)

    def _push(self, token_id: int) -> str:
        """Push through the chain, and note the step in the table for the next time; or count the
        characters of a step from the table.
        """
        row = self._row or self._counted
        counted: Any = self._counted
        if counted is not None:
            try:
                text = counted.texts[token_id]
                if text is None:
                    text, self._counted = counted.steps[token_id]
                    self._in_chain = False
                self._shown += len(text)
                return str(text)
            except KeyError:  # the first time
                pass
        item = self._items.get(token_id)
        if item is None:
            item = self._item(token_id)
        if self._ended:
            ended("pushing to it")
        if item is None:
            if self._trace is not None:
                self._trace.push(item)
            elif token_id in self._items:
                if row is not None:
                    self._tables.note_text(row, token_id, "", row)
            return ""
        chain = self._current_chain()
        if self.settings.errors == "strict":
            before = chain.state
            try:
                text = chain.push(item)
            except UnicodeError:
                chain.state = before
                raise
        else:
            text = chain.push(item)
        if self._counts:
            self._shown += len(text)
        if self._trace is not None:
            self._trace.push(item)
        elif row is None:
            if chain.is_small:
                self._find_row()
        elif chain.state == row.key:
            self._tables.note_text(row, token_id, text, row)
        else:
            self._find_row()
            after = self._row or self._counted
            if after is not None:
                self._tables.note_text(row, token_id, text, after)
        return text

    def feed(self, ids: "Ids") -> str:
        """Take many ids; return the text that they make certain. An id that is refused refuses them
        all: the state is as before.
        """
        ids = as_ids(ids)
        if self._chain.joins_bytes and not self._counts and not self._ended:
            try:
                # The quickest way through a table; of one id it doesn't return a tuple.
                many = itemgetter(*ids)(self._bytes_of) if len(ids) > 1 else None
                data = b"".join(many or [self._bytes_of[i] for i in ids])
            except KeyError:  # an id that is new to the table
                data = b"".join([self._bytes(i) for i in ids])
            if self._row is self._tables.default_row:
                text, held = decode_utf8(data, self.settings.errors)
                if not held:
                    return text
                self._current_chain().join.run = held
            else:
                text = self._current_chain().join.feed(Item(RAW, "", data))
            self._find_row()
            return text
        before = self._row
        # One id is refused by itself, and what a trace holds grows with the text.
        saved = self.save() if self._row is None and len(ids) > 1 else None
        out = []
        try:
            for i in ids:
                # A call of `push` less for most tokens.
                known = self._texts.get(i)
                out.append(self.push(i) if known is None else known)
        except (DetokError, UnicodeError):
            if saved is not None:
                self.load(saved)
            elif before is not None:
                self._row, self._texts = before, before.texts
                self._in_chain = False
            raise
        return "".join(out)

    def flush(self) -> str:
        """End the text; return what was held. Until `reset`, a further push raises
        StreamEndedError.
        """
        text = flushed(self._current_chain())
        if self._trace is not None and not self._ended:
            self._trace.flush()
        if self._counts:
            self._shown += len(text)
        self._ended = True
        self._find_row()
        return text

    def mark(self) -> Mark:
        """Return a mark of this moment for `rollback`: before tokens that a draft model guessed,
        say.
        """
        if not self._counts:
            self._current_chain()
            self._counts = True
            self._find_row()
        trace = self._trace
        return Mark(self._chain.state, self._shown, self._ended, trace.state if trace else None)

    def rollback(self, mark: Mark) -> int:
        """Go back to `mark`; return how many characters shown since then are to be taken back."""
        if mark.shown > self._shown:
            raise ValueError("This mark lies ahead of the stream.")
        back = self._shown - mark.shown
        self._chain.state = mark.state
        self._shown = mark.shown
        self._ended = mark.ended
        if self._trace is not None:
            self._trace.state = mark.trace
        self._find_row()
        return back

    def save(self) -> tuple[object, int, bool, bool, object]:
        """Return the whole state as plain values: it pickles, and goes through JSON."""
        trace = self._trace
        return (
            self._current_chain().state,
            self._shown,
            self._ended,
            self._counts,
            trace.state if trace else None,
        )

    def load(self, state: tuple[object, int, bool, bool, object]) -> None:
        """Take a state that `save` of one made alike returned, or what JSON made of it."""
        self._chain.state = tuples(state[0])
        self._shown, self._ended, self._counts = state[1], state[2], state[3]
        if self._trace is not None:
            self._trace.state = state[4]
        self._find_row()

    def copy(self) -> "Detokenizer":
        """Return an independent Detokenizer in the same state: for n > 1, and for beams."""
        return _restored(self.vocabulary, self.settings, self.save())

    def showing_special_tokens(self) -> "Detokenizer":
        """Return an independent Detokenizer in the same state that shows special tokens."""
        return _restored(self.vocabulary, (False,) + tuple(self.settings[1:]), self.save())

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> "Detokenizer":
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.vocabulary, tuple(self.settings), self.save())


def _restored(vocabulary: Vocabulary, settings: tuple[Any, ...], state: Any) -> Detokenizer:
    skip, byte_fallback, errors, unknown, spans, clean_up, apart = settings
    detokenizer = Detokenizer(
        vocabulary,
        skip_special_tokens=skip,
        byte_fallback=byte_fallback,
        errors=errors,
        unknown=unknown,
        spans=spans,
        clean_up_tokenization_spaces=clean_up,
        spaces_between_special_tokens=apart,
    )
    detokenizer.load(state)
    return detokenizer
