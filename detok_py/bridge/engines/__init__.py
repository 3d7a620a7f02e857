"""The interface of engines: classes with `info()` and `generate(request)`, one file each.

In: a Request. Out: chunks, then one End. An engine states its fidelity, which says what its chunks
are:

    "ids"     Ids chunks: every token id, exactly
    "bytes"   Raw chunks: the exact bytes of the tokens, also invalid ones; ids only if known
    "text"    Raw chunks: UTF-8 of text that the engine decoded, with the errors it made

If a stream stops without an End, the bridge reports that the engine was lost. An engine that fails
raises EngineError. Its message is one sentence with the cause and what to do about it.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, Protocol

from ...decode.vocabulary import Vocabulary
from ...errors import DetokError
from ...protocol import wire

IDS, BYTES, TEXT = "ids", "bytes", "text"
DEFAULT_MAX_TOKENS = 2048
# The most tokens of an answer whose length only the engine's context limits.
LONG_ANSWER = 32768
NO_ROOM_FOR_ANSWER = "The prompt and max_tokens are more than the engine's context has; lower max_tokens, shorten the prompt, or start the engine with more."
NO_ROOM_FOR_PROMPT = (
    "The prompt is longer than the engine's context; shorten it, or start the engine with more."
)


class EngineError(DetokError):
    """An engine is down, was lost, or refused a request.

    `code` is the close code for clients. `retry` says whether another attempt may succeed, and
    `retry_after` after how many seconds, if the engine said that.
    """

    def __init__(self, message: str, *, code: int = wire.ENGINE_DOWN, retry: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.retry = retry
        self.retry_after: int | None = None


class NoEngine(EngineError):
    """Nothing answers at an engine's address."""


class ModelChanged(EngineError):
    """An engine has another model than when the answer began."""


class BadRequest(EngineError):
    """A request that the engine will never take: its client has to change it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=wire.BAD_MESSAGE, retry=False)


class ContextFull(EngineError):
    """A prompt, or a prompt and its answer, is longer than the engine's context."""


class Info(NamedTuple):
    """What is known about an engine. `device` is what the engine reports, or None. `identity` is
    the engine's description of its model, in any form: another value means another model.
    """

    name: str
    fidelity: str
    device: str | None = None
    model: str | None = None
    identity: str | None = None

    @property
    def line(self) -> str:
        """The engine's name and device.

        >>> Info(
        ...     "llama.cpp",
        ...     "bytes",
        ...     "ROCm0 AMD Radeon AI PRO R9700 (gfx1201) · 33/33 layers on GPU",
        ... ).line
        'llama.cpp · ROCm0 AMD Radeon AI PRO R9700 (gfx1201) · 33/33 layers on GPU'
        >>> Info("llama.cpp server", "bytes").line
        'llama.cpp server · device not reported'
        """
        return self.name + " · " + (self.device or "device not reported")


class Sampling(NamedTuple):
    """The parameters of a request. None leaves a parameter to the engine. Without a temperature,
    TGI and transformers do not sample.
    """

    max_tokens: int = DEFAULT_MAX_TOKENS
    temperature: float | None = None
    seed: int | None = None
    top_p: float | None = None
    top_k: int | None = None

    def named(self, **names: str) -> dict[str, Any]:
        """Return the parameters that are not None, under an engine's own names for them.

        >>> Sampling(max_tokens=5, seed=1).named(max_tokens="n_predict", seed="seed", top_p="top_p")
        {'n_predict': 5, 'seed': 1}
        """
        given = {theirs: getattr(self, ours) for ours, theirs in names.items()}
        return {name: value for name, value in given.items() if value is not None}


class Request(NamedTuple):
    """A request to an engine: a prompt, or messages for the engine's chat template.

    `answered` has the ids of an interrupted answer, which the engine continues. Only engines with
    `goes_on` support it. `exactly` is the text that the engine must answer with. Only engines with
    `says_exactly` support it: they accept a grammar.
    """

    prompt: str | None
    messages: list[dict[str, Any]] | None
    sampling: Sampling
    want: str
    params: dict[str, Any]
    answered: tuple[int, ...] = ()
    exactly: str | None = None

    @property
    def apart(self) -> str | None:
        """How reasoning and calls that an engine sends apart are to be put into its text: between
        "tags", or between "marks" (text.py). None drops them.
        """
        return self.params.get("apart")

    @property
    def tools(self) -> dict[str, Any]:
        """The tools that the chat template lists, under OpenAI's name for them, if there are any.

        >>> Request("hi", None, Sampling(), "ids", {}).tools
        {}
        """
        tools = self.params.get("tools")
        given = self.messages is not None and isinstance(tools, list) and tools
        return {"tools": tools} if given else {}


