"""`connect` in a page: an answer as deltas, events and streams, whatever becomes of the connection,
the reader or the vocabulary.

`/stream` is a real bridge. `/script` is a socket that says exactly what a test wants said, right or
wrong.
"""

import asyncio
import contextlib
import itertools
import threading
import time

import pytest
from bridge_rig import VOCABULARY
from library_rig import URL, LibraryServer, scripted, wait_for_library
from waiting import eventually_sync

import detok_py as d
from detok_py.bridge.engines.recite import texts
from detok_py.bridge.find import open_engine
from detok_py.protocol import wire

TEXT = "naïve 你好 👩‍🚀 é\ufeff\ufffd שלום 🇩🇪\n"
WITH_TAGS = "<think>hm 你</think>" + TEXT

# One answer to its end: its text by channel, its events, how it ended.
ASK = """async ([path, request]) => {
  const { vocabularyUrl } = request;
  delete request.vocabularyUrl;
  if (vocabularyUrl) request.vocabulary = await lib.loadVocabulary(vocabularyUrl, { runtime: "micropython" });
  const answer = lib.connect(path, { runtime: "micropython", prompt: "", ...request });
  const events = eventsOf(answer);
  const got = {};
  const failed = await outcome((async () => {
    for await (const { channel, text } of answer) got[channel] = (got[channel] ?? "") + text;
  })());
  const { reason, tokens, error } = await answer.finished;
  return { got, events, reason, tokens, failed, code: error?.code ?? null, open: await openStreams() };
}"""


def ask(page, path="/stream", **request):
    """Return one answer, which has finished once, and has left nothing open."""
    answer = page.evaluate(ASK, [path, request])
    kinds = [kind for kind, _ in answer["events"]]
    assert (kinds.count("finish"), kinds[-1], answer["open"]) == (1, "finish", 0)
    return answer


def details(answer, kind):
    return [detail for type_, detail in answer["events"] if type_ == kind]


# ---------------------------------------------------------------- what comes


@pytest.mark.sampled(4)
@pytest.mark.engine
@pytest.mark.parametrize(
    ("runtime", "want"),
    [
        ("micropython", "ids"),
        ("micropython", "both"),
        ("micropython", "bytes"),
        ("pyodide", "both"),
    ],
)
def test_an_answer_comes_by_channels_and_finishes_once(either_page, served, runtime, want):
    answer = ask(either_page, runtime=runtime, want=want, **scripted(WITH_TAGS, cut="token"))
    assert answer["got"] == {"reasoning": "hm 你", "content": TEXT}
    assert (answer["reason"], answer["failed"]) == ("eos", "done")
    kinds = [kind for kind, _ in answer["events"]]
    assert kinds[:2] == ["hello", "start"]
    assert "error" not in kinds
    assert details(answer, "start")[0]["data"] == want
    assert sum(token["count"] for token in details(answer, "token")) == answer["tokens"]
    deltas = [(delta["channel"], delta["text"]) for delta in details(answer, "delta")]
    assert "".join([text for channel, text in deltas if channel == "content"]) == TEXT
    assert either_page.complaints == []


def test_what_is_held_is_told_as_bytes_and_as_text(library):
    answer = ask(library, stop=["STOP"], **scripted("é STO.", pace=300))
    held = details(answer, "held")
    assert {"bytes": 1, "text": ""} in held
    assert {"bytes": 0, "text": "STO"} in held
    assert held[-1] == {"bytes": 0, "text": ""}
    assert answer["got"] == {"content": "é STO."}


def test_the_text_and_the_deltas_are_streams_too(either_page):
    seen = either_page.evaluate(
        """async (request) => {
          const ask = () => lib.connect("/stream", { runtime: "micropython", prompt: "", ...request });
          const text = (await partsOf(ask().text)).join("");
          const deltas = await partsOf(ask().deltas);
          const thoughts = deltas.map(({ channel, text }) => (channel === "reasoning" ? text : "")).join("");
          const answer = ask();
          const reading = partsOf(answer.deltas);
          const twice = await outcome(partsOf(answer.text));
          await reading;
          return [text, thoughts, twice, await openStreams()];
        }""",
        scripted(WITH_TAGS),
    )
    assert seen == [TEXT, "hm 你", "DetokError: This answer is read by someone else already.", 0]


