"""The library's worker: it may die at any moment, it serves many streams at once, and it lets go of
every one of them.
"""

import pytest
from library_rig import URL, scripted
from waiting import eventually_sync

pytestmark = pytest.mark.one_browser

TEXT = "naïve 你好 👩‍🚀 é שלום 🇩🇪 "

# How far a stream or an answer has come when its worker dies. Each says what then becomes of all
# that waits.
PHASES = {
    "starting": "const booting = lib.warmUp({ ...options, timeout: 500 }); end(); return [await outcome(booting)];",
    "booting": """
      let booting;
      await new Promise((note) => { booting = lib.warmUp({ ...options, onProgress: note }); booting.catch(() => {}); });
      const stream = new lib.DetokStream({ ...options, stop: ["ab"] });
      end();
      return [await outcome(booting), await outcome(stream.readable.getReader().read()), (await stream.finished).reason];""",
    "taking a vocabulary": """
      await lib.warmUp(options);
      const worker = workers.at(-1), post = worker.postMessage;
      worker.postMessage = (message) => {
        post.call(worker, message);
        if (message.args?.[0] === "keep_vocabulary") queueMicrotask(end);
      };
      return [await outcome(lib.loadVocabulary(given, { ...options, cache: false }))];""",
    "connecting": """
      await lib.warmUp(options);
      const answer = lib.connect("/stream", { ...options, ...request });
      const reading = outcome(partsOf(answer.text));
      await sleep(1);
      end();
      return [await reading, (await answer.finished).reason];""",
    "connected": """
      const answer = lib.connect("/stream", { ...options, ...request });
      let finishes = 0;
      answer.addEventListener("finish", () => finishes++);
      const reader = answer.text.getReader();
      await reader.read();
      end();
      const failed = await outcome((async () => { for (;;) if ((await reader.read()).done) return; })());
      return [failed, (await answer.finished).reason, finishes === 1 ? "error" : finishes];""",
}


