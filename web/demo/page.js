/**
 * The page: starts Python, asks for an answer, and records its events.
 *
 * `<html data-state>` is its state: loading → ready → streaming → finished or error, from which
 * Start leads to streaming again. Each part of the page has a file of its own: form.js, engines.js,
 * runtime.js, source.js, notices.js, playback.js, captures.js, report.js.
 */

import { shutDown } from "../src/index.js";
import { ask, channelOptions } from "./ask.js";
import {
  allowCaptures,
  captureText,
  onCapture,
  onEntryChange,
  openCapture,
  saveCapture,
  showEntries,
  showEntry,
} from "./captures.js";
import { copyText } from "./clipboard.js";
import { button, element, writeParameter } from "./dom.js";
import { attached, holdEngine, loadEngines, onEngineChange } from "./engines.js";
import {
  firstRecited,
  loadPrompts,
  onSubmit,
  ownText,
  readForm,
  refusal,
  startsByItself,
  writeAddress,
} from "./form.js";
import { onCopyTest } from "./copy-test.js";
import { DEFAULT_STOP, DEFAULT_TEXT } from "./default-text.js";
import { holdFormat, onFormatChange } from "./formats.js";
import { explainWords, isHelpOpen } from "./help.js";
import { offerSamples, onPaste, takeFile } from "./imports.js";
import {
  alertHas,
  hideAlert,
  hideReading,
  keepWayOut,
  messageOf,
  sayStatus,
  showAlert,
  showReading,
} from "./notices.js";
import * as playback from "./playback.js";
import { Recording, toHex } from "./recording.js";
import { aboutStream, captureIn, isLinked, linkedCapture, reportText } from "./report.js";
import { loadRuntime, onRuntimeChange, runtimeOptions, showRuntime } from "./runtime.js";
import { isSite } from "./site.js";
import {
  fidelityOf,
  lastSource,
  ownTextEngine,
  showEngine,
  showFidelity,
  showSource,
  stillShown,
  unitOf,
} from "./source.js";
import { forgetUnfinished, keepUnfinished, recallUnfinished } from "./unfinished.js";

/** @typedef {"loading" | "ready" | "streaming" | "finished" | "error"} State */
/** @typedef {import("./form.js").Question} Question */
/** @typedef {import("../src/index.js").Answer} Answer */

/** How long `ready` is visible before the address starts a stream. */
const READY_MS = 1000;
/** How long a bridge has to answer Stop. */
const STOP_MS = 1500;
/**
 * How long a bridge keeps a run without its page. A bridge that has lost it earlier was restarted.
 */
const KEEP_MS = 55_000;

/** The pace of a first visit, in tokens a second. */
const INTRO_PACE = 15;

const startButton = button("start");
const stopButton = button("stop");

/** @type {State} */
let state = "loading";
/**
 * Identifies the worker of the latest boot; undefined when it has ended.
 * @type {symbol | undefined}
 */
let worker;
/** @type {Answer | undefined} */
let answer;
/** Whether the reader has stopped the answer, which ends when the bridge replies. */
let stopping = false;
/** @type {import("./captures.js").Described} */
let described = { header: {} };
/** @type {ReturnType<typeof setTimeout> | undefined} */
let startTimer;

/** @param {State} next */
function setState(next) {
  state = next;
  document.documentElement.dataset.state = next;
  const streaming = state === "streaming";
  startButton.disabled = !worker || streaming || state === "loading";
  stopButton.disabled = !streaming;
  showRuntime({ loading: state === "loading", streaming });
  holdEngine(streaming);
  holdFormat(streaming);
  playback.showPlayback(state !== "loading");
  keepWayOut(worker || streaming || state === "loading" ? undefined : TRY_AGAIN);
  allowCaptures({
    open: worker !== undefined && !streaming,
    save: worker !== undefined && playback.shownRecording() !== undefined,
  });
}

// ---------------------------------------------------------------- start of the page

