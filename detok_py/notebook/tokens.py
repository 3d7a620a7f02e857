"""The tokens of a text or a stream: what each holds, and what became of each of its bytes.

In: a tokenizer or a vocabulary, and ids or a text; or chunks of bytes. Out: a sequence of Token.
Held: what is not certain yet, until `flush`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, overload

from ..decode.detokenizer import Detokenizer
from ..decode.utf8 import StreamingDetokenizer, subparts
from ..decode.vocabulary import Vocabulary
from ..tokenizers.tokenizer import Tokenizer
from . import html
from .token import HELD, REPLACED, WHOLE, Token


class TokenList(Sequence[Token]):
    r"""The tokens of a text, as a stream gives them. A notebook shows them with their bytes.

    `source` is a tokenizer, a vocabulary, or None for chunks of bytes; `given` are ids, a text (for
    a tokenizer), or chunks. More can be added with `add`; `flush` ends the stream.

    >>> tokens = TokenList(None, [b"caf\xc3", b"\xa9\xff"])
    >>> [token.text for token in tokens], [token.states for token in tokens], tokens.text
    (['caf', 'é\ufffd'], ['ccch', 'cr'], 'café\ufffd')
    >>> tokens
    <TokenList: 2 tokens, 1 ends inside a character, 'café\ufffd'>
    """

    def __init__(
        self,
        source: Tokenizer | Vocabulary | None,
        given: str | bytes | Iterable[int] | Iterable[bytes] = (),
        *,
        prompt_ids: Iterable[int] = (),
        skip_special_tokens: bool = True,
    ) -> None:
        self.source: Tokenizer | Vocabulary | None = source
        self.stream: Detokenizer | StreamingDetokenizer
        if source is None:
            self.stream = StreamingDetokenizer()
        elif isinstance(source, Tokenizer):
            self.stream = source.detokenizer(prompt_ids, skip_special_tokens=skip_special_tokens)
        else:
            self.stream = Detokenizer(source, prompt_ids, skip_special_tokens=skip_special_tokens)
        self._tokens: list[Token] = []
        self._open: int = 0  # the first token whose bytes can still change their states
        self.ended: bool = False
        if isinstance(given, str):
            if not isinstance(source, Tokenizer):
                raise TypeError("a text needs a tokenizer; give token ids")
            given = source.encode(given)
        if given:
            given = [given] if isinstance(given, bytes) and source is None else given
            for each in given:
                self.add(each)
            self.flush()

    def add(self, token: int | bytes) -> Token:
        """Add one token id, or a chunk of bytes; return its Token as far as it is certain.

        Bytes may follow ids, if they are of tokens whose ids are not known; then all are bytes.
        """
        early = ""
        if isinstance(token, (bytes, bytearray, memoryview)) and not self.ended:
            if isinstance(self.stream, Detokenizer):
                held, self.stream = self.stream.held, StreamingDetokenizer()
                early = self.stream.feed(held)
        if isinstance(self.stream, StreamingDetokenizer):
            if not isinstance(token, (bytes, bytearray, memoryview)):
                raise TypeError(f"a stream without a vocabulary takes bytes, not {token!r}")
            made = Token(None, bytes(token), early + self.stream.feed(token), "", b"")
        else:
            vocabulary = self.stream.vocabulary
            text = self.stream.push(token)  # type: ignore[arg-type]
            data = vocabulary.token_bytes(int(token))
            skipped = self.stream.skip_special_tokens and token in vocabulary.special_ids
            name = data.decode("utf-8", "replace") if skipped else ""
            made = Token(int(token), data, text, "", b"", name)
        self._tokens.append(made._replace(held=self.stream.held_bytes))
        self._find_states(end=False)
        return self._tokens[-1]

    def flush(self) -> str:
        """End the stream; return the text that was still held, which the last token gets."""
        if self.ended:
            return ""
        self.ended = True
        rest = self.stream.flush()
        if self._tokens:
            last = self._tokens[-1]
            self._tokens[-1] = last._replace(text=last.text + rest, held=b"")
        self._find_states(end=True)
        return rest

    def _find_states(self, end: bool) -> None:
        """Write the states of the tokens from the first one that is not settled."""
        part = [token for token in self._tokens[self._open :] if not token.name]
        data = b"".join(token.data for token in part)
        ends: list[int] = []
        for token in part:
            ends.append((ends[-1] if ends else 0) + len(token.data))
        letters: list[str] = []
        for size, text in subparts(data):
            begin = len(letters)
            replaced = text == "\ufffd" and data[begin : begin + size] != "\ufffd".encode()
            if replaced and begin + size == len(data) and not end and self.stream.held_bytes:
                letters += HELD * size  # its end may still come
                continue
            # All bytes before the last end of a token within the character have waited.
            cut = max([e for e in ends if begin < e < begin + size], default=begin)
            letters += HELD * (cut - begin) + WHOLE * (begin + size - cut)
            if replaced:
                letters[begin : begin + size] = REPLACED * size
        found = "".join(letters)
        at = 0
        for n in range(self._open, len(self._tokens)):
            token = self._tokens[n]
            size = 0 if token.name else len(token.data)
            states = WHOLE * len(token.data) if token.name else found[at : at + size]
            self._tokens[n] = token._replace(states=states)
            at += size
        if not self.stream.held_bytes:
            self._open = len(self._tokens)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(token.text for token in self._tokens)

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> list[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | list[Token]:
        return self._tokens[index]

    def __len__(self) -> int:
        return len(self._tokens)

    def __repr__(self) -> str:
        inside = sum(HELD in token.states for token in self)
        return (
            f"<TokenList: {len(self)} tokens, {inside} end{'s' * (inside == 1)} inside a character, "
            f"{self.text!r}>"
        )

    def _repr_html_(self) -> str:
        return html.token_list(self, self.text)


def listed(source: Any, given: Any) -> TokenList:
    """Return `given` as a TokenList; one is returned as it is."""
    return given if isinstance(given, TokenList) else TokenList(source, given)
