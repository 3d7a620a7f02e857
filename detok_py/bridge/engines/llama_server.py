"""llama.cpp's `llama-server`, at a URL or started by the bridge.

In: its HTTP API, `/completion`. Out: Raw chunks of the exact bytes, also invalid ones; or Ids, in
step mode. Source: llama.cpp tools/server.

The `tokens` of a stream lack ids where a character is split: the server sends no event while its
text ends inside a character, and the next event has only the last id. The raw bytes are in
`completion_probabilities[].bytes`, so these are used, and `tokens_predicted` counts the tokens. If
the server still holds bytes when the stream ends, it drops them. Then the counts differ, and End
has a note. No `stop` is sent to the engine, because it would hold bytes back for it.

A request for ids only uses step mode: one request per token, on a cached prompt. It is exact, and
slower.
"""

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from ...captures.event_shapes import read_event
from ...decode.vocabulary import Vocabulary
from ...protocol import wire
from . import (
    BYTES,
    IDS,
    BadRequest,
    Chunk,
    ContextFull,
    End,
    EngineError,
    Ids,
    Info,
    ModelChanged,
    Prompt,
    Raw,
    Request,
    Sampling,
    grammar_of,
    reason_of,
)
from .address import Address
from .agree import sample_of
from .http import SILENCE_SECONDS, HttpEngine, prompt_tokens
from .openai import SAMPLING

# The most ids without bytes that are looked up one by one.
MAX_SPECIAL = 1024
MAX_SIZE = 1 << 22
# Its `stop_type`: end of text, limit, stop string; and what event_shapes.json makes of the flags
# that servers had before.
FINISHES = ("eos", "limit", "word", "length", "stop")
# What identifies the model, in /props and in the `meta` of /v1/models. The media marker is random,
# and changes when the server is restarted.
IDENTITY = ("model_path", "model_alias", "bos_token", "eos_token", "chat_template", "media_marker")
META = ("vocab_type", "n_vocab", "n_embd", "n_params", "size")


