"""An immutable table: id → bytes, with the rules by which its tokens become text; and the packed
file (.detok).

In: tokens as bytes, or as the pieces and the decoder rules of a tokenizer file. Out: the bytes of
an id. Nothing is converted before it is asked for, so that a vocabulary of 150,000 tokens costs
what is used of it.

The packed file, all integers little-endian:

    5 bytes   b"detok"
    1 byte    version, 2
    4 bytes   length of the header
    …         header: JSON, UTF-8, keys sorted: size, special, eos, holes, literal (id ranges
              [first, last]), rules, long
    4·⌈n/64⌉  for every 64th id, where its bytes begin in the blob
    n         the length of each id's bytes, 255 for "255 or more: see `long` in the header"
    …         the blob: the bytes of all ids, one after another
    4 bytes   CRC-32 (RFC 1952, section 8) of all that stands before it

Version 1 has no checksum, and is read as well.
"""

import json
from binascii import crc32
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Sequence

from ..errors import TokenizerFormatError, VocabularyError
from .byte_level import byte_level
from .chain import Chain
from .rules import BYTES, byte_level_first, read_rules
from .stage import RAW

if TYPE_CHECKING:
    from typing import Protocol

    class Searchable(Protocol):
        """What has ids, and can be asked for any object. Bytes can only be asked for bytes."""

        def __iter__(self) -> Iterator[int]: ...
        def __contains__(self, __value: object) -> bool: ...

    Ids = Searchable | Iterator[int]  # but not bytes, which an Iterable[int] can be

MAGIC = b"detok\x02"
WITHOUT_CHECKSUM = b"detok\x01"
BLOCK = 64
LONG = 255
MAX_TOKENS = 1 << 22
MAX_DEPTH = 64  # brackets open in a header, those inside strings included


def _damaged(why: str) -> VocabularyError:
    return VocabularyError(f"damaged vocabulary file: {why}; pack it again")


def _ranges(ids: Iterable[int]) -> list[list[int]]:
    out: list[list[int]] = []
    for i in sorted(ids):
        if out and out[-1][1] == i - 1:
            out[-1][1] = i
        else:
            out.append([i, i])
    return out


def _within(ranges: Any, size: int, what: str) -> frozenset[int]:
    """Return the ids of a header's list of ranges."""
    if not isinstance(ranges, list):
        raise _damaged(what + " is not a list of ranges")
    ids: list[int] = []
    for pair in ranges:
        if not (
            isinstance(pair, list)
            and [each.__class__ for each in pair] == [int, int]
            and 0 <= pair[0] <= pair[1] < size
        ):
            raise _damaged(f"{what} names ids outside 0..{size - 1}")
        ids.extend(range(pair[0], pair[1] + 1))
    return frozenset(ids)


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

    Their sum is the quickest look at all of them: it is no int if one is a float, a numpy integer
    or a tensor.
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


