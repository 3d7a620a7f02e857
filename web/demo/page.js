/**
 * The page: boots the worker, asks for streams, and shows what came. The parts: recording.js (what came), player.js (where in
 * it the page is), panes.js and timeline.js (painting), gauges.js (numbers).
 */

import { PythonWorker } from "../src/client.js";
import { milliseconds, NumberList, Stopwatch } from "./gauges.js";
import { TextPane } from "./panes.js";
import { Player } from "./player.js";
import { hexOf, missingBytes, PANES, Recording, toHex } from "./recording.js";
import { Timeline } from "./timeline.js";

/** @typedef {"loading" | "ready" | "streaming" | "finished" | "error"} State */
/** @typedef {import("./recording.js").Pane} Pane */
/** @typedef {{id: string, title: string, lang: string, dir: string, prompt: string, text?: string}} Recited */

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
function element(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`The page has no ${type.name} #${id}.`);
  return found;
}

const ui = {
  controls: element("controls", HTMLFormElement),
  promptChoice: element("prompt-choice", HTMLSelectElement),
  prompt: element("prompt", HTMLInputElement),
  ownText: element("own-text", HTMLTextAreaElement),
  cut: element("cut", HTMLSelectElement),
  pace: element("pace", HTMLSelectElement),
  fault: element("fault", HTMLSelectElement),
  stopStrings: element("stop-strings", HTMLInputElement),
  start: element("start", HTMLButtonElement),
  stop: element("stop", HTMLButtonElement),
  loading: element("loading", HTMLElement),
  loadingBar: element("loading-bar", HTMLProgressElement),
  loadingStep: element("loading-step", HTMLElement),
  loadingBytes: element("loading-bytes", HTMLElement),
  alert: element("alert", HTMLElement),
  status: element("status", HTMLElement),
  hold: element("hold", HTMLElement),
  holdCells: element("hold-cells", HTMLElement),
  holdText: element("hold-text", HTMLElement),
  pause: element("pause", HTMLButtonElement),
  scrub: element("scrub", HTMLInputElement),
  position: element("position", HTMLOutputElement),
  speed: element("speed", HTMLSelectElement),
  export: element("export", HTMLButtonElement),
  import: element("import", HTMLButtonElement),
  importFile: element("import-file", HTMLInputElement),
  engineName: element("engine-name", HTMLElement),
  engineDevice: element("engine-device", HTMLElement),
  engineFidelity: element("engine-fidelity", HTMLElement),
};

const address = new URLSearchParams(location.search);
const OWN_PROMPT = "\u0000own";

/** @type {Record<Pane, TextPane>} */
const panes = /** @type {any} */ ({});
/** @type {Record<Pane, NumberList>} */
const tallies = /** @type {any} */ ({});
for (const name of PANES) {
  panes[name] = new TextPane(/** @type {HTMLElement} */ (document.querySelector(`[data-pane=${name}]`)), `broken-${name}`);
  tallies[name] = new NumberList(/** @type {HTMLElement} */ (document.querySelector(`[data-tally=${name}]`)), {
    replacements: "U+FFFD now · ever",
    surrogates: "Lone surrogates now · ever",
  });
}
const gauges = new NumberList(element("gauges", HTMLElement), {
  tokens: "Tokens",
  rate: "Tokens / s",
  added: "Added ms, p50 · p99",
  bytes: "Bytes held, now · most",
  characters: "Characters held, now · most",
});
const timeline = new Timeline(element("timeline", HTMLElement), (position) => player.seek(position));
const player = new Player(panes, timeline, onPaint);
const stopwatch = new Stopwatch();

