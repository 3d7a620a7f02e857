"""`detok pack`: a tokenizer's vocabulary as one small file, for browsers.

In: a tokenizer file. Out: a .detok file, and on stdout its name, size and sha256, which is its name in detok.v1.
"""

import argparse
from pathlib import Path

from ..errors import DetokError
from .encode import add_tokenizer, open_tokenizer
from .progress import waiting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_tokenizer(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it (the tokenizer's name with .detok, in this folder)")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")


def run(args: argparse.Namespace) -> int:
    """Write the packed vocabulary."""
    source = Path(args.tokenizer)
    # tokenizer.json and tekken.json are called alike everywhere: their folder says which model they are of.
    name = (
        source.resolve().parent.name
        if source.name in ("tokenizer.json", "tekken.json")
        else source.resolve().name
        if source.is_dir()
        else source.stem
    )
    output = Path(args.output) if args.output is not None else Path(name + ".detok")
    if output.exists() and not args.force:
        raise DetokError(f"{output} is there already; name another file with -o, or write over it with --force")
    vocabulary = open_tokenizer(args).vocabulary
    with waiting(f"packing {len(vocabulary)} tokens"):
        data = vocabulary.pack()
    # Written whole or not at all: a half-written vocabulary would be served to browsers.
    part = output.with_name(output.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
    print(f"{output}  {len(vocabulary)} tokens  {len(data)} bytes  sha256 {vocabulary.sha256}")
    return 0
