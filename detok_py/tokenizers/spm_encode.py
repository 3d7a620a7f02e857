"""Encode a text as SentencePiece does with a model file.

In: a text. Out: ids. The text is normalized (`sentencepiece/src/normalizer.cc`: the model's map of
characters, then spaces), and cut by the model: Unigram (`unigram_model.cc`, EncodeOptimized) or BPE
(`bpe_model.cc`). What no piece covers is one unknown id a run, or its byte pieces.

The library sums scores in 32 bits from the beginning of the text. Two ways to cut a word can be
equal in 32 bits and differ in 64, so the sums are rounded here as there.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from ..errors import TokenizerFormatError
from .added import AddedTokens
from .byte_bpe import Words, merge
from .charsmap import CharacterMap
from .seams import SpaceSeams
from .spm_file import BPE, BYTE, NORMAL, UNIGRAM, UNUSED, USER_DEFINED, Model
from .tokenizer import Encode
from .unigram import lengths_of

SPACE = "▁"
UNKNOWN_PENALTY = 10.0
TOO_FAR = 100000.0  # a sum beyond it is subtracted from itself and from those after it

Found = Iterable[tuple[str, int]]


def encoder(
    model: Model, added: Sequence[tuple[Any, int]], around: tuple[list[int], list[int]]
) -> Encode:
    """Return the function behind `Tokenizer.encode`.

    `added` are the special and added tokens with their ids, `around` the ids before and after a
    text. As llama.cpp does, each text between special tokens is encoded by itself.
    """
    if model.model_type not in (UNIGRAM, BPE):
        raise TokenizerFormatError("its model type is word or char; supported are unigram and BPE")
    normalize = Normalizer(model)
    cut = Unigram(model).cut if model.model_type == UNIGRAM else Merges(model).cut
    unknown, bytes_of = model.unk_id, _byte_ids(model)
    tokens = AddedTokens([{"normalized": False, **entry, "id": i} for entry, i in added])

    def encode_text(text: str) -> Iterator[int]:
        after_unknown = False
        for piece, i in cut(normalize(text)):
            if i != unknown:
                yield i
            elif bytes_of:
                yield from (bytes_of[byte] for byte in piece.encode())
            elif not after_unknown:
                yield i
            after_unknown = i == unknown

    def encode(text: str, add_special_tokens: bool, parse_special: bool) -> list[int]:
        ids: list[int] = []
        for part in tokens.split(text, not parse_special):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += encode_text(part)
        return [*around[0], *ids, *around[1]] if add_special_tokens else ids

    return encode


def _byte_ids(model: Model) -> list[int]:
    """Return the id of each byte, an empty list without byte fallback."""
    ids = {piece: i for i, piece in enumerate(model.pieces) if model.types[i] == BYTE}
    return [ids[f"<0x{byte:02X}>"] for byte in range(256)] if model.byte_fallback and ids else []


def _pieces_of(model: Model, *types: int) -> dict[str, int]:
    return {piece: i for i, piece in enumerate(model.pieces) if model.types[i] in types}


def _any_of(pieces: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds the longest of some pieces, None if there are none."""
    longest_first = sorted(pieces, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


class Normalizer:
    """Normalizes a text as the model was trained on: characters first, then spaces.

    User-defined pieces stay as they are.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._space = SPACE if model.escape_whitespaces else " "
        self._map = CharacterMap(model.precompiled_charsmap) if model.precompiled_charsmap else None
        self._kept = _any_of(_pieces_of(model, USER_DEFINED))
        # Two characters → what the first becomes, None if the map can go on behind it.
        self._memo: dict[str, str | None] = {}

    def __call__(self, text: str) -> str:
        """Return the normalized text."""
        model, space = self._model, self._space
        if not text:
            return ""
        if model.remove_extra_whitespaces:
            squeezed = self._squeezed(text)
            if squeezed is None:
                return ""
            text = squeezed
        elif self._map is not None:
            text = "".join(self._chunks(text))
        prefix = space if model.add_dummy_prefix else ""
        if model.escape_whitespaces:
            text = text.replace(" ", SPACE)
        before = not model.treat_whitespace_as_suffix
        text = (prefix if before else "") + text
        if model.remove_extra_whitespaces:
            text = text.rstrip(space)
        return text + ("" if before else prefix)

    def _squeezed(self, text: str) -> str | None:
        """Return a text without spaces at its beginning and behind spaces, None if it has nothing
        else.
        """
        out: list[str] = []
        space, begun = True, False
        for chunk in self._chunks(text):
            if not begun and chunk == " ":
                continue
            begun = True
            if space:
                chunk = chunk.lstrip(" ")
            if chunk:
                out.append(chunk)
                space = chunk[-1] == " "
        return "".join(out) if begun else None

    def _chunks(self, text: str) -> Iterator[str]:
        """Yield what each longest match of the map, user-defined piece or other character
        becomes.
        """
        kept = self._kept and self._kept.search(text)
        at, end, memo = 0, len(text), self._memo
        while at < end:
            if kept and kept.start() == at:
                yield kept.group()
                at = kept.end()
            elif self._map is None:
                yield text[at]
                at += 1
            else:
                pair = text[at : at + 2]
                put = memo.get(pair)
                if put is None:
                    put, size = self._replace(text, at, pair)
                    at += size
                else:
                    at += 1
                yield put
            if kept and kept.start() < at:
                kept = self._kept and self._kept.search(text, at)

    def _replace(self, text: str, at: int, pair: str) -> tuple[str, int]:
        """Return what the map makes of the text at a place, and of how many characters."""
        assert self._map is not None
        if len(self._memo) > 1 << 16:
            self._memo.clear()
        part = pair
        found, goes_on = self._map.longest(part.encode())
        if goes_on:
            part = text[at : at + 64]
            found, _ = self._map.longest(part.encode())
        elif found is None or found[1] == len(pair[0].encode()):
            self._memo[pair] = pair[0] if found is None else found[0]
        if found is None:
            return pair[0], 1
        return found[0], len(part.encode()[: found[1]].decode())


class Unigram:
    """The cut with the highest sum of scores (`unigram_model.cc`, EncodeOptimized)."""

    def __init__(self, model: Model) -> None:
        self._ids = _pieces_of(model, NORMAL, USER_DEFINED)
        normal = [model.scores[i] for i in _pieces_of(model, NORMAL).values()]
        self._scores: dict[str, float] = {}
        for piece, i in self._ids.items():
            self._scores[piece] = model.scores[i]
            if model.types[i] == USER_DEFINED:
                self._scores[piece] = _single(0.1 * (len(piece.encode()) - 1))
        self._unknown = model.unk_id
        self._unknown_score = _single(min(normal, default=0.0) - UNKNOWN_PENALTY)
        self._longest = max(map(len, self._ids), default=1)
        self._lengths = lengths_of(self._ids)
        # Where no piece has a space inside, every way to cut a text begins a piece there.
        inside = any(SPACE in piece[1:] for piece in self._ids)
        self._seams = None if inside else SpaceSeams(SPACE, ())
        self._edges: Any = Words(self._edges_of)

    def cut(self, text: str) -> Found:
        """Return the pieces of a normalized text with their ids."""
        if not text:
            return []
        words = self._seams.split(text) if self._seams else [text]
        size = len(text)
        best = array("f", bytes(4 * (size + 1)))
        cell = array("f", [0.0])  # rounds
        came_from: list[Any] = [None] * (size + 1)
        begin = 0
        for word in words:
            for start, end, score, i in self._edges[word]:
                start, end = begin + start, begin + end
                if not -TOO_FAR <= best[start] <= TOO_FAR:
                    far = best[start]
                    for at in range(start, min(start + self._longest, size) + 1):
                        best[at] -= far
                cell[0] = score + best[start]
                if came_from[end] is None or cell[0] > best[end]:
                    best[end] = cell[0]
                    came_from[end] = start, i
            begin += len(word)
        out: list[tuple[str, int]] = []
        end = size
        while end:
            first, i = came_from[end]
            out.append((text[first:end], i))
            end = first
        return reversed(out)

    def _edges_of(self, word: str) -> tuple[Any, ...]:
        """Return the pieces in a word, in the order in which the library meets them: first, one
        past last, score, id.
        """
        out: list[Any] = []
        size = len(word)
        for at in range(size):
            single = False
            for length in self._lengths.get(word[at : at + 2]) or self._lengths.get(word[at], ()):
                piece = word[at : at + length]
                score = self._scores.get(piece)
                if score is not None and at + length <= size:
                    single = single or length == 1
                    out.append((at, at + length, score, self._ids[piece]))
            if not single:
                out.append((at, at + 1, self._unknown_score, self._unknown))
        return tuple(out)


def _single(number: float) -> float:
    """Return a number as 32 bits can hold it."""
    return array("f", [number])[0]


class Merges:
    """Neighbours merge if the joined text is a piece, the highest score first, then leftmost
    (`bpe_model.cc`). User-defined pieces do not merge. Unused ones are cut again where they came
    from.
    """

    def __init__(self, model: Model) -> None:
        ids = self._ids = _pieces_of(model, NORMAL, USER_DEFINED, UNUSED)
        self._all = {piece: i for i, piece in enumerate(model.pieces)}
        self._unknown = model.unk_id
        self._unused = _pieces_of(model, UNUSED)
        self._frozen = _any_of(_pieces_of(model, USER_DEFINED))
        order = sorted({model.scores[i] for i in ids.values()}, reverse=True)
        rank_of = {score: rank for rank, score in enumerate(order)}
        self._ranks = {piece: rank_of[model.scores[i]] for piece, i in ids.items()}
        inside = {
            piece[at - 1] for piece in ids for at in range(1, len(piece)) if piece[at] == SPACE
        }
        self._seams = SpaceSeams(SPACE, inside)
        self._words = Words(self._merge)

    def cut(self, text: str) -> Found:
        """Return the pieces of a normalized text with their ids."""
        at = 0
        out: list[tuple[str, int]] = []
        for found in self._frozen.finditer(text) if self._frozen else ():
            out += self._between(text[at : found.start()])
            out.append((found.group(), self._ids[found.group()]))
            at = found.end()
        return out + self._between(text[at:])

    def _between(self, text: str) -> list[tuple[str, int]]:
        # What is inside a piece merges in one order wherever it stands, so an unused piece is cut
        # at the same place in a word as in the whole text.
        if not text:
            return []
        words: dict[str, Any] = self._words
        return list(chain.from_iterable([words[word] for word in self._seams.split(text)]))

    def _merge(self, text: str) -> tuple[Any, ...]:
        joined: dict[str, tuple[str, str]] = {}
        get = self._ranks.get

        def rank(pair: tuple[str, str], default: int) -> int:
            both = pair[0] + pair[1]
            if both in self._unused:
                joined[both] = pair
            return get(both, default)

        out: list[tuple[str, int]] = []
        todo = merge(list(text), rank)[::-1]
        while todo:
            piece = todo.pop()
            if piece in self._unused and piece in joined:
                todo += reversed(joined[piece])
            else:
                out.append((piece, self._all.get(piece, self._unknown)))
        return tuple(out)
