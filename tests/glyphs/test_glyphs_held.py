"""Text that had arrived and was not shown: how late, and how many characters."""

import pytest

from detok_py.glyphs.evidence import Options, Seen
from detok_py.glyphs.held import held, taken_back, untimed, was_shown
from detok_py.glyphs.messages import BINARY, CONTINUATION, TEXT, Frames, Messages, frame_bytes
from detok_py.glyphs.recut import ProxyError
from detok_py.glyphs.traffic import Traffic
from detok_py.glyphs.verdict import verdict

WORDS = ["Grüße ", "aus ", "東京, ", "und 👋 ", "dann ende"]
ARRIVED = [(100.0 * n, word) for n, word in enumerate(WORDS)]
WHOLE = "".join(WORDS)


def shown(delay):
    """A page that shows each word so many milliseconds after it came."""
    return [(100.0 * n + delay, "".join(WORDS[: n + 1])[-32:]) for n in range(len(WORDS))]


def test_a_page_that_shows_what_comes_holds_nothing():
    assert held(ARRIVED, shown(20), 100) == []


def test_a_page_that_waits_for_the_end_holds_all_but_the_end():
    (late,) = held(ARRIVED, [(400.0, WHOLE)], 150)
    assert (late.late_ms, late.late_characters, late.text) == (400.0, 10, "Grüßeaus東京")


def test_an_animation_that_is_slower_than_the_stream_is_late_at_its_end():
    *_, late = held(ARRIVED, [(300.0 * n + 5, WHOLE[: 7 * n + 1]) for n in range(6)], 500)
    assert 500 < late.late_ms < 1000
    assert late.text.endswith("ende")


def test_nodes_of_one_token_each_are_followed_in_their_order():
    assert held(ARRIVED, [(when + 5, word) for when, word in ARRIVED], 50) == []


def test_a_text_that_is_shown_elsewhere_or_before_it_came_does_not_count():
    noise = [(50.0, WHOLE), (60.0, "12:30"), (70.0, "something else that has nothing in common")]
    assert [late.late_ms for late in held(ARRIVED, [*noise, (400.0, WHOLE)], 390)] == [400.0]


def test_half_a_pair_waits_for_its_other_half():
    arrived = [(0.0, "a\ud83d"), (900.0, "\udc4bb")]
    assert held(arrived, [(905.0, "a👋b")], 500)[0].text == "a"


@pytest.mark.parametrize(
    "text",
    [
        "The word is cafe\u0301 today, and it is spelled in two.",
        "यह वाक्य है जिसमें न\u093c भी आता है और फिर।",
        "한국어 문장은 낱말마다 띄어 씁니다.",
    ],
)
def test_a_mark_that_comes_after_its_letter_changes_nothing(text):
    arrived = [(60.0 * n, c) for n, c in enumerate(text)]
    shown = [(when + 5, text[: n + 1][-32:]) for n, (when, _) in enumerate(arrived)]
    assert taken_back(text, shown, text) == held(arrived, shown, 50) == []
    assert untimed(arrived, shown) == ""
    half = shown[:12]
    assert was_shown(text, text[4:10], text[:4].replace(" ", ""), half)


def test_marks_do_not_make_letters_a_place_in_the_answer():
    text = "Xin chào các bạn. Việc này được làm xong, và kết quả được lưu lại."
    assert taken_back(text, [(0.0, "được tải xuống 45%"), (5.0, text[:20])], text) == []
    (late,) = held([(0.0, text)], [(10.0, "này được"), (5000.0, text[-32:])], 1000)
    assert late.late_characters > 40  # a status shows no part of the answer


def test_a_wrong_accent_is_taken_back_with_its_letter():
    text = "The word is caf\u00e9"
    assert taken_back(text, [(0.0, "The word is caf\u00e8"), (5.0, text)], text) == ["\u00e8"]


def test_a_page_that_never_says_what_it_shows_is_not_judged():
    assert held(ARRIVED, [], 0) == []


def answer(parts):
    traffic = Traffic("none", 0, None, "fragments")
    found = traffic.begin("http://127.0.0.1/answer", "text/plain")
    found.sent.arrived = list(parts)
    found.sent._heard = found.sent._understood = True
    return found


@pytest.mark.parametrize(
    ("limit", "group", "rule"),
    [(None, "incomplete", "held-text"), (300.0, "violations", "held-too-long")],
)
def test_late_text_is_incomplete_and_fails_only_with_a_limit(limit, group, rule):
    parts = [(10 * when, word) for when, word in ARRIVED]
    seen = Seen([], "http://127.0.0.1/", text=WHOLE, tails=[(4000.0, WHOLE)])
    result = verdict(seen, Options(answers=[answer(parts)], max_late=limit))
    (one,) = result[group]
    assert (one["id"], one["late_ms"], one["late_characters"] > 5) == (rule, 4000.0, True)
    assert result["violations" if group == "incomplete" else "incomplete"] == []


def test_a_limit_that_is_kept_passes():
    seen = Seen([], "http://127.0.0.1/", text=WHOLE, tails=shown(5))
    result = verdict(seen, Options(answers=[answer(ARRIVED)], max_late=300.0))
    assert "held-too-long" in [one["id"] for one in result["passes"]]


@pytest.mark.parametrize(("count", "found"), [(40, []), (41, ["not-timed"])])
def test_an_end_of_more_than_forty_letters_without_a_time_is_told(count, found):
    end = "xy" * 20 + "z" * (count - 40)
    arrived = [*ARRIVED, (600.0, end)]
    seen = Seen([], "http://127.0.0.1/", text=WHOLE + end, tails=shown(5))
    result = verdict(seen, Options(answers=[answer(arrived)], max_late=300.0))
    assert [one["id"] for one in result["incomplete"] + result["violations"]] == found


