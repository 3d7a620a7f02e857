"""Messages of SignalR and of socket.io, in a HAR and copied; a body's pieces in a gateway's log."""

import json
from itertools import pairwise
from typing import Any

import pytest
from recordings import compact, delta, judged, socket_har, sse, text_of

from detok_py.captures.read import read
from detok_py.errors import CaptureError

END = "\x1e"


def items(*texts, last: Any = None):
    given: list[Any] = [{}, *[{"type": 2, "invocationId": "0", "item": text} for text in texts]]
    return [compact(one) + END for one in [*given, {"type": 6}, *([last] if last else [])]]


def calls(*arguments, target="Token", last: Any = None):
    given = [{"type": 1, "target": target, "arguments": list(one)} for one in arguments]
    return [compact(one) + END for one in [{}, *given, *([last] if last else [])]]


def packets(*messages, prefix="42"):
    return ['0{"sid":"a"}', '40{"sid":"b"}', "2", *[prefix + compact(one) for one in messages]]


def socket(messages):
    return socket_har(*messages, sent=messages[0])


def broken(body, *letters):
    """Return pieces of a body that was cut behind the second byte of each letter, and decoded."""
    data = body.encode()
    cuts = [0, *[data.index(letter.encode()) + 2 for letter in letters], len(data)]
    return [data[begin:end].decode("utf-8", "replace") for begin, end in pairwise(cuts)]


def of_webui(kind, data):
    return {"chat_id": "a", "message_id": "b", "data": {"type": kind, "data": data}}


COMPLETED = {"type": 3, "invocationId": "0"}
CHUNKS = [
    {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
    for text, finish in (("né ", None), ("🚆", None), ("", "stop"))
]
BODY = sse(*map(compact, CHUNKS))
# name: the messages, how it ends
HUBS: dict[str, tuple[list[str], Any]] = {
    "SignalR, items": (items("né ", "🚆", last=COMPLETED), "completed"),
    "SignalR, items of objects": (items({"text": "né "}, {"text": "🚆"}, last=COMPLETED), "completed"),
    "SignalR, calls": (calls(["né "], ["🚆"], last=COMPLETED), "completed"),
    "SignalR, two arguments": (calls(["id", "né "], ["id", "🚆"]), None),
    "SignalR, chunks": (items(*CHUNKS, last=COMPLETED), "stop"),
    "Open WebUI, all so far": (packets(*[["events", of_webui("chat:completion", {"content": text})] for text in ("né ", "né 🚆")]), None),
    "Open WebUI, chunks and the whole text": (packets(*[["events", of_webui("chat:completion", one)] for one in (*CHUNKS, {"done": True, "content": "né 🚆"})]), "stop"),
    "Open WebUI, pieces": (packets(*[["events", of_webui("chat:message:delta", {"content": text})] for text in ("né ", "🚆")]), None),
    "SignalR, chunks in strings": (calls(*[[compact(one)] for one in CHUNKS]), "stop"),
    "SignalR, an error": (items("né ", "🚆", last={"type": 7, "error": "gone"}), "gone"),
    "SignalR, a failed call": (items("né ", "🚆", last={**COMPLETED, "error": "no"}), "no"),
    "socket.io": (packets(["token", {"id": 7, "text": "né "}], ["token", {"id": 7, "text": "🚆"}], ["done", {"finish_reason": "stop"}]), "stop"),
    "Chainlit": (packets(["stream_start", {"id": "a", "type": "assistant_message", "output": "né ", "streaming": True}], *[["stream_token", {"id": "a", "token": text, "isSequence": False}] for text in ("🚆", "")], ["update_message", {"id": "a", "type": "assistant_message", "output": "né 🚆", "streaming": False}], ["task_end", {}]), "task_end"),
    "socket.io, strings": (packets(["token", "né "], ["token", "🚆"], ["streamEnd"]), "streamEnd"),
    "socket.io, a namespace": (packets(["token", "né "], ["token", "🚆"], ["end"], prefix="42/chat,17"), "end"),
    "socket.io, an error": (packets(["token", "né "], ["token", "🚆"], ["error", {"message": "no"}]), "no"),
    "socket.io, reasoning": (packets(["thinking", "so"], ["token", "né "], ["token", "🚆"]), None),
}  # fmt: skip
COPIED = {f"{name}, copied": "\n".join(rows) + "\n" for name, (rows, _) in HUBS.items()}
COPIED |= {
    f"{name}, rows": "".join(f"{row}\t{len(row)}\t12:00:0{n}.250\n" for n, row in enumerate(rows))
    for name, (rows, _) in HUBS.items()
}
IN_HAR = {f"{name}, HAR": socket(rows) for name, (rows, _) in HUBS.items()}


@pytest.mark.parametrize("name", [*COPIED, *IN_HAR])
def test_messages_of_hubs_are_read(name):
    _, ends = HUBS[name.rpartition(",")[0]]
    found = read({**COPIED, **IN_HAR}[name].encode())
    assert text_of(found) == "né 🚆"
    assert (found.end or {}).get("reason", (found.end or {}).get("message")) == ends
    of = "HAR, " if name in IN_HAR else ""
    by = name.partition(",")[0].replace("Open WebUI", "socket.io").replace("Chainlit", "socket.io")
    assert found.header["source"]["format"] == f"{of}{by} messages"
    assert found.problems == []
    timed = "copied" not in name and "error" not in name
    assert not timed or (found.seconds or 0) > 0


def test_a_stream_of_signalr_that_is_not_completed_has_no_end():
    out = judged("\n".join(items("a", "b")))
    assert out["verdict"].startswith("It stops before its end")
    out = judged("\n".join(items("a", "b", last={"type": 7})))
    assert "closed the connection before" in out["notes"]


@pytest.mark.parametrize("har", [False, True])
@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (calls(["x", "a"], ["y", "b"]), "SignalR messages.*“Token”"),
        (packets(["a", "x"], ["b", "y"]), "socket.io messages.*“a”, “b”"),
        (packets(["a", {"piece": 1}]), "socket.io messages.*“a”"),
    ],
)
def test_what_may_not_be_the_text_is_not_shown_as_text(rows, names, har):
    with pytest.raises(CaptureError, match=names):
        read((socket(rows) if har else "\n".join(rows)).encode())


