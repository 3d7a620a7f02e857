"""Whether the events of a stream are all there, once, and in order, and when they came."""

import json
from typing import Any

import pytest
from recordings import delta, finish, judged, sse, unended

from detok_py.captures.log import LoggedEvent
from detok_py.captures.order import order_of, times_of
from detok_py.captures.read import read


def opened(text: "str | None", name: str = "chatcmpl-1", **delta_: Any) -> Any:
    """An event of an answer; without a text, the one that begins it."""
    said = dict(delta_, content=text or "") if text else {"role": "assistant", "content": None}
    return {"id": name, "choices": [{"index": 0, "delta": said, "finish_reason": None}]}


def other(event: Any) -> Any:
    """The same event of the second choice."""
    event["choices"][0]["index"] = 1
    return event


ENDED = {"id": "chatcmpl-1", "choices": [{"delta": {}, "finish_reason": "stop"}]}
WORDS = ["နေ", "ပြည်", "တော်", "သည်"]


@pytest.mark.parametrize("first", [None, ""])
def test_an_answer_that_begins_again_is_said_with_its_whole_text(first):
    begin = opened(None)
    begin["choices"][0]["delta"]["content"] = first
    pieces = [opened(word) for word in WORDS]
    out = judged(sse(begin, *pieces[:1], begin, *pieces[:3], begin, *pieces, ENDED))
    ((who, rule, said, places, count, less),) = out["verdicts"]
    assert (who, rule, less, count) == ("unknown", "begun-again", "", 2)
    assert [place[0] for place in places] == [1, 4]
    assert "The last one goes to the end: “" + "".join(WORDS) + "”." in said
    assert out["verdict"].startswith("It is broken in 2 places; by whom is not known.")
    cut = judged(sse(begin, *pieces, begin, *pieces[:2]))["verdicts"][0]
    assert cut[1] == "begun-again" and "The longest one: “" + "".join(WORDS) + "”." in cut[2]


def test_an_answer_that_begins_again_and_goes_another_way_is_told():
    begin = opened(None)
    pieces = [opened(word) for word in WORDS]
    out = judged(sse(begin, *pieces[:3], opened(" so"), begin, *pieces, ENDED))
    assert [one[1] for one in out["verdicts"]] == ["begun-again"]
    out = judged(sse(begin, *pieces[:2], opened(" so"), begin, *pieces, ENDED))
    assert out["verdicts"] == []


def with_ids(*ids: int) -> str:
    return "".join(f"id: {n}\n{unended(delta(f'{n} '))}" for n in ids)


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ([*range(1, 6), *range(7, 14)], [("lost", [5])]),
        ([*range(1, 6), 7, 6, *range(8, 14)], [("order", [6])]),
        ([*range(1, 15)], []),
        ([1, 5, 9, *range(20, 40, 3)], []),  # no numbers of events
        ([*range(1, 5), 6, 7], []),  # too few to know
    ],
    ids=str,
)
def test_ids_of_events_tell_what_was_lost_or_changed_places(ids, found):
    out = judged(with_ids(*ids) + sse())
    assert [(one[1], [place[0] for place in one[3]]) for one in out["verdicts"]] == found


@pytest.mark.parametrize(
    "events",
    {
        "other text": [opened(None), opened("Yes, "), opened(None), opened("it is.")],
        "a syllable": [opened(None), opened("ha"), opened(None), opened("ha"), opened("!")],
        "another answer": [opened(None), opened("Hello"), ENDED, opened(None), opened("Hello")],
        "another id": [opened(None), opened("Hello"), opened(None, "2"), opened("Hello", "2")],
        "a role in each": [opened("Good ", role="assistant")] * 2 + [opened("Good bye")],
        "another choice": [opened(None), opened("haha"), other(opened(None)), opened("haha")],
        "twice at the start": [opened(None), opened(None), opened("Hello"), opened(" you")],
    }.items(),
    ids=lambda one: one[0],
)
def test_a_role_alone_is_no_answer_that_begins_again(events):
    assert judged(sse(*events[1], ENDED))["verdicts"] == []


def counted(total: int, text: str) -> Any:
    return {**delta(text), "usage": {"prompt_tokens": 9, "completion_tokens": total}}


STEADY = [counted(n, word) for n, word in enumerate([" one", " two", " six"] * 3, 1)]


def test_a_count_that_jumps_for_a_short_text_is_in_doubt():
    more = [counted(12, " ten"), counted(13, " and")]
    out = judged(sse(*STEADY, *more, finish("stop")))
    ((who, rule, said, places, _, less),) = out["verdicts"]
    assert (who, rule, less, places[0][0]) == ("unknown", "counted", "doubt", 9)
    assert said.endswith("The count goes from 9 to 12.")
    assert out["verdict"].startswith("In 1 place, it is not known who broke the text, or whether")


@pytest.mark.parametrize(
    "events",
    {
        "a character of three tokens": [*STEADY, counted(12, " 🥳")],
        "three tokens at once": [*STEADY, counted(12, " ten and one")],
        "several at once before": [*STEADY, counted(11, " ten and"), counted(14, " one")],
        "several tokens in most": [counted(4 * n, " one") for n in range(1, 12)],
        "another channel": [*STEADY, {"choices": [{"delta": {"reasoning": "a"}}], "usage": {"completion_tokens": 14}}],
    }.items(),
    ids=lambda one: one[0],
)  # fmt: skip
def test_a_count_that_may_jump_is_no_fault(events):
    assert judged(sse(*events[1], finish("stop")))["verdicts"] == []


