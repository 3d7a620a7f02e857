"""Streams of every kind of server are read from files, with the line of what is broken or
unreadable.

The files are in tests/fixtures/streams/; each was written for these tests.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recordings import delta, finish, har, socket_har, text_of, unended
from stream_samples import FILES, STREAMS

from detok_py.captures.imported import ESCAPED, HALF, INVALID, REPLACED
from detok_py.captures.log import read_log
from detok_py.captures.parse import Halves, mark_halves
from detok_py.captures.read import read
from detok_py.captures.servers import COMPATIBLE, Server
from detok_py.errors import CaptureError


def opened(name):
    return read((STREAMS / name).read_bytes(), name)


def tokens_of(found):
    return [token for chunk in found.chunks for token in chunk.tokens]


@pytest.mark.parametrize("name", FILES)
def test_the_stream_of_a_server_is_read_and_named(name):
    server, fidelity, texts, finish = FILES[name]
    found = opened(name)
    assert found.header["source"]["server"] == server
    assert found.header["engine"]["fidelity"] == fidelity
    assert {chunk.channel for chunk in found.chunks} == set(texts)
    assert {channel: text_of(found, channel) for channel in texts} == texts
    assert (found.end or {}).get("reason") == finish
    assert [chunk.broken for chunk in found.chunks if chunk.broken] == []


def test_every_sample_is_tested():
    tested = (Path(__file__).parent / "test_read.py").read_text("utf-8")
    untested = [path.name for path in STREAMS.iterdir() if path.name not in tested]
    assert [name for name in untested if name not in FILES] == []


def test_the_bytes_of_log_probabilities_are_the_tokens():
    expected = "你好🚀".encode()
    tokens = tokens_of(opened("openai-chat-logprobs.sse"))
    assert [data for _, data in tokens] == [b"\xe4\xbd", b"\xa0", "好".encode(), b"\xf0\x9f", b"\x9a\x80"]  # fmt: skip
    assert b"".join([data for _, data in tokens]) == expected
    *_, first, second = tokens_of(opened("openai-completions.sse"))
    assert (first, second) == ((None, b"\xf0\x9f"), (None, b"\x9a\x80"))
    _, *tokens = tokens_of(opened("llama-server.sse"))
    assert tokens == [(11410, b"\xf0\x9f"), (248, b"\x9a"), (222, b"\x80")]


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("vllm-completions.sse", [0, 2, 3]),
        ("sglang-generate.sse", [0, 1, 2, 3]),
        ("tgi.sse", [0, 1, 2, 3, 4]),
    ],
)
def test_the_ids_of_a_server_are_the_tokens(name, ids):
    assert [token_id for token_id, _ in tokens_of(opened(name))] == ids


def test_token_names_with_ids_are_ids():
    event = {"choices": [{"text": "a", "logprobs": {"tokens": ["token_id:7", "token_id:9"]}}]}
    assert Server().read(event)[0].tokens == [(7, None), (9, None)]


@pytest.mark.parametrize(
    ("name", "broken", "text"),
    [
        ("report-decode-each-token.sse", [(3, 2, ESCAPED), (5, 3, ESCAPED)], "Emoji: �� done"),
        ("report-broken-utf8.sse", [(1, 1, INVALID), (3, 2, INVALID)], "Re\ufffd\ufffdé ok"),
        ("report-surrogate-halves.sse", [(3, 2, HALF)], "Hi 😀 and \ufffd!"),
        ("faults.detok.jsonl", [(3, 2, REPLACED)], "你ok \ufffd"),
    ],
)
def test_damage_that_arrived_keeps_its_line_its_event_and_its_cause(name, broken, text):
    found = opened(name)
    assert [(c.line, c.event, c.broken) for c in found.chunks if c.broken] == broken
    assert text_of(found) == text


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("curl-verbose.txt", [(1, "no event: $ curl"), (16, "no event: user@host")]),
        ("terminal.log", [(1, "3 lines are not events, such as this one: docker")]),
        ("torn.sse", [(3, "this event's JSON breaks off")]),
        ("chat.har", []),
    ],
)
def test_what_cannot_be_read_is_said_by_line_and_reason(name, lines):
    problems = opened(name).problems
    assert [(problem.line, problem.reason[: len(lines[n][1])]) for n, problem in enumerate(problems)] == lines  # fmt: skip


def test_lines_of_a_terminal_are_where_they_were():
    chunks = opened("terminal.log").chunks
    assert [(chunk.line, chunk.event) for chunk in chunks] == [(3, 1), (4, 2), (7, 3)]


def test_each_stream_of_a_har_file_is_listed_and_can_be_read():
    data = (STREAMS / "chat.har").read_bytes()
    first = read(data, "chat.har")
    numbers = [number for number, _ in first.header["entries"]]
    assert numbers[0] == first.header["source"]["entry"] == 2
    for number in numbers:
        assert read(data, "chat.har", entry=number).header["source"]["entry"] == number
    with pytest.raises(CaptureError, match="has no stream of an engine"):
        read(data, "chat.har", entry=1)
    entry = json.loads(data)["log"]["entries"][1]
    entry["response"]["_error"] = "net::ERR_FAILED"
    alone = read(har(entry).encode())
    assert alone.facts.notes.endswith("The browser says of its entry: “net::ERR_FAILED”.")


def test_the_error_of_a_server_is_the_end():
    found = opened("server-error.sse")
    assert (text_of(found), found.end) == ("Half", {"type": "error", "message": "out of memory"})


def test_a_socket_in_a_har_file_has_its_times_and_no_prompt():
    found = opened("detok-socket.har")
    assert [round(chunk.seconds, 3) for chunk in found.chunks] == [0.4, 0.65]
    assert (round(found.seconds, 3), found.end) == (0.9, {"type": "finished", "reason": "eos"})
    assert found.header["engine"] == {"name": "test"}
    assert found.header["source"]["format"] == "HAR, detok.v1 socket"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        # At the end, U+FFFD stands for a character that is not complete.
        (("A 世\ufffd", "A 世界"), "A 世|界"),
        # What the server takes back stays.
        (("A 世界", "A 世x"), "A 世界|x"),
        # It repeats nothing.
        (("aha", "ach", " a", " é"), "aha|ach| a| é"),
    ],
)
def test_text_that_a_server_repeats_is_read_once(texts, said):
    server = Server()
    parts = [server.read({"text": text, "meta_info": {}}) for text in texts]
    assert "|".join([part[0].text for part in parts]) == said


def test_data_that_is_text_and_not_json_is_read_as_text():
    body = "event: output\nid: 1:0\ndata: Gleis \n\nevent: output\ndata: 9\n\nevent: output\ndata:  é\ndata: \n\n"
    found = read((body + "event: done\ndata: {}\n\n").encode())
    assert text_of(found) == "Gleis 9 é\n"
    assert (found.header["source"]["server"], found.problems) == ("Replicate", [])
    plain = read("data: Gleis\n\n: ping\n\ndata:  sieben é\n\n".encode())
    assert text_of(plain) == "Gleis sieben é"
    assert plain.header["source"]["server"] == "unknown server"
    assert [chunk.line for chunk in plain.chunks] == [1, 5]
    broken = read(b"data: caf\xc3\n\ndata: \xa9!\n\n")
    assert [chunk.broken for chunk in broken.chunks] == [INVALID, INVALID]
    with pytest.raises(CaptureError):
        read(b'data: {"a": {"b": 1}}\n\ndata: x\n\n')


def test_a_socket_of_a_chat_api_is_not_one_of_the_bridge():
    events = [{"type": "session.created"}]
    events += [{"type": "response.output_text.delta", "delta": text} for text in ("né", " 🚆")]
    events += [{"type": "response.done", "response": {"status": "completed"}}]
    found = read(socket_har(*map(json.dumps, events)).encode(), "x.har")
    assert (text_of(found), found.end["reason"]) == ("né 🚆", "completed")
    assert found.header["source"]["server"] == "OpenAI, responses"


def test_an_event_about_the_usage_does_not_name_the_server():
    server = Server()
    server.read({"choices": [{"delta": {"content": "a"}}], "object": "chat.completion.chunk"})
    server.read({"choices": [], "timings": {}})
    assert server.name == "OpenAI-compatible server, chat completions"


@pytest.mark.parametrize(
    "name", sorted(path.name for path in STREAMS.iterdir() if path.suffix in (".sse", ".ndjson"))
)
def test_any_line_end_and_any_log_around_it_give_the_same_text(name):
    data = (STREAMS / name).read_bytes()
    texts = [chunk[1:4] for chunk in read(data).chunks]
    crlf = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    assert [chunk[1:4] for chunk in read(b"\xef\xbb\xbf" + crlf).chunks] == texts
    if b"event:" not in data and b"\r" not in data:
        logged = b"".join([b"srv | " + line + b"\n" for line in data.split(b"\n") if line])
        assert [chunk[1:4] for chunk in read(logged).chunks] == texts


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"{}", b"[]", b"\x00\x01", b"data: {}\n\n", b'{"log":{}}', b'{"log":{"entries":[]}}', b"<html>",
     b'data: {"choices":[7]}\n\n', b'{"a":' * 2000, b"[" * 5000],
)  # fmt: skip
def test_a_file_without_a_stream_is_refused_in_one_sentence(data):
    with pytest.raises(CaptureError) as caught:
        read(data, "x")
    assert str(caught.value)[-1:] == "." or "line" in str(caught.value)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data):
    for one in (data, b"data: " + data + b"\n\n", b'{"' + data):
        try:
            read(one)
        except CaptureError:
            pass
        read_log(one)


@given(
    st.lists(st.sampled_from(["a", "é", "😀", "\ud83d", "\ude00", "\\", '"', "\ufffd"])), st.data()
)
def test_halves_of_pairs_are_joined_however_a_text_is_cut(letters, data):
    text = "".join(letters)
    units = text.encode("utf-16-le", "surrogatepass")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(units) // 2))))
    halves = Halves()
    out = b""
    for begin, end in zip([0, *cuts], [*cuts, len(units) // 2], strict=True):
        piece = units[2 * begin : 2 * end].decode("utf-16-le", "surrogatepass")
        out += halves.feed(json.loads(mark_halves(json.dumps(piece))))[0]
    out += halves.flush()[0]
    assert out.decode() == units.decode("utf-16-le", "replace")


TWO = [delta("né "), delta("🚆")]


def test_localai_is_named_by_its_log():
    log = "\n".join(f"12:5{n}PM DBG Sending chunk: {json.dumps(one)}" for n, one in enumerate(TWO))
    assert read(log.encode()).header["engine"]["name"] == "LocalAI, chat completions"


@pytest.mark.parametrize("comment", [': prefill_progress {"n":1}', ': generation_stats {"n":1}'])
def test_exo_is_named_by_its_comments(comment):
    body = unended(TWO[0])
    names = [
        read(data.encode()).header["engine"]["name"]
        for data in (f"{comment}\n\n{body}", f"{body}{comment}\n\n", body + ": ping\n\n")
    ]
    assert names == ["exo, chat completions"] * 2 + [COMPATIBLE + ", chat completions"]


def test_a_log_of_dicts_has_its_times_and_an_array_its_end():
    log = [f"2025-11-24 10:00:0{n},500 - INFO - {one!r}" for n, one in enumerate(TWO)]
    assert read("\n".join(log).encode()).seconds == 1.0
    found = read(json.dumps(TWO, indent=1)[:-1].encode())
    assert [one.reason for one in found.problems] == ["the array breaks off after this line"]
    with pytest.raises(CaptureError):
        read(b'[{"a": 1')
    assert text_of(read(json.dumps([*TWO, finish("stop")], indent=1)[:-20].encode())) == "né 🚆"
    whole = json.dumps([*TWO, "é"], indent=1, ensure_ascii=False).encode()
    found = read(whole[:-4])
    assert text_of(found) == "né 🚆"
    (one,) = found.problems
    assert "breaks off inside a character" in one.reason


def test_what_follows_the_end_of_an_answer_is_named():
    end = finish("stop")
    usage = {"choices": [], "usage": {}}

    def other(*events):
        return read(unended(*events).encode(), together=True)

    found = other(TWO[0], end, usage, TWO[1], TWO[1])
    assert (text_of(found), found.problems, found.facts.others) == ("né 🚆🚆", [], [7])
    role = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
    assert other(role, TWO[0], end, usage, role, TWO[1]).facts.others == [9]
    assert other(role, TWO[0], end, usage).facts.others == []
    message = {"model": "claude-x", "usage": {"input_tokens": 1}}
    begin = {"type": "message_start", "message": message}
    text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "ok"}}
    found = other({**TWO[0], "model": "gpt-4o"}, end, begin, text)
    assert (text_of(found), found.facts.others) == ("né ok", [5])
    # The server and its model are those of the first.
    assert found.header["engine"]["model"] == "gpt-4o"
    assert found.header["engine"]["name"] == "OpenAI-compatible server, chat completions"
    # How it ended is how the last one did.
    assert (found.end, found.facts.no_end) == (None, True)
    found = other(TWO[0], end, begin, text, text, {**TWO[0], "model": "m"})
    assert found.header["engine"]["model"] is None
    found = other(TWO[0], end, TWO[1], {**TWO[1], "model": "m"}, end, TWO[1])
    assert (found.end, found.facts.others, found.facts.no_end) == (None, [5, 11], True)
    both = {"choices": [{"delta": {"content": "ok"}, "finish_reason": "length"}]}
    found = other(TWO[0], end, both)
    assert (found.end["reason"], found.facts.others, found.facts.no_end) == ("length", [5], False)
    with pytest.raises(CaptureError, match="no text, ids or bytes: it ended with “stop”"):
        other(end)


def test_names_of_tokens_are_not_their_bytes():
    def named(text, name):
        tokens = {"content": [{"token": name, "bytes": None}]}
        return {"choices": [{"delta": {"content": text}, "logprobs": tokens}]}

    for pairs in ([("Der", "Der"), (" Zug", "ĠZug")], [("a", "▁a"), ("\n", "<0x0A>")]):
        found = read(unended(*[named(*pair) for pair in pairs]).encode())
        assert [data for _, data in tokens_of(found)] == [None, None]
        assert found.header["engine"]["fidelity"] == "text"
    # A text may be about them.
    found = read(unended(named("Ġ", "Ġ")).encode())
    assert tokens_of(found) == [(None, "Ġ".encode())]


def test_an_error_without_a_key_of_its_own_and_values_that_end_with_nul():
    error = 'error: {"code":500,"message":"context size exceeded","type":"server_error"}\n\n'
    found = read((unended(TWO[0]) + error).encode())
    assert found.end == {"type": "error", "message": "context size exceeded"}
    texts = ["né", "né 🚆"]
    fast = "\0".join(json.dumps({"text": text, "error_code": 0}) for text in texts) + "\0"
    assert text_of(read(fast.encode())) == "né 🚆"


def of(given, **choice):
    """The choices of an event whose delta has these fields too."""
    return {"choices": [{"delta": {"content": "a", **given}, **choice}]}


@pytest.mark.parametrize(
    ("sign", "name"),
    [
        ({"model": "gpt-4o", "system_fingerprint": "fp_1"}, "OpenAI"),
        ({"model": "o3-mini", "service_tier": "default"}, "OpenAI"),
        ({"model": "ft:gpt-4o:acme::1", "system_fingerprint": "fp_1"}, "OpenAI"),
        ({"system_fingerprint": "fp_1"}, "OpenAI"),
        ({"model": "deepseek-chat", "system_fingerprint": "fp_1_prod"}, "DeepSeek"),
        ({"system_fingerprint": "fp_1", **of({"provider_specific_fields": None})}, COMPATIBLE),
        ({"model": "deepseek-r1"}, COMPATIBLE),
        ({"model": "grok-4-0709", "system_fingerprint": "fp_1"}, "xAI"),
        ({"model": "llama-3.3", "system_fingerprint": "fp_1", "x_groq": {"id": "r"}}, "Groq"),
        ({"system_fingerprint": "fp_1", "time_info": {"queue_time": 0.1}}, "Cerebras"),
        ({"model": "x", "id": "gen-1", "provider": "DeepInfra"}, "OpenRouter"),
        ({"model": "mistral-small-latest", "p": "abc"}, "Mistral"),
        ({"model": "a-MLC", **of({"tool_call_id": None})}, "MLC-LLM"),
        ({"model": "", "prompt_filter_results": []}, "Azure OpenAI"),
        ({"system_fingerprint": "0.27.1-0.29.1-macOS-15.6-arm64-applegpu_g14s"}, "mlx-lm"),
        ({"system_fingerprint": "0.27.1-macOS-15.6-arm64-applegpu_g14s"}, COMPATIBLE),
        ({"usage": {"completion_tokens": 1, "avg_compl_tok_per_sec": 22.9}}, "mistral.rs"),
        ({"usage": {"prompt_tokens_per_sec": 38.8, "completion_tokens_per_sec": 12.1}}, "TabbyAPI"),
        ({"usage": {"prompt_time": 0.1, "completion_time": 0.2, "total_time": 0.3}}, COMPATIBLE),
        (of({}, stop_reason=2, avg_decoded_tokens_per_iter=1.0), "TensorRT-LLM"),
        ({"model": "gpt-oss-20b", "system_fingerprint": "fp_1"}, COMPATIBLE),
        ({"model": "mixtral", "system_fingerprint": "fp_1"}, COMPATIBLE),
        ({"model": "mixtral", "service_tier": "auto"}, COMPATIBLE),
    ],
)
def test_a_server_of_openais_form_is_named_only_by_its_own_signs(sign, name):
    server = Server()
    server.read({**TWO[0], **sign})
    assert server.name == name + ", chat completions"
