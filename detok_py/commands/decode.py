"""`detok decode`: a filter that writes the text of bytes or token ids as soon as it is certain.

In: a file or stdin: bytes, or with a tokenizer's file decimal ids, separated by white space or as a
JSON array (what `detok encode --json` writes). Out: UTF-8 on stdout, without buffering; with --json
an object a line. Held text is written at the end of input or at Ctrl-C. Exit codes: 0 at the end
of the input or of the answer, 130 if interrupted, 2 for an error, such as an unknown id, or invalid
UTF-8 with `--errors strict`. Text before the error is written.
"""

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..decode.chat import ChatStream
from ..decode.detokenizer import Detokenizer
from ..decode.stage import Delta
from ..decode.utf8 import ERROR_POLICIES, StreamingDetokenizer
from ..decode.vocabulary import Vocabulary
from ..errors import DetokError
from .encode import add_tokenizer, open_tokenizer, rank_options, settle

CHUNK = 1 << 16
LONGEST_ID = 20
SHOWN: dict[str, tuple[str, ...]] = {
    "strip": ("content", "tool_call"),
    "only": ("reasoning",),
    "show": ("content", "reasoning", "tool_call"),
}
TOKENIZERS = (".json", ".gguf", ".tiktoken", ".model", "vocab.txt", "merges.txt", ".detok")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_tokenizer(parser, packed=True)
    parser.add_argument(
        "input",
        nargs="?",
        metavar="INPUT",
        help="the file to decode; - or nothing is stdin. Without a tokenizer it is the only FILE: its name then ends in "
        f"none of {', '.join(TOKENIZERS)}",
    )
    parser.add_argument(
        "--json", action="store_true", help='write each piece as a line {"channel": …, "text": …}'
    )
    parser.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help="stop before this text; can be repeated",
    )
    parser.add_argument("--include-stop", action="store_true", help="write the stop text too")
    parser.add_argument(
        "--think",
        choices=sorted(SHOWN),
        default="show",
        help="how to treat <think>…</think>: show (default), strip, or show only the reasoning",
    )
    parser.add_argument(
        "--think-open", default="<think>", metavar="TAG", help="the tag that begins reasoning"
    )
    parser.add_argument(
        "--think-close", default="</think>", metavar="TAG", help="the tag that ends it"
    )
    parser.add_argument(
        "--thinking",
        action="store_true",
        help="the input begins inside reasoning, because the prompt contains the open tag",
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        help="read the markup of this format (qwen3_hermes, harmony, …): a call is written as a line of its name and arguments",
    )
    parser.add_argument(
        "--errors",
        choices=ERROR_POLICIES,
        default="replace",
        help="how to treat invalid UTF-8 (default: replace it by U+FFFD)",
    )
    parser.add_argument(
        "--ids",
        action="store_true",
        help="the input is token ids, separated by white space or as a JSON array; a FILE implies it",
    )
    parser.add_argument(
        "--show-special", action="store_true", help="for --ids: write special tokens as text"
    )


def run(args: argparse.Namespace) -> int:
    """Decode the input to stdout."""
    sort_files(args)
    stream = stream_of(args)
    shown = SHOWN[args.think]
    write = write_json if args.json else write_text
    code = 0
    try:
        with contextlib.ExitStack() as stack:
            source: Any = sys.stdin
            if args.input not in (None, "-"):
                source = stack.enter_context(Path(args.input).open("rb"))
            for chunk in chunks(read(source.fileno()), args.ids):
                write(stream.feed(chunk), shown)
                if stream.finish_reason is not None:
                    break
    except KeyboardInterrupt:
        code = 130
    except (DetokError, UnicodeError) as error:
        write(held_text(stream), shown)
        raise DetokError(message_of(error)) from None
    try:
        write(stream.flush(), shown)
    except UnicodeError as error:
        raise DetokError(message_of(error)) from None
    return code


def sort_files(args: argparse.Namespace) -> None:
    """Set `args.input` if the only FILE is the input and not a tokenizer."""
    file = args.tokenizer
    if file is None or args.input is not None:
        return
    of_ids = args.ids or args.show_special or args.encoding or args.pattern
    is_folder = Path(file).is_dir()
    is_tokenizer = of_ids or file.endswith(TOKENIZERS) or is_folder
    # The input may be a JSON file, but not a folder.
    is_second = args.named is not None and not (file.endswith(TOKENIZERS[1:]) or is_folder)
    if is_second or file == "-" or not is_tokenizer:
        args.input, args.tokenizer = file, None


