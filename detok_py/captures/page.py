"""What the worker in a page calls to read, write and make recorded streams: JSON in and out.

In: the bytes of a file (inbox.py), a recording that a page made, or a text that a user gives.
Out: the stream, decoded row by row; or the text of a `.detok.jsonl`. Vocabularies are kept by
answer.py. Held: the last file, between two calls about it, and the rows of a long stream that were
not fetched yet.

A row comes as [seconds since the start, row, channel, line, event, broken, ids]: rows as in
answer.py, the place in the file, how the text was damaged before it was recorded ("" if it was
not), and of text that a server has decoded the ids that came with it, null for tokens and bytes.
Rows of text alone that follow each other, each of an event, are one list: [seconds, texts, channel,
line, event, "", step], with the place of the first; each further one is `step` lines on.
"""

import json
from typing import Any, Iterator

import detok_py

from ..decode.utf8 import StreamingDetokenizer
from ..errors import CaptureError, DetokError, VocabularyError
from ..formats.find import find_format
from ..page.answer import Answer, kept_vocabulary, named_vocabulary
from ..page.inbox import given_bytes
from ..page.passing import passes
from ..protocol.events import STARTS
from .capture import write_capture
from .cut import cut
from .fold import Folded, shapes_in
from .imported import SOME_IDS, Import, as_json, named_fidelity, summary, with_note, with_problems
from .log import Problem
from .parse import object_at
from .read import read
from .rows import count_of, shown
from .sentence import sentence
from .servers import CONTENT, TOOL_CALL
from .verdict import AGAINST_TOKENS, as_lists, from_header, judge

__all__ = [
    "alike_shapes",
    "capture_rows",
    "capture_text",
    "capture_vocabulary",
    "cut_rows",
    "encode_text",
    "more_rows",
]

NO_TOKENIZER = (
    "This capture has token ids without their bytes, and its vocabulary is not here. Drop the "
    "model's tokenizer file (tokenizer.json, *.model, GGUF, tiktoken or Tekken) on this page, or start the "
    "bridge with --tokenizer and that file; then open the capture again."
)
OTHER_TOKENIZER = "its ids with the tokenizer that the file names, which is not here: they are read with the dropped one"
# A page reads a message in one task: with so many rows it takes some 10 ms.
MOST_ROWS = 4096
HARMONY = "harmony"
OF_HARMONY = "The server sent the tags of harmony as text: it did not take channels apart."
NO_FORMAT = "none"
MOST_OF_MARKUP = 1 << 16  # how many bytes are searched for the markup of a format
_last: list[Any] = [None, None]
_tokenizers: dict[str, Any] = {}
_left: dict[int, list[Any]] = {}
_last_more = [0]


def capture_vocabulary(given: "int | str", file: str = "") -> str:
    """Return, as JSON, the SHA-256 of the vocabulary that a capture was made with; null if the
    capture names none, or if that one is already kept here.
    """
    try:
        sha256 = _named(_read(given, file).header)
    except DetokError:
        return "null"  # `capture_rows` reports the error
    return json.dumps(None if sha256 is None or kept_vocabulary(sha256) else sha256)


def alike_shapes(given: "int | str") -> str:
    """Return the shapes of the lines in a part of a file, as JSON (fold.py)."""
    return json.dumps(shapes_in(given_bytes(given)))


