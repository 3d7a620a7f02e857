"""A stream as chunks, from events or from the records of a capture.

In: events, in order. Out: an `Import`. servers.py finds out which server the events come from.
Held: nothing.
"""

from typing import Any

from ..errors import CaptureError
from .alike import Same, Texts
from .capture import EVENT, TEXT
from .compare import is_whole_again, without_whole
from .event_shapes import find, read_event
from .gradio import of_queue
from .imported import (
    ESCAPED,
    HALF,
    HALVES_AS_BYTES,
    INVALID,
    NO_FACTS,
    REPEATED,
    REPLACED,
    SOME_IDS,
    Chunk,
    Facts,
    Import,
    fidelity,
    with_problems,
)
from .kinds import MOST_EVENTS, keys_of, kind_of_value, text_path
from .log import (
    BY_IDS,
    CESU,
    CURL,
    DONE,
    ENCODED,
    MARKED,
    MIXED,
    PAGER,
    WRAPPED,
    Joined,
    Problem,
)
from .logged import without_sums
from .lost import WIDTH
from .named import without_patches
from .notes import (
    CHARSET,
    LENGTH,
    checked_text,
    has_bytes_of_lost,
    lacks_ids,
    notes_on,
    usage_of,
)
from .order import order_of, other_openers, times_of, value_in
from .parse import Halves
from .sentence import missing
from .servers import CHANNELS, CONTENT, LEFT_OUT, Server

UNKNOWN = "unknown server"
PRINTED = "values that Python printed"
GEMINI_ENDS = "candidates[*].finishReason"  # in each event of old ones
TOKENS_OUT = "usage.completion_tokens,output_tokens|usageMetadata.candidatesTokenCount|eval_count"
NO_TEXT = "the answer in this has no text, ids or bytes"
NO_STREAM = "no token stream was found in this: no event has text, ids or bytes at a known place."
LOSSY = (
    "curl --trace-ascii writes a dot for each byte beyond ASCII, so what broke cannot be seen: "
    "trace with --trace"
)
NO_BYTES = (
    "tcpdump -A writes a dot for each byte beyond ASCII, so what broke cannot be seen: use -X"
)
NOTED = (MARKED, LENGTH, MIXED, CHARSET, BY_IDS, CURL, DONE, ENCODED, PAGER, WIDTH)
LINES = ("error", "other", "unfinished", "written", "cut")  # those that notes.py looks at
MOST_KEYS = 8
MOST_NAMED = 2000  # chunks that are searched for names of tokens
# In a name of a token, which is not its text, these stand for a space, a line end or a byte.
NAMES = ("\u0120", "\u010a", "\u2581", "<0x")


