/**
 * The page: starts Python, asks for an answer, and records what comes.
 *
 * `<html data-state>` says where it is: loading → ready → streaming → finished or error, from which Start leads to
 * streaming again. Everything that is shown has a file of its own: form.js, runtime.js, engine.js, notices.js,
 * playback.js, captures.js.
 */

import { ask } from "./ask.js";
import { allowCaptures, onCapture, openCapture, saveCapture } from "./captures.js";
import { button } from "./dom.js";
import { loadEngine, showEngine } from "./engine.js";
import { loadPrompts, onSubmit, readForm, startsByItself } from "./form.js";
import { offerSamples, onPaste, takeFile } from "./imports.js";
import { hideAlert, messageOf, sayStatus, showAlert } from "./notices.js";
import * as playback from "./playback.js";
import { Recording, toHex } from "./recording.js";
import { loadRuntime, onRuntimeChange, runtimeOptions, showRuntime } from "./runtime.js";
import { forgetUnfinished, keepUnfinished, recallUnfinished } from "./unfinished.js";

/** @typedef {"loading" | "ready" | "streaming" | "finished" | "error"} State */
/** @typedef {import("./form.js").Question} Question */
/** @typedef {import("../src/index.js").Answer} Answer */

/** How long `ready` stays before the address starts a stream, so that it can be seen. */
const READY_MS = 1000;
/** How long a bridge has to answer Stop. */
const STOP_MS = 1500;

const startButton = button("start");
const stopButton = button("stop");

/** @type {State} */
let state = "loading";
/** Identifies the worker of the latest boot; undefined when it has ended. @type {symbol | undefined} */
let worker;
/** @type {Answer | undefined} */
let answer;
/** What a capture of the stream says at its head and at its end. @type {{header: Record<string, unknown>, end: object | undefined}} */
let described = { header: {}, end: undefined };
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
    showAlert(messageOf(error), TRY_AGAIN);
  };
  try {
    await Promise.all([loadRuntime(fail), loadPrompts(), loadEngine()]);
  } catch (error) {
    return fail(error);
  }
  if (worker !== mine) return;
  performance.mark("detok-ready");
  setState("ready");
  const unfinished = recallUnfinished();
  if (unfinished) run(unfinished);
  else if (startsByItself) {
    sayStatus("Ready. The text of the address starts in a moment.");
    startTimer = setTimeout(start, READY_MS);
  }
}

const TRY_AGAIN = { label: "Try again", action: () => void boot() };
const START_AGAIN = { label: "Start again", action: start };

// ---------------------------------------------------------------- an answer

function start() {
  clearTimeout(startTimer);
  if (startButton.disabled) return;
  const { request, lang } = readForm();
  const id = Array.from(crypto.getRandomValues(new Uint8Array(16)), toHex).join("");
  run({ request: { ...request, id }, lang });
}

/** Stream an answer: one that is asked for now, or one that is coming already. @param {Question} question */
function run({ request, lang }) {
  keepUnfinished({ request, lang });
  hideAlert();
  sayStatus("Generating.");
  const recording = new Recording();
  described = { header: {}, end: undefined };
  /** @type {{state: "finished" | "error", sentence: string}} */
  let ending = { state: "finished", sentence: "" };
  playback.show(recording, "live", { lang, onEnd: () => conclude(ending) });
  setState("streaming");

  const current = (answer = ask({ ...runtimeOptions(), details: true, want: "both", ...request }));
  current.addEventListener("hello", ({ detail: { engine, vocabulary } }) => {
    showEngine(engine);
    hideAlert();
    described.header = { protocol: "detok.v1", engine, vocabulary };
  });
  current.addEventListener("start", ({ detail: { id } }) =>
    keepUnfinished({ request: { ...request, resume: id }, lang }),
  );
  current.addEventListener("token", ({ detail: { rows = [], at } }) => {
    for (const row of rows) recording.add(row, at);
    playback.wake();
  });
  current.addEventListener("resume", ({ detail: { seconds, code } }) =>
    showAlert(`${reasonFor(code)}. Trying again in ${seconds.toFixed(1)} s…`),
  );
  current.addEventListener("notice", ({ detail: { message } }) => showAlert(message));
  current.addEventListener("finish", ({ detail: { reason, note, error, text, at } }) => {
    // When the worker ended, the bridge goes on for a while, and a new worker resumes the answer.
    if (worker) forgetUnfinished();
    if (error && reason === "error") {
      described.end = { type: "error", code: error.code, message: error.message };
      ending = { state: "error", sentence: error.message };
    } else {
      described.end = { type: "finished", reason, note };
      ending.sentence = note || (reason === "cancelled" ? "Stopped." : "");
    }
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
  stopped.stop();
  setTimeout(() => stopped.cancel(), STOP_MS);
}

/** The answer is over and its last step is on the page. @param {{state: "finished" | "error", sentence: string}} ending */
function conclude({ state: next, sentence }) {
  setState(next);
  if (next === "error") {
    const kept = (playback.shownRecording()?.length ?? 0) > 1;
    showAlert(
      kept ? `${sentence} What had arrived is kept below.` : sentence,
      worker ? START_AGAIN : TRY_AGAIN,
    );
    sayStatus("");
  } else if (sentence === "Stopped.") sayStatus(sentence);
  else {
    if (sentence) showAlert(sentence);
    sayStatus(`Complete, ${playback.countWords()} words.`);
  }
}

// ---------------------------------------------------------------- captures

/** @param {File} file */
async function open(file) {
  if (!worker || state === "streaming" || state === "loading") return;
  hideAlert();
  try {
    const { header, recording, tokens, seconds, end, said } = await openCapture(file);
    described = { header, end };
    showEngine(header.engine);
    playback.show(recording, "playing");
    setState("finished");
    sayStatus(`${file.name}: ${tokens} tokens, ${seconds.toFixed(1)} seconds.`);
    if (said) showAlert(`${file.name}: ${said}`);
  } catch (error) {
    showAlert(`${file.name}: ${messageOf(error)}`);
  }
}

async function save() {
  const recording = playback.shownRecording();
  if (!worker || !recording) return;
  try {
    await saveCapture(recording, described);
  } catch (error) {
    showAlert(messageOf(error));
  }
}

// ---------------------------------------------------------------- what the reader does

onSubmit(start);
stopButton.addEventListener("click", stop);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.defaultPrevented) stop();
});
const take = (/** @type {File} */ file) => void takeFile(file, open);
onCapture(take, () => void save());
onPaste(take);
void offerSamples(take);
onRuntimeChange(() => void boot());
void boot();
