"""Token ids to text by somebody else's tokenizer: anything with `decode(ids) -> str`.

In: ids. Out: text, such that all of it, joined, is `tokenizer.decode(prompt + outputs)` without
`tokenizer.decode(prompt)`, or, where that is not its beginning, without what both begin with. Held:
what the tokenizer's own rules hold; or, for an object that can only be asked, the U+FFFD at the end
that may be an unfinished character.

Where the object shows its vocabulary (Hugging Face tokenizers and transformers' fast tokenizers,
tiktoken, detok's own), the exact chain of decode/chain.py decodes, after it has been checked
against the object on real ids. Any other object is asked to decode a short window of ids at each
push. That window is bounded on any input, keeps a token with text as context (so that no space is
lost behind a newline), compares texts instead of slicing by length, and is flushed at the end.
"""

from typing import TYPE_CHECKING, Any, Callable, Iterable

from ..decode.detokenizer import Detokenizer
from ..decode.stage import common
from ..decode.utf8 import ended
from ..decode.vocabulary import as_id, as_ids
from .readable import asker, has, read
from .tokenizer import Decodes

if TYPE_CHECKING:
    from ..decode.detokenizer import ByteFallback
    from ..decode.vocabulary import Ids

REPLACEMENT = "\ufffd"
MAX_WINDOW = 16  # ids behind the context that are decoded again, at most
MAX_CONTEXT = 64  # ids kept as context while none of them has any text


