"""vLLM: every token id, exactly, from its OpenAI routes with `return_token_ids`; or tokens in, tokens out.

In: `/v1/completions`, `/v1/chat/completions`, or `/inference/v1/generate` (a server started with --tokens-only or --enable-scale-out).
Out: Ids. The text that comes along is never read, nor are its logprob `bytes`, which are not raw.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from detok_py.vocabulary import Vocabulary

from . import IDS, Chunk, End, EngineError, Ids, Info, Request
from .address import Address
from .agree import SAMPLE, disagreement
from .http import EngineClient
from .openai import REASONS, choice_of, completion_body, first_model, route_of


class VLLM:
    """An engine behind vLLM's HTTP API. `tokens_only`: use the tokens-in, tokens-out route."""

    def __init__(self, address: Address, *, model: str | None = None, tokens_only: bool = False) -> None:
        self.client = EngineClient(address, name="vLLM", hint="start it: vllm serve MODEL")
        self._model = model
        self._root: str | None = None
        self._tokens_only = tokens_only

    async def open(self) -> None:
        """Find the model's name and folder, the first time."""
        if self._root is None:
            entry = await first_model(self.client)
            self._model = self._model or entry["id"]
            self._root = str(entry.get("root") or "")

    def info(self) -> Info:
        """Exact ids."""
        return Info("vLLM", IDS, None, self._model)

    def gives(self, request: Request) -> str:
        """Exact ids."""
        return IDS

    @property
    def model_path(self) -> Path | None:
        """The model's folder, where this machine has it too."""
        return Path(self._root) if self._root and Path(self._root).is_dir() else None

    async def vocabulary(self) -> Vocabulary | None:
        """None: vLLM has no route that gives it; its model folder does."""
        return None

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Compare with the ids that /tokenize gives for a sample."""
        answer = await self.client.post("/tokenize", {"model": self._model, "prompt": SAMPLE, "add_special_tokens": False})
        return disagreement(answer.get("tokens") if isinstance(answer, dict) else None, vocabulary)

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream ids."""
        if self._tokens_only:
            path, body = "/inference/v1/generate", await self._tokens_in(request)
        else:
            path, body = route_of(request), {**completion_body(self._model, request), "return_token_ids": True}
        reason = None
        async with aclosing(self.client.events(path, body)) as events:
            async for event in events:
                choice = choice_of(event)
                if choice is None:
                    continue
                ids = choice.get("token_ids")
                if ids:
                    yield Ids(list(ids))
                elif ids is None and (choice.get("text") or (choice.get("delta") or {}).get("content")):
                    raise EngineError(
                        "This vLLM sends no token ids (return_token_ids); use 0.10.2 or later, or openai+URL for its text.", retry=False
                    )
                reason = choice.get("finish_reason") or reason
        if reason is None:
            raise EngineError(f"The vLLM at {self.client.address.shown} was lost in mid-answer; what came before is kept.")
        yield End(REASONS.get(str(reason), "stop"))

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    async def _tokens_in(self, request: Request) -> dict[str, Any]:
        asked: dict[str, Any] = {"model": self._model}
        asked.update({"messages": request.messages} if request.messages is not None else {"prompt": request.prompt})
        tokenized = await self.client.post("/tokenize", asked)
        sampling = {"max_tokens": request.sampling.max_tokens, "detokenize": False}
        for name in ("temperature", "seed", "top_p", "top_k"):
            value = getattr(request.sampling, name)
            if value is not None:
                sampling[name] = value
        return {"model": self._model, "token_ids": tokenized["tokens"], "sampling_params": sampling, "stream": True}
