"""A tokenizer, whatever file it came from: text → ids, ids → text, and the vocabulary that streams are decoded with.

In: what a loader found in a file. Out: `Tokenizer`. The encoder is made when the first text is encoded: whoever only decodes (a chat
UI, a bridge) never pays for merges, patterns and Unicode classes.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ..detokenizer import Detokenizer
from ..errors import VocabularyError
from ..vocabulary import Vocabulary

# text, add special tokens, parse special tokens → ids
Encode = Callable[[str, bool, bool], list[int]]

# transformers `PreTrainedTokenizerBase.clean_up_tokenization`: literal replacements, one after the other, over the whole text.
_CLEAN_UP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


class Tokenizer:
    """A vocabulary with an encoder. `load_tokenizer` makes one; two threads may share one.

    `family` is "byte_bpe", "sentencepiece", "unigram", "wordpiece" or "tiktoken": which algorithm encodes. `vocabulary` is the table of
    ids and decoder rules, `eos_ids` the ids that end a text as the files say.

    >>> import json, tempfile, pathlib
    >>> from detok_py.tokenizers import load_tokenizer
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "tokenizer.json"
    >>> model = {"type": "BPE", "vocab": {"H": 0, "i": 1, "Ġ": 2, "Hi": 3}, "merges": [["H", "i"]]}
    >>> parts = {"model": model, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"}}
    >>> _ = file.write_text(json.dumps(parts))
    >>> tokenizer = load_tokenizer(file)
    >>> tokenizer.encode("Hi Hi"), tokenizer.decode([3, 2, 3]), tokenizer.family
    ([3, 2, 3], 'Hi Hi', 'byte_bpe')
    """

    __slots__ = ("_encode", "_eos", "_make_encode", "_whole_runs", "family", "vocabulary")

    def __init__(
        self,
        family: str,
        vocabulary: Vocabulary,
        make_encode: Callable[[], Encode],
        eos_ids: Iterable[int] = (),
        *,
        whole_runs: bool = False,
    ) -> None:
        self.family = family
        self.vocabulary = vocabulary
        self._make_encode = make_encode
        self._encode: Encode | None = None
        self._eos = frozenset(eos_ids) | vocabulary.eos_ids
        # Hugging Face decodes a run of byte tokens as a whole; llama.cpp and tiktoken emit bytes.
        self._whole_runs = whole_runs

    def __repr__(self) -> str:
        return f"<Tokenizer {self.family}, {len(self.vocabulary)} tokens>"

    def encode(self, text: str, *, add_special_tokens: bool = False, parse_special: bool = True) -> list[int]:
        """Return the ids of a text.

        `add_special_tokens` puts in what the file's template says ([CLS] … [SEP], a beginning-of-text id). `parse_special=False` reads
        special tokens in the text as ordinary text, as it should be with text that a stranger wrote; added tokens that are
        not special are found either way. Raises TokenizerFormatError if the file turns out to be damaged where only an encoder looks,
        VocabularyError if the text has half a surrogate pair, which no text that was decoded has.
        """
        if not isinstance(text, str):
            raise TypeError(f"encode takes a str, not {type(text).__name__}; decode bytes first")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise VocabularyError(f"this text can't be encoded: it has half a surrogate pair at index {error.start}") from None
        if self._encode is None:
            self._encode = self._make_encode()
        return self._encode(text, add_special_tokens, parse_special)

    def decode(
        self,
        ids: int | Iterable[int],
        *,
        skip_special_tokens: bool = True,
        clean_up_tokenization_spaces: bool | None = None,
        unknown: str = "error",
    ) -> str:
        """Return the text of ids, which is what the file's own library returns for them.

        `tokenizers` for tokenizer.json, llama.cpp's pieces for GGUF, tiktoken's bytes (invalid UTF-8 as U+FFFD) for rank files.
        `clean_up_tokenization_spaces=True` takes out the spaces before punctuation as transformers does; None is no, whatever
        tokenizer_config.json says. An unknown id raises VocabularyError; `unknown="skip"` leaves it out, as Hugging Face does.
        """
        detokenizer = self.detokenizer(
            skip_special_tokens=skip_special_tokens, byte_fallback="hf" if self._whole_runs else "utf8", unknown=unknown
        )
        text = detokenizer.feed([ids] if isinstance(ids, int) else ids) + detokenizer.flush()
        if clean_up_tokenization_spaces:
            for old, new in _CLEAN_UP:
                text = text.replace(old, new)
        return text

    def detokenizer(self, prompt_ids: Iterable[int] = (), **options: Any) -> Detokenizer:
        """Return a Detokenizer over this vocabulary and its decoder rules; the options are those of `Detokenizer`."""
        return Detokenizer(self.vocabulary, prompt_ids, **options)

    @property
    def eos_ids(self) -> frozenset[int]:
        """The ids that end a text: what the files say, and what `add_eos_id` added."""
        return self._eos

    def add_eos_id(self, token_id: int) -> None:
        """Count an id among those that end a text; one that is not in the vocabulary raises VocabularyError."""
        self.vocabulary.token_bytes(token_id)
        self._eos |= {token_id}

    def is_eos(self, token_id: int) -> bool:
        """Return whether an id ends a text."""
        return token_id in self._eos