def test_a_body_in_pieces_in_messages_is_read_and_its_borders_are_told():
    parts = broken(BODY, "🚆")
    rows = packets(["ask", {"q": "a"}], *[["chunk", part] for part in parts], ["end"])
    out = judged("\n".join(rows))
    assert [(one[1], one[4]) for one in out["verdicts"]] == [("borders", 1)]
    assert (out["end"]["reason"], out["count"]) == ("stop", 2)
    whole = packets(["chunk", BODY])
    assert text_of(read("\n".join(whole).encode())) == "né 🚆"
    assert text_of(read(socket(whole).encode())) == "né 🚆"


def test_the_message_that_ends_an_answer_is_the_last_event():
    for rows in (HUBS["socket.io"][0], HUBS["SignalR, items"][0]):
        received = [n for n, row in enumerate(rows) if "né " in row][0]
        assert read(socket(rows).encode()).seconds == len(rows) - 1 - received


def test_why_a_connection_was_refused_is_said():
    with pytest.raises(CaptureError, match="The server said: not allowed"):
        read(b'0{"sid":"a"}\n44{"message":"not allowed"}\n42["x"]\n')


CUTS = (0, 40, 41, 90, len(BODY) - 9, len(BODY))


def logged(key, made=lambda piece: piece, **more):
    """Return the lines of a log with pieces of the body between its other lines."""
    out = [{"level": 30, "time": 1742000000100, "msg": "start"}]
    for n, (begin, end) in enumerate(pairwise(CUTS)):
        said = {"msg": "chunk", key: made(BODY[begin:end])}
        out.append({"level": 20, "time": 1742000000200 + 100 * n, **more, **said})
        out.append({"level": 30, "time": 1742000000250 + 100 * n, "msg": f"request {n}"})
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in out)


def buffer(piece):
    return {"type": "Buffer", "data": list(piece.encode())}


