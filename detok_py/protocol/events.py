"""What happens on a detok.v1 connection, as value types, and what both sides have in common.

A client yields events in the order of the stream:

    Hello(engine, vocabulary, window, raw)  `vocabulary`: {"sha256", "size", "url"} or None
    Started(id, data, position, start)      `data` is "bytes", "ids" or "both"; `start` what the
                                            answer begins in, "" if that is not known
    Bytes(position, data)                   raw bytes, cut anywhere
    Tokens(position, ids, pieces)           token ids; `pieces` has the bytes of each, or is None
    Gap(position, count, data)              `count` tokens whose ids are not known, and their bytes
    Finished(reason, position, note)        the stream is complete and its SHA-256 is right
    Failed(code, message, retry, position)  the run has failed; the events before are valid
    Notice(code, message)                   the server did not understand a message; the run goes on
    Pong()                                  the answer to a ping

A position is a count: of bytes if `data` is "bytes", of tokens otherwise.
"""

import os
from typing import Any, NamedTuple

from ..errors import ProtocolError

Hello = NamedTuple(
    "Hello",
    [
        ("engine", "dict[str, Any]"),
        ("vocabulary", "dict[str, Any] | None"),
        ("window", "dict[str, int]"),
        ("raw", "dict[str, Any]"),
    ],
)
Started = NamedTuple("Started", [("id", str), ("data", str), ("position", int), ("start", str)])
Bytes = NamedTuple("Bytes", [("position", int), ("data", bytes)])
Tokens = NamedTuple(
    "Tokens", [("position", int), ("ids", "list[int]"), ("pieces", "list[bytes] | None")]
)
Gap = NamedTuple("Gap", [("position", int), ("count", int), ("data", bytes)])
Finished = NamedTuple("Finished", [("reason", str), ("position", int), ("note", "str | None")])
Failed = NamedTuple("Failed", [("code", int), ("message", str), ("retry", bool), ("position", int)])
Notice = NamedTuple("Notice", [("code", int), ("message", str)])
Pong = NamedTuple("Pong", [])

WANTS = ("ids", "bytes", "both")
STARTS = ("content", "reasoning", "header")  # what an answer begins in
WINDOW = {"tokens": 1024, "bytes": 8192}  # positions that may be sent without an ack


def next_state(
    transitions: dict[tuple[str, str], str], state: str, event: str, error: type[ProtocolError]
) -> str:
    """Return the state that `event` leads to. Raises `error` if the state does not allow it.

    >>> next_state({("idle", "generate"): "waiting"}, "idle", "generate", ProtocolError)
    'waiting'
    >>> next_state({}, "idle", "data", ProtocolError)
    Traceback (most recent call last):
    detok_py.errors.ProtocolError: `data` is not allowed in the state "idle".
    """
    try:
        return transitions[state, event]
    except KeyError:
        raise error(f'`{event}` is not allowed in the state "{state}".') from None


def new_run_id() -> str:
    """Return a random run id of 128 bits, in hex. It is a secret: who knows it can read the run."""
    return os.urandom(16).hex()
