"""The `detok` command: run a subcommand and report expected errors in one sentence.

In: the command line. Out: an exit code: 0 success, 1 a check found a fault, `engines` no engine or
`formats explain` no format, 2 an error. Each subcommand is a module with `add_arguments(parser)`
and `run(args) -> int`. Only the requested one is imported, so `detok decode` needs no web server
and no browser. A module of several commands reads the name from `args.command`, or in
`add_arguments` from `parser.get_default("command")`.
"""

import argparse
import errno
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import __version__, interrupt
from .errors import DetokError

# A full disk, a quota, a limit of the file size, a failing device.
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


FILES = ("FILE", "INPUT", "PATH")  # metavars


class Command(NamedTuple):
    """The module of a subcommand, its purpose, and the pip extra that it needs."""

    module: str
    purpose: str
    extra: str = ""


COMMANDS = {
    "serve": Command(
        "detok_py.bridge.command",
        "serve the page and a WebSocket that streams a local engine's tokens",
        "serve",
    ),
    "engines": Command(
        "detok_py.bridge.engines_command",
        "list the engines on this machine and what each can provide, or check one: engines check URL",
        "serve",
    ),
    "decode": Command(
        "detok_py.commands.decode", "decode token ids or bytes to text as they arrive"
    ),
    "encode": Command("detok_py.commands.encode", "encode text to token ids"),
    "tokens": Command("detok_py.commands.tokens", "show the tokens of a text or of a vocabulary"),
    "pack": Command(
        "detok_py.commands.pack", "write a tokenizer's vocabulary to a small .detok file"
    ),
    "formats": Command(
        "detok_py.commands.formats", "list the formats of models, or explain which one a file has"
    ),
    "conformance": Command(
        "detok_py.commands.conformance", "run a streaming detokenizer through the conformance suite"
    ),
    "check": Command("detok_py.glyphs.command", "find broken glyphs in a chat page", "test"),
    "proxy": Command(
        "detok_py.glyphs.command",
        "forward an engine's stream, cut at every byte",
        "test",
    ),
}


class Completion(argparse.Action):
    """Prints what a shell reads to complete the command's words."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, shell: Any, *rest: Any) -> None:
        """Print it and exit."""
        try:
            import shtab
        except ModuleNotFoundError:
            raise DetokError(
                "shell completion needs the package 'shtab', which is not installed: pip install 'detok_py[completion]'."
            ) from None
        whole = command_line(*COMMANDS)
        subcommands: Any = next(a for a in whole._actions if isinstance(a.choices, dict))
        for sub in subcommands.choices.values():
            for action in sub._actions:
                if action.metavar in FILES:
                    action.complete = shtab.FILE
                # A word that may stand before what the user gives.
                words = re.findall(r"\[(\w+)\] ", str(action.metavar))
                action.choices = words or action.choices
        try:
            print(shtab.complete(whole, shell=shell))
        except NotImplementedError:
            known = ", ".join(shtab.SUPPORTED_SHELLS)
            raise DetokError(f"{shell!r} is none of the shells {known}.") from None
        parser.exit()


def command_line(*asked: str | None) -> argparse.ArgumentParser:
    """Return the parser; only the subcommands `asked` are imported and get their options.

    >>> command_line().parse_args([]).command is None
    True
    """
    parser = argparse.ArgumentParser(
        prog="detok", description="Decode token streams to text, exactly and as early as possible."
    )
    parser.add_argument("--version", action="version", version=f"detok {__version__}")
    parser.add_argument(
        "--print-completion",
        action=Completion,
        metavar="SHELL",
        help="print the completion for bash, zsh, fish, tcsh or powershell",
    )
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, command in COMMANDS.items():
        sub = subcommands.add_parser(
            name,
            help=command.purpose,
            description=command.purpose[0].upper() + command.purpose[1:] + ".",
        )
        sub.set_defaults(command=name)
        if name in asked:
            module = importlib.import_module(command.module)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a `detok` command and return its exit code.

    An expected error is one line on stderr and exit code 2.

    >>> main(["--version"])
    Traceback (most recent call last):
        ...
    SystemExit: 0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    write_utf8()
    asked = next((word for word in words if word in COMMANDS), None)
    try:
        try:
            parser = command_line(asked)
            args = parser.parse_args(words)
            if args.command is None:
                parser.print_help()
                return 2
            interrupt.interrupt()
            code: int = args.run(args)
            return code
        finally:
            interrupt.end()
            # Flush here, where a BrokenPipeError can be handled, not at the interpreter's exit.
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
        # The reader (`head`, a pager) has closed the pipe. This is no error, and the interpreter
        # must not flush again.
        drop_output()
        return 141
    except OSError as error:
        if error.filename is None:
            if error.errno not in NOT_WRITTEN:
                raise
            drop_output()
            return refuse(f"the output could not be written: {error.strerror}.")
        return refuse(f"{os.fsdecode(error.filename)}: {error.strerror}.")


def write_utf8() -> None:
    """Write UTF-8 into files and pipes, whatever the locale says; a terminal keeps its encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def drop_output() -> None:
    """Discard unwritten output, so that the interpreter's exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def missing(asked: str | None, error: ModuleNotFoundError) -> str | None:
    """Return the message for a package that a command needs; None if the error is a bug in detok.

    >>> missing("serve", ModuleNotFoundError("", name="starlette"))
    "detok serve needs the package 'starlette', which is not installed: pip install
    'detok_py[serve]'."
    """
    if asked is None or error.name is None:
        return None
    command = COMMANDS[asked]
    if command.module == error.name or command.module.startswith(error.name + "."):
        return f"This installation of detok_py is for browsers and does not include detok {asked}; install the full wheel."
    if error.name.split(".")[0] == "detok_py":
        return None
    package = error.name.split(".")[0]
    wanted = f"detok_py[{command.extra}]" if command.extra else package
    return f"detok {asked} needs the package {package!r}, which is not installed: pip install '{wanted}'."


def refuse(sentence: str) -> int:
    """Print a message to stderr in one line; return exit code 2."""
    print("detok: " + " ".join(sentence.split()), file=sys.stderr)
    return 2
