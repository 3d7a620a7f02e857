"""A tokenizer: text → ids, ids → text, and the vocabulary for streams.

In: what a loader read from a file. Out: `Tokenizer`. The encoder is created for the first text that
is encoded, so a program that only decodes (a chat UI, a bridge) never loads merges, patterns and
Unicode classes.
"""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..decode.detokenizer import Detokenizer
from ..decode.format_channels import marker_tokens
from ..decode.rules import TRANSFORMERS_CLEAN_UP, clean_up
from ..decode.vocabulary import Vocabulary, as_id, id_set
from ..errors import VocabularyError
from ..formats.chat_format import ChatFormat
from ..formats.find import find_format
from .text_stream import Chunk, TextStream

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from ..decode.detokenizer import ByteFallback, Unknown
    from ..decode.utf8 import Errors

    class Options(TypedDict, total=False):
        """The options of `Detokenizer`."""

        skip_special_tokens: bool
        byte_fallback: ByteFallback
        errors: Errors
        unknown: Unknown
        spans: bool
        clean_up_tokenization_spaces: bool | None
        spaces_between_special_tokens: bool


# Names of tokens that end a text (llama.cpp's `src/llama-vocab.cpp`, `load`, "auto-detect special
# tokens by text").
ENDS = frozenset(
    [
        "<|eot_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|flush|>",
        "<|calls|>",
        "<end_of_turn>",
        "<|endoftext|>",
        "<|eom_id|>",
        "<EOT>",
        "_<EOT>",
        "[EOT]",
        "[EOS]",
        "<|end_of_text|>",
        "<end_of_utterance>",
        "<eos>",
        "<turn|>",
        "<|tool_response>",
        "[e~[",
        "<｜end▁of▁sentence｜>",
    ]
)
# llama.cpp counts every "</s>". In vocabularies made from web pages it may be the HTML tag that
# ends struck-out text, so it counts only if it is a special token.
END_OR_TAG = "</s>"

# Tokens that begin a text, where no file names one.
BEGINS = ("<s>", "<bos>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>", "[CLS]")


def inner_ends(ends: Iterable[str]) -> set[str]:
    """Return those of a vocabulary's end tokens that end only a message, or nothing, because others
    of them end the answer.

    >>> inner_ends(["<|end|>", "<|return|>", "<|call|>"])
    {'<|end|>'}
    >>> inner_ends(["<|end|>", "<|flush|>"])
    set()
    """
    has = set(ends)
    out = set()
    if {"<|return|>", "<|call|>"} <= has or (
        "<|flush|>" in has and has & {"<|call|>", "<|calls|>"}
    ):
        out.add("<|end|>")
    if "<|tool_response>" in has:
        out.add(END_OR_TAG)
    return out & has


def ends_by_name(special: Mapping[str, int]) -> set[int]:
    """Return the ids of the special tokens that end a text.

    >>> ends_by_name({"<s>": 1, "</s>": 2})
    {2}
    """
    ends = (ENDS | {END_OR_TAG}) & set(special)
    return {special[name] for name in ends - inner_ends(ends)}


# text, add special tokens, parse special tokens → ids
Encode = Callable[[str, bool, bool], list[int]]


class Decodes(Protocol):
    """An object that decodes ids."""

    def decode(self, ids: list[int], /) -> str:
        """Return the text of ids."""
        ...