def test_graphemes_come_whole(library):
    answer = ask(library, granularity="grapheme", **scripted("e\u0301👩‍🚀🇩🇪x"))
    shown = [delta["text"] for delta in details(answer, "delta")]
    assert "".join(shown) == "e\u0301👩‍🚀🇩🇪x"
    ends = itertools.accumulate(map(len, ["e\u0301", "👩‍🚀", "🇩🇪", "x"]))
    assert set(itertools.accumulate(map(len, shown))) <= set(ends)


def test_reasoning_tools_and_markers_can_be_left_as_they_are(library):
    text = "<think>a</think><tool_call>{}</tool_call>b<|im_end|>"
    assert ask(library, **scripted(text))["got"] == {
        "reasoning": "a",
        "tool_call": "{}",
        "content": "b",
    }
    plain = ask(library, reasoning=None, tools=None, trimArtifacts=False, **scripted(text))
    assert plain["got"] == {"content": text}


def test_a_vocabulary_that_the_page_has_is_the_one_that_is_used(library):
    answer = ask(library, vocabularyUrl=URL, want="ids", **scripted(TEXT, cut="token"))
    assert answer["got"] == {"content": TEXT}


def test_an_engine_that_crashes_leaves_its_text_and_says_so_once(library):
    answer = ask(library, **scripted("half é", faults={"crash": 6}))
    assert answer["got"] == {"content": "half \ufffd"}
    assert (answer["reason"], answer["code"]) == ("error", 4503)
    assert answer["failed"].startswith("DetokError: The scripted engine crashed")
    assert len(details(answer, "error")) == 1


def test_a_request_that_cannot_be_is_refused_without_a_socket(library, served):
    before = served.played
    for request in (
        {"prompt": None},
        {"prompt": "x", "messages": [{"role": "user", "content": "x"}]},
        {"prompt": "x", "want": "all"},
    ):
        answer = ask(library, "/script", **request)
        assert (answer["reason"], answer["got"]) == ("error", {})
        assert answer["failed"].startswith("DetokError: ")
    assert served.played == before
    assert ask(library, "ws://[", prompt="x")["reason"] == "error"


# ---------------------------------------------------------------- whoever gives up, and when

GIVE_UP = """async ([ways, places, request]) => {
  const one = async (how, at) => {
    const stop = new AbortController();
    const answer = lib.connect("/stream", { runtime: "micropython", prompt: "", signal: stop.signal, ...request });
    let finishes = 0;
    answer.addEventListener("finish", () => finishes++);
    let got = "", failed = null, n = 0;
    const giveUp = { signal: () => stop.abort(), cancel: () => answer.cancel() }[how];
    try {
      if (how === "text" || how === "deltas") {
        const reader = answer[how].getReader();
        for (; n < at; n++) got += (({ value }) => value.text ?? value)(await reader.read());
        await reader.cancel("enough");
      } else {
        if (at === 0) giveUp?.();
        if (at > 0 || giveUp) for await (const { text } of answer) {
          got += text;
          if (++n === at) { if (how === "break") break; giveUp(); }
        } else answer.cancel();
      }
    } catch (error) { failed = error.name; }
    const { reason } = await answer.finished;
    await sleep(5);
    return { how, at, got, failed, reason, finishes };
  };
  const all = [];
  for (const how of ways) all.push(...(await Promise.all(places.map((at) => one(how, at)))));
  return [all, await openStreams()];
}"""


@pytest.mark.full
def test_giving_up_at_any_delta_ends_once_and_stops_the_engine(either_page, served):
    ways, places = ["signal", "cancel", "break", "text", "deltas"], list(range(10))
    before = served.cancelled
    text = "é你👩‍🚀 " * 2000
    ends, still_open = either_page.evaluate(GIVE_UP, [ways, places, scripted(text, pace=150)])
    assert still_open == 0
    for end in ends:
        assert (end["reason"], end["finishes"]) == ("cancelled", 1), end
        assert text.startswith(end["got"]), end
        assert bool(end["got"]) == (end["at"] > 0), end
        assert end["failed"] == ("AbortError" if end["how"] == "signal" else None), end
    eventually_sync(lambda: served.running == 0)
    # Whoever gave up before anything was asked for has no engine to stop.
    assert served.cancelled - before >= len(ways) * (len(places) - 1)


def test_a_signal_that_was_aborted_before_finishes_after_one_can_listen(library):
    seen = library.evaluate(
        """async () => {
          const answer = lib.connect("/stream", { runtime: "micropython", prompt: "", signal: AbortSignal.abort() });
          const events = eventsOf(answer);
          const failed = await outcome((async () => { for await (const delta of answer); })());
          await answer.finished;
          return [events.map(([type, { reason }]) => [type, reason]), failed.split(":")[0]];
        }"""
    )
    assert seen == [[["finish", "cancelled"]], "AbortError"]


