"""`scripted`: an engine that streams the user's own text, at any pace, with faults on request.

In: a text and how to cut it. Out: Ids (cut into tokens of a vocabulary) or Raw (cut into bytes).
Faults of real engines can be requested, reproducible by a seed: invalid bytes, an end inside a
character, a stall, a crash.
"""

import asyncio
import contextlib
import itertools
import random
import zlib
from array import array
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ...captures.cut import LongestTokens
from ...decode.vocabulary import Vocabulary
from ...errors import VocabularyError
from ...protocol import wire
from . import BYTES, IDS, TEXT, Chunk, End, EngineError, Ids, Info, Raw, Request, with_values

MAX_TEXT = 1 << 18
LONG = 1 << 12
BLOCK = 1 << 11  # ids or bytes
MAX_PACE = 10**9
CUTS = ("token", "byte", "random")
# Bytes that never occur in UTF-8, and bytes that never begin a character.
INVALID = bytes(range(0x80, 0xC2)) + bytes(range(0xF5, 0x100))


class ScriptedEngine:
    """Streams `params["text"]`, or the prompt, or the last message, if there is no such text.

    `vocabulary` returns the bridge's vocabulary. `encode` is the encoder of its tokenizer; without
    one, each token is the longest that fits.
    """

    def __init__(
        self,
        vocabulary: Callable[[], Vocabulary | None],
        encode: Callable[[str], list[int]] | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self.encode = encode
        self._cutting = asyncio.Lock()
        self._longest: LongestTokens | None = None

    async def open(self) -> None:
        """Nothing to start."""

    def info(self) -> Info:
        """The device says that there is no model."""
        return Info(
            "scripted text",
            IDS if self._vocabulary() is not None else BYTES,
            "no model: a text is replayed",
        )

    def gives(self, request: Request) -> str:
        """Ids if the text is cut by token, else bytes of an unknown number of tokens."""
        return IDS if self._cut(request) == "token" else TEXT

    async def vocabulary(self) -> Vocabulary | None:
        """The bridge's vocabulary."""
        return self._vocabulary()

    async def refuse_vocabulary(self, vocabulary: Vocabulary) -> str | None:
        """None: any vocabulary can be used."""
        return None

    async def close(self) -> None:
        """Nothing to stop."""

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream the text."""
        params = request.params
        text = params.get("text", request.prompt)
        if "text" not in params and request.messages:
            text = with_values(request.messages[-1:])[0].get("content")
        if not isinstance(text, str):
            raise _refusal("the scripted engine streams a text: give params.text, or a prompt")
        if len(text) > MAX_TEXT:
            raise _refusal(
                f"a text of {len(text)} characters; the scripted engine takes at most {MAX_TEXT}"
            )
        cut = self._cut(request)
        seed = request.sampling.seed or 0
        faults = _faults(params.get("faults", {}))
        # In a thread, so that other clients need not wait; one long text at a time.
        async with self._cutting if len(text) > LONG else contextlib.nullcontext():
            pieces = await asyncio.to_thread(self._cut_text, text, cut, faults, seed)
        # A run may wait a minute for its client, so only the pieces are kept.
        params.pop("text", None)
        del text
        size = pieces.total
        cut_short = "max_tokens" in params and size > request.sampling.max_tokens
        pace = params.get("pace")
        if cut_short:
            size = request.sampling.max_tokens
        if pace is None:
            pace = max(200.0, size / 5)
        elif type(pace) not in (int, float) or not 0 <= pace <= MAX_PACE:
            raise _refusal(
                f"pace is a number of tokens or bytes a second, at most {MAX_PACE}, 0 for as fast as possible"
            )
        steps = itertools.islice(pieces.steps(), size)
        async for chunk in _play(steps, float(pace), faults, self._size_of):
            yield chunk
        reason = "length" if cut_short else "stop" if "end" in faults else "eos"
        yield End(reason, prompt_tokens=0)

    def _cut_text(self, text: str, cut: str, faults: dict[str, Any], seed: int) -> "_Pieces":
        whole = text.encode("utf-8")
        data = _damage(whole, faults, random.Random(seed))
        if cut == "token":
            ids = array("I", self._tokens(text if data == whole else None, data))
            blocks = [ids[at : at + BLOCK].tobytes() for at in range(0, len(ids), BLOCK)]
            total = len(ids)
        else:
            blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
            total = len(data) if cut == "byte" else sum(1 for _ in _sizes(len(data), seed))
        return _Pieces([zlib.compress(block, 1) for block in blocks], cut, len(data), seed, total)

    def _cut(self, request: Request) -> str:
        cut = request.params.get("cut", "token" if self._vocabulary() is not None else "byte")
        if cut not in CUTS:
            raise _refusal(f'cut is {str(cut)[:20]!r}; it can be "token", "byte" or "random"')
        return str(cut)

    def _size_of(self, chunk: Chunk) -> int:
        if isinstance(chunk, Raw):
            return len(chunk.data)
        vocabulary = self._vocabulary()
        if vocabulary is None or not isinstance(chunk, Ids):
            return 0
        return sum([len(vocabulary.token_bytes(i)) for i in chunk.ids])

    def _tokens(self, text: str | None, data: bytes) -> list[int]:
        vocabulary = self._vocabulary()
        if vocabulary is None:
            raise _refusal(
                'cut "token" needs a vocabulary, and this bridge has none; start it with --tokenizer, or use cut "byte"'
            )
        if text is not None and self.encode is not None:
            return self.encode(text)
        if self._longest is None or self._longest.vocabulary is not vocabulary:
            self._longest = LongestTokens(vocabulary)
        try:
            return self._longest.cut(data)
        except VocabularyError as error:
            raise _refusal(str(error)) from None


async def _play(
    steps: Iterable[Chunk], pace: float, faults: dict[str, Any], size_of: Callable[[Chunk], int]
) -> AsyncGenerator[Chunk, None]:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    done = 0
    stall_at, stall_seconds = faults.get("stall", (None, 0))
    crash_at = faults.get("crash")
    crash = EngineError(
        "The scripted engine crashed, as requested; what came before is kept.", retry=False
    )
    for n, step in enumerate(steps):
        if stall_at is not None and done >= stall_at:
            stall_at = None
            await asyncio.sleep(stall_seconds)
            begin += stall_seconds
        if crash_at is not None and done >= crash_at:
            raise crash
        wait = begin + n / pace - loop.time() if pace else 0.0
        if wait > 0 or n % 16 == 15:
            await asyncio.sleep(max(0.0, wait))
        yield step
        if stall_at is not None or crash_at is not None:
            done += size_of(step)
    if crash_at is not None:
        raise crash


class _Pieces(NamedTuple):
    """A text that has been cut: into tokens, into bytes, or into pieces of random sizes. The chunks
    are made one by one, because each takes a hundred times the memory of a byte, from compressed
    blocks of ids or bytes. A block that has been read is dropped: the run's log has its data.
    """

    blocks: list[bytes]
    cut: str
    length: int  # bytes of the text
    seed: int
    total: int  # chunks

    def steps(self) -> Iterator[Chunk]:
        """Yield the chunks, once."""
        blocks = self._unpacked()
        if self.cut == "token":
            for block in blocks:
                for i in memoryview(block).cast("I"):
                    yield Ids([i])
            return
        ones = itertools.repeat(1, self.length)
        data, at = b"", 0
        for size in ones if self.cut == "byte" else _sizes(self.length, self.seed):
            if at + size > len(data):
                data, at = data[at:] + next(blocks), 0
            yield Raw(data[at : at + size])
            at += size

    def _unpacked(self) -> Iterator[bytes]:
        while self.blocks:
            yield zlib.decompress(self.blocks.pop(0))


def _sizes(length: int, seed: int) -> Iterator[int]:
    rng = random.Random(seed)
    while length > 0:
        size = min(rng.randint(1, 8), length)
        yield size
        length -= size


def _damage(data: bytes, faults: dict[str, Any], rng: random.Random) -> bytes:
    if "invalid" in faults:
        out = bytearray()
        for byte in data:
            if rng.random() < faults["invalid"]:
                out.append(rng.choice(INVALID))
            out.append(byte)
        data = bytes(out)
    return data[: faults["end"]] if "end" in faults else data


def _faults(given: Any) -> dict[str, Any]:
    """Return the faults, checked. Raises EngineError."""
    if not isinstance(given, dict):
        raise _refusal(
            'faults are an object, like {"invalid": 0.01, "end": 100, "stall": [50, 2], "crash": 80}'
        )
    for name, value in given.items():
        if name == "invalid":
            good = type(value) in (int, float) and 0 <= value <= 1
        elif name in ("end", "crash"):
            good = type(value) is int and value >= 0
        elif name == "stall":
            good = (
                isinstance(value, list)
                and len(value) == 2
                and all(isinstance(v, (int, float)) and 0 <= v <= 3600 for v in value)
            )
        else:
            raise _refusal(
                f"there is no fault {name[:20]!r}; there are invalid, end, stall and crash"
            )
        if not good:
            raise _refusal(
                f"fault {name!r}: invalid is a chance from 0 to 1, end and crash are byte counts, stall is [bytes, seconds]"
            )
    return given


def _refusal(sentence: str) -> EngineError:
    return EngineError(sentence[0].upper() + sentence[1:] + ".", code=wire.BAD_MESSAGE, retry=False)