/** @type {State} */
let state = "loading";
/** @type {PythonWorker | undefined} */
let python;
/** @type {import("../src/client.js").EngineStream | undefined} */
let stream;
/** When the stream's first data came, in milliseconds since 1970. */
let begun = 0;
/** @type {{sentence: string, state: State} | undefined} How the stream ended, until its last step is painted. */
let ending;
/** What a capture of the stream says at its head and at its end. @type {{header: Record<string, unknown>, end: object | undefined}} */
let described = { header: {}, end: undefined };
let mostBytes = 0;
let mostCharacters = 0;
let gaugesDue = 0;
/** @type {Recited[]} */
let recited = [];
/** @type {ReturnType<typeof setTimeout> | undefined} */
let startSoon;
/** The text of the address, as it is there: a text area would make its line ends one kind. */
const addressText = address.get("text") ?? "";

/** The text to stream: as typed, or as in the address while nobody has typed. */
function ownText() {
  return ui.ownText.value === addressText.replace(/\r\n?/g, "\n") ? addressText : ui.ownText.value;
}

/**
 * The answer that is coming, in this tab at this address: a page that is loaded again, or has a new worker, takes it up from its beginning.
 * Before the bridge was heard, nobody knows whether it was asked; then it is asked again under the same id, which makes one answer.
 * Where the browser keeps nothing for a page, it asks anew.
 *
 * @typedef {{request: import("../src/client.js").StreamRequest, lang: string}} Coming
 */
const unfinished = {
  /** @param {Coming} answer */
  keep(answer) {
    try {
      sessionStorage.setItem("detok-answer", JSON.stringify({ ...answer, search: location.search }));
    } catch {
      // full, or refused
    }
  },
  forget() {
    try {
      sessionStorage.removeItem("detok-answer");
    } catch {
      // refused: nothing is kept
    }
  },
  /** @returns {Coming | undefined} */
  recall() {
    try {
      const kept = JSON.parse(sessionStorage.getItem("detok-answer") ?? "{}");
      return kept.request?.id && kept.search === location.search ? kept : undefined;
    } catch {
      return undefined;
    }
  },
};

/** @param {State} next */
function setState(next) {
  state = next;
  document.documentElement.dataset.state = next;
  ui.start.disabled = !(next === "ready" || next === "finished" || next === "error") || !python;
  ui.stop.disabled = next !== "streaming";
  ui.loading.hidden = next !== "loading";
}

/** @param {string} sentence @param {{label: string, action: () => void}} [way] */
function showAlert(sentence, way) {
  ui.alert.textContent = sentence;
  if (way) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = way.label;
    button.addEventListener("click", way.action);
    ui.alert.append(" ", button);
  }
  ui.alert.hidden = false;
}

function hideAlert() {
  ui.alert.hidden = true;
  ui.alert.textContent = "";
}

// ---------------------------------------------------------------- boot

async function boot() {
  hideAlert();
  setState("loading");
  const before = python;
  python = undefined;
  before?.close();
  const worker = (python = new PythonWorker({
    runtimeUrl: "/runtime/",
    timeout: Number(address.get("boot-timeout")) || 30_000,
    onProgress: ({ step, loaded, total }) => {
      ui.loadingStep.textContent = step;
      if (total) ui.loadingBar.value = loaded / total;
      ui.loadingBytes.textContent = total ? `${(loaded / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB` : "";
    },
    // It comes before the end of the stream that it ends, so that this is the worker's death and not the bridge's.
    onGone: (error) => {
      if (worker !== python || state === "loading") return;
      python = undefined;
      if (state === "streaming") return;
      setState("error");
      showAlert(error.message, { label: "Try again", action: () => void boot() });
    },
  }));
  try {
    await Promise.all([worker.ready, loadTexts(), loadInfo()]);
  } catch (error) {
    if (worker !== python) return;
    python = undefined;
    setState("error");
    showAlert(error instanceof Error ? error.message : String(error), { label: "Try again", action: () => void boot() });
    return;
  }
  performance.mark("detok-ready");
  setState("ready");
  const coming = unfinished.recall();
  if (coming) return run(coming.request, coming.lang);
  if (address.has("text") || address.has("prompt") || address.has("start")) {
    // `ready` stays for a moment, so that whoever waits for it sees it.
    ui.status.textContent = "Ready. The text of the address starts in a moment.";
    startSoon = setTimeout(start, 1000);
  }
}