async function boot() {
  clearTimeout(startTimer);
  hideAlert();
  const mine = (worker = Symbol("worker"));
  setState("loading");
  /** @param {unknown} error */
  const fail = (error) => {
    if (worker !== mine) return;
    worker = undefined;
    // The end of the worker also ends the answer that streams, which then reports it.
    if (state === "streaming") return;
    setState("error");
    showAlert(messageOf(error));
  };
  try {
    await Promise.all([loadRuntime(fail), loadEngines().then(showEngineAndPrompts)]);
  } catch (error) {
    return fail(error);
  }
  if (worker !== mine) return;
  performance.mark("detok-ready");
  setState("ready");
  const unfinished = recallUnfinished();
  const early = waiting;
  waiting = undefined;
  if (early) early();
  else if (unfinished) run(unfinished);
  else if (!playback.shownRecording()) begin();
}

/** Show what the address asks for, or the introduction. */
function begin() {
  if (isLinked()) void openLinked();
  else if (startsByItself) {
    sayStatus("Ready. The text of the address starts in a moment.");
    startTimer = setTimeout(start, READY_MS);
  } else if (!touched && !matchMedia("(prefers-reduced-motion: reduce)").matches) introduce();
}

/**
 * Show the engine, unless a stream is shown, and its prompts: the reciting model has a list of its
 * own; others are asked in their chat template.
 */
async function showEngineAndPrompts() {
  const engine = attached();
  if (!playback.shownRecording()) showEngine(engine);
  await loadPrompts(engine === undefined || engine.model === "recite.gguf");
}

// ---------------------------------------------------------------- a first visit

/** Whether the reader has done anything on this page. */
let touched = false;
for (const type of ["pointerdown", "keydown", "dragenter"])
  addEventListener(type, () => (touched = true), { once: true, capture: true });

/** The question of the introduction while that is shown. @type {Question | undefined} */
let introducing;

/**
 * Play one stream for a reader who has done nothing yet, at a pace that one can follow: a text of
 * the embedded model, or a short text if another engine is attached, because the reader has not
 * asked that engine for anything. The page stays ready.
 */
function introduce() {
  const byToken = isSite || attached()?.fidelity === "ids";
  playIntroduction(firstRecited() ?? introText(byToken ? "token" : "byte"));
}

/** @param {"token" | "byte"} cut */
const introText = (cut) => ownText(DEFAULT_TEXT, { cut, pace: 0, stop: [DEFAULT_STOP] });

/** @param {Question} question */
function playIntroduction(question) {
  playback.setSpeed(INTRO_PACE);
  run(question, { intro: true });
  introducing = question;
}

/** A stream that the reader starts has its own pace. */
function endIntroduction() {
  if (!introducing) return;
  introducing = undefined;
  answer?.cancel();
  playback.setSpeed(addressSpeed());
}

/** The speed that the address asks for, in tokens a second; 0 for none. */
function addressSpeed() {
  const given = Number(new URLSearchParams(location.search).get("speed"));
  return given > 0 && given < Infinity ? given : 0;
}

const TRY_AGAIN = { label: "Try again", action: () => void boot() };
const START_AGAIN = { label: "Start again", action: start };

// ---------------------------------------------------------------- an answer

function start() {
  clearTimeout(startTimer);
  if (startButton.disabled) return;
  const refused = refusal();
  if (refused) return showAlert(refused);
  writeAddress();
  const question = readForm();
  const id = Array.from(crypto.getRandomValues(new Uint8Array(16)), toHex).join("");
  const ask = () => run({ ...question, request: { ...question.request, id } });
  if (isReading()) stopReading(ask);
  else ask();
}

/**
 * Stream an answer: a new one, or one that already runs.
 * @param {Question} question
 * @param {{intro?: boolean}} [options]
 */
