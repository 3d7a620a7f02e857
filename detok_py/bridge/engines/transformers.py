"""Hugging Face transformers in this process: every id, exactly.

In: a model folder. Out: Ids. It uses ROCm if torch was built for it (`torch.version.hip`). torch is
not installed with detok.
"""

import contextlib
import importlib
import queue
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

from ...decode.vocabulary import Vocabulary
from . import IDS, BadRequest, Chunk, End, EngineError, Ids, Info, Prompt, Request, with_values
from .threaded import WAITING, aside, in_thread


class Transformers:
    """A model in this process's torch."""

    tells_prompt = True

    def __init__(self, model: str) -> None:
        self._path = Path(model)
        self._model: Any = None
        self._tokenizer: Any = None
        self._torch: Any = None
        self._library: Any = None
        self._sampling = threading.Lock()
        self._device: str | None = None

    async def open(self) -> None:
        """Load the model, the first time, from the folder only."""
        if self._model is not None:
            return
        if not self._path.is_dir():
            raise EngineError(
                f"There is no model folder at {self._path}; give one with --model.", retry=False
            )
        await aside(self._load)

    def _load(self) -> None:
        try:
            self._torch = importlib.import_module("torch")
            self._library = library = importlib.import_module("transformers")
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
        except Exception as error:
            # Of a truncated file, safetensors and tokenizers raise errors of their own.
            raise EngineError(
                f"transformers could not load {self._path} ({type(error).__name__}); give a complete model folder.",
                retry=False,
            ) from None
        where = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._device = device_of(self._torch)
        self._model = model.to(where).eval()

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
        if request.messages is not None:
            yield Prompt(prompt.reshape(-1).tolist())
        streamer = IdStreamer(stop)
        sampling = request.sampling
        limit = sampling.max_tokens
        positions = getattr(self._model.config, "max_position_embeddings", None)
        if type(positions) is int and "max_tokens" not in request.params:
            limit = min(limit, max(1, positions - prompt.shape[-1]))
        options: dict[str, Any] = {
            "max_new_tokens": limit,
            "streamer": streamer,
            "do_sample": bool(sampling.temperature),
        }
        options.update(sampling.named(top_p="top_p", top_k="top_k"))
        if sampling.temperature:
            options["temperature"] = sampling.temperature
            streamer.draw = OwnRandom(self._torch, self._sampling, sampling.seed)
            options["logits_processor"] = self._library.LogitsProcessorList([streamer.draw])

        def work() -> None:
            with contextlib.suppress(Stopped):
                try:
                    with self._torch.no_grad():
                        self._model.generate(prompt.to(self._model.device), **options)
                except Stopped:
                    pass
                except Exception as error:
                    streamer.pass_on(error)
                finally:
                    if streamer.draw is not None:
                        streamer.draw.release()
                    streamer.pass_on(None)

        threading.Thread(target=work, name="detok-transformers", daemon=True).start()
        ends = self._ends()
        count = 0
        while True:
            item = streamer.next()
            if isinstance(item, Exception):
                raise item
            if item is None:
                yield End("length" if count >= limit else "eos")
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
        if isinstance(given, (list, tuple)):
            return set(given)
        return {given} if isinstance(given, int) else set()

    def _prompt(self, request: Request) -> Any:
        if request.prompt is not None:
            return self._tokenizer(request.prompt, return_tensors="pt").input_ids
        try:
            # transformers 5 returns a dict by default, 4 a tensor.
            return self._tokenizer.apply_chat_template(
                with_values(request.messages),
                add_generation_prompt=True,
                return_tensors="pt",
                return_dict=True,
                **request.tools,
            )["input_ids"]
        except (ValueError, TypeError):
            raise BadRequest(
                "This model has no chat template for these messages; send a prompt."
            ) from None


class Stopped(Exception):
    """Raised inside `model.generate` to end it when no more tokens are wanted."""


class IdStreamer:
    """The object for `generate(streamer=…)`, which calls `put` with the prompt, then with each new
    id, and `end` at the end. While `WAITING` ids are not taken, the model waits.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.queue: queue.Queue[list[int] | Exception | None] = queue.Queue(WAITING)
        self.done = False
        self.draw: OwnRandom | None = None
        self._stop = stop
        self._prompt = True

    def put(self, value: Any) -> None:
        """Queue new ids."""
        if self.draw is not None:
            self.draw.release()
        if self._prompt:
            self._prompt = False
            return
        self.pass_on([int(i) for i in value.reshape(-1).tolist()])

    def pass_on(self, item: list[int] | Exception | None) -> None:
        """Queue an item as soon as there is room. Raises Stopped if nothing more is wanted."""
        while not self.done and not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                return self.queue.put(item, timeout=0.1)
        raise Stopped

    def next(self) -> list[int] | Exception | None:
        """Return the next item as soon as there is one, or None if nothing more is wanted."""
        while not self._stop.is_set():
            with contextlib.suppress(queue.Empty):
                return self.queue.get(timeout=0.1)
        return None

    def end(self) -> None:
        """Do nothing: the worker queues the end."""


class OwnRandom:
    """A random state for one generation, though torch has one for the whole process.

    In `generate`, the processors of logits are called right before a token is drawn, and the
    streamer right after. In between, this generation's state is torch's, and no other generation
    draws. So the tokens are those that `torch.manual_seed(seed)` gives to a generation of its own.
    """

    def __init__(self, torch: Any, lock: threading.Lock, seed: int | None) -> None:
        self._random = torch.cuda if torch.cuda.is_available() else torch
        self._lock = lock
        self._others: Any = None
        with lock:
            others = self._random.get_rng_state()
            if seed is None:
                torch.seed()
            else:
                torch.manual_seed(seed)
            self._own = self._random.get_rng_state()
            self._random.set_rng_state(others)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Begin to draw."""
        self._lock.acquire()
        self._others = self._random.get_rng_state()
        self._random.set_rng_state(self._own)
        return scores

    def release(self) -> None:
        """Stop drawing, if this generation draws."""
        if self._others is not None:
            self._own = self._random.get_rng_state()
            self._random.set_rng_state(self._others)
            self._others = None
            self._lock.release()


def device_of(torch: Any) -> str | None:
    """Return the device that torch uses; for an AMD GPU (`torch.version.hip`) with its target."""
    if not torch.cuda.is_available():
        return "CPU"
    properties = torch.cuda.get_device_properties(0)
    target = getattr(properties, "gcnArchName", "").partition(":")[0]
    kind = "ROCm " if getattr(torch.version, "hip", None) else "CUDA "
    return kind + str(properties.name) + (f" ({target})" if target and kind == "ROCm " else "")
