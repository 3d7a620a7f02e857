"""What a notebook shows of an object, as HTML without scripts.

In: a list of tokens, a vocabulary, a tokenizer or a stream. Out: HTML. Each byte has a sign, a
letter and a colour, as in the page. Styles are attributes: a notebook that is not trusted, and
GitHub, drop style sheets.
"""

import html
from collections.abc import Iterable, Sequence
from typing import Any

from ..decode.utf8 import last_complete_utf8_end
from ..decode.vocabulary import Vocabulary
from ..errors import VocabularyError
from .token import HELD, REPLACED, WHOLE, Token

MAX_TOKENS = 400  # that are drawn
MAX_COUNTED = 300_000  # tokens of a vocabulary that are looked at
SIGNS = {WHOLE: "■", HELD: "◧", REPLACED: "✕"}
NAMES = {WHOLE: "complete", HELD: "held for a later token", REPLACED: "replaced by U+FFFD"}
# Readable on white and on black: the text has the notebook's own colour.
COLOURS = {WHOLE: "#2e8b5755", HELD: "#d99a0088", REPLACED: "#d6333388"}
BOX = "display:inline-block;vertical-align:top;margin:2px;padding:2px 4px;border:1px solid #8886;border-radius:4px;text-align:center"
MONO = "font-family:monospace;font-size:85%"


def escaped(text: str) -> str:
    """Return text for HTML; spaces and control characters can be seen.

    >>> escaped(" a\\n<b>")
    '␣a␊&lt;b&gt;'
    """
    seen = "".join(
        "␣" if char == " " else chr(0x2400 + ord(char)) if char < " " else char for char in text
    )
    return html.escape(seen)


def byte_cells(data: bytes, states: str) -> str:
    """Return the cells of some bytes in hexadecimal."""
    return "".join(
        f'<span title="{NAMES[state]}" style="padding:0 2px;margin:1px;background:{COLOURS[state]}">'
        f"{byte:02x}<small>{SIGNS[state]}{state}</small></span>"
        for byte, state in zip(data, states)
    )


def token_box(token: Token) -> str:
    """Return the box of a token: its bytes, its text and its id."""
    text = f"<i>{escaped(token.name)}</i>" if token.name else f"<bdi>{escaped(token.text)}</bdi>"
    number = "" if token.id is None else f'<div style="{MONO};opacity:.7">{token.id}</div>'
    cells = byte_cells(token.data, token.states)
    return f'<span role="listitem" style="{BOX}"><div style="{MONO}">{cells}</div>{text or "&nbsp;"}{number}</span>'


def boxes(tokens: Iterable[Token]) -> str:
    """Return a list of boxes."""
    return f'<div role="list" style="line-height:1.5">{"".join(map(token_box, tokens))}</div>'


def legend() -> str:
    """Return what the signs mean."""
    signs = " · ".join(f"{SIGNS[state]}{state} {NAMES[state]}" for state in SIGNS)
    return f'<div style="font-size:85%;opacity:.8">{signs}</div>'


def token_list(tokens: Sequence[Token], text: str) -> str:
    """Return the HTML of a list of tokens and their text."""
    inside = sum(HELD in token.states for token in tokens)
    damaged = sum(REPLACED in token.states for token in tokens)
    head = f"<b>{len(tokens)} tokens</b>, {inside} with bytes that waited, {damaged} with damage"
    more = len(tokens) - MAX_TOKENS
    rest = f"<div>and {more} more</div>" if more > 0 else ""
    quote = f'<blockquote dir="auto" style="white-space:pre-wrap">{html.escape(text)}</blockquote>'
    return f"<div>{head}{quote}{boxes(tokens[:MAX_TOKENS])}{rest}{legend()}</div>"


def table(rows: Iterable[tuple[str, object]]) -> str:
    """Return a table of names and values."""
    cells = "".join(
        f'<tr><th scope="row" style="text-align:left">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f"<table>{cells}</table>"


def is_inside(data: bytes) -> bool:
    """Return whether a token begins or ends inside a character.

    >>> [is_inside(data) for data in (b"a", b"\\xc3", b"\\xa9", "é".encode())]
    [False, True, True, False]
    """
    return bool(data) and (last_complete_utf8_end(data) < len(data) or 0x80 <= data[0] < 0xC0)


def vocabulary(given: Vocabulary) -> str:
    """Return the HTML of a vocabulary: how large it is, and how many of its tokens are not whole
    characters, with the first of them.
    """
    parts: list[Token] = []
    count, looked, longest = 0, 0, b""
    for token_id in range(min(len(given), MAX_COUNTED)):
        try:
            data = given.token_bytes(token_id)
        except VocabularyError:
            continue  # the vocabulary has no token with this id
        looked += 1
        longest = max(longest, data, key=len)
        if is_inside(data):
            count += 1
            if len(parts) < 12:
                parts.append(shown_alone(token_id, data))
    more = f" of the first {looked:,}" if len(given) > MAX_COUNTED else ""
    rows = [
        ("ids", f"{len(given):,}"),
        ("special tokens", f"{len(given.special_ids):,}"),
        ("ends of an answer", ", ".join(map(str, sorted(given.eos_ids))) or "none"),
        ("format", given.chat_format or "none"),
        ("begin or end inside a character", f"{count:,}{more}"),
        ("longest token", f"{len(longest)} bytes"),
    ]
    return f"<div><b>Vocabulary</b>{table(rows)}{boxes(parts)}</div>"


def shown_alone(token_id: int, data: bytes) -> Token:
    """Return a token as it is without its neighbours: bytes that are no character are held."""
    whole = last_complete_utf8_end(data)
    lead = next((i for i, byte in enumerate(data) if not 0x80 <= byte < 0xC0), len(data))
    states = HELD * lead + WHOLE * max(0, whole - lead)
    states += HELD * (len(data) - len(states))
    text = data[lead:whole].decode("utf-8", "replace")
    return Token(token_id, data, text, states, b"")


def shown(given: Any) -> str:
    """Return the HTML of a vocabulary, a tokenizer or a stream."""
    if isinstance(given, Vocabulary):
        return vocabulary(given)
    return tokenizer(given) if hasattr(given, "encode") else stream(given)


def tokenizer(given: Any) -> str:
    """Return the HTML of a tokenizer: its family, and its vocabulary."""
    rows = table([("family", given.family), ("ends of an answer", sorted(given.eos_ids))])
    return f"<div><b>Tokenizer</b>{rows}{vocabulary(given.vocabulary)}</div>"


def stream(given: Any) -> str:
    """Return the HTML of a stream: the bytes and the text that wait."""
    data, text = given.held_bytes, given.held_text
    held = byte_cells(data, HELD * len(data)) if data else "none"
    waiting = f"<bdi>{escaped(text)}</bdi>" if text else "none"
    return (
        f"<div><b>{type(given).__name__}</b><table>"
        f'<tr><th scope="row" style="text-align:left">bytes held</th><td style="{MONO}">{held}</td></tr>'
        f'<tr><th scope="row" style="text-align:left">text held</th><td>{waiting}</td></tr></table>'
        f"<code>{html.escape(repr(given))}</code></div>"
    )
