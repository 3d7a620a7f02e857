"""Hugging Face transformers in this process: every id, exactly.

In: a model folder. Out: Ids. It uses ROCm if torch was built for it (`torch.version.hip`). torch is
not installed with detok.
"""

import importlib
import queue
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

from ...decode.vocabulary import Vocabulary
from ...protocol import wire
from . import IDS, Chunk, End, EngineError, Ids, Info, Request
from .threaded import in_thread


class Transformers:
    """A model in this process's torch."""

    def __init__(self, model: str) -> None:
        self._path = Path(model)
        self._model: Any = None
        self._tokenizer: Any = None
        self._torch: Any = None
        self._device: str | None = None

    async def open(self) -> None:
        """Load the model, the first time, from the folder only."""
        if self._model is not None:
            return
        if not self._path.is_dir():
            raise EngineError(
                f"There is no model folder at {self._path}; give one with --model.", retry=False
            )
        try:
            self._torch = importlib.import_module("torch")
            library = importlib.import_module("transformers")
        except ImportError:
            raise EngineError(
                "The engine transformers needs torch and transformers, which are not installed; install them with pip.",
                retry=False,
            ) from None
        try:
            self._tokenizer = library.AutoTokenizer.from_pretrained(
                str(self._path), local_files_only=True
            )
            model = library.AutoModelForCausalLM.from_pretrained(
                str(self._path), local_files_only=True, torch_dtype="auto"
            )
        except (OSError, ValueError):
            raise EngineError(
                f"transformers could not load {self._path}; give a complete model folder.",
                retry=False,
            ) from None
        where = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._model = model.to(where).eval()
        self._device = device_of(self._torch)

    def info(self) -> Info:
        """Exact ids."""
        return Info("transformers", IDS, self._device, self._path.name)

    def gives(self, request: Request) -> str:
        """Exact ids."""
        return IDS

    @property
    def model_path(self) -> Path | None:
        """The model folder: it has the tokenizer too."""
        return self._path

    async def vocabulary(self) -> Vocabulary | None:
        """None: the model folder has it."""
        return None

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Compare sizes: a vocabulary may be padded, but not smaller than the tokenizer's."""
        size = len(self._tokenizer)
        return (
            None
            if len(vocabulary) >= size
            else f"it has {len(vocabulary)} ids and the engine's tokenizer has {size}"
        )

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream ids."""
        return in_thread(lambda stop: self._ids(request, stop), "transformers")

    async def close(self) -> None:
        """Free the model."""
        self._model = self._tokenizer = None

    def _ids(self, request: Request, stop: threading.Event) -> Iterator[Chunk]:
        prompt = self._prompt(request)
        streamer = IdStreamer(stop)
        sampling = request.sampling
        options: dict[str, Any] = {
            "max_new_tokens": sampling.max_tokens,
            "streamer": streamer,
            "do_sample": bool(sampling.temperature),
        }
        if sampling.temperature:
            options["temperature"] = sampling.temperature
        for name in ("top_p", "top_k"):
            if getattr(sampling, name) is not None:
                options[name] = getattr(sampling, name)
        if sampling.seed is not None:
            self._torch.manual_seed(sampling.seed)

        def work() -> None:
            try:
                with self._torch.no_grad():
                    self._model.generate(prompt.to(self._model.device), **options)
            except Stopped:
                pass
            except Exception as error:
                streamer.queue.put(error)
            finally:
                streamer.queue.put(None)

        threading.Thread(target=work, name="detok-transformers", daemon=True).start()
        ends = self._ends()
        count = 0
        while True:
            item = streamer.queue.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                yield End("length" if count >= sampling.max_tokens else "eos")
                return
            count += len(item)
            last = item[-1] if item else None
            item = item[:-1] if last in ends else item
            if item:
                yield Ids(item)
            if last in ends:
                streamer.done = True
                yield End("eos")
                return

    def _ends(self) -> set[int]:
        given = getattr(self._model.generation_config, "eos_token_id", None)
        return (
            set(given)
            if isinstance(given, (list, tuple))
            else {given}
            if isinstance(given, int)
            else set()
        )

    def _prompt(self, request: Request) -> Any:
        if request.prompt is not None:
            return self._tokenizer(request.prompt, return_tensors="pt").input_ids
        try:
            return self._tokenizer.apply_chat_template(
                request.messages, add_generation_prompt=True, return_tensors="pt"
            )
        except (ValueError, TypeError):
            raise EngineError(
                "This model has no chat template for these messages; send a prompt.",
                code=wire.BAD_MESSAGE,
                retry=False,
            ) from None


class Stopped(Exception):
    """Raised inside `model.generate` to end it when no more tokens are wanted."""


class IdStreamer:
    """The object for `generate(streamer=…)`, which calls `put` with the prompt, then with each new
    id, and `end` at the end.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.queue: queue.Queue[list[int] | Exception | None] = queue.Queue()
        self.done = False
        self._stop = stop
        self._prompt = True

    def put(self, value: Any) -> None:
        """Queue new ids."""
        if self.done or self._stop.is_set():
            raise Stopped
        if self._prompt:
            self._prompt = False
            return
        self.queue.put([int(i) for i in value.reshape(-1).tolist()])

    def end(self) -> None:
        """Do nothing: the worker queues the end."""


def device_of(torch: Any) -> str | None:
    """Return the device that torch uses; for an AMD GPU (`torch.version.hip`) with its target."""
    if not torch.cuda.is_available():
        return "CPU"
    properties = torch.cuda.get_device_properties(0)
    target = getattr(properties, "gcnArchName", "").partition(":")[0]
    kind = "ROCm " if getattr(torch.version, "hip", None) else "CUDA "
    return kind + str(properties.name) + (f" ({target})" if target and kind == "ROCm " else "")
