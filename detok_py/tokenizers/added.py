"""Find added tokens such as `<|im_start|>` in a text.

In: a text. Out: in order, the ids of the added tokens and the normalized text between them. If
several tokens match at one position, the longest wins. Tokens that match the raw text are found
before those that match the normalized text. Source: Hugging Face `tokenizers`,
tokenizer/added_vocabulary.rs.
"""

import re
from functools import lru_cache
from typing import Any, Callable, Iterable, Iterator, Mapping

from ..errors import TokenizerFormatError
from ..patterns import unicode_classes as uc

SPACES = "".join(chr(one) for first, last in uc.WHITE_SPACE for one in range(first, last + 1))


class AddedTokens:
    """The added tokens of a tokenizer.

    Each of `tokens` has "id" and "content", and flags that default to false: "special", "lstrip"
    and "rstrip" (the token absorbs the white space on that side), "single_word" (it matches only
    if no word character is next to it). "normalized" (its normalized content is searched in the
    normalized text) defaults to true, for special tokens to false.

    >>> added = AddedTokens(
    ...     [{"id": 7, "content": "<s>", "rstrip": True}, {"id": 8, "content": "<s>>"}], str.lower
    ... )
    >>> added.split("A<s>  B<s>>C")
    ['a', 7, 'b', 8, 'c']
    """

    def __init__(
        self, tokens: Iterable[Mapping[str, Any]], normalizer: Callable[[str], str] | None = None
    ) -> None:
        self._normalize = normalizer
        raw: dict[str, Mapping[str, Any]] = {}
        normalized: dict[str, Mapping[str, Any]] = {}
        # If several have the same normalized content the last wins, ordinary ones after special.
        for token in sorted(tokens, key=lambda token: not token.get("special", False)):
            content = token.get("content")
            if not isinstance(content, str) or type(token.get("id")) is not int:
                raise TokenizerFormatError(
                    f"an added token has no content or no id: {dict(token)!r:.100}"
                )
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
        """Return the ids of the added tokens and the normalized, non-empty text between them.

        With `skip_special`, special tokens are treated as text (`parse_special=False`).
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
    # A regular expression finds the first character of any token. From there, tokens that share the
    # first few characters are tried by length, longest first.
    def __init__(self, tokens: dict[str, Mapping[str, Any]]) -> None:
        self._tokens = tokens
        first = "".join(re.escape(one) for one in sorted({content[0] for content in tokens}))
        self._start = re.compile(f"[{first}]")
        self._key = min([4, *map(len, tokens)])
        lengths: dict[str, set[int]] = {}
        for content in tokens:
            lengths.setdefault(content[: self._key], set()).add(len(content))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}

    def split(self, text: str, skip_special: bool) -> list[str | int]:
        out: list[str | int] = []
        at = 0
        for begin, end, token in self._matches(text):
            if skip_special and token.get("special"):
                continue
            if token.get("single_word") and not _is_whole_word(text, begin, end):
                continue
            if token.get("lstrip"):
                begin = at + len(text[at:begin].rstrip(SPACES))
            if token.get("rstrip"):
                while end < len(text) and text[end] in SPACES:
                    end += 1
            if begin > at:
                out.append(text[at:begin])
            # As in `tokenizers`: the previous token's rstrip may have absorbed this token's
            # beginning; the token still counts unless all of it was absorbed.
            if begin < end:
                out.append(token["id"])
            at = end
        if at < len(text):
            out.append(text[at:])
        return out

    def _matches(self, text: str) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
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


def _is_whole_word(text: str, begin: int, end: int) -> bool:
    word = _word_character()
    return not (
        (begin and word.match(text, begin - 1)) or (end < len(text) and word.match(text, end))
    )


@lru_cache(maxsize=1)
def _word_character() -> re.Pattern[str]:
    return re.compile(uc.class_text(uc.rust_word()))