function run(question, { intro = false } = {}) {
  endIntroduction();
  // What had arrived of an answer stays until the rest comes: the bridge may not have it any more.
  const stays = question.request.resume && !loaded && playback.shownRecording();
  loaded = opening = withoutTokenizer = undefined;
  hideReading();
  showEntries([]);
  stopping = false;
  const focused = document.activeElement;
  const hadFocus = focused === startButton || alertHas(focused);
  const { request, lang, own } = question;
  if (!intro) keepUnfinished(question);
  hideAlert();
  dropped = undefined;
  sayStatus(intro ? "" : "Generating.");
  const recording = new Recording();
  recording.stop = request.stop;
  /** @type {import("./captures.js").Described} */
  const mine = { header: {} };
  let lostAt = 0;
  let sent = "";
  /** @type {Ending} */
  const ending = { state: "finished", sentence: "", reason: "" };
  let isShown = false;
  const show = () => {
    if (isShown) return;
    isShown = true;
    described = mine;
    playback.show(recording, "live", { lang, onEnd: () => conclude(ending) });
  };
  if (!stays) {
    show();
    const engine = own ? undefined : attached();
    showSource({ kind: own ? "text" : "engine", engine, streams: false });
  }
  setState(intro ? "ready" : "streaming");
  if (hadFocus) stopButton.focus();

  const current = (answer = ask({ ...runtimeOptions(), details: true, want: "both", ...request }));
  current.addEventListener("hello", ({ detail: { engine, vocabulary, format } }) => {
    if (lostAt || !dropped) hideAlert();
    mine.header = { protocol: "detok.v1", engine, vocabulary, ...channelOptions(request) };
    if (!own) showSource({ kind: "engine", engine, format, streams: !intro });
  });
  current.addEventListener("start", ({ detail: { id, data, format, start } }) => {
    if (!intro) keepUnfinished({ ...question, request: { ...request, resume: id } });
    const engine = own ? ownTextEngine(data, mine.header.engine) : mine.header.engine;
    mine.header.engine = engine;
    recording.unit = unitOf(engine?.fidelity, own && request.singleBytes);
    sent = data;
    recording.format = format;
    if (format) mine.header.chat_format = format;
    if (start) mine.header.start = start;
    const fidelity = fidelityOf(engine, data, recording.hasAllIds);
    showSource({ kind: own ? "text" : "engine", engine, fidelity, format, streams: !intro });
  });
  current.addEventListener("token", ({ detail: { rows = [], at, spent, count } }) => {
    lostAt = 0;
    show();
    const decoding = spent ? spent / 1000 / count : 0;
    for (const row of rows) recording.add(row, at, decoding);
    showFidelity(fidelityOf(mine.header.engine, sent, recording.hasAllIds));
    if (spent) playback.gauges.addDecoding(spent, count);
    playback.wake();
  });
  current.addEventListener("resume", ({ detail: { seconds, code } }) => {
    lostAt ||= performance.now();
    if (!stopping) showAlert(`${reasonFor(code)}. Trying again in ${seconds.toFixed(1)} s…`);
  });
  current.addEventListener("notice", ({ detail: { message } }) => showAlert(message));
  current.addEventListener("finish", ({ detail: { reason, note, error, text, at } }) => {
    // When the worker ended, the bridge goes on for a while, and a new worker resumes the answer.
    if (worker && !intro) forgetUnfinished();
    if (error && reason === "error") {
      mine.end = { type: "error", code: error.code, message: error.message };
      const restarted = error.code === 4410 && lostAt && performance.now() - lostAt < KEEP_MS;
      const sentence = restarted
        ? "The bridge was started again, and the new one does not know this answer. Start again to ask for all of it."
        : error.message;
      ending.state = "error";
      ending.sentence = sentence;
    } else {
      mine.end = { type: "finished", reason, note };
      ending.reason = reason;
      const skipped = own ? recording.specialNames : [];
      const [kind, it] =
        skipped.length > 1
          ? ["special tokens: they are", "them"]
          : ["a special token: it is", "it"];
      const special = skipped.length
        ? `Your text has ${skipped.join(", ")}, which the tokenizer reads as ${kind} skipped, as in an engine's stream. Cut the text into bytes to keep ${it}.`
        : "";
      ending.sentence = note || special || (reason === "length" ? AT_LIMIT : "");
    }
    if (!isShown) return answer === current ? conclude(ending) : undefined;
    const { engine } = mine.header;
    if (fidelityOf(engine, sent, recording.hasAllIds) === "ids" && recording.length)
      mine.header.engine = { ...engine, fidelity: "ids" };
    recording.end(text, at);
    playback.wake();
  });
}