# --- the frames of a WebSocket --------------------------------------------------------------------
@pytest.mark.parametrize("size", [0, 5, 125, 126, 65535, 65536])
@pytest.mark.parametrize("step", [1, 7, 70_000])
def test_frames_cut_anywhere_carry_the_same_bytes(size, step):
    traffic = Traffic("random:3", 0, None, "fragments")
    messages = Messages(traffic, traffic.begin("ws://127.0.0.1/", "websocket"))
    wire = frame_bytes(BINARY, True, b"\x01" * size) + frame_bytes(9, True, b"ping")
    chunks = [wire[i : i + step] for i in range(0, len(wire), step)]
    out = b"".join([piece for chunk in chunks for piece, _ in messages.receive(chunk)])
    back = Messages(Traffic("none", 0, None, "fragments"), traffic.begin("", "websocket"))
    frames = []
    back.feed = lambda opcode, fin, data: frames.append((opcode, fin, data)) or ()
    list(back.receive(out))
    assert frames.pop() == (9, True, b"ping")
    assert b"".join([data for _, _, data in frames]) == b"\x01" * size
    assert [opcode for opcode, _, _ in frames] == [BINARY] + [CONTINUATION] * (len(frames) - 1)
    assert [fin for _, fin, _ in frames] == [False] * (len(frames) - 1) + [True]


@pytest.mark.parametrize("size", [0, 3, 125, 126, 65535, 65536])
@pytest.mark.parametrize("step", [1, 7, 70_000])
def test_frames_of_a_page_cut_anywhere_have_the_same_content(size, step):
    from websockets.frames import Frame, Opcode

    content = bytes(i % 251 for i in range(size))
    wire = Frame(Opcode.BINARY, content).serialize(mask=True)
    wire += Frame(Opcode.PING, b"ping").serialize(mask=True)
    frames = Frames("page")
    found = [f for i in range(0, len(wire), step) for f in frames.feed(wire[i : i + step])]
    assert found == [(BINARY, True, content), (9, True, b"ping")]


@pytest.mark.parametrize(
    ("frames", "messages"),
    [
        (
            [(TEXT, False, b"gr\xc3"), (9, True, b""), (CONTINUATION, True, b"\xbcn")],
            [b"g", b"r", "ü".encode(), b"n"],
        ),
        ([(BINARY, False, b""), (CONTINUATION, True, b"a\xc3")], [b"a", b"\xc3"]),
    ],
)
def test_a_message_that_came_in_fragments_is_cut_when_it_is_whole(frames, messages):
    traffic = Traffic("every-byte", 0, None, "messages")
    cutter = Messages(traffic, traffic.begin("ws://127.0.0.1/", "websocket"))
    sent = [one for frame in frames for one in cutter.feed(*frame) if one[0] in (TEXT, BINARY)]
    assert all(fin for _, fin, _, _ in sent)
    assert [data for _, _, data, _ in sent] == messages


def test_json_that_came_in_fragments_is_read_whole():
    traffic = Traffic("every-byte", 0, None, "messages")
    answer = traffic.begin("ws://127.0.0.1/", "websocket")
    cutter = Messages(traffic, answer)
    said = '{"text": "grün"}'.encode()
    sent = [*cutter.feed(TEXT, False, said[:12]), *cutter.feed(CONTINUATION, True, said[12:])]
    assert b"".join([data for _, _, data, _ in sent]) == said
    assert {code for code, *_ in sent[1:]} == {CONTINUATION}  # one message still
    assert answer.sent.text == "grün"


def test_a_frame_with_a_mask_is_refused():
    traffic = Traffic("none", 0, None, "fragments")
    messages = Messages(traffic, traffic.begin("ws://127.0.0.1/", "websocket"))
    with pytest.raises(ProxyError, match="mask"):
        list(messages.receive(bytes([128 | TEXT, 128, 0, 0, 0, 0])))


# --- why text is missing --------------------------------------------------------------------------
LINES = [f"Line {n}: 猫は{n}匹いる 🐈" for n in range(1, 9)]
LIST = "\n".join(LINES)


def missing(text, tails=(), **more):
    """The hint for text that was sent, and of which the page shows `text`."""
    seen = Seen([], "http://127.0.0.1/", text=text, tails=tails, **more)
    (one,) = verdict(seen, Options(truth=LIST))["violations"]
    assert one["id"] == "dropped-text"
    return one["cause_hint"]


def test_text_that_was_taken_out_again_was_not_lost():
    tails = [(100.0 * n, line) for n, line in enumerate(LINES)]
    last = "\n".join(LINES[4:])
    assert missing(last, tails).startswith("It was in the document, and was taken out again.")
    some = missing(last, tails[:1] + tails[2:])
    assert some.startswith("At the end it does not stand in its place. Perhaps: bytes")
    assert was_shown(LIST, LINES[1], LINES[0].replace(": ", "").replace(" ", ""), tails)


def test_text_that_is_hidden_is_said_to_be():
    first, rest = "\n".join(LINES[:4]), "\n".join(LINES[4:])
    said = missing(first, hidden={"opacity: 0": f"Menu {rest}", "other": "Copy"})
    assert "no reader can see it there: opacity: 0." in said
    # One letter is anywhere.
    one = missing(LIST.replace("4匹", "匹"), hidden={"opacity: 0": "12:34"})
    assert one.startswith("At the end")
