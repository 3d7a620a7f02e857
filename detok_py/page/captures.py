"""Recorded streams, read and written for a page: JSON in and out.

In: the text of a `.detok.jsonl`, of a HAR file with a detok.v1 socket, or of a body of server-sent
events; or a recording that a page made. Out: the stream decoded again, row by row; or the text of a
`.detok.jsonl`. Vocabularies are those that are kept here (answer.py).
"""

import json
from typing import Any

from ..errors import DetokError, VocabularyError
from ..protocol.capture import read_capture, read_har, read_sse, write_capture
from .answer import Answer, kept_vocabulary


def capture_vocabulary(text: str) -> str:
    """Return, as JSON, the SHA-256 of the vocabulary that a capture was made with; null if the
    capture names none, or if it is kept here already.
    """
    try:
        named = _read(text).header.get("vocabulary")
    except DetokError:
        return "null"  # `capture_rows` says what is wrong with it
    sha256 = named.get("sha256") if isinstance(named, dict) else None
    known = not isinstance(sha256, str) or kept_vocabulary(sha256) is not None
    return json.dumps(None if known else sha256)


def capture_rows(text: str) -> str:
    """Return a recorded stream, decoded again, as JSON: {"header", "rows": [[seconds since the
    start, row], …], "seconds", "deltas"}, with rows as in answer.py; the deltas are those of the
    end.

    Raises CaptureError, or VocabularyError if there are ids without bytes and their vocabulary is
    not kept here.
    """
    capture = _read(text)
    named = capture.header.get("vocabulary")
    answer = Answer('{"prompt":"","details":true}')
    vocabulary = kept_vocabulary(named.get("sha256")) if isinstance(named, dict) else None
    answer.begin(vocabulary)
    rows: list[Any] = []
    seconds = 0.0
    for record in capture.records:
        seconds += record.seconds
        for token_id, data in _tokens(record):
            if vocabulary is None and data is None:
                raise VocabularyError(
                    "This capture has token ids without their bytes, and its vocabulary is not at "
                    "this bridge. Start the bridge with --tokenizer and the file of that model, "
                    "then open the capture again."
                )
            rows.append([seconds, answer.row(token_id, data)])
    return json.dumps(
        {"header": capture.header, "rows": rows, "seconds": seconds, "deltas": answer.flush()},
        separators=(",", ":"),
    )


def capture_text(recording: str) -> str:
    """Return, as JSON, the text of the `.detok.jsonl` of what a page has recorded.

    `recording` is JSON: {"header", "rows": [[seconds since the start, id or null, bytes in hex],
    …], "seconds", "end": {"type": …}}.
    """
    made = json.loads(recording)
    records: list[Any] = []
    before = 0.0
    for seconds, token_id, data in made["rows"]:
        raw = bytes.fromhex(data)
        records.append(
            (max(0.0, seconds - before), "b", raw)
            if token_id is None
            else (max(0.0, seconds - before), "t", [(token_id, raw)])
        )
        before = seconds
    if made.get("end"):
        records.append((max(0.0, made["seconds"] - before), "j", made["end"]))
    return json.dumps(write_capture(made["header"], records))


def _read(text: str) -> Any:
    start = text[:4096].lstrip("\ufeff \t\r\n")
    if start.startswith("{") and '"detok"' not in start.split("\n")[0] and '"log"' in start:
        return read_har(text)
    if start.startswith(("data:", "event:", "id:", ":")):
        return read_sse(text.encode())
    return read_capture(text)


def _tokens(record: Any) -> list[tuple["int | None", "bytes | None"]]:
    """Return the tokens of a record, as (id, bytes), either of them None if it is not known."""
    if record.kind == "i":
        return [(i, None) for i in record.value]
    if record.kind == "t":
        return [(i, data) for i, data in record.value]
    if record.kind == "g":
        return [(None, record.value[1])]
    if record.kind == "b":
        return [(None, record.value)]
    return [(None, record.value.encode())] if record.kind == "x" else []
