"""`connect` with `details`: a row for each token, with its bytes, its text and what is held."""

import time

import pytest
from bridge_rig import VOCABULARY
from library_rig import scripted, wait_for_library
from waiting import eventually_sync

TEXT = "naïve 你好 👩‍🚀 é\ufeff\ufffd"

# One answer to its end, with all that its events told.
ASK = """async ([request, how]) => {
  const answer = lib.connect("/stream", { runtime: "micropython", prompt: "", details: true, ...request });
  const events = [], rows = [];
  for (const type of ["hello", "start", "token", "finish"]) {
    answer.addEventListener(type, ({ detail }) => {
      events.push([type, detail.at]);
      for (const row of detail.rows ?? []) rows.push({ ...row, bytes: [...row.bytes], heldBytes: [...row.heldBytes] });
    });
  }
  const told = {};
  for (const type of ["hello", "start"])
    answer.addEventListener(type, ({ detail }) => (told[type] = detail));
  if (how) await new Promise((heard) => answer.addEventListener("token", heard, { once: true }));
  if (how) answer[how]();
  const { error, ...finish } = await answer.finished;
  const open = await openStreams({ runtime: request.runtime ?? "micropython" });
  return { ...told, events, rows, finish, error: error?.message ?? null, open };
}"""


def ask(page, how=None, **request):
    return page.evaluate(ASK, [request, how])


def text_of(answer):
    return "".join([row["text"] for row in answer["rows"]]) + answer["finish"]["text"]


@pytest.mark.engine
@pytest.mark.parametrize("runtime", ["micropython", "pyodide"])
def test_each_token_is_a_row(library, runtime):
    answer = ask(library, runtime=runtime, want="both", **scripted(TEXT, cut="token"))
    rows = answer["rows"]
    assert b"".join([bytes(row["bytes"]) for row in rows]) == TEXT.encode()
    assert [row["bytes"] for row in rows] == [
        list(VOCABULARY.token_bytes(row["id"])) for row in rows
    ]
    assert text_of(answer) == TEXT
    assert (answer["finish"]["reason"], answer["finish"]["tokens"]) == ("eos", len(rows))
    assert max(len(row["heldBytes"]) for row in rows) > 0
    assert rows[-1]["heldBytes"] == []
    assert answer["hello"]["vocabulary"]["sha256"] == VOCABULARY.sha256
    assert answer["start"]["data"] == "both"
    kinds = [kind for kind, _ in answer["events"]]
    assert kinds[:2] == ["hello", "start"] and kinds[-1] == "finish"
    times = [at for _, at in answer["events"]]
    assert times == sorted(times)
    assert times[-1] <= time.time() * 1000 + 60_000
    assert answer["open"] == 0
    assert library.complaints == []


def test_tags_are_text_with_details_unless_they_are_asked_for(library):
    text = "<think>a</think>b<|im_end|>"
    assert text_of(ask(library, **scripted(text, cut="token"))) == text
    rows = ask(library, reasoning=True, **scripted(text, cut="token"))["rows"]
    assert "".join([row["text"] for row in rows]) == "ab<|im_end|>"


def test_each_raw_byte_can_be_a_row(library):
    answer = ask(library, want="bytes", singleBytes=True, **scripted("é!"))
    assert [(row["id"], row["bytes"], row["text"], row["heldBytes"]) for row in answer["rows"]] == [
        (None, [0xC3], "", [0xC3]),
        (None, [0xA9], "é", []),
        (None, [0x21], "!", []),
    ]


def test_what_a_stop_string_holds_is_in_the_row(library):
    answer = ask(library, stop=["STOP"], **scripted("a ST."))
    assert "ST" in [row["heldText"] for row in answer["rows"]]
    assert text_of(answer) == "a ST."
    stopped = ask(library, stop=["STOP"], **scripted("a STOP b"))
    assert (text_of(stopped), stopped["finish"]["reason"]) == ("a ", "stop")


def test_an_answer_that_ends_inside_a_character_says_what_became_of_it(library):
    answer = ask(library, **scripted("a é", faults={"end": 3}))
    assert answer["finish"]["text"] == "\ufffd"
    assert answer["rows"][-1]["heldBytes"] == [0xC3]