def test_a_stop_ends_the_answer_and_the_engine(either_page, served):
    eventually_sync(lambda: served.running == 0)  # an earlier test's answers
    before = served.cancelled
    text = "one ST OP STOP two " + "x" * 40_000
    answer = ask(either_page, stop=["STOP"], **scripted(text, pace=400))
    assert answer["got"] == {"content": "one ST OP "}
    assert (answer["reason"], answer["failed"]) == ("stop", "done")
    eventually_sync(lambda: served.running == 0)
    assert served.cancelled == before + 1
    shown = ask(either_page, stop=["STOP"], includeStop=True, **scripted("one STOP two", pace=400))
    assert shown["got"] == {"content": "one STOP"}


@pytest.mark.full
def test_a_slow_reader_makes_the_engine_wait_and_loses_nothing(library, served):
    text = "the " * 24_000
    library.evaluate(
        """async (request) => {
          window.answer = lib.connect("/stream", { runtime: "micropython", prompt: "", want: "ids", ...request });
          window.reader = answer.text.getReader();
          window.first = (await reader.read()).value;
        }""",
        scripted(text, cut="token"),
    )
    given = served.count("detok_generation_tokens_total")
    time.sleep(0.5)
    while (now := served.count("detok_generation_tokens_total")) != given:
        given = now
        time.sleep(0.5)
    # It waits, and not because it has finished.
    assert served.running == 1
    whole = library.evaluate(
        """async () => {
          let all = first;
          for (let p = await reader.read(); !p.done; p = await reader.read()) all += p.value;
          return [all, (await answer.finished).reason, await openStreams()];
        }"""
    )
    assert whole == [text, "eos", 0]


# ---------------------------------------------------------------- lost connections


@pytest.mark.full
def test_cuts_after_any_number_of_bytes_change_nothing(page, served, cutting_proxy):
    proxy = cutting_proxy(served.url)
    # A handshake is some 500 bytes: cut in it, in the hello, between frames, in frames, and again
    # and again.
    proxy.budgets = [
        *(200, 520, 800, 1000, 1005, 1011, 1100, 1300, 700, 900, 1200, 1003, 1001, 1400),
        *(1007, 1002),
    ]
    page.goto(f"{proxy.url}/pages/module.html")
    wait_for_library(page)
    resumes = served.count("detok_resumes_total")
    answers = page.evaluate(
        """async (request) => {
          const one = async (want) => {
            const answer = lib.connect("/stream", { runtime: "micropython", prompt: "", want, ...request });
            const events = eventsOf(answer);
            const parts = await partsOf(answer.text);
            return [parts.join(""), (await answer.finished).reason, events.map(([type]) => type)];
          };
          return [await Promise.all(["ids", "both", "bytes", "both"].map(one)), await openStreams()];
        }""",
        scripted(TEXT * 20, cut="token", pace=1500),
    )
    assert proxy.budgets == []
    assert proxy.cuts >= 16
    assert served.count("detok_resumes_total") > resumes
    for text, reason, kinds in answers[0]:
        assert text == TEXT * 20
        assert reason == "eos"
        assert kinds.count("finish") == 1
        assert kinds[-1] == "finish"
        assert "error" not in kinds
    assert sum(kinds.count("resume") for _, _, kinds in answers[0]) == 16
    assert answers[1] == 0


@pytest.fixture
def llama():
    """A bridge with a real engine."""
    with contextlib.closing(LibraryServer(open_engine("recite"))) as server:
        yield server


@pytest.mark.full
def test_a_real_engine_cut_after_every_frame_or_every_few_gives_its_text(page, llama):
    page.goto(f"{llama.url}/pages/module.html")
    wait_for_library(page)
    request = {"prompt": texts()[0]["prompt"], "params": {"max_tokens": 24, "temperature": 0}}
    whole = ask(page, **request)
    assert (whole["reason"], whole["tokens"]) == ("length", 24)
    assert len(whole["got"]["content"]) > 8
    for frames in (1, 2, 5):
        resumes = llama.count("detok_resumes_total")
        cut = ask(page, f"/cut/{frames}/stream", **request)
        assert cut["got"] == whole["got"], frames
        assert (cut["reason"], cut["tokens"], cut["failed"]) == ("length", 24, "done")
        assert details(cut, "error") == []
        # A busy bridge sends several tokens in a frame: there may not be five frames to cut after.
        assert llama.count("detok_resumes_total") > resumes or frames > 1
    eventually_sync(lambda: llama.running == 0)


