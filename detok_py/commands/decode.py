"""`detok decode`: a filter. Bytes or token ids in, text out, as soon as it is certain.

In: stdin, as it arrives: bytes, or with `--ids` decimal ids with white space between them. Out: UTF-8 on stdout, written at once. What
is held comes out when the input ends, or at Ctrl-C. Exit codes: 0 the input or the answer has ended, 130 interrupted, 2 it could not
run (an id that the vocabulary doesn't have, bytes that are no UTF-8 with `--errors strict`); what was certain before is written.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..chat import ChatStream
from ..detokenizer import Detokenizer
from ..errors import DetokError
from ..segments import Delta
from ..utf8 import ERROR_POLICIES, StreamingDetokenizer
from ..vocabulary import Vocabulary

CHUNK = 1 << 16
LONGEST_ID = 20
SHOWN = {"strip": ("content", "tool_call"), "only": ("reasoning",), "show": ("content", "reasoning", "tool_call")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this text; may be given many times")
    parser.add_argument("--include-stop", action="store_true", help="show the stop text too")
    parser.add_argument(
        "--think",
        choices=sorted(SHOWN),
        default="show",
        help="what to do with <think>…</think>: leave it (default), strip it, or show only it",
    )
    parser.add_argument("--think-open", default="<think>", metavar="TAG", help="the tag that begins reasoning")
    parser.add_argument("--think-close", default="</think>", metavar="TAG", help="the tag that ends it")
    parser.add_argument("--thinking", action="store_true", help="the prompt has opened the reasoning: the input begins inside it")
    parser.add_argument(
        "--errors", choices=ERROR_POLICIES, default="replace", help="what bytes become that are no UTF-8 (default: replace, by U+FFFD)"
    )
    parser.add_argument("--ids", action="store_true", help="the input is token ids, decimal, with white space between them")
    parser.add_argument(
        "--tokenizer",
        "--vocabulary",
        metavar="FILE",
        help="for --ids: tokenizer.json or its folder, *.gguf, *.tiktoken, tekken.json or *.detok",
    )
    parser.add_argument("--encoding", help="the encoding of a tiktoken file whose name doesn't say it")
    parser.add_argument("--show-special", action="store_true", help="for --ids: special tokens are text")


def run(args: argparse.Namespace) -> int:
    """Decode stdin to stdout."""
    stream = stream_of(args)
    shown = SHOWN[args.think]
    code = 0
    try:
        for chunk in chunks(read(sys.stdin.fileno()), args.ids):
            write(stream.feed(chunk), shown)
            if stream.finish_reason is not None:
                break
    except KeyboardInterrupt:
        code = 130
    except (DetokError, UnicodeError) as error:
        write(ended(stream), shown)
        raise DetokError(sentence(error)) from None
    try:
        write(stream.flush(), shown)
    except UnicodeError as error:
        raise DetokError(sentence(error)) from None
    return code


def stream_of(args: argparse.Namespace) -> ChatStream:
    """Return the stream that the options ask for."""
    if args.ids and not args.tokenizer:
        raise DetokError("--ids needs the vocabulary of the ids: --tokenizer FILE")
    if not args.ids and (args.tokenizer or args.show_special):
        raise DetokError("--tokenizer and --show-special are about ids: add --ids, or leave them out to decode bytes")
    if args.thinking and args.think == "show":
        raise DetokError("--thinking says where reasoning begins, which matters to --think strip and --think only: add one of them")
    tags = (args.think_open, args.think_close) if args.think != "show" else None
    detokenizer: Any = StreamingDetokenizer(args.errors)
    eos_ids: Iterable[int] = ()
    if args.ids:
        vocabulary, eos_ids = vocabulary_of(args)
        detokenizer = Detokenizer(vocabulary, errors=args.errors, skip_special_tokens=not args.show_special)
    try:
        return ChatStream(
            detokenizer,
            args.stop,
            eos_ids,
            tags,
            None,
            "reasoning" if args.thinking else "content",
            False,
            include_stop=args.include_stop,
        )
    except ValueError as error:
        raise DetokError(str(error)) from None


def vocabulary_of(args: argparse.Namespace) -> tuple[Vocabulary, Iterable[int]]:
    """Return the vocabulary of a tokenizer file, or of a packed one, and the ids that end a text."""
    if Path(args.tokenizer).suffix == ".detok":
        vocabulary = Vocabulary.unpack(Path(args.tokenizer).read_bytes())
        return vocabulary, vocabulary.eos_ids
    from .encode import open_tokenizer

    tokenizer = open_tokenizer(args)
    return tokenizer.vocabulary, tokenizer.eos_ids


def read(source: int) -> Iterator[bytes]:
    """Yield what a file descriptor gives, as soon as there is any."""
    while data := os.read(source, CHUNK):
        yield data


def chunks(source: Iterable[bytes], are_ids: bool) -> Iterator[Any]:
    """Yield chunks of bytes as they are, or the ids that are written in them; an id may be cut anywhere.

    >>> list(chunks([b"1 2", b"3 4", b"5"], True))
    [[1], [23], [45]]
    """
    if not are_ids:
        yield from source
        return
    rest = b""
    for data in source:
        words = re.split(rb"\s+", rest + data)
        rest = words.pop()
        if len(rest) > LONGEST_ID:
            words, rest = [*words, rest], b""
        # One by one: what the ids before a bad one have made certain is shown before it is refused.
        for word in words:
            if word:
                yield [id_of(word)]
    if rest:
        yield [id_of(rest)]


def id_of(word: bytes) -> int:
    """Return the id that a word spells."""
    if len(word) > LONGEST_ID or not re.fullmatch(rb"-?[0-9]+", word):
        raise DetokError(
            f"{word[:LONGEST_ID].decode('utf-8', 'replace')!r} is no token id; --ids takes decimal numbers with white space between them"
        )
    return int(word)


def write(deltas: Iterable[Delta], shown: tuple[str, ...]) -> None:
    """Write the text of the channels that are shown, at once."""
    text = "".join(delta.text for delta in deltas if delta.channel in shown)
    if text:
        # A token of a damaged vocabulary may bring half a surrogate pair: that is no reason to lose the rest.
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def ended(stream: ChatStream) -> list[Delta]:
    """Return what a stream still holds when its input turned out to be bad."""
    try:
        return stream.flush()
    except UnicodeError:
        return []


def sentence(error: Exception) -> str:
    """Say what is wrong with the input."""
    if isinstance(error, UnicodeDecodeError):
        bad = error.object[error.start : error.end]
        return f"the input is not UTF-8: {bad.hex(' ')} ({error.reason}); --errors replace shows the rest"
    return str(error)
