"""Find the engine that the command line names, and the vocabulary of an engine.

In: `recite`, `scripted`, a URL, a kind and a URL (`vllm+http://…`), or an in-process engine and a
model. Out: an Engine, not opened yet. For a URL without a kind, `recognise` asks the server, and if
it does not answer yet, again at each `open`.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..decode.vocabulary import Vocabulary
from ..protocol import wire
from .attached import AttachedEngine
from .engines import Engine, EngineError
from .engines.address import Address, check_address
from .engines.http import EngineClient
from .engines.lemonade import Lemonade
from .engines.llama_server import LlamaServer
from .engines.ollama import Ollama
from .engines.openai import OpenAIServer
from .engines.recite import FOLDER, ReciteEngine
from .engines.scripted import ScriptedEngine
from .engines.sglang import SGLang
from .engines.tgi import TGI
from .engines.vllm import VLLM

Encode = Callable[[str], list[int]]
ANSWER_SECONDS = 2.0
KINDS = ("llama", "vllm", "vllm-tokens", "sglang", "tgi", "lemonade", "ollama", "openai")
# What identifies each kind: a route that only it has, and keys of the response.
SIGNS = (
    ("lemonade", "/v1/health", ("all_models_loaded", "model_loaded")),
    ("llama", "/props", ("default_generation_settings",)),
    ("sglang", "/get_model_info", ("model_path",)),
    ("tgi", "/info", ("model_id",)),
    ("ollama", "/api/version", ("version",)),
    ("vllm", "/version", ("version",)),
    ("openai", "/v1/models", ("data",)),
)


class Found(NamedTuple):
    """A vocabulary, and the encoder of its tokenizer if there is one."""

    vocabulary: Vocabulary
    encode: Encode | None


def attach_engine(
    given: str,
    *,
    allow_remote: bool = False,
    model: str | None = None,
    context: int = 0,
    tokenizer: Found | None = None,
) -> AttachedEngine:
    """Return the engine of an `--engine` option, `[NAME=]ENGINE`, with the name by which clients
    choose it. A URL without a name is named by its host and port. Raises AddressError or
    EngineError.

    >>> attach_engine("scripted").name, attach_engine("fast=llama+http://127.0.0.1:8080").name
    ('scripted', 'fast')
    >>> attach_engine("llama+http://127.0.0.1:8080").name
    '127.0.0.1:8080'
    """
    named = re.fullmatch(r"([A-Za-z0-9._-]{1,64})=(.+)", given)
    name, spec = (named[1], named[2]) if named else ("", given)
    vocabulary, encode = tokenizer or (None, None)
    engine = open_engine(
        spec,
        name=name,
        allow_remote=allow_remote,
        model=model,
        context=context,
        vocabulary=vocabulary,
    )
    return AttachedEngine(
        name or spec.rpartition("://")[2].rstrip("/").removesuffix("/v1"),
        engine,
        vocabulary=vocabulary,
        encode=encode,
        find_vocabulary=find_vocabulary,
    )


def open_engine(
    spec: str,
    *,
    name: str = "",
    allow_remote: bool = False,
    model: str | None = None,
    context: int = 0,
    vocabulary: Vocabulary | None = None,
) -> Engine:
    """Return an engine. A named one may have its own API key in the environment. Raises
    AddressError or EngineError.
    """
    if model is not None and spec in ("recite", "scripted"):
        raise EngineError(f"engine {spec} takes no --model; drop it.", retry=False)
    if spec == "recite":
        return ReciteEngine()
    if spec == "scripted":
        return ScriptedEngine(lambda: vocabulary)
    if spec in ("llama-cpp-python", "transformers"):
        if model is None:
            raise EngineError(
                f"engine {spec} needs a model; pass its file or folder with --model.", retry=False
            )
        if spec == "transformers":
            from .engines.transformers import Transformers

            return Transformers(model)
        from .engines.llama_cpp import LlamaCpp

        return LlamaCpp(model, context=context)
    kind, plus, url = spec.partition("+")
    if not plus or "://" in kind:
        kind, url = "", spec
    elif kind not in KINDS:
        raise EngineError(
            f"there is no engine kind {kind[:40]!r}; expected one of {', '.join(KINDS)}.",
            retry=False,
        )
    if "://" not in url:
        raise EngineError(
            f"there is no engine {spec[:60]!r}; expected recite, scripted, llama-cpp-python, transformers, or a URL like http://127.0.0.1:8080.",
            retry=False,
        )
    address = check_address(url, allow_remote=allow_remote)
    own_key = f"{address.key}_{re.sub('[^A-Z0-9]', '_', name.upper())}"
    if name and own_key in os.environ:
        address = address._replace(key=own_key)
    if not kind:
        kind = asyncio.run(recognise(address)) or ""
    if not kind:
        return cast(Engine, Unrecognised(address, model=model, allow_remote=allow_remote))
    return engine_at(kind, address, model=model, allow_remote=allow_remote)


def engine_at(
    kind: str, address: Address, *, model: str | None = None, allow_remote: bool = False
) -> Engine:
    """Return the engine of a kind at an address. Raises EngineError if it takes no model."""
    if model is not None and kind in ("llama", "lemonade"):
        raise EngineError(
            f"--model {model} would not be used: the server at {address.shown} has loaded its own; drop it.",
            retry=False,
        )
    if kind == "llama":
        return LlamaServer(address)
    if kind == "lemonade":
        return Lemonade(address, allow_remote=allow_remote)
    if kind in ("vllm", "vllm-tokens"):
        return VLLM(address, model=model, tokens_only=kind == "vllm-tokens")
    if kind == "sglang":
        return SGLang(address, model=model)
    if kind == "tgi":
        return TGI(address, model=model)
    return Ollama(address, model=model) if kind == "ollama" else OpenAIServer(address, model=model)


class Unrecognised:
    """An engine of an unknown kind, such as one that is still starting. `open` recognises it. Until
    then it is a llama-server that error messages call "engine".
    """

    def __init__(self, address: Address, *, model: str | None, allow_remote: bool) -> None:
        self._address = address
        self._model = model
        self._allow_remote = allow_remote
        self._known = False
        self._engine: Any = LlamaServer(address)
        self._engine.client.name = "engine"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def open(self) -> None:
        """Recognise the engine, and open it. Raises EngineError."""
        kind = None if self._known else await recognise(self._address)
        if kind is not None:
            before, self._known = self._engine, True
            self._engine = engine_at(
                kind, self._address, model=self._model, allow_remote=self._allow_remote
            )
            await before.close()
        try:
            await self._engine.open()
        except EngineError as error:
            if self._known or error.code != wire.NO_SUCH_ENGINE:
                raise
            raise EngineError(
                f"The server at {self._address.shown} answers like no engine that detok knows; `detok engines` finds those that run, and openai+URL stands for one with OpenAI's routes.",
                code=error.code,
                retry=False,
            ) from None


def finder(
    known: Iterable[AttachedEngine], urls: Iterable[str]
) -> Callable[[], Awaitable[list[AttachedEngine]]]:
    """Return a function that looks for engines at `urls`, and returns new ones. They get no API
    key, because the user has not named them.
    """
    seen = {_base_of(attached.engine) for attached in known}
    places = [check_address(url, named=False) for url in urls]

    async def find() -> list[AttachedEngine]:
        new = [address for address in places if address.base not in seen]
        looks = [recognise(address) for address in new]
        kinds = await asyncio.gather(*looks, return_exceptions=True)
        out = []
        for address, kind in zip(new, kinds, strict=True):
            if isinstance(kind, str):
                seen.add(address.base)
                engine = engine_at(kind, address)
                out.append(AttachedEngine(address.host, engine, find_vocabulary=find_vocabulary))
        return out

    return find


def _base_of(engine: Engine) -> str | None:
    """Return the address of an engine with an HTTP API, or None."""
    client = getattr(engine, "front", None) or getattr(engine, "client", None)
    return client.address.base if isinstance(client, EngineClient) else None


async def recognise(address: Address) -> str | None:
    """Return the kind of engine at an address, or None.

    Requests the route of each kind in `SIGNS` in turn, and generates nothing.
    """
    client = EngineClient(address)
    try:
        for kind, path, keys in SIGNS:
            try:
                answer = await asyncio.wait_for(client.get(path), ANSWER_SECONDS)
            except EngineError as error:
                if str(error).startswith("No engine answers"):
                    return None
                continue
            except TimeoutError:
                return None
            if isinstance(answer, dict) and any(key in answer for key in keys):
                return kind
        return None
    finally:
        await client.close()


def read_tokenizer(path: str | Path) -> Found:
    """Return the vocabulary and encoder of a tokenizer file; a *.detok file has no encoder."""
    if str(path).endswith(".detok"):
        return Found(Vocabulary.unpack(Path(path).read_bytes()), None)
    from ..tokenizers import load_tokenizer

    tokenizer: Any = load_tokenizer(path)
    return Found(tokenizer.vocabulary, tokenizer.encode)


async def find_vocabulary(engine: Engine) -> Found | None:
    """Return the vocabulary of an open engine, or None.

    The model files that the engine has loaded are preferred, because they name the special tokens.
    They are used if this machine has them and the engine accepts them, otherwise the engine's own
    table.
    """
    path = FOLDER if isinstance(engine, ReciteEngine) else getattr(engine, "model_path", None)
    if path is not None:
        try:
            found = await asyncio.to_thread(read_tokenizer, path)
        except (ValueError, OSError, ImportError):
            found = None
        if found is not None and await engine.refuse_vocabulary(found.vocabulary) is None:
            return found
    vocabulary = await engine.vocabulary()
    return None if vocabulary is None else Found(vocabulary, None)
