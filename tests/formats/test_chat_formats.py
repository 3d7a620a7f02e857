"""A ChatStream in a format: ids in, the deltas that are certain out, with stops and the rest."""

import functools
import json
import re
from typing import Any

import pytest
from laws.oracle import Certain, characters, ids_obey_the_law
from work import lines_run

from detok_py import ChatStream, Detokenizer, StreamingDetokenizer, Vocabulary
from detok_py.formats.form import Form
from detok_py.formats.table import FORMATS
from formats.test_reader import written
from formats.test_whole_text import answer_to, cases, units
from formats.values import spelled
from formats.whole_text import NAMES, Piece, Token, markers_of, pieces_of, whole_text
from formats.writers import Spoken, schemas_for, write

pytestmark = pytest.mark.native  # beside a judge that is written for CPython


def vocabulary_of(name: str, pieces: list[Piece]) -> tuple[Vocabulary, list[int]]:
    """Return a vocabulary of these pieces and the markers of a format, which are special tokens,
    and the ids of the pieces.
    """
    marks = {(True, spelling) for spelling in Form(name).spellings}
    known = sorted({(isinstance(piece, Token), str(piece)) for piece in pieces} | marks)
    special = [at for at, (is_token, _) in enumerate(known) if is_token]
    vocabulary = Vocabulary.from_bytes([text.encode() for _, text in known], special)
    return vocabulary, [known.index((isinstance(piece, Token), str(piece))) for piece in pieces]


def chat_of(case: Any, vocabulary: Vocabulary, **options: Any) -> ChatStream[Any]:
    return ChatStream(
        Detokenizer(vocabulary),
        format=case["format"],
        start=case.get("start", "content"),
        tool_schemas=case.get("schemas"),
        trim_artifacts=False,
        **options,
    )


class Shown:
    """What a stream has shown."""

    def __init__(self) -> None:
        self.texts = {"content": "", "reasoning": ""}
        self.calls: list[list[str]] = []

    def take(self, deltas: Any) -> None:
        for delta in deltas:
            if delta.channel != "tool_call":
                assert (delta.call, delta.name) == (None, None)
                self.texts[delta.channel] += delta.text
                continue
            if delta.name is not None:
                self.calls.append([delta.name, ""])
            self.calls[delta.call][1] += delta.text


def read(chat: ChatStream[Any], answer: Any, size: int) -> Shown:
    """Return what a stream shows of an answer in chunks of a size, and of its end."""
    shown = Shown()
    for at in range(0, len(answer), size):
        shown.take(chat.feed(answer[at : at + size]))
    shown.take(chat.flush())
    return shown


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_after_every_id_what_is_shown_is_what_every_way_on_has_in_common(name: str) -> None:
    for case in cases(name):
        pieces = units(pieces_of(case["pieces"]))
        vocabulary, ids = vocabulary_of(name, pieces)
        # The second stream comes out of the table that the first one has filled.
        for _ in range(2):
            chat, shown = chat_of(case, vocabulary), Shown()
            for n, i in enumerate(ids):
                shown.take(chat.push(i))
                cut = answer_to(case, pieces[: n + 1], cut=True)
                where = (case["name"], pieces[: n + 1])
                if chat.finish_reason is not None:
                    break
                assert shown.texts == {"content": cut.content, "reasoning": cut.reasoning}, where
                assert shown.calls == [[call.name, call.arguments] for call in cut.calls], where
                assert len(chat.calls) == len(cut.calls), where
            if case.get("cut"):
                continue
            shown.take(chat.flush())
            whole = answer_to(case)
            assert shown.texts == {"content": whole.content, "reasoning": whole.reasoning}
            calls = [(call.id, call.name, call.arguments, call.complete) for call in chat.calls]
            assert calls == [tuple(call) for call in whole.calls], case["name"]
            if chat.finish_reason == "eos" or whole.finish == "tool_calls":
                assert chat.finish_reason in (None, "tool_calls", "eos")


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_chunks_copies_and_saved_states_give_the_same(name: str) -> None:
    for case in cases(name):
        vocabulary, ids = vocabulary_of(name, units(pieces_of(case["pieces"])))
        chat = chat_of(case, vocabulary)
        whole = read(chat, ids, len(ids))
        for size in (1, 4):
            shown, stream = Shown(), chat_of(case, vocabulary)
            for at in range(0, len(ids), size):
                state = json.loads(json.dumps(stream.save(calls=True)))
                mark = stream.mark()
                stream.feed(ids[at : at + size])
                stream.rollback(mark)
                again = chat_of(case, vocabulary)
                again.load(state)
                stream = again.copy() if at % 2 else again
                shown.take(stream.feed(ids[at : at + size]))
            shown.take(stream.flush())
            assert (shown.texts, shown.calls) == (whole.texts, whole.calls), case["name"]
            assert stream.calls == chat.calls


