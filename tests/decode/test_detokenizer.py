"""Ids to text: prompts, special tokens, marks, copies, spans, states; and that no way of using them
changes the text.
"""

import copy
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from laws.reference import decode, decode_apart
from work import lines_run

from detok_py import ByteVocabulary, Detokenizer, StreamEndedError, Vocabulary, VocabularyError
from detok_py.decode.table import Row, Table

SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
LLAMA = {
    "type": "Sequence",
    "decoders": [
        SPACE,
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
SPM = [
    "▁Hello",
    "▁world",
    "▁",
    *[f"<0x{b:02X}>" for b in (0xE4, 0xBD, 0xA0, 0xFF, 0x0A, 0x20)],
    "é",
    "<s>",
]
BYTES = [b"caf", b"\xc3", b"\xa9", b" world", b"\xf0\x9f", b"\x98\x80", b"\xff", b"", b"<eos>"]
WORDS = ["do", "n", "'", "t", "##s", ".", "[SEP]"]
WORD_PIECE = {"type": "WordPiece", "prefix": "##", "cleanup": True}


def spm(prompt=(), **settings):
    return Detokenizer(
        Vocabulary.from_pieces(SPM, LLAMA, special_ids=[len(SPM) - 1]), prompt, **settings
    )


def of_bytes(prompt=(), **settings):
    return Detokenizer(
        Vocabulary.from_bytes(BYTES, special_ids=[8], eos_ids=[8]), prompt, **settings
    )


def words(prompt=(), **settings):
    return Detokenizer(
        Vocabulary.from_pieces(WORDS, WORD_PIECE, special_ids=[6], clean_up=True),
        prompt,
        **settings,
    )


APART = {"skip_special_tokens": False, "spaces_between_special_tokens": True}
MAKERS = [
    spm,
    of_bytes,
    words,
    lambda *a, **k: spm(*a, byte_fallback="hf", **k),
    lambda *a, **k: spm(*a, **(APART | k)),
    lambda *a, **k: words(*a, **(APART | k)),
]
SIZES = [len(SPM), len(BYTES), len(WORDS), len(SPM), len(SPM), len(WORDS)]


def test_half_a_character_that_ends_a_prompt_is_held_and_not_shown_again():
    t = of_bytes([0, 4])
    assert (t.held, t.push(5)) == (b"\xf0\x9f", "😀")
    assert of_bytes([0, 4]).push(0) == "caf"
    assert of_bytes([0, 4]).flush() == ""


def test_a_byte_run_that_is_a_whole_prompt_is_not_shown_again():
    t = spm([3, 4, 5], byte_fallback="hf")  # 你 in bytes
    assert [t.push(1), t.flush()] == [" world", ""]
    t = spm([3, 4, 5], byte_fallback="hf")
    assert [t.push(6), t.push(1)] == ["\ufffd" * 4, " world"]  # the run turns out bad


def test_a_prompt_with_a_space_that_is_certain_before_half_a_character_is_left_out():
    vocabulary = Vocabulary.from_bytes([b"a", b" ", b"\xf0\x9f", b"\x98\x80", b"b"])
    for ids, text in (([4], "b"), ([3], "😀"), ([], "")):
        t = Detokenizer(vocabulary, [0, 1, 2], clean_up_tokenization_spaces=True)
        assert t.feed(ids) + t.flush() == text


def test_the_tail_of_a_prompt_is_the_text_of_as_many_ids():
    t = Detokenizer(Vocabulary.from_bytes([b"a", b"b", b"<think>"]), [0, 1, 2])
    assert [t.prompt_tail(count) for count in (1, 2, 3, 4)] == ["<think>", "b<think>"] + [
        "ab<think>"
    ] * 2


def test_a_strict_prompt_may_end_inside_a_character():
    assert of_bytes([0, 4], errors="strict").push(5) == "😀"


@pytest.mark.parametrize(
    ("errors", "out"), [("replace", "\ufffd"), ("ignore", ""), ("backslashreplace", "\\xff")]
)
def test_error_policies_reach_byte_tokens(errors, out):
    assert of_bytes(errors=errors).feed([0, 6]) == "caf" + out
    for byte_fallback in ("utf8", "hf"):
        t = spm(errors=errors, byte_fallback=byte_fallback)
        assert t.feed([0, 6]) + t.flush() == "Hello" + out


@pytest.mark.parametrize("make", [of_bytes, spm])
def test_strict_refuses_a_token_and_goes_on(make):
    t = make(errors="strict")
    assert t.push(0) in ("caf", "Hello")
    with pytest.raises(UnicodeDecodeError):
        t.push(6)
    with pytest.raises(UnicodeDecodeError):
        t.feed([0, 6, 0])
    assert t.push(0) in ("caf", "Hello", " Hello")


@pytest.mark.parametrize("make", MAKERS)
def test_an_unknown_id_is_refused_before_any_state_changes(make):
    t = make()
    t.push(0)
    before = t.save()
    for ids in ([1, 2, 10_000], [-1], [3, "1"]):
        with pytest.raises(VocabularyError):
            t.feed(ids)
        assert t.save() == before
    t = make(unknown="skip")
    assert (
        t.feed([0, 10_000, -5, 1]) + t.flush()
        == make().feed([0, 1]) + (lambda u: (u.feed([0, 1]), u.flush()))(make())[1]
    )


def test_a_batch_from_any_iterable():
    assert of_bytes().feed(i for i in (0, 1, 2)) == "café"
    assert spm().feed(range(2)) == "Hello world"


def test_flush_ends_the_text_and_reset_begins_one():
    t = of_bytes()
    t.push(4)
    assert (t.flush(), t.flush(), t.held) == ("\ufffd", "", b"")
    with pytest.raises(StreamEndedError, match="reset"):
        t.push(0)
    with pytest.raises(StreamEndedError):
        t.feed([0])
    t.reset([4])
    assert t.push(5) == "😀"


def test_a_draft_is_taken_back_also_behind_the_end():
    t = spm()
    t.push(0)
    mark = t.mark()
    assert t.feed([1, 3, 4]) == " world"
    assert t.rollback(mark) == 6
    assert t.push(9) == "é"
    assert t.rollback(mark) == 1
    assert t.flush() == ""
    assert t.rollback(mark) == 0
    assert t.push(1) == " world"
    late = t.mark()
    t.rollback(mark)
    with pytest.raises(ValueError, match="ahead"):
        t.rollback(late)


def test_a_fork_goes_its_own_way():
    t = of_bytes()
    t.push(4)
    for other in (t.copy(), copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        assert other.push(0) == "\ufffdcaf"
    assert t.push(5) == "😀"


def test_a_clean_up_behind_held_byte_runs_is_right_and_says_that_it_may_be_late():
    pieces = ["a", "▁", "<0xE4>", ".", "<s>"]
    vocabulary = Vocabulary.from_pieces(pieces, LLAMA, special_ids=[4], clean_up=True)
    t = Detokenizer(vocabulary, byte_fallback="hf", **APART)
    assert not t.exact
    assert "clean-up" in t.late_because
    ids = [4, 3, 0, 1, 3, 2, 4]
    assert t.feed(ids) + t.flush() == decode_apart(
        LLAMA, [pieces[i] for i in ids], {"<s>"}, "hf", True
    )
    plain = Detokenizer(
        Vocabulary.from_pieces(pieces, {"type": "Fuse"}, special_ids=[4], clean_up=True), **APART
    )
    assert plain.exact


@pytest.mark.parametrize(
    "bad", [{"unknown": "ignore"}, {"errors": "nonsense"}, {"byte_fallback": "llama"}]
)
def test_unknown_settings_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad.values()))):
        of_bytes(**bad)