def capture_rows(
    given: "int | str",
    file: str = "",
    sha256: "str | None" = None,
    path: str = "",
    format: str = "",
    entry: int = 0,
    folded: str = "",
) -> str:
    """Return a recorded stream, decoded again, as JSON: what `summary` says, and

        rows, more   the first rows, and the argument of `more_rows` for the others
        count        the number of all rows
        entries      the streams of a HAR file
        seconds      how long the stream took
        deltas       those of the end
        format       the format that the content was read in, or null
        markup       the format that it seems to be in, if it was read in none
        fidelity     what is exact in all rows: "ids", "bytes", "some" (with some ids), or "text"
        verdict      a sentence on the whole stream
        notes        what of it is not about the text: an error, a missing end, another answer
        verdicts     as verdict.py has them

    Ids are read with the vocabulary that the capture names, else with the kept one that has
    `sha256`. `path` is where the text of unknown events is, `entry` which of a HAR file. The
    header's "stop", "chat_format", "start", "reasoning" and "tools" are applied; `format` has
    precedence, the name of a format or "none". Without a name, text that begins as harmony does is
    read so. `folded` is what was taken out of the file (fold.py); then the answer can be
    {"again": true}. Raises CaptureError; or VocabularyError for ids without bytes or a vocabulary.
    """
    found = _read_folded(given, file, path, folded) if folded else _read(given, file, path, entry)
    if found is None:
        return json.dumps({"again": True})
    _last[:] = [None, None]
    problems: list[Any] = []
    vocabulary, header = _vocabulary_for(found, sha256, problems), dict(found.header)
    markup = _markup_of(found.chunks, vocabulary)
    if format or (markup == HARMONY and "chat_format" not in header):
        header["chat_format"] = format or HARMONY
        found = _with_note_on_harmony(found, markup)
    answers, rows, numbers = _decoded(found.chunks, header, vocabulary)
    count = sum([count_of(row) for row in rows])
    deltas = [delta for answer in answers.values() for delta in answer.flush()]
    named = answers[CONTENT].format if CONTENT in answers else None
    verdicts = from_header(found.header, count)
    if verdicts is None:
        compares, held = named is None and markup is None, "".join([text for _, text in deltas])
        verdicts = judge(found, rows, numbers, held, compares)
    # A server that parses the format itself sends other text than its tokens have.
    differs = None if named else _first_difference(found.chunks, rows, deltas)
    if differs is not None and not any(one.rule in AGAINST_TOKENS for one in verdicts):
        problems.append(Problem(differs, "here the server's text differs from that of its tokens"))
    exact = _fidelity(found.header, rows)
    out = summary(_without_lines(with_problems(found, problems), rows))
    out.update({"entries": header.pop("entries", []), "header": _with_fidelity(header, exact)})
    out.update({"deltas": deltas, "seconds": found.seconds or 0.0, "format": named})
    out.update({"markup": None if named else markup, "count": count, "fidelity": exact})
    said, notes = sentence(verdicts, exact, found.end, found.facts)
    out.update({"verdict": _framed(found, said), "notes": notes, "verdicts": as_lists(verdicts)})
    return _first_rows(out, rows)


def _with_note_on_harmony(found: Any, markup: "str | None") -> Any:
    of_text = all(chunk.data and not chunk.tokens for chunk in found.chunks)
    return with_note(found, OF_HARMONY) if of_text and markup == HARMONY else found


def _without_lines(found: Any, rows: list[Any]) -> Any:
    """Take lines that are not those of the file from the rows, and from the problems of an import,
    which say them in words.
    """
    if not found.facts.lines:
        return found
    for row in rows:
        row[3] = 0
    header, chunks, seconds, end, problems, left_out, facts = found
    named = []
    for line, reason in problems:
        where = f"line {line} of {facts.lines}: " if line and reason[1:] not in facts.notes else ""
        named.append(Problem(0, where + reason))
    return Import(header, chunks, seconds, end, named, left_out, facts)


def _framed(found: Any, said: str) -> str:
    """Return what is said of a stream, with which of a file's streams it is if there are more, and
    what of the text that is shown of tool calls did not come.
    """
    if any(chunk.channel == TOOL_CALL for chunk in found.chunks):
        said += ' A call is shown as {"name": …, "arguments": …}: only what is in these came so.'
    streams, entry = found.header.get("entries"), object_at(found.header, "source").get("entry")
    if not isinstance(streams, list) or len(streams) < 2 or entry is None:
        return said
    which = f"This is entry {entry}, one of the file's {len(streams)} streams."
    return f"{which} {said}"


def _decoded(
    chunks: list[Any], header: dict[str, Any], vocabulary: Any
) -> tuple[dict[str, Answer], list[Any], list[int]]:
    """Return the decoders by channel, the rows, and the number of each row's chunk."""
    answers: dict[str, Answer] = {}
    rows: list[Any] = []
    numbers: list[int] = []
    for number, chunk in enumerate(chunks):
        answer = answers.get(chunk.channel)
        if answer is None:
            answer = answers[chunk.channel] = _answer_for(chunk.channel, header, vocabulary)
        if chunk.texts is not None:
            for row in _rows_of_texts(chunk, answer):
                rows.append(row)
                numbers.append(number)
            continue
        tokens = chunk.tokens
        ids = None
        known = [data is not None or (i is not None and vocabulary) for i, data in tokens]
        broken = chunk.broken
        if not tokens or not all(known):
            if chunk.data is None:
                raise VocabularyError(NO_TOKENIZER)
            ids = [i for i, _ in tokens if i is not None]
            tokens = [(None, chunk.data)]
        else:
            broken = ""  # the server's text was broken, but its tokens are shown
        for token_id, data in tokens:
            row = answer.row(token_id, data)
            rows.append([chunk.seconds, row, chunk.channel, chunk.line, chunk.event, broken, ids])
            numbers.append(number)
    return answers, rows, numbers


