"""Token ids to text by somebody else's tokenizer: anything with `decode(ids) -> str`.

In: ids. Out: text, such that all of it, joined, is `tokenizer.decode(prompt + outputs)` without
`tokenizer.decode(prompt)`, or, where that is not its beginning, without what both begin with. Held: what the tokenizer's own rules hold; or, for an object that can only be
asked, the U+FFFD at the end that may be an unfinished character.

Where the object shows its vocabulary (Hugging Face tokenizers and transformers' fast tokenizers,
tiktoken, detok's own), the exact chain of decode/chain.py decodes, after it has been checked against
the object on real ids. Any other object is asked to decode a short window of ids at each push. That
window is bounded on any input, keeps a token with text as context (so that no space is lost behind
a newline), compares texts instead of slicing by length, and is flushed at the end.
"""

import json
from collections import OrderedDict
from typing import Any, Callable, Iterable

from ..decode.detokenizer import Detokenizer
from ..decode.rules import BYTES
from ..decode.stage import common
from ..decode.utf8 import ended
from ..decode.vocabulary import Vocabulary
from ..errors import DetokError
from .tokenizer import Decodes

REPLACEMENT = "\ufffd"
MAX_WINDOW = 16  # ids behind the context that are decoded again, at most
MAX_CONTEXT = 64  # ids kept as context while none of them has any text
MAX_KNOWN = 8  # objects whose vocabulary is remembered


class IncrementalDetokenizer:
    """Push ids, get text, by any object with `decode(ids) -> str`.

    `skip_special_tokens` is handed to the object's `decode`; None leaves it at the object's own
    default. `exact` says whether the exact chain is at work (the law then holds) or the window. With
    the chain, `byte_fallback` is that of `Detokenizer`: "hf" is equal to the object's `decode` and
    holds a run of byte tokens until it ends; "utf8" shows each character of a run at once, and
    differs where a run is not UTF-8. The window's text is right where the decoding of a text's end
    doesn't depend on more than a few tokens before it. An object that rewrites text behind that, or
    turns good characters of a byte run bad, can't be followed by any output that is never taken back.

    >>> class Letters:
    ...     def decode(self, ids):
    ...         return bytes(ids).decode("utf-8", "replace")
    >>> t = IncrementalDetokenizer(Letters(), [0xF0, 0x9F])
    >>> t.push(0x8C), t.push(0xB6), t.push(0x21), t.flush()
    ('', '🌶', '!', '')
    """

    def __init__(
        self,
        tokenizer: Decodes,
        prompt_ids: Iterable[int] = (),
        *,
        skip_special_tokens: bool | None = None,
        byte_fallback: str = "hf",
    ) -> None:
        if byte_fallback not in ("hf", "utf8"):
            raise ValueError(f'byte_fallback is "hf" or "utf8", not {byte_fallback!r}')
        prompt = list(prompt_ids)
        chain = _read(tokenizer, skip_special_tokens)
        self._stream: Detokenizer | _Window
        if chain is not None:
            vocabulary, settings = chain
            settings = {**settings, "byte_fallback": byte_fallback}
            self._stream = Detokenizer(vocabulary, prompt, **settings)
        else:
            self._stream = _Window(
                _asker(tokenizer, skip_special_tokens), prompt, _held_limit(tokenizer)
            )
        self.exact = chain is not None and self._stream.exact

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "late"
        return f"<IncrementalDetokenizer {kind}, held {self.held!r}>"

    @property
    def held_bytes(self) -> bytes:
        """The bytes that are not text yet: of an unfinished character or byte run."""
        return self._stream.held_bytes

    @property
    def held_text(self) -> str:
        """The text that is not shown yet, because it may still change; for the window, its U+FFFD."""
        return self._stream.held_text

    @property
    def held(self) -> bytes:
        """All that waits: `held_text` as UTF-8, then `held_bytes`."""
        return self.held_text.encode() + self.held_bytes

    def push(self, token_id: int) -> str:
        """Take one id; return the text that it adds."""
        return self._stream.push(token_id)

    def feed(self, ids: Iterable[int]) -> str:
        """Take many ids; return the text that they add."""
        return "".join([self._stream.push(i) for i in ids])

    def flush(self) -> str:
        """End the text; return what was held."""
        return self._stream.flush()

    def reset(self, prompt_ids: Iterable[int] = ()) -> None:
        """Forget everything and begin a new text, after `prompt_ids`."""
        self._stream.reset(list(prompt_ids))

    def mark(self) -> tuple[object, ...]:
        """Return a mark of this moment for `rollback`: before tokens that a draft model guessed,
        say.
        """
        return self._stream.mark()

    def rollback(self, mark: tuple[object, ...]) -> int:
        """Go back to `mark`; return how many characters shown since then are to be taken back."""
        made: Any = mark
        return self._stream.rollback(made)

    def save(self) -> tuple[object, ...]:
        """Return the whole state as plain values."""
        return self._stream.save()

    def load(self, state: tuple[object, ...]) -> None:
        """Take a state that `save` of an IncrementalDetokenizer made alike returned, or what JSON
        made of it.
        """
        saved: Any = state
        self._stream.load(saved)

    def copy(self) -> "IncrementalDetokenizer":
        """Return an independent stream in the same state, over the same tokenizer."""
        other = object.__new__(IncrementalDetokenizer)
        other._stream = self._stream.copy()
        other.exact = self.exact
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> "IncrementalDetokenizer":
        return self.copy()


