"""An immutable table: id → bytes, with the rules by which its tokens become text.

In: tokens as bytes, or as the pieces and the decoder rules of a tokenizer file. Out: the bytes of
an id. Tokens are converted when they are first used, so that a vocabulary of 150,000 tokens costs
little.
"""

from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Sequence

from ..errors import TokenizerFormatError, VocabularyError
from .byte_level import byte_level
from .chain import Chain
from .packed import Contents, pack, unpack
from .rules import BYTES, byte_level_first, read_rules
from .stage import RAW

if TYPE_CHECKING:
    from typing import Protocol

    class Searchable(Protocol):
        """A container of ids that accepts any object in `in`. Bytes accept only bytes."""

        def __iter__(self) -> Iterator[int]: ...
        def __contains__(self, __value: object) -> bool: ...

    Ids = Searchable | Iterator[int]  # but not bytes, which an Iterable[int] can be


def as_id(token_id: int) -> int:
    """Return an id as an int, be it a numpy integer or a tensor without dimensions (what has
    `__index__`). Anything else raises VocabularyError.

    Tensors of equal value have different hashes, so a table is only ever asked for an int.
    """
    if token_id.__class__ is int:
        return token_id
    try:
        return int(token_id.__index__())
    except (AttributeError, TypeError, ValueError):  # a tensor of several numbers, or of a fraction
        pass
    raise VocabularyError(f"a token id is an integer, not {repr(token_id)[:40]}")


def id_list(ids: Iterable[Any], what: str) -> list[Any]:
    """Return the items of an argument that has ids; `what` is its name. A single id, None and bytes
    raise TypeError.
    """
    if isinstance(ids, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"{what} is a list of token ids, not {ids.__class__.__name__}; StreamingDetokenizer takes bytes"
        )
    try:
        return list(ids)
    except TypeError:
        raise TypeError(f"{what} is a list of token ids, not {repr(ids)[:40]}") from None


def as_ids(ids: "Ids | Iterable[int]", what: str = "ids") -> list[int]:
    """Return a list of ids as ints, as `as_id` takes each; `what` is the name of the argument.

    Their sum is the quickest check: it is not an int if one of them is a float, a numpy integer or
    a tensor.
    """
    out = ids if ids.__class__ is list else id_list(ids, what)
    try:
        if sum(out).__class__ is int:
            return out
    except TypeError:
        pass
    return [as_id(i) for i in out]


def id_set(ids: Iterable[int], what: str) -> frozenset[int]:
    """Return the ids that a setting names. True and False are no ids there."""
    out = id_list(ids, what)
    for i in out:
        if isinstance(i, bool):
            raise VocabularyError(f"a token id is an integer, not {i!r}")
    return frozenset([as_id(i) for i in out])


# The options of a vocabulary, which its packed `Contents` have too.
OPTIONS = (
    "special_ids",
    "eos_ids",
    "literal_ids",
    "clean_up",
    "silent",
    "added_ids",
    "chat_format",
)


