"""Hugging Face's text-generation-inference: one token id in each event of `/generate_stream`.

In: `/generate_stream`. Out: Ids. Messages go through its OpenAI route, which gives text only.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ...captures.event_shapes import read_event
from ...decode.vocabulary import Vocabulary
from . import IDS, Chunk, End, EngineError, Ids, Request, reason_of
from .agree import disagreement, sample_of
from .http import HttpEngine
from .openai import SAMPLING, stream_text, with_room


class TGI(HttpEngine):
    """An engine with TGI's native API."""

    name = "TGI"
    hint = "start it: text-generation-launcher --model-id MODEL"
    fidelity = IDS
    version_at: tuple[str, str] = ("/info", "version")

    async def open(self) -> None:
        """Find the model's name, unless it was given."""
        info = await self.client.get("/info")
        if not isinstance(info, dict) or "model_id" not in info:
            raise EngineError(
                f"The server at {self.client.address.shown} is not a TGI; see `detok engines`.",
                retry=False,
            )
        if not self._named:
            self._model = str(info["model_id"])
        self._context = info.get("max_total_tokens")
        self._identity = repr([info["model_id"], info.get("model_sha")])

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Compare with the ids that /tokenize gives for a sample."""
        sample = sample_of(vocabulary)
        answer = await self.client.post(
            "/tokenize", {"inputs": sample, "add_special_tokens": False}
        )
        tokens = answer if isinstance(answer, list) else []
        ids = [token.get("id") if isinstance(token, dict) else None for token in tokens]
        return disagreement(ids, sample, vocabulary)

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream ids for a prompt, text for messages."""

        async def count() -> int:
            answer = await self.client.post("/tokenize", {"inputs": request.prompt})
            if not isinstance(answer, list):
                raise self.client.odd("/tokenize")
            return len(answer)

        is_chat = request.messages is not None
        if request.sampling.top_p == 1:  # TGI refuses it; without top_p all tokens count, too
            request = request._replace(sampling=request.sampling._replace(top_p=None))
        request = await with_room(request, self._context, None if is_chat else count)
        async with aclosing(
            stream_text(self.client, request, self._model) if is_chat else self._ids(request)
        ) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _ids(self, request: Request) -> AsyncGenerator[Chunk, None]:
        sampling = request.sampling
        # TGI refuses 0 for all but the seed; `do_sample` turns sampling off for a temperature of 0.
        given = sampling.named(max_tokens="max_new_tokens", **SAMPLING)
        parameters: dict[str, Any] = {
            name: value for name, value in given.items() if value or name == "seed"
        }
        parameters.update(details=True, do_sample=bool(sampling.temperature))
        async with aclosing(
            self.client.events(
                "/generate_stream",
                {"inputs": request.prompt, "parameters": parameters},
                max_tokens=sampling.max_tokens,
            )
        ) as events:
            async for event in events:
                said = read_event(event)
                if said is None:
                    continue
                if said.ids:
                    yield Ids(said.ids, ends=said.finish == "eos_token")
                if said.finish:
                    yield End(reason_of(said.finish))
                    return