class Vocabulary:
    """An immutable table id → bytes, with special ids, end-of-text ids and decoder rules.

    Make one by `from_bytes`, `from_pieces` or `unpack`. Like a mapping, it has `v[i]` (the same as
    `token_bytes`), `i in v`, and iteration over its ids; `len` counts holes too. Vocabularies are
    equal if their packed files are.

    `special_ids` are those of special tokens, `eos_ids` those that end a text, and `literal_ids`
    those whose piece is text as it stands, whatever the decoder's `rules` say. With `clean_up`
    spaces are removed as transformers does. A vocabulary that is `silent` has no text for unknown
    ids, instead of an error.

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
    ) -> None:
        self._size = size
        self._source = source  # the stored bytes of an id in 0..size-1, None for a hole
        self.rules: dict[str, Any] | None = rules
        self.special_ids: frozenset[int] = id_set(special_ids, "special_ids")
        self.eos_ids: frozenset[int] = id_set(eos_ids, "eos_ids")
        self.literal_ids: frozenset[int] = id_set(literal_ids, "literal_ids")
        self.clean_up: bool = clean_up
        self.silent: bool = silent
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
        other = Vocabulary(
            self._size,
            self._source,
            self.rules,
            special_ids=self.special_ids,
            eos_ids=eos_ids,
            literal_ids=self.literal_ids,
            clean_up=self.clean_up,
            silent=self.silent,
        )
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
        return Vocabulary.unpack, (self.pack(),)

    def stored_bytes(self, token_id: int) -> bytes:
        """Return what the table holds for an id: its bytes, or the UTF-8 of its piece where the
        rules are about pieces.
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
        memo = self._memo.get("chain")
        if memo is None:
            chain = Chain(read_rules(self.rules))
            memo = self._memo["chain"] = chain, chain.default_state()
        chain, default = memo
        item = chain.entry(self.stored_bytes(token_id), token_id in self.literal_ids)
        if item.kind == RAW:
            return item.data
        chain.state = default
        before = len(chain.held_text)  # rules that need the whole text hold what it began with
        return (chain.push(item) + chain.flush())[before:].encode()

    def find(self, token: bytes) -> int | None:
        """Return the lowest special id whose stored bytes are `token`, or None.

        Tags that are single tokens are found by this.
        """
        for i in sorted(self.special_ids):
            if self.stored_bytes(i) == token:
                return i
        return None

    def pack(self) -> bytes:
        """Return the vocabulary as one file (see the head of this module).

        The same vocabulary gives the same bytes.
        """
        if self._packed is None:
            lengths, starts, parts = bytearray(self._size), [], []
            holes, long, at = [], {}, 0
            for i in range(self._size):
                if i % BLOCK == 0:
                    starts.append(at.to_bytes(4, "little"))
                token = self._source(i)
                if token is None:
                    holes.append(i)
                    continue
                lengths[i] = min(len(token), LONG)
                if len(token) >= LONG:
                    long[str(i)] = len(token)
                at += len(token)
                parts.append(token)
            header: dict[str, Any] = {"size": self._size, "rules": self.rules}
            ranges = (
                ("special", self.special_ids),
                ("eos", [i for i in self.eos_ids if i < self._size]),
                ("holes", holes),
                ("literal", self.literal_ids),
            )
            for key, ids in ranges:
                if ids:
                    header[key] = _ranges(ids)
            if long:
                header["long"] = long
            for key, flag in (("clean_up", self.clean_up), ("silent", self.silent)):
                if flag:
                    header[key] = True
            # Keys sorted by hand: MicroPython's json has no sort_keys.
            fields = [
                json.dumps(key) + ":" + json.dumps(header[key], separators=(",", ":"))
                for key in sorted(header)
            ]
            head = ("{" + ",".join(fields) + "}").encode()
            size = len(head).to_bytes(4, "little")
            body = b"".join([MAGIC, size, head] + starts + [bytes(lengths)] + parts)
            self._packed = body + crc32(body).to_bytes(4, "little")
        return self._packed

    @property
    def sha256(self) -> str:
        """The SHA-256 of the packed file, in hex: the vocabulary's name in detok.v1."""
        if self._sha256 is None:
            from hashlib import sha256

            self._sha256 = "".join([f"{b:02x}" for b in sha256(self.pack()).digest()])
        return self._sha256

    @classmethod
    def unpack(cls, data: bytes) -> "Vocabulary":
        """Return the vocabulary of a packed file, which is sliced as it is used; a damaged one
        raises VocabularyError.
        """
        data = bytes(data)
        if data[:6] not in (MAGIC, WITHOUT_CHECKSUM) or len(data) < 10:
            raise VocabularyError(
                f"not a packed vocabulary: it begins with {data[:6]!r}, not {MAGIC!r}; make one with `detok pack`"
            )
        end = len(data)
        if data[:6] == MAGIC:
            end -= 4
            if crc32(memoryview(data)[:end]) != int.from_bytes(data[end:], "little"):
                raise VocabularyError(
                    f"damaged vocabulary file: its {len(data)} bytes don't have the checksum that stands at their end; fetch or pack it again"
                )
        head_end = 10 + int.from_bytes(data[6:10], "little")
        try:
            header = json.loads(_shallow(data[10:head_end]))
            size = header["size"]
            if head_end > end or not isinstance(size, int) or not 0 <= size <= MAX_TOKENS:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _damaged("its header can't be read") from None
        ids = {
            key: _within(header.get(key, []), size, key)
            for key in ("special", "eos", "literal", "holes")
        }
        holes = ids["holes"]
        long = header.get("long", {})
        blocks = (size + BLOCK - 1) // BLOCK
        starts_at = head_end
        lengths_at = starts_at + 4 * blocks
        blob_at = lengths_at + size
        lengths = data[lengths_at:blob_at]
        if not isinstance(long, dict) or lengths.count(bytes([LONG])) != len(long):
            raise _damaged("its long tokens don't add up")
        total = sum(lengths)
        for key, n in long.items():
            is_long = key.isdigit() and int(key) < size and lengths[int(key)] == LONG
            if not (is_long and isinstance(n, int) and n >= LONG):
                raise _damaged("its long tokens don't add up")
            total += n - LONG
        if len(lengths) != size or end != blob_at + total:
            raise VocabularyError(
                f"damaged vocabulary file: it has {end} bytes and its header asks for {blob_at + total}; fetch or pack it again"
            )

        def start(block: int) -> int:
            at = starts_at + 4 * block
            return int.from_bytes(data[at : at + 4], "little")

        def length(i: int) -> int:
            n = lengths[i]
            return int(long[str(i)]) if n == LONG else n

        def total_length(first: int, last: int) -> int:
            part = lengths[first:last]
            if long and LONG in part:
                return sum([length(i) for i in range(first, last)])
            return sum(part)

        # The numbers above come from the same file as the block starts do; one wrong start would
        # give wrong text in silence.
        at = 0
        for block in range(blocks):
            if start(block) != at:
                raise _damaged("its offsets don't add up")
            at += total_length(block * BLOCK, min(block * BLOCK + BLOCK, size))

        def stored(i: int) -> bytes | None:
            if i in holes:
                return None
            block = i // BLOCK
            # The block's start, and the tokens of the block before this one.
            begin = starts_at + 4 * block
            begin = blob_at + int.from_bytes(data[begin : begin + 4], "little")
            if long:
                begin += total_length(block * BLOCK, i)
                return data[begin : begin + length(i)]
            begin += sum(lengths[block * BLOCK : i])
            return data[begin : begin + lengths[i]]

        rules = header.get("rules")
        try:
            read_rules(rules)
        except TokenizerFormatError as error:
            raise VocabularyError("this vocabulary file can't be used: " + str(error)) from None
        vocabulary = cls(
            size,
            stored,
            rules,
            special_ids=ids["special"],
            eos_ids=ids["eos"],
            literal_ids=ids["literal"],
            clean_up=bool(header.get("clean_up")),
            silent=bool(header.get("silent")),
        )
        vocabulary._packed = data
        return vocabulary


def _shallow(head: bytes) -> str:
    """Return the text of a header that is not nested too deep to be parsed: in WebAssembly 3,000
    levels end the interpreter for good.
    """
    depth = 0
    for byte in head:
        if byte == 0x5B or byte == 0x7B:
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError
        elif byte == 0x5D or byte == 0x7D:
            depth -= 1
    return head.decode()


class ByteVocabulary(Vocabulary):
    """The vocabulary of engines that emit bytes: ids 0..255 are bytes, every other id is silent.

    >>> v = ByteVocabulary()
    >>> v.token_bytes(0xE4), v.token_bytes(50000), len(v)
    (b'\\xe4', b'', 256)
    """

    __slots__ = ()

    def __init__(self) -> None:
        Vocabulary.__init__(self, 256, lambda i: bytes([i]), BYTES, silent=True)