def of_events(
    events: list[Any],
    problems: list[Any],
    form: str,
    file: str,
    path: str = "",
) -> Any:
    """Return the stream in events. `form` names the kind of file. Raises CaptureError if no event
    has text, ids or bytes.
    """
    server, events = Server(path), without_patches(of_queue(without_sums(events)))
    times, clocked = times_of(events)
    joined = [one for one in problems if isinstance(one, Joined)]
    problems = [one for one in problems if not isinstance(one, Joined)]
    parted: list[tuple[int, str]] = []
    lines: dict[str, list[int]] = {name: [] for name in LINES}
    chunks = _chunks_of_events(server, events, problems, times, parted, lines)
    chunks, server.all = without_whole(chunks, server.all)
    others = lines["other"]
    done = any(one.reason == DONE and one.line >= max(others + [0]) for one in problems)
    lacks = missing(problems)
    notes = notes_on(events, problems, chunks, server, lines, done and not lacks)
    no_end = server.has_end and not (server.over or server.error or done or form == "JSON")
    by_ids = [one for one in problems if one.reason.startswith(BY_IDS)]
    misplaced = {one.line: one.reason[len(BY_IDS) :] for one in by_ids}
    problems = [one for one in problems if not one.reason.startswith(NOTED)]
    if not chunks:
        raise CaptureError(_why_none(server, events, problems, lacks))
    chunks, more = checked_text(_without_names(chunks))
    name = server.name or UNKNOWN
    source: dict[str, Any] = {"format": form, "server": name, "file": file}
    source.update(clocked)
    source.update({"done": True} if done and clocked.get("times") == "lines" else {})
    usage = "" if others or LEFT_OUT in notes else usage_of(events, server)
    if usage:
        source["usage"] = usage
    exact = fidelity(chunks)
    exact = SOME_IDS if exact == "ids" and not others and lacks_ids(server, chunks) else exact
    engine = {"name": name, "model": server.model or None, "fidelity": exact}
    header = {"detok": 1, "source": source, "engine": engine}
    streamed = len(chunks) > 1 or chunks[0].texts or chunks[0].data != server.all.encode()
    numbers, told = ([], {}) if PAGER in notes else order_of(events, chunks, misplaced)
    facts = Facts(
        server.all if streamed and not (others and no_end) else "",
        no_end and PAGER not in notes,
        lacks,
        any(one.reason in (LOSSY, NO_BYTES) for one in problems),
        parted,
        numbers,
        [(one.line, one.line + one.more) for one in joined],
        any(one.reason == WRAPPED for one in joined),
        0 if others else server.total,
        (lines["error"] or [0])[0],
        others,
        told,
        f"{notes} {more}".strip(),
        "",
    )
    seconds = times[-1] if times else None
    return with_problems(Import(header, chunks, seconds, _end_of(server), [], 0, facts), problems)


def _end_of(server: Server) -> "dict[str, str] | None":
    """Return how the server said that the answer ended; None if it did not say."""
    if server.error:
        return {"type": "error", "message": server.error}
    return {"type": "finished", "reason": server.finish} if server.finish else None


def _without_names(chunks: list[Any]) -> list[Any]:
    """Return the chunks, without the bytes of their tokens if these are names, not text."""
    some = chunks[:MOST_NAMED]
    named = b"".join([data for one in some if one.data for _, data in one.tokens if data])
    said = b"".join([one.data for one in some if one.data and one.tokens])
    if not any(mark.encode() in named and mark.encode() not in said for mark in NAMES):
        return chunks
    return [
        Chunk(seconds, channel, [(i, None) for i, _ in tokens], *rest)
        for seconds, channel, tokens, *rest in chunks
    ]


def _why_none(server: Any, events: list[Any], problems: list[Any], lacks: str) -> str:
    """Return why a file has no stream. `lacks` says what could not be read."""
    if server.error:
        return f"{NO_TEXT}. The server said: {server.error}"
    if server.finish:
        usage = usage_of(events, server)
        out = [find(value_in(one.value), TOKENS_OUT)[:1] for one in events[-4:]]
        usage += ", 0 out" if usage and [0] in out else ""
        counts = f" The server counts: {usage}." if usage else ""
        return f"{NO_TEXT}: it ended with “{server.finish}”.{counts}"
    flat: list[Any] = []
    for event in events:
        texts = event.value if isinstance(event.value, Texts) else None
        for value in texts.each() if texts else _list_of(event.value):
            if len(flat) < MOST_EVENTS:
                flat.append(value.whole() if isinstance(value, Same) else value)
    kind = kind_of_value(flat[0]) if flat else ""
    if kind:
        return f"{NO_STREAM} It is {kind}."
    keys = keys_of(flat)
    if not keys:
        at = [one for one in problems if one.line][:1]
        first = f"Line {at[0].line}: {at[0].reason}." if at else ""
        return " ".join([one for one in (NO_STREAM, lacks, first) if one])
    shown = ", ".join([f"`{key[:40]}`" for key in keys[:MOST_KEYS]])
    more = f" and {len(keys) - MOST_KEYS} more" if len(keys) > MOST_KEYS else ""
    path = text_path(flat)
    where = f" Text may be in `{path}`." if path else ""
    return f"{NO_STREAM} Its events have {shown}{more}.{where}"