def test_stamps_that_take_turns_are_read_in_time_that_grows_as_the_file():
    stamps = [f"2026-11-26T07:00:0{n}.123456Z" for n in (1, 2)]
    texts = [{"created_at": stamps[n % 2], "response": str(n)} for n in range(4000)]
    seen = []

    class Event(dict):
        def __eq__(self, other: object) -> bool:
            seen.append(other)
            return dict.__eq__(self, other)

        __hash__ = None

    events = [LoggedEvent(Event(one), 1, False, None, False, False) for one in texts]
    assert order_of(events, [], {})[0] == []
    assert order_of([*events, events[0]], [], {})[0] == [(4001, "again")]
    assert len(seen) < 4 * len(events)


PRINTED = (
    "ChatCompletionChunk(id='c', choices=[Choice(delta=ChoiceDelta(content='{}'))], created=1)"
)
TEXTS = ["Zd", "rav �", "�", "á"]


def test_a_value_has_the_time_of_the_line_of_the_log_before_it():
    log = "".join(
        f"10:31:0{n} - LiteLLM:DEBUG: utils.py:348 - Raw chunk\n{PRINTED.format(text)}\n\n"
        for n, text in enumerate(TEXTS)
    )
    found = read(log.encode())
    source = found.header["source"]
    assert (source["times"], source["steps"], found.seconds) == ("lines", 1.0, 3.0)
    assert [chunk.seconds for chunk in found.chunks] == [0.0, 1.0, 2.0, 3.0]
    (problem,) = found.problems
    assert problem.reason.startswith("4 lines are not events, such as this one: 10:31")
    # A gateway may have broken what a client printed.
    assert [one[:2] for one in judged(log)["verdicts"]] == [["unknown", "seam-of-messages"]]
    alone = "10:31:00 - one line\n" + "".join(PRINTED.format(text) + "\n" for text in TEXTS)
    assert read(alone.encode()).seconds is None


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("space", ["", " "])
def test_the_second_in_which_an_event_was_made_is_a_coarse_time(together, space):
    def steps(*seconds: int) -> Any:
        made = [dict(delta(f"a{n}"), created=1795660000 + at) for n, at in enumerate(seconds)]
        data = sse(*made).replace('": ', '":' + space)
        return read(data.encode(), together=together).header["source"].get("steps")

    assert steps(*[n // 20 for n in range(60)]) == 1.0
    assert steps(*[0] * 60) is None
    assert steps(*[3] * 30, *[0] * 30) is None


def test_the_time_of_an_answer_begins_behind_its_session():
    kinds = ["session.created", "conversation.item.created", "response.created"]
    kinds += 2 * ["response.text.delta"] + ["response.done"]
    events = [
        LoggedEvent({"type": kind, "event_id": str(n)}, n, False, float(stamp), False, False)
        for n, (kind, stamp) in enumerate(zip(kinds, [0, 59, 60, 61, 62, 63], strict=True), 1)
    ]
    assert times_of(events)[0] == [0, 0, 0, 1, 2, 3]
    assert times_of(events[2:])[0] == [0, 1, 2, 3]
    assert times_of(events[:2])[0] == [0, 59]


def test_an_event_that_came_again_is_known_by_its_running_count():
    twice = [*STEADY[:4], STEADY[3], *STEADY[4:]]
    out = judged(sse(*twice, ENDED))
    assert [(one[1], [place[0] for place in one[3]]) for one in out["verdicts"]] == [("twice", [4])]
    # Pieces of one token have its count, too.
    pieces = [counted(n // 2, word) for n, word in enumerate([" one", " two", " six", " ten"] * 3)]
    assert judged(sse(*pieces, ENDED))["verdicts"] == []


def test_the_finer_of_two_clocks_gives_the_times():
    events = [
        LoggedEvent(
            {"created_at": f"2025-06-11T08:15:1{n}.004321Z"}, n, False, 10.0 + n, False, False
        )
        for n in range(3)
    ]
    assert times_of(events) == ([0.0, 1.0, 2.0], {"times": "created_at"})
    lines = [LoggedEvent({}, *event[1:]) for event in events]
    assert times_of(lines) == ([0.0, 1.0, 2.0], {"times": "lines", "steps": 1.0})


def test_own_numbers_that_count_on_tell_what_is_missing():
    def messages(numbers: list[int]) -> str:
        said = [["chat:token", {"id": "m", "seq": n, "token": f"wort{n} "}] for n in numbers]
        return "\n".join("42" + json.dumps(one) for one in said)

    numbers = list(range(18))
    assert judged(messages(numbers))["verdicts"] == []
    (verdict,) = judged(messages(numbers[:9] + numbers[11:]))["verdicts"]
    assert (verdict[1], verdict[3][0][0]) == ("lost", 9)
    (verdict,) = judged(messages([1, 2, 3, 6, 7, 8, 9, 10]))["verdicts"]
    assert (verdict[1], verdict[3][0][0]) == ("lost", 3)
    # They may also count what is not in the answer.
    assert judged(messages(numbers[::2]))["verdicts"] == []
    streamed = [{"seq": n, "choices": [{"delta": {"content": f"wort{n} "}}]} for n in range(99)]
    (verdict,) = judged(sse(*streamed[:50], *streamed[52:]))["verdicts"]
    assert (verdict[1], verdict[3][0][0]) == ("lost", 50)