@pytest.mark.parametrize("how", ["stop", "cancel"])
def test_the_engine_can_be_stopped(library, served, how):
    before = served.cancelled
    answer = ask(library, how, **scripted("x" * 4000, pace=200))
    assert answer["finish"]["reason"] == "cancelled"
    assert answer["error"] is None
    assert text_of(answer) != "x" * 4000
    assert answer["finish"]["tokens"] == len(answer["rows"])
    eventually_sync(lambda: served.cancelled == before + 1)


def test_stopping_before_anything_was_asked_ends_at_once(library):
    seen = library.evaluate(
        """async () => {
          const answer = lib.connect("/stream", { runtime: "micropython", prompt: "" });
          answer.stop();
          return [(await answer.finished).reason, await openStreams()];
        }"""
    )
    assert seen == ["cancelled", 0]


def test_a_paused_answer_makes_the_engine_wait(library, served):
    library.evaluate(
        """async (request) => {
          window.paused = lib.connect("/stream", { runtime: "micropython", prompt: "", want: "ids", details: true, ...request });
          paused.pause();
          window.count = 0;
          paused.addEventListener("token", ({ detail }) => (count = detail.tokens));
          await new Promise((heard) => paused.addEventListener("token", heard, { once: true }));
        }""",
        scripted("the " * 4000, cut="token"),
    )
    count = -1
    # Runs of other tests may be ending still.
    while (now := library.evaluate("() => count")) != count or served.running > 1:
        count = now
        time.sleep(0.3)
    assert served.running == 1
    assert count <= 1024  # the credit that a socket begins with
    whole = library.evaluate(
        "async () => { paused.resume(); const { reason, tokens } = await paused.finished; return [reason, tokens]; }"
    )
    assert whole[0] == "eos" and whole[1] > count


def test_an_answer_has_the_id_that_it_is_given_and_comes_again_by_it(library):
    run = "0123456789abcdef-details-" + str(time.monotonic_ns())
    first = ask(library, id=run, **scripted(TEXT, cut="token"))
    assert first["start"]["id"] == run
    again = ask(library, prompt=None, resume=run)
    assert text_of(again) == text_of(first) == TEXT
    assert [row["id"] for row in again["rows"]] == [row["id"] for row in first["rows"]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("moment", ["before it was asked", "hello", "start", "token", "finish"])
def test_the_same_request_with_the_same_id_survives_a_reload_at_any_moment(open_library, moment):
    """The page keeps its request, id included, before it asks, and asks the same again."""
    page = open_library()
    given = {
        "id": "0123456789abcdef-again-" + str(time.monotonic_ns()),
        "prompt": "",
        "runtime": "micropython",
        **scripted(TEXT * 20, cut="token", pace=400),
    }
    page.evaluate(
        """async ([given, moment]) => {
          const answer = lib.connect("/stream", given);
          if (moment[0] === "b") return;
          await new Promise((heard) => answer.addEventListener(moment, heard, { once: true }));
        }""",
        [given, moment],
    )
    page.reload()
    wait_for_library(page)
    text = page.evaluate(
        "async (given) => { let all = ''; for await (const part of lib.connect('/stream', given).text) all += part; return all; }",
        given,
    )
    assert text == TEXT * 20


def test_a_page_is_told_when_its_worker_is_gone_before_its_streams_fail(open_library):
    page = open_library()
    seen = page.evaluate(
        """async (request) => {
          const order = [];
          const info = await lib.warmUp({ runtime: "micropython", onGone: ({ name }) => order.push(`gone: ${name}`) });
          const answer = lib.connect("/stream", { runtime: "micropython", prompt: "", details: true, ...request });
          await new Promise((heard) => answer.addEventListener("token", heard, { once: true }));
          answer.addEventListener("finish", () => order.push("finish"));
          killWorker();
          const { error } = await answer.finished;
          return [order, error.code ?? null, info.kept, info.bytes > 100_000, info.milliseconds > 0];
        }""",
        scripted("x" * 4000, pace=200),
    )
    assert seen == [["gone: DetokError", "finish"], None, False, True, True]