def _chunks_of_events(
    server: Server,
    events: list[Any],
    problems: list[Any],
    times: "list[float] | None",
    parted: list[tuple[int, str]],
    lines: dict[str, list[int]],
) -> list[Any]:
    """Return the chunks; write down the `lines` of the server's error and of what notes.py says."""
    halves: dict[str, Halves] = {}
    opened: dict[str, int] = {}  # the last chunk of a channel
    chunks: list[Any] = []
    number = line = begin = 0
    others = other_openers(events)
    for at, event in enumerate(events):
        if at in others and server.finish is None:
            server.finish = ""  # the answer before it has no end
            lines["cut"].append(event.line)
        seconds = times[at] if times else 0.0
        texts = event.value if isinstance(event.value, Texts) else None
        number, line = number + 1, event.line
        for n, value in enumerate(texts.each() if texts else _list_of(event.value)):
            if texts and n:
                number, line = number + 1, line + texts.step
            ended = server.finish is not None
            if texts and not ended and _reads_texts(server, halves, texts.shape.kind):
                chunks.append(_chunk_of_texts(texts, n, seconds, event, number))
                number += len(texts.texts) - n - 1
                line += (len(texts.texts) - n - 1) * texts.step
                break
            begin = (begin or line) if ended and _may_begin(value_in(value)) else 0
            parts = _parts_of(server, value, line, problems)
            lines["error"] += [line] if server.error and not lines["error"] else []
            inside = server.repeats and not server.finish and _ends_inside(value)
            lines["unfinished"] += [line] if inside else []
            for part in parts:
                half = halves.setdefault(part.channel, Halves())
                if ended and part.channel == CONTENT and is_whole_again(chunks, part.text):
                    server.all = part.text
                    continue
                if half.held and part.text and not half.goes_on(part.text):
                    _end_half(half, chunks, opened[part.channel])
                cut = half.held
                made = _chunk(half, part, seconds, event, (line, number), server.repeats)
                if made:
                    opened[part.channel] = len(chunks)
                if "\ufffd" in part.text and has_bytes_of_lost(value):
                    lines["written"].append(line)
                if ended and made and part.text and not find(value_in(value), GEMINI_ENDS):
                    lines["other"].append(begin or line)
                    server.begin(value_in(value))
                    ended = False
                if made and cut and made[0].broken != HALF and not made[0].tokens:
                    parted.append((len(chunks), made[0].data.decode()[:1]))
                chunks += made
    _end_channels(server, halves, chunks, opened)
    return chunks


def _parts_of(server: Server, value: Any, line: int, problems: list[Any]) -> Any:
    """Return the parts of an event; write down what cannot be read."""
    parts = server.read_same(value) if isinstance(value, Same) else server.read(value)
    problems += [Problem(line, left_out) for left_out in server.left_out()]
    if isinstance(parts, str):
        problems.append(Problem(line, parts))
        return []
    return parts or []


def _end_channels(
    server: Server, halves: dict[str, Halves], chunks: list[Any], opened: dict[str, int]
) -> None:
    """Write into the last chunk of a channel what closes a call, which no event has, and the U+FFFD
    of a half that stays alone.
    """
    for part in server.flush():
        seconds, channel, tokens, data, *rest = chunks[opened[part.channel]]
        data = (data or b"") + part.text.encode()
        chunks[opened[part.channel]] = Chunk(seconds, channel, tokens, data, *rest)
    for channel in halves:
        if halves[channel].held:
            _end_half(halves[channel], chunks, opened[channel])