/** The texts that the embedded engine can recite; none where another engine is attached. */
async function loadTexts() {
  try {
    const response = await fetch("/texts.json");
    recited = response.ok ? await response.json() : [];
  } catch {
    recited = [];
  }
  ui.promptChoice.textContent = "";
  for (const { id, title } of recited) ui.promptChoice.append(new Option(title, id));
  ui.promptChoice.append(new Option("Your own prompt…", OWN_PROMPT));
  const wanted = address.get("prompt");
  if (wanted !== null) {
    const known = recited.find(({ id, prompt }) => id === wanted || prompt === wanted);
    ui.promptChoice.value = known ? known.id : OWN_PROMPT;
    if (!known) ui.prompt.value = wanted;
  }
  showPromptField();
}

async function loadInfo() {
  try {
    const response = await fetch("/info");
    if (response.ok) showEngine((await response.json()).engine);
  } catch {
    // The stream's hello says it again.
  }
}

/** What a fidelity means, in two words. @type {Record<string, string>} */
const FIDELITIES = { ids: "token ids, exact", bytes: "bytes, exact", text: "text only" };

/** @param {{name?: string, model?: string | null, device?: string | null, fidelity?: string} | undefined} engine */
function showEngine(engine) {
  if (!engine) return;
  ui.engineName.textContent = [engine.name, engine.model].filter(Boolean).join(" · ") || "unknown";
  ui.engineDevice.textContent = engine.device || "not reported";
  ui.engineFidelity.textContent = FIDELITIES[engine.fidelity ?? ""] ?? "unknown";
}

// ---------------------------------------------------------------- stream

/** What the form asks for. @returns {{request: import("../src/client.js").StreamRequest, lang: string}} */
function readForm() {
  const source = new FormData(ui.controls).get("source");
  const stop = ui.stopStrings.value ? [ui.stopStrings.value] : [];
  if (source === "text") {
    const text = ownText();
    const params = { engine: "scripted", text, cut: ui.cut.value, pace: Number(ui.pace.value), faults: faultsFor(ui.fault.value, text), seed: 1 };
    return { request: { prompt: "", params, want: "both", stop, single_bytes: ui.cut.value === "byte" }, lang: "" };
  }
  const chosen = recited.find(({ id }) => id === ui.promptChoice.value);
  return { request: { prompt: chosen ? chosen.prompt : ui.prompt.value, params: {}, want: "both", stop }, lang: chosen?.lang ?? "" };
}

/**
 * What the scripted engine is asked to do wrong. Positions are in bytes: the end and the crash fall inside a character where the
 * text has one of more than a byte.
 * @param {string} fault
 * @param {string} text
 */
function faultsFor(fault, text) {
  const bytes = new TextEncoder().encode(text);
  const middle = Math.floor(bytes.length / 2);
  const inside = bytes.findIndex((byte, at) => at > middle && byte >= 0x80 && byte < 0xc0);
  const last = bytes.findLastIndex((byte) => byte >= 0x80 && byte < 0xc0);
  if (fault === "invalid") return { invalid: 0.05 };
  if (fault === "truncate") return { end: last < 0 ? bytes.length : last };
  if (fault === "stall") return { stall: [middle, 3] };
  if (fault === "crash") return { crash: inside < 0 ? middle : inside };
  return {};
}

function start() {
  clearTimeout(startSoon);
  if (!python || state === "streaming" || state === "loading") return;
  const { request, lang } = readForm();
  const id = Array.from(crypto.getRandomValues(new Uint8Array(16)), toHex).join("");
  run({ ...request, id }, lang);
}

/**
 * Stream an answer: one that is asked for now, or one that is coming already.
 * @param {import("../src/client.js").StreamRequest} request
 * @param {string} lang
 */