def stream_of(args: argparse.Namespace) -> ChatStream:
    """Return the ChatStream for the options. Raises DetokError if they contradict each other."""
    if args.ids or args.tokenizer is not None or args.named is not None:
        settle(args)
        args.ids = True
    elif args.show_special or rank_options(args):
        option = rank_options(args) or "--show-special"
        raise DetokError(
            f"{option}: only for token ids; add the tokenizer's FILE, or drop it to decode bytes"
        )
    if args.thinking and args.think == "show" and not args.format:
        raise DetokError(
            "--thinking has an effect only with --think strip or --think only; add one of them"
        )
    tags = (args.think_open, args.think_close) if args.think != "show" else None
    detokenizer: Any = StreamingDetokenizer(args.errors)
    eos_ids: Iterable[int] = ()
    if args.ids:
        vocabulary, eos_ids = vocabulary_of(args)
        detokenizer = Detokenizer(
            vocabulary, errors=args.errors, skip_special_tokens=not args.show_special
        )
    markup: dict[str, Any] = {"reasoning": tags, "tools": None}
    if args.format:
        markup = {"format": args.format}
    try:
        return ChatStream(
            detokenizer,
            args.stop,
            eos_ids=eos_ids,
            **markup,
            start="reasoning" if args.thinking else "content",
            trim_artifacts=False,
            include_stop=args.include_stop,
        )
    except ValueError as error:
        raise DetokError(str(error)) from None


def vocabulary_of(args: argparse.Namespace) -> tuple[Vocabulary, Iterable[int]]:
    """Return the vocabulary and the end-of-text ids of a tokenizer file or a .detok file."""
    if Path(args.tokenizer).suffix == ".detok":
        vocabulary = Vocabulary.unpack(Path(args.tokenizer).read_bytes())
        return vocabulary, vocabulary.eos_ids
    tokenizer = open_tokenizer(args)
    return tokenizer.vocabulary, tokenizer.eos_ids


def read(source: int) -> Iterator[bytes]:
    """Yield bytes from a file descriptor as soon as they are available."""
    while data := os.read(source, CHUNK):
        yield data


def chunks(source: Iterable[bytes], are_ids: bool) -> Iterator[Any]:
    """Yield the chunks of bytes, or lists of the ids written in them.

    A chunk may end inside an id.

    >>> list(chunks([b"1 2", b"3 4", b"5"], True)), list(chunks([b"[1, 2", b"3]"], True))
    ([[1], [23], [45]], [[1], [23]])
    """
    if not are_ids:
        yield from source
        return
    rest = b""
    for data in source:
        words = re.split(rb"[\s,\[\]]+", rest + data)
        rest = words.pop()
        if len(rest) > LONGEST_ID:
            words, rest = [*words, rest], b""
        # One id at a time, so that text before an invalid id is written first.
        for word in words:
            if word:
                yield [id_of(word)]
    if rest:
        yield [id_of(rest)]


def id_of(word: bytes) -> int:
    """Return the id written in a word. Raises DetokError if it is not a decimal number."""
    if len(word) > LONGEST_ID or not re.fullmatch(rb"-?[0-9]+", word):
        raise DetokError(
            f"{word[:LONGEST_ID].decode('utf-8', 'replace')!r} is not a token id; --ids expects decimal numbers separated by white space"
        )
    return int(word)


def write_text(deltas: Iterable[Delta], shown: tuple[str, ...]) -> None:
    """Write the text of the shown channels to stdout and flush it."""
    text = "".join(
        (f"\n{delta.name} " if delta.name else "") + delta.text
        for delta in deltas
        if delta.channel in shown
    )
    if text:
        # A damaged vocabulary may produce half a surrogate pair; the rest is still written.
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()


def write_json(deltas: Iterable[Delta], shown: tuple[str, ...]) -> None:
    """Write each piece of the shown channels as a line of JSON, and flush them."""
    for delta in deltas:
        if delta.channel not in shown or not (delta.text or delta.name):
            continue
        line: dict[str, object] = {"channel": delta.channel, "text": delta.text}
        if delta.call is not None:
            line["call"] = delta.call
        if delta.name is not None:
            line["name"] = delta.name
        print(json.dumps(line), flush=True)


def held_text(stream: ChatStream) -> list[Delta]:
    """Return what a stream still holds after an error in its input."""
    try:
        return stream.flush()
    except UnicodeError:
        return []


def message_of(error: Exception) -> str:
    """Return the message for an error in the input."""
    if isinstance(error, UnicodeDecodeError):
        bad = error.object[error.start : error.end]
        return f"the input is not UTF-8: {bad.hex(' ')} ({error.reason}); --errors replace decodes the rest"
    return str(error)
