"""vLLM: every token id, exactly.

In: `/v1/completions` and `/v1/chat/completions` with `return_token_ids`, or the tokens-only route
`/inference/v1/generate` of a server that was started with --tokens-only or --enable-scale-out.
Out: Ids. The text of the events is not used, nor are the `bytes` of its logprobs, which are not
the raw bytes.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from ...captures.event_shapes import find, read_event
from ...decode.vocabulary import Vocabulary
from ...protocol import wire
from . import IDS, Chunk, End, EngineError, Ids, Prompt, Request, grammar_of, reason_of
from .address import Address
from .agree import refuse_by_sample
from .http import HttpEngine, is_ids
from .openai import SAMPLING, completion_body, model_entry, route_of, with_room

# Where the first event of a chat, or of a completion, has the prompt's ids.
PROMPT_IDS = "prompt_token_ids|choices[!index].prompt_token_ids"


class VLLM(HttpEngine):
    """An engine with vLLM's HTTP API. `tokens_only` selects the route that takes and gives token
    ids.
    """

    name = "vLLM"
    hint = "start it: vllm serve MODEL"
    fidelity = IDS
    version_at: tuple[str, str] = ("/version", "version")
    goes_on = True
    tells_prompt = True
    says_exactly = True

    def __init__(
        self, address: Address, *, model: str | None = None, tokens_only: bool = False
    ) -> None:
        super().__init__(address, model=model)
        self._root = ""
        self._tokens_only = tokens_only

    async def open(self) -> None:
        """Find the model's name, unless it was given, and its folder."""
        entry = await model_entry(self.client, self._model)
        if not self._named:
            self._model = entry["id"]
        elif entry["id"] != self._model:
            raise EngineError(
                f"The vLLM at {self.client.address.shown} has no model {str(self._model)[:80]!r}, but {entry['id'][:80]!r}; pass that with --model, or none.",
                code=wire.NO_SUCH_ENGINE,
                retry=False,
            )
        self._context = entry.get("max_model_len")
        self._root = str(entry.get("root") or "")
        self._identity = repr([entry.get(name) for name in ("id", "root", "max_model_len")])

    def gives(self, request: Request) -> str:
        """Exact ids."""
        return IDS

    @property
    def model_path(self) -> Path | None:
        """The model's folder, if this machine has it too."""
        return Path(self._root) if self._root and Path(self._root).is_dir() else None

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Compare with the ids that /tokenize gives for a sample."""
        return await refuse_by_sample(self.client, self._model, vocabulary)

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream ids."""

        async def count() -> int:
            return len(await self._prompt_ids(request))

        request = await with_room(request, self._context, count)
        if self._tokens_only:
            path, body = "/inference/v1/generate", await self._tokens_in(request)
            if request.messages is not None:
                yield Prompt(body["token_ids"])
        else:
            path, body = route_of(request), completion_body(self._model, request)
            body["return_token_ids"] = True
            if request.exactly is not None:
                body["structured_outputs"] = {"grammar": grammar_of(request.exactly)}
            if request.tools:
                # With "auto" the server looks for calls itself, and needs options for that.
                body.update(request.tools, tool_choice="none")
            if request.answered:
                path = "/v1/completions"
                for name in ("messages", "tools", "tool_choice"):
                    body.pop(name, None)
                body["prompt"] = [*await self._prompt_ids(request), *request.answered]
        finish = None
        read: Any = None
        most = request.sampling.max_tokens
        async with aclosing(self.client.events(path, body, max_tokens=most)) as events:
            async for event in events:
                said = read_event(event)
                if said is None or not isinstance(event, dict):
                    continue
                if read is None:
                    [read, *_] = find(event, PROMPT_IDS) or [None]
                if request.messages is not None and is_ids(event.get("prompt_token_ids")):
                    yield Prompt(event["prompt_token_ids"])
                if said.ids:
                    # No stop strings are sent, so what stops an answer is its last token.
                    yield Ids(said.ids, ends=said.finish == "stop")
                elif said.ids is None and said.text:
                    raise EngineError(
                        "This vLLM sends no token ids (return_token_ids); use 0.10.2 or later, or openai+URL for its text.",
                        retry=False,
                    )
                self.client.check_finish(said)
                finish = said.finish or finish
        if finish is None:
            raise self.client.ended_early()
        yield End(reason_of(finish), prompt_tokens=len(read) if is_ids(read) else None)

    async def _prompt_ids(self, request: Request) -> list[int]:
        given = "prompt" if request.messages is None else "messages"
        asked = {given: getattr(request, given), **request.tools}
        return await self.client.tokenized({"model": self._model, **asked})

    async def _tokens_in(self, request: Request) -> dict[str, Any]:
        return {
            "model": self._model,
            "token_ids": [*await self._prompt_ids(request), *request.answered],
            "sampling_params": {
                "detokenize": False,
                **request.sampling.named(max_tokens="max_tokens", **SAMPLING),
            },
            "stream": True,
        }
