"""WordPiece: greedy longest match from the start of a word.

In: a word from the pre-tokenizer. Out: its ids; a word that can't be cut into tokens is one unknown
token. Tokens inside a word have a prefix (`##ing`, BERT). In GGUF "bert" vocabularies the first
token of a word has one instead (`▁play`, `ing`): llama.cpp puts a phantom space before each word.
"""

from typing import Mapping

from ..errors import TokenizerFormatError, VocabularyError
from .byte_bpe import WordEncoder


class WordPieceEncoder(WordEncoder):
    """Encode words greedily, longest token first.

    `prefix` marks tokens inside a word. `phantom_space` ("▁"), an alternative to it, is put before
    each word. A word of more than `max_chars` characters is the unknown token (None: no limit).
    Encoding raises VocabularyError if a word needs an unknown token and the vocabulary has none.

    >>> wp = WordPieceEncoder({"[UNK]": 0, "play": 1, "##ing": 2, "##s": 3}, "[UNK]")
    >>> wp.encode("playing"), wp.encode("plays"), wp.encode("played")
    ([1, 2], [1, 3], [0])
    >>> WordPieceEncoder({"[UNK]": 0, "▁play": 1, "ing": 2}, "[UNK]", "", phantom_space="▁").encode(
    ...     "playing"
    ... )
    [1, 2]
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        unk_token: str | None = "[UNK]",
        prefix: str = "##",
        max_chars: int | None = 100,
        *,
        phantom_space: str = "",
    ) -> None:
        if prefix and phantom_space:
            raise TokenizerFormatError(
                f"prefix {prefix!r} and phantom_space were both given; expected one of them"
            )
        self._vocab = vocab
        self._unk_token = unk_token
        self._prefix = prefix
        self._phantom_space = phantom_space
        self._max_chars = max_chars
        self._longest = max(map(len, vocab), default=0)
        super().__init__(self._encode_word)

    def _encode_word(self, word: str) -> tuple[int, ...]:
        if not word:
            return ()
        if self._max_chars is not None and len(word) > self._max_chars:
            return self._unknown(word)
        vocab = self._vocab
        word = self._phantom_space + word
        ids: list[int] = []
        start = 0
        prefix = ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                token = vocab.get(prefix + word[start:end])
                if token is not None:
                    break
            else:
                return self._unknown(word)
            ids.append(token)
            start = end
            prefix = self._prefix
        return tuple(ids)

    def _unknown(self, word: str) -> tuple[int, ...]:
        if self._unk_token is None or self._unk_token not in self._vocab:
            raise VocabularyError(
                f"the vocabulary has no tokens for {word!r:.60} and lacks the unknown token {self._unk_token!r}"
            )
        return (self._vocab[self._unk_token],)