LINES = [line for line in BODY.split("\n") if line]
LOGS = {
    "pino, chunk": logged("chunk"),
    "pino, data": logged("data"),
    "pino, msg": logged("msg"),
    "pino, Buffer": logged("chunk", buffer),
    "pino, the second of two requests": "\n".join(line for pair in zip(logged("chunk", reqId=1).split("\n"), logged("chunk", reqId=2).split("\n"), strict=True) for line in pair),
    "bunyan": logged("chunk").replace('"time": 1742', '"v": 0, "time": 1742'),
    "pino, lines": "".join(compact({"level": 20, "time": 1742000000100 + n, "chunk": line}) + "\n" for n, line in enumerate(LINES)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_pieces_in_a_gateway_s_log_are_joined(name):
    found = read(LOGS[name].encode())
    assert text_of(found) == "né 🚆"
    assert (found.end or {})["reason"] == "stop"
    assert found.header["source"]["format"] == "log"
    assert found.problems == []
    assert (found.seconds or 0) > 0


def test_characters_that_are_broken_between_two_pieces_are_told():
    log = "".join(compact({"time": 1, "chunk": one}) + "\n" for one in broken(BODY, "🚆"))
    out = judged(log)
    assert [(one[1], one[4]) for one in out["verdicts"]] == [("borders", 1)]
    assert out["verdict"].startswith("The server, a proxy, or what recorded it, broke 1 place.")
    # With others beside each other elsewhere, which of them are at borders is not said.
    other = log.replace("n\u00e9", "n\ufffd\ufffd").replace("né", "n\ufffd\ufffd")
    out = judged(other)
    assert "In 1 place of its log, a character is broken where a piece ends" in out["notes"]


def test_characters_of_neighbours_that_are_broken_between_pieces_are_no_seam():
    pieces = broken(sse(*map(compact, (delta("a 好"), delta("🚆 b")))), "好", "🚆")
    log = "".join(compact({"time": 1, "chunk": one}) + "\n" for one in pieces)
    assert [(one[1], one[4]) for one in judged(log)["verdicts"]] == [("borders", 2)]


def labelled(label: str, *pieces: str, end: str = "\n") -> str:
    """A log of pieces, each behind a label, with a number in each that has one."""
    labels = [label.replace("%d", str(n)) for n in range(len(pieces))]
    return "".join(name + piece + end for name, piece in zip(labels, pieces, strict=True))


CUT_AT = [BODY.index("é") + 1, BODY.index("🚆")]
PARTS = [BODY[: CUT_AT[0]], BODY[CUT_AT[0] : CUT_AT[1]], BODY[CUT_AT[1] :]]


@pytest.mark.parametrize(
    "log",
    [
        labelled("chat.js:87 chunk ", *PARTS),
        labelled("[stdout] ", *PARTS),
        labelled("2026-11-26 10:22:0%d,100 DEBUG stream - chunk: ", *PARTS),
        labelled("chunk received: ", *PARTS).replace("\n\n\n", "\n"),
        labelled("chat.js:87 chunk ", *[compact(piece) for piece in PARTS]),
        labelled("12:00:0%d chunk ", *[compact(line) for line in BODY.split("\n") if line]),
        "".join(
            compact(
                {"log": f"{line}\n", "stream": "stdout", "time": f"2025-09-14T08:21:0{n % 10}Z"}
            )
            + "\n"
            for n, line in enumerate(labelled("[chunk %d] ", *[""] * 9, *PARTS).split("\n"))
        ),
    ],
    ids=["console", "label", "clock", "without ends", "quoted", "quoted lines", "Docker"],
)
def test_pieces_behind_a_label_are_put_together_without_it(log):
    out = judged(log)
    assert text_of(read(log.encode())) == "né 🚆"
    assert (out["verdicts"], out["problems"]) == ([], [])


def test_pieces_behind_a_label_with_a_time_came_then():
    log = labelled("2026-11-26 10:22:0%d,120 DEBUG stream - chunk: ", *PARTS)
    found = read(log.encode())
    # Each event came with the piece that ended it: the second piece, and the third.
    assert (found.header["source"]["times"], found.seconds) == ("lines", 1.0)


@pytest.mark.parametrize("rest", ["Started worker 1", "12 tokens"])
def test_a_logs_own_words_with_the_same_label_are_no_piece(rest):
    whole = [f"data: {line}" for line in BODY.replace("data: ", "").split("\n") if line]
    log = labelled("relay[7]: ", *whole[:1], rest, *whole[1:])
    assert text_of(read(log.encode())) == "né 🚆"
    # Nor behind an event that the log cut.
    cut = labelled("relay[7]: ", whole[0][:40], rest, *whole[1:])
    assert rest not in text_of(read(cut.encode()))


def test_an_event_beside_the_level_of_a_logs_line_is_read():
    events = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": []}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "né"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ]
    lines = [{"level": 20, "time": 1, "msg": "event", "event": one} for one in events]
    found = read("\n".join(map(compact, lines)).encode())
    assert (text_of(found), found.end["reason"]) == ("né", "end_turn")
    assert found.header["source"]["server"] == "Anthropic, messages"


def test_lines_of_signalr_keep_their_separators():
    words = ["né ", "🚆", "!", " a", " b", " c", " d", " e", " f"]
    said = [{"type": 2, "invocationId": "0", "item": word} for word in words]
    lines = [{"protocol": "json", "version": 1}, {}, *said, {"type": 3, "invocationId": "0"}]
    log = "".join(json.dumps(line, ensure_ascii=False) + "\x1e\n" for line in lines)
    assert text_of(read(log.encode())) == "".join(words)


def test_the_words_of_a_server_keep_their_lines_where_messages_are_counted():
    said = "Bad token in line 4"
    messages = items("né ", "🚆", last={"type": 3, "invocationId": "0", "error": said})
    out = judged(socket(messages))
    assert f"with an error in message 6: “{said}”." in out["verdict"]
    assert "Line numbers" not in out["verdict"]
