"""Check an engine: request texts whose characters are split over tokens, and compare its output.

In: an open engine, and its vocabulary if there is one. Out: a `Proof`. Held: one answer.

Each text is requested twice by the engine's own client, streamed and not streamed. Three
comparisons are made:

    given      the ids or bytes that detok reads, with the requested text
    streamed   the engine's own text in the same stream, with those ids or bytes
    whole      the engine's text without streaming, with the same ids or bytes

An engine that accepts a grammar must answer with the text. Other engines are asked to repeat it.
Then a longer answer is interrupted and resumed, as `detok serve --continue` does it.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from ..captures.event_shapes import read_event
from ..decode.detokenizer import Detokenizer
from ..decode.utf8 import StreamingDetokenizer
from ..decode.vocabulary import Vocabulary
from .compare import compared, holding, inside, masked, replaced_in, shown, split_in
from .engines import (
    BYTES,
    IDS,
    TEXT,
    Chunk,
    End,
    Engine,
    EngineError,
    Ids,
    Raw,
    Request,
    Sampling,
)
from .go_on import Answered, going_on
from .recover import Recovery, Unknown

TEXTS = {
    "Chinese, Japanese": "𠮷野家で鯖と薔薇、饕餮龘",
    "Thai": "น้ำใจนักกีฬาผู้ยิ่งใหญ่",
    "joined emoji": "👩‍🚀👨‍👩‍👧‍👦🏳️‍🌈🇺🇳👍🏽",
    "rare scripts": "𒀭𒂗 𓀀𓃭 ᚠᛇ ༄༅ ꦲꦏ 𞤀𞤣",
    "combining marks": "ẹ́ q̣̇ Z͑ͫ क्षि",
    "control characters": "a\x07b\x1b[0mc\u200b\u202ed\u2066e\ufeff\x7f",
}
# Of the answer that is interrupted.
TOKENS = 64
FEWEST = 8
# The engine was not lost, so it is back at once.
BACK_SECONDS = 10.0


class Heard(NamedTuple):
    """One answer. `ids` is None if some are not known, `data` if there are neither bytes nor a
    vocabulary for the ids. `true` is the text of `data`, decoded by detok, and `text` what the
    engine decoded in the same stream; None if there is none. `times` has for each chunk when it
    came after the request, and its tokens. `split` is how many characters were split over tokens,
    or a lower bound; None if that is not known.
    """

    ids: list[int] | None
    data: bytes | None
    true: str | None
    text: str | None
    tokens: int | None
    times: list[tuple[float, int]]
    note: str | None
    unknown: int
    split: int | None


class Whole(NamedTuple):
    """An answer that was not streamed."""

    ids: list[int] | None
    data: bytes | None
    text: str | None


class Row(NamedTuple):
    """What came for one text. `as_asked` is whether that was the text, None if no text was asked
    for. `given`, `streamed` and `whole` are "equal", "broken", "other" (text of another length or
    order), "unclear" (U+FFFD that the engine or the model has made), or "not compared". `broken` is
    the largest number of missing characters in these three.
    """

    text: str
    asked_by: str
    as_asked: bool | None
    tokens: int | None
    characters: int
    split: int | None
    given: str
    streamed: str
    whole: str
    broken: int


class Resumed(NamedTuple):
    """An interrupted and resumed answer. `equal` is None if it cannot be compared; `why` has the
    reason.
    """

    equal: bool | None
    after: int | None = None
    of: int | None = None
    inside_a_character: bool | None = None
    why: str | None = None


class Proof(NamedTuple):
    """What a check has found. `repeatable` is whether the engine answers the same request with the
    same tokens at temperature 0, None if that is not known.
    """

    gives: dict[str, str]
    rows: list[Row]
    ids: dict[str, Any] | None
    resumed: Resumed
    repeatable: bool | None
    first_token_ms: float | None
    token_ms: float | None
    slowest_token_ms: float | None
    notes: list[str]

    @property
    def broken(self) -> int:
        """The number of characters that the engine broke."""
        return sum([row.broken for row in self.rows])

    @property
    def split(self) -> int | None:
        """The characters that were split over several tokens, None if that is not known."""
        known = [row.split for row in self.rows if row.split is not None]
        return sum(known) if known else None

    @property
    def result(self) -> str:
        """ "faults", "clean", or "nothing proven"."""
        wrong = any("broken" in (row.given, row.streamed, row.whole) for row in self.rows)
        ids_differ = self.ids is not None and self.ids["equal"] is False
        if wrong or ids_differ or self.resumed.equal is False:
            return "faults"
        if self.split is None:
            # A text that splits characters came as it was asked for.
            proven = any(row.as_asked and "equal" in (row.given, row.streamed) for row in self.rows)
        else:
            proven = self.split > 0
        unclear = any(row.streamed == "unclear" for row in self.rows)
        return "clean" if proven and not unclear else "nothing proven"

    @property
    def compared(self) -> int:
        """The characters that were compared."""
        rows = [
            row for row in self.rows if {row.given, row.streamed} & {"equal", "broken", "other"}
        ]
        return sum([row.characters for row in rows])


async def prove(
    engine: Engine,
    vocabulary: Vocabulary | None,
    *,
    seconds: float,
    say: Callable[[str], None] = lambda step: None,
) -> Proof:
    """Check an open engine. An answer may take `seconds`; `say` is called with the name of each
    step. Raises EngineError.
    """
    asker = _Asker(engine, vocabulary, seconds)
    rows = []
    for name, text in TEXTS.items():
        say(name)
        rows.append(await asker.row(name, text))
    say("an answer that is interrupted and resumed")
    request = _request(" ".join(list(TEXTS.values())[:-1]), TOKENS)
    heard = await asker.hear(request)
    rows.append(await asker.row_of(f"repeated, {TOKENS} tokens", "prompt", heard))
    resumed = await _resume(asker, request, heard)
    ids = await _ids(asker, request, heard)
    gaps = [
        (after - before) / tokens
        for (before, _), (after, tokens) in pairwise(heard.times)
        if tokens
    ]
    chat = request._replace(prompt=None, messages=[{"role": "user", "content": ""}])
    return Proof(
        {"prompt": engine.gives(request), "messages": engine.gives(chat)},
        rows,
        ids,
        resumed,
        asker.repeatable,
        _ms(heard.times[0][0]) if heard.times else None,
        _ms(median(gaps)) if gaps else None,
        _ms(max(gaps)) if gaps else None,
        list(dict.fromkeys(asker.notes)),
    )


class _Asker:
    """Sends requests to an engine, and collects notes and whether its answers are repeatable."""

    def __init__(self, engine: Any, vocabulary: Vocabulary | None, seconds: float) -> None:
        self.engine = engine
        self.vocabulary = vocabulary
        self.seconds = seconds
        self.repeatable: bool | None = None
        self.notes: list[str] = []
        self.cut_at = 0
        self._table: dict[bytes, list[int]] = {}
        self._sent: tuple[str, dict[str, Any]] | None = None
        self._text: str | None = None

    async def row(self, name: str, text: str) -> Row:
        """Request a text, streamed and not streamed."""
        request = _request(text, len(text.encode()) + FEWEST)
        if getattr(self.engine, "says_exactly", False):
            try:
                heard = await self.hear(request._replace(exactly=text))
                return await self.row_of(name, "grammar", heard, text)
            except EngineError as error:
                # A request without a grammar follows; if that fails too, its error is raised.
                where = f" at {self.engine.client.address.shown}"
                self.notes.append(f"By grammar: {error}".replace(where, ""))
        return await self.row_of(name, "prompt", await self.hear(request), text)

    async def row_of(self, name: str, asked_by: str, heard: Heard, text: str | None = None) -> Row:
        """Compare an answer with the same one without streaming, and with the requested text."""
        whole = await self.whole()
        same = self.compare(heard, whole)
        said = whole.text if whole is not None and same is not False else None
        true, given, broken = heard.true, "not compared", 0
        wanted = holding(text, true, heard.text, said)
        if true is not None and wanted is not None:
            given, broken = compared(wanted, true)
        elif true is None:
            wanted = wanted or masked(text, heard.text, said)
            true = wanted or (said if same else None)
        streamed, lost = compared(true, heard.text)
        if heard.true is None and wanted is None and replaced_in(heard.text):
            streamed = "unclear"
        unstreamed, gone = compared(true, said)
        return Row(
            name,
            asked_by,
            None if text is None else wanted is not None,
            heard.tokens,
            len(true if true is not None else heard.text or ""),
            heard.split,
            given,
            streamed,
            unstreamed,
            max(broken, lost, gone),
        )

    def compare(self, heard: Heard, whole: Whole | None) -> bool | None:
        """Return whether two answers to one request have the same tokens or bytes; None if that is
        not known.
        """
        if whole is None:
            return None
        same = None
        if heard.ids is not None and whole.ids is not None:
            same = heard.ids == whole.ids
        elif heard.data is not None and whole.data is not None:
            # llama-server does not send what it holds at the end.
            same = whole.data.startswith(heard.data) and len(whole.data) < len(heard.data) + 4
        elif heard.text and whole.text and shown(heard.text) == shown(whole.text):
            same = True
        if same is not None:
            self.repeatable = same and self.repeatable is not False
        return same

    async def hear(self, request: Request, *, cut_after: int | None = None) -> Heard:
        """Return the answer to a request, interrupted and resumed after `cut_after` tokens."""
        self._sent, self._text = None, None
        client = getattr(self.engine, "client", None)
        if client is not None:
            client.listen = self._listen
        try:
            async with asyncio.timeout(self.seconds):
                return await self._hear(request, cut_after)
        except TimeoutError:
            raise self._too_slow() from None

    async def _hear(self, request: Request, cut_after: int | None) -> Heard:
        engine, answered = self.engine, Answered()
        gives = engine.gives(request)
        recovery = None
        if gives == BYTES and self.vocabulary is not None:
            self._table = self._table or Recovery.table(self.vocabulary)
            recovery = Recovery(self.vocabulary, self._table)
        begun = time.perf_counter()
        chunks = engine.generate(request)
        if cut_after is not None:
            cut: Any = _CutOnce(engine, cut_after)
            chunks = going_on(
                cut, request, answered, engine.open, seconds=BACK_SECONDS, recovery=recovery
            )
        data, times, end, stop = b"", [], None, False
        unknown = several = 0
        async with aclosing(chunks):
            async for chunk in chunks:
                now = time.perf_counter() - begun
                if isinstance(chunk, End):
                    end = chunk
                elif isinstance(chunk, Ids):
                    answered.add(chunk)
                    stop = chunk.ends
                    times.append((now, len(chunk.ids)))
                elif isinstance(chunk, Raw):
                    data += chunk.data
                    times.append((now, chunk.tokens))
                    # llama-server sends several tokens at once only where they split a character.
                    several += bool(chunk.data) and chunk.tokens > 1
                    parts = recovery.feed(chunk) if recovery is not None else None
                    if parts is None:
                        answered.add(chunk)
                    else:
                        answered.add_recovered(parts)
                        unknown += sum([p.tokens for p in parts if isinstance(p, Unknown)])
        if end is None:
            raise EngineError("The engine's stream ended without an end event.")
        if cut_after is not None:
            self.cut_at = cut.at
        if end.note and cut_after is None:
            self.notes.append(end.note)
        known = answered.ids if gives != TEXT and answered.known else None
        tokens = len(known) if known is not None else end.tokens
        split = split_in(known, self.vocabulary)
        if split is None and gives == BYTES:
            split = several
        read = self._read(gives, known, data, stop)
        return Heard(known, *read, tokens, times, end.note, unknown, split)

    def _read(
        self, gives: str, ids: list[int] | None, data: bytes, stop: bool
    ) -> tuple[bytes | None, str | None, str | None]:
        """Return the bytes of an answer, its true text, and the engine's text."""
        if gives == IDS and ids is not None:
            if self.vocabulary is None:
                return None, None, self._text or None
            text = ids[:-1] if stop else ids
            pieces = [self.vocabulary.token_bytes(i) for i in text]
            return b"".join(pieces), Detokenizer(self.vocabulary).feed(text), self._text or None
        if gives == TEXT:
            # Its bytes are the engine's text.
            return None, None, data.decode("utf-8", "replace")
        return data, StreamingDetokenizer().feed(data), self._text or None

    async def whole(self) -> Whole | None:
        """Repeat the last request without streaming. None for engines without HTTP."""
        if self._sent is None:
            return None
        path, body = self._sent
        body = {name: body[name] for name in body if name != "stream_options"}
        answer = await self.engine.client.post(
            path.removesuffix("_stream"), {**body, "stream": False}, seconds=self.seconds
        )
        said = read_event(answer)
        if said is None:
            return None
        text = said.text if said.so_far is None else said.so_far
        complete = said.ids is not None and said.total in (None, len(said.ids))
        return Whole(said.ids if complete else None, said.data, text or None)

    def _listen(self, path: str, body: dict[str, Any], event: Any) -> None:
        self._sent = path, body
        said = read_event(event)
        if said is None:
            return
        before = self._text or ""
        if said.so_far is None:
            self._text = before + str(said.text)
        else:
            # SGLang repeats all before, unless it was started to send what is new only.
            repeats = said.ids is not None and len(said.ids) == said.total
            self._text = said.so_far if repeats else before + said.so_far

    def _too_slow(self) -> EngineError:
        name = self.engine.info().name
        return EngineError(
            f"The {name} did not finish an answer in {self.seconds:g} seconds; check whether it hangs, or give it longer with --timeout."
        )