/** Why a connection is tried again. @param {number} code */
function reasonFor(code) {
  if (code === 4503) return "The engine is not answering";
  if (code === 4429) return "The bridge is busy";
  return "The connection to the bridge was lost";
}

function stop() {
  if (state !== "streaming" || !answer) return;
  const stopped = answer;
  stopping = true;
  hideAlert();
  stopped.stop();
  setTimeout(() => stopped.cancel(), STOP_MS);
}

/** End the answer without a word. */
function stopNow() {
  const stopped = answer;
  answer = undefined;
  stopped?.cancel();
  playback.leave();
  setState("finished");
}

/**
 * @typedef {{state: "finished" | "error", sentence: string, reason: string}} Ending
 *   How an answer has ended: what is to be said of it, and the reason of its finish.
 */

const AT_LIMIT = "The answer ends here because it has reached its limit of tokens.";

/** The answer has ended, and its last step is on the page. @param {Ending} ending */
function conclude({ state: next, sentence, reason }) {
  if (introducing && state !== "ready") return; // Python starts again
  if (introducing && next === "finished") return setState("ready");
  // The engine failed, or has no vocabulary to cut a text by.
  if (introducing && introducing.request.params?.cut !== "byte")
    return playIntroduction(introText("byte"));
  const hadFocus = document.activeElement === stopButton;
  setState(next);
  if (hadFocus) startButton.focus({ preventScroll: true });
  if (next === "error") {
    const kept = (playback.shownRecording()?.length ?? 0) > 1;
    showAlert(
      kept ? `${sentence} What had arrived is kept below.` : sentence,
      worker ? START_AGAIN : undefined,
    );
    return sayStatus("");
  }
  const how = reason === "length" ? "Cut off" : "Complete";
  sayStatus(reason === "cancelled" ? "Stopped." : `${how}, ${playback.countedCharacters()}.`);
  const said = sentence || (worker ? "" : "Python has ended; the text stays.");
  if (!worker) {
    waiting = dropped?.open;
    return showAlert(said);
  }
  if (dropped)
    showAlert(said || "The stream has ended.", {
      label: `Open ${dropped.name}`,
      action: dropped.open,
    });
  else if (said) showAlert(said);
}

// ---------------------------------------------------------------- captures

/** Milliseconds until the page says that it reads a file, and between two reports of progress. */
const SLOW_MS = 400;
/**
 * Opens the file that is being read once more; another file takes its place.
 * @type {(() => void) | undefined}
 */
let opening;

/**
 * What is shown, as a file that can be read again; with its source, if that is not a file.
 * @type {{file: File, path?: string, entry?: number,
 *   source?: import("./source.js").Source} | undefined}
 */
let loaded;

/**
 * Open a file with a stream. If the reader has chosen a format, show the end of the stream.
 * @param {File} file
 * @param {{path?: string, format?: string, entry?: number,
 *   source?: import("./source.js").Source}} [choices]  Where the text of its events is; the format
 *   that the reader chose; the entry of a HAR file; the source, if that is not a file.
 */