# Units whose edges, stops and markers can meet in every way.
UNITS = ["a", "\n", Token("<think>"), Token("</think>"), "b"]
STOPS = [("\n",), ("a\n",), ("\nb", "ab"), ("\n\n",), ("b\nb",)]
HERMES = {"format": "qwen3_hermes"}
VOCABULARY, IDS = vocabulary_of("qwen3_hermes", list(UNITS))
UNIT_OF = dict(zip(IDS, UNITS, strict=True))


@functools.cache
def runs_of(given: tuple[int, ...]) -> list[tuple[str, str]]:
    """Return an answer without stops as runs (channel, text), cut at markers, which no stop goes
    across.
    """
    plain = chat_of(HERMES, VOCABULARY)
    runs: list[tuple[str, str]] = []
    section = ""
    for i in [*given, None]:
        for channel, text in plain.flush() if i is None else plain.push(i):
            if section == channel:
                text = runs.pop()[1] + text
            runs.append((channel, text))
            section = channel
        if i is not None and isinstance(UNIT_OF[i], Token):
            section = ""
    return runs


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("stop", STOPS, ids=repr)
@pytest.mark.parametrize("scope", ["content", "everywhere"])
def test_stops_between_markers_show_what_is_certain(stop: tuple[str, ...], scope: str) -> None:
    def final(given: tuple[int, ...]) -> Any:
        """Return the answer without stops, cut at the first stop in a run of one channel."""
        shown: list[tuple[str, str]] = []
        for channel, text in runs_of(given):
            found = [text.find(each) + len(each) for each in stop if each in text]
            if found and (scope == "everywhere" or channel == "content"):
                end = min(found)
                starts = [end - len(each) for each in stop if text[:end].endswith(each)]
                return tuple(shown) + characters([(channel, text[: min(starts)])])
            shown += characters([(channel, text)])
        return tuple(shown)

    def make() -> ChatStream[Any]:
        return chat_of(HERMES, VOCABULARY, stop_scope=scope, stop=stop)

    ids_obey_the_law(make, Certain(final, [(i,) for i in IDS], 3), IDS, 3)


@pytest.mark.parametrize("stop", ["END", '"a"', "}"])
def test_no_stop_ends_inside_the_arguments_of_a_call(stop: str) -> None:
    chat = ChatStream(
        StreamingDetokenizer(), format="qwen3_hermes", stop=stop, stop_scope="everywhere"
    )
    call = '{"a": "one END two"}'
    chat.feed(f'<tool_call>\n{{"name": "f", "arguments": {call}}}\n</tool_call>'.encode())
    assert ([each.arguments for each in chat.calls], chat.finish_reason) == ([call], None)
    shown = chat.feed(f"So {stop} it is".encode())
    assert ("".join([delta.text for delta in shown]).strip(), chat.finish_reason) == ("So", "stop")


