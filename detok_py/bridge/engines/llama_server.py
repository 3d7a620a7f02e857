"""llama.cpp's `llama-server`, somebody else's or our own.

In: its HTTP API, `/completion`. Out: Raw chunks, exact bytes, invalid ones included; or Ids, in step mode. Source: llama.cpp tools/server.

The streamed `tokens` lose ids exactly where a character is split: while the text ends inside a character no event is sent, and the next
one carries only the last id. `completion_probabilities[].bytes` is the raw byte stream, so that is what is read, and tokens are counted by
`tokens_predicted`. What the server still held when the stream ended, it drops: then the counts differ, and End says so. No `stop` is
sent to the engine, because it would hold bytes back for it.

Ids, where they are wanted alone, come from step mode: one token a request, on a cached prompt. Exact, and slower.
"""

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from detok_py import wire
from detok_py.vocabulary import Vocabulary

from . import BYTES, IDS, Chunk, End, EngineError, Ids, Info, Raw, Request, Sampling
from .address import Address
from .agree import SAMPLE
from .http import EngineClient

HINT = "start it, for example: llama-server -m model.gguf --port 8080"
# Beyond this many ids whose bytes the server leaves out, their text isn't asked for one by one.
MAX_SPECIAL = 1024


class LlamaServer:
    """An engine behind llama-server's HTTP API. `device` is what its launcher saw in its log; the API itself reports none."""

    def __init__(self, address: Address, *, name: str = "llama.cpp server", device: str | None = None, key: str | None = None) -> None:
        self.client = EngineClient(address, name="llama-server", hint=HINT, key=key)
        self._name = name
        self._device = device
        self._model: str | None = None
        self._size = 0
        self._props: dict[str, Any] = {}
        self._defaults: dict[str, Any] = {}

    async def open(self) -> None:
        """Read /props and /v1/models, the first time."""
        if self._props:
            return
        props = await self.client.get("/props")
        if not isinstance(props, dict) or "default_generation_settings" not in props:
            raise EngineError(
                f"The server at {self.client.address.shown} is no llama-server; see `detok engines`.", code=wire.NO_SUCH_ENGINE, retry=False
            )
        self._props = props
        path = props.get("model_path")
        self._model = Path(path).name if isinstance(path, str) and path else props.get("model_alias")
        models = await self.client.get("/v1/models")
        try:
            self._size = int(models["data"][0]["meta"]["n_vocab"])
        except (KeyError, IndexError, TypeError, ValueError):
            self._size = 0

    def info(self) -> Info:
        """Exact bytes; the device only where a launcher saw it."""
        return Info(self._name, BYTES, self._device, self._model)

    def gives(self, request: Request) -> str:
        """Exact ids by stepping, where ids alone are wanted; else exact bytes."""
        return IDS if request.want == "ids" else BYTES

    async def close(self) -> None:
        """Close the connections; the server is not ours to stop."""
        await self.client.close()

    @property
    def size(self) -> int:
        """How many ids the model has, 0 where the server does not say."""
        return self._size

    @property
    def model_path(self) -> Path | None:
        """The GGUF that the server says it has loaded, where this machine has it too."""
        path = self._props.get("model_path")
        return Path(path) if isinstance(path, str) and path.endswith(".gguf") and Path(path).is_file() else None

    async def vocabulary(self) -> Vocabulary | None:
        """The vocabulary, from the server itself: one token with the probability of every id, each with its raw bytes.

        Special tokens come back without bytes; their text is asked for one by one.
        """
        if not self._size:
            return None
        # A token that ended inside a character would be held back, probabilities and all: so a whole one is made sure of.
        whole = (await self.client.post("/tokenize", {"content": "a", "add_special": False}))["tokens"][-1]
        answer = await self.client.post(
            "/completion",
            {
                "prompt": "a",
                "n_predict": 1,
                "n_probs": self._size,
                "temperature": 0.0,
                "logit_bias": [[whole, 1000.0]],
                "stream": False,
                "cache_prompt": False,
            },
        )
        tokens: list[bytes | None] = [None] * self._size
        try:
            for entry in answer["completion_probabilities"][0]["top_logprobs"]:
                if entry["id"] < self._size:
                    tokens[entry["id"]] = bytes(entry["bytes"])
        except (KeyError, IndexError, TypeError, ValueError):
            return None
        special = [i for i, token in enumerate(tokens) if token == b""]
        for i in special[:MAX_SPECIAL]:
            text = (await self.client.post("/detokenize", {"tokens": [i]})).get("content", "")
            tokens[i] = text.encode("utf-8") if isinstance(text, str) else b""
        return Vocabulary.from_bytes(tokens, special, await self._end_ids())

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Return one sentence where `vocabulary` can't be the engine's: another size, or other bytes for the ids of a sample; else None."""
        if self._size and len(vocabulary) != self._size and not 0 <= self._size - len(vocabulary) <= 1024:
            return f"it has {len(vocabulary)} ids and the engine's model has {self._size}"
        answer = await self.client.post("/tokenize", {"content": SAMPLE, "with_pieces": True, "add_special": False})
        for token in answer.get("tokens", []) if isinstance(answer, dict) else []:
            i, piece = token.get("id"), token.get("piece")
            expected = piece.encode("utf-8") if isinstance(piece, str) else bytes(piece or [])
            if not isinstance(i, int) or i >= len(vocabulary) or vocabulary.token_bytes(i) != expected:
                return f"the engine's id {i} is {expected!r}, and in this vocabulary it is something else"
        return None

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream bytes, or step through ids where ids alone are wanted."""
        return self._step(request) if request.want == "ids" else self._stream(request)

    async def _stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        body = self._body(request.sampling)
        body.update(
            prompt=await self._prompt(request), n_predict=request.sampling.max_tokens, stream=True, n_probs=1, post_sampling_probs=True
        )
        counted = 0
        async with aclosing(self.client.events("/completion", body)) as events:
            async for event in events:
                if not isinstance(event, dict) or "prompt_progress" in event:
                    continue
                total = event.get("tokens_predicted", counted)
                entries = event.get("completion_probabilities") or []
                try:
                    data = b"".join([bytes(entry["bytes"]) for entry in entries])
                except (KeyError, TypeError, ValueError):
                    raise EngineError(
                        "The llama-server sent an event of a shape that is not known; use another version.", retry=False
                    ) from None
                if entries:
                    yield Raw(data, max(1, total - counted), entries[-1].get("id"))
                    counted = max(counted + 1, total)
                elif event.get("content") and not event.get("stop"):
                    raise EngineError("The llama-server sends no token bytes (completion_probabilities); use a newer one.", retry=False)
                if event.get("stop"):
                    yield _end(event, counted)
                    return

    async def _step(self, request: Request) -> AsyncGenerator[Chunk, None]:
        tokenized = await self.client.post(
            "/tokenize", {"content": await self._prompt(request), "add_special": True, "parse_special": True}
        )
        ids: list[int] = tokenized["tokens"]
        rng = random.Random(request.sampling.seed)
        for _ in range(request.sampling.max_tokens):
            body = self._body(request.sampling)
            # One seed for every step would draw the same number each time.
            body.update(prompt=ids, n_predict=1, stream=False, return_tokens=True, seed=rng.getrandbits(31))
            answer = await self.client.post("/completion", body)
            new = answer.get("tokens") or []
            if new:
                ids = ids + new
                yield Ids(new)
            if answer.get("stop_type") == "eos" or not new:
                yield End("eos")
                return
        yield End("length")

    def _body(self, sampling: Sampling) -> dict[str, Any]:
        body: dict[str, Any] = {"cache_prompt": True, "return_tokens": True, **self._defaults}
        for name in ("temperature", "seed", "top_p", "top_k"):
            value = getattr(sampling, name)
            if value is not None:
                body[name] = value
        return body

    async def _prompt(self, request: Request) -> str:
        if request.prompt is not None:
            return request.prompt
        answer = await self.client.post("/apply-template", {"messages": request.messages})
        prompt = answer.get("prompt") if isinstance(answer, dict) else None
        if not isinstance(prompt, str):
            raise EngineError("The llama-server could not put the messages into its chat template.", code=wire.BAD_MESSAGE, retry=False)
        return prompt

    async def _end_ids(self) -> list[int]:
        text = self._props.get("eos_token")
        if not isinstance(text, str) or not text:
            return []
        answer = await self.client.post("/tokenize", {"content": text, "add_special": False, "parse_special": True})
        ids = answer.get("tokens", [])
        return ids if len(ids) == 1 and ids[0] < self._size else []


def _end(event: dict[str, Any], counted: int) -> End:
    """The end, and what the server dropped with it: tokens that it counted and never sent."""
    kind = event.get("stop_type")
    total = event.get("tokens_predicted", counted)
    # The end-of-text token is counted too, and where characters are held back no event is sent for it.
    dropped = total - counted - (1 if kind == "eos" else 0)
    note = None
    if dropped > 0:
        what = "1 token" if dropped == 1 else f"{dropped} tokens"
        note = f"The engine dropped the last {what}: the stream ends inside a character, and llama-server does not send what it holds then."
    return End({"eos": "eos", "limit": "length", "word": "stop"}.get(str(kind), "stop"), note)
