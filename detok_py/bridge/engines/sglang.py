"""SGLang: every token id, exactly, from its native `/generate`.

In: `/generate` with `input_ids` or `text`. Out: Ids. `output_ids` are cumulative by default and incremental with
--incremental-streaming-output; `meta_info.completion_tokens` tells how many there are in all, so the last of them that are new are
taken, and both are right. Messages go through its OpenAI route, whose template is the model's and which gives text only.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from detok_py.vocabulary import Vocabulary

from . import IDS, TEXT, Chunk, End, EngineError, Ids, Info, Request
from .address import Address
from .agree import SAMPLE, disagreement
from .http import EngineClient
from .openai import stream_text

SAMPLING = {"max_tokens": "max_new_tokens", "temperature": "temperature", "seed": "sampling_seed", "top_p": "top_p", "top_k": "top_k"}


class SGLang:
    """An engine behind SGLang's native API."""

    def __init__(self, address: Address, *, model: str | None = None) -> None:
        self.client = EngineClient(address, name="SGLang", hint="start it: python -m sglang.launch_server --model-path MODEL")
        self._model = model
        self._path: str | None = None

    async def open(self) -> None:
        """Find the model's path, the first time."""
        if self._path is None:
            info = await self.client.get("/get_model_info")
            if not isinstance(info, dict) or "model_path" not in info:
                raise EngineError(f"The server at {self.client.address.shown} is no SGLang; see `detok engines`.", retry=False)
            self._path = str(info.get("tokenizer_path") or info["model_path"])
            self._model = self._model or str(info["model_path"])

    def info(self) -> Info:
        """Exact ids."""
        return Info("SGLang", IDS, None, self._model)

    def gives(self, request: Request) -> str:
        """Exact ids for a prompt; text for messages."""
        return TEXT if request.messages is not None else IDS

    @property
    def model_path(self) -> Path | None:
        """The tokenizer's folder, where this machine has it too."""
        return Path(self._path) if self._path and Path(self._path).is_dir() else None

    async def vocabulary(self) -> Vocabulary | None:
        """None: SGLang has no route that gives it; its model folder does."""
        return None

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Compare with the ids that /tokenize gives for a sample, where the server has that route."""
        try:
            answer = await self.client.post("/tokenize", {"model": self._model, "prompt": SAMPLE, "add_special_tokens": False})
        except EngineError:
            return None
        return disagreement(answer.get("tokens") if isinstance(answer, dict) else None, vocabulary)

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream ids, or text where only the chat route has the template."""
        return stream_text(self.client, request, self._model) if request.messages is not None else self._ids(request)

    async def _ids(self, request: Request) -> AsyncGenerator[Chunk, None]:
        sampling = {theirs: getattr(request.sampling, ours) for ours, theirs in SAMPLING.items()}
        body: dict[str, Any] = {
            "text": request.prompt,
            "sampling_params": {name: value for name, value in sampling.items() if value is not None},
            "stream": True,
        }
        counted = 0
        async with aclosing(self.client.events("/generate", body)) as events:
            async for event in events:
                meta = event.get("meta_info") if isinstance(event, dict) else None
                if not isinstance(meta, dict):
                    continue
                ids = event.get("output_ids")
                if not isinstance(ids, list):
                    raise EngineError("This SGLang sends no output_ids; use a newer one, or openai+URL for its text.", retry=False)
                total = meta.get("completion_tokens")
                new = total - counted if isinstance(total, int) else len(ids) - counted
                if new > len(ids):
                    raise EngineError(f"The SGLang at {self.client.address.shown} left out {new - len(ids)} token ids.", retry=False)
                if new > 0:
                    counted += new
                    yield Ids(ids[len(ids) - new :])
                finish = meta.get("finish_reason")
                if finish:
                    kind = finish.get("type") if isinstance(finish, dict) else finish
                    if kind == "abort":
                        raise EngineError(f"The SGLang at {self.client.address.shown} aborted the request; see its log.")
                    yield End({"stop": "eos", "length": "length"}.get(str(kind), "stop"))
                    return

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()