@pytest.fixture(scope="module")
def page(open_library):
    """A page whose workers are killed: no other test's."""
    return open_library()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("how", ["killed", "shut down"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_that_dies_rejects_all_that_waits_and_the_next_stream_has_a_new_one(
    page, phase, how
):
    seen = page.evaluate(
        "async ([how, given, request]) => { const options = { runtime: 'micropython' };"
        "const end = () => (how === 'killed' ? killWorker() : lib.shutDown());"
        "const run = async () => {" + PHASES[phase] + "};"
        """
          lib.shutDown();
          const ends = await run();
          const before = workers.length;
          const next = await outcome(partsOf(sourceOf(bytesOf("é")).pipeThrough(new lib.DetokStream({ ...options, stop: [String(Math.random())] }))));
          return [ends, next, workers.length - before, await openStreams()];
        }""",
        [how, URL, {"prompt": "", **scripted("x" * 4000, cut="token", pace=200)}],
    )
    ends, following, new_workers, still_open = seen
    assert ends
    for end in ends:
        assert end == "error" or end.startswith("DetokError: "), ends
    assert (following, new_workers, still_open) == (["é"], 1, 0)


# A decoder's text in the making, with a worker that is ended at its n-th question.
KILLED = """async ([url, at]) => {
  lib.shutDown();
  const vocabulary = await lib.loadVocabulary(url, { runtime: "micropython" });
  let questions = 0, killed = 0;
  const watch = () => {
    const worker = workers.at(-1), post = worker.postMessage;
    worker.postMessage = (message) => {
      post.call(worker, message);
      if (!["begin_steps", "walk", "fan"].includes(message.args?.[0]) || ++questions !== at) return;
      killed++;
      worker.terminate();
    };
  };
  watch();
  const decoder = await lib.createDecoder({ runtime: "micropython", vocabulary, stop: ["ST" + Math.random()] });
  let text = "";
  for (const id of [...new TextEncoder().encode("naïve 你好 STO, 👩‍🚀 ST")]) text += decoder.push(id) + (await decoder.ready());
  text += decoder.flush() + (await decoder.ready());
  return [text, decoder.finishReason, killed];
}"""


# The text takes eight questions.
@pytest.mark.parametrize(
    "at", [1, 2, 5, *(pytest.param(at, marks=pytest.mark.full) for at in (3, 4, 6, 7, 8))]
)
def test_a_worker_that_dies_at_a_question_is_asked_again_in_another(page, at):
    """The table of steps is the page's: nothing that was there is lost, and nothing comes twice."""
    assert page.evaluate(KILLED, [URL, at]) == ["naïve 你好 STO, 👩‍🚀 ST", "end", 1]


def test_a_file_that_is_still_read_at_a_shutdown_is_not_read_by_the_next_worker(page):
    seen = page.evaluate(
        """async () => {
          const { readCapture } = await import("/src/capture.js");
          lib.shutDown();
          let give;
          const arrayBuffer = () => new Promise((resolve) => (give = resolve));
          const file = Object.assign(new File([], "held.sse"), { arrayBuffer });
          const options = { runtime: "micropython" };
          const read = outcome(readCapture(file, options));
          lib.shutDown();
          await lib.warmUp(options);
          const before = workers.length;
          give(new TextEncoder().encode('data: {"choices":[{"delta":{"content":"x"}}]}').buffer);
          return [await read, workers.length - before];
        }"""
    )
    assert seen == ["DetokError: The decoding worker was shut down.", 0]


def test_workers_that_die_at_the_same_question_are_an_error(page):
    seen = page.evaluate(
        """async () => {
          lib.shutDown();
          const before = workers.length, post = Worker.prototype.postMessage;
          Worker.prototype.postMessage = function (message) {
            post.call(this, message);
            if (message.args?.[0] === "begin_steps") this.terminate();
          };
          const stream = new lib.DetokStream({ runtime: "micropython", stop: ["never seen"] });
          const { reason, error } = await stream.finished;
          Worker.prototype.postMessage = post;
          lib.shutDown();
          return [reason, error.name, workers.length - before];
        }"""
    )
    assert seen == ["error", "DetokError", 4]


def test_one_bad_stream_ends_alone(page):
    """An exception of Python's concerns the stream that it came from."""
    seen = page.evaluate(
        """async () => {
          const options = { runtime: "micropython" };
          const other = new lib.DetokStream(options);
          await lib.warmUp(options);
          const before = workers.length;
          const strict = new lib.DetokStream({ ...options, fatal: true, stop: ["x"] });
          const failed = await outcome(partsOf(sourceOf([new Uint8Array([255])]).pipeThrough(strict)));
          return [failed.split(":")[0], await partsOf(sourceOf(bytesOf("é")).pipeThrough(other)), workers.length - before];
        }"""
    )
    assert seen == ["DetokError", ["é"], 0]


@pytest.mark.full
@pytest.mark.window
def test_a_python_that_is_broken_ends_its_streams_and_is_replaced(open_library):
    """A trap of WebAssembly's (here: its memory is overwritten) leaves a worker that lives and can
    do nothing any more.
    """
    page = open_library()
    seen = page.evaluate(
        """async () => {
          const options = { runtime: "micropython" };
          window.otherWorker = "/pages/measured-worker.js";
          const waiting = lib.connect("/stream", { ...options, prompt: "", params: { engine: "scripted", text: "x".repeat(4000), pace: 200 } });
          await lib.warmUp(options);
          await sleep(100);
          workers.at(-1).postMessage({ ruin: true });
          const stream = () => new lib.DetokStream({ ...options, stop: ["x"] });
          const failed = await outcome(partsOf(sourceOf(bytesOf("a")).pipeThrough(stream())));
          return [failed, (await waiting.finished).reason, await partsOf(sourceOf(bytesOf("é")).pipeThrough(stream())), workers.length];
        }"""
    )
    # The question is asked again, of the worker that replaces it, if this one is known to be gone.
    assert seen[0] == ["a"] or seen[0].startswith("DetokError: ")
    assert seen[1:] == ["error", ["é"], 2]


def test_a_runtime_that_is_not_there_is_said_and_can_be_had_later(page):
    failed = page.evaluate(
        """async () => {
          const { message, isRetryable } = await lib.warmUp({ runtime: "micropython", runtimeUrl: "/nothing/here" }).catch((error) => error);
          const stream = new lib.DetokStream({ runtime: "micropython", runtimeUrl: "/nothing/here", stop: ["x"] });
          return [message, isRetryable, await outcome(stream.readable.getReader().read()), (await stream.finished).reason];
        }"""
    )
    assert failed[0].startswith("Python could not be loaded: ")
    assert failed[1] is True
    assert failed[2].startswith("DetokError: Python could not be loaded")
    assert failed[3] == "error"


# ---------------------------------------------------------------- many streams


@pytest.mark.full
def test_fifty_streams_at_once_each_give_their_own_text(open_library, served):
    page = open_library()
    seen = page.evaluate(
        """async ([text, url]) => {
          const options = { runtime: "micropython" };
          const vocabulary = await lib.loadVocabulary(url, options);
          const own = (n) => `${n}: ${text.repeat(2 + n % 5)}${n}`;
          const kinds = [
            (n) => partsOf(sourceOf(bytesOf(own(n), 1 + n % 7)).pipeThrough(new lib.DetokStream({ ...options, reasoning: true }))),
            (n) => partsOf(sourceOf(bytesOf(own(n), 3).map((bytes) => [...bytes])).pipeThrough(new lib.DetokStream({ ...options, vocabulary }))),
            (n) => partsOf(sourceOf(bytesOf(`${own(n)}STOP${n}`)).pipeThrough(new lib.DetokStream({ ...options, stop: ["STOP"] }))),
            (n) => partsOf(lib.connect("/stream", { ...options, prompt: "", params: { engine: "scripted", text: own(n), pace: 0 } }).text),
            (n) => partsOf(lib.connect("/stream", { ...options, prompt: "", want: "bytes",
              params: { engine: "scripted", text: own(n), cut: "random", seed: n, pace: 300 } }).text),
          ];
          const all = await Promise.all(Array.from({ length: 50 }, async (_, n) => (await kinds[n % 5](n)).join("") === own(n)));
          return [all.filter((right) => !right).length, all.length, workers.length, await openStreams()];
        }""",
        [TEXT, URL],
    )
    assert seen == [0, 50, 1, 0]
    assert page.complaints == []


# ---------------------------------------------------------------- letting go

TOKENS = """async ([count, url]) => {
  window.otherWorker = "/pages/measured-worker.js";
  const options = { runtime: "micropython" };
  const vocabulary = await lib.loadVocabulary(url, options);
  const size = 200;
  const stream = new lib.DetokStream({ ...options, vocabulary, stop: ["never"], reasoning: true });
  const chunk = Array.from({ length: size }, (_, n) => [240, 159, 152, 128, 110, 101, 118, 258][n % 8]);
  let fed = 0, characters = 0;
  const memory = [];
  const source = new ReadableStream({
    pull(controller) {
      if (fed >= count) return controller.close();
      fed += size;
      controller.enqueue(chunk);
    },
  }, { highWaterMark: 0 });
  const reader = source.pipeThrough(stream).getReader();
  for (let part = await reader.read(), next = 0; !part.done; part = await reader.read()) {
    characters += part.value.length;
    if (fed >= next) {
      memory.push(await memoryOfPython());
      next += count / 20;
    }
  }
  // Of every eight tokens: an emoji (two units), "nev", "the ".
  return [memory, characters - (fed / 8) * 9, await openStreams()];
}"""


@pytest.mark.parametrize("count", [40_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_memory_is_flat_over_many_tokens(open_library, count):
    memory, missing, still_open = open_library().evaluate(TOKENS, [count, URL])
    assert (missing, still_open) == (0, 0)
    assert len(memory) >= 10
    # Python's memory never shrinks; after the first fifth of the tokens it doesn't grow either.
    assert memory[-1] == memory[len(memory) // 5], memory


@pytest.fixture
def collected(open_library, browser_name):
    """A page, its session of the DevTools protocol, and a function that collects its garbage, for
    good.
    """
    if browser_name != "chromium":
        pytest.skip(f"{browser_name} cannot be asked to collect its garbage")
    page = open_library()
    session = page.context.new_cdp_session(page)

    def collect():
        for _ in range(3):
            session.send("HeapProfiler.collectGarbage")
            page.wait_for_timeout(50)

    return page, session, collect


@pytest.mark.full
def test_what_nobody_holds_any_more_is_let_go_of(collected, served):
    page, _, collect = collected
    before = served.cancelled
    request = {"prompt": "", **scripted("x" * 100_000, cut="token", pace=100)}
    held = page.evaluate(
        """async (request) => {
          const { decoderWorker } = await import("/src/decoder.js");
          window.count = () => decoderWorker({ runtime: "micropython" }).ask("open_streams");
          const options = { runtime: "micropython" };
          const texts = [];
          for (let n = 0; n < 3; n++) {
            const reader = lib.connect("/stream", { ...options, ...request }).text.getReader();
            texts.push((await reader.read()).value.length > 0);
          }
          const iterator = lib.connect("/stream", { ...options, ...request })[Symbol.asyncIterator]();
          await iterator.next();
          return [texts.length, await count()];
        }""",
        request,
    )
    assert held == [3, 4]
    for _ in range(400):
        collect()
        if page.evaluate("() => count()") == 0:
            break
    assert page.evaluate("() => count()") == 0
    eventually_sync(lambda: served.cancelled - before == 4)


def test_what_somebody_waits_for_is_never_forgotten(collected):
    """A loop, a listener and an awaited end all wait for an answer that nothing else holds."""
    page, _, collect = collected
    page.evaluate(
        """() => {
          const request = { runtime: "micropython", prompt: "", params: { engine: "scripted", text: "ab", cut: "byte", pace: 0.7 } };
          window.got = { loop: "", text: "", listener: "", end: "" };
          (async () => { for await (const { text } of lib.connect("/stream", request)) got.loop += text; got.loop += "!"; })();
          (async () => { for await (const text of lib.connect("/stream", request).text) got.text += text; got.text += "!"; })();
          const answer = lib.connect("/stream", request);
          answer.addEventListener("delta", ({ detail }) => { got.listener += detail.text; });
          answer.addEventListener("finish", () => { got.listener += "!"; });
          (async () => { got.end = `${(await lib.connect("/stream", request).finished).tokens}!`; })();
        }"""
    )
    for _ in range(400):
        collect()
        got = page.evaluate("() => got")
        if all(text.endswith("!") for text in got.values()):
            break
    assert got == {"loop": "ab!", "text": "ab!", "listener": "ab!", "end": "2!"}
    assert page.evaluate("() => openStreams()") == 0


@pytest.mark.soak
def test_a_thousand_streams_leave_the_page_as_it_was(collected):
    page, session, collect = collected
    sizes = []
    for _ in range(6):
        page.evaluate(
            """async (text) => {
              for (let n = 0; n < 200; n++) {
                await partsOf(sourceOf(bytesOf(text, 9)).pipeThrough(new lib.DetokStream({ runtime: "micropython" })));
                const params = { engine: "scripted", text, pace: 0 };
                const answer = lib.connect("/stream", { runtime: "micropython", prompt: "", params });
                for await (const delta of answer) if (n % 3 === 0) break;
              }
            }""",
            TEXT,
        )
        collect()
        sizes.append(session.send("Runtime.getHeapUsage")["usedSize"])
    assert page.evaluate("() => openStreams()") == 0
    # Compiled code and caches settle; what 800 streams and answers leave behind after that is less
    # than 100 bytes each.
    assert sizes[-1] - sizes[1] < 80_000, sizes
