"""Token ids to text, a token at a time.

In: ids. Out: after every push, the longest common prefix of the final text over everything that could still come. Held: what the decoder
rules of the vocabulary hold (decoders.py), and nothing else.

Most tokens are met in the state of a text that has begun with nothing held, and leave it as it was. For these a push is one look into a
table, which fills itself; for the others it is a step from a small state to another, remembered as well. The chain of rules runs
only for what is new.
"""

from typing import Any, Iterable, NamedTuple

from .decoders import Apart, Chain, tuples
from .errors import DetokError, VocabularyError
from .spans import Trace
from .utf8 import check_errors, decode_utf8, ended
from .vocabulary import Vocabulary

Mark = NamedTuple("Mark", [("state", Any), ("shown", int), ("ended", bool), ("trace", Any)])

SKIPPED = None
MAX_ROWS = 4096  # states whose steps are remembered
MAX_STEPS = 512  # steps remembered from each


class Tables:
    """What Detokenizers that are made alike share. All of it fills itself, and all of it can be forgotten.

    `entries`: id → what the chain takes. `texts`: id → its text, for tokens that leave a resting chain at rest (most tokens, most of the
    time). `rows`: state → id → (text, next state, next row, whether that rests).
    """

    __slots__ = ("entries", "rows", "texts")

    def __init__(self, entries: dict[int, Any], texts: dict[int, str], rows: dict[Any, dict[int, Any]]) -> None:
        self.entries = entries
        self.texts = texts
        self.rows = rows


