"""The reader of formats says at every cut what the plain judge says, and the same in any chunks."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detok_py import ChatStream, StreamingDetokenizer
from detok_py.formats.form import Form
from detok_py.formats.literal_steps import python_word
from detok_py.formats.reader import Reader
from detok_py.formats.state import Said
from detok_py.formats.table import FORMATS
from detok_py.formats.values import has_mark, json_kind, parameter_types, unescaped
from formats.test_cuts import in_common
from formats.test_whole_text import cases, units
from formats.values import spelled
from formats.whole_text import NAMES, Answer, Piece, Token, markers_of, pieces_of, whole_text

pytestmark = pytest.mark.native  # beside a judge that is written for CPython


class Reading:
    """What a reader has said so far of the pieces of an answer."""

    def __init__(
        self, name: str, start: str = "content", schemas: Any = None, is_token: Any = None
    ) -> None:
        self.form = Form(name, is_token)
        self.reader = Reader(self.form, start, parameter_types(schemas))
        self.said: dict[str, str] = {"content": "", "reasoning": ""}
        self.names: list[str] = []
        self.arguments: list[str] = []
        self.over = False

    def symbols(self, pieces: list[Piece]) -> str:
        """Return pieces as symbols, up to the end of the turn."""
        out = ""
        for piece in pieces:
            self.over = self.over or (isinstance(piece, Token) and piece in self.ends)
            if self.over:
                break
            known = not isinstance(piece, Token) or piece in self.form.spellings
            out += (self.form.mark(piece) if isinstance(piece, Token) else piece) if known else ""
        return out

    @property
    def ends(self) -> tuple[str, ...]:
        return FORMATS[self.form.name].ends

    def take(self, said: list[Said]) -> None:
        for each in said:
            if not each.channel:
                continue  # a marker
            if each.call is None:
                self.said[each.channel] += each.text
                continue
            if each.name is not None:
                assert each.call == len(self.names)
                self.names.append(each.name)
                self.arguments.append("")
            self.arguments[each.call] += each.text

    def feed(self, pieces: list[Piece]) -> "Reading":
        self.take(self.reader.feed(self.symbols(pieces)))
        return self

    def flush(self) -> "Reading":
        self.take(self.reader.flush())
        return self

    def so_far(self) -> Any:
        return self.said, list(zip(self.names, self.arguments))

    def whole(self) -> Any:
        calls = self.reader.calls
        assert [(call.name, call.arguments) for call in calls] == self.so_far()[1]
        return self.said, [(each.id, each.name, each.arguments, each.complete) for each in calls]


def parts(answer: Answer) -> dict[str, str]:
    return {"content": answer.content, "reasoning": answer.reasoning}


def reading(case: Any) -> Reading:
    return Reading(case["format"], case.get("start", "content"), case.get("schemas"))


SPLICES = ["\n", "\n\n", "12", *" x{}[]<,:(=", '"', "'", "\\"]


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=settings.default.max_examples // 3)
@given(data=st.data())
def test_what_was_never_meant_is_read_the_same_in_any_chunks(name: str, data: Any) -> None:
    """Pieces of two answers, and what splits markup."""
    known = cases(name)
    case, other = data.draw(st.sampled_from(known)), data.draw(st.sampled_from(known))
    pieces, more = units(pieces_of(case["pieces"])), units(pieces_of(other["pieces"]))
    at = data.draw(st.integers(0, len(pieces)))
    begin = data.draw(st.integers(0, len(more)))
    cut = data.draw(st.integers(0, 12))
    pieces[at : at + cut] = [data.draw(st.sampled_from(SPLICES)), *more[begin : begin + 40]]
    one = reading(case)
    for piece in pieces:
        one.feed([piece])
    assert one.flush().whole() == reading(case).feed(pieces).flush().whole()


@pytest.mark.parametrize("name", ["granite4", "hermes2_text", "olmo3"])
def test_a_marker_is_text_where_the_vocabulary_has_it_as_a_token(name: str) -> None:
    form = Form(name, is_token=lambda spelling: spelling == "<think>")
    assert Reader(form).feed("<think>a</think>b") == [
        Said("content", "<think>a</think>b", None, None)
    ]


def test_the_end_of_a_message_ends_a_string_also_behind_a_saved_state() -> None:
    form = Form("harmony")
    call = '⟦<|channel|>⟧commentary to=functions.f⟦<|message|>⟧{"a": "b'
    rest = form.symbols("⟦<|end|>⟧⟦<|start|>⟧assistant⟦<|channel|>⟧final⟦<|message|>⟧c")
    reader, again = Reader(form), Reader(form)
    reader.feed(form.symbols(call))
    again.load(reader.state, [(None, "f", '{"a": "b', False)])
    assert again.feed(rest) == reader.feed(rest)
    assert reader.calls == again.calls
    assert reader.calls[0].arguments == '{"a": "b'


def written(case: Any, texts: list[str]) -> str:
    """Return an answer as text without tokens, up to the end of its turn."""
    out = ""
    for piece in pieces_of(case["pieces"]):
        if not isinstance(piece, Token) or piece in texts:
            out += piece
        elif piece in FORMATS[case["format"]].ends:
            break
    return out


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_without_tokens_it_says_after_every_character_what_every_way_on_has_in_common(
    name: str,
) -> None:
    texts = [spelled(symbol) for symbol in markers_of(name)[0]]
    for case in cases(name)[::4]:
        text, start, schemas = (
            written(case, texts),
            case.get("start", "content"),
            case.get("schemas"),
        )
        read = Reading(name, start, schemas, is_token=lambda spelling: False)
        for n in range(1, len(text) + 1):
            read.take(read.reader.feed(text[n - 1]))
            so_far = text[:n]
            ways = [m[k:] for m in texts for k in range(1, len(m)) if so_far.endswith(m[:k])]
            answers = [
                whole_text(name, [so_far + way], start, schemas, cut=True, texts=texts)
                for way in ["", *ways]
            ]
            calls = [
                (in_common(calls, "name"), in_common(calls, "arguments"))
                for calls in zip(*[answer.calls for answer in answers], strict=False)
            ]
            shared = {part: in_common(answers, part) for part in ("content", "reasoning")}
            assert read.so_far() == (shared, calls), (case["name"], so_far)
        whole = whole_text(name, [text], start, schemas, texts=texts)
        assert read.flush().whole() == (parts(whole), [tuple(call) for call in whole.calls])
        assert read.reader.finish_reason == whole.finish, case["name"]


@pytest.mark.parametrize(
    ("said", "number"),
    [("0xfe", "254"), ("0xff", "255"), ("-0x1F", "-31"), ("+1", "1"), ("1_0.5", "10.5")],
)
def test_a_number_of_python_is_a_number_of_json(said: str, number: str) -> None:
    assert python_word(said) == number


@pytest.mark.parametrize("said", ["+1e999", "1_0e999", "-inf", "+nan", "0x" + "e" * 4000])
def test_a_number_that_json_cannot_write_is_a_string(said: str) -> None:
    assert python_word(said) == f'"{said}"'


def test_deep_json_is_searched_for_numbers_that_json_does_not_have() -> None:
    deep = "[" * 600 + "%s" + "]" * 600
    kinds = [json_kind(deep % inside) for inside in ("NaN", '{"a": -Infinity}', '"NaN"')]
    assert kinds == ["", "", "array"]


def test_both_halves_of_a_surrogate_pair_may_be_escapes_of_any_length() -> None:
    short, long = r"\ud83d\ude00", r"\U0000d83d\ude00"
    assert unescaped(short + long + '"', '"') == ("😀😀", "", True)
    assert unescaped(short + long[:-1], '"') == ("😀", long[:-1], False)


@pytest.mark.parametrize(
    "schema",
    [
        *({"type": None}, {"type": 5}, {"type": ["string", None]}, {"type": ["string", ["null"]]}),
        *({"anyOf": None}, {"oneOf": 5}, {"anyOf": [{"type": 5}]}, {"enum": 5}, {"enum": None}),
    ],
)
def test_what_is_no_schema_gives_no_type(schema: Any) -> None:
    tools = [{"name": "f", "parameters": {"properties": {"a": schema, "b": {"type": "string"}}}}]
    assert parameter_types(tools) == {("f", "b"): ("string",)}


@pytest.mark.parametrize(
    "tools",
    [
        *([1], [None], {"type": "function", "function": {}}, '{"a": 1}', [{"function": None}]),
        *([{"name": "f", "parameters": [1]}], [{"name": "f", "parameters": {"properties": [1]}}]),
    ],
)
def test_what_is_no_list_of_tools_is_refused_in_one_sentence(tools: Any) -> None:
    with pytest.raises(TypeError, match='tool_schemas is a list of {"type": "function"'):
        ChatStream(StreamingDetokenizer(), format="qwen3_coder", tool_schemas=tools)


@pytest.mark.parametrize("name", NAMES)
def test_symbols_are_spelled_in_any_text(name: str) -> None:
    form = Form(name)
    spellings = list(form.spellings)
    assert not [each for each in spellings if has_mark(each)]
    symbols = "é".join([form.mark(each) for each in spellings])
    assert form.spelled("a" + symbols + "😀") == "a" + "é".join(spellings) + "😀"


def test_no_marker_begins_another_one() -> None:
    for name in NAMES:
        spellings = Form(name, is_token=lambda spelling: False).texts
        for one in spellings:
            assert not [each for each in spellings if each != one and each.startswith(one)]


def test_what_reads_calls_is_imported_with_the_first_call() -> None:
    """So that a page begins sooner: text needs none of it."""
    question = """
import sys
from detok_py.formats.form import Form
from detok_py.formats.reader import Reader
form = Form("qwen3_hermes")
reader = Reader(form)
for text in ("Hello", '⟦<tool_call>⟧{"name": "f", "arguments": {}}⟦</tool_call>⟧'):
    reader.feed(form.symbols(text))
    print(*sorted(name for name in sys.modules if name.endswith("_steps")))
print(reader.calls[0].name, reader.calls[0].complete)
"""
    done = subprocess.run(
        [sys.executable, "-c", question], capture_output=True, text=True, check=True
    )
    first, then, calls = done.stdout.splitlines()
    assert first == "detok_py.formats.text_steps"
    assert "detok_py.formats.json_steps" in then.split()
    assert calls == "f True"