function run(request, lang) {
  if (!python) return;
  unfinished.keep({ request, lang });
  hideAlert();
  const recording = new Recording();
  stopwatch.clear();
  begun = mostBytes = mostCharacters = 0;
  ending = undefined;
  described = { header: {}, end: undefined };
  for (const name of PANES) panes[name].element.lang = lang;
  player.load(recording, "live");
  showPlayback();
  setState("streaming");
  ui.status.textContent = "Generating.";
  const current = (stream = python.open("/stream", request));

  /** @param {string} type @param {(detail: any) => void} listener */
  const on = (type, listener) =>
    current.addEventListener(type, (event) => {
      if (current === stream) listener(/** @type {CustomEvent} */ (event).detail);
    });
  on("hello", ({ engine, vocabulary }) => {
    showEngine(engine);
    hideAlert();
    described.header = { protocol: "detok.v1", engine, vocabulary };
  });
  on("started", ({ id }) => unfinished.keep({ request: { ...request, resume: id }, lang }));
  on("tokens", ({ rows, at }) => {
    begun ||= at;
    for (const row of rows) {
      recording.add(row, at - begun);
      stopwatch.arrived(at);
    }
    player.wake();
  });
  on("retry", ({ seconds, code }) => {
    const what = code === 4503 ? "The engine is not answering" : code === 4429 ? "The bridge is busy" : "The connection to the bridge was lost";
    showAlert(`${what}. Trying again in ${seconds.toFixed(1)} s…`);
  });
  on("notice", ({ message }) => showAlert(message));
  on("finished", ({ text, reason, note, at }) => {
    unfinished.forget();
    recording.end(text, begun ? at - begun : 0);
    described.end = { type: "finished", reason, note };
    ending = { state: "finished", sentence: note || (reason === "cancelled" ? "Stopped." : "") };
    player.wake();
  });
  on("failed", ({ text, message, code, at }) => {
    if (python) unfinished.forget(); // the bridge goes on for a while when it was the worker that ended
    recording.end(text, begun ? at - begun : 0);
    described.end = { type: "error", code, message };
    ending = { state: "error", sentence: message };
    player.wake();
  });
}

function stopStream() {
  if (state !== "streaming" || !stream) return;
  stream.cancel();
  const stopped = stream;
  // A bridge that doesn't answer a cancel isn't waited for.
  setTimeout(() => {
    if (!stopped.over) stopped.giveUp();
  }, 1500);
}

/** The stream has ended and its last step is on the page (or the reader is somewhere else in it). */
function conclude() {
  if (!ending || state !== "streaming") return;
  const { state: next, sentence } = ending;
  setState(next);
  if (next === "error") {
    const kept = player.recording?.steps.length ?? 0;
    const way = python ? { label: "Start again", action: start } : { label: "Try again", action: () => void boot() };
    showAlert(kept > 1 ? `${sentence} What had arrived is kept below.` : sentence, way);
    ui.status.textContent = "";
  } else {
    if (sentence && sentence !== "Stopped.") showAlert(sentence);
    const words = panes.held.element.textContent?.trim().split(/\s+/).filter(Boolean).length ?? 0;
    ui.status.textContent = sentence === "Stopped." ? "Stopped." : `Complete, ${words} words.`;
  }
}

// ---------------------------------------------------------------- painting

/** @param {{from: number, to: number}} painted */
function onPaint({ from, to }) {
  const { recording } = player;
  if (!recording) return;
  if (player.mode === "live" && to > from && begun) measurePaint(recording, from, to);
  const last = recording.steps[to - 1];
  showHold(last?.heldBytes ?? new Uint8Array(0), last?.heldText ?? "");
  for (const { heldBytes, heldText } of recording.steps.slice(from, Math.max(from, to))) {
    mostBytes = Math.max(mostBytes, heldBytes.length);
    mostCharacters = Math.max(mostCharacters, [...heldText].length);
  }
  const due = to === from || ending !== undefined || player.mode !== "live" || performance.now() >= gaugesDue;
  if (ending && (player.atEnd || player.mode !== "live")) conclude();
  if (!due) return;
  gaugesDue = performance.now() + 100;
  showNumbers();
  showPlayback();
}