def _rows_of_texts(chunk: Any, answer: Answer) -> Iterator[Any]:
    """Yield the rows of a chunk of many events: one for all of them, once the decoder shows their
    text as it is.
    """
    texts, step = chunk.texts.texts, chunk.texts.step
    assert answer._chat is not None
    for n, text in enumerate(texts):
        line, event = chunk.line + n * step, chunk.event + n
        if passes(answer._chat, chunk.data):
            yield [chunk.seconds, texts[n:], chunk.channel, line, event, "", step]
            return
        row = answer.row(None, text.encode())
        yield [chunk.seconds, row, chunk.channel, line, event, "", []]


def _vocabulary_for(found: Any, sha256: "str | None", problems: list[Any]) -> Any:
    """Return the vocabulary that reads the ids of a file; None if it is not known."""
    if named_fidelity(found.header) == SOME_IDS and all(one.data for one in found.chunks):
        return None  # ids are missing, and the text is not
    vocabulary = kept_vocabulary(_named(found.header)) or kept_vocabulary(sha256)
    unknown = _unknown_id(found.chunks, vocabulary)
    if unknown is None:
        if vocabulary is not None and _named(found.header) not in (None, vocabulary.sha256):
            problems.append(Problem(0, OTHER_TOKENIZER))
        return vocabulary
    line, token_id = unknown
    reason = f"the tokenizer has no id {token_id}, so it is not this model's: not used"
    problems.append(Problem(line, reason))
    return None


def _answer_for(channel: str, header: dict[str, Any], vocabulary: Any) -> Answer:
    stop = header.get("stop")
    stop = [one for one in stop if isinstance(one, str)] if isinstance(stop, list) else []
    asked: dict[str, Any] = {"prompt": "", "details": True, "stop": stop}
    for name in ("reasoning", "tools"):
        if header.get(name) is True:
            asked[name] = True
    if channel != CONTENT and len(asked) == 3:
        asked["format"] = None  # channels that a server has separated have no markup
    named, start = header.get("chat_format"), header.get("start")
    if named == NO_FORMAT:
        asked["format"] = None
    answer = Answer(json.dumps(asked))
    start = start if start in STARTS and channel == CONTENT else ""
    answer.begin(vocabulary, named if isinstance(named, str) else None, start)
    return answer


def _markup_of(chunks: list[Any], vocabulary: Any) -> "str | None":
    """Return the name of the format that the content seems to be written in; None if it has no
    markup that only one has. For formats other than harmony, the text may be about the format.
    """
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        if size > MOST_OF_MARKUP:
            break
        if chunk.channel == CONTENT:
            pieces = [_bytes_of(each, data, vocabulary) for each, data in chunk.tokens]
            parts.append(chunk.data or b"".join(pieces))
            size += len(parts[-1])
    text = StreamingDetokenizer().feed(b"".join(parts))
    if text.lstrip().startswith(("<|channel|>", "<|start|>assistant<|channel|>")):
        return HARMONY
    found = find_format(text, lambda spelling: False)
    return None if found is None or found.name == HARMONY else found.name


def _bytes_of(token_id: "int | None", data: "bytes | None", vocabulary: Any) -> bytes:
    if data is None and token_id is not None and vocabulary:
        data = vocabulary.token_bytes(token_id)
    return data or b""


def _fidelity(header: dict[str, Any], rows: list[Any]) -> str:
    """Return the fidelity of all rows. Bytes may come from text, as the header says."""
    named = named_fidelity(header)
    if any(row[6] is not None for row in rows) or not rows:
        return "text"
    if all(row[1][0] is not None for row in rows):
        return SOME_IDS if named == SOME_IDS else "ids"
    return "text" if named == "text" else "bytes"


def _with_fidelity(header: dict[str, Any], exact: str) -> dict[str, Any]:
    """Return a header whose engine has the fidelity of the rows, if it has one."""
    engine = header.get("engine")
    if named_fidelity(header) in (None, SOME_IDS) or not isinstance(engine, dict):
        return header
    out = dict(header)
    out["engine"] = dict(engine)
    out["engine"]["fidelity"] = exact
    return out


def more_rows(more: int) -> str:
    """Return the next rows of a stream whose last answer had `more`, as JSON: {"rows", "more"}.

    `more` is 0 if there are no further rows. Each number works only once.
    """
    return _first_rows({}, _left.pop(more))


def _first_rows(out: dict[str, Any], rows: list[Any]) -> str:
    end = count = 0
    while end < len(rows) and count < MOST_ROWS:
        count += count_of(rows[end])
        end += 1
    out.update({"rows": rows[:end], "more": 0})
    if len(rows) > end:
        _last_more[0] += 1
        out["more"] = _last_more[0]
        _left[_last_more[0]] = rows[end:]
    return as_json(out)


