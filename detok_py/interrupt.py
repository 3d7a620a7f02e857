"""Ctrl-C while the `detok` command is still being imported.

Python would raise a KeyboardInterrupt, which nothing catches before the command has begun. From the
first import of detok_py on, the signal therefore ends the process, as it does in C. This applies
only to the `detok` command: a program that imports detok_py keeps its handler.
"""

import sys

# Only what is built in: importing `signal` or `typing` takes as long as a part of detok_py.
_signal = __import__("_signal")


def is_command(argv: list[str], original: list[str]) -> bool:
    """Return whether a command line runs `detok` or `python -m detok_py`.

    >>> is_command(["/usr/bin/detok", "serve"], []), is_command(["-m"], ["python", "-m", "pytest"])
    (True, False)
    """
    program = argv[0].replace("\\", "/").rpartition("/")[2] if argv else ""
    named = any(original[at : at + 2] == ["-m", "detok_py"] for at in range(len(original)))
    return named or program in ("detok", "detok.exe")


def _replace(old: object, new: object) -> None:
    """Change the handler, unless a parent process or a program has set another."""
    if _signal.getsignal(_signal.SIGINT) == old:
        try:
            _signal.signal(_signal.SIGINT, new)
        except ValueError:
            pass  # not the main thread


def end() -> None:
    """Let Ctrl-C end the process at once, if it is the command."""
    if is_command(getattr(sys, "argv", []), getattr(sys, "orig_argv", [])):
        _replace(_signal.default_int_handler, _signal.SIG_DFL)


def interrupt() -> None:
    """Let Ctrl-C be a KeyboardInterrupt again, which commands catch."""
    _replace(_signal.SIG_DFL, _signal.default_int_handler)


end()