@pytest.mark.full
def test_a_bridge_that_stays_away_is_given_up_with_one_error_and_one_end(library, served):
    async def play(peer):
        await peer.hello()
        asked = await peer.hear()
        if asked["type"] == "generate" and served.played == first + 1:
            await peer.say("started", id=asked["id"], data="bytes", position=0)
            await peer.data(b"\x00half \xc3")
        await peer.close(1012)

    first = served.played
    served.script = play
    answer = ask(library, "/script")
    assert answer["got"] == {"content": "half \ufffd"}
    assert (answer["reason"], answer["code"]) == ("error", 1012)
    kinds = [kind for kind, _ in answer["events"]]
    assert kinds.count("resume") == 5
    assert kinds.count("error") == 1
    assert served.played == first + 6


# An answer whose page is told at its first event of a kind that it is back.
BACK = """async ([kind, type]) => {
  const answer = lib.connect("/script", { runtime: "micropython", prompt: "" });
  const events = eventsOf(answer);
  // The browser tells the document that it is visible again, and the window that it is shown.
  const told = type === "visibilitychange" ? document : window;
  const tell = () => told.dispatchEvent(new Event(type, { bubbles: true }));
  answer.addEventListener(kind, tell, { once: true });
  const { reason } = await answer.finished;
  return { events: events.map(([type]) => type), reason };
}"""


@pytest.mark.full
@pytest.mark.parametrize("event", ["online", "pageshow", "visibilitychange"])
def test_a_page_that_is_back_tries_at_once_and_its_try_is_not_counted(library, served, event):
    async def play(peer):
        if served.played < first + 3:
            return await peer.close(1012)
        await peer.finish(await peer.begin("bytes"), b"", bytes=0)
        await peer.hear_until("closed")

    first = served.played
    served.script = play
    answer = library.evaluate(BACK, ["resume", event])
    assert served.played == first + 3
    assert (answer["reason"], answer["events"].count("resume")) == ("eos", 1)


@pytest.mark.full
def test_a_page_that_is_back_finds_a_dead_connection_by_a_ping(library, served):
    async def play(peer):
        asked = await peer.begin("bytes")
        if served.played == first + 1:
            assert (await peer.hear())["type"] == "ping"
            await peer.hear_until("closed")  # as one that is dead says nothing
        await peer.finish(asked, b"", bytes=0)
        await peer.hear_until("closed")

    first = served.played
    served.script = play
    answer = library.evaluate(BACK, ["start", "pageshow"])
    assert served.played == first + 2
    assert (answer["reason"], answer["events"].count("resume")) == ("eos", 1)


@pytest.mark.parametrize("code", [1000, 4401, 4404, 4410])
def test_a_bridge_that_refuses_is_not_asked_again(library, served, code):
    async def play(peer):
        await peer.hello()
        await peer.hear()
        await peer.close(code)

    served.script = play
    first = served.played
    answer = ask(library, "/script")
    assert (answer["reason"], answer["code"], answer["got"]) == ("error", code, {})
    assert served.played == first + 1
    assert details(answer, "resume") == []


def test_a_bridge_that_is_not_there_is_an_error_in_the_end(library):
    """Chromium and Firefox both say 1006 for whatever kept a socket from opening."""
    seen = library.evaluate(
        """async () => {
          const stop = new AbortController();
          const answer = lib.connect("/nothing/here", { runtime: "micropython", prompt: "", signal: stop.signal });
          const events = eventsOf(answer);
          await new Promise((resolve) => answer.addEventListener("resume", resolve));
          stop.abort();
          await answer.finished;
          return [events.map(([type]) => type), events[0][1].code, await openStreams()];
        }"""
    )
    assert seen == [["resume", "finish"], 1006, 0]


# ---------------------------------------------------------------- vocabularies that lie

