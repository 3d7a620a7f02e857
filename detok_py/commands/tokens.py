r"""`detok tokens`: show the tokens of a text or of a whole vocabulary.

In: a tokenizer file or a packed vocabulary, and a text, ids, or neither (then every token). Out:
one line per token: its id, its bytes in hexadecimal, "whole" or "part" (of a character), its text
with invalid bytes as \x.. and controls escaped, and whether it is special, ends a text, or is a
marker of the chat format that was found.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..decode.format_channels import form_for, known_format
from ..decode.vocabulary import Vocabulary
from ..errors import DetokError, VocabularyError
from .encode import add_tokenizer, open_tokenizer, settle
from .progress import waiting


class Token(NamedTuple):
    """The fields of a line."""

    id: int
    hex: str
    whole: bool
    text: str
    special: bool
    eos: bool
    format: str | None = None  # the format that it is a marker of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_tokenizer(parser, packed=True)
    parser.add_argument(
        "text",
        nargs="?",
        help="show the tokens of this text; without it and without --ids, the whole vocabulary",
    )
    parser.add_argument("--ids", nargs="+", type=int, metavar="ID", help="show these ids")
    parser.add_argument(
        "--split", action="store_true", help="show only tokens that end or begin inside a character"
    )
    parser.add_argument("--special", action="store_true", help="show only special tokens")
    parser.add_argument("--json", action="store_true", help="write one JSON object per line")


def run(args: argparse.Namespace) -> int:
    """Write a line for each requested token."""
    settle(args)
    if args.text is not None and args.ids is not None:
        raise DetokError("a text and --ids were given; pass one of them, not both")
    ids: Iterable[int]
    if Path(args.tokenizer).suffix == ".detok":
        if args.text is not None:
            raise DetokError(
                f"{args.tokenizer} is a packed vocabulary, which can't encode a text; pass the tokenizer's own file, or --ids"
            )
        vocabulary = Vocabulary.unpack(Path(args.tokenizer).read_bytes())
        eos_ids = vocabulary.eos_ids
    else:
        tokenizer = open_tokenizer(args)
        vocabulary, eos_ids = tokenizer.vocabulary, tokenizer.eos_ids
        if args.text is not None:
            with waiting("encoding"):
                args.ids = tokenizer.encode(args.text)
    ids = range(len(vocabulary)) if args.ids is None else args.ids
    markers = marker_ids(vocabulary)
    for token_id in ids:
        try:
            data = vocabulary.token_bytes(token_id)
        except VocabularyError:
            if args.ids is not None:
                raise
            continue  # the vocabulary has no token with this id
        token = describe(token_id, data, token_id in vocabulary.special_ids, token_id in eos_ids)
        if token_id in markers:
            token = token._replace(format=vocabulary.chat_format)
        if (args.split and token.whole) or (args.special and not token.special):
            continue
        print(json.dumps(token._asdict(), ensure_ascii=False) if args.json else line(token))
    return 0


def describe(token_id: int, data: bytes, special: bool = False, eos: bool = False) -> Token:
    r"""Return the fields of a token's line.

    >>> token = describe(7, b" \xf0\x9f")
    >>> token.hex, token.whole, token.text
    ('20f09f', False, ' \\xf0\\x9f')
    """
    try:
        text, whole = data.decode(), True
    except UnicodeDecodeError:
        text, whole = data.decode("utf-8", "backslashreplace"), False
    return Token(token_id, data.hex(), whole, text, special, eos)


def marker_ids(vocabulary: Vocabulary) -> set[int]:
    """Return the ids of the markers of a vocabulary's chat format.

    >>> marker_ids(Vocabulary.from_bytes([b"<think>"]))
    set()
    """
    name = known_format(vocabulary.chat_format)
    return set() if name is None else set(form_for(name, vocabulary).marker_ids)


def line(token: Token) -> str:
    r"""Return a token as a line for people.

    >>> line(describe(7, b"\n\xc3"))
    "     7  0ac3                      part   '\\n\\xc3'"
    """
    text = repr(token.text)
    if not token.whole:
        text = text.replace("\\\\x", "\\x")  # undo the second escape of an invalid byte
    kind = "whole" if token.whole else "part"
    flags = {"special": token.special, "end of text": token.eos}
    flags[f"marker of {token.format}"] = token.format is not None
    marks = "".join([f"  {mark}" for mark, on in flags.items() if on])
    return f"{token.id:6}  {token.hex:24}  {kind:5}  {text}{marks}"