class IncrementalDetokenizer:
    """Push ids, get text, by any object with `decode(ids) -> str`.

    `skip_special_tokens` and `clean_up_tokenization_spaces` are handed to the object's `decode`;
    None leaves them at the object's own defaults. Tokens that the object gets later are seen.
    `exact` says whether the exact chain is at work (the law then holds) or the window. With the
    chain, `byte_fallback` is that of `Detokenizer`: "hf" is equal to the object's `decode` and
    holds a run of byte tokens until it ends; "utf8" shows each character of a run at once, and
    differs where a run is not UTF-8. The window's text is right where the decoding of a text's end
    doesn't depend on more than a few tokens before it. An object that rewrites text behind that, or
    turns good characters of a byte run bad, can't be followed by any output that is never taken
    back.

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
        clean_up_tokenization_spaces: bool | None = None,
        byte_fallback: "ByteFallback" = "hf",
    ) -> None:
        if byte_fallback not in ("hf", "utf8"):
            raise ValueError(f'byte_fallback is "hf" or "utf8", not {byte_fallback!r}')
        self._tokenizer = tokenizer
        self._options = {
            name: value
            for name, value in (
                ("skip_special_tokens", skip_special_tokens),
                ("clean_up_tokenization_spaces", clean_up_tokenization_spaces),
            )
            if value is not None
        }
        self._byte_fallback = byte_fallback
        self._readable = read(tokenizer, self._options)
        self._stream = self._begin()
        self._stream.reset(as_ids(prompt_ids, "prompt_ids"))

    def _begin(self) -> "Detokenizer | _Window":
        """Return a new stream of the object as it was read."""
        if self._readable is not None:
            return self._readable.stream(self._byte_fallback)
        return _Window(asker(self._tokenizer, self._options), _held_limit(self._tokenizer))

    def reset(self, prompt_ids: Iterable[int] = ()) -> None:
        """Forget everything and begin a new text, after `prompt_ids`."""
        prompt = as_ids(prompt_ids, "prompt_ids")
        readable = read(self._tokenizer, self._options)
        if readable is not self._readable:
            self._readable = readable
            self._stream = self._begin()
        self._stream.reset(prompt)

    @property
    def exact(self) -> bool:
        """Whether the exact chain is at work, and exact for the rules of this vocabulary."""
        return self._stream.exact

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "late"
        return f"<IncrementalDetokenizer {kind}, held {self.held!r}>"

    @property
    def held_bytes(self) -> bytes:
        """The bytes that are not text yet: of an unfinished character or byte run."""
        return self._stream.held_bytes

    @property
    def held_text(self) -> str:
        """The text that is not shown yet, because it may still change; for the window,
        its U+FFFD.
        """
        return self._stream.held_text

    @property
    def held(self) -> bytes:
        """All that waits: `held_text` as UTF-8, then `held_bytes`."""
        return self.held_text.encode() + self.held_bytes

    def push(self, token_id: int) -> str:
        """Take one id; return the text that it adds."""
        text = self._stream.push(token_id)
        if not text and self._readable is not None and not has(self._readable.vocabulary, token_id):
            # An id that the object does not know, or knows by now.
            return self._push_added(token_id, self._readable.vocabulary.rules)
        return text

    def _push_added(self, token_id: int, rules: object) -> str:
        """Go on with the tokens that the object has now, if its rules are the same."""
        readable = read(self._tokenizer, self._options)
        if readable is None or readable is self._readable or readable.vocabulary.rules != rules:
            return ""
        state: Any = self._stream.save()
        self._readable = readable
        self._stream = self._begin()
        self._stream.load(state)
        return self._stream.push(token_id)

    def feed(self, ids: "Ids") -> str:
        """Take many ids; return the text that they add. An id that is refused refuses them all: the
        state is as before.
        """
        ids = as_ids(ids)
        before: Any = self._stream.save()
        try:
            return "".join([self.push(i) for i in ids])
        except Exception:
            self._stream.load(before)
            raise

    def flush(self) -> str:
        """End the text; return what was held."""
        return self._stream.flush()

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
        other.__dict__.update(self.__dict__)
        other._stream = self._stream.copy()
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> "IncrementalDetokenizer":
        return self.copy()


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
        one = unfinished.endswith(REPLACEMENT) and REPLACEMENT * 2 not in unfinished
        return 1 if one and len(ids) > 3 else 3
    except Exception:  # no encode, or one that takes something else
        return 3


class _Window:
    """Ids → text by asking an object to decode the last few ids, again at each push."""

    exact = False
    held_bytes = b""  # the object shows text only

    def __init__(self, ask: Callable[[list[int]], str], limit: int) -> None:
        self.ask = ask
        self.limit = limit
        self.reset([])

    def reset(self, prompt: list[int]) -> None:
        self.ids = self._begin(prompt)
        self.text = self.ask(self.ids) if self.ids else ""
        self.waiting = self._trailing(self.text)
        # The part of the window's text that needs no showing: it was shown, or it is the prompt's,
        # even if that ends in an unfinished character.
        self.shown = self.text
        self.count = 0  # characters shown since the prompt
        self.doubts = 0  # pushes since shown characters became U+FFFD
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
            raise ValueError("This mark lies ahead of the stream.")
        self.load(mark)
        return back

    def copy(self) -> "_Window":
        other = _Window(self.ask, self.limit)
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
        token_id = as_id(token_id)
        text = self.ask(self.ids + [token_id])
        self.ids.append(token_id)
        self.text = text
        self.waiting = self._trailing(text)
        text = text[: len(text) - self.waiting]
        if self.waiting and self.doubts < 3 and not text.startswith(self.shown):
            # Good characters became U+FFFD: the byte run is invalid until its last character is
            # finished, which takes at most three pushes.
            self.doubts += 1
            return ""
        self.doubts = 0
        out = self._advance(text)
        if not self.waiting or len(self.ids) > MAX_WINDOW:
            self._forget()
        return out

    def _advance(self, text: str) -> str:
        """Return what `text` has beyond what is shown.

        Where the object's text no longer begins with that, what is shown stays and the rest
        follows.
        """
        same = common(self.shown, text)
        out = text[same:]
        # The prompt's part of the window was not shown, so nothing of it is taken back.
        gone = self.shown[max(same, len(self.shown) - self.count) :]
        if same < len(self.shown) and not out:
            return ""  # shorter than what is shown: nothing new is certain
        if out.startswith(REPLACEMENT) and gone:
            # The byte run became invalid: each of its bytes is one U+FFFD, also those of the
            # characters that were shown.
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