OTHER = d.Vocabulary.from_bytes([bytes([255 - b]) for b in range(256)])
PACKED = VOCABULARY.pack()
LIES = {
    "another table": (200, OTHER.pack()),
    "cut short": (200, PACKED[: len(PACKED) // 2]),
    "a flipped byte": (200, PACKED[:200] + bytes([PACKED[200] ^ 1]) + PACKED[201:]),
    "nothing": (200, b""),
    "a page instead": (200, b"<!doctype html><title>Sign in</title>"),
    "not there": (404, b""),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("ends", ["before", "after"])
@pytest.mark.parametrize("lie", LIES)
def test_a_vocabulary_that_is_not_what_the_bridge_said_decodes_nothing(library, served, lie, ends):
    status, body = LIES[lie]
    served.given["lie.detok"] = (status, {}, body)
    gate = served.gates["lie.detok"] = threading.Event()
    sha256 = VOCABULARY.sha256[:-2] + "00"  # nobody's, so that no earlier test has brought it
    vocabulary = {"sha256": sha256, "size": 260, "url": "/given/lie.detok"}
    closed = []

    async def play(peer):
        asked = await peer.begin("ids", vocabulary=vocabulary)
        await peer.data(b"\x01hi")
        if ends == "before":
            await peer.finish(asked, b"hi", tokens=2)
        await asyncio.sleep(0.05)
        gate.set()
        closed.append((await peer.hear_until("closed"))["code"])

    served.script = play
    answer = ask(library, "/script")
    del served.gates["lie.detok"]
    assert (answer["got"], answer["reason"], answer["code"]) == ({}, "error", 4409)
    eventually_sync(lambda: closed == [4409])


def test_a_size_that_is_said_wrongly_changes_nothing_because_the_sum_decides(library, served):
    served.given["v.detok"] = (200, {}, PACKED)
    vocabulary = {"sha256": VOCABULARY.sha256, "size": 7, "url": "/given/v.detok"}

    async def play(peer):
        asked = await peer.begin("ids", vocabulary=vocabulary)
        await peer.data(b"\x01hi")
        await peer.finish(asked, b"hi", tokens=2)
        await peer.hear_until("closed")

    served.script = play
    assert ask(library, "/script")["got"] == {"content": "hi"}


def test_ids_beyond_the_vocabulary_keep_what_came_before_and_stop_the_engine(library, served):
    vocabulary = {"sha256": VOCABULARY.sha256, "size": 260, "url": URL}
    heard = []

    async def play(peer):
        await peer.begin("ids", vocabulary=vocabulary)
        await peer.data(b"\x01" + b"hi" + wire.data_frame(wire.IDS, b"\x84\x02")[1:] + b"lost")
        while (message := await peer.hear())["type"] != "closed":
            heard.append(message["type"])

    served.script = play
    answer = ask(library, "/script")
    assert (answer["got"], answer["reason"], answer["code"]) == ({"content": "hi"}, "error", 4409)
    eventually_sync(lambda: "cancel" in heard)


def test_a_bridge_with_another_vocabulary_than_the_pages_own_is_refused(library, served):
    async def play(peer):
        vocabulary = {"sha256": OTHER.sha256, "size": 256, "url": "/given/other.detok"}
        await peer.hello(vocabulary=vocabulary)
        await peer.hear_until("closed")

    served.script = play
    answer = ask(library, "/script", vocabularyUrl=URL)
    assert (answer["got"], answer["reason"], answer["code"]) == ({}, "error", 4409)


def test_giving_up_while_the_vocabulary_is_fetched_lets_go_and_disturbs_nobody(library, served):
    served.given["slow.detok"] = (200, {}, OTHER.pack())
    gate = served.gates["slow.detok"] = threading.Event()
    vocabulary = {"sha256": OTHER.sha256, "size": 256, "url": "/given/slow.detok"}
    closed = []

    async def play(peer):
        await peer.begin("ids", vocabulary=vocabulary)
        await peer.data(b"\x01hi")
        closed.append((await peer.hear_until("closed"))["code"])

    served.script = play
    library.evaluate("async () => { await lib.warmUp({ runtime: 'micropython' }); }")
    asked, workers = len(served.asked), library.evaluate("() => workers.length")
    library.evaluate(
        """() => {
          window.stop = new AbortController();
          window.waiting = lib.connect("/script", { runtime: "micropython", prompt: "", signal: stop.signal });
        }"""
    )
    eventually_sync(lambda: len(served.asked) > asked)
    ended = library.evaluate(
        "async () => { stop.abort(); return [(await waiting.finished).reason, await openStreams()]; }"
    )
    assert ended == ["cancelled", 0]
    eventually_sync(lambda: closed == [1000])
    gate.set()
    del served.gates["slow.detok"]
    assert ask(library, **scripted(TEXT))["got"] == {"content": TEXT}
    assert library.evaluate("() => workers.length") == workers