@given(st.data(), st.integers(0, 5), st.booleans())
def test_any_cutting_of_the_ids_gives_the_same_text_and_the_reference_agrees(data, kind, skip):
    ids = data.draw(st.lists(st.integers(0, SIZES[kind] - 1), max_size=12))
    whole = MAKERS[kind](skip_special_tokens=skip)
    text = whole.feed(ids) + whole.flush()
    t, out, at = MAKERS[kind](skip_special_tokens=skip), "", 0
    while at < len(ids):
        n = data.draw(st.integers(0, len(ids) - at))
        out += t.feed(ids[at : at + n]) if n != 1 else t.push(ids[at])
        at += max(n, 1) if n else 0
        if not n:
            out += t.push(ids[at])
            at += 1
    assert out + t.flush() == text
    if kind != 1:
        pieces, rules = (SPM, LLAMA) if kind not in (2, 5) else (WORDS, WORD_PIECE)
        spelled = [pieces[i] for i in ids if not (skip and i == len(pieces) - 1)]
        settings = ("hf" if kind == 3 else "utf8", kind in (2, 5))
        assert text == (
            decode_apart(rules, spelled, {pieces[-1]}, *settings)
            if kind > 3
            else decode(rules, spelled, *settings)
        )


class Life(RuleBasedStateMachine):
    """Everything one can do to a Detokenizer, beside a plain one that is only ever pushed to."""

    def __init__(self):
        super().__init__()
        self.kind = 0
        self.make = MAKERS[0]
        self.t = self.make()
        self.ids: list[int] = []
        self.shown = ""
        self.marks: list[tuple[object, int, str]] = []

    @rule(kind=st.integers(0, 5))
    def begin(self, kind):
        self.kind, self.make = kind, MAKERS[kind]
        self.t, self.ids, self.shown, self.marks = self.make(), [], "", []

    @rule(token=st.integers(0, 8))
    def push(self, token):
        token %= SIZES[self.kind]
        self.shown += self.t.push(token)
        self.ids.append(token)

    @rule(tokens=st.lists(st.integers(0, 8), max_size=4))
    def feed(self, tokens):
        tokens = [token % SIZES[self.kind] for token in tokens]
        self.shown += self.t.feed(tokens)
        self.ids += tokens

    @rule()
    def mark(self):
        self.marks.append((self.t.mark(), len(self.ids), self.shown))

    @rule(n=st.integers(0, 5))
    def rollback(self, n):
        if n < len(self.marks):
            mark, count, shown = self.marks[n]
            del self.marks[n + 1 :]
            assert self.t.rollback(mark) == len(self.shown) - len(shown)
            self.ids, self.shown = self.ids[:count], shown

    @rule()
    def through_json(self):
        state = json.loads(json.dumps(self.t.save()))
        self.t = self.make()
        self.t.load(state)

    @rule()
    def fork(self):
        self.t, old = self.t.copy(), self.t
        old.flush()

    @rule()
    def end_here(self):
        other = self.t.copy()
        plain = self.make()
        assert (
            self.shown + other.flush() == "".join(plain.push(i) for i in self.ids) + plain.flush()
        )
        assert other.held == b""

    @invariant()
    def shows_what_a_plain_one_shows(self):
        plain = self.make()
        assert self.shown == "".join(plain.push(i) for i in self.ids)
        assert self.t.held == plain.held
        assert len(self.t.held) <= 3 or self.kind in (2, 3, 5)