def test_what_is_not_possible_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="format must be None, 'auto', 'json' or one of apertus"):
        ChatStream(StreamingDetokenizer(), format="qwen")
    with pytest.raises(ValueError, match="the format harmony has its own"):
        ChatStream(StreamingDetokenizer(), format="harmony", tools=None)
    with pytest.raises(ValueError, match="start must be 'content' or 'reasoning'"):
        ChatStream(StreamingDetokenizer(), format="glm4.5", start="tool_call")


def test_the_table_has_the_formats_of_the_judge() -> None:
    assert sorted(FORMATS) == sorted(NAMES)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_bytes_in_any_chunks_are_read_as_the_format_they_are_in(name: str) -> None:
    texts = [spelled(symbol) for symbol in markers_of(name)[0]]
    for case in cases(name)[::3]:
        start, schemas = case.get("start", "content"), case.get("schemas")
        text = written(case, texts)
        whole = whole_text(name, [text], start, schemas, texts=texts)
        data = text.encode()
        for size in (1, 3, 7, len(data) + 1):
            options: dict[str, Any] = {"start": start, "tool_schemas": schemas, "format": name}
            chat, shown = bytes_chat(**options), Shown()
            for at in range(0, len(data), size):
                if size == 7:
                    chat, other = bytes_chat(**options), chat
                    chat.load(json.loads(json.dumps(other.save(calls=True))))
                    mark = chat.mark()
                    chat.feed(b"<a")
                    chat.rollback(mark)
                shown.take(chat.feed(data[at : at + size]))
            shown.take(chat.flush())
            where = (case["name"], size)
            assert shown.texts == {"content": whole.content, "reasoning": whole.reasoning}, where
            assert shown.calls == [[call.name, call.arguments] for call in whole.calls], where
            calls = [(call.id, call.name, call.arguments, call.complete) for call in chat.calls]
            assert calls == [tuple(call) for call in whole.calls], where


def bytes_chat(**options: Any) -> ChatStream[Any]:
    return ChatStream(StreamingDetokenizer(), trim_artifacts=False, **options)


@pytest.mark.parametrize(
    ("name", "chunks", "early"),
    [
        ("qwen3_coder", ["<tool_call><function=f><parameter=a>\n1:\n", b"\xf0\x9f", b"\x99\x82 "], r"\n"),
        ("qwen3_hermes", ['<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"x\\', b"\xf0\x9f", "x"], "\\"),
        ("llama4_pythonic", ['[f(a="x\\', b"\xf0\x9f", b'\x99\x82", b="")]'], r"\\"),
    ],
)  # fmt: skip
def test_text_of_a_call_that_half_a_character_makes_certain_has_the_number_of_the_call(
    name: str, chunks: list[str | bytes], early: str
) -> None:
    tools = [{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}]
    chat = bytes_chat(format=name, tool_schemas=tools)
    shown, certain = Shown(), list[tuple[str, int | None]]()
    for chunk in chunks:
        deltas = chat.feed(chunk.encode() if isinstance(chunk, str) else chunk)
        certain += [(delta.text, delta.call) for delta in deltas if chunk == b"\xf0\x9f"]
        shown.take(deltas)
    shown.take(chat.flush())
    assert certain == [(early, 0)]
    assert shown.calls == [["f", chat.calls[0].arguments]]


@pytest.mark.parametrize("looks", [False, True])
def test_what_a_call_has_shown_early_is_in_its_arguments_once(looks) -> None:
    """A "<" may begin the closing tag: it is shown when both ways have it in common."""
    parts = ['<tool_call>{"name": "f", "arguments": {"a": "1 <', " 2 <", ' 3"}}</tool_call>']
    parts.append('<tool_call>{"name": "g", "arguments": {}}</tool_call>')
    chat, shown = ChatStream(StreamingDetokenizer(), format="qwen3_hermes"), ["", ""]
    for part in [parts[0], parts[1], parts[2] + parts[3], ""]:
        for delta in chat.feed(part.encode()) if part else chat.flush():
            shown[delta.call] += delta.text
        if looks:
            assert [call.arguments for call in chat.calls] == shown[: len(chat.calls)]
    assert [call.arguments for call in chat.calls] == shown == ['{"a": "1 < 2 < 3"}', "{}"]


CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("behind", ['<tool_call>\n{"name": "rm", "arguments": {"t": "<', CALL])
@pytest.mark.parametrize("before", ["", CALL])
def test_a_call_behind_a_stop_leaves_no_trace_however_the_text_is_cut(
    before: str, behind: str, size: int
) -> None:
    """Not in a copy either, though the reader may stand inside of the call's arguments."""
    data = f"{before}Hi STOP{behind}".encode()
    chat = ChatStream(StreamingDetokenizer(), stop=["STOP"], format="qwen3_hermes")
    for at in range(0, len(data), size):
        chat.feed(data[at : at + size])
    for one in (chat, chat.copy()):
        calls = [(call.name, call.arguments, call.complete) for call in one.calls]
        assert calls == ([("f", '{"a": 1}', True)] if before else [])
        assert (one.open_call, one.held_text, one.flush()) == (None, "", [])
        assert (one.stopped, one.finish_reason) == ("STOP", "stop")


def test_calls_keep_their_arguments_when_steps_come_out_of_the_table() -> None:
    tokens = [b"<tool_call>", b"</tool_call>", b"<function=f>\n<parameter", b'=zip>\n"K\xc3']
    tokens += [b'\xb6ln"\n', b"</parameter>\n</function>\n"]
    vocabulary = Vocabulary.from_bytes(tokens, [0, 1])
    for _ in range(3):
        chat, shown = chat_of({"format": "qwen3_coder"}, vocabulary), Shown()
        for i in (0, 2, 3, 4, 5, 1):
            shown.take(chat.push(i))
        assert shown.calls == [["f", '{"zip": "Köln"}']]
        assert [call.arguments for call in chat.calls] == ['{"zip": "Köln"}']


def test_a_state_that_has_the_arguments_of_a_call_as_one_text_is_loaded() -> None:
    chat = bytes_chat(format="qwen3_hermes")
    chat.feed(b'<tool_call>{"name": "f", "arguments": {"a": 1')
    state = json.loads(json.dumps(chat.save(calls=True)))
    (call,) = state[0][1][-1]
    call[2] = "".join(call[2])
    again = bytes_chat(format="qwen3_hermes")
    again.load(state)
    for each in (chat, again):
        each.feed(b"2}}</tool_call>")
        assert [call.arguments for call in each.calls] == ['{"a": 12}']


