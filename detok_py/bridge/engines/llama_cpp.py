"""llama.cpp in this process, through `llama-cpp-python`: every id, exactly.

In: a GGUF file. Out: Ids. The package is not installed with detok, because it compiles llama.cpp;
for ROCm, with CMAKE_ARGS="-DGGML_HIP=on".
"""

import asyncio
import ctypes
import importlib
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

from ...decode.vocabulary import Vocabulary
from . import IDS, BadRequest, Chunk, End, EngineError, Ids, Info, Prompt, Request, with_values
from .threaded import aside, in_thread

# How long `close` waits for a token that is being computed.
CLOSE_SECONDS = 5.0


class LlamaCpp:
    """A GGUF model in this process. It has one context, so it runs one generation at a time.

    `context` is its size in tokens; 0 takes the size that the model was trained with.
    """

    tells_prompt = True

    def __init__(self, model: str, *, context: int = 0) -> None:
        self._path = Path(model)
        self._context = context
        self._module: Any = None
        self._llama: Any = None
        self._ends: frozenset[int] = frozenset()
        self._device: str | None = None
        self._busy = threading.Lock()

    async def open(self) -> None:
        """Load the model, the first time."""
        if self._llama is not None:
            return
        if not self._path.is_file():
            raise EngineError(
                f"There is no model at {self._path}; give a GGUF file with --model.", retry=False
            )
        await aside(self._load)

    def _load(self) -> None:
        try:
            module = importlib.import_module("llama_cpp")
        except ImportError:
            raise EngineError(
                "The engine llama-cpp-python is not installed; install it with pip, or use a llama-server.",
                retry=False,
            ) from None
        try:
            llama = module.Llama(
                model_path=str(self._path), n_gpu_layers=-1, n_ctx=self._context, verbose=False
            )
        except (ValueError, RuntimeError, OSError, MemoryError):
            raise EngineError(
                f"llama.cpp could not load {self._path}; give a complete GGUF file that it knows, or a smaller --context.",
                retry=False,
            ) from None
        self._module, self._llama = module, llama
        self._ends = self._end_ids()
        # A build that can use a GPU may still not use it, so only "CPU" is certain.
        supports = getattr(module, "llama_supports_gpu_offload", None)
        self._device = "CPU" if supports is not None and not supports() else None

    def info(self) -> Info:
        """Exact ids."""
        return Info("llama.cpp (llama-cpp-python)", IDS, self._device, self._path.name)

    def gives(self, request: Request) -> str:
        """Exact ids."""
        return IDS

    @property
    def model_path(self) -> Path | None:
        """The GGUF file: it has the tokenizer too."""
        return self._path

    async def vocabulary(self) -> Vocabulary | None:
        """The vocabulary from the engine itself."""
        llama = self._llama
        size = llama.n_vocab()
        tokens = [self._bytes_of(i) for i in range(size)]
        return Vocabulary.from_bytes(tokens, (), [i for i in self._ends if i < size])

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Compare sizes."""
        size = self._llama.n_vocab()
        return (
            None
            if len(vocabulary) == size
            else f"it has {len(vocabulary)} ids and the engine's model has {size}"
        )

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream ids."""
        return in_thread(lambda stop: self._ids(request, stop), "llama.cpp")

    async def close(self) -> None:
        """Free the model, when the thread of the last answer has ended: it may be inside of it."""
        llama, self._llama = self._llama, None
        if llama is None or not hasattr(llama, "close"):
            return
        if await asyncio.to_thread(self._busy.acquire, timeout=CLOSE_SECONDS):
            llama.close()
            self._busy.release()

    def _ids(self, request: Request, stop: threading.Event) -> Iterator[Chunk]:
        with self._busy:
            llama, sampling = self._llama, request.sampling
            prompt = self._prompt(request)
            if len(prompt) >= llama.n_ctx():
                raise BadRequest("The prompt is longer than the engine's context; shorten it.")
            if request.messages is not None:
                yield Prompt(prompt)
            # An earlier run's seed would stay.
            random_seed = self._module.LLAMA_DEFAULT_SEED
            llama.set_seed(random_seed if sampling.seed is None else sampling.seed)
            options = sampling.named(temperature="temp", top_p="top_p", top_k="top_k")
            steps = llama.generate(prompt, **options)
            for count, token in enumerate(steps, 1):
                if stop.is_set():
                    return
                if token in self._ends:
                    yield End("eos")
                    return
                yield Ids([int(token)])
                if count >= sampling.max_tokens or count + len(prompt) >= llama.n_ctx():
                    yield End("length")
                    return
            yield End("eos")

    def _end_ids(self) -> frozenset[int]:
        """Return every id that ends a generation: a chat model has several."""
        module, llama = self._module, self._llama
        vocab = module.llama_model_get_vocab(llama.model)
        ends = [i for i in range(llama.n_vocab()) if module.llama_vocab_is_eog(vocab, i)]
        return frozenset([*ends, llama.token_eos()]) - {-1}

    def _bytes_of(self, token_id: int) -> bytes:
        """Return the bytes of a token. `Llama.detokenize` has room for 32 of them."""
        module, size = self._module, 32
        vocab = module.llama_model_get_vocab(self._llama.model)
        while True:
            room = (ctypes.c_char * size)()
            n = module.llama_token_to_piece(vocab, token_id, room, size, 0, True)
            if n >= 0:
                return bytes(room.raw[:n])
            size = -n

    def _prompt(self, request: Request) -> list[int]:
        if request.prompt is not None:
            return list(
                self._llama.tokenize(request.prompt.encode("utf-8"), add_bos=True, special=True)
            )
        template = self._llama.metadata.get("tokenizer.chat_template")
        if not template:
            raise BadRequest("This model has no chat template; send a prompt instead of messages.")
        llama = self._llama
        eos, bos = [
            llama.detokenize([token_id], special=True).decode("utf-8", "replace")
            for token_id in (llama.token_eos(), llama.token_bos())
        ]
        formatter = importlib.import_module("llama_cpp.llama_chat_format").Jinja2ChatFormatter(
            template=template, eos_token=eos, bos_token=bos
        )
        text = formatter(messages=with_values(request.messages), **request.tools).prompt
        return list(self._llama.tokenize(text.encode("utf-8"), add_bos=False, special=True))
