"""SGLang: every token id, exactly, from its native `/generate`.

In: `/generate` with `text`. Out: Ids. `output_ids` has all ids so far, or with
--incremental-streaming-output only the new ones. `meta_info.completion_tokens` counts all of them,
so the new ids can be told apart in both cases. Messages go through its OpenAI route, which applies
the chat template and gives text only.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from ...captures.event_shapes import read_event
from ...decode.vocabulary import Vocabulary
from . import IDS, Chunk, End, EngineError, Ids, Request, grammar_of, reason_of
from .agree import refuse_by_sample
from .http import HttpEngine, prompt_tokens
from .openai import SAMPLING, model_entry, stream_text, with_room


class SGLang(HttpEngine):
    """An engine with SGLang's native API."""

    name = "SGLang"
    hint = "start it: python -m sglang.launch_server --model-path MODEL"
    fidelity = IDS
    version_at: tuple[str, str] = ("/get_server_info", "version")
    goes_on = True
    says_exactly = True
    _path: str | None = None

    async def open(self) -> None:
        """Find the model's path."""
        info = await self.client.get("/get_model_info")
        if not isinstance(info, dict) or "model_path" not in info:
            raise EngineError(
                f"The server at {self.client.address.shown} is not an SGLang; see `detok engines`.",
                retry=False,
            )
        self._path = str(info.get("tokenizer_path") or info["model_path"])
        if not self._named:
            self._model = str(info["model_path"])
        self._identity = repr([info["model_path"], self._path])
        with suppress(EngineError):
            self._context = (await model_entry(self.client, None)).get("max_model_len")

    @property
    def model_path(self) -> Path | None:
        """The tokenizer's folder, if this machine has it too."""
        return Path(self._path) if self._path and Path(self._path).is_dir() else None

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Compare with the ids that /tokenize gives for a sample, if the server has that route."""
        try:
            return await refuse_by_sample(self.client, self._model, vocabulary)
        except EngineError:
            return None

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream ids for a prompt, text for messages."""

        async def count() -> int:
            return len(await self._prompt_ids(request))

        is_chat = request.messages is not None
        request = await with_room(request, self._context, None if is_chat else count)
        async with aclosing(
            stream_text(self.client, request, self._model) if is_chat else self._ids(request)
        ) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _prompt_ids(self, request: Request) -> list[int]:
        return await self.client.tokenized({"model": self._model, "prompt": request.prompt})

    async def _ids(self, request: Request) -> AsyncGenerator[Chunk, None]:
        given: dict[str, Any] = (
            {"input_ids": [*await self._prompt_ids(request), *request.answered]}
            if request.answered
            else {"text": request.prompt}
        )
        body: dict[str, Any] = {
            **given,
            "sampling_params": request.sampling.named(
                max_tokens="max_new_tokens", **{**SAMPLING, "seed": "sampling_seed"}
            ),
            "stream": True,
        }
        if request.exactly is not None:
            body["sampling_params"]["ebnf"] = grammar_of(request.exactly)
        counted = 0
        most = request.sampling.max_tokens
        async with aclosing(self.client.events("/generate", body, max_tokens=most)) as events:
            async for event in events:
                if not isinstance(event, dict) or not isinstance(event.get("meta_info"), dict):
                    continue
                said = read_event(event, counted)
                if said.ids is None or said.total is None:
                    raise EngineError(
                        "This SGLang sends no output_ids; use a newer one, or openai+URL for its text.",
                        retry=False,
                    )
                missing = said.total - counted - len(said.ids)
                if missing > 0:
                    raise EngineError(
                        f"The SGLang at {self.client.address.shown} left out {missing} token ids.",
                        retry=False,
                    )
                if said.ids:
                    counted = said.total
                    yield Ids(said.ids, ends=_ends_with(event, said.ids[-1]))
                self.client.check_finish(said)
                if said.finish:
                    yield End(reason_of(said.finish), None, prompt_tokens(event), said.total)
                    return


def _ends_with(event: dict[str, Any], token_id: int) -> bool:
    """Return whether an event says that `token_id` made the engine stop.

    >>> _ends_with({"meta_info": {"finish_reason": {"type": "stop", "matched": 2}}}, 2)
    True
    """
    finish = event["meta_info"].get("finish_reason")
    return isinstance(finish, dict) and finish.get("matched") == token_id