/** @param {Recording} recording @param {number} from @param {number} to */
function measurePaint(recording, from, to) {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    // A task after the frame's rendering: what was appended has been painted.
    const now = performance.timeOrigin + performance.now();
    for (const { at, end, text } of recording.steps.slice(from, to)) if (text.held && !end) stopwatch.painted(begun + at, now);
    port1.close();
  };
  port2.postMessage(null);
}

/** @param {Uint8Array} held @param {string} heldText */
function showHold(held, heldText) {
  const key = Array.from(held).join() + heldText;
  if (ui.hold.dataset.key === key) return;
  ui.hold.dataset.key = key;
  ui.holdCells.textContent = "";
  for (const byte of held) ui.holdCells.append(holdCell(toHex(byte), "byte held waiting"));
  const missing = missingBytes(held);
  for (let i = 0; i < missing; i++) ui.holdCells.append(holdCell("··", "byte missing"));
  if (heldText) ui.holdCells.append(holdCell(heldText, "held-text"));
  const hex = Array.from(held, toHex).join(" ");
  const parts = [];
  if (held.length) parts.push(`${hex} needs ${missing} more`);
  if (heldText) parts.push(`${heldText.length} characters could begin a stop string`);
  ui.holdText.textContent = parts.join("; ") || "nothing is held";
}

/** @param {string} text @param {string} kind */
function holdCell(text, kind) {
  const cell = document.createElement("b");
  cell.className = kind;
  cell.textContent = text;
  return cell;
}

function showNumbers() {
  const last = player.recording?.steps[player.position - 1];
  for (const name of PANES) {
    const { replacements, surrogates } = panes[name];
    tallies[name].set("replacements", `${replacements.now} · ${replacements.ever}`, replacements.ever > 0);
    tallies[name].set("surrogates", `${surrogates.now} · ${surrogates.ever}`, surrogates.ever > 0);
  }
  gauges.set("tokens", String(stopwatch.tokens));
  gauges.set("rate", stopwatch.rate ? stopwatch.rate.toFixed(stopwatch.rate < 100 ? 1 : 0) : "–");
  gauges.set("added", `${milliseconds(stopwatch.within(0.5))} · ${milliseconds(stopwatch.within(0.99))}`);
  gauges.set("bytes", `${last?.heldBytes.length ?? 0} · ${mostBytes}`);
  gauges.set("characters", `${[...(last?.heldText ?? "")].length} · ${mostCharacters}`);
}

function showPlayback() {
  const length = player.length;
  ui.scrub.max = String(length);
  ui.scrub.value = String(player.position);
  ui.position.textContent = `${player.position} / ${length}`;
  const going = player.mode === "playing" || (player.mode === "live" && state === "streaming");
  ui.pause.textContent = going ? "Pause" : "Play";
  ui.pause.disabled = !length && state !== "streaming";
  ui.export.disabled = !length || !python;
  ui.import.disabled = !python || state === "streaming";
  document.documentElement.dataset.playback = player.mode;
}

// ---------------------------------------------------------------- what the reader does

function togglePause() {
  if (player.mode === "playing" || (player.mode === "live" && state === "streaming")) player.pause();
  else player.play();
}

function nextFault() {
  const at = player.recording?.nextFault(player.position) ?? -1;
  if (at >= 0) player.seek(at + 1);
  else ui.status.textContent = "No later token was broken.";
}