class OwnText:
    """A source of text of one's own, which may be no Unicode text."""

    def feed(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""


@pytest.mark.parametrize("code", [0xDC00, 0xDC3F])
def test_half_a_surrogate_pair_is_no_marker(code: int) -> None:
    chat, half = ChatStream(OwnText(), format="qwen3_hermes"), chr(code)
    assert chat.feed(f"a{half}b") == [("content", "a\ufffdb")]
    chat.feed('<tool_call>{"name": "f", "arguments": {"a": "' + half)
    assert chat.calls[0].arguments == '{"a": "\ufffd'


@pytest.mark.parametrize("name", ["qwen3_hermes", "harmony", "glm4.5", "gemma4", None])
def test_a_state_inside_a_long_call_is_small_and_goes_on_exactly(name: str | None) -> None:
    opener = {
        "qwen3_hermes": '<tool_call>{"name": "f", "arguments": {"a": "',
        "harmony": '<|channel|>commentary to=functions.f<|message|>{"a": "',
        "glm4.5": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>",
        "gemma4": '<|tool_call>call:f{a:<|"|>',
        None: "<tool_call>",
    }[name]
    tools = [{"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}]
    options: dict[str, Any] = {"tool_schemas": tools} | ({"format": name} if name else {})

    def stream() -> ChatStream[Any]:
        return bytes_chat(start="header" if name == "harmony" else "content", **options)

    one = stream()
    one.feed(opener.encode())
    for _ in range(1000):
        one.feed("a long text, é<".encode())
    state = json.dumps(one.save())
    assert len(state) < 1000 < 15_000 < len(json.dumps(one.save(calls=True)))
    other = stream()
    other.load(json.loads(state))
    for chunk in (b"b", b"</arg_value>", b'<|"|>', b'"}}', b"</tool_call>", b"<|call|>"):
        expected = [(*delta, delta.call) for delta in one.feed(chunk)]
        assert [(*delta, delta.call) for delta in other.feed(chunk)] == expected
    assert other.flush() == one.flush()
    assert other.finish_reason == one.finish_reason
    if name:
        assert [call.complete for call in other.calls] == [call.complete for call in one.calls]


NAMED = [
    ("glm4.5", "<tool_call>⟨N⟩<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>"),
    ("gemma4", "<|tool_call>call:⟨N⟩{a:1}<tool_call|>"),
    ("gemma4", "<|channel>thought\nHm<channel|>call:⟨N⟩{a:1}"),
    ("qwen3_coder", "<tool_call><function=⟨N⟩><parameter=a>1</parameter></function></tool_call>"),
    ("qwen3_coder", "<tool_call><function=f><parameter=⟨N⟩>1</parameter></function></tool_call>"),
    ("llama4_pythonic", "<|python_start|>[⟨N⟩(a=1)]<|python_end|>"),
    ("llama4_pythonic", "<|python_start|>[f(⟨N⟩=1)]<|python_end|>"),
    ("llama3.1_json", '<|python_tag|>⟨N⟩.call(a="b")'),
    ("deepseek_v3_r1", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>⟨N⟩\n```json\n{}\n```"),
]


@pytest.mark.parametrize(("name", "notation"), NAMED)
def test_a_name_that_is_too_long_is_no_name_however_the_text_is_cut(
    name: str, notation: str
) -> None:
    for length in (255, 256, 257, 300):
        n = length - len(".call") if ".call(" in notation else length  # which the name includes
        text = notation.replace("⟨N⟩", "n" * n)
        seen = []
        for size in (1, 2, 97, len(text)):
            chat = ChatStream(StreamingDetokenizer(), format=name)
            shown = read(chat, text.encode(), size)
            assert shown.calls == [[call.name, call.arguments] for call in chat.calls]
            seen.append((shown.texts, shown.calls))
        assert seen == [seen[0]] * 4
        said = str(seen[0][1])
        assert ("n" * 250 in said and "code" not in said) == (length <= 256), said


@pytest.mark.parametrize(
    ("name", "call", "rest"),
    [
        ("qwen3_coder", "<tool_call><function=f>", "<parameter=⟨N⟩>1</parameter>"),
        ("qwen3_coder", "<tool_call><function=f>", "<parameter=⟨N⟩"),
        (
            "deepseek_v3.2",
            '<｜DSML｜function_calls><｜DSML｜invoke name="f">',
            '<｜DSML｜parameter name="⟨N⟩" string="true">v</｜DSML｜parameter>',
        ),
    ],
)
def test_a_parameter_whose_name_is_too_long_is_text_like_all_behind_it(
    name: str, call: str, rest: str
) -> None:
    rest = rest.replace("⟨N⟩", "n" * 300) + "\nof the call"
    data = (call + rest).encode()
    for size in (1, 97, len(data)):
        chat = ChatStream(StreamingDetokenizer(), format=name)
        assert read(chat, data, size).texts["content"] == rest
        assert [(each.arguments, each.complete) for each in chat.calls] == [("{", False)]


@pytest.mark.parametrize(
    ("name", "begin", "chunk"),
    [
        ("qwen3_hermes", '<tool_call>{"arguments": {"a": "', "a long text, "),  # no name yet
        ("qwen3_hermes", '<tool_call>{"name": "f", "arguments": {}}', " "),
        *[(name, notation[: notation.index("⟨N⟩")] + "n" * 300, "n") for name, notation in NAMED],
    ],
)
def test_what_waits_inside_or_behind_a_call_costs_the_same_at_each_token(
    name: str, begin: str, chunk: str
) -> None:
    chat = ChatStream(StreamingDetokenizer(), format=name)
    chat.feed(begin.encode())
    early = lines_run(lambda: chat.feed(chunk.encode()))
    chat.feed(chunk.encode() * 3000)
    assert lines_run(lambda: chat.feed(chunk.encode())) < early + 50


LISTS = ("llama3.1_json", "llama4_pythonic")  # an answer of these is one list of calls


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LISTS])
def test_a_call_costs_the_same_after_many_calls(name: str) -> None:
    ids = "functions.look:" if name == "kimi_k2" else "call000"
    calls = [Spoken("look", {"a": "é"}, f"{ids}{n}") for n in range(10, 70)]
    text = re.sub("[⟦⟧]", "", write(name, "", None, calls))
    chat = bytes_chat(format=name, start="content", tool_schemas=schemas_for(calls))
    begins = [len(text[: found.start()].encode()) for found in re.finditer("look", text)]
    data, at, lines = text.encode(), 0, []
    for n in (15, 55):
        chat.feed(data[at : begins[n]])
        at = begins[n + 1]
        chunks = [bytes([byte]) for byte in data[begins[n] : at]]
        lines.append(lines_run(lambda chunks=chunks: [chat.feed(chunk) for chunk in chunks]))
    assert lines[1] < lines[0] + 50
    chat.feed(data[at:])
    chat.flush()
    assert [call.name for call in chat.calls] == ["look"] * 60


@pytest.mark.parametrize(
    ("units", "least", "shown"),
    [
        (["\n", "b"], 1, "\nb"),  # the newline came within the first token
        (["\n", "b"], 0, ""),
        (["\n", "\n", "b"], 1, "\n"),
        (["\n", "\n", "b"], 2, "\n\nb"),
        (["\n", Token("<think>"), "b"], 1, "b"),
    ],
)
def test_text_that_waits_for_a_marker_keeps_the_count_it_came_with(
    units: list[Piece], least: int, shown: str
) -> None:
    vocabulary, ids = vocabulary_of("qwen3_hermes", units)
    case = {"format": "qwen3_hermes"}
    for _ in range(2):
        chat = chat_of(case, vocabulary, stop="\n", stop_scope="everywhere", min_tokens=least)
        deltas = [delta for i in ids for delta in chat.push(i)] + chat.flush()
        assert "".join([delta.text for delta in deltas]) == shown


def test_text_before_what_waits_is_not_shown_while_a_longer_stop_may_still_come() -> None:
    vocabulary, ids = vocabulary_of("qwen3_hermes", ["xa", "\n", "!"])
    stops = ["a\n", "xa\n!"]  # the first one would end within the first two tokens
    for _ in range(2):
        chat = chat_of({"format": "qwen3_hermes"}, vocabulary, stop=stops, min_tokens=2)
        assert [chat.push(i) for i in ids] == [[], [], []]
        assert chat.stopped == "xa\n!"


@pytest.mark.parametrize("name", NAMES)
def test_an_end_of_the_turn_that_is_text_is_trimmed(name: str) -> None:
    for end in FORMATS[name].ends:
        chat = ChatStream(StreamingDetokenizer(), format=name, start="content")
        deltas = chat.feed(b"Hi") + chat.feed(end.encode()) + chat.feed(b"\n") + chat.flush()
        assert "".join([delta.text for delta in deltas]).rstrip("\n") == "Hi", end
        kept = ChatStream(StreamingDetokenizer(), format=name, start="content")
        inside = kept.feed(f"Hi {end} you".encode()) + kept.flush()
        shown = "".join([delta.text for delta in inside])
        assert shown == f"Hi {end} you" or name in ("harmony", "kimi_k3"), end