class _CutOnce:
    """An engine whose first answer fails after some tokens, as if the engine was lost. `at` counts
    the tokens before that.
    """

    def __init__(self, engine: Engine, after: int) -> None:
        self.at = 0
        self._engine = engine
        self._after: int | None = after

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of the engine; raise EngineError once."""
        async with aclosing(self._engine.generate(request)) as chunks:
            async for chunk in chunks:
                yield chunk
                if self._after is None or not isinstance(chunk, (Ids, Raw)):
                    continue
                self.at += len(chunk.ids) if isinstance(chunk, Ids) else chunk.tokens
                if self.at >= self._after:
                    self._after = None
                    raise EngineError("The answer was interrupted to resume it.")


async def _resume(asker: _Asker, request: Request, heard: Heard) -> Resumed:
    """Request the answer again, interrupt and resume it, and compare."""
    if not getattr(asker.engine, "goes_on", False):
        return Resumed(None, why="the engine cannot continue an answer from its ids")
    if heard.ids is None:
        return Resumed(None, why="some ids of the answer are not known")
    if len(heard.ids) < FEWEST:
        return Resumed(None, of=len(heard.ids), why="the answer is too short to cut")
    places = inside(heard.ids, asker.vocabulary)
    middle = len(heard.ids) // 2
    after = min(places, key=lambda n: abs(n - middle)) if places else middle
    again = await asker.hear(request, cut_after=after)
    where: dict[str, Any] = {
        "after": asker.cut_at,
        "of": len(heard.ids),
        "inside_a_character": asker.cut_at in places if asker.vocabulary is not None else None,
    }
    if again.ids == heard.ids:
        return Resumed(True, **where)
    if asker.repeatable is False:
        why = "the engine answers the same request with other tokens each time"
        return Resumed(None, **where, why=why)
    same = 0
    for one, other in zip(heard.ids, again.ids or [], strict=False):
        if one != other:
            break
        same += 1
    return Resumed(False, **where, why=f"it differs after token {same}")


async def _ids(asker: _Asker, request: Request, heard: Heard) -> dict[str, Any] | None:
    """Compare the ids recovered from bytes with those of step mode: one request for each token."""
    alone = request._replace(want="ids")
    engine = asker.engine
    if engine.gives(request) in (IDS, TEXT) or engine.gives(alone) != IDS or not asker.vocabulary:
        return None
    exact = (await asker.hear(alone)).ids
    found = {"unknown": heard.unknown, "tokens": heard.tokens}
    if heard.ids is None or exact is None or asker.repeatable is False:
        return {**found, "equal": None}
    end_ids = asker.vocabulary.eos_ids
    without = [[i for i in ids if i not in end_ids] for ids in (heard.ids, exact)]
    # Bytes that llama-server still holds at the end are not in its stream.
    return {**found, "equal": without[1][: len(without[0])] == without[0]}


def _request(text: str, tokens: int) -> Request:
    prompt = f"Repeat this line exactly, and write nothing else.\n\n{text}\n\n{text}\n\n"
    params = {"max_tokens": tokens}
    return Request(prompt, None, Sampling(max_tokens=tokens, temperature=0.0), "both", params)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)
