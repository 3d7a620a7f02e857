"""The `detok` command: find the subcommand, hand over, turn every known failure into one sentence.

In: the command line. Out: an exit code: 0 done, 1 what the command was asked to look for was found (`check`),
2 it could not run. Each subcommand lives in a module of its own with `add_arguments(parser)` and `run(args) -> int`, and only
the one that was asked for is imported, so `detok decode` needs neither a web server nor a browser. A module that serves
several commands finds the name in `args.command`, and while it declares its options in `parser.get_default("command")`.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from detok_py import __version__
from detok_py.errors import DetokError


class Command(NamedTuple):
    """Where a subcommand lives, what it is for, and the pip extra that brings what it needs."""

    module: str
    purpose: str
    extra: str = ""


COMMANDS = {
    "serve": Command("detok_py.bridge.command", "serve the page and a WebSocket that streams a local engine's tokens", "serve"),
    "engines": Command("detok_py.bridge.engines_command", "look for engines on this machine and say what each can give", "serve"),
    "decode": Command("detok_py.commands.decode", "turn token ids or bytes into text, as they arrive"),
    "encode": Command("detok_py.commands.encode", "turn text into token ids"),
    "tokens": Command("detok_py.commands.tokens", "show what the tokens of a vocabulary or a text really are"),
    "pack": Command("detok_py.commands.pack", "write a tokenizer's vocabulary as one small .detok file"),
    "check": Command("detok_py.glyphs.command", "find broken glyphs in a chat page", "test"),
    "proxy": Command("detok_py.glyphs.command", "stand in front of an engine and cut its stream at every byte", "test"),
}


def command_line(asked: str | None) -> argparse.ArgumentParser:
    """Return the parser; only the subcommand `asked` for is imported and gets its options.

    >>> command_line(None).parse_args([]).command is None
    True
    """
    parser = argparse.ArgumentParser(prog="detok", description="Token bytes to text, exactly and as early as possible.")
    parser.add_argument("--version", action="version", version=f"detok {__version__}")
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, command in COMMANDS.items():
        sub = subcommands.add_parser(name, help=command.purpose, description=command.purpose[0].upper() + command.purpose[1:] + ".")
        sub.set_defaults(command=name)
        if name == asked:
            module = importlib.import_module(command.module)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one `detok` command and return its exit code; a known failure is one line on stderr and exit code 2.

    >>> main(["--version"])
    Traceback (most recent call last):
        ...
    SystemExit: 0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    asked = next((word for word in words if word in COMMANDS), None)
    try:
        try:
            parser = command_line(asked)
            args = parser.parse_args(words)
            if args.command is None:
                parser.print_help()
                return 2
            code: int = args.run(args)
            return code
        finally:
            # Here, where a reader that has gone can be answered for, and not when the interpreter ends.
            sys.stdout.flush()
    except DetokError as error:
        return refuse(str(error))
    except ModuleNotFoundError as error:
        sentence = missing(asked, error)
        if sentence is None:
            raise
        return refuse(sentence)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (`head`, a pager) has gone: nothing is wrong, and the interpreter must not try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.filename is None:
            raise
        return refuse(f"{os.fsdecode(error.filename)}: {error.strerror}.")


def missing(asked: str | None, error: ModuleNotFoundError) -> str | None:
    """Return the sentence for a package that a command needs and this installation lacks; None when it is a fault of ours.

    >>> missing("serve", ModuleNotFoundError("", name="starlette"))
    "detok serve needs the package 'starlette', which is not installed: pip install 'detok_py[serve]'."
    """
    if asked is None or error.name is None:
        return None
    command = COMMANDS[asked]
    if command.module == error.name or command.module.startswith(error.name + "."):
        return f"This installation of detok_py leaves out detok {asked} (it was made for a browser); install the full wheel."
    if error.name.split(".")[0] == "detok_py":
        return None
    package = error.name.split(".")[0]
    wanted = f"detok_py[{command.extra}]" if command.extra else package
    return f"detok {asked} needs the package {package!r}, which is not installed: pip install '{wanted}'."


def refuse(sentence: str) -> int:
    """Say on stderr, in one line, why nothing was done; return exit code 2."""
    print("detok: " + " ".join(sentence.split()), file=sys.stderr)
    return 2