def capture_text(recording: str) -> str:
    """Return, as JSON, the text of the `.detok.jsonl` of what a page has recorded.

    `recording` is JSON: {"header", "rows": [[seconds since the start, id or null, bytes in hex,
    ids or null, the channel that the server has sent it in], …], "seconds", "end": {"type": …}}. A
    row with ids, or with none but a list, is text.
    """
    made = json.loads(recording)
    records: list[Any] = []
    before, last = 0.0, CONTENT
    for seconds, token_id, data, *rest in made["rows"]:
        raw = bytes.fromhex(data)
        ids = rest[0] if rest else None
        channel = rest[1] if len(rest) > 1 else CONTENT
        if channel != last:
            records.append((0.0, "j", {"type": "channel", "channel": channel}))
            last = channel
        kind = "b"
        value: Any = raw
        if ids is not None:
            kind, value = "x", ([raw.decode(), ids] if ids else raw.decode())
        elif token_id is not None:
            kind, value = "t", [(token_id, raw)]
        records.append((max(0.0, seconds - before), kind, value))
        before = seconds
    if made.get("end"):
        records.append((max(0.0, made["seconds"] - before), "j", made["end"]))
    return json.dumps(write_capture(made["header"], records))


def cut_rows(request: str) -> str:
    """Return a text as an engine would stream it, as JSON: {"rows", "more", "seconds", "end",
    "deltas", "format"}; `more` as in `more_rows`.

    `request` is what `cut` takes, with "sha256", the kept vocabulary of its ids, and the options of
    `Answer`. A stop string ends the stream.
    """
    asked = json.loads(request)
    vocabulary = named_vocabulary(asked["sha256"]) if asked.get("sha256") else None
    options = dict(asked)
    options.update({"prompt": "", "details": True, "vocabulary": None})
    answer = Answer(json.dumps(options))
    pieces, end = cut(asked, vocabulary)
    by_ids = vocabulary is not None and asked.get("cut") != "byte"
    answer.begin(vocabulary if by_ids else None)
    rows: list[Any] = []
    for seconds, token_id, data in pieces:
        rows.append([seconds, answer.row(token_id, data)])
        if answer.stopped:
            end = {"type": "finished", "reason": "stop"}
            break
    seconds = rows[-1][0] if rows else 0.0
    out = {"seconds": seconds, "end": end, "deltas": answer.flush(), "format": answer.format}
    return _first_rows(out, rows)


def encode_text(path: str, text: str) -> str:
    """Return, as JSON, the token ids of a text by the tokenizer in a file (Pyodide only)."""
    if path not in _tokenizers:
        _tokenizers[path] = detok_py.load_tokenizer(path)
    return as_json(list(_tokenizers[path].encode(text)))


def _read(given: "int | str", file: str, path: str = "", entry: int = 0) -> Any:
    data = given_bytes(given)
    if path or entry or _last[0] != data:
        found = read(data, file, path, entry, together=True)
        if _about_events(found.facts):
            found = read(data, file, path, entry)
        _last[:] = [data, found]
    return _last[1]


def _read_folded(given: "int | str", file: str, path: str, made: str) -> Any:
    """Return the stream in a file without the lines in `made`; None if the whole file is needed."""
    folded = Folded(made)
    try:
        found = read(given_bytes(given), file, path, together=True, folded=folded)
    except CaptureError:
        return None  # what is wrong is said of the whole file
    apart = bool(folded.again)  # these events were not taken out together with others
    return None if not folded.used or _about_events(found.facts, apart) else found


def _about_events(facts: Any, apart: bool = False) -> bool:
    """Return whether some facts are about single events; `apart` is whether those that have
    `numbers` are read by themselves.
    """
    return bool(facts.all or facts.parted or (facts.numbers and not apart) or facts.joined)


def _named(header: dict[str, Any]) -> "str | None":
    sha256 = object_at(header, "vocabulary").get("sha256")
    return sha256 if isinstance(sha256, str) else None


def _unknown_id(chunks: list[Any], vocabulary: Any) -> "tuple[int, int] | None":
    """Return the (line, id) of the first id that the vocabulary does not have, or None."""
    for chunk in chunks if vocabulary is not None else []:
        for token_id, _ in chunk.tokens:
            if token_id is not None and token_id >= len(vocabulary):
                return chunk.line, token_id
    return None


def _first_difference(chunks: list[Any], rows: list[Any], deltas: list[Any]) -> "int | None":
    """Return the line where the text of a server first differs from that of its tokens; None if
    they are equal, or if one of them is missing.
    """
    said = [chunk for chunk in chunks if chunk.channel == CONTENT]
    if not any(chunk.data and chunk.tokens for chunk in said):
        return None
    ours = "".join([shown(row) for row in rows if row[2] == CONTENT])
    ours += "".join([text for _, text in deltas])
    at = 0
    for chunk in said:
        text = (chunk.data or b"").decode()
        if ours[at : at + len(text)] != text:
            return int(chunk.line)
        at += len(text)
    return None
