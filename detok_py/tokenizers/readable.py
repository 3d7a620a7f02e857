"""What somebody else's tokenizer shows of its vocabulary, for the exact chain.

In: an object with `decode(ids) -> str`. Out: a vocabulary with decoder rules, and the options of a
Detokenizer that decodes as the object does; or None. It is read of Hugging Face tokenizers and
transformers' fast tokenizers, tiktoken and detok's own, checked against the object on ids of all
kinds, and remembered until the object changes.
"""

import json
from typing import Any, Callable, NamedTuple

from ..decode.detokenizer import Detokenizer
from ..decode.rules import BYTES
from ..decode.vocabulary import Vocabulary
from ..errors import DetokError

MAX_KNOWN = 8  # objects whose vocabulary is remembered
MAX_LISTED = 512  # added tokens that are listed again for each stream, which takes 0.5 µs each


class Readable(NamedTuple):
    """The vocabulary of an object, and the options of a Detokenizer that decodes as the object."""

    vocabulary: Vocabulary
    settings: dict[str, Any]

    def stream(self, byte_fallback: str) -> Detokenizer:
        """Return the exact chain."""
        settings = {**self.settings, "byte_fallback": byte_fallback}
        return Detokenizer(self.vocabulary, **settings)


class Known(NamedTuple):
    """What was read of an object. It holds as long as `look` returns what it did then, `seen`."""

    tokenizer: object  # so that its id stays its own
    look: Callable[[], object]
    seen: object
    readable: Readable | None


# By the id of the object and the options, the last used last. Threads share it without a lock: each
# step is one operation of dict, and what another thread removed is read again.
_known: dict[Any, Known] = {}


def read(tokenizer: Any, options: dict[str, bool]) -> Readable | None:
    """Return what makes the exact chain for this object, None if its vocabulary can't be read or
    its decoding doesn't agree.
    """
    key = (id(tokenizer), tuple(options.items()))
    known = _known.get(key)
    if known is not None and known.look() == known.seen:
        _known.pop(key, None)
        _known[key] = known
        return known.readable
    for reader in (_read_detok, _read_tiktoken, _read_hugging_face):
        found = reader(tokenizer, options)
        if found is None:
            continue
        look, make = found
        seen = look()
        tries = [Readable(*each) for each in make()]
        readable = next((each for each in tries if _agrees(tokenizer, options, each)), None)
        _known[key] = Known(tokenizer, look, seen, readable)
        for oldest in list(_known)[:-MAX_KNOWN]:
            _known.pop(oldest, None)
        return readable
    return None


def _read_detok(tokenizer: Any, options: dict[str, bool]) -> Any:
    vocabulary = getattr(tokenizer, "vocabulary", None)
    if not isinstance(vocabulary, Vocabulary):
        return None
    settings = {"byte_fallback": "hf", **options}
    return lambda: (id(tokenizer.vocabulary), vocabulary), lambda: [(vocabulary, settings)]


def _read_tiktoken(tokenizer: Any, options: dict[str, bool]) -> Any:
    single = getattr(tokenizer, "decode_single_token_bytes", None)
    size = getattr(tokenizer, "n_vocab", None)
    if single is None or not isinstance(size, int):
        return None

    def stored(token_id: int) -> bytes | None:
        try:
            return bytes(single(token_id))
        except KeyError:
            return None

    return lambda: size, lambda: [(Vocabulary(size, stored, BYTES), {"skip_special_tokens": False})]


