"""The functions that a page's worker calls: answers by number, the steps of text streams, JSON out.

In: numbers, JSON texts, and bytes (inbox.py). Out: JSON texts. Held: one decoder for each answer
that is open, until `release`. These functions are the only Python objects that JavaScript keeps.
"""

import json
import os
import sys
from typing import Any

import detok_py

from .answer import Answer, unpack_vocabulary
from .inbox import given_bytes, inbox, read_from_file
from .steps import begin_steps, fan, tokens_of, walk

__all__ = [
    "begin_steps",
    "extend",
    "fan",
    "inbox",
    "read_from_file",
    "tokens_of",
    "walk",
]

_answers: dict[int, Answer] = {}


def about() -> str:
    """Return which Python this is, and which detok_py."""
    version = ".".join([str(n) for n in sys.version_info[:3]])
    return json.dumps(
        {"python": sys.implementation.name + " " + version, "detok": detok_py.__version__}
    )


def keep_vocabulary(given: "int | str", sha256: "str | None" = None) -> str:
    """Keep a packed vocabulary; return `[sha256, count of ids, format or null]`. Raises
    VocabularyError if it is damaged. `sha256` is that of the data, if the browser has computed it:
    in MicroPython that takes long.
    """
    vocabulary = unpack_vocabulary(given_bytes(given), known=sha256)
    return json.dumps([vocabulary.sha256, len(vocabulary), vocabulary.chat_format])


def extend(given: "int | str") -> str:
    """Add the functions of modules that a page loads only when it needs them.

    The data is a line of JSON, `[[name, size], …]`, then the files one after another. The last one
    has the functions (tools/build_on_demand.py).
    """
    head, _, rest = given_bytes(given).partition(b"\n")
    package: Any = detok_py.__path__
    # In MicroPython the path is one folder; elsewhere it may be a zip, so a folder is added to it.
    root = package if isinstance(package, str) else "/detok_on_demand"
    if package is not root and root not in package:
        os.mkdir(root)
        package.append(root)
    for name, size in json.loads(head):
        folder = root + "/" + name.split("/")[0]
        if folder[len(root) + 1 :] not in os.listdir(root):
            os.mkdir(folder)
        with open(root + "/" + name, "wb") as file:
            file.write(rest[:size])
        rest = rest[size:]
    full = "detok_py." + name[:-3].replace("/", ".")
    __import__(full)
    module = sys.modules[full]
    for function in module.__all__:
        globals()[function] = getattr(module, function)
    return "null"


def pack_tokenizer(path: str) -> bytes:
    """Return the packed vocabulary of a tokenizer file (Pyodide only). Raises
    TokenizerFormatError.
    """
    packed: bytes = detok_py.load_tokenizer(path).vocabulary.pack()
    return packed


def open_answer(stream: int, request: str) -> str:
    """Begin an answer of a bridge."""
    _answers[stream] = Answer(request)
    return "null"


def ask_answer(stream: int, method: str, *args: Any) -> str:
    """Call a method of an answer; return its JSON (answer.py)."""
    return str(getattr(_answers[stream], method)(*args))


def release(stream: int) -> str:
    """Forget an answer."""
    _answers.pop(stream, None)
    return "null"


def open_streams() -> str:
    """Return how many answers are open."""
    return json.dumps(len(_answers))