class Vocabulary:
    """An immutable table id → bytes, with special ids, end-of-text ids and decoder rules.

    Make one by `from_bytes`, `from_pieces` or `unpack`. Like a mapping, it has `v[i]` (the same as
    `token_bytes`), `i in v`, and iteration over its ids; `len` counts holes too. Vocabularies are
    equal if their packed files are.

    `special_ids` are those of special tokens, `eos_ids` those that end a text, and `literal_ids`
    those whose piece is text as it stands, whatever the decoder's `rules` say. With `clean_up`
    spaces are removed as transformers does. A vocabulary that is `silent` has no text for unknown
    ids, instead of an error. `added_ids` are those of added tokens, None where that is not known: a
    token that may be a marker of a chat format is special or one of these. `chat_format` is the
    name of its model's chat format, None if unknown.

    >>> v = Vocabulary.from_bytes(
    ...     [b"caf", b"\\xc3", b"\\xa9", b"<eos>"], special_ids=[3], eos_ids=[3]
    ... )
    >>> len(v), v.token_bytes(1), sorted(v.eos_ids)
    (4, b'\\xc3', [3])
    >>> Vocabulary.unpack(v.pack()).token_bytes(2)
    b'\\xa9'
    """

    __slots__ = (
        "__weakref__",
        "_known",
        "_memo",
        "_packed",
        "_sha256",
        "_size",
        "_source",
        "added_ids",
        "chat_format",
        "clean_up",
        "eos_ids",
        "literal_ids",
        "rules",
        "silent",
        "special_ids",
    )

    def __init__(
        self,
        size: int,
        source: Callable[[int], bytes | None],
        rules: dict[str, Any] | None,
        *,
        special_ids: Iterable[int] = (),
        eos_ids: Iterable[int] = (),
        literal_ids: Iterable[int] = (),
        clean_up: bool = False,
        silent: bool = False,
        added_ids: Iterable[int] | None = None,
        chat_format: str | None = None,
    ) -> None:
        self._size = size
        self._source = source  # the stored bytes of an id in 0..size-1, None for a hole
        self.rules: dict[str, Any] | None = rules
        self.special_ids: frozenset[int] = id_set(special_ids, "special_ids")
        self.eos_ids: frozenset[int] = id_set(eos_ids, "eos_ids")
        self.literal_ids: frozenset[int] = id_set(literal_ids, "literal_ids")
        self.clean_up: bool = clean_up
        self.silent: bool = silent
        self.added_ids: frozenset[int] | None = None
        if added_ids is not None:
            self.added_ids = id_set(added_ids, "added_ids")
        self.chat_format: str | None = chat_format
        self._known: dict[int, bytes] = {}
        self._memo: dict[Any, Any] = {}  # tables that Detokenizers with the same settings share
        self._packed: bytes | None = None
        self._sha256: str | None = None
        self._refuse_beyond("special", self.special_ids)
        self._refuse_beyond("literal", self.literal_ids)

    def _refuse_beyond(self, what: str, ids: Iterable[int]) -> None:
        for i in ids:
            if not 0 <= i < self._size and not self.silent:
                raise VocabularyError(
                    f"{what} id {i!r} is not in the vocabulary, whose ids are 0..{self._size - 1}"
                )

    def with_eos_ids(self, eos_ids: Iterable[int]) -> "Vocabulary":
        """Return the same vocabulary with these end-of-text ids. One of them may lie beyond the
        vocabulary: a model can have more rows than its tokenizer has tokens. `pack` leaves it out.

        >>> v = Vocabulary.from_bytes([b"a", b"<eos>"]).with_eos_ids([1])
        >>> sorted(v.eos_ids), v.token_bytes(0)
        ([1], b'a')
        """
        options = _options_of(self)
        options["eos_ids"] = eos_ids
        other = Vocabulary(self._size, self._source, self.rules, **options)
        other._known, other._memo = self._known, self._memo
        return other

    @classmethod
    def from_bytes(
        cls,
        tokens: Sequence[bytes | None],
        special_ids: Iterable[int] = (),
        eos_ids: Iterable[int] = (),
        *,
        clean_up: bool = False,
        added_ids: Iterable[int] | None = None,
    ) -> "Vocabulary":
        """Return a vocabulary whose id i has the bytes `tokens[i]`; None is a hole."""
        table = list(tokens)
        for i, token in enumerate(table):
            if token is not None and not isinstance(token, (bytes, bytearray)):
                raise VocabularyError(
                    f"token {i} is {repr(token)[:40]}; from_bytes takes bytes, from_pieces takes str"
                )
        made = cls(
            len(table),
            lambda i: table[i],
            BYTES,
            special_ids=special_ids,
            eos_ids=eos_ids,
            clean_up=clean_up,
            added_ids=added_ids,
        )
        made._refuse_beyond("end-of-text", made.eos_ids)
        return made

    @classmethod
    def from_pieces(
        cls,
        pieces: Sequence[str | None],
        decoder: dict[str, Any] | None,
        special_ids: Iterable[int] = (),
        *,
        eos_ids: Iterable[int] = (),
        literal_ids: Iterable[int] = (),
        clean_up: bool = False,
        added_ids: Iterable[int] | None = None,
    ) -> "Vocabulary":
        """Return the vocabulary of a tokenizer file: `pieces[i]` is the token string of id i,
        `decoder` the "decoder" of tokenizer.json.

        None in `pieces` is a hole; None as `decoder` joins tokens by spaces, as Hugging Face does.
        `literal_ids` are ids whose piece is text as it stands, whatever the rules say (added tokens
        of a GGUF file). `clean_up` asks for transformers' clean-up of spaces. A decoder that isn't
        known raises TokenizerFormatError.

        >>> v = Vocabulary.from_pieces(["ĠHello", "Ã", "©"], {"type": "ByteLevel"})
        >>> v.token_bytes(0), v.token_bytes(1)
        (b' Hello', b'\\xc3')
        """
        literal = frozenset(literal_ids)
        bytes_rules = byte_level_first(decoder)
        read_rules(decoder)

        def stored(i: int) -> bytes | None:
            piece = pieces[i]
            if piece is None:
                return None
            try:
                if bytes_rules is None or i in literal:
                    return piece.encode()
                return byte_level(piece)
            except UnicodeEncodeError:
                raise VocabularyError(
                    f"the piece of id {i} holds half a surrogate pair, which no text can hold"
                ) from None

        rules, kept = (decoder, literal) if bytes_rules is None else (bytes_rules, frozenset())
        # By bytes_rules every id is bytes: no id needs to be known as literal.
        made = cls(
            len(pieces),
            stored,
            rules,
            special_ids=special_ids,
            eos_ids=eos_ids,
            literal_ids=kept,
            clean_up=clean_up,
            added_ids=added_ids,
        )
        made._refuse_beyond("end-of-text", made.eos_ids)
        return made

    def __len__(self) -> int:
        return self._size

    def __contains__(self, token_id: int) -> bool:
        i = as_id(token_id)
        return 0 <= i < self._size and self._source(i) is not None

    def __iter__(self) -> Iterator[int]:
        return iter([i for i in range(self._size) if self._source(i) is not None])

    def __getitem__(self, token_id: int) -> bytes:
        return self.token_bytes(token_id)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vocabulary) and self.pack() == other.pack())

    def __hash__(self) -> int:
        return hash((self._size, self.special_ids, self.eos_ids))

    def __repr__(self) -> str:
        name = self.__class__.__name__
        return f"<{name} of {self._size} tokens, {len(self.special_ids)} special>"

    def __reduce__(self) -> tuple[Any, ...]:
        if max(self.eos_ids, default=0) < self._size:
            return Vocabulary.unpack, (self.pack(),)
        return _unpacked, (self.pack(), tuple(self.eos_ids))  # which `pack` leaves out

    def stored_bytes(self, token_id: int) -> bytes:
        """Return the stored bytes of an id: its own bytes, or the UTF-8 of its piece if the rules
        work on pieces.
        """
        if token_id.__class__ is not int:
            token_id = as_id(token_id)
        found = self._known.get(token_id)
        if found is not None:
            return found
        if 0 <= token_id < self._size:
            stored = self._source(token_id)
            if stored is not None:
                stored = bytes(stored)
                self._known[token_id] = stored
                return stored
        if self.silent:
            return b""
        where = "a hole in" if 0 <= token_id < self._size else "not in"
        raise VocabularyError(
            f"id {token_id} is {where} this vocabulary, whose ids are 0..{self._size - 1}: is it the vocabulary of the model that sent it?"
        )

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that a token puts into a text that has begun; an unknown id raises
        VocabularyError.

        For byte-level vocabularies these are the token's own bytes, half a character included; `▁`
        is a space, `<0xE4>` is one byte.
        """
        token_id = as_id(token_id)
        if self.rules == BYTES:
            return self.stored_bytes(token_id)
        stored = self.stored_bytes(token_id)
        memo = self._memo.pop("chain", None)  # another thread makes its own
        if memo is None:
            chain = Chain(read_rules(self.rules))
            memo = chain, chain.default_state()
        chain, default = memo
        item = chain.entry(stored, token_id in self.literal_ids)
        data: bytes = item.data
        if item.kind != RAW:
            chain.state = default
            before = len(chain.held_text)  # rules that need the whole text hold what it began with
            data = (chain.push(item) + chain.flush())[before:].encode()
        self._memo["chain"] = memo
        return data

    def find(self, token: bytes) -> int | None:
        """Return the lowest special id whose stored bytes are `token`, or None.

        Tags that are single tokens are found by this.
        """
        for i in sorted(self.special_ids):
            if self.stored_bytes(i) == token:
                return i
        return None

    def pack(self) -> bytes:
        """Return the vocabulary as one file (see the head of decode/packed.py).

        The same vocabulary gives the same bytes.
        """
        if self._packed is None:
            self._packed = pack(Contents(self._size, self._source, self.rules, **_options_of(self)))
        return self._packed

    @property
    def sha256(self) -> str:
        """The SHA-256 of the packed file, in hex: the vocabulary's name in detok.v1."""
        if self._sha256 is None:
            from hashlib import sha256

            self._sha256 = "".join([f"{b:02x}" for b in sha256(self.pack()).digest()])
        return self._sha256

    @classmethod
    def unpack(cls, data: bytes, *, sha256: str | None = None) -> "Vocabulary":
        """Return the vocabulary of a packed file, which is sliced as it is used; a damaged one
        raises VocabularyError. A `sha256` that is given is not computed.
        """
        data = bytes(data)
        contents = unpack(data)
        try:
            read_rules(contents.rules)
        except TokenizerFormatError as error:
            raise VocabularyError("this vocabulary file can't be used: " + str(error)) from None
        vocabulary = cls(contents.size, contents.source, contents.rules, **_options_of(contents))
        vocabulary._packed = data
        vocabulary._sha256 = sha256
        return vocabulary


def _options_of(made: Vocabulary | Contents) -> dict[str, Any]:
    """Return the options of a vocabulary, which are fields of its packed contents too."""
    return {name: getattr(made, name) for name in OPTIONS}


def _unpacked(data: bytes, eos_ids: tuple[int, ...]) -> Vocabulary:
    """Return a packed vocabulary, with ends of text that may lie beyond it."""
    return Vocabulary.unpack(data).with_eos_ids(eos_ids)


class ByteVocabulary(Vocabulary):
    """The vocabulary of engines that emit bytes: ids 0..255 are bytes, every other id is silent.

    >>> v = ByteVocabulary()
    >>> v.token_bytes(0xE4), v.token_bytes(50000), len(v)
    (b'\\xe4', b'', 256)
    """

    __slots__ = ()

    def __init__(self) -> None:
        Vocabulary.__init__(self, 256, lambda i: bytes([i]), BYTES, silent=True)
