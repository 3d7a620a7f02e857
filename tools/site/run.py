"""Runs the examples of a document in the page: run-worker.js calls `run`.

In: a code block, with prompts as doctest reads them or without. Out: what its statements print and,
with prompts, what their values are, as Python's console shows them. All blocks of a page have the
same names.
"""

import contextlib
import io
import traceback

NAMES = {"__name__": "__main__"}


def statements(text: str) -> list[str]:
    """Return the statements of a block with prompts.

    >>> statements(">>> for x in 'ab':\\n...     x\\n'a'\\n'b'\\n>>> 1\\n1")
    ["for x in 'ab':\\n    x\\n", '1\\n']
    """
    out: list[str] = []
    for line in text.splitlines():
        if line.startswith(">>> "):
            out.append(line[4:] + "\n")
        elif line.startswith("...") and out:
            out[-1] += line[4:] + "\n"
    return out


def run(text: str) -> tuple[str, bool]:
    """Run a block up to its first error; return what it shows, and whether all of it ran.

    >>> run(">>> 1 + 1\\n>>> print('a')")
    ('2\\na\\n', True)
    >>> run("for x in 'ab':\\n    print(x)")
    ('a\\nb\\n', True)
    >>> run(">>> nothing\\n>>> 1")
    ("NameError: name 'nothing' is not defined\\n", False)
    """
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        try:
            if not text.startswith(">>> "):
                exec(compile(text, "<example>", "exec"), NAMES)
            for statement in statements(text):
                exec(compile(statement, "<example>", "single"), NAMES)
        except Exception as error:
            shown.write("".join(traceback.format_exception_only(error)))
            return shown.getvalue(), False
    return shown.getvalue(), True