/** Open a recorded stream and play it. @param {File} file */
async function openCapture(file) {
  if (!python || state === "streaming") return;
  hideAlert();
  let capture;
  try {
    capture = await python.readCapture(await file.text());
  } catch (error) {
    showAlert(`${file.name}: ${error instanceof Error ? error.message : error}`);
    return;
  }
  const recording = new Recording();
  stopwatch.clear();
  begun = mostBytes = mostCharacters = 0;
  ending = undefined;
  described = { header: capture.header, end: undefined };
  for (const [seconds, row] of capture.rows) recording.add(row, seconds * 1000);
  recording.end(capture.text, capture.seconds * 1000);
  showEngine(capture.header.engine);
  for (const name of PANES) panes[name].element.lang = "";
  stopwatch.tokens = capture.rows.length;
  setState("finished");
  ui.status.textContent = `${file.name}: ${capture.rows.length} tokens, ${capture.seconds.toFixed(1)} seconds.`;
  player.load(recording, "playing");
}

/** Save the stream on the page as a capture. The prompt isn't in it. */
async function saveCapture() {
  const { recording } = player;
  if (!python || !recording) return;
  const tokens = recording.steps.filter(({ end }) => !end);
  const text = await python.writeCapture({
    header: described.header,
    rows: tokens.map(({ at, id, bytes }) => [at / 1000, id, hexOf(bytes)]),
    seconds: (recording.steps.at(-1)?.at ?? 0) / 1000,
    end: described.end,
  });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  link.download = `${new Date().toISOString().slice(0, 19).replace(/[T:]/g, "-")}.detok.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function showPromptField() {
  ui.prompt.hidden = ui.promptChoice.value !== OWN_PROMPT;
}

function showSource() {
  const source = new FormData(ui.controls).get("source");
  for (const field of ui.controls.querySelectorAll("[data-for]")) {
    if (field instanceof HTMLElement) field.hidden = field.dataset.for !== source;
  }
}

ui.controls.addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
ui.controls.addEventListener("change", () => {
  showSource();
  showPromptField();
});
ui.stop.addEventListener("click", stopStream);
ui.pause.addEventListener("click", togglePause);
ui.scrub.addEventListener("input", () => player.seek(Number(ui.scrub.value)));
ui.speed.addEventListener("change", () => player.setSpeed(Number(ui.speed.value)));
element("to-start", HTMLButtonElement).addEventListener("click", () => player.seek(0));
element("step-back", HTMLButtonElement).addEventListener("click", () => player.step(-1));
element("step", HTMLButtonElement).addEventListener("click", () => player.step(1));
element("to-end", HTMLButtonElement).addEventListener("click", () => player.follow());
element("next-fault", HTMLButtonElement).addEventListener("click", nextFault);

ui.export.addEventListener("click", () => void saveCapture());
ui.import.addEventListener("click", () => ui.importFile.click());
ui.importFile.addEventListener("change", () => {
  const file = ui.importFile.files?.[0];
  ui.importFile.value = "";
  if (file) void openCapture(file);
});
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  const file = event.dataTransfer?.files[0];
  if (file) void openCapture(file);
});

/** @type {Record<string, () => void>} */
const keys = {
  " ": togglePause,
  ArrowLeft: () => player.step(-1),
  ArrowRight: () => player.step(1),
  ",": () => player.step(-1),
  ".": () => player.step(1),
  Home: () => player.seek(0),
  End: () => player.follow(),
  f: nextFault,
  Escape: stopStream,
};
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  // Keys belong to the field, button or scrolling text that has the focus.
  if (event.target instanceof Element && event.target.closest("input, select, textarea, button, summary, [role=log]") && event.key !== "Escape") return;
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

if (address.has("text")) {
  /** @type {HTMLInputElement} */ (ui.controls.querySelector("[name=source][value=text]")).checked = true;
  ui.ownText.value = addressText;
}
if (address.get("cut") === "byte") ui.cut.value = "byte";
for (const [name, field] of /** @type {[string, HTMLSelectElement][]} */ ([["pace", ui.pace], ["fault", ui.fault]])) {
  const wanted = address.get(name);
  if (wanted === null) continue;
  if (![...field.options].some(({ value }) => value === wanted)) field.append(new Option(wanted, wanted));
  field.value = wanted;
}
if (address.has("stop")) ui.stopStrings.value = address.get("stop") ?? "";
showSource();
showNumbers();
showPlayback();
void boot();
