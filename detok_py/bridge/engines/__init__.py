"""What an engine is: one file with `info()` and `generate(request)`, and chunks as raw as it can give.

In: a Request. Out: chunks, then one End. An engine states its fidelity, and what comes agrees with it:

    "ids"     Ids chunks: every token id, exactly
    "bytes"   Raw chunks: the token bytes, exactly, invalid ones included; ids only where they are known
    "text"    Raw chunks: UTF-8 of text that the engine has already decoded, so what it lost is lost

A stream that stops without an End was cut off: the bridge says that the engine was lost, never that it finished. An engine that can't
go on raises EngineError with one sentence: what happened, and the way out.
"""

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, Protocol

from detok_py import wire
from detok_py.errors import DetokError
from detok_py.vocabulary import Vocabulary

IDS, BYTES, TEXT = "ids", "bytes", "text"
DEFAULT_MAX_TOKENS = 2048


class EngineError(DetokError):
    """An engine that is down, was lost, or refused. `code` is the close code that says so; `retry`: asking again may help."""

    def __init__(self, message: str, *, code: int = wire.ENGINE_DOWN, retry: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.retry = retry


class Info(NamedTuple):
    """What is known about an engine. `device` is as the engine reports it; None where it does not."""

    name: str
    fidelity: str
    device: str | None = None
    model: str | None = None

    @property
    def line(self) -> str:
        """The engine in one honest line.

        >>> Info("llama.cpp", "bytes", "ROCm0 AMD Radeon AI PRO R9700 (gfx1201) · 33/33 layers on GPU").line
        'llama.cpp · ROCm0 AMD Radeon AI PRO R9700 (gfx1201) · 33/33 layers on GPU'
        >>> Info("llama.cpp server", "bytes").line
        'llama.cpp server · device not reported'
        """
        return self.name + " · " + (self.device or "device not reported")


class Sampling(NamedTuple):
    """The numbers of a request. None is left to the engine."""

    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float | None = None
    seed: int | None = None
    top_p: float | None = None
    top_k: int | None = None


class Request(NamedTuple):
    """What is asked of an engine: a prompt, or messages for its own chat template."""

    prompt: str | None
    messages: list[dict[str, Any]] | None
    sampling: Sampling
    want: str
    params: dict[str, Any]


class Ids(NamedTuple):
    """Token ids."""

    ids: list[int]


class Raw(NamedTuple):
    """Bytes. `tokens`: how many tokens made them, 0 where that is not known; `last_id`: the id of the last of them, where it is known."""

    data: bytes
    tokens: int = 0
    last_id: int | None = None


class End(NamedTuple):
    """The engine is done: "eos", "stop" or "length". `note` says what it lost on the way, if it did."""

    reason: str
    note: str | None = None


Chunk = Ids | Raw | End


class Engine(Protocol):
    """Anything that generates."""

    async def open(self) -> None:
        """Start it, or find it. Raises EngineError; may be called again."""

    def info(self) -> Info:
        """What is known about it now."""

    def gives(self, request: Request) -> str:
        """What `generate` will yield for this request: "ids", "bytes" (with the number of tokens) or "text" (bytes, and nothing else
        known)."""

    async def vocabulary(self) -> Vocabulary | None:
        """The vocabulary as the engine itself gives it, or None where it can't."""

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """One clause that says why `vocabulary` can't be this engine's; None where it can, or where nobody can tell."""

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Chunks as they come, then End. Closing the iterator stops the engine."""

    async def close(self) -> None:
        """Let go of it; a child process ends."""