class LlamaServer(HttpEngine):
    """An engine with llama-server's HTTP API.

    `device` is what the launcher read in the server's log, because the API does not report it.
    """

    name = "llama-server"
    hint = "start it, for example: llama-server -m model.gguf --port 8080"
    fidelity = BYTES
    version_at: tuple[str, str] = ("/props", "build_info")
    goes_on = True
    tells_prompt = True
    says_exactly = True

    def __init__(
        self,
        address: Address,
        *,
        name: str = "llama.cpp server",
        device: str | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(address, key=key)
        self._name = name
        self._device = device
        self._size = 0
        self._props: dict[str, Any] = {}
        self._defaults: dict[str, Any] = {}

    async def open(self) -> None:
        """Read /props and /v1/models."""
        props = await self.client.get("/props")
        if not isinstance(props, dict) or "default_generation_settings" not in props:
            raise EngineError(
                f"The server at {self.client.address.shown} is not a llama-server; see `detok engines`.",
                code=wire.NO_SUCH_ENGINE,
                retry=False,
            )
        path = props.get("model_path")
        self._model = (
            Path(path).name if isinstance(path, str) and path else props.get("model_alias")
        )
        models = await self.client.get("/v1/models")
        try:
            meta = dict(models["data"][0]["meta"])
            size = meta["n_vocab"]
        except (KeyError, IndexError, TypeError, ValueError):
            meta, size = {}, 0
        if type(size) is not int or not 0 <= size <= MAX_SIZE:
            raise EngineError(
                f"The llama-server at {self.client.address.shown} says that its model has {str(size)[:20]} ids; that is not a vocabulary.",
                retry=False,
            )
        self._props = props
        self._size = size
        named = [props.get(name) for name in IDENTITY] + [meta.get(name) for name in META]
        self._identity = repr(named)

    def info(self) -> Info:
        """Exact bytes; the device only if the launcher knows it."""
        return super().info()._replace(name=self._name, device=self._device)

    def gives(self, request: Request) -> str:
        """Exact ids in step mode for a request for ids only, else exact bytes."""
        return IDS if request.want == "ids" else BYTES

    @property
    def chat_template(self) -> str | None:
        """The chat template that the server applies, which may differ from the model's own."""
        template = self._props.get("chat_template")
        return template if isinstance(template, str) else None

    @property
    def size(self) -> int:
        """How many ids the model has, 0 if the server does not say."""
        return self._size

    @property
    def model_path(self) -> Path | None:
        """The GGUF file that the server has loaded, if this machine has it too."""
        path = self._props.get("model_path")
        return (
            Path(path)
            if isinstance(path, str) and path.endswith(".gguf") and Path(path).is_file()
            else None
        )

    async def vocabulary(self) -> Vocabulary | None:
        """The vocabulary from the server itself.

        Requests one token with the probabilities of all ids, which include their raw bytes. Special
        tokens have no bytes there; their texts are looked up one by one.
        """
        if not self._size:
            return None
        # The server would hold back a token that ends inside a character, with its probabilities.
        # The bias makes it choose a whole character.
        whole = await self.client.tokenized({"content": "a", "add_special": False})
        answer = await self.client.post(
            "/completion",
            {
                "prompt": "a",
                "n_predict": 1,
                "n_probs": self._size,
                "temperature": 0.0,
                "logit_bias": [[i, 1000.0] for i in whole[-1:]],
                "stream": False,
                "cache_prompt": False,
            },
            seconds=SILENCE_SECONDS,
        )
        tokens: list[bytes | None] = [None] * self._size
        try:
            for entry in answer["completion_probabilities"][0]["top_logprobs"]:
                i, data = entry["id"], entry["bytes"]
                if type(i) is int and 0 <= i < self._size and isinstance(data, list):
                    tokens[i] = bytes(data)
        except (KeyError, IndexError, TypeError, ValueError):
            return None
        special = [i for i, token in enumerate(tokens) if token == b""]
        for i in special[:MAX_SPECIAL]:
            said = await self.client.post("/detokenize", {"tokens": [i]})
            text = said.get("content") if isinstance(said, dict) else None
            tokens[i] = text.encode("utf-8", "replace") if isinstance(text, str) else b""
        return Vocabulary.from_bytes(tokens, special, await self._end_ids())

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """Compare the sizes, and the bytes of the ids that /tokenize gives for a sample."""
        if (
            self._size
            and len(vocabulary) != self._size
            and not 0 <= self._size - len(vocabulary) <= 1024
        ):
            return f"it has {len(vocabulary)} ids and the engine's model has {self._size}"
        answer = await self.client.post(
            "/tokenize",
            {"content": sample_of(vocabulary), "with_pieces": True, "add_special": False},
        )
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        for token in tokens if isinstance(tokens, list) else []:
            i, piece = _id_and_piece(token)
            if i is None:
                raise self.client.odd("/tokenize")
            try:
                agrees = vocabulary.token_bytes(i) == piece
            except ValueError:
                agrees = False
            if not agrees:
                return f"the engine's id {i} is {piece[:40]!r}, and in this vocabulary it has other bytes"
        return None

    def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream bytes; or ids in step mode, for a request for ids only."""
        return self._step(request) if request.want == "ids" else self._stream(request)

    async def _stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        body = self._body(request.sampling)
        body.update(
            prompt=await self._ids_in(request) if request.answered else await self._prompt(request),
            n_predict=request.sampling.max_tokens,
            stream=True,
            n_probs=1,
            post_sampling_probs=True,
        )
        if request.exactly is not None:
            body["grammar"] = grammar_of(request.exactly)
        if request.messages is not None:
            yield Prompt(body["prompt"])
        counted = 0
        most = request.sampling.max_tokens
        async with aclosing(self.client.events("/completion", body, max_tokens=most)) as events:
            async for event in events:
                said = read_event(event)
                if said is None or not isinstance(event, dict) or "prompt_progress" in event:
                    continue
                # A count above the requested number of tokens is not used.
                total = said.total if said.total is not None and said.total <= most else counted
                if said.data is not None:
                    yield Raw(
                        said.data, max(1, total - counted), said.ids[-1] if said.ids else None
                    )
                    counted = max(counted + 1, total)
                elif said.text and not event.get("stop"):
                    raise EngineError(
                        "The llama-server sends no token bytes (completion_probabilities); use a newer one.",
                        retry=False,
                    )
                if event.get("stop"):
                    end = _end(said.finish, total - counted)
                    yield end._replace(prompt_tokens=prompt_tokens(event), tokens=total)
                    return

    async def _step(self, request: Request) -> AsyncGenerator[Chunk, None]:
        ids = await self._ids_in(request)
        if request.messages is not None:
            yield Prompt(ids)
        first = len(ids)
        began = self._identity
        name = None
        end = End("length")
        rng = random.Random(request.sampling.seed)
        for _ in range(request.sampling.max_tokens):
            body = self._body(request.sampling)
            # The same seed in each step would draw the same number each time.
            body.update(
                prompt=ids, n_predict=1, stream=False, return_tokens=True, seed=rng.getrandbits(31)
            )
            try:
                answer = await self.client.post("/completion", body, seconds=SILENCE_SECONDS)
            except ContextFull:
                if len(ids) == first and not request.answered:
                    raise
                break  # the answer has filled the context
            if not isinstance(answer, dict):
                raise self.client.odd("/completion")
            # While the client gives no credit, there is time to restart a server between two steps.
            name = name or answer.get("model")
            if name != answer.get("model"):
                raise _changed()
            new = self.client.ids_in("/completion", answer) if answer.get("tokens") else []
            if new:
                ids = ids + new
                yield Ids(new)
            kind = answer.get("stop_type")
            if kind in ("eos", "word") or not new:  # "limit" is that of one token
                end = _end(kind, 0)
                break
        await self.open()
        if self._identity != began:
            raise _changed()
        yield end

    def _body(self, sampling: Sampling) -> dict[str, Any]:
        given = sampling.named(**SAMPLING)
        return {"cache_prompt": True, "return_tokens": True, **self._defaults, **given}

    async def _prompt(self, request: Request) -> str:
        if request.prompt is not None:
            return request.prompt
        body = {"messages": request.messages, **request.tools}
        answer = await self.client.post("/apply-template", body)
        prompt = answer.get("prompt") if isinstance(answer, dict) else None
        if not isinstance(prompt, str):
            raise BadRequest("The llama-server could not put the messages into its chat template.")
        return prompt

    async def _ids_in(self, request: Request) -> list[int]:
        """Return the ids of the prompt, as the server reads it, and of the answer so far."""
        text = await self._prompt(request)
        asked = {"content": text, "add_special": True, "parse_special": True}
        ids = await self.client.tokenized(asked)
        return [*ids, *request.answered]

    async def _end_ids(self) -> list[int]:
        text = self._props.get("eos_token")
        if not isinstance(text, str) or not text:
            return []
        asked = {"content": text, "add_special": False, "parse_special": True}
        ids = await self.client.tokenized(asked)
        return ids if len(ids) == 1 and ids[0] < self._size else []


def _id_and_piece(token: Any) -> tuple[int | None, bytes]:
    """Return the id and the bytes of a token of /tokenize, or (None, b"") for another shape."""
    if isinstance(token, dict) and type(token.get("id")) is int:
        piece = token.get("piece")
        if isinstance(piece, str):
            return token["id"], piece.encode("utf-8", "replace")
        if isinstance(piece, list) and all(type(b) is int and 0 <= b < 256 for b in piece):
            return token["id"], bytes(piece)
    return None, b""


def _changed() -> ModelChanged:
    return ModelChanged("The llama-server was restarted with another model in mid-answer.")


def _end(finish: Any, uncounted: int) -> End:
    """Return the end, with a note if the server counted tokens that it did not send, or gave no
    known reason. An answer without a reason counts as stopped: neither as ended by the model, nor
    as cut.
    """
    known = finish in FINISHES
    # The end-of-text token is counted too. While the server holds back characters, it sends no
    # event for that token.
    dropped = uncounted - (1 if finish == "eos" or not known else 0)
    notes = [] if known else ["The llama-server does not say why the answer ended."]
    if dropped > 0:
        what = "1 token" if dropped == 1 else f"{dropped} tokens"
        notes.append(
            f"The engine dropped the last {what}: the stream ends inside a character, and llama-server does not send what it holds then."
        )
    return End(reason_of(finish) if known else "stop", " ".join(notes) or None)