TestLife = pytest.mark.slow(Life.TestCase)
# Each step begins a plain stream anew.
TestLife.settings = settings(max_examples=max(10, settings.default.max_examples // 3))


@pytest.mark.unrecorded  # a recorder works too
@pytest.mark.parametrize("byte_fallback", ["utf8", "hf"])
def test_a_run_of_byte_tokens_costs_the_same_at_its_end_as_at_its_beginning(byte_fallback):
    t = spm(byte_fallback=byte_fallback)
    early = lines_run(lambda: t.feed([7] * 100))
    t.feed([7] * 10_000)
    assert lines_run(lambda: t.feed([7] * 100)) <= early


def test_making_one_does_not_walk_through_the_vocabulary():
    asked = []

    def stored(token_id):
        asked.append(token_id)
        return b"x"

    t = Detokenizer(Vocabulary(150_000, stored, {"type": "Bytes"}))
    assert asked == []
    t.push(149_999)
    assert asked == [149_999]


@pytest.mark.native  # the wheel for browsers shortens private names
def test_a_step_that_was_taken_once_is_in_the_table():
    t = Detokenizer(Vocabulary.from_bytes([b"a", b"\xc3"]))
    for i in (0, 0, 1):
        t.push(i)
    assert t._tables.default_row.texts == {0: "a", 1: None}  # None: it leads to another state


def test_a_table_that_is_full_begins_anew(monkeypatch):
    monkeypatch.setattr("detok_py.decode.table.MAX_STEPS", 3)
    table = Table()
    for key in range(10):
        table.note(table.row(key), "a", ("", None))
        assert sum(1 + len(row.steps) for row in table.rows.values()) <= 3


def test_tables_stay_bounded_on_silent_and_unknown_ids():
    v = ByteVocabulary()
    t = Detokenizer(v)
    t.feed(range(1000, 60_000))
    t = Detokenizer(Vocabulary.from_bytes([b"a"]), unknown="skip")
    t.feed(range(1000, 60_000))
    for vocabulary, most in ((v, 256), (t.vocabulary, 1)):
        for tables in vocabulary._memo.values():
            assert max(len(tables.items), len(tables.bytes_of)) <= most


@pytest.mark.parametrize("known", [False, True])
def test_what_is_no_integer_is_refused_whether_or_not_it_equals_an_id_that_came_before(known):
    for refused in (0.5, 0.0, "0", b"0", None, [0]):
        t = of_bytes()
        if known:
            t.push(0)
        with pytest.raises(VocabularyError):
            t.push(refused)
        assert t.push(0) == "caf"


def test_a_flush_that_fails_changes_no_stream():
    v = Vocabulary.from_bytes([b"\xe4", b"a"])
    for _ in range(3):
        t = Detokenizer(v, errors="strict")
        t.push(0)
        for _ in range(2):
            with pytest.raises(UnicodeDecodeError):
                t.flush()
        assert t.held_bytes == b"\xe4"
        with pytest.raises(UnicodeDecodeError):
            t.push(1)


@pytest.mark.native  # the wheel for browsers shortens private names
def test_all_steps_that_live_are_counted(monkeypatch):
    most = 100
    monkeypatch.setattr("detok_py.decode.table.MAX_STEPS", most)
    leads = [bytes([byte]) for byte in range(0xC2, 0xF5)]
    t = Detokenizer(Vocabulary.from_bytes([*leads, *[b"%d" % n for n in range(50)]]))
    for word in range(len(leads), len(leads) + 50):
        for lead in range(len(leads)):
            t.feed([lead, word])
    seen = {}
    todo = [t._tables.default_row, *t._tables.rows.values()]
    while todo:
        row = todo.pop()
        if id(row) not in seen:
            seen[id(row)] = row
            todo += [row for _, row in row.steps.values()]
    texts = len(t._tables.default_row.texts) - len(t._tables.default_row.steps)
    assert sum(len(row.texts) for row in seen.values()) - texts <= most


def test_a_row_that_another_thread_adds_while_a_table_forgets_is_no_error(monkeypatch):
    monkeypatch.setattr("detok_py.decode.table.MAX_STEPS", 2)
    table = Table()

    class Steps(dict):
        def clear(self):
            table.rows["new"] = Row("new")
            dict.clear(self)

    table.row(0).steps = Steps()
    table.row(1)
    assert table.row(2) is table.row(2)


@pytest.mark.parametrize("errors", ["replace", "strict"])
def test_a_reset_to_refused_ids_changes_nothing(errors):
    t = Detokenizer(Vocabulary.from_bytes(BYTES), [0], errors=errors, spans=True)
    t.feed([3, 4])
    before = t.save()
    for ids, error in (([0, 99], VocabularyError), ([4, 0], UnicodeDecodeError), (7, TypeError)):
        if (errors, error) != ("replace", UnicodeDecodeError):
            with pytest.raises(error):
                t.reset(ids)
            assert (t.save(), t.held_bytes, t.prompt_tail()) == (before, BYTES[4], "caf")
    assert (t.push(5), t.spans) == ("😀", [(0, 6), (6, 7), (6, 7)])