# --------------------------------------------------------------------------------------------------
# Objects that show their vocabulary

# (id of the object, settings) → (the object, so that its id stays its own; a fingerprint of what
# may change; the vocabulary or None)
_known: "OrderedDict[Any, tuple[Any, Any, tuple[Vocabulary, dict[str, Any]] | None]]" = (
    OrderedDict()
)


def _read(tokenizer: Any, skip: bool | None) -> tuple[Vocabulary, dict[str, Any]] | None:
    """Return the vocabulary of the exact chain for this object, and the options of its Detokenizer;
    None if its vocabulary can't be read or its decoding doesn't agree.
    """
    for read in (_read_detok, _read_tiktoken, _read_hugging_face):
        found = read(tokenizer, skip)
        if found is None:
            continue
        fingerprint, make = found
        key = (id(tokenizer), skip)
        known = _known.get(key)
        if known is None or known[1] != fingerprint:
            made = next((one for one in make() if _agrees(tokenizer, skip, *one)), None)
            known = _known[key] = (tokenizer, fingerprint, made)
            while len(_known) > MAX_KNOWN:
                _known.popitem(last=False)
        _known.move_to_end(key)
        return known[2]
    return None


def _read_detok(tokenizer: Any, skip: bool | None) -> Any:
    vocabulary = getattr(tokenizer, "vocabulary", None)
    if not isinstance(vocabulary, Vocabulary):
        return None
    return (len(vocabulary),), lambda: [
        (vocabulary, {"skip_special_tokens": skip is not False, "byte_fallback": "hf"})
    ]


def _read_tiktoken(tokenizer: Any, skip: bool | None) -> Any:
    single = getattr(tokenizer, "decode_single_token_bytes", None)
    size = getattr(tokenizer, "n_vocab", None)
    if single is None or not isinstance(size, int):
        return None

    def stored(token_id: int) -> bytes | None:
        try:
            return bytes(single(token_id))
        except KeyError:
            return None

    return (size,), lambda: [(Vocabulary(size, stored, BYTES), {"skip_special_tokens": False})]


def _read_hugging_face(tokenizer: Any, skip: bool | None) -> Any:
    rust = getattr(tokenizer, "backend_tokenizer", tokenizer)
    piece_of = getattr(rust, "id_to_token", None)
    added_of = getattr(rust, "get_added_tokens_decoder", None)
    if piece_of is None or added_of is None or not hasattr(rust, "decoder"):
        return None
    added = added_of()
    special = [i for i, token in added.items() if token.special]
    size = max([rust.get_vocab_size(True) - 1, *added]) + 1

    def make() -> list[Any]:
        decoder = None
        if rust.decoder is not None:
            try:
                decoder = json.loads(rust.decoder.__getstate__())
            except Exception:  # a decoder written in Python has no JSON: ask the object instead
                return []
        outer = tokenizer is not rust
        # `tokenizers` skips special tokens unless told otherwise, transformers shows them unless
        # told otherwise.
        skips = (not outer) if skip is None else skip
        settings = {"skip_special_tokens": skips, "byte_fallback": "hf", "unknown": "skip"}
        pieces: Any = _Pieces(piece_of, size)
        # transformers 5.7 and later clean up for some models only, whatever the setting says:
        # `_agrees` finds out which.
        wanted = outer and getattr(tokenizer, "clean_up_tokenization_spaces", False)
        try:
            tries = [True, False] if wanted else [False]
            return [
                (Vocabulary.from_pieces(pieces, decoder, special, clean_up=on), settings)
                for on in tries
            ]
        except DetokError:
            return []

    return (
        size,
        tuple(special),
        str(rust.decoder)[:500],
        getattr(tokenizer, "clean_up_tokenization_spaces", None),
    ), make


