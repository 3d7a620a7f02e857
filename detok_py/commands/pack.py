"""`detok pack`: write a tokenizer's vocabulary to a small .detok file for browsers.

In: a tokenizer file. Out: a .detok file, and on stdout its name, size and sha256, which identifies
it in detok.v1.
"""

import argparse
import json
from pathlib import Path

from ..errors import DetokError
from .encode import add_tokenizer, open_tokenizer, settle
from .progress import waiting

COMMON = (
    *("tokenizer.json", "tekken.json", "tokenizer.model", "spiece.model"),
    *("vocab.json", "merges.txt", "vocab.txt"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_tokenizer(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the output file (default: the tokenizer's name with .detok, in this folder)",
    )
    parser.add_argument("--json", action="store_true", help="write what it says as JSON")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(args: argparse.Namespace) -> int:
    """Write the packed vocabulary."""
    settle(args)
    source = Path(args.tokenizer)
    # These files have the same name for all models, so take the folder's name.
    name = (
        source.resolve().parent.name
        if source.name in COMMON
        else source.resolve().name
        if source.is_dir()
        else source.stem
    )
    output = Path(args.output) if args.output is not None else Path(name + ".detok")
    if output.exists() and not args.force:
        raise DetokError(
            f"{output} exists already; name another file with -o, or overwrite it with --force"
        )
    if not output.parent.is_dir():
        raise DetokError(f"{output} cannot be written: its folder does not exist")
    vocabulary = open_tokenizer(args).vocabulary
    with waiting(f"packing {len(vocabulary)} tokens"):
        data = vocabulary.pack()
    # The file is replaced atomically, so that browsers never get a partial vocabulary.
    part = output.with_name(output.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(output)
    except OSError as error:  # which names the part
        raise DetokError(f"{output} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    if args.json:
        told = {"file": str(output), "tokens": len(vocabulary), "bytes": len(data)}
        print(json.dumps({**told, "sha256": vocabulary.sha256}))
        return 0
    print(f"{output}  {len(vocabulary)} tokens  {len(data)} bytes  sha256 {vocabulary.sha256}")
    return 0