async function open(file, { source, ...given } = {}) {
  const { path, format: choice, entry } = given;
  const choices = { path, format: choice, entry };
  const again = () => void open(file, { source, ...given });
  clearTimeout(startTimer);
  if (state === "loading") return void (waiting = again);
  if (state === "streaming") {
    dropped = { name: file.name, open: again };
    return showAlert("A stream is running. Stop it to open the file.", {
      label: "Stop and open",
      action: () => (stopNow(), again()),
    });
  }
  if (!worker) return void ((waiting = again), boot());
  if (isReading()) return stopReading(again);
  hideAlert();
  opening = again;
  const isWanted = () => opening === again;
  const began = performance.now();
  const size = (file.size / 1e6).toFixed(1);
  let count = "";
  let share = 0;
  const telling = setInterval(() => {
    const seconds = (performance.now() - began) / 1000;
    if (isWanted())
      showReading(`Reading ${file.name} (${size} MB), ${seconds.toFixed(0)} s${count}`, share);
  }, SLOW_MS);
  /** @param {number} read @param {number} total */
  const onProgress = (read, total) => {
    count = `, ${read.toLocaleString("en")} of ${total.toLocaleString("en")} events`;
    share = read / total;
  };
  try {
    const opened = await openCapture(file, { ...choices, onProgress }, isWanted);
    if (!opened || !isWanted()) return;
    endIntroduction();
    hideAlert();
    const { recording, fidelity, ids, said, markup, entries } = opened;
    described = opened.described;
    const { header, end } = described;
    const { format } = recording;
    loaded = { file, path, entry, source };
    showEntries(entries, header.source?.entry);
    if (choice) header.chat_format = choice;
    const shown = {
      kind: /** @type {const} */ ("capture"),
      file: file.name,
      engine: header.engine,
    };
    showSource({ ...shown, fidelity, ...source, format, choice });
    playback.show(recording, "playing");
    setState("finished");
    if (choice !== undefined) {
      playback.toEnd();
      return sayStatus(`Read again: ${format ? `in the format ${format}` : "in no format"}.`);
    }
    const units = `${recording.count} ${recording.unit}${recording.count === 1 ? "" : "s"}`;
    const seconds = recording.secondsOf(recording.timeOf(recording.length - 1), 1);
    const untimed = recording.steps ? `with times in ${recording.clock}` : "without their times";
    sayStatus(
      `${file.name}: ${units}, ${recording.timed ? `${seconds} second${seconds === "1" ? "" : "s"}` : untimed}.`,
    );
    withoutTokenizer = ids ? file : undefined;
    const sentences = [
      said,
      end?.note ?? "",
      ids ? describeIds(ids) : "",
      markup
        ? `Its text has tags as those of ${markup}; other formats, or a text about tags, may have them too.`
        : "",
    ].filter(Boolean);
    const readAs = markup
      ? { label: `Read it as ${markup}`, action: () => void redecode(markup) }
      : undefined;
    if (sentences.length)
      showAlert(`${file.name}: ${sentences.join(" ")}`, ids ? OPEN_TOKENIZER : readAs);
  } catch (error) {
    if (!isWanted()) return;
    showChoices();
    const reason = messageOf(error);
    withoutTokenizer = reason.includes("ids without their bytes") ? file : undefined;
    const [, maybe] = /Text may be in `([^`]+)`/.exec(reason) ?? [];
    const readPath = maybe && {
      label: `Read ${maybe}`,
      action: () => void open(file, { path: maybe }),
    };
    const wayOut = withoutTokenizer ? OPEN_TOKENIZER : readPath || undefined;
    const still = introducing ? " The page still shows its introduction." : stillShown();
    showAlert(`${file.name}: ${reason}${still}`, wayOut);
    sayStatus(`${file.name} was not opened.${still || " No stream is shown."}`);
  } finally {
    clearInterval(telling);
    if (isWanted()) {
      opening = undefined;
      hideReading();
    }
  }
}

/** Show the format and the entry of what is shown, where the reader's choice could not be read. */
function showChoices() {
  showSource(lastSource());
  showEntry(described.header.source?.entry);
}

/** Whether the reader has been told that a file is being read. */
const isReading = () => opening !== undefined && !element("reading", HTMLElement).hidden;

/** Stop the worker that reads a file, and start another one. @param {() => void} [next] */
function stopReading(next) {
  waiting = next;
  opening = worker = undefined;
  hideReading();
  shutDown();
  void boot();
}

/** What is done when Python is ready. @type {(() => void) | undefined} */
let waiting;

/** The file that came while an answer runs. @type {{name: string, open: () => void} | undefined} */
let dropped;

/** Read what is shown again. @param {string} format  Its name, "none", or "" for what is found. */
async function redecode(format) {
  const recording = playback.shownRecording();
  if (!worker || !recording) return;
  try {
    if (!loaded) {
      const text = await captureText(recording, described);
      if (playback.shownRecording() !== recording) return;
      loaded = { file: new File([text], "this stream"), source: lastSource() };
    }
    await open(loaded.file, { ...loaded, format });
  } catch (error) {
    showError(error);
  }
}

/** The file with ids that was opened last, until there is a tokenizer. @type {File | undefined} */
let withoutTokenizer;

const OPEN_TOKENIZER = { label: "Open its tokenizer…", action: () => button("import").click() };

/** @param {number} count */
const describeIds = (count) =>
  count === 1
    ? "It has 1 token id, and no tokenizer here reads it: this is the server's own text. Drop the model's tokenizer file to decode the id."
    : `It has ${count} token ids, and no tokenizer here reads them: this is the server's own text. Drop the model's tokenizer file to decode the ids.`;

/** @param {unknown} error */
const showError = (error) => showAlert(messageOf(error));

/** Open the capture that the address has. */
async function openLinked() {
  if (!isLinked()) return;
  await linkedCapture()
    .then((file) => open(file))
    .catch(showError);
}

async function save() {
  const recording = playback.shownRecording();
  if (worker && recording) await saveCapture(recording, described).catch(showError);
}

/**
 * Copy a text about what is shown, and say so, or why it is not copied.
 * @param {(recording: Recording) => string | Promise<string>} make
 * @param {string} copied
 * @param {string} failed
 */
async function copy(make, copied, failed) {
  const recording = playback.shownRecording();
  if (!recording) return;
  try {
    await copyText(() => make(recording));
    showAlert(copied);
  } catch (error) {
    showAlert(`${failed} ${messageOf(error)}`);
  }
}

function copyReport() {
  if (!worker) return;
  void copy(
    (recording) => reportText(recording, described),
    "The report is in the clipboard, as Markdown. It has the text of this stream, but not the prompt.",
    "The report could not be copied:",
  );
}

// ---------------------------------------------------------------- what the reader does

onSubmit(start);
stopButton.addEventListener("click", stop);
button("reading-cancel").addEventListener("click", () => {
  stopReading();
  showChoices();
  sayStatus("Cancelled.");
});
button("report").addEventListener("click", copyReport);
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || isHelpOpen()) return;
  if (event.key === "Escape") stop();
});
const take = async (/** @type {File} */ file) => {
  try {
    await takeFile((await captureIn(file)) ?? file, open, () => withoutTokenizer);
  } catch (error) {
    showError(error);
  }
};
onCapture(
  (file) => void take(file),
  () => void save(),
);
onPaste((file) => void take(file));
void offerSamples((file) => void take(file));
onCopyTest((make, label) => {
  const copied = `A test is in the clipboard: ${label}. It has the text of this stream.`;
  void copy(
    (recording) => make(recording, aboutStream(recording)),
    copied,
    "No test could be copied.",
  );
});
onRuntimeChange(() => {
  if (opening) stopReading(opening);
  else void boot();
});
onEngineChange(() => void showEngineAndPrompts());
onEntryChange((entry) => {
  if (loaded) void open(loaded.file, { path: loaded.path, entry });
});
onFormatChange((name) => {
  endIntroduction();
  void redecode(name);
});
addEventListener("hashchange", () => void openLinked());
if (addressSpeed()) playback.setSpeed(addressSpeed());
element("speed", HTMLSelectElement).addEventListener("change", ({ target }) => {
  const { value } = /** @type {HTMLSelectElement} */ (target);
  writeParameter("speed", value === "0" ? "" : value);
});
explainWords();
void boot();