class Detokenizer:
    """Token ids to text: `push` one id, `feed` many, `flush` at the end.

    `vocabulary` brings the table and its decoder rules.
    `prompt_ids` go through the same rules first, their text discarded: a prompt that ends inside a character, or that decides a
    leading space, is right.
    `skip_special_tokens` makes special tokens nothing: halves of a character join across them.
    `byte_fallback` is "utf8" (a run of byte tokens is a UTF-8 stream) or "hf" (as Hugging Face decodes it: one bad byte turns the
    whole run into U+FFFD, so the run is held until it ends).
    `errors` is a policy of `StreamingDetokenizer`.
    `unknown` is "error" (VocabularyError before any state changes; the stream goes on after it) or "skip".
    `spans=True` records which characters each token took part in.
    `clean_up_tokenization_spaces` overrides what the vocabulary says.
    `spaces_between_special_tokens=True` is for special tokens that are shown: what stands between them is decoded by itself, and one space
    joins the parts, as slow tokenizers do and vLLM asks of them. A part counts though its text be empty.

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
        byte_fallback: str = "utf8",
        errors: str = "replace",
        unknown: str = "error",
        spans: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        spaces_between_special_tokens: bool = False,
    ) -> None:
        if unknown not in ("error", "skip"):
            raise ValueError('unknown is "error" or "skip", not ' + repr(unknown))
        clean_up = vocabulary.clean_up if clean_up_tokenization_spaces is None else bool(clean_up_tokenization_spaces)
        self.vocabulary = vocabulary
        self.skip_special_tokens = skip_special_tokens
        self.byte_fallback = byte_fallback
        self.errors = check_errors(errors)
        self.unknown = unknown
        self.clean_up = clean_up
        self.apart = bool(spaces_between_special_tokens)
        chain = Chain(vocabulary.rules, byte_fallback=byte_fallback, errors=errors, clean_up=clean_up and not self.apart)
        self._chain: Any = Apart(chain, clean_up) if self.apart else chain
        self._start = self._chain.save()
        # Tables are shared by all Detokenizers of the vocabulary that are made alike.
        key = (bool(skip_special_tokens), byte_fallback, errors, clean_up, self.apart)
        tables = vocabulary._memo.get(key)
        if tables is None:
            tables = vocabulary._memo[key] = Tables({}, {}, {})
        self._tables: Tables = tables
        self._entries: dict[int, Any] = tables.entries
        self._texts: dict[int, str] = tables.texts
        self._joins_bytes = self._chain.takes == "bytes" and self._chain.text is None
        self._trace: Trace | None = Trace(self._chain, byte_fallback, errors) if spans else None
        self._counts = spans  # whether anyone asks for the number of characters shown
        self.reset(prompt_ids)

    def reset(self, prompt_ids: Iterable[int] = ()) -> None:
        """Forget everything and begin a new text, after `prompt_ids`."""
        self._chain.load(self._start)
        self._fresh = True  # whether the state is in the chain (always while _row is None), or only in _state
        self._ended = False
        self._shown = 0
        if self._trace is not None:
            self._trace = Trace(self._chain, self.byte_fallback, self.errors)
        self._settle()
        ids = list(prompt_ids)
        if ids:
            self.feed(ids)
            self._shown = 0
            if self._trace is not None:
                self._trace.begin()

    def _settle(self) -> None:
        """Take the state from the chain: find the row of the table that belongs to it, if it is small enough to have one."""
        chain = self._chain
        self._fresh = True
        self._resting = False
        if self._counts or self._ended or not chain.is_small:
            self._state = self._row = None
            return
        state = self._state = chain.save()
        rows = self._tables.rows
        row = rows.get(state)
        if row is None:
            if len(rows) >= MAX_ROWS:
                rows.clear()
            row = rows[state] = {}
        self._row = row
        self._resting = state == chain.rest

    def _wake(self) -> Any:
        """Return the chain, in the state that the stream is in."""
        if not self._fresh:
            self._chain.load(self._state)
            self._fresh = True
        return self._chain

    @property
    def exact(self) -> bool:
        """Whether the law holds for the rules of this vocabulary; `late_because` says why not."""
        return bool(self._chain.exact)

    @property
    def late_because(self) -> str:
        """Why some text comes later than it could, "" if none does."""
        return str(self._chain.late_because)

    @property
    def held(self) -> bytes:
        """What waits, as bytes: an unfinished character or byte run; or text that a rule may still change, as UTF-8."""
        return bytes(self._wake().held)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """For each token since the prompt, the characters (first, one past last) of the text that it took part in.

        Characters of what is still held are not counted yet. Asked of a Detokenizer that was not made with `spans=True`, it raises
        ValueError.
        """
        if self._trace is None:
            raise ValueError("no spans were recorded: make the Detokenizer with spans=True")
        return self._trace.read()

    def _entry(self, token_id: int) -> Any:
        """Return the table entry of an id, SKIPPED for one that is nothing."""
        try:
            return self._entries[token_id]
        except KeyError:
            pass
        except TypeError:
            raise VocabularyError("a token id is an integer, not " + repr(token_id)[:40]) from None
        vocabulary = self.vocabulary
        try:
            stored = vocabulary.stored_bytes(token_id)
        except VocabularyError:
            if self.unknown == "skip":
                return SKIPPED
            raise
        if self.skip_special_tokens and token_id in vocabulary.special_ids:
            entry = b"" if self._joins_bytes else SKIPPED
        elif not 0 <= token_id < len(vocabulary):
            return SKIPPED  # silent ids are as many as there are integers: not for the table
        else:
            literal = token_id in vocabulary.literal_ids or (self.apart and token_id in vocabulary.special_ids)
            entry = self._chain.entry(stored, literal)
        self._entries[token_id] = entry
        return entry

    def push(self, token_id: int) -> str:
        """Take one id; return the text that it makes certain, "" where nothing is yet."""
        try:
            if self._resting:
                text = self._texts.get(token_id)
                if text is not None:
                    return text
            if self._row is not None:
                step = self._row.get(token_id)
                if step is not None:
                    self._state, self._row, self._resting = step[1], step[2], step[3]
                    self._fresh = False
                    return step[0]  # type: ignore[no-any-return]
        except TypeError:  # not even hashable: `_entry` says what a token id is
            pass
        return self._push(token_id)

    def _push(self, token_id: int) -> str:
        """Push through the chain, and note the step in the table for the next time."""
        entry = self._entry(token_id)
        if self._ended:
            ended("pushing to it")
        if entry is SKIPPED:
            if self._trace is not None:
                self._trace.push(entry, True)
            elif self._resting and token_id in self._entries:
                self._texts[token_id] = ""
            return ""
        chain = self._wake()
        if self.errors == "strict":
            before = chain.save()
            try:
                text: str = chain.push(entry)
            except UnicodeError:
                chain.load(before)
                raise
        else:
            text = chain.push(entry)
        if self._counts:
            self._shown += len(text)
        if self._trace is not None:
            self._trace.push(entry, False)
        row, was_resting = self._row, self._resting
        self._settle()
        if self._row is not None and row is not None:
            if was_resting and self._resting:
                self._texts[token_id] = text
            elif len(row) < MAX_STEPS:
                row[token_id] = (text, self._state, self._row, self._resting)
        return text

    def feed(self, ids: Iterable[int]) -> str:
        """Take many ids; return the text that they make certain. An id that is refused refuses them all: the state is as before."""
        if ids.__class__ is not list:
            ids = list(ids)
        if self._joins_bytes and not self._counts and not self._ended:
            table = self._entries
            try:
                data = b"".join(map(table.__getitem__, ids))
            except (KeyError, TypeError):  # an id that is new to the table, or one that is nothing
                data = b"".join([entry for entry in [self._entry(i) for i in ids] if entry is not SKIPPED])
            if self._resting:
                text, held = decode_utf8(data, self.errors)
                if not held:
                    return text
                self._wake().join.held = held
            else:
                join = self._wake().join
                text, join.held = decode_utf8(join.held + data, self.errors)
            self._settle()
            return text
        before = self._state, self._row, self._resting
        saved = None
        if self._row is None or self._counts:
            saved = self.save()
        out = []
        try:
            for i in ids:
                # `push`, written out: a call less for each token.
                if self._resting:
                    known = self._texts.get(i)
                    if known is not None:
                        out.append(known)
                        continue
                row = self._row
                if row is not None:
                    step = row.get(i)
                    if step is not None:
                        known, self._state, self._row, self._resting = step
                        self._fresh = False
                        out.append(known)
                        continue
                out.append(self._push(i))
        except (DetokError, UnicodeError, TypeError):
            if saved is not None:
                self.load(saved)
            else:
                self._state, self._row, self._resting = before
                self._fresh = False
            raise
        return "".join(out)

    def flush(self) -> str:
        """End the text; return what was held. Until `reset`, a further push raises StreamEndedError."""
        text: str = self._wake().flush()
        if self._trace is not None and not self._ended:
            self._trace.flush()
        if self._counts:
            self._shown += len(text)
        self._ended = True
        self._settle()
        return text

    def mark(self) -> Mark:
        """Return a mark of this moment for `rollback`: before tokens that a draft model guessed, say."""
        if not self._counts:
            self._wake()
            self._counts = True
            self._settle()
        trace = self._trace
        return Mark(self._chain.save(), self._shown, self._ended, trace.save() if trace else None)

    def rollback(self, mark: Mark) -> int:
        """Go back to `mark`; return how many characters shown since then are to be taken back."""
        if mark.shown > self._shown:
            raise ValueError("this mark lies ahead of the text: it was made after what has been rolled back")
        back = self._shown - mark.shown
        self._chain.load(mark.state)
        self._shown = mark.shown
        self._ended = mark.ended
        if self._trace is not None:
            self._trace.load(mark.trace)
        self._settle()
        return back

    def save(self) -> tuple[Any, ...]:
        """Return the whole state as plain values: it pickles, and goes through JSON."""
        trace = self._trace
        return self._wake().save(), self._shown, self._ended, self._counts, trace.save() if trace else None

    def load(self, state: Any) -> None:
        """Take a state that `save` of a Detokenizer made alike returned, or what JSON made of it."""
        self._chain.load(tuples(state[0]))
        self._shown, self._ended, self._counts = state[1], state[2], state[3]
        if self._trace is not None:
            self._trace.load(state[4])
        self._settle()

    def copy(self) -> "Detokenizer":
        """Return an independent Detokenizer in the same state: for n > 1, and for beams."""
        other = Detokenizer(
            self.vocabulary,
            skip_special_tokens=self.skip_special_tokens,
            byte_fallback=self.byte_fallback,
            errors=self.errors,
            unknown=self.unknown,
            spans=self._trace is not None,
            clean_up_tokenization_spaces=self.clean_up,
            spaces_between_special_tokens=self.apart,
        )
        other.load(self.save())
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> "Detokenizer":
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        spans = self._trace is not None
        settings = (self.skip_special_tokens, self.byte_fallback, self.errors, self.unknown, spans, self.clean_up, self.apart)
        return _restored, (self.vocabulary, settings, self.save())


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