class Tokenizer:
    """A vocabulary with an encoder, as `load_tokenizer` returns it. Threads may share one.

    `family` names the encoding algorithm: "byte_bpe", "sentencepiece", "unigram", "wordpiece" or
    "tiktoken". `vocabulary` has the ids, the decoder rules and the end-of-text ids; `add_eos_id`
    replaces it. `bos_id` is the id that begins a text, None if the files name none. `chat_template`
    is the chat template of the files, several of them joined by newlines, None if they have none;
    `response_template` is what tokenizer_config.json has by that name.

    >>> import json, tempfile, pathlib
    >>> from detok_py.tokenizers import load_tokenizer
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "tokenizer.json"
    >>> model = {"type": "BPE", "vocab": {"H": 0, "i": 1, "Ġ": 2, "Hi": 3}, "merges": [["H", "i"]]}
    >>> parts = {
    ...     "model": model,
    ...     "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
    ...     "decoder": {"type": "ByteLevel"},
    ... }
    >>> _ = file.write_text(json.dumps(parts))
    >>> tokenizer = load_tokenizer(file)
    >>> tokenizer.encode("Hi Hi"), tokenizer.decode([3, 2, 3]), tokenizer.family
    ([3, 2, 3], 'Hi Hi', 'byte_bpe')
    """

    __slots__ = (
        "_encode",
        "_eos",
        "_ids",
        "_make_encode",
        "_piece_of",
        "_whole_runs",
        "bos_id",
        "chat_template",
        "family",
        "response_template",
        "vocabulary",
    )

    def __init__(
        self,
        family: str,
        vocabulary: Vocabulary,
        make_encode: Callable[[], Encode],
        *,
        eos_ids: Mapping[int, str] | None = None,
        whole_runs: bool = False,
        bos_id: int | None = None,
        piece_of: Callable[[int], str | None] | None = None,
    ) -> None:
        self.family: str = family
        # The end-of-text ids, each with where it comes from.
        self._eos = dict(eos_ids or dict.fromkeys(vocabulary.eos_ids, "its encoding"))
        self.vocabulary: Vocabulary = vocabulary.with_eos_ids(self._eos)
        self._make_encode = make_encode
        self._encode: Encode | None = None
        self.bos_id: int | None = bos_id
        self.chat_template: str | None = None
        self.response_template: Any = None
        self._piece_of = piece_of
        self._ids: dict[str, int] | None = None
        # Hugging Face decodes a run of byte tokens as a unit; llama.cpp and tiktoken emit bytes.
        self._whole_runs = whole_runs

    def __getstate__(self) -> dict[str, object]:
        # The encoder is created again where it is needed.
        return {name: getattr(self, name) for name in self.__slots__ if name != "_encode"}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._encode = None

    def __repr__(self) -> str:
        ends = sorted(self.eos_ids)
        return f"<Tokenizer {self.family}, {len(self)} tokens, ends of text {ends}>"

    def __len__(self) -> int:
        """Return the size of the vocabulary."""
        return len(self.vocabulary)

    def id_to_token(self, token_id: int) -> str | None:
        """Return a token as its file spells it, None for an id that has no token.

        Tokens of rank files are bytes: the text of such a token, None if it is not UTF-8.
        """
        i = as_id(token_id)
        if i not in self.vocabulary:
            return None
        return self._text_of(i) if self._piece_of is None else self._piece_of(i)

    def token_to_id(self, token: str) -> int | None:
        """Return the lowest id of a token that its file spells so, None if there is none."""
        if self._ids is None:
            pieces = [(self.id_to_token(i), i) for i in self.vocabulary]
            self._ids = {piece: i for piece, i in reversed(pieces) if piece is not None}
        return self._ids.get(token)

    def _text_of(self, token_id: int) -> str | None:
        try:
            return self.vocabulary.token_bytes(token_id).decode()
        except UnicodeDecodeError:
            return None

    def encode(
        self, text: str, *, add_special_tokens: bool = False, parse_special: bool = True
    ) -> list[int]:
        """Return the ids of a text.

        `add_special_tokens` adds those of the file's template ([CLS] … [SEP], a beginning-of-text
        id). `parse_special=False` encodes special tokens in the text as ordinary text; use it for
        untrusted text. Added tokens that are not special are found either way. Raises
        TokenizerFormatError if a part of the file that only the encoder reads is damaged, and
        VocabularyError if the text contains half a surrogate pair.
        """
        if not isinstance(text, str):
            raise TypeError(f"encode takes a str, not {type(text).__name__}; decode bytes first")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise VocabularyError(
                f"the text has half a surrogate pair at index {error.start}, which can't be encoded"
            ) from None
        if self._encode is None:
            self._encode = self._make_encode()
        return self._encode(text, add_special_tokens, parse_special)

    def decode(
        self,
        ids: int | Iterable[int],
        *,
        skip_special_tokens: bool = True,
        clean_up_tokenization_spaces: bool | None = None,
        unknown: "Unknown" = "error",
    ) -> str:
        """Return the text of ids, equal to the result of the file's own library.

        That is `tokenizers` for tokenizer.json, llama.cpp for GGUF and tiktoken for rank files,
        with invalid UTF-8 as U+FFFD. `clean_up_tokenization_spaces=True` removes spaces before
        punctuation as transformers does; None means False, and tokenizer_config.json is not read.
        An unknown id raises VocabularyError; `unknown="skip"` drops it, as Hugging Face does.
        """
        detokenizer = self.detokenizer(
            skip_special_tokens=skip_special_tokens,
            byte_fallback="hf" if self._whole_runs else "utf8",
            unknown=unknown,
        )
        try:
            iter(ids)  # type: ignore[arg-type]
        except TypeError:  # one id: an int, or a tensor without dimensions
            ids = [ids]  # type: ignore[list-item]
        text = detokenizer.feed(ids) + detokenizer.flush()  # type: ignore[arg-type]
        return clean_up(text, TRANSFORMERS_CLEAN_UP) if clean_up_tokenization_spaces else text

    def detokenizer(
        self, prompt_ids: Iterable[int] = (), **options: "Unpack[Options]"
    ) -> Detokenizer:
        """Return a Detokenizer for this vocabulary; the options are those of `Detokenizer`."""
        return Detokenizer(self.vocabulary, prompt_ids, **options)

    def stream(
        self,
        chunks: Iterable[Chunk] | AsyncIterable[Chunk],
        prompt_ids: Iterable[int] = (),
        **options: "Unpack[Options]",
    ) -> TextStream:
        """Return the text of an iterable, or async iterable, of ids, lists of ids, or bytes.

        Loop over it with `for` or `async for`: each item is text that has become certain, and the
        last is what was held at the end. `prompt_ids` and the options are those of `Detokenizer`.

        >>> from detok_py.tokenizers import load_tokenizer
        >>> pieces = {"ĠHi": 0, "ð": 1, "Ł": 2, "ĺĢ": 3}
        >>> model = {"type": "BPE", "vocab": pieces, "merges": []}
        >>> tokenizer = load_tokenizer({"model": model, "decoder": {"type": "ByteLevel"}})
        >>> list(tokenizer.stream([0, 1, 2, 3])), list(tokenizer.stream([[0, 1], [2, 3, 1]]))
        ([' Hi', '😀'], [' Hi', '😀', '\ufffd'])
        """
        prompt = list(prompt_ids)
        return TextStream(chunks, lambda: self.detokenizer(prompt, **options))

    @property
    def chat_format(self) -> ChatFormat | None:
        """The format that the model writes calls and reasoning in, found in the chat template, else
        by special tokens; None if neither decides.

        >>> from detok_py.tokenizers import load_tokenizer
        >>> model = {"type": "WordLevel", "vocab": {"Hi": 0}, "unk_token": "Hi"}
        >>> added = [{"id": 1, "content": "<seed:tool_call>", "special": True}]
        >>> load_tokenizer({"model": model, "added_tokens": added}).chat_format
        <ChatFormat seed_oss, found by special tokens: <seed:tool_call>>
        """
        found = find_format(
            self.chat_template,
            lambda spelling: spelling.encode() in marker_tokens(self.vocabulary),
            self.response_template,
        )
        return None if found is None else ChatFormat(found.name, found.found_by)

    @property
    def eos_ids(self) -> frozenset[int]:
        """The end-of-text ids: those of the files and those of `add_eos_id`."""
        return self.vocabulary.eos_ids

    @property
    def eos_sources(self) -> dict[int, str]:
        """Where each end-of-text id comes from: a file and its key, "its name" if no file says
        which tokens end a text, "its encoding" for a rank file, "add_eos_id".
        """
        return dict(self._eos)

    def add_eos_id(self, token_id: int) -> None:
        """Add an end-of-text id, for streams that are made from now on. Raises VocabularyError if
        it is not in the vocabulary.
        """
        (token_id,) = id_set([token_id], "token_id")
        self.vocabulary.stored_bytes(token_id)
        self._eos = {**self._eos, token_id: "add_eos_id"}
        self.vocabulary = self.vocabulary.with_eos_ids(self._eos)

    def is_eos(self, token_id: int) -> bool:
        """Return whether an id is an end-of-text id."""
        return as_id(token_id) in self.vocabulary.eos_ids
