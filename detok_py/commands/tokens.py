r"""`detok tokens`: show the tokens of a text or of a whole vocabulary.

In: a tokenizer file or a packed vocabulary, and a text, ids, or neither (then every token). Out:
one line per token: its id, its bytes in hexadecimal, "whole" or "part" (of a character), its text
with invalid bytes as \x.. and controls escaped, and whether it is special or ends a text.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_tokenizer(parser)
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
    for token_id in ids:
        try:
            data = vocabulary.token_bytes(token_id)
        except VocabularyError:
            if args.ids is not None:
                raise
            continue  # the vocabulary has no token with this id
        token = describe(token_id, data, token_id in vocabulary.special_ids, token_id in eos_ids)
        if (args.split and token.whole) or (args.special and not token.special):
            continue
        print(json.dumps(token._asdict(), ensure_ascii=False) if args.json else line(token))
    return 0


def describe(token_id: int, data: bytes, special: bool = False, eos: bool = False) -> Token:
    r"""Return the fields of a token's line.

    >>> describe(7, b" \xf0\x9f")
    Token(id=7, hex='20f09f', whole=False, text=' \\xf0\\x9f', special=False, eos=False)
    """
    try:
        text, whole = data.decode(), True
    except UnicodeDecodeError:
        text, whole = data.decode("utf-8", "backslashreplace"), False
    return Token(token_id, data.hex(), whole, text, special, eos)


def line(token: Token) -> str:
    r"""Return a token as a line for people.

    >>> line(describe(7, b"\n\xc3"))
    "     7  0ac3                      part   '\\n\\xc3'"
    """
    text = repr(token.text)
    if not token.whole:
        text = text.replace("\\\\x", "\\x")  # undo the second escape of an invalid byte
    kind = "whole" if token.whole else "part"
    marks = "".join(
        [f"  {mark}" for mark, on in (("special", token.special), ("end of text", token.eos)) if on]
    )
    return f"{token.id:6}  {token.hex:24}  {kind:5}  {text}{marks}"