def _read_hugging_face(tokenizer: Any, options: dict[str, bool]) -> Any:
    rust = getattr(tokenizer, "backend_tokenizer", tokenizer)
    added_of = getattr(rust, "get_added_tokens_decoder", None)
    if not hasattr(rust, "id_to_token") or added_of is None or not hasattr(rust, "decoder"):
        return None
    added = added_of()
    special = [i for i, token in added.items() if token.special]
    size = max([rust.get_vocab_size(True) - 1, *added]) + 1
    many = len(added) > MAX_LISTED
    plain = {i for i, token in added.items() if not token.special} if many else set()
    pieces: Any = _Pieces(rust, size, plain, options)

    def look() -> object:
        """Return what changes when the object does. If it has many added tokens, only those that
        streams have asked for are compared: a list of thousands would take too long.
        """
        shown: object
        if many:
            shown = pieces.are_shown()
        else:
            shown = [(i, token.special) for i, token in added_of().items()]
        clean_up = getattr(tokenizer, "clean_up_tokenization_spaces", None)
        try:
            decoder = str(rust.decoder)[:500]
        except Exception:  # one written in Python has no text
            decoder = ""
        return rust.get_vocab_size(True), shown, decoder, clean_up

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
        skips = options.get("skip_special_tokens", not outer)
        settings = {"skip_special_tokens": skips, "byte_fallback": "hf", "unknown": "skip"}
        # transformers 5.7 and later clean up for some models only, whatever the setting says:
        # `_agrees` finds out which.
        own = outer and getattr(tokenizer, "clean_up_tokenization_spaces", False)
        wanted = options.get("clean_up_tokenization_spaces", own)
        try:
            tries = [True, False] if wanted else [False]
            return [
                (Vocabulary.from_pieces(pieces, decoder, special, clean_up=on), settings)
                for on in tries
            ]
        except DetokError:
            return []

    return look, make


class _Pieces:
    """The pieces of a tokenizer, asked for one by one.

    `plain` are ids of added tokens that were not special. Where special tokens are skipped, one
    that has become special since has no piece: so the change is noticed.
    """

    def __init__(self, rust: Any, size: int, plain: set[int], options: dict[str, bool]) -> None:
        self.rust = rust
        self.size = size
        self.plain = plain
        self.skips = options.get("skip_special_tokens", True)
        self.asked: list[int] = []  # of `plain`
        # For how many of `asked`, and their text with special tokens skipped.
        self.text: tuple[int, str] = 0, ""

    def are_shown(self) -> bool:
        """Return whether the plain tokens that were asked for are still plain."""
        ids = list(self.asked)
        if self.text[0] != len(ids):
            self.text = len(ids), self.rust.decode(ids, skip_special_tokens=False)
        return bool(self.rust.decode(ids, skip_special_tokens=True) == self.text[1])

    def _is_special(self, token_id: int) -> bool:
        decode = self.rust.decode
        shown = decode([token_id], skip_special_tokens=False)
        return bool(shown != decode([token_id], skip_special_tokens=True))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, token_id: int) -> str | None:
        if token_id in self.plain:
            self.asked.append(token_id)
            if self.skips and self._is_special(token_id):
                return None
            self.plain.discard(token_id)
        piece: str | None = self.rust.id_to_token(token_id)
        return piece


PROBE = "Hello, world! It isn't 'so' ; café 世界 🌶️ n't 's . ? <0x0A>\n  x\n y"


def _agrees(tokenizer: Any, options: dict[str, bool], readable: Readable) -> bool:
    """Return whether the chain decodes as the object does, on ids of every kind: of a text, from
    all over the vocabulary, special ones.
    """
    ask = asker(tokenizer, options)
    vocabulary = readable.vocabulary
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
            ids = [i for i in sample if has(vocabulary, i)]
            t = Detokenizer(vocabulary, **readable.settings)
            if t.feed(ids) + t.flush() != ask(ids):
                return False
    except Exception:  # whatever the object raises, it is not what the chain expects
        return False
    return True


def has(vocabulary: Vocabulary, token_id: int) -> bool:
    """Return whether an id has a token."""
    try:
        vocabulary.stored_bytes(token_id)
    except DetokError:
        return False
    return True


def asker(tokenizer: Any, options: dict[str, bool]) -> Callable[[list[int]], str]:
    """Return the object's own `decode`, with these options."""
    return lambda ids: str(tokenizer.decode(ids, **options))
