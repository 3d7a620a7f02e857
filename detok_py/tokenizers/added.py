"""Finding added tokens in a text: `<|im_start|>` is one id wherever it stands, and what lies between is encoded.

In: a text. Out: the pieces of text between, normalized, and the ids of what was found, in order. Where several tokens begin at one place
the longest is taken; those that are matched in the raw text go before those matched in the normalized one: as Hugging Face
`tokenizers` does it (tokenizer/added_vocabulary.rs).
"""

import re
from functools import lru_cache
from typing import Any, Callable, Iterable, Iterator, Mapping

from detok_py.errors import TokenizerFormatError
from detok_py.tokenizers import unicode_classes as uc

_SPACES = "".join(chr(one) for first, last in uc.WHITE_SPACE for one in range(first, last + 1))


class AddedTokens:
    """The added tokens of a tokenizer.

    Each of `tokens` has "id" and "content", and, false where they are missing, "lstrip" and "rstrip" (it takes the white space beside it
    along), "single_word" (it only counts between what are no word characters), "normalized" (it is looked for in the normalized text,
    itself normalized; true where it is missing, unless it is special) and "special".

    >>> added = AddedTokens([{"id": 7, "content": "<s>", "rstrip": True}, {"id": 8, "content": "<s>>"}], str.lower)
    >>> added.split("A<s>  B<s>>C")
    ['a', 7, 'b', 8, 'c']
    """

    def __init__(self, tokens: Iterable[Mapping[str, Any]], normalizer: Callable[[str], str] | None = None) -> None:
        self._normalize = normalizer
        raw: dict[str, Mapping[str, Any]] = {}
        normalized: dict[str, Mapping[str, Any]] = {}
        # Of several that are alike once normalized, the last counts, the special ones coming first.
        for token in sorted(tokens, key=lambda token: not token.get("special", False)):
            content = token.get("content")
            if not isinstance(content, str) or type(token.get("id")) is not int:
                raise TokenizerFormatError(f"an added token has no content or no id: {dict(token)!r:.100}")
            if not content:
                continue
            if token.get("normalized", not token.get("special", False)):
                content = normalizer(content) if normalizer is not None else content
                if content:
                    normalized[content] = token
            else:
                raw[content] = token
        self._raw = _Finder(raw) if raw else None
        self._normalized = _Finder(normalized) if normalized else None

    def split(self, text: str, skip_special: bool = False) -> list[str | int]:
        """Return the text between the added tokens, normalized, and their ids. No piece of text is empty.

        With `skip_special` a special token in the text is text (`parse_special=False`).
        """
        if not text:
            return []
        out: list[str | int] = []
        for part in self._raw.split(text, skip_special) if self._raw is not None else [text]:
            if isinstance(part, int):
                out.append(part)
                continue
            if self._normalize is not None:
                part = self._normalize(part)
            if self._normalized is not None:
                out += self._normalized.split(part, skip_special)
            elif part:
                out.append(part)
        return out


class _Finder:
    # All tokens of one kind. A place where one may begin is found by its first character; which one it is, by trying the lengths of those
    # that begin with the same few characters, the longest first.
    def __init__(self, tokens: dict[str, Mapping[str, Any]]) -> None:
        self._tokens = tokens
        self._start = re.compile("[" + "".join(re.escape(one) for one in sorted({content[0] for content in tokens})) + "]")
        self._key = min([4, *map(len, tokens)])
        lengths: dict[str, set[int]] = {}
        for content in tokens:
            lengths.setdefault(content[: self._key], set()).add(len(content))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}

    def split(self, text: str, skip_special: bool) -> list[str | int]:
        out: list[str | int] = []
        at = 0
        for begin, end, token in self._found(text):
            if skip_special and token.get("special"):
                continue
            if token.get("single_word") and not _stands_alone(text, begin, end):
                continue
            if token.get("lstrip"):
                begin = at + len(text[at:begin].rstrip(_SPACES))
            if token.get("rstrip"):
                while end < len(text) and text[end] in _SPACES:
                    end += 1
            if begin > at:
                out.append(text[at:begin])
            # A token in the white space that the one before took along counts all the same, and the text goes on behind it, unless
            # it gave all that it is made of away: so it comes out in `tokenizers`.
            if begin < end:
                out.append(token["id"])
            at = end
        if at < len(text):
            out.append(text[at:])
        return out

    def _found(self, text: str) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
        search, key = self._start.search, self._key
        place = search(text)
        while place is not None:
            begin = place.start()
            for length in self._lengths.get(text[begin : begin + key], ()):
                token = self._tokens.get(text[begin : begin + length])
                if token is not None:
                    yield begin, begin + length, token
                    place = search(text, begin + length)
                    break
            else:
                place = search(text, begin + 1)


def _stands_alone(text: str, begin: int, end: int) -> bool:
    word = _word()
    return not ((begin and word.match(text, begin - 1)) or (end < len(text) and word.match(text, end)))


@lru_cache(maxsize=1)
def _word() -> re.Pattern[str]:
    return re.compile(uc.class_text(uc.rust_word()))