def with_values(messages: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return messages as chat templates expect them: the arguments of calls as values instead of
    JSON text, and parts of text as one text. Servers with OpenAI's routes do this themselves.

    >>> call = {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    >>> with_values([{"role": "assistant", "tool_calls": [call]}])[0]["tool_calls"][0]["function"]
    {'name': 'f', 'arguments': {'a': 1}}
    >>> parts = [{"type": "text", "text": "caf"}, {"type": "text", "text": "é"}]
    >>> with_values([{"role": "user", "content": parts}])
    [{'role': 'user', 'content': 'caf\\né'}]
    """

    def valued(call: Any) -> Any:
        its = call.get("function") if isinstance(call, dict) else None
        if not isinstance(its, dict) or not isinstance(its.get("arguments"), str):
            return call
        try:
            return {**call, "function": {**its, "arguments": json.loads(its["arguments"])}}
        except ValueError:
            return call

    out = []
    for message in messages or ():
        one = dict(message)
        if isinstance(one.get("tool_calls"), list):
            one["tool_calls"] = [valued(call) for call in one["tool_calls"]]
        parts = one.get("content")
        if isinstance(parts, list) and parts and all(map(_is_text, parts)):
            one["content"] = "\n".join([part["text"] for part in parts])  # as vLLM joins them
        out.append(one)
    return out


def _is_text(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, dict) else None
    return kind == "text" and isinstance(part.get("text"), str)


def grammar_of(text: str) -> str:
    r"""Return the grammar of one text, in llama.cpp's GBNF; xgrammar (vLLM, SGLang) reads it too.

    >>> print(grammar_of('é "\\"'), grammar_of(chr(7)))
    root ::= "é \"\\\"" root ::= "\u0007"
    """
    out = ""
    for ch in text:
        if ch in '"\\':
            out += "\\" + ch
        else:
            # xgrammar takes any number of digits after \x.
            out += ch if ch >= " " and ch != "\x7f" else f"\\u{ord(ch):04x}"
    return f'root ::= "{out}"'


class Prompt(NamedTuple):
    """The prompt as the model reads it, in ids or in text, after the chat template was applied. It
    comes before the answer, if at all.
    """

    read: list[int] | str


class Ids(NamedTuple):
    """Token ids. If `ends`, the last id made the engine stop: its bytes are not text."""

    ids: list[int]
    ends: bool = False


class Raw(NamedTuple):
    """Bytes.

    `tokens` is how many tokens they are, 0 if that is unknown. `last_id` is the id of the last of
    these tokens, if it is known.
    """

    data: bytes
    tokens: int = 0
    last_id: int | None = None


class End(NamedTuple):
    """The end of an answer: "eos", "stop" or "length". `note` says what the engine lost, if
    anything; `prompt_tokens` and `tokens` are the engine's counts of tokens read and generated.
    """

    reason: str
    note: str | None = None
    prompt_tokens: int | None = None
    tokens: int | None = None


Chunk = Prompt | Ids | Raw | End

# Each engine's word for why it stopped → ours.
_REASONS = {
    "stop": "eos",
    "eos": "eos",
    "eos_token": "eos",
    "length": "length",
    "limit": "length",
}


def reason_of(finish: str | None) -> str:
    """Return the reason of an End for an engine's finish reason.

    >>> reason_of("eos_token"), reason_of("limit"), reason_of("tool_calls")
    ('eos', 'length', 'stop')
    """
    return _REASONS.get(finish or "", "stop")


class Engine(Protocol):
    """The methods that an engine has."""

    async def open(self) -> None:
        """Start or find the engine, and read what it says about its model. Called again before
        every run, because the model may have changed. Raises EngineError.
        """

    def info(self) -> Info:
        """What is known about the engine now."""

    def gives(self, request: Request) -> str:
        """What `generate` will yield for this request: "ids", "bytes" (with the number of tokens)
        or "text" (bytes of an unknown number of tokens).
        """

    async def vocabulary(self) -> Vocabulary | None:
        """The vocabulary from the engine itself, or None if it cannot provide it."""

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Say why `vocabulary` cannot be this engine's, in one clause. None if it can be, or if
        that is unknown.
        """

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield chunks as they come, then End. Closing the iterator stops the engine. One with
        `tells_prompt` yields the Prompt of messages first.
        """

    async def close(self) -> None:
        """Close connections, free the model, end the child process."""
