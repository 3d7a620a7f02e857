"""`detok encode`: encode a text to token ids.

In: a tokenizer file, and a text from the command line or stdin. Out: the ids on one line of stdout,
separated by spaces or as JSON.
"""

import argparse
import json
import sys
from pathlib import Path

from ..errors import DetokError
from ..tokenizers import load_tokenizer
from ..tokenizers.tiktoken import ENCODINGS
from ..tokenizers.tokenizer import Tokenizer
from .progress import waiting

FILE = (
    "tokenizer.json or its folder, *.model, *.gguf, *.tiktoken, tekken.json, vocab.json beside "
    "merges.txt, vocab.txt or RWKV's vocabulary"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_tokenizer(parser)
    parser.add_argument("text", nargs="?", help="the text; by default all of stdin, unchanged")
    parser.add_argument(
        "--add-special",
        action="store_true",
        help="add the special tokens of the tokenizer's template (beginning of text, [CLS], …)",
    )
    parser.add_argument(
        "--no-parse-special",
        action="store_true",
        help="encode special tokens in the text as ordinary text",
    )
    parser.add_argument("--json", action="store_true", help="write a JSON array")


def run(args: argparse.Namespace) -> int:
    """Write the ids of the text."""
    settle(args)
    tokenizer = open_tokenizer(args)
    text = args.text if args.text is not None else read_text()
    with waiting("encoding"):
        ids = tokenizer.encode(
            text, add_special_tokens=args.add_special, parse_special=not args.no_parse_special
        )
    print(json.dumps(ids) if args.json else " ".join(map(str, ids)))
    return 0


def add_tokenizer(parser: argparse.ArgumentParser, *, packed: bool = False) -> None:
    """Declare the options that name the tokenizer; `packed` if it may be a packed vocabulary."""
    kinds = FILE + ", or *.detok where nothing is encoded" if packed else FILE
    parser.set_defaults(kinds=kinds)
    parser.add_argument("tokenizer", nargs="?", metavar="FILE", help=kinds)
    parser.add_argument(
        "--tokenizer", "--vocabulary", dest="named", metavar="FILE", help="the same, by name"
    )
    parser.add_argument(
        "--encoding",
        help="the encoding of a tiktoken file that is not named after it, such as cl100k_base",
    )
    parser.add_argument(
        "--pattern", metavar="REGEX", help="the pattern of a tiktoken file of another encoding"
    )
    parser.add_argument(
        "--special-token",
        action="append",
        metavar="NAME=ID",
        help="a special token of a tiktoken file; can be repeated",
    )


def settle(args: argparse.Namespace) -> None:
    """Set `args.tokenizer` and `args.text`, from the positional arguments or `--tokenizer`."""
    if args.named is not None:
        given = args.tokenizer
        if given is not None and getattr(args, "text", given) is not None:
            raise DetokError(
                f"two tokenizers were given, {given} and {args.named}; pass one of them, not both"
            )
        if given is not None:
            args.text = given
        args.tokenizer, args.named = args.named, None
    if args.tokenizer is None:
        raise DetokError(f"no tokenizer was given; pass its FILE: {args.kinds}")
    if args.tokenizer.endswith(".detok") and rank_options(args):
        raise DetokError(misplaced(args))


def rank_options(args: argparse.Namespace) -> str:
    """Return the options given that only tiktoken files take, in words."""
    options = ("encoding", "pattern", "special_token")
    given = [one for one in options if getattr(args, one) is not None]
    return " and ".join("--" + one.replace("_", "-") for one in given)


def misplaced(args: argparse.Namespace) -> str:
    """Return the message for such options with another file."""
    name = Path(args.tokenizer).name
    return f"{name} has its own encoding; leave out {rank_options(args)}, only for *.tiktoken files"


def open_tokenizer(args: argparse.Namespace) -> Tokenizer:
    """Return the tokenizer that the options name."""
    special_tokens = _special_tokens(args.special_token)
    with waiting(f"reading {args.tokenizer}"):
        try:
            return load_tokenizer(
                args.tokenizer, args.encoding, pattern=args.pattern, special_tokens=special_tokens
            )
        except DetokError:
            if args.tokenizer.endswith(".detok"):
                raise DetokError(
                    f"{args.tokenizer} is a packed vocabulary, which can only be decoded; give the tokenizer's own file"
                ) from None
            if args.encoding is not None and args.encoding not in ENCODINGS:
                raise DetokError(
                    f"--encoding {args.encoding!r} is not known; give one of {', '.join(ENCODINGS)}; or leave it out and give "
                    f"--pattern and --special-token of {Path(args.tokenizer).name}"
                ) from None
            raise
        except ValueError as error:  # a file that has its own encoding
            raise DetokError(misplaced(args) if rank_options(args) else str(error)) from None


def _special_tokens(given: list[str] | None) -> dict[str, int] | None:
    """Return the ids of special tokens, each given as NAME=ID."""
    if given is None:
        return None
    out = {}
    for one in given:
        name, _, token_id = one.rpartition("=")
        if not name or not (token_id.isascii() and token_id.isdigit()):
            raise DetokError(
                f"--special-token takes NAME=ID, such as '<|end|>=100257', not {one!r}"
            )
        out[name] = int(token_id)
    return out


def read_text() -> str:
    """Return all of stdin with its newlines unchanged. Raises DetokError if it is not UTF-8."""
    data = sys.stdin.buffer.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DetokError(
            f"the text on stdin is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}; convert it to UTF-8"
        ) from None
