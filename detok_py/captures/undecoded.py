"""Names of tokens in the place of what they stand for: `<0xE9>` of a byte, `Ġ` or `▁` of a space.

In: the text of each row. Out: the rows that have names, and what they stand for. Held: nothing.
"""

from typing import Iterator

from ..decode.byte_level import byte_level
from .parse import is_utf8

BYTE = "<0x"
SIZE = 6  # characters of the name of a byte
SPACES = ("\u0120", "\u2581")  # in byte-level vocabularies, and in those of SentencePiece
LEAST_SPACES = 3


def named_bytes(texts: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield (row, names, characters) of names of bytes that are each a row, or the end of one and
    the beginning of the next, and are UTF-8 together.

    >>> list(named_bytes(["a", "<0xC3>", "<0xA9>", "b", "Write <0x0A>, "]))
    [(1, '<0xC3><0xA9>', 'é')]
    """
    if BYTE not in "".join(texts):
        return  # at once: a long stream has 100,000 rows
    begin, held = 0, b""
    for row, text in enumerate(texts + [""]):
        data = _bytes_of(text)
        if data and not held:
            begin = row
        if not data and held:
            if is_utf8(held):
                yield begin, "".join([f"<0x{byte:02X}>" for byte in held]), held.decode()
            held = b""
        held += data


def _bytes_of(text: str) -> bytes:
    """Return the bytes that a text names, if it has nothing else; b"" for others."""
    out = []
    for at in range(0, len(text), SIZE):
        name = text[at : at + SIZE]
        digits = name[3:5]
        is_name = len(name) == SIZE and name[:3] == BYTE and name[5] == ">"
        if not is_name or not all(c in "0123456789ABCDEF" for c in digits):
            return b""
        out.append(int(digits, 16))
    return bytes(out)


def _behind(text: str, space: str) -> str:
    """Return what is behind the signs that begin a text."""
    while text[:1] == space:
        text = text[1:]
    return text


def named_spaces(texts: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield (row, text, right text) of rows that are entries of a vocabulary, if all are: the text
    has a sign in the place of each space. The right text is "" if it is not UTF-8.

    >>> list(named_spaces(["Die", "ĠStra", "ÃŁe", "Ġist", "Ġda"]))
    [(1, 'ĠStra', ' Stra'), (2, 'ÃŁe', 'ße'), (3, 'Ġist', ' ist'), (4, 'Ġda', ' da')]
    >>> list(named_spaces(["▁Ja", "▁und", "▁nein", "."]))
    [(0, '▁Ja', ' Ja'), (1, '▁und', ' und'), (2, '▁nein', ' nein')]
    """
    whole = "".join(texts)
    for space in SPACES:
        if " " in whole or whole.count(space) < LEAST_SPACES:
            continue
        words = [_behind(text, space) for text in texts if text[:1] == space]
        inside = [text for text in texts if space in _behind(text, space)]
        if inside or len([word for word in words if word]) < LEAST_SPACES:
            continue  # pieces that are no tokens: a line of such signs, or text about them
        for row, text in enumerate(texts):
            data = byte_level(text) if space == SPACES[0] else text.replace(space, " ").encode()
            right = data.decode() if is_utf8(data) else ""
            if right != text:
                yield row, text, right
        return