class _Pieces:
    """The pieces of a tokenizer, asked for one by one."""

    def __init__(self, piece_of: Callable[[int], str | None], size: int) -> None:
        self.piece_of = piece_of
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, token_id: int) -> str | None:
        return self.piece_of(token_id)


PROBE = "Hello, world! It isn't 'so' ; café 世界 🌶️ n't 's . ? <0x0A>\n  x\n y"


def _agrees(
    tokenizer: Any, skip: bool | None, vocabulary: Vocabulary, settings: dict[str, Any]
) -> bool:
    """Return whether the chain decodes as the object does, on ids of every kind: of a text, from
    all over the vocabulary, special ones.
    """
    ask = _asker(tokenizer, skip)
    size = len(vocabulary)
    samples = [
        list(range(min(size, 300))),
        list(range(0, size, max(1, size // 200))),
        list(range(max(0, size - 100), size)),
    ]
    encode = getattr(tokenizer, "encode", None)
    if encode is not None:
        try:
            ids = encode(PROBE)
            samples.append(list(getattr(ids, "ids", ids)))
        except Exception:  # an encoder with other arguments: the other samples have to do
            pass
    try:
        for sample in samples:
            ids = [i for i in sample if _has(vocabulary, i)]
            t = Detokenizer(vocabulary, **settings)
            if t.feed(ids) + t.flush() != ask(ids):
                return False
    except Exception:  # whatever the object raises, it is not what the chain expects
        return False
    return True


def _has(vocabulary: Vocabulary, token_id: int) -> bool:
    try:
        vocabulary.stored_bytes(token_id)
    except DetokError:
        return False
    return True


# --------------------------------------------------------------------------------------------------
# Objects that can only be asked


def _asker(tokenizer: Any, skip: bool | None) -> Callable[[list[int]], str]:
    if skip is None:
        return lambda ids: str(tokenizer.decode(ids))
    return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=skip))


def _held_limit(tokenizer: Any) -> int:
    """Return how many U+FFFD an unfinished character can leave at the end: 1 in byte-level
    decoding, 3 where each byte leaves one.

    It is measured, not guessed: an emoji is encoded, and decoded without its last token. Where that
    can't be done it is 3.
    """
    try:
        ids = tokenizer.encode("🌶")
        ids = list(getattr(ids, "ids", ids))
        unfinished = tokenizer.decode(ids[:-1])
        return (
            1
            if len(ids) > 3
            and unfinished.endswith(REPLACEMENT)
            and REPLACEMENT * 2 not in unfinished
            else 3
        )
    except Exception:  # no encode, or one that takes something else
        return 3


class _Window:
    """Ids → text by asking an object to decode the last few ids, again at each push."""

    exact = False
    held_bytes = b""  # the object shows text only

    def __init__(self, ask: Callable[[list[int]], str], prompt: list[int], limit: int) -> None:
        self.ask = ask
        self.limit = limit
        self.reset(prompt)

    def reset(self, prompt: list[int]) -> None:
        self.ids = self._begin(prompt)
        self.text = self.ask(self.ids) if self.ids else ""
        self.waiting = self._trailing(self.text)
        # The text of the window that is out already, or is the prompt's: what the prompt ends in is
        # too, though it may be an unfinished character.
        self.shown = self.text
        self.count = 0  # characters that are out, since the prompt
        self.doubts = 0  # pushes since characters that are shown were U+FFFD again
        self.ended = False

    def save(self) -> tuple[Any, ...]:
        numbers = (self.waiting, self.count, self.doubts)
        return tuple(self.ids), self.text, self.shown, numbers, self.ended

    def load(self, state: Any) -> None:
        ids, self.text, self.shown, numbers, self.ended = state
        self.ids = list(ids)
        self.waiting, self.count, self.doubts = numbers

    mark = save

    def rollback(self, mark: Any) -> int:
        back: int = self.count - mark[3][1]
        if back < 0:
            raise ValueError(
                "this mark lies ahead of the text: it was made after what has been rolled back"
            )
        self.load(mark)
        return back

    def copy(self) -> "_Window":
        other = _Window(self.ask, [], self.limit)
        other.load(self.save())
        return other

    @property
    def held_text(self) -> str:
        return REPLACEMENT * self.waiting

    def _begin(self, ids: list[int]) -> list[int]:
        """Return the end of a prompt that the window begins with: a context, and what is before it
        up to a token that has text by itself, so that no byte run is cut.
        """
        n = len(self._context(ids))
        for more in range(n, min(len(ids), MAX_CONTEXT) + 1):
            text = self.ask([ids[-more]]) if more else ""
            if text and REPLACEMENT not in text:
                return ids[-more:]
        return ids[-n:] if n else []

    def _context(self, ids: list[int]) -> list[int]:
        """Return the shortest end of `ids` that has text whose end is settled: two tokens or more,
        at most MAX_CONTEXT.
        """
        n = 2
        while n < min(len(ids), MAX_CONTEXT):
            text = self.ask(ids[-n:])
            if text.strip(REPLACEMENT + " "):
                break
            n += 1
        return ids[-n:]

    def _trailing(self, text: str) -> int:
        n = 0
        while n < min(self.limit, len(text)) and text[len(text) - n - 1] == REPLACEMENT:
            n += 1
        return n

    def push(self, token_id: int) -> str:
        if self.ended:
            ended("pushing to it")
        text = self.ask(self.ids + [token_id])
        self.ids.append(token_id)
        self.text = text
        self.waiting = self._trailing(text)
        text = text[: len(text) - self.waiting]
        if self.waiting and self.doubts < 3 and not text.startswith(self.shown):
            # Characters that were good are U+FFFD: a byte run that is bad for now, because its last
            # character is unfinished. That takes at most three pushes.
            self.doubts += 1
            return ""
        self.doubts = 0
        out = self._advance(text)
        if not self.waiting or len(self.ids) > MAX_WINDOW:
            self._forget()
        return out

    def _advance(self, text: str) -> str:
        """Return what `text` has beyond what is shown.

        Where the object changed its mind, what is shown stays and the rest follows.
        """
        same = common(self.shown, text)
        out = text[same:]
        # The prompt's part of the window was not shown, so nothing of it is taken back.
        gone = self.shown[max(same, len(self.shown) - self.count) :]
        if same < len(self.shown) and not out:
            return ""  # shorter than what is shown: nothing new is certain
        if out.startswith(REPLACEMENT) and gone:
            # A byte run turned bad: one U+FFFD a byte, those of the characters that were shown
            # included.
            n = min(len(gone.encode("utf-8", "replace")), len(out) - len(out.lstrip(REPLACEMENT)))
            out = out[n:]
        elif gone:
            n = min(len(gone), len(out))
            while n and not gone.endswith(out[:n]):
                n -= 1
            out = out[n:]
        self.shown = text
        self.count += len(out)
        return out

    def _forget(self) -> None:
        """Shorten the window to a context, in a way that leaves the end of its text as it is."""
        if len(self.ids) <= 2:
            return
        keep = self._context(self.ids) if not self.waiting else self.ids[-(MAX_WINDOW // 2) :]
        if len(keep) == len(self.ids):
            return
        text = self.ask(keep)
        tail = self.text[len(self.text) - self.waiting :]
        if text.endswith(tail) and (self.waiting or text[-1:] == self.text[-1:]):
            self.ids = keep
            self.text = text
            self.shown = text[: len(text) - len(tail)]

    def flush(self) -> str:
        if self.ended:
            return ""
        self.ended = True
        out = self._advance(self.text)
        self.waiting = 0
        return out