def _end_half(half: Halves, chunks: list[Any], n: int) -> None:
    """Write the U+FFFD of a half that stays alone into the chunk that it came with."""
    seconds, channel, tokens, data, line, number, broken, *rest = chunks[n]
    data = (data or b"") + half.flush()[0]
    chunks[n] = Chunk(seconds, channel, tokens, data, line, number, broken or HALF, *rest)


def _may_begin(value: Any) -> bool:
    """Return whether an event behind the end of an answer is not about that answer's end."""
    said = read_event(value)
    return said is not None and not (said.over or said.finish or find(value, "usage"))


def _ends_inside(value: Any) -> bool:
    """Return whether the text so far, in an event of a server that repeats it, ends with U+FFFD."""
    if isinstance(value, Same):
        return value.text[-1:] == "\ufffd"
    said = [one for one in find(value, "text[*]|content[*].text|content") if isinstance(one, str)]
    return bool(said) and said[-1][-1:] == "\ufffd"


def _list_of(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _reads_texts(server: Server, halves: dict[str, Halves], kind: Any) -> bool:
    """Return whether events of a kind are text alone that begins no half of a character."""
    if kind.channel in halves and halves[kind.channel].held:
        return False
    return server.reads_text(kind)


def _chunk_of_texts(texts: Texts, n: int, seconds: float, event: Any, number: int) -> Any:
    """Return the chunk of all texts from `n` on; `number` is that of the first one's event."""
    rest = Texts(texts.shape, texts.texts[n:], texts.step)
    data, line = "".join(rest.texts).encode(), event.line + n * texts.step
    channel = texts.shape.kind.channel or CONTENT
    return Chunk(seconds, channel, [], data, line, number, "", event.plain, rest)


def _chunk(
    half: Halves,
    part: Any,
    seconds: float,
    event: Any,
    place: tuple[int, int],
    repeats: bool = False,
) -> Any:
    """Return a list with the chunk of a part, [] if it has nothing. Of half a character, it has the
    place only.
    """
    data, alone = half.feed(part.text)
    broken = ""
    if any(bytes_ is not None for _, bytes_ in part.tokens):
        pass  # its tokens have the bytes of this text
    elif "\ufffd" in part.text:
        broken = ESCAPED if event.escaped else REPLACED
        if event.raw:
            broken = HALVES_AS_BYTES if event.raw == CESU else INVALID
        broken = REPEATED if repeats and not event.raw else broken
    elif alone:
        broken = HALF
    if not part.text and not part.tokens:
        return []
    return [Chunk(seconds, part.channel, part.tokens, data, *place, broken, event.plain, None)]


def of_records(header: Any, records: list[Any], file: str, form: str, line: int) -> Any:
    """Return the stream in the records of a capture, of which the first is in `line`."""
    chunks = []
    end = None
    seconds = 0.0
    channel = CONTENT
    halves = Halves()
    for number, record in enumerate(records, 1):
        seconds += record.seconds
        kind, value = record.kind, record.value
        if kind == EVENT:
            end = value if value.get("type") in ("finished", "error") else end
            if value.get("type") == "channel" and value.get("channel") in CHANNELS:
                channel = value["channel"]
            continue
        tokens: list[Any] = []
        data = None
        broken = ""
        if kind == "i":
            tokens = [(i, None) for i in value]
        elif kind == "t":
            tokens = list(value)
        elif kind == TEXT:
            said, ids = (value, []) if isinstance(value, str) else value
            tokens = [(i, None) for i in ids]
            data = halves.feed(said)[0]
            broken = REPLACED if "\ufffd" in said else ""
        else:
            tokens = [(None, value[1] if kind == "g" else value)]
        place = (line + number - 1, number)
        chunks.append(Chunk(seconds, channel, tokens, data, *place, broken, False, None))
    source = {"format": form, "server": "detok bridge", "file": file}
    header.setdefault("source", source)
    timed = seconds > 0 and header.get("timed") is not False
    return Import(header, chunks, seconds if timed else None, end, [], 0, NO_FACTS)
